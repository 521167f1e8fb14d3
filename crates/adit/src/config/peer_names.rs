//! Peers of `n4.connect`: addresses, or names that are resolved while adit runs.

use core::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// A control plane function with which adit sets up an association.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ConfiguredPeer {
    Address(SocketAddr),
    /// The name of a host, and a UDP port.
    Name {
        host: String,
        port: u16,
    },
}

impl ConfiguredPeer {
    /// Returns the peer's address; an unspecified one while its name is not resolved.
    pub(crate) fn address(&self, listen: SocketAddr) -> SocketAddr {
        let nobody: IpAddr = match listen {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        match *self {
            Self::Address(address) => address,
            Self::Name { port, .. } => SocketAddr::new(nobody, port),
        }
    }
}

impl FromStr for ConfiguredPeer {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            // Refused, since the unspecified address stands for a name that is not resolved.
            return if address.ip().is_unspecified() {
                Err(())
            } else {
                Ok(Self::Address(address))
            };
        }
        let (host, port) = text.rsplit_once(':').ok_or(())?;
        let port = port.parse().map_err(|_| ())?;
        let is_name = is_fqdn(host) && host.parse::<IpAddr>().is_err();
        let host = Some(host.to_owned()).filter(|_| is_name && port > 0).ok_or(())?;
        Ok(Self::Name { host, port })
    }
}

impl fmt::Display for ConfiguredPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

/// True if `text` is a domain name: labels of letters, digits and hyphens with at most 63 octets
/// each, with a letter in one of them. Spec: RFC 1035 §2.3.1.
pub(super) fn is_fqdn(text: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253
        && text.bytes().any(|byte| byte.is_ascii_alphabetic())
        && text.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peer_is_an_address_or_a_name_with_a_port() {
        for text in ["10.0.4.1:8805", "[2001:db8::1]:8805", "smf.example.org:8805", "smf:1"] {
            assert_eq!(text.parse::<ConfiguredPeer>().unwrap().to_string(), text);
        }
        for wrong in [
            "",
            "smf",
            "smf:",
            "smf:0",
            "smf:70000",
            "-smf:8805",
            "a b:8805",
            "10.0.4:8805",
            "0.0.0.0:8805",
            "[::]:8805",
        ] {
            assert!(wrong.parse::<ConfiguredPeer>().is_err(), "{wrong}");
        }
        let name: ConfiguredPeer = "smf:8805".parse().unwrap();
        let nobody = |listen: &str| name.address(listen.parse().unwrap()).to_string();
        assert_eq!(nobody("10.0.4.2:8805"), "0.0.0.0:8805");
        assert_eq!(nobody("[2001:db8::2]:8805"), "[::]:8805");
    }
}
