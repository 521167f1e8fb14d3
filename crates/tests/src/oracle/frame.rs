//! Writing the frames that leave.

use core::net::IpAddr;

use super::Interface;

/// The Internet checksum over `bytes`, octet pair by octet pair. Spec: RFC 1071.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u64 = 0;
    for pair in bytes.chunks(2) {
        sum += u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
    }
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}

/// The PDU Session Container of an outer header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Container {
    None,
    Downlink { qfi: u8, rqi: bool },
    Uplink { qfi: u8 },
}

impl Container {
    /// Octets of GTP-U with this container.
    fn gtpu_len(self) -> usize {
        if self == Self::None { 8 } else { 16 }
    }
}

/// The outer header that a FAR creates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outer {
    pub teid: u32,
    pub peer: IpAddr,
    pub tos: u8,
    pub container: Container,
}

impl Outer {
    /// Octets that it adds to the IP packet.
    pub fn len(&self) -> usize {
        let ip = if self.peer.is_ipv4() { 20 } else { 40 };
        ip + 8 + self.container.gtpu_len()
    }
}

/// The inner packet one hop further.
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

/// The frame around `packet`.
pub(super) fn link(interface: &Interface, dst: [u8; 6], packet: &[u8]) -> Vec<u8> {
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

/// `inner` in a tunnel. Ports 2152, TTL 64, don't fragment, no UDP checksum over IPv4, one over
/// IPv6. Spec: TS 29.281 §4.4.2, §5.1; TS 38.415 §5.5.2; RFC 8200 §8.1.
pub(super) fn tunnel(interface: &Interface, outer: &Outer, inner: &[u8]) -> Vec<u8> {
    let mut gtpu = vec![0x30, 255];
    let len = inner.len() + outer.container.gtpu_len() - 8;
    gtpu.extend_from_slice(&(len as u16).to_be_bytes());
    gtpu.extend_from_slice(&outer.teid.to_be_bytes());
    match outer.container {
        Container::None => {}
        Container::Downlink { qfi, rqi } => {
            gtpu[0] |= 4;
            gtpu.extend_from_slice(&[0, 0, 0, 0x85, 1, 0x00, u8::from(rqi) << 6 | qfi, 0]);
        }
        Container::Uplink { qfi } => {
            gtpu[0] |= 4;
            gtpu.extend_from_slice(&[0, 0, 0, 0x85, 1, 0x10, qfi, 0]);
        }
    }
    gtpu.extend_from_slice(inner);

    let udp_len = (8 + gtpu.len()) as u16;
    let mut udp = Vec::new();
    for field in [2152, 2152, udp_len, 0] {
        udp.extend_from_slice(&field.to_be_bytes());
    }
    udp.extend_from_slice(&gtpu);
    match outer.peer {
        IpAddr::V4(peer) => {
            let mut packet = vec![0x45, outer.tos];
            packet.extend_from_slice(&(20 + udp_len).to_be_bytes());
            packet.extend_from_slice(&[0, 0, 0x40, 0, 64, 17, 0, 0]);
            packet.extend_from_slice(&interface.v4.0.octets());
            packet.extend_from_slice(&peer.octets());
            let sum = checksum(&packet);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
            packet.extend_from_slice(&udp);
            packet
        }
        IpAddr::V6(peer) => {
            let addresses = [interface.v6.0.octets(), peer.octets()].concat();
            let mut pseudo = addresses.clone();
            pseudo.extend_from_slice(&u32::from(udp_len).to_be_bytes());
            pseudo.extend_from_slice(&[0, 0, 0, 17]);
            pseudo.extend_from_slice(&udp);
            let sum = match checksum(&pseudo) {
                0 => 0xffff,
                sum => sum,
            };
            udp[6..8].copy_from_slice(&sum.to_be_bytes());
            let mut packet = (0x6000_0000 | u32::from(outer.tos) << 20).to_be_bytes().to_vec();
            packet.extend_from_slice(&udp_len.to_be_bytes());
            packet.extend_from_slice(&[17, 64]);
            packet.extend_from_slice(&addresses);
            packet.extend_from_slice(&udp);
            packet
        }
    }
}
