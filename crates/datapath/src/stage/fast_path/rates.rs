//! The rates of an express, its own and those that sessions share.

use adit_pktio::PacketBuf;
use adit_rules::{Excess, FAST_RULE_METERS_MAX, Guarantee};
use adit_shaper::{FlowIndex, QueueKey};
use adit_tables::{FastRuleLine, MeterPair, TablesView, prefetch};
use adit_types::limits::{BURST_MAX, SHAPED_PKTS_MAX};
use adit_types::{Direction, Nanos, SessionIndex};

use super::{BurstContext, FastDirection, FastPacket};
use crate::aggregates::{Sharing, arriving};
use crate::columns::BurstColumn;
use crate::shaping::Shaping;
use crate::stage::egress::StepContext;

/// Of [`Row::waits_for`]: the packet waits, though perhaps for no bucket.
const WAITS: u64 = 1 << 63;

/// Of [`Row::waits_for`]: where the tag of its flow begins.
const TAG_SHIFT: u32 = 16;

/// Of [`Row::waits_for`]: where the flow's index begins, counted from one; zero where no packets of it
/// wait yet.
const FLOW_SHIFT: u32 = 32;

const _: () = assert!(SHAPED_PKTS_MAX + BURST_MAX < 1 << 31, "flows are as many as packets");

/// What the packets of an express wait for, if they have to.
#[inline]
pub(super) fn waits_for(line: &FastRuleLine<'_>) -> u64 {
    let guarantee = if line.is_guaranteed() { Guarantee::Whole } else { Guarantee::Nothing };
    let tag = Sharing { slice: line.slice(), guarantee }.tag();
    WAITS | u64::from(tag) << TAG_SHIFT | line.meters()
}

/// The flow of a packet by what it waits for, and where it waits already.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "a tag has 16 bits, an index 31")]
pub(super) fn flow(
    session: SessionIndex,
    direction: Direction,
    waits_for: u64,
) -> (QueueKey, Option<FlowIndex>) {
    let buckets = waits_for & ((1 << FAST_RULE_METERS_MAX) - 1);
    let key = QueueKey { session, direction, buckets, tag: (waits_for >> TAG_SHIFT) as u16 };
    let index = ((waits_for & !WAITS) >> FLOW_SHIFT) as u32;
    (key, index.checked_sub(1).map(FlowIndex))
}

/// Asks for the flows that packets may have to join.
#[inline(never)]
pub(super) fn prefetch_queues<B: PacketBuf>(
    view: &TablesView<'_>,
    direction: Direction,
    shaping: &Shaping<B>,
    rows: &BurstColumn<FastPacket<'_>>,
) {
    for row in rows {
        if let Some(flow) = shaping.first_flow(row.session, direction) {
            prefetch(flow);
            view.prefetch_meter_queue(row.session, direction);
        }
    }
}

/// True unless a packet finds its flow's queue full, which the stages count. Where packets of its flow
/// wait, so does it: this is written down in its row.
#[inline(never)]
pub(super) fn join_queue<B: PacketBuf, C: FastDirection>(
    shaping: &Shaping<B>,
    waits_for: u64,
    row: &mut FastPacket<'_>,
) -> bool {
    let (key, _) = flow(row.session, C::DIRECTION, waits_for);
    let Some(flow) = shaping.find(&key) else { return shaping.has_room(0) };
    row.waits_for = waits_for | u64::from(flow.0 + 1) << FLOW_SHIFT;
    shaping.has_room(shaping.len_of(flow))
}

/// Lets the packet pass its rates; tells what it has to wait for ([`Row::waits_for`]), zero for
/// nothing. `None` where the rules tell. What follows stops a packet only where its buffer is not as
/// it should be.
#[inline(always)]
pub(super) fn pass_rates(
    env: &StepContext<'_>,
    direction: Direction,
    line: &FastRuleLine<'_>,
    row: &FastPacket<'_>,
    at: &mut BurstContext<'_, '_>,
) -> Option<u64> {
    if !env.view.aggregates().is_empty() {
        return pass_shared(env, direction, line, row, at);
    }
    let which = line.meters();
    if which == 0 {
        return Some(0);
    }
    let pair = env.view.meter_pair(row.session, direction)?;
    if row.waits_for == 0 && pair.pass(which, env.now, row.len) {
        return Some(0);
    }
    let waits_for = match row.waits_for {
        0 => waits_for(line),
        joins => joins,
    };
    queue_or_drop(pair, which, env.now, waits_for)
}

/// `waits_for`, unless a packet is dropped instead, which the stages do.
#[inline(never)]
fn queue_or_drop(pair: MeterPair<'_>, which: u64, now: Nanos, waits_for: u64) -> Option<u64> {
    pair.can_wait(which, now).then_some(waits_for)
}

/// The same for a packet that shares rates with other sessions.
#[inline(never)]
fn pass_shared(
    env: &StepContext<'_>,
    direction: Direction,
    line: &FastRuleLine<'_>,
    row: &FastPacket<'_>,
    at: &mut BurstContext<'_, '_>,
) -> Option<u64> {
    let (which, waits_for) = (line.meters(), waits_for(line));
    let sharing = Sharing { slice: line.slice(), guarantee: Guarantee::Nothing };
    let pair = env.view.meter_pair(row.session, direction)?;
    let may_wait = || pair.can_wait(which, env.now).then_some(row.waits_for.max(waits_for));
    if row.waits_for != 0 {
        return may_wait();
    }
    if !line.is_guaranteed()
        && let Err(closed) = sharing.check_open(env, at.leases, direction, arriving(at.contended))
    {
        return if closed.excess == Excess::Shaped { may_wait() } else { None };
    }
    if !pair.pass(which, env.now, row.len) {
        return may_wait();
    }
    sharing.charge(env, at.leases, direction, row.len);
    Some(0)
}
