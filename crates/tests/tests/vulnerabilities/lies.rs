//! Class 2: lengths that lie, IEs that are too short, members that overrun their group.

use adit_pfcp::ie::IeType;
use adit_pfcp::{Cause, MessageType};

use crate::ie_tree::{ies, with_length, with_message_length, with_tail, with_value};
use crate::messages;
use crate::smf::*;
use crate::victim::{NodeAnswer, Victim};

fn prepared() -> Victim {
    let mut victim = Victim::new();
    let preparation = messages::preparation(901, victim.session);
    assert_eq!(victim.send(smf(10), &preparation), NodeAnswer::Accepted);
    victim
}

#[test]
fn length_beyond_its_group_or_message_is_refused() {
    let mut victim = prepared();
    for (name, message) in messages::all(victim.session) {
        for ie in ies(&message) {
            for len in [ie.len() + 1000, 0x7fff, 0x8000, 0xfffb, 0xffff] {
                let lie = with_length(&message, &ie, u16::try_from(len).unwrap());
                let said = victim.refuses(&lie);
                if raw(&message).header.message_type == MessageType::HEARTBEAT_REQUEST {
                    assert_eq!(said, NodeAnswer::Nothing);
                } else {
                    let refused = matches!(said, NodeAnswer::Refused(Cause::InvalidLength, ..));
                    assert!(refused, "{name}: {ie:?} as {len}: {said:?}");
                }
            }
        }
    }
    victim.assert_sessions_usable();
}

#[test]
fn length_off_by_one_is_never_accepted() {
    for (name, message) in messages::all(prepared().session) {
        for ie in ies(&message) {
            for len in [ie.len().wrapping_sub(1), ie.len() + 1] {
                let Ok(len) = u16::try_from(len) else { continue };
                let mut victim = prepared();
                let said = victim.send(smf(10), &with_length(&message, &ie, len));
                assert_ne!(said, NodeAnswer::Accepted, "{name}: {ie:?} as {len}");
            }
        }
    }
}

/// Groups, and members that length zero removes from them: the rest is a valid rule.
/// Spec: TS 29.244 §5.6.3.
const HARMLESS: [(IeType, IeType); 3] = [
    (IeType::UPDATE_FORWARDING_PARAMETERS, IeType::OUTER_HEADER_CREATION),
    (IeType::UPDATE_URR, IeType::VOLUME_QUOTA),
    (IeType::UPDATE_BAR_SESSION_MODIFICATION_REQUEST, IeType::SUGGESTED_BUFFERING_PACKETS_COUNT),
];

#[test]
fn ie_of_length_zero_is_refused_where_it_matters() {
    for (name, message) in messages::all(prepared().session) {
        for ie in ies(&message) {
            let mut victim = prepared();
            let said = victim.send(smf(10), &with_value(&message, &ie, &[]));
            // An Update Forwarding Parameters without members changes nothing; length zero
            // withdraws a part of an update; all other IEs need a value.
            let is_harmless = (ie.group, ie.ie_type) == (10, 11)
                || HARMLESS.contains(&(IeType(ie.group), IeType(ie.ie_type)));
            assert_eq!(said == NodeAnswer::Accepted, is_harmless, "{name}: {ie:?} {said:?}");
        }
    }
}

/// The answer to a message whose length reaches beyond its datagram. Spec: TS 29.244 §7.6.3.
fn beyond(message: &[u8]) -> NodeAnswer {
    match raw(message).header.message_type {
        MessageType::HEARTBEAT_REQUEST => NodeAnswer::Nothing,
        _ => NodeAnswer::Refused(Cause::InvalidLength, None, None),
    }
}

#[test]
fn every_prefix_of_every_message_is_refused_or_ignored() {
    let mut victim = prepared();
    for (name, message) in messages::all(victim.session) {
        let header = if message[0] & 1 == 1 { 16 } else { 8 };
        for len in 0..message.len() {
            // The header's length reaches beyond the datagram.
            let expected = if len < header { NodeAnswer::Nothing } else { beyond(&message) };
            assert_eq!(victim.refuses(&message[..len]), expected, "{name}: {len}");
        }
        for len in header..message.len() {
            let honest = with_message_length(&message[..len], u16::try_from(len - 4).unwrap());
            let mut victim = prepared();
            let said = victim.send(smf(10), &honest);
            let boundary = ies(&message).iter().any(|ie| ie.group == 0 && ie.starts_at(len));
            // A modification that ends between two IEs is valid.
            assert!(said != NodeAnswer::Accepted || boundary, "{name}: {len}");
        }
    }
    victim.assert_sessions_usable();
}

#[test]
fn message_length_that_lies_is_ignored_or_refused() {
    let mut victim = prepared();
    for (name, message) in messages::all(victim.session) {
        let len = u16::try_from(message.len() - 4).unwrap();
        for lie in [0, 1, 3, len + 1, len + 100, 0x7fff, 0xffff] {
            let said = victim.refuses(&with_message_length(&message, lie));
            let expected = if lie < len { NodeAnswer::Nothing } else { beyond(&message) };
            assert_eq!(said, expected, "{name}: {lie}");
        }
    }
    victim.assert_sessions_usable();
}

#[test]
fn octets_that_are_no_ie_are_refused() {
    let mut victim = prepared();
    let establishment = establish(1, &SessionScript::new(0xc1, 41));
    let tails: [&[u8]; 8] = [
        &[0],
        &[0, 0],
        &[0, 1, 0],
        &[0, 1, 0, 1],
        &[0xff, 0xff, 0xff, 0xff],
        // Vendor-specific: the length must hold the enterprise identifier.
        &[0x80, 0x01, 0, 0],
        &[0x80, 0x01, 0, 1, 0],
        &[0xff, 0xff, 0, 3, 0, 0],
    ];
    for tail in tails {
        let said = victim.refuses(&with_tail(&establishment, tail));
        assert!(
            matches!(said, NodeAnswer::Refused(Cause::InvalidLength, ..)),
            "{tail:?}: {said:?}"
        );
    }
    victim.assert_sessions_usable();
}

#[test]
fn empty_datagram_and_fragments_of_headers_are_ignored() {
    let mut victim = Victim::new();
    for len in 0..16 {
        assert_eq!(victim.refuses(&vec![0x21; len]), NodeAnswer::Nothing);
        let version_0 = if len < 8 { NodeAnswer::Nothing } else { NodeAnswer::Other };
        assert_eq!(victim.refuses(&vec![0; len]), version_0);
        assert_eq!(victim.refuses(&vec![0xff; len.min(7)]), NodeAnswer::Nothing);
    }
    victim.assert_sessions_usable();
}

#[test]
fn flow_descriptions_that_lie_about_their_length_are_refused() {
    use adit_pfcp::ie::SdfFilter;
    let script = SessionScript::new(0xc1, 42);
    let message = establish_with(1, &script, |body| {
        let mut pdrs: Vec<_> = body.create_pdrs.iter().collect();
        let filter = SdfFilter {
            flow_description: Some(b"permit out ip from any to assigned"),
            ..SdfFilter::default()
        };
        pdrs[0].pdi.sdf_filters = list([filter]).into();
        body.create_pdrs = Vec::leak(pdrs)[..].into();
    });
    let filter = ies(&message).into_iter().find(|ie| ie.ie_type == 23).unwrap();
    let mut victim = Victim::new();
    let huge = [&[1, 0, 0x40, 0], &[b'x'; 0x4000][..]].concat();
    let values: [&[u8]; 9] = [
        &[],
        &[1],
        &[1, 0],
        &[1, 0, 0],
        &[1, 0, 0xff, 0xff],
        &[1, 0, 0, 5, b'p'],
        &[0x1f, 0, 0, 1, b'p', 1],
        &[1, 0, 0, 2, 0xff, 0xfe],
        &huge,
    ];
    for value in values {
        let said = victim.refuses(&with_value(&message, &filter, value));
        assert!(
            matches!(said, NodeAnswer::Refused(..)),
            "{:?}: {said:?}",
            &value[..value.len().min(8)]
        );
    }
    victim.assert_sessions_usable();
}
