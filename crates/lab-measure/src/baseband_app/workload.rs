//! The options of a workload.

use anyhow::Result;

use adit_lab_process::stop::environment;

use crate::baseband_app::execution_time::TimeDistribution;
use crate::baseband_app::scheduling::{SchedulingPolicy, ThreadScheduling, allowed_cores};

/// Maximum number of executions that a run may record, 32 octets each.
const RECORDS_MAX: u64 = 50_000_000;
/// Share of a TTI that the I/O thread may use with SCHED_DEADLINE. Unit: percent.
const IO_PERCENT: u64 = 5;
/// CPU time that a thread may use with SCHED_DEADLINE. Unit: percent of the time of its stage.
const RUNTIME_PERCENT: u64 = 105;

/// The time of each stage. Unit: ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageTimes {
    /// The time of each uplink thread.
    pub uplink_ns: u64,
    /// The time of the scheduler thread.
    pub scheduler_ns: u64,
    /// The time of each downlink thread.
    pub downlink_ns: u64,
}

impl StageTimes {
    /// Returns the longest path through the graph: the response time without any delay. Unit: ns.
    #[must_use]
    pub fn path_ns(&self) -> u64 {
        self.uplink_ns + self.scheduler_ns + self.downlink_ns
    }
}

/// A workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// Number of cells.
    pub cells: u16,
    /// Duration of a TTI. Unit: ns.
    pub tti_ns: u64,
    /// Number of TTIs of a run.
    pub ttis: u64,
    /// Times of the stages.
    pub times: StageTimes,
    /// Distribution of the execution times.
    pub distribution: TimeDistribution,
    /// Policy of all threads.
    pub policy: SchedulingPolicy,
    /// Real-time priority with SCHED_FIFO; the I/O thread has the next higher one.
    pub priority: u8,
    /// Cores to pin threads to; empty if the kernel chooses.
    pub cores: Vec<u16>,
    /// Core of the I/O thread; `None` for the first of `cores`.
    pub io_core: Option<u16>,
    /// True if each thread has its own core-scheduling cookie.
    pub core_scheduling: bool,
    /// Seed of the execution times.
    pub seed: u64,
}

impl Workload {
    /// Refuses a workload that cannot run here.
    ///
    /// # Errors
    /// The message names the option.
    pub fn check(&self) -> Result<()> {
        let allowed = allowed_cores();
        for core in self.cores.iter().chain(&self.io_core) {
            if !allowed.contains(core) {
                let text =
                    format!("core {core}: not a core of this process, which has {allowed:?}");
                return Err(environment(text));
            }
        }
        if self.policy == SchedulingPolicy::Deadline
            && !(self.cores.is_empty() && self.io_core.is_none())
        {
            let text = "--policy deadline: the kernel does not pin such threads; leave out --cores and --io-core";
            return Err(environment(text));
        }
        let records = self.ttis.saturating_mul(u64::from(self.cells) * 2 + 2);
        if records > RECORDS_MAX {
            let text = format!(
                "{} TTIs of {} cells: a run records at most {RECORDS_MAX} executions; take a shorter duration",
                self.ttis, self.cells
            );
            return Err(environment(text));
        }
        Ok(())
    }

    /// Returns the core of an uplink thread. With twice as many cores as cells, downlink threads
    /// have their own cores.
    pub(crate) fn uplink_core(&self, cell: usize) -> Option<u16> {
        self.cores.get(cell.checked_rem(self.cores.len())?).copied()
    }

    /// Returns the core of a downlink thread.
    pub(crate) fn downlink_core(&self, cell: usize) -> Option<u16> {
        self.uplink_core(usize::from(self.cells) + cell)
    }

    /// Returns the scheduling of a thread that executes for up to `time_ns` on `core`.
    pub(crate) fn scheduling(&self, core: Option<u16>, time_ns: u64) -> ThreadScheduling {
        ThreadScheduling {
            policy: self.policy,
            priority: self.priority,
            runtime_ns: (time_ns * RUNTIME_PERCENT / 100).min(self.tti_ns),
            tti_ns: self.tti_ns,
            core,
            core_scheduling: self.core_scheduling,
        }
    }

    /// Returns the scheduling of the I/O thread. It has priority over the others, so that a late
    /// thread does not delay a TTI.
    pub(crate) fn io_scheduling(&self) -> ThreadScheduling {
        let core = self.io_core.or_else(|| self.cores.first().copied());
        let scheduling = self.scheduling(core, self.tti_ns * IO_PERCENT / 100);
        ThreadScheduling { priority: self.priority.saturating_add(1).min(99), ..scheduling }
    }
}

/// Parses a time such as `500us`, `1ms` or `10s`. Returns nanoseconds.
///
/// # Errors
/// The text is no time, or is zero or more than an hour.
pub fn time_ns(text: &str) -> Result<u64, String> {
    const HOUR_NS: u64 = 3_600_000_000_000;
    let units = [("us", 1_000u64), ("µs", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
    let number = units.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, *scale)));
    let value = number.and_then(|(number, scale)| number.parse::<u64>().ok()?.checked_mul(scale));
    value.filter(|ns| (1..=HOUR_NS).contains(ns)).ok_or_else(|| {
        format!("\"{text}\" is not a time such as 500us, 1ms or 10s, at most one hour")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload() -> Workload {
        Workload {
            cells: 2,
            tti_ns: 1_000_000,
            ttis: 100,
            times: StageTimes { uplink_ns: 500_000, scheduler_ns: 100_000, downlink_ns: 300_000 },
            distribution: TimeDistribution::Fixed,
            policy: SchedulingPolicy::Fifo,
            priority: 90,
            cores: vec![4, 5],
            io_core: None,
            core_scheduling: false,
            seed: 1,
        }
    }

    #[test]
    fn with_a_core_per_cell_its_threads_share_it_and_with_two_they_do_not() {
        let mut workload = workload();
        let cores = |workload: &Workload| {
            let [uplinks, downlinks]: [fn(&Workload, usize) -> Option<u16>; 2] =
                [Workload::uplink_core, Workload::downlink_core];
            [uplinks, downlinks].map(|core| [0, 1].map(|cell| core(workload, cell).unwrap()))
        };
        assert_eq!(cores(&workload), [[4, 5], [4, 5]]);
        workload.cores = vec![4, 5, 6, 7];
        assert_eq!(cores(&workload), [[4, 5], [6, 7]]);
        workload.cores.clear();
        assert_eq!(workload.downlink_core(1), None);
    }

    #[test]
    fn io_thread_has_a_higher_priority_and_the_first_core() {
        let mut workload = workload();
        let io = workload.io_scheduling();
        assert_eq!((io.priority, io.core, io.runtime_ns), (91, Some(4), 52_500));
        workload.io_core = Some(7);
        assert_eq!(workload.io_scheduling().core, Some(7));
        assert_eq!(workload.scheduling(None, 2_000_000).runtime_ns, 1_000_000);
    }

    #[test]
    fn workload_that_cannot_run_here_is_refused_by_option() {
        let refused = |change: fn(&mut Workload)| {
            let mut workload = Workload { cores: Vec::new(), ..workload() };
            workload.check().unwrap();
            change(&mut workload);
            workload.check().unwrap_err().to_string()
        };
        let error = refused(|workload| workload.cores = vec![9_999]);
        assert!(error.starts_with("core 9999: not a core of this process"), "{error}");
        let error = refused(|workload| {
            workload.policy = SchedulingPolicy::Deadline;
            workload.cores = vec![allowed_cores()[0]];
        });
        assert!(error.starts_with("--policy deadline: "), "{error}");
        let error = refused(|workload| workload.ttis = 10_000_000);
        assert!(error.contains("take a shorter duration"), "{error}");
    }

    #[test]
    fn times_have_a_unit() {
        assert_eq!(time_ns("500us"), Ok(500_000));
        assert_eq!(time_ns("500µs"), Ok(500_000));
        assert_eq!(time_ns("1ms"), Ok(1_000_000));
        assert_eq!(time_ns("3600s"), Ok(3_600_000_000_000));
        for text in ["", "5", "0us", "3601s", "1.5ms", "-1ms", "ms", "99999999999999999999s"] {
            assert!(time_ns(text).is_err(), "{text}");
        }
    }
}
