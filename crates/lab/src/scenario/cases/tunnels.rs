//! Outer headers and GTP-U signaling: End Marker, DSCP, N9, IPv6, Error Indication, echo.

use std::net::{IpAddr, SocketAddrV4};
use std::sync::atomic::Ordering;
use std::time::Duration;

use adit_pfcp::Message;
use adit_pfcp::grouped::{CreatePdr, DuplicatingParameters, Pdi, UpdateForwardingParameters};
use adit_pfcp::ie::{
    ApplyAction, DestinationInterface, FTeid, NodeReportType, Nullable, OuterHeaderCreation,
    OuterHeaderRemovalDescription, PfcpSmReqFlags, RemoteGtpuPeer, ReportType, SourceInterface,
    TransportLevelMarking,
};
use adit_types::{PdrId, Precedence, Teid};
use adit_wire::gtpu::GtpuMessageType;
use anyhow::{Context, Result, ensure};

use super::PORT;
use crate::gnb::{Leg, teid};
use crate::scenario::endpoint::Endpoint;
use crate::scenario::expect::{all, both, none};
use crate::scenario::probe::{DATAGRAMS, ProbeSockets};
use crate::scenario::session::{
    QER, ScenarioContext, ScenarioRules, ScenarioSession, TO_ACCESS, TO_CORE,
};
use crate::scenario::sniffer::Sniffer;
use crate::topology::{ADIT_N3, ADIT_N3_V6, DN, GNB, GNB_V6, PEER_UPF};

/// Timeout for a path report. A path fails one interval and two timeouts after its last answer, or
/// later on a machine under load.
const PATH_LIMIT: Duration = Duration::from_secs(15);
/// Expedited Forwarding as type of service (RFC 3246), and its mask.
const EXPEDITED: u8 = 46 << 2;
const DSCP_MASK: u8 = 0xfc;

/// Checks SNDEM: an End Marker is the last message of the old tunnel, and the new tunnel has none.
/// Spec: TS 29.244 §5.2.3.1, TS 29.281 §7.3.2.
pub(super) fn end_marker(context: &ScenarioContext<'_>) -> Result<String> {
    let session = context.establish_with(&ScenarioRules::USUAL)?;
    let probe = ProbeSockets::open(context, PORT)?;
    let sniffer = Sniffer::open(context)?;
    all("first tunnel", &probe.downlink()?)?;
    let [first, second] = [Leg::First, Leg::Second].map(|leg| teid(context.index(), leg));
    switch_with_end_marker(&session, second)?;
    all("second tunnel", &probe.downlink()?)?;
    let seen = sniffer.seen(context)?;
    let by = |teid| seen.iter().filter(move |seen| seen.teid == teid).map(|seen| seen.kind);
    let pdus = || std::iter::repeat_n(GtpuMessageType::G_PDU, DATAGRAMS.try_into().unwrap_or(0));
    ensure!(by(first).eq(pdus().chain([GtpuMessageType::END_MARKER])), "captured {seen:?}");
    ensure!(by(second).eq(pdus()), "captured {seen:?}");
    session.end()?;
    Ok("one End Marker, the last message of the old tunnel".to_owned())
}

fn switch_with_end_marker(session: &ScenarioSession<'_>, to: Teid) -> Result<()> {
    let creation = OuterHeaderCreation::gtpu_ipv4(to, GNB);
    let parameters = UpdateForwardingParameters {
        outer_header_creation: Some(Nullable::Value(creation)),
        pfcp_sm_req_flags: Some(PfcpSmReqFlags::SNDEM),
        ..UpdateForwardingParameters::new()
    };
    session.forward(TO_ACCESS, parameters)
}

/// Checks that Transport Level Marking sets the DSCP of the outer header. Spec: TS 29.244 §5.4.5.
pub(super) fn dscp(context: &ScenarioContext<'_>) -> Result<String> {
    let marking = Some(TransportLevelMarking(u16::from_be_bytes([EXPEDITED, DSCP_MASK])));
    let session = context.establish_with(&ScenarioRules { marking, ..ScenarioRules::USUAL })?;
    let probe = ProbeSockets::open(context, PORT)?;
    let sniffer = Sniffer::open(context)?;
    all("marked", &probe.downlink()?)?;
    let seen = sniffer.seen(context)?;
    let marked = seen.iter().filter(|seen| seen.tos & DSCP_MASK == EXPEDITED).count();
    ensure!(!seen.is_empty() && marked == seen.len(), "the outer headers were {seen:?}");
    session.end()?;
    Ok(format!("{marked} outer headers carry DSCP 46"))
}

/// Checks N9 between two UPFs: uplink packets leave through a tunnel, downlink packets arrive
/// through one. Spec: TS 23.501 §5.6.4.
pub(super) fn n9(context: &ScenarioContext<'_>) -> Result<String> {
    const BEYOND: Teid = Teid(0x0909_0909);
    const FROM_PEER: PdrId = PdrId(101);
    let peer = Endpoint::open(context, PEER_UPF, ADIT_N3)?;
    let qers = [QER];
    let pdi = Pdi {
        local_f_teid: Some(FTeid::Choose { v4: true, v6: false, choose_id: Some(2) }),
        ..Pdi::new(SourceInterface::Core)
    };
    let from_peer = CreatePdr {
        outer_header_removal: Some(OuterHeaderRemovalDescription::GtpuUdpIpv4.into()),
        far_id: Some(TO_ACCESS),
        qer_ids: (&qers).into(),
        ..CreatePdr::new(FROM_PEER, Precedence(50), pdi)
    };
    let session = context.establish_with(&ScenarioRules {
        to_core: Some(OuterHeaderCreation::gtpu_ipv4(BEYOND, PEER_UPF)),
        more_pdrs: &[from_peer],
        ..ScenarioRules::USUAL
    })?;
    let probe = ProbeSockets::open(context, PORT)?;
    probe.send_uplink(0..DATAGRAMS)?;
    let arrived = peer.receive(context, DATAGRAMS.try_into().unwrap_or(0))?;
    ensure!(arrived.iter().copied().eq((0..DATAGRAMS).map(|n| (BEYOND, n))), "{arrived:?}");
    none("past the other UPF", &probe.receive_uplink(DATAGRAMS)?)?;
    let own = session.established().second_teid.context("adit allocated no F-TEID towards N9")?;
    let flow = [SocketAddrV4::new(DN, PORT), SocketAddrV4::new(context.ue.ipv4(), PORT)];
    peer.send(own, flow, 0..DATAGRAMS)?;
    all("from the other UPF", &probe.receive_downlink(DATAGRAMS)?)?;
    session.end()?;
    Ok("uplink went to the other UPF, downlink came from it".to_owned())
}

/// Checks DUPL: uplink packets reach the server, and a copy of each leaves through a tunnel. Spec:
/// TS 29.244 §5.2.3.
pub(super) fn duplicate(context: &ScenarioContext<'_>) -> Result<String> {
    const COPIES: Teid = Teid(0x0d0d_0d0d);
    let peer = Endpoint::open(context, PEER_UPF, ADIT_N3)?;
    let copy = DuplicatingParameters {
        outer_header_creation: Some(OuterHeaderCreation::gtpu_ipv4(COPIES, PEER_UPF)),
        ..DuplicatingParameters::new(DestinationInterface::LiFunction)
    };
    let session =
        context.establish_with(&ScenarioRules { duplicates: &[copy], ..ScenarioRules::USUAL })?;
    let probe = ProbeSockets::open(context, PORT)?;
    both("originals", &probe)?;
    let copies = peer.receive(context, DATAGRAMS.try_into().unwrap_or(0))?;
    ensure!(copies.iter().copied().eq((0..DATAGRAMS).map(|n| (COPIES, n))), "{copies:?}");
    session.apply(TO_CORE, ApplyAction::FORW)?;
    both("without DUPL", &probe)?;
    let copies = peer.receive(context, 0)?;
    ensure!(copies.is_empty(), "without DUPL, {copies:?} arrived");
    session.end()?;
    Ok(format!("{DATAGRAMS} packets and {DATAGRAMS} copies, no copy without DUPL"))
}

/// Establishes a session with tunnels over IPv6, and opens the gNB's endpoint.
pub(super) fn session_over_ipv6<'a>(
    context: &'a ScenarioContext<'a>,
) -> Result<(Endpoint, ScenarioSession<'a>)> {
    let gnb = Endpoint::open(context, GNB_V6, ADIT_N3_V6)?;
    let tunnel = teid(context.index(), Leg::First);
    let session = context.establish_with(&ScenarioRules {
        to_access: Some(OuterHeaderCreation::gtpu_ipv6(tunnel, GNB_V6)),
        n3_over_ipv6: true,
        ..ScenarioRules::USUAL
    })?;
    Ok((gnb, session))
}

/// Checks that both directions pass through a tunnel over IPv6. Spec: TS 29.281 §4.4.1.
pub(super) fn ipv6_n3(context: &ScenarioContext<'_>) -> Result<String> {
    if !context.network.topology.ipv6 {
        return Ok("skipped: the kernel has no IPv6".to_owned());
    }
    let (gnb, session) = session_over_ipv6(context)?;
    let tunnel = teid(context.index(), Leg::First);
    let probe = ProbeSockets::open(context, PORT)?;
    let flow = [SocketAddrV4::new(context.ue.ipv4(), PORT), SocketAddrV4::new(DN, PORT)];
    let own = session.established().uplink_teid;
    gnb.send(own, flow, 0..DATAGRAMS)?;
    all("uplink", &probe.receive_uplink(DATAGRAMS)?)?;
    probe.send_downlink(0..DATAGRAMS)?;
    let arrived = gnb.receive(context, DATAGRAMS.try_into().unwrap_or(0))?;
    ensure!(arrived.iter().copied().eq((0..DATAGRAMS).map(|n| (tunnel, n))), "{arrived:?}");
    session.end()?;
    Ok("both directions passed through GTP-U over IPv6".to_owned())
}

/// Makes the gNB forget its TEID: adit must report that to the SMF. Spec: TS 29.244 §5.10.
pub(super) fn error_indication(context: &ScenarioContext<'_>) -> Result<String> {
    let session = context.establish_with(&ScenarioRules::USUAL)?;
    let probe = ProbeSockets::open(context, PORT)?;
    let ue = usize::from(context.index());
    both("gNB knows the UE", &probe)?;
    context.network.gnb.forget(ue, true);
    let dropped = probe.downlink().and_then(|arrived| none("gNB forgot the UE", &arrived));
    context.network.gnb.forget(ue, false);
    dropped?;
    let f_teid = session.report("Error Indication Report", |report| {
        let is_error_indication = report.report_type.contains(ReportType::ERIR);
        is_error_indication.then_some(report.error_indication_report?.remote_f_teids.first()?)
    })?;
    session.end()?;
    let FTeid::Given { teid: reported, addr } = f_teid else {
        unreachable!("reports choose nothing")
    };
    ensure!(reported == teid(context.index(), Leg::First), "the report names TEID {reported}");
    ensure!(addr.v4() == Some(GNB), "the report names {addr:?}");
    Ok("adit reported the gNB's tunnel to the SMF".to_owned())
}

/// Checks that adit answers a G-PDU of an unknown TEID with an Error Indication. Spec: TS 29.281
/// §7.3.1.
pub(super) fn unknown_teid(context: &ScenarioContext<'_>) -> Result<String> {
    let session = context.establish_with(&ScenarioRules::USUAL)?;
    let probe = ProbeSockets::open(context, PORT)?;
    let gnb = &context.network.gnb;
    let count = || gnb.counters().error_indications.load(Ordering::Relaxed);
    all("own TEID", &probe.uplink()?)?;
    let before = count();
    let known = session.established().uplink_teid;
    gnb.connect(usize::from(context.index()), Teid(known.0 ^ 0x4000_0001));
    none("unknown TEID", &probe.uplink()?)?;
    let seen = count() - before;
    ensure!(seen > 0, "no Error Indication arrived");
    gnb.connect(usize::from(context.index()), known);
    all("own TEID again", &probe.uplink()?)?;
    session.end()?;
    Ok(format!("{seen} Error Indications for {DATAGRAMS} packets"))
}

/// Checks that adit reports the failure of the path to a gNB that does not answer echo, and its
/// recovery. Spec: TS 29.244 §7.4.5.1.
pub(super) fn echo_path(context: &ScenarioContext<'_>) -> Result<String> {
    let session = context.establish_with(&ScenarioRules::USUAL)?;
    let gnb = &context.network.gnb;
    context.network.smf.inbox().clear();
    gnb.silence(true);
    let failed = node_report(context, NodeReportType::UPFR).and_then(|()| path_state(context));
    gnb.silence(false);
    let state = failed?;
    ensure!(state == "down", "the path failed, but adit shows it as {state}");
    node_report(context, NodeReportType::UPRR)?;
    let state = path_state(context)?;
    ensure!(state == "up", "the path recovered, but adit shows it as {state}");
    session.end()?;
    Ok("adit reported to the SMF that the path failed, and that it recovered".to_owned())
}

/// Returns the state of the path to the gNB, as adit shows it.
fn path_state(context: &ScenarioContext<'_>) -> Result<String> {
    let shown = context.network.adit.admin().show("paths", context.stop)?;
    let paths = shown["paths"].as_array().context("adit's paths are not a list")?;
    let path = paths.iter().find(|path| path["peer"] == GNB.to_string());
    let state = path.and_then(|path| path["state"].as_str());
    Ok(state.context("adit shows no path to the gNB")?.to_owned())
}

/// Waits for a node report of one kind about the gNB.
fn node_report(context: &ScenarioContext<'_>, kind: NodeReportType) -> Result<()> {
    let inbox = context.network.smf.inbox();
    let what = format!("node report of {kind:?}");
    let addr = |peer: RemoteGtpuPeer<'_>| Some(IpAddr::V4(peer.v4?));
    inbox.wait(
        &what,
        PATH_LIMIT,
        || context.stop.check(),
        |_, message| {
            let Message::NodeReportRequest(report) = message else { return None };
            if !report.node_report_type.contains(kind) {
                return None;
            }
            let failed =
                report.user_plane_path_failure_report.and_then(|r| r.remote_gtpu_peers.first());
            let recovered =
                report.user_plane_path_recovery_report.and_then(|r| r.remote_gtpu_peers.first());
            // Skips the peer of an earlier scenario, whose path may fail meanwhile.
            failed.or(recovered).and_then(addr).filter(|peer| *peer == GNB).map(drop)
        },
    )
}
