//! `adit-bench scrape`: the cost of counter snapshots, and of the text of all metrics, for the
//! packets.
//!
//! One thread runs steps, while another takes snapshots of its counters, or writes the whole text
//! as for a scrape of Prometheus, at different rates, including zero. One snapshot per second costs
//! too little to measure, so the bench takes many and reports the cost of one: the additional
//! cycles of all steps divided by the number of snapshots.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use adit_n4::{N4Counters, ServiceCounts};
use adit_operate::metrics::{
    AssociationFigures, MetricsTextFormat, PacketFigures, SignalingFigures, WorkerFigures,
    packet_families, signaling_families, write_families,
};
use adit_tables::{Snapshot, WorkerCounters};
use anyhow::ensure;
use serde_json::{Value, json};

use super::measure::{BenchNode, WorkerBench, establish};
use super::network::BenchSession;
use super::packet::BenchPacket;
use super::report::{self, median, rounded};
use super::sessions::BenchProfile;
use crate::size::BenchSize;

/// The measured loads of the other thread. Rates are per second; zero is the reference.
const SETTINGS: [ScrapeSetting; 7] = [
    ScrapeSetting { is_text: false, rate: 0 },
    ScrapeSetting { is_text: false, rate: 100 },
    ScrapeSetting { is_text: false, rate: 1_000 },
    ScrapeSetting { is_text: false, rate: 10_000 },
    ScrapeSetting { is_text: true, rate: 10 },
    ScrapeSetting { is_text: true, rate: 100 },
    ScrapeSetting { is_text: true, rate: 1_000 },
];
/// Rounds; each measures every rate.
const ROUNDS: usize = 5;
/// Steps that took longer were interrupted and are left out. Unit: cycles.
const INTERRUPTED_CYCLES: u64 = 100_000;

/// The load of the other thread.
#[derive(Clone, Copy)]
struct ScrapeSetting {
    /// True to write the whole text from a snapshot; false to take only the snapshot.
    is_text: bool,
    /// Scrapes per second.
    rate: u32,
}

/// One measurement.
#[derive(Clone, Copy)]
struct ScrapeInterval {
    cycles_per_packet: f64,
    steps: usize,
    snapshots: u32,
}

/// Measures the packets of `size` per rate and round.
///
/// # Errors
/// A packet is not forwarded.
pub(crate) fn run(size: &BenchSize) -> anyhow::Result<Value> {
    let &BenchSize { sessions: count, packets, burst } = size;
    let BenchNode { publisher, mut bench, sessions, .. } = establish(BenchProfile::USUAL, count)?;
    let signaling = signaling(count);
    let counters = publisher.worker_counters().to_vec();
    let steps = packets.div_ceil(burst);
    let hz = tsc_hz();
    let mut spells = [const { Vec::new() }; SETTINGS.len()];
    measure_interval(&mut bench, &sessions, burst, (4 * count).div_ceil(burst))?;
    for _ in 0..ROUNDS {
        for (setting, own) in SETTINGS.iter().zip(&mut spells) {
            let done = AtomicBool::new(false);
            let found = std::thread::scope(|scope| {
                let scraper = scope.spawn(|| scrape(&counters, &signaling, *setting, &done));
                let found = measure_interval(&mut bench, &sessions, burst, steps);
                done.store(true, Ordering::Release);
                let snapshots = scraper.join().unwrap_or_default();
                found.map(|found| ScrapeInterval { snapshots, ..found })
            })?;
            own.push(found);
        }
    }
    let idle = spells[0].clone();
    let rows = SETTINGS.iter().zip(&spells);
    let rows: Vec<Value> =
        rows.map(|(setting, own)| row(*setting, own, &idle, burst, hz)).collect();
    Ok(report::of("scrape", &rows))
}

/// Measures the frequency of the time stamp counter against the system clock. Unit: Hz.
fn tsc_hz() -> f64 {
    let (start, ticks) = (Instant::now(), adit_dpdk::tsc());
    std::thread::sleep(Duration::from_millis(100));
    let (elapsed, ticks) = (start.elapsed(), adit_dpdk::tsc().wrapping_sub(ticks));
    ticks as f64 / elapsed.as_secs_f64()
}

/// Makes N4 figures with `sessions` sessions and counters of zero, whose text is as long as that of
/// other counts.
fn signaling(sessions: usize) -> SignalingFigures {
    SignalingFigures {
        counters: N4Counters::default(),
        associations: vec![AssociationFigures { node_id: "smf".to_owned(), sessions, is_up: true }],
        sessions,
        sessions_max: sessions,
        services: ServiceCounts::default(),
        waiting_answers: 0,
    }
}

/// Writes the text of all metrics. Returns its length.
fn write_text(counters: &[Arc<WorkerCounters>], signaling: &SignalingFigures) -> usize {
    let worker = |counters: &Arc<WorkerCounters>| WorkerFigures {
        role: "worker",
        core: 0,
        counted: Snapshot::sum([&**counters]),
        busy_permille: 0,
        saturation_percent: 0,
        ring_permille: 0,
        is_stopped: false,
        cross_node_pkts: 0,
    };
    let packets = PacketFigures {
        all: Snapshot::sum(counters.iter().map(|counters| &**counters)),
        workers: counters.iter().map(worker).collect(),
        interfaces: vec!["n3".to_owned(), "n6".to_owned()],
        burst_pkts: adit_types::limits::BURST_DEFAULT,
    };
    let format = MetricsTextFormat::OpenMetrics;
    write_families(format, packet_families(&packets)).len()
        + write_families(format, signaling_families(&signaling.clone())).len()
}

/// Takes snapshots or writes texts as `setting` says until `done`. Returns how many.
fn scrape(
    counters: &[Arc<WorkerCounters>],
    signaling: &SignalingFigures,
    setting: ScrapeSetting,
    done: &AtomicBool,
) -> u32 {
    let ScrapeSetting { is_text, rate } = setting;
    if rate == 0 {
        return 0;
    }
    let period = Duration::from_secs(1) / rate;
    let mut taken = 0;
    let mut next = Instant::now();
    while !done.load(Ordering::Acquire) {
        match is_text {
            true => {
                black_box(write_text(counters, signaling));
            }
            false => {
                black_box(Snapshot::sum(counters.iter().map(|counters| &**counters)));
            }
        }
        taken += 1;
        next += period;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    taken
}

fn measure_interval(
    bench: &mut WorkerBench,
    sessions: &[BenchSession],
    burst: usize,
    steps: usize,
) -> anyhow::Result<ScrapeInterval> {
    let (mut spent, mut counted) = (0, 0);
    for _ in 0..steps {
        bench.prepare(BenchPacket::UPLINK, sessions, burst)?;
        let (cycles, sent) = bench.run()?;
        ensure!(sent == burst, "a step forwarded {sent} of {burst} packets");
        if cycles < INTERRUPTED_CYCLES {
            spent += cycles;
            counted += 1;
        }
    }
    let cycles_per_packet = spent as f64 / (counted * burst).max(1) as f64;
    Ok(ScrapeInterval { cycles_per_packet, steps: counted, snapshots: 0 })
}

fn row(
    setting: ScrapeSetting,
    own: &[ScrapeInterval],
    idle: &[ScrapeInterval],
    burst: usize,
    hz: f64,
) -> Value {
    let cycles: Vec<f64> = own.iter().map(|interval| interval.cycles_per_packet).collect();
    let costs: Vec<f64> = own
        .iter()
        .zip(idle)
        .filter(|(own, _)| own.snapshots > 0)
        .map(|(own, idle)| {
            let more = own.cycles_per_packet - idle.cycles_per_packet;
            more * (own.steps * burst) as f64 / f64::from(own.snapshots)
        })
        .collect();
    let cost = median(&costs);
    json!({
        "what": if setting.is_text { "text" } else { "snapshot" },
        "snapshots_per_s": setting.rate,
        "cycles_per_packet": median(&cycles).map(rounded),
        "cycles_per_snapshot": cost.map(rounded),
        // Share of a core that one snapshot per second takes. Unit: parts per million.
        "one_per_s_costs_ppm": cost.map(|cost| (cost / hz * 1e9).round() / 1e3),
        "turns": own.len(),
    })
}
