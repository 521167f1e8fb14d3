//! A replicated store as the store of a thread.

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
    /// How far the standby is; `None` while it is away.
    pub standby: Option<StandbyProgress>,
    /// The standby's acknowledgment makes a group durable.
    pub standby_is_enough: bool,
    /// Why there is no connection to the standby, or why the last one ended.
    pub standby_error: String,
    /// Connections to the standby so far.
    pub connections: u64,
    /// Groups that the shared store lacks.
    pub waiting: usize,
}

impl<G> ReplicatedFigures<G> {
    /// The figures of `replicated`, whose shared store has the figures `store`.
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

    /// Gives the shared store everything, so that the next process needs no tail. Groups that it
    /// does not take in time are in the standby's tail.
    fn close(&mut self) {
        // The next process learns from the store that it needs the tail.
        let _ = self.finish();
        self.store_mut().close();
    }
}
