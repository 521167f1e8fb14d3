//! Addresses that adit has while it is active, on virtual devices. Needs root; without it the tests
//! print `skipped: reason`.

use std::net::{IpAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;
use std::time::{Duration, Instant};

use adit_kernel::{DeviceAddress, HostAddresses, IpNetwork, KernelPort, UdpPort, UdpPortConfig};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, socket};

const LIFETIME: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(10);

const V4: &str = "10.7.0.2/24";
const V6: &str = "fd07::2/64";

/// Runs `test` in a namespace of its own with the devices `one` and `two`, which a wire connects.
pub(crate) fn with_devices(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(move || {
        // SAFETY: takes a number; it changes this thread only.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            println!("skipped: no right to create network namespaces");
            return;
        }
        ip("link set lo up");
        ip("link add one type veth peer name two");
        ip("link set one up");
        ip("link set two up");
        test();
    });
    thread.join().unwrap();
}

pub(crate) fn ip(arguments: &str) {
    assert!(Command::new("ip").args(arguments.split(' ')).status().unwrap().success());
}

fn wanted(networks: &[&str]) -> Vec<DeviceAddress> {
    let one = |text: &&str| {
        let (addr, len) = text.split_once('/').unwrap();
        let network = IpNetwork { addr: addr.parse().unwrap(), len: len.parse().unwrap() };
        DeviceAddress { device: "one".to_owned(), network }
    };
    networks.iter().map(one).collect()
}

/// True if this host has the address.
fn has(network: &str) -> bool {
    let addr: IpAddr = network.split_once('/').unwrap().0.parse().unwrap();
    UdpSocket::bind((addr, 0)).is_ok()
}

#[test]
fn addresses_are_there_until_they_are_dropped() {
    with_devices(|| {
        let addresses = HostAddresses::add(&wanted(&[V4, V6]), LIFETIME).unwrap();
        assert!(has(V4) && has(V6));
        drop(addresses);
        assert!(!has(V4) && !has(V6));
    });
}

#[test]
fn port_of_an_address_that_comes_later_receives_from_then_on() {
    with_devices(|| {
        for network in [V4, V6] {
            let addr: IpAddr = network.split_once('/').unwrap().0.parse().unwrap();
            let open = |free_bind| {
                let addresses = vec![(addr, 2152).into()];
                UdpPort::open(&UdpPortConfig { addresses, mtu_bytes: 1500, free_bind })
            };
            assert!(open(false).is_err(), "the host does not have {network}");
            let port = KernelPort::Udp(open(true).unwrap());
            let addresses = HostAddresses::add(&wanted(&[network]), LIFETIME).unwrap();
            let client = UdpSocket::bind((addr, 0)).unwrap();
            let mut octets = [0; 16];
            let socket = port.sockets().next().unwrap().as_raw_fd();
            let since = Instant::now();
            while recv(socket, &mut octets, MsgFlags::empty()) != Ok(6) {
                assert!(since.elapsed() < PATIENCE, "{network}");
                client.send_to(b"packet", (addr, 2152)).unwrap();
            }
            drop(addresses);
        }
    });
}

#[test]
fn address_that_the_device_has_for_good_stays() {
    with_devices(|| {
        ip(&format!("address add {V4} dev one"));
        ip(&format!("address add {V6} dev one nodad"));
        let mut addresses = HostAddresses::add(&wanted(&[V4, V6]), LIFETIME).unwrap();
        addresses.prolong(Duration::from_secs(1)).unwrap();
        drop(addresses);
        assert!(has(V4) && has(V6));
        std::thread::sleep(Duration::from_secs(3));
        assert!(has(V4) && has(V6), "it has no lifetime");
    });
}

#[test]
fn address_of_a_killed_process_goes_by_itself_and_the_next_process_can_have_it() {
    with_devices(|| {
        let killed = HostAddresses::add(&wanted(&[V4, V6]), LIFETIME).unwrap();
        std::mem::forget(killed);
        let mut next = HostAddresses::add(&wanted(&[V4, V6]), Duration::from_secs(2)).unwrap();
        for _ in 0..8 {
            std::thread::sleep(Duration::from_millis(500));
            assert!(has(V4) && has(V6), "they were prolonged");
            next.prolong(Duration::from_secs(2)).unwrap();
        }
        std::mem::forget(next);
        let since = Instant::now();
        while has(V4) || has(V6) {
            assert!(since.elapsed() < PATIENCE, "nobody prolongs them");
            std::thread::sleep(Duration::from_millis(50));
        }
    });
}

#[test]
fn device_that_does_not_exist_is_named_and_nothing_is_left_behind() {
    with_devices(|| {
        let mut addresses = wanted(&[V4, V6]);
        addresses[1].device = "nowhere".to_owned();
        let error = HostAddresses::add(&addresses, LIFETIME).unwrap_err().to_string();
        assert!(error.contains("nowhere"), "{error}");
        assert!(!has(V4));
    });
}

/// A socket that receives all frames of the namespace.
fn tap() -> OwnedFd {
    let (flags, protocol) = (SockFlag::SOCK_NONBLOCK, SockProtocol::EthAll);
    socket(AddressFamily::Packet, SockType::Raw, flags, protocol).unwrap()
}

#[test]
fn announcements_reach_the_link() {
    with_devices(|| {
        let addresses = HostAddresses::add(&wanted(&[V4, V6]), LIFETIME).unwrap();
        let tap = tap();
        let (mut has_arp, mut has_advertisement) = (false, false);
        let since = Instant::now();
        while !(has_arp && has_advertisement) {
            assert!(since.elapsed() < PATIENCE, "ARP: {has_arp}, ND: {has_advertisement}");
            let mut frame = [0; 2048];
            let Ok(len) = recv(tap.as_raw_fd(), &mut frame, MsgFlags::empty()) else {
                // A device sends only some time after it is up.
                addresses.announce().unwrap();
                std::thread::sleep(Duration::from_millis(5));
                continue;
            };
            let frame = &frame[..len];
            let source = &frame[6..12];
            match &frame[12..14] {
                // A request with our address as sender and target, to all.
                [0x08, 0x06] if frame[28..32] == [10, 7, 0, 2] => {
                    assert_eq!(frame[..6], [0xff; 6]);
                    assert_eq!((&frame[20..22], &frame[22..28]), (&[0, 1][..], source));
                    assert_eq!(frame[38..42], [10, 7, 0, 2]);
                    has_arp = true;
                }
                // An advertisement to all nodes, with Override, and the target's link-layer
                // address.
                [0x86, 0xdd] if frame[54] == 136 => {
                    assert_eq!(frame[..6], [0x33, 0x33, 0, 0, 0, 1]);
                    assert_eq!((frame[21], frame[58]), (255, 0x20));
                    let target: std::net::Ipv6Addr = "fd07::2".parse().unwrap();
                    assert_eq!(frame[62..78], target.octets());
                    assert_eq!((&frame[78..80], &frame[80..86]), (&[2, 1][..], source));
                    has_advertisement = true;
                }
                _ => {}
            }
        }
    });
}
