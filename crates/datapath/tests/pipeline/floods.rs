//! Floods of GTP-U messages in addition to users' packets and path management.

use adit_rules::{DropReason, WorkerCommand, WorkerEvent};
use adit_testkit::packet::PacketBuilder;
use adit_types::{Nanos, Teid};
use adit_wire::arp::{ArpOperation, ArpPacket, ArpStation};
use adit_wire::gtpu::{ErrorIndication, GtpuMessageType, emit_error_indication};

use crate::fixture::*;

/// Two steps in a millisecond.
const STEPS: u32 = 2000;

/// In each step, so 50,000 a second.
const FLOOD: u32 = 25;

fn from(peer: &str) -> PacketBuilder {
    PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv4(peer, N3_ADDR)
}

fn error_indication(peer: &str, teid: u32) -> Vec<u8> {
    let mut octets = [0; 64];
    let indication = ErrorIndication { teid: Teid(teid), peer: ip(peer) };
    let len = emit_error_indication(&mut octets, &indication, None).unwrap();
    from(peer).udp(2152, 2152).payload(&octets[..len]).build()
}

fn echo(peer: &str, kind: GtpuMessageType, sequence: u16) -> PacketBuilder {
    from(peer).gtpu_message(kind, 0).sequence(sequence)
}

fn recovery(started: u32) -> Vec<u8> {
    [&[231, 0, 4][..], &started.to_be_bytes()].concat()
}

fn stranger(number: u32) -> String {
    let [_, _, hi, lo] = number.to_be_bytes();
    format!("192.168.{}.{}", 11 + hi % 200, lo)
}

/// One second with `flood` packets, 10,000 user packets, an Echo Request of the gNB and one to it
/// every 50 ms, and a control thread that looks every 10 ms. Returns the events.
fn survive(flood: impl Fn(u32) -> Vec<u8>) -> Vec<WorkerEvent> {
    let mut scene = PipelineFixture::new();
    let mut events = Vec::new();
    let (mut forwarded, mut answered) = (0, 0);
    for step in 0..STEPS {
        let asks = step % 100 == 0;
        let sequence = u16::try_from(step / 100 * 7).unwrap();
        if asks {
            let command = WorkerCommand::SendEchoRequest {
                peer: ip(GNB),
                interfaces: adit_types::InterfaceSet::ALL,
                sequence,
                tos: 0,
            };
            scene.commands.push(command).unwrap();
            scene.io.inject(N3, &echo(GNB, GtpuMessageType::ECHO_REQUEST, sequence).build());
        }
        (0..FLOOD).for_each(|n| scene.io.inject(N3, &flood(step * FLOOD + n)));
        (0..5).for_each(|_| scene.io.inject(N3, &uplink().build()));
        if step % 100 == 1 {
            scene.io.inject(N3, &echo(GNB, GtpuMessageType::ECHO_RESPONSE, sequence).build());
        }
        scene.now += Nanos(500_000);
        scene.step();
        forwarded += scene.sent(N6).len();
        let answers = scene.sent(N3);
        answered += answers.iter().filter(|frame| frame[43] == 2).count();
        if step % 20 == 19 {
            events.extend(scene.take_events());
        }
    }
    assert_eq!(forwarded, 10_000, "no user packet is lost");
    assert_eq!(answered, 20, "every Echo Request is answered");
    let taken = |event: &&WorkerEvent| {
        matches!(event, WorkerEvent::EchoResponse { peer, sequence, .. }
            if *peer == ip(GNB) && sequence % 7 == 0)
    };
    assert_eq!(events.iter().filter(taken).count(), 20, "every Echo Response is taken");
    assert_eq!(scene.dropped(DropReason::SlowQueueFull), 0);
    assert_eq!(scene.counts().events_lost, 0);
    events
}

fn count(events: &[WorkerEvent], which: impl Fn(&WorkerEvent) -> bool) -> usize {
    events.iter().filter(|event| which(event)).count()
}

#[test]
fn error_indications_of_strangers_take_nothing_from_others() {
    let events = survive(|n| match n % 1000 {
        0 => error_indication(GNB, n),
        _ => error_indication(&stranger(n), n),
    });
    let told = |peer: core::net::IpAddr| move |event: &WorkerEvent| matches!(event, WorkerEvent::ErrorIndication { peer: of, .. } if *of == peer);
    let of_gnb = count(&events, told(ip(GNB)));
    assert_eq!(of_gnb, 50, "all of the peer's own");
    let all = count(&events, |event| matches!(event, WorkerEvent::ErrorIndication { .. }));
    assert!((100..=150).contains(&(all - of_gnb)), "{all}");
}

#[test]
fn error_indications_in_the_name_of_the_peer_do_not_fail_its_path() {
    let events = survive(|n| error_indication(GNB, n));
    let all = count(&events, |event| matches!(event, WorkerEvent::ErrorIndication { .. }));
    assert!((900..=1100).contains(&all), "{all}");
}

#[test]
fn forged_echo_responses_are_not_reported() {
    let events = survive(|n| {
        let sequence = u16::try_from(n % 9000).unwrap() * 7 + 1;
        let peer = if n % 2 == 0 { GNB.to_owned() } else { stranger(n) };
        echo(&peer, GtpuMessageType::ECHO_RESPONSE, sequence).build()
    });
    let of_gnb = |event: &WorkerEvent| matches!(event, WorkerEvent::EchoResponse { peer, .. } if *peer == ip(GNB));
    assert_eq!(count(&events, of_gnb), 20, "its own only");
    let all = count(&events, |event| matches!(event, WorkerEvent::EchoResponse { .. }));
    assert!(all <= 20 + 150, "{all}");
}

#[test]
fn echo_requests_and_packets_without_a_session_take_nothing_from_others() {
    let events = survive(|n| match n % 3 {
        0 => from(&stranger(n)).gtpu(0xdead_0000 + n).ipv4(UE, SERVER).udp(1, 2).build(),
        1 => from(GNB).gtpu_message(GtpuMessageType::END_MARKER, TEID).build(),
        _ => echo(&stranger(n), GtpuMessageType::ERROR_INDICATION, 3).payload(&[16, 0]).build(),
    });
    let ends = count(&events, |event| matches!(event, WorkerEvent::EndMarker { .. }));
    assert!((900..=1100).contains(&ends), "{ends}");
    let events = survive_requests();
    let hints = count(&events, |event| matches!(event, WorkerEvent::EchoRequest { .. }));
    assert!((900..=1100).contains(&hints), "of the peer alone, not of strangers: {hints}");
}

/// Echo Requests that carry a start time of their senders, by strangers and in the peer's name;
/// their answers have other sequence numbers than those that are counted.
fn survive_requests() -> Vec<WorkerEvent> {
    let mut scene = PipelineFixture::new();
    let mut events = Vec::new();
    for step in 0..STEPS {
        for n in 0..FLOOD {
            let peer = if n % 2 == 0 { GNB.to_owned() } else { stranger(n + step) };
            let request = echo(&peer, GtpuMessageType::ECHO_REQUEST, 1);
            scene.io.inject(N3, &request.payload(&recovery(step)).build());
        }
        (0..5).for_each(|_| scene.io.inject(N3, &uplink().build()));
        scene.now += Nanos(500_000);
        scene.step();
        assert_eq!(scene.sent(N6).len(), 5);
        assert_eq!(scene.sent(N3).len(), FLOOD as usize, "all are answered");
        if step % 20 == 19 {
            events.extend(scene.take_events());
        }
    }
    events
}

/// ARP in the name of the gNB, as a reply to us and as an announcement.
#[test]
fn forged_arp_takes_nothing_from_others() {
    let events = survive(|n| {
        let [.., hi, lo] = n.to_be_bytes();
        let mac = adit_types::MacAddr([2, 0xee, 0, 0, hi, lo]);
        let sender = ArpStation { mac, addr: v4(GNB) };
        let target = ArpStation { mac: N3_MAC, addr: v4(if n % 2 == 0 { N3_ADDR } else { GNB }) };
        let mut payload = [0; 28];
        ArpPacket::new(ArpOperation::REPLY, sender, target).emit(&mut payload).unwrap();
        PacketBuilder::ethernet(N3_MAC, mac).ether_type(0x0806).payload(&payload).build()
    });
    let claims = count(&events, |event| matches!(event, WorkerEvent::NeighborLearned { .. }));
    assert!((900..=1100).contains(&claims), "{claims}");
}
