//! `adit-lab soak`: holds a fixed load while sessions change, and detects leaks and drift of the target.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::base::ReportBase;
use super::metrics;
use super::progress::mpps;
use super::report::{Figure, TrialReport};
use super::rig::Rig;
use super::target::TargetArguments;
use super::testbed::TestbedArguments;
use super::throughput::CaseArguments;
use super::traffic::{rate_pps, span_ns};
use adit_lab_engine::pacer::OfferedRate;
use adit_lab_process::stop::{Interrupted, Stop, environment};
use adit_lab_smf::churn::ChurnPattern;
use adit_lab_smf::exchange::ProcedureReport;

/// Growth of memory between the first and the last third that counts as a leak, if it also exceeds
/// [`LEAK_KIB`]. Unit: parts per thousand.
const LEAK_PERMILLE: u64 = 20;
/// Growth of memory that never counts as a leak. Unit: KiB.
const LEAK_KIB: u64 = 2048;
/// Median latency of the last third, relative to the first third's, above which it is a drift. Unit:
/// percent.
const DRIFT_PERCENT: u64 = 150;

/// Options of `adit-lab soak`.
#[derive(Debug, clap::Args)]
pub struct SoakArguments {
    #[command(flatten)]
    bench: TestbedArguments,
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    cases: CaseArguments,
    /// Rate of all sessions together.
    #[arg(long, value_name = "RATE", default_value = "500k", value_parser = rate_pps)]
    rate: u64,
    /// Total duration.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = span_ns)]
    duration: u64,
    /// Duration of an interval of the report.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = span_ns)]
    interval: u64,
    /// How sessions change during the traffic.
    #[arg(long, value_enum)]
    churn: Option<ChurnPattern>,
    /// Change requests per second.
    #[arg(long, value_name = "N", default_value_t = 500,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    churn_rate: u64,
    /// Number of sessions that change, from the last one down; default: a tenth. With `recreate`
    /// only sessions without traffic.
    #[arg(long, value_name = "N")]
    churn_sessions: Option<u32>,
    /// Idle time of a UE.
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = span_ns)]
    idle: u64,
    /// HTTP address of the target's metrics in Prometheus text format, at /metrics.
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
    /// The metric with the memory of the target in bytes.
    #[arg(long, value_name = "NAME", default_value = "process_resident_memory_bytes")]
    memory_metric: String,
}

/// One interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct IntervalReport {
    /// The trial.
    pub trial: TrialReport,
    /// Memory of the target at the end of the interval. Unit: KiB.
    pub memory_kib: Option<u64>,
}

/// The report of `adit-lab soak`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SoakReport {
    /// Machine, target, figures.
    #[serde(flatten)]
    pub base: ReportBase,
    /// How sessions changed.
    pub churn: Option<ChurnPattern>,
    /// Duration and failures of the change requests.
    pub churned: Option<ProcedureReport>,
    /// The intervals.
    pub intervals: Vec<IntervalReport>,
    /// Leaks, drifts and refusals; empty if there were none.
    pub findings: Vec<String>,
}

/// Runs the soak. Returns true if there are no findings.
///
/// # Errors
/// The rig cannot be built, or the target ended. [`Interrupted`], after the report was written.
pub(crate) fn run(arguments: &SoakArguments, stop: &Stop) -> Result<bool> {
    let target = &arguments.target;
    if arguments.churn.is_some() && !target.is_upf() {
        return Err(environment("--churn needs a target with sessions: --target adit or upf"));
    }
    let cases = arguments.cases.cases(target)?;
    let calibration = arguments.cases.calibration(&cases);
    let (mut rig, mut recorder) = Rig::build("soak", &arguments.bench, target, calibration, stop)?;
    rig.refuse_above_ceiling(arguments.rate)?;
    let mut report = SoakReport {
        base: ReportBase::of(target, &rig),
        churn: arguments.churn,
        churned: None,
        intervals: Vec::new(),
        findings: Vec::new(),
    };
    let result = measure(arguments, cases, &mut rig, &mut report, stop);
    report.findings = findings(&report);
    report.base.figures = figures(&report.intervals);
    if report.intervals.iter().any(|interval| interval.trial.tester_limited) {
        recorder.warn("the tester could not keep the rate in some intervals");
    }
    for finding in &report.findings {
        recorder.warn(finding.clone());
    }
    report.base.close(rig, recorder, &result)?;
    arguments.cases.output.deliver(&report, print)?;
    result.map(|()| report.findings.is_empty())
}

fn measure(
    arguments: &SoakArguments,
    cases: Vec<super::rig::TrialCase>,
    rig: &mut Rig,
    report: &mut SoakReport,
    stop: &Stop,
) -> Result<()> {
    let Some(mut case) = cases.into_iter().next() else { return Ok(()) };
    let all = rig.session_count();
    let changing = arguments.churn_sessions.unwrap_or((all / 10).max(1)).min(all);
    if arguments.churn == Some(ChurnPattern::Recreate) {
        // The UPF can give recreated sessions new TEIDs, which the transmit plan does not have.
        case.active = case.active.min(all - changing);
        if case.active == 0 {
            return Err(environment(
                "--churn recreate needs sessions beyond those that it deletes",
            ));
        }
    }
    rig.set_case(&case)?;
    if let Some(pattern) = arguments.churn {
        let idle = Duration::from_nanos(arguments.idle);
        rig.begin_churn(pattern, arguments.churn_rate, changing, idle)?;
    }
    let result = intervals(arguments, &case, rig, &mut report.intervals, stop);
    match &result {
        Err(error) if !error.is::<Interrupted>() => result,
        _ => {
            report.churned = rig.end_churn()?;
            result
        }
    }
}

fn intervals(
    arguments: &SoakArguments,
    case: &super::rig::TrialCase,
    rig: &mut Rig,
    reports: &mut Vec<IntervalReport>,
    stop: &Stop,
) -> Result<()> {
    let count = arguments.duration.div_ceil(arguments.interval);
    for at in 0..count {
        let left = arguments.duration - at * arguments.interval;
        let length = left.min(arguments.interval);
        let trial = rig.trial(case, OfferedRate::Pps(arguments.rate), length, false, stop)?;
        let memory_kib = match arguments.metrics {
            Some(address) => Some(metrics::read(address, &arguments.memory_metric)? / 1024),
            None => rig.target.memory_kib(),
        };
        eprintln!(
            "interval {} of {count}: received {}, {} ppm lost{}",
            at + 1,
            mpps(trial.received_pps),
            trial.loss_ppb / 1000,
            memory_kib.map_or(String::new(), |kib| format!(", {} MiB", kib / 1024))
        );
        reports.push(IntervalReport { trial, memory_kib });
    }
    Ok(())
}

/// One sentence for each leak, drift or refusal.
fn findings(report: &SoakReport) -> Vec<String> {
    let mut findings = Vec::new();
    if let Some(churned) = report.churned.as_ref().filter(|churned| churned.failed > 0) {
        let first = churned.first_failure.as_deref().unwrap_or_default();
        findings
            .push(format!("{} of {} changes were refused: {first}", churned.failed, churned.count));
    }
    let memory: Vec<u64> =
        report.intervals.iter().filter_map(|interval| interval.memory_kib).collect();
    if let Some((early, late)) = thirds(&memory) {
        let gained = late.saturating_sub(early);
        if gained > LEAK_KIB && gained * 1000 > early * LEAK_PERMILLE {
            findings.push(format!(
                "memory grew from {} to {} MiB between the first and the last third",
                early / 1024,
                late / 1024
            ));
        }
    }
    let p99: Vec<u64> = report.intervals.iter().map(|interval| interval.trial.p99_ns()).collect();
    if let Some((early, late)) = thirds(&p99)
        && late * 100 > early * DRIFT_PERCENT
    {
        findings.push(format!(
            "p99 latency drifted from {} to {} µs between the first and the last third",
            early / 1000,
            late / 1000
        ));
    }
    findings
}

/// Medians of the first and the last third, without the first interval, in which the target touches
/// memory for the first time; `None` for too few intervals.
fn thirds(values: &[u64]) -> Option<(u64, u64)> {
    let settled = values.get(1..).filter(|settled| settled.len() >= 6)?;
    let third = settled.len() / 3;
    let median = |part: &[u64]| Figure::of("", "", part).median;
    Some((median(settled.get(..third)?), median(settled.get(settled.len() - third..)?)))
}

fn figures(intervals: &[IntervalReport]) -> Vec<Figure> {
    let of = |name: &str, unit: &str, value: &dyn Fn(&TrialReport) -> u64| {
        let values: Vec<u64> = intervals.iter().map(|interval| value(&interval.trial)).collect();
        Figure::of(name, unit, &values)
    };
    if intervals.is_empty() {
        return Vec::new();
    }
    vec![
        of("received", "pps", &|trial| trial.received_pps),
        of("lost", "ppb", &|trial| trial.loss_ppb),
        of("p99 latency", "ns", &TrialReport::p99_ns),
    ]
}

fn print(report: &SoakReport) {
    let mut table = comfy_table::Table::new();
    table.set_header(["figure", "unit", "median", "lowest", "highest"]);
    for figure in &report.base.figures {
        let numbers = [figure.median, figure.min, figure.max].map(|number| number.to_string());
        table.add_row([figure.name.clone(), figure.unit.clone()].into_iter().chain(numbers));
    }
    println!("{table}");
    if let Some(churned) = &report.churned {
        println!(
            "changes: {} ({} per second), {} refused, latency p50 {} µs, p99 {} µs, max {} µs",
            churned.count,
            churned.per_second,
            churned.failed,
            churned.latency.p50_ns / 1000,
            churned.latency.p99_ns / 1000,
            churned.latency.max_ns / 1000
        );
    }
    report.base.print();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::StreamReport;

    fn interval(memory_kib: u64, p99_ns: u64) -> IntervalReport {
        let mut stream = StreamReport::default();
        stream.latency.p99_ns = p99_ns;
        let trial = TrialReport { streams: vec![stream], ..TrialReport::default() };
        IntervalReport { trial, memory_kib: Some(memory_kib) }
    }

    fn found(intervals: Vec<IntervalReport>) -> Vec<String> {
        findings(&SoakReport {
            base: ReportBase::default(),
            churn: None,
            churned: None,
            intervals,
            findings: Vec::new(),
        })
    }

    #[test]
    fn memory_that_grows_and_latency_that_drifts_are_found_and_steady_ones_are_not() {
        let steady = (0..9).map(|at| interval(100_000 + at % 2, 10_000)).collect();
        assert!(found(steady).is_empty());
        let leak = (0..9).map(|at| interval(100_000 + at * 1000, 10_000)).collect();
        assert_eq!(
            found(leak),
            ["memory grew from 99 to 105 MiB between the first and the last third"]
        );
        let drift = (0..9).map(|at| interval(100_000, 10_000 + at * 4000)).collect();
        assert!(found(drift)[0].starts_with("p99 latency drifted from"));
        // The first interval does not count.
        let first = (0..9).map(|at| interval(if at == 0 { 1000 } else { 100_000 }, 1)).collect();
        assert!(found(first).is_empty());
    }
}
