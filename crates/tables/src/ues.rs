//! The UEs of one routing domain: finds the sessions of packets from its data networks by the UEs'
//! addresses and the networks behind them.

use adit_rules::SessionKey;
use adit_types::limits::framed_routes_max;
use adit_types::{DomainId, InterfaceSet, SessionIndex};

use crate::framed::{FramedRoutes, FramedWriter};
use crate::key_table::{KeyRefused, KeyTable, KeyWriter};
use crate::publish::Epoch;
use crate::sync::Arc;
use crate::ue_pools::UePools;

/// The readers' side. A packet is looked up in the domain of the interface that it arrived on.
#[derive(Debug)]
pub struct UeTable {
    pools: UePools,
    /// Sessions of UE IPv4 addresses outside the pools.
    v4: Arc<KeyTable>,
    v6: Arc<KeyTable>,
    framed: Arc<FramedRoutes>,
    /// The N6 interfaces of the domain if it switches packets between its UEs locally, else none.
    local_switching: InterfaceSet,
}

/// How an address belongs to a UE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UeAddressMatch {
    /// The address is the UE's own.
    Address,
    /// The address is in a network behind the UE, with a prefix of this length.
    Framed(u32),
}

impl UeTable {
    /// Returns the domain's N6 interfaces if it switches packets between its UEs locally.
    #[inline]
    pub(crate) fn local_switching(&self) -> InterfaceSet {
        self.local_switching
    }

    /// Returns how an IPv4 address belongs to a UE; `None` if it does not.
    pub(crate) fn match_v4(&self, addr: u32) -> Option<UeAddressMatch> {
        let session = match self.pools.lookup(addr) {
            Some(session) => session,
            None => self.v4.session(addr.into()),
        };
        match session.is_some() {
            true => Some(UeAddressMatch::Address),
            false => self.framed.length_v4(addr).map(UeAddressMatch::Framed),
        }
    }

    /// Returns how the IPv6 addresses of a key belong to a UE; `None` if they do not.
    pub(crate) fn match_v6(&self, key: u64) -> Option<UeAddressMatch> {
        match self.v6.session(key).is_some() {
            true => Some(UeAddressMatch::Address),
            false => self.framed.length_v6(key).map(UeAddressMatch::Framed),
        }
    }

    /// Prefetches the cache line that [`UeTable::session_v4`] reads.
    #[inline]
    pub fn prefetch_v4(&self, addr: u32) {
        if !self.pools.prefetch(addr) {
            self.v4.prefetch(addr.into());
        }
    }

    /// Returns the session of a UE IPv4 address, or of the network behind a UE that contains it.
    /// `addr` is in host-order bits ([`core::net::Ipv4Addr::to_bits`]). `SessionIndex::NONE` on a
    /// miss.
    #[inline]
    #[must_use]
    pub fn session_v4(&self, addr: u32) -> SessionIndex {
        match self.pools.lookup(addr) {
            Some(session) if session.is_some() => session,
            pooled => self.other_session_v4(addr, pooled.is_some()),
        }
    }

    #[inline(never)]
    fn other_session_v4(&self, addr: u32, is_pooled: bool) -> SessionIndex {
        let session = match is_pooled {
            true => SessionIndex::NONE,
            false => self.v4.session(addr.into()),
        };
        if session.is_some() { session } else { self.framed.session_v4(addr) }
    }

    /// Prefetches the cache line that [`UeTable::session_v6`] reads.
    #[inline]
    pub fn prefetch_v6(&self, key: u64) {
        self.v6.prefetch(key);
    }

    /// Returns the session of a UE IPv6 key ([`adit_rules::rule::ue_ipv6_key`]), or of the network
    /// behind a UE that contains it; `SessionIndex::NONE` on a miss.
    #[inline]
    #[must_use]
    pub fn session_v6(&self, key: u64) -> SessionIndex {
        let session = self.v6.session(key);
        if session.is_some() { session } else { self.framed.session_v6(key) }
    }

    /// Finds the session of every UE IPv4 address.
    ///
    /// Shape:   reads `addrs[0..n]`; writes `out[0..n]`, `SessionIndex::NONE` on a miss; n is the
    ///          length of the shorter slice.
    /// Cost:    two passes with prefetch; one load inside the pools, else one bucket of a hash
    ///          table. Misses are then looked up in the framed routes if there are any.
    #[inline]
    pub fn lookup_v4(&self, addrs: &[u32], out: &mut [SessionIndex]) {
        addrs.iter().for_each(|addr| self.prefetch_v4(*addr));
        for (out, addr) in out.iter_mut().zip(addrs) {
            *out = self.session_v4(*addr);
        }
    }

    /// Finds the session of every UE IPv6 key. Shape and cost: see [`UeTable::lookup_v4`].
    #[inline]
    pub fn lookup_v6(&self, keys: &[u64], out: &mut [SessionIndex]) {
        keys.iter().for_each(|key| self.prefetch_v6(*key));
        for (out, key) in out.iter_mut().zip(keys) {
            *out = self.session_v6(*key);
        }
    }
}

/// The writer's side of the table of one domain's UEs.
#[derive(Debug)]
pub(crate) struct UeWriter {
    v4: KeyWriter,
    v6: KeyWriter,
    framed: FramedWriter,
}

impl UeWriter {
    /// Creates an empty table for `sessions_max` addresses of each kind, and its writer. `pools`
    /// index IPv4 addresses; for `local_switching` see [`UeTable::local_switching`].
    pub(crate) fn new(
        sessions_max: usize,
        seed: u64,
        domain: DomainId,
        local_switching: InterfaceSet,
        pools: UePools,
    ) -> (Self, UeTable) {
        // Tables of the same seed need different ids; tables without a domain have 1, 4, 5 and 8.
        let table = |number: u64| u64::from(domain.0) << 8 | number;
        let v4 = KeyWriter::new(sessions_max, seed, table(2));
        let v6 = KeyWriter::new(sessions_max, seed, table(3));
        let framed = framed_routes_max(sessions_max);
        let framed = FramedWriter::new(framed, seed, [table(6), table(7)]);
        let ues = UeTable {
            pools,
            v4: Arc::clone(v4.table()),
            v6: Arc::clone(v6.table()),
            framed: Arc::clone(framed.routes()),
            local_switching,
        };
        (Self { v4, v6, framed }, ues)
    }

    /// Maps `key` to `session`; returns whether it mapped to no session before.
    ///
    /// # Errors
    /// [`KeyRefused`] if there is no room.
    pub(crate) fn insert(
        &mut self,
        ues: &UeTable,
        key: SessionKey,
        session: SessionIndex,
    ) -> Result<bool, KeyRefused> {
        let insert = |table: &mut KeyWriter, key| {
            table.insert(key, session.0).map(|replaced| replaced.is_none())
        };
        match key {
            SessionKey::Teid(_) => Ok(false),
            SessionKey::UeIpv4(_, addr) => match ues.pools.insert(addr.to_bits(), session) {
                Some(is_new) => Ok(is_new),
                None => insert(&mut self.v4, addr.to_bits().into()),
            },
            SessionKey::UeIpv6(_, key) => insert(&mut self.v6, key),
            SessionKey::Framed(_, prefix) => self.framed.insert(prefix, session),
        }
    }

    /// Removes `key` if it maps to `session`; returns whether it did.
    pub(crate) fn remove(
        &mut self,
        ues: &UeTable,
        key: SessionKey,
        session: SessionIndex,
        epoch: Epoch,
    ) -> bool {
        match key {
            SessionKey::Teid(_) => false,
            SessionKey::UeIpv4(_, addr) => match ues.pools.remove(addr.to_bits(), session) {
                Some(is_removed) => is_removed,
                None => self.v4.remove(addr.to_bits().into(), session.0, epoch),
            },
            SessionKey::UeIpv6(_, key) => self.v6.remove(key, session.0, epoch),
            SessionKey::Framed(_, prefix) => self.framed.remove(prefix, session, epoch),
        }
    }

    pub(crate) fn reclaim(&mut self, passed: Epoch, epoch: Epoch) {
        self.v4.reclaim(passed, epoch);
        self.v6.reclaim(passed, epoch);
        self.framed.reclaim(passed, epoch);
    }
}
