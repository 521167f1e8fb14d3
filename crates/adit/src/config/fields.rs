//! Values that occur in several sections.

use std::collections::BTreeSet;
use std::net::IpAddr;

use adit_types::{Ipv4Prefix, Ipv6Prefix};

use super::IpNet;
use super::section::ConfigSection;

/// The upper limit of waiting packets, for error messages.
pub(super) const HALF_OF_MBUFS: &str = "half of the dpdk.mempool_mbufs that tunnel packets in fragments \
                                        (512 for each worker) and net_af_xdp devices leave: traffic \
                                        needs the rest";

/// The section's `network_instance`, if it has one.
pub(super) fn read_network_instance(section: &mut ConfigSection<'_, '_>) -> Option<String> {
    let name: Option<String> =
        section.parsed_optional("network_instance", "a name such as \"internet\"");
    let is_name = |name: &String| {
        (1..=100).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
    };
    if name.as_ref().is_some_and(|name| !is_name(name)) {
        section.problem("network_instance", "takes 1 to 100 printable characters without spaces");
    }
    name
}

/// The first address of the prefix.
pub(super) fn network(net: IpNet) -> Option<IpAddr> {
    Some(match net.addr {
        IpAddr::V4(addr) => Ipv4Prefix::containing(addr, net.len)?.addr().into(),
        IpAddr::V6(addr) => Ipv6Prefix::containing(addr, net.len)?.addr().into(),
    })
}

/// True if a list of CPU cores has one of them twice.
pub(super) fn names_twice(cores: &[u16]) -> bool {
    cores.iter().collect::<BTreeSet<_>>().len() != cores.len()
}
