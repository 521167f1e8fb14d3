//! `adit-bench n4 --store journal`: establishments with and without a journal in turns, and the
//! restoration of all of them.

use std::path::Path;
use std::time::{Duration, Instant};

use adit_kernel::idle::thread_time;
use adit_n4::{FormerRecord, NodeRecord};
use adit_session::SessionPreparer;
use adit_shared_store::journal_folder::JournalFolder;
use adit_shared_store::store_thread::{StoreLink, read_record};
use adit_store::{Journal, JournalOptions, RecordKind};
use adit_types::Nanos;
use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::control_plane::{BenchControlPlane, rate};
use super::sessions::{self, BenchProfile};
use super::smf;
use crate::n4::N4Arguments;
use crate::report::{quantile, ratio, rounded};

/// Number of turns with a journal, and of turns without.
const TURNS: u32 = 5;

/// Identity of the journal. Any value will do: it is compared only within the folder.
const IDENTITY: u64 = 1;

/// Establishes sessions in each turn, in addition to resident ones, with a journal and without.
///
/// # Errors
/// A request is refused, or the folder has a journal, or cannot be written.
pub(crate) fn run(arguments: &N4Arguments) -> anyhow::Result<Value> {
    let N4Arguments { resident, sessions: measured, folder, .. } = arguments;
    let (resident, measured) = (*resident, *measured);
    let sessions_max = resident + TURNS * measured;
    let mut plain = BenchControlPlane::new(sessions_max, 0)?;
    let journal = open(folder)?;
    ensure!(
        journal.figures().records == 0,
        "{} has a journal; name a folder without one",
        folder.display()
    );
    let link = StoreLink::start(journal).context("cannot start a thread")?;
    let mut stored = BenchControlPlane::with_store(sessions_max, link)?;
    eprintln!("establishing {resident} resident sessions, with and without a journal");
    plain.establish(0, resident)?;
    stored.establish(0, resident)?;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for turn in 0..TURNS {
        let first = resident + turn * measured;
        for (control, rates) in [(&mut plain, &mut without), (&mut stored, &mut with)] {
            let began = Instant::now();
            control.establish(first, measured)?;
            rates.push(rate(measured, began.elapsed()));
        }
    }
    drop(plain);
    let report = stored.store_report().context("there is a store")?;
    let sessions = stored.node.store().len();
    drop(stored);
    let restoration = restore(sessions_max, folder)?;
    ensure!(restoration.sessions == sessions, "{} sessions were restored", restoration.sessions);
    let (without, with) = (median_rate(without), median_rate(with));
    let micros = |span: Duration| rounded(span.as_secs_f64() * 1e6);
    let millis = |span: Duration| rounded(span.as_secs_f64() * 1e3);
    let ratio = (ratio(with, usize::try_from(without)?) * 100.0).round() / 100.0;
    Ok(json!({
        "store": "journal",
        "rules_per_session": smf::RULES_PER_SESSION,
        "resident_sessions": resident,
        "measured_sessions": measured,
        "turns": TURNS,
        "establishments_per_s": without,
        "durable_establishments_per_s": with,
        "ratio": ratio,
        "record_octets_per_session": report.figures.live_octets / u64::try_from(sessions.max(1))?,
        "file_octets": report.figures.file_octets,
        "commits": report.figures.commits,
        "longest_commit_us": micros(report.commit_max),
        "restored_sessions": restoration.sessions,
        "restoration_ms": millis(restoration.took),
        "restoration_thread_ms": millis(restoration.computed),
        "restoration_longest_turn_ms": millis(restoration.longest_turn),
    }))
}

fn open(folder: &Path) -> anyhow::Result<Journal<JournalFolder>> {
    let files = JournalFolder::new(folder.to_owned())
        .with_context(|| format!("cannot use {}", folder.display()))?;
    Ok(Journal::open(files, &JournalOptions::new(IDENTITY))?.0)
}

fn median_rate(mut rates: Vec<u64>) -> u64 {
    rates.sort_unstable();
    quantile(&rates, 500)
}

struct RestorationFigures {
    sessions: usize,
    /// Time from the opening of the journal until all sessions run.
    took: Duration,
    /// CPU time of the node's thread in `took`: on a busy machine it also waits for its core.
    computed: Duration,
    /// The longest time in which a heartbeat waited for its answer.
    longest_turn: Duration,
}

/// Restores all sessions as adit does at its start, with a heartbeat in every turn.
fn restore(sessions_max: u32, folder: &Path) -> anyhow::Result<RestorationFigures> {
    let (began, computed) = (Instant::now(), thread_time());
    let mut journal = open(folder)?;
    let node = read_record(&mut journal, NodeRecord::KEY)?.context("the journal has a node")?;
    let node = NodeRecord::from_octets(&node)?;
    let kinds = RecordKind::ALL.into_iter().filter(|kind| *kind != RecordKind::Node).collect();
    let cpus = rustix::thread::sched_getaffinity(None)?;
    let preparer = SessionPreparer::new(sessions::provisioning(&BenchProfile::USUAL));
    let reader = preparer.clone();
    let read = move |kind, name, octets| FormerRecord::read_prepared(&reader, kind, name, octets);
    let (_link, former) = StoreLink::start_reading(journal, kinds, Box::new(read), cpus)
        .context("cannot start a thread")?;
    let mut control = BenchControlPlane::unassociated(sessions_max)?;
    control.node.accept_prepared(&preparer);
    control.node.begin_restoration(&node);
    let mut heartbeat = [0; smf::REQUEST_BYTES_MAX];
    let len = smf::heartbeat(&mut heartbeat).context("the request fits its buffer")?;
    let now = Nanos::from_secs(3600);
    let (mut is_read, mut longest_turn) = (false, Duration::ZERO);
    while control.node.is_restoring() {
        let turn = Instant::now();
        while !is_read && turn.elapsed() < Duration::from_millis(2) {
            let Some(mut batch) = former.poll()? else { break };
            is_read = batch.is_empty();
            for record in &mut batch {
                control.node.restore_record(now, record)?;
            }
            former.give_back(batch);
        }
        let mut answers = 0;
        control.turn(now, &heartbeat[..len], |_| answers += 1);
        ensure!(answers > 0, "a heartbeat was not answered");
        if is_read && control.node.pending_len() == 0 && control.publisher.unobserved() == 0 {
            control.node.end_restoration(now);
        }
        longest_turn = longest_turn.max(turn.elapsed());
    }
    let sessions = control.node.store().len();
    let computed = Duration::from_nanos(thread_time().saturating_sub(computed));
    Ok(RestorationFigures { sessions, took: began.elapsed(), computed, longest_turn })
}
