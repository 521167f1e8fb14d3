//! Packets whose wait ends, for taps. The worker sees such a packet only when it releases or drops
//! it, so it notes the packet here until the taps report it.

use adit_rules::{DropReason, TAP_OCTETS_MAX, TapSet, TapWait};
use adit_types::Nanos;
use adit_types::limits::TAP_LATE_PACKETS_PER_STEP_MAX;
use arrayvec::ArrayVec;

use crate::interfaces::TxTarget;

/// How many octets at the front of a frame are kept.
const FRAME_HEAD_BYTES_MAX: usize = 3 * TAP_OCTETS_MAX;

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitEnd {
    /// The frame leaves through a port.
    Leaves(TxTarget),
    /// The packet is switched locally to another UE.
    Switched,
    /// The packet is dropped.
    Dropped(DropReason),
}

/// The end of a wait of a packet that taps reported when the wait began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EndedWait {
    /// The taps that selected the packet.
    pub taps: TapSet,
    pub wait: TapWait,
    /// How long the packet waited.
    pub time: Nanos,
}

/// A packet whose wait ended.
#[derive(Debug, Clone)]
pub(crate) struct LatePacket {
    pub end: WaitEnd,
    /// `None` if no tap is known to have selected the packet.
    pub waited: Option<EndedWait>,
    /// Length of the frame. Unit: octets.
    pub len: usize,
    /// The front of the frame. Outer headers may be written already.
    pub head: ArrayVec<u8, FRAME_HEAD_BYTES_MAX>,
}

/// The packets of one step whose wait ended, while taps are active.
#[derive(Debug)]
pub(crate) struct LatePackets {
    notes_drops: bool,
    packets: ArrayVec<LatePacket, { TAP_LATE_PACKETS_PER_STEP_MAX }>,
    /// The taps that selected the packet that is being processed.
    pub in_hand: TapSet,
}

impl LatePackets {
    /// Allocates all memory that will be used.
    pub(crate) fn new() -> Self {
        Self { notes_drops: false, packets: ArrayVec::new(), in_hand: TapSet::NONE }
    }

    /// Sets whether drops are noted of packets that no tap is known to have selected. Returns the
    /// previous setting.
    pub(crate) fn note_drops(&mut self, is_on: bool) -> bool {
        core::mem::replace(&mut self.notes_drops, is_on)
    }

    /// Notes the drop of a packet that no tap is known to have selected.
    pub(crate) fn note_drop(&mut self, reason: DropReason, frame: &[u8]) {
        if self.notes_drops {
            self.note(WaitEnd::Dropped(reason), None, frame);
        }
    }

    /// Notes the end of a wait, up to the maximum of a step.
    pub(crate) fn note(&mut self, end: WaitEnd, waited: Option<EndedWait>, frame: &[u8]) {
        if self.packets.is_full() {
            return;
        }
        let head = frame.iter().copied().take(FRAME_HEAD_BYTES_MAX).collect();
        self.packets.push(LatePacket { end, waited, len: frame.len(), head });
    }

    /// Removes and returns the oldest packet.
    pub(crate) fn take_first(&mut self) -> Option<LatePacket> {
        self.packets.pop_at(0)
    }
}
