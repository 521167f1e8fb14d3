//! Volume limits with the XDP program in front of the workers: a report leaves with the packet that
//! reaches the limit.
#![allow(clippy::unwrap_used, reason = "a test stops where its premise fails")]

use std::time::Duration;

use adit_session::{MeasurementMethod, Urr, UrrSettings, UsageTriggers, Volumes};
use adit_tests::oracle::OracleRoute;
use adit_tests::world::{InjectedFrame, World};
use adit_tests::{scenario, traffic};
use adit_types::UrrId;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const PACKETS: usize = 400;

/// A session whose packets URR 1 counts in both directions.
fn establish(world: &mut World, threshold: u64, quota: Option<u64>) {
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
    world.establish(&change).unwrap();
    world.exchange(&[]).unwrap();
}

#[test]
fn limits_are_exact_on_the_octet() {
    let mut offloaded = 0;
    for seed in 0..20 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut world = match scenario::world_with_xdp(&scenario::plain_layout(0)) {
            Ok(world) => world,
            Err(error) => {
                println!("skipped: {error}");
                return;
            }
        };
        let threshold = rng.random_range(1000..20_000);
        let quota = rng.random_bool(0.5).then(|| rng.random_range(1000..40_000));
        establish(&mut world, threshold, quota);
        for nth in 0..PACKETS {
            if nth % 4 == 0 {
                // Without packets the program goes on by itself.
                std::thread::sleep(Duration::from_millis(1));
            }
            let (port, frame) = traffic::usual(&mut rng, &world.oracle);
            let arrival = InjectedFrame { worker: 0, port, frame };
            world.exchange(&[arrival]).unwrap();
            let usage = world.oracle.sessions[0].1.usage[&UrrId(1)];
            let sum = |(uplink, downlink): (u64, u64)| uplink + downlink;
            let unreported = sum(usage.measured) - sum(usage.reported);
            assert!(unreported < threshold, "seed {seed}, packet {nth}: {unreported} octets");
        }
        offloaded += world.offloaded();
    }
    assert!(offloaded > 1000, "{offloaded} packets");
}

/// No packet follows routes that are not in effect any more, and the program forwards again by
/// those that are.
#[test]
fn packets_follow_changed_routes_at_once_and_the_program_takes_them_again() {
    let mut rng = StdRng::seed_from_u64(1);
    let layout = scenario::plain_layout(0);
    let mut world = match scenario::world_with_xdp(&layout) {
        Ok(world) => world,
        Err(error) => return println!("skipped: {error}"),
    };
    world.establish(&scenario::plain_session(1, "10.0.3.1")).unwrap();
    world.exchange(&[]).unwrap();
    for gateway in ["10.0.6.77", "10.0.6.78"] {
        world.learn(1, gateway.parse().unwrap());
    }
    for round in 0..20 {
        let before = world.offloaded();
        for nth in 0..60 {
            if nth % 4 == 0 {
                // Without packets the program goes on by itself.
                std::thread::sleep(Duration::from_millis(1));
            }
            let (port, frame) = traffic::usual(&mut rng, &world.oracle);
            world.exchange(&[InjectedFrame { worker: 0, port, frame }]).unwrap();
        }
        assert!(world.offloaded() > before + 10, "round {round}");
        let mut routes = layout.routes.clone();
        routes[0].gateway = ["10.0.6.77", "10.0.6.1"][round % 2].parse().unwrap();
        if round % 4 > 1 {
            let (prefix, gateway) = (("8.0.0.0".parse().unwrap(), 5), "10.0.6.78".parse().unwrap());
            routes.push(OracleRoute { prefix, gateway, ..routes[0] });
        }
        world.change_routes(routes);
    }
}
