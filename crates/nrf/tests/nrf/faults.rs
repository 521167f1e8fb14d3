//! NRFs that answer wrong, too much, too slowly or not at all: each costs its own request only.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use adit_nrf::{ClientEnd, NrfPhase};

use super::{Misbehavior, client_of, config, is_registered, started, strict, wait};

/// An empty SETTINGS frame. Spec: RFC 9113 §6.5.
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
/// A PING frame. Spec: RFC 9113 §6.7.
const PING: &[u8] = &[0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
/// GOAWAY with ENHANCE_YOUR_CALM and debug data. Spec: RFC 9113 §6.8.
const GOAWAY: &[u8] = &[0, 0, 12, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11, 27, b'[', b'2', b'J'];
/// HEADERS of stream 1 that do not end. Spec: RFC 9113 §6.2.
const HEADERS: &[u8] = &[0, 0, 1, 1, 0, 0, 0, 0, 1, 0x88];

/// Starts a server that calls `serve` for each connection; returns its URI.
fn server(serve: impl Fn(TcpStream) + Send + Sync + Copy + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            std::thread::spawn(move || serve(stream));
        }
    });
    uri
}

/// Reads until the client has ended the connection.
fn read_all(stream: &mut TcpStream) {
    let mut room = [0; 4096];
    while stream.read(&mut room).is_ok_and(|read| read > 0) {}
}

/// Returns a CONTINUATION frame of the largest size, whose fields never end.
fn continuation() -> Vec<u8> {
    // A field without indexing: name "a", value of 100 octets.
    let field: Vec<u8> = [&[0, 1, b'a', 100][..], &[b'x'; 100]].concat();
    let fields = field.repeat(150);
    let length = u32::try_from(fields.len()).unwrap().to_be_bytes();
    [&length[1..], &[9, 0, 0, 0, 0, 1], &fields].concat()
}

/// Returns the problem that the client has with the NRF `bad`, once the next NRF has the
/// registration.
fn problem_of(bad: String) -> String {
    let good = strict(10);
    let began = Instant::now();
    let client = started(config(&[bad, good.uri()]));
    let state = wait(&client, "registered at the second", is_registered);
    assert_eq!(state.server, Some(1));
    assert!(began.elapsed() < Duration::from_secs(12));
    client.end(ClientEnd::Deregister);
    assert!(good.profiles().is_empty());
    good.assert_content();
    state.servers[0].problem.clone().unwrap()
}

#[test]
fn connection_that_is_closed_at_once_is_a_problem_of_its_nrf() {
    let problem = problem_of(server(drop));
    assert!(problem.starts_with("ends the connection before it answers ("), "{problem}");
}

#[test]
fn server_without_http2_is_named() {
    let answer = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
    let problem = problem_of(server(|mut stream| {
        stream.write_all(answer).unwrap();
        read_all(&mut stream);
    }));
    assert!(problem.starts_with("violates HTTP/2 ("), "{problem}");
}

#[test]
fn goaway_ends_the_request_and_its_text_is_masked() {
    let problem = problem_of(server(|mut stream| {
        stream.write_all(&[SETTINGS, GOAWAY].concat()).unwrap();
        read_all(&mut stream);
    }));
    assert!(problem.starts_with("violates HTTP/2 ("), "{problem}");
    assert!(!problem.contains('\u{1b}'), "{problem:?}");
}

#[test]
fn silent_nrf_costs_its_time_only() {
    assert_eq!(problem_of(server(|mut stream| read_all(&mut stream))), "does not answer in time");
}

#[test]
fn flood_of_pings_ends_with_the_time_of_the_request() {
    let problem = problem_of(server(|mut stream| {
        let pings = PING.repeat(1000);
        let mut reader = stream.try_clone().unwrap();
        std::thread::spawn(move || read_all(&mut reader));
        stream.write_all(SETTINGS).unwrap();
        while stream.write_all(&pings).is_ok() {}
    }));
    let is_named = problem == "does not answer in time" || problem.starts_with("violates HTTP/2");
    assert!(is_named, "{problem}");
}

#[test]
fn fields_without_end_are_refused() {
    let problem = problem_of(server(|mut stream| {
        let mut reader = stream.try_clone().unwrap();
        std::thread::spawn(move || read_all(&mut reader));
        stream.write_all(SETTINGS).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        stream.write_all(HEADERS).unwrap();
        let continuation = continuation();
        while stream.write_all(&continuation).is_ok() {}
    }));
    assert!(problem.starts_with("violates HTTP/2 ("), "{problem}");
}

#[test]
fn name_that_no_resolver_knows_is_a_problem_with_advice() {
    let problem = problem_of("http://nrf.invalid:7777".to_owned());
    assert!(problem.contains("check nrf.servers and the resolver"), "{problem}");
}

#[test]
fn body_beyond_the_limit_is_no_answer() {
    let nrf = strict(10);
    let huge = Misbehavior::Answer {
        status: 201,
        fields: vec![("content-type", "application/json".to_owned())],
        body: vec![b' '; 1 << 20].into(),
    };
    nrf.misbehave([huge]);
    let client = client_of(&[&nrf]);
    let state = wait(&client, "refused", |state| state.servers[0].problem.is_some());
    assert!(state.servers[0].problem.as_ref().unwrap().contains("more than 64 KiB"));
    wait(&client, "registered afterwards", is_registered);
    client.end(ClientEnd::Deregister);
}

#[test]
fn body_that_is_no_profile_costs_nothing() {
    for body in ["", "<html>", "[[[[", r#"{"heartBeatTimer":{}}"#] {
        let nrf = strict(10);
        let (status, fields) = (201, vec![("location", "::::".to_owned())]);
        nrf.misbehave([Misbehavior::Answer { status, fields, body: body.into() }]);
        let client = client_of(&[&nrf]);
        let state = wait(&client, "registered", is_registered);
        assert_eq!(state.heartbeat.map(|span| span.to_duration()), Some(Duration::from_secs(10)));
        client.end(ClientEnd::Deregister);
        assert_eq!(nrf.count("DELETE"), 1);
    }
}

#[test]
fn stream_that_is_reset_is_repeated_after_a_pause() {
    let nrf = strict(2);
    nrf.misbehave([Misbehavior::Reset]);
    let client = client_of(&[&nrf]);
    wait(&client, "registered", is_registered);
    nrf.misbehave([Misbehavior::Reset]);
    nrf.wait("a heartbeat", |nrf| nrf.count("PATCH") >= 2);
    assert_eq!(wait(&client, "counted", |state| state.counters.updates >= 1).counters.failures, 2);
    assert_eq!(nrf.count("PUT"), 2);
    client.end(ClientEnd::Deregister);
}

#[test]
fn end_does_not_wait_for_a_silent_nrf() {
    let nrf = strict(10);
    nrf.misbehave([Misbehavior::Silence, Misbehavior::Silence]);
    let client = client_of(&[&nrf]);
    nrf.wait("a registration", |nrf| nrf.count("PUT") == 1);
    assert_eq!(client.state().phase, NrfPhase::Registering);
    let began = Instant::now();
    client.end(ClientEnd::Deregister);
    assert!(began.elapsed() < Duration::from_secs(4));
    assert_eq!(nrf.count("DELETE"), 1, "the registration may have arrived");
}

#[test]
fn announcements_never_wait_for_the_network() {
    let client = started(config(&[server(|mut stream| read_all(&mut stream))]));
    let began = Instant::now();
    for load in 0..10_000_u32 {
        let load = u8::try_from(load % 100).unwrap();
        client.announce(adit_nrf::Announcement { load, ..super::announcement() });
        let _ = client.state();
    }
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    client.end(ClientEnd::Keep);
}
