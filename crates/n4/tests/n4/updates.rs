//! Changes of rules by modifications, and the reasons of refusals; requests that a fault costs.

use std::net::Ipv4Addr;

use adit_n4::FaultPoint;
use adit_pfcp::grouped::{
    CreateTrafficEndpoint, CreateUrr, Pdi, RemoveBar, RemoveFar, RemovePdr, RemoveQer, RemoveUrr,
    SessionChangeInfo, UpdatePdr, UpdateQer, UpdateTrafficEndpoint, UpdateUrr,
};
use adit_pfcp::ie::{
    self, FTeid, FailedRuleId, GateState, GateStatus, MeasurementMethod, MeasurementPeriod,
    MonitoringTime, OuterHeaderRemovalDescription, QuotaHoldingTime, QuotaValidityTime,
    ReportingTriggers, SourceInterface, SubsequentTimeQuota, SubsequentTimeThreshold,
    SubsequentVolumeQuota, SubsequentVolumeThreshold, TimeQuota, TimeThreshold, TrafficEndpointId,
    UeIpAddress, VolumeQuota, VolumeThreshold,
};
use adit_pfcp::message::{
    AssociationUpdateRequest, AssociationUpdateResponse, SessionModificationRequest,
    SessionSetDeletionRequest, SessionSetModificationRequest,
};
use adit_pfcp::{Cause, IeType, Message};
use adit_rules::Gate;
use adit_types::{BarId, FarId, Nanos, PdrId, Precedence, QerId, Seid, UrrId};

use crate::smf::*;

type Outcome = (Cause, Option<IeType>, Option<FailedRuleId>);

const ACCEPTED: Outcome = (Cause::RequestAccepted, None, None);

fn script() -> SessionScript {
    SessionScript::new(0xc1, 1)
}

fn bench() -> (Bench, Seid) {
    let mut bench = Bench::associated();
    let up_seid = bench.session(smf(10), 2, &script());
    (bench, up_seid)
}

fn modify(
    bench: &mut Bench,
    up_seid: Seid,
    sequence: u32,
    edit: impl FnOnce(&mut SessionModificationRequest<'static>),
) -> Outcome {
    let bytes = bench.answer(smf(10), &modify_with(sequence, up_seid, edit));
    let Message::SessionModificationResponse(body) = decode(&bytes) else { panic!() };
    (body.cause, body.offending_ie.map(|ie| IeType(ie.0)), body.failed_rule_id)
}

/// Spec: TS 29.244 §7.5.4.2.
#[test]
fn pdr_update_changes_what_it_names_and_keeps_the_rest() {
    let (mut bench, up_seid) = bench();
    let mut update = UpdatePdr::new(PdrId(2));
    update.precedence = Some(Precedence(7));
    update.qer_ids = list([QerId(1)]).into();
    let ue = UeIpAddress { v4: Some(script().ue), destination: true, ..<_>::default() };
    let mut pdi = Pdi::new(SourceInterface::SgiLanN6Lan);
    pdi.ue_ip_addresses = list([ue]).into();
    update.pdi = Some(pdi);
    let outcome = modify(&mut bench, up_seid, 3, |body| body.update_pdrs = list([update]).into());
    assert_eq!(outcome, ACCEPTED);
    let session = bench.node.store().session(up_seid).unwrap();
    let pdr = session.pdrs().into_iter().find(|pdr| pdr.id == PdrId(2)).unwrap();
    assert_eq!((pdr.precedence, pdr.far), (Precedence(7), Some(FarId(2))));
    assert_eq!(pdr.pdi.source, adit_rules::SourceInterface::SgiLanN6Lan);
    let other = session.pdrs().into_iter().find(|pdr| pdr.id == PdrId(1)).unwrap();
    assert_eq!(other.precedence, Precedence(100));
}

#[test]
fn pdr_update_that_cannot_be_names_its_rule_and_changes_nothing() {
    let (mut bench, up_seid) = bench();
    let before = bench.node.store().clone();
    let failed = Some(FailedRuleId::Pdr(PdrId(2)));
    let refused = Cause::RuleCreationModificationFailure;
    let mut unknown_far = UpdatePdr::new(PdrId(2));
    unknown_far.far_id = Some(FarId(77));
    let mut vlan = UpdatePdr::new(PdrId(2));
    vlan.outer_header_removal = Some(OuterHeaderRemovalDescription::VlanTag.into());
    let mut vn = UpdatePdr::new(PdrId(2));
    vn.pdi = Some(Pdi::new(SourceInterface::FivegVnInternal));
    for (sequence, (update, ie)) in (3..).zip([
        (unknown_far, IeType::FAR_ID),
        (vlan, IeType::OUTER_HEADER_REMOVAL),
        (vn, IeType::SOURCE_INTERFACE),
    ]) {
        let outcome =
            modify(&mut bench, up_seid, sequence, |body| body.update_pdrs = list([update]).into());
        assert_eq!(outcome, (refused, Some(ie), failed));
    }
    assert_eq!(*bench.node.store(), before);
}

#[test]
fn rules_that_do_not_exist_are_named_by_kind() {
    let (mut bench, up_seid) = bench();
    let before = bench.node.store().clone();
    type Edit = fn(&mut SessionModificationRequest<'static>);
    let cases: [(Edit, IeType, FailedRuleId); 6] = [
        (
            |body| body.remove_pdrs = list([RemovePdr::new(PdrId(9))]).into(),
            IeType::PDR_ID,
            FailedRuleId::Pdr(PdrId(9)),
        ),
        (
            |body| body.remove_fars = list([RemoveFar::new(FarId(9))]).into(),
            IeType::FAR_ID,
            FailedRuleId::Far(FarId(9)),
        ),
        (
            |body| body.remove_qers = list([RemoveQer::new(QerId(9))]).into(),
            IeType::QER_ID,
            FailedRuleId::Qer(QerId(9)),
        ),
        (
            |body| body.remove_urrs = list([RemoveUrr::new(UrrId(9))]).into(),
            IeType::URR_ID,
            FailedRuleId::Urr(UrrId(9)),
        ),
        (
            |body| body.remove_bars = list([RemoveBar::new(BarId(9))]).into(),
            IeType::BAR_ID,
            FailedRuleId::Bar(BarId(9)),
        ),
        (
            |body| body.update_qers = list([UpdateQer::new(QerId(9))]).into(),
            IeType::QER_ID,
            FailedRuleId::Qer(QerId(9)),
        ),
    ];
    for (sequence, (edit, ie, rule)) in (3..).zip(cases) {
        let outcome = modify(&mut bench, up_seid, sequence, edit);
        assert_eq!(outcome, (Cause::RuleCreationModificationFailure, Some(ie), Some(rule)));
    }
    assert_eq!(*bench.node.store(), before);
}

#[test]
fn qer_update_closes_gates() {
    let (mut bench, up_seid) = bench();
    let mut update = UpdateQer::new(QerId(1));
    update.gate_status = Some(GateStatus { uplink: GateState::Closed, downlink: GateState::Open });
    let outcome = modify(&mut bench, up_seid, 3, |body| body.update_qers = list([update]).into());
    assert_eq!(outcome, ACCEPTED);
    let session = bench.node.store().session(up_seid).unwrap();
    let gates = session.qers()[0].gates;
    assert_eq!((gates.uplink, gates.downlink), (Gate::Closed, Gate::Open));
}

/// Spec: TS 29.244 §7.5.4.4.
#[test]
fn urr_update_changes_every_limit_that_it_names() {
    let (mut bench, up_seid) = bench();
    let method = MeasurementMethod::VOLUM | MeasurementMethod::DURAT;
    let urr = CreateUrr::new(UrrId(1), method, ReportingTriggers::default());
    let outcome = modify(&mut bench, up_seid, 3, |body| body.create_urrs = list([urr]).into());
    assert_eq!(outcome, ACCEPTED);
    let mut update = UpdateUrr::new(UrrId(1));
    update.reporting_triggers = Some(ReportingTriggers::VOLTH | ReportingTriggers::PERIO);
    update.measurement_period = Some(MeasurementPeriod(60));
    update.volume_threshold = Some(VolumeThreshold { total: Some(1000), ..<_>::default() });
    update.volume_quota = Some(VolumeQuota { total: Some(2000), ..<_>::default() });
    update.time_threshold = Some(TimeThreshold(10));
    update.time_quota = Some(TimeQuota(20));
    update.quota_holding_time = Some(QuotaHoldingTime(30));
    update.quota_validity_time = Some(QuotaValidityTime(40));
    update.monitoring_time = Some(MonitoringTime(UPF_STARTED + 50));
    update.subsequent_volume_threshold =
        Some(SubsequentVolumeThreshold { total: Some(3000), ..<_>::default() });
    update.subsequent_volume_quota =
        Some(SubsequentVolumeQuota { total: Some(4000), ..<_>::default() });
    update.subsequent_time_threshold = Some(SubsequentTimeThreshold(60));
    update.subsequent_time_quota = Some(SubsequentTimeQuota(70));
    let outcome = modify(&mut bench, up_seid, 4, |body| body.update_urrs = list([update]).into());
    assert_eq!(outcome, ACCEPTED);
    let session = bench.node.store().session(up_seid).unwrap();
    let settings = &session.urrs()[0].settings;
    assert_eq!(settings.period, Some(Nanos::from_secs(60)));
    assert_eq!(settings.volume_threshold.unwrap().total, Some(1000));
    assert_eq!(settings.volume_quota.unwrap().total, Some(2000));
    assert_eq!(settings.time_threshold, Some(Nanos::from_secs(10)));
    assert_eq!(settings.quota_validity_time, Some(Nanos::from_secs(40)));
    let [monitoring] = settings.monitoring.as_slice() else { panic!("one monitoring time") };
    assert_eq!(monitoring.at, Nanos::from_secs(50));
    assert_eq!(monitoring.volume_threshold.unwrap().total, Some(3000));
    assert_eq!(monitoring.time_quota, Some(Nanos::from_secs(70)));
}

/// Spec: TS 29.244 §7.5.4.13.
#[test]
fn traffic_endpoint_update_moves_all_pdrs_that_name_it() {
    let mut bench = Bench::associated();
    let request = establish_with(2, &script(), |body| {
        let mut endpoint = CreateTrafficEndpoint::new(TrafficEndpointId(1));
        endpoint.local_f_teid = Some(FTeid::Choose { v4: true, v6: false, choose_id: None });
        let ue = UeIpAddress { v4: Some(script().ue), ..<_>::default() };
        endpoint.ue_ip_addresses = list([ue]).into();
        body.create_traffic_endpoints = list([endpoint]).into();
        let mut pdrs: Vec<_> = body.create_pdrs.iter().collect();
        let mut pdi = Pdi::new(SourceInterface::Access);
        pdi.traffic_endpoint_ids = list([TrafficEndpointId(1)]).into();
        pdrs[0].pdi = pdi;
        body.create_pdrs = Vec::leak(pdrs)[..].into();
    });
    let bytes = bench.answer(smf(10), &request);
    let Message::SessionEstablishmentResponse(body) = decode(&bytes) else { panic!() };
    assert_eq!(body.cause, Cause::RequestAccepted);
    let up_seid = body.up_f_seid.unwrap().seid;
    let mut update = UpdateTrafficEndpoint::new(TrafficEndpointId(1));
    update.local_f_teid = Some(FTeid::Choose { v4: true, v6: false, choose_id: None });
    let ue = UeIpAddress { v4: Some(script().ue), ..<_>::default() };
    update.ue_ip_addresses = list([ue]).into();
    let outcome = modify(&mut bench, up_seid, 3, |body| {
        body.update_traffic_endpoints = list([update]).into()
    });
    assert_eq!(outcome, ACCEPTED);
    let unknown = UpdateTrafficEndpoint::new(TrafficEndpointId(9));
    let (cause, ie, _) = modify(&mut bench, up_seid, 4, |body| {
        body.update_traffic_endpoints = list([unknown]).into()
    });
    assert_eq!(cause, Cause::RuleCreationModificationFailure);
    assert_eq!(ie, Some(IeType::TRAFFIC_ENDPOINT_ID));
}

fn any_cause(bytes: &[u8]) -> Cause {
    match decode(bytes) {
        Message::AssociationSetupResponse(body) => body.cause,
        Message::AssociationUpdateResponse(body) => body.cause,
        Message::AssociationReleaseResponse(body) => body.cause,
        Message::SessionSetDeletionResponse(body) => body.cause,
        Message::SessionSetModificationResponse(body) => body.cause,
        other => panic!("{other:?}"),
    }
}

#[test]
fn fault_costs_a_node_related_request_one_answer() {
    let (mut bench, _) = bench();
    let ten = Ipv4Addr::new(192, 0, 2, 10);
    let node_id = ie::NodeId::Ipv4(ten);
    let info = SessionChangeInfo::new(ie::AlternativeSmfIpAddress {
        v4: Some(Ipv4Addr::new(192, 0, 2, 20)),
        ..<_>::default()
    });
    let requests = [
        setup(3, ten, SMF_STARTED),
        encode(None, 4, &AssociationUpdateRequest::new(node_id)),
        release(5, ten),
        encode(None, 6, &SessionSetDeletionRequest::new(node_id)),
        encode(None, 7, &SessionSetModificationRequest::new(node_id, list([info]).into())),
    ];
    let before = bench.node.store().clone();
    for request in requests {
        bench.node.inject_fault(FaultPoint::Start);
        assert_eq!(any_cause(&bench.answer(smf(10), &request)), Cause::SystemFailure);
        assert_eq!(*bench.node.store(), before);
    }
    assert!(bench.node.association(smf(10).ip()).is_some());
}

#[test]
fn answers_to_our_wish_of_release_are_taken_once_and_refusals_counted() {
    let mut bench = Bench::associated();
    bench.node.start_release(bench.now, Nanos::from_secs(10));
    let sent = bench.sent();
    let sequence = raw(&sent[0].bytes).header.sequence;
    bench.ask(smf(10), &[0x20, 8, 0, 4, 0, 0, 1, 0]);
    let node_id = ie::NodeId::Ipv4(Ipv4Addr::new(192, 0, 2, 10));
    let refusal = AssociationUpdateResponse::new(node_id, Cause::RequestRejected);
    for _ in 0..2 {
        bench.ask(smf(10), &encode(None, sequence, &refusal));
    }
    let scalars = bench.node.counters().scalars;
    assert_eq!(scalars.association_updates_refused, 1);
    assert_eq!(scalars.discarded_unmatched_response, 1);
    assert_eq!(scalars.discarded_malformed_response, 1);
}

#[test]
fn words_for_the_log_distinguish_reasons() {
    use adit_n4::{DownReason, NodeIdentity, SetupFailure};
    let reasons = [
        DownReason::Released,
        DownReason::HeartbeatsLost,
        DownReason::PeerRestarted,
        DownReason::SetUpAgain,
        DownReason::EndedByOperator,
    ];
    let failures = [
        SetupFailure::NoResponse,
        SetupFailure::Refused(64),
        SetupFailure::Malformed,
        SetupFailure::NodeIdInUse,
        SetupFailure::TooManyAssociations,
        SetupFailure::Stopping,
    ];
    let nodes = [
        NodeIdentity::Ipv4(Ipv4Addr::LOCALHOST),
        NodeIdentity::Ipv6(std::net::Ipv6Addr::LOCALHOST),
        NodeIdentity::Fqdn("smf.example".to_owned()),
    ];
    let mut words: Vec<String> = reasons.iter().map(ToString::to_string).collect();
    words.extend(failures.iter().map(ToString::to_string));
    words.extend(nodes.iter().map(ToString::to_string));
    let count = words.len();
    words.sort();
    words.dedup();
    assert_eq!(words.len(), count);
    assert!(words.contains(&"refused with Cause 64".to_owned()));
}
