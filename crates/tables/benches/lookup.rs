//! Finding sessions by key, a burst of 32 at a time: TEIDs that Adit chose, UE addresses of a pool,
//! and the keys that an SMF chose.
#![allow(missing_docs, clippy::unwrap_used, reason = "a benchmark")]

use core::hint::black_box;

use adit_rules::{DeltaId, KeyChange, RuleDelta, SessionKey};
use adit_tables::{Publisher, TablesConfig, TablesReader};
use adit_types::{DomainId, SessionIndex, Teid};
use core::net::Ipv4Addr;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const SESSIONS: u32 = 100_000;
const SLOT_BITS: u8 = 18;
const BURST: usize = 32;

/// In the direct index: the session's number and a tag.
fn chosen(number: u32) -> Teid {
    Teid(0x5a << 24 | number)
}

/// Where the index has another TEID.
fn foreign(number: u32) -> Teid {
    Teid(0xa5 << 24 | number)
}

const POOL: u32 = 10 << 24;
const OTHER: u32 = 100 << 24;

fn tables() -> (Publisher, TablesReader) {
    let config = TablesConfig {
        sessions_max: SESSIONS as usize,
        teid_slot_bits: SLOT_BITS,
        workers: 1,
        next_hops_max: 16,
        seed: 7,
        interfaces: Vec::new(),
        own_addrs: Vec::new(),
        routes: Vec::new(),
        aggregates: Vec::new(),
        ue_pools_v4: vec![(DomainId(0), "10.0.0.0/8".parse().unwrap())],
        local_switching_domains: vec![DomainId(0)],
    };
    let (mut publisher, readers) = adit_tables::build(config).unwrap();
    for number in 0..SESSIONS {
        let keys = [
            SessionKey::Teid(chosen(number)),
            SessionKey::Teid(foreign(number)),
            SessionKey::UeIpv4(DomainId(0), Ipv4Addr::from_bits(POOL + number)),
            SessionKey::UeIpv4(DomainId(0), Ipv4Addr::from_bits(OTHER + number)),
        ];
        let keys = keys.into_iter().map(KeyChange::Add).collect();
        let delta = RuleDelta { session: SessionIndex(number), keys, rules: None };
        publisher.apply(DeltaId(number.into()), delta);
        while publisher.poll_observed().is_some() {}
    }
    (publisher, readers.into_iter().next().unwrap())
}

/// Bursts of session numbers that follow no order.
fn bursts() -> Vec<[u32; BURST]> {
    let mut number = 1_u32;
    let mut next = || {
        number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (number >> 8) % SESSIONS
    };
    (0..4096).map(|_| core::array::from_fn(|_| next())).collect()
}

fn lookup(criterion: &mut Criterion) {
    let (_publisher, mut reader) = tables();
    let view = reader.observe();
    let bursts = bursts();
    let mut group = criterion.benchmark_group("tables");
    group.throughput(Throughput::Elements(BURST as u64));
    let mut out = [SessionIndex::NONE; BURST];
    for (name, teid) in [("teid/chosen", chosen as fn(u32) -> Teid), ("teid/foreign", foreign)] {
        let keys: Vec<_> = bursts.iter().map(|burst| burst.map(teid)).collect();
        view.lookup_teids(&keys[0], &mut out);
        assert_eq!(out, bursts[0].map(SessionIndex));
        let mut burst = keys.iter().cycle();
        group.bench_function(name, |bench| {
            bench.iter(|| {
                view.lookup_teids(black_box(burst.next().unwrap()), &mut out);
                out[0]
            });
        });
    }
    for (name, first) in [("ue_v4/pool", POOL), ("ue_v4/foreign", OTHER)] {
        let keys: Vec<_> = bursts.iter().map(|burst| burst.map(|number| first + number)).collect();
        view.ues(DomainId(0)).lookup_v4(&keys[0], &mut out);
        assert_eq!(out, bursts[0].map(SessionIndex));
        let mut burst = keys.iter().cycle();
        group.bench_function(name, |bench| {
            bench.iter(|| {
                view.ues(DomainId(0)).lookup_v4(black_box(burst.next().unwrap()), &mut out);
                out[0]
            });
        });
    }
    group.finish();
}

criterion_group!(benches, lookup);
criterion_main!(benches);
