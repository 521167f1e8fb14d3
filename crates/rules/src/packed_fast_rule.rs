//! The layout in which workers read a fast rule: six words.
//!
//! | word | bits 63..32 | bits 31..0 |
//! |---|---|---|
//! | flags | see below | see below |
//! | 0 | uplink: TEID of the local tunnel; downlink: TEID of the far end | the UE's IPv4 address |
//! | 1, uplink | key of the UE's IPv6 prefix | the rest of the key |
//! | 1, downlink | interfaces that packets arrive on | the same key, folded to 32 bits |
//! | 2, uplink | interfaces that packets arrive on | interfaces whose routes packets take |
//! | 2, downlink | IPv4 address of the far end, or the index of an IPv6 peer | next hop |
//! | 3 and 4 | usage slot of a URR | its generation |
//!
//! The session's own URR takes no word: its counters are next to the rule. Most rules name no
//! other.
//!
//! A rule only for packets that arrive over IPv6 holds the complement of the local tunnel's TEID,
//! so that no packet over IPv4 matches it.
//!
//! Rules from tunnel to tunnel have other words: see `relay`.
//!
//! | bits of the flags | |
//! |---|---|
//! | 0..13 | set by the publisher: sequence number of the cell |
//! | 13 | the session's own URR does not count the packet |
//! | 14 | words 3 and 4 name a URR |
//! | 15 | from tunnel to tunnel; downlink: into a tunnel over IPv6 |
//! | 16 | the rate of the buckets is guaranteed |
//! | 17..21 | slice |
//! | 21, 22 | packets have to pass the first bucket, the second bucket |
//! | 23, 24 | set by the publisher: the cell holds a filter or a selector; workers may read it |
//! | 25, 26 | IPv4 packets match; with any UE address. In a downlink rule that copies DSCP or ECN,
//! IPv4 packets match if only 26 is set |
//! | 27, 28 | the same for IPv6 packets |
//! | 29 | downlink and tunnel to tunnel: the QERs demand a PDU Session Container; uplink: packets
//! over IPv6 match |
//! | 30 | uplink: only packets over IPv6 match |
//! | 31 | uplink and tunnel to tunnel: any QoS flow, or no PDU Session Container |
//! | 32..64, uplink | four QFIs of 8 bits, 255 for none |
//! | 32..40, downlink and tunnel to tunnel | type of service: see `OuterTos` |
//! | 40..46, downlink and tunnel to tunnel | QFI |
//! | 46, downlink and tunnel to tunnel | the QERs demand the reflective QoS indication |
//! | 47, tunnel to tunnel | the packet's own PDU Session Container is considered |
//! | 48..64, tunnel to tunnel | two QFIs of 8 bits, 255 for none |

mod relay;

use core::net::Ipv4Addr;

use adit_types::limits::SLICES_MAX;
use adit_types::{
    Direction, GtpuPeerIndex, InterfaceSet, NextHopIndex, Qfi, SliceId, Teid, UsageSlot,
};

use crate::fast_rule::{
    FAST_RULE_QFIS_MAX, FAST_RULE_URRS_MAX, FastRule, FastRuleForwarding, FastRulePeer,
    FastRuleTransport, FastRuleUe, FastRuleUrr, FastRuleUsage,
};
use crate::matcher::MatcherLine;
use crate::outer_tos::OuterTos;

/// How many words follow the flags.
pub const FAST_RULE_WORDS: usize = 5;

/// Index of the first word with a URR.
const FIRST_URR_WORD: usize = 3;

const _: () =
    assert!(FIRST_URR_WORD + FAST_RULE_URRS_MAX == FAST_RULE_WORDS && FAST_RULE_QFIS_MAX == 4);
const _: () = assert!(SLICES_MAX < 1 << 4);

/// Set if the session's own URR does not count the packet.
const COUNTS_APART: u64 = 1 << 13;
/// Set if the rule names URRs.
const HAS_URRS: u64 = 1 << 14;
/// Set in rules from tunnel to tunnel.
const RELAY: u64 = 1 << 15;
/// Set in downlink rules that lead into a tunnel over IPv6. It may equal [`RELAY`]: packets of both
/// kinds of rules are processed in loops of their own, and no cell can hold either kind.
const INTO_V6: u64 = RELAY;
/// Set if the rate of the buckets is guaranteed.
const GUARANTEED: u64 = 1 << 16;
const SLICE_SHIFT: u32 = 17;
const SLICE_MASK: u64 = 0xf << SLICE_SHIFT;
/// Position of two bits: whether the packet has to pass bucket 0, and bucket 1.
const METERS_SHIFT: u32 = 21;
const V4: u64 = 1 << 25;
const V4_ANY: u64 = 1 << 26;
const V6: u64 = 1 << 27;
const V6_ANY: u64 = 1 << 28;
const V6_FLAGS_SHIFT: u32 = 2;
const _: () = assert!(V6 == V4 << V6_FLAGS_SHIFT && V6_ANY == V4_ANY << V6_FLAGS_SHIFT);
const _: () = assert!(V4_ANY == V4 << 1);
/// Shift from the family flags of a downlink rule to those of a downlink rule that copies DSCP or
/// ECN. The flags for any UE address are free there, as no downlink rule is for any UE.
const COPYING_SHIFT: u32 = 1;
const HAS_QFI: u64 = 1 << 29;
/// Uplink: set if packets that arrive over IPv6 match.
const OVER_V6: u64 = 1 << 29;
/// Uplink: set if no packets that arrive over IPv4 match.
const ONLY_OVER_V6: u64 = 1 << 30;
const ANY_QFI: u64 = 1 << 31;
/// Uplink: position of four QFIs, one octet each.
const QFIS_SHIFT: u32 = 32;
/// Downlink: position of the type of service, one octet.
const TOS_SHIFT: u32 = 32;
/// Downlink: position of the QFI, six bits.
const QFI_SHIFT: u32 = 40;
/// Set if the container gets the reflective QoS indication.
// PERF (adit-bench datapath): next to the QFI as in the container, so that one mask reads both.
const REFLECTIVE: u64 = 1 << 46;

/// The octet that stands for no QoS flow.
const NO_QFI: u8 = u8::MAX;
/// Stands for a packet without a PDU Session Container. It is neither a QFI nor [`NO_QFI`], so no
/// rule that names QoS flows matches.
const NO_CONTAINER: u8 = NO_QFI - 1;
const _: () = assert!(NO_CONTAINER > Qfi::MAX);

/// The word that stands for no URR.
const NO_URR: u64 = u64::MAX;

/// A [`FastRule`] in the layout that workers read. The direction is not stored: call only the
/// methods of the direction that the rule was compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackedFastRule {
    flags: u64,
    words: [u64; FAST_RULE_WORDS],
}

impl From<&FastRule> for PackedFastRule {
    fn from(rule: &FastRule) -> Self {
        let FastRule { arrival, ue_v4, ue_v6, forwarding, meters, slice, guaranteed, usage } = rule;
        let FastRuleUsage { urrs, counts_apart } = usage;
        let (v4_flags, ue_v4) = pack_ue(*ue_v4, V4, V4_ANY, |addr| addr.to_bits().into());
        let (v6_flags, ue_v6) = pack_ue(*ue_v6, V6, V6_ANY, |key| key);
        let families = v4_flags | v6_flags;
        let mut flags = match forwarding {
            FastRuleForwarding::Downlink { tos, .. } if tos.is_copied() => {
                families << COPYING_SHIFT
            }
            _ => families,
        };
        flags |= u64::from(slice.0) << SLICE_SHIFT & SLICE_MASK;
        flags |= if *guaranteed { GUARANTEED } else { 0 };
        flags |= if *counts_apart { COUNTS_APART } else { 0 };
        flags |= if urrs.is_empty() { 0 } else { HAS_URRS };
        for (at, is_metered) in meters.iter().enumerate() {
            flags |= u64::from(*is_metered) << at << METERS_SHIFT;
        }
        let mut words = [NO_URR; FAST_RULE_WORDS];
        match forwarding {
            FastRuleForwarding::Uplink { teid, transport, qfis, egress } => {
                let (over, teid) = match transport {
                    FastRuleTransport::V4 => (0, teid.0),
                    FastRuleTransport::V6 => (OVER_V6 | ONLY_OVER_V6, !teid.0),
                    FastRuleTransport::Any => (OVER_V6, teid.0),
                };
                flags |= over;
                words[0] = pair(teid, 0) | ue_v4;
                words[1] = ue_v6;
                words[2] = pair(arrival.0, egress.0);
                let mut flows = [NO_QFI; FAST_RULE_QFIS_MAX];
                for (flow, qfi) in flows.iter_mut().zip(qfis) {
                    *flow = qfi.value();
                }
                flags |= u64::from(u32::from_le_bytes(flows)) << QFIS_SHIFT;
                flags |= if qfis.is_empty() { ANY_QFI } else { 0 };
            }
            FastRuleForwarding::Downlink { teid, peer, next_hop, tos, marking } => {
                let (over, peer) = match peer {
                    FastRulePeer::V4(addr) => (0, addr.to_bits()),
                    FastRulePeer::V6(index) => (INTO_V6, index.0),
                };
                flags |= over;
                words[0] = pair(teid.0, 0) | ue_v4;
                words[1] = pair(arrival.0, folded(ue_v6));
                words[2] = pair(peer, next_hop.0);
                flags |= u64::from(tos.octet()) << TOS_SHIFT | pack_marking(*marking);
            }
            FastRuleForwarding::Relay { teid, onward, .. } => {
                flags |= relay::flags(forwarding);
                words[0] = pair(teid.0, 0) | ue_v4;
                words[1] = ue_v6;
                words[2] = pair(arrival.0, onward.next_hop.0);
            }
        }
        for (word, urr) in words[FIRST_URR_WORD..].iter_mut().zip(urrs) {
            *word = pair(urr.slot.0, urr.generation);
        }
        // A relay rule has one URR at most, so the last word is free.
        if let FastRuleForwarding::Relay { onward, .. } = forwarding {
            words[relay::ONWARD_WORD] = pair(onward.teid.0, onward.addr.to_bits());
        }
        Self { flags, words }
    }
}

/// Returns the flags of the PDU Session Container that the packet gets.
fn pack_marking(marking: Option<(Qfi, bool)>) -> u64 {
    marking.map_or(0, |(qfi, is_reflective)| {
        let reflective = if is_reflective { REFLECTIVE } else { 0 };
        HAS_QFI | u64::from(qfi.value()) << QFI_SHIFT | reflective
    })
}

/// Returns flags and value of the UE's address.
fn pack_ue<A>(
    ue: FastRuleUe<A>,
    matches: u64,
    any: u64,
    value: impl FnOnce(A) -> u64,
) -> (u64, u64) {
    match ue {
        FastRuleUe::None => (0, 0),
        FastRuleUe::Any => (matches | any, 0),
        FastRuleUe::Only(addr) => (matches, value(addr)),
    }
}

impl PackedFastRule {
    /// Bits of the flags that the publisher sets; zero in a compiled rule.
    pub const PUBLISHER_FLAGS: u64 = 0x1fff | 0b11 << 23;

    /// The flag of a rule from tunnel to tunnel, and of a downlink rule into a tunnel over IPv6.
    /// Separate loops process the packets of such rules.
    pub const RELAY: u64 = RELAY;

    /// The flags of a rule whose packets are also, or only, counted outside its cell.
    pub const COUNTS_ELSEWHERE: u64 = HAS_URRS | COUNTS_APART;

    /// The flags of a rule that is not plain: with a bucket, or counted outside its cell.
    pub const NOT_PLAIN: u64 = Self::METERS | Self::COUNTS_ELSEWHERE;

    /// The flags of rules whose packets need the last two words.
    pub const LAST_WORDS: u64 = HAS_URRS | RELAY;

    /// The last two words of a rule without one of [`PackedFastRule::LAST_WORDS`].
    pub const NO_LAST_WORDS: [u64; 2] = [NO_URR; 2];

    /// The flags of a rule whose packets have to pass a bucket: one for each of buckets 0 and 1.
    pub const METERS: u64 = 0b11 << METERS_SHIFT;

    /// Restores a rule from [`PackedFastRule::flags`] and [`PackedFastRule::words`].
    #[inline]
    #[must_use]
    pub const fn of_words(flags: u64, words: [u64; FAST_RULE_WORDS]) -> Self {
        Self { flags, words }
    }

    /// Returns the flags, which are stored in front of the words.
    #[inline]
    #[must_use]
    pub const fn flags(&self) -> u64 {
        self.flags
    }

    /// Returns the words of the rule as a cell holds them.
    #[inline]
    #[must_use]
    pub const fn words(&self) -> [u64; FAST_RULE_WORDS] {
        self.words
    }

    /// Returns the rule as a line that can follow the lines of a matcher.
    #[must_use]
    pub fn to_line(&self) -> MatcherLine {
        let [a, b, c, d, e] = self.words;
        MatcherLine::of_words([self.flags, a, b, c, d, e, 0, 0])
    }

    /// Restores a rule from [`PackedFastRule::to_line`].
    #[inline]
    #[must_use]
    pub fn of_line(line: &MatcherLine) -> Self {
        let [flags, a, b, c, d, e, ..] = line.words();
        Self { flags, words: [a, b, c, d, e] }
    }

    /// True if packets of a rule with these flags have to pass a bucket.
    #[inline]
    #[must_use]
    pub const fn has_meters(flags: u64) -> bool {
        flags & Self::METERS != 0
    }

    /// True if a rule with these flags names URRs besides the session's own one.
    #[inline]
    #[must_use]
    pub const fn has_urrs(flags: u64) -> bool {
        flags & HAS_URRS != 0
    }

    /// True if packets pass no bucket and are counted only in the cell.
    #[inline]
    #[must_use]
    pub const fn is_plain(&self) -> bool {
        self.flags & Self::NOT_PLAIN == 0
    }

    /// True if packets are counted outside the cell, additionally or instead.
    #[inline]
    #[must_use]
    pub const fn counts_elsewhere(&self) -> bool {
        self.flags & Self::COUNTS_ELSEWHERE != 0
    }

    /// True if packets are not counted in the cell, because its counters belong to the session's
    /// own URR and this URR does not count them.
    #[inline]
    #[must_use]
    pub const fn counts_apart(&self) -> bool {
        self.flags & COUNTS_APART != 0
    }

    /// Returns the usage slots in the last two words of a rule; out of range without a URR.
    #[inline]
    #[must_use]
    pub fn usage_slots_in(urrs: [u64; FAST_RULE_URRS_MAX]) -> [UsageSlot; FAST_RULE_URRS_MAX] {
        urrs.map(|urr| UsageSlot(halves(urr).0))
    }

    /// Returns the usage slots of the rule's URRs; out of range without a URR.
    #[inline]
    #[must_use]
    pub fn usage_slots(&self) -> [UsageSlot; FAST_RULE_URRS_MAX] {
        let [_, _, _, urrs @ ..] = self.words;
        Self::usage_slots_in(urrs)
    }

    /// Same as [`PackedFastRule::matches_uplink`], for a packet that arrived over IPv6.
    #[inline(always)]
    #[must_use]
    pub fn matches_uplink_over_v6(&self, on: InterfaceSet, teid: Teid, qfi: Option<Qfi>) -> bool {
        let complement = if self.flags & ONLY_OVER_V6 == 0 { 0 } else { u32::MAX };
        self.flags & OVER_V6 != 0 && self.matches_uplink(on, Teid(teid.0 ^ complement), qfi)
    }

    /// True if an uplink packet over IPv4 matches: it arrived in the tunnel `teid` on one of the
    /// interfaces `on`, and in a QoS flow of the rule if it names any. The caller compares the
    /// source address ([`PackedFastRule::source`]).
    #[inline]
    #[must_use]
    pub fn matches_uplink(&self, on: InterfaceSet, teid: Teid, qfi: Option<Qfi>) -> bool {
        halves(self.words[0]).0 == teid.0
            && InterfaceSet(halves(self.words[2]).0).intersects(on)
            && (self.flags & ANY_QFI != 0 || self.has_qfi(qfi))
    }

    /// Returns the source that an uplink packet of a family must have, as a lookup key: the IPv4
    /// address, or the key of the IPv6 address. For a rule from tunnel to tunnel: the UE-side
    /// address in either direction.
    ///
    /// PERF (adit-bench datapath --mixed): in mixed bursts a branch on the family is mispredicted,
    /// so the value is selected without one.
    #[inline(always)]
    #[must_use]
    pub fn source(&self, is_v6: bool) -> FastRuleUe<u64> {
        let flags = self.flags >> (V4.trailing_zeros() + if is_v6 { V6_FLAGS_SHIFT } else { 0 });
        let only = select_family(is_v6, self.words[1], u64::from(halves(self.words[0]).1));
        match flags & 0b11 {
            0b00 => FastRuleUe::None,
            0b11 => FastRuleUe::Any,
            _ => FastRuleUe::Only(only),
        }
    }

    /// True if `addr`, a lookup key, is the only address that [`PackedFastRule::source`] allows.
    #[inline(always)]
    #[must_use]
    pub fn is_only_ue(&self, is_v6: bool, addr: u64) -> bool {
        let only = select_family(is_v6, self.words[1], u64::from(halves(self.words[0]).1));
        let (flags, matches) = (V4 | V4_ANY, select_family(is_v6, V4 << V6_FLAGS_SHIFT, V4));
        let flags = self.flags & select_family(is_v6, flags << V6_FLAGS_SHIFT, flags);
        flags == matches && only == addr
    }

    /// True if a downlink packet matches: it arrived on one of the interfaces `on`, and its
    /// destination is the UE. `dst`: the lookup key by which its session was found, the IPv4
    /// address or the key of the IPv6 address. False if the rule copies DSCP or ECN: see
    /// [`PackedFastRule::matches_copying_downlink`].
    ///
    /// PERF (adit-bench datapath --mixed): see [`PackedFastRule::source`].
    #[inline(always)]
    #[must_use]
    pub fn matches_downlink(&self, on: InterfaceSet, dst: u64, is_v6: bool) -> bool {
        self.leads_to_ue(on, dst, is_v6, V4)
    }

    /// Same as [`PackedFastRule::matches_downlink`], for a rule that copies DSCP or ECN
    /// ([`OuterTos::is_copied`]); false for others.
    #[inline(always)]
    #[must_use]
    pub fn matches_copying_downlink(&self, on: InterfaceSet, dst: u64, is_v6: bool) -> bool {
        self.leads_to_ue(on, dst, is_v6, V4 << COPYING_SHIFT)
    }

    /// Compares interface and destination. `v4`: the flag by which IPv4 packets match.
    #[inline(always)]
    fn leads_to_ue(&self, on: InterfaceSet, dst: u64, is_v6: bool, v4: u64) -> bool {
        let (arrival, ue_v6) = halves(self.words[1]);
        let ue = select_family(is_v6, ue_v6, halves(self.words[0]).1);
        ue == select_family(is_v6, folded(dst), halves(dst).1)
            && self.flags & select_family(is_v6, v4 << V6_FLAGS_SHIFT, v4) != 0
            && InterfaceSet(arrival).intersects(on)
    }

    #[inline]
    fn has_qfi(&self, qfi: Option<Qfi>) -> bool {
        let [_, _, _, _, flows @ ..] = self.flags.to_le_bytes();
        flows.contains(&flow_of(qfi))
    }

    /// Returns the interfaces whose routes an uplink packet takes.
    #[inline]
    #[must_use]
    pub fn egress(&self) -> InterfaceSet {
        InterfaceSet(halves(self.words[2]).1)
    }

    /// Returns the next hop of a packet that leaves in a tunnel.
    #[inline]
    #[must_use]
    pub fn next_hop(&self) -> NextHopIndex {
        NextHopIndex(halves(self.words[2]).1)
    }

    /// Returns TEID and address of the far end of a downlink packet's tunnel over IPv4.
    #[inline]
    #[must_use]
    pub fn tunnel(&self) -> (Teid, Ipv4Addr) {
        (Teid(halves(self.words[0]).0), Ipv4Addr::from_bits(halves(self.words[2]).0))
    }

    /// True if packets of a downlink rule leave in a tunnel over IPv6. Only for downlink rules.
    #[inline]
    #[must_use]
    pub const fn leads_into_v6(&self) -> bool {
        self.flags & INTO_V6 != 0
    }

    /// Returns TEID and peer of the far end if the tunnel is over IPv6.
    #[inline]
    #[must_use]
    pub const fn tunnel_over_v6(&self) -> (Teid, GtpuPeerIndex) {
        (Teid(halves(self.words[0]).0), Self::peer_in(self.words[2]))
    }

    /// Returns the far end from the third word of a rule for which
    /// [`PackedFastRule::leads_into_v6`] is true.
    #[inline]
    #[must_use]
    pub const fn peer_in(word: u64) -> GtpuPeerIndex {
        GtpuPeerIndex(halves(word).0)
    }

    /// Returns the type of service octet of the outer header of a downlink packet.
    #[inline]
    #[must_use]
    pub fn tos(&self) -> OuterTos {
        let [_, _, _, _, tos, ..] = self.flags.to_le_bytes();
        OuterTos::from_octet(tos)
    }

    /// Returns QoS flow and reflective QoS indication of the PDU Session Container that the QERs
    /// demand; `None` if they demand none.
    #[inline]
    #[must_use]
    pub fn marking(&self) -> Option<(Qfi, bool)> {
        let [_, _, _, _, _, qfi, ..] = self.flags.to_le_bytes();
        let qfi = Qfi::new(qfi & Qfi::MAX).filter(|_| self.flags & HAS_QFI != 0);
        qfi.map(|qfi| (qfi, self.flags & REFLECTIVE != 0))
    }

    /// Returns the slice whose rates the packet shares.
    #[inline]
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "four bits")]
    pub const fn slice(&self) -> SliceId {
        SliceId(((self.flags & SLICE_MASK) >> SLICE_SHIFT) as u8)
    }

    /// True if the rate of the buckets is guaranteed.
    #[inline]
    #[must_use]
    pub const fn is_guaranteed(&self) -> bool {
        self.flags & GUARANTEED != 0
    }

    /// Returns which of buckets 0 and 1 the packet has to pass: bit n is for bucket n of the
    /// session in this direction.
    #[inline]
    #[must_use]
    pub fn meters(&self) -> u64 {
        (self.flags & Self::METERS) >> METERS_SHIFT
    }

    /// True if the packet has to pass both buckets.
    #[inline]
    #[must_use]
    pub const fn has_both_meters(&self) -> bool {
        self.flags & Self::METERS == Self::METERS
    }

    /// Unpacks the rule for IPv4 packets of `direction`; `None` if it leads from tunnel to tunnel
    /// or into a tunnel over IPv6. IPv6 cannot be unpacked: a downlink rule holds only a hash of
    /// the prefix key.
    #[must_use]
    pub fn to_ipv4_rule(&self, direction: Direction) -> Option<FastRule> {
        if self.flags & RELAY != 0 {
            return None;
        }
        let ue_v4 = match self.source(false) {
            FastRuleUe::Only(addr) => FastRuleUe::Only(Ipv4Addr::from_bits(halves(addr).1)),
            FastRuleUe::Any => FastRuleUe::Any,
            FastRuleUe::None => FastRuleUe::None,
        };
        let (teid, _) = halves(self.words[0]);
        let (arrival, forwarding) = match direction {
            Direction::Uplink => {
                let (teid, transport) = match self.flags & (OVER_V6 | ONLY_OVER_V6) {
                    0 => (teid, FastRuleTransport::V4),
                    OVER_V6 => (teid, FastRuleTransport::Any),
                    _ => (!teid, FastRuleTransport::V6),
                };
                let [_, _, _, _, flows @ ..] = self.flags.to_le_bytes();
                let is_any = self.flags & ANY_QFI != 0;
                let flows = flows.into_iter().filter(|flow| !is_any && *flow != NO_QFI);
                let qfis = flows.filter_map(Qfi::new).collect();
                let egress = self.egress();
                let uplink =
                    FastRuleForwarding::Uplink { teid: Teid(teid), transport, qfis, egress };
                (halves(self.words[2]).0, uplink)
            }
            Direction::Downlink => {
                let (teid, peer) = self.tunnel();
                let downlink = FastRuleForwarding::Downlink {
                    teid,
                    peer: FastRulePeer::V4(peer),
                    next_hop: self.next_hop(),
                    tos: self.tos(),
                    marking: self.marking(),
                };
                (halves(self.words[1]).0, downlink)
            }
        };
        Some(FastRule {
            arrival: InterfaceSet(arrival),
            ue_v4,
            ue_v6: FastRuleUe::None,
            forwarding,
            meters: [0, 1].map(|bucket| self.meters() >> bucket & 1 != 0),
            slice: self.slice(),
            guaranteed: self.is_guaranteed(),
            usage: FastRuleUsage {
                urrs: match Self::has_urrs(self.flags) {
                    true => self.urrs().into_iter().flatten().collect(),
                    false => Default::default(),
                },
                counts_apart: self.counts_apart(),
            },
        })
    }

    /// Returns the URRs that count the packet besides the session's own one; `None` items are last.
    #[inline]
    #[must_use]
    pub fn urrs(&self) -> [Option<FastRuleUrr>; FAST_RULE_URRS_MAX] {
        let [_, _, _, urrs @ ..] = self.words;
        urrs.map(unpack_urr)
    }
}

#[inline]
fn unpack_urr(word: u64) -> Option<FastRuleUrr> {
    let (slot, generation) = halves(word);
    (word != NO_URR).then_some(FastRuleUrr { slot: UsageSlot(slot), generation })
}

/// Returns the octet to compare with the QoS flows that a rule names.
// PERF (adit-bench datapath): a single comparison; a branch on the container would cost packets of
// rules for any flow as well.
#[inline]
fn flow_of(qfi: Option<Qfi>) -> u8 {
    qfi.map_or(NO_CONTAINER, Qfi::value)
}

/// Returns one of two values by the address family, without a branch.
#[inline(always)]
fn select_family<T>(is_v6: bool, v6: T, v4: T) -> T {
    core::hint::select_unpredictable(is_v6, v6, v4)
}

pub(crate) const fn pair(high: u32, low: u32) -> u64 {
    (high as u64) << 32 | low as u64
}

#[inline]
#[allow(clippy::cast_possible_truncation, reason = "the halves are wanted")]
const fn halves(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

/// Hashes an IPv6 key to 32 bits. The lookup already matched the whole key, so the comparison only
/// has to notice if the UE's prefix changed in between; a collision is possible but improbable.
#[inline]
const fn folded(key: u64) -> u32 {
    let (high, low) = halves(key);
    high ^ low.rotate_left(16)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test stops where its premise fails")]
pub(crate) mod tests {
    use arrayvec::ArrayVec;

    use super::*;

    pub(crate) const KEY: u64 = 0x2001_0db8_0000_0007;

    pub(crate) fn urrs(count: u32) -> ArrayVec<FastRuleUrr, FAST_RULE_URRS_MAX> {
        (0..count)
            .map(|n| FastRuleUrr { slot: UsageSlot(7 + n), generation: u32::MAX - n })
            .collect()
    }

    pub(crate) fn qfi(value: u8) -> Qfi {
        Qfi::new(value).unwrap()
    }

    pub(crate) fn downlink(seed: u32, marking: Option<(Qfi, bool)>) -> FastRule {
        FastRule {
            arrival: InterfaceSet(seed),
            ue_v4: FastRuleUe::Only(Ipv4Addr::from_bits(seed)),
            ue_v6: FastRuleUe::Only(pair(seed, 7)),
            forwarding: FastRuleForwarding::Downlink {
                teid: Teid(seed),
                peer: FastRulePeer::V4(Ipv4Addr::from_bits(seed)),
                next_hop: NextHopIndex(seed),
                tos: OuterTos::from_octet(0xff),
                marking,
            },
            meters: [false, true],
            slice: SliceId(15),
            guaranteed: true,
            usage: FastRuleUsage { urrs: urrs(2), counts_apart: true },
        }
    }

    pub(crate) fn uplink(
        flows: &[u8],
        ue_v4: FastRuleUe<Ipv4Addr>,
        ue_v6: FastRuleUe<u64>,
    ) -> FastRule {
        let qfis = flows.iter().map(|flow| qfi(*flow)).collect();
        FastRule {
            arrival: InterfaceSet(1 << 3),
            ue_v4,
            ue_v6,
            forwarding: FastRuleForwarding::Uplink {
                teid: Teid(9),
                transport: FastRuleTransport::V4,
                qfis,
                egress: InterfaceSet(5),
            },
            meters: [true, false],
            slice: SliceId(0),
            guaranteed: false,
            usage: FastRuleUsage { urrs: urrs(1), counts_apart: false },
        }
    }

    pub(crate) fn on(id: u32) -> InterfaceSet {
        InterfaceSet(1 << id)
    }

    #[test]
    fn packed_rule_leaves_the_flags_of_the_publisher_alone_and_fits_a_line() {
        let packed = PackedFastRule::from(&downlink(u32::MAX, Some((qfi(63), true))));
        assert_eq!(packed.flags() & PackedFastRule::PUBLISHER_FLAGS, 0);
        assert_eq!(PackedFastRule::of_line(&packed.to_line()), packed);
        let with = |urrs, counts_apart| FastRule {
            usage: FastRuleUsage { urrs, counts_apart },
            ..downlink(u32::MAX, None)
        };
        for (count, counts_apart) in [(2, true), (0, true), (1, false)] {
            let packed = PackedFastRule::from(&with(urrs(count), counts_apart));
            assert_eq!(packed.flags() & PackedFastRule::PUBLISHER_FLAGS, 0);
            assert_eq!(packed.counts_apart(), counts_apart);
            assert_eq!(PackedFastRule::has_urrs(packed.flags()), count > 0);
            assert!(packed.counts_elsewhere());
        }
        let [.., a, b] = PackedFastRule::from(&with(urrs(0), false)).words();
        assert_eq!([a, b], PackedFastRule::NO_LAST_WORDS);
    }

    #[test]
    fn downlink_fast_rule_is_read_as_it_was_packed() {
        for marking in [None, Some((qfi(0), false)), Some((qfi(63), true))] {
            let rule = PackedFastRule::from(&downlink(u32::MAX, marking));
            assert_eq!(rule.tunnel(), (Teid(u32::MAX), Ipv4Addr::BROADCAST));
            assert_eq!(
                (rule.next_hop(), rule.tos()),
                (NextHopIndex(u32::MAX), OuterTos::from_octet(0xff))
            );
            assert_eq!((rule.marking(), rule.meters()), (marking, 0b10));
            assert!(rule.urrs().into_iter().flatten().eq(urrs(2)));
        }
    }

    #[test]
    fn downlink_fast_rule_of_a_tunnel_over_ipv6_names_its_peer() {
        let mut rule = downlink(u32::MAX, Some((qfi(63), true)));
        assert!(!PackedFastRule::from(&rule).leads_into_v6());
        if let FastRuleForwarding::Downlink { peer, .. } = &mut rule.forwarding {
            *peer = FastRulePeer::V6(GtpuPeerIndex(7));
        }
        let rule = PackedFastRule::from(&rule);
        assert!(rule.leads_into_v6());
        assert_eq!(rule.flags() & PackedFastRule::PUBLISHER_FLAGS, 0);
        assert_eq!(rule.tunnel_over_v6(), (Teid(u32::MAX), GtpuPeerIndex(7)));
        assert_eq!(
            (rule.next_hop(), rule.tos()),
            (NextHopIndex(u32::MAX), OuterTos::from_octet(0xff))
        );
        assert_eq!((rule.marking(), rule.meters()), (Some((qfi(63), true)), 0b10));
    }

    #[test]
    fn downlink_packet_fits_by_arrival_and_address() {
        for (octet, is_copied) in [(0, false), (0xb8, false), (1, true), (2, true), (0xbb, true)] {
            let mut rule = downlink(1 << 3, None);
            if let FastRuleForwarding::Downlink { tos, .. } = &mut rule.forwarding {
                *tos = OuterTos::from_octet(octet);
            }
            let rule = PackedFastRule::from(&rule);
            let matches = |on, ue, is_v6| {
                let fixed = rule.matches_downlink(on, ue, is_v6);
                let copying = rule.matches_copying_downlink(on, ue, is_v6);
                assert!(!(fixed && copying) && (!(fixed || copying) || copying == is_copied));
                fixed || copying
            };
            for (is_v6, ue, other) in
                [(false, 1 << 3, 1 << 4), (true, pair(1 << 3, 7), pair(1 << 3, 8))]
            {
                assert!(matches(on(3), ue, is_v6));
                assert!(!matches(on(2), ue, is_v6));
                assert!(!matches(on(3), other, is_v6));
                assert!(!matches(on(3), ue, !is_v6));
            }
            let ue = FastRuleUe::Only(Ipv4Addr::from_bits(1 << 3));
            assert_eq!(rule.to_ipv4_rule(Direction::Downlink).map(|rule| rule.ue_v4), Some(ue));
        }
    }

    #[test]
    fn uplink_packet_fits_by_arrival_tunnel_and_flow() {
        let (ue_v4, ue_v6) = (FastRuleUe::Only(Ipv4Addr::new(10, 0, 0, 1)), FastRuleUe::Only(KEY));
        let rule = PackedFastRule::from(&uplink(&[5, 9], ue_v4, ue_v6));
        let tunnel = Teid(9);
        assert!(rule.matches_uplink(on(3), tunnel, Some(qfi(9))));
        assert!(rule.matches_uplink(on(3), tunnel, Some(qfi(5))));
        assert!(!rule.matches_uplink(on(4), tunnel, Some(qfi(9))));
        assert!(!rule.matches_uplink(on(3), Teid(8), Some(qfi(9))));
        assert!(!rule.matches_uplink(on(3), tunnel, Some(qfi(6))));
        assert!(!rule.matches_uplink(on(3), tunnel, None));
        assert_eq!(rule.source(false), FastRuleUe::Only(0x0a00_0001));
        assert_eq!(rule.source(true), ue_v6);
        assert_eq!((rule.egress(), rule.meters()), (InterfaceSet(5), 0b01));
        assert!(rule.urrs().into_iter().flatten().eq(urrs(1)));
    }

    #[test]
    fn uplink_packet_fits_by_the_ip_version_of_its_outer_header() {
        use FastRuleTransport::{Any, V4, V6};
        let teid = Teid(9);
        for (of, over_v4, over_v6) in [(V4, true, false), (V6, false, true), (Any, true, true)] {
            let mut rule = uplink(&[], FastRuleUe::Any, FastRuleUe::Any);
            if let FastRuleForwarding::Uplink { transport, .. } = &mut rule.forwarding {
                *transport = of;
            }
            let rule = PackedFastRule::from(&rule);
            assert_eq!(rule.matches_uplink(on(3), teid, None), over_v4, "{of:?}");
            assert_eq!(rule.matches_uplink_over_v6(on(3), teid, None), over_v6, "{of:?}");
            assert!(!rule.matches_uplink_over_v6(on(4), teid, None));
            assert!(!rule.matches_uplink_over_v6(on(3), Teid(8), None));
        }
    }

    #[test]
    fn fast_rule_matches_any_address_and_flow_or_no_address() {
        let rule = PackedFastRule::from(&uplink(&[], FastRuleUe::Any, FastRuleUe::None));
        assert!(!rule.is_only_ue(false, 0) && !rule.is_only_ue(true, 0));
        assert!(rule.matches_uplink(on(3), Teid(9), None));
        assert!(rule.matches_uplink(on(3), Teid(9), Some(qfi(63))));
        assert_eq!((rule.source(false), rule.source(true)), (FastRuleUe::Any, FastRuleUe::None));
    }
}
