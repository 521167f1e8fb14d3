//! The rates of an express, its own and those that sessions share.

use adit_pktio::PacketBuf;
use adit_rules::{EXPRESS_METERS_MAX, Excess, Guarantee};
use adit_shaper::{FlowIndex, FlowKey};
use adit_tables::{ExpressLine, MeterPair, View, prefetch};
use adit_types::limits::{BURST_MAX, SHAPED_PKTS_MAX};
use adit_types::{Direction, Nanos, SessionIndex};

use super::{At, Course, Row};
use crate::aggregates::{Sharing, arriving};
use crate::columns::Column;
use crate::shaping::Shaping;
use crate::stage::egress::Env;

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
pub(super) fn waits_for(line: &ExpressLine<'_>) -> u64 {
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
) -> (FlowKey, Option<FlowIndex>) {
    let buckets = waits_for & ((1 << EXPRESS_METERS_MAX) - 1);
    let key = FlowKey { session, direction, buckets, tag: (waits_for >> TAG_SHIFT) as u16 };
    let index = ((waits_for & !WAITS) >> FLOW_SHIFT) as u32;
    (key, index.checked_sub(1).map(FlowIndex))
}

/// Asks for the flows that packets may have to join.
#[inline(never)]
pub(super) fn expect<B: PacketBuf>(
    view: &View<'_>,
    direction: Direction,
    shaping: &Shaping<B>,
    rows: &Column<Row<'_>>,
) {
    for row in rows {
        if let Some(flow) = shaping.first_flow(row.session, direction) {
            prefetch(flow);
            view.prefetch_waiting(row.session, direction);
        }
    }
}

/// True unless a packet finds its flow's queue full, which the stages count. Where packets of its flow
/// wait, so does it: this is written down in its row.
#[inline(never)]
pub(super) fn may_wait<B: PacketBuf, C: Course>(
    shaping: &Shaping<B>,
    waits_for: u64,
    row: &mut Row<'_>,
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
    env: &Env<'_>,
    direction: Direction,
    line: &ExpressLine<'_>,
    row: &Row<'_>,
    at: &mut At<'_, '_>,
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
    stays(pair, which, env.now, waits_for)
}

/// `waits_for`, unless a packet is dropped instead, which the stages do.
#[inline(never)]
fn stays(pair: MeterPair<'_>, which: u64, now: Nanos, waits_for: u64) -> Option<u64> {
    pair.waits(which, now).then_some(waits_for)
}

/// The same for a packet that shares rates with other sessions.
#[inline(never)]
fn pass_shared(
    env: &Env<'_>,
    direction: Direction,
    line: &ExpressLine<'_>,
    row: &Row<'_>,
    at: &mut At<'_, '_>,
) -> Option<u64> {
    let (which, waits_for) = (line.meters(), waits_for(line));
    let sharing = Sharing { slice: line.slice(), guarantee: Guarantee::Nothing };
    let pair = env.view.meter_pair(row.session, direction)?;
    let may_wait = || pair.waits(which, env.now).then_some(row.waits_for.max(waits_for));
    if row.waits_for != 0 {
        return may_wait();
    }
    if !line.is_guaranteed()
        && let Err(closed) = sharing.open(env, at.leases, direction, arriving(at.crowded))
    {
        return if closed.excess == Excess::Waits { may_wait() } else { None };
    }
    if !pair.pass(which, env.now, row.len) {
        return may_wait();
    }
    sharing.charge(env, at.leases, direction, row.len);
    Some(0)
}
