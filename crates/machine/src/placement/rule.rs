//! The rules of placement, with their reasons and costs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The cost of breaking a rule.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleCost {
    /// Percentage points of CPU utilization for the same load.
    CpuPoints(f64),
    /// A factor on the load, or on the time that processing takes.
    Factor(f64),
    /// The studies give a reason, but no figure.
    Unmeasured,
    /// The thread cannot start.
    CannotRun,
}

impl fmt::Display for RuleCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CpuPoints(points) => write!(f, "{points:.1} percentage points of CPU"),
            Self::Factor(factor) => write!(f, "load or time × {factor:.2}"),
            Self::Unmeasured => f.write_str("no figure in the studies"),
            Self::CannotRun => f.write_str("the thread cannot start"),
        }
    }
}

/// A rule of placement. Study 003 is *Impact of NUMA architecture and placement on a packet
/// gateway* (tables 4.1 to 4.12, a gateway on two and on four sockets), study 004 is *On the use of
/// Linux real-time features for RAN packet processing*.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlacementRule {
    /// Threads run on CPUs that exist, are online, and are allowed to the process.
    UsableCpu,
    /// Each thread that polls has a CPU of its own.
    OwnCpu,
    /// Threads that receive packets run on the node of their ports.
    PortNode,
    /// A receiver distributes to workers of its own node.
    OwnNode,
    /// Control runs on the node of the threads that it controls.
    ControlNode,
    /// Control does not run on a sibling of a CPU of the packet path.
    ControlSibling,
    /// Siblings are split, or shared by a receiver and one of its workers.
    SiblingPolicy,
    /// Isolated cores are used first.
    IsolatedFirst,
    /// CPU 0 is used last.
    Cpu0Last,
    /// The number of polling threads does not exceed the CPUs that a cgroup grants.
    Quota,
    /// CPUs that have no other role process packets, so that control has no more CPUs than workers.
    WorkersFirst,
}

impl PlacementRule {
    /// All rules, those with the highest cost first.
    pub const ALL: [Self; 11] = [
        Self::UsableCpu,
        Self::Quota,
        Self::OwnCpu,
        Self::PortNode,
        Self::OwnNode,
        Self::WorkersFirst,
        Self::SiblingPolicy,
        Self::ControlSibling,
        Self::ControlNode,
        Self::IsolatedFirst,
        Self::Cpu0Last,
    ];

    /// Returns the name of the rule in texts and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::UsableCpu => "usable-cpu",
            Self::OwnCpu => "own-cpu",
            Self::PortNode => "port-node",
            Self::OwnNode => "own-node",
            Self::ControlNode => "control-node",
            Self::ControlSibling => "control-sibling",
            Self::SiblingPolicy => "sibling-policy",
            Self::IsolatedFirst => "isolated-first",
            Self::Cpu0Last => "cpu0-last",
            Self::Quota => "quota",
            Self::WorkersFirst => "workers-first",
        }
    }

    /// Returns the rule and its reason, for display.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::UsableCpu => {
                "a thread can only run on an online CPU that its affinity and its cpuset allow"
            }
            Self::OwnCpu => {
                "a polling thread never gives its CPU up, so a second one there waits for whole time slices"
            }
            Self::PortNode => {
                "threads receive on the node of their ports: descriptors and packets of another node cross the \
                 interconnect twice (study 003, 3.4.2)"
            }
            Self::OwnNode => {
                "a receiver distributes only to workers of its own node: each packet and its session would cross \
                 the interconnect (study 003, 3.3 and table 4.4)"
            }
            Self::ControlNode => {
                "control runs on the node of its workers: they exchange rules, usage and signaling all the time \
                 (study 003, tables 4.7 and 4.9)"
            }
            Self::ControlSibling => {
                "control runs on no sibling of the packet path: siblings share the execution units of a core \
                 (study 004, figure 2)"
            }
            Self::SiblingPolicy => {
                "siblings are split, or shared by a receiver and a worker that it distributes to, whose packets \
                 stay in the cache of the core (study 003, table 4.4; study 004, figure 2)"
            }
            Self::IsolatedFirst => {
                "the kernel's scheduler leaves isolated cores alone, so nothing interrupts a thread there"
            }
            Self::Cpu0Last => {
                "timers, interrupts and work of the kernel are on CPU 0 unless somebody moved them"
            }
            Self::Quota => {
                "beyond its quota a cgroup stops all threads until the next period, tens of milliseconds later"
            }
            Self::WorkersFirst => {
                "a core without another role processes packets, and one control thread serves several groups \
                 (study 003, tables 4.5, 4.6, 4.8 and 4.10)"
            }
        }
    }

    /// Returns what the studies found for a placement that breaks the rule, for display.
    #[must_use]
    pub const fn cost_text(self) -> &'static str {
        match self {
            Self::UsableCpu => "the thread cannot start",
            Self::OwnCpu => "load × threads per CPU",
            Self::PortNode => "24.2 points of CPU with all node rules off (study 003, table 4.11)",
            Self::OwnNode => {
                "16.4 points of CPU (study 003, table 4.12, one receiver and one worker moved), 24.2 if receivers of all \
                 nodes distribute to all (table 4.11)"
            }
            Self::ControlNode => {
                "1.7 points of CPU, 1.9 with one control for several groups (study 003, table 4.12)"
            }
            Self::ControlSibling => {
                "time × 1.5 while the sibling is busy (study 004, figure 2: 1350 for 900 µs)"
            }
            Self::SiblingPolicy => {
                "time × 1.5 while the sibling is busy (study 004, figure 2); two workers instead of a receiver \
                 and a worker on a core 1.7 points of CPU (study 003, table 4.12)"
            }
            Self::IsolatedFirst | Self::Cpu0Last => "no figure in the studies",
            Self::Quota => "load × threads per granted CPU",
            Self::WorkersFirst => {
                "18.7 points of CPU between 9 and 4 workers, 23.7 between 4 and 2 (study 003, table 4.12)"
            }
        }
    }

    /// True for rules that are void if nodes are ignored (`placement = "uma"`).
    #[must_use]
    pub const fn is_about_nodes(self) -> bool {
        matches!(self, Self::PortNode | Self::OwnNode | Self::ControlNode)
    }
}

impl FromStr for PlacementRule {
    type Err = UnknownRule;

    fn from_str(text: &str) -> Result<Self, UnknownRule> {
        let found = Self::ALL.into_iter().find(|rule| rule.name() == text);
        found.ok_or_else(|| UnknownRule { text: text.to_owned() })
    }
}

/// A text that is not the name of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownRule {
    text: String,
}

impl fmt::Display for UnknownRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = PlacementRule::ALL.map(PlacementRule::name).join(", ");
        write!(f, "\"{}\" is not a rule; the rules are {names}", self.text)
    }
}

impl std::error::Error for UnknownRule {}

/// Study 003, table 4.12: 49.4 % instead of 33.1 % if one of a receiver's two workers is on another
/// node.
pub(crate) const REMOTE_WORKER_POINTS: f64 = 16.4;
/// Study 003, table 4.11: 87.0 % instead of 62.8 % if all node rules are broken.
pub(crate) const UMA_POINTS: f64 = 24.2;
/// Study 003, table 4.12: the control thread of each group is on the other node.
pub(crate) const CONTROL_REMOTE_POINTS: f64 = 1.7;
/// Study 003, table 4.12: two groups share one control thread, which is on the other node.
pub(crate) const SHARED_CONTROL_REMOTE_POINTS: f64 = 1.9;
/// Study 003, table 4.12: 18.1 points if both workers are on one core of the other node, 16.4 if a
/// receiver and a worker are.
pub(crate) const UNPAIRED_POINTS: f64 = 18.1 - REMOTE_WORKER_POINTS;
/// Study 004, figure 2: processing takes 1350 µs instead of 900 µs while the sibling is busy.
pub(crate) const SIBLING_FACTOR: f64 = 1350.0 / 900.0;
