//! Keys of a session, derived from its records.
//!
//! *Claims* are what no other session may use; *keys* are what workers find the session by. Every
//! key is a claim; a UE address that only uplink PDRs name may be a claim without being a key.

use core::net::IpAddr;

use adit_rules::{SessionKey, UeAddresses, rule::ue_ipv6_key};
use adit_types::Direction;

use crate::record::{Pdr, Records};

/// All TEIDs and UE addresses that the records name, in ascending order.
pub(crate) fn claims(records: &Records) -> Vec<SessionKey> {
    let pdrs = records.pdrs.iter().flat_map(|pdr| teid(pdr).chain(ue(pdr.pdi.ue_addresses())));
    let endpoints = records.traffic_endpoints.iter().flat_map(|endpoint| {
        let teid = endpoint.f_teid.map(|f_teid| SessionKey::Teid(f_teid.teid));
        let addresses = endpoint.ue.map(|ue| ue.addresses).unwrap_or_default();
        teid.into_iter().chain(ue(addresses))
    });
    sorted(pdrs.chain(endpoints))
}

/// The lookup keys, in ascending order: all local TEIDs; UE addresses of downlink PDRs
/// without a tunnel; and, when
/// a downlink PDR names neither a UE nor a tunnel, the UE addresses that uplink PDRs name.
pub(crate) fn keys(records: &Records) -> Vec<SessionKey> {
    let any_ue = records.pdrs.iter().any(|pdr| {
        is_downlink(pdr) && pdr.pdi.f_teid.is_none() && pdr.pdi.ue_addresses().is_empty()
    });
    sorted(records.pdrs.iter().flat_map(|pdr| {
        let addresses = if any_ue || (is_downlink(pdr) && pdr.pdi.f_teid.is_none()) {
            pdr.pdi.ue_addresses()
        } else {
            UeAddresses::default()
        };
        teid(pdr).chain(ue(addresses))
    }))
}

/// Elements of `a` that are not in `b`. Both in ascending order.
pub(crate) fn difference<'a>(
    a: &'a [SessionKey],
    b: &'a [SessionKey],
) -> impl Iterator<Item = SessionKey> + 'a {
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
    }
}

fn teid(pdr: &Pdr) -> impl Iterator<Item = SessionKey> + use<> {
    pdr.pdi.f_teid.map(|f_teid| SessionKey::Teid(f_teid.teid)).into_iter()
}

fn is_downlink(pdr: &Pdr) -> bool {
    pdr.pdi.source.direction() == Direction::Downlink
}

fn sorted(keys: impl Iterator<Item = SessionKey>) -> Vec<SessionKey> {
    let mut keys: Vec<SessionKey> = keys.collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}
