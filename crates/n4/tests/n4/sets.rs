//! SMF sets, sets of sessions, and sessions that outlive the setup of their association.

use std::net::{IpAddr, Ipv4Addr};

use adit_n4::{NodeConfig, NodeEvent, PeerPolicy, PeerPrefix, SmfSetMembers};
use adit_pfcp::grouped::{SessionChangeInfo, SessionRetentionInformation};
use adit_pfcp::ie::{
    self, AlternativeSmfIpAddress, CpIpAddress, CpPfcpEntityIpAddress, FSeid, FqCsid, FqCsidNode,
    GroupId, PfcpAsRspFlags, RecoveryTimeStamp, SmfSetId,
};
use adit_pfcp::message::{
    AssociationSetupRequest, HeartbeatResponse, SessionSetDeletionRequest,
    SessionSetDeletionResponse, SessionSetModificationRequest,
};
use adit_pfcp::{Cause, IeType, Message};
use adit_session::CpFSeid;
use adit_types::{Ipv4Prefix, Nanos, Seid, Teid};

use crate::smf::*;

const SET: SmfSetId<'static> = SmfSetId(b"\0\x04set1\x03smf");
const CSID_5: FqCsid<'static> = csid(&[0, 5]);
const CSID_6: FqCsid<'static> = csid(&[0, 6]);

const fn csid(octets: &'static [u8]) -> FqCsid<'static> {
    FqCsid::new(FqCsidNode::Ipv4(Ipv4Addr::new(192, 0, 2, 10)), octets, None).unwrap()
}

fn ip(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, host)
}

fn setup_with(
    bench: &mut Bench,
    host: u8,
    started: u32,
    edit: impl FnOnce(&mut AssociationSetupRequest<'static>),
) -> Option<PfcpAsRspFlags> {
    let mut body =
        AssociationSetupRequest::new(ie::NodeId::Ipv4(ip(host)), RecoveryTimeStamp(started));
    edit(&mut body);
    let bytes = bench.answer(smf(host), &encode(None, 1, &body));
    let Message::AssociationSetupResponse(body) = decode(&bytes) else { panic!() };
    assert_eq!(body.cause, Cause::RequestAccepted);
    body.pfcp_as_rsp_flags
}

fn in_set(body: &mut AssociationSetupRequest<'static>) {
    body.smf_set_id = Some(SET);
}

fn cause(bytes: &[u8]) -> (Cause, Option<IeType>) {
    let of = |cause, offending: Option<ie::OffendingIe>| (cause, offending.map(|ie| IeType(ie.0)));
    match decode(bytes) {
        Message::SessionEstablishmentResponse(body) => of(body.cause, body.offending_ie),
        Message::SessionModificationResponse(body) => of(body.cause, body.offending_ie),
        Message::SessionDeletionResponse(body) => of(body.cause, body.offending_ie),
        Message::SessionSetDeletionResponse(body) => of(body.cause, body.offending_ie),
        Message::SessionSetModificationResponse(body) => of(body.cause, body.offending_ie),
        other => panic!("{other:?}"),
    }
}

const ACCEPTED: (Cause, Option<IeType>) = (Cause::RequestAccepted, None);

fn session_in(bench: &mut Bench, host: u8, number: u16, csids: &'static [FqCsid<'static>]) -> Seid {
    let script = SessionScript::new(number.into(), number);
    let request = establish_with(100 + u32::from(number), &script, |body| {
        body.fq_csids = csids.into();
    });
    let bytes = bench.answer(smf(host), &request);
    let Message::SessionEstablishmentResponse(body) = decode(&bytes) else { panic!() };
    assert_eq!(body.cause, Cause::RequestAccepted);
    body.up_f_seid.unwrap().seid
}

fn delete_set(sequence: u32, host: u8, csids: &'static [FqCsid<'static>]) -> Vec<u8> {
    let mut body = SessionSetDeletionRequest::new(ie::NodeId::Ipv4(ip(host)));
    body.fq_csids = csids.into();
    encode(None, sequence, &body)
}

fn cp(bench: &Bench, up_seid: Seid) -> CpFSeid {
    bench.node.store().session(up_seid).unwrap().cp_f_seid()
}

/// Spec: TS 29.244 §6.2.9.
#[test]
fn set_deletion_removes_the_sessions_of_the_set_and_answers_afterwards() {
    let mut bench = Bench::associated();
    bench.associate(11);
    let gone = [session_in(&mut bench, 10, 1, &[CSID_5]), session_in(&mut bench, 10, 2, &[CSID_5])];
    let kept = [
        session_in(&mut bench, 10, 3, &[CSID_6]),
        session_in(&mut bench, 10, 4, &[]),
        session_in(&mut bench, 11, 5, &[CSID_5]),
    ];
    bench.node.handle_datagram(bench.now, smf(10), &delete_set(9, 10, &[CSID_5]));
    assert!(bench.sent().is_empty(), "the workers still run them");
    bench.publish_all();
    let bytes = bench.sent().remove(0).bytes;
    assert_eq!(cause(&bytes), ACCEPTED);
    assert!(gone.iter().all(|&seid| bench.node.store().session(seid).is_none()));
    assert!(kept.iter().all(|&seid| bench.node.store().session(seid).is_some()));
    assert_eq!(bench.answer(smf(10), &delete_set(9, 10, &[CSID_5])), bytes);
    assert_eq!(cause(&bench.answer(smf(10), &delete_set(10, 10, &[CSID_5]))), ACCEPTED);
    assert_eq!(bench.node.sessions_in_sets(), 2);
}

#[test]
fn deletion_of_several_sets_removes_the_sessions_of_each() {
    let mut bench = Bench::associated();
    // The session of the set that is named last is the older one.
    let gone = [session_in(&mut bench, 10, 1, &[CSID_6]), session_in(&mut bench, 10, 2, &[CSID_5])];
    let request = delete_set(9, 10, list([CSID_5, CSID_6]));
    assert_eq!(cause(&bench.answer(smf(10), &request)), ACCEPTED);
    assert!(gone.iter().all(|&seid| bench.node.store().session(seid).is_none()));
}

#[test]
fn set_deletion_is_refused_precisely() {
    let mut bench = Bench::associated();
    let ask = |bench: &mut Bench, bytes: &[u8]| cause(&bench.answer(smf(10), bytes));
    let unknown = (Cause::NoEstablishedAssociation, None);
    assert_eq!(ask(&mut bench, &delete_set(2, 77, &[CSID_5])), unknown);
    let missing = (Cause::ConditionalIeMissing, Some(IeType::FQ_CSID));
    assert_eq!(ask(&mut bench, &delete_set(3, 10, &[])), missing);
    let incorrect = (Cause::InvalidLength, Some(IeType::FQ_CSID));
    let mut short = delete_set(4, 10, &[CSID_5]);
    let count = short.len() - 7;
    short[count] = 2;
    assert_eq!(ask(&mut bench, &short), incorrect);
}

#[test]
fn session_moves_to_the_sets_of_its_modification_and_leaves_them_when_deleted() {
    let mut bench = Bench::associated();
    let moved = session_in(&mut bench, 10, 1, &[CSID_5]);
    let request = modify_with(2, moved, |body| body.fq_csids = list([CSID_6]).into());
    assert_eq!(cause(&bench.answer(smf(10), &request)), ACCEPTED);
    assert_eq!(cause(&bench.answer(smf(10), &delete_set(3, 10, &[CSID_5]))), ACCEPTED);
    assert!(bench.node.store().session(moved).is_some());
    assert_eq!(cause(&bench.answer(smf(10), &delete(4, moved))), ACCEPTED);
    assert_eq!(bench.node.sessions_in_sets(), 0);
}

/// Spec: TS 29.244 §6.2.10, §7.4.7.1.
#[test]
fn set_modification_moves_reports_of_the_named_sessions_elsewhere() {
    let mut bench = Bench::associated();
    let in_csid = session_in(&mut bench, 10, 1, &[CSID_5]);
    let script = SessionScript::new(2, 2);
    let bytes = bench.answer(
        smf(10),
        &establish_with(3, &script, |body| body.group_id = Some(GroupId(b"group"))),
    );
    let Message::SessionEstablishmentResponse(body) = decode(&bytes) else { panic!() };
    let in_group = body.up_f_seid.unwrap().seid;
    let other = session_in(&mut bench, 10, 3, &[]);
    let to = |host| AlternativeSmfIpAddress { v4: Some(ip(host)), v6: None, preferred: false };
    let mut first = SessionChangeInfo::new(to(20));
    first.fq_csids = list([CSID_5]).into();
    let mut second = SessionChangeInfo::new(to(21));
    second.group_ids = list([GroupId(b"group")]).into();
    let infos = list([first, second]).into();
    let body = SessionSetModificationRequest::new(ie::NodeId::Ipv4(ip(10)), infos);
    assert_eq!(cause(&bench.answer(smf(10), &encode(None, 4, &body))), ACCEPTED);
    assert_eq!(cp(&bench, in_csid).v4, Some(ip(20)));
    assert_eq!(cp(&bench, in_group).v4, Some(ip(21)));
    assert_eq!(cp(&bench, other).v4, Some(ip(10)));
    let mut by_address = SessionChangeInfo::new(to(22));
    by_address.cp_ip_addresses = list([CpIpAddress { v4: Some(ip(10)), v6: None }]).into();
    let infos = list([by_address]).into();
    let body = SessionSetModificationRequest::new(ie::NodeId::Ipv4(ip(10)), infos);
    assert_eq!(cause(&bench.answer(smf(10), &encode(None, 5, &body))), ACCEPTED);
    assert_eq!(cp(&bench, other).v4, Some(ip(22)));
    assert_eq!(cp(&bench, in_csid).v4, Some(ip(20)));
    let infos = list([SessionChangeInfo::new(to(23))]).into();
    let body = SessionSetModificationRequest::new(ie::NodeId::Ipv4(ip(10)), infos);
    let missing = (Cause::ConditionalIeMissing, Some(IeType::FQ_CSID));
    assert_eq!(cause(&bench.answer(smf(10), &encode(None, 6, &body))), missing);
}

/// Spec: TS 29.244 §5.22.3 (MPAS).
#[test]
fn another_smf_of_the_set_takes_over_a_session_and_a_stranger_does_not() {
    let mut bench = Bench::new();
    setup_with(&mut bench, 10, SMF_STARTED, in_set);
    setup_with(&mut bench, 11, SMF_STARTED, in_set);
    bench.associate(12);
    let up_seid = bench.session(smf(10), 2, &SessionScript::new(1, 1));
    let unknown = (Cause::SessionContextNotFound, None);
    assert_eq!(cause(&bench.answer(smf(12), &move_to(2, up_seid, Teid(7)))), unknown);
    let f_seid = FSeid::new(Seid(0x99), IpAddr::V4(ip(11)));
    let request = modify_with(2, up_seid, |body| {
        body.cp_f_seid = Some(f_seid);
        body.node_id = Some(ie::NodeId::Ipv4(ip(11)));
    });
    let bytes = bench.answer(smf(11), &request);
    assert_eq!(cause(&bytes), ACCEPTED);
    assert_eq!(raw(&bytes).header.seid, Some(Seid(0x99)));
    let owner = bench.node.association(IpAddr::V4(ip(11))).unwrap().owner;
    assert_eq!(bench.node.store().session(up_seid).unwrap().owner(), owner);
    assert_eq!(bench.node.store().owned_count(owner), 1);
    bench.ask(smf(10), &release(3, ip(10)));
    assert!(bench.node.store().session(up_seid).is_some(), "it is another one's now");
}

/// Spec: TS 29.244 §5.22.3; TS 23.527 §4.2.
#[test]
fn sessions_of_a_failed_or_restarted_smf_go_to_another_one_of_its_set() {
    for restarts in [false, true] {
        let mut bench = Bench::new();
        setup_with(&mut bench, 10, SMF_STARTED, in_set);
        let up_seid = bench.session(smf(10), 2, &SessionScript::new(1, 1));
        if restarts {
            setup_with(&mut bench, 11, SMF_STARTED, in_set);
            bench.restart(smf(10), 3, SMF_STARTED + 1);
        } else {
            bench.now = HEARTBEAT_INTERVAL;
            setup_with(&mut bench, 11, SMF_STARTED, in_set);
            bench.run_until(HEARTBEAT_INTERVAL + T1 + T1 + T1 + T1);
        }
        assert!(bench.node.association(IpAddr::V4(ip(10))).is_none());
        assert_eq!(cp(&bench, up_seid), CpFSeid { seid: Seid(1), v4: Some(ip(11)), v6: None });
        let handed = |event: &NodeEvent| matches!(event, NodeEvent::SessionsHandedOver { .. });
        assert_eq!(bench.events().iter().filter(|event| handed(event)).count(), 1);
        assert_eq!(cause(&bench.answer(smf(11), &delete(9, up_seid))), ACCEPTED);
        assert_eq!(bench.node.store().reserved(), Default::default());
    }
}

/// Spec: TS 29.244 §5.22.2 (SSET).
#[test]
fn alternative_address_acts_for_the_association_and_inherits_it() {
    let mut bench = Bench::new();
    let alternative = AlternativeSmfIpAddress { v4: Some(ip(20)), v6: None, preferred: true };
    setup_with(&mut bench, 10, SMF_STARTED, |body| {
        in_set(body);
        body.alternative_smf_ip_addresses = list([alternative]).into();
    });
    let up_seid = bench.session(smf(10), 2, &SessionScript::new(1, 1));
    let request = move_to(2, up_seid, Teid(7));
    let bytes = bench.answer(smf(20), &request);
    assert_eq!(cause(&bytes), ACCEPTED);
    assert_eq!(bench.answer(smf(20), &request), bytes, "not run twice");
    assert_eq!(bench.node.counters().scalars.sessions_modified, 1);
    bench.run_until(HEARTBEAT_INTERVAL + T1 + T1 + T1 + T1);
    assert!(bench.node.association(IpAddr::V4(ip(10))).is_none());
    assert_eq!(bench.node.association(IpAddr::V4(ip(20))).unwrap().port, 8805);
    assert_eq!(cp(&bench, up_seid).v4, Some(ip(20)));
    // The new address started at another time; that is no restart.
    let probe = bench.run_until(bench.now + T1).remove(0);
    assert_eq!(probe.to, smf(20));
    let body = HeartbeatResponse::new(RecoveryTimeStamp(SMF_STARTED + 77));
    bench.ask(smf(20), &encode(None, raw(&probe.bytes).header.sequence, &body));
    assert!(bench.node.store().session(up_seid).is_some());
    setup_with(&mut bench, 20, SMF_STARTED + 78, in_set);
    assert!(bench.node.store().session(up_seid).is_some(), "its own setup inherits them");
    bench.run_until(bench.now + Nanos::from_secs(60));
    assert_eq!(bench.node.associations().count(), 0, "no address is left");
    assert_eq!(bench.node.store().reserved(), Default::default());
}

/// Spec: TS 29.244 §6.2.6.2.2 (PSREI).
#[test]
fn setup_that_wishes_it_retains_the_sessions_of_the_listed_addresses() {
    for listed in [None, Some(10), Some(99)] {
        let mut bench = Bench::associated();
        let up_seid = bench.session(smf(10), 2, &SessionScript::new(1, 1));
        let flags = setup_with(&mut bench, 10, SMF_STARTED + 1, |body| {
            let mut wish = SessionRetentionInformation::new();
            if let Some(host) = listed {
                let at = CpPfcpEntityIpAddress { v4: Some(ip(host)), v6: None };
                wish.cp_pfcp_entity_ip_addresses = list([at]).into();
            }
            body.session_retention_information = Some(wish);
        });
        assert_eq!(flags, Some(PfcpAsRspFlags::PSREI));
        let kept = listed != Some(99);
        assert_eq!(bench.node.store().session(up_seid).is_some(), kept);
        let expected = if kept { ACCEPTED } else { (Cause::SessionContextNotFound, None) };
        assert_eq!(cause(&bench.answer(smf(10), &delete(3, up_seid))), expected);
        assert_eq!(bench.node.store().reserved(), Default::default());
    }
}

#[test]
fn setup_that_finds_no_association_retains_nothing_and_says_so() {
    let mut bench = Bench::new();
    let flags = setup_with(&mut bench, 10, SMF_STARTED, |body| {
        body.session_retention_information = Some(SessionRetentionInformation::new());
    });
    assert_eq!(flags, None);
}

/// Spec: TS 29.244 §6.2.9, §7.5.3.1; TS 23.007 §23.
#[test]
fn own_set_is_sent_to_peers_that_name_one_and_deletes_their_sessions() {
    let mut bench = Bench::associated();
    let started = UPF_STARTED.to_be_bytes();
    let own = list([started[2], started[3] | 1]);
    let own = FqCsid::new(FqCsidNode::Ipv4(UPF), own, None).unwrap();
    let theirs = list([FqCsid::new(FqCsidNode::Ipv4(ip(10)), &[0, 7], None).unwrap()]);
    let script = |number: u16| SessionScript::new(number.into(), number);
    let mut told = |sequence, number, csids: &'static [FqCsid<'static>]| {
        let request = establish_with(sequence, &script(number), |body| {
            body.fq_csids = csids.into();
        });
        let bytes = bench.answer(smf(10), &request);
        let Message::SessionEstablishmentResponse(body) = decode(&bytes) else { panic!() };
        let told = body.fq_csids.into_iter().map(|told| told.overlaps(&own));
        (told.collect::<Vec<_>>(), body.up_f_seid.unwrap().seid)
    };
    assert_eq!(told(2, 1, theirs).0, [true]);
    let (none, other) = told(3, 2, &[]);
    assert_eq!(none, []);
    let response = bench.answer(smf(10), &delete_set(4, 10, list([own])));
    assert_eq!(cause(&response), (Cause::RequestAccepted, None));
    let left: Vec<Seid> = bench.node.store().sessions().map(|s| s.up_seid()).collect();
    assert_eq!(left, [other]);
}

#[test]
fn node_that_stops_reports_by_its_set_that_remaining_sessions_are_gone() {
    let mut bench = Bench::associated();
    bench.associate(20);
    let theirs = list([FqCsid::new(FqCsidNode::Ipv4(ip(10)), &[0, 7], None).unwrap()]);
    session_in(&mut bench, 10, 1, theirs);
    bench.session(smf(20), 5, &SessionScript::new(0xc2, 2));
    bench.node.give_up_sessions(bench.now);
    bench.publish_all();
    let sent = bench.sent();
    assert_eq!(sent.len(), 1, "only those who know of sets");
    assert_eq!(sent[0].to, smf(10));
    let Message::SessionSetDeletionRequest(body) = decode(&sent[0].bytes) else { panic!() };
    assert_eq!(body.fq_csids.first().unwrap().node, FqCsidNode::Ipv4(UPF));
    assert_eq!(bench.node.counters().scalars.sessions_given_up, 1);
    assert_eq!(bench.node.store().len(), 2, "no work for what ends with the process");

    let sequence = raw(&sent[0].bytes).header.sequence;
    let refusal = SessionSetDeletionResponse::new(ie::NodeId::Ipv4(ip(10)), Cause::RequestRejected);
    bench.ask(smf(10), &encode(None, sequence, &refusal));
    bench.ask(smf(10), &encode(None, sequence, &refusal));
    let scalars = bench.node.counters().scalars;
    assert_eq!(
        (scalars.session_set_deletions_refused, scalars.discarded_unmatched_response),
        (1, 1)
    );
    let malformed = [0x20, 15, 0, 4, 0, 0, 1, 0];
    bench.ask(smf(10), &malformed);
    assert_eq!(bench.node.counters().scalars.discarded_malformed_response, 1);
}

/// A node whose operator gives `set1.smf` to the SMFs 10 and 11.
fn with_members() -> Bench {
    let member = |host| PeerPrefix::V4(Ipv4Prefix::containing(ip(host), 32).unwrap());
    let set = SmfSetMembers { id: "Set1.SMF".to_owned(), members: [10, 11].map(member).into() };
    let policy = PeerPolicy { smf_sets: vec![set], ..PeerPolicy::default() };
    Bench::with(NodeConfig { policy, ..config() })
}

/// Spec: TS 29.244 §5.22 lets any CP function that names a set control its sessions.
#[test]
fn member_of_a_configured_set_controls_its_sessions_and_a_stranger_does_not() {
    let mut bench = with_members();
    for host in [10, 11, 12] {
        setup_with(&mut bench, host, SMF_STARTED, in_set);
    }
    let up_seid = bench.session(smf(10), 2, &SessionScript::new(1, 1));
    let stranger = bench.answer(smf(12), &move_to(3, up_seid, Teid(7)));
    assert_eq!(cause(&stranger), (Cause::SessionContextNotFound, None));
    assert_eq!(cause(&bench.answer(smf(11), &move_to(3, up_seid, Teid(7)))), ACCEPTED);
    assert_eq!(bench.node.counters().scalars.smf_set_claims_refused, 1);
    let refused =
        NodeEvent::SmfSetClaimRefused { from: IpAddr::V4(ip(12)), set: "set1.smf".into() };
    assert!(bench.events().contains(&refused));
    let other = SmfSetId(b"\0\x04set2\x03smf");
    setup_with(&mut bench, 11, SMF_STARTED, |body| body.smf_set_id = Some(other));
    let elsewhere = bench.answer(smf(11), &move_to(4, up_seid, Teid(8)));
    assert_eq!(cause(&elsewhere).0, Cause::SessionContextNotFound, "a set that nobody configured");
}

#[test]
fn alternative_address_counts_only_if_the_configured_set_has_it() {
    for (alternative, counts) in [(11, true), (12, false)] {
        let mut bench = with_members();
        setup_with(&mut bench, 10, SMF_STARTED, |body| {
            in_set(body);
            let address =
                AlternativeSmfIpAddress { v4: Some(ip(alternative)), v6: None, preferred: false };
            body.alternative_smf_ip_addresses = list([address]).into();
        });
        let up_seid = bench.session(smf(10), 2, &SessionScript::new(1, 1));
        let answer = bench.answer(smf(alternative), &move_to(3, up_seid, Teid(7)));
        assert_eq!(cause(&answer).0 == Cause::RequestAccepted, counts, "{alternative}");
    }
}

/// An update cannot bring in what a setup may not.
#[test]
fn update_that_claims_a_configured_set_is_believed_of_members_alone() {
    for (host, counts) in [(11, true), (12, false)] {
        let mut bench = with_members();
        setup_with(&mut bench, 10, SMF_STARTED, in_set);
        setup_with(&mut bench, host, SMF_STARTED, |_| {});
        let up_seid = bench.session(smf(10), 2, &SessionScript::new(1, 1));
        let mut update =
            adit_pfcp::message::AssociationUpdateRequest::new(ie::NodeId::Ipv4(ip(host)));
        update.smf_set_id = Some(SET);
        bench.answer(smf(host), &encode(None, 3, &update));
        let answer = bench.answer(smf(host), &move_to(4, up_seid, Teid(7)));
        assert_eq!(cause(&answer).0 == Cause::RequestAccepted, counts, "{host}");
    }
}
