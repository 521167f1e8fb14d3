//! First stage: parses a packet and selects its lane.
//!
//! G-PDUs to our addresses on GTP-U interfaces go to the tunneled lane, plain IP from a data
//! network to a downlink lane, packets that need an answer to the slow queue. All others are
//! dropped, each with its reason.

use core::net::IpAddr;

use adit_pktio::{Burst, PacketBuf, RxChecksum};
use adit_rules::rule::ue_ipv6_key;
use adit_rules::{DropReason, PuntReason};
use adit_tables::Interface;
use adit_types::{InterfaceId, InterfaceSet, MacAddr, Nanos, Teid};
use adit_wire::gtpu::{GtpuMessageType, UDP_PORT};
use adit_wire::udp::UdpHeader;
use adit_wire::{
    EtherType, Frame, IpAddrs, IpPacket, icmp, icmpv6, parse_frame, parse_gtpu, parse_ip, protocol,
};

use crate::columns::{BurstLanes, OuterHeader, PacketArrival};
use crate::fragments::ArrivedFragment;
use crate::interfaces::{LinkId, PortLinks, VlanLink};
use crate::kernel_twin::{KernelClass, KernelTwins};
use crate::reason::{HeaderLayer, drop_reason, is_forwardable, verify_udp};
use crate::slow_queue::{GtpuError, SlowTask};
use crate::tally::StepTally;
use crate::worker_queues::WorkerQueues;

/// The result of parsing a packet.
enum ParsedPacket {
    /// A user packet in a tunnel. Its payload is parsed when the session is known.
    Tunneled(PacketArrival),
    /// A user packet from a data network.
    Plain(PacketArrival, IpPacket),
    /// A packet for the slow path.
    Slow(LinkId, SlowTask),
    /// A frame for the kernel twin of an interface.
    Kernel(InterfaceId, KernelClass),
    /// A protocol message that needs no action.
    Punt(PuntReason),
    /// A packet to be dropped.
    Drop(DropReason),
    /// A fragment of a tunnel packet, which is parsed again when it is reassembled.
    Fragment(InterfaceSet, u8, IpPacket),
    /// GTP-U with an unknown extension header that must be comprehended; its sender is notified.
    UnknownExtension,
}

/// Parses a burst and splits it into lanes.
///
/// Shape:   drains `burst`; fills `lanes`, `queues.{slow, fragments, kernel}` and `tally`.
///          n ≤ BURST_MAX.
/// Cost:    reads the headers of each packet once. No allocation, no clock.
/// Spec:    RFC 1122 §3.2.1, §3.3; TS 29.281 §4.4, §5.1.
/// Errors:  none; a malformed field becomes a drop reason.
pub(crate) fn s1_parse<B: PacketBuf>(
    port: PortLinks<'_>,
    now: Nanos,
    burst: &mut Burst<B>,
    lanes: &mut BurstLanes<'_, B>,
    queues: &mut WorkerQueues<B>,
    tally: &mut StepTally,
) {
    let WorkerQueues { slow, fragments, kernel, .. } = queues;
    for buf in burst.drain(..) {
        tally.receive(buf.data().len());
        match parse(&buf, port, kernel.as_deref(), tally) {
            ParsedPacket::Tunneled(arrival) => lanes.tunneled.push(buf, arrival, arrival.teid),
            ParsedPacket::Plain(arrival, ip) => match ip.addrs {
                IpAddrs::V4 { dst, .. } => {
                    lanes.downlink_v4.push_ip(buf, arrival, ip, dst.to_bits())
                }
                IpAddrs::V6 { dst, .. } => {
                    lanes.downlink_v6.push_ip(buf, arrival, ip, ue_ipv6_key(dst));
                }
            },
            ParsedPacket::Slow(link, task) => slow.push(buf, link, task, tally),
            ParsedPacket::Kernel(interface, class) => {
                let frame = buf.data();
                match kernel.as_mut().map(|kernel| kernel.deliver(now, frame, interface, class)) {
                    Some(Ok(reason)) => tally.punt(reason),
                    Some(Err(reason)) => tally.drop(reason),
                    None => unreachable!("only a twin has frames for it"),
                }
            }
            ParsedPacket::Punt(reason) => tally.punt(reason),
            ParsedPacket::Drop(reason) => tally.drop(reason),
            ParsedPacket::Fragment(interfaces, l3_offset, ip) => {
                let (ip_offset, addrs) = (l3_offset.into(), ip.addrs);
                let fragment =
                    ArrivedFragment { buf, interfaces, ip_offset, addrs, is_ours: false };
                fragments.add(fragment, tally);
            }
            ParsedPacket::UnknownExtension => {
                tally.drop(DropReason::GtpuExtensionUnknown);
                slow.push_gtpu_error(buf, GtpuError::ExtensionUnknown);
            }
        }
    }
}

#[inline]
fn parse<B: PacketBuf>(
    buf: &B,
    port: PortLinks<'_>,
    twins: Option<&KernelTwins>,
    tally: &mut StepTally,
) -> ParsedPacket {
    if !buf.is_contiguous() {
        return ParsedPacket::Drop(DropReason::FrameSegmented);
    }
    let bytes = buf.data();
    let frame = match parse_frame(bytes) {
        Ok(frame) => frame,
        Err(malformed) => return ParsedPacket::Drop(drop_reason(HeaderLayer::Frame, malformed)),
    };
    let Some((id, link)) = port.find(frame.vlan) else {
        return ParsedPacket::Drop(DropReason::VlanUnknown);
    };
    if frame.dst != link.mac {
        count_unaddressed(link, bytes.len(), tally);
        return parse_group_frame(&ArrivedFrame { frame, id, link, bytes, twins });
    }
    match frame.ether_type {
        EtherType::IPV4 | EtherType::IPV6 => {
            let parsed = parse_l3(&frame, bytes, buf.rx_checksum());
            let ip = match parsed {
                Ok(ip) => ip,
                Err(reason) => {
                    count_unaddressed(link, bytes.len(), tally);
                    return ParsedPacket::Drop(
                        reason_of_cut(&frame, link, bytes).unwrap_or(reason),
                    );
                }
            };
            parse_ip_packet(&ArrivedFrame { frame, id, link, bytes, twins }, ip, tally)
        }
        EtherType::ARP => {
            count_unaddressed(link, bytes.len(), tally);
            ParsedPacket::Slow(id, SlowTask::Arp { l3_offset: frame.l3_offset })
        }
        _ => {
            count_unaddressed(link, bytes.len(), tally);
            ParsedPacket::Drop(DropReason::EtherTypeUnknown)
        }
    }
}

/// Counts a frame that is to none of our IP addresses on the first interface of its link.
#[cold]
fn count_unaddressed(link: &VlanLink, len: usize, tally: &mut StepTally) {
    if let Some(first) = link.first() {
        tally.receive_on(first, len);
    }
}

/// Parses the IP header. Verifies the checksum of an IPv4 header unless the port did.
#[inline]
fn parse_l3(frame: &Frame, bytes: &[u8], checksum: RxChecksum) -> Result<IpPacket, DropReason> {
    let is_ipv4 = frame.ether_type == EtherType::IPV4;
    if is_ipv4 && checksum == RxChecksum::Bad {
        return Err(DropReason::IpChecksumWrong);
    }
    let l3 = bytes.get(usize::from(frame.l3_offset)..).unwrap_or_default();
    match parse_ip(l3, checksum == RxChecksum::Unknown) {
        Ok(ip) if ip.is_ipv4() == is_ipv4 => Ok(ip),
        Ok(_) => Err(DropReason::IpMalformed),
        Err(malformed) => Err(drop_reason(HeaderLayer::Ip, malformed)),
    }
}

/// Returns `FrameCut` if a frame is longer than the MTU of its link and still ends before its
/// packet does: a port with slots of fixed size has cut a packet that the host's kernel had
/// aggregated.
#[cold]
fn reason_of_cut(frame: &Frame, link: &VlanLink, bytes: &[u8]) -> Option<DropReason> {
    let l3 = bytes.get(usize::from(frame.l3_offset)..)?;
    let word = |at: usize| Some(usize::from(u16::from_be_bytes(*l3.get(at..)?.first_chunk()?)));
    let claimed = match l3.first()? >> 4 {
        4 => word(2)?,
        6 => 40 + word(4)?,
        _ => return None,
    };
    let mtu_bytes = link.interfaces.iter().map(|of| of.mtu_bytes).max()?;
    (l3.len() > mtu_bytes.into() && claimed > l3.len()).then_some(DropReason::FrameCut)
}

/// A frame to our MAC address or to a group, and the link that it arrived on.
struct ArrivedFrame<'f> {
    frame: Frame,
    id: LinkId,
    link: &'f VlanLink,
    bytes: &'f [u8],
    /// The kernel twins of all interfaces.
    twins: Option<&'f KernelTwins>,
}

impl ArrivedFrame<'_> {
    /// Gives a frame to a group to the twin of the link's first interface if that has a class for
    /// it.
    fn for_twin(
        &self,
        class: impl FnOnce(&KernelTwins, InterfaceId) -> Option<KernelClass>,
    ) -> Option<ParsedPacket> {
        let (twins, interface) = self.twins.zip(self.link.first())?;
        Some(ParsedPacket::Kernel(interface, class(twins, interface)?))
    }
}

/// Parses an IP packet in a frame to our MAC address.
#[inline]
fn parse_ip_packet(
    arrived: &ArrivedFrame<'_>,
    ip: IpPacket,
    tally: &mut StepTally,
) -> ParsedPacket {
    let ArrivedFrame { frame, link, bytes, .. } = arrived;
    if let Some(interface) = link.owner(ip.addrs.dst()) {
        tally.receive_on(interface.id, bytes.len());
        return parse_local(arrived, interface, &ip);
    }
    let Some(n6) = link.n6 else {
        count_unaddressed(link, bytes.len(), tally);
        return ParsedPacket::Drop(foreign_packet_reason(&ip));
    };
    tally.receive_on(n6, bytes.len());
    if !is_forwardable(&ip.addrs) {
        return ParsedPacket::Drop(DropReason::IpAddressInvalid);
    }
    let arrival = PacketArrival {
        ip_offset: u16::from(frame.l3_offset),
        payload_len: 0,
        outer: OuterHeader::None,
        outer_tos: 0,
        interfaces: InterfaceSet::only(n6),
        teid: Teid(0),
        is_copied: false,
        is_on_link: false,
        container: None,
        upper: None,
    };
    ParsedPacket::Plain(arrival, ip)
}

/// Returns why plain IP to a foreign address is dropped: only packets from data networks are
/// forwarded.
#[cold]
fn foreign_packet_reason(ip: &IpPacket) -> DropReason {
    if is_forwardable(&ip.addrs) { DropReason::RouteUnknown } else { DropReason::IpAddressInvalid }
}

/// Parses a packet to one of our IP addresses.
#[inline]
fn parse_local(arrived: &ArrivedFrame<'_>, interface: &Interface, ip: &IpPacket) -> ParsedPacket {
    if ip.is_fragment() {
        return parse_local_fragment(arrived, interface, ip);
    }
    match (ip.protocol, ip.is_ipv4()) {
        (protocol::UDP, _) => parse_udp(arrived, interface, ip),
        (protocol::ICMP, true) | (protocol::ICMPV6, false) => parse_icmp(arrived, interface, ip),
        _ => unclaimed(arrived, interface, ip, DropReason::IpProtocolUnknown),
    }
}

/// A packet to one of our addresses that is not for the datapath: the kernel twin of its interface
/// gets it, or it is dropped.
#[cold]
fn unclaimed(
    ArrivedFrame { frame, bytes, twins, .. }: &ArrivedFrame<'_>,
    interface: &Interface,
    ip: &IpPacket,
    reason: DropReason,
) -> ParsedPacket {
    let l3 = bytes.get(usize::from(frame.l3_offset)..).unwrap_or_default();
    match twins.and_then(|twins| twins.class_of(interface.id, ip, l3)) {
        Some(class) => ParsedPacket::Kernel(interface.id, class),
        None => ParsedPacket::Drop(reason),
    }
}

/// ICMP to one of our addresses. With a kernel twin the kernel answers echo requests.
#[cold]
fn parse_icmp(arrived: &ArrivedFrame<'_>, interface: &Interface, ip: &IpPacket) -> ParsedPacket {
    let ArrivedFrame { frame, id, bytes, twins, .. } = *arrived;
    let l3_offset = frame.l3_offset;
    let l3 = bytes.get(usize::from(l3_offset)..).unwrap_or_default();
    let echo_request = if ip.is_ipv4() { icmp::ECHO_REQUEST } else { icmpv6::ECHO_REQUEST };
    let is_echo_request = ip.payload(l3).first() == Some(&echo_request);
    match ip.is_ipv4() {
        _ if is_echo_request && twins.is_some_and(|twins| twins.has(interface.id)) => {
            ParsedPacket::Kernel(interface.id, KernelClass::Other)
        }
        true => ParsedPacket::Slow(id, SlowTask::Icmp { l3_offset, ip: *ip }),
        false => ParsedPacket::Slow(id, SlowTask::Icmpv6 { l3_offset, ip: *ip }),
    }
}

/// Parses a fragment to one of our addresses. Fragments that may be of a tunnel packet are joined;
/// if the datagram is no GTP-U, the twin gets it whole. The twin gets other fragments as they are.
#[cold]
fn parse_local_fragment(
    arrived: &ArrivedFrame<'_>,
    interface: &Interface,
    ip: &IpPacket,
) -> ParsedPacket {
    let l3_offset = arrived.frame.l3_offset;
    match interface.role.is_gtpu() && ip.may_carry(protocol::UDP) {
        true => ParsedPacket::Fragment(InterfaceSet::only(interface.id), l3_offset, *ip),
        false => unclaimed(arrived, interface, ip, DropReason::OuterFragment),
    }
}

/// Parses a UDP datagram to one of our addresses; drops it unless it is GTP-U.
///
/// Over IPv4 the UDP checksum is not verified: header checksum, length, version and inner checksums
/// protect the same octets. Over IPv6 it is the only protection of the addresses, so it is verified
/// unless it is zero, which tunnels may send (RFC 6935 §5).
#[inline]
fn parse_udp(arrived: &ArrivedFrame<'_>, interface: &Interface, ip: &IpPacket) -> ParsedPacket {
    let ArrivedFrame { frame, id, bytes, .. } = *arrived;
    let l3 = bytes.get(usize::from(frame.l3_offset)..).unwrap_or_default();
    let (udp, message) = match UdpHeader::parse(ip.payload(l3)) {
        Ok(parsed) => parsed,
        Err(malformed) => return ParsedPacket::Drop(drop_reason(HeaderLayer::Udp, malformed)),
    };
    if udp.dst_port() != UDP_PORT {
        return unclaimed(arrived, interface, ip, DropReason::UdpPortUnknown);
    }
    if !interface.role.is_gtpu() {
        return unclaimed(arrived, interface, ip, DropReason::GtpuNotOnN3);
    }
    if !ip.is_ipv4()
        && let Err(reason) = verify_udp(ip, ip.payload(l3))
    {
        return ParsedPacket::Drop(reason);
    }
    let gtpu = match parse_gtpu(message) {
        Ok(gtpu) => gtpu,
        Err(malformed) => return ParsedPacket::Drop(drop_reason(HeaderLayer::Gtpu, malformed)),
    };
    if gtpu.unknown_comprehension.is_some() {
        return unknown_extension(gtpu.message_type);
    }
    let message_offset =
        u16::from(frame.l3_offset).saturating_add(ip.payload_offset).saturating_add(8);
    if gtpu.message_type != GtpuMessageType::G_PDU {
        let src_port = udp.src_port();
        return ParsedPacket::Slow(id, SlowTask::Gtpu { ip: *ip, src_port, gtpu, message_offset });
    }
    let arrival = PacketArrival {
        ip_offset: message_offset.saturating_add(gtpu.payload_offset),
        payload_len: gtpu.payload_len,
        outer: if ip.is_ipv4() { OuterHeader::GtpuUdpIpv4 } else { OuterHeader::GtpuUdpIpv6 },
        outer_tos: ip.tos,
        interfaces: InterfaceSet::only(interface.id),
        teid: gtpu.teid,
        is_copied: false,
        is_on_link: false,
        container: gtpu.psc,
        upper: None,
    };
    ParsedPacket::Tunneled(arrival)
}

/// Returns whether to notify the sender of an unknown extension header. Error messages are only
/// dropped: two nodes would answer each other forever.
#[cold]
fn unknown_extension(message_type: GtpuMessageType) -> ParsedPacket {
    match message_type {
        GtpuMessageType::ERROR_INDICATION
        | GtpuMessageType::SUPPORTED_EXTENSION_HEADERS_NOTIFICATION => {
            ParsedPacket::Drop(DropReason::GtpuExtensionUnknown)
        }
        _ => ParsedPacket::UnknownExtension,
    }
}

/// Parses a frame whose destination is not our MAC address: drops it unless it is group traffic
/// that concerns us.
#[cold]
fn parse_group_frame(arrived: &ArrivedFrame<'_>) -> ParsedPacket {
    let ArrivedFrame { frame, id, bytes, .. } = *arrived;
    if !frame.dst.is_multicast() {
        return ParsedPacket::Drop(DropReason::FrameNotForUs);
    }
    if let Some(parsed) = arrived.for_twin(|twins, of| twins.class_of_group_frame(of, &frame)) {
        return parsed;
    }
    if is_bridge_group(frame.dst) {
        return ParsedPacket::Punt(PuntReason::LinkControl);
    }
    match frame.ether_type {
        EtherType::ARP => ParsedPacket::Slow(id, SlowTask::Arp { l3_offset: frame.l3_offset }),
        EtherType::IPV4 | EtherType::IPV6 => match parse_l3(&frame, bytes, RxChecksum::Unknown) {
            Ok(ip) => parse_group_ip(arrived, &ip),
            Err(reason) => ParsedPacket::Drop(reason),
        },
        _ => ParsedPacket::Drop(DropReason::EtherTypeUnknown),
    }
}

/// True for the reserved addresses that bridges do not forward: LLDP, spanning tree, pause, LACP.
/// Spec: IEEE 802.1Q §8.6.3.
fn is_bridge_group(dst: MacAddr) -> bool {
    dst.0[..5] == [0x01, 0x80, 0xc2, 0x00, 0x00]
}

/// Parses IP in a broadcast or multicast frame: neighbor discovery and group management. A unicast
/// packet in such a frame is dropped. Spec: RFC 1122 §3.3.6.
fn parse_group_ip(arrived: &ArrivedFrame<'_>, ip: &IpPacket) -> ParsedPacket {
    let ArrivedFrame { frame, id, .. } = *arrived;
    let (l3_offset, dst) = (frame.l3_offset, ip.addrs.dst());
    if dst.is_multicast()
        && let Some(parsed) = arrived.for_twin(|twins, of| twins.class_of_group_packet(of, ip))
    {
        return parsed;
    }
    match dst {
        IpAddr::V6(dst) if dst.is_multicast() && ip.protocol == protocol::ICMPV6 => {
            ParsedPacket::Slow(id, SlowTask::Icmpv6 { l3_offset, ip: *ip })
        }
        IpAddr::V4(dst) if dst.is_multicast() && ip.protocol == protocol::IGMP => {
            ParsedPacket::Punt(PuntReason::LinkControl)
        }
        dst if adit_types::is_forwardable(dst) => ParsedPacket::Drop(DropReason::FrameNotForUs),
        _ => ParsedPacket::Drop(DropReason::IpAddressInvalid),
    }
}
