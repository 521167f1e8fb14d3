//! Reads the live records.

use std::collections::BTreeSet;

use crate::error::{Damage, DamageKind, StoreError};
use crate::files::Files;
use crate::format::{COMMIT_HEADER_BYTES, Groups};
use crate::journal::Journal;
use crate::journal::commit::place_of;
use crate::record::{RecordKey, RecordKind};
use crate::scan::{FoundCommit, ScanStep};

impl<F: Files> Journal<F> {
    /// Reads the segments that have records of these kinds, one after the other.
    pub(super) fn visit_kinds(
        &mut self,
        kinds: &[RecordKind],
        visitor: &mut dyn FnMut(RecordKey<'_>, &[u8]),
    ) -> Result<(), StoreError> {
        let places = kinds.iter().flat_map(|kind| self.index.places(*kind));
        let segments: BTreeSet<u32> = places.map(|place| place.segment).collect();
        for segment in &self.chain {
            let number = segment.short_number();
            if !segments.contains(&number) {
                continue;
            }
            let mut scan = segment.scan();
            while scan.at() < segment.at {
                let found = scan.next(&mut self.files, &segment.file);
                let found = found.map_err(StoreError::io("read", &segment.name()))?;
                let ScanStep::Commit(FoundCommit { at, .. }) = found else {
                    let kind = DamageKind::Sectors { first: scan.at(), end: segment.at };
                    let (file, before) = (segment.name(), Some(self.durable + 1));
                    return Err(StoreError::Damaged(vec![Damage { file, kind, after: 0, before }]));
                };
                let groups = Groups::new(scan.content(), COMMIT_HEADER_BYTES);
                for placed in groups.flat_map(|group| group.changes()) {
                    let key = placed.change.key;
                    let place = place_of(number, at, placed.at, placed.len);
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
