//! The software hand-off: packets that another thread than their session's owner received.
//!
//! A ring of fixed length leads from each thread to each worker, and from each receiver to the
//! signaling worker ([`Roles`]). A packet is handed off unchanged, before anything of its session
//! is read, and its owner processes it from the beginning: one worker processes each packet, by the
//! rules that this worker sees. Packets of one session that one thread received keep their order.
//!
//! Packets that find the ring full are dropped as `handoff_full` or `signaling_full`: no thread
//! waits for another.
//!
//! The owners of sessions may change while packets pass ([`crate::owner_map`]). A worker parks
//! packets of sessions that are about to be its own, and processes them when they are; a full
//! parking place drops as `handoff_full`.
//!
//! With an event scheduler no session has an owner; its flow is with one worker at a time
//! ([`crate::flows`]). Packets of other flows go back to the scheduler, and the rings lead to
//! workers that hold flows.

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
    /// The place of the flow that its taker holds, and its number there; unused without an event
    /// scheduler.
    pub place: u32,
    pub number: u32,
}

/// Flows of one of several workers of an event scheduler.
struct EventFlows<B> {
    flows: Flows,
    /// Packets, and requests for a flow, that go to the scheduler at the end of the step.
    returned: VecDeque<ReturnedEvent<B>>,
    /// The places of the packets that were taken from rings last.
    taken: BurstColumn<u32>,
    /// When flows were requested last.
    requested_at: Nanos,
}

/// Flows are requested at most once in this time: a request takes about as long.
const REQUEST_INTERVAL: Nanos = Nanos::from_micros(100);

/// A packet for a flow that this worker does not have, with the port that received it; without a
/// packet, a request for the flow.
pub(crate) type ReturnedEvent<B> = (u32, Option<(PortId, B)>);

/// Packets that a worker parks.
const PARKED_MAX: usize = HANDOFF_RING_LEN;

/// Most events that return to the scheduler in one step.
const RETURNED_MAX: usize = 1024;

/// The ring to one other thread. Staged packets are written in bulk, once per burst.
struct HandoffRing<B> {
    ring: Producer<HandedPacket<B>>,
    staged: BurstColumn<HandedPacket<B>>,
    /// The drop reason of packets without room.
    full: DropReason,
    /// The other thread is on another node.
    crosses_nodes: bool,
}

/// One thread's ends of the rings between the threads of a packet path.
pub struct Handoff<B> {
    id: WorkerId,
    /// How many workers share the sessions.
    workers: usize,
    owners: KnownOwners<B>,
    sweeps: Sweeps,
    /// Packets of sessions that are about to be this worker's.
    parked: VecDeque<HandedPacket<B>>,
    /// By thread; `None` for this one and for those that it hands nothing to.
    rings: Vec<Option<HandoffRing<B>>>,
    from: Vec<Consumer<HandedPacket<B>>>,
    /// Threads that packets were handed to since [`Handoff::take_notified`].
    notified: WorkerSet,
    /// Most packets that waited in one ring since [`Handoff::take_fullest`].
    fullest: usize,
    /// Packets that a ring has room for.
    ring_len: usize,
    /// With an event scheduler.
    events: Option<Box<EventFlows<B>>>,
}

/// A set of threads of the packet path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkerSet(u64);

impl WorkerSet {
    /// No thread.
    pub const NONE: Self = Self(0);

    fn insert(&mut self, worker: usize) {
        self.0 |= 1 << (worker % adit_types::limits::WORKERS_MAX);
    }

    /// True without threads.
    #[inline]
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The threads' numbers.
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

/// Connects the threads of `roles` by rings for `ring_len` packets; the ends in the order of
/// threads.
#[must_use]
pub fn connect<B>(roles: Roles, ring_len: usize) -> Vec<Handoff<B>> {
    let owners = KnownOwners::of_threads(roles.workers()).take(roles.threads());
    let known = owners.zip(Sweeps::of_threads(roles.transmitters()));
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

    /// The ends of the only worker.
    pub(crate) fn alone() -> Self {
        let mut known = KnownOwners::of_threads(1).zip(Sweeps::of_threads(1));
        let Some((owners, sweeps)) = known.next() else {
            unreachable!("there is always a next thread")
        };
        Self::new(0, 1, owners, sweeps, 0)
    }

    /// The control thread's side of the owners of sessions, which all threads of these ends share.
    #[must_use]
    pub fn owner_changes(&self) -> OwnerChanges<B> {
        self.owners.changes(self.workers)
    }

    /// The state of the owners of sessions in this thread.
    pub(crate) fn owners(&mut self) -> &mut KnownOwners<B> {
        &mut self.owners
    }

    /// True if there is something to do about the owners of sessions.
    #[inline]
    pub(crate) fn has_owner_news(&self) -> bool {
        self.owners.has_news()
    }

    /// Looks at the owners again if they changed: for threads that own nothing.
    #[inline]
    pub(crate) fn read_owners(&mut self) {
        if self.owners.has_news() {
            self.owners.read();
        }
    }

    /// This thread's side of the sweeps.
    pub(crate) fn sweeps(&mut self) -> &mut Sweeps {
        &mut self.sweeps
    }

    /// True if this worker has to make a sweep.
    #[inline]
    pub(crate) fn is_sweep_due(&self) -> bool {
        self.sweeps.is_due()
    }

    /// Requests a sweep from all workers, also those that sleep. Returns its number; `None` if
    /// packets of a session cannot be with another worker: there is none, or a scheduler keeps
    /// their order.
    #[cold]
    pub(crate) fn ask_for_sweep(&mut self) -> Option<u32> {
        if self.is_alone() || self.events.is_some() {
            return None;
        }
        for thread in self.sweeps.sweeping().filter(|thread| *thread != usize::from(self.id.0)) {
            self.notified.insert(thread);
        }
        Some(self.sweeps.ask())
    }

    /// Counts packets to threads on other NUMA nodes. `nodes`: those of the threads, as far as they
    /// are known.
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

    /// The ends of one of several workers that an event scheduler gives the flows of `shared` to.
    /// Reserves all memory that will be used.
    #[must_use]
    pub fn with_flows(mut self, shared: SharedFlows) -> Self {
        let flows = Flows::new(shared, self.id);
        let returned = VecDeque::with_capacity(RETURNED_MAX);
        let (taken, requested_at) = (BurstColumn::new(), Nanos(0));
        self.events = Some(Box::new(EventFlows { flows, returned, taken, requested_at }));
        self
    }

    /// The flows, with an event scheduler and other workers.
    #[inline]
    pub(crate) fn flows(&mut self) -> Option<&mut Flows> {
        self.events.as_mut().map(|events| &mut events.flows)
    }

    /// True if flows may be requested again; the caller requests them.
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

    /// Requests the flow of `session` from the scheduler, unless too many events return to it
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

    /// The next event for the scheduler.
    #[inline]
    pub(crate) fn take_returned(&mut self) -> Option<ReturnedEvent<B>> {
        self.events.as_mut()?.returned.pop_front()
    }

    /// The thread whose ends these are.
    #[must_use]
    pub const fn worker(&self) -> WorkerId {
        self.id
    }

    /// How many workers share the sessions.
    #[must_use]
    pub const fn workers(&self) -> usize {
        self.workers
    }

    /// The worker for packets without a session, by a hash that they share.
    pub(crate) fn of_hash(&self, hash: u64) -> WorkerId {
        let worker = hash % self.workers.max(1) as u64;
        WorkerId(u8::try_from(worker).unwrap_or_default())
    }

    /// The worker that packets of `session` go to.
    #[inline]
    pub(crate) fn owner_of(&self, session: SessionIndex) -> WorkerId {
        self.owners.target(session)
    }

    /// True without rings.
    #[inline]
    pub(crate) fn is_alone(&self) -> bool {
        self.from.is_empty()
    }

    /// The largest share of a ring that waited since the last call. Unit: thousandths.
    pub(crate) fn take_fullest(&mut self) -> u16 {
        let permille = core::mem::take(&mut self.fullest) * 1000 / self.ring_len.max(1);
        u16::try_from(permille).unwrap_or(1000)
    }

    /// The position of the queue that the packets of the last [`Handoff::take`] are in.
    pub(crate) fn taken_position(&self) -> usize {
        let events = self.events.as_ref();
        let place = events.and_then(|events| Some((events, *events.taken.first()?)));
        place.map_or(0, |(events, place)| events.flows.shared().of_place(place).0)
    }

    /// True if this worker processes packets of `session`. True for no session.
    #[inline]
    pub(crate) fn owns(&self, session: SessionIndex) -> bool {
        match &self.events {
            None => !session.is_some() || self.owners.owns(session),
            Some(events) => !session.is_some() || events.flows.has(session),
        }
    }

    /// True if this worker takes care that the commands for `session` are carried out.
    pub(crate) fn is_in_charge_of(&self, session: SessionIndex) -> bool {
        self.owners.owns(session)
    }

    /// Records that the packets of the last [`Handoff::take`] are processed.
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
    /// Hands off a packet that was received on `port` to the owner of `session`, another worker.
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

    /// Keeps a packet of a session that is about to be this worker's. It counts as handed off until
    /// [`Handoff::take_parked`].
    #[cold]
    fn park(&mut self, port: PortId, buf: B, tally: &mut StepTally) {
        if self.parked.len() < PARKED_MAX {
            self.parked.push_back(HandedPacket { buf, port, place: 0, number: 0 });
            tally.hand_off(1);
        } else {
            tally.drop_waiting(DropReason::HandoffFull, buf.data());
        }
    }

    /// Packets that are parked.
    pub(crate) fn parked(&self) -> usize {
        self.parked.len()
    }

    /// Appends at most `count` parked packets to `burst`: at most a burst, all received on one
    /// port. Returns that port.
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

    /// Packets that wait in the ring of one source.
    pub(crate) fn waiting_from(&self, source: usize) -> usize {
        self.from.get(source).map_or(0, Consumer::slots)
    }

    /// Hands a packet to the worker that holds the place of its flow. Numbers it.
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
        // Only a packet with room has a number: the holder waits for each.
        let number = events.flows.number_packet(packet.place);
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
            // Owners are below the number of workers, and the caller checked for this one.
            tally.drop(DropReason::HandoffFull);
            return;
        };
        if towards.staged.is_full() {
            towards.flush(self.events.as_deref(), tally);
        }
        towards.staged.push(packet);
        self.notified.insert(owner);
    }

    /// Writes staged packets into the rings. Call it before the step ends.
    ///
    /// Cost:   one release store per thread with packets.
    /// Errors: none; packets without room become `DropReason::HandoffFull` or `SignalingFull`.
    #[inline]
    pub(crate) fn flush(&mut self, tally: &mut StepTally) {
        for towards in self.rings.iter_mut().flatten() {
            if !towards.staged.is_empty() {
                towards.flush(self.events.as_deref(), tally);
            }
        }
    }

    /// The threads that packets were handed to since the last call: those that sleep must be woken.
    #[inline]
    pub(crate) fn take_notified(&mut self) -> WorkerSet {
        core::mem::take(&mut self.notified)
    }

    /// Number of threads that packets can come from.
    pub(crate) fn sources(&self) -> usize {
        self.from.len()
    }

    /// Appends packets of one source to `burst`: at most a burst, all received on one port. Returns
    /// that port. With an event scheduler, a packet waits for earlier ones of its flow from other
    /// sources.
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
                        && flows.take_number(packet.place, packet.number)
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
        // PERF (adit-bench models): another core has written them.
        burst[first..].iter().for_each(PacketBuf::prefetch);
        Some(port)
    }
}

/// Both ends of one ring without threads: what a hand-over costs alone (`adit-bench models`).
pub struct RingPair<B> {
    ends: [Handoff<B>; 2],
    tally: StepTally,
}

impl<B: PacketBuf> RingPair<B> {
    /// A ring for `ring_len` packets.
    #[must_use]
    pub fn new(ring_len: usize) -> Option<Self> {
        let ends = connect(Roles::run_to_completion(2), ring_len).try_into().ok()?;
        Some(Self { ends, tally: StepTally::new() })
    }

    /// Hands the packets of `burst` over, and takes them from the ring into it.
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
            // There was as much room before, and room only grows.
            Err(_) => 0,
        };
        tally.hand_off(sent);
        // Once per thread and burst with packets for it; the usual packet of an owner is not handed
        // off.
        if self.crosses_nodes {
            tally.hand_across_nodes(sent);
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
    // Empty for packets in tunnels.
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
