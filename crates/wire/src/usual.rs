//! The usual packet, recognized by its fixed layout.
//!
//! Ethernet with the tag of the link or none, and IPv4 without options that is no fragment. A G-PDU continues
//! with UDP, GTP-U with or without a sequence number and with at most one short PDU Session Container, and IP:
//! IPv4 without options, or IPv6 whose next header is the upper layer. One comparison with a pattern of the
//! link checks all constant fields. For any other packet the functions return `None`, and only the walk of
//! [`crate::parse`] classifies it.
//!
//! `TAG_LEN` is the length of the link's tag: 4 octets or none. What follows the tag is read as if there was
//! none.
//!
//! PERF (wire/usual): all functions are inlined, because a call would pass the fields through memory.
//! Spec: RFC 791; RFC 8200; IEEE 802.1Q §9.6; TS 29.281 §4.4, §5; TS 38.415 §5.5.2.

use core::hint::select_unpredictable;
use core::mem::offset_of;
use core::net::{IpAddr, Ipv4Addr};

use adit_types::{Direction, MacAddr, Qfi, Teid, VlanId};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::encapsulate::OUTER_TTL;
use crate::ether_type::EtherType;
use crate::ethernet::{EthernetHeader, link_len};
use crate::gtpu::{
    FLAG_E, FLAG_PN, FLAG_S, GtpuHeader, GtpuMessageType, GtpuOptional, UDP_PORT, VERSION_1,
};
use crate::gtpu_ext::ExtensionType;
use crate::ipv4::{Ipv4Fields, Ipv4Header};
use crate::ipv6::Ipv6Header;
use crate::protocol;
use crate::udp::UdpHeader;
use crate::vlan::VlanTag;

/// "Don't fragment" of an IPv4 header.
const DONT_FRAGMENT: u16 = 0x4000;

/// "More fragments" and the offset of a fragment in an IPv4 header.
const FRAGMENT: u16 = 0x3fff;

const IPV4: u16 = EtherType::IPV4.0;
const IPV6: u16 = EtherType::IPV6.0;
const UDP: u8 = protocol::UDP;
const T_PDU: u8 = GtpuMessageType::G_PDU.0;

/// PDU types of containers, in their octet.
const DOWNLINK: u8 = 0;
const UPLINK: u8 = 1 << 4;

/// First octet of an IPv4 header without options.
const VERSION_IHL: u8 = 0x45;

/// The flags of a sequence number and an N-PDU number.
const NUMBERS: u8 = FLAG_S | FLAG_PN;

/// Octets of an Ethernet header without a tag.
const ETHERNET_LEN: usize = EthernetHeader::LEN;

/// Frames that carry IPv4.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct FrameIpv4 {
    link: EthernetHeader,
    ip: Ipv4Header,
}

/// Frames that carry a G-PDU without extension headers.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct FrameGPdu {
    link: EthernetHeader,
    ip: Ipv4Header,
    udp: UdpHeader,
    gtpu: GtpuHeader,
}

/// Frames that carry a G-PDU with numbers and without extension headers.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct FrameNumbered {
    plain: FrameGPdu,
    optional: GtpuOptional,
}

/// A PDU Session Container of four octets, two of them content, that ends the chain.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Container {
    /// Unit: four octets.
    len: u8,
    /// PDU type in the high half.
    pdu_type: u8,
    /// QFI in six bits; above them flags of the PDU type.
    qfi: u8,
    next_extension: u8,
}

/// Frames that carry a G-PDU with one container.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct FrameExtended {
    plain: FrameGPdu,
    optional: GtpuOptional,
    container: Container,
}

/// Octets of the headers before the inner packet.
const G_PDU_LEN: usize = size_of::<FrameGPdu>();

/// The same with numbers.
const NUMBERED_LEN: usize = size_of::<FrameNumbered>();

/// The same with one container, with or without numbers.
const EXTENDED_LEN: usize = size_of::<FrameExtended>();

/// A length of headers, as a length field.
#[allow(clippy::cast_possible_truncation, reason = "below 100")]
const fn header_len(len: usize) -> u16 {
    len as u16
}

/// Octets of the headers from IPv4 on, which GTP-U's length does not count.
const IP_HEADERS_LEN: u16 = header_len(G_PDU_LEN - ETHERNET_LEN);

/// Octets of an IPv4 header, which UDP's length does not count.
const IPV4_LEN: u16 = header_len(Ipv4Header::LEN);
const IPV6_LEN: u16 = header_len(Ipv6Header::LEN);

/// Octets of the optional fields of GTP-U with one container.
const CONTAINER_LEN: u16 = header_len(EXTENDED_LEN - G_PDU_LEN);

/// Offsets of fields in a frame.
mod at {
    use core::mem::offset_of;

    use super::{EthernetHeader, FrameExtended, FrameGPdu, FrameIpv4, Ipv4Header};

    pub(super) const DST_MAC: usize = offset_of!(FrameIpv4, link.dst);
    pub(super) const SRC_MAC: usize = offset_of!(FrameIpv4, link.src);
    pub(super) const ETHER_TYPE: usize = offset_of!(FrameIpv4, link.ether_type);
    pub(super) const IP: usize = EthernetHeader::LEN;
    pub(super) const TOS: usize = offset_of!(FrameIpv4, ip.tos);
    pub(super) const TOTAL_LEN: usize = offset_of!(FrameIpv4, ip.total_len);
    pub(super) const FLAGS_OFFSET: usize = offset_of!(FrameIpv4, ip.flags_offset);
    pub(super) const PROTOCOL: usize = offset_of!(FrameIpv4, ip.protocol);
    pub(super) const CHECKSUM: usize = offset_of!(FrameIpv4, ip.checksum);
    pub(super) const DST: usize = offset_of!(FrameIpv4, ip.dst);
    pub(super) const DST_PORT: usize = offset_of!(FrameGPdu, udp.dst_port);
    pub(super) const UDP_LEN: usize = offset_of!(FrameGPdu, udp.len);
    pub(super) const FLAGS: usize = offset_of!(FrameGPdu, gtpu.flags);
    pub(super) const GTPU_LEN: usize = offset_of!(FrameGPdu, gtpu.len);
    pub(super) const TEID: usize = offset_of!(FrameGPdu, gtpu.teid);
    pub(super) const NEXT_EXTENSION: usize = offset_of!(FrameExtended, optional.next_extension);
    pub(super) const PDU_TYPE: usize = offset_of!(FrameExtended, container.pdu_type);
    pub(super) const QFI: usize = offset_of!(FrameExtended, container.qfi);
    pub(super) const LAST_EXTENSION: usize = offset_of!(FrameExtended, container.next_extension);
    /// In an IPv4 header.
    pub(super) const TTL: usize = offset_of!(Ipv4Header, ttl);
    pub(super) const HEADER_CHECKSUM: usize = offset_of!(Ipv4Header, checksum);
}

/// The first octets of a usual frame, with a mask of the constant ones.
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

    /// True if the first words of `frame` fit.
    ///
    /// PERF (wire/usual): no branch between the words, so that they are compared as vectors.
    #[inline]
    fn fits<const COMPARED: usize>(&self, frame: &[u8]) -> bool {
        let (words, _) = frame.as_chunks::<8>();
        let Some(words) = words.first_chunk::<COMPARED>() else { return false };
        let mut different = 0;
        for ((word, value), mask) in words.iter().zip(&self.value).zip(&self.mask) {
            different |= u64::from_ne_bytes(*word) & mask ^ value;
        }
        different == 0
    }
}

/// Every bit of an octet counts.
const ALL: [u8; 6] = [0xff; 6];

/// A part of a frame: its offset in a frame without a tag, the value of its octets, and a mask of the bits
/// that count.
type Part = (usize, Vec<u8>, Vec<u8>);

/// A part of which all bits count.
fn exact(at: usize, value: &[u8]) -> Part {
    (at, value.to_vec(), vec![0xff; value.len()])
}

/// The pattern of frames to `mac` in `vlan` with these parts behind the addresses.
fn pattern<const WORDS: usize>(mac: MacAddr, vlan: VlanId, parts: &[Part]) -> OctetPattern<WORDS> {
    let tag_len = link_len(vlan) - ETHERNET_LEN;
    let shifted = parts.iter().map(|(at, value, mask)| (at + tag_len, &value[..], &mask[..]));
    let mut all: Vec<_> = shifted.collect();
    let [tag, vlan] = [EtherType::VLAN.0, vlan.value()].map(u16::to_be_bytes);
    if tag_len != 0 {
        all.push((at::ETHER_TYPE, &tag, &ALL));
        all.push((at::ETHER_TYPE + 2, &vlan, &VID));
    }
    all.push((at::DST_MAC, &mac.0, &ALL));
    OctetPattern::new(&all)
}

/// The bits of a VLAN in a tag. Priority and drop eligibility do not count.
const VID: [u8; 2] = [0x0f, 0xff];

/// The VLAN of a frame. A frame that is too short for a tag has none.
#[inline]
#[must_use]
pub fn vlan_of(frame: &[u8]) -> VlanId {
    match frame.get(at::ETHER_TYPE..at::ETHER_TYPE + VlanTag::LEN) {
        Some(&[a, b, c, d]) if u16::from_be_bytes([a, b]) == EtherType::VLAN.0 => {
            VlanId::from_tag_control(u16::from_be_bytes([c, d]))
        }
        _ => VlanId::UNTAGGED,
    }
}

/// The constant fields of usual G-PDUs on a link.
#[derive(Debug, Clone, Copy)]
pub struct GPduPattern {
    /// Without an extension header.
    plain: OctetPattern<8>,
    /// With a PDU Session Container.
    extended: OctetPattern<8>,
}

impl GPduPattern {
    /// The pattern of frames to `mac` in `vlan` that carry G-PDUs to `addr`.
    #[must_use]
    pub fn new(mac: MacAddr, vlan: VlanId, addr: Ipv4Addr) -> Self {
        let outer = |flags: u8| {
            vec![
                exact(at::ETHER_TYPE, &IPV4.to_be_bytes()),
                exact(at::IP, &[VERSION_IHL]),
                (at::FLAGS_OFFSET, vec![0, 0], FRAGMENT.to_be_bytes().into()),
                exact(at::PROTOCOL, &[UDP]),
                exact(at::DST, &addr.octets()),
                exact(at::DST_PORT, &UDP_PORT.to_be_bytes()),
                (at::FLAGS, vec![VERSION_1 | flags, T_PDU], vec![!NUMBERS, 0xff]),
            ]
        };
        // One container of four octets is the only extension header. Its PDU type is 0 or 1, and it
        // announces no PPI, for which it would be too short.
        let container = vec![
            exact(at::NEXT_EXTENSION, &[ExtensionType::PDU_SESSION_CONTAINER.0, 1]),
            (at::PDU_TYPE, vec![0], vec![0xe0]),
            (at::QFI, vec![0], vec![0x80]),
            exact(at::LAST_EXTENSION, &[0]),
        ];
        let extended = [outer(FLAG_E), container].concat();
        Self { plain: pattern(mac, vlan, &outer(0)), extended: pattern(mac, vlan, &extended) }
    }
}

/// The constant fields of usual IP packets on a link.
#[derive(Debug, Clone, Copy)]
pub struct IpPattern {
    v4: OctetPattern<IP_WORDS>,
    v6: OctetPattern<IP_WORDS>,
}

/// Words of a frame with a tag up to the first octet of IP. Without a tag there is one less.
const IP_WORDS: usize = 3;

impl IpPattern {
    /// The pattern of frames to `mac` in `vlan`.
    #[must_use]
    pub fn new(mac: MacAddr, vlan: VlanId) -> Self {
        let of = |ether_type: u16, first: u8, mask: u8| {
            let parts = [
                exact(at::ETHER_TYPE, &ether_type.to_be_bytes()),
                (at::IP, vec![first], vec![mask]),
            ];
            pattern(mac, vlan, &parts)
        };
        Self { v4: of(IPV4, VERSION_IHL, 0xff), v6: of(IPV6, 0x60, 0xf0) }
    }
}

/// An IP packet whose hop limit lets it be forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsualIp {
    /// The family.
    pub is_v6: bool,
    /// Source: an IPv4 address, or the upper half of an IPv6 address.
    pub src: u64,
    /// Destination, likewise.
    pub dst: u64,
    /// Length of the packet, within the frame. Unit: octets.
    pub total_len: u16,
}

/// A G-PDU in an Ethernet frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsualGPdu {
    /// Our TEID.
    pub teid: Teid,
    /// QoS flow, if there is a container.
    pub qfi: Option<Qfi>,
    /// Where the inner packet begins in the frame. Unit: octets.
    pub inner_offset: u8,
    /// The inner packet.
    pub inner: UsualIp,
}

/// The session key of a frame that is not usual, as far as a glance shows it: keeps packets of one session
/// in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderingKey {
    /// No packet of a session.
    Nothing,
    /// If it is a G-PDU, it has this TEID.
    Tunneled(Teid),
    /// If it is a plain user packet, it goes to this address.
    PlainV4(Ipv4Addr),
    /// If it is a plain user packet, it goes to an address with this upper half.
    PlainV6(u64),
    /// Only the walk of [`crate::parse`] can find the key.
    Unknown,
}

/// The key of a frame that is not usual, without its tag: `frame` begins where the untagged one would.
/// G-PDUs go to `tunnels`; without it there are none.
///
/// Cost: reads few octets at fixed offsets.
#[must_use]
#[cold]
pub fn ordering_key(frame: &[u8], tunnels: Option<Ipv4Addr>) -> OrderingKey {
    const VLAN: u16 = 0x8100;
    let Ok((headers, _)) = FrameIpv4::ref_from_prefix(frame) else { return OrderingKey::Nothing };
    let dst = headers.ip.dst();
    match headers.link.ether_type.get() {
        IPV4 if tunnels != Some(dst) => OrderingKey::PlainV4(dst),
        // A fragment of a G-PDU has no TEID to look up before reassembly.
        IPV4 if headers.ip.flags_offset.get() & !DONT_FRAGMENT != 0 => OrderingKey::Nothing,
        IPV4 if headers.ip.version_ihl != VERSION_IHL => OrderingKey::Unknown,
        IPV4 => match FrameGPdu::ref_from_prefix(frame) {
            Ok((outer, _)) => OrderingKey::Tunneled(outer.gtpu.teid()),
            Err(_) => OrderingKey::Nothing,
        },
        IPV6 if tunnels.is_none() => {
            match frame.get(ETHERNET_LEN + offset_of!(Ipv6Header, dst)..).map(<[u8]>::first_chunk) {
                Some(Some(upper)) => OrderingKey::PlainV6(u64::from_be_bytes(*upper)),
                _ => OrderingKey::Nothing,
            }
        }
        IPV6 | VLAN => OrderingKey::Unknown,
        _ => OrderingKey::Nothing,
    }
}

/// Guesses whether a frame carries IPv6, in a G-PDU or, without `tunnels`, plainly. `frame` is as for
/// [`ordering_key`].
///
/// PERF (wire/usual): does not branch on the packet.
#[inline(always)]
#[must_use]
pub fn guess_is_v6(frame: &[u8], tunnels: bool) -> bool {
    let Some(headers) = frame.first_chunk::<{ EXTENDED_LEN + 1 }>() else { return false };
    let is_extended = headers[at::FLAGS] & FLAG_E != 0;
    let inner = headers[if is_extended { EXTENDED_LEN } else { G_PDU_LEN }];
    let is_inner_v6 = tunnels & (inner >> 4 == 6);
    is_inner_v6
        | (u16::from_be_bytes([headers[at::ETHER_TYPE], headers[at::ETHER_TYPE + 1]]) == IPV6)
}

/// Reads a frame that carries IP. Without `verify` the port has verified an IPv4 checksum.
#[inline(always)]
#[must_use]
pub fn usual_ip<const TAG_LEN: usize>(
    frame: &[u8],
    pattern: &IpPattern,
    verify: bool,
) -> Option<UsualIp> {
    let packet = frame.get(TAG_LEN + ETHERNET_LEN..)?;
    let fits = |pattern: &OctetPattern<IP_WORDS>| match TAG_LEN {
        0 => pattern.fits::<{ IP_WORDS - 1 }>(frame),
        _ => pattern.fits::<IP_WORDS>(frame),
    };
    if fits(&pattern.v4) {
        usual_ipv4(packet, verify)
    } else if fits(&pattern.v6) {
        usual_ipv6(packet)
    } else {
        None
    }
}

/// Reads a frame that carries a G-PDU. Without `verify` the port has verified the outer header
/// checksum.
#[inline(always)]
#[must_use]
pub fn usual_g_pdu<const TAG_LEN: usize>(
    frame: &[u8],
    pattern: &GPduPattern,
    verify: bool,
) -> Option<UsualGPdu> {
    let untagged = frame.get(TAG_LEN..)?;
    if pattern.extended.fits::<8>(frame) {
        return g_pdu_with::<EXTENDED_LEN, TAG_LEN>(untagged, verify);
    }
    if !pattern.plain.fits::<8>(frame) {
        return None;
    }
    match untagged.get(at::FLAGS)? & NUMBERS {
        0 => g_pdu_with::<G_PDU_LEN, TAG_LEN>(untagged, verify),
        _ => g_pdu_with::<NUMBERED_LEN, TAG_LEN>(untagged, verify),
    }
}

/// Reads the rest of a frame that fits a pattern, from where it would begin without its tag. The inner packet
/// begins `OFFSET` octets behind that.
#[inline(always)]
fn g_pdu_with<const OFFSET: usize, const TAG_LEN: usize>(
    frame: &[u8],
    verify: bool,
) -> Option<UsualGPdu> {
    let (outer, _) = FrameGPdu::ref_from_prefix(frame).ok()?;
    let total_len = outer.ip.total_len();
    let is_whole = usize::from(total_len) + ETHERNET_LEN <= frame.len()
        && outer.udp.len().wrapping_add(IPV4_LEN) == total_len
        && outer.gtpu.len().wrapping_add(IP_HEADERS_LEN) == total_len;
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
    let qfi = match OFFSET {
        EXTENDED_LEN => Qfi::new(*frame.get(at::QFI)? & Qfi::MAX),
        _ => None,
    };
    #[allow(clippy::cast_possible_truncation, reason = "50 to 62")]
    let inner_offset = (OFFSET + TAG_LEN) as u8;
    fits.then_some(UsualGPdu { teid: outer.gtpu.teid(), qfi, inner_offset, inner })
}

/// An IPv4 packet whose first octet fits. Accepts fragments.
#[inline(always)]
fn usual_ipv4(packet: &[u8], verify: bool) -> Option<UsualIp> {
    let (ip, _) = Ipv4Header::ref_from_prefix(packet).ok()?;
    let total_len = ip.total_len();
    let fits = usize::from(total_len) >= Ipv4Header::LEN
        && usize::from(total_len) <= packet.len()
        && ip.ttl > 1;
    if !fits || verify && !is_checksum_valid(ip.as_bytes().first_chunk()?) {
        return None;
    }
    let (src, dst) = (u64::from(ip.src().to_bits()), u64::from(ip.dst().to_bits()));
    Some(UsualIp { is_v6: false, src, dst, total_len })
}

/// An IPv6 packet whose version fits and whose next header is the upper layer.
#[inline(always)]
fn usual_ipv6(packet: &[u8]) -> Option<UsualIp> {
    let (ip, _) = Ipv6Header::ref_from_prefix(packet).ok()?;
    let total_len = ip.payload_len().checked_add(IPV6_LEN)?;
    let is_upper = matches!(ip.next_header(), protocol::TCP | protocol::UDP | protocol::ICMPV6);
    if !is_upper || ip.hop_limit() <= 1 || usize::from(total_len) > packet.len() {
        return None;
    }
    let upper_half = |addr: &[u8; 16]| addr.first_chunk().map(|half| u64::from_be_bytes(*half));
    Some(UsualIp { is_v6: true, src: upper_half(&ip.src)?, dst: upper_half(&ip.dst)?, total_len })
}

/// True if the words of an IPv4 header add up to all ones.
///
/// PERF (wire/usual): modulo 2^16 - 1 the order of octets does not matter, so words are added in native
/// order.
#[inline]
fn is_checksum_valid(header: &[u8; 20]) -> bool {
    let (words, _) = header.as_chunks::<4>();
    let sum: u64 = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
    sum.is_multiple_of(0xffff)
}

/// The fields of a usual packet that SDF filters compare. An IPv4 address takes the first word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsualTuple {
    /// Source, in words.
    pub src: [u32; 4],
    /// Destination, in words.
    pub dst: [u32; 4],
    /// Source port, zero without ports.
    pub src_port: u16,
    /// Destination port, zero without ports.
    pub dst_port: u16,
    /// Upper-layer protocol.
    pub protocol: u8,
    /// Type of service or traffic class octet.
    pub tos: u8,
}

/// Reads addresses, protocol and ports of a usual packet whose family is known. `None` for
/// fragments: only the first one has ports.
#[inline(always)]
#[must_use]
pub fn usual_tuple(packet: &[u8], is_v6: bool) -> Option<UsualTuple> {
    let (src, dst, protocol, tos, upper) = match is_v6 {
        false => {
            let (ip, upper) = Ipv4Header::ref_from_prefix(packet).ok()?;
            if ip.flags_offset.get() & FRAGMENT != 0 {
                return None;
            }
            let words = |addr: Ipv4Addr| [addr.to_bits(), 0, 0, 0];
            (words(ip.src()), words(ip.dst()), ip.protocol(), ip.tos(), upper)
        }
        true => {
            let (ip, upper) = Ipv6Header::ref_from_prefix(packet).ok()?;
            let words = |addr: &[u8; 16]| {
                let (words, _) = addr.as_chunks::<4>();
                core::array::from_fn(|at| u32::from_be_bytes(words[at]))
            };
            (words(&ip.src), words(&ip.dst), ip.next_header(), ip.traffic_class(), upper)
        }
    };
    let (src_port, dst_port) = match upper {
        &[a, b, c, d, ..] if protocol::has_ports(protocol) => {
            (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
        }
        _ => (0, 0),
    };
    Some(UsualTuple { src, dst, src_port, dst_port, protocol, tos })
}

/// The fields of a usual packet that most SDF filters compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsualFiveTuple {
    /// First 32 bits of the source.
    pub src: u32,
    /// First 32 bits of the destination.
    pub dst: u32,
    /// Source port in the upper half, destination port in the lower one; any octets if the protocol has no ports.
    pub ports: u32,
    /// Upper-layer protocol.
    pub protocol: u8,
}

/// Reads the five-tuple of a usual packet of `len` octets whose family is known and that begins at `offset`
/// of a frame. `None` for fragments, and for packets of less than four octets behind the IP header.
#[inline(always)]
#[must_use]
pub fn usual_five_tuple(frame: &[u8], offset: u8, len: u16, is_v6: bool) -> Option<UsualFiveTuple> {
    const PORTS_LEN: usize = 4;
    let ip_len = if is_v6 { Ipv6Header::LEN } else { Ipv4Header::LEN };
    let (start, headers_len) = (usize::from(offset), ip_len + PORTS_LEN);
    // PERF (adit bench datapath --sdf): one comparison with the length of the frame.
    let headers = frame.get(start..start + headers_len)?;
    if usize::from(len) < headers_len {
        return None;
    }
    let (ip, ports) = headers.split_at_checked(ip_len)?;
    let ports = u32::from_be_bytes(*ports.first_chunk()?);
    if is_v6 {
        let ip = Ipv6Header::ref_from_bytes(ip).ok()?;
        let word = |addr: &[u8; 16]| addr.first_chunk().map(|word| u32::from_be_bytes(*word));
        let (src, dst) = (word(&ip.src)?, word(&ip.dst)?);
        return Some(UsualFiveTuple { src, dst, ports, protocol: ip.next_header() });
    }
    let ip = Ipv4Header::ref_from_bytes(ip).ok()?;
    if ip.flags_offset.get() & FRAGMENT != 0 {
        return None;
    }
    let (src, dst) = (ip.src().to_bits(), ip.dst().to_bits());
    Some(UsualFiveTuple { src, dst, ports, protocol: ip.protocol() })
}

/// The destination of a usual packet whose family is known and that begins at `offset` of a frame, as in
/// [`UsualIp::dst`].
#[inline(always)]
#[must_use]
pub fn usual_dst_key(frame: &[u8], offset: u8, is_v6: bool) -> Option<u64> {
    let packet = frame.get(usize::from(offset)..)?;
    if is_v6 {
        let (ip, _) = Ipv6Header::ref_from_prefix(packet).ok()?;
        return ip.dst.first_chunk().map(|half| u64::from_be_bytes(*half));
    }
    Some(Ipv4Header::ref_from_prefix(packet).ok()?.0.dst().to_bits().into())
}

/// The destination of a usual packet whose family is known.
#[inline]
#[must_use]
pub fn usual_dst(packet: &[u8], is_v6: bool) -> Option<IpAddr> {
    Some(match is_v6 {
        false => Ipv4Header::ref_from_prefix(packet).ok()?.0.dst().into(),
        true => Ipv6Header::ref_from_prefix(packet).ok()?.0.dst().into(),
    })
}

/// Writes an Ethernet header without a tag.
///
/// PERF (adit bench datapath --mixed): no branch on the family, which is unpredictable in mixed bursts.
#[inline(always)]
pub fn emit_usual_link(
    header: &mut [u8; EthernetHeader::LEN],
    dst: &MacAddr,
    src: &MacAddr,
    is_v6: bool,
) {
    let ether_type = select_unpredictable(is_v6, IPV6, IPV4);
    header[at::DST_MAC..][..6].copy_from_slice(&dst.0);
    header[at::SRC_MAC..][..6].copy_from_slice(&src.0);
    header[at::ETHER_TYPE..][..2].copy_from_slice(&ether_type.to_be_bytes());
}

/// Decrements the TTL or hop limit of a usual packet, which is 2 or more. No change below 20 octets.
///
/// PERF (adit bench datapath --mixed): no branch on the family, which is unpredictable in mixed bursts.
/// Spec: RFC 1812 §5.3.1; RFC 1624 §3; RFC 8200 §3.
#[inline(always)]
pub fn decrement_usual_hops(packet: &mut [u8], is_v6: bool) {
    let Some(header) = packet.first_chunk_mut::<20>() else { return };
    let hops = &mut header[if is_v6 { offset_of!(Ipv6Header, hop_limit) } else { at::TTL }];
    *hops = hops.wrapping_sub(1);
    // Modulo 2^16 - 1 the order of octets does not matter. The first octet of a word decreases by one,
    // so the checksum increases by the same, and never becomes 0xffff.
    let sum = u16::from_le_bytes([header[at::HEADER_CHECKSUM], header[at::HEADER_CHECKSUM + 1]]);
    let older = sum.wrapping_add(1).wrapping_add(u16::from(sum >= 0xfffe));
    let sum = select_unpredictable(is_v6, sum, older);
    header[at::HEADER_CHECKSUM..][..2].copy_from_slice(&sum.to_le_bytes());
}

/// The checksum of a header of at most 2^16 words, whose sum is `sum`.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "what is left has 16 bits")]
const fn fold_checksum(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum + (sum >> 16)) as u16)
}

/// The usual outer headers that leave through one interface: untagged Ethernet, IPv4, UDP without a
/// checksum, GTP-U with at most one PDU Session Container.
///
/// PERF (wire/usual): constant octets are written at once.
#[derive(Debug, Clone, Copy)]
pub struct UsualOuter {
    headers: [u8; EXTENDED_LEN],
    /// Sum of the constant words of the IPv4 header; too few to overflow.
    sum: u32,
}

/// The fields of usual outer headers that depend on the tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsualTunnel {
    /// Destination of the frame.
    pub dst_mac: MacAddr,
    /// Address of the tunnel's far end.
    pub dst: Ipv4Addr,
    /// Type of service octet.
    pub tos: u8,
    /// TEID of the far end.
    pub teid: Teid,
    /// QoS flow and reflective QoS indication of the container. One in uplink has no indication.
    pub marking: Option<(Qfi, bool)>,
}

impl UsualTunnel {
    /// Octets of all headers, Ethernet included.
    #[inline]
    #[must_use]
    pub const fn headers_len(&self) -> usize {
        if self.marking.is_some() { EXTENDED_LEN } else { G_PDU_LEN }
    }

    /// Length of the outer IP packet around one of `inner_len` octets; `None` above 65,535.
    #[inline]
    #[must_use]
    pub fn ip_len(&self, inner_len: u16) -> Option<u16> {
        let container = if self.marking.is_some() { CONTAINER_LEN } else { 0 };
        inner_len.checked_add(IP_HEADERS_LEN + container)
    }
}

impl UsualOuter {
    /// Headers from our addresses.
    #[must_use]
    pub fn new(src_mac: MacAddr, src: Ipv4Addr) -> Self {
        let ip = Ipv4Header::new(&Ipv4Fields {
            tos: 0,
            total_len: 0,
            identification: 0,
            dont_fragment: true,
            ttl: OUTER_TTL,
            protocol: UDP,
            src,
            dst: Ipv4Addr::UNSPECIFIED,
        });
        let headers = FrameExtended {
            plain: FrameGPdu {
                link: EthernetHeader::new(MacAddr::default(), src_mac, EtherType::IPV4),
                ip,
                udp: UdpHeader::new(UDP_PORT, UDP_PORT, 0, 0),
                gtpu: GtpuHeader::new(FLAG_E, GtpuMessageType::G_PDU, 0, Teid(0)),
            },
            optional: GtpuOptional::new(0, ExtensionType::PDU_SESSION_CONTAINER),
            container: Container { len: 1, pdu_type: DOWNLINK, qfi: 0, next_extension: 0 },
        };
        // The checksum is the complement of the sum.
        Self { headers: zerocopy::transmute!(headers), sum: u32::from(!ip.checksum()) }
    }

    /// Writes the headers of a packet of `inner_len` octets at the front of `out`, the same octets as
    /// [`crate::emit_gtpu_ipv4`]. `None`, and nothing written, if `out` is too short or a length field would
    /// overflow.
    #[inline(always)]
    #[must_use]
    pub fn emit(&self, tunnel: &UsualTunnel, inner_len: u16, out: &mut [u8]) -> Option<()> {
        self.emit_with(tunnel, DOWNLINK, inner_len, out)
    }

    /// The same with an uplink container for packets that leave a tunnel for another one.
    #[inline(always)]
    #[must_use]
    pub fn emit_onward(
        &self,
        tunnel: &UsualTunnel,
        direction: Direction,
        inner_len: u16,
        out: &mut [u8],
    ) -> Option<()> {
        let pdu_type = if direction == Direction::Uplink { UPLINK } else { DOWNLINK };
        self.emit_with(tunnel, pdu_type, inner_len, out)
    }

    #[inline(always)]
    fn emit_with(
        &self,
        tunnel: &UsualTunnel,
        pdu_type: u8,
        inner_len: u16,
        out: &mut [u8],
    ) -> Option<()> {
        let ip_len = tunnel.ip_len(inner_len)?;
        let Some((qfi, reflective)) = tunnel.marking else {
            let (headers, _) = self.headers.split_first_chunk::<G_PDU_LEN>()?;
            let out: &mut [u8; G_PDU_LEN] = out.first_chunk_mut()?;
            *out = *headers;
            out[at::FLAGS] = VERSION_1;
            self.write_headers(tunnel, ip_len, out);
            return Some(());
        };
        let out: &mut [u8; EXTENDED_LEN] = out.first_chunk_mut()?;
        *out = self.headers;
        if pdu_type != DOWNLINK {
            out[at::PDU_TYPE] = pdu_type;
        }
        out[at::QFI] = qfi.value() | if reflective { 0x40 } else { 0 };
        self.write_headers(tunnel, ip_len, out);
        Some(())
    }

    /// Writes the variable fields into a copy of the headers.
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
        out[at::DST_MAC..][..6].copy_from_slice(&tunnel.dst_mac.0);
        out[at::TOS] = tunnel.tos;
        out[at::TOTAL_LEN..][..2].copy_from_slice(&ip_len.to_be_bytes());
        out[at::CHECKSUM..][..2].copy_from_slice(&fold_checksum(sum).to_be_bytes());
        out[at::DST..][..4].copy_from_slice(&dst.to_be_bytes());
        out[at::UDP_LEN..][..2].copy_from_slice(&(ip_len - IPV4_LEN).to_be_bytes());
        out[at::GTPU_LEN..][..2].copy_from_slice(&(ip_len - IP_HEADERS_LEN).to_be_bytes());
        out[at::TEID..][..4].copy_from_slice(&tunnel.teid.0.to_be_bytes());
    }
}
