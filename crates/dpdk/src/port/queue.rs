//! Receive and transmit queues.

use core::cell::Cell;
use core::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use adit_dpdk_sys as sys;
use adit_pktio::{Burst, PacketBuf};
use adit_wire::finish_open_checksum;

use super::StartedPort;
use crate::mbuf::Mbuf;
use crate::memif_gate::MemifGate;

/// One receive queue of a running port.
///
/// Invariant: the only handle on this queue, which may move between threads but is used by one at a
/// time. The port runs as long as the handle lives.
#[derive(Debug)]
pub struct RxQueue {
    port: Arc<StartedPort>,
    port_id: u16,
    queue: u16,
    socket: Option<OwnedFd>,
    gate: Option<MemifGate>,
    /// True if packets may come from a kernel, directly or through another program: a kernel may
    /// leave checksums for a card to complete, so this queue completes them.
    finishes_checksums: bool,
    not_sync: PhantomData<Cell<u8>>,
}

/// One transmit queue of a running port.
///
/// Invariant: as for [`RxQueue`].
#[derive(Debug)]
pub struct TxQueue {
    port: Arc<StartedPort>,
    port_id: u16,
    queue: u16,
    gate: Option<MemifGate>,
    not_sync: PhantomData<Cell<u8>>,
}

impl RxQueue {
    /// Makes a handle. The caller makes only one for each queue that was set up on `port`.
    pub(super) fn new(
        port: &Arc<StartedPort>,
        queue: u16,
        socket: Option<OwnedFd>,
        gate: Option<MemifGate>,
        finishes_checksums: bool,
    ) -> Self {
        let (port, port_id) = (Arc::clone(port), port.id());
        Self { port, port_id, queue, socket, gate, finishes_checksums, not_sync: PhantomData }
    }

    /// Returns a descriptor that is readable while the queue has packets: the socket of drivers of
    /// kernel interfaces (`net_af_packet`, `net_af_xdp`). `None` for other drivers.
    #[must_use]
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(AsFd::as_fd)
    }

    /// Appends at most `limit` received packets to `burst`. Returns how many.
    ///
    /// Cost: one driver call, which writes the packets' pointers directly into `burst`, and two
    /// prefetches for each packet; with drivers of virtual links also a check of each packet's
    /// checksum.
    #[inline]
    pub fn rx_burst(&mut self, limit: usize, burst: &mut Burst<Mbuf>) -> usize {
        let inside = self.gate.as_ref().map(MemifGate::enter);
        if let Some(None) = inside {
            return 0;
        }
        let room = limit.min(burst.remaining_capacity());
        let wanted = u16::try_from(room).unwrap_or(u16::MAX);
        let len = burst.len();
        // SAFETY: `len <= capacity`, so the sum is at most one past the last element.
        let free = unsafe { burst.as_mut_ptr().add(len) };
        // SAFETY: the port runs and this is the only handle on the queue; `free` has room for
        // `wanted` pointers, and an `Mbuf` is laid out as one.
        let received = unsafe {
            sys::rte_eth_rx_burst(
                self.port_id,
                self.queue,
                free.cast::<*mut sys::rte_mbuf>(),
                wanted,
            )
        };
        let received = usize::from(received);
        // SAFETY: DPDK wrote `received <= wanted` non-null pointers to packets that we now own
        // exclusively.
        unsafe { burst.set_len(len + received) };
        let new = &mut burst[len..];
        if self.finishes_checksums {
            for packet in &mut *new {
                finish_open_checksum(packet.data_mut());
            }
        }
        new.iter().for_each(PacketBuf::prefetch);
        received
    }

    /// Returns the port's ethdev id.
    #[must_use]
    pub fn ethdev_id(&self) -> u16 {
        self.port.id()
    }
}

impl TxQueue {
    /// Makes a handle. The caller makes only one for each queue that was set up on `port`.
    pub(super) fn new(port: &Arc<StartedPort>, queue: u16, gate: Option<MemifGate>) -> Self {
        Self { port: Arc::clone(port), port_id: port.id(), queue, gate, not_sync: PhantomData }
    }

    /// Sends `burst`. Packets that the queue does not accept stay in it, in order. Returns how many
    /// packets were sent.
    ///
    /// Cost: one driver call on the packets' pointers in `burst`.
    #[inline]
    pub fn tx_burst(&mut self, burst: &mut Burst<Mbuf>) -> usize {
        let inside = self.gate.as_ref().map(MemifGate::enter);
        if let Some(None) = inside {
            return 0;
        }
        let len = burst.len();
        let count = u16::try_from(len).unwrap_or(u16::MAX);
        let packets = burst.as_mut_ptr();
        // SAFETY: the port runs and this is the only handle on the queue; `packets` are `count`
        // pointers to mbufs that we own.
        let sent = unsafe {
            sys::rte_eth_tx_burst(
                self.port_id,
                self.queue,
                packets.cast::<*mut sys::rte_mbuf>(),
                count,
            )
        };
        let sent = usize::from(sent);
        if sent == len {
            // SAFETY: DPDK owns every packet now; none may be dropped here.
            unsafe { burst.set_len(0) };
        } else {
            // SAFETY: `sent < len`, within the burst.
            let rest = unsafe { packets.add(sent) };
            // SAFETY: moves the pointers of unsent packets over those of sent ones, within `len`.
            unsafe { core::ptr::copy(rest, packets, len - sent) };
            // SAFETY: the first `len - sent` are owned packets; the stale ones behind are
            // forgotten.
            unsafe { burst.set_len(len - sent) };
        }
        sent
    }

    /// Returns the port's ethdev id.
    #[must_use]
    pub fn ethdev_id(&self) -> u16 {
        self.port.id()
    }
}
