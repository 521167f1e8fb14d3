//! The PFCP codec.

use adit_pfcp::ie::{Ie, PfdContents};
use adit_pfcp::{Ignored, Message, PfcpDatagram, PfcpWriter, RawMessage};

use super::leaves;

/// Datagrams: a message that decodes can be walked, and decodes to the same after encoding.
pub(super) fn message(data: &[u8]) {
    let mut buf = vec![0; 2 * data.len() + 64];
    for raw in PfcpDatagram::new(data).flatten() {
        let Ok(message) = Message::decode(&raw) else { continue };
        let written =
            PfcpWriter::new(&mut buf).message_with(&raw.header, |w| message.encode_body(w));
        // IEs can become longer by encoding, and then exceed a length of 65,535.
        let Ok(len) = written else { continue };
        let again = only(&buf[..len]);
        assert_eq!(again.header.message_type, raw.header.message_type);
        let again = Message::decode(&again).expect("what was encoded decodes");
        assert_eq!(message, again);
        assert_eq!(message.message_type(), again.message_type());
        walk_ignored(&message);
    }
}

fn only(octets: &[u8]) -> RawMessage<'_> {
    let mut datagram = PfcpDatagram::new(octets);
    let header_and_body = datagram.next().expect("a message").expect("a header");
    // Follow On announces another message, which is absent.
    assert!(datagram.next().is_none_or(|next| next.is_err()));
    header_and_body
}

fn walk_ignored(message: &Message<'_>) {
    let ignored: &Ignored<'_> = match message {
        Message::SessionEstablishmentRequest(m) => &m.ignored,
        Message::SessionModificationRequest(m) => &m.ignored,
        Message::AssociationSetupRequest(m) => &m.ignored,
        _ => return,
    };
    assert_eq!(ignored.iter().count(), usize::from(ignored.count()));
}

/// Every leaf IE with the same octets.
pub(super) fn leaf_ies(data: &[u8]) {
    // Every prefix of every prefix is tried for every IE.
    leaves::check_all(&data[..data.len().min(48)]);
}

/// The contents of a PFD and the flow description in them.
pub(super) fn pfd_contents(data: &[u8]) {
    let Ok(contents) = PfdContents::decode(data) else { return };
    let mut buf = vec![0; data.len() + 2];
    let mut w = PfcpWriter::new(&mut buf);
    contents.encode(&mut w).expect("no longer than what was decoded");
    let len = w.len();
    assert_eq!(PfdContents::decode(&buf[..len]), Ok(contents));
    assert_eq!(&buf[2..len], &data[2..len]);
    if let Some(text) = contents.flow_description {
        super::text::flow_description(text);
    }
}
