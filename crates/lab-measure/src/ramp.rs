//! `adit-lab ramp`: adds sessions with traffic until the target reaches a limit.
//!
//! Each round establishes sessions, waits, and samples loss and CPU time at a fixed rate. The number of
//! sessions then grows by a factor. At the first limit the ramp goes back once to the last number of
//! sessions within the limits and continues with a fifth of the growth; the next limit ends it.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::base::ReportBase;
use super::report::{Figure, TrialReport};
use super::rig::Rig;
use super::target::TargetArguments;
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
}

impl RoundReport {
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
    /// Packets per second over all sessions.
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
    let cases = arguments.cases.cases(&target)?;
    let calibration = arguments.cases.calibration(&cases);
    let (mut rig, mut recorder) = Rig::build("ramp", &arguments.bench, &target, calibration, stop)?;
    rig.refuse_above_ceiling(arguments.rate)?;
    let mut report = RampReport {
        base: ReportBase::of(&target, &rig),
        rate_pps: arguments.rate,
        rounds: Vec::new(),
    };
    let result = rounds(arguments, target.sessions, &cases, &mut rig, &mut report.rounds, stop);
    let held = report.rounds.iter().filter(|round| round.limit.is_none());
    let most = held.map(|round| u64::from(round.sessions)).max().unwrap_or(0);
    report.base.figures = vec![Figure::of("sessions within the limits", "sessions", &[most])];
    if report.rounds.iter().any(|round| round.trial.tester_limited) {
        recorder.warn("the tester could not keep the rate in some rounds");
    }
    report.base.close(rig, recorder, &result)?;
    arguments.cases.output.deliver(&report, print)?;
    result.map(|()| true)
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
        let rate = OfferedRate::Pps(arguments.rate);
        trial = rig.trial(&case, rate, arguments.sample, false, stop)?;
        if !trial.is_disturbed() {
            break;
        }
    }
    let elapsed_ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
    let used_ms = cpu(rig).saturating_sub(before) * 10;
    let memory_kib = rig.target.memory_kib();
    Ok(RoundReport {
        sessions: case.active,
        drop_ppm: trial.loss_ppb / 1000,
        cpu_percent: memory_kib.map(|_| scaled(used_ms, 100, elapsed_ms)),
        memory_kib,
        trial,
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
    cpu.filter(|(used, limit)| used > limit).map(|(used, _)| format!("{used} % CPU"))
}

fn print_round(index: usize, round: &RoundReport) {
    eprintln!(
        "round {}: {} sessions, {} ppm lost{}{}",
        index + 1,
        round.sessions,
        round.drop_ppm,
        round.limit.as_ref().map_or(String::new(), |limit| format!(", limit: {limit}")),
        if round.back_off { ", backed off" } else { "" }
    );
}

/// Columns of a round; the last one names the limit.
pub(crate) const COLUMNS: [&str; 9] = [
    "round",
    "sessions",
    "established/s",
    "refused",
    "lost, ppm",
    "p99, µs",
    "CPU, %",
    "memory, MiB",
    "",
];

fn print(report: &RampReport) {
    let mut table = comfy_table::Table::new();
    table.set_header(COLUMNS);
    for (at, round) in (1u32..).zip(&report.rounds) {
        table.add_row(round.row(at, (round.trial.p99_ns() / 1000).to_string()));
    }
    println!("{table}");
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
}
