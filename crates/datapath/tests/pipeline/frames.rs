//! Packets that are refused before any rule is looked up.

use adit_pktio::RxChecksum;
use adit_pktio::mem::MemBuf;
use adit_rules::{DropReason, PuntReason};
use adit_testkit::packet::PacketBuilder;
use adit_types::MacAddr;
use adit_wire::gtpu::GtpuMessageType;

use crate::fixture::*;

#[test]
fn frame_that_is_truncated_or_foreign_is_dropped() {
    let mut scene = PipelineFixture::new();
    scene.assert_drops(N3, &uplink().build()[..13], DropReason::FrameMalformed);
    scene.assert_drops(N3, &[], DropReason::FrameMalformed);
    let other = PacketBuilder::ethernet(MacAddr([2; 6]), GNB_MAC).ipv4(GNB, N3_ADDR);
    scene.assert_drops(N3, &other.udp(1, 2).build(), DropReason::FrameNotForUs);
    let broadcast = PacketBuilder::ethernet(MacAddr::BROADCAST, GNB_MAC).ipv4(GNB, N3_ADDR);
    scene.assert_drops(N3, &broadcast.udp(1, 2).build(), DropReason::FrameNotForUs);
    let tagged = PacketBuilder::ethernet(N3_MAC, GNB_MAC).vlan(5).ipv4(GNB, N3_ADDR);
    scene.assert_drops(N3, &tagged.udp(1, 2).build(), DropReason::VlanUnknown);
    let ipx = PacketBuilder::ethernet(N3_MAC, GNB_MAC).ether_type(0x8137).payload(&[0; 50]);
    scene.assert_drops(N3, &ipx.build(), DropReason::EtherTypeUnknown);
    let double = PacketBuilder::ethernet(N6_MAC, GNB_MAC).vlan(100).ether_type(0x8100);
    scene.assert_drops(N6, &double.payload(&[0; 50]).build(), DropReason::EtherTypeUnknown);
}

#[test]
fn ip_header_that_is_wrong_is_dropped() {
    let mut scene = PipelineFixture::new();
    let ip = || PacketBuilder::ethernet(N6_MAC, GATEWAY_MAC).ipv4(SERVER, UE);
    for (at, octets) in [(0, [0x65]), (0, [0x44]), (2, [0x40])] {
        let frame = ip().overwrite(at, &octets).fix_checksum().udp(1, 2).build();
        scene.assert_drops(N6, &frame, DropReason::IpMalformed);
    }
    let swapped = from_gateway().ether_type(0x86dd).ipv4(SERVER, UE).udp(1, 2).build();
    scene.assert_drops(N6, &swapped, DropReason::IpMalformed);
    let frame = ip().overwrite(10, &[0x12, 0x34]).udp(1, 2).build();
    scene.assert_drops(N6, &frame, DropReason::IpChecksumWrong);
}

#[test]
fn packet_that_the_port_cut_accuses_the_port() {
    let mut scene = PipelineFixture::new();
    let frame = |carried: usize| {
        let ip = PacketBuilder::ethernet(N6_MAC, GATEWAY_MAC).ipv4(SERVER, UE);
        let payload = vec![0; carried - 28];
        ip.overwrite(2, &4000_u16.to_be_bytes()).fix_checksum().udp(1, 2).payload(&payload).build()
    };
    scene.assert_drops(N6, &frame(1501), DropReason::FrameCut);
    // A cut packet within the MTU is its sender's mistake.
    scene.assert_drops(N6, &frame(1500), DropReason::IpMalformed);
}

#[test]
fn ip_checksum_verdict_of_the_port_is_taken() {
    let mut scene = PipelineFixture::new();
    let mut inject = |frame: &[u8], verdict| {
        let mut buf = MemBuf::from_packet(frame);
        buf.set_rx_checksum(verdict);
        scene.io.ports[1].rx.push_back(buf);
        scene.step();
        (scene.dropped(DropReason::IpChecksumWrong), scene.sent(N3).len())
    };
    let wrong = from_gateway().ipv4(SERVER, UE).overwrite(10, &[0x12, 0x34]).udp(1, 2).build();
    assert_eq!(inject(&downlink().build(), RxChecksum::Bad), (1, 0));
    assert_eq!(inject(&wrong, RxChecksum::Good), (1, 1), "not computed again");
    assert_eq!(inject(&downlink().build(), RxChecksum::Good), (1, 1));
    assert_eq!(inject(&wrong, RxChecksum::Unknown), (2, 0));
}

#[test]
fn address_that_is_not_forwarded_is_dropped() {
    let mut scene = PipelineFixture::new();
    for src in ["127.0.0.1", "0.0.0.0", "224.0.0.1", "169.254.0.1", "255.255.255.255"] {
        let frame = from_gateway().ipv4(src, UE).udp(1, 2).build();
        scene.assert_drops(N6, &frame, DropReason::IpAddressInvalid);
    }
    for dst in ["127.0.0.1", "0.0.0.0", "224.0.0.1", "169.254.0.1", "255.255.255.255"] {
        let frame = tunneled().ipv4(UE, dst).udp(1, 2).build();
        scene.assert_drops(N3, &frame, DropReason::IpAddressInvalid);
    }
    for dst in ["ff02::1", "fe80::99", "::", "::1"] {
        let frame = tunneled().ipv6(UE_V6, dst).udp(1, 2).build();
        scene.assert_drops(N3, &frame, DropReason::IpAddressInvalid);
    }
    let group = PacketBuilder::ethernet(MacAddr([1, 0, 0x5e, 0, 0, 5]), GATEWAY_MAC);
    let frame = group.ipv4(SERVER, "224.0.0.5").udp(1, 2).build();
    scene.assert_drops(N6, &frame, DropReason::IpAddressInvalid);
}

#[test]
fn plain_ip_on_n3_is_not_forwarded() {
    let mut scene = PipelineFixture::new();
    let frame = PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv4(SERVER, UE).udp(1, 2).build();
    scene.assert_drops(N3, &frame, DropReason::RouteUnknown);
}

#[test]
fn packet_to_ourselves_that_nobody_serves_is_dropped() {
    let mut scene = PipelineFixture::new();
    let to_n3 = || PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv4(GNB, N3_ADDR);
    scene.assert_drops(N3, &to_n3().tcp(1, 2, 2).build(), DropReason::IpProtocolUnknown);
    scene.assert_drops(N3, &to_n3().udp(1, 53).build(), DropReason::UdpPortUnknown);
    let short = to_n3().udp(2152, 2152).overwrite(4, &[0, 7]).payload(&[0; 20]).build();
    scene.assert_drops(N3, &short, DropReason::UdpMalformed);
    let on_n6 = from_gateway().ipv4("10.6.0.9", N6_ADDR).gtpu(TEID).ipv4(UE, SERVER).udp(1, 2);
    scene.assert_drops(N6, &on_n6.build(), DropReason::GtpuNotOnN3);
}

#[test]
fn gtpu_that_is_malformed_is_dropped() {
    let mut scene = PipelineFixture::new();
    let outer = || PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv4(GNB, N3_ADDR).gtpu(TEID);
    for (at, octet) in [(0, 0x50), (0, 0x20), (2, 0x7f)] {
        let frame = outer().overwrite(at, &[octet]).ipv4(UE, SERVER).udp(1, 2).build();
        scene.assert_drops(N3, &frame, DropReason::GtpuMalformed);
    }
    let chain = tunneled().overwrite(12, &[0]).ipv4(UE, SERVER).udp(1, 2).build();
    scene.assert_drops(N3, &chain, DropReason::GtpuExtensionMalformed);
    let long = tunneled().overwrite(12, &[200]).ipv4(UE, SERVER).udp(1, 2).build();
    scene.assert_drops(N3, &long, DropReason::GtpuExtensionMalformed);
    let unknown = outer().extension(0xc9, &[0, 0]).ipv4(UE, SERVER).udp(1, 2).build();
    scene.assert_drops(N3, &unknown, DropReason::GtpuExtensionUnknown);
    let message = PacketBuilder::ethernet(N3_MAC, GNB_MAC)
        .ipv4(GNB, N3_ADDR)
        .gtpu_message(GtpuMessageType(99), 0)
        .build();
    scene.assert_drops(N3, &message, DropReason::GtpuMessageUnknown);
}

#[test]
fn inner_packet_that_is_malformed_is_dropped() {
    let mut scene = PipelineFixture::new();
    let empty = tunneled().build();
    scene.assert_drops(N3, &empty, DropReason::InnerMalformed);
    let version = tunneled().ipv4(UE, SERVER).overwrite(0, &[0x55]).udp(1, 2).build();
    scene.assert_drops(N3, &version, DropReason::InnerMalformed);
    let long = tunneled().ipv4(UE, SERVER).overwrite(2, &[0, 200]).fix_checksum().udp(1, 2);
    scene.assert_drops(N3, &long.build(), DropReason::InnerMalformed);
    let checksum = tunneled().ipv4(UE, SERVER).overwrite(10, &[1, 1]).udp(1, 2).build();
    scene.assert_drops(N3, &checksum, DropReason::IpChecksumWrong);
}

#[test]
fn every_prefix_of_an_uplink_frame_has_one_outcome() {
    let mut scene = PipelineFixture::new();
    let frame = uplink().build();
    for len in 0..frame.len() {
        scene.io.inject(N3, &frame[..len]);
        scene.step();
    }
    assert_eq!(scene.counts().dropped_pkts(), frame.len() as u64);
    assert!(scene.sent(N6).is_empty());
}

#[test]
fn link_housekeeping_is_punted() {
    let mut scene = PipelineFixture::new();
    let lldp = PacketBuilder::ethernet(MacAddr([1, 0x80, 0xc2, 0, 0, 0xe]), GNB_MAC)
        .ether_type(0x88cc)
        .payload(&[0; 20]);
    assert!(scene.pass(N3, &lldp.build(), N3).is_empty());
    let group = MacAddr([0x33, 0x33, 0, 0, 0, 1]);
    let advertisement = PacketBuilder::ethernet(group, GNB_MAC)
        .ipv6("fe80::1", "ff02::1")
        .ttl(255)
        .protocol(58)
        .payload(&[134, 0, 0, 0, 0, 0, 0, 0]);
    scene.pass(N6, &advertisement.build(), N6);
    assert_eq!(scene.punted(PuntReason::LinkControl), 2);
}
