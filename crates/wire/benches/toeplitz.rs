//! Nanoseconds of the Toeplitz hash of 32 tuples of 12 octets, in each form.
#![allow(missing_docs, reason = "criterion's macros")]

use core::hint::black_box;

use adit_wire::rss::{Toeplitz, ToeplitzKey, hash_by_bits, hash_by_set_bits};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// Tuples of a burst.
const BURST: usize = 32;

fn forms(criterion: &mut Criterion) {
    let key = ToeplitzKey::MICROSOFT;
    let mut word = 1_u32;
    let tuples: [[u8; 12]; BURST] = core::array::from_fn(|_| {
        core::array::from_fn(|_| {
            word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            word.to_be_bytes()[0]
        })
    });
    let mut hashes = [0; BURST];
    let mut group = criterion.benchmark_group("rss/toeplitz");
    group.throughput(Throughput::Elements(BURST as u64));
    let one_by_one =
        [("bits", hash_by_bits as fn(&ToeplitzKey, &[u8]) -> u32), ("set bits", hash_by_set_bits)];
    for (name, hash_of) in one_by_one {
        group.bench_function(name, |bench| {
            bench.iter(|| {
                for (tuple, hash) in black_box(&tuples).iter().zip(&mut hashes) {
                    *hash = hash_of(black_box(&key), tuple);
                }
                black_box(&hashes);
            });
        });
    }
    let toeplitz = Toeplitz::new(key);
    let name = if toeplitz.has_gfni() { "gfni" } else { "gfni (not on this processor)" };
    group.bench_function(name, |bench| {
        bench.iter(|| {
            toeplitz.hash_all(black_box(&tuples), &mut hashes);
            black_box(&hashes);
        });
    });
}

criterion_group!(benches, forms);
criterion_main!(benches);
