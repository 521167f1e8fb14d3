//! Sends the frame of a packet that its FAR forwards, or queues it for its rates.

use adit_pktio::PacketBuf;
use adit_types::SessionIndex;

use crate::columns::Matched;
use crate::context::StepContext;
use crate::departures::Departures;
use crate::egress::Egress;
use crate::shaper::QueuedPacket;
use crate::shaping::{ReadyFrame, queue_key};
use crate::tally::StepTally;
use crate::transmitter::Transmitter;
use crate::worker_queues::WorkerQueues;

/// A frame that is complete, with the packet that it was made of.
pub(super) struct WrittenFrame<'p, 'v, B> {
    pub buf: B,
    /// Length of the user's packet. Unit: octets.
    pub len: u16,
    pub session: SessionIndex,
    pub matched: &'p Matched<'v>,
    /// The egress that the frame leaves by.
    pub egress: &'p Egress<'v>,
}

/// Sends a frame, or queues it if the packet has to wait for its rates.
#[inline]
pub(super) fn send_or_queue<Io: Departures>(
    ctx: &StepContext<'_>,
    tx: &mut Transmitter<'_, Io>,
    frame: WrittenFrame<'_, '_, Io::Buf>,
) {
    let WrittenFrame { buf, len, session, matched, egress } = frame;
    if !matched.must_queue {
        tx.send(ctx, buf, egress, matched.origin());
        return;
    }
    let key = queue_key(session, matched);
    if egress.mac.is_none() {
        // The packet waits for the neighbor instead, and no rate is checked when it leaves. So it
        // is charged now, at the cost of later packets.
        if tx.queues.unresolved.has_room(egress) {
            tx.queues.shaping.charge_unchecked(ctx, key, len);
        }
        tx.send(ctx, buf, egress, matched.origin());
        return;
    }
    let tally = &mut tx.books.tally;
    let packet = ReadyFrame::new(buf, egress.target()).selected_by(tally.taps_of_current_packet());
    let held = QueuedPacket { packet, bytes: len, since: ctx.now };
    tx.queues.shaping.enqueue(ctx, tally, key, held);
}

/// Switches a frame to another UE, or queues it first if the packet has to wait for its rates.
#[cold]
pub(super) fn switch_or_queue<B: PacketBuf>(
    ctx: &StepContext<'_>,
    queues: &mut WorkerQueues<B>,
    tally: &mut StepTally,
    frame: WrittenFrame<'_, '_, B>,
) {
    let WrittenFrame { buf, len, session, matched, egress } = frame;
    let target = egress.target();
    if matched.must_queue {
        let packet = ReadyFrame::switched(buf, target).selected_by(tally.taps_of_current_packet());
        let held = QueuedPacket { packet, bytes: len, since: ctx.now };
        queues.shaping.enqueue(ctx, tally, queue_key(session, matched), held);
    } else {
        queues.tx.switched.push(target.port, buf, tally);
    }
}
