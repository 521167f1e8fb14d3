//! Explores the interleavings of publication under loom:
//! `RUSTFLAGS="--cfg loom" cargo test -p adit-tables --target-dir target/loom --test loom_publish`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test panics")]
#![cfg(loom)]

use adit_tables::publish::{SlotReader, SlotWriter, slots};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

/// What a reclaimed value holds: reading it means that it was freed too early.
const FREED: u64 = u64::MAX;

/// A value whose cell tells loom about every access, so that it finds unordered ones.
struct Canary(UnsafeCell<u64>);

// SAFETY: the cell is written only by the writer after reclaim; loom reports it when that is not
// exclusive.
unsafe impl Sync for Canary {}

impl Canary {
    fn boxed(value: u64) -> Option<Box<Self>> {
        Some(Box::new(Self(UnsafeCell::new(value))))
    }

    fn read(&self) -> u64 {
        // SAFETY: loom checks that no write is concurrent.
        self.0.with(|value| unsafe { *value })
    }
}

/// Takes back what can be taken back and marks it; returns how many values that were.
fn reclaim(writer: &mut SlotWriter<Canary>) -> usize {
    let mut count = 0;
    while let Some(canary) = writer.reclaim() {
        // SAFETY: loom checks that no other access is concurrent.
        canary.0.with_mut(|value| unsafe { *value = FREED });
        count += 1;
    }
    count
}

fn read_section(handle: &mut SlotReader<Canary>) -> Option<u64> {
    let guard = handle.observe();
    let canary = guard.get(0)?;
    let first = canary.read();
    assert_ne!(first, FREED, "read after free");
    assert_eq!(canary.read(), first);
    Some(first)
}

#[test]
fn value_in_use_is_not_reclaimed() {
    loom::model(|| {
        let (mut writer, mut handles) = slots::<Canary>(1, 1);
        writer.swap(0, Canary::boxed(1));
        writer.advance();
        let mut handle = handles.remove(0);
        let reader = thread::spawn(move || {
            let first = read_section(&mut handle);
            let second = read_section(&mut handle);
            assert!(first <= second, "a later section sees no earlier value");
        });
        writer.swap(0, Canary::boxed(2));
        writer.advance();
        reclaim(&mut writer);
        reader.join().unwrap();
        reclaim(&mut writer);
    });
}

#[test]
fn reader_that_comes_and_goes_never_sees_a_freed_value() {
    loom::model(|| {
        let (mut writer, mut handles) = slots::<Canary>(1, 1);
        writer.swap(0, Canary::boxed(1));
        writer.advance();
        let mut handle = handles.remove(0);
        let reader = thread::spawn(move || {
            read_section(&mut handle);
            handle.go_offline();
            read_section(&mut handle);
        });
        writer.swap(0, Canary::boxed(2));
        writer.advance();
        let before = reclaim(&mut writer);
        reader.join().unwrap();
        assert_eq!(before + reclaim(&mut writer), 1, "a dropped reader holds nothing up");
    });
}

#[test]
fn observed_epoch_means_that_every_reader_sees_the_change() {
    loom::model(|| {
        let (mut writer, mut handles) = slots::<Canary>(1, 1);
        let mut handle = handles.remove(0);
        handle.observe();
        // Relaxed: only publication itself may order the accesses.
        let observed = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&observed);
        let reader = thread::spawn(move || {
            let guard = handle.observe();
            if told.load(Ordering::Relaxed) {
                assert_eq!(guard.get(0).map(Canary::read), Some(1));
            }
        });
        writer.swap(0, Canary::boxed(1));
        let epoch = writer.advance();
        if writer.passed() >= epoch {
            observed.store(true, Ordering::Relaxed);
        }
        reader.join().unwrap();
    });
}

#[test]
fn writer_dropped_first_leaves_retired_values_to_the_readers() {
    loom::model(|| {
        let (mut writer, mut handles) = slots::<Canary>(1, 1);
        writer.swap(0, Canary::boxed(1));
        writer.advance();
        let mut handle = handles.remove(0);
        let reader = thread::spawn(move || read_section(&mut handle));
        writer.swap(0, None);
        writer.advance();
        drop(writer);
        reader.join().unwrap();
    });
}
