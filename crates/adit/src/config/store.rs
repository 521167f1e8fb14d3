//! `[store]`: where sessions are kept beyond the end of the process.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use adit_dpdk::Device;
use adit_transport::KernelWait;
use adit_types::Nanos;

use super::PortSettings;
use super::comparison::{BY_KEY, NOW, STORE_FIXED};
use super::declare::section;
use super::keys::{IntoKey as _, SameTable, Table};
use super::kinds::{integer, millis, text, words};
use super::peer_tls::{TlsFiles, TlsKeys};
use super::replication::{ReplicationSection, ReplicationSettings, ReplicationTransport};
use super::section::ConfigDocument;
use super::table::Section as _;

/// Maximum number of servers.
const SERVERS_MAX: usize = 64;

/// Maximum length of the records' name. Unit: octets.
const NAME_BYTES_MAX: usize = 64;

section! {
    /// Where sessions are kept, so that they survive the end of the process. docs/store.md explains
    /// what survives what.
    StoreSection(STORE_FIXED) {
        /// "journal": in a folder of this host. "redis": on servers of the Redis protocol. "none":
        /// sessions end with the process.
        kind: StoreName, words(&[("journal", StoreName::Journal), ("redis", StoreName::Redis),
            ("none", StoreName::None)]).or(StoreName::Journal) => [];
        /// Folder of the journal, made if its parent exists or can be made. Each adit needs its
        /// own.
        folder: String, text("a path such as \"/var/lib/adit/journal\"")
            .or("/var/lib/adit/journal".into()) => [];
        shared: SharedStoreKeys, SameTable, BY_KEY;
        /// How often the usage of each session is recorded. A crash loses the usage of one interval
        /// at most.
        usage_interval: Nanos = "usage_interval_ms", millis(100..=3_600_000)
            .or(Nanos::from_secs(30)), NOW => [];
        /// Requests while the store cannot be written: "refuse" them with Cause 77, or "continue"
        /// without it.
        serves_without_store: bool = "on_store_loss", words(&[("refuse", false),
            ("continue", true)]).or(false), NOW => [];
        /// The effect of SIGTERM on sessions: "keep" them for the next start, or "release" their
        /// associations.
        keeps_at_stop: bool = "on_stop", words(&[("keep", true), ("release", false)]).or(true), NOW
            => [];
        replication: Option<ReplicationSection>, Table;
    }
}

section! {
    /// A store that several adits share.
    SharedStoreKeys(STORE_FIXED) {
        /// For kind = "redis", instead of folder: all servers of a replicated store, or some nodes
        /// of a Cluster.
        servers: Vec<SocketAddr>,
            text("an address with a port such as \"192.0.2.10:6379\" or \"[2001:db8::10]:6379\"")
            .list("none") => ["# [\"192.0.2.10:6379\", \"192.0.2.11:6379\"]"];
        /// The name of the records on the servers. One adit at a time has the records of a name.
        name: Option<String>, text("a name such as \"upf-1\"").check(record_name).optional("none")
            => ["# \"upf-1\""];
        /// How many replicas must have a change before it is answered. 0: the primary is enough.
        acknowledge_replicas: u32, integer(0..=16).or(0);
        /// The file whose first line is the password.
        password_file: Option<String>, text("a path such as \"/etc/adit/store.password\"")
            .optional("none") => ["# \"/etc/adit/store.password\""];
        /// The user, if it is not the default one.
        username: Option<String>, text("a name such as \"adit\"").optional("default")
            => ["# \"adit\""];
        tls: TlsKeys, SameTable, BY_KEY;
        /// "blocking": sleeps until a server answers. "polled": spins on main_core meanwhile, which
        /// is faster.
        wait: KernelWait = "transport", words(&[("blocking", KernelWait::Sleep),
            ("polled", KernelWait::Poll)]).or(KernelWait::Sleep);
        /// How long the records stay this adit's without contact to a server, before another adit
        /// may take them.
        lease: Nanos = "lease_ms", millis(300..=60_000).or(Nanos::from_secs(2));
    }
}

/// A kind of store by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreName {
    Journal,
    Redis,
    None,
}

/// Checks that a text is a name of records. The error is the message to the user.
fn record_name(name: &str) -> Result<(), String> {
    let is_plain = |octet: u8| octet.is_ascii_alphanumeric() || b"-._".contains(&octet);
    let is_name = (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain);
    let what = || format!("takes 1 to {NAME_BYTES_MAX} letters, digits and \"-\", \".\", \"_\"");
    is_name.then_some(()).ok_or_else(what)
}

/// Where records are kept, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoreSettings {
    pub kind: StoreKind,
    /// How often the usage of a session is recorded; a crash loses no more of it.
    pub usage_interval: Nanos,
    /// True to serve requests although their records cannot be stored.
    pub serves_without_store: bool,
    /// True to keep sessions when adit stops; else their associations are released.
    pub keeps_at_stop: bool,
}

/// The kind of store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoreKind {
    /// No store: sessions end with the process.
    None,
    /// A journal in this folder.
    Journal(PathBuf),
    /// Servers of the Redis protocol.
    Shared(Box<SharedStoreSettings>),
}

/// A store that several adits share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SharedStoreSettings {
    /// All servers of a replicated store, or some nodes of a Cluster.
    pub servers: Vec<SocketAddr>,
    /// The name of the records on the servers.
    pub name: String,
    pub username: String,
    pub password_file: Option<PathBuf>,
    pub tls: Option<TlsFiles>,
    /// How many replicas must have a change before it is answered.
    pub acknowledge_replicas: u32,
    /// How the thread of the store waits for servers.
    pub wait: KernelWait,
    pub lease: Duration,
    /// Replication to the other adit of a pair; `None` if only the servers have the records.
    pub replication: Option<ReplicationSettings>,
}

impl StoreSettings {
    /// Returns the store if several adits can share it.
    pub(super) fn shared(&self) -> Option<&SharedStoreSettings> {
        match &self.kind {
            StoreKind::Shared(shared) => Some(shared),
            StoreKind::Journal(_) | StoreKind::None => None,
        }
    }

    pub(crate) fn replication_device(&self) -> Option<&Device> {
        match &self.shared()?.replication.as_ref()?.transport {
            ReplicationTransport::User(user) => Some(&user.device),
            ReplicationTransport::Kernel(_) => None,
        }
    }
}

impl StoreSection {
    /// Checks the section, and that the device of replication is in none of `ports`.
    pub(super) fn settings(
        &self,
        document: &ConfigDocument<'_>,
        ports: &[PortSettings],
    ) -> StoreSettings {
        if self.kind != StoreName::Journal {
            document.refuse("store", &["folder"], "is for kind = \"journal\"");
        }
        let kind = match self.kind {
            StoreName::Journal => StoreKind::Journal(PathBuf::from(&self.folder)),
            StoreName::Redis => StoreKind::Shared(Box::new(self.shared(document))),
            StoreName::None => StoreKind::None,
        };
        if self.kind != StoreName::Redis {
            let what = "is for kind = \"redis\"";
            SharedStoreKeys::refuse(document, "store", what);
            TlsKeys::refuse(document, "store", what);
            document.refuse("store", &["replication"], what);
        }
        let settings = StoreSettings {
            usage_interval: self.usage_interval,
            serves_without_store: self.serves_without_store,
            keeps_at_stop: self.keeps_at_stop && kind != StoreKind::None,
            kind,
        };
        let mut of_ports = ports.iter().filter_map(|port| port.device.dpdk());
        if let Some(device) = settings.replication_device()
            && of_ports.any(|of_port| of_port.name() == device.name())
        {
            let what = "is the device of a port; replication needs one of its own";
            document.problem("store.replication.device", what);
        }
        settings
    }

    fn shared(&self, document: &ConfigDocument<'_>) -> SharedStoreSettings {
        let problem = |key: &str, what: &str| document.problem(&format!("store.{key}"), what);
        let SharedStoreKeys { servers, name, username, password_file, .. } = &self.shared;
        for key in
            ["servers", "name"].into_iter().filter(|key| !document.has(&format!("store.{key}")))
        {
            problem(key, "is missing and has no default");
        }
        if document.has("store.servers") && servers.is_empty() || servers.len() > SERVERS_MAX {
            problem("servers", &format!("takes 1 to {SERVERS_MAX} servers"));
        }
        if servers.iter().collect::<BTreeSet<_>>().len() != servers.len() {
            problem("servers", "names a server twice");
        }
        if username.is_some() && password_file.is_none() {
            problem("username", "needs a password_file");
        }
        let replication = self.replication.as_ref();
        SharedStoreSettings {
            servers: servers.clone(),
            name: name.clone().unwrap_or_default(),
            username: username.clone().unwrap_or_default(),
            password_file: password_file.as_ref().map(PathBuf::from),
            tls: self.shared.tls.files(document, "store"),
            acknowledge_replicas: self.shared.acknowledge_replicas,
            wait: self.shared.wait,
            lease: self.shared.lease.to_duration(),
            replication: replication.and_then(|replication| replication.settings(document)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, ConfigProblem};
    use super::*;

    const EXAMPLE: &str = include_str!("../../../../adit.example.toml");

    /// Keys that only a shared store has.
    const SHARED_KEYS: [&str; 11] = [
        "servers",
        "name",
        "username",
        "password_file",
        "tls_ca",
        "tls_certificate",
        "tls_key",
        "tls_name",
        "acknowledge_replicas",
        "transport",
        "lease_ms",
    ];

    /// Parses the example with `lines` instead of the first two lines of `[store]`.
    fn read(lines: &str) -> Result<Config, Vec<ConfigProblem>> {
        let kind = "kind = \"journal\"\n";
        let folder = "folder = \"/var/lib/adit/journal\"\n";
        assert!(EXAMPLE.contains(kind) && EXAMPLE.contains(folder));
        Config::parse(&EXAMPLE.replacen(kind, lines, 1).replacen(folder, "", 1))
    }

    fn paths(lines: &str) -> Vec<String> {
        let problems = read(lines).expect_err("accepted a mistake");
        let mut paths: Vec<_> = problems.into_iter().map(|problem| problem.path).collect();
        paths.sort_unstable();
        paths
    }

    /// Returns the commented lines of the example without their comment signs.
    fn example_of_a_shared_store() -> String {
        let start = EXAMPLE.find("# servers = ").unwrap();
        let end = EXAMPLE.find("# How often the usage").unwrap();
        let is_key = |line: &&str| {
            line.split_once(" = ")
                .is_some_and(|(key, _)| key.starts_with("# ") && SHARED_KEYS.contains(&&key[2..]))
        };
        let lines: Vec<_> =
            EXAMPLE[start..end].lines().filter(is_key).map(|line| &line[2..]).collect();
        assert_eq!(lines.len(), SHARED_KEYS.len(), "{lines:?}");
        format!("kind = \"redis\"\n{}\n", lines.join("\n"))
    }

    #[test]
    fn example_of_a_shared_store_means_what_it_says() {
        let config = read(&example_of_a_shared_store()).unwrap();
        let StoreKind::Shared(shared) = config.store.kind else { panic!("another kind") };
        assert_eq!(shared.servers.len(), 2);
        assert_eq!((shared.name.as_str(), shared.username.as_str()), ("upf-1", "adit"));
        assert_eq!(shared.lease, Duration::from_secs(2));
        assert!(shared.tls.is_some_and(|tls| tls.identity.is_some()));
        assert!(config.store.keeps_at_stop);
    }

    #[test]
    fn every_mistake_of_a_shared_store_is_reported() {
        assert_eq!(paths("kind = \"redis\"\n"), ["store.name", "store.servers"]);
        let lines = "kind = \"redis\"\nservers = [\"192.0.2.1\", \"192.0.2.2:6379\"]\nname = \"a{b}\"\n\
                     username = \"x\"\nacknowledge_replicas = 99\ntransport = \"user\"\nlease_ms = 1\n\
                     tls_key = \"/x\"\n";
        let wanted = [
            "store.acknowledge_replicas",
            "store.lease_ms",
            "store.name",
            "store.servers",
            "store.tls_key",
            "store.tls_key",
            "store.transport",
            "store.username",
        ];
        assert_eq!(paths(lines), wanted);
        let twice =
            "kind = \"redis\"\nname = \"a\"\nservers = [\"192.0.2.1:1\", \"192.0.2.1:1\"]\n";
        assert_eq!(paths(twice), ["store.servers"]);
        assert_eq!(paths("kind = \"redis\"\nname = \"a\"\nservers = []\n"), ["store.servers"]);
    }

    #[test]
    fn keys_of_another_kind_are_reported() {
        assert_eq!(
            paths("servers = [\"192.0.2.1:6379\"]\nname = \"a\"\n"),
            ["store.name", "store.servers"]
        );
        let all = SHARED_KEYS.map(|key| format!("{key} = 1\n")).concat();
        let refused: BTreeSet<_> = paths(&all).into_iter().collect();
        let expected: BTreeSet<_> = SHARED_KEYS.iter().map(|key| format!("store.{key}")).collect();
        assert_eq!(refused, expected);
        let lines = example_of_a_shared_store() + "folder = \"/x\"\n";
        assert_eq!(paths(&lines), ["store.folder"]);
    }
}
