//! Writes outer headers without GTP-U, towards data networks: UDP over IP, and IP in IP.
//!
//! The UDP source port is the destination port, because the standard names one port for both ends
//! of an N6 tunnel. The UDP checksum is computed. Spec: TS 29.244 §8.2.56; TS 23.501 §5.6.10.3;
//! RFC 2003; RFC 2473.

use core::net::IpAddr;

use adit_pktio::PacketBuf;
use adit_rules::{DropReason, HeaderCreation};
use adit_tables::Interface;
use adit_types::MacAddr;
use adit_wire::udp::{self, UdpHeader};
use adit_wire::{IpAddrs, Malformed, protocol};

use crate::egress::{ether_type_of, prepend, prepend_link};
use crate::interfaces::source_addr;
use crate::originate::ip::OwnIpHeader;

/// Puts a UDP or IP header and its link header in front of the IP packet in `buf`.
///
/// Shape:   before, `buf` has only the inner packet; afterwards, a frame to `dst_mac`.
/// Cost:    with UDP, reads the inner packet for the checksum.
/// Errors:  `HeadroomShort` if the headroom is too short; `RouteUnknown` if the interface has no
///          address of the header's IP version; `PacketTooBig` if a length field is too small.
pub(super) fn encapsulate<B: PacketBuf>(
    buf: &mut B,
    header: HeaderCreation,
    tos: u8,
    interface: &Interface,
    dst_mac: MacAddr,
) -> Result<(), DropReason> {
    let dst = header.addr();
    let src = source_addr(interface, dst).ok_or(DropReason::RouteUnknown)?;
    let addrs = match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => IpAddrs::V4 { src, dst },
        (IpAddr::V6(src), IpAddr::V6(dst)) => IpAddrs::V6 { src, dst },
        _ => return Err(DropReason::RouteUnknown),
    };
    let is_ipv4 = buf.data().first().is_some_and(|octet| octet >> 4 == 4);
    let protocol = match header {
        HeaderCreation::Udp { port, .. } => {
            put_udp(buf, port, addrs)?;
            protocol::UDP
        }
        _ if is_ipv4 => protocol::IPV4,
        _ => protocol::IPV6,
    };
    let len = buf.data().len();
    let ip = OwnIpHeader { src, dst, protocol, tos, payload_len: length(len)? };
    if dst.is_ipv4() {
        // The length field of IPv4 counts the header as well.
        length(len + ip.len())?;
    }
    emit(ip.emit(prepend(buf, ip.len())?))?;
    prepend_link(buf, interface, dst_mac, ether_type_of(dst))
}

fn put_udp<B: PacketBuf>(buf: &mut B, port: u16, addrs: IpAddrs) -> Result<(), DropReason> {
    let len = length(buf.data().len() + UdpHeader::LEN)?;
    prepend(buf, UdpHeader::LEN)?;
    let datagram = buf.data_mut();
    emit(UdpHeader::new(port, port, len, 0).emit(datagram))?;
    let sum = match addrs {
        IpAddrs::V4 { src, dst } => udp::checksum_ipv4(src, dst, datagram),
        IpAddrs::V6 { src, dst } => udp::checksum_ipv6(src, dst, datagram),
    };
    emit(UdpHeader::new(port, port, len, sum).emit(datagram))
}

fn length(len: usize) -> Result<u16, DropReason> {
    u16::try_from(len).map_err(|_| DropReason::PacketTooBig)
}

fn emit(written: Result<(), Malformed>) -> Result<(), DropReason> {
    written.map_err(|_| DropReason::HeadroomShort)
}
