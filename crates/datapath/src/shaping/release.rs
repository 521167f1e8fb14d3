//! Releases waiting packets whose rates admit them.

use crate::departures::Departures;
use crate::shaper::{
    AloneResult, Eligibility, FlowServer, NextPacket, QueueKey, QueuedPacket, TurnContext,
};
use adit_pktio::PacketBuf;
use adit_rules::Guarantee;
use adit_tables::{Leases, prefetch};
use adit_types::Nanos;
use adit_types::limits::BURST_MAX;

use super::rates::{SharingInUse, charge, eligibility, own_pair, time_behind_sharers, wait_counts};
use super::{ReadyFrame, Shaping, discard, send};
use crate::aggregates::AggregateTerms;
use crate::context::StepContext;
use crate::origin::Origin;
use crate::tx_queues::FrameSender;

/// Maximum of packets released per step: four bursts, so that a step stays short. The last flow may
/// finish its turn.
const RELEASES_PER_STEP_MAX: usize = 4 * BURST_MAX;

impl<B: PacketBuf> Shaping<B> {
    /// Sends the waiting packets that their rates admit by now.
    #[inline(never)]
    pub(crate) fn release<Io: Departures<Buf = B>>(
        &mut self,
        ctx: &StepContext<'_>,
        sender: FrameSender<'_, Io>,
    ) {
        let Self { queues, leases, .. } = self;
        let sharing = SharingInUse::of(ctx);
        let mut releaser = Releaser { ctx, leases, sender, sharing, last_sender: None };
        queues.serve(ctx.now, RELEASES_PER_STEP_MAX, &mut releaser);
    }
}

/// Sends packets of flows when it is their turn.
struct Releaser<'e, 'v, Io: Departures> {
    ctx: &'e StepContext<'v>,
    leases: &'e mut Leases,
    sender: FrameSender<'e, Io>,
    sharing: SharingInUse,
    /// The flow that sent last in this step, if there are correlated rates. A turn ends after 16
    /// packets even if the rate has just closed. The flow's next turn then sends nothing, but the
    /// flow has to wait behind its sharers as if it had just sent.
    last_sender: Option<QueueKey>,
}

/// The turn of a flow that may share its rates with other flows.
struct FlowTurn {
    key: QueueKey,
    /// True if the packet that was admitted last is guaranteed.
    is_guaranteed: bool,
    /// How many packets left.
    sent: u64,
    /// How long the last of those packets waited.
    delay: Nanos,
}

impl<Io: Departures> Releaser<'_, '_, Io> {
    /// Returns when a flow whose rates open `at` is served again. A flow that has just sent waits
    /// behind the sharers of its correlated rate.
    fn next_turn_at(&self, key: QueueKey, is_sending: bool, at: Nanos) -> Nanos {
        match self.sharing.correlated_rates && (is_sending || self.last_sender == Some(key)) {
            false => at,
            true => time_behind_sharers(self.ctx, key, at),
        }
    }

    /// Counts packets of a flow that left; the last one waited for `delay`.
    #[inline(always)]
    // PERF (adit-bench datapath --rates wait): inlined, runs in every turn.
    fn count_sent(&mut self, key: QueueKey, pkts: u64, delay: Nanos) {
        if pkts > 0 {
            wait_counts(&self.ctx.view, key).inspect(|waits| waits.remove(pkts, delay));
            if self.sharing.correlated_rates {
                self.last_sender = Some(key);
            }
        }
    }
}

impl<Io: Departures> FlowServer<ReadyFrame<Io::Buf>> for Releaser<'_, '_, Io> {
    type Turn = FlowTurn;

    #[inline(always)]
    // PERF (adit-bench datapath --rates wait): inlined, runs in every turn.
    fn prefetch_flow(&self, key: &QueueKey) {
        self.ctx.view.prefetch_pair_and_waits(key.session, key.direction);
    }

    #[inline(always)]
    // PERF (adit-bench datapath --rates wait): inlined, runs in every turn.
    fn prefetch<T>(&self, place: &T) {
        prefetch(place);
    }

    /// Sends the next packet of a flow with an [`own_pair`], which no sharer ever delays.
    #[inline(always)]
    // PERF (adit-bench datapath --rates wait): inlined; most turns have one packet.
    fn serve_alone(&mut self, packet: NextPacket<'_, ReadyFrame<Io::Buf>>) -> AloneResult {
        let (key, now) = (packet.key(), self.ctx.now);
        let Some(pair) = own_pair(self.ctx, key, self.sharing) else { return AloneResult::Shared };
        let Some(room) = pair.charge_waiting(key.buckets, now, packet.bytes()) else {
            return match pair.check_open(key.buckets, now) {
                Some(Err(at)) => AloneResult::Closed(at),
                _ => AloneResult::Shared,
            };
        };
        if let Some(held) = packet.take() {
            let delay = now.since(held.since);
            self.count_sent(key, 1, delay);
            // A flow with only the first two buckets has all packets guaranteed, or none.
            let is_guaranteed = AggregateTerms::of_tag(key.tag).guarantee == Guarantee::Whole;
            let origin = Origin::user(key.direction, is_guaranteed);
            send(&mut self.sender, origin, delay, held.packet);
        }
        match room {
            0.. => AloneResult::Taken,
            // No saturation is needed: times are below 2^62 nanoseconds.
            _ => AloneResult::TakenLast(Nanos(now.0.wrapping_sub(room.cast_unsigned()))),
        }
    }

    fn begin_turn(&mut self, key: &QueueKey) -> FlowTurn {
        FlowTurn { key: *key, is_guaranteed: false, sent: 0, delay: Nanos(0) }
    }

    fn admit(&mut self, turn: &mut FlowTurn, bytes: u16, context: TurnContext) -> Eligibility {
        match try_charge(self.ctx, self.leases, turn.key, bytes, context) {
            Ok(is_guaranteed) => {
                turn.is_guaranteed = is_guaranteed;
                turn.sent += 1;
                Eligibility::Now
            }
            Err(Eligibility::At(at)) => {
                Eligibility::At(self.next_turn_at(turn.key, turn.sent > 0, at))
            }
            Err(later) => later,
        }
    }

    fn take(
        &mut self,
        turn: &mut FlowTurn,
        may_leave: bool,
        held: QueuedPacket<ReadyFrame<Io::Buf>>,
    ) {
        if !may_leave {
            discard(self.ctx, self.sender.tally, turn.key, &held);
            return;
        }
        turn.delay = self.ctx.now.since(held.since);
        let origin = Origin::user(turn.key.direction, turn.is_guaranteed);
        send(&mut self.sender, origin, turn.delay, held.packet);
    }

    fn end_turn(&mut self, turn: FlowTurn) {
        let FlowTurn { key, sent, delay, is_guaranteed: _ } = turn;
        self.count_sent(key, sent, delay);
    }
}

/// Charges the rates of a packet of `bytes` octets if they admit it. Returns whether the packet is
/// guaranteed.
///
/// # Errors
/// Returns the [`eligibility`] of the packet's flow if that is not `Eligibility::Now`.
#[inline(never)]
fn try_charge(
    ctx: &StepContext<'_>,
    leases: &mut Leases,
    key: QueueKey,
    bytes: u16,
    turn: TurnContext,
) -> Result<bool, Eligibility> {
    match eligibility(ctx, leases, key, turn) {
        Eligibility::Now => Ok(charge(ctx, leases, key, bytes)),
        later => Err(later),
    }
}
