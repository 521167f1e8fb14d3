//! `[[port]]` and `[flow_offload]`: devices, and offloads in front of the workers.

use std::collections::BTreeSet;

use adit_dpdk::Device;
use adit_kernel::KernelDevice;
use adit_types::Nanos;

use super::check_unique;
use super::comparison::{OnReload, PACKET_PATH};
use super::datapath::{DatapathSettings, ModelSettings};
use super::declare::section;
use super::fields::name;
use super::keys::IntoKey as _;
use super::kinds::{Flag, integer, millis, text, words};
use super::section::ConfigDocument;

section! {
    /// Ports by DPDK device string: a PCI address ("0000:3b:00.0") or a virtual device with
    /// arguments (net_af_xdp, net_af_packet, net_memif, net_vhost, net_virtio_user, net_tap,
    /// net_pcap, net_null, net_ring). Every port needs one transmit queue per worker: net_af_packet
    /// has qpairs=N for that, net_af_xdp queue_count=N; a memif, net_vhost and net_virtio_user
    /// need as many queues at both ends. A worker hands packets of another worker's session to that
    /// worker.
    ///
    /// Or "kernel:packet,iface=NAME": packet sockets on a network device of the kernel, one per
    /// worker. They need neither hugepages nor a NIC of their own (CAP_NET_RAW, CAP_NET_ADMIN), and
    /// take whatever the device and its peer leave to each other: open checksums and joined
    /// segments (TSO, GRO), tags, fragments. net_af_packet cuts such segments.
    ///
    /// A net_memif with role=client connects once, when adit starts. Make adit the server if the
    /// other end may restart. With role=client,zero-copy=yes frames are not copied: the other end
    /// reads and writes all packet memory of adit, so it must be trusted like adit itself. Each
    /// queue then keeps up to 2 * 2^rsize of mempool_mbufs (rsize=10 by default).
    ///
    /// "net_vhost0,iface=SOCKET,queues=N" is the switch's side of a virtual machine's device
    /// (vhost-user), "net_virtio_user0,path=SOCKET,queues=N" the machine's side, for a program
    /// that serves such devices. net_vhost listens, and the machine connects; with client=1 it
    /// connects itself. docs/vm.md has both, and adit in a virtual machine.
    ///
    /// Or a port behind which the kernel routes, resolves neighbors, reassembles and filters. Such
    /// ports, too, need neither hugepages nor a NIC of their own, cost more per packet, and go
    /// together with all others:
    ///
    /// "kernel:udp", for one interface with GTP-U: UDP sockets at the interface's addresses, which
    /// the operator gives to a network device. The kernel fragments packets beyond the path's MTU;
    /// mtu_bytes limits which packets it takes joined.
    ///
    /// "kernel:tun,name=adit0", for one n6 interface: a TUN device that adit creates, brings up and
    /// gives mtu_bytes, the interface's addresses (usually one /32 and one /128) and routes for the
    /// UE pools of its network instance. The kernel removes it when adit ends. Needs CAP_NET_ADMIN.
    /// The operator enables forwarding (net.ipv4.ip_forward, net.ipv6.conf.all.forwarding), and
    /// adds routes for UE addresses outside the pools: ip route add PREFIX dev adit0.
    ///
    /// Interfaces on them have no vlan and no gateway: a [[route]] has no next_hop, and a default
    /// route is added unless one is configured. Forwarding policies cannot name a next hop behind
    /// them.
    PortSettings(PACKET_PATH) {
        /// Its name, by which interfaces refer to it.
        name: String, text("a name").check(name).required(String::new()) => ["\"access\"",
            "\"core\""];
        /// Receive queues, at most one per worker. With fewer, some workers receive packets only
        /// from other workers.
        rx_queues: Option<u16>, integer(1..=1024)
            .optional("as many as the device offers, at most one per worker") => ["# 1"];
        /// XDP program of net_af_xdp devices: "on" or "auto" forwards usual packets in the driver
        /// of the device, before workers receive them (docs/internals/xdp.md). "auto" goes on
        /// without that if it does not work here.
        xdp: XdpMode, words(&[("off", XdpMode::Off), ("auto", XdpMode::Auto), ("on", XdpMode::On)])
            .or(XdpMode::Off);
        /// For NICs with an embedded switch: flow rules of the card forward the packets of the
        /// sessions with the most packets (docs/internals/offload.md). All ports that packets of a
        /// session arrive on and leave through need it.
        flow_offload: bool, Flag.or(false);
        /// The device string.
        device: PortDevice,
            text("a device such as \"0000:3b:00.0\", \"net_af_packet0,iface=eth1\", \"kernel:packet,iface=eth1\", \"kernel:udp\" or \"kernel:tun,name=adit0\"")
            .required(PortDevice::Kernel(KernelDevice::Packet { iface: String::new() }))
            => ["\"kernel:packet,iface=n3\"", "\"kernel:packet,iface=n6\""];
        /// The largest IP packet; net_af_xdp carries 3430 and net_tap 1500 at most. adit raises the
        /// MTU of a port's network device to it.
        mtu_bytes: u16, integer(1280..=9600).or(1500) => ["1500", "1500"];
    }
}

/// For flow rules of cards, which a reload does not change.
const FIXED: OnReload = OnReload::Fixed("cards are set up at the start");

section! {
    /// The sessions that get flow rules of cards.
    FlowOffloadSettings(FIXED) {
        /// Flows for downlink packets, too: the card writes the lengths of IPv4, UDP and GTP-U
        /// headers that it adds.
        downlink: bool, Flag.or(false) => [];
        /// Sessions at most: as many as the card has room for.
        sessions_max: usize, integer(1..=1_000_000).or(10_000) => [];
        /// The rate from which a session gets rules, in packets per second; below half of it, it
        /// loses them.
        from_pps: u64, integer(1..=1_000_000_000).or(1000) => [];
        /// All counters of rules are read in this time; usage lags behind as much.
        read_interval: Nanos = "read_interval_ms", millis(1..=1000).or(Nanos::from_millis(100))
            => [];
    }
}

/// Whether an XDP program forwards packets on a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum XdpMode {
    Off,
    /// The program forwards if it works here; otherwise workers process all packets.
    Auto,
    /// adit starts only if the program works.
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
    /// Returns the name of the device, which no other port has; UDP sockets have none.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Dpdk(device) => Some(device.name()),
            Self::Kernel(
                KernelDevice::Tun { name: device } | KernelDevice::Packet { iface: device },
            ) => Some(device),
            Self::Kernel(KernelDevice::Udp) => None,
        }
    }

    /// Returns the kernel's network device that the port shares; `None` if it shares none.
    pub(crate) fn network_device(&self) -> Option<&str> {
        let shares = |device: &Device| {
            ["net_af_packet", "net_af_xdp"].iter().any(|driver| device.is_driver(driver))
        };
        match self {
            Self::Kernel(KernelDevice::Packet { iface }) => Some(iface),
            Self::Dpdk(device) => device.argument("iface").filter(|_| shares(device)),
            Self::Kernel(_) => None,
        }
    }

    pub(crate) const fn dpdk(&self) -> Option<&Device> {
        match self {
            Self::Dpdk(device) => Some(device),
            Self::Kernel(_) => None,
        }
    }

    /// Returns the smallest size of a packet buffer for packets of `mtu_bytes`, headroom excluded.
    /// Unit: bytes.
    pub(super) fn mbuf_bytes(&self, mtu_bytes: u16) -> u32 {
        match self {
            Self::Dpdk(device) => device.mbuf_bytes(mtu_bytes),
            // Adds an Ethernet header and a VLAN tag.
            Self::Kernel(_) => u32::from(mtu_bytes) + 14 + 4,
        }
    }

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

/// Checks all ports, and sets the queues of those whose devices determine them.
pub(super) fn check(
    document: &ConfigDocument<'_>,
    ports: &mut [PortSettings],
    datapath: &DatapathSettings,
) {
    check_unique(document, "port", "name", ports.iter().map(|port| port.name.as_str()));
    let mut devices = BTreeSet::new();
    let (mut with_xdp, mut with_flows) = (false, false);
    for (index, port) in ports.iter_mut().enumerate() {
        let problem =
            |key: &str, what: &str| document.problem(&format!("port[{index}].{key}"), what);
        if port.device.name().is_some_and(|name| !devices.insert(name.to_owned())) {
            let what =
                "another port has this device; number virtual ones, such as net_tap0 and net_tap1";
            problem("device", what);
        }
        if let Some(what) = too_long(&port.device, port.mtu_bytes) {
            problem("mtu_bytes", &what);
        }
        check_queues(document, index, port, datapath);
        let device = port.device.dpdk();
        let has_xdp = port.xdp != XdpMode::Off;
        if has_xdp && !device.is_some_and(|of| of.is_driver("net_af_xdp")) {
            problem("xdp", "takes \"off\": only net_af_xdp devices have an XDP program");
        }
        if port.flow_offload && device.is_none() {
            problem("flow_offload", "takes false: ports of the kernel take no flow rules");
        }
        (with_xdp, with_flows) = (with_xdp || has_xdp, with_flows || port.flow_offload);
        if with_xdp && with_flows && (has_xdp || port.flow_offload) {
            problem("flow_offload", "and xdp exclude each other, on all ports together");
        }
    }
    if document.has("flow_offload") && !with_flows {
        let what = "is for ports with flow_offload = true, and no port has it";
        document.problem("flow_offload", what);
    }
}

/// Checks the receive queues of a port, and sets them if its device determines their number.
fn check_queues(
    document: &ConfigDocument<'_>,
    index: usize,
    port: &mut PortSettings,
    datapath: &DatapathSettings,
) {
    let problem = |key: &str, what: &str| document.problem(&format!("port[{index}].{key}"), what);
    let needed = datapath.queues_max();
    if port.rx_queues.is_some_and(|queues| queues > needed) {
        problem("rx_queues", &integer(1..=needed).refusal());
        port.rx_queues = None;
    }
    if let Some((offered, argument)) = port.device.dpdk().and_then(queues_of_arguments) {
        // The kernel distributes packets over all sockets that the driver opens: each needs a
        // thread.
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
            problem("device", &what);
        } else if port.rx_queues.is_some_and(|queues| queues != needed) {
            let what = format!("takes {needed}: packets arrive on all queue pairs of this device");
            problem("rx_queues", &what);
        }
        if datapath.model != ModelSettings::RunToCompletion {
            port.rx_queues = port.rx_queues.or(Some(offered));
        }
    }
    let receiving = datapath.roles().receiving().len();
    let is_over = port.rx_queues.is_some_and(|queues| usize::from(queues) > receiving);
    if port.device.kernel().is_some() && is_over {
        let what = format!("takes at most {receiving}: a thread reads one queue of a kernel port");
        problem("rx_queues", &what);
    }
}

/// Returns the number of queue pairs in a device's arguments, and the name of the argument; `None`
/// for drivers whose arguments do not determine the number.
pub(super) fn queues_of_arguments(device: &Device) -> Option<(u16, &'static str)> {
    let argument = match device {
        _ if device.is_driver("net_af_packet") => "qpairs",
        _ if device.is_driver("net_af_xdp") => "queue_count",
        _ => return None,
    };
    Some((device.argument(argument).map_or(Some(1), |text| text.parse().ok())?, argument))
}

/// Returns the advice for an `mtu_bytes` that the device cannot carry; `None` if it can.
fn too_long(device: &PortDevice, mtu_bytes: u16) -> Option<String> {
    let device = device.dpdk().filter(|device| mtu_bytes > device.mtu_max())?;
    let iface = device.argument("iface").unwrap_or("NAME");
    let why = if device.is_driver("net_tap") {
        format!(
            "whose driver sends no longer packets; lower it, or write device = \"kernel:tun,name={iface}\" for n6"
        )
    } else if device.is_driver("net_af_xdp") {
        format!(
            "whose frames have to fit a page of memory; lower it, or write device = \"kernel:packet,iface={iface}\""
        )
    } else {
        "whose slots hold no longer packets; remove framesz= and blocksz=, so that slots follow mtu_bytes".to_owned()
    };
    Some(format!("takes at most {} with {device}, {why}", device.mtu_max()))
}
