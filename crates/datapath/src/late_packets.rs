//! Packets whose wait ends, for taps: the worker sees such a packet only when it lets it go or
//! drops it.

use adit_rules::{DropReason, TAP_OCTETS, TapSet, TapWait};
use adit_types::Nanos;
use adit_types::limits::TAP_LATE_PACKETS_PER_STEP;
use arrayvec::ArrayVec;

use crate::interfaces::TxTarget;

/// Octets of a frame that are kept.
const HEAD_BYTES: usize = 3 * TAP_OCTETS;

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitEnd {
    /// The frame leaves through a port.
    Leaves(TxTarget),
    /// The packet is switched to another UE.
    Switched,
    /// It is dropped.
    Dropped(DropReason),
}

/// A wait that ends, of a packet that taps reported when it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EndedWait {
    /// The taps that selected the packet.
    pub taps: TapSet,
    pub wait: TapWait,
    /// How long it waited.
    pub time: Nanos,
}

/// One packet.
#[derive(Debug, Clone)]
pub(crate) struct LatePacket {
    pub end: WaitEnd,
    /// `None` of a packet that no tap is known to have selected.
    pub waited: Option<EndedWait>,
    /// Length of the frame. Unit: octets.
    pub len: usize,
    /// How it begins. Headers of the way out may be written already.
    pub head: ArrayVec<u8, HEAD_BYTES>,
}

/// The packets of one step, while taps are active.
#[derive(Debug)]
pub(crate) struct LatePackets {
    notes_drops: bool,
    packets: ArrayVec<LatePacket, { TAP_LATE_PACKETS_PER_STEP }>,
    /// The taps that selected the packet in hand.
    pub in_hand: TapSet,
}

impl LatePackets {
    /// Notes nothing yet. Reserves all memory that will be used.
    pub(crate) fn new() -> Self {
        Self { notes_drops: false, packets: ArrayVec::new(), in_hand: TapSet::NONE }
    }

    /// Says whether drops from here on are noted that no tap is known to have selected. Returns the
    /// previous setting.
    pub(crate) fn note_drops(&mut self, is_on: bool) -> bool {
        core::mem::replace(&mut self.notes_drops, is_on)
    }

    /// Notes a drop of a packet that no tap is known to have selected.
    pub(crate) fn note_drop(&mut self, reason: DropReason, frame: &[u8]) {
        if self.notes_drops {
            self.note(WaitEnd::Dropped(reason), None, frame);
        }
    }

    /// Notes the end of a wait. Those beyond the room of a step are not noted.
    pub(crate) fn note(&mut self, end: WaitEnd, waited: Option<EndedWait>, frame: &[u8]) {
        if self.packets.is_full() {
            return;
        }
        let head = frame.iter().copied().take(HEAD_BYTES).collect();
        self.packets.push(LatePacket { end, waited, len: frame.len(), head });
    }

    /// The oldest one.
    pub(crate) fn take_first(&mut self) -> Option<LatePacket> {
        self.packets.pop_at(0)
    }
}
