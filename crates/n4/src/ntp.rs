//! Converts between the node's monotonic clock and the time of day.
//!
//! PFCP encodes times as seconds since 1900-01-01 (NTP) in 32 bits, which wrap in 2036. A received
//! value stands for the nearest such time. Spec: TS 29.244 §8.2.15; RFC 5905 §6.

use adit_types::Nanos;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Time of day when the monotonic clock is zero. Unit: nanoseconds since 1900-01-01.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NtpClock(u64);

impl NtpClock {
    /// Creates a clock whose zero is `seconds` after 1900-01-01.
    pub(crate) fn from_seconds(seconds: u32) -> Self {
        Self(u64::from(seconds) * NANOS_PER_SECOND)
    }

    /// Creates a clock whose zero is `nanoseconds` after 1900-01-01.
    pub(crate) const fn from_nanos(nanoseconds: u64) -> Self {
        Self(nanoseconds)
    }

    /// Returns the time of day at `at`. Unit: seconds, the low 32 bits.
    pub(crate) fn seconds(self, at: Nanos) -> u32 {
        let seconds = self.0.saturating_add(at.0) / NANOS_PER_SECOND;
        #[allow(clippy::cast_possible_truncation, reason = "the era is not transmitted")]
        let low = (seconds & 0xffff_ffff) as u32;
        low
    }

    /// Returns the time of day at `at` as a 64-bit time stamp: seconds and a fraction of 32 bits.
    pub(crate) fn time_stamp(self, at: Nanos) -> u64 {
        let below = self.0.saturating_add(at.0) % NANOS_PER_SECOND;
        (u64::from(self.seconds(at)) << 32) | ((below << 32) / NANOS_PER_SECOND)
    }

    /// Converts a 64-bit time stamp to monotonic time, rounded up to a second; `now` if it is past.
    pub(crate) fn instant_of_time_stamp(self, now: Nanos, time_stamp: u64) -> Nanos {
        #[allow(clippy::cast_possible_truncation, reason = "the upper half of 64 bits")]
        let seconds = (time_stamp >> 32) as u32;
        let above = u32::from(time_stamp & u64::from(u32::MAX) != 0);
        self.instant(now, seconds.wrapping_add(above))
    }

    /// Converts a time of day to monotonic time; `now` if it is past.
    pub(crate) fn instant(self, now: Nanos, ntp: u32) -> Nanos {
        let ahead = ntp.wrapping_sub(self.seconds(now));
        if ahead == 0 || ahead > u32::MAX / 2 {
            return now;
        }
        let second = self.0.saturating_add(now.0) / NANOS_PER_SECOND + u64::from(ahead);
        Nanos(second.saturating_mul(NANOS_PER_SECOND).saturating_sub(self.0))
    }
}

/// True if `seen` is later than `known`; handles the wrap of NTP seconds in 2036.
pub(crate) fn is_newer(seen: u32, known: u32) -> bool {
    let ahead = seen.wrapping_sub(known);
    ahead != 0 && ahead < 1 << 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moment_of_a_time_of_day_is_the_nearest_ahead_and_never_before_now() {
        let ntp_clock = NtpClock::from_nanos(10 * NANOS_PER_SECOND + 1);
        let now = Nanos(5 * NANOS_PER_SECOND);
        assert_eq!(ntp_clock.seconds(now), 15);
        assert_eq!(ntp_clock.instant(now, 17), Nanos(7 * NANOS_PER_SECOND - 1));
        assert_eq!(ntp_clock.seconds(ntp_clock.instant(now, 17)), 17);
        assert_eq!(ntp_clock.instant(now, 15), now);
        assert_eq!(ntp_clock.instant(now, 3), now);
        let stamp = ntp_clock.time_stamp(Nanos(NANOS_PER_SECOND / 2));
        assert_eq!(stamp >> 28, 10 << 4 | 8, "half a second");
        assert_eq!(ntp_clock.instant_of_time_stamp(Nanos(0), stamp), Nanos(NANOS_PER_SECOND - 1));
        assert_eq!(ntp_clock.instant_of_time_stamp(now, 17 << 32), Nanos(7 * NANOS_PER_SECOND - 1));
        let late = NtpClock::from_seconds(u32::MAX);
        assert_eq!(
            late.instant(Nanos(0), 1),
            Nanos(2 * NANOS_PER_SECOND),
            "over the end of the era"
        );
    }

    #[test]
    fn later_time_stamp_is_newer_across_the_wrap() {
        assert!(is_newer(2, 1));
        assert!(!is_newer(1, 1));
        assert!(!is_newer(1, 2));
        assert!(is_newer(5, u32::MAX));
    }
}
