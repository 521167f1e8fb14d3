//! A file layer that fails: each call in turn, all calls for a while, no space.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod model;

use adit_store::{
    AppendError, Journal, RecordKey, RecordKind, RecordStore, StoreChange, StoreError,
};
use adit_testkit::memory_folder::{FileFault, MemoryFolder};
use model::{Run, SMALL, options, random_group, records_of, reopen};
use rand::SeedableRng;
use rand::rngs::StdRng;

const FAULTS: [FileFault; 4] =
    [FileFault::Io, FileFault::NoSpace, FileFault::ReadOnly, FileFault::Short];

const ROUNDS: usize = 30;

/// Changes, commits and upkeep, in which failures are tried again. Returns how many calls failed.
fn work(run: &mut Run, seed: u64) -> usize {
    let mut random = StdRng::seed_from_u64(seed);
    let mut failures = 0;
    for _ in 0..ROUNDS {
        let group = random_group(&mut random, SMALL);
        if !run.append(&group) {
            failures += 1;
            continue;
        }
        for _ in 0..3 {
            let Err(error) = run.journal().commit() else { break };
            assert!(error.to_string().starts_with("cannot "), "{error}");
            failures += 1;
        }
        failures += usize::from(run.journal().maintain().is_err());
    }
    failures
}

/// Each call of a run fails once. The journal tries again and goes on; afterwards, and after a crash in which the
/// device loses all that it may, everything acknowledged is there.
#[test]
fn any_call_that_fails_once_costs_nothing() {
    let calls = {
        let mut run = Run::new(8 * 512);
        assert_eq!(work(&mut run, 7), 0);
        run.folder.calls()
    };
    assert!(calls > 200);
    for fault in FAULTS {
        let mut seen = 0;
        for call in 8..calls {
            let mut run = Run::new(8 * 512);
            run.folder.fail(call, 1, fault);
            seen += work(&mut run, 7);
            run.commit();
            let place = format!("{fault:?} at call {call}");
            for keeps in [false, true] {
                let image = run.folder.crash(|| keeps);
                let reopened =
                    reopen(image, &run.options).unwrap_or_else(|error| panic!("{place}: {error}"));
                run.check(&reopened, run.appended, &place);
            }
            let records = records_of(run.journal()).unwrap();
            assert_eq!(&records, run.records(), "{place}");
        }
        // Faults that nobody sees: of a seal or a removal that is tried again, of upkeep within a commit.
        assert!(seen > 100, "{fault:?}: {seen}");
    }
}

/// From some call on all calls fail, for a while. Nothing is acknowledged meanwhile; the journal heals with the disk,
/// and a crash at any time keeps what was acknowledged.
#[test]
fn device_that_fails_for_a_while_costs_nothing_acknowledged() {
    for fault in FAULTS {
        for call in (8..260).step_by(3) {
            let mut run = Run::new(8 * 512);
            run.delay_syncs(u32::try_from(call % 3).unwrap());
            run.folder.fail(call, 40, fault);
            work(&mut run, 8);
            let durable = run.journal().durable().0;
            let place = format!("{fault:?} from call {call}");
            let reopened = reopen(run.folder.crash(|| false), &run.options).unwrap();
            run.check(&reopened, durable, &place);
            run.folder.heal();
            run.commit();
            run.maintain_all();
            let reopened = reopen(run.folder.crash(|| false), &run.options).unwrap();
            run.check(&reopened, run.appended, &place);
        }
    }
}

/// Trying again and again while the device fails takes no space.
#[test]
fn retries_while_the_device_fails_do_not_fill_the_folder() {
    // Each commit is a write and a sync; the sync fails.
    let mut run = Run::new(8 * 512);
    let mut random = StdRng::seed_from_u64(2);
    let group = random_group(&mut random, SMALL);
    assert!(run.append(&group));
    run.commit();
    assert!(run.append(&group));
    for _ in 0..60 {
        // Lets preparation succeed at times.
        let calls = run.folder.calls();
        for call in (calls + 1..calls + 40).step_by(9) {
            run.folder.fail(call, 1, FileFault::Io);
        }
        let _ = run.journal().commit();
    }
    assert!(run.folder.octets() <= 5 * 8 * 512, "{} octets", run.folder.octets());
    run.folder.heal();
    run.commit();
    run.maintain_all();
    assert!(run.folder.octets() <= 4 * 8 * 512, "{} octets", run.folder.octets());
}

#[test]
fn opening_names_the_call_that_failed_and_harms_nothing() {
    let mut first = Run::new(8 * 512);
    work(&mut first, 4);
    first.commit();
    let image = first.folder.image();
    let calls = {
        let folder = MemoryFolder::from_image(image.clone());
        Journal::open(folder.files(), &first.options).unwrap();
        folder.calls()
    };
    assert!(calls > 10);
    for fault in FAULTS {
        for call in 0..calls {
            let folder = MemoryFolder::from_image(image.clone());
            folder.fail(call, 1, fault);
            if let Err(error) = Journal::open(folder.files(), &first.options) {
                let text = error.to_string();
                assert!(matches!(error, StoreError::Io { .. }), "{text}");
                assert!(text.starts_with("cannot "), "{text}");
            }
            folder.heal();
            let reopened = reopen(folder.crash(|| false), &first.options).unwrap();
            first.check(&reopened, first.appended, &format!("{fault:?} at call {call}"));
        }
    }
}

#[test]
fn folder_that_cannot_be_written_is_refused_in_words() {
    let folder = MemoryFolder::new();
    folder.fail(0, u64::MAX, FileFault::ReadOnly);
    let error = Journal::open(folder.files(), &options(8192)).err().unwrap();
    let text = "cannot lock the folder of the journal: Read-only file system (os error 30)";
    assert_eq!(error.to_string(), text);
}

/// Without space puts are refused and removals are not; what was removed makes room again.
#[test]
fn full_file_system_refuses_puts_and_takes_removals() {
    let segment_bytes = 32 << 10;
    let folder = MemoryFolder::new();
    folder.limit_space(Some(8 * segment_bytes));
    let options = options(u32::try_from(segment_bytes).unwrap());
    let (mut journal, _) = Journal::open(folder.files(), &options).unwrap();
    let value = vec![3; 600];
    let key = |number| RecordKey::number(RecordKind::Session, number);
    let mut kept = 0;
    let refused = loop {
        match journal.append(&[StoreChange::put(key(kept), &value)]) {
            Ok(_) => {
                journal.commit().unwrap();
                let _ = journal.maintain();
                kept += 1;
            }
            Err(error) => break error,
        }
        assert!(kept < 1000, "space has no end");
    };
    assert_eq!(refused, AppendError::NoSpace);
    assert!(kept > 200, "{kept} records in 7 segments");
    assert!(journal.figures().is_out_of_space);
    // Every third record goes, and that is durable.
    let mut removed = 0;
    for number in (0..kept).step_by(3) {
        journal.append(&[StoreChange::remove(key(number))]).unwrap();
        removed += 1;
        if removed % 30 == 0 {
            journal.commit().unwrap();
        }
        let _ = journal.maintain();
    }
    journal.commit().unwrap();
    for _ in 0..200 {
        let _ = journal.maintain();
    }
    assert_eq!(journal.figures().records, usize::try_from(kept - removed).unwrap());
    journal.append(&[StoreChange::put(key(0), &value)]).unwrap();
    journal.commit().unwrap();
    drop(journal);
    let reopened = reopen(folder.image(), &options).unwrap();
    assert_eq!(reopened.records.len(), usize::try_from(kept - removed + 1).unwrap());
}
