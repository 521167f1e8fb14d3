//! The identity of a network function at the NRF.

use std::fmt;
use std::str::FromStr;

use ring::digest::{SHA256, digest};

/// A UUID in the form of version 4. Spec: TS 29.571 §5.3.2, RFC 9562 §5.4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NfInstanceUuid([u8; 16]);

impl NfInstanceUuid {
    /// Derives the identity from a Node ID, so that both adits of a pair have the same identity,
    /// and keep it without a file.
    #[must_use]
    pub fn of_node(node_id: &str) -> Self {
        let hash = digest(&SHA256, format!("adit nfInstanceId {node_id}").as_bytes());
        let mut octets = [0; 16];
        octets.iter_mut().zip(hash.as_ref()).for_each(|(octet, of_hash)| *octet = *of_hash);
        octets[6] = octets[6] & 0x0f | 0x40;
        octets[8] = octets[8] & 0x3f | 0x80;
        Self(octets)
    }
}

/// A text that is no UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("takes a UUID such as \"4947a69a-f61b-4bc1-b9da-47c9c5d14b64\"")]
pub struct NfInstanceUuidError;

impl FromStr for NfInstanceUuid {
    type Err = NfInstanceUuidError;

    fn from_str(text: &str) -> Result<Self, NfInstanceUuidError> {
        let is_dash = |at: usize| matches!(at, 8 | 13 | 18 | 23);
        let has_form = text.len() == 36
            && text.bytes().enumerate().all(|(at, octet)| match is_dash(at) {
                true => octet == b'-',
                false => octet.is_ascii_hexdigit(),
            });
        let number = u128::from_str_radix(&text.replace('-', ""), 16);
        let number = number.ok().filter(|_| has_form).ok_or(NfInstanceUuidError)?;
        Ok(Self(number.to_be_bytes()))
    }
}

impl fmt::Display for NfInstanceUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, octet) in self.0.iter().enumerate() {
            let dash = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{octet:02x}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_of_a_node_is_a_uuid_of_version_4_and_stays() {
        let id = NfInstanceUuid::of_node("10.0.4.1");
        assert_eq!(id, NfInstanceUuid::of_node("10.0.4.1"));
        assert_ne!(id, NfInstanceUuid::of_node("10.0.4.2"));
        let text = id.to_string();
        assert_eq!((&text[14..15], text.parse()), ("4", Ok(id)));
        assert!(matches!(&text[19..20], "8" | "9" | "a" | "b"), "{text}");
    }

    #[test]
    fn text_that_is_no_uuid_is_refused() {
        let id = "4947A69A-f61b-4bc1-b9da-47c9c5d14b64".parse::<NfInstanceUuid>().unwrap();
        assert_eq!(id.to_string(), "4947a69a-f61b-4bc1-b9da-47c9c5d14b64");
        for text in [
            "",
            "upf-1",
            "4947a69af61b4bc1b9da47c9c5d14b64",
            "4947a69a-f61b-4bc1-b9da-47c9c5d14b6",
            "4947a69a-f61b-4bc1-b9da-47c9c5d14b6g",
            "4947a69a-f61b-4bc1-b9da+47c9c5d14b64",
            "+947a69a-f61b-4bc1-b9da-47c9c5d14b64",
        ] {
            assert_eq!(text.parse::<NfInstanceUuid>(), Err(NfInstanceUuidError), "{text}");
        }
    }
}
