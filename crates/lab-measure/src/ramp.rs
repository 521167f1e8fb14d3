//! `adit-lab ramp`: adds sessions with traffic until the target reaches a limit.
//!
//! Each round establishes sessions, waits, and samples loss and CPU time at a fixed rate. The number of
//! sessions then grows by a factor. At the first limit the ramp goes back once to the last number of
//! sessions within the limits and continues with a fifth of the growth; the next limit ends it.
//!
//! Source: study 003, *Impact of NUMA architecture and placement on a packet gateway*, section 3.2. There the packets grow
//! with the sessions (`--session-rate`), by 2 or 10 % (`--growth`), until the CPU time of the packet path reaches a target
//! (`--busy`). `--placement` compares where threads run.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::base::ReportBase;
use super::progress::mpps;
use super::report::{Figure, TrialReport};
use super::rig::Rig;
use super::target::TargetArguments;
use super::target::load::LoadReading;
use super::testbed::TestbedArguments;
use super::throughput::CaseArguments;
use super::traffic::{rate_pps, span_ns};
use adit_lab_engine::clock::scaled;
use adit_lab_engine::pacer::OfferedRate;
use adit_lab_process::stop::{Stop, environment};

/// Attempts to take an undisturbed sample.
const SAMPLES_MAX: u32 = 3;

/// Options of `adit-lab ramp`. `--sessions` is the largest number tried, `--request-rate` the rate of
/// establishment.
#[derive(Debug, clap::Args)]
pub struct RampArguments {
    #[command(flatten)]
    bench: TestbedArguments,
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    cases: CaseArguments,
    /// Sessions of the first round.
    #[arg(long, value_name = "N", default_value_t = 10_000,
        value_parser = clap::value_parser!(u32).range(1..))]
    from: u32,
    /// Growth per round, in percent: 10 multiplies by 1.1.
    #[arg(long, value_name = "PERCENT", default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    growth: u32,
    /// Maximum number of rounds.
    #[arg(long, value_name = "N", default_value_t = 11,
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Rate of all sessions together.
    #[arg(long, value_name = "RATE", default_value = "500k", value_parser = rate_pps)]
    rate: u64,
    /// Rate of each session instead: the rate of all grows with their number.
    #[arg(long, value_name = "PPS", conflicts_with = "rate",
        value_parser = clap::value_parser!(u64).range(1..))]
    session_rate: Option<u64>,
    /// After each sample read the load of the started adit for three seconds: busy share and CPU time of its threads, and
    /// what the machine shows of frequency, idle states and power.
    #[arg(long)]
    load: bool,
    /// Limit of the mean busy share of the threads of the packet path, in percent.
    #[arg(long, value_name = "PERCENT", requires = "load",
        value_parser = clap::value_parser!(u64).range(1..=100))]
    busy: Option<u64>,
    /// Pause between the last establishment and the sample.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = span_ns)]
    settle: u64,
    /// Duration of the sample.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = span_ns)]
    sample: u64,
    /// Limit of packet loss, in parts per million.
    #[arg(long, value_name = "PPM", default_value_t = 2000)]
    drop_ppm: u64,
    /// Limit of the target's CPU time, in percent of one core. A polling target uses 100 % per
    /// worker.
    #[arg(long, value_name = "PERCENT")]
    cpu: Option<u64>,
    /// Limit of refused sessions per round.
    #[arg(long, value_name = "N", default_value_t = 0)]
    failed: u64,
}

/// One round.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RoundReport {
    /// Sessions.
    pub sessions: u32,
    /// Sessions established in this round per second.
    pub established_per_s: u64,
    /// Sessions refused.
    pub failed: u64,
    /// Packets lost. Unit: parts per million.
    pub drop_ppm: u64,
    /// CPU time of the target, in percent of one core; `None` unless the tester started the target.
    pub cpu_percent: Option<u64>,
    /// Resident memory of the target; `None` unless the tester started it. Unit: KiB.
    pub memory_kib: Option<u64>,
    /// The limit that the round reached.
    pub limit: Option<String>,
    /// True for the round after the ramp went back to fewer sessions.
    pub back_off: bool,
    /// The sample.
    pub trial: TrialReport,
    /// The load of the target, with `--load`.
    #[serde(default)]
    pub load: Option<LoadReading>,
}

impl RoundReport {
    /// The mean and the highest busy share.
    pub(crate) fn busy(&self) -> String {
        let text = |load: &LoadReading| {
            format!("{} / {}", tenths(load.busy_permille), tenths(load.busiest_permille))
        };
        self.load.as_ref().map_or_else(|| "–".to_owned(), text)
    }

    /// The row of the round in a table with [`COLUMNS`]. `at` counts rounds from 1; `p99_us` is the 99th
    /// percentile of latency, formatted.
    pub(crate) fn row(&self, at: u32, p99_us: String) -> Vec<String> {
        let or_dash =
            |value: Option<u64>| value.map_or("–".to_owned(), |value| value.to_string());
        vec![
            at.to_string(),
            self.sessions.to_string(),
            self.established_per_s.to_string(),
            self.failed.to_string(),
            self.drop_ppm.to_string(),
            p99_us,
            or_dash(self.cpu_percent),
            self.busy(),
            or_dash(self.memory_kib.map(|kib| kib / 1024)),
            match (&self.limit, self.back_off) {
                (Some(limit), _) => limit.clone(),
                (None, true) => "backed off".to_owned(),
                (None, false) => String::new(),
            },
        ]
    }
}

/// The report of `adit-lab ramp`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RampReport {
    /// Machine, target, figures.
    #[serde(flatten)]
    pub base: ReportBase,
    /// Packets per second over all sessions, of the first round.
    pub rate_pps: u64,
    /// The rounds.
    pub rounds: Vec<RoundReport>,
}

/// Runs the ramp.
///
/// # Errors
/// The rig cannot be built, or the target ended. [`Interrupted`](adit_lab_process::stop::Interrupted),
/// after the report was written.
pub(crate) fn run(arguments: &RampArguments, stop: &Stop) -> Result<bool> {
    let mut target = arguments.target.clone();
    if !target.is_upf() {
        return Err(environment("a ramp needs a target with sessions: --target adit or upf"));
    }
    target.sessions = target.sessions.max(arguments.from);
    target.first_sessions = Some(arguments.from);
    if let Some(why) = target.take_placement(&arguments.bench)? {
        let base = ReportBase::left_out("ramp", &target, why);
        let report = RampReport { base, rate_pps: 0, rounds: Vec::new() };
        arguments.cases.output.deliver(&report, print)?;
        return Ok(true);
    }
    let cases = arguments.cases.cases(&target)?;
    let calibration = arguments.cases.calibration(&cases);
    let (mut rig, mut recorder) = Rig::build("ramp", &arguments.bench, &target, calibration, stop)?;
    rig.refuse_above_ceiling(arguments.rate_of(arguments.from))?;
    let mut report = RampReport {
        base: ReportBase::of(&target, &rig),
        rate_pps: arguments.rate_of(arguments.from),
        rounds: Vec::new(),
    };
    let result = rounds(arguments, target.sessions, &cases, &mut rig, &mut report.rounds, stop);
    report.base.figures = figures(&report.rounds);
    if report.rounds.iter().any(|round| round.trial.tester_limited) {
        recorder.warn("the tester could not keep the rate in some rounds");
    }
    report.base.close(rig, recorder, &result)?;
    arguments.cases.output.deliver(&report, print)?;
    result.map(|()| true)
}

impl RampArguments {
    /// The rate of all of so many sessions together.
    fn rate_of(&self, sessions: u32) -> u64 {
        self.session_rate.map_or(self.rate, |rate| rate.saturating_mul(sessions.into()))
    }
}

/// The size that the ramp reached, and its cost by number of sessions.
fn figures(rounds: &[RoundReport]) -> Vec<Figure> {
    let held = || rounds.iter().filter(|round| round.limit.is_none());
    let most = |value: fn(&RoundReport) -> u64| held().map(value).max().unwrap_or(0);
    let sessions = most(|round| round.sessions.into());
    let rate = most(|round| round.trial.received_pps);
    let mut figures = vec![
        Figure::of("sessions within the limits", "sessions", &[sessions]),
        Figure::of("rate within the limits", "pps", &[rate]),
    ];
    for round in rounds.iter().filter(|round| !round.back_off) {
        let at = format!("{} sessions", round.sessions);
        figures.push(Figure::of(&format!("lost, {at}"), "ppm", &[round.drop_ppm]));
        figures.extend(round.load.iter().flat_map(|load| load.figures(&at)));
    }
    figures
}

fn rounds(
    arguments: &RampArguments,
    sessions_max: u32,
    cases: &[super::rig::TrialCase],
    rig: &mut Rig,
    reports: &mut Vec<RoundReport>,
    stop: &Stop,
) -> Result<()> {
    let Some(case) = cases.first() else { return Ok(()) };
    let mut growth_permille = u64::from(arguments.growth) * 10;
    let mut held = 0;
    let mut backed_off = false;
    let mut wanted = arguments.from;
    let mut first = rig.established.clone();
    for _ in 0..arguments.rounds {
        let established = match first.take() {
            Some(report) => report,
            None => rig.grow(wanted, stop)?,
        };
        stop.sleep(Duration::from_nanos(arguments.settle))?;
        let mut round = sample(arguments, case, rig, stop)?;
        round.established_per_s = established.per_second;
        round.failed = established.failed;
        round.limit = limit(arguments, &round, established.first_failure.as_deref());
        let reached = round.limit.is_some();
        print_round(reports.len(), &round);
        reports.push(round);
        if reached {
            if backed_off || held == 0 {
                return Ok(());
            }
            backed_off = true;
            growth_permille = (growth_permille / 5).max(1);
            rig.shrink(held, stop)?;
            stop.sleep(Duration::from_nanos(arguments.settle))?;
            let mut round = sample(arguments, case, rig, stop)?;
            round.back_off = true;
            round.limit = limit(arguments, &round, None);
            let reached = round.limit.is_some();
            print_round(reports.len(), &round);
            reports.push(round);
            if reached {
                return Ok(());
            }
        }
        held = rig.session_count();
        if held >= sessions_max {
            return Ok(());
        }
        let more = scaled(u64::from(held), 1000 + growth_permille, 1000);
        let more = more.max(u64::from(held) + 1).min(u64::from(sessions_max));
        wanted = u32::try_from(more).unwrap_or(sessions_max);
    }
    Ok(())
}

fn sample(
    arguments: &RampArguments,
    case: &super::rig::TrialCase,
    rig: &mut Rig,
    stop: &Stop,
) -> Result<RoundReport> {
    let mut case = case.clone();
    case.active = rig.session_count();
    rig.set_case(&case)?;
    let cpu = |rig: &Rig| rig.target.cpu_by_core().values().sum::<u64>();
    let (before, start) = (cpu(rig), Instant::now());
    let mut trial = TrialReport::default();
    for _ in 0..SAMPLES_MAX {
        let rate = OfferedRate::Pps(arguments.rate_of(case.active));
        trial = rig.trial(&case, rate, arguments.sample, false, stop)?;
        if !trial.is_disturbed() {
            break;
        }
    }
    let elapsed_ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
    let used_ms = cpu(rig).saturating_sub(before) * 10;
    let memory_kib = rig.target.memory_kib();
    let load = match arguments.load {
        true => Some(rig.load(&case, arguments.rate_of(case.active), stop)?),
        false => None,
    };
    Ok(RoundReport {
        sessions: case.active,
        drop_ppm: trial.loss_ppb / 1000,
        cpu_percent: memory_kib.map(|_| scaled(used_ms, 100, elapsed_ms)),
        memory_kib,
        trial,
        load,
        ..RoundReport::default()
    })
}

fn limit(arguments: &RampArguments, round: &RoundReport, failure: Option<&str>) -> Option<String> {
    if round.failed > arguments.failed {
        let first = failure.map_or(String::new(), |text| format!(": {text}"));
        return Some(format!("{} sessions refused{first}", round.failed));
    }
    if round.drop_ppm > arguments.drop_ppm {
        return Some(format!("{} ppm lost", round.drop_ppm));
    }
    let cpu = round.cpu_percent.zip(arguments.cpu);
    if let Some((used, _)) = cpu.filter(|(used, limit)| used > limit) {
        return Some(format!("{used} % CPU"));
    }
    let busy = round.load.as_ref().map(|load| load.busy_permille).zip(arguments.busy);
    let busy = busy.filter(|(busy, limit)| *busy > limit * 10);
    busy.map(|(busy, _)| format!("{} % busy", tenths(busy)))
}

/// Thousandths as percent.
pub(crate) fn tenths(permille: u64) -> String {
    format!("{}.{}", permille / 10, permille % 10)
}

fn print_round(index: usize, round: &RoundReport) {
    eprintln!(
        "round {}: {} sessions, {}, {} ppm lost{}{}{}",
        index + 1,
        round.sessions,
        mpps(round.trial.offered_pps),
        round.drop_ppm,
        round
            .load
            .as_ref()
            .map_or(String::new(), |load| { format!(", {} % busy", tenths(load.busy_permille)) }),
        round.limit.as_ref().map_or(String::new(), |limit| format!(", limit: {limit}")),
        if round.back_off { ", backed off" } else { "" }
    );
}

/// Columns of a round; the last one names the limit.
pub(crate) const COLUMNS: [&str; 10] = [
    "round",
    "sessions",
    "established/s",
    "refused",
    "lost, ppm",
    "p99, µs",
    "CPU, %",
    "busy, % (mean / highest)",
    "memory, MiB",
    "",
];

fn print(report: &RampReport) {
    let mut table = comfy_table::Table::new();
    table.set_header(COLUMNS);
    for (at, round) in (1u32..).zip(&report.rounds) {
        table.add_row(round.row(at, (round.trial.p99_ns() / 1000).to_string()));
    }
    if report.base.left_out.is_none() {
        println!("{table}");
    }
    report.base.print();
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct RampCommandLine {
        #[command(flatten)]
        arguments: RampArguments,
    }

    #[test]
    fn each_limit_is_named_when_it_is_reached() {
        let line = RampCommandLine::try_parse_from(["x", "--cpu", "150", "--failed", "2"]).unwrap();
        let of = |failed, drop_ppm, cpu| {
            let round =
                RoundReport { failed, drop_ppm, cpu_percent: Some(cpu), ..RoundReport::default() };
            limit(&line.arguments, &round, Some("no resources"))
        };
        assert_eq!(of(2, 2000, 150), None);
        assert_eq!(of(3, 0, 0).unwrap(), "3 sessions refused: no resources");
        assert_eq!(of(0, 2001, 0).unwrap(), "2001 ppm lost");
        assert_eq!(of(0, 0, 151).unwrap(), "151 % CPU");
    }

    fn busy(busy_permille: u64) -> Option<LoadReading> {
        Some(LoadReading { busy_permille, ..LoadReading::default() })
    }

    #[test]
    fn busy_share_is_a_limit_and_rates_may_grow_with_sessions() {
        let parse = |words: &[&str]| {
            RampCommandLine::try_parse_from(std::iter::once(&"x").chain(words))
                .map(|of| of.arguments)
        };
        let arguments = parse(&["--load", "--busy", "50", "--session-rate", "3"]).unwrap();
        let of = |permille| {
            limit(&arguments, &RoundReport { load: busy(permille), ..RoundReport::default() }, None)
        };
        assert_eq!((of(500), of(501).unwrap()), (None, "50.1 % busy".to_owned()));
        assert_eq!((arguments.rate_of(1000), parse(&[]).unwrap().rate_of(1000)), (3000, 500_000));
        assert!(parse(&["--busy", "50"]).is_err(), "nothing reads it");
        assert!(parse(&["--rate", "1M", "--session-rate", "3"]).is_err());
    }

    #[test]
    fn figures_compare_rounds_by_their_sessions() {
        let round = |sessions, limit: Option<&str>, back_off| RoundReport {
            sessions,
            limit: limit.map(str::to_owned),
            back_off,
            load: busy(u64::from(sessions) / 10),
            trial: TrialReport { received_pps: u64::from(sessions) * 2, ..TrialReport::default() },
            ..RoundReport::default()
        };
        let rounds =
            [round(1000, None, false), round(1100, Some("lost"), false), round(1000, None, true)];
        let figures = figures(&rounds);
        let value = |name: &str| figures.iter().find(|of| of.name == name).map(|of| of.median);
        assert_eq!(value("sessions within the limits"), Some(1000));
        assert_eq!(value("rate within the limits"), Some(2000));
        assert_eq!(value("busy share, 1100 sessions"), Some(110));
        assert_eq!(figures.iter().filter(|of| of.name.starts_with("lost, 1000")).count(), 1);
    }
}
