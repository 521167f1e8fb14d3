//! How long a lease has not been prolonged, by the clock of the process that looks at it.

use std::time::{Duration, Instant};

/// A lease as a server shows it at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeaseSight {
    /// Who holds it.
    pub(crate) holder: String,
    /// How long it is, as its holder wrote.
    pub(crate) lease_ms: Option<u64>,
    pub(crate) epoch: u64,
    /// Grows whenever the holder writes or prolongs the lease.
    pub(crate) beat: u64,
    /// For a holder of release 0.1.0: the time to live of its key, which grows when it prolongs the
    /// lease.
    pub(crate) former_left_ms: Option<u64>,
}

/// Measures on one connection for how long a lease stays as it is.
///
/// No clock of a server or of another host counts: a lease is over when its holder did not prolong
/// it for its whole length.
#[derive(Debug, Default)]
pub(crate) struct LeaseClock {
    /// The last look, and when that lease is over unless it changes.
    seen: Option<(LeaseSight, Instant)>,
    /// How often the holder was seen to prolong it.
    renewals: u64,
}

impl LeaseClock {
    /// Begins anew: on another connection, or while too few replicas follow the server, the state
    /// of the holder is unknown.
    pub(crate) fn reset(&mut self) {
        self.seen = None;
    }

    /// Notes a look that has ended now, and returns how much of the lease is left at least.
    pub(crate) fn note(
        &mut self,
        sight: LeaseSight,
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

    /// Epoch and beat of a lease that has not been prolonged for its whole length.
    pub(crate) fn ended(&self, now: Instant) -> Option<(u64, u64)> {
        let (sight, over_at) = self.seen.as_ref()?;
        (now >= *over_at).then_some((sight.epoch, sight.beat))
    }

    pub(crate) const fn renewals(&self) -> u64 {
        self.renewals
    }
}

/// The holder has not prolonged the lease between two looks.
fn is_unchanged(before: &LeaseSight, after: &LeaseSight) -> bool {
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

    fn sight(beat: u64) -> LeaseSight {
        LeaseSight {
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
        // Each sign of life begins it anew.
        assert_eq!(clock.note(sight(2), at(999), LEASE), Duration::from_millis(1000));
        assert_eq!((clock.ended(at(1500)), clock.renewals()), (None, 1));
        assert_eq!(clock.ended(at(1999)), Some((3, 2)));
        // Nothing has been read on another connection.
        clock.reset();
        assert_eq!(clock.ended(at(5000)), None);
        assert_eq!(clock.note(sight(2), at(5000), LEASE), Duration::from_millis(1000));
    }

    #[test]
    fn holder_of_the_former_release_is_alive_while_its_time_to_live_grows() {
        let (mut clock, zero) = (LeaseClock::default(), Instant::now());
        let look = |left| LeaseSight { lease_ms: None, former_left_ms: Some(left), ..sight(0) };
        // Whatever the server's clock says, it ends after a lease of the reader's.
        assert_eq!(clock.note(look(120_000), zero, LEASE), LEASE);
        let later = zero + Duration::from_millis(500);
        assert_eq!(clock.note(look(119_500), later, LEASE), Duration::from_millis(1500));
        assert_eq!(clock.note(look(119_900), later, LEASE), LEASE);
        assert_eq!(clock.ended(later + LEASE), Some((3, 0)));
    }
}
