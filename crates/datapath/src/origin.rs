//! The origin of a frame, which decides how the frame is counted.

use adit_rules::DropReason;
use adit_types::Direction;

use crate::tally::StepTally;

/// The origin of a frame that leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A user packet that was received.
    Received(Direction),
    /// A received user packet within the guaranteed bit rate of its flow.
    Guaranteed(Direction),
    /// A copy of a user packet, made by the Duplicating Parameters of its FAR.
    Copy,
    /// A frame that Adit made: ARP, neighbor discovery, ICMP, GTP-U signaling.
    Own,
    /// An End Marker that Adit made; it waits behind users' packets.
    EndMarker,
    /// A user packet on its way to a later stage, which counts it.
    HandedOn,
    /// A frame that passes a later stage, and that an earlier stage counted.
    Counted,
}

impl Origin {
    /// Returns the origin of a user packet.
    #[inline]
    pub(crate) const fn user(direction: Direction, is_guaranteed: bool) -> Self {
        match is_guaranteed {
            true => Self::Guaranteed(direction),
            false => Self::Received(direction),
        }
    }

    /// Counts a frame that its port does not accept and that is not queued either.
    #[cold]
    pub(crate) fn count_lost(self, frame: &[u8], tally: &mut StepTally) {
        match self {
            Self::Received(_) | Self::Guaranteed(_) => {
                tally.drop_waiting(DropReason::TxQueueFull, frame);
            }
            Self::Copy => tally.lose_duplicate(),
            Self::Own | Self::EndMarker => tally.lose_originated(),
            Self::HandedOn => tally.drop(DropReason::TxQueueFull),
            Self::Counted => tally.lose_counted(),
        }
    }
}
