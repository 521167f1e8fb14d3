//! One VLAN tag, after the MAC addresses. Spec: IEEE 802.1Q §9.6.

use adit_types::VlanId;
use zerocopy::byteorder::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Malformed;
use crate::ether_type::EtherType;
use crate::view::{fixed_header, split};

/// The octets after EtherType 0x8100: tag control information and the EtherType of the payload.
///
/// ```text
/// Octets   8 7 6 5 4 3 2 1
/// 1        PCP   |D| VID (high)
/// 2        VID (low)
/// 3-4      EtherType
/// ```
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct VlanTag {
    tag_control: U16,
    ether_type: U16,
}

fixed_header!(VlanTag, 4);

impl VlanTag {
    /// Creates a tag with a VLAN, a priority (the low three bits of `priority`) and the type of the
    /// payload.
    #[inline]
    #[must_use]
    pub fn new(vlan: VlanId, priority: u8, ether_type: EtherType) -> Self {
        let tag_control = u16::from(priority & 7) << 13 | vlan.value();
        Self { tag_control: U16::new(tag_control), ether_type: U16::new(ether_type.0) }
    }

    /// Returns the tag at the front of `bytes`, and the rest.
    ///
    /// # Errors
    /// `Truncated` if there are fewer than 4 octets.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<(&Self, &[u8]), Malformed> {
        split(bytes)
    }

    /// VLAN identifier; `VlanId::UNTAGGED` for a priority tag.
    #[inline]
    #[must_use]
    pub fn vlan(&self) -> VlanId {
        VlanId::from_tag_control(self.tag_control.get())
    }

    /// Priority code point, 0..=7.
    #[inline]
    #[must_use]
    pub fn priority(&self) -> u8 {
        self.tag_control.to_bytes()[0] >> 5
    }

    /// Type of the payload.
    #[inline]
    #[must_use]
    pub fn ether_type(&self) -> EtherType {
        EtherType(self.ether_type.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vlan_tag_known_octets_parse_and_emit() {
        let wire = [0xa1, 0x23, 0x08, 0x06];
        let tag = VlanTag::new(VlanId::new(0x123).unwrap(), 5, EtherType::ARP);
        let mut out = [0xa5; 4];
        tag.emit(&mut out).unwrap();
        assert_eq!(out, wire);
        let (parsed, _) = VlanTag::parse(&wire).unwrap();
        assert_eq!((parsed.vlan().value(), parsed.priority()), (0x123, 5));
        assert_eq!(parsed.ether_type(), EtherType::ARP);
    }

    #[test]
    fn vlan_tag_every_prefix_is_truncated() {
        for len in 0..4 {
            assert_eq!(VlanTag::parse(&[0; 4][..len]), Err(Malformed::truncated(4, len)));
        }
    }
}
