//! Joins packets of one flow, so that a TUN device accepts them as one large packet.
//!
//! This is the inverse of [`crate::segment`]: segmenting a joined packet gives the octets of the
//! original packets, except that IPv4 identifications of packets with DF become consecutive, which
//! RFC 6864 §4.1 allows. Only packets with correct checksums are joined, because the kernel
//! computes the checksum of a large packet anew. The order of packets within a flow stays.

use adit_pktio::{Burst, PacketBuf};
use adit_types::limits::BURST_MAX;
use adit_wire::checksum;
use adit_wire::protocol;
use arrayvec::ArrayVec;

use crate::segment::{pseudo_header, put, word};
use crate::vnet::{GSO_TCPV4, GSO_TCPV6, GSO_UDP_L4, NEEDS_CSUM, VnetHeader};

const ACK: u8 = 0x10;
const PSH: u8 = 0x08;
const DONT_FRAGMENT: u8 = 0x40;

/// Maximum length of a joined packet, with headers: a 16-bit length field holds no more. Unit:
/// octets.
const JOINED_MAX: usize = 65_535;

/// The kinds of joined packets that the kernel accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JoinOffer {
    /// TCP over IPv4 and over IPv6.
    pub tcp: bool,
    /// UDP datagrams of one size.
    pub udp: bool,
}

/// The fields of a packet that joining needs. Offsets count from the IP header.
#[derive(Debug, Clone, Copy)]
struct JoinablePacket {
    /// Hash of the flow. Different keys mean different flows; equal keys may not mean equal flows.
    key: u64,
    upper_at: usize,
    /// Length of all headers, or of the whole packet if it cannot join. Unit: octets.
    headers: usize,
    is_udp: bool,
    can_join: bool,
    is_last: bool,
}

/// A group of packets that leave as one large packet, by their positions in the burst.
#[derive(Debug, Clone)]
pub(crate) struct JoinGroup {
    pub first: usize,
    last: usize,
    pub count: usize,
    /// Payload of each packet but the last, which may have less. Unit: octets.
    size: usize,
    payload: usize,
    is_open: bool,
    is_verified: bool,
}

/// The division of one burst into groups.
#[derive(Debug)]
pub(crate) struct JoinPlan {
    segments: ArrayVec<Option<JoinablePacket>, BURST_MAX>,
    pub groups: ArrayVec<JoinGroup, BURST_MAX>,
    /// For each packet, the position of the next packet of its group.
    next: [u8; BURST_MAX],
}

impl JoinPlan {
    /// Divides the frames of `burst`, whose IP packets begin at `l3_offset`, into groups.
    pub(crate) fn new<B: PacketBuf>(burst: &Burst<B>, l3_offset: usize, offer: JoinOffer) -> Self {
        let mut plan =
            Self { segments: ArrayVec::new(), groups: ArrayVec::new(), next: [0; BURST_MAX] };
        let packet = |at: usize| burst[at].data().get(l3_offset..).unwrap_or_default();
        for at in 0..burst.len() {
            let segment = read(packet(at), offer);
            plan.segments.push(segment);
            match segment {
                Some(segment) => plan.add(at, segment, &packet),
                None => {
                    // The packet's flow is unknown, so no later packet may join a group in front of
                    // it.
                    plan.groups.iter_mut().for_each(|group| group.is_open = false);
                    plan.push(at, 0, false);
                }
            }
        }
        plan
    }

    fn push(&mut self, at: usize, size: usize, is_open: bool) {
        self.groups.push(JoinGroup {
            first: at,
            last: at,
            count: 1,
            size,
            payload: size,
            is_open,
            is_verified: false,
        });
    }

    fn add<'a>(&mut self, at: usize, segment: JoinablePacket, packet: &impl Fn(usize) -> &'a [u8]) {
        let Self { segments, groups, next, .. } = self;
        let is_flow = |group: &&mut JoinGroup| {
            let other = segments[group.last];
            other.is_some_and(|other| {
                other.key == segment.key && is_same_flow(packet(group.last), packet(at), &segment)
            })
        };
        let (this, size) = (packet(at), packet(at).len() - segment.headers);
        if let Some(group) = groups.iter_mut().rev().find(is_flow) {
            let before = segments[group.last].unwrap_or(segment);
            let fits = group.is_open
                && segment.can_join
                && size <= group.size
                && segment.headers + group.payload + size <= JOINED_MAX
                && follows(packet(group.last), &before, this, &segment);
            if fits && (group.is_verified || is_intact(packet(group.first), &before)) {
                group.is_verified = true;
                if is_intact(this, &segment) {
                    next[group.last] = u8::try_from(at).unwrap_or(0);
                    group.last = at;
                    group.count += 1;
                    group.payload += size;
                    group.is_open = size == group.size && !segment.is_last;
                    return;
                }
            }
            group.is_open = false;
        }
        self.push(at, size, segment.can_join && !segment.is_last);
    }

    /// Returns the positions of a group's packets.
    pub(crate) fn members(&self, group: &JoinGroup) -> impl Iterator<Item = usize> {
        let first = group.first;
        let chain = core::iter::successors(Some(first), |at| Some(usize::from(self.next[*at])));
        chain.take(group.count)
    }

    /// Returns the length of the headers of each packet of a group. Unit: octets.
    pub(crate) fn headers(&self, group: &JoinGroup) -> usize {
        self.segments[group.first].map_or(0, |segment| segment.headers)
    }

    /// Rewrites the headers in `first`, the first packet, as those of the joined packet, and
    /// returns the header that describes it to the kernel. `last_flags` are the TCP flags of the
    /// last packet.
    pub(crate) fn finish(&self, group: &JoinGroup, first: &mut [u8], last_flags: u8) -> VnetHeader {
        let Some(segment) = self.segments[group.first].filter(|_| group.count > 1) else {
            return VnetHeader::default();
        };
        let is_v4 = first[0] >> 4 == 4;
        let len = segment.headers + group.payload;
        if is_v4 {
            put(first, 2, word(len));
            put(first, 10, 0);
            let sum = checksum::checksum(&first[..20]);
            put(first, 10, sum);
        } else {
            put(first, 4, word(len - 40));
        }
        let upper_len = len - segment.upper_at;
        let protocol = if segment.is_udp { protocol::UDP } else { protocol::TCP };
        let pseudo = pseudo_header(first, protocol, upper_len).fold();
        let upper = &mut first[segment.upper_at..];
        let csum_offset = if segment.is_udp { 6 } else { 16 };
        put(upper, csum_offset, pseudo);
        if segment.is_udp {
            put(upper, 4, word(upper_len));
        } else {
            upper[13] |= last_flags & PSH;
        }
        VnetHeader {
            flags: NEEDS_CSUM,
            gso_type: match (segment.is_udp, is_v4) {
                (true, _) => GSO_UDP_L4,
                (false, true) => GSO_TCPV4,
                (false, false) => GSO_TCPV6,
            },
            hdr_len: word(segment.headers),
            gso_size: word(group.size),
            csum_start: word(segment.upper_at),
            csum_offset: word(csum_offset),
        }
    }

    /// Returns the TCP flags of the last packet of a group; zero if its flow is unknown.
    pub(crate) fn last_flags<B: PacketBuf>(
        &self,
        group: &JoinGroup,
        burst: &Burst<B>,
        l3_offset: usize,
    ) -> u8 {
        let Some(segment) = self.segments[group.last] else { return 0 };
        let at = l3_offset + segment.upper_at + 13;
        burst[group.last].data().get(at).copied().unwrap_or(0)
    }
}

/// Reads a TCP or UDP packet; `None` for other packets and for fragments.
fn read(packet: &[u8], offer: JoinOffer) -> Option<JoinablePacket> {
    let (upper_at, protocol, len) = match packet.first()? >> 4 {
        4 if packet.len() >= 20 && packet[0] == 0x45 && packet[6] & 0x3f == 0 && packet[7] == 0 => {
            (20, packet[9], usize::from(u16::from_be_bytes([packet[2], packet[3]])))
        }
        6 if packet.len() >= 40 => {
            (40, packet[6], 40 + usize::from(u16::from_be_bytes([packet[4], packet[5]])))
        }
        _ => return None,
    };
    let upper = packet.get(upper_at..)?;
    let ports = u64::from(u32::from_be_bytes(*upper.first_chunk()?));
    // The last four octets of both addresses, for the key.
    let src = *packet.get(upper_at - if upper_at == 20 { 8 } else { 20 }..)?.first_chunk()?;
    let dst = *packet.get(upper_at - 4..)?.first_chunk()?;
    let addrs = u64::from(u32::from_be_bytes(src)) << 32 | u64::from(u32::from_be_bytes(dst));
    let key = addrs ^ ports.rotate_left(16) ^ u64::from(protocol) << 24;
    let whole = len == packet.len();
    match protocol {
        protocol::TCP if upper.len() >= 20 => {
            let headers = upper_at + usize::from(upper[12] >> 4) * 4;
            let flags = upper[13];
            let can_join = whole
                && offer.tcp
                && (upper_at + 20..packet.len()).contains(&headers)
                && flags & !PSH == ACK;
            let headers = if can_join { headers } else { packet.len() };
            let is_last = flags & PSH != 0;
            Some(JoinablePacket { key, upper_at, headers, is_udp: false, can_join, is_last })
        }
        protocol::UDP if upper.len() >= 8 => {
            let has_checksum = upper[6] != 0 || upper[7] != 0;
            let len = usize::from(u16::from_be_bytes([upper[4], upper[5]]));
            let can_join =
                whole && offer.udp && has_checksum && len == upper.len() && upper.len() > 8;
            let headers = if can_join { upper_at + 8 } else { packet.len() };
            Some(JoinablePacket { key, upper_at, headers, is_udp: true, can_join, is_last: false })
        }
        _ => None,
    }
}

/// True if both packets, whose keys are equal, belong to one flow.
fn is_same_flow(one: &[u8], other: &[u8], segment: &JoinablePacket) -> bool {
    let (from, to) = if segment.upper_at == 20 { (12, 24) } else { (8, 44) };
    let protocol = if segment.upper_at == 20 { 9 } else { 6 };
    let is_version = one[0] >> 4 == other[0] >> 4;
    is_version && one.get(from..to) == other.get(from..to) && one[protocol] == other[protocol]
}

/// True if `this` continues `before`, a packet of the same flow: the IP identification and the TCP
/// sequence number follow on, and all other header fields are equal.
fn follows(before: &[u8], one: &JoinablePacket, this: &[u8], other: &JoinablePacket) -> bool {
    if !one.can_join || one.headers != other.headers {
        return false;
    }
    let same = |from: usize, to: usize| before[from..to] == this[from..to];
    let is_ip_equal = if one.upper_at == 20 {
        let id = |packet: &[u8]| u16::from_be_bytes([packet[4], packet[5]]);
        let is_next = id(before).wrapping_add(1) == id(this) || this[6] & DONT_FRAGMENT != 0;
        same(0, 2) && same(6, 10) && is_next
    } else {
        same(0, 4) && same(6, 8)
    };
    if one.is_udp || !is_ip_equal {
        return is_ip_equal;
    }
    let at = one.upper_at;
    let sequence = |packet: &[u8]| {
        let bytes = packet[at + 4..].first_chunk().copied().unwrap_or_default();
        u32::from_be_bytes(bytes)
    };
    let payload = u32::try_from(before.len() - one.headers).unwrap_or(0);
    // Acknowledgment number and data offset; window; urgent pointer and options.
    sequence(before).wrapping_add(payload) == sequence(this)
        && same(at + 8, at + 13)
        && same(at + 14, at + 16)
        && same(at + 18, one.headers)
}

/// True if the checksums of a packet are correct.
fn is_intact(packet: &[u8], segment: &JoinablePacket) -> bool {
    let protocol = if segment.is_udp { protocol::UDP } else { protocol::TCP };
    let upper = &packet[segment.upper_at..];
    let is_header_right = segment.upper_at == 40 || checksum::checksum(&packet[..20]) == 0;
    is_header_right && pseudo_header(packet, protocol, upper.len()).bytes(upper).checksum() == 0
}
