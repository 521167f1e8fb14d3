//! Recognizes the packets of a burst by their layout.

use core::net::{Ipv4Addr, Ipv6Addr};

use adit_pktio::{Burst, PacketBuf, RxChecksum};
use adit_tables::{TablesView, UeTable};
use adit_types::limits::BURST_MAX;
use adit_types::{Direction, InterfaceId, VlanId, is_forwardable_v4, is_forwardable_v6};
use adit_wire::ethernet::{EthernetHeader, link_len};
use adit_wire::vlan::VlanTag;
use adit_wire::{
    EtherType, OrderingKey, UsualGPdu, UsualIp, guess_is_v6, is_usual_syn, ordering_key,
    ordering_key_over_v6, usual_g_pdu, usual_g_pdu_over_v6, usual_ip, vlan_of,
};

use super::FastPackets;
use super::family::FamilyOrder;
use super::packet::FastPacket;
use crate::interfaces::UsualLink;

/// The UE key of a frame that belongs to no session.
const NO_KEY: u64 = u64::MAX;

/// Counts of the packets of a burst: three sums of 16 bits, and two sums of 8 bits.
#[derive(Debug, Clone, Copy)]
pub(super) struct PacketMix(u64);

impl PacketMix {
    const NONE: Self = Self(0);
    /// A packet with a usual layout.
    const USUAL: u64 = 1;
    const UPLINK: u64 = 1 << 16;
    /// A packet with [`FastPacket::is_v6`].
    const V6: u64 = 1 << 32;
    /// A packet whose session only the stages can find. It sends its whole burst to the stages.
    const UNKNOWN: Self = Self(1 << 48);
    /// A usual packet that arrived in a tunnel over IPv6.
    const OVER_V6: Self = Self(1 << 56);

    /// Returns the counts of one packet.
    #[inline(always)]
    const fn one(direction: Direction, is_v6: bool, is_usual: bool) -> Self {
        let usual = if is_usual { Self::USUAL } else { 0 };
        let uplink = if matches!(direction, Direction::Uplink) { Self::UPLINK } else { 0 };
        Self(usual | uplink | if is_v6 { Self::V6 } else { 0 })
    }

    /// Returns the counts of one usual packet in a tunnel over IPv6.
    #[inline(always)]
    const fn over_v6(is_v6: bool) -> Self {
        Self(Self::one(Direction::Uplink, is_v6, true).0 + Self::OVER_V6.0)
    }

    #[inline(always)]
    const fn add(&mut self, other: Self) {
        self.0 += other.0;
    }

    /// Returns the counts of `packets` packets that are all like this one.
    #[inline]
    const fn times(self, packets: usize) -> Self {
        Self(self.0 * packets as u64)
    }

    /// Returns how many packets are usual, uplink, IPv6, unknown, and in tunnels over IPv6.
    pub(super) fn counts(self) -> [usize; 5] {
        let [a, b, c, d, e, f, unknown, over_v6] = self.0.to_le_bytes();
        [[a, b], [c, d], [e, f], [unknown, 0], [over_v6, 0]]
            .map(|pair| u16::from_le_bytes(pair).into())
    }
}

const _: () = assert!(BURST_MAX <= u8::MAX as usize);

/// True if the packets of a burst are expected to be in tunnels over IPv6: the link has such
/// tunnels, and the first frame is IPv6.
#[inline]
pub(super) fn expects_over_v6<B: PacketBuf>(link: &UsualLink, rx: &Burst<B>) -> bool {
    link.n3_v6.is_some()
        && rx.first().is_some_and(|first| {
            let end = link_len(link.vlan);
            first.data().get(end - 2..end) == Some(&EtherType::IPV6.0.to_be_bytes()[..])
        })
}

/// Recognizes the packets of a burst of a port with one link, and prefetches the cache lines in
/// which their sessions are looked up. `TAG_LEN`: octets of the link's tag. `OVER_V6`: tunnels over
/// IPv6 are expected. Packets that are [`PacketMix::UNKNOWN`] get no entry in `packets`.
#[inline(never)]
pub(super) fn recognize_all<'v, B: PacketBuf, const TAG_LEN: usize, const OVER_V6: bool>(
    view: &TablesView<'v>,
    link: &UsualLink,
    rx: &Burst<B>,
    packets: &mut FastPackets<'v>,
) -> PacketMix {
    if !OVER_V6 {
        recognize_run::<_, TAG_LEN>(view, link, rx, packets);
    }
    let direction = packets.first().map_or(Direction::Uplink, |first| first.direction);
    let mut mix = PacketMix::one(direction, false, true).times(packets.len());
    if packets.len() < rx.len() {
        mix.add(recognize_rest::<_, TAG_LEN, OVER_V6>(view, link, rx, packets));
    }
    mix
}

/// Recognizes the packets of a burst that have no entry in `packets` yet.
#[inline(never)]
// PERF (adit-bench datapath --burst 1): a separate function, so that a burst of one kind does not
// pay for its setup.
fn recognize_rest<'v, B: PacketBuf, const TAG_LEN: usize, const OVER_V6: bool>(
    view: &TablesView<'v>,
    link: &UsualLink,
    rx: &Burst<B>,
    packets: &mut FastPackets<'v>,
) -> PacketMix {
    let ues = view.ues(link.domain);
    let mut mix = PacketMix::NONE;
    for buf in rx.iter().skip(packets.len()) {
        let put = |packet| packets.push(packet);
        mix.add(recognize::<_, TAG_LEN, OVER_V6>(view, link, ues, buf, put));
    }
    mix
}

/// Recognizes the usual IPv4 packets at the front of a burst, as long as all are plain or all are
/// in tunnels with a PDU Session Container.
// PERF (adit-bench datapath): loops without a branch on the kind of packet, for most bursts are of
// one kind.
#[inline(always)]
fn recognize_run<'v, B: PacketBuf, const TAG_LEN: usize>(
    view: &TablesView<'v>,
    link: &UsualLink,
    rx: &Burst<B>,
    packets: &mut FastPackets<'v>,
) {
    if let Some(n3) = &link.n3 {
        for buf in rx {
            let g_pdu = intact_frame(buf)
                .and_then(|(frame, verify)| usual_g_pdu::<TAG_LEN>(frame, &n3.pattern, verify))
                .filter(|g_pdu| !g_pdu.inner.is_v6 && g_pdu.qfi.is_some())
                .filter(|g_pdu| is_forwardable(false, g_pdu.inner.dst));
            let Some(g_pdu) = g_pdu else { break };
            put_tunneled(view, n3.id, g_pdu, |packet| packets.push(packet));
        }
    }
    if packets.is_empty() {
        // PERF (adit-bench datapath): if the setting is off, the loop does not look for SYNs.
        match link.keeps_syns {
            false => recognize_plain_run::<_, TAG_LEN>(view, link, rx, packets, |_, _| true),
            true => recognize_plain_run::<_, TAG_LEN>(view, link, rx, packets, |frame, ip| {
                !is_kept_syn::<TAG_LEN>(link, frame, ip)
            }),
        }
    }
}

/// Recognizes plain packets at the front of a burst, for [`recognize_run`], while `is_usual` is
/// true.
#[inline(always)]
// PERF (adit-bench datapath): inlined to save a call per burst.
fn recognize_plain_run<'v, B: PacketBuf, const TAG_LEN: usize>(
    view: &TablesView<'v>,
    link: &UsualLink,
    rx: &Burst<B>,
    packets: &mut FastPackets<'v>,
    is_usual: impl Fn(&[u8], &UsualIp) -> bool,
) {
    let Some((id, pattern)) = &link.n6 else { return };
    let ues = view.ues(link.domain);
    for buf in rx {
        let ip = intact_frame(buf)
            .and_then(|(frame, verify)| usual_ip::<TAG_LEN>(frame, pattern, verify))
            .filter(|ip| !ip.is_v6 && is_forwardable(false, ip.src) && !link.is_own(ip))
            .filter(|ip| is_usual(buf.data(), ip));
        let Some(ip) = ip else { break };
        put_plain::<TAG_LEN>(ues, *id, ip, |packet| packets.push(packet));
    }
}

/// Recognizes packets like [`recognize_all`], for a port with several links.
#[inline(never)]
pub(super) fn recognize_links<'v, B: PacketBuf>(
    view: &TablesView<'v>,
    links: &[UsualLink],
    rx: &Burst<B>,
    packets: &mut FastPackets<'v>,
) -> PacketMix {
    let mut mix = PacketMix::NONE;
    for buf in rx {
        let vlan = vlan_of(buf.data());
        let mut put = |packet| packets.push(packet);
        mix.add(match links.iter().find(|link| link.vlan == vlan) {
            Some(link) if vlan == VlanId::UNTAGGED => {
                recognize::<_, 0, false>(view, link, view.ues(link.domain), buf, put)
            }
            Some(link) => {
                recognize::<_, { VlanTag::LEN }, false>(view, link, view.ues(link.domain), buf, put)
            }
            None => {
                put(NO_SESSION);
                PacketMix::one(NO_SESSION.direction, NO_SESSION.is_v6, false)
            }
        });
    }
    mix
}

/// Recognizes packets like [`recognize_all`], for a burst that is expected to have both IP
/// versions: recognizes one version after the other. [`PacketMix::UNKNOWN`] packets keep a blank
/// entry.
#[inline(never)]
pub(super) fn recognize_mixed<'v, B: PacketBuf, const TAG_LEN: usize>(
    view: &TablesView<'v>,
    link: &UsualLink,
    rx: &Burst<B>,
    packets: &mut FastPackets<'v>,
) -> PacketMix {
    let mut order = FamilyOrder::new();
    for buf in rx {
        order.push(guess_is_v6(behind_tag::<TAG_LEN>(buf.data()), link.n3.is_some()));
        packets.push(FastPacket::BLANK);
    }
    let mut mix = PacketMix::NONE;
    let ues = view.ues(link.domain);
    for family in order.families() {
        for at in family {
            let at = usize::from(*at);
            let (Some(buf), Some(packet)) = (rx.get(at), packets.get_mut(at)) else { continue };
            let put = |recognized| *packet = recognized;
            mix.add(recognize::<_, TAG_LEN, false>(view, link, ues, buf, put));
        }
    }
    mix
}

/// Recognizes one packet. If it is usual, prefetches the cache line in which its session is looked
/// up. Calls `put` with the packet's entry unless the packet is unknown. `TAG_LEN`: octets of the
/// link's tag. `OVER_V6`: the packet is expected to be in a tunnel over IPv6.
// PERF (adit-bench datapath): a call would pass the result through memory.
#[inline(always)]
fn recognize<'v, B: PacketBuf, const TAG_LEN: usize, const OVER_V6: bool>(
    view: &TablesView<'v>,
    link: &UsualLink,
    ues: &UeTable,
    buf: &B,
    put: impl FnOnce(FastPacket<'v>),
) -> PacketMix {
    if let Some((frame, verify)) = intact_frame(buf) {
        if OVER_V6 && let Some((id, g_pdu)) = tunneled_over_v6::<TAG_LEN>(link, frame) {
            put_tunneled(view, id, g_pdu, put);
            return PacketMix::over_v6(g_pdu.inner.is_v6);
        }
        if let Some(n3) = &link.n3
            && let Some(g_pdu) = usual_g_pdu::<TAG_LEN>(frame, &n3.pattern, verify)
            && is_forwardable(g_pdu.inner.is_v6, g_pdu.inner.dst)
        {
            put_tunneled(view, n3.id, g_pdu, put);
            return PacketMix::one(Direction::Uplink, g_pdu.inner.is_v6, true);
        }
        if let Some((id, pattern)) = &link.n6
            && let Some(ip) = usual_ip::<TAG_LEN>(frame, pattern, verify)
            && is_forwardable(ip.is_v6, ip.src)
            && !link.is_own(&ip)
            && !is_kept_syn::<TAG_LEN>(link, frame, &ip)
        {
            put_plain::<TAG_LEN>(ues, *id, ip, put);
            return PacketMix::one(Direction::Downlink, ip.is_v6, true);
        }
    }
    match other_packet::<_, TAG_LEN, OVER_V6>(view, link, buf) {
        Some((packet, mix)) => {
            put(packet);
            mix
        }
        None => PacketMix::UNKNOWN,
    }
}

/// Returns the entry of a packet of a kind that [`recognize`] does not expect.
#[cold]
fn other_packet<'v, B: PacketBuf, const TAG_LEN: usize, const OVER_V6: bool>(
    view: &TablesView<'v>,
    link: &UsualLink,
    buf: &B,
) -> Option<(FastPacket<'v>, PacketMix)> {
    if !OVER_V6
        && let Some((frame, _)) = intact_frame(buf)
        && let Some((id, g_pdu)) = tunneled_over_v6::<TAG_LEN>(link, frame)
    {
        let mut packet = FastPacket::BLANK;
        put_tunneled(view, id, g_pdu, |tunneled| packet = tunneled);
        return Some((packet, PacketMix::over_v6(g_pdu.inner.is_v6)));
    }
    let packet = unusual_packet(buf.data(), link)?;
    Some((packet, PacketMix::one(packet.direction, packet.is_v6, false)))
}

/// Parses a usual G-PDU over IPv6; returns also the interface that it arrived on.
#[inline(always)]
// PERF (adit-bench datapath --n3-v6): a call would pass the result through memory.
fn tunneled_over_v6<const TAG_LEN: usize>(
    link: &UsualLink,
    frame: &[u8],
) -> Option<(InterfaceId, UsualGPdu)> {
    let n3 = link.n3_v6.as_ref()?;
    let g_pdu = usual_g_pdu_over_v6::<TAG_LEN>(frame, &n3.pattern)?;
    is_forwardable(g_pdu.inner.is_v6, g_pdu.inner.dst).then_some((n3.id, g_pdu))
}

/// True if a plain packet is a TCP SYN and the link's SYNs have to take the stages.
#[inline(always)]
// PERF (adit-bench datapath): if the setting is off, only one branch on the link.
fn is_kept_syn<const TAG_LEN: usize>(link: &UsualLink, frame: &[u8], ip: &UsualIp) -> bool {
    link.keeps_syns && is_usual_syn(frame, ip_offset::<TAG_LEN>(), ip.is_v6)
}

/// Returns where the IP header of a plain packet begins. Unit: octets.
#[allow(clippy::cast_possible_truncation, reason = "14 or 18")]
const fn ip_offset<const TAG_LEN: usize>() -> u8 {
    (EthernetHeader::LEN + TAG_LEN) as u8
}

/// Returns the octets of a frame, and whether its IPv4 header checksum has to be verified. `None`
/// if the packet has several segments, or if the port found the checksum wrong.
#[inline(always)]
fn intact_frame<B: PacketBuf>(buf: &B) -> Option<(&[u8], bool)> {
    let checksum = buf.rx_checksum();
    let is_intact = buf.is_contiguous() && checksum != RxChecksum::Bad;
    is_intact.then(|| (buf.data(), checksum == RxChecksum::Unknown))
}

/// Puts the entry of a usual packet in a tunnel. Prefetches the line for the lookup of its session.
#[inline(always)]
fn put_tunneled<'v>(
    view: &TablesView<'v>,
    interface: InterfaceId,
    UsualGPdu { teid, qfi, inner_offset, inner }: UsualGPdu,
    put: impl FnOnce(FastPacket<'v>),
) {
    view.prefetch_teid(teid);
    put(FastPacket {
        direction: Direction::Uplink,
        is_usual: true,
        is_v6: inner.is_v6,
        qfi,
        interface,
        offset: inner_offset,
        network_block: match inner.is_v6 {
            false => view.network_block_v4(v4(inner.dst).to_bits()),
            true => view.network_block_v6(inner.dst),
        },
        len: inner.total_len,
        teid,
        ue_key: inner.src,
        ..FastPacket::BLANK
    });
}

/// Puts the entry of a usual packet from a data network. Prefetches the cache line in which its
/// session is looked up.
#[inline(always)]
fn put_plain<'v, const TAG_LEN: usize>(
    ues: &UeTable,
    interface: InterfaceId,
    ip: UsualIp,
    put: impl FnOnce(FastPacket<'v>),
) {
    match ip.is_v6 {
        false => ues.prefetch_v4(v4(ip.dst).to_bits()),
        true => ues.prefetch_v6(ip.dst),
    }
    put(FastPacket {
        is_usual: true,
        is_v6: ip.is_v6,
        interface,
        offset: ip_offset::<TAG_LEN>(),
        len: ip.total_len,
        ue_key: ip.dst,
        ..FastPacket::BLANK
    });
}

/// Returns a frame from the octet at which it would begin if it had no tag.
#[inline(always)]
fn behind_tag<const TAG_LEN: usize>(frame: &[u8]) -> &[u8] {
    frame.get(TAG_LEN..).unwrap_or_default()
}

/// The entry of a frame that belongs to no session.
// The key is one of IPv6: cut to 32 bits, `NO_KEY` would be an IPv4 address.
const NO_SESSION: FastPacket<'static> =
    FastPacket { is_v6: true, ue_key: NO_KEY, ..FastPacket::BLANK };

/// Returns the entry of a packet that is not usual. The entry leads to the session, so that later
/// packets of the session follow this one to the stages. `None` if only the stages can find it.
fn unusual_packet<'v>(frame: &[u8], link: &UsualLink) -> Option<FastPacket<'v>> {
    const BLANK: FastPacket<'static> = FastPacket::BLANK;
    if vlan_of(frame) != link.vlan {
        return Some(NO_SESSION);
    }
    let network = link.n6.map(|(id, _)| id);
    let n3 = link.n3.as_ref();
    // The tag of the link's VLAN, or a priority tag on a link without a VLAN.
    let has_tag = EthernetHeader::parse(frame)
        .is_ok_and(|(header, _)| header.ether_type() == EtherType::VLAN);
    let untagged = if has_tag { behind_tag::<{ VlanTag::LEN }>(frame) } else { frame };
    let over_v6 = link
        .n3_v6
        .as_ref()
        .and_then(|n3| Some((ordering_key_over_v6(untagged, n3.addr)?, Some(n3.id))));
    let (key, n3) = over_v6
        .unwrap_or_else(|| (ordering_key(untagged, n3.map(|n3| n3.addr)), n3.map(|n3| n3.id)));
    Some(match (key, n3, network) {
        (OrderingKey::Tunneled(teid), Some(interface), _) => {
            FastPacket { direction: Direction::Uplink, interface, teid, ..BLANK }
        }
        (OrderingKey::PlainV4(dst), _, Some(interface)) => {
            FastPacket { interface, ue_key: u64::from(dst.to_bits()), ..BLANK }
        }
        (OrderingKey::PlainV6(key), _, Some(interface)) => {
            FastPacket { interface, is_v6: true, ue_key: key, ..BLANK }
        }
        (OrderingKey::Unknown, ..) => return None,
        _ => NO_SESSION,
    })
}

/// True if routers forward packets from or to the address with this lookup key. False for IPv6
/// prefixes that contain the unspecified or the loopback address.
#[inline]
pub(super) fn is_forwardable(is_v6: bool, key: u64) -> bool {
    match is_v6 {
        true => is_forwardable_v6(Ipv6Addr::from_bits(u128::from(key) << 64)),
        false => is_forwardable_v4(v4(key)),
    }
}

/// Returns the IPv4 address with this lookup key.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "an IPv4 address has 32 bits")]
pub(super) const fn v4(key: u64) -> Ipv4Addr {
    Ipv4Addr::from_bits(key as u32)
}
