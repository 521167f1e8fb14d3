//! Ports of the kernel allocate nothing per packet. The TUN device needs root.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use adit_kernel::{IpNetwork, KernelPort, TunConfig, UdpPort, UdpPortConfig, open_tun};
use adit_pktio::mem::MemBuf;
use adit_pktio::{Burst, PacketBuf};

use crate::counting::allocations;

const PACKETS: usize = 200;
const PATIENCE: Duration = Duration::from_secs(10);

/// Exchanges source and destination of a frame with a UDP datagram over IPv4.
fn turn_around(frame: &mut [u8]) {
    for (one, other, len) in [(26, 30, 4), (34, 36, 2)] {
        (0..len).for_each(|at| frame.swap(one + at, other + at));
    }
}

/// Receives [`PACKETS`] frames through `port` and sends each back; returns the number of
/// allocations.
fn echo(mut port: KernelPort) -> usize {
    let mut stock: Vec<MemBuf> = (0..2 * PACKETS).map(|_| MemBuf::new()).collect();
    let (start, mut done) = (Instant::now(), 0);
    let allocations = allocations(|| {
        while done < PACKETS && start.elapsed() < PATIENCE {
            let mut burst = Burst::<MemBuf>::new();
            port.rx_burst(32, &mut burst, || stock.pop());
            burst.iter_mut().for_each(|buf| turn_around(buf.data_mut()));
            done += port.tx_burst(&mut burst);
        }
    });
    assert_eq!(done, PACKETS);
    let counters = port.counters().read();
    assert_eq!(counters.tx_pkts, u64::try_from(PACKETS).unwrap(), "{counters:?}");
    allocations
}

fn send(to: SocketAddr, from: IpAddr) {
    let client = UdpSocket::bind((from, 0)).unwrap();
    for number in 0..PACKETS {
        let len = if number % 3 == 0 { 100 } else { 1000 };
        client.send_to(&vec![7; len], to).unwrap();
    }
    // The datagrams have to find the socket open.
    std::mem::forget(client);
}

#[test]
fn sockets_receive_and_send_without_an_allocation() {
    let addresses = vec!["127.0.0.1:0".parse().unwrap()];
    let port =
        UdpPort::open(&UdpPortConfig { addresses, mtu_bytes: 1500, free_bind: false }).unwrap();
    let bound = port.local_addresses().next().unwrap();
    send(bound, Ipv4Addr::LOCALHOST.into());
    assert_eq!(echo(KernelPort::Udp(port)), 0);
}

#[test]
fn tun_device_receives_and_sends_without_an_allocation() {
    // SAFETY: takes a number; it changes this thread only.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        println!("skipped: no right to create network namespaces");
        return;
    }
    let net = |addr: [u8; 4], len| IpNetwork { addr: IpAddr::from(addr), len };
    let config = TunConfig {
        name: "adit0",
        queues: 1,
        mtu_bytes: 1500,
        addresses: &[net([10, 9, 0, 1], 32)],
        routes: &[net([10, 45, 0, 0], 16)],
    };
    let queue = open_tun(&config).unwrap().remove(0);
    send("10.45.0.7:4000".parse().unwrap(), [10, 9, 0, 1].into());
    assert_eq!(echo(KernelPort::Tun(queue)), 0);
}
