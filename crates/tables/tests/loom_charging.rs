//! Explores the interleavings of deferred charges, and of the cells of fast rules, under loom.
//! `loom_publish.rs` has the command.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test panics")]
#![allow(dead_code, unused_imports, unreachable_pub, missing_docs, reason = "sources of the room")]
#![cfg(loom)]

#[path = "../src/charging.rs"]
mod charging;
#[path = "../src/counters.rs"]
mod counters;
#[path = "../src/fast_rule_cell.rs"]
mod fast_rule_cell;
#[path = "../src/prefetch.rs"]
mod prefetch;
#[path = "../src/sync.rs"]
mod sync;

use adit_rules::PackedFastRule;
use adit_types::Nanos;
use charging::{ChargedRule, DeferredCharge, MeterLine, MeterPair};
use fast_rule_cell::{FastRuleCell, FastRuleCellRef};
use loom::sync::Arc;
use loom::thread;

const RULE: ChargedRule = ChargedRule { head: 2, which: 1 };

/// The buckets of a direction of a session, and the charge beside its fast rule.
#[derive(Default)]
struct Charged {
    line: MeterLine,
    charge: DeferredCharge,
}

impl Charged {
    /// Charges a packet that finds the buckets idle.
    fn pass(&self, second: u64, bytes: u16) {
        let (pair, now) = (MeterPair::of(&self.line), Nanos::from_secs(second));
        assert!(self.charge.try_charge(pair, RULE, now, bytes));
        assert!(self.line.is_deferred());
    }

    /// The octets that passed by the first bucket, unless the worker moves some meanwhile.
    fn passed(&self) -> Option<u64> {
        let MeterLine([first, _]) = &self.line;
        self.charge.read_passed(first).ok()
    }
}

/// Explores `test`. With all preemptions it takes minutes.
fn explore(test: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(test);
}

/// Octets of a packet whose charge is written to the buckets, and of the next one.
fn check_octets(before: u16, after: u16) {
    let (least, all) = (u64::from(before), u64::from(before) + u64::from(after));
    explore(move || {
        let charged = Arc::new(Charged::default());
        charged.pass(1, before);
        let passing = Arc::clone(&charged);
        let worker = thread::spawn(move || {
            passing.charge.settle(&passing.line);
            passing.pass(2, after);
        });
        let mut least = least;
        for sum in [charged.passed(), charged.passed()].into_iter().flatten() {
            assert!(least <= sum && sum <= all, "{least} {sum} {all}");
            least = sum;
        }
        worker.join().unwrap();
        assert_eq!(charged.passed(), Some(all));
    });
}

#[test]
fn octets_beside_charges_neither_fall_nor_exceed_those_that_passed() {
    check_octets(100, 100);
    check_octets(100, 40);
    check_octets(100, 1500);
}

#[test]
fn rule_that_is_read_beside_a_write_is_whole() {
    explore(|| {
        let rules = [1, 2].map(|n| PackedFastRule::of_words(PackedFastRule::RELAY, [n; 5]));
        let cell = Arc::new(FastRuleCell::default());
        let write = |cell: &FastRuleCell, rule| {
            let written = cell.set(Some(rule));
            assert!(cell.activate(written, u64::MAX));
        };
        write(&cell, &rules[0]);
        let reading = Arc::clone(&cell);
        let words = rules.each_ref().map(PackedFastRule::words);
        let worker = thread::spawn(move || {
            let read = || FastRuleCellRef(&reading).read_any().map(|rule| rule.words());
            let (first, second) = (read(), read());
            for read in [first, second].into_iter().flatten() {
                assert!(words.contains(&read), "{read:?}");
            }
            assert!(first != Some(words[1]) || second == first, "{second:?} after {first:?}");
        });
        write(&cell, &rules[1]);
        worker.join().unwrap();
    });
}
