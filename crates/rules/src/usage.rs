//! Usage reporting rules as workers run them, and their counters.
//!
//! Counters only grow; a measurement is the difference of two readings. Octets are those of the
//! user's IP packets, from the IP header on, without outer headers, link headers and padding. A
//! packet is counted if its gates are open and its FAR forwards it, whatever happens to it later; a
//! packet that a closed gate stops is counted only for a URR that measures before QoS enforcement.
//! Spec: TS 29.244 §5.2.2.

use core::fmt;

use adit_types::{Nanos, UrrId, UsageSlot};

use crate::sdf::PacketFilter;

/// A usage reporting rule as a worker applies it. Spec: TS 29.244 §7.5.2.4.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrrEntry {
    /// The rule's identifier, for reports and traces.
    pub id: UrrId,
    /// The counters of the URR's usage.
    pub slot: UsageSlot,
    /// Distinguishes successive entries of one URR: a worker reports each limit and the first
    /// packet once per generation.
    pub generation: u32,
    /// Counter values at which the worker reports.
    pub report: UsageLimits,
    /// Counter values at which the worker stops packets.
    pub quota: UsageLimits,
    /// How many dropped downlink packets and octets are reported; `u64::MAX` for never.
    pub report_dropped: (u64, u64),
    /// True if the quota is used up or withdrawn, so that packets are stopped.
    pub stopped: bool,
    /// The FAR of packets that are stopped: index in `SessionRules::fars`. `None` drops them.
    pub quota_far: Option<u16>,
    /// Filters of traffic that passes and is counted even while packets are stopped.
    pub exempt: Vec<PacketFilter>,
    /// The credit pool from which the URR draws: index in `SessionRules::urrs`.
    pub pool: Option<u16>,
    /// For a credit pool, the members whose usage adds up to the pool's; empty for other URRs.
    pub members: PoolMembers,
    /// True to report the first packet of this generation.
    pub report_start: bool,
    /// True to count also packets that a closed gate stops.
    pub before_qos: bool,
}

/// The weight 1 in [`PoolMembers::of`].
pub const POOL_WEIGHT_ONE: u64 = 1_000_000;

/// The counters that make up the usage of a credit pool. Spec: TS 29.244 §7.5.2.4, table 7.5.2.4-2.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct PoolMembers {
    /// The counters, each with its weight. Unit: millionths.
    pub of: Vec<(UsageSlot, u64)>,
    /// Octets to add to the weighted sum, uplink and downlink, so that the total does not jump when
    /// members change.
    pub base_bytes: (u64, u64),
}

impl PoolMembers {
    /// Returns the weighted octets, uplink and downlink; `volume` returns those of one member.
    #[must_use]
    pub fn bytes(&self, volume: impl Fn(UsageSlot) -> (u64, u64)) -> (u64, u64) {
        let mut sum = (0_u128, 0_u128);
        for &(slot, weight) in &self.of {
            let (uplink, downlink) = volume(slot);
            sum.0 += u128::from(uplink) * u128::from(weight);
            sum.1 += u128::from(downlink) * u128::from(weight);
        }
        let whole =
            |sum: u128| u64::try_from(sum / u128::from(POOL_WEIGHT_ONE)).unwrap_or(u64::MAX);
        let (uplink, downlink) = self.base_bytes;
        (uplink.wrapping_add(whole(sum.0)), downlink.wrapping_add(whole(sum.1)))
    }
}

/// Counter values at which an action follows. `u64::MAX` is never. Unit: octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsageLimits {
    /// Both directions together.
    pub total_bytes: u64,
    /// Towards the data network.
    pub ul_bytes: u64,
    /// Towards the UE.
    pub dl_bytes: u64,
}

impl UsageLimits {
    /// No limit.
    pub const NONE: Self = Self { total_bytes: u64::MAX, ul_bytes: u64::MAX, dl_bytes: u64::MAX };

    /// True if there is no limit.
    #[inline]
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    /// Returns how many octets of any direction can be counted before a limit may be reached.
    #[inline]
    #[must_use]
    pub fn distance(&self, ul_bytes: u64, dl_bytes: u64) -> u64 {
        let total_bytes = ul_bytes.saturating_add(dl_bytes);
        let uplink = self.ul_bytes.saturating_sub(ul_bytes);
        let downlink = self.dl_bytes.saturating_sub(dl_bytes);
        uplink.min(downlink).min(self.total_bytes.saturating_sub(total_bytes))
    }

    /// True if these counter values reach one of the limits.
    #[inline]
    #[must_use]
    pub const fn reached(&self, ul_bytes: u64, dl_bytes: u64) -> bool {
        ul_bytes >= self.ul_bytes
            || dl_bytes >= self.dl_bytes
            || ul_bytes.saturating_add(dl_bytes) >= self.total_bytes
    }
}

/// The counts of all workers in one usage slot since the process started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsageCounts {
    /// Octets towards the data network.
    pub ul_bytes: u64,
    /// Octets towards the UE.
    pub dl_bytes: u64,
    /// Packets towards the data network.
    pub ul_pkts: u64,
    /// Packets towards the UE.
    pub dl_pkts: u64,
    /// Octets towards the UE that rules dropped; not among the above.
    pub dropped_dl_bytes: u64,
    /// Packets towards the UE that rules dropped; not among the above.
    pub dropped_dl_pkts: u64,
    /// When the first packet of the requested generation was counted.
    pub first: Option<Nanos>,
    /// When the last packet was counted.
    pub last: Option<Nanos>,
}

impl UsageCounts {
    /// Returns the sum of the counts of two workers.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            ul_bytes: self.ul_bytes.wrapping_add(other.ul_bytes),
            dl_bytes: self.dl_bytes.wrapping_add(other.dl_bytes),
            ul_pkts: self.ul_pkts.wrapping_add(other.ul_pkts),
            dl_pkts: self.dl_pkts.wrapping_add(other.dl_pkts),
            dropped_dl_bytes: self.dropped_dl_bytes.wrapping_add(other.dropped_dl_bytes),
            dropped_dl_pkts: self.dropped_dl_pkts.wrapping_add(other.dropped_dl_pkts),
            first: [self.first, other.first].into_iter().flatten().min(),
            last: self.last.max(other.last),
        }
    }

    /// Returns what to add to `other` to get `self`: `other.plus(self.minus(other))` has the octets
    /// and packets of `self`. Its first and last packet are those of `self`, unless `other` has an
    /// earlier first or a later last one.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            ul_bytes: self.ul_bytes.wrapping_sub(other.ul_bytes),
            dl_bytes: self.dl_bytes.wrapping_sub(other.dl_bytes),
            ul_pkts: self.ul_pkts.wrapping_sub(other.ul_pkts),
            dl_pkts: self.dl_pkts.wrapping_sub(other.dl_pkts),
            dropped_dl_bytes: self.dropped_dl_bytes.wrapping_sub(other.dropped_dl_bytes),
            dropped_dl_pkts: self.dropped_dl_pkts.wrapping_sub(other.dropped_dl_pkts),
            ..self
        }
    }
}

/// The interface by which the control plane reads counters. Reading has no effect.
pub trait UsageSource: fmt::Debug + Send + Sync {
    /// Returns the counters of `slot`, summed over all workers; `first` is that of `generation`.
    fn usage(&self, slot: UsageSlot, generation: u32) -> UsageCounts;
}

/// A source whose counters are all zero.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoUsage;

impl UsageSource for NoUsage {
    fn usage(&self, _: UsageSlot, _: u32) -> UsageCounts {
        UsageCounts::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_reached_with_the_octet_that_meets_one() {
        let only = |edit: fn(&mut UsageLimits)| {
            let mut limits = UsageLimits::NONE;
            edit(&mut limits);
            limits
        };
        let uplink = only(|limits| limits.ul_bytes = 10);
        assert_eq!([9, 10].map(|bytes| uplink.reached(bytes, 99)), [false, true]);
        let downlink = only(|limits| limits.dl_bytes = 10);
        assert_eq!([9, 10].map(|bytes| downlink.reached(99, bytes)), [false, true]);
        let total = only(|limits| limits.total_bytes = 10);
        assert_eq!([4, 5].map(|bytes| total.reached(bytes, 5)), [false, true]);
        assert!(!UsageLimits::NONE.reached(u64::MAX - 1, 0));
    }

    #[test]
    fn usage_of_a_pool_is_the_weighted_sum_of_its_members_and_the_base() {
        let of = vec![(UsageSlot(1), POOL_WEIGHT_ONE), (UsageSlot(2), POOL_WEIGHT_ONE / 2)];
        let pool = PoolMembers { of, base_bytes: (5, 6) };
        let volume = |slot: UsageSlot| (100 * u64::from(slot.0), 1000 * u64::from(slot.0));
        assert_eq!(pool.bytes(volume), (5 + 100 + 100, 6 + 1000 + 1000));
        let nothing = PoolMembers { of: Vec::new(), ..pool };
        assert_eq!(nothing.bytes(volume), (5, 6));
    }
}
