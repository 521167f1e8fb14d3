//! Real threads: readers against a writer that never rests.

use std::net::Ipv4Addr;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::support::{config, id, install, rules, teid, ue};
use adit_rules::{DropReason, KeyChange, RuleDelta};
use adit_tables::{Publisher, Snapshot, TablesConfig, TablesReader, WorkerCounters, build};
use adit_types::{Direction, DomainId, QerId, SessionIndex, Teid};

/// Sessions that stay; their TEIDs are direct and, from 64 on, foreign.
const STABLE: u32 = 24;

/// Deltas that the writer applies.
const ROUNDS: u64 = 6_000;

/// The seed marks the session, so that a reader can check whose rules it got: `session << 32 | n`.
/// The list of QERs has the length of `n % 4`, all with the id `n`.
fn marked(session: u32, n: u32) -> adit_rules::SessionRules {
    let mut marked = rules(u64::from(session) << 32 | u64::from(n), &[]);
    let qer = adit_rules::QerEntry {
        id: QerId(n),
        gate_uplink: adit_rules::Gate::Open,
        gate_downlink: adit_rules::Gate::Open,
        qfi: None,
        rqi: false,
        ppi: None,
        flow_tos: None,
        service_class: None,
        meter: None,
        packet_rate: None,
    };
    marked.qers = vec![qer; usize::try_from(n % 4).unwrap()];
    marked
}

/// The keys of a session: one TEID with a place of its own, one that collides, one UE address.
fn keys(session: u32) -> [adit_rules::SessionKey; 3] {
    [teid(session), teid(session + 64), ue(u8::try_from(session).unwrap())]
}

/// Checks stable and changing sessions until it is stopped; returns how many views it took.
fn read(mut reader: TablesReader, start: &Barrier, stop: &AtomicBool) -> u64 {
    reader.observe();
    start.wait();
    let stable_teids: Vec<_> = (0..STABLE).chain(64..64 + STABLE).map(Teid).collect();
    let stable_ues: Vec<_> =
        (0..STABLE).map(|n| Ipv4Addr::new(10, 45, 0, u8::try_from(n).unwrap()).to_bits()).collect();
    let changing: Vec<_> = (STABLE..64).chain(64 + STABLE..128).map(Teid).collect();
    let mut out = [SessionIndex::NONE; 128];
    let mut views = 0;
    while !stop.load(Ordering::Relaxed) {
        let view = reader.observe();
        view.lookup_teids(&stable_teids, &mut out);
        for (teid, found) in stable_teids.iter().zip(&out) {
            assert_eq!(found.0, teid.0 % 64, "stable TEID {teid} was missed");
        }
        view.ues(DomainId(0)).lookup_v4(&stable_ues, &mut out);
        for (n, found) in (0..).zip(&out[..stable_ues.len()]) {
            assert_eq!(found.0, n, "stable UE was missed");
        }
        view.lookup_teids(&changing, &mut out);
        for (teid, found) in changing.iter().zip(&out) {
            assert!(!found.is_some() || found.0 == teid.0 % 64, "{teid} leads to {found}");
        }
        for session in 0..64 {
            let Some(rules) = view.rules(SessionIndex(session)) else {
                assert!(session >= STABLE);
                continue;
            };
            assert_eq!(rules.up_seid.0 >> 32, u64::from(session));
            let n = u32::try_from(rules.up_seid.0 & 0xffff_ffff).unwrap();
            assert_eq!(rules.qers().len(), usize::try_from(n % 4).unwrap());
            assert!(rules.qers().iter().all(|qer| qer.id == QerId(n)));
        }
        views += 1;
    }
    views
}

/// Installs, modifies and removes the other sessions in turn.
fn write(publisher: &mut Publisher) {
    let span = u64::from(64 - STABLE);
    for n in 0..ROUNDS {
        let session = STABLE + u32::try_from(n % span).unwrap();
        let mark = u32::try_from(n).unwrap();
        let delta = match n / span % 3 {
            0 => install(session, &keys(session), marked(session, mark)),
            1 => RuleDelta { keys: Vec::new(), ..install(session, &[], marked(session, mark)) },
            _ => RuleDelta {
                session: SessionIndex(session),
                keys: keys(session).map(KeyChange::Remove).to_vec(),
                rules: None,
            },
        };
        publisher.apply(id(n), delta);
        // A stable session changes its rules, never its keys.
        let stable = u32::try_from(n).unwrap() % STABLE;
        publisher.apply(id(n), install(stable, &[], marked(stable, mark)));
        while publisher.unobserved() > 64 {
            while publisher.poll_observed().is_some() {}
            thread::yield_now();
        }
    }
}

#[test]
fn readers_never_miss_a_stable_key_and_see_whole_rules() {
    let (mut publisher, readers) = build(TablesConfig { sessions_max: 64, ..config(2) }).unwrap();
    for session in 0..STABLE {
        publisher.apply(id(0), install(session, &keys(session), marked(session, 0)));
    }
    let stop = AtomicBool::new(false);
    let start = Barrier::new(3);
    let views: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> =
            readers.into_iter().map(|reader| scope.spawn(|| read(reader, &start, &stop))).collect();
        start.wait();
        write(&mut publisher);
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(views.iter().all(|views| *views > 0), "{views:?}");
    while publisher.poll_observed().is_some() {}
    assert_eq!(publisher.unobserved(), 0);
    assert_eq!(publisher.counters().keys_refused, 0);
}

#[test]
fn snapshot_of_a_running_worker_keeps_the_packet_identity() {
    let worker = WorkerCounters::default();
    let stop = AtomicBool::new(false);
    let torn = thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                worker.update(|counters| {
                    counters.received_pkts.add(3);
                    counters.count_transmitted(Direction::Uplink, 1, 64);
                    counters.count_drops(DropReason::FarDrop, 1);
                    counters.buffered_pkts.add(1);
                });
                // The rest of a step, in which nothing is written.
                (0..200).for_each(|_| std::hint::spin_loop());
            }
        });
        while worker.received_pkts.load() == 0 {
            thread::yield_now();
        }
        let snapshots = (0..20_000).map(|_| Snapshot::sum([&worker]));
        let torn = snapshots.filter(|snapshot| !snapshot.identity_holds()).count();
        stop.store(true, Ordering::Relaxed);
        torn
    });
    assert_eq!(torn, 0);
}
