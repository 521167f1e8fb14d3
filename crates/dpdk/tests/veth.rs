//! Frames from a kernel interface in another network namespace and back, over AF_PACKET.
//!
//! Needs root: creates a veth pair between two namespaces and removes both, also on failure. Prints
//! `skipped: reason` if that is not possible.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::process::Command;
use std::time::{Duration, Instant};

use adit_dpdk::{
    Device, Eal, EalConfig, HugepageMode, Mempool, MempoolConfig, Port, PortConfig, PortError,
    RxQueue, TxQueue,
};
use adit_pktio::{Burst, PacketBuf};
use adit_wire::checksum::Sum;

/// Local experimental EtherType (IEEE 802), so that nothing else answers.
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];

/// Above the 1500 bytes that the driver declares as its maximum.
const MTU: u16 = 1600;

/// Timeout for a frame; frames take microseconds.
const TIMEOUT: Duration = Duration::from_secs(5);

fn ip(args: &str) -> Result<(), String> {
    let output = Command::new("ip")
        .args(args.split(' '))
        .output()
        .map_err(|error| format!("`ip` cannot run: {error}"))?;
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(format!("`ip {args}`: {message}")) }
}

/// Two namespaces joined by a veth pair. Drop removes them.
struct VethPair {
    dut: String,
    peer: String,
}

impl VethPair {
    fn create() -> Result<Self, String> {
        let id = std::process::id();
        let lab = Self { dut: format!("adit-dut-{id}"), peer: format!("adit-peer-{id}") };
        for namespace in [&lab.dut, &lab.peer] {
            ip(&format!("netns add {namespace}"))?;
        }
        let (dut, peer) = (&lab.dut, &lab.peer);
        ip(&format!("link add port netns {dut} type veth peer name far netns {peer}"))?;
        for (namespace, link) in [(dut, "port"), (peer, "far")] {
            ip(&format!("-n {namespace} link set {link} mtu {MTU} addrgenmode none"))?;
            ip(&format!("-n {namespace} link set {link} up"))?;
        }
        Ok(lab)
    }

    /// Moves the calling thread into a namespace.
    fn enter(namespace: &str) {
        let file = std::fs::File::open(format!("/run/netns/{namespace}")).unwrap();
        let kind = Some(rustix::thread::LinkNameSpaceType::Network);
        rustix::thread::move_into_link_name_space(file.as_fd(), kind).unwrap();
    }
}

impl Drop for VethPair {
    fn drop(&mut self) {
        for namespace in [&self.dut, &self.peer] {
            let _gone_already = ip(&format!("netns del {namespace}"));
        }
    }
}

fn frame(tag: &[u8], text: &[u8]) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 1]);
    frame.extend(tag);
    frame.extend(ETHERTYPE);
    frame.extend(text);
    frame.resize(64, 0);
    frame
}

fn is_ours(frame: &[u8]) -> bool {
    let tag = if frame.get(12..14) == Some(&[0x81, 0x00]) { 4 } else { 0 };
    frame.get(12 + tag..14 + tag) == Some(&ETHERTYPE)
}

fn open(eal: &Eal, pool: &Mempool, text: &str) -> Result<(Port, RxQueue, TxQueue), PortError> {
    let device: Device = text.parse().unwrap();
    let config = PortConfig {
        device: &device,
        rx_queues: 1,
        tx_queues: 1,
        rx_descriptors: 256,
        tx_descriptors: 256,
        mtu_bytes: MTU,
        promiscuous: true,
        mempool: pool,
    };
    let (port, mut rx, mut tx) = Port::open(eal, &config)?;
    Ok((port, rx.remove(0), tx.remove(0)))
}

/// Waits for the next of our frames.
fn receive(rx: &mut RxQueue) -> Vec<u8> {
    receive_such(rx, is_ours)
}

fn receive_such(rx: &mut RxQueue, is_wanted: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let start = Instant::now();
    let mut burst = Burst::new();
    while start.elapsed() < TIMEOUT {
        rx.rx_burst(32, &mut burst);
        let found = burst.drain(..).find(|packet| is_wanted(packet.data()));
        if let Some(packet) = found {
            return packet.data().to_vec();
        }
    }
    panic!("no frame within {TIMEOUT:?}");
}

fn send(pool: &Mempool, tx: &mut TxQueue, frame: &[u8]) {
    let mut packet = pool.alloc().unwrap();
    packet.append(frame.len()).unwrap().copy_from_slice(frame);
    let mut burst = Burst::new();
    burst.push(packet);
    assert_eq!(tx.tx_burst(&mut burst), 1);
}

#[test]
fn frames_cross_a_veth_pair_unchanged_both_ways() {
    if !rustix::process::geteuid().is_root() {
        adit_testkit::skip("not root, cannot make network namespaces");
        return;
    }
    let lab = match VethPair::create() {
        Ok(lab) => lab,
        Err(reason) => {
            adit_testkit::skip(reason);
            return;
        }
    };
    let config = EalConfig {
        hugepages: HugepageMode::Never,
        memory_mib: 64,
        file_prefix: format!("adit-veth-{}", std::process::id()),
        ..EalConfig::default()
    };
    let eal = Eal::init(&config).unwrap();
    let pool = MempoolConfig { mbufs: 2047, ..MempoolConfig::default() };
    let pool = Mempool::create(&eal, &pool).unwrap();

    VethPair::enter(&lab.dut);
    let error = open(&eal, &pool, "net_af_packet0,iface=far").unwrap_err();
    assert!(matches!(error, PortError::InterfaceMissing { .. }), "{error}");
    let (port, mut rx, mut tx) = open(&eal, &pool, "net_af_packet0,iface=port").unwrap();
    assert!(port.details().unwrap().link_up);
    VethPair::enter(&lab.peer);
    let (_far, mut far_rx, mut far_tx) = open(&eal, &pool, "net_af_packet1,iface=far").unwrap();

    let plain = frame(&[], b"out");
    send(&pool, &mut tx, &plain);
    assert_eq!(receive(&mut far_rx), plain);
    let tagged = frame(&[0x81, 0x00, 0x00, 0x2a], b"back");
    send(&pool, &mut far_tx, &tagged);
    assert_eq!(receive(&mut rx), tagged, "the VLAN tag must survive");
    let long = [frame(&[], b"long"), vec![0x5a; usize::from(MTU) + 14 - 64]].concat();
    send(&pool, &mut far_tx, &long);
    assert_eq!(receive(&mut rx), long);
    kernel_sends_a_datagram(&mut rx);
    let stats = port.stats().unwrap();
    assert!(stats.ipackets >= 2 && stats.opackets == 1, "{stats:?}");
    drop(lab);
}

/// In the namespace of the peer. A veth leaves checksums open: its other end is expected to be a
/// kernel.
fn kernel_sends_a_datagram(rx: &mut RxQueue) {
    for command in ["addr add 10.9.0.1/24 dev far", "neigh add 10.9.0.2 lladdr 2:0:0:0:0:9 dev far"]
    {
        ip(command).unwrap();
    }
    let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
    socket.send_to(b"hello world", "10.9.0.2:7777").unwrap();
    let is_it = |frame: &[u8]| frame.ends_with(b"hello world");
    let frame = receive_such(rx, is_it);
    let (addrs, segment) = (&frame[26..34], &frame[34..]);
    let pseudo = Sum::new().bytes(addrs).word(17).word(19);
    assert_eq!(pseudo.bytes(segment).checksum(), 0, "{segment:?}");
}
