//! What the packets of a burst are: recognized by their layout, in the order of their families.

use core::hint::select_unpredictable;
use core::net::{Ipv4Addr, Ipv6Addr};

use adit_pktio::{Burst, PacketBuf, RxChecksum};
use adit_tables::{TablesView, UeTable};
use adit_types::limits::BURST_MAX;
use adit_types::{Direction, SessionIndex, Teid, is_forwardable_v4, is_forwardable_v6};
use adit_wire::{OrderingKey, UsualGPdu, guess_is_v6, ordering_key, usual_g_pdu, usual_ip};

use super::{ETHERNET_LEN, FastPacket, NO_TX_LINK};
use crate::columns::BurstColumn;
use crate::interfaces::UsualLink;

/// The key of a frame that no session has.
const NO_KEY: u64 = u64::MAX;

/// How many packets of a burst are what: a summand of 16 bits each.
#[derive(Debug, Clone, Copy)]
pub(super) struct PacketMix(u64);

impl PacketMix {
    const NOTHING: Self = Self(0);
    /// Recognized.
    const USUAL: u64 = 1;
    const UPLINK: u64 = 1 << 16;
    /// The lookup key is that of an IPv6 UE.
    const V6: u64 = 1 << 32;
    /// Only the stages can tell which session it belongs to.
    const UNKNOWN: Self = Self(1 << 48);

    /// One packet.
    #[inline(always)]
    const fn one(direction: Direction, is_v6: bool, usual: u64) -> Self {
        let uplink = if matches!(direction, Direction::Uplink) { Self::UPLINK } else { 0 };
        Self(usual | uplink | if is_v6 { Self::V6 } else { 0 })
    }

    #[inline(always)]
    const fn add(&mut self, other: Self) {
        self.0 += other.0;
    }

    /// How many are recognized, of uplink, of IPv6, and unknown.
    pub fn counts(self) -> [usize; 4] {
        let [a, b, c, d, e, f, g, h] = self.0.to_le_bytes();
        [[a, b], [c, d], [e, f], [g, h]].map(|pair| u16::from_le_bytes(pair).into())
    }
}

/// Tells what the packets of a burst are, and asks for the lines where their sessions are found.
#[inline(never)]
pub(super) fn recognize_all<'v, B: PacketBuf>(
    view: &TablesView<'v>,
    link: &UsualLink,
    rx: &Burst<B>,
    rows: &mut BurstColumn<FastPacket<'v>>,
) -> PacketMix {
    let mut seen = PacketMix::NOTHING;
    let ues = view.ues(link.domain);
    for buf in rx {
        seen.add(recognize(view, (link, ues), buf, |row| rows.push(row)));
    }
    seen
}

/// The same for a burst that is expected to be of both families: one family behind the other.
#[inline(never)]
pub(super) fn recognize_mixed<'v, B: PacketBuf>(
    view: &TablesView<'v>,
    link: &UsualLink,
    rx: &Burst<B>,
    rows: &mut BurstColumn<FastPacket<'v>>,
) -> PacketMix {
    let mut order = FamilyOrder::new();
    for buf in rx {
        order.add(guess_is_v6(buf.data(), link.n3.is_some()));
        rows.push(BLANK);
    }
    let mut seen = PacketMix::NOTHING;
    let ues = view.ues(link.domain);
    for part in order.parts() {
        for place in part {
            let place = usize::from(*place);
            let (Some(buf), Some(row)) = (rx.get(place), rows.get_mut(place)) else { continue };
            seen.add(recognize(view, (link, ues), buf, |seen| *row = seen));
        }
    }
    seen
}

/// Tells what one packet is, and asks for the line where its session is found. Puts its row, unless it
/// is unknown.
// PERF: a call would pass what was recognized through memory.
#[inline(always)]
fn recognize<'v, B: PacketBuf>(
    view: &TablesView<'v>,
    (link, ues): (&UsualLink, &UeTable),
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
                ..BLANK
            });
            return PacketMix::one(Direction::Uplink, inner.is_v6, PacketMix::USUAL);
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
                ..BLANK
            });
            return PacketMix::one(Direction::Downlink, ip.is_v6, PacketMix::USUAL);
        }
    }
    let Some(row) = unusual_packet(frame, link.n3.as_ref().map(|n3| n3.addr)) else {
        return PacketMix::UNKNOWN;
    };
    put(row);
    PacketMix::one(row.direction, row.is_v6, 0)
}

/// Nothing is known of a packet.
const BLANK: FastPacket<'static> = FastPacket {
    direction: Direction::Downlink,
    is_usual: false,
    is_v6: false,
    qfi: None,
    offset: 0,
    network_block: 0,
    tx_link: NO_TX_LINK,
    len: 0,
    teid: Teid(0),
    session: SessionIndex::NONE,
    ue_key: 0,
    waits_for: 0,
    slot: None,
    chosen_rule: None,
};

/// The row of a packet that is not usual.
#[cold]
fn unusual_packet<'v>(frame: &[u8], tunnels: Option<Ipv4Addr>) -> Option<FastPacket<'v>> {
    Some(match ordering_key(frame, tunnels) {
        OrderingKey::Nothing => FastPacket { is_v6: true, ue_key: NO_KEY, ..BLANK },
        OrderingKey::Tunneled(teid) => FastPacket { direction: Direction::Uplink, teid, ..BLANK },
        OrderingKey::PlainV4(dst) => FastPacket { ue_key: u64::from(dst.to_bits()), ..BLANK },
        OrderingKey::PlainV6(key) => FastPacket { is_v6: true, ue_key: key, ..BLANK },
        OrderingKey::Unknown => return None,
    })
}

/// True unless a router keeps packets from or to the address of a key. Prefixes that hold the
/// unspecified and the loopback address count as such.
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

/// An order of a burst's packets: those of IPv4, then those of IPv6.
///
/// PERF: where families come mixed, what is done next cannot be predicted; in this order, which is
/// found without a branch per packet, it can.
pub(super) struct FamilyOrder {
    /// Those of IPv4 from the front on, those of IPv6 from the end on, in reverse.
    places: [u8; BURST_MAX],
    v4: usize,
    v6: usize,
}

impl FamilyOrder {
    /// Of no packet.
    #[inline(always)]
    const fn new() -> Self {
        Self { places: [0; BURST_MAX], v4: 0, v6: 0 }
    }

    /// Of the packets in the rows.
    #[inline]
    pub fn of_rows(rows: &BurstColumn<FastPacket<'_>>) -> Self {
        let mut order = Self::new();
        rows.iter().for_each(|row| order.add(row.is_v6));
        order
    }

    /// Adds the next packet of a burst.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "a burst is short")]
    fn add(&mut self, is_v6: bool) {
        let place = self.v4 + self.v6;
        let at = select_unpredictable(is_v6, BURST_MAX - 1 - self.v6 % BURST_MAX, self.v4);
        self.places[at % BURST_MAX] = place as u8;
        self.v6 += usize::from(is_v6);
        self.v4 += usize::from(!is_v6);
    }

    /// The places in the burst of the packets of each family.
    #[inline]
    pub fn parts(&self) -> [&[u8]; 2] {
        let part = |from: usize, len: usize| self.places.get(from..from + len).unwrap_or_default();
        [part(0, self.v4), part(BURST_MAX.saturating_sub(self.v6), self.v6)]
    }
}
