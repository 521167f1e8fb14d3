//! A replicated store as a store that a thread can own.

use crate::replication::{ReplicatedStore, StandbyProgress};
use adit_store::{RecordStore, StoreError};
use adit_transport::Transport;
use adit_types::Nanos;

use crate::store_thread::ThreadStore;

/// Figures of a replicated store for operators.
#[derive(Debug, Clone)]
pub struct ReplicatedFigures<G> {
    /// Figures of the shared store.
    pub store: G,
    /// How far the standby is; `None` while there is no connection to it.
    pub standby: Option<StandbyProgress>,
    /// True while the standby's acknowledgment suffices to make a group durable.
    pub standby_is_enough: bool,
    /// Why there is no connection to the standby, or why the last connection ended.
    pub standby_error: String,
    /// How many connections to the standby there have been.
    pub connections: u64,
    /// How many groups the shared store lacks.
    pub waiting: usize,
}

impl<G> ReplicatedFigures<G> {
    /// Collects the figures of `replicated`; `store` has those of its shared store.
    pub fn new<S, T, C>(replicated: &ReplicatedStore<S, T, C>, store: G) -> Self
    where
        S: RecordStore,
        T: Transport,
        C: FnMut() -> Nanos,
    {
        let client = replicated.client();
        Self {
            store,
            standby: client.progress(),
            standby_is_enough: replicated.standby_is_enough(),
            standby_error: client.error().to_string(),
            connections: client.connections(),
            waiting: replicated.groups().after(replicated.store().durable()).len(),
        }
    }
}

impl<S, T, C> ThreadStore for ReplicatedStore<S, T, C>
where
    S: ThreadStore,
    T: Transport + Send + 'static,
    C: FnMut() -> Nanos + Send + 'static,
{
    type Figures = ReplicatedFigures<S::Figures>;

    fn figures(&self) -> Self::Figures {
        ReplicatedFigures::new(self, self.store().figures())
    }

    fn keep_hold(&mut self) -> Result<(), StoreError> {
        self.maintain().map(|_| ())
    }

    fn is_handover_requested(&self) -> bool {
        self.store().is_handover_requested()
    }

    fn polls(&self) -> bool {
        self.options().polls
    }

    /// Writes all groups to the shared store, so that the next process needs no tail. Groups that
    /// the store does not take in time are in the standby's tail.
    fn close(&mut self) {
        // If this fails, the store still names the standby, so the next process reads the tail.
        let _ = self.finish();
        self.store_mut().close();
    }
}
