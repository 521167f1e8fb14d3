//! The wait of the scheduler thread for a TTI's uplink threads, at most until the TTI ends.

use std::collections::VecDeque;

/// When TTIs begin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TtiGrid {
    /// Start of the first TTI. Unit: ns of the clock.
    pub origin_ns: u64,
    /// Duration of a TTI. Unit: ns.
    pub tti_ns: u64,
}

impl TtiGrid {
    /// Returns the start of a TTI. Unit: ns of the clock.
    pub(crate) fn start_ns(&self, tti: u64) -> u64 {
        self.origin_ns + tti * self.tti_ns
    }

    /// Returns the end of a TTI. Unit: ns of the clock.
    pub(crate) fn end_ns(&self, tti: u64) -> u64 {
        self.start_ns(tti + 1)
    }

    /// Returns the index of the TTI at a time; zero for a time before the first TTI.
    pub(crate) fn at(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.origin_ns) / self.tti_ns.max(1)
    }
}

/// The next step of the scheduler thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SchedulerStep {
    /// Runs for this TTI.
    Run {
        /// Index of the TTI.
        tti: u64,
        /// True if the end of the TTI activates the thread, not the last uplink thread.
        timed_out: bool,
    },
    /// Waits for an uplink thread, at most until this end of the TTI. Unit: ns of the clock.
    WaitUntil(u64),
}

/// Decides when the scheduler thread runs, and for which TTI.
#[derive(Debug)]
pub(crate) struct UplinkGathering {
    cells: usize,
    grid: TtiGrid,
    /// Index of the TTI that the thread runs for next.
    tti: u64,
    /// How many uplink threads have ended, for TTI `tti` and each TTI after it.
    ended: VecDeque<usize>,
}

impl UplinkGathering {
    /// Starts before the first TTI.
    pub(crate) fn new(cells: usize, grid: TtiGrid) -> Self {
        Self { cells, grid, tti: 0, ended: VecDeque::new() }
    }

    /// Notes that an uplink thread has ended. No effect for a TTI that the scheduler thread has
    /// left behind.
    pub(crate) fn on_uplink_end(&mut self, tti: u64) {
        let Some(ahead) = tti.checked_sub(self.tti) else { return };
        // At most some TTIs ahead: a full channel drops activations.
        let Ok(ahead) = usize::try_from(ahead) else { return };
        while self.ended.len() <= ahead {
            self.ended.push_back(0);
        }
        if let Some(ended) = self.ended.get_mut(ahead) {
            *ended += 1;
        }
    }

    /// Returns the next step. Skips a TTI if by now the TTI after it has to run as well.
    pub(crate) fn next_step(&mut self, now_ns: u64) -> SchedulerStep {
        while self.has_to_run(0, now_ns) && self.has_to_run(1, now_ns) {
            self.advance();
        }
        if !self.has_to_run(0, now_ns) {
            return SchedulerStep::WaitUntil(self.grid.end_ns(self.tti));
        }
        let timed_out = !self.is_complete(0);
        let tti = self.tti;
        self.advance();
        SchedulerStep::Run { tti, timed_out }
    }

    /// Returns the next step after all uplink threads have exited; `None` if no activation is left.
    pub(crate) fn last_step(&mut self) -> Option<SchedulerStep> {
        while self.ended.front() == Some(&0) {
            self.advance();
        }
        self.ended.front()?;
        let timed_out = !self.is_complete(0);
        let tti = self.tti;
        self.advance();
        Some(SchedulerStep::Run { tti, timed_out })
    }

    fn has_to_run(&self, ahead: u8, now_ns: u64) -> bool {
        self.is_complete(ahead) || now_ns >= self.grid.end_ns(self.tti + u64::from(ahead))
    }

    fn is_complete(&self, ahead: u8) -> bool {
        self.ended.get(usize::from(ahead)).is_some_and(|ended| *ended >= self.cells)
    }

    fn advance(&mut self) {
        self.ended.pop_front();
        self.tti += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gathering() -> UplinkGathering {
        UplinkGathering::new(2, TtiGrid { origin_ns: 10_000, tti_ns: 1000 })
    }

    const fn run(tti: u64, timed_out: bool) -> SchedulerStep {
        SchedulerStep::Run { tti, timed_out }
    }

    #[test]
    fn scheduler_runs_when_the_last_uplink_thread_ends() {
        let mut gathering = gathering();
        assert_eq!(gathering.next_step(10_000), SchedulerStep::WaitUntil(11_000));
        gathering.on_uplink_end(0);
        assert_eq!(gathering.next_step(10_400), SchedulerStep::WaitUntil(11_000));
        gathering.on_uplink_end(0);
        assert_eq!(gathering.next_step(10_500), run(0, false));
        assert_eq!(gathering.next_step(10_600), SchedulerStep::WaitUntil(12_000));
    }

    #[test]
    fn end_of_the_tti_activates_the_scheduler_without_all_uplink_threads() {
        let mut gathering = gathering();
        gathering.on_uplink_end(0);
        assert_eq!(gathering.next_step(11_000), run(0, true));
        // An uplink thread that ends late has no effect on the next TTI.
        gathering.on_uplink_end(0);
        gathering.on_uplink_end(1);
        assert_eq!(gathering.next_step(11_500), SchedulerStep::WaitUntil(12_000));
        gathering.on_uplink_end(1);
        assert_eq!(gathering.next_step(11_600), run(1, false));
    }

    #[test]
    fn late_scheduler_skips_to_the_newest_tti_that_has_to_run() {
        let mut gathering = gathering();
        for tti in [0, 0, 1, 2, 1] {
            gathering.on_uplink_end(tti);
        }
        // TTI 1 has ended; TTI 2 has one uplink thread, and time.
        assert_eq!(gathering.next_step(12_300), run(1, false));
        assert_eq!(gathering.next_step(12_400), SchedulerStep::WaitUntil(13_000));
        assert_eq!(gathering.next_step(15_100), run(4, true));
    }

    #[test]
    fn after_the_last_activation_each_tti_that_has_one_runs() {
        let mut gathering = gathering();
        for tti in [0, 0, 2] {
            gathering.on_uplink_end(tti);
        }
        assert_eq!(gathering.last_step(), Some(run(0, false)));
        assert_eq!(gathering.last_step(), Some(run(2, true)));
        assert_eq!(gathering.last_step(), None);
    }

    #[test]
    fn grid_finds_the_tti_of_a_time() {
        let grid = TtiGrid { origin_ns: 10_000, tti_ns: 1000 };
        assert_eq!([0, 10_000, 10_999, 11_000].map(|now_ns| grid.at(now_ns)), [0, 0, 0, 1]);
    }
}
