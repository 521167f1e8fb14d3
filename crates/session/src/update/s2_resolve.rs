//! Stage 2: checks rules against each other, configuration and other sessions; chooses identifiers.
//!
//! This stage reads the store and does not change it: what it chooses is only planned. Checks of
//! single rules are in `check`.

use std::collections::{BTreeMap, BTreeSet};

use adit_rules::{PacketFilter, Redirect, SessionKey, SourceInterface, UeAddresses};
use adit_types::limits::{
    KEYS_PER_SESSION_MAX, RATES_PER_SESSION_MAX, TRAFFIC_ENDPOINTS_PER_SESSION_MAX,
};
use adit_types::{QerId, SessionIndex, Teid, UrrId};

use super::draft::{ChoiceTarget, Draft, TeidRequest, UeAddressRequest};
use super::{check, choose_f_teid, choose_ue, endpoints, exemption, pool, predefined, provisioned};
use crate::alloc::{TeidHolder, TeidPlan, UePlan};
use crate::cp_function::OwnerId;
use crate::direction::{self, Directions};
use crate::index::correlated_rates;
use crate::keys::{self, SessionDomains, SessionKeys};
use crate::provisioning::{DomainSet, Provisioning, RuleCatalog};
use crate::record::{Far, LocalFTeid, Pdi, Pdr, Records, TrafficEndpoint, UeMatch};
use crate::refusal::{Refusal, RuleKind};
use crate::session::OpenSession;
use crate::store::{Created, CreatedPdr, CreatedTrafficEndpoint, CreatedUe, SessionStore};
use crate::usage::UsageChange;

/// A change that has passed all checks and can no longer be refused.
#[derive(Debug, Default)]
pub(crate) struct Resolved {
    /// The rules after the change.
    pub records: Records,
    /// Claims and keys of these rules.
    pub keys: SessionKeys,
    /// TEIDs chosen for the change.
    pub teids: TeidPlan,
    /// UE addresses chosen for the change.
    pub ues: Vec<UePlan>,
    /// The F-TEIDs and UE addresses chosen for PDRs and traffic endpoints, for the response.
    pub created: Created,
    /// True to discard buffered packets.
    pub drop_buffered: bool,
    /// TEIDs that we chose in a previous run and that are to be restored.
    pub restored_teids: Vec<Teid>,
    /// The change of measurements.
    pub usage: UsageChange,
    /// QERs that the change creates.
    pub created_qers: Vec<QerId>,
    /// Sessions that this change replaces.
    pub replaced: Vec<SessionIndex>,
}

/// Checks and completes the draft of a change of `session`.
pub(super) fn resolve(
    store: &SessionStore,
    session: &OpenSession,
    draft: Draft,
) -> Result<Resolved, Refusal> {
    let Draft {
        mut records,
        teid_requests: wanted,
        ue_requests: wanted_ues,
        drop_buffered,
        is_restoration,
        replaces,
        usage,
        created_qers,
    } = draft;
    let (index, before) = (session.index, &session.records);
    check_alone(store.catalog(), Some(before), &mut records, &wanted)?;
    check_capacities(store, session, &records, &usage)?;
    let mut replaced = check_or_replace(store, index, &records, &replaces)?;
    let restored_teids = match is_restoration {
        true => choose_f_teid::restored(store, &records, &replaced),
        false => Vec::new(),
    };
    let keys = SessionKeys::of(&store.provisioning, &records);
    check_given_teids(store, &keys.claims, &restored_teids)?;
    link_sdf_filters(&mut records.pdrs)?;
    if is_restoration {
        choose_f_teid::note_restored(&mut records, &restored_teids);
    }
    let chooses = !wanted.is_empty() || !wanted_ues.is_empty();
    let Chosen { teids, f_teids, ues } =
        choose(store, session, &mut records, &wanted, &wanted_ues)?;
    check_tunnel_sides(&records)?;
    if !wanted.is_empty() {
        replaced = check_or_replace(store, index, &records, &replaces)?;
    }
    let keys = if chooses { SessionKeys::of(&store.provisioning, &records) } else { keys };
    check_key_count(store, &keys)?;
    let created = created_for_response(&records, &f_teids, &wanted_ues);
    Ok(Resolved {
        records,
        keys,
        teids,
        ues,
        created,
        drop_buffered,
        restored_teids,
        usage,
        created_qers,
        replaced,
    })
}

/// Checks a session of a previous run against other sessions; [`check_former_alone`] has already
/// accepted its records. Keeps in `restored_teids` those that can be restored.
pub(super) fn resolve_former(
    store: &SessionStore,
    session: &OpenSession,
    resolved: &mut Resolved,
) -> Result<(), Refusal> {
    let Resolved { records, keys, restored_teids, usage, .. } = resolved;
    check_capacities(store, session, records, usage)?;
    check_all_claims(store, session.index, records, &[])?;
    restored_teids.retain(|&teid| store.teids.is_restorable(teid));
    check_given_teids(store, &keys.claims, restored_teids)?;
    check_key_count(store, keys)
}

/// Checks the records of a session of a previous run, apart from other sessions, and completes
/// references in them. An application that it names may have lost its PFDs.
pub(crate) fn check_former_alone(
    known: RuleCatalog<'_>,
    records: &mut Records,
) -> Result<SessionKeys, Refusal> {
    check_alone(known, None, records, &[])?;
    let keys = SessionKeys::of(known.configured, records);
    link_sdf_filters(&mut records.pdrs)?;
    check_tunnel_sides(records)?;
    Ok(keys)
}

/// Checks the rules against each other and against the provisioning. Applications that `before`
/// names need no PFDs; if it is `None`, those that the records themselves name.
fn check_alone(
    known: RuleCatalog<'_>,
    before: Option<&Records>,
    records: &mut Records,
    wanted: &[TeidRequest],
) -> Result<(), Refusal> {
    check_counts(records)?;
    endpoints::apply_to_pdrs(records)?;
    let before = before.unwrap_or(records);
    check_fars(known.configured, before, records)?;
    check_urrs(known, before, records)?;
    check_pdrs(known, before, records, wanted)
}

/// Checks the rules against capacities that all sessions share.
fn check_capacities(
    store: &SessionStore,
    session: &OpenSession,
    records: &Records,
    usage: &UsageChange,
) -> Result<(), Refusal> {
    store.correlated_rates.check(&correlated_rates(session.origin, &records.qers))?;
    let slice = store.provisioning.qos.slice_of(records);
    store.guaranteed.check(session.index, slice, &records.qers)?;
    check_usage_slots(store, &session.records, records, usage)
}

/// Checks the claims against those of other sessions. Returns the sessions to replace: those of the
/// owners `replaces` that have a TEID or UE address of this session. A session that has only one of
/// its framed routes is not replaced.
fn check_or_replace(
    store: &SessionStore,
    index: SessionIndex,
    records: &Records,
    replaces: &[OwnerId],
) -> Result<Vec<SessionIndex>, Refusal> {
    let Err(refusal) = check_all_claims(store, index, records, &[]) else { return Ok(Vec::new()) };
    let claims = keys::claims(&store.provisioning, records);
    let holders = claims.into_iter().filter_map(|key| match key {
        SessionKey::Teid(teid) => match store.teids.holder(teid) {
            TeidHolder::Session(holder) => Some(holder),
            TeidHolder::Nobody | TeidHolder::Retired => None,
        },
        SessionKey::UeIpv4(..) | SessionKey::UeIpv6(..) => store.ues.holder(key),
        SessionKey::Framed(..) => None,
    });
    let gives_way = |holder: &SessionIndex| {
        let holder = store.session_at(*holder).filter(|_| *holder != index);
        holder.is_some_and(|holder| replaces.contains(&holder.owner()))
    };
    let mut replaced: Vec<SessionIndex> = holders.filter(gives_way).collect();
    replaced.sort_unstable();
    replaced.dedup();
    match replaced.is_empty() {
        true => Err(refusal),
        false => check_all_claims(store, index, records, &replaced).map(|()| replaced),
    }
}

/// The F-TEIDs and UE addresses chosen for a change.
#[derive(Debug, Default)]
struct Chosen {
    teids: TeidPlan,
    f_teids: Vec<(ChoiceTarget, LocalFTeid)>,
    ues: Vec<UePlan>,
}

fn choose(
    store: &SessionStore,
    session: &OpenSession,
    records: &mut Records,
    wanted: &[TeidRequest],
    wanted_ues: &[UeAddressRequest],
) -> Result<Chosen, Refusal> {
    let (teids, f_teids) = choose_f_teid::choose(store, session.index, records, wanted)?;
    endpoints::apply_to_pdrs(records)?;
    // Only now: the domains of a UE address depend on which PDRs have a tunnel.
    let ues = choose_ue::choose(store, session.index, &session.records, records, wanted_ues)?;
    endpoints::apply_to_pdrs(records)?;
    Ok(Chosen { teids, f_teids, ues })
}

fn check_fars(known: &Provisioning, before: &Records, records: &Records) -> Result<(), Refusal> {
    for far in &records.fars {
        check::far(known, far)?;
        provisioned::far(known, before, far)?;
        check_bar(records, far)?;
        check_linked_endpoint(records, far)?;
    }
    Ok(())
}

fn check_key_count(store: &SessionStore, keys: &SessionKeys) -> Result<(), Refusal> {
    let claims = &keys.claims;
    if claims.len() > KEYS_PER_SESSION_MAX {
        return Err(Refusal::TooManyKeys);
    }
    match store.ues.exceeds(claims, store.keys_max) {
        true => Err(Refusal::UeTableFull),
        false => Ok(()),
    }
}

/// Checks the contents of PDRs and the objects that they name. Applications that `before` names
/// need no PFDs.
fn check_pdrs(
    known: RuleCatalog<'_>,
    before: &Records,
    records: &Records,
    wanted: &[TeidRequest],
) -> Result<(), Refusal> {
    for pdr in &records.pdrs {
        check::pdr(known.configured, records, pdr)?;
        for pdi in pdr.pdi.each() {
            let tunneled = is_tunneled(pdr, pdi, wanted);
            check::outer_header_removal(pdr, pdi, tunneled)?;
            provisioned::pdi(known, before, pdr, pdi, tunneled)?;
        }
        predefined::check(known, pdr)?;
        check_references(known, records, pdr)?;
    }
    predefined::check_count(known, records)
}

/// True if packets of the PDR that match `pdi` arrive in a tunnel.
fn is_tunneled(pdr: &Pdr, pdi: &Pdi, wanted: &[TeidRequest]) -> bool {
    matches!(pdi.source, SourceInterface::Access | SourceInterface::CpFunction)
        || pdi.f_teid.is_some()
        || wanted.iter().any(|wanted| match wanted.target {
            ChoiceTarget::Pdr(id) => id == pdr.id,
            ChoiceTarget::TrafficEndpoint(id) => pdi.traffic_endpoints.first() == Some(&id),
        })
}

/// Checks the number of TEIDs that the control plane chose, in all sessions: at most `keys_max`, so
/// that publication never finds their table full. TEIDs that we choose, or chose in a previous run,
/// are in another table.
fn check_given_teids(
    store: &SessionStore,
    claims: &[SessionKey],
    restored: &[Teid],
) -> Result<(), Refusal> {
    let is_new = |key: &SessionKey| match *key {
        SessionKey::Teid(teid) => {
            store.teids.holder(teid) == TeidHolder::Nobody && !restored.contains(&teid)
        }
        _ => false,
    };
    let new = claims.iter().filter(|key| is_new(key)).count();
    match store.teids.given_count() + new > store.keys_max {
        true => Err(Refusal::GivenTeidsFull),
        false => Ok(()),
    }
}

fn check_counts(records: &Records) -> Result<(), Refusal> {
    let counts = [
        (RuleKind::Pdr, records.pdrs.len()),
        (RuleKind::Far, records.fars.len()),
        (RuleKind::Qer, records.qers.len()),
        (RuleKind::Bar, records.bars.len()),
        (RuleKind::Urr, records.urrs.len()),
    ];
    if records.traffic_endpoints.len() > TRAFFIC_ENDPOINTS_PER_SESSION_MAX {
        return Err(Refusal::TooManyTrafficEndpoints);
    }
    if let Some((kind, _)) =
        counts.into_iter().find(|&(kind, count)| count > kind.max_per_session())
    {
        return Err(Refusal::TooManyRules { kind });
    }
    let rates = records.qers.iter().filter(|qer| qer.mbr.is_some() || qer.gbr.is_some()).count();
    match rates > RATES_PER_SESSION_MAX {
        true => Err(Refusal::TooManyRates),
        false => Ok(()),
    }
}

fn check_bar(records: &Records, far: &Far) -> Result<(), Refusal> {
    match far.bar.filter(|&bar| !records.bars.iter().any(|known| known.id == bar)) {
        Some(bar) => Err(Refusal::UnknownBar { far: far.id, bar }),
        None => Ok(()),
    }
}

fn check_linked_endpoint(records: &Records, far: &Far) -> Result<(), Refusal> {
    let linked = far.forwarding.as_ref().and_then(|forwarding| forwarding.linked_endpoint);
    let is_known = |id| records.traffic_endpoints.iter().any(|endpoint| endpoint.id == id);
    match linked.filter(|&id| !is_known(id)) {
        Some(id) => Err(Refusal::UnknownLinkedEndpoint { far: far.id, id }),
        None => Ok(()),
    }
}

/// Checks URRs and the objects that they name. Applications that `before` names need no PFDs.
fn check_urrs(known: RuleCatalog<'_>, before: &Records, records: &Records) -> Result<(), Refusal> {
    pool::check(&records.urrs)?;
    let ids: BTreeSet<UrrId> = records.urrs.iter().map(|urr| urr.id).collect();
    for urr in &records.urrs {
        check::urr(urr)?;
        exemption::check(known, before, urr)?;
        let links = urr.settings.linked.as_deref().unwrap_or_default();
        if let Some(&linked) = links.iter().find(|&id| !ids.contains(id)) {
            return Err(Refusal::UnknownLinkedUrr { urr: urr.id, linked });
        }
        let quota_far = urr.settings.quota_far;
        if let Some(far) = quota_far.filter(|&id| !records.fars.iter().any(|far| far.id == id)) {
            return Err(Refusal::UnknownQuotaFar { urr: urr.id, far });
        }
    }
    Ok(())
}

/// Checks that there are usage slots for new URRs. A URR that is removed and created again needs a
/// second slot until its last usage has been read.
fn check_usage_slots(
    store: &SessionStore,
    before: &Records,
    records: &Records,
    usage: &UsageChange,
) -> Result<(), Refusal> {
    let is_old =
        |id: &UrrId| before.urrs.iter().any(|urr| urr.id == *id) && !usage.removed.contains(id);
    let new = records.urrs.iter().filter(|urr| !is_old(&urr.id)).count();
    let timed = |records: &Records| records.inactivity_timer.is_some();
    let timer = usize::from(timed(records) && !timed(before));
    match new + timer > store.usage_slots.available() {
        true => Err(Refusal::UsageSlotsExhausted),
        false => Ok(()),
    }
}

fn check_references(known: RuleCatalog<'_>, records: &Records, pdr: &Pdr) -> Result<(), Refusal> {
    let far = pdr.far.map(|far| {
        let found = records.fars.iter().find(|known| known.id == far);
        found.ok_or(Refusal::UnknownFar { pdr: pdr.id, far })
    });
    let far = far.transpose()?;
    if far.is_none() && predefined::needs_far(known, pdr) {
        return Err(Refusal::FarMissing { pdr: pdr.id });
    }
    let parts = far.and_then(|far| far.forwarding.as_ref());
    let redirect = parts.and_then(|parts| parts.redirect.as_ref());
    if matches!(redirect, Some(Redirect::Url(_))) && !direction::is_of_ue(records, pdr) {
        return Err(Refusal::RedirectUnusable { pdr: pdr.id });
    }
    if let Some(&urr) = pdr.urrs.iter().find(|&&urr| !records.urrs.iter().any(|u| u.id == urr)) {
        return Err(Refusal::UnknownUrr { pdr: pdr.id, urr });
    }
    match pdr.qers.iter().find(|&&qer| !records.qers.iter().any(|known| known.id == qer)) {
        Some(&qer) => Err(Refusal::UnknownQer { pdr: pdr.id, qer }),
        None => Ok(()),
    }
}

/// Compares the claims of one session with those of all others.
#[derive(Clone, Copy)]
struct OtherClaims<'a> {
    store: &'a SessionStore,
    index: SessionIndex,
    /// Sessions that the change replaces; their claims do not count.
    replaced: &'a [SessionIndex],
}

impl OtherClaims<'_> {
    /// Checks that no other session has the TEID, UE addresses or framed routes of a PDI.
    fn check(self, pdr: &Pdr, pdi: &Pdi, domains: DomainSet) -> Result<(), Refusal> {
        if let Some(teid) = pdi.f_teid.map(|f_teid| f_teid.teid)
            && self.has_key(SessionKey::Teid(teid))
        {
            return Err(Refusal::FTeidTaken { pdr: pdr.id, teid });
        }
        for &prefix in &pdi.framed_routes {
            if self.has_in(keys::of_prefix(prefix), domains) {
                return Err(Refusal::FramedRouteTaken { pdr: pdr.id, prefix });
            }
        }
        let further = pdi.further_ues.iter().map(|&prefix| keys::of_prefix(prefix));
        for key in keys::ue_keys(pdi.ue_addresses()).chain(further) {
            if let Some(addr) = keys::address_of(key).filter(|_| self.has_in(key, domains)) {
                return Err(Refusal::UeAddressTaken { pdr: pdr.id, addr });
            }
        }
        Ok(())
    }

    /// Checks that no other session has the keys of a traffic endpoint, even if no PDR names the
    /// endpoint.
    fn check_endpoint(self, endpoint: &TrafficEndpoint, domains: DomainSet) -> Result<(), Refusal> {
        let id = endpoint.id;
        let own = &self.store.provisioning;
        let name = endpoint.network_instance.as_deref();
        let is_usable = endpoint.f_teid.is_none_or(|given| check::is_local(own, &given, name));
        if !is_usable || keys::of_endpoint(endpoint, domains).any(|key| self.has_key(key)) {
            return Err(Refusal::TrafficEndpointUnusable { id });
        }
        Ok(())
    }

    /// True if another session has the key, or if workers may still use a TEID that was released.
    fn has_key(self, key: SessionKey) -> bool {
        let is_other = |holder| holder != self.index && !self.replaced.contains(&holder);
        match key {
            SessionKey::Teid(teid) => match self.store.teids.holder(teid) {
                TeidHolder::Nobody => false,
                TeidHolder::Session(holder) => is_other(holder),
                TeidHolder::Retired => true,
            },
            _ => self.store.ues.holder(key).is_some_and(is_other),
        }
    }

    /// Same as [`Self::has_key`], for the key of a UE in any of `domains`.
    fn has_in(self, key: SessionKey, domains: DomainSet) -> bool {
        keys::within(key, domains).any(|key| self.has_key(key))
    }
}

/// Checks the claims of PDRs and traffic endpoints against those of sessions other than `replaced`.
/// Call it again after TEIDs were chosen: a PDR that has a tunnel now may claim UE addresses in
/// other routing domains than before.
fn check_all_claims(
    store: &SessionStore,
    index: SessionIndex,
    records: &Records,
    replaced: &[SessionIndex],
) -> Result<(), Refusal> {
    let others = OtherClaims { store, index, replaced };
    let scope = SessionDomains::new(&store.provisioning, records);
    let mut all = records.pdrs.iter().flat_map(|pdr| pdr.pdi.each().map(move |pdi| (pdr, pdi)));
    all.try_for_each(|(pdr, pdi)| others.check(pdr, pdi, scope.of_claims(pdi)))?;
    let mut endpoints = records.traffic_endpoints.iter();
    endpoints.try_for_each(|known| others.check_endpoint(known, scope.of_endpoints()))
}

/// Collects the chosen F-TEIDs and UE addresses, by PDR and traffic endpoint, for the response.
fn created_for_response(
    records: &Records,
    f_teids: &[(ChoiceTarget, LocalFTeid)],
    wanted_ues: &[UeAddressRequest],
) -> Created {
    let mut created = Created::default();
    for &(target, f_teid) in f_teids {
        match target {
            ChoiceTarget::Pdr(pdr) => created.pdrs.push(CreatedPdr { pdr, f_teid }),
            ChoiceTarget::TrafficEndpoint(id) => {
                let ue = None;
                created.endpoints.push(CreatedTrafficEndpoint { id, f_teid: Some(f_teid), ue });
            }
        }
    }
    for UeAddressRequest { target, choose } in wanted_ues {
        let only_chosen = |ue: Option<UeMatch>| {
            let UeAddresses { v4, v6 } = ue.map(|ue| ue.addresses).unwrap_or_default();
            UeAddresses { v4: v4.filter(|_| choose.v4), v6: v6.filter(|_| choose.v6) }
        };
        match *target {
            ChoiceTarget::Pdr(id) => {
                let pdr = records.pdrs.iter().find(|pdr| pdr.id == id);
                let addresses = only_chosen(pdr.and_then(|pdr| pdr.pdi.ue));
                created.ues.push(CreatedUe { pdr: id, addresses, side: choose.side });
            }
            ChoiceTarget::TrafficEndpoint(id) => {
                let endpoint = records.traffic_endpoints.iter().find(|known| known.id == id);
                let ue = Some(only_chosen(endpoint.and_then(|known| known.ue)));
                match created.endpoints.iter_mut().find(|known| known.id == id) {
                    Some(known) => known.ue = ue,
                    None => {
                        let endpoint = CreatedTrafficEndpoint { id, f_teid: None, ue };
                        created.endpoints.push(endpoint);
                    }
                }
            }
        }
    }
    created
}

/// Copies into every filter that is a reference the filter to which it refers. A bidirectional
/// filter may be defined in both of its PDRs if the definitions agree. Spec: TS 29.244 §8.2.5
/// (BID).
fn link_sdf_filters(pdrs: &mut [Pdr]) -> Result<(), Refusal> {
    let mut defined: BTreeMap<u32, PacketFilter> = BTreeMap::new();
    for pdr in &*pdrs {
        for sdf in &pdr.pdi.sdf {
            let Some(filter_id) = sdf.definition() else { continue };
            if *defined.entry(filter_id).or_insert_with(|| sdf.filter.clone()) != sdf.filter {
                return Err(Refusal::DuplicateSdfFilter { pdr: pdr.id, filter_id });
            }
        }
    }
    for pdr in pdrs {
        let pdr_id = pdr.id;
        for sdf in &mut pdr.pdi.sdf {
            let Some(filter_id) = sdf.reference() else { continue };
            let found = defined.get(&filter_id);
            let filter = found.ok_or(Refusal::UnknownSdfFilter { pdr: pdr_id, filter_id })?;
            sdf.filter = filter.clone();
        }
    }
    Ok(())
}

/// Checks that all PDRs of a local tunnel have the same source interface, because packets in it are
/// compared only with PDRs of that side. A tunnel from the CP function must lead either to the RAN
/// or elsewhere, not both.
fn check_tunnel_sides(records: &Records) -> Result<(), Refusal> {
    let directions = Directions::new(records);
    let all = || {
        let pdrs = records.pdrs.iter();
        let pdis = pdrs.flat_map(|pdr| pdr.pdi.each().map(move |pdi| (pdr, pdi)));
        pdis.filter_map(|(pdr, pdi)| Some((pdr, pdi.f_teid?.teid)))
    };
    let mut sources: BTreeMap<Teid, SourceInterface> = BTreeMap::new();
    let mut differ: BTreeSet<Teid> = BTreeSet::new();
    for (pdr, teid) in all() {
        if *sources.entry(teid).or_insert(pdr.pdi.source) != pdr.pdi.source {
            differ.insert(teid);
        }
    }
    for (pdr, teid) in all() {
        if differ.contains(&teid) {
            return Err(Refusal::FTeidSidesDiffer { pdr: pdr.id, teid });
        }
        if pdr.pdi.source == SourceInterface::CpFunction && directions.is_mixed(teid) {
            return Err(Refusal::FTeidDirectionsDiffer { pdr: pdr.id, teid });
        }
    }
    Ok(())
}
