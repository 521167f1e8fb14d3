//! Taps at the workers, which must change nothing.

use adit_rules::{
    FastPathTrialResult, LeaveReason, TapFilter, TapId, TapItem, TapRequest, WorkerCommand,
};
use adit_types::Nanos;

use super::World;

impl World {
    /// Starts a tap at every worker.
    pub fn start_tap(&mut self, filter: TapFilter) {
        let request = TapRequest {
            filter,
            has_stages: true,
            has_path: true,
            snap_bytes: 128,
            pkts_max: u64::MAX,
            until: Nanos(u64::MAX),
        };
        self.is_tapped = true;
        for ring in &mut self.commands {
            ring.push(WorkerCommand::StartTap(TapId(0), request)).unwrap();
        }
    }

    /// Takes the records of taps.
    ///
    /// # Errors
    /// The stages differ from what the fast path would have done with a packet.
    pub fn take_records(&mut self) -> Result<(), String> {
        for item in self.records.iter_mut().flat_map(|ring| core::iter::from_fn(|| ring.pop().ok()))
        {
            match item {
                TapItem::End(_) => self.reported.pkts += 1,
                TapItem::FastPath(answer) => {
                    let reports = &mut self.reported;
                    match answer {
                        FastPathTrialResult::Sends(_) => reports.would_send += 1,
                        FastPathTrialResult::Queues(_) => reports.would_queue += 1,
                        FastPathTrialResult::Leaves(LeaveReason::Unnamed) => {
                            return Err(
                                "the fast path leaves a packet, and nobody knows why".to_owned()
                            );
                        }
                        FastPathTrialResult::Leaves(_) | FastPathTrialResult::LeavesUnruled(_) => {
                            reports.would_leave += 1;
                        }
                    }
                    if let FastPathTrialResult::Sends(frame) | FastPathTrialResult::Queues(frame) =
                        answer
                        && frame.difference.is_some()
                    {
                        return Err(format!("stages and fast path differ: {answer:?}"));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The counts of reports by taps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TapReports {
    /// Packets.
    pub pkts: u64,
    /// Packets that the fast path would send.
    pub would_send: u64,
    /// Packets that it would queue for their rates.
    pub would_queue: u64,
    /// Packets that it would leave to the stages.
    pub would_leave: u64,
}
