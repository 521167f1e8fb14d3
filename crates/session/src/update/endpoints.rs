//! Traffic endpoints: their records, and what PDRs take over from them.
//!
//! Spec: TS 29.244 §5.2.1A.2A, §7.5.2.7, §7.5.4.13, §7.5.4.14.

use super::s1_provide::{Draft, Target, distinct};
use crate::change::TrafficEndpointSpec;
use crate::record::{Pdi, Records, TrafficEndpoint, TrafficEndpointId, UeMatch, UeSide};
use crate::refusal::Refusal;

/// Removes traffic endpoints and the PDRs that name them. Spec: TS 29.244 §7.5.4.1.
pub(super) fn remove(records: &mut Records, ids: &[TrafficEndpointId]) -> Result<(), Refusal> {
    for &id in ids {
        let at = position(records, id).ok_or(Refusal::UnknownTrafficEndpoint { id })?;
        records.traffic_endpoints.remove(at);
        records.pdrs.retain(|pdr| pdr.pdi.traffic_endpoint != Some(id));
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
        let empty =
            TrafficEndpoint { id, f_teid: None, network_instance: None, ue: None, qfis: vec![] };
        let endpoint = merge(draft, empty, spec);
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
        let endpoint = merge(draft, before, spec);
        draft.records.traffic_endpoints.insert(at, endpoint);
    }
    Ok(())
}

/// Replaces the parts that `spec` has.
fn merge(
    draft: &mut Draft,
    mut endpoint: TrafficEndpoint,
    spec: TrafficEndpointSpec,
) -> TrafficEndpoint {
    let target = Target::TrafficEndpoint(spec.id);
    if let Some(f_teid) = spec.f_teid {
        draft.wanted.retain(|wanted| wanted.target != target);
        endpoint.f_teid = draft.provide_f_teid(target, f_teid);
    }
    if spec.ue.is_some() || spec.choose_ue.is_some() {
        draft.wanted_ues.retain(|wanted| wanted.target != target);
        endpoint.ue = spec.ue;
        draft.want_ue(target, spec.choose_ue);
    }
    let name = spec.network_instance.or(endpoint.network_instance);
    endpoint.network_instance = name.filter(|name| !name.is_empty());
    if !spec.qfis.is_empty() {
        endpoint.qfis = distinct(spec.qfis);
    }
    endpoint
}

/// Gives every PDR that names a traffic endpoint what the endpoint has by now.
pub(super) fn link(records: &mut Records) -> Result<(), Refusal> {
    let Records { pdrs, traffic_endpoints, .. } = records;
    for pdr in pdrs {
        let Some(id) = pdr.pdi.traffic_endpoint else { continue };
        let endpoint = traffic_endpoints.iter().find(|endpoint| endpoint.id == id);
        let endpoint = endpoint.ok_or(Refusal::UnknownTrafficEndpointOfPdr { pdr: pdr.id })?;
        take_over(&mut pdr.pdi, endpoint);
    }
    Ok(())
}

fn take_over(pdi: &mut Pdi, endpoint: &TrafficEndpoint) {
    pdi.f_teid = endpoint.f_teid;
    // The PDR's direction decides which address of a packet is the UE's.
    pdi.ue = endpoint.ue.map(|ue| UeMatch { side: UeSide::Source, ..ue });
    if endpoint.network_instance.is_some() {
        pdi.network_instance.clone_from(&endpoint.network_instance);
    }
    if !endpoint.qfis.is_empty() {
        pdi.qfis.clone_from(&endpoint.qfis);
    }
}

fn position(records: &Records, id: TrafficEndpointId) -> Option<usize> {
    records.traffic_endpoints.iter().position(|endpoint| endpoint.id == id)
}
