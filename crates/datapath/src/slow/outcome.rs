//! Functions that the handlers of the slow path share.

use adit_pktio::PacketBuf;
use adit_rules::{DropReason, PuntReason};
use adit_types::MacAddr;
use adit_wire::parse_frame;

use crate::tally::StepTally;

/// Counts the outcome of a packet.
pub(super) fn count_outcome(tally: &mut StepTally, outcome: Result<PuntReason, DropReason>) {
    match outcome {
        Ok(reason) => tally.punt(reason),
        Err(reason) => tally.drop(reason),
    }
}

/// Returns the source MAC address of the frame in `buf`, to which answers go; `FrameMalformed` if
/// it is a group address.
pub(super) fn frame_source<B: PacketBuf>(buf: &B) -> Result<MacAddr, DropReason> {
    match parse_frame(buf.data()) {
        Ok(frame) if !frame.src.is_multicast() => Ok(frame.src),
        _ => Err(DropReason::FrameMalformed),
    }
}
