//! The store of an active adit, which says how long it may serve.

use std::time::{Duration, Instant};

use adit_host::store_thread::ThreadStore;
use adit_store::{
    AppendError, RecordKey, RecordKind, RecordNumber, RecordStore, StoreChange, StoreError, Upkeep,
};

use crate::any_store::{AnyStore, AnyStoreFigures};
use crate::serving_lease::ServingLease;

/// A store that passes on what it learns of the lease.
pub(crate) struct ServingStore {
    store: AnyStore,
    lease: ServingLease,
}

impl ServingStore {
    /// The store, and who learns of its lease.
    pub(crate) fn new(store: AnyStore, lease: ServingLease) -> Self {
        let mut this = Self { store, lease };
        this.note_lease();
        this
    }

    fn note_lease(&mut self) {
        if let AnyStore::Replicated(replicated) = &mut self.store {
            let promised = Duration::from_nanos(replicated.promised_for().0);
            self.lease.note_standby(Instant::now().checked_add(promised));
        }
        if !matches!(self.store, AnyStore::Journal(_)) {
            self.lease.note_store(self.store.lease_valid_until());
        }
    }
}

impl RecordStore for ServingStore {
    fn group_octets_max(&self) -> usize {
        self.store.group_octets_max()
    }

    fn append(&mut self, changes: &[StoreChange<'_>]) -> Result<RecordNumber, AppendError> {
        self.store.append(changes)
    }

    fn commit(&mut self) -> Result<RecordNumber, StoreError> {
        let committed = self.store.commit();
        self.note_lease();
        committed
    }

    fn durable(&self) -> RecordNumber {
        self.store.durable()
    }

    fn is_full(&self) -> bool {
        self.store.is_full()
    }

    fn is_damaged(&self) -> bool {
        self.store.is_damaged()
    }

    fn losses(&self) -> u64 {
        self.store.losses()
    }

    fn set_complete(&mut self) {
        self.store.set_complete();
    }

    fn maintain(&mut self) -> Result<Upkeep, StoreError> {
        let maintained = self.store.maintain();
        self.note_lease();
        maintained
    }

    fn visit(
        &mut self,
        kinds: &[RecordKind],
        visitor: &mut dyn FnMut(RecordKey<'_>, &[u8]),
    ) -> Result<(), StoreError> {
        self.store.visit(kinds, visitor)
    }
}

impl ThreadStore for ServingStore {
    type Figures = AnyStoreFigures;

    fn figures(&self) -> AnyStoreFigures {
        self.store.figures()
    }

    fn keep(&mut self) -> Result<(), StoreError> {
        let kept = self.store.keep();
        self.note_lease();
        kept
    }

    fn check_place(&mut self) -> Result<(), StoreError> {
        self.store.check_place()
    }

    fn begin_again(&mut self) -> Result<(), StoreError> {
        self.store.begin_again()
    }

    fn is_handover_requested(&self) -> bool {
        self.store.is_handover_requested()
    }

    fn polls(&self) -> bool {
        self.store.polls()
    }

    fn close(&mut self) {
        self.store.close();
    }
}
