//! Reads TOML text into a [`Config`]: one function per section, then checks across sections.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use adit_datapath::Spread;
use adit_dpdk::{Device, HugepageMode};
use adit_kernel::KernelDevice;
use adit_types::limits::{
    BUFFER_PKTS_MAX, BURST_DEFAULT, BURST_MAX, HANDOFF_RING_LEN, INTERFACES_MAX, PORTS_MAX,
    REASSEMBLY_FRAGMENTS_MAX, ROUTES_MAX, SESSIONS_MAX, WORKERS_MAX,
};
use adit_types::{InterfaceRole, Ipv4Prefix, Ipv6Prefix, Nanos, PortId, Roles, VlanId};
use adit_wire::rss::ToeplitzKey;
use toml::de::DeTable;

use super::eventdev::read_eventdev;
use super::fields::{HALF_OF_MBUFS, names_twice, network, read_network_instance};
use super::peer_names::is_fqdn;
use super::placement::{CpuPlanner, DistributorCpus, MachineReader, ThreadCpus};
use super::section::{ConfigDocument, ConfigSection};
use super::tcp_mss::read_tcp_mss;
use super::{
    Config, ConfigProblem, ConfiguredPeer, DatapathSettings, DpdkSettings, GtpuSettings,
    InterfaceSettings, IpNet, ModelSettings, N4Settings, NodeIdSetting, PollMode, PortDevice,
    PortSettings, RouteSettings, SmfSetSettings, Tolerances, domains,
};
use super::{
    api, kernel_ports, log, mbufs, offload, predefined, provisioning, qos, standby, store,
};
use adit_host::n4_socket::RECEIVE_BUFFER_KIB;

/// Default maximum of packets buffered by FARs, at most half of the packet buffers.
const BUFFER_PKTS_DEFAULT: usize = 4096;

pub(super) fn parse(text: &str, machine: MachineReader<'_>) -> Result<Config, Vec<ConfigProblem>> {
    let document = ConfigDocument::new(text);
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let offset = error.span().map_or(0, |span| span.start);
        document.note(offset, "", format!("not TOML: {}", error.message()));
    }
    let config = read(&document, table.get_ref(), machine);
    match document.problems() {
        problems if problems.is_empty() => Ok(config),
        problems => Err(problems),
    }
}

fn read(document: &ConfigDocument<'_>, table: &DeTable<'_>, machine: MachineReader<'_>) -> Config {
    let mut root = ConfigSection::root(document, table);
    let node_id = read_node(root.table("node"));
    let n4 = read_n4(root.table("n4"));
    let gtpu = read_gtpu(root.table("gtpu"));
    let planner = CpuPlanner::new(&mut root, machine);
    let datapath = read_datapath(root.table("datapath"), &planner);
    let (port_names, ports) = read_ports(&mut root, &datapath);
    let dpdk = read_dpdk(root.table("dpdk"), &datapath, &ports);
    let mut sessions = root.table("sessions");
    let sessions_max = sessions.integer("sessions_max", 1..=SESSIONS_MAX, Some(100_000));
    let half = half_of_mbufs(&dpdk, datapath.roles(), &ports);
    let default = BUFFER_PKTS_DEFAULT.min(half);
    let buffer_pkts_max = sessions.integer("buffer_pkts_max", 0..=BUFFER_PKTS_MAX, Some(default));
    if buffer_pkts_max > half {
        let what = format!("takes at most {half}, {HALF_OF_MBUFS}");
        sessions.problem("buffer_pkts_max", what);
    }
    sessions.finish();
    let flow_offload = offload::read_flows(&mut root, &ports);
    let interfaces = read_interfaces(&mut root, &port_names);
    offload::check_interfaces(&root, &ports, &interfaces);
    let routes = read_routes(&mut root, &interfaces);
    let ue_pools = provisioning::read_ue_pools(&mut root, &interfaces);
    let applications = provisioning::read_applications(&mut root);
    let forwarding_policies = provisioning::read_forwarding_policies(&mut root, &interfaces);
    let predefined_rules = predefined::read(&mut root, &applications);
    let (qos, shaped_pkts_max) = qos::read(root.table("qos"), half, &interfaces);
    let store = store::read(root.table("store"));
    store::check_replication_device(&root, &store, &ports);
    let standby = standby::read(&mut root, &store);
    let mut admin = root.table("admin");
    let admin_socket = admin
        .parsed_optional("socket", "a path such as \"/run/adit/admin.sock\"")
        .unwrap_or_else(|| PathBuf::from(crate::cli::ADMIN_SOCKET_DEFAULT));
    admin.finish();
    let api = api::read(&mut root);
    let log_levels = log::read(root.table("log"));
    root.finish();
    Config {
        node_id,
        n4,
        gtpu,
        sessions_max,
        buffer_pkts_max,
        datapath,
        dpdk,
        flow_offload,
        ports,
        interfaces,
        routes,
        ue_pools,
        applications,
        forwarding_policies,
        predefined_rules,
        qos,
        shaped_pkts_max,
        store,
        standby,
        admin_socket,
        api,
        log_levels,
    }
}

fn read_node(mut node: ConfigSection<'_, '_>) -> NodeIdSetting {
    let expects = "an IPv4 address, an IPv6 address or an FQDN such as \"upf1.example.org\"";
    let id = node.parsed("id", expects).unwrap_or(NodeIdSetting::Ipv4(Ipv4Addr::UNSPECIFIED));
    node.finish();
    id
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

fn read_n4(mut n4: ConfigSection<'_, '_>) -> N4Settings {
    let expects = "an address with a UDP port such as \"10.0.4.2:8805\"";
    let listen: Option<SocketAddr> = n4.parsed("listen", expects);
    if listen.is_some_and(|listen| listen.ip().is_unspecified() || listen.port() == 0) {
        n4.problem(
            "listen",
            "takes one address and port of this host: adit sends them to its peers",
        );
    }
    let listen = listen.unwrap_or(SocketAddr::from(([0, 0, 0, 0], 8805)));
    let expects = "an address or a name with a UDP port, such as \"10.0.4.1:8805\" or \"smf.example.org:8805\"";
    let connect: Vec<ConfiguredPeer> = n4.parsed_list("connect", false, expects);
    if connect.iter().any(|peer| peer.address(listen).is_ipv4() != listen.is_ipv4()) {
        n4.problem("connect", "names a peer with another address family than n4.listen");
    }
    let heartbeat_ms = n4.integer("heartbeat_interval_ms", 100..=3_600_000u64, Some(10_000));
    let outlive_s = n4.integer("sessions_outlive_peer_s", 0..=604_800u64, Some(3600));
    let t1_ms = n4.integer("t1_ms", 10..=60_000u64, Some(3000));
    let n1_retries = n4.integer("n1_retries", 0..=20u8, Some(3));
    let allow = n4.parsed_list("allow", false, "a prefix such as \"10.0.4.0/24\"");
    let peer_requests_per_s_max =
        n4.integer("peer_requests_per_s_max", 0..=1_000_000, Some(50_000));
    let peer_requests_burst = n4.integer("peer_requests_burst", 1..=1_000_000, Some(10_000));
    let sessions_per_association_max =
        n4.integer("sessions_per_association_max", 1..=SESSIONS_MAX, Some(SESSIONS_MAX));
    let smf_sets = read_smf_sets(&mut n4);
    let one_f_teid: fn(&mut Tolerances) = |known| known.one_f_teid_per_session = true;
    let known = [("one-f-teid-per-session", one_f_teid)];
    let mut tolerances = Tolerances::default();
    n4.choices("tolerate", &known).into_iter().for_each(|tolerate| tolerate(&mut tolerances));
    let receive_buffer_kib =
        n4.integer("receive_buffer_kib", 64..=1_048_576_usize, Some(RECEIVE_BUFFER_KIB));
    n4.finish();
    N4Settings {
        listen,
        connect,
        heartbeat_interval: Nanos::from_millis(heartbeat_ms),
        sessions_outlive_peer: Nanos::from_secs(outlive_s),
        t1: Nanos::from_millis(t1_ms),
        n1_retries,
        allow,
        peer_requests_per_s_max,
        peer_requests_burst,
        sessions_per_association_max,
        smf_sets,
        receive_buffer_bytes: receive_buffer_kib * 1024,
        tolerances,
    }
}

/// Reads the SMF sets with their members. Spec: TS 29.244 §8.2.128.
fn read_smf_sets(n4: &mut ConfigSection<'_, '_>) -> Vec<SmfSetSettings> {
    let mut sets: Vec<SmfSetSettings> = Vec::new();
    for mut section in n4.tables("smf_sets") {
        let expects = "an SMF Set ID such as \"set1.smfset.5gc.mnc001.mcc001.3gppnetwork.org\"";
        let id: Option<String> = section.parsed("id", expects);
        let id = id.unwrap_or_else(|| "none".to_owned());
        if !is_fqdn(&id) {
            section.problem("id", format!("takes {expects}"));
        } else if sets.iter().any(|other| other.id.eq_ignore_ascii_case(&id)) {
            section.problem("id", "another set has this ID; write its members into one list");
        }
        let members: Vec<IpNet> =
            section.parsed_list("members", true, "a prefix such as \"10.0.4.10/32\"");
        if members.is_empty() {
            section.problem("members", "takes the addresses of its members, at least one prefix");
        }
        section.finish();
        sets.push(SmfSetSettings { id, members });
    }
    sets
}

/// Whether outer headers copy the ECN field of packets, by the words for it.
pub(super) const ECN_MODES: [(&str, bool); 2] = [("compatibility", false), ("normal", true)];

/// Whether outer headers copy the DSCP of packets, by the words for it.
pub(super) const DSCP_MODES: [(&str, bool); 2] = [("none", false), ("copy", true)];

fn read_gtpu(mut gtpu: ConfigSection<'_, '_>) -> GtpuSettings {
    let echo_interval_ms = gtpu.integer("echo_interval_ms", 0..=3_600_000u64, Some(60_000));
    if (1..1000).contains(&echo_interval_ms) {
        gtpu.problem("echo_interval_ms", "takes 0 (off) or a whole number from 1000");
    }
    let t3_ms = gtpu.integer("t3_ms", 100..=60_000u64, Some(3000));
    let n3_requests = gtpu.integer("n3_requests", 1..=20u8, Some(3));
    let copies_ecn = gtpu.choice("ecn", &ECN_MODES, Some(false)).unwrap_or_default();
    let copies_dscp = gtpu.choice("dscp", &DSCP_MODES, Some(false)).unwrap_or_default();
    let outer_df = gtpu.boolean_optional("outer_df").unwrap_or(true);
    gtpu.finish();
    GtpuSettings {
        echo_interval: Nanos::from_millis(echo_interval_ms),
        t3: Nanos::from_millis(t3_ms),
        n3_requests,
        copies_ecn,
        copies_dscp,
        outer_df,
    }
}

fn read_datapath(
    mut datapath: ConfigSection<'_, '_>,
    planner: &CpuPlanner<'_>,
) -> DatapathSettings {
    let ThreadCpus { settings, control, workers, planned } = planner.read(&mut datapath);
    let burst_pkts = datapath.integer("burst_pkts", 1..=BURST_MAX, Some(BURST_DEFAULT));
    let model = read_model(&mut datapath, workers.len(), planned);
    let kinds = [PollMode::Busy, PollMode::Adaptive].map(|mode| (mode.name(), mode));
    let threads = workers.len() + model.other_threads();
    let poll = datapath.choice_each("poll", &kinds, PollMode::Busy, threads);
    if matches!(model, ModelSettings::EventDriven(_)) && poll.contains(&PollMode::Adaptive) {
        datapath
            .problem("poll", "takes \"busy\" with model = \"eventdev\": a scheduler wakes nobody");
    }
    let realtime_priority = datapath.integer("realtime_priority", 0..=99u8, Some(0));
    if realtime_priority > 0 && poll.contains(&PollMode::Busy) {
        let what = "takes 0 unless poll = \"adaptive\": nothing else would run on the core of a thread that polls on";
        datapath.problem("realtime_priority", what);
    }
    let scales_frequency = datapath.boolean_optional("scale_frequency").unwrap_or(false);
    datapath.finish();
    DatapathSettings {
        placement: settings,
        model,
        workers,
        poll,
        realtime_priority,
        scales_frequency,
        main_core: control,
        burst_pkts,
    }
}

/// Reads the execution model and the keys that only some models have. `planned`: CPUs that the plan
/// assigns; the file must then omit these keys.
fn read_model(
    datapath: &mut ConfigSection<'_, '_>,
    workers: usize,
    planned: Option<DistributorCpus>,
) -> ModelSettings {
    let names = [("run-to-completion", 0), ("pipeline", 1), ("eventdev", 2)];
    let model = datapath.choice("model", &names, Some(0)).unwrap_or(0);
    let is_pipeline = model == 1;
    let has_receivers = is_pipeline || datapath.has("receivers");
    let receivers: Vec<u16> = match &planned {
        Some(planned) => {
            datapath.skip("receivers");
            planned.receivers.clone()
        }
        None if has_receivers => datapath.integers("receivers", 0..=1023),
        None => Vec::new(),
    };
    let kinds = [("owner", Spread::Owner), ("rss", Spread::Rss)];
    let spread = datapath.choice("spread", &kinds, Some(Spread::Owner)).unwrap_or(Spread::Owner);
    let keys = [("symmetric", ToeplitzKey::SYMMETRIC), ("microsoft", ToeplitzKey::MICROSOFT)];
    let rss_key = datapath.choice("rss_key", &keys, Some(ToeplitzKey::SYMMETRIC));
    if !is_pipeline {
        for key in ["receivers", "spread", "rss_key"] {
            if datapath.has(key) {
                datapath.problem(key, "is for model = \"pipeline\"; here nobody only receives");
            }
        }
    }
    if is_pipeline && spread != Spread::Rss && datapath.has("rss_key") {
        datapath.problem("rss_key", "is for spread = \"rss\"; here nothing is hashed");
    }
    if model == 2 {
        let most = WORKERS_MAX.saturating_sub(workers);
        let events = read_eventdev(datapath.table("eventdev"), workers, most, planned);
        return ModelSettings::EventDriven(events);
    }
    if datapath.has("eventdev") {
        // Reads it, so that its keys are known.
        drop(datapath.table("eventdev"));
        datapath.problem("eventdev", "is for model = \"eventdev\"");
    }
    if !is_pipeline {
        return ModelSettings::RunToCompletion;
    }
    // The signaling worker runs in addition to workers and receivers.
    let room = WORKERS_MAX.saturating_sub(workers + 1);
    if receivers.is_empty() || receivers.len() > room {
        let what = format!("takes 1 to {room} CPU cores, one for each thread that only receives");
        datapath.problem("receivers", what);
    } else if names_twice(&receivers) {
        datapath.problem("receivers", "names a CPU core twice; each receiver needs its own");
    }
    let rss_key = rss_key.unwrap_or(ToeplitzKey::SYMMETRIC);
    ModelSettings::Pipeline { receivers, spread, rss_key }
}

/// Maximum number of buffers for packets that wait for one reason: half of those that fragments and drivers leave.
fn half_of_mbufs(dpdk: &DpdkSettings, roles: Roles, ports: &[PortSettings]) -> usize {
    let all = usize::try_from(dpdk.mempool_mbufs).unwrap_or(usize::MAX);
    let fragments = roles.transmitters() * REASSEMBLY_FRAGMENTS_MAX;
    all.saturating_sub(fragments + kept_by_drivers(dpdk, ports)) / 2
}

/// Packet buffers that the drivers of all ports keep.
fn kept_by_drivers(dpdk: &DpdkSettings, ports: &[PortSettings]) -> usize {
    let of_port = |port: &PortSettings| {
        let device = port.device.dpdk()?;
        let (queues, _) = queues_of_arguments(device)?;
        Some(usize::from(queues) * device.kept_mbufs_per_queue(dpdk.rx_descriptors.into()))
    };
    ports.iter().filter_map(of_port).sum()
}

fn read_dpdk(
    mut dpdk: ConfigSection<'_, '_>,
    datapath: &DatapathSettings,
    ports: &[PortSettings],
) -> DpdkSettings {
    let roles = datapath.roles();
    let kinds = [
        ("auto", HugepageMode::Auto),
        ("require", HugepageMode::Require),
        ("never", HugepageMode::Never),
    ];
    let read = DpdkSettings {
        hugepages: dpdk
            .choice("hugepages", &kinds, Some(HugepageMode::Auto))
            .unwrap_or(HugepageMode::Auto),
        memory_mib: dpdk.integer("memory_mib", 64..=1_048_576, Some(512)),
        mempool_mbufs: dpdk.integer("mempool_mbufs", 1024..=16_777_216, Some(16_384)),
        mbuf_bytes: mbufs::read_mbuf_bytes(&mut dpdk, ports),
        rx_descriptors: dpdk.integer("rx_descriptors", 64..=32_768, Some(1024)),
        tx_descriptors: dpdk.integer("tx_descriptors", 64..=32_768, Some(1024)),
        eal_extra_args: dpdk.parsed_list("eal_extra_args", false, "an argument"),
    };
    // Packets in a ring from a receiver or a scheduler must not keep ports from receiving.
    let in_rings = match &datapath.model {
        ModelSettings::EventDriven(events) => {
            usize::try_from(events.events_max).unwrap_or(usize::MAX)
        }
        _ => roles.receivers() * roles.transmitters() * HANDOFF_RING_LEN,
    };
    let workers = roles.transmitters();
    // A queue of AF_XDP without buffers of its own receives nothing, and never again.
    let by_drivers = kept_by_drivers(&read, ports);
    let needed = 2 * workers * REASSEMBLY_FRAGMENTS_MAX + in_rings + by_drivers;
    if usize::try_from(read.mempool_mbufs).is_ok_and(|mbufs| mbufs < needed) {
        let mut what = format!(
            "takes at least {needed}: each of {workers} workers may hold {REASSEMBLY_FRAGMENTS_MAX} \
             fragments of tunnel packets, and traffic needs as many"
        );
        if in_rings > 0 {
            what.push_str(&format!("; {in_rings} may wait in the rings of receivers"));
        }
        if by_drivers > 0 {
            what.push_str(&format!("; the queues of net_af_xdp devices keep {by_drivers}"));
        }
        dpdk.problem("mempool_mbufs", what);
    }
    dpdk.finish();
    read
}

/// A port as interfaces refer to it.
struct NamedPort {
    name: String,
    /// The device behind which the kernel routes.
    routed: Option<KernelDevice>,
}

/// The names of all ports, and the ports that have a device.
fn read_ports(
    root: &mut ConfigSection<'_, '_>,
    datapath: &DatapathSettings,
) -> (Vec<NamedPort>, Vec<PortSettings>) {
    let sections = root.tables("port");
    if sections.is_empty() || sections.len() > PORTS_MAX {
        root.problem("port", format!("write 1 to {PORTS_MAX} ports, each as [[port]]"));
    }
    let mut names = BTreeMap::new();
    let mut devices = BTreeMap::new();
    let (mut port_names, mut ports) = (Vec::new(), Vec::new());
    for (index, mut section) in sections.into_iter().enumerate() {
        let name = read_name(&mut section, &mut names, index);
        let expects = "a device such as \"0000:3b:00.0\", \"net_af_packet0,iface=eth1\", \
                       \"kernel:packet,iface=eth1\", \"kernel:udp\" or \"kernel:tun,name=adit0\"";
        let device: Option<PortDevice> = section.parsed("device", expects);
        let mut is_taken = |name: &str| devices.insert(name.to_owned(), index).is_some();
        if device.as_ref().and_then(PortDevice::name).is_some_and(&mut is_taken) {
            let what =
                "another port has this device; number virtual ones, such as net_tap0 and net_tap1";
            section.problem("device", what);
        }
        let mtu_bytes = section.integer("mtu_bytes", 1280..=9600, Some(1500));
        let rx_queues = section.integer_optional("rx_queues", 1..=datapath.queues_max());
        let dpdk_device = device.as_ref().and_then(PortDevice::dpdk);
        mbufs::check_mtu(&section, dpdk_device, mtu_bytes);
        if let Some((offered, argument)) = dpdk_device.and_then(queues_of_arguments) {
            let needed = datapath.queues_max();
            // The kernel distributes packets over all sockets that the driver opens.
            if offered != needed {
                let who = match datapath.model {
                    ModelSettings::RunToCompletion => format!("each of {needed} workers"),
                    ModelSettings::EventDriven(_) => format!("each of {needed} Rx/Tx threads"),
                    ModelSettings::Pipeline { .. } => {
                        format!("each of {needed} workers, the signaling worker among them,")
                    }
                };
                let what = format!(
                    "has {offered} queue pairs, but {who} needs one of its \
                     own; write {argument}={needed} into it, or change datapath.workers"
                );
                section.problem("device", what);
            } else if rx_queues.is_some_and(|queues| queues != needed) {
                let what =
                    format!("takes {needed}: packets arrive on all queue pairs of this device");
                section.problem("rx_queues", what);
            }
        }
        let is_shared = datapath.model != ModelSettings::RunToCompletion;
        let fixed = dpdk_device.and_then(queues_of_arguments).filter(|_| is_shared);
        let rx_queues = rx_queues.or(fixed.map(|(offered, _)| offered));
        let (xdp, flow_offload) = offload::read_port(&mut section, dpdk_device, &ports);
        let kernel = device.as_ref().and_then(PortDevice::kernel).cloned();
        if kernel.is_some() {
            kernel_ports::check_queues(&section, rx_queues, datapath.roles().receiving().len());
        }
        section.finish();
        let routed = kernel.filter(KernelDevice::is_routed);
        port_names.push(NamedPort { name: name.clone(), routed });
        let port = |device| PortSettings { name, device, rx_queues, mtu_bytes, xdp, flow_offload };
        ports.extend(device.map(port));
    }
    (port_names, ports)
}

/// The number of queue pairs in a device's arguments, and the name of the argument, for drivers whose
/// arguments determine the number.
fn queues_of_arguments(device: &Device) -> Option<(u16, &'static str)> {
    let argument = match device {
        _ if device.is_driver("net_af_packet") => "qpairs",
        _ if device.is_driver("net_af_xdp") => "queue_count",
        _ => return None,
    };
    Some((device.argument(argument).map_or(Some(1), |text| text.parse().ok())?, argument))
}

/// Reads the section's `name`, which must be unique among sections of its kind.
fn read_name(
    section: &mut ConfigSection<'_, '_>,
    names: &mut BTreeMap<String, usize>,
    index: usize,
) -> String {
    let name: String = section.parsed("name", "a name").unwrap_or_else(|| format!("#{index}"));
    if name.is_empty() {
        section.problem("name", "takes a name");
    } else if names.insert(name.clone(), index).is_some() {
        section.problem("name", format!("\"{name}\" is taken already; names must differ"));
    }
    name
}

fn read_interfaces(
    root: &mut ConfigSection<'_, '_>,
    ports: &[NamedPort],
) -> Vec<InterfaceSettings> {
    let sections = root.tables("interface");
    if sections.len() > INTERFACES_MAX {
        root.problem("interface", format!("write at most {INTERFACES_MAX} interfaces"));
    }
    let mut names = BTreeMap::new();
    let mut places = BTreeMap::new();
    let mut interfaces: Vec<InterfaceSettings> = Vec::new();
    for (index, mut section) in sections.into_iter().enumerate() {
        let name = read_name(&mut section, &mut names, index);
        let roles = [
            ("n3", InterfaceRole::N3),
            ("n9", InterfaceRole::N9),
            ("n4u", InterfaceRole::N4u),
            ("n6", InterfaceRole::N6),
        ];
        let role = section.choice("role", &roles, None).unwrap_or(InterfaceRole::N6);
        let port = read_port_name(&mut section, ports);
        let vlan = section.integer("vlan", 0..=4094u16, Some(0));
        if places.insert((port, vlan), index).is_some() {
            section.problem(
                "vlan",
                "another interface has this port and VLAN; give one of them its own",
            );
        }
        let vlan = VlanId::new(vlan).unwrap_or(VlanId::UNTAGGED);
        let kernel = ports.get(usize::from(port.0)).and_then(|port| port.routed.as_ref());
        if let Some(device) = kernel {
            kernel_ports::check_interface(&section, device, role, vlan);
        }
        let (v4, v6) = read_addresses(&mut section);
        check_tunnel_addresses(&section, role, (v4, v6), &interfaces);
        let network_instance = read_network_instance(&mut section);
        let local_switching = read_local_switching(&mut section, role);
        let tcp_mss = read_tcp_mss(&mut section, role);
        section.finish();
        interfaces.push(InterfaceSettings {
            name,
            role,
            port,
            is_kernel: kernel.is_some(),
            vlan,
            v4,
            v6,
            network_instance,
            local_switching,
            tcp_mss,
        });
    }
    check_domains(root, &interfaces);
    check_roles(root, &interfaces);
    for (index, port) in ports.iter().enumerate() {
        if !interfaces.iter().any(|interface| usize::from(interface.port.0) == index) {
            let name = &port.name;
            root.problem("port", format!("no interface uses port \"{name}\"; remove it"));
        }
    }
    interfaces
}

/// Reads `local_switching`; on without it.
fn read_local_switching(section: &mut ConfigSection<'_, '_>, role: InterfaceRole) -> bool {
    let local_switching = section.boolean_optional("local_switching");
    if role != InterfaceRole::N6 && local_switching.is_some() {
        section.problem("local_switching", "is for interfaces with role = \"n6\"");
    }
    local_switching.unwrap_or(true)
}

/// Tunnels need an interface towards the RAN or other UPFs. A UPF between other UPFs or gateways has no data network.
fn check_roles(root: &ConfigSection<'_, '_>, interfaces: &[InterfaceSettings]) {
    let has = |role| interfaces.iter().any(|interface| interface.role == role);
    if !has(InterfaceRole::N3) && !has(InterfaceRole::N9) {
        let what =
            "write at least one interface with role = \"n3\" (RAN) or role = \"n9\" (other UPFs)";
        root.problem("interface", what);
    }
    if !has(InterfaceRole::N6) && !has(InterfaceRole::N9) {
        let what = "write at least one interface with role = \"n6\"; only a UPF between others (I-UPF, SGW-U) needs none, and it needs role = \"n9\"";
        root.problem("interface", what);
    }
}

/// N6 interfaces of one routing domain must agree on local switching, since a locally switched packet
/// belongs to the domain and not to an interface, and on the MSS of TCP, since both directions of a connection may pass
/// different ones.
fn check_domains(root: &ConfigSection<'_, '_>, interfaces: &[InterfaceSettings]) {
    let all: Vec<_> = interfaces.iter().zip(domains(interfaces)).collect();
    let networks = || all.iter().filter(|(known, _)| known.role == InterfaceRole::N6);
    for (known, domain) in networks() {
        let first = networks().find(|(_, other)| other == domain).map_or(*known, |other| other.0);
        let differing = [
            ("local_switching", first.local_switching != known.local_switching),
            ("tcp_mss", first.tcp_mss != known.tcp_mss),
        ];
        for (key, _) in differing.into_iter().filter(|(_, differs)| *differs) {
            let names = format!("\"{}\" and \"{}\"", first.name, known.name);
            let what = format!("{names} are in one routing domain; give both the same {key}");
            root.problem("interface", what);
        }
    }
}

/// Addresses of GTP-U interfaces must differ, since an F-TEID must identify one interface.
fn check_tunnel_addresses(
    section: &ConfigSection<'_, '_>,
    role: InterfaceRole,
    (v4, v6): InterfaceAddresses,
    before: &[InterfaceSettings],
) {
    let is_same = |known: &&InterfaceSettings| {
        let addr = |net: Option<(Ipv4Addr, u8)>| net.map(|(addr, _)| addr);
        let addr_v6 = |net: Option<(std::net::Ipv6Addr, u8)>| net.map(|(addr, _)| addr);
        known.role.is_gtpu()
            && (v4.is_some() && addr(known.v4) == addr(v4)
                || v6.is_some() && addr_v6(known.v6) == addr_v6(v6))
    };
    if role.is_gtpu()
        && let Some(known) = before.iter().find(is_same)
    {
        let what = format!(
            "interface \"{}\" has this address already; addresses of GTP-U interfaces must differ",
            known.name
        );
        section.problem("addresses", what);
    }
}

fn read_port_name(section: &mut ConfigSection<'_, '_>, ports: &[NamedPort]) -> PortId {
    let Some(wanted) = section.parsed::<String>("port", "the name of a [[port]]") else {
        return PortId(0);
    };
    let found = ports.iter().position(|port| port.name == wanted);
    if found.is_none() {
        let names: Vec<_> = ports.iter().map(|port| format!("\"{}\"", port.name)).collect();
        let what = format!("there is no port \"{wanted}\"; known ports: {}", names.join(", "));
        section.problem("port", what);
    }
    PortId(found.and_then(|index| u16::try_from(index).ok()).unwrap_or(0))
}

type InterfaceAddresses = (Option<(Ipv4Addr, u8)>, Option<(std::net::Ipv6Addr, u8)>);

fn read_addresses(section: &mut ConfigSection<'_, '_>) -> InterfaceAddresses {
    let expects = "an address with its prefix length such as \"10.0.3.2/24\"";
    let list: Vec<IpNet> = section.parsed_list("addresses", true, expects);
    let (mut v4, mut v6) = (None, None);
    for net in list {
        let taken = match net.addr {
            IpAddr::V4(addr) => v4.replace((addr, net.len)).is_some(),
            IpAddr::V6(addr) => v6.replace((addr, net.len)).is_some(),
        };
        if taken {
            section.problem("addresses", "takes at most one address of each family");
        }
        if net.addr.is_unspecified() || net.addr.is_multicast() || net.addr.is_loopback() {
            section.problem("addresses", format!("{} is not a host address", net.addr));
        }
    }
    if v4.is_none() && v6.is_none() {
        section.problem("addresses", format!("takes {expects}"));
    }
    (v4, v6)
}

fn read_routes(
    root: &mut ConfigSection<'_, '_>,
    interfaces: &[InterfaceSettings],
) -> Vec<RouteSettings> {
    let sections = root.tables("route");
    if sections.len() > ROUTES_MAX {
        root.problem("route", format!("write at most {ROUTES_MAX} routes"));
    }
    let mut routes = Vec::new();
    for section in sections {
        routes.extend(read_route(section, interfaces, &routes));
    }
    let taken = |routes: &[_], prefix, index| is_taken(interfaces, routes, prefix, index);
    kernel_ports::default_routes(interfaces, taken, &mut routes);
    routes
}

fn read_route(
    mut section: ConfigSection<'_, '_>,
    interfaces: &[InterfaceSettings],
    before: &[RouteSettings],
) -> Option<RouteSettings> {
    let wanted: Option<String> = section.parsed("interface", "the name of an [[interface]]");
    let expects = "a prefix such as \"10.0.0.0/8\"";
    let prefix: Option<IpNet> = section.parsed("prefix", expects);
    let found =
        wanted.as_ref().and_then(|wanted| interfaces.iter().position(|i| i.name == *wanted));
    let is_kernel = found.is_some_and(|index| interfaces[index].is_kernel);
    let next_hop: Option<IpAddr> = match prefix.filter(|_| is_kernel) {
        Some(_) if section.has("next_hop") => {
            section.parsed_optional::<IpAddr>("next_hop", "an IP address");
            let what = "is not for interfaces of the kernel, which routes itself; remove it";
            section.problem("next_hop", what);
            None
        }
        Some(prefix) => Some(kernel_ports::kernel_next_hop(prefix)),
        None => section.parsed("next_hop", "an IP address"),
    };
    if let (Some(wanted), None) = (&wanted, found) {
        let names: Vec<_> = interfaces.iter().map(|i| format!("\"{}\"", i.name)).collect();
        let what =
            format!("there is no interface \"{wanted}\"; known interfaces: {}", names.join(", "));
        section.problem("interface", what);
    }
    if let Some(prefix) = prefix
        && network(prefix) != Some(prefix.addr)
    {
        section.problem("prefix", format!("{prefix} has host bits set; clear them"));
    }
    if let (Some(prefix), Some(next_hop)) = (prefix, next_hop)
        && prefix.addr.is_ipv4() != next_hop.is_ipv4()
    {
        section.problem("next_hop", "is of another address family than the prefix");
    } else if let (Some(next_hop), Some(index)) = (next_hop, found)
        && !is_kernel
        && !on_link(&interfaces[index], next_hop)
    {
        let what =
            format!("{next_hop} is not on the link of interface \"{}\"", interfaces[index].name);
        section.problem("next_hop", what);
    }
    if let (Some(prefix), Some(index)) = (prefix, found)
        && is_taken(interfaces, before, prefix, index)
    {
        let what = format!("{prefix} already has a route in this network instance");
        section.problem("prefix", what);
    }
    section.finish();
    Some(RouteSettings { interface: found?, prefix: prefix?, next_hop: next_hop? })
}

/// True if another route, or an interface's link, leads to `prefix` in the same role and network
/// instance as interface `index`.
fn is_taken(
    interfaces: &[InterfaceSettings],
    routes: &[RouteSettings],
    prefix: IpNet,
    index: usize,
) -> bool {
    let kind = |at: usize| {
        let name = interfaces[at].network_instance.as_ref().map(|name| name.to_ascii_lowercase());
        (interfaces[at].role, name)
    };
    let is_link = |interface: &InterfaceSettings| {
        if interface.is_kernel {
            return false;
        }
        let v4 = interface.v4.map(|(addr, len)| IpNet { addr: addr.into(), len });
        let v6 = interface.v6.map(|(addr, len)| IpNet { addr: addr.into(), len });
        v4.into_iter()
            .chain(v6)
            .any(|net| net.len == prefix.len && network(net) == Some(prefix.addr))
    };
    routes.iter().any(|route| route.prefix == prefix && kind(route.interface) == kind(index))
        || (0..interfaces.len()).any(|at| kind(at) == kind(index) && is_link(&interfaces[at]))
}

/// True if `addr` is another station on the interface's link.
fn on_link(interface: &InterfaceSettings, addr: IpAddr) -> bool {
    match addr {
        IpAddr::V4(addr) => interface.v4.is_some_and(|(own, len)| {
            own != addr && Ipv4Prefix::containing(own, len).is_some_and(|link| link.contains(addr))
        }),
        IpAddr::V6(addr) => interface.v6.is_some_and(|(own, len)| {
            own != addr
                && (addr.is_unicast_link_local()
                    || Ipv6Prefix::containing(own, len).is_some_and(|link| link.contains(addr)))
        }),
    }
}
