//! One filled-in example of every typed message, handed to a visitor as encoded octets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_pfcp::grouped::*;
use adit_pfcp::ie::*;
use adit_pfcp::message::*;
use adit_pfcp::{Cause, MessageBody, Repeated, encode};
use adit_types::{
    BarId, BitRate, FarId, MacAddr, PdrId, Precedence, QerId, Qfi, Seid, Teid, UrrId,
};

pub(crate) const V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
pub(crate) const V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
pub(crate) const SEQUENCE: u32 = 0x0001_0203;
pub(crate) const SEID: Seid = Seid(0x1122_3344_5566_7788);

pub(crate) fn node_id() -> NodeId<'static> {
    NodeId::Fqdn(Fqdn::from_text("smf.example.org").unwrap())
}

fn octets<'a, M: MessageBody<'a>>(body: &M) -> Vec<u8> {
    let mut buf = [0xa5; 4096];
    let seid = M::TYPE.is_session_related().then_some(SEID);
    let len = encode(&mut buf, seid, SEQUENCE, body).unwrap();
    buf[..len].to_vec()
}

pub(crate) fn f_teid() -> FTeid {
    FTeid::Given { teid: Teid(0x0102_0304), addr: FTeidAddress::V4V6(V4, V6) }
}

fn tag() -> EthernetVlanTag {
    EthernetVlanTag { pcp: Some(5), dei: Some(true), vid: Some(0x123) }
}

fn volume(n: u64) -> VolumeMeasurement {
    VolumeMeasurement {
        total: Some(3 * n),
        uplink: Some(n),
        downlink: Some(2 * n),
        total_packets: Some(30),
        uplink_packets: Some(10),
        downlink_packets: Some(20),
    }
}

pub(crate) fn with_pdi(visit: impl FnOnce(Pdi<'_>)) {
    let ue = [
        UeIpAddress { v4: Some(Ipv4Addr::new(10, 45, 0, 2)), destination: true, ..<_>::default() },
        UeIpAddress { v6: Some(V6), v6_prefix_len: Some(56), ..<_>::default() },
    ];
    let filters = [
        SdfFilter {
            flow_description: Some(b"permit out ip from 198.51.100.0/24 to assigned"),
            tos_traffic_class: Some([0xb8, 0xfc]),
            security_parameter_index: Some(0x0a0b_0c0d),
            flow_label: Some(0x12345),
            filter_id: Some(SdfFilterId(7)),
        },
        SdfFilter { filter_id: Some(SdfFilterId(8)), ..<_>::default() },
    ];
    let macs = [MacAddressFields { source: Some(MacAddr([2, 0, 0, 0, 0, 1])), ..<_>::default() }];
    let ethernet = [EthernetPacketFilter {
        filter_id: Some(EthernetFilterId(9)),
        properties: Some(EthernetFilterProperties::BIDE),
        mac_addresses: Repeated::from(&macs),
        ethertype: Some(Ethertype(0x0800)),
        c_tag: Some(CTag(tag())),
        s_tag: Some(STag(tag())),
        ..EthernetPacketFilter::new()
    }];
    let (qfis, endpoints) = ([Qfi::new(9).unwrap()], [TrafficEndpointId(3)]);
    let routes = [FramedRoute(b"203.0.113.0/24 192.0.2.1 1")];
    let routes6 = [FramedIpv6Route(b"2001:db8::/32 2001:db8::1 1")];
    visit(Pdi {
        local_f_teid: Some(FTeid::Choose { v4: true, v6: false, choose_id: Some(5) }),
        network_instance: Some(NetworkInstance(b"internet")),
        ue_ip_addresses: Repeated::from(&ue),
        traffic_endpoint_ids: Repeated::from(&endpoints),
        sdf_filters: Repeated::from(&filters),
        application_id: Some(ApplicationId(b"app")),
        ethernet_pdu_session_information: Some(EthernetPduSessionInformation::ETHI),
        ethernet_packet_filters: Repeated::from(&ethernet),
        qfis: Repeated::from(&qfis),
        framed_routes: Repeated::from(&routes),
        framed_routing: Some(FramedRouting(1)),
        framed_ipv6_routes: Repeated::from(&routes6),
        source_interface_type: Some(InterfaceType::N3Access),
        ..Pdi::new(SourceInterface::Access)
    });
}

pub(crate) fn forwarding() -> ForwardingParameters<'static> {
    ForwardingParameters {
        network_instance: Some(NetworkInstance(b"internet")),
        redirect_information: Some(RedirectInformation {
            address_type: RedirectAddressType::Url,
            address: b"http://example.org",
            other_address: b"",
            port: None,
        }),
        outer_header_creation: Some(OuterHeaderCreation::gtpu_ipv4(Teid(0x0a0b_0c0d), V4)),
        transport_level_marking: Some(TransportLevelMarking(0xb8fc)),
        forwarding_policy: Some(ForwardingPolicy(b"gold")),
        linked_traffic_endpoint_id: Some(TrafficEndpointId(4)),
        proxying: Some(Proxying::ARP),
        destination_interface_type: Some(InterfaceType::N6),
        ..ForwardingParameters::new(DestinationInterface::Core)
    }
}

pub(crate) fn qer(id: u32) -> CreateQer<'static> {
    CreateQer {
        qer_correlation_id: Some(QerCorrelationId(77)),
        mbr: Some(Mbr::new(BitRate::from_kbps(20_000), BitRate::from_kbps(100_000))),
        gbr: Some(Gbr::new(BitRate::from_kbps(1_000), BitRate::from_kbps(2_000))),
        packet_rate: Some(PacketRate {
            uplink: Some(PacketRateLimit { time_unit: 0, packets_max: 100 }),
            downlink: Some(PacketRateLimit { time_unit: 2, packets_max: 200 }),
            ..<_>::default()
        }),
        dl_flow_level_marking: Some(DlFlowLevelMarking {
            tos_traffic_class: Some([0xb8, 0xfc]),
            service_class_indicator: Some([1, 2]),
        }),
        qfi: Qfi::new(9),
        rqi: Some(Rqi::RQI),
        paging_policy_indicator: Some(PagingPolicyIndicator(3)),
        averaging_window: Some(AveragingWindow(2000)),
        qer_control_indications: Some(QerControlIndications::RCSR),
        ..CreateQer::new(
            QerId(id),
            GateStatus { uplink: GateState::Open, downlink: GateState::Closed },
        )
    }
}

pub(crate) fn with_urr(visit: impl FnOnce(CreateUrr<'_>)) {
    let linked = [LinkedUrrId(2)];
    let aggregated =
        [AggregatedUrrs::new(AggregatedUrrId(3), Multiplier { digits: 5, exponent: -1 })];
    let times = [AdditionalMonitoringTime::new(MonitoringTime(3_900_000_000))];
    let three = VolumeThreshold { total: Some(1000), uplink: Some(1), downlink: Some(2) };
    visit(CreateUrr {
        measurement_period: Some(MeasurementPeriod(60)),
        volume_threshold: Some(three),
        volume_quota: Some(VolumeQuota { total: Some(5000), ..<_>::default() }),
        event_threshold: Some(EventThreshold(4)),
        event_quota: Some(EventQuota(5)),
        time_threshold: Some(TimeThreshold(30)),
        time_quota: Some(TimeQuota(300)),
        quota_holding_time: Some(QuotaHoldingTime(90)),
        dropped_dl_traffic_threshold: Some(DroppedDlTrafficThreshold {
            packets: Some(10),
            bytes: Some(1000),
        }),
        quota_validity_time: Some(QuotaValidityTime(600)),
        monitoring_time: Some(MonitoringTime(3_900_000_000)),
        subsequent_volume_threshold: Some(SubsequentVolumeThreshold {
            total: Some(11),
            ..<_>::default()
        }),
        subsequent_time_threshold: Some(SubsequentTimeThreshold(12)),
        subsequent_volume_quota: Some(SubsequentVolumeQuota { total: Some(13), ..<_>::default() }),
        subsequent_time_quota: Some(SubsequentTimeQuota(14)),
        inactivity_detection_time: Some(InactivityDetectionTime(15)),
        linked_urr_ids: Repeated::from(&linked),
        measurement_information: Some(MeasurementInformation::MNOP),
        time_quota_mechanism: Some(TimeQuotaMechanism { interval_type: 1, interval_secs: 10 }),
        aggregated_urrs: Repeated::from(&aggregated),
        far_id_for_quota_action: Some(FarId(1)),
        ethernet_inactivity_timer: Some(EthernetInactivityTimer(60)),
        additional_monitoring_times: Repeated::from(&times),
        number_of_reports: Some(NumberOfReports(3)),
        ..CreateUrr::new(
            UrrId(1),
            MeasurementMethod::VOLUM | MeasurementMethod::DURAT,
            ReportingTriggers::VOLTH | ReportingTriggers::VOLQU | ReportingTriggers::QUVTI,
        )
    });
}

pub(crate) fn usage_report() -> UsageReport<'static> {
    UsageReport {
        start_time: Some(StartTime(3_900_000_000)),
        end_time: Some(EndTime(3_900_000_060)),
        volume_measurement: Some(volume(1_000_000)),
        duration_measurement: Some(DurationMeasurement(60)),
        application_detection_information: Some(ApplicationDetectionInformation {
            application_instance_id: Some(ApplicationInstanceId(b"instance")),
            flow_information: Some(FlowInformation {
                direction: FlowDirection::Uplink,
                flow_description: b"permit out ip from any to assigned",
            }),
            ..ApplicationDetectionInformation::new(ApplicationId(b"app"))
        }),
        time_of_first_packet: Some(TimeOfFirstPacket(3_900_000_001)),
        time_of_last_packet: Some(TimeOfLastPacket(3_900_000_059)),
        usage_information: Some(UsageInformation::AFT),
        query_urr_reference: Some(QueryUrrReference(6)),
        ..UsageReport::new(
            UrrId(1),
            UrSeqn(4),
            UsageReportTrigger::VOLTH | UsageReportTrigger::TERMR | UsageReportTrigger::EVEQU,
        )
    }
}

fn user_id() -> UserId<'static> {
    UserId {
        imsi: Some(&[0x00, 0x01, 0x01, 0x21, 0x43, 0x65, 0x87, 0xf9]),
        nai: Some(b"user@example.org"),
        ..<_>::default()
    }
}

pub(crate) fn establishment(visit: impl FnOnce(&SessionEstablishmentRequest<'_>)) {
    with_pdi(|pdi| {
        with_urr(|urr| {
            let (urr_ids, qer_ids) = ([UrrId(1)], [QerId(1)]);
            let rules = [ActivatePredefinedRules(b"gold")];
            let pdrs = [
                CreatePdr {
                    outer_header_removal: Some(OuterHeaderRemoval {
                        description: OuterHeaderRemovalDescription::GtpuUdpIpv4,
                        extension_header_deletion: Some(1),
                    }),
                    far_id: Some(FarId(1)),
                    urr_ids: Repeated::from(&urr_ids),
                    qer_ids: Repeated::from(&qer_ids),
                    activate_predefined_rules: Repeated::from(&rules),
                    activation_time: Some(ActivationTime(3_900_000_000)),
                    deactivation_time: Some(DeactivationTime(3_900_000_100)),
                    ..CreatePdr::new(PdrId(1), Precedence(255), pdi)
                },
                CreatePdr {
                    far_id: Some(FarId(2)),
                    ..CreatePdr::new(PdrId(2), Precedence(32), Pdi::new(SourceInterface::Core))
                },
            ];
            let fars = [
                CreateFar {
                    forwarding_parameters: Some(forwarding()),
                    bar_id: Some(BarId(1)),
                    ..CreateFar::new(FarId(1), ApplyAction::FORW)
                },
                CreateFar::new(FarId(2), ApplyAction::BUFF | ApplyAction::NOCP | ApplyAction::DDPN),
            ];
            let (urrs, qers) = ([urr], [qer(1)]);
            let bars = [CreateBar {
                suggested_buffering_packets_count: Some(SuggestedBufferingPacketsCount(10)),
                downlink_data_notification_delay: Some(DownlinkDataNotificationDelay(2)),
                ..CreateBar::new(BarId(1))
            }];
            let ue = [UeIpAddress { choose_v4: true, ..<_>::default() }];
            let endpoints = [CreateTrafficEndpoint {
                local_f_teid: Some(f_teid()),
                network_instance: Some(NetworkInstance(b"internet")),
                ue_ip_addresses: Repeated::from(&ue),
                ..CreateTrafficEndpoint::new(TrafficEndpointId(3))
            }];
            visit(&SessionEstablishmentRequest {
                create_urrs: Repeated::from(&urrs),
                create_qers: Repeated::from(&qers),
                create_bars: Repeated::from(&bars),
                create_traffic_endpoints: Repeated::from(&endpoints),
                pdn_type: Some(PdnType::Ipv4),
                user_plane_inactivity_timer: Some(UserPlaneInactivityTimer(3600)),
                user_id: Some(user_id()),
                apn_dnn: Some(ApnDnn(b"\x08internet")),
                pfcp_se_req_flags: Some(PfcpSeReqFlags::RESTI),
                recovery_time_stamp: Some(RecoveryTimeStamp(3_900_000_000)),
                s_nssai: Some(SNssai { sst: 1, sd: 0x01_0203 }),
                rat_type: Some(RatType::Nr),
                ..SessionEstablishmentRequest::new(
                    node_id(),
                    FSeid { seid: SEID, v4: Some(V4), v6: Some(V6) },
                    Repeated::from(&pdrs),
                    Repeated::from(&fars),
                )
            });
        });
    });
}

fn modification(visit: impl FnOnce(&SessionModificationRequest<'_>)) {
    let removals = ([RemovePdr::new(PdrId(3))], [RemoveFar::new(FarId(3))]);
    let (urr, qer) = ([RemoveUrr::new(UrrId(3))], [RemoveQer::new(QerId(3))]);
    let (bar, endpoint) =
        ([RemoveBar::new(BarId(3))], [RemoveTrafficEndpoint::new(TrafficEndpointId(3))]);
    let update_pdr = [UpdatePdr {
        precedence: Some(Precedence(9)),
        far_id: Some(FarId(2)),
        ..UpdatePdr::new(PdrId(1))
    }];
    let update_far = [UpdateFar {
        apply_action: Some(ApplyAction::FORW),
        update_forwarding_parameters: Some(UpdateForwardingParameters {
            destination_interface: Some(DestinationInterface::Access),
            outer_header_creation: Some(Nullable::Value(OuterHeaderCreation::gtpu_ipv6(
                Teid(5),
                V6,
            ))),
            pfcp_sm_req_flags: Some(PfcpSmReqFlags::SNDEM),
            ..UpdateForwardingParameters::new()
        }),
        ..UpdateFar::new(FarId(2))
    }];
    let update_urr =
        [UpdateUrr { time_threshold: Some(TimeThreshold(9)), ..UpdateUrr::new(UrrId(1)) }];
    let update_qer =
        [UpdateQer { gate_status: Some(GateStatus::OPEN), ..UpdateQer::new(QerId(1)) }];
    let update_bar = [UpdateBar {
        suggested_buffering_packets_count: Some(SuggestedBufferingPacketsCount(20)),
        ..UpdateBar::new(BarId(1))
    }];
    let update_endpoint = [UpdateTrafficEndpoint::new(TrafficEndpointId(4))];
    let query = [QueryUrr::new(UrrId(1))];
    visit(&SessionModificationRequest {
        cp_f_seid: Some(FSeid::new(SEID, IpAddr::V4(V4))),
        remove_pdrs: Repeated::from(&removals.0),
        remove_fars: Repeated::from(&removals.1),
        remove_urrs: Repeated::from(&urr),
        remove_qers: Repeated::from(&qer),
        remove_bars: Repeated::from(&bar),
        remove_traffic_endpoints: Repeated::from(&endpoint),
        update_pdrs: Repeated::from(&update_pdr),
        update_fars: Repeated::from(&update_far),
        update_urrs: Repeated::from(&update_urr),
        update_qers: Repeated::from(&update_qer),
        update_bars: Repeated::from(&update_bar),
        update_traffic_endpoints: Repeated::from(&update_endpoint),
        pfcp_sm_req_flags: Some(PfcpSmReqFlags::DROBU | PfcpSmReqFlags::QAURR),
        query_urrs: Repeated::from(&query),
        query_urr_reference: Some(QueryUrrReference(8)),
        ..SessionModificationRequest::new()
    });
}

fn heartbeat_messages(visit: &mut impl FnMut(Vec<u8>)) {
    let recovery = RecoveryTimeStamp(3_900_000_000);
    visit(octets(&HeartbeatRequest {
        source_ip_address: Some(SourceIpAddress { v4: Some(V4), ..<_>::default() }),
        ..HeartbeatRequest::new(recovery)
    }));
    visit(octets(&HeartbeatResponse::new(recovery)));
}

fn association_setup_messages(visit: &mut impl FnMut(Vec<u8>)) {
    let recovery = RecoveryTimeStamp(3_900_000_000);
    let resources = [UserPlaneIpResourceInformation {
        teid_range: Some((2, 0x40)),
        v4: Some(V4),
        network_instance: Some(NetworkInstance(b"internet")),
        source_interface: Some(SourceInterface::Access),
        ..<_>::default()
    }];
    let pool_ids = [UeIpAddressPoolIdentity(b"pool")];
    let pools = [UeIpAddressPoolInformation {
        ip_version: Some(IpVersion::V4),
        ..UeIpAddressPoolInformation::new(Repeated::from(&pool_ids))
    }];
    let alternatives =
        [AlternativeSmfIpAddress { v4: Some(V4), preferred: true, ..<_>::default() }];
    visit(octets(&AssociationSetupRequest {
        cp_function_features: Some(CpFunctionFeatures::LOAD | CpFunctionFeatures::PSUCC),
        alternative_smf_ip_addresses: Repeated::from(&alternatives),
        nf_instance_id: Some(NfInstanceId([7; 16])),
        pfcp_as_req_flags: Some(PfcpAsReqFlags::UUPSI),
        ..AssociationSetupRequest::new(node_id(), recovery)
    }));
    visit(octets(&AssociationSetupResponse {
        up_function_features: Some(
            UpFunctionFeatures::FTUP | UpFunctionFeatures::EMPU | UpFunctionFeatures::UPIDP,
        ),
        user_plane_ip_resources: Repeated::from(&resources),
        ue_ip_address_pools: Repeated::from(&pools),
        ..AssociationSetupResponse::new(NodeId::Ipv4(V4), Cause::RequestAccepted, recovery)
    }));
}

fn association_update_messages(visit: &mut impl FnMut(Vec<u8>)) {
    let usages = [UeIpAddressUsageInformation::new(
        SequenceNumber(1),
        Metric(40),
        ValidityTimer(600),
        NumberOfUeIpAddresses { v4: Some(1000), v6: Some(64) },
        NetworkInstance(b"internet"),
    )];
    let watched = [RemoteGtpuPeer { v4: Some(V4), v6: Some(V6), ..<_>::default() }];
    let markings = [TransportLevelMarking(0xb8fc)];
    let controls = [Nullable::Value(GtpuPathQosControlInformation {
        remote_gtpu_peers: Repeated::from(&watched),
        interface_type: Some(GtpuPathInterfaceType::N9 | GtpuPathInterfaceType::N3),
        transport_level_markings: Repeated::from(&markings),
        measurement_period: Some(MeasurementPeriod(60)),
        average_packet_delay: Some(AveragePacketDelay(5)),
        minimum_packet_delay: Some(MinimumPacketDelay(4)),
        maximum_packet_delay: Some(MaximumPacketDelay(20)),
        minimum_waiting_time: Some(PfcpTimer(Timer::from_secs(30))),
        ..GtpuPathQosControlInformation::new(QosReportTrigger::PER | QosReportTrigger::THR)
    })];
    visit(octets(&AssociationUpdateRequest {
        gtpu_path_qos_controls: Repeated::from(&controls),
        association_release_request: Some(adit_pfcp::ie::AssociationReleaseRequest::SARR),
        graceful_release_period: Some(GracefulReleasePeriod(Timer::from_secs(90))),
        pfcp_au_req_flags: Some(PfcpAuReqFlags::PARPS),
        ue_ip_address_usages: Repeated::from(&usages),
        ..AssociationUpdateRequest::new(NodeId::Ipv6(V6))
    }));
    visit(octets(&AssociationUpdateResponse::new(node_id(), Cause::RequestAccepted)));
    visit(octets(&adit_pfcp::message::AssociationReleaseRequest::new(node_id())));
    visit(octets(&AssociationReleaseResponse::new(node_id(), Cause::NoEstablishedAssociation)));
    visit(octets(&VersionNotSupportedResponse::new()));
}

fn report_messages(visit: &mut impl FnMut(Vec<u8>)) {
    let peers = [RemoteGtpuPeer { v4: Some(V4), ..<_>::default() }];
    let information = [PathQosInformation {
        minimum_packet_delay: Some(MinimumPacketDelay(1)),
        maximum_packet_delay: Some(MaximumPacketDelay(9)),
        transport_level_marking: Some(TransportLevelMarking(0xb8fc)),
        ..PathQosInformation::new(AveragePacketDelay(3))
    }];
    let delays = [GtpuPathQosReport {
        interface_type: Some(GtpuPathInterfaceType::N3),
        start_time: Some(StartTime(3_900_000_000)),
        ..GtpuPathQosReport::new(
            peers[0],
            QosReportTrigger::PER,
            EventTimeStamp(3_900_000_060),
            Repeated::from(&information),
        )
    }];
    visit(octets(&NodeReportRequest {
        user_plane_path_failure_report: Some(UserPlanePathFailureReport::new(Repeated::from(
            &peers,
        ))),
        gtpu_path_qos_reports: Repeated::from(&delays),
        peer_up_restart_report: Some(PeerUpRestartReport::new(Repeated::from(&peers))),
        ..NodeReportRequest::new(
            node_id(),
            NodeReportType::UPFR | NodeReportType::GPQR | NodeReportType::PURR,
        )
    }));
    visit(octets(&NodeReportResponse::new(node_id(), Cause::RequestAccepted)));
}

fn set_deletion_messages(visit: &mut impl FnMut(Vec<u8>)) {
    let fq_csids = [
        FqCsid::new(FqCsidNode::Ipv4(V4), &[0, 7, 1, 2], Some(2)).unwrap(),
        FqCsid::new(FqCsidNode::Ipv6(V6), &[0, 9], None).unwrap(),
    ];
    visit(octets(&SessionSetDeletionRequest {
        fq_csids: Repeated::from(&fq_csids),
        ..SessionSetDeletionRequest::new(node_id())
    }));
    visit(octets(&SessionSetDeletionResponse::new(node_id(), Cause::RequestAccepted)));
}

fn set_messages(visit: &mut impl FnMut(Vec<u8>)) {
    let contents = [PfdContents {
        flow_description: Some(b"permit out ip from 198.51.100.7 to assigned"),
        ..<_>::default()
    }];
    let contexts = [PfdContext::new(Repeated::from(&contents))];
    let applications = [
        ApplicationIdsPfds {
            pfd_contexts: Repeated::from(&contexts),
            ..ApplicationIdsPfds::new(ApplicationId(b"app"))
        },
        ApplicationIdsPfds::new(ApplicationId(b"gone")),
    ];
    visit(octets(&PfdManagementRequest {
        application_ids_pfds: Repeated::from(&applications),
        node_id: Some(node_id()),
        ..PfdManagementRequest::new()
    }));
    visit(octets(&PfdManagementResponse {
        offending_ie: Some(IeType::PFD_CONTENTS.into()),
        ..PfdManagementResponse::new(Cause::MandatoryIeIncorrect)
    }));
    let (groups, addrs) = ([GroupId(b"group-1")], [CpIpAddress { v4: Some(V4), v6: Some(V6) }]);
    let changes = [SessionChangeInfo {
        group_ids: Repeated::from(&groups),
        cp_ip_addresses: Repeated::from(&addrs),
        ..SessionChangeInfo::new(AlternativeSmfIpAddress { v4: Some(V4), ..<_>::default() })
    }];
    visit(octets(&SessionSetModificationRequest::new(node_id(), Repeated::from(&changes))));
    visit(octets(&SessionSetModificationResponse::new(node_id(), Cause::RequestAccepted)));
}

fn session_responses(visit: &mut impl FnMut(Vec<u8>)) {
    let (teids, reports) = ([f_teid()], [usage_report()]);
    let created =
        [CreatedPdr { local_f_teids: Repeated::from(&teids), ..CreatedPdr::new(PdrId(1)) }];
    let load = LoadControlInformation::new(SequenceNumber(1), Metric(50));
    let overload = OverloadControlInformation::new(
        SequenceNumber(1),
        Metric(10),
        PfcpTimer(Timer::from_secs(60)),
    );
    visit(octets(&SessionEstablishmentResponse {
        up_f_seid: Some(FSeid::new(Seid(9), IpAddr::V4(V4))),
        created_pdrs: Repeated::from(&created),
        load_control_information: Some(load),
        overload_control_information: Some(overload),
        ..SessionEstablishmentResponse::new(NodeId::Ipv4(V4), Cause::RequestAccepted)
    }));
    let offending = [OffendingIeInformation { ie_type: IeType::APPLY_ACTION, value: &[0xff] }];
    let failures = [PartialFailureInformation {
        offending_ies: Repeated::from(&offending),
        ..PartialFailureInformation::new(FailedRuleId::Far(FarId(8)), Cause::RequestRejected)
    }];
    visit(octets(&SessionModificationResponse {
        offending_ie: Some(IeType::FAR_ID.into()),
        usage_reports: Repeated::from(&reports),
        failed_rule_id: Some(FailedRuleId::Far(FarId(7))),
        partial_failures: Repeated::from(&failures),
        ..SessionModificationResponse::new(Cause::RuleCreationModificationFailure)
    }));
    visit(octets(&SessionDeletionRequest::new()));
    visit(octets(&SessionDeletionResponse {
        usage_reports: Repeated::from(&reports),
        additional_usage_reports: Some(AdditionalUsageReportsInformation { more: true, count: 3 }),
        ..SessionDeletionResponse::new(Cause::RequestAccepted)
    }));
    let pdr_ids = [PdrId(2)];
    let service =
        [DownlinkDataServiceInformation { paging_policy_indication: Some(46), qfi: Qfi::new(9) }];
    visit(octets(&SessionReportRequest {
        downlink_data_report: Some(DownlinkDataReport {
            downlink_data_service_information: Repeated::from(&service),
            data_status: Some(DataStatus::BUFF),
            ..DownlinkDataReport::new(Repeated::from(&pdr_ids))
        }),
        usage_reports: Repeated::from(&reports),
        error_indication_report: Some(ErrorIndicationReport::new(Repeated::from(&teids))),
        pfcp_sr_req_flags: Some(PfcpSrReqFlags::PSDBU),
        ..SessionReportRequest::new(ReportType::DLDR | ReportType::USAR | ReportType::ERIR)
    }));
    visit(octets(&SessionReportResponse {
        update_bar: Some(UpdateBar {
            dl_buffering_duration: Some(DlBufferingDuration(Timer::from_secs(20))),
            dl_buffering_suggested_packet_count: Some(DlBufferingSuggestedPacketCount(300)),
            ..UpdateBar::new(BarId(1))
        }),
        pfcp_sr_rsp_flags: Some(PfcpSrRspFlags::DROBU),
        ..SessionReportResponse::new(Cause::RequestAccepted)
    }));
}

/// Calls `visit` with every example.
pub(crate) fn each(mut visit: impl FnMut(Vec<u8>)) {
    heartbeat_messages(&mut visit);
    association_setup_messages(&mut visit);
    association_update_messages(&mut visit);
    report_messages(&mut visit);
    set_messages(&mut visit);
    set_deletion_messages(&mut visit);
    establishment(|m| visit(octets(m)));
    modification(|m| visit(octets(m)));
    session_responses(&mut visit);
}
