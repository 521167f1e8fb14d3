//! State of one packet in the fast path.

use crate::shaper::FlowIndex;
use adit_tables::{FastRuleCellRef, FastRuleSnapshot, SelectedFastRule};
use adit_types::{Direction, InterfaceId, Qfi, SessionIndex, Teid};
use adit_wire::INNER_OFFSET_OVER_IPV6_MIN;

use super::ticket::QueueTicket;

/// No interface.
const NO_INTERFACE: InterfaceId = InterfaceId(u8::MAX);

/// One packet of a burst.
///
/// PERF (adit-bench datapath): written field by field into its column and read by reference. A copy
/// of the whole goes through the stack, where loads wider than the stores before them stall (no
/// store forwarding). Only bursts of both directions and hand-offs copy it.
#[derive(Debug, Clone, Copy)]
pub(super) struct FastPacket<'v> {
    /// Its side until the session is looked up: uplink in tunnels. Then its direction: packets in
    /// tunnels from another UPF may be downlink.
    pub direction: Direction,
    /// The fast path may forward it, or did. Otherwise it takes the stages, and so do later packets
    /// of its session.
    pub is_usual: bool,
    /// In a usual packet: the user's packet is IPv6. In another one: `ue_key` is the key of an IPv6
    /// address; false in tunnels, true for a frame that belongs to no session.
    pub is_v6: bool,
    /// QoS flow of the PDU Session Container that it arrived with.
    pub qfi: Option<Qfi>,
    /// Where the user's packet begins. Unit: octets.
    pub offset: u8,
    /// Uplink: number of the block of data-network addresses that its destination is in; zero
    /// unless one gateway leads to the whole block (`TablesView::network_block_v4`).
    pub network_block: u8,
    /// The interface that it arrived on; once it is rewritten, the interface that it leaves
    /// through. A frame that belongs to no session has none.
    pub interface: InterfaceId,
    /// Length of the user's packet. Unit: octets.
    pub len: u16,
    /// The tunnel that it arrived in; zero without one.
    pub teid: Teid,
    /// Written when the session is looked up.
    pub session: SessionIndex,
    /// The first queue of its session and direction. Written if queues have to be checked
    /// (`Shaping::must_check_queues`).
    pub first_queue: FlowIndex,
    /// The UE's address in the user's packet, as a lookup key; in tunnels the source.
    pub ue_key: u64,
    /// The queue that it has to join. Written once the queue is known.
    pub ticket: QueueTicket,
    /// The cell of its session and direction. Written when the session is looked up.
    pub cell: Option<FastRuleCellRef<'v>>,
    /// Its fast rule, if SDF filters selected one.
    pub selected: Option<SelectedFastRule<'v>>,
}

const _: () = assert!(size_of::<FastPacket<'_>>() == 64, "a power of two: positions are cheap");

impl FastPacket<'static> {
    /// A packet of which nothing is known.
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
    /// True of a usual packet that arrived in a tunnel over IPv6.
    #[inline]
    pub(super) const fn is_over_v6(&self) -> bool {
        self.offset >= INNER_OFFSET_OVER_IPV6_MIN
    }

    /// True of a packet that arrived in a tunnel.
    pub(super) const fn is_tunneled(&self) -> bool {
        self.teid.0 != 0
    }

    /// Its fast rule, which may be one from tunnel to tunnel; see [`FastPacket::rule`].
    #[inline]
    pub(super) fn any_rule(&self) -> Option<FastRuleSnapshot<'v>> {
        match self.selected {
            None => self.cell.and_then(FastRuleCellRef::read_any),
            Some(selected) => Some(selected.fast_rule()),
        }
    }

    /// Its fast rule: the one that SDF filters selected, or that of its cell; `None` without one,
    /// and for one from tunnel to tunnel.
    #[inline]
    pub(super) fn rule(&self) -> Option<FastRuleSnapshot<'v>> {
        match self.selected {
            None => self.cell.and_then(FastRuleCellRef::read),
            Some(selected) => Some(selected.fast_rule()),
        }
    }
}
