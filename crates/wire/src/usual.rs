//! The usual packet: recognized by its fixed layout.
//!
//! Ethernet without a tag, IPv4 without options and whole, and for G-PDUs UDP, GTP-U with at most
//! one short PDU Session Container, and IP inside: IPv4 without options, or IPv6 with its upper
//! layer next. What must be as it is everywhere is compared at once with a pattern of the link.
//! What is not exactly so is `None`, which says nothing about it: the walk of [`crate::parse`]
//! tells.
//!
//! PERF: these functions are inlined whole: a call would pass what was recognized through memory.
//! Spec: RFC 791; RFC 8200; TS 29.281 §4.4, §5; TS 38.415 §5.5.2.2.

use core::hint::select_unpredictable;
use core::net::Ipv4Addr;

use adit_types::{MacAddr, Qfi, Teid};
use zerocopy::byteorder::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::Sum;
use crate::encapsulate::OUTER_TTL;
use crate::gtpu::UDP_PORT;
use crate::protocol;

/// Octets of an Ethernet header without a tag.
const ETHERNET_LEN: usize = 14;

/// "Don't fragment" of an IPv4 header.
const DONT_FRAGMENT: u16 = 0x4000;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const UDP: u8 = protocol::UDP;
const T_PDU: u8 = 255;

/// First octet of an IPv4 header without options.
const VERSION_IHL: u8 = 0x45;

/// Octets of the headers in front of the inner packet: Ethernet, IPv4, UDP, GTP-U.
const G_PDU_LEN: usize = ETHERNET_LEN + 20 + 8 + 8;

/// Octets of the optional fields of GTP-U with one container of four octets.
const CONTAINER_LEN: usize = 8;

/// The same with these fields.
const EXTENDED_LEN: usize = G_PDU_LEN + CONTAINER_LEN;

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

/// What the first octets of a frame must be, as far as the mask tells.
#[derive(Debug, Clone, Copy)]
struct OctetPattern<const WORDS: usize> {
    value: [u64; WORDS],
    mask: [u64; WORDS],
}

impl<const WORDS: usize> OctetPattern<WORDS> {
    /// A pattern of parts that begin at the given offsets: value and mask of each octet.
    fn new(parts: &[(usize, &[u8], &[u8])]) -> Self {
        let mut pattern = Self { value: [0; WORDS], mask: [0; WORDS] };
        for (offset, value, mask) in parts {
            for (at, (value, mask)) in (*offset..).zip(value.iter().zip(*mask)) {
                let mut octet = [0; 8];
                octet[at % 8] = value & mask;
                pattern.value[at / 8] |= u64::from_ne_bytes(octet);
                octet[at % 8] = *mask;
                pattern.mask[at / 8] |= u64::from_ne_bytes(octet);
            }
        }
        pattern
    }

    /// True when `frame` begins so.
    ///
    /// PERF: without a branch between the words, so that they are compared as vectors.
    #[inline]
    fn fits(&self, frame: &[u8]) -> bool {
        let (words, _) = frame.as_chunks::<8>();
        let Some(words) = words.first_chunk::<WORDS>() else { return false };
        let mut different = 0;
        for ((word, value), mask) in words.iter().zip(&self.value).zip(&self.mask) {
            different |= u64::from_ne_bytes(*word) & mask ^ value;
        }
        different == 0
    }
}

/// Every bit of an octet counts.
const ALL: [u8; 6] = [0xff; 6];

/// What usual G-PDUs on a link have in common.
#[derive(Debug, Clone, Copy)]
pub struct GPduPattern {
    plain: OctetPattern<8>,
    extended: OctetPattern<8>,
}

impl GPduPattern {
    /// Of frames to `mac` that carry G-PDUs to `addr`.
    #[must_use]
    pub fn new(mac: MacAddr, addr: Ipv4Addr) -> Self {
        // More fragments, and the fragment's offset.
        const FRAGMENT: [u8; 2] = [0x3f, 0xff];
        let ether_type = IPV4.to_be_bytes();
        let port = UDP_PORT.to_be_bytes();
        let dst = addr.octets();
        let outer = |flags: &'static [u8; 2]| {
            [
                (0, &mac.0[..], &ALL[..]),
                (12, &ether_type, &ALL),
                (14, &[VERSION_IHL], &ALL),
                (20, &[0, 0], &FRAGMENT),
                (23, &[UDP], &ALL),
                (30, &dst, &ALL),
                (36, &port, &ALL),
                (42, flags, &ALL),
            ]
        };
        // One container of four octets is the only extension header, of an uplink PDU without
        // further fields; its second octet holds six bits of QFI.
        let container =
            [(53, &[0x85, 1, 0x10][..], &ALL[..]), (56, &[0], &[0xc0]), (57, &[0], &ALL)];
        let extended = outer(&[FLAGS_EXTENDED, T_PDU]);
        Self {
            plain: OctetPattern::new(&outer(&[FLAGS_PLAIN, T_PDU])),
            extended: OctetPattern::new(&[&extended[..], &container].concat()),
        }
    }
}

/// What usual IP packets on a link have in common.
#[derive(Debug, Clone, Copy)]
pub struct IpPattern {
    v4: OctetPattern<2>,
    v6: OctetPattern<2>,
}

impl IpPattern {
    /// Of frames to `mac`.
    #[must_use]
    pub fn new(mac: MacAddr) -> Self {
        let pattern = |ether_type: u16, first: u8, mask: u8| {
            let ether_type = ether_type.to_be_bytes();
            OctetPattern::new(&[
                (0, &mac.0, &ALL),
                (12, &ether_type, &ALL),
                (14, &[first], &[mask]),
            ])
        };
        Self { v4: pattern(IPV4, VERSION_IHL, 0xff), v6: pattern(IPV6, 0x60, 0xf0) }
    }
}

/// An IP packet that has a hop left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsualIp {
    /// The family.
    pub is_v6: bool,
    /// Source: an IPv4 address, or the upper half of an IPv6 address.
    pub src: u64,
    /// Destination, likewise.
    pub dst: u64,
    /// Length of the packet, at most what the frame holds. Unit: octets.
    pub total_len: u16,
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
    pub inner: UsualIp,
}

/// What can be told of a frame that is not usual, so that packets of one session stay in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderingKey {
    /// Nothing that a session is looked up for.
    Nothing,
    /// If it is a G-PDU it has this TEID.
    Tunneled(Teid),
    /// If it is a user's packet it goes to this address.
    PlainV4(Ipv4Addr),
    /// If it is a user's packet it goes to an address with this upper half.
    PlainV6(u64),
    /// Only the walk of [`crate::parse`] tells.
    Unknown,
}

/// Looks at a frame that is not usual; G-PDUs go to `tunnels`, where there are any.
///
/// Cost: few octets at fixed places.
#[must_use]
#[cold]
pub fn ordering_key(frame: &[u8], tunnels: Option<Ipv4Addr>) -> OrderingKey {
    const VLAN: u16 = 0x8100;
    let Ok((headers, _)) = FrameIpv4::ref_from_prefix(frame) else { return OrderingKey::Nothing };
    let dst = Ipv4Addr::from_bits(headers.ip.dst.get());
    match headers.link.ether_type.get() {
        IPV4 if tunnels != Some(dst) => OrderingKey::PlainV4(dst),
        // Only the whole datagram has a TEID.
        IPV4 if headers.ip.fragment.get() & !DONT_FRAGMENT != 0 => OrderingKey::Nothing,
        IPV4 if headers.ip.version_ihl != VERSION_IHL => OrderingKey::Unknown,
        IPV4 => match GPdu::ref_from_prefix(frame) {
            Ok((outer, _)) => OrderingKey::Tunneled(Teid(outer.teid.get())),
            Err(_) => OrderingKey::Nothing,
        },
        IPV6 if tunnels.is_none() => {
            match frame.get(ETHERNET_LEN + 24..).map(<[u8]>::first_chunk) {
                Some(Some(upper)) => OrderingKey::PlainV6(u64::from_be_bytes(*upper)),
                _ => OrderingKey::Nothing,
            }
        }
        IPV6 | VLAN => OrderingKey::Unknown,
        _ => OrderingKey::Nothing,
    }
}

/// True when a frame seems to carry IPv6, in a G-PDU or, without `tunnels`, as it is. Only a guess.
///
/// PERF: without a branch on what is seen.
#[inline(always)]
#[must_use]
pub fn guess_is_v6(frame: &[u8], tunnels: bool) -> bool {
    let Some(headers) = frame.first_chunk::<{ EXTENDED_LEN + 1 }>() else { return false };
    let is_extended = headers[42] == FLAGS_EXTENDED;
    let inner = headers[if is_extended { EXTENDED_LEN } else { G_PDU_LEN }];
    let is_inner_v6 = tunnels & (inner >> 4 == 6);
    is_inner_v6 | (u16::from_be_bytes([headers[12], headers[13]]) == IPV6)
}

/// Reads a frame that carries IP. Without `verify` the port has verified an IPv4 checksum.
#[inline(always)]
#[must_use]
pub fn usual_ip(frame: &[u8], pattern: &IpPattern, verify: bool) -> Option<UsualIp> {
    if pattern.v4.fits(frame) {
        usual_ipv4(frame.get(ETHERNET_LEN..)?, verify)
    } else if pattern.v6.fits(frame) {
        usual_ipv6(frame.get(ETHERNET_LEN..)?)
    } else {
        None
    }
}

/// Reads a frame that carries a G-PDU. Without `verify` the port has verified the outer header
/// checksum.
#[inline(always)]
#[must_use]
pub fn usual_g_pdu(frame: &[u8], pattern: &GPduPattern, verify: bool) -> Option<UsualGPdu> {
    match *frame.get(42)? {
        FLAGS_EXTENDED if pattern.extended.fits(frame) => g_pdu_with::<EXTENDED_LEN>(frame, verify),
        FLAGS_PLAIN if pattern.plain.fits(frame) => g_pdu_with::<G_PDU_LEN>(frame, verify),
        _ => None,
    }
}

/// Reads the rest of a frame that fits a pattern and whose inner packet begins at `OFFSET`.
#[inline(always)]
fn g_pdu_with<const OFFSET: usize>(frame: &[u8], verify: bool) -> Option<UsualGPdu> {
    let (outer, _) = GPdu::ref_from_prefix(frame).ok()?;
    let total_len = outer.ip.total_len.get();
    let is_whole = usize::from(total_len) + ETHERNET_LEN <= frame.len()
        && outer.udp_len.get().wrapping_add(20) == total_len
        && outer.len.get().wrapping_add(36) == total_len;
    if !is_whole || verify && !is_checksum_valid(outer.ip.as_bytes().first_chunk()?) {
        return None;
    }
    let inner = frame.get(OFFSET..)?;
    let inner = match *inner.first()? {
        VERSION_IHL => usual_ipv4(inner, true)?,
        first if first >> 4 == 6 => usual_ipv6(inner)?,
        _ => return None,
    };
    let fits = usize::from(inner.total_len) + OFFSET <= usize::from(total_len) + ETHERNET_LEN;
    let qfi = if OFFSET == EXTENDED_LEN { Qfi::new(*frame.get(56)?) } else { None };
    #[allow(clippy::cast_possible_truncation, reason = "50 or 58")]
    let inner_offset = OFFSET as u8;
    fits.then_some(UsualGPdu { teid: Teid(outer.teid.get()), qfi, inner_offset, inner })
}

/// An IPv4 packet whose first octet fits. Fragments are packets like others here.
#[inline(always)]
fn usual_ipv4(packet: &[u8], verify: bool) -> Option<UsualIp> {
    let (ip, _) = Ipv4::ref_from_prefix(packet).ok()?;
    let total_len = ip.total_len.get();
    let fits = total_len >= 20 && usize::from(total_len) <= packet.len() && ip.ttl > 1;
    if !fits || verify && !is_checksum_valid(ip.as_bytes().first_chunk()?) {
        return None;
    }
    let (src, dst) = (u64::from(ip.src.get()), u64::from(ip.dst.get()));
    Some(UsualIp { is_v6: false, src, dst, total_len })
}

/// An IPv6 packet whose version fits, and whose upper layer follows.
#[inline(always)]
fn usual_ipv6(packet: &[u8]) -> Option<UsualIp> {
    let header: &[u8; 40] = packet.first_chunk()?;
    let payload_len = u16::from_be_bytes([header[4], header[5]]);
    let total_len = payload_len.checked_add(40)?;
    let is_upper = matches!(header[6], protocol::TCP | protocol::UDP | protocol::ICMPV6);
    if !is_upper || header[7] <= 1 || usize::from(total_len) > packet.len() {
        return None;
    }
    let half = |at: usize| header[at..].first_chunk().map(|half| u64::from_be_bytes(*half));
    Some(UsualIp { is_v6: true, src: half(8)?, dst: half(24)?, total_len })
}

/// True when the words of an IPv4 header sum up to all ones.
///
/// PERF: modulo 2^16 - 1 the order of octets does not matter, so words are added as they lie.
#[inline]
fn is_checksum_valid(header: &[u8; 20]) -> bool {
    let (words, _) = header.as_chunks::<4>();
    let sum: u64 = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
    sum.is_multiple_of(0xffff)
}

/// Makes a usual packet, which has a hop left, one hop older. No change below 20 octets.
///
/// PERF: without a branch on the family, which nothing predicts where both are mixed.
/// Spec: RFC 1812 §5.3.1; RFC 1624 §3; RFC 8200 §3.
#[inline(always)]
pub fn decrement_usual_hops(packet: &mut [u8], is_v6: bool) {
    let Some(header) = packet.first_chunk_mut::<20>() else { return };
    let hops = &mut header[if is_v6 { 7 } else { 8 }];
    *hops = hops.wrapping_sub(1);
    // Modulo 2^16 - 1 the order of octets does not matter. The first octet of a word became less by
    // one, so that the checksum becomes more by that, and never 0xffff.
    let sum = u16::from_le_bytes([header[10], header[11]]);
    let older = sum.wrapping_add(1).wrapping_add(u16::from(sum >= 0xfffe));
    let sum = select_unpredictable(is_v6, sum, older);
    header[10..12].copy_from_slice(&sum.to_le_bytes());
}

/// The checksum of a header whose words sum up to `sum`: of at most 2^16 words.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "what is left has 16 bits")]
const fn fold_checksum(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum + (sum >> 16)) as u16)
}

/// The usual outer headers that leave through one interface: untagged Ethernet, IPv4, UDP without a
/// checksum, GTP-U with at most one PDU Session Container.
///
/// PERF: what does not change from packet to packet is written as a whole.
#[derive(Debug, Clone, Copy)]
pub struct UsualOuter {
    headers: [u8; EXTENDED_LEN],
    /// Sum of the IPv4 header without what a tunnel and a packet bring. Its words are few, so that
    /// it does not overflow.
    sum: u32,
}

/// What a tunnel brings to its usual outer headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsualTunnel {
    /// Destination of the frame.
    pub dst_mac: MacAddr,
    /// The tunnel's far end.
    pub dst: Ipv4Addr,
    /// Type of service octet.
    pub tos: u8,
    /// TEID of the far end.
    pub teid: Teid,
    /// QoS flow and reflective QoS indication of a downlink container.
    pub marking: Option<(Qfi, bool)>,
}

impl UsualTunnel {
    /// Octets of all headers, Ethernet included.
    #[inline]
    #[must_use]
    pub const fn headers_len(&self) -> usize {
        if self.marking.is_some() { EXTENDED_LEN } else { G_PDU_LEN }
    }

    /// Length of the outer IP packet around one of `inner_len` octets, if a length field holds it.
    #[inline]
    #[must_use]
    pub fn ip_len(&self, inner_len: u16) -> Option<u16> {
        let headers = if self.marking.is_some() { 44 } else { 36 };
        inner_len.checked_add(headers)
    }
}

impl UsualOuter {
    /// Headers from our addresses.
    #[must_use]
    pub fn new(src_mac: MacAddr, src: Ipv4Addr) -> Self {
        let fixed = GPdu {
            link: Ethernet { dst: [0; 6], src: src_mac.0, ether_type: U16::new(IPV4) },
            ip: Ipv4 {
                version_ihl: VERSION_IHL,
                tos: 0,
                total_len: U16::ZERO,
                identification: U16::ZERO,
                fragment: U16::new(DONT_FRAGMENT),
                ttl: OUTER_TTL,
                protocol: UDP,
                checksum: U16::ZERO,
                src: U32::new(src.to_bits()),
                dst: U32::ZERO,
            },
            src_port: U16::new(UDP_PORT),
            dst_port: U16::new(UDP_PORT),
            udp_len: U16::ZERO,
            udp_checksum: U16::ZERO,
            flags: FLAGS_EXTENDED,
            message_type: T_PDU,
            len: U16::ZERO,
            teid: U32::ZERO,
        };
        let mut headers = [0; EXTENDED_LEN];
        let (front, container) = headers.split_at_mut(G_PDU_LEN);
        front.copy_from_slice(fixed.as_bytes());
        container.copy_from_slice(&[0, 0, 0, 0x85, 1, 0, 0, 0]);
        Self { headers, sum: u32::from(Sum::new().bytes(fixed.ip.as_bytes()).fold()) }
    }

    /// Writes the headers of a packet of `inner_len` octets at the front of `out`. The octets are
    /// those of [`crate::emit_gtpu_ipv4`]. `None`, and nothing written, without room or beyond the
    /// length field.
    #[inline(always)]
    #[must_use]
    pub fn emit(&self, tunnel: &UsualTunnel, inner_len: u16, out: &mut [u8]) -> Option<()> {
        let ip_len = tunnel.ip_len(inner_len)?;
        let Some((qfi, reflective)) = tunnel.marking else {
            let (headers, _) = self.headers.split_first_chunk::<G_PDU_LEN>()?;
            let out: &mut [u8; G_PDU_LEN] = out.first_chunk_mut()?;
            *out = *headers;
            out[42] = FLAGS_PLAIN;
            self.write_headers(tunnel, ip_len, out);
            return Some(());
        };
        let out: &mut [u8; EXTENDED_LEN] = out.first_chunk_mut()?;
        *out = self.headers;
        out[56] = qfi.value() | if reflective { 0x40 } else { 0 };
        self.write_headers(tunnel, ip_len, out);
        Some(())
    }

    /// Writes what changes into a copy of the headers.
    #[inline(always)]
    fn write_headers<const LEN: usize>(
        &self,
        tunnel: &UsualTunnel,
        ip_len: u16,
        out: &mut [u8; LEN],
    ) {
        let dst = tunnel.dst.to_bits();
        let sum =
            self.sum + u32::from(tunnel.tos) + u32::from(ip_len) + (dst >> 16) + (dst & 0xffff);
        out[..6].copy_from_slice(&tunnel.dst_mac.0);
        out[15] = tunnel.tos;
        out[16..18].copy_from_slice(&ip_len.to_be_bytes());
        out[24..26].copy_from_slice(&fold_checksum(sum).to_be_bytes());
        out[30..34].copy_from_slice(&dst.to_be_bytes());
        out[38..40].copy_from_slice(&(ip_len - 20).to_be_bytes());
        out[44..46].copy_from_slice(&(ip_len - 36).to_be_bytes());
        out[46..50].copy_from_slice(&tunnel.teid.0.to_be_bytes());
    }
}
