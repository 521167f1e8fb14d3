//! Saturation of a worker: the share of its steps with a full burst.
//!
//! A worker polls, so its CPU time says nothing about load; full bursts show that packets wait. Each
//! worker writes one word, which the control thread reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use adit_types::Nanos;

/// Steps per reading: about 8 ms without packets, longer under load.
const TURNS: u32 = 1 << 16;

/// Approximate duration of a step without packets.
const IDLE_TURN: Nanos = Nanos(128);

/// The latest reading of a worker. Unit: percent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Saturation(Arc<AtomicU8>);

impl Saturation {
    /// The latest reading.
    pub(crate) fn percent(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The worker's side: counts steps.
#[derive(Debug)]
pub(crate) struct SaturationMeter {
    gauge: Saturation,
    turns: u32,
    full: u32,
}

impl SaturationMeter {
    pub(crate) fn new(gauge: Saturation) -> Self {
        Self { gauge, turns: 0, full: 0 }
    }

    /// Counts a step. Cost: two additions, and one store per [`TURNS`] steps.
    pub(crate) fn count_turn(&mut self, is_full: bool) {
        self.turns += 1;
        self.full += u32::from(is_full);
        self.store_reading();
    }

    /// Counts a sleep as the idle steps that it replaced.
    #[inline]
    pub(crate) fn count_sleep(&mut self, span: Nanos) {
        if span > Nanos(0) {
            let turns = u32::try_from(span.0 / IDLE_TURN.0).unwrap_or(TURNS);
            self.turns += turns.min(TURNS - self.turns);
            self.store_reading();
        }
    }

    fn store_reading(&mut self) {
        if self.turns == TURNS {
            let percent = u8::try_from(self.full * 100 / TURNS).unwrap_or(100);
            self.gauge.0.store(percent, Ordering::Relaxed);
            (self.turns, self.full) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_is_the_share_of_full_turns_and_falls_when_they_end() {
        let gauge = Saturation::default();
        let mut meter = SaturationMeter::new(gauge.clone());
        for turn in 0..TURNS {
            assert_eq!(gauge.percent(), 0);
            meter.count_turn(turn % 4 != 0);
        }
        assert_eq!(gauge.percent(), 75);
        (0..TURNS).for_each(|_| meter.count_turn(true));
        assert_eq!(gauge.percent(), 100);
        (0..TURNS).for_each(|_| meter.count_turn(false));
        assert_eq!(gauge.percent(), 0);
        (0..TURNS).for_each(|_| meter.count_turn(true));
        meter.count_sleep(Nanos::from_secs(1));
        assert_eq!(gauge.percent(), 0, "a long sleep is a reading of its own");
    }
}
