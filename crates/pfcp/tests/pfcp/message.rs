//! Messages: round trips, hostile input, and the exact first error.

use adit_pfcp::ie::{DecodedForm, IE_TABLE, IeShape, IeType, NodeId};
use adit_pfcp::message::{
    HeartbeatRequest, MESSAGE_TABLE, SessionEstablishmentRequest, SessionModificationRequest,
    members,
};
use adit_pfcp::{
    Cause, DecodeError, Header, HeaderError, Message, MessageBody, MessageType, NoRoom,
    PfcpDatagram, PfcpWriter, RawMessage,
};
use adit_types::{FarId, PdrId, Precedence, Seid};

fn only(octets: &[u8]) -> RawMessage<'_> {
    let mut messages = PfcpDatagram::new(octets);
    let raw = messages.next().unwrap().unwrap();
    assert!(messages.next().is_none());
    raw
}

fn encode_again(message: &Message<'_>, header: &Header, buf: &mut [u8]) -> Result<usize, NoRoom> {
    PfcpWriter::new(buf).message_with(header, |w| message.encode_body(w))
}

/// Decodes all messages that decode, and walks them by encoding them again.
fn exercise(octets: &[u8]) {
    let mut buf = [0; 8192];
    for raw in PfcpDatagram::new(octets).flatten() {
        if let Ok(message) = Message::decode(&raw) {
            let len = encode_again(&message, &raw.header, &mut buf).unwrap();
            // A decoded message survives a second trip, skipped IEs included.
            let again = only_lenient(&buf[..len]);
            if let Some(Ok(again)) = again.map(|raw| Message::decode(&raw)) {
                assert_eq!(message, again);
            }
        }
    }
}

fn only_lenient(octets: &[u8]) -> Option<RawMessage<'_>> {
    PfcpDatagram::new(octets).next()?.ok()
}

#[test]
fn every_message_survives_a_round_trip_octet_by_octet() {
    let mut count = 0;
    crate::samples::each(|octets| {
        let raw = only(&octets);
        let message = Message::decode(&raw).unwrap();
        assert_eq!(message.message_type(), raw.header.message_type);
        let mut buf = [0xa5; 4096];
        let len = encode_again(&message, &raw.header, &mut buf).unwrap();
        assert_eq!(&buf[..len], octets, "{}", raw.header.message_type);
        count += 1;
    });
    assert_eq!(count, 25);
}

#[test]
fn every_prefix_of_a_message_is_refused_by_the_header() {
    crate::samples::each(|octets| {
        for len in 0..octets.len() {
            let first = PfcpDatagram::new(&octets[..len]).next().unwrap();
            assert!(matches!(
                first,
                Err(HeaderError::Truncated | HeaderError::LengthBeyondDatagram { .. })
            ));
        }
    });
}

#[test]
fn message_body_of_any_length_never_panics() {
    crate::samples::each(|octets| {
        let raw = only(&octets);
        for len in 0..raw.body.len() {
            if let Ok(message) = Message::decode(&RawMessage { body: &raw.body[..len], ..raw }) {
                let _ = encode_again(&message, &raw.header, &mut [0; 4096]);
            }
        }
    });
}

#[test]
fn message_with_one_changed_octet_never_panics() {
    crate::samples::each(|octets| {
        let mut changed = octets.clone();
        for at in 0..octets.len() {
            for value in (0..8).map(|bit| octets[at] ^ (1 << bit)).chain([0, 0x7f, 0xff]) {
                changed[at] = value;
                exercise(&changed);
            }
            changed[at] = octets[at];
        }
    });
}

#[test]
fn writer_without_room_says_so_at_every_length() {
    crate::samples::each(|octets| {
        let raw = only(&octets);
        let message = Message::decode(&raw).unwrap();
        let mut buf = vec![0; octets.len()];
        for len in 0..octets.len() {
            assert_eq!(encode_again(&message, &raw.header, &mut buf[..len]), Err(NoRoom));
        }
    });
}

fn written(fill: impl FnOnce(&mut PfcpWriter<'_>) -> Result<(), NoRoom>) -> Vec<u8> {
    let mut buf = [0; 1024];
    let mut w = PfcpWriter::new(&mut buf);
    fill(&mut w).unwrap();
    let len = w.len();
    buf[..len].to_vec()
}

fn establishment(fill: impl FnOnce(&mut PfcpWriter<'_>) -> Result<(), NoRoom>) -> Vec<u8> {
    written(|w| {
        w.put(&NodeId::Ipv4(crate::samples::V4))?;
        w.put(&adit_pfcp::ie::FSeid::new(Seid(1), crate::samples::V4.into()))?;
        fill(w)
    })
}

#[track_caller]
fn refusal(body: &[u8]) -> (Cause, IeType, Option<String>) {
    let error: DecodeError = SessionEstablishmentRequest::decode_body(body).unwrap_err();
    (error.cause(), error.offending_ie(), error.rule.map(|rule| rule.to_string()))
}

#[test]
fn establishment_without_pdr_is_refused_with_cause_66() {
    let body = establishment(|_| Ok(()));
    assert_eq!(refusal(&body), (Cause::MandatoryIeMissing, IeType::CREATE_PDR, None));
    assert_eq!(refusal(&[]), (Cause::MandatoryIeMissing, IeType::NODE_ID, None));
}

#[test]
fn nested_mandatory_ie_missing_names_the_rule() {
    let body = establishment(|w| {
        w.group(IeType::CREATE_PDR, |w| {
            w.put(&PdrId(7))?;
            w.put(&Precedence(1))?;
            w.group(IeType::PDI, |_| Ok(()))
        })
    });
    let rule = Some("PDR 7".to_owned());
    assert_eq!(refusal(&body), (Cause::MandatoryIeMissing, IeType::SOURCE_INTERFACE, rule));
}

#[test]
fn zero_length_outer_header_creation_is_an_invalid_length_when_created() {
    let body = establishment(|w| {
        w.group(IeType::CREATE_FAR, |w| {
            w.put(&FarId(3))?;
            w.put(&adit_pfcp::ie::ApplyAction::FORW)?;
            w.group(IeType::FORWARDING_PARAMETERS, |w| {
                w.put(&adit_pfcp::ie::DestinationInterface::Core)?;
                w.group(IeType::OUTER_HEADER_CREATION, |_| Ok(()))
            })
        })
    });
    let rule = Some("FAR 3".to_owned());
    assert_eq!(refusal(&body), (Cause::InvalidLength, IeType::OUTER_HEADER_CREATION, rule));
}

#[test]
fn zero_length_outer_header_creation_is_null_when_updated() {
    let body = written(|w| {
        w.group(IeType::UPDATE_FAR, |w| {
            w.put(&FarId(3))?;
            w.group(IeType::UPDATE_FORWARDING_PARAMETERS, |w| {
                w.group(IeType::OUTER_HEADER_CREATION, |_| Ok(()))
            })
        })
    });
    let message = SessionModificationRequest::decode_body(&body).unwrap();
    let far = message.update_fars.first().unwrap();
    let parameters = far.update_forwarding_parameters.unwrap();
    assert_eq!(parameters.outer_header_creation, Some(adit_pfcp::ie::Nullable::Null));
    assert_eq!(parameters.destination_interface, None);
}

#[test]
fn nested_length_beyond_its_group_is_an_invalid_length() {
    // PDR ID claims three octets inside a group of six.
    let body = establishment(|w| {
        w.group(IeType::CREATE_PDR, |w| w.bytes(&[0, 56, 0, 3, 0, 1]))?;
        w.bytes(&[0; 32])
    });
    assert_eq!(refusal(&body), (Cause::InvalidLength, IeType::PDR_ID, None));
}

#[test]
fn error_offset_points_at_the_ie() {
    let body = establishment(|w| w.group(IeType::CREATE_PDR, |w| w.bytes(&[0, 56, 0, 3, 0, 1])));
    let error = SessionEstablishmentRequest::decode_body(&body).unwrap_err();
    let at = usize::from(error.offset);
    assert_eq!(&body[at..at + 2], [0, 56]);
}

#[test]
fn incorrect_mandatory_value_is_refused_with_cause_69() {
    let body = written(|w| w.group(IeType::NODE_ID, |w| w.bytes(&[2, 200, b'x'])));
    assert_eq!(refusal(&body), (Cause::MandatoryIeIncorrect, IeType::NODE_ID, None));
}

#[test]
fn incorrect_conditional_value_is_refused_with_cause_69() {
    let body = written(|w| w.group(IeType::NODE_ID, |w| w.bytes(&[9, 0, 0, 0, 0])));
    let error = SessionModificationRequest::decode_body(&body).unwrap_err();
    assert_eq!(error.cause(), Cause::MandatoryIeIncorrect);
}

#[test]
fn incorrect_optional_leaf_of_a_message_counts_as_absent() {
    let body = written(|w| {
        w.put(&adit_pfcp::ie::RecoveryTimeStamp(1))?;
        // Neither IPv4 nor IPv6; the correct copy after it is surplus.
        w.group(IeType::SOURCE_IP_ADDRESS, |w| w.u8(0))?;
        w.group(IeType::SOURCE_IP_ADDRESS, |w| w.bytes(&[2, 192, 0, 2, 1]))
    });
    let message = HeartbeatRequest::decode_body(&body).unwrap();
    assert_eq!(message.source_ip_address, None);
    assert_eq!(message.ignored.count(), 2);
    assert_eq!(message.ignored.iter().count(), 2);
}

#[test]
fn unknown_vendor_and_surplus_ies_are_skipped_and_remain_visible() {
    let body = written(|w| {
        w.bytes(&[0x7f, 0xff, 0, 0])?;
        w.bytes(&[0x80, 0x01, 0, 4, 0x46, 0x2f, 9, 9])?;
        w.put(&adit_pfcp::ie::RecoveryTimeStamp(1))?;
        w.put(&adit_pfcp::ie::RecoveryTimeStamp(2))?;
        w.put(&Cause::RequestAccepted)
    });
    let message = HeartbeatRequest::decode_body(&body).unwrap();
    assert_eq!(message.recovery_time_stamp.0, 1);
    let ignored: Vec<_> = message.ignored.iter().map(|ie| ie.ie_type.0).collect();
    assert_eq!(ignored, [0x7fff, 0x8001, 96, 19]);
    assert_eq!(usize::from(message.ignored.count()), ignored.len());
    let vendor = message.ignored.iter().nth(1).unwrap();
    assert_eq!((vendor.enterprise_id, vendor.value), (Some(0x462f), &[9, 9][..]));
}

#[test]
fn vendor_ie_too_short_for_its_enterprise_id_is_an_invalid_length() {
    let error = HeartbeatRequest::decode_body(&[0x80, 1, 0, 1, 7]).unwrap_err();
    assert_eq!((error.cause(), error.ie), (Cause::InvalidLength, IeType(0x8001)));
}

#[test]
fn ie_longer_than_known_is_accepted() {
    let message = HeartbeatRequest::decode_body(&[0, 96, 0, 6, 0, 0, 0, 5, 9, 9]).unwrap();
    assert_eq!(message.recovery_time_stamp.0, 5);
}

#[test]
fn datagram_that_is_empty_yields_one_error() {
    let mut messages = PfcpDatagram::new(&[]);
    assert_eq!(messages.next(), Some(Err(HeaderError::Truncated)));
    assert_eq!(messages.next(), None);
}

#[test]
fn datagram_of_another_version_yields_its_sequence_number() {
    let mut messages = PfcpDatagram::new(&[0x40, 1, 0, 4, 0, 0, 7, 0]);
    let error = HeaderError::VersionNotSupported { version: 2, sequence: 7 };
    assert_eq!(messages.next(), Some(Err(error)));
    assert_eq!(messages.next(), None);
}

#[test]
fn datagram_length_shorter_than_the_header_is_refused() {
    let octets = [0x21, 50, 0, 4, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 7, 0];
    assert_eq!(PfcpDatagram::new(&octets).next(), Some(Err(HeaderError::LengthTooShort)));
}

#[test]
fn session_message_without_seid_is_refused_and_the_walk_goes_on() {
    let octets = [0x24, 54, 0, 4, 0, 0, 7, 0, 0x20, 1, 0, 4, 0, 0, 8, 0];
    let mut messages = PfcpDatagram::new(&octets);
    let message_type = MessageType::SESSION_DELETION_REQUEST;
    assert_eq!(messages.next(), Some(Err(HeaderError::SeidAbsent { message_type, sequence: 7 })));
    assert_eq!(messages.next().unwrap().unwrap().header.sequence, 8);
    assert!(messages.next().is_none());
}

#[test]
fn bundled_messages_are_walked_one_by_one() {
    let mut buf = [0; 64];
    let mut w = PfcpWriter::new(&mut buf);
    let ty = MessageType::HEARTBEAT_REQUEST;
    let body = HeartbeatRequest::new(adit_pfcp::ie::RecoveryTimeStamp(1));
    let first = Header { follow_on: true, priority: Some(9), ..Header::new(ty, None, 1) };
    w.message_with(&first, |w| body.encode_body(w)).unwrap();
    w.message(ty, None, 2, |w| body.encode_body(w)).unwrap();
    let len = w.len();
    let headers: Vec<_> = PfcpDatagram::new(&buf[..len]).map(|m| m.unwrap().header).collect();
    assert_eq!(headers, [first, Header::new(ty, None, 2)]);
    // Follow On without another message.
    let mut messages = PfcpDatagram::new(&buf[..len / 2]);
    assert!(messages.next().unwrap().is_ok());
    assert_eq!(messages.next(), Some(Err(HeaderError::Truncated)));
}

#[test]
fn ie_table_is_sorted_and_typed_members_are_marked_full() {
    assert!(IE_TABLE.is_sorted_by(|a, b| a.ie_type < b.ie_type));
    for info in MESSAGE_TABLE {
        for member in members(info.message_type) {
            let row = member.ie.info().unwrap();
            assert_eq!(row.status, DecodedForm::Full, "{}", row.name);
        }
    }
    assert_eq!(IeType::CREATE_PDR.info().unwrap().shape, IeShape::Grouped);
    assert_eq!(IeType(0x7fff).name(), "unknown");
}

#[test]
fn message_types_know_their_response() {
    let request = MessageType::SESSION_REPORT_REQUEST;
    assert_eq!(request.response(), Some(MessageType::SESSION_REPORT_RESPONSE));
    assert_eq!(MessageType::HEARTBEAT_RESPONSE.response(), None);
    assert_eq!(MessageType::VERSION_NOT_SUPPORTED_RESPONSE.response(), None);
}
