//! Rewrites the link header and the hop limit of forwarded packets.

use core::hint::select_unpredictable;
use core::mem::offset_of;

use adit_types::{MacAddr, VlanId};

use super::layout::{IPV4, IPV6, at};
use crate::ether_type::EtherType;
use crate::ethernet::EthernetHeader;
use crate::ipv6::Ipv6Header;
use crate::vlan::VlanTag;

/// The Ethernet header of frames to a neighbor, stored as the words that are copied into a frame.
///
/// PERF (adit-bench datapath --burst 1): if the header were written field by field, a read of a
/// whole word would have to wait until these stores reach the cache.
#[derive(Debug, Clone, Copy)]
pub struct UsualLinkHeader {
    /// The first eight octets of an untagged header, in little-endian order.
    front: u64,
    /// The last eight octets of an untagged header: source and EtherType.
    back: u64,
}

impl UsualLinkHeader {
    /// All zeros, for a neighbor that is not known yet.
    pub const NONE: Self = Self { front: 0, back: 0 };

    /// Creates the header of frames with IPv6 packets if `is_v6`, else IPv4 packets.
    ///
    /// PERF (adit-bench datapath --mixed): no branch on the family, which is unpredictable in mixed
    /// bursts.
    #[inline(always)]
    #[must_use]
    pub fn new(dst: MacAddr, src: MacAddr, is_v6: bool) -> Self {
        let ether_type = select_unpredictable(is_v6, IPV6, IPV4);
        let [dst, src] = [dst, src]
            .map(|MacAddr([a, b, c, d, e, f])| u64::from_le_bytes([a, b, c, d, e, f, 0, 0]));
        Self { front: dst | src << 48, back: src | u64::from(ether_type.swap_bytes()) << 48 }
    }

    /// Writes the header without a tag at the front of `frame`.
    #[inline(always)]
    pub fn write<const LEN: usize>(&self, frame: &mut [u8; LEN]) {
        const { assert!(LEN >= EthernetHeader::LEN) };
        frame[at::DST_MAC..][..8].copy_from_slice(&self.front.to_le_bytes());
        frame[at::SRC_MAC..][..8].copy_from_slice(&self.back.to_le_bytes());
    }

    /// Writes the addresses and a tag at the front of `frame`. The EtherType after the tag is not
    /// written: it is the one that [`UsualLinkHeader::write`] wrote into the header without a tag,
    /// [`VlanTag::LEN`] octets later. `None`, with nothing written, if `frame` is too short.
    #[inline]
    #[must_use]
    pub fn write_tag(&self, frame: &mut [u8], vlan: VlanId) -> Option<()> {
        let header: &mut [u8; at::ETHER_TYPE + VlanTag::LEN] = frame.first_chunk_mut()?;
        self.write(header);
        header[at::ETHER_TYPE..][..2].copy_from_slice(&EtherType::VLAN.0.to_be_bytes());
        header[at::ETHER_TYPE + 2..].copy_from_slice(&vlan.value().to_be_bytes());
        Some(())
    }
}

/// Decrements the TTL or hop limit of a usual packet, which is 2 or more. Changes nothing if there
/// are fewer than 20 octets.
///
/// PERF (adit-bench datapath --mixed): no branch on the family, which is unpredictable in mixed
/// bursts. Spec: RFC 1812 §5.3.1; RFC 1624 §3; RFC 8200 §3.
#[inline(always)]
pub fn decrement_usual_hops(packet: &mut [u8], is_v6: bool) {
    let Some(header) = packet.first_chunk_mut::<20>() else { return };
    let hops = &mut header[if is_v6 { offset_of!(Ipv6Header, hop_limit) } else { at::TTL }];
    *hops = hops.wrapping_sub(1);
    // Modulo 2^16 - 1 the order of octets does not matter. The first octet of a word decreases by
    // one, so the checksum increases by one; it never becomes 0xffff.
    let sum = u16::from_le_bytes([header[at::HEADER_CHECKSUM], header[at::HEADER_CHECKSUM + 1]]);
    let older = sum.wrapping_add(1).wrapping_add(u16::from(sum >= 0xfffe));
    let sum = select_unpredictable(is_v6, sum, older);
    header[at::HEADER_CHECKSUM..][..2].copy_from_slice(&sum.to_le_bytes());
}
