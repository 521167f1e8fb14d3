//! The worker step: one turn of the packet path, driven by a thread or by a test.
//!
//! A step observes the publication, carries out commands, releases packets that waited, polls each
//! port once, runs the stages, transmits, and then handles what the slow path collected. It never
//! blocks, and it knows no time but the one it is given.

use adit_pktio::{Burst, PacketBuf, PacketIo};
use adit_rules::{DropReason, WorkerCommand, WorkerEvent};
use adit_tables::TablesReader;
use adit_types::limits::{BUFFER_PKTS_MAX, BURST_MAX, SHAPED_PKTS_MAX};
use adit_types::{Nanos, PortId, WorkerId};
use rtrb::{Consumer, Producer};

use crate::buffering::{self, Buffering};
use crate::columns::{BurstLane, BurstLanes, LaneKind};
use crate::handoff::{Handoff, WorkerSet, steer_lane};
use crate::interfaces::Interfaces;
use crate::shaping;
use crate::slow::{self, SlowLimits};
use crate::stage::egress::StepContext;
use crate::stage::fast_path::forward_usual;
use crate::stage::s1_parse::s1_parse;
use crate::stage::s2_lookup::s2_lookup;
use crate::stage::s3_classify::s3_classify;
use crate::stage::s4_enforce::s4_enforce;
use crate::stage::s5_account::s5_account;
use crate::stage::s6_apply::s6_apply;
use crate::tally::WaitingCounts;
use crate::worker_state::WorkerState;

/// What a worker is told at start.
#[derive(Debug, Clone)]
pub struct WorkerConfig {
    /// Which worker this is.
    pub id: WorkerId,
    /// The ports to poll, in this order.
    pub ports: Vec<PortId>,
    /// Packets asked from a port per step, 1..=`BURST_MAX`; other values are cut to that range.
    pub burst: usize,
    /// Packets that are held at most while their FARs buffer; cut to `limits::BUFFER_PKTS_MAX`.
    /// Each occupies a whole buffer of the driver's pool.
    pub buffer_pkts_max: usize,
    /// Packets that are held at most while they wait for the rates of their QERs; cut to
    /// `limits::SHAPED_PKTS_MAX`. Each occupies a whole buffer of the driver's pool.
    pub shaped_pkts_max: usize,
    /// When this node started, told in Echo Requests and Echo Responses; `None`: it is not told.
    /// Unit: seconds since 1900-01-01 00:00 UTC. Spec: TS 23.007 §18A.
    pub recovery_time_stamp: Option<u32>,
}

/// What one step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepReport {
    /// Packets received, and taken over from other workers.
    pub received: usize,
    /// Nothing was received, commanded or waiting: the caller may pause.
    pub idle: bool,
    /// Other workers that were handed packets: whoever pauses among them must be woken.
    pub given: WorkerSet,
}

/// One worker of the packet path: run-to-completion from receive to transmit.
///
/// Every packet received or taken over ends in exactly one outcome: transmitted, one drop reason, one
/// punt reason, held for whatever it waits for (the gauge `buffered_pkts`),
/// or handed to the worker that owns its session. Packets that Adit makes itself are counted apart:
/// `originated_pkts`, and `originated_lost_pkts` when they could not be transmitted.
///
/// Threads: owned by one thread; control thread and worker meet in the reader and the two rings.
pub struct Worker<Io: PacketIo> {
    config: WorkerConfig,
    reader: TablesReader,
    interfaces: Interfaces,
    limits: SlowLimits,
    rx: Burst<Io::Buf>,
    out: WorkerState<Io::Buf>,
}

impl<Io: PacketIo> core::fmt::Debug for Worker<Io> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Worker").field("config", &self.config).finish_non_exhaustive()
    }
}

impl<Io: PacketIo> Worker<Io> {
    /// A worker over `reader`'s tables and interfaces. Allocates all memory it will use.
    #[must_use]
    pub fn new(
        mut config: WorkerConfig,
        reader: TablesReader,
        events: Producer<WorkerEvent>,
        commands: Consumer<WorkerCommand>,
    ) -> Self {
        config.burst = config.burst.clamp(1, BURST_MAX);
        let interfaces = Interfaces::new(reader.interfaces());
        let limits = SlowLimits::new();
        let sessions_max = reader.sessions_max();
        let buffering = Buffering::new(config.buffer_pkts_max, sessions_max);
        let shaping = shaping::shaping(config.shaped_pkts_max, sessions_max);
        let turned = most_turned(&config);
        let ports = interfaces.port_count();
        let out = WorkerState::new((ports, turned), events, commands, buffering, shaping);
        Self { config, reader, interfaces, limits, rx: Burst::new(), out }
    }

    /// Connects the worker with the others, by its ends of [`crate::connect`]'s rings. Required where
    /// several workers look at the tables: what belongs to a session is written by its owner alone.
    #[must_use]
    pub fn with_handoff(mut self, handoff: Handoff<Io::Buf>) -> Self {
        debug_assert_eq!(handoff.worker(), self.config.id, "the ends of another worker");
        self.out.handoff = handoff;
        self
    }

    /// Which worker this is.
    #[must_use]
    pub const fn id(&self) -> WorkerId {
        self.config.id
    }

    /// Runs one turn of the packet path at time `now`.
    ///
    /// Shape:   polls every port of the configuration once.
    /// Cost:    no allocation, lock, system call or clock of its own; one driver call per port to
    ///          receive and one per port with frames to transmit. Counters are added once at the end.
    /// Units:   `now` is monotonic; time that goes back delays timeouts and does no harm.
    /// Threads: a burst boundary of the tables: nothing seen in the last step is used any more.
    #[inline(never)]
    pub fn step(&mut self, now: Nanos, io: &mut Io) -> StepReport {
        let Self { config, reader, interfaces, limits, rx, out } = self;
        let recovery_time_stamp = config.recovery_time_stamp;
        let env = StepContext { view: reader.observe(), interfaces, now, recovery_time_stamp };
        let waiting = out.packets_waiting();
        let shaped = !out.shaping.is_empty();
        let blocked = out.queues.backlog.len() > 0;
        if blocked {
            out.queues.backlog.send(io, now, &mut out.tally);
        }
        shaping::review_changes(&env, io, out, true);
        let commanded = slow::run_commands(&env, io, out);
        let unresolved = out.unresolved.len() > 0;
        if unresolved {
            let WorkerState { queues, unresolved: pending, events, tally, .. } = out;
            pending.release(&env, io, queues, events, tally);
        }
        let expired = out.fragments.reassembly.expire(now, &mut out.tally);
        let released = !out.buffering.is_empty() && buffering::review_some(&env, io, out);
        if shaped {
            shaping::release(&env, io, out);
        }
        take_turned(&env, io, rx, out);
        if unresolved || commanded || released || shaped {
            out.queues.flush(io, &mut out.tally);
        }
        let mut received = 0;
        for &port in &config.ports {
            let count = io.rx_burst(port, config.burst, rx);
            if count > 0 {
                received += count;
                out.tally.burst();
                process(&env, io, port, rx, out);
            }
        }
        if !out.handoff.is_alone() {
            received += take_over(&env, io, interfaces.port_count(), rx, out);
        }
        if !out.slow.is_empty() {
            slow::run(&env, io, limits, out);
            take_turned(&env, io, rx, out);
            out.queues.flush(io, &mut out.tally);
            out.handoff.flush(&mut out.tally);
        }
        let is_quiet = !unresolved && !commanded && !released && !shaped && !blocked && !expired;
        let idle = received == 0 && is_quiet;
        if !idle {
            finish(&env, waiting, out);
        }
        StepReport { received, idle, given: out.handoff.take_notified() }
    }

    /// Tells the tables not to wait for this worker until its next step. For a worker that pauses
    /// longer than a publication may take.
    pub fn rest(&mut self) {
        self.reader.go_offline();
    }

    /// Ends the worker: everything that waits becomes a counted drop, so that the identity closes,
    /// and the tables need not wait for this worker any more. Nothing is transmitted. To be called
    /// when no other worker takes a step any more, or packets stay on their way between the two.
    pub fn drain(&mut self, _io: &mut Io) {
        let Self { reader, interfaces, rx, out, .. } = self;
        let waiting = out.packets_waiting();
        let (now, recovery_time_stamp) = (Nanos(0), None);
        let env = StepContext { view: reader.observe(), interfaces, now, recovery_time_stamp };
        discard_taken(rx, out);
        out.unresolved.drain(&mut out.tally);
        out.buffering.drain(&mut out.tally);
        out.fragments.reassembly.drain(&mut out.tally);
        shaping::drain(out);
        out.queues.backlog.drain(&mut out.tally);
        finish(&env, waiting, out);
        reader.go_offline();
    }
}

/// Packets that turn round at once at most: all that wait, and those of a burst and of fragments that
/// arrive with it.
fn most_turned(config: &WorkerConfig) -> usize {
    config.buffer_pkts_max.min(BUFFER_PKTS_MAX)
        + config.shaped_pkts_max.min(SHAPED_PKTS_MAX)
        + 2 * BURST_MAX
}

/// Takes one received burst all the way, and packets in it to other UEs once more.
fn process<Io: PacketIo>(
    env: &StepContext<'_>,
    io: &mut Io,
    port: PortId,
    rx: &mut Burst<Io::Buf>,
    out: &mut WorkerState<Io::Buf>,
) {
    forward_burst(env, io, port, rx, out);
    take_turned(env, io, rx, out);
}

/// Takes packets that turned round to other UEs all the way, as packets that arrive from their data
/// network.
#[inline]
fn take_turned<Io: PacketIo>(
    env: &StepContext<'_>,
    io: &mut Io,
    rx: &mut Burst<Io::Buf>,
    out: &mut WorkerState<Io::Buf>,
) {
    while out.queues.switched.len() > 0 {
        let Some(port) = out.queues.switched.take(rx) else { return };
        out.tally.set_recirculated(true);
        forward_burst(env, io, port, rx, out);
        out.tally.set_recirculated(false);
    }
}

/// Takes one burst through the stages.
fn forward_burst<Io: PacketIo>(
    env: &StepContext<'_>,
    io: &mut Io,
    port: PortId,
    rx: &mut Burst<Io::Buf>,
    out: &mut WorkerState<Io::Buf>,
) {
    // What a command is to be carried out before, an End Marker above all, is known by the stages.
    // Commands from now on belong to expresses that settle in later steps.
    if !out.has_commands() {
        forward_usual(env, io, port, rx, out);
        if rx.is_empty() {
            out.handoff.flush(&mut out.tally);
            return;
        }
    }
    take_stages(env, io, port, rx, out);
    if out.fragments.any_arrived() {
        join_fragments(env, io, port, rx, out);
    }
    out.queues.flush(io, &mut out.tally);
    out.handoff.flush(&mut out.tally);
}

/// Takes a burst through all stages.
fn take_stages<Io: PacketIo>(
    env: &StepContext<'_>,
    io: &mut Io,
    port: PortId,
    rx: &mut Burst<Io::Buf>,
    out: &mut WorkerState<Io::Buf>,
) {
    let mut lanes = BurstLanes::new();
    let links = env.interfaces.of_port(port);
    let WorkerState { slow, fragments, tally, .. } = out;
    s1_parse(links, rx, &mut lanes, (slow, fragments), tally);
    forward(env, io, port, &mut lanes.tunneled, out);
    forward(env, io, port, &mut lanes.downlink_v4, out);
    forward(env, io, port, &mut lanes.downlink_v6, out);
}

/// Puts fragments of tunnel packets together, and takes whole ones through the stages.
#[cold]
fn join_fragments<Io: PacketIo>(
    env: &StepContext<'_>,
    io: &mut Io,
    port: PortId,
    rx: &mut Burst<Io::Buf>,
    out: &mut WorkerState<Io::Buf>,
) {
    let WorkerState { fragments, handoff, tally, .. } = out;
    fragments.join(env.now, port, rx, handoff, tally);
    if !rx.is_empty() {
        out.tally.set_recirculated(true);
        take_stages(env, io, port, rx, out);
        out.tally.set_recirculated(false);
    }
}

/// Takes over what other workers received for sessions of this one; tells how many packets.
///
/// Cost: per other worker at most two bursts for each port, as many as that one received in a step and
/// as turned round in it, and one of End Markers, which it hands over behind them.
fn take_over<Io: PacketIo>(
    env: &StepContext<'_>,
    io: &mut Io,
    bursts: usize,
    rx: &mut Burst<Io::Buf>,
    out: &mut WorkerState<Io::Buf>,
) -> usize {
    let mut taken = 0;
    out.tally.set_taken_over(true);
    for source in 0..out.handoff.sources() {
        for _ in 0..=2 * bursts {
            let Some(port) = out.handoff.take(source, rx) else { break };
            taken += rx.len();
            process(env, io, port, rx, out);
        }
    }
    out.tally.set_taken_over(false);
    taken
}

/// Takes one lane through the stages behind parsing.
fn forward<'v, Io: PacketIo, S: LaneKind>(
    env: &StepContext<'v>,
    io: &mut Io,
    port: PortId,
    lane: &mut BurstLane<'v, Io::Buf, S>,
    out: &mut WorkerState<Io::Buf>,
) {
    if lane.is_empty() {
        return;
    }
    debug_assert_eq!(lane.len(), lane.bufs.len());
    s2_lookup(&env.view, lane);
    steer_lane(&mut out.handoff, port, lane, &mut out.tally);
    s3_classify((&env.view, env.now), &mut out.fragments.upper_layers, lane);
    shaping::review_changes(env, io, out, false);
    buffering::review_lane(env, io, lane, out);
    let WorkerState { shaping, leases, events, tally, .. } = out;
    s4_enforce(env, lane, (shaping, leases), events, tally);
    s5_account(env, lane, &mut out.events, &mut out.tally);
    s6_apply(env, io, lane, out);
}

/// Drops what other workers handed over and nobody will treat any more.
fn discard_taken<B: PacketBuf>(rx: &mut Burst<B>, out: &mut WorkerState<B>) {
    out.tally.set_taken_over(true);
    for source in 0..out.handoff.sources() {
        while out.handoff.take(source, rx).is_some() {
            for buf in rx.drain(..) {
                out.tally.receive(buf.data().len());
                out.tally.drop(DropReason::HandoffFull);
            }
        }
    }
    out.tally.set_taken_over(false);
}

/// Adds the step's counts to the worker's counters.
fn finish<B: PacketBuf>(env: &StepContext<'_>, waited: usize, out: &mut WorkerState<B>) {
    let waiting = out.packets_waiting();
    debug_assert!(
        out.tally.identity_holds(waited, waiting),
        "a packet has no outcome, or two: {:?}",
        out.tally
    );
    let apart = WaitingCounts {
        by_far: out.buffering.len(),
        by_rate: out.shaping.len(),
        by_fragment: out.fragments.reassembly.len(),
        by_port: out.queues.backlog.len(),
    };
    out.tally.flush(env.view.counters(), waiting, apart);
}
