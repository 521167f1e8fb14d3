//! The Recovery Time Stamp of this process.
//!
//! The stamp counts whole seconds, so peers could not distinguish two starts within one second.
//! adit therefore uses the next second and answers no peer before it begins. A later process starts
//! after the last answer of this one, so it uses a later second.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;

use crate::clock::NTP_UNIX_OFFSET_S;

/// The time at which this process starts to serve. Spec: TS 29.244 §8.2.65, TS 29.281 §8.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecoveryTime {
    /// Unit: seconds since 1970-01-01 00:00 UTC.
    unix_s: u64,
}

impl RecoveryTime {
    /// Returns the next full second.
    ///
    /// # Errors
    /// The system's clock is before 1970.
    pub(crate) fn next() -> anyhow::Result<Self> {
        Ok(Self::after(unix_now()?))
    }

    const fn after(unix_now: Duration) -> Self {
        Self { unix_s: unix_now.as_secs() + 1 }
    }

    /// Seconds since 1900-01-01 00:00 UTC, modulo 2^32. Spec: RFC 5905 §6.
    #[must_use]
    pub(crate) fn time_stamp(self) -> u32 {
        let ntp_s = (self.unix_s + NTP_UNIX_OFFSET_S) & u64::from(u32::MAX);
        u32::try_from(ntp_s).unwrap_or_default()
    }

    /// Returns the time until the second begins; at most one second, even if the system's clock
    /// jumps.
    fn left(self, unix_now: Duration) -> Duration {
        Duration::from_secs(self.unix_s).saturating_sub(unix_now).min(Duration::from_secs(1))
    }

    /// Waits until the second has begun.
    ///
    /// # Errors
    /// The system's clock is before 1970.
    pub(crate) fn wait(self) -> anyhow::Result<()> {
        std::thread::sleep(self.left(unix_now()?));
        Ok(())
    }
}

fn unix_now() -> anyhow::Result<Duration> {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .context("the system's clock is before 1970; set it, then start again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_after_the_last_answer_has_a_later_time_stamp() {
        for (start_ms, last_answer_ms) in [(10_200, 11_000), (10_999, 11_001), (11_000, 12_000)] {
            let first = RecoveryTime::after(Duration::from_millis(start_ms));
            let answered = Duration::from_millis(last_answer_ms);
            assert_eq!(first.left(answered), Duration::ZERO, "it may answer by then");
            let second = RecoveryTime::after(answered);
            assert_eq!(second.time_stamp(), first.time_stamp() + 1);
        }
    }

    #[test]
    fn nothing_is_answered_before_the_second_begins() {
        let recovery = RecoveryTime::after(Duration::from_millis(10_250));
        assert_eq!(recovery.left(Duration::from_millis(10_250)), Duration::from_millis(750));
        assert_eq!(recovery.left(Duration::from_millis(11_000)), Duration::ZERO);
        assert_eq!(recovery.left(Duration::ZERO), Duration::from_secs(1), "the clock was set back");
    }
}
