//! FARs that redirect to addresses and to URLs.

use std::net::IpAddr;

use adit_rules::{
    DeltaId, DropReason, Gate, KeyChange, PuntReason, Redirect, RuleDelta, SessionKey,
    SessionRules, UeAddresses,
};
use adit_testkit::packet::PacketBuilder;
use adit_types::limits::REDIRECT_URL_BYTES_MAX;
use adit_types::{Seid, SessionIndex, Teid};
use adit_wire::checksum::{Sum, pseudo_ipv4, pseudo_ipv6};
use adit_wire::parse_ip;
use adit_wire::tcp::{TcpFields, TcpHeader};

use crate::fixture::*;

const PORTAL: &str = "203.0.113.80";
const PORTAL_V6: &str = "2001:db8:80::80";
const URL: &str = "http://portal.example/login?from=adit";
const ACK: u8 = TcpHeader::ACK;
const SYN: u8 = TcpHeader::SYN;
const FIN: u8 = TcpHeader::FIN;

fn redirecting(position: usize, redirect: Redirect) -> SessionRules {
    let mut rules = rules();
    rules.fars[position].redirect = Some(Box::new(redirect));
    rules
}

fn to_url() -> SessionRules {
    redirecting(0, Redirect::Url(URL.into()))
}

fn both(v4: &str, v6: &str, port: Option<u16>) -> Redirect {
    Redirect::Address { v4: Some(v4.parse().unwrap()), v6: Some(v6.parse().unwrap()), port }
}

/// The uplink packet of `inner` leaves as `expected` does when it is built from scratch.
#[track_caller]
fn assert_leaves(
    redirect: Redirect,
    inner: impl Fn(PacketBuilder) -> PacketBuilder,
    expected: impl Fn(PacketBuilder) -> PacketBuilder,
) {
    let mut scene = PipelineFixture::with(redirecting(0, redirect));
    let sent = scene.pass(N3, &inner(tunneled()).build(), N6);
    assert_eq!(sent, [expected(PacketBuilder::ethernet(GATEWAY_MAC, N6_MAC)).build()]);
}

#[test]
fn destination_of_uplink_packets_is_replaced_with_right_checksums() {
    let portal = || both(PORTAL, PORTAL_V6, None);
    let (v4, v6) = (PORTAL, PORTAL_V6);
    for end in [
        (|b: PacketBuilder| b.udp(4000, 53).payload(b"question")) as fn(PacketBuilder) -> _,
        |b| b.tcp(4000, 443, SYN),
        |b| b.icmp_echo(1, 2).payload(b"odd"),
        |b| b.protocol(50).payload(&[1, 2, 3, 4, 5]),
    ] {
        let from = |b: PacketBuilder| end(b.ipv4(UE, SERVER));
        assert_leaves(portal(), from, |b| end(b.ipv4(UE, v4).ttl(63)));
        let from = |b: PacketBuilder| end(b.ipv6(UE_V6, SERVER_V6));
        assert_leaves(portal(), from, |b| end(b.ipv6(UE_V6, v6).ttl(63)));
    }
    let from = |b: PacketBuilder| b.ipv4(UE, SERVER).udp(4000, 53).no_checksum();
    assert_leaves(portal(), from, |b| b.ipv4(UE, v4).ttl(63).udp(4000, 53).no_checksum());
}

#[test]
fn port_is_replaced_with_and_without_an_address() {
    let from = |b: PacketBuilder| b.ipv4(UE, SERVER).tcp(4000, 443, SYN);
    let expected = |b: PacketBuilder| b.ipv4(UE, PORTAL).ttl(63).tcp(4000, 8080, SYN);
    assert_leaves(both(PORTAL, PORTAL_V6, Some(8080)), from, expected);
    let port_only = Redirect::Address { v4: None, v6: None, port: Some(8080) };
    let expected = |b: PacketBuilder| b.ipv4(UE, SERVER).ttl(63).tcp(4000, 8080, SYN);
    assert_leaves(port_only.clone(), from, expected);
    let echo = |b: PacketBuilder| b.ipv4(UE, SERVER).icmp_echo(1, 2);
    assert_leaves(port_only, echo, |b| b.ipv4(UE, SERVER).ttl(63).icmp_echo(1, 2));
}

#[test]
fn later_fragment_gets_the_address_and_keeps_its_octets() {
    let end = |b: PacketBuilder| b.protocol(17).fragment(7, 3, false).payload(&[1; 24]);
    let from = |b: PacketBuilder| end(b.ipv4(UE, SERVER));
    assert_leaves(both(PORTAL, PORTAL_V6, Some(9)), from, |b| end(b.ipv4(UE, PORTAL).ttl(63)));
}

#[test]
fn source_of_downlink_packets_is_replaced_so_that_a_connection_works() {
    let mut scene = PipelineFixture::with(redirecting(1, both(SERVER, SERVER_V6, Some(443))));
    let answer = from_gateway().ipv4(PORTAL, UE).tcp(8080, 4000, SYN | ACK).build();
    let sent = scene.pass(N6, &answer, N3);
    let outer = PacketBuilder::ethernet(GNB_MAC, N3_MAC).ipv4(N3_ADDR, GNB).dont_fragment();
    let inner = outer.gtpu(GNB_TEID).psc_dl(9, false).ipv4(SERVER, UE).ttl(63);
    assert_eq!(sent, [inner.tcp(443, 4000, SYN | ACK).build()]);
}

#[test]
fn packet_of_a_family_without_an_address_is_dropped() {
    let v4_only = Redirect::Address { v4: Some(v4(PORTAL)), v6: None, port: None };
    let mut scene = PipelineFixture::with(redirecting(0, v4_only));
    let frame = tunneled().ipv6(UE_V6, SERVER_V6).udp(1, 2).build();
    scene.assert_drops(N3, &frame, DropReason::RedirectUnmatched);
}

/// One end of a connection from the UE's port 4000 to a server's port 80.
struct HttpClient {
    scene: PipelineFixture,
    ue: IpAddr,
    server: IpAddr,
}

/// A segment as it came back.
#[derive(Debug, PartialEq, Eq)]
struct HttpAnswer {
    sequence: u32,
    acknowledgment: u32,
    flags: u8,
    data: Vec<u8>,
}

fn pseudo(src: IpAddr, dst: IpAddr, len: usize) -> Sum {
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => pseudo_ipv4(src, dst, 6, len.try_into().unwrap()),
        (IpAddr::V6(src), IpAddr::V6(dst)) => pseudo_ipv6(src, dst, 6, len.try_into().unwrap()),
        _ => unreachable!("of one family"),
    }
}

impl HttpClient {
    fn new(rules: SessionRules, ue: &str, server: &str) -> Self {
        Self { scene: PipelineFixture::with(rules), ue: ip(ue), server: ip(server) }
    }

    fn frame(&self, dst_port: u16, flags: u8, (seq, ack): (u32, u32), data: &[u8]) -> Vec<u8> {
        let fields = TcpFields {
            src_port: 4000,
            dst_port,
            sequence: seq,
            acknowledgment: ack,
            flags,
            window: 1000,
            mss: None,
        };
        let mut segment = vec![0; 20];
        segment.extend_from_slice(data);
        fields.emit(&mut segment, pseudo(self.ue, self.server, 20 + data.len())).unwrap();
        let ip = match (self.ue, self.server) {
            (IpAddr::V4(ue), IpAddr::V4(server)) => tunneled().ipv4(ue, server),
            (IpAddr::V6(ue), IpAddr::V6(server)) => tunneled().ipv6(ue, server),
            _ => unreachable!("of one family"),
        };
        ip.protocol(6).payload(&segment).build()
    }

    /// Sends one segment to port 80; returns the frames that come back through the UE's tunnel.
    fn send(&mut self, flags: u8, numbers: (u32, u32), data: &[u8]) -> Option<HttpAnswer> {
        let frame = self.frame(80, flags, numbers, data);
        self.scene.io.inject(N3, &frame);
        self.scene.step();
        assert!(self.scene.sent(N6).is_empty(), "nothing reaches the data network");
        let mut sent = self.scene.sent(N3);
        assert!(sent.len() <= 1);
        let frame = sent.pop()?;
        // Ethernet, IPv4, UDP, GTP-U with PDU Session Container.
        let packet = &frame[14 + 20 + 8 + 16..];
        assert_eq!(frame[46..50], GNB_TEID.to_be_bytes());
        let header = parse_ip(packet, true).unwrap();
        assert_eq!((header.addrs.src(), header.addrs.dst()), (self.server, self.ue));
        assert_eq!(usize::from(header.total_len), packet.len());
        let segment = header.payload(packet);
        let sum = pseudo(self.server, self.ue, segment.len()).bytes(segment);
        assert_eq!(sum.checksum(), 0);
        let (tcp, data) = TcpHeader::parse(segment).unwrap();
        assert_eq!((tcp.src_port(), tcp.dst_port()), (80, 4000));
        Some(HttpAnswer {
            sequence: tcp.sequence(),
            acknowledgment: tcp.acknowledgment(),
            flags: tcp.flags(),
            data: data.to_vec(),
        })
    }
}

#[test]
fn request_of_a_redirected_ue_is_answered_with_the_location() {
    for (ue, server) in [(UE, SERVER), (UE_V6, SERVER_V6)] {
        let mut client = HttpClient::new(to_url(), ue, server);
        let syn = client.send(SYN, (100, 0), b"").unwrap();
        assert_eq!((syn.flags, syn.acknowledgment), (SYN | ACK, 101));
        let first = syn.sequence.wrapping_add(1);
        assert_eq!(client.send(ACK, (101, first), b""), None);
        let page = client.send(ACK, (101, first), b"GET / HTTP/1.1\r\n\r\n").unwrap();
        assert_eq!((page.sequence, page.acknowledgment), (first, 119));
        assert_eq!(page.flags, ACK | TcpHeader::PSH | FIN);
        let text = String::from_utf8(page.data).unwrap();
        let location = format!("HTTP/1.1 302 Found\r\nLocation: {URL}\r\n");
        assert!(text.starts_with(&location) && text.ends_with("\r\n\r\n"), "{text}");
        let end = first.wrapping_add(text.len().try_into().unwrap()).wrapping_add(1);
        assert_eq!(client.send(ACK, (119, end), b""), None);
        let last = client.send(ACK | FIN, (119, end), b"").unwrap();
        assert_eq!((last.sequence, last.acknowledgment, last.flags), (end, 120, ACK));
        let scene = &client.scene;
        assert_eq!(scene.punted(PuntReason::HttpRedirect), 5);
        assert_eq!(scene.counts().originated_pkts, 3);
    }
}

#[test]
fn longest_location_fits_one_segment_of_the_smallest_ipv6_link() {
    let url = "x".repeat(REDIRECT_URL_BYTES_MAX);
    let rules = redirecting(0, Redirect::Url(url.as_str().into()));
    let mut client = HttpClient::new(rules, UE_V6, SERVER_V6);
    let syn = client.send(SYN, (0, 0), b"").unwrap();
    let numbers = (1, syn.sequence.wrapping_add(1));
    let page = client.send(ACK, numbers, b"GET").unwrap();
    assert!(page.data.len() <= 1220, "{}", page.data.len());
}

#[test]
fn segment_of_a_connection_that_we_did_not_open_is_reset() {
    let mut client = HttpClient::new(to_url(), UE, SERVER);
    let reset = client.send(ACK, (7, 9), b"data").unwrap();
    assert_eq!((reset.flags, reset.sequence), (TcpHeader::RST, 9));
}

#[test]
fn everything_but_segments_to_port_80_is_dropped() {
    let mut client = HttpClient::new(to_url(), UE, SERVER);
    let https = client.frame(443, SYN, (0, 0), b"");
    let mut wrong = client.frame(80, SYN, (0, 0), b"");
    *wrong.last_mut().unwrap() ^= 1;
    let dns = uplink().build();
    let fragment = tunneled().ipv4(UE, SERVER).protocol(6).fragment(1, 0, true);
    let short = tunneled().ipv4(UE, SERVER).protocol(6).payload(&[0, 80]);
    for frame in [https, wrong, dns, fragment.payload(&[0; 24]).build(), short.build()] {
        client.scene.assert_drops(N3, &frame, DropReason::RedirectUnmatched);
    }
}

#[test]
fn answers_are_limited_by_rate_and_what_is_beyond_is_dropped() {
    let mut client = HttpClient::new(to_url(), UE, SERVER);
    let frame = client.frame(80, SYN, (0, 0), b"");
    for _ in 0..60 {
        client.scene.io.inject(N3, &frame);
        client.scene.step();
    }
    let limited = client.scene.dropped(DropReason::RedirectLimited);
    assert_eq!((limited, client.scene.punted(PuntReason::HttpRedirect)), (10, 50));
    assert_eq!(client.scene.sent(N3).len(), 50);
}

#[test]
fn answer_takes_the_downlink_rules_of_the_session() {
    let mut rules = to_url();
    rules.qers[0].gate_downlink = Gate::Closed;
    let mut client = HttpClient::new(rules, UE, SERVER);
    assert_eq!(client.send(SYN, (0, 0), b""), None);
    assert_eq!(client.scene.counts().originated_lost_pkts, 1);
}

#[test]
fn answer_never_goes_to_another_session_whose_address_was_borrowed() {
    const OTHER: u32 = 0x108;
    let mut scene = PipelineFixture::new();
    let mut anybody = to_url();
    anybody.up_seid = Seid(2);
    anybody.ue = vec![];
    anybody.downlink = vec![];
    anybody.uplink[0].ue = UeAddresses::default();
    anybody.uplink[0].teid = Some(Teid(OTHER));
    let keys = vec![KeyChange::Add(SessionKey::Teid(Teid(OTHER)))];
    let delta = RuleDelta { session: SessionIndex(8), keys, rules: Some(Box::new(anybody)) };
    scene.publisher.apply(DeltaId(2), delta);
    let mut frame = HttpClient::new(rules(), UE, SERVER).frame(80, SYN, (100, 0), b"");
    frame[14 + 20 + 8 + 4..][..4].copy_from_slice(&OTHER.to_be_bytes());
    assert!(scene.pass(N3, &frame, N3).is_empty(), "the owner of the address did not ask");
    assert_eq!(scene.punted(PuntReason::HttpRedirect), 1);
    assert_eq!(scene.counts().originated_lost_pkts, 1);
}
