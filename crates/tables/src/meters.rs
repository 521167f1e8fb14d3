//! The token buckets of QERs, by session, direction and bucket number.
//!
//! The first two buckets of a direction share one cache line, found by session index and direction
//! without a further lookup. Most sessions have no more: one bucket for the rate of the session,
//! one for that of the flow. Further buckets are in arrays that are allocated when a session first
//! needs them.
//!
//! A charge may be deferred (`charging`): [`TablesView`](crate::TablesView) writes it to the
//! buckets before workers read them.
//!
//! A bucket can be linked to a correlated rate, which sessions share (`correlated_rates`). Then the
//! correlated rate decides whether a packet passes. The session's own bucket copies the state of
//! the correlated rate after each packet, and counts the octets of this session.
//!
//! [Fast rules](adit_rules::FastRule), waiting packets and guarantees use the limit stored with the
//! bucket. The stages (the full packet path in `datapath`) check maximum rates by the limit in the
//! rules. Workers read a fast rule only once all of them run the rules that have the same limit.
//!
//! Threads: the publisher writes the limit and the link to a correlated rate, and resets a bucket
//!          before it assigns it to a new QER. Normally no published rules name that bucket. If all
//!          64 are in use, a worker may still charge it; then the reset and the charges mix. The
//!          worker that owns the session writes everything else.

use core::fmt;

use adit_rules::RateLimit;
use adit_types::limits::RATES_PER_SESSION_MAX;
use adit_types::{Direction, Nanos, SessionIndex};

use crate::charging::{BUCKETS_PER_LINE, MeterCell, MeterLine, MeterPair};
use crate::correlated_rates::{CorrelatedRate, CorrelatedRateTable};
use crate::counters::Counter;
use crate::excess_counters::{ExcessCounters, WaitCounts};
use crate::large::LargeArray;
use crate::prefetch;
use crate::sync::MadeOnce;

// Each QER with a rate has a bucket; partial guarantees use bucket numbers that are left.
const _: () = assert!(RATES_PER_SESSION_MAX <= 64, "the publisher keeps them in a set of 64 bits");

/// Most lines of buckets that one direction of a session may have.
const LINES_MAX: usize = RATES_PER_SESSION_MAX.div_ceil(BUCKETS_PER_LINE);

/// Two buckets of each direction of all sessions, allocated together.
struct MeterPairTable {
    /// Two lines per session: uplink, then downlink.
    lines: LargeArray<MeterLine>,
    excess: LargeArray<[ExcessCounters; BUCKETS_PER_LINE]>,
    /// By bucket: one more than the index of the correlated rate that the bucket is linked to, or
    /// zero. Written by the publisher, and allocated when a session first has a correlated rate.
    link_numbers: MadeOnce<LargeArray<[Counter; BUCKETS_PER_LINE]>>,
}

impl MeterPairTable {
    fn new(sessions: usize) -> Self {
        let lines = sessions.saturating_mul(2);
        let (lines, excess) = (LargeArray::zeroed(lines), LargeArray::zeroed(lines));
        Self { lines, excess, link_numbers: MadeOnce::new() }
    }
}

/// Counts of one bucket. Octets are those of the inner IP packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MeterTraffic {
    /// Octets that passed the bucket.
    pub passed_bytes: u64,
    /// Packets that were dropped.
    pub dropped_pkts: u64,
    /// Octets that were dropped.
    pub dropped_bytes: u64,
    /// Packets that wait now.
    pub queued_pkts: u64,
    /// Queueing delay of the packet that left the queue last, sent or dropped. Unit: ns.
    pub delay: Nanos,
}

/// The buckets of all sessions.
pub(crate) struct MeterTable {
    sessions: usize,
    first: MeterPairTable,
    further: [MadeOnce<MeterPairTable>; LINES_MAX - 1],
    correlated_rates: CorrelatedRateTable,
}

impl MeterTable {
    pub(crate) fn new(sessions: usize) -> Self {
        let further = core::array::from_fn(|_| MadeOnce::new());
        let correlated_rates = CorrelatedRateTable::new(sessions);
        Self { sessions, first: MeterPairTable::new(sessions), further, correlated_rates }
    }

    /// Returns the table that has bucket `bucket` of all sessions; `None` before it is allocated.
    #[inline]
    fn pairs(&self, bucket: u8) -> Option<&MeterPairTable> {
        match usize::from(bucket) / BUCKETS_PER_LINE {
            0 => Some(&self.first),
            at => self.further.get(at - 1)?.get(),
        }
    }

    /// Returns the first two buckets of each direction of all sessions.
    #[inline]
    pub(crate) fn all_pairs(&self) -> MeterPairs<'_> {
        MeterPairs(self.first.lines.as_chunks().0)
    }

    /// Returns the first two buckets of one direction.
    #[inline]
    pub(crate) fn pair(
        &self,
        session: SessionIndex,
        direction: Direction,
    ) -> Option<MeterPair<'_>> {
        self.all_pairs().get(session, direction)
    }

    /// Returns the counters of packets that wait for the first of the buckets `which` of
    /// [`MeterTable::pair`]. `which` is not zero.
    #[inline]
    pub(crate) fn wait_counts(
        &self,
        session: SessionIndex,
        direction: Direction,
        which: u64,
    ) -> Option<WaitCounts<'_>> {
        let [first, second] = self.first.excess.get(session.direction_slot(direction))?;
        Some(WaitCounts::of(if which & 1 != 0 { first } else { second }))
    }

    /// Prefetches the first two buckets of one direction and their counters of waiting packets.
    #[inline]
    pub(crate) fn prefetch_pair_and_waits(&self, session: SessionIndex, direction: Direction) {
        let at = session.direction_slot(direction);
        prefetch::element(&self.first.lines, at);
        prefetch::element(&self.first.excess, at);
    }

    /// Prefetches the first two buckets of one direction.
    #[inline]
    pub(crate) fn prefetch(&self, session: SessionIndex, direction: Direction) {
        prefetch::element(&self.first.lines, session.direction_slot(direction));
    }

    /// Returns one bucket; `None` before its table is allocated.
    #[inline]
    pub(crate) fn meter(
        &self,
        session: SessionIndex,
        direction: Direction,
        bucket: u8,
    ) -> Option<Meter<'_>> {
        let table = self.pairs(bucket)?;
        let (at, of_line) =
            (session.direction_slot(direction), usize::from(bucket) % BUCKETS_PER_LINE);
        let cell = table.lines.get(at)?.0.get(of_line)?;
        let correlated = table.link_numbers.get().and_then(|numbers| {
            let number = numbers.get(at)?.get(of_line)?.load();
            self.correlated_rates.get(usize::try_from(number).ok()?.checked_sub(1)?, direction)
        });
        Some(Meter { cell, excess: table.excess.get(at)?.get(of_line)?, correlated })
    }

    /// Returns the table of the rates to which buckets can be linked.
    pub(crate) const fn correlated_rates(&self) -> &CorrelatedRateTable {
        &self.correlated_rates
    }

    /// Links a bucket of both directions to the correlated rate with index `rate`, or unlinks it if
    /// `rate` is `None`. For the publisher only.
    pub(crate) fn set_link(&self, session: SessionIndex, bucket: u8, rate: Option<usize>) {
        let Some(table) = self.pairs(bucket) else { return };
        let number = rate.map_or(0, |at| at as u64 + 1);
        if number == 0 && table.link_numbers.get().is_none() {
            return;
        }
        let numbers =
            table.link_numbers.get_or_init(|| LargeArray::zeroed(self.sessions.saturating_mul(2)));
        for direction in [Direction::Uplink, Direction::Downlink] {
            let of_line = usize::from(bucket) % BUCKETS_PER_LINE;
            let number_of = numbers.get(session.direction_slot(direction));
            number_of.and_then(|line| line.get(of_line)).inspect(|cell| cell.set(number));
        }
    }

    /// Allocates the table that has bucket `bucket` of all sessions. For the publisher only.
    pub(crate) fn make_room(&self, bucket: u8) {
        let further = (usize::from(bucket) / BUCKETS_PER_LINE).checked_sub(1);
        if let Some(table) = further.and_then(|at| self.further.get(at)) {
            table.get_or_init(|| MeterPairTable::new(self.sessions));
        }
    }

    /// Sets the limit that fast rules, waiting packets and guarantees use. For the publisher only.
    pub(crate) fn set_limit(
        &self,
        session: SessionIndex,
        direction: Direction,
        bucket: u8,
        limit: RateLimit,
    ) {
        if let Some(Meter { cell, .. }) = self.meter(session, direction, bucket) {
            cell.limit.set(limit.to_bits());
        }
    }

    /// Resets a bucket of both directions: full credit, and counts of zero. Keeps the limit and the
    /// number of queued packets. For the publisher only, if possible while no published rules name
    /// the bucket.
    pub(crate) fn reset(&self, session: SessionIndex, bucket: u8) {
        for direction in [Direction::Uplink, Direction::Downlink] {
            let Some(Meter { cell, excess, .. }) = self.meter(session, direction, bucket) else {
                return;
            };
            let MeterCell { due, fraction, passed, limit: _ } = cell;
            // Packets of the QER that had this bucket before may still wait.
            let ExcessCounters { dropped_pkts, dropped_bytes, queued_pkts: _, delay_ns } = excess;
            for counter in [due, fraction, passed, dropped_pkts, dropped_bytes, delay_ns] {
                // Writes only if needed, because a page that was never written takes no memory.
                if counter.load() != 0 {
                    counter.set(0);
                }
            }
        }
    }
}

impl fmt::Debug for MeterTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MeterTable").field("sessions", &self.sessions).finish_non_exhaustive()
    }
}

/// The first two buckets of each direction of all sessions.
#[derive(Debug, Clone, Copy)]
pub struct MeterPairs<'a>(&'a [[MeterLine; 2]]);

impl<'a> MeterPairs<'a> {
    /// Returns the first two buckets of one direction of a session. A bucket with a deferred charge
    /// is closed until [`TablesView::settle`](crate::TablesView::settle) writes the charge.
    #[inline]
    #[must_use]
    pub fn get(self, session: SessionIndex, direction: Direction) -> Option<MeterPair<'a>> {
        let [uplink, downlink] = self.0.get(session.0 as usize)?;
        Some(MeterPair::of(match direction {
            Direction::Uplink => uplink,
            Direction::Downlink => downlink,
        }))
    }
}

/// One bucket of a direction of a session.
#[derive(Debug, Clone, Copy)]
pub struct Meter<'a> {
    cell: &'a MeterCell,
    excess: &'a ExcessCounters,
    /// The correlated rate to which the bucket is linked.
    correlated: Option<CorrelatedRate<'a>>,
}

impl<'a> Meter<'a> {
    /// Returns the counters of the packets that wait for the bucket.
    #[inline]
    #[must_use]
    pub fn wait_counts(&self) -> WaitCounts<'a> {
        WaitCounts::of(self.excess)
    }

    /// True if the bucket is open at `now` by `limit`, which is the limit in the worker's rules or
    /// the stored one ([`Meter::limit`]). Forgives debt that dates from a previous limit. For the
    /// worker that owns the session only.
    #[inline]
    #[must_use]
    pub fn is_open(&self, limit: RateLimit, now: Nanos) -> bool {
        if let Some(correlated) = self.correlated {
            return correlated.bucket(limit, now).is_open(limit, now);
        }
        let bucket = self.cell.bucket();
        if bucket.is_open(limit, now) {
            return true;
        }
        let settled = bucket.without_former_debt(limit, now);
        if settled != bucket {
            self.cell.set(settled);
        }
        settled.is_open(limit, now)
    }

    /// Charges a packet of `bytes` octets, whether or not the bucket is open. For the worker that
    /// owns the session only.
    #[inline]
    pub fn charge(&self, limit: RateLimit, now: Nanos, bytes: u16) {
        match self.correlated {
            Some(correlated) => self.cell.commit(correlated.charge(limit, now, bytes), bytes),
            None => self.cell.charge(limit, now, bytes),
        }
    }

    /// How many QERs share the bucket's correlated rate; `None` if it is linked to none.
    #[must_use]
    pub fn sharers(&self) -> Option<u64> {
        self.correlated.map(CorrelatedRate::qer_count)
    }

    /// Returns the stored limit, which the publisher set last.
    #[must_use]
    pub fn limit(&self) -> RateLimit {
        self.cell.limit()
    }

    /// Returns when [`Meter::is_open`] becomes true; `None` if never. Changes nothing: debt from a
    /// previous limit is ignored but stays.
    #[must_use]
    pub fn opens_at(&self, limit: RateLimit, now: Nanos) -> Option<Nanos> {
        let own = || self.cell.bucket().without_former_debt(limit, now);
        self.correlated.map_or_else(own, |rate| rate.bucket(limit, now)).opens_at(limit)
    }

    /// Counts a packet of `bytes` octets that is dropped: it exceeded this bucket, or it was to
    /// wait, and this is the first bucket to wait for. For the worker that owns the session only.
    pub fn count_dropped(&self, bytes: u16) {
        self.excess.dropped_pkts.add(1);
        self.excess.dropped_bytes.add(u64::from(bytes));
    }

    /// Returns the counts of the bucket. `passed` returns the octets that passed a cell, including
    /// a deferred charge. For any thread.
    pub(crate) fn traffic(&self, passed: impl FnOnce(&MeterCell) -> u64) -> MeterTraffic {
        MeterTraffic {
            passed_bytes: passed(self.cell),
            dropped_pkts: self.excess.dropped_pkts.load(),
            dropped_bytes: self.excess.dropped_bytes.load(),
            queued_pkts: self.excess.queued_pkts.load(),
            delay: Nanos(self.excess.delay_ns.load()),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use adit_rules::Excess;
    use adit_types::BitRate;

    use super::*;

    const SESSION: SessionIndex = SessionIndex(1);
    const NOW: Nanos = Nanos::from_secs(1);

    fn limit(kbps: u64) -> RateLimit {
        RateLimit::new(BitRate::from_kbps(kbps), Nanos(0), Excess::Policed)
    }

    #[test]
    fn closed_limit_lets_no_waiting_packet_pass() {
        let table = MeterTable::new(2);
        let pair = table.pair(SESSION, Direction::Downlink).unwrap();
        let opens = |which| pair.check_open(which, NOW);
        table.set_limit(SESSION, Direction::Downlink, 0, limit(1000));
        assert_eq!([0, 1, 2, 3].map(opens), [Some(Ok(())); 4]);
        table.set_limit(SESSION, Direction::Downlink, 1, RateLimit::CLOSED);
        assert_eq!([0, 1, 2, 3].map(opens), [Some(Ok(())), Some(Ok(())), None, None]);
        assert_eq!([0, 2, 3, 4].map(|which| pair.charge_waiting(which, NOW, 100)), [None; 4]);
        assert!(pair.charge_waiting(1, NOW, 100).is_some());
        table.set_limit(SESSION, Direction::Downlink, 0, RateLimit::CLOSED);
        assert_eq!([0, 1, 2, 3].map(opens), [Some(Ok(())), None, None, None]);
    }

    #[cfg_attr(miri, ignore = "thousands of rounds of arithmetic take minutes there")]
    #[test]
    fn waiting_packets_are_charged_as_by_the_stages() {
        let table = MeterTable::new(2);
        let direction = Direction::Downlink;
        let (session, reference) = (SESSION, SessionIndex(0));
        let mut charged = 0;
        for round in 0_u64..4000 {
            let now = NOW + Nanos::from_micros(round * 97);
            let (which, bytes) = (1 + round / 5 % 3, u16::try_from(40 + round * 7 % 1400).unwrap());
            // Limits change now and then, so that debt of previous limits is left.
            if round % 50 == 0 {
                let kbps = |at: u64| [8, 900, 20_000, 5_000_000][usize::try_from(at % 4).unwrap()];
                for (bucket, at) in [(0, round / 50), (1, round / 200)] {
                    let limit = limit(kbps(at));
                    table.set_limit(session, direction, bucket, limit);
                    table.set_limit(reference, direction, bucket, limit);
                }
            }
            let pair = table.pair(session, direction).unwrap();
            let used = (0..2_u8).filter(|bucket| which >> bucket & 1 != 0);
            let meters = || used.clone().map(|at| table.meter(reference, direction, at).unwrap());
            let is_open =
                meters().map(|meter| meter.is_open(meter.limit(), now)).min() == Some(true);
            let opens = meters().map(|meter| meter.opens_at(meter.limit(), now).unwrap()).max();
            let opened = if is_open { Ok(()) } else { Err(opens.unwrap()) };
            let room = pair.charge_waiting(which, now, bytes).or_else(|| {
                assert_eq!(pair.check_open(which, now), Some(opened), "{round}");
                pair.charge_waiting(which, now, bytes)
            });
            assert_eq!(room.is_some(), is_open, "{round}");
            if let Some(room) = room {
                meters().for_each(|meter| meter.charge(meter.limit(), now, bytes));
                let opens = meters().map(|meter| meter.opens_at(meter.limit(), now).unwrap()).max();
                assert_eq!(room < 0, opens > Some(now), "{round}");
                if room < 0 {
                    let at = Nanos(now.0.wrapping_sub(room.cast_unsigned()));
                    assert_eq!(Some(at), opens, "{round}");
                }
                charged += 1;
            }
            let line = |session| table.pair(session, direction).unwrap().line();
            for (cell, of) in line(session).0.iter().zip(&line(reference).0) {
                assert_eq!(cell.bucket(), of.bucket(), "{round}");
                assert_eq!(cell.passed.load(), of.passed.load(), "{round}");
            }
        }
        assert!((400..3600).contains(&charged), "{charged}");
    }

    #[test]
    fn bucket_of_a_fast_rule_and_of_the_rules_is_the_same() {
        let table = MeterTable::new(2);
        table.set_limit(SESSION, Direction::Downlink, 1, limit(1000));
        let pair = table.pair(SESSION, Direction::Downlink).unwrap();
        assert!(pair.try_charge(0b11, NOW, 1500));
        assert!(!pair.try_charge(0b11, NOW, 1500));
        assert!(pair.try_charge(0b01, NOW, 1500), "without a limit");
        let meter = table.meter(SESSION, Direction::Downlink, 1).unwrap();
        assert!(!meter.is_open(limit(1000), NOW));
        meter.count_dropped(1400);
        let expected = MeterTraffic {
            passed_bytes: 1500,
            dropped_pkts: 1,
            dropped_bytes: 1400,
            ..MeterTraffic::default()
        };
        assert_eq!(meter.traffic(|cell| cell.passed.load()), expected);
        let others = [(SessionIndex(0), Direction::Downlink), (SESSION, Direction::Uplink)];
        for (session, direction) in others {
            let traffic =
                table.meter(session, direction, 1).unwrap().traffic(|cell| cell.passed.load());
            assert_eq!(traffic, MeterTraffic::default());
        }
        table.reset(SESSION, 1);
        assert_eq!(meter.traffic(|cell| cell.passed.load()), MeterTraffic::default());
        assert!(pair.try_charge(0b11, NOW, 1500));
    }

    #[cfg_attr(miri, ignore = "thousands of rounds of arithmetic take minutes there")]
    #[test]
    fn fast_rules_and_stages_charge_alike() {
        let limits = [(5000, 2, Excess::Policed), (7000, 1, Excess::Shaped)];
        let limits = limits.map(|(kbps, depth, excess)| {
            RateLimit::new(BitRate::from_kbps(kbps), Nanos::from_millis(depth), excess)
        });
        for which in 0..=0b11_u64 {
            let (table, direction) = (MeterTable::new(2), Direction::Downlink);
            let other = SessionIndex(0);
            for session in [SESSION, other] {
                table.set_limit(session, direction, 0, limits[0]);
                table.set_limit(session, direction, 1, limits[1]);
            }
            let pair = table.pair(SESSION, direction).unwrap();
            let (mut now, mut passed, mut idle) = (NOW, 0, 0);
            for round in 0_u64..4000 {
                // Bursts of packets at one moment, and pauses in which the buckets become idle.
                now += Nanos(if round % 97 == 0 { 9_000_000 } else { round % 3 * 700_001 });
                let bytes = u16::try_from(40 + round * 271 % 1400).unwrap();
                let stages = [0, 1].map(|at| table.meter(other, direction, at).unwrap());
                let used = || (0..2).filter(|at| which & 1 << at != 0);
                let is_open = used().all(|at| stages[at].is_open(limits[at], now));
                idle += u32::from(used().all(|at| stages[at].cell.is_idle(now)));
                if is_open {
                    used().for_each(|at| stages[at].charge(limits[at], now, bytes));
                }
                assert_eq!(pair.try_charge(which, now, bytes), is_open, "{which} {round}");
                for (at, stage) in stages.iter().enumerate() {
                    let fast = table.meter(SESSION, direction, u8::try_from(at).unwrap()).unwrap();
                    assert_eq!(fast.cell.bucket(), stage.cell.bucket(), "{which} {round}");
                    assert_eq!(
                        fast.traffic(|cell| cell.passed.load()),
                        stage.traffic(|cell| cell.passed.load()),
                        "{which} {round}"
                    );
                }
                passed += u32::from(is_open);
            }
            assert!(which == 0 || (40..passed).contains(&idle) && passed < 3900, "{idle} {passed}");
        }
    }

    #[test]
    fn packet_of_one_bucket_of_the_pair_uses_that_one_alone() {
        let table = MeterTable::new(2);
        table.set_limit(SESSION, Direction::Uplink, 0, limit(1000));
        table.set_limit(SESSION, Direction::Uplink, 1, limit(1000));
        let pair = table.pair(SESSION, Direction::Uplink).unwrap();
        for which in [0b01, 0b10] {
            assert!(pair.try_charge(which, NOW, 1500), "{which}");
            assert!(!pair.try_charge(which, NOW, 1500), "{which}: 12 ms to wait");
            assert!(pair.try_charge(which, NOW + Nanos::from_millis(13), 1500), "{which}");
        }
        assert!(pair.try_charge(0, NOW, 1500));
    }

    #[test]
    fn further_buckets_exist_once_they_are_needed() {
        let table = MeterTable::new(2);
        let last = u8::try_from(RATES_PER_SESSION_MAX - 1).unwrap();
        for bucket in [2, last] {
            assert!(table.meter(SESSION, Direction::Uplink, bucket).is_none());
            table.make_room(bucket);
            let meter = table.meter(SESSION, Direction::Uplink, bucket).unwrap();
            meter.charge(limit(8), NOW, 100);
            assert!(!meter.is_open(limit(8), NOW));
            assert!(meter.is_open(limit(1_000_000), NOW), "another limit's debt is forgiven");
        }
        assert!(table.meter(SessionIndex(2), Direction::Uplink, 2).is_none());
        assert!(table.pair(SessionIndex::NONE, Direction::Uplink).is_none());
    }
}
