//! IEs that demand something that this UP function does not do.
//!
//! Optional IEs may be ignored only while nothing is lost by it; these are refused instead, in
//! messages and at any depth of their rules. Unknown IEs are ignored. Spec: TS 29.244 §7.6.9.

use adit_pfcp::ie::PdnType;
use adit_pfcp::{Ie, IeIter, IeType};
use adit_session::RuleId;
use adit_types::{FarId, PdrId, QerId, UrrId};

use crate::refusal::Rejected;

/// Groups whose members are looked at.
const GROUPS: &[IeType] = &[
    IeType::CREATE_PDR,
    IeType::UPDATE_PDR,
    IeType::PDI,
    IeType::CREATE_TRAFFIC_ENDPOINT,
    IeType::UPDATE_TRAFFIC_ENDPOINT,
    IeType::CREATE_FAR,
    IeType::UPDATE_FAR,
    IeType::FORWARDING_PARAMETERS,
    IeType::UPDATE_FORWARDING_PARAMETERS,
    IeType::CREATE_QER,
    IeType::UPDATE_QER,
    IeType::CREATE_URR,
    IeType::UPDATE_URR,
];

/// Groups within groups: PDI within Create PDR. Deeper ones are not legal, and a peer cannot make
/// us descend further.
const DEPTH_MAX: u8 = 2;

/// IEs that are refused wherever they stand.
pub(crate) const DEMANDS: &[IeType] = &[
    IeType::EVENT_THRESHOLD,
    IeType::EVENT_QUOTA,
    IeType::SUBSEQUENT_EVENT_THRESHOLD,
    IeType::SUBSEQUENT_EVENT_QUOTA,
    IeType::TIME_QUOTA_MECHANISM,
    IeType::AGGREGATED_URRS,
    IeType::ETHERNET_INACTIVITY_TIMER,
    IeType::ADDITIONAL_MONITORING_TIME,
    IeType::NUMBER_OF_REPORTS,
    IeType::CREATE_MAR,
    IeType::UPDATE_MAR,
    IeType::REMOVE_MAR,
    IeType::MAR_ID,
    IeType::CREATE_SRR,
    IeType::UPDATE_SRR,
    IeType::REMOVE_SRR,
    IeType::ACTIVATE_PREDEFINED_RULES,
    IeType::DEACTIVATE_PREDEFINED_RULES,
    IeType::ACTIVATION_TIME,
    IeType::DEACTIVATION_TIME,
    IeType::ETHERNET_PACKET_FILTER,
    IeType::ETHERNET_PDU_SESSION_INFORMATION,
    IeType::FRAMED_ROUTE,
    IeType::FRAMED_ROUTING,
    IeType::FRAMED_IPV6_ROUTE,
    IeType::DUPLICATING_PARAMETERS,
    IeType::UPDATE_DUPLICATING_PARAMETERS,
    IeType::REDIRECT_INFORMATION,
    IeType::FORWARDING_POLICY,
    IeType::HEADER_ENRICHMENT,
    IeType::PROXYING,
    IeType::PACKET_RATE,
    IeType::DL_FLOW_LEVEL_MARKING,
    IeType::QER_CONTROL_INDICATIONS,
    IeType::TRACE_INFORMATION,
    IeType::IP_MULTICAST_ADDRESSING_INFO,
    IeType::CREATE_BRIDGE_INFO_FOR_TSC,
    IeType::PROVIDE_ATSSS_CONTROL_INFORMATION,
    IeType::PROVIDE_RDS_CONFIGURATION_INFORMATION,
    IeType::DATA_NETWORK_ACCESS_IDENTIFIER,
    IeType::TRANSPORT_DELAY_REPORTING,
    IeType::L2TP_TUNNEL_INFORMATION,
    IeType::L2TP_SESSION_INFORMATION_REQUEST,
    IeType::IP_ADDRESS_AND_PORT_NUMBER_REPLACEMENT,
    IeType::DSCP_TO_PPI_CONTROL_INFORMATION,
    IeType::MBS_SESSION_N4_CONTROL_INFORMATION,
    IeType::MBS_SESSION_N4MB_CONTROL_INFORMATION,
    IeType::REDUNDANT_TRANSMISSION_DETECTION_PARAMETERS,
    IeType::REDUNDANT_TRANSMISSION_FORWARDING_PARAMETERS,
];

/// Refuses a body that demands what we do not do.
///
/// # Errors
/// Cause 76 with the first such IE, and the rule that contains it.
pub(crate) fn check(body: &[u8]) -> Result<(), Rejected> {
    check_to(body, DEPTH_MAX)
}

fn check_to(body: &[u8], depth: u8) -> Result<(), Rejected> {
    for ie in IeIter::new(body).flatten() {
        if ie.enterprise_id.is_some() {
            continue;
        }
        if DEMANDS.contains(&ie.ie_type) || demands_other_pdn(ie.ie_type, ie.value) {
            return Err(Rejected::unsupported(ie.ie_type));
        }
        if depth > 0 && GROUPS.contains(&ie.ie_type) {
            check_to(ie.value, depth - 1).map_err(|rejected| {
                match rule_of(ie.ie_type, ie.value) {
                    Some(rule) => rejected.in_rule(rule),
                    None => rejected,
                }
            })?;
        }
    }
    Ok(())
}

fn demands_other_pdn(ie_type: IeType, value: &[u8]) -> bool {
    ie_type == IeType::PDN_TYPE
        && matches!(PdnType::decode(value), Ok(PdnType::Ethernet | PdnType::NonIp))
}

/// The rule that a Create or Update group is about.
fn rule_of(ie_type: IeType, group: &[u8]) -> Option<RuleId> {
    match ie_type {
        IeType::CREATE_PDR | IeType::UPDATE_PDR => member::<PdrId>(group).map(RuleId::Pdr),
        IeType::CREATE_FAR | IeType::UPDATE_FAR => member::<FarId>(group).map(RuleId::Far),
        IeType::CREATE_QER | IeType::UPDATE_QER => member::<QerId>(group).map(RuleId::Qer),
        IeType::CREATE_URR | IeType::UPDATE_URR => member::<UrrId>(group).map(RuleId::Urr),
        _ => None,
    }
}

fn member<'a, T: Ie<'a>>(group: &'a [u8]) -> Option<T> {
    let ie = IeIter::new(group).flatten().find(|ie| ie.ie_type == T::TYPE)?;
    T::decode(ie.value).ok()
}
