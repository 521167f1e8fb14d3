//! SDF filters of one address family as boxes: a range of values for every field.

use core::net::IpAddr;

use super::{LOCAL, LOCAL_PORT, PROTOCOL, REMOTE, REMOTE_PORT, SPLIT_WORDS, address_words};
use crate::sdf::{AddrMatch, PacketFilter, PortRange};

/// Maximum number of pairs of a remote and a local port range for which a filter gets one entry
/// each. A filter with more pairs gets one entry, whose ranges contain all of its ports.
const PORT_PAIRS_MAX: usize = 16;

pub(crate) const ANY_PORT: (u16, u16) = (0, u16::MAX);

/// An address prefix. IPv4 uses only the first word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Prefix {
    pub words: [u32; 4],
    pub len: u8,
}

impl Prefix {
    pub(crate) const ANY: Self = Self { words: [0; 4], len: 0 };

    /// Returns the first and last value of one word of the addresses in the prefix.
    fn word_range(self, word: usize) -> (u32, u32) {
        let before = u32::try_from(word * 32).unwrap_or(u32::MAX);
        let bits = u32::from(self.len).saturating_sub(before).min(32);
        let hosts = u32::MAX.checked_shr(bits).unwrap_or(0);
        (self.words[word] & !hosts, self.words[word] | hosts)
    }
}

/// One filter of one PDR, or one pair of port ranges of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilterEntry {
    /// Index of the PDR in its list.
    pub pdr: u16,
    /// Equal for PDRs whose conditions besides SDF filters are equal: a packet that does not meet
    /// those of one such PDR does not meet those of the others.
    pub conditions: u16,
    pub remote: Prefix,
    pub local: Prefix,
    pub remote_ports: (u16, u16),
    pub local_ports: (u16, u16),
    pub protocol: Option<u8>,
    /// Value and mask of the type of service.
    pub tos: (u8, u8),
    /// True if the box is wider than the filter: the caller has to compare the filter itself.
    pub is_unsure: bool,
}

/// A box: first and last value of each word at which a tree may split.
pub(super) type KeyRegion = [(u32, u32); SPLIT_WORDS];

/// The box of all packets.
pub(super) const EVERYWHERE: KeyRegion = [(0, u32::MAX); SPLIT_WORDS];

impl FilterEntry {
    /// True if the entry also needs the columns of local address and type of service.
    pub(crate) fn is_full(&self) -> bool {
        self.local.len > 0 || self.tos.1 != 0
    }

    /// True if all packets of the address family match.
    pub(crate) fn matches_all(&self) -> bool {
        let Self { remote_ports, local_ports, .. } = self;
        self.remote.len == 0
            && *remote_ports == ANY_PORT
            && *local_ports == ANY_PORT
            && self.protocol.is_none()
            && !self.is_full()
            && !self.is_unsure
    }

    /// Returns the box of the entry, without the type of service.
    pub(crate) fn region(&self) -> KeyRegion {
        let mut region = EVERYWHERE;
        for word in 0..4 {
            region[REMOTE + word] = self.remote.word_range(word);
            region[LOCAL + word] = self.local.word_range(word);
        }
        let ports = |(first, last): (u16, u16)| (first.into(), last.into());
        region[REMOTE_PORT] = ports(self.remote_ports);
        region[LOCAL_PORT] = ports(self.local_ports);
        if let Some(protocol) = self.protocol {
            region[PROTOCOL] = (protocol.into(), protocol.into());
        }
        region
    }

    /// True if all packets in the region match.
    pub(crate) fn covers(&self, region: &KeyRegion) -> bool {
        let own = self.region();
        let is_around =
            |(own, other): (&(u32, u32), &(u32, u32))| own.0 <= other.0 && own.1 >= other.1;
        !self.is_unsure && self.tos.1 == 0 && own.iter().zip(region).all(is_around)
    }
}

/// Returns the entries of one address family, with the index of each filter in place of a PDR's.
pub(super) fn of_filters(filters: &[PacketFilter], is_v6: bool) -> Vec<FilterEntry> {
    let of_number = |(pdr, filter)| {
        let entries = of_filter(filter, Prefix::ANY, is_v6).into_iter();
        entries.map(move |entry| FilterEntry { pdr, ..entry })
    };
    (0_u16..).zip(filters).flat_map(of_number).collect()
}

pub(crate) fn prefix(addr: IpAddr, len: u8) -> Prefix {
    Prefix { words: address_words(addr), len }
}

/// Returns the entries of a filter, with PDR index 0. `own`: the UE addresses of the PDR.
pub(crate) fn of_filter(filter: &PacketFilter, own: Prefix, is_v6: bool) -> Vec<FilterEntry> {
    let PacketFilter { protocol, remote, remote_ports, local, local_ports, tos, spi, flow_label } =
        filter;
    let sides = side_prefix(*remote, is_v6).zip(side_prefix(*local, is_v6));
    let sides = sides.filter(|_| is_v6 || flow_label.is_none());
    let sides =
        sides.and_then(|(remote, local)| Some((remote, local_left_to_compare(local, own)?)));
    let Some((remote, local)) = sides else { return Vec::new() };
    let tos = tos.map_or((0, 0), |(value, mask)| (value & mask, mask));
    let is_unsure = spi.is_some() || flow_label.is_some();
    let entry = |remote_ports, local_ports, is_unsure| FilterEntry {
        pdr: 0,
        conditions: 0,
        remote,
        local,
        remote_ports,
        local_ports,
        protocol: *protocol,
        tos,
        is_unsure,
    };
    let (remote_ranges, local_ranges) = (ranges(remote_ports), ranges(local_ports));
    if remote_ranges.len() * local_ranges.len() > PORT_PAIRS_MAX {
        return vec![entry(enclosing_range(&remote_ranges), enclosing_range(&local_ranges), true)];
    }
    let pairs = remote_ranges
        .iter()
        .flat_map(|remote| local_ranges.iter().map(move |local| (*remote, *local)));
    pairs.map(|(remote, local)| entry(remote, local, is_unsure)).collect()
}

fn side_prefix(addr: AddrMatch, is_v6: bool) -> Option<Prefix> {
    match (addr, is_v6) {
        (AddrMatch::Any, _) => Some(Prefix::ANY),
        (AddrMatch::V4(of), false) => Some(prefix(IpAddr::V4(of.addr()), of.len())),
        (AddrMatch::V6(of), true) => Some(prefix(IpAddr::V6(of.addr()), of.len())),
        _ => None,
    }
}

/// Returns the local prefix that is left to compare when the UE's address is known to be in `own`;
/// `None` if the filter matches no address of `own`.
fn local_left_to_compare(local: Prefix, own: Prefix) -> Option<Prefix> {
    let is_apart = (0..4).any(|word| {
        let (a, b) = (local.word_range(word), own.word_range(word));
        a.0 > b.1 || b.0 > a.1
    });
    match (is_apart, local.len <= own.len) {
        (true, _) => None,
        (false, true) => Some(Prefix::ANY),
        (false, false) => Some(local),
    }
}

fn ranges(ports: &[PortRange]) -> Vec<(u16, u16)> {
    if ports.is_empty() {
        return vec![ANY_PORT];
    }
    let mut ranges: Vec<_> = ports.iter().map(|range| (range.first, range.last)).collect();
    ranges.retain(|(first, last)| first <= last);
    ranges.sort_unstable();
    ranges.dedup_by(|next, last| {
        let touches = next.0 <= last.1.saturating_add(1);
        if touches {
            last.1 = last.1.max(next.1);
        }
        touches
    });
    ranges
}

/// Returns the smallest range that contains all of `ranges`.
fn enclosing_range(ranges: &[(u16, u16)]) -> (u16, u16) {
    let first = ranges.first().map_or(ANY_PORT.0, |range| range.0);
    let last = ranges.iter().map(|range| range.1).max();
    (first, last.unwrap_or(ANY_PORT.1))
}
