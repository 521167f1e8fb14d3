//! `[datapath.eventdev]`: the event scheduler of `model = "eventdev"`.

use adit_datapath::{EventQueues, QueuesError, STAGES};
use adit_dpdk::EventDriver;
use adit_pktio::ScheduleType;

use super::fields::names_twice;
use super::placement::DistributorCpus;
use super::section::ConfigSection;

/// Most events that `event_sw` has in flight.
const SW_EVENTS_MAX: u32 = 4096;

/// Settings of the event scheduler and of the threads that receive and transmit for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EventSettings {
    pub driver: EventDriver,
    /// CPU core of the central scheduler.
    pub scheduler_core: Option<u16>,
    /// CPU core of each thread that receives and transmits.
    pub rx_tx: Vec<u16>,
    pub flows: u32,
    pub events_max: u32,
    pub new_event_threshold: u32,
    pub dequeue_depth: u16,
    pub enqueue_depth: u16,
    /// Arguments of the driver.
    pub arguments: String,
    /// The queues of the scheduler, and the stages of workers.
    pub queues: EventQueues,
}

/// Most queues of `event_dsw`. DPDK: `DSW_MAX_QUEUES`.
const DSW_QUEUES_MAX: usize = 16;

/// Reads the table. `most` threads may receive and transmit for `workers`. `planned`: the CPUs that it does not list then.
pub(super) fn read_eventdev(
    mut section: ConfigSection<'_, '_>,
    workers: usize,
    most: usize,
    planned: Option<DistributorCpus>,
) -> EventSettings {
    let kinds = [("dsw", EventDriver::Dsw), ("sw", EventDriver::Sw)];
    let driver =
        section.choice("scheduler", &kinds, Some(EventDriver::Dsw)).unwrap_or(EventDriver::Dsw);
    let (rx_tx, scheduler_core) = match planned {
        Some(DistributorCpus { receivers, scheduler }) => {
            ["rx_tx", "scheduler_core"].into_iter().for_each(|key| section.skip(key));
            (receivers, scheduler)
        }
        None => {
            let rx_tx = read_rx_tx(&mut section, most);
            (rx_tx, section.integer_optional("scheduler_core", 0..=1023u16))
        }
    };
    let is_central = driver == EventDriver::Sw;
    if is_central && scheduler_core.is_none() {
        section
            .problem("scheduler_core", "is required: scheduler = \"sw\" runs on a core of its own");
    }
    if !is_central && scheduler_core.is_some() {
        section.problem(
            "scheduler_core",
            "is for scheduler = \"sw\"; \"dsw\" runs on the other cores",
        );
    }
    let flows = section.integer("flows", 64..=16_384u32, Some(512));
    if !flows.is_power_of_two() {
        section.problem("flows", "takes a power of two");
    }
    let most_events = if is_central { SW_EVENTS_MAX } else { 1 << 20 };
    let events_max = section.integer("events_max", 256..=most_events, Some(SW_EVENTS_MAX));
    // Room for frames that workers send while no more arrives.
    let threshold = section.integer("new_event_threshold", 64..=most_events, Some(events_max / 2));
    if threshold > events_max / 2 {
        let what = "takes at most half of events_max: the rest is for the frames that workers send";
        section.problem("new_event_threshold", what);
    }
    let dequeue_depth = section.integer("dequeue_depth", 1..=64u16, Some(32));
    let enqueue_depth = section.integer("enqueue_depth", 1..=64u16, Some(32));
    let quanta = ["sched_quanta", "credit_quanta"].map(|key| {
        let value = section.integer_optional(key, 1..=4096u32);
        if value.is_some() && !is_central {
            section.problem(key, "is for scheduler = \"sw\"; \"dsw\" has no quanta");
        }
        value.map(|value| format!("{key}={value}"))
    });
    let queues = read_queues(&mut section, is_central, rx_tx.len(), workers);
    section.finish();
    let arguments = quanta.into_iter().flatten().collect::<Vec<_>>().join(",");
    EventSettings {
        driver,
        scheduler_core,
        rx_tx,
        flows,
        events_max,
        new_event_threshold: threshold,
        dequeue_depth,
        enqueue_depth,
        arguments,
        queues,
    }
}

/// Reads the cores of the threads that receive and transmit.
fn read_rx_tx(section: &mut ConfigSection<'_, '_>, most: usize) -> Vec<u16> {
    let is_given = section.has("rx_tx");
    let rx_tx: Vec<u16> = section.integers("rx_tx", 0..=1023);
    if is_given && (rx_tx.is_empty() || rx_tx.len() > most) {
        let what =
            format!("takes 1 to {most} CPU cores, one for each thread that receives and transmits");
        section.problem("rx_tx", what);
    } else if names_twice(&rx_tx) {
        section.problem("rx_tx", "names a CPU core twice; each thread needs its own");
    }
    rx_tx
}

/// Reads the queues.
fn read_queues(
    section: &mut ConfigSection<'_, '_>,
    is_central: bool,
    rx_tx: usize,
    workers: usize,
) -> EventQueues {
    let stages = section.integer("stages", 1..=4_u32, Some(1));
    let is_divisor = matches!(stages, 1 | 2 | 4);
    let kinds = [
        ("atomic", ScheduleType::Atomic),
        ("ordered", ScheduleType::Ordered),
        ("parallel", ScheduleType::Parallel),
    ];
    let is_offered = |schedule| is_central || schedule != ScheduleType::Ordered;
    let not_ordered =
        "takes \"ordered\" only with scheduler = \"sw\": \"dsw\" has no ordered queues";
    let rx_kinds = kinds.map(|(name, schedule)| (name, Some(schedule)));
    let rx_kinds = [rx_kinds[0], rx_kinds[1], rx_kinds[2], ("none", None)];
    let rx = section.choice("rx_queue", &rx_kinds, Some(None)).flatten();
    if !rx.is_none_or(is_offered) {
        section.problem("rx_queue", not_ordered);
    }
    let timers = match section.boolean_optional("timer_queue") {
        Some(true) => workers,
        _ => 0,
    };
    let schedules = if is_divisor {
        let count = usize::try_from(stages).unwrap_or(1);
        let schedules = section.choice_each("schedule", &kinds, ScheduleType::Atomic, count);
        if !schedules.iter().copied().all(is_offered) {
            section.problem("schedule", not_ordered);
        }
        schedules
    } else {
        section.problem("stages", "takes 1, 2 or 4: the stages merge by halves");
        section.skip("schedule");
        vec![ScheduleType::Atomic]
    };
    let cycles: Vec<u32> = match section.has("dummy_cycles") {
        true => section.integers("dummy_cycles", 0..=1_000_000),
        false => vec![0; STAGES],
    };
    let dummy_cycles = cycles.try_into().unwrap_or_else(|_| {
        section.problem("dummy_cycles", "takes a list of 4 numbers, one for each stage");
        [0; STAGES]
    });
    let queues = EventQueues::new(&schedules, dummy_cycles).unwrap_or_else(|error| {
        let what = match error {
            QueuesError::Queues => "takes one type for all stages, or a list with one for each",
            QueuesError::NotAtomic => {
                "takes \"atomic\" for the stage that enforces and accounts: it has the state of sessions"
            }
        };
        section.problem("schedule", what);
        EventQueues::default()
    });
    let queues = queues.with_rx(rx).with_tx(rx_tx).with_timers(timers);
    let count = queues.count();
    if !is_central && count > DSW_QUEUES_MAX {
        let what = format!(
            "\"dsw\" has {DSW_QUEUES_MAX} queues, but stages, Rx queue, {rx_tx} Rx/Tx threads and timers \
             of workers take {count}; leave some out, or take scheduler = \"sw\""
        );
        section.problem("scheduler", what);
    }
    queues
}
