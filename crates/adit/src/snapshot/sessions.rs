//! `adit show sessions`.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use adit_n4::SessionInformation;
use adit_rules::ApplyAction;
use adit_session::{OwnerId, Records, RunningUsage, Session, SliceIdentity};
use adit_tables::SessionTraffic;
use adit_types::limits::SESSIONS_PER_PAGE_MAX;
use adit_types::{IpPrefix, Ipv4Prefix, Ipv6Prefix, SessionIndex, Teid};
use serde::Serialize;
use utoipa::ToSchema;

use super::{ControlView, index, list};
use crate::admin::{AdminAnswer, AdminQuestion, PageCursor, PagePosition, SessionFilter};
use crate::text_table::page;

/// One session, as the control thread gathers it; its records are still packed.
struct GatheredSession {
    session: Session,
    cp_node: Option<Arc<str>>,
    traffic: SessionTraffic,
    usage: Vec<RunningUsage>,
    information: Option<SessionInformation>,
}

/// A page of the sessions that match. Cost: at most [`SESSIONS_PER_PAGE_MAX`] places, each of whose sessions is unpacked
/// when the filter has an address or a TEID that no index has.
pub(super) fn page(
    control: &ControlView<'_>,
    question: &AdminQuestion,
    cursor: PageCursor,
) -> AdminAnswer {
    let filter = match SessionFilter::parse(&question.filter) {
        Ok(filter) => filter,
        Err(what) => return AdminAnswer::Refused(what),
    };
    let node = &control.parts.node;
    if cursor.from == PagePosition::Start
        && let Some(session) = by_index(control, &filter)
        && matches(control, session, &filter, true)
    {
        let gathered = vec![gather(control, &cp_nodes(control), session)];
        return AdminAnswer::Page(list("sessions", gathered, SessionRow::of, None));
    }
    if filter.seid.is_some() {
        return AdminAnswer::Page(list("sessions", Vec::new(), SessionRow::of, None));
    }
    let cp_nodes = cp_nodes(control);
    let first = SessionIndex(index(cursor.from));
    let rows_max = question.rows_of_page(SESSIONS_PER_PAGE_MAX);
    let (sessions, mut next) = node.store().sessions_from(first, SESSIONS_PER_PAGE_MAX);
    let mut gathered = Vec::new();
    for session in sessions.filter(|session| matches(control, session, &filter, false)) {
        if gathered.len() == rows_max {
            next = Some(session.index());
            break;
        }
        gathered.push(gather(control, &cp_nodes, session));
    }
    let next = next.map(|SessionIndex(next)| PagePosition::Index(next));
    AdminAnswer::Page(list("sessions", gathered, SessionRow::of, next))
}

/// The Node IDs of the CP functions.
fn cp_nodes(control: &ControlView<'_>) -> BTreeMap<OwnerId, Arc<str>> {
    let associations = control.parts.node.associations();
    associations
        .map(|association| (association.owner, association.node_id.to_string().into()))
        .collect()
}

fn gather(
    control: &ControlView<'_>,
    cp_nodes: &BTreeMap<OwnerId, Arc<str>>,
    session: &Session,
) -> GatheredSession {
    let node = &control.parts.node;
    GatheredSession {
        session: session.clone(),
        cp_node: cp_nodes.get(&session.owner()).cloned(),
        traffic: control.parts.publisher.session_traffic(session.index()),
        usage: node.store().running_usage(session),
        information: node.session_information(session.up_seid()).cloned(),
    }
}

/// The session that an index has for the filter's SEID, UE address or local TEID.
fn by_index<'a>(control: &ControlView<'a>, filter: &SessionFilter) -> Option<&'a Session> {
    let (store, publisher) = (control.parts.node.store(), &control.parts.publisher);
    match (filter.seid, filter.teid, filter.ue) {
        (Some(seid), ..) => store.session(seid),
        (None, Some(teid), _) => store.session_at(publisher.session_of_teid(teid)),
        (None, None, Some(ue)) => store.session_of_ue(ue),
        (None, None, None) => None,
    }
}

/// True if a session matches. `by_index`: an index of UE addresses led to it if the filter has nothing else.
fn matches(
    control: &ControlView<'_>,
    session: &Session,
    filter: &SessionFilter,
    by_index: bool,
) -> bool {
    let SessionFilter { ue, seid, teid, dnn, slice } = filter;
    if seid.is_some_and(|seid| seid != session.up_seid()) {
        return false;
    }
    if dnn.is_some() || slice.is_some() {
        let known = control.parts.node.session_information(session.up_seid());
        let has_dnn = |wanted: &String| {
            let name = known.and_then(|known| known.dnn.as_deref());
            name.is_some_and(|name| name.eq_ignore_ascii_case(wanted))
        };
        let has_slice = |wanted: SliceIdentity| {
            known.and_then(|known| known.s_nssai).map(adit_n4::session_s_nssai) == Some(wanted)
        };
        if !dnn.as_ref().is_none_or(has_dnn) || !slice.is_none_or(has_slice) {
            return false;
        }
    }
    let is_found = by_index && seid.is_none() && teid.is_none();
    if teid.is_none() && (ue.is_none() || is_found) {
        return true;
    }
    let records = session.records();
    teid.is_none_or(|teid| has_teid(&records, teid))
        && ue.is_none_or(|ue| is_found || has_ue(&records, ue))
}

/// True for a TEID of adit, or of a peer that a FAR sends to.
fn has_teid(records: &Records, wanted: Teid) -> bool {
    let pdis = records.pdrs.iter().flat_map(|pdr| pdr.pdi.each());
    let mut local = pdis.filter_map(|pdi| pdi.f_teid.as_ref()).map(|f_teid| f_teid.teid);
    let tunnel = |far: &adit_session::Far| far.forwarding.as_ref()?.outer_header_creation?.tunnel();
    local.any(|teid| teid == wanted)
        || records.fars.iter().filter_map(tunnel).any(|tunnel| tunnel.teid == wanted)
}

/// True for an address of the UE, or within its prefix.
fn has_ue(records: &Records, wanted: IpAddr) -> bool {
    let has = |prefix: IpPrefix| match (prefix, wanted) {
        (IpPrefix::V4(prefix), IpAddr::V4(addr)) => prefix.contains(addr),
        (IpPrefix::V6(prefix), IpAddr::V6(addr)) => prefix.contains(addr),
        _ => false,
    };
    let mut prefixes = ues(records).into_iter().filter_map(|ue| match ue.parse::<IpAddr>() {
        Ok(IpAddr::V4(addr)) => Ipv4Prefix::containing(addr, 32).map(IpPrefix::V4),
        Ok(IpAddr::V6(addr)) => Ipv6Prefix::containing(addr, 128).map(IpPrefix::V6),
        Err(_) => ue.parse().ok(),
    });
    prefixes.any(has)
}

page!(
    /// A page of sessions.
    SessionsPage {
        sessions: SessionRow [
            up_seid, cp_seid, cp_node, ue, teids, pdrs, uplink_pkts, uplink_bytes, downlink_pkts, downlink_bytes,
        ],
    }
);

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SessionRow {
    up_seid: String,
    cp_seid: String,
    cp_node: Option<String>,
    ue: Vec<String>,
    teids: BTreeSet<String>,
    uplink_pkts: u64,
    uplink_bytes: u64,
    downlink_pkts: u64,
    downlink_bytes: u64,
    pdrs: Vec<PdrRow>,
    fars: Vec<FarRow>,
    qers: Vec<QerRow>,
    bars: Vec<BarRow>,
    urrs: Vec<UrrRow>,
    information: Option<InformationRow>,
    inactivity_timer_s: Option<u64>,
}

impl SessionRow {
    fn of(gathered: GatheredSession) -> Self {
        let GatheredSession { session, cp_node, traffic, usage, information } = gathered;
        let records = session.records();
        let pdis = records.pdrs.iter().flat_map(|pdr| pdr.pdi.each());
        let teids = pdis.filter_map(|pdi| Some(pdi.f_teid.as_ref()?.teid.to_string()));
        let timer = records.inactivity_timer;
        Self {
            up_seid: session.up_seid().to_string(),
            cp_seid: session.cp_f_seid().seid.to_string(),
            cp_node: cp_node.map(|node| node.to_string()),
            ue: ues(&records),
            teids: teids.collect(),
            uplink_pkts: traffic.ul_pkts,
            uplink_bytes: traffic.ul_bytes,
            downlink_pkts: traffic.dl_pkts,
            downlink_bytes: traffic.dl_bytes,
            pdrs: records.pdrs.iter().map(PdrRow::of).collect(),
            fars: records.fars.iter().map(FarRow::of).collect(),
            qers: records.qers.iter().map(QerRow::of).collect(),
            bars: records.bars.iter().map(BarRow::of).collect(),
            urrs: records
                .urrs
                .iter()
                .zip(&usage)
                .map(|(urr, usage)| UrrRow::of(urr, usage))
                .collect(),
            information: information.as_ref().map(InformationRow::of),
            inactivity_timer_s: timer.map(|timer| timer.to_duration().as_secs()),
        }
    }
}

/// The addresses and networks of a session's UE.
pub(super) fn ues(records: &Records) -> Vec<String> {
    let mut ues = BTreeSet::new();
    for pdi in records.pdrs.iter().flat_map(|pdr| pdr.pdi.each()) {
        let ue = pdi.ue_addresses();
        ues.extend(ue.v4.map(|addr| addr.to_string()));
        ues.extend(ue.v6.map(|prefix| prefix.to_string()));
        ues.extend(pdi.further_ues.iter().map(|prefix| prefix.to_string()));
    }
    ues.into_iter().collect()
}

fn interface_type(known: adit_session::InterfaceType) -> String {
    adit_pfcp::ie::InterfaceType::from_code(known.0).to_string()
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PdrRow {
    id: u16,
    precedence: u32,
    source_interface: String,
    interface_type: Option<String>,
    active: bool,
    traffic_endpoints: Vec<u8>,
    framed_routes: Vec<String>,
    teid: Option<String>,
    network_instance: Option<String>,
    qfis: Vec<u8>,
    sdf_filters: usize,
    application: Option<String>,
    predefined_rules: Vec<String>,
    far: Option<u32>,
    qers: Vec<u32>,
    urrs: Vec<u32>,
}

impl PdrRow {
    fn of(pdr: &adit_session::Pdr) -> Self {
        let pdi = &pdr.pdi;
        let routes = pdi.each().flat_map(|pdi| &pdi.framed_routes);
        Self {
            id: pdr.id.0,
            precedence: pdr.precedence.0,
            source_interface: format!("{:?}", pdi.source),
            interface_type: pdi.interface_type.map(interface_type),
            active: pdr.is_active,
            traffic_endpoints: pdi.traffic_endpoints.iter().map(|id| id.0).collect(),
            framed_routes: routes.map(|prefix| prefix.to_string()).collect(),
            teid: pdi.f_teid.as_ref().map(|f_teid| f_teid.teid.to_string()),
            network_instance: pdi.network_instance.as_deref().map(str::to_owned),
            qfis: pdi.qfis.iter().map(|qfi| qfi.value()).collect(),
            sdf_filters: pdi.sdf.len(),
            application: pdi.application.as_deref().map(str::to_owned),
            predefined_rules: pdr.predefined.iter().map(|name| name.to_string()).collect(),
            far: pdr.far.map(|id| id.0),
            qers: pdr.qers.iter().map(|id| id.0).collect(),
            urrs: pdr.urrs.iter().map(|id| id.0).collect(),
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FarRow {
    id: u32,
    action: &'static str,
    apply_action: Vec<&'static str>,
    bar: Option<u8>,
    destination_interface: Option<String>,
    interface_type: Option<String>,
    linked_traffic_endpoint: Option<u8>,
    tunnel: Option<TunnelRow>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TunnelRow {
    teid: String,
    addr: String,
}

impl FarRow {
    fn of(far: &adit_session::Far) -> Self {
        let forwarding = far.forwarding.as_ref();
        let tunnel = forwarding.and_then(|forwarding| forwarding.outer_header_creation?.tunnel());
        let row = |tunnel: adit_rules::GtpuTunnel| TunnelRow {
            teid: tunnel.teid.to_string(),
            addr: tunnel.addr.to_string(),
        };
        Self {
            id: far.id.0,
            action: action_name(far.action),
            apply_action: far.action.iter_names().map(|(name, _)| name).collect(),
            bar: far.bar.map(|id| id.0),
            destination_interface: forwarding.map(|f| format!("{:?}", f.destination)),
            interface_type: forwarding.and_then(|f| f.interface_type).map(interface_type),
            linked_traffic_endpoint: forwarding.and_then(|f| f.linked_endpoint).map(|id| id.0),
            tunnel: tunnel.map(row),
        }
    }
}

const fn action_name(action: ApplyAction) -> &'static str {
    if action.contains(ApplyAction::FORW) {
        "forward"
    } else if action.contains(ApplyAction::BUFF) {
        "buffer"
    } else {
        "drop"
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct QerRow {
    id: u32,
    gate_uplink: String,
    gate_downlink: String,
    qfi: Option<u8>,
    mbr_bps: Option<RatesRow>,
    gbr_bps: Option<RatesRow>,
}

/// Unit: bits per second.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RatesRow {
    uplink: u64,
    downlink: u64,
}

impl QerRow {
    fn of(qer: &adit_session::Qer) -> Self {
        let rates = |rates: adit_session::Rates| RatesRow {
            uplink: rates.uplink.as_bps(),
            downlink: rates.downlink.as_bps(),
        };
        Self {
            id: qer.id.0,
            gate_uplink: format!("{:?}", qer.gates.uplink).to_lowercase(),
            gate_downlink: format!("{:?}", qer.gates.downlink).to_lowercase(),
            qfi: qer.qfi.map(adit_types::Qfi::value),
            mbr_bps: qer.mbr.map(rates),
            gbr_bps: qer.gbr.map(rates),
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BarRow {
    id: u8,
    notification_delay_ms: u32,
    suggested_pkts: Option<u16>,
}

impl BarRow {
    fn of(bar: &adit_session::Bar) -> Self {
        Self {
            id: bar.id.0,
            notification_delay_ms: u32::from(bar.notification_delay) * 50,
            suggested_pkts: bar.suggested_pkts,
        }
    }
}

/// A URR with the usage since its last report.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UrrRow {
    id: u32,
    measures_volume: bool,
    measures_duration: bool,
    uplink_pkts: u64,
    uplink_bytes: u64,
    downlink_pkts: u64,
    downlink_bytes: u64,
    quota_exhausted: bool,
}

impl UrrRow {
    fn of(urr: &adit_session::Urr, usage: &RunningUsage) -> Self {
        Self {
            id: urr.id.0,
            measures_volume: urr.method.volume,
            measures_duration: urr.method.duration,
            uplink_pkts: usage.volume.ul_pkts,
            uplink_bytes: usage.volume.ul_bytes,
            downlink_pkts: usage.volume.dl_pkts,
            downlink_bytes: usage.volume.dl_bytes,
            quota_exhausted: usage.stopped,
        }
    }
}

/// Information from the CP function about a session; identities are masked.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct InformationRow {
    dnn: Option<String>,
    s_nssai: Option<String>,
    rat_type: Option<String>,
    user: BTreeMap<&'static str, String>,
}

impl InformationRow {
    fn of(information: &SessionInformation) -> Self {
        let user = information.user.iter().map(|(kind, text)| (*kind, text.to_string()));
        let slice = information.s_nssai;
        Self {
            dnn: information.dnn.as_deref().map(str::to_owned),
            s_nssai: slice.map(|slice| adit_n4::session_s_nssai(slice).to_string()),
            rat_type: information.rat_type.map(|rat| rat.to_string()),
            user: user.collect(),
        }
    }
}
