//! Threads as DPDK and the scheduler see them, and the time-stamp counter.

use core::marker::PhantomData;

use adit_dpdk_sys as sys;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::eal::Eal;
use crate::errno::Errno;

/// Why a thread got no lcore number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// The thread has one, or is the main lcore.
    #[error("this thread is an lcore already")]
    AlreadyRegistered,
    /// DPDK refused, mostly because every lcore number is taken.
    #[error("DPDK gave this thread no lcore number: {0}; at most {max} threads can have one",
        max = sys::RTE_MAX_LCORE)]
    Refused(Errno),
}

/// The calling thread's lcore number, given back when dropped.
///
/// Invariant: lives and dies on the thread that made it.
#[derive(Debug)]
pub struct ThreadGuard {
    eal: Eal,
    same_thread: PhantomData<*const ()>,
}

/// Gives the calling thread an lcore number, and with it a cache in every mempool.
///
/// Threads: each worker calls this once before it touches a queue or a pool.
///
/// # Errors
/// See [`RegisterError`].
pub fn register_thread(eal: &Eal) -> Result<ThreadGuard, RegisterError> {
    // SAFETY: reads a thread-local number.
    if unsafe { sys::rte_lcore_id() } != sys::LCORE_ID_ANY {
        return Err(RegisterError::AlreadyRegistered);
    }
    eal.thread_registered();
    // SAFETY: the EAL runs, since `eal` is a handle on it.
    if unsafe { sys::rte_thread_register() } < 0 {
        let errno = Errno::last();
        eal.thread_unregistered();
        return Err(RegisterError::Refused(errno));
    }
    Ok(ThreadGuard { eal: eal.clone(), same_thread: PhantomData })
}

impl ThreadGuard {
    /// The lcore number of this thread.
    #[must_use]
    pub fn lcore(&self) -> u32 {
        // SAFETY: reads a thread-local number.
        unsafe { sys::rte_lcore_id() }
    }
}

impl Drop for ThreadGuard {
    fn drop(&mut self) {
        // SAFETY: this thread registered itself, and the guard cannot move to another.
        unsafe { sys::rte_thread_unregister() };
        self.eal.thread_unregistered();
    }
}

/// Why a thread stayed where it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PinError {
    /// The number exceeds what the kernel interface can express.
    #[error("CPU {cpu} is out of range")]
    OutOfRange {
        /// The wanted CPU.
        cpu: u16,
    },
    /// The kernel refused.
    #[error(
        "this thread may not run on CPU {cpu}: {errno}; is it online and in the process's cpuset?"
    )]
    Refused {
        /// The wanted CPU.
        cpu: u16,
        /// The kernel's reason.
        errno: rustix::io::Errno,
    },
}

/// Confines the calling thread to one CPU.
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

/// CPUs on which the calling thread may run; CPU 0 when the kernel does not say.
pub(crate) fn allowed_cpus() -> Vec<usize> {
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect(),
        Err(_) => vec![0],
    }
}

/// The time-stamp counter of this core; see [`Eal::tsc_hz`] for its unit.
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
