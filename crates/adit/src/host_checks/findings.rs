//! Compares a configuration with the facts about this host.

use std::fmt;

use adit_dpdk::{Device, DeviceKind, HugepageMode};
use adit_kernel::{KernelDevice, NetworkDevice};
use serde::Serialize;

use super::facts::CheckedHost;
use crate::capabilities::needed;
use crate::config::{Config, InterfaceSettings, PollMode, PortDevice, PortSettings};
use crate::host_command::placement_notice;

/// Size of the headers around a user's packet in a tunnel over IPv4: IPv4, UDP, and GTP-U with a
/// PDU Session Container. Over IPv6 it is 20 more. Unit: octets.
pub(crate) const TUNNEL_BYTES: u32 = 44;

/// One fact about the host and this configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct HostFinding {
    /// The check: hugepages, cores, offloads, routes, mtu or rights.
    pub check: &'static str,
    pub found: String,
    /// The remedy, as a command if there is one; `None` if all is well.
    pub remedy: Option<String>,
}

impl fmt::Display for HostFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.remedy {
            None => write!(f, "{}: ok: {}", self.check, self.found),
            Some(remedy) => write!(f, "{}: TO DO: {}; {remedy}", self.check, self.found),
        }
    }
}

/// The checks, while they run.
struct HostChecks<'a> {
    config: &'a Config,
    host: &'a CheckedHost,
    found: Vec<HostFinding>,
}

/// Runs all checks in a fixed order. A check without a fault reports what it found.
pub(crate) fn findings(config: &Config, host: &CheckedHost) -> Vec<HostFinding> {
    let mut checks = HostChecks { config, host, found: Vec::new() };
    checks.hugepages();
    checks.cores();
    checks.note_if_none("offloads", HostChecks::offloads);
    checks.note_if_none("routes", HostChecks::routes);
    checks.note_if_none("mtu", HostChecks::mtu);
    checks.rights();
    checks.found
}

impl HostChecks<'_> {
    fn note(&mut self, check: &'static str, found: String, remedy: Option<String>) {
        self.found.push(HostFinding { check, found, remedy });
    }

    /// Runs a check that reports faults only, and reports that all is in order if it finds none.
    fn note_if_none(&mut self, check: &'static str, run: impl FnOnce(&mut Self)) {
        let before = self.found.len();
        run(self);
        if self.found.len() == before {
            self.note(check, "as the ports need it".to_owned(), None);
        }
    }

    fn fault(&mut self, check: &'static str, found: String, remedy: String) {
        self.note(check, found, Some(remedy));
    }

    fn hugepages(&mut self) {
        let (free, wanted) = (self.host.free_huge_mib, u64::from(self.config.dpdk.memory_mib));
        let is_needed = self.config.dpdk.hugepages == HugepageMode::Require
            || self.cards().next().is_some() && self.config.dpdk.hugepages != HugepageMode::Never;
        let remedy = format!(
            "run sysctl -w vm.nr_hugepages={}, and write it into /etc/sysctl.d/adit.conf",
            wanted.div_ceil(2)
        );
        let found = format!("{free} MiB are free, and dpdk.memory_mib is {wanted}");
        match (is_needed, free < wanted) {
            (false, _) => self.note("hugepages", "these ports do without".to_owned(), None),
            (true, is_short) => self.note("hugepages", found, is_short.then_some(remedy)),
        }
    }

    /// Returns the ports that are cards of DPDK.
    fn cards(&self) -> impl Iterator<Item = &Device> {
        let devices = self.config.ports.iter().filter_map(|port| port.device.dpdk());
        devices.filter(|device| device.kind() == DeviceKind::Pci)
    }

    fn cores(&mut self) {
        let datapath = &self.config.datapath;
        let threads = datapath.threads();
        let is_busy = threads.iter().any(|thread| thread.poll == PollMode::Busy);
        let broken = placement_notice(self.config).broken;
        let count = self.host.cpus.len();
        if is_busy && threads.len() >= count.max(1) {
            let found = format!("threads that poll: {}, CPUs: {count}", threads.len());
            let remedy = "write poll = \"adaptive\" under [datapath], or fewer workers";
            self.fault("cores", found, remedy.to_owned());
        } else if is_busy && !broken.is_empty() {
            let remedy =
                "adit host plan --config FILE proposes cores; workers = \"auto\" takes them";
            self.fault("cores", broken.join("; "), remedy.to_owned());
        } else {
            let found = format!("threads of the packet path: {}, CPUs: {count}", threads.len());
            self.note("cores", found, None);
        }
    }

    fn offloads(&mut self) {
        let workers = self.config.datapath.roles().receiving().len();
        for port in &self.config.ports {
            let Some(name) = port.device.network_device() else { continue };
            let Some(facts) = self.host.devices.get(name) else { continue };
            let dpdk = |driver| port.device.dpdk().is_some_and(|of| of.is_driver(driver));
            if facts.offloads.gro && dpdk("net_af_packet") {
                self.fault(
                    "offloads",
                    format!("{name} joins segments (GRO), which its port cuts"),
                    format!("run ethtool -K {name} gro off, or write kernel:packet,iface={name}"),
                );
            }
            if facts.offloads.lro && dpdk("net_af_xdp") {
                let found = format!("{name} joins segments (LRO), which excludes XDP");
                self.fault("offloads", found, format!("run ethtool -K {name} lro off"));
            }
            if dpdk("net_af_xdp") && facts.rx_queues > workers {
                let queues = facts.rx_queues;
                self.fault(
                    "offloads",
                    format!("{name} spreads packets over {queues} queues, and {workers} reach adit"),
                    format!("run ethtool -L {name} combined {workers}, or take {queues} workers and queue_count={queues}"),
                );
            }
        }
    }

    fn routes(&mut self) {
        let n4 = self.config.n4_listen.ip();
        // Devices that are created when adit starts.
        let is_own = self.config.interfaces.iter().any(|known| {
            let is_created = known.is_kernel || known.twin.is_some();
            is_created && known.owns(n4)
        });
        let is_of_host = n4.is_loopback() || self.host.network.owner(n4).is_some();
        if !n4.is_unspecified() && !is_of_host && !is_own {
            let found = format!("no network device has {n4} of n4.listen");
            let remedy = format!(
                "run ip address add {n4}/24 dev DEVICE, or take the address of an interface with kernel = \"NAME\""
            );
            self.fault("routes", found, remedy);
        }
        let config = self.config;
        for (index, interface) in config.interfaces.iter().enumerate() {
            let port = &config.ports[usize::from(interface.port.0)];
            match &port.device {
                PortDevice::Kernel(KernelDevice::Udp) => self.udp_addresses(interface),
                PortDevice::Kernel(KernelDevice::Tun { name }) => {
                    self.kernel_router(interface, name)
                }
                _ => self.own_addresses(interface, port),
            }
            let has_default =
                config.routes.iter().any(|route| route.interface == index && route.prefix.len == 0);
            if !interface.role.is_gtpu() && !has_default {
                self.fault(
                    "routes",
                    format!("{} reaches its link only", interface.name),
                    "add a [[route]] with prefix = \"0.0.0.0/0\" and the gateway as next_hop"
                        .to_owned(),
                );
            }
        }
    }

    fn udp_addresses(&mut self, interface: &InterfaceSettings) {
        for addr in interface.links().map(|link| link.addr) {
            if self.host.network.owner(addr).is_none() {
                let found = format!("no network device has {addr} of {}", interface.name);
                self.fault("routes", found, format!("run ip address add {addr}/24 dev DEVICE"));
            }
        }
    }

    /// Checks that the kernel routes between a TUN device and the data network.
    fn kernel_router(&mut self, interface: &InterfaceSettings, tun: &str) {
        let keys = ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"];
        let used = [interface.v4.is_some(), interface.v6.is_some()];
        for (key, (is_on, is_used)) in keys.iter().zip(self.host.forwards.iter().zip(used)) {
            if is_used && !is_on {
                let found = format!("the kernel does not forward packets of {tun} ({key} = 0)");
                let remedy =
                    format!("run sysctl -w {key}=1, and write it into /etc/sysctl.d/adit.conf");
                self.fault("routes", found, remedy);
            }
        }
        for pool in &self.config.ue_pools {
            let prefix = pool.prefix;
            let mut routes = self.host.network.routes.iter();
            let other = routes
                .find(|route| (route.network.addr, route.network.len) == (prefix.addr, prefix.len));
            let device = other.and_then(|route| {
                self.host.network.devices.iter().find(|device| device.index == route.device)
            });
            if let Some(device) = device.filter(|device| device.name != tun) {
                let found = format!("UEs of {prefix} are behind {}", device.name);
                self.fault("routes", found, format!("run ip route delete {prefix}"));
            }
        }
    }

    /// Checks that the kernel has none of adit's addresses, for which it would answer.
    fn own_addresses(&mut self, interface: &InterfaceSettings, port: &PortSettings) {
        let Some(name) = port.device.network_device() else { return };
        let Some(device) = self.host.network.device(name) else {
            let found = format!("this host has no network device {name} of port {}", port.name);
            return self.fault("routes", found, "ip link lists the devices".to_owned());
        };
        if !device.is_up {
            let found = format!("{name} of port {} is down", port.name);
            self.fault("routes", found, format!("run ip link set {name} up"));
        }
        for addr in interface.links().map(|link| link.addr) {
            if let Some((owner, network)) = self.host.network.owner(addr) {
                let (of, len) = (&owner.name, network.len);
                self.fault(
                    "routes",
                    format!("the kernel answers for {addr} of {}, too", interface.name),
                    format!("run ip address delete {addr}/{len} dev {of}, or use kernel:udp and kernel:tun"),
                );
            }
        }
    }

    fn mtu(&mut self) {
        for port in &self.config.ports {
            let device =
                port.device.network_device().and_then(|name| self.host.network.device(name));
            let short = |device: &&NetworkDevice| device.mtu_bytes < port.mtu_bytes.into();
            if let Some(device) = device.filter(short) {
                let (name, mtu) = (&device.name, port.mtu_bytes);
                let found = format!("{name} has an MTU of {}, its port {mtu}", device.mtu_bytes);
                let may = self.host.may("CAP_NET_ADMIN");
                let remedy = (!may).then(|| format!("run ip link set {name} mtu {mtu}"));
                let found = if may { found + ", which adit sets" } else { found };
                self.note("mtu", found, remedy);
            }
        }
        let mtu = |interface: &&InterfaceSettings| {
            u32::from(self.config.ports[usize::from(interface.port.0)].mtu_bytes)
        };
        let all = || self.config.interfaces.iter();
        let clamps = all().any(|interface| interface.tcp_mss.is_on());
        let tunnels = all().filter(|interface| interface.role.is_gtpu());
        let data = all().filter(|interface| !interface.role.is_gtpu()).map(|of| mtu(&of)).max();
        let short = tunnels.filter(|of| data.is_some_and(|data| mtu(of) < data + TUNNEL_BYTES));
        let names: Vec<_> = short.map(|of| of.name.as_str()).collect();
        if !names.is_empty() && !clamps {
            self.fault(
                "mtu",
                format!("packets as long as N6 allows do not fit the tunnels of {}", names.join(", ")),
                format!(
                    "raise its mtu_bytes to {} if the network carries that, or write tcp_mss = \"clamp\" for n6 and lower the UEs' MTU in the SMF",
                    data.unwrap_or(0) + TUNNEL_BYTES
                ),
            );
        }
    }

    fn rights(&mut self) {
        let needed = needed(self.config);
        let missing: Vec<_> = needed.iter().filter(|of| !self.host.may(of)).copied().collect();
        if !missing.is_empty() {
            let found = format!("this user lacks {}", missing.join(", "));
            let remedy = "run it as root, or as the service (docs/install.md)";
            self.fault("rights", found, remedy.to_owned());
        } else if needed.is_empty() {
            self.note("rights", "these ports need none".to_owned(), None);
        } else {
            self.note("rights", format!("this user has {}", needed.join(", ")), None);
        }
    }
}
