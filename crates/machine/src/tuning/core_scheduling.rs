//! Finds out whether the kernel supports core scheduling. The threads themselves request it.

use rustix::io::Errno;
use rustix::process::getpid;
use rustix::thread::{CoreSchedulingScope, core_scheduling_cookie};

/// Whether threads can reserve whole cores by `prctl(PR_SCHED_CORE)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoreScheduling {
    /// Threads can have a cookie; siblings then only run threads with the same cookie.
    Available,
    /// No core has siblings, so no threads need to be kept apart.
    NoSiblings,
    /// The kernel was built without core scheduling.
    NotInKernel,
}

impl CoreScheduling {
    /// Describes the value in a sentence.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Available => {
                "the kernel offers it; a thread requests it for itself by prctl(PR_SCHED_CORE)"
            }
            Self::NoSiblings => "cores have no siblings here, so nothing has to be kept apart",
            Self::NotInKernel => "the kernel was built without it",
        }
    }
}

/// Asks the running kernel, by reading the cookie of this process.
#[must_use]
pub fn core_scheduling() -> CoreScheduling {
    match core_scheduling_cookie(getpid(), CoreSchedulingScope::Thread) {
        Ok(_) => CoreScheduling::Available,
        Err(Errno::NODEV) => CoreScheduling::NoSiblings,
        Err(_) => CoreScheduling::NotInKernel,
    }
}
