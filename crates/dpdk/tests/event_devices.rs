//! Both schedulers of DPDK, without hugepages or privileges.
//!
//! One test only, since a process can start the EAL only once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use adit_dpdk::{
    Eal, EalConfig, EventDevice, EventDeviceConfig, EventDeviceError, EventDriver, EventPortConfig,
    EventQueueConfig, EventScheduler, HugepageMode, Mbuf, Mempool, MempoolConfig, OpenEventDevice,
    SchedulerPort, register_thread,
};
use adit_pktio::{Event, EventBurst, EventPort, EventTag, PacketBuf, ScheduleType};

const MBUFS: u32 = 4095;
const FLOWS: u32 = 64;

static_assertions::assert_impl_all!(SchedulerPort: Send);
static_assertions::assert_not_impl_any!(SchedulerPort: Clone, Sync);
static_assertions::assert_impl_all!(EventScheduler: Send);

#[test]
fn schedulers_carry_events_in_order_and_give_every_buffer_back() {
    let eal = Eal::init(&EalConfig {
        hugepages: HugepageMode::Never,
        memory_mib: 96,
        file_prefix: format!("adit-test-{}", std::process::id()),
        ..EalConfig::default()
    })
    .unwrap();
    let config = MempoolConfig { mbufs: MBUFS, cache: 64, ..Default::default() };
    let pool = Mempool::create(&eal, &config).unwrap();
    for driver in [EventDriver::Dsw, EventDriver::Sw] {
        impossible_devices_are_refused(&eal, driver);
        events_pass_two_queues_in_order(&eal, &pool, driver);
        new_events_are_refused_above_the_threshold(&eal, &pool, driver);
        atomic_flows_are_with_one_worker_at_a_time(&eal, &pool, driver);
        assert_eq!(pool.available(), MBUFS, "{driver:?}: a buffer leaked");
    }
}

fn queue(schedule: ScheduleType) -> EventQueueConfig {
    EventQueueConfig { schedule, priority: 0 }
}

fn port(queues: &[u8], new_event_threshold: u32) -> EventPortConfig {
    EventPortConfig {
        new_event_threshold,
        dequeue_depth: 32,
        enqueue_depth: 16,
        queues: queues.to_vec(),
    }
}

fn open(eal: &Eal, driver: EventDriver, ports: Vec<EventPortConfig>) -> OpenEventDevice {
    let config = EventDeviceConfig {
        driver,
        arguments: if driver == EventDriver::Sw { "sched_quanta=64,credit_quanta=32" } else { "" },
        flows: FLOWS,
        events_max: 2048,
        queues: vec![queue(ScheduleType::Atomic); 2],
        ports,
    };
    EventDevice::open(eal, 0, &config).unwrap_or_else(|error| panic!("{driver:?}: {error}"))
}

fn impossible_devices_are_refused(eal: &Eal, driver: EventDriver) {
    let config = EventDeviceConfig {
        driver,
        arguments: "",
        flows: u32::MAX,
        events_max: 64,
        queues: vec![queue(ScheduleType::Atomic)],
        ports: vec![port(&[0], 64)],
    };
    let error = EventDevice::open(eal, 0, &config).unwrap_err();
    assert!(matches!(error, EventDeviceError::TooMany { what: "flows per queue", .. }), "{error}");
    let unlinked = EventDeviceConfig {
        queues: vec![queue(ScheduleType::Atomic); 2],
        flows: 16,
        ..config.clone()
    };
    let error = EventDevice::open(eal, 0, &unlinked).unwrap_err();
    assert!(matches!(error, EventDeviceError::UnlinkedQueue { queue: 1, .. }), "{error}");
}

fn packet(pool: &Mempool, number: u32) -> Mbuf {
    let mut packet = pool.alloc().unwrap();
    packet.append(4).unwrap().copy_from_slice(&number.to_le_bytes());
    packet
}

fn number(event: &Event<Mbuf>) -> u32 {
    u32::from_le_bytes(event.buf.as_ref().unwrap().data().try_into().unwrap())
}

fn event(queue: u8, flow: u32, buf: Mbuf) -> Event<Mbuf> {
    Event { tag: EventTag::new(queue, ScheduleType::Atomic, flow, 9), buf: Some(buf) }
}

/// Runs the scheduler, if there is one.
fn schedule(scheduler: &mut Option<EventScheduler>) {
    if let Some(scheduler) = scheduler {
        assert!(scheduler.run());
    }
}

fn events_pass_two_queues_in_order(eal: &Eal, pool: &Mempool, driver: EventDriver) {
    let OpenEventDevice { device, mut ports, mut scheduler } =
        open(eal, driver, vec![port(&[0], 2048), port(&[1], 2048)]);
    let mut events = EventBurst::new();
    let mut seen = Vec::new();
    let mut sent = 0;
    let end = Instant::now() + Duration::from_secs(20);
    while seen.len() < 2000 {
        assert!(Instant::now() < end, "{driver:?}: {} of {sent} events arrived", seen.len());
        if sent < 2000 && seen.len() + 500 > sent {
            events.extend((0..16).map(|at| sent + at).map(|at| {
                let at = u32::try_from(at).unwrap();
                event(0, 5, packet(pool, at))
            }));
            sent += 16;
            assert_eq!(ports[0].enqueue_new(&mut events), 16);
        }
        ports[0].flush();
        schedule(&mut scheduler);
        ports[0].dequeue(32, &mut events);
        for event in &mut events {
            assert_eq!((event.tag.queue(), event.tag.flow(), event.tag.note()), (0, 5, 9));
            event.tag = EventTag::new(1, ScheduleType::Atomic, 7, 3);
        }
        let count = events.len();
        assert_eq!(ports[0].enqueue(&mut events), count);
        ports[0].flush();
        schedule(&mut scheduler);
        ports[1].dequeue(32, &mut events);
        seen.extend(events.drain(..).map(|event| number(&event)));
    }
    assert!(seen.iter().copied().eq(0..2000), "{driver:?}: out of order");
    let counts = ports[1].counts();
    assert_eq!((counts.dequeued, counts.refused), (2000, 0));
    let stats = device.stats();
    let total = |name: &str| stats.iter().filter(|stat| stat.name.contains(name)).count();
    assert!(total("port_1") > 0 && stats.iter().any(|stat| stat.value > 0), "{stats:?}");
}

fn new_events_are_refused_above_the_threshold(eal: &Eal, pool: &Mempool, driver: EventDriver) {
    let OpenEventDevice { device: _device, mut ports, mut scheduler } =
        open(eal, driver, vec![port(&[0], 200), port(&[1], 2048)]);
    let mut events = EventBurst::new();
    let mut taken = 0;
    // `event_dsw` counts up to 1024 events more for each of the two ports.
    for at in 0..3000 {
        events.push(event(0, at % FLOWS, packet(pool, at)));
        taken += ports[0].enqueue_new(&mut events);
        events.clear();
        schedule(&mut scheduler);
    }
    assert!((150..2400).contains(&taken), "{driver:?}: {taken} events were taken");
    assert_eq!(ports[0].counts().refused, 3000 - u64::try_from(taken).unwrap());
    // The events in flight return to the pool when the device stops.
}

fn atomic_flows_are_with_one_worker_at_a_time(eal: &Eal, pool: &Mempool, driver: EventDriver) {
    const EVENTS: u32 = 40_000;
    let OpenEventDevice { device: _device, ports, scheduler } =
        open(eal, driver, vec![port(&[1], 512), port(&[0], 2048), port(&[0], 2048)]);
    let mut ports = ports.into_iter();
    let mut producer = ports.next().unwrap();
    let busy: Vec<AtomicBool> = (0..FLOWS).map(|_| AtomicBool::new(false)).collect();
    let last: Vec<AtomicU32> = (0..FLOWS).map(|_| AtomicU32::new(0)).collect();
    let done = AtomicUsize::new(0);
    let all = usize::try_from(EVENTS).unwrap();
    std::thread::scope(|scope| {
        for mut worker in ports {
            let (busy, last, done) = (&busy, &last, &done);
            scope.spawn(move || {
                let registered = register_thread(eal).unwrap();
                let mut events = EventBurst::new();
                while done.load(Ordering::Acquire) < all {
                    let count = worker.dequeue(32, &mut events);
                    let mut flows = Vec::new();
                    for event in events.drain(..) {
                        let flow = event.tag.flow() as usize;
                        if !flows.contains(&flow) {
                            let was = busy[flow].swap(true, Ordering::Acquire);
                            assert!(!was, "two workers have one flow");
                            flows.push(flow);
                        }
                        let before = last[flow].swap(number(&event), Ordering::Relaxed);
                        assert!(number(&event) > before, "out of order");
                    }
                    for flow in flows {
                        busy[flow].store(false, Ordering::Release);
                    }
                    done.fetch_add(count, Ordering::Release);
                    if count == 0 {
                        worker.flush();
                        std::thread::yield_now();
                    }
                }
                drop(worker);
                drop(registered);
            });
        }
        let mut scheduler = scheduler;
        let mut events = EventBurst::new();
        let mut sent = 0;
        while done.load(Ordering::Acquire) < all {
            while sent < EVENTS && events.len() < 16 {
                sent += 1;
                let Some(mut buf) = pool.alloc() else { break };
                buf.append(4).unwrap().copy_from_slice(&sent.to_le_bytes());
                events.push(event(0, sent % FLOWS, buf));
            }
            producer.enqueue_new(&mut events);
            producer.flush();
            schedule(&mut scheduler);
            std::thread::yield_now();
        }
    });
}
