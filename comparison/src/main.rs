//! The journal of Adit compared with fjall: durable records per second, filling, restoring, and the
//! waits of changes that come at a rate. A package of its own, because fjall takes minutes to
//! build.
//!
//! ```sh
//! make bench-journal FOLDER=/var/tmp/stores
//! ```
//!
//! The folder is on the disk to be measured. Further words: the number of records to fill with, and
//! `adit`, `fjall` or `waits` for a part. With SLOW in the environment the waits name commits
//! beyond 3 ms.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use adit_shared_store::journal_folder::JournalFolder;
use adit_store::{
    Journal, JournalOptions, RecordId, RecordKey, RecordKind, RecordStore, StoreChange, Upkeep,
};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const VALUE_OCTETS: usize = 600;
const RUN: Duration = Duration::from_secs(5);

/// A store as the comparison uses it.
trait Candidate: Sized {
    const NAME: &'static str;
    fn open(folder: &Path) -> Outcome<Self>;
    /// Makes puts of these sessions durable, each in a group of its own.
    fn commit(&mut self, sessions: &[u64], value: &[u8]) -> Outcome<()>;
    /// True if there may be more to do.
    fn maintain(&mut self) -> Outcome<bool>;
    /// Reads all records; returns how many and their octets.
    fn restore(&mut self) -> Outcome<(usize, usize)>;
}

impl Candidate for Journal<JournalFolder> {
    const NAME: &'static str = "adit";

    fn open(folder: &Path) -> Outcome<Self> {
        let files = JournalFolder::new(folder.to_owned())?;
        Ok(Self::open(files, &JournalOptions::new(1)).map_err(|error| error.to_string())?.0)
    }

    fn commit(&mut self, sessions: &[u64], value: &[u8]) -> Outcome<()> {
        for session in sessions {
            let key = RecordKey::number(RecordKind::Session, *session);
            self.append(&[StoreChange::put(key, value)])?;
        }
        RecordStore::commit(self)?;
        Ok(())
    }

    fn maintain(&mut self) -> Outcome<bool> {
        Ok(RecordStore::maintain(self)? == Upkeep::Worked)
    }

    fn restore(&mut self) -> Outcome<(usize, usize)> {
        let (mut count, mut octets, mut check) = (0, 0, 0);
        self.visit(&[RecordKind::Session], &mut |key, value| {
            let RecordId::Number(number) = key.id else { return };
            check ^= number;
            count += 1;
            octets += value.len();
        })?;
        std::hint::black_box(check);
        Ok((count, octets))
    }
}

/// fjall with `fdatasync` after each batch.
struct Fjall {
    database: fjall::Database,
    sessions: fjall::Keyspace,
}

impl Candidate for Fjall {
    const NAME: &'static str = "fjall";

    fn open(folder: &Path) -> Outcome<Self> {
        let database = fjall::Database::builder(folder).open()?;
        let sessions = database.keyspace("sessions", fjall::KeyspaceCreateOptions::default)?;
        Ok(Self { database, sessions })
    }

    fn commit(&mut self, sessions: &[u64], value: &[u8]) -> Outcome<()> {
        let batch = self.database.batch();
        let mut batch = batch.durability(Some(fjall::PersistMode::SyncData));
        for session in sessions {
            batch.insert(&self.sessions, session.to_be_bytes(), value);
        }
        Ok(batch.commit()?)
    }

    fn maintain(&mut self) -> Outcome<bool> {
        Ok(false)
    }

    fn restore(&mut self) -> Outcome<(usize, usize)> {
        let (mut count, mut octets) = (0, 0);
        for record in self.sessions.iter() {
            count += 1;
            octets += record.value()?.len();
        }
        Ok((count, octets))
    }
}

/// Pseudo-random numbers, the same in each run.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn percentiles(times: &mut [Duration]) -> String {
    times.sort_unstable();
    let at = |share: f64| {
        let index = ((times.len() as f64 * share) as usize).min(times.len() - 1);
        times[index].as_secs_f64() * 1e6
    };
    let (p50, p99, p999) = (at(0.5), at(0.99), at(0.999));
    format!("p50 {p50:.0}, p99 {p99:.0}, p99.9 {p999:.0}, max {:.0} us", at(1.0))
}

fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks: u64 = [11, 12].iter().filter_map(|at| fields.get(*at)?.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

fn folder_mib(folder: &Path) -> f64 {
    fn octets(path: &Path) -> u64 {
        let Ok(entries) = std::fs::read_dir(path) else { return 0 };
        entries
            .flatten()
            .map(|entry| match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => octets(&entry.path()),
                Ok(metadata) => metadata.len(),
                Err(_) => 0,
            })
            .sum()
    }
    octets(folder) as f64 / f64::from(1 << 20)
}

/// As fast as it can, with `group` records in each commit, random keys of 100,000.
fn rate<C: Candidate>(folder: &Path, group: usize) -> Outcome<()> {
    let mut store = C::open(folder)?;
    let mut dice = Dice(0x9e37_79b9);
    let value = vec![0x5a; VALUE_OCTETS];
    let (mut records, mut times) = (0, Vec::new());
    let cpu_before = cpu();
    let start = Instant::now();
    while start.elapsed() < RUN {
        let sessions: Vec<u64> = (0..group).map(|_| dice.next() % 100_000).collect();
        let began = Instant::now();
        store.commit(&sessions, &value)?;
        times.push(began.elapsed());
        store.maintain()?;
        records += group;
    }
    let rate = records as f64 / start.elapsed().as_secs_f64();
    let cpu = (cpu() - cpu_before).as_secs_f64() * 1e6 / records as f64;
    println!(
        "{:5} {group:3} per commit: {rate:8.0} records/s; commit {}; {cpu:.1} us of CPU per record; {:.0} MiB",
        C::NAME,
        percentiles(&mut times),
        folder_mib(folder)
    );
    Ok(())
}

fn drop_caches() -> bool {
    let _ = std::process::Command::new("sync").status();
    std::fs::write("/proc/sys/vm/drop_caches", "3").is_ok()
}

/// Fills with records in groups of 256, then opens and reads them all.
fn fill_and_restore<C: Candidate>(folder: &Path, records: u64) -> Outcome<()> {
    let mut store = C::open(folder)?;
    let value = vec![0x5a; VALUE_OCTETS];
    let start = Instant::now();
    for first in (0..records).step_by(256) {
        let sessions: Vec<u64> = (first..records.min(first + 256)).collect();
        store.commit(&sessions, &value)?;
        store.maintain()?;
    }
    let filled = start.elapsed();
    drop(store);
    print!(
        "{:5} fill {records}: {:.2} s, {:.0} MiB",
        C::NAME,
        filled.as_secs_f64(),
        folder_mib(folder)
    );
    for kind in ["cold", "warm", "warm"] {
        if kind == "cold" && !drop_caches() {
            continue;
        }
        let start = Instant::now();
        let mut store = C::open(folder)?;
        let opened = start.elapsed();
        let (count, octets) = store.restore()?;
        assert_eq!((count as u64, octets), (records, count * VALUE_OCTETS));
        let restored = start.elapsed();
        print!(
            "; {kind} open {:.2}, all read {:.2} s",
            opened.as_secs_f64(),
            restored.as_secs_f64()
        );
        std::io::stdout().flush()?;
    }
    println!();
    Ok(())
}

/// Changes that come at a rate, while the store keeps itself small; how long each waits to become
/// durable.
fn waits<C: Candidate>(folder: &Path, per_second: u64, seconds: u64) -> Outcome<()> {
    let mut store = C::open(folder)?;
    let value = vec![0x5a; VALUE_OCTETS];
    for first in (0..100_000).step_by(256) {
        let sessions: Vec<u64> = (first..first + 256).collect();
        store.commit(&sessions, &value)?;
        store.maintain()?;
    }
    while store.maintain()? {}
    let mut dice = Dice(0x1234_5678);
    let gap = Duration::from_secs(1) / u32::try_from(per_second)?;
    let total = per_second * seconds;
    let (mut waits, mut parts, mut commits) = (Vec::new(), Vec::new(), Vec::new());
    let start = Instant::now();
    let mut done = 0;
    let mut last = (0.0, Duration::ZERO);
    while done < total {
        let due = u64::try_from(start.elapsed().as_nanos() / gap.as_nanos())?.min(total);
        if due > done {
            let sessions: Vec<u64> = (done..due).map(|_| dice.next() % 100_000).collect();
            let began = Instant::now();
            store.commit(&sessions, &value)?;
            commits.push(began.elapsed());
            let now = start.elapsed();
            if std::env::var_os("SLOW").is_some() && began.elapsed() > Duration::from_millis(3) {
                println!("{:.4} commit of {} took {:?}; last part {:?}", now.as_secs_f64(), due - done, began.elapsed(), last);
            }
            waits.extend(
                (done..due)
                    .map(|number| now.saturating_sub(gap * u32::try_from(number).unwrap_or(0))),
            );
            done = due;
        }
        let began = Instant::now();
        if store.maintain()? {
            last = (start.elapsed().as_secs_f64(), began.elapsed());
            parts.push(began.elapsed());
        } else {
            std::thread::sleep(Duration::from_micros(20));
        }
    }
    println!(
        "{:5} {per_second}/s for {seconds} s: change until durable {}",
        C::NAME,
        percentiles(&mut waits)
    );
    println!("      commit {}", percentiles(&mut commits));
    if !parts.is_empty() {
        println!(
            "      {} parts of upkeep {}; {:.0} MiB",
            parts.len(),
            percentiles(&mut parts),
            folder_mib(folder)
        );
    }
    Ok(())
}

fn at_of(count: usize) -> u64 {
    (count as u64 * 1024) % (63 << 20)
}

/// Writes and syncs of a plain file of zeros: what the device does without any store.
fn device(folder: &Path) -> Outcome<()> {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::create(folder.join("device"))?;
    let octets = vec![1; 256 << 10];
    file.write_all_at(&vec![0; 64 << 20], 0)?;
    file.sync_all()?;
    for len in [1024, 160 << 10] {
        let mut times = Vec::new();
        let start = Instant::now();
        let mut at = 0;
        while start.elapsed() < Duration::from_secs(4) {
            let began = Instant::now();
            file.write_all_at(&octets[..len], at)?;
            file.sync_data()?;
            times.push(began.elapsed());
            at = (at + len as u64) % (63 << 20);
        }
        println!("device, {len} octets and fdatasync: {}", percentiles(&mut times));
    }
    // The same at the pace of the waits below.
    let (mut times, start) = (Vec::new(), Instant::now());
    while start.elapsed() < Duration::from_secs(20) {
        let began = Instant::now();
        file.write_all_at(&octets[..1024], at_of(times.len()))?;
        file.sync_data()?;
        times.push(began.elapsed());
        std::thread::sleep(Duration::from_micros(200));
    }
    println!("device, 1024 octets and fdatasync, at a pace: {}", percentiles(&mut times));
    std::fs::remove_file(folder.join("device"))?;
    Ok(())
}

fn compare<C: Candidate>(parent: &Path, records: u64) -> Outcome<()> {
    let run = |name: &str, part: &dyn Fn(&Path) -> Outcome<()>| -> Outcome<()> {
        let folder: PathBuf = parent.join(format!("{}-{name}", C::NAME));
        part(&folder)?;
        std::fs::remove_dir_all(folder)?;
        Ok(())
    };
    run("single", &|folder| rate::<C>(folder, 1))?;
    run("group", &|folder| rate::<C>(folder, 256))?;
    run("fill", &|folder| fill_and_restore::<C>(folder, records))?;
    run("waits", &|folder| waits::<C>(folder, 5000, 30))
}

fn main() -> Outcome<()> {
    let mut words = std::env::args().skip(1);
    let folder = PathBuf::from(words.next().ok_or("the folder for the stores is missing")?);
    let records = words.next().map_or(Ok(1_000_000), |count| count.parse())?;
    std::fs::create_dir_all(&folder)?;
    device(&folder)?;
    let only = words.next();
    if only.as_deref() == Some("waits") {
        return waits::<Journal<JournalFolder>>(&folder.join("waits"), 5000, 20);
    }
    if only.as_deref() != Some("fjall") {
        compare::<Journal<JournalFolder>>(&folder, records)?;
    }
    if only.as_deref() != Some("adit") {
        compare::<Fjall>(&folder, records)?;
    }
    Ok(())
}
