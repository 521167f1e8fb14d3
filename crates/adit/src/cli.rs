//! The command line.

mod host;

use std::path::PathBuf;

use adit_bench::command::BenchCommand;
use clap::{Parser, Subcommand, ValueEnum};

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
            Self::Ports => "ports",
            Self::Workers => "workers",
            Self::Offload => "offload",
            Self::Neighbours => "neighbours",
            Self::Paths => "paths",
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
