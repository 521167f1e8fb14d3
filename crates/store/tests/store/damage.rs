//! Damaged files: a journal is whole, or its refusal names the loss; with an explicit setting the
//! rest is kept.

use crate::model::{
    ChangeShape, ModelRecords, Run, SMALL, options, random_group, records_of, reopen,
};
use adit_store::{
    FORMAT_VERSION, Journal, JournalOptions, RecordKey, RecordKind, RecordStore, StoreChange,
    StoreError, Upkeep,
};
use adit_testkit::memory_folder::{FolderImage, MemoryFiles, MemoryFolder};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// A journal of several segments, compacted and used again, whose last commit is acknowledged.
fn small_journal(seed: u64) -> Run {
    let mut random = StdRng::seed_from_u64(seed);
    let mut run = Run::new(8 * 512);
    for _ in 0..30 {
        let group = random_group(&mut random, SMALL);
        assert!(run.append(&group));
        run.commit();
        run.journal().maintain().unwrap();
    }
    run.journal = None;
    run
}

fn names(image: &FolderImage) -> Vec<String> {
    image.files().map(|(name, _)| name.to_owned()).collect()
}

#[test]
fn flipped_bit_at_any_octet_leaves_the_journal_whole_or_is_named() {
    let run = small_journal(1);
    let image = run.folder.image();
    let (mut whole, mut refused, mut warned) = (0, 0, 0);
    for name in names(&image) {
        let octets = image.clone().octets_mut(&name).unwrap().len();
        for at in 0..octets {
            let mut damaged = image.clone();
            damaged.octets_mut(&name).unwrap()[at] ^= 1 << (at % 8);
            match reopen(damaged, &run.options) {
                Ok(reopened) => {
                    assert_eq!(reopened.durable, run.appended, "{name} at {at}");
                    run.check(&reopened, run.appended, &format!("{name} at {at}"));
                    warned += usize::from(!reopened.report.damaged_headers.is_empty());
                    whole += 1;
                }
                Err(error) => {
                    assert!(matches!(error, StoreError::Damaged(_)), "{name} at {at}: {error}");
                    assert!(error.to_string().contains(&name), "{name} at {at}: {error}");
                    refused += 1;
                }
            }
        }
    }
    println!("whole {whole}, of these {warned} with a damaged copy of a header; refused {refused}");
    assert!(refused > 1000 && whole > 1000 && warned > 1000);
}

#[test]
fn file_cut_at_any_octet_leaves_the_journal_whole_or_is_named() {
    let run = small_journal(2);
    let image = run.folder.image();
    let mut refused = 0;
    for name in names(&image) {
        let octets = image.clone().octets_mut(&name).unwrap().len();
        for len in 0..octets {
            let mut damaged = image.clone();
            damaged.octets_mut(&name).unwrap().truncate(len);
            match reopen(damaged, &run.options) {
                Ok(reopened) => run.check(&reopened, run.appended, &format!("{name} of {len}")),
                Err(error) => {
                    assert!(error.to_string().contains(&name), "{name} of {len}: {error}");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 1000);
}

#[test]
fn sector_of_zeros_or_noise_is_never_half_a_record() {
    let run = small_journal(3);
    let image = run.folder.image();
    let mut random = StdRng::seed_from_u64(3);
    for name in names(&image) {
        let sectors = image.clone().octets_mut(&name).unwrap().len() / 512;
        for sector in 0..sectors {
            for noise in [false, true] {
                let mut damaged = image.clone();
                let octets = &mut damaged.octets_mut(&name).unwrap()[sector * 512..][..512];
                octets.fill_with(|| if noise { random.random() } else { 0 });
                match reopen(damaged, &run.options) {
                    // The end of the last commit looks as if it had never been written.
                    Ok(reopened) => run.check(&reopened, run.appended - 1, &name),
                    Err(error) => assert!(matches!(error, StoreError::Damaged(_)), "{error}"),
                }
            }
        }
    }
}

#[test]
fn missing_segment_is_named() {
    let run = small_journal(4);
    let image = run.folder.image();
    let mut refused = 0;
    for name in names(&image) {
        let mut damaged = image.clone();
        damaged.remove(&name);
        match reopen(damaged, &run.options) {
            Ok(reopened) => run.check(&reopened, run.appended, &name),
            Err(error) => {
                assert!(matches!(error, StoreError::Damaged(_)), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused >= 2, "{refused}");
}

/// A segment that is full of commits names the next one: its loss, of the end of the journal, is
/// noticed.
#[test]
fn last_segment_with_commits_is_missed() {
    let folder = MemoryFolder::new();
    let (mut journal, _) = Journal::open(folder.files(), &options(8192)).unwrap();
    let has = |folder: &MemoryFolder, number: u64| {
        names(&folder.image()).contains(&format!("{number:016x}.segment"))
    };
    let mut number = 0;
    while !(has(&folder, 2) && number >= 14) {
        let key = RecordKey::number(RecordKind::Session, number);
        journal.append(&[StoreChange::put(key, b"value")]).unwrap();
        journal.commit().unwrap();
        number += 1;
    }
    drop(journal);
    assert_eq!(reopen(folder.image(), &options(8192)).unwrap().durable, number);
    let mut image = folder.image();
    image.remove("0000000000000002.segment");
    let error = reopen(image, &options(8192)).unwrap_err();
    assert!(error.to_string().contains("0000000000000002.segment is missing"), "{error}");
}

/// The only segment with commits is gone; its successor was ready already.
#[test]
fn loss_of_all_segments_with_commits_is_missed() {
    let folder = MemoryFolder::new();
    let (mut journal, report) = Journal::open(folder.files(), &options(8192)).unwrap();
    assert!(report.is_new);
    while journal.maintain().unwrap() != Upkeep::Idle {}
    drop(journal);
    assert!(reopen(folder.image(), &options(8192)).is_ok(), "nothing was kept yet");
    let (mut journal, _) = Journal::open(folder.files(), &options(8192)).unwrap();
    for number in 0..9 {
        let key = RecordKey::number(RecordKind::Session, number);
        journal.append(&[StoreChange::put(key, b"value")]).unwrap();
        journal.commit().unwrap();
        while journal.maintain().unwrap() != Upkeep::Idle {}
    }
    drop(journal);
    let segments = names(&folder.image());
    let segments: Vec<&String> = segments.iter().filter(|n| n.ends_with(".segment")).collect();
    assert!(segments.len() > 1, "{segments:?}");
    for count in [1, segments.len()] {
        let mut image = folder.image();
        segments.iter().take(count).for_each(|name| image.remove(name));
        let error = reopen(image.clone(), &options(8192)).unwrap_err();
        assert!(matches!(error, StoreError::Damaged(_)), "{error}");
        let accepting = JournalOptions { accept_loss: true, ..options(8192) };
        assert_eq!(reopen(image, &accepting).unwrap().report.losses.len(), 1);
    }
    // A journal of a program that made no mark is read, and gets one.
    let mut image = folder.image();
    image.remove("begun");
    let marked = MemoryFolder::from_image(image);
    drop(Journal::open(marked.files(), &options(8192)).unwrap());
    assert!(names(&marked.crash(|| false)).contains(&"begun".to_owned()));
}

/// Each copy of the header is enough; both are needed to lose it.
#[test]
fn either_copy_of_a_header_opens_the_journal_and_the_other_is_reported() {
    let (folder, options) = plain_journal();
    let name = names(&folder.image())[0].clone();
    for copies in [[true, false], [false, true], [true, true]] {
        let mut image = folder.image();
        for (copy, _) in copies.iter().enumerate().filter(|(_, is_damaged)| **is_damaged) {
            image.octets_mut(&name).unwrap()[copy * 512 + 20] ^= 1;
        }
        match reopen(image, &options) {
            Ok(reopened) => {
                assert_eq!((reopened.durable, reopened.report.damaged_headers.len()), (8, 1));
                assert_ne!(copies, [true, true]);
            }
            Err(error) => {
                assert_eq!(copies, [true, true], "{error}");
                assert!(error.to_string().contains("damaged header"), "{error}");
            }
        }
    }
}

/// A header whose checksum is right and whose size is not that of a segment.
#[test]
fn header_of_no_size_is_damage() {
    for sectors in [0_u32, 1, 2, 3, 7, u32::MAX] {
        let (folder, options) = plain_journal();
        let mut image = folder.image();
        let name = names(&image)[0].clone();
        for copy in image.octets_mut(&name).unwrap()[..1024].chunks_mut(512) {
            copy[12..16].copy_from_slice(&sectors.to_le_bytes());
            let crc = crc32c::crc32c(&copy[..508]);
            copy[508..].copy_from_slice(&crc.to_le_bytes());
        }
        let error = reopen(image, &options).unwrap_err();
        assert!(error.to_string().contains("damaged header"), "{sectors}: {error}");
    }
}

/// Compaction meets a record that has changed: it says so once, the record stays, and commits go
/// on.
#[test]
fn damage_that_compaction_meets_is_reported_once_and_ends_when_the_records_are_written_anew() {
    let mut run = Run::new(16 << 10);
    let put = |journal: &mut Journal<MemoryFiles>, number: u64| {
        let key = RecordKey::number(RecordKind::Session, number % 40);
        journal.append(&[StoreChange::put(key, &[7; 300])]).unwrap();
        journal.commit().unwrap();
    };
    for number in 0..20 {
        put(run.journal(), number);
    }
    let name = "0000000000000001.segment";
    let file = run.folder.image().octets_mut(name).unwrap().clone();
    run.folder.damage(name, 5 * 512 + 60);
    assert_ne!(run.folder.image().octets_mut(name).unwrap(), &file);
    let mut told = 0;
    for number in 20..200 {
        // Not all of the first ones change, so the first segment has live records.
        put(run.journal(), 20 + number % 20);
        told += usize::from(matches!(run.journal().maintain(), Err(StoreError::Damaged(_))));
    }
    assert_eq!((told, run.journal().is_damaged()), (1, true));
    for number in 0..20 {
        put(run.journal(), number);
    }
    run.maintain_all();
    assert!(!run.journal().is_damaged());
    let reopened = reopen(run.folder.image(), &run.options).unwrap();
    assert_eq!(reopened.records.len(), 40);
}

/// The owner of the records appends all of them again. After that the segment goes, with records
/// that nobody appended.
#[test]
fn damage_that_compaction_meets_is_a_loss_until_all_records_are_appended_again() {
    let mut run = Run::new(16 << 10);
    let put = |journal: &mut Journal<MemoryFiles>, number: u64| {
        let key = RecordKey::number(RecordKind::Session, number);
        journal.append(&[StoreChange::put(key, &[7; 300])]).unwrap();
        journal.commit().unwrap();
    };
    for number in 0..20 {
        put(run.journal(), number);
    }
    run.folder.damage("0000000000000001.segment", 5 * 512 + 60);
    let change = |run: &mut Run, number: u64| {
        put(run.journal(), 20 + number % 20);
        run.journal().maintain().err()
    };
    // Without room for all of them, the owner must not append them.
    run.folder.limit_space(Some(run.folder.octets() + (40 << 10)));
    let found = (0..80).find_map(|number| change(&mut run, number)).unwrap();
    assert!(matches!(found, StoreError::Damaged(_)), "{found}");
    let _ = run.journal().maintain();
    assert_eq!(run.journal().losses(), 0);
    run.folder.limit_space(None);
    let _ = run.journal().maintain();
    assert_eq!(run.journal().losses(), 1);
    // The process has not read all: record 0 is in a commit that can be read, 3 in the one that
    // cannot.
    for number in (1..40).filter(|number| *number != 3) {
        put(run.journal(), number);
    }
    run.journal().set_complete();
    run.maintain_all();
    assert_eq!((run.journal().is_damaged(), run.journal().losses()), (false, 1));
    let found = records_of(run.journal()).unwrap();
    let reopened = reopen(run.folder.image(), &run.options).unwrap();
    assert_eq!(reopened.records, found);
    let numbers: Vec<_> = (0..40).filter(|number| *number != 3).collect();
    let has = |number: &u64| {
        found.contains_key(&(RecordKind::Session, crate::model::ModelId::Number(*number)))
    };
    assert_eq!((0..40).filter(has).collect::<Vec<_>>(), numbers);
    assert!((0..200).all(|number| change(&mut run, number).is_none()), "all of it is sound");
}

/// The process has the removed files open: all records stand in the new ones when it goes on.
#[test]
fn journal_whose_files_are_removed_goes_on_in_new_ones() {
    let mut random = StdRng::seed_from_u64(5);
    let shape = ChangeShape { keys: 60, value_octets: 400, group_max: 3 };
    for round in 0..20 {
        let mut run = Run::new(16 << 10);
        run.delay_syncs(round % 3);
        for _ in 0..random.random_range(1..150) {
            let group = random_group(&mut random, shape);
            run.append(&group);
            run.commit();
            let _ = run.journal().maintain();
        }
        for again in 0..2 {
            run.folder.remove_all();
            assert!(matches!(run.journal().check_place(), Err(StoreError::Removed)));
            let group = random_group(&mut random, shape);
            run.append(&group);
            run.journal().begin_again().unwrap();
            run.journal().check_place().unwrap();
            run.commit();
            let appended = run.appended;
            run.restart(run.folder.crash(|| false));
            assert_eq!(run.appended, appended, "{round} {again}");
            run.maintain_all();
            run.restart_process();
        }
    }
}

/// A removed file that cannot be read any more is damage: its records are to be appended again.
#[test]
fn records_of_removed_files_that_cannot_be_read_are_a_loss() {
    let mut run = Run::new(16 << 10);
    let put = |journal: &mut Journal<MemoryFiles>, number: u64| {
        let key = RecordKey::number(RecordKind::Session, number);
        journal.append(&[StoreChange::put(key, &[7; 300])]).unwrap();
        journal.commit().unwrap();
    };
    (0..60).for_each(|number| put(run.journal(), number));
    run.folder.damage("0000000000000001.segment", 5 * 512 + 60);
    run.folder.remove_all();
    run.journal().begin_again().unwrap();
    // A process that starts now does not take it for whole.
    assert!(matches!(reopen(run.folder.image(), &run.options), Err(StoreError::Damaged(_))));
    let found = (0..20).find_map(|_| run.journal().maintain().err()).unwrap();
    assert!(matches!(found, StoreError::Damaged(_)), "{found}");
    let _ = run.journal().maintain();
    assert_eq!(run.journal().losses(), 1);
    (0..60).for_each(|number| put(run.journal(), number));
    run.journal().set_complete();
    run.maintain_all();
    assert!(!run.journal().is_damaged());
    assert_eq!(reopen(run.folder.image(), &run.options).unwrap().records.len(), 60);
}

/// Values of two keys in turn, so that each commit has one group of one sector.
fn plain_journal() -> (MemoryFolder, JournalOptions) {
    let folder = MemoryFolder::new();
    let options = options(16 << 10);
    let (mut journal, _) = Journal::open(folder.files(), &options).unwrap();
    for number in 1..=8 {
        let key = RecordKey::number(RecordKind::Session, number);
        journal.append(&[StoreChange::put(key, b"value")]).unwrap();
        journal.commit().unwrap();
    }
    (folder, options)
}

#[test]
fn damaged_commit_is_dropped_and_listed_if_the_loss_is_accepted() {
    let (folder, mut options) = plain_journal();
    let mut image = folder.image();
    let name = names(&image)[0].clone();
    // Commit 3 is in sector 4, behind two sectors of header.
    image.octets_mut(&name).unwrap()[4 * 512 + 60] ^= 1;
    let Err(StoreError::Damaged(found)) = reopen(image.clone(), &options) else { panic!("opened") };
    let [damage] = &found[..] else { panic!("{found:?}") };
    assert_eq!(damage.what, "is damaged from sector 4 to 4");
    assert_eq!((damage.after, damage.before), (2, Some(4)));
    assert_eq!(
        StoreError::Damaged(found).to_string(),
        "the journal is damaged: 0000000000000001.segment is damaged from sector 4 to 4; changes 3 to 3 may \
         be lost"
    );
    options.accept_loss = true;
    let folder = MemoryFolder::from_image(image);
    let (mut journal, report) = Journal::open(folder.files(), &options).unwrap();
    assert_eq!(report.losses.len(), 1);
    let records = records_of(&mut journal).unwrap();
    let numbers: Vec<_> = records.keys().cloned().collect();
    assert_eq!(records.len(), 7);
    assert!(!numbers.contains(&(RecordKind::Session, crate::model::ModelId::Number(3))));
    let key = RecordKey::number(RecordKind::Session, 9);
    journal.append(&[StoreChange::put(key, b"value")]).unwrap();
    assert_eq!(journal.commit().unwrap().0, 9);
    drop(journal);
    // The rest stands in new segments: the next start needs no permission.
    options.accept_loss = false;
    let reopened = reopen(folder.image(), &options).unwrap();
    assert_eq!(reopened.records.len(), 8);
}

#[test]
fn accepted_losses_of_any_kind_leave_a_journal_that_works() {
    for seed in 0..60 {
        let run = small_journal(seed);
        let mut random = StdRng::seed_from_u64(seed);
        let mut image = run.folder.image();
        for _ in 0..random.random_range(1..4) {
            let mut names = names(&image);
            names.retain(|name| name.ends_with(".segment"));
            let name = &names[random.random_range(0..names.len())];
            match random.random_range(0..4) {
                0 => image.remove(name),
                1 => image.octets_mut(name).unwrap()[..1024].fill(9),
                2 => {
                    let octets = image.octets_mut(name).unwrap();
                    let len = random.random_range(0..octets.len().max(1));
                    octets.truncate(len);
                }
                _ => {
                    if let Some(octets) = image.octets_mut(name).filter(|octets| octets.len() > 9) {
                        let at = random.random_range(0..octets.len());
                        octets[at] ^= 0x10;
                    }
                }
            }
            if names.len() < 2 {
                break;
            }
        }
        let accepting = JournalOptions { accept_loss: true, ..run.options };
        let is_sound = reopen(image.clone(), &run.options).is_ok();
        let folder = MemoryFolder::from_image(image);
        let (mut journal, report) = Journal::open(folder.files(), &accepting).unwrap();
        assert_eq!(is_sound, report.losses.is_empty(), "seed {seed}: {:?}", report.losses);
        let records = records_of(&mut journal).unwrap();
        let key = RecordKey::number(RecordKind::Node, u64::MAX);
        journal.append(&[StoreChange::put(key, b"new")]).unwrap();
        journal.commit().unwrap();
        drop(journal);
        let reopened = reopen(folder.image(), &run.options);
        let reopened = reopened.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(reopened.records.len(), records.len() + 1, "seed {seed}");
    }
}

#[test]
fn segment_of_another_journal_or_name_is_refused_by_its_name() {
    let (folder, options) = plain_journal();
    let image = folder.image();
    let octets = image.files().next().unwrap().1.to_vec();
    let renamed = FolderImage::of(&[("0000000000000005.segment".into(), octets.clone())]);
    let error = reopen(renamed, &options).unwrap_err();
    let text = "0000000000000005.segment does not belong to this journal: remove it";
    assert_eq!(error.to_string(), text);
    let other = MemoryFolder::new();
    let others = JournalOptions { identity: 9, ..options };
    let (mut journal, _) = Journal::open(other.files(), &others).unwrap();
    let key = RecordKey::number(RecordKind::Session, 1);
    journal.append(&[StoreChange::put(key, b"x")]).unwrap();
    journal.commit().unwrap();
    drop(journal);
    let foreign = other.image().files().next().unwrap().1.to_vec();
    let both = [("0000000000000001.segment".into(), octets), (names(&image)[0].clone(), foreign)];
    let error = reopen(FolderImage::of(&both), &options);
    assert!(error.is_ok() || matches!(error, Err(StoreError::Foreign { .. })));
}

#[test]
fn newer_format_is_refused_in_one_sentence() {
    let (folder, options) = plain_journal();
    let mut image = folder.image();
    let name = names(&image)[0].clone();
    let octets = image.octets_mut(&name).unwrap();
    for copy in octets[..1024].chunks_mut(512) {
        copy[8..12].copy_from_slice(&(FORMAT_VERSION + 1).to_le_bytes());
        let crc = crc32c::crc32c(&copy[..508]);
        copy[508..].copy_from_slice(&crc.to_le_bytes());
    }
    let error = reopen(image, &options).unwrap_err();
    assert_eq!(
        error.to_string(),
        "0000000000000001.segment has format version 2, this program reads versions up to 1: start the newer \
         program or use another place"
    );
}

/// The changes of the journal in `tests/data/v1`.
fn pinned_changes(mut append: impl FnMut(&[StoreChange<'_>])) {
    let session = RecordKey::number(RecordKind::Session, 0x0102_0304_0506_0708);
    let peer = RecordKey::octets(RecordKind::Association, b"smf.example");
    append(&[StoreChange::put(RecordKey::number(RecordKind::Node, 0), b"node")]);
    append(&[StoreChange::put(peer, b"association"), StoreChange::put(session, &[0xab; 700])]);
    append(&[StoreChange::put(RecordKey::octets(RecordKind::Pfds, b"app"), b"")]);
    append(&[StoreChange::put(RecordKey::number(RecordKind::Usage, 1), b"usage")]);
    append(&[StoreChange::remove(RecordKey::number(RecordKind::Usage, 1))]);
    append(&[StoreChange::put(session, b"session")]);
}

const PINNED: &[u8] = include_bytes!("data/v1/0000000000000001.segment");

/// Version 1 stays readable. A change of these octets needs another version, and this file stays.
#[test]
fn octets_of_version_1_are_pinned() {
    let folder = MemoryFolder::new();
    let (mut journal, _) = Journal::open(folder.files(), &options(8192)).unwrap();
    pinned_changes(|group| {
        journal.append(group).unwrap();
        journal.commit().unwrap();
    });
    drop(journal);
    let image = folder.image();
    let (_, octets) = image.files().next().unwrap();
    if let Some(path) = std::env::var_os("ADIT_WRITE_PINNED") {
        std::fs::write(path, octets).unwrap();
    }
    assert!(FORMAT_VERSION > 1 || octets == PINNED, "version 1 has other octets than its data");
    let image = FolderImage::of(&[("0000000000000001.segment".into(), PINNED.to_vec())]);
    let reopened = reopen(image, &options(8192)).unwrap();
    assert_eq!(reopened.durable, 6);
    let id = |octets: &[u8]| crate::model::ModelId::Octets(octets.to_vec());
    let number = crate::model::ModelId::Number;
    let expected = ModelRecords::from([
        ((RecordKind::Node, number(0)), b"node".to_vec()),
        ((RecordKind::Association, id(b"smf.example")), b"association".to_vec()),
        ((RecordKind::Pfds, id(b"app")), Vec::new()),
        ((RecordKind::Session, number(0x0102_0304_0506_0708)), b"session".to_vec()),
    ]);
    assert_eq!(reopened.records, expected);
}
