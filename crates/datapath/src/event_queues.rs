//! The queues of the event-driven model, and the stages behind them.
//!
//! Packets pass the packet queues one after the other: the Rx queue, if there is one, then the
//! queues of stages. The ids of these queues are their positions. The Tx queues follow, one for
//! each Rx/Tx thread, then the timer queues, one for each worker.

use core::hint::black_box;
use core::ops::Range;

use adit_pktio::{EventTag, ScheduleType};
use adit_types::{Role, Roles};

/// Number of stages.
pub const STAGES: usize = 4;

/// Maximum of queues that a packet passes before its Tx queue.
pub(crate) const PACKET_QUEUES_MAX: usize = STAGES + 1;

/// Indexes of the stages.
pub(crate) const CLASSIFY: usize = 0;
pub(crate) const ENFORCE: usize = 1;
pub(crate) const APPLY: usize = 2;
pub(crate) const PREPARE: usize = 3;

/// How many shares of flows are divided among Rx/Tx threads; the low bits of a flow name its share.
const TX_SHARES: usize = 64;

/// The stages and queues of the event scheduler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventQueues {
    /// True if there is an Rx queue.
    has_rx: bool,
    /// Number of queues of stages.
    stages: usize,
    /// Schedule types of the packet queues, by position.
    schedules: [ScheduleType; PACKET_QUEUES_MAX],
    rx_tx: usize,
    /// The id of the Tx queue of each share of flows.
    tx: [u8; TX_SHARES],
    /// Number of timer queues.
    timers: usize,
    dummy_cycles: [u32; STAGES],
}

/// A queue that packets pass, and how its flows are scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketQueue {
    /// Its id.
    pub number: u8,
    /// How its flows are scheduled.
    pub schedule: ScheduleType,
}

impl PacketQueue {
    /// Returns the tag of an event of `flow` for this queue.
    #[inline]
    pub(crate) const fn tag(self, flow: u32, note: u8) -> EventTag {
        EventTag::new(self.number, self.schedule, flow, note)
    }

    /// True if several workers may process events of a flow at once, and the events leave in order.
    #[inline]
    pub(crate) fn is_ordered(self) -> bool {
        self.schedule == ScheduleType::Ordered
    }

    /// Returns the position of this queue among the packet queues.
    #[inline]
    pub(crate) const fn position(self) -> usize {
        self.number as usize
    }
}

/// Why queues of stages are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueuesError {
    /// The number of queues is none of 1, 2 and 4.
    Queues,
    /// The second stage is not atomic, although it has state of sessions.
    NotAtomic,
}

impl Default for EventQueues {
    /// One queue for all stages, one Rx/Tx thread, and neither an Rx queue nor timer queues.
    fn default() -> Self {
        let queues = Self {
            has_rx: false,
            stages: 1,
            schedules: [ScheduleType::Atomic; PACKET_QUEUES_MAX],
            rx_tx: 1,
            tx: [0; TX_SHARES],
            timers: 0,
            dummy_cycles: [0; STAGES],
        };
        queues.with_tx(1)
    }
}

impl EventQueues {
    /// Creates as many queues of stages as `schedules` has: 1, 2 or 4. Each stage wastes about
    /// `dummy_cycles` more per packet, to emulate costlier stages.
    ///
    /// # Errors
    /// See [`QueuesError`].
    pub fn new(
        schedules: &[ScheduleType],
        dummy_cycles: [u32; STAGES],
    ) -> Result<Self, QueuesError> {
        let stages = schedules.len();
        if !matches!(stages, 1 | 2 | 4) {
            return Err(QueuesError::Queues);
        }
        let mut queues = Self { stages, dummy_cycles, ..Self::default() }.with_tx(1);
        for (own, schedule) in queues.schedules.iter_mut().zip(schedules) {
            *own = *schedule;
        }
        match queues.queue_of_stage(ENFORCE).schedule {
            ScheduleType::Atomic => Ok(queues),
            ScheduleType::Ordered | ScheduleType::Parallel => Err(QueuesError::NotAtomic),
        }
    }

    /// Adds an Rx queue if there is a `schedule` for it: workers then look up the flows of packets
    /// instead of Rx/Tx threads.
    #[must_use]
    pub fn with_rx(mut self, schedule: Option<ScheduleType>) -> Self {
        if let Some(schedule) = schedule.filter(|_| !self.has_rx) {
            self.has_rx = true;
            self.schedules.rotate_right(1);
            self.schedules[0] = schedule;
        }
        let rx_tx = self.rx_tx;
        self.with_tx(rx_tx)
    }

    /// Sets the number of Tx queues: one for each of `rx_tx` Rx/Tx threads, at least one.
    #[must_use]
    pub fn with_tx(self, rx_tx: usize) -> Self {
        let rx_tx = rx_tx.max(1);
        let first = self.packet_queue_count();
        let tx = core::array::from_fn(|share| number(first + share % rx_tx));
        Self { rx_tx, tx, ..self }
    }

    /// Sets the number of timer queues: one for each of `workers` workers. Zero: workers search for
    /// due packets in each step.
    #[must_use]
    pub fn with_timers(self, workers: usize) -> Self {
        Self { timers: workers, ..self }
    }

    /// Returns the queues that packets pass, in order.
    pub fn of_packets(&self) -> impl DoubleEndedIterator<Item = PacketQueue> + use<> {
        let queues = self.clone();
        (0..self.packet_queue_count()).map(move |position| queues.queue_at(position))
    }

    /// Returns the number of queues.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.packet_queue_count() + self.rx_tx + self.timers
    }

    /// Returns the schedule types of all queues, by queue id.
    pub fn schedules(&self) -> impl Iterator<Item = ScheduleType> + use<> {
        let others = self.count() - self.packet_queue_count();
        let of_packets = self.of_packets().map(|queue| queue.schedule);
        of_packets.chain(core::iter::repeat_n(ScheduleType::Atomic, others))
    }

    /// Returns the priorities of all queues for a central scheduler, by queue id; zero is the
    /// highest. Frames that leave and timers go first (under load a worker would otherwise never
    /// get an event of its timer), then packets that are nearly done.
    pub fn priorities(&self) -> impl Iterator<Item = u8> + use<> {
        let of_packets = [192_u8, 160, 128, 96, 64].into_iter().take(self.packet_queue_count());
        let others = self.count() - self.packet_queue_count();
        of_packets.chain(core::iter::repeat_n(0, others))
    }

    /// Returns the ids of the queues that each thread of `roles` takes events from.
    #[must_use]
    pub fn links(&self, roles: Roles) -> Vec<Vec<u8>> {
        let first_tx = self.packet_queue_count();
        let links = |(thread, role)| match role {
            Role::RxTx => vec![number(first_tx + thread - roles.processing_thread_count())],
            _ => {
                let timer = (thread < self.timers).then(|| self.timer_queue_of(thread));
                self.of_packets().map(|queue| queue.number).chain(timer).collect()
            }
        };
        roles.all().enumerate().map(links).collect()
    }

    /// Returns how many queues packets pass.
    const fn packet_queue_count(&self) -> usize {
        self.stages + self.has_rx as usize
    }

    /// Returns how many queues of stages there are.
    #[must_use]
    pub const fn stage_queues(&self) -> usize {
        self.stages
    }

    /// Returns how many Rx/Tx threads there are.
    pub(crate) const fn rx_tx(&self) -> usize {
        self.rx_tx
    }

    /// Returns the id of the Tx queue for frames of a flow. All frames of one flow leave through
    /// one Rx/Tx thread, in order.
    #[inline]
    pub(crate) const fn tx_queue_of(&self, flow: u32) -> u8 {
        self.tx[flow as usize % TX_SHARES]
    }

    /// Returns how many timer queues there are.
    pub(crate) const fn timers(&self) -> usize {
        self.timers
    }

    /// Returns the id of the timer queue of a worker.
    pub(crate) fn timer_queue_of(&self, worker: usize) -> u8 {
        number(self.packet_queue_count() + self.rx_tx + worker)
    }

    /// Returns the packet queue of an event. `None` if the event is of a timer queue.
    #[inline]
    pub(crate) fn queue_of_tag(&self, tag: EventTag) -> Option<PacketQueue> {
        let position = usize::from(tag.queue());
        (position < self.packet_queue_count()).then(|| self.queue_at(position))
    }

    /// True if any queue is ordered.
    #[inline]
    pub(crate) fn are_any_ordered(&self) -> bool {
        self.schedules.contains(&ScheduleType::Ordered)
    }

    /// Returns the Rx queue, if there is one.
    #[inline]
    #[must_use]
    pub fn rx(&self) -> Option<PacketQueue> {
        self.has_rx.then(|| self.queue_at(0))
    }

    /// Returns the queue at `position` among the packet queues.
    #[inline]
    pub(crate) fn queue_at(&self, position: usize) -> PacketQueue {
        let schedule = self.schedules.get(position).copied().unwrap_or(ScheduleType::Atomic);
        PacketQueue { number: number(position), schedule }
    }

    /// Returns the queue in front of a stage.
    #[inline]
    pub(crate) fn queue_of_stage(&self, stage: usize) -> PacketQueue {
        self.queue_at(usize::from(self.has_rx) + stage * self.stages / STAGES)
    }

    /// Returns the queue that packets of sessions enter after `stage`; `None` if they enter none.
    pub(crate) fn after(&self, stage: usize) -> Option<PacketQueue> {
        let own = self.queue_of_stage(stage);
        let mut later = (stage + 1..STAGES).map(|stage| self.queue_of_stage(stage));
        later.find(|queue| queue.number != own.number)
    }

    /// Returns the stages behind the packet queue at `position`; none behind the Rx queue.
    pub(crate) fn behind(&self, position: usize) -> Range<usize> {
        let each = STAGES / self.stages.max(1);
        match position.checked_sub(usize::from(self.has_rx)) {
            Some(at) => at * each..(at + 1) * each,
            None => 0..0,
        }
    }

    /// True if one queue leads to all stages.
    #[must_use]
    pub const fn are_merged(&self) -> bool {
        self.stages == 1
    }

    /// Wastes the dummy cycles of `stages` for `pkts` packets.
    #[inline]
    pub(crate) fn stall(&self, stages: Range<usize>, pkts: usize) {
        let cycles: u32 = self.dummy_cycles.get(stages).unwrap_or_default().iter().sum();
        if cycles > 0 {
            stall(u64::from(cycles) * pkts as u64);
        }
    }
}

/// Wastes about `cycles` cycles by a chain of multiplications, each of which needs the previous
/// one.
#[cold]
fn stall(cycles: u64) {
    const MULTIPLICATION: u64 = 3;
    let mut product = black_box(3_u64);
    for _ in 0..cycles / MULTIPLICATION {
        product = product.wrapping_mul(product);
    }
    black_box(product);
}

/// Converts the position of a queue to its id.
#[inline]
const fn number(queue: usize) -> u8 {
    queue.to_le_bytes()[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_numbered_as_packets_pass_them() {
        let atomic = [ScheduleType::Atomic; STAGES];
        let queues = EventQueues::new(&atomic, [0; STAGES]).unwrap();
        let queues = queues.with_timers(2).with_tx(3).with_rx(Some(ScheduleType::Ordered));
        assert_eq!(queues.count(), 10);
        let schedules: Vec<_> = queues.schedules().collect();
        assert_eq!(schedules.len(), 10);
        assert!(schedules.iter().skip(1).all(|schedule| *schedule == ScheduleType::Atomic));
        assert_eq!(queues.rx(), Some(PacketQueue { number: 0, schedule: ScheduleType::Ordered }));
        let links = queues.links(Roles::event_driven(3, 2));
        assert_eq!(links[..2], [[0, 1, 2, 3, 4, 8], [0, 1, 2, 3, 4, 9]]);
        assert_eq!(links[2..], [[5], [6], [7]]);
        assert_eq!([0, 1, 2, 3].map(|flow| queues.tx_queue_of(flow)), [5, 6, 7, 5]);
        let position = |queue| {
            let tag = EventTag::new(queue, ScheduleType::Atomic, 0, 0);
            queues.queue_of_tag(tag).map(PacketQueue::position)
        };
        assert_eq!((queues.timer_queue_of(1), position(4), position(8)), (9, Some(4), None));
        assert_eq!((queues.behind(0), queues.behind(1), queues.behind(4)), (0..0, 0..1, 3..4));
        assert_eq!(queues.after(ENFORCE).map(|queue| queue.number), Some(3));
        assert_eq!((queues.queue_of_stage(CLASSIFY).number, queues.after(PREPARE)), (1, None));
    }
}
