//! Class 3: references to rules that do not exist, or would not exist after the request.

use adit_pfcp::grouped::{
    CreateFar, CreateQer, QueryUrr, RemoveBar, RemoveFar, RemovePdr, RemoveQer,
    RemoveTrafficEndpoint, RemoveUrr, UpdateBar, UpdateFar, UpdatePdr, UpdateQer,
    UpdateTrafficEndpoint, UpdateUrr,
};
use adit_pfcp::ie::{
    ApplyAction, FailedRuleId, GateStatus, IeType, LinkedUrrId, ReportingTriggers,
    TrafficEndpointId,
};
use adit_pfcp::message::SessionModificationRequest;
use adit_pfcp::{Cause, Message};
use adit_types::{BarId, FarId, PdrId, QerId, Seid, UrrId};

use crate::messages;
use crate::smf::*;
use crate::victim::{NodeAnswer, Victim};

type Edit = fn(&mut SessionModificationRequest<'static>);

/// A mistake in a modification: its name, the IE that the refusal names, and the rule if the test
/// compares it.
type Dangling = (&'static str, Edit, IeType, Option<FailedRuleId>);

/// Each modification is refused whole, with everything before the mistake.
fn assert_refused_whole(cases: &[Dangling]) {
    let mut victim = Victim::new();
    for (number, (name, edit, ie, rule)) in (100..).zip(cases) {
        let request = modify_with(number, victim.session, |body| {
            edit(body);
            if body.create_qers.is_empty() {
                let qer = CreateQer::new(QerId(500), GateStatus::OPEN);
                body.create_qers = list([qer]).into();
            }
        });
        let said = victim.refuses(&request);
        let NodeAnswer::Refused(cause, named, failed) = said else { panic!("{name}: {said:?}") };
        let expected = (Cause::RuleCreationModificationFailure, Some(*ie));
        assert_eq!((cause, named), expected, "{name}");
        if rule.is_some() {
            assert_eq!(failed, *rule, "{name}");
        }
    }
    victim.assert_sessions_usable();
}

#[test]
fn modification_with_a_dangling_reference_is_refused_whole() {
    assert_refused_whole(&[
        (
            "Update PDR of no PDR",
            |b| b.update_pdrs = list([UpdatePdr::new(PdrId(77))]).into(),
            IeType::PDR_ID,
            Some(FailedRuleId::Pdr(PdrId(77))),
        ),
        (
            "Update FAR of no FAR",
            |b| b.update_fars = list([UpdateFar::new(FarId(77))]).into(),
            IeType::FAR_ID,
            Some(FailedRuleId::Far(FarId(77))),
        ),
        (
            "Update QER of no QER",
            |b| b.update_qers = list([UpdateQer::new(QerId(77))]).into(),
            IeType::QER_ID,
            Some(FailedRuleId::Qer(QerId(77))),
        ),
        (
            "Remove PDR of no PDR",
            |b| b.remove_pdrs = list([RemovePdr::new(PdrId(77))]).into(),
            IeType::PDR_ID,
            Some(FailedRuleId::Pdr(PdrId(77))),
        ),
        (
            "Remove FAR of no FAR",
            |b| b.remove_fars = list([RemoveFar::new(FarId(77))]).into(),
            IeType::FAR_ID,
            Some(FailedRuleId::Far(FarId(77))),
        ),
        (
            "Remove QER of no QER",
            |b| b.remove_qers = list([RemoveQer::new(QerId(77))]).into(),
            IeType::QER_ID,
            Some(FailedRuleId::Qer(QerId(77))),
        ),
        (
            "Remove FAR that a PDR names",
            |b| b.remove_fars = list([RemoveFar::new(FarId(1))]).into(),
            IeType::FAR_ID,
            Some(FailedRuleId::Pdr(PdrId(1))),
        ),
        (
            "Remove QER that a PDR names",
            |b| b.remove_qers = list([RemoveQer::new(QerId(1))]).into(),
            IeType::QER_ID,
            Some(FailedRuleId::Pdr(PdrId(1))),
        ),
    ]);
}

#[test]
fn modification_that_makes_a_rule_name_no_rule_is_refused_whole() {
    assert_refused_whole(&[
        (
            "Create PDR that names no FAR",
            |b| b.create_pdrs = list([messages::pdr(50, 77, 50)]).into(),
            IeType::FAR_ID,
            Some(FailedRuleId::Pdr(PdrId(50))),
        ),
        (
            "Update PDR to no FAR",
            |b| {
                let mut pdr = UpdatePdr::new(PdrId(1));
                pdr.far_id = Some(FarId(77));
                b.update_pdrs = list([pdr]).into();
            },
            IeType::FAR_ID,
            Some(FailedRuleId::Pdr(PdrId(1))),
        ),
        (
            "Update PDR to no QER",
            |b| {
                let mut pdr = UpdatePdr::new(PdrId(1));
                pdr.qer_ids = list([QerId(1), QerId(77)]).into();
                b.update_pdrs = list([pdr]).into();
            },
            IeType::QER_ID,
            Some(FailedRuleId::Pdr(PdrId(1))),
        ),
        (
            "Create FAR that exists",
            |b| {
                b.create_fars = list([CreateFar::new(FarId(1), ApplyAction::DROP)]).into();
            },
            IeType::FAR_ID,
            Some(FailedRuleId::Far(FarId(1))),
        ),
    ]);
}

#[test]
fn modification_with_a_dangling_reference_to_a_urr_is_refused_whole() {
    assert_refused_whole(&[
        (
            "Update URR of no URR",
            |b| b.update_urrs = list([UpdateUrr::new(UrrId(77))]).into(),
            IeType::URR_ID,
            None,
        ),
        (
            "Remove URR of no URR",
            |b| b.remove_urrs = list([RemoveUrr::new(UrrId(77))]).into(),
            IeType::URR_ID,
            None,
        ),
        (
            "Query URR of no URR",
            |b| b.query_urrs = list([QueryUrr::new(UrrId(77))]).into(),
            IeType::URR_ID,
            None,
        ),
        (
            "Create URR linked to no URR",
            |b| {
                let mut urr = messages::urr(50);
                urr.reporting_triggers |= ReportingTriggers::LIUSA;
                urr.linked_urr_ids = list([LinkedUrrId(77)]).into();
                b.create_urrs = list([urr]).into();
            },
            IeType::LINKED_URR_ID,
            None,
        ),
        (
            "Create URR whose quota action is no FAR",
            |b| {
                let mut urr = messages::urr(50);
                urr.far_id_for_quota_action = Some(FarId(77));
                b.create_urrs = list([urr]).into();
            },
            IeType::FAR_ID,
            None,
        ),
        (
            "Create PDR that names no URR",
            |b| {
                let mut pdr = messages::pdr(50, 1, 50);
                pdr.urr_ids = list([UrrId(77)]).into();
                b.create_pdrs = list([pdr]).into();
            },
            IeType::URR_ID,
            None,
        ),
    ]);
}

#[test]
fn modification_with_a_dangling_reference_to_a_bar_or_endpoint_is_refused_whole() {
    assert_refused_whole(&[
        (
            "Update BAR of no BAR",
            |b| b.update_bars = list([UpdateBar::new(BarId(77))]).into(),
            IeType::BAR_ID,
            None,
        ),
        (
            "Remove BAR of no BAR",
            |b| b.remove_bars = list([RemoveBar::new(BarId(77))]).into(),
            IeType::BAR_ID,
            None,
        ),
        (
            "Create FAR that names no BAR",
            |b| {
                let mut far = CreateFar::new(FarId(50), ApplyAction::BUFF);
                far.bar_id = Some(BarId(77));
                b.create_fars = list([far]).into();
            },
            IeType::BAR_ID,
            None,
        ),
        (
            "Update FAR to no BAR",
            |b| {
                let mut far = UpdateFar::new(FarId(2));
                far.bar_id = Some(BarId(77));
                b.update_fars = list([far]).into();
            },
            IeType::BAR_ID,
            None,
        ),
        (
            "Update Traffic Endpoint of no traffic endpoint",
            |b| {
                let endpoint = UpdateTrafficEndpoint::new(TrafficEndpointId(77));
                b.update_traffic_endpoints = list([endpoint]).into();
            },
            IeType::TRAFFIC_ENDPOINT_ID,
            None,
        ),
        (
            "Remove Traffic Endpoint of no traffic endpoint",
            |b| {
                let endpoint = RemoveTrafficEndpoint::new(TrafficEndpointId(77));
                b.remove_traffic_endpoints = list([endpoint]).into();
            },
            IeType::TRAFFIC_ENDPOINT_ID,
            None,
        ),
        (
            "Create PDR that names no traffic endpoint",
            |b| {
                let mut pdr = messages::pdr(50, 1, 50);
                pdr.pdi.ue_ip_addresses = list([]).into();
                pdr.pdi.traffic_endpoint_ids = list([TrafficEndpointId(77)]).into();
                b.create_pdrs = list([pdr]).into();
            },
            IeType::TRAFFIC_ENDPOINT_ID,
            None,
        ),
    ]);
}

/// After the removal of a rule that others name, none of them names a missing rule.
#[test]
fn newer_rule_removed_while_it_is_named_leaves_no_dangling_name() {
    let mut victim = Victim::new();
    let rich = messages::rich_establishment(1, &SessionScript::new(0xc1, 51));
    let bytes = victim.bench.answer(smf(10), &rich);
    let Message::SessionEstablishmentResponse(body) = decode(&bytes) else { panic!() };
    let session = body.up_f_seid.unwrap().seid;
    victim.bench.publish_all();
    let remove_bar = modify_with(2, session, |body| {
        body.remove_bars = list([RemoveBar::new(BarId(7))]).into();
    });
    let said = victim.refuses(&remove_bar);
    assert!(matches!(said, NodeAnswer::Refused(_, Some(IeType::BAR_ID), _)), "{said:?}");
    let remove_urr = modify_with(3, session, |body| {
        body.remove_urrs = list([RemoveUrr::new(UrrId(8))]).into();
    });
    assert_eq!(victim.send(smf(10), &remove_urr), NodeAnswer::Accepted);
    let remove_endpoint = modify_with(4, session, |body| {
        let endpoint = RemoveTrafficEndpoint::new(TrafficEndpointId(7));
        body.remove_traffic_endpoints = list([endpoint]).into();
    });
    assert_eq!(victim.send(smf(10), &remove_endpoint), NodeAnswer::Accepted);
    let left = victim.bench.node.store().session(session).unwrap();
    assert_eq!(left.pdrs().iter().map(|pdr| pdr.id.0).collect::<Vec<_>>(), [2]);
    assert_eq!(left.pdrs()[0].urrs, [UrrId(7)]);
    assert_eq!(victim.send(smf(10), &delete(5, session)), NodeAnswer::Accepted);
    victim.assert_sessions_usable();
}

#[test]
fn rule_removed_and_named_in_the_same_request_is_refused() {
    let mut victim = Victim::new();
    let request = modify_with(1, victim.session, |body| {
        body.remove_fars = list([RemoveFar::new(FarId(2))]).into();
        body.update_fars = list([UpdateFar::new(FarId(2))]).into();
    });
    assert!(matches!(victim.refuses(&request), NodeAnswer::Refused(..)));
    let request = modify_with(2, victim.session, |body| {
        body.remove_pdrs = list([RemovePdr::new(PdrId(1)), RemovePdr::new(PdrId(1))]).into();
    });
    assert!(matches!(victim.refuses(&request), NodeAnswer::Refused(..)));
    victim.assert_sessions_usable();
}

#[test]
fn same_rule_created_twice_in_a_request_is_refused() {
    let mut victim = Victim::new();
    let script = SessionScript::new(0xc1, 50);
    let request = establish_with(1, &script, |body| {
        let far = CreateFar::new(FarId(9), ApplyAction::DROP);
        let fars: Vec<_> = body.create_fars.iter().chain([far, far]).collect();
        body.create_fars = Vec::leak(fars)[..].into();
    });
    let expected = NodeAnswer::Refused(
        Cause::RuleCreationModificationFailure,
        Some(IeType::FAR_ID),
        Some(FailedRuleId::Far(FarId(9))),
    );
    assert_eq!(victim.refuses(&request), expected);
    victim.assert_sessions_usable();
}

#[test]
fn request_for_a_session_that_was_deleted_is_refused() {
    let mut victim = Victim::new();
    let gone = victim.bench.session(smf(10), 5, &SessionScript::new(0xc5, 51));
    assert_eq!(victim.send(smf(10), &delete(6, gone)), NodeAnswer::Accepted);
    let unknown = NodeAnswer::Refused(Cause::SessionContextNotFound, None, None);
    assert_eq!(victim.refuses(&delete(7, gone)), unknown);
    assert_eq!(victim.refuses(&messages::full_modification(8, gone)), unknown);
    assert_eq!(victim.refuses(&delete(9, Seid(gone.0 ^ 1))), unknown);
    victim.assert_sessions_usable();
}
