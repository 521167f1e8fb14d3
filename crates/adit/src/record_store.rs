//! The store of records: opened before anything else, it says whether this process continues a former one.

use std::fs;
use std::path::Path;

use adit_host::journal_folder::JournalFolder;
use adit_host::store_thread::{StoreLink, read_node};
use adit_n4::{NodeRecord, RecordConfig};
use adit_store::{Journal, JournalOptions, RecordKind};
use adit_types::Nanos;
use anyhow::Context;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tracing::{info, warn};

use crate::any_store::{AnyStore, AnyStoreFigures, refused};
use crate::clock::{ProcessClock, time_of_day};
use crate::config::{Config, StoreKind, StoreSettings};
use crate::lease;

/// An open store.
pub(crate) struct OpenedStore {
    store: AnyStore,
    /// The node of the former process.
    pub node: Option<NodeRecord>,
    pub config: RecordConfig,
}

impl OpenedStore {
    /// Opens the store that is configured; `None` if there is none. The lease of a shared one is taken.
    ///
    /// # Errors
    /// The message says what to do.
    pub(crate) fn open(config: &Config, accept_loss: bool) -> anyhow::Result<Option<Self>> {
        let settings = &config.store;
        match &settings.kind {
            StoreKind::None => Ok(None),
            StoreKind::Journal(path) => {
                let journal = open_journal(path, accept_loss)?;
                let shown = path.display().to_string();
                Self::new(AnyStore::Journal(Box::new(journal)), settings, &shown).map(Some)
            }
            StoreKind::Shared(shared) => {
                let mut store = lease::client(shared, &config.admin_socket)?;
                lease::take(&mut store, shared)?;
                let shown = format!("the shared store of \"{}\"", shared.name);
                Self::new(AnyStore::Shared(Box::new(store)), settings, &shown).map(Some)
            }
        }
    }

    /// Reads the node of the former process.
    pub(crate) fn new(
        mut store: AnyStore,
        settings: &StoreSettings,
        shown: &str,
    ) -> anyhow::Result<Self> {
        let node = read_node(&mut store).map_err(|error| refused(error, shown))?;
        let node = node.map(|octets| NodeRecord::from_octets(&octets)).transpose();
        let node = node.with_context(|| {
            format!(
                "cannot continue with the records in {shown}; start the adit that wrote them, or give this one another \
                 store.folder or store.name"
            )
        })?;
        let config = RecordConfig {
            usage_interval: settings.usage_interval,
            serves_without_store: settings.serves_without_store,
        };
        Ok(Self { store, node, config })
    }

    /// Starts the thread that owns it. It reads the records of the former process first.
    pub(crate) fn start(self) -> anyhow::Result<StoreLink<AnyStoreFigures>> {
        let kinds = RecordKind::ALL.into_iter().filter(|kind| *kind != RecordKind::Node);
        let kinds = if self.node.is_some() { kinds.collect() } else { Vec::new() };
        StoreLink::start(self.store, kinds).context("cannot start the thread of the store")
    }
}

fn open_journal(path: &Path, accept_loss: bool) -> anyhow::Result<Journal<JournalFolder>> {
    let shown = path.display();
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)
            .with_context(|| format!("cannot make the folder of store.folder {shown}"))?;
    }
    let folder = JournalFolder::new(path.to_owned())
        .with_context(|| format!("cannot use store.folder {shown}"))?;
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

/// The clock of the process: that of the former one goes on.
pub(crate) fn clock(tsc_hz: u64, former: Option<&NodeRecord>) -> ProcessClock {
    let passed = former.and_then(|node| time_of_day()?.checked_sub(node.clock_zero));
    match passed {
        Some(passed) => ProcessClock::resumed(tsc_hz, Nanos(passed)),
        None => ProcessClock::new(tsc_hz),
    }
}
