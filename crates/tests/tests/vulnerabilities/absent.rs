//! Class 1: mandatory and conditional IEs that are not there.

use adit_pfcp::{Cause, IeType, MessageType};

use crate::ie_tree::{ies, without};
use crate::messages;
use crate::smf::*;
use crate::victim::{NodeAnswer, Victim};

/// Mandatory IEs of groups: type of the group, type of the IE. Spec: TS 29.244 §7.5.2, §7.5.4.
const IN_GROUPS: [(u16, u16); 26] = [
    (1, 56),
    (1, 2),
    (2, 20),
    (3, 108),
    (3, 44),
    (4, 42),
    (6, 81),
    (6, 62),
    (6, 37),
    (7, 109),
    (7, 25),
    (9, 56),
    (10, 108),
    (14, 109),
    (15, 56),
    (16, 108),
    (18, 109),
    (13, 81),
    (17, 81),
    (77, 81),
    (85, 88),
    (86, 88),
    (87, 88),
    (127, 131),
    (129, 131),
    (130, 131),
];

/// Mandatory IEs of messages. Spec: TS 29.244 §7.4.4, §7.5.2.
const IN_MESSAGES: [(MessageType, &[u16]); 4] = [
    (MessageType::ASSOCIATION_SETUP_REQUEST, &[60, 96]),
    (MessageType::ASSOCIATION_UPDATE_REQUEST, &[60]),
    (MessageType::ASSOCIATION_RELEASE_REQUEST, &[60]),
    (MessageType::SESSION_ESTABLISHMENT_REQUEST, &[60, 57, 1, 3]),
];

fn is_mandatory(message: &[u8], group: u16, ie_type: u16) -> bool {
    let kind = raw(message).header.message_type;
    let mut in_message = IN_MESSAGES.iter().filter(|(message, _)| *message == kind);
    match group {
        0 => in_message.any(|(_, types)| types.contains(&ie_type)),
        _ => IN_GROUPS.contains(&(group, ie_type)),
    }
}

fn prepared() -> Victim {
    let mut victim = Victim::new();
    let preparation = messages::preparation(901, victim.session);
    assert_eq!(victim.send(smf(10), &preparation), NodeAnswer::Accepted);
    victim
}

#[test]
fn mandatory_ie_that_is_absent_is_named_with_cause_66() {
    let mut victim = prepared();
    let mut cases = 0;
    for (name, message) in messages::all(victim.session) {
        for ie in ies(&message).iter().filter(|ie| is_mandatory(&message, ie.group, ie.ie_type)) {
            let said = victim.refuses(&without(&message, ie));
            let NodeAnswer::Refused(cause, offending, _) = said else {
                panic!("{name}: {ie:?} {said:?}")
            };
            assert_eq!(cause, Cause::MandatoryIeMissing, "{name}: {ie:?}");
            let named = matches!(raw(&message).header.message_type.0, 5 | 7 | 9)
                || offending == Some(IeType(ie.ie_type));
            assert!(named, "{name}: {ie:?} {offending:?}");
            cases += 1;
        }
    }
    assert!(cases > 30, "{cases}");
    victim.assert_sessions_usable();
}

#[test]
fn any_ie_that_is_absent_leaves_a_node_that_works() {
    for (name, message) in messages::all(prepared().session) {
        for ie in ies(&message) {
            // A new node each time, accepted or not: the same seed gives the same SEIDs.
            let mut victim = prepared();
            let said = victim.send(smf(10), &without(&message, &ie));
            let is_heartbeat = raw(&message).header.message_type == MessageType::HEARTBEAT_REQUEST;
            assert_eq!(said == NodeAnswer::Nothing, is_heartbeat, "{name}: {ie:?} {said:?}");
        }
    }
}

#[test]
fn empty_bodies_are_refused_or_ignored() {
    let mut victim = Victim::new();
    for message_type in 0..=255u8 {
        let session = message_type >= 50;
        let mut message = vec![0x20, message_type, 0, 4, 0, 0, 7, 0];
        if session {
            message = vec![0x21, message_type, 0, 12];
            message.extend(victim.session.0.to_be_bytes());
            message.extend([0, 0, 7, 0]);
        }
        // Without any IE, a modification changes nothing, and a deletion is valid.
        if matches!(message_type, 52 | 54) {
            continue;
        }
        let said = victim.refuses(&message);
        let expected = match message_type {
            5 | 7 | 9 | 50 => Cause::MandatoryIeMissing,
            _ => {
                assert!(!matches!(said, NodeAnswer::Accepted), "{message_type}: {said:?}");
                continue;
            }
        };
        assert!(matches!(said, NodeAnswer::Refused(cause, ..) if cause == expected), "{said:?}");
    }
    victim.assert_sessions_usable();
}

#[test]
fn conditional_ies_that_are_absent_are_refused() {
    let mut victim = Victim::new();
    let script = SessionScript::new(0xc1, 40);
    let cases: [(Vec<u8>, IeType); 3] = [
        (
            establish_with(1, &script, |b| {
                let mut pdrs: Vec<_> = b.create_pdrs.iter().collect();
                pdrs[0].far_id = None;
                b.create_pdrs = Vec::leak(pdrs)[..].into();
            }),
            IeType::FAR_ID,
        ),
        (
            establish_with(2, &script, |b| {
                let mut fars: Vec<_> = b.create_fars.iter().collect();
                fars[0].forwarding_parameters = None;
                b.create_fars = Vec::leak(fars)[..].into();
            }),
            IeType::FORWARDING_PARAMETERS,
        ),
        (
            establish_with(4, &script, |b| {
                let mut pdrs: Vec<_> = b.create_pdrs.iter().collect();
                pdrs[1].pdi.ue_ip_addresses = list([Default::default()]).into();
                b.create_pdrs = Vec::leak(pdrs)[..].into();
            }),
            IeType::UE_IP_ADDRESS,
        ),
    ];
    for (message, ie) in cases {
        let said = victim.refuses(&message);
        assert!(
            matches!(said, NodeAnswer::Refused(_, Some(named), Some(_)) if named == ie),
            "{said:?}"
        );
    }
    victim.assert_sessions_usable();
}
