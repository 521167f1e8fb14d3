//! The rules as the control plane stated them.

use std::collections::BTreeMap;

use adit_rules::{DestinationInterface, SourceInterface, UeAddresses};
use adit_session::{
    Bar, CreatedPdr, CreatedTrafficEndpoint, CreatedUe, FTeidSpec, Far, FarPart, FarUpdate,
    Forwarding, ForwardingUpdate, LocalFTeid, PdiSpec, PdrPart, PdrSpec, PdrUpdate, Qer, QerPart,
    QerUpdate, SdfSpec, SessionChange, TrafficEndpointSpec, UeMatch, UeSide, Urr, UrrPart, Volumes,
    Withdrawal,
};
use adit_types::{Nanos, QerId, Seid, UrrId};

use super::packet_rate;

/// One PFCP session.
#[derive(Debug, Clone, Default)]
pub struct OracleSession {
    /// PDRs with what was chosen and what their traffic endpoints have.
    pub pdrs: Vec<PdrSpec>,
    /// PDRs as they were stated, with what was chosen.
    stated: Vec<PdrSpec>,
    /// Traffic endpoints, with what was chosen.
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
    /// How far the rates of QERs are, by QER and direction; the oracle's own unit.
    pub due: BTreeMap<(QerId, bool), u128>,
    /// The windows of their packet rates.
    pub windows: BTreeMap<packet_rate::OracleWindowKey, packet_rate::OracleRateWindow>,
    /// Since when QERs have their packet rates.
    pub packet_rates_since: BTreeMap<QerId, Nanos>,
    /// Packets and octets that passed uplink.
    pub uplink: (u64, u64),
    /// Packets and octets that passed downlink.
    pub downlink: (u64, u64),
}

/// What the answer to a request said that the UPF chose.
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
    /// Of them, octets reported.
    pub reported: (u64, u64),
    /// The quota: from how many octets on, and how many.
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
    /// Does what an accepted request asked for: removals, creations, updates.
    /// Spec: TS 29.244 §7.5.2, §7.5.4.
    pub fn apply(&mut self, change: &SessionChange, chosen: ChosenByUpf<'_>) {
        self.apply_endpoints(change, chosen.endpoints);
        self.stated.retain(|pdr| !change.remove_pdrs.contains(&pdr.id));
        self.fars.retain(|far| !change.remove_fars.contains(&far.id));
        self.qers.retain(|qer| !change.remove_qers.contains(&qer.id));
        self.windows.retain(|(qer, ..), _| !change.remove_qers.contains(qer));
        self.bars.retain(|bar| !change.remove_bars.contains(&bar.id));
        self.bars.extend(change.create_bars.iter().copied());
        for update in &change.update_bars {
            let bar = self.bars.iter_mut().find(|bar| bar.id == update.id).unwrap();
            bar.suggested_pkts = update.suggested_pkts.or(bar.suggested_pkts);
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
            usage.provision(update.settings.volume_quota);
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
            if update.packet_rate.is_some() && update.packet_rate != qer.packet_rate {
                self.packet_rates_since.insert(qer.id, change.at);
            }
            update_qer(qer, update);
        }
        for withdrawal in &change.withdrawals {
            self.withdraw(*withdrawal);
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

    /// Takes a part of a rule away, as far as it decides about packets. Spec: TS 29.244 §5.6.3.
    fn withdraw(&mut self, withdrawal: Withdrawal) {
        match withdrawal {
            Withdrawal::Pdr(id, part) => {
                let pdr = self.stated.iter_mut().find(|pdr| pdr.id == id).unwrap();
                match part {
                    PdrPart::OuterHeaderRemoval => {
                        (pdr.outer_header_removal, pdr.container_deletion) = (None, false);
                    }
                    PdrPart::Far => pdr.far = None,
                    PdrPart::Urrs => pdr.urrs = Vec::new(),
                    PdrPart::Qers => pdr.qers = Vec::new(),
                    PdrPart::ActivationTime => pdr.times.activation = None,
                    PdrPart::DeactivationTime => pdr.times.deactivation = None,
                }
            }
            Withdrawal::Far(id, part) => {
                let far = self.fars.iter_mut().find(|far| far.id == id).unwrap();
                match (part, &mut far.forwarding) {
                    (FarPart::Bar, _) => far.bar = None,
                    (FarPart::TransportLevelMarking, Some(parts)) => {
                        parts.transport_level_marking = None;
                    }
                    (FarPart::TransportLevelMarking | FarPart::InterfaceType, _) => {}
                }
            }
            Withdrawal::Qer(id, part) => {
                let qer = self.qers.iter_mut().find(|qer| qer.id == id).unwrap();
                match part {
                    QerPart::Correlation => qer.correlation = None,
                    QerPart::Mbr => qer.mbr = None,
                    QerPart::Gbr => qer.gbr = None,
                    QerPart::AveragingWindow => qer.averaging_window_ms = None,
                    QerPart::PacketRate => qer.packet_rate = None,
                    QerPart::Qfi => qer.qfi = None,
                    QerPart::Rqi => qer.rqi = false,
                    QerPart::Ppi => qer.ppi = None,
                    QerPart::ControlIndications => {}
                }
            }
            Withdrawal::Urr(id, UrrPart::VolumeQuota) => {
                self.usage.get_mut(&id).unwrap().quota = None;
            }
            Withdrawal::Urr(..) => {}
            Withdrawal::BarCount(id) => {
                self.bars.iter_mut().find(|bar| bar.id == id).unwrap().suggested_pkts = None;
            }
        }
    }

    /// Traffic endpoints go with their PDRs; an update replaces what it has.
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
            if !update.framed_routes.is_empty() {
                known.framed_routes.clone_from(&update.framed_routes);
            }
            if update.network_instance.is_some() {
                known.network_instance =
                    update.network_instance.clone().filter(|name| !name.is_empty());
            }
            if !update.qfis.is_empty() {
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

    /// The PDR, once with what each of its traffic endpoints has. Spec: TS 29.244 §5.2.1A.2A.
    fn linked(&self, pdr: &PdrSpec) -> Vec<PdrSpec> {
        let with_parts = |id| {
            let endpoint = self.endpoints.iter().find(|known| known.id == id).unwrap();
            let mut pdr = pdr.clone();
            pdr.pdi.f_teid = endpoint.f_teid;
            pdr.pdi.ue = endpoint.ue;
            pdr.pdi.framed_routes.clone_from(&endpoint.framed_routes);
            if endpoint.network_instance.is_some() {
                pdr.pdi.network_instance.clone_from(&endpoint.network_instance);
            }
            if !endpoint.qfis.is_empty() {
                pdr.pdi.qfis.clone_from(&endpoint.qfis);
            }
            pdr
        };
        match pdr.pdi.traffic_endpoints.is_empty() {
            true => vec![pdr.clone()],
            false => pdr.pdi.traffic_endpoints.iter().map(|id| with_parts(*id)).collect(),
        }
    }

    /// The definition that an SDF filter with nothing but an identifier refers to.
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

/// The addresses that were stated and those that were chosen beside them.
fn with_chosen(stated: Option<UeMatch>, chosen: UeAddresses) -> UeMatch {
    let given = stated.map(|ue| ue.addresses).unwrap_or_default();
    let addresses = UeAddresses { v4: given.v4.or(chosen.v4), v6: given.v6.or(chosen.v6) };
    UeMatch { addresses, side: UeSide::Source }
}

fn update_pdr(pdr: &mut PdrSpec, update: &PdrUpdate) {
    let update = update.clone();
    pdr.precedence = update.precedence.unwrap_or(pdr.precedence);
    if let Some(stated) = update.pdi {
        pdr.pdi = completed(&pdr.pdi, stated);
    }
    pdr.outer_header_removal = update.outer_header_removal.or(pdr.outer_header_removal);
    pdr.container_deletion = update.container_deletion.unwrap_or(pdr.container_deletion);
    pdr.far = update.far.or(pdr.far);
    pdr.urrs = update.urrs.unwrap_or_else(|| pdr.urrs.clone());
    pdr.qers = update.qers.unwrap_or_else(|| pdr.qers.clone());
    pdr.predefined.retain(|name| !update.deactivate.contains(name));
    pdr.predefined.extend(update.activate);
}

/// A PDI that names no traffic, or none in the tunnel from Access that there was, states only some
/// parts.
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

fn update_far(far: &mut Far, update: &FarUpdate) {
    far.action = update.action.unwrap_or(far.action);
    far.bar = update.bar.or(far.bar);
    for (at, parts) in update.duplicating.iter().enumerate() {
        let updated = update_forwarding(far.duplicating.get(at), parts);
        match far.duplicating.get_mut(at) {
            Some(known) => *known = updated,
            None => far.duplicating.push(updated),
        }
    }
    if let Some(parts) = &update.forwarding {
        far.forwarding = Some(update_forwarding(far.forwarding.as_ref(), parts));
    }
}

fn update_forwarding(before: Option<&Forwarding>, parts: &ForwardingUpdate) -> Forwarding {
    let parts = parts.clone();
    let destination = parts.destination.or(before.map(|b| b.destination)).unwrap();
    let before = before.cloned().unwrap_or(Forwarding::new(destination));
    Forwarding {
        destination,
        network_instance: parts
            .network_instance
            .or(before.network_instance)
            .filter(|name| !name.is_empty()),
        outer_header_creation: parts
            .outer_header_creation
            .or(before.outer_header_creation.filter(|_| !parts.withdraw_outer_header)),
        transport_level_marking: parts.transport_level_marking.or(before.transport_level_marking),
        redirect: parts.redirect.unwrap_or(before.redirect),
        policy: parts.policy.unwrap_or(before.policy),
        // Neither decides what becomes of a packet.
        interface_type: None,
        linked_endpoint: None,
    }
}

fn update_qer(qer: &mut Qer, update: &QerUpdate) {
    qer.gates = update.gates.unwrap_or(qer.gates);
    qer.mbr = update.mbr.or(qer.mbr);
    qer.packet_rate = update.packet_rate.or(qer.packet_rate);
    qer.averaging_window_ms = update.averaging_window_ms.or(qer.averaging_window_ms);
    qer.correlation = update.correlation.or(qer.correlation);
    qer.qfi = update.qfi.or(qer.qfi);
    qer.rqi = update.rqi.unwrap_or(qer.rqi);
    qer.ppi = update.ppi.or(qer.ppi);
}

/// The FAR leads to the RAN, and nobody said into which tunnel. Spec: TS 29.244 §7.5.2.3.
pub(super) fn waits_for_tunnel(far: &Far) -> bool {
    far.forwarding.as_ref().is_some_and(|parts| {
        parts.destination == DestinationInterface::Access && parts.outer_header_creation.is_none()
    })
}
