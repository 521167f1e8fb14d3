//! `adit show sessions`.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use adit_n4::SessionInformation;
use adit_rules::{ApplyAction, Redirect};
use adit_session::{OwnerId, Records, RunningUsage, SdfSpec, Session, SliceIdentity};
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

/// Returns a page of the sessions that match.
///
/// Cost: visits at most [`SESSIONS_PER_PAGE_MAX`] session indices, and unpacks each session if the
/// filter has a UE address or a TEID that no index has.
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
        return AdminAnswer::Page(list("sessions", gathered, session_row, None));
    }
    if filter.seid.is_some() {
        return AdminAnswer::Page(list("sessions", Vec::new(), session_row, None));
    }
    let cp_nodes = cp_nodes(control);
    let first = SessionIndex(index(cursor.from));
    let rows_max = question.page_rows_max(SESSIONS_PER_PAGE_MAX);
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
    AdminAnswer::Page(list("sessions", gathered, session_row, next))
}

/// Returns the Node IDs of the CP functions.
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

/// Finds the session in an index by the filter's SEID, local TEID or UE address.
fn by_index<'a>(control: &ControlView<'a>, filter: &SessionFilter) -> Option<&'a Session> {
    let (store, publisher) = (control.parts.node.store(), &control.parts.publisher);
    match (filter.seid, filter.teid, filter.ue) {
        (Some(seid), ..) => store.session(seid),
        (None, Some(teid), _) => store.session_at(publisher.session_of_teid(teid)),
        (None, None, Some(ue)) => store.session_of_ue(ue),
        (None, None, None) => None,
    }
}

/// True if a session matches. `by_index`: an index led to the session, so that a UE address that is
/// the filter's only key matches.
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

/// True if the session has this TEID: of adit, or of a peer to which a FAR sends.
fn has_teid(records: &Records, wanted: Teid) -> bool {
    let mut local = pdis(records).filter_map(|pdi| pdi.f_teid.as_ref());
    local.any(|f_teid| f_teid.teid == wanted)
        || records.fars.iter().filter_map(|far| far.tunnel()).any(|tunnel| tunnel.teid == wanted)
}

/// True if this is an address of the session's UE, or within a prefix of the UE.
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

/// Declares a row of a document: each field with its value.
macro_rules! row {
    (
        $(#[$meta:meta])*
        $name:ident of $($value:ident: $of:ty),+ {
            $( $field:ident: $type:ty = $read:expr; )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Serialize, ToSchema)]
        pub(crate) struct $name {
            $( $field: $type, )+
        }

        impl $name {
            fn of($($value: $of),+) -> Self {
                Self { $( $field: $read, )+ }
            }
        }
    };
}

row! {
    SessionRow of gathered: GatheredSession, records: Records {
        up_seid: String = gathered.session.up_seid().to_string();
        cp_seid: String = gathered.session.cp_f_seid().seid.to_string();
        cp_node: Option<String> = gathered.cp_node.map(|node| node.to_string());
        ue: Vec<String> = ues(&records);
        teids: BTreeSet<String> = pdis(&records)
            .filter_map(|pdi| Some(pdi.f_teid.as_ref()?.teid.to_string()))
            .collect();
        uplink_pkts: u64 = gathered.traffic.ul_pkts;
        uplink_bytes: u64 = gathered.traffic.ul_bytes;
        downlink_pkts: u64 = gathered.traffic.dl_pkts;
        downlink_bytes: u64 = gathered.traffic.dl_bytes;
        pdrs: Vec<PdrRow> = records.pdrs.iter().map(PdrRow::of).collect();
        fars: Vec<FarRow> = records.fars.iter().map(FarRow::of).collect();
        qers: Vec<QerRow> = records.qers.iter().map(QerRow::of).collect();
        bars: Vec<BarRow> = records.bars.iter().map(BarRow::of).collect();
        urrs: Vec<UrrRow> = records
            .urrs
            .iter()
            .zip(&gathered.usage)
            .map(|(urr, usage)| UrrRow::of(urr, usage))
            .collect();
        information: Option<InformationRow> =
            gathered.information.as_ref().map(InformationRow::of);
        inactivity_timer_s: Option<u64> =
            records.inactivity_timer.map(|timer| timer.to_duration().as_secs());
    }
}

fn session_row(gathered: GatheredSession) -> SessionRow {
    let records = gathered.session.records();
    SessionRow::of(gathered, records)
}

fn pdis(records: &Records) -> impl Iterator<Item = &adit_session::Pdi> {
    records.pdrs.iter().flat_map(|pdr| pdr.pdi.each())
}

/// Returns the addresses and networks of a session's UE.
pub(super) fn ues(records: &Records) -> Vec<String> {
    let mut ues = BTreeSet::new();
    for pdi in pdis(records) {
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

row! {
    PdrRow of pdr: &adit_session::Pdr {
        id: u16 = pdr.id.0;
        precedence: u32 = pdr.precedence.0;
        source_interface: String = format!("{:?}", pdr.pdi.source);
        interface_type: Option<String> = pdr.pdi.interface_type.map(interface_type);
        active: bool = pdr.is_active;
        traffic_endpoints: Vec<u8> = pdr.pdi.traffic_endpoints.iter().map(|id| id.0).collect();
        framed_routes: Vec<String> = pdr
            .pdi
            .each()
            .flat_map(|pdi| &pdi.framed_routes)
            .map(|prefix| prefix.to_string())
            .collect();
        teid: Option<String> = pdr.pdi.f_teid.as_ref().map(|f_teid| f_teid.teid.to_string());
        network_instance: Option<String> = pdr.pdi.network_instance.as_deref().map(str::to_owned);
        qfis: Vec<u8> = pdr.pdi.qfis.iter().map(|qfi| qfi.value()).collect();
        sdf_filters: usize = pdr.pdi.sdf.len();
        flow_descriptions: Vec<String> = pdr
            .pdi
            .sdf
            .iter()
            .filter_map(|sdf| sdf.spec.flow_description.as_deref())
            .map(str::to_owned)
            .collect();
        filters: Vec<String> = pdr.pdi.sdf.iter().map(|sdf| filter_words(&sdf.spec)).collect();
        application: Option<String> = pdr.pdi.application.as_deref().map(str::to_owned);
        predefined_rules: Vec<String> =
            pdr.predefined.iter().map(|name| name.to_string()).collect();
        far: Option<u32> = pdr.far.map(|id| id.0);
        qers: Vec<u32> = pdr.qers.iter().map(|id| id.0).collect();
        urrs: Vec<u32> = pdr.urrs.iter().map(|id| id.0).collect();
    }
}

/// Describes all parts of an SDF filter.
fn filter_words(spec: &SdfSpec) -> String {
    let parts = [
        spec.flow_description.as_deref().map(str::to_owned),
        spec.tos.map(|(value, mask)| format!("ToS 0x{value:02x}/0x{mask:02x}")),
        spec.spi.map(|spi| format!("SPI 0x{spi:08x}")),
        spec.flow_label.map(|label| format!("flow label 0x{label:05x}")),
        spec.filter_id.map(|id| format!("filter ID {id}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

row! {
    FarRow of far: &adit_session::Far {
        id: u32 = far.id.0;
        action: &'static str = action_name(far.action);
        apply_action: Vec<&'static str> = far.action.iter_names().map(|(name, _)| name).collect();
        bar: Option<u8> = far.bar.map(|id| id.0);
        destination_interface: Option<String> =
            far.forwarding.as_ref().map(|parts| format!("{:?}", parts.destination));
        interface_type: Option<String> =
            far.forwarding.as_ref().and_then(|parts| parts.interface_type).map(interface_type);
        network_instance: Option<String> =
            far.forwarding.as_ref().and_then(|parts| parts.network_instance.as_deref()).map(str::to_owned);
        forwarding_policy: Option<String> =
            far.forwarding.as_ref().and_then(|parts| parts.policy.as_deref()).map(str::to_owned);
        transport_level_marking: Option<u8> =
            far.forwarding.as_ref().and_then(|parts| parts.transport_level_marking);
        redirect: Option<String> = far
            .forwarding
            .as_ref()
            .and_then(|parts| parts.redirect.as_ref())
            .map(redirect_words);
        linked_traffic_endpoint: Option<u8> =
            far.forwarding.as_ref().and_then(|parts| parts.linked_endpoint).map(|id| id.0);
        tunnel: Option<TunnelRow> = far.tunnel().map(TunnelRow::of);
    }
}

/// Describes where packets are redirected to: a URL, or the parts of an address that are replaced.
fn redirect_words(redirect: &Redirect) -> String {
    match redirect {
        Redirect::Url(url) => url.to_string(),
        Redirect::Address { v4, v6, port } => {
            let port = port.map(|port| format!("port {port}"));
            let parts = [v4.map(|addr| addr.to_string()), v6.map(|addr| addr.to_string()), port];
            parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
        }
    }
}

row! {
    TunnelRow of tunnel: adit_rules::GtpuTunnel {
        teid: String = tunnel.teid.to_string();
        addr: String = tunnel.addr.to_string();
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

row! {
    QerRow of qer: &adit_session::Qer {
        id: u32 = qer.id.0;
        gate_uplink: String = format!("{:?}", qer.gates.uplink).to_lowercase();
        gate_downlink: String = format!("{:?}", qer.gates.downlink).to_lowercase();
        qfi: Option<u8> = qer.qfi.map(adit_types::Qfi::value);
        rqi: bool = qer.rqi;
        ppi: Option<u8> = qer.ppi;
        flow_tos: Option<u8> = qer.flow_tos.map(|(value, mask)| value & mask);
        service_class: Option<u8> = qer.service_class.map(|(class, _)| class);
        mbr_bps: Option<RatesRow> = qer.mbr.map(RatesRow::of);
        gbr_bps: Option<RatesRow> = qer.gbr.map(RatesRow::of);
    }
}

row! {
    /// Unit: bits per second.
    RatesRow of rates: adit_session::Rates {
        uplink: u64 = rates.uplink.as_bps();
        downlink: u64 = rates.downlink.as_bps();
    }
}

row! {
    BarRow of bar: &adit_session::Bar {
        id: u8 = bar.id.0;
        notification_delay_ms: u32 = u32::from(bar.notification_delay) * 50;
        suggested_pkts: Option<u16> = bar.suggested_pkts;
    }
}

row! {
    /// A URR with the usage since its last report.
    UrrRow of urr: &adit_session::Urr, usage: &RunningUsage {
        id: u32 = urr.id.0;
        measures_volume: bool = urr.method.volume;
        measures_duration: bool = urr.method.duration;
        uplink_pkts: u64 = usage.volume.ul_pkts;
        uplink_bytes: u64 = usage.volume.ul_bytes;
        downlink_pkts: u64 = usage.volume.dl_pkts;
        downlink_bytes: u64 = usage.volume.dl_bytes;
        quota_exhausted: bool = usage.stopped;
    }
}

row! {
    /// Information from the CP function about a session; identities are masked.
    InformationRow of information: &SessionInformation {
        dnn: Option<String> = information.dnn.as_deref().map(str::to_owned);
        s_nssai: Option<String> =
            information.s_nssai.map(|slice| adit_n4::session_s_nssai(slice).to_string());
        rat_type: Option<String> = information.rat_type.map(|rat| rat.to_string());
        user: BTreeMap<&'static str, String> =
            information.user.iter().map(|(kind, text)| (*kind, text.to_string())).collect();
    }
}
