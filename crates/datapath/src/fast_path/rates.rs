//! The rates of a fast rule: buckets of the session, and aggregates.

use adit_pktio::PacketBuf;
use adit_rules::{Excess, Guarantee};
use adit_tables::{
    AggregateKey, CellFlags, FastRuleCellRef, FastRuleSnapshot, MeterPair, TablesView, TrialCharge,
    prefetch,
};
use adit_types::Direction;

use super::FastPackets;
use super::burst::BurstContext;
use super::packet::FastPacket;
use super::ticket::QueueTicket;
use crate::aggregates::{AggregateTerms, arriving};
use crate::context::StepContext;
use crate::shaping::Shaping;

/// The rates that the packets of a burst may have to pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BurstRates {
    /// None: the fast rules are plain. Each is that of its cell.
    None,
    /// Buckets of the session. Each fast rule is that of its cell; no packet waits.
    Buckets,
    /// Buckets of the session, and packets may count elsewhere than in their cells.
    BucketsAndUrrs,
    /// Buckets and aggregates. SDF filters may have selected the fast rule; packets may wait.
    Every,
}

impl BurstRates {
    /// True if packets may count elsewhere than in their cells.
    #[inline]
    pub(super) const fn may_count_elsewhere(self) -> bool {
        matches!(self, Self::BucketsAndUrrs | Self::Every)
    }

    /// Those of a burst. `cells`: the flags of its cells.
    #[inline]
    pub(super) fn of<B: PacketBuf>(
        view: &TablesView<'_>,
        shaping: &Shaping<B>,
        cells: CellFlags,
    ) -> Self {
        if !view.aggregates().is_empty() || cells.may_refer() {
            Self::Every
        } else if !cells.may_not_be_plain() {
            Self::None
        } else if shaping.must_check_queues() {
            Self::Every
        } else if cells.may_count_elsewhere() {
            Self::BucketsAndUrrs
        } else {
            Self::Buckets
        }
    }
}

/// A value of [`BurstRates`]; chosen outside the packet loops.
pub(super) trait RateChecks {
    const RATES: BurstRates;

    /// The fast rule of a packet; see [`FastPacket::rule`].
    fn rule<'v>(packet: &FastPacket<'v>) -> Option<FastRuleSnapshot<'v>>;
}

pub(super) struct NoRates;
pub(super) struct BucketsOnly;
pub(super) struct BucketsAndUrrs;
pub(super) struct EveryRate;
/// [`NoRates`] for rules of which some lead from tunnel to tunnel.
pub(super) struct RelayNoRates;
/// [`EveryRate`] for rules of which some lead from tunnel to tunnel.
pub(super) struct RelayEveryRate;

impl RateChecks for NoRates {
    const RATES: BurstRates = BurstRates::None;

    /// `None` if the rule is not plain: it was activated after the cells of the burst were read.
    #[inline(always)]
    // PERF (adit-bench datapath): once per packet.
    fn rule<'v>(packet: &FastPacket<'v>) -> Option<FastRuleSnapshot<'v>> {
        packet.cell.and_then(FastRuleCellRef::read_plain)
    }
}

impl RateChecks for BucketsOnly {
    const RATES: BurstRates = BurstRates::Buckets;

    #[inline(always)]
    // PERF (adit-bench datapath --rates police): once per packet.
    fn rule<'v>(packet: &FastPacket<'v>) -> Option<FastRuleSnapshot<'v>> {
        packet.cell.and_then(FastRuleCellRef::read_counted_in_cell)
    }
}

impl RateChecks for BucketsAndUrrs {
    const RATES: BurstRates = BurstRates::BucketsAndUrrs;

    #[inline(always)]
    // PERF (adit-bench datapath --urrs 2): once per packet.
    fn rule<'v>(packet: &FastPacket<'v>) -> Option<FastRuleSnapshot<'v>> {
        packet.cell.and_then(FastRuleCellRef::read)
    }
}

impl RateChecks for EveryRate {
    const RATES: BurstRates = BurstRates::Every;

    #[inline(always)]
    // PERF (adit-bench datapath --sdf): once per packet.
    fn rule<'v>(packet: &FastPacket<'v>) -> Option<FastRuleSnapshot<'v>> {
        packet.rule()
    }
}

impl RateChecks for RelayNoRates {
    const RATES: BurstRates = BurstRates::None;

    #[inline(always)]
    // PERF (adit-bench datapath --n9): once per packet.
    fn rule<'v>(packet: &FastPacket<'v>) -> Option<FastRuleSnapshot<'v>> {
        packet.cell.and_then(FastRuleCellRef::read_any_plain)
    }
}

impl RateChecks for RelayEveryRate {
    const RATES: BurstRates = BurstRates::Every;

    #[inline(always)]
    // PERF (adit-bench datapath --n9 --rates police): once per packet.
    fn rule<'v>(packet: &FastPacket<'v>) -> Option<FastRuleSnapshot<'v>> {
        packet.any_rule()
    }
}

/// Writes the first queue of each packet's session and direction. If there is one, prefetches it
/// and its buckets.
#[inline(never)]
pub(super) fn find_first_queues<B: PacketBuf>(
    view: &TablesView<'_>,
    shaping: &Shaping<B>,
    packets: &mut FastPackets<'_>,
) {
    for packet in packets {
        packet.first_queue = shaping.queues.first_flow(packet.session, packet.direction);
        if let Some(queue) = shaping.queues.flow(packet.first_queue) {
            prefetch(queue);
            view.prefetch_pair_and_waits(packet.session, packet.direction);
        }
    }
}

/// If no packet of its queue waits and its rates admit it, charges the rates of a packet. Otherwise
/// writes the ticket of the queue that it joins; its rates are charged when it leaves. `None` if
/// the stages decide. After a charge, only a buffer without room for the new headers stops the
/// packet; the stages then charge it again.
#[inline(always)]
// PERF (adit-bench datapath --rates police): once per packet with rates.
pub(super) fn pass_rates(
    ctx: &StepContext<'_>,
    direction: Direction,
    rates: BurstRates,
    rule: &FastRuleSnapshot<'_>,
    packet: &mut FastPacket<'_>,
    burst: &mut BurstContext<'_, '_>,
) -> Option<()> {
    match rates {
        BurstRates::None => Some(()),
        BurstRates::Buckets | BurstRates::BucketsAndUrrs => {
            match rule.try_charge_idle(ctx.now, packet.len) {
                true => Some(()),
                false if rule.meters() == 0 => Some(()),
                false => pass_busy_buckets(ctx, direction, rule.flags(), packet, burst),
            }
        }
        BurstRates::Every if !ctx.view.aggregates().is_empty() => {
            pass_aggregates::<false>(ctx, direction, QueueTicket::of(rule), packet, burst)
        }
        BurstRates::Every if rule.meters() == 0 => Some(()),
        BurstRates::Every => {
            let pair = burst.meters.get(packet.session, direction)?;
            if !packet.ticket.is_none() {
                burst.is_any_queued = true;
                return pair.can_wait(rule.meters(), ctx.now).then_some(());
            }
            if try_charge(pair, ctx, rule, packet.len) {
                return Some(());
            }
            pass_closed_buckets(ctx, direction, QueueTicket::of(rule), packet, burst)
        }
    }
}

/// [`pass_rates`] of a trial: decides the same and charges nothing. May write a deferred charge to
/// the buckets, and take a lease that the stages then use.
#[cold]
#[inline(never)]
pub(super) fn try_rates(
    ctx: &StepContext<'_>,
    direction: Direction,
    rates: BurstRates,
    rule: &FastRuleSnapshot<'_>,
    packet: &mut FastPacket<'_>,
    burst: &mut BurstContext<'_, '_>,
) -> Option<()> {
    let ticket = QueueTicket::of(rule);
    let flags = match rates {
        BurstRates::None => return Some(()),
        BurstRates::Every if !ctx.view.aggregates().is_empty() => {
            return pass_aggregates::<true>(ctx, direction, ticket, packet, burst);
        }
        BurstRates::Every => None,
        BurstRates::Buckets | BurstRates::BucketsAndUrrs => Some(rule.flags()),
    };
    let charge = TrialCharge { flags, buckets: ticket.buckets(), bytes: packet.len };
    let is_admitted = charge.buckets == 0
        || packet.ticket.is_none()
            && ctx.view.would_charge(packet.session, direction, charge, ctx.now);
    match is_admitted {
        true => Some(()),
        false => queue_if_shaped(ctx, direction, ticket, packet, burst),
    }
}

/// [`pass_rates`] if the buckets may not be idle, or if their limits have to be read. `flags`:
/// those of the packet's rule, which is that of its cell.
#[cold]
#[inline(never)]
// PERF (adit-bench datapath --rates police): cold, so that the packet loop keeps its values in
// registers.
fn pass_busy_buckets(
    ctx: &StepContext<'_>,
    direction: Direction,
    flags: u64,
    packet: &mut FastPacket<'_>,
    burst: &mut BurstContext<'_, '_>,
) -> Option<()> {
    match packet.cell?.try_charge_at_once(flags, ctx.now, packet.len) {
        true => Some(()),
        false => pass_other_buckets(ctx, direction, flags, packet, burst),
    }
}

/// [`pass_busy_buckets`] unless the buckets were idle before an earlier packet of the burst.
#[inline(never)]
fn pass_other_buckets(
    ctx: &StepContext<'_>,
    direction: Direction,
    flags: u64,
    packet: &mut FastPacket<'_>,
    burst: &mut BurstContext<'_, '_>,
) -> Option<()> {
    let rule = packet.cell?.read().filter(|rule| rule.flags() == flags)?;
    let (session, bytes) = (packet.session, packet.len);
    let try_charge = |pair| rule.try_charge(pair, ctx.now, bytes);
    if rule.meters() == 0 || ctx.view.pair_as_is(session, direction).is_some_and(try_charge) {
        return Some(());
    }
    queue_if_shaped(ctx, direction, QueueTicket::of(&rule), packet, burst)
}

/// Charges a packet of `bytes` octets to the buckets of its rule if all of them are open. Returns
/// whether it did.
#[inline(always)]
// PERF (adit-bench datapath --rates police): once per packet with rates.
fn try_charge(
    pair: MeterPair<'_>,
    ctx: &StepContext<'_>,
    rule: &FastRuleSnapshot<'_>,
    bytes: u16,
) -> bool {
    if rule.has_both_meters() {
        pair.try_charge_both(ctx.now, bytes)
    } else {
        pair.try_charge(rule.meters(), ctx.now, bytes)
    }
}

/// [`pass_rates`] if a bucket is closed, or a charge of it deferred. `ticket` is that of the
/// packet's rule.
#[cold]
#[inline(never)]
// PERF (adit-bench datapath --rates police): cold, so that the packet loop keeps its values in
// registers.
fn pass_closed_buckets(
    ctx: &StepContext<'_>,
    direction: Direction,
    ticket: QueueTicket,
    packet: &mut FastPacket<'_>,
    burst: &mut BurstContext<'_, '_>,
) -> Option<()> {
    match charge_settled(ctx, direction, ticket, packet, burst) {
        true => Some(()),
        false => queue_if_shaped(ctx, direction, ticket, packet, burst),
    }
}

/// Writes a deferred charge to the buckets, and charges the packet if they are open then. Returns
/// whether it did: false without a deferred charge.
#[cold]
#[inline(never)]
fn charge_settled(
    ctx: &StepContext<'_>,
    direction: Direction,
    ticket: QueueTicket,
    packet: &FastPacket<'_>,
    burst: &BurstContext<'_, '_>,
) -> bool {
    let pair = burst.meters.get(packet.session, direction);
    ctx.view.settle(packet.session, direction)
        && pair.is_some_and(|pair| pair.try_charge(ticket.buckets(), ctx.now, packet.len))
}

/// If every closed bucket shapes, the packet keeps its ticket or gets `ticket`, that of its rule.
/// `None` if one polices or has debt from a previous limit: the stages decide.
#[cold]
#[inline(never)]
// PERF (adit-bench datapath --rates police): cold, so that the packet loop keeps its values in
// registers.
fn queue_if_shaped(
    ctx: &StepContext<'_>,
    direction: Direction,
    ticket: QueueTicket,
    packet: &mut FastPacket<'_>,
    burst: &mut BurstContext<'_, '_>,
) -> Option<()> {
    if !ctx.view.meter_pair(packet.session, direction)?.can_wait(ticket.buckets(), ctx.now) {
        return None;
    }
    packet.ticket = packet.ticket.or(ticket);
    burst.is_any_queued = true;
    Some(())
}

/// [`pass_rates`] while aggregates are configured. They charge a guaranteed packet, but do not stop
/// it. `ticket` is that of the packet's rule. Charges nothing if `IS_TRIAL`.
#[inline(never)]
fn pass_aggregates<const IS_TRIAL: bool>(
    ctx: &StepContext<'_>,
    direction: Direction,
    ticket: QueueTicket,
    packet: &mut FastPacket<'_>,
    burst: &mut BurstContext<'_, '_>,
) -> Option<()> {
    let AggregateTerms { slice, guarantee } = AggregateTerms::of_tag(ticket.tag());
    // `check_open` and `charge` ignore the guarantee.
    let terms = AggregateTerms { slice, guarantee: Guarantee::Nothing };
    if !packet.ticket.is_none() {
        return queue_if_shaped(ctx, direction, ticket, packet, burst);
    }
    // No queue waits for its turn and leases are left: no need to check each aggregate.
    let key = AggregateKey { slice, direction };
    let is_open_at_once = burst.contended.is_empty() && burst.leases.admit(key);
    let is_admitted = guarantee == Guarantee::Whole || is_open_at_once;
    if !is_admitted
        && let Err(closed) =
            terms.check_open(ctx, burst.leases, direction, arriving(burst.contended))
    {
        return match closed.excess {
            Excess::Shaped => queue_if_shaped(ctx, direction, ticket, packet, burst),
            Excess::Policed => None,
        };
    }
    let buckets = ticket.buckets();
    let charge = || match IS_TRIAL {
        false => charge_buckets(ctx, direction, ticket, packet, burst),
        true => {
            let charge = TrialCharge { flags: None, buckets, bytes: packet.len };
            ctx.view.would_charge(packet.session, direction, charge, ctx.now)
        }
    };
    if buckets != 0 && !charge() {
        return queue_if_shaped(ctx, direction, ticket, packet, burst);
    }
    if IS_TRIAL {
        return Some(());
    }
    terms.charge(ctx, burst.leases, direction, packet.len);
    Some(())
}

/// Charges a packet to the buckets of its rule if all of them are open. Returns whether it did.
#[inline(never)]
// PERF (adit-bench datapath --rates shared): most packets with aggregates only skip it.
fn charge_buckets(
    ctx: &StepContext<'_>,
    direction: Direction,
    ticket: QueueTicket,
    packet: &FastPacket<'_>,
    burst: &BurstContext<'_, '_>,
) -> bool {
    let pair = burst.meters.get(packet.session, direction);
    pair.is_some_and(|pair| pair.try_charge(ticket.buckets(), ctx.now, packet.len))
        || charge_settled(ctx, direction, ticket, packet, burst)
}
