//! Sends frames of the stages, of the slow path and of the control thread.

use adit_pktio::PacketBuf;
use adit_tables::Interface;
use adit_types::Nanos;

use crate::books::Books;
use crate::context::StepContext;
use crate::departures::Departures;
use crate::egress::Egress;
use crate::interfaces::TxTarget;
use crate::limits::MessageLimits;
use crate::origin::Origin;
use crate::tx_queues::TxFrame;
use crate::worker_queues::WorkerQueues;

/// The parts of a worker that send and count a frame.
pub(crate) struct Transmitter<'w, Io: Departures> {
    /// The way out of the worker.
    pub io: &'w mut Io,
    /// Where a frame may wait.
    pub queues: &'w mut WorkerQueues<Io::Buf>,
    /// Limits of messages that received packets cause.
    pub limits: &'w mut MessageLimits,
    pub books: &'w mut Books,
}

impl<Io: Departures> Transmitter<'_, Io> {
    /// Sends the frame in `buf` through `egress`. If the neighbor's address is unknown: queues a
    /// received packet or an End Marker; counts a copy as lost, but requests the address; counts
    /// any other frame of Adit as lost. A received packet or an End Marker also waits if earlier
    /// frames wait for the neighbor.
    #[inline]
    pub(crate) fn send(
        &mut self,
        ctx: &StepContext<'_>,
        buf: Io::Buf,
        egress: &Egress<'_>,
        origin: Origin,
    ) {
        let waits =
            matches!(origin, Origin::Received(_) | Origin::Guaranteed(_) | Origin::EndMarker);
        let is_resolved = match waits {
            true => self.queues.unresolved.is_resolved(egress),
            false => egress.mac.is_some(),
        };
        let bytes = buf.data().len();
        let frame = TxFrame { buf, bytes, origin };
        if is_resolved {
            self.queues.tx.push(self.io, &mut self.books.tally, egress.target(), frame);
            return;
        }
        match origin {
            Origin::Received(_) | Origin::Guaranteed(_) | Origin::EndMarker => {
                self.queues.unresolved.hold(ctx.now, frame, egress, self.books);
            }
            Origin::Copy => {
                self.books.tally.lose_duplicate();
                self.request_neighbor(ctx.now, egress);
            }
            Origin::Own | Origin::HandedOn | Origin::Counted => {
                origin.count_lost(frame.buf.data(), &mut self.books.tally);
            }
        }
    }

    /// Sends a frame of our own through an interface.
    pub(crate) fn originate(&mut self, interface: &Interface, buf: Io::Buf) {
        let bytes = buf.data().len();
        let frame = TxFrame { buf, bytes, origin: Origin::Own };
        self.queues.tx.push(self.io, &mut self.books.tally, TxTarget::of(interface), frame);
    }

    /// Counts a frame of our own that could not be sent.
    pub(crate) fn lose_originated(&mut self) {
        self.books.tally.lose_originated();
    }

    /// Requests the link-layer address of the neighbor of `egress`, within the limit.
    #[cold]
    fn request_neighbor(&mut self, now: Nanos, egress: &Egress<'_>) {
        if self.limits.take_neighbor_request_of_duplicate(now) {
            self.books.report(egress.neighbor_unresolved());
        }
    }
}
