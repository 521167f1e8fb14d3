//! The state that a later process takes from the previous one: associations, PFDs, sessions, and
//! identifiers that are taken.

use std::net::IpAddr;

use adit_n4::{NodeConfig, NodeEvent};
use adit_pfcp::grouped::{ApplicationIdsPfds, GtpuPathQosControlInformation, PfdContext};
use adit_pfcp::ie::{
    self, AlternativeSmfIpAddress, ApnDnn, ApplicationId, CpFunctionFeatures, FqCsid, FqCsidNode,
    GroupId, GtpuPathInterfaceType, MeasurementPeriod, NfInstanceId, Nullable, PfdContents,
    QosReportTrigger, RatType, RecoveryTimeStamp, SNssai, SmfSetId, UserId,
};
use adit_pfcp::message::{
    AssociationSetupRequest, HeartbeatResponse, PfdManagementRequest, SessionSetDeletionRequest,
    SessionSetModificationRequest,
};
use adit_pfcp::{Cause, MessageType};
use adit_rules::WorkerCommand;
use adit_rules::sdf::AddrMatch;
use adit_session::{CpFSeid, Provisioning, StoreConfig, UePool, parse_flow_description};
use adit_types::{Nanos, Teid};

use super::*;

const SET: SmfSetId<'static> = SmfSetId(b"\0\x04set1\x03smf");

fn set_up(bench: &mut Bench, host: u8, edit: impl FnOnce(&mut AssociationSetupRequest<'static>)) {
    let mut body =
        AssociationSetupRequest::new(ie::NodeId::Ipv4(ip(host)), RecoveryTimeStamp(SMF_STARTED));
    edit(&mut body);
    let answer = bench.answer(smf(host), &encode(None, 1, &body));
    assert_eq!(cause(&answer), Cause::RequestAccepted);
}

#[test]
fn association_is_as_it_was() {
    let mut bench = begun(kept_config());
    bench.now = Nanos::from_secs(3);
    let mut control = GtpuPathQosControlInformation::new(QosReportTrigger::PER);
    control.interface_type = Some(GtpuPathInterfaceType::N3);
    control.measurement_period = Some(MeasurementPeriod(3));
    set_up(&mut bench, 10, |body| {
        body.cp_function_features = Some(CpFunctionFeatures::EPFAR | CpFunctionFeatures::SSET);
        body.smf_set_id = Some(SET);
        body.nf_instance_id = Some(NfInstanceId([7; 16]));
        let alternative = AlternativeSmfIpAddress { v4: Some(ip(20)), v6: None, preferred: true };
        body.alternative_smf_ip_addresses = list([alternative]).into();
        body.gtpu_path_qos_controls = list([Nullable::Value(control)]).into();
    });
    let up_seid = bench.session(smf(10), 2, &SessionScript::new(1, 1));
    let before = bench.node.association(ip(10).into()).unwrap().clone();
    bench.now = Nanos::from_secs(5);
    let mut later = killed(&bench);
    let after = later.node.association(ip(10).into()).unwrap();
    assert_eq!((&after.node_id, after.port, after.owner), (&before.node_id, 8805, before.owner));
    assert_eq!(after.recovery_time_stamp, SMF_STARTED);
    assert_eq!(after.cp_function_features, before.cp_function_features);
    assert_eq!((&after.smf_set, after.since), (&before.smf_set, before.since));
    assert_eq!(later.node.nf_instance_id(ip(10).into()), Some([7; 16]));
    assert_eq!(after.smf_set.alternatives, [IpAddr::V4(ip(20))]);
    // The paths of its sessions are measured.
    later.node.handle_timeout(later.now);
    let command = later.node.poll_command();
    let is_echo = |c: &WorkerCommand| matches!(c, WorkerCommand::SendEchoRequest { peer, .. } if *peer == IpAddr::V4(GNB));
    assert!(command.as_ref().is_some_and(is_echo), "{command:?}");
    later.store_all();
    later.sent();
    // The alternative address acts for the association, and inherits it.
    let answer = later.answer(smf(20), &move_to(3, up_seid, Teid(3)));
    assert_eq!(cause(&answer), Cause::RequestAccepted);
    later.run_until(later.now + HEARTBEAT_INTERVAL + Nanos(T1.0 * 4));
    assert!(later.node.association(ip(20).into()).is_some());
    let again = killed(&later);
    let moved = again.node.association(ip(20).into()).unwrap();
    assert_eq!((moved.owner, again.node.store().len()), (before.owner, 1));
}

fn pfds(sequence: u32, text: &'static str) -> Vec<u8> {
    let contents =
        PfdContents { flow_description: Some(text.as_bytes()), ..PfdContents::default() };
    let mut application = ApplicationIdsPfds::new(ApplicationId(b"web"));
    application.pfd_contexts = list([PfdContext::new(list([contents]).into())]).into();
    let mut body = PfdManagementRequest::new();
    body.application_ids_pfds = list([application]).into();
    encode(None, sequence, &body)
}

fn establish_web(sequence: u32, number: u16) -> Vec<u8> {
    establish_with(sequence, &SessionScript::new(number.into(), number), |body| {
        let mut pdrs: Vec<_> = body.create_pdrs.iter().collect();
        pdrs[1].pdi.application_id = Some(ApplicationId(b"web"));
        body.create_pdrs = Vec::leak(pdrs)[..].into();
    })
}

/// The latest PFDs of an application apply; without them, those before.
#[test]
fn pfds_of_several_associations_count_in_their_order() {
    const OLD: &str = "permit out 17 from any 53 to assigned";
    const NEW: &str = "permit out 6 from 203.0.113.0/24 443 to assigned";
    let mut bench = associated();
    bench.associate(11);
    // The association that came first provides last.
    assert_eq!(cause(&bench.answer(smf(11), &pfds(2, OLD))), Cause::RequestAccepted);
    assert_eq!(cause(&bench.answer(smf(10), &pfds(2, NEW))), Cause::RequestAccepted);
    let filter_of = |bench: &mut Bench, sequence, number| {
        bench.node.handle_datagram(bench.now, smf(11), &establish_web(sequence, number));
        let (id, delta) = bench.node.poll_delta().unwrap();
        bench.node.handle_published(bench.now, id);
        delta.rules.unwrap().downlink[0].sdf.clone()
    };
    let filters = |text: &str| vec![parse_flow_description(text).unwrap()];
    let mut later = killed(&bench);
    assert_eq!(filter_of(&mut later, 3, 1), filters(NEW));
    later.store_all();
    later.sent();
    later.answer(smf(10), &release(4, ip(10)));
    assert_eq!(filter_of(&mut later, 5, 2), filters(OLD));
    later.store_all();
    let mut later = killed(&later);
    assert_eq!(filter_of(&mut later, 6, 3), filters(OLD));
    let withdrawn = ApplicationIdsPfds::new(ApplicationId(b"web"));
    let mut body = PfdManagementRequest::new();
    body.application_ids_pfds = list([withdrawn]).into();
    later.store_all();
    later.sent();
    later.answer(smf(11), &encode(None, 7, &body));
    assert_eq!(count_of(&later, RecordKind::Pfds), 0);
}

#[test]
fn session_keeps_its_sets_its_information_and_its_former_control_plane() {
    let csid = FqCsid::new(FqCsidNode::Ipv4(ip(10)), &[0, 5], None).unwrap();
    let mut bench = begun(kept_config());
    for host in [10, 11] {
        set_up(&mut bench, host, |body| body.smf_set_id = Some(SET));
    }
    let csids = list([csid]);
    let request = establish_with(2, &SessionScript::new(1, 1), |body| {
        body.fq_csids = csids.into();
        body.apn_dnn = Some(ApnDnn(b"\x08internet"));
        body.s_nssai = Some(SNssai { sst: 1, sd: 0xa1 });
        body.rat_type = Some(RatType::Nr);
        body.user_id = Some(UserId { supi: Some(b"imsi-001010123456789"), ..UserId::default() });
    });
    let bytes = bench.answer(smf(10), &request);
    let Message::SessionEstablishmentResponse(body) = decode(&bytes) else { panic!() };
    let in_csid = body.up_f_seid.unwrap().seid;
    let request = establish_with(3, &SessionScript::new(2, 2), |body| {
        body.group_id = Some(GroupId(b"group"));
    });
    bench.answer(smf(10), &request);
    let before = bench.node.session_information(in_csid).unwrap().clone();
    assert_eq!(before.user.len(), 1);
    let mut later = killed(&bench);
    assert_eq!(later.node.session_information(in_csid), Some(&before));
    assert_eq!(kept(&later, in_csid), kept(&bench, in_csid));
    assert_eq!(later.node.sessions_in_sets(), bench.node.sessions_in_sets());
    // The group moves, then the set is deleted.
    let to = AlternativeSmfIpAddress { v4: Some(ip(11)), v6: None, preferred: false };
    let mut info = adit_pfcp::grouped::SessionChangeInfo::new(to);
    info.group_ids = list([GroupId(b"group")]).into();
    let body = SessionSetModificationRequest::new(ie::NodeId::Ipv4(ip(10)), list([info]).into());
    later.ask(smf(10), &encode(None, 4, &body));
    let mut body = SessionSetDeletionRequest::new(ie::NodeId::Ipv4(ip(10)));
    body.fq_csids = csids.into();
    let answer = later.answer(smf(10), &encode(None, 5, &body));
    assert_eq!(cause(&answer), Cause::RequestAccepted);
    let left: Vec<CpFSeid> = later.node.store().sessions().map(|s| s.cp_f_seid()).collect();
    assert_eq!(left, [CpFSeid { seid: Seid(2), v4: Some(ip(11)), v6: None }]);
    let again = killed(&later);
    let left: Vec<CpFSeid> = again.node.store().sessions().map(|s| s.cp_f_seid()).collect();
    assert_eq!(left, [CpFSeid { seid: Seid(2), v4: Some(ip(11)), v6: None }]);
}

/// Reports of a session that went to another SMF of the set name the F-SEID that the previous one
/// gave.
#[test]
fn former_control_plane_is_named_in_reports_after_a_restart() {
    let mut bench = begun(kept_config());
    for host in [10, 11] {
        set_up(&mut bench, host, |body| body.smf_set_id = Some(SET));
    }
    bench.session(smf(10), 2, &SessionScript::new(1, 1));
    bench.restart(smf(10), 3, SMF_STARTED + 1);
    bench.settle();
    bench.store_all();
    let tell = |bench: &mut Bench| {
        let (peer, teid) = (IpAddr::V4(GNB), SessionScript::new(1, 1).gnb_teid);
        let event = adit_rules::WorkerEvent::ErrorIndication { peer, teid };
        bench.sent();
        bench.node.handle_event(bench.now, event);
        bench.store_all();
        let sent = bench.sent();
        let Message::SessionReportRequest(body) = decode(&sent[0].bytes) else { panic!() };
        (sent[0].to, body.old_cp_f_seid.map(|old| (old.seid, old.v4)))
    };
    let mut later = killed(&bench);
    let expected = (smf(11), Some((Seid(1), Some(ip(10)))));
    assert_eq!(tell(&mut later), expected);
    assert_eq!(tell(&mut bench), expected);
}

/// More sessions than one turn hands over.
#[test]
fn sessions_on_their_way_to_another_smf_of_the_set_arrive() {
    let mut bench = begun(kept_config());
    for host in [10, 11] {
        set_up(&mut bench, host, |body| body.smf_set_id = Some(SET));
    }
    for number in 1..=300 {
        bench.session(smf(10), 100 + u32::from(number), &SessionScript::new(number.into(), number));
    }
    bench.restart(smf(10), 2, SMF_STARTED + 1);
    let heir = bench.node.association(ip(11).into()).unwrap().owner;
    let moved = bench.node.store().owned_count(heir);
    assert!(moved > 0 && moved < 300, "{moved}");
    let mut later = killed(&bench);
    assert_eq!(later.node.store().owned_count(heir), moved, "as the store knows them");
    later.settle();
    assert_eq!(later.node.store().owned_count(heir), 300);
    later.store_all();
    let again = killed(&later);
    assert_eq!(again.node.store().owned_count(heir), 300);
}

#[test]
fn heartbeats_are_answered_during_the_restoration_and_other_requests_afterwards() {
    let mut bench = associated();
    let up_seid = bench.session(smf(10), 2, &SessionScript::new(1, 1));
    let mut later = begin_restoration(&bench, bench.node.config().clone());
    assert!(later.node.is_restoring());
    let beats = later.ask(smf(10), &heartbeat(3, SMF_STARTED));
    let Message::HeartbeatResponse(body) = decode(&beats[0].bytes) else { panic!() };
    assert_eq!(body.recovery_time_stamp, RecoveryTimeStamp(UPF_STARTED), "no restart");
    assert_eq!(later.ask(smf(10), &move_to(4, up_seid, Teid(4))), []);
    for (kind, name, octets) in records_of(&bench) {
        let mut record = FormerRecord::read(kind, name, octets);
        later.node.restore_record(later.now, &mut record).unwrap();
    }
    later.publish_all();
    assert_eq!(later.ask(smf(10), &delete(5, up_seid)), []);
    assert_eq!(later.ask(smf(10), &heartbeat(6, SMF_STARTED)).len(), 1);
    later.node.end_restoration(later.now);
    assert!(!later.node.is_restoring());
    later.publish_all();
    later.store_all();
    let sent = later.sent();
    let sequences: Vec<_> = sent.iter().map(|sent| raw(&sent.bytes).header.sequence).collect();
    assert_eq!(sequences, [4, 5]);
    assert!(sent.iter().all(|sent| cause(&sent.bytes) == Cause::RequestAccepted));
    let restored = NodeEvent::Restored { associations: 1, sessions: 1, refused: 0 };
    assert!(later.events().contains(&restored));
}

#[test]
fn datagrams_beyond_the_bound_are_dropped_and_counted() {
    let bench = associated();
    let mut later = begin_restoration(&bench, bench.node.config().clone());
    let max = adit_types::limits::RESTORATION_DATAGRAMS_MAX;
    for _ in 0..max + 2 {
        later.node.handle_datagram(later.now, smf(10), &delete(5, Seid(7)));
    }
    assert_eq!(later.node.counters().scalars.discarded_restoring, 2);
}

/// Its seeds are those of the previous process: it would draw the same again.
#[test]
fn new_association_and_session_get_no_identifier_of_a_restored_one() {
    let prefix = AddrMatch::V4("10.60.0.0/29".parse().unwrap());
    let pool = UePool { network_instance: None, identity: None, s_nssai: None, prefix };
    let provisioning = Provisioning { ue_pools: vec![pool], ..config().store.provisioning };
    let store = StoreConfig { provisioning, ..config().store };
    let mut bench = begun(NodeConfig { store, ..kept_config() });
    bench.associate(10);
    let identifiers = |bench: &Bench| {
        let of = |session: &adit_session::Session| {
            let pdi = &session.pdrs()[0].pdi;
            (session.up_seid(), pdi.f_teid.unwrap().teid, pdi.ue.unwrap().addresses.v4.unwrap())
        };
        bench.node.store().sessions().map(of).collect::<Vec<_>>()
    };
    for number in 0..3 {
        let answer = bench.answer(smf(10), &choosing(10 + number, 1));
        assert_eq!(cause(&answer), Cause::RequestAccepted);
    }
    // The index in the middle is free.
    let middle = identifiers(&bench)[1].0;
    bench.answer(smf(10), &delete(20, middle));
    let before = identifiers(&bench);
    let mut later = killed(&bench);
    assert_eq!(identifiers(&later), before);
    later.associate(11);
    let owners: Vec<u32> = later.node.associations().map(|a| a.owner.0).collect();
    assert_ne!(owners[0], owners[1]);
    for number in 0..3 {
        let answer = later.answer(smf(10), &choosing(30 + number, 1));
        assert_eq!(cause(&answer), Cause::RequestAccepted);
    }
    let all = identifiers(&later);
    assert_eq!(all.len(), 5);
    for (at, one) in all.iter().enumerate() {
        for other in &all[at + 1..] {
            assert!(one.0 != other.0 && one.1 != other.1 && one.2 != other.2, "{all:?}");
        }
    }
}

/// The owner of an association that ended names sessions that still go.
#[test]
fn name_of_an_association_that_ended_is_not_given_again() {
    let mut bench = associated();
    bench.associate(11);
    let last = bench.node.association(ip(11).into()).unwrap().owner;
    bench.answer(smf(11), &release(2, ip(11)));
    let mut later = killed(&bench);
    later.associate(12);
    let next = later.node.association(ip(12).into()).unwrap().owner;
    assert!(next.0 > last.0, "{next:?} after {last:?}");
}

/// Our Recovery Time Stamp in an answer.
fn own_time_stamp(bytes: &[u8]) -> u32 {
    match decode(bytes) {
        Message::AssociationSetupResponse(body) => body.recovery_time_stamp.0,
        Message::HeartbeatResponse(body) => body.recovery_time_stamp.0,
        other => panic!("{other:?}"),
    }
}

/// Once, although the sessions are set aside at each further start.
#[test]
fn peer_whose_sessions_are_not_all_restored_sees_a_newer_time_stamp_and_no_other_one() {
    let mut bench = begun(kept_config());
    set_up(&mut bench, 10, |body| body.cp_function_features = Some(CpFunctionFeatures::EPFAR));
    set_up(&mut bench, 11, |_| {});
    bench.associate(12);
    for host in [10, 11] {
        bench.session(smf(host), 2, &SessionScript::new(1, host.into()));
    }
    bench.now = Nanos::from_secs(30);
    let mut later = killed_into(&bench, super::set_aside::forbidding());
    later.store_all();
    later.sent();
    let seen = |later: &mut Bench, host| {
        own_time_stamp(&later.answer(smf(host), &heartbeat(9, SMF_STARTED)))
    };
    let before = [10, 11, 12].map(|host| seen(&mut later, host));
    assert_eq!(before[2], UPF_STARTED);
    let newer = UPF_STARTED + 30..UPF_STARTED + 33;
    assert!(newer.contains(&before[0]) && newer.contains(&before[1]), "{before:?}");
    // And stays so.
    later.store_all();
    let mut again = killed_into(&later, super::set_aside::forbidding());
    assert_eq!([10, 11, 12].map(|host| seen(&mut again, host)), before);
}

#[test]
fn records_that_a_store_lost_move_the_time_stamp_towards_every_peer() {
    let mut bench = associated();
    bench.associate(11);
    let mut later = begin_restoration(&bench, kept_config());
    for (kind, name, octets) in records_of(&bench) {
        let mut record = FormerRecord::read(kind, name, octets);
        later.node.restore_record(later.now, &mut record).unwrap();
    }
    later.node.note_lost_records();
    later.node.end_restoration(later.now);
    later.store_all();
    for host in [10, 11] {
        let seen = own_time_stamp(&later.answer(smf(host), &heartbeat(9, SMF_STARTED)));
        assert!(seen > UPF_STARTED, "{host}");
    }
}

#[test]
fn peer_that_is_silent_is_so_after_a_restart_and_for_no_longer() {
    let sessions_outlive_peer = Nanos::from_secs(100);
    let mut bench = begun(NodeConfig { sessions_outlive_peer, ..kept_config() });
    bench.associate(10);
    let up_seid = bench.session(smf(10), 2, &SessionScript::new(1, 1));
    let lost_at = HEARTBEAT_INTERVAL + Nanos(T1.0 * u64::from(N1 + 1));
    bench.run_until(lost_at);
    assert!(bench.node.associations().all(|known| known.is_silent()));
    let mut later = killed(&bench);
    assert!(later.node.associations().all(|known| known.is_silent()));
    later.run_until(lost_at + sessions_outlive_peer - Nanos(1));
    assert_eq!(later.node.store().len(), 1);
    // A record of its own says so, and goes with the silence.
    let states = |bench: &Bench| {
        let of = |key: &&(RecordKind, OwnedRecordId)| {
            let is_number = matches!(key.1, OwnedRecordId::Number(_));
            key.0 == RecordKind::Association && is_number && !is_clock_mark(key)
        };
        bench.records.keys().filter(of).count()
    };
    assert_eq!(states(&later), 1);
    let mut other = killed(&later);
    let answer = other.answer(smf(10), &setup(5, ip(10), SMF_STARTED));
    assert_eq!(own_time_stamp(&answer), UPF_STARTED);
    other.store_all();
    assert_eq!((states(&other), other.node.store().len()), (0, 1));
    let moved = other.answer(smf(10), &move_to(6, up_seid, Teid(9)));
    assert_eq!(cause(&moved), Cause::RequestAccepted);
    later.run_until(lost_at + sessions_outlive_peer);
    assert!(later.node.store().is_empty());
    later.store_all();
    assert_eq!((states(&later), count_of(&later, RecordKind::Association)), (0, 0));
}

/// Whatever moment the process ends at, the store has one of both.
#[test]
fn session_that_replaces_another_one_takes_its_place_in_one_group() {
    let mut bench = associated();
    bench.session(smf(10), 2, &SessionScript::new(1, 1));
    bench.node.handle_datagram(bench.now, smf(10), &establish(3, &SessionScript::new(2, 1)));
    let mut counts = Vec::new();
    while let Some((id, _)) = bench.node.poll_delta() {
        bench.node.handle_published(bench.now, id);
        bench.store_all();
        counts.push(count_of(&bench, RecordKind::Session));
        let later = killed(&bench);
        assert_eq!(later.node.store().len(), 1);
    }
    assert_eq!(counts, [1, 1]);
}

#[test]
fn peer_that_restarted_meanwhile_loses_its_sessions_after_the_restoration() {
    for is_known_at_once in [true, false] {
        let mut bench = associated();
        bench.associate(11);
        bench.session(smf(10), 2, &SessionScript::new(1, 1));
        let other = bench.session(smf(11), 2, &SessionScript::new(1, 2));
        bench.now = Nanos::from_secs(4);
        let mut later = begin_restoration(&bench, bench.node.config().clone());
        for (kind, name, octets) in records_of(&bench) {
            if is_known_at_once && kind == RecordKind::Usage {
                continue;
            }
            let mut record = FormerRecord::read(kind, name, octets);
            later.node.restore_record(later.now, &mut record).unwrap();
        }
        later.publish_all();
        if !is_known_at_once {
            later.node.end_restoration(later.now);
        }
        later.node.handle_timeout(later.now);
        let probes = later.sent();
        assert_eq!(types(&probes), [MessageType::HEARTBEAT_REQUEST; 2], "due at once");
        for probe in probes {
            let started = SMF_STARTED + u32::from(probe.to == smf(10));
            let body = HeartbeatResponse::new(RecoveryTimeStamp(started));
            later.ask(probe.to, &encode(None, raw(&probe.bytes).header.sequence, &body));
        }
        if is_known_at_once {
            later.node.end_restoration(later.now);
        }
        later.settle();
        later.store_all();
        let left: Vec<Seid> = later.node.store().sessions().map(|s| s.up_seid()).collect();
        assert_eq!(left, [other]);
        assert_eq!(count_of(&later, RecordKind::Session), 1);
        assert_eq!(count_of(&later, RecordKind::Association), 1);
        assert_eq!(later.node.counters().scalars.peers_restarted, 1);
    }
}

/// A later process whose time of day is before it goes on behind it.
#[test]
fn records_say_when_they_changed_last() {
    let mark = |bench: &Bench| {
        let found = bench.records.iter().find(|(key, _)| is_clock_mark(key));
        adit_n4::clock_mark(found.unwrap().1).unwrap()
    };
    let mut bench = associated();
    assert_eq!(mark(&bench), Nanos(0));
    let interval = adit_n4::CLOCK_MARK_INTERVAL;
    for number in 1..=50 {
        bench.now += Nanos::from_secs(u64::from(number) % 7);
        bench.session(smf(10), 10 + u32::from(number), &SessionScript::new(1, number));
        let late = bench.now.since(mark(&bench));
        assert!(mark(&bench) <= bench.now && late < interval, "{late:?}");
    }
    let before = mark(&bench);
    bench.now += interval;
    bench.store_all();
    assert_eq!(mark(&bench), before, "nothing changed");
    let mut later = killed(&bench);
    later.store_all();
    assert_eq!(mark(&later), later.now);
    assert_eq!(later.node.store().len(), 50);
}
