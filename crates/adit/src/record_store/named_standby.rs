//! The standby that a shared store names while the lease of its records is free.

use std::time::{Duration, Instant};

use adit_store::{Incarnation, StoreError};
use tracing::{info, warn};

use crate::config::SharedStoreSettings;
use crate::record_store::any_store::SharedStoreClient;

/// How long a standby may take to take over, in addition to twice the lease.
const TAKEOVER_TIME_MAX: Duration = Duration::from_secs(5);

/// Waits for the named standby to take the lease: it may have acknowledged changes that the store
/// lacks.
#[derive(Debug)]
pub(crate) struct NamedStandby {
    patience: Duration,
    accept_loss: bool,
    /// The named standby, and since when it could have taken the lease.
    since: Option<(Incarnation, Instant)>,
}

impl NamedStandby {
    /// `accept_loss`: go on without acknowledged changes that only an overdue standby has.
    pub(crate) fn new(settings: &SharedStoreSettings, accept_loss: bool) -> Self {
        Self { patience: settings.lease * 2 + TAKEOVER_TIME_MAX, accept_loss, since: None }
    }

    /// Call this while only `standby` may take the lease. Once `standby` is overdue, lets this
    /// process take the lease if losses are accepted.
    ///
    /// # Errors
    /// [`StoreError::TailLost`]: `standby` is overdue, and losses are not accepted.
    pub(crate) fn wait(
        &mut self,
        store: &mut SharedStoreClient,
        standby: Incarnation,
    ) -> Result<(), StoreError> {
        let (_, since) = match self.since.filter(|(known, _)| *known == standby) {
            Some(since) => since,
            None => {
                info!(
                    "the standby that the store names may have more than the store: it has to take over"
                );
                *self.since.insert((standby, Instant::now()))
            }
        };
        if since.elapsed() < self.patience {
            return Ok(());
        }
        let why = format!(
            "the standby that it names (incarnation {:x}) does not take over, and has ended if no adit with \
             [store.replication] runs",
            standby.0
        );
        if !self.accept_loss {
            return Err(StoreError::TailLost(why));
        }
        warn!(why, "acknowledged changes may be lost");
        store.accept_loss_of_standby();
        Ok(())
    }
}
