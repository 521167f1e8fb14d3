//! A card in memory in front of the workers: volume limits, refusals, and stations that change.

use core::net::IpAddr;

use adit_rules::OffloadChoice;
use adit_session::{
    FTeidSpec, MeasurementMethod, SessionChange, Urr, UrrSettings, UsageTriggers, Volumes,
};
use adit_testkit::packet::PacketBuilder;
use adit_tests::oracle::OracleRoute;
use adit_tests::world::{CardSettings, InjectedFrame, World};
use adit_tests::{scenario, traffic};
use adit_types::{MacAddr, Nanos, Seid, UrrId};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Octets of a packet at most; a step has one.
const PACKET_BYTES: u64 = 260;

const CHOICE: OffloadChoice = OffloadChoice {
    sessions_max: 4,
    enter_pps: 100,
    leave_pps: 50,
    calm: Nanos::from_millis(50),
    scan: Nanos::from_millis(4),
    watch: Nanos::from_millis(1),
    watch_bytes: PACKET_BYTES,
};

const SETTINGS: CardSettings = CardSettings { flows: 1000, refuses_one_in: 0, choice: CHOICE };

fn world(settings: CardSettings) -> World {
    scenario::world_with_card(&scenario::plain_layout(0), settings)
}

/// A session whose packets URR 1 counts in both directions.
fn limited(threshold: u64, quota: Option<u64>) -> SessionChange {
    let octets = |total: u64| Some(Volumes { total: Some(total), ..Volumes::default() });
    let method = MeasurementMethod { volume: true, ..MeasurementMethod::default() };
    let settings = UrrSettings {
        volume_threshold: octets(threshold),
        volume_quota: quota.and_then(octets),
        ..UrrSettings::default()
    };
    let triggers = UsageTriggers::VOLUME_THRESHOLD | UsageTriggers::VOLUME_QUOTA;
    let mut change = scenario::plain_session(1, "10.0.3.1");
    change.create_urrs = vec![Urr { id: UrrId(1), method, triggers, settings }];
    change.create_pdrs.iter_mut().for_each(|pdr| pdr.urrs = vec![UrrId(1)]);
    change
}

fn establish(world: &mut World, change: &SessionChange) -> Seid {
    let seid = world.establish(change).unwrap();
    world.exchange(&[]).unwrap();
    seid
}

/// A packet of a session from the UE to a host, or from the host to the UE.
fn packet(
    world: &World,
    is_uplink: bool,
    [ue, host]: [IpAddr; 2],
    payload: usize,
) -> InjectedFrame {
    let interface = world.oracle.interfaces[usize::from(!is_uplink)];
    let frame = PacketBuilder::ethernet(MacAddr(interface.mac), MacAddr([2, 0xaa, 0, 0, 0, 1]));
    let frame = if is_uplink {
        let teids = world.oracle.sessions[0].1.pdrs.iter().find_map(|pdr| pdr.pdi.f_teid);
        let Some(FTeidSpec::Given { teid, .. }) = teids else { panic!("no tunnel") };
        frame.ipv4("10.0.3.1", interface.v4.0).gtpu(teid.0).psc_ul(9)
    } else {
        frame
    };
    let frame = match if is_uplink { (ue, host) } else { (host, ue) } {
        (IpAddr::V4(src), IpAddr::V4(dst)) => frame.ipv4(src, dst),
        (IpAddr::V6(src), IpAddr::V6(dst)) => frame.ipv6(src, dst),
        _ => panic!("two families"),
    };
    let frame = frame.udp(4000, 53).payload(&vec![0x5a; payload]).build();
    InjectedFrame { worker: 0, port: interface.port, frame }
}

fn ends(ue: &str, host: &str) -> [IpAddr; 2] {
    [ue, host].map(|addr| addr.parse().unwrap())
}

const V4: [&str; 2] = ["10.45.0.1", "8.8.8.8"];
const V6: [&str; 2] = ["2001:db8:45:1::5", "2001:db8:8::8"];

/// Exchanges packets in both directions, one in each step, which must all leave as the oracle says.
/// Returns how many of them the card forwarded.
fn exchange_both(world: &mut World, [ue, host]: [&str; 2], packets: usize) -> u64 {
    let before = world.offloaded();
    for nth in 0..packets {
        let arrival = packet(world, nth % 2 == 0, ends(ue, host), 40 + nth % 150);
        world.exchange(&[arrival]).unwrap();
    }
    world.offloaded() - before
}

/// Exchanges usual packets, one in each step.
fn exchange(world: &mut World, rng: &mut StdRng, packets: usize) {
    for _ in 0..packets {
        let (port, frame) = traffic::usual(rng, &world.oracle);
        world.exchange(&[InjectedFrame { worker: 0, port, frame }]).unwrap();
    }
}

#[test]
fn limits_are_exact_on_the_octet_and_hot_sessions_come_back_first() {
    let mut offloaded = 0;
    for seed in 0..20 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut world = world(SETTINGS);
        let threshold = rng.random_range(10_000..40_000);
        let quota = rng.random_bool(0.5).then(|| rng.random_range(20_000..60_000));
        establish(&mut world, &limited(threshold, quota));
        for nth in 0..500 {
            exchange(&mut world, &mut rng, 1);
            let usage = world.oracle.sessions[0].1.usage[&UrrId(1)];
            let sum = |(uplink, downlink): (u64, u64)| uplink + downlink;
            let unreported = sum(usage.measured) - sum(usage.reported);
            assert!(unreported < threshold, "seed {seed}, packet {nth}: {unreported} octets");
        }
        offloaded += world.offloaded();
    }
    assert!(offloaded > 1000, "{offloaded} packets");
}

/// The worker divides the volume before a limit among the cells of a session. The volume that the
/// card may forward must not be in their shares: here the card forwards as long as it may, and then
/// all packets take one cell.
#[test]
fn what_the_card_forwards_is_in_no_share_of_the_cells() {
    for (is_uplink, threshold) in [true, false].into_iter().zip([30_000, 20_000]) {
        let mut world = world(SETTINGS);
        establish(&mut world, &limited(threshold, None));
        let mut by_card = [0, 0];
        for nth in 0..600 {
            let before = world.offloaded();
            let arrival = packet(&world, is_uplink, ends(V4[0], V4[1]), 200);
            world.exchange(&[arrival]).unwrap();
            by_card[nth / 300] += world.offloaded() - before;
            let usage = world.oracle.sessions[0].1.usage[&UrrId(1)];
            let sum = |(uplink, downlink): (u64, u64)| uplink + downlink;
            let unreported = sum(usage.measured) - sum(usage.reported);
            assert!(unreported < threshold, "packet {nth}: {unreported} octets");
        }
        // Between a report and the reserve of the next limit.
        assert!(by_card.iter().all(|pkts| *pkts > 100), "{by_card:?}");
    }
}

#[test]
fn refused_exceptions_are_tried_again_once_per_scan_until_the_card_has_room() {
    let mut world = world(CardSettings { flows: 5, ..SETTINGS });
    establish(&mut world, &scenario::plain_session(1, "10.0.3.1"));
    let card = world.card().unwrap().clone();
    let (first, steps) = (card.refused(), 100);
    assert_eq!(exchange_both(&mut world, V4, steps), 0);
    // A step takes a millisecond, a scan four.
    let (tries, scans) = (card.refused() - first, steps as u64 / 4);
    assert!(card.flows() <= 5 && (scans - 2..=scans + 1).contains(&tries), "{tries} tries");
    card.set_room(1000);
    assert!(exchange_both(&mut world, V4, 100) > 50);
    assert_eq!(card.refused() - first, tries);
}

#[test]
fn refused_direction_is_tried_again_while_the_other_one_has_its_flows() {
    let mut world = world(SETTINGS);
    establish(&mut world, &scenario::plain_session(1, "10.0.3.1"));
    exchange_both(&mut world, V4, 50);
    let flows = world.card().unwrap().flows();

    let mut world = self::world(CardSettings { flows: flows - 1, ..SETTINGS });
    establish(&mut world, &scenario::plain_session(1, "10.0.3.1"));
    assert!((1..50).contains(&exchange_both(&mut world, V4, 100)));
    let entries = |world: &World| world.publisher.offload().unwrap().entries;
    let (card, tries) = (world.card().unwrap().clone(), world.card().unwrap().refused());
    assert_eq!((entries(&world), card.flows()), (1, flows - 1));
    exchange_both(&mut world, V4, 40);
    // Once per scan of four steps.
    assert!((8..=11).contains(&(card.refused() - tries)), "{}", card.refused() - tries);
    card.set_room(flows);
    assert!(exchange_both(&mut world, V4, 40) > 20);
    assert_eq!((entries(&world), card.flows()), (2, flows));
}

#[test]
fn packets_of_ipv6_stay_with_the_worker() {
    let mut world = world(SETTINGS);
    let mut change = scenario::plain_session(1, "10.0.3.1");
    establish(&mut world, &change);
    assert!(exchange_both(&mut world, V4, 50) > 20);
    assert_eq!(exchange_both(&mut world, V6, 50), 0, "of a UE with both");
    assert!(exchange_both(&mut world, V4, 50) > 20);

    for ue in change.create_pdrs.iter_mut().filter_map(|pdr| pdr.pdi.ue.as_mut()) {
        ue.addresses.v4 = None;
    }
    let mut world = self::world(SETTINGS);
    establish(&mut world, &change);
    assert_eq!(exchange_both(&mut world, V6, 100), 0);
    let report = world.publisher.offload().unwrap();
    assert_eq!(report.entries, 0);
    assert!(report.refusals[0].0 == "the UE has no IPv4 address", "{report:?}");
}

/// Rules lead to the gateway with the most destinations. The worker forwards the packets to others.
#[test]
fn packets_to_other_gateways_stay_with_the_worker() {
    let mut layout = scenario::plain_layout(0);
    let default = layout.routes[0];
    let gateway = "10.0.6.77".parse().unwrap();
    let prefix = ("9.0.0.0".parse().unwrap(), 8);
    layout.routes.push(OracleRoute { prefix, gateway, ..default });
    let mut world = scenario::world_with_card(&layout, SETTINGS);
    establish(&mut world, &scenario::plain_session(1, "10.0.3.1"));
    assert!(exchange_both(&mut world, V4, 50) > 20);
    let forwarded = exchange_both(&mut world, [V4[0], "9.9.9.9"], 50);
    assert_eq!(forwarded, 25, "downlink only");
}

/// No packet follows routes that are not in effect any more, and the card forwards again by those
/// that are.
#[test]
fn packets_follow_changed_routes_at_once_and_the_card_takes_them_again() {
    let layout = scenario::plain_layout(0);
    let mut world = scenario::world_with_card(&layout, SETTINGS);
    establish(&mut world, &scenario::plain_session(1, "10.0.3.1"));
    for gateway in ["10.0.6.77", "10.0.6.78"] {
        world.learn(1, gateway.parse().unwrap());
    }
    for round in 0..8 {
        assert!(exchange_both(&mut world, V4, 100) > 25, "round {round}");
        let mut routes = layout.routes.clone();
        routes[0].gateway = ["10.0.6.77", "10.0.6.1"][round % 2].parse().unwrap();
        if round % 4 > 1 {
            let (prefix, gateway) =
                (("8.8.0.0".parse().unwrap(), 16), "10.0.6.78".parse().unwrap());
            routes.push(OracleRoute { prefix, gateway, ..routes[0] });
        }
        world.change_routes(routes);
    }
    let forwarded = exchange_both(&mut world, V4, 100);
    assert!(forwarded <= 50, "{forwarded}: a route of its own leaves uplink packets to the worker");
}

#[test]
fn session_without_packets_loses_its_flows_and_a_deleted_one_leaves_nothing() {
    let mut rng = StdRng::seed_from_u64(1);
    let mut world = world(SETTINGS);
    let seid = establish(&mut world, &scenario::plain_session(1, "10.0.3.1"));
    exchange(&mut world, &mut rng, 50);
    let report = world.publisher.offload().unwrap();
    assert_eq!((report.sessions, report.entries, report.chosen_sessions), (1, 2, Some(1)));
    for _ in 0..100 {
        world.exchange(&[]).unwrap();
    }
    let report = world.publisher.offload().unwrap();
    assert_eq!((report.sessions, report.entries, report.chosen_sessions), (0, 0, Some(0)));
    exchange(&mut world, &mut rng, 50);
    let (card, with_flows) = (world.card().unwrap().clone(), world.card().unwrap().flows());
    world.delete(seid).unwrap();
    world.exchange(&[]).unwrap();
    assert!(card.flows() < with_flows && card.counters() == card.flows());
    assert!(world.offloaded() > 20, "{}", world.offloaded());
}

#[test]
fn full_card_leaves_sessions_to_workers_in_its_own_words() {
    let mut rng = StdRng::seed_from_u64(1);
    let mut all = world(SETTINGS);
    establish(&mut all, &scenario::plain_session(1, "10.0.3.1"));
    exchange(&mut all, &mut rng, 20);
    let exceptions = all.card().unwrap().flows() - 3;
    // No room for exceptions, for a session, for its second direction.
    for (flows, entries) in [(1, 0), (exceptions, 0), (exceptions + 2, 1)] {
        let mut world = world(CardSettings { flows, ..SETTINGS });
        establish(&mut world, &scenario::plain_session(1, "10.0.3.1"));
        exchange(&mut world, &mut rng, 50);
        let report = world.publisher.offload().unwrap();
        assert_eq!(report.entries, entries, "{flows} flows");
        let words = "No space left on device: the table is full";
        assert!(report.refusals.iter().any(|(known, _)| known == words), "{report:?}");
    }
}

#[test]
fn entry_whose_station_changes_is_given_up_and_put_again() {
    use adit_rules::NextHops;
    let mut rng = StdRng::seed_from_u64(1);
    let mut world = world(SETTINGS);
    establish(&mut world, &scenario::plain_session(1, "10.0.3.1"));
    exchange(&mut world, &mut rng, 50);
    let hop = world
        .publisher
        .find_next_hop(adit_types::InterfaceId(0), "10.0.3.1".parse().unwrap())
        .unwrap();
    let of_entries = |world: &World| world.publisher.offload().unwrap().entries;
    assert_eq!(of_entries(&world), 2);
    world.publisher.clear_mac(hop);
    world.publisher.turn(world.now);
    assert_eq!(of_entries(&world), 0);
    let mac = adit_tests::world::station_mac("10.0.3.1".parse().unwrap());
    world.publisher.set_mac(hop, adit_types::MacAddr(mac), false);
    let before = world.offloaded();
    exchange(&mut world, &mut rng, 50);
    assert!(of_entries(&world) == 2 && world.offloaded() > before);
}
