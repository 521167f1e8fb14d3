//! `adit show sessions`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use adit_n4::SessionInformation;
use adit_rules::ApplyAction;
use adit_session::{OwnerId, Records, RunningUsage, Session};
use adit_tables::SessionTraffic;
use adit_types::SessionIndex;
use adit_types::limits::SESSIONS_PER_PAGE_MAX;
use serde::Serialize;

use super::{ControlView, index, list};
use crate::admin::{AnswerPage, PageCursor, PagePosition};

/// One session, as the control thread gathers it; its records are still packed.
struct GatheredSession {
    session: Session,
    cp_node: Option<Arc<str>>,
    traffic: SessionTraffic,
    usage: Vec<RunningUsage>,
    information: Option<SessionInformation>,
}

pub(super) fn page(control: &ControlView<'_>, cursor: PageCursor) -> AnswerPage {
    let (node, publisher) = (&control.parts.node, &control.parts.publisher);
    let cp_nodes: BTreeMap<OwnerId, Arc<str>> = node
        .associations()
        .map(|association| (association.owner, association.node_id.to_string().into()))
        .collect();
    let first = SessionIndex(index(cursor.from));
    let (sessions, next) = node.store().sessions_from(first, SESSIONS_PER_PAGE_MAX);
    let gather = |session: &Session| GatheredSession {
        session: session.clone(),
        cp_node: cp_nodes.get(&session.owner()).cloned(),
        traffic: publisher.session_traffic(session.index()),
        usage: node.store().running_usage(session),
        information: node.session_information(session.up_seid()).cloned(),
    };
    let next = next.map(|SessionIndex(next)| PagePosition::Index(next));
    list("sessions", sessions.map(gather).collect(), SessionRow::of, next)
}

#[derive(Serialize)]
struct SessionRow {
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

#[derive(Serialize)]
struct PdrRow {
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

#[derive(Serialize)]
struct FarRow {
    id: u32,
    action: &'static str,
    apply_action: Vec<&'static str>,
    bar: Option<u8>,
    destination_interface: Option<String>,
    interface_type: Option<String>,
    linked_traffic_endpoint: Option<u8>,
    tunnel: Option<TunnelRow>,
}

#[derive(Serialize)]
struct TunnelRow {
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

#[derive(Serialize)]
struct QerRow {
    id: u32,
    gate_uplink: String,
    gate_downlink: String,
    qfi: Option<u8>,
    mbr_bps: Option<RatesRow>,
    gbr_bps: Option<RatesRow>,
}

/// Unit: bits per second.
#[derive(Serialize)]
struct RatesRow {
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

#[derive(Serialize)]
struct BarRow {
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
#[derive(Serialize)]
struct UrrRow {
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
#[derive(Serialize)]
struct InformationRow {
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
