//! Ethernet II framing; `vlan` has the tag. Spec: IEEE 802.3 §3.2.

use adit_types::MacAddr;
use zerocopy::byteorder::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Malformed;
use crate::ether_type::EtherType;
use crate::view::{fixed_header, split};

/// MAC header.
///
/// ```text
/// Octets   8 7 6 5 4 3 2 1
/// 1-6      Destination address
/// 7-12     Source address
/// 13-14    EtherType
/// ```
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct EthernetHeader {
    pub(crate) dst: [u8; 6],
    pub(crate) src: [u8; 6],
    pub(crate) ether_type: U16,
}

fixed_header!(EthernetHeader, 14);

impl EthernetHeader {
    /// Creates a header with these fields.
    #[inline]
    #[must_use]
    pub fn new(dst: MacAddr, src: MacAddr, ether_type: EtherType) -> Self {
        Self { dst: dst.0, src: src.0, ether_type: U16::new(ether_type.0) }
    }

    /// Returns the header at the front of a frame, and the rest.
    ///
    /// # Errors
    /// `Truncated` if there are fewer than 14 octets.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<(&Self, &[u8]), Malformed> {
        split(bytes)
    }

    /// Destination address.
    #[inline]
    #[must_use]
    pub fn dst(&self) -> MacAddr {
        MacAddr(self.dst)
    }

    /// Source address.
    #[inline]
    #[must_use]
    pub fn src(&self) -> MacAddr {
        MacAddr(self.src)
    }

    /// Type of the payload.
    #[inline]
    #[must_use]
    pub fn ether_type(&self) -> EtherType {
        EtherType(self.ether_type.get())
    }
}

/// Writes the MAC header, with a tag unless `vlan` is untagged, at the front of `out`. Returns the
/// number of octets written: 14 or 18.
///
/// # Errors
/// `Truncated` if `out` is too short.
#[inline]
pub fn emit_link(
    out: &mut [u8],
    dst: MacAddr,
    src: MacAddr,
    vlan: adit_types::VlanId,
    ether_type: EtherType,
) -> Result<usize, Malformed> {
    if vlan == adit_types::VlanId::UNTAGGED {
        EthernetHeader::new(dst, src, ether_type).emit(out)?;
        return Ok(EthernetHeader::LEN);
    }
    let tagged = TaggedHeader {
        mac: EthernetHeader::new(dst, src, EtherType::VLAN),
        tag: crate::vlan::VlanTag::new(vlan, 0, ether_type),
    };
    tagged.emit(out)?;
    Ok(TaggedHeader::LEN)
}

/// Returns how many octets [`emit_link`] writes.
#[inline]
#[must_use]
pub const fn link_len(vlan: adit_types::VlanId) -> usize {
    if vlan.value() == 0 { EthernetHeader::LEN } else { TaggedHeader::LEN }
}

#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct TaggedHeader {
    mac: EthernetHeader,
    tag: crate::vlan::VlanTag,
}

fixed_header!(TaggedHeader, 18);

#[cfg(test)]
mod tests {
    use super::*;
    use adit_types::VlanId;

    const WIRE: [u8; 14] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x86, 0xdd];

    fn header() -> EthernetHeader {
        let (dst, src) = (MacAddr([1, 2, 3, 4, 5, 6]), MacAddr([7, 8, 9, 10, 11, 12]));
        EthernetHeader::new(dst, src, EtherType::IPV6)
    }

    #[test]
    fn ethernet_header_known_octets_parse_and_emit() {
        let (parsed, rest) = EthernetHeader::parse(&WIRE).unwrap();
        assert_eq!((*parsed, rest.len()), (header(), 0));
        assert_eq!(parsed.dst(), MacAddr([1, 2, 3, 4, 5, 6]));
        assert_eq!(parsed.src(), MacAddr([7, 8, 9, 10, 11, 12]));
        assert_eq!(parsed.ether_type(), EtherType::IPV6);
        let mut out = [0xa5; 14];
        header().emit(&mut out).unwrap();
        assert_eq!(out, WIRE);
    }

    #[test]
    fn ethernet_header_every_prefix_is_truncated() {
        for len in 0..WIRE.len() {
            let refused = EthernetHeader::parse(&WIRE[..len]);
            assert_eq!(refused, Err(Malformed::truncated(14, len)));
            assert!(header().emit(&mut [0xa5; 14][..len]).is_err());
        }
    }

    #[test]
    fn link_with_vlan_carries_the_tag() {
        let (dst, src) = (MacAddr([1, 2, 3, 4, 5, 6]), MacAddr([7, 8, 9, 10, 11, 12]));
        let mut out = [0xa5; 18];
        let vlan = VlanId::new(100).unwrap();
        assert_eq!(emit_link(&mut out, dst, src, vlan, EtherType::IPV4), Ok(link_len(vlan)));
        assert_eq!(out[12..], [0x81, 0, 0, 100, 8, 0]);
        assert_eq!(link_len(VlanId::UNTAGGED), 14);
    }
}
