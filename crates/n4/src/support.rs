//! How far this UP function supports each message and IE: the source of `docs/spec`.
//!
//! A change that makes an IE act moves its row here. An IE that is refused (`procedure::demand`)
//! never counts as one that acts; a test compares both.

pub(crate) mod unannounced;

use adit_pfcp::{IeType, MessageType};

/// Makes a list of IE types from their names.
macro_rules! ies {
    ($($ie:ident),+ $(,)?) => { &[$(adit_pfcp::IeType::$ie),+] };
}

pub(crate) use ies;

/// How far a message or an IE has an effect in this UP function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acts {
    /// It has its full effect.
    Yes,
    /// It is understood, with a partial effect or a precise refusal; the text says what is missing.
    Partly(&'static str),
    /// It has no effect. The text is the function that this release leaves out; empty if it is only
    /// not implemented yet.
    No(&'static str),
}

/// Functions that are out of the scope of this release.
const ETHERNET: &str = "Ethernet";
const ATSSS: &str = "ATSSS";
const MBS: &str = "MBS";
const TSN: &str = "TSN";
const L2TP: &str = "L2TP";

/// Messages that do not have their full effect; all others do.
const LIMITED_MESSAGES: &[(MessageType, Acts)] = &[
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

/// IEs that have their full effect. IEs in no list here have none.
const WHOLLY: &[IeType] = ies! {
    CREATE_PDR, PDI, CREATE_FAR, FORWARDING_PARAMETERS, CREATE_QER, CREATE_BAR,
    UPDATE_BAR_SESSION_MODIFICATION_REQUEST, UPDATE_BAR_SESSION_REPORT_RESPONSE, REMOVE_BAR, BAR_ID,
    DOWNLINK_DATA_NOTIFICATION_DELAY, SUGGESTED_BUFFERING_PACKETS_COUNT,
    DL_BUFFERING_SUGGESTED_PACKET_COUNT, DOWNLINK_DATA_REPORT, DOWNLINK_DATA_SERVICE_INFORMATION,
    DATA_STATUS, PFCPSRRSP_FLAGS, CREATED_PDR, UPDATE_PDR, UPDATE_FAR, UPDATE_FORWARDING_PARAMETERS,
    UPDATE_QER, REMOVE_PDR, REMOVE_FAR, REMOVE_QER, CREATE_TRAFFIC_ENDPOINT,
    CREATED_TRAFFIC_ENDPOINT, UPDATE_TRAFFIC_ENDPOINT, REMOVE_TRAFFIC_ENDPOINT, TRAFFIC_ENDPOINT_ID,
    UE_IP_ADDRESS_POOL_IDENTITY, UE_IP_ADDRESS_POOL_INFORMATION, UE_IP_ADDRESS_USAGE_INFORMATION,
    IP_VERSION, VALIDITY_TIMER, NUMBER_OF_UE_IP_ADDRESSES, UPDATED_PDR, CAUSE, F_TEID,
    NETWORK_INSTANCE, APPLICATION_ID, ACTIVATE_PREDEFINED_RULES, DEACTIVATE_PREDEFINED_RULES,
    APPLICATION_IDS_PFDS, PFD_CONTEXT, GATE_STATUS, MBR, QER_CORRELATION_ID, PACKET_RATE,
    PACKET_RATE_STATUS, QUERY_PACKET_RATE_STATUS, PACKET_RATE_STATUS_REPORT_MODIFICATION_RESPONSE,
    PRECEDENCE, TRANSPORT_LEVEL_MARKING, OFFENDING_IE, DUPLICATING_PARAMETERS,
    UPDATE_DUPLICATING_PARAMETERS, FORWARDING_POLICY, UP_FUNCTION_FEATURES, PDR_ID, F_SEID, NODE_ID,
    SEQUENCE_NUMBER, METRIC, LOAD_CONTROL_INFORMATION, OVERLOAD_CONTROL_INFORMATION, TIMER,
    OCI_FLAGS, FQ_CSID, GROUP_ID, PFCP_SESSION_CHANGE_INFO, CP_IP_ADDRESS, SMF_SET_ID,
    ALTERNATIVE_SMF_IP_ADDRESS, PFCP_SESSION_RETENTION_INFORMATION, CP_PFCP_ENTITY_IP_ADDRESS,
    PEER_UP_RESTART_REPORT, GTP_U_PATH_QOS_CONTROL_INFORMATION, GTP_U_PATH_QOS_REPORT,
    QOS_INFORMATION_IN_GTP_U_PATH_QOS_REPORT, QOS_REPORT_TRIGGER, AVERAGE_PACKET_DELAY,
    MINIMUM_PACKET_DELAY, MAXIMUM_PACKET_DELAY, TIME_STAMP, USER_PLANE_PATH_FAILURE_REPORT,
    USER_PLANE_PATH_RECOVERY_REPORT, REMOTE_GTP_U_PEER, PFCP_ASSOCIATION_RELEASE_REQUEST,
    GRACEFUL_RELEASE_PERIOD, FRAMED_ROUTE, FRAMED_IPV6_ROUTE, ACTIVATION_TIME, DEACTIVATION_TIME,
    RECOVERY_TIME_STAMP, FAR_ID, QER_ID, FAILED_RULE_ID, RQI, DL_FLOW_LEVEL_MARKING, PAGING_POLICY_INDICATOR,
    ERROR_INDICATION_REPORT, QFI, CREATE_URR, UPDATE_URR, REMOVE_URR, QUERY_URR, URR_ID,
    MEASUREMENT_METHOD, MEASUREMENT_PERIOD, VOLUME_THRESHOLD, VOLUME_QUOTA, TIME_THRESHOLD,
    TIME_QUOTA, QUOTA_HOLDING_TIME, QUOTA_VALIDITY_TIME, DROPPED_DL_TRAFFIC_THRESHOLD,
    MONITORING_TIME, ADDITIONAL_MONITORING_TIME, EVENT_THRESHOLD, EVENT_QUOTA,
    SUBSEQUENT_EVENT_THRESHOLD, SUBSEQUENT_EVENT_QUOTA, TIME_QUOTA_MECHANISM, NUMBER_OF_REPORTS,
    AGGREGATED_URR_ID, SUBSEQUENT_VOLUME_THRESHOLD, SUBSEQUENT_TIME_THRESHOLD,
    SUBSEQUENT_VOLUME_QUOTA, SUBSEQUENT_TIME_QUOTA, INACTIVITY_DETECTION_TIME, LINKED_URR_ID,
    USER_PLANE_INACTIVITY_TIMER, USAGE_REPORT_SESSION_MODIFICATION_RESPONSE,
    USAGE_REPORT_SESSION_DELETION_RESPONSE, USAGE_REPORT_SESSION_REPORT_REQUEST, UR_SEQN,
    START_TIME, END_TIME, VOLUME_MEASUREMENT, DURATION_MEASUREMENT, TIME_OF_FIRST_PACKET,
    TIME_OF_LAST_PACKET, USAGE_INFORMATION, QUERY_URR_REFERENCE,
    ADDITIONAL_USAGE_REPORTS_INFORMATION, PFCPSRREQ_FLAGS, PFCPSDRSP_FLAGS, PFCPAUREQ_FLAGS,
    AVERAGING_WINDOW,
};

/// IEs that have a partial effect.
const PARTLY: &[(IeType, &str)] = &[
    (IeType::PFCPSEREQ_FLAGS, "RESTI; SUMPC is refused"),
    (IeType::USER_ID, "information: shown, masked"),
    (IeType::APN_DNN, "information: shown"),
    (IeType::S_NSSAI, "of sessions: rates of a slice, shown; of pools reported"),
    (IeType::RAT_TYPE, "information: shown"),
    (IeType::NF_INSTANCE_ID, "of the CP function: shown; not sent"),
    (IeType::SOURCE_INTERFACE, "CP function by GTP-U; no 5G VN internal"),
    (IeType::SDF_FILTER, "no options and no negated addresses"),
    (IeType::PFD_CONTENTS, "flow descriptions; URLs, domain names and custom contents are refused"),
    (
        IeType::GBR,
        "admitted within a configured capacity; goes first at rates that sessions share and where a transmit queue is full",
    ),
    (IeType::PACKET_RATE_STATUS_REPORT, "when a session is deleted"),
    (IeType::QER_CONTROL_INDICATIONS, "RCSR; MOED and NORD are refused"),
    (IeType::REPORT_TYPE, "see the reports"),
    (
        IeType::DESTINATION_INTERFACE,
        "CP function by GTP-U; LI function for copies only; no 5G VN internal",
    ),
    (IeType::REDIRECT_INFORMATION, "no SIP URI"),
    (IeType::APPLY_ACTION, "no IP multicast, redundant transmission and MBS"),
    (IeType::PFCPSMREQ_FLAGS, "DROBU, QAURR, SNDEM; others are refused or without effect"),
    (IeType::OUTER_HEADER_CREATION, "no VLAN tags and no multicast transport"),
    (IeType::CP_FUNCTION_FEATURES, "LOAD, OVRL and RPGUR"),
    (IeType::PFCPASRSP_FLAGS, "PSREI"),
    (IeType::NODE_REPORT_TYPE, "UPFR, UPRR, GPQR, PURR; no CKDR (TSN) and VSR"),
    (
        IeType::GTP_U_PATH_INTERFACE_TYPE,
        "N3 is where FARs lead to Access except through an `n9` interface, N9 all else; not in reports",
    ),
    (IeType::UE_IP_ADDRESS, "prefixes that we choose are /64s"),
    (IeType::FRAMED_ROUTING, "no routing protocol (values 1 to 3) with the UE"),
    (IeType::TGPP_INTERFACE_TYPE, "shown; one of another interface is left out"),
    (IeType::OUTER_HEADER_REMOVAL, "no VLAN tags"),
    (IeType::PDN_TYPE, "Ethernet and non-IP are refused"),
    (IeType::REPORTING_TRIGGERS, "no MAC addresses (Ethernet) and no IP multicast (IPTV)"),
    (IeType::AGGREGATED_URRS, "pools of volume; not of duration and events"),
    (IeType::MULTIPLIER, "0 to 1000000 in millionths"),
    (IeType::MEASUREMENT_INFORMATION, "no pause of charging (NSPOC)"),
    (
        IeType::APPLICATION_DETECTION_INFORMATION,
        "Application ID; flows of an application are not distinguished",
    ),
    (IeType::USAGE_REPORT_TRIGGER, "as the reporting triggers"),
    (
        IeType::DL_BUFFERING_DURATION,
        "when it is over, what all BARs of the session hold is discarded",
    ),
    (
        IeType::USER_PLANE_IP_RESOURCE_INFORMATION,
        "withdrawn in Release 16.3: taken, not sent; we choose F-TEIDs (FTUP)",
    ),
    (IeType::SOURCE_IP_ADDRESS, "taken; answers go to the source of the datagram"),
    (IeType::PARTIAL_FAILURE_INFORMATION, NEVER_PARTLY_EXECUTED),
    (IeType::PARTIAL_FAILURE_INFORMATION_MODIFICATION_RESPONSE, NEVER_PARTLY_EXECUTED),
    (IeType::OFFENDING_IE_INFORMATION, NEVER_PARTLY_EXECUTED),
    (
        IeType::VENDOR_SPECIFIC_NODE_REPORT_TYPE,
        "not sent: this UP function has no reports of its own",
    ),
    (IeType::PFCPASREQ_FLAGS, "UUPSI is not sent: no IPUPS here; received: taken"),
];

/// IEs of reports that this UP function never sends.
const NEVER_SENT: &[(IeType, &str)] = &[
    (IeType::APPLICATION_INSTANCE_ID, "not sent: only the name distinguishes applications"),
    (IeType::FLOW_INFORMATION, "not sent: only the name distinguishes applications"),
    (IeType::PREDEFINED_RULES_NAME, "not sent: reports name the URR"),
];

/// Text for IEs that report a partly executed request, which this UP function never has.
const NEVER_PARTLY_EXECUTED: &str = "not sent: a request is carried out whole or refused whole";

/// IEs of functions that this release leaves out.
const LEFT_OUT: &[(&str, &[IeType])] = &[
    (
        ETHERNET,
        ies! {
            ETHERNET_PACKET_FILTER, MAC_ADDRESS, C_TAG, S_TAG, ETHERTYPE, PROXYING, ETHERNET_FILTER_ID,
            ETHERNET_FILTER_PROPERTIES, ETHERNET_PDU_SESSION_INFORMATION, ETHERNET_TRAFFIC_INFORMATION,
            MAC_ADDRESSES_DETECTED, MAC_ADDRESSES_REMOVED, ETHERNET_INACTIVITY_TIMER,
            ETHERNET_CONTEXT_INFORMATION,
        },
    ),
    (
        ATSSS,
        ies! {
            CREATE_MAR, ACCESS_FORWARDING_ACTION_INFORMATION_1, ACCESS_FORWARDING_ACTION_INFORMATION_2,
            REMOVE_MAR, UPDATE_MAR, MAR_ID, STEERING_FUNCTIONALITY, STEERING_MODE, WEIGHT, PRIORITY,
            UPDATE_ACCESS_FORWARDING_ACTION_INFORMATION_1,
            UPDATE_ACCESS_FORWARDING_ACTION_INFORMATION_2, ACCESS_AVAILABILITY_CONTROL_INFORMATION,
            REQUESTED_ACCESS_AVAILABILITY_INFORMATION, ACCESS_AVAILABILITY_REPORT,
            ACCESS_AVAILABILITY_INFORMATION, PROVIDE_ATSSS_CONTROL_INFORMATION,
            ATSSS_CONTROL_PARAMETERS, MPTCP_CONTROL_INFORMATION, ATSSS_LL_CONTROL_INFORMATION,
            PMF_CONTROL_INFORMATION, MPTCP_PARAMETERS, ATSSS_LL_PARAMETERS, PMF_PARAMETERS,
            MPTCP_ADDRESS_INFORMATION, UE_LINK_SPECIFIC_IP_ADDRESS, PMF_ADDRESS_INFORMATION,
            ATSSS_LL_INFORMATION, MPTCP_APPLICABLE_INDICATION, THRESHOLDS, STEERING_MODE_INDICATOR,
        },
    ),
    (
        TSN,
        ies! {
            CREATE_BRIDGE_INFO_FOR_TSC, CREATED_BRIDGE_INFO_FOR_TSC, DS_TT_PORT_NUMBER,
            NW_TT_PORT_NUMBER, FIVEGS_USER_PLANE_NODE, TSC_MANAGEMENT_INFORMATION_MODIFICATION_REQUEST,
            TSC_MANAGEMENT_INFORMATION_MODIFICATION_RESPONSE, TSC_MANAGEMENT_INFORMATION_REPORT_REQUEST,
            PORT_MANAGEMENT_INFORMATION_CONTAINER, CLOCK_DRIFT_CONTROL_INFORMATION,
            REQUESTED_CLOCK_DRIFT_INFORMATION, CLOCK_DRIFT_REPORT, TIME_DOMAIN_NUMBER,
            TIME_OFFSET_THRESHOLD, CUMULATIVE_RATERATIO_THRESHOLD, TIME_OFFSET_MEASUREMENT,
            CUMULATIVE_RATERATIO_MEASUREMENT, USER_PLANE_NODE_MANAGEMENT_INFORMATION_CONTAINER,
        },
    ),
    (
        L2TP,
        ies! {
            L2TP_TUNNEL_INFORMATION, L2TP_SESSION_INFORMATION_REQUEST, L2TP_USER_AUTHENTICATION,
            L2TP_SESSION_INFORMATION_RESPONSE, LNS_ADDRESS, TUNNEL_PREFERENCE, CALLING_NUMBER,
            CALLED_NUMBER, L2TP_SESSION_INDICATIONS, DNS_SERVER_ADDRESS, NBNS_SERVER_ADDRESS,
            MAXIMUM_RECEIVE_UNIT, TUNNEL_PASSWORD,
        },
    ),
    (
        MBS,
        ies! {
            MBS_SESSION_N4MB_CONTROL_INFORMATION, MBS_MULTICAST_PARAMETERS, ADD_MBS_UNICAST_PARAMETERS,
            MBS_SESSION_N4MB_INFORMATION, REMOVE_MBS_UNICAST_PARAMETERS, MBS_SESSION_IDENTIFIER,
            MULTICAST_TRANSPORT_INFORMATION, MBSN4MBREQ_FLAGS, LOCAL_INGRESS_TUNNEL,
            MBS_UNICAST_PARAMETERS_ID, MBS_SESSION_N4_CONTROL_INFORMATION, MBS_SESSION_N4_INFORMATION,
            MBSN4RESP_FLAGS, AREA_SESSION_ID, QER_INDICATIONS,
        },
    ),
];

/// Returns how far a message acts, received or sent as its direction requires.
#[must_use]
pub fn message_acts(message_type: MessageType) -> Acts {
    let row = LIMITED_MESSAGES.iter().find(|(known, _)| *known == message_type);
    row.map_or(Acts::Yes, |(_, acts)| *acts)
}

/// Returns how far this UP function supports an IE.
#[must_use]
pub fn ie_acts(ie: IeType) -> Acts {
    if WHOLLY.contains(&ie) {
        return Acts::Yes;
    }
    if let Some((_, text)) = PARTLY.iter().chain(NEVER_SENT).find(|(known, _)| *known == ie) {
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
    fn no_ie_has_two_rows() {
        let left_out = LEFT_OUT.iter().flat_map(|(_, ies)| ies.iter());
        let unannounced = unannounced::UNANNOUNCED;
        let unannounced = unannounced.iter().flat_map(|row| row.refused.iter().chain(row.within));
        let partly = PARTLY.iter().chain(NEVER_SENT).map(|(ie, _)| ie);
        let rows = WHOLLY.iter().chain(partly).chain(left_out).chain(unannounced);
        let all: Vec<IeType> = rows.copied().collect();
        for (position, ie) in all.iter().enumerate() {
            assert!(ie.info().is_some(), "{ie}");
            assert!(!all[..position].contains(ie), "{ie} has two rows");
        }
    }
}
