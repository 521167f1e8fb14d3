//! Forwarding Action Rules and Buffering Action Rules.

use adit_types::{BarId, FarId};

use crate::body::bodies;
use crate::ie::{
    ApplyAction, DataNetworkAccessIdentifier, DestinationInterface, DlBufferingDuration,
    DlBufferingSuggestedPacketCount, DownlinkDataNotificationDelay, ForwardingPolicy,
    HeaderEnrichment, InterfaceType, MtEdtControlInformation, NetworkInstance, Nullable,
    OuterHeaderCreation, PfcpSmReqFlags, Proxying, RedirectInformation,
    SuggestedBufferingPacketsCount, TrafficEndpointId, TransportLevelMarking,
};

bodies! {
    /// A FAR to create. Spec: TS 29.244 §7.5.2.3.
    group CreateFar = CREATE_FAR, rule Far {
        far_id: M FAR_ID => FarId,
        apply_action: M APPLY_ACTION => ApplyAction,
        forwarding_parameters: C FORWARDING_PARAMETERS => ForwardingParameters<'a>,
        duplicating_parameters: Cs DUPLICATING_PARAMETERS => DuplicatingParameters<'a>,
        bar_id: O BAR_ID => BarId,
    }

    /// How to forward. Spec: TS 29.244 §7.5.2.3, table 7.5.2.3-2.
    group ForwardingParameters = FORWARDING_PARAMETERS {
        destination_interface: M DESTINATION_INTERFACE => DestinationInterface,
        network_instance: O NETWORK_INSTANCE => NetworkInstance<'a>,
        redirect_information: C REDIRECT_INFORMATION => RedirectInformation<'a>,
        outer_header_creation: C OUTER_HEADER_CREATION => OuterHeaderCreation,
        transport_level_marking: C TRANSPORT_LEVEL_MARKING => TransportLevelMarking,
        forwarding_policy: C FORWARDING_POLICY => ForwardingPolicy<'a>,
        header_enrichments: Os HEADER_ENRICHMENT => HeaderEnrichment<'a>,
        linked_traffic_endpoint_id: C TRAFFIC_ENDPOINT_ID => TrafficEndpointId,
        proxying: C PROXYING => Proxying,
        destination_interface_type: O TGPP_INTERFACE_TYPE => InterfaceType,
        data_network_access_identifier: C DATA_NETWORK_ACCESS_IDENTIFIER =>
            DataNetworkAccessIdentifier<'a>,
    }

    /// How to duplicate. Spec: TS 29.244 §7.5.2.3, table 7.5.2.3-3.
    group DuplicatingParameters = DUPLICATING_PARAMETERS {
        destination_interface: M DESTINATION_INTERFACE => DestinationInterface,
        outer_header_creation: C OUTER_HEADER_CREATION => OuterHeaderCreation,
        transport_level_marking: C TRANSPORT_LEVEL_MARKING => TransportLevelMarking,
        forwarding_policy: C FORWARDING_POLICY => ForwardingPolicy<'a>,
    }

    /// A FAR to change. Spec: TS 29.244 §7.5.4.3.
    group UpdateFar = UPDATE_FAR, rule Far {
        far_id: M FAR_ID => FarId,
        apply_action: C APPLY_ACTION => ApplyAction,
        update_forwarding_parameters: C UPDATE_FORWARDING_PARAMETERS =>
            UpdateForwardingParameters<'a>,
        update_duplicating_parameters: Cs UPDATE_DUPLICATING_PARAMETERS =>
            UpdateDuplicatingParameters<'a>,
        bar_id: N BAR_ID => BarId,
    }

    /// Changes to forwarding; length zero withdraws a setting. Spec: TS 29.244 §7.5.4.3,
    /// table 7.5.4.3-2.
    group UpdateForwardingParameters = UPDATE_FORWARDING_PARAMETERS {
        destination_interface: C DESTINATION_INTERFACE => DestinationInterface,
        /// An empty value withdraws it.
        network_instance: C NETWORK_INSTANCE => NetworkInstance<'a>,
        redirect_information: C REDIRECT_INFORMATION => Nullable<RedirectInformation<'a>>,
        outer_header_creation: C OUTER_HEADER_CREATION => Nullable<OuterHeaderCreation>,
        transport_level_marking: C TRANSPORT_LEVEL_MARKING => Nullable<TransportLevelMarking>,
        forwarding_policy: C FORWARDING_POLICY => Nullable<ForwardingPolicy<'a>>,
        header_enrichments: Cs HEADER_ENRICHMENT => Nullable<HeaderEnrichment<'a>>,
        pfcp_sm_req_flags: C PFCPSMREQ_FLAGS => PfcpSmReqFlags,
        linked_traffic_endpoint_id: C TRAFFIC_ENDPOINT_ID => Nullable<TrafficEndpointId>,
        destination_interface_type: N TGPP_INTERFACE_TYPE => InterfaceType,
        data_network_access_identifier: C DATA_NETWORK_ACCESS_IDENTIFIER =>
            DataNetworkAccessIdentifier<'a>,
    }

    /// Changes to duplication. Spec: TS 29.244 §7.5.4.3, table 7.5.4.3-3.
    group UpdateDuplicatingParameters = UPDATE_DUPLICATING_PARAMETERS {
        destination_interface: C DESTINATION_INTERFACE => DestinationInterface,
        outer_header_creation: C OUTER_HEADER_CREATION => Nullable<OuterHeaderCreation>,
        transport_level_marking: C TRANSPORT_LEVEL_MARKING => Nullable<TransportLevelMarking>,
        forwarding_policy: C FORWARDING_POLICY => Nullable<ForwardingPolicy<'a>>,
    }

    /// A FAR to remove. Spec: TS 29.244 §7.5.4.7.
    group RemoveFar = REMOVE_FAR, rule Far {
        far_id: M FAR_ID => FarId,
    }

    /// A BAR to create. Spec: TS 29.244 §7.5.2.6.
    group CreateBar = CREATE_BAR, rule Bar {
        bar_id: M BAR_ID => BarId,
        downlink_data_notification_delay: C DOWNLINK_DATA_NOTIFICATION_DELAY =>
            DownlinkDataNotificationDelay,
        suggested_buffering_packets_count: C SUGGESTED_BUFFERING_PACKETS_COUNT =>
            SuggestedBufferingPacketsCount,
        mt_edt_control_information: O MT_EDT_CONTROL_INFORMATION => MtEdtControlInformation,
    }

    /// A BAR to change, in a Session Modification Request (type 86) or, with the buffering
    /// duration, in a Session Report Response (type 12). Spec: TS 29.244 §7.5.4.11, §7.5.9.2.
    group UpdateBar = UPDATE_BAR_SESSION_MODIFICATION_REQUEST, rule Bar {
        bar_id: M BAR_ID => BarId,
        downlink_data_notification_delay: N DOWNLINK_DATA_NOTIFICATION_DELAY =>
            DownlinkDataNotificationDelay,
        dl_buffering_duration: C DL_BUFFERING_DURATION => DlBufferingDuration,
        dl_buffering_suggested_packet_count: N DL_BUFFERING_SUGGESTED_PACKET_COUNT =>
            DlBufferingSuggestedPacketCount,
        suggested_buffering_packets_count: N SUGGESTED_BUFFERING_PACKETS_COUNT =>
            SuggestedBufferingPacketsCount,
        mt_edt_control_information: N MT_EDT_CONTROL_INFORMATION => MtEdtControlInformation,
    }

    /// A BAR to remove. Spec: TS 29.244 §7.5.4.12.
    group RemoveBar = REMOVE_BAR, rule Bar {
        bar_id: M BAR_ID => BarId,
    }
}
