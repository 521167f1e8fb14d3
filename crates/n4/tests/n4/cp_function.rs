//! GTP-U of the CP function: its path, and the tunnel that it moves in a report's answer.

use std::net::{IpAddr, Ipv4Addr};

use adit_n4::{NodeConfig, PathConfig};
use adit_pfcp::grouped::{CreateFar, ForwardingParameters};
use adit_pfcp::ie::{ApplyAction, DestinationInterface, FTeid, FTeidAddress, OuterHeaderCreation};
use adit_pfcp::message::SessionReportResponse;
use adit_pfcp::{Cause, MessageType};
use adit_rules::{GtpuTunnel, WorkerCommand, WorkerEvent};
use adit_types::{FarId, Nanos, PdrId, Seid, Teid};

use crate::smf::*;

/// The SMF's GTP-U address.
const SMF_GTPU: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 9);
const INTERVAL: Nanos = Nanos::from_secs(60);

/// FAR 3 leads to the CP function; FAR 2 buffers and notifies.
fn bench() -> (Bench, Seid) {
    let paths = PathConfig { echo_interval: INTERVAL, t3: Nanos::from_secs(3), n3: 3 };
    let heartbeat_interval = Nanos::from_secs(100_000);
    let mut bench = Bench::with(NodeConfig { paths, heartbeat_interval, ..config() });
    bench.associate(10);
    let request = establish_with(2, &SessionScript::new(0xc1, 1), |body| {
        let mut fars: Vec<_> = body.create_fars.iter().collect();
        fars[1].apply_action = ApplyAction::BUFF | ApplyAction::NOCP;
        let mut to_cp = CreateFar::new(FarId(3), ApplyAction::FORW);
        let mut parameters = ForwardingParameters::new(DestinationInterface::CpFunction);
        parameters.outer_header_creation = Some(OuterHeaderCreation::gtpu_ipv4(Teid(7), SMF_GTPU));
        to_cp.forwarding_parameters = Some(parameters);
        fars.push(to_cp);
        body.create_fars = Vec::leak(fars)[..].into();
    });
    let answer = bench.answer(smf(10), &request);
    let adit_pfcp::Message::SessionEstablishmentResponse(body) = decode(&answer) else { panic!() };
    assert!(body.cause.is_accepted(), "{body:?}");
    bench.node.handle_timeout(bench.now);
    bench.sent();
    (bench, body.up_f_seid.unwrap().seid)
}

#[test]
fn path_to_the_gtpu_address_of_the_cp_function_is_supervised() {
    let (mut bench, _) = bench();
    let cp = IpAddr::V4(SMF_GTPU);
    assert!(bench.node.paths().any(|path| path.peer == cp));
    bench.now += INTERVAL;
    bench.node.handle_timeout(bench.now);
    let commands: Vec<_> = core::iter::from_fn(|| bench.node.poll_command()).collect();
    let is_echo = |command: &WorkerCommand| matches!(command, WorkerCommand::SendEchoRequest { peer, .. } if *peer == cp);
    assert_eq!(commands.iter().filter(|command| is_echo(command)).count(), 1, "{commands:?}");
}

/// Spec: TS 29.244 §7.5.9.1 (N4-u F-TEID).
#[test]
fn n4u_f_teid_in_the_answer_to_a_report_moves_the_fars_towards_the_cp_function() {
    let (mut bench, up_seid) = bench();
    let (dscp, qfi, delivery) = (None, None, None);
    let event = WorkerEvent::DownlinkData { session: up_seid, pdr: PdrId(2), dscp, qfi, delivery };
    bench.node.handle_event(bench.now, event);
    let sent = bench.sent();
    let report = sent
        .iter()
        .find(|sent| raw(&sent.bytes).header.message_type == MessageType::SESSION_REPORT_REQUEST);
    let sequence = raw(&report.unwrap().bytes).header.sequence;
    let other = Ipv4Addr::new(198, 51, 100, 8);
    let mut body = SessionReportResponse::new(Cause::RequestAccepted);
    body.n4u_f_teid = Some(FTeid::Given { teid: Teid(0x77), addr: FTeidAddress::V4(other) });
    let response = encode(Some(up_seid), sequence, &body);
    bench.node.handle_datagram(bench.now, smf(10), &response);
    let (_, delta) = bench.node.poll_delta().unwrap();
    let tunnel = |at: usize| {
        let header = delta.rules.as_ref().unwrap().fars[at].outer_header_creation;
        header.and_then(|header| header.tunnel())
    };
    assert_eq!(tunnel(2), Some(GtpuTunnel { teid: Teid(0x77), addr: IpAddr::V4(other) }));
    assert_eq!(tunnel(0), None, "FAR 1 leads to the data network");
    assert_eq!(bench.node.counters().scalars.report_responses_not_applied, 0);
}
