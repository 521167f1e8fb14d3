//! What scans find besides the records.

use crate::checksum::RecordDamage;
use crate::gathered_groups::GatheredGroups;

/// What scans find besides the records.
#[derive(Debug, Default)]
pub(crate) struct ScanFindings {
    pub(crate) damage: RecordDamage,
    /// Groups that are written meanwhile, for a follower.
    pub(crate) gathered: Option<GatheredGroups>,
}
