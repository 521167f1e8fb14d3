//! A memif port, in both roles, survives repeated kills of its peer while bursts continue.
//!
//! Each test runs in its own process, started from this test's executable: a process can start the
//! EAL only once, and a fault of the driver ends the process.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use adit_dpdk::{
    Device, Eal, EalConfig, HugepageMode, Mbuf, Mempool, MempoolConfig, Port, PortConfig, RxQueue,
    TxQueue,
};
use adit_pktio::{Burst, PacketBuf};

/// Environment variable with the part of a process (`peer` or `survivor`), its role and its socket.
const PART: &str = "ADIT_TEST_MEMIF";
const KILLS: u32 = 25;
/// Packets that the survivor receives from each peer before the kill.
const PACKETS_PER_PEER: u64 = 2_000;
const BURST: usize = 32;
/// Exit status of a child that survived all its peers; that of a child without a test is 0.
const SURVIVED: i32 = 42;

fn spawn_child(part: &str, role: &str, socket: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["memif_child", "--exact", "--nocapture"]);
    command.env(PART, format!("{part} {role} {}", socket.display()));
    if part == "peer" {
        // The peer ends by being killed; DPDK's warnings of each one would hide the output of a
        // survivor.
        command.stderr(Stdio::null());
    }
    command.stdout(Stdio::null()).spawn().unwrap()
}

/// The role and arguments of a client; every second one shares its packet memory.
fn client(round: u32) -> &'static str {
    if round.is_multiple_of(2) { "client" } else { "client,zero-copy=yes" }
}

fn open(role: &str, socket: &str) -> (Port, Vec<RxQueue>, Vec<TxQueue>, Mempool) {
    let text = format!("net_memif0,role={role},socket={socket},socket-abstract=no");
    let device: Device = text.parse().unwrap();
    let config = EalConfig {
        hugepages: HugepageMode::Never,
        memory_mib: 64,
        file_prefix: format!("adit-memif-{}", std::process::id()),
        devices: vec![device.clone()],
        ..EalConfig::default()
    };
    let eal = Eal::init(&config).unwrap();
    let pool =
        Mempool::create(&eal, &MempoolConfig { mbufs: 8191, cache: 0, ..Default::default() });
    let pool = pool.unwrap();
    let wanted = PortConfig {
        device: &device,
        rx_queues: 1,
        tx_queues: 1,
        rx_descriptors: 256,
        tx_descriptors: 256,
        mtu_bytes: 1500,
        promiscuous: false,
        mempool: &pool,
    };
    let (port, rx, tx) = Port::open(&eal, &wanted).unwrap();
    (port, rx, tx, pool)
}

/// Sends and receives until `stop`, and counts received packets.
fn exchange(
    (mut rx, mut tx): (RxQueue, TxQueue),
    pool: &Mempool,
    stop: &AtomicBool,
    received: &AtomicU64,
) {
    let (mut inbound, mut outbound) = (Burst::new(), Burst::<Mbuf>::new());
    while !stop.load(Ordering::Relaxed) {
        let count = rx.rx_burst(BURST, &mut inbound);
        received.fetch_add(u64::try_from(count).unwrap(), Ordering::Relaxed);
        inbound.clear();
        while outbound.len() < BURST {
            let Some(mut packet) = pool.alloc() else { break };
            packet.append(64).unwrap().fill(0x5a);
            outbound.push(packet);
        }
        tx.tx_burst(&mut outbound);
    }
}

/// The child process of the tests; does nothing in the test run itself. A survivor ends with
/// [`SURVIVED`].
#[test]
fn memif_child() {
    let Ok(part) = std::env::var(PART) else { return };
    let words: Vec<&str> = part.split(' ').collect();
    let [part, role, socket] = words[..] else { unreachable!("{words:?}") };
    let path = Path::new(socket);
    // A client connects once, when its port starts.
    let first = (part == "survivor" && role != "server").then(|| server(path));
    let (_port, mut rx, mut tx, pool) = open(role, socket);
    let (stop, received) = (AtomicBool::new(false), AtomicU64::new(0));
    let queues = (rx.remove(0), tx.remove(0));
    std::thread::scope(|scope| {
        let exchanging = scope.spawn(|| exchange(queues, &pool, &stop, &received));
        match (part, first) {
            ("survivor", Some(first)) => survive_killed_peers(first, &received),
            ("survivor", None) => {
                for round in 0..KILLS {
                    survive_killed_peers(spawn_child("peer", client(round), path), &received);
                }
            }
            _ => return,
        }
        std::thread::sleep(Duration::from_millis(20));
        stop.store(true, Ordering::Relaxed);
        exchanging.join().unwrap();
    });
    std::process::exit(SURVIVED);
}

/// Starts a server and waits until it listens.
fn server(socket: &Path) -> Child {
    let mut server = spawn_child("peer", "server", socket);
    while !socket.exists() {
        assert!(server.try_wait().unwrap().is_none(), "the server ended by itself");
        std::thread::sleep(Duration::from_millis(1));
    }
    server
}

/// Kills the peer in the middle of traffic.
fn survive_killed_peers(mut peer: Child, received: &AtomicU64) {
    let before = received.load(Ordering::Relaxed);
    while received.load(Ordering::Relaxed) < before + PACKETS_PER_PEER {
        assert!(peer.try_wait().unwrap().is_none(), "the peer ended by itself");
        std::thread::sleep(Duration::from_millis(1));
    }
    peer.kill().unwrap();
    peer.wait().unwrap();
}

#[test]
fn server_outlives_clients_that_are_killed() {
    let folder = tempfile::tempdir().unwrap();
    let status =
        spawn_child("survivor", "server", &folder.path().join("memif.sock")).wait().unwrap();
    assert_eq!(status.code(), Some(SURVIVED), "{status}");
}

#[test]
fn client_outlives_servers_that_are_killed() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..KILLS / 3 {
        let socket = folder.path().join(format!("{round}.sock"));
        let status = spawn_child("survivor", client(round), &socket).wait().unwrap();
        assert_eq!(status.code(), Some(SURVIVED), "round {round}: {status}");
    }
}
