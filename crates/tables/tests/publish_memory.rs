//! Memory of published values, with real threads and few rounds, so that Miri can run it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test panics")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use adit_tables::publish::{SlotReader, slots};

const SLOTS: usize = 4;
const ROUNDS: usize = 40;

/// A value that a reader can check: its elements are all the same.
#[allow(
    clippy::box_collection,
    reason = "slots hold boxes; the vector is a value with a heap of its own"
)]
fn value(round: usize) -> Option<Box<Vec<usize>>> {
    Some(Box::new(vec![round; 3]))
}

#[test]
fn values_are_whole_while_read_and_freed_once() {
    let (mut writer, readers) = slots::<Vec<usize>>(SLOTS, 2);
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        for mut reader in readers {
            let is_done = &is_done;
            scope.spawn(move || {
                let seen = read_until_done(&mut reader, is_done);
                assert!(seen.iter().all(|round| *round < ROUNDS));
            });
        }
        let mut freed = 0;
        for round in 0..ROUNDS {
            let replaces = writer.swap(round % SLOTS, value(round));
            assert_eq!(replaces, round >= SLOTS);
            writer.advance();
            while let Some(old) = writer.reclaim() {
                assert_eq!(*old, vec![old[0]; 3]);
                freed += 1;
            }
        }
        is_done.store(true, Ordering::Release);
        assert!(freed <= ROUNDS - SLOTS, "the last of each slot is still published");
    });
}

fn read_until_done(reader: &mut SlotReader<Vec<usize>>, is_done: &AtomicBool) -> Vec<usize> {
    let mut seen = Vec::new();
    while !is_done.load(Ordering::Acquire) {
        let guard = reader.observe();
        for slot in 0..SLOTS {
            if let Some(value) = guard.get(slot) {
                assert_eq!(*value, vec![value[0]; 3]);
                seen.push(value[0]);
            }
        }
    }
    reader.go_offline();
    seen
}

#[test]
fn dropped_writer_frees_what_readers_have_not_passed() {
    let (mut writer, mut readers) = slots::<Vec<usize>>(1, 1);
    let guard = readers[0].observe();
    assert!(guard.get(0).is_none());
    for round in 0..3 {
        writer.swap(0, value(round));
        writer.advance();
    }
    assert!(writer.reclaim().is_none(), "the reader has passed no boundary since");
    drop(writer);
    let guard = readers[0].observe();
    assert_eq!(guard.get(0).map(|value| value[0]), Some(2));
}
