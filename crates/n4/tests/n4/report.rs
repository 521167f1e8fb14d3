//! Session reports: their form, one at a time, retransmission, bounds, and the effects of
//! responses.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use adit_n4::{NodeConfig, Transmit};
use adit_pfcp::grouped::{CreateBar, CreatePdr, Pdi, UpdateBar, UpdateFar};
use adit_pfcp::ie::{
    ApplyAction, DataStatus, DlBufferingDuration, DownlinkDataNotificationDelay, FSeid, Nullable,
    OuterHeaderCreation, PfcpSmReqFlags, PfcpSrRspFlags, ReportType, SourceInterface,
    SuggestedBufferingPacketsCount, Timer,
};
use adit_pfcp::message::SessionReportResponse;
use adit_pfcp::{Cause, Message, MessageType};
use adit_rules::{DataDelivery, GtpuTunnel, WorkerCommand, WorkerEvent};
use adit_types::limits::REPORT_ITEMS_PER_REQUEST_MAX;
use adit_types::{BarId, FarId, Nanos, PdrId, Precedence, Qfi, Seid, Teid};

use crate::smf::*;

fn data_on(session: Seid, pdr: u16) -> WorkerEvent {
    let (dscp, qfi) = (Some(46), Qfi::new(9));
    WorkerEvent::DownlinkData { session, pdr: PdrId(pdr), dscp, qfi, delivery: None }
}

/// FAR 2 buffers and notifies of everything; PDRs 2 to 40 use it.
fn bench_with(delay: u8) -> (Bench, Seid) {
    bench_of(config(), delay)
}

fn bench_of(config: NodeConfig, delay: u8) -> (Bench, Seid) {
    let mut bench = Bench::with(config);
    bench.associate(10);
    let request = establish_with(2, &SessionScript::new(0xc1, 1), |body| {
        let more = (3..=40).map(|id| {
            let pdi = Pdi::new(SourceInterface::Core);
            let mut pdr = CreatePdr::new(PdrId(id), Precedence(200), pdi);
            pdr.far_id = Some(FarId(2));
            pdr
        });
        let pdrs: Vec<_> = body.create_pdrs.iter().chain(more).collect();
        let pdrs: &'static [_] = Box::leak(pdrs.into_boxed_slice());
        body.create_pdrs = pdrs.into();
        let mut fars: Vec<_> = body.create_fars.iter().collect();
        fars[1].apply_action = ALL;
        fars[1].bar_id = Some(BarId(1));
        let fars: &'static [_] = Box::leak(fars.into_boxed_slice());
        body.create_fars = fars.into();
        let mut bar = CreateBar::new(BarId(1));
        bar.downlink_data_notification_delay = Some(DownlinkDataNotificationDelay(delay));
        body.create_bars = list([bar]).into();
    });
    let bytes = bench.answer(smf(10), &request);
    let Message::SessionEstablishmentResponse(body) = decode(&bytes) else { panic!() };
    let up_seid = body.up_f_seid.unwrap().seid;
    (bench, up_seid)
}

fn bench() -> (Bench, Seid) {
    bench_with(0)
}

/// A modification that gives FAR 2 an action.
fn act(sequence: u32, up_seid: Seid, action: ApplyAction) -> Vec<u8> {
    let mut far = UpdateFar::new(FarId(2));
    far.apply_action = Some(action);
    modify_with(sequence, up_seid, |body| body.update_fars = list([far]).into())
}

const ALL: ApplyAction =
    ApplyAction::BUFF.union(ApplyAction::NOCP).union(ApplyAction::BDPN).union(ApplyAction::DDPN);

impl Bench {
    fn handle_event(&mut self, event: WorkerEvent) -> Vec<Transmit> {
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
    let sent = bench.handle_event(data_on(up_seid, 2));
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
    let sent = bench.handle_event(data_on(up_seid, 2));
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
    let first = bench.handle_event(data_on(up_seid, 2));
    for pdr in [3, 4, 3] {
        assert_eq!(bench.handle_event(data_on(up_seid, pdr)), []);
    }
    assert_eq!(bench.node.counters().scalars.notifications_spared, 1);
    let second = bench.respond(smf(10), &first[0], Cause::RequestAccepted);
    assert_eq!(second.len(), 1);
    assert_eq!(pdrs(&second[0]), [3, 4], "each once");
    assert_eq!(bench.respond(smf(10), &second[0], Cause::RequestAccepted), []);
    assert_eq!(bench.respond(smf(10), &second[0], Cause::RequestAccepted), []);
    assert_eq!(bench.node.counters().scalars.discarded_unmatched_response, 1);
    let third = bench.handle_event(data_on(up_seid, 5));
    assert_eq!(pdrs(&third[0]), [5]);
}

#[test]
fn reports_of_different_data_status_leave_in_different_requests() {
    let (mut bench, up_seid) = bench();
    let first = bench.handle_event(data_on(up_seid, 2));
    for delivery in [DataDelivery::Buffered, DataDelivery::Discarded] {
        let (pdr, delivery) = (PdrId(3), Some(delivery));
        let event =
            WorkerEvent::DownlinkData { session: up_seid, pdr, dscp: None, qfi: None, delivery };
        assert_eq!(bench.handle_event(event), []);
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
    let first = bench.handle_event(data_on(up_seid, 2));
    bench.handle_event(data_on(up_seid, 3));
    let until = Nanos(T1.0 * u64::from(N1 + 1));
    let sent = bench.run_until(until + Nanos::from_secs(1));
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
fn report_in_flight_ends_with_its_session() {
    let (mut bench, up_seid) = bench();
    let first = bench.handle_event(data_on(up_seid, 2));
    bench.answer(smf(10), &delete(3, up_seid));
    assert_eq!(bench.run_until(T1), [], "no retransmission");
    bench.respond(smf(10), &first[0], Cause::RequestAccepted);
    assert_eq!(bench.node.counters().scalars.discarded_unmatched_response, 1);
}

#[test]
fn cause_65_in_a_response_removes_the_session() {
    let (mut bench, up_seid) = bench();
    let first = bench.handle_event(data_on(up_seid, 2));
    bench.handle_event(data_on(up_seid, 3));
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
    assert_eq!(bench.handle_event(data_on(up_seid, 2)), []);
    assert_eq!(bench.node.counters().scalars.reports_of_gone_sessions, 1);
}

#[test]
fn other_refusal_is_counted_and_the_session_stays() {
    let (mut bench, up_seid) = bench();
    let first = bench.handle_event(data_on(up_seid, 2));
    bench.respond(smf(10), &first[0], Cause::RequestRejected);
    assert_eq!(bench.node.counters().scalars.reports_refused, 1);
    assert_eq!(bench.node.store().len(), 1);
    assert_eq!(bench.handle_event(data_on(up_seid, 3)), [], "a pause");
    let sent = reports(&bench.run_until(bench.now + Nanos::from_secs(1)));
    assert_eq!(sent.iter().map(pdrs).collect::<Vec<_>>(), [[3]]);
}

/// The Session Report Requests among the sent messages.
fn reports(sent: &[Transmit]) -> Vec<Transmit> {
    let of = MessageType::SESSION_REPORT_REQUEST;
    sent.iter().filter(|t| raw(&t.bytes).header.message_type == of).cloned().collect()
}

/// The reaction of a CP function to a report.
#[derive(Debug, Clone, Copy)]
enum Reaction {
    Silence,
    Refusal(Cause),
    /// An acceptance without Cause.
    NoCause,
}

const REACTIONS: [Reaction; 6] = [
    Reaction::Silence,
    Reaction::Refusal(Cause::RequestRejected),
    Reaction::Refusal(Cause::MandatoryIeMissing),
    Reaction::Refusal(Cause::EntityInCongestion),
    Reaction::Refusal(Cause::SystemFailure),
    Reaction::NoCause,
];

impl Reaction {
    const fn delivers(self) -> bool {
        matches!(self, Self::NoCause)
    }
}

impl Bench {
    /// The CP function reacts to a report. Returns the messages that are sent next, except copies
    /// of the report.
    fn react(&mut self, request: &Transmit, reaction: Reaction) -> Vec<Transmit> {
        match reaction {
            Reaction::Silence => {
                let sent = self.run_until(self.now + Nanos(T1.0 * u64::from(N1 + 1)));
                sent.into_iter().filter(|sent| sent.bytes != request.bytes).collect()
            }
            Reaction::Refusal(cause) => self.respond(smf(10), request, cause),
            Reaction::NoCause => {
                let sequence = raw(&request.bytes).header.sequence;
                let with = encode(
                    Some(Seid(1)),
                    sequence,
                    &SessionReportResponse::new(Cause::RequestAccepted),
                );
                // Without the last IE, of five octets.
                let mut bytes = with[..with.len() - 5].to_vec();
                let length = u16::from_be_bytes([bytes[2], bytes[3]]) - 5;
                bytes[2..4].copy_from_slice(&length.to_be_bytes());
                self.ask(smf(10), &bytes)
            }
        }
    }
}

/// §5.2.3.1: the CP function is to be notified of the packets that wait.
#[test]
fn downlink_data_report_that_is_not_delivered_is_repeated_with_the_next_packet() {
    for reaction in REACTIONS {
        let (mut bench, up_seid) = bench();
        let first = bench.handle_event(data_on(up_seid, 2));
        assert_eq!(reports(&bench.react(&first[0], reaction)), [], "{reaction:?}");
        let next = bench.handle_event(data_on(up_seid, 2));
        let waits = reports(&bench.run_until(bench.now + Nanos::from_secs(1)));
        let repeated: Vec<_> = next.iter().chain(&waits).map(pdrs).collect();
        let expected: &[_] = if reaction.delivers() { &[] } else { &[[2]] };
        assert_eq!(repeated, expected, "{reaction:?}");
    }
}

#[test]
fn downlink_data_report_is_repeated_when_an_update_asks_for_it_while_packets_wait() {
    for reaction in REACTIONS {
        let (mut bench, up_seid) = bench();
        let first = bench.handle_event(data_on(up_seid, 2));
        bench.react(&first[0], reaction);
        bench.run_until(bench.now + Nanos::from_secs(1));
        // The same action as before: nothing changes for packets.
        let answer = bench.answer(smf(10), &act(3, up_seid, ALL));
        let answered = raw(&answer).header.message_type;
        assert_eq!(answered, MessageType::SESSION_MODIFICATION_RESPONSE);
        let repeated = reports(&bench.run_until(bench.now));
        assert_eq!(repeated.iter().map(pdrs).collect::<Vec<_>>(), [[2]], "{reaction:?}");
        assert_eq!(bench.handle_event(data_on(up_seid, 2)), [], "once");
    }
}

#[test]
fn update_that_asks_for_reports_leads_to_none_when_no_packet_waits_or_is_asked_for() {
    let (forward, quiet) = (ApplyAction::FORW, ApplyAction::BUFF);
    for (before, after) in [(forward, ALL), (quiet, quiet), (quiet, forward)] {
        let (mut bench, up_seid) = bench();
        let first = bench.handle_event(data_on(up_seid, 2));
        bench.respond(smf(10), &first[0], Cause::RequestAccepted);
        bench.answer(smf(10), &act(3, up_seid, before));
        bench.run_until(bench.now);
        bench.sent();
        bench.answer(smf(10), &act(4, up_seid, after));
        assert_eq!(reports(&bench.run_until(bench.now)), [], "{before:?} {after:?}");
    }
    // Nothing waits after DROBU either.
    let (mut bench, up_seid) = bench();
    let first = bench.handle_event(data_on(up_seid, 2));
    bench.respond(smf(10), &first[0], Cause::RequestAccepted);
    let drop_buffered = modify_with(3, up_seid, |body| {
        body.pfcp_sm_req_flags = Some(PfcpSmReqFlags::DROBU);
    });
    bench.answer(smf(10), &drop_buffered);
    bench.answer(smf(10), &act(4, up_seid, ALL));
    assert_eq!(reports(&bench.run_until(bench.now)), []);
    assert_eq!(bench.handle_event(data_on(up_seid, 2)).len(), 1, "the next packet");
}

#[test]
fn error_indication_report_that_is_not_delivered_is_repeated_with_the_next_one() {
    for reaction in REACTIONS {
        let (mut bench, _) = bench();
        bench.answer(smf(10), &establish(7, &SessionScript::new(7, 7)));
        let event = WorkerEvent::ErrorIndication {
            peer: GNB.into(),
            teid: SessionScript::new(7, 7).gnb_teid,
        };
        let first = bench.handle_event(event);
        assert_eq!(reports(&bench.react(&first[0], reaction)), [], "{reaction:?}");
        let next = bench.handle_event(event);
        let waits = reports(&bench.run_until(bench.now + Nanos::from_secs(1)));
        assert_eq!(next.len() + waits.len(), 1, "{reaction:?}");
    }
}

/// A CP function that is not there is not flooded.
#[test]
fn reports_that_are_not_delivered_have_pauses_that_double_up_to_a_minute() {
    let heartbeat_interval = Nanos::from_secs(100_000);
    let (mut bench, up_seid) = bench_of(NodeConfig { heartbeat_interval, ..config() }, 0);
    let mut sent = bench.handle_event(data_on(up_seid, 2));
    for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
        bench.respond(smf(10), &sent[0], Cause::EntityInCongestion);
        bench.handle_event(data_on(up_seid, 2));
        let due = bench.now + Nanos::from_secs(seconds);
        let early = reports(&bench.run_until(due - Nanos(1)));
        assert_eq!(early, [], "{seconds}");
        sent = reports(&bench.run_until(due));
        assert_eq!(sent.len(), 1, "{seconds}");
    }
    bench.respond(smf(10), &sent[0], Cause::RequestAccepted);
    bench.answer(smf(10), &act(3, up_seid, ApplyAction::FORW));
    bench.answer(smf(10), &act(4, up_seid, ALL));
    assert_eq!(bench.handle_event(data_on(up_seid, 2)).len(), 1, "no pause after an acceptance");
}

#[test]
fn many_items_leave_in_requests_of_bounded_size() {
    let (mut bench, up_seid) = bench();
    let mut request = bench.handle_event(data_on(up_seid, 2));
    for pdr in 3..=40 {
        assert_eq!(bench.handle_event(data_on(up_seid, pdr)), []);
    }
    let mut reported = Vec::new();
    loop {
        request = bench.respond(smf(10), &request[0], Cause::RequestAccepted);
        let Some(next) = request.first() else { break };
        assert!(pdrs(next).len() <= REPORT_ITEMS_PER_REQUEST_MAX);
        reported.extend(pdrs(next));
    }
    assert_eq!(reported, (3..=40).collect::<Vec<_>>(), "in order, each once");
}

#[test]
fn data_is_reported_once_until_its_far_is_activated_again() {
    let (mut bench, up_seid) = bench();
    let first = bench.handle_event(data_on(up_seid, 2));
    bench.respond(smf(10), &first[0], Cause::RequestAccepted);
    assert_eq!(bench.handle_event(data_on(up_seid, 2)), []);
    bench.answer(smf(10), &act(3, up_seid, ApplyAction::FORW));
    assert_eq!(bench.handle_event(data_on(up_seid, 2)), [], "a late event of rules that are gone");
    bench.answer(smf(10), &act(4, up_seid, ALL));
    assert_eq!(bench.handle_event(data_on(up_seid, 2)).len(), 1);
    assert_eq!(bench.node.counters().scalars.notifications_spared, 2);
}

#[test]
fn bar_delays_the_report_which_is_spared_when_data_flows_again() {
    let (mut bench, up_seid) = bench_with(4);
    assert_eq!(bench.handle_event(data_on(up_seid, 2)), []);
    assert_eq!(bench.node.poll_timeout(), Some(Nanos::from_millis(200)));
    assert_eq!(bench.run_until(Nanos::from_millis(199)), []);
    let sent = bench.run_until(Nanos::from_millis(200));
    assert_eq!(pdrs(&sent[0]), [2]);
    bench.respond(smf(10), &sent[0], Cause::RequestAccepted);
    bench.handle_event(data_on(up_seid, 3));
    bench.answer(smf(10), &act(3, up_seid, ApplyAction::FORW));
    assert_eq!(bench.run_until(Nanos::from_secs(1)), []);
}

#[test]
fn response_changes_the_bar_and_drops_what_is_buffered() {
    let (mut bench, up_seid) = bench();
    let request = bench.handle_event(data_on(up_seid, 2));
    let mut bar = UpdateBar::new(BarId(1));
    bar.suggested_buffering_packets_count = Some(SuggestedBufferingPacketsCount(3));
    let mut body = SessionReportResponse::new(Cause::RequestAccepted);
    body.update_bar = Some(bar);
    body.pfcp_sr_rsp_flags = Some(PfcpSrRspFlags::DROBU);
    let sequence = raw(&request[0].bytes).header.sequence;
    let response = encode(Some(up_seid), sequence, &body);
    bench.node.handle_datagram(bench.now, smf(10), &response);
    let (_, delta) = bench.node.poll_delta().unwrap();
    let rules = delta.rules.unwrap();
    assert_eq!((rules.buffer_epoch, rules.fars[1].buffer_pkts_max), (1, 3));
    assert_eq!(bench.node.counters().scalars.report_responses_not_applied, 0);
}

#[test]
fn response_with_what_we_do_not_offer_is_counted_and_changes_nothing() {
    let (mut bench, up_seid) = bench();
    let before = bench.node.store().clone();
    let request = bench.handle_event(data_on(up_seid, 2));
    let mut bar = UpdateBar::new(BarId(9));
    bar.downlink_data_notification_delay = Some(DownlinkDataNotificationDelay(1));
    bar.dl_buffering_duration = Some(DlBufferingDuration(Timer::from_secs(2)));
    respond_with_bar(&mut bench, up_seid, &request[0], bar);
    assert_eq!(bench.node.counters().scalars.report_responses_not_applied, 1);
    assert!(*bench.node.store() == before);
    assert_eq!(bench.run_until(Nanos::from_secs(3)), [], "no duration began");
}

fn respond_with_bar(bench: &mut Bench, up_seid: Seid, request: &Transmit, bar: UpdateBar<'static>) {
    let mut body = SessionReportResponse::new(Cause::RequestAccepted);
    body.update_bar = Some(bar);
    let sequence = raw(&request.bytes).header.sequence;
    bench.ask(smf(10), &encode(Some(up_seid), sequence, &body));
}

/// Buffering for `timer` begins, after data was reported.
fn bench_buffering_for(timer: Timer) -> (Bench, Seid) {
    let (mut bench, up_seid) = bench();
    let request = bench.handle_event(data_on(up_seid, 2));
    let mut bar = UpdateBar::new(BarId(1));
    bar.dl_buffering_duration = Some(DlBufferingDuration(timer));
    respond_with_bar(&mut bench, up_seid, &request[0], bar);
    assert_eq!(bench.handle_event(data_on(up_seid, 2)), [], "told before");
    (bench, up_seid)
}

/// Spec: TS 29.244 §7.5.9.2, §8.2.29.
#[test]
fn buffering_duration_that_is_over_discards_buffered_packets_and_the_next_one_is_reported() {
    let (mut bench, up_seid) = bench_buffering_for(Timer::from_secs(4));
    bench.now = Nanos(4_000_000_000 - 1);
    bench.node.handle_timeout(bench.now);
    assert!(bench.node.poll_delta().is_none());
    bench.now = Nanos::from_secs(4);
    assert_eq!(bench.node.poll_timeout(), Some(bench.now));
    bench.node.handle_timeout(bench.now);
    let (_, delta) = bench.node.poll_delta().unwrap();
    assert_eq!(delta.rules.unwrap().buffer_epoch, 1);
    assert!(bench.node.poll_delta().is_none());
    assert_eq!(bench.handle_event(data_on(up_seid, 2)).len(), 1);
    assert_eq!(bench.node.counters().scalars.buffering_durations_ended, 1);
}

#[test]
fn buffering_duration_ends_with_a_change_of_the_far_or_the_session_and_an_infinite_one_never() {
    for end in [
        (|bench: &mut Bench, up_seid| {
            bench.answer(smf(10), &act(3, up_seid, ApplyAction::BUFF | ApplyAction::NOCP));
        }) as fn(&mut Bench, Seid),
        |bench, up_seid| {
            bench.answer(smf(10), &act(3, up_seid, ApplyAction::FORW));
        },
        |bench, up_seid| {
            bench.answer(smf(10), &delete(3, up_seid));
        },
    ] {
        let (mut bench, up_seid) = bench_buffering_for(Timer::from_secs(4));
        end(&mut bench, up_seid);
        bench.run_until(Nanos::from_secs(9));
        assert_eq!(bench.node.counters().scalars.buffering_durations_ended, 0);
    }
    let (mut bench, _) = bench_buffering_for(Timer::INFINITE);
    bench.run_until(Nanos::from_secs(9));
    assert_eq!(bench.node.counters().scalars.buffering_durations_ended, 0);
}

#[test]
fn buffering_duration_in_a_modification_is_refused_with_its_bar() {
    let (mut bench, up_seid) = bench();
    let mut bar = UpdateBar::new(BarId(1));
    bar.dl_buffering_duration = Some(DlBufferingDuration(Timer::from_secs(4)));
    let request = modify_with(3, up_seid, |body| body.update_bars = list([bar]).into());
    let bytes = bench.answer(smf(10), &request);
    let Message::SessionModificationResponse(body) = decode(&bytes) else { panic!() };
    assert_eq!(body.offending_ie.unwrap().0, adit_pfcp::IeType::DL_BUFFERING_DURATION.0);
    assert_eq!(body.failed_rule_id, Some(adit_pfcp::ie::FailedRuleId::Bar(BarId(1))));
}

#[test]
fn drobu_of_a_modification_is_published() {
    let (mut bench, up_seid) = bench();
    let request = modify_with(3, up_seid, |body| {
        body.pfcp_sm_req_flags = Some(PfcpSmReqFlags::DROBU);
    });
    bench.node.handle_datagram(bench.now, smf(10), &request);
    let (_, delta) = bench.node.poll_delta().unwrap();
    assert_eq!(delta.rules.unwrap().buffer_epoch, 1);
}

#[test]
fn end_marker_is_commanded_before_the_change_that_leaves_the_tunnel() {
    let mut bench = Bench::associated();
    let script = SessionScript::new(0xc1, 1);
    let up_seid = bench.session(smf(10), 2, &script);
    let mut parameters = adit_pfcp::grouped::UpdateForwardingParameters::new();
    let header = OuterHeaderCreation::gtpu_ipv4(Teid(77), GNB);
    parameters.outer_header_creation = Some(Nullable::Value(header));
    parameters.pfcp_sm_req_flags = Some(PfcpSmReqFlags::SNDEM);
    let mut far = UpdateFar::new(FarId(2));
    far.update_forwarding_parameters = Some(parameters);
    let request = modify_with(3, up_seid, |body| body.update_fars = list([far]).into());
    bench.node.handle_datagram(bench.now, smf(10), &request);
    let (id, delta) = bench.node.poll_delta().unwrap();
    let tunnel = GtpuTunnel { teid: script.gnb_teid, addr: IpAddr::V4(GNB) };
    let (session, change, interfaces) = (delta.session, id, adit_types::InterfaceSet(1));
    let qfi = Qfi::new(9);
    let command = WorkerCommand::SendEndMarker { tunnel, interfaces, qfi, session, change };
    assert_eq!(bench.node.poll_command_before(id), Some(command));
    assert_eq!(bench.node.poll_command_before(id), None);
    bench.node.handle_published(bench.now, id);
    assert_eq!(bench.node.poll_command(), None);
}

#[test]
fn deletion_and_release_give_up_reports_in_flight() {
    let (mut bench, up_seid) = bench();
    bench.handle_event(data_on(up_seid, 2));
    bench.answer(smf(10), &delete(3, up_seid));
    let other = bench.session(smf(10), 4, &SessionScript::new(0xc2, 2));
    bench.answer(smf(10), &act(6, other, ALL));
    assert_eq!(bench.handle_event(data_on(other, 2)).len(), 1);
    bench.answer(smf(10), &release(5, Ipv4Addr::new(192, 0, 2, 10)));
    assert_eq!(bench.run_until(Nanos::from_secs(60)), []);
    assert_eq!(bench.node.counters().scalars.own_retransmissions, 0);
}

#[test]
fn malformed_response_is_discarded_and_the_report_repeated() {
    let (mut bench, up_seid) = bench();
    let first = bench.handle_event(data_on(up_seid, 2));
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
