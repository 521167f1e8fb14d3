//! Packets that wait for the rates of their QERs or for aggregates, ready to leave. A queue here is
//! a flow of the shaper; both words mean the same.
//!
//! Packets wait here as the last step: they are already rewritten and counted in URRs. Their rates
//! are charged when they leave, by the limits of that moment. When a session moves to another
//! tunnel, its waiting downlink packets leave at once, before the End Marker. So do the packets of
//! a queue that no PDR of the session uses any more.

mod changes;
mod rates;
mod release;

use crate::departures::Departures;
use crate::shaper::{QueueKey, QueuedPacket, Queues, QueuesConfig, ReviewOutcome};
use adit_pktio::PacketBuf;
use adit_rules::{DropReason, Excess, TapSet, TapWait};
use adit_tables::Leases;
use adit_types::limits::{SHAPED_PKTS_MAX, SHAPED_PKTS_PER_FLOW_MAX};
use adit_types::{Direction, Nanos, SessionIndex};

pub(crate) use self::changes::ReviewTime;
pub(crate) use self::rates::{buckets, queue_key};
use self::rates::{charge, first_eligibility, meters, wait_counts};
use crate::aggregates::{AGGREGATES_MAX, AggregateTerms, turn_of_arrival};
use crate::context::StepContext;
use crate::interfaces::TxTarget;
use crate::late_packets::{EndedWait, WaitEnd};
use crate::origin::Origin;
use crate::tally::StepTally;
use crate::tx_queues::{FrameSender, TxFrame};

/// A frame that is ready to leave.
#[derive(Debug)]
pub(crate) struct ReadyFrame<B> {
    buf: B,
    /// Length of the frame, so that the buffer is not read again. Unit: octets.
    len: u16,
    target: TxTarget,
    mark: FrameMark,
}

/// Flags of a waiting frame, and the taps that selected it; most frames have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FrameMark(u8);

impl FrameMark {
    const NONE: Self = Self(0);
    /// The frame does not leave, but is switched to another UE at its target.
    const SWITCHED: Self = Self(1 << 7);

    /// Adds the taps that selected the frame.
    const fn with(self, taps: TapSet) -> Self {
        Self(self.0 | taps.bits())
    }

    const fn is_switched(self) -> bool {
        self.0 & Self::SWITCHED.0 != 0
    }

    const fn taps(self) -> TapSet {
        TapSet::from_bits(self.0)
    }
}

impl<B: PacketBuf> ReadyFrame<B> {
    /// Makes a frame of `buf` that leaves through `target`.
    #[inline(always)]
    // PERF (adit-bench datapath --rates wait): runs for every packet that waits.
    pub(crate) fn new(buf: B, target: TxTarget) -> Self {
        #[allow(clippy::cast_possible_truncation, reason = "no frame is longer")]
        let len = buf.data_len() as u16;
        Self { buf, len, target, mark: FrameMark::NONE }
    }

    /// Makes a frame of `buf` that is switched to another UE at `target`.
    pub(crate) fn switched(buf: B, target: TxTarget) -> Self {
        Self { mark: FrameMark::SWITCHED, ..Self::new(buf, target) }
    }

    /// Notes in the frame that `taps` selected it.
    pub(crate) fn selected_by(self, taps: TapSet) -> Self {
        Self { mark: self.mark.with(taps), ..self }
    }
}

/// The queues of one worker.
pub(crate) type ShapingQueues<B> = Queues<ReadyFrame<B>>;

/// The packets of one worker that wait for rates.
pub(crate) struct Shaping<B> {
    pub queues: ShapingQueues<B>,
    /// Octets that are leased from aggregates.
    pub leases: Leases,
    /// How many changes of rules ([`adit_tables::RateChange`]) have been reviewed since the start.
    rate_changes_seen: u64,
}

impl<B: PacketBuf> Shaping<B> {
    /// Allocates all memory, for `pkts_max` packets of `sessions_max` sessions.
    pub(crate) fn new(pkts_max: usize, sessions_max: usize, leases: Leases) -> Self {
        let queues = Queues::new(QueuesConfig {
            pkts_max: pkts_max.min(SHAPED_PKTS_MAX),
            flow_pkts_max: SHAPED_PKTS_PER_FLOW_MAX,
            sessions_max,
            shared_rates: AGGREGATES_MAX,
        });
        Self { queues, leases, rate_changes_seen: 0 }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.queues.len()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// True if packets with rates must first check for a queue or for room: packets wait, or the
    /// queues have no capacity. If false, a packet joins a queue only if one of its rates is
    /// closed.
    #[inline]
    pub(crate) fn must_check_queues(&self) -> bool {
        !self.queues.is_empty() || !self.queues.has_room(0)
    }

    /// Queues a frame that has to wait, because its rates do not admit it yet or earlier packets of
    /// its queue wait. Drops it as `ShapingQueueFull` if there is no room.
    #[inline(never)]
    pub(crate) fn enqueue(
        &mut self,
        ctx: &StepContext<'_>,
        tally: &mut StepTally,
        key: QueueKey,
        held: QueuedPacket<ReadyFrame<B>>,
    ) {
        let bytes = held.bytes;
        if self.enqueue_first(ctx, key, held) {
            wait_counts(&ctx.view, key).inspect(|waits| waits.add());
        } else {
            count_overflow(ctx, tally, key, bytes);
        }
    }

    /// Queues a packet, also if its queue is empty so far. Returns false if there is no room.
    fn enqueue_first(
        &mut self,
        ctx: &StepContext<'_>,
        key: QueueKey,
        held: QueuedPacket<ReadyFrame<B>>,
    ) -> bool {
        let Self { queues, leases, .. } = self;
        let turn = turn_of_arrival(queues.contended());
        queues.push(key, || first_eligibility(ctx, leases, key, turn), held).is_ok()
    }

    /// Checks whether the aggregates admit a packet that arrives now.
    ///
    /// # Errors
    /// Returns whether to queue or to drop the packet if it exceeds an aggregate.
    pub(crate) fn check_aggregates(
        &mut self,
        ctx: &StepContext<'_>,
        key: QueueKey,
    ) -> Result<(), Excess> {
        let Self { queues, leases, .. } = self;
        let terms = AggregateTerms::of_tag(key.tag);
        if terms.is_guaranteed(ctx, key.session, key.direction) {
            return Ok(());
        }
        let opened =
            terms.check_open(ctx, leases, key.direction, turn_of_arrival(queues.contended()));
        opened.map_err(|blocking| blocking.excess)
    }

    /// Charges the rates of a packet although they did not admit it.
    #[cold]
    pub(crate) fn charge_unchecked(&mut self, ctx: &StepContext<'_>, key: QueueKey, bytes: u16) {
        charge(ctx, &mut self.leases, key, bytes);
    }

    /// Sends all waiting downlink packets of a session without checking its rates: later packets
    /// must not overtake them.
    pub(crate) fn release_session<Io: Departures<Buf = B>>(
        &mut self,
        ctx: &StepContext<'_>,
        sender: &mut FrameSender<'_, Io>,
        session: SessionIndex,
    ) {
        let Self { queues, leases, .. } = self;
        queues.take_all(session, Direction::Downlink, |key, held| {
            send_unchecked(ctx, leases, sender, *key, held);
        });
    }

    /// Moves the packets of the sessions for which `is_moving` is true into `moved`; each queue's
    /// packets keep their order. They stay counted as waiting.
    #[cold]
    pub(crate) fn take_moving(
        &mut self,
        is_moving: &dyn Fn(SessionIndex) -> bool,
        moved: &mut Vec<(QueueKey, QueuedPacket<ReadyFrame<B>>)>,
    ) {
        let review = |key: &QueueKey| match is_moving(key.session) {
            true => ReviewOutcome::Release,
            false => ReviewOutcome::Recheck,
        };
        self.queues.review_all(review, |key, _, held| moved.push((*key, held)));
    }

    /// Queues packets that waited in another worker; drops those for which there is no room.
    #[cold]
    pub(crate) fn put(
        &mut self,
        ctx: &StepContext<'_>,
        tally: &mut StepTally,
        moved: &mut Vec<(QueueKey, QueuedPacket<ReadyFrame<B>>)>,
    ) {
        for (key, held) in moved.drain(..) {
            let (bytes, delay) = (held.bytes, ctx.now.since(held.since));
            if !self.enqueue_first(ctx, key, held) {
                wait_counts(&ctx.view, key).inspect(|waits| waits.remove(1, delay));
                count_overflow(ctx, tally, key, bytes);
            }
        }
    }

    /// Drops all packets that wait. Leaves the sessions' counts of waiting packets as they are.
    pub(crate) fn drain(&mut self, tally: &mut StepTally) {
        self.queues.drain(|_| tally.drop(DropReason::ShapingQueueFull));
    }
}

/// Counts the drop of a packet of `bytes` octets for which the queues had no room.
#[cold]
#[inline(never)]
pub(crate) fn count_overflow(
    ctx: &StepContext<'_>,
    tally: &mut StepTally,
    key: QueueKey,
    bytes: u16,
) {
    meters(&ctx.view, key).next().inspect(|meter| meter.count_dropped(bytes));
    tally.drop_waiting(DropReason::ShapingQueueFull, &[]);
}

/// Drops a waiting packet because a gate was closed or a rate was set to zero, both counted as
/// `GateClosed`, or because its session ended.
#[cold]
fn discard<B: PacketBuf>(
    ctx: &StepContext<'_>,
    tally: &mut StepTally,
    key: QueueKey,
    held: &QueuedPacket<ReadyFrame<B>>,
) {
    if let Some(meter) = meters(&ctx.view, key).next() {
        meter.wait_counts().remove(1, ctx.now.since(held.since));
        meter.count_dropped(held.bytes);
    }
    let (taps, time) = (held.packet.mark.taps(), ctx.now.since(held.since));
    let waited = EndedWait { taps, wait: TapWait::Rate, time };
    let reason = match ctx.view.rules(key.session) {
        Some(_) => DropReason::GateClosed,
        None => DropReason::BufferDiscarded,
    };
    tally.drop_waited(reason, waited, held.packet.buf.data());
}

/// Sends a waiting packet without checking its rates, but charges them.
fn send_unchecked<Io: Departures>(
    ctx: &StepContext<'_>,
    leases: &mut Leases,
    sender: &mut FrameSender<'_, Io>,
    key: QueueKey,
    held: QueuedPacket<ReadyFrame<Io::Buf>>,
) {
    let origin = Origin::user(key.direction, charge(ctx, leases, key, held.bytes));
    let delay = ctx.now.since(held.since);
    wait_counts(&ctx.view, key).inspect(|waits| waits.remove(1, delay));
    send(sender, origin, delay, held.packet);
}

/// Sends a packet that waited for `delay`.
#[inline(always)]
// PERF (adit-bench datapath --rates wait): runs for every packet that waited; a call would pass
// the packet through memory.
fn send<Io: Departures>(
    sender: &mut FrameSender<'_, Io>,
    origin: Origin,
    delay: Nanos,
    packet: ReadyFrame<Io::Buf>,
) {
    sender.tally.delay(delay);
    if packet.mark != FrameMark::NONE {
        return send_marked(sender, origin, delay, packet);
    }
    let ReadyFrame { buf, len, target, mark: _ } = packet;
    sender.send(target, TxFrame { buf, bytes: len.into(), origin });
}

/// Sends a packet that is switched to another UE, or that taps selected.
#[inline(never)]
fn send_marked<Io: Departures>(
    sender: &mut FrameSender<'_, Io>,
    origin: Origin,
    delay: Nanos,
    packet: ReadyFrame<Io::Buf>,
) {
    let ReadyFrame { buf, len, target, mark } = packet;
    let end = match mark.is_switched() {
        true => WaitEnd::Switched,
        false => WaitEnd::Leaves(target),
    };
    let taps = mark.taps();
    if !taps.is_empty() {
        let waited = EndedWait { taps, wait: TapWait::Rate, time: delay };
        sender.tally.end_wait(end, waited, buf.data());
    }
    match mark.is_switched() {
        true => sender.tx.switched.push(target.port, buf, sender.tally),
        false => sender.send(target, TxFrame { buf, bytes: len.into(), origin }),
    }
}
