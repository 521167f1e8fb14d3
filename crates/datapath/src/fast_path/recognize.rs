//! Recognizes the packets of a burst by their layout.

use core::net::{Ipv4Addr, Ipv6Addr};

use adit_pktio::{Burst, PacketBuf, RxChecksum};
use adit_tables::{TablesView, UeTable};
use adit_types::{Direction, VlanId, is_forwardable_v4, is_forwardable_v6};
use adit_wire::ethernet::EthernetHeader;
use adit_wire::vlan::VlanTag;
use adit_wire::{
    OrderingKey, UsualGPdu, guess_is_v6, ordering_key, usual_g_pdu, usual_ip, vlan_of,
};

use super::FastPackets;
use super::family::FamilyOrder;
use super::packet::FastPacket;
use crate::interfaces::UsualLink;

/// The key of a frame that belongs to no session.
const NO_KEY: u64 = u64::MAX;

/// Counts of the packets of a burst: four sums of 16 bits each.
#[derive(Debug, Clone, Copy)]
pub(super) struct PacketMix(u64);

impl PacketMix {
    const NONE: Self = Self(0);
    /// The layout is usual.
    const USUAL: u64 = 1;
    const UPLINK: u64 = 1 << 16;
    /// See [`FastPacket::is_v6`].
    const V6: u64 = 1 << 32;
    /// Only the stages can find the session. One such packet sends its whole burst to the stages.
    const UNKNOWN: Self = Self(1 << 48);

    /// One packet.
    #[inline(always)]
    const fn one(direction: Direction, is_v6: bool, is_usual: bool) -> Self {
        let usual = if is_usual { Self::USUAL } else { 0 };
        let uplink = if matches!(direction, Direction::Uplink) { Self::UPLINK } else { 0 };
        Self(usual | uplink | if is_v6 { Self::V6 } else { 0 })
    }

    #[inline(always)]
    const fn add(&mut self, other: Self) {
        self.0 += other.0;
    }

    /// Packets that are usual, uplink, IPv6, and unknown.
    pub(super) fn counts(self) -> [usize; 4] {
        let [a, b, c, d, e, f, g, h] = self.0.to_le_bytes();
        [[a, b], [c, d], [e, f], [g, h]].map(|pair| u16::from_le_bytes(pair).into())
    }
}

/// Recognizes the packets of a burst of a port with one link, and prefetches the lines that their sessions are
/// looked up in. `TAG_LEN`: octets of the link's tag.
/// Packets that are [`PacketMix::UNKNOWN`] have no entry in `packets`.
#[inline(never)]
pub(super) fn recognize_all<'v, B: PacketBuf, const TAG_LEN: usize>(
    view: &TablesView<'v>,
    link: &UsualLink,
    rx: &Burst<B>,
    packets: &mut FastPackets<'v>,
) -> PacketMix {
    let mut mix = PacketMix::NONE;
    let ues = view.ues(link.domain);
    for buf in rx {
        mix.add(recognize::<_, TAG_LEN>(view, link, ues, buf, |packet| packets.push(packet)));
    }
    mix
}

/// Like [`recognize_all`], for a port with several links.
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
                recognize::<_, 0>(view, link, view.ues(link.domain), buf, put)
            }
            Some(link) => {
                recognize::<_, { VlanTag::LEN }>(view, link, view.ues(link.domain), buf, put)
            }
            None => {
                put(NO_SESSION);
                PacketMix::one(NO_SESSION.direction, NO_SESSION.is_v6, false)
            }
        });
    }
    mix
}

/// Like [`recognize_all`], for a burst that is expected to hold both families: recognizes one family
/// after the other. Packets that are [`PacketMix::UNKNOWN`] keep a blank entry.
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
            mix.add(recognize::<_, TAG_LEN>(view, link, ues, buf, put));
        }
    }
    mix
}

/// Recognizes one packet, and prefetches the line that the session of a usual one is looked up in. Calls
/// `put` unless the packet is unknown. `TAG_LEN`: octets of the link's tag.
// PERF (adit bench datapath): a call would pass what was recognized through memory.
#[inline(always)]
fn recognize<'v, B: PacketBuf, const TAG_LEN: usize>(
    view: &TablesView<'v>,
    link: &UsualLink,
    ues: &UeTable,
    buf: &B,
    put: impl FnOnce(FastPacket<'v>),
) -> PacketMix {
    let checksum = buf.rx_checksum();
    let verify = checksum == RxChecksum::Unknown;
    let frame = buf.data();
    if buf.is_contiguous() && checksum != RxChecksum::Bad {
        if let Some(n3) = &link.n3
            && let Some(UsualGPdu { teid, qfi, inner_offset, inner }) =
                usual_g_pdu::<TAG_LEN>(frame, &n3.pattern, verify)
            && is_forwardable(inner.is_v6, inner.dst)
        {
            view.prefetch_teid(teid);
            put(FastPacket {
                direction: Direction::Uplink,
                is_usual: true,
                is_v6: inner.is_v6,
                qfi,
                interface: n3.id,
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
            return PacketMix::one(Direction::Uplink, inner.is_v6, true);
        }
        if let Some((id, pattern)) = &link.n6
            && let Some(ip) = usual_ip::<TAG_LEN>(frame, pattern, verify)
            && is_forwardable(ip.is_v6, ip.src)
            && !link.is_own(&ip)
        {
            match ip.is_v6 {
                false => ues.prefetch_v4(v4(ip.dst).to_bits()),
                true => ues.prefetch_v6(ip.dst),
            }
            #[allow(clippy::cast_possible_truncation, reason = "14 or 18")]
            let offset = (EthernetHeader::LEN + TAG_LEN) as u8;
            put(FastPacket {
                is_usual: true,
                is_v6: ip.is_v6,
                interface: *id,
                offset,
                len: ip.total_len,
                ue_key: ip.dst,
                ..FastPacket::BLANK
            });
            return PacketMix::one(Direction::Downlink, ip.is_v6, true);
        }
    }
    let Some(packet) = unusual_packet::<TAG_LEN>(frame, link) else { return PacketMix::UNKNOWN };
    put(packet);
    PacketMix::one(packet.direction, packet.is_v6, false)
}

/// A frame from where it would begin without its tag.
#[inline(always)]
fn behind_tag<const TAG_LEN: usize>(frame: &[u8]) -> &[u8] {
    frame.get(TAG_LEN..).unwrap_or_default()
}

/// The entry of a frame that belongs to no session.
// As an IPv6 key: cut to 32 bits, `NO_KEY` would be an IPv4 address.
const NO_SESSION: FastPacket<'static> =
    FastPacket { is_v6: true, ue_key: NO_KEY, ..FastPacket::BLANK };

/// The entry of a packet that is not usual: it finds the session, whose later packets then follow this
/// one to the stages. `None` if only the stages can find the session.
#[cold]
fn unusual_packet<'v, const TAG_LEN: usize>(
    frame: &[u8],
    link: &UsualLink,
) -> Option<FastPacket<'v>> {
    const BLANK: FastPacket<'static> = FastPacket::BLANK;
    if vlan_of(frame) != link.vlan {
        return Some(NO_SESSION);
    }
    let network = link.n6.map(|(id, _)| id);
    let n3 = link.n3.as_ref();
    let key = ordering_key(behind_tag::<TAG_LEN>(frame), n3.map(|n3| n3.addr));
    Some(match (key, n3, network) {
        (OrderingKey::Tunneled(teid), Some(n3), _) => {
            FastPacket { direction: Direction::Uplink, interface: n3.id, teid, ..BLANK }
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

/// True if routers forward packets from or to the address of a key. False for prefixes that hold the
/// unspecified or the loopback address.
#[inline]
pub(super) fn is_forwardable(is_v6: bool, key: u64) -> bool {
    match is_v6 {
        true => is_forwardable_v6(Ipv6Addr::from_bits(u128::from(key) << 64)),
        false => is_forwardable_v4(v4(key)),
    }
}

/// The IPv4 address of a key.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "an IPv4 address has 32 bits")]
pub(super) const fn v4(key: u64) -> Ipv4Addr {
    Ipv4Addr::from_bits(key as u32)
}
