//! Replication between this adit and the other one of the pair: the tail that a standby keeps, the store of the active adit,
//! and what happens in between.

use std::sync::Arc;
use std::time::{Duration, Instant};

use adit_dpdk::Eal;
use adit_host::tail_thread::TailThread;
use adit_replication::{
    Incarnation, ReplicatedGroup, ReplicatedStore, ReplicatedStoreOptions, ReplicationClient,
    ReplicationConfig, ReplicationServer, ReplicationTail, StorePosition, TailRequest, TailSource,
    marked_standby, write_tail,
};
use adit_store::{RecordNumber, RecordStore, StoreError};
use adit_types::Nanos;
use adit_types::limits::STORE_BACKLOG_BYTES_MAX;
use anyhow::Context;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tracing::{info, warn};

use crate::any_store::{AnyStore, ReplicationClock, SharedStoreClient};
use crate::config::{ReplicationSettings, SharedStoreSettings};
use crate::replication_link::{LinkTransport, ReplicationLink};
use crate::serving_lease::ServingLease;
use crate::serving_store::ServingStore;

/// How long the other adit may leave a command without reply.
const SILENCE_MAX: Nanos = Nanos::from_secs(1);

/// Pause between attempts to reach it.
const RETRY: Nanos = Nanos::from_millis(100);

/// Longest pause between signs of life, which also ask the standby when it takes over at the earliest.
const PING_INTERVAL_MAX: Nanos = Nanos::from_millis(500);

/// How long a commit waits for either store.
const PATIENCE: Nanos = Nanos::from_secs(1);

/// How long an adit that has taken the lease waits for the tail of the other one. The other one can take over afterwards.
const TAIL_WAIT_MAX: Duration = Duration::from_secs(5);

/// Longest pause while it waits.
const TAIL_WAIT: Duration = Duration::from_millis(5);

/// The tail of this process while it is the standby.
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
    /// What both say of the lease goes there.
    pub lease: ServingLease,
}

impl PairStore {
    /// Opens the link that is configured.
    ///
    /// # Errors
    /// Its port cannot be opened, or a file of TLS cannot be used.
    pub(crate) fn open(
        settings: &SharedStoreSettings,
        eal: &Eal,
        lease: ServingLease,
    ) -> anyhow::Result<Self> {
        let link = settings.replication.as_ref();
        let link = link.map(|replication| ReplicationLink::open(replication, eal)).transpose()?;
        Ok(Self { settings: settings.clone(), link: link.map(Arc::new), lease })
    }

    /// What is configured of replication, and its link.
    fn replication(&self) -> Option<(&ReplicationSettings, &ReplicationLink)> {
        self.settings.replication.as_ref().zip(self.link.as_deref())
    }

    fn client_config(&self, settings: &ReplicationSettings, epoch: u64) -> ReplicationConfig {
        let lease = Nanos(u64::try_from(self.settings.lease.as_nanos()).unwrap_or(u64::MAX));
        ReplicationConfig {
            peer: settings.standby,
            name: self.settings.name.clone(),
            epoch,
            // The tail of the other adit has room for more.
            octets_max: STORE_BACKLOG_BYTES_MAX / 2,
            silence_max: SILENCE_MAX,
            retry_after: RETRY,
            ping_interval: PING_INTERVAL_MAX.min(Nanos(lease.0 / 4)),
        }
    }
}

/// Begins to keep the tail of the active adit, which has `epoch`; `None` without replication.
///
/// # Errors
/// The address cannot be listened at.
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

/// Writes to the shared store, whose lease this process has just taken, the groups that only a standby has.
///
/// # Errors
/// The store cannot be used. [`StoreError::TailLost`]: acknowledged groups may be lost; with `accept_loss` that is logged
/// instead.
pub(crate) fn recover_tail(
    store: &mut SharedStoreClient,
    pair: &PairStore,
    own: Option<&OwnTail>,
    accept_loss: bool,
) -> Result<(), StoreError> {
    let epoch = store.figures().epoch;
    if let Some(own) = own {
        // From here on it takes no group of the former active adit.
        own.fence(epoch);
    }
    let marked = marked_standby(store)?;
    let own_incarnation = own.map(|own| own.report().incarnation);
    let last = store.kept().unwrap_or(store.figures().last);
    let position = StorePosition { epoch: last.epoch, number: RecordNumber(last.number) };
    // A server that lost records may have lost the mark.
    let is_kept = store.kept().is_some();
    let source = match is_kept && own.is_some() {
        true => TailSource::Own,
        false => TailSource::of(marked, own_incarnation),
    };
    let found = match (source, own, pair.replication()) {
        (TailSource::Unneeded, ..) => return Ok(()),
        (TailSource::Own, Some(own), _) => {
            own.groups_after(position).map_err(|error| error.to_string())
        }
        (TailSource::Own, None, _) => unreachable!("its incarnation is that of a tail"),
        (TailSource::Peer(marked), _, Some((settings, link))) => {
            let config = pair.client_config(settings, epoch);
            peer_tail(store, link, config, position, marked)?
        }
        (TailSource::Peer(_), _, None) => {
            Err("[store.replication] says nothing about the other adit".to_owned())
        }
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

/// Reads the tail of the other adit, and prolongs the lease meanwhile. The inner error says why there is none.
fn peer_tail(
    store: &mut SharedStoreClient,
    link: &ReplicationLink,
    config: ReplicationConfig,
    position: StorePosition,
    marked: Incarnation,
) -> Result<Result<Vec<ReplicatedGroup>, String>, StoreError> {
    let peer = config.peer;
    let transport = match link.transport() {
        Ok(transport) => transport,
        Err(error) => return Ok(Err(error.to_string())),
    };
    info!(%peer, "reading what only the standby may have");
    let mut request = TailRequest::new(transport, config, position, marked);
    let (began, mut now) = (Instant::now(), clock());
    loop {
        match request.poll(now()) {
            Ok(true) => return Ok(Ok(request.into_parts().1)),
            Ok(false) if began.elapsed() < TAIL_WAIT_MAX => {}
            Ok(false) => {
                let why = request.error();
                return Ok(Err(format!("the standby at {peer} cannot be reached: {why}")));
            }
            Err(error) => return Ok(Err(error.to_string())),
        }
        store.maintain()?;
        request.wait(TAIL_WAIT);
    }
}

/// The store of an active adit: the shared one, with a standby if one is configured.
///
/// # Errors
/// The process is out of file descriptors.
pub(crate) fn active_store(
    store: SharedStoreClient,
    pair: &PairStore,
) -> anyhow::Result<ServingStore> {
    let lease = pair.lease.clone();
    let Some((settings, link)) = pair.replication() else {
        return Ok(ServingStore::new(AnyStore::Shared(Box::new(store)), lease));
    };
    let config = pair.client_config(settings, store.figures().epoch);
    let transport = link.transport().context("cannot reach the standby")?;
    let client = ReplicationClient::new(transport, config, store.durable());
    let options = ReplicatedStoreOptions { patience: PATIENCE, polls: link.polls() };
    let replicated = ReplicatedStore::new(store, client, options, clock());
    Ok(ServingStore::new(AnyStore::Replicated(Box::new(replicated)), lease))
}
