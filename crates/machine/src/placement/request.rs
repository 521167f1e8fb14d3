//! The request for a placement plan.

use serde::{Deserialize, Serialize};

use crate::placement::PlacedPort;

/// How the siblings of a core may be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SiblingPolicy {
    /// A core has one thread of the packet path; its other CPUs stay free.
    #[default]
    Split,
    /// All siblings of a core have threads of the packet path; in a model with receivers, each
    /// receiver shares its core with one of its workers.
    Shared,
}

/// The execution model: the kinds of threads that it has. `None` as a number: as many as fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlanModel {
    /// Workers receive, process and transmit.
    RunToCompletion,
    /// Receivers distribute to workers.
    Pipeline {
        /// Number of receivers.
        receivers: Option<usize>,
    },
    /// A scheduler distributes to workers.
    EventDriven {
        /// Number of Rx/Tx threads.
        rx_tx: Option<usize>,
        /// True if a central scheduler needs a core.
        has_scheduler: bool,
    },
}

/// The threads to place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanRequest {
    /// The execution model.
    pub model: PlanModel,
    /// Number of workers; `None`: as many as fit.
    pub workers: Option<usize>,
    /// Maximum number of packet path threads in a group.
    pub threads_max: usize,
    /// Ports with their nodes.
    pub ports: Vec<PlacedPort>,
    /// How siblings may be used.
    pub siblings: SiblingPolicy,
    /// True to ignore nodes, for comparison.
    pub ignores_nodes: bool,
    /// True if each node that has ports gets a group with its own control thread. Otherwise one
    /// group has all ports.
    pub is_per_node: bool,
}
