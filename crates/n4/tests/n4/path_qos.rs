//! Delays of GTP-U paths, and GTP-U peers that restart.

use std::net::{IpAddr, Ipv4Addr};

use adit_n4::{NodeConfig, NodeEvent};
use adit_pfcp::grouped::GtpuPathQosControlInformation;
use adit_pfcp::ie::{
    AveragePacketDelay, CpFunctionFeatures, GtpuPathInterfaceType, MaximumPacketDelay,
    MeasurementPeriod, MinimumPacketDelay, NodeId, NodeReportType, Nullable, PfcpTimer,
    QosReportTrigger, RecoveryTimeStamp, RemoteGtpuPeer, Timer, TransportLevelMarking,
    UpFunctionFeatures,
};
use adit_pfcp::message::{AssociationSetupRequest, AssociationUpdateRequest, NodeReportResponse};
use adit_pfcp::{Cause, Message};
use adit_rules::{WorkerCommand, WorkerEvent};
use adit_types::Nanos;
use adit_types::limits::PATH_CONTROLS_MAX;

use crate::smf::*;

type Control = GtpuPathQosControlInformation<'static>;

const PEER: IpAddr = IpAddr::V4(GNB);
const MS: u64 = 1_000_000;
const NOTHING: &[Nullable<Control>] = &[];

fn node_id() -> NodeId<'static> {
    NodeId::Ipv4(Ipv4Addr::new(192, 0, 2, 10))
}

fn on_n3(triggers: QosReportTrigger) -> Control {
    let mut control = Control::new(triggers);
    control.interface_type = Some(GtpuPathInterfaceType::N3);
    control
}

/// A node with an association that has a session towards `PEER`. Time passes without heartbeats.
fn bench() -> Bench {
    let heartbeat_interval = Nanos::from_secs(100_000);
    let mut bench = Bench::with(NodeConfig { heartbeat_interval, ..config() });
    bench.associate(10);
    bench.session(smf(10), 2, &SessionScript::new(0xc1, 1));
    bench
}

fn updated(bench: &mut Bench, sequence: u32, controls: &'static [Nullable<Control>]) -> Cause {
    let mut body = AssociationUpdateRequest::new(node_id());
    body.gtpu_path_qos_controls = controls.into();
    let bytes = bench.answer(smf(10), &encode(None, sequence, &body));
    let Message::AssociationUpdateResponse(body) = decode(&bytes) else { panic!() };
    body.cause
}

fn watching(control: Control) -> Bench {
    let mut bench = bench();
    let cause = updated(&mut bench, 3, list([Nullable::Value(control)]));
    assert_eq!(cause, Cause::RequestAccepted);
    bench
}

/// A report: trigger, peer, and per traffic class average, least, greatest and marking.
type Told = (QosReportTrigger, Option<Ipv4Addr>, Vec<(u32, u32, u32, Option<u16>)>);

impl Bench {
    /// Runs due work, and returns the Echo Requests.
    fn asked(&mut self) -> Vec<(IpAddr, u16, u8)> {
        self.node.handle_timeout(self.now);
        let commands = core::iter::from_fn(|| self.node.poll_command());
        let asked = commands.map(|command| match command {
            WorkerCommand::SendEchoRequest { peer, sequence, tos, .. } => (peer, sequence, tos),
            other => panic!("{other:?}"),
        });
        asked.collect()
    }

    /// An Echo Request left now and is answered after `round_trip_ns`.
    fn measure(&mut self, peer: IpAddr, sequence: u16, round_trip_ns: u64) {
        let at = self.now;
        self.node.handle_event(at, WorkerEvent::EchoSent { peer, sequence, at });
        let at = at + Nanos(round_trip_ns);
        let response = WorkerEvent::EchoResponse { peer, sequence, recovery: None, at };
        self.node.handle_event(at, response);
    }

    /// A second passes; each path gets an Echo Request and answers after `round_trip_ns`.
    fn second(&mut self, round_trip_ns: u64) -> Vec<Told> {
        let mut told = self.told();
        for (peer, sequence, _) in self.asked() {
            self.measure(peer, sequence, round_trip_ns);
        }
        told.extend(self.told());
        self.now += Nanos::from_secs(1);
        told
    }

    /// The reports of delays that are sent, each accepted.
    fn told(&mut self) -> Vec<Told> {
        let mut all = Vec::new();
        loop {
            let sent = self.sent();
            if sent.is_empty() {
                return all;
            }
            for transmit in sent {
                let Message::NodeReportRequest(body) = decode(&transmit.bytes) else { panic!() };
                assert_eq!(body.node_report_type, NodeReportType::GPQR);
                all.extend(body.gtpu_path_qos_reports.into_iter().map(|report| {
                    let information = report.qos_information.into_iter().map(|class| {
                        let least = class.minimum_packet_delay.unwrap().0;
                        let greatest = class.maximum_packet_delay.unwrap().0;
                        let marking = class.transport_level_marking.map(|marking| marking.0);
                        (class.average_packet_delay.0, least, greatest, marking)
                    });
                    let information = information.collect();
                    (report.qos_report_trigger, report.remote_gtpu_peer.v4, information)
                }));
                let body = NodeReportResponse::new(node_id(), Cause::RequestAccepted);
                let response = encode(None, raw(&transmit.bytes).header.sequence, &body);
                self.node.handle_datagram(self.now, transmit.to, &response);
            }
        }
    }
}

/// Spec: TS 29.244 §5.24.5, §7.4.5.1.5.
#[test]
fn periodic_report_has_half_of_the_round_trips_since_the_last_one() {
    let mut control = on_n3(QosReportTrigger::PER);
    control.measurement_period = Some(MeasurementPeriod(3));
    let mut bench = watching(control);
    for round_trip in [2 * MS, 4 * MS, 12 * MS] {
        assert_eq!(bench.second(round_trip), []);
    }
    let first = (QosReportTrigger::PER, Some(GNB), vec![(3, 1, 6, None)]);
    assert_eq!(bench.second(8 * MS), [first]);
    assert_eq!(bench.second(8 * MS), []);
    assert_eq!(bench.second(8 * MS), []);
    let second = (QosReportTrigger::PER, Some(GNB), vec![(4, 4, 4, None)]);
    assert_eq!(bench.second(1), [second], "the window began anew");
    // Nothing is reported about a path without answers.
    let mut reports = 0;
    for _ in 0..7 {
        bench.asked();
        reports += bench.told().len();
        bench.now += Nanos::from_secs(1);
    }
    assert_eq!(reports, 1, "what was measured before");
}

#[test]
fn report_carries_times_of_day_and_the_trigger() {
    let mut control = on_n3(QosReportTrigger::IRE);
    control.remote_gtpu_peers = list([RemoteGtpuPeer { v4: Some(GNB), ..<_>::default() }]).into();
    let mut bench = watching(control);
    bench.now = Nanos::from_secs(5);
    let [(peer, sequence, tos)] = bench.asked()[..] else { panic!() };
    assert_eq!((peer, tos, sequence & 0x8000), (PEER, 0, 0x8000));
    bench.now = Nanos::from_secs(7);
    bench.measure(peer, sequence, 2);
    let sent = bench.sent();
    let Message::NodeReportRequest(body) = decode(&sent[0].bytes) else { panic!() };
    let report = body.gtpu_path_qos_reports.first().unwrap();
    assert_eq!(report.qos_report_trigger, QosReportTrigger::IRE);
    assert_eq!(report.start_time.unwrap().0, UPF_STARTED + 5);
    assert_eq!(report.event_time_stamp.0, UPF_STARTED + 7);
    let delay = report.qos_information.first().unwrap().average_packet_delay;
    assert_eq!(delay.0, 1, "rounded up");
    bench.now = Nanos::from_secs(8);
    assert_eq!(bench.second(1), [], "immediate means once, and one report is in flight");
}

/// Spec: TS 29.244 §7.4.4.1.3: the minimum waiting time.
#[test]
fn crossed_threshold_is_reported_once_per_waiting_time() {
    for edit in [
        (|c: &mut Control| c.average_packet_delay = Some(AveragePacketDelay(5))) as fn(&mut _),
        |c: &mut Control| c.minimum_packet_delay = Some(MinimumPacketDelay(5)),
        |c: &mut Control| c.maximum_packet_delay = Some(MaximumPacketDelay(5)),
    ] {
        let mut control = on_n3(QosReportTrigger::THR);
        edit(&mut control);
        control.minimum_waiting_time = Some(PfcpTimer(Timer::from_secs(4)));
        let mut bench = watching(control);
        assert_eq!(bench.second(10 * MS), [], "not above");
        // The window spans ten measurements.
        for _ in 0..9 {
            bench.second(10 * MS);
        }
        let crossed = (QosReportTrigger::THR, Some(GNB), vec![(6, 6, 6, None)]);
        assert_eq!(bench.second(10 * MS + 2), std::slice::from_ref(&crossed));
        for _ in 0..3 {
            assert_eq!(bench.second(10 * MS + 2), []);
        }
        assert_eq!(bench.second(10 * MS + 2), [crossed]);
    }
}

#[test]
fn delay_is_averaged_over_ten_measurements_where_no_period_ends_them() {
    let mut control = on_n3(QosReportTrigger::THR);
    control.average_packet_delay = Some(AveragePacketDelay(5));
    control.minimum_waiting_time = Some(PfcpTimer(Timer::from_secs(4)));
    let mut bench = watching(control);
    for round_trip in [8, 8, 8, 8, 8, 8, 8, 8, 20, 8] {
        assert_eq!(bench.second(round_trip * MS), [], "at most 4.7 ms on average");
    }
    let crossed = (QosReportTrigger::THR, Some(GNB), vec![(6, 6, 6, None)]);
    assert_eq!(bench.second(12 * MS), [crossed], "the first of the next ten");
}

#[test]
fn traffic_classes_are_measured_apart_and_reported_with_their_marking() {
    let mut control = on_n3(QosReportTrigger::PER);
    control.measurement_period = Some(MeasurementPeriod(1));
    control.transport_level_markings =
        list([TransportLevelMarking(0xb8fc), TransportLevelMarking(0x28fc)]).into();
    let mut bench = watching(control);
    bench.asked();
    bench.now = Nanos(bench.now.0 + 900 * MS);
    let mut classes: Vec<u8> = Vec::new();
    bench.now += Nanos::from_secs(1);
    for (peer, sequence, tos) in bench.asked() {
        classes.push(tos);
        bench.measure(peer, sequence, if tos == 0xb8 { 2 * MS } else { 6 * MS });
    }
    classes.sort_unstable();
    assert_eq!(classes, [0x28, 0xb8]);
    bench.told();
    bench.now += Nanos::from_secs(1);
    bench.asked();
    let told = vec![(3, 3, 3, Some(0x28fc)), (1, 1, 1, Some(0xb8fc))];
    assert_eq!(bench.told(), [(QosReportTrigger::PER, Some(GNB), told)]);
}

/// Workers report requests and responses apart, in any order.
#[test]
fn response_known_before_its_request_counts_and_one_without_a_request_does_not() {
    let mut bench = watching(on_n3(QosReportTrigger::IRE));
    let [(peer, sequence, _)] = bench.asked()[..] else { panic!() };
    let response = |sequence, at| WorkerEvent::EchoResponse { peer, sequence, recovery: None, at };
    bench.node.handle_event(bench.now, response(sequence ^ 1, Nanos(4 * MS)));
    bench.node.handle_event(bench.now, response(sequence, Nanos(5 * MS)));
    assert_eq!(bench.told(), []);
    let sent = WorkerEvent::EchoSent { peer, sequence, at: Nanos(MS) };
    bench.node.handle_event(bench.now, sent);
    let told = vec![(2, 2, 2, None)];
    assert_eq!(bench.told(), [(QosReportTrigger::IRE, Some(GNB), told)]);
    bench.node.handle_event(bench.now, response(sequence, Nanos(9 * MS)));
    assert_eq!(bench.told(), [], "a copy");
}

#[test]
fn measurements_follow_the_interface_type_and_end_when_withdrawn() {
    let mut control = on_n3(QosReportTrigger::IRE);
    control.interface_type = Some(GtpuPathInterfaceType::N9);
    let mut bench = watching(control);
    assert_eq!(bench.asked(), [], "the gNB is not on N9");
    let cause = updated(&mut bench, 4, list([Nullable::Value(on_n3(QosReportTrigger::IRE))]));
    assert_eq!(cause, Cause::RequestAccepted);
    assert_eq!(bench.asked().len(), 1);
    bench.now += Nanos::from_secs(1);
    assert_eq!(updated(&mut bench, 5, NOTHING), Cause::RequestAccepted);
    assert_eq!(bench.asked().len(), 1, "an update without the IE changes nothing");
    bench.now += Nanos::from_secs(1);
    assert_eq!(updated(&mut bench, 6, list([Nullable::Null])), Cause::RequestAccepted);
    assert_eq!(bench.asked(), []);
    bench.now += Nanos::from_secs(10);
    assert_eq!(bench.asked(), []);
}

#[test]
fn measurements_end_with_their_association() {
    let mut bench = watching(on_n3(QosReportTrigger::IRE));
    assert_eq!(bench.asked().len(), 1);
    bench.answer(smf(10), &release(7, Ipv4Addr::new(192, 0, 2, 10)));
    bench.now += Nanos::from_secs(10);
    assert_eq!(bench.asked(), []);
}

#[test]
fn control_that_cannot_be_is_refused_and_leaves_the_one_before() {
    let both = QosReportTrigger::PER | QosReportTrigger::THR;
    let mut no_threshold = on_n3(both);
    no_threshold.measurement_period = Some(MeasurementPeriod(1));
    let mut many = on_n3(QosReportTrigger::IRE);
    many.transport_level_markings = list([TransportLevelMarking(0); 5]).into();
    let cases = [
        (on_n3(QosReportTrigger::default()), Cause::MandatoryIeIncorrect),
        (Control::new(QosReportTrigger::IRE), Cause::ConditionalIeMissing),
        (on_n3(QosReportTrigger::PER), Cause::ConditionalIeMissing),
        (no_threshold, Cause::ConditionalIeMissing),
        (many, Cause::NoResourcesAvailable),
    ];
    let mut bench = watching(on_n3(QosReportTrigger::IRE));
    for (sequence, (control, cause)) in (10..).zip(cases) {
        assert_eq!(updated(&mut bench, sequence, list([Nullable::Value(control)])), cause);
        assert_eq!(bench.asked().len(), 1);
        bench.now += Nanos::from_secs(1);
    }
    let many = list([Nullable::Value(on_n3(QosReportTrigger::IRE)); PATH_CONTROLS_MAX + 1]);
    assert_eq!(updated(&mut bench, 20, many), Cause::NoResourcesAvailable);
}

#[test]
fn setup_carries_controls_and_its_answer_the_feature() {
    let mut body = AssociationSetupRequest::new(node_id(), RecoveryTimeStamp(SMF_STARTED));
    body.gtpu_path_qos_controls = list([Nullable::Value(on_n3(QosReportTrigger::IRE))]).into();
    let mut bench = Bench::new();
    let bytes = bench.answer(smf(10), &encode(None, 1, &body));
    let Message::AssociationSetupResponse(response) = decode(&bytes) else { panic!() };
    assert!(response.up_function_features.unwrap().contains(UpFunctionFeatures::GPQM));
    assert_eq!(bench.asked(), [], "no path yet");
    bench.session(smf(10), 2, &SessionScript::new(0xc1, 1));
    assert_eq!(bench.asked().len(), 1);
    body.gtpu_path_qos_controls = list([Nullable::Value(on_n3(QosReportTrigger::THR))]).into();
    let bytes = bench.answer(smf(10), &encode(None, 9, &body));
    let Message::AssociationSetupResponse(response) = decode(&bytes) else { panic!() };
    assert_eq!(response.cause, Cause::ConditionalIeMissing);
    assert_eq!(bench.node.store().len(), 1, "the association before it stays");
}

fn associate_with(bench: &mut Bench, host: u8, features: CpFunctionFeatures) {
    let node_id = NodeId::Ipv4(Ipv4Addr::new(192, 0, 2, host));
    let mut body = AssociationSetupRequest::new(node_id, RecoveryTimeStamp(SMF_STARTED));
    body.cp_function_features = Some(features);
    bench.answer(smf(host), &encode(None, 1, &body));
}

/// Spec: TS 23.007 §18A; TS 29.244 §7.4.5.1.6.
#[test]
fn peer_that_restarted_is_reported_to_those_who_know_such_reports() {
    let mut bench = Bench::new();
    associate_with(&mut bench, 10, CpFunctionFeatures::RPGUR);
    associate_with(&mut bench, 20, CpFunctionFeatures::LOAD);
    bench.session(smf(10), 2, &SessionScript::new(0xc1, 1));
    bench.events();
    let stranger = IpAddr::V4(Ipv4Addr::LOCALHOST);
    for recovery in [100, 200] {
        let event = WorkerEvent::EchoRequest { peer: stranger, recovery };
        bench.node.handle_event(bench.now, event);
    }
    assert!(exchange(&mut bench, 100) == 2 && bench.events().is_empty());
    bench.now += Nanos::from_secs(3);
    assert_eq!(exchange(&mut bench, 101), 2);
    assert!(matches!(bench.events()[..], [NodeEvent::GtpuPeerRestarted { peer: PEER }]));
    let sent = bench.sent();
    assert_eq!(sent.len(), 1, "only to the one that knows it");
    assert_eq!(sent[0].to, smf(10));
    let Message::NodeReportRequest(body) = decode(&sent[0].bytes) else { panic!() };
    assert_eq!(body.node_report_type, NodeReportType::PURR);
    let peers = body.peer_up_restart_report.unwrap().remote_gtpu_peers;
    assert_eq!(peers.first().unwrap().v4, Some(GNB));
    assert_eq!(bench.node.counters().scalars.gtpu_peers_restarted, 1);
}

/// The peer restarts: it answers the Echo Requests with the time `started`. Returns how many there
/// were.
fn exchange(bench: &mut Bench, started: u32) -> usize {
    let hint = WorkerEvent::EchoRequest { peer: PEER, recovery: started };
    bench.node.handle_event(bench.now, hint);
    for exchanges in 0.. {
        bench.node.handle_timeout(bench.now);
        let Some(WorkerCommand::SendEchoRequest { peer, sequence, .. }) = bench.node.poll_command()
        else {
            return exchanges;
        };
        let (recovery, at) = (Some(started), bench.now);
        let event = WorkerEvent::EchoResponse { peer, sequence, recovery, at };
        bench.node.handle_event(bench.now, event);
    }
    unreachable!("returns")
}

#[test]
fn peer_that_nobody_sends_to_any_more_is_forgotten() {
    let mut bench = Bench::new();
    associate_with(&mut bench, 10, CpFunctionFeatures::RPGUR);
    let session = bench.session(smf(10), 2, &SessionScript::new(0xc1, 1));
    assert_eq!(exchange(&mut bench, 100), 2);
    bench.answer(smf(10), &delete(3, session));
    assert_eq!(exchange(&mut bench, 100), 0);
    bench.session(smf(10), 4, &SessionScript::new(0xc1, 1));
    assert_eq!(exchange(&mut bench, 200), 2);
    assert!(bench.sent().is_empty(), "its first word since it is a peer again");
}
