//! PFDs of several control planes, and the sessions that name their applications.

use adit_rules::{PacketFilter, RuleDelta};
use adit_session::{
    Application, Exempted, MeasurementMethod, OwnerId, PdrUpdate, PfdApplication, PfdProvision,
    PfdRefusal, Provisioning, Refusal, SdfTextError, SessionChange, SessionStore, Urr, UrrSettings,
    UsageTriggers, parse_flow_description,
};
use adit_types::limits::{
    FLOW_DESCRIPTIONS_PER_APPLICATION_MAX, PFD_APPLICATION_ID_BYTES_MAX, PFD_APPLICATIONS_MAX,
    PFD_BYTES_MAX,
};
use adit_types::{PdrId, Precedence, UrrId};

use crate::builders::*;

const OTHER: OwnerId = OwnerId(2);
const WEB: &str = "permit out 6 from 203.0.113.0/24 443 to assigned";
const DNS: &str = "permit out 17 from any 53 to assigned";

fn application(id: &str, texts: &[&str]) -> PfdApplication {
    let flow_descriptions = texts.iter().map(|text| Box::from(*text)).collect();
    PfdApplication { id: id.into(), flow_descriptions }
}

fn provision(applications: &[(&str, &[&str])]) -> PfdProvision {
    let applications = applications.iter().map(|(id, texts)| application(id, texts)).collect();
    PfdProvision { applications }
}

fn filters(texts: &[&str]) -> Vec<PacketFilter> {
    texts.iter().map(|text| parse_flow_description(text).unwrap()).collect()
}

/// The usual session whose downlink PDR names an application.
fn naming(last: u8, id: &str) -> SessionChange {
    let mut change = session(last);
    change.create_pdrs[1].pdi.application = Some(id.into());
    change
}

/// The filters of the downlink PDR; `None` when there is no such PDR for workers.
fn downlink_filters(delta: &RuleDelta) -> Option<Vec<PacketFilter>> {
    delta.rules.as_ref().unwrap().downlink.first().map(|pdr| pdr.sdf.to_vec())
}

fn accepted(store: &mut SessionStore, owner: OwnerId, said: PfdProvision) -> Vec<RuleDelta> {
    let changed = store.provision_pfds(owner, said).unwrap();
    let deltas = recompiled(store, &changed);
    deltas.iter().for_each(|delta| store.reclaim(delta.session));
    deltas
}

#[test]
fn pfds_become_filters_of_new_and_of_old_sessions() {
    let mut store = store(8);
    assert_eq!(accepted(&mut store, OWNER, provision(&[("web", &[WEB]), ("dns", &[DNS])])), []);
    let established = store.establish(OWNER, CP, naming(1, "web")).unwrap();
    assert_eq!(downlink_filters(&established.delta), Some(filters(&[WEB])));
    store.establish(OTHER, CP, naming(2, "dns")).unwrap();
    store.establish(OWNER, CP, session(3)).unwrap();
    let deltas = accepted(&mut store, OWNER, provision(&[("web", &[WEB, DNS])]));
    let [delta] = &deltas[..] else { panic!("one session names it: {deltas:?}") };
    assert_eq!(delta.session, established.index);
    assert_eq!(downlink_filters(delta), Some(filters(&[WEB, DNS])));
    assert_eq!(delta.keys, []);
    assert_eq!(accepted(&mut store, OWNER, provision(&[("web", &[WEB, DNS])])), [], "as before");
}

#[test]
fn pfds_withdrawn_match_nothing_until_they_come_back() {
    let mut store = store(8);
    accepted(&mut store, OWNER, provision(&[("web", &[WEB])]));
    let up_seid = store.establish(OWNER, CP, naming(1, "web")).unwrap().up_seid;
    let gone = accepted(&mut store, OWNER, provision(&[("web", &[])]));
    assert_eq!(downlink_filters(&gone[0]), None);
    let refused = store.establish(OWNER, CP, naming(2, "web")).unwrap_err();
    assert_eq!(refused, Refusal::UnknownApplication { pdr: PdrId(2) });
    let precedence = Some(Precedence(9));
    let update = PdrUpdate { id: PdrId(1), precedence: precedence.into(), ..PdrUpdate::default() };
    let change = SessionChange { update_pdrs: vec![update], ..SessionChange::default() };
    let modified = store.modify(up_seid, change).unwrap();
    assert_eq!(downlink_filters(&modified.delta.unwrap()), None, "other rules may change");
    let back = accepted(&mut store, OWNER, provision(&[("web", &[DNS])]));
    assert_eq!(downlink_filters(&back[0]), Some(filters(&[DNS])));
}

#[test]
fn pfds_take_precedence_over_a_configured_application() {
    let applications = vec![Application { id: "web".into(), filters: filters(&[WEB]).into() }];
    let mut store = store_with(8, Provisioning { applications, ..Provisioning::default() });
    let established = store.establish(OWNER, CP, naming(1, "web")).unwrap();
    assert_eq!(downlink_filters(&established.delta), Some(filters(&[WEB])));
    let deltas = accepted(&mut store, OWNER, provision(&[("web", &[DNS])]));
    assert_eq!(downlink_filters(&deltas[0]), Some(filters(&[DNS])));
    let deltas = accepted(&mut store, OWNER, provision(&[]));
    assert_eq!(downlink_filters(&deltas[0]), Some(filters(&[WEB])));
}

#[test]
fn pfds_of_two_control_planes_do_not_remove_each_other() {
    let mut store = store(8);
    accepted(&mut store, OWNER, provision(&[("web", &[WEB])]));
    accepted(&mut store, OTHER, provision(&[("web", &[DNS]), ("dns", &[DNS])]));
    let established = store.establish(OWNER, CP, naming(1, "web")).unwrap();
    assert_eq!(downlink_filters(&established.delta), Some(filters(&[DNS])), "the latest word");
    let in_effect = |store: &SessionStore| -> Vec<_> {
        let all = store.provided_applications();
        all.filter(|a| a.in_effect).map(|a| (a.id.to_owned(), a.owner)).collect()
    };
    let expected = [("dns".to_owned(), OTHER), ("web".to_owned(), OTHER)];
    assert_eq!(in_effect(&store), expected);
    assert_eq!(accepted(&mut store, OWNER, provision(&[])), [], "it was not in effect");
    accepted(&mut store, OWNER, provision(&[("web", &[WEB])]));
    let changed = store.withdraw_pfds(OWNER);
    let deltas = recompiled(&mut store, &changed);
    assert_eq!(downlink_filters(&deltas[0]), Some(filters(&[DNS])));
    let changed = store.withdraw_pfds(OTHER);
    let deltas = recompiled(&mut store, &changed);
    assert_eq!(downlink_filters(&deltas[0]), None);
    assert_eq!(in_effect(&store), []);
}

#[test]
fn pfds_handed_over_stay_unless_the_successor_has_its_own() {
    let mut store = store(8);
    accepted(&mut store, OTHER, provision(&[("web", &[WEB])]));
    accepted(&mut store, OWNER, provision(&[("web", &[DNS]), ("dns", &[DNS])]));
    store.establish(OTHER, CP, naming(1, "web")).unwrap();
    let changed = store.hand_over_pfds(OWNER, OTHER);
    let deltas = recompiled(&mut store, &changed);
    assert_eq!(downlink_filters(&deltas[0]), Some(filters(&[WEB])));
    let owners: Vec<_> = store.provided_applications().map(|a| (a.id, a.owner)).collect();
    assert_eq!(owners, [("dns", OTHER), ("web", OTHER)]);
}

#[test]
fn pfds_that_are_refused_change_nothing() {
    let mut store = store(8);
    accepted(&mut store, OWNER, provision(&[("web", &[WEB])]));
    store.establish(OWNER, CP, naming(1, "web")).unwrap();
    let before = store.clone();
    let many: Vec<&str> = vec![DNS; FLOW_DESCRIPTIONS_PER_APPLICATION_MAX + 1];
    let error = SdfTextError::Action;
    let bad = [
        (
            provision(&[("web", &[DNS]), ("x", &["deny out ip from any to any"])]),
            PfdRefusal::FlowDescription { error },
        ),
        (provision(&[("x", &[DNS]), ("web", &[]), ("x", &[])]), PfdRefusal::DuplicateApplication),
        (provision(&[("web", &many)]), PfdRefusal::TooManyFlowDescriptions),
    ];
    for (said, refusal) in bad {
        assert_eq!(store.provision_pfds(OWNER, said), Err(refusal));
        assert_eq!(store, before);
    }
}

#[test]
fn pfds_are_bounded_over_all_control_planes() {
    let mut store = store(1);
    let some = |range: core::ops::Range<usize>| {
        let applications = range.map(|n| application(&n.to_string(), &[DNS])).collect();
        PfdProvision { applications }
    };
    accepted(&mut store, OWNER, some(0..PFD_APPLICATIONS_MAX / 2));
    accepted(&mut store, OTHER, some(0..PFD_APPLICATIONS_MAX / 2));
    let before = store.clone();
    let refused = store.provision_pfds(OTHER, provision(&[("one more", &[DNS])]));
    assert_eq!(refused, Err(PfdRefusal::TooManyApplications));
    let long = format!("{DNS}{}", " ".repeat(PFD_BYTES_MAX / 16));
    accepted(&mut store, OTHER, provision(&[("0", &[]), ("1", &[])]));
    let refused = store.provision_pfds(OTHER, provision(&[("x", &[&*long; 16])]));
    assert_eq!(refused, Err(PfdRefusal::TooManyBytes));
    accepted(&mut store, OTHER, some(0..2));
    assert_eq!(store, before);
}

#[test]
fn pfds_fill_their_octets_to_the_last_one_identifiers_included() {
    let mut store = store(1);
    let id = "video";
    let text = format!("{DNS}{}", " ".repeat(PFD_BYTES_MAX - id.len() - DNS.len()));
    accepted(&mut store, OWNER, provision(&[(id, &[&*text])]));
    let refused = store.provision_pfds(OWNER, provision(&[("videos", &[&*text]), (id, &[])]));
    assert_eq!(refused, Err(PfdRefusal::TooManyBytes));
}

/// RFC 6733 §4.3.1: "in" is from the terminal.
#[test]
fn pfd_flow_description_of_direction_in_has_its_sides_swapped() {
    let mut store = store(8);
    let text = "permit in 6 from assigned to 203.0.113.0/24 443";
    accepted(&mut store, OWNER, provision(&[("web", &[text])]));
    let established = store.establish(OWNER, CP, naming(1, "web")).unwrap();
    assert_eq!(downlink_filters(&established.delta), Some(filters(&[WEB])));
}

#[test]
fn pfds_withdrawn_of_an_exempted_application_leave_its_session_modifiable() {
    let mut store = store(8);
    accepted(&mut store, OWNER, provision(&[("web", &[WEB]), ("dns", &[DNS])]));
    let exempted = Exempted { flows: Vec::new(), applications: vec!["web".into()] };
    let settings = UrrSettings { exempted: Some(exempted), ..UrrSettings::default() };
    let method = MeasurementMethod { volume: true, ..MeasurementMethod::default() };
    let urr = Urr { id: UrrId(1), method, triggers: UsageTriggers::empty(), settings };
    let mut change = session(1);
    change.create_urrs = vec![urr.clone()];
    let up_seid = store.establish(OWNER, CP, change).unwrap().up_seid;
    let gone = accepted(&mut store, OWNER, provision(&[("web", &[])]));
    assert_eq!(gone[0].rules.as_ref().unwrap().urrs[0].exempt, []);
    let precedence = Some(Precedence(9));
    let update = PdrUpdate { id: PdrId(1), precedence: precedence.into(), ..PdrUpdate::default() };
    let change = SessionChange { update_pdrs: vec![update], ..SessionChange::default() };
    assert!(store.modify(up_seid, change).is_ok(), "the change does not name the application");
    let another = SessionChange {
        create_urrs: vec![Urr { id: UrrId(2), ..urr }],
        ..SessionChange::default()
    };
    let refused = Refusal::UnknownExemptedApplication { urr: UrrId(2) };
    assert_eq!(store.modify(up_seid, another), Err(refused));
    let back = accepted(&mut store, OWNER, provision(&[("web", &[DNS])]));
    assert_eq!(back[0].rules.as_ref().unwrap().urrs[0].exempt, filters(&[DNS]));
}

#[test]
fn pfds_of_an_application_with_too_long_a_name_are_refused() {
    let name = "a".repeat(PFD_APPLICATION_ID_BYTES_MAX + 1);
    let mut store = store(8);
    assert_eq!(
        store.provision_pfds(OWNER, provision(&[(&name, &[WEB])])),
        Err(PfdRefusal::ApplicationIdTooLong)
    );
    accepted(&mut store, OWNER, provision(&[(&name[1..], &[WEB])]));
}
