//! Linux capabilities: those that a configuration needs, and those that the program's file grants.

use adit_dpdk::Device;
use adit_kernel::KernelDevice;
use rustix::thread::{CapabilitySets, capabilities, set_capabilities};

use crate::config::{Config, PortDevice};

/// Makes all permitted capabilities of this process effective. The program's file may grant some
/// without their effective bit (`setcap …=p`, as in the image): if it set that bit, the kernel
/// would not start the program in a container that withholds one of them.
pub(crate) fn use_permitted() {
    let Ok(sets) = capabilities(None) else { return };
    if sets.effective != sets.permitted {
        // The kernel never refuses this. A port that still lacks a capability reports it.
        let _ = set_capabilities(None, CapabilitySets { effective: sets.permitted, ..sets });
    }
}

/// Returns the capabilities that the configured ports and addresses need. docs/install.md lists
/// those that a single setting needs, and what needs root.
pub(crate) fn needed(config: &Config) -> Vec<&'static str> {
    let mut needed: Vec<_> =
        config.ports.iter().flat_map(|port| of_port(&port.device)).copied().collect();
    if config.standby.as_ref().is_some_and(|standby| !standby.addresses.is_empty()) {
        needed.extend(&["CAP_NET_ADMIN", "CAP_NET_RAW"]);
    }
    let twins = || config.interfaces.iter().filter_map(|known| known.twin.as_ref());
    needed.extend(twins().map(|_| "CAP_NET_ADMIN"));
    needed.extend(twins().filter(|twin| twin.netns.is_some()).map(|_| "CAP_SYS_ADMIN"));
    needed.sort_unstable();
    needed.dedup();
    needed
}

fn of_port(device: &PortDevice) -> &'static [&'static str] {
    match device {
        PortDevice::Kernel(KernelDevice::Udp) => &[],
        PortDevice::Kernel(KernelDevice::Tun { .. }) => &["CAP_NET_ADMIN"],
        PortDevice::Kernel(KernelDevice::Packet { .. }) => &["CAP_NET_ADMIN", "CAP_NET_RAW"],
        PortDevice::Dpdk(device) => of_device(device),
    }
}

fn of_device(device: &Device) -> &'static [&'static str] {
    if device.is_driver("net_af_xdp") {
        return &["CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_SYS_ADMIN"];
    }
    if device.is_driver("net_af_packet") {
        return &["CAP_NET_ADMIN", "CAP_NET_RAW"];
    }
    if device.is_driver("net_tap") {
        return &["CAP_NET_ADMIN"];
    }
    &[]
}
