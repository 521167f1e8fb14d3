//! A journal acts as a map does, keeps its bound, and uses its files again.

use crate::model::{
    ChangeShape, ModelRecords, Run, SMALL, options, random_group, records_of, reopen,
};
use adit_store::{
    AppendError, GroupNumber, Journal, RecordKey, RecordKind, RecordStore, StoreChange, StoreError,
    Upkeep,
};
use adit_testkit::memory_folder::MemoryFolder;
use adit_types::limits::STORE_VALUE_BYTES_MAX;
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::StdRng;

const KEY: RecordKey<'static> = RecordKey::number(RecordKind::Session, 7);

#[test]
fn empty_folder_becomes_a_journal_and_keeps_its_records() {
    let folder = MemoryFolder::new();
    let (mut journal, report) = Journal::open(folder.files(), &options(8192)).unwrap();
    assert!(report.is_new);
    assert_eq!(journal.append(&[StoreChange::put(KEY, b"first")]), Ok(GroupNumber(1)));
    let removed = RecordKey::octets(RecordKind::Association, b"smf1");
    let group = [StoreChange::put(removed, b"a"), StoreChange::put(KEY, b"second")];
    assert_eq!(journal.append(&group), Ok(GroupNumber(2)));
    assert_eq!(journal.durable(), GroupNumber(0));
    assert_eq!(journal.commit().unwrap(), GroupNumber(2));
    journal.append(&[StoreChange::remove(removed)]).unwrap();
    assert_eq!(journal.commit().unwrap(), GroupNumber(3));
    drop(journal);
    let reopened = reopen(folder.image(), &options(8192)).unwrap();
    assert!(!reopened.report.is_new);
    assert_eq!(reopened.durable, 3);
    let values: Vec<&Vec<u8>> = reopened.records.values().collect();
    assert_eq!(values, [b"second"]);
}

#[test]
fn changes_that_no_store_can_hold_are_refused_and_change_nothing() {
    let folder = MemoryFolder::new();
    let (mut journal, _) = Journal::open(folder.files(), &options(1 << 20)).unwrap();
    let long = vec![1; 256];
    let large = vec![1; STORE_VALUE_BYTES_MAX + 1];
    for (change, error) in [
        (StoreChange::put(RecordKey::octets(RecordKind::Pfds, &long), b""), AppendError::Record),
        (StoreChange::put(RecordKey::octets(RecordKind::Pfds, b""), b""), AppendError::Record),
        (StoreChange::put(KEY, &large), AppendError::Record),
    ] {
        assert_eq!(journal.append(&[StoreChange::put(KEY, b"x"), change]), Err(error));
    }
    let most = StoreChange::put(KEY, &large[1..]);
    assert_eq!(journal.append(&[most; 4]), Err(AppendError::Group));
    for _ in 0..85 {
        journal.append(&[most; 3]).unwrap();
    }
    assert_eq!(journal.append(&[most; 3]), Err(AppendError::Backlog));
    assert_eq!(journal.commit().unwrap(), GroupNumber(85));
    assert_eq!(journal.append(&[most; 3]), Ok(GroupNumber(86)));
    assert_eq!(journal.commit().unwrap(), GroupNumber(86));
    assert_eq!(journal.figures().records, 1);
}

#[test]
fn segment_size_that_holds_no_group_is_refused() {
    for bytes in [0, 512, 4095, 8192 + 1] {
        let opened = Journal::open(MemoryFolder::new().files(), &options(bytes));
        assert!(matches!(opened, Err(StoreError::SegmentSize)), "{bytes}");
    }
}

#[test]
fn second_process_is_refused_until_the_first_one_ends() {
    let folder = MemoryFolder::new();
    let (journal, _) = Journal::open(folder.files(), &options(8192)).unwrap();
    let second = Journal::open(folder.files(), &options(8192));
    let Err(error) = second else { panic!("two processes on one folder") };
    assert_eq!(error.to_string(), "another process uses the folder of the journal");
    drop(journal);
    Journal::open(folder.files(), &options(8192)).unwrap();
}

/// Files do not exceed twice the live data and five segments. Where data are removed, the files
/// shrink a little later, so data that were live within the last changes are included.
fn assert_bound(run: &mut Run, live: &mut Vec<u64>) {
    let figures = run.journal().figures();
    live.push(figures.live_octets);
    let most = live.iter().rev().take(100).max().unwrap();
    let bound = 2 * (most * 512 / 500) + 5 * u64::from(run.options.segment_bytes);
    assert!(figures.file_octets <= bound, "{figures:?}, at most {bound}");
    assert_eq!(figures.file_octets, run.folder.octets() as u64);
}

#[test]
fn files_stay_within_their_bound_while_records_change() {
    for (seed, keys, value_octets) in
        [(1, 2, 100), (2, 20, 900), (3, 60, 700), (4, 100, 1000), (5, 150, 1000), (6, 400, 1000)]
    {
        let shape = ChangeShape { keys, value_octets, group_max: 6 };
        let mut random = StdRng::seed_from_u64(seed);
        let mut run = Run::new(64 << 10);
        let mut live = Vec::new();
        for _ in 0..1500 {
            let group = random_group(&mut random, shape);
            assert!(run.append(&group));
            run.commit();
            run.journal().maintain().unwrap();
            assert_bound(&mut run, &mut live);
            let appended = run.appended;
            run.states.retain(|number, _| *number == appended);
        }
        run.maintain_all();
        assert!(run.journal().figures().copied_octets > 0, "{keys} keys: nothing was compacted");
        let image = run.folder.image();
        let reopened = reopen(image, &run.options).unwrap();
        run.check(&reopened, run.appended, "end");
    }
}

/// Nobody calls the upkeep: commits compact by themselves.
#[test]
fn commits_alone_keep_the_bound() {
    let mut run = Run::new(16 << 10);
    let value = [7; 300];
    // Some stay as they are.
    for number in 100..110 {
        let key = RecordKey::number(RecordKind::Session, number);
        run.journal().append(&[StoreChange::put(key, &value)]).unwrap();
    }
    for number in 0..3000 {
        let key = RecordKey::number(RecordKind::Session, number % 20);
        run.journal().append(&[StoreChange::put(key, &value)]).unwrap();
        run.journal().commit().unwrap();
    }
    let figures = run.journal().figures();
    assert!(figures.copied_octets > 0);
    assert!(figures.file_octets <= 2 * figures.live_octets + 5 * (16 << 10), "{figures:?}");
}

#[test]
fn removed_records_leave_no_more_than_three_segments() {
    let mut run = Run::new(16 << 10);
    let value = vec![7; 900];
    for number in 0..400 {
        let key = RecordKey::number(RecordKind::Session, number);
        run.journal().append(&[StoreChange::put(key, &value)]).unwrap();
        run.journal().commit().unwrap();
        run.journal().maintain().unwrap();
    }
    assert!(run.folder.octets() > 400 * 900);
    for number in 0..400 {
        let key = RecordKey::number(RecordKind::Session, number);
        run.journal().append(&[StoreChange::remove(key)]).unwrap();
    }
    run.journal().commit().unwrap();
    run.maintain_all();
    assert!(run.folder.octets() <= 3 * (16 << 10), "{} octets", run.folder.octets());
    let reopened = reopen(run.folder.image(), &run.options).unwrap();
    assert_eq!(reopened.records, ModelRecords::new());
}

#[test]
fn upkeep_without_changes_ends() {
    let mut random = StdRng::seed_from_u64(9);
    let mut run = Run::new(8192);
    for _ in 0..300 {
        let group = random_group(&mut random, SMALL);
        assert!(run.append(&group));
        run.commit();
    }
    run.maintain_all();
    let copied = run.journal().figures().copied_octets;
    for _ in 0..50 {
        assert_eq!(run.journal().maintain().unwrap(), Upkeep::Idle);
    }
    assert_eq!(run.journal().figures().copied_octets, copied);
}

#[test]
fn segments_of_another_size_are_read_and_replaced() {
    let mut random = StdRng::seed_from_u64(3);
    let mut run = Run::new(8192);
    for segment_bytes in [8192, 32 << 10, 12 << 10] {
        run.options.segment_bytes = segment_bytes;
        let image = run.folder.image();
        run.restart(image);
        for _ in 0..150 {
            let group = random_group(&mut random, SMALL);
            assert!(run.append(&group));
            run.commit();
            run.journal().maintain().unwrap();
        }
        run.maintain_all();
    }
    let records = records_of(run.journal()).unwrap();
    assert_eq!(&records, run.records());
}

#[test]
fn foreign_files_stay_and_are_reported() {
    let folder = MemoryFolder::new();
    drop(Journal::open(folder.files(), &options(8192)).unwrap());
    let mut files: Vec<(String, Vec<u8>)> =
        folder.image().files().map(|(name, octets)| (name.into(), octets.into())).collect();
    let foreign = ["0001.segment", "README", "spare.segment", "x0000000000000001.segment"];
    files.extend(foreign.map(|name| (name.to_owned(), b"text".to_vec())));
    let image = adit_testkit::memory_folder::FolderImage::of(&files);
    let folder = MemoryFolder::from_image(image);
    let (_, report) = Journal::open(folder.files(), &options(8192)).unwrap();
    assert_eq!(report.foreign, foreign);
    assert_eq!(folder.image().files().filter(|(name, _)| foreign.contains(name)).count(), 4);
}

/// A step of a random run.
#[derive(Debug, Clone, Copy)]
enum Step {
    Append,
    Commit,
    Maintain,
    Restart,
    Crash(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => Just(Step::Append),
        6 => Just(Step::Commit),
        4 => Just(Step::Maintain),
        1 => Just(Step::Restart),
        1 => any::<u64>().prop_map(Step::Crash),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn random_runs_with_restarts_and_crashes_equal_a_map(
        seed: u64,
        sectors in 8_u32..40,
        sync_polls in 0_u32..4,
        steps in prop::collection::vec(step(), 1..250),
    ) {
        let mut random = StdRng::seed_from_u64(seed);
        let mut run = Run::new(sectors * 512);
        run.delay_syncs(sync_polls);
        for step in steps {
            match step {
                Step::Append => {
                    let group = random_group(&mut random, SMALL);
                    prop_assert!(run.append(&group));
                }
                Step::Commit => run.commit(),
                Step::Maintain => {
                    run.journal().maintain().unwrap();
                }
                Step::Restart => run.restart_process(),
                Step::Crash(seed) => {
                    let mut keeps = StdRng::seed_from_u64(seed);
                    let image = run.folder.crash(|| rand::Rng::random(&mut keeps));
                    run.restart(image);
                }
            }
        }
        run.commit();
        let records = records_of(run.journal()).unwrap();
        prop_assert_eq!(&records, run.records());
    }
}
