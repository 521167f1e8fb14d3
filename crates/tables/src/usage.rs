//! Usage counters of URRs: one cache line per usage slot.
//!
//! Only the worker that owns the session writes its lines; the control thread reads them with relaxed
//! loads. Counters are not reset when a slot is reused: a measurement remembers the values that it
//! began with.

use core::fmt;

use adit_rules::{FastRuleUrr, PublishedUrr, UsageCounts, UsageSource};
use adit_types::{Direction, Nanos, UsageSlot};

use crate::counters::Counter;
use crate::large::LargeArray;

/// What a worker reports at most once per generation of a URR's entry; bits of `marks`.
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

/// Bits of `marks` below the generation.
const MARK_BITS: u32 = 8;

#[derive(Debug, Default)]
#[cfg_attr(not(loom), derive(zerocopy::FromZeros))]
#[repr(C, align(64))]
struct UsageLine {
    ul_bytes: Counter,
    dl_bytes: Counter,
    ul_pkts: Counter,
    dl_pkts: Counter,
    /// First packet of the generation in `marks`; zero is none. Unit: nanoseconds.
    first: Counter,
    /// Last packet; zero is none. Unit: nanoseconds.
    last: Counter,
    /// Generation, and which of its marks were reported.
    marks: Counter,
    /// While the octets of both directions stay below this, no limit is reached and nothing is to be
    /// reported: packets are counted without checks. Unit: octets.
    unchecked_below: Counter,
}

impl UsageLine {
    /// Counts one packet. Returns its time as it is stored: never zero.
    #[inline]
    fn count(&self, direction: Direction, bytes: u64, now: Nanos) -> u64 {
        let (bytes_counter, pkts_counter) = match direction {
            Direction::Uplink => (&self.ul_bytes, &self.ul_pkts),
            Direction::Downlink => (&self.dl_bytes, &self.dl_pkts),
        };
        bytes_counter.add(bytes);
        pkts_counter.add(1);
        let moment = now.0.max(1);
        self.last.set(moment);
        moment
    }

    /// Octets of both directions.
    #[inline]
    fn octets(&self) -> u64 {
        self.ul_bytes.load().wrapping_add(self.dl_bytes.load())
    }
}

/// Downlink packets that rules dropped. In a table of their own, because few URRs count them.
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
}

impl UsageTable {
    pub(crate) fn new(slots: usize) -> Self {
        Self { lines: LargeArray::zeroed(slots), dropped: LargeArray::zeroed(slots) }
    }
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
        UsageCounts {
            ul_bytes: line.ul_bytes.load(),
            dl_bytes: line.dl_bytes.load(),
            ul_pkts: line.ul_pkts.load(),
            dl_pkts: line.dl_pkts.load(),
            dropped_dl_bytes: dropped.bytes.load(),
            dropped_dl_pkts: dropped.pkts.load(),
            first: moment(&line.first).filter(|_| is_current),
            last: moment(&line.last),
        }
    }
}

/// Counters in which a packet can be counted without checks.
#[derive(Debug, Clone, Copy)]
pub struct UncheckedUsage<'a>(&'a UsageLine);

impl UncheckedUsage<'_> {
    /// Counts the packet.
    #[inline]
    pub fn count(self, direction: Direction, bytes: u64, now: Nanos) {
        self.0.count(direction, bytes, now);
    }
}

/// The counters as workers use them, each those of its own sessions.
#[derive(Debug, Clone, Copy)]
pub struct UsageView<'a> {
    lines: &'a [UsageLine],
    dropped: &'a [DroppedUsage],
}

impl<'a> UsageView<'a> {
    #[inline]
    pub(crate) fn new(table: &'a UsageTable) -> Self {
        Self { lines: &table.lines, dropped: &table.dropped }
    }

    /// Prefetches the cache line of a URR's counters.
    #[inline]
    pub fn prefetch(&self, slot: UsageSlot) {
        if let Some(line) = self.line(slot) {
            crate::prefetch::read(line);
        }
    }

    /// Like [`UsageView::prefetch`], without a check of the slot.
    #[inline]
    pub(crate) fn prefetch_any(&self, slot: UsageSlot) {
        crate::prefetch::address(self.lines.as_ptr().wrapping_add(slot.0 as usize));
    }

    /// Counts one packet of `bytes` octets that arrived at `now`. A slot out of range is ignored.
    #[inline]
    pub fn add(&self, urr: &PublishedUrr, direction: Direction, bytes: u64, now: Nanos) {
        let Some(line) = self.line(urr.slot) else { return };
        let moment = line.count(direction, bytes, now);
        let generation = u64::from(urr.generation);
        if line.marks.load() >> MARK_BITS != generation {
            line.marks.set(generation << MARK_BITS);
            line.first.set(moment);
            line.unchecked_below.set(0);
        } else if line.first.load() == 0 {
            line.first.set(moment);
        }
    }

    /// Counts one downlink packet of `bytes` octets that rules dropped, and returns how many octets
    /// and packets were dropped so far.
    #[inline]
    pub fn add_dropped(&self, slot: UsageSlot, bytes: u64) -> (u64, u64) {
        let Some(dropped) = self.dropped.get(slot.0 as usize) else { return (0, 0) };
        dropped.bytes.add(bytes);
        dropped.pkts.add(1);
        (dropped.bytes.load(), dropped.pkts.load())
    }

    /// Octets counted towards the data network and towards the UE.
    #[inline]
    #[must_use]
    pub fn volume(&self, slot: UsageSlot) -> (u64, u64) {
        let line = self.line(slot);
        line.map_or((0, 0), |line| (line.ul_bytes.load(), line.dl_bytes.load()))
    }

    /// True if `mark` was not reported yet for the entry's generation.
    #[inline]
    #[must_use]
    pub fn is_unreported(&self, urr: &PublishedUrr, mark: UsageMark) -> bool {
        let Some(line) = self.line(urr.slot) else { return false };
        let marks = line.marks.load();
        marks >> MARK_BITS != u64::from(urr.generation) || marks & mark as u64 == 0
    }

    /// Remembers that `mark` was reported.
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
            line.unchecked_below.set(0);
        }
    }

    /// The counters of a URR, if a packet of `bytes` octets can be counted without checks: it reaches no
    /// limit and is not the first of its generation.
    #[inline]
    #[must_use]
    pub fn unchecked(&self, urr: &FastRuleUrr, bytes: u64) -> Option<UncheckedUsage<'a>> {
        let line = self.line(urr.slot)?;
        let is_clear = line.marks.load() >> MARK_BITS == u64::from(urr.generation)
            // Counters of octets do not reach 2^63.
            && line.octets() + bytes < line.unchecked_below.load();
        is_clear.then_some(UncheckedUsage(line))
    }

    /// Updates up to how many octets the URR's packets are counted without checks. Called after a packet
    /// of its generation was counted.
    #[inline]
    pub fn update_unchecked(&self, urr: &PublishedUrr) {
        let Some(line) = self.line(urr.slot) else { return };
        let (uplink, downlink) = self.volume(urr.slot);
        let is_reported = urr.report.reached(uplink, downlink);
        let has_pending_report = urr.report_start && self.is_unreported(urr, UsageMark::Start)
            || is_reported && self.is_unreported(urr, UsageMark::Threshold)
            || urr.quota().reached(uplink, downlink);
        if has_pending_report {
            line.unchecked_below.set(0);
            return;
        }
        let report = match is_reported {
            true => u64::MAX,
            false => urr.report.distance(uplink, downlink),
        };
        let left = report.min(urr.quota().distance(uplink, downlink));
        line.unchecked_below.set(line.octets().saturating_add(left));
    }

    #[inline]
    fn line(&self, slot: UsageSlot) -> Option<&'a UsageLine> {
        self.lines.get(slot.0 as usize)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn first_packet_is_that_of_the_generation_asked_for() {
        let table = UsageTable::new(2);
        let line = &table.lines[1];
        line.marks.set(3 << MARK_BITS | UsageMark::Start as u64);
        line.first.set(line.count(Direction::Uplink, 100, Nanos(7)));
        let now = table.usage(UsageSlot(1), 3);
        assert_eq!((now.first, now.last), (Some(Nanos(7)), Some(Nanos(7))));
        assert_eq!((now.ul_bytes, now.ul_pkts), (100, 1));
        let next = table.usage(UsageSlot(1), 4);
        assert_eq!(next, UsageCounts { first: None, ..now });
        assert_eq!(table.usage(UsageSlot(2), 3), UsageCounts::default());
    }
}
