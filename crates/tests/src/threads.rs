//! The threads of a packet path over test ports, for any roles.

use adit_datapath::{
    EventQueues, EventWorker, Handoff, OwnerChanges, PathThread, Receiver, ReceiverConfig, RxTx,
    RxTxConfig, SharedFlows, Spread, TapPort, Worker, WorkerConfig, connect,
};
use adit_pktio::PacketIo;
use adit_pktio::mem::MemBuf;
use adit_rules::{TapItem, WorkerCommand, WorkerEvent};
use adit_tables::TablesReader;
use adit_testkit::mem_events::{ChoosePort, MemEventPort, MemScheduler, MemSchedulerConfig};
use adit_types::limits::{COMMAND_RING_LEN, EVENT_RING_LEN, TAP_RING_LEN};
use adit_types::{Nanos, Owners, PortId, Role, Roles};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Flows of the event scheduler.
const EVENT_FLOWS: usize = 512;

/// How the event scheduler chooses workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowChoice {
    /// The worker that owns the flow's sessions in other models: a flow stays where it is.
    Owner,
    /// Any worker each time, by this seed.
    Random(u64),
}

/// The configuration of the threads.
#[derive(Debug, Clone)]
pub struct PathThreadsConfig {
    /// Their roles.
    pub roles: Roles,
    /// How receivers choose workers.
    pub spread: Spread,
    /// Packets for which a ring has room.
    pub ring_len: usize,
    /// The ports that each receiving thread polls.
    pub ports: Vec<PortId>,
    /// Packets per burst.
    pub burst: usize,
    /// Packets that FARs buffer, and packets that wait for their rates, of each worker.
    pub waiting_pkts_max: usize,
    /// How the event scheduler chooses workers.
    pub flow_choice: FlowChoice,
    /// The queues of the event scheduler.
    pub queues: EventQueues,
}

/// The threads, and the control side's ends of their rings. Receivers have none.
pub struct PathThreads<Io: PacketIo> {
    /// By number.
    pub threads: Vec<Box<dyn PathThread<Io> + Send>>,
    /// Commands to each worker, the signaling worker among them.
    pub commands: Vec<rtrb::Producer<WorkerCommand>>,
    /// Their events.
    pub events: Vec<rtrb::Consumer<WorkerEvent>>,
    /// Their records of packets.
    pub records: Vec<rtrb::Consumer<TapItem>>,
    /// The owners of sessions, if several workers own them.
    pub owners: Option<OwnerChanges<MemBuf>>,
}

impl<Io: PacketIo> core::fmt::Debug for PathThreads<Io> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PathThreads").field("threads", &self.threads.len()).finish_non_exhaustive()
    }
}

impl<Io: PacketIo<Buf = MemBuf> + 'static> PathThreads<Io> {
    /// The threads over the tables of `readers`, one for each.
    #[must_use]
    pub fn new(readers: Vec<TablesReader>, config: &PathThreadsConfig) -> Self {
        let roles = config.roles;
        assert_eq!(readers.len(), roles.threads(), "a reader for each thread");
        let mut made = Self {
            threads: Vec::new(),
            commands: Vec::new(),
            events: Vec::new(),
            records: Vec::new(),
            owners: None,
        };
        let sessions_max = readers.first().map_or(0, TablesReader::sessions_max);
        let flows = SharedFlows::new(EVENT_FLOWS, &config.queues, sessions_max);
        let mut scheduled = scheduler(config).into_iter();
        let handoffs = connect(roles, config.ring_len);
        if roles.rx_tx() == 0 && roles.workers() > 1 {
            made.owners = handoffs.first().map(Handoff::owner_changes);
        }
        for ((reader, handoff), role) in readers.into_iter().zip(handoffs).zip(roles.all()) {
            let polls = roles.receiving().contains(&usize::from(reader.worker().0));
            let ports = if polls { config.ports.clone() } else { Vec::new() };
            match (role, roles.signaling()) {
                (Role::RxTx, _) => {
                    let number = usize::from(reader.worker().0) - roles.processing_thread_count();
                    let config = RxTxConfig { number, ports, burst: config.burst };
                    let port = scheduled.next().unwrap();
                    made.threads.push(Box::new(RxTx::new(config, reader, flows.clone(), port)));
                }
                (Role::Receiver, Some(signaling)) => {
                    let config =
                        ReceiverConfig { ports, burst: config.burst, spread: config.spread };
                    made.threads.push(Box::new(Receiver::new(config, reader, handoff, signaling)));
                }
                _ => made.start_worker(config, ports, reader, handoff, scheduled.next(), &flows),
            }
        }
        made
    }

    fn start_worker(
        &mut self,
        config: &PathThreadsConfig,
        ports: Vec<PortId>,
        reader: TablesReader,
        handoff: Handoff<MemBuf>,
        scheduled: Option<MemEventPort>,
        flows: &SharedFlows,
    ) {
        let (event_tx, events) = rtrb::RingBuffer::new(EVENT_RING_LEN);
        let (commands, command_rx) = rtrb::RingBuffer::new(COMMAND_RING_LEN);
        let worker_config = WorkerConfig {
            id: reader.worker(),
            ports,
            burst: config.burst,
            buffer_pkts_max: config.waiting_pkts_max,
            shaped_pkts_max: config.waiting_pkts_max,
            recovery_time_stamp: None,
        };
        let (record_tx, records) = rtrb::RingBuffer::new(TAP_RING_LEN);
        let taps = TapPort { records: record_tx, clock: Box::new(|| Nanos(0)) };
        let worker = Worker::new(worker_config, reader, event_tx, command_rx).with_taps(taps);
        self.records.push(records);
        self.threads.push(match scheduled {
            None => Box::new(worker.with_handoff(handoff)),
            Some(port) => {
                let worker = match config.roles.workers() {
                    1 => worker,
                    _ => worker.with_handoff(handoff.with_flows(flows.clone())),
                };
                Box::new(EventWorker::new(worker, port, flows.clone()))
            }
        });
        self.events.push(events);
        self.commands.push(commands);
    }
}

/// The ports of an event scheduler, one for each thread; none in other models.
fn scheduler(config: &PathThreadsConfig) -> Vec<MemEventPort> {
    let roles = config.roles;
    if roles.rx_tx() == 0 {
        return Vec::new();
    }
    let owners = Owners::new(roles.workers());
    let choose: ChoosePort = match config.flow_choice {
        FlowChoice::Owner => Box::new(move |_, flow, ports| match ports {
            // A thread for transmission, or for timers.
            [only] => *only,
            _ => usize::from(owners.of_group(flow).0),
        }),
        FlowChoice::Random(seed) => {
            let mut rng = StdRng::seed_from_u64(seed);
            Box::new(move |_, _, ports| ports[rng.random_range(0..ports.len())])
        }
    };
    let (_, ports) = MemScheduler::new(MemSchedulerConfig {
        queues: config.queues.schedules().collect(),
        links: config.queues.links(roles),
        flows: EVENT_FLOWS,
        new_threshold: usize::MAX,
        choose,
        keep_back: Box::new(|_, _| false),
    });
    ports
}
