//! Predefined rules over N4: activation in Create PDR and Update PDR, and its refusals.

use std::net::Ipv4Addr;

use adit_n4::NodeConfig;
use adit_pfcp::grouped::UpdatePdr;
use adit_pfcp::ie::{
    ActivatePredefinedRules, ApplicationId, DeactivatePredefinedRules, FailedRuleId, OffendingIe,
    UpFunctionFeatures,
};
use adit_pfcp::{Cause, IeType, Message};
use adit_rules::SessionRules;
use adit_session::{
    Application, PredefinedAction, PredefinedDetection, PredefinedRule, Provisioning, StoreConfig,
    parse_flow_description,
};
use adit_types::{PdrId, Seid};

use crate::smf::*;

const PDR: PdrId = PdrId(2);

/// "no-mail" drops; "web" forwards; both are the group "family".
fn bench() -> Bench {
    let rule = |name: &str, text: &str, action| PredefinedRule {
        name: name.into(),
        group: Some("family".into()),
        precedence: None,
        detection: PredefinedDetection::Filters(vec![parse_flow_description(text).unwrap()].into()),
        action,
        qfi: None,
    };
    let filters = vec![parse_flow_description("permit out 17 from any to any").unwrap()];
    let provisioning = Provisioning {
        predefined_rules: vec![
            rule("no-mail", "permit out 6 from any 25 to any", PredefinedAction::Drop),
            rule("web", "permit out 6 from any 443 to any", PredefinedAction::Forward),
        ],
        applications: vec![Application { id: "video".into(), filters: filters.into() }],
        ..config().store.provisioning
    };
    let store = StoreConfig { provisioning, ..config().store };
    let mut bench = Bench::with(NodeConfig { store, ..config() });
    bench.associate(10);
    bench
}

fn establish_activating(
    sequence: u32,
    names: &'static [ActivatePredefinedRules<'static>],
    application: Option<ApplicationId<'static>>,
) -> Vec<u8> {
    establish_with(sequence, &SessionScript::new(0xc1, 1), |body| {
        let mut pdrs: Vec<_> = body.create_pdrs.iter().collect();
        pdrs[1].activate_predefined_rules = names.into();
        pdrs[1].pdi.application_id = application;
        body.create_pdrs = Vec::leak(pdrs)[..].into();
    })
}

/// The answer and the downlink entries that were published.
fn outcome(bench: &mut Bench, bytes: &[u8]) -> (Vec<u8>, Option<SessionRules>) {
    bench.node.handle_datagram(bench.now, smf(10), bytes);
    let published = bench.node.poll_delta().map(|(id, delta)| {
        bench.node.handle_published(bench.now, id);
        *delta.rules.unwrap()
    });
    (bench.sent().remove(0).bytes, published)
}

fn refusal(bytes: &[u8]) -> (Cause, Option<IeType>, Option<FailedRuleId>) {
    let (cause, ie, rule) = match decode(bytes) {
        Message::SessionEstablishmentResponse(body) => {
            (body.cause, body.offending_ie, body.failed_rule_id)
        }
        Message::SessionModificationResponse(body) => {
            (body.cause, body.offending_ie, body.failed_rule_id)
        }
        other => panic!("{other:?}"),
    };
    (cause, ie.map(|OffendingIe(ie)| IeType(ie)), rule)
}

fn features(bench: &mut Bench) -> UpFunctionFeatures {
    let bytes = bench.answer(smf(11), &setup(1, Ipv4Addr::new(192, 0, 2, 11), SMF_STARTED));
    let Message::AssociationSetupResponse(body) = decode(&bytes) else { panic!() };
    body.up_function_features.unwrap()
}

#[test]
fn predefined_rules_are_announced_where_there_are_some() {
    assert!(features(&mut bench()).contains(UpFunctionFeatures::ADPDP));
    assert!(!features(&mut Bench::new()).contains(UpFunctionFeatures::ADPDP));
}

/// Spec: TS 29.244 §7.5.2.2, §7.5.4.2.
#[test]
fn predefined_rules_are_activated_and_deactivated_by_name() {
    let mut bench = bench();
    let names = list([ActivatePredefinedRules(b"family")]);
    let (answer, rules) = outcome(&mut bench, &establish_activating(2, names, None));
    let Message::SessionEstablishmentResponse(body) = decode(&answer) else { panic!() };
    assert_eq!(body.cause, Cause::RequestAccepted);
    let up_seid: Seid = body.up_f_seid.unwrap().seid;
    assert_eq!(rules.unwrap().downlink.len(), 2);
    let mut update = UpdatePdr::new(PDR);
    update.deactivate_predefined_rules = list([DeactivatePredefinedRules(b"family")]).into();
    update.activate_predefined_rules = list([ActivatePredefinedRules(b"web")]).into();
    let bytes = modify_with(3, up_seid, |body| body.update_pdrs = list([update]).into());
    let (answer, rules) = outcome(&mut bench, &bytes);
    assert_eq!(refusal(&answer), (Cause::RequestAccepted, None, None));
    let rules = rules.unwrap();
    assert_eq!(rules.downlink.len(), 1);
    assert_eq!(rules.downlink[0].sdf[0].remote_ports[0].first, 443);
    let bytes = modify_with(4, up_seid, |body| body.update_pdrs = list([update]).into());
    let inactive = Some(IeType::DEACTIVATE_PREDEFINED_RULES);
    let rule = Some(FailedRuleId::Pdr(PDR));
    let expected = (Cause::UnknownPredefinedRule, inactive, rule);
    let (answer, rules) = outcome(&mut bench, &bytes);
    assert_eq!((refusal(&answer), rules), (expected, None), "\"family\" is not active any more");
}

/// Spec: TS 29.244 §8.2.1 (Cause 80).
#[test]
fn predefined_rule_unknown_or_beside_an_application_is_refused_with_the_pdr() {
    let mut bench = bench();
    let rule = Some(FailedRuleId::Pdr(PDR));
    let ie = Some(IeType::ACTIVATE_PREDEFINED_RULES);
    let names = list([ActivatePredefinedRules(b"web"), ActivatePredefinedRules(b"gold")]);
    let (answer, rules) = outcome(&mut bench, &establish_activating(2, names, None));
    assert_eq!((refusal(&answer), rules), ((Cause::UnknownPredefinedRule, ie, rule), None));
    let names = list([ActivatePredefinedRules(b"web")]);
    let request = establish_activating(3, names, Some(ApplicationId(b"video")));
    let (answer, _) = outcome(&mut bench, &request);
    assert_eq!(refusal(&answer), (Cause::RuleCreationModificationFailure, ie, rule));
    assert_eq!(bench.node.store().reserved(), Default::default());
}
