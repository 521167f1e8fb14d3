//! Roles of threads, and the placement of threads on CPUs.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::placement::CpuSet;

/// The role of a thread for placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlacedRole {
    /// Runs N4, publication and timers. Study 003 calls this role c.
    Control,
    /// Receives packets and distributes them. Study 003 calls this role b.
    Receiver,
    /// Processes packets; without receivers it also receives them. Study 003 calls this role a.
    Worker,
    /// Runs a central event scheduler.
    Scheduler,
    /// Receives packets for an event scheduler, and transmits the frames that workers send.
    RxTx,
}

impl PlacedRole {
    /// Returns the name of the role for display.
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

    /// Returns the letter that study 003 uses for the role.
    #[must_use]
    pub const fn letter(self) -> char {
        match self {
            Self::Control => 'c',
            Self::Receiver | Self::Scheduler | Self::RxTx => 'b',
            Self::Worker => 'a',
        }
    }

    /// True if the thread passes packets on to other threads.
    #[must_use]
    pub const fn distributes(self) -> bool {
        matches!(self, Self::Receiver | Self::Scheduler | Self::RxTx)
    }
}

/// A thread of the packet path, and its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedThread {
    /// Role of the thread.
    pub role: PlacedRole,
    /// Index of the CPU that it runs on.
    pub cpu: u32,
}

/// A port and the node of its device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedPort {
    /// Name of the port, for display.
    pub name: String,
    /// Index of the device's node; `None` for a virtual device, or if the firmware does not report
    /// it.
    pub node: Option<u32>,
}

/// One user plane: its receivers distribute to its workers and to no others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementGroup {
    /// CPU of the control threads; several groups may share it.
    pub control_cpu: u32,
    /// The threads of the packet path.
    pub threads: Vec<PlacedThread>,
    /// The ports that the group receives from.
    pub ports: Vec<PlacedPort>,
}

impl PlacementGroup {
    /// Returns the CPUs of the group's threads with this role, in order.
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

/// The CPUs of all threads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// User planes. One process of Adit has one group.
    pub groups: Vec<PlacementGroup>,
}

impl Placement {
    /// Returns how many threads process packets.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.groups.iter().map(|group| group.cpus(PlacedRole::Worker).count()).sum()
    }

    /// Returns the CPUs of the packet path of all groups, in order.
    #[must_use]
    pub fn packet_cpus(&self) -> Vec<u32> {
        let threads = self.groups.iter().flat_map(|group| &group.threads);
        threads.map(|thread| thread.cpu).collect()
    }
}
