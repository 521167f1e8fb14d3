//! Several interfaces: which ones the tunnels of a rule have, and routing domains.

use core::net::Ipv4Addr;

use adit_rules::{
    ApplyAction, DestinationInterface, GtpuTunnel, HeaderCreation, HeaderRemoval, KeyChange,
    SessionKey, SourceInterface, Steering,
};
use adit_session::{
    Change, ChooseUe, FTeidSpec, FarUpdate, FormerSession, Forwarding, ForwardingUpdate,
    InterfaceType, LocalAddresses, LocalFTeid, LocalInterface, OwnerNodes, PdrSpec, PdrUpdate,
    ProvisionedForwardingPolicy, Provisioning, Refusal, SessionChange, SessionStore, StoreConfig,
    UePool, UeSide,
};
use adit_types::{
    DomainId, FarId, InterfaceId, InterfaceRole, InterfaceSet, Nanos, OWNER_GROUP_SHIFT,
    OWNER_GROUPS, Owners, PdrId, Teid, WorkerId,
};

use crate::builders::*;

const N3_SLICE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 33);
const N9: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 99);
const N4U: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 44);

/// N3 for every name, N3 of "slice", N9, N4-u, N6.
fn five_interfaces() -> SessionStore {
    let interfaces = vec![
        interface(InterfaceRole::N3, None, N3),
        interface(InterfaceRole::N3, Some("slice"), N3_SLICE),
        interface(InterfaceRole::N9, None, N9),
        interface(InterfaceRole::N4u, None, N4U),
        LocalInterface::of_role(InterfaceRole::N6, LocalAddresses::default()),
    ];
    store_with(16, Provisioning { interfaces, ..Provisioning::default() })
}

/// A PDR without anything but a tunnel.
fn tunneled(
    source: SourceInterface,
    name: Option<&str>,
    reference: Option<InterfaceType>,
    f_teid: FTeidSpec,
) -> PdrSpec {
    let mut pdr = uplink(1);
    pdr.id = PdrId(9);
    pdr.qers.clear();
    pdr.pdi = adit_session::PdiSpec {
        f_teid: Some(f_teid),
        network_instance: name.map(Box::from),
        interface_type: reference,
        ..pdi(source)
    };
    pdr
}

#[test]
fn chosen_f_teid_has_the_address_of_the_side_and_the_network_instance() {
    use SourceInterface::{Access, Core};
    let cases = [
        (Access, None, None, N3, 0b0_0001),
        (Access, Some("internet"), None, N3, 0b0_0001),
        (Access, Some("SLICE"), None, N3_SLICE, 0b0_0010),
        (Access, None, Some(15), N9, 0b0_0100),
        (Core, None, None, N9, 0b0_0100),
        (Core, Some("slice"), None, N3_SLICE, 0b0_0010),
    ];
    for (source, name, reference, wanted, interfaces) in cases {
        let mut store = five_interfaces();
        let mut change = session(1);
        change.create_pdrs.push(tunneled(source, name, reference.map(InterfaceType), CHOOSE));
        let established = store.establish(OWNER, CP, change).unwrap();
        let made = established.created.iter().find(|made| made.pdr == PdrId(9)).unwrap();
        assert_eq!(made.f_teid.v4, Some(wanted), "{source:?} {name:?} {reference:?}");
        let rules = established.delta.rules.unwrap();
        let mut entries = rules.uplink.iter().chain(&rules.downlink);
        let entry = entries.find(|entry| entry.id == PdrId(9)).unwrap();
        assert_eq!(entry.interfaces, InterfaceSet(interfaces), "{source:?} {name:?}");
    }
}

#[test]
fn f_teid_of_one_choose_id_has_an_address_of_each_network_instance() {
    let choose = FTeidSpec::Choose { v4: true, v6: false, choose_id: Some(1) };
    let pdr = |name| tunneled(SourceInterface::Access, name, None, choose);
    let mut store = five_interfaces();
    let mut change = session(1);
    change.create_pdrs.push(pdr(Some("slice")));
    let established = store.establish(OWNER, CP, change).unwrap();
    let first = established.created.iter().find(|made| made.pdr == PdrId(9)).unwrap().f_teid;
    assert_eq!(first.v4, Some(N3_SLICE));
    for (id, name, addr) in [(10, "internet", N3), (11, "slice", N3_SLICE)] {
        let create_pdrs = vec![PdrSpec { id: PdrId(id), ..pdr(Some(name)) }];
        let change = SessionChange { create_pdrs, ..SessionChange::default() };
        let created = store.modify(established.up_seid, change).unwrap().created;
        assert_eq!(created[0].f_teid, LocalFTeid { v4: Some(addr), ..first }, "{name}");
    }
    let now = Nanos::from_secs(1);
    let octets = store.kept(now, established.up_seid).unwrap().octets();
    let mut former = FormerSession::from_octets(&octets).unwrap();
    assert!(five_interfaces().restore(now, &mut former).is_ok());
}

#[test]
fn given_f_teid_is_ours_on_an_interface_of_the_network_instance() {
    let given = |v4| FTeidSpec::Given { teid: Teid(0x77), v4: Some(v4), v6: None };
    let establish = |name, v4| {
        let mut change = session(1);
        change.create_pdrs.push(tunneled(SourceInterface::Access, name, None, given(v4)));
        five_interfaces().establish(OWNER, CP, change).map(|_| ())
    };
    assert_eq!(establish(None, N9), Ok(()));
    assert_eq!(establish(Some("slice"), N3_SLICE), Ok(()));
    let foreign =
        |addr: Ipv4Addr| Err(Refusal::ForeignAddress { pdr: PdrId(9), addr: addr.into() });
    assert_eq!(establish(Some("internet"), N3_SLICE), foreign(N3_SLICE));
    let unknown = Ipv4Addr::new(192, 0, 2, 200);
    assert_eq!(establish(None, unknown), foreign(unknown));
}

#[test]
fn tunnel_leaves_through_the_interfaces_of_its_side() {
    use DestinationInterface::{Access, Core};
    let cases = [
        (Access, None, 0b0_0011),
        (Access, Some("slice"), 0b0_0010),
        (Access, Some("internet"), 0b0_0001),
        (Core, None, 0b0_0100),
        (Core, Some("slice"), 0b0_0010),
    ];
    for (destination, name, wanted) in cases {
        let mut store = five_interfaces();
        let mut change = session(1);
        let far = change.create_fars.iter_mut().find(|far| far.id == FarId(2)).unwrap();
        let parts = far.forwarding.as_mut().unwrap();
        parts.destination = destination;
        parts.network_instance = name.map(Box::from);
        let established = store.establish(OWNER, CP, change).unwrap();
        let rules = established.delta.rules.unwrap();
        let far = rules.fars.iter().find(|far| far.id == FarId(2)).unwrap();
        assert_eq!(far.interfaces, InterfaceSet(wanted), "{destination:?} {name:?}");
    }
}

#[test]
fn family_of_a_tunnel_is_one_of_its_side() {
    let mut store = five_interfaces();
    let mut change = session(1);
    let tunnel = GtpuTunnel { teid: Teid(7), addr: "2001:db8::7".parse().unwrap() };
    let far = change.create_fars.iter_mut().find(|far| far.id == FarId(2)).unwrap();
    far.forwarding.as_mut().unwrap().outer_header_creation = Some(HeaderCreation::Gtpu(tunnel));
    let refusal = store.establish(OWNER, CP, change).unwrap_err();
    assert_eq!(refusal, Refusal::TunnelFamilyUnavailable { far: FarId(2) });
}

/// N3 for every name, and N6 of two data networks with domains of their own. Both have the same
/// pool.
fn two_domains() -> SessionStore {
    let n6 = |name: &str, domain| LocalInterface {
        network_instance: Some(name.into()),
        domain: DomainId(domain),
        local_switching: true,
        ..LocalInterface::of_role(InterfaceRole::N6, LocalAddresses::default())
    };
    let n3 = LocalAddresses { v4: Some(N3), v6: None };
    let interfaces =
        vec![LocalInterface::of_role(InterfaceRole::N3, n3), n6("internet", 0), n6("corp", 1)];
    let pool = |name: &str| UePool {
        network_instance: Some(name.into()),
        identity: None,
        s_nssai: None,
        prefix: adit_rules::sdf::AddrMatch::V4("10.60.0.0/29".parse().unwrap()),
    };
    let ue_pools = vec![pool("internet"), pool("corp")];
    store_with(16, Provisioning { interfaces, ue_pools, ..Provisioning::default() })
}

/// A session of UE `last` whose rules towards the data network name it.
fn session_in(last: u8, name: Option<&str>) -> SessionChange {
    let mut change = session(last);
    change.create_pdrs[1].pdi.network_instance = name.map(Box::from);
    let forwarding = change.create_fars[0].forwarding.as_mut().unwrap();
    forwarding.network_instance = name.map(Box::from);
    change
}

/// A routing domain that a running node gets: who names it uses it, and nobody else's keys change.
#[test]
fn added_network_instance_is_for_rules_that_name_it() {
    let mut store = two_domains();
    let unnamed = store.establish(OWNER, CP, session_in(1, None)).unwrap();
    let refusal = store.establish(OWNER, CP, session_in(2, Some("ims"))).unwrap_err();
    assert!(matches!(refusal, Refusal::UnknownNetworkInstance { .. }), "{refusal:?}");
    let mut provisioning = store.provisioning().clone();
    let ims = LocalInterface {
        network_instance: Some("ims".into()),
        domain: DomainId(2),
        ..LocalInterface::of_role(InterfaceRole::N6, LocalAddresses::default())
    };
    provisioning.interfaces.push(ims);
    store.set_provisioning(provisioning.clone());
    // The same again changes nothing.
    store.set_provisioning(provisioning);
    let again = store.recompile(unnamed.delta.session);
    assert!(again.is_none_or(|delta| delta.keys.is_empty()));
    let key = |domain, last| SessionKey::UeIpv4(DomainId(domain), ue(last));
    let named = store.establish(OWNER, CP, session_in(1, Some("ims"))).unwrap();
    let added = |keys: &[KeyChange], of| keys.contains(&KeyChange::Add(of));
    let is_in = [0, 1, 2].map(|domain| added(&named.delta.keys, key(domain, 1)));
    assert_eq!(is_in, [false, false, true]);
    let fars = named.delta.rules.unwrap().fars;
    assert!(
        fars[0].interfaces.contains(InterfaceId(3)) && !fars[0].interfaces.contains(InterfaceId(1))
    );
    let later = store.establish(OWNER, CP, session_in(3, None)).unwrap();
    let is_in = [0, 1, 2].map(|domain| added(&later.delta.keys, key(domain, 3)));
    assert_eq!(is_in, [true, true, false]);
    let fars = later.delta.rules.unwrap().fars;
    assert!(!fars[0].interfaces.contains(InterfaceId(3)), "{:?}", fars[0].interfaces);
    let gone = store.delete(unnamed.up_seid).unwrap();
    let removed = |of| gone.keys.contains(&KeyChange::Remove(of));
    assert_eq!([0, 1, 2].map(|domain| removed(key(domain, 1))), [true, true, false]);
}

#[test]
fn same_ue_address_in_two_network_instances_is_two_ues() {
    let mut store = two_domains();
    let key = |domain| KeyChange::Add(SessionKey::UeIpv4(DomainId(domain), ue(1)));
    let first = store.establish(OWNER, CP, session_in(1, Some("internet"))).unwrap();
    assert!(first.delta.keys.contains(&key(0)) && !first.delta.keys.contains(&key(1)));
    let second = store.establish(OWNER, CP, session_in(1, Some("Corp"))).unwrap();
    assert!(second.delta.keys.contains(&key(1)) && !second.delta.keys.contains(&key(0)));
    // Within one instance, and without a name in any, the address is taken.
    for name in [Some("corp"), Some("internet"), None] {
        let refusal = store.establish(OWNER, CP, session_in(1, name)).unwrap_err();
        assert!(matches!(refusal, Refusal::UeAddressTaken { .. }), "{name:?}: {refusal:?}");
    }
    let gone = store.delete(first.up_seid).unwrap();
    assert!(gone.keys.contains(&KeyChange::Remove(SessionKey::UeIpv4(DomainId(0), ue(1)))));
    store.establish(OWNER, CP, session_in(1, Some("internet"))).unwrap();
}

#[test]
fn tunnel_that_is_chosen_takes_no_address_of_another_session() {
    let mut store = two_domains();
    store.establish(OWNER, CP, session_in(1, Some("corp"))).unwrap();
    // Without a rule for packets without a tunnel, names of the session are of all domains.
    let mut change = session_in(1, Some("internet"));
    change.create_pdrs[1].pdi.f_teid =
        Some(FTeidSpec::Choose { v4: true, v6: false, choose_id: None });
    change.create_pdrs[1].outer_header_removal = Some(HeaderRemoval::GtpuUdpIp);
    change.create_fars[0].forwarding.as_mut().unwrap().network_instance = None;
    let refusal = store.establish(OWNER, CP, change).unwrap_err();
    assert!(matches!(refusal, Refusal::UeAddressTaken { .. }), "{refusal:?}");
}

#[test]
fn rules_without_a_network_instance_are_of_every_domain() {
    let mut store = two_domains();
    let made = store.establish(OWNER, CP, session_in(1, None)).unwrap();
    for domain in [0, 1] {
        let key = SessionKey::UeIpv4(DomainId(domain), ue(1));
        assert!(made.delta.keys.contains(&KeyChange::Add(key)), "{domain}");
    }
    for name in ["internet", "corp"] {
        assert!(store.establish(OWNER, CP, session_in(1, Some(name))).is_err(), "{name}");
    }
}

#[test]
fn rule_without_a_network_instance_is_of_that_of_its_session() {
    // Which rule has the name: the downlink PDR, or the uplink FAR.
    for of_pdr in [true, false] {
        let mut store = two_domains();
        let mut change = session_in(1, Some("corp"));
        match of_pdr {
            true => change.create_fars[0].forwarding.as_mut().unwrap().network_instance = None,
            false => change.create_pdrs[1].pdi.network_instance = None,
        }
        let made = store.establish(OWNER, CP, change).unwrap();
        let key = |domain| KeyChange::Add(SessionKey::UeIpv4(DomainId(domain), ue(1)));
        assert!(made.delta.keys.contains(&key(1)) && !made.delta.keys.contains(&key(0)));
        let rules = made.delta.rules.unwrap();
        let n6 = InterfaceSet(0b110);
        assert_eq!(rules.fars[0].interfaces.intersection(n6), InterfaceSet(0b100), "{of_pdr}");
        let arrival = rules.downlink[0].interfaces;
        assert_eq!(arrival.intersection(n6), InterfaceSet(0b100), "{of_pdr}");
    }
}

#[test]
fn packets_between_ues_turn_round_as_interfaces_and_policies_say() {
    let n6 = |local_switching| LocalInterface {
        local_switching,
        ..LocalInterface::of_role(InterfaceRole::N6, LocalAddresses::default())
    };
    let n3 = LocalAddresses { v4: Some(N3), v6: None };
    let n3 = LocalInterface::of_role(InterfaceRole::N3, n3);
    let policy = |id: &str, local_switching| ProvisionedForwardingPolicy {
        id: id.into(),
        network_instance: None,
        steering: Steering::default(),
        dscp: None,
        local_switching,
    };
    let (on, off) = (InterfaceSet(0b10), InterfaceSet::NONE);
    for (interface, id, expected) in [
        (true, None, on),
        (false, None, off),
        (true, Some("silent"), on),
        (false, Some("silent"), off),
        (true, Some("outside"), off),
        (false, Some("inside"), on),
    ] {
        let policies = [("silent", None), ("outside", Some(false)), ("inside", Some(true))];
        let policies = policies.map(|(id, switching)| policy(id, switching)).to_vec();
        let interfaces = vec![n3.clone(), n6(interface)];
        let provisioning = Provisioning { interfaces, policies, ..Provisioning::default() };
        let mut store = store_with(16, provisioning);
        let mut change = session(1);
        change.create_fars[0].forwarding.as_mut().unwrap().policy = id.map(Box::from);
        change.create_fars[0].action |= ApplyAction::DUPL;
        change.create_fars[0].duplicating = vec![Forwarding::new(DestinationInterface::Core)];
        let rules = store.establish(OWNER, CP, change).unwrap().delta.rules.unwrap();
        assert_eq!(rules.fars[0].local_switching, expected, "{interface} {id:?}");
        assert_eq!(rules.fars[1].local_switching, off, "towards the RAN");
        assert_eq!(rules.fars[2].local_switching, off, "of a copy");
    }
}

#[test]
fn session_moves_to_another_network_instance() {
    let mut store = two_domains();
    let made = store.establish(OWNER, CP, session_in(1, Some("internet"))).unwrap();
    let other = store.establish(OWNER, CP, session_in(2, Some("corp"))).unwrap();
    let update = |last| SessionChange {
        update_fars: vec![FarUpdate {
            forwarding: Some(ForwardingUpdate {
                network_instance: Change::Set("corp".into()),
                ..ForwardingUpdate::default()
            }),
            id: FarId(1),
            ..FarUpdate::default()
        }],
        update_pdrs: vec![PdrUpdate {
            pdi: Some(session_in(last, Some("corp")).create_pdrs[1].pdi.clone()),
            id: PdrId(2),
            ..PdrUpdate::default()
        }],
        ..SessionChange::default()
    };
    let keys = store.modify(made.up_seid, update(1)).unwrap().delta.unwrap().keys;
    let key = |domain| SessionKey::UeIpv4(DomainId(domain), ue(1));
    assert_eq!(keys, [KeyChange::Remove(key(0)), KeyChange::Add(key(1))]);
    let refusal = store.modify(made.up_seid, update(2)).unwrap_err();
    assert!(matches!(refusal, Refusal::UeAddressTaken { .. }), "{refusal:?}");
    store.delete(other.up_seid).unwrap();
    store.establish(OWNER, CP, session_in(1, Some("internet"))).unwrap();
}

#[test]
fn address_chosen_for_a_session_is_of_a_pool_of_its_domains_and_given_back() {
    // The uplink PDR makes the request in the name of the other network instance, or in none.
    for (name, is_given) in [(Some("internet"), false), (Some("corp"), true), (None, true)] {
        let mut store = two_domains();
        let mut change = session_in(1, Some("corp"));
        change.create_pdrs[1].pdi.ue = None;
        let pdi = &mut change.create_pdrs[0].pdi;
        pdi.ue = None;
        pdi.network_instance = name.map(Box::from);
        pdi.choose_ue =
            Some(ChooseUe { v4: true, v6: false, side: UeSide::Source, pools: Vec::new() });
        match store.establish(OWNER, CP, change) {
            Ok(made) => {
                assert!(is_given, "{name:?}");
                store.reclaim(made.index);
                store.delete(made.up_seid).unwrap();
                store.reclaim(made.index);
            }
            Err(refusal) => {
                assert!(!is_given, "{name:?}: {refusal:?}");
                assert!(matches!(refusal, Refusal::NoUePool { .. }), "{refusal:?}");
            }
        }
        assert_eq!(store.reserved().ues, 0, "{name:?}");
    }
}

#[test]
fn ue_address_is_chosen_from_the_pool_of_the_network_instance() {
    let mut store = two_domains();
    let mut chosen = |name: &str| {
        let mut change = session_in(1, Some(name));
        change.create_pdrs[0].pdi.ue = None;
        change.create_pdrs[1].pdi.ue = None;
        let pools = Vec::new();
        change.create_pdrs[1].pdi.choose_ue =
            Some(ChooseUe { v4: true, v6: false, side: UeSide::Destination, pools });
        let made = store.establish(OWNER, CP, change).unwrap();
        (made.up_seid, made.index, made.created_ues[0].addresses.v4)
    };
    let (seid, index, first) = chosen("internet");
    let (_, _, second) = chosen("corp");
    assert_eq!(first, second, "each instance begins with the first address of its own pool");
    assert_ne!(chosen("corp").2, second);
    // Addresses that one instance gives back are not free in the other.
    store.reclaim(index);
    store.delete(seid).unwrap();
    store.reclaim(index);
    assert_eq!(store.reserved().ues, 2);
}

#[test]
fn new_session_is_owned_on_the_node_of_the_port_that_its_tunnel_ends_at() {
    use SourceInterface::{Access, Core};
    let owners = Owners::new(2);
    let ports = [Some(0), Some(1), Some(1), None, Some(0)];
    let owner_nodes = OwnerNodes::new(|group| Some(owners.of_group(group).0.into()), &ports);
    let provisioning = five_interfaces().provisioning().clone();
    let config = StoreConfig { sessions_max: 256, provisioning, seed: 1, owner_nodes };
    let mut store = SessionStore::new(config);
    let given = |v4| FTeidSpec::Given { teid: Teid(0x77), v4: Some(v4), v6: None };
    let mut host = 0;
    for _ in 0..10 {
        for (pdrs, node) in [
            (vec![tunneled(Access, None, None, CHOOSE)], 0),
            (vec![tunneled(Access, Some("slice"), None, CHOOSE)], 1),
            (vec![tunneled(Access, None, None, given(N3_SLICE))], 1),
            (vec![tunneled(Core, None, None, CHOOSE)], 1),
            (vec![tunneled(Core, None, None, CHOOSE), tunneled(Access, None, None, CHOOSE)], 0),
        ] {
            host += 1;
            let mut change = session(host);
            change.create_pdrs.remove(0);
            change.create_pdrs.extend(pdrs);
            let ids = (1..).map(PdrId);
            change.create_pdrs.iter_mut().zip(ids).for_each(|(pdr, id)| pdr.id = id);
            let made = store.establish(OWNER, CP, change).unwrap();
            assert_eq!(owners.of(made.index), WorkerId(node), "session {host}");
            for pdr in &made.created {
                let group = |number: u32| number >> OWNER_GROUP_SHIFT & (OWNER_GROUPS - 1);
                assert_eq!(group(pdr.f_teid.teid.0), group(made.index.0), "the NIC finds it");
            }
            // A given TEID is given again.
            if host % 2 == 0 || made.created.is_empty() {
                store.delete(made.up_seid).unwrap();
                store.reclaim(made.index);
            }
        }
    }
}
