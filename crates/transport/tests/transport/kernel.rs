//! Streams between two transports of the kernel over the loopback device.

use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use adit_transport::{KernelTcp, KernelWait, StreamId, StreamState, Transport, TransportError};
use adit_types::Nanos;

const LIMIT: Duration = Duration::from_secs(10);

/// Polls until `done`.
fn until(transports: &mut [&mut KernelTcp], mut done: impl FnMut(&mut [&mut KernelTcp]) -> bool) {
    let end = Instant::now() + LIMIT;
    while !done(transports) {
        assert!(Instant::now() < end, "nothing happens");
        for transport in transports.iter_mut() {
            transport.poll(Nanos(0));
            transport.wait(Duration::from_millis(1));
        }
    }
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn pair(wait: KernelWait) -> (KernelTcp, StreamId, KernelTcp, StreamId) {
    let (mut client, mut server) = (KernelTcp::new(wait).unwrap(), KernelTcp::new(wait).unwrap());
    let address = free_address();
    server.listen(address).unwrap();
    let near = client.connect(address).unwrap();
    let mut far = None;
    until(&mut [&mut client, &mut server], |all| {
        far = far.or_else(|| all[1].accept());
        far.is_some() && all[0].state(near) == StreamState::Open
    });
    (client, near, server, far.unwrap())
}

fn octets_arrive_in_order(wait: KernelWait) {
    let (mut client, near, mut server, far) = pair(wait);
    let data: Vec<u8> = (0..3_000_000u32).map(|at| at.to_le_bytes()[0]).collect();
    let (mut sent, mut received) = (0, Vec::new());
    let mut room = [0; 5000];
    until(&mut [&mut client, &mut server], |all| {
        sent += all[0].send(near, &data[sent..]).unwrap();
        let len = all[1].receive(far, &mut room).unwrap();
        received.extend_from_slice(&room[..len]);
        received.len() == data.len()
    });
    assert!(received == data);
    assert_eq!(server.receive(far, &mut room), Ok(0), "nothing more");
    client.close(near);
    assert_eq!(client.send(near, b"x"), Err(TransportError::NoStream));
    let mut end = None;
    until(&mut [&mut server], |all| {
        end = all[0].receive(far, &mut room).err();
        end.is_some()
    });
    assert_eq!(end, Some(TransportError::Ended));
    assert_eq!(server.state(far), StreamState::Closed(TransportError::Ended));
}

#[test]
fn octets_arrive_in_order_when_the_threads_sleep() {
    octets_arrive_in_order(KernelWait::Sleep);
}

#[test]
fn octets_arrive_in_order_when_the_threads_poll() {
    octets_arrive_in_order(KernelWait::Poll);
}

#[test]
fn last_octets_and_the_end_arrive_although_they_come_together() {
    for wait in [KernelWait::Sleep, KernelWait::Poll] {
        let (mut client, near, mut server, far) = pair(wait);
        assert_eq!(client.send(near, b"last"), Ok(4));
        client.close(near);
        let (mut seen, mut room, mut end) = (Vec::new(), [0; 100], None);
        until(&mut [&mut server], |all| {
            match all[0].receive(far, &mut room) {
                Ok(len) => seen.extend_from_slice(&room[..len]),
                Err(error) => end = Some(error),
            }
            end.is_some()
        });
        assert_eq!((&seen[..], end), (&b"last"[..], Some(TransportError::Ended)));
    }
}

#[test]
fn stream_to_an_address_without_server_is_refused() {
    for wait in [KernelWait::Sleep, KernelWait::Poll] {
        let mut client = KernelTcp::new(wait).unwrap();
        let refused = StreamState::Closed(TransportError::Refused);
        match client.connect(free_address()) {
            Err(error) => assert_eq!(error, TransportError::Refused),
            Ok(stream) => until(&mut [&mut client], |all| all[0].state(stream) == refused),
        }
    }
}

#[test]
fn address_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut server = KernelTcp::new(KernelWait::Sleep).unwrap();
    let refused = server.listen(taken.local_addr().unwrap());
    assert_eq!(refused, Err(TransportError::AddressInUse));
}

#[test]
fn sleeping_thread_wakes_up_for_octets_and_not_before() {
    let (mut client, near, mut server, far) = pair(KernelWait::Sleep);
    let mut room = [0; 10];
    // The first events of a socket say that it can be written.
    for _ in 0..3 {
        server.wait(Duration::from_millis(1));
        assert_eq!(server.receive(far, &mut room), Ok(0));
    }
    let before = Instant::now();
    server.wait(Duration::from_millis(50));
    assert!(before.elapsed() >= Duration::from_millis(40), "{:?}", before.elapsed());
    assert_eq!(client.send(near, b"x"), Ok(1));
    server.wait(LIMIT);
    assert_eq!(server.receive(far, &mut room), Ok(1));
}
