//! A running `adit` on devices of DPDK, with links of 9000 octets where the driver has them. Behind
//! each port is a kernel with its default offloads: it joins datagrams, leaves checksums open and
//! fragments longer packets.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::associated_smf::TestSmf;
use crate::load::LoadSession;
use crate::smf;
use adit_dpdk::{
    Device, Eal, EalConfig, HugepageMode, Mbuf, Mempool, MempoolConfig, Port, PortConfig,
};
use adit_kernel::{PacketConfig, open_packet};
use adit_pktio::Burst;
use adit_testkit::packet::PacketBuilder;
use adit_tests::daemon::{self, Daemon};
use adit_tests::process::{ChildProcess, TestNamespace, is_root};
use adit_types::Teid;
use adit_wire::checksum::Sum;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::UdpGsoSegment;
use rustix::net::sockopt::{Ipv4PathMtuDiscovery, set_ip_mtu_discover};

/// Environment variables of the runs inside the daemon's namespace: the MTU of adit's ports for its
/// peers, or `bridge`, its devices and the folder of their sockets.
pub(crate) const PART: &str = "ADIT_TEST_PART";
pub(crate) const DEVICES: &str = "ADIT_TEST_DEVICES";
pub(crate) const FOLDER: &str = "ADIT_TEST_FOLDER";
const PATIENCE: Duration = Duration::from_secs(60);

const MTU: usize = 9000;
/// The MTU of `net_tap`, whose driver sends no longer packets.
pub(crate) const SHORT: usize = 1500;
/// Octets that a tunnel adds in front of a packet, and the headers of a datagram. Unit: octets.
const TUNNEL: usize = 20 + 8 + GTPU;
const GTPU: usize = 16;
pub(crate) const HEADERS: usize = 20 + 8;
/// The longest datagram.
const LONGEST: usize = 65_507;
/// Datagrams that a kernel gets as one: each fits a packet.
const SEGMENT: u16 = 1300;
const AT_ONCE: usize = 12 * SEGMENT as usize + 7;

/// The host behind N6, and the device of the kernel at the far end of each port.
pub(crate) const SERVER: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 0, 6, 1)), 5000);
const FAR: [&str; 2] = ["far0", "far1"];
/// The other ends of veth pairs.
pub(crate) const NEAR: [&str; 2] = ["near0", "near1"];
const FAR_ADDRESSES: [&str; 2] = ["198.51.100.2/24", "10.0.6.1/24"];

/// The part of the test that runs in the namespace, or `None` in the test itself.
fn part() -> Option<String> {
    std::env::var(PART).ok()
}

/// The kernel gets addresses at its ends of the links, and a route to UEs.
fn raise_far_ends(namespace: &TestNamespace) {
    for (device, address) in FAR.into_iter().zip(FAR_ADDRESSES) {
        namespace.ip(&["link", "set", device, "addrgenmode", "none", "up"]);
        namespace.ip(&["address", "add", address, "dev", device]);
    }
    namespace.ip(&["route", "add", "10.44.0.0/14", "via", "10.0.6.2"]);
}

/// A veth pair for each port, which carries packets of `mtu` octets at its far end.
pub(crate) fn link(namespace: &TestNamespace, mtu: usize) {
    for (near, far) in NEAR.into_iter().zip(FAR) {
        namespace.ip(&["link", "add", near, "type", "veth", "peer", "name", far]);
        namespace.ip(&["link", "set", near, "addrgenmode", "none", "up"]);
        namespace.ip(&["link", "set", far, "mtu", &mtu.to_string()]);
    }
    raise_far_ends(namespace);
}

/// A daemon on two devices. Only one with longer packets has room for them in its buffers.
fn start(namespace: TestNamespace, devices: &[String; 2], mtu: usize) -> Option<Daemon> {
    Daemon::start_in(namespace, |dir| {
        let [access, core] = devices;
        let ports = daemon::interfaces([access, core], &smf::N3.to_string());
        let ports = ports.replace("device =", &format!("mtu_bytes = {mtu}\ndevice ="));
        let node = daemon::node(100, &daemon::cores()[..1], dir);
        node.replace("memory_mib = 64", "memory_mib = 256") + &ports
    })
}

/// Exchanges packets with a daemon, and ends it. Returns its counters.
fn exchange(daemon: Daemon, test: &str, mtu: usize) -> serde_json::Value {
    let output =
        ChildProcess::start(daemon.this_test(test).env(PART, mtu.to_string())).finish(PATIENCE);
    let said = String::from_utf8_lossy(&output.stderr);
    let counters = daemon.show("counters");
    assert!(output.status.success(), "{said}\n{counters}\n{}", daemon.show("ports"));
    assert_eq!(counters["identity_holds"], true, "{counters}");
    assert!(daemon.stop().status.success());
    counters
}

#[test]
fn packets_of_a_kernel_pass_net_tap() {
    let _alone = crate::alone();
    const TEST: &str = "jumbo::packets_of_a_kernel_pass_net_tap";
    if let Some(mtu) = part() {
        return exchange_all(mtu.parse().unwrap());
    }
    if !is_root() {
        return;
    }
    let devices = [0, 1].map(|number| format!("net_tap{number},iface={}", FAR[number]));
    let Some(daemon) = start(TestNamespace::new("taps"), &devices, SHORT) else { return };
    raise_far_ends(daemon.namespace());
    let counters = exchange(daemon, TEST, SHORT);
    assert_eq!(counters["dropped_pkts"], 0, "{counters}");
}

#[test]
fn jumbo_packets_and_fragments_pass_net_af_packet_which_cuts_joined_ones() {
    let _alone = crate::alone();
    const TEST: &str =
        "jumbo::jumbo_packets_and_fragments_pass_net_af_packet_which_cuts_joined_ones";
    if let Some(mtu) = part() {
        let peers = KernelPeers::new(mtu.parse().unwrap());
        peers.pass_singly();
        // The kernel passes them as one, which no slot holds.
        setsockopt(&peers.server, UdpGsoSegment, &SEGMENT.into()).unwrap();
        peers.send_down(AT_ONCE);
        assert_eq!(peers.receive_down(), None);
        return;
    }
    if !is_root() {
        return;
    }
    for mtu in [SHORT, MTU] {
        let namespace = TestNamespace::new("afpacket");
        link(&namespace, mtu);
        let devices = [0, 1].map(|nth| format!("net_af_packet{nth},iface={}", NEAR[nth]));
        let Some(daemon) = start(namespace, &devices, mtu) else { return };
        let counters = exchange(daemon, TEST, mtu);
        assert_eq!(counters["drops"]["frame_cut"], 1, "{counters}");
        assert_eq!(counters["dropped_pkts"], 1, "{counters}");
    }
}

#[test]
fn jumbo_packets_pass_net_memif() {
    let _alone = crate::alone();
    const TEST: &str = "jumbo::jumbo_packets_pass_net_memif";
    pass_bridge(TEST, "jumbomemif", memif);
}

#[test]
fn jumbo_packets_pass_net_virtio_user() {
    let _alone = crate::alone();
    const TEST: &str = "jumbo::jumbo_packets_pass_net_virtio_user";
    pass_bridge(TEST, "jumbovirtio", virtio);
}

/// The devices of adit and of a bridge, number `number` of each, with a socket in `dir`.
type LinkDevices = fn(&Path, usize) -> [String; 2];

pub(crate) fn memif(dir: &Path, number: usize) -> [String; 2] {
    let socket = dir.join(format!("link{number}"));
    ["client", "server"].map(|role| {
        format!("net_memif{number},role={role},socket={},socket-abstract=no", socket.display())
    })
}

fn virtio(dir: &Path, number: usize) -> [String; 2] {
    let socket = dir.join(format!("link{number}"));
    let socket = socket.display();
    [
        format!("net_virtio_user{number},path={socket},queues=1"),
        format!("net_vhost{number},iface={socket},queues=1"),
    ]
}

/// A process that moves frames between a daemon and a kernel while the folder of its sockets
/// exists.
struct Bridge {
    process: ChildProcess,
    dir: tempfile::TempDir,
}

impl Bridge {
    fn end(self) {
        drop(self.dir);
        assert!(self.process.finish(PATIENCE).status.success());
    }
}

/// A daemon and a bridge in the namespace of `purpose`, whose links to each other are `links`.
fn start_with_bridge(
    test: &str,
    purpose: &str,
    links: LinkDevices,
    mtu: usize,
) -> Option<(Daemon, Bridge)> {
    if !is_root() {
        return None;
    }
    let (namespace, dir) = (TestNamespace::new(purpose), tempfile::tempdir().unwrap());
    let [[first, first_far], [second, second_far]] = [0, 1].map(|nth| links(dir.path(), nth));
    link(&namespace, MTU);
    let mut command = namespace.this_test(test);
    command.env(PART, "bridge").env(DEVICES, format!("{first_far} {second_far}"));
    command.env(FOLDER, dir.path());
    let mut process = ChildProcess::start(&mut command);
    process.wait_for("the bridge runs");
    Some((start(namespace, &[first, second], mtu)?, Bridge { process, dir }))
}

fn pass_bridge(test: &str, purpose: &str, links: LinkDevices) {
    match part().as_deref() {
        Some("bridge") => return run_bridge(),
        Some(mtu) => return exchange_all(mtu.parse().unwrap()),
        None => {}
    }
    let Some((daemon, bridge)) = start_with_bridge(test, purpose, links, MTU) else { return };
    let counters = exchange(daemon, test, MTU);
    assert_eq!(counters["dropped_pkts"], 0, "{counters}");
    bridge.end();
}

/// The peers' MTU is larger than that of adit's port.
#[test]
fn frame_beyond_a_packet_buffer_is_dropped_as_the_fault_of_the_port() {
    let _alone = crate::alone();
    const TEST: &str = "jumbo::frame_beyond_a_packet_buffer_is_dropped_as_the_fault_of_the_port";
    match part().as_deref() {
        Some("bridge") => return run_bridge(),
        Some(_) => {
            let peers = KernelPeers::new(SHORT);
            peers.send_down(5000);
            return peers.expect_both_ways(1000);
        }
        None => {}
    }
    for (purpose, links) in [("longmemif", memif as LinkDevices), ("longvirtio", virtio)] {
        let Some((daemon, bridge)) = start_with_bridge(TEST, purpose, links, SHORT) else {
            return;
        };
        let counters = exchange(daemon, TEST, SHORT);
        assert_eq!(counters["drops"]["frame_segmented"], 1, "{purpose}: {counters}");
        assert_eq!(counters["dropped_pkts"], 1, "{purpose}: {counters}");
        bridge.end();
    }
}

/// Moves frames between each of [`DEVICES`] and a veth device.
pub(crate) fn run_bridge() {
    let [devices, folder] = [DEVICES, FOLDER].map(|name| std::env::var(name).unwrap());
    let config = EalConfig {
        hugepages: HugepageMode::Never,
        memory_mib: 256,
        file_prefix: format!("adit-test-{}", std::process::id()),
        ..EalConfig::default()
    };
    let eal = Eal::init(&config).unwrap();
    let pool = MempoolConfig { mbufs: 8191, data_room_bytes: 9344, ..MempoolConfig::default() };
    let pool = Mempool::create(&eal, &pool).unwrap();
    let mtu_bytes = u16::try_from(MTU).unwrap();
    let open = |(text, device): (&str, &str)| {
        let link: Device = text.parse().unwrap();
        let config = PortConfig {
            device: &link,
            rx_queues: 1,
            tx_queues: 1,
            rx_descriptors: 1024,
            tx_descriptors: 1024,
            mtu_bytes,
            promiscuous: false,
            mempool: &pool,
        };
        let link = Port::open(&eal, &config).unwrap();
        let host = open_packet(&PacketConfig { device, queues: 1, mtu_bytes }).unwrap().remove(0);
        (link, host, [Burst::<Mbuf>::new(), Burst::new()])
    };
    let mut bridged: Vec<_> = devices.split(' ').zip(NEAR).map(open).collect();
    eprintln!("the bridge runs");
    let mut moved = 0;
    while moved > 0 || Path::new(&folder).exists() {
        moved = 0;
        for ((_, rx, tx), host, [to_link, to_host]) in &mut bridged {
            moved += rx[0].rx_burst(32, to_host) + host.rx_burst(32, to_link, || pool.alloc());
            tx[0].tx_burst(to_link);
            host.tx_burst(to_host);
        }
        if moved == 0 {
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

/// A gNB with one session, and a host in the data network.
pub(crate) struct KernelPeers {
    gnb: UdpSocket,
    server: UdpSocket,
    ue: SocketAddr,
    teid: Teid,
    /// The MTU of adit's ports.
    mtu: usize,
}

/// 251 is prime, so that a wrong offset is detected.
pub(crate) fn payload(len: usize) -> Vec<u8> {
    (0..=250).cycle().take(len).collect()
}

impl KernelPeers {
    /// Establishes the session.
    pub(crate) fn establish(mtu: usize) -> Self {
        Self::establish_by(&mut TestSmf::associated(), mtu)
    }

    /// Establishes the session by an SMF with an association.
    pub(crate) fn establish_by(smf: &mut TestSmf, mtu: usize) -> Self {
        let LoadSession { ue, teid } = LoadSession::establish(smf, 5).unwrap();
        let bind = |addr: SocketAddr| {
            let socket = UdpSocket::bind(addr).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::DONT).unwrap();
            socket
        };
        let gnb = bind((smf::GNB, adit_wire::gtpu::UDP_PORT).into());
        Self { gnb, server: bind(SERVER), ue: (ue, 4000).into(), teid, mtu }
    }

    /// The same. Waits until packets pass both ways.
    fn new(mtu: usize) -> Self {
        Self::establish(mtu).passing()
    }

    /// Waits until packets pass both ways.
    pub(crate) fn passing(self) -> Self {
        let peers = self;
        let end = Instant::now() + Duration::from_secs(20);
        for way in [Self::send_up, Self::send_down] {
            way(&peers, 100);
            while peers.receive_up().is_none() && peers.receive_down().is_none() {
                assert!(Instant::now() < end, "nothing passes");
                way(&peers, 100);
            }
        }
        // Copies that came late.
        while peers.receive_up().is_some() || peers.receive_down().is_some() {}
        peers.server.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        peers.gnb.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        peers
    }

    /// The UE sends a datagram, in fragments that fill a GTP-U packet of the link. One that fits N6
    /// is in one piece: the gNB's kernel fragments the GTP-U packet.
    pub(crate) fn send_up(&self, len: usize) {
        let SocketAddr::V4(ue) = self.ue else { unreachable!() };
        let SocketAddr::V4(server) = SERVER else { unreachable!() };
        let packet =
            || PacketBuilder::new().gtpu(self.teid.0).psc_ul(9).ipv4(*ue.ip(), *server.ip());
        let send = |packet: &PacketBuilder| {
            self.gnb.send_to(&packet.build(), (smf::N3, adit_wire::gtpu::UDP_PORT)).unwrap();
        };
        if len + HEADERS <= self.mtu {
            return send(&packet().udp(ue.port(), server.port()).payload(&payload(len)));
        }
        let whole = PacketBuilder::new().ipv4(*ue.ip(), *server.ip());
        let whole = whole.udp(ue.port(), server.port()).payload(&payload(len)).build();
        let room = (self.mtu - TUNNEL - 20) / 8 * 8;
        let parts = whole[20..].chunks(room);
        let last = parts.len() - 1;
        for (number, part) in parts.enumerate() {
            let offset = u16::try_from(number * room / 8).unwrap();
            send(&packet().protocol(17).fragment(7, offset, number < last).payload(part));
        }
    }

    fn send_down(&self, len: usize) {
        self.server.send_to(&payload(len), self.ue).unwrap();
    }

    /// A datagram that the server receives.
    fn receive_up(&self) -> Option<Vec<u8>> {
        let mut octets = vec![0; 65_536];
        let len = self.server.recv(&mut octets).ok()?;
        octets.truncate(len);
        Some(octets)
    }

    /// The datagram that the UE receives, in one packet or in fragments.
    pub(crate) fn receive_down(&self) -> Option<Vec<u8>> {
        let (mut datagram, mut addresses) = (Vec::new(), [0; 8]);
        let mut octets = vec![0; 65_536];
        loop {
            let len = self.gnb.recv(&mut octets).ok()?;
            // Other messages, such as Echo Requests, belong to the path.
            if octets[1] != 255 {
                continue;
            }
            let inner = &octets[GTPU..len];
            let total = usize::from(u16::from_be_bytes([inner[2], inner[3]]));
            assert_eq!((inner[0], inner.len()), (0x45, total));
            // A host whose server is not there yet answers by ICMP.
            if inner[9] != 17 {
                continue;
            }
            let fragment = u16::from_be_bytes([inner[6], inner[7]]);
            assert_eq!(datagram.len(), usize::from(fragment & 0x1fff) * 8);
            datagram.extend(&inner[20..]);
            addresses.copy_from_slice(&inner[12..20]);
            if fragment & 0x2000 == 0 {
                break;
            }
        }
        let len = u16::try_from(datagram.len()).unwrap();
        let sum = Sum::new().bytes(&addresses).word(17).word(len).bytes(&datagram);
        assert_eq!(sum.checksum(), 0, "the checksum of a datagram of {len} octets");
        Some(datagram.split_off(8))
    }

    /// Datagrams that fill N3 and N6, and the longest one.
    fn pass_singly(&self) {
        for len in [self.mtu - TUNNEL - HEADERS, self.mtu - HEADERS, LONGEST] {
            self.expect_both_ways(len);
        }
    }

    pub(crate) fn expect_both_ways(&self, len: usize) {
        self.send_up(len);
        assert!(self.receive_up() == Some(payload(len)), "uplink, {len} octets");
        self.send_down(len);
        assert!(self.receive_down() == Some(payload(len)), "downlink, {len} octets");
    }
}

/// Datagrams one by one, and those that a kernel gets as one.
fn exchange_all(mtu: usize) {
    let peers = KernelPeers::new(mtu);
    peers.pass_singly();
    setsockopt(&peers.server, UdpGsoSegment, &SEGMENT.into()).unwrap();
    peers.send_down(AT_ONCE);
    for part in payload(AT_ONCE).chunks(SEGMENT.into()) {
        assert!(peers.receive_down().as_deref() == Some(part), "joined datagrams");
    }
}
