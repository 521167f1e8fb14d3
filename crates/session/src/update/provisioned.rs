//! Checks of rules against the configured objects that they name.

use adit_rules::{ApplyAction, DestinationInterface, GtpuTunnel};

use crate::provisioning::GtpuSide;
use crate::provisioning::{Provisioning, RuleCatalog};
use crate::record::{Far, Forwarding, Pdi, Pdr, Records};
use crate::refusal::{Refusal, RuleId};

/// Checks that a PDR's application is known and that its packets can arrive: tunneled packets on a
/// GTP-U interface, others on N6. `before`: the session's rules before the change.
/// Spec: TS 29.244 §8.2.4.
pub(super) fn pdi(
    known: RuleCatalog<'_>,
    before: &Records,
    pdr: &Pdr,
    pdi: &Pdi,
    tunneled: bool,
) -> Result<(), Refusal> {
    if let Some(id) = pdr.pdi.application.as_deref() {
        application(known, before, pdr, id)?;
    }
    let configured = known.configured;
    if !tunneled && !configured.has_data_network() {
        return Err(Refusal::NoDataNetwork { rule: RuleId::Pdr(pdr.id) });
    }
    let side = tunneled.then(|| GtpuSide::of_pdi(pdi));
    network_instance(configured, pdi.network_instance.as_deref(), side, RuleId::Pdr(pdr.id))
}

/// Checks the application that a PDR names, and that the PDR has no filters besides. An application
/// that the PDR named before the change may have lost its PDFs in the meantime. Spec: TS 29.244
/// §7.5.2.2.
fn application(
    known: RuleCatalog<'_>,
    before: &Records,
    pdr: &Pdr,
    id: &str,
) -> Result<(), Refusal> {
    let named = |old: &Pdr| old.id == pdr.id && old.pdi.application.as_deref() == Some(id);
    let is_named_already = before.pdrs.iter().any(named);
    if known.application(id).is_none() && !is_named_already {
        return Err(Refusal::UnknownApplication { pdr: pdr.id });
    }
    if !pdr.pdi.sdf.is_empty() {
        return Err(Refusal::ApplicationNotAlone { pdr: pdr.id });
    }
    Ok(())
}

/// Checks that a FAR's policies are known and that its packets can leave: in GTP-U through an
/// interface for it, others through N6. `before`: the session's rules before the change.
pub(super) fn far(known: &Provisioning, before: &Records, far: &Far) -> Result<(), Refusal> {
    for parts in far.forwarding.iter().chain(&far.duplicating) {
        if parts.policy.as_deref().is_some_and(|id| known.policy(id).is_none()) {
            return Err(Refusal::UnknownForwardingPolicy { far: far.id });
        }
    }
    let rule = RuleId::Far(far.id);
    if let Some(parts) = &far.forwarding {
        let name = parts.network_instance.as_deref();
        let side = parts
            .is_gtpu()
            .then(|| GtpuSide::of_destination(parts.destination, parts.interface_type, name));
        network_instance(known, name, side, rule)?;
    }
    let former = before.fars.iter().find(|old| old.id == far.id);
    for parts in in_use(far) {
        if parts.leads_to_a_data_network() && !known.has_data_network() {
            return Err(Refusal::NoDataNetwork { rule });
        }
        if let Some(GtpuTunnel { addr, .. }) = new_tunnel(former, parts)
            && !known.leads_to(known.forwarding_interfaces(parts), addr)
        {
            return Err(Refusal::TunnelUnreachable { far: far.id, addr });
        }
    }
    Ok(())
}

/// Returns the parameters by which the FAR forwards and copies packets at present.
fn in_use(far: &Far) -> impl Iterator<Item = &Forwarding> {
    let forwarding = far.forwarding.iter().filter(|_| far.action.contains(ApplyAction::FORW));
    let copies = far.duplicating.iter().filter(|_| far.action.contains(ApplyAction::DUPL));
    forwarding.chain(copies)
}

/// Returns the tunnel of `parts`, unless the FAR used it before the change, because a route that
/// was lost since must not refuse other changes. Tunnels to the CP function are left out as well:
/// they carry only Router Advertisements, which many sessions do not need, so they may be
/// unreachable.
fn new_tunnel(former: Option<&Far>, parts: &Forwarding) -> Option<GtpuTunnel> {
    let tunnel = parts.tunnel();
    let is_former = |far: &Far| in_use(far).any(|used| used.tunnel() == tunnel);
    tunnel.filter(|_| {
        parts.destination != DestinationInterface::CpFunction && !former.is_some_and(is_former)
    })
}

fn network_instance(
    known: &Provisioning,
    name: Option<&str>,
    tunnel: Option<GtpuSide<'_>>,
    rule: RuleId,
) -> Result<(), Refusal> {
    let is_known = match (name, tunnel) {
        (None, _) => true,
        (Some(_), Some(side)) => !known.tunnel_interfaces(side).is_empty(),
        (Some(name), None) => known.serves_network_instance(name),
    };
    if is_known { Ok(()) } else { Err(Refusal::UnknownNetworkInstance { rule }) }
}
