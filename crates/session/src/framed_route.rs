//! The text of a framed route: a prefix, and optionally a gateway and metrics.
//!
//! Gateway and metrics are checked but not used: the UE is always the gateway, and only one session
//! can have a prefix. Spec: TS 29.244 §8.2.109, §8.2.111; RFC 2865 §5.22; RFC 3162 §2.5.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

use adit_types::{IpPrefix, Ipv4Prefix, Ipv6Prefix, PrefixError};

/// Why a text is not a framed route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FramedRouteError {
    /// The first word is not a prefix of the right family.
    Prefix(PrefixError),
    /// The second word is not an address of the right family.
    Gateway,
    /// A word after the second is not a decimal number.
    Metric,
    /// The text is not UTF-8, or its words are not separated by single spaces.
    Text,
}

impl fmt::Display for FramedRouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prefix(error) => error.fmt(f),
            Self::Gateway => f.write_str("no gateway address behind the prefix"),
            Self::Metric => f.write_str("a metric is no number"),
            Self::Text => f.write_str("no words with single spaces between them"),
        }
    }
}

impl core::error::Error for FramedRouteError {}

/// Parses a Framed-Route such as `192.168.1.0/24 0.0.0.0 1`. If there is no prefix length, the
/// class of the address decides.
///
/// # Errors
/// [`FramedRouteError`] for any other text, and if bits are set after the prefix length.
pub fn parse_ipv4(octets: &[u8]) -> Result<IpPrefix, FramedRouteError> {
    let destination = words::<Ipv4Addr>(octets)?;
    let prefix = match destination.parse::<Ipv4Addr>() {
        Ok(addr) => classful_network(addr),
        Err(_) => destination.parse(),
    };
    prefix.map(IpPrefix::V4).map_err(FramedRouteError::Prefix)
}

/// Parses a Framed-IPv6-Route such as `2001:db8:1::/48 :: 1`.
///
/// # Errors
/// [`FramedRouteError`] for any other text, and if the prefix length is missing.
pub fn parse_ipv6(octets: &[u8]) -> Result<IpPrefix, FramedRouteError> {
    let destination = words::<Ipv6Addr>(octets)?;
    let prefix: Result<Ipv6Prefix, _> = destination.parse();
    prefix.map(IpPrefix::V6).map_err(FramedRouteError::Prefix)
}

/// Returns the first word, after checking that the others are a gateway and metrics.
fn words<A: FromStr>(octets: &[u8]) -> Result<&str, FramedRouteError> {
    let text = core::str::from_utf8(octets).map_err(|_| FramedRouteError::Text)?;
    let mut words = text.split(' ');
    let destination = words.next().filter(|word| !word.is_empty()).ok_or(FramedRouteError::Text)?;
    let mut rest = words.peekable();
    if let Some(gateway) = rest.next() {
        gateway.parse::<A>().map_err(|_| FramedRouteError::Gateway)?;
    }
    for metric in rest {
        metric.parse::<i64>().map_err(|_| FramedRouteError::Metric)?;
    }
    Ok(destination)
}

/// Returns the network of an address of class A, B or C.
fn classful_network(addr: Ipv4Addr) -> Result<Ipv4Prefix, PrefixError> {
    let len = match addr.octets()[0] {
        0..=127 => 8,
        128..=191 => 16,
        192..=223 => 24,
        _ => return Err(PrefixError::Length),
    };
    let prefix = Ipv4Prefix::containing(addr, len).ok_or(PrefixError::Length)?;
    if prefix.addr() == addr { Ok(prefix) } else { Err(PrefixError::HostBits) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(text: &str) -> Result<String, FramedRouteError> {
        parse_ipv4(text.as_bytes()).map(|prefix| prefix.to_string())
    }

    #[test]
    fn framed_route_is_a_prefix_with_optional_gateway_and_metrics() {
        for text in ["192.168.1.0/24", "192.168.1.0/24 0.0.0.0", "192.168.1.0/24 10.0.0.1 1 2 -1"] {
            assert_eq!(v4(text).unwrap(), "192.168.1.0/24");
        }
        let classes = ["10.0.0.0", "172.16.0.0", "192.168.1.0"].map(|text| v4(text).unwrap());
        assert_eq!(classes, ["10.0.0.0/8", "172.16.0.0/16", "192.168.1.0/24"]);
        let text = b"2001:db8:0:106::/64 2001:db8::106:a00:20ff:fe99:a998 1";
        assert_eq!(parse_ipv6(text).unwrap().to_string(), "2001:db8:0:106::/64");
    }

    #[test]
    fn framed_route_that_is_not_one_is_refused_with_the_reason() {
        use FramedRouteError::{Gateway, Metric, Prefix, Text};
        assert_eq!(v4("192.168.1.1/24"), Err(Prefix(PrefixError::HostBits)));
        assert_eq!(v4("192.168.1.0/33"), Err(Prefix(PrefixError::Length)));
        assert_eq!(v4("192.168.1.1"), Err(Prefix(PrefixError::HostBits)));
        assert_eq!(v4("224.0.0.0"), Err(Prefix(PrefixError::Length)));
        assert_eq!(v4("2001:db8::/64"), Err(Prefix(PrefixError::Address)));
        assert_eq!(v4("10.0.0.0/8 gw"), Err(Gateway));
        assert_eq!(v4("10.0.0.0/8 0.0.0.0 x"), Err(Metric));
        assert_eq!(v4("10.0.0.0/8  0.0.0.0"), Err(Gateway), "two spaces");
        assert_eq!(v4(""), Err(Text));
        assert_eq!(parse_ipv4(b"10.0.0.0/8\xff"), Err(Text));
        let missing = parse_ipv6(b"2001:db8::");
        assert_eq!(missing, Err(Prefix(PrefixError::Length)));
    }
}
