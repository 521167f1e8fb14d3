//! Sends the rewritten packets of a burst, or queues them for their rates.

use core::mem;

use adit_pktio::{Burst, PacketBuf, PacketIo};

use super::FastPackets;
use super::direction::FastDirection;
use super::packet::FastPacket;
use crate::context::StepContext;
use crate::interfaces::TxLink;
use crate::origin::Origin;
use crate::shaping::ReadyFrame;
use crate::worker_state::WorkerState;

/// Sends the rewritten packets of a burst of which some take the stages, wait for their rates, or
/// leave through another link than others.
#[inline(never)]
pub(super) fn send_some<Io: PacketIo, D: FastDirection>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    packets: &FastPackets<'_>,
    rx: &mut Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) {
    let [mut staying, mut leaving] = [Burst::<Io::Buf>::new(), Burst::new()];
    let mut last: Option<&TxLink> = None;
    let mut bytes = 0;
    for (at, (buf, packet)) in rx.drain(..).zip(packets).enumerate() {
        let tx_link = ctx.interfaces.tx_link(packet.interface).filter(|_| packet.is_usual);
        let Some(tx_link) = tx_link else {
            staying.push(buf);
            continue;
        };
        if !packet.ticket.is_none() {
            let key = packet.ticket.key(packet.session, D::DIRECTION);
            let frame = ReadyFrame::new(buf, tx_link.target());
            let WorkerState { shaping, tally, .. } = &mut *state;
            shaping.enqueue(ctx, tally, key, packet.ticket.queue(), frame, packet.len);
            continue;
        }
        if let Some(last) = last.filter(|last| last.id != tx_link.id) {
            let packets = packets.get(..at).unwrap_or_default();
            send_all::<Io, D>(io, last, &mut leaving, mem::take(&mut bytes), packets, state);
        }
        last = Some(tx_link);
        bytes += buf.data().len();
        leaving.push(buf);
    }
    if let Some(tx_link) = last {
        send_all::<Io, D>(io, tx_link, &mut leaving, bytes, packets, state);
    }
    rx.extend(staying);
}

/// Sends `frames`, in sum `bytes` octets, through `tx_link`. Of the packets in `packets` that leave through
/// it now, the last `frames.len()` are those of `frames`, in order. Frames that the port does not take
/// are queued or dropped.
pub(super) fn send_all<Io: PacketIo, D: FastDirection>(
    io: &mut Io,
    tx_link: &TxLink,
    frames: &mut Burst<Io::Buf>,
    bytes: usize,
    packets: &[FastPacket<'_>],
    state: &mut WorkerState<Io::Buf>,
) {
    let queued = frames.len();
    if !state.queues.backlog.blocks(tx_link.port) {
        io.tx_burst(tx_link.port, frames);
    }
    let sent = queued.saturating_sub(frames.len());
    let mut sent_bytes = bytes;
    if !frames.is_empty() {
        let refused = take_back::<_, D>(tx_link, frames, packets, state);
        sent_bytes = sent_bytes.saturating_sub(refused);
    }
    state.tally.transmit_many(tx_link.id, D::DIRECTION, sent, sent_bytes);
}

/// Queues or drops the frames that a port did not take: of the packets in `packets` that leave through
/// `tx_link` now, the last `refused.len()`. Returns how many octets they have.
#[cold]
fn take_back<B: PacketBuf, D: FastDirection>(
    tx_link: &TxLink,
    refused: &mut Burst<B>,
    packets: &[FastPacket<'_>],
    state: &mut WorkerState<B>,
) -> usize {
    let leaves = |packet: &&FastPacket<'_>| {
        packet.is_usual && packet.interface == tx_link.id && packet.ticket.is_none()
    };
    let sent = packets.iter().filter(leaves).count().saturating_sub(refused.len());
    let mut bytes = 0;
    for (buf, packet) in refused.drain(..).zip(packets.iter().filter(leaves).skip(sent)) {
        bytes += buf.data().len();
        // A rule that was replaced meanwhile counts as not guaranteed, unless filters selected it.
        let is_guaranteed = packet.rule().is_some_and(|rule| rule.is_guaranteed());
        let origin = Origin::user(D::DIRECTION, is_guaranteed);
        state.queues.backlog.queue_or_drop(tx_link.target(), buf, origin, &mut state.tally);
    }
    bytes
}
