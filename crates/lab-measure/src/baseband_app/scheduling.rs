//! Scheduling policy, core and core-scheduling cookie of a thread.

use std::fmt;

use anyhow::Result;
use clap::ValueEnum;
use rustix::io::Errno;
use rustix::thread::{
    CoreSchedulingScope, CpuSet, create_core_scheduling_cookie, gettid, sched_getaffinity,
    sched_setaffinity,
};

use adit_lab_process::stop::environment;

use crate::baseband_app::sched_attributes::{self, SchedAttributes};

/// How the kernel schedules the threads of the workload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum SchedulingPolicy {
    /// SCHED_FIFO: before all threads without real-time priority.
    #[default]
    Fifo,
    /// SCHED_DEADLINE: a share of the CPU time in each TTI. Not with pinned threads.
    Deadline,
    /// SCHED_OTHER, as any program.
    Other,
}

impl fmt::Display for SchedulingPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Fifo => "SCHED_FIFO",
            Self::Deadline => "SCHED_DEADLINE",
            Self::Other => "SCHED_OTHER",
        })
    }
}

/// The scheduling of one thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ThreadScheduling {
    pub policy: SchedulingPolicy,
    /// Priority with SCHED_FIFO.
    pub priority: u8,
    /// With SCHED_DEADLINE: CPU time in each TTI. Unit: ns.
    pub runtime_ns: u64,
    /// Duration of a TTI. Unit: ns.
    pub tti_ns: u64,
    /// The only core of the thread; `None` for any.
    pub core: Option<u16>,
    /// True to share a physical core with no other thread.
    pub core_scheduling: bool,
}

impl ThreadScheduling {
    /// Applies the scheduling to the calling thread.
    ///
    /// # Errors
    /// The kernel refuses; the error names the missing permission or setting.
    pub(crate) fn apply(&self) -> Result<()> {
        if let Some(core) = self.core {
            pin(&[core])?;
        }
        if self.core_scheduling {
            create_core_scheduling_cookie(gettid(), CoreSchedulingScope::Thread).map_err(
                |errno| {
                    environment(format!(
                        "core scheduling: {errno}; it needs a kernel with CONFIG_SCHED_CORE and cores with siblings"
                    ))
                },
            )?;
        }
        self.apply_policy()
    }

    fn apply_policy(&self) -> Result<()> {
        let attributes = match self.policy {
            SchedulingPolicy::Other => return Ok(()),
            SchedulingPolicy::Fifo => SchedAttributes {
                policy: libc::SCHED_FIFO.unsigned_abs(),
                priority: self.priority.into(),
                ..SchedAttributes::default()
            },
            SchedulingPolicy::Deadline => SchedAttributes {
                policy: libc::SCHED_DEADLINE.unsigned_abs(),
                runtime_ns: self.runtime_ns,
                period_ns: self.tti_ns,
                ..SchedAttributes::default()
            },
        };
        sched_attributes::set(attributes).map_err(|errno| {
            let reason = refusal(self.policy, errno);
            environment(format!("{}: {errno}; {reason}", self.policy))
        })
    }
}

/// Returns the permission or setting that a refused policy needs.
fn refusal(policy: SchedulingPolicy, errno: Errno) -> &'static str {
    match (policy, errno) {
        (SchedulingPolicy::Deadline, Errno::BUSY) => {
            "the threads need more CPU time than the kernel grants to it: take fewer cells or shorter times"
        }
        (SchedulingPolicy::Deadline, Errno::INVAL) => {
            "the kernel takes no such times: see /proc/sys/kernel/sched_deadline_period_min_us"
        }
        (SchedulingPolicy::Deadline, _) => {
            "it needs root or CAP_SYS_NICE, and a process that may use all cores of the machine"
        }
        _ => "it needs root, CAP_SYS_NICE, or RLIMIT_RTPRIO; --policy other needs nothing",
    }
}

/// Restricts the calling thread to `cores`.
///
/// # Errors
/// This process may run on none of them.
pub(crate) fn pin(cores: &[u16]) -> Result<()> {
    let mut set = CpuSet::new();
    for core in cores.iter().filter(|core| usize::from(**core) < CpuSet::MAX_CPU) {
        set.set(usize::from(*core));
    }
    sched_setaffinity(None, &set).map_err(|errno| {
        environment(format!("cores {cores:?}: {errno}; this process cannot run there"))
    })
}

/// Runs `body` on `cores`, and then restores the cores of the calling thread. Child processes that
/// `body` starts stay on `cores`.
///
/// # Errors
/// See [`pin`]; `body` fails.
pub(crate) fn on_cores<T>(cores: &[u16], body: impl FnOnce() -> Result<T>) -> Result<T> {
    let before = sched_getaffinity(None)
        .map_err(|errno| environment(format!("read the cores of this thread: {errno}")))?;
    pin(cores)?;
    let result = body();
    sched_setaffinity(None, &before)
        .map_err(|errno| environment(format!("restore the cores of this thread: {errno}")))?;
    result
}

/// Returns the cores that this process may run on, in ascending order.
pub(crate) fn allowed_cores() -> Vec<u16> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    let cores = (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core));
    cores.filter_map(|core| u16::try_from(core).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_policy_says_what_it_needs() {
        let busy = refusal(SchedulingPolicy::Deadline, Errno::BUSY);
        assert!(busy.contains("fewer cells"), "{busy}");
        let denied = refusal(SchedulingPolicy::Fifo, Errno::PERM);
        assert!(denied.contains("--policy other"), "{denied}");
    }

    #[test]
    fn cores_of_a_thread_come_back_after_a_body_that_fails() {
        let before = allowed_cores();
        let inside = |cores: &[u16]| {
            assert_eq!(allowed_cores(), cores);
            Err::<(), _>(environment("x"))
        };
        let last = *before.last().unwrap();
        assert!(on_cores(&[last], || inside(&[last])).is_err());
        assert_eq!(allowed_cores(), before);
        let error = pin(&[9_999]).unwrap_err().to_string();
        assert!(error.starts_with("cores [9999]: "), "{error}");
    }
}
