//! Link header and hop limit of packets that are forwarded.

use core::hint::select_unpredictable;
use core::mem::offset_of;

use adit_types::{MacAddr, VlanId};

use super::layout::{IPV4, IPV6, at};
use crate::ether_type::EtherType;
use crate::ethernet::EthernetHeader;
use crate::ipv6::Ipv6Header;
use crate::vlan::VlanTag;

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

/// Moves the addresses of an untagged header, which begins behind the room for a tag, to the front of `frame`, and
/// writes the tag between them and the EtherType. `None`, and nothing written, if `frame` is shorter than that.
#[inline]
#[must_use]
pub fn emit_link_tag(frame: &mut [u8], vlan: VlanId) -> Option<()> {
    const ADDRESSES_LEN: usize = at::ETHER_TYPE;
    let header: &mut [u8; ADDRESSES_LEN + VlanTag::LEN] = frame.first_chunk_mut()?;
    header.copy_within(VlanTag::LEN.., 0);
    header[at::ETHER_TYPE..][..2].copy_from_slice(&EtherType::VLAN.0.to_be_bytes());
    header[at::ETHER_TYPE + 2..].copy_from_slice(&vlan.value().to_be_bytes());
    Some(())
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
