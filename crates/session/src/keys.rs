//! Keys of a session, derived from its records.
//!
//! *Claims* are what no other session may use; *keys* are what workers find the session by. Every
//! key is a claim; a UE address that only uplink PDRs name may be a claim without being a key.

use core::net::IpAddr;

use adit_rules::{SessionKey, UeAddresses, rule::ue_ipv6_key};

use crate::record::{Pdi, Records, TrafficEndpoint};

/// All TEIDs, UE addresses and framed routes that the records name, in ascending order.
pub(crate) fn claims(records: &Records) -> Vec<SessionKey> {
    let pdis = records.pdrs.iter().flat_map(|pdr| pdr.pdi.each());
    let pdis = pdis.flat_map(|pdi| teid(pdi).chain(ues(pdi)));
    let endpoints = records.traffic_endpoints.iter().flat_map(of_endpoint);
    sorted(pdis.chain(endpoints))
}

/// The lookup keys, in ascending order: all local TEIDs; UE addresses and framed routes of downlink
/// PDRs without a tunnel; and, when a downlink PDR names neither a UE nor a tunnel, those that
/// uplink PDRs name.
pub(crate) fn keys(records: &Records) -> Vec<SessionKey> {
    let all = || {
        records.pdrs.iter().flat_map(|pdr| pdr.pdi.each().map(|pdi| (is_plain_downlink(pdi), pdi)))
    };
    let any_ue = all().any(|(is_plain, pdi)| is_plain && pdi.is_of_any_ue());
    sorted(all().flat_map(|(is_plain, pdi)| {
        let ues = (any_ue || is_plain).then(|| ues(pdi));
        teid(pdi).chain(ues.into_iter().flatten())
    }))
}

/// Everything that a traffic endpoint names.
pub(crate) fn of_endpoint(endpoint: &TrafficEndpoint) -> impl Iterator<Item = SessionKey> {
    let teid = endpoint.f_teid.map(|f_teid| SessionKey::Teid(f_teid.teid));
    let addresses = endpoint.ue.map(|ue| ue.addresses).unwrap_or_default();
    let networks = endpoint.further_ues.iter().chain(&endpoint.framed_routes).copied();
    teid.into_iter().chain(ue(addresses)).chain(networks.map(SessionKey::of_prefix))
}

/// Elements of `a` that are not in `b`. Both in ascending order.
pub(crate) fn difference<'a, T: Ord + Copy>(
    a: &'a [T],
    b: &'a [T],
) -> impl Iterator<Item = T> + 'a {
    a.iter().copied().filter(|key| b.binary_search(key).is_err())
}

/// The keys of UE addresses.
pub(crate) fn ue(addresses: UeAddresses) -> impl Iterator<Item = SessionKey> {
    let v4 = addresses.v4.map(SessionKey::UeIpv4);
    let v6 = addresses.v6.map(|prefix| SessionKey::UeIpv6(ue_ipv6_key(prefix.addr())));
    v4.into_iter().chain(v6)
}

/// The address behind a UE key; `None` of a TEID.
pub(crate) fn addr(key: SessionKey) -> Option<IpAddr> {
    match key {
        SessionKey::Teid(_) => None,
        SessionKey::UeIpv4(addr) => Some(IpAddr::V4(addr)),
        SessionKey::UeIpv6(upper) => {
            Some(IpAddr::V6(core::net::Ipv6Addr::from_bits(u128::from(upper) << 64)))
        }
        SessionKey::Framed(prefix) => Some(prefix.addr()),
    }
}

fn teid(pdi: &Pdi) -> impl Iterator<Item = SessionKey> + use<> {
    pdi.f_teid.map(|f_teid| SessionKey::Teid(f_teid.teid)).into_iter()
}

fn ues(pdi: &Pdi) -> impl Iterator<Item = SessionKey> {
    ue(pdi.ue_addresses()).chain(pdi.ue_networks().map(SessionKey::of_prefix))
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
