//! Decodes PDRs, FARs and QERs to the types of the session store.
//!
//! Checks only the form of each rule; the session store checks whether the rules fit together.
//! Spec: TS 29.244 §7.5.2, §7.5.4.

use adit_pfcp::grouped::{
    CreateBar, CreateFar, CreatePdr, CreateQer, Pdi, UpdateBar, UpdateFar, UpdatePdr, UpdateQer,
};
use adit_pfcp::ie::{self, GateState, OuterHeaderRemovalDescription};
use adit_pfcp::{IeType, Repeated};
use adit_rules::{ApplyAction, Gate, HeaderRemoval, SourceInterface};
use adit_session::{
    Bar, BarUpdate, Far, FarUpdate, PdiSpec, PdrSpec, PdrTimes, PdrTimesUpdate, PdrUpdate,
    Provisioning, Qer, QerGates, QerUpdate, Rates, RuleId, RulePart, TrafficEndpointId,
};

use crate::name;
use crate::procedure::decode::{
    RequestTime, f_teid, interface_type, part, parts, sdf, unless_withdrawn, unusable,
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
    let withdrawn = group.withdrawn;
    let update = || {
        let PdrTimes { activation, deactivation } =
            times(group.activation_time, group.deactivation_time, when);
        let qers = (!group.qer_ids.is_empty()).then(|| group.qer_ids.iter().collect());
        let urrs = (!group.urr_ids.is_empty()).then(|| group.urr_ids.iter().collect());
        Ok(PdrUpdate {
            id,
            pdi: group.pdi.as_ref().map(|group| pdi(group, Repeated::default())).transpose()?,
            qers: unless_withdrawn(qers, withdrawn, &[IeType::QER_ID]),
            urrs: unless_withdrawn(urrs, withdrawn, &[IeType::URR_ID]),
            times: PdrTimesUpdate {
                activation: unless_withdrawn(activation, withdrawn, &[IeType::ACTIVATION_TIME]),
                deactivation: unless_withdrawn(
                    deactivation,
                    withdrawn,
                    &[IeType::DEACTIVATION_TIME],
                ),
            },
            deactivate: group
                .deactivate_predefined_rules
                .iter()
                .map(|ie| name::text(ie.0))
                .collect(),
            activate: names(group.activate_predefined_rules),
            ..parts!(PdrUpdate of group {
                precedence: precedence = |precedence| precedence;
                outer_header_removal: outer_header_removal ? removal, OUTER_HEADER_REMOVAL;
                container_deletion: outer_header_removal = deletes_container, OUTER_HEADER_REMOVAL;
                far: far_id = |id| id, FAR_ID;
            })
        })
    };
    update().map_err(|rejected: Rejected| rejected.in_rule(RuleId::Pdr(id)))
}

/// Decodes the names of predefined rules.
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

/// Decodes when a PDR starts and stops matching. Times in the past apply at once; if both are past,
/// only the later one. Spec: TS 29.244 §8.2.121, §8.2.122.
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

/// True if GTP-U Extension Header Deletion has bit 1 (PDU Session Container) set. Spec: TS 29.244
/// §8.2.64.
fn deletes_container(ie: ie::OuterHeaderRemoval) -> bool {
    ie.extension_header_deletion.is_some_and(|bits| bits & 1 == 1)
}

pub(super) fn create_far(group: &CreateFar<'_>, own: &Provisioning) -> Result<Far, Rejected> {
    let far = || {
        let forwarding = group.forwarding_parameters.as_ref();
        let copies = group.duplicating_parameters.iter();
        Ok(Far {
            id: group.far_id,
            action: action(group.apply_action),
            bar: group.bar_id,
            forwarding: forwarding.map(|group| far_decode::forwarding(group, own)).transpose()?,
            duplicating: copies
                .map(|group| far_decode::duplicating(&group, own))
                .collect::<Result<_, _>>()?,
        })
    };
    far().map_err(|rejected: Rejected| rejected.in_rule(RuleId::Far(group.far_id)))
}

pub(super) fn update_far(group: &UpdateFar<'_>, own: &Provisioning) -> Result<FarUpdate, Rejected> {
    let update = || {
        let forwarding = group.update_forwarding_parameters.as_ref();
        let copies = group.update_duplicating_parameters.iter();
        let flags = forwarding.and_then(|group| group.pfcp_sm_req_flags).unwrap_or_default();
        Ok(FarUpdate {
            id: group.far_id,
            action: part(group.apply_action, action),
            bar: unless_withdrawn(group.bar_id, group.withdrawn, &[IeType::BAR_ID]),
            forwarding: forwarding
                .map(|group| far_decode::forwarding_update(group, own))
                .transpose()?,
            duplicating: copies
                .map(|group| far_decode::duplicating_update(&group, own))
                .collect::<Result<_, _>>()?,
            send_end_marker: flags.contains(ie::PfcpSmReqFlags::SNDEM),
        })
    };
    update().map_err(|rejected: Rejected| rejected.in_rule(RuleId::Far(group.far_id)))
}

/// Decodes the action; the session store refuses unknown flags.
fn action(ie: ie::ApplyAction) -> ApplyAction {
    ApplyAction::from_bits_retain(ie.bits())
}

pub(super) fn create_bar(group: &CreateBar<'_>) -> Bar {
    Bar {
        id: group.bar_id,
        notification_delay: group.downlink_data_notification_delay.map_or(0, |delay| delay.0),
        suggested_pkts: group.suggested_buffering_packets_count.map(|count| count.0.into()),
    }
}

/// Decodes a BAR's update in a modification, where a buffering duration is refused.
pub(super) fn update_bar(group: &UpdateBar<'_>) -> Result<BarUpdate, Rejected> {
    if group.dl_buffering_duration.is_some() {
        let rejected = Rejected::unsupported(IeType::DL_BUFFERING_DURATION);
        return Err(rejected.in_rule(RuleId::Bar(group.bar_id)));
    }
    Ok(update_bar_of_report(group))
}

/// Decodes a BAR's update in the response to a report, without its buffering duration.
pub(super) fn update_bar_of_report(group: &UpdateBar<'_>) -> BarUpdate {
    let (delay, withdrawn) = (group.downlink_data_notification_delay, group.withdrawn);
    let count = group.suggested_buffering_packets_count.map(|count| count.0.into());
    let count = group.dl_buffering_suggested_packet_count.map(|count| count.0).or(count);
    let counts =
        [IeType::SUGGESTED_BUFFERING_PACKETS_COUNT, IeType::DL_BUFFERING_SUGGESTED_PACKET_COUNT];
    BarUpdate {
        id: group.bar_id,
        notification_delay: unless_withdrawn(
            delay.map(|delay| delay.0),
            withdrawn,
            &[IeType::DOWNLINK_DATA_NOTIFICATION_DELAY],
        ),
        suggested_pkts: unless_withdrawn(count, withdrawn, &counts),
    }
}

/// Decodes the members that Create and Update QER have in common.
macro_rules! qer_parts {
    ($group:ident) => { parts!(QerUpdate of $group {
        correlation: qer_correlation_id = |id| id.0, QER_CORRELATION_ID;
        mbr: mbr = |mbr| rates(mbr.0), MBR;
        gbr: gbr = |gbr| rates(gbr.0), GBR;
        averaging_window_ms: averaging_window = |window| window.0, AVERAGING_WINDOW;
        packet_rate: packet_rate ? packet_rates::limits, PACKET_RATE;
        reports_packets: qer_control_indications ? packet_rates::is_reported_at_end,
            QER_CONTROL_INDICATIONS;
        qfi: qfi = |qfi| qfi, QFI;
        rqi: rqi = |rqi| rqi.contains(ie::Rqi::RQI), RQI;
        ppi: paging_policy_indicator = |ppi| ppi.0, PAGING_POLICY_INDICATOR;
        flow_tos: dl_flow_level_marking & |marking| marking.tos_traffic_class.map(<(u8, u8)>::from),
            DL_FLOW_LEVEL_MARKING;
        service_class: dl_flow_level_marking & |marking| marking.service_class_indicator.map(<(u8, u8)>::from),
            DL_FLOW_LEVEL_MARKING;
    }) };
}

pub(super) fn create_qer(group: &CreateQer<'_>, when: RequestTime) -> Result<Qer, Rejected> {
    let qer = || {
        let (id, gates) = (group.qer_id, gates(group.gate_status));
        let status = group.packet_rate_status.map(|status| packet_rates::status(status, when));
        let mut qer = Qer { id, gates, packet_status: status, ..Qer::default() };
        qer.change(QerUpdate { id, ..qer_parts!(group) });
        Ok(qer)
    };
    qer().map_err(|rejected: Rejected| rejected.in_rule(RuleId::Qer(group.qer_id)))
}

pub(super) fn update_qer(group: &UpdateQer<'_>) -> Result<QerUpdate, Rejected> {
    let update = || {
        let (id, gates) = (group.qer_id, part(group.gate_status, gates));
        Ok(QerUpdate { id, gates, ..qer_parts!(group) })
    };
    update().map_err(|rejected: Rejected| rejected.in_rule(RuleId::Qer(group.qer_id)))
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
