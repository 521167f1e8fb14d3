//! The transmit queues of a worker: frames on their way to the ports.

use adit_pktio::{Burst, PacketBuf};
use adit_types::{InterfaceId, PortId};

use crate::columns::BurstColumn;
use crate::departures::Departures;
use crate::interfaces::TxTarget;
use crate::local_switching::SwitchedQueue;
use crate::origin::Origin;
use crate::tally::StepTally;
use crate::tx_backlog::TxBacklog;

/// One frame to be transmitted.
#[derive(Debug)]
pub(crate) struct TxFrame<B> {
    pub buf: B,
    /// Its length. Unit: octets.
    pub bytes: usize,
    pub origin: Origin,
}

/// Consecutive frames that are counted alike. Lets them be counted after their buffers are gone.
#[derive(Debug, Clone, Copy)]
struct FrameRun {
    interface: InterfaceId,
    origin: Origin,
    pkts: usize,
    bytes: usize,
}

struct PortTxQueue<B> {
    burst: Burst<B>,
    /// Runs that add up to the frames of `burst`.
    runs: BurstColumn<FrameRun>,
}

/// Frames on their way out, one queue per port, and frames that are switched to other UEs.
pub(crate) struct TxQueues<B> {
    ports: Vec<PortTxQueue<B>>,
    /// Frames to other UEs.
    pub switched: SwitchedQueue<B>,
    /// Guaranteed frames that their ports did not accept.
    pub backlog: TxBacklog<B>,
}

/// The parts of a worker that send a finished frame.
pub(crate) struct FrameSender<'w, Io: Departures> {
    /// The way out of the worker.
    pub io: &'w mut Io,
    pub tx: &'w mut TxQueues<Io::Buf>,
    pub tally: &'w mut StepTally,
}

impl<Io: Departures> FrameSender<'_, Io> {
    /// Queues a frame, as [`TxQueues::push`] does.
    #[inline(always)]
    // PERF (adit-bench kinds): part of the loops of its callers.
    pub(crate) fn send(&mut self, target: TxTarget, frame: TxFrame<Io::Buf>) {
        self.tx.push(self.io, self.tally, target, frame);
    }
}

impl<B: PacketBuf> TxQueues<B> {
    /// Creates queues for `count` ports, with room for `switched` frames to other UEs.
    pub(crate) fn new(count: usize, switched: usize) -> Self {
        let queue = || PortTxQueue { burst: Burst::new(), runs: BurstColumn::new() };
        let ports = core::iter::repeat_with(queue).take(count).collect();
        Self { ports, switched: SwitchedQueue::new(switched), backlog: TxBacklog::new(count) }
    }

    /// Queues a frame. Transmits the queue first if it is full.
    #[inline(always)]
    // PERF (adit-bench kinds): runs for every packet of the stages and every packet that waited; a
    // call would pass the frame through memory.
    pub(crate) fn push<Io: Departures<Buf = B>>(
        &mut self,
        io: &mut Io,
        tally: &mut StepTally,
        TxTarget { port, interface }: TxTarget,
        TxFrame { buf, bytes, origin }: TxFrame<B>,
    ) {
        let Some(queue) = self.ports.get_mut(usize::from(port.0)) else {
            // Cannot happen: the queues and the ports of interfaces come from one list.
            origin.count_lost(buf.data(), tally);
            return;
        };
        // PERF (adit-bench datapath --rates wait): one check of the length per frame.
        if let Err(full) = queue.burst.try_push(buf) {
            transmit(io, port, queue, &mut self.backlog, tally);
            queue.burst.push(full.element());
        }
        match queue.runs.last_mut() {
            Some(run) if run.interface == interface && run.origin == origin => {
                run.pkts += 1;
                run.bytes += bytes;
            }
            _ => queue.runs.push(FrameRun { interface, origin, pkts: 1, bytes }),
        }
    }

    /// Passes every frame that is queued for any port to `see`.
    pub(crate) fn each_queued(&self, mut see: impl FnMut(TxTarget, &[u8])) {
        for (port, queue) in (0u16..).map(PortId).zip(&self.ports) {
            let runs = queue.runs.iter().flat_map(|run| core::iter::repeat_n(run, run.pkts));
            for (buf, run) in queue.burst.iter().zip(runs) {
                see(TxTarget { port, interface: run.interface }, buf.data());
            }
        }
    }

    /// Transmits all queued frames.
    #[inline]
    pub(crate) fn flush<Io: Departures<Buf = B>>(&mut self, io: &mut Io, tally: &mut StepTally) {
        for (port, queue) in (0u16..).zip(&mut self.ports) {
            if !queue.burst.is_empty() {
                transmit(io, PortId(port), queue, &mut self.backlog, tally);
            }
        }
    }
}

/// Transmits one queue. Guaranteed frames that the port does not accept go to the backlog; others,
/// and those for which the backlog has no room, are counted as lost or dropped
/// (`DropReason::TxQueueFull`).
///
/// Shape:   drains `queue`.
/// Cost:    one driver call.
#[inline(never)]
fn transmit<Io: Departures>(
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
            Origin::Own | Origin::EndMarker => tally.originate(interface, pkts, bytes),
            Origin::HandedOn => tally.hand_off(pkts),
            Origin::Counted => {}
        }
    }
}

/// Moves all but the first `sent` frames, which the port did not accept, to the backlog.
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
            let target = TxTarget { port, interface: run.interface };
            backlog.queue_or_drop(target, buf, run.origin, tally);
        }
        run.pkts = left;
    }
}
