//! Buckets against a token bucket in exact fractions.
//!
//! Time is counted in units of 1/rate nanoseconds, so that the time of a packet (its bits, times
//! 10^9) and every moment are whole numbers, and nothing is rounded.

use adit_rules::{Bucket, Excess, RateLimit};
use adit_types::{BitRate, Nanos};
use proptest::collection::vec;
use proptest::prelude::*;

/// A depth is rounded up to a multiple of this. Unit: nanoseconds.
const DEPTH_UNIT_NS: u64 = 1 << 16;

/// The largest depth. Unit: nanoseconds.
const DEPTH_NS_MAX: u64 = ((1 << 15) - 1) * DEPTH_UNIT_NS;

/// A price is rounded up to one part of this many of a nanosecond.
const PRICE_UNITS: u128 = 1 << 24;

/// The exact bucket: when everything that passed would have passed at the rate.
#[derive(Debug, Clone, Copy)]
struct Exact {
    /// Unit: bits per second.
    rate: u128,
    /// As it is enforced. Unit: 1/rate ns.
    depth: u128,
    /// Unit: 1/rate ns.
    due: u128,
    /// Octets that passed since the bucket was empty.
    bytes: u128,
}

impl Exact {
    fn new(rate: BitRate, depth: Nanos) -> Self {
        let depth = (depth.0.div_ceil(DEPTH_UNIT_NS) * DEPTH_UNIT_NS).min(DEPTH_NS_MAX);
        let rate = u128::from(rate.as_bps());
        Self { rate, depth: rate * u128::from(depth), due: 0, bytes: 0 }
    }

    /// Unit: 1/rate ns.
    fn at(&self, now: Nanos) -> u128 {
        self.rate * u128::from(now.0)
    }

    /// The last moment at which the bucket is open. Unit: 1/rate ns.
    fn most(&self, now: Nanos) -> u128 {
        self.at(now) + self.depth
    }

    fn pass(&mut self, now: Nanos, len: u16) {
        if self.due <= self.at(now) {
            (self.due, self.bytes) = (self.at(now), 0);
        }
        self.due += u128::from(len) * 8_000_000_000;
        self.bytes += u128::from(len);
    }

    /// How far the rounding of the price leads by now, rounded up. Unit: 1/rate ns.
    fn drift(&self) -> u128 {
        (self.bytes * self.rate).div_ceil(PRICE_UNITS)
    }

    /// The bucket's due time. Unit: 1/rate ns, and 2^-24 of it.
    fn scaled(&self, bucket: Bucket) -> u128 {
        // The fraction is in units of 2^-64 ns, and a multiple of 2^40 of them.
        let fraction = u128::from(bucket.fraction) * PRICE_UNITS;
        assert_eq!(fraction % (1 << 64), 0, "{bucket:?}");
        (u128::from(bucket.due) * PRICE_UNITS + (fraction >> 64)) * self.rate
    }
}

fn rate() -> impl Strategy<Value = BitRate> {
    // 1 kb/s to 100 Gb/s, as many in each decade.
    let any = (3_u32..11, 1000_u64..10_000)
        .prop_map(|(decade, digits)| BitRate::from_bps(digits * 10_u64.pow(decade) / 1000));
    let usual = prop::sample::select(vec![1, 8, 1000, 20_000, 1_000_000, 10_000_000, 100_000_000]);
    prop_oneof![2 => any, 1 => usual.prop_map(BitRate::from_kbps)]
}

fn depth() -> impl Strategy<Value = Nanos> {
    prop_oneof![
        Just(Nanos(0)),
        (1_u64..200_000).prop_map(Nanos),
        (0_u64..100).prop_map(Nanos::from_millis),
        (1_u64..4).prop_map(Nanos::from_secs),
    ]
}

fn excess() -> impl Strategy<Value = Excess> {
    prop::sample::select(vec![Excess::Policed, Excess::Shaped])
}

fn len() -> impl Strategy<Value = u16> {
    prop_oneof![4 => 20_u16..=1500, 1 => 20_u16..=u16::MAX, 1 => Just(u16::MAX)]
}

/// Packets: how long each takes at the rate, in parts of 64, until the next comes.
fn packets() -> impl Strategy<Value = Vec<(u16, u64)>> {
    let gap = prop_oneof![3 => 0_u64..128, 1 => Just(0), 1 => 0_u64..4096];
    vec((len(), gap), 1..250)
}

/// When the next packet comes.
fn next(rate: BitRate, now: Nanos, len: u16, gap: u64) -> Nanos {
    let ns = u128::from(len) * 8_000_000_000 * u128::from(gap) / 64 / u128::from(rate.as_bps());
    now + Nanos(u64::try_from(ns).unwrap())
}

/// A start that is far from zero, and none of whose lower bits is usual.
const START: Nanos = Nanos(5_000_000_123_457);

proptest! {
    #[test]
    fn volume_between_two_packets_is_that_of_the_rate_and_the_depth_and_one_packet(
        rate in rate(), depth in depth(), excess in excess(), packets in packets(),
    ) {
        let limit = RateLimit::new(rate, depth, excess);
        let exact = Exact::new(rate, depth);
        let (mut bucket, mut now) = (Bucket::default(), START);
        let mut passed: Vec<(Nanos, u16)> = Vec::new();
        for (len, gap) in packets {
            if bucket.is_open(limit, now) {
                bucket = bucket.after(limit, now, len);
                passed.push((now, len));
            }
            now = next(rate, now, len, gap);
        }
        prop_assert!(!passed.is_empty(), "the first passes");
        for first in 0..passed.len() {
            let mut bytes = 0;
            for last in first + 1..passed.len() {
                bytes += u128::from(passed[last - 1].1);
                // The due time is compared in whole nanoseconds.
                let time = passed[last].0.since(passed[first].0) + Nanos(1);
                let most = exact.most(time);
                prop_assert!(bytes * 8_000_000_000 <= most, "{first}..{last}: {bytes} octets");
            }
        }
    }

    #[test]
    fn decision_is_the_exact_one_but_within_the_rounding(
        rate in rate(), depth in depth(), packets in packets(),
    ) {
        let limit = RateLimit::new(rate, depth, Excess::Policed);
        let mut exact = Exact::new(rate, depth);
        let (mut bucket, mut now) = (Bucket::default(), START);
        for (len, gap) in packets {
            let is_open = bucket.is_open(limit, now);
            let (most, ns) = (exact.most(now), exact.rate);
            if exact.due + exact.drift() <= most {
                prop_assert!(is_open, "closed too early: {exact:?}");
            } else if exact.due >= most + ns {
                prop_assert!(!is_open, "open too late: {exact:?}");
            }
            if is_open {
                bucket = bucket.after(limit, now, len);
                exact.pass(now, len);
                let ahead = bucket.due;
                let due = (exact.scaled(bucket), exact.due * PRICE_UNITS);
                prop_assert!(due.0 >= due.1, "{ahead} is before {exact:?}");
                // The exact bucket may be empty a little earlier.
                let bound = exact.bytes * ns + ns * PRICE_UNITS;
                prop_assert!(due.0 - due.1 <= bound, "{ahead} is late by more than {exact:?} says");
            } else {
                let opens = bucket.opens_at(limit).unwrap();
                prop_assert!(opens > now && bucket.is_open(limit, opens));
                prop_assert!(!bucket.is_open(limit, opens - Nanos(1)));
            }
            now = next(rate, now, len, gap);
        }
    }

    #[test]
    fn flow_that_always_waits_gets_its_rate(
        rate in rate(),
        depth in depth(),
        // How late it is looked at, in parts of the depth.
        looks in vec((len(), 0_u64..=64), 1..100),
    ) {
        let limit = RateLimit::new(rate, depth, Excess::Shaped);
        let exact = Exact::new(rate, depth);
        let (mut bucket, mut bytes, mut now) = (Bucket::default(), 0_u128, START);
        let mut pkts = 0;
        for (len, late) in looks {
            while bucket.is_open(limit, now) && pkts < 2000 {
                bucket = bucket.after(limit, now, len);
                bytes += u128::from(len);
                pkts += 1;
            }
            if bucket.is_open(limit, now) {
                break;
            }
            let time = now.since(START);
            // The price leads by 2^-24 ns for each octet, and due times are whole nanoseconds.
            let got = bytes * 8_000_000_000 + (bytes * exact.rate).div_ceil(PRICE_UNITS);
            prop_assert!(got >= exact.most(time), "{bytes} octets in {time:?}");
            let depth = u64::try_from(exact.depth / exact.rate).unwrap();
            now = bucket.opens_at(limit).unwrap() + Nanos(depth / 64 * late);
        }
    }

    #[test]
    fn settling_opens_and_never_closes(
        rate in rate(), before in rate(), depth in depth(), excess in excess(),
        due in prop_oneof![
            (0_u64..2_000_000).prop_map(|ns| START.0 + ns),
            (0_u64..5_000_000_000).prop_map(|ns| START.0 - 1_000_000_000 + ns),
            any::<u64>(),
        ],
        fraction in 0_u64..1 << 24,
        packets in packets(),
    ) {
        let limit = RateLimit::new(rate, depth, excess);
        let bucket = Bucket { due, fraction };
        let settled = bucket.without_former_debt(limit, START);
        prop_assert!(settled.due <= bucket.due);
        prop_assert!(settled == bucket || !bucket.is_open(limit, START) && settled.is_open(limit, START));
        prop_assert_eq!(settled.without_former_debt(limit, START), settled);
        // A limit owes its own debt, whatever came before.
        let mut bucket = Bucket { due: START.0, fraction };
        bucket = bucket.after(RateLimit::new(before, depth, excess), START, 1500).without_former_debt(limit, START);
        let mut now = START;
        for (len, gap) in packets {
            if bucket.is_open(limit, now) {
                bucket = bucket.after(limit, now, len);
                prop_assert_eq!(bucket.without_former_debt(limit, now), bucket);
            }
            now = next(rate, now, len, gap);
        }
    }

    #[test]
    fn limit_is_one_word(rate in rate(), depth in depth(), excess in excess(), len in len()) {
        let limit = RateLimit::new(rate, depth, excess);
        let same = RateLimit::from_bits(limit.to_bits());
        prop_assert_eq!((same, same.excess()), (limit, excess));
        // The time of a packet: exact, rounded up by the price and down to a nanosecond.
        let exact = u128::from(len) * 8_000_000_000;
        let got = u128::from(limit.time_of(len.into()).0);
        let (low, rate) = (got * u128::from(rate.as_bps()), u128::from(rate.as_bps()));
        prop_assert!(low <= exact + rate && exact < low + rate, "{got} ns");
    }
}
