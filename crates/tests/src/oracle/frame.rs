//! Writes the frames that leave.

use core::net::IpAddr;

use adit_rules::{GtpuTunnel, HeaderCreation};

use super::OracleInterface;
use super::checksum::{OracleAddrs, checksum, udp_sum};
use super::packet::{OracleContainer, OracleIp, u16_at};

/// The outer header that a FAR creates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OracleOuterHeader {
    pub header: HeaderCreation,
    pub tos: u8,
    pub container: Option<OracleContainer>,
    /// Service Class Indicator and the octet behind it.
    pub service_class: Option<(u8, u8)>,
}

impl OracleOuterHeader {
    /// Octets that it adds to the IP packet.
    pub(super) fn len(&self) -> usize {
        let ip = match self.header.addr() {
            IpAddr::V4(_) => 20,
            IpAddr::V6(_) => 40,
        };
        // UDP, GTP-U, and extension headers: the container is longer with a paging policy.
        let class = match (self.service_class, self.container) {
            (None, _) => 0,
            (Some(_), Some(_)) => 4,
            (Some(_), None) => 8,
        };
        ip + class
            + match (self.header, self.container) {
                (HeaderCreation::Ip { .. }, _) => 0,
                (HeaderCreation::Udp { .. }, _) => 8,
                (HeaderCreation::Gtpu(_), None) => 8 + 8,
                (HeaderCreation::Gtpu(_), Some(OracleContainer { ppi: None, .. })) => 8 + 16,
                (HeaderCreation::Gtpu(_), Some(_)) => 8 + 20,
            }
    }
}

/// The inner packet after one hop: TTL or hop limit less one.
pub(super) fn next_hop_packet(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    if packet[0] >> 4 == 6 {
        packet[7] -= 1;
        return packet;
    }
    packet[8] -= 1;
    packet[10..12].fill(0);
    let header = usize::from(packet[0] & 15) * 4;
    let sum = checksum(&packet[..header]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// Fragments of at most `mtu` octets of an IPv4 packet. Options without the copied flag stay in the
/// first. Spec: RFC 791 §3.1, §3.2.
pub(super) fn fragment_ipv4(packet: &[u8], mtu: usize) -> Vec<Vec<u8>> {
    let (header, mut data) = packet.split_at(usize::from(packet[0] & 15) * 4);
    let mut copied = Vec::new();
    let mut options = &header[20..];
    while let [kind, rest @ ..] = options {
        let len = match (kind, rest) {
            (0, _) => break,
            (1, _) => 1,
            (_, [len, ..]) if *len >= 2 && usize::from(*len) <= options.len() => usize::from(*len),
            _ => break,
        };
        if kind & 0x80 != 0 {
            copied.extend_from_slice(&options[..len]);
        }
        options = &options[len..];
    }
    while !copied.len().is_multiple_of(4) {
        copied.push(0);
    }
    let (mut place, more) = (u16_at(packet, 6) & 0x1fff, u16_at(packet, 6) & 0x2000);
    let mut parts: Vec<Vec<u8>> = Vec::new();
    while !data.is_empty() {
        let mut part = header[..20].to_vec();
        part.extend_from_slice(if parts.is_empty() { &header[20..] } else { &copied });
        let is_last = part.len() + data.len() <= mtu;
        let len = if is_last { data.len() } else { (mtu - part.len()) / 8 * 8 };
        let (here, behind) = data.split_at(len);
        let flags = if behind.is_empty() { more } else { 0x2000 };
        part[0] = 0x40 | (part.len() / 4) as u8;
        let header_len = part.len();
        part.extend_from_slice(here);
        let total = part.len() as u16;
        part[2..4].copy_from_slice(&total.to_be_bytes());
        part[6..8].copy_from_slice(&(flags | place).to_be_bytes());
        part[10..12].fill(0);
        let sum = checksum(&part[..header_len]);
        part[10..12].copy_from_slice(&sum.to_be_bytes());
        parts.push(part);
        place += (here.len() / 8) as u16;
        data = behind;
    }
    parts
}

/// Writes a differentiated services code point. Spec: RFC 2474 §3.
pub(super) fn set_tos(packet: &mut [u8], tos: u8) {
    if packet[0] >> 4 == 6 {
        packet[0] = 0x60 | tos >> 4;
        packet[1] = tos << 4 | packet[1] & 0xf;
        return;
    }
    packet[1] = tos;
    packet[10..12].fill(0);
    let header = usize::from(packet[0] & 15) * 4;
    let sum = checksum(&packet[..header]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// The redirection target, which replaces the far side.
#[derive(Debug, Clone, Copy)]
pub(super) struct OracleRedirectTarget {
    pub addr: IpAddr,
    /// `None` keeps the port.
    pub port: Option<u16>,
}

/// Replaces the far side's address and port. A wrong checksum stays wrong by as much.
pub(super) fn redirect(
    packet: &mut [u8],
    ip: &OracleIp,
    is_uplink: bool,
    target: OracleRedirectTarget,
) {
    let OracleRedirectTarget { addr, port } = target;
    let before = packet.to_vec();
    let octets = match addr {
        IpAddr::V4(addr) => addr.octets().to_vec(),
        IpAddr::V6(addr) => addr.octets().to_vec(),
    };
    let at = match (addr.is_ipv4(), is_uplink) {
        (true, true) => 16,
        (true, false) => 12,
        (false, true) => 24,
        (false, false) => 8,
    };
    packet[at..at + octets.len()].copy_from_slice(&octets);
    let has_ports = [6, 17].contains(&ip.protocol) && !ip.is_later_fragment;
    let port_at = ip.upper + if is_uplink { 2 } else { 0 };
    if let Some(port) = port.filter(|_| has_ports && packet.len() >= port_at + 2) {
        packet[port_at..port_at + 2].copy_from_slice(&port.to_be_bytes());
    }
    if addr.is_ipv4() {
        correct_checksum(packet, &before[..ip.upper.min(before.len())], 10);
    }
    let sum_at = match ip.protocol {
        _ if ip.is_later_fragment => return,
        6 => ip.upper + 16,
        17 => ip.upper + 6,
        58 if addr.is_ipv6() => ip.upper + 2,
        _ => return,
    };
    let has_sum = before.len() >= sum_at + 2;
    let is_udp = ip.protocol == 17;
    if !has_sum || is_udp && before[sum_at..sum_at + 2] == [0, 0] {
        return;
    }
    // The upper layer's checksum does not cover that of the header.
    let mut covered = before.clone();
    if addr.is_ipv4() {
        covered[10..12].copy_from_slice(&packet[10..12]);
    }
    correct_checksum(packet, &covered, sum_at);
    if is_udp && packet[sum_at..sum_at + 2] == [0, 0] {
        packet[sum_at..sum_at + 2].fill(0xff);
    }
}

/// Corrects the checksum at `at` for all words that differ from `before`. Spec: RFC 1624 §3.
pub(super) fn correct_checksum(packet: &mut [u8], before: &[u8], at: usize) {
    let mut sum = u64::from(!u16_at(packet, at));
    for word in (0..before.len() & !1).step_by(2).filter(|word| *word != at) {
        let (old, new) = (u16_at(before, word), u16_at(packet, word));
        if old != new {
            sum += u64::from(!old) + u64::from(new);
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    let sum = !u16::try_from(sum).unwrap();
    packet[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

/// The frame around `packet`.
pub(super) fn link(interface: &OracleInterface, dst: [u8; 6], packet: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    frame.extend_from_slice(&dst);
    frame.extend_from_slice(&interface.mac);
    if interface.vlan != 0 {
        frame.extend_from_slice(&[0x81, 0x00]);
        frame.extend_from_slice(&interface.vlan.to_be_bytes());
    }
    frame.extend_from_slice(if packet[0] >> 4 == 4 { &[0x08, 0x00] } else { &[0x86, 0xdd] });
    frame.extend_from_slice(packet);
    frame
}

/// `inner` in a tunnel. TTL 64, don't fragment; no UDP checksum for GTP-U over IPv4, else one.
/// Spec: TS 29.281 §4.4.2, §5.1; TS 38.415 §5.5.2; RFC 8200 §8.1; RFC 2003; RFC 2473.
pub(super) fn tunnel(
    interface: &OracleInterface,
    outer: &OracleOuterHeader,
    inner: &[u8],
) -> Vec<u8> {
    let addrs = addrs_to(interface, outer.header.addr());
    let (protocol, upper) = match outer.header {
        HeaderCreation::Gtpu(tunnel) => {
            let g_pdu = g_pdu(tunnel.teid.0, outer, inner);
            (17, udp(2152, addrs, addrs.src.is_ipv6(), &g_pdu))
        }
        HeaderCreation::Udp { port, .. } => (17, udp(port, addrs, true, inner)),
        HeaderCreation::Ip { .. } if inner[0] >> 4 == 4 => (4, inner.to_vec()),
        HeaderCreation::Ip { .. } => (41, inner.to_vec()),
    };
    encapsulate(addrs, outer.tos, protocol, &upper)
}

/// An End Marker in `tunnel`. Spec: TS 29.281 §7.3.2.
pub(super) fn end_marker(interface: &OracleInterface, tunnel: GtpuTunnel, tos: u8) -> Vec<u8> {
    let addrs = addrs_to(interface, tunnel.addr);
    let mut message = vec![0x30, 254, 0, 0];
    message.extend_from_slice(&tunnel.teid.0.to_be_bytes());
    encapsulate(addrs, tos, 17, &udp(2152, addrs, true, &message))
}

/// The addresses of a packet from the interface to `dst`.
fn addrs_to(interface: &OracleInterface, dst: IpAddr) -> OracleAddrs {
    let src = match dst {
        IpAddr::V4(_) => interface.v4.0.into(),
        IpAddr::V6(_) => interface.v6.0.into(),
    };
    OracleAddrs { src, dst }
}

/// The IP packet around `upper`.
fn encapsulate(addrs: OracleAddrs, tos: u8, protocol: u8, upper: &[u8]) -> Vec<u8> {
    let len = upper.len() as u16;
    match (addrs.src, addrs.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let mut packet = vec![0x45, tos];
            packet.extend_from_slice(&(20 + len).to_be_bytes());
            packet.extend_from_slice(&[0, 0, 0x40, 0, 64, protocol, 0, 0]);
            packet.extend_from_slice(&src.octets());
            packet.extend_from_slice(&dst.octets());
            let sum = checksum(&packet);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
            packet.extend_from_slice(upper);
            packet
        }
        _ => {
            let mut packet = (0x6000_0000 | u32::from(tos) << 20).to_be_bytes().to_vec();
            packet.extend_from_slice(&len.to_be_bytes());
            packet.extend_from_slice(&[protocol, 64]);
            packet.extend_from_slice(&addrs.octets());
            packet.extend_from_slice(upper);
            packet
        }
    }
}

fn g_pdu(teid: u32, outer: &OracleOuterHeader, inner: &[u8]) -> Vec<u8> {
    let mut extension = match outer.container {
        None => vec![],
        Some(OracleContainer { is_downlink: false, qfi, .. }) => {
            vec![0, 0, 0, 0x85, 1, 0x10, qfi, 0]
        }
        Some(OracleContainer { qfi, rqi, ppi: None, .. }) => {
            vec![0, 0, 0, 0x85, 1, 0x00, u8::from(rqi) << 6 | qfi, 0]
        }
        Some(OracleContainer { qfi, rqi, ppi: Some(ppi), .. }) => {
            let flags = 0x80 | u8::from(rqi) << 6 | qfi;
            vec![0, 0, 0, 0x85, 2, 0x00, flags, ppi << 5, 0, 0, 0, 0]
        }
    };
    if let Some((class, spare)) = outer.service_class {
        match extension.last_mut() {
            Some(next) => *next = 0x20,
            None => extension.extend_from_slice(&[0, 0, 0, 0x20]),
        }
        extension.extend_from_slice(&[1, class, spare, 0]);
    }
    let mut gtpu = vec![if extension.is_empty() { 0x30 } else { 0x34 }, 255];
    gtpu.extend_from_slice(&((extension.len() + inner.len()) as u16).to_be_bytes());
    gtpu.extend_from_slice(&teid.to_be_bytes());
    gtpu.extend_from_slice(&extension);
    gtpu.extend_from_slice(inner);
    gtpu
}

/// A UDP datagram from and to `port`. Spec: RFC 768.
fn udp(port: u16, addrs: OracleAddrs, has_checksum: bool, payload: &[u8]) -> Vec<u8> {
    let len = (8 + payload.len()) as u16;
    let mut udp: Vec<u8> = [port, port, len, 0].iter().flat_map(|f| f.to_be_bytes()).collect();
    udp.extend_from_slice(payload);
    if has_checksum {
        let sum = match udp_sum(addrs, &udp) {
            0 => 0xffff,
            sum => sum,
        };
        udp[6..8].copy_from_slice(&sum.to_be_bytes());
    }
    udp
}
