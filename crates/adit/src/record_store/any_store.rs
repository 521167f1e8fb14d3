//! A record store of any kind, which reports the state of its lease to the [`ServingLease`].

use std::time::{Duration, Instant};

use adit_shared_store::journal_folder::JournalFolder;
use adit_shared_store::replicated::ReplicatedFigures;
use adit_shared_store::replication::ReplicatedStore;
use adit_shared_store::store_thread::ThreadStore;
use adit_shared_store::{SharedStore, SharedStoreFigures};
use adit_store::{
    AppendError, GroupNumber, GroupQueue, Journal, JournalFigures, RecordKey, RecordKind,
    RecordStore, StoreChange, StoreError, Upkeep,
};
use adit_transport::Transport;
use adit_types::Nanos;
use tracing::warn;

use crate::foreign_text::printable;
use crate::record_store::replication_link::LinkTransport;
use crate::record_store::serving_lease::ServingLease;

/// A shared store over any transport.
pub(crate) type SharedStoreClient = SharedStore<Box<dyn Transport + Send>>;

/// A shared store whose changes also go to a standby.
pub(crate) type ReplicatedSharedStore =
    ReplicatedStore<SharedStoreClient, LinkTransport, ReplicationClock>;

/// Reads the clock of replication.
pub(crate) type ReplicationClock = Box<dyn FnMut() -> Nanos + Send>;

/// A journal, or a store that other adits share.
pub(crate) enum StoreBackend {
    Journal(Box<Journal<JournalFolder>>),
    Shared(Box<SharedStoreClient>),
    /// A shared store, and a standby.
    Replicated(Box<ReplicatedSharedStore>),
}

/// Figures of the store for operators.
#[derive(Debug, Clone)]
pub(crate) enum AnyStoreFigures {
    Journal(JournalFigures),
    Shared(SharedStoreFigures),
    Replicated(Box<ReplicatedFigures<SharedStoreFigures>>),
}

/// A store that reports the state of its lease.
pub(crate) struct AnyStore {
    of_kind: StoreBackend,
    lease: ServingLease,
}

impl AnyStore {
    /// Creates the store. `lease` gets the state of the store's lease.
    pub(crate) fn new(of_kind: StoreBackend, lease: ServingLease) -> Self {
        let mut this = Self { of_kind, lease };
        this.note_lease();
        this
    }

    fn note_lease(&mut self) {
        if let StoreBackend::Replicated(replicated) = &mut self.of_kind {
            let promised = Duration::from_nanos(replicated.remaining_promise().0);
            self.lease.note_standby(Instant::now().checked_add(promised));
        }
        if let Some(shared) = self.shared() {
            self.lease.note_store(shared.lease_valid_until());
        }
    }

    fn store(&self) -> &dyn RecordStore {
        match &self.of_kind {
            StoreBackend::Journal(journal) => &**journal,
            StoreBackend::Shared(shared) => &**shared,
            StoreBackend::Replicated(replicated) => &**replicated,
        }
    }

    fn store_mut(&mut self) -> &mut dyn RecordStore {
        match &mut self.of_kind {
            StoreBackend::Journal(journal) => &mut **journal,
            StoreBackend::Shared(shared) => &mut **shared,
            StoreBackend::Replicated(replicated) => &mut **replicated,
        }
    }

    fn shared(&self) -> Option<&SharedStoreClient> {
        match &self.of_kind {
            StoreBackend::Journal(_) => None,
            StoreBackend::Shared(shared) => Some(shared),
            StoreBackend::Replicated(replicated) => Some(replicated.store()),
        }
    }

    fn shared_mut(&mut self) -> Option<&mut SharedStoreClient> {
        match &mut self.of_kind {
            StoreBackend::Journal(_) => None,
            StoreBackend::Shared(shared) => Some(shared),
            StoreBackend::Replicated(replicated) => Some(replicated.store_mut()),
        }
    }
}

impl RecordStore for AnyStore {
    fn append(&mut self, changes: &[StoreChange<'_>]) -> Result<GroupNumber, AppendError> {
        self.store_mut().append(changes)
    }

    fn commit(&mut self) -> Result<GroupNumber, StoreError> {
        let committed = self.store_mut().commit();
        self.note_lease();
        committed
    }

    fn groups(&self) -> &GroupQueue {
        self.store().groups()
    }

    fn durable(&self) -> GroupNumber {
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
        let maintained = self.store_mut().maintain();
        self.note_lease();
        maintained
    }

    fn visit(
        &mut self,
        kinds: &[RecordKind],
        visitor: &mut dyn FnMut(RecordKey<'_>, &[u8]),
    ) -> Result<(), StoreError> {
        let visited = self.store_mut().visit(kinds, visitor);
        if let Some(shared) = self.shared_mut() {
            log_losses(shared);
        }
        visited
    }
}

impl ThreadStore for AnyStore {
    type Figures = AnyStoreFigures;

    fn figures(&self) -> AnyStoreFigures {
        match &self.of_kind {
            StoreBackend::Journal(journal) => AnyStoreFigures::Journal(journal.figures()),
            StoreBackend::Shared(shared) => AnyStoreFigures::Shared(shared.figures()),
            StoreBackend::Replicated(replicated) => {
                let shared = replicated.store().figures();
                AnyStoreFigures::Replicated(Box::new(ReplicatedFigures::new(replicated, shared)))
            }
        }
    }

    fn keep_hold(&mut self) -> Result<(), StoreError> {
        match &self.of_kind {
            StoreBackend::Journal(_) => Ok(()),
            _ => self.maintain().map(|_| ()),
        }
    }

    fn check_place(&mut self) -> Result<(), StoreError> {
        match &mut self.of_kind {
            StoreBackend::Journal(journal) => journal.check_place(),
            _ => Ok(()),
        }
    }

    fn begin_again(&mut self) -> Result<(), StoreError> {
        match &mut self.of_kind {
            StoreBackend::Journal(journal) => journal.begin_again(),
            _ => Ok(()),
        }
    }

    fn is_handover_requested(&self) -> bool {
        self.shared().is_some_and(SharedStore::is_handover_requested)
    }

    fn polls(&self) -> bool {
        match &self.of_kind {
            StoreBackend::Replicated(replicated) => replicated.options().polls,
            _ => false,
        }
    }

    /// Releases the lease, so that the next process need not wait for its end.
    fn close(&mut self) {
        if let StoreBackend::Replicated(replicated) = &mut self.of_kind {
            // Once the shared store has everything, the next process needs no tail. If it lacks
            // groups, it goes on to name the standby, which has them.
            let _ = replicated.finish();
        }
        if let Some(Err(error)) = self.shared_mut().map(SharedStore::release) {
            warn!(%error, "the lease of the records ends by itself");
        }
    }
}

/// Logs the losses of records that the operator accepted.
pub(crate) fn log_losses(shared: &mut SharedStoreClient) {
    for loss in shared.take_accepted_losses() {
        warn!(loss, "records of the shared store are lost");
    }
}

/// Returns the error with a hint what to do about it. `shown`: the store, for the message.
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
    // Servers and holders of leases choose parts of the text: it may have unprintable characters.
    let error = error.to_string();
    anyhow::anyhow!("{} ({shown}); {hint}", printable(&error))
}
