//! The utilization of the store, from which the node derives the load that it reports.

use adit_types::limits::usage_slots_max;

use crate::alloc::percent;
use crate::store::SessionStore;

impl SessionStore {
    /// Returns the utilization of the scarcest resource among session indices, TEIDs, usage
    /// counters and the pools of UE addresses. Identifiers that wait for a reclaim count as used.
    /// Unit: per cent, 0 to 100.
    #[must_use]
    pub fn fill_percent(&self) -> u8 {
        let reserved = self.reserved();
        let teids_max = 1_usize.checked_shl(self.slot_bits()).unwrap_or(usize::MAX);
        let fullest = [
            percent(reserved.sessions, self.sessions_max()),
            percent(reserved.teids, teids_max),
            percent(reserved.usage_slots, usage_slots_max(self.sessions_max())),
            self.ue_pools.fill_percent(),
        ];
        fullest.into_iter().max().unwrap_or(0)
    }
}
