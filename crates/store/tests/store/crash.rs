//! Crashes: whatever was acknowledged is there afterwards, and each group is there whole or not at
//! all.

use crate::model::{ChangeShape, Run, SMALL, random_group, reopen};
use adit_store::RecordStore;
use adit_testkit::memory_folder::{FileFault, FolderEvent, FolderImage};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Which group was durable after how many events.
type Acknowledged = Vec<(usize, u64)>;

/// Runs until segments were compacted and used again.
fn recorded_run(seed: u64, rounds: usize) -> (Run, Acknowledged) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut run = Run::new(8 * 512);
    // The recorded events begin with an empty folder.
    run.journal = None;
    run.folder = adit_testkit::memory_folder::MemoryFolder::new();
    run.folder.keep_history();
    let (journal, _) = adit_store::Journal::open(run.folder.files(), &run.options).unwrap();
    run.journal = Some(journal);
    let mut acknowledged = vec![(0, 0)];
    let shape = ChangeShape { keys: 6, value_octets: 250, group_max: 3 };
    for _ in 0..rounds {
        for _ in 0..random.random_range(1..=3) {
            let group = random_group(&mut random, shape);
            assert!(run.append(&group));
        }
        run.commit();
        acknowledged.push((run.folder.history_len(), run.appended));
        run.journal().maintain().unwrap();
        acknowledged.push((run.folder.history_len(), run.appended));
    }
    (run, acknowledged)
}

fn is_zeros(event: &FolderEvent) -> bool {
    matches!(event, FolderEvent::Write { octets, .. } if octets.iter().all(|octet| *octet == 0))
}

#[test]
fn run_cut_at_any_octet_keeps_what_was_acknowledged() {
    let (run, acknowledged) = recorded_run(1, 26);
    let figures = run.journal.as_ref().unwrap().figures();
    let events = run.folder.history();
    let recycled = events.iter().filter(|event| match event {
        FolderEvent::Rename { from, .. } => from != "new.segment",
        _ => false,
    });
    assert!(recycled.count() > 3, "files were used again");
    assert!(figures.copied_octets > 1000, "records were copied");
    let mut image = FolderImage::default();
    let mut cuts = 0;
    for (index, event) in events.iter().enumerate() {
        let durable =
            acknowledged.iter().take_while(|(events, _)| *events <= index).last().unwrap();
        let len = match event {
            FolderEvent::Write { octets, .. } => octets.len(),
            _ => 1,
        };
        // Zeros that are written over zeros differ in their number only.
        let step = if is_zeros(event) { 512 } else { 1 };
        for cut in (0..len).step_by(step) {
            let mut image = image.clone();
            if cut > 0 {
                image.apply(event, cut);
            }
            let place = format!("event {index}, octet {cut}");
            let reopened =
                reopen(image, &run.options).unwrap_or_else(|error| panic!("{place}: {error}"));
            run.check(&reopened, durable.1, &place);
            cuts += 1;
        }
        image.apply(event, usize::MAX);
    }
    println!("{cuts} cuts");
    assert!(cuts > 15_000);
}

#[test]
fn sectors_that_a_crash_loses_in_any_order_take_nothing_acknowledged() {
    for seed in 0..400 {
        let mut random = StdRng::seed_from_u64(seed);
        let sectors = random.random_range(8..30);
        let mut run = Run::new(sectors * 512);
        run.delay_syncs(random.random_range(0..3));
        for _ in 0..random.random_range(1..60) {
            for _ in 0..random.random_range(0..4) {
                let group = random_group(&mut random, SMALL);
                assert!(run.append(&group));
            }
            // A crash interrupts the commit, whose sync never comes.
            if random.random_bool(0.15) {
                let durable = run.journal().durable().0;
                let calls = run.folder.calls();
                let first = calls + random.random_range(0..12);
                let fault = [FileFault::Io, FileFault::Killed][random.random_range(0..2)];
                run.folder.fail(first, u64::MAX, fault);
                let committed = run.journal().commit();
                let _ = committed.map(|_| run.journal().maintain());
                let durable = durable.max(run.journal().durable().0);
                let share = random.random_range(0.0..=1.0);
                let image = run.folder.crash(|| random.random_bool(share));
                let reopened = reopen(image.clone(), &run.options)
                    .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                run.check(&reopened, durable, &format!("seed {seed}"));
                run.restart(image);
            } else {
                run.commit();
                run.journal().maintain().unwrap();
            }
        }
    }
}

/// Appends groups to journals with segments of random size. `commit` commits each of them.
fn random_commits(seeds: u64, commit: impl Fn(&mut Run, &mut StdRng, &str)) {
    for seed in 0..seeds {
        let mut random = StdRng::seed_from_u64(seed);
        let mut run = Run::new(random.random_range(8..30) * 512);
        for _ in 0..random.random_range(5..40) {
            let group = random_group(&mut random, SMALL);
            assert!(run.append(&group));
            commit(&mut run, &mut random, &format!("seed {seed}"));
        }
    }
}

/// The sync of a commit fails, and the device loses some of its sectors although readers still see
/// them.
#[test]
fn commit_whose_sync_failed_is_written_again_elsewhere() {
    random_commits(200, |run, random, place| {
        if random.random_bool(0.2) {
            let first = run.folder.calls() + random.random_range(0..4);
            run.folder.fail(first, random.random_range(1..4), FileFault::Io);
            let _ = run.journal().commit();
            run.folder.heal();
        }
        run.commit();
        let _ = run.journal().maintain();
        let reopened = reopen(run.folder.crash(|| false), &run.options).unwrap();
        run.check(&reopened, run.appended, place);
    });
}

/// A commit without its sync, by a process that ended, is found by the next process: from then on
/// it stays.
#[test]
fn commit_that_a_new_process_found_survives_a_crash() {
    let mut found = 0;
    for seed in 0..100 {
        let mut random = StdRng::seed_from_u64(seed);
        let mut run = Run::new(8 * 512);
        for _ in 0..random.random_range(1..20) {
            let group = random_group(&mut random, SMALL);
            assert!(run.append(&group));
            run.commit();
            run.journal().maintain().unwrap();
        }
        let before = run.appended;
        let group = random_group(&mut random, SMALL);
        assert!(run.append(&group));
        // The process is killed during the commit: none of its writes is synced.
        let first = run.folder.calls() + random.random_range(0..8);
        run.folder.kill(first);
        let _ = run.journal().commit();
        run.folder.heal();
        run.restart_process();
        found += run.appended - before;
        let (durable, image) = (run.appended, run.folder.crash(|| false));
        let reopened = reopen(image, &run.options).unwrap();
        run.check(&reopened, durable, &format!("seed {seed}"));
    }
    assert!(found > 20, "{found} commits were found");
}

/// Groups of commits that failed are there once, as soon as a later commit is durable.
#[test]
fn groups_of_failed_commits_are_durable_with_the_next_one() {
    random_commits(200, |run, random, place| {
        if random.random_bool(0.3) {
            let fault = [FileFault::Io, FileFault::Short][random.random_range(0..2)];
            run.folder.fail(run.folder.calls() + random.random_range(0..3), u64::MAX, fault);
            let failed = run.journal().commit().is_err();
            run.folder.heal();
            if failed {
                return;
            }
        }
        run.commit();
        run.journal().maintain().unwrap();
        // The process ends: all that it wrote is there, synced or not.
        let reopened = reopen(run.folder.image(), &run.options).unwrap();
        assert_eq!(reopened.durable, run.appended, "{place}");
        run.check(&reopened, run.appended, place);
    });
}

/// A process that starts again and again between torn commits does not fill the disk.
#[test]
fn restarts_after_torn_commits_do_not_fill_the_folder() {
    let mut random = StdRng::seed_from_u64(5);
    let mut run = Run::new(8192);
    for _ in 0..100 {
        let group = random_group(&mut random, SMALL);
        assert!(run.append(&group));
        run.commit();
        let group = random_group(&mut random, SMALL);
        assert!(run.append(&group));
        run.folder.kill(run.folder.calls() + 1);
        let _ = run.journal().commit();
        let image = run.folder.crash(|| random.random_bool(0.5));
        run.restart(image);
        run.journal().maintain().unwrap();
    }
    run.maintain_all();
    let figures = run.journal().figures();
    let bound = 2 * figures.live_octets + 3 * 8192;
    assert!(figures.file_octets <= bound, "{figures:?}");
}
