//! Deferred charges, compared with those of the stages.

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
    limits: [RateLimit; BUCKETS_PER_LINE],
    now: Nanos,
    bytes: u16,
) -> bool {
    let meter = |at: usize| table.meter(session, DIRECTION, u8::try_from(at).unwrap()).unwrap();
    let used: Vec<_> = (0..BUCKETS_PER_LINE).filter(|at| which >> at & 1 != 0).collect();
    let is_open = used.iter().map(|at| meter(*at).is_open(limits[*at], now)).min().unwrap();
    if is_open {
        used.iter().for_each(|at| meter(*at).charge(limits[*at], now, bytes));
    }
    is_open
}

/// Returns the buckets as they are once the charge is written.
fn settled(charge: &DeferredCharge, MeterLine(cells): &MeterLine) -> [Bucket; BUCKETS_PER_LINE] {
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
        // Buckets whose `due` time is past are both idle, even if the times differ.
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
    let mut limits = [RateLimit::UNLIMITED; BUCKETS_PER_LINE];
    // Packets of `try_charge_idle`, `try_charge_at_once`, `try_charge`, the stages; dropped.
    let mut ways = [0_u32; 5];
    let mut random = Random(88_172_645_463_325_252);
    let mut below = |most: u64| random.below(most);
    for round in 0..60_000_u32 {
        let pair = table.pair(FAST, DIRECTION).unwrap();
        now += Nanos(match below(40) {
            0 => below(3_000_000_000),
            1..10 => below(2_000_000),
            10..20 => below(2_000),
            // Advances to the nanosecond in which a bucket becomes idle.
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
    // The bucket is always half a second ahead, until price times octets would overflow a word.
    let rounds = check_slow_bucket(limit(8, 3000, Excess::Policed), |_| 500, [500, 0], 2500);
    assert!(rounds.as_millis() > 1 << 20, "{rounds:?}");
}

/// Sends two packets of `lens` octets in each round, and one more in the first; `pauses` returns
/// the milliseconds after a round. Returns the simulated time.
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
