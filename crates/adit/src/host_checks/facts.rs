//! Facts about this host, for its checks and for the choice of ports.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use adit_kernel::{HostNetwork, ReceiveOffloads, receive_offloads};
use rustix::thread::{CapabilitySet, capabilities};

use crate::this_machine::this_machine;

/// First of the three octets of a PCI device's class, for network devices.
const NETWORK_CLASS: &str = "0x02";

/// Facts about a network device that are not in [`HostNetwork`]; read from files in `/sys`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DeviceFacts {
    pub driver: Option<String>,
    pub pci_address: Option<String>,
    /// Receive queues in use.
    pub rx_queues: usize,
    pub offloads: ReceiveOffloads,
}

/// Facts about this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckedHost {
    pub network: HostNetwork,
    /// By name of the network device.
    pub devices: BTreeMap<String, DeviceFacts>,
    /// Network cards by PCI address, with their drivers.
    pub cards: BTreeMap<String, Option<String>>,
    /// CPUs that this process may use.
    pub cpus: Vec<u32>,
    pub free_huge_mib: u64,
    /// Whether the kernel forwards IPv4, and whether it forwards IPv6.
    pub forwards: [bool; 2],
    /// The capabilities that this process may have.
    pub capabilities: CapabilitySet,
}

impl CheckedHost {
    /// Reads the facts about this host.
    ///
    /// # Errors
    /// The network devices, or the CPUs, cannot be read.
    pub(crate) fn read() -> anyhow::Result<Self> {
        let network = HostNetwork::read()?;
        let machine = this_machine()?;
        let pages = machine.nodes.iter().flat_map(|node| &node.huge_pages);
        let free = pages.map(|pages| pages.free_count.unwrap_or(0) * pages.page_bytes);
        let devices = network.devices.iter().map(|device| device.name.clone());
        let of = |name: String| (name.clone(), DeviceFacts::read(&name));
        let is_on = |file: &str| read(file).is_some_and(|text| text.trim() != "0");
        let forwards = ["ipv4/ip_forward", "ipv6/conf/all/forwarding"];
        Ok(Self {
            devices: devices.map(of).collect(),
            cards: cards(),
            cpus: machine.limits.usable().iter().collect(),
            free_huge_mib: free.sum::<u64>() >> 20,
            forwards: forwards.map(|key| is_on(&format!("/proc/sys/net/{key}"))),
            capabilities: capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.permitted),
            network,
        })
    }

    /// True if this process may have the capability `name`, such as `CAP_NET_ADMIN`.
    pub(crate) fn may(&self, name: &str) -> bool {
        let known = name.strip_prefix("CAP_").and_then(CapabilitySet::from_name);
        known.is_some_and(|known| self.capabilities.contains(known))
    }
}

impl DeviceFacts {
    fn read(name: &str) -> Self {
        let folder = Path::new("/sys/class/net").join(name);
        let link = |path: &Path| Some(fs::read_link(path).ok()?.file_name()?.to_str()?.to_owned());
        let queues = fs::read_dir(folder.join("queues")).into_iter().flatten().flatten();
        let is_rx = |file: &fs::DirEntry| file.file_name().to_string_lossy().starts_with("rx-");
        Self {
            driver: link(&folder.join("device/driver")),
            pci_address: link(&folder.join("device")).filter(|name| is_pci_address(name)),
            rx_queues: queues.filter(is_rx).count(),
            offloads: receive_offloads(name).unwrap_or_default(),
        }
    }
}

/// True for the name of a PCI device, such as `0000:3b:00.0`.
fn is_pci_address(name: &str) -> bool {
    name.split([':', '.']).map(str::len).eq([4, 2, 2, 1])
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok()
}

fn cards() -> BTreeMap<String, Option<String>> {
    let entries = fs::read_dir("/sys/bus/pci/devices").into_iter().flatten().flatten();
    let card = |entry: fs::DirEntry| {
        let class = read(entry.path().join("class"))?;
        let driver = fs::read_link(entry.path().join("driver")).ok();
        let driver = driver.and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
        let name = entry.file_name().to_str()?.to_owned();
        class.starts_with(NETWORK_CLASS).then_some((name, driver))
    };
    entries.filter_map(card).collect()
}
