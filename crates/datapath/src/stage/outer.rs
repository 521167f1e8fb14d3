//! The outer header that a FAR creates: GTP-U over UDP over IPv4 or IPv6, with its link header.
//!
//! Choices that the standards leave to us: source UDP port 2152 (some firewalls between sites open
//! this port both ways only, and entropy would cost the read of the inner ports), TTL 64,
//! identification 0 with "don't fragment" (RFC 6864 §4.1), no UDP checksum over IPv4 (RFC 768,
//! TS 29.281 §4.4.2.3 allows it), a computed one over IPv6 (RFC 8200 §8.1).

use core::net::IpAddr;

use adit_pktio::PacketBuf;
use adit_rules::{DropReason, GtpuTunnel};
use adit_tables::Interface;
use adit_types::{MacAddr, Qfi};
use adit_wire::checksum::{self, Sum};
use adit_wire::encapsulate::gtpu_len;
use adit_wire::ethernet::link_len;
use adit_wire::gtpu::UDP_PORT;
use adit_wire::ipv4::Ipv4Header;
use adit_wire::ipv6::Ipv6Header;
use adit_wire::psc::ul_extension;
use adit_wire::udp::UdpHeader;
use adit_wire::{DlPsc, OuterIpv4, OuterIpv6, UdpChecksum, emit_gtpu_ipv4, emit_gtpu_ipv6};

/// PDU Session Container of an outer header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Container {
    /// None: no QoS flow is known.
    None,
    /// Towards the RAN.
    Downlink {
        /// QoS flow.
        qfi: Qfi,
        /// Reflective QoS indication.
        rqi: bool,
    },
    /// Towards another user plane function.
    Uplink {
        /// QoS flow.
        qfi: Qfi,
    },
}

impl Container {
    /// As `wire` writes it. An uplink container has the length and, but for one octet, the contents
    /// of a downlink container without RQI.
    #[inline]
    const fn to_psc(self) -> Option<DlPsc> {
        match self {
            Self::None => None,
            Self::Downlink { qfi, rqi } => Some(DlPsc { qfi, rqi, ppi: None }),
            Self::Uplink { qfi } => Some(DlPsc { qfi, rqi: false, ppi: None }),
        }
    }
}

/// What an outer header says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outer {
    /// The far end of the tunnel.
    pub tunnel: GtpuTunnel,
    /// Type of service or traffic class octet.
    pub tos: u8,
    /// PDU Session Container.
    pub container: Container,
}

impl Outer {
    /// Octets in front of the inner packet, without the link header.
    #[inline]
    pub fn len(&self) -> usize {
        let ip = if self.tunnel.addr.is_ipv4() { Ipv4Header::LEN } else { Ipv6Header::LEN };
        ip + UdpHeader::LEN + gtpu_len(self.container.to_psc().as_ref())
    }
}

/// Puts the outer header and its link header in front of the IP packet in `buf`.
///
/// Shape:   `buf` holds the inner packet and nothing else; afterwards a frame whose destination is
///          `dst_mac`.
/// Cost:    writes the new octets once; over IPv6 also reads the inner packet for the checksum.
/// Spec:    TS 29.281 §4.4, §5.1, §5.2.2.7; TS 38.415 §5.5.2; TS 29.244 §8.2.56.
/// Errors:  `HeadroomShort` without room; `RouteUnknown` when the interface has no address of the
///          tunnel's family; `PacketTooBig` beyond what a length field holds.
#[inline]
pub(crate) fn encapsulate<B: PacketBuf>(
    buf: &mut B,
    outer: &Outer,
    interface: &Interface,
    dst_mac: MacAddr,
) -> Result<(), DropReason> {
    let inner_len = u16::try_from(buf.data().len()).map_err(|_| DropReason::PacketTooBig)?;
    match (outer.tunnel.addr, interface.v4, interface.v6) {
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
                teid: outer.tunnel.teid,
                psc: outer.container.to_psc(),
                inner_len,
            };
            encapsulate_ipv4(buf, &headers, outer.container)
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
                teid: outer.tunnel.teid,
                psc: outer.container.to_psc(),
                inner_len,
                udp_checksum: UdpChecksum::Compute(Sum::new().bytes(buf.data())),
            };
            encapsulate_ipv6(buf, &headers, outer.container)
        }
        _ => Err(DropReason::RouteUnknown),
    }
}

#[inline]
fn encapsulate_ipv4<B: PacketBuf>(
    buf: &mut B,
    headers: &OuterIpv4,
    container: Container,
) -> Result<(), DropReason> {
    let len = headers.len();
    let frame = buf.prepend(len).ok_or(DropReason::HeadroomShort)?;
    let room = frame.get_mut(..len).ok_or(DropReason::HeadroomShort)?;
    emit_gtpu_ipv4(room, headers).map_err(|_| DropReason::PacketTooBig)?;
    forbid_fragmentation(room.get_mut(link_len(headers.vlan)..).unwrap_or_default());
    if let Container::Uplink { qfi } = container {
        mark_uplink(room, qfi);
    }
    Ok(())
}

#[inline]
fn encapsulate_ipv6<B: PacketBuf>(
    buf: &mut B,
    headers: &OuterIpv6,
    container: Container,
) -> Result<(), DropReason> {
    let len = headers.len();
    let frame = buf.prepend(len).ok_or(DropReason::HeadroomShort)?;
    let room = frame.get_mut(..len).ok_or(DropReason::HeadroomShort)?;
    emit_gtpu_ipv6(room, headers).map_err(|_| DropReason::PacketTooBig)?;
    if let Container::Uplink { qfi } = container {
        let before = [DL_EXTENSION_START, ul_extension_start(qfi)];
        let at = link_len(headers.vlan) + Ipv6Header::LEN + UdpHeader::LEN - 2;
        if let Some([high, low]) = room.get_mut(at..at + 2) {
            let old = u16::from_be_bytes([*high, *low]);
            // RFC 768: a computed zero is sent as 0xffff.
            let new = match checksum::update(old, before[0], before[1]) {
                0 => 0xffff,
                sum => sum,
            };
            [*high, *low] = new.to_be_bytes();
        }
        mark_uplink(room, qfi);
    }
    Ok(())
}

/// Length octet and first content octet of a downlink container.
const DL_EXTENSION_START: u16 = 0x0100;

fn ul_extension_start(qfi: Qfi) -> u16 {
    let [len, first, ..] = ul_extension(qfi);
    u16::from_be_bytes([len, first])
}

/// Turns the container at the end of `headers` into an uplink one. Spec: TS 38.415 §5.5.2.2.
fn mark_uplink(headers: &mut [u8], qfi: Qfi) {
    if let Some(container) = headers.last_chunk_mut::<4>() {
        *container = ul_extension(qfi);
    }
}

/// Sets "don't fragment" in a header of ours that has no flag set.
#[inline]
fn forbid_fragmentation(header: &mut [u8]) {
    if let Some([_, _, _, _, _, _, flags, _, _, _, high, low, ..]) =
        header.first_chunk_mut::<{ Ipv4Header::LEN }>()
        && *flags == 0
    {
        *flags = 0x40;
        let sum = checksum::update(u16::from_be_bytes([*high, *low]), 0, 0x4000);
        [*high, *low] = sum.to_be_bytes();
    }
}
