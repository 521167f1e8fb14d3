//! Associations, heartbeats, and answers in both directions.

use adit_n4::NodeConfig;
use adit_pfcp::ie::RecoveryTimeStamp;
use adit_pfcp::message::{AssociationSetupResponse, HeartbeatResponse};
use adit_pfcp::{Cause, IeType as T, Message, MessageType};
use adit_rules::WorkerEvent;
use adit_session::{
    PredefinedRule, ProvisionedForwardingPolicy, Provisioning, StoreConfig, UePool,
};
use adit_types::{Nanos, PdrId, Seid};

use super::octets::*;
use super::planes::*;
use crate::smf::*;

/// An Open5GS session whose downlink FAR buffers, and the report of its first packet.
fn reported() -> (Bench, Seid, u32) {
    let mut bench = Bench::associated();
    let up_seid = open5gs(&mut bench).up_seid;
    let sequence = report(&mut bench, up_seid).unwrap();
    (bench, up_seid, sequence)
}

/// Notifies the node of downlink data; returns the sequence number of its report.
fn report(bench: &mut Bench, session: Seid) -> Option<u32> {
    let (pdr, qfi) = (PdrId(1), adit_types::Qfi::new(1));
    let event = WorkerEvent::DownlinkData { session, pdr, dscp: None, qfi, delivery: None };
    bench.node.handle_event(bench.now, event);
    let sent = bench.sent();
    let report = of_type(&sent, 56).pop()?;
    assert_eq!(raw(&report.bytes).header.seid, Some(Seid(CP_SEID)));
    Some(raw(&report.bytes).header.sequence)
}

/// The epoch of the buffered packets, raised when they are to go.
fn discards(bench: &mut Bench, answer: &[u8]) -> bool {
    bench.node.handle_datagram(bench.now, smf(10), answer);
    let delta = bench.node.poll_delta();
    if let Some((id, _)) = &delta {
        bench.node.handle_published(bench.now, *id);
    }
    let epoch = delta.and_then(|(_, delta)| Some(delta.rules?.buffer_epoch));
    epoch.is_some_and(|epoch| epoch > 0)
}

/// OAI leaves the Cause out, SD-Core the SEID of the UPF; both with flags or not at all.
#[test]
fn answers_to_reports_are_matched_by_sequence_number_alone() {
    let cause = |value| ie(T::CAUSE, value);
    let flags = |value| ie(T::PFCPSRRSP_FLAGS, value);
    let cases: [(Seid, Vec<Vec<u8>>, bool); 5] = [
        (Seid(CP_SEID), vec![], false),
        (Seid(CP_SEID), vec![cause("01"), flags("00")], false),
        (Seid(0), vec![cause("01")], false),
        (Seid(CP_SEID), vec![cause("40"), flags("01")], true),
        (Seid(CP_SEID), vec![cause("40"), flags("00")], false),
    ];
    for (seid, ies, drops) in cases {
        let (mut bench, up_seid, sequence) = reported();
        let answer = with_header((0x21, 0), 57, (seid, sequence), &ies);
        assert_eq!(discards(&mut bench, &answer), drops, "{ies:?}");
        let scalars = bench.node.counters().scalars;
        assert_eq!(scalars.discarded_malformed_response + scalars.discarded_unmatched_response, 0);
        assert!(bench.node.store().session(up_seid).is_some());
        assert!(bench.run_until(T1 + T1).is_empty(), "nothing is repeated");
        // Late and again: counted, and nothing else.
        assert!(bench.ask(smf(10), &answer).is_empty());
        assert_eq!(bench.node.counters().scalars.discarded_unmatched_response, 1);
    }
    // Never: repeated, given up, and the next data is reported again.
    let (mut bench, up_seid, _) = reported();
    let repeated = bench.run_until(Nanos(HEARTBEAT_INTERVAL.0 - 1));
    assert_eq!(of_type(&repeated, 56).len(), 3);
    let sent = bench.run_until(HEARTBEAT_INTERVAL);
    let heartbeat = raw(&of_type(&sent, 1)[0].bytes).header.sequence;
    let body = HeartbeatResponse::new(RecoveryTimeStamp(SMF_STARTED));
    bench.ask(smf(10), &encode(None, heartbeat, &body));
    assert!(of_type(&bench.run_until(Nanos(T1.0 * 5)), 56).is_empty());
    assert_eq!(bench.node.counters().scalars.reports_lost_no_response, 1);
    assert!(bench.node.store().session(up_seid).is_some());
    assert!(report(&mut bench, up_seid).is_some());
}

/// OAI writes the time of sending into its Heartbeat Requests.
#[test]
fn time_stamp_that_moves_in_heartbeat_requests_is_no_restart() {
    let mut bench = Bench::associated();
    let up_seid = accepted(&mut bench, &oai_establishment()).up_seid;
    let mut probes = 0;
    for round in 1..=6_u32 {
        bench.answer(smf(10), &heartbeat(100 + round, SMF_STARTED + 10 * round));
        for sent in bench.run_until(bench.now) {
            probes += 1;
            let body = HeartbeatResponse::new(RecoveryTimeStamp(SMF_STARTED));
            bench.ask(smf(10), &encode(None, raw(&sent.bytes).header.sequence, &body));
        }
    }
    assert_eq!(probes, 1, "one response says enough");
    assert!(bench.node.store().session(up_seid).is_some());
    assert_eq!(bench.node.counters().scalars.peers_restarted, 0);
    // The response still shows a restart.
    let sent = bench.run_until(HEARTBEAT_INTERVAL);
    let body = HeartbeatResponse::new(RecoveryTimeStamp(SMF_STARTED + 99));
    bench.ask(smf(10), &encode(None, raw(&sent[0].bytes).header.sequence, &body));
    assert_eq!(bench.node.counters().scalars.peers_restarted, 1);
    assert!(bench.node.store().is_empty());
}

/// free5GC and SD-Core need this.
#[test]
fn setup_of_ours_that_is_answered_with_sequence_number_1_is_answered() {
    let mut bench = Bench::with(NodeConfig { connect: vec![smf(10)], seed: 77, ..config() });
    let sent = bench.run_until(Nanos(0));
    assert_eq!(sent[0].bytes[1], MessageType::ASSOCIATION_SETUP_REQUEST.0);
    assert_ne!(raw(&sent[0].bytes).header.sequence, 1);
    let body = |cause| {
        let node_id = adit_pfcp::ie::NodeId::Ipv4([192, 0, 2, 10].into());
        AssociationSetupResponse::new(node_id, cause, RecoveryTimeStamp(SMF_STARTED))
    };
    bench.ask(smf(11), &encode(None, 1, &body(Cause::RequestAccepted)));
    bench.ask(smf(10), &encode(None, 2, &body(Cause::RequestAccepted)));
    assert_eq!(bench.node.associations().count(), 0, "of another peer, with another number");
    bench.ask(smf(10), &encode(None, 1, &body(Cause::RequestAccepted)));
    assert_eq!(bench.node.associations().count(), 1);
    let sent = bench.run_until(HEARTBEAT_INTERVAL);
    assert!(of_type(&sent, 5).is_empty(), "it is not asked again");
    // Then the control plane sets up by itself.
    bench.associate(10);
    assert_eq!(bench.node.associations().count(), 1);
}

/// All four control planes set up again after their restart.
#[test]
fn setup_again_is_accepted_and_sessions_go_and_without_association_there_are_none() {
    for started in [SMF_STARTED + 1, SMF_STARTED - 1] {
        let mut bench = Bench::associated();
        let up_seid = open5gs(&mut bench).up_seid;
        let request = setup(9, [192, 0, 2, 10].into(), started);
        if started < SMF_STARTED {
            assert!(bench.ask(smf(10), &request).is_empty(), "a late one, unless it comes again");
        }
        let answer = bench.answer(smf(10), &request);
        let Message::AssociationSetupResponse(body) = decode(&answer) else { panic!() };
        assert_eq!(body.cause, Cause::RequestAccepted);
        assert!(bench.node.store().is_empty());
        let late = modification(10, up_seid, &[open5gs_tunnel("00000001", None)]);
        assert_eq!(refused(&mut bench, &late), (Cause::SessionContextNotFound, None));
    }
    let mut bench = Bench::new();
    let outcome = refused(&mut bench, &free5gc_establishment());
    assert_eq!(outcome, (Cause::NoEstablishedAssociation, None));
}

/// Everything that lets the node announce something.
fn with_all_features() -> NodeConfig {
    let provisioning = Provisioning {
        ue_pools: vec![UePool {
            network_instance: None,
            identity: None,
            s_nssai: None,
            prefix: adit_rules::sdf::AddrMatch::V4("10.60.0.0/24".parse().unwrap()),
        }],
        policies: vec![ProvisionedForwardingPolicy {
            id: "cache".into(),
            network_instance: None,
            steering: adit_rules::Steering::default(),
            dscp: None,
            local_switching: None,
        }],
        predefined_rules: vec![PredefinedRule {
            name: "rule".into(),
            group: None,
            detection: adit_session::PredefinedDetection::Application("video".into()),
            precedence: None,
            action: adit_session::PredefinedAction::Forward,
            qfi: None,
        }],
        ..config().store.provisioning
    };
    let store = StoreConfig { provisioning, ..config().store };
    NodeConfig { store, ..config() }
}

/// The IEs that OAI, free5GC and SD-Core read in answers.
#[test]
fn answers_have_the_ies_and_lengths_that_control_planes_can_read() {
    let mut bench = Bench::with(with_all_features());
    let answer = bench.answer(smf(10), &setup(1, [192, 0, 2, 10].into(), SMF_STARTED));
    let features = values(&answer, T::UP_FUNCTION_FEATURES);
    assert!(features[0].len() <= 6, "{features:?}");
    assert_eq!(values(&answer, T::NODE_ID).len(), 1);

    let session = open5gs(&mut bench);
    assert_eq!(values(&session.answer, T::NODE_ID).len(), 1);
    assert_eq!(values(&session.answer, T::CAUSE), [[1]]);
    assert_eq!(values(&session.answer, T::F_SEID)[0].len(), 13, "SEID and one address");
    let created = established(&session.answer).created_pdrs;
    assert!(created.iter().all(|pdr| pdr.ue_ip_addresses.is_empty()), "nobody asked");

    let broken = [open5gs_pdrs(), vec![group(T::CREATE_FAR, [ie(T::APPLY_ACTION, "02")])]].concat();
    bench.node.handle_datagram(bench.now, smf(10), &establishment(7, &broken));
    let refusal = bench.sent().pop().unwrap().bytes;
    assert_eq!(established(&refusal).cause, Cause::MandatoryIeMissing);
    assert_eq!(values(&refusal, T::NODE_ID).len(), 1, "also when it is refused");

    let deletion = with_header((0x21, 0), 54, (session.up_seid, 8), &[]);
    let answer = bench.answer(smf(10), &deletion);
    let reports = values(&answer, T::USAGE_REPORT_SESSION_DELETION_RESPONSE);
    let members = adit_pfcp::IeIter::new(reports[0]).flatten();
    let trigger: Vec<_> = members.filter(|ie| ie.ie_type == T::USAGE_REPORT_TRIGGER).collect();
    assert_eq!(trigger[0].value, [0, 8, 0], "termination, in exactly 3 octets");
}
