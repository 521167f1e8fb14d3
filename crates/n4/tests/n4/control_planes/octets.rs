//! Messages octet by octet, as control planes send them.

use adit_n4::Transmit;
use adit_pfcp::ie::FTeid;
use adit_pfcp::message::{SessionEstablishmentResponse, SessionModificationResponse};
use adit_pfcp::{Cause, IeType, Message};
use adit_rules::SessionRules;
use adit_types::{PdrId, Seid};

use crate::smf::*;

/// SEID of the control plane in all sessions here.
pub(crate) const CP_SEID: u64 = 0xc1;

/// F-SEID of the control plane.
pub(crate) const CP_F_SEID: &str = "02 00000000000000c1 c000020a";

/// Octets of a text of hexadecimal digits; white space is skipped.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    let octet = |pair: &[u32]| u8::try_from(pair[0] << 4 | pair[1]).unwrap();
    digits.chunks_exact(2).map(octet).collect()
}

/// An IE with the octets `value`.
pub(crate) fn octets(ie: IeType, value: &[u8]) -> Vec<u8> {
    let len = u16::try_from(value.len()).unwrap();
    [&ie.0.to_be_bytes()[..], &len.to_be_bytes(), value].concat()
}

/// An IE with a value in hexadecimal digits.
pub(crate) fn ie(ie: IeType, value: &str) -> Vec<u8> {
    octets(ie, &hex(value))
}

/// A grouped IE.
pub(crate) fn group<const N: usize>(ie: IeType, members: [Vec<u8>; N]) -> Vec<u8> {
    octets(ie, &members.concat())
}

/// An SDF filter with a flow description alone.
pub(crate) fn sdf(text: &str) -> Vec<u8> {
    let len = u16::try_from(text.len()).unwrap();
    octets(IeType::SDF_FILTER, &[&[1, 0], &len.to_be_bytes()[..], text.as_bytes()].concat())
}

/// A network instance as the labels of a domain name.
pub(crate) fn labels(name: &str) -> Vec<u8> {
    let len = u8::try_from(name.len()).unwrap();
    octets(IeType::NETWORK_INSTANCE, &[&[len], name.as_bytes()].concat())
}

/// A network instance as text.
pub(crate) fn text(name: &str) -> Vec<u8> {
    octets(IeType::NETWORK_INSTANCE, name.as_bytes())
}

/// A message with a SEID. `first` and `last` are the first and the last octet of its header.
pub(crate) fn with_header(
    (first, last): (u8, u8),
    message_type: u8,
    (seid, sequence): (Seid, u32),
    ies: &[Vec<u8>],
) -> Vec<u8> {
    let [_, s0, s1, s2] = sequence.to_be_bytes();
    let body = ies.concat();
    let len = u16::try_from(body.len() + 12).unwrap();
    [
        &[first, message_type][..],
        &len.to_be_bytes(),
        &seid.0.to_be_bytes(),
        &[s0, s1, s2, last],
        &body,
    ]
    .concat()
}

/// A Session Establishment Request with Node ID and F-SEID in front of `ies`.
pub(crate) fn establishment(sequence: u32, ies: &[Vec<u8>]) -> Vec<u8> {
    let names = [ie(IeType::NODE_ID, "00 c000020a"), ie(IeType::F_SEID, CP_F_SEID)];
    with_header((0x21, 0), 50, (Seid(0), sequence), &[&names, ies].concat())
}

/// A Session Modification Request.
pub(crate) fn modification(sequence: u32, up_seid: Seid, ies: &[Vec<u8>]) -> Vec<u8> {
    with_header((0x21, 0), 52, (up_seid, sequence), ies)
}

pub(crate) fn established(bytes: &[u8]) -> SessionEstablishmentResponse<'_> {
    let Message::SessionEstablishmentResponse(body) = decode(bytes) else { panic!() };
    body
}

pub(crate) fn modified(bytes: &[u8]) -> SessionModificationResponse<'_> {
    let Message::SessionModificationResponse(body) = decode(bytes) else { panic!() };
    body
}

/// The result of an accepted request.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub up_seid: Seid,
    /// PDRs of the answer and their F-TEIDs.
    pub created: Vec<(PdrId, FTeid)>,
    /// The rules that workers run now; `None` when nothing changes for packets.
    pub rules: Option<Box<SessionRules>>,
    pub answer: Vec<u8>,
}

impl Outcome {
    pub(crate) fn rules(&self) -> &SessionRules {
        self.rules.as_deref().unwrap()
    }

    /// The TEIDs of the answer.
    pub(crate) fn teids(&self) -> Vec<adit_types::Teid> {
        let teid = |(_, f_teid): &(PdrId, FTeid)| match f_teid {
            FTeid::Given { teid, .. } => *teid,
            FTeid::Choose { .. } => panic!(),
        };
        self.created.iter().map(teid).collect()
    }
}

/// Runs a session request that must be accepted.
#[track_caller]
pub(crate) fn accepted(bench: &mut Bench, request: &[u8]) -> Outcome {
    bench.node.handle_datagram(bench.now, smf(10), request);
    let published = bench.node.poll_delta();
    let rules = published.and_then(|(id, delta)| {
        bench.node.handle_published(bench.now, id);
        delta.rules
    });
    let answer = bench.sent().pop().unwrap().bytes;
    let (cause, created, up_f_seid) = match decode(&answer) {
        Message::SessionEstablishmentResponse(body) => {
            (body.cause, body.created_pdrs, body.up_f_seid)
        }
        Message::SessionModificationResponse(body) => (body.cause, body.created_pdrs, None),
        other => panic!("{other:?}"),
    };
    assert_eq!(cause, Cause::RequestAccepted, "{:?}", decode(&answer));
    let f_teid =
        |pdr: adit_pfcp::grouped::CreatedPdr<'_>| Some((pdr.pdr_id, pdr.local_f_teids.first()?));
    let created = created.iter().filter_map(f_teid).collect();
    let up_seid = up_f_seid.map_or(Seid(0), |up| up.seid);
    Outcome { up_seid, created, rules, answer }
}

/// The Cause of a refused session request; nothing is published.
#[track_caller]
pub(crate) fn refused(bench: &mut Bench, request: &[u8]) -> (Cause, Option<IeType>) {
    bench.node.handle_datagram(bench.now, smf(10), request);
    assert!(bench.node.poll_delta().is_none());
    let answer = bench.sent().pop().unwrap().bytes;
    let (cause, ie) = match decode(&answer) {
        Message::SessionEstablishmentResponse(body) => (body.cause, body.offending_ie),
        Message::SessionModificationResponse(body) => (body.cause, body.offending_ie),
        other => panic!("{other:?}"),
    };
    (cause, ie.map(|ie| IeType(ie.0)))
}

/// The values of the IEs of one type in the body of a message, not in its groups.
pub(crate) fn values(message: &[u8], ie: IeType) -> Vec<&[u8]> {
    let ies = adit_pfcp::IeIter::new(raw(message).body).flatten();
    ies.filter(|found| found.ie_type == ie).map(|found| found.value).collect()
}

/// The sent messages of one message type.
pub(crate) fn of_type(sent: &[Transmit], message_type: u8) -> Vec<&Transmit> {
    sent.iter().filter(|sent| sent.bytes[1] == message_type).collect()
}
