//! The rates that packets of fast rules have to pass: buckets of the session, and aggregates.

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
use crate::aggregates::{AggregateTerms, turn_of_arrival};
use crate::context::StepContext;
use crate::shaping::Shaping;

/// The rates that the packets of a burst may have to pass; which loop serves the burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BurstRates {
    /// No rates: all fast rules are plain, and each is in its session's cell.
    None,
    /// Buckets of the session. Each fast rule is in its session's cell; no packet waits.
    Buckets,
    /// Like `Buckets`, but packets may also count in counters outside of their cells.
    BucketsAndUrrs,
    /// Buckets and aggregates. SDF filters may have selected fast rules; packets may wait.
    Every,
}

impl BurstRates {
    /// True if packets may count in counters outside of their cells.
    #[inline]
    pub(super) const fn may_count_elsewhere(self) -> bool {
        matches!(self, Self::BucketsAndUrrs | Self::Every)
    }

    /// Returns the rates of a burst. `cells`: the flags of the burst's cells.
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

/// A value of [`BurstRates`] as a type, so that packet loops are compiled for each one and do not
/// test it.
pub(super) trait RateChecks {
    const RATES: BurstRates;

    /// Reads the fast rule of a packet, as [`FastPacket::rule`] does.
    fn rule<'v>(packet: &FastPacket<'v>) -> Option<FastRuleSnapshot<'v>>;
}

pub(super) struct NoRates;
pub(super) struct BucketsOnly;
pub(super) struct BucketsAndUrrs;
pub(super) struct EveryRate;
/// [`NoRates`] for bursts in which some rules may be relays.
pub(super) struct RelayNoRates;
/// [`EveryRate`] for bursts in which some rules may be relays.
pub(super) struct RelayEveryRate;

impl RateChecks for NoRates {
    const RATES: BurstRates = BurstRates::None;

    /// Returns `None` if the rule is not plain, because it was activated after the burst's cells
    /// were read.
    #[inline(always)]
    // PERF (adit-bench datapath): inlined, runs for every packet.
    fn rule<'v>(packet: &FastPacket<'v>) -> Option<FastRuleSnapshot<'v>> {
        packet.cell.and_then(FastRuleCellRef::read_plain)
    }
}

impl RateChecks for BucketsOnly {
    const RATES: BurstRates = BurstRates::Buckets;

    #[inline(always)]
    // PERF (adit-bench datapath --rates police): inlined, runs for every packet.
    fn rule<'v>(packet: &FastPacket<'v>) -> Option<FastRuleSnapshot<'v>> {
        packet.cell.and_then(FastRuleCellRef::read_counted_in_cell)
    }
}

impl RateChecks for BucketsAndUrrs {
    const RATES: BurstRates = BurstRates::BucketsAndUrrs;

    #[inline(always)]
    // PERF (adit-bench datapath --urrs 2): inlined, runs for every packet.
    fn rule<'v>(packet: &FastPacket<'v>) -> Option<FastRuleSnapshot<'v>> {
        packet.cell.and_then(FastRuleCellRef::read)
    }
}

impl RateChecks for EveryRate {
    const RATES: BurstRates = BurstRates::Every;

    #[inline(always)]
    // PERF (adit-bench datapath --sdf): inlined, runs for every packet.
    fn rule<'v>(packet: &FastPacket<'v>) -> Option<FastRuleSnapshot<'v>> {
        packet.rule()
    }
}

impl RateChecks for RelayNoRates {
    const RATES: BurstRates = BurstRates::None;

    #[inline(always)]
    // PERF (adit-bench datapath --n9): inlined, runs for every packet.
    fn rule<'v>(packet: &FastPacket<'v>) -> Option<FastRuleSnapshot<'v>> {
        packet.cell.and_then(FastRuleCellRef::read_any_plain)
    }
}

impl RateChecks for RelayEveryRate {
    const RATES: BurstRates = BurstRates::Every;

    #[inline(always)]
    // PERF (adit-bench datapath --n9 --rates police): inlined, runs for every packet.
    fn rule<'v>(packet: &FastPacket<'v>) -> Option<FastRuleSnapshot<'v>> {
        packet.any_rule()
    }
}

/// Writes the first queue of each packet's session and direction. Prefetches the queue, if there is
/// one, and its buckets.
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

/// Charges the rates of a packet if they admit it and no packet of its queue waits. Otherwise
/// writes the ticket of the queue to join; the rates are charged when the packet leaves. `None` if
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

/// Decides as [`pass_rates`] does, for a trial, but charges nothing. May write a deferred charge to
/// the buckets, and take a lease, which the stages then use.
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

/// Continues [`pass_rates`] if the buckets may not be idle, or if their limits have to be read.
/// `flags`: those of the packet's rule, which is that of its cell.
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

/// Continues [`pass_busy_buckets`] unless the buckets were idle before this burst.
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
    if rule.meters() == 0
        || ctx.view.unsettled_meter_pair(session, direction).is_some_and(try_charge)
    {
        return Some(());
    }
    queue_if_shaped(ctx, direction, QueueTicket::of(&rule), packet, burst)
}

/// Charges a packet of `bytes` octets to the buckets of its rule if all of them are open. Returns
/// whether they are.
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

/// Continues [`pass_rates`] after `try_charge` failed: a bucket is closed, or looks closed because
/// a deferred charge is not written to it yet. `ticket`: the queue ticket of the packet's rule.
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

/// Writes a deferred charge to the buckets, then charges the packet if they are open. Returns
/// whether it charged the packet; false if there is no deferred charge.
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

/// Lets the packet wait if every closed bucket shapes: keeps its ticket, or else writes `ticket`,
/// the ticket of its rule. `None` if a bucket polices or has debt from a previous limit: then the
/// stages decide.
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

/// Does the work of [`pass_rates`] while aggregates are configured. A guaranteed packet is charged
/// to them, but not stopped. `ticket`: the ticket of the packet's rule. Charges nothing if
/// `IS_TRIAL`.
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
    // If no queue waits for a turn and leases are left, the aggregates need not be checked.
    let key = AggregateKey { slice, direction };
    let is_open_at_once = burst.contended.is_empty() && burst.leases.admit(key);
    let is_admitted = guarantee == Guarantee::Whole || is_open_at_once;
    if !is_admitted
        && let Err(closed) =
            terms.check_open(ctx, burst.leases, direction, turn_of_arrival(burst.contended))
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

/// Charges a packet to the buckets of its rule if all of them are open. Returns whether they are.
#[inline(never)]
// PERF (adit-bench datapath --rates shared): a call, because most packets with aggregates have no
// buckets.
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
