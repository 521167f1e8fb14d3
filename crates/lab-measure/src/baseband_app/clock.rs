//! The monotonic clock as a number. Unit: ns.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Returns the time of the monotonic clock. Unit: ns.
#[must_use]
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let second = u64::try_from(now.tv_sec).unwrap_or(0);
    second * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// Sleeps until the monotonic clock shows `at_ns`.
pub(crate) fn sleep_until(at_ns: u64) {
    let at = Timespec {
        tv_sec: i64::try_from(at_ns / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(at_ns % 1_000_000_000).unwrap_or(0),
    };
    // A signal ends the sleep early.
    while rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &at).is_err()
        && now_ns() < at_ns
    {}
}
