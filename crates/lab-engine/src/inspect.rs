//! Finds the stamp in a received frame, with or without a tunnel.

use adit_types::Teid;
use adit_wire::gtpu::{GtpuMessageType, UDP_PORT};
use adit_wire::{parse_gtpu, protocol};

use super::frame::PROBE_PORT;
use super::stamp::Stamp;

/// A probe packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbePacket {
    /// Stamp of the packet.
    pub stamp: Stamp,
    /// TEID of the tunnel in which the packet arrived; `None` without a tunnel.
    pub teid: Option<Teid>,
}

/// Parses the probe packet in an Ethernet frame; `None` for anything else.
#[inline]
#[must_use]
pub fn probe(frame: &[u8]) -> Option<ProbePacket> {
    let (packet, is_ipv4) = network_layer(frame)?;
    let (upper, protocol) = upper_layer(packet, is_ipv4)?;
    if protocol == protocol::UDP && destination(upper) == Some(UDP_PORT) {
        let message = upper.get(8..)?;
        let gtpu = parse_gtpu(message).ok()?;
        if gtpu.message_type != GtpuMessageType::G_PDU {
            return None;
        }
        let inner = gtpu.payload(message);
        let (upper, protocol) = upper_layer(inner, inner.first()? >> 4 == 4)?;
        return Some(ProbePacket { stamp: stamp(upper, protocol)?, teid: Some(gtpu.teid) });
    }
    Some(ProbePacket { stamp: stamp(upper, protocol)?, teid: None })
}

/// Returns the length of the UE's IP packet according to the packet's header, in a frame that
/// [`probe`] accepts. Unit: octets.
#[must_use]
pub fn ip_len(frame: &[u8]) -> Option<u32> {
    let (packet, is_ipv4) = network_layer(frame)?;
    let (upper, protocol) = upper_layer(packet, is_ipv4)?;
    if protocol == protocol::UDP && destination(upper) == Some(UDP_PORT) {
        let message = upper.get(8..)?;
        return total_len(parse_gtpu(message).ok()?.payload(message));
    }
    total_len(packet)
}

fn total_len(packet: &[u8]) -> Option<u32> {
    let field = |at: usize| {
        let bytes = packet.get(at..at + 2)?;
        Some(u32::from(u16::from_be_bytes(bytes.try_into().ok()?)))
    };
    if packet.first()? >> 4 == 4 { field(2) } else { Some(40 + field(4)?) }
}

/// Returns the IP packet of a frame, and true if it is IPv4.
#[inline]
fn network_layer(frame: &[u8]) -> Option<(&[u8], bool)> {
    match frame.get(12..14)? {
        [0x08, 0x00] => Some((frame.get(14..)?, true)),
        [0x86, 0xdd] => Some((frame.get(14..)?, false)),
        [0x81, 0x00] => match frame.get(16..18)? {
            [0x08, 0x00] => Some((frame.get(18..)?, true)),
            [0x86, 0xdd] => Some((frame.get(18..)?, false)),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the payload of the IP packet and its protocol number. Does not skip extension headers:
/// probes have none.
#[inline]
fn upper_layer(packet: &[u8], is_ipv4: bool) -> Option<(&[u8], u8)> {
    if is_ipv4 {
        let header_len = usize::from(packet.first()? & 0x0f) * 4;
        Some((packet.get(header_len..)?, *packet.get(9)?))
    } else {
        Some((packet.get(40..)?, *packet.get(6)?))
    }
}

#[inline]
fn destination(upper: &[u8]) -> Option<u16> {
    upper.get(2..4).and_then(|bytes| Some(u16::from_be_bytes(bytes.try_into().ok()?)))
}

#[inline]
fn stamp(upper: &[u8], protocol: u8) -> Option<Stamp> {
    if destination(upper) != Some(PROBE_PORT) {
        return None;
    }
    let header_len = match protocol {
        protocol::UDP => 8,
        protocol::TCP => 20,
        _ => return None,
    };
    Stamp::parse(upper.get(header_len..)?)
}

#[cfg(test)]
mod tests {
    use super::super::frame::UePacketKind;
    use super::super::frame::tests::{ENTRY, form, frame, over_ipv6};
    use super::*;

    #[test]
    fn stamp_is_found_with_and_without_tunnel_in_every_kind_of_packet() {
        for inner in
            [UePacketKind::Udp4, UePacketKind::Udp6, UePacketKind::Tcp4, UePacketKind::Tcp6]
        {
            let up = probe(&frame(&form(inner, true, true), 120)).unwrap();
            assert_eq!((up.stamp.session, up.teid), (ENTRY.session, Some(Teid(ENTRY.teid))));
            let over_ipv6 = probe(&frame(&over_ipv6(form(inner, true, true)), 120));
            assert_eq!(over_ipv6, Some(up));
            let down = probe(&frame(&form(inner, false, false), 120)).unwrap();
            assert_eq!((down.stamp, down.teid), (up.stamp, None));
        }
    }

    #[test]
    fn length_is_that_of_the_ues_packet_without_tunnel_and_padding() {
        for inner in
            [UePacketKind::Udp4, UePacketKind::Udp6, UePacketKind::Tcp4, UePacketKind::Tcp6]
        {
            for uplink in [true, false] {
                let mut frame = frame(&form(inner, uplink, true), 120);
                frame.extend([0; 6]);
                assert_eq!(ip_len(&frame), Some(120), "{inner:?}");
            }
        }
    }

    #[test]
    fn frame_cut_anywhere_gives_a_probe_or_nothing() {
        let bytes = frame(&form(UePacketKind::Tcp6, true, true), 120);
        for len in 0..bytes.len() {
            // A cut after the stamp may go undetected.
            assert!(probe(&bytes[..len]).is_none() || len > bytes.len() - 60, "{len}");
        }
        let mut other = frame(&form(UePacketKind::Udp4, false, false), 60);
        other[36..38].copy_from_slice(&53u16.to_be_bytes());
        assert_eq!(probe(&other), None);
    }
}
