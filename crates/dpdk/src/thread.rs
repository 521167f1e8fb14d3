//! Threads: registration with DPDK, real-time priority, and the NUMA node of their memory.

use core::marker::PhantomData;

use adit_dpdk_sys as sys;

use crate::eal::Eal;
use crate::errno::Errno;

/// The reason why a thread could not be registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// The thread is registered already, or is the main lcore.
    #[error("this thread is an lcore already")]
    AlreadyRegistered,
    /// DPDK refused, usually because all lcore indexes are in use.
    #[error("DPDK gave this thread no lcore number: {0}; at most {max} threads can have one",
        max = sys::RTE_MAX_LCORE)]
    Refused(Errno),
}

/// The registration of the calling thread. Drop releases its lcore index.
///
/// Invariant: stays on the thread that created it.
#[derive(Debug)]
pub struct ThreadGuard {
    eal: Eal,
    same_thread: PhantomData<*const ()>,
}

/// Registers the calling thread with DPDK, which assigns it an lcore index and a cache in every
/// mempool.
///
/// Threads: each worker calls this once before it uses a queue or a pool.
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

/// The kernel refused to give the thread a real-time priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "no real-time priority {priority}: {errno}; it needs CAP_SYS_NICE, or RLIMIT_RTPRIO of as much"
)]
pub struct PriorityError {
    /// The requested priority.
    pub priority: u8,
    /// The kernel's reason.
    pub errno: Errno,
}

/// Gives the calling thread a real-time priority from 1 to 99 (SCHED_FIFO): whenever it has work,
/// it runs before all threads without one. Threads that it starts do not inherit the priority.
///
/// # Errors
/// See [`PriorityError`].
pub fn set_realtime_priority(priority: u8) -> Result<(), PriorityError> {
    let parameters = libc::sched_param { sched_priority: priority.into() };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the kernel reads a `sched_param`, which lives across the call; 0 is the calling
    // thread.
    match unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(PriorityError { priority, errno: Errno::last_os() }),
    }
}

/// The kernel refused to set the NUMA node for the thread's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the kernel does not let adit prefer memory of {}: {errno}", describe(*node))]
pub struct MemoryNodeError {
    /// The requested node.
    pub node: Option<u32>,
    /// The kernel's reason.
    pub errno: Errno,
}

fn describe(node: Option<u32>) -> String {
    node.map_or_else(|| "the thread's own node".to_owned(), |node| format!("node {node}"))
}

/// Maximum number of NUMA nodes of Linux on x86-64.
const NODES_MAX: usize = 1024;

/// Makes memory that the calling thread touches first come from `node` while that node has free
/// memory; `None` resets this to the node that the thread runs on. Threads that it starts inherit
/// the setting.
///
/// # Errors
/// See [`MemoryNodeError`].
pub fn prefer_memory_of(node: Option<u32>) -> Result<(), MemoryNodeError> {
    let mut mask = [0_u64; NODES_MAX / 64];
    let refused = |errno| MemoryNodeError { node, errno };
    let (mode, nodes, count) = match node {
        None => (libc::MPOL_DEFAULT, core::ptr::null(), 0),
        Some(number) => {
            let number = usize::try_from(number).unwrap_or(NODES_MAX);
            let word = mask.get_mut(number / 64);
            *word.ok_or_else(|| refused(Errno::of_return(-libc::EINVAL)))? = 1 << (number % 64);
            // The kernel reads one bit less than the count.
            (libc::MPOL_PREFERRED, mask.as_ptr(), NODES_MAX + 1)
        }
    };
    // SAFETY: the kernel reads `NODES_MAX` bits of `mask`, which lives across the call, or nothing.
    match unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, nodes, count) } {
        0 => Ok(()),
        _ => Err(refused(Errno::last_os())),
    }
}

impl ThreadGuard {
    /// Returns the lcore index of this thread.
    #[must_use]
    pub fn lcore(&self) -> u32 {
        // SAFETY: reads a thread-local number.
        unsafe { sys::rte_lcore_id() }
    }
}

impl Drop for ThreadGuard {
    fn drop(&mut self) {
        // SAFETY: this thread registered itself, and the guard cannot move to another thread.
        unsafe { sys::rte_thread_unregister() };
        self.eal.thread_unregistered();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns fields 40 and 41 of proc_pid_stat(5), priority and policy. Counts from the closing
    /// parenthesis, because the thread's name before it may contain spaces.
    fn scheduling() -> Vec<String> {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let (_, fields) = stat.rsplit_once(')').unwrap();
        fields.split_whitespace().skip(37).take(2).map(str::to_owned).collect()
    }

    /// Returns the mode of the calling thread's memory policy.
    fn memory_mode() -> i32 {
        let mut mode = -1;
        let (mask, none) = (core::ptr::null_mut::<u64>(), core::ptr::null_mut::<u8>());
        // SAFETY: the kernel writes one number.
        unsafe { libc::syscall(libc::SYS_get_mempolicy, &raw mut mode, mask, 0, none, 0) };
        mode
    }

    #[test]
    fn memory_is_preferred_from_a_node_that_exists() {
        std::thread::spawn(|| match prefer_memory_of(Some(0)) {
            Err(error) => println!("skipped: {error}"),
            Ok(()) => {
                assert_eq!(memory_mode(), libc::MPOL_PREFERRED);
                let inherited = std::thread::spawn(memory_mode).join();
                assert_eq!(inherited.unwrap(), libc::MPOL_PREFERRED);
                for absent in [1023, 1024, u32::MAX] {
                    let error = prefer_memory_of(Some(absent)).unwrap_err();
                    assert!(error.to_string().contains(&format!("node {absent}")), "{error}");
                }
                prefer_memory_of(None).unwrap();
                assert_eq!(memory_mode(), libc::MPOL_DEFAULT);
            }
        })
        .join()
        .unwrap();
        assert_eq!(memory_mode(), libc::MPOL_DEFAULT);
    }

    #[test]
    fn realtime_priority_is_that_of_the_calling_thread() {
        let seen = std::thread::spawn(|| set_realtime_priority(7).map(|()| scheduling())).join();
        match seen.unwrap() {
            Ok(seen) => assert_eq!(seen, ["7", "1"]),
            Err(error) => println!("skipped: {error}"),
        }
        assert_eq!(scheduling(), ["0", "0"]);
        assert!(set_realtime_priority(100).unwrap_err().to_string().contains("priority 100"));
    }
}
