//! The in-memory event scheduler, for tests: slow, exact, and with the choice of the port in the hands of
//! the test.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use adit_pktio::mem::MemBuf;
use adit_pktio::{Event, EventBurst, EventPort, EventPortCounts};

/// Chooses the port of a flow that no port has: queue, flow, and the ports that may get it.
pub type ChoosePort = Box<dyn FnMut(u8, u32, &[usize]) -> usize + Send>;

/// An in-memory scheduler whose queues are all atomic.
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

struct SchedulerState {
    /// Events by queue, in order.
    queues: Vec<VecDeque<Event<MemBuf>>>,
    /// The queues of each port.
    links: Vec<Vec<u8>>,
    /// Flows that a port has, by queue and flow.
    held: HashMap<(u8, u32), usize>,
    /// The port that a flow without a port gets at its next event.
    chosen: HashMap<(u8, u32), usize>,
    choose: ChoosePort,
    /// Events that the queues take before new ones are refused.
    new_threshold: usize,
}

impl core::fmt::Debug for SchedulerState {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("SchedulerState").field("held", &self.held).finish_non_exhaustive()
    }
}

impl MemScheduler {
    /// A scheduler of `queues` queues. `links` are the queues of each port.
    #[must_use]
    pub fn new(
        queues: usize,
        links: Vec<Vec<u8>>,
        new_threshold: usize,
        choose: ChoosePort,
    ) -> (Self, Vec<MemEventPort>) {
        let ports = links.len();
        let state = SchedulerState {
            queues: (0..queues).map(|_| VecDeque::new()).collect(),
            links,
            held: HashMap::new(),
            chosen: HashMap::new(),
            choose,
            new_threshold,
        };
        let shared = Arc::new(Mutex::new(state));
        let port = |port| MemEventPort {
            shared: Arc::clone(&shared),
            port,
            counts: EventPortCounts::default(),
        };
        let ports = (0..ports).map(port).collect();
        (Self { shared }, ports)
    }

    /// Events in all queues.
    #[must_use]
    pub fn waiting(&self) -> usize {
        locked(&self.shared).queues.iter().map(VecDeque::len).sum()
    }

    /// Takes every event out of the queues.
    #[must_use]
    pub fn drain(&self) -> Vec<Event<MemBuf>> {
        locked(&self.shared).queues.iter_mut().flat_map(|queue| queue.drain(..)).collect()
    }
}

fn locked(shared: &Mutex<SchedulerState>) -> MutexGuard<'_, SchedulerState> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SchedulerState {
    /// Takes the first event that `port` may have.
    fn take(&mut self, port: usize) -> Option<Event<MemBuf>> {
        for queue in self.links[port].clone() {
            let events = &self.queues[usize::from(queue)];
            let tags: Vec<_> = events.iter().map(|event| event.tag).collect();
            for (at, tag) in tags.iter().enumerate() {
                let key = (queue, tag.flow());
                let owner = match (self.held.get(&key), self.chosen.get(&key)) {
                    (Some(port), _) | (None, Some(port)) => *port,
                    (None, None) => {
                        let linked = |links: &Vec<u8>| links.contains(&queue);
                        let ports: Vec<_> =
                            (0..self.links.len()).filter(|at| linked(&self.links[*at])).collect();
                        let chosen = (self.choose)(queue, tag.flow(), &ports);
                        self.chosen.insert(key, chosen);
                        chosen
                    }
                };
                if owner == port {
                    self.held.insert(key, port);
                    self.chosen.remove(&key);
                    return self.queues[usize::from(queue)].remove(at);
                }
            }
        }
        None
    }
}

impl MemEventPort {
    fn append(&mut self, events: &mut EventBurst<MemBuf>, are_new: bool) -> usize {
        let mut state = locked(&self.shared);
        let waiting: usize = state.queues.iter().map(VecDeque::len).sum();
        let room = if are_new { state.new_threshold.saturating_sub(waiting) } else { usize::MAX };
        let count = events.len().min(room);
        for event in events.drain(..count) {
            let queue = usize::from(event.tag.queue());
            state.queues[queue].push_back(event);
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
        state.held.retain(|_, port| *port != self.port);
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

    fn flush(&mut self) {}

    fn counts(&self) -> EventPortCounts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use adit_pktio::{EventTag, ScheduleType};

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
        let (scheduler, mut ports) = MemScheduler::new(1, vec![vec![0], vec![0]], 3, turns);
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
        assert_eq!(scheduler.waiting(), 0);
    }
}
