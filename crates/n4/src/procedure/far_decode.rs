//! Duplicating Parameters, Redirect Information and Forwarding Policy to the types of the session
//! store. Spec: TS 29.244 §7.5.2.3, §7.5.4.3.

use core::net::{Ipv4Addr, Ipv6Addr};

use adit_pfcp::IeType;
use adit_pfcp::grouped::{DuplicatingParameters, UpdateDuplicatingParameters};
use adit_pfcp::ie::{ForwardingPolicy, Nullable, RedirectAddressType, RedirectInformation};
use adit_rules::Redirect;
use adit_session::{Forwarding, ForwardingUpdate, Provisioning};

use crate::name;
use crate::procedure::decode::{creation, destination, marking, unusable};
use crate::refusal::Rejected;

pub(super) fn duplicating(
    group: &DuplicatingParameters<'_>,
    own: &Provisioning,
) -> Result<Forwarding, Rejected> {
    let header = group.outer_header_creation;
    let destination = destination(group.destination_interface)?;
    let can_send_to = |peer| own.can_send_to(peer, Some(destination), None, None);
    Ok(Forwarding {
        outer_header_creation: header.map(|ie| creation(ie, can_send_to)).transpose()?,
        transport_level_marking: group.transport_level_marking.map(marking),
        policy: group.forwarding_policy.map(policy),
        ..Forwarding::new(destination)
    })
}

pub(super) fn duplicating_update(
    group: &UpdateDuplicatingParameters<'_>,
    own: &Provisioning,
) -> Result<ForwardingUpdate, Rejected> {
    let header = group.outer_header_creation;
    let created = header.and_then(|ie| ie.value());
    let destination = group.destination_interface.map(destination).transpose()?;
    let can_send_to = |peer| own.can_send_to(peer, destination, None, None);
    Ok(ForwardingUpdate {
        destination,
        outer_header_creation: created.map(|ie| creation(ie, can_send_to)).transpose()?,
        withdraw_outer_header: header == Some(Nullable::Null),
        transport_level_marking: group
            .transport_level_marking
            .map(|ie| ie.value().map_or(0, marking)),
        policy: group.forwarding_policy.map(|ie| ie.value().map(policy)),
        ..ForwardingUpdate::default()
    })
}

pub(super) fn policy(ie: ForwardingPolicy<'_>) -> Box<str> {
    name::text(ie.0)
}

/// Addresses are text. A SIP URI would need an application level gateway.
/// Spec: TS 29.244 §8.2.20; RFC 8506 §8.38.
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
