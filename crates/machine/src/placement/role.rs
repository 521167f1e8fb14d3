//! Roles of threads, and who runs where.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::placement::CpuSet;

/// The role of a thread, as far as its place matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlacedRole {
    /// It controls: N4, publication, timers. Study 003: c.
    Control,
    /// Receives packets and distributes them. Study 003 calls this role b.
    Receiver,
    /// It processes packets; without receivers it also receives them. Study 003: a.
    Worker,
    /// It runs a central event scheduler.
    Scheduler,
    /// It receives packets for an event scheduler and transmits frames that workers send.
    RxTx,
}

impl PlacedRole {
    /// Its name in texts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Control => "control",
            Self::Receiver => "receiver",
            Self::Worker => "worker",
            Self::Scheduler => "scheduler",
            Self::RxTx => "rx-tx",
        }
    }

    /// The letter of the role in study 003.
    #[must_use]
    pub const fn letter(self) -> char {
        match self {
            Self::Control => 'c',
            Self::Receiver | Self::Scheduler | Self::RxTx => 'b',
            Self::Worker => 'a',
        }
    }

    /// True if the thread gives packets to others.
    #[must_use]
    pub const fn distributes(self) -> bool {
        matches!(self, Self::Receiver | Self::Scheduler | Self::RxTx)
    }
}

/// A thread of the packet path on its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedThread {
    /// Its role.
    pub role: PlacedRole,
    /// Where it runs.
    pub cpu: u32,
}

/// A port and the node of its device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedPort {
    /// Its name, for texts.
    pub name: String,
    /// The node of its device; `None` for a virtual device, or where the firmware does not say.
    pub node: Option<u32>,
}

/// One user plane: its receivers distribute to its workers and to no others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementGroup {
    /// The CPU of its control threads; several groups may share one.
    pub control_cpu: u32,
    /// The threads of its packet path.
    pub threads: Vec<PlacedThread>,
    /// The ports from which it receives.
    pub ports: Vec<PlacedPort>,
}

impl PlacementGroup {
    /// CPUs of its threads with a role, in order.
    pub fn cpus(&self, role: PlacedRole) -> impl Iterator<Item = u32> + '_ {
        self.threads.iter().filter(move |thread| thread.role == role).map(|thread| thread.cpu)
    }
}

impl fmt::Display for PlacementGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CPU {}: control", self.control_cpu)?;
        use PlacedRole::{Receiver, RxTx, Scheduler, Worker};
        for role in [Receiver, Worker, Scheduler, RxTx] {
            let cpus: CpuSet = self.cpus(role).collect();
            match cpus.len() {
                0 => {}
                1 => write!(f, "; CPU {cpus}: {}", role.name())?,
                _ => write!(f, "; CPUs {cpus}: {}", role.name())?,
            }
        }
        Ok(())
    }
}

/// Where all threads run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// User planes. One process of Adit is one group.
    pub groups: Vec<PlacementGroup>,
}

impl Placement {
    /// How many threads process packets.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.groups.iter().map(|group| group.cpus(PlacedRole::Worker).count()).sum()
    }

    /// CPUs of the packet path, of all groups, in order.
    #[must_use]
    pub fn packet_cpus(&self) -> Vec<u32> {
        let threads = self.groups.iter().flat_map(|group| &group.threads);
        threads.map(|thread| thread.cpu).collect()
    }
}
