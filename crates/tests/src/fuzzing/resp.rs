//! Octets from a peer, in any parts, to both sides of a RESP connection.

use adit_transport::resp::{
    RespClient, RespError, RespLimits, RespServer, RespValue, ValueScanner, write_reply,
};

/// Small limits, so that inputs reach them.
const LIMITS: RespLimits = RespLimits { value_bytes_max: 1000, elements_max: 60 };
/// Commands that wait for replies. The reply after the last one is unsolicited.
const COMMANDS: u32 = 8;

/// The first octet is the length of the parts in which the others arrive. Both sides read the same
/// values whatever it is, each value reads back as it is written, and a violation ends the
/// connection.
pub(super) fn run(data: &[u8]) {
    let Some((&part_len, octets)) = data.split_first() else { return };
    let parts = || octets.chunks(usize::from(part_len).max(1));
    let whole = whole_values(octets);
    let replies = client(parts());
    assert!(replies.len() <= whole.0.len());
    for (reply, value) in replies.iter().zip(&whole.0) {
        assert_eq!(reply, value);
        round_trip(reply);
    }
    server(parts());
}

/// The values in `octets`, each without attributes, and how they end.
fn whole_values(octets: &[u8]) -> (Vec<Vec<u8>>, Option<RespError>) {
    let (mut values, mut rest) = (Vec::new(), octets);
    loop {
        match ValueScanner::default().scan(rest, &LIMITS) {
            Ok(Some(len)) => {
                let (value, behind) = RespValue::read(rest).unwrap().unwrap();
                assert_eq!(behind.len(), rest.len() - len);
                values.push(written(&value));
                rest = behind;
            }
            Ok(None) => return (values, None),
            Err(error) => return (values, Some(error)),
        }
    }
}

fn client<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let mut client = RespClient::new(LIMITS, usize::MAX, usize::MAX);
    for tag in 0..COMMANDS {
        client.command(tag, &[b"GET", b"k"]).unwrap();
    }
    let mut replies = Vec::new();
    for part in parts {
        client.input_room()[..part.len()].copy_from_slice(part);
        client.input_arrived(part.len());
        loop {
            match client.next_reply() {
                Ok(Some(reply)) => {
                    assert_eq!(reply.tag.is_none(), matches!(reply.value, RespValue::Push(_)));
                    replies.push(written(&reply.value));
                }
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(client.next_reply(), Err(error));
                    return replies;
                }
            }
        }
    }
    replies
}

fn server<'a>(parts: impl Iterator<Item = &'a [u8]>) {
    let mut server = RespServer::new(LIMITS);
    for part in parts {
        server.requests.input_room()[..part.len()].copy_from_slice(part);
        server.requests.input_arrived(part.len());
        loop {
            match server.requests.next_command() {
                Ok(Some(command)) => {
                    assert!(command.word_count() > 0);
                    command.words().for_each(|word| server.replies.reply(&RespValue::Bulk(word)));
                }
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(server.requests.next_command(), Err(error));
                    return;
                }
            }
        }
    }
}

fn written(value: &RespValue<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    write_reply(&mut out, value);
    out
}

fn round_trip(octets: &[u8]) {
    let (value, behind) = RespValue::read(octets).unwrap().unwrap();
    assert!(behind.is_empty());
    assert_eq!(written(&value), octets);
}
