//! Fourth stage: may the packet pass, by gates, rates and FAR?

use adit_rules::{ApplyAction, DropReason, Excess, Guarantee, PublishedFar};
use adit_tables::Leases;
use adit_types::{Direction, SessionIndex};

use crate::aggregates::Sharing;
use crate::columns::{BurstLane, LaneKind, Matched, PacketVerdict};
use crate::shaping::{Shaping, buckets, check_shared, queue_key};
use crate::stage::egress::StepContext;
use crate::stage::s5_account::UsageMeter;
use crate::tally::StepTally;
use crate::worker_state::Events;

/// Drops what a QER's gate or rate or the FAR's action stops, and diverts what is to be buffered.
///
/// Shape:   reads `sessions` and `ips`, and turns `verdicts[0..n]` from `Pass` into `Drop` or
///          `Divert`. n ≤ BURST_MAX.
/// Cost:    reads the QERs of each PDR and a bucket for each of their rates; asks for the usage
///          counters that `s5_account` writes. No allocation, no clock.
/// Units:   rates count the octets of the inner IP packet, without outer headers and padding. A
///          packet passes all buckets of its PDR's QERs or counts in none.
/// Spec:    TS 29.244 §5.4.3 (gating), §5.4.4 (QoS control), §8.2.26 (Apply Action), §8.2.68
///          (measurement before QoS).
/// Errors:  none.
pub(crate) fn s4_enforce<B, S: LaneKind>(
    env: &StepContext<'_>,
    lane: &mut BurstLane<'_, B, S>,
    (shaping, leases): (&Shaping<B>, &mut Leases),
    events: &mut Events,
    tally: &mut StepTally,
) {
    let usage = env.view.usage();
    let BurstLane { verdicts, ips, sessions, .. } = lane;
    for ((verdict, ip), session) in verdicts.iter_mut().zip(&*ips).zip(&*sessions) {
        let PacketVerdict::Pass(matched) = *verdict else { continue };
        let admitted = admit(&matched, matched.direction)
            .and_then(|()| pass_rates(env, (shaping, leases), &matched, *session, ip.total_len));
        match admitted {
            Ok(passage) => {
                if passage != Passage::Plain {
                    let (waits, is_guaranteed) =
                        (passage == Passage::MustQueue, passage == Passage::Guaranteed);
                    *verdict = PacketVerdict::Pass(Matched {
                        must_queue: waits,
                        is_guaranteed,
                        ..matched
                    });
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
                    measure(env, &matched, reason, bytes, events, tally);
                }
                *verdict = stop_verdict(matched, reason);
            }
        }
    }
}

/// How a packet gets through its rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Passage {
    Plain,
    /// Within the guaranteed bit rate of its flow.
    Guaranteed,
    /// It has to wait for them.
    MustQueue,
}

/// Takes a packet of `bytes` octets through the buckets of its PDR's QERs, all or none.
///
/// # Errors
/// `RateExceeded`; `AggregateExceeded` for what it shares; `ShapingQueueFull` for what may not wait.
#[inline]
fn pass_rates<B>(
    env: &StepContext<'_>,
    (shaping, leases): (&Shaping<B>, &mut Leases),
    matched: &Matched<'_>,
    session: SessionIndex,
    bytes: u16,
) -> Result<Passage, DropReason> {
    let meter = |bucket| env.view.meter(session, matched.direction, bucket);
    let (mut is_metered, mut is_open) = (false, true);
    for (limit, bucket) in buckets(matched) {
        is_metered = true;
        let found = meter(bucket);
        if found.is_some_and(|meter| meter.is_open(limit, env.now)) {
            continue;
        }
        if limit.excess() == Excess::Policed {
            found.inspect(|meter| meter.count_dropped(bytes));
            return Err(DropReason::RateExceeded);
        }
        is_open = false;
    }
    let is_shared = !env.view.aggregates().is_empty();
    let sharing = Sharing::of(matched.rules, matched.pdr, matched.direction);
    if !is_metered && !is_shared && sharing.guarantee == Guarantee::Nothing {
        return Ok(Passage::Plain);
    }
    let flow = (is_shared || shaping.has_packets_of(session, matched.direction))
        .then(|| queue_key(session, matched));
    let flow_len = flow.map_or(0, |flow| shaping.flow_len(&flow));
    if let Some(flow) = flow.filter(|_| is_shared && is_open && flow_len == 0) {
        match check_shared(env, shaping, leases, flow) {
            Ok(()) => {}
            Err(Excess::Policed) => return Err(DropReason::AggregateExceeded),
            Err(Excess::Shaped) => is_open = false,
        }
    }
    if is_open && flow_len == 0 {
        for (limit, bucket) in buckets(matched) {
            meter(bucket).inspect(|meter| meter.pass(limit, env.now, bytes));
        }
        if is_shared {
            sharing.charge(env, leases, matched.direction, bytes);
        }
        let of = (session, matched.direction);
        return Ok(match sharing.charge_guarantee(env, of, bytes) {
            true => Passage::Guaranteed,
            false => Passage::Plain,
        });
    }
    if shaping.has_room(flow_len) {
        return Ok(Passage::MustQueue);
    }
    if let Some(meter) = buckets(matched).find_map(|(_, bucket)| meter(bucket)) {
        meter.count_dropped(bytes);
    }
    Err(DropReason::ShapingQueueFull)
}

/// The verdict on a packet that gates or FAR stop.
#[inline]
pub(crate) fn stop_verdict(matched: Matched<'_>, reason: DropReason) -> PacketVerdict<'_> {
    const MORE: ApplyAction = ApplyAction::BUFF.union(ApplyAction::DDPN).union(ApplyAction::DUPL);
    match reason {
        DropReason::FarDrop | DropReason::TunnelUnknown if matched.far.action.intersects(MORE) => {
            PacketVerdict::Divert(matched)
        }
        _ => PacketVerdict::Drop(reason),
    }
}

/// Counts a packet that gates or FAR stop. What is to be buffered counts when it is released.
#[cold]
fn measure(
    env: &StepContext<'_>,
    matched: &Matched<'_>,
    reason: DropReason,
    bytes: u64,
    events: &mut Events,
    tally: &mut StepTally,
) {
    let (meter, direction) = (UsageMeter::new(env, matched), matched.direction);
    match reason {
        DropReason::GateClosed
        | DropReason::RateExceeded
        | DropReason::AggregateExceeded
        | DropReason::ShapingQueueFull => {
            meter.count_gated(matched, direction, bytes, events, tally);
        }
        _ if matched.far.buffers() => {}
        _ => meter.count_dropped(matched, direction, bytes, events, tally),
    }
}

/// Tells whether every gate is open and the FAR forwards.
///
/// # Errors
/// `GateClosed`; `FarDrop` for DROP and for actions that do not forward.
#[inline]
pub(crate) fn admit(matched: &Matched<'_>, direction: Direction) -> Result<(), DropReason> {
    if !matched.rules.gates_open(matched.pdr, direction) {
        return Err(DropReason::GateClosed);
    }
    admit_far(matched.far)
}

/// Tells whether a FAR forwards.
///
/// # Errors
/// `FarDrop` for DROP and for actions that do not forward; `TunnelUnknown` for FORW beside DROP.
#[inline]
pub(crate) fn admit_far(far: &PublishedFar) -> Result<(), DropReason> {
    if far.action.intersection(ApplyAction::FATES) == ApplyAction::FORW {
        Ok(())
    } else if far.action.contains(ApplyAction::FORW) {
        Err(DropReason::TunnelUnknown)
    } else {
        Err(DropReason::FarDrop)
    }
}
