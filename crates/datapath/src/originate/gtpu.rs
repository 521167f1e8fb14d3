//! Writes and sends GTP-U messages of our own as frames, with link, IP and UDP headers and
//! checksum.
//! Spec: TS 29.281 §4.4.

use core::net::IpAddr;

use adit_pktio::PacketBuf;
use adit_rules::DropReason;
use adit_tables::Interface;
use adit_types::MacAddr;
use adit_wire::ethernet::{emit_link, link_len};
use adit_wire::gtpu::UDP_PORT;
use adit_wire::ipv4::Ipv4Header;
use adit_wire::ipv6::Ipv6Header;
use adit_wire::udp::{self, UdpHeader};
use adit_wire::{Malformed, protocol};

use crate::departures::Departures;
use crate::egress::ether_type_of;
use crate::originate::ip::OwnIpHeader;
use crate::originate::resize;
use crate::transmitter::Transmitter;

/// A GTP-U message and its addresses. The source port is 2152.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GtpuMessage<'a> {
    /// Our address.
    pub src: IpAddr,
    /// The peer's address, of the same IP version.
    pub dst: IpAddr,
    /// UDP port of the peer.
    pub dst_port: u16,
    /// Type of service or traffic class.
    pub tos: u8,
    /// The message from the GTP-U header on.
    pub octets: &'a [u8],
}

/// Writes `message` into `buf`, over its present contents, and sends it to the station `dst_mac`.
///
/// # Errors
/// `HeadroomShort` if the buffer is too small.
pub(crate) fn send<Io: Departures>(
    tx: &mut Transmitter<'_, Io>,
    interface: &Interface,
    mut buf: Io::Buf,
    dst_mac: MacAddr,
    message: &GtpuMessage<'_>,
) -> Result<(), DropReason> {
    write(&mut buf, interface, dst_mac, message)?;
    tx.originate(interface, buf);
    Ok(())
}

/// Writes the frame of `message` into `buf`, over its present contents.
///
/// # Errors
/// `HeadroomShort` if the buffer is too small.
pub(crate) fn write<B: PacketBuf>(
    buf: &mut B,
    interface: &Interface,
    dst_mac: MacAddr,
    message: &GtpuMessage<'_>,
) -> Result<(), DropReason> {
    let ip_len = if message.dst.is_ipv4() { Ipv4Header::LEN } else { Ipv6Header::LEN };
    let len = link_len(interface.vlan) + ip_len + UdpHeader::LEN + message.octets.len();
    let frame = resize(buf, len).ok_or(DropReason::HeadroomShort)?;
    emit(frame, interface, dst_mac, message).map_err(|_| DropReason::HeadroomShort)
}

fn emit(
    frame: &mut [u8],
    interface: &Interface,
    dst_mac: MacAddr,
    message: &GtpuMessage<'_>,
) -> Result<(), Malformed> {
    let len = UdpHeader::LEN + message.octets.len();
    let too_long = Malformed::BadLength { claimed: u16::MAX, have: u16::MAX };
    let udp_len = u16::try_from(len).map_err(|_| too_long)?;
    let ether_type = ether_type_of(message.dst);
    let link = emit_link(frame, dst_mac, interface.mac, interface.vlan, ether_type)?;
    let packet = frame.get_mut(link..).unwrap_or_default();
    let &GtpuMessage { src, dst, tos, .. } = message;
    let ip = OwnIpHeader { src, dst, protocol: protocol::UDP, tos, payload_len: udp_len };
    ip.emit(packet)?;
    let datagram = packet.get_mut(ip.len()..).unwrap_or_default();
    UdpHeader::new(UDP_PORT, message.dst_port, udp_len, 0).emit(datagram)?;
    let body = datagram.get_mut(UdpHeader::LEN..).unwrap_or_default();
    if body.len() != message.octets.len() {
        return Err(too_long);
    }
    body.copy_from_slice(message.octets);
    let sum = match (message.src, message.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => udp::checksum_ipv4(src, dst, datagram),
        (IpAddr::V6(src), IpAddr::V6(dst)) => udp::checksum_ipv6(src, dst, datagram),
        _ => return Err(Malformed::BadVersion(0)),
    };
    UdpHeader::new(UDP_PORT, message.dst_port, udp_len, sum).emit(datagram)
}
