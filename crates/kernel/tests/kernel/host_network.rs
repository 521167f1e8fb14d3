//! The kernel's devices, addresses and routes, as they are read.

use adit_kernel::{HostNetwork, IpNetwork, receive_offloads};

use crate::host_addresses::{ip, with_devices};

fn network(text: &str) -> IpNetwork {
    let (addr, len) = text.split_once('/').unwrap();
    IpNetwork { addr: addr.parse().unwrap(), len: len.parse().unwrap() }
}

#[test]
fn host_network_has_devices_with_addresses_masters_and_routes() {
    with_devices(|| {
        ip("link add bridge type bridge");
        ip("link set two master bridge");
        ip("link set one mtu 1400");
        ip("address add 10.7.0.2/24 dev one");
        ip("address add fd07::2/64 dev one");
        ip("route add default via 10.7.0.1");
        ip("route add 10.45.0.0/16 dev one");
        let host = HostNetwork::read().unwrap();
        let [one, two, lo] = ["one", "two", "lo"].map(|name| host.device(name).unwrap());
        assert_eq!((one.kind.as_deref(), one.mtu_bytes), (Some("veth"), 1400), "{one:?}");
        assert!(one.is_ethernet && one.is_up && !one.has_master && !one.has_xdp, "{one:?}");
        assert_eq!(one.addresses, [network("10.7.0.2/24"), network("fd07::2/64")]);
        assert!(two.has_master && two.addresses.is_empty(), "{two:?}");
        assert!(lo.is_loopback && !lo.is_ethernet, "{lo:?}");
        let (owner, address) = host.owner("10.7.0.2".parse().unwrap()).unwrap();
        assert_eq!((owner, address), (one, network("10.7.0.2/24")));
        let gateways = |device| host.default_gateways(device).collect::<Vec<_>>();
        let gateway: std::net::IpAddr = "10.7.0.1".parse().unwrap();
        assert_eq!(gateways(None), [gateway]);
        assert_eq!(gateways(Some(one.index)), [gateway]);
        assert!(gateways(Some(two.index)).is_empty());
        let users = host.routes.iter().find(|route| route.network == network("10.45.0.0/16"));
        assert_eq!(users.map(|route| (route.device, route.gateway)), Some((one.index, None)));
    });
}

#[test]
fn offloads_of_a_device_are_read_and_those_of_none_refused() {
    with_devices(|| {
        assert!(!receive_offloads("one").unwrap().lro);
        assert!(receive_offloads("three").is_err());
        assert!(receive_offloads("a-name-that-is-too-long").is_err());
    });
}
