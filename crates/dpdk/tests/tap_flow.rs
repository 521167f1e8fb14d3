//! Flow rules that a driver carries out: `net_tap` gives frames to the queue that a rule names.
//!
//! The driver makes its rules of the kernel's packet classifiers, which few kernels have.
//! `scripts/tap-flow-vm.sh` runs this test in a virtual machine of which all are known. Elsewhere
//! it prints `skipped: reason` if the driver refuses.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use core::net::Ipv4Addr;
use std::time::{Duration, Instant};

use adit_dpdk::{
    Device, Eal, EalConfig, FlowRule, FlowRuleKey, HugepageMode, Mempool, MempoolConfig, Port,
    PortConfig, RxQueue, TxQueue,
};
use adit_pktio::{Burst, PacketBuf};
use adit_testkit::packet::PacketBuilder;
use adit_testkit::vm::run_in_vm;
use adit_types::{MacAddr, VlanId};

/// Environment variable: the test fails, instead of being skipped, if the driver refuses the rules.
const REQUIRED: &str = "ADIT_TEST_TAP_FLOWS";

/// A virtual machine without acceleration takes long.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The queue of each destination.
const DESTINATIONS: [(Ipv4Addr, u16); 3] = [
    (Ipv4Addr::new(10, 45, 0, 6), 1),
    (Ipv4Addr::new(10, 45, 0, 7), 0),
    (Ipv4Addr::new(10, 45, 0, 8), 1),
];

/// Frames to each destination, of flows that the kernel would spread over the queues.
const FRAMES: u16 = 20;

const UDP: u16 = 2152;

fn open(
    eal: &Eal,
    pool: &Mempool,
    device: &Device,
    queues: u16,
) -> (Port, Vec<RxQueue>, Vec<TxQueue>) {
    let config = PortConfig {
        device,
        rx_queues: queues,
        tx_queues: queues,
        rx_descriptors: 256,
        tx_descriptors: 256,
        mtu_bytes: 1500,
        promiscuous: true,
        mempool: pool,
    };
    Port::open(eal, &config).unwrap()
}

/// The destination of a frame of this test.
fn destination(frame: &[u8]) -> Option<Ipv4Addr> {
    let is_ours = frame.get(12..14)? == [8, 0] && frame.get(36..38)? == UDP.to_be_bytes();
    let addr: [u8; 4] = frame.get(30..34)?.try_into().ok()?;
    is_ours.then(|| addr.into())
}

#[test]
fn tap_gives_frames_to_the_queues_that_rules_name() {
    if !rustix::process::geteuid().is_root() {
        return adit_testkit::skip("not root, cannot make a TAP device");
    }
    let tap: Device = "net_tap0,iface=aditflow".parse().unwrap();
    let link: Device = "net_af_packet0,iface=aditflow,qdisc_bypass=0".parse().unwrap();
    let config = EalConfig {
        hugepages: HugepageMode::Never,
        memory_mib: 64,
        file_prefix: format!("adit-tap-{}", std::process::id()),
        devices: vec![tap.clone(), link.clone()],
        ..EalConfig::default()
    };
    let eal = Eal::init(&config).unwrap();
    let pool = MempoolConfig { mbufs: 4095, cache: 0, ..MempoolConfig::default() };
    let pool = Mempool::create(&eal, &pool).unwrap();
    let (port, mut rx, _tx) = open(&eal, &pool, &tap, 2);
    let rule = |(addr, queue)| FlowRule {
        vlan: VlanId::UNTAGGED,
        key: FlowRuleKey::Ipv4Destination { addr, mask: Ipv4Addr::BROADCAST },
        queue,
    };
    if let Err(refusal) = port.create_flow_rules(&DESTINATIONS.map(rule)) {
        assert!(std::env::var_os(REQUIRED).is_none(), "{refusal}");
        return adit_testkit::skip_on_this_machine(format!("net_tap refuses rules: {refusal}"));
    }
    // Packets sent on the kernel's end of the device arrive at ours. Rules are part of the queueing
    // discipline.
    let (_link, _rx, mut link) = open(&eal, &pool, &link, 1);
    for (addr, _) in DESTINATIONS {
        for flow in 0..FRAMES {
            let frame = PacketBuilder::ethernet(port.info().mac, MacAddr([2, 0, 0, 0, 0, 9]))
                .ipv4("8.8.8.8", addr)
                .udp(4000 + flow, UDP)
                .payload(&[0x5a; 64])
                .build();
            let mut packet = pool.alloc().unwrap();
            packet.append(frame.len()).unwrap().copy_from_slice(&frame);
            let mut burst = Burst::new();
            burst.push(packet);
            assert_eq!(link[0].tx_burst(&mut burst), 1);
        }
    }
    let mut counts = [[0_u16; 2]; DESTINATIONS.len()];
    let all = FRAMES * u16::try_from(DESTINATIONS.len()).unwrap();
    let end = Instant::now() + TIMEOUT;
    while counts.iter().flatten().sum::<u16>() < all && Instant::now() < end {
        for (queue, rx) in rx.iter_mut().enumerate() {
            let mut burst = Burst::new();
            rx.rx_burst(32, &mut burst);
            for packet in burst.drain(..) {
                let to = destination(packet.data());
                if let Some(at) = DESTINATIONS.iter().position(|(addr, _)| to == Some(*addr)) {
                    counts[at][queue] += 1;
                }
            }
        }
    }
    for ((addr, queue), counts) in DESTINATIONS.into_iter().zip(counts) {
        assert_eq!(counts[usize::from(queue)], FRAMES, "{addr}: {counts:?}");
    }
    println!("carried out: {counts:?}");
}

#[test]
fn tap_gives_frames_to_the_queues_that_rules_name_in_a_virtual_machine() {
    let program = std::env::current_exe().unwrap();
    let Some(told) = run_in_vm("tap-flow-vm.sh", &[&program]) else { return };
    assert!(told.contains("carried out: "), "{told}");
}
