//! Taps at the workers, which must change nothing.

use adit_rules::{TapFilter, TapId, TapItem, TapRequest, WorkerCommand};
use adit_types::Nanos;

use super::World;

impl World {
    /// Starts a tap at every worker.
    pub fn start_tap(&mut self, filter: TapFilter) {
        let request = TapRequest {
            filter,
            has_stages: true,
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
    pub(super) fn count_records(&mut self) {
        for ring in &mut self.records {
            while let Ok(item) = ring.pop() {
                self.reported += u64::from(matches!(item, TapItem::End(_)));
            }
        }
    }
}
