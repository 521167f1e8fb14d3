//! Usage counters of URRs: one cache line per usage slot.
//!
//! Only the worker that owns the session writes its lines; the control thread reads them with
//! relaxed loads. Counters are not reset when a slot is reused: a measurement remembers the values
//! at its beginning.
//!
//! The session's own URR counts in the cells of the session's fast rules (`fast_rule_cell`). The
//! line of the own slot holds the generation of this URR, and counts the session's other packets:
//! all forwarded packets less those that the URR counted.

use core::fmt;

use adit_rules::{FAST_RULE_URRS_MAX, FastRuleUrr, PublishedUrr, UsageCounts, UsageSource};
use adit_types::limits::{own_usage_slot, usage_slots_max};
use adit_types::{Direction, Nanos, SessionIndex, UsageSlot};

use crate::counters::{Counter, SessionTraffic};
use crate::fast_rule::FastRuleTable;
use crate::fast_rule_cell::FastRuleSnapshot;
use crate::large::LargeArray;

/// Events that a worker reports at most once per generation of a URR; bits of `UsageLine::marks`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum UsageMark {
    /// The volume threshold was reached.
    Threshold = 1 << 0,
    /// The volume quota was reached.
    Quota = 1 << 1,
    /// The first packet was counted.
    Start = 1 << 2,
    /// The limit of dropped downlink packets was reached.
    Dropped = 1 << 3,
}

/// Number of low bits of `UsageLine::marks` below the generation.
const MARK_BITS: u32 = 8;

#[derive(Debug, Default)]
#[cfg_attr(not(loom), derive(zerocopy::FromZeros))]
#[repr(C, align(64))]
struct UsageLine {
    ul_bytes: Counter,
    dl_bytes: Counter,
    ul_pkts: Counter,
    dl_pkts: Counter,
    /// When the first packet of the generation arrived; zero if none has. Unit: nanoseconds.
    first: Counter,
    /// When the last packet arrived; zero if none has. Unit: nanoseconds.
    last: Counter,
    /// The generation, and the events ([`UsageMark`]) of it that were reported.
    marks: Counter,
    /// Packets are counted without checks while the octets of both directions stay below this: no
    /// limit is reached and no report is due until then. Unit: octets.
    unchecked_below: Counter,
}

impl UsageLine {
    /// Counts one packet.
    #[inline]
    fn count(&self, direction: Direction, bytes: u64, now: Nanos) {
        self.count_forwarded(direction, 1, bytes);
        self.last.set(now.0);
    }

    #[inline]
    fn count_forwarded(&self, direction: Direction, pkts: u64, bytes: u64) {
        let (pkts_counter, bytes_counter) = self.counters(direction);
        bytes_counter.add(bytes);
        pkts_counter.add(pkts);
    }

    /// Subtracts a packet that a cell counts: the session's traffic is the sum of line and cells,
    /// but the stages count each forwarded packet also in the line
    /// ([`crate::TablesView::count_session`]). Counters wrap below zero.
    #[inline]
    fn uncount_forwarded(&self, direction: Direction, bytes: u64) {
        let (pkts_counter, bytes_counter) = self.counters(direction);
        bytes_counter.sub(bytes);
        pkts_counter.sub(1);
    }

    /// Returns the counters of packets and octets of a direction.
    #[inline]
    const fn counters(&self, direction: Direction) -> (&Counter, &Counter) {
        match direction {
            Direction::Uplink => (&self.ul_pkts, &self.ul_bytes),
            Direction::Downlink => (&self.dl_pkts, &self.dl_bytes),
        }
    }

    fn traffic(&self) -> SessionTraffic {
        SessionTraffic {
            ul_pkts: self.ul_pkts.load(),
            ul_bytes: self.ul_bytes.load(),
            dl_pkts: self.dl_pkts.load(),
            dl_bytes: self.dl_bytes.load(),
        }
    }

    /// Returns the octets of both directions.
    #[inline]
    fn octets(&self) -> u64 {
        self.ul_bytes.load().wrapping_add(self.dl_bytes.load())
    }
}

/// Downlink packets that rules dropped. Few URRs count these, so they have a separate table.
#[derive(Debug, Default)]
#[cfg_attr(not(loom), derive(zerocopy::FromZeros))]
struct DroppedUsage {
    bytes: Counter,
    pkts: Counter,
}

/// The usage counters of all slots.
pub struct UsageTable {
    lines: LargeArray<UsageLine>,
    dropped: LargeArray<DroppedUsage>,
    /// The fast rules, whose cells have the counters of the sessions' own URRs.
    fast_rules: std::sync::Arc<FastRuleTable>,
}

impl UsageTable {
    pub(crate) fn new(fast_rules: std::sync::Arc<FastRuleTable>) -> Self {
        let sessions = fast_rules.len();
        let slots = usage_slots_max(sessions).saturating_add(sessions);
        let (lines, dropped) = (LargeArray::zeroed(slots), LargeArray::zeroed(slots));
        Self { lines, dropped, fast_rules }
    }

    /// Returns the line of a session's own slot.
    fn own_line(&self, session: SessionIndex) -> Option<&UsageLine> {
        let UsageSlot(at) = own_usage_slot(self.fast_rules.len(), session);
        self.lines.get(at as usize)
    }

    /// Returns the forwarded traffic of a session since [`UsageTable::reset_traffic`].
    pub(crate) fn traffic(&self, session: SessionIndex) -> SessionTraffic {
        let line = self.own_line(session).map(UsageLine::traffic).unwrap_or_default();
        line.plus(self.fast_rules.counted(session).0)
    }

    /// Sets a session's traffic to zero. Only while no worker can have found the session.
    pub(crate) fn reset_traffic(&self, session: SessionIndex) {
        let Some(line) = self.own_line(session) else { return };
        let SessionTraffic { ul_pkts, ul_bytes, dl_pkts, dl_bytes } = self.traffic(session);
        for (counter, traffic) in [
            (&line.ul_pkts, ul_pkts),
            (&line.ul_bytes, ul_bytes),
            (&line.dl_pkts, dl_pkts),
            (&line.dl_bytes, dl_bytes),
        ] {
            // Writes only if needed, because a page that was never written takes no memory.
            if traffic != 0 {
                counter.set(counter.load().wrapping_sub(traffic));
            }
        }
    }
}

/// Returns the session whose own slot this is; `None` if it is the slot of another URR.
#[inline]
fn owner(sessions: usize, slot: UsageSlot) -> Option<SessionIndex> {
    #[allow(clippy::cast_possible_truncation, reason = "slots have 32 bits")]
    let first = usage_slots_max(sessions) as u32;
    slot.0.checked_sub(first).map(SessionIndex)
}

impl fmt::Debug for UsageTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UsageTable").field("slots", &self.lines.len()).finish_non_exhaustive()
    }
}

impl UsageSource for UsageTable {
    fn usage(&self, slot: UsageSlot, generation: u32) -> UsageCounts {
        let at = slot.0 as usize;
        let (Some(line), Some(dropped)) = (self.lines.get(at), self.dropped.get(at)) else {
            return UsageCounts::default();
        };
        let moment = |counter: &Counter| Some(counter.load()).filter(|ns| *ns != 0).map(Nanos);
        let is_current = line.marks.load() >> MARK_BITS == u64::from(generation);
        let (counted, last) = match owner(self.fast_rules.len(), slot) {
            Some(session) => self.fast_rules.counted(session),
            None => (line.traffic(), moment(&line.last)),
        };
        UsageCounts {
            ul_bytes: counted.ul_bytes,
            dl_bytes: counted.dl_bytes,
            ul_pkts: counted.ul_pkts,
            dl_pkts: counted.dl_pkts,
            dropped_dl_bytes: dropped.bytes.load(),
            dropped_dl_pkts: dropped.pkts.load(),
            first: moment(&line.first).filter(|_| is_current),
            last,
        }
    }
}

/// The URRs of a fast rule besides the session's own URR.
pub type FastRuleUrrs = [Option<FastRuleUrr>; FAST_RULE_URRS_MAX];

/// A packet to be counted.
#[derive(Debug, Clone, Copy)]
pub struct CountedPacket {
    /// Its session.
    pub session: SessionIndex,
    /// Its direction.
    pub direction: Direction,
    /// Length of the inner IP packet. Unit: octets.
    pub bytes: u64,
    /// When it arrived.
    pub now: Nanos,
}

/// The counters as a worker writes them, for the sessions that it owns.
#[derive(Debug, Clone, Copy)]
pub struct UsageView<'a> {
    lines: &'a [UsageLine],
    dropped: &'a [DroppedUsage],
    fast_rules: &'a FastRuleTable,
}

impl<'a> UsageView<'a> {
    #[inline]
    pub(crate) fn new(table: &'a UsageTable) -> Self {
        let UsageTable { lines, dropped, fast_rules } = table;
        Self { lines, dropped, fast_rules }
    }

    /// Prefetches the cache line of a URR's counters.
    #[inline]
    pub fn prefetch(&self, slot: UsageSlot) {
        if let Some(line) = self.line(slot) {
            crate::prefetch::read(line);
        }
    }

    /// Counts one packet of `bytes` octets that arrived at `now`. Ignores a slot out of range.
    #[inline]
    pub fn add(&self, urr: &PublishedUrr, direction: Direction, bytes: u64, now: Nanos) {
        let Some(line) = self.line(urr.slot) else { return };
        // Zero stands for no packet.
        let now = now.max(Nanos(1));
        match self.owner(urr.slot) {
            Some(session) => {
                let cell = self.fast_rules.cell(session, direction);
                cell.inspect(|cell| cell.count(bytes, now));
                line.uncount_forwarded(direction, bytes);
            }
            None => line.count(direction, bytes, now),
        }
        let generation = u64::from(urr.generation);
        if line.marks.load() >> MARK_BITS != generation {
            line.marks.set(generation << MARK_BITS);
            line.first.set(now.0);
            self.check_all(urr.slot, line);
        } else if line.first.load() == 0 {
            line.first.set(now.0);
        }
    }

    /// Counts forwarded packets of a session; see [`crate::TablesView::count_session`].
    #[inline]
    pub(crate) fn count_forwarded(
        &self,
        session: SessionIndex,
        direction: Direction,
        pkts: u64,
        bytes: u64,
    ) {
        let line = self.line(own_usage_slot(self.fast_rules.len(), session));
        line.inspect(|line| line.count_forwarded(direction, pkts, bytes));
    }

    /// Ends counting without checks from the next packet of the URR on.
    #[inline]
    fn check_all(&self, slot: UsageSlot, line: &UsageLine) {
        match self.owner(slot) {
            Some(session) => self.fast_rules.allow_unchecked(session, 0),
            None => line.unchecked_below.set(0),
        }
    }

    #[inline]
    fn owner(&self, slot: UsageSlot) -> Option<SessionIndex> {
        owner(self.fast_rules.len(), slot)
    }

    /// Counts one downlink packet of `bytes` octets that rules dropped. Returns how many octets and
    /// packets of the URR were dropped so far.
    #[inline]
    pub fn add_dropped(&self, slot: UsageSlot, bytes: u64) -> (u64, u64) {
        let Some(dropped) = self.dropped.get(slot.0 as usize) else { return (0, 0) };
        dropped.bytes.add(bytes);
        dropped.pkts.add(1);
        (dropped.bytes.load(), dropped.pkts.load())
    }

    /// Returns the octets counted towards the data network and towards the UE. They do not change
    /// before this worker counts a packet or calls [`UsageView::update_unchecked`], because an
    /// offload must not count meanwhile. For the worker that owns the session only.
    #[inline]
    #[must_use]
    pub fn volume(&self, slot: UsageSlot) -> (u64, u64) {
        let counted = match self.owner(slot) {
            Some(session) => {
                self.fast_rules.take_back(session);
                self.fast_rules.counted(session).0
            }
            None => self.line(slot).map(UsageLine::traffic).unwrap_or_default(),
        };
        (counted.ul_bytes, counted.dl_bytes)
    }

    /// Returns the octets counted in both directions. An offload may count on, so that more octets
    /// may have passed.
    #[must_use]
    pub fn counted_bytes(&self, slot: UsageSlot) -> u64 {
        let counted = match self.owner(slot) {
            Some(session) => self.fast_rules.counted(session).0,
            None => self.line(slot).map(UsageLine::traffic).unwrap_or_default(),
        };
        counted.ul_bytes + counted.dl_bytes
    }

    /// True if `mark` was not reported yet for the URR's generation.
    #[inline]
    #[must_use]
    pub fn is_unreported(&self, urr: &PublishedUrr, mark: UsageMark) -> bool {
        let Some(line) = self.line(urr.slot) else { return false };
        let marks = line.marks.load();
        marks >> MARK_BITS != u64::from(urr.generation) || marks & mark as u64 == 0
    }

    /// Notes that `mark` was reported.
    #[inline]
    pub fn mark_reported(&self, urr: &PublishedUrr, mark: UsageMark) {
        let Some(line) = self.line(urr.slot) else { return };
        let generation = u64::from(urr.generation);
        let marks = line.marks.load();
        if marks >> MARK_BITS == generation {
            line.marks.set(marks | mark as u64);
        } else {
            line.marks.set(generation << MARK_BITS | mark as u64);
            line.first.set(0);
            self.check_all(urr.slot, line);
        }
    }

    /// Does [`FastRuleSnapshot::is_unchecked`] for a rule that also counts outside its cell: for
    /// the URRs `urrs`, and for the session's own URR if it counts the packet.
    #[inline(always)]
    // PERF (adit-bench datapath --urrs 2): once per packet.
    #[must_use]
    pub fn is_unchecked_elsewhere(
        &self,
        rule: &FastRuleSnapshot<'_>,
        urrs: FastRuleUrrs,
        bytes: u64,
    ) -> bool {
        (rule.counts_apart() || rule.is_unchecked(bytes))
            && urrs.into_iter().map_while(|urr| urr).all(|urr| self.is_unchecked(urr, bytes))
    }

    #[inline(always)]
    // PERF (adit-bench datapath --urrs 2): part of [`UsageView::is_unchecked_elsewhere`].
    fn is_unchecked(&self, urr: FastRuleUrr, bytes: u64) -> bool {
        self.line(urr.slot).is_some_and(|line| {
            line.marks.load() >> MARK_BITS == u64::from(urr.generation)
                // Octet counters do not reach 2^63, so the sum does not overflow.
                && line.octets() + bytes < line.unchecked_below.load()
        })
    }

    /// Does [`FastRuleSnapshot::count`] for a rule that also counts outside its cell, after
    /// [`UsageView::is_unchecked_elsewhere`]. For the worker that owns the session only.
    #[inline(always)]
    // PERF (adit-bench datapath --urrs 2): once per packet.
    pub fn count_elsewhere(
        &self,
        rule: &FastRuleSnapshot<'_>,
        urrs: FastRuleUrrs,
        packet: &CountedPacket,
    ) {
        let &CountedPacket { session, direction, bytes, now } = packet;
        for urr in urrs.into_iter().map_while(|urr| urr) {
            self.line(urr.slot).inspect(|line| line.count(direction, bytes, now));
        }
        match rule.counts_apart() {
            true => self.count_forwarded(session, direction, 1, bytes),
            false => rule.count(bytes, now),
        }
    }

    /// Updates up to how many octets the URR's packets are counted without checks. Call it after a
    /// packet was counted for the URR's generation.
    #[inline]
    pub fn update_unchecked(&self, urr: &PublishedUrr) {
        let Some(line) = self.line(urr.slot) else { return };
        let (uplink, downlink) = self.volume(urr.slot);
        let is_reported = urr.report.reached(uplink, downlink);
        let has_pending_report = urr.report_start && self.is_unreported(urr, UsageMark::Start)
            || is_reported && self.is_unreported(urr, UsageMark::Threshold)
            || urr.quota().reached(uplink, downlink);
        if has_pending_report {
            return self.check_all(urr.slot, line);
        }
        let report = match is_reported {
            true => u64::MAX,
            false => urr.report.distance(uplink, downlink),
        };
        let left = report.min(urr.quota().distance(uplink, downlink));
        match self.owner(urr.slot) {
            Some(session) => self.fast_rules.allow_unchecked(session, left),
            None => line.unchecked_below.set(line.octets().saturating_add(left)),
        }
    }

    #[inline]
    fn line(&self, slot: UsageSlot) -> Option<&'a UsageLine> {
        self.lines.get(slot.0 as usize)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use core::sync::atomic::{AtomicU64, Ordering};
    use std::sync::Arc;

    use adit_rules::{OffloadCounts, OffloadUsage, share_per_part};

    use super::*;

    #[test]
    fn first_packet_is_that_of_the_generation_asked_for() {
        let table = UsageTable::new(Arc::new(FastRuleTable::new(1, None)));
        let line = &table.lines[1];
        line.marks.set(3 << MARK_BITS | UsageMark::Start as u64);
        line.count(Direction::Uplink, 100, Nanos(7));
        line.first.set(7);
        let now = table.usage(UsageSlot(1), 3);
        assert_eq!((now.first, now.last), (Some(Nanos(7)), Some(Nanos(7))));
        assert_eq!((now.ul_bytes, now.ul_pkts), (100, 1));
        let next = table.usage(UsageSlot(1), 4);
        assert_eq!(next, UsageCounts { first: None, ..now });
        assert_eq!(table.usage(UsageSlot(2), 3), UsageCounts::default());
    }

    /// An offload that forwards as much as it may between any two calls.
    #[derive(Debug, Default)]
    struct GreedyOffload {
        budget: AtomicU64,
        bytes: AtomicU64,
    }

    impl OffloadUsage for GreedyOffload {
        fn counted(&self, _: SessionIndex) -> OffloadCounts {
            let forwarded = self.budget.swap(0, Ordering::Relaxed);
            let ul_bytes = self.bytes.fetch_add(forwarded, Ordering::Relaxed);
            OffloadCounts { ul_bytes, ..OffloadCounts::default() }
        }

        fn take_back(&self, _: SessionIndex) {
            self.budget.store(0, Ordering::Relaxed);
        }

        fn divide(&self, _: SessionIndex, more: u64, others: u64) -> u64 {
            let share = share_per_part(more, others + 1);
            self.budget.store(share, Ordering::Relaxed);
            share
        }
    }

    #[test]
    fn volume_that_is_compared_with_a_limit_does_not_grow_meanwhile() {
        let offload = Arc::new(GreedyOffload::default());
        let fast_rules = Arc::new(FastRuleTable::new(1, Some(Arc::clone(&offload) as _)));
        let table = UsageTable::new(Arc::clone(&fast_rules));
        let view = UsageView::new(&table);
        let own = own_usage_slot(1, SessionIndex(0));
        for _ in 0..3 {
            fast_rules.allow_unchecked(SessionIndex(0), 1000);
            let volume = view.volume(own);
            assert_eq!(view.volume(own), volume, "the worker decided by this");
        }
        assert_eq!(offload.bytes.load(Ordering::Relaxed), 0, "no call between");
        fast_rules.allow_unchecked(SessionIndex(0), 1000);
        assert_eq!(view.counted_bytes(own), 0);
        assert!(view.volume(own).0 > 0, "what was forwarded before counts");
    }
}
