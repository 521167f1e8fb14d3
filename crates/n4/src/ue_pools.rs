//! Pools of UE addresses as CP functions see them: announced when an association is set up, and
//! with reports of their usage while it exists.
//!
//! Only pools with an identity are announced. Their usage is checked once per interval, and
//! reported to CP functions that support it when it has changed by a step, or before their last
//! report expires. Spec: TS 29.244 §5.21.3, §7.4.4.1, §7.4.4.3.1.

use adit_pfcp::grouped::UeIpAddressPoolInformation;
use adit_pfcp::ie::{
    CpFunctionFeatures, IpVersion, NetworkInstance, SNssai, UeIpAddressPoolIdentity,
};
use adit_session::UePool;
use adit_types::Nanos;
use adit_types::limits::ANNOUNCED_POOLS_MAX;

/// Percentage points of usage that trigger a report.
const USAGE_STEP_PERCENT: u8 = 5;

/// Time between two checks, and so the minimum time between two reports to one CP function.
pub(crate) const POOL_CHECK_INTERVAL: Nanos = Nanos::from_secs(10);

/// How long a report is valid. Unit: seconds.
pub(crate) const VALIDITY_S: u16 = 3600;

/// The usage at the last check, the same for all CP functions.
#[derive(Debug, Default)]
pub(crate) struct PoolUsage {
    /// The usage of each announced pool. Unit: per cent, in steps.
    pub metrics: Vec<u8>,
    /// Incremented by every change.
    pub sequence: u32,
    pub next_look: Nanos,
}

/// Sequence number and time of the last report to a CP function; `None` before the first.
pub(crate) type LastReportedPoolUsage = Option<(u32, Nanos)>;

/// Returns the announced pools with their indices and identities, in the order of the
/// configuration.
pub(crate) fn announced_pools(pools: &[UePool]) -> impl Iterator<Item = (usize, &UePool, &str)> {
    let named = pools.iter().enumerate();
    let named = named.filter_map(|(at, pool)| Some((at, pool, pool.identity.as_deref()?)));
    named.take(ANNOUNCED_POOLS_MAX)
}

pub(crate) fn slice(pool: &UePool) -> Option<SNssai> {
    pool.s_nssai.map(|slice| SNssai { sst: slice.sst, sd: slice.sd.unwrap_or(SNssai::NO_SD) })
}

/// Converts a slice to the type of the session store.
#[must_use]
pub fn session_s_nssai(told: SNssai) -> adit_session::SliceIdentity {
    let sd = Some(told.sd).filter(|sd| *sd != SNssai::NO_SD);
    adit_session::SliceIdentity { sst: told.sst, sd }
}

/// The lists that the grouped IEs of a message borrow from.
pub(crate) struct PoolAnnouncement<'a> {
    pools: Vec<(&'a UePool, [UeIpAddressPoolIdentity<'a>; 1], Vec<SNssai>)>,
}

impl<'a> PoolAnnouncement<'a> {
    /// Prepares the announcement of the pools that have an identity.
    pub(crate) fn new(pools: &'a [UePool]) -> Self {
        let parts = announced_pools(pools).map(|(_, pool, identity)| {
            let identity = [UeIpAddressPoolIdentity(identity.as_bytes())];
            (pool, identity, slice(pool).into_iter().collect())
        });
        Self { pools: parts.collect() }
    }

    /// Returns the UE IP Address Pool Information groups. Spec: TS 29.244 §7.4.4.1.
    pub(crate) fn groups(&self) -> Vec<UeIpAddressPoolInformation<'_>> {
        let groups = self.pools.iter().map(|(pool, identity, slices)| {
            let mut group = UeIpAddressPoolInformation::new(identity.into());
            let network_instance = pool.network_instance.as_deref();
            group.network_instance = network_instance.map(|name| NetworkInstance(name.as_bytes()));
            group.s_nssais = slices.as_slice().into();
            group.ip_version = Some(if pool.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 });
            group
        });
        groups.collect()
    }
}

pub(crate) fn wants_pool_usage(association: &crate::Association) -> bool {
    association.has(CpFunctionFeatures::UIAUR)
}

/// Returns the used share in per cent, rounded down to a step, so that 100 % means that no address
/// is left.
pub(crate) fn usage_in_steps(used: u64, size: u64) -> u8 {
    let percent = used.saturating_mul(100).checked_div(size).unwrap_or(100).min(100);
    let percent = u8::try_from(percent).unwrap_or(100);
    percent - percent % USAGE_STEP_PERCENT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_moves_in_steps_up_to_the_whole() {
        let steps = [(0, 10), (4, 100), (5, 100), (99, 100), (100, 100), (0, 0)]
            .map(|(used, size)| usage_in_steps(used, size));
        assert_eq!(steps, [0, 0, 5, 95, 100, 100]);
    }
}
