//! What ports of the kernel require of their interfaces and routes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_kernel::KernelDevice;
use adit_types::{InterfaceRole, VlanId};

use super::section::ConfigSection;
use super::{InterfaceSettings, IpNet, RouteSettings};

/// Notes what an interface on a port of the kernel cannot have.
pub(super) fn check_interface(
    section: &ConfigSection<'_, '_>,
    device: &KernelDevice,
    role: InterfaceRole,
    vlan: VlanId,
) {
    if vlan != VlanId::UNTAGGED {
        section.problem("vlan", "is not for ports of the kernel: its devices handle tags");
    }
    match (device, role.is_gtpu()) {
        (KernelDevice::Udp, false) => section.problem(
            "port",
            "kernel:udp carries GTP-U; an n6 interface needs a port with kernel:tun,name=NAME",
        ),
        (KernelDevice::Tun { .. }, true) => section.problem(
            "port",
            "kernel:tun carries plain IP; an interface with GTP-U needs a port with kernel:udp",
        ),
        _ => {}
    }
}

/// Notes more receive queues of a port of the kernel than threads receive: each of these reads one at most.
pub(super) fn check_queues(
    section: &ConfigSection<'_, '_>,
    rx_queues: Option<u16>,
    receiving: usize,
) {
    if rx_queues.is_some_and(|queues| usize::from(queues) > receiving) {
        let what = format!("takes at most {receiving}: a thread reads one queue of a kernel port");
        section.problem("rx_queues", what);
    }
}

/// The default routes of interfaces behind which the kernel routes, unless `routes` has them: each family
/// of each interface, except where another interface of the same role and network instance has one.
pub(super) fn default_routes(
    interfaces: &[InterfaceSettings],
    is_taken: impl Fn(&[RouteSettings], IpNet, usize) -> bool,
    routes: &mut Vec<RouteSettings>,
) {
    for (index, interface) in interfaces.iter().enumerate().filter(|(_, at)| at.is_kernel) {
        let v4 = interface.v4.map(|_| IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let v6 = interface.v6.map(|_| IpAddr::V6(Ipv6Addr::UNSPECIFIED));
        for addr in v4.into_iter().chain(v6) {
            let prefix = IpNet { addr, len: 0 };
            if !is_taken(routes, prefix, index) {
                routes.push(RouteSettings { interface: index, prefix, next_hop: addr });
            }
        }
    }
}

/// The address that stands for the kernel as the next hop of a route.
pub(super) const fn kernel_next_hop(prefix: IpNet) -> IpAddr {
    match prefix.addr {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}
