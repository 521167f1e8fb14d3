//! `adit-bench datapath`: TSC cycles that one worker step costs per packet.
//!
//! The bench writes a burst of packets of random sessions into buffers; then one `Worker::step`
//! receives, processes and sends it. The figure includes the two reads of the TSC (about 25 cycles
//! per burst). Packets are in the cache, since they were just written; session state is where the
//! previous bursts left it. Floor and C floor take the same packets in turns with the worker. The
//! floor receives, swaps the MAC addresses and sends. The C floor forwards the usual packet,
//! without the features of a UPF ([`super::c_floor`]). Steps without packets are measured before
//! each case.

use adit_pktio::RxChecksum;
use serde_json::{Value, json};

use super::c_floor::CFloor;
use super::measure::{
    BenchNode, ExpectedOutcome, Figures, Floor, WorkerBenchConfig, active_sessions, establish,
    measure_empty, measure_in_turns, measure_with, steps,
};
use super::network::{BenchIpVersion, INNER_LEN};
use super::packet::BenchPacket;
use super::report::{self, rounded};
use super::sessions::{BenchProfile, BenchRates};
use super::size::{parse_burst, parse_count};

/// The measured directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum BenchDirections {
    /// Uplink, then downlink.
    Both,
    /// From gNBs.
    Uplink,
    /// To gNBs.
    Downlink,
}

impl BenchDirections {
    /// True if packets like `packet` are measured.
    fn has(self, packet: BenchPacket) -> bool {
        match self {
            Self::Both => true,
            Self::Uplink => packet.is_uplink(),
            Self::Downlink => !packet.is_uplink(),
        }
    }
}

/// Options of the bench.
#[derive(Debug, clap::Parser)]
pub(crate) struct DatapathArguments {
    /// Session counts, such as 1k,16k,100k.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1k,16k,100k",
          value_parser = parse_count)]
    sessions: Vec<usize>,
    /// Sessions with traffic, at random among the first ones; default: all.
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    active: Option<usize>,
    /// Packets measured for each direction and session count.
    #[arg(long, value_name = "COUNT", default_value = "4M", value_parser = parse_count)]
    packets: usize,
    /// Packets in one burst, 1 to 64; several such as 1,8,32,64.
    #[arg(long, value_name = "LIST", value_delimiter = ',',
          default_values_t = [adit_types::limits::BURST_DEFAULT], value_parser = parse_burst)]
    burst: Vec<usize>,
    /// The measured directions.
    #[arg(long, value_enum, default_value = "both")]
    direction: BenchDirections,
    /// The ports verify no checksums, so the worker verifies those of IPv4 headers.
    #[arg(long)]
    verify_checksums: bool,
    #[command(flatten)]
    profile: BenchProfile,
}

impl DatapathArguments {
    /// Returns the plan to measure `packet` with `count` sessions.
    fn plan(&self, packet: BenchPacket, count: usize, burst: usize) -> WorkerBenchConfig {
        WorkerBenchConfig {
            packet,
            outcome: match self.profile.rates {
                BenchRates::Exceed | BenchRates::Wait => ExpectedOutcome::Shaped,
                BenchRates::None
                | BenchRates::Police
                | BenchRates::Shape
                | BenchRates::Session
                | BenchRates::Shared => ExpectedOutcome::Forwarded,
            },
            checksum: if self.verify_checksums { RxChecksum::Unknown } else { RxChecksum::Good },
            active: self.active.unwrap_or(count).min(count),
            packets: self.packets,
            burst,
        }
    }

    /// Returns how many packets the worker of the first case processes, the warm-up included.
    pub(crate) fn processed_pkts(&self) -> usize {
        let [count, burst] = [&self.sessions, &self.burst].map(|list| list[0]);
        let (steps, warm_up) = steps(&self.plan(BenchPacket::UPLINK, count, burst));
        (steps + warm_up) * burst
    }
}

/// Measures every session count and burst in both directions.
///
/// # Errors
/// Sessions cannot be established, or a packet was not forwarded.
pub(crate) fn run(options: &DatapathArguments) -> anyhow::Result<Value> {
    let mut rows = Vec::new();
    let profile = options.profile;
    let family = profile.family();
    let packets = [BenchPacket::uplink(family), BenchPacket::Downlink { family }];
    for &count in &options.sessions {
        eprintln!("establishing {count} sessions");
        let mut resident = establish(profile, count)?;
        for &burst in &options.burst {
            for packet in packets.into_iter().filter(|packet| options.direction.has(*packet)) {
                let plan = options.plan(packet, count, burst);
                rows.extend(measure_case(count, &profile, &plan, &mut resident)?);
            }
        }
    }
    Ok(report::of("datapath", &rows))
}

/// Measures the worker and its floors in turns. Returns a row of each.
fn measure_case(
    count: usize,
    profile: &BenchProfile,
    plan: &WorkerBenchConfig,
    resident: &mut BenchNode,
) -> anyhow::Result<Vec<Value>> {
    let sessions = resident.sessions.clone();
    let active = active_sessions(&sessions, plan)?;
    // If packets wait for rates, a step that receives none may send some: it is not empty.
    let empty = match plan.outcome {
        ExpectedOutcome::Forwarded => Some(measure_empty(resident)?.median),
        _ => None,
    };
    let mut floor = Floor::new(plan);
    let mut run_floor = || floor.run(active, plan);
    // `c_floor`: the figures of the C floor for the same packets.
    let row = |what, figures: &Figures, c_floor: Option<&Figures>| {
        let mut row = row(what, count, profile, plan, figures);
        let empty = empty.filter(|_| what == "worker");
        row["cycles_per_empty_step"] = json!(empty.map(rounded));
        let ratio = |floor: &Figures| (figures.median / floor.median * 100.0).round() / 100.0;
        row["median_burst_to_c_floor"] = json!(c_floor.map(ratio));
        row
    };
    if !CFloor::covers(profile) {
        let [floor, worker] = measure_with(resident, plan, |worker| {
            measure_in_turns(plan, [&mut run_floor, worker])
        })?;
        return Ok(vec![row("floor", &floor, None), row("worker", &worker, None)]);
    }
    let mut c_floor = CFloor::new(&sessions, plan)?;
    let mut run_c_floor = || c_floor.run(active, plan.burst);
    let [floor, c_floor, worker] = measure_with(resident, plan, |worker| {
        measure_in_turns(plan, [&mut run_floor, &mut run_c_floor, worker])
    })?;
    Ok(vec![
        row("floor", &floor, None),
        row("C floor", &c_floor, None),
        row("worker", &worker, Some(&c_floor)),
    ])
}

fn row(
    what: &str,
    count: usize,
    profile: &BenchProfile,
    plan: &WorkerBenchConfig,
    figures: &Figures,
) -> Value {
    let tag = if profile.is_tagged { 4 } else { 0 };
    let is_tunneled = plan.packet.is_uplink() || profile.n9;
    let ip = if profile.n3_v6 { 40 } else { 20 };
    let tunnel = if is_tunneled { ip + 8 + 16 } else { 0 };
    figures.add_to(json!({
        "what": what,
        "direction": plan.packet.direction(),
        "sessions": count,
        "active_sessions": plan.active,
        "rules_per_session": profile.rules(),
        "families": match profile.family() {
            BenchIpVersion::V4 => "ipv4",
            BenchIpVersion::V6 => "ipv6",
            BenchIpVersion::Mixed => "mixed",
        },
        "keys": if profile.given_keys { "given" } else { "chosen" },
        "rates": format!("{:?}", profile.rates).to_lowercase(),
        "is_tagged": profile.is_tagged,
        "n9": profile.n9,
        "n3_v6": profile.n3_v6,
        "gnbs": profile.gnbs,
        "checksums_verified_by": match plan.checksum {
            RxChecksum::Good => "port",
            _ => "worker",
        },
        "frame_len_in_bytes": 14 + tag + tunnel + INNER_LEN,
        "burst_pkts": plan.burst,
        "window_pkts": plan.packets,
    }))
}
