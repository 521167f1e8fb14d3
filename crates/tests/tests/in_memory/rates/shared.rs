//! Rates that sessions share: their accuracy, guarantees first, then the rest by weight.

use adit_session::{Slice, SliceIdentity};

use super::*;

/// The rate that all sessions share.
const TOTAL: u64 = 100 * MBIT;

/// Maximum bit rates of sessions without a guarantee, each of which offers 1.2 times as much.
const OTHERS: [u64; 4] = [200 * MBIT, 100 * MBIT, 50 * MBIT, 25 * MBIT];

fn sharing(excess: Excess, total: u64) -> QosPolicy {
    let shared = Enforcement { shared: excess, ..policy(Excess::Shaped).uplink };
    let total = rates(total, total);
    QosPolicy { uplink: shared, downlink: shared, total, ..policy(excess) }
}

/// A session with a guaranteed bit rate of both directions.
pub(super) fn guaranteed(stage: &mut RateTest, gbr: u64, mbr: u64) -> usize {
    stage.session_of(OwnerId(1), (mbr, mbr), |change| {
        change.create_qers[0].gbr = Some(rates(gbr, gbr))
    })
}

fn in_slice(stage: &mut RateTest, sst: u8, mbr: u64) -> usize {
    let s_nssai = Some(SliceIdentity { sst, sd: None });
    stage.session_of(OwnerId(1), (mbr, mbr), |change| change.s_nssai = s_nssai)
}

/// Octets of each flow in `windows` windows.
fn windows(stage: &mut RateTest, count: usize) -> Vec<Vec<u64>> {
    (0..count).map(|_| stage.window(STEP)).collect()
}

fn sums(windows: &[Vec<u64>]) -> Vec<u64> {
    windows.iter().map(|bytes| bytes.iter().sum()).collect()
}

fn of(windows: &[Vec<u64>], flow: usize) -> u64 {
    windows.iter().map(|bytes| bytes[flow]).sum()
}

#[test]
fn guaranteed_flow_loses_nothing_and_waits_for_nobody_while_others_offer_three_times_the_rate() {
    for direction in [Direction::Uplink, Direction::Downlink] {
        let mut stage = RateTest::with(sharing(Excess::Shaped, TOTAL), 1, 16);
        let gbr = 20 * MBIT;
        let session = guaranteed(&mut stage, gbr, gbr);
        let flow = stage.flow(session, direction, 200, gbr / 10 * 8);
        for mbr in OTHERS {
            let session = stage.session((mbr, mbr));
            stage.flow(session, direction, 1400, mbr / 10 * 12);
        }
        stage.settle();
        let end = stage.now + Nanos::from_secs(1);
        while stage.now < end {
            stage.step(STEP, |_| {});
            let SteadyFlow { offered, sent, .. } = stage.flows[flow];
            assert_eq!(offered, sent, "it leaves in the step in which it comes");
        }
        let windows = windows(&mut stage, 10);
        let errors = check(Excess::Shaped, &sums(&windows), TOTAL, 1400);
        println!("{direction:?}: all together {errors:+.6?}");
        let SteadyFlow { offered, sent, .. } = stage.flows[flow];
        assert_eq!(offered, sent);
        // 84 Mb/s are left, by the maximum bit rates.
        let all: u64 = OTHERS.iter().sum();
        for (other, mbr) in (flow + 1..).zip(OTHERS) {
            let share = (TOTAL - gbr / 10 * 8) as f64 * mbr as f64 / all as f64;
            let error = error(of(&windows, other), share as u64, windows.len());
            println!("  {} Mb/s: {:.3} Mb/s, {:+.3} %", mbr / MBIT, share / 1e6, error * 100.0);
            assert!(error.abs() < 0.02, "{mbr}: {error}");
        }
        assert_eq!(stage.dropped(DropReason::ShapingQueueFull), stage.counts().dropped_pkts());
    }
}

#[test]
fn what_exceeds_a_guarantee_does_not_go_ahead() {
    let mut stage = RateTest::with(sharing(Excess::Shaped, TOTAL), 1, 16);
    let (gbr, mbr) = (20 * MBIT, 60 * MBIT);
    let session = guaranteed(&mut stage, gbr, mbr);
    let flow = stage.flow(session, Direction::Uplink, 1000, mbr);
    for mbr in OTHERS {
        let session = stage.session((mbr, mbr));
        stage.flow(session, Direction::Uplink, 1400, mbr / 10 * 12);
    }
    stage.settle();
    stage.pass(Nanos::from_secs(1), STEP);
    let windows = windows(&mut stage, 10);
    check(Excess::Shaped, &sums(&windows), TOTAL, 1400);
    let error = error(of(&windows, flow), gbr, windows.len());
    println!("guaranteed 20 Mb/s of 60: {:+.4} %", error * 100.0);
    assert!((0.0..0.02).contains(&(error + 0.005)), "{error}");
    // Alone, it has its maximum.
    (1..=OTHERS.len()).for_each(|other| stage.flows[other].offered_bps = 0);
    stage.pass(Nanos::from_secs(2), STEP);
    let windows = super::shared::windows(&mut stage, 5);
    let alone: Vec<u64> = windows.iter().map(|bytes| bytes[flow]).collect();
    check(Excess::Shaped, &alone, mbr, 1000);
}

#[test]
fn aggregate_is_kept_by_several_workers_together() {
    for excess in BOTH {
        for workers in [1, 3] {
            let mut stage = RateTest::with(sharing(excess, 10 * TOTAL), workers, 64);
            for _ in 0..12 {
                let session = stage.session((UNLIMITED, UNLIMITED));
                stage.flow(session, Direction::Downlink, 1400, 150 * MBIT);
            }
            stage.settle();
            stage.pass(Nanos::from_secs(1), STEP);
            let windows = windows(&mut stage, 5);
            let errors = check(excess, &sums(&windows), 10 * TOTAL, 1400);
            println!("{}, {workers} workers: {errors:+.6?}", name(excess));
            let reason = match excess {
                Excess::Policed => DropReason::AggregateExceeded,
                Excess::Shaped => DropReason::ShapingQueueFull,
            };
            assert_eq!(stage.dropped(reason), stage.counts().dropped_pkts());
            assert!(stage.dropped(reason) > 0);
        }
    }
}

#[test]
fn slice_keeps_its_rate_inside_that_of_all_and_disturbs_nobody() {
    let slice = |sst, mbit: u64| Slice {
        s_nssai: Some(SliceIdentity { sst, sd: None }),
        network_instance: None,
        rates: rates(mbit * MBIT, mbit * MBIT),
    };
    let slices = vec![slice(1, 30), slice(2, 500)];
    let qos = QosPolicy { slices, ..sharing(Excess::Shaped, TOTAL) };
    let mut stage = RateTest::with(qos, 1, 16);
    for (sst, mbit) in [(1, 40), (1, 20), (2, 60), (3, 30)] {
        let session = in_slice(&mut stage, sst, mbit * MBIT);
        stage.flow(session, Direction::Uplink, 1400, mbit * MBIT);
    }
    stage.settle();
    stage.pass(Nanos::from_secs(1), STEP);
    let all = windows(&mut stage, 10);
    check(Excess::Shaped, &sums(&all), TOTAL, 1400);
    let shares: Vec<f64> = (0..4).map(|flow| of(&all, flow) as f64 * 8.0 / 1e6).collect();
    println!("slice of 30 Mb/s, another, and none, in 100 Mb/s: {shares:.3?} Mb/s");
    // The first slice has a weight of 60 Mb/s and a rate of 30; the others share the rest.
    for (share, expected) in shares.iter().zip([20.0, 10.0, 70.0 / 1.5, 70.0 / 3.0]) {
        assert!((share - expected).abs() < expected * 0.02, "{share} of {expected}");
    }
    // Without the others the slice still has its rate only.
    (2..4).for_each(|flow| stage.flows[flow].offered_bps = 0);
    stage.pass(Nanos::from_secs(1), STEP);
    let alone = windows(&mut stage, 5);
    check(Excess::Shaped, &sums(&alone), 30 * MBIT, 1400);
}

#[test]
fn backlog_of_one_session_costs_others_nothing_where_the_aggregate_drops() {
    let mut stage = RateTest::with(sharing(Excess::Policed, TOTAL), 1, 16);
    let busy = stage.session((150 * MBIT, 150 * MBIT));
    stage.flow(busy, Direction::Downlink, 1400, 180 * MBIT);
    let calm = stage.session((20 * MBIT, 20 * MBIT));
    stage.flow(calm, Direction::Downlink, 1400, 20 * MBIT);
    stage.settle();
    stage.pass(Nanos::from_secs(1), STEP);
    let windows = windows(&mut stage, 5);
    check(Excess::Policed, &sums(&windows), TOTAL, 1400);
    // With equal loss, it has a seventh of the rate or more.
    let share = of(&windows, 1) as f64 * 8.0 / 5e5;
    println!("20 Mb/s beside a backlog of 150 Mb/s in 100 Mb/s: {share:.2} Mb/s");
    assert!(share > 8.0, "{share}");
}

#[test]
fn closed_gate_stops_what_waits_for_an_aggregate_alone() {
    let mut stage = RateTest::with(sharing(Excess::Shaped, TOTAL), 1, 16);
    for _ in 0..2 {
        let session = stage.session((UNLIMITED, UNLIMITED));
        stage.flow(session, Direction::Uplink, 1400, 150 * MBIT);
    }
    stage.settle();
    stage.pass(Nanos::from_secs(1), STEP);
    assert!(stage.counts().shaped_pkts > 100);
    stage.modify(0, MidTrafficChange::CloseGate.change().unwrap());
    let before = stage.flows[0].sent;
    stage.pass(Nanos::from_millis(100), STEP);
    assert_eq!(stage.flows[0].sent, before);
    assert!(stage.dropped(DropReason::GateClosed) > 100);
    let other = stage.window(STEP)[1];
    assert!(error(other, TOTAL, 1).abs() < 0.01, "{other}");
}
