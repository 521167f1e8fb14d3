//! Finds why a packet is not usual, for traces. Reads the headers again that [`super::recognize`]
//! has rejected.

use adit_pktio::{PacketBuf, RxChecksum};
use adit_rules::LeaveReason;
use adit_rules::rule::ue_ipv6_key;
use adit_types::{Direction, PortId};
use adit_wire::gtpu::{GtpuMessageType, UDP_PORT};
use adit_wire::ipv4::Ipv4Header;
use adit_wire::ipv6::Ipv6Header;
use adit_wire::udp::UdpHeader;
use adit_wire::{
    EtherType, IpAddrs, IpPacket, is_usual_syn, parse_frame, parse_gtpu, parse_ip, protocol,
    tag_len, vlan_of,
};

use super::recognize::is_forwardable;
use crate::context::StepContext;
use crate::interfaces::UsualLink;

/// The bit of the ECN field that CE and ECT(1) have in common.
const ECN_MARK_BIT: u8 = 1;

/// Where the inner packet of a usual G-PDU without a container can begin, counted from the GTP-U
/// header. Unit: octets.
const OFFSETS_WITHOUT_CONTAINER: [u16; 2] = [8, 12];

/// Returns why the packet in `buf`, which arrived on `port`, is not usual.
pub(super) fn why_unusual<B: PacketBuf>(
    ctx: &StepContext<'_>,
    port: PortId,
    links: &[UsualLink],
    buf: &B,
) -> LeaveReason {
    let (frame, vlan) = (buf.data(), vlan_of(buf.data()));
    let link = links.iter().find(|link| link.vlan == vlan);
    let Some((link, (_, of_vlan))) = link.zip(ctx.interfaces.of_port(port).find(vlan)) else {
        return LeaveReason::VlanUnknown;
    };
    let Ok(layer2) = parse_frame(frame) else { return LeaveReason::NotIp };
    let is_ip = [EtherType::IPV4, EtherType::IPV6].contains(&layer2.ether_type);
    if layer2.dst != of_vlan.mac || !is_ip {
        return LeaveReason::NotIp;
    }
    if tag_len(frame) != 0 && link.is_untagged() {
        return LeaveReason::PriorityTag;
    }
    let packet = frame.get(usize::from(layer2.l3_offset)..).unwrap_or_default();
    let Some(ip) = parse_ip(packet, true).ok().filter(|_| buf.rx_checksum() != RxChecksum::Bad)
    else {
        return LeaveReason::Malformed;
    };
    let is_tunneled = match ip.addrs {
        IpAddrs::V4 { dst, .. } => link.n3.as_ref().is_some_and(|n3| n3.addr == dst),
        IpAddrs::V6 { dst, .. } => link.n3_v6.as_ref().is_some_and(|n3| n3.addr == dst),
    };
    if is_tunneled {
        return why_no_g_pdu(&ip, packet);
    }
    if link.n6.is_none() {
        return LeaveReason::NotGPdu;
    }
    if let Some(why) = why_not_forwarded(Direction::Downlink, &ip) {
        return why;
    }
    match is_usual_syn(frame, layer2.l3_offset, !ip.is_ipv4()) && link.keeps_syns {
        true => LeaveReason::TcpSyn,
        false => LeaveReason::OwnAddress,
    }
}

/// Returns why a packet to our tunnel address is not a usual G-PDU.
fn why_no_g_pdu(outer: &IpPacket, packet: &[u8]) -> LeaveReason {
    let headers_len = if outer.is_ipv4() { Ipv4Header::LEN } else { Ipv6Header::LEN };
    let datagram = outer.payload(packet);
    let gtpu = datagram.get(size_of::<UdpHeader>()..).unwrap_or_default();
    match () {
        () if outer.is_fragment() => return LeaveReason::OuterFragment,
        () if usize::from(outer.payload_offset) != headers_len => return LeaveReason::OuterOptions,
        () if outer.protocol != protocol::UDP => return LeaveReason::NotGPdu,
        () if outer.tos & ECN_MARK_BIT != 0 => return LeaveReason::OuterMarked,
        () => {}
    }
    let Ok((udp, _)) = UdpHeader::parse(datagram) else { return LeaveReason::Malformed };
    if udp.dst_port() != UDP_PORT {
        return LeaveReason::NotGPdu;
    }
    let Ok(message) = parse_gtpu(gtpu) else { return LeaveReason::Malformed };
    if message.message_type != GtpuMessageType::G_PDU {
        return LeaveReason::NotGPdu;
    }
    let inner = gtpu.get(usize::from(message.payload_offset)..).unwrap_or_default();
    let Ok(inner) = parse_ip(inner, true) else { return LeaveReason::Malformed };
    why_not_forwarded(Direction::Uplink, &inner).unwrap_or_else(|| match OFFSETS_WITHOUT_CONTAINER
        .contains(&message.payload_offset)
    {
        true => LeaveReason::Malformed,
        false => LeaveReason::GtpuExtensions,
    })
}

/// Returns the reason in the user's packet itself that keeps it from the fast path, if any.
fn why_not_forwarded(direction: Direction, ip: &IpPacket) -> Option<LeaveReason> {
    let upper = [protocol::TCP, protocol::UDP, protocol::ICMPV6];
    let checked = match (ip.addrs, direction) {
        (IpAddrs::V4 { dst, .. }, Direction::Uplink) => u64::from(dst.to_bits()),
        (IpAddrs::V4 { src, .. }, Direction::Downlink) => src.to_bits().into(),
        (IpAddrs::V6 { dst, .. }, Direction::Uplink) => ue_ipv6_key(dst),
        (IpAddrs::V6 { src, .. }, Direction::Downlink) => ue_ipv6_key(src),
    };
    let offset = usize::from(ip.payload_offset);
    let is_extended = offset != Ipv6Header::LEN || !upper.contains(&ip.protocol);
    match ip.is_ipv4() {
        true if offset != Ipv4Header::LEN => Some(LeaveReason::IpOptions),
        false if is_extended => Some(LeaveReason::IpExtensions),
        _ if ip.ttl <= 1 => Some(LeaveReason::TtlUsedUp),
        _ if !is_forwardable(!ip.is_ipv4(), checked) => Some(LeaveReason::AddressInvalid),
        _ => None,
    }
}
