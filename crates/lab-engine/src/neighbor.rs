//! Traffic that a target needs besides probe packets: ARP and neighbor discovery in both
//! directions, and answers to GTP-U Echo Requests over IPv4 and IPv6.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_pktio::{Burst, PacketBuf, PacketIo};
use adit_types::{MacAddr, PortId, VlanId};
use adit_wire::EtherType;
use adit_wire::arp::{ArpOperation, ArpPacket};
use adit_wire::checksum::ipv4_header;
use adit_wire::ethernet::EthernetHeader;
use adit_wire::gtpu::{ECHO_RESPONSE_LEN_MAX, GtpuMessageType, UDP_PORT, emit_echo_response};
use adit_wire::icmpv6::PseudoHeader;
use adit_wire::ipv6::{Ipv6Fields, Ipv6Header};
use adit_wire::neighbor::{
    HOP_LIMIT, MESSAGE_LEN, NeighborAdvertisement, NeighborSolicitation, multicast_mac,
    solicited_node,
};
use adit_wire::udp::{UdpHeader, checksum_ipv6};
use adit_wire::{parse_gtpu, protocol};

/// Length of the two MAC addresses at the start of a frame. Unit: octets.
const MAC_ADDRESSES_LEN: usize = 12;
const VLAN_TAG_TYPE: [u8; 2] = [0x81, 0x00];
/// Length of the Ethernet, IPv4 (without options) and UDP headers.
const HEADERS_LEN: usize = 14 + 20 + 8;
/// Length of the Ethernet and IPv6 headers.
const IPV6_HEADERS_LEN: usize = EthernetHeader::LEN + Ipv6Header::LEN;

/// The addresses of one port.
#[derive(Debug, Clone, Default)]
pub struct PortAddresses {
    /// The port.
    pub port: PortId,
    /// MAC address of the port.
    pub mac: MacAddr,
    /// VLAN of all frames of the port, or untagged.
    pub vlan: VlanId,
    /// IPv4 addresses of the port.
    pub ipv4: Vec<Ipv4Addr>,
    /// IPv6 addresses of the port.
    pub ipv6: Vec<Ipv6Addr>,
}

/// Resolves neighbors of the ports, and answers requests for the ports' own addresses.
#[derive(Debug, Default)]
pub struct Neighbors {
    ports: Vec<PortAddresses>,
    /// MAC addresses of known neighbors.
    known: HashMap<IpAddr, MacAddr>,
    /// Number of answered Echo Requests.
    pub echoes_answered: u64,
}

impl Neighbors {
    /// Prepares to answer requests for the addresses of `ports`.
    #[must_use]
    pub fn new(ports: Vec<PortAddresses>) -> Self {
        Self { ports, ..Self::default() }
    }

    /// Returns the MAC address of a neighbor; `None` if it is not known yet.
    #[must_use]
    pub fn known(&self, address: IpAddr) -> Option<MacAddr> {
        self.known.get(&address).copied()
    }

    /// Sends an ARP request or a Neighbor Solicitation for `target` on `port`. False if the port
    /// has no address of the same family, if no buffer is free, or if the port accepts no packet.
    pub fn send_request<I: PacketIo>(&self, io: &mut I, port: PortId, target: IpAddr) -> bool {
        let Some(own) = self.ports.iter().find(|own| own.port == port) else { return false };
        let question = match target {
            IpAddr::V4(target) => arp_request(own, target),
            IpAddr::V6(target) => solicitation(own, target),
        };
        let Some(question) = question else { return false };
        let Some(mut buf) = io.alloc() else { return false };
        replace(&mut buf, &question) && send(io, own, buf)
    }

    /// Processes a frame that is not a probe packet, and answers it if necessary.
    #[cold]
    pub fn receive<I: PacketIo>(&mut self, io: &mut I, port: PortId, mut buf: I::Buf) {
        let Some(own) = self.ports.iter().find(|own| own.port == port) else { return };
        untag(&mut buf, own.vlan);
        let Ok((link, rest)) = EthernetHeader::parse(buf.data()) else { return };
        match link.ether_type() {
            EtherType::ARP => {
                let Ok((arp, _)) = ArpPacket::parse(rest) else { return };
                let (arp, is_ours) = (*arp, own.ipv4.contains(&arp.target_addr()));
                self.known.insert(arp.sender_addr().into(), arp.sender_mac());
                if arp.operation() == ArpOperation::REQUEST && is_ours {
                    let header = EthernetHeader::new(arp.sender_mac(), own.mac, EtherType::ARP);
                    let reply = ArpPacket::reply(&arp, own.mac);
                    let out = buf.data_mut();
                    let Some((front, rest)) = out.split_at_mut_checked(EthernetHeader::LEN) else {
                        return;
                    };
                    if header.emit(front).is_ok() && reply.emit(rest).is_ok() {
                        send(io, own, buf);
                    }
                }
            }
            EtherType::IPV6 => {
                if let Some((address, mac)) = advertised_neighbor(buf.data()) {
                    self.known.insert(address.into(), mac);
                }
                let echo = echo_response_ipv6(buf.data(), own);
                let is_echo = echo.is_some();
                let reply = echo.or_else(|| answer_to_solicitation(buf.data(), own));
                if reply.is_some_and(|reply| replace(&mut buf, &reply)) && send(io, own, buf) {
                    self.echoes_answered += u64::from(is_echo);
                }
            }
            EtherType::IPV4
                if is_echo_request(buf.data(), own)
                    && echo_response(&mut buf)
                    && send(io, own, buf) =>
            {
                self.echoes_answered += 1;
            }
            _ => {}
        }
    }
}

fn send<I: PacketIo>(io: &mut I, own: &PortAddresses, mut buf: I::Buf) -> bool {
    if own.vlan != VlanId::UNTAGGED {
        let frame = buf.data();
        let (addresses, rest) = frame.split_at(frame.len().min(MAC_ADDRESSES_LEN));
        let tag = own.vlan.value().to_be_bytes();
        let tagged = [addresses, &VLAN_TAG_TYPE, &tag, rest].concat();
        if !replace(&mut buf, &tagged) {
            return false;
        }
    }
    let mut burst = Burst::new();
    burst.push(buf);
    io.tx_burst(own.port, &mut burst) == 1
}

/// Removes the VLAN tag from a frame of `vlan`. Leaves other frames unchanged.
fn untag<B: PacketBuf>(buf: &mut B, vlan: VlanId) {
    let Some((front, rest)) = buf.data().split_at_checked(MAC_ADDRESSES_LEN + 4) else { return };
    let [.., a, b, hi, lo] = front else { return };
    let is_ours = u16::from_be_bytes([*hi, *lo]) & 0x0fff == vlan.value();
    if [*a, *b] == VLAN_TAG_TYPE && is_ours && vlan != VlanId::UNTAGGED {
        let untagged = [front.get(..MAC_ADDRESSES_LEN).unwrap_or_default(), rest].concat();
        replace(buf, &untagged);
    }
}

/// Replaces the content of a buffer. False if `frame` does not fit.
fn replace<B: PacketBuf>(buf: &mut B, frame: &[u8]) -> bool {
    let have = buf.data().len();
    let fits = if have > frame.len() {
        buf.truncate(frame.len())
    } else {
        have == frame.len() || buf.append(frame.len() - have).is_some()
    };
    if fits {
        buf.data_mut().copy_from_slice(frame);
    }
    fits
}

fn arp_request(own: &PortAddresses, target: Ipv4Addr) -> Option<Vec<u8>> {
    let mut frame = vec![0; 60];
    let (front, rest) = frame.split_at_mut(EthernetHeader::LEN);
    EthernetHeader::new(MacAddr::BROADCAST, own.mac, EtherType::ARP).emit(front).ok()?;
    ArpPacket::request(own.mac, *own.ipv4.first()?, target).emit(rest).ok()?;
    Some(frame)
}

/// Spec: RFC 4861 §7.2.2.
fn solicitation(own: &PortAddresses, target: Ipv6Addr) -> Option<Vec<u8>> {
    let src = *own.ipv6.first()?;
    let dst = solicited_node(target);
    let (link, pseudo) = (ipv6_link(multicast_mac(dst), own.mac), PseudoHeader { src, dst });
    let mut frame = ipv6_frame(link, pseudo, protocol::ICMPV6, MESSAGE_LEN)?;
    let message = NeighborSolicitation { target, source_mac: Some(own.mac) };
    message.emit(frame.get_mut(IPV6_HEADERS_LEN..)?, &pseudo).ok()?;
    Some(frame)
}

fn ipv6_link(dst: MacAddr, src: MacAddr) -> EthernetHeader {
    EthernetHeader::new(dst, src, EtherType::IPV6)
}

/// Makes a frame with `len` zero octets after its IPv6 header.
fn ipv6_frame(
    link: EthernetHeader,
    PseudoHeader { src, dst }: PseudoHeader,
    next_header: u8,
    len: usize,
) -> Option<Vec<u8>> {
    let mut frame = vec![0; IPV6_HEADERS_LEN + len];
    let (front, rest) = frame.split_at_mut_checked(EthernetHeader::LEN)?;
    link.emit(front).ok()?;
    let payload_len = u16::try_from(len).ok()?;
    let (traffic_class, flow_label, hop_limit) = (0, 0, HOP_LIMIT);
    let fields =
        Ipv6Fields { traffic_class, flow_label, payload_len, next_header, hop_limit, src, dst };
    Ipv6Header::new(&fields).emit(rest).ok()?;
    Some(frame)
}

/// Returns the IPv6 and the MAC address of a solicitation's sender or an advertisement's target.
fn advertised_neighbor(frame: &[u8]) -> Option<(Ipv6Addr, MacAddr)> {
    let (_, packet) = EthernetHeader::parse(frame).ok()?;
    let (ip, message) = Ipv6Header::parse(packet).ok()?;
    if ip.next_header() != protocol::ICMPV6 || ip.src().is_unspecified() {
        return None;
    }
    let pseudo = PseudoHeader { src: ip.src(), dst: ip.dst() };
    if let Ok(answer) = NeighborAdvertisement::parse(&pseudo, message) {
        return Some((answer.target, answer.target_mac?));
    }
    let question = NeighborSolicitation::parse(&pseudo, message).ok()?;
    Some((ip.src(), question.source_mac?))
}

/// Makes the answer to an Echo Request to one of our IPv6 addresses; `None` for other frames.
fn echo_response_ipv6(frame: &[u8], own: &PortAddresses) -> Option<Vec<u8>> {
    let (link, packet) = EthernetHeader::parse(frame).ok()?;
    let (ip, datagram) = Ipv6Header::parse(packet).ok()?;
    if ip.next_header() != protocol::UDP || !own.ipv6.contains(&ip.dst()) {
        return None;
    }
    let (udp, message) = UdpHeader::parse(datagram).ok()?;
    let request = parse_gtpu(message).ok()?;
    if udp.dst_port() != UDP_PORT || request.message_type != GtpuMessageType::ECHO_REQUEST {
        return None;
    }
    let mut response = [0; ECHO_RESPONSE_LEN_MAX];
    let sequence = request.sequence.unwrap_or_default();
    let len = emit_echo_response(&mut response, sequence, None).ok()?;
    let udp_len = UdpHeader::LEN + len;
    let (src, dst) = (ip.dst(), ip.src());
    let back = ipv6_link(link.src(), own.mac);
    let mut reply = ipv6_frame(back, PseudoHeader { src, dst }, protocol::UDP, udp_len)?;
    let out = reply.get_mut(IPV6_HEADERS_LEN..)?;
    let header = UdpHeader::new(UDP_PORT, udp.src_port(), u16::try_from(udp_len).ok()?, 0);
    header.emit(out).ok()?;
    out.get_mut(UdpHeader::LEN..)?.copy_from_slice(response.get(..len)?);
    let checksum = checksum_ipv6(src, dst, out).to_be_bytes();
    out.get_mut(6..8)?.copy_from_slice(&checksum);
    Some(reply)
}

/// Answers a Neighbor Solicitation for one of our addresses. Spec: RFC 4861 §7.2.4.
fn answer_to_solicitation(frame: &[u8], own: &PortAddresses) -> Option<Vec<u8>> {
    let (link, packet) = EthernetHeader::parse(frame).ok()?;
    let (ip, message) = Ipv6Header::parse(packet).ok()?;
    if ip.next_header() != protocol::ICMPV6 {
        return None;
    }
    let pseudo = PseudoHeader { src: ip.src(), dst: ip.dst() };
    let target = NeighborSolicitation::parse(&pseudo, message).ok()?.target;
    if !own.ipv6.contains(&target) || ip.src().is_unspecified() {
        return None;
    }
    let (back, pseudo) =
        (ipv6_link(link.src(), own.mac), PseudoHeader { src: target, dst: ip.src() });
    let mut reply = ipv6_frame(back, pseudo, protocol::ICMPV6, MESSAGE_LEN)?;
    let rest = reply.get_mut(IPV6_HEADERS_LEN..)?;
    let advertisement = NeighborAdvertisement {
        target,
        target_mac: Some(own.mac),
        router: true,
        solicited: true,
        override_entry: true,
    };
    advertisement.emit(rest, &pseudo).ok()?;
    Some(reply)
}

fn is_echo_request(frame: &[u8], own: &PortAddresses) -> bool {
    let field = |at: usize, len: usize| frame.get(at..at + len).unwrap_or_default();
    let to_us = own.ipv4.iter().any(|address| field(30, 4) == address.octets());
    to_us
        && field(14, 1) == [0x45]
        && field(23, 1) == [17]
        && field(36, 2) == UDP_PORT.to_be_bytes()
        && frame
            .get(HEADERS_LEN..)
            .and_then(|message| parse_gtpu(message).ok())
            .is_some_and(|gtpu| gtpu.message_type == GtpuMessageType::ECHO_REQUEST)
}

/// Turns an Echo Request over IPv4 into its response. False if the response does not fit.
fn echo_response<B: PacketBuf>(buf: &mut B) -> bool {
    let sequence = buf.data().get(HEADERS_LEN..).and_then(|message| parse_gtpu(message).ok());
    let Some(sequence) = sequence.map(|gtpu| gtpu.sequence.unwrap_or_default()) else {
        return false;
    };
    let mut message = [0; ECHO_RESPONSE_LEN_MAX];
    let Ok(message_len) = emit_echo_response(&mut message, sequence, None) else { return false };
    let len = HEADERS_LEN + message_len;
    let have = buf.data().len();
    let fits = if have > len {
        buf.truncate(len)
    } else {
        have == len || buf.append(len - have).is_some()
    };
    if !fits {
        return false;
    }
    let out = buf.data_mut();
    let mut swap = |a: usize, b: usize, len: usize| {
        for index in 0..len {
            out.swap(a + index, b + index);
        }
    };
    swap(0, 6, 6);
    swap(26, 30, 4);
    swap(34, 36, 2);
    let Some((headers, room)) = out.split_at_mut_checked(HEADERS_LEN) else { return false };
    for (slot, octet) in room.iter_mut().zip(message) {
        *slot = octet;
    }
    let udp_len = u16::try_from(8 + message_len).unwrap_or(u16::MAX);
    let Some((_, ip)) = headers.split_at_mut_checked(14) else { return false };
    let [_, _, hi, lo, ..] = ip else { return false };
    [*hi, *lo] = (20 + udp_len).to_be_bytes();
    let Some((header, udp)) = ip.split_first_chunk_mut::<20>() else { return false };
    header[10..12].fill(0);
    let checksum = ipv4_header(header).to_be_bytes();
    header[10..12].copy_from_slice(&checksum);
    let [_, _, _, _, udp_len_hi, udp_len_lo, sum_hi, sum_lo] = udp else { return false };
    [*udp_len_hi, *udp_len_lo] = udp_len.to_be_bytes();
    [*sum_hi, *sum_lo] = [0, 0];
    true
}

#[cfg(test)]
mod tests {
    use adit_pktio::mem::MemIo;
    use adit_wire::gtpu::emit_echo_request;
    use adit_wire::ipv4::{Ipv4Fields, Ipv4Header};
    use adit_wire::parse_ip;

    use super::*;

    const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 1);
    const UPF: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 2);
    const OWN_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
    const UPF_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);
    const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const UPF_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
    const PORT: PortId = PortId(0);

    fn neighbors() -> (Neighbors, MemIo) {
        let own = PortAddresses {
            port: PORT,
            mac: MAC,
            vlan: VlanId::UNTAGGED,
            ipv4: vec![OWN],
            ipv6: vec![OWN_V6],
        };
        (Neighbors::new(vec![own]), MemIo::new(&[MAC]))
    }

    #[test]
    fn arp_request_for_an_own_address_is_answered_and_its_sender_known() {
        let (mut upf_side, mut io) = neighbors();
        let upf = PortAddresses {
            port: PORT,
            mac: UPF_MAC,
            vlan: VlanId::UNTAGGED,
            ipv4: vec![UPF],
            ipv6: Vec::new(),
        };
        upf_side.ports[0] = upf.clone();
        for vlan in [VlanId::UNTAGGED, VlanId::new(7).unwrap()] {
            upf_side.ports[0].vlan = vlan;
            assert!(upf_side.send_request(&mut io, PORT, OWN.into()));
            let request = io.take_sent(PORT).remove(0);
            let (mut neighbors, mut io) = neighbors();
            neighbors.ports[0].vlan = vlan;
            neighbors.receive(&mut io, PORT, request);
            assert_eq!(neighbors.known(UPF.into()), Some(UPF_MAC), "{vlan:?}");
            let reply = io.take_sent(PORT).remove(0);
            assert_eq!(reply.data()[12..14] == VLAN_TAG_TYPE, vlan != VlanId::UNTAGGED);
            upf_side.known.clear();
            upf_side.receive(&mut io, PORT, reply);
            assert_eq!(upf_side.known(OWN.into()), Some(MAC));
        }
        upf_side.ports[0] = upf;
        assert!(upf_side.send_request(&mut io, PORT, OWN.into()));
        let request = io.take_sent(PORT).remove(0);
        let (mut neighbors, mut io) = neighbors();
        neighbors.receive(&mut io, PORT, request);
        let reply = io.take_sent(PORT).remove(0);
        upf_side.receive(&mut io, PORT, reply);
        assert_eq!(upf_side.known(OWN.into()), Some(MAC));
        assert!(io.take_sent(PORT).is_empty(), "a reply is not answered");
    }

    #[test]
    fn echo_request_is_answered_with_its_sequence_number() {
        let (mut neighbors, mut io) = neighbors();
        let mut frame = vec![0; HEADERS_LEN + 12];
        EthernetHeader::new(MAC, UPF_MAC, EtherType::IPV4).emit(&mut frame).unwrap();
        let fields = Ipv4Fields {
            tos: 0,
            total_len: 40,
            identification: 0,
            dont_fragment: false,
            ttl: 64,
            protocol: protocol::UDP,
            src: UPF,
            dst: OWN,
        };
        Ipv4Header::new(&fields).emit(&mut frame[14..]).unwrap();
        adit_wire::udp::UdpHeader::new(2152, 2152, 20, 0).emit(&mut frame[34..]).unwrap();
        emit_echo_request(&mut frame[HEADERS_LEN..], 0x1234, None).unwrap();
        let mut buf = io.alloc().unwrap();
        buf.append(frame.len()).unwrap().copy_from_slice(&frame);
        neighbors.receive(&mut io, PORT, buf);
        let reply = io.take_sent(PORT).remove(0);
        let bytes = reply.data();
        let ip = parse_ip(&bytes[14..], true).unwrap();
        assert_eq!(ip.payload_len(), 8 + 14);
        assert_eq!((&bytes[26..30], &bytes[30..34]), (&OWN.octets()[..], &UPF.octets()[..]));
        let gtpu = parse_gtpu(&bytes[HEADERS_LEN..]).unwrap();
        assert_eq!(gtpu.message_type, GtpuMessageType::ECHO_RESPONSE);
        assert_eq!(gtpu.sequence, Some(0x1234));
        assert_eq!(neighbors.echoes_answered, 1);
    }

    #[test]
    fn neighbors_over_ipv6_ask_each_other_and_learn_both_ways() {
        let (upf_ports, mut io) = neighbors();
        let mut upf_side = upf_ports;
        upf_side.ports[0].mac = UPF_MAC;
        upf_side.ports[0].ipv6 = vec![UPF_V6];
        assert!(upf_side.send_request(&mut io, PORT, OWN_V6.into()));
        let question = io.take_sent(PORT).remove(0);
        let (mut neighbors, mut io) = neighbors();
        neighbors.receive(&mut io, PORT, question);
        assert_eq!(neighbors.known(UPF_V6.into()), Some(UPF_MAC));
        let answer = io.take_sent(PORT).remove(0);
        upf_side.receive(&mut io, PORT, answer);
        assert_eq!(upf_side.known(OWN_V6.into()), Some(MAC));
        assert!(io.take_sent(PORT).is_empty(), "an answer is not answered");
    }

    #[test]
    fn echo_request_over_ipv6_is_answered_with_a_valid_checksum() {
        let (mut neighbors, mut io) = neighbors();
        let (link, pseudo) = (ipv6_link(MAC, UPF_MAC), PseudoHeader { src: UPF_V6, dst: OWN_V6 });
        let mut frame = ipv6_frame(link, pseudo, protocol::UDP, 8 + 12).unwrap();
        let datagram = &mut frame[IPV6_HEADERS_LEN..];
        UdpHeader::new(2152, 2152, 20, 0).emit(datagram).unwrap();
        emit_echo_request(&mut datagram[8..], 0x4321, None).unwrap();
        let mut buf = io.alloc().unwrap();
        buf.append(frame.len()).unwrap().copy_from_slice(&frame);
        neighbors.receive(&mut io, PORT, buf);
        let reply = io.take_sent(PORT).remove(0);
        let (link, packet) = EthernetHeader::parse(reply.data()).unwrap();
        let (ip, datagram) = Ipv6Header::parse(packet).unwrap();
        assert_eq!((link.dst(), ip.src(), ip.dst()), (UPF_MAC, OWN_V6, UPF_V6));
        adit_wire::udp::verify_ipv6(ip.src(), ip.dst(), datagram).unwrap();
        let gtpu = parse_gtpu(&datagram[8..]).unwrap();
        assert_eq!(
            (gtpu.message_type, gtpu.sequence),
            (GtpuMessageType::ECHO_RESPONSE, Some(0x4321))
        );
        assert_eq!(neighbors.echoes_answered, 1);
    }

    #[test]
    fn neighbor_solicitation_for_an_own_address_is_answered() {
        for (target, wanted) in [(OWN_V6, 1), (UPF_V6, 0)] {
            let (mut neighbors, mut io) = neighbors();
            let dst = solicited_node(target);
            let mut frame = vec![0; 14 + 40 + MESSAGE_LEN];
            let link = EthernetHeader::new(multicast_mac(dst), UPF_MAC, EtherType::IPV6);
            link.emit(&mut frame).unwrap();
            let fields = Ipv6Fields {
                traffic_class: 0,
                flow_label: 0,
                payload_len: 32,
                next_header: protocol::ICMPV6,
                hop_limit: HOP_LIMIT,
                src: UPF_V6,
                dst,
            };
            Ipv6Header::new(&fields).emit(&mut frame[14..]).unwrap();
            let solicitation = NeighborSolicitation { target, source_mac: Some(UPF_MAC) };
            solicitation.emit(&mut frame[54..], &PseudoHeader { src: UPF_V6, dst }).unwrap();
            let mut buf = io.alloc().unwrap();
            buf.append(frame.len()).unwrap().copy_from_slice(&frame);
            neighbors.receive(&mut io, PORT, buf);
            let sent = io.take_sent(PORT);
            assert_eq!(sent.len(), wanted);
            if let Some(reply) = sent.first() {
                let pseudo = PseudoHeader { src: OWN_V6, dst: UPF_V6 };
                let answer = NeighborAdvertisement::parse(&pseudo, &reply.data()[54..]).unwrap();
                assert_eq!((answer.target, answer.target_mac), (OWN_V6, Some(MAC)));
            }
        }
    }

    #[test]
    fn frame_cut_anywhere_is_ignored() {
        let (mut neighbors, mut io) = neighbors();
        assert!(neighbors.send_request(&mut io, PORT, UPF.into()));
        let frame = io.take_sent(PORT).remove(0);
        for len in 0..frame.data().len() {
            let mut cut = frame.clone();
            assert!(cut.truncate(len));
            neighbors.receive(&mut io, PORT, cut);
        }
    }
}
