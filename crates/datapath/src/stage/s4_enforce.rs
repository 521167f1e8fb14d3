//! Fourth stage: may the packet pass?

use adit_rules::{ApplyAction, DropReason, Gate, PublishedFar};
use adit_types::Direction;

use crate::columns::{Lane, Matched, Side, Verdict};
use crate::outbound::Events;
use crate::stage::egress::Env;
use crate::stage::s5_account::Meter;
use crate::tally::Tally;

/// Drops what a QER's gate or the FAR's action stops, and diverts what is to be buffered.
///
/// Shape:   reads `verdicts[0..n]` and turns `Pass` into `Drop` or `Divert`. n ≤ BURST_MAX.
/// Cost:    reads the QERs of each PDR; asks for the usage counters that `s5_account` writes. No
///          allocation, no clock.
/// Spec:    TS 29.244 §5.4.3 (gating), §8.2.26 (Apply Action), §8.2.68 (measurement before QoS).
/// Errors:  none.
pub(crate) fn s4_enforce<B, S: Side>(
    env: &Env<'_>,
    lane: &mut Lane<'_, B, S>,
    events: &mut Events,
    tally: &mut Tally,
) {
    let usage = env.view.usage();
    let Lane { verdicts, ips, .. } = lane;
    for (verdict, ip) in verdicts.iter_mut().zip(&*ips) {
        let Verdict::Pass(matched) = *verdict else { continue };
        match admit(&matched, matched.direction) {
            Ok(()) => {
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
                *verdict = stopped(matched, reason);
            }
        }
    }
}

/// The verdict on a packet that gates or FAR stop.
#[inline]
pub(crate) fn stopped(matched: Matched<'_>, reason: DropReason) -> Verdict<'_> {
    const MORE: ApplyAction = ApplyAction::BUFF.union(ApplyAction::DDPN).union(ApplyAction::DUPL);
    match reason {
        DropReason::FarDrop if matched.far.action.intersects(MORE) => Verdict::Divert(matched),
        _ => Verdict::Drop(reason),
    }
}

/// Counts a packet that gates or FAR stop. What is to be buffered counts when it is released.
#[cold]
fn measure(
    env: &Env<'_>,
    matched: &Matched<'_>,
    reason: DropReason,
    bytes: u64,
    events: &mut Events,
    tally: &mut Tally,
) {
    let (meter, direction) = (Meter::new(env, matched), matched.direction);
    match reason {
        DropReason::GateClosed => meter.gated(matched, direction, bytes, events, tally),
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
    let rules = matched.rules;
    let is_open = |qer: &u16| {
        rules.qers().get(usize::from(*qer)).is_some_and(|qer| qer.gate(direction) == Gate::Open)
    };
    if !matched.pdr.qers.iter().all(is_open) {
        return Err(DropReason::GateClosed);
    }
    admit_far(matched.far)
}

/// Tells whether a FAR forwards.
///
/// # Errors
/// `FarDrop` for DROP and for actions that do not forward.
#[inline]
pub(crate) fn admit_far(far: &PublishedFar) -> Result<(), DropReason> {
    if far.action.intersection(ApplyAction::FATES) == ApplyAction::FORW {
        Ok(())
    } else {
        Err(DropReason::FarDrop)
    }
}
