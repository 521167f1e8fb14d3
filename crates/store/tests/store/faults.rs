//! A file layer that fails: each call in turn, all calls for a while, no space.

use crate::model::{Run, SMALL, options, random_group, records_of, reopen};
use adit_store::{
    AppendError, GroupNumber, Journal, JournalOptions, RecordKey, RecordKind, RecordStore,
    StoreChange, StoreError, Upkeep,
};
use adit_testkit::memory_folder::{FileFault, MemoryFiles, MemoryFolder};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const FAULTS: [FileFault; 4] =
    [FileFault::Io, FileFault::NoSpace, FileFault::ReadOnly, FileFault::Short];

const ROUNDS: usize = 30;

/// Changes, commits and upkeep, in which failures are tried again. Returns how many calls failed.
fn work(run: &mut Run, seed: u64) -> usize {
    let mut random = StdRng::seed_from_u64(seed);
    let mut failures = 0;
    for _ in 0..ROUNDS {
        let group = random_group(&mut random, SMALL);
        assert!(run.append(&group));
        for _ in 0..3 {
            let committed = run.journal().commit();
            let is_full = is_refused(&committed);
            let Err(error) = committed else { break };
            assert!(is_full || error.to_string().starts_with("cannot "), "{error}");
            failures += 1;
        }
        failures += usize::from(run.journal().maintain().is_err());
    }
    failures
}

/// Each call of a run fails once. The journal tries again and goes on; afterwards, and after a
/// crash in which the device loses all that it may, everything acknowledged is there.
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
        // Faults that nobody sees: of a seal or a removal that is tried again, of upkeep within a
        // commit.
        assert!(seen > 100, "{fault:?}: {seen}");
    }
}

/// Short failures again and again, of random calls: files that become ready again in another order
/// are not mixed up.
#[test]
fn calls_that_fail_again_and_again_cost_nothing_once_the_disk_has_healed() {
    for seed in 0..2000 {
        let mut random = StdRng::seed_from_u64(seed);
        let mut run = Run::new(512 * random.random_range(8..32));
        for _ in 0..10 * ROUNDS {
            match random.random_range(0..8) {
                0 => {
                    let first = run.folder.calls() + random.random_range(0..16);
                    let fault = FAULTS[random.random_range(0..4)];
                    run.folder.fail(first, random.random_range(1..9), fault);
                }
                1 | 2 => _ = run.append(&random_group(&mut random, SMALL)),
                3 | 4 => _ = run.journal().commit(),
                5 => run.folder.heal(),
                _ => _ = run.journal().maintain(),
            }
        }
        run.folder.heal();
        run.maintain_all();
        run.commit();
        let reopened = reopen(run.folder.crash(|| false), &run.options).unwrap();
        run.check(&reopened, run.appended, &format!("seed {seed}"));
    }
}

/// From some call on all calls fail, for a while. Nothing is acknowledged meanwhile; the journal
/// heals with the disk, and a crash at any time keeps the acknowledged changes.
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
            // Upkeep finds that there is room again.
            run.maintain_all();
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
    assert!(run.folder.octets() <= 6 * 8 * 512, "{} octets", run.folder.octets());
    run.folder.heal();
    run.commit();
    run.maintain_all();
    assert!(run.folder.octets() <= 5 * 8 * 512, "{} octets", run.folder.octets());
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

fn session(number: u64) -> RecordKey<'static> {
    RecordKey::number(RecordKind::Session, number)
}

/// A journal on a file system with room for `segments` segments of 32 KiB, filled with records of
/// 600 octets until it says that it is full. Returns how many it has.
fn filled(segments: usize) -> (MemoryFolder, Journal<MemoryFiles>, u64) {
    let folder = MemoryFolder::new();
    folder.limit_space(Some(segments * SEGMENT));
    let (mut journal, _) = Journal::open(folder.files(), &segment_options()).unwrap();
    let mut kept = 0;
    while !journal.is_full() {
        journal.append(&[StoreChange::put(session(kept), &[3; 600])]).unwrap();
        journal.commit().unwrap();
        while journal.maintain().unwrap() != Upkeep::Idle {}
        kept += 1;
        assert!(kept < 1000, "space has no end");
    }
    (folder, journal, kept)
}

fn is_refused(commit: &Result<GroupNumber, StoreError>) -> bool {
    matches!(commit, Err(StoreError::Full(AppendError::NoSpace)))
}

/// Commits a group, for which upkeep may have to make room first.
fn commit_in_the_end(journal: &mut Journal<MemoryFiles>, group: &[StoreChange<'_>]) {
    journal.append(group).unwrap();
    while is_refused(&journal.commit()) {
        assert_ne!(journal.maintain().unwrap(), Upkeep::Idle, "nothing makes room");
    }
}

const SEGMENT: usize = 32 << 10;

fn segment_options() -> JournalOptions {
    options(u32::try_from(SEGMENT).unwrap())
}

/// A full journal reports so while it has a reserve, which takes changes under way and all
/// removals, with the puts that go with them; removals make room again.
#[test]
fn full_file_system_leaves_a_reserve_for_what_is_under_way_and_for_removals() {
    let (folder, mut journal, kept) = filled(8);
    assert!(kept > 200, "{kept} records in 8 segments");
    // The changes under way: a quarter of a segment.
    let late = 12;
    for number in kept..kept + late {
        journal.append(&[StoreChange::put(session(number), &[3; 600])]).unwrap();
    }
    journal.commit().unwrap();
    let kept = kept + late;
    // Everything goes, one by one, each with the answer to its request.
    for number in 0..kept {
        let answer = RecordKey::number(RecordKind::Answer, number % 16);
        let group = [StoreChange::remove(session(number)), StoreChange::put(answer, &[1; 90])];
        commit_in_the_end(&mut journal, &group);
        journal.maintain().unwrap();
    }
    assert_eq!(journal.figures().records, 16);
    assert!(!journal.is_full(), "{:?}", journal.figures());
    journal.append(&[StoreChange::put(session(0), &[3; 600])]).unwrap();
    journal.commit().unwrap();
    drop(journal);
    let reopened = reopen(folder.image(), &segment_options()).unwrap();
    assert_eq!(reopened.records.len(), 17);
}

/// Changes without room wait; the reserve of compaction stays.
#[test]
fn reserve_ends_before_what_compaction_needs() {
    let (folder, mut journal, kept) = filled(8);
    let mut number = kept;
    loop {
        journal.append(&[StoreChange::put(session(number), &[3; 600])]).unwrap();
        number += 1;
        let committed = journal.commit();
        if is_refused(&committed) {
            break;
        }
        assert_eq!(committed.unwrap(), GroupNumber(number));
        journal.maintain().unwrap();
        assert!(number < 1000, "the reserve has no end");
    }
    assert_eq!(journal.durable(), GroupNumber(number - 1), "what is refused is not committed");
    assert!(number > kept + 10, "half a segment is kept for what is under way");
    // Every second record changes: nothing grows, and compaction makes room for all of it.
    for round in 0..3 {
        for changed in (0..number).step_by(2) {
            let value = [round; 590];
            let group = [StoreChange::put(session(changed), &value)];
            commit_in_the_end(&mut journal, &group);
            journal.maintain().unwrap();
        }
    }
    folder.limit_space(None);
    drop(journal);
    let reopened = reopen(folder.image(), &segment_options()).unwrap();
    assert_eq!(reopened.records.len(), usize::try_from(number).unwrap());
}

/// Upkeep alone finds that there is room again.
#[test]
fn room_on_the_file_system_is_found_without_a_change() {
    let (folder, mut journal, kept) = filled(8);
    let calls = folder.calls();
    for _ in 0..100 {
        assert_eq!(journal.maintain().unwrap(), Upkeep::Idle);
    }
    assert!(journal.is_full());
    assert!(folder.calls() < calls + 100, "a full file system is not filled again and again");
    folder.limit_space(Some(12 * SEGMENT));
    for _ in 0..20 {
        journal.maintain().unwrap();
    }
    assert!(!journal.is_full(), "{:?}", journal.figures());
    for number in kept..kept + 60 {
        journal.append(&[StoreChange::put(session(number), &[3; 600])]).unwrap();
    }
    journal.commit().unwrap();
}
