//! IEs of functions for which we announce no UP function feature.
//!
//! A CP function may send these IEs only to a UP function that announced the feature, so a refusal
//! harms no correct CP function. Spec: TS 29.244 §8.2.25.

use adit_pfcp::IeType;

use super::ies;

/// A function that is not announced.
#[derive(Debug)]
pub(crate) struct Unannounced {
    /// The text for the documents.
    pub text: &'static str,
    /// IEs that are refused, in messages and in rules.
    pub refused: &'static [IeType],
    /// IEs that occur only within refused ones, or in messages of a UP function with the feature.
    pub within: &'static [IeType],
}

/// All functions that are not announced.
pub(crate) const UNANNOUNCED: &[Unannounced] = &[
    Unannounced {
        text: "refused with Cause 76: header enrichment (HEEU) is not announced",
        refused: &[IeType::HEADER_ENRICHMENT],
        within: &[],
    },
    Unannounced {
        text: "refused with Cause 76: trace (TRACE) is not announced",
        refused: &[IeType::TRACE_INFORMATION],
        within: &[],
    },
    Unannounced {
        text: "refused with Cause 76: reliable data service (RDS) is not announced",
        refused: &[IeType::PROVIDE_RDS_CONFIGURATION_INFORMATION],
        within: &[IeType::RDS_CONFIGURATION_INFORMATION],
    },
    Unannounced {
        text: "refused with Cause 76: IP multicast (IPTV) is not announced",
        refused: &[IeType::IP_MULTICAST_ADDRESSING_INFO],
        within: ies! {
            JOIN_IP_MULTICAST_INFORMATION, LEAVE_IP_MULTICAST_INFORMATION, IP_MULTICAST_ADDRESS,
        },
    },
    Unannounced {
        text: "refused with Cause 76: 5G VN groups (GCOM) are not announced",
        refused: &[IeType::PACKET_REPLICATION_AND_DETECTION_CARRY_ON_INFORMATION],
        within: &[],
    },
    Unannounced {
        text: "refused with Cause 76: redundant transmission (RTTL) is not announced",
        refused: ies! {
            REDUNDANT_TRANSMISSION_DETECTION_PARAMETERS,
            REDUNDANT_TRANSMISSION_FORWARDING_PARAMETERS,
        },
        within: &[],
    },
    Unannounced {
        text: "refused with Cause 76: monitoring per QoS flow (QFQM, DRQOS) is not announced",
        refused: ies! {
            CREATE_SRR, UPDATE_SRR, REMOVE_SRR, TRANSPORT_DELAY_REPORTING,
        },
        within: ies! {
            SRR_ID, SESSION_REPORT, QOS_MONITORING_PER_QOS_FLOW_CONTROL_INFORMATION,
            REQUESTED_QOS_MONITORING, REPORTING_FREQUENCY, PACKET_DELAY_THRESHOLDS,
            MINIMUM_WAIT_TIME, QOS_MONITORING_REPORT, QOS_MONITORING_MEASUREMENT,
            DIRECT_REPORTING_INFORMATION, EVENT_NOTIFICATION_URI, NOTIFICATION_CORRELATION_ID,
            REPORTING_FLAGS,
        },
    },
    Unannounced {
        text: "refused with Cause 76: steering of edge traffic (IPREP, DNSTS) is not announced",
        refused: ies! {
            IP_ADDRESS_AND_PORT_NUMBER_REPLACEMENT, DNS_QUERY_FILTER,
        },
        within: &[],
    },
    Unannounced {
        text: "refused with Cause 76: the size of downlink data (MTEDT) is not announced",
        refused: &[IeType::MT_EDT_CONTROL_INFORMATION],
        within: &[IeType::DL_DATA_PACKETS_SIZE],
    },
    Unannounced {
        text: "refused with Cause 76: paging policies by DSCP (EPPI) are not announced",
        refused: &[IeType::DSCP_TO_PPI_CONTROL_INFORMATION],
        within: &[IeType::DSCP_TO_PPI_MAPPING_INFORMATION],
    },
    Unannounced {
        text: "refused with Cause 76: traffic is not steered by it",
        refused: &[IeType::DATA_NETWORK_ACCESS_IDENTIFIER],
        within: &[],
    },
];

/// True for an IE that is refused at any place.
pub(crate) fn is_refused(ie: IeType) -> bool {
    UNANNOUNCED.iter().any(|row| row.refused.contains(&ie))
}

/// Returns the text for the documents if `ie` belongs to one of these functions.
pub(crate) fn text(ie: IeType) -> Option<&'static str> {
    let of = |row: &&Unannounced| row.refused.contains(&ie) || row.within.contains(&ie);
    UNANNOUNCED.iter().find(of).map(|row| row.text)
}
