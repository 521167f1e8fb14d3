//! GTP-U peers: Echo Requests, failure and recovery of paths, Error Indications.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests stand outside the test functions"
)]
#![allow(dead_code, reason = "the scripted SMF serves several test programs")]

mod smf;

use std::net::{IpAddr, Ipv4Addr};

use adit_n4::{NodeConfig, NodeEvent, PathConfig, PathState};
use adit_pfcp::Message;
use adit_pfcp::ie::{FTeid, ReportType};
use adit_rules::{WorkerCommand, WorkerEvent};
use adit_types::{Nanos, Seid, Teid};

use smf::*;

const PEER: IpAddr = IpAddr::V4(GNB);
const INTERVAL: Nanos = Nanos::from_secs(60);
const T3: Nanos = Nanos::from_secs(3);

fn bench() -> (Bench, Seid) {
    let paths = PathConfig { echo_interval: INTERVAL, t3: T3, n3: 3 };
    // Heartbeats of ours would go unanswered and end the association.
    let heartbeat_interval = Nanos::from_secs(100_000);
    let mut bench = Bench::with(NodeConfig { paths, heartbeat_interval, ..config() });
    bench.associate(10);
    let up_seid = bench.session(smf(10), 2, &SessionScript::new(0xc1, 1));
    bench.node.handle_timeout(bench.now);
    bench.sent();
    bench.events();
    (bench, up_seid)
}

impl Bench {
    fn pass(&mut self, span: Nanos) -> Vec<WorkerCommand> {
        self.now += span;
        self.node.handle_timeout(self.now);
        core::iter::from_fn(|| self.node.poll_command()).collect()
    }

    fn state(&self) -> Vec<(IpAddr, PathState)> {
        self.node.paths().map(|path| (path.peer, path.state)).collect()
    }
}

fn echo(sequence: u16) -> Vec<WorkerCommand> {
    vec![WorkerCommand::SendEchoRequest { peer: PEER, sequence, tos: 0 }]
}

fn response(peer: IpAddr, sequence: u16, at: Nanos) -> WorkerEvent {
    WorkerEvent::EchoResponse { peer, sequence, recovery: None, at }
}

/// Spec: TS 29.281 §7.2.1.
#[test]
fn peer_of_a_session_is_asked_once_per_interval_while_it_answers() {
    let (mut bench, up_seid) = bench();
    assert_eq!(bench.state(), [(PEER, PathState::Unknown)]);
    assert_eq!(bench.pass(Nanos(INTERVAL.0 - 1)), []);
    for round in 1..=3 {
        let span = if round == 1 { Nanos(1) } else { INTERVAL };
        assert_eq!(bench.pass(span), echo(round));
        let event = response(PEER, round, bench.now);
        bench.node.handle_event(bench.now, event);
        assert_eq!(bench.pass(Nanos(INTERVAL.0 - 1)), []);
        assert_eq!(bench.state(), [(PEER, PathState::Up)]);
        bench.now = Nanos(bench.now.0 + 1 - INTERVAL.0);
    }
    bench.answer(smf(10), &delete(9, up_seid));
    assert_eq!(bench.pass(INTERVAL), []);
    assert_eq!(bench.state(), [], "nobody sends to it any more");
    assert!(bench.events().is_empty());
}

/// Spec: TS 29.281 §11; TS 29.244 §7.4.5.1.2, §7.4.5.1.3.
#[test]
fn path_without_answers_is_reported_failed_and_with_one_recovered() {
    let (mut bench, _) = bench();
    assert_eq!(bench.pass(INTERVAL), echo(1));
    assert_eq!(bench.pass(T3), echo(2));
    assert_eq!(bench.pass(T3), echo(3));
    assert!(bench.events().is_empty());
    assert_eq!(bench.pass(T3), []);
    assert!(matches!(bench.events()[..], [NodeEvent::PathDown { peer: PEER }]));
    assert_eq!(bench.state(), [(PEER, PathState::Down)]);
    let sent = bench.sent();
    let Message::NodeReportRequest(body) = decode(&sent[0].bytes) else { panic!() };
    let peers = body.user_plane_path_failure_report.unwrap().remote_gtpu_peers;
    assert_eq!(peers.iter().next().unwrap().v4, Some(GNB));

    let late = response(PEER, 3, bench.now);
    bench.node.handle_event(bench.now, late);
    assert_eq!(bench.state(), [(PEER, PathState::Down)], "the round is over");
    assert_eq!(bench.pass(INTERVAL), echo(4));
    let stranger = response(Ipv4Addr::LOCALHOST.into(), 4, bench.now);
    bench.node.handle_event(bench.now, stranger);
    assert!(bench.events().is_empty());
    bench.node.handle_event(bench.now, response(PEER, 4, bench.now));
    assert!(matches!(bench.events()[..], [NodeEvent::PathUp { peer: PEER }]));
    assert_eq!(bench.state(), [(PEER, PathState::Up)]);
    let scalars = bench.node.counters().scalars;
    assert_eq!((scalars.path_failures, scalars.path_recoveries), (1, 1));
}

#[test]
fn paths_that_are_not_watched_send_nothing() {
    let mut bench = Bench::associated();
    bench.session(smf(10), 2, &SessionScript::new(0xc1, 1));
    assert_eq!(bench.pass(Nanos::from_secs(1)), []);
    assert_eq!(bench.state(), []);
}

/// Spec: TS 29.244 §7.5.8.4; TS 29.281 §7.3.1.
#[test]
fn error_indication_is_reported_for_the_sessions_that_use_the_tunnel() {
    let (mut bench, _) = bench();
    let script = SessionScript::new(0xc2, 2);
    bench.session(smf(10), 3, &script);
    let teid = script.gnb_teid;
    bench.node.handle_event(bench.now, WorkerEvent::ErrorIndication { peer: PEER, teid });
    let sent = bench.sent();
    assert_eq!(sent.len(), 1);
    assert_eq!(raw(&sent[0].bytes).header.seid, Some(Seid(0xc2)), "and not the other session");
    let Message::SessionReportRequest(body) = decode(&sent[0].bytes) else { panic!() };
    assert_eq!(body.report_type, ReportType::ERIR);
    let tunnels = body.error_indication_report.unwrap().remote_f_teids;
    let Some(FTeid::Given { teid: told, addr }) = tunnels.first() else { panic!() };
    assert_eq!((told, addr.v4()), (teid, Some(GNB)));

    for (peer, teid) in [(PEER, Teid(9)), (Ipv4Addr::LOCALHOST.into(), teid)] {
        bench.node.handle_event(bench.now, WorkerEvent::ErrorIndication { peer, teid });
    }
    assert!(bench.sent().is_empty());
    assert_eq!(bench.node.counters().scalars.error_indications_of_no_session, 2);
}

/// Spec: TS 29.281 §7.3.1.
#[test]
fn error_indication_of_a_tunnel_that_moved_on_is_about_no_session() {
    let (mut bench, up_seid) = bench();
    let before = SessionScript::new(0xc1, 1).gnb_teid;
    bench.answer(smf(10), &move_to(3, up_seid, Teid(0x77)));
    let event = |teid| WorkerEvent::ErrorIndication { peer: PEER, teid };
    bench.node.handle_event(bench.now, event(before));
    assert!(bench.sent().is_empty());
    bench.node.handle_event(bench.now, event(Teid(0x77)));
    assert_eq!(bench.sent().len(), 1);
}
