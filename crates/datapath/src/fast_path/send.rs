//! Sends the rewritten packets of a burst, or queues them for their rates.

use core::mem;

use adit_pktio::{Burst, PacketBuf, PacketIo};
use adit_types::Direction;

use super::FastPackets;
use super::packet::FastPacket;
use crate::context::StepContext;
use crate::interfaces::TxLink;
use crate::origin::Origin;
use crate::shaping::ReadyFrame;
use crate::worker_state::WorkerState;

/// Sends the rewritten packets of a burst of which some take the stages, wait for their rates, or
/// differ in link or direction from others.
#[inline(never)]
pub(super) fn send_some<Io: PacketIo>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    packets: &FastPackets<'_>,
    rx: &mut Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) {
    let [mut staying, mut leaving] = [Burst::<Io::Buf>::new(), Burst::new()];
    let mut last: Option<(&TxLink, Direction)> = None;
    let mut bytes = 0;
    for (at, (buf, packet)) in rx.drain(..).zip(packets).enumerate() {
        let tx_link = ctx.interfaces.tx_link(packet.interface).filter(|_| packet.is_usual);
        let Some(tx_link) = tx_link else {
            staying.push(buf);
            continue;
        };
        if !packet.ticket.is_none() {
            let key = packet.ticket.key(packet.session, packet.direction);
            let frame = ReadyFrame::new(buf, tx_link.target());
            let WorkerState { shaping, tally, .. } = &mut *state;
            shaping.enqueue(ctx, tally, key, packet.ticket.queue(), frame, packet.len);
            continue;
        }
        let is_other =
            |last: &(&TxLink, Direction)| (last.0.id, last.1) != (tx_link.id, packet.direction);
        if let Some((link, direction)) = last.filter(is_other) {
            let packets = packets.get(..at).unwrap_or_default();
            let sum = SentFrames { link, direction, bytes: mem::take(&mut bytes) };
            send_all(io, sum, &mut leaving, packets, state);
        }
        last = Some((tx_link, packet.direction));
        bytes += buf.data().len();
        leaving.push(buf);
    }
    if let Some((link, direction)) = last {
        send_all(io, SentFrames { link, direction, bytes }, &mut leaving, packets, state);
    }
    rx.extend(staying);
}

/// What frames that leave together have in common.
#[derive(Clone, Copy)]
pub(super) struct SentFrames<'v> {
    pub link: &'v TxLink,
    pub direction: Direction,
    /// Their octets together.
    pub bytes: usize,
}

/// Sends `frames`. Of the packets in `packets` that leave through their link in their direction now, the last
/// `frames.len()` are those of `frames`, in order. Frames that the port does not take are queued or dropped.
pub(super) fn send_all<Io: PacketIo>(
    io: &mut Io,
    SentFrames { link, direction, bytes }: SentFrames<'_>,
    frames: &mut Burst<Io::Buf>,
    packets: &[FastPacket<'_>],
    state: &mut WorkerState<Io::Buf>,
) {
    let queued = frames.len();
    if !state.queues.backlog.blocks(link.port) {
        io.tx_burst(link.port, frames);
    }
    let sent = queued.saturating_sub(frames.len());
    let mut sent_bytes = bytes;
    if !frames.is_empty() {
        let refused = take_back(link, direction, frames, packets, state);
        sent_bytes = sent_bytes.saturating_sub(refused);
    }
    state.tally.transmit_many(link.id, direction, sent, sent_bytes);
}

/// Queues or drops the frames that a port did not take: of the packets in `packets` that leave through
/// `tx_link` in `direction` now, the last `refused.len()`. Returns how many octets they have.
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
        // A rule that was replaced meanwhile counts as not guaranteed, unless filters selected it.
        let is_guaranteed = packet.any_rule().is_some_and(|rule| rule.is_guaranteed());
        let origin = Origin::user(direction, is_guaranteed);
        state.queues.backlog.queue_or_drop(tx_link.target(), buf, origin, &mut state.tally);
    }
    bytes
}
