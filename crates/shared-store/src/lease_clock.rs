//! Measures how long a lease has not been prolonged, by the clock of the process that watches it.

use std::time::{Duration, Instant};

/// A lease as a server shows it at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeaseReading {
    /// Name of the process that holds the lease.
    pub(crate) holder: String,
    /// The length of the lease, as its holder wrote it. `None` for a holder of release 0.1.0.
    pub(crate) lease_ms: Option<u64>,
    pub(crate) epoch: u64,
    /// A counter that the server increments when the holder writes or prolongs the lease.
    pub(crate) beat: u64,
    /// For a holder of release 0.1.0: the time to live of its lease key, which grows when the
    /// holder prolongs the lease.
    pub(crate) former_left_ms: Option<u64>,
}

/// Measures, on one connection, for how long a lease remains unchanged.
///
/// It uses no clock of a server or of another host: a lease is over once it has been unchanged for
/// its whole length.
#[derive(Debug, Default)]
pub(crate) struct LeaseClock {
    /// The lease as last read, and when it is over unless it changes.
    seen: Option<(LeaseReading, Instant)>,
    /// How often the lease was seen to be prolonged.
    renewals: u64,
}

impl LeaseClock {
    /// Forgets the lease: on another connection, or while too few replicas follow the server, the
    /// server may not show what the holder does.
    pub(crate) fn reset(&mut self) {
        self.seen = None;
    }

    /// Takes in what the server showed just now, and returns the least time that the lease still
    /// runs. `own_lease`: the length to assume if the holder wrote none.
    pub(crate) fn note(
        &mut self,
        sight: LeaseReading,
        now: Instant,
        own_lease: Duration,
    ) -> Duration {
        let length = sight.lease_ms.map_or(own_lease, Duration::from_millis);
        let over_at = match &mut self.seen {
            Some((seen, over_at)) if is_unchanged(seen, &sight) => {
                seen.former_left_ms = sight.former_left_ms;
                *over_at
            }
            seen => {
                self.renewals += u64::from(seen.is_some());
                seen.insert((sight, now + length)).1
            }
        };
        over_at.saturating_duration_since(now)
    }

    /// Returns the epoch and the beat of the lease if it has not been prolonged for its whole
    /// length.
    pub(crate) fn ended(&self, now: Instant) -> Option<(u64, u64)> {
        let (sight, over_at) = self.seen.as_ref()?;
        (now >= *over_at).then_some((sight.epoch, sight.beat))
    }

    pub(crate) const fn renewals(&self) -> u64 {
        self.renewals
    }
}

/// True if the holder has not prolonged the lease between two readings.
fn is_unchanged(before: &LeaseReading, after: &LeaseReading) -> bool {
    let is_prolonged = match (before.former_left_ms, after.former_left_ms) {
        (Some(before), Some(after)) => after > before,
        (before, after) => before.is_some() != after.is_some(),
    };
    (before.epoch, before.beat, &before.holder) == (after.epoch, after.beat, &after.holder)
        && !is_prolonged
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(2);

    fn sight(beat: u64) -> LeaseReading {
        LeaseReading {
            holder: "a/1".to_owned(),
            lease_ms: Some(1000),
            epoch: 3,
            beat,
            former_left_ms: None,
        }
    }

    #[test]
    fn lease_is_over_when_it_stays_as_it_is_for_its_whole_length() {
        let (mut clock, zero) = (LeaseClock::default(), Instant::now());
        let at = |ms| zero + Duration::from_millis(ms);
        assert_eq!(clock.note(sight(1), at(0), LEASE), Duration::from_millis(1000));
        assert_eq!(clock.note(sight(1), at(400), LEASE), Duration::from_millis(600));
        assert_eq!(clock.ended(at(999)), None);
        // Each prolongation restarts the clock.
        assert_eq!(clock.note(sight(2), at(999), LEASE), Duration::from_millis(1000));
        assert_eq!((clock.ended(at(1500)), clock.renewals()), (None, 1));
        assert_eq!(clock.ended(at(1999)), Some((3, 2)));
        // After a reset no lease is known.
        clock.reset();
        assert_eq!(clock.ended(at(5000)), None);
        assert_eq!(clock.note(sight(2), at(5000), LEASE), Duration::from_millis(1000));
    }

    #[test]
    fn holder_of_the_former_release_is_alive_while_its_time_to_live_grows() {
        let (mut clock, zero) = (LeaseClock::default(), Instant::now());
        let look = |left| LeaseReading { lease_ms: None, former_left_ms: Some(left), ..sight(0) };
        // The time to live is not used as a length: the lease ends after this process's own length.
        assert_eq!(clock.note(look(120_000), zero, LEASE), LEASE);
        let later = zero + Duration::from_millis(500);
        assert_eq!(clock.note(look(119_500), later, LEASE), Duration::from_millis(1500));
        assert_eq!(clock.note(look(119_900), later, LEASE), LEASE);
        assert_eq!(clock.ended(later + LEASE), Some((3, 0)));
    }
}
