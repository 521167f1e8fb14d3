//! The keys of a session, derived from its records.
//!
//! A session's *claims* are keys that no other session may have; by its *keys* workers find the
//! session. Every key is a claim. A UE address that only uplink PDRs name may be only a claim.

use core::net::IpAddr;

use adit_rules::{SessionKey, UeAddresses, rule::ue_ipv6_key};
use adit_types::{DomainId, InterfaceSet, IpPrefix};

use crate::provisioning::DomainSet;
use crate::provisioning::Provisioning;
use crate::record::{Forwarding, Pdi, Records, TrafficEndpoint};

/// The routing domains of a session's rules. A rule without a network instance belongs to the
/// domains that the session's other rules name, or to all domains if none names one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionDomains<'a> {
    own: &'a Provisioning,
    /// The domains of rules without a network instance.
    unnamed: DomainSet,
    /// The domains of downlink PDRs without a tunnel; same as `unnamed` if there are no such PDRs.
    session: DomainSet,
    /// The domains of downlink PDRs without a tunnel that match packets of any UE.
    of_any_ue: DomainSet,
}

impl<'a> SessionDomains<'a> {
    pub(crate) fn new(own: &'a Provisioning, records: &Records) -> Self {
        let union = |sets: &mut dyn Iterator<Item = DomainSet>| {
            sets.fold(DomainSet::NONE, DomainSet::union)
        };
        let plain = || pdis(records).filter(|pdi| is_plain_downlink(pdi));
        let parts = records.fars.iter().filter_map(|far| far.forwarding.as_ref());
        let leaving = parts.filter(|parts| parts.leads_to_a_data_network());
        let of_name = |name| match own.serves_network_instance(name) {
            true => own.domains_of(Some(name)),
            false => DomainSet::NONE,
        };
        let arriving = plain().filter_map(|pdi| pdi.network_instance.as_deref());
        let sent =
            union(&mut leaving.filter_map(|parts| own.network_instance_of(parts)).map(of_name));
        let unnamed = union(&mut arriving.map(of_name)).union(sent).or(own.domains_of(None));
        let known = Self { own, unnamed, session: unnamed, of_any_ue: DomainSet::NONE };
        let of_any_ue =
            union(&mut plain().filter(|pdi| pdi.is_of_any_ue()).map(|pdi| known.of(pdi)));
        let session = union(&mut plain().map(|pdi| known.of(pdi))).or(unnamed);
        Self { session, of_any_ue, ..known }
    }

    fn of(&self, pdi: &Pdi) -> DomainSet {
        let name = pdi.network_instance.as_deref();
        name.map_or(self.unnamed, |name| self.own.domains_of(Some(name)))
    }

    /// Returns the domains in which the session claims the UE addresses of `pdi`.
    pub(crate) fn of_claims(&self, pdi: &Pdi) -> DomainSet {
        match is_plain_downlink(pdi) {
            true => self.of(pdi).union(self.of_any_ue),
            false => self.session,
        }
    }

    /// Returns the domains in which the session claims the UE addresses of traffic endpoints.
    pub(crate) const fn of_endpoints(&self) -> DomainSet {
        self.session
    }

    /// Returns the domains from whose pools an address for `pdi` is chosen, and in which the
    /// session then claims the address.
    pub(crate) fn of_choice(&self, pdi: &Pdi) -> DomainSet {
        if is_plain_downlink(pdi) { self.of(pdi) } else { self.session }
    }

    /// Returns all domains in which the session may claim an address.
    pub(crate) const fn of_all_claims(&self) -> DomainSet {
        self.session.union(self.of_any_ue)
    }

    /// Returns the domains in which packets to the UE addresses of `pdi` find the session.
    fn of_keys(&self, pdi: &Pdi) -> DomainSet {
        if is_plain_downlink(pdi) { self.of_claims(pdi) } else { self.of_any_ue }
    }

    /// Returns the interfaces on which packets of `pdi` arrive: those with the addresses of its
    /// F-TEID or, if it has no F-TEID, those of its network instance.
    pub(crate) fn arrival_interfaces(&self, pdi: &Pdi) -> InterfaceSet {
        match (&pdi.f_teid, pdi.network_instance.as_deref()) {
            (Some(f_teid), _) => self.own.owners(f_teid),
            (None, Some(name)) => self.own.interfaces_of(Some(name)),
            (None, None) => self.own.interfaces_in(self.unnamed),
        }
    }

    /// Returns the interfaces that forwarding with `parts` uses: see
    /// [`Provisioning::forwarding_interfaces`]. If `parts` has no network instance, only interfaces
    /// of the session's domains are included.
    pub(crate) fn forwarding_interfaces(&self, parts: &Forwarding) -> InterfaceSet {
        let all = self.own.forwarding_interfaces(parts);
        match self.own.network_instance_of(parts) {
            None if !parts.is_gtpu() => all.intersection(self.own.interfaces_in(self.unnamed)),
            _ => all,
        }
    }
}

fn pdis(records: &Records) -> impl Iterator<Item = &Pdi> {
    records.pdrs.iter().flat_map(|pdr| pdr.pdi.each())
}

/// Returns all TEIDs, UE addresses and framed routes that the records name, in ascending order.
pub(crate) fn claims(own: &Provisioning, records: &Records) -> Vec<SessionKey> {
    claims_in(SessionDomains::new(own, records), records)
}

fn claims_in(scope: SessionDomains<'_>, records: &Records) -> Vec<SessionKey> {
    let pdis = pdis(records).flat_map(|pdi| teid(pdi).chain(ues(pdi, scope.of_claims(pdi))));
    let endpoints = records.traffic_endpoints.iter();
    sorted(pdis.chain(endpoints.flat_map(|known| of_endpoint(known, scope.of_endpoints()))))
}

/// The claims and the keys of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SessionKeys {
    /// The keys that no other session may have, in ascending order: all TEIDs, UE addresses and
    /// framed routes that the records name (see [`claims`]).
    pub claims: Vec<SessionKey>,
    /// The lookup keys, in ascending order: all local TEIDs; the UE addresses and framed routes of
    /// downlink PDRs without a tunnel; and, if such a PDR names no UE, also those of uplink PDRs.
    /// Each is a key in the routing domains of the network instance that its PDR names.
    pub keys: Vec<SessionKey>,
}

impl SessionKeys {
    pub(crate) fn of(own: &Provisioning, records: &Records) -> Self {
        if records.pdrs.is_empty() && records.traffic_endpoints.is_empty() {
            return Self::default();
        }
        let scope = SessionDomains::new(own, records);
        let keys = pdis(records).flat_map(|pdi| teid(pdi).chain(ues(pdi, scope.of_keys(pdi))));
        Self { claims: claims_in(scope, records), keys: sorted(keys) }
    }
}

/// Returns the claims of a traffic endpoint, in `domains`.
pub(crate) fn of_endpoint(
    endpoint: &TrafficEndpoint,
    domains: DomainSet,
) -> impl Iterator<Item = SessionKey> {
    let teid = endpoint.f_teid.map(|f_teid| SessionKey::Teid(f_teid.teid));
    let addresses = endpoint.ue.map(|ue| ue.addresses).unwrap_or_default();
    let networks = endpoint.further_ues.iter().chain(&endpoint.framed_routes).copied();
    let named = ue_keys(addresses).chain(networks.map(of_prefix));
    teid.into_iter().chain(named.flat_map(move |key| within(key, domains)))
}

/// Returns the same key in each of `domains`.
pub(crate) fn within(key: SessionKey, domains: DomainSet) -> impl Iterator<Item = SessionKey> {
    domains.iter().map(move |domain| key.within(domain))
}

/// Returns the key of a prefix, in the first domain.
pub(crate) fn of_prefix(prefix: IpPrefix) -> SessionKey {
    SessionKey::of_prefix(DomainId(0), prefix)
}

/// Returns the elements of `a` that are not in `b`. Both must be in ascending order.
pub(crate) fn difference<'a, T: Ord + Copy>(
    a: &'a [T],
    b: &'a [T],
) -> impl Iterator<Item = T> + 'a {
    a.iter().copied().filter(|key| b.binary_search(key).is_err())
}

/// Returns the keys of UE addresses, in the first domain.
pub(crate) fn ue_keys(addresses: UeAddresses) -> impl Iterator<Item = SessionKey> {
    let v4 = addresses.v4.map(|addr| SessionKey::UeIpv4(DomainId(0), addr));
    let v6 = addresses.v6.map(|prefix| ue_ipv6_key(prefix.addr()));
    let v6 = v6.map(|key| SessionKey::UeIpv6(DomainId(0), key));
    v4.into_iter().chain(v6)
}

/// Returns the address of a UE key; `None` for a TEID.
pub(crate) fn address_of(key: SessionKey) -> Option<IpAddr> {
    match key {
        SessionKey::Teid(_) => None,
        SessionKey::UeIpv4(_, addr) => Some(IpAddr::V4(addr)),
        SessionKey::UeIpv6(_, upper) => {
            Some(IpAddr::V6(core::net::Ipv6Addr::from_bits(u128::from(upper) << 64)))
        }
        SessionKey::Framed(_, prefix) => Some(prefix.addr()),
    }
}

fn teid(pdi: &Pdi) -> impl Iterator<Item = SessionKey> + use<> {
    pdi.f_teid.map(|f_teid| SessionKey::Teid(f_teid.teid)).into_iter()
}

fn ues(pdi: &Pdi, domains: DomainSet) -> impl Iterator<Item = SessionKey> {
    let named = ue_keys(pdi.ue_addresses()).chain(pdi.ue_networks().map(of_prefix));
    named.flat_map(move |key| within(key, domains))
}

fn is_plain_downlink(pdi: &Pdi) -> bool {
    pdi.source.is_network() && pdi.f_teid.is_none()
}

fn sorted(keys: impl Iterator<Item = SessionKey>) -> Vec<SessionKey> {
    let mut keys: Vec<SessionKey> = keys.collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}
