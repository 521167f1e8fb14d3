//! The cell of a fast rule: words that workers only read, and words that the session's packets
//! change.
//!
//! A cell is a sequence lock: the publisher (control thread) writes, workers read. A worker that
//! reads a cell during a write finds no fast rule, and its packet takes the stages.
//!
//! # Counters
//!
//! The counters of the cells are those of the session's own URR ([`SessionRules::own_urr`]).
//! Packets that this URR does not count are counted in the session's own line of the `usage`
//! counters. If the session never had an own URR, all packets of its fast rules are counted here.
//! The traffic of a session is the sum of its cells and of that line.
//!
//! Packets count without checks while the octets of their cell stay below its limit. The worker
//! that owns the session writes counters and limit. When a rule is activated, the publisher writes
//! the limit. With an own URR it is zero, so that the next packet takes the stages, which check it
//! and set the limit; otherwise there is no limit. If the stages of the new rules set the limit at
//! the same time, either value is correct; stages of the previous rules can only set it before the
//! boundary that activation waits for. The publisher also writes zero to have the volume divided
//! again ([`FastRuleTable::check_next`](crate::fast_rule::FastRuleTable::check_next)).
//!
//! [`SessionRules::own_urr`]: adit_rules::SessionRules::own_urr

use core::{fmt, ops, ptr};

use adit_rules::compile::{FILTER_WORDS, PackedFilter};
use adit_rules::packed_fast_rule::FAST_RULE_WORDS;
use adit_rules::{FAST_RULE_URRS_MAX, MatcherLine, PackedFastRule};
use adit_types::{GtpuPeerIndex, Nanos, UsageSlot};

use crate::charging::{ChargedRule, DeferredCharge, MeterPair};
use crate::counters::Counter;
use crate::prefetch;
use crate::sync::{AtomicPtr, AtomicU64, Ordering, fence};

/// Number of words of a rule between its first word and those of the second line.
const MIDDLE_WORDS: usize = 2;
/// Number of words of a rule in the second line.
const SECOND_LINE_WORDS: usize = FAST_RULE_WORDS - 1 - MIDDLE_WORDS;

/// The sequence number: the low bits of the head. A write adds two, so it wraps after 2^12 writes;
/// no reader is delayed for so long between its two loads.
const SEQUENCE: u64 = (1 << 13) - 1;
/// The cell holds a rule from tunnel to tunnel or, in downlink, into a tunnel over IPv6.
const RELAY: u64 = PackedFastRule::RELAY;
/// The cell refers to the lines of several fast rules ([`crate::fast_rule_selector`]) instead of
/// holding one.
const REFERS: u64 = 1 << 23;
/// Workers may read the cell.
const READABLE: u64 = 1 << 24;
/// The cell refers to lines, and a single filter instead of a matcher selects one of them.
const FILTER: u64 = PackedFilter::FLAG;

const _: () = assert!(SEQUENCE | REFERS | READABLE == PackedFastRule::PUBLISHER_FLAGS);
const _: () = assert!(usize::BITS == u64::BITS, "a word fits a pointer");
const _: () = assert!(SECOND_LINE_WORDS == FAST_RULE_URRS_MAX, "URRs come last");
const _: () = assert!(MIDDLE_WORDS + SECOND_LINE_WORDS >= FILTER_WORDS);
/// The cell has one of these flags if readers need its second line.
const LAST_WORDS: u64 = REFERS | PackedFastRule::LAST_WORDS;

/// A kind of active cell: the bits that its head has under a mask.
#[derive(Clone, Copy)]
pub(crate) struct CellKind {
    bits: u64,
    mask: u64,
}

impl CellKind {
    /// A fast rule without [`RELAY`].
    const RULE: Self = Self { bits: READABLE, mask: READABLE | REFERS | RELAY };
    /// Like `RULE`, but packets are counted in the cell only.
    const IN_CELL_RULE: Self =
        Self { bits: READABLE, mask: READABLE | REFERS | RELAY | PackedFastRule::COUNTS_ELSEWHERE };
    /// Like `IN_CELL_RULE`, but plain: packets pass no bucket.
    const PLAIN_RULE: Self =
        Self { bits: READABLE, mask: READABLE | REFERS | RELAY | PackedFastRule::NOT_PLAIN };
    /// Like `RULE`, with or without [`RELAY`].
    const ANY_RULE: Self = Self { bits: READABLE, mask: READABLE | REFERS };
    /// Like `PLAIN_RULE`, with or without [`RELAY`].
    const ANY_PLAIN_RULE: Self =
        Self { bits: READABLE, mask: READABLE | REFERS | PackedFastRule::NOT_PLAIN };
    /// A filter, and the address of the lines of one or two fast rules, none with [`RELAY`].
    pub(crate) const FILTER: Self =
        Self { bits: READABLE | REFERS | FILTER, mask: READABLE | REFERS | FILTER | RELAY };
    /// Like `FILTER`, with or without [`RELAY`].
    pub(crate) const ANY_FILTER: Self =
        Self { bits: READABLE | REFERS | FILTER, mask: READABLE | REFERS | FILTER };
    /// A selector, and the address of its lines.
    pub(crate) const SELECTOR: Self =
        Self { bits: READABLE | REFERS, mask: READABLE | REFERS | FILTER };

    #[inline]
    const fn is_of(self, head: u64) -> bool {
        head & self.mask == self.bits
    }

    /// True if a reader of a cell of this kind needs the words in the second line.
    #[inline]
    const fn has_last_words(self, head: u64) -> bool {
        // PERF (adit-bench datapath): constant when the loop for plain rules is compiled.
        let never = self.mask & LAST_WORDS == LAST_WORDS && self.bits & LAST_WORDS == 0;
        !never && head & LAST_WORDS != 0
    }
}

/// A fast rule, or a selector among several, and the words that the session's packets change.
#[derive(Default)]
#[cfg_attr(not(loom), derive(zerocopy::FromZeros))]
#[repr(C, align(128))]
pub(crate) struct FastRuleCell {
    /// The flags of the rule or filter, the sequence number of the cell, [`REFERS`] and
    /// [`READABLE`].
    head: AtomicU64,
    /// The address of the lines, as a pointer: an integer would lose its provenance. If the cell
    /// holds a fast rule: the first word of the rule as a pointer that is never dereferenced.
    first: AtomicPtr<MatcherLine>,
    words: [AtomicU64; MIDDLE_WORDS],
    pub(crate) pkts: Counter,
    pub(crate) bytes: Counter,
    /// When the last packet arrived; zero if none has. Unit: nanoseconds.
    pub(crate) last: Counter,
    /// Packets count without checks while `bytes` stays below this. Unit: octets.
    limit: Counter,
    /// The words in the second line. Only rules with one of the flags [`LAST_WORDS`] use them.
    last_words: [AtomicU64; SECOND_LINE_WORDS],
    /// The deferred charge of the rule's buckets, if it has any.
    pub(crate) charge: DeferredCharge,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<FastRuleCell>() == 128, "two adjacent cache lines");
#[cfg(not(loom))]
const _: () = assert!(core::mem::offset_of!(FastRuleCell, last_words) == 64, "the second line");

/// All words of a cell except its head.
#[derive(Clone, Copy)]
pub(crate) struct CellWords {
    pub(crate) first: *mut MatcherLine,
    pub(crate) words: [u64; MIDDLE_WORDS + SECOND_LINE_WORDS],
}

impl CellWords {
    pub(crate) const EMPTY: Self =
        Self { first: ptr::null_mut(), words: [0; MIDDLE_WORDS + SECOND_LINE_WORDS] };

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

    /// Writes a fast rule, or clears the cell. Workers do not read the rule before it is activated.
    /// For the publisher only.
    pub(crate) fn set(&self, rule: Option<&PackedFastRule>) -> WrittenRule {
        match rule {
            Some(rule) => WrittenRule(self.write(rule.flags(), CellWords::of_rule(rule))),
            None => {
                self.write(0, CellWords::EMPTY);
                WrittenRule::NONE
            }
        }
    }

    /// Lets workers read the written rule, unless another one was written since; returns whether it
    /// did. For the publisher only. `limit`: see
    /// [`FastRuleTable::activate`](crate::fast_rule::FastRuleTable::activate).
    pub(crate) fn activate(&self, WrittenRule(sequence): WrittenRule, limit: u64) -> bool {
        let head = self.head.load(Ordering::Relaxed);
        let is_latest = head & SEQUENCE == sequence;
        if is_latest {
            self.limit.set(limit);
            self.head.store(head | READABLE, Ordering::Release);
        }
        is_latest
    }

    /// Counts a packet of `bytes` octets that arrived at `now`. For the worker that owns the
    /// session only.
    #[inline]
    pub(crate) fn count(&self, bytes: u64, now: Nanos) {
        self.pkts.add(1);
        self.bytes.add(bytes);
        self.last.set(now.0);
    }

    /// Returns how many more octets count without checks.
    pub(crate) fn unchecked_bytes(&self) -> u64 {
        self.limit.load().saturating_sub(self.bytes.load())
    }

    /// Makes the worker check the next packet, unless the cell has no limit.
    pub(crate) fn check_next(&self) {
        if self.limit.load() != u64::MAX {
            self.limit.set(0);
        }
    }

    /// Sets how many more octets count without checks. Only for the worker that owns the session.
    pub(crate) fn allow_unchecked(&self, more: u64) {
        self.limit.set(self.bytes.load().saturating_add(more));
    }

    /// Returns the fast rule if the cell is of this kind and active.
    #[inline]
    pub(crate) fn read(&self, kind: CellKind) -> Option<FastRuleSnapshot<'_>> {
        let (head, words) = self.read_if(kind)?;
        Some(FastRuleSnapshot { rule: words.to_rule(head), cell: self })
    }

    /// Returns the written rule from tunnel to tunnel, active or not. For the publisher only.
    pub(crate) fn written_relay(&self) -> Option<PackedFastRule> {
        let head = self.head.load(Ordering::Relaxed);
        (head & RELAY != 0).then(|| self.words(true).to_rule(head))
    }

    /// Returns the words after the head; those of the second line only with `has_last`.
    #[inline(always)]
    // PERF (adit-bench datapath): part of [`FastRuleCell::read_if`].
    fn words(&self, has_last: bool) -> CellWords {
        let first = self.first.load(Ordering::Relaxed);
        let [a, b] = self.words.each_ref().map(|word| word.load(Ordering::Relaxed));
        let [c, d] = match has_last {
            false => PackedFastRule::NO_LAST_WORDS,
            true => self.last_words.each_ref().map(|word| word.load(Ordering::Relaxed)),
        };
        CellWords { first, words: [a, b, c, d] }
    }

    /// True if the cell has neither a rule nor a reference.
    pub(crate) fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed) & !SEQUENCE == 0
    }

    /// Writes the reference to a filter or selector, with its flags. Workers do not read it before
    /// [`FastRuleTable::activate`](crate::fast_rule::FastRuleTable::activate). For the publisher
    /// only.
    pub(crate) fn write_reference(&self, flags: u64, words: CellWords) -> WrittenRule {
        WrittenRule(self.write(REFERS | flags, words))
    }

    /// Returns head and words from the same write if the cell is of this kind and active.
    #[inline]
    pub(crate) fn read_if(&self, kind: CellKind) -> Option<(u64, CellWords)> {
        let head = self.head.load(Ordering::Acquire);
        if !kind.is_of(head) {
            return None;
        }
        let words = self.words(kind.has_last_words(head));
        fence(Ordering::Acquire);
        (self.head.load(Ordering::Relaxed) == head).then_some((head, words))
    }
}

/// A rule that was written and may not be active yet, by the sequence number of its cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WrittenRule(u64);

impl WrittenRule {
    /// Stands for no rule: no cell has this sequence number.
    pub(crate) const NONE: Self = Self(u64::MAX);
}

/// The flags of one cell, or of several cells combined by OR.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CellFlags(u64);

impl CellFlags {
    /// Returns the flags of a cell with `head`.
    pub(crate) const fn of_head(head: u64) -> Self {
        Self(head)
    }

    /// True if SDF filters may select a packet's fast rule, because a cell refers to lines.
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

    /// True if packets of a fast rule in one of the cells may be counted outside the cell.
    #[inline]
    #[must_use]
    pub const fn may_count_elsewhere(self) -> bool {
        self.0 & PackedFastRule::COUNTS_ELSEWHERE != 0
    }

    /// False if all fast rules in the cells are plain: they have no buckets, and their packets are
    /// counted in the cell only.
    #[inline]
    #[must_use]
    pub const fn may_not_be_plain(self) -> bool {
        self.0 & PackedFastRule::NOT_PLAIN != 0
    }

    /// True if one of the cells may hold a fast rule with URRs in addition to the session's own
    /// one.
    #[inline]
    #[must_use]
    pub const fn has_urrs(self) -> bool {
        PackedFastRule::has_urrs(self.0)
    }

    /// True if one of the cells may hold a fast rule from tunnel to tunnel or, in downlink, into a
    /// tunnel over IPv6.
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

    /// True if the cell holds an active fast rule of any kind.
    #[inline]
    pub(crate) const fn is_any_rule(self) -> bool {
        CellKind::ANY_RULE.is_of(self.0)
    }

    /// True if the cell holds an active plain fast rule for which [`CellFlags::may_relay`] is
    /// false: see [`CellFlags::may_not_be_plain`].
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

/// The cell of one direction of a session, which holds its fast rule, or the selector among
/// several.
#[derive(Clone, Copy)]
pub struct FastRuleCellRef<'a>(pub(crate) &'a FastRuleCell);

impl fmt::Debug for FastRuleCellRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FastRuleCellRef").finish_non_exhaustive()
    }
}

impl<'a> FastRuleCellRef<'a> {
    /// Prefetches the first cache line of the cell.
    #[inline]
    pub fn prefetch(self) {
        prefetch::read(self.0);
    }

    /// Prefetches the cell's second line: the deferred charge, and words that few rules need.
    #[inline]
    pub fn prefetch_second_line(self) {
        prefetch::read(&self.0.last_words);
    }

    /// Does [`Self::prefetch_second_line`] if the cell holds a fast rule that is not from tunnel to
    /// tunnel, and returns its flags. `None` if the cell holds anything else.
    #[inline]
    pub fn prefetch_second_line_of_rule(self) -> Option<CellFlags> {
        let flags = self.flags();
        if !flags.is_rule() {
            return None;
        }
        self.prefetch_second_line();
        Some(flags)
    }

    /// Charges a packet of `bytes` octets to the buckets of the cell's rule, which has `flags`, if
    /// an earlier packet at the same `now` found all of them idle and they are still open. Returns
    /// whether it did; if not, [`FastRuleSnapshot::try_charge`] decides. For the worker that owns
    /// the session only.
    #[inline(always)]
    // PERF (adit-bench datapath --rates police): once per packet with busy buckets.
    #[must_use]
    pub fn try_charge_at_once(self, flags: u64, now: Nanos, bytes: u16) -> bool {
        self.0.charge.try_charge_at_once(flags, now, bytes)
    }

    /// Returns the fast rule if it leads neither from tunnel to tunnel nor into a tunnel over IPv6.
    /// `None` otherwise, and if the cell holds no active rule: it is empty, refers to lines, is
    /// being written, or is not activated yet.
    #[inline]
    #[must_use]
    pub fn read(self) -> Option<FastRuleSnapshot<'a>> {
        self.0.read(CellKind::RULE)
    }

    /// Does [`FastRuleCellRef::read`], but only if packets of the fast rule are counted in the cell
    /// only.
    // PERF (adit-bench datapath --rates police): one comparison checks both conditions.
    #[inline]
    #[must_use]
    pub fn read_counted_in_cell(self) -> Option<FastRuleSnapshot<'a>> {
        self.0.read(CellKind::IN_CELL_RULE)
    }

    /// Does [`FastRuleCellRef::read`], but only if the fast rule is plain
    /// ([`CellFlags::may_not_be_plain`]).
    // PERF (adit-bench datapath): one comparison checks both conditions.
    #[inline]
    #[must_use]
    pub fn read_plain(self) -> Option<FastRuleSnapshot<'a>> {
        self.0.read(CellKind::PLAIN_RULE)
    }

    /// Returns the active fast rule, of any kind; `None` if the cell holds none.
    #[inline]
    #[must_use]
    pub fn read_any(self) -> Option<FastRuleSnapshot<'a>> {
        self.0.read(CellKind::ANY_RULE)
    }

    /// Returns the active fast rule, of any kind, if it is plain; `None` if the cell holds none.
    #[inline]
    #[must_use]
    pub fn read_any_plain(self) -> Option<FastRuleSnapshot<'a>> {
        self.0.read(CellKind::ANY_PLAIN_RULE)
    }

    /// Returns the cell's present flags.
    #[inline]
    #[must_use]
    pub fn flags(self) -> CellFlags {
        CellFlags(self.0.head.load(Ordering::Relaxed))
    }

    /// Returns the peer of a fast rule into a tunnel over IPv6, to prefetch it. During a write the
    /// value may be garbage.
    #[inline]
    pub(crate) fn peer(self) -> GtpuPeerIndex {
        let [_, far_end] = &self.0.words;
        PackedFastRule::peer_in(far_end.load(Ordering::Relaxed))
    }

    /// Returns the usage slots of a fast rule with URRs besides the session's own one, to prefetch
    /// them before [`FastRuleCellRef::read`]. During a write they may belong to different rules. A
    /// slot without a URR is out of range.
    #[inline]
    pub(crate) fn usage_slots(self) -> [UsageSlot; FAST_RULE_URRS_MAX] {
        let urrs = self.0.last_words.each_ref().map(|urr| urr.load(Ordering::Relaxed));
        PackedFastRule::usage_slots_in(urrs)
    }
}

impl FastRuleCellRef<'_> {
    /// Returns the address of a selector's lines and one of its words, for prefetches. During a
    /// write the two may be of different selectors, or garbage.
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

/// A consistent copy of the fast rule of one session and direction, with the cell that counts its
/// traffic.
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
    /// Returns the fast rule in one of the lines that follow the lines of a matcher. `cell` counts
    /// the traffic of the session.
    #[inline]
    pub(crate) fn of_line(line: &MatcherLine, cell: &'a FastRuleCell) -> Self {
        Self { rule: PackedFastRule::of_line(line), cell }
    }

    /// Charges a packet of `bytes` octets to the buckets of the rule, which the cell itself holds,
    /// if its charge is deferred and all buckets are idle at `now`. Returns whether it did; if not,
    /// [`FastRuleSnapshot::try_charge`] decides. For the worker that owns the session only.
    #[inline(always)]
    // PERF (adit-bench datapath --rates police): once per packet with buckets.
    #[must_use]
    pub fn try_charge_idle(&self, now: Nanos, bytes: u16) -> bool {
        self.cell.charge.try_charge_idle(self.rule.flags(), now, bytes)
    }

    /// Charges a packet of `bytes` octets to the buckets of the rule, which the cell itself holds,
    /// if all of them are open at `now`. Returns whether it did; if not, no charge is deferred.
    /// `pair` has the session's own buckets ([`MeterPair::try_charge`]), as
    /// `TablesView::unsettled_meter_pair` returns them. For the worker that owns the session only.
    #[must_use]
    pub fn try_charge(&self, pair: MeterPair<'_>, now: Nanos, bytes: u16) -> bool {
        let rule = ChargedRule { head: self.rule.flags(), which: self.rule.meters() };
        self.cell.charge.try_charge(pair, rule, now, bytes)
    }

    /// True if a packet of `bytes` octets can be counted in the cell without checks: it reaches no
    /// limit of the session's own URR and is not the first of its generation.
    #[inline(always)]
    // PERF (adit-bench datapath): once per packet.
    #[must_use]
    pub fn is_unchecked(&self, bytes: u64) -> bool {
        // Octet counters do not reach 2^63, so the sum does not overflow.
        self.cell.bytes.load() + bytes < self.cell.limit.load()
    }

    /// Counts a forwarded packet in the cell. `bytes` is the length of the inner IP packet. For the
    /// worker that owns the session only.
    #[inline(always)]
    // PERF (adit-bench datapath): once per packet.
    pub fn count(&self, bytes: u64, now: Nanos) {
        self.cell.count(bytes, now);
    }
}
