//! Recognizes the packets of a burst by their layout.

use core::net::{Ipv4Addr, Ipv6Addr};

use adit_pktio::{Burst, PacketBuf, RxChecksum};
use adit_tables::{TablesView, UeTable};
use adit_types::{Direction, is_forwardable_v4, is_forwardable_v6};
use adit_wire::ethernet::EthernetHeader;
use adit_wire::{OrderingKey, UsualGPdu, guess_is_v6, ordering_key, usual_g_pdu, usual_ip};

use super::FastPackets;
use super::family::FamilyOrder;
use super::packet::FastPacket;
use crate::interfaces::UsualLink;

/// The key of a frame that belongs to no session.
const NO_KEY: u64 = u64::MAX;

#[allow(clippy::cast_possible_truncation, reason = "14")]
const ETHERNET_LEN: u8 = EthernetHeader::LEN as u8;

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

/// Recognizes the packets of a burst, and prefetches the lines that their sessions are looked up in.
/// Packets that are [`PacketMix::UNKNOWN`] have no entry in `packets`.
#[inline(never)]
pub(super) fn recognize_all<'v, B: PacketBuf>(
    view: &TablesView<'v>,
    link: &UsualLink,
    rx: &Burst<B>,
    packets: &mut FastPackets<'v>,
) -> PacketMix {
    let mut mix = PacketMix::NONE;
    let ues = view.ues(link.domain);
    for buf in rx {
        mix.add(recognize(view, link, ues, buf, |packet| packets.push(packet)));
    }
    mix
}

/// Like [`recognize_all`], for a burst that is expected to hold both families: recognizes one family
/// after the other. Packets that are [`PacketMix::UNKNOWN`] keep a blank entry.
#[inline(never)]
pub(super) fn recognize_mixed<'v, B: PacketBuf>(
    view: &TablesView<'v>,
    link: &UsualLink,
    rx: &Burst<B>,
    packets: &mut FastPackets<'v>,
) -> PacketMix {
    let mut order = FamilyOrder::new();
    for buf in rx {
        order.push(guess_is_v6(buf.data(), link.n3.is_some()));
        packets.push(FastPacket::BLANK);
    }
    let mut mix = PacketMix::NONE;
    let ues = view.ues(link.domain);
    for family in order.families() {
        for at in family {
            let at = usize::from(*at);
            let (Some(buf), Some(packet)) = (rx.get(at), packets.get_mut(at)) else { continue };
            mix.add(recognize(view, link, ues, buf, |recognized| *packet = recognized));
        }
    }
    mix
}

/// Recognizes one packet, and prefetches the line that the session of a usual one is looked up in. Calls
/// `put` unless the packet is unknown.
// PERF (adit bench datapath): a call would pass what was recognized through memory.
#[inline(always)]
fn recognize<'v, B: PacketBuf>(
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
                usual_g_pdu(frame, &n3.pattern, verify)
            && is_forwardable(inner.is_v6, inner.dst)
        {
            view.prefetch_teid(teid);
            put(FastPacket {
                direction: Direction::Uplink,
                is_usual: true,
                is_v6: inner.is_v6,
                qfi,
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
        if let Some((_, pattern)) = &link.n6
            && let Some(ip) = usual_ip(frame, pattern, verify)
            && is_forwardable(ip.is_v6, ip.src)
            && !link.is_own(&ip)
        {
            match ip.is_v6 {
                false => ues.prefetch_v4(v4(ip.dst).to_bits()),
                true => ues.prefetch_v6(ip.dst),
            }
            put(FastPacket {
                is_usual: true,
                is_v6: ip.is_v6,
                offset: ETHERNET_LEN,
                len: ip.total_len,
                ue_key: ip.dst,
                ..FastPacket::BLANK
            });
            return PacketMix::one(Direction::Downlink, ip.is_v6, true);
        }
    }
    let Some(packet) = unusual_packet(frame, link.n3.as_ref().map(|n3| n3.addr)) else {
        return PacketMix::UNKNOWN;
    };
    put(packet);
    PacketMix::one(packet.direction, packet.is_v6, false)
}

/// The entry of a packet that is not usual: it finds the session, whose later packets then follow this
/// one to the stages. `None` if only the stages can find the session. `n3`: our address for tunnels.
#[cold]
fn unusual_packet<'v>(frame: &[u8], n3: Option<Ipv4Addr>) -> Option<FastPacket<'v>> {
    const BLANK: FastPacket<'static> = FastPacket::BLANK;
    Some(match ordering_key(frame, n3) {
        // As an IPv6 key: cut to 32 bits, `NO_KEY` would be an IPv4 address.
        OrderingKey::Nothing => FastPacket { is_v6: true, ue_key: NO_KEY, ..BLANK },
        OrderingKey::Tunneled(teid) => FastPacket { direction: Direction::Uplink, teid, ..BLANK },
        OrderingKey::PlainV4(dst) => FastPacket { ue_key: u64::from(dst.to_bits()), ..BLANK },
        OrderingKey::PlainV6(key) => FastPacket { is_v6: true, ue_key: key, ..BLANK },
        OrderingKey::Unknown => return None,
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
