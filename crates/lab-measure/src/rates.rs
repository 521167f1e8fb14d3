//! `adit-lab rates`: offers changing rates and compares the received rates, in windows of 100 ms, with
//! the maximum bit rates of the sessions' QERs.

use std::path::PathBuf;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::base::ReportBase;
use super::groups::{self, SessionGroup};
use super::report::OutputArguments;
use super::report::{Figure, StreamReport, TrialReport};
use super::rig::Rig;
use super::target::TargetArguments;
use super::testbed::TestbedArguments;
use super::traffic::span_ns;
use adit_lab_engine::clock::{NS_PER_S, scaled};
use adit_lab_engine::trial::TrialOutcome;
use adit_lab_engine::windows::Windows;
use adit_lab_process::stop::{Interrupted, Stop, environment};

/// Length of a window. Unit: ns.
const WINDOW_NS: u64 = 100_000_000;
/// Longest absence of the tester in a quiet window: 0.25 % of it.
const QUIET_GAP_NS: u64 = WINDOW_NS / 400;
/// Groups with at most this many sessions report each session.
const EACH_MAX: usize = 8;
/// Maximum of sessions times windows: 1 GiB per stream.
const CELLS_MAX: u64 = 1 << 27;
const DIRECTIONS: [&str; 2] = ["uplink", "downlink"];
const PPM: u64 = 1_000_000;

/// Options of `adit-lab rates`.
#[derive(Debug, clap::Args)]
pub struct RatesArguments {
    #[command(flatten)]
    bench: TestbedArguments,
    #[command(flatten)]
    target: TargetArguments,
    /// File with the groups of sessions: their rules and offered rates.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rule_profile", "sessions"])]
    groups: PathBuf,
    /// Total duration, in steps of 100 ms.
    #[arg(long, value_name = "TIME", default_value = "12s", value_parser = span_ns)]
    duration: u64,
    /// Duration of each offered rate of a group with several, in steps of 100 ms.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = span_ns)]
    step: u64,
    /// Time after the start, and after each change of rate, before windows count.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = span_ns)]
    settle: u64,
    /// Allowed error of the mean rate of a limited group, and allowed loss of the others, in parts
    /// per million.
    #[arg(long, value_name = "PPM", default_value_t = 10_000)]
    tolerance: u64,
    #[command(flatten)]
    output: OutputArguments,
}

/// The report of `adit-lab rates`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct RatesReport {
    /// Machine, target, figures.
    #[serde(flatten)]
    pub base: ReportBase,
    /// Length of a window. Unit: ns.
    pub window_ns: u64,
    /// Time after a change of the rate until windows count. Unit: ns.
    pub settle_ns: u64,
    /// The whole trial, with a stream for each direction of each group.
    pub trial: TrialReport,
    /// Longest absence of the tester in each window. Unit: ns.
    pub gaps_ns: Vec<u64>,
    /// Groups by direction, if the direction has traffic.
    pub groups: Vec<GroupReport>,
    /// One sentence for each result beyond the tolerance.
    pub findings: Vec<String>,
}

/// One direction of one group. Rates count the octets of IP packets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct GroupReport {
    /// Name and direction; also the name of the stream in the trial.
    pub name: String,
    /// Sessions.
    pub sessions: u32,
    /// Sizes.
    pub size: String,
    /// Total rate that the rules allow all sessions. Unit: bit/s.
    pub limit_bps: Option<u64>,
    /// True if the sessions share this limit.
    pub shared: bool,
    /// Offered rate of all sessions by window. Unit: bit/s.
    pub offered_bps: Vec<u64>,
    /// Received rate of all sessions by window. Unit: bit/s.
    pub received_bps: Vec<u64>,
    /// Received rate of each session by window, for 2 to 8 sessions. Unit: bit/s.
    pub each_bps: Vec<Vec<u64>>,
    /// Packets that arrived after a later packet of their session.
    pub reordered: u64,
    /// Accuracy in windows whose offered rate exceeds the limit.
    pub accuracy: Option<RateAccuracy>,
    /// Received against offered, in windows that offer no more than the limit.
    pub below: Option<BelowLimit>,
}

/// Windows whose offered rate is within the limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BelowLimit {
    /// Number of windows.
    pub windows: u64,
    /// Difference of received from offered octets. Unit: parts per million of the offered ones.
    pub error_ppm: i64,
}

/// Accuracy of a limit, in windows whose offered rate exceeds it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RateAccuracy {
    /// Number of windows.
    pub windows: u64,
    /// Mean received rate. Unit: bit/s.
    pub mean_bps: u64,
    /// Difference of the mean from the limit. Unit: parts per million of the limit.
    pub error_ppm: i64,
    /// Error of the window and session farthest from its limit; of the sum of all sessions if there
    /// are more than eight or they share the limit.
    pub worst_window_ppm: i64,
    /// Contribution of one packet in one window.
    pub window_packet_ppm: u64,
    /// Number of windows without an absence of the tester above 0.25 % of the window.
    pub quiet_windows: u64,
    /// Error of the worst quiet window.
    pub worst_quiet_ppm: i64,
    /// Mean absolute error of a session over all windows. This field and the two below are zero for
    /// sessions that share a limit.
    pub session_mean_ppm: u64,
    /// Error of the session farthest from its limit, over all windows.
    pub session_worst_ppm: i64,
    /// Contribution of one packet over all windows.
    pub session_packet_ppm: u64,
}

/// Runs the measurement. Returns true if every limit was held within the tolerance.
///
/// # Errors
/// The groups cannot be read, the rig cannot be built, or the target ended. [`Interrupted`], after the
/// report was written.
pub(crate) fn run(arguments: &RatesArguments, stop: &Stop) -> Result<bool> {
    let groups = groups::read(&arguments.groups)?;
    arguments.check(&groups)?;
    let mut target = arguments.target.clone();
    target.sessions = groups.iter().map(|group| group.sessions).sum();
    target.profiles = groups.iter().map(|group| (group.sessions, group.rules.clone())).collect();
    let (mut rig, mut recorder) = Rig::build("rates", &arguments.bench, &target, None, stop)?;
    let mut report = RatesReport {
        base: ReportBase::of(&target, &rig),
        window_ns: WINDOW_NS,
        settle_ns: arguments.settle,
        ..RatesReport::default()
    };
    let result = measure(arguments, &groups, &mut rig, &mut report, stop);
    report.base.figures = figures(&report.groups);
    report.findings = findings(&report, arguments.tolerance);
    if report.trial.tester_limited {
        recorder.warn("the tester could not offer the requested rates");
    }
    for finding in &report.findings {
        recorder.warn(finding.clone());
    }
    report.base.close(rig, recorder, &result)?;
    arguments.output.deliver(&report, print)?;
    result.map(|()| report.findings.is_empty())
}

impl RatesArguments {
    fn check(&self, groups: &[SessionGroup]) -> Result<()> {
        let of_windows = |name: &str, ns: u64| {
            if ns.is_multiple_of(WINDOW_NS) {
                return Ok(());
            }
            Err(environment(format!("{name} is not a multiple of {} ms", WINDOW_NS / 1_000_000)))
        };
        of_windows("--duration", self.duration)?;
        of_windows("--step", self.step)?;
        let turns = groups.iter().flat_map(|group| &group.offered_bps).any(|all| all.len() > 1);
        if self.settle >= if turns { self.step.min(self.duration) } else { self.duration } {
            return Err(environment(
                "--settle leaves no window that counts; shorten it, or lengthen --step and --duration",
            ));
        }
        let sessions: u64 = groups.iter().map(|group| u64::from(group.sessions)).sum();
        if sessions * (self.duration / WINDOW_NS) > CELLS_MAX {
            return Err(environment(
                "sessions × duration take too much memory; reduce the sessions or --duration",
            ));
        }
        Ok(())
    }

    /// The index of the rate that a window belongs to, and whether the window counts.
    fn turn_of(&self, window: usize, turns: usize) -> (usize, bool) {
        let at = u64::try_from(window).unwrap_or(u64::MAX).saturating_mul(WINDOW_NS);
        if turns < 2 {
            return (0, at >= self.settle);
        }
        let turn = usize::try_from(at / self.step).unwrap_or(usize::MAX) % turns;
        (turn, at % self.step >= self.settle)
    }
}

fn measure(
    arguments: &RatesArguments,
    groups: &[SessionGroup],
    rig: &mut Rig,
    report: &mut RatesReport,
    stop: &Stop,
) -> Result<()> {
    rig.set_groups(groups)?;
    let (step, duration) = (arguments.step, arguments.duration);
    let courses = groups.iter().flat_map(|group| [0, 1].map(|at| group.course(at, step, duration)));
    let outcome = rig.follow(courses.collect(), duration, WINDOW_NS, stop)?;
    let names: Vec<String> = groups.iter().flat_map(names).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    report.trial = TrialReport::new(None, &names, &outcome, rig.hz());
    report.gaps_ns.clone_from(&outcome.window_gaps_ns);
    report.groups = judge(arguments, groups, &outcome);
    if outcome.complete { Ok(()) } else { Err(Interrupted.into()) }
}

fn names(group: &SessionGroup) -> [String; 2] {
    DIRECTIONS.map(|direction| format!("{}, {direction}", group.name))
}

/// The reports of all groups and directions with traffic.
fn judge(
    arguments: &RatesArguments,
    groups: &[SessionGroup],
    outcome: &TrialOutcome,
) -> Vec<GroupReport> {
    let each = groups.iter().flat_map(|group| [(group, 0), (group, 1)]);
    let count = usize::try_from(outcome.sending_ns / WINDOW_NS).unwrap_or(usize::MAX);
    each.zip(&outcome.streams)
        .filter(|((group, direction), _)| !group.offered_bps(*direction).is_empty())
        .filter_map(|((group, direction), stream)| {
            let windows = stream.windows.as_ref()?;
            let view = GroupWindows { arguments, group, direction, windows, count };
            Some(view.report(&outcome.window_gaps_ns))
        })
        .collect()
}

/// The first `count` windows of one direction of one group.
struct GroupWindows<'a> {
    arguments: &'a RatesArguments,
    group: &'a SessionGroup,
    direction: usize,
    windows: &'a Windows,
    count: usize,
}

impl GroupWindows<'_> {
    fn report(&self, gaps_ns: &[u64]) -> GroupReport {
        let Self { group, direction, windows, count, .. } = *self;
        let rates = |windows: &mut dyn Iterator<Item = &[u32]>| -> Vec<u64> {
            windows.take(count).map(|octets| bps(sum(octets), 1)).collect()
        };
        let each = |session: usize| -> Vec<u64> {
            let octets = |window: &[u32]| window.get(session).map_or(0, |own| u64::from(*own));
            windows.received().take(count).map(|window| bps(octets(window), 1)).collect()
        };
        let few = (2..=EACH_MAX).contains(&windows.sessions());
        let [uplink, downlink] = names(group);
        GroupReport {
            name: if direction == 0 { uplink } else { downlink },
            sessions: group.sessions,
            size: group.size.title(),
            limit_bps: group.limit_bps(direction),
            shared: group.shares(),
            offered_bps: rates(&mut windows.offered()),
            received_bps: rates(&mut windows.received()),
            each_bps: if few { (0..windows.sessions()).map(each).collect() } else { Vec::new() },
            reordered: windows.reordered,
            accuracy: self.accuracy(gaps_ns),
            below: self.below(),
        }
    }

    /// The windows that count and whose offered rate is above the limit, or not above it.
    fn counting(&self, above: bool) -> Vec<usize> {
        let offered = self.group.offered_bps(self.direction);
        let sessions = u64::from(self.group.sessions);
        let limit = self.group.limit_bps(self.direction).unwrap_or(u64::MAX);
        let counts = |window: &usize| {
            let (turn, counts) = self.arguments.turn_of(*window, offered.len());
            let offered = offered.get(turn).map_or(0, |bps| bps.saturating_mul(sessions));
            counts && (offered > limit) == above
        };
        (0..self.count).filter(counts).collect()
    }

    fn below(&self) -> Option<BelowLimit> {
        let windows = self.counting(false);
        let total = |mut all: Box<dyn Iterator<Item = &[u32]> + '_>| {
            let mut at = 0;
            windows.iter().fold(0, |octets, window| {
                let found = all.nth(*window - at).map_or(0, sum);
                at = *window + 1;
                octets + found
            })
        };
        let offered = total(Box::new(self.windows.offered()));
        let received = total(Box::new(self.windows.received()));
        let count = u64::try_from(windows.len()).unwrap_or(u64::MAX);
        (offered > 0)
            .then(|| BelowLimit { windows: count, error_ppm: error_ppm(received, offered) })
    }

    fn accuracy(&self, gaps_ns: &[u64]) -> Option<RateAccuracy> {
        let chosen = self.counting(true);
        let limit = self.group.limit_bps(self.direction)?;
        let count = u64::try_from(chosen.len()).ok().filter(|count| *count > 0)?;
        let all: Vec<&[u32]> = self.windows.received().collect();
        let windows = || chosen.iter().filter_map(|window| Some((*window, *all.get(*window)?)));
        let shared = self.group.shares();
        let sessions = if shared { 1 } else { u64::from(self.group.sessions) };
        let own_limit = limit / sessions;
        let mut totals = vec![0u64; self.windows.sessions()];
        for (_, window) in windows() {
            for (total, octets) in totals.iter_mut().zip(window) {
                *total += u64::from(*octets);
            }
        }
        let mean_bps = bps(totals.iter().sum(), count);
        let one_by_one = !shared && totals.len() <= EACH_MAX;
        let worst = |quiet: bool| {
            let gap = |window| gaps_ns.get(window).copied().unwrap_or(0);
            let of = |window: &[u32]| -> i64 {
                if one_by_one {
                    let each = window.iter().map(|octets| bps(u64::from(*octets), 1));
                    return farthest(each.map(|rate| error_ppm(rate, own_limit)));
                }
                error_ppm(bps(sum(window), 1), limit)
            };
            let taken = windows().filter(|(at, _)| !quiet || gap(*at) <= QUIET_GAP_NS);
            let errors: Vec<i64> = taken.map(|(_, window)| of(window)).collect();
            (u64::try_from(errors.len()).unwrap_or(u64::MAX), farthest(errors.into_iter()))
        };
        let (quiet_windows, worst_quiet_ppm) = worst(true);
        let error = |total: &u64| error_ppm(bps(*total, count), own_limit);
        let errors: Vec<i64> = if shared { Vec::new() } else { totals.iter().map(error).collect() };
        let sizes: u64 = errors.iter().map(|error| error.unsigned_abs()).sum();
        let packet = bps(self.group.len_max(), 1);
        let watched = if one_by_one { own_limit } else { limit };
        Some(RateAccuracy {
            windows: count,
            mean_bps,
            error_ppm: error_ppm(mean_bps, limit),
            worst_window_ppm: worst(false).1,
            window_packet_ppm: scaled(packet, PPM, watched),
            quiet_windows,
            worst_quiet_ppm,
            session_mean_ppm: sizes / u64::try_from(errors.len().max(1)).unwrap_or(u64::MAX),
            session_worst_ppm: farthest(errors.into_iter()),
            session_packet_ppm: scaled(packet / count, PPM, own_limit),
        })
    }
}

fn sum(octets: &[u32]) -> u64 {
    octets.iter().map(|octets| u64::from(*octets)).sum()
}

/// Bits per second of `octets` in `windows` windows.
fn bps(octets: u64, windows: u64) -> u64 {
    scaled(octets, 8 * NS_PER_S, WINDOW_NS.saturating_mul(windows))
}

/// Difference of `is` from `should`. Unit: parts per million of `should`.
fn error_ppm(is: u64, should: u64) -> i64 {
    let size = i64::try_from(scaled(is.abs_diff(should), PPM, should)).unwrap_or(i64::MAX);
    if is < should { -size } else { size }
}

/// The error with the largest absolute value.
fn farthest(errors: impl Iterator<Item = i64>) -> i64 {
    errors.max_by_key(|error| error.unsigned_abs()).unwrap_or(0)
}

fn findings(report: &RatesReport, tolerance_ppm: u64) -> Vec<String> {
    let mut findings = Vec::new();
    for group in &report.groups {
        let name = &group.name;
        if let Some(accuracy) =
            group.accuracy.filter(|accuracy| accuracy.error_ppm.unsigned_abs() > tolerance_ppm)
        {
            let percent = percent(accuracy.error_ppm);
            findings.push(format!("{name}: the mean is {percent} from the limit"));
        }
        if let Some(below) = group
            .below
            .filter(|below| below.error_ppm < 0 && below.error_ppm.unsigned_abs() > tolerance_ppm)
        {
            let percent = percent(-below.error_ppm);
            findings.push(format!("{name}: {percent} lost within the limit"));
        }
        if group.reordered > 0 {
            let count = group.reordered;
            findings.push(format!(
                "{name}: {count} packets arrived after later packets of their session"
            ));
        }
    }
    findings
}

fn figures(groups: &[GroupReport]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for group in groups {
        let Some(accuracy) = &group.accuracy else { continue };
        let mut add = |what: &str, unit: &str, value: u64| {
            figures.push(Figure::of(&format!("{what}, {}", group.name), unit, &[value]));
        };
        add("received", "bps", accuracy.mean_bps);
        add("error of the mean", "ppm", accuracy.error_ppm.unsigned_abs());
        add("error of the worst window", "ppm", accuracy.worst_window_ppm.unsigned_abs());
        if !group.shared {
            add("mean error of a session", "ppm", accuracy.session_mean_ppm);
            add("error of the worst session", "ppm", accuracy.session_worst_ppm.unsigned_abs());
        }
    }
    figures
}

/// Formats parts per million as a signed percentage.
#[must_use]
pub(crate) fn percent(ppm: i64) -> String {
    let sign = if ppm < 0 { "−" } else { "" };
    let size = ppm.unsigned_abs();
    format!("{sign}{}.{:03} %", size / 10_000, size % 10_000 / 10)
}

/// Column headings of [`row`].
pub(crate) const COLUMNS: [&str; 12] = [
    "group",
    "sessions",
    "limit, Mb/s",
    "received, Mb/s",
    "mean",
    "worst 100 ms",
    "worst quiet",
    "sessions, mean",
    "worst session",
    "below the limit",
    "lost",
    "p50 / p99, ms",
];

/// Formats a group as a row of a table. Errors are relative to the limit.
#[must_use]
pub(crate) fn row(group: &GroupReport, stream: &StreamReport) -> [String; 12] {
    let mbps = |bps: u64| format!("{}.{:03}", bps / 1_000_000, bps % 1_000_000 / 1000);
    let ms = |ns: u64| format!("{}.{:03}", ns / 1_000_000, ns % 1_000_000 / 1000);
    let of = |value: &dyn Fn(&RateAccuracy) -> String| {
        group.accuracy.as_ref().map_or_else(|| "–".to_owned(), value)
    };
    let alone = |value: fn(&RateAccuracy) -> i64| {
        if group.shared { "–".to_owned() } else { of(&|accuracy| percent(value(accuracy))) }
    };
    let lost = scaled(stream.lost, PPM, stream.offered);
    [
        group.name.clone(),
        group.sessions.to_string(),
        group.limit_bps.map_or_else(|| "none".to_owned(), mbps),
        of(&|accuracy| mbps(accuracy.mean_bps)),
        of(&|accuracy| percent(accuracy.error_ppm)),
        of(&|accuracy| percent(accuracy.worst_window_ppm)),
        of(&|accuracy| {
            format!("{} ({})", percent(accuracy.worst_quiet_ppm), accuracy.quiet_windows)
        }),
        alone(|accuracy| i64::try_from(accuracy.session_mean_ppm).unwrap_or(i64::MAX)),
        alone(|accuracy| accuracy.session_worst_ppm),
        group.below.map_or_else(|| "–".to_owned(), |below| percent(below.error_ppm)),
        percent(i64::try_from(lost).unwrap_or(i64::MAX)),
        format!("{} / {}", ms(stream.latency.p50_ns), ms(stream.latency.p99_ns)),
    ]
}

/// The groups with their streams.
pub(crate) fn rows(report: &RatesReport) -> impl Iterator<Item = (&GroupReport, &StreamReport)> {
    report.groups.iter().filter_map(|group| {
        let stream = report.trial.streams.iter().find(|stream| stream.name == group.name)?;
        Some((group, stream))
    })
}

fn print(report: &RatesReport) {
    let mut table = comfy_table::Table::new();
    table.set_header(COLUMNS);
    for (group, stream) in rows(report) {
        table.add_row(row(group, stream));
    }
    println!("{table}");
    report.base.print();
}

#[cfg(test)]
mod tests;
