//! Duplicating parameters, forwarding policies and redirection.

use std::net::{IpAddr, Ipv4Addr};

use adit_rules::{ApplyAction, DestinationInterface, GtpuTunnel, Redirect, SessionRules, Steering};
use adit_session::{
    Change, FarUpdate, Forwarding, ForwardingUpdate, ProvisionedForwardingPolicy, Provisioning,
    Refusal, SessionChange, SessionStore,
};
use adit_types::limits::{DUPLICATES_PER_FAR_MAX, REDIRECT_URL_BYTES_MAX};
use adit_types::{FarId, InterfaceRole, InterfaceSet, PdrId, Teid};

use crate::builders::*;

fn to_li(teid: u32) -> Forwarding {
    Forwarding {
        outer_header_creation: Some(tunnel(teid)),
        ..Forwarding::new(DestinationInterface::LiFunction)
    }
}

/// The session of [`session`], whose uplink FAR duplicates to `copies`.
fn duplicating(copies: Vec<Forwarding>) -> SessionChange {
    let mut change = session(1);
    change.create_fars[0].action = ApplyAction::FORW | ApplyAction::DUPL;
    change.create_fars[0].duplicating = copies;
    change
}

/// Refused by a store that is as before afterwards.
#[track_caller]
fn assert_refused(store: &mut SessionStore, change: SessionChange, refusal: Refusal) {
    let before = store.clone();
    assert_eq!(store.establish(OWNER, CP, change).map(|_| ()), Err(refusal));
    assert_eq!(*store, before);
}

fn rules(store: &mut SessionStore, change: SessionChange) -> Box<SessionRules> {
    store.establish(OWNER, CP, change).unwrap().delta.rules.unwrap()
}

#[test]
fn duplicating_parameters_become_entries_behind_the_fars() {
    let mut store = store(4);
    let rules = rules(&mut store, duplicating(vec![to_li(0x70), to_li(0x71)]));
    assert_eq!(rules.fars.len(), 4);
    assert_eq!(rules.fars[0].duplicates[..], [2, 3]);
    assert!(rules.fars[1].duplicates.is_empty());
    for (far, teid) in rules.fars[2..].iter().zip([0x70, 0x71]) {
        assert_eq!((far.id, far.action), (FarId(1), ApplyAction::FORW));
        assert_eq!(far.outer_header_creation, Some(tunnel(teid)));
    }
    assert_eq!(store.tunnel_users(gtpu(0x71)).count(), 1, "its peer's errors find the session");
}

fn gtpu(teid: u32) -> GtpuTunnel {
    GtpuTunnel { teid: Teid(teid), addr: IpAddr::V4(GNB) }
}

#[test]
fn duplicating_goes_with_every_fate_and_alone_with_none() {
    for fate in [ApplyAction::FORW, ApplyAction::DROP, ApplyAction::BUFF] {
        let mut change = duplicating(vec![to_li(0x70)]);
        change.create_fars[0].action = fate | ApplyAction::DUPL;
        assert_eq!(rules(&mut store(4), change).fars[0].duplicates[..], [2]);
    }
    let mut change = duplicating(vec![to_li(0x70)]);
    let (far, action) = (FarId(1), ApplyAction::DUPL);
    change.create_fars[0].action = action;
    assert_refused(&mut store(4), change, Refusal::ContradictoryAction { far, action });
}

#[test]
fn duplicating_parameters_that_cannot_act_are_refused() {
    let far = FarId(1);
    let mut zero = to_li(0);
    zero.outer_header_creation = Some(tunnel(0));
    let bare = Forwarding::new(DestinationInterface::LiFunction);
    let to_cp = Forwarding::new(DestinationInterface::CpFunction);
    let many = (1..=DUPLICATES_PER_FAR_MAX + 1).map(|_| to_li(0x70)).collect();
    for (copies, refusal) in [
        (vec![], Refusal::FarWithoutDuplicatingParameters { far }),
        (vec![to_li(1), zero], Refusal::TunnelInvalid { far }),
        (vec![bare], Refusal::FarWithoutOuterHeader { far }),
        (vec![to_cp], Refusal::FarWithoutOuterHeader { far }),
        (many, Refusal::TooManyDuplicates { far }),
    ] {
        assert_refused(&mut store(4), duplicating(copies), refusal);
    }
    let mut change = session(1);
    change.create_fars[0].forwarding = Some(Forwarding::new(DestinationInterface::LiFunction));
    let refusal = Refusal::UnsupportedInterface { far };
    assert_refused(&mut store(4), change, refusal);
}

#[test]
fn duplicating_parameters_are_updated_in_their_order_and_added_behind() {
    let mut store = store(4);
    let copies = vec![to_li(0x70), to_li(0x71)];
    let up_seid = store.establish(OWNER, CP, duplicating(copies)).unwrap().up_seid;
    let update = |duplicating| SessionChange {
        update_fars: vec![FarUpdate { id: FarId(1), duplicating, ..FarUpdate::default() }],
        ..SessionChange::default()
    };
    let to = |teid, destination| ForwardingUpdate {
        destination,
        outer_header_creation: Change::Set(tunnel(teid)),
        ..ForwardingUpdate::default()
    };
    let li = Change::Set(DestinationInterface::LiFunction);
    let change = update(vec![to(0x80, Change::Keep), ForwardingUpdate::default(), to(0x82, li)]);
    let rules = store.modify(up_seid, change).unwrap().delta.unwrap().rules.unwrap();
    let teids: Vec<_> = rules.fars[2..].iter().map(|far| far.outer_header_creation).collect();
    assert_eq!(teids, [0x80, 0x71, 0x82].map(|teid| Some(tunnel(teid))));
    let nowhere = (0..4).map(|_| to(1, Change::Keep)).collect();
    let refusal = store.modify(up_seid, update(nowhere)).unwrap_err();
    assert_eq!(refusal, Refusal::FarWithoutDestination { far: FarId(1) });
}

fn policies() -> Provisioning {
    Provisioning {
        interfaces: vec![
            interface(InterfaceRole::N3, None, N3),
            interface(InterfaceRole::N6, Some("internet"), N3),
            interface(InterfaceRole::N6, Some("video"), N3),
        ],
        policies: vec![ProvisionedForwardingPolicy {
            id: "cache".into(),
            network_instance: Some("video".into()),
            steering: Steering { v4: Some(Ipv4Addr::new(10, 7, 0, 9)), v6: None },
            dscp: Some(18),
            local_switching: None,
        }],
        ..Provisioning::default()
    }
}

fn with_policy(id: &str) -> SessionChange {
    let mut change = session(1);
    let forwarding = change.create_fars[0].forwarding.as_mut().unwrap();
    forwarding.network_instance = Some("internet".into());
    forwarding.policy = Some(id.into());
    change
}

#[test]
fn forwarding_policy_overrides_the_network_instance_and_steers() {
    let mut store = store_with(4, policies());
    let established = store.establish(OWNER, CP, with_policy("cache")).unwrap();
    let far = &established.delta.rules.unwrap().fars[0];
    assert_eq!(far.interfaces, InterfaceSet(0b101));
    assert_eq!(far.steering.as_ref().unwrap().v4, Some(Ipv4Addr::new(10, 7, 0, 9)));
    assert_eq!((far.dscp, far.outer_tos.around(0xff)), (Some(18), 72));
    let forwarding = ForwardingUpdate { policy: Change::Withdraw, ..ForwardingUpdate::default() };
    let update = FarUpdate { id: FarId(1), forwarding: Some(forwarding), ..FarUpdate::default() };
    let change = SessionChange { update_fars: vec![update], ..SessionChange::default() };
    let rules = store.modify(established.up_seid, change).unwrap().delta.unwrap().rules.unwrap();
    assert_eq!(rules.fars[0].interfaces, InterfaceSet(0b011), "the FAR's own again");
    assert_eq!((&rules.fars[0].steering, rules.fars[0].dscp), (&None, None));
}

#[test]
fn forwarding_policy_that_nobody_configured_is_refused() {
    let mut store = store_with(4, policies());
    let refusal = Refusal::UnknownForwardingPolicy { far: FarId(1) };
    assert_refused(&mut store, with_policy("x"), refusal);
    let copy = Forwarding { policy: Some("x".into()), ..to_li(1) };
    assert_refused(&mut store, duplicating(vec![copy]), refusal);
}

fn redirecting(position: usize, redirect: Redirect) -> SessionChange {
    let mut change = session(1);
    change.create_fars[position].forwarding.as_mut().unwrap().redirect = Some(redirect);
    change
}

fn to_address(v4: Ipv4Addr) -> Redirect {
    Redirect::Address { v4: Some(v4), v6: None, port: None }
}

#[test]
fn redirection_reaches_the_workers_while_the_far_forwards() {
    let portal = to_address(Ipv4Addr::new(203, 0, 113, 1));
    let rules = rules(&mut store(4), redirecting(0, portal.clone()));
    assert_eq!(rules.fars[0].redirect.as_deref(), Some(&portal));
}

#[test]
fn redirection_to_nowhere_is_refused() {
    let far = FarId(1);
    let url = |text: &str| Redirect::Url(text.into());
    let long = "x".repeat(REDIRECT_URL_BYTES_MAX + 1);
    for redirect in [
        to_address(Ipv4Addr::UNSPECIFIED),
        to_address(Ipv4Addr::new(224, 0, 0, 1)),
        to_address(N3),
        Redirect::Address { v4: None, v6: None, port: None },
        Redirect::Address { v4: None, v6: None, port: Some(0) },
        url(""),
        url("http://a/ b"),
        url("http://a/\r\nSet-Cookie:x"),
        url("http://ä/"),
        url(&long),
    ] {
        assert_refused(&mut store(4), redirecting(0, redirect), Refusal::RedirectInvalid { far });
    }
    let refusal = Refusal::RedirectUnusable { pdr: PdrId(2) };
    assert_refused(&mut store(4), redirecting(1, url("http://a/")), refusal);
}

#[test]
fn copies_do_not_outlive_their_flag() {
    let mut store = store(4);
    let mut change = duplicating(vec![to_li(0x70)]);
    change.create_fars[0].action = ApplyAction::FORW;
    let rules = rules(&mut store, change);
    assert_eq!(rules.fars.len(), 2, "kept, and not acted on");
    assert_eq!(store.tunnel_users(gtpu(0x70)).count(), 0);
}
