//! Packet Detection Information beyond the usual: names of the operator's configuration.

use adit_n4::NodeConfig;
use adit_pfcp::grouped::{CreateTrafficEndpoint, Pdi};
use adit_pfcp::ie::{
    ApplicationId, FTeid, FailedRuleId, FramedIpv6Route, FramedRoute, FramedRouting, InterfaceType,
    NetworkInstance, OffendingIe, SourceInterface, TrafficEndpointId, UeIpAddress,
    UpFunctionFeatures,
};
use adit_pfcp::message::SessionEstablishmentResponse;
use adit_pfcp::{Cause, IeType, Message};
use adit_rules::sdf::AddrMatch;
use adit_rules::{KeyChange, SessionKey};
use adit_session::{Provisioning, StoreConfig, UePool};
use adit_types::{InterfaceSet, PdrId};

use crate::smf::*;

fn established(bytes: &[u8]) -> SessionEstablishmentResponse<'_> {
    let Message::SessionEstablishmentResponse(body) = decode(bytes) else { panic!() };
    body
}

fn script() -> SessionScript {
    SessionScript::new(0xc1, 1)
}

fn associated_with(provisioning: Provisioning) -> Bench {
    let store = StoreConfig { provisioning, ..config().store };
    let mut bench = Bench::with(NodeConfig { store, ..config() });
    bench.associate(10);
    bench
}

fn two_networks() -> Provisioning {
    let interfaces = interfaces_of_two_networks();
    Provisioning { interfaces, ..config().store.provisioning }
}

/// An establishment whose downlink PDR names the network instance.
fn in_network(octets: &'static [u8]) -> Vec<u8> {
    establish_with(2, &script(), |body| {
        let mut pdrs: Vec<_> = body.create_pdrs.iter().collect();
        pdrs[1].pdi.network_instance = Some(NetworkInstance(octets));
        body.create_pdrs = Vec::leak(pdrs)[..].into();
    })
}

/// TS 29.244 §8.2.4: the encoding is up to the peers, so both usual ones mean the same.
#[test]
fn network_instance_as_text_or_labels_selects_interfaces() {
    for octets in [&b"ims"[..], b"\x03ims", b"\x03IMS\x00"] {
        let mut bench = associated_with(two_networks());
        bench.node.handle_datagram(bench.now, smf(10), &in_network(octets));
        let (_, delta) = bench.node.poll_delta().unwrap();
        assert_eq!(delta.rules.unwrap().downlink[0].interfaces, InterfaceSet(0b101));
    }
}

/// TS 29.244 §7.5.3.1: the response names the IE and the rule.
#[test]
fn network_instance_unknown_is_refused_with_rule_and_ie() {
    let mut bench = associated_with(two_networks());
    let bytes = bench.answer(smf(10), &in_network(b"corp"));
    let body = established(&bytes);
    assert_eq!(body.cause, Cause::RuleCreationModificationFailure);
    assert_eq!(body.offending_ie, Some(OffendingIe::from(IeType::NETWORK_INSTANCE)));
    assert_eq!(body.failed_rule_id, Some(FailedRuleId::Pdr(PdrId(2))));
    assert_eq!(bench.node.store().len(), 0);
}

fn one_pool() -> Provisioning {
    let prefix = AddrMatch::V4("10.60.0.0/30".parse().unwrap());
    let ue_pools = vec![UePool { network_instance: None, identity: None, s_nssai: None, prefix }];
    Provisioning { ue_pools, ..config().store.provisioning }
}

/// TS 29.244 §7.5.3.2: Created PDR carries the chosen address next to the F-TEID.
#[test]
fn ue_address_of_our_choice_is_returned_in_created_pdr() {
    let mut bench = associated_with(one_pool());
    let bytes = bench.answer(smf(10), &choosing(2, 0xc1));
    let body = established(&bytes);
    assert_eq!(body.cause, Cause::RequestAccepted);
    let created: Vec<_> = body.created_pdrs.iter().collect();
    assert_eq!(created.iter().map(|group| group.pdr_id.0).collect::<Vec<_>>(), [1, 2]);
    let ues: Vec<UeIpAddress> =
        created.iter().map(|group| group.ue_ip_addresses.first().unwrap()).collect();
    assert_eq!(ues[0].v4, Some(std::net::Ipv4Addr::new(10, 60, 0, 1)));
    assert_eq!((ues[0].v4, ues[0].destination), (ues[1].v4, false));
    assert!(ues[1].destination && created[0].local_f_teids.first().is_some());
}

/// The control plane restores a session with the address that was chosen here.
#[test]
fn address_of_our_choice_goes_to_the_session_that_replaces_the_former_one() {
    let mut bench = associated_with(one_pool());
    bench.answer(smf(10), &choosing(2, 0xc1));
    let ue = std::net::Ipv4Addr::new(10, 60, 0, 1);
    let script = SessionScript { ue, ..SessionScript::new(0xc2, 1) };
    let bytes = bench.answer(smf(10), &establish(3, &script));
    assert_eq!(established(&bytes).cause, Cause::RequestAccepted);
    assert_eq!(bench.node.counters().scalars.sessions_replaced, 1);
    let up_seid = established(&bytes).up_f_seid.unwrap().seid;
    // Another session gets another address.
    let other = bench.answer(smf(10), &choosing(4, 0xc3));
    let created = established(&other).created_pdrs.iter().next().unwrap();
    let chosen = created.ue_ip_addresses.iter().next().unwrap().v4;
    assert_eq!(chosen, Some(std::net::Ipv4Addr::new(10, 60, 0, 2)));
    let other = established(&other).up_f_seid.unwrap().seid;
    for (sequence, up_seid) in [(5, up_seid), (6, other)] {
        bench.answer(smf(10), &delete(sequence, up_seid));
    }
    assert_eq!(bench.node.store().reserved(), Default::default());
}

/// TS 29.244 §8.2.1: Cause 79 when no address is left.
#[test]
fn ue_addresses_exhausted_are_cause_79() {
    let mut bench = associated_with(one_pool());
    for n in 0..2 {
        let bytes = bench.answer(smf(10), &choosing(2 + n, u64::from(0xc1 + n)));
        assert_eq!(established(&bytes).cause, Cause::RequestAccepted);
    }
    let bytes = bench.answer(smf(10), &choosing(9, 0xc9));
    let body = established(&bytes);
    assert_eq!(body.cause, Cause::AllDynamicAddressesOccupied);
    assert_eq!(body.offending_ie, Some(OffendingIe::from(IeType::UE_IP_ADDRESS)));
    assert_eq!(body.failed_rule_id, Some(FailedRuleId::Pdr(PdrId(1))));
}

fn refusal(edit: impl FnOnce(&mut Pdi<'static>)) -> (Cause, Option<OffendingIe>) {
    let request = establish_with(2, &script(), |body| {
        let mut pdrs: Vec<_> = body.create_pdrs.iter().collect();
        edit(&mut pdrs[1].pdi);
        body.create_pdrs = Vec::leak(pdrs)[..].into();
    });
    let mut bench = associated_with(config().store.provisioning);
    let bytes = bench.answer(smf(10), &request);
    let body = established(&bytes);
    if !body.cause.is_accepted() {
        assert_eq!(body.failed_rule_id, Some(FailedRuleId::Pdr(PdrId(2))));
        assert_eq!(bench.node.store().reserved(), Default::default());
    }
    (body.cause, body.offending_ie)
}

/// TS 29.244 §5.16; RFC 2865 §5.22: a refusal of a text that is no route names its IE.
#[test]
fn framed_route_that_is_none_is_refused_with_rule_and_ie() {
    let failure = |ie| (Cause::RuleCreationModificationFailure, Some(OffendingIe::from(ie)));
    let v4 = refusal(|pdi| pdi.framed_routes = list([FramedRoute(b"10.0.0.0/33")]).into());
    assert_eq!(v4, failure(IeType::FRAMED_ROUTE));
    let v4 = refusal(|pdi| pdi.framed_routes = list([FramedRoute(b"224.0.0.0/4")]).into());
    assert_eq!(v4, failure(IeType::FRAMED_ROUTE));
    let routes = list([FramedIpv6Route(b"2001:db8:1::/48 gw")]);
    let v6 = refusal(|pdi| pdi.framed_ipv6_routes = routes.into());
    assert_eq!(v6, failure(IeType::FRAMED_IPV6_ROUTE));
    let routed = refusal(|pdi| pdi.framed_routing = Some(FramedRouting(2)));
    let ie = Some(OffendingIe::from(IeType::FRAMED_ROUTING));
    assert_eq!(routed, (Cause::ServiceNotSupported, ie));
    let fine = refusal(|pdi| {
        pdi.framed_routing = Some(FramedRouting(0));
        pdi.framed_routes = list([FramedRoute(b"192.168.0.0/16 0.0.0.0 1")]).into();
        pdi.framed_ipv6_routes = list([FramedIpv6Route(b"2001:db8:1::/48 :: 1")]).into();
    });
    assert_eq!(fine, (Cause::RequestAccepted, None));
}

/// TS 29.244 §8.2.118: N3 is a reference point towards the RAN.
#[test]
fn interface_type_of_any_side_is_accepted() {
    for reference in [InterfaceType::N3Access, InterfaceType::N6] {
        let fine = refusal(|pdi| pdi.source_interface_type = Some(reference));
        assert_eq!(fine, (Cause::RequestAccepted, None));
    }
}

/// TS 29.244 §7.5.2.2: several UE IP Address IEs are a list; IPv6D shortens the prefix.
#[test]
fn several_ue_addresses_and_delegated_prefixes_all_lead_to_the_session() {
    let request = establish_with(2, &script(), |body| {
        let mut pdrs: Vec<_> = body.create_pdrs.iter().collect();
        let first = pdrs[1].pdi.ue_ip_addresses.first().unwrap();
        let v6 = Some("2001:db8:0:10::".parse().unwrap());
        let ues = [
            first,
            UeIpAddress { v4: Some([10, 45, 9, 9].into()), ..first },
            UeIpAddress { v4: None, v6, v6_delegation_bits: Some(4), ..first },
            UeIpAddress { v4: None, v6: Some("2001:db8:5::".parse().unwrap()), ..first },
        ];
        pdrs[1].pdi.ue_ip_addresses = list(ues).into();
        body.create_pdrs = Vec::leak(pdrs)[..].into();
    });
    let mut bench = associated_with(config().store.provisioning);
    bench.node.handle_datagram(bench.now, smf(10), &request);
    let (_, delta) = bench.node.poll_delta().unwrap();
    let added = |key| delta.keys.contains(&KeyChange::Add(key));
    assert!(added(SessionKey::UeIpv4(adit_types::DomainId(0), script().ue)));
    assert!(added(SessionKey::UeIpv4(adit_types::DomainId(0), [10, 45, 9, 9].into())));
    assert!(added(SessionKey::Framed(
        adit_types::DomainId(0),
        "2001:db8:0:10::/60".parse().unwrap()
    )));
    assert!(added(SessionKey::UeIpv6(adit_types::DomainId(0), 0x2001_0db8_0005_0000)));
}

/// TS 29.244 §8.2.62: addresses of one UE are on one side of its packets.
#[test]
fn several_ue_addresses_that_contradict_each_other_are_refused() {
    let ue = UeIpAddress { v4: Some([10, 45, 9, 9].into()), ..UeIpAddress::default() };
    let both = list([ue, UeIpAddress { destination: true, ..ue }]);
    let ie = Some(OffendingIe::from(IeType::UE_IP_ADDRESS));
    let refused = refusal(|pdi| pdi.ue_ip_addresses = both.into());
    assert_eq!(refused, (Cause::RuleCreationModificationFailure, ie));
    let choose = UeIpAddress { choose_v4: true, ..UeIpAddress::default() };
    let refused = refusal(|pdi| pdi.ue_ip_addresses = list([choose, choose]).into());
    assert_eq!(refused, (Cause::ServiceNotSupported, ie));
}

/// TS 29.244 §8.2.25: UEIP is offered only with pools, PDIU always.
#[test]
fn features_announce_pools_and_traffic_endpoints() {
    let features = |provisioning| {
        let store = StoreConfig { provisioning, ..config().store };
        let mut bench = Bench::with(NodeConfig { store, ..config() });
        let bytes = bench.answer(smf(10), &setup(1, [192, 0, 2, 10].into(), 1));
        let Message::AssociationSetupResponse(body) = decode(&bytes) else { panic!() };
        body.up_function_features.unwrap()
    };
    assert!(features(one_pool()).contains(UpFunctionFeatures::UEIP | UpFunctionFeatures::PDIU));
    assert!(!features(config().store.provisioning).contains(UpFunctionFeatures::UEIP));
    let always = UpFunctionFeatures::FRRT | UpFunctionFeatures::DPDRA | UpFunctionFeatures::MTE;
    assert!(features(config().store.provisioning).contains(always));
}

/// An establishment whose uplink PDR names traffic endpoint 7 with a tunnel of our choice.
fn with_endpoint(edit: impl FnOnce(&mut Pdi<'static>)) -> Vec<u8> {
    establish_with(2, &script(), |body| {
        let mut pdrs: Vec<_> = body.create_pdrs.iter().collect();
        let ues = pdrs[0].pdi.ue_ip_addresses;
        let mut pdi = Pdi::new(SourceInterface::Access);
        pdi.traffic_endpoint_ids = list([TrafficEndpointId(7)]).into();
        edit(&mut pdi);
        pdrs[0].pdi = pdi;
        body.create_pdrs = Vec::leak(pdrs)[..].into();
        let mut endpoint = CreateTrafficEndpoint::new(TrafficEndpointId(7));
        endpoint.local_f_teid = Some(FTeid::Choose { v4: true, v6: false, choose_id: None });
        endpoint.ue_ip_addresses = ues;
        body.create_traffic_endpoints = list([endpoint]).into();
    })
}

/// TS 29.244 §7.5.3.5: the F-TEID of a traffic endpoint is returned with it, not with the PDR.
#[test]
fn traffic_endpoint_is_created_and_answered() {
    let mut bench = associated_with(config().store.provisioning);
    let bytes = bench.answer(smf(10), &with_endpoint(|_| {}));
    let body = established(&bytes);
    assert_eq!(body.cause, Cause::RequestAccepted);
    assert!(body.created_pdrs.is_empty());
    let created = body.created_traffic_endpoints.first().unwrap();
    assert_eq!(created.traffic_endpoint_id, TrafficEndpointId(7));
    let Some(FTeid::Given { teid, .. }) = created.local_f_teids.first() else { panic!() };
    let session = bench.node.store().session(body.up_f_seid.unwrap().seid).unwrap();
    assert_eq!(session.pdrs()[0].pdi.f_teid.unwrap().teid, teid);
}

#[test]
fn traffic_endpoint_unknown_or_beside_an_f_teid_is_refused() {
    let edits: [fn(&mut Pdi<'static>); 2] = [
        |pdi| pdi.traffic_endpoint_ids = list([TrafficEndpointId(8)]).into(),
        |pdi| pdi.local_f_teid = Some(FTeid::Choose { v4: true, v6: false, choose_id: None }),
    ];
    for edit in edits {
        let mut bench = associated_with(config().store.provisioning);
        let bytes = bench.answer(smf(10), &with_endpoint(edit));
        let body = established(&bytes);
        assert_eq!(body.cause, Cause::RuleCreationModificationFailure);
        assert_eq!(body.offending_ie, Some(OffendingIe::from(IeType::TRAFFIC_ENDPOINT_ID)));
        assert_eq!(body.failed_rule_id, Some(FailedRuleId::Pdr(PdrId(1))));
        assert_eq!(bench.node.store().reserved(), Default::default());
    }
}

/// TS 29.244 §8.2.1: Cause 81 names an application that is not known.
#[test]
fn application_unknown_is_cause_81() {
    let request = establish_with(2, &script(), |body| {
        let mut pdrs: Vec<_> = body.create_pdrs.iter().collect();
        pdrs[1].pdi.application_id = Some(ApplicationId(b"app"));
        body.create_pdrs = Vec::leak(pdrs)[..].into();
    });
    let mut bench = associated_with(config().store.provisioning);
    let bytes = bench.answer(smf(10), &request);
    let body = established(&bytes);
    assert_eq!(body.cause, Cause::UnknownApplicationId);
    assert_eq!(body.offending_ie, Some(OffendingIe::from(IeType::APPLICATION_ID)));
    assert_eq!(body.failed_rule_id, Some(FailedRuleId::Pdr(PdrId(2))));
}
