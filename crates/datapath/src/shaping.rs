//! Packets that wait for the rates of their QERs, ready to leave.
//!
//! A packet waits behind everything else that is done with it: rewritten, and counted as used. It
//! passes its buckets when it leaves, by the limits of that moment. Those that wait when the tunnel
//! of their session is left leave at once, ahead of the End Marker; so do those of a flow that the
//! session's PDRs lead no packets into any more.

use adit_pktio::{PacketBuf, PacketIo};
use adit_rules::{
    DropReason, Excess, FAST_RULE_METERS_MAX, Guarantee, PublishedPdr, PublishedRules, RateLimit,
};
use adit_shaper::{
    Eligibility, FlowIndex, FlowServer, QueueKey, QueuedPacket, Queues, QueuesConfig,
    ReviewOutcome, SLOT, TurnContext,
};
use adit_tables::{
    Leases, Meter, MeterQueue, NextRateChange, PairTurn, RateChange, TablesView, prefetch,
};
use adit_types::limits::{BURST_MAX, SHAPED_PKTS_MAX, SHAPED_PKTS_PER_FLOW_MAX};
use adit_types::{Direction, InterfaceId, Nanos, PortId, SessionIndex};

use crate::aggregates::{ClosedRate, SHARED_RATES, Sharing, arriving};
use crate::columns::Matched;
use crate::stage::egress::StepContext;
use crate::stage::transmit::TxQueues;
use crate::tally::StepTally;
use crate::worker_state::{Origin, WorkerState};

/// Packets that leave in one step, and what the last turn of a flow adds: four bursts, so that a step
/// stays short.
const RELEASES_PER_STEP_MAX: usize = 4 * BURST_MAX;

/// Flows on the same rate that a flow stands behind; further ones take their chance. Together they
/// are late by less than rates make up for.
const SHARERS_BEHIND_MAX: u64 = 32;

/// A frame that is ready to leave.
#[derive(Debug)]
pub(crate) struct ReadyFrame<B> {
    buf: B,
    /// Octets of the frame, which is not looked at again.
    len: u16,
    /// Where it leaves.
    exit: (PortId, InterfaceId),
    /// It turns round there instead.
    turns: bool,
}

impl<B: PacketBuf> ReadyFrame<B> {
    /// The frame in `buf`, which leaves by `exit`.
    #[inline]
    pub fn new(buf: B, exit: (PortId, InterfaceId)) -> Self {
        // Longer frames than 65535 octets do not exist.
        let len = u16::try_from(buf.data().len()).unwrap_or(u16::MAX);
        Self { buf, len, exit, turns: false }
    }

    /// The frame in `buf`, which turns round at `exit`.
    pub fn turning(buf: B, exit: (PortId, InterfaceId)) -> Self {
        Self { turns: true, ..Self::new(buf, exit) }
    }
}

/// The packets of one worker that wait for rates.
pub(crate) type Shaping<B> = Queues<ReadyFrame<B>>;

/// Room for `pkts_max` packets of `sessions_max` sessions.
pub(crate) fn shaping<B>(pkts_max: usize, sessions_max: usize) -> Shaping<B> {
    let pkts_max = pkts_max.min(SHAPED_PKTS_MAX);
    let (flow_pkts_max, shared_rates) = (SHAPED_PKTS_PER_FLOW_MAX, SHARED_RATES);
    Queues::new(QueuesConfig { pkts_max, flow_pkts_max, sessions_max, shared_rates })
}

/// The buckets that a packet has to pass, with their limits by its rules.
#[inline]
pub(crate) fn buckets<'m>(matched: &'m Matched<'_>) -> impl Iterator<Item = (RateLimit, u8)> + 'm {
    buckets_of(matched.rules, matched.pdr, matched.direction)
}

#[inline]
fn buckets_of<'m>(
    rules: &'m PublishedRules,
    pdr: &'m PublishedPdr,
    direction: Direction,
) -> impl Iterator<Item = (RateLimit, u8)> + 'm {
    let meters = rules.qers_of(pdr).filter_map(|qer| qer.meter);
    let limits = meters.map(move |meter| (meter.limit(direction), meter.bucket));
    limits.filter(|(limit, _)| *limit != RateLimit::UNLIMITED)
}

/// The flow that a packet waits in.
pub(crate) fn queue_key(session: SessionIndex, matched: &Matched<'_>) -> QueueKey {
    queue_key_of(session, matched.rules, matched.pdr, matched.direction)
}

/// The flow that packets of a PDR wait in.
fn queue_key_of(
    session: SessionIndex,
    rules: &PublishedRules,
    pdr: &PublishedPdr,
    direction: Direction,
) -> QueueKey {
    let buckets =
        buckets_of(rules, pdr, direction).fold(0, |set, (_, bucket)| set | 1 << (bucket % 64));
    QueueKey { session, direction, buckets, tag: Sharing::of(rules, pdr, direction).tag() }
}

/// The buckets of a flow; those that no rules have any more are left out.
#[inline]
fn meters<'v>(view: &TablesView<'v>, key: QueueKey) -> impl Iterator<Item = Meter<'v>> {
    let QueueKey { session, direction, mut buckets, tag: _ } = key;
    core::iter::from_fn(move || {
        while buckets != 0 {
            let number = u8::try_from(buckets.trailing_zeros()).unwrap_or_default();
            buckets &= buckets - 1;
            if let Some(meter) = view.meter(session, direction, number) {
                return Some(meter);
            }
        }
        None
    })
}

/// Who waits behind the first bucket of a flow, if it has one.
#[inline]
fn meter_queue<'v>(view: &TablesView<'v>, key: QueueKey) -> Option<MeterQueue<'v>> {
    match key.buckets {
        0 => None,
        which if which < 1 << FAST_RULE_METERS_MAX => {
            view.meter_queue(key.session, key.direction, which)
        }
        _ => meters(view, key).next().map(|meter| meter.queue()),
    }
}

/// Lets a frame wait whose rates do not let it pass yet, in `flow` where packets of it wait. `bytes`
/// are those of the user's packet.
// PERF: once per packet that waits; a call would pass the packet through memory.
#[inline(always)]
pub(crate) fn enqueue<B: PacketBuf>(
    env: &StepContext<'_>,
    (shaping, leases, tally): (&mut Shaping<B>, &mut Leases, &mut StepTally),
    (key, flow): (QueueKey, Option<FlowIndex>),
    packet: ReadyFrame<B>,
    bytes: u16,
) {
    let held = QueuedPacket { packet, bytes, since: env.now };
    let is_held = match flow {
        Some(flow) => shaping.append(flow, held).is_ok(),
        None => enqueue_first(env, (shaping, leases), key, held),
    };
    if is_held {
        meter_queue(&env.view, key).inspect(|waiting| waiting.add());
    } else {
        meters(&env.view, key).next().inspect(|meter| meter.count_dropped(bytes));
        tally.drop(DropReason::ShapingQueueFull);
    }
}

/// Lets a packet wait, perhaps as the first one of its flow; tells whether there was room.
#[inline(never)]
fn enqueue_first<B: PacketBuf>(
    env: &StepContext<'_>,
    (shaping, leases): (&mut Shaping<B>, &mut Leases),
    key: QueueKey,
    held: QueuedPacket<ReadyFrame<B>>,
) -> bool {
    let standing = arriving(shaping.contended());
    shaping.push(key, || first_eligibility(env, leases, key, standing), held).is_ok()
}

/// As of [`pace`], by one look where the flow's buckets are its session's own.
fn first_eligibility(
    env: &StepContext<'_>,
    leases: &mut Leases,
    key: QueueKey,
    standing: TurnContext,
) -> Eligibility {
    let Some(mut pair) = own_pair(env, key, SharingInUse::of(env)) else {
        return eligibility(env, leases, key, standing);
    };
    let opened = pair.check_open();
    pair.end();
    opened.map_or_else(Eligibility::At, |()| Eligibility::Now)
}

/// What sessions share.
#[derive(Debug, Clone, Copy)]
struct SharingInUse {
    /// Rates of a slice, or of all.
    aggregates: bool,
    /// Some session has shared a rate by its QER Correlation ID.
    rates: bool,
}

impl SharingInUse {
    #[inline]
    fn of(env: &StepContext<'_>) -> Self {
        let aggregates = !env.view.aggregates().is_empty();
        Self { aggregates, rates: env.view.any_shared_rate() }
    }
}

/// The buckets of a flow, if they are its session's own, and none is closed for good.
#[inline]
fn own_pair<'v>(
    env: &StepContext<'v>,
    key: QueueKey,
    shared: SharingInUse,
) -> Option<PairTurn<'v>> {
    if shared.aggregates
        || matches!(Sharing::of_tag(key.tag).guarantee, Guarantee::Bucket(_))
        || key.buckets >= 1 << FAST_RULE_METERS_MAX
        || shared.rates && sharers(env, key) > 0
    {
        return None;
    }
    env.view.meter_pair(key.session, key.direction)?.turn(key.buckets, env.now)
}

/// When the next packet of a flow may leave, by the limits of now.
fn eligibility(
    env: &StepContext<'_>,
    leases: &mut Leases,
    key: QueueKey,
    standing: TurnContext,
) -> Eligibility {
    let mut pace = Eligibility::Now;
    for meter in meters(&env.view, key) {
        let limit = meter.limit();
        if meter.is_open(limit, env.now) {
            continue;
        }
        let Some(at) = meter.opens_at(limit, env.now) else { return Eligibility::Never };
        pace = match pace {
            Eligibility::At(other) => Eligibility::At(other.max(at)),
            _ => Eligibility::At(at),
        };
    }
    if pace != Eligibility::Now || env.view.aggregates().is_empty() {
        return pace;
    }
    let sharing = Sharing::of_tag(key.tag);
    let guarantee = guarantee_opens_at(env, key, sharing);
    if guarantee.is_some_and(|at| at <= env.now) {
        return Eligibility::Now;
    }
    match (sharing.check_open(env, leases, key.direction, standing), guarantee) {
        (Ok(()), _) => Eligibility::Now,
        // What exceeds its guarantee has no turn, nor what waits for its own rate where a shared one
        // drops: others would be dropped because it waits.
        (Err(_), Some(at)) => Eligibility::At(at),
        (Err(ClosedRate { excess: Excess::Policed, at, .. }), None) => Eligibility::At(at),
        (Err(ClosedRate { own_rate: home, rate, at, .. }), None) => {
            Eligibility::InTurn { own_rate: home, rate, at, quantum: quantum(env, key) }
        }
    }
}

/// When a flow may send what is guaranteed; `None` where nothing is.
fn guarantee_opens_at(env: &StepContext<'_>, key: QueueKey, sharing: Sharing) -> Option<Nanos> {
    match sharing.guarantee {
        Guarantee::Nothing => None,
        Guarantee::Whole => Some(env.now),
        Guarantee::Bucket(bucket) => {
            let meter = env.view.meter(key.session, key.direction, bucket)?;
            let limit = meter.limit();
            if meter.is_open(limit, env.now) {
                Some(env.now)
            } else {
                meter.opens_at(limit, env.now)
            }
        }
    }
}

/// A flow's part of a round: what its rate lets pass in a millisecond, and for flows without a rate
/// what 100 Mb/s do. Unit: octets.
fn quantum(env: &StepContext<'_>, key: QueueKey) -> u32 {
    const WITHOUT: u64 = 12_500;
    const MOST: u64 = 1 << 17;
    let parts =
        meters(&env.view, key).map(|meter| meter.limit().bytes_within(Nanos::from_millis(1)));
    let part = parts.min().unwrap_or(WITHOUT).min(MOST);
    u32::try_from(part).unwrap_or(u32::MAX)
}

/// Charges the buckets, shared rates and guarantee of a packet that leaves. Returns whether it is
/// guaranteed.
fn charge(env: &StepContext<'_>, leases: &mut Leases, key: QueueKey, bytes: u16) -> bool {
    meters(&env.view, key).for_each(|meter| meter.pass(meter.limit(), env.now, bytes));
    let (of, sharing) = ((key.session, key.direction), Sharing::of_tag(key.tag));
    sharing.charge(env, leases, key.direction, bytes);
    sharing.charge_guarantee(env, of, bytes)
}

/// Tells whether the shared rates let a packet of a flow pass that does not wait.
///
/// # Errors
/// What becomes of it otherwise.
pub(crate) fn check_shared<B>(
    env: &StepContext<'_>,
    shaping: &Shaping<B>,
    leases: &mut Leases,
    key: QueueKey,
) -> Result<(), Excess> {
    let sharing = Sharing::of_tag(key.tag);
    if sharing.is_guaranteed(env, (key.session, key.direction)) {
        return Ok(());
    }
    let opened = sharing.check_open(env, leases, key.direction, arriving(shaping.contended()));
    opened.map_err(|closed| closed.excess)
}

/// QERs that share rates with a flow, itself included; zero where all its rates are its session's.
fn sharers(env: &StepContext<'_>, key: QueueKey) -> u64 {
    meters(&env.view, key).filter_map(|meter| meter.sharers()).max().unwrap_or(0)
}

/// When a flow is looked at again that sent and may not send on at `now`: as soon as its rates say,
/// but behind those that it shares them with and that sent nothing.
#[inline(never)]
fn behind_sharers(env: &StepContext<'_>, key: QueueKey, at: Nanos) -> Nanos {
    at.max(env.now) + Nanos(SLOT.0 * sharers(env, key).min(SHARERS_BEHIND_MAX))
}

/// Sends what may leave by now.
#[inline(never)]
pub(crate) fn release<Io: PacketIo>(
    env: &StepContext<'_>,
    io: &mut Io,
    out: &mut WorkerState<Io::Buf>,
) {
    let WorkerState { shaping, leases, queues, tally, .. } = out;
    let shared = SharingInUse::of(env);
    let (sent, is_guaranteed) = (None, false);
    let mut leaving = Releaser { env, io, leases, queues, tally, shared, sent, is_guaranteed };
    shaping.serve(env.now, RELEASES_PER_STEP_MAX, &mut leaving);
}

/// Sends packets as their turn comes.
struct Releaser<'e, 'v, Io: PacketIo> {
    env: &'e StepContext<'v>,
    io: &'e mut Io,
    leases: &'e mut Leases,
    queues: &'e mut TxQueues<Io::Buf>,
    tally: &'e mut StepTally,
    shared: SharingInUse,
    /// The flow that sent last, where sessions share rates.
    sent: Option<QueueKey>,
    /// The next packet of the turn is guaranteed.
    is_guaranteed: bool,
}

/// The turn of a flow.
struct FlowTurn<'v> {
    key: QueueKey,
    /// The flow's buckets, where there are no others to ask than two of its session's own.
    pair: Option<PairTurn<'v>>,
    /// Packets that left.
    sent: u64,
    /// How long the last of them waited.
    delay: Nanos,
}

impl<'v, Io: PacketIo> Releaser<'_, 'v, Io> {
    /// When a flow, which sent packets in this turn or not, is looked at again whose rates say `at`.
    #[inline(always)]
    // PERF: by value, so that turns stay in registers.
    fn next_turn(&self, key: QueueKey, is_sending: bool, at: Nanos) -> Nanos {
        match self.shared.rates && (is_sending || self.sent == Some(key)) {
            false => at,
            true => behind_sharers(self.env, key, at),
        }
    }
}

impl<'v, Io: PacketIo> FlowServer<ReadyFrame<Io::Buf>> for Releaser<'_, 'v, Io> {
    type Turn = FlowTurn<'v>;

    #[inline(always)]
    // PERF: once per turn, of which most have one packet.
    fn prefetch_flow(&self, key: &QueueKey) {
        self.env.view.prefetch_meter_queue(key.session, key.direction);
    }

    #[inline(always)]
    // PERF: as above.
    fn prefetch<T>(&self, place: &T) {
        prefetch(place);
    }

    #[inline(always)]
    // PERF: as above.
    fn begin_turn(&mut self, key: &QueueKey) -> FlowTurn<'v> {
        let pair = own_pair(self.env, *key, self.shared);
        // With a pair of buckets and no others, all of the flow is guaranteed or nothing.
        self.is_guaranteed = Sharing::of_tag(key.tag).guarantee == Guarantee::Whole;
        FlowTurn { key: *key, pair, sent: 0, delay: Nanos(0) }
    }

    #[inline(always)]
    // PERF: as above.
    fn blocked_until(&mut self, turn: &mut FlowTurn<'v>) -> Option<Eligibility> {
        let at = turn.pair.as_mut()?.check_open().err()?;
        Some(Eligibility::At(self.next_turn(turn.key, turn.sent > 0, at)))
    }

    #[inline(always)]
    // PERF: as above.
    fn eligibility(&mut self, turn: &mut FlowTurn<'v>, bytes: u16, at: TurnContext) -> Eligibility {
        let pace = match &mut turn.pair {
            Some(pair) => {
                pair.pass(bytes);
                Eligibility::Now
            }
            None => match pass(self.env, self.leases, turn.key, bytes, at) {
                Ok(is_guaranteed) => {
                    self.is_guaranteed = is_guaranteed;
                    Eligibility::Now
                }
                Err(pace) => pace,
            },
        };
        match pace {
            Eligibility::Now => turn.sent += 1,
            Eligibility::At(at) => {
                return Eligibility::At(self.next_turn(turn.key, turn.sent > 0, at));
            }
            _ => {}
        }
        pace
    }

    #[inline(always)]
    // PERF: as above.
    fn take(
        &mut self,
        turn: &mut FlowTurn<'v>,
        may_leave: bool,
        held: QueuedPacket<ReadyFrame<Io::Buf>>,
    ) {
        let Self { env, io, queues, tally, is_guaranteed, .. } = self;
        if !may_leave {
            discard(env, tally, turn.key, &held);
            return;
        }
        turn.delay = env.now.since(held.since);
        let origin = Origin::user(turn.key.direction, *is_guaranteed);
        send(*io, (queues, tally), origin, turn.delay, held.packet);
    }

    #[inline(always)]
    // PERF: as above.
    fn end_turn(&mut self, turn: FlowTurn<'v>) {
        let FlowTurn { key, pair, sent, delay } = turn;
        if let Some(pair) = pair {
            pair.end();
        }
        if sent > 0 {
            meter_queue(&self.env.view, key).inspect(|waiting| waiting.remove(sent, delay));
            if self.shared.rates {
                self.sent = Some(key);
            }
        }
    }
}

/// Charges a packet of `bytes` octets that may leave to its rates. Returns whether it is guaranteed.
///
/// # Errors
/// The [`pace`] of its flow, if that is not `Pace::Now`.
#[inline(never)]
fn pass(
    env: &StepContext<'_>,
    leases: &mut Leases,
    key: QueueKey,
    bytes: u16,
    standing: TurnContext,
) -> Result<bool, Eligibility> {
    match eligibility(env, leases, key, standing) {
        Eligibility::Now => Ok(charge(env, leases, key, bytes)),
        pace => Err(pace),
    }
}

/// Sends everything towards the UE of a session that waits, whatever its rates say: what comes next
/// must not overtake it.
pub(crate) fn release_session<Io: PacketIo>(
    env: &StepContext<'_>,
    io: &mut Io,
    out: &mut WorkerState<Io::Buf>,
    session: SessionIndex,
) {
    let WorkerState { shaping, leases, queues, tally, .. } = out;
    shaping.take_all(session, Direction::Downlink, |key, held| {
        send_unchecked(env, io, (queues, leases, tally), *key, held);
    });
}

/// Looks at the packets that wait for sessions whose rates changed: flows that no PDR leads packets
/// into any more leave ahead of later packets, and the others are asked by their new rates. At the
/// beginning of a step what was looked at is done with; in its middle it is not, because packets in
/// hand may still begin to wait by older rules.
///
/// Cost:    one load while nothing changed; per change, a load for each direction and what waits.
/// Threads: whoever has new rules of a session finds their change here.
#[inline]
pub(crate) fn review_changes<Io: PacketIo>(
    env: &StepContext<'_>,
    io: &mut Io,
    out: &mut WorkerState<Io::Buf>,
    begins: bool,
) {
    let count = env.view.rate_changes();
    if count == out.rate_changes_seen || out.shaping.is_empty() && !begins {
        return;
    }
    let seen = match out.shaping.is_empty() {
        // Only the rules of the last change may not have been swapped yet.
        true => published_of(env, count),
        false => review_from(env, io, out),
    };
    if begins {
        out.rate_changes_seen = seen;
    }
}

/// `count`, or one less while the rules of the last change of so many are about to be swapped.
fn published_of(env: &StepContext<'_>, count: u64) -> u64 {
    let last = count.wrapping_sub(1);
    match env.view.rate_change(last) {
        NextRateChange::One(change) if !is_published(env, &change) => last,
        _ => count,
    }
}

/// True when the rules of a change are those that workers find.
fn is_published(env: &StepContext<'_>, change: &RateChange) -> bool {
    env.view.rules(change.session).is_none_or(|rules| change.is_included_in(rules.generation))
}

/// Tells up to where changes were looked at.
#[cold]
fn review_from<Io: PacketIo>(
    env: &StepContext<'_>,
    io: &mut Io,
    out: &mut WorkerState<Io::Buf>,
) -> u64 {
    let WorkerState { shaping, leases, queues, tally, .. } = out;
    let mut seen = out.rate_changes_seen;
    let review = |key: &QueueKey| match env.view.rules(key.session) {
        Some(rules) => review_flow(rules, *key),
        None => ReviewOutcome::Release,
    };
    let mut take = |key: &QueueKey, may_leave, held| match may_leave {
        true => send_unchecked(env, io, (queues, leases, tally), *key, held),
        false => discard(env, tally, *key, &held),
    };
    loop {
        let change = match env.view.rate_change(seen) {
            NextRateChange::None => return seen,
            NextRateChange::One(change) => change,
            NextRateChange::Lost => {
                seen = published_of(env, env.view.rate_changes());
                shaping.review_all(review, take);
                return seen;
            }
        };
        if !is_published(env, &change) {
            return seen;
        }
        for direction in [Direction::Uplink, Direction::Downlink] {
            if shaping.has_packets_of(change.session, direction) {
                shaping.review(change.session, direction, review, &mut take);
            }
        }
        seen = seen.wrapping_add(1);
    }
}

/// What becomes of a flow by new rules: it goes ahead where no PDR leads packets into it any more, and
/// nowhere behind closed gates.
fn review_flow(rules: &PublishedRules, key: QueueKey) -> ReviewOutcome {
    let direction = key.direction;
    let leads_into = |pdr: &&PublishedPdr| queue_key_of(key.session, rules, pdr, direction) == key;
    let mut pdrs = rules.pdrs(direction).iter().filter(leads_into).peekable();
    if pdrs.peek().is_none() {
        return ReviewOutcome::Release;
    }
    let is_open = pdrs.any(|pdr| rules.gates_open(pdr, direction));
    if is_open { ReviewOutcome::Recheck } else { ReviewOutcome::Drop }
}

/// Drops a packet that waited, behind a gate that was closed.
#[cold]
fn discard<B>(
    env: &StepContext<'_>,
    tally: &mut StepTally,
    key: QueueKey,
    held: &QueuedPacket<ReadyFrame<B>>,
) {
    if let Some(meter) = meters(&env.view, key).next() {
        meter.queue().remove(1, env.now.since(held.since));
        meter.count_dropped(held.bytes);
    }
    tally.drop(DropReason::GateClosed);
}

/// Sends a packet that waited, whatever its rates say; they are charged.
fn send_unchecked<Io: PacketIo>(
    env: &StepContext<'_>,
    io: &mut Io,
    (queues, leases, tally): (&mut TxQueues<Io::Buf>, &mut Leases, &mut StepTally),
    key: QueueKey,
    held: QueuedPacket<ReadyFrame<Io::Buf>>,
) {
    let origin = Origin::user(key.direction, charge(env, leases, key, held.bytes));
    let delay = env.now.since(held.since);
    meter_queue(&env.view, key).inspect(|waiting| waiting.remove(1, delay));
    send(io, (queues, tally), origin, delay, held.packet);
}

/// Sends a packet that waited for `delay`.
#[inline]
fn send<Io: PacketIo>(
    io: &mut Io,
    (queues, tally): (&mut TxQueues<Io::Buf>, &mut StepTally),
    origin: Origin,
    delay: Nanos,
    packet: ReadyFrame<Io::Buf>,
) {
    tally.delay(delay);
    let ReadyFrame { buf, len, exit, turns } = packet;
    if turns {
        queues.switched.push(exit.0, buf, tally);
        return;
    }
    queues.push(io, tally, exit, (buf, len.into()), origin);
}

/// Drops everything that waits; the meters of sessions are left as they are.
pub(crate) fn drain<B: PacketBuf>(out: &mut WorkerState<B>) {
    let WorkerState { shaping, tally, .. } = out;
    shaping.drain(|_| tally.drop(DropReason::ShapingQueueFull));
}

/// Slot of a delay in a histogram of powers of two: 0 below a microsecond, n below 2^n of them.
#[must_use]
pub(crate) fn delay_slot(delay: Nanos, slots: usize) -> usize {
    let micros = delay.0 / 1000;
    let slot = (u64::BITS - micros.leading_zeros()) as usize;
    slot.min(slots.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_slots_are_powers_of_two_of_microseconds_and_the_last_takes_the_rest() {
        let slot = |nanos| delay_slot(Nanos(nanos), 12);
        assert_eq!([0, 999, 1000, 1999, 2000, 3999, 4000].map(slot), [0, 0, 1, 1, 2, 2, 3]);
        assert_eq!([1_023_999, 1_024_000, u64::MAX].map(slot), [10, 11, 11]);
    }
}
