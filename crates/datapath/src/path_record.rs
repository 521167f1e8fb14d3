//! Records a trial of the fast path with a traced packet, and how the stages' result differs.

use core::ops::Range;

use adit_rules::{DropReason, FastPathDifference, FastPathTrialResult, TapOutcome};

use crate::interfaces::TxTarget;

/// Length of the copy of a frame with room for headers in front: more than the longest frame of a
/// port. Unit: octets.
const FRAME_ROOM_LEN: usize = 1 << 14;

/// The trial of the fast path for the packet of a record.
pub(crate) struct FastPathTrialRecord {
    room: Box<[u8]>,
    /// Where in `room` the frame is that the fast path would send.
    frame: Range<usize>,
    answer: Option<FastPathTrialResult>,
    /// How many frames the stages sent.
    sent: usize,
}

impl FastPathTrialRecord {
    /// Creates a record without a trial. Allocates all memory that will be used.
    pub(crate) fn new() -> Self {
        Self { room: vec![0; FRAME_ROOM_LEN].into(), frame: 0..0, answer: None, sent: 0 }
    }

    /// Forgets the last trial. Returns room for the copy of the next packet.
    pub(crate) fn clear(&mut self) -> &mut [u8] {
        (self.answer, self.sent) = (None, 0);
        &mut self.room
    }

    /// Notes the answer of a trial, and where in the room its frame is.
    pub(crate) fn note(&mut self, answer: FastPathTrialResult, frame: Range<usize>) {
        (self.answer, self.frame) = (Some(answer), frame);
    }

    /// Compares a frame that the stages are about to send with that of the trial.
    pub(crate) fn compare(&mut self, target: TxTarget, frame: &[u8]) {
        self.sent += 1;
        let own = self.room.get(self.frame.clone()).unwrap_or_default();
        let Some(FastPathTrialResult::Sends(expected)) = &mut self.answer else { return };
        let is_there = (expected.port, expected.interface) == (target.port, target.interface);
        let found = match self.sent {
            1 if is_there => first_difference(own, frame),
            1 => Some(FastPathDifference::Egress),
            _ => Some(FastPathDifference::Frames),
        };
        expected.difference = expected.difference.or(found);
    }

    /// Returns the answer of the trial, with its difference from the packet's outcome.
    pub(crate) fn end(&self, outcome: TapOutcome) -> Option<FastPathTrialResult> {
        let mut answer = self.answer?;
        let (frame, is_same) = match &mut answer {
            FastPathTrialResult::Sends(frame) => (frame, is_sent(outcome) && self.sent > 0),
            FastPathTrialResult::Queues(frame) => (frame, is_queued(outcome)),
            FastPathTrialResult::Leaves(_) | FastPathTrialResult::LeavesUnruled(_) => {
                return Some(answer);
            }
        };
        if !is_same {
            frame.difference = Some(FastPathDifference::Outcome);
        }
        Some(answer)
    }
}

const fn is_sent(outcome: TapOutcome) -> bool {
    matches!(
        outcome,
        TapOutcome::Transmitted
            | TapOutcome::WaitsForPort
            | TapOutcome::Dropped(DropReason::TxQueueFull)
    )
}

const fn is_queued(outcome: TapOutcome) -> bool {
    matches!(outcome, TapOutcome::Queued | TapOutcome::Dropped(DropReason::ShapingQueueFull))
}

/// Returns the first difference between the frames of the fast path and of the stages.
fn first_difference(fast_path: &[u8], stages: &[u8]) -> Option<FastPathDifference> {
    if fast_path.len() != stages.len() {
        let len = u32::try_from(stages.len()).unwrap_or(u32::MAX);
        return Some(FastPathDifference::Length(len));
    }
    let octets = (0..).zip(fast_path.iter().zip(stages));
    let mut different = octets.filter(|(_, (fast_path, stages))| fast_path != stages);
    let (at, (fast_path, stages)) = different.next()?;
    Some(FastPathDifference::Octet { at, fast_path: *fast_path, stages: *stages })
}

#[cfg(test)]
mod tests {
    use adit_rules::FastPathFrame;
    use adit_types::{InterfaceId, PortId};

    use super::*;

    const TARGET: TxTarget = TxTarget { port: PortId(1), interface: InterfaceId(2) };

    /// Returns the difference that a trial with the frame `1 2 3` finds.
    fn difference(sent: &[(TxTarget, &[u8])], outcome: TapOutcome) -> Option<FastPathDifference> {
        let mut record = FastPathTrialRecord::new();
        record.clear()[..3].copy_from_slice(&[1, 2, 3]);
        let TxTarget { port, interface } = TARGET;
        let frame = FastPathFrame { port, interface, len: 3, difference: None };
        record.note(FastPathTrialResult::Sends(frame), 0..3);
        sent.iter().for_each(|(target, frame)| record.compare(*target, frame));
        let Some(FastPathTrialResult::Sends(frame)) = record.end(outcome) else { unreachable!() };
        frame.difference
    }

    #[test]
    fn each_difference_to_the_stages_is_named() {
        let sent = TapOutcome::Transmitted;
        let same: (TxTarget, &[u8]) = (TARGET, &[1, 2, 3]);
        assert_eq!(difference(&[same], sent), None);
        assert_eq!(difference(&[same], TapOutcome::WaitsForPort), None);
        let octet = FastPathDifference::Octet { at: 2, fast_path: 3, stages: 4 };
        assert_eq!(difference(&[(TARGET, &[1, 2, 4])], sent), Some(octet));
        let length = FastPathDifference::Length(2);
        assert_eq!(difference(&[(TARGET, &[1, 2])], sent), Some(length));
        let elsewhere = TxTarget { interface: InterfaceId(3), ..TARGET };
        let egress = FastPathDifference::Egress;
        assert_eq!(difference(&[(elsewhere, &[1, 2, 3])], sent), Some(egress));
        assert_eq!(difference(&[same, same], sent), Some(FastPathDifference::Frames));
        let dropped = TapOutcome::Dropped(DropReason::FarDrop);
        assert_eq!(difference(&[], dropped), Some(FastPathDifference::Outcome));
        assert_eq!(difference(&[], TapOutcome::Queued), Some(FastPathDifference::Outcome));
    }
}
