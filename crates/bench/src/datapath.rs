//! `adit bench datapath`: TSC cycles that one worker step costs per packet.
//!
//! The bench writes a burst of packets of random sessions into buffers; then one `Worker::step`
//! receives, processes and sends it. The figure includes the two reads of the TSC (about 25 cycles per
//! burst). Packets are in the cache, since they were just written; session state is where the previous
//! bursts left it. Floor and C floor take the same packets in turns with the worker. The floor receives,
//! swaps the MAC addresses and sends. The C floor forwards the usual packet, without the features of a UPF
//! ([`super::c_floor`]). Steps without packets are measured before each case.

use adit_pktio::RxChecksum;
use serde_json::{Value, json};

use super::c_floor::CFloor;
use super::measure::{
    BenchNode, ExpectedOutcome, Figures, Floor, WorkerBenchConfig, active_sessions, establish,
    in_turns, measure_empty, measure_with,
};
use super::network::{BenchIpVersion, INNER_LEN};
use super::packet::BenchPacket;
use super::report;
use super::sessions::{BenchProfile, BenchRates};
use crate::report::BenchOutput;

/// The measured directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum BenchDirections {
    /// Uplink, then downlink.
    Both,
    /// From gNBs.
    Uplink,
    /// To gNBs.
    Downlink,
}

impl BenchDirections {
    /// True if packets like this one are measured.
    fn has(self, packet: BenchPacket) -> bool {
        match self {
            Self::Both => true,
            Self::Uplink => packet.is_uplink(),
            Self::Downlink => !packet.is_uplink(),
        }
    }
}

/// Parameters of the bench.
#[derive(Debug)]
pub(crate) struct DatapathBenchOptions {
    /// Session counts.
    pub counts: Vec<usize>,
    /// Sessions with packets.
    pub active: usize,
    /// Packets of each measurement.
    pub packets: usize,
    /// Burst sizes.
    pub bursts: Vec<usize>,
    /// The state of IPv4 header checksums that ports report.
    pub checksum: RxChecksum,
    /// The measured directions.
    pub directions: BenchDirections,
    /// Rules and keys of the sessions.
    pub profile: BenchProfile,
}

/// Measures every session count and burst in both directions and prints the result.
///
/// # Errors
/// Sessions cannot be established, or a packet was not forwarded.
pub(crate) fn run(options: &DatapathBenchOptions, output: &BenchOutput) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for &count in &options.counts {
        eprintln!("establishing {count} sessions");
        let family = options.profile.family();
        let directions = [BenchPacket::uplink(family), BenchPacket::Downlink { family }];
        let directions = directions.into_iter().filter(|packet| options.directions.has(*packet));
        let mut resident = establish(options.profile, count)?;
        for &burst in &options.bursts {
            for packet in directions.clone() {
                let plan = WorkerBenchConfig {
                    packet,
                    outcome: match options.profile.rates {
                        BenchRates::Exceed | BenchRates::Wait => ExpectedOutcome::Shaped,
                        BenchRates::None
                        | BenchRates::Police
                        | BenchRates::Shape
                        | BenchRates::Session
                        | BenchRates::Shared => ExpectedOutcome::Forwarded,
                    },
                    checksum: options.checksum,
                    active: options.active.min(count),
                    packets: options.packets,
                    burst,
                };
                rows.extend(measure_case(count, options, &plan, &mut resident)?);
            }
        }
    }
    report::print("datapath", &rows, output)
}

/// The rows of the worker and of its floors, which take turns.
fn measure_case(
    count: usize,
    options: &DatapathBenchOptions,
    plan: &WorkerBenchConfig,
    resident: &mut BenchNode,
) -> anyhow::Result<Vec<Value>> {
    let sessions = resident.sessions.clone();
    let active = active_sessions(&sessions, plan)?;
    // Where packets wait, such a step may send some.
    let empty = match plan.outcome {
        ExpectedOutcome::Forwarded => Some(measure_empty(resident)?.median),
        _ => None,
    };
    let mut floor = Floor::new(plan);
    let mut run_floor = || floor.run(active, plan);
    let row = |what, figures, c_floor| {
        let mut row = row(what, count, options, plan, figures, c_floor);
        let empty = empty.filter(|_| what == "worker");
        row["cycles_per_empty_step"] = json!(empty.map(report::rounded));
        row
    };
    if !CFloor::covers(&options.profile) {
        let [floor, worker] =
            measure_with(resident, plan, |worker| in_turns(plan, [&mut run_floor, worker]))?;
        return Ok(vec![row("floor", &floor, None), row("worker", &worker, None)]);
    }
    let mut c_floor = CFloor::new(&sessions, plan)?;
    let mut run_c_floor = || c_floor.run(active, plan.burst);
    let [floor, c_floor, worker] = measure_with(resident, plan, |worker| {
        in_turns(plan, [&mut run_floor, &mut run_c_floor, worker])
    })?;
    Ok(vec![
        row("floor", &floor, None),
        row("C floor", &c_floor, None),
        row("worker", &worker, Some(&c_floor)),
    ])
}

/// `c_floor`: the C floor of the same packets.
fn row(
    what: &str,
    count: usize,
    options: &DatapathBenchOptions,
    plan: &WorkerBenchConfig,
    figures: &Figures,
    c_floor: Option<&Figures>,
) -> Value {
    let tag = if options.profile.is_tagged { 4 } else { 0 };
    let is_tunneled = plan.packet.is_uplink() || options.profile.n9;
    let ip = if options.profile.n3_v6 { 40 } else { 20 };
    let tunnel = if is_tunneled { ip + 8 + 16 } else { 0 };
    json!({
        "what": what,
        "direction": if plan.packet.is_uplink() { "uplink" } else { "downlink" },
        "sessions": count,
        "active_sessions": plan.active,
        "order": "random",
        "rules_per_session": options.profile.rules(),
        "families": match options.profile.family() {
            BenchIpVersion::V4 => "ipv4",
            BenchIpVersion::V6 => "ipv6",
            BenchIpVersion::Mixed => "mixed",
        },
        "keys": if options.profile.given_keys { "given" } else { "chosen" },
        "rates": format!("{:?}", options.profile.rates).to_lowercase(),
        "is_tagged": options.profile.is_tagged,
        "n9": options.profile.n9,
        "n3_v6": options.profile.n3_v6,
        "gnbs": options.profile.gnbs,
        "checksums_verified_by": match options.checksum {
            RxChecksum::Good => "port",
            _ => "worker",
        },
        "frame_len_in_bytes": 14 + tag + tunnel + INNER_LEN,
        "burst_pkts": plan.burst,
        "window_pkts": plan.packets,
        "warm_up_pkts": plan.warm_up(),
        "cycles_per_packet": report::rounded(figures.mean),
        "cycles_per_packet_median_burst": report::rounded(figures.median),
        "cycles_per_packet_p99_burst": report::rounded(figures.p99),
        "median_burst_to_c_floor": c_floor.map(|floor| (figures.median / floor.median * 100.0).round() / 100.0),
    })
}
