//! Measurements that continue in the counters of another process.
//!
//! A reading is the sum of the counts of previous processes and the present counters, so it never
//! decreases. A limit is a value of the reading, but workers compare only the present counters, so
//! the previous counts are subtracted from the limit.

use adit_rules::{UsageCounts, UsageLimits, UsageSource};
use adit_types::UsageSlot;

use super::Measurement;

impl Measurement {
    /// Returns the counters of the URR, or the weighted sum of a credit pool's members, plus the
    /// counts of previous processes.
    pub(crate) fn counts(&self, source: &dyn UsageSource) -> UsageCounts {
        let present = self.present_counts(source);
        self.carried.as_deref().map_or(present, |carried| present.plus(*carried))
    }

    /// Continues in other counters, with the counts `kept` from the previous ones. For a credit
    /// pool, call [`Measurement::move_members`] first.
    pub(crate) fn resume(
        &mut self,
        slot: UsageSlot,
        generation: u32,
        kept: UsageCounts,
        source: &dyn UsageSource,
    ) {
        self.slot = slot;
        self.generation = generation;
        let carried = kept.minus(self.present_counts(source));
        self.carried = (carried != UsageCounts::default()).then(|| Box::new(carried));
    }

    /// Replaces the counters of a credit pool's members: `to` returns the new slot.
    pub(crate) fn move_members(&mut self, to: impl Fn(UsageSlot) -> UsageSlot) {
        for (slot, _) in &mut self.members.of {
            *slot = to(*slot);
        }
    }

    /// Begins a measurement or a part of it, whose first packet has not arrived yet.
    pub(super) fn begin_part(&mut self) {
        self.renewed = true;
        if let Some(carried) = &mut self.carried {
            carried.first = None;
        }
    }

    /// Converts limits of the reading to limits of the present counters.
    pub(super) fn limits_of_present(&self, limits: UsageLimits) -> UsageLimits {
        let UsageLimits { total_bytes, ul_bytes, dl_bytes } = limits;
        let both = |carried: &UsageCounts| carried.ul_bytes.wrapping_add(carried.dl_bytes);
        UsageLimits {
            total_bytes: self.of_present(total_bytes, both),
            ul_bytes: self.of_present(ul_bytes, |carried| carried.ul_bytes),
            dl_bytes: self.of_present(dl_bytes, |carried| carried.dl_bytes),
        }
    }

    /// Converts limits of dropped packets and octets to limits of the present counters.
    pub(super) fn dropped_of_present(&self, pkts: u64, bytes: u64) -> (u64, u64) {
        (
            self.of_present(pkts, |carried| carried.dropped_dl_pkts),
            self.of_present(bytes, |carried| carried.dropped_dl_bytes),
        )
    }

    fn of_present(&self, limit: u64, carried: impl Fn(&UsageCounts) -> u64) -> u64 {
        match self.carried.as_deref() {
            Some(counts) if limit != u64::MAX => {
                limit.saturating_sub_signed(carried(counts).cast_signed())
            }
            _ => limit,
        }
    }
}
