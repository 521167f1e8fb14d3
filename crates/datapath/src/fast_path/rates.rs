//! The rates of a fast rule: its own, and those that sessions share.

use adit_pktio::PacketBuf;
use adit_rules::{Excess, Guarantee};
use adit_tables::{FastRuleSnapshot, MeterPair, TablesView, prefetch};
use adit_types::{Direction, Nanos};

use super::FastPackets;
use super::burst::BurstContext;
use super::direction::FastDirection;
use super::packet::FastPacket;
use super::ticket::QueueTicket;
use crate::aggregates::{AggregateTerms, arriving};
use crate::context::StepContext;
use crate::shaping::{Shaping, ShapingQueues};

/// Writes the first queue of each packet's session, and prefetches it: the packet may have to join.
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
            view.prefetch_meter_queue(packet.session, direction);
        }
    }
}

/// Writes the packet's ticket if its queue exists; `send_some` enqueues the packet. Returns false if the
/// packet would find no room: then the stages drop and count it.
#[inline(never)]
pub(super) fn assign_ticket<B: PacketBuf, D: FastDirection>(
    queues: &ShapingQueues<B>,
    ticket: QueueTicket,
    packet: &mut FastPacket<'_>,
) -> bool {
    let key = ticket.key(packet.session, D::DIRECTION);
    let Some(queue) = queues.find_from(packet.first_queue, &key) else {
        return queues.has_room(0);
    };
    packet.ticket = ticket.with_queue(queue);
    queues.has_room(queues.len_of(queue))
}

/// Charges the rates of a packet. Returns the queue that it has to join, or [`QueueTicket::NONE`] if
/// it leaves at once; `None` if the stages decide. After this only a malformed buffer can stop the
/// packet.
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
    if packet.ticket.is_none() && pair.pass(which, ctx.now, packet.len) {
        return Some(QueueTicket::NONE);
    }
    ticket_if_shaped(pair, which, ctx.now, packet.ticket.or_of(rule))
}

/// `ticket` if the buckets that are closed shape; `None` if one polices: the stages drop the packet.
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

/// [`pass_rates`] while aggregates are configured.
#[inline(never)]
fn pass_aggregates(
    ctx: &StepContext<'_>,
    direction: Direction,
    rule: &FastRuleSnapshot<'_>,
    packet: &FastPacket<'_>,
    burst: &mut BurstContext<'_, '_>,
) -> Option<QueueTicket> {
    let which = rule.meters();
    let ticket = packet.ticket.or_of(rule);
    let terms = AggregateTerms { slice: rule.slice(), guarantee: Guarantee::Nothing };
    let pair = ctx.view.meter_pair(packet.session, direction)?;
    let queue = || pair.can_wait(which, ctx.now).then_some(ticket);
    if !packet.ticket.is_none() {
        return queue();
    }
    let is_open = burst.contended.is_empty() && burst.leases.admit(terms.slice, direction);
    if !is_open
        && !rule.is_guaranteed()
        && let Err(closed) =
            terms.check_open(ctx, burst.leases, direction, arriving(burst.contended))
    {
        return if closed.excess == Excess::Shaped { queue() } else { None };
    }
    if !pair.pass(which, ctx.now, packet.len) {
        return queue();
    }
    terms.charge(ctx, burst.leases, direction, packet.len);
    Some(QueueTicket::NONE)
}
