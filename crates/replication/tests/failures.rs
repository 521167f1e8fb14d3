//! Everything fails at random; nothing that was acknowledged is lost.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod world;

use adit_replication::Incarnation;
use proptest::prelude::*;

use world::{ReplicationWorld, WorldCounts, marks_after_crashes};

const STEPS: usize = 1500;

fn run(seed: u64) -> WorldCounts {
    let mut world = ReplicationWorld::new(seed);
    for _ in 0..STEPS {
        world.step();
    }
    world.end();
    world.counts
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn acknowledged_groups_are_found_after_every_take_over(seed: u64) {
        run(seed);
    }
}

#[test]
fn store_names_the_standby_until_all_of_its_tail_is_written() {
    let standby = Some(Incarnation(7));
    assert_eq!(marks_after_crashes(), [standby, standby, standby, standby, None]);
}

#[test]
fn worlds_contain_what_they_are_about() {
    let mut sum = WorldCounts::default();
    for seed in 0..40 {
        let counts = run(seed);
        sum.acknowledged += counts.acknowledged;
        sum.by_standby_alone += counts.by_standby_alone;
        sum.take_overs += counts.take_overs;
        sum.from_own_tail += counts.from_own_tail;
        sum.from_peer_tail += counts.from_peer_tail;
        sum.noticed_losses += counts.noticed_losses;
        sum.fenced += counts.fenced;
        sum.interrupted += counts.interrupted;
    }
    println!("{sum:?}");
    assert!(sum.by_standby_alone * 4 > sum.acknowledged, "{sum:?}");
    assert!(sum.from_own_tail > 50 && sum.from_peer_tail > 20 && sum.fenced > 20, "{sum:?}");
    assert!(sum.interrupted > 20, "{sum:?}");
    assert!(sum.noticed_losses * 5 < sum.take_overs, "{sum:?}");
}
