//! A client against scripted servers, and against the server's side of the room.

use adit_transport::resp::{
    CommandRefusal, RespClient, RespError, RespLimits, RespReply, RespServer, RespValue,
};

fn client() -> RespClient<u32> {
    RespClient::new(RespLimits::default(), 4, 1000)
}

fn arrive(client: &mut RespClient<u32>, octets: &[u8]) {
    for part in octets.chunks(7) {
        client.input_room()[..part.len()].copy_from_slice(part);
        client.input_arrived(part.len());
    }
}

#[test]
fn replies_pair_with_commands_in_their_order_and_pushes_with_none() {
    let mut client = client();
    for tag in 0..3 {
        client.command(tag, &[b"GET", b"k"]).unwrap();
    }
    let sent = client.output().len();
    client.output_sent(sent);
    assert!(client.output().is_empty());
    arrive(&mut client, b"$2\r\nv0\r\n>1\r\n+news\r\n-ERR no\r\n$2\r");
    let reply = client.next_reply().unwrap().unwrap();
    assert_eq!(reply, RespReply { tag: Some(0), value: RespValue::Bulk(b"v0") });
    let push = client.next_reply().unwrap().unwrap();
    assert!(push.tag.is_none() && matches!(push.value, RespValue::Push(_)));
    let reply = client.next_reply().unwrap().unwrap();
    assert_eq!(reply, RespReply { tag: Some(1), value: RespValue::Error(b"ERR no") });
    assert_eq!(client.next_reply(), Ok(None));
    assert_eq!(client.in_flight(), 1);
}

#[test]
fn client_refuses_more_than_its_bounds() {
    let mut client = client();
    for tag in 0..4 {
        client.command(tag, &[b"PING"]).unwrap();
    }
    assert_eq!(client.command(4, &[b"PING"]), Err(CommandRefusal::InFlight(4)));
    let mut client = self::client();
    client.command(0, &[b"SET", b"k", &[0; 800]]).unwrap();
    let waiting = client.output().len();
    assert_eq!(
        client.command(1, &[b"SET", b"k", &[0; 400]]),
        Err(CommandRefusal::OutputFull(waiting))
    );
    client.output_sent(waiting);
    client.command(1, &[b"SET", b"k", &[0; 400]]).unwrap();
}

#[test]
fn client_stays_broken_after_a_violation() {
    for (octets, error) in [
        (&b"+OK\r\n+OK\r\n"[..], RespError::Unsolicited),
        (b"+OK\r\nHTTP/1.1 400\r\n", RespError::UnknownType(b'H')),
    ] {
        let mut client = client();
        client.command(0, &[b"PING"]).unwrap();
        arrive(&mut client, octets);
        assert_eq!(client.next_reply().unwrap().unwrap().tag, Some(0));
        assert_eq!(client.next_reply(), Err(error));
        assert_eq!(client.next_reply(), Err(error));
        assert_eq!(client.command(1, &[b"PING"]), Err(CommandRefusal::Broken(error)));
    }
}

#[test]
fn large_replies_grow_the_buffer_and_many_small_ones_do_not() {
    let mut client = client();
    let value = vec![b'v'; 300_000];
    client.command(0, &[b"GET", b"k"]).unwrap();
    arrive(&mut client, &[&b"$300000\r\n"[..], &value, b"\r\n"].concat());
    let reply = client.next_reply().unwrap().unwrap();
    assert_eq!(reply.value, RespValue::Bulk(&value));
    let mut client = self::client();
    for tag in 0..100_000u32 {
        client.command(tag, &[b"PING"]).unwrap();
        let sent = client.output().len();
        client.output_sent(sent);
        arrive(&mut client, b"+PONG\r\n");
        assert_eq!(client.next_reply().unwrap().unwrap().tag, Some(tag));
    }
    assert!(client.input_room().len() <= 32 * 1024);
}

#[test]
fn server_reads_what_the_client_writes_and_answers_in_order() {
    let mut client = client();
    let mut server = RespServer::new(RespLimits::default());
    client.command(0, &[b"SET", b"k", b"a\r\nb"]).unwrap();
    client.command(1, &[b"ECHO", b"x"]).unwrap();
    for part in client.output().chunks(5) {
        server.requests.input_room()[..part.len()].copy_from_slice(part);
        server.requests.input_arrived(part.len());
    }
    let mut seen = Vec::new();
    while let Some(command) = server.requests.next_command().unwrap() {
        let words: Vec<&[u8]> = command.words().collect();
        assert_eq!(words.len(), command.word_count() as usize);
        server.replies.reply(&RespValue::Bulk(words.last().unwrap()));
        seen.push(words.concat());
    }
    assert_eq!(seen, [&b"SETka\r\nb"[..], b"ECHOx"]);
    let output = server.replies.output().to_vec();
    server.replies.output_sent(output.len());
    arrive(&mut client, &output);
    assert_eq!(client.next_reply().unwrap().unwrap().value, RespValue::Bulk(b"a\r\nb"));
    assert_eq!(client.next_reply().unwrap().unwrap().value, RespValue::Bulk(b"x"));
}

#[test]
fn server_refuses_what_is_no_command() {
    for octets in [&b"+PING\r\n"[..], b"*0\r\n", b"*1\r\n:1\r\n", b"*-1\r\n", b">1\r\n$1\r\na\r\n"]
    {
        let mut server = RespServer::new(RespLimits::default());
        server.requests.input_room()[..octets.len()].copy_from_slice(octets);
        server.requests.input_arrived(octets.len());
        assert_eq!(server.requests.next_command(), Err(RespError::NotACommand));
        assert_eq!(server.requests.next_command(), Err(RespError::NotACommand));
    }
}
