//! Everything fails at random; nothing that was acknowledged is lost.

use adit_store::Incarnation;
use proptest::prelude::*;

use crate::world::{ReplicationWorld, WorldCounts, names_after_interruptions};

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
    assert_eq!(names_after_interruptions(), [standby, standby, standby, standby, None]);
}

#[test]
fn worlds_contain_what_they_are_about() {
    let mut sum = WorldCounts::default();
    for seed in 0..40 {
        let counts = run(seed);
        sum.acknowledged += counts.acknowledged;
        sum.by_standby_alone += counts.by_standby_alone;
        sum.take_overs += counts.take_overs;
        sum.with_tail += counts.with_tail;
        sum.interrupted += counts.interrupted;
        sum.refused += counts.refused;
        sum.noticed_losses += counts.noticed_losses;
        sum.finished += counts.finished;
        sum.fenced += counts.fenced;
        sum.found_in_tail += counts.found_in_tail;
        sum.found_in_server += counts.found_in_server;
        sum.found_early += counts.found_early;
        sum.greeted_anew += counts.greeted_anew;
        sum.gaps += counts.gaps;
        sum.full += counts.full;
    }
    println!("{sum:?}");
    assert!(sum.by_standby_alone * 4 > sum.acknowledged, "{sum:?}");
    assert!(sum.with_tail > 50 && sum.interrupted > 20 && sum.finished > 20, "{sum:?}");
    assert!(sum.refused > 20 && sum.fenced > 20 && sum.greeted_anew > 20, "{sum:?}");
    assert!(sum.found_in_tail > 1000 && sum.found_in_server > 1000, "{sum:?}");
    assert!(sum.found_early > 100, "{sum:?}");
    assert!(sum.noticed_losses * 5 < sum.take_overs, "{sum:?}");
}
