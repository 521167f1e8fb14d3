//! How full the store is: the load that a UP function tells its CP functions is made of it.

use adit_types::limits::usage_slots_max;

use crate::store::SessionStore;

impl SessionStore {
    /// The fullest of what sessions take: session indices, TEIDs, usage counters, and the pool of UE
    /// addresses with the fewest left. What waits for its reclaim counts as taken.
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

/// `part` of `whole`, at most 100; a whole of nothing is full.
pub(crate) fn percent(part: usize, whole: usize) -> u8 {
    let percent = part.saturating_mul(100).checked_div(whole).unwrap_or(100);
    u8::try_from(percent.min(100)).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_is_bounded_and_rounds_down() {
        assert_eq!(percent(0, 10), 0);
        assert_eq!(percent(1, 3), 33);
        assert_eq!(percent(3, 3), 100);
        assert_eq!(percent(4, 3), 100);
        assert_eq!(percent(0, 0), 100);
        assert_eq!(percent(usize::MAX, usize::MAX), 1, "saturates instead of wrapping around");
    }
}
