//! Duplicating parameters, forwarding policies and redirection as control planes request them.

use std::net::Ipv4Addr;

use adit_pfcp::grouped::{
    CreateFar, DuplicatingParameters, ForwardingParameters, UpdateDuplicatingParameters, UpdateFar,
};
use adit_pfcp::ie::{
    ApplyAction, DestinationInterface, FailedRuleId, ForwardingPolicy, Nullable,
    OuterHeaderCreation, RedirectAddressType, RedirectInformation, TransportLevelMarking,
    UpFunctionFeatures,
};
use adit_pfcp::message::SessionEstablishmentRequest;
use adit_pfcp::{Cause, IeType, Message};
use adit_rules::{Redirect, SessionRules, Steering};
use adit_types::{FarId, Teid};

use crate::smf::*;

fn config_with_policy() -> adit_n4::NodeConfig {
    let policy = adit_session::ProvisionedForwardingPolicy {
        id: "cache".into(),
        network_instance: None,
        steering: Steering { v4: Some(Ipv4Addr::new(10, 6, 0, 9)), v6: None },
        dscp: None,
        local_switching: None,
    };
    let mut config = config();
    config.store.provisioning.policies = vec![policy];
    config
}

/// An establishment whose uplink FAR is `edit`ed.
fn request(edit: impl FnOnce(&mut CreateFar<'static>)) -> Vec<u8> {
    establish_with(2, &SessionScript::new(0xc1, 1), |body: &mut SessionEstablishmentRequest<'_>| {
        let mut far_up = CreateFar::new(FarId(1), ApplyAction::FORW);
        far_up.forwarding_parameters = Some(ForwardingParameters::new(DestinationInterface::Core));
        edit(&mut far_up);
        let mut far_down = CreateFar::new(FarId(2), ApplyAction::FORW);
        let mut towards_gnb = ForwardingParameters::new(DestinationInterface::Access);
        towards_gnb.outer_header_creation = Some(OuterHeaderCreation::gtpu_ipv4(Teid(7), GNB));
        far_down.forwarding_parameters = Some(towards_gnb);
        body.create_fars = list([far_up, far_down]).into();
    })
}

fn bench() -> Bench {
    let mut bench = Bench::with(config_with_policy());
    bench.associate(10);
    bench
}

fn rules(request: &[u8]) -> Box<SessionRules> {
    let mut bench = bench();
    bench.node.handle_datagram(bench.now, smf(10), request);
    let (_, delta) = bench.node.poll_delta().expect("refused");
    delta.rules.unwrap()
}

#[track_caller]
fn assert_refused(request: &[u8], cause: Cause, ie: IeType) {
    let mut bench = bench();
    let bytes = bench.answer(smf(10), request);
    assert_eq!(bench.node.store().len(), 0);
    let Message::SessionEstablishmentResponse(body) = decode(&bytes) else { panic!() };
    assert_eq!((body.cause, body.offending_ie.map(|ie| IeType(ie.0))), (cause, Some(ie)));
    assert_eq!(body.failed_rule_id, Some(FailedRuleId::Far(FarId(1))));
}

fn copy_to(teid: u32) -> DuplicatingParameters<'static> {
    let mut copy = DuplicatingParameters::new(DestinationInterface::LiFunction);
    copy.outer_header_creation = Some(OuterHeaderCreation::gtpu_ipv4(Teid(teid), GNB));
    copy
}

#[test]
fn duplicating_parameters_are_compiled_with_all_their_parts() {
    let rules = rules(&request(|far| {
        far.apply_action = ApplyAction::FORW | ApplyAction::DUPL;
        let mut plain = DuplicatingParameters::new(DestinationInterface::SgiLanN6Lan);
        plain.forwarding_policy = Some(ForwardingPolicy(b"cache"));
        let mut marked = copy_to(0x70);
        marked.transport_level_marking = Some(TransportLevelMarking(0xb8fc));
        far.duplicating_parameters = list([marked, plain]).into();
    }));
    assert_eq!(rules.fars[0].duplicates[..], [2, 3]);
    let tunnel = rules.fars[2].outer_header_creation.unwrap().tunnel().unwrap();
    assert_eq!(tunnel.teid, Teid(0x70));
    assert_eq!(rules.fars[2].outer_tos.around(0), 0xb8);
    assert!(rules.fars[3].steering.is_some());
}

#[test]
fn duplicating_parameters_that_lack_something_are_refused_by_name() {
    let flag = |far: &mut CreateFar<'_>| far.apply_action |= ApplyAction::DUPL;
    let missing = request(flag);
    assert_refused(&missing, Cause::ConditionalIeMissing, IeType::DUPLICATING_PARAMETERS);
    let many = request(|far| {
        flag(far);
        far.duplicating_parameters = list([copy_to(1); 5]).into();
    });
    assert_refused(&many, Cause::NoResourcesAvailable, IeType::DUPLICATING_PARAMETERS);
    let bare = request(|far| {
        flag(far);
        let copy = DuplicatingParameters::new(DestinationInterface::LiFunction);
        far.duplicating_parameters = list([copy]).into();
    });
    assert_refused(&bare, Cause::ConditionalIeMissing, IeType::OUTER_HEADER_CREATION);
}

#[test]
fn update_duplicating_parameters_changes_the_tunnel_of_a_copy() {
    let mut bench = bench();
    let establishment = request(|far| {
        far.apply_action |= ApplyAction::DUPL;
        far.duplicating_parameters = list([copy_to(0x70)]).into();
    });
    let bytes = bench.answer(smf(10), &establishment);
    let Message::SessionEstablishmentResponse(body) = decode(&bytes) else { panic!() };
    let up_seid = body.up_f_seid.unwrap().seid;
    let mut update = UpdateDuplicatingParameters::new();
    let header = OuterHeaderCreation::gtpu_ipv4(Teid(0x80), GNB);
    update.outer_header_creation = Some(Nullable::Value(header));
    let mut far = UpdateFar::new(FarId(1));
    far.update_duplicating_parameters = list([update]).into();
    let modification = modify_with(3, up_seid, |body| body.update_fars = list([far]).into());
    bench.node.handle_datagram(bench.now, smf(10), &modification);
    let (_, delta) = bench.node.poll_delta().expect("refused");
    let tunnel = delta.rules.unwrap().fars[2].outer_header_creation.unwrap().tunnel().unwrap();
    assert_eq!(tunnel.teid, Teid(0x80));
}

fn policy(id: &'static [u8]) -> Vec<u8> {
    request(|far| {
        let parameters = far.forwarding_parameters.as_mut().unwrap();
        parameters.forwarding_policy = Some(ForwardingPolicy(id));
    })
}

#[test]
fn forwarding_policy_is_looked_up_and_refused_with_its_own_cause() {
    assert!(rules(&policy(b"cache")).fars[0].steering.is_some());
    assert_refused(&policy(b"x"), Cause::InvalidForwardingPolicy, IeType::FORWARDING_POLICY);
}

#[test]
fn traffic_steering_is_announced_where_there_are_policies() {
    for (config, announced) in [(config_with_policy(), true), (config(), false)] {
        let mut bench = Bench::with(config);
        let bytes = bench.answer(smf(10), &setup(1, Ipv4Addr::new(192, 0, 2, 10), SMF_STARTED));
        let Message::AssociationSetupResponse(body) = decode(&bytes) else { panic!() };
        let features = body.up_function_features.unwrap();
        assert_eq!(features.contains(UpFunctionFeatures::TRST), announced);
    }
}

fn redirect(address_type: RedirectAddressType, address: &'static [u8]) -> Vec<u8> {
    request(|far| {
        let parameters = far.forwarding_parameters.as_mut().unwrap();
        parameters.redirect_information =
            Some(RedirectInformation { address_type, address, other_address: b"", port: None });
    })
}

#[test]
fn redirect_information_is_read_by_its_type() {
    use RedirectAddressType as T;
    let read = |address_type, text| {
        rules(&redirect(address_type, text)).fars[0].redirect.as_deref().cloned().unwrap()
    };
    let (v4, v6) = (Ipv4Addr::new(203, 0, 113, 1), "2001:db8::9".parse().unwrap());
    let expected = Redirect::Address { v4: Some(v4), v6: None, port: None };
    assert_eq!(read(T::Ipv4, b"203.0.113.1"), expected);
    let expected = Redirect::Address { v4: None, v6: Some(v6), port: None };
    assert_eq!(read(T::Ipv6, b"2001:db8::9"), expected);
    assert_eq!(read(T::Url, b"http://portal/"), Redirect::Url("http://portal/".into()));
}

#[test]
fn redirect_information_that_leads_nowhere_is_refused() {
    use RedirectAddressType as T;
    let ie = IeType::REDIRECT_INFORMATION;
    assert_refused(&redirect(T::SipUri, b"sip:a@b"), Cause::ServiceNotSupported, ie);
    for (address_type, text) in [
        (T::Ipv4, &b"portal"[..]),
        (T::Ipv4, b""),
        (T::Ipv4, b"2001:db8::9"),
        (T::Ipv6, b"203.0.113.1"),
        (T::Ipv4AndIpv6, b"203.0.113.1"),
        (T::Url, b"http://a/\r\nX:"),
        (T::Url, b"\xff"),
        (T::Unknown(9), b"x"),
    ] {
        let request = redirect(address_type, text);
        assert_refused(&request, Cause::RuleCreationModificationFailure, ie);
    }
}
