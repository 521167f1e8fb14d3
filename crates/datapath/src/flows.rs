//! Flows of an event scheduler, and the workers that hold them.
//!
//! A session belongs to one flow. The scheduler gives the events of a flow to one worker at a time,
//! so the counters of a session have one writer although flows move between workers. Packets that
//! wait do not move: a worker that keeps some *holds* their flows. A worker that gets a packet of a
//! flow that another worker holds hands the packet to the holder on a ring, and counts it in the
//! flow's holder word. The holder gives the flow up when it keeps no packets of the flow and none
//! is on its way.
//!
//! A central scheduler takes events from one worker after the other. So frames that the holder sent
//! before it gives a flow up may enter their queue after those of the next worker. Therefore the
//! holder first sends a *fence*, an event of the flow without a packet, and counts it as on its
//! way: once the scheduler has returned the fence, the frames before it have left.
//!
//! So a worker that processes a packet has the packet's flow: either the scheduler gave the flow to
//! it, or it holds the flow. The next worker sees all writes that a worker made before it gave the
//! flow up.
//!
//! With several queues of stages, all of this holds for each queue: a flow has a *place* in each of
//! them. A scheduler keeps the order of a flow within a queue for each port that enqueues, but not
//! between two ports: `event_dsw` lets a port keep events while their flow moves, and the flow of
//! the previous queue may meanwhile have moved to another port, whose events go first. So a worker
//! that takes over a place from another worker first waits until the next queue has given out all
//! packets that the other worker sent: until then it holds the place and *defers* its packets.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;

use adit_types::limits::BURST_MAX;
use adit_types::{Nanos, OWNER_GROUP_SHIFT, SessionIndex, WorkerId};
use arrayvec::ArrayVec;

use crate::event_queues::{ENFORCE, EventQueues};

/// Maximum of flows that a scheduler has.
pub(crate) const FLOWS_MAX: usize = 1 << 14;

/// The bits of a holder word that count packets on their way to the holder.
const COUNT_MASK: u32 = (1 << HOLDER_SHIFT) - 1;
const HOLDER_SHIFT: u32 = 24;

/// State bit of a place in a worker: the scheduler gave it in this step.
const IS_SCHEDULED: u8 = 1;
/// State bit: the worker holds the place.
const IS_HELD: u8 = 2;
/// State bit: a fence follows the last frame of the flow that the holder sent.
const IS_FENCED: u8 = 4;
/// State bit: the worker holds the place, and its packets wait until the next queue has given out
/// those of the previous worker.
const IS_DEFERRED: u8 = 8;

/// State of one flow in one queue that workers share, on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct SharedFlow {
    /// The holder word: the id of the worker that holds the flow plus one (zero: none), above the
    /// count of packets on their way to it. Only a worker that has the flow makes itself the
    /// holder.
    holder: AtomicU32,
    /// Sequence number of the next packet that is handed to a holder. Written by the worker that
    /// the scheduler gave the flow to. Wraps.
    handed: AtomicU32,
    /// Sequence number of the packet that the holder takes next. Written by the holder.
    next: AtomicU32,
    /// True while a request for the flow is in the scheduler: a second one would only fill it.
    is_requested: AtomicBool,
    /// The id, plus one, of the worker that last processed packets here. Like `sent`, written by
    /// the worker that has the flow.
    last: AtomicU32,
    /// How many packets were sent from here to the next queue. Wraps.
    sent: AtomicU32,
    /// How many packets from the previous queue the scheduler gave out here. Written by the workers
    /// that got them. Wraps.
    given_out: AtomicU32,
}

/// The time at which a worker requests an event of its timer queue. The worker writes it, and an
/// Rx/Tx thread reads it.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct SharedTimer {
    /// Unit: nanoseconds; [`SharedTimer::NEVER`] without one.
    due: AtomicU64,
}

impl Default for SharedTimer {
    fn default() -> Self {
        Self { due: AtomicU64::new(Self::NEVER) }
    }
}

impl SharedTimer {
    const NEVER: u64 = u64::MAX;

    /// Sets the time, which must differ from all earlier ones.
    pub(crate) fn set(&self, due: Option<Nanos>) {
        self.due.store(due.map_or(Self::NEVER, |due| due.0), Ordering::Relaxed);
    }

    /// Returns the time if it has come.
    #[inline]
    pub(crate) fn due(&self, now: Nanos) -> Option<Nanos> {
        let due = self.due.load(Ordering::Relaxed);
        (due <= now.0).then_some(Nanos(due))
    }
}

/// Maps sessions to flows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FlowMap {
    mask: u32,
}

impl FlowMap {
    /// Returns the flow of a session. Sessions that share cache lines share a flow.
    #[inline]
    pub(crate) fn of(self, session: SessionIndex) -> u32 {
        self.of_hash((session.0 >> OWNER_GROUP_SHIFT).into())
    }

    /// Returns the flow of packets without a session, from a hash that the packets share.
    #[inline]
    pub(crate) fn of_hash(self, hash: u64) -> u32 {
        #[allow(clippy::cast_possible_truncation, reason = "flows are far fewer")]
        let hash = hash as u32;
        hash & self.mask
    }
}

/// The flows that the workers of one packet path share.
#[derive(Debug, Clone)]
pub struct SharedFlows {
    /// Indexed by `queue position × flows + flow`.
    places: Arc<[SharedFlow]>,
    queues: EventQueues,
    map: FlowMap,
    /// By session: the highest number of a command that was carried out, plus one. Written by the
    /// worker that has the session's flow.
    commands_done: Arc<[AtomicU64]>,
    /// By worker; empty without timer queues.
    timers: Arc<[SharedTimer]>,
}

impl SharedFlows {
    /// Creates `flows` flows, rounded up to a power of two, at most 16384, for `sessions_max`
    /// sessions in `queues`.
    #[must_use]
    pub fn new(flows: usize, queues: &EventQueues, sessions_max: usize) -> Self {
        let flows = flows.next_power_of_two().min(FLOWS_MAX);
        // A mask, as `flows` is a power of two.
        let map = FlowMap { mask: u32::try_from(flows - 1).unwrap_or_default() };
        let places = flows * queues.of_packets().count();
        Self {
            places: (0..places).map(|_| SharedFlow::default()).collect(),
            queues: queues.clone(),
            map,
            commands_done: (0..sessions_max).map(|_| AtomicU64::new(0)).collect(),
            timers: (0..queues.timers()).map(|_| SharedTimer::default()).collect(),
        }
    }

    /// Returns the number of flows.
    #[must_use]
    pub fn count(&self) -> usize {
        self.map.mask as usize + 1
    }

    /// Returns the flow of a session. Sessions that share cache lines share a flow.
    #[inline]
    #[must_use]
    pub fn of(&self, session: SessionIndex) -> u32 {
        self.map.of(session)
    }

    /// Returns the queues that the flows pass.
    #[must_use]
    pub const fn queues(&self) -> &EventQueues {
        &self.queues
    }

    /// Returns the timers by worker id; none without timer queues.
    pub(crate) fn timers(&self) -> &[SharedTimer] {
        &self.timers
    }

    /// Returns the map of sessions to flows.
    #[inline]
    pub(crate) const fn map(&self) -> FlowMap {
        self.map
    }

    /// Returns the place of a flow in the queue at `position`.
    #[inline]
    pub(crate) const fn place(&self, position: usize, flow: u32) -> u32 {
        #[allow(clippy::cast_possible_truncation, reason = "packets pass at most five queues")]
        let position = position as u32;
        // Cannot overflow: at most 5 queues (`PACKET_QUEUES_MAX`) of 2^14 flows (`FLOWS_MAX`).
        position * (self.map.mask + 1) + flow
    }

    /// Returns the position of the queue of a place, and the flow.
    #[inline]
    pub(crate) const fn position_and_flow(&self, place: u32) -> (usize, u32) {
        ((place / (self.map.mask + 1)) as usize, place & self.map.mask)
    }

    /// True if the queue of `place` is the last one: frames leave from there.
    fn is_in_last_queue(&self, place: u32) -> bool {
        place as usize + self.count() >= self.places.len()
    }

    fn get(&self, place: u32) -> Option<&SharedFlow> {
        self.places.get(place as usize)
    }

    /// Counts a packet that goes from a place to the next queue. The calling worker has the place.
    #[inline]
    pub(crate) fn count_sent(&self, place: u32) {
        if let Some(SharedFlow { sent, .. }) = self.get(place) {
            sent.store(sent.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        }
    }

    /// Counts a packet that the scheduler dequeued from the previous queue for `place`.
    /// `is_atomic`: the queue serves one worker at a time, so one writer counts.
    #[inline]
    pub(crate) fn count_given_out(&self, place: u32, is_atomic: bool) {
        let Some(SharedFlow { given_out, .. }) = self.get(place) else { return };
        if is_atomic {
            given_out.store(given_out.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
        } else {
            given_out.fetch_add(1, Ordering::Release);
        }
    }

    /// Counts `pkts` packets that had the flow `rx_flow` in the Rx queue. Their flows may differ
    /// now, so several workers may count here at once.
    pub(crate) fn count_received(&self, rx_flow: u32, pkts: u32) {
        if let Some(SharedFlow { given_out, .. }) = self.get(self.place(1, rx_flow)) {
            given_out.fetch_add(pkts, Ordering::Release);
        }
    }

    /// True if the next queue has given out all packets that were sent from `place`, or if there is
    /// no next queue. The calling worker has the place.
    #[inline]
    fn is_next_queue_empty(&self, place: u32) -> bool {
        let (here, next) = (self.get(place), self.get(place + self.map.mask + 1));
        here.zip(next).is_none_or(|(here, next)| {
            next.given_out.load(Ordering::Acquire) == here.sent.load(Ordering::Relaxed)
        })
    }
}

/// The state of one worker's flows, by place.
#[derive(Debug)]
pub(crate) struct Flows {
    shared: SharedFlows,
    id: u32,
    /// The first place of the queue in front of the second stage.
    enforcing: u32,
    /// State bits of each place in this worker, such as [`IS_SCHEDULED`].
    has: Vec<u8>,
    /// Places that the scheduler gave in this step.
    scheduled: ArrayVec<u32, BURST_MAX>,
    /// Places that this worker holds.
    held: Vec<u32>,
    /// Places that this worker holds and whose packets it defers.
    deferred: Vec<u32>,
}

/// Who processes a packet of a flow that the scheduler gave to this worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlowHolder {
    /// This worker.
    This,
    /// Another worker, which holds the flow and counts on the packet to arrive.
    Other(WorkerId),
}

impl Flows {
    /// Creates the state of worker `id`, which holds no flow yet.
    pub(crate) fn new(shared: SharedFlows, id: WorkerId) -> Self {
        let count = shared.places.len();
        let enforcing = shared.place(shared.queues().queue_of_stage(ENFORCE).position(), 0);
        Self {
            shared,
            id: u32::from(id.0) + 1,
            enforcing,
            has: vec![0; count],
            scheduled: ArrayVec::new(),
            held: Vec::with_capacity(count),
            deferred: Vec::with_capacity(count),
        }
    }

    /// Returns the number of places.
    pub(crate) fn count(&self) -> usize {
        self.has.len()
    }

    /// Returns the state that all workers share.
    #[inline]
    pub(crate) const fn shared(&self) -> &SharedFlows {
        &self.shared
    }

    /// Returns the flow of a session.
    #[inline]
    pub(crate) fn of(&self, session: SessionIndex) -> u32 {
        self.shared.of(session)
    }

    /// Returns the place of a session in the queue of the second stage, which owns session state.
    #[inline]
    pub(crate) fn place_of(&self, session: SessionIndex) -> u32 {
        self.enforcing + self.of(session)
    }

    /// Returns the place of a flow in the queue of the second stage, which owns session state.
    #[inline]
    pub(crate) const fn enforcing(&self, flow: u32) -> u32 {
        self.enforcing + flow
    }

    /// True if two places are in the same queue.
    #[inline]
    pub(crate) const fn are_in_one_queue(&self, place: u32, other: u32) -> bool {
        self.shared.position_and_flow(place).0 == self.shared.position_and_flow(other).0
    }

    /// True if this worker has the flow of `session` and may process its packets.
    #[inline]
    pub(crate) fn has(&self, session: SessionIndex) -> bool {
        let has = self.has.get(self.place_of(session) as usize);
        has.is_some_and(|has| *has != 0 && *has & IS_DEFERRED == 0)
    }

    /// True if packets at `place` must be deferred. The calling worker has the place.
    #[inline]
    pub(crate) fn must_defer(&self, place: u32) -> bool {
        !self.deferred.is_empty()
            && self.has.get(place as usize).is_some_and(|has| *has & IS_DEFERRED != 0)
    }

    /// True while this worker defers the packets of at least one place.
    #[inline]
    pub(crate) const fn defers_any(&self) -> bool {
        !self.deferred.is_empty()
    }

    /// Ends the deferring of places whose next queue has given out all packets. Returns whether
    /// there were any.
    #[cold]
    pub(crate) fn end_deferring(&mut self) -> bool {
        let Self { shared, id, has, deferred, .. } = self;
        let before = deferred.len();
        deferred.retain(|place| {
            let waits = !shared.is_next_queue_empty(*place);
            if !waits
                && let (Some(here), Some(has)) = (shared.get(*place), has.get_mut(*place as usize))
            {
                here.last.store(*id, Ordering::Relaxed);
                *has &= !IS_DEFERRED;
            }
            waits
        });
        deferred.len() < before
    }

    /// Takes over a place that another worker may have had last: defers its packets if the next
    /// queue has not given out all of that worker's packets yet.
    #[inline]
    fn take_over(&mut self, place: u32) {
        let Some(here) = self.shared.get(place) else { return };
        if here.last.load(Ordering::Relaxed) == self.id {
            return;
        }
        if self.shared.is_next_queue_empty(place) {
            here.last.store(self.id, Ordering::Relaxed);
            return;
        }
        self.hold(place);
        if let Some(has) = self.has.get_mut(place as usize)
            && *has & IS_DEFERRED == 0
        {
            *has |= IS_DEFERRED;
            self.deferred.push(place);
        }
    }

    /// Holds a place that this worker has.
    #[cold]
    fn hold(&mut self, place: u32) {
        let Some(has) = self.has.get_mut(place as usize) else { return };
        if *has & IS_HELD == 0
            && let Some(shared) = self.shared.get(place)
        {
            *has |= IS_HELD;
            self.held.push(place);
            // No other worker holds the place, and only a worker that has the flow may hold it.
            shared.holder.store(self.id << HOLDER_SHIFT, Ordering::Release);
        }
    }

    /// Notes that the scheduler gave `place` to this worker. If another worker holds the place, it
    /// counts one more packet on its way to that worker, which the caller has to hand over. At most
    /// `BURST_MAX` places per step. `is_packet`: the event has a packet, so that frames may follow.
    #[inline]
    pub(crate) fn schedule(&mut self, place: u32, is_packet: bool) -> FlowHolder {
        let Some(has) = self.has.get_mut(place as usize) else { return FlowHolder::This };
        if *has != 0 {
            if is_packet {
                *has &= !IS_FENCED;
            }
            self.note_scheduled(place);
            return FlowHolder::This;
        }
        if let Some(holder) = self.count_packet(place) {
            return FlowHolder::Other(holder);
        }
        self.take_over(place);
        self.note_scheduled(place);
        FlowHolder::This
    }

    fn note_scheduled(&mut self, flow: u32) {
        if let Some(has) = self.has.get_mut(flow as usize)
            && *has & IS_SCHEDULED == 0
            && self.scheduled.try_push(flow).is_ok()
        {
            *has |= IS_SCHEDULED;
        }
    }

    /// Counts a packet to the holder of `flow`, which is another worker. `None` if none holds it.
    fn count_packet(&self, flow: u32) -> Option<WorkerId> {
        let word = &self.shared.get(flow)?.holder;
        let mut seen = word.load(Ordering::Acquire);
        while seen != 0 {
            // The count stays far below its mask: packets are in rings or in a burst.
            match word.compare_exchange_weak(seen, seen + 1, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => {
                    let holder = (seen >> HOLDER_SHIFT).wrapping_sub(1);
                    return Some(WorkerId(u8::try_from(holder).unwrap_or_default()));
                }
                Err(now) => seen = now,
            }
        }
        None
    }

    /// Returns the sequence number for a packet that goes to the holder of `flow`. The scheduler
    /// gave the flow to the calling worker. Packets of a flow may be on several rings; the holder
    /// takes them by their sequence numbers.
    pub(crate) fn next_sequence_number(&self, flow: u32) -> u32 {
        let Some(shared) = self.shared.get(flow) else { return 0 };
        let number = shared.handed.load(Ordering::Relaxed);
        shared.handed.store(number.wrapping_add(1), Ordering::Relaxed);
        number
    }

    /// Takes the packet with this sequence number if it is the next one of `flow`; returns whether
    /// it is. The calling worker holds the flow.
    pub(crate) fn take_in_sequence(&self, flow: u32, number: u32) -> bool {
        let Some(shared) = self.shared.get(flow) else { return true };
        let is_next = shared.next.load(Ordering::Relaxed) == number;
        if is_next {
            shared.next.store(number.wrapping_add(1), Ordering::Relaxed);
        }
        is_next
    }

    /// Counts a packet that was on its way to the holder of `flow` as processed, or as lost.
    pub(crate) fn settle_packet(&self, flow: u32) {
        if let Some(shared) = self.shared.get(flow) {
            shared.holder.fetch_sub(1, Ordering::Release);
        }
    }

    /// Clears the fence of `flow`, because this worker sends frames of the flow without an event.
    pub(crate) fn unfence(&mut self, flow: u32) {
        if let Some(has) = self.has.get_mut(flow as usize) {
            *has &= !IS_FENCED;
        }
    }

    /// Clears the fences of all flows.
    #[cold]
    pub(crate) fn unfence_all(&mut self) {
        for flow in &self.held {
            if let Some(has) = self.has.get_mut(*flow as usize) {
                *has &= !IS_FENCED;
            }
        }
    }

    /// Notes a request for `flow`. Returns true if the caller has to send it, false if the
    /// scheduler has another one already.
    pub(crate) fn request(&self, flow: u32) -> bool {
        let shared = self.shared.get(flow);
        shared.is_some_and(|shared| !shared.is_requested.swap(true, Ordering::Relaxed))
    }

    /// Clears the request for `flow`, after it was scheduled or lost.
    pub(crate) fn end_request(&self, flow: u32) {
        if let Some(shared) = self.shared.get(flow) {
            shared.is_requested.store(false, Ordering::Relaxed);
        }
    }

    /// Holds those places of this step for which `must_hold` is true: the worker may keep packets
    /// of them.
    #[cold]
    pub(crate) fn hold_scheduled(&mut self, must_hold: impl Fn(u32) -> bool) {
        for at in 0..self.scheduled.len() {
            if let Some(place) = self.scheduled.get(at).copied()
                && must_hold(place)
            {
                self.hold(place);
            }
        }
    }

    /// Ends the step, so that the scheduler may give its flows to other workers.
    #[inline]
    pub(crate) fn end_step(&mut self) {
        for flow in self.scheduled.drain(..) {
            if let Some(has) = self.has.get_mut(flow as usize) {
                *has &= !IS_SCHEDULED;
            }
        }
    }

    /// True while this worker holds flows.
    #[inline]
    pub(crate) const fn holds_any(&self) -> bool {
        !self.held.is_empty()
    }

    /// Gives up the flows of which no packets are kept, unless some are on their way. `keeps`
    /// returns whether this worker keeps packets of a flow. `fence` sends a fence for a flow if
    /// there is room, and returns whether it did; that flow is given up later.
    #[cold]
    pub(crate) fn give_up(
        &mut self,
        keeps: impl Fn(u32) -> bool,
        mut fence: impl FnMut(u32) -> bool,
    ) {
        let Self { shared, id, has, held, .. } = self;
        held.retain(|flow| {
            let keeps_packets = keeps(*flow);
            let (Some(word), Some(has)) = (shared.get(*flow), has.get_mut(*flow as usize)) else {
                return false;
            };
            if keeps_packets || *has & IS_DEFERRED != 0 {
                return true;
            }
            // At earlier places no fence is needed: the next worker defers packets itself.
            if *has & IS_FENCED == 0 && shared.is_in_last_queue(*flow) {
                // Counted first: another worker may get the fence at once.
                word.holder.fetch_add(1, Ordering::Relaxed);
                match fence(*flow) {
                    true => *has |= IS_FENCED,
                    false => drop(word.holder.fetch_sub(1, Ordering::Relaxed)),
                }
                return true;
            }
            let mine = *id << HOLDER_SHIFT;
            let order = (Ordering::AcqRel, Ordering::Relaxed);
            let given = word.holder.compare_exchange(mine, 0, order.0, order.1).is_ok();
            if given {
                *has &= !(IS_HELD | IS_FENCED);
            }
            !given
        });
    }

    /// True if the command with this number was carried out for `session`.
    pub(crate) fn is_command_done(&self, session: SessionIndex, number: u64) -> bool {
        let done = self.shared.commands_done.get(session.0 as usize);
        done.is_none_or(|done| done.load(Ordering::Acquire) > number)
    }

    /// Publishes that the command with this number was carried out. The calling worker has the flow
    /// of `session`.
    pub(crate) fn finish_command(&mut self, session: SessionIndex, number: u64) {
        self.unfence(self.place_of(session));
        if let Some(done) = self.shared.commands_done.get(session.0 as usize) {
            done.store(number + 1, Ordering::Release);
        }
    }

    /// Returns how many packets are on their way to the holder of `flow`.
    #[cfg(test)]
    fn on_their_way(&self, flow: u32) -> u32 {
        self.shared.get(flow).unwrap().holder.load(Ordering::Relaxed) & COUNT_MASK
    }
}

const _: () = assert!(COUNT_MASK as usize > 2 * adit_types::limits::WORKERS_MAX * 4096);

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> [Flows; 2] {
        let shared = SharedFlows::new(500, &EventQueues::default(), 64);
        assert_eq!(shared.count(), 512);
        [0, 1].map(|id| Flows::new(shared.clone(), WorkerId(id)))
    }

    #[test]
    fn flow_without_holder_is_processed_where_it_is_scheduled() {
        let [mut first, mut second] = pair();
        assert_eq!(first.schedule(7, true), FlowHolder::This);
        assert!(first.has(SessionIndex(14)) && first.has(SessionIndex(15)));
        assert!(!first.has(SessionIndex(16)) && !second.has(SessionIndex(14)));
        first.end_step();
        assert!(!first.has(SessionIndex(14)));
        assert_eq!(second.schedule(7, true), FlowHolder::This);
    }

    #[test]
    fn holder_gets_every_packet_until_it_keeps_none_and_none_is_on_its_way() {
        let [mut first, mut second] = pair();
        assert_eq!(first.schedule(7, true), FlowHolder::This);
        first.hold_scheduled(|_| true);
        first.end_step();
        assert!(first.has(SessionIndex(14)) && first.holds_any());
        assert_eq!(second.schedule(7, true), FlowHolder::Other(WorkerId(0)));
        assert_eq!(second.schedule(7, true), FlowHolder::Other(WorkerId(0)));
        assert_eq!(second.on_their_way(7), 2);
        first.give_up(|_| false, |_| true);
        assert_eq!(second.on_their_way(7), 3, "with a fence");
        second.settle_packet(7);
        first.give_up(|_| false, |_| true);
        assert!(first.has(SessionIndex(14)), "two packets are on their way");
        first.settle_packet(7);
        first.settle_packet(7);
        first.give_up(|_| true, |_| true);
        assert!(first.holds_any());
        first.give_up(|_| false, |_| true);
        assert!(!first.holds_any() && !first.has(SessionIndex(14)));
        assert_eq!(second.schedule(7, true), FlowHolder::This);
    }

    #[test]
    fn flow_is_kept_until_a_fence_after_its_last_frame_was_scheduled() {
        let [mut first, second] = pair();
        first.schedule(7, true);
        first.hold_scheduled(|_| true);
        first.end_step();
        first.give_up(|_| false, |_| false);
        assert_eq!(second.on_their_way(7), 0, "no room for a fence");
        first.give_up(|_| false, |_| true);
        first.give_up(|_| false, |_| true);
        assert_eq!(second.on_their_way(7), 1, "one fence is enough");
        second.settle_packet(7);
        first.unfence(7);
        first.give_up(|_| false, |_| true);
        assert!(first.has(SessionIndex(14)), "a frame follows the first fence");
        second.settle_packet(7);
        first.give_up(|_| false, |_| true);
        assert!(!first.has(SessionIndex(14)));
    }

    #[test]
    fn frames_of_any_flows_need_new_fences_of_all_that_are_held() {
        let [mut first, second] = pair();
        for flow in [7, 9] {
            first.schedule(flow, true);
        }
        first.hold_scheduled(|_| true);
        first.end_step();
        first.give_up(|_| false, |_| true);
        first.unfence_all();
        for flow in [7, 9] {
            assert_eq!(second.on_their_way(flow), 1);
            second.settle_packet(flow);
        }
        first.give_up(|_| false, |_| true);
        for flow in [7, 9] {
            assert_eq!(second.on_their_way(flow), 1, "a fence behind the last frames");
            second.settle_packet(flow);
        }
        first.give_up(|_| false, |_| true);
        assert!(!first.holds_any());
    }

    #[test]
    fn flow_is_requested_once_at_a_time() {
        let [first, second] = pair();
        assert!(first.request(7) && !second.request(7) && second.request(8));
        second.end_request(7);
        assert!(second.request(7));
    }

    #[test]
    fn command_is_carried_out_once_by_number() {
        let [mut first, second] = pair();
        let session = SessionIndex(3);
        assert!(!first.is_command_done(session, 4));
        first.finish_command(session, 4);
        assert!(second.is_command_done(session, 4) && second.is_command_done(session, 3));
        assert!(!second.is_command_done(session, 5));
    }
}
