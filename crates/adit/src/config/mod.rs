//! The configuration file: read, checked as a whole, and converted to valid values.
//!
//! Only this module uses TOML. A [`Config`] exists only if every key is known, every value is in range
//! and every reference resolves.

mod api;
mod changes;
mod eventdev;
mod fields;
mod file_error;
mod kernel_ports;
mod log;
mod mbufs;
mod offload;
mod peer_names;
mod placement;
mod predefined;
mod provisioning;
mod qos;
mod read;
mod replication;
mod section;
mod standby;
mod store;
mod store_tls;
mod tcp_mss;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use adit_datapath::Spread;
use adit_dpdk::{Device, HugepageMode};
use adit_kernel::KernelDevice;
pub(crate) use adit_session::{PredefinedRule, QosPolicy, Tolerances};
use adit_types::{DomainId, InterfaceRole, Nanos, PortId, Role, Roles, TcpMss, VlanId};
use adit_wire::rss::ToeplitzKey;

use crate::this_machine::this_machine;
pub(crate) use peer_names::ConfiguredPeer;
use placement::MachineReader;

pub(crate) use api::{ApiSettings, ApiTlsFiles};
pub(crate) use changes::{ChangeEffect, ConfigChange, KeyRefusal, RunningParts, compare};
pub(crate) use eventdev::EventSettings;
pub(crate) use file_error::{ConfigFileError, mistakes};
pub(crate) use placement::PlacementSettings;
pub(crate) use replication::{ReplicationSettings, ReplicationTransport, UserLinkSettings};
pub(crate) use section::ConfigProblem;
pub(crate) use standby::{StandbySettings, WhenIsolated};
pub(crate) use store::{SharedStoreSettings, StoreKind, StoreSettings};
pub(crate) use store_tls::StoreTlsFiles;
pub(crate) use tcp_mss::told_tcp_mss;

/// A checked configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Config {
    pub node_id: NodeIdSetting,
    pub n4: N4Settings,
    pub gtpu: GtpuSettings,
    /// Maximum number of PFCP sessions, 1 to `limits::SESSIONS_MAX`.
    pub sessions_max: usize,
    /// Maximum number of packets that FARs buffer, of all workers together; 0 to
    /// `limits::BUFFER_PKTS_MAX`.
    pub buffer_pkts_max: usize,
    pub datapath: DatapathSettings,
    pub dpdk: DpdkSettings,
    /// Ports, by `PortId`.
    pub flow_offload: FlowOffloadSettings,
    pub ports: Vec<PortSettings>,
    /// Logical interfaces, by `InterfaceId`: at least one N3, at least one N6.
    pub interfaces: Vec<InterfaceSettings>,
    pub routes: Vec<RouteSettings>,
    pub ue_pools: Vec<UePoolSettings>,
    /// Applications; identifiers differ.
    pub applications: Vec<ApplicationSettings>,
    /// Forwarding policies; identifiers differ.
    pub forwarding_policies: Vec<ForwardingPolicySettings>,
    /// Predefined rules; names differ from each other and from those of groups.
    pub predefined_rules: Vec<PredefinedRule>,
    pub qos: QosPolicy,
    /// Maximum number of packets queued for QER rates, of all workers together.
    pub shaped_pkts_max: usize,
    pub store: StoreSettings,
    /// Present if another adit has the same records, and only one of them is active.
    pub standby: Option<StandbySettings>,
    pub admin_socket: PathBuf,
    /// The HTTP interface, if there is one.
    pub api: Option<ApiSettings>,
    /// The filter of the log, unless the command line has one.
    pub log_levels: Option<String>,
}

/// Node ID of the UP function. Spec: TS 29.244 §8.2.38.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NodeIdSetting {
    Ipv4(Ipv4Addr),
    Ipv6(Ipv6Addr),
    Fqdn(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct N4Settings {
    pub listen: SocketAddr,
    pub connect: Vec<ConfiguredPeer>,
    pub heartbeat_interval: Nanos,
    /// How long sessions stay when their peer does not answer heartbeats. Zero: they end at once.
    pub sessions_outlive_peer: Nanos,
    pub t1: Nanos,
    pub n1_retries: u8,
    /// Peers that may use N4. Empty: all.
    pub allow: Vec<IpNet>,
    /// Maximum number of requests per second of one peer. Zero: no limit.
    pub peer_requests_per_s_max: u32,
    pub peer_requests_burst: u32,
    pub sessions_per_association_max: usize,
    /// SMF sets with their members. Empty: any peer may claim any set.
    pub smf_sets: Vec<SmfSetSettings>,
    /// Receive buffer of the socket. Unit: octets.
    pub receive_buffer_bytes: usize,
    /// Accepted deviations of control planes from the standard.
    pub tolerances: Tolerances,
}

/// The control plane functions of an SMF set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SmfSetSettings {
    /// SMF Set ID, an FQDN.
    pub id: String,
    /// Prefixes of their addresses; never empty.
    pub members: Vec<IpNet>,
}

/// GTP-U path management, and DSCP and ECN of outer headers. Spec: TS 29.281 §7.2.1, §11.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GtpuSettings {
    /// Interval of Echo Requests to one peer. Zero: none.
    pub echo_interval: Nanos,
    pub t3: Nanos,
    pub n3_requests: u8,
    /// Outer headers copy the ECN field of packets (RFC 6040 §4.1, normal mode).
    pub copies_ecn: bool,
    /// Outer headers copy the DSCP of packets, unless the FAR has one.
    pub copies_dscp: bool,
    /// Outer IPv4 headers have DF.
    pub outer_df: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DatapathSettings {
    pub placement: PlacementSettings,
    pub model: ModelSettings,
    /// CPU core of each worker, by `WorkerId`.
    pub workers: Vec<u16>,
    /// Behavior without packets of each worker, then of each receiver.
    poll: Vec<PollMode>,
    /// Real-time priority of the threads of the packet path, which then all sleep without packets; 0 for none.
    pub realtime_priority: u8,
    /// The frequency of their cores is lowered under small load, where the machine lets adit.
    pub scales_frequency: bool,
    pub main_core: u16,
    pub burst_pkts: usize,
}

/// The execution model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ModelSettings {
    /// Workers receive, process and transmit.
    RunToCompletion,
    /// Receivers receive and hand over to workers.
    Pipeline {
        /// CPU core of each receiver.
        receivers: Vec<u16>,
        spread: Spread,
        /// The key of [`Spread::Rss`].
        rss_key: ToeplitzKey,
    },
    /// A scheduler gives workers packets that other threads receive.
    EventDriven(EventSettings),
}

impl ModelSettings {
    /// Its name in the configuration.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::RunToCompletion => "run-to-completion",
            Self::Pipeline { .. } => "pipeline",
            Self::EventDriven(_) => "eventdev",
        }
    }

    /// How many threads there are whose cores `workers` does not name, but the signaling worker.
    pub(crate) fn other_threads(&self) -> usize {
        match self {
            Self::RunToCompletion => 0,
            Self::Pipeline { receivers, .. } => receivers.len(),
            Self::EventDriven(events) => events.rx_tx.len(),
        }
    }
}

impl DatapathSettings {
    /// The threads of the packet path.
    pub(crate) fn roles(&self) -> Roles {
        match &self.model {
            ModelSettings::RunToCompletion => Roles::run_to_completion(self.workers.len()),
            ModelSettings::Pipeline { receivers, .. } => {
                Roles::pipeline(receivers.len(), self.workers.len())
            }
            ModelSettings::EventDriven(events) => {
                Roles::event_driven(events.rx_tx.len(), self.workers.len())
            }
        }
    }

    /// Most queue pairs of a port: one for each thread that transmits, or for each receiver if there are more.
    pub(crate) fn queues_max(&self) -> u16 {
        let roles = self.roles();
        u16::try_from(roles.transmitting().len().max(roles.receiving().len()))
            .unwrap_or(u16::MAX)
            .max(1)
    }

    /// The core of each thread of the packet path, with its role and its behavior without packets.
    pub(crate) fn threads(&self) -> Vec<ThreadSettings> {
        let (of_workers, of_receivers) =
            self.poll.split_at(self.workers.len().min(self.poll.len()));
        let thread = |role| {
            move |(core, poll): (&u16, &PollMode)| ThreadSettings { role, core: *core, poll: *poll }
        };
        let mut threads: Vec<_> =
            self.workers.iter().zip(of_workers).map(thread(Role::Worker)).collect();
        if let ModelSettings::Pipeline { receivers, .. } = &self.model {
            // It shares its core with the control thread, and has little to do.
            threads.push(thread(Role::Signaling)((&self.main_core, &PollMode::Adaptive)));
            threads.extend(receivers.iter().zip(of_receivers).map(thread(Role::Receiver)));
        }
        if let ModelSettings::EventDriven(events) = &self.model {
            threads.extend(events.rx_tx.iter().zip(of_receivers).map(thread(Role::RxTx)));
        }
        threads
    }

    /// The core of the central scheduler.
    pub(crate) fn scheduler_core(&self) -> Option<u16> {
        match &self.model {
            ModelSettings::EventDriven(events) => events.scheduler_core,
            _ => None,
        }
    }

    /// True if the packet path shares a core with the control thread, or if several of its threads run there.
    pub(crate) fn shares_core(&self, core: u16) -> bool {
        let threads = self.threads();
        let cores = threads.iter().map(|thread| thread.core).chain(self.scheduler_core());
        let on_core = cores.filter(|of| *of == core).count();
        on_core > 1 || core == self.main_core
    }

    /// Cores on which several threads poll, or one polls on the core of the control thread, with
    /// the names of all.
    pub(crate) fn shared_cores(&self) -> Vec<(u16, Vec<String>)> {
        let mut cores: BTreeMap<u16, Vec<String>> = BTreeMap::new();
        for (id, thread) in self.threads().iter().enumerate() {
            // The signaling worker sleeps most of the time: its place is the main core.
            if thread.role != Role::Signaling {
                let name = format!("{} {id}", thread.role.name());
                cores.entry(thread.core).or_default().push(name);
            }
        }
        if let Some(core) = self.scheduler_core() {
            cores.entry(core).or_default().push("scheduler".to_owned());
        }
        if let Some(names) = cores.get_mut(&self.main_core) {
            names.insert(0, "control".to_owned());
        }
        cores.into_iter().filter(|(_, names)| names.len() > 1).collect()
    }
}

/// One thread of the packet path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ThreadSettings {
    pub role: Role,
    pub core: u16,
    pub poll: PollMode,
}

/// Behavior of a thread without packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PollMode {
    /// It continues to poll.
    Busy,
    /// It sleeps after a while.
    Adaptive,
}

impl PollMode {
    /// Its name in the configuration.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Adaptive => "adaptive",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DpdkSettings {
    pub hugepages: HugepageMode,
    pub memory_mib: u32,
    pub mempool_mbufs: u32,
    pub mbuf_bytes: u16,
    pub rx_descriptors: u16,
    pub tx_descriptors: u16,
    pub eal_extra_args: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PortSettings {
    pub name: String,
    pub device: PortDevice,
    /// Number of receive queues. `None`: as many as the device offers, at most one per receiving thread.
    pub rx_queues: Option<u16>,
    pub mtu_bytes: u16,
    /// Whether an XDP program forwards packets in front of the workers.
    pub xdp: XdpMode,
    /// Whether its card gets flows of sessions.
    pub flow_offload: bool,
}

/// Which sessions get flows of cards, and what these do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FlowOffloadSettings {
    /// Flows for downlink packets, too: the cards write the lengths of the headers that they add.
    pub downlink: bool,
    pub sessions_max: usize,
    /// Rate from which a session gets flows. Unit: packets per second.
    pub from_pps: u64,
    /// Counters are read once in this time.
    pub read_interval: Nanos,
}

/// Whether an XDP program forwards packets on a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum XdpMode {
    Off,
    /// If it works here.
    Auto,
    /// Else adit does not start.
    On,
}

/// The device of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PortDevice {
    /// A device of DPDK.
    Dpdk(Device),
    /// A device of the kernel.
    Kernel(KernelDevice),
}

impl PortDevice {
    /// Its name, which no other port has; UDP sockets have none.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Dpdk(device) => Some(device.name()),
            Self::Kernel(
                KernelDevice::Tun { name: device } | KernelDevice::Packet { iface: device },
            ) => Some(device),
            Self::Kernel(KernelDevice::Udp) => None,
        }
    }

    /// The device, if it is one of DPDK.
    pub(crate) const fn dpdk(&self) -> Option<&Device> {
        match self {
            Self::Dpdk(device) => Some(device),
            Self::Kernel(_) => None,
        }
    }

    /// Size of the smallest packet buffer for packets of `mtu_bytes`, headroom excluded. Unit: bytes.
    fn mbuf_bytes(&self, mtu_bytes: u16) -> u32 {
        match self {
            Self::Dpdk(device) => device.mbuf_bytes(mtu_bytes),
            // Ethernet header and a tag.
            Self::Kernel(_) => u32::from(mtu_bytes) + 14 + 4,
        }
    }

    /// The device, if it is one of the kernel.
    pub(crate) const fn kernel(&self) -> Option<&KernelDevice> {
        match self {
            Self::Dpdk(_) => None,
            Self::Kernel(device) => Some(device),
        }
    }
}

impl std::str::FromStr for PortDevice {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match KernelDevice::is_meant_by(text) {
            true => text.parse().map(Self::Kernel).map_err(|_| ()),
            false => text.parse().map(Self::Dpdk).map_err(|_| ()),
        }
    }
}

impl std::fmt::Display for PortDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Dpdk(device) => device.fmt(f),
            Self::Kernel(device) => device.fmt(f),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InterfaceSettings {
    pub name: String,
    pub role: InterfaceRole,
    pub port: PortId,
    /// True on a port of the kernel, which routes the packets that leave there. True if the kernel
    /// routes behind it.
    pub is_kernel: bool,
    pub vlan: VlanId,
    /// adit's address and the prefix length of its link.
    pub v4: Option<(Ipv4Addr, u8)>,
    pub v6: Option<(Ipv6Addr, u8)>,
    /// Its network instance. `None`: it serves all of them.
    pub network_instance: Option<String>,
    /// True if adit switches packets between UEs locally instead of sending them through this interface.
    /// For n6 only; n6 interfaces of one routing domain have the same value.
    pub local_switching: bool,
    /// How to set the MSS of TCP. For n6 only; n6 interfaces of one routing domain have the same
    /// value.
    pub tcp_mss: TcpMss,
}

impl InterfaceSettings {
    /// True if this interface serves `wanted`. `None` as `wanted` fits every interface.
    pub(crate) fn serves(&self, wanted: Option<&str>) -> bool {
        let both = self.network_instance.as_deref().zip(wanted);
        both.is_none_or(|(own, wanted)| own.eq_ignore_ascii_case(wanted))
    }
}

/// The routing domain of each interface. If every N6 interface names its network instance, each name is
/// a domain. If one N6 interface serves all names, all share one domain, since its packets can belong to
/// any of them.
pub(crate) fn domains(interfaces: &[InterfaceSettings]) -> Vec<DomainId> {
    let n6 = || interfaces.iter().filter(|known| known.role == InterfaceRole::N6);
    let lower =
        |known: &InterfaceSettings| known.network_instance.as_deref().map(str::to_ascii_lowercase);
    let mut names: Vec<String> = Vec::new();
    if n6().all(|known| known.network_instance.is_some()) {
        for name in n6().filter_map(lower) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    let domain = |known: &InterfaceSettings| {
        let name = lower(known).filter(|_| known.role == InterfaceRole::N6);
        let at = names.iter().position(|known| Some(known) == name.as_ref());
        at.and_then(|at| u8::try_from(at).ok()).map_or(DomainId(0), DomainId)
    };
    interfaces.iter().map(domain).collect()
}

/// The routing domains of a network instance, without repetition; all of them without a name.
pub(crate) fn domains_of(
    interfaces: &[InterfaceSettings],
    network_instance: Option<&str>,
) -> Vec<DomainId> {
    domains_where(interfaces, |known| known.serves(network_instance))
}

/// The routing domains of matching N6 interfaces, without repetition.
fn domains_where(
    interfaces: &[InterfaceSettings],
    fits: impl Fn(&InterfaceSettings) -> bool,
) -> Vec<DomainId> {
    let all = interfaces.iter().zip(domains(interfaces));
    let fitting = all.filter(|(known, _)| known.role == InterfaceRole::N6 && fits(known));
    let found: BTreeSet<DomainId> = fitting.map(|(_, domain)| domain).collect();
    found.into_iter().collect()
}

/// The routing domains with local switching of some packets, without repetition.
pub(crate) fn switched_domains(config: &Config) -> Vec<DomainId> {
    let by_policy =
        config.forwarding_policies.iter().any(|policy| policy.local_switching == Some(true));
    domains_where(&config.interfaces, |known| by_policy || known.local_switching)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RouteSettings {
    /// Position in [`Config::interfaces`].
    pub interface: usize,
    pub prefix: IpNet,
    /// A station on the link; the unspecified address if the kernel routes.
    pub next_hop: IpAddr,
}

/// An application that PDRs may name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApplicationSettings {
    pub id: String,
    /// Never empty.
    pub filters: Vec<adit_rules::PacketFilter>,
}

/// A forwarding policy that FARs may name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ForwardingPolicySettings {
    pub id: String,
    pub network_instance: Option<String>,
    /// A station on the link of an N6 interface that serves the network instance.
    pub next_hop_v4: Option<Ipv4Addr>,
    pub next_hop_v6: Option<Ipv6Addr>,
    /// 0 to 63.
    pub dscp: Option<u8>,
    /// Overrides [`InterfaceSettings::local_switching`] for the policy's packets.
    pub local_switching: Option<bool>,
}

/// Addresses to allocate to UEs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UePoolSettings {
    pub network_instance: Option<String>,
    /// UE IP address Pool Identity.
    pub identity: Option<String>,
    /// The slice whose UEs use the pool; `None` for all.
    pub s_nssai: Option<adit_session::SliceIdentity>,
    /// IPv4, or IPv6 of at most 64 bits. Does not overlap other pools or links of its routing domain, nor
    /// links of GTP-U interfaces.
    pub prefix: IpNet,
}

/// An address with a prefix length. Interface addresses have host bits set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IpNet {
    pub addr: IpAddr,
    pub len: u8,
}

impl std::str::FromStr for IpNet {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (addr, len) = text.split_once('/').ok_or(())?;
        let addr: IpAddr = addr.parse().map_err(|_| ())?;
        let len: u8 = len.parse().map_err(|_| ())?;
        let width = if addr.is_ipv4() { 32 } else { 128 };
        if len <= width { Ok(Self { addr, len }) } else { Err(()) }
    }
}

impl std::fmt::Display for IpNet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.addr, self.len)
    }
}

impl Config {
    /// Reads and checks `text` for this machine.
    ///
    /// # Errors
    /// All mistakes in the file, by line.
    #[cfg(test)]
    pub(crate) fn parse(text: &str) -> Result<Self, Vec<ConfigProblem>> {
        Self::parse_for(text, &|| this_machine().cloned())
    }

    /// Reads and checks the file at `path` for this machine.
    ///
    /// # Errors
    /// See [`ConfigFileError`].
    pub(crate) fn load(path: &Path) -> Result<Self, ConfigFileError> {
        Self::load_for(path, &|| this_machine().cloned())
    }

    /// Reads and checks the file at `path` for the machine that `machine` gives.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub(crate) fn load_for(
        path: &Path,
        machine: MachineReader<'_>,
    ) -> Result<Self, ConfigFileError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigFileError::Unreadable(path.to_owned(), error))?;
        Self::parse_for(&text, machine)
            .map_err(|problems| ConfigFileError::Mistakes(path.to_owned(), problems))
    }

    /// Checks `text` for the machine that `machine` gives.
    ///
    /// # Errors
    /// All mistakes in it, by line.
    pub(crate) fn parse_for(
        text: &str,
        machine: MachineReader<'_>,
    ) -> Result<Self, Vec<ConfigProblem>> {
        read::parse(text, machine)
    }

    /// Maximum number of packets that one worker queues for rates: an equal share.
    #[must_use]
    pub(crate) fn shaped_pkts_per_worker(&self) -> usize {
        self.shaped_pkts_max / self.datapath.workers.len().max(1)
    }

    /// Maximum number of packets that one worker buffers for FARs: an equal share.
    #[must_use]
    pub(crate) fn buffer_pkts_per_worker(&self) -> usize {
        self.buffer_pkts_max / self.datapath.workers.len().max(1)
    }

    /// The first N3 interface and its position.
    #[cfg(test)]
    #[must_use]
    pub(crate) fn n3(&self) -> (usize, &InterfaceSettings) {
        self.interfaces
            .iter()
            .enumerate()
            .find(|(_, interface)| interface.role == InterfaceRole::N3)
            .unwrap_or_else(|| unreachable!("a checked configuration has an N3 interface"))
    }
}
