//! The CPUs that a thread may run on, and the time-stamp counter.

#[cfg(not(target_arch = "x86_64"))]
use adit_dpdk_sys as sys;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The reason why a thread could not be pinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PinError {
    /// The CPU index exceeds the limit of the kernel interface.
    #[error("CPU {cpu} is out of range")]
    OutOfRange {
        /// The requested CPU.
        cpu: u16,
    },
    /// The kernel refused.
    #[error(
        "this thread may not run on CPU {cpu}: {errno}; is it online and in the process's cpuset?"
    )]
    Refused {
        /// The requested CPU.
        cpu: u16,
        /// The kernel's reason.
        errno: rustix::io::Errno,
    },
}

/// Pins the calling thread to one CPU.
///
/// # Errors
/// See [`PinError`].
pub fn pin_current_thread(cpu: u16) -> Result<(), PinError> {
    let index = usize::from(cpu);
    if index >= CpuSet::MAX_CPU {
        return Err(PinError::OutOfRange { cpu });
    }
    let mut set = CpuSet::new();
    set.set(index);
    sched_setaffinity(None, &set).map_err(|errno| PinError::Refused { cpu, errno })
}

/// Returns the CPUs on which the calling thread may run; CPU 0 if the kernel does not report them.
pub(crate) fn allowed_cpus() -> Vec<usize> {
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect(),
        Err(_) => vec![0],
    }
}

/// Reads the time stamp counter of this core; see [`crate::Eal::tsc_hz`] for its frequency.
#[inline]
#[must_use]
pub fn tsc() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has RDTSC, and Linux allows it in user mode.
    return unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: reads a counter register.
    return unsafe { sys::rte_rdtsc() };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinning_to_a_cpu_that_does_not_exist_is_refused() {
        assert_eq!(pin_current_thread(u16::MAX), Err(PinError::OutOfRange { cpu: u16::MAX }));
        assert!(matches!(pin_current_thread(1023), Err(PinError::Refused { cpu: 1023, .. })));
    }

    #[test]
    fn pinning_confines_the_thread() {
        let thread = std::thread::spawn(|| {
            let last = *allowed_cpus().last().unwrap();
            pin_current_thread(u16::try_from(last).unwrap()).unwrap();
            assert_eq!(allowed_cpus(), [last]);
        });
        thread.join().unwrap();
    }
}
