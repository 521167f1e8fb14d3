//! Decodes Forwarding and Duplicating Parameters, Redirect Information and Forwarding Policy to the
//! types of the session store. Spec: TS 29.244 §7.5.2.3, §7.5.4.3.

use core::net::{Ipv4Addr, Ipv6Addr};

use adit_pfcp::IeType;
use adit_pfcp::grouped::{
    DuplicatingParameters, ForwardingParameters, UpdateDuplicatingParameters,
    UpdateForwardingParameters,
};
use adit_pfcp::ie::{self, ForwardingPolicy, RedirectAddressType, RedirectInformation};
use adit_rules::Redirect;
use adit_session::{Forwarding, ForwardingUpdate, Provisioning, RulePart, TrafficEndpointId};

use crate::name;
use crate::procedure::decode::{
    creation, destination, interface_type, marking, network_instance, part, try_part,
    unless_withdrawn, unusable,
};
use crate::refusal::Rejected;

/// Decodes the members that forwarding and duplicating parameters have in common.
macro_rules! copy_parts {
    ($group:ident, $own:ident, $interface_type:expr, $network_instance:expr) => {{
        let destination = try_part($group.destination_interface, destination)?;
        let can_send_to =
            |peer| $own.can_send_to(peer, destination.set(), $interface_type, $network_instance);
        ForwardingUpdate {
            destination,
            outer_header_creation: try_part($group.outer_header_creation, |ie| {
                creation(ie, can_send_to)
            })?,
            transport_level_marking: part($group.transport_level_marking, marking),
            policy: part($group.forwarding_policy, policy),
            ..ForwardingUpdate::default()
        }
    }};
}

/// Decodes the members of forwarding parameters.
macro_rules! forwarding_parts {
    ($group:ident, $own:ident) => {{
        let network_instance = network_instance($group.network_instance);
        let name = network_instance.as_set().map(|name| &**name);
        let reference = $group.destination_interface_type.map(interface_type);
        let parts = copy_parts!($group, $own, reference, name);
        ForwardingUpdate {
            network_instance,
            interface_type: unless_withdrawn(
                reference,
                $group.withdrawn,
                &[IeType::TGPP_INTERFACE_TYPE],
            ),
            linked_endpoint: part($group.linked_traffic_endpoint_id, endpoint),
            redirect: try_part($group.redirect_information, redirect)?,
            ..parts
        }
    }};
}

pub(super) fn forwarding(
    group: &ForwardingParameters<'_>,
    own: &Provisioning,
) -> Result<Forwarding, Rejected> {
    let mut forwarding = Forwarding::new(destination(group.destination_interface)?);
    forwarding.change(forwarding_parts!(group, own));
    Ok(forwarding)
}

pub(super) fn forwarding_update(
    group: &UpdateForwardingParameters<'_>,
    own: &Provisioning,
) -> Result<ForwardingUpdate, Rejected> {
    Ok(forwarding_parts!(group, own))
}

pub(super) fn duplicating(
    group: &DuplicatingParameters<'_>,
    own: &Provisioning,
) -> Result<Forwarding, Rejected> {
    let mut copy = Forwarding::new(destination(group.destination_interface)?);
    copy.change(copy_parts!(group, own, None, None));
    Ok(copy)
}

pub(super) fn duplicating_update(
    group: &UpdateDuplicatingParameters<'_>,
    own: &Provisioning,
) -> Result<ForwardingUpdate, Rejected> {
    Ok(copy_parts!(group, own, None, None))
}

const fn endpoint(ie: ie::TrafficEndpointId) -> TrafficEndpointId {
    TrafficEndpointId(ie.0)
}

pub(super) fn policy(ie: ForwardingPolicy<'_>) -> Box<str> {
    name::text(ie.0)
}

/// Decodes Redirect Information, in which addresses are text. A SIP URI is refused: it would need
/// an application level gateway. Spec: TS 29.244 §8.2.20; RFC 8506 §8.38.
pub(super) fn redirect(ie: RedirectInformation<'_>) -> Result<Redirect, Rejected> {
    use RedirectAddressType as T;
    let wrong = unusable(IeType::REDIRECT_INFORMATION);
    let text = |octets| core::str::from_utf8(octets).map_err(|_| wrong);
    let (first, second) = (text(ie.address)?, text(ie.other_address)?);
    let v4 = |text: &str| text.parse::<Ipv4Addr>().map(Some).map_err(|_| wrong);
    let v6 = |text: &str| text.parse::<Ipv6Addr>().map(Some).map_err(|_| wrong);
    let port = ie.port;
    match ie.address_type {
        T::Ipv4 | T::Ipv4AndPort => Ok(Redirect::Address { v4: v4(first)?, v6: None, port }),
        T::Ipv6 | T::Ipv6AndPort => Ok(Redirect::Address { v4: None, v6: v6(first)?, port }),
        T::Ipv4AndIpv6 | T::Ipv4AndIpv6AndPort => {
            Ok(Redirect::Address { v4: v4(first)?, v6: v6(second)?, port })
        }
        T::Port => Ok(Redirect::Address { v4: None, v6: None, port }),
        T::Url => Ok(Redirect::Url(first.into())),
        T::SipUri => Err(Rejected::unsupported(IeType::REDIRECT_INFORMATION)),
        T::Unknown(_) => Err(wrong),
    }
}
