//! Rules from and to the CP function, and the direction that FARs give to packets of the RAN and of
//! the CP function. Spec: TS 29.244 §5.3; TS 23.502 §4.9.1.3.

use adit_rules::{
    ApplyAction, DestinationInterface, HeaderCreation, SessionRules, SourceInterface, TunnelSide,
};
use adit_session::{
    Change, FTeidSpec, Far, FarUpdate, Forwarding, ForwardingUpdate, PdiSpec, PdrSpec, Refusal,
    SessionChange, SessionStore, UeMatch, UeSide,
};
use adit_types::{Direction, FarId, PdrId, Precedence, Seid, Teid};

use crate::builders::*;

const SHARED: FTeidSpec = FTeidSpec::Choose { v4: true, v6: true, choose_id: Some(5) };

/// The rules that Open5GS 2.7.7 establishes for every PDU session.
fn open5gs() -> SessionChange {
    let choosing = |pdr: PdrSpec, f_teid| {
        let pdi = PdiSpec { f_teid: Some(f_teid), ue: None, ..pdr.pdi };
        PdrSpec { pdi, ..pdr }
    };
    let up = choosing(PdrSpec { id: PdrId(2), far: Some(FarId(2)), ..uplink(1) }, SHARED);
    let down = PdrSpec { id: PdrId(1), far: Some(FarId(1)), ..downlink(1) };
    let from_cp = PdrSpec {
        id: PdrId(3),
        precedence: Precedence(50),
        pdi: PdiSpec {
            f_teid: Some(FTeidSpec::Choose { v4: true, v6: true, choose_id: None }),
            ..pdi(SourceInterface::CpFunction)
        },
        outer_header_removal: up.outer_header_removal,
        qers: Vec::new(),
        ..down.clone()
    };
    let mut to_cp = PdrSpec {
        id: PdrId(4),
        precedence: Precedence(50),
        far: Some(FarId(3)),
        qers: Vec::new(),
        ..up.clone()
    };
    to_cp.pdi.sdf.push(flow("permit out 58 from ff02::2/128 to assigned"));
    to_cp.pdi.qfis.clear();
    let buffering = ApplyAction::BUFF | ApplyAction::NOCP;
    let unknown = Far { action: buffering, forwarding: None, ..far(1, DestinationInterface::Core) };
    SessionChange {
        create_pdrs: vec![down, up, from_cp, to_cp],
        create_fars: vec![unknown, far(2, DestinationInterface::Core), to_smf(3)],
        create_qers: vec![qer(1)],
        ..SessionChange::default()
    }
}

fn to_smf(id: u32) -> Far {
    let forwarding = Forwarding {
        outer_header_creation: Some(tunnel(7)),
        ..Forwarding::new(DestinationInterface::CpFunction)
    };
    Far { forwarding: Some(forwarding), ..far(id, DestinationInterface::Core) }
}

fn lead(far: u32, destination: DestinationInterface) -> SessionChange {
    let update = ForwardingUpdate {
        destination: Change::Set(destination),
        outer_header_creation: Change::Set(tunnel(8)),
        ..ForwardingUpdate::default()
    };
    let update = FarUpdate {
        id: FarId(far),
        action: Change::Set(ApplyAction::FORW),
        forwarding: Some(update),
        ..FarUpdate::default()
    };
    SessionChange { update_fars: vec![update], ..SessionChange::default() }
}

fn establish(store: &mut SessionStore, change: SessionChange) -> (Seid, SessionRules) {
    let established = store.establish(OWNER, CP, change).unwrap();
    (established.up_seid, *established.delta.rules.unwrap())
}

fn modify(store: &mut SessionStore, seid: Seid, change: SessionChange) -> SessionRules {
    *store.modify(seid, change).unwrap().delta.unwrap().rules.unwrap()
}

fn ids(rules: &SessionRules, direction: Direction) -> Vec<u16> {
    rules.pdrs(direction).iter().map(|pdr| pdr.id.0).collect()
}

const CP_DOWNLINK: TunnelSide =
    TunnelSide { source: SourceInterface::CpFunction, direction: Direction::Downlink };

#[test]
fn session_of_open5gs_is_established_with_its_three_f_teids() {
    let established = store(4).establish(OWNER, CP, open5gs()).unwrap();
    let f_teid = |pdr: u16| {
        let created = established.created.iter().find(|created| created.pdr == PdrId(pdr));
        created.map(|created| created.f_teid)
    };
    assert_eq!(f_teid(1), None);
    assert!(f_teid(2).is_some() && f_teid(3).is_some());
    assert_eq!(f_teid(2), f_teid(4), "one CHOOSE ID");
    assert_ne!(f_teid(2), f_teid(3));
    let rules = established.delta.rules.unwrap();
    assert_eq!(ids(&rules, Direction::Uplink), [4, 2]);
    assert_eq!(ids(&rules, Direction::Downlink), [3, 1]);
    assert_eq!(rules.tunnel_sides, [(f_teid(3).unwrap().teid, CP_DOWNLINK)]);
    assert_eq!(rules.tunnel_side(f_teid(2).unwrap().teid), TunnelSide::RAN);
}

#[test]
fn tunnel_of_the_cp_function_has_the_direction_of_its_far() {
    let mut store = store(4);
    let (seid, rules) = establish(&mut store, open5gs());
    let [(teid, _)] = rules.tunnel_sides[..] else { unreachable!() };
    let rules = modify(&mut store, seid, lead(1, DestinationInterface::Access));
    assert_eq!(rules.tunnel_sides, [(teid, CP_DOWNLINK)]);
    // Now PDR 3 leads to the data network, and so do the packets of PDR 1, which stay downlink.
    let rules = modify(&mut store, seid, lead(1, DestinationInterface::SgiLanN6Lan));
    let uplink = TunnelSide { direction: Direction::Uplink, ..CP_DOWNLINK };
    assert_eq!(rules.tunnel_sides, [(teid, uplink)]);
    assert_eq!(ids(&rules, Direction::Uplink), [3, 4, 2]);
    assert_eq!(ids(&rules, Direction::Downlink), [1]);
}

#[test]
fn tunnel_of_the_cp_function_that_leads_both_ways_is_refused() {
    let mut change = open5gs();
    let mut second = change.create_pdrs[2].clone();
    (second.id, second.far) = (PdrId(9), Some(FarId(2)));
    change.create_pdrs[2].pdi.f_teid = Some(given(0x77));
    second.pdi.f_teid = Some(given(0x77));
    change.create_pdrs.push(second);
    // While FAR 1 has no destination, all of the tunnel leads to the data network.
    let mut store = store(4);
    let (seid, _) = establish(&mut store, change);
    let refusal = store.modify(seid, lead(1, DestinationInterface::Access)).unwrap_err();
    let teid = Teid(0x77);
    assert_eq!(refusal, Refusal::FTeidDirectionsDiffer { pdr: PdrId(3), teid });
}

#[test]
fn far_to_the_cp_function_needs_a_gtpu_tunnel() {
    let far = FarId(3);
    let with = |header| {
        let mut change = open5gs();
        change.create_fars[2].forwarding.as_mut().unwrap().outer_header_creation = header;
        store(4).establish(OWNER, CP, change).unwrap_err()
    };
    assert_eq!(with(None), Refusal::FarWithoutOuterHeader { far });
    let addr = GNB.into();
    let udp = HeaderCreation::Udp { addr, port: 5000 };
    assert_eq!(with(Some(udp)), Refusal::TunnelInvalid { far });
    assert_eq!(with(Some(HeaderCreation::Ip { addr })), Refusal::TunnelInvalid { far });
}

#[test]
fn tunnel_from_the_ran_back_to_the_ran_is_downlink_and_may_name_the_ue_as_destination() {
    let mut store = store(4);
    let (seid, _) = establish(&mut store, session(1));
    let forwarded = PdrSpec {
        id: PdrId(7),
        pdi: PdiSpec {
            f_teid: Some(given(0x77)),
            ue: Some(UeMatch { side: UeSide::Destination, ..ue_match(1, UeSide::Destination) }),
            qfis: Vec::new(),
            ..pdi(SourceInterface::Access)
        },
        far: Some(FarId(7)),
        ..uplink(1)
    };
    let change = SessionChange {
        create_pdrs: vec![forwarded],
        create_fars: vec![far(7, DestinationInterface::Access)],
        ..SessionChange::default()
    };
    let rules = modify(&mut store, seid, change);
    let side = TunnelSide { source: SourceInterface::Access, direction: Direction::Downlink };
    assert_eq!(rules.tunnel_sides, [(Teid(0x77), side)]);
    assert_eq!(ids(&rules, Direction::Downlink), [2, 7]);
    assert_eq!(ids(&rules, Direction::Uplink), [1]);
}

#[test]
fn tunnel_from_the_ran_with_one_rule_back_to_the_ran_stays_uplink() {
    let mut change = session(1);
    change.create_pdrs[0].pdi.f_teid = Some(given(0x77));
    let mut local = change.create_pdrs[0].clone();
    (local.id, local.far) = (PdrId(7), Some(FarId(2)));
    change.create_pdrs.push(local);
    let (_, rules) = establish(&mut store(4), change);
    assert_eq!(rules.tunnel_sides, []);
    assert_eq!(ids(&rules, Direction::Uplink), [1, 7]);
}
