//! IPv6 header, and the walk along its chain of extension headers. Spec: RFC 8200.

use core::net::Ipv6Addr;

use adit_types::limits::IPV6_EXTENSIONS_MAX;
use zerocopy::byteorder::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::fragment_kind::FragmentKind;
use crate::view::{fixed_header, split};
use crate::{Malformed, protocol};

/// IPv6 header.
///
/// ```text
/// Octets   8 7 6 5 4 3 2 1
/// 1-4      Version (4 bits) | Traffic class (8) | Flow label (20)
/// 5-6      Payload length
/// 7        Next header
/// 8        Hop limit
/// 9-24     Source address
/// 25-40    Destination address
/// ```
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Ipv6Header {
    pub(crate) version_class_label: U32,
    pub(crate) payload_len: U16,
    pub(crate) next_header: u8,
    pub(crate) hop_limit: u8,
    pub(crate) src: [u8; 16],
    pub(crate) dst: [u8; 16],
}

fixed_header!(Ipv6Header, 40);

/// The fields of a new IPv6 header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv6Fields {
    /// Traffic class: DSCP and ECN.
    pub traffic_class: u8,
    /// Flow label, the low 20 bits.
    pub flow_label: u32,
    /// Length of the payload, extension headers included. Unit: octets.
    pub payload_len: u16,
    /// Protocol number or extension header that follows.
    pub next_header: u8,
    /// Hops left.
    pub hop_limit: u8,
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
}

impl Ipv6Header {
    /// Creates a header with these fields.
    #[inline]
    #[must_use]
    pub fn new(fields: &Ipv6Fields) -> Self {
        let word =
            6 << 28 | u32::from(fields.traffic_class) << 20 | (fields.flow_label & 0x000f_ffff);
        Self {
            version_class_label: U32::new(word),
            payload_len: U16::new(fields.payload_len),
            next_header: fields.next_header,
            hop_limit: fields.hop_limit,
            src: fields.src.octets(),
            dst: fields.dst.octets(),
        }
    }

    /// Returns the header at the front of `bytes`, and the payload (extension headers included) up
    /// to the payload length, without Ethernet padding.
    ///
    /// # Errors
    /// `Truncated` if there are fewer than 40 octets; `BadVersion`; `BadLength` if the payload
    /// length exceeds `bytes`. A jumbogram (RFC 2675) has payload length zero, so
    /// [`walk_extensions`] refuses it.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<(&Self, &[u8]), Malformed> {
        let (header, rest) = split::<Self>(bytes)?;
        let version = header.version_class_label.to_bytes()[0] >> 4;
        if version != 6 {
            return Err(Malformed::BadVersion(version));
        }
        let payload_len = usize::from(header.payload_len.get());
        match rest.get(..payload_len) {
            Some(payload) => Ok((header, payload)),
            None => Err(Malformed::bad_length(payload_len, rest.len())),
        }
    }

    /// Traffic class: DSCP and ECN.
    #[inline]
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "the middle eight bits are the field")]
    pub fn traffic_class(&self) -> u8 {
        (self.version_class_label.get() >> 20) as u8
    }

    /// Flow label, 20 bits.
    #[inline]
    #[must_use]
    pub fn flow_label(&self) -> u32 {
        self.version_class_label.get() & 0x000f_ffff
    }

    /// Length of the payload after this header. Unit: octets.
    #[inline]
    #[must_use]
    pub fn payload_len(&self) -> u16 {
        self.payload_len.get()
    }

    /// Protocol number or extension header that follows.
    #[inline]
    #[must_use]
    pub fn next_header(&self) -> u8 {
        self.next_header
    }

    /// Hops left.
    #[inline]
    #[must_use]
    pub fn hop_limit(&self) -> u8 {
        self.hop_limit
    }

    /// Source address.
    #[inline]
    #[must_use]
    pub fn src(&self) -> Ipv6Addr {
        Ipv6Addr::from_octets(self.src)
    }

    /// Destination address.
    #[inline]
    #[must_use]
    pub fn dst(&self) -> Ipv6Addr {
        Ipv6Addr::from_octets(self.dst)
    }
}

/// Decrements the hop limit of the packet at the front of `packet`. Returns the new hop limit.
///
/// Returns `None` and changes nothing if the hop limit is 0 or 1, so that the packet must not be
/// forwarded, or if there are fewer than 40 octets. Spec: RFC 8200 §3.
#[inline]
#[must_use]
pub fn decrement_hop_limit(packet: &mut [u8]) -> Option<u8> {
    let (header, _) = Ipv6Header::mut_from_prefix(packet).ok()?;
    if header.hop_limit <= 1 {
        return None;
    }
    header.hop_limit -= 1;
    Some(header.hop_limit)
}

/// The end of a chain of extension headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpperLayer {
    /// The first header that is no extension header. AH and ESP count as upper layers: their
    /// payload is authenticated or encrypted, and filters select them by SPI.
    pub protocol: u8,
    /// Length of the extension headers before it. Unit: octets.
    pub offset: usize,
    /// The part of a datagram that the packet is, by its fragment header.
    pub fragment: FragmentKind,
}

/// Walks along the extension headers in `payload`; `next_header` is the type of the first header.
/// Ends at the first upper layer, or after the fragment header of a later fragment, because the
/// payload of this fragment begins with no header.
///
/// # Errors
/// `BadExtension` if a header is longer than `payload`; `TooManyExtensions` if there are more than
/// `IPV6_EXTENSIONS_MAX` headers. Spec: RFC 8200 §4; RFC 6564.
pub fn walk_extensions(next_header: u8, payload: &[u8]) -> Result<UpperLayer, Malformed> {
    let mut upper = UpperLayer { protocol: next_header, offset: 0, fragment: FragmentKind::None };
    let mut walked = 0;
    while is_extension(upper.protocol) {
        if walked == IPV6_EXTENSIONS_MAX {
            return Err(Malformed::TooManyExtensions);
        }
        walked += 1;
        let kind = upper.protocol;
        let rest = payload.get(upper.offset..).unwrap_or_default();
        let &[next, len, high, low, ..] = rest else { return Err(Malformed::BadExtension(kind)) };
        let header_len =
            if kind == protocol::IPV6_FRAGMENT { 8 } else { (usize::from(len) + 1) * 8 };
        if header_len > rest.len() {
            return Err(Malformed::BadExtension(kind));
        }
        upper.protocol = next;
        upper.offset += header_len;
        if kind == protocol::IPV6_FRAGMENT {
            upper.fragment = fragment(u16::from_be_bytes([high, low]));
            if upper.fragment == FragmentKind::Later {
                break;
            }
        }
    }
    Ok(upper)
}

/// True for extension headers with the layout of RFC 6564, and for the fragment header.
#[inline]
#[must_use]
pub const fn is_extension(next_header: u8) -> bool {
    matches!(
        next_header,
        protocol::HOP_BY_HOP
            | protocol::IPV6_ROUTE
            | protocol::IPV6_FRAGMENT
            | protocol::IPV6_DST_OPTIONS
            | protocol::MOBILITY
            | protocol::HIP
            | protocol::SHIM6
    )
}

/// Returns the kind of a fragment by offset (13 bits), two reserved bits and the M flag. A packet
/// that is its only fragment (RFC 6946) counts as not fragmented.
fn fragment(offset_flags: u16) -> FragmentKind {
    match (offset_flags >> 3, offset_flags & 1) {
        (0, 0) => FragmentKind::None,
        (0, _) => FragmentKind::First,
        _ => FragmentKind::Later,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields() -> Ipv6Fields {
        Ipv6Fields {
            traffic_class: 0xb8,
            flow_label: 0x12345,
            payload_len: 3,
            next_header: 17,
            hop_limit: 64,
            src: "2001:db8::1".parse().unwrap(),
            dst: "2001:db8::2".parse().unwrap(),
        }
    }

    #[test]
    fn ipv6_header_known_octets_parse_and_emit() {
        let mut out = [0xa5; 44];
        Ipv6Header::new(&fields()).emit(&mut out).unwrap();
        assert_eq!(out[..10], [0x6b, 0x81, 0x23, 0x45, 0, 3, 17, 64, 0x20, 0x01]);
        assert_eq!((out[23], out[39], out[40]), (1, 2, 0xa5));
        let (header, payload) = Ipv6Header::parse(&out).unwrap();
        assert_eq!((*header, payload.len()), (Ipv6Header::new(&fields()), 3));
        assert_eq!((header.traffic_class(), header.flow_label()), (0xb8, 0x12345));
        assert_eq!((header.src(), header.dst()), (fields().src, fields().dst));
        for len in 0..43 {
            assert!(Ipv6Header::parse(&out[..len]).is_err());
        }
        out[0] = 0x4b;
        assert_eq!(Ipv6Header::parse(&out), Err(Malformed::BadVersion(4)));
    }

    #[test]
    fn hop_limit_decrement_stops_at_one() {
        let mut packet = [0; 40];
        for hop_limit in 0..=255u8 {
            Ipv6Header::new(&Ipv6Fields { hop_limit, ..fields() }).emit(&mut packet).unwrap();
            let left = decrement_hop_limit(&mut packet);
            assert_eq!(left, (hop_limit > 1).then(|| hop_limit - 1));
            assert_eq!(packet[7], left.unwrap_or(hop_limit));
        }
        assert_eq!(decrement_hop_limit(&mut [0x60; 39]), None);
    }

    #[test]
    fn extension_walk_passes_options_and_first_fragment() {
        let mut payload = [0u8; 40];
        (payload[0], payload[1]) = (protocol::IPV6_ROUTE, 0);
        (payload[8], payload[9]) = (protocol::IPV6_FRAGMENT, 1);
        (payload[24], payload[27]) = (protocol::UDP, 1);
        let upper = walk_extensions(protocol::HOP_BY_HOP, &payload);
        let expected =
            UpperLayer { protocol: protocol::UDP, offset: 32, fragment: FragmentKind::First };
        assert_eq!(upper, Ok(expected));
        (payload[24], payload[27]) = (protocol::IPV6_DST_OPTIONS, 8);
        let later = walk_extensions(protocol::HOP_BY_HOP, &payload).unwrap();
        assert_eq!((later.protocol, later.offset), (protocol::IPV6_DST_OPTIONS, 32));
        assert_eq!(later.fragment, FragmentKind::Later);
        for len in 0..32 {
            assert!(walk_extensions(protocol::HOP_BY_HOP, &payload[..len]).is_err());
        }
    }

    #[test]
    fn extension_walk_is_bounded() {
        let chain = [0u8; 8 * (IPV6_EXTENSIONS_MAX + 1)];
        assert_eq!(walk_extensions(0, &chain), Err(Malformed::TooManyExtensions));
        let mut chain = [0u8; 8 * IPV6_EXTENSIONS_MAX];
        chain[8 * (IPV6_EXTENSIONS_MAX - 1)] = protocol::TCP;
        let upper = walk_extensions(0, &chain).unwrap();
        assert_eq!((upper.protocol, upper.offset), (protocol::TCP, chain.len()));
        assert_eq!(walk_extensions(protocol::ESP, &[]).unwrap().protocol, protocol::ESP);
    }
}
