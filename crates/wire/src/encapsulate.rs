//! Writes all outer headers of a G-PDU in front of the inner packet.
//!
//! The caller chooses the fields; this module computes lengths and checksums.
//! Spec: TS 29.281 §4.4, §5.1, §5.2; TS 38.415 §5.5; RFC 6935, 6936 (zero UDP checksum over IPv6).

use core::net::{Ipv4Addr, Ipv6Addr};

use adit_types::{MacAddr, Teid, VlanId};
use zerocopy::{Immutable, IntoBytes};

use crate::checksum::{self, Sum};
use crate::ethernet::{emit_link, link_len};
use crate::gtpu::{FLAG_E, GtpuHeader, GtpuMessageType, GtpuOptional, UDP_PORT};
use crate::gtpu_ext::ExtensionType;
use crate::ipv4::{Ipv4Fields, Ipv4Header};
use crate::ipv6::{Ipv6Fields, Ipv6Header};
use crate::udp::UdpHeader;
use crate::view::fixed_header;
use crate::{EtherType, Malformed, PduSessionContainer, protocol};

/// Hop limit of the packets that Adit originates. Spec: IANA IP parameters (default TTL 64).
pub const OUTER_TTL: u8 = 64;

/// The fields of outer headers over IPv4 that differ between packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OuterIpv4 {
    /// Hardware address of our port.
    pub src_mac: MacAddr,
    /// Hardware address of the next hop.
    pub dst_mac: MacAddr,
    /// VLAN, or untagged.
    pub vlan: VlanId,
    /// Our GTP-U address.
    pub src: Ipv4Addr,
    /// The peer's GTP-U address.
    pub dst: Ipv4Addr,
    /// Type of service of the outer header.
    pub tos: u8,
    /// Identification of the outer header.
    pub identification: u16,
    /// Source UDP port; the destination port is 2152.
    pub src_port: u16,
    /// TEID of the peer's tunnel endpoint.
    pub teid: Teid,
    /// PDU Session Container, or none.
    pub psc: Option<PduSessionContainer>,
    /// Service Class Indicator, or none.
    pub service_class: Option<ServiceClass>,
    /// Length of the inner packet. Unit: octets.
    pub inner_len: u16,
}

/// The fields of outer headers over IPv6 that differ between packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OuterIpv6 {
    /// Hardware address of our port.
    pub src_mac: MacAddr,
    /// Hardware address of the next hop.
    pub dst_mac: MacAddr,
    /// VLAN, or untagged.
    pub vlan: VlanId,
    /// Our GTP-U address.
    pub src: Ipv6Addr,
    /// The peer's GTP-U address.
    pub dst: Ipv6Addr,
    /// Traffic class of the outer header.
    pub traffic_class: u8,
    /// Flow label of the outer header, the low 20 bits.
    pub flow_label: u32,
    /// Source UDP port; the destination port is 2152.
    pub src_port: u16,
    /// TEID of the peer's tunnel endpoint.
    pub teid: Teid,
    /// PDU Session Container, or none.
    pub psc: Option<PduSessionContainer>,
    /// Service Class Indicator, or none.
    pub service_class: Option<ServiceClass>,
    /// Length of the inner packet. Unit: octets.
    pub inner_len: u16,
    /// UDP checksum.
    pub udp_checksum: UdpChecksum,
}

/// The UDP checksum of a G-PDU over IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UdpChecksum {
    /// No checksum: zero is permitted in tunnels. Spec: RFC 6935 §5; RFC 6936.
    Zero,
    /// The checksum of the whole datagram; the value is `Sum::new().bytes(inner packet)`.
    Compute(Sum),
}

/// Service Class Indicator of a packet towards GERAN: its value, and the spare octet after it.
/// Spec: TS 29.281 §5.2.2.3.
pub type ServiceClass = (u8, u8);

/// Length of the extension header of a Service Class Indicator. Unit: octets.
pub const SERVICE_CLASS_LEN: usize = 4;

/// Returns how many octets of GTP-U precede the inner packet: 8, or 16 with a container, or 20 with
/// a container and PPI. A service class adds 4, or 8 if there is no container.
#[inline]
#[must_use]
pub const fn gtpu_len(
    psc: Option<PduSessionContainer>,
    service_class: Option<ServiceClass>,
) -> usize {
    GtpuHeader::LEN + Extensions { psc, service_class }.len()
}

impl OuterIpv4 {
    /// Returns how many octets [`emit_gtpu_ipv4`] writes.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> usize {
        link_len(self.vlan)
            + Ipv4Header::LEN
            + UdpHeader::LEN
            + gtpu_len(self.psc, self.service_class)
    }

    /// Always false.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        false
    }
}

impl OuterIpv6 {
    /// Returns how many octets [`emit_gtpu_ipv6`] writes.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> usize {
        link_len(self.vlan)
            + Ipv6Header::LEN
            + UdpHeader::LEN
            + gtpu_len(self.psc, self.service_class)
    }

    /// Always false.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        false
    }
}

#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct Ipv4Stack {
    ip: Ipv4Header,
    udp: UdpHeader,
    gtpu: GtpuHeader,
}

fixed_header!(Ipv4Stack, 36);

#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct Ipv6Stack {
    ip: Ipv6Header,
    udp: UdpHeader,
    gtpu: GtpuHeader,
}

fixed_header!(Ipv6Stack, 56);

/// Writes Ethernet, VLAN, IPv4, UDP and GTP-U headers into `out`, the octets directly in front of
/// the inner packet.
///
/// Shape:  `out.len() == outer.len()`.
/// Cost:   one pass over `out`; the inner packet is not read. The UDP checksum is zero.
/// Errors: `BadLength` if `out` has another length, or the outer packet exceeds 65,535 octets.
///         `out` is then partly written.
/// Spec:   TS 29.281 §4.4, §5.1.
#[inline]
pub fn emit_gtpu_ipv4(out: &mut [u8], outer: &OuterIpv4) -> Result<(), Malformed> {
    check_room(out, outer.len())?;
    let extensions = Extensions { psc: outer.psc, service_class: outer.service_class };
    let lens = OuterLengths::new(extensions, outer.inner_len, Ipv4Header::LEN)?;
    let stack = Ipv4Stack {
        ip: Ipv4Header::new(&Ipv4Fields {
            tos: outer.tos,
            total_len: lens.ip,
            identification: outer.identification,
            dont_fragment: true,
            ttl: OUTER_TTL,
            protocol: protocol::UDP,
            src: outer.src,
            dst: outer.dst,
        }),
        udp: UdpHeader::new(outer.src_port, UDP_PORT, lens.udp, 0),
        gtpu: g_pdu(extensions, lens.gtpu, outer.teid),
    };
    let link = emit_link(out, outer.dst_mac, outer.src_mac, outer.vlan, EtherType::IPV4)?;
    let rest = out.get_mut(link..).unwrap_or_default();
    stack.emit(rest)?;
    extensions.emit(rest.get_mut(Ipv4Stack::LEN..).unwrap_or_default())
}

/// Does [`emit_gtpu_ipv4`] over IPv6.
///
/// Errors: the same, but the IPv6 header does not count for the limit of 65,535 octets.
#[inline]
pub fn emit_gtpu_ipv6(out: &mut [u8], outer: &OuterIpv6) -> Result<(), Malformed> {
    check_room(out, outer.len())?;
    let extensions = Extensions { psc: outer.psc, service_class: outer.service_class };
    let lens = OuterLengths::new(extensions, outer.inner_len, 0)?;
    let gtpu = g_pdu(extensions, lens.gtpu, outer.teid);
    let udp = UdpHeader::new(outer.src_port, UDP_PORT, lens.udp, 0);
    let checksum = match outer.udp_checksum {
        UdpChecksum::Zero => 0,
        UdpChecksum::Compute(inner) => {
            checksum::pseudo_ipv6(outer.src, outer.dst, protocol::UDP, u32::from(lens.udp))
                .bytes(udp.as_bytes())
                .bytes(gtpu.as_bytes())
                .bytes(extensions.octets().as_slice())
                .word(inner.fold())
                .udp_checksum()
        }
    };
    let stack = Ipv6Stack {
        ip: Ipv6Header::new(&Ipv6Fields {
            traffic_class: outer.traffic_class,
            flow_label: outer.flow_label,
            payload_len: lens.udp,
            next_header: protocol::UDP,
            hop_limit: OUTER_TTL,
            src: outer.src,
            dst: outer.dst,
        }),
        udp: UdpHeader::new(outer.src_port, UDP_PORT, lens.udp, checksum),
        gtpu,
    };
    let link = emit_link(out, outer.dst_mac, outer.src_mac, outer.vlan, EtherType::IPV6)?;
    let rest = out.get_mut(link..).unwrap_or_default();
    stack.emit(rest)?;
    extensions.emit(rest.get_mut(Ipv6Stack::LEN..).unwrap_or_default())
}

/// The values of the length fields of the outer headers.
struct OuterLengths {
    gtpu: u16,
    udp: u16,
    ip: u16,
}

impl OuterLengths {
    /// `ip_header_len`: how much of the IP header its own length field includes.
    #[inline]
    fn new(extensions: Extensions, inner: u16, ip_header_len: usize) -> Result<Self, Malformed> {
        let gtpu = usize::from(inner) + extensions.len();
        let udp = gtpu + GtpuHeader::LEN + UdpHeader::LEN;
        let ip = udp + ip_header_len;
        match (u16::try_from(gtpu), u16::try_from(udp), u16::try_from(ip)) {
            (Ok(gtpu), Ok(udp), Ok(ip)) => Ok(Self { gtpu, udp, ip }),
            _ => Err(Malformed::bad_length(ip, usize::from(u16::MAX))),
        }
    }
}

#[inline]
fn check_room(out: &[u8], need: usize) -> Result<(), Malformed> {
    if out.len() == need { Ok(()) } else { Err(Malformed::bad_length(need, out.len())) }
}

#[inline]
fn g_pdu(extensions: Extensions, len: u16, teid: Teid) -> GtpuHeader {
    let flags = if extensions.len() == 0 { 0 } else { FLAG_E };
    GtpuHeader::new(flags, GtpuMessageType::G_PDU, len, teid)
}

/// The extension headers of a G-PDU, after the optional fields with the type of the first of them.
#[derive(Clone, Copy)]
struct Extensions {
    psc: Option<PduSessionContainer>,
    service_class: Option<ServiceClass>,
}

impl Extensions {
    #[inline]
    const fn len(&self) -> usize {
        let container = match &self.psc {
            None => 0,
            Some(psc) => psc.extension_len(),
        };
        let len = container + if self.service_class.is_some() { SERVICE_CLASS_LEN } else { 0 };
        if len == 0 { 0 } else { GtpuOptional::LEN + len }
    }

    #[inline]
    fn emit(self, out: &mut [u8]) -> Result<(), Malformed> {
        use ExtensionType as E;
        let last = self.service_class.map_or(E::NONE, |_| E::SERVICE_CLASS_INDICATOR);
        let first = self.psc.map_or(last, |_| E::PDU_SESSION_CONTAINER);
        if first == E::NONE {
            return Ok(());
        }
        crate::view::emit(&GtpuOptional::new(0, first), out)?;
        let mut rest = out.get_mut(GtpuOptional::LEN..).unwrap_or_default();
        if let Some(psc) = self.psc {
            match psc.ppi {
                None => crate::view::emit(&psc.short_extension(), rest)?,
                Some(ppi) => crate::view::emit(&psc.long_extension(ppi), rest)?,
            }
            let (container, behind) =
                rest.split_at_mut_checked(psc.extension_len()).unwrap_or_default();
            container.last_mut().into_iter().for_each(|next| *next = last.0);
            rest = behind;
        }
        match self.service_class {
            Some((class, spare)) => crate::view::emit(&[1, class, spare, E::NONE.0], rest),
            None => Ok(()),
        }
    }

    /// Returns optional fields and extension headers, padded with zeros, which do not change a sum.
    #[inline]
    fn octets(self) -> [u8; 16] {
        let mut octets = [0; 16];
        if self.emit(&mut octets).is_err() {
            unreachable!("sixteen octets hold the longest container and a service class")
        }
        octets
    }
}
