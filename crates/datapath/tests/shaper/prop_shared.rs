//! Shared rates against exact shares: rounds by quanta, in order, nothing lost, no rate idle.
#![allow(clippy::cast_possible_truncation, reason = "small numbers")]

use adit_datapath::shaper::{
    Eligibility, QueueKey, QueuedPacket, Queues, QueuesConfig, RingWait, TurnContext,
};
use adit_types::{Direction, Nanos, SessionIndex};
use proptest::collection::vec;
use proptest::prelude::*;

const SLOT: Nanos = Nanos(1 << 15);

/// A rate that some flows pass first.
const INNER: u8 = 3;

/// The rate of all flows.
const OUTER: u8 = 0;

fn flow(number: usize, is_inside: bool) -> QueueKey {
    QueueKey {
        session: SessionIndex(number as u32),
        direction: Direction::Uplink,
        buckets: 0,
        tag: is_inside.into(),
    }
}

/// Two rates that let so many octets more pass, and who waits.
struct RateGate {
    left: [i64; 2],
    opens: Nanos,
    quanta: Vec<u32>,
}

impl RateGate {
    fn pace(&mut self, key: &QueueKey, bytes: u16, standing: TurnContext) -> Eligibility {
        let quantum = self.quanta[key.session.0 as usize];
        let levels = if key.tag == 1 { &[(INNER, 0), (OUTER, 1)][..] } else { &[(OUTER, 1)] };
        for (rate, at) in levels {
            let had_turn = standing.rate == Some(*rate) || standing.rate == Some(OUTER);
            if standing.contended.contains(*rate) && !had_turn || self.left[*at] <= 0 {
                return Eligibility::InTurn(RingWait {
                    ring_rate: levels[0].0,
                    rate: *rate,
                    at: self.opens,
                    quantum,
                });
            }
        }
        for (_, at) in levels {
            self.left[*at] -= i64::from(bytes);
        }
        Eligibility::Now
    }
}

proptest! {
    #[test]
    fn backlogged_flows_share_by_their_quanta(
        quanta in vec(512_u32..20_000, 2..7),
        inside in vec(any::<bool>(), 7),
        lens in vec(40_u16..=1500, 7),
        slots in vec(1_i64..9000, 200..400),
        limits in vec(1_usize..90, 8),
    ) {
        let flows = quanta.len();
        let config = QueuesConfig {
            pkts_max: 4096, flow_pkts_max: 512, sessions_max: flows, shared_rates: 4,
        };
        let mut queues = Queues::new(config);
        let mut now = Nanos(1 << 30);
        queues.release(now, 1, |_, _, _| Eligibility::Now, |_, _, _| ());
        let mut gate = RateGate { left: [0; 2], opens: now + SLOT, quanta: quanta.clone() };
        let (mut pushed, mut sent, mut bytes) =
            (vec![0_u32; flows], vec![0_u32; flows], vec![0_u64; flows]);
        let mut limits = limits.into_iter().cycle();
        let mut gates = [0_i64; 2];
        for slot in slots {
            // Always a backlog, which waits from the first packet on.
            for number in 0..flows {
                let key = flow(number, inside[number]);
                let len = lens[number];
                let deep = (4 + (9000 + 2 * quanta[number]) / u32::from(len)).min(500);
                while queues.flow_len(&key) < deep && queues.has_room(queues.flow_len(&key)) {
                    let standing = TurnContext { rate: None, contended: queues.contended() };
                    gate.left = [0; 2];
                    let pace = gate.pace(&key, len, standing);
                    let held = QueuedPacket { packet: pushed[number], bytes: len, since: now };
                    prop_assert!(queues.push(key, || pace, held).is_ok());
                    pushed[number] += 1;
                }
            }
            now += SLOT;
            gate.opens = now + SLOT;
            // The inner rate is half of the outer one, and the excess is owed.
            gates = [gates[0].min(0) + slot / 2, gates[1].min(0) + slot];
            gate.left = gates;
            loop {
                let limit = limits.next().unwrap();
                let mut wrong = None;
                let gone = queues.release(
                    now,
                    limit,
                    |key, bytes, standing| gate.pace(key, bytes, standing),
                    |key, may_leave, held| {
                        let number = key.session.0 as usize;
                        if !may_leave || held.packet != sent[number] {
                            wrong = Some((number, held.packet));
                        }
                        sent[number] += 1;
                        bytes[number] += u64::from(held.bytes);
                    },
                );
                prop_assert_eq!(wrong, None, "out of order");
                if gone < limit {
                    break;
                }
            }
            gates = gate.left;
            // No rate is idle while flows wait for it alone.
            if !(0..flows).all(|number| inside[number]) {
                prop_assert!(gates[1] <= 0, "the outer rate has {} left", gates[1]);
            } else {
                prop_assert!(gates[0] <= 0 || gates[1] <= 0, "{gates:?}");
            }
        }
        // None of the flows that share the same rates is further ahead than a round and a packet.
        let rounds = |at: usize| bytes[at] as f64 / f64::from(quanta[at]);
        let slack = |at: usize| 1.0 + f64::from(lens[at]) / f64::from(quanta[at]);
        for one in 0..flows {
            for other in (0..flows).filter(|other| inside[*other] == inside[one]) {
                let apart = (rounds(one) - rounds(other)).abs();
                let most = slack(one) + slack(other);
                prop_assert!(apart <= most, "{one}, {other}: {apart} rounds; {bytes:?}, {quanta:?}");
            }
        }
    }

    #[test]
    fn what_waits_in_turn_leaves_when_the_rate_is_gone(
        quanta in vec(512_u32..5000, 1..6), per_flow in 1_u32..100,
    ) {
        let config = QueuesConfig {
            pkts_max: 4096, flow_pkts_max: 512, sessions_max: quanta.len(), shared_rates: 4,
        };
        let mut queues = Queues::new(config);
        let now = Nanos::from_secs(1);
        queues.release(now, 1, |_, _, _| Eligibility::Now, |_, _, _| ());
        for packet in 0..per_flow {
            for (number, quantum) in quanta.iter().enumerate() {
                let pace = Eligibility::InTurn(RingWait { ring_rate: INNER, rate: INNER, at: now + SLOT, quantum: *quantum });
                let held = QueuedPacket { packet, bytes: 1500, since: now };
                queues.push(flow(number, true), || pace, held).unwrap();
            }
        }
        prop_assert!(queues.contended().contains(INNER));
        let mut taken = 0;
        queues.take_all(SessionIndex(0), Direction::Uplink, |_, _| taken += 1);
        prop_assert_eq!(taken, per_flow);
        let mut left = 0;
        queues.release(now + SLOT + SLOT, usize::MAX, |_, _, _| Eligibility::Now, |_, may_leave, _| {
            left += u32::from(may_leave);
        });
        prop_assert_eq!(left, per_flow * (quanta.len() as u32 - 1));
        prop_assert!(queues.is_empty() && queues.contended().is_empty());
    }
}
