//! The process's monotonic clock: the time stamp counter, scaled.

use std::time::{SystemTime, UNIX_EPOCH};

use adit_types::Nanos;

/// Seconds from the epoch of NTP (1900-01-01) to that of Unix (1970-01-01). Spec: RFC 5905 §6.
pub(crate) const NTP_UNIX_OFFSET_S: u64 = 2_208_988_800;

/// Fraction bits of the scale. 40 bits keep the error below 10 ns per hour at common frequencies.
const SCALE_BITS: u32 = 40;

/// A clock that every thread can read without a system call. It starts at zero.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessClock {
    base: u64,
    /// Nanoseconds per tick, times 2^[`SCALE_BITS`].
    scale: u64,
}

impl ProcessClock {
    /// Starts a clock on a counter with `tsc_hz` ticks per second.
    #[must_use]
    pub(crate) fn new(tsc_hz: u64) -> Self {
        Self { base: adit_dpdk::tsc(), scale: scale(tsc_hz) }
    }

    /// Starts a clock that shows `at` now, which continues the clock of a previous process.
    #[must_use]
    pub(crate) fn resumed(tsc_hz: u64, at: Nanos) -> Self {
        let ticks = u128::from(at.0) * u128::from(tsc_hz) / 1_000_000_000;
        let ticks = u64::try_from(ticks).unwrap_or_default();
        Self { base: adit_dpdk::tsc().wrapping_sub(ticks), scale: scale(tsc_hz) }
    }

    /// Returns the time since the clock's start.
    #[inline]
    #[must_use]
    pub(crate) fn now(&self) -> Nanos {
        self.at(adit_dpdk::tsc())
    }

    /// Returns the time of day at which this clock showed zero; `None` if it is unknown. The result
    /// changes over time by the drift between the two clocks. Unit: nanoseconds since 1900-01-01
    /// 00:00 UTC.
    #[must_use]
    pub(crate) fn time_of_day_at_zero(&self) -> Option<u64> {
        time_of_day()?.checked_sub(self.now().0)
    }

    #[inline]
    fn at(&self, ticks: u64) -> Nanos {
        let ticks = u128::from(ticks.wrapping_sub(self.base));
        let ns = (ticks * u128::from(self.scale)) >> SCALE_BITS;
        Nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

/// Returns the time of day; `None` before 1970. Unit: nanoseconds since 1900-01-01 00:00 UTC.
pub(crate) fn time_of_day() -> Option<u64> {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    Some(u64::try_from(unix.as_nanos()).ok()? + NTP_UNIX_OFFSET_S * 1_000_000_000)
}

fn scale(tsc_hz: u64) -> u64 {
    let scale = (1_000_000_000u128 << SCALE_BITS) / u128::from(tsc_hz.max(1));
    u64::try_from(scale).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_become_nanoseconds_at_the_given_frequency() {
        let clock = ProcessClock { base: 1000, scale: scale(2_600_000_000) };
        let hour = clock.at(1000 + 2_600_000_000 * 3600);
        assert!(Nanos::from_secs(3600).since(hour) < Nanos(10), "{hour:?}");
    }
}
