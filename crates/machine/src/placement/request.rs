//! The request for a plan.

use serde::{Deserialize, Serialize};

use crate::placement::PlacedPort;

/// Permitted use of the siblings of a core.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SiblingPolicy {
    /// A core has one thread of the packet path; its other CPUs stay free.
    #[default]
    Split,
    /// Both siblings of a core have threads of the packet path: where there are receivers, a
    /// receiver and a worker of its own.
    Shared,
}

/// The execution model, as far as its threads matter. `None` in a number: as many as fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlanModel {
    /// Workers receive, process and transmit.
    RunToCompletion,
    /// Receivers distribute to workers.
    Pipeline {
        /// How many receivers.
        receivers: Option<usize>,
    },
    /// A scheduler distributes to workers.
    EventDriven {
        /// How many Rx/Tx threads.
        rx_tx: Option<usize>,
        /// A central scheduler needs a core.
        has_scheduler: bool,
    },
}

/// The threads to place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanRequest {
    /// The threads that there are.
    pub model: PlanModel,
    /// How many workers; `None`: as many as fit.
    pub workers: Option<usize>,
    /// Most threads of the packet path of a group.
    pub threads_max: usize,
    /// Ports with their nodes.
    pub ports: Vec<PlacedPort>,
    /// Permitted use of siblings.
    pub siblings: SiblingPolicy,
    /// Ignore nodes, to compare.
    pub ignores_nodes: bool,
    /// Whether each node that has ports gets a group with a control of its own. Otherwise one group
    /// has all ports.
    pub is_per_node: bool,
}
