//! Traffic endpoints: local F-TEIDs and UE addresses that several PDIs share.

use adit_types::Qfi;

use crate::body::bodies;
use crate::ie::{
    EthernetPduSessionInformation, FTeid, FramedIpv6Route, FramedRoute, FramedRouting,
    InterfaceType, NetworkInstance, TrafficEndpointId, UeIpAddress,
};

bodies! {
    /// A traffic endpoint to create. Spec: TS 29.244 §7.5.2.7.
    group CreateTrafficEndpoint = CREATE_TRAFFIC_ENDPOINT {
        traffic_endpoint_id: M TRAFFIC_ENDPOINT_ID => TrafficEndpointId,
        local_f_teid: O F_TEID => FTeid,
        network_instance: O NETWORK_INSTANCE => NetworkInstance<'a>,
        ue_ip_addresses: Os UE_IP_ADDRESS => UeIpAddress,
        ethernet_pdu_session_information: O ETHERNET_PDU_SESSION_INFORMATION =>
            EthernetPduSessionInformation,
        framed_routes: Os FRAMED_ROUTE => FramedRoute<'a>,
        framed_routing: O FRAMED_ROUTING => FramedRouting,
        framed_ipv6_routes: Os FRAMED_IPV6_ROUTE => FramedIpv6Route<'a>,
        qfis: Os QFI => Qfi,
        source_interface_type: O TGPP_INTERFACE_TYPE => InterfaceType,
    }

    /// The identifiers that the UP function chose for a traffic endpoint. Spec: TS 29.244 §7.5.3.5.
    group CreatedTrafficEndpoint = CREATED_TRAFFIC_ENDPOINT {
        traffic_endpoint_id: M TRAFFIC_ENDPOINT_ID => TrafficEndpointId,
        local_f_teids: Cs F_TEID => FTeid,
        ue_ip_addresses: Cs UE_IP_ADDRESS => UeIpAddress,
    }

    /// A traffic endpoint to change. Spec: TS 29.244 §7.5.4.13.
    group UpdateTrafficEndpoint = UPDATE_TRAFFIC_ENDPOINT {
        traffic_endpoint_id: M TRAFFIC_ENDPOINT_ID => TrafficEndpointId,
        local_f_teid: C F_TEID => FTeid,
        network_instance: O NETWORK_INSTANCE => NetworkInstance<'a>,
        ue_ip_addresses: Cs UE_IP_ADDRESS => UeIpAddress,
        framed_routes: Cs FRAMED_ROUTE => FramedRoute<'a>,
        framed_routing: C FRAMED_ROUTING => FramedRouting,
        framed_ipv6_routes: Cs FRAMED_IPV6_ROUTE => FramedIpv6Route<'a>,
        qfis: Cs QFI => Qfi,
        source_interface_type: C TGPP_INTERFACE_TYPE => InterfaceType,
    }

    /// A traffic endpoint to remove. Spec: TS 29.244 §7.5.4.14.
    group RemoveTrafficEndpoint = REMOVE_TRAFFIC_ENDPOINT {
        traffic_endpoint_id: M TRAFFIC_ENDPOINT_ID => TrafficEndpointId,
    }
}
