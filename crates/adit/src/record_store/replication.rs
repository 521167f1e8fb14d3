//! Replication between this adit and the other one of the pair: the tail that a standby keeps, the
//! store of the active adit, and the connection between them.

use std::sync::Arc;
use std::time::Instant;

use adit_dpdk::Eal;
use adit_shared_store::replication::{
    ReplicatedStore, ReplicatedStoreOptions, ReplicationClient, ReplicationConfig,
    ReplicationServer, ReplicationTail, write_tail,
};
use adit_shared_store::tail_thread::TailThread;
use adit_store::{Incarnation, StoreError};
use adit_types::Nanos;
use adit_types::limits::STORE_BACKLOG_BYTES_MAX;
use anyhow::Context;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tracing::{info, warn};

use crate::config::{ReplicationSettings, SharedStoreSettings};
use crate::record_store::any_store::{AnyStore, ReplicationClock, SharedStoreClient, StoreBackend};
use crate::record_store::replication_link::{LinkTransport, ReplicationLink};
use crate::record_store::serving_lease::ServingLease;

/// How long the other adit may leave a command without reply.
const SILENCE_MAX: Nanos = Nanos::from_secs(1);

/// Pause between attempts to reach the other adit.
const RETRY_PAUSE: Nanos = Nanos::from_millis(100);

/// Longest interval between pings. Their replies also say how long the standby will not take over.
const PING_INTERVAL_MAX: Nanos = Nanos::from_millis(500);

/// How long a commit waits for the shared store, and for the standby.
const COMMIT_TIMEOUT: Nanos = Nanos::from_secs(1);

/// The tail that this process keeps while it is the standby: the latest groups of the active adit.
pub(crate) type OwnTail = TailThread<LinkTransport>;

fn clock() -> ReplicationClock {
    let zero = Instant::now();
    Box::new(move || Nanos(u64::try_from(zero.elapsed().as_nanos()).unwrap_or(u64::MAX)))
}

/// A shared store, and the link to the other adit of the pair.
#[derive(Debug, Clone)]
pub(crate) struct PairStore {
    pub settings: SharedStoreSettings,
    /// `None` without `[store.replication]`.
    pub link: Option<Arc<ReplicationLink>>,
    /// Gets the state of the lease from the shared store and from the standby.
    pub lease: ServingLease,
}

impl PairStore {
    /// Opens the link that is configured.
    ///
    /// # Errors
    /// The port of the link cannot be opened, or a file of TLS cannot be used.
    pub(crate) fn open(
        settings: &SharedStoreSettings,
        eal: &Eal,
        lease: ServingLease,
    ) -> anyhow::Result<Self> {
        let link = settings.replication.as_ref();
        let link = link.map(|replication| ReplicationLink::open(replication, eal)).transpose()?;
        Ok(Self { settings: settings.clone(), link: link.map(Arc::new), lease })
    }

    /// Returns the settings of replication and its link; `None` without replication.
    fn replication(&self) -> Option<(&ReplicationSettings, &ReplicationLink)> {
        self.settings.replication.as_ref().zip(self.link.as_deref())
    }

    fn client_config(&self, settings: &ReplicationSettings, epoch: u64) -> ReplicationConfig {
        let lease = Nanos(u64::try_from(self.settings.lease.as_nanos()).unwrap_or(u64::MAX));
        ReplicationConfig {
            peer: settings.standby,
            name: self.settings.name.clone(),
            epoch,
            silence_max: SILENCE_MAX,
            retry_after: RETRY_PAUSE,
            ping_interval: PING_INTERVAL_MAX.min(Nanos(lease.0 / 4)),
        }
    }
}

/// Begins to keep the tail of the active adit, which has `epoch`; `None` without replication.
///
/// # Errors
/// This process cannot listen at the address.
pub(crate) fn keep_tail(pair: &PairStore, epoch: u64) -> anyhow::Result<Option<OwnTail>> {
    let Some((settings, link)) = pair.replication() else { return Ok(None) };
    let incarnation = Incarnation(StdRng::from_os_rng().random());
    let mut tail = ReplicationTail::new(&pair.settings.name, incarnation, STORE_BACKLOG_BYTES_MAX);
    tail.note_epoch(epoch);
    let listen = settings.listen;
    let server = link
        .transport()
        .and_then(|transport| Ok(ReplicationServer::new(transport, listen, tail)?))
        .with_context(|| format!("cannot listen at store.replication.listen {listen}"))?;
    let thread = TailThread::start(server, link.polls(), clock());
    thread.map(Some).context("cannot start the thread of the tail")
}

/// Writes to the shared store, whose lease this process has just taken, the groups that only its
/// tail has.
///
/// # Errors
/// The store cannot be used. [`StoreError::TailLost`]: acknowledged groups may be lost; with
/// `accept_loss` that is logged instead.
pub(crate) fn recover_tail(
    store: &mut SharedStoreClient,
    own: Option<&OwnTail>,
    accept_loss: bool,
) -> Result<(), StoreError> {
    if let Some(own) = own {
        // From here on the tail accepts no group of the previous active adit.
        own.fence(store.figures().epoch);
    }
    let is_kept = store.kept_through().is_some();
    let position = store.kept_through().unwrap_or(store.figures().last);
    // A server that lost records (`is_kept`) may also have lost the name of the standby.
    let is_named = |own: &&OwnTail| store.former_standby() == Some(own.report().incarnation);
    let found = match (own.filter(|own| is_kept || is_named(own)), store.former_standby()) {
        (Some(own), _) => own.groups_after(position).map_err(|error| error.to_string()),
        (None, Some(standby)) => Err(format!("incarnation {:x} of a standby had them", standby.0)),
        (None, None) => return Ok(()),
    };
    let groups = match found {
        Ok(groups) => groups,
        Err(why) if accept_loss || is_kept => {
            warn!(why, "acknowledged changes may be lost");
            Vec::new()
        }
        Err(why) => return Err(StoreError::TailLost(why)),
    };
    write_tail(store, &groups)?;
    let groups = groups.len();
    info!(groups, "the shared store has everything that the standby had");
    Ok(())
}

/// The store of an active adit: the shared one, with a standby if one is configured.
///
/// # Errors
/// The process is out of file descriptors.
pub(crate) fn active_store(store: SharedStoreClient, pair: &PairStore) -> anyhow::Result<AnyStore> {
    let lease = pair.lease.clone();
    let Some((settings, link)) = pair.replication() else {
        return Ok(AnyStore::new(StoreBackend::Shared(Box::new(store)), lease));
    };
    let config = pair.client_config(settings, store.figures().epoch);
    let transport = link.transport().context("cannot reach the standby")?;
    let client = ReplicationClient::new(transport, config);
    // Half of the room that the tail of the other adit has.
    let lacking_octets_max = STORE_BACKLOG_BYTES_MAX / 2;
    let options = ReplicatedStoreOptions {
        patience: COMMIT_TIMEOUT,
        lacking_octets_max,
        polls: link.polls(),
    };
    let replicated = ReplicatedStore::new(store, client, options, clock());
    Ok(AnyStore::new(StoreBackend::Replicated(Box::new(replicated)), lease))
}
