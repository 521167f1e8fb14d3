//! Session reports: their form, one at a time, retransmission, bounds, and what responses do.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests stand outside the test functions"
)]

mod smf;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use adit_n4::Transmit;
use adit_pfcp::ie::{DataStatus, FSeid, ReportType};
use adit_pfcp::message::SessionReportResponse;
use adit_pfcp::{Cause, Message, MessageType};
use adit_rules::{DataDelivery, WorkerEvent};
use adit_types::limits::{REPORT_ITEMS_PER_REQUEST_MAX, REPORT_ITEMS_PER_SESSION_MAX};
use adit_types::{Nanos, PdrId, Qfi, Seid};

use smf::*;

fn data_on(session: Seid, pdr: u16) -> WorkerEvent {
    let (dscp, qfi) = (Some(46), Qfi::new(9));
    WorkerEvent::DownlinkData { session, pdr: PdrId(pdr), dscp, qfi, delivery: None }
}

fn bench() -> (Bench, Seid) {
    let mut bench = Bench::associated();
    let up_seid = bench.session(smf(10), 2, &SessionScript::new(0xc1, 1));
    (bench, up_seid)
}

impl Bench {
    fn tell(&mut self, event: WorkerEvent) -> Vec<Transmit> {
        self.node.handle_event(self.now, event);
        self.sent()
    }

    fn respond(&mut self, from: SocketAddr, request: &Transmit, cause: Cause) -> Vec<Transmit> {
        let sequence = raw(&request.bytes).header.sequence;
        let body = SessionReportResponse::new(cause);
        self.ask(from, &encode(Some(Seid(1)), sequence, &body))
    }
}

fn pdrs(request: &Transmit) -> Vec<u16> {
    let Message::SessionReportRequest(body) = decode(&request.bytes) else { panic!() };
    body.downlink_data_report.unwrap().pdr_ids.iter().map(|id| id.0).collect()
}

#[test]
fn downlink_data_is_reported_to_the_cp_f_seid_with_pdr_and_service_information() {
    let (mut bench, up_seid) = bench();
    let sent = bench.tell(data_on(up_seid, 2));
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].to, smf(10));
    assert_eq!(raw(&sent[0].bytes).header.seid, Some(Seid(0xc1)));
    let Message::SessionReportRequest(body) = decode(&sent[0].bytes) else { panic!() };
    assert_eq!(body.report_type, ReportType::DLDR);
    let report = body.downlink_data_report.unwrap();
    assert_eq!(report.pdr_ids.iter().collect::<Vec<_>>(), [PdrId(2)]);
    let service = report.downlink_data_service_information.iter().next().unwrap();
    assert_eq!((service.paging_policy_indication, service.qfi), (Some(46), Qfi::new(9)));
    assert_eq!(report.data_status, None);
}

#[test]
fn report_goes_to_a_changed_cp_f_seid() {
    let (mut bench, up_seid) = bench();
    let elsewhere = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 77));
    bench.answer(
        smf(10),
        &modify_with(3, up_seid, |body| body.cp_f_seid = Some(FSeid::new(Seid(0xc2), elsewhere))),
    );
    let sent = bench.tell(data_on(up_seid, 2));
    assert_eq!(sent[0].to, SocketAddr::new(elsewhere, 8805));
    assert_eq!(raw(&sent[0].bytes).header.seid, Some(Seid(0xc2)));
    bench.respond(smf(10), &sent[0], Cause::RequestAccepted);
    assert_eq!(bench.node.counters().scalars.discarded_unmatched_response, 1, "not the peer asked");
    bench.respond(sent[0].to, &sent[0], Cause::RequestAccepted);
    assert_eq!(bench.node.counters().scalars.discarded_unmatched_response, 1);
}

#[test]
fn one_report_is_in_flight_and_the_rest_leaves_together_after_its_response() {
    let (mut bench, up_seid) = bench();
    let first = bench.tell(data_on(up_seid, 2));
    for pdr in [3, 4, 3] {
        assert_eq!(bench.tell(data_on(up_seid, pdr)), []);
    }
    let second = bench.respond(smf(10), &first[0], Cause::RequestAccepted);
    assert_eq!(second.len(), 1);
    assert_eq!(pdrs(&second[0]), [3, 4], "equal items are merged");
    assert_eq!(bench.respond(smf(10), &second[0], Cause::RequestAccepted), []);
    assert_eq!(bench.respond(smf(10), &second[0], Cause::RequestAccepted), []);
    assert_eq!(bench.node.counters().scalars.discarded_unmatched_response, 1);
    let third = bench.tell(data_on(up_seid, 5));
    assert_eq!(pdrs(&third[0]), [5]);
}

#[test]
fn reports_of_different_data_status_leave_in_different_requests() {
    let (mut bench, up_seid) = bench();
    let first = bench.tell(data_on(up_seid, 2));
    for delivery in [DataDelivery::Buffered, DataDelivery::Discarded] {
        let (pdr, delivery) = (PdrId(3), Some(delivery));
        let event =
            WorkerEvent::DownlinkData { session: up_seid, pdr, dscp: None, qfi: None, delivery };
        assert_eq!(bench.tell(event), []);
    }
    let second = bench.respond(smf(10), &first[0], Cause::RequestAccepted);
    let third = bench.respond(smf(10), &second[0], Cause::RequestAccepted);
    let status = |request: &Transmit| {
        let Message::SessionReportRequest(body) = decode(&request.bytes) else { panic!() };
        body.downlink_data_report.unwrap().data_status
    };
    assert_eq!(status(&second[0]), Some(DataStatus::BUFF));
    assert_eq!(status(&third[0]), Some(DataStatus::DROP));
}

#[test]
fn report_without_response_is_retransmitted_and_then_lost_and_the_next_leaves() {
    let (mut bench, up_seid) = bench();
    let first = bench.tell(data_on(up_seid, 2));
    bench.tell(data_on(up_seid, 3));
    let until = Nanos(T1.0 * u64::from(N1 + 1));
    let sent = bench.run_until(until);
    let reports: Vec<_> = sent
        .iter()
        .filter(|t| raw(&t.bytes).header.message_type == MessageType::SESSION_REPORT_REQUEST)
        .collect();
    let copies = usize::try_from(N1).unwrap();
    assert_eq!(reports.len(), copies + 1);
    assert!(reports[..copies].iter().all(|copy| copy.bytes == first[0].bytes), "identical");
    assert_eq!(pdrs(reports[copies]), [3]);
    let scalars = bench.node.counters().scalars;
    assert_eq!((scalars.own_requests_failed, scalars.reports_lost_no_response), (1, 1));
    assert_eq!(bench.node.store().len(), 1, "the session stays");
}

#[test]
fn cause_65_in_a_response_removes_the_session() {
    let (mut bench, up_seid) = bench();
    let first = bench.tell(data_on(up_seid, 2));
    bench.tell(data_on(up_seid, 3));
    bench.node.handle_datagram(
        bench.now,
        smf(10),
        &encode(
            Some(Seid(0)),
            raw(&first[0].bytes).header.sequence,
            &SessionReportResponse::new(Cause::SessionContextNotFound),
        ),
    );
    let (_, delta) = bench.node.poll_delta().unwrap();
    assert!(delta.rules.is_none());
    assert_eq!(bench.sent(), []);
    assert_eq!(bench.node.store().len(), 0);
    assert_eq!(bench.node.counters().scalars.sessions_removed_unknown_to_peer, 1);
    assert_eq!(bench.tell(data_on(up_seid, 2)), []);
    assert_eq!(bench.node.counters().scalars.reports_of_gone_sessions, 1);
}

#[test]
fn other_refusal_is_counted_and_the_session_stays() {
    let (mut bench, up_seid) = bench();
    let first = bench.tell(data_on(up_seid, 2));
    bench.respond(smf(10), &first[0], Cause::RequestRejected);
    assert_eq!(bench.node.counters().scalars.reports_refused, 1);
    assert_eq!(bench.node.store().len(), 1);
    assert_eq!(bench.tell(data_on(up_seid, 2)).len(), 1);
}

#[test]
fn waiting_items_are_bounded_and_leave_in_requests_of_bounded_size() {
    let (mut bench, up_seid) = bench();
    let mut request = bench.tell(data_on(up_seid, 1));
    let max = u16::try_from(REPORT_ITEMS_PER_SESSION_MAX).unwrap();
    for pdr in 0..max + 5 {
        bench.tell(data_on(up_seid, 100 + pdr));
    }
    assert_eq!(bench.node.counters().scalars.reports_lost_queue_full, 5);
    let mut reported = Vec::new();
    loop {
        request = bench.respond(smf(10), &request[0], Cause::RequestAccepted);
        let Some(next) = request.first() else { break };
        assert!(pdrs(next).len() <= REPORT_ITEMS_PER_REQUEST_MAX);
        reported.extend(pdrs(next));
    }
    assert_eq!(reported, (100..100 + max).collect::<Vec<_>>(), "in order, each once");
}

#[test]
fn deletion_and_release_give_up_reports_in_flight() {
    let (mut bench, up_seid) = bench();
    bench.tell(data_on(up_seid, 2));
    bench.answer(smf(10), &delete(3, up_seid));
    let other = bench.session(smf(10), 4, &SessionScript::new(0xc2, 2));
    bench.tell(data_on(other, 2));
    bench.answer(smf(10), &release(5, Ipv4Addr::new(192, 0, 2, 10)));
    assert_eq!(bench.run_until(Nanos::from_secs(60)), []);
    assert_eq!(bench.node.counters().scalars.own_retransmissions, 0);
}

#[test]
fn malformed_response_is_discarded_and_the_report_repeated() {
    let (mut bench, up_seid) = bench();
    let first = bench.tell(data_on(up_seid, 2));
    let mut bytes = encode(
        Some(up_seid),
        raw(&first[0].bytes).header.sequence,
        &SessionReportResponse::new(Cause::RequestAccepted),
    );
    let len = bytes.len();
    bytes[len - 2] = 9;
    assert_eq!(bench.ask(smf(10), &bytes), []);
    assert_eq!(bench.node.counters().scalars.discarded_malformed_response, 1);
    assert_eq!(bench.run_until(T1)[0].bytes, first[0].bytes);
}
