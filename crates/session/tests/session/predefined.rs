//! Predefined rules: their activation in PDRs, and the entries that workers run for them.

use adit_rules::{ApplyAction, PacketFilter, SessionRules};
use adit_session::{
    Application, PdrUpdate, PfdApplication, PfdProvision, PredefinedAction, PredefinedDetection,
    PredefinedRule, Provisioning, Refusal, SessionChange, SessionStore, TrafficEndpointId,
    TrafficEndpointSpec, UeSide, parse_flow_description,
};
use adit_types::limits::PREDEFINED_RULES_PER_SESSION_MAX;
use adit_types::{FarId, PdrId, Precedence, QerId, Qfi};

use crate::builders::*;
use crate::endpoints::endpoint;

const MAIL: &str = "permit out 6 from any 25 to assigned";
const WEB: &str = "permit out 6 from any 443 to assigned";
const DNS: &str = "permit out 17 from any 53 to assigned";

fn filters(texts: &[&str]) -> Vec<PacketFilter> {
    texts.iter().map(|text| parse_flow_description(text).unwrap()).collect()
}

fn rule(name: &str, text: &str) -> PredefinedRule {
    PredefinedRule {
        name: name.into(),
        group: None,
        precedence: None,
        detection: PredefinedDetection::Filters(filters(&[text]).into()),
        action: PredefinedAction::Forward,
        qfi: None,
    }
}

/// "no-mail" and "web" of the group "family", "dns", and "video" by its application.
fn rules() -> Vec<PredefinedRule> {
    let family = Some("family".into());
    vec![
        PredefinedRule {
            group: family.clone(),
            precedence: Some(Precedence(50)),
            action: PredefinedAction::Drop,
            ..rule("no-mail", MAIL)
        },
        PredefinedRule { group: family, qfi: Qfi::new(5), ..rule("web", WEB) },
        rule("dns", DNS),
        PredefinedRule {
            detection: PredefinedDetection::Application("video".into()),
            ..rule("video", DNS)
        },
    ]
}

fn with_rules(predefined_rules: Vec<PredefinedRule>) -> SessionStore {
    let applications =
        vec![Application { id: "video".into(), filters: filters(&[WEB, DNS]).into() }];
    store_with(8, Provisioning { applications, predefined_rules, ..Provisioning::default() })
}

fn names(names: &[&str]) -> Vec<Box<str>> {
    names.iter().map(|name| Box::from(*name)).collect()
}

/// The usual session whose downlink PDR activates rules.
fn activating(active: &[&str]) -> SessionChange {
    let mut change = session(1);
    change.create_pdrs[1].predefined = names(active);
    change
}

/// Precedence, filters, action and QFI of every downlink entry; all of them are PDR 2's.
fn entries(rules: &SessionRules) -> Vec<(u32, Vec<PacketFilter>, ApplyAction, Option<u8>)> {
    let entry = |pdr: &adit_rules::PdrEntry| {
        assert_eq!(pdr.id, PdrId(2));
        let qers = pdr.qers.iter().map(|at| &rules.qers[usize::from(*at)]);
        let qfi = qers.filter_map(|qer| qer.qfi).next().map(Qfi::value);
        let action = rules.fars[usize::from(pdr.far)].action;
        (pdr.precedence.0, pdr.sdf.to_vec(), action, qfi)
    };
    rules.downlink.iter().map(entry).collect()
}

#[test]
fn predefined_group_becomes_an_entry_per_rule() {
    let mut store = with_rules(rules());
    let rules = store.establish(OWNER, CP, activating(&["family"])).unwrap().delta.rules.unwrap();
    let expected = [
        (50, filters(&[MAIL]), ApplyAction::DROP, Some(9)),
        (100, filters(&[WEB]), ApplyAction::FORW, Some(5)),
    ];
    assert_eq!(entries(&rules), expected);
    assert_eq!(rules.downlink[1].ue, rules.downlink[0].ue);
    assert_eq!(rules.uplink.len(), 1, "the other PDR is as it says");
    let top = 1 << 31;
    assert_eq!(rules.fars.last().unwrap().id, FarId(top), "predefined FARs have the top bit");
    assert_eq!(rules.qers.last().unwrap().id, QerId(top | 5));
}

#[test]
fn predefined_rules_are_activated_and_deactivated_by_updates() {
    let mut store = with_rules(rules());
    let established = store.establish(OWNER, CP, activating(&["dns"])).unwrap();
    let up_seid = established.up_seid;
    assert_eq!(entries(&established.delta.rules.unwrap()).len(), 1);
    let mut update = |deactivate: &[&str], activate: &[&str]| {
        let (deactivate, activate) = (names(deactivate), names(activate));
        let update = PdrUpdate { id: PdrId(2), deactivate, activate, ..PdrUpdate::default() };
        let change = SessionChange { update_pdrs: vec![update], ..SessionChange::default() };
        let modified = store.modify(up_seid, change)?;
        Ok(modified.delta.map(|delta| {
            let rules = delta.rules.unwrap();
            entries(&rules).into_iter().map(|(_, sdf, ..)| sdf).collect::<Vec<_>>()
        }))
    };
    let swapped = vec![filters(&[MAIL]), filters(&[WEB])];
    assert_eq!(update(&["dns"], &["family"]), Ok(Some(swapped)));
    assert_eq!(update(&[], &["family"]), Ok(None), "it is active already");
    let inactive = Err(Refusal::InactivePredefinedRule { pdr: PdrId(2) });
    assert_eq!(update(&["dns"], &[]), inactive);
    assert_eq!(update(&["web"], &[]), inactive, "its group was activated");
    let unknown = Err(Refusal::UnknownPredefinedRule { pdr: PdrId(2) });
    assert_eq!(update(&["family"], &["gold"]), unknown);
    let all = vec![Vec::new()];
    assert_eq!(update(&["family"], &[]), Ok(Some(all)), "the PDR is as it says again");
}

#[test]
fn predefined_rule_by_application_follows_pfds() {
    let mut store = with_rules(rules());
    let established = store.establish(OWNER, CP, activating(&["video"])).unwrap();
    assert_eq!(entries(&established.delta.rules.unwrap())[0].1, filters(&[WEB, DNS]));
    let flow_descriptions = vec![MAIL.into()];
    let applications = vec![PfdApplication { id: "video".into(), flow_descriptions }];
    let changed = store.provision_pfds(OWNER, PfdProvision { applications }).unwrap();
    let deltas = recompiled(&mut store, &changed);
    assert_eq!(entries(deltas[0].rules.as_ref().unwrap())[0].1, filters(&[MAIL]));
}

#[test]
fn predefined_rules_that_drop_need_no_far_and_others_do() {
    let mut store = with_rules(rules());
    let before = store.clone();
    let mut change = activating(&["family"]);
    change.create_pdrs[1].far = None;
    let refused = store.establish(OWNER, CP, change.clone()).unwrap_err();
    assert_eq!(refused, Refusal::FarMissing { pdr: PdrId(2) });
    assert_eq!(store, before);
    change.create_pdrs[1].predefined = names(&["no-mail"]);
    let rules = store.establish(OWNER, CP, change).unwrap().delta.rules.unwrap();
    assert_eq!(entries(&rules)[0].2, ApplyAction::DROP);
}

#[test]
fn predefined_rules_that_cannot_act_are_refused() {
    let mut store = with_rules(rules());
    let before = store.clone();
    let pdr = PdrId(2);
    let mut refused = |edit: fn(&mut SessionChange)| {
        let mut change = activating(&["web"]);
        edit(&mut change);
        let refusal = store.establish(OWNER, CP, change).unwrap_err();
        assert_eq!(store, before);
        refusal
    };
    let unknown = refused(|change| change.create_pdrs[1].predefined = names(&["web", "Web"]));
    assert_eq!(unknown, Refusal::UnknownPredefinedRule { pdr }, "names compare exactly");
    let beside = refused(|change| change.create_pdrs[1].pdi.sdf = vec![flow(DNS)]);
    assert_eq!(beside, Refusal::PredefinedRuleNotAlone { pdr });
    let beside = refused(|change| change.create_pdrs[1].pdi.application = Some("video".into()));
    assert_eq!(beside, Refusal::PredefinedRuleNotAlone { pdr });
    let marked_twice = refused(|change| {
        change.create_qers = (1..=4).map(qer).collect();
        change.create_pdrs[1].qers = (1..=4).map(QerId).collect();
    });
    assert_eq!(marked_twice, Refusal::TooManyQers { pdr }, "no room for the rule's QFI");
}

#[test]
fn predefined_rules_of_a_session_are_bounded() {
    let many = (0..=PREDEFINED_RULES_PER_SESSION_MAX).map(|number| PredefinedRule {
        group: Some("all".into()),
        ..rule(&number.to_string(), DNS)
    });
    let mut many: Vec<_> = many.collect();
    let refused = with_rules(many.clone()).establish(OWNER, CP, activating(&["all"])).unwrap_err();
    assert_eq!(refused, Refusal::TooManyPredefinedRules);
    many.pop();
    let mut store = with_rules(many);
    let rules = store.establish(OWNER, CP, activating(&["all"])).unwrap().delta.rules.unwrap();
    assert_eq!(rules.downlink.len(), PREDEFINED_RULES_PER_SESSION_MAX);
}

#[test]
fn predefined_rules_count_once_for_each_traffic_endpoint() {
    let many = (0..PREDEFINED_RULES_PER_SESSION_MAX).map(|number| PredefinedRule {
        group: Some("all".into()),
        ..rule(&number.to_string(), DNS)
    });
    let mut change = activating(&["all"]);
    let endpoint = |id| TrafficEndpointSpec {
        ue: Some(ue_match(1, UeSide::Destination)),
        ..endpoint(TrafficEndpointId(id))
    };
    change.create_traffic_endpoints = vec![endpoint(1), endpoint(2)];
    let pdi = &mut change.create_pdrs[1].pdi;
    (pdi.ue, pdi.traffic_endpoints) = (None, vec![TrafficEndpointId(1), TrafficEndpointId(2)]);
    let refused = with_rules(many.collect()).establish(OWNER, CP, change).unwrap_err();
    assert_eq!(refused, Refusal::TooManyPredefinedRules);
}
