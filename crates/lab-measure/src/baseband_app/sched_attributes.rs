//! The system call that sets a thread's scheduling policy.
#![allow(unsafe_code, reason = "no crate of the workspace has sched_setattr(2)")]

use rustix::io::Errno;

/// Policy and parameters of a thread, as sched_setattr(2) takes them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SchedAttributes {
    /// `SCHED_FIFO` or `SCHED_DEADLINE`.
    pub policy: u32,
    /// For `SCHED_FIFO`: 1 to 99.
    pub priority: u32,
    /// For `SCHED_DEADLINE`: CPU time in each period. Unit: ns.
    pub runtime_ns: u64,
    /// For `SCHED_DEADLINE`: period and relative deadline. Unit: ns.
    pub period_ns: u64,
}

/// Sets policy and parameters of the calling thread.
///
/// # Errors
/// The kernel refuses.
pub(crate) fn set(attributes: SchedAttributes) -> Result<(), Errno> {
    let attributes = libc::sched_attr {
        size: u32::try_from(size_of::<libc::sched_attr>()).unwrap_or(0),
        sched_policy: attributes.policy,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: attributes.priority,
        sched_runtime: attributes.runtime_ns,
        sched_deadline: attributes.period_ns,
        sched_period: attributes.period_ns,
    };
    // SAFETY: the kernel reads `size` octets of a `sched_attr` that lives across the call; 0 is the
    // calling thread, and the last argument has no flags.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if result == 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    Err(Errno::from_io_error(&error).unwrap_or(Errno::INVAL))
}
