//! Octets of a Network Instance.

use adit_lab_process::stop::environment;
use adit_pfcp::ie::Fqdn;
use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;

/// Maximum length of an APN as labels, length octets included. Spec: TS 23.003 §9.1.
const APN_LEN_MAX: usize = 100;

/// Encoding of a Network Instance. UPFs compare octets, so the SMF must send the form of their
/// configuration. Spec: TS 29.244 §8.2.4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum InstanceEncoding {
    /// The name as text.
    #[default]
    Text,
    /// The labels of a domain name, each after its length, as in an APN or DNN.
    Dns,
}

impl InstanceEncoding {
    /// Returns the octets of `name`. Labels have no final zero octet. Spec: TS 23.003 §9.1.
    ///
    /// # Errors
    /// [`Self::Dns`]: a label is empty or longer than 63 octets, or all together exceed 100 octets.
    pub fn octets(self, name: &str) -> Result<Vec<u8>> {
        match self {
            Self::Text => Ok(name.as_bytes().to_vec()),
            Self::Dns => labels(name).ok_or_else(|| {
                environment(format!(
                    "network instance \"{name}\": labels of a DNS name have 1 to 63 octets each, and with \
                     their length octets at most {APN_LEN_MAX} together"
                ))
            }),
        }
    }
}

fn labels(name: &str) -> Option<Vec<u8>> {
    // A domain name may end in a dot, an APN may not.
    let domain = Fqdn::from_text(name).filter(|_| !name.ends_with('.'))?;
    let mut octets = Vec::with_capacity(name.len() + 1);
    for label in domain.labels() {
        octets.push(u8::try_from(label.len()).ok()?);
        octets.extend_from_slice(label);
    }
    (octets.len() <= APN_LEN_MAX).then_some(octets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instance_is_text_or_labels() {
        let octets = |encoding: InstanceEncoding, name| encoding.octets(name).unwrap();
        assert_eq!(InstanceEncoding::default(), InstanceEncoding::Text);
        assert_eq!(octets(InstanceEncoding::Text, "ims.example"), b"ims.example");
        assert_eq!(octets(InstanceEncoding::Dns, "internet"), b"\x08internet");
        assert_eq!(octets(InstanceEncoding::Dns, "ims.example"), b"\x03ims\x07example");
        let longest = "a".repeat(63);
        assert_eq!(octets(InstanceEncoding::Dns, &longest), format!("\x3f{longest}").as_bytes());
    }

    #[test]
    fn name_that_is_no_domain_name_has_no_labels() {
        let too_long = format!("{0}.{0}", "a".repeat(50));
        for name in ["", "ims.", ".ims", "a..b", &"a".repeat(64), &"a".repeat(256), &too_long] {
            let error = InstanceEncoding::Dns.octets(name).unwrap_err().to_string();
            assert!(error.contains(&format!("\"{name}\"")), "{error}");
            assert_eq!(InstanceEncoding::Text.octets(name).unwrap(), name.as_bytes());
        }
    }
}
