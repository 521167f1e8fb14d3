//! Fourth stage: may the packet pass?

use adit_rules::{ApplyAction, DropReason, Gate};
use adit_types::Direction;

use crate::columns::{Lane, Matched, Side, Verdict};

/// Drops what a QER's gate or the FAR's action stops, and diverts what is to be buffered.
///
/// Shape:   reads `verdicts[0..n]` and turns `Pass` into `Drop` or `Divert`. n ≤ BURST_MAX.
/// Cost:    reads the QERs of each PDR. No allocation, no clock.
/// Spec:    TS 29.244 §5.4.3 (gating), §8.2.26 (Apply Action).
/// Errors:  none.
pub(crate) fn s4_enforce<B, S: Side>(lane: &mut Lane<'_, B, S>) {
    for verdict in &mut lane.verdicts {
        if let Verdict::Pass(matched) = verdict {
            *verdict = enforce(matched, matched.direction);
        }
    }
}

/// The verdict on a packet that `matched` treats.
#[inline]
fn enforce<'v>(matched: &Matched<'v>, direction: Direction) -> Verdict<'v> {
    const TOLD: ApplyAction = ApplyAction::BUFF.union(ApplyAction::DDPN);
    match admit(matched, direction) {
        Ok(()) => Verdict::Pass(*matched),
        Err(DropReason::FarDrop) if matched.far.action.intersects(TOLD) => {
            Verdict::Divert(*matched)
        }
        Err(reason) => Verdict::Drop(reason),
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
        rules.qers.get(usize::from(*qer)).is_some_and(|qer| qer.gate(direction) == Gate::Open)
    };
    if !matched.pdr.qers.iter().all(is_open) {
        return Err(DropReason::GateClosed);
    }
    let action = matched.far.action;
    if action.intersection(ApplyAction::FATES) == ApplyAction::FORW {
        Ok(())
    } else {
        Err(DropReason::FarDrop)
    }
}
