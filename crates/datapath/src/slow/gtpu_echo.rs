//! GTP-U path management: Echo Request is answered. Spec: TS 29.281 §7.2.1, §7.2.2, §4.4.2.

use adit_pktio::PacketIo;
use adit_rules::{DropReason, PuntReason};
use adit_tables::Interface;
use adit_types::MacAddr;
use adit_wire::encapsulate::OUTER_TTL;
use adit_wire::ethernet::{emit_link, link_len};
use adit_wire::gtpu::{ECHO_RESPONSE_LEN, UDP_PORT, emit_echo_response};
use adit_wire::ipv4::{Ipv4Fields, Ipv4Header};
use adit_wire::ipv6::{Ipv6Fields, Ipv6Header};
use adit_wire::udp::{self, UdpHeader};
use adit_wire::{IpAddrs, IpPacket, Malformed, protocol};

use crate::interfaces::Link;
use crate::outbound::Outbound;
use crate::slow::{frame_source, originate, resize};
use crate::stage::egress::ether_type_of;

/// What an Echo Response says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Echo {
    /// Source UDP port of the request, destination of the response.
    pub src_port: u16,
    /// Sequence number of the request.
    pub sequence: u16,
}

/// UDP datagram of an Echo Response. Unit: octets.
const DATAGRAM_LEN: u16 = 22;
const _: () = assert!(DATAGRAM_LEN as usize == UdpHeader::LEN + ECHO_RESPONSE_LEN);

/// Answers the Echo Request in `buf`, of which `ip` is the header, from the address and to the port
/// and station that it came from.
///
/// # Errors
/// `FrameMalformed` without a station to answer; `HeadroomShort` without room.
pub(super) fn answer<Io: PacketIo>(
    io: &mut Io,
    out: &mut Outbound<Io::Buf>,
    link: &Link,
    mut buf: Io::Buf,
    ip: &IpPacket,
    echo: &Echo,
) -> Result<PuntReason, DropReason> {
    let asker = frame_source(&buf)?;
    let interface = link.owner(ip.addrs.dst()).ok_or(DropReason::GtpuNotOnN3)?;
    let ip_len = if ip.is_ipv4() { Ipv4Header::LEN } else { Ipv6Header::LEN };
    let len = link_len(interface.vlan) + ip_len + usize::from(DATAGRAM_LEN);
    let frame = resize(&mut buf, len).ok_or(DropReason::HeadroomShort)?;
    emit(frame, interface, asker, ip, echo).map_err(|_| DropReason::HeadroomShort)?;
    originate(io, out, interface, buf);
    Ok(PuntReason::GtpuEchoRequest)
}

fn emit(
    frame: &mut [u8],
    interface: &Interface,
    asker: MacAddr,
    ip: &IpPacket,
    echo: &Echo,
) -> Result<(), Malformed> {
    let ether_type = ether_type_of(ip.addrs.dst());
    let link = emit_link(frame, asker, interface.mac, interface.vlan, ether_type)?;
    let packet = frame.get_mut(link..).unwrap_or_default();
    let ip_len = emit_ip(packet, ip)?;
    let datagram = packet.get_mut(ip_len..).unwrap_or_default();
    UdpHeader::new(UDP_PORT, echo.src_port, DATAGRAM_LEN, 0).emit(datagram)?;
    emit_echo_response(datagram.get_mut(UdpHeader::LEN..).unwrap_or_default(), echo.sequence)?;
    let sum = match ip.addrs {
        IpAddrs::V4 { src, dst } => udp::checksum_ipv4(dst, src, datagram),
        IpAddrs::V6 { src, dst } => udp::checksum_ipv6(dst, src, datagram),
    };
    UdpHeader::new(UDP_PORT, echo.src_port, DATAGRAM_LEN, sum).emit(datagram)
}

/// Writes the IP header of the answer. Returns its octets.
fn emit_ip(packet: &mut [u8], request: &IpPacket) -> Result<usize, Malformed> {
    match request.addrs {
        IpAddrs::V4 { src, dst } => {
            let header = Ipv4Header::new(&Ipv4Fields {
                tos: request.tos,
                total_len: DATAGRAM_LEN + 20,
                identification: 0,
                dont_fragment: true,
                ttl: OUTER_TTL,
                protocol: protocol::UDP,
                src: dst,
                dst: src,
            });
            header.emit(packet)?;
            Ok(Ipv4Header::LEN)
        }
        IpAddrs::V6 { src, dst } => {
            let header = Ipv6Header::new(&Ipv6Fields {
                traffic_class: request.tos,
                flow_label: 0,
                payload_len: DATAGRAM_LEN,
                next_header: protocol::UDP,
                hop_limit: OUTER_TTL,
                src: dst,
                dst: src,
            });
            header.emit(packet)?;
            Ok(Ipv6Header::LEN)
        }
    }
}
