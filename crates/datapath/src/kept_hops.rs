//! The next hops that the fast path keeps from one burst to the next.

use adit_types::{Direction, InterfaceId};
use adit_wire::UsualLinkHeader;

/// A key that no packet has, so that the hop stored with it is never reused.
pub(crate) const NEVER_REUSED: u64 = u64::MAX;

/// The next hops of the last burst of each direction. The next burst reuses them.
#[derive(Debug)]
pub(crate) struct KeptHops {
    uplink: BurstHops,
    downlink: BurstHops,
}

impl KeptHops {
    pub(crate) const NONE: Self = Self { uplink: BurstHops::NONE, downlink: BurstHops::NONE };

    /// Returns the hops of one direction.
    #[inline]
    pub(crate) const fn of(&mut self, direction: Direction) -> &mut BurstHops {
        match direction {
            Direction::Uplink => &mut self.uplink,
            Direction::Downlink => &mut self.downlink,
        }
    }
}

/// The last next hops of a burst. One cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct BurstHops {
    /// `TablesView::next_hop_version` when the hops were read: after a later change they are stale.
    pub changes: u64,
    /// Key and link header of the last hop, by IP version.
    pub hops: [(u64, UsualLinkHeader); 2],
    /// The interface that both hops are on.
    pub interface: InterfaceId,
}

impl BurstHops {
    const NONE: Self = Self {
        changes: 0,
        hops: [(NEVER_REUSED, UsualLinkHeader::NONE); 2],
        interface: InterfaceId(u8::MAX),
    };
}
