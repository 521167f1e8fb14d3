//! The event scheduler of `model = "eventdev"`: its device, and the thread of a central scheduler
//! (one in software, which moves events only while a thread runs it).

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use adit_datapath::SharedFlows;
use adit_dpdk::{
    Eal, EventDevice, EventDeviceConfig, EventDriver, EventPortConfig, EventQueueConfig,
    EventScheduler, OpenEventDevice, SchedulerPort,
};
use adit_types::Role;
use anyhow::Context;

use crate::config::{DatapathSettings, ModelSettings};
use crate::threads::exit_barrier::ExitBarriers;
use crate::threads::lifecycle::Lifecycle;

/// Most iterations of a central scheduler after all threads stopped, so that packets in flight
/// reach the threads, which drop and count them.
const LAST_ITERATIONS_MAX: usize = 10_000;
/// Longest time for the [`LAST_ITERATIONS_MAX`]: if other processes share the core,
/// each iteration may cost the scheduler a time slice.
const LAST_ITERATIONS_TIME_MAX: Duration = Duration::from_secs(1);

/// Parts that the threads of an event-driven packet path need; empty in other models.
pub(crate) struct EventThreads {
    /// The device, for its statistics.
    pub device: Option<EventDevice>,
    /// For each thread its port, and the flows that all threads share.
    pub ports: Vec<(SchedulerPort, SharedFlows)>,
    /// The scheduler, if it is central: a thread must run it.
    pub scheduler: Option<EventScheduler>,
}

/// Opens the event device that the configuration describes.
pub(crate) fn open(
    eal: &Eal,
    datapath: &DatapathSettings,
    sessions_max: usize,
) -> anyhow::Result<EventThreads> {
    let ModelSettings::EventDriven(settings) = &datapath.model else {
        return Ok(EventThreads { device: None, ports: Vec::new(), scheduler: None });
    };
    let roles = datapath.roles();
    let mut arguments = settings.arguments.clone();
    if let (EventDriver::Sw, Some(node)) = (settings.driver, eal.memory_node()) {
        arguments = format!("numa_node={node},{arguments}").trim_end_matches(',').to_owned();
    }
    let port = |(role, queues)| EventPortConfig {
        new_event_threshold: match role {
            Role::RxTx => settings.new_event_threshold,
            // Workers enqueue frames of packets that had waited as new events, which must never be
            // refused.
            _ => settings.events_max,
        },
        dequeue_depth: settings.dequeue_depth,
        enqueue_depth: settings.enqueue_depth,
        queues,
    };
    let queue = |(schedule, priority)| EventQueueConfig { schedule, priority };
    let config = EventDeviceConfig {
        driver: settings.driver,
        arguments: &arguments,
        flows: settings.flows,
        events_max: settings.events_max,
        queues: settings.queues.schedules().zip(settings.queues.priorities()).map(queue).collect(),
        ports: roles.all().zip(settings.queues.links(roles)).map(port).collect(),
    };
    let OpenEventDevice { device, ports, scheduler } =
        EventDevice::open(eal, 0, &config).context("datapath.eventdev")?;
    let count = usize::try_from(settings.flows).unwrap_or(usize::MAX);
    let flows = SharedFlows::new(count, &settings.queues, sessions_max);
    let ports = ports.into_iter().map(|port| (port, flows.clone())).collect();
    Ok(EventThreads { device: Some(device), ports, scheduler })
}

/// Returns the body of the thread that runs a central scheduler.
pub(crate) fn scheduler_thread_body(
    eal: &Eal,
    lifecycle: &Lifecycle,
    exit: &ExitBarriers,
    mut scheduler: EventScheduler,
    datapath: &DatapathSettings,
) -> anyhow::Result<impl FnOnce() -> anyhow::Result<()> + Send + use<>> {
    let core = datapath.scheduler_core().context("a scheduler without a core")?;
    let shares_core = datapath.shares_core(core);
    let (eal, lifecycle, inside, drains) =
        (eal.clone(), lifecycle.clone(), exit.stopped.join(), exit.drained.join());
    Ok(move || {
        adit_dpdk::pin_current_thread(core)?;
        let registered = adit_dpdk::register_thread(&eal)?;
        lifecycle.gate.pass();
        while !lifecycle.stop.load(Ordering::Relaxed) {
            scheduler.run();
            if shares_core {
                std::thread::yield_now();
            }
        }
        inside.wait_for_all();
        let end = Instant::now() + LAST_ITERATIONS_TIME_MAX;
        for _ in 0..LAST_ITERATIONS_MAX {
            if Instant::now() >= end {
                break;
            }
            scheduler.run();
            if shares_core {
                std::thread::yield_now();
            }
        }
        drop((drains, scheduler));
        drop(registered);
        Ok(())
    })
}
