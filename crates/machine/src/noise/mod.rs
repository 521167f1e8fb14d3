//! Measures what interrupts the thread that runs on a core: interrupts, the hypervisor, other
//! threads.
//!
//! A thread on the core reads the clock in a loop. A turn of the loop that takes longer than a
//! threshold is a gap: the thread did not run. The kernel's counters for the thread and the core,
//! read before and after the loop, name the causes.

mod counters;
mod gaps;
mod report;
mod sampler;

use std::time::Duration;

pub use self::gaps::{GapCause, GapTotals};
pub use self::report::{NoiseBucket, NoiseReport};

/// Minimum threshold. A turn of the loop without a gap takes less on every machine.
pub const THRESHOLD_MIN: Duration = Duration::from_nanos(500);

/// The reason why a core cannot be sampled.
#[derive(Debug, thiserror::Error)]
pub enum NoiseError {
    /// The core does not exist, is offline, or is outside the process's cpuset.
    #[error("core {core}: this process cannot run there: {errno}; it may use cores {allowed}")]
    Core {
        /// The core.
        core: u16,
        /// The kernel's error.
        errno: rustix::io::Errno,
        /// The cores that the process may use, as a list.
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

/// Samples `core` for `duration` with a thread of normal priority. Reports gaps of at least
/// `threshold`.
///
/// # Errors
/// [`NoiseError`] names the wrong argument, or the thread could not be started.
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
