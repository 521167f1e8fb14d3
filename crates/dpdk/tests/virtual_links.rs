//! Frames over the links between two processes that DPDK has: memif, and vhost-user with virtio.
//! Both ends are in one process here.
//!
//! One test only, since a process can start the EAL only once.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use std::time::{Duration, Instant};

use adit_dpdk::{
    Device, Eal, EalConfig, HugepageMode, Mempool, MempoolConfig, Port, PortConfig, RxQueue,
    TxQueue,
};
use adit_pktio::{Burst, PacketBuf};
use adit_wire::checksum::Sum;

const MTU: u16 = 9000;
const PATIENCE: Duration = Duration::from_secs(5);

/// One end of a link, and the pool that it receives into.
struct LinkEnd<'a> {
    port: Port,
    rx: RxQueue,
    tx: TxQueue,
    pool: &'a Mempool,
}

impl<'a> LinkEnd<'a> {
    fn open(pool: &'a Mempool, device: &str, mtu_bytes: u16) -> Self {
        let device: Device = device.parse().unwrap();
        let config = PortConfig {
            device: &device,
            rx_queues: 1,
            tx_queues: 1,
            rx_descriptors: 256,
            tx_descriptors: 256,
            mtu_bytes,
            promiscuous: false,
            mempool: pool,
        };
        let (port, mut rx, mut tx) = Port::open(pool.eal(), &config).unwrap();
        Self { port, rx: rx.remove(0), tx: tx.remove(0), pool }
    }

    fn send(&mut self, frame: &[u8]) {
        let mut packet = self.pool.alloc().unwrap();
        packet.append(frame.len()).unwrap().copy_from_slice(frame);
        let mut burst = Burst::new();
        burst.push(packet);
        let end = Instant::now() + PATIENCE;
        while self.tx.tx_burst(&mut burst) == 0 {
            assert!(Instant::now() < end, "the link takes nothing");
        }
    }

    /// The first octets of the next frame, and whether they are the whole frame.
    fn receive(&mut self) -> (Vec<u8>, bool) {
        let (mut burst, end) = (Burst::new(), Instant::now() + PATIENCE);
        while self.rx.rx_burst(1, &mut burst) == 0 {
            assert!(Instant::now() < end, "nothing arrives");
        }
        (burst[0].data().to_vec(), burst[0].is_contiguous())
    }
}

/// A frame of `len` octets with a UDP datagram whose sender left the checksum to a card, and the
/// finished checksum.
fn open_datagram(len: u16) -> (Vec<u8>, [u8; 2]) {
    let (ip_len, udp_len) = ((len - 14).to_be_bytes(), (len - 34).to_be_bytes());
    let mut frame = [&[2; 12][..], &[8, 0, 0x45, 0], &ip_len, &[0, 7, 0, 0, 64, 17, 0, 0]].concat();
    frame.extend([10, 0, 0, 1, 10, 0, 0, 2, 0x12, 0x34, 0x1e, 0x61]);
    frame.extend(udp_len);
    let pseudo = Sum::new().bytes(&frame[26..34]).word(17).word(len - 34);
    frame.extend(pseudo.fold().to_be_bytes());
    frame.extend((0..=250).cycle().take(usize::from(len) - 42));
    let finished = Sum::new().bytes(&frame[34..]).udp_checksum().to_be_bytes();
    (frame, finished)
}

/// `to` gets the flag whether it has to finish checksums.
fn frame_passes(
    what: &str,
    from: &mut LinkEnd<'_>,
    to: &mut LinkEnd<'_>,
    len: u16,
    finishes: bool,
) {
    let (mut frame, finished) = open_datagram(len);
    from.send(&frame);
    if finishes {
        frame[40..42].copy_from_slice(&finished);
    }
    assert!(to.receive() == (frame, true), "{what}, {len} octets");
}

#[test]
fn long_frames_arrive_whole_where_buffers_hold_them_and_open_checksums_are_finished_behind_virtio()
{
    let config = EalConfig {
        hugepages: HugepageMode::Never,
        memory_mib: 256,
        file_prefix: format!("adit-links-{}", std::process::id()),
        ..EalConfig::default()
    };
    let eal = Eal::init(&config).unwrap();
    let pool = |name, room: u16| {
        let mbufs =
            MempoolConfig { name, mbufs: 4095, data_room_bytes: room + 128, ..Default::default() };
        Mempool::create(&eal, &mbufs).unwrap()
    };
    let (large, small) = (pool("large", 9216), pool("small", 2048));
    let dir = tempfile::tempdir().unwrap();
    let memif = |number, role: &str, socket: &str| {
        let dir = dir.path().display();
        format!("net_memif{number},role={role},socket={dir}/{socket},socket-abstract=no")
    };
    let vhost = |number, socket: &str| {
        let path = dir.path().join(socket).display().to_string();
        (format!("net_vhost{number},iface={path}"), format!("net_virtio_user{number},path={path}"))
    };
    let (first, second) = (vhost(0, "v0"), vhost(1, "v1"));
    let links = [
        ("memif", memif(0, "server", "m0"), memif(1, "client", "m0"), false),
        ("virtio", first.0, first.1, true),
    ];
    for (what, one, other, finishes) in links {
        let mut one = LinkEnd::open(&large, &one, MTU);
        let mut other = LinkEnd::open(&large, &other, MTU);
        wait_for_link(&mut one, &mut other);
        for len in [100, 1514, 2100, MTU + 14] {
            frame_passes(what, &mut one, &mut other, len, finishes);
            frame_passes(what, &mut other, &mut one, len, finishes);
        }
    }
    // A frame that is longer than a buffer has several, which the datapath drops as such; those
    // behind it pass.
    let links = [
        ("memif", memif(2, "server", "m1"), memif(3, "client", "m1"), false),
        ("virtio", second.0, second.1, true),
    ];
    for (what, one, other, finishes) in links {
        let mut one = LinkEnd::open(&large, &one, MTU);
        let mut other = LinkEnd::open(&small, &other, 1500);
        wait_for_link(&mut one, &mut other);
        let (frame, _) = open_datagram(5014);
        one.send(&frame);
        assert!(other.receive() == (frame[..2048].to_vec(), false), "{what}");
        frame_passes(what, &mut one, &mut other, 1514, finishes);
    }
}

fn wait_for_link(one: &mut LinkEnd<'_>, other: &mut LinkEnd<'_>) {
    let end = Instant::now() + PATIENCE;
    while ![&one.port, &other.port].iter().all(|port| port.link_is_up().unwrap()) {
        assert!(Instant::now() < end, "the ends do not find each other");
        std::thread::sleep(Duration::from_millis(5));
    }
    // A memif client gives its peer buffers when it receives.
    let mut none = Burst::new();
    assert_eq!(one.rx.rx_burst(1, &mut none) + other.rx.rx_burst(1, &mut none), 0);
}
