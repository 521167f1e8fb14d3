//! The rules as the control plane stated them.

use std::collections::BTreeMap;

use adit_rules::{DestinationInterface, SourceInterface, UeAddresses};
use adit_session::{
    Bar, Change, CreatedPdr, CreatedTrafficEndpoint, CreatedUe, FTeidSpec, Far, FarUpdate,
    Forwarding, ForwardingUpdate, LocalFTeid, PdiSpec, PdrSpec, PdrUpdate, Qer, QerUpdate, SdfSpec,
    SessionChange, TrafficEndpointSpec, UeMatch, UeSide, Urr, Volumes,
};
use adit_types::{Nanos, QerId, Seid, UrrId};

use super::packet_rate::{self, OracleRateWindows};

/// One PFCP session.
#[derive(Debug, Clone, Default)]
pub struct OracleSession {
    /// PDRs, completed by our choices and by their traffic endpoints.
    pub pdrs: Vec<PdrSpec>,
    /// PDRs as the control plane stated them, completed by our choices.
    stated: Vec<PdrSpec>,
    /// Traffic endpoints, completed by our choices.
    pub endpoints: Vec<TrafficEndpointSpec>,
    /// FARs.
    pub fars: Vec<Far>,
    /// QERs.
    pub qers: Vec<Qer>,
    /// BARs.
    pub bars: Vec<Bar>,
    /// URRs.
    pub urrs: Vec<Urr>,
    /// Their usage.
    pub usage: BTreeMap<UrrId, OracleUsage>,
    /// Due times of QERs, by QER and direction, in the unit of `rate`.
    pub due: BTreeMap<(QerId, bool), u128>,
    /// The windows of their packet rates.
    pub windows: OracleRateWindows,
    /// When QERs got their packet rates.
    pub packet_rates_since: BTreeMap<QerId, Nanos>,
    /// Changes of the rules that packets match.
    pub changes: u64,
    /// Packets and octets that passed uplink.
    pub uplink: (u64, u64),
    /// Packets and octets that passed downlink.
    pub downlink: (u64, u64),
}

/// The identifiers that the UPF chose, by the answer to a request.
#[derive(Debug, Clone, Copy, Default)]
pub struct ChosenByUpf<'a> {
    /// F-TEIDs of PDRs.
    pub f_teids: &'a [CreatedPdr],
    /// UE addresses of PDRs.
    pub ues: &'a [CreatedUe],
    /// Parts of traffic endpoints.
    pub endpoints: &'a [CreatedTrafficEndpoint],
}

/// All PFCP sessions, by our SEID.
pub type OracleSessions = Vec<(Seid, OracleSession)>;

/// Usage of one URR.
#[derive(Debug, Clone, Copy, Default)]
pub struct OracleUsage {
    /// Octets measured, uplink and downlink.
    pub measured: (u64, u64),
    /// Reported octets of those.
    pub reported: (u64, u64),
    /// The quota: the octets that were measured before it, and its size.
    pub quota: Option<(u64, u64)>,
}

impl OracleUsage {
    /// The quota is used up.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        let all = self.measured.0 + self.measured.1;
        self.quota.is_some_and(|(from, octets)| all - from >= octets)
    }

    fn provision(&mut self, volumes: Option<Volumes>) {
        if let Some(octets) = volumes.and_then(|volumes| volumes.total) {
            self.quota = Some((self.reported.0 + self.reported.1, octets));
        }
    }
}

impl OracleSession {
    /// True if the packets that pass depend on how many packets or octets passed before: bit rates
    /// or packet rates.
    #[must_use]
    pub fn has_rates(&self) -> bool {
        self.qers.iter().any(|qer| qer.mbr.is_some() || qer.packet_rate.is_some())
    }

    /// True if it has a bit rate that other sessions may share.
    #[must_use]
    pub fn shares_rates(&self) -> bool {
        self.qers.iter().any(|qer| qer.mbr.is_some() && qer.correlation.is_some())
    }

    /// [`OracleSession::has_rates`] for volume quotas.
    #[must_use]
    pub fn has_quotas(&self) -> bool {
        self.urrs.iter().any(|urr| urr.settings.volume_quota.is_some())
            || self.usage.values().any(|usage| usage.quota.is_some())
    }

    /// Carries out an accepted request: removals, creations, updates.
    /// Spec: TS 29.244 §7.5.2, §7.5.4.
    pub fn apply(&mut self, change: &SessionChange, chosen: ChosenByUpf<'_>) {
        self.changes += u64::from(changes_matching(change));
        self.apply_endpoints(change, chosen.endpoints);
        self.stated.retain(|pdr| !change.remove_pdrs.contains(&pdr.id));
        self.fars.retain(|far| !change.remove_fars.contains(&far.id));
        self.qers.retain(|qer| !change.remove_qers.contains(&qer.id));
        self.windows.retain(|key, _| !change.remove_qers.contains(&key.qer));
        self.bars.retain(|bar| !change.remove_bars.contains(&bar.id));
        self.bars.extend(change.create_bars.iter().copied());
        for update in &change.update_bars {
            let bar = self.bars.iter_mut().find(|bar| bar.id == update.id).unwrap();
            restate_part(&mut bar.suggested_pkts, &update.suggested_pkts);
        }
        for id in &change.remove_urrs {
            self.urrs.retain(|urr| urr.id != *id);
            self.usage.remove(id);
            self.stated.iter_mut().for_each(|pdr| pdr.urrs.retain(|urr| urr != id));
        }
        for urr in &change.create_urrs {
            self.urrs.push(urr.clone());
            self.usage.entry(urr.id).or_default().provision(urr.settings.volume_quota);
        }
        for update in &change.update_urrs {
            let usage = self.usage.get_mut(&update.id).unwrap();
            match update.settings.volume_quota {
                Change::Withdraw => usage.quota = None,
                quota => usage.provision(quota.set()),
            }
        }
        self.stated.extend(change.create_pdrs.iter().cloned());
        self.fars.extend(change.create_fars.iter().cloned());
        self.qers.extend(change.create_qers.iter().cloned());
        for qer in &change.create_qers {
            self.windows.extend(packet_rate::begun(qer));
            self.packet_rates_since.insert(qer.id, change.at);
        }
        for update in &change.update_pdrs {
            let pdr = self.stated.iter_mut().find(|pdr| pdr.id == update.id).unwrap();
            update_pdr(pdr, update);
        }
        for update in &change.update_fars {
            let far = self.fars.iter_mut().find(|far| far.id == update.id).unwrap();
            update_far(far, update);
        }
        for update in &change.update_qers {
            let qer = self.qers.iter_mut().find(|qer| qer.id == update.id).unwrap();
            if matches!(update.packet_rate, Change::Set(rate) if Some(rate) != qer.packet_rate) {
                self.packet_rates_since.insert(qer.id, change.at);
            }
            update_qer(qer, update);
        }
        for answer in chosen.f_teids {
            let pdr = self.stated.iter_mut().find(|pdr| pdr.id == answer.pdr).unwrap();
            pdr.pdi.f_teid = Some(given(answer.f_teid));
        }
        for answer in chosen.ues {
            let pdr = self.stated.iter_mut().find(|pdr| pdr.id == answer.pdr).unwrap();
            pdr.pdi.ue = Some(with_chosen(pdr.pdi.ue, answer.addresses));
        }
        self.pdrs = self.stated.iter().flat_map(|pdr| self.linked(pdr)).collect();
    }

    /// Removal of a traffic endpoint removes its PDRs; an update replaces the parts that it states.
    /// Spec: TS 29.244 §7.5.4.13, §7.5.4.14.
    fn apply_endpoints(&mut self, change: &SessionChange, chosen: &[CreatedTrafficEndpoint]) {
        for id in &change.remove_traffic_endpoints {
            self.endpoints.retain(|endpoint| endpoint.id != *id);
            self.stated.retain(|pdr| pdr.pdi.traffic_endpoints != [*id]);
            for pdr in &mut self.stated {
                pdr.pdi.traffic_endpoints.retain(|named| named != id);
            }
        }
        self.endpoints.extend(change.create_traffic_endpoints.iter().cloned());
        for update in &change.update_traffic_endpoints {
            let known = self.endpoints.iter_mut().find(|known| known.id == update.id).unwrap();
            known.f_teid = update.f_teid.or(known.f_teid);
            if update.ue.is_some() || update.choose_ue.is_some() {
                known.ue = update.ue;
            }
            if update.framed_routes != Change::Keep {
                known.framed_routes.clone_from(&update.framed_routes);
            }
            if update.network_instance != Change::Keep {
                known.network_instance.clone_from(&update.network_instance);
            }
            if update.qfis != Change::Keep {
                known.qfis.clone_from(&update.qfis);
            }
        }
        for answer in chosen {
            let known = self.endpoints.iter_mut().find(|known| known.id == answer.id).unwrap();
            known.f_teid = answer.f_teid.map(given).or(known.f_teid);
            if let Some(addresses) = answer.ue {
                known.ue = Some(with_chosen(known.ue, addresses));
            }
        }
    }

    /// The PDR, once for each of its traffic endpoints. Spec: TS 29.244 §5.2.1A.2A.
    fn linked(&self, pdr: &PdrSpec) -> Vec<PdrSpec> {
        let with_parts = |id| {
            let endpoint = self.endpoints.iter().find(|known| known.id == id).unwrap();
            let mut pdr = pdr.clone();
            pdr.pdi.f_teid = endpoint.f_teid;
            pdr.pdi.ue = endpoint.ue;
            pdr.pdi.framed_routes = endpoint.framed_routes.clone().set().unwrap_or_default();
            if let Change::Set(name) = &endpoint.network_instance {
                pdr.pdi.network_instance = Some(name.clone());
            }
            if let Change::Set(qfis) = &endpoint.qfis {
                pdr.pdi.qfis.clone_from(qfis);
            }
            pdr
        };
        match pdr.pdi.traffic_endpoints.is_empty() {
            true => vec![pdr.clone()],
            false => pdr.pdi.traffic_endpoints.iter().map(|id| with_parts(*id)).collect(),
        }
    }

    /// The definition to which an SDF filter with nothing but an identifier refers.
    pub(super) fn resolve<'a>(&'a self, sdf: &'a SdfSpec) -> &'a SdfSpec {
        let is_definition = |sdf: &&SdfSpec| {
            sdf.flow_description.is_some()
                || sdf.tos.is_some()
                || sdf.spi.is_some()
                || sdf.flow_label.is_some()
        };
        if is_definition(&sdf) {
            return sdf;
        }
        let all = self.pdrs.iter().flat_map(|pdr| &pdr.pdi.sdf);
        let mut definitions = all.filter(is_definition);
        let id = sdf.filter_id;
        definitions.find(|other| other.bidirectional && other.filter_id == id).unwrap()
    }
}

fn given(f_teid: LocalFTeid) -> FTeidSpec {
    FTeidSpec::Given { teid: f_teid.teid, v4: f_teid.v4, v6: f_teid.v6 }
}

/// The addresses that the control plane stated, completed by those that we chose.
fn with_chosen(stated: Option<UeMatch>, chosen: UeAddresses) -> UeMatch {
    let mut addresses = chosen;
    if let Some(UeMatch { addresses: of_peer, .. }) = stated {
        addresses.v4 = of_peer.v4.or(addresses.v4);
        addresses.v6 = of_peer.v6.or(addresses.v6);
    }
    UeMatch { addresses, side: UeSide::Source }
}

/// Updates a part that a rule always has, flag or list: without it, it is false or empty. Spec: TS
/// 29.244 §5.6.3.
fn restate<T: Clone + Default>(what: &mut T, stated: &Change<T>) {
    match stated {
        Change::Keep => {}
        Change::Set(stated) => what.clone_from(stated),
        Change::Withdraw => *what = T::default(),
    }
}

/// Updates an optional part.
fn restate_part<T: Clone>(what: &mut Option<T>, stated: &Change<T>) {
    match stated {
        Change::Keep => {}
        Change::Set(stated) => *what = Some(stated.clone()),
        Change::Withdraw => *what = None,
    }
}

fn update_pdr(pdr: &mut PdrSpec, update: &PdrUpdate) {
    if let Some(stated) = &update.pdi {
        pdr.pdi = completed(&pdr.pdi, stated.clone());
    }
    restate(&mut pdr.precedence, &update.precedence);
    restate(&mut pdr.container_deletion, &update.container_deletion);
    restate(&mut pdr.urrs, &update.urrs);
    restate(&mut pdr.qers, &update.qers);
    restate_part(&mut pdr.times.activation, &update.times.activation);
    restate_part(&mut pdr.times.deactivation, &update.times.deactivation);
    restate_part(&mut pdr.outer_header_removal, &update.outer_header_removal);
    restate_part(&mut pdr.far, &update.far);
    pdr.predefined.retain(|name| !update.deactivate.contains(name));
    pdr.predefined.extend(update.activate.iter().cloned());
}

/// A PDI without an F-TEID, a traffic endpoint and a UE states only some parts; the others stay.
/// With a tunnel from Access a UE alone is also only a part.
fn completed(former: &PdiSpec, stated: PdiSpec) -> PdiSpec {
    let has_ue = stated.ue.is_some()
        || stated.choose_ue.is_some()
        || !stated.further_ues.is_empty()
        || !stated.framed_routes.is_empty();
    let from_access = stated.source == SourceInterface::Access && former.f_teid.is_some();
    let is_whole = stated.source != former.source
        || stated.f_teid.is_some()
        || !stated.traffic_endpoints.is_empty()
        || !former.traffic_endpoints.is_empty()
        || has_ue && !from_access;
    if is_whole {
        return stated;
    }
    let mut all = stated;
    all.f_teid = former.f_teid;
    if !has_ue {
        all.ue = former.ue;
        all.further_ues.clone_from(&former.further_ues);
        all.framed_routes.clone_from(&former.framed_routes);
    }
    if all.network_instance.as_deref().is_none_or(str::is_empty) {
        all.network_instance.clone_from(&former.network_instance);
    }
    if all.qfis.is_empty() {
        all.qfis.clone_from(&former.qfis);
    }
    all
}

/// Sets of duplicating parameters have no identifier: the first update applies to the first set.
fn update_far(far: &mut Far, update: &FarUpdate) {
    far.action = update.action.set().unwrap_or(far.action);
    restate_part(&mut far.bar, &update.bar);
    if let Some(stated) = &update.forwarding {
        far.forwarding = Some(updated_forwarding(far.forwarding.take(), stated));
    }
    let mut former = core::mem::take(&mut far.duplicating).into_iter();
    let stated = update.duplicating.iter();
    far.duplicating = stated.map(|stated| updated_forwarding(former.next(), stated)).collect();
    far.duplicating.extend(former);
}

/// Forwarding parameters after an update, in those parts that decide about packets.
fn updated_forwarding(former: Option<Forwarding>, stated: &ForwardingUpdate) -> Forwarding {
    let destination = stated.destination.set();
    let mut now = former.unwrap_or_else(|| Forwarding::new(destination.unwrap()));
    (now.interface_type, now.linked_endpoint) = (None, None);
    now.destination = destination.unwrap_or(now.destination);
    restate_part(&mut now.redirect, &stated.redirect);
    restate_part(&mut now.policy, &stated.policy);
    restate_part(&mut now.transport_level_marking, &stated.transport_level_marking);
    restate_part(&mut now.outer_header_creation, &stated.outer_header_creation);
    restate_part(&mut now.network_instance, &stated.network_instance);
    now
}

fn update_qer(qer: &mut Qer, update: &QerUpdate) {
    restate(&mut qer.gates, &update.gates);
    restate(&mut qer.rqi, &update.rqi);
    restate_part(&mut qer.qfi, &update.qfi);
    restate_part(&mut qer.ppi, &update.ppi);
    restate_part(&mut qer.flow_tos, &update.flow_tos);
    restate_part(&mut qer.service_class, &update.service_class);
    restate_part(&mut qer.mbr, &update.mbr);
    restate_part(&mut qer.averaging_window_ms, &update.averaging_window_ms);
    restate_part(&mut qer.packet_rate, &update.packet_rate);
    restate_part(&mut qer.correlation, &update.correlation);
}

/// True if the FAR leads to the RAN and has no tunnel yet. Spec: TS 29.244 §7.5.2.3.
pub(super) fn waits_for_tunnel(far: &Far) -> bool {
    far.forwarding.as_ref().is_some_and(|parts| {
        parts.destination == DestinationInterface::Access && parts.outer_header_creation.is_none()
    })
}

/// True if packets may match other rules, or exemptions of other URRs, after the change.
fn changes_matching(change: &SessionChange) -> bool {
    let pdrs = [change.create_pdrs.len(), change.update_pdrs.len(), change.remove_pdrs.len()];
    let urrs = [change.create_urrs.len(), change.update_urrs.len(), change.remove_urrs.len()];
    let endpoints = [
        change.create_traffic_endpoints.len(),
        change.update_traffic_endpoints.len(),
        change.remove_traffic_endpoints.len(),
    ];
    [pdrs, urrs, endpoints].concat().iter().any(|count| *count > 0)
}
