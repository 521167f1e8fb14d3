//! The queues of the event-driven model, and the stages behind them.

use core::hint::black_box;
use core::ops::Range;

use adit_pktio::{EventTag, ScheduleType};

/// How many stages there are.
pub const STAGES: usize = 4;

/// The queue of frames that leave; its flows are ports.
pub const TX_QUEUE: u8 = 0;

/// The queue of the first stage; those of later ones follow.
const FIRST_QUEUE: u8 = 1;

/// The numbers of stages.
pub(crate) const CLASSIFY: usize = 0;
pub(crate) const ENFORCE: usize = 1;
pub(crate) const APPLY: usize = 2;
pub(crate) const PREPARE: usize = 3;

/// The stages, and the queues in front of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventStages {
    queues: usize,
    schedules: [ScheduleType; STAGES],
    dummy_cycles: [u32; STAGES],
}

/// A queue of stages, and how its flows are scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageQueue {
    /// Its number.
    pub number: u8,
    /// How its flows are scheduled.
    pub schedule: ScheduleType,
}

impl StageQueue {
    /// The tag of an event of a flow for this queue.
    #[inline]
    pub(crate) const fn tag(self, flow: u32, note: u8) -> EventTag {
        EventTag::new(self.number, self.schedule, flow, note)
    }

    /// Its position among the queues of stages.
    #[inline]
    pub(crate) const fn position(self) -> usize {
        self.number.saturating_sub(FIRST_QUEUE) as usize
    }
}

/// A number of queues, or their schedule types, that the stages cannot have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StagesError {
    /// The number of queues is none of 1, 2 and 4.
    Queues,
    /// The second stage is not atomic, although it has state of sessions.
    NotAtomic,
}

impl Default for EventStages {
    /// All stages in one visit.
    fn default() -> Self {
        Self { queues: 1, schedules: [ScheduleType::Atomic; STAGES], dummy_cycles: [0; STAGES] }
    }
}

impl EventStages {
    /// Stages behind as many queues as `schedules` has: 1, 2 or 4. Each stage of a packet takes `dummy_cycles` more, about.
    ///
    /// # Errors
    /// See [`StagesError`].
    pub fn new(
        schedules: &[ScheduleType],
        dummy_cycles: [u32; STAGES],
    ) -> Result<Self, StagesError> {
        let queues = schedules.len();
        if !matches!(queues, 1 | 2 | 4) {
            return Err(StagesError::Queues);
        }
        let mut stages = Self { queues, dummy_cycles, ..Self::default() };
        for (own, schedule) in stages.schedules.iter_mut().zip(schedules) {
            *own = *schedule;
        }
        match stages.queue_of(ENFORCE).schedule {
            ScheduleType::Atomic => Ok(stages),
            ScheduleType::Ordered | ScheduleType::Parallel => Err(StagesError::NotAtomic),
        }
    }

    /// The queues of stages, in order.
    pub fn queues(&self) -> impl Iterator<Item = StageQueue> + use<> {
        let queue = |(number, schedule)| StageQueue { number, schedule };
        (FIRST_QUEUE..).zip(self.schedules).take(self.queues).map(queue)
    }

    /// The queue at a position among those of stages.
    #[inline]
    pub(crate) fn queue_at(&self, position: usize) -> StageQueue {
        let schedule = self.schedules.get(position).copied().unwrap_or(ScheduleType::Atomic);
        StageQueue { number: FIRST_QUEUE.saturating_add(position.to_le_bytes()[0]), schedule }
    }

    /// The queue in front of a stage.
    #[inline]
    pub(crate) fn queue_of(&self, stage: usize) -> StageQueue {
        self.queue_at(stage * self.queues / STAGES)
    }

    /// The queue after a stage, if another one follows: packets of sessions go there.
    pub(crate) fn after(&self, stage: usize) -> Option<StageQueue> {
        let own = self.queue_of(stage);
        let mut later = (stage + 1..STAGES).map(|stage| self.queue_of(stage));
        later.find(|queue| queue.number != own.number)
    }

    /// The position of a queue among those of stages.
    #[inline]
    pub(crate) fn position_of(queue: u8) -> usize {
        usize::from(queue.saturating_sub(FIRST_QUEUE))
    }

    /// The stages behind the queue at a position.
    pub(crate) fn behind(&self, position: usize) -> Range<usize> {
        let each = STAGES / self.queues.max(1);
        let first = position * each;
        first..first + each
    }

    /// True if all stages are in one visit.
    pub(crate) const fn are_merged(&self) -> bool {
        self.queues == 1
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
