//! Fourth stage: checks whether gates, rates and FAR let a packet pass.

use adit_pktio::PacketBuf;
use adit_rules::{DropReason, Excess, Guarantee};
use adit_types::SessionIndex;

use crate::aggregates::AggregateTerms;
use crate::books::Books;
use crate::columns::{BurstLane, LaneKind, Matched, PacketVerdict};
use crate::context::StepContext;
use crate::shaping::{Shaping, buckets, queue_key};
use crate::stage::admit::{admit, stop_verdict};
use crate::stage::measure::UsageMeter;

/// Drops packets that a QER's gate or rate or the FAR's action stops, and diverts packets to be
/// buffered.
///
/// Shape:   reads `sessions` and `ips`, and turns `verdicts[0..n]` from `Pass` into `Drop` or
///          `Divert`. n ≤ BURST_MAX.
/// Cost:    reads the QERs of each PDR and a bucket for each of their rates; prefetches the
///          usage counters that `s5_account` writes. No allocation, no clock.
/// Units:   rates count the octets of the inner IP packet, without outer headers and padding. A
///          packet is charged to all buckets of its PDR's QERs, or to none of them.
/// Spec:    TS 29.244 §5.4.3 (gating), §5.4.4 (QoS control), §8.2.26 (Apply Action), §8.2.68
///          (measurement before QoS).
/// Errors:  none.
pub(crate) fn s4_enforce<B: PacketBuf, S: LaneKind>(
    ctx: &StepContext<'_>,
    lane: &mut BurstLane<'_, B, S>,
    shaping: &mut Shaping<B>,
    books: &mut Books,
) {
    let usage = ctx.view.usage();
    let BurstLane { verdicts, ips, sessions, .. } = lane;
    for ((verdict, ip), session) in verdicts.iter_mut().zip(&*ips).zip(&*sessions) {
        let PacketVerdict::Pass(matched) = *verdict else { continue };
        let admitted = admit(&matched, matched.direction)
            .and_then(|()| pass_rates(ctx, shaping, &matched, *session, ip.total_len));
        match admitted {
            Ok(passage) => {
                if passage != Passage::Plain {
                    let must_queue = passage == Passage::MustQueue;
                    let is_guaranteed = passage == Passage::Guaranteed;
                    *verdict =
                        PacketVerdict::Pass(Matched { must_queue, is_guaranteed, ..matched });
                }
                for at in &matched.pdr.urrs {
                    if let Some(urr) = matched.rules.urrs.get(usize::from(*at)) {
                        usage.prefetch(urr.slot);
                    }
                }
            }
            Err(reason) => {
                if !matched.pdr.urrs.is_empty() {
                    let bytes = u64::from(ip.total_len);
                    measure(ctx, &matched, reason, bytes, books);
                }
                *verdict = stop_verdict(matched, reason);
            }
        }
    }
}

/// How the rates of a packet admit it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Passage {
    /// The packet may leave at once.
    Plain,
    /// The packet may leave at once, and is within the guaranteed bit rate of its flow.
    Guaranteed,
    /// The packet has to wait in a queue.
    MustQueue,
}

/// Charges a packet of `bytes` octets to all buckets of its PDR's QERs, or to none.
///
/// # Errors
/// `RateExceeded`; `AggregateExceeded` for aggregates; `ShapingQueueFull` if no queue has room.
#[inline]
fn pass_rates<B: PacketBuf>(
    ctx: &StepContext<'_>,
    shaping: &mut Shaping<B>,
    matched: &Matched<'_>,
    session: SessionIndex,
    bytes: u16,
) -> Result<Passage, DropReason> {
    let meter = |bucket| ctx.view.meter(session, matched.direction, bucket);
    let (mut is_metered, mut is_open) = (false, true);
    for (limit, bucket) in buckets(matched) {
        is_metered = true;
        let found = meter(bucket);
        if found.is_some_and(|meter| meter.is_open(limit, ctx.now)) {
            continue;
        }
        if limit.excess() == Excess::Policed {
            found.inspect(|meter| meter.count_dropped(bytes));
            return Err(DropReason::RateExceeded);
        }
        is_open = false;
    }
    let has_aggregates = !ctx.view.aggregates().is_empty();
    let terms = AggregateTerms::of(matched.rules, matched.pdr, matched.direction);
    if !is_metered && !has_aggregates && terms.guarantee == Guarantee::Nothing {
        return Ok(Passage::Plain);
    }
    let key = (has_aggregates || shaping.queues.has_packets_of(session, matched.direction))
        .then(|| queue_key(session, matched));
    let queue_len = key.map_or(0, |key| shaping.queues.flow_len(&key));
    if let Some(key) = key.filter(|_| has_aggregates && is_open && queue_len == 0) {
        match shaping.check_aggregates(ctx, key) {
            Ok(()) => {}
            Err(Excess::Policed) => return Err(DropReason::AggregateExceeded),
            Err(Excess::Shaped) => is_open = false,
        }
    }
    if is_open && queue_len == 0 {
        for (limit, bucket) in buckets(matched) {
            meter(bucket).inspect(|meter| meter.charge(limit, ctx.now, bytes));
        }
        if has_aggregates {
            terms.charge(ctx, &mut shaping.leases, matched.direction, bytes);
        }
        return Ok(match terms.charge_guarantee(ctx, session, matched.direction, bytes) {
            true => Passage::Guaranteed,
            false => Passage::Plain,
        });
    }
    if shaping.queues.has_room(queue_len) {
        return Ok(Passage::MustQueue);
    }
    if let Some(meter) = buckets(matched).find_map(|(_, bucket)| meter(bucket)) {
        meter.count_dropped(bytes);
    }
    Err(DropReason::ShapingQueueFull)
}

/// Counts a packet that gates, rates or FAR stop. Buffered packets are counted when released.
#[cold]
fn measure(
    ctx: &StepContext<'_>,
    matched: &Matched<'_>,
    reason: DropReason,
    bytes: u64,
    books: &mut Books,
) {
    let meter = UsageMeter::new(ctx, matched);
    match reason {
        DropReason::GateClosed
        | DropReason::RateExceeded
        | DropReason::AggregateExceeded
        | DropReason::ShapingQueueFull => {
            meter.count_gated(matched, bytes, books);
        }
        _ if matched.far.buffers() => {}
        _ => meter.count_dropped(matched, bytes, books),
    }
}
