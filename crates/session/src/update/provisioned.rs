//! Checks of what rules name and the operator configured.

use adit_rules::{ApplyAction, DestinationInterface};

use crate::provisioning::GtpuSide;
use crate::provisioning::{Provisioning, RuleCatalog};
use crate::record::{Far, Pdi, Pdr, Records};
use crate::refusal::{Refusal, RuleId};

/// A PDR's application must be known, and its packets must be able to arrive: tunneled ones on
/// a GTP-U interface, plain ones on N6. `before` are the session's rules before the change.
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

/// Detection is by the application or by filters of the PDI's own. An application that the PDR
/// names since before may have lost its PFDs meanwhile. Spec: TS 29.244 §7.5.2.2.
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

/// A FAR's policies must be known, and its packets must be able to leave: in GTP-U on an
/// interface for it, others on N6. `before` are the session's rules before the change.
pub(super) fn far(known: &Provisioning, before: &Records, far: &Far) -> Result<(), Refusal> {
    for parts in far.forwarding.iter().chain(&far.duplicating) {
        if parts.policy.as_deref().is_some_and(|id| known.policy(id).is_none()) {
            return Err(Refusal::UnknownForwardingPolicy { far: far.id });
        }
    }
    let Some(forwarding) = &far.forwarding else { return Ok(()) };
    let name = forwarding.network_instance.as_deref();
    let rule = RuleId::Far(far.id);
    let side = forwarding
        .is_gtpu()
        .then(|| GtpuSide::of_destination(forwarding.destination, forwarding.interface_type, name));
    network_instance(known, name, side, rule)?;
    if !forwards(far) {
        return Ok(());
    }
    if forwarding.leads_to_a_data_network() && !known.has_data_network() {
        return Err(Refusal::NoDataNetwork { rule });
    }
    tunnel(known, before, far)
}

fn forwards(far: &Far) -> bool {
    far.action.contains(ApplyAction::FORW)
}

/// A route must lead to the other end of a tunnel, unless packets of the session were sent there before:
/// then a route that has gone is not this change's fault. A tunnel to the CP function carries Router
/// Advertisements alone: it may lead nowhere, so that sessions without them are not refused.
fn tunnel(known: &Provisioning, before: &Records, far: &Far) -> Result<(), Refusal> {
    let Some(parts) = &far.forwarding else { return Ok(()) };
    let Some(tunnel) = parts.tunnel() else { return Ok(()) };
    let is_same = |old: &Far| old.id == far.id && forwards(old) && old.tunnel() == Some(tunnel);
    let is_exempt =
        parts.destination == DestinationInterface::CpFunction || before.fars.iter().any(is_same);
    let within = known.forwarding_interfaces(parts);
    match is_exempt || known.leads_to(within, tunnel.addr) {
        true => Ok(()),
        false => Err(Refusal::TunnelUnreachable { far: far.id, addr: tunnel.addr }),
    }
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
        (Some(name), None) => known.knows(name),
    };
    if is_known { Ok(()) } else { Err(Refusal::UnknownNetworkInstance { rule }) }
}
