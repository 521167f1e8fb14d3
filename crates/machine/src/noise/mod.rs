//! Measures what takes a core away from the thread that runs on it: interrupts, the hypervisor,
//! other threads.
//!
//! A thread on the core reads the clock in a loop. A turn that takes longer than a threshold is a
//! gap: somebody else had the core. The kernel's counters for the thread and the core, read before
//! and after, name the causes.

mod counters;
mod gaps;
mod report;
mod sampler;

use std::time::Duration;

pub use self::gaps::{GapCause, GapTotals};
pub use self::report::{NoiseBucket, NoiseReport};

/// Shortest threshold. A turn of the sampler without gap takes less on every machine.
pub const THRESHOLD_MIN: Duration = Duration::from_nanos(500);

/// Why a core cannot be sampled.
#[derive(Debug, thiserror::Error)]
pub enum NoiseError {
    /// The core does not exist, is offline, or is outside the process's cpuset.
    #[error("core {core}: this process cannot run there: {errno}; it may use cores {allowed}")]
    Core {
        /// The core.
        core: u16,
        /// The kernel's answer.
        errno: rustix::io::Errno,
        /// The cores of the process.
        allowed: String,
    },
    /// The threshold is below [`THRESHOLD_MIN`].
    #[error(
        "a threshold of {0:?} is shorter than a turn of the sampler may be; use {THRESHOLD_MIN:?} or more"
    )]
    Threshold(Duration),
    /// The duration is zero.
    #[error("a duration of zero samples nothing")]
    Duration,
    /// The thread of the sampler cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

/// Samples `core` for `duration` with a thread of normal priority, and returns gaps from
/// `threshold` on.
///
/// # Errors
/// [`NoiseError`] names the wrong argument.
pub fn run(core: u16, duration: Duration, threshold: Duration) -> Result<NoiseReport, NoiseError> {
    if threshold < THRESHOLD_MIN {
        return Err(NoiseError::Threshold(threshold));
    }
    if duration.is_zero() {
        return Err(NoiseError::Duration);
    }
    let body = move || sampler::run(core, duration, threshold);
    let thread = std::thread::Builder::new().name("noise".to_owned()).spawn(body);
    match thread.map_err(NoiseError::Thread)?.join() {
        Ok(sample) => Ok(NoiseReport::new(core, threshold, sample?)),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
