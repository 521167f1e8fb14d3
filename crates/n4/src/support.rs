//! The support of each message and IE in this UP function: the source of `docs/spec`.
//!
//! A slice that makes an IE act moves its row here. An IE that is refused (`procedure::demand`)
//! is never one that acts; a test compares both.

pub(crate) mod unannounced;

use adit_pfcp::{IeType, MessageType};

/// How far a message or an IE has an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acts {
    /// Wholly.
    Yes,
    /// Understood, with a partial effect or a precise refusal; the text names the missing part.
    Partly(&'static str),
    /// Not at all: the text names the function that this release leaves out, and is empty if it is
    /// only not implemented yet.
    No(&'static str),
}

/// Out of the scope of this release.
const ETHERNET: &str = "Ethernet";
const ATSSS: &str = "ATSSS";
const MBS: &str = "MBS";
const TSN: &str = "TSN";
const L2TP: &str = "L2TP";

/// Messages that do not act wholly. All others do.
const MESSAGES: &[(MessageType, Acts)] = &[
    (MessageType::PFD_MANAGEMENT_REQUEST, Acts::Partly("see PFD contents")),
    (
        MessageType::ASSOCIATION_UPDATE_REQUEST,
        Acts::Partly("release, its preparation and its end; received: features, SMF set"),
    ),
    (
        MessageType::NODE_REPORT_REQUEST,
        Acts::Partly("no clock drift (TSN) and no reports of our own (vendor-specific)"),
    ),
    (MessageType::SESSION_ESTABLISHMENT_REQUEST, Acts::Partly("see its IEs")),
    (MessageType::SESSION_ESTABLISHMENT_RESPONSE, Acts::Partly("see its IEs")),
    (MessageType::SESSION_MODIFICATION_REQUEST, Acts::Partly("see its IEs")),
    (MessageType::SESSION_MODIFICATION_RESPONSE, Acts::Partly("see its IEs")),
    (MessageType::SESSION_REPORT_REQUEST, Acts::Partly("see its IEs")),
];

/// IEs that act, wholly or in part. All others do not.
const IES: &[(IeType, Acts)] = &[
    (IeType::CREATE_PDR, Acts::Yes),
    (IeType::PDI, Acts::Yes),
    (IeType::CREATE_FAR, Acts::Yes),
    (IeType::FORWARDING_PARAMETERS, Acts::Yes),
    (IeType::CREATE_QER, Acts::Yes),
    (IeType::CREATE_BAR, Acts::Yes),
    (IeType::UPDATE_BAR_SESSION_MODIFICATION_REQUEST, Acts::Yes),
    (IeType::UPDATE_BAR_SESSION_REPORT_RESPONSE, Acts::Yes),
    (IeType::REMOVE_BAR, Acts::Yes),
    (IeType::BAR_ID, Acts::Yes),
    (IeType::DOWNLINK_DATA_NOTIFICATION_DELAY, Acts::Yes),
    (IeType::SUGGESTED_BUFFERING_PACKETS_COUNT, Acts::Yes),
    (IeType::DL_BUFFERING_SUGGESTED_PACKET_COUNT, Acts::Yes),
    (IeType::DOWNLINK_DATA_REPORT, Acts::Yes),
    (IeType::DOWNLINK_DATA_SERVICE_INFORMATION, Acts::Yes),
    (IeType::DATA_STATUS, Acts::Yes),
    (IeType::PFCPSRRSP_FLAGS, Acts::Yes),
    (IeType::CREATED_PDR, Acts::Yes),
    (IeType::UPDATE_PDR, Acts::Yes),
    (IeType::UPDATE_FAR, Acts::Yes),
    (IeType::UPDATE_FORWARDING_PARAMETERS, Acts::Yes),
    (IeType::UPDATE_QER, Acts::Yes),
    (IeType::REMOVE_PDR, Acts::Yes),
    (IeType::REMOVE_FAR, Acts::Yes),
    (IeType::REMOVE_QER, Acts::Yes),
    (IeType::CREATE_TRAFFIC_ENDPOINT, Acts::Yes),
    (IeType::CREATED_TRAFFIC_ENDPOINT, Acts::Yes),
    (IeType::UPDATE_TRAFFIC_ENDPOINT, Acts::Yes),
    (IeType::REMOVE_TRAFFIC_ENDPOINT, Acts::Yes),
    (IeType::TRAFFIC_ENDPOINT_ID, Acts::Yes),
    (IeType::UE_IP_ADDRESS_POOL_IDENTITY, Acts::Yes),
    (IeType::UE_IP_ADDRESS_POOL_INFORMATION, Acts::Yes),
    (IeType::UE_IP_ADDRESS_USAGE_INFORMATION, Acts::Yes),
    (IeType::IP_VERSION, Acts::Yes),
    (IeType::VALIDITY_TIMER, Acts::Yes),
    (IeType::NUMBER_OF_UE_IP_ADDRESSES, Acts::Yes),
    (IeType::UPDATED_PDR, Acts::Yes),
    (IeType::PFCPSEREQ_FLAGS, Acts::Partly("RESTI; SUMPC is refused")),
    (IeType::USER_ID, Acts::Partly("information: shown, masked")),
    (IeType::APN_DNN, Acts::Partly("information: shown")),
    (IeType::S_NSSAI, Acts::Partly("of sessions: rates of a slice, shown; of pools reported")),
    (IeType::RAT_TYPE, Acts::Partly("information: shown")),
    (IeType::NF_INSTANCE_ID, Acts::Partly("of the CP function: shown; not sent")),
    (IeType::CAUSE, Acts::Yes),
    (IeType::SOURCE_INTERFACE, Acts::Partly("CP function by GTP-U; no 5G VN internal")),
    (IeType::F_TEID, Acts::Yes),
    (IeType::NETWORK_INSTANCE, Acts::Yes),
    (IeType::SDF_FILTER, Acts::Partly("no options and no negated addresses")),
    (IeType::APPLICATION_ID, Acts::Yes),
    (IeType::ACTIVATE_PREDEFINED_RULES, Acts::Yes),
    (IeType::DEACTIVATE_PREDEFINED_RULES, Acts::Yes),
    (IeType::APPLICATION_IDS_PFDS, Acts::Yes),
    (IeType::PFD_CONTEXT, Acts::Yes),
    (
        IeType::PFD_CONTENTS,
        Acts::Partly("flow descriptions; URLs, domain names and custom contents are refused"),
    ),
    (IeType::GATE_STATUS, Acts::Yes),
    (IeType::MBR, Acts::Yes),
    (
        IeType::GBR,
        Acts::Partly(
            "admitted within a configured capacity; goes first at rates that sessions share and where \
             a transmit queue is full",
        ),
    ),
    (IeType::QER_CORRELATION_ID, Acts::Yes),
    (IeType::PACKET_RATE, Acts::Yes),
    (IeType::PACKET_RATE_STATUS, Acts::Yes),
    (IeType::QUERY_PACKET_RATE_STATUS, Acts::Yes),
    (IeType::PACKET_RATE_STATUS_REPORT, Acts::Partly("when a session is deleted")),
    (IeType::PACKET_RATE_STATUS_REPORT_MODIFICATION_RESPONSE, Acts::Yes),
    (IeType::QER_CONTROL_INDICATIONS, Acts::Partly("RCSR; MOED and NORD are refused")),
    (IeType::PRECEDENCE, Acts::Yes),
    (IeType::TRANSPORT_LEVEL_MARKING, Acts::Yes),
    (IeType::REPORT_TYPE, Acts::Partly("see the reports")),
    (IeType::OFFENDING_IE, Acts::Yes),
    (
        IeType::DESTINATION_INTERFACE,
        Acts::Partly("CP function by GTP-U; LI function for copies only; no 5G VN internal"),
    ),
    (IeType::DUPLICATING_PARAMETERS, Acts::Yes),
    (IeType::UPDATE_DUPLICATING_PARAMETERS, Acts::Yes),
    (IeType::FORWARDING_POLICY, Acts::Yes),
    (IeType::REDIRECT_INFORMATION, Acts::Partly("no SIP URI")),
    (IeType::UP_FUNCTION_FEATURES, Acts::Yes),
    (IeType::APPLY_ACTION, Acts::Partly("no IP multicast, redundant transmission and MBS")),
    (
        IeType::PFCPSMREQ_FLAGS,
        Acts::Partly("DROBU, QAURR, SNDEM; others are refused or without effect"),
    ),
    (IeType::PDR_ID, Acts::Yes),
    (IeType::F_SEID, Acts::Yes),
    (IeType::NODE_ID, Acts::Yes),
    (IeType::OUTER_HEADER_CREATION, Acts::Partly("no VLAN tags and no multicast transport")),
    (IeType::CP_FUNCTION_FEATURES, Acts::Partly("LOAD, OVRL and RPGUR")),
    (IeType::SEQUENCE_NUMBER, Acts::Yes),
    (IeType::METRIC, Acts::Yes),
    (IeType::LOAD_CONTROL_INFORMATION, Acts::Yes),
    (IeType::OVERLOAD_CONTROL_INFORMATION, Acts::Yes),
    (IeType::TIMER, Acts::Yes),
    (IeType::OCI_FLAGS, Acts::Yes),
    (IeType::FQ_CSID, Acts::Yes),
    (IeType::GROUP_ID, Acts::Yes),
    (IeType::PFCP_SESSION_CHANGE_INFO, Acts::Yes),
    (IeType::CP_IP_ADDRESS, Acts::Yes),
    (IeType::SMF_SET_ID, Acts::Yes),
    (IeType::ALTERNATIVE_SMF_IP_ADDRESS, Acts::Yes),
    (IeType::PFCP_SESSION_RETENTION_INFORMATION, Acts::Yes),
    (IeType::CP_PFCP_ENTITY_IP_ADDRESS, Acts::Yes),
    (IeType::PFCPASRSP_FLAGS, Acts::Partly("PSREI")),
    (IeType::NODE_REPORT_TYPE, Acts::Partly("UPFR, UPRR, GPQR, PURR; no CKDR (TSN) and VSR")),
    (IeType::PEER_UP_RESTART_REPORT, Acts::Yes),
    (IeType::GTP_U_PATH_QOS_CONTROL_INFORMATION, Acts::Yes),
    (IeType::GTP_U_PATH_QOS_REPORT, Acts::Yes),
    (IeType::QOS_INFORMATION_IN_GTP_U_PATH_QOS_REPORT, Acts::Yes),
    (IeType::QOS_REPORT_TRIGGER, Acts::Yes),
    (
        IeType::GTP_U_PATH_INTERFACE_TYPE,
        Acts::Partly(
            "N3 is where FARs lead to Access except through an `n9` interface, N9 all else; not in reports",
        ),
    ),
    (IeType::AVERAGE_PACKET_DELAY, Acts::Yes),
    (IeType::MINIMUM_PACKET_DELAY, Acts::Yes),
    (IeType::MAXIMUM_PACKET_DELAY, Acts::Yes),
    (IeType::TIME_STAMP, Acts::Yes),
    (IeType::USER_PLANE_PATH_FAILURE_REPORT, Acts::Yes),
    (IeType::USER_PLANE_PATH_RECOVERY_REPORT, Acts::Yes),
    (IeType::REMOTE_GTP_U_PEER, Acts::Yes),
    (IeType::PFCP_ASSOCIATION_RELEASE_REQUEST, Acts::Yes),
    (IeType::GRACEFUL_RELEASE_PERIOD, Acts::Yes),
    (IeType::UE_IP_ADDRESS, Acts::Partly("prefixes that we choose are /64s")),
    (IeType::FRAMED_ROUTE, Acts::Yes),
    (IeType::FRAMED_IPV6_ROUTE, Acts::Yes),
    (IeType::FRAMED_ROUTING, Acts::Partly("no routing protocol (values 1 to 3) with the UE")),
    (IeType::ACTIVATION_TIME, Acts::Yes),
    (IeType::DEACTIVATION_TIME, Acts::Yes),
    (IeType::TGPP_INTERFACE_TYPE, Acts::Partly("shown; one of another interface is left out")),
    (IeType::OUTER_HEADER_REMOVAL, Acts::Partly("no VLAN tags")),
    (IeType::RECOVERY_TIME_STAMP, Acts::Yes),
    (IeType::FAR_ID, Acts::Yes),
    (IeType::QER_ID, Acts::Yes),
    (IeType::PDN_TYPE, Acts::Partly("Ethernet and non-IP are refused")),
    (IeType::FAILED_RULE_ID, Acts::Yes),
    (IeType::RQI, Acts::Yes),
    (IeType::PAGING_POLICY_INDICATOR, Acts::Yes),
    (IeType::ERROR_INDICATION_REPORT, Acts::Yes),
    (IeType::QFI, Acts::Yes),
    (IeType::CREATE_URR, Acts::Yes),
    (IeType::UPDATE_URR, Acts::Yes),
    (IeType::REMOVE_URR, Acts::Yes),
    (IeType::QUERY_URR, Acts::Yes),
    (IeType::URR_ID, Acts::Yes),
    (IeType::MEASUREMENT_METHOD, Acts::Yes),
    (
        IeType::REPORTING_TRIGGERS,
        Acts::Partly("no MAC addresses (Ethernet) and no IP multicast (IPTV)"),
    ),
    (IeType::MEASUREMENT_PERIOD, Acts::Yes),
    (IeType::VOLUME_THRESHOLD, Acts::Yes),
    (IeType::VOLUME_QUOTA, Acts::Yes),
    (IeType::TIME_THRESHOLD, Acts::Yes),
    (IeType::TIME_QUOTA, Acts::Yes),
    (IeType::QUOTA_HOLDING_TIME, Acts::Yes),
    (IeType::QUOTA_VALIDITY_TIME, Acts::Yes),
    (IeType::DROPPED_DL_TRAFFIC_THRESHOLD, Acts::Yes),
    (IeType::MONITORING_TIME, Acts::Yes),
    (IeType::ADDITIONAL_MONITORING_TIME, Acts::Yes),
    (IeType::EVENT_THRESHOLD, Acts::Yes),
    (IeType::EVENT_QUOTA, Acts::Yes),
    (IeType::SUBSEQUENT_EVENT_THRESHOLD, Acts::Yes),
    (IeType::SUBSEQUENT_EVENT_QUOTA, Acts::Yes),
    (IeType::TIME_QUOTA_MECHANISM, Acts::Yes),
    (IeType::NUMBER_OF_REPORTS, Acts::Yes),
    (IeType::AGGREGATED_URRS, Acts::Partly("pools of volume; not of duration and events")),
    (IeType::AGGREGATED_URR_ID, Acts::Yes),
    (IeType::MULTIPLIER, Acts::Partly("0 to 1000000 in millionths")),
    (IeType::SUBSEQUENT_VOLUME_THRESHOLD, Acts::Yes),
    (IeType::SUBSEQUENT_TIME_THRESHOLD, Acts::Yes),
    (IeType::SUBSEQUENT_VOLUME_QUOTA, Acts::Yes),
    (IeType::SUBSEQUENT_TIME_QUOTA, Acts::Yes),
    (IeType::INACTIVITY_DETECTION_TIME, Acts::Yes),
    (IeType::LINKED_URR_ID, Acts::Yes),
    (IeType::MEASUREMENT_INFORMATION, Acts::Partly("no pause of charging (NSPOC)")),
    (IeType::USER_PLANE_INACTIVITY_TIMER, Acts::Yes),
    (IeType::USAGE_REPORT_SESSION_MODIFICATION_RESPONSE, Acts::Yes),
    (IeType::USAGE_REPORT_SESSION_DELETION_RESPONSE, Acts::Yes),
    (IeType::USAGE_REPORT_SESSION_REPORT_REQUEST, Acts::Yes),
    (
        IeType::APPLICATION_DETECTION_INFORMATION,
        Acts::Partly("Application ID; flows of an application are not distinguished"),
    ),
    (IeType::UR_SEQN, Acts::Yes),
    (IeType::USAGE_REPORT_TRIGGER, Acts::Partly("as the reporting triggers")),
    (IeType::START_TIME, Acts::Yes),
    (IeType::END_TIME, Acts::Yes),
    (IeType::VOLUME_MEASUREMENT, Acts::Yes),
    (IeType::DURATION_MEASUREMENT, Acts::Yes),
    (IeType::TIME_OF_FIRST_PACKET, Acts::Yes),
    (IeType::TIME_OF_LAST_PACKET, Acts::Yes),
    (IeType::USAGE_INFORMATION, Acts::Yes),
    (IeType::QUERY_URR_REFERENCE, Acts::Yes),
    (IeType::ADDITIONAL_USAGE_REPORTS_INFORMATION, Acts::Yes),
    (IeType::PFCPSRREQ_FLAGS, Acts::Yes),
    (IeType::PFCPSDRSP_FLAGS, Acts::Yes),
    (IeType::PFCPAUREQ_FLAGS, Acts::Yes),
    (
        IeType::DL_BUFFERING_DURATION,
        Acts::Partly("when it is over, what all BARs of the session hold is discarded"),
    ),
    (IeType::AVERAGING_WINDOW, Acts::Yes),
    (
        IeType::USER_PLANE_IP_RESOURCE_INFORMATION,
        Acts::Partly("withdrawn in Release 16.3: taken, not sent; we choose F-TEIDs (FTUP)"),
    ),
    (IeType::SOURCE_IP_ADDRESS, Acts::Partly("taken; answers go to the source of the datagram")),
    (IeType::PARTIAL_FAILURE_INFORMATION, Acts::Partly(WHOLE)),
    (IeType::PARTIAL_FAILURE_INFORMATION_MODIFICATION_RESPONSE, Acts::Partly(WHOLE)),
    (IeType::OFFENDING_IE_INFORMATION, Acts::Partly(WHOLE)),
    (
        IeType::VENDOR_SPECIFIC_NODE_REPORT_TYPE,
        Acts::Partly("not sent: this UP function has no reports of its own"),
    ),
    (IeType::PFCPASREQ_FLAGS, Acts::Partly("UUPSI is not sent: no IPUPS here; received: taken")),
];

/// IEs of reports that a UP function sends on its own.
const NOT_TOLD: &[(IeType, &str)] = &[
    (IeType::APPLICATION_INSTANCE_ID, "not sent: only the name distinguishes applications"),
    (IeType::FLOW_INFORMATION, "not sent: only the name distinguishes applications"),
    (IeType::PREDEFINED_RULES_NAME, "not sent: reports name the URR"),
];

/// Why a request is never carried out in part.
const WHOLE: &str = "not sent: a request is carried out whole or refused whole";

/// IEs of functions that this release leaves out.
const LEFT_OUT: &[(&str, &[IeType])] = &[
    (
        ETHERNET,
        &[
            IeType::ETHERNET_PACKET_FILTER,
            IeType::MAC_ADDRESS,
            IeType::C_TAG,
            IeType::S_TAG,
            IeType::ETHERTYPE,
            IeType::PROXYING,
            IeType::ETHERNET_FILTER_ID,
            IeType::ETHERNET_FILTER_PROPERTIES,
            IeType::ETHERNET_PDU_SESSION_INFORMATION,
            IeType::ETHERNET_TRAFFIC_INFORMATION,
            IeType::MAC_ADDRESSES_DETECTED,
            IeType::MAC_ADDRESSES_REMOVED,
            IeType::ETHERNET_INACTIVITY_TIMER,
            IeType::ETHERNET_CONTEXT_INFORMATION,
        ],
    ),
    (
        ATSSS,
        &[
            IeType::CREATE_MAR,
            IeType::ACCESS_FORWARDING_ACTION_INFORMATION_1,
            IeType::ACCESS_FORWARDING_ACTION_INFORMATION_2,
            IeType::REMOVE_MAR,
            IeType::UPDATE_MAR,
            IeType::MAR_ID,
            IeType::STEERING_FUNCTIONALITY,
            IeType::STEERING_MODE,
            IeType::WEIGHT,
            IeType::PRIORITY,
            IeType::UPDATE_ACCESS_FORWARDING_ACTION_INFORMATION_1,
            IeType::UPDATE_ACCESS_FORWARDING_ACTION_INFORMATION_2,
            IeType::ACCESS_AVAILABILITY_CONTROL_INFORMATION,
            IeType::REQUESTED_ACCESS_AVAILABILITY_INFORMATION,
            IeType::ACCESS_AVAILABILITY_REPORT,
            IeType::ACCESS_AVAILABILITY_INFORMATION,
            IeType::PROVIDE_ATSSS_CONTROL_INFORMATION,
            IeType::ATSSS_CONTROL_PARAMETERS,
            IeType::MPTCP_CONTROL_INFORMATION,
            IeType::ATSSS_LL_CONTROL_INFORMATION,
            IeType::PMF_CONTROL_INFORMATION,
            IeType::MPTCP_PARAMETERS,
            IeType::ATSSS_LL_PARAMETERS,
            IeType::PMF_PARAMETERS,
            IeType::MPTCP_ADDRESS_INFORMATION,
            IeType::UE_LINK_SPECIFIC_IP_ADDRESS,
            IeType::PMF_ADDRESS_INFORMATION,
            IeType::ATSSS_LL_INFORMATION,
            IeType::MPTCP_APPLICABLE_INDICATION,
            IeType::THRESHOLDS,
            IeType::STEERING_MODE_INDICATOR,
        ],
    ),
    (
        TSN,
        &[
            IeType::CREATE_BRIDGE_INFO_FOR_TSC,
            IeType::CREATED_BRIDGE_INFO_FOR_TSC,
            IeType::DS_TT_PORT_NUMBER,
            IeType::NW_TT_PORT_NUMBER,
            IeType::FIVEGS_USER_PLANE_NODE,
            IeType::TSC_MANAGEMENT_INFORMATION_MODIFICATION_REQUEST,
            IeType::TSC_MANAGEMENT_INFORMATION_MODIFICATION_RESPONSE,
            IeType::TSC_MANAGEMENT_INFORMATION_REPORT_REQUEST,
            IeType::PORT_MANAGEMENT_INFORMATION_CONTAINER,
            IeType::CLOCK_DRIFT_CONTROL_INFORMATION,
            IeType::REQUESTED_CLOCK_DRIFT_INFORMATION,
            IeType::CLOCK_DRIFT_REPORT,
            IeType::TIME_DOMAIN_NUMBER,
            IeType::TIME_OFFSET_THRESHOLD,
            IeType::CUMULATIVE_RATERATIO_THRESHOLD,
            IeType::TIME_OFFSET_MEASUREMENT,
            IeType::CUMULATIVE_RATERATIO_MEASUREMENT,
            IeType::USER_PLANE_NODE_MANAGEMENT_INFORMATION_CONTAINER,
        ],
    ),
    (
        L2TP,
        &[
            IeType::L2TP_TUNNEL_INFORMATION,
            IeType::L2TP_SESSION_INFORMATION_REQUEST,
            IeType::L2TP_USER_AUTHENTICATION,
            IeType::L2TP_SESSION_INFORMATION_RESPONSE,
            IeType::LNS_ADDRESS,
            IeType::TUNNEL_PREFERENCE,
            IeType::CALLING_NUMBER,
            IeType::CALLED_NUMBER,
            IeType::L2TP_SESSION_INDICATIONS,
            IeType::DNS_SERVER_ADDRESS,
            IeType::NBNS_SERVER_ADDRESS,
            IeType::MAXIMUM_RECEIVE_UNIT,
            IeType::TUNNEL_PASSWORD,
        ],
    ),
    (
        MBS,
        &[
            IeType::MBS_SESSION_N4MB_CONTROL_INFORMATION,
            IeType::MBS_MULTICAST_PARAMETERS,
            IeType::ADD_MBS_UNICAST_PARAMETERS,
            IeType::MBS_SESSION_N4MB_INFORMATION,
            IeType::REMOVE_MBS_UNICAST_PARAMETERS,
            IeType::MBS_SESSION_IDENTIFIER,
            IeType::MULTICAST_TRANSPORT_INFORMATION,
            IeType::MBSN4MBREQ_FLAGS,
            IeType::LOCAL_INGRESS_TUNNEL,
            IeType::MBS_UNICAST_PARAMETERS_ID,
            IeType::MBS_SESSION_N4_CONTROL_INFORMATION,
            IeType::MBS_SESSION_N4_INFORMATION,
            IeType::MBSN4RESP_FLAGS,
            IeType::AREA_SESSION_ID,
            IeType::QER_INDICATIONS,
        ],
    ),
];

/// How far a message acts, received or sent as its direction demands.
#[must_use]
pub fn message_acts(message_type: MessageType) -> Acts {
    let row = MESSAGES.iter().find(|(known, _)| *known == message_type);
    row.map_or(Acts::Yes, |(_, acts)| *acts)
}

/// How far an IE acts.
#[must_use]
pub fn ie_acts(ie: IeType) -> Acts {
    if let Some((_, acts)) = IES.iter().find(|(known, _)| *known == ie) {
        return *acts;
    }
    if let Some((_, text)) = NOT_TOLD.iter().find(|(known, _)| *known == ie) {
        return Acts::Partly(text);
    }
    if let Some(text) = unannounced::text(ie) {
        return Acts::Partly(text);
    }
    let left_out = LEFT_OUT.iter().find(|(_, ies)| ies.contains(&ie));
    Acts::No(left_out.map_or("", |(function, _)| *function))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::procedure::demand;

    #[test]
    fn ie_that_is_refused_is_not_one_that_acts_wholly() {
        for ie in demand::DEMANDS {
            assert_ne!(ie_acts(*ie), Acts::Yes, "{ie} is refused");
        }
    }

    #[test]
    fn ie_that_is_refused_though_nobody_announced_it_says_why() {
        for row in unannounced::UNANNOUNCED {
            for ie in row.refused.iter().chain(row.within) {
                assert_eq!(ie_acts(*ie), Acts::Partly(row.text), "{ie}");
            }
        }
    }

    #[test]
    fn every_row_is_about_another_ie() {
        let left_out = LEFT_OUT.iter().flat_map(|(_, ies)| ies.iter());
        let unannounced = unannounced::UNANNOUNCED;
        let unannounced = unannounced.iter().flat_map(|row| row.refused.iter().chain(row.within));
        let rows = IES.iter().map(|(ie, _)| ie).chain(left_out).chain(unannounced);
        let all: Vec<IeType> = rows.copied().collect();
        for (position, ie) in all.iter().enumerate() {
            assert!(ie.info().is_some(), "{ie}");
            assert!(!all[..position].contains(ie), "{ie} has two rows");
        }
    }
}
