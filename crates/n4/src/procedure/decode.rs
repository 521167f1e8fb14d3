//! Decodes values that IEs of several kinds of rules share to the types of the session store.

use core::net::IpAddr;

use adit_pfcp::ie::{self, Nullable, OuterHeaderDescription};
use adit_pfcp::{Cause, IeType, Withdrawn};
use adit_rules::{DestinationInterface, GtpuTunnel, HeaderCreation};
use adit_session::{Change, FTeidSpec, InterfaceType, SdfSpec};
use adit_types::Nanos;

use crate::name;
use crate::ntp::NtpClock;
use crate::refusal::Rejected;

/// When a request arrived, and a clock to convert times of day in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestTime {
    pub now: Nanos,
    pub ntp_clock: NtpClock,
}

/// A member of a Create or Update group that sets, keeps or withdraws a part of a rule.
pub(super) trait GroupMember<T> {
    fn change(self) -> Change<T>;
}

impl<T> GroupMember<T> for T {
    fn change(self) -> Change<T> {
        Change::Set(self)
    }
}

impl<T> GroupMember<T> for Option<T> {
    fn change(self) -> Change<T> {
        self.into()
    }
}

impl<T> GroupMember<T> for Option<Nullable<T>> {
    fn change(self) -> Change<T> {
        match self {
            None => Change::Keep,
            Some(Nullable::Value(value)) => Change::Set(value),
            Some(Nullable::Null) => Change::Withdraw,
        }
    }
}

/// Returns the change of a part of a rule from a member of a group, reading its value with `read`.
///
/// # Errors
/// The error of `read`.
pub(super) fn try_part<T, U>(
    member: impl GroupMember<T>,
    read: impl FnOnce(T) -> Result<U, Rejected>,
) -> Result<Change<U>, Rejected> {
    Ok(match member.change().map(read) {
        Change::Keep => Change::Keep,
        Change::Set(value) => Change::Set(value?),
        Change::Withdraw => Change::Withdraw,
    })
}

/// Does the same as [`try_part`] for a value that cannot be refused.
pub(super) fn part<T, U>(member: impl GroupMember<T>, read: impl FnOnce(T) -> U) -> Change<U> {
    member.change().map(read)
}

/// Returns the change of a part: withdrawn if one of `ies` was received with length zero. Spec: TS
/// 29.244 §5.6.3.
pub(super) fn unless_withdrawn<T>(
    part: impl Into<Change<T>>,
    withdrawn: Withdrawn,
    ies: &[IeType],
) -> Change<T> {
    match withdrawn.iter().any(|ie| ies.contains(&ie)) {
        true => Change::Withdraw,
        false => part.into(),
    }
}

/// Builds the update of a rule from the members of a Create or Update group. Each row has the part,
/// the member, how the value is read (`=`; `?` if that may fail; `&` if the value may lack the
/// part), and the IEs that withdraw the part when received with length zero.
macro_rules! parts {
    ($update:ident of $group:ident {
        $( $part:ident: $member:ident $how:tt $read:expr $(, $ie:ident)*; )+
    }) => {
        $update {
            $( $part: $crate::procedure::decode::unless_withdrawn(
                parts!(@read $how $group.$member, $read),
                $group.withdrawn,
                &[$(IeType::$ie),*],
            ), )+
            ..$update::default()
        }
    };
    (@read = $member:expr, $read:expr) => { $member.map($read) };
    (@read ? $member:expr, $read:expr) => { $member.map($read).transpose()? };
    (@read & $member:expr, $read:expr) => {
        $member.map($read).map_or(adit_session::Change::Keep, |part| {
            part.map_or(adit_session::Change::Withdraw, adit_session::Change::Set)
        })
    };
}

pub(super) use parts;

/// Returns the refusal of a well-formed value that this UP function cannot use: Cause 73.
pub(super) fn unusable(ie: IeType) -> Rejected {
    Rejected::with_ie(Cause::RuleCreationModificationFailure, ie)
}

pub(super) fn f_teid(ie: ie::FTeid) -> FTeidSpec {
    match ie {
        ie::FTeid::Given { teid, addr } => FTeidSpec::Given { teid, v4: addr.v4(), v6: addr.v6() },
        ie::FTeid::Choose { v4, v6, choose_id } => FTeidSpec::Choose { v4, v6, choose_id },
    }
}

/// Returns the change of a network instance; an empty name withdraws it. Spec: TS 29.244 §7.5.4.3.
pub(super) fn network_instance(ie: Option<ie::NetworkInstance<'_>>) -> Change<Box<str>> {
    match ie.map(name::network_instance) {
        Some(name) if name.is_empty() => Change::Withdraw,
        name => name.into(),
    }
}

pub(super) fn interface_type(ie: ie::InterfaceType) -> InterfaceType {
    InterfaceType(ie.code())
}

pub(super) fn application(id: ie::ApplicationId<'_>) -> Box<str> {
    name::text(id.0)
}

pub(super) fn sdf(filter: ie::SdfFilter<'_>) -> Result<SdfSpec, Rejected> {
    let text = filter.flow_description.map(core::str::from_utf8).transpose();
    let text = text.map_err(|_| unusable(IeType::SDF_FILTER))?;
    Ok(SdfSpec {
        flow_description: text.map(Box::from),
        tos: filter.tos_traffic_class.map(|[value, mask]| (value, mask)),
        spi: filter.security_parameter_index,
        flow_label: filter.flow_label,
        filter_id: filter.filter_id.map(|id| id.0),
        bidirectional: filter.filter_id.is_some(),
    })
}

pub(super) fn destination(
    interface: ie::DestinationInterface,
) -> Result<DestinationInterface, Rejected> {
    match interface {
        ie::DestinationInterface::Access => Ok(DestinationInterface::Access),
        ie::DestinationInterface::Core => Ok(DestinationInterface::Core),
        ie::DestinationInterface::SgiLanN6Lan => Ok(DestinationInterface::SgiLanN6Lan),
        ie::DestinationInterface::CpFunction => Ok(DestinationInterface::CpFunction),
        ie::DestinationInterface::LiFunction => Ok(DestinationInterface::LiFunction),
        ie::DestinationInterface::FivegVnInternal | ie::DestinationInterface::Unknown(_) => {
            Err(unusable(IeType::DESTINATION_INTERFACE))
        }
    }
}

/// Decodes an outer header creation of one kind: GTP-U, UDP or IP. Others, such as VLAN tags, are
/// refused. If a GTP-U peer has addresses of both families, its IPv4 address is used if
/// `can_send_to` it. Spec: TS 29.244 §8.2.56.
pub(super) fn creation(
    ie: ie::OuterHeaderCreation,
    can_send_to: impl Fn(IpAddr) -> bool,
) -> Result<HeaderCreation, Rejected> {
    use OuterHeaderDescription as D;
    let unusable = unusable(IeType::OUTER_HEADER_CREATION);
    // N19 and N6 only state the purpose of the tunnel.
    let kinds = ie.description & !(D::N19 | D::N6);
    let is_only = |families: D| !kinds.is_empty() && families.contains(kinds);
    let (v4, v6) = (ie.v4.map(IpAddr::V4), ie.v6.map(IpAddr::V6));
    let is_gtpu = is_only(D::GTPU_UDP_IPV4 | D::GTPU_UDP_IPV6);
    let v4 = v4.filter(|addr| v6.is_none() || !is_gtpu || can_send_to(*addr));
    let addr = v4.or(v6).ok_or(unusable)?;
    if is_gtpu {
        let teid = ie.teid.ok_or(unusable)?;
        return Ok(HeaderCreation::Gtpu(GtpuTunnel { teid, addr }));
    }
    if is_only(D::UDP_IPV4 | D::UDP_IPV6) {
        let port = ie.port.ok_or(unusable)?;
        return Ok(HeaderCreation::Udp { addr, port });
    }
    if is_only(D::IPV4 | D::IPV6) {
        return Ok(HeaderCreation::Ip { addr });
    }
    Err(unusable)
}

/// Returns the DSCP to write, at its position in the ToS octet: the value under its mask. The ECN
/// field is left out: this node sets it. Spec: RFC 3168 §22.
pub(super) fn marking(ie: ie::TransportLevelMarking) -> u8 {
    let [value, mask] = ie.0.to_be_bytes();
    value & mask & 0xfc
}
