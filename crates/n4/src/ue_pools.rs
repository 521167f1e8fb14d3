//! Pools of UE addresses as CP functions hear of them: which there are, when an association is set
//! up, and how full they are, while it lasts.
//!
//! Only pools with an identity are told of. How full they are is looked at once per interval, and
//! told to CP functions that want to know when it moved by a step, or when what they were told runs
//! out. Spec: TS 29.244 §5.21.3, §7.4.4.1, §7.4.4.3.1.

use core::net::SocketAddr;

use adit_pfcp::grouped::{UeIpAddressPoolInformation, UeIpAddressUsageInformation};
use adit_pfcp::ie::{
    CpFunctionFeatures, IpVersion, Metric, NetworkInstance, NumberOfUeIpAddresses, SNssai,
    SequenceNumber, UeIpAddressPoolIdentity, ValidityTimer,
};
use adit_pfcp::message::AssociationUpdateRequest;
use adit_session::{OwnerId, UePool};
use adit_types::Nanos;
use adit_types::limits::ANNOUNCED_POOLS_MAX;

use crate::node::Node;
use crate::transaction::RequestPurpose;

/// Percentage points of usage that are worth telling.
const USAGE_STEP: u8 = 5;

/// Time between two looks, hence between two reports to one CP function.
const INTERVAL: Nanos = Nanos::from_secs(10);

/// How long a report is valid. Unit: seconds.
const VALIDITY_S: u16 = 3600;

/// What was last computed, for all CP functions alike.
#[derive(Debug, Default)]
pub(crate) struct PoolUsage {
    /// Of the pools that are told of. Unit: per cent, in steps.
    metrics: Vec<u8>,
    /// Grows with every change.
    sequence: u32,
    next_look: Nanos,
}

/// What a CP function was told last, and when.
pub(crate) type PoolUsageReported = Option<(u32, Nanos)>;

/// The pools that are told of, in the order of the configuration.
fn announced(pools: &[UePool]) -> impl Iterator<Item = (usize, &UePool, &str)> {
    let named = pools.iter().enumerate();
    let named = named.filter_map(|(at, pool)| Some((at, pool, pool.identity.as_deref()?)));
    named.take(ANNOUNCED_POOLS_MAX)
}

fn slice(pool: &UePool) -> Option<SNssai> {
    pool.s_nssai.map(|slice| SNssai { sst: slice.sst, sd: slice.sd.unwrap_or(SNssai::NO_SD) })
}

/// The slice as sessions know it.
#[must_use]
pub fn session_s_nssai(told: SNssai) -> adit_session::SliceIdentity {
    let sd = Some(told.sd).filter(|sd| *sd != SNssai::NO_SD);
    adit_session::SliceIdentity { sst: told.sst, sd }
}

/// Parts of the groups of a message, which borrow from it.
pub(crate) struct PoolAnnouncement<'a> {
    pools: Vec<(&'a UePool, [UeIpAddressPoolIdentity<'a>; 1], Vec<SNssai>)>,
}

impl<'a> PoolAnnouncement<'a> {
    /// Of the pools that have an identity.
    pub fn new(pools: &'a [UePool]) -> Self {
        let parts = announced(pools).map(|(_, pool, identity)| {
            let identity = [UeIpAddressPoolIdentity(identity.as_bytes())];
            (pool, identity, slice(pool).into_iter().collect())
        });
        Self { pools: parts.collect() }
    }

    /// UE IP Address Pool Information groups. Spec: TS 29.244 §7.4.4.1.
    pub fn groups(&self) -> Vec<UeIpAddressPoolInformation<'_>> {
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

impl Node {
    /// Tells how full the pools are, to whom it is news.
    pub(crate) fn report_pool_usage(&mut self, now: Nanos) {
        if now < self.pool_usage.next_look || !self.has_reported_pools() {
            return;
        }
        self.pool_usage.next_look = now + INTERVAL;
        let metrics: Vec<u8> = {
            let usage: Vec<(u64, u64)> = self.sessions.store().ue_pool_usage().collect();
            let pools = &self.config.store.provisioning.ue_pools;
            let of = |at: usize| usage.get(at).copied().unwrap_or_default();
            announced(pools).map(|(at, ..)| stepped(of(at))).collect()
        };
        if metrics != self.pool_usage.metrics {
            self.pool_usage.metrics = metrics;
            self.pool_usage.sequence = self.pool_usage.sequence.wrapping_add(1);
        }
        let sequence = self.pool_usage.sequence;
        let half = Nanos::from_secs(u64::from(VALIDITY_S) / 2);
        let mut told: Vec<(OwnerId, SocketAddr)> = Vec::new();
        for peer in self.peers.values_mut() {
            let Some(association) = peer.association.as_ref().filter(|a| wants(a)) else {
                continue;
            };
            let is_news = |(known, at): (u32, Nanos)| known != sequence || at + half <= now;
            if peer.pool_usage_reported.is_none_or(is_news) {
                peer.pool_usage_reported = Some((sequence, now));
                let to = SocketAddr::new(association.address, association.port);
                told.push((association.owner, to));
            }
        }
        for (owner, to) in told {
            self.send_pool_usage(now, owner, to);
        }
    }

    fn send_pool_usage(&mut self, now: Nanos, owner: OwnerId, to: SocketAddr) {
        let pools = self.config.store.provisioning.ue_pools.clone();
        let usage: Vec<(u64, u64)> = self.sessions.store().ue_pool_usage().collect();
        let sequence = SequenceNumber(self.pool_usage.sequence);
        let metrics = self.pool_usage.metrics.iter();
        let groups: Vec<_> = announced(&pools)
            .zip(metrics)
            .map(|((at, pool, identity), &metric)| {
                let size = usage.get(at).map_or(0, |(_, size)| *size);
                let count = Some(u32::try_from(size).unwrap_or(u32::MAX));
                let count = match pool.is_ipv4() {
                    true => NumberOfUeIpAddresses { v4: count, v6: None },
                    false => NumberOfUeIpAddresses { v4: None, v6: count },
                };
                let name = pool.network_instance.as_deref().unwrap_or_default();
                let mut group = UeIpAddressUsageInformation::new(
                    sequence,
                    Metric(metric),
                    ValidityTimer(VALIDITY_S),
                    count,
                    NetworkInstance(name.as_bytes()),
                );
                group.pool_identity = Some(UeIpAddressPoolIdentity(identity.as_bytes()));
                group.s_nssai = slice(pool);
                group
            })
            .collect();
        let node_id = self.config.node_id.clone();
        let mut body = AssociationUpdateRequest::new(node_id.to_ie());
        body.ue_ip_address_usages = groups.as_slice().into();
        self.counters.scalars.pool_usage_reports += 1;
        self.send_request(now, to, &body, RequestPurpose::AssociationUpdate { owner });
    }

    /// When pools are looked at next, while somebody wants to know.
    pub(crate) fn next_pool_usage(&self) -> Option<Nanos> {
        self.has_reported_pools().then_some(self.pool_usage.next_look)
    }

    fn has_reported_pools(&self) -> bool {
        let pools = &self.config.store.provisioning.ue_pools;
        announced(pools).next().is_some() && self.associations().any(wants)
    }
}

fn wants(association: &crate::Association) -> bool {
    association.cp_function_features & u64::from(CpFunctionFeatures::UIAUR.bits()) != 0
}

/// Used addresses of all: per cent in steps, with the last one only when nothing is left.
fn stepped((used, size): (u64, u64)) -> u8 {
    let percent = used.saturating_mul(100).checked_div(size).unwrap_or(100).min(100);
    let percent = u8::try_from(percent).unwrap_or(100);
    percent - percent % USAGE_STEP
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_moves_in_steps_up_to_the_whole() {
        let steps = [(0, 10), (4, 100), (5, 100), (99, 100), (100, 100), (0, 0)].map(stepped);
        assert_eq!(steps, [0, 0, 5, 95, 100, 100]);
    }
}
