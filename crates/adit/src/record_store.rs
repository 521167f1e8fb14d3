//! The store of records: opened before anything else, it says whether this process continues a former one.

use std::fs;

use adit_host::journal_folder::JournalFolder;
use adit_host::store_thread::{StoreLink, read_node};
use adit_n4::{NodeRecord, RecordConfig};
use adit_store::{Journal, JournalOptions, RecordKind, StoreError};
use adit_types::Nanos;
use anyhow::Context;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tracing::{info, warn};

use crate::clock::{ProcessClock, time_of_day};
use crate::config::{StoreKind, StoreSettings};

/// An open store.
pub(crate) struct OpenedStore {
    journal: Journal<JournalFolder>,
    /// The node of the former process.
    pub node: Option<NodeRecord>,
    pub config: RecordConfig,
}

impl OpenedStore {
    /// Opens the store that is configured; `None` if there is none.
    ///
    /// # Errors
    /// The message says what to do.
    pub(crate) fn open(
        settings: &StoreSettings,
        accept_loss: bool,
    ) -> anyhow::Result<Option<Self>> {
        let StoreKind::Journal(path) = &settings.kind else { return Ok(None) };
        let shown = path.display();
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)
                .with_context(|| format!("cannot make the folder of store.folder {shown}"))?;
        }
        let folder = JournalFolder::new(path.clone())
            .with_context(|| format!("cannot use store.folder {shown}"))?;
        let options =
            JournalOptions { accept_loss, ..JournalOptions::new(StdRng::from_os_rng().random()) };
        let opened = Journal::open(folder, &options);
        let (mut journal, report) = opened.map_err(|error| refused(error, &shown.to_string()))?;
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
        let node = read_node(&mut journal).map_err(|error| refused(error, &shown.to_string()))?;
        let node = node.map(|octets| NodeRecord::from_octets(&octets)).transpose();
        let node = node.with_context(|| {
            format!("cannot continue with the records in {shown}; start the adit that wrote them, or give store.folder another folder")
        })?;
        let config = RecordConfig {
            usage_interval: settings.usage_interval,
            serves_without_store: settings.serves_without_store,
        };
        Ok(Some(Self { journal, node, config }))
    }

    /// Starts the thread that owns it. It reads the records of the former process first.
    pub(crate) fn start(self) -> anyhow::Result<StoreLink> {
        let kinds = RecordKind::ALL.into_iter().filter(|kind| *kind != RecordKind::Node);
        let kinds = if self.node.is_some() { kinds.collect() } else { Vec::new() };
        StoreLink::start(self.journal, kinds).context("cannot start the thread of the store")
    }
}

/// The clock of the process: that of the former one goes on.
pub(crate) fn clock(tsc_hz: u64, former: Option<&NodeRecord>) -> ProcessClock {
    let passed = former.and_then(|node| time_of_day()?.checked_sub(node.clock_zero));
    match passed {
        Some(passed) => ProcessClock::resumed(tsc_hz, Nanos(passed)),
        None => ProcessClock::new(tsc_hz),
    }
}

fn refused(error: StoreError, folder: &str) -> anyhow::Error {
    let hint = match &error {
        StoreError::InUse => "stop the other adit, or give this one a store.folder of its own",
        StoreError::Damaged(_) => {
            "restore the folder from a copy, or start once with --accept-loss to go on without what is lost"
        }
        StoreError::Io { .. } => {
            "make store.folder a folder that adit may write, or set store.kind = \"none\""
        }
        _ => "give store.folder another folder",
    };
    anyhow::anyhow!("{error} ({folder}); {hint}")
}
