//! The safe layer over DPDK's own virtual devices, without hugepages or privileges.
//!
//! One test only, since a process can start the EAL only once.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "test code"
)]

use adit_dpdk::{
    Device, Eal, EalConfig, EalError, FlowRule, FlowRuleKey, HugepageMode, Mbuf, Mempool,
    MempoolConfig, MempoolError, Port, PortConfig, PortError, RegisterError, WorkerIo, WorkerPort,
    register_thread,
};
use adit_pktio::{Burst, PacketBuf, PacketIo, RxChecksum};
use adit_types::{PortId, VlanId};

/// More than the 1023 packets that a ring device holds.
const MBUFS: u32 = 2047;
const RING: PortId = PortId(0);
const NULL: PortId = PortId(1);

static_assertions::assert_not_impl_any!(Mbuf: Clone, Copy, Sync);
static_assertions::assert_impl_all!(Mbuf: Send);
static_assertions::assert_impl_all!(WorkerIo: Send);
static_assertions::assert_not_impl_any!(WorkerIo: Clone, Sync);

fn device(text: &str) -> Device {
    text.parse().unwrap()
}

fn port_config<'a>(device: &'a Device, mempool: &'a Mempool) -> PortConfig<'a> {
    PortConfig {
        device,
        rx_queues: 1,
        tx_queues: 1,
        rx_descriptors: 256,
        tx_descriptors: 256,
        mtu_bytes: 1500,
        promiscuous: true,
        mempool,
    }
}

#[test]
fn virtual_devices_carry_packets_and_give_every_buffer_back() {
    let config = EalConfig {
        hugepages: HugepageMode::Never,
        memory_mib: 64,
        file_prefix: format!("adit-test-{}", std::process::id()),
        ..EalConfig::default()
    };
    let eal = Eal::init(&config).unwrap();
    assert_eq!(eal.arguments(), config.arguments().unwrap());
    assert!(!eal.has_hugepages());
    assert!(eal.tsc_hz() > 100_000_000, "{} Hz", eal.tsc_hz());
    assert!(matches!(Eal::init(&config), Err(EalError::AlreadyInitialized)));
    assert_eq!(register_thread(&eal).unwrap_err(), RegisterError::AlreadyRegistered);

    let pool =
        Mempool::create(&eal, &MempoolConfig { mbufs: MBUFS, cache: 64, ..Default::default() })
            .unwrap();
    assert_eq!(pool.available(), MBUFS);
    pool_too_large_is_refused(&eal);
    buffer_moves_within_its_room_and_not_beyond(&pool);
    pool_exhausted_allocates_nothing(&pool);
    bad_ports_are_refused(&eal, &pool);
    ports_carry_packets(&eal, &pool);
    assert_eq!(pool.available(), MBUFS, "a buffer leaked");
    // A closed virtual device can be opened again.
    ports_carry_packets(&eal, &pool);
    assert_eq!(pool.available(), MBUFS, "a buffer leaked");
}

fn pool_too_large_is_refused(eal: &Eal) {
    let config = MempoolConfig { name: "large", mbufs: 1 << 20, ..Default::default() };
    let error = Mempool::create(eal, &config).unwrap_err();
    assert!(matches!(error, MempoolError::NoMemory { .. }), "{error}");
    assert!(error.to_string().contains("raise the configured memory"), "{error}");
}

fn buffer_moves_within_its_room_and_not_beyond(pool: &Mempool) {
    let mut packet = pool.alloc().unwrap();
    assert_eq!((packet.data().len(), packet.headroom(), packet.tailroom()), (0, 128, 2048));
    assert!(packet.is_contiguous());
    assert_eq!(packet.rx_checksum(), RxChecksum::Unknown);
    packet.append(4).unwrap().copy_from_slice(&[1, 2, 3, 4]);
    packet.prepend(2).unwrap()[..2].copy_from_slice(&[8, 9]);
    assert_eq!(packet.data(), [8, 9, 1, 2, 3, 4]);
    assert!(packet.trim_front(1));
    assert!(packet.truncate(3));
    assert_eq!(packet.data(), [9, 1, 2]);
    assert_eq!((packet.headroom(), packet.tailroom()), (127, 2046));

    assert!(packet.prepend(128).is_none());
    assert!(packet.append(2047).is_none());
    assert!(packet.prepend(usize::MAX).is_none());
    assert!(packet.append(usize::MAX).is_none());
    assert!(!packet.trim_front(4));
    assert!(!packet.truncate(4));
    assert!(!packet.trim_front(1 << 16));
    assert!(!packet.truncate(1 << 16));
    assert_eq!(packet.data(), [9, 1, 2]);
    assert_eq!(packet.prepend(127).unwrap().len(), 130);
    assert_eq!(packet.append(2046).unwrap().len(), 2176);
}

fn pool_exhausted_allocates_nothing(pool: &Mempool) {
    let all: Vec<Mbuf> = std::iter::from_fn(|| pool.alloc()).collect();
    assert_eq!(all.len(), 2047);
    assert!(pool.alloc().is_none());
    // Buffers lie one after the other, across pages: AF_XDP gives them to the kernel that way.
    let mut starts: Vec<usize> = all.iter().map(|packet| packet.data().as_ptr().addr()).collect();
    starts.sort_unstable();
    let gap = starts[1] - starts[0];
    assert!(gap < 4096 && starts.windows(2).all(|pair| pair[1] - pair[0] == gap), "{gap}");
    // Any thread can return buffers, with or without an lcore number.
    let eal = pool.eal().clone();
    let free = |packets: Vec<Mbuf>| {
        let guard = (packets.len() > 500).then(|| register_thread(&eal).unwrap());
        drop(packets);
        drop(guard);
    };
    std::thread::scope(|scope| {
        let mut packets = all;
        let few = packets.split_off(1000);
        scope.spawn(|| free(few));
        scope.spawn(|| free(packets));
    });
    assert_eq!(pool.available(), MBUFS);
}

fn bad_ports_are_refused(eal: &Eal, pool: &Mempool) {
    let open = |text: &str, change: fn(&mut PortConfig<'_>)| {
        let device = device(text);
        let mut config = port_config(&device, pool);
        change(&mut config);
        Port::open(eal, &config).unwrap_err()
    };
    let error = open("0000:3b:00.0", |_| ());
    assert!(matches!(error, PortError::UnknownDevice { .. }), "{error}");
    assert!(error.to_string().contains("it knows no port"), "{error}");

    let error = open("net_af_packet0,iface=adit-none", |_| ());
    assert!(matches!(error, PortError::InterfaceMissing { .. }), "{error}");
    assert!(error.to_string().contains("adit-none"), "{error}");

    let error = open("net_nosuchdriver0", |_| ());
    assert!(matches!(error, PortError::Attach { .. }), "{error}");
    assert!(error.to_string().contains("net_nosuchdriver0"), "{error}");

    let error = open("net_null0,nonsense=1", |_| ());
    assert!(matches!(error, PortError::Attach { .. }), "{error}");

    let error = open("net_ring0", |config| config.tx_queues = 17);
    assert!(matches!(error, PortError::TooFewQueues { tx_wanted: 17, .. }), "{error}");

    let error = open("net_null0", |config| config.mtu_bytes = 3000);
    assert!(matches!(error, PortError::DataRoom { need_bytes: 3154, .. }), "{error}");

    let error = open("net_null0", |config| config.mtu_bytes = 10);
    assert!(matches!(error, PortError::Mtu { .. }), "{error}");
}

fn ports_carry_packets(eal: &Eal, pool: &Mempool) {
    let open = |text: &str| {
        let device = device(text);
        let (port, rx, mut tx) = Port::open(eal, &port_config(&device, pool)).unwrap();
        assert_eq!((rx.len(), tx.len()), (1, 1));
        let info = port.info();
        (port, WorkerPort { rx, tx: tx.pop(), info })
    };
    let (ring, ring_queues) = open("net_ring0");
    let (null, null_queues) = open("net_null0,size=100");
    let again = device("net_null0");
    let error = Port::open(eal, &port_config(&again, pool)).unwrap_err();
    assert!(matches!(error, PortError::InUse { .. }), "{error}");

    let mut io = WorkerIo::new(vec![ring_queues, null_queues], pool.clone());
    assert_eq!(io.port_info(RING).mtu_bytes, 1500);
    assert!(ring.details().unwrap().link_up);
    let worker_eal = eal.clone();
    let worker = std::thread::spawn(move || {
        let guard = register_thread(&worker_eal).unwrap();
        assert_ne!(guard.lcore(), 0);
        ring_returns_bytes_in_order(&mut io);
        ring_full_leaves_the_rest_in_the_burst(&mut io);
        null_receives_and_swallows(&mut io);
    });
    worker.join().unwrap();

    let details = null.details().unwrap();
    assert_eq!(details.driver, "net_null");
    assert!(details.rss.is_empty(), "one queue: {:?}", details.rss);
    flow_rules_are_refused_with_a_reason(&ring);
    let stats = null.stats().unwrap();
    assert_eq!((stats.ipackets, stats.opackets), (3, 3));
    let xstats = ring.xstats().unwrap();
    let sent = xstats.iter().find(|(name, _)| name == "tx_good_packets");
    assert_eq!(sent.map(|(_, value)| *value), Some(ring.stats().unwrap().opackets));
}

fn flow_rules_are_refused_with_a_reason(port: &Port) {
    let key = FlowRuleKey::TeidOverIpv4 { teid: 2, mask: 0x7e };
    let rule = FlowRule { vlan: VlanId::UNTAGGED, key, queue: 0 };
    let refusal = port.create_flow_rules(&[rule]).unwrap_err();
    assert_eq!((refusal.errno.value(), refusal.taken), (38, 0), "ENOSYS: {refusal}");
    assert_eq!(port.create_flow_rules(&[]), Ok(()));
}

fn ring_returns_bytes_in_order(io: &mut WorkerIo) {
    let mut burst = Burst::new();
    for value in 0..40u8 {
        let mut packet = io.alloc().unwrap();
        packet.append(60).unwrap().fill(value);
        packet.prepend(4).unwrap()[..4].copy_from_slice(&[0xde, 0xad, 0xbe, value]);
        burst.push(packet);
    }
    assert_eq!(io.tx_burst(RING, &mut burst), 40);
    assert!(burst.is_empty());

    assert_eq!(io.rx_burst(RING, 30, &mut burst), 30);
    assert_eq!(io.rx_burst(RING, 64, &mut burst), 10);
    assert_eq!(io.rx_burst(RING, 64, &mut burst), 0);
    assert_eq!(burst.len(), 40);
    for (value, packet) in (0u8..).zip(&burst) {
        assert_eq!(packet.data()[..4], [0xde, 0xad, 0xbe, value]);
        assert_eq!(packet.data()[4..], [value; 60]);
    }
}

fn ring_full_leaves_the_rest_in_the_burst(io: &mut WorkerIo) {
    let mut sent = 0u16;
    let mut burst = Burst::new();
    while burst.is_empty() {
        for _ in 0..10 {
            let mut packet = io.alloc().expect("the ring fills before the pool is empty");
            packet.append(2).unwrap().copy_from_slice(&(sent + burst.len() as u16).to_be_bytes());
            burst.push(packet);
        }
        sent += io.tx_burst(RING, &mut burst) as u16;
    }
    assert!(burst.len() < 10, "the ring took none of the last burst");
    for (index, packet) in (sent..).zip(&burst) {
        assert_eq!(packet.data(), index.to_be_bytes());
    }
    burst.clear();
    let mut expected = 0..sent;
    while io.rx_burst(RING, 64, &mut burst) > 0 {
        for packet in burst.drain(..) {
            assert_eq!(packet.data(), expected.next().unwrap().to_be_bytes());
        }
    }
    assert_eq!(expected.next(), None, "a packet was lost");
}

fn null_receives_and_swallows(io: &mut WorkerIo) {
    let mut burst = Burst::new();
    assert_eq!(io.rx_burst(NULL, 3, &mut burst), 3);
    assert!(burst.iter().all(|packet| packet.data().len() == 100));
    assert_eq!(io.tx_burst(NULL, &mut burst), 3);
}
