//! `adit-lab soak`: holds a fixed load while sessions change, and detects leaks and drift of the
//! target.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;

use super::cases::CaseArguments;
use super::measurement::{LabMeasurement, Prepared};
use super::metrics;
use super::plot::{LineStyle, Plot, Series, linear};
use super::progress::mpps;
use super::quantity::{Quantity, higher, lower, median, readers_unit};
use super::report::{OutputArguments, Report};
use super::rig::{Rig, TrialCase};
use super::traffic::{rate_pps, span_ns};
use adit_lab_engine::pacer::OfferedRate;
use adit_lab_process::stop::{Interrupted, Stop, environment};
use adit_lab_smf::churn::{ChurnPattern, ChurnPlan};

const RECEIVED: Quantity<'_> = higher("received", "pps");
const LOST: Quantity<'_> = lower("lost", "ppb");
const P99: Quantity<'_> = lower("p99 latency", "ns");
/// Memory of the target at the end of an interval.
const MEMORY: Quantity<'_> = lower("memory", "KiB");
/// Name of the change requests among the report's procedures.
const CHANGES_PROCEDURE: &str = "changes";

/// Growth of memory between the first and the last third that counts as a leak, if it also exceeds
/// [`LEAK_KIB`]. Unit: parts per thousand.
const LEAK_PERMILLE: u64 = 20;
/// Growth of memory that never counts as a leak. Unit: KiB.
const LEAK_KIB: u64 = 2048;
/// Ratio of the median latencies of the last and of the first third above which the latency drifts.
/// Unit: percent.
const DRIFT_PERCENT: u64 = 150;

/// Options of `adit-lab soak`.
#[derive(Debug, clap::Args)]
pub struct SoakArguments {
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
    #[command(flatten)]
    cases: CaseArguments,
}

impl LabMeasurement for SoakArguments {
    const NAME: &'static str = "soak";
    type Rig = Rig;
    type Case = TrialCase;

    fn output(&self) -> &OutputArguments {
        &self.cases.output
    }

    fn prepare(&self, report: &mut Report, stop: &Stop) -> Result<Prepared<Self>> {
        let target = &self.cases.target;
        if self.churn.is_some() && !target.is_upf() {
            return Err(environment("--churn needs a target with sessions: --target adit or upf"));
        }
        let Some((rig, mut cases)) = self.cases.prepare(target.clone(), report, stop)? else {
            return Ok(None);
        };
        rig.refuse_above_ceiling(self.rate)?;
        cases.truncate(1);
        Ok(Some((rig, cases)))
    }

    fn measure(
        &self,
        rig: &mut Rig,
        case: &TrialCase,
        report: &mut Report,
        _: &Stop,
    ) -> Result<()> {
        let mut case = case.clone();
        let all = rig.session_count();
        let changing = self.churn_sessions.unwrap_or((all / 10).max(1)).min(all);
        if self.churn == Some(ChurnPattern::Recreate) {
            // The UPF can give recreated sessions new TEIDs, which the transmit plan does not have.
            case.active = case.active.min(all - changing);
            if case.active == 0 {
                return Err(environment(
                    "--churn recreate needs sessions beyond those that it deletes",
                ));
            }
        }
        rig.set_case(&case)?;
        if let Some(pattern) = self.churn {
            let idle = Duration::from_nanos(self.idle);
            rig.begin_churn(ChurnPlan { pattern, rate: self.churn_rate, idle }, changing)?;
        }
        let result = self.intervals(&case, rig, report);
        if result.as_ref().is_ok() || result.as_ref().is_err_and(|error| error.is::<Interrupted>())
        {
            let changes = rig.end_churn()?;
            report.procedures.extend(changes.map(|of| (CHANGES_PROCEDURE.to_owned(), of)));
        }
        result
    }

    fn conclude(&self, rig: Rig, report: &mut Report) -> Result<()> {
        report.findings = findings(report);
        for quantity in [RECEIVED, LOST, P99, MEMORY] {
            let (unit, divisor) = readers_unit(quantity.unit);
            let points = (1u32..).zip(report.values(quantity, ""));
            // Exact below 2^53.
            let points = points.map(|(at, value)| (f64::from(at), *value as f64 / divisor));
            let lines = vec![Series::new(quantity.name, points.collect())];
            let title = format!("{} by interval", quantity.name);
            let plot = Plot::new(&title, linear("interval"), linear(unit), LineStyle::Both);
            report.plot(Plot { series: lines, ..plot });
        }
        rig.close(report)
    }
}

impl SoakArguments {
    fn intervals(&self, case: &TrialCase, rig: &mut Rig, report: &mut Report) -> Result<()> {
        let count = self.duration.div_ceil(self.interval);
        for at in 0..count {
            let length = (self.duration - at * self.interval).min(self.interval);
            let trial = rig.trial(case, OfferedRate::Pps(self.rate), length, false)?;
            let memory_kib = match self.metrics {
                Some(address) => Some(metrics::read(address, &self.memory_metric)? / 1024),
                None => rig.target.memory_kib(),
            };
            eprintln!(
                "interval {} of {count}: received {}, {} ppm lost{}",
                at + 1,
                mpps(trial.received_pps),
                trial.loss_ppb / 1000,
                memory_kib.map_or(String::new(), |kib| format!(", {} MiB", kib / 1024))
            );
            if trial.tester_limited {
                report.warn("the tester could not keep the rate in some intervals");
            }
            report.add(RECEIVED, "", [trial.received_pps]);
            report.add(LOST, "", [trial.loss_ppb]);
            report.add(P99, "", [trial.p99_ns()]);
            report.add(MEMORY, "", memory_kib);
            report.case(&case.name()).trials.push(trial);
        }
        Ok(())
    }
}

/// Returns one sentence for each leak, drift or refusal.
fn findings(report: &Report) -> Vec<String> {
    let mut findings = Vec::new();
    if let Some(churned) =
        report.procedures.get(CHANGES_PROCEDURE).filter(|churned| churned.failed > 0)
    {
        let first = churned.first_failure.as_deref().unwrap_or_default();
        findings
            .push(format!("{} of {} changes were refused: {first}", churned.failed, churned.count));
    }
    if let Some((early, late)) = third_medians(report.values(MEMORY, "")) {
        let gained = late.saturating_sub(early);
        if gained > LEAK_KIB && gained * 1000 > early * LEAK_PERMILLE {
            findings.push(format!(
                "memory grew from {} to {} MiB between the first and the last third",
                early / 1024,
                late / 1024
            ));
        }
    }
    if let Some((early, late)) = third_medians(report.values(P99, ""))
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

/// Returns the medians of the first and of the last third, without the first interval, in which the
/// target touches memory for the first time; `None` for too few intervals.
fn third_medians(values: &[u64]) -> Option<(u64, u64)> {
    let settled = values.get(1..).filter(|settled| settled.len() >= 6)?;
    let third = settled.len() / 3;
    Some((median(settled.get(..third)?), median(settled.get(settled.len() - third..)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(intervals: impl Iterator<Item = [u64; 2]>) -> Vec<String> {
        let mut report = Report::default();
        for [memory_kib, p99_ns] in intervals {
            report.add(MEMORY, "", [memory_kib]);
            report.add(P99, "", [p99_ns]);
        }
        findings(&report)
    }

    #[test]
    fn memory_that_grows_and_latency_that_drifts_are_found_and_steady_ones_are_not() {
        assert!(found((0..9).map(|at| [100_000 + at % 2, 10_000])).is_empty());
        assert_eq!(
            found((0..9).map(|at| [100_000 + at * 1000, 10_000])),
            ["memory grew from 99 to 105 MiB between the first and the last third"]
        );
        let drift = found((0..9).map(|at| [100_000, 10_000 + at * 4000]));
        assert!(drift[0].starts_with("p99 latency drifted from"));
        // The first interval is ignored.
        assert!(found((0..9).map(|at| [if at == 0 { 1000 } else { 100_000 }, 1])).is_empty());
    }
}
