//! The store of this process, of whatever kind.

use std::time::Instant;

use adit_host::journal_folder::JournalFolder;
use adit_host::replicated::ReplicatedFigures;
use adit_host::store_thread::ThreadStore;
use adit_replication::ReplicatedStore;
use adit_shared_store::{SharedStore, SharedStoreFigures};
use adit_store::{
    AppendError, Journal, JournalFigures, RecordKey, RecordKind, RecordNumber, RecordStore,
    StoreChange, StoreError, Upkeep,
};
use adit_transport::Transport;
use adit_types::Nanos;
use tracing::warn;

use crate::foreign_text::printable;
use crate::replication_link::LinkTransport;

/// A shared store over any transport.
pub(crate) type SharedStoreClient = SharedStore<Box<dyn Transport + Send>>;

/// The shared store and the standby.
pub(crate) type ReplicatedSharedStore =
    ReplicatedStore<SharedStoreClient, LinkTransport, ReplicationClock>;

/// Reads the clock of replication.
pub(crate) type ReplicationClock = Box<dyn FnMut() -> Nanos + Send>;

/// A journal, or a store that other adits share.
pub(crate) enum AnyStore {
    Journal(Box<Journal<JournalFolder>>),
    Shared(Box<SharedStoreClient>),
    /// A shared one, and a standby.
    Replicated(Box<ReplicatedSharedStore>),
}

/// What operators see of it.
#[derive(Debug, Clone)]
pub(crate) enum AnyStoreFigures {
    Journal(JournalFigures),
    Shared(SharedStoreFigures),
    Replicated(Box<ReplicatedFigures<SharedStoreFigures>>),
}

impl AnyStore {
    /// As of [`SharedStore::lease_valid_until`]; `None` for a journal.
    pub(crate) fn lease_valid_until(&self) -> Option<Instant> {
        match self {
            Self::Journal(_) => None,
            Self::Shared(shared) => shared.lease_valid_until(),
            Self::Replicated(replicated) => replicated.store().lease_valid_until(),
        }
    }

    fn store(&self) -> &dyn RecordStore {
        match self {
            Self::Journal(journal) => &**journal,
            Self::Shared(shared) => &**shared,
            Self::Replicated(replicated) => &**replicated,
        }
    }

    fn store_mut(&mut self) -> &mut dyn RecordStore {
        match self {
            Self::Journal(journal) => &mut **journal,
            Self::Shared(shared) => &mut **shared,
            Self::Replicated(replicated) => &mut **replicated,
        }
    }
}

impl RecordStore for AnyStore {
    fn group_octets_max(&self) -> usize {
        self.store().group_octets_max()
    }

    fn append(&mut self, changes: &[StoreChange<'_>]) -> Result<RecordNumber, AppendError> {
        self.store_mut().append(changes)
    }

    fn commit(&mut self) -> Result<RecordNumber, StoreError> {
        self.store_mut().commit()
    }

    fn durable(&self) -> RecordNumber {
        self.store().durable()
    }

    fn is_full(&self) -> bool {
        self.store().is_full()
    }

    fn is_damaged(&self) -> bool {
        self.store().is_damaged()
    }

    fn losses(&self) -> u64 {
        self.store().losses()
    }

    fn set_complete(&mut self) {
        self.store_mut().set_complete();
    }

    fn maintain(&mut self) -> Result<Upkeep, StoreError> {
        self.store_mut().maintain()
    }

    fn visit(
        &mut self,
        kinds: &[RecordKind],
        visitor: &mut dyn FnMut(RecordKey<'_>, &[u8]),
    ) -> Result<(), StoreError> {
        let visited = self.store_mut().visit(kinds, visitor);
        let losses = match self {
            Self::Journal(_) => Vec::new(),
            Self::Shared(shared) => shared.take_accepted_losses(),
            Self::Replicated(replicated) => replicated.store_mut().take_accepted_losses(),
        };
        for loss in losses {
            warn!(loss, "records of the shared store are lost");
        }
        visited
    }
}

impl ThreadStore for AnyStore {
    type Figures = AnyStoreFigures;

    fn figures(&self) -> AnyStoreFigures {
        match self {
            Self::Journal(journal) => AnyStoreFigures::Journal(journal.figures()),
            Self::Shared(shared) => AnyStoreFigures::Shared(shared.figures()),
            Self::Replicated(replicated) => {
                let shared = replicated.store().figures();
                AnyStoreFigures::Replicated(Box::new(ReplicatedFigures::new(replicated, shared)))
            }
        }
    }

    fn keep(&mut self) -> Result<(), StoreError> {
        match self {
            Self::Journal(_) => Ok(()),
            Self::Shared(shared) => shared.maintain().map(|_| ()),
            Self::Replicated(replicated) => replicated.maintain().map(|_| ()),
        }
    }

    fn check_place(&mut self) -> Result<(), StoreError> {
        match self {
            Self::Journal(journal) => journal.check_place(),
            Self::Shared(_) | Self::Replicated(_) => Ok(()),
        }
    }

    fn begin_again(&mut self) -> Result<(), StoreError> {
        match self {
            Self::Journal(journal) => journal.begin_again(),
            Self::Shared(_) | Self::Replicated(_) => Ok(()),
        }
    }

    fn is_handover_requested(&self) -> bool {
        match self {
            Self::Journal(_) => false,
            Self::Shared(shared) => shared.is_handover_requested(),
            Self::Replicated(replicated) => replicated.store().is_handover_requested(),
        }
    }

    fn polls(&self) -> bool {
        match self {
            Self::Journal(_) | Self::Shared(_) => false,
            Self::Replicated(replicated) => replicated.options().polls,
        }
    }

    /// Gives the lease back, so that the next process need not wait for its end.
    fn close(&mut self) {
        match self {
            Self::Journal(_) => {}
            Self::Shared(shared) => release(shared),
            Self::Replicated(replicated) => {
                // With everything in the shared store the next process needs no tail; otherwise it learns from the store that it
                // does.
                let _ = replicated.finish();
                release(replicated.store_mut());
            }
        }
    }
}

fn release(shared: &mut SharedStoreClient) {
    if let Err(error) = shared.release() {
        warn!(%error, "the lease of the records ends by itself");
    }
}

/// The error with what to do about it.
pub(crate) fn refused(error: StoreError, shown: &str) -> anyhow::Error {
    let hint = match &error {
        StoreError::InUse => "stop the other adit, or give this one a store.folder of its own",
        StoreError::Damaged(_) => {
            "restore the folder from a copy, or start once with --accept-loss to go on without what is lost"
        }
        StoreError::Io { .. } => {
            "make store.folder a folder that adit may write, or set store.kind = \"none\""
        }
        StoreError::Unavailable(_) => "start the servers, or correct [store]",
        StoreError::Incomplete | StoreError::DamagedRecords(_) => {
            "start once with --accept-loss to go on with what is there"
        }
        StoreError::TailLost(_) => {
            "start the other adit, or start once with --accept-loss to go on without what is lost"
        }
        StoreError::Fenced { .. } => "stop the other adit, or give this one another store.name",
        _ => "give this adit another store.folder or store.name",
    };
    // Servers and holders of leases choose parts of it.
    let error = error.to_string();
    anyhow::anyhow!("{} ({shown}); {hint}", printable(&error))
}
