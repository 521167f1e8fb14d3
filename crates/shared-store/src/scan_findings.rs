//! Findings of a scan besides the records.

use adit_store::{GroupPosition, OwnedRecordId, RecordChange, StoreChange};

use crate::checksum::RecordDamage;

/// Maximum of octets of changes gathered during a scan. Beyond it all records are scanned again.
const GATHERED_OCTETS_MAX: usize = 512 << 20;

/// Findings of a scan besides the records.
#[derive(Debug, Default)]
pub(crate) struct ScanFindings {
    pub(crate) damage: RecordDamage,
    /// The groups written during the scan, for a follower; `None` if they are not wanted.
    pub(crate) gathered: Option<GatheredGroups>,
}

/// The changes of groups that were written during a scan.
#[derive(Debug, Default)]
pub(crate) struct GatheredGroups {
    pub(crate) reached: GroupPosition,
    pub(crate) changes: Vec<RecordChange>,
    octets: usize,
}

impl GatheredGroups {
    /// Creates an empty collection; the first group to be gathered follows `reached`.
    pub(crate) fn after(reached: GroupPosition) -> Self {
        Self { reached, ..Self::default() }
    }

    pub(crate) fn note(&mut self, change: StoreChange<'_>) {
        let StoreChange { key, value } = change;
        self.octets += value.map_or(0, <[u8]>::len) + size_of::<RecordChange>();
        let (kind, name) = (key.kind, OwnedRecordId::of(key.id));
        self.changes.push(RecordChange { kind, name, value: value.map(<[u8]>::to_vec) });
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.octets > GATHERED_OCTETS_MAX
    }
}
