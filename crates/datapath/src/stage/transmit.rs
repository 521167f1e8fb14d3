//! Last stage: hand frames to the ports.

use adit_pktio::{Burst, PacketBuf, PacketIo};
use adit_rules::DropReason;
use adit_types::{Direction, InterfaceId, PortId};

use crate::columns::BurstColumn;
use crate::local_switching::SwitchedQueue;
use crate::tally::StepTally;
use crate::tx_backlog::TxBacklog;

/// Where a frame comes from, which decides how it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A user packet that was received.
    Received(Direction),
    /// The same, within the guaranteed bit rate of its flow.
    Guaranteed(Direction),
    /// The copy of a user packet that its FAR asked for.
    Copy,
    /// Adit made it: ARP, neighbor discovery, ICMP, GTP-U echo.
    Own,
}

impl Origin {
    /// That of a user packet.
    #[inline]
    pub const fn user(direction: Direction, is_guaranteed: bool) -> Self {
        match is_guaranteed {
            true => Self::Guaranteed(direction),
            false => Self::Received(direction),
        }
    }

    /// Counts a frame that no port takes.
    #[cold]
    pub fn count_lost(self, tally: &mut StepTally) {
        match self {
            Self::Received(_) | Self::Guaranteed(_) => tally.drop(DropReason::TxQueueFull),
            Self::Copy => tally.lose_duplicate(),
            Self::Own => tally.lose_originated(),
        }
    }
}

/// What must be known of frames when their buffers are gone: of frames in a row that are counted in the
/// same way.
#[derive(Debug, Clone, Copy)]
struct FrameRun {
    interface: InterfaceId,
    origin: Origin,
    pkts: usize,
    bytes: usize,
}

struct PortTxQueue<B> {
    burst: Burst<B>,
    /// As many packets as there are frames.
    runs: BurstColumn<FrameRun>,
}

/// Frames on their way out, one queue per port, and those that turn round.
pub(crate) struct TxQueues<B> {
    ports: Vec<PortTxQueue<B>>,
    /// Frames to other UEs.
    pub switched: SwitchedQueue<B>,
    /// Frames that their ports did not take.
    pub backlog: TxBacklog<B>,
}

impl<B: PacketBuf> TxQueues<B> {
    /// Empty queues for `count` ports, and room for `turned` frames that turn round.
    pub fn new(count: usize, turned: usize) -> Self {
        let queue = || PortTxQueue { burst: Burst::new(), runs: BurstColumn::new() };
        let ports = core::iter::repeat_with(queue).take(count).collect();
        Self { ports, switched: SwitchedQueue::new(turned), backlog: TxBacklog::new(count) }
    }

    /// Queues one frame of `bytes` octets; a full queue is transmitted first.
    #[inline(always)]
    // PERF: once per packet of the stages, and that waited; a call would pass the frame through memory.
    pub fn push<Io: PacketIo<Buf = B>>(
        &mut self,
        io: &mut Io,
        tally: &mut StepTally,
        (port, interface): (PortId, InterfaceId),
        (buf, bytes): (B, usize),
        origin: Origin,
    ) {
        let Some(queue) = self.ports.get_mut(usize::from(port.0)) else {
            // Interfaces with ports beyond the queues do not exist: both come from one list.
            origin.count_lost(tally);
            return;
        };
        if queue.burst.is_full() {
            transmit(io, port, queue, &mut self.backlog, tally);
        }
        queue.burst.push(buf);
        match queue.runs.last_mut() {
            Some(run) if run.interface == interface && run.origin == origin => {
                run.pkts += 1;
                run.bytes += bytes;
            }
            _ => queue.runs.push(FrameRun { interface, origin, pkts: 1, bytes }),
        }
    }

    /// Transmits everything queued.
    #[inline]
    pub fn flush<Io: PacketIo<Buf = B>>(&mut self, io: &mut Io, tally: &mut StepTally) {
        for (port, queue) in (0u16..).zip(&mut self.ports) {
            if !queue.burst.is_empty() {
                transmit(io, PortId(port), queue, &mut self.backlog, tally);
            }
        }
    }
}

/// Hands one queue to its port and empties it; frames that the port does not take wait or are dropped.
///
/// Shape:   drains `queue`.
/// Cost:    one driver call.
/// Errors:  none; what is refused and may not wait becomes `DropReason::TxQueueFull`.
#[inline(never)]
fn transmit<Io: PacketIo>(
    io: &mut Io,
    port: PortId,
    queue: &mut PortTxQueue<Io::Buf>,
    backlog: &mut TxBacklog<Io::Buf>,
    tally: &mut StepTally,
) {
    let queued = queue.burst.len();
    if !backlog.blocks(port) {
        io.tx_burst(port, &mut queue.burst);
    }
    if !queue.burst.is_empty() {
        let sent = queued - queue.burst.len();
        take_back(port, queue, sent, backlog, tally);
    }
    for FrameRun { interface, origin, pkts, bytes } in queue.runs.drain(..) {
        match origin {
            Origin::Received(direction) | Origin::Guaranteed(direction) => {
                tally.transmit_many(interface, direction, pkts, bytes);
            }
            Origin::Copy => tally.duplicate(interface, pkts, bytes),
            Origin::Own => tally.originate(interface, pkts, bytes),
        }
    }
}

/// Takes the frames of a queue back that its port did not take, all but the first `sent`.
#[cold]
fn take_back<B: PacketBuf>(
    port: PortId,
    queue: &mut PortTxQueue<B>,
    mut sent: usize,
    backlog: &mut TxBacklog<B>,
    tally: &mut StepTally,
) {
    let mut refused = queue.burst.drain(..);
    for run in &mut queue.runs {
        let left = run.pkts.min(sent);
        sent -= left;
        for buf in refused.by_ref().take(run.pkts - left) {
            run.bytes = run.bytes.saturating_sub(buf.data().len());
            backlog.queue_or_drop((port, run.interface), (buf, run.origin), tally);
        }
        run.pkts = left;
    }
}
