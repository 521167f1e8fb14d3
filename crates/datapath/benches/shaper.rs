//! The wheel and the queues: a packet comes and one leaves.
#![allow(missing_docs, reason = "a benchmark")]

use core::hint::black_box;

use adit_datapath::shaper::{
    Eligibility, QueueKey, QueuedPacket, Queues, QueuesConfig, SLOT_WIDTH, Wheel,
};
use adit_types::{Direction, Nanos, SessionIndex};
use criterion::{Criterion, criterion_group, criterion_main};

/// Numbers in the wheel, and flows that wait.
const COUNT: u32 = 1 << 14;

fn wheel(criterion: &mut Criterion) {
    let mut wheel = Wheel::new(COUNT as usize, 0);
    let mut now = Nanos(0);
    // Each is due a thousand slots after it was taken.
    let later = |now: Nanos, number: u32| now + Nanos(SLOT_WIDTH.0 * 1000 + u64::from(number % 64));
    (0..COUNT)
        .for_each(|number| wheel.insert(number, Nanos(SLOT_WIDTH.0 * u64::from(number % 1000))));
    criterion.bench_function("wheel/take_insert", |bench| {
        bench.iter(|| {
            let number = loop {
                match wheel.take() {
                    Some(number) => break number,
                    None => {
                        now += SLOT_WIDTH;
                        wheel.advance(now);
                    }
                }
            };
            wheel.insert(black_box(number), later(now, number));
        });
    });
}

fn queues(criterion: &mut Criterion) {
    let config = QueuesConfig {
        pkts_max: 2 * COUNT as usize,
        flow_pkts_max: 64,
        sessions_max: COUNT as usize,
        shared_rates: 0,
    };
    let mut queues: Queues<u64> = Queues::new(config);
    let key = |session: u32| QueueKey {
        session: SessionIndex(session % COUNT),
        direction: Direction::Downlink,
        buckets: 1,
        tag: 0,
    };
    let held = |now| QueuedPacket { packet: 0, bytes: 64, since: now };
    let mut now = Nanos(0);
    (0..COUNT).for_each(|session| {
        let _ = queues.push(key(session), || Eligibility::Now, held(now));
    });
    let mut session = 0_u32;
    // A flow that has a packet gets another, and one leaves.
    criterion.bench_function("queues/push_release", |bench| {
        bench.iter(|| {
            session = session.wrapping_add(40_503);
            now += Nanos(100);
            let pushed = queues.push(black_box(key(session)), || Eligibility::Now, held(now));
            let gone = queues.release(
                now,
                1,
                |_, _, _| Eligibility::Now,
                |_, _, held| {
                    black_box(held);
                },
            );
            (pushed, gone)
        });
    });
}

criterion_group!(benches, wheel, queues);
criterion_main!(benches);
