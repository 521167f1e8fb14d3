//! Outer headers and QoS marks as control planes request them: which are accepted, and which are
//! not.

use std::net::{IpAddr, Ipv4Addr};

use adit_pfcp::grouped::{CreateFar, CreatePdr, CreateQer, ForwardingParameters, Pdi};
use adit_pfcp::ie::{
    ApplyAction, DestinationInterface, EthernetVlanTag, FailedRuleId, GateStatus,
    OuterHeaderCreation, OuterHeaderDescription as D, OuterHeaderRemoval,
    OuterHeaderRemovalDescription as Removal, PagingPolicyIndicator, SourceInterface,
    TransportLevelMarking, UeIpAddress,
};
use adit_pfcp::{Cause, IeType, Message};
use adit_rules::{HeaderCreation as Compiled, HeaderRemoval as CompiledRemoval};
use adit_rules::{SessionRules, SourceInterface as Side, TunnelSide};
use adit_types::{Direction, FarId, PdrId, Precedence, QerId, Qfi, Teid};

use crate::smf::*;

const AS: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);

fn outcome(bytes: &[u8]) -> (Cause, Option<IeType>, Option<FailedRuleId>) {
    let Message::SessionEstablishmentResponse(body) = decode(bytes) else { panic!() };
    (body.cause, body.offending_ie.map(|ie| IeType(ie.0)), body.failed_rule_id)
}

/// The rules of an accepted establishment.
fn rules(request: &[u8]) -> Box<SessionRules> {
    let mut bench = Bench::associated();
    bench.node.handle_datagram(bench.now, smf(10), request);
    let (_, delta) = bench.node.poll_delta().expect("refused");
    delta.rules.unwrap()
}

fn refused(request: &[u8]) -> (Cause, Option<IeType>, Option<FailedRuleId>) {
    let mut bench = Bench::associated();
    let bytes = bench.answer(smf(10), request);
    assert_eq!(bench.node.store().len(), 0);
    outcome(&bytes)
}

/// An establishment whose uplink FAR creates `header`.
fn with_creation(header: OuterHeaderCreation) -> Vec<u8> {
    establish_with(2, &SessionScript::new(0xc1, 1), |body| {
        let mut far_up = CreateFar::new(FarId(1), ApplyAction::FORW);
        let mut parameters = ForwardingParameters::new(DestinationInterface::Core);
        parameters.outer_header_creation = Some(header);
        far_up.forwarding_parameters = Some(parameters);
        let mut far_down = CreateFar::new(FarId(2), ApplyAction::FORW);
        let mut towards_gnb = ForwardingParameters::new(DestinationInterface::Access);
        towards_gnb.outer_header_creation = Some(OuterHeaderCreation::gtpu_ipv4(Teid(7), GNB));
        towards_gnb.transport_level_marking = Some(TransportLevelMarking(0xbbff));
        far_down.forwarding_parameters = Some(towards_gnb);
        body.create_fars = list([far_up, far_down]).into();
    })
}

/// An establishment whose downlink PDR is `edit`ed and removes `removal`.
fn with_removal(
    removal: OuterHeaderRemoval,
    edit: impl FnOnce(&mut CreatePdr<'static>),
) -> Vec<u8> {
    establish_with(2, &SessionScript::new(0xc1, 1), |body| {
        let mut pdr = CreatePdr::new(PdrId(2), Precedence(1), Pdi::new(SourceInterface::Core));
        let ue = Ipv4Addr::new(10, 45, 0, 1);
        let ue = UeIpAddress { v4: Some(ue), destination: true, ..UeIpAddress::default() };
        pdr.pdi.ue_ip_addresses = list([ue]).into();
        pdr.outer_header_removal = Some(removal);
        pdr.far_id = Some(FarId(2));
        edit(&mut pdr);
        body.create_pdrs = list([pdr]).into();
    })
}

/// Spec: TS 29.244 §8.2.56.
#[test]
fn outer_header_creation_of_udp_and_ip_is_accepted() {
    let v6 = "2001:db8::9".parse().unwrap();
    let cases = [
        (
            OuterHeaderCreation {
                description: D::UDP_IPV4 | D::N6,
                v4: Some(AS),
                port: Some(5000),
                ..Default::default()
            },
            Compiled::Udp { addr: IpAddr::V4(AS), port: 5000 },
        ),
        (
            OuterHeaderCreation {
                description: D::UDP_IPV6,
                v6: Some(v6),
                port: Some(5000),
                ..Default::default()
            },
            Compiled::Udp { addr: IpAddr::V6(v6), port: 5000 },
        ),
        (
            OuterHeaderCreation { description: D::IPV4, v4: Some(AS), ..Default::default() },
            Compiled::Ip { addr: IpAddr::V4(AS) },
        ),
        (
            OuterHeaderCreation { description: D::IPV6, v6: Some(v6), ..Default::default() },
            Compiled::Ip { addr: IpAddr::V6(v6) },
        ),
    ];
    for (header, compiled) in cases {
        let rules = rules(&with_creation(header));
        assert_eq!(rules.fars[0].outer_header_creation, Some(compiled));
    }
}

/// Spec: TS 29.244 §8.2.56.
#[test]
fn outer_header_creation_of_tags_multicast_and_mixtures_is_refused_by_name() {
    let far = Some(FailedRuleId::Far(FarId(1)));
    let expected =
        (Cause::RuleCreationModificationFailure, Some(IeType::OUTER_HEADER_CREATION), far);
    let tag = Some(EthernetVlanTag::default());
    let gtpu = OuterHeaderCreation::gtpu_ipv4(Teid(1), AS);
    for header in [
        OuterHeaderCreation { description: D::C_TAG, c_tag: tag, ..Default::default() },
        OuterHeaderCreation { description: D::S_TAG, s_tag: tag, ..Default::default() },
        OuterHeaderCreation { description: gtpu.description | D::C_TAG, c_tag: tag, ..gtpu },
        OuterHeaderCreation { description: gtpu.description | D::LOWER_LAYER_SSM, ..gtpu },
        OuterHeaderCreation { description: gtpu.description | D::IPV4, ..gtpu },
        OuterHeaderCreation { description: D::N6, ..Default::default() },
        OuterHeaderCreation {
            description: D::UDP_IPV4,
            v4: Some(AS),
            port: Some(0),
            ..Default::default()
        },
    ] {
        assert_eq!(refused(&with_creation(header)), expected, "{header:?}");
    }
}

/// Only the bits of the mask are marked, and none of ECN. Spec: TS 29.244 §8.2.12; RFC 3168 §22.
#[test]
fn transport_level_marking_takes_the_bits_of_its_mask() {
    let rules = rules(&with_creation(OuterHeaderCreation::gtpu_ipv4(Teid(1), AS)));
    assert_eq!(rules.fars[1].outer_tos.around(0xff), 0xb8);
}

/// Spec: TS 29.244 §8.2.64; TS 23.501 §5.6.10.3.
#[test]
fn outer_header_removal_of_udp_and_ip_is_accepted_from_data_networks() {
    for (removal, compiled) in [
        (Removal::UdpIpv4, CompiledRemoval::UdpIpv4),
        (Removal::UdpIpv6, CompiledRemoval::UdpIpv6),
        (Removal::Ipv4, CompiledRemoval::Ipv4),
        (Removal::Ipv6, CompiledRemoval::Ipv6),
    ] {
        let rules = rules(&with_removal(removal.into(), |_| {}));
        assert_eq!(rules.downlink[0].outer_header_removal, Some(compiled));
        let from_ran = with_removal(removal.into(), |pdr| {
            pdr.pdi.source_interface = SourceInterface::Access;
            pdr.pdi.ue_ip_addresses = Default::default();
        });
        let pdr = Some(FailedRuleId::Pdr(PdrId(2)));
        let expected =
            (Cause::RuleCreationModificationFailure, Some(IeType::OUTER_HEADER_REMOVAL), pdr);
        assert_eq!(refused(&from_ran), expected);
    }
}

/// Spec: TS 29.244 §5.2.1 (N9), §8.2.64.
#[test]
fn core_tunnel_is_known_by_its_side_and_container_deletion_is_taken() {
    let removal =
        OuterHeaderRemoval { description: Removal::GtpuUdpIp, extension_header_deletion: Some(1) };
    let request = with_removal(removal, |pdr| {
        pdr.pdi.local_f_teid =
            Some(adit_pfcp::ie::FTeid::Choose { v4: true, v6: false, choose_id: None });
    });
    let rules = rules(&request);
    let pdr = &rules.pdrs(Direction::Downlink)[0];
    assert!(pdr.container_deletion);
    let n9 = TunnelSide { source: Side::Core, direction: Direction::Downlink };
    assert_eq!(rules.tunnel_side(pdr.teid.unwrap()), n9);
    assert_eq!(rules.tunnel_side(Teid(1)), TunnelSide::RAN);
}

/// Spec: TS 29.244 §8.2.88, §8.2.89, §8.2.116.
#[test]
fn paging_policy_indicator_reaches_the_workers() {
    let request = establish_with(2, &SessionScript::new(0xc1, 1), |body| {
        let mut qer = CreateQer::new(QerId(1), GateStatus::OPEN);
        qer.qfi = Qfi::new(9);
        qer.rqi = Some(adit_pfcp::ie::Rqi::RQI);
        qer.paging_policy_indicator = Some(PagingPolicyIndicator(5));
        body.create_qers = list([qer]).into();
    });
    let qer = &rules(&request).qers[0];
    assert_eq!((qer.qfi, qer.rqi, qer.ppi), (Qfi::new(9), true, Some(5)));
}
