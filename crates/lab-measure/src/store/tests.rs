//! A load against a store in memory over the loopback device, and the figures of runs.

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};

use adit_transport::{KernelTcp, KernelWait};

use super::StoreTurn;
use super::case::{StoreCase, StoreOperation, StoreTransport};
use super::distribution::{OperationTime, OperationTimes};
use super::load::{LoadControl, LoadOutcome, RunClock, StoreLoad};
use super::report::{add_ratios, add_run};
use super::server::serve;
use crate::report::Report;

fn load(wait: KernelWait, case: StoreCase) -> LoadOutcome {
    let peer = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (clock, done) = (RunClock::start(), AtomicBool::new(false));
    let control = LoadControl { rests: true, ..LoadControl::default() };
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| {
            let mut transport = KernelTcp::new(KernelWait::Poll).unwrap();
            serve(&mut transport, clock, peer, &control, &done)
        });
        let mut transport = KernelTcp::new(wait).unwrap();
        let outcome =
            StoreLoad::connect(&mut transport, clock, peer, &case, &control).unwrap().run();
        done.store(true, Ordering::Relaxed);
        serving.join().unwrap().unwrap();
        outcome.unwrap()
    })
}

#[test]
fn every_operation_of_a_closed_loop_is_timed_once() {
    for (wait, operation, clients) in [
        (KernelWait::Sleep, StoreOperation::Set, 1),
        (KernelWait::Poll, StoreOperation::Get, 1),
        (KernelWait::Sleep, StoreOperation::Get, 7),
        (KernelWait::Poll, StoreOperation::Set, 7),
    ] {
        let case =
            StoreCase { operation, value_bytes: 9000, clients, operations: 2001, rate: None };
        let outcome = load(wait, case);
        assert_eq!(outcome.times.count(), 2001);
        let [(_, min_ns), .., (_, max_ns)] = outcome.times.figures();
        assert!(min_ns > 0 && outcome.elapsed_ns >= max_ns, "{min_ns} {max_ns}");
    }
}

#[test]
fn latencies_at_a_rate_count_from_the_intended_start() {
    let case = StoreCase {
        operation: StoreOperation::Set,
        value_bytes: 10,
        clients: 3,
        operations: 500,
        rate: Some(5000),
    };
    let outcome = load(KernelWait::Sleep, case);
    let mut starts: Vec<u64> = outcome.times.all().iter().map(|time| time.start_ns).collect();
    starts.sort_unstable();
    assert!(starts.iter().eq((0..500).map(|nth| nth * 200_000).collect::<Vec<_>>().iter()));
    assert!(outcome.elapsed_ns >= 499 * 200_000);
}

#[test]
fn figures_have_rates_and_ratios_to_the_blocking_client_of_the_same_round() {
    let (blocking, polled) = (StoreTransport::Blocking, StoreTransport::Polled);
    let operation = StoreOperation::Set;
    let case = StoreCase { operation, value_bytes: 1024, clients: 1, operations: 2, rate: None };
    let mut report = Report::default();
    for (round, transport, latency_ns) in
        [(1, blocking, 1000), (1, polled, 500), (2, blocking, 2000), (2, polled, 500)]
    {
        let mut times = OperationTimes::new(2);
        for start_ns in [0, latency_ns] {
            times.record(OperationTime { start_ns, latency_ns });
        }
        let outcome = LoadOutcome { times, elapsed_ns: 2 * latency_ns };
        let turn = StoreTurn { transport, case: Some(case), number: 1, round };
        add_run(&mut report, &turn, &case, &outcome, round == 2);
    }
    add_ratios(&mut report);
    let find = |name: &str| report.figures.iter().find(|figure| figure.name == name).unwrap();
    let ratio = find("p50 to blocking, SET, 1024 B, 1 client, polled");
    assert_eq!((ratio.min, ratio.max, ratio.runs), (250, 500, 2));
    assert_eq!(find("rate, SET, 1024 B, 1 client, polled").median, 2_000_000);
    assert_eq!(find("max, SET, 1024 B, 1 client, blocking").max, 2000);
    assert_eq!((report.cases.len(), report.plots[0].series.len(), report.plots.len()), (2, 2, 3));
    assert_eq!(report.cases[0].axes["clients"], 1);
}
