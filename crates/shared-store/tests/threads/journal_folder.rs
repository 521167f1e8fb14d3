//! The journal on real files: processes that are killed, two processes on one folder, a folder that
//! cannot be written.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use adit_shared_store::journal_folder::JournalFolder;
use adit_store::{
    Journal, JournalOptions, OpenReport, RecordId, RecordKey, RecordKind, RecordStore, StoreChange,
    StoreError,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Names the folder to a child process, which runs one test of this program.
const FOLDER: &str = "ADIT_JOURNAL_FOLDER";
const SESSIONS: u64 = 500;

type Opened = Result<(Journal<JournalFolder>, OpenReport), StoreError>;

/// Opens a journal. Children of other tests have its lock file open until they run their program.
fn open(path: &Path) -> Opened {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        match open_now(path) {
            Err(StoreError::InUse) if Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(1));
            }
            opened => return opened,
        }
    }
}

fn open_now(path: &Path) -> Opened {
    let options = JournalOptions { segment_bytes: 256 << 10, ..JournalOptions::new(77) };
    Journal::open(JournalFolder::new(path.to_owned()).unwrap(), &options)
}

fn session(number: u64) -> RecordKey<'static> {
    RecordKey::number(RecordKind::Session, number)
}

/// The value that change `change` gives a session: a session whose record is mixed from two changes
/// is found.
fn value(number: u64, change: u64) -> Vec<u8> {
    let len = 100 + usize::try_from((change * 7919) % 900).unwrap();
    let words = [number.to_le_bytes(), change.to_le_bytes()].concat();
    words.iter().copied().cycle().take(len).collect()
}

fn spawn(path: &Path, test: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(FOLDER, path);
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// The child: changes pairs of sessions and prints which are durable, until it is killed.
#[test]
fn child_that_writes() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let (mut journal, _) = open(Path::new(&folder)).unwrap();
    let mut random = StdRng::from_os_rng();
    let mut out = std::io::stdout().lock();
    // Ends the line that the test harness began.
    writeln!(out).unwrap();
    loop {
        for _ in 0..random.random_range(1..40) {
            let number = random.random_range(0..SESSIONS) & !1;
            let change = journal.figures().durable.0 * 1000 + random.random_range(0..1000);
            let values = [value(number, change), value(number + 1, change)];
            let group = if random.random_bool(0.8) {
                [
                    StoreChange::put(session(number), &values[0]),
                    StoreChange::put(session(number + 1), &values[1]),
                ]
            } else {
                [StoreChange::remove(session(number)), StoreChange::remove(session(number + 1))]
            };
            let change = if group[0].value.is_some() { change } else { u64::MAX };
            // Written before the commit: the parent finds one of these.
            writeln!(out, "try {} {number} {change}", journal.append(&group).unwrap().0).unwrap();
        }
        out.flush().unwrap();
        writeln!(out, "durable {}", journal.commit().unwrap().0).unwrap();
        out.flush().unwrap();
        journal.maintain().unwrap();
    }
}

/// Changes that a killed child printed.
#[derive(Debug, Default)]
struct Book {
    /// By group: the first session of the pair, and the change or `u64::MAX` for a removal.
    tried: BTreeMap<u64, (u64, u64)>,
    durable: u64,
}

impl Book {
    fn read(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse().unwrap();
        match words[0] {
            "try" if words.len() == 4 => {
                self.tried.insert(number(1), (number(2), number(3)));
            }
            "durable" => self.durable = number(1),
            _ => {}
        }
    }

    /// The records after the groups up to `last`.
    fn replay(&self, records: &mut BTreeMap<u64, Vec<u8>>, last: u64) {
        for (number, change) in self.tried.range(..=last).map(|(_, pair)| *pair) {
            for number in [number, number + 1] {
                match change {
                    u64::MAX => records.remove(&number),
                    change => records.insert(number, value(number, change)),
                };
            }
        }
    }
}

fn records_of(journal: &mut Journal<JournalFolder>) -> BTreeMap<u64, Vec<u8>> {
    let mut records = BTreeMap::new();
    let kinds = [RecordKind::Session];
    let visited = journal.visit(&kinds, &mut |key, value| {
        let RecordId::Number(number) = key.id else { panic!("{key}") };
        assert!(records.insert(number, value.to_vec()).is_none());
    });
    visited.unwrap();
    records
}

#[test]
fn killed_process_loses_nothing_that_it_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let mut records = BTreeMap::new();
    let mut total = 0;
    for round in 0.. {
        // On a busy machine a child writes few groups before its end.
        if round >= 20 && total > 1000 {
            break;
        }
        assert!(round < 1000, "{total} groups");
        let mut child = spawn(&path, "journal_folder::child_that_writes");
        let mut out = child.stdout.take().unwrap();
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            out.read_to_string(&mut text).unwrap();
            text
        });
        std::thread::sleep(Duration::from_millis(StdRng::from_os_rng().random_range(5..120)));
        child.kill().unwrap();
        child.wait().unwrap();
        let text = reader.join().unwrap();
        let mut book = Book::default();
        // The last line may be cut off.
        let lines = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
        lines.lines().for_each(|line| book.read(line));
        let (mut journal, _) = open(&path).unwrap();
        let last = journal.durable().0;
        assert!(last >= book.durable, "round {round}: {last} of {}", book.durable);
        book.replay(&mut records, last);
        assert!(records_of(&mut journal) == records, "round {round}: other records");
        total += book.tried.len();
    }
    println!("{total} groups");
}

/// The child: opens the journal, says so, and waits.
#[test]
fn child_that_waits() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let opened = open(Path::new(&folder)).unwrap();
    println!("open");
    std::thread::sleep(Duration::from_secs(60));
    drop(opened);
}

#[test]
fn second_process_is_refused_until_the_first_one_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = spawn(folder.path(), "journal_folder::child_that_waits");
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let is_open = lines.map_while(Result::ok).any(|line| line.ends_with("open"));
    let second = open_now(folder.path()).err();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(is_open && matches!(second, Some(StoreError::InUse)), "{second:?}");
    open(folder.path()).unwrap();
}

#[test]
fn folder_that_cannot_be_written_is_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert!(JournalFolder::new(file.join("journal")).is_err());
    let path = folder.path().join("journal");
    drop(open(&path).unwrap());
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o555)).unwrap();
    std::fs::set_permissions(path.join("lock"), std::fs::Permissions::from_mode(0o444)).unwrap();
    match open(&path) {
        Err(error) => {
            let text = error.to_string();
            assert!(text.starts_with("cannot lock the folder of the journal: "), "{text}");
        }
        // Permissions do not bind root.
        Ok(_) => assert!(rustix::process::geteuid().is_root()),
    }
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn restored_records_equal_those_of_the_last_commit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for round in 0..5 {
        let (mut journal, report) = open(path).unwrap();
        assert_eq!(report.is_new, round == 0);
        for number in 0..2000 {
            let octets = value(number, round);
            journal.append(&[StoreChange::put(session(number), &octets)]).unwrap();
            if number % 50 == 49 {
                journal.commit().unwrap();
                journal.maintain().unwrap();
            }
        }
        drop(journal);
        let (mut journal, _) = open(path).unwrap();
        let expected = (0..2000).map(|number| (number, value(number, round))).collect();
        assert!(records_of(&mut journal) == expected);
        let figures = journal.figures();
        let on_disk: u64 = std::fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap().len())
            .sum();
        assert_eq!(figures.file_octets, on_disk);
        assert!(on_disk <= 2 * figures.live_octets + 6 * (256 << 10) + (64 << 10), "{figures:?}");
    }
}

/// Records show who uses which address: nobody but the owner reads them, whichever user made the
/// folder before.
#[test]
fn folder_and_files_are_of_their_owner_alone_and_what_was_open_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a/b/journal");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let check = || {
        assert_eq!(mode(&path), 0o700);
        for entry in std::fs::read_dir(&path).unwrap() {
            assert_eq!(mode(&entry.unwrap().path()), 0o600);
        }
    };
    drop(open(&path).unwrap());
    check();
    let others = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let entries: Vec<_> =
        std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(entries.len() >= 2, "{entries:?}");
    entries.iter().for_each(|path| others(path, 0o644));
    others(&path, 0o755);
    let folder = JournalFolder::new(path.clone()).unwrap();
    assert_eq!(folder.narrowed().len(), entries.len() + 1);
    check();
    assert_eq!(JournalFolder::new(path.clone()).unwrap().narrowed().len(), 0);
}

#[test]
fn folder_that_is_removed_or_replaced_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let (path, away) = (dir.path().join("journal"), dir.path().join("away"));
    let (mut journal, _) = open(&path).unwrap();
    journal.check_place().unwrap();
    let is_removed = |journal: &mut Journal<JournalFolder>| {
        matches!(journal.check_place(), Err(StoreError::Removed))
    };
    std::fs::rename(&path, &away).unwrap();
    assert!(is_removed(&mut journal));
    std::fs::create_dir(&path).unwrap();
    assert!(is_removed(&mut journal), "another folder of this name");
    std::fs::remove_dir(&path).unwrap();
    std::fs::rename(&away, &path).unwrap();
    journal.check_place().unwrap();
    for entry in std::fs::read_dir(&path).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    assert!(is_removed(&mut journal), "its files are gone");
}
