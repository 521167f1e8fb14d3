//! Reports the usage of the pools of UE addresses; see [`crate::ue_pools`].

use core::net::SocketAddr;

use adit_pfcp::grouped::UeIpAddressUsageInformation;
use adit_pfcp::ie::{
    Metric, NetworkInstance, NumberOfUeIpAddresses, SequenceNumber, UeIpAddressPoolIdentity,
    ValidityTimer,
};
use adit_pfcp::message::AssociationUpdateRequest;
use adit_session::OwnerId;
use adit_types::Nanos;

use crate::node::Node;
use crate::transaction::RequestPurpose;
use crate::ue_pools::{
    POOL_CHECK_INTERVAL, VALIDITY_S, announced_pools, slice, usage_in_steps, wants_pool_usage,
};

impl Node {
    /// Sends pool usage in Association Update Requests to the CP functions that have not been sent
    /// the present figures.
    pub(crate) fn report_pool_usage(&mut self, now: Nanos) {
        if now < self.pool_usage.next_look || !self.has_reported_pools() {
            return;
        }
        self.pool_usage.next_look = now + POOL_CHECK_INTERVAL;
        let metrics: Vec<u8> = {
            let usage: Vec<(u64, u64)> = self.sessions.store().ue_pool_usage().collect();
            let pools = &self.config.store.provisioning.ue_pools;
            let of = |at: usize| usage.get(at).copied().unwrap_or_default();
            announced_pools(pools)
                .map(|(at, ..)| {
                    let (used, size) = of(at);
                    usage_in_steps(used, size)
                })
                .collect()
        };
        if metrics != self.pool_usage.metrics {
            self.pool_usage.metrics = metrics;
            self.pool_usage.sequence = self.pool_usage.sequence.wrapping_add(1);
        }
        let sequence = self.pool_usage.sequence;
        let half = Nanos::from_secs(u64::from(VALIDITY_S) / 2);
        let mut told: Vec<(OwnerId, SocketAddr)> = Vec::new();
        for peer in self.peers.iter_mut() {
            let Some(association) = peer.association.as_ref().filter(|a| wants_pool_usage(a))
            else {
                continue;
            };
            let is_news = |(known, at): (u32, Nanos)| known != sequence || at + half <= now;
            if peer.pool_usage_reported.is_none_or(is_news) {
                peer.pool_usage_reported = Some((sequence, now));
                let to = association.socket();
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
        let groups: Vec<_> = announced_pools(&pools)
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

    /// Returns when pool usage is checked next; `None` if no CP function requests reports.
    pub(crate) fn next_pool_usage(&self) -> Option<Nanos> {
        self.has_reported_pools().then_some(self.pool_usage.next_look)
    }

    fn has_reported_pools(&self) -> bool {
        let pools = &self.config.store.provisioning.ue_pools;
        announced_pools(pools).next().is_some() && self.associations().any(wants_pool_usage)
    }
}
