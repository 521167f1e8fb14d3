//! The configuration of a node.

use core::net::{IpAddr, SocketAddr};

use adit_session::StoreConfig;
use adit_types::Nanos;

use crate::admission::PeerPolicy;
use crate::association::NodeIdentity;
use crate::path::PathConfig;
use crate::transaction::Retransmission;

/// The configuration of how records are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordConfig {
    /// How often the usage of each session is recorded; it is also recorded before each report.
    pub usage_interval: Nanos,
    /// True if requests are served while the store fails; their answers then do not wait for it.
    pub serves_without_store: bool,
}

/// The configuration of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeConfig {
    /// Our Node ID.
    pub node_id: NodeIdentity,
    /// Our N4 address, which our F-SEIDs contain.
    pub address: IpAddr,
    /// CP functions with which we set up an association, at most one per address. The unspecified
    /// address stands for a CP function whose address is not known yet: see
    /// [`crate::Node::set_configured_peer`].
    pub connect: Vec<SocketAddr>,
    /// Time between two Heartbeat Requests to one peer.
    pub heartbeat_interval: Nanos,
    /// How long sessions stay when their peer does not answer heartbeats any more; zero to end them
    /// at once.
    pub sessions_outlive_peer: Nanos,
    /// Time without a response before a request is sent again. Spec: TS 29.244 §6.4 (T1).
    pub t1: Nanos,
    /// How often a request is sent again before it has failed. Spec: TS 29.244 §6.4 (N1).
    pub n1: u32,
    /// When this node started; differs after every restart. Unit: seconds since 1900-01-01 (NTP).
    pub recovery_time_stamp: u32,
    /// Determines our first sequence number; random.
    pub seed: u32,
    /// Which peers are accepted, and at what rate.
    pub policy: PeerPolicy,
    /// How GTP-U paths are monitored.
    pub paths: PathConfig,
    /// The configuration of the session store.
    pub store: StoreConfig,
    /// How records are kept for a later process; `None` to keep none.
    pub records: Option<RecordConfig>,
}

impl NodeConfig {
    pub(crate) const fn retransmission(&self) -> Retransmission {
        Retransmission { t1: self.t1, n1: self.n1 }
    }
}
