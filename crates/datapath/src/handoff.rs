//! The software hand-off of packets that a thread received whose sessions another thread owns.
//!
//! A ring of fixed length leads from each thread to each worker, and from each receiver to the
//! signaling worker ([`Roles`]). A packet is handed off unchanged, before any data of its session
//! is read, and its owner processes it from the beginning: one worker processes each packet, by the
//! rules that this worker sees. Packets of one session that one thread received keep their order.
//!
//! Packets for a full ring are dropped as `handoff_full` or `signaling_full`: no thread waits for
//! another one.
//!
//! The owners of sessions may change while packets pass ([`crate::owner_map`]). A worker parks
//! packets of sessions that it is about to own, and processes them once it owns them. Packets
//! beyond the limit of parked ones are dropped as `handoff_full`.
//!
//! With an event scheduler no session has an owner; one worker at a time has the session's flow
//! ([`crate::flows`]). Packets of flows that a worker does not have go back to the scheduler, and
//! the rings lead to workers that hold flows.

use std::collections::VecDeque;

use adit_pktio::{Burst, PacketBuf};
use adit_rules::DropReason;
use adit_types::limits::{BURST_MAX, HANDOFF_RING_LEN};
use adit_types::{Nanos, PortId, Role, Roles, SessionIndex, WorkerId};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::columns::{BurstColumn, BurstLane, LaneKind};
use crate::flows::{Flows, SharedFlows};
use crate::owner_map::{KnownOwners, OwnerChanges};
use crate::sweeps::Sweeps;
use crate::tally::StepTally;

/// A packet, and the port that received it.
#[derive(Debug)]
pub(crate) struct HandedPacket<B> {
    pub buf: B,
    pub port: PortId,
    /// The place of the flow that the receiving worker holds, and the packet's sequence number
    /// there; both unused without an event scheduler.
    pub place: u32,
    pub number: u32,
}

/// A worker's flows if an event scheduler serves several workers.
struct EventFlows<B> {
    flows: Flows,
    /// Packets, and requests for flows, that are sent to the scheduler at the end of the step.
    returned: VecDeque<ReturnedEvent<B>>,
    /// The places of the packets that were last taken from rings.
    taken: BurstColumn<u32>,
    /// When flows were requested last.
    requested_at: Nanos,
}

/// Flows are requested at most once in this time, because a request takes about as long.
const REQUEST_INTERVAL: Nanos = Nanos::from_micros(100);

/// A flow that this worker does not have, with a packet of it and the port that received the
/// packet; without a packet, a request for the flow.
pub(crate) type ReturnedEvent<B> = (u32, Option<(PortId, B)>);

/// Maximum of packets that a worker parks.
const PARKED_MAX: usize = HANDOFF_RING_LEN;

/// Maximum of events that wait to return to the scheduler.
const RETURNED_MAX: usize = 1024;

/// The ring to another thread. Staged packets are written in bulk, once per burst.
struct HandoffRing<B> {
    ring: Producer<HandedPacket<B>>,
    staged: BurstColumn<HandedPacket<B>>,
    /// The drop reason of packets for which the ring has no room.
    full: DropReason,
    /// True if the other thread is on another NUMA node.
    crosses_nodes: bool,
}

/// One thread's ends of the rings between the threads of a packet path.
pub struct Handoff<B> {
    id: WorkerId,
    /// How many workers share the sessions.
    workers: usize,
    owners: KnownOwners<B>,
    sweeps: Sweeps,
    /// Packets of sessions that this worker is about to own.
    parked: VecDeque<HandedPacket<B>>,
    /// By thread; `None` for this thread and for those that it hands no packets to.
    rings: Vec<Option<HandoffRing<B>>>,
    from: Vec<Consumer<HandedPacket<B>>>,
    /// The threads that packets were handed to since [`Handoff::take_notified`].
    notified: WorkerSet,
    /// The most packets that were seen in one ring since [`Handoff::take_fullest`].
    fullest: usize,
    /// How many packets a ring has room for.
    ring_len: usize,
    /// `None` without an event scheduler.
    events: Option<Box<EventFlows<B>>>,
}

/// A set of threads of the packet path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkerSet(u64);

impl WorkerSet {
    /// The empty set.
    pub const NONE: Self = Self(0);

    fn insert(&mut self, worker: usize) {
        self.0 |= 1 << (worker % adit_types::limits::WORKERS_MAX);
    }

    /// True if the set is empty.
    #[inline]
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the ids of the threads.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..adit_types::limits::WORKERS_MAX).filter(move |worker| self.0 >> worker & 1 != 0)
    }
}

const _: () = assert!(adit_types::limits::WORKERS_MAX <= 64);

impl<B> core::fmt::Debug for Handoff<B> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { id, owners, .. } = self;
        f.debug_struct("Handoff").field("id", id).field("owners", owners).finish_non_exhaustive()
    }
}

/// Connects the threads of `roles` by rings for `ring_len` packets. Returns each thread's ends, in
/// the order of threads.
#[must_use]
pub fn connect<B>(roles: Roles, ring_len: usize) -> Vec<Handoff<B>> {
    let owners = KnownOwners::of_threads(roles.workers()).take(roles.threads());
    let known = owners.zip(Sweeps::of_threads(roles.processing_thread_count()));
    let end = |(id, (owners, sweeps))| Handoff::new(id, roles.workers(), owners, sweeps, ring_len);
    let mut ends: Vec<_> = (0_u8..).zip(known).map(end).collect();
    if roles.rx_tx() == 0 && roles.workers() > 1 {
        for end in ends.iter_mut().take(roles.workers()) {
            end.parked.reserve_exact(PARKED_MAX);
        }
    }
    for from in 0..ends.len() {
        for to in 0..ends.len() {
            let towards = roles.connects(from, to).then(|| {
                let (ring, end) = RingBuffer::new(ring_len);
                ends[to].from.push(end);
                let full = match roles.of(to) {
                    Role::Signaling => DropReason::SignalingFull,
                    Role::Worker | Role::Receiver | Role::RxTx => DropReason::HandoffFull,
                };
                HandoffRing { ring, staged: BurstColumn::new(), full, crosses_nodes: false }
            });
            ends[from].rings.push(towards);
        }
    }
    ends
}

impl<B> Handoff<B> {
    fn new(
        id: u8,
        workers: usize,
        owners: KnownOwners<B>,
        sweeps: Sweeps,
        ring_len: usize,
    ) -> Self {
        Self {
            id: WorkerId(id),
            workers,
            owners,
            sweeps,
            parked: VecDeque::new(),
            rings: Vec::new(),
            from: Vec::new(),
            notified: WorkerSet::NONE,
            fullest: 0,
            ring_len,
            events: None,
        }
    }

    /// Creates the ends of a worker that is the only thread.
    pub(crate) fn for_only_worker() -> Self {
        let mut known = KnownOwners::of_threads(1).zip(Sweeps::of_threads(1));
        let Some((owners, sweeps)) = known.next() else {
            unreachable!("there is always a next thread")
        };
        Self::new(0, 1, owners, sweeps, 0)
    }

    /// Returns the control thread's side of the changes of owners, for all connected threads.
    #[must_use]
    pub fn owner_changes(&self) -> OwnerChanges<B> {
        self.owners.changes(self.workers)
    }

    /// Returns what this thread knows about the owners of sessions.
    pub(crate) fn owners(&mut self) -> &mut KnownOwners<B> {
        &mut self.owners
    }

    /// True if this thread has to act on a change of owners.
    #[inline]
    pub(crate) fn has_owner_change(&self) -> bool {
        self.owners.has_change()
    }

    /// Reads the owners again if they changed; for threads that own no sessions.
    #[inline]
    pub(crate) fn read_owners(&mut self) {
        if self.owners.has_change() {
            self.owners.read();
        }
    }

    /// Returns this thread's side of the sweeps.
    pub(crate) fn sweeps(&mut self) -> &mut Sweeps {
        &mut self.sweeps
    }

    /// True if this worker has to make a sweep.
    #[inline]
    pub(crate) fn is_sweep_due(&self) -> bool {
        self.sweeps.is_due()
    }

    /// Requests a sweep from all workers, also those that sleep. Returns the number of the sweep.
    /// `None` if no sweep is needed: there is no other worker, or a scheduler keeps packets in
    /// order.
    #[cold]
    pub(crate) fn request_sweep(&mut self) -> Option<u32> {
        if self.is_alone() || self.events.is_some() {
            return None;
        }
        for thread in
            self.sweeps.sweeping_threads().filter(|thread| *thread != usize::from(self.id.0))
        {
            self.notified.insert(thread);
        }
        Some(self.sweeps.request())
    }

    /// Enables the count of packets to threads on other NUMA nodes. `nodes`: the node of each
    /// thread, `None` if it is unknown.
    #[must_use]
    pub fn with_nodes(mut self, nodes: &[Option<u32>]) -> Self {
        let node_of = |thread: usize| nodes.get(thread).copied().flatten();
        let own = node_of(usize::from(self.id.0));
        for (to, towards) in self.rings.iter_mut().enumerate() {
            if let Some(towards) = towards {
                towards.crosses_nodes =
                    own.zip(node_of(to)).is_some_and(|(own, other)| own != other);
            }
        }
        self
    }

    /// Prepares these ends for one of several workers that an event scheduler gives the flows of
    /// `shared` to. Allocates all memory that will be used.
    #[must_use]
    pub fn with_flows(mut self, shared: SharedFlows) -> Self {
        let flows = Flows::new(shared, self.id);
        let returned = VecDeque::with_capacity(RETURNED_MAX);
        let (taken, requested_at) = (BurstColumn::new(), Nanos(0));
        self.events = Some(Box::new(EventFlows { flows, returned, taken, requested_at }));
        self
    }

    /// Returns the flows; `None` unless an event scheduler serves several workers.
    #[inline]
    pub(crate) fn flows(&mut self) -> Option<&mut Flows> {
        self.events.as_mut().map(|events| &mut events.flows)
    }

    /// Returns true at most once per [`REQUEST_INTERVAL`]; the caller then requests flows.
    #[cold]
    pub(crate) fn may_request_flows(&mut self, now: Nanos) -> bool {
        self.events.as_mut().is_some_and(|events| {
            let is_due = now.since(events.requested_at) >= REQUEST_INTERVAL;
            if is_due {
                events.requested_at = now;
            }
            is_due
        })
    }

    /// Requests the flow of `session` from the scheduler, unless too many events wait to return
    /// already.
    #[cold]
    pub(crate) fn request_flow(&mut self, session: SessionIndex) {
        if let Some(events) = &mut self.events
            && events.returned.len() < RETURNED_MAX
            && events.flows.request(events.flows.place_of(session))
        {
            events.returned.push_back((events.flows.of(session), None));
        }
    }

    /// Removes and returns the next event for the scheduler.
    #[inline]
    pub(crate) fn take_returned(&mut self) -> Option<ReturnedEvent<B>> {
        self.events.as_mut()?.returned.pop_front()
    }

    /// Returns the id of the thread that has these ends.
    #[must_use]
    pub const fn worker(&self) -> WorkerId {
        self.id
    }

    /// Returns how many workers share the sessions.
    #[must_use]
    pub const fn workers(&self) -> usize {
        self.workers
    }

    /// Returns the worker for packets without a session, from a hash that the packets share.
    pub(crate) fn of_hash(&self, hash: u64) -> WorkerId {
        let worker = hash % self.workers.max(1) as u64;
        WorkerId(u8::try_from(worker).unwrap_or_default())
    }

    /// Returns the worker that packets of `session` go to.
    #[inline]
    pub(crate) fn owner_of(&self, session: SessionIndex) -> WorkerId {
        self.owners.target(session)
    }

    /// True if no rings lead to this thread.
    #[inline]
    pub(crate) fn is_alone(&self) -> bool {
        self.from.is_empty()
    }

    /// Returns the largest share of a ring that was in use since the last call. Unit: thousandths.
    pub(crate) fn take_fullest(&mut self) -> u16 {
        let permille = core::mem::take(&mut self.fullest) * 1000 / self.ring_len.max(1);
        u16::try_from(permille).unwrap_or(1000)
    }

    /// Returns the position of the queue that the packets of the last [`Handoff::take`] are in.
    pub(crate) fn taken_queue_position(&self) -> usize {
        let events = self.events.as_ref();
        let place = events.and_then(|events| Some((events, *events.taken.first()?)));
        place.map_or(0, |(events, place)| events.flows.shared().position_and_flow(place).0)
    }

    /// True if this worker processes packets of `session`; also for `SessionIndex::NONE`.
    #[inline]
    pub(crate) fn owns(&self, session: SessionIndex) -> bool {
        match &self.events {
            None => !session.is_some() || self.owners.owns(session),
            Some(events) => !session.is_some() || events.flows.has(session),
        }
    }

    /// True if this worker ensures that the commands for `session` are carried out.
    pub(crate) fn is_in_charge_of(&self, session: SessionIndex) -> bool {
        self.owners.owns(session)
    }

    /// Notes that the packets of the last [`Handoff::take`] have been processed.
    #[inline]
    pub(crate) fn settle_taken(&mut self) {
        if let Some(events) = &mut self.events {
            for place in events.taken.drain(..) {
                events.flows.unfence(place);
                events.flows.settle_packet(place);
            }
        }
    }
}

impl<B: PacketBuf> Handoff<B> {
    /// Hands off a packet that was received on `port` to another worker, the owner of `session`.
    pub(crate) fn hand_off(
        &mut self,
        session: SessionIndex,
        port: PortId,
        buf: B,
        tally: &mut StepTally,
    ) {
        if let Some(events) = &mut self.events {
            if events.returned.len() < RETURNED_MAX {
                events.returned.push_back((events.flows.of(session), Some((port, buf))));
            } else {
                tally.drop_waiting(DropReason::HandoffFull, buf.data());
            }
            return;
        }
        match self.owners.target(session) {
            to if to == self.id => self.park(port, buf, tally),
            to => self.hand_to(to, port, buf, tally),
        }
    }

    /// Keeps a packet of a session that this worker is about to own. The packet counts as handed
    /// off until [`Handoff::take_parked`].
    #[cold]
    fn park(&mut self, port: PortId, buf: B, tally: &mut StepTally) {
        if self.parked.len() < PARKED_MAX {
            self.parked.push_back(HandedPacket { buf, port, place: 0, number: 0 });
            tally.hand_off(1);
        } else {
            tally.drop_waiting(DropReason::HandoffFull, buf.data());
        }
    }

    /// Returns how many packets are parked.
    pub(crate) fn parked(&self) -> usize {
        self.parked.len()
    }

    /// Appends at most `count` parked packets to `burst`, all received on one port. Returns that
    /// port; `None` if no packet is parked.
    #[cold]
    pub(crate) fn take_parked(&mut self, count: usize, burst: &mut Burst<B>) -> Option<PortId> {
        let port = self.parked.front()?.port;
        let room = count.min(BURST_MAX).min(burst.remaining_capacity());
        for _ in 0..room {
            let Some(packet) = self.parked.pop_front_if(|packet| packet.port == port) else {
                break;
            };
            burst.push(packet.buf);
        }
        (room > 0).then_some(port)
    }

    /// Returns how many packets are in the ring from `source`.
    pub(crate) fn waiting_from(&self, source: usize) -> usize {
        self.from.get(source).map_or(0, Consumer::slots)
    }

    /// Numbers a packet and hands it to the worker that holds the place of its flow.
    #[cold]
    pub(crate) fn hand_to_holder(
        &mut self,
        holder: WorkerId,
        packet: HandedPacket<B>,
        tally: &mut StepTally,
    ) {
        let room = match self.rings.get(usize::from(holder.0)) {
            Some(Some(towards)) => towards.ring.slots().saturating_sub(towards.staged.len()),
            _ => 0,
        };
        let Some(events) = &mut self.events else { return };
        if room == 0 {
            events.flows.settle_packet(packet.place);
            tally.drop_waiting(DropReason::HandoffFull, packet.buf.data());
            return;
        }
        // Numbered after the check for room: the holder waits for every sequence number.
        let number = events.flows.next_sequence_number(packet.place);
        self.stage(holder, HandedPacket { number, ..packet }, tally);
    }

    /// Hands off a packet that was received on `port` to another thread.
    pub(crate) fn hand_to(&mut self, owner: WorkerId, port: PortId, buf: B, tally: &mut StepTally) {
        self.stage(owner, HandedPacket { buf, port, place: 0, number: 0 }, tally);
    }

    #[inline(always)]
    // PERF (adit-bench handoff): once per packet that is handed over.
    fn stage(&mut self, owner: WorkerId, packet: HandedPacket<B>, tally: &mut StepTally) {
        let owner = usize::from(owner.0);
        let Some(Some(towards)) = self.rings.get_mut(owner) else {
            // Cannot happen: owners are below the number of workers, and not this worker.
            tally.drop(DropReason::HandoffFull);
            return;
        };
        if towards.staged.is_full() {
            towards.flush(self.events.as_deref(), tally);
        }
        towards.staged.push(packet);
        self.notified.insert(owner);
    }

    /// Writes staged packets into the rings. Must be called before the step ends. Packets without
    /// room are dropped as `DropReason::HandoffFull` or `SignalingFull`.
    ///
    /// Cost: one release store per thread with packets.
    #[inline]
    pub(crate) fn flush(&mut self, tally: &mut StepTally) {
        for towards in self.rings.iter_mut().flatten() {
            if !towards.staged.is_empty() {
                towards.flush(self.events.as_deref(), tally);
            }
        }
    }

    /// Returns the threads that packets were handed to since the last call; the caller wakes them.
    #[inline]
    pub(crate) fn take_notified(&mut self) -> WorkerSet {
        core::mem::take(&mut self.notified)
    }

    /// Returns the number of threads that packets can come from.
    pub(crate) fn source_count(&self) -> usize {
        self.from.len()
    }

    /// Appends packets of one source, all received on one port, to `burst`. Returns that port;
    /// `None` without packets. With an event scheduler, a packet waits for earlier packets of its
    /// flow from other sources.
    pub(crate) fn take(&mut self, source: usize, burst: &mut Burst<B>) -> Option<PortId> {
        let ring = self.from.get_mut(source)?;
        let waiting = ring.slots();
        self.fullest = self.fullest.max(waiting);
        let waiting = waiting.min(BURST_MAX).min(burst.remaining_capacity());
        let chunk = ring.read_chunk(waiting).ok()?;
        let (front, back) = chunk.as_slices();
        let HandedPacket { port, place: first_place, .. } = *front.first()?;
        let is_next = |packet: &&HandedPacket<B>| {
            let flows = self.events.as_ref().map(|events| &events.flows);
            packet.port == port
                && flows.is_none_or(|flows| {
                    flows.are_in_one_queue(packet.place, first_place)
                        && flows.take_in_sequence(packet.place, packet.number)
                })
        };
        let count = front.iter().chain(back).take_while(is_next).count();
        if count == 0 {
            return None;
        }
        let first = burst.len();
        let packets = ring.read_chunk(count).ok()?.into_iter();
        match &mut self.events {
            None => burst.extend(packets.map(|packet| packet.buf)),
            Some(events) => packets.for_each(|packet| {
                events.taken.push(packet.place);
                burst.push(packet.buf);
            }),
        }
        // PERF (adit-bench models): another core has written these packets.
        burst[first..].iter().for_each(PacketBuf::prefetch);
        Some(port)
    }
}

/// Both ends of one ring without threads, to measure a hand-over alone (`adit-bench models`).
pub struct RingPair<B> {
    ends: [Handoff<B>; 2],
    tally: StepTally,
}

impl<B: PacketBuf> RingPair<B> {
    /// Creates a ring for `ring_len` packets.
    #[must_use]
    pub fn new(ring_len: usize) -> Option<Self> {
        let ends = connect(Roles::run_to_completion(2), ring_len).try_into().ok()?;
        Some(Self { ends, tally: StepTally::new() })
    }

    /// Hands over the packets of `burst`, and takes them from the ring into `burst` again.
    pub fn pass(&mut self, burst: &mut Burst<B>) {
        let [from, to] = &mut self.ends;
        for buf in burst.drain(..) {
            from.hand_to(to.id, PortId(0), buf, &mut self.tally);
        }
        from.flush(&mut self.tally);
        to.take(0, burst);
    }
}

impl<B> core::fmt::Debug for RingPair<B> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("RingPair").field("ends", &self.ends).finish_non_exhaustive()
    }
}

impl<B: PacketBuf> HandoffRing<B> {
    fn flush(&mut self, events: Option<&EventFlows<B>>, tally: &mut StepTally) {
        let room = self.ring.slots().min(self.staged.len());
        let sent = match self.ring.write_chunk_uninit(room) {
            Ok(chunk) => chunk.fill_from_iter(self.staged.drain(..room)),
            // Cannot happen: this thread alone fills the ring, so the room that was seen remains.
            Err(_) => 0,
        };
        tally.hand_off(sent);
        // Tested once per thread and burst with packets for it: the packets that their owner
        // receives do not come here.
        if self.crosses_nodes {
            tally.count_across_nodes(sent);
        }
        for packet in self.staged.drain(..) {
            tally.drop_waiting(self.full, packet.buf.data());
            events.inspect(|events| events.flows.settle_packet(packet.place));
        }
    }
}

/// Hands off the packets of a lane whose sessions other workers own.
///
/// Shape:   reads `sessions[0..n]`; shortens all columns. n ≤ BURST_MAX.
pub(crate) fn hand_off_lane<B: PacketBuf, S: LaneKind>(
    handoff: &mut Handoff<B>,
    port: PortId,
    lane: &mut BurstLane<'_, B, S>,
    tally: &mut StepTally,
) {
    if handoff.is_alone() || lane.sessions.iter().all(|session| handoff.owns(*session)) {
        return;
    }
    let mut all = core::mem::replace(lane, BurstLane::new());
    // `ips` is still empty for packets in tunnels.
    let mut ips = all.ips.iter();
    let packets = all.bufs.drain(..).zip(&all.arrivals).zip(&all.keys);
    for (((buf, arrival), key), session) in packets.zip(&all.sessions) {
        let ip = ips.next();
        if handoff.owns(*session) {
            lane.push(buf, *arrival, *key);
            lane.ips.extend(ip.copied());
            lane.sessions.push(*session);
        } else {
            handoff.hand_off(*session, port, buf, tally);
        }
    }
}

#[cfg(test)]
mod tests {
    use adit_pktio::mem::MemBuf;

    use super::*;

    #[test]
    fn threads_that_got_packets_are_named_once() {
        let mut ends = connect::<MemBuf>(Roles::run_to_completion(3), 4);
        let mut tally = StepTally::new();
        let port = PortId(0);
        assert!(ends[0].take_notified().is_empty());
        ends[0].hand_to(WorkerId(2), port, MemBuf::from_packet(&[0; 64]), &mut tally);
        ends[0].flush(&mut tally);
        assert_eq!(ends[0].take_notified().iter().collect::<Vec<_>>(), [2]);
        assert!(ends[0].take_notified().is_empty());
    }

    #[test]
    fn hashes_are_spread_over_all_workers() {
        let ends = connect::<MemBuf>(Roles::run_to_completion(3), 4);
        let owners: Vec<u8> = (0..6).map(|hash| ends[1].of_hash(hash).0).collect();
        assert_eq!(owners, [0, 1, 2, 0, 1, 2]);
        assert_eq!(ends[1].of_hash(u64::MAX).0, 0, "divisible by three");
    }
}
