//! Registration of threads with DPDK: lcore numbers.

use core::marker::PhantomData;

use adit_dpdk_sys as sys;

use crate::eal::Eal;
use crate::errno::Errno;

/// Why a thread could not be registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// The thread is registered already, or is the main lcore.
    #[error("this thread is an lcore already")]
    AlreadyRegistered,
    /// DPDK refused, usually because every lcore number is taken.
    #[error("DPDK gave this thread no lcore number: {0}; at most {max} threads can have one",
        max = sys::RTE_MAX_LCORE)]
    Refused(Errno),
}

/// The calling thread's lcore number. Drop releases it.
///
/// Invariant: does not leave the thread that created it.
#[derive(Debug)]
pub struct ThreadGuard {
    eal: Eal,
    same_thread: PhantomData<*const ()>,
}

/// Registers the calling thread: assigns an lcore number and a cache in every mempool.
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
