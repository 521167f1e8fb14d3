//! Last stage: hand frames to the ports.

use adit_pktio::{Burst, PacketBuf, PacketIo};
use adit_rules::DropReason;
use adit_types::{Direction, InterfaceId, PortId};

use crate::columns::Column;
use crate::tally::Tally;

/// Where a frame comes from, which decides how it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A user packet that was received.
    Received(Direction),
    /// The copy of a user packet that its FAR asked for.
    Copy,
    /// Adit made it: ARP, neighbor discovery, ICMP, GTP-U echo.
    Own,
}

/// What must be known of a frame when its buffer is gone.
#[derive(Debug, Clone, Copy)]
struct Label {
    interface: InterfaceId,
    len: usize,
    origin: Origin,
}

struct TxQueue<B> {
    burst: Burst<B>,
    labels: Column<Label>,
}

/// Frames on their way out, one queue per port.
pub(crate) struct TxQueues<B> {
    ports: Vec<TxQueue<B>>,
}

impl<B: PacketBuf> TxQueues<B> {
    /// Empty queues for `count` ports.
    pub fn new(count: usize) -> Self {
        let queue = || TxQueue { burst: Burst::new(), labels: Column::new() };
        Self { ports: core::iter::repeat_with(queue).take(count).collect() }
    }

    /// Queues one frame; a full queue is transmitted first.
    #[inline]
    pub fn push<Io: PacketIo<Buf = B>>(
        &mut self,
        io: &mut Io,
        tally: &mut Tally,
        (port, interface): (PortId, InterfaceId),
        buf: B,
        origin: Origin,
    ) {
        let label = Label { interface, len: buf.data().len(), origin };
        let Some(queue) = self.ports.get_mut(usize::from(port.0)) else {
            // Interfaces with ports beyond the queues do not exist: both come from one list.
            refuse(tally, origin);
            return;
        };
        if queue.burst.is_full() {
            transmit(io, port, queue, tally);
        }
        queue.burst.push(buf);
        queue.labels.push(label);
    }

    /// Transmits everything queued.
    #[inline]
    pub fn flush<Io: PacketIo<Buf = B>>(&mut self, io: &mut Io, tally: &mut Tally) {
        for (port, queue) in (0u16..).zip(&mut self.ports) {
            if !queue.burst.is_empty() {
                transmit(io, PortId(port), queue, tally);
            }
        }
    }
}

/// Hands one queue to its port and empties it; frames that the port does not take are dropped.
///
/// Shape:   drains `queue`.
/// Cost:    one driver call.
/// Errors:  none; what is refused becomes `DropReason::TxQueueFull`.
#[inline]
fn transmit<Io: PacketIo>(
    io: &mut Io,
    port: PortId,
    queue: &mut TxQueue<Io::Buf>,
    tally: &mut Tally,
) {
    let queued = queue.burst.len();
    io.tx_burst(port, &mut queue.burst);
    let sent = queued - queue.burst.len().min(queued);
    let (taken, refused) = queue.labels.split_at(sent.min(queue.labels.len()));
    for label in taken {
        tally.transmit_on(label.interface, label.len);
        match label.origin {
            Origin::Received(direction) => tally.transmit(direction, label.len),
            Origin::Copy => tally.duplicate(),
            Origin::Own => tally.originate(),
        }
    }
    for label in refused {
        refuse(tally, label.origin);
    }
    queue.burst.clear();
    queue.labels.clear();
}

#[cold]
fn refuse(tally: &mut Tally, origin: Origin) {
    match origin {
        Origin::Received(_) => tally.drop(DropReason::TxQueueFull),
        Origin::Copy => tally.lose_duplicate(),
        Origin::Own => tally.lose_originated(),
    }
}
