//! Aggregates: the rates of a slice, and of all sessions together.
//!
//! Workers that own sessions of one slice share the bucket of its aggregate, but write it rarely: a
//! worker takes a *lease*, the octets that the rate admits within [`LEASE_TIME`] (at least one
//! packet of 1500), and charges packets to the lease in its own memory ([`Leases`]). Leases are
//! never returned, so each worker exceeds the rate at most once, by one lease and one packet.
//! Guaranteed packets pass even while the rate is closed: they may run up a debt of one more lease
//! before the worker charges it to the bucket.

use core::fmt;

use adit_rules::{Bucket, RateLimit};
use adit_types::limits::SLICES_MAX;
use adit_types::{Direction, Nanos, SliceId};

use crate::sync::{AtomicU64, Ordering};

/// A lease is the volume that the rate admits within this time; see [`LEASE_BYTES_MIN`] and
/// [`LEASE_BYTES_MAX`].
const LEASE_TIME: Nanos = Nanos::from_micros(50);

/// Least lease: one packet. At rates below 240 Mb/s, a lease lasts longer than [`LEASE_TIME`].
/// Unit: octets.
const LEASE_BYTES_MIN: u64 = 1500;

/// Greatest lease: the volume that 42 Gb/s admit within [`LEASE_TIME`]. At higher rates, a lease
/// lasts for less time. Unit: octets.
const LEASE_BYTES_MAX: u64 = 1 << 18;

/// The rate of one slice, or of all sessions, in one direction.
#[repr(align(64))]
pub struct Aggregate {
    /// [`RateLimit::to_bits`] of the limit. Written by the control thread.
    limit: AtomicU64,
    /// See [`Bucket::due`].
    due: AtomicU64,
    /// Octets that workers have taken from the bucket.
    taken: AtomicU64,
}

impl Aggregate {
    fn new(limit: RateLimit) -> Self {
        let [limit, due, taken] = [limit.to_bits(), 0, 0].map(AtomicU64::new);
        Self { limit, due, taken }
    }

    /// Returns the present limit.
    #[must_use]
    pub fn limit(&self) -> RateLimit {
        RateLimit::from_bits(self.limit.load(Ordering::Relaxed))
    }

    /// Replaces the limit; workers keep the leases that they hold. For the control thread only.
    fn set_limit(&self, limit: RateLimit) {
        self.limit.store(limit.to_bits(), Ordering::Relaxed);
    }

    /// Returns the size of a lease at the present limit. Unit: octets.
    fn lease(&self) -> i64 {
        let bytes = self.limit().bytes_within(LEASE_TIME).clamp(LEASE_BYTES_MIN, LEASE_BYTES_MAX);
        i64::try_from(bytes).unwrap_or_default()
    }

    /// Returns how many octets workers have taken. A worker may not have charged up to one lease of
    /// them to packets yet, or may have charged to packets up to one lease that is not included.
    #[must_use]
    pub fn taken_bytes(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Returns the time when the bucket opens, or [`Nanos::NEVER`] if the limit is closed.
    fn opens_at(&self) -> Nanos {
        let due = self.due.load(Ordering::Relaxed);
        Bucket { due, fraction: 0 }.opens_at(self.limit()).unwrap_or(Nanos::NEVER)
    }

    /// Charges `bytes` octets to the bucket if it is open or `force` is true. Returns whether it
    /// did.
    ///
    /// Threads: any worker. Retries only if another worker charges the bucket at the same time.
    fn take(&self, now: Nanos, bytes: u64, force: bool) -> bool {
        let limit = self.limit();
        // Rounded up to whole nanoseconds, so a lease costs at most one nanosecond too much.
        let cost = limit.time_of(bytes).0.saturating_add(1);
        let taken = self.due.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |due| {
            let is_open = Bucket { due, fraction: 0 }.is_open(limit, now);
            (is_open || force).then(|| due.max(now.0).saturating_add(cost))
        });
        if taken.is_ok() {
            self.taken.fetch_add(bytes, Ordering::Relaxed);
        }
        taken.is_ok()
    }
}

impl fmt::Debug for Aggregate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Aggregate").field("limit", &self.limit()).finish_non_exhaustive()
    }
}

/// Identifies an aggregate: one direction of a slice, or of [`ALL_SESSIONS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AggregateKey {
    /// The slice, or [`ALL_SESSIONS`].
    pub slice: SliceId,
    /// The direction.
    pub direction: Direction,
}

/// All aggregates by slice and direction; slice zero stands for all sessions.
#[derive(Debug, Default)]
pub struct Aggregates(Box<[[Option<Aggregate>; 2]]>);

/// Stands for all sessions where an [`AggregateKey`] has a slice.
pub const ALL_SESSIONS: SliceId = SliceId(0);

/// How many scopes there may be: every slice, and all sessions together.
const SCOPES_MAX: usize = SLICES_MAX + 1;

impl Aggregates {
    /// Creates aggregates; `limits` (uplink, downlink) are first for all sessions, then by slice.
    pub(crate) fn new(limits: &[[RateLimit; 2]]) -> Self {
        let aggregate =
            |limit: RateLimit| (limit != RateLimit::UNLIMITED).then(|| Aggregate::new(limit));
        let rates: Box<[_]> =
            limits.iter().take(SCOPES_MAX).map(|limits| limits.map(aggregate)).collect();
        match rates.iter().flatten().all(Option::is_none) {
            true => Self::default(),
            false => Self(rates),
        }
    }

    /// True if [`Aggregates::set_limits`] can set `limits`: an aggregate exists now exactly if
    /// `limits` has a limit for it.
    #[must_use]
    pub fn can_set_limits(&self, limits: &[[RateLimit; 2]]) -> bool {
        let is_limit = |limit: &RateLimit| *limit != RateLimit::UNLIMITED;
        let own = self.0.iter().map(|rates| rates.each_ref().map(Option::is_some));
        let others = limits.iter().take(SCOPES_MAX).map(|limits| limits.each_ref().map(is_limit));
        match self.is_empty() {
            true => others.flatten().all(|is_limited| !is_limited),
            false => own.eq(others),
        }
    }

    /// Sets each aggregate's limit to that at its position. For the control thread only.
    pub(crate) fn set_limits(&self, limits: &[[RateLimit; 2]]) {
        let all = self.0.iter().flatten().zip(limits.iter().flatten());
        for (aggregate, limit) in all {
            if let Some(aggregate) = aggregate.as_ref().filter(|_| *limit != RateLimit::UNLIMITED) {
                aggregate.set_limit(*limit);
            }
        }
    }

    /// True if no aggregate is configured.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the aggregate `key`, or `None` if it is not configured.
    #[inline]
    #[must_use]
    pub fn get(&self, key: AggregateKey) -> Option<&Aggregate> {
        self.0.get(usize::from(key.slice.0))?[key.direction.index()].as_ref()
    }
}

/// Octets that one worker has leased but not charged to packets yet, by slice and direction.
/// Negative if the worker has charged more than it leased.
#[derive(Debug)]
pub struct Leases([[i64; 2]; SCOPES_MAX]);

/// Stands for the lease if no aggregate is configured: it is never used up.
const ENDLESS_LEASE: i64 = i64::MAX;

impl Leases {
    /// Creates leases of zero octets for one worker.
    #[must_use]
    pub(crate) fn new(aggregates: &Aggregates) -> Self {
        let mut left = [[ENDLESS_LEASE; 2]; SCOPES_MAX];
        for (left, aggregates) in left.iter_mut().zip(&aggregates.0) {
            *left = aggregates.each_ref().map(|of| if of.is_some() { 0 } else { ENDLESS_LEASE });
        }
        Self(left)
    }

    /// Returns what is left of a lease. `%` avoids a bounds check; slices are below `SCOPES_MAX`.
    #[inline]
    const fn left(&mut self, key: AggregateKey) -> &mut i64 {
        &mut self.0[key.slice.0 as usize % SCOPES_MAX][key.direction.index()]
    }

    /// True while leases of `key` and of all sessions admit a packet of any length.
    #[inline]
    #[must_use]
    pub const fn admit(&self, key: AggregateKey) -> bool {
        let Self(left) = self;
        let of_slice = left[key.slice.0 as usize % SCOPES_MAX][key.direction.index()];
        let of_all = left[0][key.direction.index()];
        of_slice > 0 && of_all > 0
    }

    /// Checks whether `aggregate`, which `key` identifies, admits a packet of any length at `now`.
    /// Takes a lease if none is left.
    ///
    /// # Errors
    /// Returns the time when the aggregate opens.
    pub fn check_open(
        &mut self,
        aggregate: &Aggregate,
        key: AggregateKey,
        now: Nanos,
    ) -> Result<(), Nanos> {
        let left = self.left(key);
        if *left > 0 {
            return Ok(());
        }
        let lease = aggregate.lease();
        let wanted = lease - *left;
        if !aggregate.take(now, wanted.unsigned_abs(), false) {
            return Err(aggregate.opens_at());
        }
        *left = lease;
        Ok(())
    }

    /// Charges a packet of `bytes` octets to the leases of `key` and of all sessions, even if less
    /// than `bytes` is left. Once the debt of a worker exceeds a lease, charges the debt to the
    /// aggregate, open or not.
    #[inline]
    pub fn charge(&mut self, aggregates: &Aggregates, key: AggregateKey, now: Nanos, bytes: u16) {
        self.charge_one(aggregates, key, now, bytes);
        if key.slice != ALL_SESSIONS {
            let of_all = AggregateKey { slice: ALL_SESSIONS, ..key };
            self.charge_one(aggregates, of_all, now, bytes);
        }
    }

    /// Charges a packet to the lease of a slice, or of all sessions.
    #[inline(always)]
    // PERF (adit-bench datapath --rates police): once per packet and aggregate; part of
    // [`Leases::charge`].
    fn charge_one(&mut self, aggregates: &Aggregates, key: AggregateKey, now: Nanos, bytes: u16) {
        let left = self.left(key);
        *left -= i64::from(bytes);
        if *left < 0 {
            self.settle(aggregates, key, now);
        }
    }

    /// Charges a worker's debt to the aggregate if the debt exceeds a lease.
    #[cold]
    fn settle(&mut self, aggregates: &Aggregates, key: AggregateKey, now: Nanos) {
        let left = self.left(key);
        let Some(aggregate) = aggregates.get(key) else { return };
        if *left < -aggregate.lease() {
            aggregate.take(now, left.unsigned_abs(), true);
            *left = 0;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use adit_rules::Excess;
    use adit_types::BitRate;

    use super::*;

    const KEY: AggregateKey = key(2, Direction::Uplink);

    const fn key(slice: u8, direction: Direction) -> AggregateKey {
        AggregateKey { slice: SliceId(slice), direction }
    }

    fn aggregates(kbps: u64, depth: Nanos) -> Aggregates {
        let limit = RateLimit::new(BitRate::from_kbps(kbps), depth, Excess::Shaped);
        let none = [RateLimit::UNLIMITED; 2];
        Aggregates::new(&[none, none, [limit, RateLimit::UNLIMITED]])
    }

    #[test]
    fn rates_are_found_by_slice_and_direction() {
        let shared = aggregates(1000, Nanos(0));
        assert!(shared.get(KEY).is_some());
        for (slice, direction) in
            [(0, Direction::Uplink), (2, Direction::Downlink), (3, Direction::Uplink)]
        {
            assert!(shared.get(key(slice, direction)).is_none());
        }
        assert!(Aggregates::new(&[[RateLimit::UNLIMITED; 2]]).is_empty());
    }

    #[test]
    fn limits_change_in_their_places_and_none_comes_or_goes() {
        let shared = aggregates(1000, Nanos(0));
        let (none, limit) = (
            RateLimit::UNLIMITED,
            RateLimit::new(BitRate::from_kbps(2000), Nanos(0), Excess::Policed),
        );
        let others = [[none; 2], [none; 2], [limit, none]];
        assert!(shared.can_set_limits(&others));
        shared.set_limits(&others);
        assert_eq!(shared.get(KEY).unwrap().limit(), limit);
        assert!(!shared.can_set_limits(&[[none; 2], [none; 2], [none; 2]]), "one goes");
        assert!(!shared.can_set_limits(&[[none; 2], [limit, none], [limit, none]]), "one comes");
        assert!(!shared.can_set_limits(&others[..2]), "a slice goes");
        assert!(Aggregates::default().can_set_limits(&[[none; 2]]));
        assert!(!Aggregates::default().can_set_limits(&[[limit, none]]));
    }

    #[test]
    fn workers_together_get_the_rate_and_a_lease_each() {
        // Under Miri, the test simulates a hundredth of the time.
        const SHARE: u64 = if cfg!(miri) { 100 } else { 1 };
        let shared = aggregates(1_000_000, Nanos::from_millis(1));
        let aggregate = shared.get(KEY).unwrap();
        let mut workers = [(); 3].map(|()| Leases::new(&shared));
        let (mut bytes, mut now) = (0_u64, Nanos::from_secs(1));
        let end = now + Nanos(100_000_000 / SHARE);
        while now < end {
            for worker in &mut workers {
                if worker.check_open(aggregate, KEY, now).is_ok() {
                    worker.charge(&shared, KEY, now, 1000);
                    bytes += 1000;
                }
            }
            now += Nanos::from_micros(3);
        }
        // 12.5 MB in 100 ms, the rounded depth, and per worker a lease of 6250 octets and a packet.
        let least = 12_500_000 / SHARE;
        let most = least + 131_072 + 3 * (6250 + 1000);
        assert!((least - 6250..=most).contains(&bytes), "{bytes}");
        assert!(aggregate.taken_bytes() >= bytes - 3 * 1000);
    }

    #[test]
    fn leases_admit_packets_until_they_are_used_up() {
        let shared = aggregates(1_000_000, Nanos::from_millis(1));
        let aggregate = shared.get(KEY).unwrap();
        let mut leases = Leases::new(&shared);
        assert!(leases.admit(key(0, KEY.direction)), "nothing limits all sessions");
        assert!(leases.admit(key(2, Direction::Downlink)), "nor this direction of the slice");
        assert!(!leases.admit(KEY), "nothing is leased yet");
        let now = Nanos::from_secs(1);
        leases.check_open(aggregate, KEY, now).unwrap();
        // A lease of 50 µs at 1 Gb/s is 6250 octets.
        for _ in 0..7 {
            assert!(leases.admit(KEY));
            leases.charge(&shared, KEY, now, 1000);
        }
        assert!(!leases.admit(KEY));
        assert_eq!(aggregate.taken_bytes(), 6250);
    }

    #[test]
    fn forced_debt_delays_other_workers() {
        let shared = aggregates(8000, Nanos(0));
        let aggregate = shared.get(KEY).unwrap();
        let [mut one, mut other] = [(); 2].map(|()| Leases::new(&shared));
        let now = Nanos::from_secs(1);
        // 1 MB/s: 100 packets of 1000 octets are a tenth of a second.
        for _ in 0..100 {
            one.charge(&shared, KEY, now, 1000);
        }
        let opens = other.check_open(aggregate, KEY, now).unwrap_err();
        let late = opens.since(now);
        assert!((Nanos::from_millis(98)..=Nanos::from_millis(101)).contains(&late), "{late:?}");
        assert!(other.check_open(aggregate, KEY, opens).is_ok());
    }
}
