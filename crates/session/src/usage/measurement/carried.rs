//! Measurements that continue in the counters of a later process.
//!
//! A reading is the sum of the previous process's counts and the present counters, so it never
//! decreases. A limit is a value of the reading; workers compare the present counters only, so the
//! previous part is subtracted from the limit.

use adit_rules::{UsageCounts, UsageLimits, UsageSource};
use adit_types::UsageSlot;

use super::Measurement;

impl Measurement {
    /// The URR's own counters, or the weighted ones of its credit pool, and the counts of previous
    /// ones.
    pub(crate) fn counts(&self, source: &dyn UsageSource) -> UsageCounts {
        let present = self.present_counts(source);
        self.carried.as_deref().map_or(present, |carried| present.plus(*carried))
    }

    /// Continues in other counters: the reading stays `kept`. The members of a credit pool have to
    /// move first.
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

    /// Replaces the counters of a credit pool's members.
    pub(crate) fn move_members(&mut self, to: impl Fn(UsageSlot) -> UsageSlot) {
        for (slot, _) in &mut self.members.of {
            *slot = to(*slot);
        }
    }

    /// A new measurement or a part of one begins; its first packet is yet to come.
    pub(super) fn begin_part(&mut self) {
        self.renewed = true;
        if let Some(carried) = &mut self.carried {
            carried.first = None;
        }
    }

    /// Limits of all counts, as such of the present counters.
    pub(super) fn limits_of_present(&self, limits: UsageLimits) -> UsageLimits {
        let UsageLimits { total_bytes, ul_bytes, dl_bytes } = limits;
        let both = |carried: &UsageCounts| carried.ul_bytes.wrapping_add(carried.dl_bytes);
        UsageLimits {
            total_bytes: self.of_present(total_bytes, both),
            ul_bytes: self.of_present(ul_bytes, |carried| carried.ul_bytes),
            dl_bytes: self.of_present(dl_bytes, |carried| carried.dl_bytes),
        }
    }

    /// Limits of dropped packets and octets, as such of the present counters.
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
