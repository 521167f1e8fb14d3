//! A wire between two ports: whatever one receives, the other sends. Shows whether device strings
//! work on this machine.
//!
//! `wire DEVICE DEVICE [no-huge|huge] [MTU] [SECONDS]`

use std::process::ExitCode;
use std::time::{Duration, Instant};

use adit_dpdk::{
    Device, Eal, EalConfig, HugepageMode, Mempool, MempoolConfig, Port, PortConfig, WorkerIo,
    WorkerPort,
};
use adit_pktio::{Burst, PacketIo};
use adit_types::PortId;
use adit_types::limits::{BURST_DEFAULT, BURST_MAX};

type AnyError = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    match run(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("wire: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<(), AnyError> {
    let [left, right, rest @ ..] = args else {
        return Err("usage: wire DEVICE DEVICE [no-huge|huge] [MTU] [SECONDS]".into());
    };
    let devices: Vec<Device> = vec![left.parse()?, right.parse()?];
    let hugepages = match rest.first().map(String::as_str) {
        Some("huge") => HugepageMode::Require,
        Some("no-huge") => HugepageMode::Never,
        _ => HugepageMode::Auto,
    };
    let mtu_bytes = rest.get(1).map_or(Ok(1500), |text| text.parse())?;
    let seconds = rest.get(2).map_or(Ok(10), |text| text.parse())?;
    let config =
        EalConfig { hugepages, memory_mib: 128, devices: devices.clone(), ..EalConfig::default() };
    println!("eal: {}", config.arguments()?.join(" "));
    let eal = Eal::init(&config)?;
    if let Some(notice) = eal.notice() {
        println!("notice: {notice}");
    }
    let data_room_bytes = if mtu_bytes > 1800 { 9216 } else { 2048 + 128 };
    let pool = MempoolConfig { data_room_bytes, ..MempoolConfig::default() };
    let pool = Mempool::create(&eal, &pool)?;
    let mut ports = Vec::new();
    let mut queues = Vec::new();
    for device in &devices {
        let config = PortConfig {
            device,
            rx_queues: 1,
            tx_queues: 1,
            rx_descriptors: 1024,
            tx_descriptors: 1024,
            mtu_bytes,
            promiscuous: true,
            mempool: &pool,
        };
        let (port, rx, tx) = Port::open(&eal, &config)?;
        println!("{device}: {:?}", port.details()?);
        queues.extend(rx.into_iter().zip(tx).map(|(rx, tx)| WorkerPort {
            rx,
            tx,
            info: port.info(),
        }));
        ports.push(port);
    }
    forward(&mut WorkerIo::new(queues, pool.clone()), Duration::from_secs(seconds));
    for port in &ports {
        println!("{:?}", port.stats()?);
    }
    Ok(())
}

fn forward(io: &mut WorkerIo, duration: Duration) {
    let end = Instant::now() + duration;
    let mut refused = 0;
    let mut longest = 0;
    while Instant::now() < end {
        let mut received = 0;
        for (from, to) in [(PortId(0), PortId(1)), (PortId(1), PortId(0))] {
            let mut burst = Burst::new();
            received += io.rx_burst(from, BURST_DEFAULT.min(BURST_MAX), &mut burst);
            for packet in &burst {
                longest = longest.max(adit_pktio::PacketBuf::data(packet).len());
            }
            io.tx_burst(to, &mut burst);
            refused += burst.len();
        }
        if received == 0 {
            std::thread::yield_now();
        }
    }
    println!("refused by a transmit queue: {refused}; longest frame: {longest} bytes");
}
