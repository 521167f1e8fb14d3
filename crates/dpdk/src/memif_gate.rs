//! Prevents the memif driver from handling its connections during bursts.
//!
//! The driver frees a connection's memory on another thread as soon as the peer disconnects, even
//! while a burst uses that memory. `dpdk-sys/memif_gate.c` makes the driver's handlers wait until
//! no queue is in a burst.

use adit_dpdk_sys as sys;

use crate::device::Device;
use crate::errno::Errno;

/// The slot of one memif queue in the gate.
#[derive(Debug)]
pub(crate) struct MemifGate {
    slot: i32,
}

/// Keeps the connection unchanged for the duration of a burst.
#[derive(Debug)]
pub(crate) struct MemifGateGuard<'a>(&'a MemifGate);

impl MemifGate {
    /// Reserves a slot for a queue of a started memif port; `None` for other drivers.
    ///
    /// # Errors
    /// `ENOTSUP` if the driver did not register its handlers through the gate, as in a program that
    /// exports no symbols; `ENOSPC` if all slots are reserved: 512 memif queues in one process.
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

    /// Enters a burst; `None` while the driver changes the connection.
    ///
    /// Cost: one store and one fence on a cache line of this queue.
    #[inline]
    pub(crate) fn enter(&self) -> Option<MemifGateGuard<'_>> {
        // SAFETY: the slot is reserved and not yet returned, and one thread at a time uses the
        // queue.
        unsafe { sys::adit_memif_gate_enter(self.slot) }.then_some(MemifGateGuard(self))
    }
}

impl Drop for MemifGate {
    fn drop(&mut self) {
        // SAFETY: the slot is reserved, and no `MemifGateGuard` borrows it any more.
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
