//! Quantities with their unit in the type.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};
use core::time::Duration;

/// A point on, or a span of, the monotonic clock. Unit: nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The latest representable point: "never".
    pub const NEVER: Self = Self(u64::MAX);

    /// A span of whole microseconds. Saturates.
    #[must_use]
    pub const fn from_micros(us: u64) -> Self {
        Self(us.saturating_mul(1000))
    }

    /// A span of whole milliseconds. Saturates.
    #[must_use]
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }

    /// A span of whole seconds. Saturates.
    #[must_use]
    pub const fn from_secs(s: u64) -> Self {
        Self(s.saturating_mul(1_000_000_000))
    }

    /// The span since `earlier`, zero if `earlier` lies ahead.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// Converts to a standard duration.
    #[must_use]
    pub const fn to_duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, span: Self) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Sub for Nanos {
    type Output = Self;
    fn sub(self, span: Self) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, span: Self) {
        *self = *self + span;
    }
}

/// An amount of octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct ByteCount(pub u64);

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B", self.0)
    }
}

/// A bit rate. Unit: bits per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct BitRate(u64);

impl BitRate {
    /// A rate in bits per second.
    #[must_use]
    pub const fn from_bps(bps: u64) -> Self {
        Self(bps)
    }

    /// A rate from an MBR or GBR field, whose unit is 1,000 bits per second. Saturates.
    /// Spec: TS 29.244 §8.2.8, §8.2.9.
    #[must_use]
    pub const fn from_kbps(kbps: u64) -> Self {
        Self(kbps.saturating_mul(1000))
    }

    /// The rate in bits per second.
    #[must_use]
    pub const fn as_bps(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanos_arithmetic_saturates_at_both_ends() {
        assert_eq!(Nanos::NEVER + Nanos::from_secs(1), Nanos::NEVER);
        assert_eq!(Nanos(1).since(Nanos(2)), Nanos(0));
    }

    #[test]
    fn bit_rate_counts_a_kilobit_as_a_thousand_bits() {
        assert_eq!(BitRate::from_kbps(20_000).as_bps(), 20_000_000);
    }
}
