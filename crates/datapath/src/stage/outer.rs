//! Writes the outer header that a FAR creates: GTP-U over UDP over IPv4 or IPv6, with its link
//! header. `outer_ip` writes UDP and IP headers without GTP-U.
//!
//! Choices that the standards leave open: source UDP port 2152 (some firewalls between sites open
//! this port both ways only, and a port with entropy would cost a read of the inner ports); TTL 64;
//! identification 0 with "don't fragment" (RFC 6864 §4.1) unless the interface lets routers
//! fragment; no UDP checksum over IPv4 (RFC 768, TS 29.281 §4.4.2.3 allows it), a computed one over
//! IPv6 (RFC 8200 §8.1).

use core::net::IpAddr;

use adit_pktio::PacketBuf;
use adit_rules::{DropReason, HeaderCreation};
use adit_tables::Interface;
use adit_types::MacAddr;
use adit_wire::checksum::Sum;
use adit_wire::ethernet::link_len;
use adit_wire::gtpu::UDP_PORT;
use adit_wire::ipv4::allow_fragmentation;
use adit_wire::{OuterIpv4, OuterIpv6, UdpChecksum, emit_gtpu_ipv4, emit_gtpu_ipv6};

use crate::carried::CreatedHeader;
use crate::egress::prepend;
use crate::stage::outer_ip;

/// Puts the outer header and its link header in front of the IP packet in `buf`.
///
/// Shape:   before, `buf` has only the inner packet; afterwards, a frame to `dst_mac`.
/// Cost:    writes the new octets once; over IPv6 also reads the inner packet for the checksum.
/// Spec:    TS 29.281 §4.4, §5.1, §5.2.2.7; TS 38.415 §5.5.2; TS 29.244 §8.2.56.
/// Errors:  `HeadroomShort` if the headroom is too short; `RouteUnknown` if the interface has no
///          address of the tunnel's IP version; `PacketTooBig` if a length field is too small.
#[inline]
pub(crate) fn encapsulate<B: PacketBuf>(
    buf: &mut B,
    outer: &CreatedHeader,
    interface: &Interface,
    dst_mac: MacAddr,
) -> Result<(), DropReason> {
    let HeaderCreation::Gtpu(tunnel) = outer.header else {
        return outer_ip::encapsulate(buf, outer.header, outer.tos, interface, dst_mac);
    };
    let inner_len = u16::try_from(buf.data().len()).map_err(|_| DropReason::PacketTooBig)?;
    match (tunnel.addr, interface.v4, interface.v6) {
        (IpAddr::V4(dst), Some((src, _)), _) => {
            let headers = OuterIpv4 {
                src_mac: interface.mac,
                dst_mac,
                vlan: interface.vlan,
                src,
                dst,
                tos: outer.tos,
                identification: 0,
                src_port: UDP_PORT,
                teid: tunnel.teid,
                psc: outer.container,
                service_class: outer.service_class,
                inner_len,
            };
            let room = prepend(buf, headers.len())?;
            emit_gtpu_ipv4(room, &headers).map_err(|_| DropReason::PacketTooBig)?;
            if !interface.outer_df {
                let packet = buf.data_mut().get_mut(link_len(interface.vlan)..);
                allow_fragmentation(packet.unwrap_or_default());
            }
            Ok(())
        }
        (IpAddr::V6(dst), _, Some((src, _))) => {
            let headers = OuterIpv6 {
                src_mac: interface.mac,
                dst_mac,
                vlan: interface.vlan,
                src,
                dst,
                traffic_class: outer.tos,
                flow_label: 0,
                src_port: UDP_PORT,
                teid: tunnel.teid,
                psc: outer.container,
                service_class: outer.service_class,
                inner_len,
                udp_checksum: UdpChecksum::Compute(Sum::new().bytes(buf.data())),
            };
            let room = prepend(buf, headers.len())?;
            emit_gtpu_ipv6(room, &headers).map_err(|_| DropReason::PacketTooBig)
        }
        _ => Err(DropReason::RouteUnknown),
    }
}
