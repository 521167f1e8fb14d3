//! `adit-bench churn`: counts the packets that a worker loses while sessions are established and
//! modified.
//!
//! A worker on one core forwards in both directions at a constant rate, while the control thread on
//! another core establishes or modifies sessions through the node. Packets wait for the worker in a
//! receive ring of usual length; packets that find it full are lost. Time is the worker's CPU time,
//! which leaves out time stolen on a shared machine.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use adit_kernel::idle::thread_time;
use adit_types::limits::BURST_DEFAULT;
use anyhow::{Context, ensure};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use super::control_plane::{BenchControlPlane, rate};
use super::measure::{SHAPED_PKTS_FEW, WorkerBench};
use super::network::BenchSession;
use super::packet::BenchPacket;
use super::report::{self, quantile, ratio, rounded};
use super::size::parse_sessions;
use super::smf;

/// Length of the receive ring. Unit: descriptors.
const RX_RING: u64 = 4096;

/// Offered rate, in percent of the loss-free rate.
const LOAD_PERCENT: u64 = 80;

/// Maximum number of sessions established per second, in the phase that establishes.
const ESTABLISHMENTS_PER_S_MAX: u64 = 300_000;

/// Maximum number of steps per phase of which the cycles are recorded.
const SAMPLES_MAX: usize = 1 << 21;

/// Options of the bench.
#[derive(Debug, clap::Args)]
pub(crate) struct ChurnArguments {
    /// Established sessions, all with traffic.
    #[arg(long, value_name = "COUNT", default_value = "100k", value_parser = parse_sessions)]
    resident: u32,
    /// Modifications per second.
    #[arg(long, value_name = "COUNT", default_value = "10k", value_parser = parse_sessions)]
    modifications: u32,
    /// Seconds of each phase.
    #[arg(long, value_name = "SECONDS", default_value_t = 3)]
    seconds: u32,
}

/// Measures the lost packets of each phase.
///
/// # Errors
/// A request is refused or a packet is dropped.
pub(crate) fn run(plan: &ChurnArguments) -> anyhow::Result<Value> {
    let extra = u32::try_from(ESTABLISHMENTS_PER_S_MAX)?.saturating_mul(plan.seconds);
    let mut control = BenchControlPlane::new(plan.resident + extra, 1)?;
    eprintln!("establishing {} sessions", plan.resident);
    control.establish(0, plan.resident)?;
    let active: Vec<BenchSession> = (0..)
        .zip(&control.sessions)
        .map(|(number, known)| crate::control_plane::bench_session(number, *known))
        .collect();
    let reader = control.readers.pop().context("one worker")?;
    let bench = WorkerBench::new(reader, SHAPED_PKTS_FEW);
    let mut lane = ChurnWorker { bench, active, random: SmallRng::seed_from_u64(1) };
    let duration = Duration::from_secs(plan.seconds.into());
    let wait = |_: &mut BenchControlPlane| {
        std::thread::sleep(duration);
        Ok(0)
    };

    let free = lane.run(&mut control, None, wait)?;
    let pace = free.pkts_per_s() * LOAD_PERCENT / 100;
    let quiet = lane.run(&mut control, Some(pace), wait)?;
    let mut next = plan.resident;
    let establishing = lane.run(&mut control, Some(pace), |control| {
        let (started, first) = (Instant::now(), next);
        while started.elapsed() < duration && next < plan.resident + extra {
            control.establish(next, 1000.min(plan.resident + extra - next))?;
            next += 1000;
        }
        Ok(next - first)
    })?;
    let modifying =
        lane.run(&mut control, Some(pace), |control| modify(plan, control, duration))?;
    let phases = [("quiet", quiet), ("establishing", establishing), ("modifying", modifying)];
    let rows = phases.map(|(name, phase)| phase.row(name, plan, pace));
    Ok(report::of("churn", &rows))
}

/// Modifies sessions at the configured rate. Returns how many modifications it made.
fn modify(
    plan: &ChurnArguments,
    control: &mut BenchControlPlane,
    duration: Duration,
) -> anyhow::Result<u32> {
    let mut random = SmallRng::seed_from_u64(2);
    let (started, mut done) = (Instant::now(), 0_u32);
    while started.elapsed() < duration {
        let due = started.elapsed().as_secs_f64() * f64::from(plan.modifications);
        if f64::from(done) < due {
            control.modify_one(random.random_range(0..plan.resident))?;
            done += 1;
        } else {
            control.poll()?;
        }
    }
    control.settle()?;
    Ok(done)
}

/// The worker and the sessions with traffic.
struct ChurnWorker {
    bench: WorkerBench,
    active: Vec<BenchSession>,
    random: SmallRng,
}

/// Result of one phase.
struct ChurnPhase {
    changes: u32,
    elapsed: Duration,
    offered: u64,
    forwarded: u64,
    late_max: u64,
    /// Cycles of each step with packets.
    cycles: Vec<u64>,
}

impl ChurnWorker {
    /// Forwards at `pace` packets per second, or at full speed, while `changes` runs and returns
    /// how many changes it made.
    fn run(
        &mut self,
        control: &mut BenchControlPlane,
        pace: Option<u64>,
        changes: impl FnOnce(&mut BenchControlPlane) -> anyhow::Result<u32>,
    ) -> anyhow::Result<ChurnPhase> {
        let before = control.publisher.snapshot();
        let stop = AtomicBool::new(false);
        let (mut phase, changes, elapsed) = std::thread::scope(|scope| {
            let lane = scope.spawn(|| self.forward(pace, &stop));
            let started = Instant::now();
            let changes = changes(control);
            let elapsed = started.elapsed();
            stop.store(true, Ordering::Relaxed);
            let phase = lane.join().unwrap_or_else(|_| Err(anyhow::anyhow!("the worker failed")));
            anyhow::Ok((phase?, changes?, elapsed))
        })?;
        let after = control.publisher.snapshot();
        ensure!(after.identity_holds(), "the packet identity does not hold");
        phase.forwarded = after.transmitted_pkts() - before.transmitted_pkts();
        (phase.changes, phase.elapsed) = (changes, elapsed);
        Ok(phase)
    }

    fn forward(&mut self, pace: Option<u64>, stop: &AtomicBool) -> anyhow::Result<ChurnPhase> {
        let burst = BURST_DEFAULT as u64;
        let (mut offered, mut late_max) = (0, 0);
        // Touch all pages beforehand, to avoid page faults while the worker runs.
        let mut cycles = vec![u64::MAX; SAMPLES_MAX];
        cycles.clear();
        let started = Instant::now();
        let core_started_ns = thread_time();
        while !stop.load(Ordering::Relaxed) {
            // Read the clock at full speed as well, so that its cost is the same in every phase.
            let elapsed_ns = thread_time() - core_started_ns;
            let due = match pace {
                Some(pace) => {
                    let due = u128::from(elapsed_ns) * u128::from(pace) / 1_000_000_000;
                    u64::try_from(due)?.saturating_sub(offered)
                }
                None => burst,
            };
            if due < burst {
                // An idle step of a polling worker, which observes publications.
                self.bench.prepare_each(BenchPacket::UPLINK, &[])?;
                self.bench.run()?;
                continue;
            }
            late_max = late_max.max(due);
            // Packets beyond the ring's length are lost.
            offered += due.saturating_sub(RX_RING);
            let is_uplink = self.random.random();
            let packet = if is_uplink { BenchPacket::UPLINK } else { BenchPacket::DOWNLINK };
            self.bench.prepare(packet, &self.active, BURST_DEFAULT)?;
            let (spent, sent) = self.bench.run()?;
            ensure!(sent == BURST_DEFAULT, "a packet was not forwarded");
            if cycles.len() < SAMPLES_MAX {
                cycles.push(spent);
            }
            offered += burst;
        }
        let elapsed = started.elapsed();
        cycles.sort_unstable();
        Ok(ChurnPhase { changes: 0, elapsed, offered, forwarded: 0, late_max, cycles })
    }
}

impl ChurnPhase {
    /// Returns the forwarded packets per second of a phase at full speed.
    fn pkts_per_s(&self) -> u64 {
        rate(u32::try_from(self.forwarded).unwrap_or(u32::MAX), self.elapsed)
    }

    fn row(&self, name: &str, plan: &ChurnArguments, pace: u64) -> Value {
        let at = |permille| rounded(ratio(quantile(&self.cycles, permille), BURST_DEFAULT));
        json!({
            "phase": name,
            "rules_per_session": smf::RULES_PER_SESSION,
            "resident_sessions": plan.resident,
            "offered_pkts_per_s": pace,
            "rx_ring_pkts": RX_RING,
            "changes": self.changes,
            "changes_per_s": rate(self.changes, self.elapsed),
            "offered_pkts": self.offered,
            "forwarded_pkts": self.forwarded,
            "lost_pkts": self.offered - self.forwarded,
            "late_pkts_max": self.late_max,
            "cycles_per_packet_median_burst": at(500),
            "cycles_per_packet_p99_burst": at(990),
        })
    }
}
