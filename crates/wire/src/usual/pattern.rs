//! Patterns of a link: all constant fields of usual frames are compared at once.

use core::net::Ipv4Addr;

use adit_types::{MacAddr, VlanId};

use super::layout::{
    ETHERNET_LEN, FRAGMENT, G_PDU_TYPE, IPV4, IPV6, NUMBER_FLAGS, UDP, VERSION_IHL, at,
};
use crate::ether_type::EtherType;
use crate::ethernet::link_len;
use crate::gtpu::{FLAG_E, UDP_PORT, VERSION_1};
use crate::gtpu_ext::ExtensionType;
use crate::vlan::VlanTag;

/// The constant bits at the front of a usual frame: their values, and the mask that selects them.
#[derive(Debug, Clone, Copy)]
pub(super) struct OctetPattern<const WORDS: usize> {
    value: [u64; WORDS],
    mask: [u64; WORDS],
}

impl<const WORDS: usize> OctetPattern<WORDS> {
    /// Creates a pattern of parts: the offset of each, and value and mask of each of its octets.
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

    /// True if the first `COMPARED` words of `frame` fit the pattern.
    ///
    /// PERF (wire/usual): no branch between the words, so that they are compared as vectors.
    #[inline]
    pub(super) fn fits<const COMPARED: usize>(&self, frame: &[u8]) -> bool {
        let (words, _) = frame.as_chunks::<8>();
        let Some(words) = words.first_chunk::<COMPARED>() else { return false };
        let mut different = 0;
        for ((word, value), mask) in words.iter().zip(&self.value).zip(&self.mask) {
            different |= u64::from_ne_bytes(*word) & mask ^ value;
        }
        different == 0
    }
}

/// Mask of octets that have to match entirely.
const ALL_BITS: [u8; 6] = [0xff; 6];

/// A constant part of a frame: its offset in a frame without a tag, the value of its octets, and
/// the mask of the bits that have to match.
pub(super) type Part = (usize, Vec<u8>, Vec<u8>);

/// Returns a part that has to match entirely.
pub(super) fn exact(at: usize, value: &[u8]) -> Part {
    (at, value.to_vec(), vec![0xff; value.len()])
}

/// Returns the pattern of frames to `mac` in `vlan`, with `parts` after the MAC addresses.
pub(super) fn pattern<const WORDS: usize>(
    mac: MacAddr,
    vlan: VlanId,
    parts: &[Part],
) -> OctetPattern<WORDS> {
    let tag_len = link_len(vlan) - ETHERNET_LEN;
    let shifted = parts.iter().map(|(at, value, mask)| (at + tag_len, &value[..], &mask[..]));
    let mut all: Vec<_> = shifted.collect();
    let [tag, vlan] = [EtherType::VLAN.0, vlan.value()].map(u16::to_be_bytes);
    if tag_len != 0 {
        all.push((at::ETHER_TYPE, &tag, &ALL_BITS));
        all.push((at::ETHER_TYPE + 2, &vlan, &VID_MASK));
    }
    all.push((at::DST_MAC, &mac.0, &ALL_BITS));
    OctetPattern::new(&all)
}

/// Mask of the VLAN identifier in a tag. Priority and drop eligibility are ignored.
const VID_MASK: [u8; 2] = [0x0f, 0xff];

/// Returns the VLAN of a frame; `UNTAGGED` if the frame is too short for a tag.
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

/// Returns the length of the tag that [`vlan_of`] reads: 0 or [`VlanTag::LEN`]. A priority tag
/// counts, although its frame is untagged.
#[inline]
#[must_use]
pub fn tag_len(frame: &[u8]) -> usize {
    match frame.get(at::ETHER_TYPE..at::ETHER_TYPE + VlanTag::LEN) {
        Some(&[a, b, ..]) if u16::from_be_bytes([a, b]) == EtherType::VLAN.0 => VlanTag::LEN,
        _ => 0,
    }
}

/// The ECN bit that is set in CE and ECT(1), which usual packets do not have: these marks have to
/// be copied into the inner packet, or the packet is dropped. Spec: RFC 6040 §4.2.
pub(super) const ECN_MARK_BIT: u8 = 0x01;

/// The constant fields of usual G-PDUs on a link.
#[derive(Debug, Clone, Copy)]
pub struct GPduPattern {
    /// The pattern without an extension header.
    pub(super) plain: OctetPattern<8>,
    /// The pattern with a PDU Session Container.
    pub(super) extended: OctetPattern<8>,
}

impl GPduPattern {
    /// Returns the pattern of frames to `mac` in `vlan` that carry G-PDUs to `addr`.
    #[must_use]
    pub fn new(mac: MacAddr, vlan: VlanId, addr: Ipv4Addr) -> Self {
        let outer = |flags: u8| {
            vec![
                exact(at::ETHER_TYPE, &IPV4.to_be_bytes()),
                (at::IP, vec![VERSION_IHL, 0], vec![0xff, ECN_MARK_BIT]),
                (at::FLAGS_OFFSET, vec![0, 0], FRAGMENT.to_be_bytes().into()),
                exact(at::PROTOCOL, &[UDP]),
                exact(at::DST, &addr.octets()),
                exact(at::DST_PORT, &UDP_PORT.to_be_bytes()),
                (at::FLAGS, vec![VERSION_1 | flags, G_PDU_TYPE], vec![!NUMBER_FLAGS, 0xff]),
            ]
        };
        let extended = [outer(FLAG_E), Self::container(0)].concat();
        Self { plain: pattern(mac, vlan, &outer(0)), extended: pattern(mac, vlan, &extended) }
    }

    /// Returns the parts of one container of four octets, the only extension header, `shift` octets
    /// after its offset over IPv4. Its PDU type is 0 or 1, and it has no PPI, which would not fit.
    pub(super) fn container(shift: usize) -> Vec<Part> {
        vec![
            exact(at::NEXT_EXTENSION + shift, &[ExtensionType::PDU_SESSION_CONTAINER.0, 1]),
            (at::PDU_TYPE + shift, vec![0], vec![0xe0]),
            (at::QFI + shift, vec![0], vec![0x80]),
            exact(at::LAST_EXTENSION + shift, &[0]),
        ]
    }
}

/// The constant fields of usual IP packets on a link.
#[derive(Debug, Clone, Copy)]
pub struct IpPattern {
    pub(super) v4: OctetPattern<IP_WORDS>,
    pub(super) v6: OctetPattern<IP_WORDS>,
}

/// Number of words of a tagged frame up to the first octet of IP; an untagged frame has one less.
pub(super) const IP_WORDS: usize = 3;

impl IpPattern {
    /// Returns the patterns of frames to `mac` in `vlan`.
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
