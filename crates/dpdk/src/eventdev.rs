//! Event devices: DPDK's schedulers, which distribute packets to cores.
//!
//! `event_sw` schedules centrally, on the thread that calls [`EventScheduler::run`]; `event_dsw`
//! schedules in the port calls of each thread. Events own their packets. When the last handle is
//! dropped, the packets of events in flight return to their pool.

use core::cell::Cell;
use core::ffi::{CStr, c_char, c_void};
use core::marker::PhantomData;
use core::mem::{MaybeUninit, offset_of};
use core::ptr::NonNull;
use std::ffi::CString;
use std::sync::Arc;

use adit_dpdk_sys as sys;
use adit_pktio::{
    Event, EventBurst, EventOperation, EventPort, EventPortCounts, PacketBuf, ScheduleType,
};

use crate::eal::Eal;
use crate::errno::Errno;
use crate::log;
use crate::mbuf::Mbuf;

// DPDK reads `Event`s directly: a tag, then the pointer of the packet or null.
const _: () = assert!(size_of::<Event<Mbuf>>() == size_of::<sys::rte_event>());
const _: () = assert!(align_of::<Event<Mbuf>>() == align_of::<sys::rte_event>());
const _: () = assert!(offset_of!(Event<Mbuf>, buf) == 8);
const _: () = assert!(size_of::<Option<Mbuf>>() == size_of::<*mut sys::rte_mbuf>());
const _: () = assert!(EventOperation::New as u32 == sys::RTE_EVENT_OP_NEW);
const _: () = assert!(EventOperation::Forward as u32 == sys::RTE_EVENT_OP_FORWARD);
const _: () = assert!(EventOperation::Release as u32 == sys::RTE_EVENT_OP_RELEASE);

/// Maximum number of credits that a port of `event_dsw` keeps. DPDK: `DSW_PORT_MAX_CREDITS`.
const DSW_PORT_CREDITS_MAX: u32 = 1024;

/// The driver of an event device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventDriver {
    /// `event_sw`: a central scheduler.
    Sw,
    /// `event_dsw`: a scheduler that is distributed over the ports.
    Dsw,
}

impl EventDriver {
    /// Returns the driver's name in DPDK.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sw => "event_sw",
            Self::Dsw => "event_dsw",
        }
    }
}

/// One queue of an event device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventQueueConfig {
    /// The order in which events of one flow are processed.
    pub schedule: ScheduleType,
    /// The scheduler serves queues with a lower value first. `event_dsw` ignores it.
    pub priority: u8,
}

/// One port of an event device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPortConfig {
    /// The port's new events are refused while more than this many events are in flight. Reduced to
    /// the device's limit. `event_dsw` may accept up to 1024 more per port: it counts the credits
    /// that ports keep as events.
    pub new_event_threshold: u32,
    /// Maximum number of events per dequeue. Reduced to the device's limit.
    pub dequeue_depth: u16,
    /// Maximum number of events per enqueue. Reduced to the device's limit.
    pub enqueue_depth: u16,
    /// Indexes of the queues from which the port dequeues.
    pub queues: Vec<u8>,
}

/// Configuration of an event device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventDeviceConfig<'a> {
    /// The scheduler.
    pub driver: EventDriver,
    /// Arguments of the driver, such as `sched_quanta=64,credit_quanta=32`.
    pub arguments: &'a str,
    /// Number of flows per queue.
    pub flows: u32,
    /// Maximum number of events in flight. Reduced to the device's limit. `event_dsw` may accept up
    /// to 1024 more per port.
    pub events_max: u32,
    /// The queues, by index.
    pub queues: Vec<EventQueueConfig>,
    /// The ports, by index.
    pub ports: Vec<EventPortConfig>,
}

/// The reason why an event device could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventDeviceError {
    /// The arguments contain a NUL.
    #[error("the arguments {0:?} of the event device contain a NUL character")]
    Arguments(String),
    /// The device has fewer queues, ports or flows than are configured.
    #[error("{driver} offers {most} {what}, but {wanted} are configured")]
    TooMany {
        /// The driver.
        driver: &'static str,
        /// The kind of resource that is too scarce.
        what: &'static str,
        /// How many the device offers.
        most: u32,
        /// How many are configured.
        wanted: u32,
    },
    /// No port is linked to the queue: its events would never be dequeued, and `event_dsw` would
    /// divide by zero.
    #[error("no port of {driver} takes events from queue {queue}")]
    UnlinkedQueue {
        /// The driver.
        driver: &'static str,
        /// The queue.
        queue: usize,
    },
    /// DPDK refused.
    #[error("{driver} refused to {step}: {errno}{}", log::log_tail(log))]
    Refused {
        /// The driver.
        driver: &'static str,
        /// The failed step.
        step: &'static str,
        /// DPDK's reason.
        errno: Errno,
        /// DPDK's own log lines.
        log: String,
    },
}

/// A running event device, of which the statistics can be read; a cheap handle to share.
#[derive(Debug, Clone)]
pub struct EventDevice {
    started: Arc<StartedDevice>,
}

/// An open event device. Drop stops it, frees the packets in flight, and removes it.
#[derive(Debug)]
struct StartedDevice {
    id: u8,
    name: CString,
    driver: EventDriver,
    ports: u8,
    queues: u8,
    is_started: bool,
    _eal: Eal,
}

/// One port of a running event device.
///
/// Invariant: the only handle on this port, which may move between threads but is used by one at a
/// time. The device runs as long as the handle lives.
#[derive(Debug)]
pub struct SchedulerPort {
    _device: Arc<StartedDevice>,
    id: u8,
    port: u8,
    dequeue_depth: u16,
    /// True if the driver keeps events until `rte_event_maintain` is called. With other drivers it
    /// must not be called: DPDK may still have the function of a former device with the same id.
    keeps_events: bool,
    counts: EventPortCounts,
    not_sync: PhantomData<Cell<u8>>,
}

/// The handle that runs a central scheduler, on one thread at a time.
#[derive(Debug)]
pub struct EventScheduler {
    _device: Arc<StartedDevice>,
    service: u32,
    not_sync: PhantomData<Cell<u8>>,
}

/// The result of [`EventDevice::open`].
#[derive(Debug)]
pub struct OpenEventDevice {
    /// The device.
    pub device: EventDevice,
    /// Ports of the device, by index.
    pub ports: Vec<SchedulerPort>,
    /// Scheduler of the device if it is a central one: no event moves unless a thread runs it.
    pub scheduler: Option<EventScheduler>,
}

/// One statistic of an event device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventStat {
    /// DPDK's name of the statistic.
    pub name: String,
    /// Value of the statistic.
    pub value: u64,
}

impl EventDevice {
    /// Opens, configures and starts an event device. `instance` makes its name unique in the
    /// process.
    ///
    /// # Errors
    /// See [`EventDeviceError`].
    pub fn open(
        eal: &Eal,
        instance: u8,
        config: &EventDeviceConfig<'_>,
    ) -> Result<OpenEventDevice, EventDeviceError> {
        let (opened, text) = log::capture(|| open(eal, instance, config));
        match opened {
            Ok(opened) => {
                log::print_log(&text);
                Ok(opened)
            }
            Err(EventDeviceError::Refused { driver, step, errno, .. }) => {
                Err(EventDeviceError::Refused { driver, step, errno, log: text })
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the statistics of the device, then of its ports, then of its queues.
    #[must_use]
    pub fn stats(&self) -> Vec<EventStat> {
        use sys::rte_event_dev_xstats_mode as mode;
        let StartedDevice { id, ports, queues, .. } = *self.started;
        let mut stats = read_stats(id, mode::RTE_EVENT_DEV_XSTATS_DEVICE, 0);
        let each = |count, mode| (0..count).flat_map(move |at| read_stats(id, mode, at));
        stats.extend(each(ports, mode::RTE_EVENT_DEV_XSTATS_PORT));
        stats.extend(each(queues, mode::RTE_EVENT_DEV_XSTATS_QUEUE));
        stats
    }
}

fn open(
    eal: &Eal,
    instance: u8,
    config: &EventDeviceConfig<'_>,
) -> Result<OpenEventDevice, EventDeviceError> {
    let driver = config.driver;
    let refused = |step| {
        move |errno| EventDeviceError::Refused {
            driver: driver.name(),
            step,
            errno,
            log: String::new(),
        }
    };
    let arguments = CString::new(config.arguments)
        .map_err(|_| EventDeviceError::Arguments(config.arguments.to_owned()))?;
    let name = CString::new(format!("{}{instance}", driver.name()))
        .unwrap_or_else(|_| unreachable!("a driver's name has no NUL"));
    add_device(&name, &arguments).map_err(refused("start"))?;
    // SAFETY: `name` is a C string.
    let number = unsafe { sys::rte_event_dev_get_dev_id(name.as_ptr()) };
    let Ok(id) = u8::try_from(number) else {
        remove_device(&name);
        return Err(refused("start")(Errno::of_return(number)));
    };
    let count = |len: usize| u8::try_from(len).unwrap_or(u8::MAX);
    let mut device = StartedDevice {
        id,
        name,
        driver,
        ports: count(config.ports.len()),
        queues: count(config.queues.len()),
        is_started: false,
        _eal: eal.clone(),
    };
    let limits = device.info().map_err(refused("describe itself"))?;
    check_limits(driver, &limits, config)?;
    device.configure(&limits, config).map_err(refused("be configured"))?;
    let flow_count = config.flows;
    for (queue, conf) in (0..).zip(&config.queues) {
        device.set_up_queue(queue, *conf, flow_count).map_err(refused("set up a queue"))?;
    }
    for (port, conf) in (0..).zip(&config.ports) {
        device.set_up_port(port, conf, &limits).map_err(refused("set up a port"))?;
        device.link(port, &conf.queues).map_err(refused("link a port to its queues"))?;
    }
    let service = device.allow_service().map_err(refused("be scheduled by adit"))?;
    device.start().map_err(refused("start"))?;
    let device = Arc::new(device);
    let port = |(port, conf): (u8, &EventPortConfig)| SchedulerPort {
        _device: Arc::clone(&device),
        id,
        port,
        dequeue_depth: clamp_depth(conf.dequeue_depth, limits.max_event_port_dequeue_depth.into()),
        keeps_events: limits.event_dev_cap & sys::RTE_EVENT_DEV_CAP_MAINTENANCE_FREE == 0,
        counts: EventPortCounts::default(),
        not_sync: PhantomData,
    };
    let ports = (0..).zip(&config.ports).map(port).collect();
    let scheduler = service.map(|service| EventScheduler {
        _device: Arc::clone(&device),
        service,
        not_sync: PhantomData,
    });
    Ok(OpenEventDevice { device: EventDevice { started: device }, ports, scheduler })
}

fn check(code: i32) -> Result<(), Errno> {
    if code < 0 { Err(Errno::of_return(code)) } else { Ok(()) }
}

fn add_device(name: &CStr, arguments: &CStr) -> Result<(), Errno> {
    // SAFETY: three C strings, which DPDK copies.
    check(unsafe { sys::rte_eal_hotplug_add(c"vdev".as_ptr(), name.as_ptr(), arguments.as_ptr()) })
}

fn remove_device(name: &CStr) {
    // SAFETY: two C strings.
    unsafe { sys::rte_eal_hotplug_remove(c"vdev".as_ptr(), name.as_ptr()) };
}

fn check_limits(
    driver: EventDriver,
    limits: &sys::rte_event_dev_info,
    config: &EventDeviceConfig<'_>,
) -> Result<(), EventDeviceError> {
    let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
    let scarce = [
        ("queues", u32::from(limits.max_event_queues), count(config.queues.len())),
        ("ports", u32::from(limits.max_event_ports), count(config.ports.len())),
        ("flows per queue", limits.max_event_queue_flows, config.flows),
    ];
    if let Some((what, most, wanted)) = scarce.into_iter().find(|(_, most, wanted)| wanted > most) {
        return Err(EventDeviceError::TooMany { driver: driver.name(), what, most, wanted });
    }
    let is_linked = |queue: &usize| {
        let mut linked = config.ports.iter().flat_map(|port| &port.queues);
        linked.any(|of| usize::from(*of) == *queue)
    };
    match (0..config.queues.len()).find(|queue| !is_linked(queue)) {
        Some(queue) => Err(EventDeviceError::UnlinkedQueue { driver: driver.name(), queue }),
        None => Ok(()),
    }
}

/// Reduces a requested depth to the device's limit; at least one.
fn clamp_depth(wanted: u16, most: u32) -> u16 {
    wanted.clamp(1, u16::try_from(most).unwrap_or(u16::MAX).max(1))
}

impl StartedDevice {
    fn info(&self) -> Result<sys::rte_event_dev_info, Errno> {
        // SAFETY: numbers and pointers only; zero is a value of each.
        let mut info = unsafe { MaybeUninit::zeroed().assume_init() };
        // SAFETY: the device exists; writes one structure.
        check(unsafe { sys::rte_event_dev_info_get(self.id, &raw mut info) })?;
        Ok(info)
    }

    fn configure(
        &self,
        limits: &sys::rte_event_dev_info,
        config: &EventDeviceConfig<'_>,
    ) -> Result<(), Errno> {
        // SAFETY: numbers only.
        let mut conf: sys::rte_event_dev_config = unsafe { MaybeUninit::zeroed().assume_init() };
        conf.dequeue_timeout_ns = limits.min_dequeue_timeout_ns;
        conf.nb_events_limit = events_max(limits, config.events_max + self.kept_credits());
        conf.nb_event_queues = self.queues;
        conf.nb_event_ports = self.ports;
        conf.nb_event_queue_flows = config.flows;
        conf.nb_event_port_dequeue_depth = limits.max_event_port_dequeue_depth.into();
        conf.nb_event_port_enqueue_depth = limits.max_event_port_enqueue_depth;
        // SAFETY: the device exists and is stopped; reads one structure.
        check(unsafe { sys::rte_event_dev_configure(self.id, &raw const conf) })?;
        // SAFETY: the callback lives as long as the process and ignores its argument.
        check(unsafe {
            sys::rte_event_dev_stop_flush_callback_register(
                self.id,
                Some(free_event),
                core::ptr::null_mut(),
            )
        })
    }

    /// Returns how many more events must be allowed in flight for the credits that ports keep:
    /// `event_dsw` counts each kept credit as an event.
    fn kept_credits(&self) -> u32 {
        match self.driver {
            EventDriver::Sw => 0,
            EventDriver::Dsw => u32::from(self.ports) * DSW_PORT_CREDITS_MAX,
        }
    }

    fn set_up_queue(&self, queue: u8, config: EventQueueConfig, flows: u32) -> Result<(), Errno> {
        // SAFETY: numbers only.
        let mut conf: sys::rte_event_queue_conf = unsafe { MaybeUninit::zeroed().assume_init() };
        // SAFETY: the queue is below the number of queues; writes one structure.
        check(unsafe { sys::rte_event_queue_default_conf_get(self.id, queue, &raw mut conf) })?;
        // DPDK's default for either number may exceed the flows of the device.
        conf.nb_atomic_flows = flows;
        conf.nb_atomic_order_sequences = flows;
        conf.event_queue_cfg = 0;
        conf.priority = config.priority;
        conf.schedule_type = schedule_type(config.schedule);
        // SAFETY: the device is configured and stopped; reads one structure.
        check(unsafe { sys::rte_event_queue_setup(self.id, queue, &raw const conf) })
    }

    fn set_up_port(
        &self,
        port: u8,
        config: &EventPortConfig,
        limits: &sys::rte_event_dev_info,
    ) -> Result<(), Errno> {
        // SAFETY: numbers only.
        let mut conf: sys::rte_event_port_conf = unsafe { MaybeUninit::zeroed().assume_init() };
        // SAFETY: the port is below the number of ports; writes one structure.
        check(unsafe { sys::rte_event_port_default_conf_get(self.id, port, &raw mut conf) })?;
        conf.new_event_threshold =
            events_max(limits, config.new_event_threshold + self.kept_credits());
        conf.dequeue_depth =
            clamp_depth(config.dequeue_depth, limits.max_event_port_dequeue_depth.into());
        conf.enqueue_depth = clamp_depth(config.enqueue_depth, limits.max_event_port_enqueue_depth);
        // SAFETY: the device is configured and stopped; reads one structure.
        check(unsafe { sys::rte_event_port_setup(self.id, port, &raw const conf) })
    }

    fn link(&self, port: u8, queues: &[u8]) -> Result<(), Errno> {
        let count = u16::try_from(queues.len()).unwrap_or(u16::MAX);
        if count == 0 {
            return Ok(());
        }
        // SAFETY: the port is set up; reads `count` numbers, and null stands for normal priorities.
        let linked = unsafe {
            sys::rte_event_port_link(self.id, port, queues.as_ptr(), core::ptr::null(), count)
        };
        if linked == i32::from(count) { Ok(()) } else { Err(Errno::last()) }
    }

    /// Allows the service of a central scheduler to run on any registered thread, and returns its
    /// id; `None` for a distributed scheduler.
    fn allow_service(&self) -> Result<Option<u32>, Errno> {
        if self.driver != EventDriver::Sw {
            return Ok(None);
        }
        let mut service = 0;
        // SAFETY: the device exists; writes one number.
        check(unsafe { sys::rte_event_dev_service_id_get(self.id, &raw mut service) })?;
        // SAFETY: `service` is the service of this device.
        check(unsafe { sys::rte_service_runstate_set(service, 1) })?;
        // SAFETY: as above.
        check(unsafe { sys::rte_service_set_runstate_mapped_check(service, 0) })?;
        Ok(Some(service))
    }

    fn start(&mut self) -> Result<(), Errno> {
        // SAFETY: every queue and port is set up.
        check(unsafe { sys::rte_event_dev_start(self.id) })?;
        self.is_started = true;
        Ok(())
    }
}

impl Drop for StartedDevice {
    fn drop(&mut self) {
        if self.is_started {
            // SAFETY: no port is in use: each has a handle on this value.
            unsafe { sys::rte_event_dev_stop(self.id) };
        }
        // SAFETY: the device belongs to this value, and is stopped.
        unsafe { sys::rte_event_dev_close(self.id) };
        remove_device(&self.name);
    }
}

fn events_max(limits: &sys::rte_event_dev_info, wanted: u32) -> i32 {
    let wanted = i32::try_from(wanted).unwrap_or(i32::MAX).max(1);
    // Negative: the device has no limit.
    if limits.max_num_events < 0 { wanted } else { wanted.min(limits.max_num_events) }
}

fn schedule_type(schedule: ScheduleType) -> u8 {
    let code = match schedule {
        ScheduleType::Ordered => sys::RTE_SCHED_TYPE_ORDERED,
        ScheduleType::Atomic => sys::RTE_SCHED_TYPE_ATOMIC,
        ScheduleType::Parallel => sys::RTE_SCHED_TYPE_PARALLEL,
    };
    code.to_le_bytes()[0]
}

/// Frees the packet of an event that was in flight when its device stopped.
extern "C" fn free_event(_device: u8, event: sys::rte_event, _argument: *mut c_void) {
    // SAFETY: every event comes from a `SchedulerPort`, whose events have a packet or null here.
    let packet = unsafe { event.__bindgen_anon_2.mbuf };
    // SAFETY: only this event owned its packet, and the device no longer uses it.
    drop(NonNull::new(packet).map(|raw| unsafe { Mbuf::from_raw(raw) }));
}

impl SchedulerPort {
    /// Returns the index of this port.
    #[must_use]
    pub const fn number(&self) -> u8 {
        self.port
    }

    /// Enqueues events until the device accepts no more, and moves the remaining events to the
    /// front. Returns how many were enqueued.
    fn enqueue_events(&mut self, events: &mut EventBurst<Mbuf>) -> usize {
        let len = events.len();
        let first = events.as_mut_ptr();
        let mut taken = 0;
        while taken < len {
            // SAFETY: `taken < len`, within the burst.
            let next = unsafe { first.add(taken) };
            let count = u16::try_from(len - taken).unwrap_or(u16::MAX);
            // SAFETY: the device runs and this is the only handle on the port; `next` are `count`
            // events, laid out as DPDK's are, whose packets we own.
            let more = unsafe {
                sys::rte_event_enqueue_burst(
                    self.id,
                    self.port,
                    next.cast::<sys::rte_event>(),
                    count,
                )
            };
            // DPDK accepts at most the enqueue depth per call.
            if more == 0 {
                break;
            }
            taken += usize::from(more.min(count));
        }
        // SAFETY: `taken <= len`, within the burst.
        let rest = unsafe { first.add(taken) };
        // SAFETY: moves the refused events over those that the device owns now, within `len`.
        unsafe { core::ptr::copy(rest, first, len - taken) };
        // SAFETY: the first `len - taken` are owned events; the stale ones behind are forgotten.
        unsafe { events.set_len(len - taken) };
        self.counts.enqueued += taken as u64;
        self.counts.refused += (len - taken) as u64;
        taken
    }
}

impl EventPort for SchedulerPort {
    type Buf = Mbuf;

    #[inline]
    fn dequeue(&mut self, limit: usize, events: &mut EventBurst<Mbuf>) -> usize {
        let len = events.len();
        let room = limit.min(events.remaining_capacity()).min(self.dequeue_depth.into());
        let wanted = u16::try_from(room).unwrap_or(u16::MAX);
        // SAFETY: `len <= capacity`, so the sum is at most one past the last element.
        let free = unsafe { events.as_mut_ptr().add(len) };
        // SAFETY: the device runs and this is the only handle on the port; `free` has room for
        // `wanted` events, laid out as DPDK's are. No wait.
        let count = unsafe {
            sys::rte_event_dequeue_burst(
                self.id,
                self.port,
                free.cast::<sys::rte_event>(),
                wanted,
                0,
            )
        };
        let count = usize::from(count);
        // SAFETY: DPDK wrote `count <= wanted` events, which came from a `SchedulerPort` of this
        // device: their packets are owned alone, or null.
        unsafe { events.set_len(len + count) };
        self.counts.dequeued += count as u64;
        for event in &events[len..] {
            event.buf.as_ref().inspect(|packet| packet.prefetch());
        }
        count
    }

    /// Enqueues successors as new events, and leaves it to the next dequeue to end the dequeued
    /// events: a successor that ended its dequeued event would let the scheduler move the flow to
    /// another port before the flow's other successors are enqueued.
    #[inline]
    fn enqueue(&mut self, events: &mut EventBurst<Mbuf>) -> usize {
        self.enqueue_new(events)
    }

    #[inline]
    fn enqueue_new(&mut self, events: &mut EventBurst<Mbuf>) -> usize {
        for event in events.iter_mut() {
            event.tag = event.tag.with_operation(EventOperation::New);
        }
        self.enqueue_events(events)
    }

    #[inline]
    fn complete(&mut self, events: &mut EventBurst<Mbuf>) -> usize {
        self.enqueue_events(events)
    }

    fn flush(&mut self) {
        if !self.keeps_events {
            return;
        }
        let operation = sys::RTE_EVENT_DEV_MAINT_OP_FLUSH.cast_signed();
        // SAFETY: the device runs and this is the only handle on the port.
        unsafe { sys::rte_event_maintain(self.id, self.port, operation) };
    }

    fn counts(&self) -> EventPortCounts {
        self.counts
    }
}

impl EventScheduler {
    /// Runs one iteration of the scheduler. False if it did not run.
    ///
    /// Threads: the calling thread must be registered with DPDK.
    pub fn run(&mut self) -> bool {
        // SAFETY: the service of a running device; `&mut self` makes this the only caller.
        unsafe { sys::rte_service_run_iter_on_app_lcore(self.service, 0) == 0 }
    }
}

/// Reads the statistics of the device, or of its port or queue with index `part`; empty if DPDK
/// fails or their number changes meanwhile.
fn read_stats(id: u8, mode: sys::rte_event_dev_xstats_mode::Type, part: u8) -> Vec<EventStat> {
    // SAFETY: null and zero return the number of entries.
    let count = unsafe {
        sys::rte_event_dev_xstats_names_get(
            id,
            mode,
            part,
            core::ptr::null_mut(),
            core::ptr::null_mut(),
            0,
        )
    };
    let Ok(len) = usize::try_from(count) else { return Vec::new() };
    // SAFETY: characters only.
    let empty: sys::rte_event_dev_xstats_name = unsafe { MaybeUninit::zeroed().assume_init() };
    let (mut names, mut ids, mut values) = (vec![empty; len], vec![0; len], vec![0; len]);
    let size = u32::try_from(len).unwrap_or(0);
    // SAFETY: both arrays have room for `size` entries.
    let named = unsafe {
        sys::rte_event_dev_xstats_names_get(
            id,
            mode,
            part,
            names.as_mut_ptr(),
            ids.as_mut_ptr(),
            size,
        )
    };
    if named != count {
        return Vec::new();
    }
    // SAFETY: both arrays have `size` entries.
    let read = unsafe {
        sys::rte_event_dev_xstats_get(id, mode, part, ids.as_ptr(), values.as_mut_ptr(), size)
    };
    if read != count {
        return Vec::new();
    }
    let stat = |(name, value): (sys::rte_event_dev_xstats_name, u64)| EventStat {
        name: text(&name.name),
        value,
    };
    names.into_iter().zip(values).map(stat).collect()
}

/// Converts a C array of characters up to its NUL.
fn text(array: &[c_char]) -> String {
    let bytes: Vec<u8> =
        array.iter().take_while(|c| **c != 0).map(|c| c.to_ne_bytes()[0]).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
