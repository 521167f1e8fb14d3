//! The thread of a store whose disk fails for a while, or that another process takes over.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use adit_shared_store::journal_folder::JournalFolder;
use adit_shared_store::store_thread::{StoreLink, ThreadStore};
use adit_store::{
    AppendError, Files, GroupNumber, GroupQueue, Journal, JournalFigures, JournalOptions,
    OwnedRecordId, RecordChange, RecordGroup, RecordKey, RecordKind, RecordStore, StoreChange,
    StoreError, StoreState, Upkeep,
};
use adit_types::limits::STORE_VALUE_BYTES_MAX;

const PATIENCE: Duration = Duration::from_secs(30);

/// A folder on a disk that fails on command.
struct FailingFolder {
    folder: JournalFolder,
    fails: Arc<AtomicBool>,
}

impl FailingFolder {
    fn check(&self) -> io::Result<()> {
        match self.fails.load(Ordering::Relaxed) {
            true => Err(io::Error::other("the disk fails")),
            false => Ok(()),
        }
    }
}

impl Files for FailingFolder {
    type File = File;

    fn lock(&mut self) -> io::Result<()> {
        self.folder.lock()
    }

    fn list(&mut self) -> io::Result<Vec<String>> {
        self.folder.list()
    }

    fn create(&mut self, name: &str) -> io::Result<File> {
        self.check()?;
        self.folder.create(name)
    }

    fn open(&mut self, name: &str) -> io::Result<File> {
        self.folder.open(name)
    }

    fn len(&mut self, file: &File) -> io::Result<u64> {
        self.folder.len(file)
    }

    fn read_at(&mut self, file: &File, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.folder.read_at(file, offset, into)
    }

    fn write_at(&mut self, file: &File, offset: u64, from: &[u8]) -> io::Result<()> {
        self.check()?;
        self.folder.write_at(file, offset, from)
    }

    fn sync_data(&mut self, file: &File) -> io::Result<()> {
        self.check()?;
        self.folder.sync_data(file)
    }

    fn sync_folder(&mut self) -> io::Result<()> {
        self.check()?;
        self.folder.sync_folder()
    }

    fn begin_sync(&mut self, file: Option<&File>) -> io::Result<()> {
        self.check()?;
        self.folder.begin_sync(file)
    }

    fn poll_sync(&mut self, waits: bool) -> io::Result<bool> {
        self.folder.poll_sync(waits)
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.folder.rename(from, to)
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.folder.remove(name)
    }
}

/// A folder on a file system with so much space.
struct SmallFolder {
    folder: JournalFolder,
    space: Arc<AtomicU64>,
}

impl SmallFolder {
    fn left(&mut self) -> io::Result<u64> {
        let mut used = 0;
        for name in self.folder.list()? {
            let file = self.folder.open(&name)?;
            used += self.folder.len(&file)?;
        }
        Ok(self.space.load(Ordering::Relaxed).saturating_sub(used))
    }
}

impl Files for SmallFolder {
    type File = File;

    fn lock(&mut self) -> io::Result<()> {
        self.folder.lock()
    }

    fn available(&mut self) -> io::Result<u64> {
        self.left()
    }

    fn list(&mut self) -> io::Result<Vec<String>> {
        self.folder.list()
    }

    fn create(&mut self, name: &str) -> io::Result<File> {
        self.folder.create(name)
    }

    fn open(&mut self, name: &str) -> io::Result<File> {
        self.folder.open(name)
    }

    fn len(&mut self, file: &File) -> io::Result<u64> {
        self.folder.len(file)
    }

    fn read_at(&mut self, file: &File, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.folder.read_at(file, offset, into)
    }

    fn write_at(&mut self, file: &File, offset: u64, from: &[u8]) -> io::Result<()> {
        let grows = (offset + from.len() as u64).saturating_sub(self.folder.len(file)?);
        if grows > 0 && grows > self.left()? {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.folder.write_at(file, offset, from)
    }

    fn sync_data(&mut self, file: &File) -> io::Result<()> {
        self.folder.sync_data(file)
    }

    fn sync_folder(&mut self) -> io::Result<()> {
        self.folder.sync_folder()
    }

    fn begin_sync(&mut self, file: Option<&File>) -> io::Result<()> {
        self.folder.begin_sync(file)
    }

    fn poll_sync(&mut self, waits: bool) -> io::Result<bool> {
        self.folder.poll_sync(waits)
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.folder.rename(from, to)
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.folder.remove(name)
    }
}

fn journal(path: &Path, fails: &Arc<AtomicBool>) -> Journal<FailingFolder> {
    let folder = JournalFolder::new(path.to_owned()).unwrap();
    let options = JournalOptions { segment_bytes: 1 << 20, ..JournalOptions::new(7) };
    Journal::open(FailingFolder { folder, fails: Arc::clone(fails) }, &options).unwrap().0
}

fn put(seid: u64, octets: usize) -> RecordChange {
    let value = Some(vec![7; octets]);
    RecordChange { kind: RecordKind::Session, name: OwnedRecordId::Number(seid), value }
}

fn wait_for(mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "it never holds");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The SEIDs of the records in the folder, by ascending index.
fn read(path: &Path) -> Vec<u64> {
    let journal = journal(path, &Arc::new(AtomicBool::new(false)));
    let seid = |_, name, _| match name {
        OwnedRecordId::Number(seid) => seid,
        OwnedRecordId::Octets(_) => unreachable!("sessions have numbers"),
    };
    let cpus = rustix::thread::sched_getaffinity(None).unwrap();
    let (_link, former) =
        StoreLink::start_reading(journal, vec![RecordKind::Session], Box::new(seid), cpus).unwrap();
    let mut seids = Vec::new();
    loop {
        match former.poll().unwrap() {
            Some(batch) if batch.is_empty() => return seids,
            Some(batch) => seids.extend(batch),
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

#[test]
fn groups_of_a_failing_disk_become_durable_when_it_works_again_and_not_before() {
    let dir = tempfile::tempdir().unwrap();
    let (path, fails) = (dir.path().join("journal"), Arc::new(AtomicBool::new(false)));
    let link = StoreLink::start(journal(&path, &fails)).unwrap();
    let group = |number, changes| RecordGroup { number: GroupNumber(number), changes };
    link.send(group(1, vec![put(1, 10)]));
    wait_for(|| link.durable() == GroupNumber(1));
    fails.store(true, Ordering::Relaxed);
    link.send(group(2, vec![put(2, 10)]));
    link.send(group(3, Vec::new()));
    wait_for(|| link.state() == StoreState::Failing);
    let report = link.report();
    assert!(report.failure.is_some_and(|text| text.contains("the disk fails")));
    assert_eq!((link.durable(), report.failures > 0), (GroupNumber(1), true));
    fails.store(false, Ordering::Relaxed);
    wait_for(|| link.durable() == GroupNumber(3) && link.state() == StoreState::Working);
    assert_eq!(link.report().failure, None);
    drop(link);
    assert_eq!(read(&path), [1, 2]);
}

#[test]
fn large_group_is_one_group_and_a_record_beyond_the_limit_is_counted_and_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let (path, fails) = (dir.path().join("journal"), Arc::new(AtomicBool::new(false)));
    let link = StoreLink::start(journal(&path, &fails)).unwrap();
    // The index is in the lowest 24 bits: the order of the records is not that of their SEIDs.
    let seid = |index: u64| (100 - index) << 24 | index;
    let many: Vec<RecordChange> = (0..16).map(|index| put(seid(index), 60_000)).collect();
    let too_large = put(seid(41), STORE_VALUE_BYTES_MAX + 1);
    let changes = many.into_iter().chain([too_large]).collect();
    link.send(RecordGroup { number: GroupNumber(1), changes });
    wait_for(|| link.durable() == GroupNumber(1));
    wait_for(|| link.report().figures.durable == GroupNumber(1));
    assert_eq!(link.report().too_large, 1);
    // A change that no store could take as a whole is not taken in parts.
    let changes = (0..40).map(|index| put(seid(index), 60_000)).collect();
    link.send(RecordGroup { number: GroupNumber(2), changes });
    wait_for(|| link.state() == StoreState::Failing);
    assert_eq!((link.durable(), link.report().figures.durable), (GroupNumber(1), GroupNumber(1)));
    drop(link);
    assert_eq!(read(&path), (0..16).map(seid).collect::<Vec<_>>());
}

/// A store that another process takes over on command.
struct SharedRecords {
    groups: GroupQueue,
    /// Only upkeep makes groups durable.
    commits_fail: bool,
    is_taken: Arc<AtomicBool>,
    is_closed: Arc<AtomicBool>,
}

impl SharedRecords {
    fn check(&self) -> Result<(), StoreError> {
        match self.is_taken.load(Ordering::Relaxed) {
            true => Err(StoreError::Fenced { holder: "another".to_owned() }),
            false => Ok(()),
        }
    }
}

impl RecordStore for SharedRecords {
    fn append(&mut self, changes: &[StoreChange<'_>]) -> Result<GroupNumber, AppendError> {
        self.groups.append(changes, 1000)
    }

    fn commit(&mut self) -> Result<GroupNumber, StoreError> {
        self.check()?;
        if self.commits_fail && self.groups.is_waiting() {
            return Err(StoreError::SegmentSize);
        }
        self.groups.drop_through(self.groups.last());
        Ok(self.durable())
    }

    fn groups(&self) -> &GroupQueue {
        &self.groups
    }

    fn maintain(&mut self) -> Result<Upkeep, StoreError> {
        self.check()?;
        if self.commits_fail {
            self.groups.drop_through(self.groups.last());
        }
        Ok(Upkeep::Idle)
    }

    fn visit(
        &mut self,
        _kinds: &[RecordKind],
        _visitor: &mut dyn FnMut(RecordKey<'_>, &[u8]),
    ) -> Result<(), StoreError> {
        self.check()
    }
}

impl ThreadStore for SharedRecords {
    type Figures = u64;

    fn figures(&self) -> u64 {
        self.durable().0
    }

    fn close(&mut self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }
}

#[test]
fn store_that_another_process_takes_over_is_lost_and_does_not_count_as_failing() {
    // At the next group, and without one.
    for sends in [true, false] {
        let (is_taken, is_closed) = (Arc::default(), Arc::default());
        let store = SharedRecords {
            groups: GroupQueue::default(),
            commits_fail: false,
            is_taken: Arc::clone(&is_taken),
            is_closed: Arc::clone(&is_closed),
        };
        let link = StoreLink::start(store).unwrap();
        let group =
            |number| RecordGroup { number: GroupNumber(number), changes: vec![put(number, 10)] };
        link.send(group(1));
        wait_for(|| link.durable() == GroupNumber(1));
        assert!(!link.is_lost());
        is_taken.store(true, Ordering::Relaxed);
        if sends {
            link.send(group(2));
        }
        wait_for(|| link.is_lost() && link.has_ended());
        // A node that serves on while its store fails must not do so now.
        assert_eq!(link.state(), StoreState::Working);
        assert_eq!(link.durable(), GroupNumber(1));
        let failure = link.report().failure.unwrap_or_default();
        assert!(failure.contains("belongs to another"), "{failure}");
        assert!(is_closed.load(Ordering::Relaxed));
    }
}

#[test]
fn group_that_upkeep_made_durable_is_reported() {
    let store = SharedRecords {
        groups: GroupQueue::default(),
        commits_fail: true,
        is_taken: Arc::default(),
        is_closed: Arc::default(),
    };
    let link = StoreLink::start(store).unwrap();
    link.send(RecordGroup { number: GroupNumber(1), changes: vec![put(1, 10)] });
    wait_for(|| link.durable() == GroupNumber(1));
}

fn open(path: &Path) -> Result<Journal<JournalFolder>, StoreError> {
    let folder = JournalFolder::new(path.to_owned()).unwrap();
    let options = JournalOptions { segment_bytes: 1 << 20, ..JournalOptions::new(7) };
    Journal::open(folder, &options).map(|(journal, _)| journal)
}

/// The thread of a journal in a folder.
fn journal_at(path: &Path) -> StoreLink<JournalFigures> {
    StoreLink::start(open(path).unwrap()).unwrap()
}

/// Removes a file of a journal at work, whose upkeep may have renamed or removed it since it was
/// listed.
fn remove(file: &Path) {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("{error}"),
        _ => {}
    }
}

/// Nothing is acknowledged that only a removed file has; waiting groups are kept once the folder is
/// back.
#[test]
fn removed_folder_fails_within_a_second_and_heals_when_it_is_back() {
    let dir = tempfile::tempdir().unwrap();
    let (path, away) = (dir.path().join("journal"), dir.path().join("away"));
    let link = journal_at(&path);
    let group =
        |number| RecordGroup { number: GroupNumber(number), changes: vec![put(number, 10)] };
    link.send(group(1));
    wait_for(|| link.durable() == GroupNumber(1));
    std::fs::rename(&path, &away).unwrap();
    wait_for(|| link.state() == StoreState::Failing);
    assert!(link.report().failure.is_some_and(|text| text.contains("was removed or replaced")));
    link.send(group(2));
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(link.durable(), GroupNumber(1));
    std::fs::rename(&away, &path).unwrap();
    wait_for(|| link.durable() == GroupNumber(2) && link.state() == StoreState::Working);
    drop(link);
    assert_eq!(read(&path), [1, 2]);
}

/// A folder that stays away is made again, with all records. Another one with files is left alone.
#[test]
fn folder_that_stays_away_is_made_again_with_all_records() {
    let dir = tempfile::tempdir().unwrap();
    let (path, away) = (dir.path().join("journal"), dir.path().join("away"));
    let link = journal_at(&path);
    let group =
        |number| RecordGroup { number: GroupNumber(number), changes: vec![put(number, 10_000)] };
    let send = |numbers: std::ops::RangeInclusive<u64>| {
        let last = *numbers.end();
        numbers.for_each(|number| link.send(group(number)));
        wait_for(|| link.durable() == GroupNumber(last) && link.state() == StoreState::Working);
    };
    send(1..=300);
    // The whole folder, all files of it, and only the one that takes commits.
    std::fs::remove_dir_all(&path).unwrap();
    wait_for(|| link.state() == StoreState::Failing);
    send(301..=310);
    std::fs::read_dir(&path).unwrap().for_each(|entry| remove(&entry.unwrap().path()));
    wait_for(|| link.state() == StoreState::Failing);
    send(311..=600);
    let mut names: Vec<_> = std::fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()).collect();
    names.sort();
    let is_segment = |path: &&std::path::PathBuf| {
        path.extension().is_some() && !path.to_string_lossy().contains("spare")
    };
    names.iter().filter(is_segment).rev().take(2).for_each(|name| remove(name));
    wait_for(|| link.state() == StoreState::Failing);
    send(601..=610);
    assert!(open(&path).is_err(), "locked");
    // Files of somebody else: nothing is written there until they are gone.
    std::fs::rename(&path, &away).unwrap();
    std::fs::create_dir(&path).unwrap();
    std::fs::write(path.join("other"), b"other").unwrap();
    wait_for(|| link.state() == StoreState::Failing);
    link.send(group(611));
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(link.durable(), GroupNumber(610));
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), 1);
    std::fs::remove_file(path.join("other")).unwrap();
    send(612..=620);
    assert_eq!(link.report().upkeep_failure, None);
    drop(link);
    assert_eq!(read(&path), (1..=620).collect::<Vec<_>>());
}

/// Damage that upkeep meets is a loss, which ends when all records are handed over again.
#[test]
fn damaged_segment_goes_when_all_records_are_handed_over_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let fails = Arc::new(AtomicBool::new(false));
    let link = StoreLink::start(journal(&path, &fails)).unwrap();
    let mut number = 0;
    let mut send = |seids: std::ops::RangeInclusive<u64>| {
        for seid in seids {
            number += 1;
            link.send(RecordGroup {
                number: GroupNumber(number),
                changes: vec![put(seid, 10_000)],
            });
        }
        wait_for(|| link.durable() == GroupNumber(number));
        GroupNumber(number)
    };
    send(1..=20);
    let segment = File::options().write(true).open(path.join("0000000000000001.segment")).unwrap();
    std::os::unix::fs::FileExt::write_at(&segment, b"damage", 2000).unwrap();
    while link.losses() == 0 {
        send(11..=20);
    }
    assert!(link.report().upkeep_failure.is_some_and(|why| why.contains("damaged")));
    assert_eq!(link.state(), StoreState::Working);
    let through = send(1..=20);
    link.set_rewritten(1, through);
    wait_for(|| link.report().upkeep_failure.is_none());
    drop(link);
    assert_eq!(read(&path), (1..=20).collect::<Vec<_>>());
}

/// A group that waits for room makes nobody wait for ever: the upkeep goes on, and finds the room.
#[test]
fn full_file_system_heals_without_a_further_group() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let space = Arc::new(AtomicU64::new(3 << 20));
    let folder = SmallFolder {
        folder: JournalFolder::new(path.clone()).unwrap(),
        space: Arc::clone(&space),
    };
    let options = JournalOptions { segment_bytes: 1 << 20, ..JournalOptions::new(7) };
    let link = StoreLink::start(Journal::open(folder, &options).unwrap().0).unwrap();
    let group =
        |number| RecordGroup { number: GroupNumber(number), changes: vec![put(number, 100_000)] };
    let mut number = 0;
    while link.state() == StoreState::Working {
        number += 1;
        link.send(group(number));
        wait_for(|| link.durable() == GroupNumber(number) || link.state() == StoreState::Failing);
        assert!(number < 100, "space has no end");
    }
    assert_eq!(link.state(), StoreState::Full);
    // More than the reserve holds is under way.
    for _ in 0..20 {
        number += 1;
        link.send(group(number));
    }
    wait_for(|| link.state() == StoreState::Failing);
    assert!(link.durable() < GroupNumber(number));
    space.store(1 << 30, Ordering::Relaxed);
    let freed = Instant::now();
    wait_for(|| link.durable() == GroupNumber(number) && link.state() == StoreState::Working);
    println!("healed {:?} after there was room", freed.elapsed());
    drop(link);
    assert_eq!(read(&path), (1..=number).collect::<Vec<_>>());
}
