//! The parts of which the control thread is assembled.

pub(crate) mod active_addresses;
pub(crate) mod address_conflicts;
pub(crate) mod core_frequencies;
pub(crate) mod peer_names;
pub(crate) mod port_links;
pub(crate) mod standstill;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use adit_datapath::OwnerChanges;
use adit_dpdk::{EventDevice, Mbuf, Mempool, Port};
use adit_kernel::KernelCounters;
use adit_kernel::idle::Doorbell;
use adit_kernel::n4_socket::N4Socket;
use adit_n4::{FormerRecord, Node};
use adit_operate::api::ApiAccess;
use adit_rules::{WorkerCommand, WorkerEvent};
use adit_shared_store::store_thread::{FormerRecords, StoreLink};
use adit_tables::Publisher;
use adit_types::{MacAddr, Nanos};
use anyhow::Context;

use crate::clock::ProcessClock;
use crate::config::{self, Config};
use crate::control_parts::active_addresses::ActiveAddresses;
use crate::control_parts::core_frequencies::CoreFrequencies;
use crate::control_parts::peer_names::PeerNames;
use crate::kernel_routes::announcements::OwnPrefixes;
use crate::kernel_routes::follower::RouteFollower;
use crate::nrf::NrfAnnouncer;
use crate::ports::kernel_twins::TwinStates;
use crate::ports::steering::PortSteering;
use crate::record_store::any_store::{AnyStoreFigures, SharedStoreClient};
use crate::record_store::replication::PairStore;
use crate::record_store::serving_lease::ServingLease;
use crate::record_store::standby_thread::{FollowedStore, StandbyLink};
use crate::tap::TapHub;
use crate::threads::lifecycle::Lifecycle;
use crate::threads::liveness::Liveness;
use crate::threads::load::ThreadLoad;
use crate::threads::process_nodes::ProcessNodes;

/// The files that a reload reads again.
pub(crate) struct ConfigFiles {
    /// The file of the configuration.
    pub config: PathBuf,
    /// The contents of the HTTP interface's files, if there is one.
    pub api: Option<ApiAccess>,
}

/// Everything that the control thread owns.
pub(crate) struct ControlParts {
    pub config: Arc<Config>,
    /// The files that a reload reads again.
    pub files: ConfigFiles,
    /// When this process began.
    pub started: Instant,
    pub clock: ProcessClock,
    pub node: Node,
    pub publisher: Publisher,
    pub socket: N4Socket,
    /// The addresses of the names in `n4.connect`, if there are any.
    pub peer_names: Option<PeerNames>,
    /// The store of the node's records; none on a standby.
    pub store: Option<StoreLink<AnyStoreFigures>>,
    pub role: ServingRole,
    /// The client that registers this adit at an NRF, if one is configured.
    pub nrf: Option<NrfAnnouncer>,
    /// The kernel's routes, if some interface follows them.
    pub kernel_routes: Option<RouteFollower>,
    /// Prefixes that the kernel gets as routes, if some interface announces.
    pub announcements: Option<OwnPrefixes>,
    /// Addresses of this host while this adit is active.
    pub addresses: Option<ActiveAddresses>,
    /// Kernel twins of interfaces.
    pub twins: TwinStates,
    /// Sessions are kept when adit stops.
    pub keeps_at_stop: bool,
    pub events: Vec<rtrb::Consumer<WorkerEvent>>,
    pub commands: Vec<rtrb::Producer<WorkerCommand>>,
    /// The owners of sessions.
    pub owners: OwnerChanges<Mbuf>,
    /// Traces and captures.
    pub taps: TapHub,
    /// The doorbell of each thread of the packet path.
    pub bells: Vec<Doorbell>,
    /// The execution model.
    pub model: &'static str,
    /// The event scheduler of the event-driven model.
    pub scheduler: Option<EventDevice>,
    /// The role and the CPU of each of them.
    pub threads: Vec<config::ThreadSettings>,
    /// Their nodes.
    pub nodes: ProcessNodes,
    /// Their loads.
    pub loads: Vec<ThreadLoad>,
    /// The frequencies of their cores, if they change.
    pub frequencies: Option<CoreFrequencies>,
    /// Names of the interfaces, by `InterfaceId`.
    pub names: Vec<String>,
    pub ports: Vec<ControlPort>,
    /// Packets in a burst at most.
    pub burst_pkts: usize,
    /// The packet buffers.
    pub pool: Option<Mempool>,
    /// Until when this adit may serve.
    pub lease: ServingLease,
    /// State of this thread that other threads read.
    pub liveness: Liveness,
}

/// The role of this adit among those that share the records of its node.
pub(crate) enum ServingRole {
    /// Another adit is active, and this one follows its records. Becomes `Active` when it takes
    /// over.
    Standby(Box<StandbyParts>),
    /// adit serves, and restores the records of the previous process. Becomes `Active` when workers
    /// run all of them.
    Restoring {
        former: FormerRecords<FormerRecord>,
        /// When the restoration began. `None` before the first iteration.
        since: Option<Nanos>,
    },
    /// adit serves.
    Active,
}

impl ServingRole {
    /// True unless another adit is active.
    pub(crate) const fn is_active(&self) -> bool {
        !matches!(self, Self::Standby(_))
    }

    /// The state of a standby that has the store. The role is `Active` from then on.
    pub(crate) fn take_ready(&mut self) -> Option<Box<StandbyParts>> {
        match core::mem::replace(self, Self::Active) {
            Self::Standby(standby) if standby.store.is_some() => Some(standby),
            other => {
                *self = other;
                None
            }
        }
    }

    /// The state of a standby, if this is one.
    pub(crate) const fn standby(&self) -> Option<&StandbyParts> {
        match self {
            Self::Standby(standby) => Some(standby),
            Self::Restoring { .. } | Self::Active => None,
        }
    }
}

/// State that a standby has until it takes over.
#[derive(Debug)]
pub(crate) struct StandbyParts {
    pub link: StandbyLink,
    /// The store, and the other adit.
    pub pair: PairStore,
    /// Its gate lets the packet path begin.
    pub lifecycle: Lifecycle,
    /// Since when this process has the lease, while the followed records take effect.
    pub taken: Option<Instant>,
    /// The store with the lease, once this was so.
    pub store: Option<Box<SharedStoreClient>>,
}

impl StandbyParts {
    /// Begins to follow the records in `store`.
    pub(crate) fn start(store: FollowedStore, lifecycle: &Lifecycle) -> anyhow::Result<Self> {
        let pair = store.pair.clone();
        let link = StandbyLink::start(store).context("cannot start the thread of the standby")?;
        Ok(Self { link, pair, lifecycle: lifecycle.clone(), taken: None, store: None })
    }
}

/// A port, for `adit show`.
pub(crate) struct ControlPort {
    pub config: config::PortSettings,
    pub device: ControlPortDevice,
}

/// The device of a port.
pub(crate) enum ControlPortDevice {
    Dpdk {
        port: Port,
        /// Whether the port steers packets to the owners of their sessions.
        steering: Vec<PortSteering>,
    },
    Kernel {
        /// Counters of the parts of the threads.
        parts: Vec<KernelCounters>,
        rx_queues: u16,
        /// Whether the port steers packets to the owners of their sessions.
        steering: Vec<PortSteering>,
        mac: MacAddr,
    },
}
