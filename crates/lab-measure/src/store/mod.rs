//! `adit-lab store`: latency of operations of a store over several transports, in turns.

mod case;
mod distribution;
mod link;
mod load;
mod one_way;
mod report;
mod server;
mod turn;

use std::io::{IsTerminal, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use self::case::{StoreCase, StoreNetworkKind, StoreOperation, StoreTransport, UserPortDriver};
use self::link::StoreNetwork;
use self::load::{LoadControl, LoadOutcome};
use self::report::{add_ratios, add_run};
use self::server::RedisServer;
use self::turn::StoreTurnSetup;
use crate::measurement::{LabMeasurement, Prepared};
use crate::quantity::{Quantity, higher};
use crate::report::{OutputArguments, Report};
use crate::target::rules::possible_value;
use crate::testbed::{Testbed, TestbedArguments, allowed_cores};
use crate::traffic::span_ns;
use adit_lab_process::stop::{Stop, environment};
use adit_types::Nanos;

/// Received bits per second in one direction.
const ONE_WAY: Quantity<'_> = higher("one way", "Mb/s");
/// Maximum number of operations of a run with `--quick`.
const QUICK_OPERATIONS: u64 = 3000;
/// Duration of a run in one direction with `--quick`. Unit: ns.
const QUICK_SPAN_NS: u64 = 300_000_000;
/// Maximum number of cases of which distributions and timelines are drawn; a grid has too many.
const DRAWN_CASES_MAX: usize = 4;
/// Length of the largest IP packet on the link. Unit: octets.
const MTU_BYTES: u16 = 1500;

/// Options of `adit-lab store`.
#[derive(Debug, clap::Args)]
pub struct StoreArguments {
    /// Transports to measure in turns. Those of a pair have a server of adit-lab's own at the other
    /// end.
    #[arg(
        long,
        value_name = "TRANSPORT,…",
        value_enum,
        value_delimiter = ',',
        default_value = "blocking,polled,user,user-pair"
    )]
    transport: Vec<StoreTransport>,
    /// The network between client and server.
    #[arg(long, value_enum, default_value = "veth")]
    link: StoreNetworkKind,
    /// A RESP server to measure instead of a redis-server of this command; over the kernel's TCP.
    #[arg(long, value_name = "HOST:PORT")]
    server: Option<String>,
    /// Operations to measure.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "set")]
    operation: Vec<StoreOperation>,
    /// Sizes of the value, in bytes.
    #[arg(long, value_name = "BYTES,…", value_delimiter = ',', default_value = "1024",
        value_parser = clap::value_parser!(u32).range(1..=524_288))]
    value: Vec<u32>,
    /// Numbers of clients, each with a connection.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1",
        value_parser = clap::value_parser!(u32).range(1..=64))]
    clients: Vec<u32>,
    /// Operations of each run, of all clients together.
    #[arg(long, value_name = "N", default_value_t = 100_000,
        value_parser = clap::value_parser!(u64).range(1..=5_000_000))]
    operations: u64,
    /// Open loop: begin so many operations per second, whatever the replies do; default: a closed
    /// loop.
    #[arg(long, value_name = "N,…", value_delimiter = ',',
        value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    rate: Vec<u64>,
    /// Runs of each case over each transport.
    #[arg(long, value_name = "N", default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Measure throughput in one direction instead: writes of 8 KiB to a sink of adit-lab's own.
    #[arg(long, conflicts_with_all = ["server", "rate"])]
    one_way: bool,
    /// Duration of a run in one direction.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = span_ns)]
    duration: u64,
    /// Driver of the ports in user space on a veth link.
    #[arg(long, value_enum, default_value = "af-packet")]
    driver: UserPortDriver,
    /// Leave segmentation and checksums to the veth devices; only for the kernel's TCP.
    #[arg(long)]
    offloads: bool,
    /// Priority of the threads that measure and of the server; default: fifo for a closed loop,
    /// else normal.
    #[arg(long, value_enum)]
    priority: Option<ThreadPriority>,
    /// CPU core of the clients; default: the first one that this process may use.
    #[arg(long, value_name = "CPU")]
    core: Option<u16>,
    /// CPU core of the server; default: the next one.
    #[arg(long, value_name = "CPU")]
    server_core: Option<u16>,
    /// Short form: one round of at most 3000 operations for each case.
    #[arg(long)]
    quick: bool,
    /// Also write each operation of the last round to this file: transport, case, start and latency
    /// in ns.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArguments,
}

/// How the kernel schedules the threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ThreadPriority {
    /// As other processes.
    Normal,
    /// Before all others (SCHED_FIFO). Clients rest between operations for 1.2 ms after each 12 ms.
    Fifo,
}

/// Client, server and the network between them. Fields drop in order: the server before its
/// network.
pub(crate) struct StoreRig {
    log: Option<std::io::BufWriter<std::fs::File>>,
    redis: Option<RedisServer>,
    testbed: Option<Testbed>,
    network: Option<StoreNetwork>,
    server: Option<SocketAddr>,
    cores: StoreCores,
}

/// One run over one transport.
pub(crate) struct StoreTurn {
    transport: StoreTransport,
    /// The case; `None` for throughput in one direction.
    case: Option<StoreCase>,
    /// The number of the case, from 1.
    number: usize,
    /// The number of the round, from 1.
    round: u32,
}

impl LabMeasurement for StoreArguments {
    const NAME: &'static str = "store";
    type Rig = StoreRig;
    type Case = StoreTurn;

    fn output(&self) -> &OutputArguments {
        &self.output
    }

    fn prepare(&self, report: &mut Report, stop: &Stop) -> Result<Prepared<Self>> {
        let cores = StoreCores::of(self, report);
        let server = self.server.as_deref().map(resolve).transpose()?;
        let transports = self.transports(report, server.is_some())?;
        let network = match server {
            Some(_) => None,
            None => Some(StoreNetwork::create(self.link, self.driver, self.offloads)?),
        };
        let testbed = transports.iter().any(|transport| transport.is_user()).then(|| {
            let (core, memory, mbufs) = (Some(cores.client), 256, 16_383);
            let arguments =
                TestbedArguments { core, memory, mbufs, descriptors: 512, mtu: MTU_BYTES };
            Testbed::start(&arguments, &[])
        });
        let testbed = testbed.transpose()?;
        let needs_redis = |transport: &StoreTransport| !transport.is_pair() && !self.one_way;
        let redis = match &network {
            Some(network) if transports.iter().any(needs_redis) => {
                let redis = RedisServer::start(network, cores.server, stop)?;
                if self.is_fifo() {
                    turn::set_fifo_of(redis.id())?;
                }
                Some(redis)
            }
            _ => None,
        };
        let name = match (&redis, &self.server) {
            (Some(redis), _) => &redis.version,
            (None, Some(server)) => server,
            (None, None) => "adit-lab's own",
        };
        report.condition("server", name);
        let link =
            if server.is_some() { "elsewhere".to_owned() } else { possible_value(&self.link) };
        report.condition("link", link);
        report.condition("priority", if self.is_fifo() { "real-time" } else { "normal" });
        let log = self.log()?;
        let rig = StoreRig { log, redis, testbed, network, server, cores };
        Ok(Some((rig, self.turns(&transports))))
    }

    fn measure(
        &self,
        rig: &mut StoreRig,
        turn: &StoreTurn,
        report: &mut Report,
        stop: &Stop,
    ) -> Result<()> {
        let StoreRig { log, redis, testbed, network, server, cores } = rig;
        redis.as_mut().map_or(Ok(()), RedisServer::check_running)?;
        let context = StoreTurnSetup {
            network: network.as_ref(),
            testbed: testbed.as_ref(),
            server: *server,
            core: cores.client,
            server_core: cores.server,
            is_fifo: self.is_fifo(),
            stop,
        };
        let mut work = || match &turn.case {
            Some(case) => {
                let outcome = self.load(&context, turn, case, report)?;
                let log = log.as_mut().filter(|_| turn.round == self.rounds());
                log.map_or(Ok(()), |log| write_operations(log, turn.transport, case, &outcome))
            }
            None => self.send(&context, turn, report),
        };
        match testbed.as_ref() {
            // Progress is printed on any core but the clients'.
            Some(testbed) => testbed.on_all_cores(work),
            None => work(),
        }
    }

    fn conclude(&self, rig: StoreRig, report: &mut Report) -> Result<()> {
        drop(rig);
        add_ratios(report);
        Ok(())
    }
}

impl StoreArguments {
    /// Returns all turns in order.
    fn turns(&self, transports: &[StoreTransport]) -> Vec<StoreTurn> {
        let cases = match self.one_way {
            true => vec![None],
            false => self.cases().into_iter().map(Some).collect(),
        };
        let mut turns = Vec::new();
        for (number, case) in (1..).zip(cases) {
            for round in 1..=self.rounds() {
                let turn = |transport: &StoreTransport| StoreTurn {
                    transport: *transport,
                    case,
                    number,
                    round,
                };
                turns.extend(transports.iter().map(turn));
            }
        }
        turns
    }

    /// Measures the operations of a case.
    fn load(
        &self,
        context: &StoreTurnSetup<'_>,
        turn: &StoreTurn,
        case: &StoreCase,
        report: &mut Report,
    ) -> Result<LoadOutcome> {
        let transport = turn.transport;
        let control = self.control(context.stop);
        let what = format!("{case}, {transport}");
        let progress = progress_line(|| {
            format!("{what}: {} of {}", control.done.load(Ordering::Relaxed), case.operations)
        });
        let outcome = context.measure(transport, case, &control, progress);
        let outcome = outcome.with_context(|| format!("{transport}, {case}"))?;
        if u64::try_from(outcome.times.count()).ok() != Some(case.operations) {
            bail!("{transport}, {case}: {} replies arrived", outcome.times.count());
        }
        let is_last = turn.round == self.rounds();
        let line = add_run(report, turn, case, &outcome, is_last && turn.number <= DRAWN_CASES_MAX);
        eprintln!("case {}, round {}: {line}", turn.number, turn.round);
        Ok(outcome)
    }

    /// Measures the throughput in one direction.
    fn send(
        &self,
        context: &StoreTurnSetup<'_>,
        turn: &StoreTurn,
        report: &mut Report,
    ) -> Result<()> {
        let transport = turn.transport;
        let span = if self.quick { QUICK_SPAN_NS } else { self.duration };
        let control = self.control(context.stop);
        let progress = progress_line(|| format!("one way, {transport}"));
        let mbps = context.one_way(transport, Nanos(span), &control, progress);
        let mbps = mbps.with_context(|| format!("one way, {transport}"))?;
        eprintln!("round {}: one way, {transport}: {mbps} Mb/s", turn.round);
        report.add(ONE_WAY, &transport.to_string(), [mbps]);
        Ok(())
    }

    fn control(&self, stop: &Stop) -> LoadControl {
        LoadControl { stop: stop.clone(), rests: self.is_fifo(), ..LoadControl::default() }
    }
}

/// Writes each operation of a run to the file of `--log`.
fn write_operations(
    log: &mut std::io::BufWriter<std::fs::File>,
    transport: StoreTransport,
    case: &StoreCase,
    outcome: &LoadOutcome,
) -> Result<()> {
    for time in outcome.times.all() {
        writeln!(log, "{transport}\t{case}\t{}\t{}", time.start_ns, time.latency_ns)?;
    }
    log.flush().context("write the log of operations")
}

/// The cores of both sides.
struct StoreCores {
    client: u16,
    server: u16,
}

impl StoreCores {
    fn of(arguments: &StoreArguments, report: &mut Report) -> Self {
        let all = allowed_cores();
        let first = all.first().copied().unwrap_or(0);
        let client = arguments.core.unwrap_or(first);
        let other = all.iter().copied().find(|core| *core != client).unwrap_or(client);
        let server = arguments.server_core.unwrap_or(other);
        if client == server {
            report.warn("clients and server share a core: latencies are those of its scheduler");
        }
        report.cores("clients", &[client]);
        report.cores("server", &[server]);
        Self { client, server }
    }
}

impl StoreArguments {
    fn is_fifo(&self) -> bool {
        match self.priority {
            Some(priority) => priority == ThreadPriority::Fifo,
            None => self.rate.is_empty(),
        }
    }

    fn rounds(&self) -> u32 {
        if self.quick { 1 } else { self.rounds }
    }

    /// Returns the transports that work over the link. Warns about the others.
    fn transports(&self, report: &mut Report, elsewhere: bool) -> Result<Vec<StoreTransport>> {
        let mut transports = Vec::new();
        for transport in &self.transport {
            let reason = match transport {
                _ if transports.contains(transport) => continue,
                StoreTransport::PolledPair | StoreTransport::User | StoreTransport::UserPair
                    if elsewhere =>
                {
                    "the server is not adit-lab's own, nor is the link"
                }
                StoreTransport::User if self.one_way => "one way, both ends are alike: user-pair",
                StoreTransport::Polled if self.one_way => {
                    "one way, both ends are alike: polled-pair"
                }
                StoreTransport::User if self.link == StoreNetworkKind::Loopback => {
                    "a memif does not lead to the kernel"
                }
                StoreTransport::User | StoreTransport::UserPair if self.offloads => {
                    "--offloads leaves frames that only the kernel can finish"
                }
                _ => {
                    transports.push(*transport);
                    continue;
                }
            };
            report.warn(format!("{transport} is not measured: {reason}"));
        }
        if transports.is_empty() {
            return Err(environment("none of the transports works over this link"));
        }
        Ok(transports)
    }

    /// Returns all cases, in the order of the study: by operation, number of clients, size.
    fn cases(&self) -> Vec<StoreCase> {
        let operations =
            if self.quick { QUICK_OPERATIONS.min(self.operations) } else { self.operations };
        let rates: Vec<Option<u64>> = match &self.rate[..] {
            [] => vec![None],
            rates => rates.iter().copied().map(Some).collect(),
        };
        let mut cases = Vec::new();
        for operation in &self.operation {
            for clients in &self.clients {
                for value in &self.value {
                    cases.extend(rates.iter().map(|rate| StoreCase {
                        operation: *operation,
                        value_bytes: usize::try_from(*value).unwrap_or(usize::MAX),
                        clients: usize::try_from(*clients).unwrap_or(1),
                        operations,
                        rate: *rate,
                    }));
                }
            }
        }
        cases
    }

    fn log(&self) -> Result<Option<std::io::BufWriter<std::fs::File>>> {
        let Some(path) = &self.log else { return Ok(None) };
        let file = std::fs::File::create(path);
        let file = file.with_context(|| format!("create {}", path.display()))?;
        let mut log = std::io::BufWriter::new(file);
        writeln!(log, "transport\tcase\tstart_ns\tlatency_ns")?;
        Ok(Some(log))
    }
}

fn resolve(server: &str) -> Result<SocketAddr> {
    let found = server.to_socket_addrs().ok().and_then(|mut all| all.next());
    found.ok_or_else(|| environment(format!("--server {server}: write it as HOST:PORT")))
}

/// Returns a function that shows `line` once a second, if standard error is a terminal.
fn progress_line(line: impl Fn() -> String) -> impl FnMut() {
    let is_terminal = std::io::stderr().is_terminal();
    let mut last = Instant::now();
    move || {
        if is_terminal && last.elapsed() >= Duration::from_secs(1) {
            last = Instant::now();
            eprint!("\r\x1b[K{}\r", line());
        }
    }
}

#[cfg(test)]
mod tests;
