//! Routes and rules that the operator changes between the packets of a session.

use core::net::{IpAddr, Ipv4Addr};

use adit_n4::NodeConfig;
use adit_rules::DropReason;
use adit_session::{
    PredefinedAction, PredefinedDetection, PredefinedRule, Provisioning, StoreConfig,
    parse_flow_description,
};
use adit_tables::{Route, RoutesConfig, TablesError};
use adit_tests::world::station_mac;
use adit_types::{InterfaceId, PortId, Teid};

use super::{GATEWAY, UpfInMemory, accepted, downlink, smf, uplink};

const OTHER_GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 6, 9);
const BURST: usize = 40;

fn through(gateway: Ipv4Addr) -> Route {
    let prefix = adit_types::IpPrefix::V4("0.0.0.0/0".parse().unwrap());
    Route { interface: InterfaceId(1), prefix, next_hop: gateway.into() }
}

fn routes(upf: &UpfInMemory, gateways: &[Ipv4Addr]) -> RoutesConfig {
    RoutesConfig {
        interfaces: upf.control.publisher.interfaces().to_vec(),
        local_switching_domains: Vec::new(),
        routes: gateways.iter().map(|gateway| through(*gateway)).collect(),
    }
}

fn session(upf: &mut UpfInMemory) -> (smf::SessionScript, Teid) {
    upf.associate();
    let script = smf::SessionScript::new(0x11, 1);
    let (_, teid) = accepted(&upf.ask(&smf::establish(2, &script)));
    (script, teid)
}

/// The gateways to which a burst of uplink packets leaves.
fn gateways_of_burst(
    upf: &mut UpfInMemory,
    script: &smf::SessionScript,
    teid: Teid,
) -> Vec<[u8; 6]> {
    for _ in 0..BURST {
        upf.io.inject(PortId(0), &uplink(script, teid));
    }
    // A step takes less than that.
    let frames: Vec<_> = (0..3).flat_map(|_| upf.turn().1).collect();
    frames.iter().map(|frame| frame[..6].try_into().unwrap()).collect()
}

#[test]
fn routes_change_between_bursts_and_no_packet_is_lost_or_follows_the_former_ones() {
    let mut upf = UpfInMemory::new();
    upf.alive.push(OTHER_GATEWAY);
    let (script, teid) = session(&mut upf);
    for round in 0..20 {
        let gateway = if round % 2 == 0 { OTHER_GATEWAY } else { GATEWAY };
        let former = if round % 2 == 0 { GATEWAY } else { OTHER_GATEWAY };
        let all_to = |addr: Ipv4Addr| vec![station_mac(IpAddr::V4(addr)); BURST];
        assert_eq!(gateways_of_burst(&mut upf, &script, teid), all_to(former));
        let routes = routes(&upf, &[gateway]);
        let routes = upf.control.publisher.prepare_routes(routes).unwrap();
        while upf.control.publisher.unresolved_gateway(&routes).is_some() {
            assert_eq!(gateways_of_burst(&mut upf, &script, teid), all_to(former));
        }
        upf.control.publisher.publish_routes(routes);
        assert_eq!(gateways_of_burst(&mut upf, &script, teid), all_to(gateway), "round {round}");
    }
    let counts = upf.control.publisher.snapshot();
    assert_eq!(counts.drops.iter().sum::<u64>(), 0);
    assert!(counts.identity_holds());
}

#[test]
fn routes_with_a_mistake_or_given_up_change_nothing() {
    let mut upf = UpfInMemory::new();
    upf.alive.push(OTHER_GATEWAY);
    let (script, teid) = session(&mut upf);
    let next_hops = |upf: &mut UpfInMemory| {
        upf.settle();
        upf.control.publisher.next_hop_count()
    };
    let before = next_hops(&mut upf);
    let far = Ipv4Addr::new(192, 0, 2, 1);
    let prepare = |upf: &mut UpfInMemory, gateways: &[Ipv4Addr]| {
        let routes = routes(upf, gateways);
        upf.control.publisher.prepare_routes(routes)
    };
    let refused = prepare(&mut upf, &[OTHER_GATEWAY, far]);
    assert_eq!(refused.unwrap_err(), TablesError::NextHopOffLink(through(far)));
    let twice = prepare(&mut upf, &[OTHER_GATEWAY, GATEWAY]);
    assert!(matches!(twice.unwrap_err(), TablesError::DuplicateRoute(_)));
    let routes = prepare(&mut upf, &[OTHER_GATEWAY]).unwrap();
    upf.control.publisher.discard_routes(routes);
    assert_eq!(next_hops(&mut upf), before, "no gateway is left behind");
    let all = gateways_of_burst(&mut upf, &script, teid);
    assert_eq!(all, vec![station_mac(IpAddr::V4(GATEWAY)); BURST]);
}

fn with_rules(rules: Vec<PredefinedRule>) -> NodeConfig {
    let config = smf::config();
    let provisioning = Provisioning { predefined_rules: rules, ..config.store.provisioning };
    NodeConfig { store: StoreConfig { provisioning, ..config.store }, ..config }
}

fn rule(action: PredefinedAction) -> PredefinedRule {
    let filter = parse_flow_description("permit out 17 from any to any").unwrap();
    PredefinedRule {
        name: "udp".into(),
        group: None,
        precedence: None,
        detection: PredefinedDetection::Filters(vec![filter].into()),
        action,
        qfi: None,
    }
}

#[test]
fn sessions_get_changed_rules_and_a_pdr_without_a_far_never_forwards() {
    let mut upf = UpfInMemory::with(with_rules(vec![rule(PredefinedAction::Drop)]));
    upf.associate();
    let script = smf::SessionScript::new(0x11, 1);
    let establish = |far| {
        smf::establish_with(2, &script, move |body| {
            let mut pdrs: Vec<_> = body.create_pdrs.iter().collect();
            let names = [adit_pfcp::ie::ActivatePredefinedRules(b"udp")];
            pdrs[1].activate_predefined_rules = smf::list(names).into();
            pdrs[1].far_id = pdrs[1].far_id.filter(|_| far);
            body.create_pdrs = Vec::leak(pdrs)[..].into();
        })
    };
    let (seid, _) = accepted(&upf.ask(&establish(true)));
    let arrives = |upf: &mut UpfInMemory, rules: Option<Vec<PredefinedRule>>| {
        if let Some(rules) = rules {
            upf.control.node.reconfigure(upf.now, with_rules(rules), true);
            upf.settle();
        }
        upf.io.inject(PortId(1), &downlink(&script));
        upf.settle().1.len()
    };
    assert_eq!(arrives(&mut upf, None), 0, "the rule drops");
    assert_eq!(arrives(&mut upf, Some(vec![rule(PredefinedAction::Forward)])), 1);
    assert_eq!(arrives(&mut upf, Some(Vec::new())), 0, "no rule has it");
    assert_eq!(arrives(&mut upf, Some(vec![rule(PredefinedAction::Drop)])), 0);
    upf.ask(&smf::delete(3, seid));
    // A PDR whose rules all drop needs no FAR.
    upf.control.node.handle_datagram(upf.now, smf::smf(10), &establish(false));
    let (answers, _) = upf.settle();
    accepted(&answers[0].bytes);
    assert_eq!(arrives(&mut upf, Some(vec![rule(PredefinedAction::Forward)])), 0, "nowhere to go");
    assert!(upf.dropped(DropReason::FarDrop) > 0);
    assert_eq!(upf.control.node.counters().scalars.faults, 0);
}
