//! Charges that wait to be written to the buckets: next to the fast rule of each direction of a
//! session.
//!
//! Most packets find all buckets of their fast rule idle. Then the buckets follow from the time of the packet, its
//! length and the limits, and nothing else. So time and octets are stored here, and the buckets are computed when
//! somebody needs them. The next packet needs one of them, the one of the slowest rate: when it is idle, all
//! are. That takes one multiplication, for one bucket as for two.
//!
//! While a charge of a bucket is deferred, the bucket says so and holds its limit
//! ([`MeterCell::defer`]), and each reader writes the charge first ([`DeferredCharge::settle`]). A
//! bucket that the publisher resets has no deferred charge from then on.
//!
//! Threads: the worker that owns the session reads and writes it. The publisher reads the octets that passed.

use adit_rules::{Bucket, RateLimit, time_at_price};
use adit_types::Nanos;

use crate::counters::{Counter, READ_ATTEMPTS};
use crate::meters::{MeterCell, MeterLine, MeterPair, PER_LINE};
use crate::sync::{Ordering, fence};

/// Charges by a higher price are never deferred. The time of the longest packet after the greatest depth is below
/// 2^64 units of 2^-24 ns at this price, about 950 bit/s.
const PRICE_MAX: u64 = 1 << 47;

/// The fast rule of a packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChargedRule {
    /// The head of its cell.
    pub head: u64,
    /// The buckets that its packets have to pass; bit n is bucket n.
    pub which: u64,
}

/// A charge of the buckets of one fast rule.
#[derive(Debug, Default)]
#[cfg_attr(not(loom), derive(zerocopy::FromZeros))]
#[repr(C)]
pub(crate) struct DeferredCharge {
    /// The head of the fast rule's cell; zero if nothing is deferred.
    head: Counter,
    /// When the first packet passed. All buckets were idle. Unit: nanoseconds.
    since: Counter,
    /// Octets of all packets.
    octets: Counter,
    /// The price of the slowest rate.
    price: Counter,
    /// The least depth. Unit: nanoseconds.
    depth: Counter,
    /// Octets that passed by the buckets of which a charge is deferred, and are not counted there.
    passed: Counter,
}

impl DeferredCharge {
    /// Charges a packet of `bytes` octets of the fast rule with `head` if all its buckets are idle at `now` and
    /// their limits are known. Returns whether it did.
    #[inline(always)]
    // PERF (adit bench datapath --rates police): once per packet with buckets.
    pub(crate) fn try_charge_idle(&self, head: u64, now: Nanos, bytes: u16) -> bool {
        if self.head.load() != head || self.since.load().wrapping_add(self.time().0) >= now.0 {
            return false;
        }
        self.charge(now, bytes);
        true
    }

    /// Charges a packet of `bytes` octets of the fast rule with `head` if a charge of this rule is deferred that
    /// began at `now`, and the least of the depths leaves room. Returns whether it did.
    #[inline(always)]
    // PERF (adit bench datapath --rates police): most packets with busy buckets follow others of their session in
    // the burst.
    pub(crate) fn try_charge_at_once(&self, head: u64, now: Nanos, bytes: u16) -> bool {
        if self.head.load() != head
            || self.since.load() != now.0
            || self.time().0 > self.depth.load()
        {
            return false;
        }
        self.add(bytes);
        true
    }

    /// Charges a packet of `bytes` octets of `rule` to its buckets if all of them are open at `now`. Returns whether it
    /// did; then the charge is deferred if the buckets were idle. Otherwise no charge is deferred.
    pub(crate) fn try_charge(
        &self,
        pair: MeterPair<'_>,
        rule: ChargedRule,
        now: Nanos,
        bytes: u16,
    ) -> bool {
        let line = pair.line();
        if line.is_deferred() {
            if self.head.load() == rule.head && self.try_add(line, now, bytes) {
                return true;
            }
            self.settle(line);
        }
        self.try_defer(line, rule, now, bytes) || pair.try_charge(rule.which, now, bytes)
    }

    #[inline(always)]
    // PERF (adit bench datapath --rates police): part of [`DeferredCharge::try_charge_idle`].
    fn charge(&self, now: Nanos, bytes: u16) {
        let bytes = u64::from(bytes);
        self.since.set(now.0);
        self.octets.set(bytes);
        self.passed.add(bytes);
    }

    #[inline(always)]
    // PERF (adit bench datapath --rates police): part of [`DeferredCharge::try_charge_at_once`].
    fn add(&self, bytes: u16) {
        self.octets.add(u64::from(bytes));
        self.passed.add(u64::from(bytes));
    }

    /// The time that the packets take by the slowest rate.
    #[inline(always)]
    // PERF (adit bench datapath --rates police): part of [`DeferredCharge::try_charge_idle`].
    fn time(&self) -> Nanos {
        time_at_price(self.price.load(), self.octets.load())
    }

    /// Adds a packet to a deferred charge if all buckets are open at `now` and none was idle since.
    fn try_add(&self, line: &MeterLine, now: Nanos, bytes: u16) -> bool {
        let is_busy_and_open = |limit: RateLimit| {
            let bucket = self.bucket(limit);
            bucket.due >= now.0 && bucket.room(limit, now) >= 0
        };
        let octets = self.octets.load() + u64::from(bytes);
        let is_representable = self.price.load().checked_mul(octets).is_some();
        let MeterLine(cells) = line;
        if !is_representable
            || !cells.iter().filter_map(MeterCell::deferred_limit).all(is_busy_and_open)
        {
            return false;
        }
        self.add(bytes);
        true
    }

    /// Reads the limits of the buckets of `rule` and defers the charge of a packet, if they are idle at `now` and no
    /// limit is closed. No charge is deferred before.
    fn try_defer(&self, line: &MeterLine, rule: ChargedRule, now: Nanos, bytes: u16) -> bool {
        let MeterLine(cells) = line;
        let ChargedRule { head, which } = rule;
        let used = || (0..PER_LINE).filter(|at| which >> at & 1 != 0).map(|at| &cells[at]);
        let limits = || used().map(MeterCell::limit);
        let price = limits().map(RateLimit::price).max();
        // The price of a closed limit is the highest.
        let Some(price) = price.filter(|price| *price <= PRICE_MAX) else { return false };
        if !used().all(|cell| cell.is_idle(now)) {
            return false;
        }
        let depth = limits().map(RateLimit::depth).min().unwrap_or_default();
        // Octets of a bucket that was reset since.
        self.passed.set(0);
        used().for_each(MeterCell::defer);
        self.price.set(price);
        self.depth.set(depth.0);
        // See `DeferredCharge::passed`.
        fence(Ordering::Release);
        self.head.set(head);
        self.charge(now, bytes);
        true
    }

    /// Writes a deferred charge to the buckets.
    #[cold]
    pub(crate) fn settle(&self, MeterLine(cells): &MeterLine) {
        let passed = self.passed.load();
        // See `DeferredCharge::passed`.
        self.head.set(0);
        fence(Ordering::Release);
        for cell in cells {
            if let Some(limit) = cell.deferred_limit() {
                cell.passed.add(passed);
                cell.set(self.bucket(limit));
            }
        }
        fence(Ordering::Release);
        self.passed.set(0);
    }

    /// Octets that passed by a bucket, whose own count is `cell`. For any thread: reads again while the worker moves
    /// octets from here to the bucket.
    pub(crate) fn passed(&self, cell: &MeterCell) -> u64 {
        let mut sum = 0;
        for _ in 0..READ_ATTEMPTS {
            let head = self.head.load();
            fence(Ordering::Acquire);
            let (is_deferred, deferred) = (cell.is_deferred(), self.passed.load());
            fence(Ordering::Acquire);
            sum = cell.passed.load().wrapping_add(if is_deferred { deferred } else { 0 });
            fence(Ordering::Acquire);
            let is_moving = is_deferred && head == 0;
            // The same rule may have deferred another charge meanwhile.
            let has_moved = is_deferred != cell.is_deferred() || self.passed.load() < deferred;
            if !is_moving && !has_moved && head == self.head.load() {
                break;
            }
        }
        sum
    }

    /// A bucket after the deferred charge.
    fn bucket(&self, limit: RateLimit) -> Bucket {
        Bucket::after_idle(limit, Nanos(self.since.load()), self.octets.load())
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "a test stops where its premise fails")]
mod tests {
    use adit_rules::Excess;
    use adit_types::{BitRate, Direction, SessionIndex};

    use super::*;
    use crate::meters::MeterTable;

    const DIRECTION: Direction = Direction::Downlink;
    const FAST: SessionIndex = SessionIndex(1);
    const REFERENCE: SessionIndex = SessionIndex(0);

    const RULE: ChargedRule = ChargedRule { head: 2, which: 1 };

    fn limit(kbps: u64, depth_ms: u64, excess: Excess) -> RateLimit {
        RateLimit::new(BitRate::from_kbps(kbps), Nanos::from_millis(depth_ms), excess)
    }

    /// Charges a packet as the stages do, if both buckets are open by their limits.
    fn stages(
        table: &MeterTable,
        session: SessionIndex,
        which: u64,
        limits: [RateLimit; PER_LINE],
        now: Nanos,
        bytes: u16,
    ) -> bool {
        let meter = |at: usize| table.meter(session, DIRECTION, u8::try_from(at).unwrap()).unwrap();
        let used: Vec<_> = (0..PER_LINE).filter(|at| which >> at & 1 != 0).collect();
        let is_open = used.iter().map(|at| meter(*at).is_open(limits[*at], now)).min().unwrap();
        if is_open {
            used.iter().for_each(|at| meter(*at).charge(limits[*at], now, bytes));
        }
        is_open
    }

    /// The buckets as they are once the charge is written.
    fn settled(charge: &DeferredCharge, MeterLine(cells): &MeterLine) -> [Bucket; PER_LINE] {
        let bucket = |cell: &MeterCell| match cell.deferred_limit() {
            Some(limit) => charge.bucket(limit),
            None => cell.bucket(),
        };
        cells.each_ref().map(bucket)
    }

    fn limits_of_all_kinds() -> [RateLimit; 7] {
        use Excess::{Policed, Shaped};
        [
            limit(5000, 2, Policed),
            limit(7000, 1, Shaped),
            limit(8, 3000, Policed),
            limit(100_000_000, 0, Shaped),
            limit(900_000, 1, Policed),
            RateLimit::UNLIMITED,
            limit(1, 0, Shaped),
        ]
    }

    /// The generator "xorshift64" of G. Marsaglia.
    struct Random(u64);

    impl Random {
        fn below(&mut self, most: u64) -> u64 {
            let Self(state) = self;
            *state ^= *state << 13;
            *state ^= *state >> 7;
            *state ^= *state << 17;
            *state % most
        }
    }

    /// Compares buckets and counts of both sessions.
    fn assert_alike(table: &MeterTable, charge: &DeferredCharge, now: Nanos) {
        let line = |session| table.pair(session, DIRECTION).unwrap().line();
        for (at, bucket) in settled(charge, line(FAST)).iter().enumerate() {
            let of = &line(REFERENCE).0[at].bucket();
            // A bucket in the past is idle, whenever that was.
            let is_past = bucket.due < now.0 && of.due < now.0;
            assert!(bucket == of || is_past, "{at} at {now:?}: {bucket:?} {of:?}");
            let fast_passed = charge.passed(&line(FAST).0[at]);
            assert_eq!(fast_passed, line(REFERENCE).0[at].passed.load(), "{at} at {now:?}");
        }
    }

    #[cfg_attr(miri, ignore = "thousands of rounds of arithmetic take minutes there")]
    #[test]
    fn deferred_charges_and_those_of_the_stages_are_alike() {
        let choice = limits_of_all_kinds();
        let (table, charge) = (MeterTable::new(2), DeferredCharge::default());
        let (mut now, mut head, mut which) = (Nanos::from_secs(1), 0, 0);
        let mut limits = [RateLimit::UNLIMITED; PER_LINE];
        // Packets that passed idle, at once, otherwise, and by the stages; then those that did not pass.
        let mut ways = [0_u32; 5];
        let mut random = Random(88_172_645_463_325_252);
        let mut below = |most: u64| random.below(most);
        for round in 0..60_000_u32 {
            let pair = table.pair(FAST, DIRECTION).unwrap();
            now += Nanos(match below(40) {
                0 => below(3_000_000_000),
                1..10 => below(2_000_000),
                10..20 => below(2_000),
                // To the nanosecond in which a bucket becomes idle.
                20..24 => settled(&charge, pair.line())[0].due.saturating_sub(now.0) % (1 << 40),
                _ => 0,
            });
            if round == 0 || below(60) == 0 {
                (head, which) = (head + 2, 1 + below(3));
                for (at, limit) in limits.iter_mut().enumerate() {
                    *limit = choice[usize::try_from(below(choice.len() as u64)).unwrap()];
                    for session in [FAST, REFERENCE] {
                        table.set_limit(session, DIRECTION, u8::try_from(at).unwrap(), *limit);
                    }
                }
            }
            if below(200) == 0 {
                let bucket = below(2);
                head += 2;
                for session in [FAST, REFERENCE] {
                    table.reset(session, u8::try_from(bucket).unwrap());
                }
            }
            if below(100) == 0 {
                charge.settle(pair.line());
            }
            let longest = if below(9) == 0 { 65_000 } else { 1480 };
            let bytes = u16::try_from(20 + below(longest)).unwrap();
            let way = if charge.try_charge_idle(head, now, bytes) {
                0
            } else if charge.try_charge_at_once(head, now, bytes) {
                1
            } else if charge.try_charge(pair, ChargedRule { head, which }, now, bytes) {
                2
            } else {
                assert!(!pair.line().is_deferred(), "what the stages read is settled");
                3 + usize::from(!stages(&table, FAST, which, limits, now, bytes))
            };
            ways[way] += 1;
            let expected = stages(&table, REFERENCE, which, limits, now, bytes);
            assert_eq!(way < 4, expected, "{round}: {way}");
            assert_alike(&table, &charge, now);
        }
        assert!(ways.iter().all(|count| *count > 100), "{ways:?}");
    }

    #[cfg_attr(miri, ignore = "thousands of rounds of arithmetic take minutes there")]
    #[test]
    fn slow_bucket_and_one_that_is_busy_for_long_are_exact() {
        let slowest = RateLimit::new(BitRate::from_bps(1), Nanos(0), Excess::Policed);
        let often_idle = |round| if round < 1500 { 500 } else { 30_000 };
        check_slow_bucket(slowest, often_idle, [1500, 65_535], 30);
        check_slow_bucket(limit(1, 3000, Excess::Policed), often_idle, [1500, 65_535], 30);
        // Always half a second ahead, for longer than the product of price and octets fits a word.
        let rounds = check_slow_bucket(limit(8, 3000, Excess::Policed), |_| 500, [500, 0], 2500);
        assert!(rounds.as_millis() > 1 << 20, "{rounds:?}");
    }

    /// Two packets of `lens` octets every `pauses` milliseconds; the first round has one more. Returns how long it
    /// took.
    fn check_slow_bucket(
        limit: RateLimit,
        pauses: impl Fn(u32) -> u64,
        lens: [u16; 2],
        least: u32,
    ) -> std::time::Duration {
        let (table, charge) = (MeterTable::new(2), DeferredCharge::default());
        for session in [FAST, REFERENCE] {
            table.set_limit(session, DIRECTION, 0, limit);
        }
        let pair = table.pair(FAST, DIRECTION).unwrap();
        let start = Nanos::from_secs(1);
        let (mut now, mut passed) = (start, 0);
        for round in 0..3000 {
            let [first, second] = lens;
            let extra = if round == 0 { first } else { 0 };
            for bytes in [first, second, extra].into_iter().filter(|bytes| *bytes != 0) {
                let is_charged = charge.try_charge_idle(2, now, bytes)
                    || charge.try_charge_at_once(2, now, bytes)
                    || charge.try_charge(pair, RULE, now, bytes);
                let limits = [limit, RateLimit::UNLIMITED];
                let expected = stages(&table, REFERENCE, 1, limits, now, bytes);
                assert_eq!(is_charged, expected, "{round}");
                let reference = table.pair(REFERENCE, DIRECTION).unwrap().line().0[0].bucket();
                assert_eq!(settled(&charge, pair.line())[0], reference, "{round}");
                passed += u32::from(is_charged);
            }
            now += Nanos::from_millis(pauses(round));
        }
        assert!(passed > least, "{passed}");
        std::time::Duration::from_nanos(now.since(start).0)
    }

    #[test]
    fn bucket_that_was_reset_while_a_charge_was_deferred_is_idle() {
        let (table, charge) = (MeterTable::new(2), DeferredCharge::default());
        table.set_limit(FAST, DIRECTION, 0, limit(8, 0, Excess::Policed));
        let pair = table.pair(FAST, DIRECTION).unwrap();
        assert!(charge.try_charge(pair, RULE, Nanos::from_secs(1), 1500));
        assert!(pair.line().is_deferred());
        let passed = || pair.line().0.each_ref().map(|cell| charge.passed(cell));
        assert_eq!(passed(), [1500, 0]);
        table.reset(FAST, 0);
        assert!(!pair.line().is_deferred());
        charge.settle(pair.line());
        assert_eq!((pair.line().0[0].bucket(), passed()), (Bucket::default(), [0, 0]));
        assert!(charge.try_charge(pair, RULE, Nanos::from_secs(2), 100));
        assert_eq!(passed(), [100, 0]);
    }

    #[test]
    fn bucket_with_a_deferred_charge_is_closed_to_who_does_not_settle_it() {
        let (table, charge) = (MeterTable::new(2), DeferredCharge::default());
        let limits = [limit(8, 3000, Excess::Policed), limit(900_000, 1, Excess::Shaped)];
        for (at, limit) in (0..).zip(limits) {
            table.set_limit(FAST, DIRECTION, at, limit);
        }
        let pair = table.pair(FAST, DIRECTION).unwrap();
        let mut now = Nanos::from_secs(1);
        for which in [1, 2, 3] {
            assert!(charge.try_charge(pair, ChargedRule { head: 2, which }, now, 1500));
            assert!(pair.line().is_deferred());
            for later in [Nanos(0), Nanos::from_secs(3600), Nanos(1 << 61)] {
                let now = now + later;
                assert!(!pair.try_charge(which, now, 100) && !pair.can_wait(which, now), "{which}");
                assert!(which != 3 || !pair.try_charge_both(now, 100));
            }
            charge.settle(pair.line());
            now += Nanos::from_secs(3600);
            assert!(pair.try_charge(which, now, 100));
            now += Nanos::from_secs(3600);
        }
    }

    #[test]
    fn closed_bucket_and_rule_without_buckets_defer_nothing() {
        let (table, charge) = (MeterTable::new(2), DeferredCharge::default());
        let pair = table.pair(FAST, DIRECTION).unwrap();
        let now = Nanos::from_secs(1);
        assert!(charge.try_charge(pair, ChargedRule { which: 0, ..RULE }, now, 100), "no bucket");
        table.set_limit(FAST, DIRECTION, 0, RateLimit::CLOSED);
        assert!(charge.try_charge(pair, RULE, now, 100), "as at the slowest rate");
        assert!(!charge.try_charge_at_once(2, now, 100) && !pair.line().is_deferred());
        assert!(!charge.try_charge_idle(2, Nanos::from_secs(2), 100));
    }
}
