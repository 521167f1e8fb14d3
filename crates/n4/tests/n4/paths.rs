//! GTP-U peers: Echo Requests, failure and recovery of paths, Error Indications.

use std::net::{IpAddr, Ipv4Addr};

use adit_n4::{NodeConfig, NodeEvent, PathConfig, PathMtuChange, PathState};
use adit_pfcp::Message;
use adit_pfcp::ie::{FTeid, ReportType};
use adit_rules::{WorkerCommand, WorkerEvent};
use adit_types::{Nanos, Seid, Teid};

use crate::smf::*;

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

/// The sequence number of the one Echo Request that was requested.
#[track_caller]
fn asked(commands: &[WorkerCommand]) -> u16 {
    match commands {
        [WorkerCommand::SendEchoRequest { peer: PEER, sequence, tos: 0, interfaces }]
            if *interfaces == adit_types::InterfaceSet(1) =>
        {
            *sequence
        }
        other => panic!("{other:?}"),
    }
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
        let sequence = asked(&bench.pass(span));
        let event = response(PEER, sequence, bench.now);
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
    let first = asked(&bench.pass(INTERVAL));
    let next = |sequence: u16| (sequence + 1) & 0x7fff;
    assert_eq!(asked(&bench.pass(T3)), next(first));
    assert_eq!(asked(&bench.pass(T3)), next(next(first)));
    assert!(bench.events().is_empty());
    assert_eq!(bench.pass(T3), []);
    assert!(matches!(bench.events()[..], [NodeEvent::PathDown { peer: PEER }]));
    assert_eq!(bench.state(), [(PEER, PathState::Down)]);
    let sent = bench.sent();
    let Message::NodeReportRequest(body) = decode(&sent[0].bytes) else { panic!() };
    let peers = body.user_plane_path_failure_report.unwrap().remote_gtpu_peers;
    assert_eq!(peers.iter().next().unwrap().v4, Some(GNB));

    let late = response(PEER, next(next(first)), bench.now);
    bench.node.handle_event(bench.now, late);
    assert_eq!(bench.state(), [(PEER, PathState::Down)], "the round is over");
    let sequence = asked(&bench.pass(INTERVAL));
    let stranger = response(Ipv4Addr::LOCALHOST.into(), sequence, bench.now);
    bench.node.handle_event(bench.now, stranger);
    assert!(bench.events().is_empty());
    bench.node.handle_event(bench.now, response(PEER, sequence ^ 1, bench.now));
    assert!(bench.events().is_empty());
    bench.node.handle_event(bench.now, response(PEER, sequence, bench.now));
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

/// Spec: RFC 1191 §3, §6.3; RFC 8201 §4.
#[test]
fn path_is_as_narrow_as_a_router_says_for_ten_minutes() {
    const ROUTER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 3, 254));
    let (mut bench, up_seid) = bench();
    let teid = SessionScript::new(0xc1, 1).gnb_teid;
    let told = |bench: &mut Bench, teid: Teid, mtu_bytes: u16| {
        let event = WorkerEvent::PathNarrowed { peer: PEER, teid, router: ROUTER, mtu_bytes };
        bench.node.handle_event(bench.now, event);
        core::iter::from_fn(|| bench.node.poll_path_mtu()).collect::<Vec<_>>()
    };
    let change = |mtu_bytes| PathMtuChange { peer: PEER, mtu_bytes };
    // A router that does not quote the TEID has not seen the packet.
    assert_eq!(told(&mut bench, Teid(teid.0 ^ 1), 1400), []);
    assert_eq!(told(&mut bench, teid, 1400), [change(1400)]);
    let news = NodeEvent::PathNarrowed { peer: PEER, mtu_bytes: 1400, router: ROUTER };
    assert!(bench.events().iter().any(|event| format!("{event:?}") == format!("{news:?}")));
    bench.pass(Nanos::from_secs(300));
    assert_eq!(told(&mut bench, teid, 1400), [], "the same once more");
    assert_eq!(told(&mut bench, teid, 1450), [], "about a packet that left before");
    let shown = bench.node.paths().next().unwrap().mtu.unwrap();
    assert_eq!((shown.mtu_bytes, shown.router, shown.messages), (1400, ROUTER, 2));
    let end = bench.now + Nanos::from_secs(600);
    assert_eq!(shown.until, end);
    assert!(bench.node.poll_timeout().unwrap() <= end);
    bench.pass(Nanos(Nanos::from_secs(600).0 - 1));
    assert_eq!(bench.node.poll_path_mtu(), None);
    bench.pass(Nanos(1));
    assert_eq!(bench.node.poll_path_mtu(), Some(change(u16::MAX)));
    assert_eq!(bench.node.paths().next().unwrap().mtu, None);
    // A peer to which no FAR sends has no path.
    assert_eq!(told(&mut bench, teid, 1300), [change(1300)]);
    assert_eq!(told(&mut bench, teid, 1290), [change(1290)]);
    bench.answer(smf(10), &delete(9, up_seid));
    bench.pass(Nanos(1));
    assert_eq!(bench.node.poll_path_mtu(), Some(change(u16::MAX)));
    assert_eq!(told(&mut bench, teid, 1300), []);
    let scalars = bench.node.counters().scalars;
    assert_eq!((scalars.path_mtus_told, scalars.path_mtus_disbelieved), (5, 2));
}

/// The peer restarts: it sends the time `started`, and answers the Echo Requests that follow.
/// Returns how many exchanges there were.
fn tell_start(bench: &mut Bench, hint: Option<u32>, started: u32) -> usize {
    if let Some(recovery) = hint {
        bench.node.handle_event(bench.now, WorkerEvent::EchoRequest { peer: PEER, recovery });
    }
    let mut exchanges = 0;
    loop {
        let commands = bench.pass(Nanos(0));
        if commands.is_empty() {
            return exchanges;
        }
        exchanges += 1;
        assert!(exchanges < 10);
        let sequence = asked(&commands);
        let (recovery, at) = (Some(started), bench.now);
        let event = WorkerEvent::EchoResponse { peer: PEER, sequence, recovery, at };
        bench.node.handle_event(bench.now, event);
    }
}

fn restarts(bench: &mut Bench) -> usize {
    let events = bench.events();
    assert!(
        events.iter().all(|event| matches!(event, NodeEvent::GtpuPeerRestarted { peer: PEER }))
    );
    events.len()
}

/// Spec: TS 23.007 §18A.
#[test]
fn later_start_of_a_peer_is_believed_when_a_second_exchange_confirms_it() {
    for off in [false, true] {
        let (mut bench, _) = match off {
            false => bench(),
            true => {
                let heartbeat_interval = Nanos::from_secs(100_000);
                let mut bench = Bench::with(NodeConfig { heartbeat_interval, ..config() });
                bench.associate(10);
                bench.session(smf(10), 2, &SessionScript::new(0xc1, 1));
                (bench, Seid(0))
            }
        };
        bench.events();
        assert_eq!(tell_start(&mut bench, Some(100), 100), 2, "the first word");
        assert_eq!(restarts(&mut bench), 0);
        bench.now += T3;
        assert_eq!(tell_start(&mut bench, Some(100), 100), 0, "no news");
        assert_eq!(tell_start(&mut bench, Some(99), 100), 0, "a copy that was long on its way");
        bench.now += T3;
        assert_eq!(tell_start(&mut bench, Some(200), 200), 2);
        assert_eq!(restarts(&mut bench), 1);
        bench.now += T3;
        assert_eq!(tell_start(&mut bench, Some(300), 200), 1, "a forged Echo Request");
        assert_eq!(restarts(&mut bench), 0);
    }
}

/// Spec: TS 29.281 §7.2.2.
#[test]
fn responses_to_no_request_of_ours_report_no_restart() {
    let (mut bench, _) = bench();
    bench.now += T3;
    tell_start(&mut bench, Some(100), 100);
    bench.events();
    for sequence in 0..=u16::MAX {
        let (recovery, at) = (Some(900), bench.now);
        let event = WorkerEvent::EchoResponse { peer: PEER, sequence, recovery, at };
        bench.node.handle_event(bench.now, event);
    }
    assert!(restarts(&mut bench) == 0 && bench.sent().is_empty());
    // A forger that guesses one sequence number guesses the next one as rarely.
    let sequence = asked(&bench.pass(INTERVAL));
    let (recovery, at) = (Some(900), bench.now);
    let guessed = WorkerEvent::EchoResponse { peer: PEER, sequence, recovery, at };
    bench.node.handle_event(bench.now, guessed);
    bench.node.handle_event(bench.now, guessed);
    assert_eq!(restarts(&mut bench), 0);
    assert_eq!(tell_start(&mut bench, None, 100), 1, "the peer itself denies it");
    assert_eq!(tell_start(&mut bench, None, 100), 0);
    assert_eq!(restarts(&mut bench), 0);
}

#[test]
fn peer_that_reports_another_start_each_time_is_not_probed_without_end() {
    let (mut bench, _) = bench();
    let mut asked_for = 0;
    for started in 0..100 {
        let hint = WorkerEvent::EchoRequest { peer: PEER, recovery: 1000 + started };
        bench.node.handle_event(bench.now, hint);
        let commands = bench.pass(Nanos::from_millis(30));
        for command in commands {
            asked_for += 1;
            let sequence = asked(&[command]);
            let (recovery, at) = (Some(started), bench.now);
            let event = WorkerEvent::EchoResponse { peer: PEER, sequence, recovery, at };
            bench.node.handle_event(bench.now, event);
        }
    }
    assert!(asked_for <= 2, "twice per T3, not {asked_for}");
    assert_eq!(restarts(&mut bench), 0);
}
