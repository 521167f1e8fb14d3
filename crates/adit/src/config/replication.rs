//! `[store.replication]`: copies of the records on the other adit of a pair.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use adit_dpdk::Device;
use adit_transport::KernelWait;

use super::comparison::{BY_KEY, STORE_FIXED};
use super::declare::section;
use super::keys::{IntoKey as _, SameTable};
use super::kinds::{Flag, integer, text, words};
use super::peer_tls::{TlsFiles, TlsKeys};
use super::section::ConfigDocument;
use super::table::Section as _;

/// The expected form of the addresses of a pair, for messages and documents.
const ADDRESS_FORM: &str =
    "an address with a port such as \"10.0.9.1:7000\" or \"[2001:db8::1]:7000\"";

/// Substitute for a missing address.
const UNSET_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

section! {
    /// The active adit sends its changes to the other one as well. A change is then answered as
    /// soon as the other one has it, and the servers may follow behind (docs/store.md). Each adit
    /// shows the other one its certificate, which must be for its address in `standby`, or for
    /// tls_name.
    ReplicationSection(STORE_FIXED) {
        /// Where this adit listens while it is the standby.
        listen: SocketAddr, text(ADDRESS_FORM).required(UNSET_ADDRESS) => ["\"10.0.9.1:7000\""];
        /// Where the other adit listens while it is the standby.
        standby: SocketAddr, text(ADDRESS_FORM).required(UNSET_ADDRESS) => ["\"10.0.9.2:7000\""];
        /// An acknowledgment by the standby suffices for an answer. No other value is accepted.
        by_standby: bool = "acknowledge", words(&[("standby", true), ("store", false)]).or(true);
        /// "blocking": threads sleep until something arrives. "polled": they spin on main_core all
        /// the time, which is faster. "user": the fastest, TCP in user space on a DPDK device of
        /// its own.
        wait: Option<KernelWait> = "transport", words(&[("blocking", Some(KernelWait::Sleep)),
            ("polled", Some(KernelWait::Poll)), ("user", None)]).or(Some(KernelWait::Sleep)) => [];
        user: UserLinkKeys, SameTable, BY_KEY;
        tls: TlsKeys, SameTable, BY_KEY;
        /// Without TLS anybody who reaches the link can change records: adit refuses that unless
        /// this is true.
        accepts_strangers: bool = "accept_strangers", Flag.or(false);
    }
}

section! {
    /// TCP in user space.
    UserLinkKeys(STORE_FIXED) {
        /// For transport = "user": the DPDK device of the link, written like the device of a port.
        device: Option<Device>, text("a DPDK device such as \"0000:3b:00.1\"").optional("none")
            => ["# \"0000:3b:00.1\""];
        /// Length of the prefix of the link.
        prefix_len: Option<u8>, integer(1..=128).optional("24, or 64 with IPv6") => ["# 24"];
        /// The router to the other adit, unless it is on the link.
        gateway: Option<IpAddr>, text("an address such as \"10.0.9.254\"").optional("none")
            => ["# \"10.0.9.254\""];
    }
}

/// Where the two adits of a pair reach each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReplicationSettings {
    /// The address that this adit listens at while it is the standby.
    pub listen: SocketAddr,
    /// The address that the other adit listens at while it is the standby.
    pub standby: SocketAddr,
    pub transport: ReplicationTransport,
    /// Files of TLS, which have the identity of this adit and the name of the other one. `None`:
    /// the operator accepts a link without TLS.
    pub tls: Option<TlsFiles>,
}

/// The transport of streams between the two adits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReplicationTransport {
    /// Sockets of the kernel. The value is the behavior of threads while nothing arrives.
    Kernel(KernelWait),
    /// TCP in user space.
    User(UserLinkSettings),
}

/// The device of TCP in user space, and its link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UserLinkSettings {
    /// A DPDK device that nothing else uses.
    pub device: Device,
    /// Length of the prefix of the link.
    pub prefix_len: u8,
    /// The router to the other adit; `None` if that is on the link.
    pub gateway: Option<IpAddr>,
}

impl ReplicationSection {
    /// Checks the section and returns its settings; `None` if the transport is incomplete.
    pub(super) fn settings(&self, document: &ConfigDocument<'_>) -> Option<ReplicationSettings> {
        let path = "store.replication";
        let problem = |key: &str, what: &str| document.problem(&format!("{path}.{key}"), what);
        let Self { listen, standby, .. } = *self;
        if listen == standby {
            problem("standby", "takes the address of the other adit");
        }
        if !self.by_standby {
            let what = "takes \"standby\" only: for the servers' word alone leave [store.replication] out, the standby follows them anyway";
            problem("acknowledge", what);
        }
        let transport = match self.wait {
            Some(wait) => {
                UserLinkKeys::refuse(document, path, "is for transport = \"user\"");
                Some(ReplicationTransport::Kernel(wait))
            }
            None => self.user_link(document, &problem).map(ReplicationTransport::User),
        };
        let tls = self.tls.files(document, path);
        match (self.accepts_strangers, &tls) {
            (false, None) => problem(
                "tls_ca",
                "is missing: without TLS whoever reaches the link reads and changes the records of all sessions, and makes the \
                 standby useless. Give tls_ca, tls_certificate and tls_key; accept_strangers = true accepts that",
            ),
            (true, Some(_)) => problem("accept_strangers", "is for a link without tls_ca"),
            (false, Some(TlsFiles { identity: None, .. }))
                if self.tls.certificate.is_none() && self.tls.key.is_none() =>
            {
                let what = "is missing: each adit shows the other one its certificate";
                problem("tls_certificate", what);
            }
            _ => {}
        }
        let name = |tls: &TlsFiles| tls.name.clone().or(Some(standby.ip().to_string()));
        let tls = tls.map(|tls| TlsFiles { name: name(&tls), ..tls });
        Some(ReplicationSettings { listen, standby, transport: transport?, tls })
    }

    fn user_link(
        &self,
        document: &ConfigDocument<'_>,
        problem: &dyn Fn(&str, &str),
    ) -> Option<UserLinkSettings> {
        let UserLinkKeys { device, prefix_len, gateway } = &self.user;
        if !document.has("store.replication.device") {
            problem("device", "is missing and has no default");
        }
        let listen = self.listen.ip();
        if listen.is_unspecified() {
            problem("listen", "takes the address of this host on the port, not all addresses");
        }
        let (longest, usual) = if listen.is_ipv6() { (128, 64) } else { (32, 24) };
        let prefix_len = prefix_len.unwrap_or(usual);
        if prefix_len > longest {
            problem("prefix_len", &integer(1..=longest).refusal());
        }
        let has_listen = document.is_read("store.replication.listen");
        let is_read = has_listen && document.is_read("store.replication.standby");
        for (key, address) in [("standby", Some(self.standby.ip())), ("gateway", *gateway)] {
            if is_read && address.is_some_and(|address| address.is_ipv4() != listen.is_ipv4()) {
                problem(key, "takes an address of the family of listen");
            }
        }
        Some(UserLinkSettings { device: device.clone()?, prefix_len, gateway: *gateway })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, StoreKind};

    const EXAMPLE: &str = include_str!("../../../../adit.example.toml");
    const SHARED: &str = "kind = \"redis\"\nservers = [\"192.0.2.10:6379\"]\nname = \"upf-1\"";

    /// The lines of TLS in the example.
    const TLS_LINES: [&str; 3] = [
        "tls_ca = \"/etc/adit/tls-ca.pem\"\n",
        "tls_certificate = \"/etc/adit/tls.pem\"\n",
        "tls_key = \"/etc/adit/tls.key\"\n",
    ];

    /// The commented lines of the example without their comment signs.
    fn example_of_replication() -> String {
        let start = EXAMPLE.find("# [store.replication]").unwrap();
        let lines = EXAMPLE[start..].lines().take_while(|line| !line.is_empty());
        let of_user = |line: &str| {
            let keys = ["device", "prefix_len", "gateway", "tls_name", "accept_", "acknowledge"];
            keys.iter().any(|key| line[2..].starts_with(key))
        };
        let is_key =
            |line: &str| line[2..].split_once(" = ").is_some_and(|(key, _)| !key.contains(' '));
        let is_code = |line: &&str| line.starts_with("# [") || is_key(line) && !of_user(line);
        lines.filter(is_code).map(|line| format!("{}\n", &line[2..])).collect()
    }

    /// Parses the example with a shared store, with [`example_of_replication`] after the
    /// replacements `changes`, and with `[standby]` if `has_standby`.
    fn parsed(changes: &[(&str, &str)], has_standby: bool) -> Result<Config, String> {
        let mut lines = example_of_replication();
        for (from, to) in changes {
            assert!(lines.contains(from), "{lines}");
            lines = lines.replacen(from, to, 1);
        }
        let text = EXAMPLE.replacen("kernel:packet,iface=n3", "net_memif0", 1);
        let text = text.replacen("kind = \"journal\"", SHARED, 1);
        let text = text.replacen("folder = \"/var/lib/adit/journal\"", "", 1);
        let standby = if has_standby { "[standby]\n" } else { "" };
        let text = text.replacen("[admin]", &format!("{lines}{standby}[admin]"), 1);
        Config::parse(&text).map_err(|problems| {
            let problems: Vec<_> = problems
                .iter()
                .map(|problem| format!("{}: {}", problem.path, problem.what))
                .collect();
            problems.join("\n")
        })
    }

    #[test]
    fn example_of_replication_means_what_it_says() {
        let config = parsed(&[], true).unwrap();
        let StoreKind::Shared(shared) = config.store.kind else { panic!("another kind") };
        let settings = shared.replication.unwrap();
        assert_eq!(settings.listen, "10.0.9.1:7000".parse().unwrap());
        assert_eq!(settings.standby, "10.0.9.2:7000".parse().unwrap());
        assert_eq!(settings.transport, ReplicationTransport::Kernel(KernelWait::Sleep));
        let tls = settings.tls.unwrap();
        assert_eq!((tls.identity.is_some(), tls.name.as_deref()), (true, Some("10.0.9.2")));
        let named = parsed(&[("tls_key = ", "tls_name = \"pair\"\ntls_key = ")], true).unwrap();
        let StoreKind::Shared(shared) = named.store.kind else { panic!("another kind") };
        assert_eq!(shared.replication.unwrap().tls.unwrap().name.as_deref(), Some("pair"));
        let without = [TLS_LINES.map(|line| (line, ""))].concat();
        let accepted = [&[("transport = ", "accept_strangers = true\ntransport = ")], &without[..]];
        let accepted = parsed(&accepted.concat(), true).unwrap();
        let StoreKind::Shared(shared) = accepted.store.kind else { panic!("another kind") };
        assert_eq!(shared.replication.unwrap().tls, None);
        let device = "transport = \"user\"\ndevice = \"0000:3b:00.1\"";
        let user = parsed(&[("transport = \"blocking\"", device)], true).unwrap();
        let StoreKind::Shared(shared) = user.store.kind else { panic!("another kind") };
        let ReplicationTransport::User(user) = shared.replication.unwrap().transport else {
            panic!("another transport")
        };
        assert_eq!((user.prefix_len, user.gateway), (24, None));
    }

    #[test]
    fn every_mistake_of_replication_is_reported() {
        let told =
            |changes: &[(&str, &str)], has_standby| parsed(changes, has_standby).unwrap_err();
        let same = told(&[("10.0.9.2", "10.0.9.1")], true);
        assert_eq!(same, "store.replication.standby: takes the address of the other adit");
        assert!(
            told(&[], false).starts_with("store.replication: is between an adit and its standby")
        );
        let no_port = told(&[("10.0.9.2:7000", "10.0.9.2")], true);
        assert!(no_port.starts_with("store.replication.standby: "), "{no_port}");
        let missing = told(&[("listen = \"10.0.9.1:7000\"", "")], true);
        assert!(missing.starts_with("store.replication.listen: "), "{missing}");
        let word = told(&[("transport = ", "acknowledge = \"both\"\ntransport = ")], true);
        assert!(word.starts_with("store.replication.acknowledge: "), "{word}");
        let store = told(&[("transport = ", "acknowledge = \"store\"\ntransport = ")], true);
        assert!(store.contains("acknowledge: takes \"standby\" only"), "{store}");
        let transport = |lines| told(&[("transport = \"blocking\"", lines)], true);
        let no_device = transport("transport = \"user\"");
        assert!(no_device.starts_with("store.replication.device: "), "{no_device}");
        let of_kernel = transport("prefix_len = 24");
        assert_eq!(of_kernel, "store.replication.prefix_len: is for transport = \"user\"");
        let family =
            transport("transport = \"user\"\ndevice = \"0000:3b:00.1\"\ngateway = \"2001:db8::1\"");
        assert!(family.starts_with("store.replication.gateway: "), "{family}");
        let taken = transport("transport = \"user\"\ndevice = \"net_memif0\"");
        assert!(taken.starts_with("store.replication.device: "), "{taken}");
        let [ca, certificate, key] = TLS_LINES.map(|line| (line, ""));
        let open = told(&[ca, certificate, key], true);
        assert!(
            open.starts_with("store.replication.tls_ca: is missing: without TLS whoever"),
            "{open}"
        );
        let refused = ("transport = ", "accept_strangers = false\ntransport = ");
        assert_eq!(told(&[refused, ca, certificate, key], true), open);
        let anonymous = told(&[certificate, key], true);
        assert!(
            anonymous.starts_with("store.replication.tls_certificate: is missing"),
            "{anonymous}"
        );
        let no_key = told(&[key], true);
        assert_eq!(no_key, "store.replication.tls_certificate: needs a tls_key");
        let no_certificate = told(&[certificate], true);
        assert_eq!(no_certificate, "store.replication.tls_key: needs a tls_certificate");
        let both = told(&[("transport = ", "accept_strangers = true\ntransport = ")], true);
        assert_eq!(both, "store.replication.accept_strangers: is for a link without tls_ca");
        let journal = EXAMPLE.replacen("[admin]", &(example_of_replication() + "[admin]"), 1);
        let problems = Config::parse(&journal).unwrap_err();
        assert_eq!(problems[0].path, "store.replication");
    }
}
