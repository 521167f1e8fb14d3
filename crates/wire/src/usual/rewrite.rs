//! Link header and hop limit of packets that are forwarded.

use core::hint::select_unpredictable;
use core::mem::offset_of;

use adit_types::{MacAddr, VlanId};

use super::layout::{IPV4, IPV6, at};
use crate::ether_type::EtherType;
use crate::ethernet::EthernetHeader;
use crate::ipv6::Ipv6Header;
use crate::vlan::VlanTag;

/// The Ethernet header of frames to a neighbor.
///
/// PERF (adit-bench datapath --burst 1): the words that are copied into a frame. A header written
/// field by field could not be read by words before these stores reached the cache.
#[derive(Debug, Clone, Copy)]
pub struct UsualLinkHeader {
    /// The first eight octets without a tag, the first one lowest.
    front: u64,
    /// The last eight octets without a tag: source and EtherType.
    back: u64,
}

impl UsualLinkHeader {
    /// Zeros, until a neighbor is known.
    pub const NONE: Self = Self { front: 0, back: 0 };

    /// The header of IPv4 or IPv6 packets.
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

    /// Writes the addresses and a tag at the front of `frame`. The EtherType of the packet, which
    /// follows them, is that of the header without a tag, which begins behind the room for a tag.
    /// `None`, and nothing written, if `frame` is shorter than that.
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

/// Decrements the TTL or hop limit of a usual packet, which is 2 or more. No change below 20
/// octets.
///
/// PERF (adit-bench datapath --mixed): no branch on the family, which is unpredictable in mixed
/// bursts. Spec: RFC 1812 §5.3.1; RFC 1624 §3; RFC 8200 §3.
#[inline(always)]
pub fn decrement_usual_hops(packet: &mut [u8], is_v6: bool) {
    let Some(header) = packet.first_chunk_mut::<20>() else { return };
    let hops = &mut header[if is_v6 { offset_of!(Ipv6Header, hop_limit) } else { at::TTL }];
    *hops = hops.wrapping_sub(1);
    // Modulo 2^16 - 1 the order of octets does not matter. The first octet of a word decreases by
    // one, so the checksum increases by the same, and never becomes 0xffff.
    let sum = u16::from_le_bytes([header[at::HEADER_CHECKSUM], header[at::HEADER_CHECKSUM + 1]]);
    let older = sum.wrapping_add(1).wrapping_add(u16::from(sum >= 0xfffe));
    let sum = select_unpredictable(is_v6, sum, older);
    header[at::HEADER_CHECKSUM..][..2].copy_from_slice(&sum.to_le_bytes());
}
