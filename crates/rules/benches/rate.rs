//! The cost of a packet's rate: the bucket of one worker, and the word that several share.
#![allow(missing_docs, reason = "a benchmark")]

use core::hint::black_box;

use adit_rules::{Bucket, Excess, RateLimit, SharedBucket};
use adit_types::{BitRate, Nanos};
use criterion::{Criterion, criterion_group, criterion_main};

fn rate(criterion: &mut Criterion) {
    let limit = RateLimit::new(BitRate::from_kbps(100_000), Nanos::from_millis(2), Excess::Policed);
    let (mut bucket, mut now) = (Bucket::default(), Nanos(0));
    criterion.bench_function("rate/bucket", |bench| {
        bench.iter(|| {
            now += Nanos(5000);
            let is_open = bucket.is_open(black_box(limit), now);
            if is_open {
                bucket = bucket.after(limit, now, black_box(64));
            }
            is_open
        });
    });
    let (mut shared, mut now) = (SharedBucket::default(), Nanos(0));
    criterion.bench_function("rate/shared", |bench| {
        bench.iter(|| {
            now += Nanos(5000);
            let is_open = shared.at(black_box(limit), now).is_open(limit, now);
            if is_open {
                shared = shared.after(limit, now, black_box(64));
            }
            is_open
        });
    });
}

criterion_group!(benches, rate);
criterion_main!(benches);
