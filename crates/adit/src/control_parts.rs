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
    /// Path of the configuration file.
    pub config: PathBuf,
    /// Contents of the HTTP interface's files; `None` without `[api]`.
    pub api: Option<ApiAccess>,
}

/// Everything that the control thread owns.
pub(crate) struct ControlParts {
    pub config: Arc<Config>,
    pub files: ConfigFiles,
    /// When this process began.
    pub started: Instant,
    pub clock: ProcessClock,
    pub node: Node,
    pub publisher: Publisher,
    pub socket: N4Socket,
    /// Resolves the host names in `n4.connect`; `None` if there are none.
    pub peer_names: Option<PeerNames>,
    /// The store of the node's records; `None` on a standby, and if no records are kept.
    pub store: Option<StoreLink<AnyStoreFigures>>,
    pub role: ServingRole,
    /// The client that registers this adit at an NRF, if one is configured.
    pub nrf: Option<NrfAnnouncer>,
    /// The kernel's routes, if some interface follows them.
    pub kernel_routes: Option<RouteFollower>,
    /// Prefixes that the kernel gets as routes, if some interface announces.
    pub announcements: Option<OwnPrefixes>,
    /// The addresses of `[standby]`, which this host has while this adit is active.
    pub addresses: Option<ActiveAddresses>,
    /// Kernel twins of interfaces.
    pub twins: TwinStates,
    /// True if sessions are kept when adit stops.
    pub keeps_at_stop: bool,
    pub events: Vec<rtrb::Consumer<WorkerEvent>>,
    pub commands: Vec<rtrb::Producer<WorkerCommand>>,
    /// Changes which worker owns which session.
    pub owners: OwnerChanges<Mbuf>,
    /// Traces and captures.
    pub taps: TapHub,
    /// The doorbell of each thread of the packet path.
    pub bells: Vec<Doorbell>,
    /// Name of the execution model.
    pub model: &'static str,
    /// The event scheduler, in the event-driven model.
    pub scheduler: Option<EventDevice>,
    /// The role and the CPU of each thread of the packet path.
    pub threads: Vec<config::ThreadSettings>,
    /// The NUMA nodes of the process.
    pub nodes: ProcessNodes,
    /// The load of each thread of the packet path.
    pub loads: Vec<ThreadLoad>,
    /// The core frequencies of these threads; `None` if adit does not change them.
    pub frequencies: Option<CoreFrequencies>,
    /// Names of the interfaces, by `InterfaceId`.
    pub names: Vec<String>,
    pub ports: Vec<ControlPort>,
    /// Maximum of packets in a burst.
    pub burst_pkts: usize,
    /// The packet buffers.
    pub pool: Option<Mempool>,
    /// The end of the time in which this adit may serve.
    pub lease: ServingLease,
    /// State of the control thread that other threads read.
    pub liveness: Liveness,
}

/// The role of this adit among the adits that share the records of a node.
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

    /// Makes a standby that has the store `Active`, and returns its state as a standby.
    pub(crate) fn take_ready(&mut self) -> Option<Box<StandbyParts>> {
        match core::mem::replace(self, Self::Active) {
            Self::Standby(standby) if standby.store.is_some() => Some(standby),
            other => {
                *self = other;
                None
            }
        }
    }

    /// Returns the state of a standby; `None` if this adit is none.
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
    /// The shared store, and the other adit of the pair.
    pub pair: PairStore,
    /// The gate in it lets the packet path begin.
    pub lifecycle: Lifecycle,
    /// When this process got the lease. The followed records take effect from then on.
    pub taken: Option<Instant>,
    /// The store with the lease, after the followed records have taken effect.
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
        /// By key: whether the port steers packets to the owners of their sessions.
        steering: Vec<PortSteering>,
    },
    Kernel {
        /// Counters of each thread's part of the port.
        parts: Vec<KernelCounters>,
        rx_queues: u16,
        /// By key: whether the port steers packets to the owners of their sessions.
        steering: Vec<PortSteering>,
        mac: MacAddr,
    },
}
