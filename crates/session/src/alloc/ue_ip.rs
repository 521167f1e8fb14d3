//! UE addresses from the operator's pools: IPv4 addresses and IPv6 /64 prefixes.
//!
//! A pool first hands out addresses that were never in use, then free ones in the order of their
//! release, so that an address is unused for as long as possible before another UE gets it. Spec:
//! TS 23.501 §5.8.2.2; TS 29.244 §5.21.

use core::net::{Ipv4Addr, Ipv6Addr};
use std::collections::{HashMap, VecDeque};

use adit_rules::rule::UE_IPV6_KEY_BITS;
use adit_rules::sdf::AddrMatch;
use adit_rules::{SessionKey, UeAddresses};
use adit_types::{DomainId, Ipv6Prefix, SessionIndex};

use crate::provisioning::DomainSet;
use crate::provisioning::UePool;

/// All pools, in the order of their configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UeIpAllocator {
    pools: Vec<UeAddressPool>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct UeAddressPool {
    config: UePool,
    /// The routing domains that the pool serves.
    domains: DomainSet,
    range: PoolRange,
    /// The first position that was never in use; restored sessions may use later ones.
    fresh: u64,
    /// Free positions below `fresh`, longest free first.
    free: VecDeque<u64>,
    /// Positions in use or waiting for a reclaim.
    held: HashMap<u64, AddressHold>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AddressHold {
    Used(SessionIndex),
    /// The address was released, but workers may still use it.
    Retired,
}

/// The addresses of a pool, as numbers: `first + position` for each position below `count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PoolRange {
    is_v4: bool,
    first: u64,
    count: u64,
}

/// An address that was chosen but is not allocated yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UePlan {
    pool: usize,
    position: u64,
    pub key: SessionKey,
}

impl UePlan {
    /// Returns the index of the pool in the configuration.
    pub(crate) const fn pool(&self) -> usize {
        self.pool
    }
}

impl PoolRange {
    /// Makes the range of a pool: all addresses of an IPv4 prefix except those of the network and
    /// of broadcast, or all /64s of an IPv6 prefix.
    fn of(prefix: AddrMatch) -> Self {
        match prefix {
            AddrMatch::V4(prefix) => {
                let size = 1_u64 << (32 - u32::from(prefix.len()));
                let edge = u64::from(size > 2);
                let first = u64::from(prefix.addr().to_bits()) + edge;
                Self { is_v4: true, first, count: size - 2 * edge }
            }
            AddrMatch::V6(prefix) => {
                let bits = UE_IPV6_KEY_BITS.saturating_sub(prefix.len());
                let count = 1_u64.checked_shl(bits.into()).unwrap_or(u64::MAX);
                let first = adit_rules::rule::ue_ipv6_key(prefix.addr());
                Self { is_v4: false, first, count }
            }
            AddrMatch::Any => Self { is_v4: true, first: 0, count: 0 },
        }
    }

    /// Returns the key of the address at `position`, in the first domain.
    fn key(self, position: u64) -> SessionKey {
        let value = self.first.wrapping_add(position);
        match u32::try_from(value) {
            Ok(bits) if self.is_v4 => SessionKey::UeIpv4(DomainId(0), Ipv4Addr::from_bits(bits)),
            _ => SessionKey::UeIpv6(DomainId(0), value),
        }
    }

    fn position(self, key: SessionKey) -> Option<u64> {
        let value = match key {
            SessionKey::UeIpv4(_, addr) if self.is_v4 => u64::from(addr.to_bits()),
            SessionKey::UeIpv6(_, upper) if !self.is_v4 => upper,
            _ => return None,
        };
        value.checked_sub(self.first).filter(|&position| position < self.count)
    }
}

impl UeIpAllocator {
    pub(crate) fn new(pools: &[UePool], domains_of: impl Fn(Option<&str>) -> DomainSet) -> Self {
        let pool = |config: &UePool| UeAddressPool {
            config: config.clone(),
            domains: domains_of(config.network_instance.as_deref()),
            range: PoolRange::of(config.prefix),
            fresh: 0,
            free: VecDeque::new(),
            held: HashMap::new(),
        };
        Self { pools: pools.iter().map(pool).collect() }
    }

    /// Replaces the pools. An address that is in use or waits for a reclaim remains so in the pool
    /// that now contains it. If no pool contains it, it counts as chosen by the control plane.
    ///
    /// Cost: one step for each address in use of a pool that changed.
    pub(crate) fn set_pools(
        &mut self,
        pools: &[UePool],
        domains_of: impl Fn(Option<&str>) -> DomainSet,
    ) {
        let former = core::mem::replace(self, Self::new(pools, domains_of));
        for old in former.pools {
            let is_same = |pool: &&mut UeAddressPool| {
                pool.config.prefix == old.config.prefix && pool.domains == old.domains
            };
            if let Some(same) = self.pools.iter_mut().find(is_same) {
                let config = same.config.clone();
                *same = UeAddressPool { config, ..old };
                continue;
            }
            let domain = old.domains.iter().next().unwrap_or_default();
            for (position, hold) in old.held {
                let key = old.range.key(position).within(domain);
                let mut now = self.pools.iter_mut();
                if let Some((pool, at)) =
                    now.find_map(|pool| pool.position(key).map(|at| (pool, at)))
                {
                    pool.held.insert(at, hold);
                }
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pools.is_empty()
    }

    /// Returns how many addresses are in use or wait for a reclaim.
    pub(crate) fn reserved_count(&self) -> usize {
        self.pools.iter().map(|pool| pool.held.len()).sum()
    }

    /// Returns how full the fullest pool is; 0 if there are no pools. Unit: per cent.
    pub(crate) fn fill_percent(&self) -> u8 {
        let fill = |pool: &UeAddressPool| {
            let count = usize::try_from(pool.range.count).unwrap_or(usize::MAX);
            super::percent(pool.held.len(), count)
        };
        self.pools.iter().map(fill).max().unwrap_or(0)
    }

    /// Returns for each pool, in the order of the configuration, how many addresses are in use or
    /// wait for a reclaim, and how many there are.
    pub(crate) fn usage(&self) -> impl Iterator<Item = (u64, u64)> {
        let used = |pool: &UeAddressPool| u64::try_from(pool.held.len()).unwrap_or(u64::MAX);
        self.pools.iter().map(move |pool| (used(pool), pool.range.count))
    }

    /// Returns the indices of the pools of one family that serve one of the routing domains and, if
    /// these are given, the network instance and one of the identities.
    pub(crate) fn candidates(
        &self,
        is_v4: bool,
        network_instance: Option<&str>,
        domains: DomainSet,
        identities: &[Box<str>],
    ) -> Vec<usize> {
        let fits = |pool: &UeAddressPool| {
            let own = pool.config.network_instance.as_deref();
            let named = own.zip(network_instance);
            let serves = named.is_none_or(|(own, wanted)| own.eq_ignore_ascii_case(wanted));
            let identity = pool.config.identity.as_deref();
            pool.range.is_v4 == is_v4
                && pool.domains.intersects(domains)
                && serves
                && (identities.is_empty() || identities.iter().any(|id| Some(&**id) == identity))
        };
        (0..).zip(&self.pools).filter(|(_, pool)| fits(pool)).map(|(at, _)| at).collect()
    }

    /// True if `session` has `key` and got it from one of the pools `candidates`.
    pub(crate) fn is_from(
        &self,
        candidates: &[usize],
        key: SessionKey,
        session: SessionIndex,
    ) -> bool {
        let mut pools = candidates.iter().filter_map(|&at| self.pools.get(at));
        pools.any(|pool| pool.hold(key) == Some(AddressHold::Used(session)))
    }

    /// Chooses an address that is not `taken` from the first pool that has one; `None` if none has.
    pub(crate) fn plan(
        &self,
        candidates: &[usize],
        taken: impl Fn(SessionKey) -> bool,
    ) -> Option<UePlan> {
        candidates.iter().find_map(|&at| {
            let pool = self.pools.get(at)?;
            let position = pool.next_free(&taken)?;
            Some(UePlan { pool: at, position, key: pool.range.key(position) })
        })
    }

    /// Assigns planned addresses to `session`.
    pub(crate) fn commit(&mut self, plans: &[UePlan], session: SessionIndex) {
        for plan in plans {
            if let Some(pool) = self.pools.get_mut(plan.pool) {
                pool.take(plan.position, session);
            }
        }
    }

    /// True if `session` has `key` and got it from any pool.
    pub(crate) fn is_chosen(&self, key: SessionKey, session: SessionIndex) -> bool {
        self.pools.iter().any(|pool| pool.hold(key) == Some(AddressHold::Used(session)))
    }

    /// Records that `session` uses `key` again, which we chose in a previous run. An address that
    /// no pool contains any more counts as chosen by the control plane.
    pub(crate) fn restore(&mut self, key: SessionKey, session: SessionIndex) {
        let pools = self.pools.iter_mut();
        let found =
            pools.filter_map(|pool| pool.position(key).map(|position| (pool, position))).next();
        if let Some((pool, position)) = found.filter(|(pool, at)| !pool.held.contains_key(at)) {
            if position < pool.fresh {
                pool.free.retain(|free| *free != position);
            }
            pool.held.insert(position, AddressHold::Used(session));
        }
    }

    /// Moves an address that we chose to another session.
    pub(crate) fn hand_over(&mut self, key: SessionKey, session: SessionIndex) {
        for pool in &mut self.pools {
            let hold = pool.position(key).and_then(|position| pool.held.get_mut(&position));
            if let Some(hold @ AddressHold::Used(_)) = hold {
                *hold = AddressHold::Used(session);
            }
        }
    }

    /// Releases `key` from `session`, which keeps the keys `kept`. True if we chose the address and
    /// the session keeps it in no other domain of the pool: it then waits for a reclaim.
    pub(crate) fn retire(
        &mut self,
        key: SessionKey,
        session: SessionIndex,
        kept: &[SessionKey],
    ) -> bool {
        self.pools.iter_mut().any(|pool| {
            let Some(position) = pool.position(key) else { return false };
            let is_kept = || kept.iter().any(|&kept| pool.position(kept) == Some(position));
            let is_given_up = pool.hold(key) == Some(AddressHold::Used(session)) && !is_kept();
            if is_given_up {
                pool.held.insert(position, AddressHold::Retired);
            }
            is_given_up
        })
    }

    /// True if `key` was released and waits for a reclaim.
    pub(crate) fn is_retired(&self, key: SessionKey) -> bool {
        self.pools.iter().any(|pool| pool.hold(key) == Some(AddressHold::Retired))
    }

    /// Makes a retired address available again, after all other free ones.
    pub(crate) fn reclaim(&mut self, key: SessionKey) {
        for pool in &mut self.pools {
            let Some(position) = pool.position(key) else { continue };
            if pool.held.get(&position) == Some(&AddressHold::Retired) {
                pool.held.remove(&position);
                // A restored address may be one that the pool has never handed out.
                if position < pool.fresh {
                    pool.free.push_back(position);
                }
            }
        }
    }
}

impl UeAddressPool {
    /// Returns the position of an address in the pool; `None` for other addresses.
    fn position(&self, key: SessionKey) -> Option<u64> {
        key.domain().filter(|domain| self.domains.contains(*domain))?;
        self.range.position(key)
    }

    /// Returns who uses the address of `key`; `None` if it is free or in another pool.
    fn hold(&self, key: SessionKey) -> Option<AddressHold> {
        self.held.get(&self.position(key)?).copied()
    }

    /// Returns the next free position. Cost: one step for each address of the pool that a session
    /// has because the control plane chose it.
    fn next_free(&self, taken: impl Fn(SessionKey) -> bool) -> Option<u64> {
        let fresh =
            (self.fresh..self.range.count).filter(|position| !self.held.contains_key(position));
        let is_free = |position: &u64| !taken(self.range.key(*position));
        fresh.chain(self.free.iter().copied()).find(is_free)
    }

    /// Reserves a position. Positions that were never used and precede it become free.
    fn take(&mut self, position: u64, session: SessionIndex) {
        if position >= self.fresh {
            let passed = self.fresh..position;
            self.free.extend(passed.filter(|passed| !self.held.contains_key(passed)));
            self.fresh = position.saturating_add(1);
        } else {
            match self.free.front() == Some(&position) {
                true => drop(self.free.pop_front()),
                false => self.free.retain(|free| *free != position),
            }
        }
        self.held.insert(position, AddressHold::Used(session));
    }
}

/// Returns the addresses of keys, at most one of each family.
pub(crate) fn addresses(keys: impl IntoIterator<Item = SessionKey>) -> UeAddresses {
    let mut addresses = UeAddresses::default();
    for key in keys {
        match key {
            SessionKey::UeIpv4(_, addr) => addresses.v4 = Some(addr),
            SessionKey::UeIpv6(_, upper) => {
                let addr = Ipv6Addr::from_bits(u128::from(upper) << 64);
                addresses.v6 = Ipv6Prefix::containing(addr, UE_IPV6_KEY_BITS);
            }
            _ => {}
        }
    }
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(prefix: &str) -> UePool {
        let prefix = match prefix.contains(':') {
            true => AddrMatch::V6(prefix.parse().unwrap()),
            false => AddrMatch::V4(prefix.parse().unwrap()),
        };
        UePool { network_instance: None, identity: None, s_nssai: None, prefix }
    }

    fn take(pools: &mut UeIpAllocator, taken: impl Fn(SessionKey) -> bool) -> Option<SessionKey> {
        let plan = pools.plan(&[0], taken)?;
        pools.commit(&[plan], SESSION);
        Some(plan.key)
    }

    const SESSION: SessionIndex = SessionIndex(1);

    fn v4(last: u8) -> SessionKey {
        SessionKey::UeIpv4(DomainId(0), Ipv4Addr::new(10, 0, 0, last))
    }

    #[test]
    fn addresses_are_given_once_and_again_after_their_reclaim() {
        let mut pools = UeIpAllocator::new(&[pool("10.0.0.0/29")], |_| DomainSet::FIRST);
        let all: Vec<_> = core::iter::from_fn(|| take(&mut pools, |_| false)).collect();
        assert_eq!(all, (1..=6).map(v4).collect::<Vec<_>>(), "neither network nor broadcast");
        assert!(!pools.retire(v4(3), SessionIndex(2), &[]), "another session's");
        assert!(pools.retire(v4(3), SESSION, &[]) && !pools.retire(v4(3), SESSION, &[]));
        assert!(!pools.retire(v4(7), SESSION, &[]), "none of the pool");
        assert_eq!(take(&mut pools, |_| false), None, "not before the reclaim");
        pools.reclaim(v4(3));
        pools.reclaim(v4(3));
        assert_eq!(take(&mut pools, |_| false), Some(v4(3)));
        assert_eq!(take(&mut pools, |_| false), None);
        assert_eq!(pools.reserved_count(), 6);
    }

    #[test]
    fn address_is_given_up_with_its_last_domain() {
        let both = DomainSet::FIRST.with(DomainId(1));
        let mut pools = UeIpAllocator::new(&[pool("10.0.0.0/29")], |_| both);
        assert_eq!(take(&mut pools, |_| false), Some(v4(1)));
        let second = v4(1).within(DomainId(1));
        assert!(!pools.retire(second, SESSION, &[v4(1)]), "used in the first domain");
        assert!(pools.is_from(&[0], v4(1), SESSION));
        assert!(pools.retire(v4(1), SESSION, &[]));
    }

    #[test]
    fn restored_address_is_its_session_s_again_and_free_after_its_reclaim() {
        let mut pools = UeIpAllocator::new(&[pool("10.0.0.0/29")], |_| DomainSet::FIRST);
        pools.restore(v4(2), SESSION);
        pools.restore(v4(5), SESSION);
        pools.restore(v4(7), SESSION);
        assert!(pools.is_chosen(v4(2), SESSION) && !pools.is_chosen(v4(2), SessionIndex(2)));
        assert!(!pools.is_chosen(v4(7), SESSION), "none of the pool");
        let rest: Vec<_> = core::iter::from_fn(|| take(&mut pools, |_| false)).collect();
        assert_eq!(rest, [1, 3, 4, 6].map(v4));
        for address in [v4(5), v4(2), v4(4)] {
            assert!(pools.retire(address, SESSION, &[]));
            pools.reclaim(address);
        }
        let again: Vec<_> = core::iter::from_fn(|| take(&mut pools, |_| false)).collect();
        assert_eq!(again, [5, 2, 4].map(v4), "each once");
    }

    #[test]
    fn restored_address_that_ends_before_others_were_taken_is_given_in_its_turn() {
        let mut pools = UeIpAllocator::new(&[pool("10.0.0.0/29")], |_| DomainSet::FIRST);
        pools.restore(v4(3), SESSION);
        assert!(pools.retire(v4(3), SESSION, &[]));
        let first: Vec<_> = (0..2).filter_map(|_| take(&mut pools, |_| false)).collect();
        assert_eq!(first, [1, 2].map(v4));
        assert_eq!(take(&mut pools, |_| false), Some(v4(4)), "not before the reclaim");
        pools.reclaim(v4(3));
        let rest: Vec<_> = core::iter::from_fn(|| take(&mut pools, |_| false)).collect();
        assert_eq!(rest, [5, 6, 3].map(v4), "each once");
    }

    #[test]
    fn pool_that_grows_keeps_its_addresses_in_use_and_gives_the_new_ones() {
        let mut pools = UeIpAllocator::new(&[pool("10.0.0.4/30")], |_| DomainSet::FIRST);
        assert_eq!(take(&mut pools, |_| false), Some(v4(5)));
        assert_eq!(take(&mut pools, |_| false), Some(v4(6)));
        assert!(pools.retire(v4(6), SESSION, &[]));
        assert_eq!(take(&mut pools, |_| false), None);
        pools.set_pools(&[pool("10.9.0.0/30"), pool("10.0.0.0/29")], |_| DomainSet::FIRST);
        assert!(pools.is_chosen(v4(5), SESSION) && pools.is_retired(v4(6)));
        assert_eq!(pools.usage().collect::<Vec<_>>(), [(0, 2), (2, 6)]);
        let of_second = |pools: &mut UeIpAllocator| {
            let plan = pools.plan(&[1], |_| false)?;
            pools.commit(&[plan], SESSION);
            Some(plan.key)
        };
        let rest: Vec<_> = core::iter::from_fn(|| of_second(&mut pools)).collect();
        assert_eq!(rest, [1, 2, 3, 4].map(v4), "not before the reclaim");
        pools.reclaim(v4(6));
        assert_eq!(of_second(&mut pools), Some(v4(6)));
        assert!(pools.retire(v4(5), SESSION, &[]), "it is still its session's");
        pools.reclaim(v4(5));
        assert_eq!(of_second(&mut pools), Some(v4(5)));
    }

    #[test]
    fn pool_that_stays_goes_on_where_it_was_and_one_that_goes_leaves_its_addresses() {
        let two = [pool("10.0.0.0/30"), pool("10.0.0.4/30")];
        let mut pools = UeIpAllocator::new(&two, |_| DomainSet::FIRST);
        assert_eq!(take(&mut pools, |_| false), Some(v4(1)));
        let plan = pools.plan(&[1], |_| false).unwrap();
        pools.commit(&[plan], SESSION);
        pools.set_pools(&two[..1], |_| DomainSet::FIRST);
        assert_eq!(take(&mut pools, |_| false), Some(v4(2)));
        assert!(!pools.retire(v4(5), SESSION, &[]), "it counts as given");
        assert_eq!(pools.reserved_count(), 2);
    }

    #[test]
    fn address_taken_by_others_is_passed_over_and_stays_free() {
        let mut pools = UeIpAllocator::new(&[pool("10.0.0.0/30")], |_| DomainSet::FIRST);
        assert_eq!(take(&mut pools, |key| key == v4(1)), Some(v4(2)));
        assert_eq!(take(&mut pools, |key| key == v4(1)), None);
        assert_eq!(take(&mut pools, |_| false), Some(v4(1)));
    }

    #[test]
    fn ipv6_pool_gives_one_64_each() {
        let mut pools = UeIpAllocator::new(&[pool("2001:db8::/63")], |_| DomainSet::FIRST);
        let keys: Vec<_> = core::iter::from_fn(|| take(&mut pools, |_| false)).collect();
        let upper = 0x2001_0db8_0000_0000;
        assert_eq!(
            keys,
            [SessionKey::UeIpv6(DomainId(0), upper), SessionKey::UeIpv6(DomainId(0), upper + 1)]
        );
        let prefix = addresses([SessionKey::UeIpv6(DomainId(0), upper + 1)]).v6.unwrap();
        assert_eq!(prefix.to_string(), "2001:db8:0:1::/64");
    }

    #[test]
    fn pool_is_chosen_by_family_network_instance_and_identity() {
        let named = |name: &str, id: &str| UePool {
            network_instance: Some(name.into()),
            identity: Some(id.into()),
            ..pool("10.0.0.0/29")
        };
        let pools = UeIpAllocator::new(
            &[named("ims", "a"), named("internet", "b"), pool("2001:db8::/56")],
            |_| DomainSet::FIRST,
        );
        assert_eq!(pools.candidates(true, Some("Internet"), DomainSet::FIRST, &[]), [1]);
        assert_eq!(pools.candidates(true, None, DomainSet::FIRST, &[]), [0, 1]);
        assert_eq!(pools.candidates(true, None, DomainSet::FIRST, &["b".into()]), [1]);
        assert!(pools.candidates(true, Some("ims"), DomainSet::FIRST, &["b".into()]).is_empty());
        assert_eq!(
            pools.candidates(false, Some("ims"), DomainSet::FIRST, &[]),
            [2],
            "a pool without a name"
        );
    }
}
