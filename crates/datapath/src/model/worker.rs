//! A worker: the state that one core of the packet path owns. The execution model
//! ([`crate::model`]) determines how the worker runs.
//!
//! PDR, FAR, QER, URR and SDF filter are the rules of TS 29.244 §5.2 throughout this crate.

use adit_pktio::{Burst, PacketIo};
use adit_rules::{WorkerCommand, WorkerEvent};
use adit_tables::TablesReader;
use adit_types::limits::{BUFFER_PKTS_MAX, BURST_MAX, SHAPED_PKTS_MAX};
use adit_types::{Nanos, PortId, WorkerId};
use rtrb::{Consumer, Producer};

use crate::context::StepContext;
use crate::handoff::Handoff;
use crate::interfaces::Interfaces;
use crate::kernel_twin::KernelTwins;
use crate::model::run_to_completion::{self, PollPlan, StepReport};
use crate::tap::{Tap, TapPort};
use crate::worker_queues::WorkerCapacity;
use crate::worker_state::WorkerState;

/// Configuration of a worker.
#[derive(Debug, Clone)]
pub struct WorkerConfig {
    /// The id of this worker.
    pub id: WorkerId,
    /// The ports to poll, in this order.
    pub ports: Vec<PortId>,
    /// Maximum of packets to receive from a port per step; clamped to 1..=`BURST_MAX`.
    pub burst: usize,
    /// Maximum of packets that FARs buffer, at most `limits::BUFFER_PKTS_MAX`. Each occupies a
    /// whole buffer of the driver's pool.
    pub buffer_pkts_max: usize,
    /// Maximum of packets that wait for the rates of their QERs, at most `limits::SHAPED_PKTS_MAX`.
    /// Each occupies a whole buffer of the driver's pool.
    pub shaped_pkts_max: usize,
    /// When this node started, for the Recovery Time Stamp of Echo Requests and Echo Responses.
    /// `None` omits this information element.
    /// Unit: seconds since 1900-01-01 00:00 UTC. Spec: TS 23.007 §18A.
    pub recovery_time_stamp: Option<u32>,
}

impl WorkerConfig {
    fn capacity(&self, ports: usize, sessions: usize) -> WorkerCapacity {
        let buffered_pkts = self.buffer_pkts_max.min(BUFFER_PKTS_MAX);
        let shaped_pkts = self.shaped_pkts_max.min(SHAPED_PKTS_MAX);
        // One step may switch to other UEs all packets that wait, a received burst, and as many
        // packets reassembled from the burst's fragments.
        let switched_pkts = buffered_pkts + shaped_pkts + 2 * BURST_MAX;
        WorkerCapacity { ports, sessions, buffered_pkts, shaped_pkts, switched_pkts }
    }
}

/// One worker of the packet path.
///
/// The packet identity: every packet that is received, taken over or added by fragmentation has
/// exactly one outcome: transmitted, one drop reason, one punt reason, waiting (the gauge
/// `buffered_pkts`), or handed to the worker that owns its session. Packets that Adit makes itself
/// are counted separately: `originated_pkts`, and `originated_lost_pkts` if they could not be
/// transmitted.
///
/// Threads: owned by one thread, which shares the tables and two rings with the control thread, and
///          two rings with each other worker.
pub struct Worker<Io: PacketIo> {
    config: WorkerConfig,
    reader: TablesReader,
    interfaces: Interfaces,
    rx: Burst<Io::Buf>,
    state: WorkerState<Io::Buf>,
}

/// References to the parts of a worker.
pub(crate) struct WorkerParts<'w, B> {
    pub config: &'w WorkerConfig,
    pub reader: &'w mut TablesReader,
    pub interfaces: &'w mut Interfaces,
    pub rx: &'w mut Burst<B>,
    pub state: &'w mut WorkerState<B>,
}

impl<Io: PacketIo> core::fmt::Debug for Worker<Io> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Worker").field("config", &self.config).finish_non_exhaustive()
    }
}

impl<Io: PacketIo> Worker<Io> {
    /// Creates a worker over the tables and interfaces of `reader`. Allocates all memory that it
    /// will use.
    #[must_use]
    pub fn new(
        mut config: WorkerConfig,
        reader: TablesReader,
        events: Producer<WorkerEvent>,
        commands: Consumer<WorkerCommand>,
    ) -> Self {
        config.burst = config.burst.clamp(1, BURST_MAX);
        let interfaces = Interfaces::new(reader.interfaces());
        let capacity = config.capacity(interfaces.port_count(), reader.sessions_max());
        let state = WorkerState::new(capacity, reader.leases(), events, commands);
        Self { config, reader, interfaces, rx: Burst::new(), state }
    }

    /// Connects the worker with the others; `handoff` has its ends of the rings of
    /// [`crate::connect`]. Required if several workers read the tables: only a session's owner may
    /// write the session's state.
    #[must_use]
    pub fn with_handoff(mut self, handoff: Handoff<Io::Buf>) -> Self {
        debug_assert_eq!(handoff.worker(), self.config.id, "the ends of another worker");
        self.state.handoff = handoff;
        self
    }

    /// Gives the worker a ring for records of taps. Without a ring it has no taps.
    #[must_use]
    pub fn with_taps(mut self, port: TapPort) -> Self {
        self.state.books.tap = Some(Box::new(Tap::new(port, self.config.id)));
        self.state.books.tally.reserve_late_packets();
        self
    }

    /// Connects the worker with the kernel twins of its interfaces.
    #[must_use]
    pub fn with_kernel(mut self, twins: Option<KernelTwins>) -> Self {
        self.state.queues.kernel = twins.map(Box::new);
        self
    }

    /// Returns the parts of the worker, for an execution model that drives it.
    pub(crate) fn parts(&mut self) -> WorkerParts<'_, Io::Buf> {
        let Self { config, reader, interfaces, rx, state } = self;
        WorkerParts { config, reader, interfaces, rx, state }
    }

    /// Returns the id of this worker.
    #[must_use]
    pub const fn id(&self) -> WorkerId {
        self.config.id
    }

    /// Runs one step of the packet path at time `now`.
    ///
    /// Shape:   polls every port of the configuration once.
    /// Cost:    no allocation, lock, system call or clock of its own; one driver call per port to
    ///          receive, and at least one per burst and port with frames to transmit. Counters are
    ///          added once at the end, unless the step was idle.
    /// Units:   `now` is in nanoseconds of a monotonic clock; if it goes back, timeouts are late.
    /// Threads: starts with a quiescent state of the tables: the worker keeps no reference from one
    ///          step to the next.
    #[inline(never)]
    pub fn step(&mut self, now: Nanos, io: &mut Io) -> StepReport {
        let Self { config, reader, interfaces, rx, state } = self;
        let recovery_time_stamp = config.recovery_time_stamp;
        let view = reader.observe();
        interfaces.update_from(&view);
        let ctx = StepContext { view, interfaces, now, recovery_time_stamp };
        let port_count = interfaces.port_count();
        let plan = PollPlan { ports: &config.ports, burst: config.burst, port_count };
        run_to_completion::step(&ctx, io, plan, rx, state)
    }

    /// Declares the worker offline until its next step, so that publication does not wait for it.
    /// To be called before a pause.
    pub fn rest(&mut self) {
        self.reader.go_offline();
    }

    /// Returns the largest share of a ring of packets from other threads that was in use since the
    /// last call. Unit: thousandths.
    pub fn take_fullest_ring(&mut self) -> u16 {
        self.state.handoff.take_fullest()
    }

    /// Ends the worker: drops and counts every packet that waits, so that the packet identity
    /// holds, and declares the worker offline. Transmits nothing. To be called after the last step
    /// of all workers: a packet that is handed over later would be lost uncounted.
    ///
    /// The packets return to the pool of `_io`, which has to exist until then.
    pub fn drain(&mut self, _io: &mut Io) {
        let Self { reader, interfaces, rx, state, .. } = self;
        let (now, recovery_time_stamp) = (Nanos(0), None);
        let view = reader.observe();
        interfaces.update_from(&view);
        let ctx = StepContext { view, interfaces, now, recovery_time_stamp };
        run_to_completion::drain(&ctx, rx, state);
        reader.go_offline();
    }
}
