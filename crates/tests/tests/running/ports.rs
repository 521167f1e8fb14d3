//! Ports of a running `adit`: what `adit show ports` shows, and packets over several queues.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::smf;
use adit_dpdk::{
    Device, Eal, EalConfig, HugepageMode, Mbuf, Mempool, MempoolConfig, Port, PortConfig, RxQueue,
    TxQueue, register_thread,
};
use adit_pfcp::Message;
use adit_pktio::{Burst, PacketBuf};
use adit_testkit::packet::PacketBuilder;
use adit_tests::daemon::{self, Daemon};
use adit_tests::process::{TestNamespace, is_root, run, skip_on_this_machine};
use adit_types::{MacAddr, Teid};
use adit_wire::arp::{ArpOperation, ArpPacket};
use zerocopy::IntoBytes;

/// Environment variable of the run inside the daemon's namespace: the folder of its sockets.
const INSIDE: &str = "ADIT_TEST_INSIDE";

/// Two cores for two workers.
fn two_cores() -> Option<Vec<usize>> {
    let mut cores = daemon::cores();
    cores.truncate(2);
    if cores.len() < 2 {
        skip_on_this_machine("one CPU core");
        return None;
    }
    Some(cores)
}

#[test]
fn driver_that_refuses_to_steer_is_reported_with_its_reason() {
    let _alone = crate::alone();
    let Some(cores) = two_cores() else { return };
    let started = Daemon::start_with("steering", |dir| {
        let devices = ["net_tap0,iface=adtap0", "net_tap1,iface=adtap1"];
        let pool = "[[ue_pool]]\nprefix = \"10.45.0.0/16\"\n";
        daemon::node(100, &cores, dir) + &daemon::interfaces(devices, daemon::N3) + pool
    });
    let Some(daemon) = started else { return };
    let shown = daemon.show("ports");
    let [access, core] = [0, 1].map(|at| &shown["ports"][at]);
    for port in [access, core] {
        assert_eq!((&port["driver"], &port["rx_queues"]), (&"net_tap".into(), &2.into()), "{port}");
        assert!(port["mac"].is_string() && port["link_speed_mbps"].is_u64(), "{port}");
        assert!(port["losses"].as_object().unwrap().is_empty(), "{port}");
        assert!(port["rss_reason"].is_string() != (port["rss"] != serde_json::json!([])), "{port}");
    }
    let steered = &access["steering"][0];
    assert_eq!(steered["key"], "TEID over IPv4");
    // The driver has no item for GTP-U on any kernel.
    assert_eq!(
        (&steered["result"], &steered["rules"]),
        (&"refused".into(), &0.into()),
        "{steered}"
    );
    assert!(steered["reason"].as_str().unwrap().contains("not supported"), "{steered}");
    // The kernel matches addresses if it has the classifier.
    let steered = &core["steering"][0];
    assert_eq!(steered["key"], "UE address of 10.45.0.0/16");
    match steered["result"].as_str().unwrap() {
        "accepted" => assert_eq!(steered["rules"], 64, "{steered}"),
        "refused" => assert!(!steered["reason"].as_str().unwrap().is_empty(), "{steered}"),
        other => panic!("{other}: {steered}"),
    }
    let output = daemon.stop();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn card_that_refuses_flows_of_sessions_is_reported_with_its_reason() {
    let _alone = crate::alone();
    let Some(cores) = two_cores() else { return };
    let started = Daemon::start_with("flows", |dir| {
        let devices = ["net_tap0,iface=adtap0", "net_tap1,iface=adtap1"];
        let ports = daemon::interfaces(devices, daemon::N3);
        let ports = ports.replace("device = ", "flow_offload = true\ndevice = ");
        daemon::node(100, &cores, dir) + &ports
    });
    let Some(daemon) = started else { return };
    let shown = daemon.show("offload");
    assert_eq!((&shown["offload"], &shown["offloaded_rules"]), (&"rte_flow".into(), &0.into()));
    let refusals = shown["refusals"].as_array().unwrap();
    // The driver's words and its error number.
    let reason = refusals[0]["reason"].as_str().unwrap();
    assert!(reason.contains("not supported"), "{shown}");
    let output = daemon.stop();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

const SESSIONS: u16 = 48;
/// Packets of each session and direction.
const ROUNDS: u32 = 200;
/// Most packets on their way: far fewer than any ring holds.
const WINDOW: usize = 64;

#[test]
fn workers_on_two_queues_of_memif_lose_nothing() {
    let _alone = crate::alone();
    if let Some(dir) = std::env::var_os(INSIDE) {
        return exchange(Path::new(&dir));
    }
    let Some(cores) = two_cores() else { return };
    if !is_root() {
        return;
    }
    // As if the cores were on two NUMA nodes.
    let namespace = TestNamespace::new("queues").on_machine("pack:2 [numa] core:1 pu:1");
    let started = Daemon::start_in(namespace, |dir| {
        let devices = [0, 1].map(|number| memif(dir, number, "server"));
        let devices = [devices[0].as_str(), devices[1].as_str()];
        daemon::node(100, &cores, dir) + &daemon::interfaces(devices, &smf::N3.to_string())
    });
    let Some(daemon) = started else { return };
    let mut command = daemon.command(&std::env::current_exe().unwrap());
    command.args(["--exact", "ports::workers_on_two_queues_of_memif_lose_nothing", "--nocapture"]);
    command.env(INSIDE, daemon.dir()).stdin(Stdio::null());
    let output = run(&mut command, Duration::from_secs(120));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");

    let counters = daemon.show("counters");
    let sent = 2 * u64::from(SESSIONS) * u64::from(ROUNDS);
    assert_eq!(counters["transmitted_pkts"], sent, "{counters}");
    assert_eq!((&counters["dropped_pkts"], &counters["identity_holds"]), (&0.into(), &true.into()));
    let count = |name: &str| counters["workers"][name].as_u64().unwrap();
    // Uplink and downlink of a session arrive at different workers, so half of them are handed off.
    for (worker, other) in [(0, 1), (1, 0)] {
        assert!(count(&format!("{worker}_received_pkts")) >= sent / 2, "{counters}");
        let handed_off = count(&format!("{worker}_handed_off_pkts"));
        assert!(handed_off > 0, "{counters}");
        assert_eq!(handed_off, count(&format!("{other}_taken_over_pkts")), "{counters}");
    }
    assert_eq!(count("0_handed_off_pkts") + count("1_handed_off_pkts"), sent / 2, "{counters}");
    for (worker, row) in daemon.show("workers")["workers"].as_array().unwrap().iter().enumerate() {
        // Only a machine whose first two cores are used is the described one.
        if cores == [0, 1] {
            assert_eq!(row["node"], worker, "{row}");
            assert_eq!(row["cross_node_pkts"], row["handed_off_pkts"], "{row}");
        }
    }
    for port in daemon.show("ports")["ports"].as_array().unwrap() {
        assert_eq!(port["rx_queues"], 2, "{port}");
        // The driver clears its counters when the other end disconnects.
        assert_eq!(port["rx_queue_pkts"].as_array().unwrap().len(), 2, "{port}");
        for steered in port["steering"].as_array().unwrap() {
            assert_eq!(steered["result"], "refused", "{port}");
            assert!(steered["reason"].as_str().unwrap().contains("not implemented"), "{port}");
        }
    }
    let output = daemon.stop();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn memif(dir: &Path, number: usize, role: &str) -> String {
    let socket: PathBuf = dir.join(format!("memif{number}.sock"));
    let socket = socket.display();
    format!("net_memif{number},role={role},id=0,socket={socket},socket-abstract=no")
}

/// The other end of a port: a gNB or a data network.
struct MemifStation {
    _port: Port,
    rx: Vec<RxQueue>,
    tx: Vec<TxQueue>,
    mac: MacAddr,
    addr: Ipv4Addr,
    /// The address of adit's interface, after its first ARP request.
    upf: Option<MacAddr>,
}

impl MemifStation {
    fn send(&mut self, pool: &Mempool, queue: usize, frame: &[u8]) {
        let mut packet = pool.alloc().unwrap();
        packet.append(frame.len()).unwrap().copy_from_slice(frame);
        let mut burst = Burst::new();
        burst.push(packet);
        let end = Instant::now() + Duration::from_secs(10);
        while self.tx[queue].tx_burst(&mut burst) == 0 {
            assert!(Instant::now() < end, "the ring stays full");
        }
    }

    /// Receives frames from all queues, and answers ARP requests.
    fn receive(&mut self, pool: &Mempool) -> Vec<Vec<u8>> {
        let mut burst: Burst<Mbuf> = Burst::new();
        let mut frames = Vec::new();
        for rx in &mut self.rx {
            rx.rx_burst(32, &mut burst);
            frames.extend(burst.drain(..).map(|packet| packet.data().to_vec()));
        }
        let (requests, frames): (Vec<_>, Vec<_>) =
            frames.into_iter().partition(|frame| frame[12..14] == [8, 6]);
        self.answer(pool, &requests);
        frames
    }

    fn answer(&mut self, pool: &Mempool, requests: &[Vec<u8>]) {
        for frame in requests {
            let (request, _) = ArpPacket::parse(&frame[14..]).unwrap();
            if request.operation() != ArpOperation::REQUEST || request.target_addr() != self.addr {
                continue;
            }
            self.upf = Some(request.sender_mac());
            let mut reply = request.sender_mac().0.to_vec();
            reply.extend(self.mac.0);
            reply.extend([8, 6]);
            reply.extend(ArpPacket::reply(request, self.mac).as_bytes());
            reply.resize(60, 0);
            self.send(pool, 0, &reply);
        }
    }
}

/// The identifiers of a session in packets.
struct EstablishedSession {
    teid: Teid,
    script: smf::SessionScript,
}

/// Establishes the sessions.
fn establish_sessions() -> Vec<EstablishedSession> {
    let socket = UdpSocket::bind("127.0.3.1:8805").unwrap();
    socket.connect((daemon::N4, 8805)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let ask = |bytes: &[u8]| {
        socket.send(bytes).unwrap();
        let mut buffer = vec![0; 4096];
        let len = socket.recv(&mut buffer).unwrap();
        buffer.truncate(len);
        buffer
    };
    ask(&smf::setup(1, Ipv4Addr::new(192, 0, 2, 10), smf::SMF_STARTED));
    (1..=SESSIONS)
        .map(|number| {
            let script = smf::SessionScript::new(number.into(), number);
            let answer = ask(&smf::establish(u32::from(number) + 1, &script));
            let Message::SessionEstablishmentResponse(answer) = smf::decode(&answer) else {
                panic!("{answer:?}")
            };
            let created = answer.created_pdrs.iter().next().unwrap_or_else(|| panic!("{answer:?}"));
            let Some(adit_pfcp::ie::FTeid::Given { teid, .. }) =
                created.local_f_teids.iter().next()
            else {
                panic!("{created:?}")
            };
            EstablishedSession { teid, script }
        })
        .collect()
}

/// The memif of a station. Both stations share the packet memory of their process with adit.
fn station_device(dir: &Path, number: usize) -> Device {
    (memif(dir, number, "client") + ",zero-copy=yes").parse().unwrap()
}

/// The gNB and the data network.
fn open_stations(eal: &Eal, pool: &Mempool, dir: &Path) -> [MemifStation; 2] {
    [(0, smf::GNB), (1, Ipv4Addr::new(10, 0, 6, 1))].map(|(number, addr)| {
        let device = station_device(dir, number);
        let config = PortConfig {
            device: &device,
            rx_queues: 2,
            tx_queues: 2,
            rx_descriptors: 256,
            tx_descriptors: 256,
            mtu_bytes: 1500,
            promiscuous: false,
            mempool: pool,
        };
        let (port, rx, tx) = Port::open(eal, &config).unwrap();
        let mac = port.info().mac;
        // The second port starts when the first one has shared the memory.
        let end = Instant::now() + Duration::from_secs(30);
        while !port.details().unwrap().link_up {
            assert!(Instant::now() < end, "memif does not connect");
            std::thread::sleep(Duration::from_millis(10));
        }
        MemifStation { _port: port, rx, tx, mac, addr, upf: None }
    })
}

/// The gNB, the data network and the SMF of the test: every packet must come back.
fn exchange(dir: &Path) {
    let config = EalConfig {
        hugepages: HugepageMode::Never,
        memory_mib: 128,
        file_prefix: format!("adit-test-{}", std::process::id()),
        devices: [0, 1].map(|number| station_device(dir, number)).into(),
        ..EalConfig::default()
    };
    let eal = Eal::init(&config).unwrap();
    let guard = register_thread(&eal).ok();
    // Its rings alone hold 4096 buffers: 1024 for each queue to receive into.
    let pool = MempoolConfig { mbufs: 16_383, cache: 64, ..MempoolConfig::default() };
    let pool = Mempool::create(&eal, &pool).unwrap();
    let mut stations = open_stations(&eal, &pool, dir);
    let sessions = establish_sessions();
    let end = Instant::now() + Duration::from_secs(30);
    while stations.iter().any(|station| station.upf.is_none()) {
        assert!(Instant::now() < end, "adit does not ask for its neighbors");
        stations.iter_mut().for_each(|station| drop(station.receive(&pool)));
    }
    // The last ARP reply has to arrive: packets wait for unresolved neighbors.
    std::thread::sleep(Duration::from_millis(200));

    let [gnb, network] = &mut stations;
    let mut missing: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
    for round in 0..ROUNDS {
        for (number, known) in (0_u32..).zip(&sessions) {
            let mark = [round.to_be_bytes(), number.to_be_bytes()].concat();
            let up = PacketBuilder::ethernet(gnb.upf.unwrap(), gnb.mac)
                .ipv4(smf::GNB, smf::N3)
                .gtpu(known.teid.0)
                .psc_ul(9)
                .ipv4(known.script.ue, "8.8.8.8")
                .udp(4000, 53)
                .payload(&[&mark[..], b"up"].concat());
            let down = PacketBuilder::ethernet(network.upf.unwrap(), network.mac)
                .ipv4("8.8.8.8", known.script.ue)
                .udp(53, 4000)
                .payload(&[&mark[..], b"dn"].concat());
            // Queues other than those of the other direction.
            let queue = usize::try_from(number % 2).unwrap();
            gnb.send(&pool, queue, &up.build());
            network.send(&pool, 1 - queue, &down.build());
            for direction in [b"up", b"dn"] {
                missing.insert([&mark[..], direction].concat(), number);
            }
            let limit = if number + 1 == u32::from(SESSIONS) { 0 } else { WINDOW };
            let end = Instant::now() + Duration::from_secs(20);
            while missing.len() > limit {
                assert!(Instant::now() < end, "round {round}: {} missing", missing.len());
                for frame in network.receive(&pool).into_iter().chain(gnb.receive(&pool)) {
                    let mark = frame[frame.len() - 10..].to_vec();
                    assert!(missing.remove(&mark).is_some(), "nobody sent {frame:02x?}");
                }
            }
        }
    }
    drop(stations);
    drop(pool);
    drop(guard);
}
