//! Sends the rewritten packets of a burst, or queues them for their rates.

use core::mem;

use crate::departures::Departures;
use crate::shaper::QueuedPacket;
use adit_pktio::{Burst, PacketBuf};
use adit_types::Direction;

use super::FastPackets;
use super::packet::FastPacket;
use crate::context::StepContext;
use crate::interfaces::TxLink;
use crate::origin::Origin;
use crate::shaping::{ReadyFrame, Shaping, count_overflow};
use crate::tally::StepTally;
use crate::worker_state::WorkerState;

/// Sends the rewritten packets of a burst in which some packets take the stages or wait for their
/// rates, or which leaves through several links or in both directions.
#[inline(never)]
pub(super) fn send_some<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    packets: &FastPackets<'_>,
    rx: &mut Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) {
    let [mut staying, mut leaving] = [Burst::<Io::Buf>::new(), Burst::new()];
    let (shaping, tally) = (&mut state.queues.shaping, &mut state.books.tally);
    for (buf, packet) in rx.drain(..).zip(packets) {
        let Some(tx_link) = fast_tx_link(ctx, packet) else {
            staying.push(buf);
            continue;
        };
        if packet.ticket.is_none() {
            leaving.push(buf);
            continue;
        }
        // PERF (adit-bench datapath --rates wait): runs for every packet that waits; calls get no
        // references that would force values of the loop into memory.
        let Some(queue) = packet.ticket.queue() else {
            queue_first(ctx, shaping, tally, packet, ReadyFrame::new(buf, tx_link.target()));
            continue;
        };
        let Some(place) = shaping.queues.place(queue) else {
            drop_for_full_queue(ctx, tally, packet, buf);
            continue;
        };
        let frame = ReadyFrame::new(buf, tx_link.target());
        place.fill(QueuedPacket { packet: frame, bytes: packet.len, since: ctx.now });
        let buckets = packet.ticket.buckets();
        if buckets != 0
            && let Some(waits) = ctx.view.wait_counts(packet.session, packet.direction, buckets)
        {
            waits.add();
        }
    }
    if !leaving.is_empty() {
        send_runs(ctx, io, packets, leaving, state);
    }
    rx.extend(staying);
}

/// Queues a packet whose queue may not exist yet.
#[inline(never)]
fn queue_first<B: PacketBuf>(
    ctx: &StepContext<'_>,
    shaping: &mut Shaping<B>,
    tally: &mut StepTally,
    packet: &FastPacket<'_>,
    frame: ReadyFrame<B>,
) {
    let key = packet.ticket.key(packet.session, packet.direction);
    shaping.enqueue(
        ctx,
        tally,
        key,
        QueuedPacket { packet: frame, bytes: packet.len, since: ctx.now },
    );
}

/// Drops a packet because the queues are full.
#[cold]
#[inline(never)]
fn drop_for_full_queue<B: PacketBuf>(
    ctx: &StepContext<'_>,
    tally: &mut StepTally,
    packet: &FastPacket<'_>,
    buf: B,
) {
    drop(buf);
    let key = packet.ticket.key(packet.session, packet.direction);
    count_overflow(ctx, tally, key, packet.len);
}

/// Returns the link of a rewritten packet; `None` if the stages take the packet.
#[inline(always)]
// PERF (adit-bench datapath --rates wait): inlined, runs for every packet.
fn fast_tx_link<'v>(ctx: &StepContext<'v>, packet: &FastPacket<'_>) -> Option<&'v TxLink> {
    ctx.interfaces.tx_link(packet.interface).filter(|_| packet.is_usual)
}

/// Sends the packets of a burst that neither wait nor take the stages; consecutive packets of one
/// link and direction together.
#[inline(never)]
fn send_runs<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    packets: &FastPackets<'_>,
    leaving: Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) {
    let leaves = |(at, packet)| {
        let packet: &FastPacket<'_> = packet;
        let tx_link = fast_tx_link(ctx, packet).filter(|_| packet.ticket.is_none())?;
        Some((at, tx_link, packet.direction))
    };
    let mut frames = Burst::<Io::Buf>::new();
    let mut last: Option<(&TxLink, Direction)> = None;
    let mut bytes = 0;
    for (buf, (at, tx_link, direction)) in
        leaving.into_iter().zip(packets.iter().enumerate().filter_map(leaves))
    {
        let is_other = |last: &(&TxLink, Direction)| (last.0.id, last.1) != (tx_link.id, direction);
        if let Some((link, direction)) = last.filter(is_other) {
            let packets = packets.get(..at).unwrap_or_default();
            let sum = SentFrames { link, direction, bytes: mem::take(&mut bytes) };
            send_all(io, sum, &mut frames, packets, state);
        }
        last = Some((tx_link, direction));
        bytes += buf.data().len();
        frames.push(buf);
    }
    if let Some((link, direction)) = last {
        send_all(io, SentFrames { link, direction, bytes }, &mut frames, packets, state);
    }
}

/// Link, direction and length that frames sent together share.
#[derive(Clone, Copy)]
pub(super) struct SentFrames<'v> {
    pub link: &'v TxLink,
    pub direction: Direction,
    /// Length of all frames together. Unit: octets.
    pub bytes: usize,
}

/// Sends `frames`: those of the last `frames.len()` of the `packets` that leave through `link` in
/// `direction` now, in order. Frames that the port does not accept are queued or dropped.
pub(super) fn send_all<Io: Departures>(
    io: &mut Io,
    SentFrames { link, direction, bytes }: SentFrames<'_>,
    frames: &mut Burst<Io::Buf>,
    packets: &[FastPacket<'_>],
    state: &mut WorkerState<Io::Buf>,
) {
    let queued = frames.len();
    if !state.queues.tx.backlog.blocks(link.port) {
        io.tx_burst(link.port, frames);
    }
    let sent = queued.saturating_sub(frames.len());
    let mut sent_bytes = bytes;
    if !frames.is_empty() {
        let refused = take_back(link, direction, frames, packets, state);
        sent_bytes = sent_bytes.saturating_sub(refused);
    }
    state.books.tally.transmit_many(link.id, direction, sent, sent_bytes);
}

/// Queues or drops the frames that a port did not accept: those of the last `refused.len()` of the
/// `packets` that leave through `tx_link` in `direction` now. Returns the sum of their octets.
#[cold]
fn take_back<B: PacketBuf>(
    tx_link: &TxLink,
    direction: Direction,
    refused: &mut Burst<B>,
    packets: &[FastPacket<'_>],
    state: &mut WorkerState<B>,
) -> usize {
    let leaves = |packet: &&FastPacket<'_>| {
        packet.is_usual
            && (packet.interface, packet.direction) == (tx_link.id, direction)
            && packet.ticket.is_none()
    };
    let sent = packets.iter().filter(leaves).count().saturating_sub(refused.len());
    let mut bytes = 0;
    for (buf, packet) in refused.drain(..).zip(packets.iter().filter(leaves).skip(sent)) {
        bytes += buf.data().len();
        // If the cell's rule was replaced meanwhile, the packet counts as not guaranteed.
        let is_guaranteed = packet.any_rule().is_some_and(|rule| rule.is_guaranteed());
        let origin = Origin::user(direction, is_guaranteed);
        state.queues.tx.backlog.queue_or_drop(
            tx_link.target(),
            buf,
            origin,
            &mut state.books.tally,
        );
    }
    bytes
}
