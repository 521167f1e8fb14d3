//! Fragments: splits IPv4 packets, reads the position of a fragment of either family, and restores
//! the header of a reassembled datagram.
//!
//! Spec: RFC 791 §3.1, §3.2; RFC 8200 §4.5; RFC 6864.

use crate::ipv4::Ipv4Header;
use crate::ipv6::{Ipv6Header, is_extension};
use crate::{checksum, protocol};
use adit_types::limits::IPV6_EXTENSIONS_MAX;

/// Length of the longest IPv4 header. Unit: octets.
const IPV4_HEADER_LEN_MAX: usize = 60;

/// Length of an IPv6 fragment header. Unit: octets.
const FRAGMENT_HEADER_LEN: usize = 8;

/// The flags "don't fragment" and "more fragments" of an IPv4 header, and the mask of its offset.
const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;

/// The division of an IPv4 packet into fragments that fit an MTU. Lengths are in octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv4Split {
    header: [u8; IPV4_HEADER_LEN_MAX],
    header_len: usize,
    /// The header of all fragments except the first, with only the options that are copied.
    later_header: [u8; IPV4_HEADER_LEN_MAX],
    later_header_len: usize,
    /// Lengths of payload: of the packet, of the first fragment, of each fragment between the first
    /// and the last one, and the most that the last one may have.
    payload_len: usize,
    first_len: usize,
    each_len: usize,
    last_len_max: usize,
    /// Offset and "more fragments" flag of the packet, if the packet is a fragment itself.
    offset: u16,
    is_more: bool,
}

impl Ipv4Split {
    /// Divides the packet at the front of `packet`. `None` if it fits the MTU, must not be
    /// fragmented or is malformed, or if the MTU has no room for 8 octets of payload.
    #[must_use]
    pub fn new(packet: &[u8], mtu_bytes: u16) -> Option<Self> {
        let (parsed, payload) = Ipv4Header::parse(packet).ok()?;
        if parsed.dont_fragment() || parsed.total_len() <= mtu_bytes {
            return None;
        }
        let header_len = parsed.header_len();
        let mut header = [0; IPV4_HEADER_LEN_MAX];
        header.get_mut(..header_len)?.copy_from_slice(packet.get(..header_len)?);
        let (later_header, later_header_len) = later_header(&header, header_len)?;
        // A datagram cannot reach beyond the greatest total length.
        let end = usize::from(parsed.fragment_offset()) * 8 + payload.len();
        if end > usize::from(u16::MAX) {
            return None;
        }
        let mtu = usize::from(mtu_bytes);
        let first_len = mtu.checked_sub(header_len)? & !7;
        let last_len_max = mtu.checked_sub(later_header_len)?;
        (first_len > 0).then_some(Self {
            header,
            header_len,
            later_header,
            later_header_len,
            payload_len: payload.len(),
            first_len,
            each_len: last_len_max & !7,
            last_len_max,
            offset: parsed.fragment_offset(),
            is_more: parsed.more_fragments(),
        })
    }

    /// Returns the number of fragments, two or more.
    #[must_use]
    pub const fn count(&self) -> usize {
        let behind_first = self.payload_len - self.first_len;
        2 + behind_first.saturating_sub(self.last_len_max).div_ceil(self.each_len)
    }

    /// Returns where the payload of fragment `n` begins and ends in the packet's payload.
    const fn fragment_range(&self, n: usize) -> (usize, usize) {
        if n == 0 {
            return (0, self.first_len);
        }
        let start = self.first_len + (n - 1) * self.each_len;
        (start, if n + 1 < self.count() { start + self.each_len } else { self.payload_len })
    }

    /// Returns the length of fragment `n`, from zero and below [`Ipv4Split::count`].
    #[must_use]
    pub const fn len(&self, n: usize) -> usize {
        let (start, end) = self.fragment_range(n);
        end - start + if n == 0 { self.header_len } else { self.later_header_len }
    }

    /// Writes fragment `n` to the front of `out`, which has room for [`Ipv4Split::len`] octets.
    /// `packet` is the packet that [`Ipv4Split::new`] divided. `None` if the arguments do not fit.
    pub fn emit(&self, packet: &[u8], n: usize, out: &mut [u8]) -> Option<()> {
        let (start, end) = self.fragment_range(n);
        let header_len = if n == 0 { self.header_len } else { self.later_header_len };
        let payload = packet.get(self.header_len + start..self.header_len + end)?;
        out.get_mut(header_len..header_len + payload.len())?.copy_from_slice(payload);
        self.emit_header(n, out)
    }

    /// Writes the header of fragment `n` to the front of `out`. If `out` is the packet itself, the
    /// payload of the first fragment is in place already. `None` if `out` is too short.
    pub fn emit_header(&self, n: usize, out: &mut [u8]) -> Option<()> {
        let (start, end) = self.fragment_range(n);
        let (header, header_len) = match n {
            0 => (&self.header, self.header_len),
            _ => (&self.later_header, self.later_header_len),
        };
        let header = header.get(..header_len)?;
        let total_len = u16::try_from(header_len + end - start).ok()?;
        let offset = self.offset + u16::try_from(start / 8).ok()?;
        let is_more = self.is_more || end < self.payload_len;
        let flags_offset = if is_more { offset | MORE_FRAGMENTS } else { offset };
        let out = out.get_mut(..header_len)?;
        out.copy_from_slice(header);
        finish_ipv4(out, total_len, flags_offset)
    }
}

/// Writes length, flags with offset, and checksum into a header.
fn finish_ipv4(header: &mut [u8], total_len: u16, flags_offset: u16) -> Option<()> {
    header.get_mut(2..4)?.copy_from_slice(&total_len.to_be_bytes());
    header.get_mut(6..8)?.copy_from_slice(&flags_offset.to_be_bytes());
    header.get_mut(10..12)?.fill(0);
    let sum = checksum::checksum(header);
    header.get_mut(10..12)?.copy_from_slice(&sum.to_be_bytes());
    Some(())
}

/// Returns the header of later fragments with its length. Spec: RFC 791 §3.1 (copied flag).
fn later_header(
    header: &[u8; IPV4_HEADER_LEN_MAX],
    header_len: usize,
) -> Option<([u8; IPV4_HEADER_LEN_MAX], usize)> {
    const COPIED: u8 = 0x80;
    let mut later = [0; IPV4_HEADER_LEN_MAX];
    later[..Ipv4Header::LEN].copy_from_slice(&header[..Ipv4Header::LEN]);
    let mut len = Ipv4Header::LEN;
    let mut options = header.get(Ipv4Header::LEN..header_len)?;
    while let &[kind, ref rest @ ..] = options {
        let option_len = match (kind, rest.first()) {
            (0, _) => break,
            (1, _) => 1,
            (_, Some(len @ 2..)) => usize::from(*len),
            _ => break,
        };
        let Some((option, behind)) = options.split_at_checked(option_len) else { break };
        if kind & COPIED != 0 {
            later.get_mut(len..len + option_len)?.copy_from_slice(option);
            len += option_len;
        }
        options = behind;
    }
    let len = len.next_multiple_of(4);
    later[0] = 0x40 | u8::try_from(len / 4).ok()?;
    Some((later, len))
}

/// The position of a fragment in its datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FragmentPosition {
    /// Identification, equal in all fragments of a datagram; 16 bits in IPv4.
    pub identification: u32,
    /// The protocol, by which IPv4 datagrams with the same identification differ; zero in IPv6.
    pub protocol: u8,
    /// Offset of the fragment's data in the datagram. Unit: octets, a multiple of 8.
    pub offset: u16,
    /// True if more fragments follow.
    pub is_more: bool,
    /// Offset of the fragment's data in the packet. Unit: octets.
    pub data_offset: u16,
    /// Length of the fragment's data. Unit: octets.
    pub data_len: u16,
}

impl FragmentPosition {
    /// Reads the position of the fragment at the front of `packet`. `None` for packets that are no
    /// fragments or malformed.
    #[must_use]
    pub fn read(packet: &[u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 => Self::read_ipv4(packet),
            6 => Self::read_ipv6(packet),
            _ => None,
        }
    }

    fn read_ipv4(packet: &[u8]) -> Option<Self> {
        let (header, payload) = Ipv4Header::parse(packet).ok()?;
        let (offset, is_more) = (header.fragment_offset(), header.more_fragments());
        (offset != 0 || is_more).then_some(Self {
            identification: header.identification().into(),
            protocol: header.protocol(),
            offset: offset * 8,
            is_more,
            data_offset: u16::try_from(header.header_len()).ok()?,
            data_len: u16::try_from(payload.len()).ok()?,
        })
    }

    fn read_ipv6(packet: &[u8]) -> Option<Self> {
        let (_, at) = fragment_header(packet)?;
        let (_, payload) = Ipv6Header::parse(packet).ok()?;
        let header: &[u8; FRAGMENT_HEADER_LEN] = packet.get(at..)?.first_chunk()?;
        let [_, _, high, low, identification @ ..] = *header;
        let offset_flags = u16::from_be_bytes([high, low]);
        let data_offset = at + FRAGMENT_HEADER_LEN;
        let end = Ipv6Header::LEN + payload.len();
        // The lower three bits are two reserved bits and the M flag.
        (offset_flags & !6 != 0).then_some(Self {
            identification: u32::from_be_bytes(identification),
            protocol: 0,
            offset: offset_flags & !7,
            is_more: offset_flags & 1 != 0,
            data_offset: u16::try_from(data_offset).ok()?,
            data_len: u16::try_from(end.checked_sub(data_offset)?).ok()?,
        })
    }
}

/// Returns the offset of the octet that announces the fragment header of an IPv6 packet, and the
/// offset of this header; `None` if there is none.
fn fragment_header(packet: &[u8]) -> Option<(usize, usize)> {
    let (mut announced_at, mut at) = (6, Ipv6Header::LEN);
    for _ in 0..IPV6_EXTENSIONS_MAX {
        let kind = *packet.get(announced_at)?;
        if kind == protocol::IPV6_FRAGMENT {
            return Some((announced_at, at));
        }
        if !is_extension(kind) {
            return None;
        }
        announced_at = at;
        at += (usize::from(*packet.get(at + 1)?) + 1) * 8;
    }
    None
}

/// Turns the header of the first fragment, at `ip_offset` of `frame`, into the header of the whole
/// datagram, which has `data_len` octets of data. Returns the number of octets to cut off the front
/// of the frame. `None` if the packet is malformed or the datagram would be too long.
///
/// Removes the fragment header of IPv6. Spec: RFC 791 §3.2; RFC 8200 §4.5.
#[must_use]
pub fn restore_header(frame: &mut [u8], ip_offset: usize, data_len: usize) -> Option<usize> {
    let packet = frame.get_mut(ip_offset..)?;
    if packet.first()? >> 4 == 4 {
        let header_len = usize::from(packet.first()? & 15) * 4;
        let total_len = u16::try_from(header_len + data_len).ok()?;
        let flags =
            u16::from_be_bytes(*packet.get(6..)?.first_chunk()?) & !(MORE_FRAGMENTS | OFFSET);
        finish_ipv4(packet.get_mut(..header_len)?, total_len, flags & DONT_FRAGMENT)?;
        return Some(0);
    }
    let (announced_at, at) = fragment_header(packet)?;
    let payload_len = u16::try_from(at - Ipv6Header::LEN + data_len).ok()?;
    let next_header = *packet.get(at)?;
    *packet.get_mut(announced_at)? = next_header;
    packet.get_mut(4..6)?.copy_from_slice(&payload_len.to_be_bytes());
    if frame.len() < ip_offset + at + FRAGMENT_HEADER_LEN {
        return None;
    }
    frame.copy_within(..ip_offset + at, FRAGMENT_HEADER_LEN);
    Some(FRAGMENT_HEADER_LEN)
}
