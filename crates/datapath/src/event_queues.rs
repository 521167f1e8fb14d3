//! The queues of the event-driven model, and the stages behind them.
//!
//! Packets pass the queues of packets one after the other: the Rx queue, if there is one, and those
//! of stages. The numbers of these queues are their positions. A Tx queue for each Rx/Tx thread
//! follows, then a timer queue for each worker.

use core::hint::black_box;
use core::ops::Range;

use adit_pktio::{EventTag, ScheduleType};
use adit_types::{Role, Roles};

/// How many stages there are.
pub const STAGES: usize = 4;

/// Most queues that packets pass before their Tx queue.
pub(crate) const PACKET_QUEUES_MAX: usize = STAGES + 1;

/// The numbers of stages.
pub(crate) const CLASSIFY: usize = 0;
pub(crate) const ENFORCE: usize = 1;
pub(crate) const APPLY: usize = 2;
pub(crate) const PREPARE: usize = 3;

/// Flows are divided among Rx/Tx threads by this many of their low numbers.
const TX_SHARES: usize = 64;

/// The stages, and the queues of the scheduler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventQueues {
    /// There is an Rx queue.
    has_rx: bool,
    /// Queues of stages.
    stages: usize,
    /// By position.
    schedules: [ScheduleType; PACKET_QUEUES_MAX],
    rx_tx: usize,
    /// The Tx queue of each share of flows.
    tx: [u8; TX_SHARES],
    /// Timer queues.
    timers: usize,
    dummy_cycles: [u32; STAGES],
}

/// A queue that packets pass, and how its flows are scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketQueue {
    /// Its number.
    pub number: u8,
    /// How its flows are scheduled.
    pub schedule: ScheduleType,
}

impl PacketQueue {
    /// The tag of an event of a flow for this queue.
    #[inline]
    pub(crate) const fn tag(self, flow: u32, note: u8) -> EventTag {
        EventTag::new(self.number, self.schedule, flow, note)
    }

    /// True if events may be with several workers, and go on in their order.
    #[inline]
    pub(crate) fn is_ordered(self) -> bool {
        self.schedule == ScheduleType::Ordered
    }

    /// Its position among the queues that packets pass.
    #[inline]
    pub(crate) const fn position(self) -> usize {
        self.number as usize
    }
}

/// A number of queues, or their schedule types, that the stages cannot have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueuesError {
    /// The number of queues is none of 1, 2 and 4.
    Queues,
    /// The second stage is not atomic, although it has state of sessions.
    NotAtomic,
}

impl Default for EventQueues {
    /// All stages in one visit, one Rx/Tx thread, and neither an Rx queue nor timer queues.
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
    /// Stages behind as many queues as `schedules` has: 1, 2 or 4. Each stage of a packet takes
    /// `dummy_cycles` more, about.
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
        match queues.queue_of(ENFORCE).schedule {
            ScheduleType::Atomic => Ok(queues),
            ScheduleType::Ordered | ScheduleType::Parallel => Err(QueuesError::NotAtomic),
        }
    }

    /// Adds an Rx queue, if `schedule` says how it is scheduled: workers look up the flows
    /// of packets, instead of Rx/Tx threads.
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

    /// Has a Tx queue for each of `rx_tx` Rx/Tx threads, at least one.
    #[must_use]
    pub fn with_tx(self, rx_tx: usize) -> Self {
        let rx_tx = rx_tx.max(1);
        let first = self.packet_queues();
        let tx = core::array::from_fn(|share| number(first + share % rx_tx));
        Self { rx_tx, tx, ..self }
    }

    /// Has a timer queue for each of `workers` workers; zero: workers search for due
    /// packets in each step.
    #[must_use]
    pub fn with_timers(self, workers: usize) -> Self {
        Self { timers: workers, ..self }
    }

    /// The queues that packets pass, in order.
    pub fn of_packets(&self) -> impl DoubleEndedIterator<Item = PacketQueue> + use<> {
        let queues = self.clone();
        (0..self.packet_queues()).map(move |position| queues.queue_at(position))
    }

    /// How many queues there are.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.packet_queues() + self.rx_tx + self.timers
    }

    /// The schedule types of all queues, by number.
    pub fn schedules(&self) -> impl Iterator<Item = ScheduleType> + use<> {
        let others = self.count() - self.packet_queues();
        let of_packets = self.of_packets().map(|queue| queue.schedule);
        of_packets.chain(core::iter::repeat_n(ScheduleType::Atomic, others))
    }

    /// The priorities of all queues for a central scheduler, by number; zero goes first. Frames
    /// that leave and timers go first, then packets that are nearly done: under load a worker would
    /// never get an event of its timer.
    pub fn priorities(&self) -> impl Iterator<Item = u8> + use<> {
        let of_packets = [192_u8, 160, 128, 96, 64].into_iter().take(self.packet_queues());
        let others = self.count() - self.packet_queues();
        of_packets.chain(core::iter::repeat_n(0, others))
    }

    /// The queues that each thread of `roles` takes events from.
    #[must_use]
    pub fn links(&self, roles: Roles) -> Vec<Vec<u8>> {
        let first_tx = self.packet_queues();
        let links = |(thread, role)| match role {
            Role::RxTx => vec![number(first_tx + thread - roles.transmitters())],
            _ => {
                let timer = (thread < self.timers).then(|| self.timer_of(thread));
                self.of_packets().map(|queue| queue.number).chain(timer).collect()
            }
        };
        roles.all().enumerate().map(links).collect()
    }

    /// How many queues packets pass.
    const fn packet_queues(&self) -> usize {
        self.stages + self.has_rx as usize
    }

    /// How many queues of stages there are.
    #[must_use]
    pub const fn stage_queues(&self) -> usize {
        self.stages
    }

    /// How many Rx/Tx threads there are.
    pub(crate) const fn rx_tx(&self) -> usize {
        self.rx_tx
    }

    /// The Tx queue of frames of a flow: those of one flow leave through one Rx/Tx thread, in
    /// order.
    #[inline]
    pub(crate) const fn tx_of(&self, flow: u32) -> u8 {
        self.tx[flow as usize % TX_SHARES]
    }

    /// How many timer queues there are.
    pub(crate) const fn timers(&self) -> usize {
        self.timers
    }

    /// The timer queue of a worker.
    pub(crate) fn timer_of(&self, worker: usize) -> u8 {
        number(self.packet_queues() + self.rx_tx + worker)
    }

    /// The queue of an event, if packets pass it; the others that workers take events from are
    /// those of timers.
    #[inline]
    pub(crate) fn queue_of_tag(&self, tag: EventTag) -> Option<PacketQueue> {
        let position = usize::from(tag.queue());
        (position < self.packet_queues()).then(|| self.queue_at(position))
    }

    /// True if any queue is ordered.
    #[inline]
    pub(crate) fn are_any_ordered(&self) -> bool {
        self.schedules.contains(&ScheduleType::Ordered)
    }

    /// The Rx queue, if there is one.
    #[inline]
    #[must_use]
    pub fn rx(&self) -> Option<PacketQueue> {
        self.has_rx.then(|| self.queue_at(0))
    }

    /// The queue at a position among those that packets pass.
    #[inline]
    pub(crate) fn queue_at(&self, position: usize) -> PacketQueue {
        let schedule = self.schedules.get(position).copied().unwrap_or(ScheduleType::Atomic);
        PacketQueue { number: number(position), schedule }
    }

    /// The queue in front of a stage.
    #[inline]
    pub(crate) fn queue_of(&self, stage: usize) -> PacketQueue {
        self.queue_at(usize::from(self.has_rx) + stage * self.stages / STAGES)
    }

    /// The queue after a stage, if another one follows: packets of sessions go there.
    pub(crate) fn after(&self, stage: usize) -> Option<PacketQueue> {
        let own = self.queue_of(stage);
        let mut later = (stage + 1..STAGES).map(|stage| self.queue_of(stage));
        later.find(|queue| queue.number != own.number)
    }

    /// The stages behind the queue at a position; none behind the Rx queue.
    pub(crate) fn behind(&self, position: usize) -> Range<usize> {
        let each = STAGES / self.stages.max(1);
        match position.checked_sub(usize::from(self.has_rx)) {
            Some(at) => at * each..(at + 1) * each,
            None => 0..0,
        }
    }

    /// True if all stages are in one visit.
    #[must_use]
    pub const fn are_merged(&self) -> bool {
        self.stages == 1
    }

    /// Takes the dummy cycles of `stages` for `pkts` packets.
    #[inline]
    pub(crate) fn stall(&self, stages: Range<usize>, pkts: usize) {
        let cycles: u32 = self.dummy_cycles.get(stages).unwrap_or_default().iter().sum();
        if cycles > 0 {
            stall(u64::from(cycles) * pkts as u64);
        }
    }
}

/// Takes about `cycles` cycles: a chain of multiplications, each of which waits for the one before.
#[cold]
fn stall(cycles: u64) {
    const MULTIPLICATION: u64 = 3;
    let mut product = black_box(3_u64);
    for _ in 0..cycles / MULTIPLICATION {
        product = product.wrapping_mul(product);
    }
    black_box(product);
}

/// The number of a queue.
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
        assert_eq!([0, 1, 2, 3].map(|flow| queues.tx_of(flow)), [5, 6, 7, 5]);
        let position = |queue| {
            let tag = EventTag::new(queue, ScheduleType::Atomic, 0, 0);
            queues.queue_of_tag(tag).map(PacketQueue::position)
        };
        assert_eq!((queues.timer_of(1), position(4), position(8)), (9, Some(4), None));
        assert_eq!((queues.behind(0), queues.behind(1), queues.behind(4)), (0..0, 0..1, 3..4));
        assert_eq!(queues.after(ENFORCE).map(|queue| queue.number), Some(3));
        assert_eq!((queues.queue_of(CLASSIFY).number, queues.after(PREPARE)), (1, None));
    }
}
