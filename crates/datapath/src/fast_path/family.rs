//! The IP versions (address families) of a burst's packets.

use core::hint::select_unpredictable;

use adit_types::limits::BURST_MAX;

use super::packet::FastPacket;

/// The IP versions in a burst. A type, so that packet loops do not branch on them.
pub(super) trait FamilyMix {
    /// This mix, or `Mixed` for `OnlyV6`: for kinds of loops that have no copy for IPv6 alone.
    type Merged: FamilyMix;

    /// True if all packets are IPv4.
    const IS_V4: bool = false;

    /// True if both IP versions occur.
    const ARE_MIXED: bool = false;

    /// True if a packet is IPv6.
    fn is_v6(packet: &FastPacket<'_>) -> bool;
}

pub(super) struct OnlyV4;
pub(super) struct OnlyV6;
pub(super) struct Mixed;

impl FamilyMix for OnlyV4 {
    type Merged = Self;

    const IS_V4: bool = true;

    #[inline(always)]
    fn is_v6(_: &FastPacket<'_>) -> bool {
        false
    }
}

impl FamilyMix for OnlyV6 {
    type Merged = Mixed;

    #[inline(always)]
    fn is_v6(_: &FastPacket<'_>) -> bool {
        true
    }
}

impl FamilyMix for Mixed {
    type Merged = Self;

    const ARE_MIXED: bool = true;

    #[inline(always)]
    fn is_v6(packet: &FastPacket<'_>) -> bool {
        packet.is_v6
    }
}

/// The order of the packets of a burst that has IPv4 first, then IPv6.
///
/// PERF (adit-bench datapath --mixed): branches on the IP version of mixed packets are
/// mispredicted. In this order they are predicted, and the order is found without a branch per
/// packet.
pub(super) struct FamilyOrder {
    /// Positions of IPv4 packets, from the front; of IPv6 packets, backwards from the end.
    positions: [u8; BURST_MAX],
    v4: usize,
    v6: usize,
}

impl FamilyOrder {
    /// Creates the order of no packets.
    #[inline(always)]
    pub(super) const fn new() -> Self {
        Self { positions: [0; BURST_MAX], v4: 0, v6: 0 }
    }

    /// Returns the order of the packets of a burst.
    #[inline]
    pub(super) fn of(packets: &[FastPacket<'_>]) -> Self {
        let mut order = Self::new();
        packets.iter().for_each(|packet| order.push(packet.is_v6));
        order
    }

    /// Adds the next packet of a burst.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "a burst is short")]
    pub(super) fn push(&mut self, is_v6: bool) {
        // `%` proves to the compiler that the indexes are in bounds; a burst is not longer.
        let position = self.v4 + self.v6;
        let at = select_unpredictable(is_v6, BURST_MAX - 1 - self.v6 % BURST_MAX, self.v4);
        self.positions[at % BURST_MAX] = position as u8;
        self.v6 += usize::from(is_v6);
        self.v4 += usize::from(!is_v6);
    }

    /// Returns the positions in the burst of the IPv4 packets, then of the IPv6 packets. The latter
    /// are in reverse order of arrival, so the order is only for recognition, lookups and
    /// prefetches: packets are sent in the order of arrival.
    #[inline]
    pub(super) fn families(&self) -> [&[u8]; 2] {
        let range =
            |from: usize, len: usize| self.positions.get(from..from + len).unwrap_or_default();
        [range(0, self.v4), range(BURST_MAX.saturating_sub(self.v6), self.v6)]
    }
}
