//! Rates that change in the middle of traffic.

use super::*;

/// A change in the middle of traffic.
#[derive(Debug, Clone, Copy)]
pub(super) enum MidTrafficChange {
    Nothing,
    Rate(u64),
    CloseGate,
    Qfi(u8),
}

impl MidTrafficChange {
    pub(super) fn change(self) -> Option<SessionChange> {
        let id = QerId(1);
        let none = QerUpdate::default();
        let update = match self {
            Self::Nothing => return None,
            Self::Rate(bps) => QerUpdate { id, mbr: Change::Set(rates(bps, bps)), ..none },
            Self::CloseGate => {
                let gates = QerGates { uplink: Gate::Closed, downlink: Gate::Closed };
                QerUpdate { id, gates: Change::Set(gates), ..none }
            }
            Self::Qfi(qfi) => QerUpdate { id, qfi: Qfi::new(qfi).into(), ..none },
        };
        Some(SessionChange { update_qers: vec![update], ..SessionChange::default() })
    }
}

/// Two flows: the first, of 100 Mb/s, has a QER that changes after a second; the second is at its
/// limit of 200 Mb/s. Also returns how many packets of the second had left after each step.
fn changed(excess: Excess, turn: MidTrafficChange) -> (RateTest, [u64; 2], Vec<u64>) {
    let mut stage = RateTest::new(excess, 1, 16);
    for rate in [100 * MBIT, 200 * MBIT] {
        let session = stage.session((rate, rate));
        stage.flow(session, Direction::Downlink, 1400, rate / 10 * 12);
    }
    stage.settle();
    stage.pass(Nanos::from_secs(1), STEP);
    if let Some(change) = turn.change() {
        stage.modify(0, change);
    }
    let before = stage.flows[0].sent;
    let mut other = Vec::new();
    let mut first = 0;
    for at in 0..5000 {
        stage.step(STEP, |_| {});
        other.push(stage.flows[1].sent);
        if at == 0 {
            first = stage.flows[0].sent - before;
        }
    }
    let all = stage.flows[0].sent - before;
    while stage.publisher.poll_observed().is_some() {}
    (stage, [first, all], other)
}

#[test]
fn change_in_the_middle_of_traffic_counts_at_once_and_for_nobody_else() {
    for excess in BOTH {
        let (_, _, undisturbed) = changed(excess, MidTrafficChange::Nothing);
        let expect = |turn: MidTrafficChange| {
            let (stage, [first, all], other) = changed(excess, turn);
            assert!(other == undisturbed, "{excess:?} {turn:?} disturbed another flow");
            (stage, first, all)
        };
        let (_, first, all) = expect(MidTrafficChange::Rate(0));
        assert_eq!((first, all), (0, 0), "{excess:?}");
        let (stage, first, all) = expect(MidTrafficChange::CloseGate);
        assert_eq!((first, all), (0, 0), "{excess:?}");
        assert!(stage.dropped(DropReason::GateClosed) > 0);
        for mbit in [10, 50, 400] {
            let (_, _, all) = expect(MidTrafficChange::Rate(mbit * MBIT));
            // Packets that waited leave in addition, because the flow offers less than the highest
            // rate.
            let rate = (mbit * MBIT).min(120 * MBIT);
            let waited = if excess == Excess::Shaped && mbit == 400 { 512 } else { 0 };
            let error = error((all - waited) * 1400, rate, 1);
            println!("{}: 100 Mb/s to {mbit} Mb/s: {:+.3} %", name(excess), error * 100.0);
            let one = 1400.0 / (rate as f64 / 80.0);
            assert!(error.abs() <= bound(excess) + one, "{excess:?} {mbit}: {error}");
        }
        let (stage, _, all) = expect(MidTrafficChange::Qfi(17));
        check(excess, &[all * 1400], 100 * MBIT, 1400);
        assert_eq!(stage.flows.iter().map(|flow| flow.qfi).collect::<Vec<u8>>(), [17, 9]);
    }
}

/// A session with a flow whose packets wait at 64 kb/s, and a second flow. Returns the flows of the
/// packets that leave during `change` and after it.
fn order_behind(change: Option<SessionChange>) -> (RateTest, Vec<usize>) {
    const WAITING: usize = 20;
    let mut stage = RateTest::one(Excess::Shaped, (64_000, 64_000));
    let [first, second] = [(), ()].map(|()| stage.flow(0, Direction::Uplink, 1400, 0));
    let mut order = Vec::new();
    (0..WAITING).for_each(|_| stage.offer(first));
    (0..100).for_each(|_| stage.step(STEP, |flow| order.push(flow)));
    assert!(order.len() < 3 && stage.counts().shaped_pkts > 0);
    match change {
        Some(change) => stage.modify(0, change),
        None => {
            stage.delete(0);
            stage.step(STEP, |flow| order.push(flow));
            return (stage, order);
        }
    }
    // By the stages and, after all workers run the rules, on the fast path.
    for _ in 0..10 {
        stage.offer(second);
        stage.step(STEP, |flow| order.push(flow));
        while stage.publisher.poll_observed().is_some() {}
    }
    (0..250).for_each(|_| stage.step(STEP, |flow| order.push(flow)));
    (stage, order)
}

/// The packets of the first flow left first, then those of the second.
fn in_order() -> Vec<usize> {
    [vec![0; 20], vec![1; 10]].concat()
}

#[test]
fn raised_rate_reaches_what_waits_at_once() {
    let (stage, order) = order_behind(MidTrafficChange::Rate(100 * MBIT).change());
    // At 64 kb/s the next packet was due after 175 ms; all of it takes 3.4 ms now, less the depth.
    assert_eq!(order, in_order());
    assert_eq!(stage.counts().shaped_pkts, 0);
}

#[test]
fn what_waits_for_a_rate_that_no_pdr_names_any_more_leaves_ahead_of_later_packets() {
    let bare = PdrUpdate { id: PdrId(1), qers: Change::Set(Vec::new()), ..PdrUpdate::default() };
    let (stage, order) =
        order_behind(Some(SessionChange { update_pdrs: vec![bare], ..SessionChange::default() }));
    assert_eq!(order, in_order());
    assert_eq!(stage.counts().shaped_pkts, 0);
    // The waiting packets, and all but the first of the others.
    assert!((21..30).contains(&stage.counts().express_pkts));
    // When the session ends, the packets that wait for its rates are dropped.
    let (stage, order) = order_behind(None);
    assert_eq!(order, [0]);
    let counts = stage.counts();
    assert_eq!((counts.shaped_pkts, counts.dropped_pkts()), (0, 19));
    assert_eq!(counts.drops[DropReason::BufferDiscarded.index()], 19);
}

#[test]
fn what_waits_is_looked_at_where_more_rates_changed_than_are_remembered() {
    let mut stage = RateTest::new(Excess::Shaped, 1, 16);
    let (slow, other) = (stage.session((64_000, 64_000)), stage.session((MBIT, MBIT)));
    let flow = stage.flow(slow, Direction::Uplink, 1400, 0);
    stage.settle();
    (0..20).for_each(|_| stage.offer(flow));
    stage.step(STEP, |_| {});
    stage.modify(slow, MidTrafficChange::Rate(100 * MBIT).change().unwrap());
    for bps in 1..=RATE_CHANGES_LEN as u64 {
        stage.modify(other, MidTrafficChange::Rate(MBIT + bps).change().unwrap());
    }
    stage.pass(Nanos::from_millis(5), STEP);
    assert_eq!((stage.flows[flow].sent, stage.counts().shaped_pkts), (20, 0));
}

#[test]
fn burst_behind_a_change_of_the_qos_flow_is_marked_anew() {
    let mut stage = RateTest::one(Excess::Policed, (100 * MBIT, 100 * MBIT));
    stage.flow(0, Direction::Downlink, 1400, 120 * MBIT);
    let change_at = |stage: &mut RateTest, qfi: u8| {
        stage.modify(0, MidTrafficChange::Qfi(qfi).change().unwrap());
        let before = stage.flows[0].sent;
        while stage.flows[0].sent == before {
            stage.step(STEP, |_| {});
            if stage.flows[0].sent > before {
                assert_eq!(stage.flows[0].qfi, qfi);
            }
        }
        while stage.publisher.poll_observed().is_some() {}
    };
    for qfi in 1..60 {
        change_at(&mut stage, qfi);
    }
}
