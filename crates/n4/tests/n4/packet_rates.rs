//! Packet rates over N4: the parameters of a QER, queries of its state, and the state that it
//! leaves behind.

use adit_pfcp::grouped::{CreateQer, PacketRateStatusReport, QueryPacketRateStatus, UpdateQer};
use adit_pfcp::ie::{
    FailedRuleId, GateStatus, OffendingIe, PacketRate, PacketRateLimit, PacketRateStatus,
    QerControlIndications, RemainingPackets,
};
use adit_pfcp::{Cause, IeType, Message};
use adit_types::{Direction, Nanos, QerId};

use crate::smf::*;
use crate::usage_scene::*;

const HOUR: u64 = 3600;

/// A QER with a packet rate of 10 an hour in uplink, and 2 exception reports a day beyond them.
fn qer() -> CreateQer<'static> {
    let mut qer = CreateQer::new(QerId(7), GateStatus::OPEN);
    qer.packet_rate = Some(PacketRate {
        uplink: Some(PacketRateLimit { time_unit: 2, packets_max: 10 }),
        additional_uplink: Some(PacketRateLimit { time_unit: 3, packets_max: 2 }),
        ..PacketRate::default()
    });
    qer
}

/// The QER and the one that PDRs name.
fn with_flow(qer: CreateQer<'static>) -> &'static [CreateQer<'static>] {
    list([CreateQer::new(QerId(1), GateStatus::OPEN), qer])
}

fn scene(qer: CreateQer<'static>) -> Scene {
    Scene::with(|body| body.create_qers = with_flow(qer).into())
}

impl Scene {
    /// A worker lets packets of uplink pass, as many as may; returns how many.
    fn pass(&self, pkts: usize) -> usize {
        let qers = &self.rules.as_ref().unwrap().qers;
        let rate =
            qers.iter().find(|qer| qer.id == QerId(7)).unwrap().packet_rate.as_ref().unwrap();
        let now = self.bench.now;
        let one = |_: &usize| {
            let is_open = rate.admits_or_counts_drop(Direction::Uplink, now);
            if is_open {
                rate.pass(Direction::Uplink, now);
            }
            is_open
        };
        (0..pkts).filter(one).count()
    }

    /// The values in the answer to a query.
    fn query(&mut self, sequence: u32) -> Vec<(QerId, PacketRateStatus)> {
        let queries = list([QueryPacketRateStatus::new(QerId(7))]);
        let request =
            modify_with(sequence, self.up_seid, |body| body.query_packet_rates = queries.into());
        let sent = self.ask(&request);
        let Message::SessionModificationResponse(body) = decode(&sent[0].bytes) else { panic!() };
        assert_eq!(body.cause, Cause::RequestAccepted);
        body.packet_rate_status_reports.iter().map(told).collect()
    }
}

fn told(report: PacketRateStatusReport<'_>) -> (QerId, PacketRateStatus) {
    (report.qer_id, report.packet_rate_status)
}

fn status(packets: u16, additional: u16, until: u64) -> PacketRateStatus {
    let uplink = Some(RemainingPackets { packets, additional: Some(additional) });
    let seconds = u64::from(UPF_STARTED) + until;
    PacketRateStatus { uplink, downlink: None, validity_time: seconds << 32 }
}

#[test]
fn query_returns_the_remaining_packets_and_the_end_of_their_window() {
    let mut scene = scene(qer());
    scene.bench.now = Nanos::from_secs(100);
    assert_eq!(scene.query(3), [(QerId(7), status(10, 2, 100))], "no window runs");
    assert_eq!(scene.pass(4), 4);
    assert_eq!(scene.query(4), [(QerId(7), status(6, 2, 100 + HOUR))]);
    assert_eq!(scene.pass(20), 8);
    let day = 24 * HOUR;
    assert_eq!(scene.query(5), [(QerId(7), status(0, 0, 100 + day))]);
    scene.bench.now = Nanos::from_secs(100 + HOUR);
    assert_eq!(scene.query(6), [(QerId(7), status(10, 0, 100 + day))]);
}

#[test]
fn session_that_ends_reports_the_rest_when_no_worker_counted_any_more() {
    for is_reported in [true, false] {
        let mut qer = qer();
        qer.qer_control_indications = is_reported.then_some(QerControlIndications::RCSR);
        let mut scene = scene(qer);
        scene.pass(3);
        let request = delete(3, scene.up_seid);
        scene.bench.node.handle_datagram(scene.bench.now, smf(10), &request);
        scene.pass(4);
        assert_eq!(scene.bench.sent(), [], "the answer waits");
        scene.publish();
        let sent = scene.bench.sent();
        let Message::SessionDeletionResponse(body) = decode(&sent[0].bytes) else { panic!() };
        let reports: Vec<_> = body.packet_rate_status_reports.iter().map(told).collect();
        match is_reported {
            true => assert_eq!(reports, [(QerId(7), status(3, 2, HOUR))]),
            false => assert_eq!(reports, []),
        }
        let again = scene.ask(&request);
        assert_eq!(again[0].bytes, sent[0].bytes, "a retransmission gets the same octets");
    }
}

#[test]
fn next_session_goes_on_with_what_the_last_one_left() {
    let mut qer = qer();
    qer.packet_rate_status = Some(status(1, 0, 60));
    let mut scene = scene(qer);
    assert_eq!(scene.pass(5), 1);
    scene.bench.now = Nanos::from_secs(60);
    assert_eq!(scene.pass(20), 12, "its status is not valid any more");
}

#[test]
fn new_rate_counts_what_passed_and_a_new_qer_does_not() {
    let mut scene = scene(qer());
    assert_eq!(scene.pass(9), 9);
    let mut update = UpdateQer::new(QerId(7));
    update.packet_rate = Some(PacketRate {
        uplink: Some(PacketRateLimit { time_unit: 2, packets_max: 11 }),
        ..PacketRate::default()
    });
    let request = modify_with(3, scene.up_seid, |body| body.update_qers = list([update]).into());
    scene.ask(&request);
    assert_eq!(scene.pass(9), 2);
    let request = modify_with(4, scene.up_seid, |body| {
        body.remove_qers = list([adit_pfcp::grouped::RemoveQer::new(QerId(7))]).into();
        body.create_qers = list([qer()]).into();
    });
    scene.ask(&request);
    assert_eq!(scene.pass(20), 12);
}

#[test]
fn unit_of_time_that_nobody_knows_is_a_minute() {
    let mut qer = qer();
    let uplink = Some(PacketRateLimit { time_unit: 7, packets_max: 1 });
    qer.packet_rate = Some(PacketRate { uplink, ..PacketRate::default() });
    let mut scene = scene(qer);
    assert_eq!(scene.pass(2), 1);
    scene.bench.now = Nanos::from_secs(60);
    assert_eq!(scene.pass(2), 1);
}

#[test]
fn what_cannot_be_enforced_is_refused_by_name() {
    let mut nothing = qer();
    nothing.packet_rate = Some(PacketRate::default());
    let mut marking = qer();
    marking.qer_control_indications = Some(QerControlIndications::MOED);
    let cases = [
        (nothing, Cause::MandatoryIeIncorrect, IeType::PACKET_RATE),
        (marking, Cause::ServiceNotSupported, IeType::QER_CONTROL_INDICATIONS),
    ];
    for (qer, cause, ie) in cases {
        let mut bench = Bench::associated();
        let request = establish_with(2, &SessionScript::new(0xc1, 1), |body| {
            body.create_qers = with_flow(qer).into();
        });
        let answer = bench.answer(smf(10), &request);
        let Message::SessionEstablishmentResponse(body) = decode(&answer) else { panic!() };
        assert_eq!((body.cause, body.offending_ie), (cause, Some(OffendingIe::from(ie))));
        assert_eq!(body.failed_rule_id, Some(FailedRuleId::Qer(QerId(7))));
    }
    let mut scene = scene(qer());
    let queries = list([QueryPacketRateStatus::new(QerId(8))]);
    let request = modify_with(3, scene.up_seid, |body| body.query_packet_rates = queries.into());
    let sent = scene.ask(&request);
    let Message::SessionModificationResponse(body) = decode(&sent[0].bytes) else { panic!() };
    assert_eq!(body.cause, Cause::RuleCreationModificationFailure);
    assert_eq!(body.failed_rule_id, Some(FailedRuleId::Qer(QerId(8))));
}
