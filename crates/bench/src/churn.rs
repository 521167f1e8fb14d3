//! `adit bench churn`: counts the packets that a worker loses while sessions are established and modified.
//!
//! A worker on one core forwards in both directions at a constant rate, while the control thread on
//! another core establishes or modifies sessions through the node. Packets that the worker has not yet
//! received wait in a receive ring of common length; further ones are lost. Time is the worker's CPU
//! time, so that time stolen on a shared machine does not count.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use adit_datapath::Worker;
use adit_types::limits::BURST_DEFAULT;
use adit_types::{Direction, Nanos, PortId};
use anyhow::{Context, ensure};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use super::control_plane::{BenchControlPlane, rate};
use super::io::{BenchBuf, BenchIo};
use super::network::BenchSession;
use super::packet::write_packet;
use super::{measure, report, smf};
use crate::report::BenchOutput;

/// Length of the receive ring. Unit: descriptors.
const RX_RING: u64 = 4096;

/// Offered rate, in percent of the loss-free rate.
const LOAD_PERCENT: u64 = 80;

/// Maximum number of sessions established per second, in the phase that establishes.
const ESTABLISHMENTS_PER_S_MAX: u64 = 300_000;

/// Maximum number of steps with recorded cycles per phase.
const SAMPLES_MAX: usize = 1 << 21;

/// Parameters of the bench.
pub(crate) struct ChurnBenchConfig {
    /// Established sessions, all with traffic.
    pub resident: u32,
    /// Modifications per second of sessions with traffic.
    pub modifications_per_s: u32,
    /// Duration of each phase. Unit: seconds.
    pub seconds: u32,
}

/// Measures and prints.
///
/// # Errors
/// A request is refused or a packet is dropped.
pub(crate) fn run(plan: &ChurnBenchConfig, output: &BenchOutput) -> anyhow::Result<()> {
    let extra = u32::try_from(ESTABLISHMENTS_PER_S_MAX)?.saturating_mul(plan.seconds);
    let mut control = BenchControlPlane::new(plan.resident + extra, 1)?;
    eprintln!("establishing {} sessions", plan.resident);
    control.establish(0, plan.resident)?;
    let active: Vec<BenchSession> = (0..)
        .zip(&control.sessions)
        .map(|(number, known)| crate::control_plane::bench_session(number, *known))
        .collect();
    let mut lane = ChurnWorker::new(&mut control, active)?;
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
    let document = json!({
        "bench": "churn",
        "rules_per_session": smf::RULES_PER_SESSION,
        "resident_sessions": plan.resident,
        "offered_pkts_per_s": pace,
        "rx_ring_pkts": RX_RING,
        "quiet": quiet.row(),
        "establishing": establishing.row(),
        "modifying": modifying.row(),
    });
    report::flat(&document, output)
}

/// Modifies sessions at the configured rate. Returns their number.
fn modify(
    plan: &ChurnBenchConfig,
    control: &mut BenchControlPlane,
    duration: Duration,
) -> anyhow::Result<u32> {
    let mut random = SmallRng::seed_from_u64(2);
    let (started, mut done) = (Instant::now(), 0_u32);
    while started.elapsed() < duration {
        let due = started.elapsed().as_secs_f64() * f64::from(plan.modifications_per_s);
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

/// The worker and its packets.
struct ChurnWorker {
    worker: Worker<BenchIo>,
    io: BenchIo,
    active: Vec<BenchSession>,
    random: SmallRng,
    clock: Instant,
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
    fn new(control: &mut BenchControlPlane, active: Vec<BenchSession>) -> anyhow::Result<Self> {
        let reader = control.readers.pop().context("one worker")?;
        let spare = (0..BURST_DEFAULT).map(|_| BenchBuf::take()).collect();
        Ok(Self {
            worker: measure::worker(reader, BURST_DEFAULT, measure::SHAPED_PKTS_FEW),
            io: BenchIo { sent: spare, ..BenchIo::new(PortId(0)) },
            active,
            random: SmallRng::seed_from_u64(1),
            clock: Instant::now(),
        })
    }

    /// Forwards at `pace` packets per second, or at full speed, while `changes` runs. `changes` returns the
    /// number of its changes.
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
        let core_started_ns = core_time_ns()?;
        while !stop.load(Ordering::Relaxed) {
            // Read the clock at full speed, too, so that its cost is the same in every phase.
            let elapsed_ns = core_time_ns()? - core_started_ns;
            let due = match pace {
                Some(pace) => {
                    let due = u128::from(elapsed_ns) * u128::from(pace) / 1_000_000_000;
                    u64::try_from(due)?.saturating_sub(offered)
                }
                None => burst,
            };
            let now = Nanos(u64::try_from(self.clock.elapsed().as_nanos())?);
            if due < burst {
                // An idle step of a polling worker: it observes publications.
                self.worker.step(now, &mut self.io);
                continue;
            }
            late_max = late_max.max(due);
            // Packets beyond the ring's length are lost.
            offered += due.saturating_sub(RX_RING);
            self.write_burst()?;
            let start = adit_dpdk::tsc();
            let report = self.worker.step(now, &mut self.io);
            let end = adit_dpdk::tsc();
            ensure!(report.received == BURST_DEFAULT, "received {}", report.received);
            self.io.gather();
            ensure!(self.io.sent.len() == BURST_DEFAULT, "a packet was not forwarded");
            if cycles.len() < SAMPLES_MAX {
                cycles.push(end.wrapping_sub(start));
            }
            offered += burst;
        }
        let elapsed = started.elapsed();
        cycles.sort_unstable();
        Ok(ChurnPhase { changes: 0, elapsed, offered, forwarded: 0, late_max, cycles })
    }

    /// Writes a burst of one direction, chosen at random.
    fn write_burst(&mut self) -> anyhow::Result<()> {
        let is_uplink = self.random.random();
        let direction = if is_uplink { Direction::Uplink } else { Direction::Downlink };
        self.io.rx_port = PortId(u16::from(!is_uplink));
        while let Some(mut buf) = self.io.sent.pop() {
            let session = self.active[self.random.random_range(0..self.active.len())];
            write_packet(&mut buf, direction, session, crate::network::DN_ADDR)?;
            self.io.ready.push(buf);
        }
        Ok(())
    }
}

/// CPU time of this thread.
fn core_time_ns() -> anyhow::Result<u64> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Ok(u64::try_from(time.tv_sec)? * 1_000_000_000 + u64::try_from(time.tv_nsec)?)
}

impl ChurnPhase {
    /// Rate of a phase at full speed.
    fn pkts_per_s(&self) -> u64 {
        rate(u32::try_from(self.forwarded).unwrap_or(u32::MAX), self.elapsed)
    }

    fn row(&self) -> Value {
        #[allow(clippy::cast_precision_loss, reason = "shown to people, not computed with")]
        let per_packet = |cycles: u64| (cycles as f64 / BURST_DEFAULT as f64 * 10.0).round() / 10.0;
        let at = |share: usize| {
            let place = (self.cycles.len() * share / 100).min(self.cycles.len().saturating_sub(1));
            per_packet(self.cycles.get(place).copied().unwrap_or(0))
        };
        json!({
            "changes": self.changes,
            "changes_per_s": rate(self.changes, self.elapsed),
            "offered_pkts": self.offered,
            "forwarded_pkts": self.forwarded,
            "lost_pkts": self.offered - self.forwarded,
            "late_pkts_max": self.late_max,
            "cycles_per_packet_median_burst": at(50),
            "cycles_per_packet_p99_burst": at(99),
        })
    }
}
