//! Judgments of windows with given contents.

use clap::Parser;

use super::*;
use crate::command::{MeasureCli, MeasureCommand};
use adit_lab_engine::histogram::Latency;
use adit_lab_engine::stream::Sending;
use adit_lab_engine::tally::Arrivals;
use adit_lab_engine::trial::StreamOutcome;

fn arguments(more: &[&str]) -> RatesArguments {
    let words = ["adit-lab", "rates", "--groups", "x"].iter().chain(more);
    match MeasureCli::try_parse_from(words).unwrap().command {
        MeasureCommand::Rates(arguments) => *arguments,
        other => panic!("{other:?}"),
    }
}

/// Makes a group of `sessions` sessions with 8 Mb/s each: 100 000 octets per window.
fn group(sessions: u32, offered: &[u64], correlation_id: Option<u32>) -> SessionGroup {
    use adit_lab_smf::profile::Kbps;
    let mbr_kbps = Some(Kbps::Both(8000));
    let rules = adit_lab_smf::SessionProfile {
        rate_qers: 1,
        mbr_kbps,
        correlation_id,
        ..Default::default()
    };
    let offered_bps = [offered.to_vec(), Vec::new()];
    let size = "1000".parse().unwrap();
    SessionGroup {
        name: "g".to_owned(),
        first: 0,
        sessions,
        size,
        offered_bps,
        share_bps: None,
        rules,
    }
}

/// Makes the outcome of a trial with these octets by window and session.
fn outcome(offered: &[&[u32]], received: &[&[u32]]) -> TrialOutcome {
    let mut windows = Windows::new(0, WINDOW_NS, offered.len(), 0, offered[0].len());
    let times = |index: usize| u64::try_from(index).unwrap() * WINDOW_NS;
    let each = |rows: &[&[u32]]| -> Vec<(u64, u32, u32)> {
        let of = |(at, row): (usize, &&[u32])| {
            (0u32..)
                .zip(row.to_vec())
                .map(move |(session, octets)| (times(at), session, octets))
                .collect::<Vec<_>>()
        };
        rows.iter().enumerate().flat_map(of).collect()
    };
    each(offered).into_iter().for_each(|(at, session, octets)| windows.offer(at, session, octets));
    for (sequence, (at, session, octets)) in (0u32..).zip(each(received)) {
        windows.receive(at, session, octets, sequence);
    }
    let stream = |windows| StreamOutcome {
        sending: Sending::default(),
        arrivals: Arrivals::default(),
        latency: Latency::new(),
        seconds: Vec::new(),
        lateness: Latency::new(),
        windows,
    };
    TrialOutcome {
        streams: vec![stream(Some(windows)), stream(None)],
        sending_ns: times(offered.len()),
        gap_ns_max: 0,
        absences: 0,
        absent_ns: 0,
        window_gaps_ns: vec![0; offered.len()],
        other_frames: 0,
        complete: true,
    }
}

fn judged(arguments: &RatesArguments, group: SessionGroup, outcome: &TrialOutcome) -> GroupReport {
    let mut reports = judge(arguments, &[group], outcome);
    assert_eq!(reports.len(), 1, "the downlink was offered nothing");
    reports.remove(0)
}

#[test]
fn mean_and_worst_window_are_those_after_the_settling_time() {
    let arguments = arguments(&["--settle", "100ms", "--duration", "500ms"]);
    let offered: Vec<&[u32]> = vec![&[120_000]; 5];
    let received: [&[u32]; 5] = [&[120_000], &[100_000], &[101_000], &[98_000], &[100_000]];
    let mut outcome = outcome(&offered, &received);
    outcome.window_gaps_ns[3] = 2 * QUIET_GAP_NS;
    let report = judged(&arguments, group(1, &[9_600_000], None), &outcome);
    assert_eq!((&*report.name, report.limit_bps), ("g, uplink", Some(8_000_000)));
    assert_eq!(report.received_bps, [9_600_000, 8_000_000, 8_080_000, 7_840_000, 8_000_000]);
    let accuracy = report.accuracy.unwrap();
    assert_eq!((accuracy.windows, accuracy.mean_bps, accuracy.error_ppm), (4, 7_980_000, -2500));
    assert_eq!((accuracy.worst_window_ppm, accuracy.window_packet_ppm), (-20_000, 10_000));
    assert_eq!((accuracy.quiet_windows, accuracy.worst_quiet_ppm), (3, 10_000));
    assert_eq!((accuracy.session_worst_ppm, accuracy.session_packet_ppm), (-2500, 2500));
    assert_eq!(report.below, None);
}

#[test]
fn turns_below_the_limit_are_compared_with_what_was_offered() {
    let arguments = arguments(&["--settle", "100ms", "--step", "200ms", "--duration", "800ms"]);
    let (low, high): (&[u32], &[u32]) = (&[80_000], &[120_000]);
    let offered = [low, low, high, high, low, low, high, high];
    let received: [&[u32]; 8] = [
        &[80_000],
        &[80_000],
        &[120_000],
        &[100_000],
        &[100_000],
        &[79_200],
        &[120_000],
        &[100_400],
    ];
    let outcome = outcome(&offered, &received);
    let report = judged(&arguments, group(1, &[6_400_000, 9_600_000], None), &outcome);
    assert_eq!(report.below, Some(BelowLimit { windows: 2, error_ppm: -5000 }));
    let accuracy = report.accuracy.unwrap();
    assert_eq!((accuracy.windows, accuracy.error_ppm, accuracy.worst_window_ppm), (2, 2000, 4000));
}

#[test]
fn sessions_are_judged_each_by_its_own_limit_unless_they_share_it() {
    let arguments = arguments(&["--settle", "100ms", "--duration", "300ms"]);
    let offered: Vec<&[u32]> = vec![&[120_000, 120_000]; 3];
    let received: [&[u32]; 3] = [&[1, 1], &[110_000, 90_000], &[110_000, 92_000]];
    let own = outcome(&offered, &received);
    let report = judged(&arguments, group(2, &[9_600_000], None), &own);
    assert_eq!(report.each_bps[1], [80, 7_200_000, 7_360_000]);
    let accuracy = report.accuracy.unwrap();
    assert_eq!((accuracy.mean_bps, accuracy.error_ppm), (16_080_000, 5000));
    assert_eq!((accuracy.session_mean_ppm, accuracy.session_worst_ppm), (95_000, 100_000));
    assert_eq!(accuracy.worst_window_ppm.abs(), 100_000);
    let report = judged(&arguments, group(2, &[9_600_000], Some(7)), &own);
    let accuracy = report.accuracy.unwrap();
    assert_eq!((report.limit_bps, accuracy.error_ppm), (Some(8_000_000), 1_010_000));
    assert_eq!((accuracy.session_mean_ppm, accuracy.session_worst_ppm), (0, 0));
}

#[test]
fn findings_name_what_is_beyond_the_tolerance() {
    let accuracy = |error_ppm| Some(RateAccuracy { error_ppm, ..RateAccuracy::default() });
    let below = |error_ppm| Some(BelowLimit { windows: 1, error_ppm });
    let report = |accuracy, below, reordered| GroupReport {
        name: "g".into(),
        accuracy,
        below,
        reordered,
        ..Default::default()
    };
    let found = |group| findings(&[group], 10_000);
    assert!(found(report(accuracy(-10_000), below(50_000), 0)).is_empty());
    assert_eq!(
        found(report(accuracy(-10_001), below(-123_456), 3)),
        [
            "g: the mean is −1.000 % from the limit",
            "g: 12.345 % lost within the limit",
            "g: 3 packets arrived after later packets of their session",
        ]
    );
}

#[test]
fn lengths_that_leave_nothing_to_count_are_refused() {
    let turns = [group(1, &[1, 2], None)];
    let check = |more: &[&str]| arguments(more).check(&turns).map_err(|error| error.to_string());
    assert_eq!(check(&[]), Ok(()));
    for (more, wanted) in [
        (["--duration", "1050ms"], "--duration is not a multiple of 100 ms"),
        (["--step", "1s"], "--settle leaves no window that counts"),
        (["--duration", "1s"], "--settle leaves no window that counts"),
        (["--duration", "86400s"], ""),
    ] {
        match check(&more) {
            Err(error) => assert!(error.starts_with(wanted) && !wanted.is_empty(), "{error}"),
            Ok(()) => assert!(wanted.is_empty(), "{more:?}"),
        }
    }
    let many = [group(1_000_000, &[1], None)];
    assert!(arguments(&["--duration", "60s"]).check(&many).is_err());
}

#[test]
fn group_has_its_figures_and_a_plot_with_its_limit() {
    let group = GroupReport {
        name: "two".to_owned(),
        sessions: 2,
        size: "1052 B".to_owned(),
        limit_bps: Some(2_000_000),
        offered_bps: vec![1_200_000; 3],
        received_bps: vec![1_000_000; 3],
        each_bps: vec![vec![500_000; 3]; 2],
        accuracy: Some(RateAccuracy {
            error_ppm: -1234,
            session_worst_ppm: 6000,
            ..RateAccuracy::default()
        }),
        ..GroupReport::default()
    };
    let mut report = Report::default();
    group.add_to(&StreamReport::default(), &mut report);
    assert_eq!(report.values(ERRORS[0], "two"), [1234]);
    assert_eq!(report.values(SESSION_ERRORS[1], "two"), [6000]);
    assert_eq!(report.cases[0].axes["limit of a session, Mb/s"], 1.0);
    let plot = &report.plots[0];
    let names: Vec<&str> = plot.series.iter().map(|series| &*series.name).collect();
    assert_eq!(names, ["offered", "received", "limit", "session 1", "session 2", "limit of each"]);
    assert!(plot.series[5].is_reference && plot.title == "two, 1052 B");
}
