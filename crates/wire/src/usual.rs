//! The usual packet: recognized by its fixed layout, with one comparison of length.
//!
//! Ethernet without a tag, IPv4 without options and whole, and for G-PDUs UDP, GTP-U with at most
//! one short PDU Session Container, and IPv4 without options inside. What is not exactly so is
//! `None`, which says nothing about it: the walk of [`crate::parse`] tells.
//! Spec: RFC 791; TS 29.281 §4.4, §5; TS 38.415 §5.5.2.2.

use core::net::Ipv4Addr;

use adit_types::{MacAddr, Qfi, Teid};
use zerocopy::byteorder::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::{self, Sum};
use crate::encapsulate::OUTER_TTL;
use crate::gtpu::UDP_PORT;

/// Octets of an Ethernet header without a tag.
const ETHERNET_LEN: usize = 14;

/// "Don't fragment" of an IPv4 header.
const DONT_FRAGMENT: u16 = 0x4000;

const IPV4: u16 = 0x0800;
const UDP: u8 = 17;
const T_PDU: u8 = 255;

/// Octets of the headers in front of the inner packet: Ethernet, IPv4, UDP, GTP-U.
const G_PDU_LEN: usize = ETHERNET_LEN + 20 + 8 + 8;

/// Octets of the optional fields of GTP-U with one container of four octets.
const CONTAINER_LEN: usize = 8;

/// Version 1, protocol type GTP.
const FLAGS_PLAIN: u8 = 0x30;

/// The same, with an extension header.
const FLAGS_EXTENDED: u8 = 0x34;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Ethernet {
    dst: [u8; 6],
    src: [u8; 6],
    ether_type: U16,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Ipv4 {
    version_ihl: u8,
    tos: u8,
    total_len: U16,
    identification: U16,
    fragment: U16,
    ttl: u8,
    protocol: u8,
    checksum: U16,
    src: U32,
    dst: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct FrameIpv4 {
    link: Ethernet,
    ip: Ipv4,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct GPdu {
    link: Ethernet,
    ip: Ipv4,
    src_port: U16,
    dst_port: U16,
    udp_len: U16,
    udp_checksum: U16,
    flags: u8,
    message_type: u8,
    len: U16,
    teid: U32,
}

const _: () = assert!(size_of::<GPdu>() == G_PDU_LEN);

/// An IPv4 header without options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsualIpv4 {
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Length of the packet, at most what the frame holds. Unit: octets.
    pub total_len: u16,
    /// Time to live. Unit: hops.
    pub ttl: u8,
}

/// A G-PDU in an Ethernet frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsualGPdu {
    /// Our TEID.
    pub teid: Teid,
    /// QoS flow, if there is an uplink container.
    pub qfi: Option<Qfi>,
    /// Where the inner packet begins in the frame. Unit: octets.
    pub inner_offset: u8,
    /// The inner packet.
    pub inner: UsualIpv4,
}

/// What can be told of a frame that is not usual, so that packets of one session stay in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Glance {
    /// Nothing that a session is looked up for.
    Nothing,
    /// If it is a G-PDU it has this TEID.
    Tunneled(Teid),
    /// If it is a user's packet it goes to this address.
    Plain(Ipv4Addr),
    /// Only the walk of [`crate::parse`] tells.
    Unknown,
}

/// Looks at a frame that is not usual; G-PDUs go to `tunnels`, where there are any.
///
/// Cost: few octets at fixed places.
#[must_use]
#[cold]
pub fn glance(frame: &[u8], tunnels: Option<Ipv4Addr>) -> Glance {
    const IPV6: u16 = 0x86dd;
    const VLAN: u16 = 0x8100;
    let Ok((headers, _)) = FrameIpv4::ref_from_prefix(frame) else { return Glance::Nothing };
    let dst = Ipv4Addr::from_bits(headers.ip.dst.get());
    match headers.link.ether_type.get() {
        IPV4 if tunnels != Some(dst) => Glance::Plain(dst),
        IPV4 if headers.ip.version_ihl != 0x45 => Glance::Unknown,
        IPV4 => match GPdu::ref_from_prefix(frame) {
            Ok((outer, _)) => Glance::Tunneled(Teid(outer.teid.get())),
            Err(_) => Glance::Nothing,
        },
        IPV6 if tunnels.is_some() => Glance::Unknown,
        VLAN => Glance::Unknown,
        _ => Glance::Nothing,
    }
}

/// Reads a frame to `mac` that carries IPv4. Without `verify` the port has verified the checksum.
#[inline]
#[must_use]
pub fn usual_ipv4(frame: &[u8], mac: MacAddr, verify: bool) -> Option<UsualIpv4> {
    let (headers, _) = FrameIpv4::ref_from_prefix(frame).ok()?;
    if !is_ipv4_to(&headers.link, mac) {
        return None;
    }
    whole_ipv4(&headers.ip, frame, ETHERNET_LEN, verify)
}

/// Reads a frame to `mac` that carries a G-PDU to `addr`. Without `verify` the port has verified the
/// outer header checksum.
#[inline]
#[must_use]
pub fn usual_g_pdu(frame: &[u8], mac: MacAddr, addr: Ipv4Addr, verify: bool) -> Option<UsualGPdu> {
    const MORE_AND_OFFSET: u16 = 0x3fff;
    let (outer, rest) = GPdu::ref_from_prefix(frame).ok()?;
    let total_len = outer.ip.total_len.get();
    let is_usual = is_ipv4_to(&outer.link, mac)
        && outer.ip.version_ihl == 0x45
        && outer.ip.protocol == UDP
        && outer.ip.fragment.get() & MORE_AND_OFFSET == 0
        && outer.ip.dst.get() == addr.to_bits()
        && outer.dst_port.get() == UDP_PORT
        && outer.message_type == T_PDU
        && usize::from(total_len) + ETHERNET_LEN <= frame.len()
        && outer.udp_len.get().wrapping_add(20) == total_len
        && outer.len.get().wrapping_add(36) == total_len;
    if !is_usual || verify && !is_sum_right(frame, ETHERNET_LEN) {
        return None;
    }
    let (inner_offset, qfi) = match outer.flags {
        FLAGS_PLAIN => (G_PDU_LEN, None),
        FLAGS_EXTENDED => (G_PDU_LEN + CONTAINER_LEN, Some(uplink_qfi(rest)?)),
        _ => return None,
    };
    let (ip, _) = Ipv4::ref_from_prefix(frame.get(inner_offset..)?).ok()?;
    let inner = whole_ipv4(ip, frame, inner_offset, true)?;
    let fits = usize::from(inner.total_len) + inner_offset <= usize::from(total_len) + ETHERNET_LEN;
    #[allow(clippy::cast_possible_truncation, reason = "50 or 58")]
    let inner_offset = inner_offset as u8;
    fits.then_some(UsualGPdu { teid: Teid(outer.teid.get()), qfi, inner_offset, inner })
}

#[inline]
fn is_ipv4_to(link: &Ethernet, mac: MacAddr) -> bool {
    link.dst == mac.0 && link.ether_type.get() == IPV4
}

/// An IPv4 packet at `offset` of `frame`. Fragments are packets like others here.
#[inline]
fn whole_ipv4(ip: &Ipv4, frame: &[u8], offset: usize, verify: bool) -> Option<UsualIpv4> {
    let total_len = ip.total_len.get();
    let fits = total_len >= 20 && usize::from(total_len) + offset <= frame.len();
    if ip.version_ihl != 0x45 || !fits || verify && !is_sum_right(frame, offset) {
        return None;
    }
    Some(UsualIpv4 {
        src: Ipv4Addr::from_bits(ip.src.get()),
        dst: Ipv4Addr::from_bits(ip.dst.get()),
        total_len,
        ttl: ip.ttl,
    })
}

#[inline]
fn is_sum_right(frame: &[u8], offset: usize) -> bool {
    let header: Option<&[u8; 20]> = frame.get(offset..).and_then(|rest| rest.first_chunk());
    header.is_some_and(|header| checksum::ipv4_header(header) == 0)
}

/// The QFI of the optional fields and the container in front of `rest`: the container is the only
/// extension header, short, and of uplink without further fields.
#[inline]
fn uplink_qfi(rest: &[u8]) -> Option<Qfi> {
    let [_, _, _, 0x85, 1, 0x10, second, 0, ..] = *rest else { return None };
    Qfi::new(second)
}

/// What the creator of the usual outer headers chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsualOuter {
    /// Destination of the frame.
    pub dst_mac: MacAddr,
    /// Source of the frame.
    pub src_mac: MacAddr,
    /// Our address.
    pub src: Ipv4Addr,
    /// The tunnel's far end.
    pub dst: Ipv4Addr,
    /// Type of service octet.
    pub tos: u8,
    /// TEID of the far end.
    pub teid: Teid,
    /// QoS flow and reflective QoS indication of a downlink container.
    pub marking: Option<(Qfi, bool)>,
    /// Length of the inner packet. Unit: octets.
    pub inner_len: u16,
}

impl UsualOuter {
    /// Octets of all headers, Ethernet included.
    #[inline]
    #[must_use]
    pub const fn headers_len(&self) -> usize {
        if self.marking.is_some() { G_PDU_LEN + CONTAINER_LEN } else { G_PDU_LEN }
    }

    /// Length of the outer IP packet, if a length field holds it. Unit: octets.
    #[inline]
    #[must_use]
    pub fn ip_len(&self) -> Option<u16> {
        let headers = if self.marking.is_some() { 44 } else { 36 };
        self.inner_len.checked_add(headers)
    }

    /// Writes the headers at the front of `out`: untagged Ethernet, IPv4, UDP without a checksum,
    /// GTP-U. The octets are those of [`crate::emit_gtpu_ipv4`]. `None`, and nothing written,
    /// without room or beyond the length field.
    #[inline]
    #[must_use]
    pub fn emit(&self, out: &mut [u8]) -> Option<()> {
        let ip_len = self.ip_len()?;
        let sum = Sum::new()
            .word(0x4500 | u16::from(self.tos))
            .word(ip_len)
            .word(DONT_FRAGMENT)
            .word(u16::from_be_bytes([OUTER_TTL, UDP]))
            .long(self.src.to_bits())
            .long(self.dst.to_bits());
        let headers = GPdu {
            link: Ethernet { dst: self.dst_mac.0, src: self.src_mac.0, ether_type: U16::new(IPV4) },
            ip: Ipv4 {
                version_ihl: 0x45,
                tos: self.tos,
                total_len: U16::new(ip_len),
                identification: U16::ZERO,
                fragment: U16::new(DONT_FRAGMENT),
                ttl: OUTER_TTL,
                protocol: UDP,
                checksum: U16::new(sum.checksum()),
                src: U32::new(self.src.to_bits()),
                dst: U32::new(self.dst.to_bits()),
            },
            src_port: U16::new(UDP_PORT),
            dst_port: U16::new(UDP_PORT),
            udp_len: U16::new(ip_len - 20),
            udp_checksum: U16::ZERO,
            flags: if self.marking.is_some() { FLAGS_EXTENDED } else { FLAGS_PLAIN },
            message_type: T_PDU,
            len: U16::new(ip_len - 36),
            teid: U32::new(self.teid.0),
        };
        let Some((qfi, reflective)) = self.marking else {
            return headers.write_to_prefix(out).ok();
        };
        let flow = qfi.value() | if reflective { 0x40 } else { 0 };
        let (front, rest) = out.split_at_mut_checked(G_PDU_LEN)?;
        let container = rest.first_chunk_mut::<CONTAINER_LEN>()?;
        *container = [0, 0, 0, 0x85, 1, 0, flow, 0];
        headers.write_to(front).ok()
    }
}
