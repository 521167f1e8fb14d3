//! Reads the addresses of a network device of this host.

use std::net::IpAddr;

use nix::ifaddrs::getifaddrs;

/// Returns the addresses of a network device, without link-local ones, in the kernel's order. Empty
/// if there is no such device.
#[must_use]
pub fn device_addresses(device: &str) -> Vec<IpAddr> {
    let all = getifaddrs().into_iter().flatten().filter(|of| of.interface_name == device);
    let address = all.filter_map(|of| {
        let address = of.address?;
        let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
    });
    let is_of_link = |of: &IpAddr| matches!(of, IpAddr::V6(v6) if v6.is_unicast_link_local());
    address.filter(|address| !is_of_link(address)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_device_has_its_address_and_an_unknown_one_has_none() {
        assert!(device_addresses("lo").contains(&IpAddr::from([127, 0, 0, 1])));
        assert_eq!(device_addresses("no-such-device"), Vec::<IpAddr>::new());
    }
}
