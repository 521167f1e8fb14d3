//! Fast rules of a direction with one SDF filter: for packets that match it, and for the others.
//!
//! Typical of a session with a dedicated and a default QoS flow. The filter fits into the session's
//! cache line, so a packet needs no matcher. Sessions with more filters use the
//! [`selector`](super::selector).

use adit_types::Direction;

use super::matcher::{of_pdrs, own_prefix};
use crate::fast_rule::FastRule;
use crate::matcher::MatcherLine;
use crate::matcher::entry::{ANY_PORT, FilterEntry};
use crate::packed_fast_rule::{PackedFastRule, pair};
use crate::published::PublishedRules;
use crate::rule::SessionRules;
use crate::sdf::PortRange;

/// Words of a filter after its flags.
pub const FILTER_WORDS: usize = 3;

/// Set if there is a fast rule for packets that match (always). The next bit: for the others.
const HAS_MATCHING: u64 = 1 << 25;
const HAS_OTHERS: u64 = HAS_MATCHING << 1;
/// Set if one of the fast rules counts for URRs besides the session's own one.
const HAS_URRS: u64 = 1 << 27;
/// Position of the bits (0 or 16) by which port pairs are rotated, to make matching pairs an
/// interval.
const ROTATION_SHIFT: u32 = 32;

/// Position of the protocol in the compared value; the bits below it are the remote address.
const PROTOCOL_SHIFT: u32 = 32;
const V6: u64 = 1 << 40;

/// Protocols with ports that this filter supports (TCP, UDP). A filter that names ports for other
/// protocols stays in the matcher.
const PROTOCOLS_WITH_PORTS: [u8; 2] = [6, 17];

/// One SDF filter in the layout that workers read, and the flags of its two fast rules by which
/// workers prefetch.
///
/// | word | |
/// |---|---|
/// | flags | see below |
/// | 0 | value: family (bit 40), protocol (8), first 32 bits of the remote address |
/// | 1 | mask of the value |
/// | 2 | rotated ports: last minus first (32), first (32) |
///
/// | bits of the flags | |
/// |---|---|
/// | 0..15, 23, 24 | written by the publisher, as in a [`PackedFastRule`] |
/// | 15 | one of the fast rules leads into a tunnel over IPv6 |
/// | 21, 22 | packets of one of the fast rules have to pass the first bucket, the second bucket |
/// | 25, 26 | there is a fast rule for packets that match (always), for packets that do not |
/// | 27 | one of the fast rules counts for URRs besides the session's own one |
/// | 32..37 | rotation of the ports: 0, or 16 |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackedFilter {
    flags: u64,
    words: [u64; FILTER_WORDS],
}

/// The fields of a packet that a [`PackedFilter`] compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilterKey {
    /// True for IPv6.
    pub is_v6: bool,
    /// First 32 bits of the address on the network's side.
    pub remote: u32,
    /// Upper-layer protocol.
    pub protocol: u8,
    /// Source port in the upper half, destination port in the lower half; any value if the protocol
    /// has no ports.
    pub ports: u32,
}

impl PackedFilter {
    /// The flag that every filter has: there is a fast rule for packets that match.
    pub const FLAG: u64 = HAS_MATCHING;

    /// Appends the fast rules that the filter of one direction selects, after `refine` has changed
    /// them, to the direction's matcher. `None` unless the direction has exactly one filter, which
    /// fits, and the filter's PDR has a fast rule.
    pub(super) fn append(
        rules: &mut SessionRules,
        direction: Direction,
        refine: impl Fn(FastRule) -> FastRule,
    ) -> Option<Self> {
        rules.matcher(direction)?;
        let pdrs = rules.pdrs(direction);
        let [v4, v6] = [false, true].map(|is_v6| of_pdrs(direction, pdrs, is_v6));
        let (v4, v6) = (FamilyFilter::of(&v4)?, FamilyFilter::of(&v6)?);
        let of_pdr = |number: u16| {
            let rule = FastRule::of_pdr(rules, pdrs.get(usize::from(number))?, direction).ok()?;
            Some(PackedFastRule::from(&refine(rule)))
        };
        let (entry, family) = match (v4.filter, v6.filter) {
            (Some(entry), None) => (entry, Some(false)),
            (None, Some(entry)) => (entry, Some(true)),
            (Some(entry), Some(same)) if same == entry && entry.remote.len == 0 => (entry, None),
            _ => return None,
        };
        let others = match (v4.others, v6.others) {
            (None, None) => None,
            (Some(of_v4), Some(of_v6)) if of_v4 == of_v6 => Some(of_v4),
            // Packets of the other family do not match the UE addresses of the only fast rule.
            (Some(number), None) | (None, Some(number)) => {
                let pdr = pdrs.get(usize::from(number))?;
                own_prefix(pdr, v4.others.is_some()).is_none().then_some(number)?;
                Some(number)
            }
            _ => return None,
        };
        let fast_rules = [Some(of_pdr(entry.pdr)?), others.and_then(of_pdr)];
        let lines: Vec<MatcherLine> =
            fast_rules.iter().flatten().map(PackedFastRule::to_line).collect();
        let filter = Self::new(entry, direction, family)?.with_rules(fast_rules);
        rules.matcher_mut(direction)?.append(&lines);
        Some(filter)
    }

    /// Packs `entry` for packets of IPv4, of IPv6 or, if `is_v6` is `None`, of both. `None` if it
    /// does not fit.
    fn new(entry: &FilterEntry, direction: Direction, is_v6: Option<bool>) -> Option<Self> {
        let FilterEntry {
            pdr: _,
            conditions: _,
            remote,
            local,
            remote_ports,
            local_ports,
            protocol,
            tos,
            is_unsure,
        } = entry;
        let has_ports = protocol.is_some_and(|protocol| PROTOCOLS_WITH_PORTS.contains(&protocol));
        let names_ports = [remote_ports, local_ports].into_iter().any(|ports| *ports != ANY_PORT);
        if *is_unsure || tos.1 != 0 || local.len > 0 || names_ports && !has_ports {
            return None;
        }
        let [addr, ..] = remote.words;
        let host_bits = 32_u32.checked_sub(remote.len.into())?;
        let mut mask = u64::from(u32::MAX.checked_shl(host_bits).unwrap_or(0));
        let mut value = u64::from(addr);
        if let Some(protocol) = protocol {
            value |= u64::from(*protocol) << PROTOCOL_SHIFT;
            mask |= u64::from(u8::MAX) << PROTOCOL_SHIFT;
        }
        if let Some(is_v6) = is_v6 {
            value |= if is_v6 { V6 } else { 0 };
            mask |= V6;
        }
        let [local, remote] = [local_ports, remote_ports]
            .map(|(first, last)| PortRange { first: *first, last: *last });
        let (src, dst) = match direction {
            Direction::Uplink => (local, remote),
            Direction::Downlink => (remote, local),
        };
        let unrotated = port_interval(src, dst).map(|interval| (interval, 0));
        let rotated = || port_interval(dst, src).map(|interval| (interval, 16));
        let ((first, last), rotation) = unrotated.or_else(rotated)?;
        let ports = pair(last - first, first);
        let flags = HAS_MATCHING | rotation << ROTATION_SHIFT;
        Some(Self { flags, words: [value & mask, mask, ports] })
    }

    /// Adds the flags of the fast rules: that for packets that match, then that for the others.
    fn with_rules(mut self, fast_rules: [Option<PackedFastRule>; 2]) -> Self {
        for rule in fast_rules.iter().flatten() {
            self.flags |= if PackedFastRule::has_urrs(rule.flags()) { HAS_URRS } else { 0 };
            self.flags |= rule.flags() & (PackedFastRule::METERS | PackedFastRule::RELAY);
        }
        self.flags |= if fast_rules[1].is_some() { HAS_OTHERS } else { 0 };
        self
    }

    /// Restores a filter from [`PackedFilter::flags`] and [`PackedFilter::words`].
    #[inline]
    #[must_use]
    pub const fn of_words(flags: u64, words: [u64; FILTER_WORDS]) -> Self {
        Self { flags, words }
    }

    /// Returns the flags, which are stored in front of the words.
    #[inline]
    #[must_use]
    pub const fn flags(&self) -> u64 {
        self.flags
    }

    /// Returns the words of the filter as a cell holds them.
    #[must_use]
    pub const fn words(&self) -> [u64; FILTER_WORDS] {
        self.words
    }

    /// Returns how many lines the fast rules of a filter with these flags have: 1 or 2.
    #[inline]
    #[must_use]
    pub const fn line_count(flags: u64) -> usize {
        1 + (flags & HAS_OTHERS != 0) as usize
    }

    /// Returns the lines of the fast rules, which follow the matcher in `rules`.
    #[must_use]
    pub fn lines<'r>(
        &self,
        rules: &'r PublishedRules,
        direction: Direction,
    ) -> Option<&'r [MatcherLine]> {
        let lines = rules.matcher(direction)?.lines();
        lines.get(lines.len().checked_sub(Self::line_count(self.flags))?..)
    }

    /// True if no fast rule has buckets, or URRs besides the session's own one.
    #[inline]
    #[must_use]
    pub const fn is_plain(&self) -> bool {
        self.flags & (PackedFastRule::METERS | HAS_URRS) == 0
    }

    /// True if packets of one of the fast rules have to pass a bucket.
    #[inline]
    #[must_use]
    pub const fn has_meters(&self) -> bool {
        PackedFastRule::has_meters(self.flags)
    }

    /// True if one of the fast rules counts for URRs besides the session's own one.
    #[inline]
    #[must_use]
    pub const fn has_urrs(&self) -> bool {
        self.flags & HAS_URRS != 0
    }

    /// Returns the index of the packet's fast rule in [`PackedFilter::lines`]. `None` if the packet
    /// has no fast rule and must take the stages.
    #[inline(always)]
    #[must_use]
    // PERF (adit-bench datapath --sdf): a call would pass the key through memory.
    pub fn select(&self, key: &FilterKey) -> Option<usize> {
        let number = u32::from(!self.matches(key));
        let is_there = self.flags >> number & HAS_MATCHING != 0;
        is_there.then_some(number as usize)
    }

    /// True if a packet matches the filter.
    ///
    /// PERF (adit-bench datapath --sdf): no branch depends on the packet: unpredictable.
    #[inline(always)]
    fn matches(&self, key: &FilterKey) -> bool {
        let FilterKey { is_v6, remote, protocol, ports } = *key;
        let [expected, mask, interval] = self.words;
        let value = u64::from(protocol) << PROTOCOL_SHIFT | u64::from(remote);
        let value = if is_v6 { value | V6 } else { value };
        #[allow(
            clippy::cast_possible_truncation,
            reason = "32 bits are wanted, of which five count"
        )]
        let (first, rotation) = (interval as u32, (self.flags >> ROTATION_SHIFT) as u32);
        let distance = ports.rotate_right(rotation).wrapping_sub(first);
        ((value ^ expected) & mask == 0) & (u64::from(distance) <= interval >> 32)
    }
}

/// The filters of one family up to the first that matches all packets of the family.
struct FamilyFilter<'a> {
    /// The only filter that some packets do not match.
    filter: Option<&'a FilterEntry>,
    /// The PDR (index) of the packets that do not match `filter`.
    others: Option<u16>,
}

impl<'a> FamilyFilter<'a> {
    /// Returns `None` if there is more than one filter.
    fn of(entries: &'a [FilterEntry]) -> Option<Self> {
        let end = entries.iter().position(FilterEntry::matches_all);
        let others = end.and_then(|end| entries.get(end)).map(|entry| entry.pdr);
        let filter = match entries.get(..end.unwrap_or(entries.len()))? {
            [] => None,
            [only] => Some(only),
            _ => return None,
        };
        Some(Self { filter, others })
    }
}

/// Returns first and last of all pairs of ports as 32-bit numbers, a port of `upper` in the upper
/// half, one of `lower` in the lower. `None` if they are not consecutive.
fn port_interval(upper: PortRange, lower: PortRange) -> Option<(u32, u32)> {
    let of = |upper, lower| u32::from(upper) << 16 | u32::from(lower);
    let is_interval = upper.first == upper.last || (lower.first, lower.last) == ANY_PORT;
    is_interval.then_some((of(upper.first, lower.first), of(upper.last, lower.last)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test stops where its premise fails")]
mod tests {
    use core::net::Ipv6Addr;

    use adit_types::{Ipv4Prefix, Ipv6Prefix};

    use crate::matcher::entry::{Prefix, of_filter};
    use crate::sdf::{AddrMatch, PacketFilter};

    use super::*;

    const UDP: u8 = 17;
    const HOST: u32 = 0x1400_0001;

    /// Packs `filter` for IPv4, for IPv6 or, if `is_v6` is `None`, for both.
    fn packed(
        filter: &PacketFilter,
        direction: Direction,
        is_v6: Option<bool>,
    ) -> Option<PackedFilter> {
        let entries = of_filter(filter, Prefix::ANY, is_v6 == Some(true));
        let [entry] = entries.as_slice() else { return None };
        PackedFilter::new(entry, direction, is_v6)
    }

    fn ports(first: u16, last: u16) -> Vec<PortRange> {
        vec![PortRange { first, last }]
    }

    fn key(is_v6: bool) -> FilterKey {
        FilterKey { is_v6, remote: HOST, protocol: UDP, ports: pair16(10, 20) }
    }

    fn pair16(src: u16, dst: u16) -> u32 {
        u32::from(src) << 16 | u32::from(dst)
    }

    /// Compares all combinations of a range, a single port and any port on both sides.
    #[test]
    fn ports_match_from_the_first_to_the_last_of_their_side() {
        let sides = [(20, 22), (20, 20), (0, u16::MAX)];
        let mut fit = 0;
        for (local, remote) in sides.into_iter().flat_map(|a| sides.map(|b| (a, b))) {
            let filter = PacketFilter {
                protocol: Some(UDP),
                local_ports: ports(local.0, local.1),
                remote_ports: ports(remote.0, remote.1),
                ..PacketFilter::ANY
            };
            for direction in [Direction::Uplink, Direction::Downlink] {
                let Some(packed) = packed(&filter, direction, None) else {
                    assert_eq!((local, remote), ((20, 22), (20, 22)));
                    continue;
                };
                fit += 1;
                let some = [0, 1, 19, 20, 21, 22, 23, u16::MAX - 1, u16::MAX];
                for (l, r) in some.into_iter().flat_map(|l| some.map(|r| (l, r))) {
                    let (src, dst) = if direction == Direction::Uplink { (l, r) } else { (r, l) };
                    let is_within =
                        (local.0..=local.1).contains(&l) && (remote.0..=remote.1).contains(&r);
                    for is_v6 in [false, true] {
                        let key = FilterKey { ports: pair16(src, dst), ..key(is_v6) };
                        assert_eq!(
                            packed.matches(&key),
                            is_within,
                            "{filter:?} {direction:?} {l} {r}"
                        );
                        for bit in 0..8 {
                            let other = FilterKey { protocol: UDP ^ 1 << bit, ..key };
                            assert!(!packed.matches(&other), "{other:?}");
                        }
                    }
                }
            }
        }
        assert_eq!(fit, 16, "all but two ranges");
    }

    #[test]
    fn filter_without_a_protocol_matches_every_protocol_and_port() {
        let filter = PacketFilter { remote_ports: ports(0, u16::MAX), ..PacketFilter::ANY };
        let any = packed(&filter, Direction::Downlink, None).unwrap();
        for ports in [0, 1, 1 << 16, u32::MAX] {
            for protocol in [0, 1, UDP, u8::MAX] {
                assert!(any.matches(&FilterKey { ports, protocol, ..key(true) }));
            }
        }
    }

    #[test]
    fn remote_prefix_matches_addresses_of_its_family_only() {
        let v4 = |len| AddrMatch::V4(Ipv4Prefix::containing(HOST.into(), len).unwrap());
        let addr = Ipv6Addr::from_bits(u128::from(HOST) << 96);
        let v6 = |len| AddrMatch::V6(Ipv6Prefix::containing(addr, len).unwrap());
        for len in [0, 1, 31, 32] {
            for (is_v6, remote) in [(false, v4(len)), (true, v6(len))] {
                let filter = PacketFilter { remote, ..PacketFilter::ANY };
                let filter = packed(&filter, Direction::Uplink, Some(is_v6)).unwrap();
                assert!(filter.matches(&key(is_v6)), "{remote:?}");
                assert!(!filter.matches(&key(!is_v6)), "{remote:?}");
                for bit in 0..32 {
                    let other = FilterKey { remote: HOST ^ 1 << (31 - bit), ..key(is_v6) };
                    assert_eq!(filter.matches(&other), bit >= len, "{remote:?} {bit}");
                }
            }
        }
    }

    #[test]
    fn filter_that_does_not_fit_its_words_is_not_compiled() {
        let any = PacketFilter::ANY;
        let prefix = |len| AddrMatch::V6(Ipv6Prefix::containing(Ipv6Addr::LOCALHOST, len).unwrap());
        let unfit = [
            PacketFilter { tos: Some((8, 0xfc)), ..any.clone() },
            PacketFilter { spi: Some(1), ..any.clone() },
            PacketFilter { flow_label: Some(1), ..any.clone() },
            PacketFilter { remote: prefix(33), ..any.clone() },
            PacketFilter { local: prefix(1), ..any.clone() },
            PacketFilter { remote_ports: ports(1, 2), ..any.clone() },
            PacketFilter { local_ports: ports(1, 2), protocol: Some(1), ..any.clone() },
        ];
        for filter in unfit {
            assert_eq!(packed(&filter, Direction::Uplink, Some(true)), None, "{filter:?}");
        }
        assert!(packed(&any, Direction::Uplink, Some(true)).is_some());
    }
}
