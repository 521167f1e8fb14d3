//! The rates of a fast rule: buckets of the session, and aggregates.

use adit_pktio::PacketBuf;
use adit_rules::{Excess, Guarantee};
use adit_tables::{FastRuleSnapshot, MeterPair, TablesView, prefetch};
use adit_types::{Direction, Nanos};

use super::FastPackets;
use super::burst::BurstContext;
use super::packet::FastPacket;
use super::ticket::QueueTicket;
use crate::aggregates::{AggregateTerms, arriving};
use crate::context::StepContext;
use crate::shaping::Shaping;

/// Writes the first queue of each packet's session and direction. If there is one, prefetches it and its
/// buckets.
#[inline(never)]
pub(super) fn find_first_queues<B: PacketBuf>(
    view: &TablesView<'_>,
    direction: Direction,
    shaping: &Shaping<B>,
    packets: &mut FastPackets<'_>,
) {
    for packet in packets {
        packet.first_queue = shaping.queues.first_flow(packet.session, direction);
        if let Some(queue) = shaping.queues.flow(packet.first_queue) {
            prefetch(queue);
            view.prefetch_pair_and_waits(packet.session, direction);
        }
    }
}

/// If no packet of its queue waits and its rates admit it, charges the rates of a packet and returns
/// [`QueueTicket::NONE`]. Otherwise returns the ticket of the queue that it joins; its rates are charged when
/// it leaves. `None` if the stages decide. After a charge, only a buffer without room for the new headers
/// stops the packet; the stages then charge it again.
#[inline(always)]
// PERF (adit bench datapath --rates police): once per packet with rates.
pub(super) fn pass_rates(
    ctx: &StepContext<'_>,
    direction: Direction,
    rule: &FastRuleSnapshot<'_>,
    packet: &FastPacket<'_>,
    burst: &mut BurstContext<'_, '_>,
) -> Option<QueueTicket> {
    if !ctx.view.aggregates().is_empty() {
        return pass_aggregates(ctx, direction, rule, packet, burst);
    }
    let which = rule.meters();
    if which == 0 {
        return Some(QueueTicket::NONE);
    }
    let pair = ctx.view.meter_pair(packet.session, direction)?;
    if packet.ticket.is_none() && pair.try_charge(which, ctx.now, packet.len) {
        return Some(QueueTicket::NONE);
    }
    ticket_if_shaped(pair, which, ctx.now, packet.ticket.or_ticket_of(rule))
}

/// `ticket` if every closed bucket shapes. `None` if one polices or has debt from a former limit: the
/// stages decide.
#[inline(never)]
// PERF (adit bench datapath --rates police): out of line because it is rare.
fn ticket_if_shaped(
    pair: MeterPair<'_>,
    which: u64,
    now: Nanos,
    ticket: QueueTicket,
) -> Option<QueueTicket> {
    pair.can_wait(which, now).then_some(ticket)
}

/// [`pass_rates`] while aggregates are configured. They charge a guaranteed packet, but do not stop it.
#[inline(never)]
fn pass_aggregates(
    ctx: &StepContext<'_>,
    direction: Direction,
    rule: &FastRuleSnapshot<'_>,
    packet: &FastPacket<'_>,
    burst: &mut BurstContext<'_, '_>,
) -> Option<QueueTicket> {
    let which = rule.meters();
    let ticket = packet.ticket.or_ticket_of(rule);
    // `check_open` and `charge` ignore the guarantee.
    let terms = AggregateTerms { slice: rule.slice(), guarantee: Guarantee::Nothing };
    let pair = ctx.view.meter_pair(packet.session, direction)?;
    let queue = || ticket_if_shaped(pair, which, ctx.now, ticket);
    if !packet.ticket.is_none() {
        return queue();
    }
    // No queue waits for its turn and leases are left: no need to check each aggregate.
    let is_open_at_once = burst.contended.is_empty() && burst.leases.admit(terms.slice, direction);
    let is_admitted = rule.is_guaranteed() || is_open_at_once;
    if !is_admitted
        && let Err(closed) =
            terms.check_open(ctx, burst.leases, direction, arriving(burst.contended))
    {
        return if closed.excess == Excess::Shaped { queue() } else { None };
    }
    if !pair.try_charge(which, ctx.now, packet.len) {
        return queue();
    }
    terms.charge(ctx, burst.leases, direction, packet.len);
    Some(QueueTicket::NONE)
}
