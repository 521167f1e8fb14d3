//! The compiler: its fast paths decide on every packet as the rules do.

use crate::equivalence::{FastPathCounts, run};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn fast_path_treats_every_packet_as_the_rules_do(data in prop::collection::vec(any::<u8>(), 0..700)) {
        run(&data);
    }
}

/// Rules and packets of the property are such that each form of the fast path takes many of them.
#[test]
fn random_packets_take_every_form_of_the_fast_path() {
    let mut state = 1_u64;
    let mut octet = || {
        // Constants of a linear congruential generator by D. Knuth.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_le_bytes()[7]
    };
    let mut sum = FastPathCounts::default();
    for _ in 0..40_000 {
        let data: Vec<u8> = (0..700).map(|_| octet()).collect();
        let FastPathCounts {
            single,
            filtered,
            others,
            selected,
            into_v6,
            relayed,
            without_idle_filters,
        } = run(&data);
        sum.without_idle_filters += without_idle_filters;
        sum.into_v6 += into_v6;
        for at in 0..2 {
            sum.single[at] += single[at];
            sum.filtered[at] += filtered[at];
            sum.others[at] += others[at];
            sum.selected[at] += selected[at];
            sum.relayed[at] += relayed[at];
        }
    }
    let FastPathCounts { single, filtered, others, selected, relayed, .. } = sum;
    let forms = [single, filtered, others, selected, relayed].into_iter().flatten();
    let least = forms.chain([sum.without_idle_filters, sum.into_v6]).min().unwrap();
    println!("{sum:?}");
    assert!(least >= 50, "{sum:?}");
}
