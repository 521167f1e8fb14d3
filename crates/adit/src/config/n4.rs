//! `[node]`, `[n4]` and `[gtpu]`: the identity of this node, PFCP, and GTP-U.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use adit_kernel::device_addresses;
use adit_kernel::n4_socket::RECEIVE_BUFFER_KIB;
use adit_session::teid_range_bits_max;
use adit_types::Nanos;
use adit_types::limits::SESSIONS_MAX;

use super::comparison::{LISTENING, NOW, OnReload, RULES};
use super::declare::section;
use super::interfaces::InterfaceSection;
use super::keys::{IntoKey as _, Table};
use super::kinds::{Flag, integer, millis, seconds, text, words};
use super::peer_names::{ConfiguredPeer, is_fqdn};
use super::section::ConfigDocument;
use super::standby::{StandbySection, device_name};
use super::{IpNet, Tolerances};

section! {
    /// This node.
    NodeSettings(OnReload::Fixed("peers know this node by it")) {
        /// Node ID that adit sends to control plane functions: an IPv4 address, an IPv6 address or
        /// an FQDN.
        id: NodeIdSetting,
            text("an IPv4 address, an IPv6 address or an FQDN such as \"upf1.example.org\"")
            .required(NodeIdSetting::Ipv4(Ipv4Addr::UNSPECIFIED)) => ["\"10.0.4.2\""];
    }
}

/// Node ID of the UP function. Spec: TS 29.244 §8.2.38.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NodeIdSetting {
    Ipv4(Ipv4Addr),
    Ipv6(Ipv6Addr),
    Fqdn(String),
}

impl std::str::FromStr for NodeIdSetting {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text.parse::<IpAddr>() {
            Ok(addr) if addr.is_unspecified() || addr.is_multicast() => Err(()),
            Ok(IpAddr::V4(addr)) => Ok(Self::Ipv4(addr)),
            Ok(IpAddr::V6(addr)) => Ok(Self::Ipv6(addr)),
            Err(_) if is_fqdn(text) => Ok(Self::Fqdn(text.to_owned())),
            Err(_) => Err(()),
        }
    }
}

impl std::fmt::Display for NodeIdSetting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ipv4(addr) => addr.fmt(f),
            Self::Ipv6(addr) => addr.fmt(f),
            Self::Fqdn(name) => name.fmt(f),
        }
    }
}

/// Where N4 listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum N4Endpoint {
    Address(SocketAddr),
    /// A network device: the address that it has when adit starts.
    Device {
        name: String,
        port: u16,
    },
}

/// Substitute for a missing `n4.listen`.
const UNSET_ENDPOINT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 8805);

impl std::str::FromStr for N4Endpoint {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        let (name, port) = text.rsplit_once(':').ok_or(())?;
        // A mistyped address must not pass as the name of a device.
        let has_letter = name.bytes().any(|octet| octet.is_ascii_alphabetic());
        let is_device = has_letter && device_name(name).is_ok();
        let port = port.parse().map_err(|_| ())?;
        is_device.then(|| Self::Device { name: name.to_owned(), port }).ok_or(())
    }
}

impl std::fmt::Display for N4Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Device { name, port } => write!(f, "{name}:{port}"),
        }
    }
}

/// The expected form of an SMF Set ID, for messages and documents.
const SMF_SET_ID: &str = "an SMF Set ID such as \"set1.smfset.5gc.mnc001.mcc001.3gppnetwork.org\"";

section! {
    /// PFCP, the protocol of control plane functions.
    N4Settings(NOW) {
        /// UDP socket of the PFCP node. The standard's port is 8805. With the name of a network
        /// device, such as "n4:8805", its address at the start: that of node.id if it has it,
        /// otherwise the first one, IPv4 before IPv6.
        listen: N4Endpoint,
            text("an address or a network device with a UDP port such as \"10.0.4.2:8805\" or \"n4:8805\"")
            .required(N4Endpoint::Address(UNSET_ENDPOINT)), LISTENING => ["\"10.0.4.2:8805\""];
        /// Control plane functions to which adit sends Association Setup Requests. Usually empty:
        /// they send theirs. Addresses, or names such as "smf.example.org:8805": adit resolves
        /// these while it runs, every 2 s, and goes to the new address when there is no association
        /// at the former one.
        connect: Vec<ConfiguredPeer>,
            text("an address or a name with a UDP port, such as \"10.0.4.1:8805\" or \"smf.example.org:8805\"")
            .list("none"), OnReload::Fixed("association setups begin at the start") => ["[]"];
        /// Interval of Heartbeat Requests on each association. A peer that leaves n1_retries + 1 of
        /// them unanswered is silent.
        heartbeat_interval: Nanos = "heartbeat_interval_ms", millis(100..=3_600_000)
            .or(Nanos::from_secs(10)) => [];
        /// How long the sessions of a silent peer go on forwarding, and are its again when it
        /// answers and has not restarted. Then adit ends them with the association. 0: at once.
        /// `adit show associations` says "silent".
        sessions_outlive_peer: Nanos = "sessions_outlive_peer_s", seconds(0..=604_800)
            .or(Nanos::from_secs(3600)) => [];
        /// Time until adit sends an unanswered request again.
        t1: Nanos = "t1_ms", millis(10..=60_000).or(Nanos::from_secs(3)) => [];
        /// How often adit sends an unanswered request again.
        n1_retries: u8, integer(0..=20).or(3) => [];
        /// Peers that may use N4, besides those in `connect`. Left out or empty: any address may.
        allow: Vec<IpNet>, text("a prefix such as \"10.0.4.0/24\"").list("any address")
            => ["[\"10.0.4.0/24\"]"];
        /// Rate limit per peer: requests per second in the long run. 0: no limit. adit drops and
        /// counts requests beyond it; the peer's retransmissions repair the loss.
        peer_requests_per_s_max: u32, integer(0..=1_000_000).or(50_000) => [];
        /// Requests that a peer may send at once.
        peer_requests_burst: u32, integer(1..=1_000_000).or(10_000) => [];
        /// PFCP sessions of one association at most. adit refuses more with Cause 75.
        sessions_per_association_max: usize, integer(1..=SESSIONS_MAX).or_follows(SESSIONS_MAX,
            "no limit") => ["# 100000"];
        /// Receive buffer of the socket. Without CAP_NET_ADMIN the kernel grants at most
        /// net.core.rmem_max; adit then logs a warning. `adit show counters` shows how many
        /// datagrams the kernel dropped.
        receive_buffer_kib: usize, integer(64..=1_048_576)
            .or(RECEIVE_BUFFER_KIB), LISTENING;
        /// Deviations from the standard to accept. Those listed here would harm control planes that
        /// follow the standard; docs/n4-tolerance.md lists the harmless ones, which adit always
        /// accepts. "one-f-teid-per-session": PDRs from Access that request an F-TEID without a
        /// CHOOSE ID share one per network instance of a session, instead of getting one each.
        /// SD-Core's SMF needs it.
        tolerated: Vec<Tolerated> = "tolerate", words(&[("one-f-teid-per-session",
            Tolerated::OneFTeidPerSession)]).list("nothing") => ["# [\"one-f-teid-per-session\"]"];
        smf_sets: Vec<SmfSetSettings>, Table;
    }
}

/// A deviation of control planes from the standard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tolerated {
    OneFTeidPerSession,
}

impl N4Settings {
    pub(crate) fn tolerances(&self) -> Tolerances {
        let one_f_teid_per_session = self.tolerated.contains(&Tolerated::OneFTeidPerSession);
        Tolerances { one_f_teid_per_session }
    }

    /// Returns the size of the socket's receive buffer. Unit: octets.
    pub(crate) const fn receive_buffer_bytes(&self) -> usize {
        self.receive_buffer_kib * 1024
    }

    /// Checks the section. Returns address and port of the N4 socket.
    pub(super) fn check(
        &self,
        document: &ConfigDocument<'_>,
        standby: Option<&StandbySection>,
        node_id: &NodeIdSetting,
        interfaces: &[InterfaceSection],
    ) -> SocketAddr {
        let listen = match &self.listen {
            N4Endpoint::Address(address) => *address,
            N4Endpoint::Device { name, port } => {
                let moved = standby.and_then(|standby| standby.address_of(name));
                let address = moved
                    .or_else(|| address_of_twin(name, node_id, interfaces))
                    .or_else(|| address_of_device(name, node_id));
                let Some(address) = address else {
                    let what = format!(
                        "names the network device \"{name}\", which this machine does not have, or which has no address; \
                         give it one, or write the address here"
                    );
                    document.problem("n4.listen", what);
                    return UNSET_ENDPOINT;
                };
                SocketAddr::new(address, *port)
            }
        };
        if listen.ip().is_unspecified() || listen.port() == 0 {
            let what = "takes one address and port of this host: adit sends them to its peers";
            document.problem("n4.listen", what);
        }
        if self.connect.iter().any(|peer| peer.address(listen).is_ipv4() != listen.is_ipv4()) {
            let what = "names a peer with another address family than n4.listen";
            document.problem("n4.connect", what);
        }
        for (index, set) in self.smf_sets.iter().enumerate() {
            let before = &self.smf_sets[..index];
            if before.iter().any(|other| other.id.eq_ignore_ascii_case(&set.id)) {
                let what = "another set has this ID; write its members into one list";
                document.problem(&format!("n4.smf_sets[{index}].id"), what);
            }
            if set.members.is_empty() {
                let what = "takes the addresses of its members, at least one prefix";
                document.problem(&format!("n4.smf_sets[{index}].members"), what);
            }
        }
        listen
    }
}

/// The address of the kernel twin of an interface, which exists once adit runs.
fn address_of_twin(
    name: &str,
    node_id: &NodeIdSetting,
    interfaces: &[InterfaceSection],
) -> Option<IpAddr> {
    let is_it = |of: &&InterfaceSection| of.kernel.as_deref() == Some(name);
    let addresses = interfaces.iter().filter(is_it).flat_map(|of| &of.addresses);
    chosen_address(&addresses.map(|net| net.addr).collect::<Vec<_>>(), node_id)
}

/// Returns the address of a network device: the Node ID, else the first one, IPv4 before IPv6.
fn address_of_device(name: &str, node_id: &NodeIdSetting) -> Option<IpAddr> {
    chosen_address(&device_addresses(name), node_id)
}

/// The address of the node's identity, or the first one, IPv4 before IPv6.
fn chosen_address(addresses: &[IpAddr], node_id: &NodeIdSetting) -> Option<IpAddr> {
    let wanted = match *node_id {
        NodeIdSetting::Ipv4(addr) => Some(addr.into()),
        NodeIdSetting::Ipv6(addr) => Some(addr.into()),
        NodeIdSetting::Fqdn(_) => None,
    };
    let of_node = wanted.filter(|addr| addresses.contains(addr));
    let first = || addresses.iter().find(|addr| addr.is_ipv4()).or(addresses.first()).copied();
    of_node.or_else(first)
}

section! {
    /// SMFs of one set may change and take over each other's sessions (TS 29.244, clause 5.22). By
    /// the standard, any allowed peer that names a set belongs to it. With at least one of these
    /// tables, only the addresses in `members` belong to the set with this SMF Set ID. A peer that
    /// names another set, or is not listed in the one it names, belongs to no set.
    SmfSetSettings(NOW) {
        /// SMF Set ID, an FQDN.
        id: String, text(SMF_SET_ID).check(|id| match is_fqdn(id) { true => Ok(()), false
            => Err(format!("takes {SMF_SET_ID}")), }).required("none".to_owned())
            => ["\"set1.smfset.5gc.mnc001.mcc001.3gppnetwork.org\""];
        /// Prefixes of the addresses of its SMFs.
        members: Vec<IpNet>, text("a prefix such as \"10.0.4.10/32\"").list("")
            => ["[\"10.0.4.10/32\", \"10.0.4.11/32\"]"];
    }
}

section! {
    /// GTP-U path management, and DSCP and ECN of outer headers. Spec: TS 29.281, clauses 7.2.1
    /// and 11.
    GtpuSettings(NOW) {
        /// Interval of Echo Requests to every GTP-U peer that a session sends to; 0 sends none. The
        /// standard allows at most one per minute. adit reports a peer to all control plane
        /// functions when it leaves n3_requests in a row unanswered for t3_ms each, and again when
        /// it answers.
        echo_interval: Nanos = "echo_interval_ms", millis(0..=3_600_000).or(Nanos::from_secs(60))
            => [];
        /// Time until an Echo Request counts as unanswered.
        t3: Nanos = "t3_ms", millis(100..=60_000).or(Nanos::from_secs(3)) => [];
        /// Unanswered Echo Requests after which a peer counts as failed.
        n3_requests: u8, integer(1..=20).or(3) => [];
        /// ECN field of the outer headers that adit adds (RFC 6040): "normal" copies that of the
        /// packet, so that routers on N3 and N9 mark instead of dropping; set it if all gNBs and
        /// UPFs that adit sends to bring marks back into the packet. "compatibility" leaves it
        /// zero. From outer headers that adit removes, marks always come back into the packet.
        copies_ecn: bool = "ecn", words(&[("compatibility", false), ("normal", true)]).or(false),
            RULES => [];
        /// DSCP of the outer headers, unless the FAR (Transport Level Marking) or its forwarding
        /// policy has one: "copy" that of the packet, or "none" (zero).
        copies_dscp: bool = "dscp", words(&[("none", false), ("copy", true)]).or(false), RULES
            => [];
        /// DF in the outer IPv4 headers. With false routers may fragment packets into tunnels
        /// instead of saying that they are too long; gNBs have to reassemble them then, and the XDP
        /// program and cards leave the interfaces of tunnels to the workers.
        outer_df: bool, Flag.or(true), OnReload::Fixed("interfaces keep their headers") => [];
        /// The TEIDs that adit chooses begin with this many bits of teid_range. Set it if several
        /// UPFs share an N3 address, or if equipment in front of them chooses one by the TEID.
        /// At most 7, and fewer for many sessions: 6 for 100,000, 3 for 1,000,000.
        teid_range_bits: u8, integer(0..=7).or(0) => [];
        /// The value of these bits. Each of the UPFs has its own.
        teid_range: u8, integer(0..=127).or(0) => [];
    }
}

impl GtpuSettings {
    /// Checks the section.
    pub(super) fn check(&self, document: &ConfigDocument<'_>, sessions_max: usize) {
        let bits_max = teid_range_bits_max(sessions_max);
        if u32::from(self.teid_range_bits) > bits_max {
            let what =
                format!("takes at most {bits_max} with sessions.sessions_max = {sessions_max}");
            document.problem("gtpu.teid_range_bits", what);
        }
        if self.teid_range.checked_shr(self.teid_range_bits.into()).is_some_and(|rest| rest > 0) {
            let what = "takes a number of gtpu.teid_range_bits bits: 0 to 15 if these are 4";
            document.problem("gtpu.teid_range", what);
        }
        if (1..1_000_000_000).contains(&self.echo_interval.0) {
            let what = "takes 0 (off) or a whole number from 1000";
            document.problem("gtpu.echo_interval_ms", what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    const EXAMPLE: &str = include_str!("../../../../adit.example.toml");

    fn listening_at(endpoint: &str) -> Result<SocketAddr, String> {
        let listen = format!("listen = \"{endpoint}\"");
        let text = EXAMPLE.replacen("listen = \"10.0.4.2:8805\"", &listen, 1);
        let parsed = Config::parse(&text).map(|config| config.n4_listen);
        parsed.map_err(|problems| problems[0].to_string())
    }

    #[test]
    fn endpoint_is_an_address_or_a_device_with_a_port() {
        for text in ["10.0.4.2:8805", "[2001:db8::1]:8805", "n4:8805", "eth0.4:1", "ens1f0np0:8805"]
        {
            assert_eq!(text.parse::<N4Endpoint>().unwrap().to_string(), text);
        }
        for text in ["", "n4", "n4:", "n4:x", ":8805", "10.0.4:8805", "a b:1", "a/b:1", "[::1:1"] {
            assert_eq!(text.parse::<N4Endpoint>(), Err(()), "{text}");
        }
    }

    #[test]
    fn device_listens_at_its_address_and_one_without_is_a_mistake() {
        assert_eq!(listening_at("lo:8805"), Ok("127.0.0.1:8805".parse().unwrap()));
        let refusal = listening_at("no-device:8805").unwrap_err();
        assert!(refusal.contains("n4.listen: names the network device \"no-device\""), "{refusal}");
        assert!(refusal.ends_with("give it one, or write the address here"), "{refusal}");
        assert!(listening_at("lo:0").unwrap_err().contains("takes one address and port"));
    }
}
