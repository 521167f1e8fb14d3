//! Session establishment, modification and deletion: answers, refusals, retransmissions.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use adit_pfcp::grouped::{
    CreateFar, CreatePdr, CreateQer, CreateUrr, Pdi, RemoveFar, UpdateFar,
    UpdateForwardingParameters, UpdateQer,
};
use adit_pfcp::ie::{
    ActivatePredefinedRules, ApplyAction, FSeid, FTeid, FailedRuleId, FramedRouting, GateState,
    GateStatus, Gbr, Mbr, MeasurementMethod, OffendingIe, OuterHeaderCreation, PdnType,
    PfcpSeReqFlags, PfcpSmReqFlags, QerCorrelationId, ReportingTriggers, SdfFilter, SmfSetId,
    SourceInterface,
};
use adit_pfcp::message::SessionEstablishmentResponse;
use adit_pfcp::{Cause, IeType, Message};
use adit_rules::{Gate, GtpuTunnel, HeaderCreation as CompiledHeader, KeyChange, SessionKey};
use adit_session::Rates;
use adit_types::limits::PENDING_PER_PEER_MAX;
use adit_types::{
    BitRate, Direction, FarId, Nanos, PdrId, Precedence, QerId, Qfi, Seid, Teid, UrrId,
};

use crate::smf::*;

/// Cause, Offending IE and Failed Rule ID of a response.
type ExpectedRefusal = (Cause, Option<IeType>, Option<FailedRuleId>);

fn refusal(bytes: &[u8]) -> ExpectedRefusal {
    let ie = |ie: Option<OffendingIe>| ie.map(|ie| IeType(ie.0));
    match decode(bytes) {
        Message::SessionEstablishmentResponse(b) => (b.cause, ie(b.offending_ie), b.failed_rule_id),
        Message::SessionModificationResponse(b) => (b.cause, ie(b.offending_ie), b.failed_rule_id),
        Message::SessionDeletionResponse(b) => (b.cause, ie(b.offending_ie), None),
        other => panic!("{other:?}"),
    }
}

fn established(bytes: &[u8]) -> SessionEstablishmentResponse<'_> {
    let Message::SessionEstablishmentResponse(body) = decode(bytes) else { panic!() };
    body
}

/// The refusal of an establishment; nothing may be left of it.
fn refused_establishment(request: &[u8]) -> ExpectedRefusal {
    let mut bench = Bench::associated();
    bench.node.handle_datagram(bench.now, smf(10), request);
    assert!(bench.node.poll_delta().is_none());
    let bytes = bench.sent().remove(0).bytes;
    assert_eq!(raw(&bytes).header.seid, Some(Seid(0xc1)), "the CP's SEID");
    assert!(established(&bytes).up_f_seid.is_none());
    assert_eq!(bench.node.store().len(), 0);
    assert_eq!(bench.node.store().reserved(), Default::default());
    refusal(&bytes)
}

fn script() -> SessionScript {
    SessionScript::new(0xc1, 1)
}

#[test]
fn establishment_is_answered_when_published_with_f_seid_and_f_teid() {
    let mut bench = Bench::associated();
    bench.node.handle_datagram(bench.now, smf(10), &establish(2, &script()));
    let (id, delta) = bench.node.poll_delta().unwrap();
    assert!(bench.sent().is_empty(), "no answer before publication");
    let rules = delta.rules.unwrap();
    let uplink = &rules.pdrs(Direction::Uplink)[0];
    let downlink = &rules.pdrs(Direction::Downlink)[0];
    let tunnel = GtpuTunnel { teid: script().gnb_teid, addr: IpAddr::V4(GNB) };
    let far = &rules.fars[usize::from(downlink.far)];
    assert_eq!(far.outer_header_creation, Some(CompiledHeader::Gtpu(tunnel)));
    assert_eq!(rules.qers[usize::from(downlink.qers[0])].qfi, Qfi::new(9));
    bench.node.handle_published(bench.now, id);
    let bytes = bench.sent().remove(0).bytes;
    assert_eq!(raw(&bytes).header.seid, Some(Seid(0xc1)));
    let body = established(&bytes);
    assert_eq!(body.cause, Cause::RequestAccepted);
    let up = body.up_f_seid.unwrap();
    assert_eq!(up.v4, Some(UPF));
    assert_eq!(bench.node.store().session(up.seid).unwrap().cp_f_seid().seid, Seid(0xc1));
    let created: Vec<_> = body.created_pdrs.iter().collect();
    assert_eq!(created.len(), 1);
    assert_eq!(created[0].pdr_id, PdrId(1));
    let Some(FTeid::Given { teid, addr }) = created[0].local_f_teids.first() else { panic!() };
    assert_eq!((Some(teid), addr.v4()), (uplink.teid, Some(N3)));
}

#[test]
fn request_from_another_port_is_answered_to_that_port() {
    let mut bench = Bench::associated();
    let from = SocketAddr::from(([192, 0, 2, 10], 33_333));
    assert_eq!(refusal(&bench.answer(from, &establish(2, &script()))).0, Cause::RequestAccepted);
}

#[test]
fn retransmission_runs_once_and_gets_the_same_octets() {
    let mut bench = Bench::associated();
    let request = establish(2, &script());
    bench.node.handle_datagram(bench.now, smf(10), &request);
    bench.node.handle_datagram(bench.now, smf(10), &request);
    assert!(bench.sent().is_empty());
    assert_eq!(bench.node.pending_len(), 1);
    assert_eq!(bench.node.counters().scalars.retransmissions_in_progress, 1);
    bench.publish_all();
    let first = bench.sent();
    assert_eq!(first.len(), 1);
    let again = bench.ask(smf(10), &request);
    assert_eq!((again.len(), &again[0].bytes), (1, &first[0].bytes));
    assert!(first[0].answers.is_some() && again[0].answers.is_none(), "measured once");
    assert_eq!(bench.node.counters().scalars.retransmissions_replayed, 1);
    assert_eq!(bench.node.store().len(), 1);
    bench.now = Nanos(T1.0 * 4);
    bench.ask(smf(10), &request);
    let scalars = bench.node.counters().scalars;
    assert_eq!(scalars.retransmissions_replayed, 1, "forgotten after T1 * (N1 + 1)");
}

#[test]
fn refusal_is_repeated_for_a_retransmission_too() {
    let mut bench = Bench::associated();
    let request = delete(2, Seid(99));
    let first = bench.answer(smf(10), &request);
    assert_eq!(bench.answer(smf(10), &request), first);
    assert_eq!(bench.node.counters().refused(Cause::SessionContextNotFound), 1);
}

#[test]
fn requests_without_association_get_cause_72_and_leave_no_state() {
    let mut bench = Bench::new();
    let up_seid = Seid(5);
    let far = Teid(1);
    for request in [establish(1, &script()), move_to(2, up_seid, far), delete(3, up_seid)] {
        let bytes = bench.answer(smf(10), &request);
        assert_eq!(refusal(&bytes), (Cause::NoEstablishedAssociation, None, None));
    }
    assert_eq!(bench.node.response_cache_len(), 0);
    assert_eq!(bench.node.poll_timeout(), None);
}

#[test]
fn session_of_another_peer_is_not_found_with_seid_zero() {
    let mut bench = Bench::associated();
    bench.associate(11);
    let up_seid = bench.session(smf(10), 2, &script());
    for request in [move_to(3, up_seid, Teid(7)), delete(4, up_seid), delete(5, Seid(0))] {
        let bytes = bench.answer(smf(11), &request);
        assert_eq!(refusal(&bytes), (Cause::SessionContextNotFound, None, None));
        assert_eq!(raw(&bytes).header.seid, Some(Seid(0)));
    }
    assert_eq!(bench.node.store().len(), 1);
}

#[test]
fn two_peers_may_use_the_same_cp_seid() {
    let mut bench = Bench::associated();
    bench.associate(11);
    let first = bench.session(smf(10), 2, &SessionScript::new(1, 1));
    let second = bench.session(smf(11), 2, &SessionScript::new(1, 2));
    assert_ne!(first, second);
    bench.answer(smf(10), &release(3, Ipv4Addr::new(192, 0, 2, 10)));
    assert!(bench.node.store().session(first).is_none());
    assert!(bench.node.store().session(second).is_some());
}

#[test]
fn modification_publishes_the_change_and_answers_with_the_new_cp_seid() {
    let mut bench = Bench::associated();
    let up_seid = bench.session(smf(10), 2, &script());
    let qer = |state| {
        let mut qer = UpdateQer::new(QerId(1));
        qer.gate_status = Some(GateStatus { uplink: GateState::Open, downlink: state });
        qer.mbr = Some(Mbr::new(BitRate::from_kbps(5), BitRate::from_kbps(6)));
        qer
    };
    let qers = list([qer(GateState::Closed)]);
    let request = modify_with(3, up_seid, |body| {
        body.update_qers = qers.into();
        body.cp_f_seid = Some(FSeid::new(Seid(0xc2), IpAddr::V4(Ipv4Addr::LOCALHOST)));
    });
    bench.node.handle_datagram(bench.now, smf(10), &request);
    let (id, delta) = bench.node.poll_delta().unwrap();
    let rules = delta.rules.unwrap();
    assert_eq!(rules.qers[0].gate_downlink, Gate::Closed);
    assert!(bench.sent().is_empty());
    bench.node.handle_published(bench.now, id);
    let bytes = bench.sent().remove(0).bytes;
    assert_eq!(refusal(&bytes), (Cause::RequestAccepted, None, None));
    assert_eq!(raw(&bytes).header.seid, Some(Seid(0xc2)));
    let session = bench.node.store().session(up_seid).unwrap();
    assert_eq!(session.qers()[0].mbr.unwrap().uplink, BitRate::from_kbps(5));
}

#[test]
fn modification_that_changes_nothing_for_packets_is_answered_at_once() {
    let mut bench = Bench::associated();
    let up_seid = bench.session(smf(10), 2, &script());
    bench.node.handle_datagram(bench.now, smf(10), &modify_with(3, up_seid, |_| {}));
    assert!(bench.node.poll_delta().is_none());
    assert_eq!(refusal(&bench.sent()[0].bytes).0, Cause::RequestAccepted);
}

#[test]
fn deletion_is_answered_when_published_and_frees_everything() {
    let mut bench = Bench::associated();
    let up_seid = bench.session(smf(10), 2, &script());
    bench.node.handle_datagram(bench.now, smf(10), &delete(3, up_seid));
    assert!(bench.sent().is_empty());
    assert_ne!(bench.node.store().reserved(), Default::default());
    bench.publish_all();
    let bytes = bench.sent().remove(0).bytes;
    assert_eq!(refusal(&bytes).0, Cause::RequestAccepted);
    assert_eq!(raw(&bytes).header.seid, Some(Seid(0xc1)));
    assert_eq!(bench.node.store().reserved(), Default::default());
    assert_eq!(
        refusal(&bench.answer(smf(10), &delete(4, up_seid))).0,
        Cause::SessionContextNotFound
    );
}

#[test]
fn release_drops_answers_that_wait() {
    let mut bench = Bench::associated();
    bench.node.handle_datagram(bench.now, smf(10), &establish(2, &script()));
    bench.node.handle_datagram(bench.now, smf(10), &release(3, Ipv4Addr::new(192, 0, 2, 10)));
    bench.publish_all();
    let sent = bench.sent();
    assert_eq!(sent.len(), 1);
    assert_eq!(raw(&sent[0].bytes).header.sequence, 3);
    assert_eq!(bench.node.store().reserved(), Default::default());
}

#[test]
fn requests_that_wait_are_bounded_per_peer() {
    let mut bench = Bench::with(adit_n4::NodeConfig {
        store: adit_session::StoreConfig { sessions_max: 4096, ..config().store },
        ..config()
    });
    bench.associate(10);
    bench.associate(11);
    for number in 0..=u16::try_from(PENDING_PER_PEER_MAX).unwrap() {
        let script = SessionScript::new(u64::from(number) + 1, number + 1);
        let request = establish(u32::from(number) + 2, &script);
        bench.node.handle_datagram(bench.now, smf(10), &request);
    }
    assert_eq!(bench.node.pending_len(), PENDING_PER_PEER_MAX);
    assert_eq!(bench.node.counters().scalars.refused_pending_full, 1);
    let refused = bench.sent().pop().unwrap();
    assert_eq!(refusal(&refused.bytes), (Cause::NoResourcesAvailable, None, None));
    let other = establish(2, &SessionScript::new(1, 9999));
    bench.node.handle_datagram(bench.now, smf(11), &other);
    assert_eq!(bench.node.pending_len(), PENDING_PER_PEER_MAX + 1);
}

#[test]
fn full_session_table_gets_cause_75() {
    let mut bench = Bench::with(adit_n4::NodeConfig {
        store: adit_session::StoreConfig { sessions_max: 1, ..config().store },
        ..config()
    });
    bench.associate(10);
    bench.session(smf(10), 2, &script());
    let bytes = bench.answer(smf(10), &establish(3, &SessionScript::new(2, 2)));
    assert_eq!(refusal(&bytes), (Cause::NoResourcesAvailable, None, None));
}

#[test]
fn establishment_without_mandatory_ie_gets_cause_66_and_seid_zero_without_f_seid() {
    let mut bench = Bench::associated();
    let mut request = delete(2, Seid(0));
    request[1] = 50;
    let bytes = bench.answer(smf(10), &request);
    assert_eq!(refusal(&bytes), (Cause::MandatoryIeMissing, Some(IeType::NODE_ID), None));
    assert_eq!(raw(&bytes).header.seid, Some(Seid(0)));
    let request = establish_with(3, &script(), |body| body.create_fars = (&[]).into());
    let expected = (Cause::MandatoryIeMissing, Some(IeType::CREATE_FAR), None);
    assert_eq!(refused_establishment(&request), expected);
}

#[test]
fn demands_that_cannot_be_met_get_cause_76_and_their_ie() {
    let script = script();
    let unsupported = |ie| (Cause::ServiceNotSupported, Some(ie), None);
    let urrs = list([CreateUrr::new(UrrId(1), MeasurementMethod::VOLUM, ReportingTriggers::VOLTH)]);
    let request = establish_with(2, &script, |body| body.create_urrs = urrs.into());
    let rule = Some(FailedRuleId::Urr(UrrId(1)));
    let expected = (Cause::ConditionalIeMissing, Some(IeType::VOLUME_THRESHOLD), rule);
    assert_eq!(refused_establishment(&request), expected);
    let request = establish_with(2, &script, |body| body.pdn_type = Some(PdnType::Ethernet));
    assert_eq!(refused_establishment(&request), unsupported(IeType::PDN_TYPE));
}

/// Refusal of an establishment with one more PDR, number 3.
fn refused_pdr(edit: impl FnOnce(&mut CreatePdr<'static>)) -> ExpectedRefusal {
    let mut pdr = CreatePdr::new(PdrId(3), Precedence(1), Pdi::new(SourceInterface::Core));
    pdr.far_id = Some(FarId(1));
    edit(&mut pdr);
    let pdrs = list([pdr]);
    refused_establishment(&establish_with(2, &script(), |body| body.create_pdrs = pdrs.into()))
}

#[test]
fn demands_inside_a_rule_name_the_rule() {
    let pdr = Some(FailedRuleId::Pdr(PdrId(3)));
    let refusal = refused_pdr(|pdr| pdr.pdi.framed_routing = Some(FramedRouting(1)));
    assert_eq!(refusal, (Cause::ServiceNotSupported, Some(IeType::FRAMED_ROUTING), pdr));
    let rules = list([ActivatePredefinedRules(b"rule")]);
    let refusal = refused_pdr(|pdr| pdr.activate_predefined_rules = rules.into());
    let ie = Some(IeType::ACTIVATE_PREDEFINED_RULES);
    assert_eq!(refusal, (Cause::UnknownPredefinedRule, ie, pdr));
}

#[test]
fn rules_that_cannot_be_made_get_cause_73_or_67_and_the_failed_rule() {
    let failure = Cause::RuleCreationModificationFailure;
    let pdr = Some(FailedRuleId::Pdr(PdrId(3)));
    let refusal = refused_pdr(|pdr| pdr.far_id = Some(FarId(77)));
    assert_eq!(refusal, (failure, Some(IeType::FAR_ID), pdr));
    let refusal = refused_pdr(|pdr| pdr.far_id = None);
    assert_eq!(refusal, (Cause::ConditionalIeMissing, Some(IeType::FAR_ID), pdr));
    let refusal = refused_pdr(|pdr| pdr.pdi.source_interface = SourceInterface::Unknown(9));
    assert_eq!(refusal, (failure, Some(IeType::SOURCE_INTERFACE), pdr));
    let filters = list([SdfFilter { flow_description: Some(b"\xff"), ..SdfFilter::default() }]);
    let mut pdr_3 = CreatePdr::new(PdrId(3), Precedence(1), Pdi::new(SourceInterface::Core));
    pdr_3.pdi.sdf_filters = filters.into();
    let pdrs = list([pdr_3]);
    let request = establish_with(2, &script(), |body| body.create_pdrs = pdrs.into());
    assert_eq!(refused_establishment(&request), (failure, Some(IeType::SDF_FILTER), pdr));
    let fars = list([CreateFar::new(FarId(1), ApplyAction::FORW | ApplyAction::NOCP)]);
    let request = establish_with(2, &script(), |body| body.create_fars = fars.into());
    let far = Some(FailedRuleId::Far(FarId(1)));
    assert_eq!(refused_establishment(&request), (failure, Some(IeType::APPLY_ACTION), far));
}

#[test]
fn zero_cp_seid_is_refused() {
    let request = establish_with(2, &script(), |body| body.cp_f_seid.seid = Seid(0));
    let mut bench = Bench::associated();
    let expected = (Cause::MandatoryIeIncorrect, Some(IeType::F_SEID), None);
    assert_eq!(refusal(&bench.answer(smf(10), &request)), expected);
}

#[test]
fn failed_modification_leaves_the_session_as_it_was() {
    let mut bench = Bench::associated();
    let up_seid = bench.session(smf(10), 2, &script());
    let before = bench.node.store().clone();
    let removed = list([RemoveFar::new(FarId(2))]);
    let qers = list([CreateQer::new(QerId(2), GateStatus::OPEN)]);
    let request = modify_with(3, up_seid, |body| {
        body.create_qers = qers.into();
        body.remove_fars = removed.into();
    });
    let bytes = bench.answer(smf(10), &request);
    let pdr = Some(FailedRuleId::Pdr(PdrId(2)));
    let expected = (Cause::RuleCreationModificationFailure, Some(IeType::FAR_ID), pdr);
    assert_eq!(refusal(&bytes), expected);
    assert_eq!(raw(&bytes).header.seid, Some(Seid(0xc1)));
    assert!(*bench.node.store() == before);
}

/// TS 29.244 §8.2.9; TS 23.501 §5.7.2.5: a rate that cannot be guaranteed is refused, whole.
#[test]
fn guaranteed_bit_rates_beyond_the_capacity_are_cause_75() {
    let mut config = config();
    let mbps = |n: u64| BitRate::from_kbps(n * 1000);
    config.store.provisioning.qos.gbr_max = Rates { uplink: mbps(10), downlink: mbps(10) };
    let mut bench = Bench::with(config);
    bench.associate(10);
    let up_seid = bench.session(smf(10), 2, &script());
    let with = |sequence: u8, uplink: u64| {
        let gbr = Some(Gbr::new(mbps(uplink), mbps(1)));
        let qer = CreateQer { gbr, ..CreateQer::new(QerId(u32::from(sequence)), GateStatus::OPEN) };
        let qers = list([qer]);
        modify_with(u32::from(sequence), up_seid, |body| body.create_qers = qers.into())
    };
    let accepted = (Cause::RequestAccepted, None, None);
    assert_eq!(refusal(&bench.answer(smf(10), &with(3, 8))), accepted);
    let before = bench.node.store().clone();
    let expected = (Cause::NoResourcesAvailable, Some(IeType::GBR), None);
    assert_eq!(refusal(&bench.answer(smf(10), &with(4, 3))), expected);
    assert!(*bench.node.store() == before);
    assert_eq!(refusal(&bench.answer(smf(10), &with(5, 2))), accepted);
    assert_eq!(bench.node.store().guaranteed().0.uplink, mbps(10));
}

/// TS 29.244 §8.2.10: sessions of one CP function share a rate by its identifier; more of them than
/// there is room for are refused, whole.
#[test]
fn qer_correlation_ids_are_shared_by_sessions_and_bounded() {
    let mut config = config();
    config.store.sessions_max = 2;
    let mut bench = Bench::with(config);
    bench.associate(10);
    let sessions = [1, 2].map(|number: u8| {
        let script = SessionScript::new(0xc0 + u64::from(number), number.into());
        bench.session(smf(10), u32::from(number) + 1, &script)
    });
    let with = |sequence: u8, up_seid, correlation: u32| {
        let mbr = Some(Mbr::new(BitRate::from_kbps(100_000), BitRate::from_kbps(100_000)));
        let qer_correlation_id = Some(QerCorrelationId(correlation));
        let id = QerId(u32::from(sequence));
        let qer = CreateQer { mbr, qer_correlation_id, ..CreateQer::new(id, GateStatus::OPEN) };
        let qers = list([qer]);
        modify_with(u32::from(sequence), up_seid, |body| body.create_qers = qers.into())
    };
    let accepted = (Cause::RequestAccepted, None, None);
    let shared = |bench: &Bench| bench.node.store().reserved().correlated_rates;
    for (sequence, session, correlation, expected) in [(4, 0, 7, 1), (5, 1, 7, 1), (6, 1, 8, 2)] {
        let request = with(sequence, sessions[session], correlation);
        assert_eq!(refusal(&bench.answer(smf(10), &request)), accepted);
        assert_eq!(shared(&bench), expected);
    }
    let before = bench.node.store().clone();
    let expected = (Cause::NoResourcesAvailable, Some(IeType::QER_CORRELATION_ID), None);
    assert_eq!(refusal(&bench.answer(smf(10), &with(7, sessions[0], 9))), expected);
    assert!(*bench.node.store() == before);
    assert_eq!(refusal(&bench.answer(smf(10), &with(8, sessions[0], 8))), accepted);
}

#[test]
fn end_markers_of_a_whole_session_and_other_outer_headers_are_refused_with_their_far() {
    let mut bench = Bench::associated();
    let up_seid = bench.session(smf(10), 2, &script());
    let request = modify_with(3, up_seid, |body| {
        body.pfcp_sm_req_flags = Some(PfcpSmReqFlags::SNDEM);
    });
    let expected = (Cause::ServiceNotSupported, Some(IeType::PFCPSMREQ_FLAGS), None);
    assert_eq!(refusal(&bench.answer(smf(10), &request)), expected);
    let mut parameters = UpdateForwardingParameters::new();
    parameters.outer_header_creation = Some(adit_pfcp::ie::Nullable::Value(OuterHeaderCreation {
        description: adit_pfcp::ie::OuterHeaderDescription::UDP_IPV4,
        v4: Some(GNB),
        port: Some(1),
        ..OuterHeaderCreation::default()
    }));
    let mut far = UpdateFar::new(FarId(2));
    far.update_forwarding_parameters = Some(parameters);
    let fars = list([far]);
    let request = modify_with(4, up_seid, |body| body.update_fars = fars.into());
    let far = Some(FailedRuleId::Far(FarId(2)));
    let expected =
        (Cause::RuleCreationModificationFailure, Some(IeType::OUTER_HEADER_CREATION), far);
    assert_eq!(refusal(&bench.answer(smf(10), &request)), expected);
}

#[test]
fn unknown_ies_are_ignored() {
    let mut bench = Bench::associated();
    let mut request = establish(2, &script());
    request.extend([0x7f, 0x00, 0, 2, 1, 2]);
    let len = u16::try_from(request.len() - 4).unwrap();
    request[2..4].copy_from_slice(&len.to_be_bytes());
    assert_eq!(refusal(&bench.answer(smf(10), &request)).0, Cause::RequestAccepted);
}

#[test]
fn groups_nested_without_end_are_survived() {
    let mut bench = Bench::associated();
    let mut request = delete(2, Seid(0));
    request[1] = 50;
    let mut rest = 60_000_u16;
    while rest >= 8 {
        rest -= 4;
        request.extend([0, 1]);
        request.extend(rest.to_be_bytes());
    }
    request.extend(vec![0; usize::from(rest)]);
    let len = u16::try_from(request.len() - 4).unwrap();
    request[2..4].copy_from_slice(&len.to_be_bytes());
    let bytes = bench.answer(smf(10), &request);
    assert!(!refusal(&bytes).0.is_accepted());
}

/// The CP function has lost a session, or restores it: it sets it up anew for the same UE address.
#[test]
fn session_set_up_anew_for_a_ue_replaces_the_former_one_and_packets_always_find_one_of_both() {
    let mut bench = Bench::associated();
    let former = bench.session(smf(10), 2, &SessionScript::new(1, 1));
    let other = bench.session(smf(10), 3, &SessionScript::new(3, 3));
    let index = bench.node.store().session(former).unwrap().index();
    bench.node.handle_datagram(bench.now, smf(10), &establish(4, &SessionScript::new(2, 1)));
    let (first, new) = bench.node.poll_delta().unwrap();
    let (second, end) = bench.node.poll_delta().unwrap();
    assert!(new.rules.is_some() && new.session != index);
    assert!(end.rules.is_none() && end.session == index);
    let ue = |change: &&KeyChange| matches!(change, KeyChange::Add(SessionKey::UeIpv4(..)));
    assert_eq!(new.keys.iter().filter(ue).count(), 1);
    assert!(bench.sent().is_empty(), "no answer before publication");
    bench.node.handle_published(bench.now, first);
    let answer = bench.sent().remove(0).bytes;
    assert_eq!(refusal(&answer).0, Cause::RequestAccepted);
    bench.node.handle_published(bench.now, second);
    let now = established(&answer).up_f_seid.unwrap().seid;
    let gone = bench.answer(smf(10), &move_to(5, former, Teid(9)));
    assert_eq!(refusal(&gone).0, Cause::SessionContextNotFound);
    assert_eq!(bench.node.counters().scalars.sessions_replaced, 1);
    assert_eq!(bench.node.store().len(), 2);
    for (sequence, up_seid) in [(6, now), (7, other)] {
        let deleted = bench.answer(smf(10), &delete(sequence, up_seid));
        assert_eq!(refusal(&deleted).0, Cause::RequestAccepted);
    }
    assert_eq!(bench.node.store().reserved(), Default::default());
}

/// The F-TEID of the uplink PDR that an answer has.
fn chosen_teid(answer: &[u8]) -> Teid {
    let created = established(answer).created_pdrs.iter().next().unwrap();
    let Some(FTeid::Given { teid, .. }) = created.local_f_teids.first() else { panic!() };
    teid
}

/// An establishment with this F-TEID, of a session that is restored or not.
fn with_teid(sequence: u32, script: &SessionScript, teid: Teid, is_restored: bool) -> Vec<u8> {
    establish_with(sequence, script, |body| {
        let mut pdrs: Vec<_> = body.create_pdrs.iter().collect();
        let addr = adit_pfcp::ie::FTeidAddress::V4(N3);
        pdrs[0].pdi.local_f_teid = Some(FTeid::Given { teid, addr });
        body.create_pdrs = Vec::leak(pdrs)[..].into();
        body.pfcp_se_req_flags = is_restored.then_some(PfcpSeReqFlags::RESTI);
    })
}

/// The TEID was chosen here; it goes from session to session without being free in between.
#[test]
fn session_set_up_anew_with_the_teid_of_a_former_one_replaces_it_and_has_the_teid_alone() {
    for (is_restored, ue) in [(false, 1), (true, 1), (true, 2)] {
        let mut bench = Bench::associated();
        let answer = bench.answer(smf(10), &establish(2, &SessionScript::new(1, 1)));
        let teid = chosen_teid(&answer);
        for sequence in [3, 4] {
            let script = SessionScript::new(sequence.into(), ue);
            let answer = bench.answer(smf(10), &with_teid(sequence, &script, teid, is_restored));
            assert_eq!(refusal(&answer).0, Cause::RequestAccepted);
            assert_eq!(bench.node.store().len(), 1);
        }
        // Other sessions get other TEIDs.
        let others: Vec<Teid> = (10..20)
            .map(|n| {
                let script = SessionScript::new(u64::from(n), n);
                chosen_teid(&bench.answer(smf(10), &establish(n.into(), &script)))
            })
            .collect();
        assert!(!others.contains(&teid));
        let all: Vec<Seid> = bench.node.store().sessions().map(|known| known.up_seid()).collect();
        for (sequence, up_seid) in (100..).zip(all) {
            bench.answer(smf(10), &delete(sequence, up_seid));
        }
        assert_eq!(bench.node.store().reserved(), Default::default());
    }
}

/// One session with the UE address of one previous session and the TEID of another one.
#[test]
fn session_set_up_anew_replaces_all_that_it_excludes_or_none() {
    let mut bench = Bench::associated();
    bench.associate(11);
    let one = bench.answer(smf(10), &establish(2, &SessionScript::new(1, 1)));
    bench.session(smf(10), 3, &SessionScript::new(2, 2));
    bench.session(smf(11), 4, &SessionScript::new(3, 3));
    let teid = chosen_teid(&one);
    // The UE address of another control plane's session.
    let taken = (
        Cause::RuleCreationModificationFailure,
        Some(IeType::UE_IP_ADDRESS),
        Some(FailedRuleId::Pdr(PdrId(1))),
    );
    let request = with_teid(5, &SessionScript::new(5, 3), teid, false);
    assert_eq!(refusal(&bench.answer(smf(10), &request)), taken);
    // A FAR that does not exist.
    let request = establish_with(6, &SessionScript::new(6, 1), |body| {
        let mut pdrs: Vec<_> = body.create_pdrs.iter().collect();
        pdrs[1].far_id = Some(FarId(77));
        body.create_pdrs = Vec::leak(pdrs)[..].into();
    });
    assert_eq!(refusal(&bench.answer(smf(10), &request)).1, Some(IeType::FAR_ID));
    assert_eq!(bench.node.store().len(), 3);
    assert_eq!(bench.node.counters().scalars.sessions_replaced, 0);
    let request = with_teid(7, &SessionScript::new(7, 2), teid, false);
    assert_eq!(refusal(&bench.answer(smf(10), &request)).0, Cause::RequestAccepted);
    assert_eq!((bench.node.store().len(), bench.node.counters().scalars.sessions_replaced), (2, 2));
}

#[test]
fn session_of_another_control_plane_is_replaced_within_its_smf_set_only() {
    let set_up = |bench: &mut Bench, host: u8, set: &'static [u8]| {
        let node_id = adit_pfcp::ie::NodeId::Ipv4(Ipv4Addr::new(192, 0, 2, host));
        let time_stamp = adit_pfcp::ie::RecoveryTimeStamp(SMF_STARTED);
        let mut body = adit_pfcp::message::AssociationSetupRequest::new(node_id, time_stamp);
        body.smf_set_id = Some(SmfSetId(set));
        bench.answer(smf(host), &encode(None, 1, &body));
    };
    let mut bench = Bench::new();
    set_up(&mut bench, 10, b"\0\x04set1\x03smf");
    set_up(&mut bench, 11, b"\0\x04set1\x03smf");
    set_up(&mut bench, 12, b"\0\x04set2\x03smf");
    bench.session(smf(10), 2, &SessionScript::new(1, 1));
    let other = bench.answer(smf(12), &establish(3, &SessionScript::new(2, 1)));
    assert_eq!(refusal(&other).1, Some(IeType::UE_IP_ADDRESS));
    let member = bench.answer(smf(11), &establish(4, &SessionScript::new(3, 1)));
    assert_eq!(refusal(&member).0, Cause::RequestAccepted);
    assert_eq!((bench.node.store().len(), bench.node.counters().scalars.sessions_replaced), (1, 1));
}
