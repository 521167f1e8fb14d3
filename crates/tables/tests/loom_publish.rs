//! Explores the interleavings of publication under loom:
//! `RUSTFLAGS="--cfg loom" cargo test -p adit-tables --target-dir target/loom --test loom_publish`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test panics")]
#![cfg(loom)]

/// The budgets of entries of an offload: the source of the room xdp, with loom's atomics.
#[path = "../../xdp/src/account.rs"]
mod account;
#[allow(dead_code, reason = "the budget has a part of it")]
#[path = "../../xdp/src/layout.rs"]
mod layout;
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
}

use crate::layout::{BUDGET_BITS, head};
use account::{ACCOUNT_WORDS, EntryBudget, divide};
use adit_tables::publish::{SlotReader, SlotWriter, slots};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use loom::thread;

/// The contents of a reclaimed value: reading it means that it was freed too early.
const FREED: u64 = u64::MAX;

/// A value whose cell reports every access to loom, so that it finds unordered ones.
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

/// Takes back values that can be taken back and marks them; returns how many those were.
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

/// An entry in shared memory, and its account.
struct SharedEntry {
    head: AtomicU64,
    budget: AtomicU64,
    account: [AtomicU64; ACCOUNT_WORDS],
}

impl SharedEntry {
    fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self { head: zero(), budget: zero(), account: [zero(), zero(), zero()] }
    }

    fn budget(&self) -> EntryBudget<'_> {
        EntryBudget { head: &self.head, budget: &self.budget, account: &self.account }
    }

    /// The action of the control thread: a limited entry with this number is active.
    fn put(&self, number: u64) {
        self.head.store(number | head::ACTIVE | head::LIMITED, Ordering::Release);
    }

    /// The volume that the program may forward by the entry.
    fn usable(&self) -> u64 {
        let (head, budget) =
            (self.head.load(Ordering::Acquire), self.budget.load(Ordering::Acquire));
        let is_its = budget >> BUDGET_BITS == head & head::NUMBER;
        if is_its { budget & ((1 << BUDGET_BITS) - 1) } else { 0 }
    }

    /// The action of the program on a packet. Returns the octets that it forwarded.
    fn forward(&self, len: u64) -> u64 {
        let head = self.head.load(Ordering::Acquire);
        let budget = self.budget.load(Ordering::Acquire);
        if budget >> BUDGET_BITS != head & head::NUMBER || budget & ((1 << BUDGET_BITS) - 1) <= len
        {
            return 0;
        }
        let (used, relaxed) = (budget - len, Ordering::Relaxed);
        let exchanged = self.budget.compare_exchange(budget, used, Ordering::AcqRel, relaxed);
        exchanged.map_or(0, |_| len)
    }
}

#[test]
fn no_more_than_what_is_left_is_given_to_cells_and_entries() {
    loom::model(|| {
        let entries = Arc::new([SharedEntry::new(), SharedEntry::new()]);
        let put = Arc::clone(&entries);
        let control = thread::spawn(move || put.iter().for_each(|entry| entry.put(1)));
        let [uplink, downlink] = &*entries;
        let share = divide(&[uplink.budget(), downlink.budget()], 12, 2);
        control.join().unwrap();
        assert!(2 * share + uplink.usable() + downlink.usable() <= 12);
        // The next division finds both.
        assert_eq!(divide(&[uplink.budget(), downlink.budget()], 12, 2), 3);
        assert_eq!((uplink.usable(), downlink.usable()), (3, 3));
    });
}

#[test]
fn reading_beside_grants_never_falls_nor_exceeds_what_was_forwarded() {
    // With all preemptions it takes a minute and a half.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let entries = Arc::new([SharedEntry::new(), SharedEntry::new()]);
        entries[0].put(1);
        divide(&[entries[0].budget(), entries[1].budget()], 100, 0);
        let granting = Arc::clone(&entries);
        let worker = thread::spawn(move || {
            // The entry's rule changes, so that the number of the budget does.
            granting[0].put(2);
            divide(&[granting[0].budget(), granting[1].budget()], 50, 0);
        });
        let forwarding = Arc::clone(&entries);
        let program = thread::spawn(move || forwarding[0].forward(7));
        let first = entries[0].budget().octets();
        let second = entries[0].budget().octets();
        assert!(first <= second && second <= 7, "{first}, {second}");
        worker.join().unwrap();
        let forwarded = program.join().unwrap();
        assert_eq!(entries[0].budget().octets(), forwarded);
    });
}
