//! The command line.

mod acts;
mod host;
mod init;
pub(crate) mod manual;
mod tap;
mod top;

use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::log::LogSettings;
use crate::request::session_filter::SessionFilterText;
use crate::version::VERSION_LINE;
pub(crate) use acts::{
    AssociationCommand, DrainSwitch, RequestedAct, SessionCommand, StoreCommand, TapCommand,
    WorkerDrainCommand,
};
pub(crate) use host::{
    HostCommand, MachineSource, NoiseArguments, PlanArguments, PlannedModel, PlannedSiblings,
    TuningArguments, TuningPlace,
};

pub(crate) use init::{CoreKind, EndpointText, InitArguments, PoolText, PortChoice};
pub(crate) use tap::{CaptureArguments, TraceArguments};
pub(crate) use top::TopArguments;

/// Default socket between `adit run` and `adit show`.
pub(crate) const ADMIN_SOCKET_DEFAULT: &str = "/run/adit/admin.sock";

/// Default configuration file of `adit init`, `adit check` and `adit run`.
pub(crate) const CONFIG_DEFAULT: &str = "/etc/adit/adit.toml";

/// A 5G User Plane Function.
#[derive(Debug, Parser)]
#[command(name = "adit", version = VERSION_LINE, about, max_term_width = 100)]
pub(crate) struct AditCli {
    #[command(subcommand)]
    pub command: AditCommand,
}

/// Where a running adit listens.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct AdminSocket {
    /// Admin socket of the running adit.
    #[arg(id = "socket", long = "socket", value_name = "PATH", default_value = ADMIN_SOCKET_DEFAULT)]
    path: PathBuf,
    /// Configuration file of the running adit, which names its admin socket.
    #[arg(id = "config", long = "config", value_name = "FILE", conflicts_with = "socket", value_parser = configured_socket)]
    configured: Option<PathBuf>,
}

impl AdminSocket {
    /// Returns the path of the socket: the one that `--config` names, else the one of `--socket`.
    pub(crate) fn path(&self) -> &Path {
        self.configured.as_deref().unwrap_or(&self.path)
    }
}

/// Returns the admin socket that a configuration file names. Mistakes elsewhere in the file do not
/// matter: it is read for this key alone.
fn configured_socket(file: &str) -> Result<PathBuf, String> {
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
    let socket = table.get("admin").and_then(|admin| admin.get("socket"));
    match socket.map(toml::Value::as_str) {
        None => Ok(ADMIN_SOCKET_DEFAULT.into()),
        Some(Some(path)) => Ok(path.into()),
        Some(None) => Err("admin.socket is no text".to_owned()),
    }
}

/// A document on all keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeyDocument {
    /// A commented configuration (adit.example.toml).
    Example,
    /// All keys in tables (docs/configuration.md).
    Reference,
    /// A JSON schema for editors (docs/adit.schema.json).
    Schema,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AditCommand {
    /// Run the user plane until SIGTERM or Ctrl-C.
    Run {
        /// Configuration file; `adit check --print example` explains every key.
        #[arg(long, value_name = "FILE", default_value = CONFIG_DEFAULT)]
        config: PathBuf,
        /// Go on without the records that a damaged store has lost.
        #[arg(long)]
        accept_loss: bool,
        #[command(flatten)]
        log: LogSettings,
    },
    /// Write a configuration for this host, and the part of an SMF's that concerns adit.
    Init(Box<InitArguments>),
    /// Check a configuration file, and print the values derived from it and what this host lacks.
    Check {
        /// Configuration file.
        #[arg(value_name = "FILE", default_value = CONFIG_DEFAULT)]
        config: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Print a document on all keys instead.
        #[arg(long, value_name = "DOCUMENT", conflicts_with_all = ["config", "json"])]
        print: Option<KeyDocument>,
    },
    /// Show the state of a running adit.
    Show(Box<ShowArguments>),
    /// Watch a running adit in the terminal: traffic, sessions by rate, workers, drops.
    Top(TopArguments),
    /// Explain a Cause, a reason of a drop, a counter or a metric: its meaning, and where to look
    /// next.
    Explain {
        /// Name as adit shows it, or the number of a Cause. Default: all names.
        #[arg(value_name = "CAUSE|DROP|COUNTER")]
        name: Option<String>,
    },
    /// Make this standby the active adit: the active adit stops, and this one goes on with its
    /// sessions.
    Takeover {
        #[command(flatten)]
        socket: AdminSocket,
    },
    /// End a session.
    Session {
        #[command(subcommand)]
        session: SessionCommand,
    },
    /// Remove records that adit keeps although it cannot use them.
    Store {
        #[command(subcommand)]
        store: StoreCommand,
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
    /// Give the sessions of a worker to the others, or give it sessions again.
    Worker {
        #[command(subcommand)]
        worker: WorkerDrainCommand,
    },
    /// Change what a running adit logs.
    Log {
        /// A level (error, warn, info, debug), or levels by room such as info,adit_n4=debug.
        filter: String,
        #[command(flatten)]
        socket: AdminSocket,
    },
    /// Have a running adit read its configuration file again and change what can change: all of it,
    /// or nothing.
    Reload {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        socket: AdminSocket,
    },
    /// Follow packets through the stages: their kind, which rules they meet, where they leave or
    /// why they are dropped.
    Trace(TraceArguments),
    /// Write packets, with what became of them, as pcapng.
    Capture(CaptureArguments),
    /// End a trace or a capture that somebody else has started.
    Tap {
        #[command(subcommand)]
        tap: TapCommand,
    },
    /// Show the machine, plan where threads run, and check, apply and revert its settings.
    Host {
        #[command(subcommand)]
        host: HostCommand,
    },
    /// Print the completions of the command line for a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print the manual page, or write the pages of all commands.
    Man {
        /// Write a page per command into this folder.
        #[arg(long, value_name = "FOLDER")]
        folder: Option<PathBuf>,
    },
}

/// The topic of `adit show`, and the format.
#[derive(Debug, Args)]
pub(crate) struct ShowArguments {
    /// The state to show.
    pub what: Topic,
    /// With `qos`: a single session, by its UP SEID or an address of its UE.
    pub session: Option<String>,
    #[command(flatten, next_help_heading = "With `sessions`")]
    pub filter: SessionFilterText,
    /// With lists that grow with sessions or peers: rows at most.
    #[arg(long, value_name = "ROWS")]
    pub limit: Option<usize>,
    /// With `metrics`: format of the text.
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "openmetrics")]
    pub format: MetricsFormat,
    /// Show the state again and again, at this interval in seconds, until Ctrl-C.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true,
          default_missing_value = "2", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub watch: Option<u64>,
    #[command(flatten)]
    pub form: DocumentForm,
    #[command(flatten)]
    pub socket: AdminSocket,
}

/// How a document is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Args)]
pub(crate) struct DocumentForm {
    /// Print JSON.
    #[arg(long = "json")]
    pub as_json: bool,
    /// All columns, also those for which the terminal has no room.
    #[arg(long)]
    pub wide: bool,
    /// With `drops`: also the reasons for which nothing was dropped.
    #[arg(long)]
    pub all: bool,
}

/// Format of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum MetricsFormat {
    /// OpenMetrics 1.0.0.
    #[default]
    Openmetrics,
    /// The text format of Prometheus, 0.0.4.
    Prometheus,
}

/// State that `adit show` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Topic {
    /// PFCP associations with control plane functions.
    Associations,
    /// PFCP sessions with their rules and traffic.
    Sessions,
    /// Traffic of PFCP sessions without their rules: the counters alone, of many sessions at little
    /// cost.
    Traffic,
    /// Packet, drop, punt and PFCP message counters.
    Counters,
    /// Packets dropped, by reason, and what each reason means.
    Drops,
    /// Whether adit does its work, and why not.
    Health,
    /// This adit: Node ID, version, state, sessions.
    Node,
    /// The registration at an NRF: state, heartbeats, and why an NRF has refused it.
    Nrf,
    /// DPDK ports.
    Ports,
    /// Threads of the packet path: roles, cores, load, rings.
    Workers,
    /// Offloads that forward packets in front of the workers: sessions, share of packets, refusals.
    Offload,
    /// Link-layer neighbors.
    Neighbours,
    /// GTP-U paths to the peers that sessions send to.
    Paths,
    /// Logical interfaces, routes, and pools of UE addresses.
    Routes,
    /// Kernel twins of interfaces: frames to and from the kernel, by class.
    Kernel,
    /// Applications, configured and from PFDs, and which of them rules use.
    Applications,
    /// Rates of QERs: limits, and packets passed, dropped and queued.
    Qos,
    /// The store that keeps sessions: records, size, commits, failures.
    Store,
    /// Traces and captures that run.
    Taps,
    /// Everything that is counted, as text for Prometheus.
    Metrics,
}

impl Topic {
    /// Returns the topic's name on the command line.
    pub(crate) fn word(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Returns the HTTP path of the topic's document.
    pub(crate) fn path(self) -> String {
        match self {
            Self::Metrics => "/metrics".to_owned(),
            Self::Neighbours => "/v1/neighbors".to_owned(),
            other => format!("/v1/{}", other.word()),
        }
    }

    /// True for a list that grows with sessions or peers.
    pub(crate) const fn is_paged(self) -> bool {
        matches!(self, Self::Sessions | Self::Traffic | Self::Neighbours | Self::Paths)
    }

    /// True if clients fetch the topic's document in pages.
    pub(crate) const fn has_pages(self) -> bool {
        self.is_paged() || matches!(self, Self::Qos)
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

    #[test]
    fn socket_is_that_of_a_configuration_whatever_else_is_wrong_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("adit.toml");
        let path = |text: &str| {
            std::fs::write(&file, text).unwrap();
            let line = ["adit", "top", "--config", file.to_str().unwrap()];
            let AditCommand::Top(arguments) = AditCli::try_parse_from(line)?.command else {
                panic!()
            };
            Ok::<_, clap::Error>(arguments.socket.path().to_owned())
        };
        let socket = path("[node]\nid = 7\n[admin]\nsocket = \"/run/other.sock\"\n").unwrap();
        assert_eq!(socket, Path::new("/run/other.sock"));
        assert_eq!(path("[node]\n").unwrap(), Path::new(ADMIN_SOCKET_DEFAULT));
        for wrong in ["[admin]\nsocket = 1\n", "[admin\n"] {
            let told = path(wrong).unwrap_err().to_string();
            assert!(told.contains("--config"), "{told}");
        }
        let both = ["adit", "top", "--config", file.to_str().unwrap(), "--socket", "/a"];
        assert!(AditCli::try_parse_from(both).is_err());
    }
}
