//! Checks of what rules name and the operator configured.

use adit_types::InterfaceRole;

use crate::provisioning::Provisioning;
use crate::record::{Far, Pdr};
use crate::refusal::{Refusal, RuleId};

/// A PDR's packets must be able to arrive: tunneled ones on N3, plain ones on N6.
/// Spec: TS 29.244 §8.2.4.
pub(super) fn pdr(known: &Provisioning, pdr: &Pdr, tunneled: bool) -> Result<(), Refusal> {
    let role = if tunneled { InterfaceRole::N3 } else { InterfaceRole::N6 };
    network_instance(known, pdr.pdi.network_instance.as_deref(), role, RuleId::Pdr(pdr.id))
}

/// A FAR's packets must be able to leave: with an outer header on N3, without on N6.
pub(super) fn far(known: &Provisioning, far: &Far) -> Result<(), Refusal> {
    let Some(forwarding) = &far.forwarding else { return Ok(()) };
    let role = match forwarding.outer_header_creation {
        Some(_) => InterfaceRole::N3,
        None => InterfaceRole::N6,
    };
    network_instance(known, forwarding.network_instance.as_deref(), role, RuleId::Far(far.id))
}

fn network_instance(
    known: &Provisioning,
    name: Option<&str>,
    role: InterfaceRole,
    rule: RuleId,
) -> Result<(), Refusal> {
    match name {
        Some(name) if !known.knows(name, role) => Err(Refusal::UnknownNetworkInstance { rule }),
        _ => Ok(()),
    }
}
