//! Prevents the memif driver from handling its connections during bursts.
//!
//! The driver frees a connection's memory on another thread as soon as the peer disconnects, even
//! while a burst uses it. `dpdk-sys/memif_gate.c` makes its handlers wait.

use adit_dpdk_sys as sys;

use crate::device::Device;
use crate::errno::Errno;

/// The gate's slot of one queue of a memif port.
#[derive(Debug)]
pub(crate) struct MemifGate {
    slot: i32,
}

/// A burst during which the connection does not change.
#[derive(Debug)]
pub(crate) struct MemifGateGuard<'a>(&'a MemifGate);

impl MemifGate {
    /// One slot for a queue of a started memif port, `None` for queues of other drivers.
    ///
    /// # Errors
    /// `ENOTSUP` when the driver did not register its handlers here, as in a program that exports
    /// no symbols; `ENOSPC` when all slots are taken: 512 queues of memif ports in one process.
    pub(crate) fn of(device: &Device) -> Result<Option<Self>, Errno> {
        if !device.is_driver("net_memif") {
            return Ok(None);
        }
        // SAFETY: no preconditions.
        if !unsafe { sys::adit_memif_gate_guards() } {
            return Err(Errno::of_return(-libc::ENOTSUP));
        }
        // SAFETY: no preconditions.
        let slot = unsafe { sys::adit_memif_gate_take() };
        if slot < 0 { Err(Errno::of_return(-libc::ENOSPC)) } else { Ok(Some(Self { slot })) }
    }

    /// Enters a burst; `None` while the driver handles its connection.
    ///
    /// Cost: one store and one fence on a cache line of this queue.
    #[inline]
    pub(crate) fn enter(&self) -> Option<MemifGateGuard<'_>> {
        // SAFETY: the slot was taken and not given back; the queue is used by one thread at a time.
        unsafe { sys::adit_memif_gate_enter(self.slot) }.then_some(MemifGateGuard(self))
    }
}

impl Drop for MemifGate {
    fn drop(&mut self) {
        // SAFETY: the slot was taken, and no `MemifGateGuard` borrows it any more.
        unsafe { sys::adit_memif_gate_give_back(self.slot) };
    }
}

impl Drop for MemifGateGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the slot was entered by `enter` and is left once.
        unsafe { sys::adit_memif_gate_leave(self.0.slot) };
    }
}
