//! Expresses by session index: one cache line per session and direction.
//!
//! The control thread alone writes what rules say; workers read it. A line is a sequence lock: a
//! reader that meets a line while it is written has none, and asks the rules instead. A new line is
//! read only after every worker has passed a burst boundary with its rules: by then the workers have
//! carried out what the control thread asked for before, End Markers above all. What a line
//! names (usage slots, next hops) is released only after every worker has passed a burst boundary
//! without the rules that the line was compiled from.
//!
//! The rest of the line is the session's traffic, written by the worker that owns the session.

use core::fmt;
use core::net::Ipv4Addr;

use adit_rules::{
    FAST_RULE_QFIS_MAX, FAST_RULE_URRS_MAX, FastRule, FastRuleForwarding, FastRuleUe, FastRuleUrr,
    MatcherLine as ChoiceLine,
};
use adit_types::limits::SLICES_MAX;
use adit_types::{
    Direction, InterfaceSet, NextHopIndex, Qfi, SessionIndex, SliceId, Teid, UsageSlot,
};

use crate::counters::{Counter, SessionTraffic};
use crate::large::LargeArray;
use crate::prefetch;
use crate::sync::{AtomicU64, Ordering, fence};

/// Words behind the head.
pub(crate) const WORDS: usize = 5;

/// The word where the URRs begin.
const URRS: usize = 3;

const _: () = assert!(URRS + FAST_RULE_URRS_MAX == WORDS && FAST_RULE_QFIS_MAX == 4);
const _: () = assert!(SLICES_MAX < 1 << 4);

/// Bits of the head below are the sequence number: no reader pauses for half as many writes of a line
/// between two loads.
const SEQUENCE: u64 = (1 << 16) - 1;
/// The rate of the buckets is guaranteed.
const GUARANTEED: u64 = 1 << 16;
const SLICE_SHIFT: u32 = 17;
const SLICE: u64 = 0xf << SLICE_SHIFT;
/// Which of the first two buckets the packet has to pass.
const METERS_SHIFT: u32 = 21;
const METERS: u64 = 0b11 << METERS_SHIFT;
/// The line holds a choice ([`crate::choice`]) instead of an express.
const CHOICE: u64 = 1 << 23;
/// The line may be read.
const READABLE: u64 = 1 << 24;
const V4: u64 = 1 << 25;
const V4_ANY: u64 = 1 << 26;
const V6: u64 = 1 << 27;
const V6_ANY: u64 = 1 << 28;
const V6_FLAGS_SHIFT: u32 = 2;
const _: () = assert!(V6 == V4 << V6_FLAGS_SHIFT && V6_ANY == V4_ANY << V6_FLAGS_SHIFT);
const _: () = assert!(V4_ANY == V4 << 1);
const HAS_QFI: u64 = 1 << 29;
const REFLECTIVE: u64 = 1 << 30;
const ANY_QFI: u64 = 1 << 31;
/// Four octets of uplink.
const QFIS_SHIFT: u32 = 32;
/// One octet of downlink.
const TOS_SHIFT: u32 = 32;
/// One octet of downlink.
const QFI_SHIFT: u32 = 40;

/// No QoS flow.
const NO_QFI: u8 = u8::MAX;

/// No URR.
const NO_URR: u64 = u64::MAX;

/// Word by word: the tunnel's TEID and the IPv4 address of the UE; its IPv6 key in uplink, the
/// arrival and that key folded in downlink; arrival and exit in uplink, the far end's address and
/// next hop in downlink; two URRs.
#[derive(Default)]
#[cfg_attr(not(loom), derive(zerocopy::FromZeros))]
#[repr(C, align(64))]
pub(crate) struct FastRuleCell {
    head: AtomicU64,
    words: [AtomicU64; WORDS],
    pkts: Counter,
    bytes: Counter,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<FastRuleCell>() == 64, "one cache line");

impl FastRuleCell {
    /// Writes a line and gives its sequence number; for the one writer.
    fn write(&self, flags: u64, words: [u64; WORDS]) -> u64 {
        let sequence = self.head.load(Ordering::Relaxed);
        let odd = (sequence + 1) & SEQUENCE;
        self.head.store(odd, Ordering::Relaxed);
        fence(Ordering::Release);
        for (cell, word) in self.words.iter().zip(words) {
            cell.store(word, Ordering::Relaxed);
        }
        let even = (odd + 1) & SEQUENCE;
        self.head.store(even | flags, Ordering::Release);
        even
    }

    /// Head and words of one moment, if the line is usable.
    #[inline]
    fn read(&self) -> Option<FastRuleLine<'_>> {
        self.read_if(READABLE)
    }

    /// The words of a choice, all of one moment.
    #[inline]
    pub(crate) fn read_choice(&self) -> Option<[u64; WORDS]> {
        self.read_if(READABLE | CHOICE).map(|line| line.words)
    }

    /// Writes the words of a choice, which nobody reads until it is settled; for the one writer.
    pub(crate) fn write_choice(&self, words: [u64; WORDS]) -> WrittenRule {
        WrittenRule(self.write(CHOICE, words))
    }

    /// Head and words of one moment, if the line is of this kind and may be read.
    #[inline]
    fn read_if(&self, kind: u64) -> Option<FastRuleLine<'_>> {
        let head = self.head.load(Ordering::Acquire);
        if head & (READABLE | CHOICE) != kind {
            return None;
        }
        let words = core::array::from_fn(|at| self.words[at].load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        (self.head.load(Ordering::Relaxed) == head).then_some(FastRuleLine {
            head,
            words,
            cell: self,
        })
    }
}

/// An express that is written and not read yet: the sequence number of its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WrittenRule(u64);

impl WrittenRule {
    /// None: the sequence number of no line.
    pub(crate) const NONE: Self = Self(u64::MAX);
}

/// Both directions of one session.
#[derive(Default)]
#[cfg_attr(not(loom), derive(zerocopy::FromZeros))]
#[repr(C)]
struct FastRuleCells {
    uplink: FastRuleCell,
    downlink: FastRuleCell,
}

/// The expresses of all sessions, and their traffic.
pub(crate) struct FastRuleTable(LargeArray<FastRuleCells>);

impl FastRuleTable {
    pub(crate) fn new(sessions: usize) -> Self {
        Self(LargeArray::zeroed(sessions))
    }

    /// Sessions that there is room for.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    pub(crate) fn cell(
        &self,
        session: SessionIndex,
        direction: Direction,
    ) -> Option<&FastRuleCell> {
        let lines = self.0.get(session.0 as usize)?;
        Some(match direction {
            Direction::Uplink => &lines.uplink,
            Direction::Downlink => &lines.downlink,
        })
    }

    /// Replaces the express of one direction; nobody reads the new one until [`ExpressTable::settle`]
    /// is told what this returns. For the publisher only.
    pub(crate) fn set(
        &self,
        session: SessionIndex,
        direction: Direction,
        express: Option<&FastRule>,
    ) -> WrittenRule {
        let Some(line) = self.cell(session, direction) else { return WrittenRule::NONE };
        match express {
            Some(express) => {
                let (flags, words) = pack(express);
                WrittenRule(line.write(flags & !READABLE, words))
            }
            None => {
                line.write(0, [0; WORDS]);
                WrittenRule::NONE
            }
        }
    }

    /// Lets an express be read, unless another one was written since. For the publisher only.
    pub(crate) fn activate(
        &self,
        session: SessionIndex,
        direction: Direction,
        WrittenRule(sequence): WrittenRule,
    ) {
        let Some(line) = self.cell(session, direction) else { return };
        let head = line.head.load(Ordering::Relaxed);
        if head & SEQUENCE == sequence {
            line.head.store(head | READABLE, Ordering::Release);
        }
    }

    /// The express of one direction; `None` without one, and while it is written.
    #[cfg(test)]
    fn get(&self, session: SessionIndex, direction: Direction) -> Option<FastRuleLine<'_>> {
        self.slot(session, direction)?.read()
    }

    /// The place of the express of one direction of a session.
    #[inline]
    pub(crate) fn slot(
        &self,
        session: SessionIndex,
        direction: Direction,
    ) -> Option<FastRuleSlot<'_>> {
        self.cell(session, direction).map(FastRuleSlot)
    }

    #[inline]
    pub(crate) fn prefetch(&self, session: SessionIndex, direction: Direction) {
        if let Some(line) = self.cell(session, direction) {
            prefetch::read(line);
        }
    }

    /// Counts forwarded packets of a session; see [`crate::View::count_session`].
    #[inline]
    pub(crate) fn count(&self, session: SessionIndex, direction: Direction, pkts: u64, bytes: u64) {
        let Some(line) = self.cell(session, direction) else { return };
        line.pkts.add(pkts);
        line.bytes.add(bytes);
    }

    /// What was counted for `session`.
    pub(crate) fn traffic(&self, session: SessionIndex) -> SessionTraffic {
        let Some(FastRuleCells { uplink, downlink }) = self.0.get(session.0 as usize) else {
            return SessionTraffic::default();
        };
        SessionTraffic {
            ul_pkts: uplink.pkts.load(),
            ul_bytes: uplink.bytes.load(),
            dl_pkts: downlink.pkts.load(),
            dl_bytes: downlink.bytes.load(),
        }
    }

    /// Counts from zero again. Only while no worker can have found the session.
    pub(crate) fn reset_traffic(&self, session: SessionIndex) {
        for direction in [Direction::Uplink, Direction::Downlink] {
            let Some(line) = self.cell(session, direction) else { return };
            line.pkts.set(0);
            line.bytes.set(0);
        }
    }
}

impl fmt::Debug for FastRuleTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExpressTable").field("sessions", &self.0.len()).finish()
    }
}

/// The place of the express of one direction of a session.
#[derive(Clone, Copy)]
pub struct FastRuleSlot<'a>(pub(crate) &'a FastRuleCell);

impl fmt::Debug for FastRuleSlot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExpressHome").finish_non_exhaustive()
    }
}

impl<'a> FastRuleSlot<'a> {
    /// Asks for its cache line.
    #[inline]
    pub fn prefetch(self) {
        prefetch::read(self.0);
    }

    /// The express; `None` without one, and while it is written.
    #[inline]
    #[must_use]
    pub fn read(self) -> Option<FastRuleLine<'a>> {
        self.0.read()
    }

    /// The usage slots of the express and whether it has buckets, to be asked for ahead of
    /// [`ExpressHome::read`]; may be of two moments, and out of range where there are fewer.
    #[inline]
    pub(crate) fn usage_slots(self) -> Option<([UsageSlot; FAST_RULE_URRS_MAX], bool)> {
        let Self(line) = self;
        let head = line.head.load(Ordering::Relaxed);
        if head & (READABLE | CHOICE) != READABLE {
            return None;
        }
        let word = |at: usize| line.words[at].load(Ordering::Relaxed);
        let slots = [word(URRS), word(URRS + 1)].map(|urr| UsageSlot(halves(urr).0));
        Some((slots, head & METERS != 0))
    }
}

/// The express of one session and direction, as a worker read it at one moment: the meaning of
/// [`FastRule`] without its shape. What is said about the other direction means nothing.
#[derive(Clone, Copy)]
pub struct FastRuleLine<'a> {
    head: u64,
    words: [u64; WORDS],
    cell: &'a FastRuleCell,
}

impl fmt::Debug for FastRuleLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { head, words, cell: _ } = self;
        f.debug_struct("ExpressLine").field("head", head).field("words", words).finish()
    }
}

/// An express as one of those that packets choose among.
pub(crate) fn choice_line(express: &FastRule) -> ChoiceLine {
    let (head, [a, b, c, d, e]) = pack(express);
    ChoiceLine::of_words([head, a, b, c, d, e, 0, 0])
}

impl<'a> FastRuleLine<'a> {
    /// The express in the line of a choice, of the session whose line is `home`.
    #[inline]
    pub(crate) fn of_choice_line(line: &ChoiceLine, home: &'a FastRuleCell) -> Self {
        let [head, a, b, c, d, e, ..] = line.words();
        Self { head, words: [a, b, c, d, e], cell: home }
    }
}

impl FastRuleLine<'_> {
    /// The usage slots of its URRs, out of range where there are fewer.
    #[inline]
    pub(crate) fn usage_slots(&self) -> [UsageSlot; FAST_RULE_URRS_MAX] {
        let [_, _, _, urrs @ ..] = self.words;
        urrs.map(|urr| UsageSlot(halves(urr).0))
    }

    /// True when an uplink packet that came in the tunnel `teid` on one of the interfaces `on` fits,
    /// but for its source.
    #[inline]
    #[must_use]
    pub fn matches_uplink(&self, on: InterfaceSet, teid: Teid, qfi: Option<Qfi>) -> bool {
        halves(self.words[0]).0 == teid.0
            && InterfaceSet(halves(self.words[2]).0).intersects(on)
            && (self.head & ANY_QFI != 0 || qfi.is_some_and(|qfi| self.has_qfi(qfi)))
    }

    /// The source of an uplink packet of a family: an IPv4 address, or the key of an IPv6 one.
    ///
    /// PERF: without a branch on the family, which nothing predicts where both are mixed.
    #[inline(always)]
    #[must_use]
    pub fn source(&self, is_v6: bool) -> FastRuleUe<u64> {
        let flags = self.head >> (V4.trailing_zeros() + if is_v6 { V6_FLAGS_SHIFT } else { 0 });
        let only = select_family(is_v6, self.words[1], u64::from(halves(self.words[0]).1));
        match flags & 0b11 {
            0b01 => FastRuleUe::Only(only),
            0b11 => FastRuleUe::Any,
            _ => FastRuleUe::None,
        }
    }

    /// True when a downlink packet of a family that came on one of the interfaces `on` fits. `dst` is
    /// its IPv4 destination, or the key of its IPv6 one.
    ///
    /// PERF: as of [`ExpressLine::source`].
    #[inline(always)]
    #[must_use]
    pub fn matches_downlink(&self, on: InterfaceSet, dst: u64, is_v6: bool) -> bool {
        let (arrival, ue_v6) = halves(self.words[1]);
        let ue = select_family(is_v6, ue_v6, halves(self.words[0]).1);
        ue == select_family(is_v6, folded(dst), halves(dst).1)
            && self.head & select_family(is_v6, V6, V4) != 0
            && InterfaceSet(arrival).intersects(on)
    }

    /// Counts a forwarded packet of the session and direction. `bytes` is the length of the inner IP
    /// packet. For the worker that owns the session only.
    #[inline]
    pub fn count(&self, bytes: u64) {
        self.cell.pkts.add(1);
        self.cell.bytes.add(bytes);
    }

    #[inline]
    fn has_qfi(&self, qfi: Qfi) -> bool {
        let [_, _, _, _, flows @ ..] = self.head.to_le_bytes();
        flows.contains(&qfi.value())
    }

    /// Interfaces whose routes an uplink packet takes.
    #[inline]
    #[must_use]
    pub fn egress(&self) -> InterfaceSet {
        InterfaceSet(halves(self.words[2]).1)
    }

    /// The station that a downlink packet goes to.
    #[inline]
    #[must_use]
    pub fn next_hop(&self) -> NextHopIndex {
        NextHopIndex(halves(self.words[2]).1)
    }

    /// The far end of the tunnel that a downlink packet goes into.
    #[inline]
    #[must_use]
    pub fn tunnel(&self) -> (Teid, Ipv4Addr) {
        (Teid(halves(self.words[0]).0), Ipv4Addr::from_bits(halves(self.words[2]).0))
    }

    /// Type of service octet of the outer header of a downlink packet.
    #[inline]
    #[must_use]
    pub fn tos(&self) -> u8 {
        let [_, _, _, _, tos, ..] = self.head.to_le_bytes();
        tos
    }

    /// QoS flow and reflective QoS indication of a downlink packet's PDU Session Container.
    #[inline]
    #[must_use]
    pub fn marking(&self) -> Option<(Qfi, bool)> {
        let [_, _, _, _, _, qfi, ..] = self.head.to_le_bytes();
        let qfi = Qfi::new(qfi).filter(|_| self.head & HAS_QFI != 0);
        qfi.map(|qfi| (qfi, self.head & REFLECTIVE != 0))
    }

    /// The slice whose rates the packet shares.
    #[inline]
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "four bits")]
    pub const fn slice(&self) -> SliceId {
        SliceId(((self.head & SLICE) >> SLICE_SHIFT) as u8)
    }

    /// True when the rate of its buckets is guaranteed.
    #[inline]
    #[must_use]
    pub const fn is_guaranteed(&self) -> bool {
        self.head & GUARANTEED != 0
    }

    /// Which of the first two buckets of the session and direction the packet has to pass, by bits.
    #[inline]
    #[must_use]
    pub fn meters(&self) -> u64 {
        (self.head & METERS) >> METERS_SHIFT
    }

    /// The URRs that count the packet; those that there are come first.
    #[inline]
    #[must_use]
    pub fn urrs(&self) -> [Option<FastRuleUrr>; FAST_RULE_URRS_MAX] {
        let [_, _, _, urrs @ ..] = self.words;
        urrs.map(|word| {
            let (slot, generation) = halves(word);
            (word != NO_URR).then_some(FastRuleUrr { slot: UsageSlot(slot), generation })
        })
    }
}

/// One of two values by the family, without a branch.
#[inline(always)]
fn select_family<T>(is_v6: bool, v6: T, v4: T) -> T {
    core::hint::select_unpredictable(is_v6, v6, v4)
}

const fn pair(high: u32, low: u32) -> u64 {
    (high as u64) << 32 | low as u64
}

#[inline]
#[allow(clippy::cast_possible_truncation, reason = "the halves are wanted")]
const fn halves(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

/// Half of an IPv6 key. The compiler of an express sees to it that one key alone leads to it; the
/// half tells the keys before and after a change apart.
#[inline]
const fn folded(key: u64) -> u32 {
    let (high, low) = halves(key);
    high ^ low.rotate_left(16)
}

/// Flags and value of the UE's address.
fn pack_ue<A>(ue: FastRuleUe<A>, usual: u64, any: u64, value: impl FnOnce(A) -> u64) -> (u64, u64) {
    match ue {
        FastRuleUe::None => (0, 0),
        FastRuleUe::Any => (usual | any, 0),
        FastRuleUe::Only(addr) => (usual, value(addr)),
    }
}

fn pack(express: &FastRule) -> (u64, [u64; WORDS]) {
    let FastRule { arrival, ue_v4, ue_v6, forwarding: way, meters, slice, guaranteed, urrs } =
        express;
    let (v4_flags, ue_v4) = pack_ue(*ue_v4, V4, V4_ANY, |addr| addr.to_bits().into());
    let (v6_flags, ue_v6) = pack_ue(*ue_v6, V6, V6_ANY, |key| key);
    let mut flags = READABLE | v4_flags | v6_flags;
    flags |= u64::from(slice.0) << SLICE_SHIFT & SLICE;
    flags |= if *guaranteed { GUARANTEED } else { 0 };
    for (at, is_metered) in meters.iter().enumerate() {
        flags |= u64::from(*is_metered) << at << METERS_SHIFT;
    }
    let mut words = [NO_URR; WORDS];
    match way {
        FastRuleForwarding::Uplink { teid, qfis, egress: exit } => {
            words[0] = pair(teid.0, 0) | ue_v4;
            words[1] = ue_v6;
            words[2] = pair(arrival.0, exit.0);
            let mut flows = [NO_QFI; FAST_RULE_QFIS_MAX];
            for (flow, qfi) in flows.iter_mut().zip(qfis) {
                *flow = qfi.value();
            }
            flags |= u64::from(u32::from_le_bytes(flows)) << QFIS_SHIFT;
            flags |= if qfis.is_empty() { ANY_QFI } else { 0 };
        }
        FastRuleForwarding::Downlink { teid, addr, next_hop, tos, marking } => {
            words[0] = pair(teid.0, 0) | ue_v4;
            words[1] = pair(arrival.0, folded(ue_v6));
            words[2] = pair(addr.to_bits(), next_hop.0);
            flags |= u64::from(*tos) << TOS_SHIFT;
            if let Some((qfi, reflective)) = marking {
                flags |= HAS_QFI | u64::from(qfi.value()) << QFI_SHIFT;
                flags |= if *reflective { REFLECTIVE } else { 0 };
            }
        }
    }
    for (word, urr) in words[URRS..].iter_mut().zip(urrs) {
        *word = pair(urr.slot.0, urr.generation);
    }
    (flags, words)
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "a test stops where its premise fails")]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use arrayvec::ArrayVec;

    use super::*;

    const SESSION: SessionIndex = SessionIndex(1);
    const KEY: u64 = 0x2001_0db8_0000_0007;

    fn urrs(count: u32) -> ArrayVec<FastRuleUrr, FAST_RULE_URRS_MAX> {
        (0..count)
            .map(|n| FastRuleUrr { slot: UsageSlot(7 + n), generation: u32::MAX - n })
            .collect()
    }

    fn qfi(value: u8) -> Qfi {
        Qfi::new(value).unwrap()
    }

    fn downlink(seed: u32, marking: Option<(Qfi, bool)>) -> FastRule {
        FastRule {
            arrival: InterfaceSet(seed),
            ue_v4: FastRuleUe::Only(Ipv4Addr::from_bits(seed)),
            ue_v6: FastRuleUe::Only(pair(seed, 7)),
            forwarding: FastRuleForwarding::Downlink {
                teid: Teid(seed),
                addr: Ipv4Addr::from_bits(seed),
                next_hop: NextHopIndex(seed),
                tos: 0xff,
                marking,
            },
            meters: [false, true],
            slice: SliceId(15),
            guaranteed: true,
            urrs: urrs(2),
        }
    }

    fn uplink(flows: &[u8], ue_v4: FastRuleUe<Ipv4Addr>, ue_v6: FastRuleUe<u64>) -> FastRule {
        let qfis = flows.iter().map(|flow| qfi(*flow)).collect();
        let way = FastRuleForwarding::Uplink { teid: Teid(9), qfis, egress: InterfaceSet(5) };
        FastRule {
            arrival: InterfaceSet(1 << 3),
            ue_v4,
            ue_v6,
            forwarding: way,
            meters: [true, false],
            slice: SliceId(0),
            guaranteed: false,
            urrs: urrs(1),
        }
    }

    fn table(express: &FastRule, direction: Direction) -> FastRuleTable {
        let table = FastRuleTable::new(2);
        put(&table, direction, express);
        table
    }

    fn put(table: &FastRuleTable, direction: Direction, express: &FastRule) {
        let unsettled = table.set(SESSION, direction, Some(express));
        table.activate(SESSION, direction, unsettled);
    }

    fn on(id: u32) -> InterfaceSet {
        InterfaceSet(1 << id)
    }

    #[test]
    fn downlink_fast_rule_is_read_as_it_was_written() {
        for marking in [None, Some((qfi(0), false)), Some((qfi(63), true))] {
            let express = downlink(u32::MAX, marking);
            let table = table(&express, Direction::Downlink);
            let line = table.get(SESSION, Direction::Downlink).unwrap();
            assert_eq!(line.tunnel(), (Teid(u32::MAX), Ipv4Addr::BROADCAST));
            assert_eq!((line.next_hop(), line.tos()), (NextHopIndex(u32::MAX), 0xff));
            assert_eq!((line.marking(), line.meters()), (marking, 0b10));
            assert!(line.urrs().into_iter().flatten().eq(urrs(2)));
        }
    }

    #[test]
    fn downlink_packet_fits_by_arrival_and_address() {
        let table = table(&downlink(1 << 3, None), Direction::Downlink);
        let line = table.get(SESSION, Direction::Downlink).unwrap();
        for (is_v6, ue, other) in
            [(false, 1 << 3, 1 << 4), (true, pair(1 << 3, 7), pair(1 << 3, 8))]
        {
            assert!(line.matches_downlink(on(3), ue, is_v6));
            assert!(!line.matches_downlink(on(2), ue, is_v6));
            assert!(!line.matches_downlink(on(3), other, is_v6));
            assert!(!line.matches_downlink(on(3), ue, !is_v6));
        }
    }

    #[test]
    fn uplink_packet_fits_by_arrival_tunnel_and_flow() {
        let (ue_v4, ue_v6) = (FastRuleUe::Only(Ipv4Addr::new(10, 0, 0, 1)), FastRuleUe::Only(KEY));
        let table = table(&uplink(&[5, 9], ue_v4, ue_v6), Direction::Uplink);
        let line = table.get(SESSION, Direction::Uplink).unwrap();
        let tunnel = Teid(9);
        assert!(line.matches_uplink(on(3), tunnel, Some(qfi(9))));
        assert!(line.matches_uplink(on(3), tunnel, Some(qfi(5))));
        assert!(!line.matches_uplink(on(4), tunnel, Some(qfi(9))));
        assert!(!line.matches_uplink(on(3), Teid(8), Some(qfi(9))));
        assert!(!line.matches_uplink(on(3), tunnel, Some(qfi(6))));
        assert!(!line.matches_uplink(on(3), tunnel, None));
        assert_eq!(line.source(false), FastRuleUe::Only(0x0a00_0001));
        assert_eq!(line.source(true), ue_v6);
        assert_eq!((line.egress(), line.meters()), (InterfaceSet(5), 0b01));
        assert!(line.urrs().into_iter().flatten().eq(urrs(1)));
    }

    #[test]
    fn address_and_flow_may_be_any_or_none() {
        let table = table(&uplink(&[], FastRuleUe::Any, FastRuleUe::None), Direction::Uplink);
        let line = table.get(SESSION, Direction::Uplink).unwrap();
        assert!(line.matches_uplink(on(3), Teid(9), None));
        assert!(line.matches_uplink(on(3), Teid(9), Some(qfi(63))));
        assert_eq!((line.source(false), line.source(true)), (FastRuleUe::Any, FastRuleUe::None));
    }

    #[test]
    fn session_without_a_fast_rule_has_none() {
        let table = FastRuleTable::new(2);
        let express = downlink(1, None);
        put(&table, Direction::Downlink, &express);
        assert!(table.get(SESSION, Direction::Uplink).is_none());
        assert!(table.get(SessionIndex(0), Direction::Downlink).is_none());
        assert!(table.get(SessionIndex::NONE, Direction::Downlink).is_none());
        table.set(SESSION, Direction::Downlink, None);
        assert!(table.get(SESSION, Direction::Downlink).is_none());
    }

    #[test]
    fn fast_rule_is_read_once_it_is_active_and_never_after_another_one() {
        let table = FastRuleTable::new(2);
        let get = || table.get(SESSION, Direction::Downlink).map(|line| line.next_hop().0);
        let first = table.set(SESSION, Direction::Downlink, Some(&downlink(1, None)));
        assert_eq!(get(), None);
        let second = table.set(SESSION, Direction::Downlink, Some(&downlink(2, None)));
        table.activate(SESSION, Direction::Downlink, first);
        assert_eq!(get(), None);
        table.activate(SESSION, Direction::Downlink, second);
        assert_eq!(get(), Some(2));
        let gone = table.set(SESSION, Direction::Downlink, None);
        table.activate(SESSION, Direction::Downlink, second);
        table.activate(SESSION, Direction::Downlink, gone);
        assert_eq!(get(), None);
    }

    #[test]
    fn traffic_survives_a_change_of_the_fast_rule_and_ends_with_a_reset() {
        let table = FastRuleTable::new(2);
        table.count(SESSION, Direction::Uplink, 2, 200);
        put(&table, Direction::Uplink, &uplink(&[], FastRuleUe::Any, FastRuleUe::Any));
        table.count(SESSION, Direction::Downlink, 1, 50);
        let expected = SessionTraffic { ul_pkts: 2, ul_bytes: 200, dl_pkts: 1, dl_bytes: 50 };
        assert_eq!(table.traffic(SESSION), expected);
        table.reset_traffic(SESSION);
        assert_eq!(table.traffic(SESSION), SessionTraffic::default());
    }

    #[test]
    fn reader_never_sees_a_mixture_of_two() {
        const WRITES: u32 = 20_000;
        let table = FastRuleTable::new(2);
        let done = AtomicBool::new(false);
        let is_whole = |line: &FastRuleLine<'_>| {
            let NextHopIndex(seed) = line.next_hop();
            let (flags, words) = pack(&downlink(seed, None));
            (line.head & !SEQUENCE, line.words) == (flags, words)
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                for seed in 1..=WRITES {
                    put(&table, Direction::Downlink, &downlink(seed, None));
                }
                done.store(true, Ordering::Release);
            });
            while !done.load(Ordering::Acquire) {
                if let Some(seen) = table.get(SESSION, Direction::Downlink) {
                    assert!(is_whole(&seen), "{seen:?}");
                }
            }
        });
        let last = table.get(SESSION, Direction::Downlink).unwrap();
        assert!(is_whole(&last) && last.next_hop() == NextHopIndex(WRITES));
    }
}
