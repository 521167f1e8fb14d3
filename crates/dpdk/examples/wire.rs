//! A wire between two ports: each sends the frames that the other receives. Shows whether device
//! strings work on this machine.
//!
//! `wire DEVICE DEVICE [no-huge|huge] [MTU] [SECONDS]`; `QUEUES` and `DATA_ROOM` in the environment
//! set the queues of each port (1) and the bytes of a buffer (2176).

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
    let data_room_bytes = std::env::var("DATA_ROOM").map_or(Ok(2048 + 128), |text| text.parse())?;
    let pool = MempoolConfig { data_room_bytes, ..MempoolConfig::default() };
    let pool = Mempool::create(&eal, &pool)?;
    let mut ports = Vec::new();
    let count: u16 = std::env::var("QUEUES").map_or(Ok(1), |text| text.parse())?;
    let mut workers: Vec<Vec<WorkerPort>> = (0..count).map(|_| Vec::new()).collect();
    for device in &devices {
        let config = PortConfig {
            device,
            rx_queues: count,
            tx_queues: count,
            rx_descriptors: 1024,
            tx_descriptors: 1024,
            mtu_bytes,
            promiscuous: true,
            mempool: &pool,
        };
        let (port, rx, tx) = Port::open(&eal, &config)?;
        println!("{device}: {:?}", port.details()?);
        for ((rx, tx), worker) in rx.into_iter().zip(tx).zip(&mut workers) {
            worker.push(WorkerPort { rx: vec![rx], tx: Some(tx), info: port.info() });
        }
        ports.push(port);
    }
    let workers = workers.into_iter().map(|queues| WorkerIo::new(queues, pool.clone()));
    forward(&mut workers.collect::<Vec<_>>(), Duration::from_secs(seconds));
    for port in &ports {
        println!("{:?}", port.stats()?);
    }
    Ok(())
}

fn forward(workers: &mut [WorkerIo], duration: Duration) {
    let end = Instant::now() + duration;
    let mut refused = 0;
    let mut longest = 0;
    while Instant::now() < end {
        let mut received = 0;
        let links = [(PortId(0), PortId(1)), (PortId(1), PortId(0))];
        let turns = (0..workers.len()).flat_map(|worker| links.map(|link| (worker, link)));
        for (worker, (from, to)) in turns {
            let io = &mut workers[worker];
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
