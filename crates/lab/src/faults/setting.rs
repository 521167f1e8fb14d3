//! The store settings: how sessions are stored.

use clap::ValueEnum;
use serde::Serialize;

/// Where an adit keeps its sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StoreSetting {
    /// One adit with a journal, started again in place.
    Journal,
    /// Two adits and one server that syncs each change.
    Server,
    /// Two adits, each change on both, and one server that syncs each change.
    Pair,
    /// Two adits, a primary with two replicas, and an observer that promotes.
    Replicated,
    /// Two adits and a Cluster of three primaries with a replica each.
    Cluster,
}

impl StoreSetting {
    /// All settings.
    pub(crate) const ALL: [Self; 5] =
        [Self::Journal, Self::Server, Self::Pair, Self::Replicated, Self::Cluster];

    /// Returns the name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Journal => "journal",
            Self::Server => "server",
            Self::Pair => "pair",
            Self::Replicated => "replicated",
            Self::Cluster => "cluster",
        }
    }

    /// Returns the number of adits.
    pub(crate) fn upfs(self) -> usize {
        if self == Self::Journal { 1 } else { 2 }
    }

    /// Returns the number of servers.
    pub(crate) fn servers(self) -> usize {
        match self {
            Self::Journal => 0,
            Self::Server | Self::Pair => 1,
            Self::Replicated => 3,
            Self::Cluster => 6,
        }
    }

    /// Returns the options of each server.
    pub(crate) fn server_options(self) -> Vec<&'static str> {
        let mut options = vec!["--save", "", "--appendonly", "yes", "--appendfsync", "always"];
        // Without this delay, a replica that returns receives the records at once.
        options.extend(["--repl-diskless-sync-delay", "0"]);
        if self == Self::Cluster {
            options.extend(["--cluster-enabled", "yes", "--cluster-node-timeout", "1000"]);
            options.extend(["--cluster-replica-validity-factor", "0"]);
        } else if self == Self::Replicated {
            options.extend(["--repl-timeout", "3", "--repl-ping-replica-period", "1"]);
        }
        options
    }
}
