//! Chooses local F-TEIDs. Spec: TS 29.244 §5.5.3, §8.2.3.
//!
//! Parts of a change (PDRs and traffic endpoints) with the same CHOOSE ID get the same F-TEID.
//! INTEROP: so do parts of later changes, as long as a PDR or traffic endpoint that the change
//! leaves alone has this F-TEID: some control planes use the ID of the session's tunnel again with
//! each QoS flow that they add. After a restoration, the ID in a PDR of a QoS flow stands for the
//! session's only tunnel of this kind. A part in a network instance without the F-TEID's address
//! gets the same TEID with an address of its network instance.

use core::net::{Ipv4Addr, Ipv6Addr};

use adit_rules::{DestinationInterface, SourceInterface};
use adit_types::{SessionIndex, Teid};

use super::check;
use super::draft::{ChoiceTarget, TeidRequest};
use super::found::has_teid;
use crate::alloc::{TeidHolder, TeidPlan};
use crate::provisioning::{GtpuSide, LocalAddresses};
use crate::record::{ChosenFTeid, LocalFTeid, Pdi, Pdr, Records};
use crate::refusal::Refusal;
use crate::store::SessionStore;

/// The PDRs and traffic endpoints that share one F-TEID.
#[derive(Debug, Clone, PartialEq, Eq)]
enum FTeidGroup {
    /// All with this CHOOSE ID.
    ChooseId(u8),
    /// PDRs from Access in one network instance, if the operator configured this tolerance.
    NetworkInstance(Option<Box<str>>),
    /// A single PDR or traffic endpoint.
    Alone(ChoiceTarget),
}

/// Plans an F-TEID for each PDR and endpoint that requests one, and writes it into the records.
pub(super) fn choose(
    store: &SessionStore,
    session: SessionIndex,
    records: &mut Records,
    wanted: &[TeidRequest],
) -> Result<(TeidPlan, Vec<(ChoiceTarget, LocalFTeid)>), Refusal> {
    let own = &store.provisioning;
    let mut groups: Vec<(FTeidGroup, Option<LocalFTeid>)> = Vec::new();
    let mut members = Vec::with_capacity(wanted.len());
    for wanted in wanted {
        let local = own.addresses_on(own.tunnel_interfaces(side_of(records, wanted.target)));
        let mut addrs = requested_addresses(&local, wanted)?;
        let group = group_of(store, records, wanted);
        let known = groups.iter().position(|(other, _)| *other == group);
        let at = known.unwrap_or_else(|| {
            let held = held_f_teid(records, &group, wanted.target)
                .or_else(|| assign_restored_f_teid(records, &group, wanted.target));
            groups.push((group, held));
            groups.len() - 1
        });
        if let Some(held) = groups[at].1
            && check::is_local(own, &held, side_of(records, wanted.target).network_instance)
        {
            addrs = (held.v4, held.v6);
        }
        members.push((wanted.target, at, addrs));
    }
    let new = groups.iter().filter(|(_, held)| held.is_none()).count();
    let given = |teid| records.pdrs.iter().any(|pdr| has_teid(pdr, teid));
    let plan =
        store.teids.plan(session, new, own.teid_range, given).ok_or(Refusal::TeidsExhausted)?;
    let mut planned = plan.teids().iter();
    let teids: Vec<Teid> = groups
        .iter()
        .map(|(group, held)| match held {
            Some(held) => held.teid,
            None => {
                let Some(&teid) = planned.next() else {
                    unreachable!("the plan has a TEID for each new group")
                };
                if let FTeidGroup::ChooseId(choose_id) = *group {
                    records.chosen.push(ChosenFTeid { choose_id: Some(choose_id), teid });
                }
                teid
            }
        })
        .collect();
    let f_teid = |(target, at, (v4, v6)): (ChoiceTarget, usize, FTeidAddresses)| {
        (target, LocalFTeid { teid: teids[at], v4, v6 })
    };
    let chosen: Vec<_> = members.into_iter().map(f_teid).collect();
    for &(target, f_teid) in &chosen {
        set_f_teid(records, target, f_teid);
    }
    forget_unused(records);
    Ok((plan, chosen))
}

fn group_of(store: &SessionStore, records: &Records, wanted: &TeidRequest) -> FTeidGroup {
    let shares = store.provisioning.tolerances.one_f_teid_per_session;
    match (wanted.choose_id, pdi_of(records, wanted.target)) {
        (Some(id), _) => FTeidGroup::ChooseId(id),
        (None, Some(pdi)) if shares && pdi.source == SourceInterface::Access => {
            FTeidGroup::NetworkInstance(pdi.network_instance.clone())
        }
        (None, _) => FTeidGroup::Alone(wanted.target),
    }
}

fn pdi_of(records: &Records, target: ChoiceTarget) -> Option<&Pdi> {
    let ChoiceTarget::Pdr(id) = target else { return None };
    records.pdrs.iter().find(|pdr| pdr.id == id).map(|pdr| &pdr.pdi)
}

/// Returns the F-TEID that `group` already has in parts of the session that the change leaves
/// alone, and that are on the same side as `target`.
fn held_f_teid(records: &Records, group: &FTeidGroup, target: ChoiceTarget) -> Option<LocalFTeid> {
    let source = pdi_of(records, target).map(|pdi| pdi.source);
    let mut pdis = records.pdrs.iter().flat_map(|pdr| pdr.pdi.each());
    match group {
        FTeidGroup::Alone(_) => None,
        FTeidGroup::NetworkInstance(name) => pdis
            .find(|pdi| {
                pdi.source == SourceInterface::Access
                    && pdi.network_instance == *name
                    && pdi.f_teid.is_some()
            })
            .and_then(|pdi| pdi.f_teid),
        FTeidGroup::ChooseId(id) => {
            let of_id = records.chosen.iter().rev().filter(|chosen| chosen.choose_id == Some(*id));
            let mut held = of_id.filter_map(|chosen| holder(records, chosen.teid));
            held.find(|(_, side)| side.is_none_or(|side| source.is_none_or(|own| own == side)))
                .map(|(f_teid, _)| f_teid)
        }
    }
}

/// Returns the TEIDs of a restored session that can be restored: those in its PDRs that we chose in
/// a previous run, if their positions are free or if a replaced session has them.
pub(super) fn restored(
    store: &SessionStore,
    records: &Records,
    replaced: &[SessionIndex],
) -> Vec<Teid> {
    let pdis = records.pdrs.iter().flat_map(|pdr| pdr.pdi.each());
    let given = pdis.filter_map(|pdi| pdi.f_teid).map(|f_teid| f_teid.teid);
    let is_handed_over = |teid| match store.teids.holder(teid) {
        TeidHolder::Session(holder) => replaced.contains(&holder) && !store.teids.is_given(teid),
        TeidHolder::Nobody | TeidHolder::Retired => false,
    };
    let is_restored = |teid: &Teid| store.teids.is_restorable(*teid) || is_handed_over(*teid);
    let mut restored: Vec<Teid> = given.filter(is_restored).collect();
    restored.sort_unstable();
    restored.dedup();
    restored
}

/// Stores the F-TEIDs with which the control plane restores a session as chosen by us. The request
/// does not contain the CHOOSE IDs for which we chose them. Spec: TS 29.244 §8.2.136 (RESTI).
pub(super) fn note_restored(records: &mut Records, restored: &[Teid]) {
    records.chosen = restored.iter().map(|&teid| ChosenFTeid { choose_id: None, teid }).collect();
}

/// Returns the F-TEID of a restored session to which a CHOOSE ID most likely belongs, and assigns
/// the ID to it: the only F-TEID of uplink PDRs of QoS flows from the same side, network instance
/// and reference point. A PDU session has one such tunnel (TS 23.501 §5.8.2.3). If PDRs name no QoS
/// flow, as in EPC, each bearer has its own tunnel, and the F-TEID cannot be known.
fn assign_restored_f_teid(
    records: &mut Records,
    group: &FTeidGroup,
    target: ChoiceTarget,
) -> Option<LocalFTeid> {
    let (FTeidGroup::ChooseId(id), ChoiceTarget::Pdr(pdr)) = (group, target) else { return None };
    if records.chosen.iter().all(|chosen| chosen.choose_id.is_some()) {
        return None;
    }
    let is_uplink = |pdr: &&Pdr| {
        let far = records.fars.iter().find(|far| Some(far.id) == pdr.far);
        let forwarding = far.and_then(|far| far.forwarding.as_ref());
        pdr.pdi.source == SourceInterface::Access
            && forwarding.is_none_or(|to| to.destination != DestinationInterface::Access)
    };
    let own = &records.pdrs.iter().find(|known| known.id == pdr).filter(is_uplink)?.pdi;
    if own.qfis.is_empty() {
        return None;
    }
    let is_like = |pdi: &&Pdi| {
        pdi.network_instance == own.network_instance
            && pdi.interface_type.zip(own.interface_type).is_none_or(|(one, other)| one == other)
    };
    let pdrs = records.pdrs.iter().filter(is_uplink);
    let pdis = pdrs.flat_map(|pdr| pdr.pdi.each()).filter(is_like);
    let held: Vec<(LocalFTeid, bool)> =
        pdis.filter_map(|pdi| Some((pdi.f_teid?, !pdi.qfis.is_empty()))).collect();
    let (only, _) = *held.iter().find(|(_, is_of_flow)| *is_of_flow)?;
    let is_only = held.iter().all(|(f_teid, _)| *f_teid == only);
    let mut chosen = records.chosen.iter_mut();
    let restored = chosen.find(|chosen| chosen.choose_id.is_none() && chosen.teid == only.teid);
    restored.filter(|_| is_only)?.choose_id = Some(*id);
    Some(only)
}

/// Returns the F-TEID with this TEID, and the source interface of a PDR that has it.
fn holder(records: &Records, teid: Teid) -> Option<(LocalFTeid, Option<SourceInterface>)> {
    let is_it = |f_teid: &LocalFTeid| f_teid.teid == teid;
    let mut pdis = records.pdrs.iter().flat_map(|pdr| pdr.pdi.each());
    let of_pdr = pdis.find_map(|pdi| Some((pdi.f_teid.filter(is_it)?, Some(pdi.source))));
    let endpoints = records.traffic_endpoints.iter();
    of_pdr.or_else(|| {
        endpoints.filter_map(|endpoint| endpoint.f_teid).find(is_it).map(|f_teid| (f_teid, None))
    })
}

fn forget_unused(records: &mut Records) {
    let mut chosen = core::mem::take(&mut records.chosen);
    chosen.retain(|chosen| holder(records, chosen.teid).is_some());
    records.chosen = chosen;
}

fn set_f_teid(records: &mut Records, target: ChoiceTarget, f_teid: LocalFTeid) {
    match target {
        ChoiceTarget::Pdr(id) => {
            for record in records.pdrs.iter_mut().filter(|record| record.id == id) {
                record.pdi.f_teid = Some(f_teid);
            }
        }
        ChoiceTarget::TrafficEndpoint(id) => {
            for record in records.traffic_endpoints.iter_mut().filter(|record| record.id == id) {
                record.f_teid = Some(f_teid);
            }
        }
    }
}

/// Returns the side that sends into the tunnel of `target`: the RAN if no PDR names the endpoint.
fn side_of(records: &Records, target: ChoiceTarget) -> GtpuSide<'_> {
    let is_it = |id| matches!(target, ChoiceTarget::TrafficEndpoint(wanted) if wanted == id);
    let mut pdis = records.pdrs.iter().flat_map(|pdr| pdr.pdi.each());
    let named = pdis.find(|pdi| pdi.traffic_endpoints.first().is_some_and(|id| is_it(*id)));
    if let Some(pdi) = pdi_of(records, target).or(named) {
        return GtpuSide::of_pdi(pdi);
    }
    let endpoint = records.traffic_endpoints.iter().find(|known| is_it(known.id));
    let name = endpoint.and_then(|known| known.network_instance.as_deref());
    let reference = endpoint.and_then(|known| known.interface_type);
    GtpuSide::of_source(SourceInterface::Access, reference, name)
}

type FTeidAddresses = (Option<Ipv4Addr>, Option<Ipv6Addr>);

/// Returns our addresses of the requested families; if both are requested, one is enough. INTEROP:
/// if no family is requested, the one that we have, IPv4 first.
fn requested_addresses(
    local: &LocalAddresses,
    wanted: &TeidRequest,
) -> Result<FTeidAddresses, Refusal> {
    let chosen = match (wanted.v4, wanted.v6) {
        (false, false) => (local.v4, local.v6.filter(|_| local.v4.is_none())),
        (v4, v6) => (local.v4.filter(|_| v4), local.v6.filter(|_| v6)),
    };
    match (chosen, wanted.target) {
        ((None, None), ChoiceTarget::Pdr(pdr)) => Err(Refusal::FTeidFamilyUnavailable { pdr }),
        ((None, None), ChoiceTarget::TrafficEndpoint(id)) => {
            Err(Refusal::TrafficEndpointUnusable { id })
        }
        (chosen, _) => Ok(chosen),
    }
}
