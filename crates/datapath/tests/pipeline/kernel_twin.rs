//! Frames to and from kernel twins.

use adit_datapath::{
    FromKernel, KERNEL_FRAME_BYTES_MAX, KernelClass, KernelCounts, KernelProtocol, KernelTwin,
    ToKernel, connect_kernel,
};
use adit_rules::{DropReason, PuntReason};
use adit_testkit::packet::PacketBuilder;
use adit_types::limits::{KERNEL_BURST_PKTS, KERNEL_PPS_MAX, KERNEL_RING_BYTES};
use adit_types::{InterfaceId, MacAddr, Nanos};
use adit_wire::arp::ArpPacket;
use adit_wire::gtpu::GtpuMessageType;
use adit_wire::icmpv6::PseudoHeader;
use adit_wire::neighbor::NeighborAdvertisement;

use crate::fixture::*;

/// A scene whose interfaces have twins, except the last two.
struct TwinScene {
    scene: PipelineFixture,
    to: ToKernel,
    from: FromKernel,
    counts: KernelCounts,
}

/// A frame for the kernel.
type Delivered = (KernelClass, InterfaceId, Vec<u8>);

impl TwinScene {
    fn new(protocols: &[KernelProtocol]) -> Self {
        let twin = |interface| KernelTwin { interface, protocols: protocols.to_vec() };
        let twins = [IF_N3, IF_N6, IF_N6_VLAN, IF_N3_VLAN].map(twin);
        let mut links = connect_kernel(&twins, 8805, 1, 0);
        Self {
            scene: PipelineFixture::new().with_kernel(links.workers.pop()),
            to: links.to_kernel.remove(0),
            from: links.from_kernel,
            counts: links.counts.remove(0),
        }
    }

    fn take(&mut self) -> Vec<Delivered> {
        let mut room = vec![0; KERNEL_FRAME_BYTES_MAX];
        let mut taken = Vec::new();
        for class in KernelClass::ALL {
            while let Some((interface, len)) = self.to.next(class, &mut room) {
                taken.push((class, interface, room[..len].to_vec()));
            }
        }
        taken
    }

    /// The frame reaches the twin of `interface` unchanged, and nothing else follows from it.
    fn assert_delivers(
        &mut self,
        port: adit_types::PortId,
        frame: &[u8],
        interface: InterfaceId,
        class: KernelClass,
    ) {
        let before = self.scene.punted(PuntReason::KernelTwin);
        assert!(self.scene.pass(port, frame, port).is_empty(), "no answer");
        assert_eq!(self.take(), [(class, interface, frame.to_vec())]);
        assert_eq!(self.scene.punted(PuntReason::KernelTwin), before + 1);
        assert_eq!(self.scene.take_events(), []);
    }
}

fn to_n6() -> PacketBuilder {
    from_gateway().ipv4("10.6.0.9", N6_ADDR)
}

fn to_n6_v6() -> PacketBuilder {
    from_gateway().ipv6(SERVER_V6, N6_V6)
}

fn arp(dst: MacAddr, packet: &ArpPacket) -> Vec<u8> {
    let mut payload = [0; 28];
    packet.emit(&mut payload).unwrap();
    PacketBuilder::ethernet(dst, packet.sender_mac()).ether_type(0x0806).payload(&payload).build()
}

#[test]
fn packet_that_the_datapath_does_not_consume_reaches_the_twin_in_its_class() {
    use KernelClass::{N4, Other, Routing};
    let mut twins = TwinScene::new(&[]);
    for (class, frame) in [
        (N4, to_n6().udp(8805, 8805).payload(&[1; 40]).build()),
        (N4, to_n6_v6().udp(40_000, 8805).payload(&[1; 40]).build()),
        (Routing, to_n6().udp(49_152, 3784).payload(&[1; 24]).build()),
        (Routing, to_n6_v6().udp(49_152, 4784).payload(&[1; 24]).build()),
        (Routing, to_n6().tcp(50_000, 179, 2).build()),
        (Routing, to_n6_v6().tcp(179, 50_000, 16).build()),
        (Routing, to_n6().protocol(89).payload(&[1; 44]).build()),
        (Other, to_n6().tcp(50_000, 22, 2).payload(&[7; 1400]).build()),
        (Other, to_n6().udp(53, 50_000).build()),
        (Other, to_n6().gtpu(TEID).ipv4(UE, SERVER).udp(1, 2).build()),
        (Other, to_n6().icmp_echo(7, 1).build()),
        (Other, to_n6().protocol(1).payload(&[3, 3, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4]).build()),
        (Other, to_n6().icmp_echo_reply(7, 1).build()),
        (Other, to_n6_v6().protocol(58).payload(&[128, 0, 0, 0, 0, 1, 0, 1]).build()),
        (Other, to_n6_v6().protocol(58).payload(&[1, 4, 0, 0, 0, 0, 0, 0]).build()),
        (Other, to_n6_v6().protocol(132).payload(&[1; 40]).build()),
    ] {
        twins.assert_delivers(N6, &frame, IF_N6, class);
    }
    let to_n3 = || PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv4(GNB, N3_ADDR);
    let pfcp = to_n3().udp(8805, 8805).payload(&[1; 40]).build();
    twins.assert_delivers(N3, &pfcp, IF_N3, N4);
    twins.assert_delivers(N3, &to_n3().tcp(1, 22, 2).build(), IF_N3, Other);
    assert_eq!(twins.counts[usize::from(IF_N6.0)].classes[N4.index()].pkts.load(), 2);
    assert_eq!(twins.scene.counts().originated_pkts, 0);
}

#[test]
fn tunnels_and_users_never_reach_the_twin() {
    let mut twins = TwinScene::new(&[]);
    assert_eq!(twins.scene.pass(N3, &uplink().build(), N6).len(), 1);
    assert_eq!(twins.scene.pass(N6, &downlink().build(), N3).len(), 1);
    let echo = PacketBuilder::ethernet(N3_MAC, GNB_MAC)
        .ipv4(GNB, N3_ADDR)
        .gtpu_message(GtpuMessageType::ECHO_REQUEST, 0)
        .sequence(1);
    assert_eq!(twins.scene.pass(N3, &echo.build(), N3).len(), 1, "adit answers");
    for own in [N6_ADDR, N3_ADDR, "10.7.0.1"] {
        let frame = tunneled().ipv4(UE, own).tcp(1, 22, 2).build();
        twins.scene.assert_drops(N3, &frame, DropReason::UeToOwnAddress);
        let frame = tunneled().ipv4(UE, own).udp(8805, 8805).build();
        twins.scene.assert_drops(N3, &frame, DropReason::UeToOwnAddress);
    }
    let mut wrong = to_n6().udp(8805, 8805).payload(&[1; 40]).build();
    wrong[24] ^= 1;
    twins.scene.assert_drops(N6, &wrong, DropReason::IpChecksumWrong);
    assert_eq!(twins.take(), []);
}

#[test]
fn interface_without_a_twin_drops_as_before() {
    let mut twins = TwinScene::new(&[KernelProtocol::Ospf, KernelProtocol::Lldp]);
    let to = || PacketBuilder::ethernet(MIXED_MAC, GATEWAY_MAC).ipv4("10.8.0.9", "10.8.0.1");
    twins.scene.assert_drops(MIXED, &to().tcp(1, 22, 2).build(), DropReason::IpProtocolUnknown);
    twins.scene.assert_drops(MIXED, &to().udp(1, 8805).build(), DropReason::UdpPortUnknown);
    assert_eq!(twins.scene.pass(MIXED, &to().icmp_echo(1, 1).build(), MIXED).len(), 1);
    assert_eq!(twins.take(), []);
}

#[test]
fn neighbors_have_one_owner_and_the_kernel_gets_copies_of_answers() {
    let mut twins = TwinScene::new(&[]);
    let request = ArpPacket::request(GATEWAY_MAC, v4("10.6.0.9"), v4(N6_ADDR));
    let answers = twins.scene.pass(N6, &arp(MacAddr::BROADCAST, &request), N6);
    assert_eq!(answers, [arp(GATEWAY_MAC, &ArpPacket::reply(&request, N6_MAC))]);
    assert_eq!(twins.take(), [], "one owner answers");
    let asked = ArpPacket::request(N6_MAC, v4(N6_ADDR), v4("10.6.0.9"));
    let reply = arp(N6_MAC, &ArpPacket::reply(&asked, GATEWAY_MAC));
    let announced = ArpPacket::request(GATEWAY_MAC, v4("10.6.0.7"), v4("10.6.0.7"));
    let announced = arp(MacAddr::BROADCAST, &announced);
    let pseudo =
        PseudoHeader { src: "2001:db8:6::9".parse().unwrap(), dst: N6_V6.parse().unwrap() };
    let mut message = [0; 32];
    let advertisement = NeighborAdvertisement {
        target: pseudo.src,
        target_mac: Some(GATEWAY_MAC),
        router: true,
        solicited: true,
        override_entry: true,
    };
    advertisement.emit(&mut message, &pseudo).unwrap();
    let advertisement =
        from_gateway().ipv6(pseudo.src, pseudo.dst).ttl(255).protocol(58).payload(&message).build();
    for frame in [reply, announced, advertisement] {
        assert!(twins.scene.pass(N6, &frame, N6).is_empty());
        assert_eq!(twins.take(), [(KernelClass::Neighbor, IF_N6, frame)]);
    }
    assert_eq!(twins.scene.punted(PuntReason::Arp), 3);
    assert_eq!(twins.scene.punted(PuntReason::NeighborDiscovery), 1);
    assert_eq!(twins.scene.punted(PuntReason::KernelTwin), 0, "copies are no outcome");
    twins.scene.take_events();
    let moved = MacAddr([2, 0, 0, 0, 0, 0xcc]);
    let announced = ArpPacket::request(moved, v4("10.6.0.254"), v4("10.6.0.254"));
    twins.scene.pass(N6, &arp(MacAddr::BROADCAST, &announced), N6);
    assert_eq!(twins.take().len(), 1);
    assert_eq!(twins.scene.take_events().len(), 1, "adit learns of its gateway, too");
    let probe = ArpPacket::request(GATEWAY_MAC, v4(N6_ADDR), v4(N6_ADDR));
    twins.scene.pass(N6, &arp(MacAddr::BROADCAST, &probe), N6);
    assert_eq!(twins.take(), [], "a conflict is adit's");
}

#[test]
fn tag_is_removed_towards_the_kernel_and_written_from_it() {
    let mut twins = TwinScene::new(&[]);
    let packet = |tagged: bool| {
        let link = PacketBuilder::ethernet(N6_MAC, VLAN_GATEWAY_MAC);
        let link = if tagged { link.vlan(100) } else { link };
        link.ipv4("10.7.0.254", "10.7.0.1").tcp(5, 22, 2).payload(&[3; 99]).build()
    };
    assert!(twins.scene.pass(N6, &packet(true), N6).is_empty());
    assert_eq!(twins.take(), [(KernelClass::Other, IF_N6_VLAN, packet(false))]);
    assert!(twins.from.push(IF_N6_VLAN, &packet(false)));
    twins.scene.step();
    assert_eq!(twins.scene.sent(N6), [packet(true)]);
}

#[test]
fn fragments_stay_whole_and_joined_datagrams_are_n4() {
    let mut twins = TwinScene::new(&[]);
    let tail = to_n6().fragment(9, 64, false).protocol(17).payload(&[4; 100]).build();
    twins.assert_delivers(N6, &tail, IF_N6, KernelClass::Other);
    let to_n3 = || PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv4(GNB, N3_ADDR);
    let other = to_n3().fragment(9, 64, false).protocol(6).payload(&[4; 100]).build();
    twins.assert_delivers(N3, &other, IF_N3, KernelClass::Other);
    let whole = to_n3().udp(8805, 8805).payload(&[9; 1000]).build();
    let datagram = &whole[34..];
    let part = |from: usize, to: usize, more| {
        let offset = u16::try_from(from / 8).unwrap();
        to_n3().fragment(5, offset, more).protocol(17).payload(&datagram[from..to]).build()
    };
    assert!(twins.scene.pass(N3, &part(504, 1008, false), N3).is_empty());
    assert!(twins.scene.pass(N3, &part(0, 504, true), N3).is_empty());
    let delivered = twins.take();
    assert_eq!(delivered.len(), 1, "{delivered:?}");
    let (class, interface, frame) = &delivered[0];
    assert_eq!((*class, *interface), (KernelClass::N4, IF_N3));
    assert_eq!(&frame[34..], datagram);
    assert_eq!(twins.scene.dropped(DropReason::UdpPortUnknown), 0);
}

#[test]
fn groups_of_control_protocols_reach_the_twin_by_list() {
    let ospf = |dst: [u8; 6]| {
        PacketBuilder::ethernet(MacAddr(dst), GATEWAY_MAC)
            .ipv4("10.6.0.9", "224.0.0.5")
            .ttl(1)
            .protocol(89)
            .payload(&[2; 44])
            .build()
    };
    let ospf = ospf([1, 0, 0x5e, 0, 0, 5]);
    let v3 = PacketBuilder::ethernet(MacAddr([0x33, 0x33, 0, 0, 0, 5]), GATEWAY_MAC)
        .ipv6("fe80::9", "ff02::5")
        .ttl(1)
        .protocol(89)
        .payload(&[3; 36])
        .build();
    let link = |dst: [u8; 6], kind: u16| {
        let frame = PacketBuilder::ethernet(MacAddr(dst), GATEWAY_MAC).ether_type(kind);
        frame.payload(&[1; 50]).build()
    };
    let lldp = link([1, 0x80, 0xc2, 0, 0, 0xe], 0x88cc);
    let lacp = link([1, 0x80, 0xc2, 0, 0, 2], 0x8809);
    let isis = link([1, 0x80, 0xc2, 0, 0, 0x14], 50);
    let all = [&ospf, &v3, &lldp, &lacp, &isis];
    let mut twins = TwinScene::new(&[]);
    for frame in all {
        twins.scene.pass(N6, frame, N6);
    }
    assert_eq!(twins.take(), [], "none without the list");
    use KernelProtocol::{IsIs, Lacp, Lldp, Ospf};
    for (protocol, expected) in
        [(Ospf, &[&ospf, &v3][..]), (Lldp, &[&lldp]), (Lacp, &[&lacp]), (IsIs, &[&isis])]
    {
        let mut twins = TwinScene::new(&[protocol]);
        for frame in all {
            twins.scene.pass(N6, frame, N6);
        }
        let frame = |frame: &&Vec<u8>| (KernelClass::Routing, IF_N6, (*frame).clone());
        assert_eq!(twins.take(), expected.iter().map(frame).collect::<Vec<_>>(), "{protocol:?}");
    }
    let mut twins = TwinScene::new(&[]);
    let router = PacketBuilder::ethernet(MacAddr([0x33, 0x33, 0, 0, 0, 1]), GATEWAY_MAC)
        .ipv6("fe80::9", "ff02::1")
        .ttl(255)
        .protocol(58)
        .payload(&[134, 0, 0, 0, 0, 0, 0, 0])
        .build();
    twins.assert_delivers(N6, &router, IF_N6, KernelClass::Neighbor);
}

#[test]
fn flood_of_one_class_costs_no_other_class_and_no_user() {
    let mut twins = TwinScene::new(&[]);
    let ssh = to_n6().tcp(1, 22, 2).payload(&[0; 1000]).build();
    let (bfd, pfcp) =
        (to_n6().udp(49_152, 3784).payload(&[1; 24]), to_n6().udp(8805, 8805).payload(&[1; 40]));
    let start = twins.scene.now;
    let (mut forwarded, mut delivered) = (0, [0_usize; KernelClass::COUNT]);
    for step in 0..2000_u32 {
        (0..40).for_each(|_| twins.scene.io.inject(N6, &ssh));
        (0..5).for_each(|_| twins.scene.io.inject(N3, &uplink().build()));
        if step % 100 == 0 {
            twins.scene.io.inject(N6, &bfd.build());
            twins.scene.io.inject(N6, &pfcp.build());
        }
        twins.scene.now += Nanos(500_000);
        twins.scene.step();
        forwarded += twins.scene.sent(N6).len();
        // A thread that serves the kernel every 10 ms.
        if step % 20 == 19 {
            twins.scene.step();
            forwarded += twins.scene.sent(N6).len();
            twins.take().iter().for_each(|(class, ..)| delivered[class.index()] += 1);
        }
    }
    while !twins.scene.io.ports[usize::from(N6.0)].rx.is_empty() {
        twins.scene.now += Nanos(500_000);
        twins.scene.step();
        twins.take().iter().for_each(|(class, ..)| delivered[class.index()] += 1);
    }
    assert_eq!(forwarded, 10_000, "no user packet is lost");
    let [n4, routing, _, other] = delivered;
    assert_eq!((n4, routing), (20, 20), "each one arrives");
    let (full, limited) = (
        twins.scene.dropped(DropReason::KernelRingFull),
        twins.scene.dropped(DropReason::KernelRateLimited),
    );
    assert_eq!(other as u64 + full + limited, 80_000, "each frame has one outcome");
    let elapsed_ms = twins.scene.now.since(start).0 / 1_000_000;
    let at = KernelClass::Other.index();
    let most = KERNEL_PPS_MAX[at] * elapsed_ms / 1000 + KERNEL_BURST_PKTS[at];
    assert!(other as u64 <= most && limited > 0, "{other} {most} {full} {limited}");
}

#[test]
fn class_without_room_or_beyond_its_rate_drops_by_name_and_counts_it() {
    let mut twins = TwinScene::new(&[]);
    let big = to_n6().tcp(1, 22, 2).payload(&[0; 1400]).build();
    let fits = KERNEL_RING_BYTES[KernelClass::Other.index()] / (big.len() + 4);
    for _ in 0..fits + 10 {
        twins.scene.pass(N6, &big, N6);
        twins.scene.now += Nanos(1_000_000);
    }
    assert_eq!(twins.scene.dropped(DropReason::KernelRingFull), 10);
    assert_eq!(twins.take().len(), fits);
    let bfd = to_n6().udp(49_152, 3784).payload(&[1; 24]).build();
    let burst = KERNEL_BURST_PKTS[KernelClass::Routing.index()];
    for _ in 0..burst + 7 {
        twins.scene.pass(N6, &bfd, N6);
    }
    assert_eq!(twins.scene.dropped(DropReason::KernelRateLimited), 7);
    let counts = &twins.counts[usize::from(IF_N6.0)].classes;
    let of = |class: KernelClass| {
        let counts = &counts[class.index()];
        (counts.pkts.load(), counts.ring_full.load(), counts.rate_limited.load())
    };
    assert_eq!(of(KernelClass::Other), (fits as u64, 10, 0));
    assert_eq!(of(KernelClass::Routing), (burst, 0, 7));
}

#[test]
fn frame_of_the_kernel_leaves_unchanged_or_is_refused_by_name() {
    let mut twins = TwinScene::new(&[]);
    let frame = |len: usize| {
        PacketBuilder::ethernet(GATEWAY_MAC, N6_MAC)
            .ipv4(N6_ADDR, "10.6.0.9")
            .udp(8805, 8805)
            .payload(&vec![5; len - 28])
            .build()
    };
    let arp = arp(MacAddr::BROADCAST, &ArpPacket::request(N6_MAC, v4(N6_ADDR), v4("10.6.0.9")));
    let good = [frame(60), frame(1500), arp];
    for frame in &good {
        assert!(twins.from.push(IF_N6, frame));
    }
    twins.scene.step();
    assert_eq!(twins.scene.sent(N6), good);
    let counts = twins.scene.counts();
    assert_eq!((counts.originated_pkts, counts.originated_lost_pkts), (3, 0));
    assert_eq!(counts.received_pkts, 0, "outside the packet identity");
    let tagged = PacketBuilder::ethernet(GATEWAY_MAC, N6_MAC).vlan(9).ipv4(N6_ADDR, "10.6.0.9");
    let bad = [frame(1501), tagged.udp(1, 2).build(), vec![1; 13], Vec::new()];
    for frame in &bad {
        assert!(twins.from.push(IF_N6, frame));
    }
    assert!(twins.from.push(InterfaceId(60), &good[0]), "no such interface");
    twins.scene.step();
    assert!(twins.scene.sent(N6).is_empty());
    let of_n6 = &twins.counts[usize::from(IF_N6.0)];
    assert_eq!((of_n6.from_pkts.load(), of_n6.from_refused.load()), (3, 4));
    // A port that takes nothing.
    twins.scene.io.ports[usize::from(N6.0)].tx_room = 0;
    assert!(twins.from.push(IF_N6, &good[0]));
    twins.scene.step();
    assert_eq!(twins.scene.counts().originated_lost_pkts, 1);
}

#[test]
fn way_from_the_kernel_is_bounded_per_step_and_beside_users() {
    let mut twins = TwinScene::new(&[]);
    let frame = PacketBuilder::ethernet(GATEWAY_MAC, N6_MAC)
        .ipv4(N6_ADDR, "10.6.0.9")
        .udp(1, 2)
        .payload(&[5; 1000])
        .build();
    let mut pushed = 0;
    while twins.from.has_room() {
        assert!(twins.from.push(IF_N6, &frame));
        pushed += 1;
    }
    let mut sent = 0;
    while sent < pushed {
        let leaves = twins.scene.pass(N3, &uplink().build(), N6);
        let of_kernel = leaves.iter().filter(|left| **left == frame).count();
        assert_eq!(leaves.len(), of_kernel + 1, "the user's packet leaves, too");
        assert!((1..=32).contains(&of_kernel));
        sent += of_kernel;
    }
    assert_eq!(teid_of(&twins.scene.pass(N6, &downlink().build(), N3)[0]), GNB_TEID);
}
