//! Fast rules by session index: one cell per session and direction, and one for the tunnel in which another UPF
//! sends packets to the UE. Sessions without such a tunnel never write that cell. A cell has one cache line for the
//! usual rule and the counters of its packets, and one for what fewer rules need: further URRs, the far end of a rule
//! from tunnel to tunnel, words of a filter or selector, and a deferred charge of the rule's buckets.
//!
//! A cell is a sequence lock: the publisher (control thread) writes, workers read. A worker that reads a
//! cell during a write finds no fast rule, and its packet takes the stages. A change takes effect in this
//! order:
//!
//! 1. The publisher clears the cells of the session: its packets take the stages.
//! 2. It publishes the new rules, and writes the fast rules that were compiled from them. Workers do not
//!    read them yet.
//! 3. Every worker passes a quiescent state. From then on it uses the new rules, and each earlier command,
//!    such as an End Marker, has run or is pending. While one is pending, no packet takes the fast path.
//! 4. The publisher activates the fast rules. From then on the control thread may reuse the usage slots and
//!    next hops that only the former rules name.
//!
//! # Counters
//!
//! The counters of the cells are those of the session's own URR ([`SessionRules::own_urr`]): packets that it does not
//! count count elsewhere, in the session's own line of the `usage` counters. A session that never had an own URR counts
//! all packets of fast rules here. The traffic of a session is the sum of its cells and of its line.
//!
//! Packets count without checks while the octets of their cell stay below its limit. The worker that owns the session
//! writes counters and limit. When a rule is activated, the publisher writes the limit: zero with an own URR, so that the
//! next packet takes the stages, which check and set it; none otherwise. If the stages set it at the same time, either
//! value is a correct one.
//!
//! [`SessionRules::own_urr`]: adit_rules::SessionRules::own_urr

use core::{fmt, ops, ptr};

use adit_rules::compile::{FILTER_WORDS, PackedFilter};
use adit_rules::packed_fast_rule::FAST_RULE_WORDS;
use adit_rules::{FAST_RULE_URRS_MAX, MatcherLine, PackedFastRule};
use adit_types::{Direction, GtpuPeerIndex, Nanos, SessionIndex, Teid, UsageSlot};

use crate::counters::{Counter, SessionTraffic};
use crate::deferred_charge::{ChargedRule, DeferredCharge};
use crate::large::LargeArray;
use crate::meters::MeterPair;
use crate::prefetch;
use crate::sync::{AtomicPtr, AtomicU64, Ordering, fence};

/// Words of a rule after the first one and before the last ones.
const MIDDLE: usize = 2;
/// Words in the second line.
const LAST: usize = FAST_RULE_WORDS - 1 - MIDDLE;

/// The sequence number: the low bits of the head. It wraps after 2^12 writes, each of which adds two; no
/// reader is delayed for that many writes between its two loads.
const SEQUENCE: u64 = (1 << 13) - 1;
/// The cell holds a rule from tunnel to tunnel or, in downlink, into a tunnel over IPv6.
const RELAY: u64 = PackedFastRule::RELAY;
/// The cell refers to the lines of several fast rules ([`crate::fast_rule_selector`]) instead of holding one.
const REFERS: u64 = 1 << 23;
/// Workers may read the cell.
const READABLE: u64 = 1 << 24;
/// Of a cell that refers to lines: a single filter selects one of them, not a matcher.
const FILTER: u64 = PackedFilter::FLAG;

const _: () = assert!(SEQUENCE | REFERS | READABLE == PackedFastRule::PUBLISHER_FLAGS);
const _: () = assert!(usize::BITS == u64::BITS, "a word fits a pointer");
const _: () = assert!(LAST == FAST_RULE_URRS_MAX, "URRs come last");
const _: () = assert!(MIDDLE + LAST >= FILTER_WORDS);
/// The flags of a cell of which readers need the second line.
const LAST_WORDS: u64 = REFERS | PackedFastRule::LAST_WORDS;

/// What an active cell holds: the bits of its head, and which of them say so.
#[derive(Clone, Copy)]
pub(crate) struct CellKind {
    bits: u64,
    mask: u64,
}

impl CellKind {
    /// A fast rule, but none with [`RELAY`].
    const RULE: Self = Self { bits: READABLE, mask: READABLE | REFERS | RELAY };
    /// The same, and packets count nowhere but beside the rule.
    const BESIDE_RULE: Self =
        Self { bits: READABLE, mask: READABLE | REFERS | RELAY | PackedFastRule::COUNTS_ELSEWHERE };
    /// The same, and it is plain: packets pass no bucket and count nowhere but beside the rule.
    const PLAIN_RULE: Self =
        Self { bits: READABLE, mask: READABLE | REFERS | RELAY | PackedFastRule::NOT_PLAIN };
    /// A fast rule of any kind.
    const ANY_RULE: Self = Self { bits: READABLE, mask: READABLE | REFERS };
    /// A plain fast rule of any kind.
    const ANY_PLAIN_RULE: Self =
        Self { bits: READABLE, mask: READABLE | REFERS | PackedFastRule::NOT_PLAIN };
    /// A fast rule with [`RELAY`].
    const RELAY_RULE: Self = Self { bits: READABLE | RELAY, mask: READABLE | REFERS | RELAY };
    /// A filter, and the address of the lines of one or two fast rules, none with [`RELAY`].
    pub(crate) const FILTER: Self =
        Self { bits: READABLE | REFERS | FILTER, mask: READABLE | REFERS | FILTER | RELAY };
    /// The same with any fast rules.
    pub(crate) const ANY_FILTER: Self =
        Self { bits: READABLE | REFERS | FILTER, mask: READABLE | REFERS | FILTER };
    /// A selector, and the address of its lines.
    pub(crate) const SELECTOR: Self =
        Self { bits: READABLE | REFERS, mask: READABLE | REFERS | FILTER };

    #[inline]
    const fn is_of(self, head: u64) -> bool {
        head & self.mask == self.bits
    }

    /// True if a reader of a cell of this kind needs its last words.
    #[inline]
    const fn has_last_words(self, head: u64) -> bool {
        // PERF (adit bench datapath): known when the loop for plain rules is compiled.
        let never = self.mask & LAST_WORDS == LAST_WORDS && self.bits & LAST_WORDS == 0;
        !never && head & LAST_WORDS != 0
    }
}

/// A fast rule, or what selects among several, and what the session's packets change.
#[derive(Default)]
#[cfg_attr(not(loom), derive(zerocopy::FromZeros))]
#[repr(C, align(128))]
pub(crate) struct FastRuleCell {
    /// The flags of the rule or filter, the sequence number of the cell, [`REFERS`] and [`READABLE`].
    head: AtomicU64,
    /// The address of lines; a pointer, because an integer would lose its provenance. Of a fast rule: its
    /// first word, as a pointer without provenance that is never dereferenced.
    first: AtomicPtr<MatcherLine>,
    words: [AtomicU64; MIDDLE],
    pkts: Counter,
    bytes: Counter,
    /// When the last packet arrived; zero is never. Unit: nanoseconds.
    last: Counter,
    /// Packets are counted without checks while `bytes` stays below this. Unit: octets.
    limit: Counter,
    /// The second line. Words of rules with one of [`LAST_WORDS`].
    last_words: [AtomicU64; LAST],
    /// For packets of a rule with buckets.
    pub(crate) charge: DeferredCharge,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<FastRuleCell>() == 128, "two adjacent cache lines");
#[cfg(not(loom))]
const _: () = assert!(core::mem::offset_of!(FastRuleCell, last_words) == 64, "the second line");

/// The words of a cell behind its head.
#[derive(Clone, Copy)]
pub(crate) struct CellWords {
    pub(crate) first: *mut MatcherLine,
    pub(crate) words: [u64; MIDDLE + LAST],
}

impl CellWords {
    const EMPTY: Self = Self { first: ptr::null_mut(), words: [0; MIDDLE + LAST] };

    fn of_rule(rule: &PackedFastRule) -> Self {
        let [first, words @ ..] = rule.words();
        #[allow(clippy::cast_possible_truncation, reason = "a word fits a pointer")]
        Self { first: ptr::without_provenance_mut(first as usize), words }
    }

    #[inline]
    fn to_rule(self, head: u64) -> PackedFastRule {
        let [a, b, c, d] = self.words;
        PackedFastRule::of_words(head, [self.first.addr() as u64, a, b, c, d])
    }
}

impl FastRuleCell {
    /// Writes a cell and returns its sequence number. For the publisher only.
    fn write(&self, flags: u64, CellWords { first, words }: CellWords) -> u64 {
        let head = self.head.load(Ordering::Relaxed);
        let odd = (head + 1) & SEQUENCE;
        self.head.store(odd, Ordering::Relaxed);
        fence(Ordering::Release);
        self.first.store(first, Ordering::Relaxed);
        for (cell, word) in self.words.iter().chain(&self.last_words).zip(words) {
            cell.store(word, Ordering::Relaxed);
        }
        let even = (odd + 1) & SEQUENCE;
        self.head.store(even | flags, Ordering::Release);
        even
    }

    /// Writes a fast rule, or clears the cell. Workers do not read the rule before it is activated. For the
    /// publisher only.
    fn set(&self, rule: Option<&PackedFastRule>) -> WrittenRule {
        match rule {
            Some(rule) => WrittenRule(self.write(rule.flags(), CellWords::of_rule(rule))),
            None => {
                self.write(0, CellWords::EMPTY);
                WrittenRule::NONE
            }
        }
    }

    /// Lets workers read what was written, unless something else was written since. For the publisher
    /// only. `limit`: see [`FastRuleTable::activate`].
    fn activate(&self, WrittenRule(sequence): WrittenRule, limit: u64) {
        let head = self.head.load(Ordering::Relaxed);
        if head & SEQUENCE == sequence {
            self.limit.set(limit);
            self.head.store(head | READABLE, Ordering::Release);
        }
    }

    /// Counts a packet of `bytes` octets that arrived at `now`. For the worker that owns the session only.
    #[inline]
    pub(crate) fn count(&self, bytes: u64, now: Nanos) {
        self.pkts.add(1);
        self.bytes.add(bytes);
        self.last.set(now.0);
    }

    /// Sets how many more octets count without checks. For the worker that owns the session only.
    pub(crate) fn limit_to(&self, more: u64) {
        self.limit.set(self.bytes.load().saturating_add(more));
    }

    /// The fast rule, if the cell holds an active one of this kind.
    #[inline]
    fn read(&self, kind: CellKind) -> Option<FastRuleSnapshot<'_>> {
        let (head, words) = self.read_if(kind)?;
        Some(FastRuleSnapshot { rule: words.to_rule(head), cell: self })
    }

    /// Holds nothing.
    fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed) & !SEQUENCE == 0
    }

    /// Writes a filter or a selector with its flags. Workers do not read it before
    /// [`FastRuleTable::activate`]. For the publisher only.
    pub(crate) fn write_reference(&self, flags: u64, words: CellWords) -> WrittenRule {
        WrittenRule(self.write(REFERS | flags, words))
    }

    /// Head and words of one moment, if the cell is of this kind and active.
    #[inline]
    pub(crate) fn read_if(&self, kind: CellKind) -> Option<(u64, CellWords)> {
        let head = self.head.load(Ordering::Acquire);
        if !kind.is_of(head) {
            return None;
        }
        let first = self.first.load(Ordering::Relaxed);
        let [a, b] = self.words.each_ref().map(|word| word.load(Ordering::Relaxed));
        let [c, d] = match kind.has_last_words(head) {
            false => PackedFastRule::NO_LAST_WORDS,
            true => self.last_words.each_ref().map(|word| word.load(Ordering::Relaxed)),
        };
        let words = [a, b, c, d];
        fence(Ordering::Acquire);
        (self.head.load(Ordering::Relaxed) == head).then_some((head, CellWords { first, words }))
    }
}

/// A cell that is written and not active yet: the sequence number of its cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WrittenRule(u64);

impl WrittenRule {
    /// None: the sequence number of no cell.
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

/// The fast rules of all sessions, and their traffic.
pub(crate) struct FastRuleTable {
    cells: LargeArray<FastRuleCells>,
    tunnels_to_ues: LargeArray<FastRuleCell>,
}

impl FastRuleTable {
    pub(crate) fn new(sessions: usize) -> Self {
        Self { cells: LargeArray::zeroed(sessions), tunnels_to_ues: LargeArray::zeroed(sessions) }
    }

    /// Sessions that there is room for.
    pub(crate) fn len(&self) -> usize {
        self.cells.len()
    }

    #[inline]
    pub(crate) fn cell(
        &self,
        session: SessionIndex,
        direction: Direction,
    ) -> Option<&FastRuleCell> {
        let cells = self.cells.get(session.0 as usize)?;
        Some(match direction {
            Direction::Uplink => &cells.uplink,
            Direction::Downlink => &cells.downlink,
        })
    }

    /// Replaces the fast rule of one direction; `None` clears the cell. Workers do not read the new one
    /// before [`FastRuleTable::activate`] is called with the value that this returns. For the publisher only.
    pub(crate) fn set(
        &self,
        session: SessionIndex,
        direction: Direction,
        rule: Option<&PackedFastRule>,
    ) -> WrittenRule {
        self.cell(session, direction).map_or(WrittenRule::NONE, |cell| cell.set(rule))
    }

    /// Lets workers read what was written, unless something else was written since. `limit`: up to which octet
    /// packets count without checks. For the publisher only.
    pub(crate) fn activate(
        &self,
        session: SessionIndex,
        direction: Direction,
        written: WrittenRule,
        limit: u64,
    ) {
        if let Some(cell) = self.cell(session, direction) {
            cell.activate(written, limit);
        }
    }

    /// Replaces the fast rule of the tunnel in which another UPF sends packets to the UE; otherwise like
    /// [`FastRuleTable::set`].
    pub(crate) fn set_tunnel_to_ue(
        &self,
        session: SessionIndex,
        rule: Option<&PackedFastRule>,
    ) -> WrittenRule {
        let Some(cell) = self.tunnel_cell(session) else { return WrittenRule::NONE };
        // An empty line is not written: most sessions take no memory for theirs.
        if rule.is_none() && cell.is_empty() {
            return WrittenRule::NONE;
        }
        cell.set(rule)
    }

    /// [`FastRuleTable::activate`] for the rule that [`FastRuleTable::set_tunnel_to_ue`] wrote.
    pub(crate) fn activate_tunnel_to_ue(
        &self,
        session: SessionIndex,
        written: WrittenRule,
        limit: u64,
    ) {
        if let Some(cell) = self.tunnel_cell(session).filter(|_| written != WrittenRule::NONE) {
            cell.activate(written, limit);
        }
    }

    /// The TEID of the rule that [`FastRuleTable::set_tunnel_to_ue`] wrote. For the publisher only.
    pub(crate) fn tunnel_to_ue(&self, session: SessionIndex) -> Option<Teid> {
        let cell = self.tunnel_cell(session)?;
        let head = cell.head.load(Ordering::Relaxed);
        let words = CellWords {
            first: cell.first.load(Ordering::Relaxed),
            words: core::array::from_fn(|at| {
                let word = cell.words.get(at).or_else(|| cell.last_words.get(at - MIDDLE));
                word.map_or(0, |word| word.load(Ordering::Relaxed))
            }),
        };
        (head & RELAY != 0).then(|| words.to_rule(head).relayed_teid())
    }

    fn tunnel_cell(&self, session: SessionIndex) -> Option<&FastRuleCell> {
        self.tunnels_to_ues.get(session.0 as usize)
    }

    /// The cell of the tunnel in which another UPF sends packets to the UE.
    #[inline]
    pub(crate) fn tunnel_cell_ref(&self, session: SessionIndex) -> Option<FastRuleCellRef<'_>> {
        self.tunnel_cell(session).map(FastRuleCellRef)
    }

    /// The fast rule of one direction; `None` if there is none, or while it is written.
    #[cfg(test)]
    fn get(&self, session: SessionIndex, direction: Direction) -> Option<FastRuleSnapshot<'_>> {
        self.cell_ref(session, direction)?.read()
    }

    /// The cell of one direction of a session.
    #[inline]
    pub(crate) fn cell_ref(
        &self,
        session: SessionIndex,
        direction: Direction,
    ) -> Option<FastRuleCellRef<'_>> {
        self.cell(session, direction).map(FastRuleCellRef)
    }

    #[inline]
    pub(crate) fn prefetch(&self, session: SessionIndex, direction: Direction) {
        if let Some(cell) = self.cell(session, direction) {
            prefetch::read(cell);
        }
    }

    /// What the cells of `session` counted, and when the last packet arrived.
    #[inline]
    pub(crate) fn counted(&self, session: SessionIndex) -> (SessionTraffic, Option<Nanos>) {
        let Some(FastRuleCells { uplink, downlink }) = self.cells.get(session.0 as usize) else {
            return (SessionTraffic::default(), None);
        };
        let of_tunnel = |counter: fn(&FastRuleCell) -> &Counter| {
            self.tunnel_cell(session).map_or(0, |cell| counter(cell).load())
        };
        let traffic = SessionTraffic {
            ul_pkts: uplink.pkts.load(),
            ul_bytes: uplink.bytes.load(),
            dl_pkts: downlink.pkts.load().wrapping_add(of_tunnel(|cell| &cell.pkts)),
            dl_bytes: downlink.bytes.load().wrapping_add(of_tunnel(|cell| &cell.bytes)),
        };
        let last = uplink.last.load().max(downlink.last.load()).max(of_tunnel(|cell| &cell.last));
        (traffic, Some(last).filter(|ns| *ns != 0).map(Nanos))
    }

    /// Sets how many more octets count without checks in all cells of a session together. For the worker that owns it
    /// only.
    pub(crate) fn limit_to(&self, session: SessionIndex, more: u64) {
        let Some(FastRuleCells { uplink, downlink }) = self.cells.get(session.0 as usize) else {
            return;
        };
        // What is empty is activated with a limit of its own.
        let tunnel = self.tunnel_cell(session).filter(|cell| !cell.is_empty());
        let share = match (more, tunnel) {
            (u64::MAX, _) => u64::MAX,
            (_, None) => more / 2,
            (_, Some(_)) => more / 3,
        };
        [Some(uplink), Some(downlink), tunnel]
            .into_iter()
            .flatten()
            .for_each(|cell| cell.limit_to(share));
    }
}

impl fmt::Debug for FastRuleTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FastRuleTable").field("sessions", &self.cells.len()).finish()
    }
}

/// The flags of cells, of one or of several together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CellFlags(u64);

impl CellFlags {
    /// The flags that a cell with `head` has.
    pub(crate) const fn of_head(head: u64) -> Self {
        Self(head)
    }

    /// True if SDF filters may select the fast rule of a packet: one of the cells may refer to lines.
    #[inline]
    #[must_use]
    pub const fn may_refer(self) -> bool {
        self.0 & REFERS != 0
    }

    /// True if one of the cells may hold a fast rule with buckets.
    #[inline]
    #[must_use]
    pub const fn may_be_metered(self) -> bool {
        PackedFastRule::has_meters(self.0)
    }

    /// True if packets of a fast rule in one of the cells may count elsewhere than beside it.
    #[inline]
    #[must_use]
    pub const fn may_count_elsewhere(self) -> bool {
        self.0 & PackedFastRule::COUNTS_ELSEWHERE != 0
    }

    /// False if all fast rules in the cells are plain: without buckets, and packets count only beside the rule.
    #[inline]
    #[must_use]
    pub const fn may_not_be_plain(self) -> bool {
        self.0 & PackedFastRule::NOT_PLAIN != 0
    }

    /// True if one of the cells may hold a fast rule with URRs besides the session's own one.
    #[inline]
    #[must_use]
    pub const fn has_urrs(self) -> bool {
        PackedFastRule::has_urrs(self.0)
    }

    /// True if one of the cells may hold a fast rule from tunnel to tunnel or, in downlink, into a tunnel over IPv6.
    #[inline]
    #[must_use]
    pub const fn may_relay(self) -> bool {
        self.0 & RELAY != 0
    }

    /// True if the cell holds an active fast rule for which [`CellFlags::may_relay`] is false.
    #[inline]
    pub(crate) const fn is_rule(self) -> bool {
        CellKind::RULE.is_of(self.0)
    }

    /// True if the cell holds an active fast rule for which [`CellFlags::may_relay`] is true.
    #[inline]
    pub(crate) const fn is_relay(self) -> bool {
        CellKind::RELAY_RULE.is_of(self.0)
    }

    /// True if the cell holds an active plain fast rule for which [`CellFlags::may_relay`] is false: see
    /// [`CellFlags::may_not_be_plain`].
    #[inline]
    #[must_use]
    pub const fn is_plain_rule(self) -> bool {
        CellKind::PLAIN_RULE.is_of(self.0)
    }
}

impl ops::BitOrAssign for CellFlags {
    #[inline]
    fn bitor_assign(&mut self, Self(other): Self) {
        self.0 |= other;
    }
}

/// The cell of one direction of a session, which holds its fast rule, or what selects among several.
#[derive(Clone, Copy)]
pub struct FastRuleCellRef<'a>(pub(crate) &'a FastRuleCell);

impl fmt::Debug for FastRuleCellRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FastRuleCellRef").finish_non_exhaustive()
    }
}

impl<'a> FastRuleCellRef<'a> {
    /// Prefetches its cache line.
    #[inline]
    pub fn prefetch(self) {
        prefetch::read(self.0);
    }

    /// Prefetches its second line, of the deferred charge and of what few rules need.
    #[inline]
    pub fn prefetch_last_words(self) {
        prefetch::read(&self.0.last_words);
    }

    /// Charges a packet of `bytes` octets to the buckets of the cell's rule with `flags` if an earlier packet passed
    /// them at `now`, all of them were idle before it, and they are open. Returns whether it did; if not,
    /// [`TablesView::try_charge`](crate::TablesView::try_charge) decides. For the worker that owns the session only.
    #[inline(always)]
    // PERF (adit bench datapath --rates police): once per packet with busy buckets.
    #[must_use]
    pub fn try_charge_at_once(self, flags: u64, now: Nanos, bytes: u16) -> bool {
        self.0.charge.try_charge_at_once(flags, now, bytes)
    }

    /// The fast rule, which is neither from tunnel to tunnel nor into a tunnel over IPv6; `None` if the cell holds no
    /// active one: it is empty,
    /// refers to lines, is being written, or is not activated yet.
    #[inline]
    #[must_use]
    pub fn read(self) -> Option<FastRuleSnapshot<'a>> {
        self.0.read(CellKind::RULE)
    }

    /// The fast rule if its packets count nowhere but beside it; `None` as [`FastRuleCellRef::read`].
    // PERF (adit bench datapath --rates police): one comparison finds both.
    #[inline]
    #[must_use]
    pub fn read_beside(self) -> Option<FastRuleSnapshot<'a>> {
        self.0.read(CellKind::BESIDE_RULE)
    }

    /// The fast rule if it is plain ([`CellFlags::may_not_be_plain`]); `None` as [`FastRuleCellRef::read`].
    // PERF (adit bench datapath): one comparison finds both.
    #[inline]
    #[must_use]
    pub fn read_plain(self) -> Option<FastRuleSnapshot<'a>> {
        self.0.read(CellKind::PLAIN_RULE)
    }

    /// The fast rule of any kind; `None` as [`FastRuleCellRef::read`].
    #[inline]
    #[must_use]
    pub fn read_any(self) -> Option<FastRuleSnapshot<'a>> {
        self.0.read(CellKind::ANY_RULE)
    }

    /// The fast rule of any kind if it is plain; `None` as [`FastRuleCellRef::read`].
    #[inline]
    #[must_use]
    pub fn read_any_plain(self) -> Option<FastRuleSnapshot<'a>> {
        self.0.read(CellKind::ANY_PLAIN_RULE)
    }

    /// Its flags at this moment.
    #[inline]
    #[must_use]
    pub fn flags(self) -> CellFlags {
        CellFlags(self.0.head.load(Ordering::Relaxed))
    }

    /// The peer of a fast rule into a tunnel over IPv6, to prefetch it. During a write it may be anything.
    #[inline]
    pub(crate) fn peer(self) -> GtpuPeerIndex {
        let [_, far_end] = &self.0.words;
        PackedFastRule::peer_in(far_end.load(Ordering::Relaxed))
    }

    /// The usage slots of a fast rule with URRs besides the session's own one, to prefetch them before
    /// [`FastRuleCellRef::read`]. During a write they may belong to different rules; slots without a URR are out of
    /// range.
    #[inline]
    pub(crate) fn usage_slots(self) -> [UsageSlot; FAST_RULE_URRS_MAX] {
        let urrs = self.0.last_words.each_ref().map(|urr| urr.load(Ordering::Relaxed));
        PackedFastRule::slots_in(urrs)
    }
}

impl FastRuleCellRef<'_> {
    /// The address of the lines and a word of a selector, for prefetches: during a write they may belong
    /// together with other words, or be anything.
    #[inline]
    pub(crate) fn peek_selector(self, word: usize) -> Option<(*const MatcherLine, u64)> {
        let Self(cell) = self;
        if !CellKind::SELECTOR.is_of(cell.head.load(Ordering::Relaxed)) {
            return None;
        }
        let word = cell.words[word].load(Ordering::Relaxed);
        Some((cell.first.load(Ordering::Relaxed).cast_const(), word))
    }
}

/// A consistent copy of the fast rule of one session and direction, with the cell that counts its traffic.
#[derive(Clone, Copy)]
pub struct FastRuleSnapshot<'a> {
    rule: PackedFastRule,
    cell: &'a FastRuleCell,
}

impl fmt::Debug for FastRuleSnapshot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FastRuleSnapshot").field("rule", &self.rule).finish_non_exhaustive()
    }
}

impl ops::Deref for FastRuleSnapshot<'_> {
    type Target = PackedFastRule;

    #[inline(always)]
    fn deref(&self) -> &PackedFastRule {
        &self.rule
    }
}

impl<'a> FastRuleSnapshot<'a> {
    /// The fast rule in one of the lines that follow the lines of a matcher. `cell` counts the traffic of
    /// its session.
    #[inline]
    pub(crate) fn of_line(line: &MatcherLine, cell: &'a FastRuleCell) -> Self {
        Self { rule: PackedFastRule::of_line(line), cell }
    }

    /// Charges a packet of `bytes` octets to the buckets of the rule, which is that of its cell, if all of them are
    /// idle at `now` and their limits are known. Returns whether it did; if not,
    /// [`TablesView::try_charge`](crate::TablesView::try_charge) decides. For the worker that owns the session only.
    #[inline(always)]
    // PERF (adit bench datapath --rates police): once per packet with buckets.
    #[must_use]
    pub fn try_charge_idle(&self, now: Nanos, bytes: u16) -> bool {
        self.cell.charge.try_charge_idle(self.rule.flags(), now, bytes)
    }

    /// [`TablesView::try_charge`](crate::TablesView::try_charge) with the buckets of the session.
    pub(crate) fn try_charge(&self, pair: MeterPair<'_>, now: Nanos, bytes: u16) -> bool {
        let rule = ChargedRule { head: self.rule.flags(), which: self.rule.meters() };
        self.cell.charge.try_charge(pair, rule, now, bytes)
    }

    /// True if a packet of `bytes` octets can be counted without checks beside the rule: it reaches no limit of the
    /// session's own URR and is not the first of its generation.
    #[inline(always)]
    // PERF (adit bench datapath): once per packet.
    #[must_use]
    pub fn is_unchecked(&self, bytes: u64) -> bool {
        // Counters of octets do not reach 2^63.
        self.cell.bytes.load() + bytes < self.cell.limit.load()
    }

    /// Counts a forwarded packet beside the rule. `bytes` is the length of the inner IP packet. For the worker that owns
    /// the session only.
    #[inline(always)]
    // PERF (adit bench datapath): once per packet.
    pub fn count(&self, bytes: u64, now: Nanos) {
        self.cell.count(bytes, now);
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "a test stops where its premise fails")]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use core::net::Ipv4Addr;

    use adit_rules::{FastRule, FastRuleForwarding, FastRulePeer, FastRuleTunnel, FastRuleUe};
    use adit_types::{InterfaceSet, NextHopIndex, SliceId};

    use super::*;

    const SESSION: SessionIndex = SessionIndex(1);

    fn downlink(seed: u32) -> PackedFastRule {
        PackedFastRule::from(&unpacked(seed))
    }

    fn unpacked(seed: u32) -> FastRule {
        FastRule {
            arrival: InterfaceSet(seed),
            ue_v4: FastRuleUe::Only(Ipv4Addr::from_bits(seed)),
            ue_v6: FastRuleUe::Only(u64::from(seed) << 32 | 7),
            forwarding: FastRuleForwarding::Downlink {
                teid: Teid(seed),
                peer: FastRulePeer::V4(Ipv4Addr::from_bits(seed)),
                next_hop: NextHopIndex(seed),
                tos: 0xff,
                marking: None,
            },
            meters: [false, true],
            slice: SliceId(15),
            guaranteed: true,
            urrs: Default::default(),
            counts_apart: false,
        }
    }

    fn put(table: &FastRuleTable, direction: Direction, rule: &PackedFastRule) {
        let written = table.set(SESSION, direction, Some(rule));
        table.activate(SESSION, direction, written, u64::MAX);
    }

    #[test]
    fn flags_name_buckets_and_references_of_any_cell() {
        let table = FastRuleTable::new(2);
        let cell = table.cell_ref(SESSION, Direction::Downlink).unwrap();
        let is_found = || (cell.read().is_some(), cell.read_plain().is_some());
        assert_eq!((is_found(), cell.flags().is_rule()), ((false, false), false));
        let mut any = CellFlags::default();
        for (meters, is_metered) in [
            ([false, false], false),
            ([true, false], true),
            ([false, true], true),
            ([true; 2], true),
        ] {
            let rule = FastRule { meters, ..unpacked(1) };
            put(&table, Direction::Downlink, &PackedFastRule::from(&rule));
            assert_eq!(is_found(), (true, !is_metered), "{meters:?}");
            assert!(cell.flags().is_rule() && !cell.flags().may_refer());
            assert_eq!(cell.flags().may_be_metered(), is_metered, "{meters:?}");
            assert_eq!(cell.flags().is_plain_rule(), !is_metered, "{meters:?}");
            any |= cell.flags();
            assert_eq!(any.may_be_metered(), is_metered, "one of those so far: {meters:?}");
        }
        let written = cell.0.write_reference(0, CellWords::EMPTY);
        table.activate(SESSION, Direction::Downlink, written, u64::MAX);
        assert!(cell.flags().may_refer());
        assert_eq!((is_found(), cell.flags().is_rule()), ((false, false), false));
        any |= cell.flags();
        assert!(any.may_refer() && any.may_be_metered());
    }

    #[test]
    fn session_without_a_fast_rule_has_none() {
        let table = FastRuleTable::new(2);
        put(&table, Direction::Downlink, &downlink(1));
        assert!(table.get(SESSION, Direction::Uplink).is_none());
        assert!(table.get(SessionIndex(0), Direction::Downlink).is_none());
        assert!(table.get(SessionIndex::NONE, Direction::Downlink).is_none());
        table.set(SESSION, Direction::Downlink, None);
        assert!(table.get(SESSION, Direction::Downlink).is_none());
    }

    #[test]
    fn fast_rule_is_read_once_it_is_active_and_never_after_another_one() {
        let table = FastRuleTable::new(2);
        let get = || table.get(SESSION, Direction::Downlink).map(|rule| rule.next_hop().0);
        let first = table.set(SESSION, Direction::Downlink, Some(&downlink(1)));
        assert_eq!(get(), None);
        let second = table.set(SESSION, Direction::Downlink, Some(&downlink(2)));
        table.activate(SESSION, Direction::Downlink, first, u64::MAX);
        assert_eq!(get(), None);
        table.activate(SESSION, Direction::Downlink, second, u64::MAX);
        assert_eq!(get(), Some(2));
        let gone = table.set(SESSION, Direction::Downlink, None);
        table.activate(SESSION, Direction::Downlink, second, u64::MAX);
        table.activate(SESSION, Direction::Downlink, gone, u64::MAX);
        assert_eq!(get(), None);
    }

    #[test]
    fn rule_from_tunnel_to_tunnel_is_read_only_by_who_expects_it_and_counts_downlink() {
        let table = FastRuleTable::new(2);
        let onward = FastRuleTunnel {
            teid: Teid(3),
            addr: Ipv4Addr::LOCALHOST,
            next_hop: NextHopIndex(4),
            tos: 0,
        };
        let forwarding = FastRuleForwarding::Relay {
            teid: Teid(9),
            qfis: Default::default(),
            onward,
            marking: None,
            keeps_container: true,
        };
        let rule = FastRule { forwarding, meters: [false; 2], ..unpacked(1) };
        let rule = PackedFastRule::from(&rule);
        let cell = table.tunnel_cell_ref(SESSION).unwrap();
        assert_eq!(table.set_tunnel_to_ue(SESSION, None), WrittenRule::NONE);
        assert_eq!(
            cell.0.head.load(crate::sync::Ordering::Relaxed),
            0,
            "an empty line stays untouched"
        );
        let written = table.set_tunnel_to_ue(SESSION, Some(&rule));
        assert_eq!(table.tunnel_to_ue(SESSION), Some(Teid(9)));
        assert!(cell.read_any().is_none());
        table.activate_tunnel_to_ue(SESSION, written, u64::MAX);
        assert!(cell.read().is_none() && cell.read_plain().is_none());
        assert_eq!(cell.read_any_plain().unwrap().onward(), onward);
        assert!(cell.flags().is_relay() && cell.flags().may_relay() && !cell.flags().is_rule());
        cell.read_any().unwrap().count(50, Nanos(7));
        let expected = SessionTraffic { dl_pkts: 1, dl_bytes: 50, ..SessionTraffic::default() };
        assert_eq!(table.counted(SESSION), (expected, Some(Nanos(7))));
        table.set_tunnel_to_ue(SESSION, None);
        table.activate_tunnel_to_ue(SESSION, written, u64::MAX);
        assert!(cell.read_any().is_none() && table.tunnel_to_ue(SESSION).is_none());
    }

    #[test]
    fn rule_into_a_tunnel_over_ipv6_is_read_only_by_who_expects_it() {
        let table = FastRuleTable::new(2);
        let mut rule = FastRule { meters: [false; 2], ..unpacked(1) };
        if let FastRuleForwarding::Downlink { peer, .. } = &mut rule.forwarding {
            *peer = FastRulePeer::V6(GtpuPeerIndex(6));
        }
        put(&table, Direction::Downlink, &PackedFastRule::from(&rule));
        let cell = table.cell_ref(SESSION, Direction::Downlink).unwrap();
        assert!(cell.read().is_none() && cell.read_plain().is_none());
        assert!(!cell.flags().is_rule() && cell.flags().may_relay());
        assert_eq!(cell.peer(), GtpuPeerIndex(6));
        let found = cell.read_any_plain().unwrap();
        assert_eq!((found.leads_into_v6(), found.tunnel_over_v6().1), (true, cell.peer()));
    }

    #[test]
    fn reader_never_sees_a_mixture_of_two() {
        const WRITES: u32 = if cfg!(miri) { 20 } else { 20_000 };
        let table = FastRuleTable::new(2);
        let done = AtomicBool::new(false);
        let is_whole = |rule: &FastRuleSnapshot<'_>| {
            let NextHopIndex(seed) = rule.next_hop();
            let expected = downlink(seed);
            let flags = rule.flags() & !PackedFastRule::PUBLISHER_FLAGS;
            (flags, rule.words()) == (expected.flags(), expected.words())
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                for seed in 1..=WRITES {
                    put(&table, Direction::Downlink, &downlink(seed));
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
