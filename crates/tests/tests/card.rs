//! A card in memory in front of the workers: volume limits, refusals, and stations that change.
#![allow(clippy::unwrap_used, reason = "a test stops where its premise fails")]

use adit_rules::OffloadChoice;
use adit_session::{MeasurementMethod, SessionChange, Urr, UrrSettings, UsageTriggers, Volumes};
use adit_tests::world::{CardSettings, InjectedFrame, World};
use adit_tests::{scenario, traffic};
use adit_types::{Nanos, Seid, UrrId};
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
