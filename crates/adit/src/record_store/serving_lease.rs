//! The time until which this adit may serve: answer for its addresses, and forward.
//!
//! With `[standby]` another adit takes over when the lease of the records ends, so this adit must
//! have stopped before that. The end is computed by clocks of this process, from the sending of the
//! last prolongation that succeeded. Every thread that serves compares it with the time of its
//! step: a process that was suspended does not serve past the end either.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use adit_types::Nanos;

use crate::clock::ProcessClock;
use crate::config::{Config, StoreKind, WhenIsolated};

/// This adit stops serving this part (1/8) of the lease before the lease ends.
const MARGIN_DIVISOR: u32 = 8;

/// The time until which this adit may serve. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct ServingLease(Arc<ServingLeaseWords>);

#[derive(Debug)]
struct ServingLeaseWords {
    /// The time, by the process clock. Read in every step.
    until: AtomicU64,
    /// Packets that were discarded since the start because this adit was not allowed to serve.
    discarded_pkts: AtomicU64,
    clock: OnceLock<ProcessClock>,
    state: Mutex<ServingLeaseState>,
}

#[derive(Debug)]
struct ServingLeaseState {
    /// Length of the lease; `None` if this adit serves without limit.
    length: Option<Duration>,
    /// True to go on serving although neither the store nor the standby confirms the lease.
    is_unlimited: bool,
    /// No other process has the lease of the store before this time.
    store: Option<Instant>,
    /// The standby does not take over before this time.
    standby: Option<Instant>,
    /// When another station was seen using an address of this adit: `store` and `standby` are valid
    /// only if confirmed later.
    distrusted: Option<Instant>,
    is_over: bool,
}

impl ServingLease {
    /// Creates the lease that the configuration requires.
    pub(crate) fn new(config: &Config) -> Self {
        let length = match (&config.standby, &config.store.kind) {
            (Some(_), StoreKind::Shared(shared)) => Some(shared.lease),
            _ => None,
        };
        let is_isolated_stop =
            config.standby.as_ref().is_some_and(|of| of.when_isolated == WhenIsolated::Stop);
        Self::with_length(length, !is_isolated_stop)
    }

    /// Creates a lease without limit.
    pub(crate) fn unlimited() -> Self {
        Self::with_length(None, true)
    }

    /// Creates a lease of `length`, which `is_unlimited` keeps serving unconfirmed.
    pub(crate) fn with_length(length: Option<Duration>, is_unlimited: bool) -> Self {
        let state = ServingLeaseState {
            length,
            is_unlimited: is_unlimited || length.is_none(),
            store: None,
            standby: None,
            distrusted: None,
            is_over: false,
        };
        let until = if state.is_unlimited { u64::MAX } else { 0 };
        Self(Arc::new(ServingLeaseWords {
            until: AtomicU64::new(until),
            discarded_pkts: AtomicU64::new(0),
            clock: OnceLock::new(),
            state: Mutex::new(state),
        }))
    }

    /// Sets the process clock, with whose time [`Self::allows`] is called.
    pub(crate) fn set_clock(&self, clock: ProcessClock) {
        let _ = self.0.clock.set(clock);
        self.change(|_| {});
    }

    /// True if this adit may serve at `now`.
    #[inline]
    pub(crate) fn allows(&self, now: Nanos) -> bool {
        now.0 < self.0.until.load(Ordering::Relaxed)
    }

    /// Notes that no other process has the lease of the store before `until`.
    pub(crate) fn note_store(&self, until: Option<Instant>) {
        self.change(|state| state.store = until);
    }

    /// Notes that the standby has promised not to take over before `until`.
    pub(crate) fn note_standby(&self, until: Option<Instant>) {
        self.change(|state| state.standby = until);
    }

    /// Stops serving until the store or the standby confirms the lease: another station uses an
    /// address of this adit, and it is not known who has the lease. Does nothing without
    /// `[standby]`.
    pub(crate) fn distrust(&self) {
        self.change(|state| state.distrusted = state.length.map(|_| Instant::now()));
    }

    /// Stops serving for good. Does nothing without `[standby]`.
    pub(crate) fn end(&self) {
        self.change(|state| state.is_over = state.length.is_some());
    }

    /// Counts packets that were discarded because this adit was not allowed to serve.
    pub(crate) fn count_discarded(&self, packets: usize) {
        let packets = u64::try_from(packets).unwrap_or(u64::MAX);
        self.0.discarded_pkts.fetch_add(packets, Ordering::Relaxed);
    }

    /// Packets that were discarded so far because this adit was not allowed to serve.
    pub(crate) fn discarded_pkts(&self) -> u64 {
        self.0.discarded_pkts.load(Ordering::Relaxed)
    }

    fn change(&self, change: impl FnOnce(&mut ServingLeaseState)) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state);
        // Before the threads start there is no clock, and nobody serves.
        let clock = self.0.clock.get();
        let now = clock.map_or(Nanos(0), ProcessClock::now);
        self.0.until.store(state.until(now, Instant::now()), Ordering::Relaxed);
    }
}

impl ServingLeaseState {
    /// Returns the time until which this adit may serve, by the clock that shows `now`.
    fn until(&mut self, now: Nanos, instant: Instant) -> u64 {
        let Some(length) = self.length else { return u64::MAX };
        if self.is_over {
            return 0;
        }
        let confirmed = self.store.max(self.standby);
        if let Some(since) = self.distrusted {
            // Earlier confirmations may be older than the conflict.
            if confirmed.is_none_or(|until| until < since + length) {
                return 0;
            }
            self.distrusted = None;
        }
        if self.is_unlimited {
            return u64::MAX;
        }
        let ends = confirmed.and_then(|until| until.checked_sub(length / MARGIN_DIVISOR));
        let left = ends.map_or(Duration::ZERO, |ends| ends.saturating_duration_since(instant));
        match u64::try_from(left.as_nanos()) {
            Ok(0) => 0,
            Ok(left) => now.0.saturating_add(left),
            Err(_) => u64::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(2);

    fn limited(is_unlimited: bool) -> ServingLeaseState {
        ServingLeaseState {
            length: Some(LEASE),
            is_unlimited,
            store: None,
            standby: None,
            distrusted: None,
            is_over: false,
        }
    }

    #[test]
    fn time_ends_before_the_lease_does() {
        let (mut state, now) = (limited(false), Instant::now());
        assert_eq!(state.until(Nanos::from_secs(7), now), 0, "nobody has confirmed it");
        state.store = Some(now + LEASE);
        let wanted = Nanos::from_millis(7000 + 1750).0;
        assert_eq!(state.until(Nanos::from_secs(7), now), wanted);
        assert_eq!(state.until(Nanos::from_secs(9), now + LEASE), 0);
    }

    #[test]
    fn word_of_the_standby_counts_while_the_store_is_away() {
        let (mut state, now) = (limited(false), Instant::now());
        state.store = Some(now);
        state.standby = Some(now + LEASE);
        assert_eq!(state.until(Nanos(0), now), Nanos::from_millis(1750).0);
    }

    #[test]
    fn conflict_stops_until_a_later_prolongation() {
        for is_unlimited in [false, true] {
            let (mut state, now) = (limited(is_unlimited), Instant::now());
            state.store = Some(now + LEASE);
            state.distrusted = Some(now + Duration::from_millis(1));
            assert_eq!(state.until(Nanos(0), now), 0);
            state.store = Some(now + LEASE + Duration::from_millis(2));
            assert!(state.until(Nanos(0), now) > 0);
            assert_eq!(state.distrusted, None);
        }
    }

    #[test]
    fn time_has_no_limit_without_a_standby_and_where_isolation_does_not_matter() {
        let (mut state, now) = (limited(true), Instant::now());
        assert_eq!(state.until(Nanos(0), now), u64::MAX);
        state.is_over = true;
        assert_eq!(state.until(Nanos(0), now), 0, "the lease is about to be given back");
        let alone = ServingLease::unlimited();
        alone.distrust();
        alone.end();
        assert!(alone.allows(Nanos::from_secs(1 << 30)), "there is nobody else");
    }

    #[test]
    fn steps_after_the_end_are_not_allowed() {
        let lease = ServingLease::with_length(Some(LEASE), false);
        assert!(!lease.allows(Nanos(0)));
        let clock = ProcessClock::new(1_000_000_000);
        lease.set_clock(clock);
        lease.note_store(Some(Instant::now() + LEASE));
        let now = clock.now();
        assert!(lease.allows(now));
        assert!(!lease.allows(now + Nanos::from_secs(2)));
        lease.end();
        assert!(!lease.allows(now));
    }
}
