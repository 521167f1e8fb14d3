//! The schedule of an open loop: when each packet is due, whatever happened to those before it.

/// Fraction bits of a time in the schedule.
const FRACTION_BITS: u32 = 16;

/// How fast packets are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rate {
    /// Packets per second.
    Pps(u64),
    /// As fast as the port takes them; each is intended when it is sent.
    Max,
}

/// When packets of one stream are due.
///
/// Invariant: due times never depend on how late packets were sent.
#[derive(Debug, Clone)]
pub struct Schedule {
    start: u64,
    /// Due time of the next packet after `start`. Unit: 2^-16 ticks.
    next: u64,
    /// Time between packets, zero for [`Rate::Max`]. Unit: 2^-16 ticks.
    interval: u64,
    /// No packet is due at or after this. Unit: 2^-16 ticks after `start`.
    end: u64,
}

impl Schedule {
    /// A schedule of `duration` ticks from `start` on, for a clock of `hz`. A rate of zero has no
    /// packet.
    #[must_use]
    pub fn new(rate: Rate, hz: u64, start: u64, duration: u64) -> Self {
        let end = duration << FRACTION_BITS;
        let interval = match rate {
            Rate::Max => 0,
            Rate::Pps(0) => u64::MAX,
            // Rounded, never zero: at least one packet in 2^16 of a tick.
            Rate::Pps(pps) => (((hz << FRACTION_BITS) + pps / 2) / pps).max(1),
        };
        let next = if rate == Rate::Pps(0) { end } else { 0 };
        Self { start, next, interval, end }
    }

    /// The intended time of the next packet that is due at `now`, or `None` when none is.
    #[inline]
    pub fn take_due(&mut self, now: u64) -> Option<u64> {
        let elapsed = now.saturating_sub(self.start) << FRACTION_BITS;
        if self.interval == 0 {
            return (now >= self.start && elapsed < self.end).then_some(now);
        }
        if self.next > elapsed || self.next >= self.end || now < self.start {
            return None;
        }
        let intended = self.start + (self.next >> FRACTION_BITS);
        self.next = self.next.saturating_add(self.interval);
        Some(intended)
    }

    /// Gives up packets that are due longer than `late_max` ticks; returns how many.
    pub fn skip_late(&mut self, now: u64, late_max: u64) -> u64 {
        let elapsed = now.saturating_sub(self.start) << FRACTION_BITS;
        let limit = elapsed.saturating_sub(late_max << FRACTION_BITS).min(self.end);
        if self.interval == 0 || self.next >= limit {
            return 0;
        }
        let count = (limit - self.next).div_ceil(self.interval);
        self.next = self.next.saturating_add(count.saturating_mul(self.interval));
        count
    }

    /// True for [`Rate::Max`].
    #[must_use]
    pub fn is_unpaced(&self) -> bool {
        self.interval == 0
    }

    /// True when nothing will be due any more.
    #[must_use]
    pub fn is_over(&self, now: u64) -> bool {
        if self.interval == 0 {
            return now.saturating_sub(self.start) << FRACTION_BITS >= self.end;
        }
        self.next >= self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HZ: u64 = 2_600_000_000;

    fn due(schedule: &mut Schedule, now: u64) -> Vec<u64> {
        std::iter::from_fn(|| schedule.take_due(now)).collect()
    }

    #[test]
    fn packets_keep_their_intended_time_however_late_they_are_asked_for() {
        let mut schedule = Schedule::new(Rate::Pps(1_000_000), HZ, 1000, HZ);
        assert!(due(&mut schedule, 999).is_empty());
        assert_eq!(due(&mut schedule, 1000 + 2 * 2600), [1000, 3600, 6200]);
        assert!(due(&mut schedule, 1000 + 3 * 2600 - 1).is_empty());
    }

    #[test]
    fn odd_rate_gives_its_number_of_packets_in_a_second() {
        for pps in [1, 7, 999_983, 12_345_678, 40_000_001] {
            let mut schedule = Schedule::new(Rate::Pps(pps), HZ, 0, HZ);
            let mut count = 0u64;
            while schedule.take_due(HZ).is_some() {
                count += 1;
            }
            assert!(count.abs_diff(pps) <= 1 + pps / 1_000_000, "{pps}: {count}");
            assert!(schedule.is_over(HZ));
        }
    }

    #[test]
    fn late_packets_are_given_up_and_counted() {
        let mut schedule = Schedule::new(Rate::Pps(1_000_000), HZ, 0, HZ);
        assert_eq!(schedule.skip_late(2600 * 100, 2600 * 10), 90);
        assert_eq!(due(&mut schedule, 2600 * 100).first(), Some(&(90 * 2600)));
        assert_eq!(schedule.skip_late(2600 * 100, 2600 * 10), 0);
        // Nothing beyond the end is given up.
        assert_eq!(schedule.skip_late(HZ * 9, 0) + 101, 1_000_000);
    }

    #[test]
    fn maximum_rate_is_due_now_until_the_end_and_zero_never() {
        let mut schedule = Schedule::new(Rate::Max, HZ, 10, 100);
        assert_eq!(schedule.take_due(109), Some(109));
        assert_eq!(schedule.take_due(110), None);
        assert!(schedule.is_over(110));
        let mut none = Schedule::new(Rate::Pps(0), HZ, 10, 100);
        assert_eq!(none.take_due(50), None);
        assert!(none.is_over(50));
    }
}
