//! The pipeline in a box: store, publisher and workers over in-memory ports, next to the oracle.
//!
//! Both sides get the same requests and packets. After every step, outcomes are compared packet by
//! packet. [`station_mac`] is the hardware address of every station that can be resolved.

mod card;
mod expected;
mod layout;
mod local_switching;
mod offload;
mod owners;
mod restart;
mod routes;
mod stations;
mod taps;
mod usage;

use core::net::IpAddr;
use std::collections::{HashMap, VecDeque};

use adit_datapath::{OwnerChanges, PathThread, Spread};
use adit_pktio::PacketBuf;
use adit_pktio::mem::{MemBuf, MemIo};
use adit_rules::{DeltaId, DropReason, NextHops, RuleDelta, TapItem, WorkerCommand, WorkerEvent};
use adit_session::{Change, CpFSeid, OwnerId, Refusal, SessionChange, SessionStore};
use adit_tables::{Publisher, Snapshot, TablesReader};
use adit_types::limits::{HANDOFF_RING_LEN, NEIGHBOR_PENDING_PER_HOP_MAX};
use adit_types::{
    InterfaceId, MacAddr, Nanos, PortId, Roles, Seid, SessionIndex, UrrId, UsageSlot,
};

pub use self::card::CardSettings;
pub use self::layout::{APPLICATIONS, WorldLayout, control};
pub use self::stations::{resolve_stations, station_mac};

use self::expected::{ExpectedStep, OrderingGroup, ReceivedFrames};
use self::layout::port_macs;
use self::offload::{FrontSide, SentFrame};
use crate::oracle::{
    self, ChosenByUpf, Oracle, OracleBucket, OracleBufferedBy, OracleFirstFragments, OracleLane,
    OracleOutcome, OracleSession, OracleSharedDue, OracleUsage,
};
use crate::threads::{FlowChoice, PathThreads, PathThreadsConfig};

/// Virtual time between exchanges.
const EXCHANGE_INTERVAL: Nanos = Nanos::from_millis(1);

/// Most packets that a worker holds while FARs buffer, and most that wait for their rates.
const WAITING_PKTS: usize = 256;

/// A frame on its way to a thread.
#[derive(Debug, Clone)]
pub struct InjectedFrame {
    /// The thread that receives it; see [`World::receiving`].
    pub worker: usize,
    /// The port.
    pub port: u16,
    /// The octets.
    pub frame: Vec<u8>,
}

/// Added to the SEID for the order of packets that waited for a station or for rules: an offload
/// may send later ones first.
const FOR_STATION: u128 = 1 << 127;
const FOR_RULES: u128 = 1 << 62;

/// A packet that waits for a hardware address.
#[derive(Debug, Clone)]
struct AwaitingNeighbor {
    /// The worker that processes it.
    worker: usize,
    interface: usize,
    station: IpAddr,
    frame: Vec<u8>,
    /// The group in which it keeps its order.
    group: OrderingGroup,
}

/// A packet that waits because its FAR buffers.
#[derive(Debug, Clone)]
struct AwaitingRules {
    by: OracleBufferedBy,
    /// The worker that processes it.
    worker: usize,
    arrival: InjectedFrame,
    since: Nanos,
    /// Its copies left before.
    is_copied: bool,
}

/// The pipeline and the oracle.
pub struct World {
    /// The oracle.
    pub oracle: Oracle,
    /// The session store.
    pub store: SessionStore,
    /// The publisher.
    pub publisher: Publisher,
    /// The ports of each thread.
    pub ios: Vec<MemIo>,
    /// Virtual time.
    pub now: Nanos,
    /// Packets that left by the rules that held them although they match others now.
    pub kept_their_rules: u64,
    /// Later fragments of which the first was known.
    pub known_fragments: u64,
    /// The threads of the packet path.
    pub roles: Roles,
    /// Queues that packets pass with an event scheduler.
    packet_queues: usize,
    /// Workers look up flows, so that packets of several ports are in no order among themselves.
    pub has_rx: bool,
    threads: Vec<Box<dyn PathThread<MemIo> + Send>>,
    events: Vec<rtrb::Consumer<WorkerEvent>>,
    /// Commands to each worker.
    pub commands: Vec<rtrb::Producer<WorkerCommand>>,
    records: Vec<rtrb::Consumer<TapItem>>,
    /// The owners, if several workers own sessions.
    owners: Option<OwnerChanges<MemBuf>>,
    /// The counts of reports by taps.
    pub reported: taps::TapReports,
    /// A tap was started.
    pub is_tapped: bool,
    unobserved: VecDeque<(DeltaId, SessionIndex)>,
    /// Removed URRs whose last report is due, by session, with their usage.
    ending: Vec<(SessionIndex, UrrId, OracleUsage)>,
    deltas: u64,
    awaiting_neighbor: Vec<AwaitingNeighbor>,
    awaiting_rules: Vec<AwaitingRules>,
    /// Packets that came back for other UEs, with the session of the sender.
    locally_switched: Vec<(u128, InjectedFrame)>,
    /// Since when fragments of GTP-U packets wait.
    reassembling: Vec<Nanos>,
    /// The session whose packets wait and whose rules changed since the last step, and whether its
    /// packets are to be dropped.
    changed: Option<(Seid, bool)>,
    /// Unresolved stations of copies of this step.
    copied: Vec<(usize, IpAddr)>,
    /// Limits that URRs reached, not handled yet.
    limits: VecDeque<(Seid, UsageSlot, u32)>,
    /// The device that forwards packets before workers see them, if there is one.
    front: Option<FrontSide>,
}

impl core::fmt::Debug for World {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("World").field("oracle", &self.oracle).finish_non_exhaustive()
    }
}

impl World {
    /// Both sides without sessions, and without neighbors.
    #[must_use]
    pub fn new(layout: &WorldLayout) -> Self {
        let (store, publisher, readers) = control(layout);
        Self::of(layout, store, publisher, readers, None)
    }

    fn of(
        layout: &WorldLayout,
        store: SessionStore,
        publisher: Publisher,
        readers: Vec<TablesReader>,
        front: Option<FrontSide>,
    ) -> Self {
        let macs = port_macs(&layout.interfaces);
        let mut world = Self {
            oracle: Oracle {
                interfaces: layout.interfaces.clone(),
                routes: layout.routes.clone(),
                copied: layout.copied,
                applications: APPLICATIONS,
                sessions: Vec::new(),
                neighbors: HashMap::new(),
                shared_due: OracleSharedDue::default(),
                first_fragments: OracleFirstFragments::new(),
                now: Nanos::from_secs(1),
            },
            store,
            publisher,
            ios: (0..layout.roles.threads()).map(|_| MemIo::new(&macs)).collect(),
            now: Nanos::from_secs(1),
            kept_their_rules: 0,
            known_fragments: 0,
            roles: layout.roles,
            packet_queues: layout.queues.of_packets().count(),
            has_rx: layout.queues.rx().is_some(),
            threads: Vec::new(),
            events: Vec::new(),
            commands: Vec::new(),
            records: Vec::new(),
            owners: None,
            reported: taps::TapReports::default(),
            is_tapped: false,
            unobserved: VecDeque::new(),
            ending: Vec::new(),
            deltas: 0,
            awaiting_neighbor: Vec::new(),
            awaiting_rules: Vec::new(),
            locally_switched: Vec::new(),
            reassembling: Vec::new(),
            changed: None,
            copied: Vec::new(),
            limits: VecDeque::new(),
            front,
        };
        let config = PathThreadsConfig {
            roles: layout.roles,
            spread: Spread::Owner,
            ring_len: HANDOFF_RING_LEN,
            ports: (0..).take(macs.len()).map(PortId).collect(),
            burst: 64,
            waiting_pkts_max: WAITING_PKTS,
            flow_choice: FlowChoice::Owner,
            queues: layout.queues.clone(),
        };
        let threads = PathThreads::new(readers, &config);
        (world.threads, world.commands, world.events) =
            (threads.threads, threads.commands, threads.events);
        (world.records, world.owners) = (threads.records, threads.owners);
        world.settle();
        world
    }

    /// Gives both sides the hardware address of a station.
    pub fn learn(&mut self, interface: usize, station: IpAddr) {
        self.oracle.neighbors.insert((interface, station), station_mac(station));
        self.publish_neighbors();
    }

    fn publish_neighbors(&mut self) {
        for (&(at, addr), &mac) in &self.oracle.neighbors {
            let id = InterfaceId(u8::try_from(at).unwrap());
            if let Some(index) = self.publisher.ensure_next_hop(id, addr) {
                self.publisher.set_mac(index, MacAddr(mac), false);
            }
        }
    }

    /// Establishes a session on both sides.
    ///
    /// # Errors
    /// The store's refusal; neither side changes.
    pub fn establish(&mut self, change: &SessionChange) -> Result<Seid, Refusal> {
        let change = &self.without_contended_rates(change);
        let established = self.store.establish(OwnerId(1), CpFSeid::default(), change.clone())?;
        let mut session = OracleSession::default();
        session.apply(
            change,
            ChosenByUpf {
                f_teids: &established.created,
                ues: &established.created_ues,
                endpoints: &established.created_endpoints,
            },
        );
        self.oracle.sessions.push((established.up_seid, session));
        self.publish(established.delta);
        Ok(established.up_seid)
    }

    /// The change, without rates that workers would share: the order of packets is undefined.
    fn without_contended_rates(&self, change: &SessionChange) -> SessionChange {
        let mut change = change.clone();
        if self.roles.workers() > 1 {
            change.create_qers.iter_mut().for_each(|qer| qer.correlation = None);
            change.update_qers.iter_mut().for_each(|qer| qer.correlation = Change::Keep);
        }
        change
    }

    /// Forgets the rates that neither a QER nor a worker names now.
    fn forget_correlated_rates(&mut self) {
        let Oracle { sessions, shared_due, .. } = &mut self.oracle;
        let qers = || sessions.iter().flat_map(|(_, session)| &session.qers);
        let names = |id: u32| qers().any(|qer| qer.mbr.is_some() && qer.correlation == Some(id));
        shared_due.retain(|(id, _), _| names(*id));
    }

    /// Modifies a session on both sides.
    ///
    /// # Errors
    /// As [`World::establish`].
    pub fn modify(&mut self, seid: Seid, change: &SessionChange) -> Result<(), Refusal> {
        let change = &self.without_contended_rates(change);
        let modified = self.store.modify(seid, change.clone())?;
        let index = self.store.session(seid).unwrap().index();
        self.take_reports(seid, &modified.reports);
        let session = self.oracle.sessions.iter_mut().find(|(known, _)| *known == seid);
        let session = &mut session.unwrap().1;
        let removed = change.remove_urrs.iter().map(|id| (index, *id, session.usage[id]));
        self.ending.extend(removed);
        session.apply(
            change,
            ChosenByUpf {
                f_teids: &modified.created,
                ues: &modified.created_ues,
                endpoints: &modified.created_endpoints,
            },
        );
        if let Some(delta) = modified.delta {
            self.mark_changed(seid, change.drop_buffered);
            self.publish(delta);
        }
        Ok(())
    }

    /// Deletes a session on both sides.
    ///
    /// # Errors
    /// As [`World::establish`].
    pub fn delete(&mut self, seid: Seid) -> Result<(), Refusal> {
        let delta = self.store.delete(seid)?;
        let session = &self.oracle.sessions.iter().find(|(known, _)| *known == seid).unwrap().1;
        self.ending.extend(session.usage.iter().map(|(id, usage)| (delta.session, *id, *usage)));
        self.oracle.sessions.retain(|(known, _)| *known != seid);
        self.mark_changed(seid, true);
        self.publish(delta);
        Ok(())
    }

    /// Records that the rules of a session change. Between two steps only one session with waiting
    /// packets changes: the worker chooses the order of several.
    fn mark_changed(&mut self, seid: Seid, drop: bool) {
        let waits = self.has_buffered(seid);
        if let Some((other, dropped)) = self.changed.filter(|_| waits) {
            assert_eq!(other, seid, "settle the other first");
            self.changed = Some((seid, drop || dropped));
        } else if waits {
            self.changed = Some((seid, drop));
        }
    }

    /// True if packets of `seid` wait.
    fn has_buffered(&self, seid: Seid) -> bool {
        self.awaiting_rules.iter().any(|packet| packet.by.seid == seid)
    }

    /// True if a step must precede a change of `seid`.
    #[must_use]
    pub fn must_step_before(&self, seid: Seid) -> bool {
        self.changed.is_some_and(|(other, _)| other != seid)
    }

    fn publish(&mut self, delta: RuleDelta) {
        let id = DeltaId(self.deltas);
        self.deltas += 1;
        self.unobserved.push_back((id, delta.session));
        self.publisher.apply(id, delta);
        self.publish_neighbors();
        assert_eq!(self.publisher.poll_observed(), None, "observed before any worker stepped");
    }

    /// The threads that receive.
    #[must_use]
    pub fn receiving(&self) -> core::ops::Range<usize> {
        self.roles.receiving()
    }

    /// Collects the answers to publications, which must be complete and in order. Every thread
    /// takes a step, receivers first, and further ones while threads can still hand packets over:
    /// to the owner of their session, or, between UEs, to the owner of the other session.
    fn settle(&mut self) {
        let rounds = match self.roles.rx_tx() {
            // A packet is handed on twice, then an End Marker waits for a sweep of all.
            0 if self.roles.threads() > 1 => 6,
            0 => 1,
            // A packet between UEs passes the queues twice before it leaves.
            _ => 4 + 2 * self.packet_queues,
        };
        let first = self.roles.processing_thread_count();
        for _ in 0..rounds {
            let mut threads: Vec<_> = self.threads.iter_mut().zip(&mut self.ios).collect();
            threads.rotate_left(first);
            for (thread, io) in threads {
                thread.step(self.now, io);
            }
        }
        while let Some(observed) = self.wait_for_observed() {
            let (id, session) = self.unobserved.pop_front().unwrap();
            assert_eq!(observed, id, "observed out of order");
            self.check_final_reports(session);
            self.store.reclaim(session);
        }
        self.forget_correlated_rates();
        assert!(self.unobserved.is_empty(), "all workers stepped, yet a change is not observed");
    }

    /// Gives frames to the first worker, runs a step, and returns what left, with its port.
    pub fn transmit(&mut self, frames: &[(u16, Vec<u8>)]) -> Vec<(u16, Vec<u8>)> {
        let arrival = |(port, frame): &(u16, Vec<u8>)| InjectedFrame {
            worker: self.receiving().start,
            port: *port,
            frame: frame.clone(),
        };
        self.transmit_from(&frames.iter().map(arrival).collect::<Vec<_>>())
    }

    /// Gives frames to the workers, runs a step of all, and returns what left, with its port.
    pub fn transmit_from(&mut self, arrivals: &[InjectedFrame]) -> Vec<(u16, Vec<u8>)> {
        for InjectedFrame { worker, port, frame } in arrivals {
            self.ios[*worker].inject(PortId(*port), frame);
        }
        self.now += Nanos::from_millis(1);
        self.settle();
        let mut left = Vec::new();
        for io in &mut self.ios {
            for port in 0..u16::try_from(io.ports.len()).unwrap() {
                let sent = io.take_sent(PortId(port));
                left.extend(sent.into_iter().map(|buf| (port, buf.data().to_vec())));
            }
        }
        left
    }

    /// Lets the oracle judge packets by the time at which the next exchange gives them to both
    /// sides.
    pub fn look_ahead(&mut self) {
        self.oracle.now = self.now + EXCHANGE_INTERVAL;
    }

    /// Gives `arrivals` to both sides, runs one step of every worker and compares.
    ///
    /// # Errors
    /// The difference. Packets that leave change no state, so each is tried again alone to find the
    /// one that differs.
    pub fn exchange(&mut self, arrivals: &[InjectedFrame]) -> Result<(), String> {
        self.take_records()?;
        let Err(difference) = self.exchange_once(arrivals) else { return Ok(()) };
        self.awaiting_neighbor.clear();
        self.now += Nanos::from_secs(10);
        self.forget_expired();
        self.settle();
        self.forget_events();
        self.trust_session_counters();
        for io in &mut self.ios {
            for port in 0..io.ports.len() {
                io.take_sent(PortId(u16::try_from(port).unwrap()));
            }
        }
        for arrival in arrivals {
            let verdict = self.oracle.judge(arrival.port, &arrival.frame);
            if let Err(alone) = self.exchange_once(core::slice::from_ref(arrival)) {
                let (port, frame) = (arrival.port, hex(&arrival.frame));
                let oracle = describe(&verdict.outcome);
                let alone = format!("alone: {alone}\nport {port} frame {frame}\noracle: {oracle}");
                return Err(format!("{difference}\n{alone}"));
            }
        }
        let frames = arrivals.iter().map(|of| format!("port {} frame {}", of.port, hex(&of.frame)));
        Err(format!("only together: {difference}\n{}", frames.collect::<Vec<_>>().join("\n")))
    }

    fn exchange_once(&mut self, arrivals: &[InjectedFrame]) -> Result<(), String> {
        self.now += EXCHANGE_INTERVAL;
        self.oracle.now = self.now;
        let mut expected = ExpectedStep::default();
        self.expect_release(&mut expected);
        let left = self.run_front(arrivals)?;
        for (arrival, _) in arrivals.iter().zip(&left).filter(|(_, left)| left.is_none()) {
            self.ios[arrival.worker].inject(PortId(arrival.port), &arrival.frame);
        }
        let changed = self.changed.take();
        self.expect_reviewed(changed, &mut expected);
        // The owner of a session processes its own packets first, then those of other workers,
        // worker by worker. Each polls ports in order and processes the lanes of a burst in order.
        // Quotas make the order matter. Packets that a program forwards come before all others.
        let mut ordered: Vec<(usize, &InjectedFrame, bool)> = Vec::new();
        for (arrival, left) in arrivals.iter().zip(&left) {
            let verdict = self.oracle.judge(arrival.port, &arrival.frame);
            let processed_by = self.processing_worker(arrival, verdict.session);
            ordered.push((processed_by, arrival, left.is_none()));
        }
        ordered.sort_by_cached_key(|(processed_by, arrival, is_of_worker)| {
            let verdict = self.oracle.judge(arrival.port, &arrival.frame);
            let is_last = verdict.lane == Some(OracleLane::EndMarker);
            let by = (*processed_by != arrival.worker, arrival.worker, arrival.port, verdict.lane);
            is_of_worker.then_some((is_last, by))
        });
        for (processed_by, arrival, _) in ordered {
            let verdict = self.oracle.judge(arrival.port, &arrival.frame);
            self.count(&verdict);
            let is_copied = expected.expect_copies(&verdict);
            let counted = verdict.counted.map(|(session, ..)| session);
            let end_marker =
                verdict.session.filter(|_| verdict.lane == Some(OracleLane::EndMarker));
            // Positions of sessions change while packets wait.
            let session = counted.or(end_marker).map(|at| self.oracle.sessions[at].0.0);
            let order =
                session.map(|session| self.ordered(session.into(), arrival)).zip(verdict.lane);
            self.expect_outcome(
                &mut expected,
                processed_by,
                arrival,
                verdict.outcome,
                order,
                is_copied,
            );
        }
        self.expect_locally_switched(&mut expected);
        self.copied.clone_from(&expected.wanted);
        self.compare(&expected, left)?;
        self.check_events()?;
        self.check_usage()?;
        self.check_traffic()
    }

    /// The group in which packets of one session keep their order; with an Rx queue each port has
    /// its own. Spec: docs/internals/eventdev.md, order between queues.
    fn ordered(&self, session: u128, arrival: &InjectedFrame) -> u128 {
        session ^ if self.has_rx { u128::from(arrival.port + 1) << 48 } else { 0 }
    }

    /// Runs a step of all workers and compares the result with the expected one.
    fn compare(
        &mut self,
        expected: &ExpectedStep,
        left: Vec<Option<SentFrame>>,
    ) -> Result<(), String> {
        let before = self.publisher.snapshot();
        self.settle();
        let after = self.publisher.snapshot();
        let mut sent: Vec<Vec<Vec<u8>>> = vec![Vec::new(); self.ios[0].ports.len()];
        let all = left.len();
        let offloaded = left.into_iter().flatten().map(|(port, frame)| {
            sent[usize::from(port)].push(frame);
        });
        let received = ReceivedFrames { all, offloaded: offloaded.count() };
        for io in &mut self.ios {
            for (port, sent) in (0..).zip(&mut sent) {
                sent.extend(io.take_sent(PortId(port)).iter().map(|buf| buf.data().to_vec()));
            }
        }
        let buffered =
            self.awaiting_neighbor.len() + self.awaiting_rules.len() + self.reassembling.len();
        expected.compare(&before, &after, received, buffered, sent)?;
        for (worker, snapshot) in self.snapshots().iter().enumerate() {
            if !snapshot.identity_holds() {
                return Err(format!("worker {worker}: the identity does not hold"));
            }
        }
        Ok(())
    }

    /// Judges the waiting packets of the session that changed again, and expects those that waited
    /// too long to be dropped.
    fn expect_reviewed(&mut self, changed: Option<(Seid, bool)>, expected: &mut ExpectedStep) {
        let discarded = DropReason::BufferDiscarded.index();
        let mut again = Vec::new();
        for packet in core::mem::take(&mut self.awaiting_rules) {
            match changed.filter(|(seid, _)| *seid == packet.by.seid) {
                Some((_, true)) => expected.drops[discarded] += 1,
                Some((_, false)) => again.push(packet),
                None if self.now.since(packet.since) >= Nanos::from_secs(60) => {
                    expected.drops[discarded] += 1;
                }
                None => self.awaiting_rules.push(packet),
            }
        }
        for AwaitingRules { by, worker, arrival, is_copied, .. } in again {
            let (port, frame) = (arrival.port, &arrival.frame);
            let verdict = self.oracle.judge_buffered(&by, is_copied, port, frame);
            let leaves = matches!(verdict.outcome, OracleOutcome::Forward { .. });
            let anew = || self.oracle.judge(arrival.port, &arrival.frame).outcome;
            self.kept_their_rules += u64::from(leaves && anew() != verdict.outcome);
            self.count(&verdict);
            let is_copied = expected.expect_copies(&verdict) || is_copied;
            // In any lane, packets that waited keep the order of their session.
            let of = u128::from(by.seid.0) ^ FOR_RULES;
            let order = Some((self.ordered(of, &arrival), OracleLane::Tunneled));
            self.expect_outcome(expected, worker, &arrival, verdict.outcome, order, is_copied);
        }
    }

    /// Charges a packet to the counters of its session, to the URRs that measure it, and to the
    /// rates that it passed.
    fn count(&mut self, verdict: &oracle::OracleVerdict) {
        if let Some((id, part)) = verdict.first_fragment {
            self.oracle.first_fragments.insert(id, (self.now, part));
        }
        self.known_fragments += u64::from(verdict.is_known_fragment);
        for &(position, key, window) in &verdict.windows {
            self.oracle.sessions[position].1.windows.insert(key, window);
        }
        for &(position, bucket, is_uplink, due) in &verdict.due {
            match bucket {
                OracleBucket::Own(qer) => {
                    self.oracle.sessions[position].1.due.insert((qer, is_uplink), due);
                }
                OracleBucket::Shared(id) => {
                    self.oracle.shared_due.insert((id, is_uplink), due);
                }
            }
        }
        for &(position, urr, is_uplink, octets) in &verdict.measured {
            let usage = self.oracle.sessions[position].1.usage.get_mut(&urr).unwrap();
            let measured = &mut usage.measured;
            *(if is_uplink { &mut measured.0 } else { &mut measured.1 }) += octets;
        }
        let Some((position, is_uplink, octets)) = verdict.counted else { return };
        let session = &mut self.oracle.sessions[position].1;
        let traffic = if is_uplink { &mut session.uplink } else { &mut session.downlink };
        *traffic = (traffic.0 + 1, traffic.1 + octets);
    }

    /// Expects packets whose station is resolved now to leave, and those that waited too long to be
    /// dropped.
    fn expect_release(&mut self, expected: &mut ExpectedStep) {
        let held = core::mem::take(&mut self.awaiting_neighbor);
        for mut packet in held {
            match self.oracle.neighbors.get(&(packet.interface, packet.station)) {
                Some(mac) => {
                    packet.frame[..6].copy_from_slice(mac);
                    let port = self.oracle.interfaces[packet.interface].port;
                    expected.forwarded.push((port, packet.group, packet.frame));
                }
                None => self.awaiting_neighbor.push(packet),
            }
        }
    }

    /// Lets time pass until every waiting packet has waited too long.
    ///
    /// # Errors
    /// The difference from dropping them.
    pub fn expire_neighbor_waits(&mut self) -> Result<(), String> {
        self.now += Nanos::from_secs(3);
        self.forget_expired();
        let mut late = [0; 64];
        for held in core::mem::take(&mut self.awaiting_neighbor) {
            late[held.worker] += 1;
        }
        let before = self.snapshots();
        self.settle();
        for (worker, after) in self.snapshots().iter().enumerate() {
            let unresolved = DropReason::NeighborUnresolved.index();
            let dropped = after.drops[unresolved] - before[worker].drops[unresolved];
            let waiting = after.buffered_pkts - after.buffered_by_far_pkts;
            if (dropped, waiting) != (late[worker], 0) || !after.identity_holds() {
                return Err(format!("{} waited too long, {dropped} dropped", late[worker]));
            }
        }
        self.forget_events();
        Ok(())
    }

    /// Expects packets that waited too long for other rules, or for other fragments, to be dropped
    /// in the next step.
    fn forget_expired(&mut self) {
        let now = self.now;
        self.awaiting_rules.retain(|packet| now.since(packet.since) < Nanos::from_secs(60));
        self.reassembling.retain(|since| now.since(*since) < Nanos::from_secs(2));
    }

    fn forget_events(&mut self) {
        self.events.iter_mut().for_each(|ring| while ring.pop().is_ok() {});
    }

    /// Expects an outcome from `worker`. `order`: the packets among which it keeps its order.
    /// `is_copied`: its copies left before.
    fn expect_outcome(
        &mut self,
        expected: &mut ExpectedStep,
        worker: usize,
        arrival: &InjectedFrame,
        outcome: OracleOutcome,
        order: Option<(u128, OracleLane)>,
        is_copied: bool,
    ) {
        match outcome {
            OracleOutcome::Forward { port, frames, lane } => {
                let other = (arrival.worker as u128) << 16 | u128::from(arrival.port);
                let (of, lane) = order.unwrap_or((other, lane));
                let departures = frames.into_iter().map(|frame| (port, (of, Some(lane)), frame));
                expected.forwarded.extend(departures);
            }
            OracleOutcome::SwitchLocally { port, frame } => {
                let from = order.map_or(0, |(session, _)| session);
                self.locally_switched.push((from, InjectedFrame { worker, port, frame }));
            }
            OracleOutcome::Reassemble => self.reassembling.push(self.now),
            OracleOutcome::Buffer { by, room, .. } => {
                let here = |packet: &&AwaitingRules| packet.worker == worker;
                let all = self.awaiting_rules.iter().filter(here).count();
                let of_session =
                    |packet: &&AwaitingRules| here(packet) && packet.by.seid == by.seid;
                if self.awaiting_rules.iter().filter(of_session).count() < room
                    && all < WAITING_PKTS
                {
                    let arrival = arrival.clone();
                    let since = self.now;
                    let packet = AwaitingRules { by, worker, arrival, since, is_copied };
                    self.awaiting_rules.push(packet);
                } else {
                    expected.drops[DropReason::BufferFull.index()] += 1;
                }
            }
            OracleOutcome::Drop(reason) => expected.drops[reason.index()] += 1,
            OracleOutcome::Punt(reason) => expected.punts[reason.index()] += 1,
            OracleOutcome::Consumed => expected.consumed += 1,
            OracleOutcome::AwaitNeighbor { interface, station, frames, .. } => {
                let waits = |held: &&AwaitingNeighbor| {
                    (held.worker, held.interface, held.station) == (worker, interface, station)
                };
                // A scheduler keeps no order between flows, nor between the lanes of one.
                let group = match order.filter(|_| self.roles.rx_tx() > 0) {
                    Some((of, lane)) => (of ^ FOR_STATION, Some(lane)),
                    None => (worker as u128, None),
                };
                for frame in frames {
                    if self.awaiting_neighbor.iter().filter(waits).count()
                        < NEIGHBOR_PENDING_PER_HOP_MAX
                    {
                        self.awaiting_neighbor.push(AwaitingNeighbor {
                            worker,
                            interface,
                            station,
                            frame,
                            group,
                        });
                    } else {
                        expected.drops[DropReason::NeighborQueueFull.index()] += 1;
                    }
                }
            }
        }
    }

    /// True while fragments wait for others.
    #[must_use]
    pub fn has_fragments(&self) -> bool {
        self.reassembling.iter().any(|since| self.now.since(*since) < Nanos::from_secs(2))
    }

    fn snapshots(&self) -> Vec<Snapshot> {
        let counters = self.publisher.worker_counters();
        counters.iter().map(|worker| Snapshot::sum([&**worker])).collect()
    }

    /// Drains the events. Workers may request only stations for which packets wait.
    fn check_events(&mut self) -> Result<(), String> {
        for ring in &mut self.events {
            while let Ok(event) = ring.pop() {
                if let WorkerEvent::UsageLimit { session, slot, generation } = event {
                    self.limits.push_back((session, slot, generation));
                }
                if let WorkerEvent::NeighborUnresolved { interface, addr } = event {
                    let key = (usize::from(interface.0), addr);
                    let is_held = self
                        .awaiting_neighbor
                        .iter()
                        .any(|held| (held.interface, held.station) == key);
                    if !is_held && !self.copied.contains(&key) {
                        return Err(format!("{addr} is wanted, but no packet waits for it"));
                    }
                }
            }
        }
        for (seid, slot, generation) in core::mem::take(&mut self.limits) {
            if self.has_buffered(seid) && self.must_step_before(seid) {
                self.limits.push_back((seid, slot, generation));
                continue;
            }
            let outcome = self.store.handle_usage_limit(self.now, seid, slot, generation);
            let Some(outcome) = outcome else { continue };
            self.take_reports(seid, &outcome.reports);
            if let Some(delta) = outcome.delta {
                self.mark_changed(seid, false);
                self.publish(delta);
            }
        }
        Ok(())
    }

    /// Ends the workers. Every packet must have one outcome.
    pub fn drain(&mut self) {
        for (worker, io) in self.threads.iter_mut().zip(&mut self.ios) {
            worker.drain(io);
        }
        let sum = self.publisher.snapshot();
        assert!(sum.identity_holds() && sum.buffered_pkts == 0, "{sum:?}");
    }
}

fn describe(outcome: &OracleOutcome) -> String {
    match outcome {
        OracleOutcome::Forward { port, frames, .. } => {
            format!("forward on {port}: {}", hex(&frames.concat()))
        }
        OracleOutcome::AwaitNeighbor { station, frames, .. } => {
            format!("hold for {station}: {}", hex(&frames.concat()))
        }
        other => format!("{other:?}"),
    }
}

/// Octets as hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|octet| format!("{octet:02x}")).collect()
}
