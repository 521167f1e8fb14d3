//! Converts UE addresses and traffic endpoints from IEs to the types of the session store, and
//! back.
//!
//! Spec: TS 29.244 §7.5.2.7, §7.5.3.2, §7.5.3.5, §8.2.62.

use core::net::Ipv4Addr;

use adit_pfcp::grouped::{
    CreateTrafficEndpoint, CreatedPdr, CreatedTrafficEndpoint, UpdateTrafficEndpoint, UpdatedPdr,
};
use adit_pfcp::ie::{
    self, FTeid, FTeidAddress, FramedIpv6Route, FramedRoute, FramedRouting, UeIpAddress,
    UeIpAddressPoolIdentity,
};
use adit_pfcp::{Cause, IeType, Repeated};
use adit_rules::UeAddresses;
use adit_session::{
    ChooseUe, RulePart, TrafficEndpointId, TrafficEndpointSpec, UeMatch, UeSide,
    parse_framed_ipv6_route, parse_framed_route,
};
use adit_types::{IpPrefix, Ipv4Prefix, Ipv6Prefix, PdrId};

use super::decode::{f_teid, interface_type, network_instance, part};
use crate::name;
use crate::refusal::Rejected;

/// Length of a UE's IPv6 prefix, unless the IE contains another. Spec: TS 29.244 §8.2.62.
const UE_PREFIX_BITS: u8 = 64;

/// The UE addresses of a PDI or traffic endpoint.
#[derive(Debug, Default)]
pub(super) struct PdiUeAddresses {
    /// The first address of each family; `None` if no address is given.
    pub given: Option<UeMatch>,
    /// All other UE addresses, and IPv6 prefixes shorter than a /64.
    pub further: Vec<IpPrefix>,
    /// The UE addresses to be chosen.
    pub choose: Option<ChooseUe>,
}

/// Decodes the UE addresses of a PDI or traffic endpoint.
///
/// # Errors
/// Cause 76 for a prefix to be chosen that is not a /64, and for a second address to be chosen of
/// one family. Cause 73 if addresses differ in whether they match source or destination.
pub(super) fn ue(
    addresses: Repeated<'_, UeIpAddress>,
    pools: Repeated<'_, UeIpAddressPoolIdentity<'_>>,
) -> Result<PdiUeAddresses, Rejected> {
    let Some(first) = addresses.first() else { return Ok(PdiUeAddresses::default()) };
    let side = if first.destination { UeSide::Destination } else { UeSide::Source };
    let (mut given, mut further) = (UeAddresses::default(), Vec::new());
    let (mut choose_v4, mut choose_v6) = (false, false);
    for ue in addresses.iter() {
        if ue.destination != first.destination {
            let ie = IeType::UE_IP_ADDRESS;
            return Err(Rejected::with_ie(Cause::RuleCreationModificationFailure, ie));
        }
        let delegated = ue.v6_delegation_bits.map(|bits| UE_PREFIX_BITS.saturating_sub(bits));
        let len = ue.v6_prefix_len.or(delegated).unwrap_or(UE_PREFIX_BITS);
        let is_second = ue.choose_v4 && choose_v4 || ue.choose_v6 && choose_v6;
        if is_second || ue.choose_v6 && len != UE_PREFIX_BITS {
            return Err(Rejected::unsupported(IeType::UE_IP_ADDRESS));
        }
        choose_v4 |= ue.choose_v4;
        choose_v6 |= ue.choose_v6;
        match ue.v4 {
            Some(addr) if given.v4.is_some() => further.extend(host(addr)),
            v4 => given.v4 = given.v4.or(v4),
        }
        match ue.v6.and_then(|addr| Ipv6Prefix::containing(addr, len)) {
            Some(prefix) if given.v6.is_some() || len < UE_PREFIX_BITS => {
                further.push(IpPrefix::V6(prefix));
            }
            v6 => given.v6 = given.v6.or(v6),
        }
    }
    let choose = (choose_v4 || choose_v6).then(|| ChooseUe {
        v4: choose_v4,
        v6: choose_v6,
        side,
        pools: pools.iter().map(|pool| name::text(pool.0)).collect(),
    });
    let given = (!given.is_empty()).then_some(UeMatch { addresses: given, side });
    Ok(PdiUeAddresses { given, further, choose })
}

fn host(addr: Ipv4Addr) -> Option<IpPrefix> {
    Ipv4Prefix::containing(addr, 32).map(IpPrefix::V4)
}

/// Decodes the networks behind a UE.
///
/// # Errors
/// Cause 76 if the UE shall take part in a routing protocol; Cause 73 if a text is no route. Spec:
/// TS 29.244 §5.16; RFC 2865 §5.10.
pub(super) fn framed_routes(
    v4: Repeated<'_, FramedRoute<'_>>,
    v6: Repeated<'_, FramedIpv6Route<'_>>,
    routing: Option<FramedRouting>,
) -> Result<Vec<IpPrefix>, Rejected> {
    if routing.is_some_and(|routing| routing.0 != 0) {
        return Err(Rejected::unsupported(IeType::FRAMED_ROUTING));
    }
    let invalid = |ie| Rejected::with_ie(Cause::RuleCreationModificationFailure, ie);
    let v4 = v4
        .iter()
        .map(|route| parse_framed_route(route.0).map_err(|_| invalid(IeType::FRAMED_ROUTE)));
    let v6 = v6.iter().map(|route| {
        parse_framed_ipv6_route(route.0).map_err(|_| invalid(IeType::FRAMED_IPV6_ROUTE))
    });
    v4.chain(v6).collect()
}

/// Decodes the members that Create and Update Traffic Endpoint have in common.
macro_rules! spec {
    ($group:expr) => {{
        let group = $group;
        let ue = ue(group.ue_ip_addresses, Repeated::default())?;
        let (v4, v6) = (group.framed_routes, group.framed_ipv6_routes);
        Ok(TrafficEndpointSpec {
            id: TrafficEndpointId(group.traffic_endpoint_id.0),
            f_teid: group.local_f_teid.map(f_teid),
            network_instance: network_instance(group.network_instance),
            ue: ue.given,
            further_ues: ue.further,
            framed_routes: framed_routes(v4, v6, group.framed_routing)?.into_update(),
            interface_type: part(group.source_interface_type, interface_type),
            choose_ue: ue.choose,
            qfis: group.qfis.iter().collect::<Vec<_>>().into_update(),
        })
    }};
}

pub(super) fn create(group: &CreateTrafficEndpoint<'_>) -> Result<TrafficEndpointSpec, Rejected> {
    spec!(group)
}

pub(super) fn update(group: &UpdateTrafficEndpoint<'_>) -> Result<TrafficEndpointSpec, Rejected> {
    spec!(group)
}

/// F-TEIDs and UE addresses that were chosen, as types of the codec; groups of a response borrow
/// from them.
#[derive(Debug, Default)]
pub(super) struct ChosenIdentifiers {
    pdrs: Vec<(adit_types::PdrId, Vec<FTeid>, Vec<UeIpAddress>)>,
    endpoints: Vec<(TrafficEndpointId, Vec<FTeid>, Vec<UeIpAddress>)>,
    /// PDRs that the request updated rather than created.
    updated: Vec<PdrId>,
}

impl ChosenIdentifiers {
    /// Collects F-TEIDs and UE addresses by PDR and by traffic endpoint.
    pub(super) fn new(
        f_teids: &[adit_session::CreatedPdr],
        ues: &[adit_session::CreatedUe],
        endpoints: &[adit_session::CreatedTrafficEndpoint],
    ) -> Self {
        let f_teid_of = |created: &adit_session::CreatedPdr| {
            (created.pdr, vec![encode_f_teid(created.f_teid)], Vec::new())
        };
        let mut pdrs: Vec<_> = f_teids.iter().map(f_teid_of).collect();
        for created in ues {
            let ue = encode_ue(created.addresses, created.side);
            match pdrs.iter_mut().find(|(pdr, ..)| *pdr == created.pdr) {
                Some((_, _, addresses)) => addresses.push(ue),
                None => pdrs.push((created.pdr, Vec::new(), vec![ue])),
            }
        }
        let endpoint = |created: &adit_session::CreatedTrafficEndpoint| {
            let f_teids = created.f_teid.map(encode_f_teid).into_iter().collect();
            let ue = created.ue.map(|ue| encode_ue(ue, UeSide::Source)).into_iter().collect();
            (created.id, f_teids, ue)
        };
        let endpoints = endpoints.iter().map(endpoint).collect();
        Self { pdrs, endpoints, updated: Vec::new() }
    }

    /// Sets which PDRs the request updated, so that the response lists them as updated.
    pub(super) fn updating(self, updated: Vec<PdrId>) -> Self {
        Self { updated, ..self }
    }

    /// Returns the Created PDR groups. Spec: TS 29.244 §7.5.3.2.
    pub(super) fn created_pdrs(&self) -> Vec<CreatedPdr<'_>> {
        let new = self.pdrs.iter().filter(|(pdr, ..)| !self.updated.contains(pdr));
        let groups = new.map(|(pdr, f_teids, ues)| {
            let mut group = CreatedPdr::new(*pdr);
            group.local_f_teids = f_teids.as_slice().into();
            group.ue_ip_addresses = ues.as_slice().into();
            group
        });
        groups.collect()
    }

    /// Returns the Updated PDR groups. Spec: TS 29.244 §7.5.9.3.
    pub(super) fn updated_pdrs(&self) -> Vec<UpdatedPdr<'_>> {
        let updated = self.pdrs.iter().filter(|(pdr, ..)| self.updated.contains(pdr));
        let groups = updated.map(|(pdr, f_teids, ues)| {
            let mut group = UpdatedPdr::new(*pdr);
            group.local_f_teids = f_teids.as_slice().into();
            group.ue_ip_addresses = ues.as_slice().into();
            group
        });
        groups.collect()
    }

    /// Returns the Created Traffic Endpoint groups. Spec: TS 29.244 §7.5.3.5.
    pub(super) fn created_endpoints(&self) -> Vec<CreatedTrafficEndpoint<'_>> {
        let groups = self.endpoints.iter().map(|(id, f_teids, ues)| {
            let mut group = CreatedTrafficEndpoint::new(ie::TrafficEndpointId(id.0));
            group.local_f_teids = f_teids.as_slice().into();
            group.ue_ip_addresses = ues.as_slice().into();
            group
        });
        groups.collect()
    }
}

fn encode_f_teid(chosen: adit_session::LocalFTeid) -> FTeid {
    let adit_session::LocalFTeid { teid, v4, v6 } = chosen;
    let addr = match (v4, v6) {
        (Some(v4), Some(v6)) => FTeidAddress::V4V6(v4, v6),
        (None, Some(v6)) => FTeidAddress::V6(v6),
        // The session store chooses at least one address.
        (v4, None) => FTeidAddress::V4(v4.unwrap_or(Ipv4Addr::UNSPECIFIED)),
    };
    FTeid::Given { teid, addr }
}

fn encode_ue(chosen: UeAddresses, side: UeSide) -> UeIpAddress {
    UeIpAddress {
        v4: chosen.v4,
        v6: chosen.v6.map(Ipv6Prefix::addr),
        destination: side == UeSide::Destination,
        ..UeIpAddress::default()
    }
}
