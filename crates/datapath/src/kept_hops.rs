//! The next hops that the fast path keeps from one burst to the next.

use adit_types::{Direction, InterfaceId};
use adit_wire::UsualLinkHeader;

/// A key that no packet has: the hop stored with it is never reused.
pub(crate) const NEVER_REUSED: u64 = u64::MAX;

/// The hops of the last burst of each direction, for the next one.
#[derive(Debug)]
pub(crate) struct KeptHops {
    uplink: BurstHops,
    downlink: BurstHops,
}

impl KeptHops {
    /// No hops.
    pub(crate) const NONE: Self = Self { uplink: BurstHops::NONE, downlink: BurstHops::NONE };

    /// Those of one direction.
    #[inline]
    pub(crate) const fn of(&mut self, direction: Direction) -> &mut BurstHops {
        match direction {
            Direction::Uplink => &mut self.uplink,
            Direction::Downlink => &mut self.downlink,
        }
    }
}

/// The last hops of a burst. One cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct BurstHops {
    /// The changes of next hops (`TablesView::next_hop_changes`) that precede them.
    pub changes: u64,
    /// Key and header of the last hop of each family.
    pub hops: [(u64, UsualLinkHeader); 2],
    /// The interface of both.
    pub interface: InterfaceId,
}

impl BurstHops {
    const NONE: Self = Self {
        changes: 0,
        hops: [(NEVER_REUSED, UsualLinkHeader::NONE); 2],
        interface: InterfaceId(u8::MAX),
    };
}
