//! N9 on the side of the UE: a session anchor behind an I-UPF, a PGW-U behind an SGW-U.

use core::net::{IpAddr, Ipv4Addr};

use adit_rules::{ApplyAction, DestinationInterface, GtpuTunnel, HeaderCreation, SourceInterface};
use adit_session::{
    Change, FarUpdate, Forwarding, ForwardingUpdate, InterfaceType, LocalInterface, PeerSides,
    Provisioning, Refusal, RuleId, SessionChange, SessionStore, TunnelRoutes,
};
use adit_types::{FarId, InterfaceId, InterfaceRole, InterfaceSet, Nanos, PdrId, Teid};

use crate::builders::*;

const N9: Ipv4Addr = Ipv4Addr::new(192, 0, 9, 1);
/// On the link of N3.
const ON_N3: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 77);
/// On the link of N9.
const ON_N9: Ipv4Addr = Ipv4Addr::new(192, 0, 9, 2);
/// Behind a route through N9.
const BEHIND_N9: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 5);
const NOWHERE: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const N9_TYPE: InterfaceType = InterfaceType(15);
const N3_TYPE: InterfaceType = InterfaceType(11);

fn store_of(interfaces: Vec<LocalInterface>, routes: &[(&str, u8)]) -> SessionStore {
    let routes = routes.iter().map(|(prefix, id)| (prefix.parse().unwrap(), InterfaceId(*id)));
    let tunnel_routes = TunnelRoutes::new(routes.collect());
    store_with(16, Provisioning { interfaces, tunnel_routes, ..Provisioning::default() })
}

/// N3, N9 of network instance "backbone", N6; with these routes in addition to the links of N3 and
/// N9.
fn both(routes: &[(&str, u8)]) -> SessionStore {
    let interfaces = vec![
        interface(InterfaceRole::N3, None, N3),
        interface(InterfaceRole::N9, Some("backbone"), N9),
        LocalInterface::of_role(InterfaceRole::N6, Default::default()),
    ];
    store_of(interfaces, &[&[("192.0.2.0/24", 0), ("192.0.9.0/24", 1)], routes].concat())
}

/// The usual session, whose downlink FAR leads into a tunnel to `peer`.
fn towards(peer: Ipv4Addr, reference: Option<InterfaceType>, name: Option<&str>) -> SessionChange {
    let mut change = session(1);
    let tunnel = GtpuTunnel { teid: Teid(5), addr: IpAddr::V4(peer) };
    change.create_fars[1].forwarding = Some(Forwarding {
        outer_header_creation: Some(HeaderCreation::Gtpu(tunnel)),
        interface_type: reference,
        network_instance: name.map(Box::from),
        ..Forwarding::new(DestinationInterface::Access)
    });
    change
}

#[test]
fn tunnel_to_access_leaves_through_n9_by_subnet_type_or_network_instance() {
    let (n3, n9) = (InterfaceSet(0b001), InterfaceSet(0b010));
    let links: &[(&str, u8)] = &[];
    let defaults: &[(&str, u8)] = &[("0.0.0.0/0", 0), ("0.0.0.0/0", 1), ("203.0.113.0/24", 1)];
    let cases = [
        (links, ON_N3, None, None, n3),
        (links, ON_N9, None, None, n9),
        (links, ON_N9, None, Some("backbone"), n9),
        // A type of an interface that does not lead there is ignored.
        (links, ON_N3, Some(N9_TYPE), None, n3),
        (links, ON_N9, Some(N3_TYPE), None, n9),
        (defaults, ON_N3, None, None, n3),
        (defaults, ON_N9, None, None, n9),
        (defaults, BEHIND_N9, None, None, n9),
        (defaults, NOWHERE, None, None, n3),
        // Type and name go before the longest prefix.
        (defaults, BEHIND_N9, Some(N3_TYPE), None, n3),
        (defaults, ON_N3, Some(N9_TYPE), None, n9),
        (defaults, ON_N3, None, Some("Backbone"), n9),
        (defaults, ON_N9, None, Some("internet"), n3),
    ];
    for (routes, peer, reference, name, wanted) in cases {
        let mut store = both(routes);
        let established = store.establish(OWNER, CP, towards(peer, reference, name)).unwrap();
        let rules = established.delta.rules.unwrap();
        assert_eq!(rules.fars[1].interfaces, wanted, "{peer} {reference:?} {name:?}");
    }
}

#[test]
fn chosen_f_teid_of_an_access_pdr_is_on_n9_by_type_or_network_instance() {
    for (reference, name) in [(Some(N9_TYPE), None), (None, Some("backbone"))] {
        let mut change = towards(ON_N9, None, None);
        change.create_pdrs[0].pdi.interface_type = reference;
        change.create_pdrs[0].pdi.network_instance = name.map(Box::from);
        let established = both(&[]).establish(OWNER, CP, change).unwrap();
        assert_eq!(established.created[0].f_teid.v4, Some(N9));
    }
}

#[test]
fn anchor_without_n3_has_all_its_tunnels_on_n9() {
    let interfaces = vec![
        interface(InterfaceRole::N9, None, N9),
        LocalInterface::of_role(InterfaceRole::N6, Default::default()),
    ];
    let mut store = store_of(interfaces, &[("192.0.9.0/24", 0)]);
    let mut change = towards(ON_N9, Some(N3_TYPE), Some("internet"));
    let mut from_cp = uplink(1);
    from_cp.id = PdrId(3);
    from_cp.qers.clear();
    from_cp.pdi =
        adit_session::PdiSpec { f_teid: Some(CHOOSE), ..pdi(SourceInterface::CpFunction) };
    from_cp.far = Some(FarId(2));
    change.create_pdrs.push(from_cp);
    let established = store.establish(OWNER, CP, change).unwrap();
    assert!(established.created.iter().all(|made| made.f_teid.v4 == Some(N9)));
    assert_eq!(established.created.len(), 2);
}

#[test]
fn tunnel_that_no_route_leads_to_is_refused_and_changes_nothing() {
    let unreachable = |addr| Refusal::TunnelUnreachable { far: FarId(2), addr: IpAddr::V4(addr) };
    let mut store = both(&[]);
    let before = store.clone();
    for addr in [NOWHERE, N9, N3] {
        let refusal = store.establish(OWNER, CP, towards(addr, None, None)).unwrap_err();
        assert_eq!(refusal, unreachable(addr));
    }
    assert_eq!(store, before);
    let mut copies = towards(ON_N3, None, None);
    copies.create_fars[1].action = ApplyAction::FORW.union(ApplyAction::DUPL);
    let to = towards(NOWHERE, None, None).create_fars.remove(1).forwarding;
    copies.create_fars[1].duplicating.extend(to);
    assert_eq!(store.establish(OWNER, CP, copies).unwrap_err(), unreachable(NOWHERE));
    let mut buffers = towards(NOWHERE, None, None);
    buffers.create_fars[1].action = ApplyAction::BUFF;
    let up_seid = store.establish(OWNER, CP, buffers).unwrap().up_seid;
    let forward =
        FarUpdate { id: FarId(2), action: Change::Set(ApplyAction::FORW), ..FarUpdate::default() };
    let change = SessionChange { update_fars: vec![forward], ..SessionChange::default() };
    assert_eq!(store.modify(up_seid, change).unwrap_err(), unreachable(NOWHERE));
}

#[test]
fn tunnel_whose_route_has_gone_refuses_no_other_change() {
    let mut store = both(&[("198.18.0.0/16", 1)]);
    let up_seid = store.establish(OWNER, CP, towards(NOWHERE, None, None)).unwrap().up_seid;
    let gone = both(&[]).provisioning().clone();
    store.set_provisioning(gone);
    let mut change = SessionChange::default();
    change.create_fars.push(far(9, DestinationInterface::Core));
    assert!(store.modify(up_seid, change).is_ok());
    let tunnel = GtpuTunnel { teid: Teid(6), addr: IpAddr::V4(NOWHERE) };
    let forwarding = ForwardingUpdate {
        outer_header_creation: Change::Set(HeaderCreation::Gtpu(tunnel)),
        ..ForwardingUpdate::default()
    };
    let update = FarUpdate { id: FarId(2), forwarding: Some(forwarding), ..FarUpdate::default() };
    let change = SessionChange { update_fars: vec![update], ..SessionChange::default() };
    let refusal = Refusal::TunnelUnreachable { far: FarId(2), addr: IpAddr::V4(NOWHERE) };
    assert_eq!(store.modify(up_seid, change).unwrap_err(), refusal);
}

#[test]
fn session_whose_route_has_gone_is_restored() {
    let mut store = both(&[("198.18.0.0/16", 1)]);
    store.establish(OWNER, CP, towards(NOWHERE, None, None)).unwrap();
    let mut later = both(&[]);
    let mut former = kept(&store, Nanos(1)).remove(0);
    assert!(later.restore(Nanos(1), &mut former).is_ok());
    assert_eq!(later.sessions().count(), 1);
}

#[test]
fn route_that_moves_a_peer_to_another_interface_moves_its_tunnels_and_its_path() {
    let (n3, n9) = (InterfaceSet(0b001), InterfaceSet(0b010));
    let mut store = both(&[]);
    let index = store.establish(OWNER, CP, towards(ON_N3, None, None)).unwrap().delta.session;
    assert_eq!(store.peer_interfaces(ON_N3.into()), n3);
    store.set_provisioning(both(&[("192.0.2.77/32", 1)]).provisioning().clone());
    let rules = store.recompile(index).unwrap().rules.unwrap();
    assert_eq!(rules.fars[1].interfaces, n9);
    assert!(store.peer_interfaces(ON_N3.into()).intersects(n9));
}

#[test]
fn session_for_a_data_network_is_refused_without_n6() {
    let interfaces =
        || vec![interface(InterfaceRole::N3, None, N3), interface(InterfaceRole::N9, None, N9)];
    let mut store = store_of(interfaces(), &[("192.0.0.0/16", 0)]);
    let of = |rule| Refusal::NoDataNetwork { rule };
    let mut change = towards(ON_N3, None, None);
    change.create_pdrs.truncate(1);
    let refusal = store.establish(OWNER, CP, change).unwrap_err();
    assert_eq!(refusal, of(RuleId::Far(FarId(1))));
    let mut change = towards(ON_N3, None, None);
    change.create_pdrs.remove(0);
    change.create_fars.remove(0);
    let refusal = store.establish(OWNER, CP, change).unwrap_err();
    assert_eq!(refusal, of(RuleId::Pdr(PdrId(2))));
}

#[test]
fn gtpu_peer_towards_the_ue_is_on_n9_if_its_tunnels_are() {
    for (peer, n9) in [(ON_N3, false), (ON_N9, true)] {
        let mut store = both(&[]);
        let up_seid = store.establish(OWNER, CP, towards(peer, None, None)).unwrap().up_seid;
        assert_eq!(store.peer_sides(peer.into()), PeerSides { n3: !n9, n9 });
        assert_eq!(store.peers_after(None).count(), 1);
        store.delete(up_seid).unwrap();
        assert_eq!(store.peer_sides(peer.into()), PeerSides::default());
    }
}
