//! An event scheduler in memory, for tests: slow, exact, and the test chooses the port of each
//! flow.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use adit_pktio::mem::MemBuf;
use adit_pktio::{Event, EventBurst, EventOperation, EventPort, EventPortCounts, ScheduleType};

/// Chooses the port for a flow that no port has. Parameters: queue, flow, and the ports that are
/// allowed.
pub type ChoosePort = Box<dyn FnMut(u8, u32, &[usize]) -> usize + Send>;

/// Returns whether a port keeps back its events of a queue and a flow for now, as `event_dsw` does
/// while it moves the flow. Parameters: queue and flow.
pub type KeepBack = Box<dyn FnMut(u8, u32) -> bool + Send>;

/// Number of events that a queue can hold without allocating.
const QUEUE_LEN: usize = 8192;

/// The configuration of a [`MemScheduler`].
pub struct MemSchedulerConfig {
    /// The order in which each queue schedules the events of a flow.
    pub queues: Vec<ScheduleType>,
    /// The queues that each port is linked to.
    pub links: Vec<Vec<u8>>,
    /// Number of flows of each queue.
    pub flows: usize,
    /// Number of events in the queues from which on new ones are refused.
    pub new_threshold: usize,
    /// Chooses ports.
    pub choose: ChoosePort,
    /// Decides whether ports keep back enqueued events. Kept events of a flow stay in order, but
    /// events of other ports may overtake them. It must release every event eventually.
    pub keep_back: KeepBack,
}

impl core::fmt::Debug for MemSchedulerConfig {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("MemSchedulerConfig").field("queues", &self.queues).finish_non_exhaustive()
    }
}

/// A scheduler in memory. It does not allocate while its queues hold few events.
#[derive(Debug)]
pub struct MemScheduler {
    shared: Arc<Mutex<SchedulerState>>,
}

/// One port of a [`MemScheduler`].
#[derive(Debug)]
pub struct MemEventPort {
    shared: Arc<Mutex<SchedulerState>>,
    port: usize,
    counts: EventPortCounts,
}

/// The port that has a flow of an atomic queue, and the port that gets it next.
#[derive(Debug, Clone, Copy, Default)]
struct FlowPorts {
    /// The port that has the flow.
    held: Option<usize>,
    /// The port that gets the flow's next event.
    chosen: Option<usize>,
}

struct MemQueue {
    schedule: ScheduleType,
    /// Waiting events, in order.
    events: VecDeque<Event<MemBuf>>,
    /// In an ordered queue: the events that ports have, in order; `first_given` is the number of
    /// the first.
    given: VecDeque<GivenEvent>,
    first_given: usize,
    flows: Vec<FlowPorts>,
    /// The ports that are linked to the queue.
    ports: Vec<usize>,
}

/// An event of an ordered queue that was given to a port.
enum GivenEvent {
    /// The port has not ended the event yet.
    Open,
    /// The port has ended the event, with this successor.
    Ended(Option<Event<MemBuf>>),
}

/// A dequeued event: its queue and, in an ordered queue, its number.
type DequeuedEvent = (u8, Option<usize>);

struct SchedulerState {
    /// For each port, the events that it has dequeued and not ended, in order.
    dequeued: Vec<VecDeque<DequeuedEvent>>,
    /// For each port, the events that it keeps back.
    kept: Vec<VecDeque<Event<MemBuf>>>,
    keep_back: KeepBack,
    queues: Vec<MemQueue>,
    /// The queues that each port is linked to.
    links: Vec<Vec<u8>>,
    choose: ChoosePort,
    new_threshold: usize,
}

impl core::fmt::Debug for SchedulerState {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("SchedulerState").field("links", &self.links).finish_non_exhaustive()
    }
}

impl MemScheduler {
    /// Creates a scheduler and its ports.
    #[must_use]
    pub fn new(config: MemSchedulerConfig) -> (Self, Vec<MemEventPort>) {
        let MemSchedulerConfig { queues, links, flows, new_threshold, choose, keep_back } = config;
        let ports_of = |queue: u8| {
            let ports = links.iter().enumerate().filter(|(_, queues)| queues.contains(&queue));
            ports.map(|(port, _)| port).collect()
        };
        let queue = |(number, schedule): (u8, ScheduleType)| {
            let (events, given) =
                (VecDeque::with_capacity(QUEUE_LEN), VecDeque::with_capacity(QUEUE_LEN));
            let flows = vec![FlowPorts::default(); flows];
            let ports = ports_of(number);
            MemQueue { schedule, events, given, first_given: 0, flows, ports }
        };
        let queues = (0..).zip(queues).map(queue).collect();
        let ports = links.len();
        let kept = links.iter().map(|_| VecDeque::with_capacity(QUEUE_LEN)).collect();
        let dequeued = links.iter().map(|_| VecDeque::with_capacity(QUEUE_LEN)).collect();
        let state =
            SchedulerState { dequeued, kept, keep_back, queues, links, choose, new_threshold };
        let shared = Arc::new(Mutex::new(state));
        let port = |port| MemEventPort {
            shared: Arc::clone(&shared),
            port,
            counts: EventPortCounts::default(),
        };
        let ports = (0..ports).map(port).collect();
        (Self { shared }, ports)
    }

    /// Returns the number of packets in all queues.
    #[must_use]
    pub fn waiting_pkts(&self) -> usize {
        locked(&self.shared).waiting(|event| event.buf.is_some())
    }

    /// Removes and returns every event in the queues.
    #[must_use]
    pub fn drain(&self) -> Vec<Event<MemBuf>> {
        let mut state = locked(&self.shared);
        let SchedulerState { queues, kept, .. } = &mut *state;
        let waiting = queues.iter_mut().map(|queue| &mut queue.events).chain(kept);
        let mut all: Vec<_> = waiting.flat_map(|events| events.drain(..)).collect();
        let given = queues.iter_mut().flat_map(|queue| queue.given.drain(..));
        all.extend(given.filter_map(|given| match given {
            GivenEvent::Ended(event) => event,
            GivenEvent::Open => None,
        }));
        all
    }
}

fn locked(shared: &Mutex<SchedulerState>) -> MutexGuard<'_, SchedulerState> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SchedulerState {
    fn waiting(&self, is_counted: impl Fn(&Event<MemBuf>) -> bool) -> usize {
        let ended = |given| match given {
            &GivenEvent::Ended(Some(ref event)) => Some(event),
            _ => None,
        };
        let ended = self.queues.iter().flat_map(|queue| queue.given.iter().filter_map(ended));
        let queued = self.queues.iter().flat_map(|queue| &queue.events);
        let kept = self.kept.iter().flatten();
        queued.chain(kept).chain(ended).filter(|event| is_counted(event)).count()
    }

    /// Removes and returns the first event that `port` may have.
    fn take(&mut self, port: usize) -> Option<Event<MemBuf>> {
        let Self { dequeued, queues, links, choose, .. } = self;
        for number in &links[port] {
            let MemQueue { schedule, events, given, first_given, flows, ports } =
                &mut queues[usize::from(*number)];
            for at in 0..events.len() {
                let flow = events[at].tag.flow();
                let FlowPorts { held, chosen } = &mut flows[flow as usize];
                let owner = held
                    .unwrap_or_else(|| *chosen.get_or_insert_with(|| choose(*number, flow, ports)));
                if owner != port {
                    continue;
                }
                *chosen = None;
                let order = (*schedule == ScheduleType::Ordered).then(|| {
                    given.push_back(GivenEvent::Open);
                    *first_given + given.len() - 1
                });
                if *schedule == ScheduleType::Atomic {
                    *held = Some(port);
                }
                dequeued[port].push_back((*number, order));
                return events.remove(at);
            }
        }
        None
    }

    /// Enqueues an event of `port`, or appends it to those that the port keeps back. The first
    /// `older` of these are about to be enqueued themselves, so they are ignored.
    fn put(&mut self, port: usize, event: Event<MemBuf>, older: usize) {
        let Self { queues, kept, keep_back, .. } = self;
        let kept = &mut kept[port];
        let (queue, flow) = (event.tag.queue(), event.tag.flow());
        let mut again = kept.iter().skip(older);
        let is_behind = again.any(|own| (own.tag.queue(), own.tag.flow()) == (queue, flow));
        if is_behind || keep_back(queue, flow) {
            kept.push_back(event);
        } else {
            queues[usize::from(queue)].events.push_back(event);
        }
    }

    /// Enqueues the events that `port` keeps back, in order, except those that it must keep
    /// further.
    fn enqueue_kept(&mut self, port: usize) {
        for older in (0..self.kept[port].len()).rev() {
            let Some(event) = self.kept[port].pop_front() else { break };
            self.put(port, event, older);
        }
    }

    /// Ends the first event that `port` has. `successor` is the event that takes its place.
    fn end(&mut self, port: usize, successor: Option<Event<MemBuf>>) {
        let (number, order) =
            self.dequeued[port].pop_front().unwrap_or_else(|| unreachable!("no event to end"));
        let Some(order) = order else {
            return successor.into_iter().for_each(|event| self.put(port, event, 0));
        };
        let number = usize::from(number);
        let MemQueue { given, first_given, .. } = &mut self.queues[number];
        given[order - *first_given] = GivenEvent::Ended(successor);
        while let MemQueue { given, first_given, .. } = &mut self.queues[number]
            && let Some(GivenEvent::Ended(_)) = given.front()
        {
            *first_given += 1;
            if let Some(GivenEvent::Ended(Some(event))) = given.pop_front() {
                // The queue itself enqueues here, so no port can keep the event back.
                self.queues[usize::from(event.tag.queue())].events.push_back(event);
            }
        }
    }

    /// Ends all events that `port` has, and releases its flows.
    fn release(&mut self, port: usize) {
        while !self.dequeued[port].is_empty() {
            self.end(port, None);
        }
        for number in &self.links[port] {
            for flow in &mut self.queues[usize::from(*number)].flows {
                if flow.held == Some(port) {
                    flow.held = None;
                }
            }
        }
    }
}

impl MemEventPort {
    fn append(&mut self, events: &mut EventBurst<MemBuf>, are_new: bool) -> usize {
        let mut state = locked(&self.shared);
        let is_limited = are_new && state.new_threshold < usize::MAX;
        let room = match is_limited {
            true => state.new_threshold.saturating_sub(state.waiting(|_| true)),
            false => usize::MAX,
        };
        let count = events.len().min(room);
        for event in events.drain(..count) {
            state.put(self.port, event, 0);
        }
        self.counts.enqueued += count as u64;
        self.counts.refused += events.len() as u64;
        count
    }
}

impl EventPort for MemEventPort {
    type Buf = MemBuf;

    fn dequeue(&mut self, limit: usize, events: &mut EventBurst<MemBuf>) -> usize {
        let mut state = locked(&self.shared);
        state.release(self.port);
        state.enqueue_kept(self.port);
        let before = events.len();
        while events.len() - before < limit && !events.is_full() {
            let Some(event) = state.take(self.port) else { break };
            events.push(event);
        }
        let count = events.len() - before;
        self.counts.dequeued += count as u64;
        count
    }

    fn enqueue(&mut self, events: &mut EventBurst<MemBuf>) -> usize {
        self.append(events, false)
    }

    fn enqueue_new(&mut self, events: &mut EventBurst<MemBuf>) -> usize {
        self.append(events, true)
    }

    fn complete(&mut self, events: &mut EventBurst<MemBuf>) -> usize {
        let mut state = locked(&self.shared);
        let count = events.len();
        for event in events.drain(..) {
            let is_successor = event.tag.operation() == EventOperation::Forward;
            state.end(self.port, is_successor.then_some(event));
        }
        assert!(state.dequeued[self.port].is_empty(), "an event was not ended");
        self.counts.enqueued += count as u64;
        count
    }

    fn flush(&mut self) {}

    fn counts(&self) -> EventPortCounts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use adit_pktio::EventTag;

    fn event(flow: u32, note: u8) -> Event<MemBuf> {
        let buf = Some(MemBuf::from_packet(&[note]));
        Event { tag: EventTag::new(0, ScheduleType::Atomic, flow, note), buf }
    }

    #[test]
    fn flow_is_with_one_port_until_its_next_dequeue() {
        let mut next = 0;
        let turns = Box::new(move |_, _, _: &[usize]| {
            next += 1;
            (next - 1) % 2
        });
        let (scheduler, mut ports) = MemScheduler::new(MemSchedulerConfig {
            queues: vec![ScheduleType::Atomic],
            links: vec![vec![0], vec![0]],
            flows: 8,
            new_threshold: 3,
            choose: turns,
            keep_back: Box::new(|_, _| false),
        });
        let mut events: EventBurst<_> = (0..4).map(|note| event(7, note)).collect();
        assert_eq!(ports[0].enqueue_new(&mut events), 3, "the queues take three new events");
        assert_eq!(ports[0].enqueue(&mut events), 1);
        let mut taken = EventBurst::new();
        assert_eq!(ports[0].dequeue(1, &mut taken), 1);
        assert_eq!(ports[1].dequeue(4, &mut taken), 0, "the flow is with the other port");
        assert_eq!(ports[0].dequeue(0, &mut taken), 0);
        assert_eq!(ports[1].dequeue(4, &mut taken), 3);
        let notes: Vec<_> = taken.iter().map(|event| event.tag.note()).collect();
        assert_eq!(notes, [0, 1, 2, 3]);
        assert_eq!(scheduler.waiting_pkts(), 0);
    }

    #[test]
    fn successors_of_an_ordered_queue_keep_its_order() {
        let mut next = 1;
        let turns = Box::new(move |_, _, ports: &[usize]| {
            next += ports.len() / 2;
            ports[next % ports.len()]
        });
        let (scheduler, mut ports) = MemScheduler::new(MemSchedulerConfig {
            queues: vec![ScheduleType::Ordered, ScheduleType::Atomic],
            links: vec![vec![0], vec![0], vec![1]],
            flows: 8,
            new_threshold: 8,
            choose: turns,
            keep_back: Box::new(|_, _| false),
        });
        let mut events: EventBurst<_> = (0..4).map(|note| event(7, note)).collect();
        assert_eq!(ports[0].enqueue_new(&mut events), 4);
        let end = |ports: &mut [MemEventPort], operations: [EventOperation; 2]| {
            let mut taken = [EventBurst::new(), EventBurst::new()];
            for (port, taken) in ports.iter_mut().zip(&mut taken) {
                assert_eq!(port.dequeue(1, taken), 1);
            }
            // The port that has the second event ends its event first.
            for at in [1, 0] {
                assert_eq!(ports[2].dequeue(8, &mut EventBurst::new()), 0);
                let event = &mut taken[at][0];
                let tag = EventTag::new(1, ScheduleType::Atomic, 7, event.tag.note());
                event.tag = tag.with_operation(operations[at]);
                ports[at].complete(&mut taken[at]);
            }
            let mut left = EventBurst::new();
            ports[2].dequeue(8, &mut left);
            left.iter().map(|event| event.tag.note()).collect::<Vec<_>>()
        };
        assert_eq!(end(&mut ports, [EventOperation::Forward; 2]), [0, 1]);
        assert_eq!(end(&mut ports, [EventOperation::Release, EventOperation::Forward]), [3]);
        assert_eq!(scheduler.waiting_pkts(), 0);
    }
}
