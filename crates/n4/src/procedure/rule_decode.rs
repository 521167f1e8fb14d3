//! IEs of PDRs, FARs and QERs to the types of the session store.
//!
//! Only form is checked here; the store checks whether rules fit each other.
//! Spec: TS 29.244 §7.5.2, §7.5.4.

use adit_pfcp::grouped::{
    CreateBar, CreateFar, CreatePdr, CreateQer, ForwardingParameters, Pdi, UpdateBar, UpdateFar,
    UpdateForwardingParameters, UpdatePdr, UpdateQer,
};
use adit_pfcp::ie::{self, GateState, Nullable, OuterHeaderRemovalDescription};
use adit_pfcp::{IeType, Repeated};
use adit_rules::{ApplyAction, Gate, HeaderRemoval, SourceInterface};
use adit_session::{
    Bar, BarUpdate, Far, FarUpdate, Forwarding, ForwardingUpdate, InterfaceType, PdiSpec, PdrSpec,
    PdrTimes, PdrUpdate, Provisioning, Qer, QerGates, QerUpdate, Rates, RuleId, TrafficEndpointId,
};

use crate::name;
use crate::procedure::decode::{
    RequestTime, creation, destination, f_teid, marking, sdf, unusable,
};
use crate::procedure::{endpoint_decode, far_decode, packet_rates};
use crate::refusal::Rejected;

pub(super) fn create_pdr(group: &CreatePdr<'_>, when: RequestTime) -> Result<PdrSpec, Rejected> {
    let id = group.pdr_id;
    let spec = || {
        Ok(PdrSpec {
            id,
            precedence: group.precedence,
            pdi: pdi(&group.pdi, group.ue_ip_address_pool_ids)?,
            outer_header_removal: group.outer_header_removal.map(removal).transpose()?,
            container_deletion: group.outer_header_removal.is_some_and(deletes_container),
            far: group.far_id,
            qers: group.qer_ids.iter().collect(),
            urrs: group.urr_ids.iter().collect(),
            times: times(group.activation_time, group.deactivation_time, when),
            predefined: names(group.activate_predefined_rules),
        })
    };
    spec().map_err(|rejected: Rejected| rejected.in_rule(RuleId::Pdr(id)))
}

pub(super) fn update_pdr(group: &UpdatePdr<'_>, when: RequestTime) -> Result<PdrUpdate, Rejected> {
    let id = group.pdr_id;
    let update = || {
        Ok(PdrUpdate {
            id,
            precedence: group.precedence,
            pdi: group.pdi.as_ref().map(|group| pdi(group, Repeated::default())).transpose()?,
            outer_header_removal: group.outer_header_removal.map(removal).transpose()?,
            container_deletion: group.outer_header_removal.map(deletes_container),
            far: group.far_id,
            qers: (!group.qer_ids.is_empty()).then(|| group.qer_ids.iter().collect()),
            urrs: (!group.urr_ids.is_empty()).then(|| group.urr_ids.iter().collect()),
            times: times(group.activation_time, group.deactivation_time, when),
            deactivate: group
                .deactivate_predefined_rules
                .iter()
                .map(|ie| name::text(ie.0))
                .collect(),
            activate: names(group.activate_predefined_rules),
        })
    };
    update().map_err(|rejected: Rejected| rejected.in_rule(RuleId::Pdr(id)))
}

/// Names of predefined rules.
fn names(ies: Repeated<'_, ie::ActivatePredefinedRules<'_>>) -> Vec<Box<str>> {
    ies.iter().map(|ie| name::text(ie.0)).collect()
}

fn pdi(
    group: &Pdi<'_>,
    pools: Repeated<'_, ie::UeIpAddressPoolIdentity<'_>>,
) -> Result<PdiSpec, Rejected> {
    let ue = endpoint_decode::ue(group.ue_ip_addresses, pools)?;
    let framed_routes = endpoint_decode::framed_routes(
        group.framed_routes,
        group.framed_ipv6_routes,
        group.framed_routing,
    )?;
    Ok(PdiSpec {
        source: source(group.source_interface)?,
        interface_type: group.source_interface_type.map(interface_type),
        traffic_endpoints: endpoints(group.traffic_endpoint_ids),
        f_teid: group.local_f_teid.map(f_teid),
        network_instance: group.network_instance.map(name::network_instance),
        ue: ue.given,
        further_ues: ue.further,
        framed_routes,
        choose_ue: ue.choose,
        qfis: group.qfis.iter().collect(),
        sdf: group.sdf_filters.iter().map(sdf).collect::<Result<_, _>>()?,
        application: group.application_id.map(|id| name::text(id.0)),
    })
}

fn endpoints(ids: Repeated<'_, ie::TrafficEndpointId>) -> Vec<TrafficEndpointId> {
    ids.iter().map(|id| TrafficEndpointId(id.0)).collect()
}

const fn interface_type(ie: ie::InterfaceType) -> InterfaceType {
    InterfaceType(ie.code())
}

/// When a PDR begins and ceases to match. Times that have passed count from now on; of two that
/// have, only the later. Spec: TS 29.244 §8.2.121, §8.2.122.
fn times(
    activation: Option<ie::ActivationTime>,
    deactivation: Option<ie::DeactivationTime>,
    when: RequestTime,
) -> PdrTimes {
    let moment = |ntp: u32| when.ntp_clock.instant(when.now, ntp);
    let (begins, ends) = (activation.map(|at| at.0), deactivation.map(|at| at.0));
    let is_reversed = begins.zip(ends).is_some_and(|(begins, ends)| {
        let ahead = begins.wrapping_sub(ends);
        moment(begins) == when.now && (1..u32::MAX / 2).contains(&ahead)
    });
    PdrTimes {
        activation: begins.map(moment),
        deactivation: ends.filter(|_| !is_reversed).map(moment),
    }
}

fn source(interface: ie::SourceInterface) -> Result<SourceInterface, Rejected> {
    match interface {
        ie::SourceInterface::Access => Ok(SourceInterface::Access),
        ie::SourceInterface::Core => Ok(SourceInterface::Core),
        ie::SourceInterface::SgiLanN6Lan => Ok(SourceInterface::SgiLanN6Lan),
        ie::SourceInterface::CpFunction => Ok(SourceInterface::CpFunction),
        ie::SourceInterface::FivegVnInternal | ie::SourceInterface::Unknown(_) => {
            Err(unusable(IeType::SOURCE_INTERFACE))
        }
    }
}

fn removal(ie: ie::OuterHeaderRemoval) -> Result<HeaderRemoval, Rejected> {
    use OuterHeaderRemovalDescription as D;
    match ie.description {
        D::GtpuUdpIpv4 => Ok(HeaderRemoval::GtpuUdpIpv4),
        D::GtpuUdpIpv6 => Ok(HeaderRemoval::GtpuUdpIpv6),
        D::UdpIpv4 => Ok(HeaderRemoval::UdpIpv4),
        D::UdpIpv6 => Ok(HeaderRemoval::UdpIpv6),
        D::Ipv4 => Ok(HeaderRemoval::Ipv4),
        D::Ipv6 => Ok(HeaderRemoval::Ipv6),
        D::GtpuUdpIp => Ok(HeaderRemoval::GtpuUdpIp),
        D::VlanTag | D::VlanTags | D::Unknown(_) => Err(unusable(IeType::OUTER_HEADER_REMOVAL)),
    }
}

/// GTP-U Extension Header Deletion, bit 1. Spec: TS 29.244 §8.2.64.
fn deletes_container(ie: ie::OuterHeaderRemoval) -> bool {
    ie.extension_header_deletion.is_some_and(|bits| bits & 1 == 1)
}

pub(super) fn create_far(group: &CreateFar<'_>, own: &Provisioning) -> Result<Far, Rejected> {
    let id = group.far_id;
    let parameters = group.forwarding_parameters.as_ref();
    let forwarding = parameters.map(|parameters| forwarding(parameters, own)).transpose();
    let forwarding = forwarding.map_err(|rejected| rejected.in_rule(RuleId::Far(id)))?;
    let duplicating = group.duplicating_parameters.iter();
    let duplicating = duplicating.map(|parameters| far_decode::duplicating(&parameters, own));
    let duplicating: Result<_, Rejected> = duplicating.collect();
    let duplicating = duplicating.map_err(|rejected| rejected.in_rule(RuleId::Far(id)))?;
    let action = action(group.apply_action);
    Ok(Far { id, action, bar: group.bar_id, forwarding, duplicating })
}

pub(super) fn update_far(group: &UpdateFar<'_>, own: &Provisioning) -> Result<FarUpdate, Rejected> {
    let id = group.far_id;
    let parameters = group.update_forwarding_parameters.as_ref();
    let forwarding = parameters.map(|parameters| forwarding_update(parameters, own)).transpose();
    let forwarding = forwarding.map_err(|rejected| rejected.in_rule(RuleId::Far(id)))?;
    let duplicating = group.update_duplicating_parameters.iter();
    let duplicating =
        duplicating.map(|parameters| far_decode::duplicating_update(&parameters, own));
    let duplicating: Result<_, Rejected> = duplicating.collect();
    let duplicating = duplicating.map_err(|rejected| rejected.in_rule(RuleId::Far(id)))?;
    let action = group.apply_action.map(action);
    Ok(FarUpdate { id, action, bar: group.bar_id, forwarding, duplicating })
}

/// The store refuses unknown flags.
fn action(ie: ie::ApplyAction) -> ApplyAction {
    ApplyAction::from_bits_retain(ie.bits())
}

fn forwarding(
    group: &ForwardingParameters<'_>,
    own: &Provisioning,
) -> Result<Forwarding, Rejected> {
    let linked = group.linked_traffic_endpoint_id;
    let destination = destination(group.destination_interface)?;
    let network_instance =
        group.network_instance.map(name::network_instance).filter(|name| !name.is_empty());
    let interface_type = group.destination_interface_type.map(interface_type);
    let can_send_to = |peer| {
        own.can_send_to(peer, Some(destination), interface_type, network_instance.as_deref())
    };
    let outer_header_creation =
        group.outer_header_creation.map(|ie| creation(ie, can_send_to)).transpose()?;
    Ok(Forwarding {
        destination,
        network_instance,
        outer_header_creation,
        transport_level_marking: group.transport_level_marking.map(marking),
        interface_type,
        linked_endpoint: linked.map(|id| TrafficEndpointId(id.0)),
        redirect: group.redirect_information.map(far_decode::redirect).transpose()?,
        policy: group.forwarding_policy.map(far_decode::policy),
    })
}

fn forwarding_update(
    group: &UpdateForwardingParameters<'_>,
    own: &Provisioning,
) -> Result<ForwardingUpdate, Rejected> {
    let linked = group.linked_traffic_endpoint_id;
    let flags = group.pfcp_sm_req_flags.unwrap_or_default();
    let header = group.outer_header_creation;
    let destination = group.destination_interface.map(destination).transpose()?;
    let network_instance = group.network_instance.map(name::network_instance);
    let interface_type = group.destination_interface_type.map(interface_type);
    let can_send_to =
        |peer| own.can_send_to(peer, destination, interface_type, network_instance.as_deref());
    let outer_header_creation =
        header.and_then(|ie| ie.value()).map(|ie| creation(ie, can_send_to)).transpose()?;
    Ok(ForwardingUpdate {
        destination,
        network_instance,
        outer_header_creation,
        withdraw_outer_header: header == Some(Nullable::Null),
        send_end_marker: flags.contains(ie::PfcpSmReqFlags::SNDEM),
        // Without a marking the octet is zero.
        transport_level_marking: group
            .transport_level_marking
            .map(|ie| ie.value().map_or(0, marking)),
        interface_type,
        linked_endpoint: linked.map(|ie| ie.value().map(|id| TrafficEndpointId(id.0))),
        redirect: group
            .redirect_information
            .map(|ie| ie.value().map(far_decode::redirect).transpose())
            .transpose()?,
        policy: group.forwarding_policy.map(|ie| ie.value().map(far_decode::policy)),
    })
}

pub(super) fn create_bar(group: &CreateBar<'_>) -> Bar {
    Bar {
        id: group.bar_id,
        notification_delay: group.downlink_data_notification_delay.map_or(0, |delay| delay.0),
        suggested_pkts: group.suggested_buffering_packets_count.map(|count| count.0.into()),
    }
}

/// A BAR's update in a modification, which has no buffering duration.
pub(super) fn update_bar(group: &UpdateBar<'_>) -> Result<BarUpdate, Rejected> {
    if group.dl_buffering_duration.is_some() {
        let rejected = Rejected::unsupported(IeType::DL_BUFFERING_DURATION);
        return Err(rejected.in_rule(RuleId::Bar(group.bar_id)));
    }
    Ok(update_bar_of_report(group))
}

/// A BAR's update in the response to a report, without its buffering duration.
pub(super) fn update_bar_of_report(group: &UpdateBar<'_>) -> BarUpdate {
    let count = group.suggested_buffering_packets_count.map(|count| count.0.into());
    let delay = IeType::DOWNLINK_DATA_NOTIFICATION_DELAY;
    let no_delay = group.withdrawn.iter().any(|ie| ie == delay).then_some(0);
    BarUpdate {
        id: group.bar_id,
        notification_delay: group.downlink_data_notification_delay.map(|ie| ie.0).or(no_delay),
        suggested_pkts: group.dl_buffering_suggested_packet_count.map(|n| n.0).or(count),
    }
}

pub(super) fn create_qer(group: &CreateQer<'_>, when: RequestTime) -> Result<Qer, Rejected> {
    let id = RuleId::Qer(group.qer_id);
    let packet_rate = group.packet_rate.map(packet_rates::limits).transpose();
    let reports_packets = group.qer_control_indications.map(packet_rates::is_reported).transpose();
    Ok(Qer {
        id: group.qer_id,
        correlation: group.qer_correlation_id.map(|id| id.0),
        gates: gates(group.gate_status),
        mbr: group.mbr.map(|mbr| rates(mbr.0)),
        gbr: group.gbr.map(|gbr| rates(gbr.0)),
        averaging_window_ms: group.averaging_window.map(|window| window.0),
        packet_rate: packet_rate.map_err(|rejected| rejected.in_rule(id))?,
        packet_status: group.packet_rate_status.map(|status| packet_rates::status(status, when)),
        reports_packets: reports_packets.map_err(|rejected| rejected.in_rule(id))?.unwrap_or(false),
        qfi: group.qfi,
        rqi: group.rqi.is_some_and(|rqi| rqi.contains(ie::Rqi::RQI)),
        ppi: group.paging_policy_indicator.map(|ppi| ppi.0),
    })
}

pub(super) fn update_qer(group: &UpdateQer<'_>) -> Result<QerUpdate, Rejected> {
    let id = RuleId::Qer(group.qer_id);
    let packet_rate = group.packet_rate.map(packet_rates::limits).transpose();
    let reports_packets = group.qer_control_indications.map(packet_rates::is_reported).transpose();
    Ok(QerUpdate {
        id: group.qer_id,
        correlation: group.qer_correlation_id.map(|id| id.0),
        gates: group.gate_status.map(gates),
        mbr: group.mbr.map(|mbr| rates(mbr.0)),
        gbr: group.gbr.map(|gbr| rates(gbr.0)),
        averaging_window_ms: group.averaging_window.map(|window| window.0),
        packet_rate: packet_rate.map_err(|rejected| rejected.in_rule(id))?,
        reports_packets: reports_packets.map_err(|rejected| rejected.in_rule(id))?,
        qfi: group.qfi,
        rqi: group.rqi.map(|rqi| rqi.contains(ie::Rqi::RQI)),
        ppi: group.paging_policy_indicator.map(|ppi| ppi.0),
    })
}

fn gates(ie: ie::GateStatus) -> QerGates {
    let gate = |state| match state {
        GateState::Open => Gate::Open,
        GateState::Closed => Gate::Closed,
    };
    QerGates { uplink: gate(ie.uplink), downlink: gate(ie.downlink) }
}

fn rates(limits: ie::RateLimits) -> Rates {
    Rates { uplink: limits.uplink, downlink: limits.downlink }
}
