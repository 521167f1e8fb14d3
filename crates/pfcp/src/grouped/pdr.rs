//! Packet Detection Rules.

use adit_types::{FarId, PdrId, Precedence, QerId, Qfi, UrrId};

use crate::body::{WhenAbsent, bodies};
use crate::ie::{
    ActivatePredefinedRules, ActivationTime, ApplicationId, CTag, DeactivatePredefinedRules,
    DeactivationTime, EthernetFilterId, EthernetFilterProperties, EthernetPduSessionInformation,
    Ethertype, FTeid, FramedIpv6Route, FramedRoute, FramedRouting, InterfaceType, MacAddressFields,
    NetworkInstance, OuterHeaderRemoval, STag, SdfFilter, SourceInterface, TrafficEndpointId,
    UeIpAddress, UeIpAddressPoolIdentity,
};

/// A PDR without precedence has the lowest one. Spec: TS 29.244 §7.5.2.2, §8.2.11.
impl WhenAbsent for Precedence {
    const ABSENT: Self = Self(u32::MAX);
}

bodies! {
    /// A PDR to create. Spec: TS 29.244 §7.5.2.2.
    group CreatePdr = CREATE_PDR, rule Pdr {
        pdr_id: M PDR_ID => PdrId,
        /// If absent, as on Sxa, the precedence is the lowest one.
        precedence: D PRECEDENCE => Precedence,
        pdi: M PDI => Pdi<'a>,
        outer_header_removal: C OUTER_HEADER_REMOVAL => OuterHeaderRemoval,
        far_id: C FAR_ID => FarId,
        urr_ids: Cs URR_ID => UrrId,
        qer_ids: Cs QER_ID => QerId,
        activate_predefined_rules: Cs ACTIVATE_PREDEFINED_RULES => ActivatePredefinedRules<'a>,
        activation_time: O ACTIVATION_TIME => ActivationTime,
        deactivation_time: O DEACTIVATION_TIME => DeactivationTime,
        ue_ip_address_pool_ids: Os UE_IP_ADDRESS_POOL_IDENTITY => UeIpAddressPoolIdentity<'a>,
    }

    /// Packet Detection Information. Spec: TS 29.244 §7.5.2.2, table 7.5.2.2-2.
    group Pdi = PDI {
        source_interface: M SOURCE_INTERFACE => SourceInterface,
        local_f_teid: O F_TEID => FTeid,
        network_instance: O NETWORK_INSTANCE => NetworkInstance<'a>,
        ue_ip_addresses: Os UE_IP_ADDRESS => UeIpAddress,
        traffic_endpoint_ids: Cs TRAFFIC_ENDPOINT_ID => TrafficEndpointId,
        sdf_filters: Os SDF_FILTER => SdfFilter<'a>,
        application_id: O APPLICATION_ID => ApplicationId<'a>,
        ethernet_pdu_session_information: O ETHERNET_PDU_SESSION_INFORMATION =>
            EthernetPduSessionInformation,
        ethernet_packet_filters: Os ETHERNET_PACKET_FILTER => EthernetPacketFilter<'a>,
        qfis: Os QFI => Qfi,
        framed_routes: Os FRAMED_ROUTE => FramedRoute<'a>,
        framed_routing: O FRAMED_ROUTING => FramedRouting,
        framed_ipv6_routes: Os FRAMED_IPV6_ROUTE => FramedIpv6Route<'a>,
        source_interface_type: O TGPP_INTERFACE_TYPE => InterfaceType,
    }

    /// A filter of Ethernet frames. Spec: TS 29.244 §7.5.2.2, table 7.5.2.2-3.
    group EthernetPacketFilter = ETHERNET_PACKET_FILTER {
        filter_id: C ETHERNET_FILTER_ID => EthernetFilterId,
        properties: C ETHERNET_FILTER_PROPERTIES => EthernetFilterProperties,
        mac_addresses: Cs MAC_ADDRESS => MacAddressFields,
        ethertype: C ETHERTYPE => Ethertype,
        c_tag: C C_TAG => CTag,
        s_tag: C S_TAG => STag,
        sdf_filters: Cs SDF_FILTER => SdfFilter<'a>,
    }

    /// A PDR to change. Spec: TS 29.244 §7.5.4.2.
    group UpdatePdr = UPDATE_PDR, rule Pdr {
        pdr_id: M PDR_ID => PdrId,
        outer_header_removal: N OUTER_HEADER_REMOVAL => OuterHeaderRemoval,
        precedence: C PRECEDENCE => Precedence,
        pdi: C PDI => Pdi<'a>,
        far_id: N FAR_ID => FarId,
        urr_ids: Ns URR_ID => UrrId,
        qer_ids: Ns QER_ID => QerId,
        activate_predefined_rules: Cs ACTIVATE_PREDEFINED_RULES => ActivatePredefinedRules<'a>,
        deactivate_predefined_rules: Cs DEACTIVATE_PREDEFINED_RULES =>
            DeactivatePredefinedRules<'a>,
        activation_time: N ACTIVATION_TIME => ActivationTime,
        deactivation_time: N DEACTIVATION_TIME => DeactivationTime,
    }

    /// A PDR to remove. Spec: TS 29.244 §7.5.4.6.
    group RemovePdr = REMOVE_PDR, rule Pdr {
        pdr_id: M PDR_ID => PdrId,
    }

    /// The identifiers that the UP function chose for a new PDR. Spec: TS 29.244 §7.5.3.2.
    group CreatedPdr = CREATED_PDR, rule Pdr {
        pdr_id: M PDR_ID => PdrId,
        /// If there is a second F-TEID, it is for redundant transmission.
        local_f_teids: Cs F_TEID => FTeid,
        ue_ip_addresses: Cs UE_IP_ADDRESS => UeIpAddress,
    }

    /// The identifiers that the UP function chose for a changed PDR. Spec: TS 29.244 §7.5.9.3.
    group UpdatedPdr = UPDATED_PDR, rule Pdr {
        pdr_id: M PDR_ID => PdrId,
        local_f_teids: Cs F_TEID => FTeid,
        ue_ip_addresses: Cs UE_IP_ADDRESS => UeIpAddress,
    }
}
