//! Stage 3: turns records into the rules that workers run. Cannot fail after the checks.

use adit_rules::{
    ApplyAction, DeltaId, DestinationInterface, FarEntry, PdrEntry, QerEntry, QerMeter, SdfSet,
    SessionRules, Steering, TunnelSide, UeAddresses,
};
use adit_types::limits::{
    BUFFER_PKTS_DEFAULT, BUFFER_PKTS_PER_SESSION_MAX, QERS_PER_PDR_MAX, URRS_PER_PDR_MAX,
};
use adit_types::{Direction, FarId, GtpuPeerIndex, InterfaceSet, IpPrefix, NextHopIndex, Teid};
use arrayvec::ArrayVec;

use super::found::resolved;
use super::predefined::{self, PredefinedAdditions};
use crate::direction::Directions;
use crate::index::correlated_rate;
use crate::keys::SessionDomains;
use crate::provisioning::RuleCatalog;
use crate::record::{Far, Forwarding, Pdi, Pdr, Qer, Records};
use crate::session::SessionIdentity;
use crate::update::exemption;
use crate::usage::SessionUsage;

/// Compiles records that stage 2 has checked.
///
/// PDRs that match at present are divided by direction and sorted by precedence and identifier,
/// with one entry per traffic endpoint. FARs and QERs are in the order of their records, followed
/// by FARs that send copies; the indices in a [`PdrEntry`] refer to this order.
pub(crate) fn compile(
    known: RuleCatalog<'_>,
    identity: SessionIdentity<'_>,
    records: &Records,
    usage: &SessionUsage,
) -> SessionRules {
    let mut rules = compile_alone(known, identity, records, usage.has_activity());
    set_usage(&mut rules, known, records, usage);
    rules
}

/// Same as [`compile`], without the URRs, whose counters only the store has: [`set_usage`] adds
/// them. `has_activity`: whether the session has an inactivity timer.
pub(crate) fn compile_alone(
    known: RuleCatalog<'_>,
    identity: SessionIdentity<'_>,
    records: &Records,
    has_activity: bool,
) -> SessionRules {
    let compiler = RecordsCompiler {
        known,
        scope: SessionDomains::new(known.configured, records),
        records,
        has_activity,
        brought: PredefinedAdditions::new(known, records),
        directions: Directions::new(records),
    };
    let qers = records.qers.iter().chain(&compiler.brought.qers);
    SessionRules {
        up_seid: identity.up_seid,
        generation: DeltaId::default(),
        slice: known.configured.qos.slice_of(records),
        buffer_epoch: identity.buffer_epoch,
        ue: ue_addresses(records),
        ue_networks: ue_networks(records),
        tunnel_sides: tunnel_sides(records, &compiler.directions),
        uplink: compiler.pdrs(Direction::Uplink),
        downlink: compiler.pdrs(Direction::Downlink),
        matchers: None,
        fars: compiler.fars(),
        qers: qers.map(|rule| qer(known, &identity, rule)).collect(),
        urrs: Vec::new(),
        own_urr: None,
    }
}

/// Adds the entries of URRs, in the order of the records, and that of the inactivity timer.
pub(super) fn set_usage(
    rules: &mut SessionRules,
    known: RuleCatalog<'_>,
    records: &Records,
    usage: &SessionUsage,
) {
    rules.urrs = usage.entries(records);
    for (entry, urr) in rules.urrs.iter_mut().zip(&records.urrs) {
        entry.exempt = exemption::filters(known, urr);
    }
    rules.own_urr = usage.own_urr;
}

/// The records of a session, with all that is needed to compile them.
struct RecordsCompiler<'a> {
    known: RuleCatalog<'a>,
    scope: SessionDomains<'a>,
    records: &'a Records,
    /// True if the session has an inactivity timer, which measures every PDR.
    has_activity: bool,
    /// The FARs and QERs that predefined rules need.
    brought: PredefinedAdditions,
    directions: Directions<'a>,
}

fn ue_addresses(records: &Records) -> Vec<UeAddresses> {
    let mut distinct = Vec::new();
    for addresses in pdis(records).map(Pdi::ue_addresses) {
        if !addresses.is_empty() && !distinct.contains(&addresses) {
            distinct.push(addresses);
        }
    }
    distinct
}

fn ue_networks(records: &Records) -> Vec<IpPrefix> {
    let mut networks: Vec<IpPrefix> = pdis(records).flat_map(Pdi::ue_networks).collect();
    networks.sort_unstable();
    networks.dedup();
    networks
}

fn pdis(records: &Records) -> impl Iterator<Item = &Pdi> {
    records.pdrs.iter().flat_map(|pdr| pdr.pdi.each())
}

/// Returns the tunnels whose packets are not uplink packets from the RAN, with their sides. Stage 2
/// has checked that each tunnel has one side.
fn tunnel_sides(records: &Records, directions: &Directions<'_>) -> Vec<(Teid, TunnelSide)> {
    let mut sides = Vec::new();
    let all = records.pdrs.iter().flat_map(|pdr| pdr.pdi.each().map(move |pdi| (pdr, pdi)));
    for (pdr, pdi) in all {
        let side = TunnelSide { source: pdi.source, direction: directions.of(pdr, pdi) };
        let side = pdi.f_teid.map(|f_teid| (f_teid.teid, side));
        sides.extend(side.filter(|(_, side)| *side != TunnelSide::RAN));
    }
    sides.sort_unstable_by_key(|(teid, _)| *teid);
    sides.dedup();
    sides
}

impl RecordsCompiler<'_> {
    fn pdrs(&self, direction: Direction) -> Vec<PdrEntry> {
        let mut entries: Vec<PdrEntry> = Vec::new();
        let active = self.records.pdrs.iter().filter(|pdr| pdr.is_active);
        let all = active.flat_map(|pdr| pdr.pdi.each().map(move |pdi| (pdr, pdi)));
        for (pdr, pdi) in all.filter(|(pdr, pdi)| self.directions.of(pdr, pdi) == direction) {
            let Some(entry) = self.pdr(pdr, pdi) else { continue };
            if pdr.predefined.is_empty() {
                entries.push(entry);
                continue;
            }
            let rules = self.known.predefined(&pdr.predefined);
            entries.extend(
                rules.filter_map(|rule| predefined::entry(self.known, &self.brought, &entry, rule)),
            );
        }
        // A stable sort: entries of one PDR stay in the order of the configuration.
        entries.sort_by_key(|entry| (entry.precedence, entry.id));
        entries
    }

    /// Returns the entry of one alternative of a PDR. `None` while the application that the PDR
    /// names has no PFDs: the PDR then matches nothing.
    fn pdr(&self, pdr: &Pdr, pdi: &Pdi) -> Option<PdrEntry> {
        let records = self.records;
        // A PDR without a FAR activates predefined rules, whose FAR follows the others.
        let far = match pdr.far {
            Some(id) => records.fars.iter().position(|far| far.id == id),
            None => Some(records.fars.len()),
        };
        Some(PdrEntry {
            id: pdr.id,
            precedence: pdr.precedence,
            source: pdi.source,
            interfaces: self.scope.arrival_interfaces(pdi),
            teid: pdi.f_teid.map(|f_teid| f_teid.teid),
            qfis: pdi.qfis.clone(),
            ue: pdi.ue_addresses(),
            ue_networks: pdi.ue_networks().collect(),
            sdf: filters(self.known, pdr)?,
            outer_header_removal: pdr.outer_header_removal,
            container_deletion: pdr.container_deletion,
            far: resolved(far),
            qers: self.qers(pdr),
            urrs: self.urrs(pdr),
        })
    }

    /// Returns the QERs of a PDR. The one that marks is first: the data path uses the first QFI.
    fn qers(&self, pdr: &Pdr) -> ArrayVec<u16, QERS_PER_PDR_MAX> {
        let position = |id| self.records.qers.iter().position(|qer| qer.id == id);
        let marking = self.records.marking_qer(pdr).map(|qer| qer.id);
        let others = pdr.qers.iter().copied().filter(|id| Some(*id) != marking);
        marking.into_iter().chain(others).map(|id| resolved(position(id))).collect()
    }

    /// Returns the URRs that measure packets of a PDR: those that are not inactive, and the
    /// inactivity timer, which measures every PDR.
    fn urrs(&self, pdr: &Pdr) -> ArrayVec<u16, { URRS_PER_PDR_MAX + 1 }> {
        let urrs = &self.records.urrs;
        let urr = |id| urrs.iter().position(|urr| urr.id == id);
        let is_active = |at: &usize| urrs.get(*at).is_some_and(|urr| !urr.information().inactive);
        let measuring = pdr.urrs.iter().filter_map(|&id| urr(id)).filter(is_active);
        let timer = self.has_activity.then_some(urrs.len());
        measuring.chain(timer).map(|at| resolved(Some(at))).collect()
    }

    /// Returns the FARs in the order of records, then those of predefined rules, then of copies.
    fn fars(&self) -> Vec<FarEntry> {
        let records = self.records;
        let all = records.fars.iter().chain(&self.brought.fars);
        let mut entries: Vec<FarEntry> = all.map(|record| self.far(record)).collect();
        let duplicating = |(_, far): &(usize, &Far)| far.action.contains(ApplyAction::DUPL);
        for (at, record) in records.fars.iter().enumerate().filter(duplicating) {
            for parts in &record.duplicating {
                let position = resolved(Some(entries.len()));
                let copy = self.forwarding(record.id, ApplyAction::FORW, Some(parts));
                // A copy goes where the control plane sends it, even if another UE has its address.
                entries.push(FarEntry { local_switching: InterfaceSet::NONE, ..copy });
                entries[at].duplicates.push(position);
            }
        }
        entries
    }

    fn far(&self, far: &Far) -> FarEntry {
        let bar = self.records.bars.iter().find(|bar| Some(bar.id) == far.bar);
        let suggested = bar.and_then(|bar| bar.suggested_pkts).unwrap_or(BUFFER_PKTS_DEFAULT);
        let buffer_pkts_max = suggested.min(BUFFER_PKTS_PER_SESSION_MAX);
        FarEntry { buffer_pkts_max, ..self.forwarding(far.id, far.action, far.forwarding.as_ref()) }
    }

    /// Compiles a FAR's action and parameters. A FAR that drops gets a destination that no stage
    /// reads, and no tunnel, since its tunnel was not checked. A FAR that forwards to Access
    /// without a tunnel gets DROP together with FORW, so that it drops until the control plane
    /// names the tunnel.
    fn forwarding(&self, id: FarId, action: ApplyAction, parts: Option<&Forwarding>) -> FarEntry {
        let configured = self.known.configured;
        let policy =
            parts.and_then(|parts| parts.policy.as_deref()).and_then(|id| configured.policy(id));
        let forwards = parts.filter(|_| action.contains(ApplyAction::FORW));
        let lacks_tunnel = forwards.is_some_and(Forwarding::lacks_tunnel);
        let action = if lacks_tunnel { action.union(ApplyAction::DROP) } else { action };
        let dscp = policy.and_then(|policy| policy.dscp);
        let marking = parts.and_then(|parts| parts.transport_level_marking);
        let marking = marking.or(dscp.map(|dscp| dscp << 2));
        let steering = policy.map(|policy| policy.steering).unwrap_or_default();
        let interfaces = |parts| self.scope.forwarding_interfaces(parts);
        FarEntry {
            id,
            action,
            destination: parts.map_or(DestinationInterface::Core, |parts| parts.destination),
            interfaces: parts.map_or(InterfaceSet::ALL, interfaces),
            outer_header_creation: forwards.and_then(|parts| parts.outer_header_creation),
            outer_tos: marking
                .map_or(configured.outer_tos, |tos| configured.outer_tos.with_dscp(tos)),
            next_hop: NextHopIndex::NONE,
            peer: GtpuPeerIndex::NONE,
            buffer_pkts_max: 0,
            steering: (steering != Steering::default()).then(|| Box::new(steering)),
            dscp,
            redirect: forwards.and_then(|parts| parts.redirect.clone()).map(Box::new),
            local_switching: forwards
                .map_or(InterfaceSet::NONE, |parts| configured.switched_interfaces(parts)),
            duplicates: ArrayVec::new(),
        }
    }
}

/// Returns the filters of the PDI or of its application; `None` if that is unknown.
fn filters(known: RuleCatalog<'_>, pdr: &Pdr) -> Option<SdfSet> {
    match pdr.pdi.application.as_deref() {
        Some(id) => known.application(id).cloned(),
        None => Some(pdr.pdi.sdf.iter().map(|sdf| sdf.filter.clone()).collect()),
    }
}

fn qer(known: RuleCatalog<'_>, identity: &SessionIdentity<'_>, qer: &Qer) -> QerEntry {
    let mut rates = identity.packet_rates.iter().filter(|_| qer.packet_rate.is_some());
    let packet_rate = rates.find(|(id, _)| *id == qer.id).map(|(_, rate)| Box::new(rate.clone()));
    let correlated_rate = correlated_rate(identity.origin, qer);
    QerEntry {
        id: qer.id,
        gate_uplink: qer.gates.uplink,
        gate_downlink: qer.gates.downlink,
        qfi: qer.qfi,
        rqi: qer.rqi,
        ppi: qer.ppi,
        flow_tos: qer.flow_tos,
        service_class: qer.service_class,
        meter: known.configured.qos.meter(qer).map(|meter| QerMeter { correlated_rate, ..meter }),
        packet_rate,
    }
}
