//! Stage 3: turn records into the rules that workers run. Cannot fail: references were resolved.

use adit_rules::{
    ApplyAction, DeltaId, DestinationInterface, FarEntry, PacketRateMeter, PdrEntry, QerEntry,
    QerMeter, SdfSet, SessionRules, Steering, TunnelSide, UeAddresses, UrrEntry,
};
use adit_types::limits::{BUFFER_PKTS_DEFAULT, BUFFER_PKTS_PER_SESSION_MAX, URRS_PER_PDR_MAX};
use adit_types::{Direction, FarId, InterfaceSet, IpPrefix, NextHopIndex, QerId, Teid};
use arrayvec::ArrayVec;

use super::found::resolved;
use super::predefined::{self, PredefinedAdditions};
use crate::cp_function::OwnerId;
use crate::direction::Directions;
use crate::index::shared_rate;
use crate::keys::Scope;
use crate::provisioning::RuleCatalog;
use crate::record::{Far, Forwarding, Pdi, Pdr, Qer, Records};
use crate::session::SessionIdentity;
use crate::update::exemption;
use crate::usage::SessionUsage;

/// The compiled form of resolved records.
///
/// PDRs that match by now come out by direction, ascending precedence and identifier, one entry per
/// traffic endpoint; FARs and QERs in the order of their records (what FARs duplicate to behind
/// them), which is what the positions in a [`PdrEntry`] count.
pub(crate) fn compile(
    known: RuleCatalog<'_>,
    SessionIdentity { up_seid, origin, buffer_epoch, packet_rates }: SessionIdentity<'_>,
    records: &Records,
    usage: &SessionUsage,
) -> SessionRules {
    let brought = PredefinedAdditions::new(known, records);
    let directions = Directions::new(records);
    let scope = Scope::new(known.configured, records);
    let pdrs =
        |direction| pdrs((known, &scope), (records, &brought, &directions), usage, direction);
    let qers = records.qers.iter().chain(&brought.qers);
    SessionRules {
        up_seid,
        generation: DeltaId::default(),
        slice: known.configured.qos.slice_of(records),
        buffer_epoch,
        ue: ue_addresses(records),
        ue_networks: ue_networks(records),
        tunnel_sides: tunnel_sides(records, &directions),
        uplink: pdrs(Direction::Uplink),
        downlink: pdrs(Direction::Downlink),
        matchers: None,
        fars: fars((known, &scope), records, &brought),
        qers: qers.map(|rule| qer(known, origin, packet_rates, rule)).collect(),
        urrs: urr_entries(known, records, usage),
    }
}

/// The URRs in the order of the records, and the inactivity timer.
fn urr_entries(known: RuleCatalog<'_>, records: &Records, usage: &SessionUsage) -> Vec<UrrEntry> {
    let mut entries = usage.entries(records);
    for (entry, urr) in entries.iter_mut().zip(&records.urrs) {
        entry.exempt = exemption::filters(known, urr);
    }
    entries
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

/// The tunnels whose packets are not uplink from the RAN; `s2_resolve` saw to it that each has one
/// side.
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

fn pdrs(
    (known, scope): (RuleCatalog<'_>, &Scope<'_>),
    (records, brought, directions): (&Records, &PredefinedAdditions, &Directions<'_>),
    usage: &SessionUsage,
    direction: Direction,
) -> Vec<PdrEntry> {
    let mut entries: Vec<PdrEntry> = Vec::new();
    let active = records.pdrs.iter().filter(|pdr| pdr.is_active);
    let all = active.flat_map(|pdr| pdr.pdi.each().map(move |pdi| (pdr, pdi)));
    for (record, pdi) in all.filter(|(pdr, pdi)| directions.of(pdr, pdi) == direction) {
        let Some(entry) = pdr((known, scope), records, usage, (record, pdi)) else { continue };
        if record.predefined.is_empty() {
            entries.push(entry);
            continue;
        }
        let counts = (records.fars.len(), records.qers.len());
        let rules = known.predefined(&record.predefined);
        entries.extend(
            rules.filter_map(|rule| predefined::entry(known, brought, counts, &entry, rule)),
        );
    }
    // Rules of one PDR stay in the order of the configuration.
    entries.sort_by_key(|entry| (entry.precedence, entry.id));
    entries
}

/// The entry of one alternative of a PDR; `None` while the PDR's application has no PFDs any more:
/// then it matches nothing.
fn pdr(
    (known, scope): (RuleCatalog<'_>, &Scope<'_>),
    records: &Records,
    usage: &SessionUsage,
    (pdr, pdi): (&Pdr, &Pdi),
) -> Option<PdrEntry> {
    // Only rules that bring a FAR of their own spare the PDR one.
    let far = match pdr.far {
        Some(id) => records.fars.iter().position(|far| far.id == id),
        None => Some(records.fars.len()),
    };
    let qer = |id| records.qers.iter().position(|qer| qer.id == id);
    Some(PdrEntry {
        id: pdr.id,
        precedence: pdr.precedence,
        source: pdi.source,
        interfaces: scope.arrival_interfaces(pdi),
        teid: pdi.f_teid.map(|f_teid| f_teid.teid),
        qfis: pdi.qfis.clone(),
        ue: pdi.ue_addresses(),
        ue_networks: pdi.ue_networks().collect(),
        sdf: filters(known, pdr)?,
        outer_header_removal: pdr.outer_header_removal,
        container_deletion: pdr.container_deletion,
        far: resolved(far),
        qers: pdr.qers.iter().map(|&id| resolved(qer(id))).collect(),
        urrs: urrs(records, usage, pdr),
    })
}

/// The filters of the PDI or of the application that it names, if that is known.
fn filters(known: RuleCatalog<'_>, pdr: &Pdr) -> Option<SdfSet> {
    match pdr.pdi.application.as_deref() {
        Some(id) => known.application(id).cloned(),
        None => Some(pdr.pdi.sdf.iter().map(|sdf| sdf.filter.clone()).collect()),
    }
}

/// The URRs that measure: inactive ones do not, and the inactivity timer watches every PDR.
fn urrs(
    records: &Records,
    usage: &SessionUsage,
    pdr: &Pdr,
) -> ArrayVec<u16, { URRS_PER_PDR_MAX + 1 }> {
    let urr = |id| records.urrs.iter().position(|urr| urr.id == id);
    let is_active =
        |at: &usize| records.urrs.get(*at).is_some_and(|urr| !urr.information().inactive);
    let measuring = pdr.urrs.iter().filter_map(|&id| urr(id)).filter(is_active);
    let timer = usage.has_activity().then_some(records.urrs.len());
    measuring.chain(timer).map(|at| resolved(Some(at))).collect()
}

/// The FARs in the order of their records, behind them those of predefined rules, and behind them
/// one entry for each copy.
fn fars(
    scoped: (RuleCatalog<'_>, &Scope<'_>),
    records: &Records,
    brought: &PredefinedAdditions,
) -> Vec<FarEntry> {
    let all = records.fars.iter().chain(&brought.fars);
    let mut entries: Vec<FarEntry> = all.map(|record| far(scoped, records, record)).collect();
    let duplicating = |(_, far): &(usize, &Far)| far.action.contains(ApplyAction::DUPL);
    for (at, record) in records.fars.iter().enumerate().filter(duplicating) {
        for parts in &record.duplicating {
            let position = resolved(Some(entries.len()));
            let copy = forwarding(scoped, record.id, ApplyAction::FORW, Some(parts));
            // A copy goes where the control plane wants it, whoever the packet is for.
            entries.push(FarEntry { local_switching: InterfaceSet::NONE, ..copy });
            entries[at].duplicates.push(position);
        }
    }
    entries
}

fn far(scoped: (RuleCatalog<'_>, &Scope<'_>), records: &Records, far: &Far) -> FarEntry {
    let bar = records.bars.iter().find(|bar| Some(bar.id) == far.bar);
    let suggested = bar.and_then(|bar| bar.suggested_pkts).unwrap_or(BUFFER_PKTS_DEFAULT);
    let buffer_pkts_max = suggested.min(BUFFER_PKTS_PER_SESSION_MAX);
    FarEntry { buffer_pkts_max, ..forwarding(scoped, far.id, far.action, far.forwarding.as_ref()) }
}

/// A FAR that drops needs no destination; it gets one that no stage looks at. Its tunnel was not
/// judged and stays behind. One that forwards to Access without a tunnel has DROP beside FORW: it
/// drops until the control plane tells the tunnel.
fn forwarding(
    (known, scope): (RuleCatalog<'_>, &Scope<'_>),
    id: FarId,
    action: ApplyAction,
    parts: Option<&Forwarding>,
) -> FarEntry {
    let policy =
        parts.and_then(|parts| parts.policy.as_deref()).and_then(|id| known.configured.policy(id));
    let forwards = parts.filter(|_| action.contains(ApplyAction::FORW));
    let lacks_tunnel = forwards.is_some_and(Forwarding::lacks_tunnel);
    let action = if lacks_tunnel { action.union(ApplyAction::DROP) } else { action };
    let dscp = policy.and_then(|policy| policy.dscp);
    let steering = policy.map(|policy| policy.steering).unwrap_or_default();
    FarEntry {
        id,
        action,
        destination: parts.map_or(DestinationInterface::Core, |parts| parts.destination),
        interfaces: parts.map_or(InterfaceSet::ALL, |parts| scope.forwarding_interfaces(parts)),
        outer_header_creation: forwards.and_then(|parts| parts.outer_header_creation),
        transport_level_marking: parts
            .and_then(|parts| parts.transport_level_marking)
            .or(dscp.map(|dscp| dscp << 2)),
        next_hop: NextHopIndex::NONE,
        buffer_pkts_max: 0,
        steering: (steering != Steering::default()).then(|| Box::new(steering)),
        dscp,
        redirect: forwards.and_then(|parts| parts.redirect.clone()).map(Box::new),
        local_switching: forwards
            .map_or(InterfaceSet::NONE, |parts| known.configured.switched_interfaces(parts)),
        duplicates: ArrayVec::new(),
    }
}

fn qer(
    known: RuleCatalog<'_>,
    origin: OwnerId,
    packet_rates: &[(QerId, PacketRateMeter)],
    qer: &Qer,
) -> QerEntry {
    let mut rates = packet_rates.iter().filter(|_| qer.packet_rate.is_some());
    let packet_rate = rates.find(|(id, _)| *id == qer.id).map(|(_, rate)| Box::new(rate.clone()));
    let shared = shared_rate(origin, qer);
    QerEntry {
        id: qer.id,
        gate_uplink: qer.gates.uplink,
        gate_downlink: qer.gates.downlink,
        qfi: qer.qfi,
        rqi: qer.rqi,
        ppi: qer.ppi,
        meter: known.configured.qos.meter(qer).map(|meter| QerMeter { shared, ..meter }),
        packet_rate,
    }
}
