//! Run to completion and the pipelines: the cost of a packet for the receiver, and for the worker.
//!
//! All forms are measured in turns, so that changes of the machine's speed affect all alike.

use adit_datapath::{Receiver, ReceiverConfig, RingPair, Spread, Worker, connect};
use adit_dpdk::{Mbuf, Mempool};
use adit_pktio::Burst;
use adit_tables::Publisher;
use adit_types::limits::HANDOFF_RING_LEN;
use adit_types::{Nanos, Roles};
use adit_wire::rss::{Toeplitz, ToeplitzForm, ToeplitzKey};
use anyhow::{Context, ensure};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use serde_json::{Value, json};

use super::{MbufIo, PartCycles, SHAPED_PKTS_MAX, row, steps, sum_without_interruptions, timed};
use crate::measure::worker;
use crate::network::{BenchSession, PORTS};
use crate::packet::BenchPacket;
use crate::report::{ratio, rounded};
use crate::sessions::{self, BenchProfile, Populated};
use crate::size::BenchSize;

/// The model with which the others are compared.
const RUN_TO_COMPLETION: &str = "run-to-completion";
/// Suffix of the names of models whose threads have cores of their own.
const OWN_CORES_SUFFIX: &str = ", own cores";

/// Number of turns; each turn measures every form.
const TURNS: usize = 5;

/// A form of the pipeline.
#[derive(Debug, Clone, Copy)]
pub(super) struct PipelineForm {
    pub spread: Spread,
    /// How [`Spread::Rss`] hashes.
    pub hash: ToeplitzForm,
    pub workers: usize,
}

impl PipelineForm {
    /// The measured forms.
    const ALL: [Self; 6] = [
        Self { spread: Spread::Owner, hash: ToeplitzForm::Gfni, workers: 1 },
        Self { spread: Spread::Rss, hash: ToeplitzForm::Bits, workers: 1 },
        Self { spread: Spread::Rss, hash: ToeplitzForm::SetBits, workers: 1 },
        Self { spread: Spread::Rss, hash: ToeplitzForm::Gfni, workers: 1 },
        Self { spread: Spread::Owner, hash: ToeplitzForm::Gfni, workers: 2 },
        Self { spread: Spread::Rss, hash: ToeplitzForm::Gfni, workers: 2 },
    ];

    fn name(self) -> String {
        let spread = match (self.spread, self.hash) {
            (Spread::Owner, _) => "owner",
            (Spread::Rss, ToeplitzForm::Bits) => "rss by bits",
            (Spread::Rss, ToeplitzForm::SetBits) => "rss by set bits",
            (Spread::Rss, ToeplitzForm::Gfni) => "rss by GFNI",
        };
        let workers = if self.workers > 1 { ", 2 workers" } else { "" };
        format!("pipeline, {spread}{workers}")
    }
}

/// The threads of a model, which take their steps in turns.
struct ModelThreads {
    name: String,
    _publisher: Publisher,
    receiver: Option<Receiver<MbufIo>>,
    workers: Vec<Worker<MbufIo>>,
    /// The ports of each worker, then those of the receiver. Packets arrive at the last entry.
    ios: Vec<MbufIo>,
    sessions: Vec<BenchSession>,
    random: SmallRng,
    /// For each measured burst: the receiver's cycles, and the workers'.
    cycles: [Vec<u64>; 2],
    /// Number of packets that arrived.
    arrived: usize,
    now: Nanos,
}

impl ModelThreads {
    /// Makes a worker that receives itself, or the threads of `form`. `None` if the processor lacks
    /// the instructions for the hash of `form`.
    fn new(
        pool: &Mempool,
        size: &BenchSize,
        packet: BenchPacket,
        form: Option<PipelineForm>,
    ) -> anyhow::Result<Option<Self>> {
        let Some(hash) = Toeplitz::new(ToeplitzKey::SYMMETRIC)
            .with_form(form.map_or(ToeplitzForm::SetBits, |form| form.hash))
        else {
            return Ok(None);
        };
        let roles = match form {
            None => Roles::run_to_completion(1),
            Some(form) => Roles::pipeline(1, form.workers),
        };
        let Populated { publisher, readers, sessions, store: _store } =
            sessions::populate(BenchProfile::USUAL, size.sessions, roles.threads())?;
        let (mut workers, mut receiver) = (Vec::new(), None);
        let handoffs = connect(roles, HANDOFF_RING_LEN);
        for (id, (reader, handoff)) in readers.into_iter().zip(handoffs).enumerate() {
            match (form, roles.signaling()) {
                (Some(form), Some(signaling)) if roles.receiving().contains(&id) => {
                    let config = ReceiverConfig {
                        ports: PORTS.to_vec(),
                        burst: size.burst,
                        spread: form.spread,
                    };
                    let of_ports = Receiver::new(config, reader, handoff, signaling);
                    receiver = Some(of_ports.with_hash(hash.clone()));
                }
                (None, _) => {
                    workers.push(worker(reader, PORTS.to_vec(), size.burst, SHAPED_PKTS_MAX))
                }
                // The signaling worker has nothing to do.
                _ if id >= roles.workers() => {}
                _ => workers.push(
                    worker(reader, Vec::new(), size.burst, SHAPED_PKTS_MAX).with_handoff(handoff),
                ),
            }
        }
        let ends = workers.len() + usize::from(receiver.is_some());
        Ok(Some(Self {
            name: form.map_or_else(|| RUN_TO_COMPLETION.to_owned(), PipelineForm::name),
            _publisher: publisher,
            receiver,
            workers,
            ios: (0..ends).map(|_| MbufIo::new(pool, packet.rx_port())).collect(),
            sessions,
            random: SmallRng::seed_from_u64(1),
            cycles: [Vec::new(), Vec::new()],
            arrived: 0,
            now: Nanos(0),
        }))
    }

    /// Takes a burst through all threads.
    fn run(&mut self, packet: BenchPacket, burst: usize, measures: bool) -> anyhow::Result<()> {
        let Self { receiver, workers, ios, sessions, random, now, .. } = self;
        *now = Nanos(now.0 + 1);
        let (mut of_receiver, mut of_workers) = (0, 0);
        let arriving = ios.last_mut().context("ports")?;
        self.arrived += burst - arriving.ready.len();
        arriving.fill(packet, burst, sessions, random)?;
        if let Some(receiver) = receiver {
            timed(&mut of_receiver, || receiver.step(*now, arriving));
        }
        for (worker, io) in workers.iter_mut().zip(ios) {
            timed(&mut of_workers, || worker.step(*now, io));
        }
        if measures {
            self.cycles[0].push(of_receiver);
            self.cycles[1].push(of_workers);
        }
        Ok(())
    }

    /// Ends the threads, and returns their row.
    fn end(mut self, packet: BenchPacket, burst: usize) -> anyhow::Result<Value> {
        // Packets that one worker hands to another leave a step later.
        for _ in 0..2 {
            self.now = Nanos(self.now.0 + 1);
            for (worker, io) in self.workers.iter_mut().zip(&mut self.ios) {
                worker.step(self.now, io);
            }
        }
        let sent: usize = self.ios.iter().map(|io| io.sent).sum();
        ensure!(
            sent == self.arrived,
            "{}: of {} packets {sent} were sent",
            self.name,
            self.arrived
        );
        for (worker, io) in self.workers.iter_mut().zip(&mut self.ios) {
            worker.drain(io);
        }
        let pkts = burst * self.cycles[0].len();
        let [rx_tx, worker] =
            self.cycles.each_mut().map(|cycles| sum_without_interruptions(cycles));
        Ok(row(&self.name, packet, burst, &PartCycles { rx_tx, scheduler: 0, worker }, pkts))
    }
}

/// Measures all forms. Returns their rows, run to completion first.
pub(super) fn rows(
    pool: &Mempool,
    size: &BenchSize,
    packet: BenchPacket,
) -> anyhow::Result<Vec<Value>> {
    let mut models = Vec::new();
    for form in std::iter::once(None).chain(PipelineForm::ALL.map(Some)) {
        models.extend(ModelThreads::new(pool, size, packet, form)?);
    }
    let (steps, warm_up) = steps(size);
    for turn in 0..TURNS {
        for model in &mut models {
            // Each turn warms up anew, because other models have displaced the state of sessions
            // from the caches.
            let warm_up = if turn == 0 { warm_up } else { warm_up / 2 };
            for step in 0..warm_up + steps.div_ceil(TURNS) {
                model.run(packet, size.burst, step >= warm_up)?;
            }
        }
    }
    models.into_iter().map(|model| model.end(packet, size.burst)).collect()
}

/// Adds to each row the speed of its worker relative to run to completion in the same direction.
/// Models on cores of their own are compared with run to completion on such cores.
pub(super) fn compare(rows: &mut [Value]) {
    let of_worker = |row: &Value| row["worker_cycles"].as_f64();
    for at in 0..rows.len() {
        let own = &rows[at];
        let places = own["model"].as_str().and_then(|model| model.strip_suffix(OWN_CORES_SUFFIX));
        let wanted = places.map_or_else(
            || RUN_TO_COMPLETION.to_owned(),
            |_| format!("{RUN_TO_COMPLETION}{OWN_CORES_SUFFIX}"),
        );
        let mut before = rows
            .iter()
            .filter(|row| row["model"] == wanted && row["direction"] == own["direction"]);
        let ratio = match (before.next().and_then(of_worker), of_worker(own)) {
            (Some(reference), Some(own)) if own > 0.0 => {
                json!((reference / own * 1e3).round() / 1e3)
            }
            _ => Value::Null,
        };
        rows[at]["worker_to_run_to_completion"] = ratio;
    }
}

/// Measures the cost of a ring for a packet, at both ends together. Returns the row.
pub(super) fn measure_ring(pool: &Mempool, size: &BenchSize) -> anyhow::Result<Value> {
    let mut pair = RingPair::new(HANDOFF_RING_LEN).context("a ring")?;
    let mut burst: Burst<Mbuf> = Burst::new();
    pool.alloc_burst(size.burst, &mut burst);
    let (mut cycles, mut pkts) = (PartCycles::default(), 0);
    while pkts < size.packets {
        pkts += burst.len();
        timed(&mut cycles.worker, || pair.pass(&mut burst));
    }
    ensure!(burst.len() == size.burst, "{} packets are left", burst.len());
    let each = rounded(ratio(cycles.worker, pkts));
    Ok(json!({
        "model": "one ring",
        "direction": "",
        "burst_pkts": size.burst,
        "cycles_per_packet": each,
    }))
}
