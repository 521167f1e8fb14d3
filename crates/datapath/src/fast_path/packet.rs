//! The state of one packet in the fast path.

use crate::shaper::FlowIndex;
use adit_tables::{FastRuleCellRef, FastRuleSnapshot, SelectedFastRule};
use adit_types::{Direction, InterfaceId, Qfi, SessionIndex, Teid};
use adit_wire::INNER_OFFSET_OVER_IPV6_MIN;

use super::ticket::QueueTicket;

/// Stands for no interface.
const NO_INTERFACE: InterfaceId = InterfaceId(u8::MAX);

/// One packet of a burst.
///
/// PERF (adit-bench datapath): written field by field into its column and read by reference. A copy
/// of the whole structure goes through the stack, where loads that are wider than the preceding
/// stores stall (no store forwarding). Only bursts of both directions and hand-offs copy it.
#[derive(Debug, Clone, Copy)]
pub(super) struct FastPacket<'v> {
    /// Until the session is looked up: uplink if the packet is in a tunnel. Then its direction:
    /// packets in tunnels from another UPF may be downlink.
    pub direction: Direction,
    /// True if the fast path may forward the packet, or did. If false, the packet takes the stages,
    /// and so do later packets of its session.
    pub is_usual: bool,
    /// In a usual packet: true if the user's packet is IPv6. In other packets: true if `ue_key` is
    /// the key of an IPv6 address; false in tunnels, true for a frame that belongs to no session.
    pub is_v6: bool,
    /// QFI of the PDU Session Container that the packet arrived with.
    pub qfi: Option<Qfi>,
    /// Where the user's packet begins in the frame. Unit: octets.
    pub offset: u8,
    /// Uplink: id of the block of data-network addresses that the destination is in; zero unless
    /// one gateway leads to the whole block (`TablesView::network_block_v4`).
    pub network_block: u8,
    /// The interface that the packet arrived on; after the rewrite, the one that it leaves through.
    /// `NO_INTERFACE` for a frame that belongs to no session.
    pub interface: InterfaceId,
    /// Length of the user's packet. Unit: octets.
    pub len: u16,
    /// The tunnel that the packet arrived in; zero without one.
    pub teid: Teid,
    /// The packet's session. Written when it is looked up.
    pub session: SessionIndex,
    /// The first queue of the packet's session and direction. Written if queues have to be checked
    /// (`Shaping::must_check_queues`).
    pub first_queue: FlowIndex,
    /// The lookup key of the UE's address in the user's packet; in tunnels, that of the source.
    pub ue_key: u64,
    /// The queue that the packet has to join. Written when the queue is known.
    pub ticket: QueueTicket,
    /// The cell of the session and direction. Written when the session is looked up.
    pub cell: Option<FastRuleCellRef<'v>>,
    /// The packet's fast rule if SDF filters selected it.
    pub selected: Option<SelectedFastRule<'v>>,
}

const _: () = assert!(size_of::<FastPacket<'_>>() == 64, "a power of two: positions are cheap");

impl FastPacket<'static> {
    /// A packet of which nothing is known yet.
    pub(super) const BLANK: Self = Self {
        direction: Direction::Downlink,
        is_usual: false,
        is_v6: false,
        qfi: None,
        offset: 0,
        network_block: 0,
        interface: NO_INTERFACE,
        len: 0,
        teid: Teid(0),
        session: SessionIndex::NONE,
        first_queue: FlowIndex::NONE,
        ue_key: 0,
        ticket: QueueTicket::NONE,
        cell: None,
        selected: None,
    };
}

impl<'v> FastPacket<'v> {
    /// True if this is a usual packet that arrived in a tunnel over IPv6.
    #[inline]
    pub(super) const fn is_over_v6(&self) -> bool {
        self.offset >= INNER_OFFSET_OVER_IPV6_MIN
    }

    /// True if the packet arrived in a tunnel.
    pub(super) const fn is_tunneled(&self) -> bool {
        self.teid.0 != 0
    }

    /// Returns the packet's fast rule like [`FastPacket::rule`], also if it is a relay's.
    #[inline]
    pub(super) fn any_rule(&self) -> Option<FastRuleSnapshot<'v>> {
        match self.selected {
            None => self.cell.and_then(FastRuleCellRef::read_any),
            Some(selected) => Some(selected.fast_rule()),
        }
    }

    /// Returns the packet's fast rule: the one that SDF filters selected, or that of its cell.
    /// `None` if there is none, or if it is a relay's.
    #[inline]
    pub(super) fn rule(&self) -> Option<FastRuleSnapshot<'v>> {
        match self.selected {
            None => self.cell.and_then(FastRuleCellRef::read),
            Some(selected) => Some(selected.fast_rule()),
        }
    }
}
