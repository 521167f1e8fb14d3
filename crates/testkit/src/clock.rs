//! A clock that moves only when a test advances it.

use adit_types::Nanos;

/// Virtual time of a simulation. It starts at zero and never goes back.
#[derive(Debug, Clone, Default)]
pub struct SteppedClock {
    now: Nanos,
}

impl SteppedClock {
    /// Creates a clock at zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the current time.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Advances the clock by `span`.
    pub fn advance(&mut self, span: Nanos) {
        self.now += span;
    }

    /// Advances the clock to `instant`. Does nothing if that is in the past.
    pub fn advance_to(&mut self, instant: Nanos) {
        self.now = self.now.max(instant);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_advanced_to_the_past_stays() {
        let mut clock = SteppedClock::new();
        clock.advance(Nanos(5));
        clock.advance_to(Nanos(3));
        assert_eq!(clock.now(), Nanos(5));
        clock.advance_to(Nanos(9));
        assert_eq!(clock.now(), Nanos(9));
    }
}
