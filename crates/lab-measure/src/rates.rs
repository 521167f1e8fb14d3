//! `adit-lab rates`: offers changing rates and compares the received rates, in windows of 100 ms,
//! with the maximum bit rates of the sessions' QERs.

use std::path::PathBuf;

use anyhow::Result;
use serde_json::json;

use super::groups::{self, SessionGroup};
use super::measurement::{LabMeasurement, Prepared};
use super::plot::{LineStyle, Plot, Series, linear};
use super::quantity::{Quantity, higher, lower, plain};
use super::report::{OutputArguments, Report, StreamReport, TrialReport};
use super::rig::Rig;
use super::target::TargetArguments;
use super::testbed::TestbedArguments;
use super::traffic::span_ns;
use adit_lab_engine::clock::{NS_PER_S, scaled};
use adit_lab_engine::trial::TrialOutcome;
use adit_lab_engine::windows::Windows;
use adit_lab_process::stop::{Interrupted, Stop, environment};

const LIMIT: Quantity<'_> = plain("limit", "bps");
const RECEIVED: Quantity<'_> = higher("received", "bps");
const LOST: Quantity<'_> = lower("lost", "ppm");
const BELOW: Quantity<'_> = lower("error below the limit", "ppm");
const LATENCIES: [Quantity<'_>; 2] = [lower("p50", "ns"), lower("p99", "ns")];
/// Errors of any limit. [`SESSION_ERRORS`] are those of a limit that sessions do not share.
const ERRORS: [Quantity<'_>; 4] = [
    lower("error of the mean", "ppm"),
    lower("error of the worst window", "ppm"),
    lower("error of the worst quiet window", "ppm"),
    plain("error by one packet in a window", "ppm"),
];
/// Numbers of all windows, and of quiet ones, that were offered more than the limit.
const WINDOWS: [Quantity<'_>; 2] = [plain("windows", "windows"), plain("quiet", "windows")];
const SESSION_ERRORS: [Quantity<'_>; 3] = [
    lower("mean error of a session", "ppm").plotted(),
    lower("error of the worst session", "ppm").plotted(),
    plain("error by one packet", "ppm").plotted(),
];

/// Length of a window. Unit: ns.
const WINDOW_NS: u64 = 100_000_000;
/// Longest gap of the tester in a quiet window: 0.25 % of the window.
const QUIET_GAP_NS: u64 = WINDOW_NS / 400;
/// Groups with at most this many sessions report each session.
const REPORTED_SESSIONS_MAX: usize = 8;
/// Maximum of sessions times windows, for which a stream takes 1 GiB.
const CELLS_MAX: u64 = 1 << 27;
/// Length of a window. Unit: s.
const WINDOW_S: f64 = 0.1;
const DIRECTIONS: [&str; 2] = ["uplink", "downlink"];
const PPM: u64 = 1_000_000;

/// Options of `adit-lab rates`.
#[derive(Debug, clap::Args)]
pub struct RatesArguments {
    #[command(flatten)]
    bench: TestbedArguments,
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
    #[command(flatten)]
    target: TargetArguments,
}

/// One direction of one group. Rates count the octets of IP packets.
#[derive(Debug, Clone, Default, PartialEq)]
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
    /// Comparison of received and offered octets, in windows that offer no more than the limit.
    pub below: Option<BelowLimit>,
}

/// Windows whose offered rate is within the limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BelowLimit {
    /// Number of windows.
    pub windows: u64,
    /// Difference of received from offered octets. Unit: parts per million of the offered octets.
    pub error_ppm: i64,
}

/// Accuracy of a limit, in windows whose offered rate exceeds it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RateAccuracy {
    /// Number of windows.
    pub windows: u64,
    /// Mean received rate. Unit: bit/s.
    pub mean_bps: u64,
    /// Difference of the mean from the limit. Unit: parts per million of the limit.
    pub error_ppm: i64,
    /// Error of the window and session farthest from the session's limit; of the sum of all
    /// sessions if there are more than eight or they share the limit.
    pub worst_window_ppm: i64,
    /// Error that one packet makes in one window.
    pub window_packet_ppm: u64,
    /// Number of windows in which no gap of the tester exceeds 0.25 % of the window.
    pub quiet_windows: u64,
    /// Error of the worst quiet window.
    pub worst_quiet_ppm: i64,
    /// Mean absolute error of a session over all windows. Zero if sessions share the limit, and so
    /// are `session_worst_ppm` and `session_packet_ppm`.
    pub session_mean_ppm: u64,
    /// Error of the session farthest from its limit, over all windows.
    pub session_worst_ppm: i64,
    /// Error that one packet makes over all windows.
    pub session_packet_ppm: u64,
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

    /// Returns the index of the rate that a window belongs to, and true if the window counts.
    fn rate_index_of(&self, window: usize, turns: usize) -> (usize, bool) {
        let at = u64::try_from(window).unwrap_or(u64::MAX).saturating_mul(WINDOW_NS);
        if turns < 2 {
            return (0, at >= self.settle);
        }
        let turn = usize::try_from(at / self.step).unwrap_or(usize::MAX) % turns;
        (turn, at % self.step >= self.settle)
    }
}

impl LabMeasurement for RatesArguments {
    const NAME: &'static str = "rates";
    type Rig = Rig;
    type Case = Vec<SessionGroup>;

    fn output(&self) -> &OutputArguments {
        &self.output
    }

    fn prepare(&self, report: &mut Report, stop: &Stop) -> Result<Prepared<Self>> {
        let groups = groups::read(&self.groups)?;
        self.check(&groups)?;
        let mut target = self.target.clone();
        target.sessions = groups.iter().map(|group| group.sessions).sum();
        target.profiles =
            groups.iter().map(|group| (group.sessions, group.rules.clone())).collect();
        report.condition("window", format!("{} ms", WINDOW_NS / 1_000_000));
        report.condition("settling time", format!("{} ms", self.settle / 1_000_000));
        let rig = Rig::build(report, &self.bench, &target, None, stop)?;
        Ok(Some((rig, vec![groups])))
    }

    fn measure(
        &self,
        rig: &mut Rig,
        groups: &Vec<SessionGroup>,
        report: &mut Report,
        _: &Stop,
    ) -> Result<()> {
        rig.set_groups(groups)?;
        let (step, duration) = (self.step, self.duration);
        let courses =
            groups.iter().flat_map(|group| [0, 1].map(|at| group.course(at, step, duration)));
        let outcome = rig.run_rate_sequences(courses.collect(), duration, WINDOW_NS)?;
        let names: Vec<String> = groups.iter().flat_map(names).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let trial = TrialReport::new(None, &names, &outcome, rig.hz());
        if trial.tester_limited {
            report.warn("the tester could not offer the requested rates");
        }
        let judged = judge(self, groups, &outcome);
        for group in &judged {
            if let Some(stream) = trial.streams.iter().find(|stream| stream.name == group.name) {
                group.add_to(stream, report);
            }
        }
        report.findings = findings(&judged, self.tolerance);
        report.case("all groups").trials.push(trial);
        if outcome.complete { Ok(()) } else { Err(Interrupted.into()) }
    }

    fn conclude(&self, rig: Rig, report: &mut Report) -> Result<()> {
        rig.close(report)
    }
}

impl GroupReport {
    /// Adds the figures, and the plot of the rates over time.
    fn add_to(&self, stream: &StreamReport, report: &mut Report) {
        let name = &self.name;
        report.add(LIMIT, name, self.limit_bps);
        if let Some(of) = &self.accuracy {
            report.add(RECEIVED, name, [of.mean_bps]);
            let errors = [of.error_ppm, of.worst_window_ppm, of.worst_quiet_ppm];
            let errors = errors.into_iter().map(i64::unsigned_abs).chain([of.window_packet_ppm]);
            for (quantity, error) in ERRORS.into_iter().zip(errors) {
                report.add(quantity, name, [error]);
            }
            for (quantity, windows) in WINDOWS.into_iter().zip([of.windows, of.quiet_windows]) {
                report.add(quantity, name, [windows]);
            }
            let worst = of.session_worst_ppm.unsigned_abs();
            let errors = [of.session_mean_ppm, worst, of.session_packet_ppm];
            for (quantity, error) in SESSION_ERRORS.into_iter().zip(errors) {
                report.add(quantity, name, (!self.shared).then_some(error));
            }
        }
        report.add(BELOW, name, self.below.map(|below| below.error_ppm.unsigned_abs()));
        report.add(LOST, name, [scaled(stream.lost, PPM, stream.offered)]);
        for (of, ns) in LATENCIES.into_iter().zip([stream.latency.p50_ns, stream.latency.p99_ns]) {
            report.add(of, name, [ns]);
        }
        let own = self.limit_bps.filter(|_| !self.shared);
        let own = own.map(|bps| mbps(bps) / f64::from(self.sessions.max(1)));
        let axis = own.map(|limit| ("limit of a session, Mb/s".to_owned(), json!(limit)));
        report.case(name).axes.extend(axis);
        report.plot(self.course());
    }

    /// Plots the rates over time.
    fn course(&self) -> Plot {
        let line = |rates: &[u64]| -> Vec<(f64, f64)> {
            let middles = (0u32..).map(|at| (f64::from(at) + 0.5) * WINDOW_S);
            middles.zip(rates).map(|(at, bps)| (at, mbps(*bps))).collect()
        };
        let ends = self.offered_bps.iter().map(|_| WINDOW_S).sum();
        let limit = |name: &str, bps: u64| {
            Series::reference(name, vec![(0.0, mbps(bps)), (ends, mbps(bps))])
        };
        let title = format!("{}, {}", self.name, self.size);
        let mut plot = Plot::new(&title, linear("seconds"), linear("Mb/s"), LineStyle::Line);
        plot.series.push(Series::new("offered", line(&self.offered_bps)));
        plot.series.push(Series::new("received", line(&self.received_bps)));
        plot.series.extend(self.limit_bps.map(|bps| limit("limit", bps)));
        for (at, rates) in (1..).zip(&self.each_bps) {
            plot.series.push(Series::new(&format!("session {at}"), line(rates)));
        }
        if !self.each_bps.is_empty() && !self.shared {
            let own = self.limit_bps.map(|bps| bps / u64::from(self.sessions.max(1)));
            plot.series.extend(own.map(|bps| limit("limit of each", bps)));
        }
        plot
    }
}

/// Converts to Mb/s, exact below 2^53.
fn mbps(bps: u64) -> f64 {
    bps as f64 / 1e6
}

fn names(group: &SessionGroup) -> [String; 2] {
    DIRECTIONS.map(|direction| format!("{}, {direction}", group.name))
}

/// Makes the reports of all groups and directions with traffic.
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
        let few = (2..=REPORTED_SESSIONS_MAX).contains(&windows.session_count());
        let [uplink, downlink] = names(group);
        GroupReport {
            name: if direction == 0 { uplink } else { downlink },
            sessions: group.sessions,
            size: group.size.title(),
            limit_bps: group.limit_bps(direction),
            shared: group.has_shared_rate(),
            offered_bps: rates(&mut windows.offered()),
            received_bps: rates(&mut windows.received()),
            each_bps: if few {
                (0..windows.session_count()).map(each).collect()
            } else {
                Vec::new()
            },
            reordered: windows.reordered,
            accuracy: self.accuracy(gaps_ns),
            below: self.below(),
        }
    }

    /// Returns the windows that count and whose offered rate is above the limit, or not above it.
    fn counting(&self, above: bool) -> Vec<usize> {
        let offered = self.group.offered_bps(self.direction);
        let sessions = u64::from(self.group.sessions);
        let limit = self.group.limit_bps(self.direction).unwrap_or(u64::MAX);
        let counts = |window: &usize| {
            let (turn, counts) = self.arguments.rate_index_of(*window, offered.len());
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
        let shared = self.group.has_shared_rate();
        let sessions = if shared { 1 } else { u64::from(self.group.sessions) };
        let own_limit = limit / sessions;
        let mut totals = vec![0u64; self.windows.session_count()];
        for (_, window) in windows() {
            for (total, octets) in totals.iter_mut().zip(window) {
                *total += u64::from(*octets);
            }
        }
        let mean_bps = bps(totals.iter().sum(), count);
        let one_by_one = !shared && totals.len() <= REPORTED_SESSIONS_MAX;
        let worst = |quiet: bool| {
            let gap = |window| gaps_ns.get(window).copied().unwrap_or(0);
            let of = |window: &[u32]| -> i64 {
                if one_by_one {
                    let each = window.iter().map(|octets| bps(u64::from(*octets), 1));
                    return largest_error(each.map(|rate| error_ppm(rate, own_limit)));
                }
                error_ppm(bps(sum(window), 1), limit)
            };
            let taken = windows().filter(|(at, _)| !quiet || gap(*at) <= QUIET_GAP_NS);
            let errors: Vec<i64> = taken.map(|(_, window)| of(window)).collect();
            (u64::try_from(errors.len()).unwrap_or(u64::MAX), largest_error(errors.into_iter()))
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
            session_worst_ppm: largest_error(errors.into_iter()),
            session_packet_ppm: scaled(packet / count, PPM, own_limit),
        })
    }
}

fn sum(octets: &[u32]) -> u64 {
    octets.iter().map(|octets| u64::from(*octets)).sum()
}

/// Returns the bits per second of `octets` in `windows` windows.
fn bps(octets: u64, windows: u64) -> u64 {
    scaled(octets, 8 * NS_PER_S, WINDOW_NS.saturating_mul(windows))
}

/// Returns the difference of `is` from `should`. Unit: parts per million of `should`.
fn error_ppm(is: u64, should: u64) -> i64 {
    let size = i64::try_from(scaled(is.abs_diff(should), PPM, should)).unwrap_or(i64::MAX);
    if is < should { -size } else { size }
}

/// Returns the error with the largest absolute value.
fn largest_error(errors: impl Iterator<Item = i64>) -> i64 {
    errors.max_by_key(|error| error.unsigned_abs()).unwrap_or(0)
}

/// Returns one sentence for each result beyond the tolerance.
fn findings(groups: &[GroupReport], tolerance_ppm: u64) -> Vec<String> {
    let mut findings = Vec::new();
    for group in groups {
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

/// Formats parts per million as a signed percentage.
#[must_use]
fn percent(ppm: i64) -> String {
    let sign = if ppm < 0 { "−" } else { "" };
    let size = ppm.unsigned_abs();
    format!("{sign}{}.{:03} %", size / 10_000, size % 10_000 / 10)
}

#[cfg(test)]
mod tests;
