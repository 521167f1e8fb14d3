//! End Markers that close a tunnel whose traffic went elsewhere.
//!
//! Each worker sends one when it sees the rules that left the tunnel: at the beginning of a step, or
//! in its middle right before the first packet that leaves by them. So every packet that it sent
//! through the old path is before it, and none went the new path yet. Several workers each send one, so that the last one is behind all
//! packets of the old path; between the first and the last a packet of the old path may still come,
//! from a worker that is in the middle of its burst.
//! Spec: TS 29.281 §7.3.2; TS 23.501 §5.8.2.9.

use core::net::IpAddr;

use adit_pktio::{PacketBuf, PacketIo};
use adit_rules::GtpuTunnel;
use adit_tables::Interface;
use adit_types::{InterfaceRole, InterfaceSet, MacAddr};
use adit_wire::encapsulate::OUTER_TTL;
use adit_wire::ethernet::{emit_link, link_len};
use adit_wire::gtpu::{GtpuHeader, UDP_PORT, emit_end_marker};
use adit_wire::ipv4::{Ipv4Fields, Ipv4Header};
use adit_wire::ipv6::{Ipv6Fields, Ipv6Header};
use adit_wire::udp::{self, UdpHeader};
use adit_wire::{IpAddrs, Malformed, protocol};

use crate::interfaces::source_addr;
use crate::outbound::{Origin, Outbound};
use crate::slow::resize;
use crate::stage::egress::{Env, ether_type_of, way_by_route};

/// UDP datagram of an End Marker. Unit: octets.
const DATAGRAM_LEN: u16 = 16;
const _: () = assert!(DATAGRAM_LEN as usize == UdpHeader::LEN + GtpuHeader::LEN);

/// Sends one End Marker through `tunnel`; one that cannot be sent is counted as lost.
pub(super) fn send<Io: PacketIo>(
    env: &Env<'_>,
    io: &mut Io,
    out: &mut Outbound<Io::Buf>,
    tunnel: GtpuTunnel,
) {
    let way = way_by_route(env, InterfaceRole::N3, InterfaceSet::ALL, tunnel.addr);
    let sent = way.and_then(|way| {
        let addrs = match (source_addr(way.interface, tunnel.addr)?, tunnel.addr) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => IpAddrs::V4 { src, dst },
            (IpAddr::V6(src), IpAddr::V6(dst)) => IpAddrs::V6 { src, dst },
            _ => return None,
        };
        let mut buf = io.alloc()?;
        emit(&mut buf, way.interface, way.mac_or_blank(), addrs, tunnel)?;
        Some((buf, way))
    });
    match sent {
        Some((buf, way)) => out.send(env, io, buf, &way, Origin::Own),
        None => out.tally.lose_originated(),
    }
}

fn emit<B: PacketBuf>(
    buf: &mut B,
    interface: &Interface,
    dst_mac: MacAddr,
    addrs: IpAddrs,
    tunnel: GtpuTunnel,
) -> Option<()> {
    let ip_len = if tunnel.addr.is_ipv4() { Ipv4Header::LEN } else { Ipv6Header::LEN };
    let link = link_len(interface.vlan);
    let frame = resize(buf, link + ip_len + usize::from(DATAGRAM_LEN))?;
    let ether_type = ether_type_of(tunnel.addr);
    emit_link(frame, dst_mac, interface.mac, interface.vlan, ether_type).ok()?;
    let (header, datagram) = frame.get_mut(link..)?.split_at_mut_checked(ip_len)?;
    emit_ip(header, addrs).ok()?;
    emit_udp(datagram, addrs, tunnel).ok()
}

fn emit_udp(datagram: &mut [u8], addrs: IpAddrs, tunnel: GtpuTunnel) -> Result<(), Malformed> {
    UdpHeader::new(UDP_PORT, UDP_PORT, DATAGRAM_LEN, 0).emit(datagram)?;
    let message = datagram.get_mut(UdpHeader::LEN..).unwrap_or_default();
    emit_end_marker(message, tunnel.teid)?;
    let sum = match addrs {
        IpAddrs::V4 { src, dst } => udp::checksum_ipv4(src, dst, datagram),
        IpAddrs::V6 { src, dst } => udp::checksum_ipv6(src, dst, datagram),
    };
    UdpHeader::new(UDP_PORT, UDP_PORT, DATAGRAM_LEN, sum).emit(datagram)
}

fn emit_ip(packet: &mut [u8], addrs: IpAddrs) -> Result<(), Malformed> {
    match addrs {
        IpAddrs::V4 { src, dst } => Ipv4Header::new(&Ipv4Fields {
            tos: 0,
            total_len: DATAGRAM_LEN + 20,
            identification: 0,
            dont_fragment: true,
            ttl: OUTER_TTL,
            protocol: protocol::UDP,
            src,
            dst,
        })
        .emit(packet),
        IpAddrs::V6 { src, dst } => Ipv6Header::new(&Ipv6Fields {
            traffic_class: 0,
            flow_label: 0,
            payload_len: DATAGRAM_LEN,
            next_header: protocol::UDP,
            hop_limit: OUTER_TTL,
            src,
            dst,
        })
        .emit(packet),
    }
}
