//! Receiver and worker on cores of their own: frames, buffers and rings travel between their
//! caches.
//!
//! The threads take turns. One core writes frames and receives them, a few hundred packets; then
//! the other core processes them while the first one waits. In run to completion the first core
//! only writes frames, as a NIC does.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};

use adit_datapath::{Receiver, ReceiverConfig, Spread, Worker, connect};
use adit_dpdk::{Eal, Mbuf, Mempool};
use adit_pktio::PacketBuf;
use adit_types::limits::HANDOFF_RING_LEN;
use adit_types::{Nanos, Roles};
use anyhow::{Context, anyhow, ensure};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use serde_json::Value;

use super::{MbufIo, PartCycles, SHAPED_PKTS_MAX, row, timed};
use crate::measure::worker;
use crate::network::{BenchSession, PORTS};
use crate::packet::BenchPacket;
use crate::sessions::{self, BenchProfile, Populated};
use crate::size::BenchSize;

/// Number of rounds; each round measures every case.
const ROUNDS: usize = 3;

/// Returns the packets of a turn, in whole bursts: half of what fits the ring.
fn pkts_per_turn(size: &BenchSize) -> usize {
    HANDOFF_RING_LEN / 2 / size.burst * size.burst
}

/// Returns the number of turns before the measured ones.
fn warm_up_turns(size: &BenchSize) -> usize {
    (4 * size.sessions).div_ceil(pkts_per_turn(size))
}

/// The thread whose turn it is.
struct TurnOfThread(AtomicU8);

impl TurnOfThread {
    const RECEIVER: u8 = 0;
    const WORKER: u8 = 1;
    const END: u8 = 2;

    /// Waits for the turn of `thread`. False if the turns have ended.
    fn wait(&self, thread: u8) -> bool {
        loop {
            match self.0.load(Ordering::Acquire) {
                now if now == thread => return true,
                Self::END => return false,
                _ => std::hint::spin_loop(),
            }
        }
    }

    fn pass(&self, to: u8) {
        self.0.store(to, Ordering::Release);
    }
}

/// Ends the turns of both threads when it is dropped, also if a thread fails.
struct EndOfTurns<'t>(&'t TurnOfThread);

impl Drop for EndOfTurns<'_> {
    fn drop(&mut self) {
        self.0.pass(TurnOfThread::END);
    }
}

/// The cores of both threads, and what the threads share.
struct TwoCores<'a> {
    eal: &'a Eal,
    pool: &'a Mempool,
    cpus: [u16; 2],
    turns: TurnOfThread,
    /// Frames for the worker of run to completion.
    frames: Mutex<Vec<Mbuf>>,
}

/// Returns the first two cores of this process; `None` if it has only one.
fn two_cpus() -> Option<[u16; 2]> {
    let set = rustix::thread::sched_getaffinity(None).ok()?;
    let mut cpus = (0..u16::MAX).filter(|cpu| {
        usize::from(*cpu) < rustix::thread::CpuSet::MAX_CPU && set.is_set(usize::from(*cpu))
    });
    Some([cpus.next()?, cpus.next()?])
}

/// Measures run to completion and both ways to spread packets; no rows on a machine with one core.
pub(super) fn rows(
    eal: &Eal,
    pool: &Mempool,
    size: &BenchSize,
    packet: BenchPacket,
) -> anyhow::Result<Vec<Value>> {
    let Some(cpus) = two_cpus() else { return Ok(Vec::new()) };
    let names = [
        (None, "run-to-completion, own cores"),
        (Some(Spread::Owner), "pipeline, owner, own cores"),
        (Some(Spread::Rss), "pipeline, rss, own cores"),
    ];
    let mut cycles = [const { [const { Vec::new() }; 2] }; 3];
    for _ in 0..ROUNDS {
        for ((spread, _), [at_receiver, at_worker]) in names.iter().zip(&mut cycles) {
            let cores = TwoCores {
                eal,
                pool,
                cpus,
                turns: TurnOfThread(AtomicU8::new(TurnOfThread::RECEIVER)),
                frames: Mutex::new(Vec::new()),
            };
            let [received, worked] = cores.measure(size, packet, *spread)?;
            at_receiver.extend(received);
            at_worker.extend(worked);
        }
    }
    let rows = names.into_iter().zip(cycles).map(|((_, name), cycles)| {
        let [rx_tx, worker] = cycles.map(median);
        let cycles = PartCycles { rx_tx, scheduler: 0, worker };
        row(name, packet, size.burst, &cycles, pkts_per_turn(size))
    });
    Ok(rows.collect())
}

/// Returns the median: a mean would include the time of other processes, which interrupt a thread
/// that waits for its turn.
fn median(mut cycles: Vec<u64>) -> u64 {
    cycles.sort_unstable();
    cycles.get(cycles.len() / 2).copied().unwrap_or_default()
}

impl TwoCores<'_> {
    /// Returns the cycles of each turn, at either core.
    fn measure(
        &self,
        size: &BenchSize,
        packet: BenchPacket,
        spread: Option<Spread>,
    ) -> anyhow::Result<[Vec<u64>; 2]> {
        let roles = match spread {
            None => Roles::run_to_completion(1),
            Some(_) => Roles::pipeline(1, 1),
        };
        let Populated { publisher: _publisher, readers, sessions, store: _store } =
            sessions::populate(BenchProfile::USUAL, size.sessions, roles.threads())?;
        let mut parts: Vec<_> =
            readers.into_iter().zip(connect(roles, HANDOFF_RING_LEN)).map(Some).collect();
        let mut part = |id: usize| parts.get_mut(id).and_then(Option::take).context("a thread");
        let (reader, handoff) = part(0)?;
        let io = MbufIo { prefetches: true, ..MbufIo::new(self.pool, packet.rx_port()) };
        let receiver = match spread {
            None => None,
            Some(spread) => {
                let (reader, handoff) = part(roles.receiving().start)?;
                let signaling = roles.signaling().context("a signaling worker")?;
                let ports = PORTS.to_vec();
                let config = ReceiverConfig { ports, burst: size.burst, spread };
                Some(Receiver::new(config, reader, handoff, signaling))
            }
        };
        let worker = match spread {
            None => worker(reader, PORTS.to_vec(), size.burst, SHAPED_PKTS_MAX),
            Some(_) => {
                worker(reader, Vec::new(), size.burst, SHAPED_PKTS_MAX).with_handoff(handoff)
            }
        };
        let warm_up = warm_up_turns(size);
        let mut cycles: [Vec<u64>; 2] = std::thread::scope(|scope| {
            let working = scope.spawn(|| self.run_worker(worker, io, pkts_per_turn(size)));
            let receiving = scope.spawn(|| self.run_receiver(receiver, &sessions, size, packet));
            let both = [receiving.join(), working.join()];
            let [receiving, working] = both.map(|end| end.map_err(|_| anyhow!("a thread's fault")));
            anyhow::Ok([receiving??, working??])
        })?;
        for cycles in &mut cycles {
            cycles.drain(..warm_up.min(cycles.len()));
        }
        Ok(cycles)
    }

    /// Runs the core at which packets arrive. Returns the receiver's cycles of each turn.
    fn run_receiver(
        &self,
        mut receiver: Option<Receiver<MbufIo>>,
        sessions: &[BenchSession],
        size: &BenchSize,
        packet: BenchPacket,
    ) -> anyhow::Result<Vec<u64>> {
        let turns = size.packets.div_ceil(pkts_per_turn(size) * ROUNDS) + warm_up_turns(size);
        let _end = EndOfTurns(&self.turns);
        adit_dpdk::pin_current_thread(self.cpus[0])?;
        let _registered = adit_dpdk::register_thread(self.eal)?;
        let mut io = MbufIo::new(self.pool, packet.rx_port());
        let mut random = SmallRng::seed_from_u64(1);
        let mut cycles = Vec::with_capacity(turns);
        let mut now = Nanos(0);
        for _ in 0..turns {
            ensure!(self.turns.wait(TurnOfThread::RECEIVER), "the worker ended");
            let mut of_turn = 0;
            for _ in 0..pkts_per_turn(size) / size.burst {
                io.fill(packet, size.burst, sessions, &mut random)?;
                now = Nanos(now.0 + 1);
                match &mut receiver {
                    Some(receiver) => {
                        let report = timed(&mut of_turn, || receiver.step(now, &mut io));
                        ensure!(report.received == size.burst, "{report:?}");
                    }
                    None => {
                        let mut frames = self.frames.lock().map_err(|_| anyhow!("a lock"))?;
                        frames.append(&mut io.ready);
                    }
                }
            }
            cycles.push(of_turn);
            self.turns.pass(TurnOfThread::WORKER);
        }
        self.turns.wait(TurnOfThread::RECEIVER);
        Ok(cycles)
    }

    /// Runs the worker's core. Returns the cycles of each turn.
    fn run_worker(
        &self,
        mut worker: Worker<MbufIo>,
        mut io: MbufIo,
        pkts: usize,
    ) -> anyhow::Result<Vec<u64>> {
        let _end = EndOfTurns(&self.turns);
        adit_dpdk::pin_current_thread(self.cpus[1])?;
        let _registered = adit_dpdk::register_thread(self.eal)?;
        let mut cycles = Vec::new();
        let mut now = Nanos(0);
        while self.turns.wait(TurnOfThread::WORKER) {
            let mut of_turn = 0;
            {
                let mut frames = self.frames.lock().map_err(|_| anyhow!("a lock"))?;
                std::mem::swap(&mut io.ready, &mut *frames);
            }
            // Touches the buffers' headers, as a driver does when it receives.
            let octets: usize = io.ready.iter().map(PacketBuf::data_len).sum();
            std::hint::black_box(octets);
            let before = io.sent;
            timed(&mut of_turn, || {
                loop {
                    now = Nanos(now.0 + 1);
                    if worker.step(now, &mut io).received == 0 {
                        break;
                    }
                }
            });
            let sent = io.sent - before;
            ensure!(sent == pkts && io.ready.is_empty(), "of {pkts} packets {sent} were sent");
            cycles.push(of_turn);
            self.turns.pass(TurnOfThread::RECEIVER);
        }
        worker.drain(&mut io);
        Ok(cycles)
    }
}
