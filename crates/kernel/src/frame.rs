//! Frames of a kernel port: writes the headers that the kernel removes from received packets, and
//! reads those of packets to be sent.

use std::net::{IpAddr, SocketAddr};

use adit_wire::ethernet::EthernetHeader;
use adit_wire::ipv4::{Ipv4Fields, Ipv4Header};
use adit_wire::ipv6::{Ipv6Fields, Ipv6Header};
use adit_wire::udp::UdpHeader;
use adit_wire::{EtherType, parse_frame, parse_ip, protocol};
use zerocopy::IntoBytes;

use crate::{PORT_MAC, STATION_MAC};

/// Length of the Ethernet header. Unit: octets.
pub(crate) const ETHERNET_LEN: usize = EthernetHeader::LEN;

/// Hop limit of a synthesized header. Any value does: such a packet is not forwarded by its outer
/// header.
const TTL: u8 = 64;

/// Returns the length of the Ethernet, IP and UDP headers of a datagram from `from`. Unit: octets.
pub(crate) const fn headers_len(from: IpAddr) -> usize {
    match from {
        IpAddr::V4(_) => ETHERNET_LEN + 20 + 8,
        IpAddr::V6(_) => ETHERNET_LEN + 40 + 8,
    }
}

/// The addresses and traffic class of a datagram that the kernel delivered without its headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DatagramHeaders {
    pub from: SocketAddr,
    pub to: SocketAddr,
    /// Type of service or traffic class.
    pub tos: u8,
}

/// Writes the headers of a frame with `payload_len` octets of UDP payload into `out`, which has
/// exactly their length. The UDP checksum is zero: the kernel has verified it, and tunnels may omit
/// it (RFC 6935 §5).
pub(crate) fn write_headers(out: &mut [u8], datagram: &DatagramHeaders, payload_len: usize) {
    let DatagramHeaders { from, to, tos } = *datagram;
    let udp_len = u16::try_from(payload_len + 8).unwrap_or(u16::MAX);
    let (ethernet, ip) = out.split_at_mut(ETHERNET_LEN);
    let ether_type = match (from.ip(), to.ip()) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let header = Ipv4Header::new(&Ipv4Fields {
                tos,
                total_len: udp_len.saturating_add(20),
                identification: 0,
                dont_fragment: false,
                ttl: TTL,
                protocol: protocol::UDP,
                src,
                dst,
            });
            ip[..20].copy_from_slice(header.as_bytes());
            EtherType::IPV4
        }
        (src, dst) => {
            let v6 = |addr: IpAddr| match addr {
                IpAddr::V6(addr) => addr,
                IpAddr::V4(addr) => addr.to_ipv6_mapped(),
            };
            let header = Ipv6Header::new(&Ipv6Fields {
                traffic_class: tos,
                flow_label: 0,
                payload_len: udp_len,
                next_header: protocol::UDP,
                hop_limit: TTL,
                src: v6(src),
                dst: v6(dst),
            });
            ip[..40].copy_from_slice(header.as_bytes());
            EtherType::IPV6
        }
    };
    let udp = UdpHeader::new(from.port(), to.port(), udp_len, 0);
    let at = ip.len() - 8;
    ip[at..].copy_from_slice(udp.as_bytes());
    write_ethernet(ethernet, ether_type);
}

/// Writes the Ethernet header of a received frame.
pub(crate) fn write_ethernet(out: &mut [u8], ether_type: EtherType) {
    let header = EthernetHeader::new(PORT_MAC, STATION_MAC, ether_type);
    out.copy_from_slice(header.as_bytes());
}

/// Returns the EtherType of an IP packet by its version; `None` if it is neither 4 nor 6.
pub(crate) fn ether_type(packet: &[u8]) -> Option<EtherType> {
    match packet.first()? >> 4 {
        4 => Some(EtherType::IPV4),
        6 => Some(EtherType::IPV6),
        _ => None,
    }
}

/// True if a frame to be sent carries an IP packet without a VLAN tag.
pub(crate) fn carries_ip(frame: &[u8]) -> bool {
    parse_frame(frame).is_ok_and(|parsed| {
        matches!(parsed.ether_type, EtherType::IPV4 | EtherType::IPV6) && parsed.l3_offset == 14
    })
}

/// A datagram to be sent; its payload is at `start..end` of the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutgoingDatagram {
    pub to: SocketAddr,
    pub tos: u8,
    pub start: usize,
    pub end: usize,
}

impl OutgoingDatagram {
    /// Reads the headers of a frame. `None` if it does not carry a whole UDP datagram, or if its
    /// destination port is 0: the kernel refuses port 0 with the error that it also returns for
    /// joined datagrams on a path too narrow for them, so a peer that sends from port 0 could end
    /// joining.
    pub(crate) fn read(frame: &[u8]) -> Option<Self> {
        let link = parse_frame(frame).ok()?;
        let l3_offset = usize::from(link.l3_offset);
        let l3 = &frame[l3_offset..];
        let ip = parse_ip(l3, false).ok()?;
        if ip.protocol != protocol::UDP || ip.is_fragment() {
            return None;
        }
        let (udp, payload) = UdpHeader::parse(ip.payload(l3)).ok()?;
        if udp.dst_port() == 0 {
            return None;
        }
        let start = l3_offset + usize::from(ip.payload_offset) + 8;
        Some(Self {
            to: SocketAddr::new(ip.addrs.dst(), udp.dst_port()),
            tos: ip.tos,
            start,
            end: start + payload.len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_they_were_written() {
        for (from, to) in
            [("10.0.3.1:4000", "10.0.3.2:2152"), ("[2001:db8::1]:2152", "[2001:db8::2]:2152")]
        {
            let (from, to): (SocketAddr, SocketAddr) = (from.parse().unwrap(), to.parse().unwrap());
            let headers = headers_len(from.ip());
            let mut frame = vec![0xa5; headers + 5];
            write_headers(&mut frame[..headers], &DatagramHeaders { from, to, tos: 0xb8 }, 5);
            let link = parse_frame(&frame).unwrap();
            assert_eq!((link.dst, link.src), (PORT_MAC, STATION_MAC));
            let ip = parse_ip(&frame[14..], true).unwrap();
            assert_eq!(ip.addrs.src(), from.ip());
            let read = OutgoingDatagram::read(&frame).unwrap();
            assert_eq!(read, OutgoingDatagram { to, tos: 0xb8, start: headers, end: headers + 5 });
        }
    }

    #[test]
    fn frame_without_a_whole_datagram_is_not_sent() {
        let mut arp = vec![0; 60];
        arp[12..14].copy_from_slice(&[0x08, 0x06]);
        assert_eq!(OutgoingDatagram::read(&arp), None);
        assert!(!carries_ip(&arp));
        let mut frame = vec![0; ETHERNET_LEN + 28];
        let from = "10.0.3.1:2152".parse().unwrap();
        write_headers(&mut frame, &DatagramHeaders { from, to: from, tos: 0 }, 0);
        frame[ETHERNET_LEN + 6] = 0x20;
        assert_eq!(OutgoingDatagram::read(&frame), None, "a fragment");
        let port_0 = "10.0.3.1:0".parse().unwrap();
        write_headers(&mut frame, &DatagramHeaders { from, to: port_0, tos: 0 }, 0);
        assert_eq!(OutgoingDatagram::read(&frame), None, "port 0");
    }
}
