//! `[datapath.eventdev]`: the event scheduler of `model = "eventdev"`.

use adit_datapath::{EventQueues, QueuesError, STAGES};
use adit_dpdk::EventDriver;
use adit_pktio::ScheduleType;
use adit_types::limits::WORKERS_MAX;

use super::comparison::PACKET_PATH;
use super::cpus::{CpuKey, Cpus, DistributorCpus, OtherCores, PerItem, per_item};
use super::declare::section;
use super::keys::IntoKey as _;
use super::kinds::{Flag, Words, integer, words};
use super::section::ConfigDocument;

/// Maximum of events that `event_sw` has in flight.
const SW_EVENTS_MAX: u32 = 4096;

/// Maximum of events of a scheduler.
const EVENTS_MAX: u32 = 1 << 20;

/// Maximum of queues of `event_dsw`. DPDK: `DSW_MAX_QUEUES`.
const DSW_QUEUES_MAX: usize = 16;

const SCHEDULES: Words<ScheduleType> = words(&[
    ("atomic", ScheduleType::Atomic),
    ("ordered", ScheduleType::Ordered),
    ("parallel", ScheduleType::Parallel),
]);

section! {
    /// The event scheduler of model = "eventdev". It gives the packets of a session to one worker
    /// at a time, and moves sessions between workers as their load changes.
    EventSection(PACKET_PATH) {
        /// "dsw" runs on the cores of the other threads; "sw" needs one of its own, scheduler_core.
        driver: EventDriver = "scheduler", words(&[("dsw", EventDriver::Dsw),
            ("sw", EventDriver::Sw)]).or(EventDriver::Dsw);
        /// CPU cores of the threads that receive and transmit.
        rx_tx: Option<CpuKey>, Cpus.optional("those of the plan") => ["[2]"];
        /// CPU core of scheduler = "sw". Not with a plan.
        scheduler_core: Option<u16>, integer(0..=1023).optional("none") => ["# 3"];
        /// Sessions are divided into flows, a power of two.
        flows: u32, integer(64..=16_384).or(512) => [];
        /// Packets that are with the scheduler at most; 4096 at most with "sw".
        events_max: u32, integer(256..=EVENTS_MAX).or(SW_EVENTS_MAX) => [];
        /// Receiving stops while this many packets are with the scheduler.
        new_event_threshold: u32, integer(64..=EVENTS_MAX).or_follows(0, "half of events_max")
            => ["2048"];
        /// Packets that a thread takes from the scheduler at once.
        dequeue_depth: u16, integer(1..=64).or(32) => [];
        /// Packets that a thread gives to the scheduler at once.
        enqueue_depth: u16, integer(1..=64).or(32) => [];
        /// Queues of the stages (classify, enforce and account, apply, prepare to transmit): 1 for
        /// all together, which is the fastest, 2 or 4.
        stages: u32, integer(1..=4).or(1) => [];
        /// The type of each queue, or one for all: "atomic"; "ordered", with "sw", in which workers
        /// share the packets of a session and keep their order; or "parallel", which gives up the
        /// order. The stage that enforces and accounts is atomic.
        schedule: PerItem<ScheduleType>, per_item(SCHEDULES).or(PerItem::One(ScheduleType::Atomic))
            => [];
        /// Dummy cycles per packet of each stage, for comparisons.
        dummy_cycles: Vec<u32>, integer(0..=1_000_000).list("none") => ["[0, 0, 0, 0]"];
        /// A queue before the stages: workers look up the sessions of packets, instead of the
        /// threads that receive. "none", or "atomic", "ordered" or "parallel".
        rx_queue: Option<ScheduleType>, words(&[("atomic", Some(ScheduleType::Atomic)),
            ("ordered", Some(ScheduleType::Ordered)), ("parallel", Some(ScheduleType::Parallel)),
            ("none", None)]).or(None) => [];
        /// Each worker gets events when packets that wait for rates, neighbors or ports may be due.
        /// false: it looks in every step.
        timer_queue: bool, Flag.or(false) => [];
        /// DPDK's sched_quanta of scheduler = "sw".
        sched_quanta: Option<u32>, integer(1..=4096).optional("that of DPDK") => ["# 128"];
        /// DPDK's credit_quanta of scheduler = "sw".
        credit_quanta: Option<u32>, integer(1..=4096).optional("that of DPDK") => ["# 32"];
    }
}

/// Settings of the event scheduler and of the threads that receive and transmit for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EventSettings {
    keys: EventSection,
    /// CPU core of each thread that receives and transmits.
    pub rx_tx: Vec<u16>,
    /// Arguments of the scheduler's driver.
    pub arguments: String,
    /// The queues of the scheduler, and the stages of workers.
    pub queues: EventQueues,
}

impl std::ops::Deref for EventSettings {
    type Target = EventSection;

    fn deref(&self) -> &EventSection {
        &self.keys
    }
}

impl EventSection {
    /// Checks the section and returns its settings; `workers` is the number of workers. Stores the
    /// CPUs of a plan in the section.
    pub(super) fn settings(
        &mut self,
        document: &ConfigDocument<'_>,
        workers: usize,
        planned: Option<DistributorCpus>,
    ) -> EventSettings {
        if let Some(planned) = &planned {
            self.scheduler_core = planned.scheduler;
        }
        let rx_tx = CpuKey::resolve(&mut self.rx_tx, planned.map(|planned| planned.receivers));
        let most = WORKERS_MAX.saturating_sub(workers);
        let (path, thread) = ("datapath.eventdev.rx_tx", "thread");
        OtherCores { path, most, thread, does: "receives and transmits" }.check(document, &rx_tx);
        if self.new_event_threshold == 0 {
            self.new_event_threshold = self.events_max / 2;
        }
        if !document.has("datapath.eventdev.dummy_cycles") {
            self.dummy_cycles = vec![0; STAGES];
        }
        self.check(document);
        let queues = self.queues(document, rx_tx.len(), workers);
        let quanta = [("sched_quanta", self.sched_quanta), ("credit_quanta", self.credit_quanta)];
        let argument = |(key, value): (&str, Option<u32>)| Some(format!("{key}={}", value?));
        let arguments = quanta.into_iter().filter_map(argument).collect::<Vec<_>>().join(",");
        EventSettings { keys: self.clone(), rx_tx, arguments, queues }
    }

    /// True if the scheduler has a core of its own.
    pub(super) fn is_central(&self) -> bool {
        self.driver == EventDriver::Sw
    }

    fn check(&self, document: &ConfigDocument<'_>) {
        let problem = |key: &str, what: &str| {
            document.problem(&format!("datapath.eventdev.{key}"), what);
        };
        if self.is_central() {
            if self.scheduler_core.is_none() {
                let what = "is required: scheduler = \"sw\" runs on a core of its own";
                problem("scheduler_core", what);
            }
            for (key, events) in
                [("events_max", self.events_max), ("new_event_threshold", self.new_event_threshold)]
            {
                if events > SW_EVENTS_MAX {
                    let low = if key == "events_max" { 256 } else { 64 };
                    problem(key, &integer(low..=SW_EVENTS_MAX).refusal());
                }
            }
        } else {
            let what = "is for scheduler = \"sw\"; \"dsw\" runs on the other cores";
            document.refuse("datapath.eventdev", &["scheduler_core"], what);
            let what = "is for scheduler = \"sw\"; \"dsw\" has no quanta";
            document.refuse("datapath.eventdev", &["sched_quanta", "credit_quanta"], what);
        }
        if !self.flows.is_power_of_two() {
            problem("flows", "takes a power of two");
        }
        // The rest is room for frames that workers send while receiving is stopped.
        if self.new_event_threshold > self.events_max / 2 {
            let what =
                "takes at most half of events_max: the rest is for the frames that workers send";
            problem("new_event_threshold", what);
        }
    }

    /// Checks the keys of queues, and returns the queues.
    fn queues(&self, document: &ConfigDocument<'_>, rx_tx: usize, workers: usize) -> EventQueues {
        let problem = |key: &str, what: &str| {
            document.problem(&format!("datapath.eventdev.{key}"), what);
        };
        let is_offered = |schedule| self.is_central() || schedule != ScheduleType::Ordered;
        let not_ordered =
            "takes \"ordered\" only with scheduler = \"sw\": \"dsw\" has no ordered queues";
        if !self.rx_queue.is_none_or(is_offered) {
            problem("rx_queue", not_ordered);
        }
        let stages = usize::try_from(self.stages).unwrap_or(1);
        let schedules = match self.schedule.of(stages) {
            _ if stages == 3 => {
                problem("stages", "takes 1, 2 or 4: the stages merge by halves");
                vec![ScheduleType::Atomic]
            }
            Some(schedules) => schedules,
            None => {
                problem("schedule", &per_item(SCHEDULES).refusal(Some(stages)));
                vec![ScheduleType::Atomic; stages]
            }
        };
        if !schedules.iter().copied().all(is_offered) {
            problem("schedule", not_ordered);
        }
        let dummy_cycles = self.dummy_cycles.clone().try_into().unwrap_or_else(|_| {
            problem("dummy_cycles", "takes a list of 4 numbers, one for each stage");
            [0; STAGES]
        });
        let queues = EventQueues::new(&schedules, dummy_cycles).unwrap_or_else(|error| {
            let what = match error {
                QueuesError::Queues => "takes one type for all stages, or a list with one for each",
                QueuesError::NotAtomic => {
                    "takes \"atomic\" for the stage that enforces and accounts: it has the state of sessions"
                }
            };
            problem("schedule", what);
            EventQueues::default()
        });
        let timers = if self.timer_queue { workers } else { 0 };
        let queues = queues.with_rx(self.rx_queue).with_tx(rx_tx).with_timers(timers);
        let count = queues.count();
        if !self.is_central() && count > DSW_QUEUES_MAX {
            let what = format!(
                "\"dsw\" has {DSW_QUEUES_MAX} queues, but stages, Rx queue, {rx_tx} Rx/Tx threads and timers \
                 of workers take {count}; leave some out, or take scheduler = \"sw\""
            );
            problem("scheduler", &what);
        }
        queues
    }
}
