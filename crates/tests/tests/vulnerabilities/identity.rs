//! Class 6: peers that touch sessions of others.

use adit_pfcp::Cause;
use adit_pfcp::ie::{self, FSeid};
use adit_pfcp::message::HeartbeatResponse;
use adit_types::{Nanos, Seid, Teid};
use std::net::{IpAddr, Ipv4Addr};

use crate::messages::{self, NODE};
use crate::smf::*;
use crate::victim::{NodeAnswer, Victim};

#[test]
fn node_id_of_another_address_moves_nothing() {
    let mut victim = Victim::new();
    for (sequence, started) in (1..).zip([SMF_STARTED, SMF_STARTED + 1, u32::MAX, 0]) {
        let asked = victim.bench.ask(smf(66), &setup(sequence, NODE, started));
        assert_eq!((asked.len(), asked[0].to), (1, smf(10)), "its holder is asked");
        let probe = raw(&asked[0].bytes).header.sequence;
        let alive = HeartbeatResponse::new(ie::RecoveryTimeStamp(SMF_STARTED));
        let sent = victim.bench.ask(smf(10), &encode(None, probe, &alive));
        assert_eq!((sent.len(), sent[0].to), (1, smf(66)));
        assert_eq!(
            NodeAnswer::of(&sent[0].bytes),
            NodeAnswer::Refused(Cause::RequestRejected, None, None)
        );
    }
    for message in [release(2, NODE), messages::update(3)] {
        let said = victim.send(smf(66), &message);
        assert_eq!(said, NodeAnswer::Refused(Cause::NoEstablishedAssociation, None, None));
    }
    victim.assert_sessions_usable();
}

#[test]
fn associated_peer_cannot_release_another_one() {
    let mut victim = Victim::new();
    let said = victim.send(smf(11), &release(2, NODE));
    assert_ne!(said, NodeAnswer::Accepted, "the Node ID is that of another peer");
    assert_eq!(victim.bench.node.associations().count(), 2);
    victim.assert_sessions_usable();
}

#[test]
fn session_of_another_peer_is_unknown() {
    let mut victim = Victim::new();
    let unknown = NodeAnswer::Refused(Cause::SessionContextNotFound, None, None);
    let mine = victim.session;
    assert_eq!(victim.send(smf(11), &delete(1, mine)), unknown);
    assert_eq!(victim.send(smf(11), &move_to(2, mine, Teid(1))), unknown);
    assert_eq!(victim.send(smf(11), &messages::full_modification(3, mine)), unknown);
    let without = NodeAnswer::Refused(Cause::NoEstablishedAssociation, None, None);
    assert_eq!(victim.send(smf(66), &delete(1, mine)), without);
    victim.assert_sessions_usable();
}

#[test]
fn same_rule_and_session_identifiers_of_two_peers_are_apart() {
    let mut victim = Victim::new();
    let mine = victim.bench.session(smf(10), 1, &SessionScript::new(7, 71));
    let other = victim.bench.session(smf(11), 1, &SessionScript::new(7, 72));
    assert_ne!(mine, other);
    assert_eq!(victim.send(smf(11), &delete(2, other)), NodeAnswer::Accepted);
    assert!(victim.bench.node.store().session(mine).is_some());
    victim.assert_alive_with(3);
}

#[test]
fn ue_address_of_another_peers_session_is_not_taken_over() {
    let mut victim = Victim::new();
    // The UE of the session of smf(10).
    let request = establish(1, &SessionScript::new(0xe1, 10));
    let said = victim.send(smf(11), &request);
    assert!(
        matches!(said, NodeAnswer::Refused(Cause::RuleCreationModificationFailure, ..)),
        "{said:?}"
    );
    victim.assert_sessions_usable();
}

#[test]
fn f_seid_of_another_control_function_gets_no_answer_of_ours_at_its_address() {
    let mut victim = Victim::new();
    let request = establish_with(1, &SessionScript::new(0xe2, 73), |body| {
        body.cp_f_seid = FSeid::new(Seid(0xe2), IpAddr::V4(Ipv4Addr::new(198, 51, 100, 99)));
        body.node_id = ie::NodeId::Ipv4(NODE);
    });
    // `send` checks that the answer goes to the sender of the request.
    victim.send(smf(10), &request);
}

#[test]
fn responses_that_nobody_asked_for_are_ignored() {
    let mut victim = Victim::new();
    let types = [2u8, 4, 6, 8, 10, 11, 13, 15, 51, 53, 55, 57];
    for message_type in types {
        let mut message = vec![0x21, message_type, 0, 17];
        message.extend(victim.session.0.to_be_bytes());
        message.extend([0, 0, 1, 0, 0, 19, 0, 1, 65]);
        if message_type < 50 {
            message = vec![0x20, message_type, 0, 9, 0, 0, 1, 0, 0, 19, 0, 1, 65];
        }
        assert_eq!(victim.refuses(&message), NodeAnswer::Nothing, "type {message_type}");
    }
    victim.assert_sessions_usable();
}

#[test]
fn silence_of_one_peer_ends_nothing_of_the_other() {
    let mut victim = Victim::new();
    let survivor = smf(11);
    let mut now = victim.bench.now;
    for _ in 0..60 {
        now = Nanos(now.0 + 1_000_000_000);
        for sent in victim.bench.run_until(now) {
            if sent.to == survivor {
                let sequence = raw(&sent.bytes).header.sequence;
                let stamp = ie::RecoveryTimeStamp(SMF_STARTED);
                let body = adit_pfcp::message::HeartbeatResponse::new(stamp);
                victim.bench.ask(survivor, &encode(None, sequence, &body));
            }
        }
    }
    assert_eq!(victim.bench.node.associations().count(), 1);
    assert!(victim.bench.node.store().session(victim.stranger).is_some());
    assert!(victim.bench.node.store().session(victim.session).is_none());
}
