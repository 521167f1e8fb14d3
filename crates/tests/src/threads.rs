//! The threads of a packet path over test ports, for any roles.

use adit_datapath::{PathThread, Receiver, ReceiverConfig, Spread, Worker, WorkerConfig, connect};
use adit_pktio::PacketIo;
use adit_rules::{WorkerCommand, WorkerEvent};
use adit_tables::TablesReader;
use adit_types::limits::{COMMAND_RING_LEN, EVENT_RING_LEN};
use adit_types::{PortId, Role, Roles};

/// What the threads are built from.
#[derive(Debug, Clone)]
pub struct PathThreadsConfig {
    /// What they do.
    pub roles: Roles,
    /// How receivers choose workers.
    pub spread: Spread,
    /// Packets that a ring has room for.
    pub ring_len: usize,
    /// The ports that each receiving thread polls.
    pub ports: Vec<PortId>,
    /// Packets per burst.
    pub burst: usize,
    /// Packets that FARs buffer, and packets that wait for their rates, of each worker.
    pub waiting_pkts_max: usize,
}

/// The threads, and the control side's ends of their rings. Receivers have none.
pub struct PathThreads<Io: PacketIo> {
    /// By number.
    pub threads: Vec<Box<dyn PathThread<Io> + Send>>,
    /// Commands to each worker, the signaling worker among them.
    pub commands: Vec<rtrb::Producer<WorkerCommand>>,
    /// Their events.
    pub events: Vec<rtrb::Consumer<WorkerEvent>>,
}

impl<Io: PacketIo> core::fmt::Debug for PathThreads<Io> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PathThreads").field("threads", &self.threads.len()).finish_non_exhaustive()
    }
}

/// The numbers of the threads that receive.
#[must_use]
pub fn receiving(roles: Roles) -> core::ops::Range<usize> {
    match roles.receivers() {
        0 => 0..roles.workers(),
        _ => roles.transmitters()..roles.threads(),
    }
}

impl<Io: PacketIo + 'static> PathThreads<Io>
where
    Io::Buf: 'static,
{
    /// The threads over the tables of `readers`, one for each.
    #[must_use]
    pub fn new(readers: Vec<TablesReader>, config: &PathThreadsConfig) -> Self {
        let roles = config.roles;
        assert_eq!(readers.len(), roles.threads(), "a reader for each thread");
        let mut made = Self { threads: Vec::new(), commands: Vec::new(), events: Vec::new() };
        let handoffs = connect(roles, config.ring_len);
        for ((reader, handoff), role) in readers.into_iter().zip(handoffs).zip(roles.all()) {
            let id = reader.worker();
            let polls = receiving(roles).contains(&usize::from(id.0));
            let ports = if polls { config.ports.clone() } else { Vec::new() };
            if let (Role::Receiver, Some(signaling)) = (role, roles.signaling()) {
                let config = ReceiverConfig { ports, burst: config.burst, spread: config.spread };
                made.threads.push(Box::new(Receiver::new(config, reader, handoff, signaling)));
                continue;
            }
            let (event_tx, events) = rtrb::RingBuffer::new(EVENT_RING_LEN);
            let (commands, command_rx) = rtrb::RingBuffer::new(COMMAND_RING_LEN);
            let config = WorkerConfig {
                id,
                ports,
                burst: config.burst,
                buffer_pkts_max: config.waiting_pkts_max,
                shaped_pkts_max: config.waiting_pkts_max,
                recovery_time_stamp: None,
            };
            let worker = Worker::new(config, reader, event_tx, command_rx).with_handoff(handoff);
            made.threads.push(Box::new(worker));
            made.events.push(events);
            made.commands.push(commands);
        }
        made
    }
}
