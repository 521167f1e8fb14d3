//! IEs of UE addresses and traffic endpoints, to the words of the session store and back.
//!
//! Spec: TS 29.244 §7.5.2.7, §7.5.3.2, §7.5.3.5, §8.2.62.

use core::net::Ipv4Addr;

use adit_pfcp::grouped::{
    CreateTrafficEndpoint, CreatedPdr, CreatedTrafficEndpoint, UpdateTrafficEndpoint,
};
use adit_pfcp::ie::{self, FTeid, FTeidAddress, UeIpAddress, UeIpAddressPoolIdentity};
use adit_pfcp::{IeType, Repeated};
use adit_rules::UeAddresses;
use adit_session::{ChooseUe, TrafficEndpointId, TrafficEndpointSpec, UeMatch, UeSide};
use adit_types::Ipv6Prefix;

use super::name;
use super::rule_decode::f_teid;
use crate::refusal::Rejected;

/// Bits of a UE's IPv6 prefix unless the IE says otherwise. Spec: TS 29.244 §8.2.62.
const UE_PREFIX_BITS: u8 = 64;

/// UE addresses that are given, and those that are to be chosen.
pub(super) type Ue = (Option<UeMatch>, Option<ChooseUe>);

/// The UE addresses of a PDI or traffic endpoint.
///
/// # Errors
/// Cause 76 with several addresses, and with a prefix of our choice that is not a /64.
pub(super) fn ue(
    addresses: Repeated<'_, UeIpAddress>,
    pools: Repeated<'_, UeIpAddressPoolIdentity<'_>>,
) -> Result<Ue, Rejected> {
    let mut addresses = addresses.iter();
    let Some(ue) = addresses.next() else { return Ok((None, None)) };
    let delegated = ue.v6_delegation_bits.map(|bits| UE_PREFIX_BITS.saturating_sub(bits));
    let len = ue.v6_prefix_len.or(delegated).unwrap_or(UE_PREFIX_BITS);
    if addresses.next().is_some() || ue.choose_v6 && len != UE_PREFIX_BITS {
        return Err(Rejected::unsupported(IeType::UE_IP_ADDRESS));
    }
    let side = if ue.destination { UeSide::Destination } else { UeSide::Source };
    let v6 = ue.v6.and_then(|addr| Ipv6Prefix::containing(addr, len));
    let given = UeAddresses { v4: ue.v4, v6 };
    let choose = (ue.choose_v4 || ue.choose_v6).then(|| ChooseUe {
        v4: ue.choose_v4,
        v6: ue.choose_v6,
        side,
        pools: pools.iter().map(|pool| name::text(pool.0)).collect(),
    });
    Ok(((!given.is_empty()).then_some(UeMatch { addresses: given, side }), choose))
}

pub(super) fn create(group: &CreateTrafficEndpoint<'_>) -> Result<TrafficEndpointSpec, Rejected> {
    let (ue, choose_ue) = ue(group.ue_ip_addresses, Repeated::default())?;
    Ok(TrafficEndpointSpec {
        id: TrafficEndpointId(group.traffic_endpoint_id.0),
        f_teid: group.local_f_teid.map(f_teid),
        network_instance: group.network_instance.map(name::network_instance),
        ue,
        choose_ue,
        qfis: group.qfis.iter().collect(),
    })
}

pub(super) fn update(group: &UpdateTrafficEndpoint<'_>) -> Result<TrafficEndpointSpec, Rejected> {
    let (ue, choose_ue) = ue(group.ue_ip_addresses, Repeated::default())?;
    Ok(TrafficEndpointSpec {
        id: TrafficEndpointId(group.traffic_endpoint_id.0),
        f_teid: group.local_f_teid.map(f_teid),
        network_instance: group.network_instance.map(name::network_instance),
        ue,
        choose_ue,
        qfis: group.qfis.iter().collect(),
    })
}

/// What was chosen, in the words of the codec; groups of a response borrow from it.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    pdrs: Vec<(adit_types::PdrId, Vec<FTeid>, Vec<UeIpAddress>)>,
    endpoints: Vec<(TrafficEndpointId, Vec<FTeid>, Vec<UeIpAddress>)>,
}

impl Chosen {
    /// Gathers F-TEIDs and UE addresses by PDR and by traffic endpoint.
    pub fn new(
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
        Self { pdrs, endpoints: endpoints.iter().map(endpoint).collect() }
    }

    /// Created PDR groups. Spec: TS 29.244 §7.5.3.2.
    pub fn created_pdrs(&self) -> Vec<CreatedPdr<'_>> {
        let groups = self.pdrs.iter().map(|(pdr, f_teids, ues)| {
            let mut group = CreatedPdr::new(*pdr);
            group.local_f_teids = f_teids.as_slice().into();
            group.ue_ip_addresses = ues.as_slice().into();
            group
        });
        groups.collect()
    }

    /// Created Traffic Endpoint groups. Spec: TS 29.244 §7.5.3.5.
    pub fn created_endpoints(&self) -> Vec<CreatedTrafficEndpoint<'_>> {
        let groups = self.endpoints.iter().map(|(id, f_teids, ues)| {
            let mut group = CreatedTrafficEndpoint::new(ie::TrafficEndpointId(id.0));
            group.local_f_teids = f_teids.as_slice().into();
            group.ue_ip_addresses = ues.as_slice().into();
            group
        });
        groups.collect()
    }
}

fn encode_f_teid(chosen: adit_session::FTeid) -> FTeid {
    let adit_session::FTeid { teid, v4, v6 } = chosen;
    let addr = match (v4, v6) {
        (Some(v4), Some(v6)) => FTeidAddress::V4V6(v4, v6),
        (None, Some(v6)) => FTeidAddress::V6(v6),
        // The store chooses at least one address.
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
