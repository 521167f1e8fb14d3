//! Traffic endpoints: their records, and the fields that PDRs take over from them.
//!
//! Spec: TS 29.244 §5.2.1A.2A, §7.5.2.7, §7.5.4.13, §7.5.4.14.

use adit_types::limits::TRAFFIC_ENDPOINTS_PER_PDI_MAX;

use super::draft::{ChoiceTarget, Draft, distinct};
use crate::change::TrafficEndpointSpec;
use crate::record::{Pdi, Pdr, Records, TrafficEndpoint, TrafficEndpointId, UeMatch, UeSide};
use crate::refusal::Refusal;
use crate::rule::RulePart;

/// Removes traffic endpoints, with PDRs that name no other endpoint and links to them. Spec: TS
/// 29.244
/// §7.5.4.1.
pub(super) fn remove(records: &mut Records, ids: &[TrafficEndpointId]) -> Result<(), Refusal> {
    for &id in ids {
        let at = position(records, id).ok_or(Refusal::UnknownTrafficEndpoint { id })?;
        records.traffic_endpoints.remove(at);
        records.pdrs.retain_mut(|pdr| {
            let named = &mut pdr.pdi.traffic_endpoints;
            let is_of_it = named.contains(&id);
            named.retain(|known| *known != id);
            !is_of_it || !named.is_empty()
        });
        for far in &mut records.fars {
            if let Some(forwarding) = &mut far.forwarding {
                forwarding.linked_endpoint = forwarding.linked_endpoint.filter(|at| *at != id);
            }
        }
    }
    Ok(())
}

/// Creates traffic endpoints.
pub(super) fn create(draft: &mut Draft, specs: Vec<TrafficEndpointSpec>) -> Result<(), Refusal> {
    for spec in specs {
        let id = spec.id;
        if position(&draft.records, id).is_some() {
            return Err(Refusal::DuplicateTrafficEndpoint { id });
        }
        let endpoint = apply_spec(draft, TrafficEndpoint { id, ..Default::default() }, spec);
        draft.records.traffic_endpoints.push(endpoint);
    }
    Ok(())
}

/// Updates traffic endpoints.
pub(super) fn update(draft: &mut Draft, specs: Vec<TrafficEndpointSpec>) -> Result<(), Refusal> {
    let mut ids: Vec<TrafficEndpointId> = specs.iter().map(|spec| spec.id).collect();
    ids.sort_unstable();
    if let Some(&[id, _]) = ids.windows(2).find(|pair| pair.first() == pair.last()) {
        return Err(Refusal::DuplicateTrafficEndpoint { id });
    }
    for spec in specs {
        let id = spec.id;
        let at = position(&draft.records, id).ok_or(Refusal::UnknownTrafficEndpoint { id })?;
        let before = draft.records.traffic_endpoints.remove(at);
        let endpoint = apply_spec(draft, before, spec);
        draft.records.traffic_endpoints.insert(at, endpoint);
    }
    Ok(())
}

/// Applies `spec` to a traffic endpoint; records what is to be chosen.
fn apply_spec(
    draft: &mut Draft,
    mut endpoint: TrafficEndpoint,
    spec: TrafficEndpointSpec,
) -> TrafficEndpoint {
    let target = ChoiceTarget::TrafficEndpoint(spec.id);
    if let Some(f_teid) = spec.f_teid {
        draft.teid_requests.retain(|wanted| wanted.target != target);
        endpoint.f_teid = draft.provide_f_teid(target, f_teid);
    }
    if spec.ue.is_some() || spec.choose_ue.is_some() {
        draft.ue_requests.retain(|wanted| wanted.target != target);
        endpoint.ue = spec.ue;
        endpoint.further_ues = distinct(spec.further_ues);
        draft.request_ue(target, spec.choose_ue);
    }
    endpoint.network_instance.change(spec.network_instance);
    endpoint.framed_routes.change(spec.framed_routes.map(distinct));
    endpoint.interface_type.change(spec.interface_type);
    endpoint.qfis.change(spec.qfis.map(distinct));
    endpoint
}

/// Copies into every PDR the present fields of the traffic endpoints that it names.
pub(super) fn apply_to_pdrs(records: &mut Records) -> Result<(), Refusal> {
    let Records { pdrs, traffic_endpoints, .. } = records;
    for Pdr { id: pdr, pdi, .. } in pdrs {
        let find = |id: &TrafficEndpointId| {
            let endpoint = traffic_endpoints.iter().find(|endpoint| endpoint.id == *id);
            endpoint.ok_or(Refusal::UnknownTrafficEndpointOfPdr { pdr: *pdr })
        };
        let Some((first, further)) = pdi.traffic_endpoints.split_first() else { continue };
        if further.len() >= TRAFFIC_ENDPOINTS_PER_PDI_MAX {
            return Err(Refusal::TooManyTrafficEndpointsOfPdr { pdr: *pdr });
        }
        let first = find(first)?;
        let further: Vec<_> = further.iter().map(find).collect::<Result<_, _>>()?;
        pdi.further.clear();
        let further = further.into_iter().map(|endpoint| {
            let mut other = pdi.clone();
            take_over_fields(&mut other, endpoint);
            other.traffic_endpoints = vec![endpoint.id];
            other
        });
        pdi.further = further.collect();
        take_over_fields(pdi, first);
    }
    Ok(())
}

fn take_over_fields(pdi: &mut Pdi, endpoint: &TrafficEndpoint) {
    pdi.f_teid = endpoint.f_teid;
    // The PDR's direction decides which address of a packet is compared, so the flag is reset.
    pdi.ue = endpoint.ue.map(|ue| UeMatch { side: UeSide::Source, ..ue });
    pdi.further_ues.clone_from(&endpoint.further_ues);
    pdi.framed_routes.clone_from(&endpoint.framed_routes);
    pdi.network_instance = match &endpoint.network_instance {
        Some(name) => Some(name.clone()),
        None => pdi.own.network_instance.clone(),
    };
    pdi.qfis = if endpoint.qfis.is_empty() { &pdi.own.qfis } else { &endpoint.qfis }.clone();
    pdi.interface_type = endpoint.interface_type.or(pdi.own.interface_type);
}

fn position(records: &Records, id: TrafficEndpointId) -> Option<usize> {
    records.traffic_endpoints.iter().position(|endpoint| endpoint.id == id)
}
