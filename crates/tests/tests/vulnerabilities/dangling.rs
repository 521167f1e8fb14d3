//! Class 3: references to rules that are not there, or that would not be there afterwards.

use adit_pfcp::Cause;
use adit_pfcp::grouped::{
    CreateFar, CreateQer, RemoveFar, RemovePdr, RemoveQer, UpdateFar, UpdatePdr, UpdateQer,
};
use adit_pfcp::ie::{ApplyAction, FailedRuleId, GateStatus, IeType};
use adit_pfcp::message::SessionModificationRequest;
use adit_types::{FarId, PdrId, QerId, Seid};

use crate::messages;
use crate::smf::*;
use crate::victim::{Said, Victim};

type Edit = fn(&mut SessionModificationRequest<'static>);

#[test]
fn modification_with_a_dangling_reference_is_refused_whole() {
    let cases: [(&str, Edit, IeType, FailedRuleId); 12] = [
        (
            "Update PDR of no PDR",
            |b| b.update_pdrs = list([UpdatePdr::new(PdrId(77))]).into(),
            IeType::PDR_ID,
            FailedRuleId::Pdr(PdrId(77)),
        ),
        (
            "Update FAR of no FAR",
            |b| b.update_fars = list([UpdateFar::new(FarId(77))]).into(),
            IeType::FAR_ID,
            FailedRuleId::Far(FarId(77)),
        ),
        (
            "Update QER of no QER",
            |b| b.update_qers = list([UpdateQer::new(QerId(77))]).into(),
            IeType::QER_ID,
            FailedRuleId::Qer(QerId(77)),
        ),
        (
            "Remove PDR of no PDR",
            |b| b.remove_pdrs = list([RemovePdr::new(PdrId(77))]).into(),
            IeType::PDR_ID,
            FailedRuleId::Pdr(PdrId(77)),
        ),
        (
            "Remove FAR of no FAR",
            |b| b.remove_fars = list([RemoveFar::new(FarId(77))]).into(),
            IeType::FAR_ID,
            FailedRuleId::Far(FarId(77)),
        ),
        (
            "Remove QER of no QER",
            |b| b.remove_qers = list([RemoveQer::new(QerId(77))]).into(),
            IeType::QER_ID,
            FailedRuleId::Qer(QerId(77)),
        ),
        (
            "Remove FAR that a PDR names",
            |b| b.remove_fars = list([RemoveFar::new(FarId(1))]).into(),
            IeType::FAR_ID,
            FailedRuleId::Pdr(PdrId(1)),
        ),
        (
            "Remove QER that a PDR names",
            |b| b.remove_qers = list([RemoveQer::new(QerId(1))]).into(),
            IeType::QER_ID,
            FailedRuleId::Pdr(PdrId(1)),
        ),
        (
            "Create PDR that names no FAR",
            |b| b.create_pdrs = list([messages::pdr(50, 77, 50)]).into(),
            IeType::FAR_ID,
            FailedRuleId::Pdr(PdrId(50)),
        ),
        (
            "Update PDR to no FAR",
            |b| {
                let mut pdr = UpdatePdr::new(PdrId(1));
                pdr.far_id = Some(FarId(77));
                b.update_pdrs = list([pdr]).into();
            },
            IeType::FAR_ID,
            FailedRuleId::Pdr(PdrId(1)),
        ),
        (
            "Update PDR to no QER",
            |b| {
                let mut pdr = UpdatePdr::new(PdrId(1));
                pdr.qer_ids = list([QerId(1), QerId(77)]).into();
                b.update_pdrs = list([pdr]).into();
            },
            IeType::QER_ID,
            FailedRuleId::Pdr(PdrId(1)),
        ),
        (
            "Create FAR that exists",
            |b| {
                b.create_fars = list([CreateFar::new(FarId(1), ApplyAction::DROP)]).into();
            },
            IeType::FAR_ID,
            FailedRuleId::Far(FarId(1)),
        ),
    ];
    let mut victim = Victim::new();
    for (number, (name, edit, ie, rule)) in (100..).zip(cases) {
        // What stands before the mistake in the same request must not happen either.
        let request = modify_with(number, victim.session, |body| {
            edit(body);
            if body.create_qers.is_empty() {
                let qer = CreateQer::new(QerId(500), GateStatus::OPEN);
                body.create_qers = list([qer]).into();
            }
        });
        let expected = Said::Refused(Cause::RuleCreationModificationFailure, Some(ie), Some(rule));
        assert_eq!(victim.refuses(&request), expected, "{name}");
    }
    victim.assert_whole();
}

#[test]
fn rule_removed_and_named_in_the_same_request_is_refused() {
    let mut victim = Victim::new();
    let request = modify_with(1, victim.session, |body| {
        body.remove_fars = list([RemoveFar::new(FarId(2))]).into();
        body.update_fars = list([UpdateFar::new(FarId(2))]).into();
    });
    assert!(matches!(victim.refuses(&request), Said::Refused(..)));
    let request = modify_with(2, victim.session, |body| {
        body.remove_pdrs = list([RemovePdr::new(PdrId(1)), RemovePdr::new(PdrId(1))]).into();
    });
    assert!(matches!(victim.refuses(&request), Said::Refused(..)));
    victim.assert_whole();
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
    let expected = Said::Refused(
        Cause::RuleCreationModificationFailure,
        Some(IeType::FAR_ID),
        Some(FailedRuleId::Far(FarId(9))),
    );
    assert_eq!(victim.refuses(&request), expected);
    victim.assert_whole();
}

#[test]
fn request_for_a_session_that_was_deleted_is_refused() {
    let mut victim = Victim::new();
    let gone = victim.bench.session(smf(10), 5, &SessionScript::new(0xc5, 51));
    assert_eq!(victim.hit(smf(10), &delete(6, gone)), Said::Accepted);
    let unknown = Said::Refused(Cause::SessionContextNotFound, None, None);
    assert_eq!(victim.refuses(&delete(7, gone)), unknown);
    assert_eq!(victim.refuses(&messages::full_modification(8, gone)), unknown);
    assert_eq!(victim.refuses(&delete(9, Seid(gone.0 ^ 1))), unknown);
    victim.assert_whole();
}
