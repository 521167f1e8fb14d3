//! Opens the store of records. Done first at the start, since the store determines whether this
//! process continues a previous one.

pub(crate) mod any_store;
pub(crate) mod lease;
pub(crate) mod named_standby;
pub(crate) mod replication;
pub(crate) mod replication_link;
pub(crate) mod serving_lease;
pub(crate) mod standby_thread;
pub(crate) mod store_files;

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use adit_dpdk::Eal;
use adit_n4::{
    CLOCK_MARK, CLOCK_MARK_INTERVAL, FormerRecord, NodeRecord, RecordConfig, clock_mark,
};
use adit_session::SessionPreparer;
use adit_shared_store::LeaseAnswer;
use adit_shared_store::journal_folder::JournalFolder;
use adit_shared_store::store_thread::{FormerRecords, StoreLink, read_record};
use adit_store::{Journal, JournalOptions, RecordKind, RecordStore};
use adit_types::Nanos;
use anyhow::{Context, bail};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rustix::thread::CpuSet;
use tracing::{info, warn};

use crate::clock::{ProcessClock, time_of_day};
use crate::config::{Config, StoreKind, StoreSettings};
use crate::foreign_text::printable;
use crate::record_store::any_store::{
    AnyStore, AnyStoreFigures, SharedStoreClient, StoreBackend, refused,
};
use crate::record_store::named_standby::NamedStandby;
use crate::record_store::replication::{PairStore, active_store, keep_tail, recover_tail};
use crate::record_store::serving_lease::ServingLease;
use crate::record_store::standby_thread::FollowedStore;

/// How long an adit that has just taken the lease may take to write its first record.
const FIRST_RECORD_WAIT_MAX: Duration = Duration::from_secs(60);

/// Interval at which that first record is read until it exists.
const FIRST_RECORD_INTERVAL: Duration = Duration::from_millis(50);

/// The opened store of records, and the settings of records.
pub(crate) struct StartRecords {
    pub source: RecordSource,
    /// `None` if no records are kept.
    pub config: Option<RecordConfig>,
    /// True if the operator accepts that records are lost.
    pub accepts_loss: bool,
}

/// The parameters with which the records are opened.
pub(crate) struct OpeningRecords {
    /// CPUs that read the records of a previous process and prepare its sessions.
    pub cpus: CpuSet,
    /// True if the operator accepts that acknowledged changes are lost.
    pub accept_loss: bool,
    /// Receives the state of the lease from the store.
    pub lease: ServingLease,
}

/// State that a previous process left.
pub(crate) struct FormerProcess {
    pub node: NodeRecord,
    /// All records of the store, to be restored.
    pub records: FormerRecords<FormerRecord>,
    /// Prepares the sessions in `records` for the node.
    pub preparer: SessionPreparer,
}

/// Where the records are.
pub(crate) enum RecordSource {
    /// No records are kept.
    None,
    /// In the store of this process, which is active. The store's thread first reads the records of
    /// the previous process.
    Own { link: StoreLink<AnyStoreFigures>, former: Option<Box<FormerProcess>> },
    /// In a shared store, while another adit is active.
    Followed {
        store: Box<FollowedStore>,
        /// Record of the active adit's node.
        active: NodeRecord,
    },
}

impl StartRecords {
    /// Opens the store that is configured, and decides whether this process is active at once or a
    /// standby first. The lease of a shared store is prolonged from here on.
    ///
    /// # Errors
    /// The message says what to do.
    pub(crate) fn open(
        config: &Config,
        eal: &Eal,
        preparer: SessionPreparer,
        opening: OpeningRecords,
    ) -> anyhow::Result<Self> {
        let OpeningRecords { cpus, accept_loss, lease } = opening;
        let settings = &config.store;
        match &settings.kind {
            StoreKind::None => {
                Ok(Self { source: RecordSource::None, config: None, accepts_loss: false })
            }
            StoreKind::Journal(path) => {
                let journal = open_journal(path, accept_loss)?;
                let store = AnyStore::new(StoreBackend::Journal(Box::new(journal)), lease);
                let own = Self::own(config, store, preparer, cpus, &path.display().to_string())?;
                Ok(Self { accepts_loss: accept_loss, ..own })
            }
            StoreKind::Shared(shared) => {
                let pair = PairStore::open(shared, eal, lease)?;
                let mut store = lease::client(shared, Path::new(&config.admin.socket))?;
                if accept_loss {
                    store.accept_loss();
                }
                let shown = format!("the shared store of \"{}\"", shared.name);
                if config.standby.is_some()
                    && let Some((active, epoch)) =
                        active_node(&mut store, &pair, accept_loss, &shown)?
                {
                    let tail = keep_tail(&pair, epoch)?;
                    let store = FollowedStore { client: store, tail, pair, accept_loss };
                    let store = Box::new(store);
                    let source = RecordSource::Followed { store, active };
                    let config = Some(record_config(settings));
                    return Ok(Self { source, config, accepts_loss: false });
                }
                if config.standby.is_none() {
                    lease::take_lease(&mut store, shared, accept_loss)?;
                }
                let checked = store.check_records();
                let recovered = checked.and_then(|()| recover_tail(&mut store, None, accept_loss));
                if let Err(error) = recovered {
                    // Gives up the lease, so that the other adit may take over.
                    let _ = store.release();
                    return Err(refused(error, &shown));
                }
                let store = active_store(store, &pair)?;
                let own = Self::own(config, store, preparer, cpus, &shown)?;
                Ok(Self { accepts_loss: accept_loss, ..own })
            }
        }
    }

    /// Starts the thread of this process's store, and continues the records in it.
    fn own(
        config: &Config,
        mut store: AnyStore,
        preparer: SessionPreparer,
        cpus: CpuSet,
        shown: &str,
    ) -> anyhow::Result<Self> {
        let former = node_of(&mut store, shown)?;
        let started = match former {
            None => StoreLink::start(store).map(|link| (link, None)),
            Some(node) => {
                let kinds = RecordKind::ALL.into_iter().filter(|kind| *kind != RecordKind::Node);
                let reader = preparer.clone();
                let read = move |kind, name, octets| {
                    FormerRecord::read_prepared(&reader, kind, name, octets)
                };
                StoreLink::start_reading(store, kinds.collect(), Box::new(read), cpus).map(
                    |(link, records)| {
                        (link, Some(Box::new(FormerProcess { node, records, preparer })))
                    },
                )
            }
        };
        let (link, former) = started.context("cannot start the thread of the store")?;
        let source = RecordSource::Own { link, former };
        Ok(Self { source, config: Some(record_config(&config.store)), accepts_loss: false })
    }

    /// Returns the node whose sessions this process has, or will have after it takes over.
    pub(crate) fn node(&self) -> Option<NodeRecord> {
        match &self.source {
            RecordSource::None => None,
            RecordSource::Own { former, .. } => former.as_ref().map(|former| former.node),
            RecordSource::Followed { active, .. } => Some(*active),
        }
    }
}

/// Returns the node and the epoch of the adit that holds the lease. `None` if no adit held it: then
/// this process has taken it.
fn active_node(
    store: &mut SharedStoreClient,
    pair: &PairStore,
    accept_loss: bool,
    shown: &str,
) -> anyhow::Result<Option<(NodeRecord, u64)>> {
    let (began, mut named) = (Instant::now(), NamedStandby::new(&pair.settings, accept_loss));
    loop {
        match store.acquire().map_err(|error| refused(error, shown))? {
            LeaseAnswer::Taken { epoch } => {
                info!(epoch, "the lease of the records is taken");
                return Ok(None);
            }
            LeaseAnswer::Named(standby) => {
                named.wait(store, standby).map_err(|error| refused(error, shown))?;
                sleep(FIRST_RECORD_INTERVAL);
            }
            LeaseAnswer::Held(lease) => {
                if let Some(node) = node_of(store, shown)? {
                    info!(active = lease.holder, "standby: another adit is active");
                    return Ok(Some((node, lease.epoch)));
                }
                // A holder that has just begun may have written no record yet.
                if began.elapsed() > FIRST_RECORD_WAIT_MAX {
                    let holder = printable(&lease.holder);
                    bail!("the adit {holder} is active and writes no records; see its log");
                }
                sleep(FIRST_RECORD_INTERVAL);
            }
        }
    }
}

/// Reads the record of the node. The node's clock goes on after the times of all records, even if
/// the time of day was set back.
fn node_of(store: &mut impl RecordStore, shown: &str) -> anyhow::Result<Option<NodeRecord>> {
    let mut read = |key| read_record(store, key).map_err(|error| refused(error, shown));
    let (node, mark) = (read(NodeRecord::KEY)?, read(CLOCK_MARK)?);
    let node = node.map(|octets| NodeRecord::from_octets(&octets)).transpose();
    let node = node.with_context(|| {
        format!(
            "cannot continue with the records in {shown}; start the adit that wrote them, or give this one another \
             store.folder or store.name"
        )
    })?;
    let last = mark.and_then(|octets| clock_mark(&octets).ok());
    Ok(node.map(|node| continued(node, last, time_of_day().unwrap_or_default())))
}

/// Sets the node's clock to the time of day `now`, unless the newest records are from later: then
/// to a time after theirs, which is about `last`.
fn continued(mut node: NodeRecord, last: Option<Nanos>, now: u64) -> NodeRecord {
    let Some(last) = last.filter(|last| now < node.clock_zero.saturating_add(last.0)) else {
        return node;
    };
    warn!("the time of day is before the last record: times of sessions go on behind that");
    node.clock_zero = now.saturating_sub((last + CLOCK_MARK_INTERVAL).0);
    node
}

/// Returns the node's settings of records.
pub(crate) const fn record_config(settings: &StoreSettings) -> RecordConfig {
    RecordConfig {
        usage_interval: settings.usage_interval,
        serves_without_store: settings.serves_without_store,
    }
}

fn open_journal(path: &Path, accept_loss: bool) -> anyhow::Result<Journal<JournalFolder>> {
    let shown = path.display();
    let folder = JournalFolder::new(path.to_owned())
        .with_context(|| format!("cannot use store.folder {shown}"))?;
    for path in folder.narrowed() {
        warn!(path = %path.display(), "other users could read the records of sessions here; they cannot any more");
    }
    let options =
        JournalOptions { accept_loss, ..JournalOptions::new(StdRng::from_os_rng().random()) };
    let opened = Journal::open(folder, &options);
    let (journal, report) = opened.map_err(|error| refused(error, &shown.to_string()))?;
    if report.is_torn {
        info!("the journal ends with a commit that a crash cut off; it was never acknowledged");
    }
    for loss in &report.losses {
        warn!(%loss, "records of the journal are lost");
    }
    for header in &report.damaged_headers {
        warn!(file = header, "one of two headers of a segment is damaged");
    }
    for name in &report.foreign {
        warn!(file = name, "a file in the folder of the journal does not belong to it");
    }
    Ok(journal)
}

/// Starts the clock of the process, which continues that of a previous process.
pub(crate) fn clock(tsc_hz: u64, former: Option<&NodeRecord>) -> ProcessClock {
    let passed = former.and_then(|node| time_of_day()?.checked_sub(node.clock_zero));
    match passed {
        Some(passed) => ProcessClock::resumed(tsc_hz, Nanos(passed)),
        None => ProcessClock::new(tsc_hz),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_goes_on_with_the_time_of_day_unless_that_is_before_the_last_record() {
        let mut octets = vec![adit_n4::RECORD_VERSION];
        // Recovery Time Stamp 1, clock from 100 on, no association.
        octets.extend([1, 100, 0]);
        let mut node = NodeRecord::from_octets(&octets).unwrap();
        let zero = |last, now| continued(node, last, now).clock_zero;
        let day = Nanos::from_secs(86_400);
        assert_eq!(zero(None, 7), 100, "records of a release without the mark");
        assert_eq!(zero(Some(Nanos(50)), 150), 100);
        assert_eq!(zero(Some(day), 100 + day.0 + 1), 100);
        // The time of day was set back by an hour, and to a time before the first record.
        let (now, hour) = (10 * day.0, Nanos::from_secs(3600).0);
        for clock_zero in [now - day.0 + hour, now + hour] {
            node.clock_zero = clock_zero;
            let clock = now - continued(node, Some(day), now).clock_zero;
            assert_eq!(clock, (day + CLOCK_MARK_INTERVAL).0);
        }
    }
}
