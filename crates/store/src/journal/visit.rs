//! Reads the live records of a journal.

use crate::error::StoreError;
use crate::files::Files;
use crate::format::{COMMIT_HEADER_BYTES, Groups};
use crate::journal::Journal;
use crate::journal::commit::place_of;
use crate::record::{RecordKey, RecordKind};
use crate::scan::ScanStep;

impl<F: Files> Journal<F> {
    /// Reads the segments that have records of these kinds, one after the other.
    pub(super) fn visit_kinds(
        &mut self,
        kinds: &[RecordKind],
        visitor: &mut dyn FnMut(RecordKey<'_>, &[u8]),
    ) -> Result<(), StoreError> {
        let segments = self.index.segments_with(kinds);
        for segment in &self.chain {
            let number = segment.short_number();
            if !segments.contains(&number) {
                continue;
            }
            let mut scan = segment.scan();
            while scan.at < segment.at {
                let commit = match segment.next_scan_step(&mut self.files, &mut scan)? {
                    ScanStep::Commit(commit) => commit,
                    ScanStep::Gap(gap) => {
                        return Err(segment.damaged_from(gap.at, self.groups.durable().0));
                    }
                };
                let groups = Groups::new(&scan.content, COMMIT_HEADER_BYTES);
                for placed in groups.flat_map(|group| group.changes()) {
                    let key = placed.change.key;
                    let place = place_of(number, commit.at, placed.at, placed.len);
                    let Some(value) = placed.change.value else { continue };
                    if kinds.contains(&key.kind) && self.index.get(key) == Some(place) {
                        visitor(key, value);
                    }
                }
            }
        }
        Ok(())
    }
}
