//! Time of the engine: ticks of a counter with constant frequency.

/// A clock that counts ticks.
pub trait TickClock {
    /// Returns the current count of ticks, which never decreases on one thread.
    fn ticks(&mut self) -> u64;

    /// Returns the number of ticks per second.
    fn hz(&self) -> u64;

    /// Converts nanoseconds to ticks.
    fn ticks_of_ns(&self, ns: u64) -> u64 {
        scaled(ns, self.hz(), NS_PER_S)
    }
}

/// Nanoseconds per second.
pub const NS_PER_S: u64 = 1_000_000_000;

/// The processor's time stamp counter.
#[derive(Debug, Clone, Copy)]
pub struct TscClock {
    /// Frequency of the counter. Unit: Hz.
    pub hz: u64,
}

impl TickClock for TscClock {
    #[inline]
    fn ticks(&mut self) -> u64 {
        adit_dpdk::tsc()
    }

    fn hz(&self) -> u64 {
        self.hz
    }
}

/// Returns `value * numerator / denominator` without intermediate overflow. Saturates.
#[must_use]
pub fn scaled(value: u64, numerator: u64, denominator: u64) -> u64 {
    let wide = u128::from(value) * u128::from(numerator) / u128::from(denominator.max(1));
    u64::try_from(wide).unwrap_or(u64::MAX)
}

/// Converts `ticks` of a counter with frequency `hz` to nanoseconds.
#[must_use]
pub fn ns_of_ticks(ticks: u64, hz: u64) -> u64 {
    scaled(ticks, NS_PER_S, hz)
}

/// Returns the low 32 bits of a number.
#[inline]
#[must_use]
#[allow(clippy::cast_possible_truncation, reason = "the low half is wanted")]
pub const fn low32(value: u64) -> u32 {
    value as u32
}
