//! Checks whether gates and FAR let a packet pass.

use adit_rules::{ApplyAction, DropReason, PublishedFar};
use adit_types::Direction;

use crate::columns::{Matched, PacketVerdict};

/// Checks that every gate is open and that the FAR forwards.
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

/// Checks that a FAR forwards.
///
/// # Errors
/// `FarDrop` if the FAR does not forward. `TunnelUnknown` if it forwards to a tunnel that the
/// control plane has not named yet: such a FAR is compiled to FORW together with DROP.
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

/// Returns the verdict on a packet that gates or FAR stop.
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
