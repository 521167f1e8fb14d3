//! The sessions that hold UE addresses and framed routes, by routing domain.

use core::net::{IpAddr, Ipv4Addr};
use std::collections::HashMap;

use adit_rules::SessionKey;
use adit_rules::rule::ue_ipv6_key;
use adit_types::limits::framed_routes_max;
use adit_types::{DomainId, IpPrefix, SessionIndex};

/// The addresses and routes that sessions hold in one routing domain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct DomainClaims {
    v4: HashMap<Ipv4Addr, SessionIndex>,
    v6: HashMap<u64, SessionIndex>,
    framed: HashMap<IpPrefix, SessionIndex>,
}

/// The addresses and routes that sessions hold. `TeidAllocator` has the holders of TEIDs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct UeClaims {
    /// Claims by `DomainId`.
    domains: Vec<DomainClaims>,
}

impl UeClaims {
    /// Makes an index without claims, with room for `sessions_max` addresses of each kind in the
    /// first domain: a hash table that grows would move all of them while N4 waits.
    pub(crate) fn with_capacity(sessions_max: usize) -> Self {
        let claims = DomainClaims {
            v4: HashMap::with_capacity(sessions_max),
            v6: HashMap::with_capacity(sessions_max),
            framed: HashMap::new(),
        };
        Self { domains: vec![claims] }
    }

    fn at(&self, domain: DomainId) -> Option<&DomainClaims> {
        self.domains.get(usize::from(domain.0))
    }

    /// Returns the session that holds `key`.
    pub(crate) fn holder(&self, key: SessionKey) -> Option<SessionIndex> {
        let found = match key {
            SessionKey::Teid(_) => None,
            SessionKey::UeIpv4(domain, addr) => self.at(domain)?.v4.get(&addr),
            SessionKey::UeIpv6(domain, upper) => self.at(domain)?.v6.get(&upper),
            SessionKey::Framed(domain, prefix) => self.at(domain)?.framed.get(&prefix),
        };
        found.copied()
    }

    /// Returns the session of the UE with this IPv4 address, or with the /64 of this IPv6 address,
    /// in the first domain that has one.
    pub(crate) fn session_of_ue(&self, addr: IpAddr) -> Option<SessionIndex> {
        let find = |domain: &DomainClaims| match addr {
            IpAddr::V4(addr) => domain.v4.get(&addr).copied(),
            IpAddr::V6(addr) => domain.v6.get(&ue_ipv6_key(addr)).copied(),
        };
        self.domains.iter().find_map(find)
    }

    /// Assigns `key` to `session`.
    pub(crate) fn insert(&mut self, key: SessionKey, session: SessionIndex) {
        let Some(domain) = key.domain() else { return };
        let at = usize::from(domain.0);
        if self.domains.len() <= at {
            self.domains.resize_with(at + 1, DomainClaims::default);
        }
        let Some(claims) = self.domains.get_mut(at) else { return };
        match key {
            SessionKey::Teid(_) => {}
            SessionKey::UeIpv4(_, addr) => drop(claims.v4.insert(addr, session)),
            SessionKey::UeIpv6(_, upper) => drop(claims.v6.insert(upper, session)),
            SessionKey::Framed(_, prefix) => drop(claims.framed.insert(prefix, session)),
        }
    }

    /// Removes `key` from its session.
    pub(crate) fn remove(&mut self, key: SessionKey) {
        let claims = key.domain().and_then(|domain| self.domains.get_mut(usize::from(domain.0)));
        let Some(claims) = claims else { return };
        match key {
            SessionKey::Teid(_) => {}
            SessionKey::UeIpv4(_, addr) => drop(claims.v4.remove(&addr)),
            SessionKey::UeIpv6(_, upper) => drop(claims.v6.remove(&upper)),
            SessionKey::Framed(_, prefix) => drop(claims.framed.remove(&prefix)),
        }
        // Removes empty domains at the end, so that stores with the same claims are equal.
        let is_unused = |last: &DomainClaims| *last == DomainClaims::default();
        while self.domains.len() > 1 && self.domains.last().is_some_and(is_unused) {
            self.domains.pop();
        }
    }

    /// Returns how many framed routes all sessions have.
    pub(crate) fn framed_count(&self) -> usize {
        self.domains.iter().map(|claims| claims.framed.len()).sum()
    }

    /// True if a domain has no room for those of `keys` that no session holds. The limit per domain
    /// is `keys_max` addresses of each family.
    pub(crate) fn exceeds(&self, keys: &[SessionKey], keys_max: usize) -> bool {
        let has_room = |claims: &DomainClaims| {
            let most = claims.v4.len().max(claims.v6.len()) + keys.len();
            most <= keys_max && claims.framed.len() + keys.len() <= framed_routes_max(keys_max)
        };
        if keys.len() <= keys_max.min(framed_routes_max(keys_max))
            && self.domains.iter().all(has_room)
        {
            return false;
        }
        let is_new = |key: &&SessionKey| self.holder(**key).is_none();
        let mut new: HashMap<DomainId, [usize; 3]> = HashMap::new();
        for key in keys.iter().filter(is_new) {
            let (domain, kind) = match *key {
                SessionKey::Teid(_) => continue,
                SessionKey::UeIpv4(domain, _) => (domain, 0),
                SessionKey::UeIpv6(domain, _) => (domain, 1),
                SessionKey::Framed(domain, _) => (domain, 2),
            };
            if let Some(count) = new.entry(domain).or_default().get_mut(kind) {
                *count += 1;
            }
        }
        new.into_iter().any(|(domain, [v4, v6, framed])| {
            let has = self
                .at(domain)
                .map_or([0; 3], |claims| [claims.v4.len(), claims.v6.len(), claims.framed.len()]);
            has[0] + v4 > keys_max
                || has[1] + v6 > keys_max
                || has[2] + framed > framed_routes_max(keys_max)
        })
    }
}
