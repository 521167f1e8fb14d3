//! What the control thread is assembled from.

use adit_dpdk::{EventDevice, Port};
use adit_host::idle::Doorbell;
use adit_host::n4_socket::N4Socket;
use adit_host::store_thread::StoreLink;
use adit_kernel::KernelCounters;
use adit_n4::Node;
use adit_rules::{WorkerCommand, WorkerEvent};
use adit_tables::Publisher;

use crate::any_store::AnyStoreFigures;
use crate::clock::ProcessClock;
use crate::config;
use crate::load::ThreadLoad;
use crate::steering::PortSteering;

/// Everything that the control thread owns.
pub(crate) struct ControlParts {
    pub clock: ProcessClock,
    pub node: Node,
    pub publisher: Publisher,
    pub socket: N4Socket,
    /// What keeps the node's records.
    pub store: Option<StoreLink<AnyStoreFigures>>,
    /// Sessions are kept when adit stops.
    pub keeps_at_stop: bool,
    pub events: Vec<rtrb::Consumer<WorkerEvent>>,
    pub commands: Vec<rtrb::Producer<WorkerCommand>>,
    /// What wakes each thread of the packet path.
    pub bells: Vec<Doorbell>,
    /// The execution model.
    pub model: &'static str,
    /// The event scheduler of the event-driven model.
    pub scheduler: Option<EventDevice>,
    /// What each of them does, and where.
    pub threads: Vec<config::ThreadSettings>,
    /// Their loads.
    pub loads: Vec<ThreadLoad>,
    /// Names of the interfaces, by `InterfaceId`.
    pub names: Vec<String>,
    pub ports: Vec<ControlPort>,
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
        /// What the parts of the threads count.
        parts: Vec<KernelCounters>,
        rx_queues: u16,
        /// The same.
        steering: Vec<PortSteering>,
    },
}
