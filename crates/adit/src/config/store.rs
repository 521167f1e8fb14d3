//! `[store]`: where sessions are kept beyond the end of the process.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use adit_dpdk::Device;
use adit_transport::KernelWait;
use adit_types::Nanos;

use super::PortSettings;
use super::replication::{self, ReplicationSettings, ReplicationTransport};
use super::section::ConfigSection;
use super::store_tls::{StoreTlsFiles, path, read_tls};

/// The folder of the journal unless the configuration names another one.
const FOLDER_DEFAULT: &str = "/var/lib/adit/journal";

/// Maximum number of servers.
const SERVERS_MAX: usize = 64;

/// Maximum length of the records' name. Unit: octets.
const NAME_BYTES_MAX: usize = 64;

/// Where records are kept, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoreSettings {
    pub kind: StoreKind,
    /// How often the usage of a session is recorded: the most that a crash loses of it.
    pub usage_interval: Nanos,
    /// Requests are served although they cannot be kept.
    pub serves_without_store: bool,
    /// Sessions are kept when adit stops; otherwise their associations are released.
    pub keeps_at_stop: bool,
}

/// The kind of store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoreKind {
    /// None: sessions end with the process.
    None,
    /// A journal in this folder.
    Journal(PathBuf),
    /// Servers of the Redis protocol.
    Shared(Box<SharedStoreSettings>),
}

/// A store that several adits share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SharedStoreSettings {
    /// All servers of a replicated store, or some of a Cluster.
    pub servers: Vec<SocketAddr>,
    /// The name of the records.
    pub name: String,
    pub username: String,
    pub password_file: Option<PathBuf>,
    pub tls: Option<StoreTlsFiles>,
    /// Replicas that must have a change before it is answered.
    pub acknowledge_replicas: u32,
    /// How the thread of the store waits for servers.
    pub wait: KernelWait,
    pub lease: Duration,
    /// The other adit of a pair has the records as well.
    pub replication: Option<ReplicationSettings>,
}

impl StoreSettings {
    /// The store, if adits can share it.
    pub(super) fn shared(&self) -> Option<&SharedStoreSettings> {
        match &self.kind {
            StoreKind::Shared(shared) => Some(shared),
            StoreKind::Journal(_) | StoreKind::None => None,
        }
    }

    /// The device of replication in user space.
    pub(crate) fn replication_device(&self) -> Option<&Device> {
        match &self.shared()?.replication.as_ref()?.transport {
            ReplicationTransport::User(user) => Some(&user.device),
            ReplicationTransport::Kernel(_) => None,
        }
    }
}

/// The device of replication in user space belongs to nothing else.
pub(super) fn check_replication_device(
    root: &ConfigSection<'_, '_>,
    store: &StoreSettings,
    ports: &[PortSettings],
) {
    let mut of_ports = ports.iter().filter_map(|port| port.device.dpdk());
    if let Some(device) = store.replication_device()
        && of_ports.any(|of_port| of_port.name() == device.name())
    {
        let what = "is the device of a port; replication needs one of its own";
        root.problem("store.replication.device", what);
    }
}

pub(super) fn read(mut store: ConfigSection<'_, '_>) -> StoreSettings {
    let kinds = ["journal", "redis", "none"].map(|kind| (kind, kind));
    let kind = match store.choice("kind", &kinds, Some("journal")) {
        Some("redis") => StoreKind::Shared(Box::new(read_shared(&mut store))),
        Some("none") => StoreKind::None,
        _ => {
            let folder =
                store.parsed_optional("folder", "a path such as \"/var/lib/adit/journal\"");
            StoreKind::Journal(folder.unwrap_or_else(|| PathBuf::from(FOLDER_DEFAULT)))
        }
    };
    if !matches!(kind, StoreKind::Journal(_)) {
        store.refuse(&["folder"], "is for kind = \"journal\"");
    }
    if !matches!(kind, StoreKind::Shared(_)) {
        store.refuse_those_of(read_shared, "is for kind = \"redis\"");
    }
    let usage_interval_ms = store.integer("usage_interval_ms", 100..=3_600_000_u64, Some(30_000));
    let losses = [("refuse", false), ("continue", true)];
    let serves_without_store = store.choice("on_store_loss", &losses, Some(false)).unwrap_or(false);
    let stops = [("keep", true), ("release", false)];
    let keeps_at_stop = store.choice("on_stop", &stops, Some(true)).unwrap_or(true);
    store.finish();
    StoreSettings {
        usage_interval: Nanos::from_millis(usage_interval_ms),
        serves_without_store,
        keeps_at_stop: keeps_at_stop && kind != StoreKind::None,
        kind,
    }
}

fn read_shared(store: &mut ConfigSection<'_, '_>) -> SharedStoreSettings {
    let expects = "an address with a port such as \"192.0.2.10:6379\" or \"[2001:db8::10]:6379\"";
    let servers: Vec<SocketAddr> = store.parsed_list("servers", true, expects);
    if store.has("servers") && servers.is_empty() || servers.len() > SERVERS_MAX {
        store.problem("servers", format!("takes 1 to {SERVERS_MAX} servers"));
    }
    if servers.iter().collect::<BTreeSet<_>>().len() != servers.len() {
        store.problem("servers", "names a server twice");
    }
    let name: Option<String> = store.parsed("name", "a name such as \"upf-1\"");
    let is_plain = |octet: u8| octet.is_ascii_alphanumeric() || b"-._".contains(&octet);
    let is_name =
        |name: &String| (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain);
    if name.as_ref().is_some_and(|name| !is_name(name)) {
        let what = format!("takes 1 to {NAME_BYTES_MAX} letters, digits and \"-\", \".\", \"_\"");
        store.problem("name", what);
    }
    let username: Option<String> = store.parsed_optional("username", "a name such as \"adit\"");
    let password_file = path(store, "password_file");
    if username.is_some() && password_file.is_none() {
        store.problem("username", "needs a password_file");
    }
    let transports = [("blocking", KernelWait::Sleep), ("polled", KernelWait::Poll)];
    let wait = store.choice("transport", &transports, Some(KernelWait::Sleep));
    SharedStoreSettings {
        servers,
        name: name.unwrap_or_default(),
        username: username.unwrap_or_default(),
        password_file,
        tls: read_tls(store),
        acknowledge_replicas: store.integer("acknowledge_replicas", 0..=16_u32, Some(0)),
        wait: wait.unwrap_or(KernelWait::Sleep),
        lease: Duration::from_millis(store.integer("lease_ms", 300..=60_000_u64, Some(2000))),
        replication: replication::read(store),
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

    /// The example with other lines instead of the first two of `[store]`.
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

    /// The commented lines of the example without their comment signs.
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
