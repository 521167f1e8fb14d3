//! The schedule of an open loop: the due time of each packet is independent of earlier packets.

use super::clock::{NS_PER_S, scaled};

/// Number of fraction bits of a time in the schedule: the unit is 2^-16 ticks.
const FRACTION_BITS: u32 = 16;

/// The rate of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfferedRate {
    /// Packets per second.
    Pps(u64),
    /// As fast as the port accepts them. The intended time of a packet is its send time.
    Max,
}

/// A rate and its duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateStep {
    /// The rate of packets.
    pub rate: OfferedRate,
    /// Duration, cut at the end of the trial. Unit: ns.
    pub ns: u64,
}

impl RateStep {
    /// Returns the steps for one rate until the end of the trial.
    #[must_use]
    pub fn always(rate: OfferedRate) -> Vec<Self> {
        vec![Self { rate, ns: u64::MAX }]
    }
}

/// Due times of the packets of one stream.
///
/// Invariant: due times never depend on how late packets were sent.
#[derive(Debug, Clone)]
pub struct Schedule {
    start: u64,
    /// Due time of the next packet, relative to `start`. Unit: 2^-16 ticks.
    next: u64,
    /// Time between packets, zero for [`OfferedRate::Max`]. Unit: 2^-16 ticks.
    interval: u64,
    /// End of this step, relative to `start`. Unit: 2^-16 ticks.
    end: u64,
    /// Interval and end of the following steps, in reverse order.
    rest: Vec<(u64, u64)>,
}

/// Interval of a step at rate zero, which sends no packets.
const NEVER: u64 = u64::MAX;

impl Schedule {
    /// Makes a schedule of `steps` for `duration` ticks from `start`, for a clock with frequency
    /// `hz`. No packet is due at rate zero or after the last step.
    #[must_use]
    pub fn new(steps: &[RateStep], hz: u64, start: u64, duration: u64) -> Self {
        let mut at = 0u64;
        let mut rest: Vec<(u64, u64)> = steps
            .iter()
            .map(|step| {
                let interval = match step.rate {
                    OfferedRate::Max => 0,
                    OfferedRate::Pps(0) => NEVER,
                    // Rounded, but at least one unit, since zero stands for `OfferedRate::Max`.
                    OfferedRate::Pps(pps) => (((hz << FRACTION_BITS) + pps / 2) / pps).max(1),
                };
                at = at.saturating_add(step.ns);
                (interval, scaled(at, hz, NS_PER_S).min(duration) << FRACTION_BITS)
            })
            .collect();
        rest.reverse();
        let mut schedule = Self { start, next: 0, interval: NEVER, end: 0, rest };
        schedule.advance_step();
        schedule
    }

    /// Advances to the next step; false if there is none.
    #[cold]
    fn advance_step(&mut self) -> bool {
        let Some((interval, end)) = self.rest.pop() else { return false };
        let next = self.next.max(self.end);
        self.next = if interval == NEVER { next.max(end) } else { next };
        (self.interval, self.end) = (interval, end);
        true
    }

    /// Takes the next packet if it is due at `now`, and returns its intended time; else `None`.
    #[inline]
    pub fn take_due(&mut self, now: u64) -> Option<u64> {
        let elapsed = now.saturating_sub(self.start) << FRACTION_BITS;
        while self.position(elapsed) >= self.end {
            if !self.advance_step() {
                return None;
            }
        }
        if self.interval == 0 {
            return (now >= self.start).then_some(now);
        }
        if self.next > elapsed || now < self.start {
            return None;
        }
        let intended = self.start + (self.next >> FRACTION_BITS);
        self.next = self.next.saturating_add(self.interval);
        Some(intended)
    }

    /// Skips packets that are late by more than `late_max` ticks. Returns how many it skipped.
    pub fn skip_late(&mut self, now: u64, late_max: u64) -> u64 {
        let elapsed = now.saturating_sub(self.start) << FRACTION_BITS;
        let limit = elapsed.saturating_sub(late_max << FRACTION_BITS);
        let mut skipped = 0;
        loop {
            let until = limit.min(self.end);
            if self.interval != 0 && self.next < until {
                let count = (until - self.next).div_ceil(self.interval);
                self.next = self.next.saturating_add(count.saturating_mul(self.interval));
                skipped += count;
            }
            if self.position(limit) < self.end || limit < self.end || !self.advance_step() {
                return skipped;
            }
        }
    }

    /// Returns the due time of the next packet or, if unpaced, `elapsed`.
    #[inline]
    fn position(&self, elapsed: u64) -> u64 {
        if self.interval == 0 { elapsed } else { self.next }
    }

    /// True while the rate is [`OfferedRate::Max`].
    #[must_use]
    pub fn is_unpaced(&self) -> bool {
        self.interval == 0
    }

    /// True if no further packet will be due.
    #[must_use]
    pub fn is_over(&self, now: u64) -> bool {
        let elapsed = now.saturating_sub(self.start) << FRACTION_BITS;
        self.position(elapsed) >= self.end && self.rest.is_empty()
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
    fn packets_keep_their_intended_time_however_late_they_are_sent() {
        let mut schedule =
            Schedule::new(&RateStep::always(OfferedRate::Pps(1_000_000)), HZ, 1000, HZ);
        assert!(due(&mut schedule, 999).is_empty());
        assert_eq!(due(&mut schedule, 1000 + 2 * 2600), [1000, 3600, 6200]);
        assert!(due(&mut schedule, 1000 + 3 * 2600 - 1).is_empty());
    }

    #[test]
    fn odd_rate_gives_its_number_of_packets_in_a_second() {
        for pps in [1, 7, 999_983, 12_345_678, 40_000_001] {
            let mut schedule = Schedule::new(&RateStep::always(OfferedRate::Pps(pps)), HZ, 0, HZ);
            let mut count = 0u64;
            while schedule.take_due(HZ).is_some() {
                count += 1;
            }
            assert!(count.abs_diff(pps) <= 1 + pps / 1_000_000, "{pps}: {count}");
            assert!(schedule.is_over(HZ));
        }
    }

    #[test]
    fn late_packets_are_skipped_and_counted() {
        let mut schedule = Schedule::new(&RateStep::always(OfferedRate::Pps(1_000_000)), HZ, 0, HZ);
        assert_eq!(schedule.skip_late(2600 * 100, 2600 * 10), 90);
        assert_eq!(due(&mut schedule, 2600 * 100).first(), Some(&(90 * 2600)));
        assert_eq!(schedule.skip_late(2600 * 100, 2600 * 10), 0);
        // Packets after the end are not skipped.
        assert_eq!(schedule.skip_late(HZ * 9, 0) + 101, 1_000_000);
    }

    #[test]
    fn maximum_rate_is_due_now_until_the_end_and_zero_never() {
        let mut schedule = Schedule::new(&RateStep::always(OfferedRate::Max), HZ, 10, 100);
        assert_eq!(schedule.take_due(109), Some(109));
        assert_eq!(schedule.take_due(110), None);
        assert!(schedule.is_over(110));
        let mut none = Schedule::new(&RateStep::always(OfferedRate::Pps(0)), HZ, 10, 100);
        assert_eq!(none.take_due(50), None);
        assert!(none.is_over(50));
    }

    #[test]
    fn steps_follow_each_other_each_with_its_rate() {
        let step = |pps, ns| RateStep { rate: OfferedRate::Pps(pps), ns };
        let steps = [step(1_000_000, 1_000_000), step(0, 2_000_000), step(500_000, 1_000_000)];
        let ms = HZ / 1000;
        let mut schedule = Schedule::new(&steps, HZ, 0, HZ);
        let times = due(&mut schedule, 10 * ms);
        let within =
            |from: u64, to: u64| times.iter().filter(|at| (from..to).contains(*at)).count();
        assert_eq!((within(0, ms), within(ms, 3 * ms), within(3 * ms, 4 * ms)), (1000, 0, 500));
        assert_eq!(times.len(), 1500);
        assert!(schedule.is_over(10 * ms));
        // Late packets of several steps are skipped in all of them.
        let mut schedule = Schedule::new(&steps, HZ, 0, HZ);
        assert_eq!(schedule.skip_late(10 * ms, ms), 1500);
        // The end of the trial cuts a step.
        let mut schedule = Schedule::new(&steps, HZ, 0, ms / 2);
        assert_eq!(due(&mut schedule, 10 * ms).len(), 500);
    }
}
