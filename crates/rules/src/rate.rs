//! Bit rates: how long a packet takes at a rate, and whether it conforms.
//!
//! Implements the generic cell rate algorithm in its virtual scheduling form (ITU-T I.371 annex A).
//! The state of a bucket is the *theoretical arrival time* (TAT): when all packets so far would
//! have been sent at exactly the rate. A packet passes while the TAT is at most one *depth* ahead
//! of now. The packet then moves the TAT, or now if the TAT is in the past, ahead by its length
//! divided by the rate. No clock refills a bucket. Prices (the time of one octet) and depths are
//! rounded once, when the limit is made; charging a [`Bucket`] rounds nothing.

use adit_types::{BitRate, Nanos};

/// Fraction bits of a price.
const PRICE_FRACTION_BITS: u32 = 24;

// The word of a `RateLimit`, by bits:
//
// 0..15   depth of the bucket, unit 2^16 ns
// 15      set if packets beyond the rate are shaped
// 16..64  price: the time of one octet, unit 2^-24 ns

/// How many bits the depth has.
const DEPTH_BITS: u32 = 15;
const SHAPED: u64 = 1 << DEPTH_BITS;
const PRICE_SHIFT: u32 = DEPTH_BITS + 1;

/// A depth counts units of 2^this nanoseconds.
const DEPTH_UNIT_BITS: u32 = 16;

/// The highest price: one less than the highest 48-bit number, so that no rate equals
/// [`RateLimit::CLOSED`].
const PRICE_MAX: u64 = (1 << (u64::BITS - PRICE_SHIFT)) - 2;

/// Fraction bits of a [`Bucket`]: its second word.
const BUCKET_FRACTION_BITS: u32 = u64::BITS;

/// Longest IP packet. Unit: octets.
const PACKET_BYTES_MAX: u64 = u16::MAX as u64;

/// The action on packets beyond a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Excess {
    /// Packets are dropped (policing).
    #[default]
    Policed,
    /// Packets wait until they conform (shaping).
    Shaped,
}

/// A rate, its burst size and the action on excess packets, stored as the time of one octet and the
/// depth of the bucket. It is one word, so that it is written and read atomically.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RateLimit(u64);

impl Default for RateLimit {
    fn default() -> Self {
        Self::UNLIMITED
    }
}

impl RateLimit {
    /// All packets pass.
    pub const UNLIMITED: Self = Self(0);

    /// No packet passes: every bucket is closed under this limit.
    pub const CLOSED: Self = Self(u64::MAX);

    /// Makes a limit of `rate` with a bucket of `depth`. A rate of zero lets nothing pass.
    ///
    /// Units: the price is rounded up to 2^-24 ns per octet, so that the rate is not exceeded; the
    ///        error is below 8 parts in 10^7 at 100 Gb/s, and smaller in proportion at lower rates.
    ///        The price is at most 2^24 ns per octet, so a rate below 477 bit/s becomes 477 bit/s:
    ///        the only case in which a rate is exceeded. The depth is rounded up to a multiple of
    ///        65.5 µs, and is at most 2.147 s.
    #[must_use]
    pub const fn new(rate: BitRate, depth: Nanos, excess: Excess) -> Self {
        const SECOND: u128 = (8 * 1_000_000_000) << PRICE_FRACTION_BITS;
        if rate.as_bps() == 0 {
            return Self::CLOSED;
        }
        let price = SECOND.div_ceil(rate.as_bps() as u128);
        #[allow(clippy::cast_possible_truncation, reason = "compared with the maximum first")]
        let price = if price > PRICE_MAX as u128 { PRICE_MAX } else { price as u64 };
        let depth = depth.0.div_ceil(1 << DEPTH_UNIT_BITS);
        let most = (1 << DEPTH_BITS) - 1;
        let shaped = match excess {
            Excess::Policed => 0,
            Excess::Shaped => SHAPED,
        };
        Self(price << PRICE_SHIFT | shaped | if depth > most { most } else { depth })
    }

    /// Returns the limit as one word.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// Restores a limit from [`RateLimit::to_bits`]; zero is unlimited.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Returns the depth of the bucket.
    #[inline]
    #[must_use]
    pub const fn depth(self) -> Nanos {
        Nanos(self.depth_ns())
    }

    /// Unit: nanoseconds.
    #[inline]
    const fn depth_ns(self) -> u64 {
        (self.0 & ((1 << DEPTH_BITS) - 1)) << DEPTH_UNIT_BITS
    }

    /// Returns the time of one octet; zero without a limit. Unit: 2^-24 ns; below 2^48 of them.
    #[inline]
    #[must_use]
    pub const fn price(self) -> u64 {
        self.0 >> PRICE_SHIFT
    }

    /// Returns the action on packets beyond the rate. A closed limit drops them.
    #[inline]
    #[must_use]
    pub const fn excess(self) -> Excess {
        if self.0 & SHAPED != 0 && self.0 != Self::CLOSED.0 {
            Excess::Shaped
        } else {
            Excess::Policed
        }
    }

    /// Returns how many octets pass within `time`, rounded down. Saturates; `u64::MAX` without a
    /// limit. [`RateLimit::CLOSED`] counts as the slowest rate, 477 bit/s.
    #[must_use]
    pub const fn bytes_within(self, time: Nanos) -> u64 {
        let price = self.price() as u128;
        if price == 0 {
            return u64::MAX;
        }
        let bytes = ((time.0 as u128) << PRICE_FRACTION_BITS) / price;
        #[allow(clippy::cast_possible_truncation, reason = "compared with the maximum first")]
        let bytes = if bytes > u64::MAX as u128 { u64::MAX } else { bytes as u64 };
        bytes
    }

    /// Returns the time that `bytes` octets take, rounded down. Saturates; zero without a limit.
    /// [`RateLimit::CLOSED`] counts as the slowest rate, 477 bit/s.
    #[must_use]
    pub const fn time_of(self, bytes: u64) -> Nanos {
        let time = (self.price() as u128 * bytes as u128) >> PRICE_FRACTION_BITS;
        #[allow(clippy::cast_possible_truncation, reason = "compared with the maximum first")]
        Nanos(if time > u64::MAX as u128 { u64::MAX } else { time as u64 })
    }
}

/// The state of a token bucket. A bucket is open while `due` is not beyond the sum of now and the
/// depth. Its *credit* is how far `due` is below that sum, at most the depth; its *debt* is how far
/// above.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bucket {
    /// The theoretical arrival time, in whole nanoseconds.
    pub due: u64,
    /// The part of the theoretical arrival time below one nanosecond. Unit: 2^-64 ns.
    pub fraction: u64,
}

impl Bucket {
    /// True if a packet of any length may pass at `now`.
    ///
    /// The length of the packet is not compared. So the bucket ends at most one packet beyond the
    /// depth, and even the slowest rate lets the longest packet pass.
    #[inline]
    #[must_use]
    pub const fn is_open(self, limit: RateLimit, now: Nanos) -> bool {
        self.due <= now.0.saturating_add(limit.depth_ns()) && limit.0 != RateLimit::CLOSED.0
    }

    /// Returns how far `due` is below the sum of `now` and the depth; negative while the bucket is
    /// closed. After idle time this is more than the depth, but packets may use only the depth. Not
    /// for [`RateLimit::CLOSED`]. Unit: nanoseconds; times are below 2^62.
    #[inline]
    #[must_use]
    pub const fn room(self, limit: RateLimit, now: Nanos) -> i64 {
        now.0.wrapping_add(limit.depth_ns()).wrapping_sub(self.due).cast_signed()
    }

    /// Returns when [`Bucket::is_open`] becomes true; `None` if never.
    #[inline]
    #[must_use]
    pub const fn opens_at(self, limit: RateLimit) -> Option<Nanos> {
        match limit {
            RateLimit::CLOSED => None,
            _ => Some(Nanos(self.due.saturating_sub(limit.depth_ns()))),
        }
    }

    /// Returns the bucket after a packet of `bytes` octets passed at `now`. Times saturate.
    #[inline]
    #[must_use]
    pub const fn after(self, limit: RateLimit, now: Nanos, bytes: u16) -> Self {
        Self::at(self.packet_start(now).time().saturating_add(packet_time(limit, bytes as u64)))
    }

    /// Same as [`Bucket::after`] without saturation: times must be below 2^62 nanoseconds.
    // PERF (rules/rate): once per packet and bucket; nothing saturates.
    #[inline(always)]
    #[must_use]
    pub const fn after_unsaturated(self, limit: RateLimit, now: Nanos, bytes: u16) -> Self {
        Self::at(self.packet_start(now).time().wrapping_add(packet_time(limit, bytes as u64)))
    }

    /// Returns the state of a bucket, idle before, after packets of `bytes` octets together passed
    /// from `now` on, each while `due` was not in the past. `bytes` is below 2^40.
    // PERF (adit-bench datapath --rates police): one multiplication and one addition.
    #[inline(always)]
    #[must_use]
    pub const fn after_idle(limit: RateLimit, now: Nanos, bytes: u64) -> Self {
        let Self { due, fraction } = Self::at(packet_time(limit, bytes));
        Self { due: now.0.wrapping_add(due), fraction }
    }

    /// Returns the start of the time that a packet at `now` takes: the later of `now` and `due`.
    #[inline(always)]
    // PERF (rules/rate): part of [`Bucket::after_unsaturated`].
    const fn packet_start(self, now: Nanos) -> Self {
        if self.due < now.0 { Self { due: now.0, fraction: 0 } } else { self }
    }

    /// Makes a bucket from a theoretical arrival time. Unit: 2^-64 ns.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "the halves are wanted")]
    // PERF (rules/rate): part of [`Bucket::after_unsaturated`].
    const fn at(time: u128) -> Self {
        Self { due: (time >> BUCKET_FRACTION_BITS) as u64, fraction: time as u64 }
    }

    /// Returns the theoretical arrival time. Unit: 2^-64 ns.
    #[inline(always)]
    // PERF (rules/rate): part of [`Bucket::after_unsaturated`].
    const fn time(self) -> u128 {
        (self.due as u128) << BUCKET_FRACTION_BITS | self.fraction as u128
    }

    /// True if a packet that finds this state at `now` may pass or be queued: the bucket is open,
    /// or `limit` shapes and can have caused this debt. Times are below 2^62 nanoseconds.
    #[inline(always)]
    // PERF (adit-bench datapath --rates wait): once per bucket and waiting packet.
    #[must_use]
    pub const fn admits_waiting(self, limit: RateLimit, now: Nanos) -> bool {
        let room = self.room(limit, now);
        if limit.0 == RateLimit::CLOSED.0 {
            return false;
        }
        if room >= 0 {
            return true;
        }
        // The greatest debt: the longest packet, and up to a nanosecond for the fraction before.
        let most = ((limit.price() * PACKET_BYTES_MAX) >> PRICE_FRACTION_BITS).cast_signed() + 1;
        limit.0 & SHAPED != 0 && room + most >= 0
    }

    /// Forgives debt greater than `limit` can cause: it stems from a previous limit. Returns a
    /// bucket with neither credit nor debt then, else the bucket as it is.
    #[inline]
    #[must_use]
    pub const fn without_former_debt(self, limit: RateLimit, now: Nanos) -> Self {
        // Up to a nanosecond is due to the fraction before the last packet.
        self.without_debt_beyond(limit, now, Nanos(1))
    }

    /// Forgives debt that is more than `margin` above the most that `limit` can cause. Returns a
    /// bucket with neither credit nor debt then, else the bucket unchanged.
    const fn without_debt_beyond(self, limit: RateLimit, now: Nanos, margin: Nanos) -> Self {
        let without_credit = now.0.saturating_add(limit.depth_ns());
        let most = without_credit.saturating_add(limit.time_of(PACKET_BYTES_MAX).0);
        let is_beyond = self.due > most.saturating_add(margin.0);
        if is_beyond { Self { due: without_credit, fraction: 0 } } else { self }
    }
}

/// Returns the time that `bytes` octets take at `price` per octet, rounded down. The product must
/// be below 2^64 units of 2^-24 ns.
#[inline(always)]
#[must_use]
// PERF (adit-bench datapath --rates police): once per packet, whatever the number of its buckets.
pub const fn time_at_price(price: u64, bytes: u64) -> Nanos {
    Nanos(price.wrapping_mul(bytes) >> PRICE_FRACTION_BITS)
}

/// Returns the time that `bytes` octets (below 2^40) take. Unit: 2^-64 ns; below 2^128 of them.
#[inline(always)]
// PERF (rules/rate): part of [`Bucket::after_unsaturated`]. The factors are shifted so that one
// multiplication of two words yields both words of the result.
const fn packet_time(limit: RateLimit, bytes: u64) -> u128 {
    let price = limit.0 >> PRICE_SHIFT << PRICE_SHIFT;
    let bytes = bytes << (BUCKET_FRACTION_BITS - PRICE_FRACTION_BITS - PRICE_SHIFT);
    price as u128 * bytes as u128
}

/// Bits below one nanosecond in a [`SharedBucket`].
const SHARED_FRACTION_BITS: u32 = 8;

/// Workers that share a bucket have clocks that differ by less, read once per step.
const CLOCK_DIFFERENCE_MAX: Nanos = Nanos(1 << 27);

/// A bucket in one word, for several writers: the theoretical arrival time in units of 2^-8 ns,
/// modulo 2^64 units (2.3 years), rounded up with each packet. Each writer has its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SharedBucket(pub u64);

impl SharedBucket {
    /// Converts to the bucket of a single writer, whose clock is at `now`.
    ///
    /// Forgives debt that `limit` cannot cause, as [`Bucket::without_former_debt`] does, with a
    /// margin of 134 ms for clocks that lag. A time due more than half a period ago looks like such
    /// a debt, and is forgiven too.
    #[inline]
    #[must_use]
    pub const fn at(self, limit: RateLimit, now: Nanos) -> Bucket {
        let ahead = self.0.wrapping_sub(now.0 << SHARED_FRACTION_BITS).cast_signed();
        let due = now.0.saturating_add_signed(ahead >> SHARED_FRACTION_BITS);
        let fraction = ahead.cast_unsigned() & ((1 << SHARED_FRACTION_BITS) - 1);
        let fraction = fraction << (BUCKET_FRACTION_BITS - SHARED_FRACTION_BITS);
        Bucket { due, fraction }.without_debt_beyond(limit, now, CLOCK_DIFFERENCE_MAX)
    }

    /// Returns the bucket after a packet of `bytes` octets passed at `now`.
    #[inline]
    #[must_use]
    pub const fn after(self, limit: RateLimit, now: Nanos, bytes: u16) -> Self {
        let Bucket { due, fraction } = self.at(limit, now).after(limit, now, bytes);
        let fraction = fraction.div_ceil(1 << (BUCKET_FRACTION_BITS - SHARED_FRACTION_BITS));
        Self((due << SHARED_FRACTION_BITS).wrapping_add(fraction))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MTU: u16 = 1500;

    fn passed(limit: RateLimit, len: u16, every: Nanos, until: Nanos) -> u64 {
        let (mut bucket, mut bytes, mut now) = (Bucket::default(), 0, Nanos::from_secs(5));
        let end = now + until;
        while now < end {
            if bucket.is_open(limit, now) {
                bucket = bucket.after(limit, now, len);
                bytes += u64::from(len);
            }
            now += every;
        }
        bytes
    }

    #[test]
    fn no_limit_lets_everything_through_and_zero_nothing() {
        let bucket = Bucket::default().after(RateLimit::UNLIMITED, Nanos(7), MTU);
        assert_eq!((bucket.due, bucket.fraction), (7, 0));
        assert!(bucket.is_open(RateLimit::UNLIMITED, Nanos(7)));
        let closed = RateLimit::new(BitRate::from_bps(0), Nanos::from_secs(1), Excess::Shaped);
        assert_eq!((closed, closed.excess()), (RateLimit::CLOSED, Excess::Policed));
        assert_eq!(RateLimit::UNLIMITED.excess(), Excess::Policed);
        assert!(!Bucket::default().is_open(closed, Nanos::NEVER));
        assert_eq!(Bucket::default().opens_at(closed), None);
    }

    #[test]
    fn flow_gets_its_rate_and_its_depth_once() {
        // 1 Mb/s for 10 s is 1.25 MB, 20 ms of depth 2.5 kB, and at most one packet more passes.
        let limit =
            RateLimit::new(BitRate::from_kbps(1000), Nanos::from_millis(20), Excess::Policed);
        let bytes = passed(limit, MTU, Nanos::from_micros(100), Nanos::from_secs(10));
        assert!((1_252_500..=1_252_500 + u64::from(MTU)).contains(&bytes), "{bytes}");
    }

    #[test]
    fn slowest_rate_starves_no_packet() {
        let limit = RateLimit::new(BitRate::from_kbps(8), Nanos(0), Excess::Shaped);
        let bytes = passed(limit, u16::MAX, Nanos::from_millis(100), Nanos::from_secs(200));
        assert_eq!(bytes / u64::from(u16::MAX), 4, "one each 65.5 s, and the first at once");
    }

    #[test]
    fn debt_of_a_slower_limit_is_not_owed_to_a_faster_one() {
        let now = Nanos::from_secs(1);
        let slow = RateLimit::new(BitRate::from_kbps(8), Nanos(0), Excess::Shaped);
        let fast =
            RateLimit::new(BitRate::from_kbps(1_000_000), Nanos::from_millis(1), Excess::Policed);
        let bucket = Bucket::default().after(slow, now, u16::MAX);
        assert_eq!((slow.excess(), fast.excess()), (Excess::Shaped, Excess::Policed));
        assert_eq!(bucket.without_former_debt(slow, now), bucket);
        let settled = bucket.without_former_debt(fast, now);
        assert!(settled.is_open(fast, now));
        assert_eq!(settled.without_former_debt(fast, now), settled);
        let after = settled.after(fast, now, MTU);
        assert!(!after.is_open(fast, now), "it begins empty");
        assert_eq!(after.without_former_debt(fast, now), after, "its own debt stays");
    }

    #[test]
    fn idle_bucket_is_charged_like_any_other() {
        let now = Nanos::from_secs(3);
        for kbps in [0, 1, 8, 20_000, 99_999, 100_000_000] {
            let limit =
                RateLimit::new(BitRate::from_kbps(kbps), Nanos::from_millis(2), Excess::Policed);
            for len in [0, 20, 64, MTU, u16::MAX] {
                let after = Bucket::after_idle(limit, now, u64::from(len));
                for (due, fraction) in [(0, 0), (now.0 - 1, 1 << 40), (now.0 - 1, u64::MAX)] {
                    let bucket = Bucket { due, fraction };
                    assert_eq!(bucket.after_unsaturated(limit, now, len), after, "{limit:?} {len}");
                    assert_eq!(bucket.after(limit, now, len), after, "{limit:?} {len}");
                }
                let fraction = 3 << 40;
                let at_now = Bucket { due: now.0, fraction }.after(limit, now, len);
                let late = at_now.time() - after.time();
                assert_eq!(late, u128::from(fraction), "the rest of a nanosecond is not over");
            }
        }
    }

    #[test]
    fn packet_may_wait_for_debt_of_its_own_limit() {
        let now = Nanos::from_secs(9);
        for kbps in [0, 8, 20_000, 100_000_000] {
            for (excess, depth) in [(Excess::Policed, 0), (Excess::Shaped, 0), (Excess::Shaped, 20)]
            {
                let limit =
                    RateLimit::new(BitRate::from_kbps(kbps), Nanos::from_millis(depth), excess);
                let most = limit.depth_ns() + limit.time_of(PACKET_BYTES_MAX).0 + 1;
                for ahead in [0, 1, limit.depth_ns(), limit.depth_ns() + 1, most, most + 1] {
                    let bucket = Bucket { due: now.0 + ahead, fraction: 5 };
                    let expected = bucket.is_open(limit, now)
                        || limit.excess() == Excess::Shaped
                            && bucket.without_former_debt(limit, now) == bucket;
                    assert_eq!(bucket.admits_waiting(limit, now), expected, "{limit:?} {ahead}");
                    let paid = bucket.after_unsaturated(limit, now, MTU);
                    assert_eq!(paid, bucket.after(limit, now, MTU));
                }
            }
        }
    }

    #[test]
    fn shared_bucket_is_a_bucket_rounded_up_to_a_256th_of_a_nanosecond() {
        for (kbps, len) in [(8, 1500), (20_000, 64), (99_999, 1400), (100_000_000, 64)] {
            let limit = RateLimit::new(BitRate::from_kbps(kbps), Nanos(0), Excess::Shaped);
            // The last starts are near the end of the period.
            for start in [5_000_000_000, 1 << 55, (1 << 56) - 1000, 5 << 56] {
                let mut now = Nanos(start);
                let (mut own, mut shared) =
                    (Bucket { due: start, fraction: 0 }, SharedBucket(start << 8));
                for sent in 1..1000 {
                    own = own.after(limit, now, len);
                    shared = shared.after(limit, now, len);
                    let Bucket { due, fraction } = shared.at(limit, now);
                    let late = (u128::from(due - own.due) << 64) + u128::from(fraction)
                        - u128::from(own.fraction);
                    assert!(late <= sent << 56, "{kbps}: {late} after {sent}");
                    now += limit.time_of(len.into());
                }
            }
        }
    }

    #[test]
    fn shared_bucket_forgives_what_no_clock_explains() {
        let now = Nanos::from_secs(9);
        let fast =
            RateLimit::new(BitRate::from_kbps(10_000_000), Nanos::from_millis(1), Excess::Shaped);
        let full = |ahead: u64| SharedBucket((now.0 + ahead) << 8).at(fast, now).due;
        assert_eq!(full(100_000_000), now.0 + 100_000_000, "another's clock is ahead");
        assert!(full(200_000_000) < now.0 + 1_100_000, "another's rate was slow");
        assert_eq!(SharedBucket((now.0 << 8).wrapping_sub(1 << 62)).at(fast, now).due, 0, "idle");
    }

    #[test]
    fn highest_rates_and_lengths_do_not_overflow() {
        for kbps in [1, 8, 100_000_000, (1 << 40) - 1] {
            let limit = RateLimit::new(BitRate::from_kbps(kbps), Nanos::NEVER, Excess::Shaped);
            let late = Nanos(u64::MAX - 1);
            let bucket = Bucket { due: u64::MAX - 1, fraction: u64::MAX };
            let after = bucket.after(limit, late, u16::MAX);
            assert!(after.due == u64::MAX && after.time() >= bucket.time());
            assert!(limit.time_of(u64::MAX).0 > 0);
        }
        let slowest = RateLimit::new(BitRate::from_bps(1), Nanos(0), Excess::Policed);
        assert_eq!(slowest.price(), PRICE_MAX);
    }
}
