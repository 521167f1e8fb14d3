//! The engine over virtual ports and a virtual clock, alone and through planted faults.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use adit_pktio::mem::MemBuf;
use adit_pktio::{Burst, PacketIo, PortInfo};
use adit_types::{MacAddr, PortId};

use super::clock::TickClock;
use super::fault::{DELAY_NS, Fault, Forwarder, packets_with_fault};
use super::frame::Template;
use super::frame::UePacketKind;
use super::frame::tests::form;
use super::neighbor::Neighbors;
use super::pacer::{OfferedRate, RateStep};
use super::plan::{PlanConfig, SessionOrder, draw_plan};
use super::stream::StreamConfig;
use super::traffic_io::TrafficIo;
use super::trial::{Engine, StreamOutcome, TrialConfig, TrialOutcome, TrialProgress};
use crate::memif::{Ports, mirrored_memif};
use adit_lab_process::stop::Stop;

const HZ: u64 = 1_000_000_000;

/// A clock that advances by 100 ns with each read.
#[derive(Debug, Clone, Default)]
struct VirtualClock(Rc<RefCell<u64>>);

impl TickClock for VirtualClock {
    fn ticks(&mut self) -> u64 {
        *self.0.borrow_mut() += 100;
        *self.0.borrow()
    }

    fn hz(&self) -> u64 {
        HZ
    }
}

type WireQueue = Rc<RefCell<VecDeque<MemBuf>>>;

/// Two ports, each at one end of a wire.
#[derive(Debug, Clone)]
struct Wires {
    rx: [WireQueue; 2],
    tx: [WireQueue; 2],
    /// Capacity of a wire. Unit: packets.
    room: usize,
    /// A forwarder between the wires that runs a step with each receive call.
    target: Option<Rc<RefCell<ForwarderUnderTest>>>,
}

#[derive(Debug)]
struct ForwarderUnderTest {
    forwarder: Forwarder<Wires>,
    clock: Rc<RefCell<u64>>,
}

impl PacketIo for Wires {
    type Buf = MemBuf;

    fn rx_burst(&mut self, port: PortId, limit: usize, burst: &mut Burst<MemBuf>) -> usize {
        if let Some(target) = &self.target {
            let mut target = target.borrow_mut();
            let now = *target.clock.borrow();
            target.forwarder.step(now);
        }
        let mut queue = self.rx[usize::from(port.0)].borrow_mut();
        let count = limit.min(queue.len()).min(burst.remaining_capacity());
        burst.extend(queue.drain(..count));
        count
    }

    fn tx_burst(&mut self, port: PortId, burst: &mut Burst<MemBuf>) -> usize {
        let mut queue = self.tx[usize::from(port.0)].borrow_mut();
        let count = burst.len().min(self.room.saturating_sub(queue.len()));
        queue.extend(burst.drain(..count));
        count
    }

    fn alloc(&mut self) -> Option<MemBuf> {
        Some(MemBuf::new())
    }

    fn port_info(&self, _port: PortId) -> PortInfo {
        PortInfo {
            mac: form(UePacketKind::Udp4, false, false).src_mac,
            mtu_bytes: 1500,
            rx_ipv4_checksum: false,
        }
    }
}

impl TrafficIo for Wires {}

/// Connects port 0 and port 1 back to back.
fn back_to_back(room: usize) -> Wires {
    let [a, b]: [WireQueue; 2] = Default::default();
    Wires { rx: [Rc::clone(&a), Rc::clone(&b)], tx: [b, a], room, target: None }
}

/// Connects port 0 and port 1 through a forwarder with a fault.
fn through(fault: Option<Fault>, one_in: u64, clock: &VirtualClock) -> Wires {
    let [a, b, c, d]: [WireQueue; 4] = Default::default();
    let target = Wires {
        rx: [Rc::clone(&a), Rc::clone(&b)],
        tx: [Rc::clone(&c), Rc::clone(&d)],
        room: 4096,
        target: None,
    };
    let forwarder = Forwarder::new(target, fault, one_in, DELAY_NS);
    let target = ForwarderUnderTest { forwarder, clock: Rc::clone(&clock.0) };
    let target = Some(Rc::new(RefCell::new(target)));
    Wires { rx: [c, d], tx: [a, b], room: 4096, target }
}

fn streams() -> Vec<StreamConfig> {
    let config = PlanConfig {
        teids: &[0; 1000],
        first: 0,
        gnbs: &[std::net::Ipv4Addr::new(10, 0, 3, 1).into()],
        source_ports: 1,
        weights: &[1],
        order: SessionOrder::Random,
        seed: 1,
    };
    let plan: Arc<[_]> = draw_plan(&config).into();
    let template = |uplink| {
        let form = form(UePacketKind::Udp4, uplink, true);
        Arc::from(vec![Template::new(&form, 64).unwrap()])
    };
    let stream = |tx, rx, uplink| StreamConfig {
        tx: PortId(tx),
        rx: PortId(rx),
        templates: template(uplink),
        plan: Arc::clone(&plan),
        rx_teid: None,
    };
    vec![stream(0, 1, true), stream(1, 0, false)]
}

/// Returns a configuration without rates and duration.
fn config() -> TrialConfig {
    TrialConfig {
        courses: Vec::new(),
        duration_ns: 0,
        drain_ns: 20_000_000,
        quiet_ns: 20_000_000,
        absence_ns_min: 1_000_000,
        late_max_ns: 1_000_000,
        burst: 32,
        timeline: false,
        window_ns: 0,
    }
}

fn run(
    wires: Wires,
    clock: VirtualClock,
    rates: &[OfferedRate],
    ms: u64,
    stop: &Stop,
) -> TrialOutcome {
    let mut engine = Engine::new(wires, clock, Neighbors::default(), 2);
    engine.set_streams(streams());
    let config = TrialConfig {
        courses: rates.iter().copied().map(RateStep::always).collect(),
        duration_ns: ms * 1_000_000,
        ..config()
    };
    let live = TrialProgress::default();
    let outcome = engine.run(&config, &live, stop);
    assert_eq!(live.sent.load(Ordering::Relaxed), outcome.sum(|stream| stream.sending.sent));
    outcome
}

#[test]
fn trial_back_to_back_loses_nothing_and_keeps_its_rate() {
    let rates = [OfferedRate::Pps(300_000), OfferedRate::Pps(100_000)];
    let outcome = run(back_to_back(4096), VirtualClock::default(), &rates, 100, &Stop::default());
    assert!(outcome.complete);
    for (stream, wanted) in outcome.streams.iter().zip([30_000u64, 10_000]) {
        assert!(stream.sending.sent.abs_diff(wanted) <= 1, "{:?}", stream.sending);
        assert_eq!(stream.arrivals.received, stream.sending.sent);
        assert_eq!((stream.lost(), stream.sending.missed, stream.sending.refused), (0, 0, 0));
        assert_eq!(stream.arrivals.reordered + stream.arrivals.duplicates, 0);
        let latency = stream.latency.summary(HZ);
        assert!(latency.max_ns < 20_000, "{latency:?}");
    }
    assert_eq!(outcome.loss_ppb(), 0);
}

#[test]
fn course_is_followed_step_by_step_and_counted_by_window_and_session() {
    let clock = VirtualClock::default();
    let mut engine = Engine::new(back_to_back(4096), clock, Neighbors::default(), 2);
    let mut streams = streams();
    streams.extend(streams.clone());
    engine.set_streams(streams);
    let step = |pps, ms: u64| RateStep { rate: OfferedRate::Pps(pps), ns: ms * 1_000_000 };
    let config = TrialConfig {
        courses: vec![
            Vec::new(),
            vec![step(100_000, 20), step(250_000, 10), step(0, 10)],
            vec![step(0, 30), step(200_000, 10)],
        ],
        duration_ns: 40_000_000,
        window_ns: 10_000_000,
        ..config()
    };
    let outcome = engine.run(&config, &TrialProgress::default(), &Stop::default());
    let octets = |stream: usize| -> Vec<u64> {
        let windows = outcome.streams[stream].windows.as_ref().unwrap();
        assert_eq!((windows.session_count(), windows.reordered), (1000, 0));
        let sum = |window: &[u32]| window.iter().copied().map(u64::from).sum::<u64>();
        let (offered, received): (Vec<u64>, Vec<u64>) =
            (windows.offered().map(sum).collect(), windows.received().map(sum).collect());
        // A packet sent at the end of a window may arrive in the next.
        assert!(offered.iter().zip(&received).all(|(a, b)| a.abs_diff(*b) <= 64 * 8));
        offered
    };
    let packets = |counts: [u64; 4]| counts.map(|count| count * 64).to_vec();
    assert_eq!(octets(1), packets([1000, 1000, 2500, 0]));
    assert_eq!(octets(2), packets([0, 0, 0, 2000]));
    assert_eq!((octets(0), octets(3)), (packets([0; 4]), packets([0; 4])));
    assert_eq!(outcome.sum(|stream| stream.arrivals.received), 6500);
    assert_eq!(outcome.window_gaps_ns.len(), 4);
    assert!(outcome.window_gaps_ns.iter().all(|gap| (1..100_000).contains(gap)));
}

#[test]
fn trial_on_a_wire_that_takes_nothing_counts_all_as_refused() {
    let rates = [OfferedRate::Pps(100_000)];
    let outcome = run(back_to_back(0), VirtualClock::default(), &rates, 50, &Stop::default());
    let stream = &outcome.streams[0];
    assert_eq!((stream.sending.sent, stream.arrivals.received), (0, 0));
    assert!(stream.sending.refused > 4_700, "{:?}", stream.sending);
    assert_eq!(outcome.loss_ppb(), 1_000_000_000);
}

#[test]
fn packets_late_behind_a_slow_port_are_refused_and_none_is_missed() {
    // The port accepts about one packet per 300 ns, but 10 per 1 µs are due.
    let outcome = run(
        back_to_back(1),
        VirtualClock::default(),
        &[OfferedRate::Pps(10_000_000)],
        20,
        &Stop::default(),
    );
    let sending = outcome.streams[0].sending;
    assert_eq!(sending.missed, 0, "{sending:?}");
    assert!(sending.sent > 10_000 && sending.refused > 50_000, "{sending:?}");
    assert!(sending.sent + sending.refused >= 199_000, "{sending:?}");
}

#[test]
fn trial_that_is_interrupted_says_so() {
    let stop = Stop::default();
    stop.raise();
    let rates = [OfferedRate::Pps(100_000)];
    let outcome = run(back_to_back(64), VirtualClock::default(), &rates, 1000, &stop);
    assert!(!outcome.complete);
    assert!(outcome.sum(|stream| stream.sending.sent) < 1000);
}

/// Returns the streams of the other tests, expected on the port that sent them.
fn mirrored_streams() -> Vec<StreamConfig> {
    streams().into_iter().map(|stream| StreamConfig { rx: stream.tx, ..stream }).collect()
}

#[test]
fn frames_written_into_rings_come_back_in_order_and_at_their_rate() {
    let ports = Ports::mirrored(vec![MacAddr([2, 0, 0, 0, 0, 1]); 2]).unwrap();
    let mut engine = Engine::new(ports, VirtualClock::default(), Neighbors::default(), 2);
    engine.set_streams(mirrored_streams());
    let config = TrialConfig {
        courses: [300_000, 100_000].map(|pps| RateStep::always(OfferedRate::Pps(pps))).to_vec(),
        duration_ns: 100_000_000,
        ..config()
    };
    for _ in 0..2 {
        let outcome = engine.run(&config, &TrialProgress::default(), &Stop::default());
        assert_eq!(outcome.other_frames, 0);
        for (stream, wanted) in outcome.streams.iter().zip([30_000u64, 10_000]) {
            let (sending, arrivals) = (stream.sending, stream.arrivals);
            assert!(sending.sent.abs_diff(wanted) <= 1, "{sending:?}");
            assert_eq!((arrivals.received, arrivals.bytes), (sending.sent, sending.bytes));
            assert_eq!((stream.lost(), sending.missed, sending.refused), (0, 0, 0));
            assert_eq!((arrivals.reordered, arrivals.duplicates, arrivals.foreign), (0, 0, 0));
        }
    }
}

#[test]
fn frames_for_which_a_ring_has_no_room_are_refused() {
    // Nobody consumes the packets.
    let (memif, _mirror) = mirrored_memif().unwrap();
    let room = u64::from(memif.ring_len());
    let ports = Ports::new(vec![memif], vec![MacAddr([2, 0, 0, 0, 0, 1])]);
    let mut engine = Engine::new(ports, VirtualClock::default(), Neighbors::default(), 1);
    engine.set_streams(mirrored_streams().into_iter().take(1).collect());
    let config = TrialConfig {
        courses: vec![RateStep::always(OfferedRate::Pps(1_000_000))],
        duration_ns: 20_000_000,
        ..config()
    };
    let outcome = engine.run(&config, &TrialProgress::default(), &Stop::default());
    let sending = outcome.streams[0].sending;
    assert_eq!((sending.sent, sending.missed), (room, 0), "{sending:?}");
    assert!((20_000 - room).abs_diff(sending.refused) <= 2, "{sending:?}");
}

const FAULTS: [Option<Fault>; 5] =
    [None, Some(Fault::Drop), Some(Fault::Duplicate), Some(Fault::Reorder), Some(Fault::Delay)];

#[test]
fn planted_faults_show_in_the_numbers_and_only_there() {
    // 500 divides the number of packets of each stream, 700 does not.
    for (one_in, wanted) in [(500, 40), (700, 28)] {
        for fault in FAULTS {
            let clock = VirtualClock::default();
            let wires = through(fault, one_in, &clock);
            let target = Rc::clone(wires.target.as_ref().unwrap());
            let outcome = run(wires, clock, &[OfferedRate::Pps(200_000); 2], 50, &Stop::default());
            let injected = target.borrow().forwarder.faults_injected();
            let sent = outcome.sum(|stream| stream.sending.sent);
            assert!(sent.abs_diff(20_000) <= 2, "{sent}");
            let lost = outcome.sum(|stream| stream.lost());
            let duplicates = outcome.sum(|stream| stream.arrivals.duplicates);
            let reordered = outcome.sum(|stream| stream.arrivals.reordered);
            let is_slow = |s: &&StreamOutcome| s.latency.summary(HZ).max_ns >= DELAY_NS;
            let slow = outcome.streams.iter().filter(is_slow).count();
            let figures = (lost, duplicates, reordered, slow);
            match fault {
                None => assert_eq!(figures, (0, 0, 0, 0)),
                Some(Fault::Drop) => assert_eq!(figures, (injected, 0, 0, 0)),
                Some(Fault::Duplicate) => assert_eq!(figures, (0, injected, 0, 0)),
                Some(Fault::Reorder) => assert_eq!(figures, (0, 0, injected, 0)),
                Some(Fault::Delay) => assert_eq!(figures, (0, 0, injected, 2)),
            }
            assert_eq!(injected, if fault.is_some() { wanted } else { 0 }, "{fault:?}");
            assert_eq!(packets_with_fault(fault, &outcome, HZ), injected, "{fault:?}");
        }
    }
}

#[test]
fn each_fault_of_one_packet_in_a_million_is_found_trial_after_trial() {
    let clock = VirtualClock::default();
    let wires = through(None, 1_000_000, &clock);
    let target = Rc::clone(wires.target.as_ref().unwrap());
    let mut engine = Engine::new(wires, clock, Neighbors::default(), 2);
    engine.set_streams(streams());
    let config = TrialConfig {
        courses: vec![RateStep::always(OfferedRate::Pps(10_000_000))],
        duration_ns: 100_000_000,
        ..config()
    };
    for fault in FAULTS {
        target.borrow_mut().forwarder.plant(fault);
        let outcome = engine.run(&config, &TrialProgress::default(), &Stop::default());
        let sent = outcome.sum(|stream| stream.sending.sent);
        assert!(sent.abs_diff(1_000_000) <= 1, "{sent}");
        let injected = target.borrow().forwarder.faults_injected();
        assert_eq!(injected, u64::from(fault.is_some()));
        assert_eq!(packets_with_fault(fault, &outcome, HZ), injected, "{fault:?}");
        assert_eq!(outcome.sum(|stream| stream.arrivals.foreign), 0, "of an earlier trial");
    }
}

#[test]
fn delay_shorter_than_the_planted_one_is_not_found() {
    let clock = VirtualClock::default();
    let wires = through(Some(Fault::Delay), 500, &clock);
    let target = Rc::clone(wires.target.as_ref().unwrap());
    let outcome = run(wires, clock, &[OfferedRate::Pps(200_000)], 50, &Stop::default());
    let injected = target.borrow().forwarder.faults_injected();
    // For a clock with 2 % more ticks per second, the same delay is less than a millisecond.
    let found = |hz| packets_with_fault(Some(Fault::Delay), &outcome, hz);
    assert_eq!((injected, found(HZ), found(HZ + HZ / 50)), (20, 20, 0));
}
