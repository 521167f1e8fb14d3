//! Guaranteed rates if a port without a configured rate is the bottleneck.

use std::collections::VecDeque;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::shared::guaranteed;
use super::*;

/// The rate of the link behind the port.
const LINK: u64 = 1000 * MBIT;

/// The offer of sessions without a guarantee: more than four times the rate of the link.
const OTHERS: [u64; 4] = [2400 * MBIT, 1200 * MBIT, 600 * MBIT, 300 * MBIT];

/// Length of the transmit queue of the port. Unit: frames.
const QUEUE_LEN: usize = 64;

/// Time of a step: far shorter than a packet on the link, so that few packets arrive in one step.
const SHORT_STEP: Nanos = Nanos::from_micros(1);

/// A port of one direction, and the link behind it.
struct SlowPort {
    direction: Direction,
    /// Inner lengths of the frames in the transmit queue.
    queue: VecDeque<u64>,
    /// The octets that the link can send now. Unit: as [`OCTET`].
    credit: u128,
    /// The link had nothing to send.
    idled: bool,
}

impl SlowPort {
    const fn new(direction: Direction) -> Self {
        Self { direction, queue: VecDeque::new(), credit: 0, idled: false }
    }

    /// Lets `time` pass in steps. Packets arrive before each step.
    fn pass(&mut self, stage: &mut RateTest, time: Nanos, mut arrive: impl FnMut(&mut RateTest)) {
        let lens: Vec<u64> = stage.flows.iter().map(|flow| flow.len).collect();
        let out = usize::from(self.direction == Direction::Uplink);
        let end = stage.now + time;
        while stage.now < end {
            self.credit += u128::from(LINK) * u128::from(SHORT_STEP.0);
            while let Some(cost) = self.queue.front().map(|len| u128::from(*len) * OCTET)
                && cost <= self.credit
            {
                self.credit -= cost;
                self.queue.pop_front();
            }
            if self.queue.is_empty() {
                (self.credit, self.idled) = (0, true);
            }
            stage.ios[0].ports[out].tx_room = QUEUE_LEN - self.queue.len();
            arrive(stage);
            stage.step(SHORT_STEP, |flow| self.queue.push_back(lens[flow]));
        }
    }
}

#[test]
fn guaranteed_flow_loses_nothing_behind_a_port_that_is_too_slow() {
    for direction in [Direction::Uplink, Direction::Downlink] {
        let mut stage = RateTest::new(Excess::Policed, 1, 16);
        let gbr = 20 * MBIT;
        let session = guaranteed(&mut stage, gbr, gbr);
        let flow = stage.flow(session, direction, 200, gbr / 10 * 8);
        for offered_bps in OTHERS {
            let session = stage.session((UNLIMITED, UNLIMITED));
            stage.flow(session, direction, 1400, offered_bps);
        }
        stage.settle();
        let mut link = SlowPort::new(direction);
        link.pass(&mut stage, Nanos::from_millis(100), |_| {});
        link.idled = false;
        link.pass(&mut stage, Nanos::from_millis(300), |_| {});
        assert!(!link.idled, "the others take what it leaves");
        // The flow ends, and waiting packets leave.
        stage.flows[flow].offered_bps = 0;
        link.pass(&mut stage, Nanos::from_millis(10), |_| {});
        let SteadyFlow { offered, sent, .. } = stage.flows[flow];
        assert_eq!(offered, sent);
        for other in &stage.flows[flow + 1..] {
            assert!(other.sent < other.offered / 2, "the port is not the bottleneck");
        }
        let counts = stage.counts();
        assert!(counts.tx_waited_pkts > 100, "{}", counts.tx_waited_pkts);
        assert_eq!((counts.tx_waiting_pkts, counts.buffered_pkts), (0, 0));
        assert_eq!(stage.dropped(DropReason::TxQueueFull), counts.dropped_pkts());
    }
}

#[test]
fn what_exceeds_a_guarantee_shares_the_rest_of_the_port_with_others() {
    const LEN: u16 = 1000;
    const TIME: Nanos = Nanos::from_millis(500);
    for direction in [Direction::Uplink, Direction::Downlink] {
        let mut stage = RateTest::new(Excess::Policed, 1, 16);
        let (gbr, mbr) = (20 * MBIT, 70 * MBIT);
        let session = guaranteed(&mut stage, gbr, mbr);
        stage.flow(session, direction, LEN, 0);
        for _ in OTHERS {
            let session = stage.session((UNLIMITED, UNLIMITED));
            stage.flow(session, direction, LEN, 0);
        }
        stage.settle();
        // At most one packet arrives in a step, at random: a periodic flow just before another
        // would take its place each time. The link is fast, so the guaranteed packets of a flow
        // take few places from its others.
        let offered = [60 * MBIT, OTHERS[0], OTHERS[1], OTHERS[2], OTHERS[3]];
        let bits = f64::from(LEN) * 8.0;
        let chances = offered.map(|bps| bps as f64 * SHORT_STEP.0 as f64 / 1e9 / bits);
        let mut rng = StdRng::seed_from_u64(14);
        let mut arrive = |stage: &mut RateTest| {
            let mut place: f64 = rng.random();
            for (at, chance) in chances.iter().enumerate() {
                if (0.0..*chance).contains(&place) {
                    stage.offer(at);
                }
                place -= chance;
            }
        };
        let mut link = SlowPort::new(direction);
        link.pass(&mut stage, Nanos::from_millis(100), &mut arrive);
        link.idled = false;
        let before = stage.flows.clone();
        link.pass(&mut stage, TIME, &mut arrive);
        assert!(!link.idled);
        // Beyond guarantees the port accepts the same part of each flow. No guaranteed packet is
        // lost.
        let excess: u64 = offered.iter().sum::<u64>() - gbr;
        let part = (LINK - gbr) as f64 / excess as f64;
        for (at, bps) in offered.into_iter().enumerate() {
            let guaranteed = if at == 0 { gbr } else { 0 };
            let pkts = |bps: f64| bps * TIME.0 as f64 / 1e9 / bits;
            let (sure, by_chance) = (pkts(guaranteed as f64), pkts((bps - guaranteed) as f64));
            let expected = sure + by_chance * part;
            let sent = (stage.flows[at].sent - before[at].sent) as f64;
            println!("{direction:?}: {sent} packets of {expected:.0}, {guaranteed} b/s guaranteed");
            // The variance of a count of independent packets is at most its mean.
            let deviation = (by_chance * part).sqrt();
            assert!((sent - expected).abs() < 4.0 * deviation, "{sent} of {expected}");
        }
        assert_eq!(stage.dropped(DropReason::TxQueueFull), stage.counts().dropped_pkts());
    }
}
