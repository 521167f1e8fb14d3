//! The command line.

mod acts;
mod host;

use std::path::PathBuf;

use adit_bench::command::BenchCommand;
use clap::{Parser, Subcommand, ValueEnum};

use crate::session_filter::SessionFilterText;
pub(crate) use acts::{AssociationCommand, DrainSwitch, SessionCommand};
pub(crate) use host::{
    HostCommand, MachineSource, NoiseArguments, PlanArguments, PlannedModel, PlannedSiblings,
    TuningArguments, TuningPlace,
};

/// Default socket between `adit run` and `adit show`.
pub(crate) const ADMIN_SOCKET_DEFAULT: &str = "/run/adit/admin.sock";

/// A 5G User Plane Function.
#[derive(Debug, Parser)]
#[command(name = "adit", version, about, max_term_width = 100)]
pub(crate) struct AditCli {
    #[command(subcommand)]
    pub command: AditCommand,
}

/// Where a running adit listens.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct AdminSocket {
    /// Admin socket of the running adit.
    #[arg(id = "socket", long = "socket", value_name = "PATH", default_value = ADMIN_SOCKET_DEFAULT)]
    pub path: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AditCommand {
    /// Run the user plane until SIGTERM or Ctrl-C.
    Run {
        /// Configuration file; adit.example.toml explains every key.
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        /// Go on without the records that a damaged store has lost.
        #[arg(long)]
        accept_loss: bool,
    },
    /// Check a configuration file and print the values derived from it.
    Check {
        /// Configuration file.
        #[arg(value_name = "FILE")]
        config: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show the state of a running adit.
    Show {
        /// The state to show.
        what: Topic,
        /// With `qos`: a single session, by its UP SEID or an address of its UE.
        session: Option<String>,
        #[command(flatten)]
        filter: SessionFilterText,
        /// With `sessions`, `neighbours` and `paths`: at most so many rows.
        #[arg(long, value_name = "ROWS")]
        limit: Option<usize>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Admin socket of the running adit.
        #[arg(long, value_name = "PATH", default_value = ADMIN_SOCKET_DEFAULT)]
        socket: PathBuf,
    },
    /// Make a standby the active one: the active adit stops, and this one goes on with its sessions.
    Takeover {
        /// Admin socket of the standby.
        #[arg(long, value_name = "PATH", default_value = ADMIN_SOCKET_DEFAULT)]
        socket: PathBuf,
    },
    /// End a session.
    Session {
        #[command(subcommand)]
        session: SessionCommand,
    },
    /// Release an association.
    Association {
        #[command(subcommand)]
        association: AssociationCommand,
    },
    /// Refuse new sessions, or accept them again.
    Drain {
        switch: DrainSwitch,
        #[command(flatten)]
        socket: AdminSocket,
    },
    /// Change what a running adit logs.
    Log {
        /// A level (error, warn, info, debug), or levels by room such as info,adit_n4=debug.
        filter: String,
        #[command(flatten)]
        socket: AdminSocket,
    },
    /// Show the machine, plan where threads run, and check, apply and revert its settings.
    Host {
        #[command(subcommand)]
        host: HostCommand,
    },
    /// Measure a part of adit on this machine.
    Bench {
        #[command(subcommand)]
        bench: BenchCommand,
    },
}

/// State that `adit show` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Topic {
    /// PFCP associations with control plane functions.
    Associations,
    /// PFCP sessions with their rules and traffic.
    Sessions,
    /// Packet, drop, punt and PFCP message counters.
    Counters,
    /// Packets dropped, by reason, and what each reason means.
    Drops,
    /// Whether adit does its work, and why not.
    Health,
    /// What this adit is: Node ID, version, state, sessions.
    Node,
    /// DPDK ports.
    Ports,
    /// Threads of the packet path: roles, cores, load, rings.
    Workers,
    /// What forwards packets in front of the workers: sessions, share of packets, refusals.
    Offload,
    /// Link-layer neighbors.
    Neighbours,
    /// GTP-U paths to the peers that sessions send to.
    Paths,
    /// Logical interfaces, routes, and pools of UE addresses.
    Routes,
    /// Applications, configured and from PFDs, and which of them rules use.
    Applications,
    /// Rates of QERs: limits, and packets passed, dropped and queued.
    Qos,
    /// The store that keeps sessions: records, size, commits, failures.
    Store,
}

impl Topic {
    /// The name of the topic on the admin socket.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Associations => "associations",
            Self::Sessions => "sessions",
            Self::Counters => "counters",
            Self::Drops => "drops",
            Self::Health => "health",
            Self::Node => "node",
            Self::Ports => "ports",
            Self::Workers => "workers",
            Self::Offload => "offload",
            Self::Neighbours => "neighbours",
            Self::Paths => "paths",
            Self::Routes => "routes",
            Self::Applications => "applications",
            Self::Qos => "qos",
            Self::Store => "store",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_line_is_consistent() {
        AditCli::command().debug_assert();
    }
}
