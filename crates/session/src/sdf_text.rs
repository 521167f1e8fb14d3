//! Flow descriptions: the subset of IPFilterRule that PFCP uses.
//!
//! `permit out <protocol|ip> from <address> [ports] to <address> [ports]`, where an address is
//! `any`, `assigned`, an IPv4 or IPv6 address or prefix, and ports are numbers and ranges separated
//! by commas. Everything else of RFC 6733 is refused by name.
//! Spec: TS 29.244 §8.2.5; TS 29.212 §5.4.2; RFC 6733 §4.3.1.

use core::fmt;
use core::net::IpAddr;

use adit_rules::SdfFilter;
use adit_rules::sdf::{AddrMatch, PortRange};
use adit_types::{Ipv4Prefix, Ipv6Prefix};

/// Port ranges in one list of a filter: the data path walks them one by one.
pub const PORT_RANGES_MAX: usize = 16;

/// Why a text is no flow description that we can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SdfTextError {
    /// The action is not `permit` (`deny` is not usable in PFCP).
    Action,
    /// The direction is not `out` (`in` is not usable in PFCP).
    Direction,
    /// The protocol is neither `ip` nor a number of 0..=255.
    Protocol,
    /// `from` is missing.
    From,
    /// The address behind `from` is none.
    Source,
    /// The ports of the source are not a list of numbers and ascending ranges.
    SourcePorts,
    /// `to` is missing.
    To,
    /// The address behind `to` is none.
    Destination,
    /// The ports of the destination are not a list of numbers and ascending ranges.
    DestinationPorts,
    /// An address is negated with `!`.
    Negation,
    /// A list has more than [`PORT_RANGES_MAX`] entries.
    TooManyPorts,
    /// The addresses are of different families.
    FamilyMismatch,
    /// Something follows the destination, such as an option.
    Option,
}

impl fmt::Display for SdfTextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Action => "the action must be 'permit'",
            Self::Direction => "the direction must be 'out'",
            Self::Protocol => "the protocol must be 'ip' or a number of 0 to 255",
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
/// [`SdfTextError`] with the first thing that is wrong.
pub fn parse(text: &str) -> Result<SdfFilter, SdfTextError> {
    let mut words = Words { rest: text };
    words.keyword("permit", SdfTextError::Action)?;
    words.keyword("out", SdfTextError::Direction)?;
    let protocol = match words.next().ok_or(SdfTextError::Protocol)? {
        "ip" => None,
        word => Some(number(word).ok_or(SdfTextError::Protocol)?),
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
        _ => Ok(SdfFilter { protocol, remote, remote_ports, local, local_ports, ..SdfFilter::ANY }),
    }
}

/// Words between white space; a comma is a word of its own.
#[derive(Clone)]
struct Words<'a> {
    rest: &'a str,
}

impl<'a> Words<'a> {
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

    /// A list of ports, empty when the next word does not begin one.
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

/// Bits behind the prefix length do not matter, as in an IPFilterRule.
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

/// A decimal number without a sign.
fn number<N: core::str::FromStr>(word: &str) -> Option<N> {
    if word.starts_with(|c: char| c.is_ascii_digit()) { word.parse().ok() } else { None }
}
