//! `[store.replication]`: records on the other adit of a pair as well.

use std::net::{IpAddr, SocketAddr};

use adit_dpdk::Device;
use adit_transport::KernelWait;

use super::section::ConfigSection;
use super::store_tls::{StoreTlsFiles, read_tls};

/// Where the two adits of a pair reach each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReplicationSettings {
    /// The address that this adit listens at while it is the standby.
    pub listen: SocketAddr,
    /// The address that the other one listens at.
    pub standby: SocketAddr,
    pub transport: ReplicationTransport,
    /// With the identity of this adit, and the name of the other one. `None`: the operator accepts strangers.
    pub tls: Option<StoreTlsFiles>,
}

/// The transport of streams between the two adits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReplicationTransport {
    /// Sockets of the kernel, and what threads do while nothing arrives.
    Kernel(KernelWait),
    /// TCP in user space.
    User(UserLinkSettings),
}

/// The port of TCP in user space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UserLinkSettings {
    /// A device that nothing else uses.
    pub device: Device,
    /// Length of the prefix of the link.
    pub prefix_len: u8,
    /// The router to the other adit, unless it is on the link.
    pub gateway: Option<IpAddr>,
}

/// Reads the section, if the file has it.
pub(super) fn read(store: &mut ConfigSection<'_, '_>) -> Option<ReplicationSettings> {
    let mut replication = store.table_optional("replication")?;
    let expects = "an address with a port such as \"10.0.9.1:7000\" or \"[2001:db8::1]:7000\"";
    let listen: Option<SocketAddr> = replication.parsed("listen", expects);
    let standby: Option<SocketAddr> = replication.parsed("standby", expects);
    if listen.is_some() && listen == standby {
        replication.problem("standby", "takes the address of the other adit");
    }
    let words = [("standby", true), ("store", false)];
    if replication.choice("acknowledge", &words, Some(true)) == Some(false) {
        replication.problem(
            "acknowledge",
            "takes \"standby\" only: for the servers' word alone leave [store.replication] out, the standby follows them anyway",
        );
    }
    let sleep = Some(KernelWait::Sleep);
    let transports = [("blocking", sleep), ("polled", Some(KernelWait::Poll)), ("user", None)];
    let wait = replication.choice("transport", &transports, Some(sleep)).unwrap_or(sleep);
    let transport = match wait {
        Some(wait) => {
            let what = "is for transport = \"user\"";
            replication.refuse_those_of(|section| read_user(section, None, None), what);
            Some(ReplicationTransport::Kernel(wait))
        }
        None => {
            let [listen, standby] = [listen, standby].map(|of| of.map(|address| address.ip()));
            read_user(&mut replication, listen, standby).map(ReplicationTransport::User)
        }
    };
    let tls = read_pair_tls(&mut replication, standby);
    replication.finish();
    Some(ReplicationSettings { listen: listen?, standby: standby?, transport: transport?, tls })
}

/// The keys of TLS, without which the operator has to accept strangers.
fn read_pair_tls(
    replication: &mut ConfigSection<'_, '_>,
    standby: Option<SocketAddr>,
) -> Option<StoreTlsFiles> {
    let tls = read_tls(replication);
    match (replication.boolean_optional("accept_strangers").unwrap_or(false), &tls) {
        (false, None) => replication.problem(
            "tls_ca",
            "is missing: without TLS whoever reaches the link reads and changes the records of all sessions, and makes the \
             standby useless. Give tls_ca, tls_certificate and tls_key; accept_strangers = true accepts that",
        ),
        (true, Some(_)) => replication.problem("accept_strangers", "is for a link without tls_ca"),
        (false, Some(StoreTlsFiles { identity: None, .. }))
            if !replication.has("tls_certificate") && !replication.has("tls_key") =>
        {
            let what = "is missing: each adit shows the other one its certificate";
            replication.problem("tls_certificate", what);
        }
        _ => {}
    }
    let address = standby.map(|standby| standby.ip().to_string());
    tls.map(|tls| StoreTlsFiles { name: tls.name.or(address), ..tls })
}

fn read_user(
    replication: &mut ConfigSection<'_, '_>,
    listen: Option<IpAddr>,
    standby: Option<IpAddr>,
) -> Option<UserLinkSettings> {
    let device: Option<Device> =
        replication.parsed("device", "a DPDK device such as \"0000:3b:00.1\"");
    if listen.is_some_and(|listen| listen.is_unspecified()) {
        replication
            .problem("listen", "takes the address of this host on the port, not all addresses");
    }
    let (longest, usual) =
        if listen.is_some_and(|listen| listen.is_ipv6()) { (128, 64) } else { (32, 24) };
    let prefix_len = replication.integer("prefix_len", 1..=longest, Some(usual));
    let gateway: Option<IpAddr> =
        replication.parsed_optional("gateway", "an address such as \"10.0.9.254\"");
    for (key, address) in [("standby", standby), ("gateway", gateway)] {
        if address.zip(listen).is_some_and(|(one, other)| one.is_ipv4() != other.is_ipv4()) {
            replication.problem(key, "takes an address of the family of listen");
        }
    }
    Some(UserLinkSettings { device: device?, prefix_len, gateway })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, StoreKind};

    const EXAMPLE: &str = include_str!("../../../../adit.example.toml");
    const SHARED: &str = "kind = \"redis\"\nservers = [\"192.0.2.10:6379\"]\nname = \"upf-1\"";

    /// The lines of TLS in the example.
    const TLS_LINES: [&str; 3] = [
        "tls_ca = \"/etc/adit/pair-ca.pem\"\n",
        "tls_certificate = \"/etc/adit/pair.pem\"\n",
        "tls_key = \"/etc/adit/pair.key\"\n",
    ];

    /// The commented lines of the example without their comment signs.
    fn example_of_replication() -> String {
        let start = EXAMPLE.find("# [store.replication]").unwrap();
        let lines = EXAMPLE[start..].lines().take_while(|line| !line.is_empty());
        let of_user = |line: &str| {
            let keys = ["device", "prefix_len", "gateway", "tls_name", "accept_"];
            keys.iter().any(|key| line[2..].starts_with(key))
        };
        let is_code =
            |line: &&str| line.starts_with("# [") || line.contains(" = ") && !of_user(line);
        lines.filter(is_code).map(|line| format!("{}\n", &line[2..])).collect()
    }

    /// The example with a shared store, [`example_of_replication`] after `changes`, and `[standby]` if it is to be there.
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
