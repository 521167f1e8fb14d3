//! `adit-bench n4 --store standby`: the time until an establishment is answered, in turns without a
//! store and with a standby that must acknowledge it first.

use std::net::SocketAddr;
use std::str::FromStr;
use std::time::{Duration, Instant};

use adit_dpdk::{
    Device, Eal, Mempool, Port, PortConfig, RegisteringIo, WorkerIo, WorkerPort, pin_current_thread,
};
use adit_shared_store::replicated::ReplicatedFigures;
use adit_shared_store::replication::{
    ReplicatedStore, ReplicatedStoreOptions, ReplicationClient, ReplicationConfig,
    ReplicationServer, ReplicationTail,
};
use adit_shared_store::store_thread::{StoreLink, ThreadStore};
use adit_shared_store::tail_thread::TailThread;
use adit_store::{
    AppendError, GroupNumber, GroupQueue, Incarnation, RecordKey, RecordKind, RecordStore,
    StoreChange, StoreError, Upkeep,
};
use adit_transport::{KernelTcp, KernelWait, Transport, UserTcp, UserTcpConfig};
use adit_types::limits::{STORE_BACKLOG_BYTES_MAX, STORE_GROUP_BYTES_MAX};
use adit_types::{MacAddr, Nanos, PortId};
use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

use super::control_plane::BenchControlPlane;
use super::{models, smf};
use crate::measure::BenchClock;
use crate::n4::{N4Arguments, StandbyTransport};
use crate::report::{quantile, rounded};

/// Number of turns with a standby, and of turns without.
const TURNS: u32 = 5;

/// Longest wait for the standby, and for one answer.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Name of the records.
const NAME: &str = "bench";

type BoxedTransport = Box<dyn Transport + Send>;
type StandbyBenchFigures = ReplicatedFigures<()>;

/// A store in memory, whose groups are durable at each commit.
#[derive(Debug, Default)]
struct InstantStore {
    groups: GroupQueue,
    standby: Option<Incarnation>,
}

impl RecordStore for InstantStore {
    fn append(&mut self, changes: &[StoreChange<'_>]) -> Result<GroupNumber, AppendError> {
        self.groups.append(changes, STORE_GROUP_BYTES_MAX)
    }

    fn commit(&mut self) -> Result<GroupNumber, StoreError> {
        self.groups.set_durable(self.groups.last());
        // The standby still reads the latest groups.
        self.groups.trim(1 << 20);
        Ok(self.durable())
    }

    fn groups(&self) -> &GroupQueue {
        &self.groups
    }

    fn set_standby(&mut self, standby: Option<Incarnation>) {
        self.standby = standby;
    }

    fn standby(&self) -> Option<Incarnation> {
        self.standby
    }

    fn maintain(&mut self) -> Result<Upkeep, StoreError> {
        Ok(Upkeep::Idle)
    }

    fn visit(
        &mut self,
        _: &[RecordKind],
        _: &mut dyn FnMut(RecordKey<'_>, &[u8]),
    ) -> Result<(), StoreError> {
        Ok(())
    }
}

impl ThreadStore for InstantStore {
    type Figures = ();

    fn figures(&self) {}
}

/// Establishes sessions in each turn, in addition to resident ones, with a standby and without a
/// store. The control thread and the store's thread share the first core; the standby has the
/// second.
///
/// # Errors
/// A request is refused, or a transport cannot be used.
pub(crate) fn run(arguments: &N4Arguments) -> anyhow::Result<Value> {
    let &N4Arguments { resident, sessions: measured, transport, ref cores, .. } = arguments;
    let [active_core, standby_core] = cores[..] else { bail!("--cores takes two cores") };
    let sessions_max = resident + TURNS * measured;
    let mut plain = BenchControlPlane::new(sessions_max, 0)?;
    let mut stored = BenchControlPlane::unassociated(sessions_max)?;
    stored.node.begin_records(1);
    let mut stored = stored.associate()?;
    let clock = BenchClock::start();
    // DPDK outlives the threads that use it.
    let mut dpdk = if transport == StandbyTransport::User { Some(start_dpdk()?) } else { None };
    let mut ends = match &mut dpdk {
        Some(dpdk) => dpdk.ends(clock)?,
        None => kernel_ends(transport)?,
    };
    let (near, far) = (ends.active.take(), ends.standby.take());
    let (near, far) = near.zip(far).context("there are two ends")?;
    let polls = transport != StandbyTransport::Blocking;
    pin_current_thread(standby_core)?;
    let mut tail = ReplicationTail::new(NAME, Incarnation(1), STORE_BACKLOG_BYTES_MAX);
    tail.note_epoch(1);
    let server = ReplicationServer::new(far, ends.address, tail)?;
    let standby = TailThread::start(server, polls, move || clock.now())?;
    pin_current_thread(active_core)?;
    let link = StoreLink::start(replicated(near, ends.address, polls, clock)?)?;
    await_standby(&link)?;
    eprintln!("establishing {resident} resident sessions, with and without a standby");
    establish(&mut plain, None, 0, resident)?;
    establish(&mut stored, Some(&link), 0, resident)?;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for turn in 0..TURNS {
        let first = resident + turn * measured;
        without.extend(establish(&mut plain, None, first, measured)?);
        with.extend(establish(&mut stored, Some(&link), first, measured)?);
    }
    let figures = link.report().figures;
    ensure!(figures.standby_is_enough && figures.connections == 1, "the standby was away");
    let groups = standby.report().last.0;
    drop(link);
    drop(standby);
    let (without, with) = (percentiles(without), percentiles(with));
    Ok(json!({
        "store": "standby",
        "rules_per_session": smf::RULES_PER_SESSION,
        "transport": format!("{transport:?}").to_lowercase(),
        "resident_sessions": resident,
        "measured_sessions": measured,
        "turns": TURNS,
        "groups": groups,
        "without_p50_us": without[0],
        "without_p99_us": without[1],
        "without_p99_9_us": without[2],
        "with_p50_us": with[0],
        "with_p99_us": with[1],
        "with_p99_9_us": with[2],
        "more_p50_us": rounded(with[0] - without[0]),
    }))
}

/// Both ends of a link, and the address of the standby.
struct LinkEnds {
    active: Option<BoxedTransport>,
    standby: Option<BoxedTransport>,
    address: SocketAddr,
}

fn kernel_ends(transport: StandbyTransport) -> anyhow::Result<LinkEnds> {
    let wait = match transport {
        StandbyTransport::Blocking => KernelWait::Sleep,
        _ => KernelWait::Poll,
    };
    let free = std::net::TcpListener::bind((smf::CP_ADDR, 0))?.local_addr()?;
    let active: BoxedTransport = Box::new(KernelTcp::new(wait)?);
    let standby: BoxedTransport = Box::new(KernelTcp::new(wait)?);
    Ok(LinkEnds { active: Some(active), standby: Some(standby), address: free })
}

/// DPDK with the two ports of a memif. Fields drop in order.
struct DpdkLink {
    queues: Vec<WorkerPort>,
    _ports: Vec<Port>,
    pool: Mempool,
    eal: Eal,
}

fn start_dpdk() -> anyhow::Result<DpdkLink> {
    let socket = format!("/adit-bench-{}.sock", std::process::id());
    let (eal, pool) = models::start()?;
    let (mut ports, mut queues) = (Vec::new(), Vec::new());
    for (number, role) in [(0, "server"), (1, "client")] {
        let device = format!("net_memif{number},role={role},socket={socket},socket-abstract=yes");
        let device = Device::from_str(&device)?;
        let config = PortConfig {
            device: &device,
            rx_queues: 1,
            tx_queues: 1,
            rx_descriptors: 1024,
            tx_descriptors: 1024,
            mtu_bytes: 1500,
            promiscuous: true,
            mempool: &pool,
        };
        let (port, rx, tx) = Port::open(&eal, &config)?;
        let tx = tx.into_iter().next();
        let info = port.info();
        ports.push(port);
        queues.push(WorkerPort { rx, tx, info });
    }
    Ok(DpdkLink { queues, _ports: ports, pool, eal })
}

impl DpdkLink {
    /// Makes a TCP stack in user space on each of the two ports.
    fn ends(&mut self, clock: BenchClock) -> anyhow::Result<LinkEnds> {
        let mut ends = Vec::new();
        for (number, queues) in (1..).zip(self.queues.drain(..)) {
            let io = WorkerIo::new(vec![queues], self.pool.clone());
            let io = RegisteringIo::new(io, self.eal.clone());
            let config = UserTcpConfig {
                mac: Some(MacAddr([2, 0, 0, 0, 0, number])),
                address: [192, 0, 2, number].into(),
                prefix_len: 24,
                gateway: None,
                stream_bytes: 256 << 10,
                streams_max: 16,
                seed: u64::from(std::process::id()) << 8 | u64::from(number),
            };
            let stack: BoxedTransport = Box::new(UserTcp::new(io, PortId(0), config, clock.now())?);
            ends.push(Some(stack));
        }
        let standby = ends.pop().flatten();
        let active = ends.pop().flatten();
        Ok(LinkEnds { active, standby, address: SocketAddr::from(([192, 0, 2, 2], 7000)) })
    }
}

/// Makes a store in memory that is replicated over `transport`.
fn replicated(
    transport: BoxedTransport,
    peer: SocketAddr,
    polls: bool,
    clock: BenchClock,
) -> anyhow::Result<ReplicatedStore<InstantStore, BoxedTransport, impl FnMut() -> Nanos + use<>>> {
    let config = ReplicationConfig {
        peer,
        name: NAME.to_owned(),
        epoch: 1,
        silence_max: Nanos::from_secs(1),
        retry_after: Nanos::from_millis(100),
        ping_interval: Nanos::from_secs(1),
    };
    let client = ReplicationClient::new(transport, config);
    let options = ReplicatedStoreOptions {
        patience: Nanos::from_secs(1),
        lacking_octets_max: STORE_BACKLOG_BYTES_MAX / 2,
        polls,
    };
    Ok(ReplicatedStore::new(InstantStore::default(), client, options, move || clock.now()))
}

/// Waits until the standby's acknowledgment is enough for an answer.
fn await_standby(link: &StoreLink<StandbyBenchFigures>) -> anyhow::Result<()> {
    let began = Instant::now();
    while !link.report().figures.standby_is_enough {
        let error = link.report().figures.standby_error;
        ensure!(began.elapsed() < WAIT_MAX, "the standby cannot be reached: {error}");
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Establishes `count` sessions one after the other. Returns the time from each request to its
/// answer.
fn establish(
    control: &mut BenchControlPlane,
    link: Option<&StoreLink<StandbyBenchFigures>>,
    first: u32,
    count: u32,
) -> anyhow::Result<Vec<Duration>> {
    let mut buf = [0; smf::REQUEST_BYTES_MAX];
    let mut took = Vec::with_capacity(usize::try_from(count)?);
    for number in first..first + count {
        let sequence = control.next_sequence();
        let len = smf::establishment(&mut buf, sequence, number).context("a request fits")?;
        let began = Instant::now();
        control.begin(&buf[..len]);
        loop {
            if let Some(link) = link {
                let now = control.now();
                if let Some(group) = control.node.poll_records(now) {
                    link.send(group);
                }
                control.node.handle_durable(now, link.durable());
            }
            control.poll()?;
            if control.is_answered() {
                break;
            }
            ensure!(began.elapsed() < WAIT_MAX, "an establishment was not answered");
            // The thread of the store may share the core.
            std::thread::yield_now();
        }
        took.push(began.elapsed());
    }
    Ok(took)
}

/// Returns the 50th, 99th and 99.9th percentile. Unit: µs.
fn percentiles(mut took: Vec<Duration>) -> [f64; 3] {
    took.sort_unstable();
    [500, 990, 999].map(|permille| rounded(quantile(&took, permille).as_secs_f64() * 1e6))
}
