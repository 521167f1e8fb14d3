//! An independent dissector reads the requests of the PFCP node: set-up, heartbeats, reports of
//! sessions and of the node, and the request for release.

use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr, SocketAddrV4};

use crate::smf;
use adit_n4::{NodeConfig, PathConfig, Transmit};
use adit_pfcp::grouped::{CreateBar, CreateUrr};
use adit_pfcp::ie::{
    ApplyAction, MeasurementInformation, MeasurementMethod, MeasurementPeriod, NodeId,
    RecoveryTimeStamp, ReportType, ReportingTriggers, UserPlaneInactivityTimer,
};
use adit_pfcp::message::{
    AssociationSetupResponse, AssociationUpdateResponse, HeartbeatResponse, NodeReportResponse,
    SessionEstablishmentRequest, SessionReportResponse,
};
use adit_pfcp::{Cause, Message};
use adit_rules::{DataDelivery, WorkerCommand, WorkerEvent};
use adit_tests::capture::{self, MARKS};
use adit_types::{BarId, Nanos, PdrId, Qfi, Seid, UrrId};

/// A node between control functions that answer every request, and the messages that it sends to
/// them.
struct ReportExchange {
    bench: smf::Bench,
    up_seid: Seid,
    frames: Vec<Vec<u8>>,
    /// Types of the requests, and the report types of the session reports.
    asked: BTreeSet<u8>,
    reported: ReportType,
}

impl ReportExchange {
    fn new() -> Self {
        let paths =
            PathConfig { echo_interval: Nanos::from_secs(20), t3: Nanos::from_secs(3), n3: 2 };
        let connect = vec![smf::smf(11)];
        let mut bench = smf::Bench::with(NodeConfig { paths, connect, ..smf::config() });
        bench.associate(10);
        let script = smf::SessionScript::new(0xc1, 1);
        let established = bench.ask(smf::smf(10), &smf::establish_with(2, &script, rules));
        let mut dialogue = Self {
            bench,
            up_seid: Seid(0),
            frames: Vec::new(),
            asked: BTreeSet::new(),
            reported: ReportType::empty(),
        };
        for sent in established {
            if let Message::SessionEstablishmentResponse(body) = smf::decode(&sent.bytes) {
                dialogue.up_seid = body.up_f_seid.unwrap().seid;
            } else {
                dialogue.converse(vec![sent]);
            }
        }
        assert_ne!(dialogue.up_seid, Seid(0));
        dialogue
    }

    /// Keeps the messages of the node and answers them, until the node sends nothing.
    fn converse(&mut self, sent: Vec<Transmit>) {
        let mut queue = VecDeque::from(sent);
        while let Some(Transmit { to, bytes, .. }) = queue.pop_front() {
            let SocketAddr::V4(cp) = to else { panic!("over IPv4") };
            self.frames.push(capture::datagram(SocketAddrV4::new(smf::UPF, 8805), cp, &bytes));
            let header = smf::raw(&bytes).header;
            let node = NodeId::Ipv4(*cp.ip());
            let (sequence, cause) = (header.sequence, Cause::RequestAccepted);
            let stamp = RecoveryTimeStamp(smf::SMF_STARTED);
            let answer = match smf::decode(&bytes) {
                Message::HeartbeatRequest(_) => {
                    smf::encode(None, sequence, &HeartbeatResponse::new(stamp))
                }
                Message::AssociationSetupRequest(_) => {
                    let body = AssociationSetupResponse::new(node, cause, stamp);
                    smf::encode(None, sequence, &body)
                }
                Message::AssociationUpdateRequest(_) => {
                    smf::encode(None, sequence, &AssociationUpdateResponse::new(node, cause))
                }
                Message::NodeReportRequest(_) => {
                    smf::encode(None, sequence, &NodeReportResponse::new(node, cause))
                }
                Message::SessionReportRequest(body) => {
                    self.reported |= body.report_type;
                    let body = SessionReportResponse::new(cause);
                    smf::encode(Some(self.up_seid), sequence, &body)
                }
                _ => continue,
            };
            self.asked.insert(header.message_type.0);
            queue.extend(self.bench.ask(to, &answer));
        }
    }

    fn report_event(&mut self, event: WorkerEvent) {
        self.bench.node.handle_event(self.bench.now, event);
        let sent = self.bench.sent();
        self.converse(sent);
    }

    /// The gNB answers an Echo Request.
    fn response(&self, sequence: u16) -> WorkerEvent {
        let peer = IpAddr::V4(smf::GNB);
        WorkerEvent::EchoResponse { peer, sequence, recovery: None, at: self.bench.now }
    }

    /// Lets time pass second by second.
    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            let sent = self.bench.run_until(self.bench.now + Nanos::from_secs(1));
            self.converse(sent);
        }
    }
}

/// Usage every minute, notice of buffered packets, and of a user plane that is idle.
fn rules(body: &mut SessionEstablishmentRequest<'static>) {
    let method = MeasurementMethod::VOLUM | MeasurementMethod::DURAT;
    let mut urr = CreateUrr::new(UrrId(1), method, ReportingTriggers::PERIO);
    urr.measurement_period = Some(MeasurementPeriod(60));
    urr.measurement_information = Some(MeasurementInformation::MNOP);
    body.create_urrs = smf::list([urr]).into();
    let mut pdrs: Vec<_> = body.create_pdrs.iter().collect();
    for pdr in &mut pdrs {
        pdr.urr_ids = smf::list([UrrId(1)]).into();
    }
    body.create_pdrs = Vec::leak(pdrs)[..].into();
    let mut fars: Vec<_> = body.create_fars.iter().collect();
    fars[1].apply_action = ApplyAction::BUFF | ApplyAction::NOCP | ApplyAction::BDPN;
    fars[1].bar_id = Some(BarId(1));
    body.create_fars = Vec::leak(fars)[..].into();
    body.create_bars = smf::list([CreateBar::new(BarId(1))]).into();
    body.user_plane_inactivity_timer = Some(UserPlaneInactivityTimer(90));
}

#[test]
fn tshark_reads_what_the_node_asks_without_a_mark() {
    let mut dialogue = ReportExchange::new();
    let session = dialogue.up_seid;
    let peer = IpAddr::V4(smf::GNB);
    for delivery in [None, Some(DataDelivery::Buffered), Some(DataDelivery::Discarded)] {
        let (pdr, dscp, qfi) = (PdrId(2), Some(46), Qfi::new(9));
        dialogue.report_event(WorkerEvent::DownlinkData { session, pdr, dscp, qfi, delivery });
    }
    let teid = smf::SessionScript::new(0xc1, 1).gnb_teid;
    dialogue.report_event(WorkerEvent::ErrorIndication { peer, teid });
    dialogue.pass(100);
    // The path has failed; now the peer answers the last Echo Request.
    let echoes = std::iter::from_fn(|| dialogue.bench.node.poll_command());
    let last = echoes.filter_map(|command| match command {
        WorkerCommand::SendEchoRequest { sequence, .. } => Some(sequence),
        _ => None,
    });
    let sequence = last.last().unwrap();
    dialogue.report_event(dialogue.response(sequence));
    for _ in 0..30 {
        dialogue.pass(1);
        while let Some(command) = dialogue.bench.node.poll_command() {
            if let WorkerCommand::SendEchoRequest { sequence, .. } = command {
                dialogue.report_event(dialogue.response(sequence));
            }
        }
    }
    dialogue.bench.node.start_release(dialogue.bench.now, Nanos::from_secs(10));
    let sent = dialogue.bench.sent();
    dialogue.converse(sent);

    // Heartbeat 1, association set-up 5 and update 7, node report 12, session report 56.
    assert!([1, 5, 7, 12, 56].iter().all(|kind| dialogue.asked.contains(kind)));
    let reports = ReportType::DLDR | ReportType::USAR | ReportType::ERIR | ReportType::UPIR;
    assert_eq!(dialogue.reported, reports);

    let Some(dissections) = capture::dissect(&dialogue.frames) else {
        adit_tests::process::skip("tshark not found");
        return;
    };
    for dissection in &dissections {
        for mark in MARKS {
            assert!(!dissection.contains(mark), "{mark} in {dissection}");
        }
    }
    let all = dissections.concat();
    for words in [
        "UPFR (User Plane Path Failure Report): True",
        "UPRR (User Plane Path Recovery Report): True",
        "Remote GTP-U Peer : IPv4 198.51.100.2",
        "Downlink Data Report",
        "Data Status",
        "Paging Policy Indication: 46",
        "Error Indication Report",
        "PERIO (Periodic Reporting): True",
        "Duration Measurement : ",
        "UPIR (User Plane Inactivity Report): True",
        "SARR (PFCP Association Release Request): True",
    ] {
        assert!(all.contains(words), "{words:?} was not dissected");
    }
}
