//! Flow descriptions: the subset of IPFilterRule that PFCP uses.
//!
//! `permit out <protocol|ip> from <address> [ports] to <address> [ports]`. An address is `any`,
//! `assigned`, or an IPv4 or IPv6 address or prefix. Ports are numbers and ranges separated by
//! commas. All other forms of RFC 6733 are refused, each with its own error.
//! Spec: TS 29.244 §8.2.5; TS 29.212 §5.4.2; RFC 6733 §4.3.1.

use core::fmt;
use core::net::IpAddr;

use adit_rules::PacketFilter;
use adit_rules::sdf::{AddrMatch, PortRange};
use adit_types::{Ipv4Prefix, Ipv6Prefix};

/// Maximum number of port ranges in one list of a filter: workers compare them one by one.
pub const PORT_RANGES_MAX: usize = 16;

/// Why a flow description is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SdfTextError {
    /// The action is not `permit` (`deny` is not usable in PFCP).
    Action,
    /// The direction is not `out` (`in` is not usable in PFCP).
    Direction,
    /// The protocol is not `ip`, a known name, or a number of 0..=255.
    Protocol,
    /// `from` is missing.
    From,
    /// `from` is not followed by an address.
    Source,
    /// The ports of the source are not a list of numbers and ascending ranges.
    SourcePorts,
    /// `to` is missing.
    To,
    /// `to` is not followed by an address.
    Destination,
    /// The ports of the destination are not a list of numbers and ascending ranges.
    DestinationPorts,
    /// An address is negated with `!`.
    Negation,
    /// A list has more than [`PORT_RANGES_MAX`] entries.
    TooManyPorts,
    /// The addresses are of different families.
    FamilyMismatch,
    /// Text follows the destination, such as an option.
    Option,
}

impl fmt::Display for SdfTextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Action => "the action must be 'permit'",
            Self::Direction => "the direction must be 'out'",
            Self::Protocol => {
                "the protocol must be a number of 0 to 255, 'ip' or a name such as 'icmp' or 'sctp'"
            }
            Self::From => "'from' is missing behind the protocol",
            Self::Source => "no address or prefix behind 'from'",
            Self::SourcePorts => "no port list behind the source",
            Self::To => "'to' is missing behind the source",
            Self::Destination => "no address or prefix behind 'to'",
            Self::DestinationPorts => "no port list behind the destination",
            Self::Negation => "negated addresses ('!') are not supported",
            Self::TooManyPorts => "too many ports and port ranges in one list",
            Self::FamilyMismatch => "source and destination are of different address families",
            Self::Option => "options behind the destination are not supported",
        })
    }
}

impl core::error::Error for SdfTextError {}

/// Parses a flow description. The source becomes the remote side, the destination the local one.
///
/// # Errors
/// The first [`SdfTextError`] in the text.
pub fn parse(text: &str) -> Result<PacketFilter, SdfTextError> {
    let mut words = FlowDescriptionWords { rest: text };
    words.keyword("permit", SdfTextError::Action)?;
    words.keyword("out", SdfTextError::Direction)?;
    parse_flow(words)
}

/// Parses a flow description of a PFD. Its direction can also be `in` (from the UE): its source is
/// then the local side. Spec: RFC 6733 §4.3.1; TS 29.122 §5.11.2.1.
///
/// # Errors
/// The first [`SdfTextError`] in the text.
pub(crate) fn parse_pfd(text: &str) -> Result<PacketFilter, SdfTextError> {
    let mut words = FlowDescriptionWords { rest: text };
    words.keyword("permit", SdfTextError::Action)?;
    match words.next() {
        Some("out") => parse_flow(words),
        Some("in") => {
            let mut filter = parse_flow(words)?;
            core::mem::swap(&mut filter.remote, &mut filter.local);
            core::mem::swap(&mut filter.remote_ports, &mut filter.local_ports);
            Ok(filter)
        }
        _ => Err(SdfTextError::Direction),
    }
}

/// Parses the text after the direction.
fn parse_flow(mut words: FlowDescriptionWords<'_>) -> Result<PacketFilter, SdfTextError> {
    let protocol = match words.next().ok_or(SdfTextError::Protocol)? {
        "ip" => None,
        word => Some(number(word).or(protocol(word)).ok_or(SdfTextError::Protocol)?),
    };
    words.keyword("from", SdfTextError::From)?;
    let remote = address(words.next(), SdfTextError::Source)?;
    let remote_ports = words.ports(SdfTextError::SourcePorts)?;
    words.keyword("to", SdfTextError::To)?;
    let local = address(words.next(), SdfTextError::Destination)?;
    let local_ports = words.ports(SdfTextError::DestinationPorts)?;
    if words.next().is_some() {
        return Err(SdfTextError::Option);
    }
    match (remote, local) {
        (AddrMatch::V4(_), AddrMatch::V6(_)) | (AddrMatch::V6(_), AddrMatch::V4(_)) => {
            Err(SdfTextError::FamilyMismatch)
        }
        _ => Ok(PacketFilter {
            protocol,
            remote,
            remote_ports,
            local,
            local_ports,
            ..PacketFilter::ANY
        }),
    }
}

/// Names of protocols. INTEROP: the standard requires numbers, but control planes pass on names of
/// policies.
const PROTOCOLS: [(&str, u8); 14] = [
    ("icmp", 1),
    ("igmp", 2),
    ("ipip", 4),
    ("ipencap", 4),
    ("tcp", 6),
    ("udp", 17),
    ("ipv6", 41),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("icmpv6", 58),
    ("ipv6-icmp", 58),
    ("ospf", 89),
    ("sctp", 132),
];

/// Returns the number of the protocol with this name, in upper or lower case.
fn protocol(name: &str) -> Option<u8> {
    let found = PROTOCOLS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, number)| *number)
}

/// The words of a text, separated by white space; a comma is a word of its own.
#[derive(Clone)]
struct FlowDescriptionWords<'a> {
    rest: &'a str,
}

impl<'a> FlowDescriptionWords<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let text = self.rest.trim_start_matches(|c: char| c.is_ascii_whitespace());
        let end = if text.starts_with(',') {
            1
        } else {
            text.find(|c: char| c == ',' || c.is_ascii_whitespace()).unwrap_or(text.len())
        };
        let (word, rest) = text.split_at(end);
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }

    fn peek(&self) -> Option<&'a str> {
        self.clone().next()
    }

    fn keyword(&mut self, keyword: &str, error: SdfTextError) -> Result<(), SdfTextError> {
        if self.next() == Some(keyword) { Ok(()) } else { Err(error) }
    }

    /// Parses a list of ports; empty if the next word does not begin one.
    fn ports(&mut self, error: SdfTextError) -> Result<Vec<PortRange>, SdfTextError> {
        let mut ranges = Vec::new();
        let begins =
            |word: &str| word.starts_with(|c: char| c.is_ascii_digit() || ",-".contains(c));
        if !self.peek().is_some_and(begins) {
            return Ok(ranges);
        }
        loop {
            if ranges.len() == PORT_RANGES_MAX {
                return Err(SdfTextError::TooManyPorts);
            }
            ranges.push(self.next().and_then(port_range).ok_or(error)?);
            if self.peek() != Some(",") {
                return if self.peek().is_some_and(begins) { Err(error) } else { Ok(ranges) };
            }
            self.next();
        }
    }
}

fn port_range(word: &str) -> Option<PortRange> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    let range = PortRange { first: number(first)?, last: number(last)? };
    (range.first <= range.last).then_some(range)
}

/// Parses an address or prefix. Ignores bits after the prefix length, as IPFilterRules do.
fn address(word: Option<&str>, error: SdfTextError) -> Result<AddrMatch, SdfTextError> {
    let word = word.ok_or(error)?;
    if word == "any" || word == "assigned" {
        return Ok(AddrMatch::Any);
    }
    if word.starts_with('!') {
        return Err(SdfTextError::Negation);
    }
    let (addr, len) = match word.split_once('/') {
        Some((addr, len)) => (addr, Some(number::<u8>(len).ok_or(error)?)),
        None => (word, None),
    };
    let prefix = match addr.parse().map_err(|_| error)? {
        IpAddr::V4(addr) => Ipv4Prefix::containing(addr, len.unwrap_or(32)).map(AddrMatch::V4),
        IpAddr::V6(addr) => Ipv6Prefix::containing(addr, len.unwrap_or(128)).map(AddrMatch::V6),
    };
    prefix.ok_or(error)
}

/// Parses a decimal number without a sign.
fn number<N: core::str::FromStr>(word: &str) -> Option<N> {
    if word.starts_with(|c: char| c.is_ascii_digit()) { word.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn v4(text: &str) -> AddrMatch {
        AddrMatch::V4(text.parse().unwrap())
    }

    fn range(first: u16, last: u16) -> PortRange {
        PortRange { first, last }
    }

    #[test]
    fn flow_description_yields_protocol_addresses_and_ports() {
        let text = "permit out 17 from 1.2.3.0/24 53,1000-2000 to assigned 80";
        let expected = PacketFilter {
            protocol: Some(17),
            remote: v4("1.2.3.0/24"),
            remote_ports: vec![range(53, 53), range(1000, 2000)],
            local_ports: vec![range(80, 80)],
            ..PacketFilter::ANY
        };
        assert_eq!(parse(text), Ok(expected));
        assert_eq!(parse("permit out ip from any to assigned"), Ok(PacketFilter::ANY));
    }

    #[test]
    fn flow_description_names_common_protocols() {
        for (name, number) in
            [("icmp", 1), ("tcp", 6), ("UDP", 17), ("sctp", 132), ("icmpv6", 58), ("esp", 50)]
        {
            let filter = parse(&format!("permit out {name} from any to assigned")).unwrap();
            assert_eq!(filter.protocol, Some(number));
        }
    }

    #[test]
    fn flow_description_tolerates_white_space_and_host_bits() {
        let text = "  permit\tout  6 from 10.0.0.9/8   80 , 443 ,1-2 to   10.1.1.1\n";
        let filter = parse(text).unwrap();
        assert_eq!(filter.remote, v4("10.0.0.0/8"));
        assert_eq!(filter.local, v4("10.1.1.1/32"));
        assert_eq!(filter.remote_ports, [range(80, 80), range(443, 443), range(1, 2)]);
    }

    #[test]
    fn flow_description_of_ipv6_is_understood() {
        let filter = parse("permit out 58 from 2001:db8::/32 to 2001:db8:1::5").unwrap();
        assert_eq!(filter.remote, AddrMatch::V6("2001:db8::/32".parse().unwrap()));
        assert_eq!(filter.local, AddrMatch::V6("2001:db8:1::5/128".parse().unwrap()));
    }

    #[test]
    fn flow_description_outside_the_subset_is_refused_by_name() {
        use SdfTextError as E;
        let many = vec!["1"; PORT_RANGES_MAX + 1].join(",");
        let cases = [
            ("", E::Action),
            ("deny out ip from any to any", E::Action),
            ("permit in ip from any to any", E::Direction),
            ("permit out", E::Protocol),
            ("permit out tcpp from any to any", E::Protocol),
            ("permit out IP from any to any", E::Protocol),
            ("permit out 256 from any to any", E::Protocol),
            ("permit out +6 from any to any", E::Protocol),
            ("permit out ip any to any", E::From),
            ("permit out ip from", E::Source),
            ("permit out ip from 1.2.3.4/33 to any", E::Source),
            ("permit out ip from 1.2.3 to any", E::Source),
            ("permit out ip from !1.2.3.4 to any", E::Negation),
            ("permit out ip from any 80, to any", E::SourcePorts),
            ("permit out ip from any ,80 to any", E::SourcePorts),
            ("permit out ip from any 80 81 to any", E::SourcePorts),
            ("permit out ip from any 2-1 to any", E::SourcePorts),
            ("permit out ip from any 65536 to any", E::SourcePorts),
            ("permit out ip from any http to any", E::To),
            ("permit out ip from any", E::To),
            ("permit out ip from any to", E::Destination),
            ("permit out ip from any to ::/129", E::Destination),
            ("permit out ip from any to any 80-", E::DestinationPorts),
            ("permit out ip from any to any frag", E::Option),
            ("permit out ip from 1.2.3.4 to ::1", E::FamilyMismatch),
        ];
        for (text, error) in cases {
            assert_eq!(parse(text), Err(error), "{text}");
        }
        let text = format!("permit out ip from any {many} to any");
        assert_eq!(parse(&text), Err(E::TooManyPorts));
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in "\\PC{0,80}") {
            let _ = parse(&text);
        }

        #[test]
        fn any_sequence_of_words_is_parsed_or_refused(words in prop::collection::vec(
            prop::sample::select(vec![
                "permit", "out", "ip", "6", "from", "to", "any", "assigned", "1.2.3.4/8", "::/0",
                "!", ",", "-", "80", "80-90", "9-", "\u{a0}", "/", "99999999999999999999",
            ]), 0..14)) {
            let text = words.join(" ");
            if let Ok(filter) = parse(&text) {
                prop_assert!(filter.remote_ports.len() <= PORT_RANGES_MAX);
                prop_assert!(text.starts_with("permit out"));
            }
        }

        #[test]
        fn printed_filter_is_parsed_back(
            protocol: Option<u8>,
            addr: u32,
            len in 0..=32u8,
            ports in prop::collection::vec((0..=u16::MAX, 0..=u16::MAX), 0..4),
        ) {
            let prefix = Ipv4Prefix::containing(addr.into(), len).unwrap();
            let ranges: Vec<PortRange> =
                ports.into_iter().map(|(a, b)| range(a.min(b), a.max(b))).collect();
            let list: Vec<String> =
                ranges.iter().map(|r| format!("{}-{}", r.first, r.last)).collect();
            let protocol_text = protocol.map_or("ip".to_owned(), |number| number.to_string());
            let text =
                format!("permit out {protocol_text} from {prefix} {} to any", list.join(", "));
            let expected = PacketFilter {
                protocol,
                remote: AddrMatch::V4(prefix),
                remote_ports: ranges,
                ..PacketFilter::ANY
            };
            prop_assert_eq!(parse(&text), Ok(expected));
        }
    }
}
