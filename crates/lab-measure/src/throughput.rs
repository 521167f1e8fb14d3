//! `adit-lab throughput`: finds the loss-free rate, the highest rate with at most 0.5 % loss, and
//! the maximum rate, by size, direction and number of active sessions.

use anyhow::Result;
use clap::ValueEnum;

use super::cases::CaseArguments;
use super::measurement::{LabMeasurement, Prepared};
use super::plot::{AxisScale, LineStyle, Plot, PlotAxis, Series, linear};
use super::progress::mpps;
use super::quantity::{Quantity, higher, plain};
use super::report::{OutputArguments, Report, TrialReport};
use super::rig::{Rig, TrialCase};
use super::search::{Bound, Method, Offered, search};
use super::traffic::{rate_pps, span_ns};
use adit_lab_engine::pacer::OfferedRate;
use adit_lab_process::stop::Stop;

/// The highest rate without loss.
const LOSS_FREE: Quantity<'_> = higher("loss-free rate", "pps").plotted();
/// The lowest tried rate that was not loss-free.
const LOSSY: Quantity<'_> = plain("lowest rate with loss", "pps");
/// The highest rate with at most 0.5 % loss.
const PARTIAL_LOSS: Quantity<'_> = higher("0.5 %-loss rate", "pps");
/// Highest received rate of all trials: MFR, RFC 2285 §3.6.3.
const MAXIMUM: Quantity<'_> = higher("maximum rate", "pps").plotted();
/// Received rate at the maximum offered load: FRMOL, RFC 2285 §3.6.2.
const AT_MAXIMUM_LOAD: Quantity<'_> = plain("rate at maximum load", "pps");

/// A loss of 0.5 %. Unit: parts per billion.
const PARTIAL_LOSS_PPB: u64 = 5_000_000;

/// Duration of the trial at the maximum rate if the target reports its rate each second. Unit: ns.
const BY_SECOND_NS: u64 = 3_000_000_000;

/// Search method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Search {
    /// Short trials narrow, long ones confirm; after MLRsearch.
    Mlr,
    /// Trials of one length, halving; RFC 2544.
    Binary,
}

/// Options of `adit-lab throughput`.
#[derive(Debug, clap::Args)]
pub struct ThroughputArguments {
    /// Search method.
    #[arg(long, value_enum, default_value_t = Search::Mlr)]
    method: Search,
    /// Duration of a trial that counts.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = span_ns)]
    trial: u64,
    /// Duration of the first trials of --method mlr, and of the trial at the maximum rate.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = span_ns)]
    short_trial: u64,
    /// Width of the final interval of --method binary.
    #[arg(long, value_name = "RATE", default_value = "10k", value_parser = rate_pps)]
    precision: u64,
    /// Width of the final interval of --method mlr, in parts per thousand of the rate.
    #[arg(long, value_name = "N", default_value_t = 5,
        value_parser = clap::value_parser!(u64).range(1..=200))]
    width: u64,
    /// Highest rate to offer; default: 1.5 times the rate that returned at the maximum.
    #[arg(long, value_name = "RATE", value_parser = rate_pps)]
    rate_max: Option<u64>,
    /// Repetitions of each search; the report gives median and spread.
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    #[command(flatten)]
    cases: CaseArguments,
}

impl LabMeasurement for ThroughputArguments {
    const NAME: &'static str = "throughput";
    type Rig = Rig;
    type Case = TrialCase;

    fn output(&self) -> &OutputArguments {
        &self.cases.output
    }

    fn prepare(&self, report: &mut Report, stop: &Stop) -> Result<Prepared<Self>> {
        let prepared = self.cases.prepare(self.cases.target.clone(), report, stop)?;
        if let Some(((rig, _), max)) = prepared.as_ref().zip(self.rate_max) {
            rig.refuse_above_ceiling(max)?;
        }
        Ok(prepared)
    }

    fn measure(
        &self,
        rig: &mut Rig,
        case: &TrialCase,
        report: &mut Report,
        _: &Stop,
    ) -> Result<()> {
        let name = case.add_to(report);
        rig.warm_up(case)?;
        rig.set_case(case)?;
        for _ in 0..self.runs {
            let mut trials = Vec::new();
            let result = self.search(rig, case, &mut trials, report);
            report.add(MAXIMUM, &name, trials.iter().map(|trial| trial.received_pps).max());
            // The first trial was at the maximum rate.
            report.add(AT_MAXIMUM_LOAD, &name, trials.first().map(|trial| trial.received_pps));
            report.case(&name).trials.extend(trials);
            result?;
        }
        Ok(())
    }

    fn conclude(&self, rig: Rig, report: &mut Report) -> Result<()> {
        for figure in report.figures.clone().iter().filter(|figure| figure.plotted) {
            rig.warn_near_ceiling(report, &figure.name, figure.median);
        }
        if let Some(warning) = disturbance_warning(report) {
            report.warn(warning);
        }
        for plot in loss_plots(report) {
            report.plot(plot);
        }
        rig.close(report)
    }
}

impl ThroughputArguments {
    /// Searches for the rates of a case once.
    fn search(
        &self,
        rig: &mut Rig,
        case: &TrialCase,
        trials: &mut Vec<TrialReport>,
        report: &mut Report,
    ) -> Result<()> {
        let name = case.name();
        // With --target-rates the target reports its rate each second.
        let by_second = self.cases.target.target_rates;
        let length = self.short_trial.max(if by_second { BY_SECOND_NS } else { 0 });
        let most = rig.trial(case, OfferedRate::Max, length, by_second)?;
        let received = most.received_pps;
        trials.push(most);
        let max = self.rate_max.unwrap_or_else(|| received.saturating_mul(3) / 2).max(1000);
        let method = match self.method {
            Search::Binary => {
                Method::Binary { trial_ns: self.trial, precision_pps: self.precision }
            }
            Search::Mlr => Method::Mlr {
                initial_ns: self.short_trial,
                final_ns: self.trial,
                width_permille: self.width,
            },
        };
        let found = search(method, &[0, PARTIAL_LOSS_PPB], max, &mut |rate, duration| {
            let trial = rig.trial(case, OfferedRate::Pps(rate), duration, false)?;
            eprintln!("{name}: {}", describe_trial(&trial));
            let measured = trial.measured();
            trials.push(trial);
            Ok(measured)
        })?;
        for (quantity, found) in [LOSS_FREE, PARTIAL_LOSS].into_iter().zip(&found) {
            report.add(quantity, &name, [found.rate_pps]);
            let why = match found.bound {
                Some(Bound::Tester) => "the tester cannot offer more",
                Some(Bound::Disturbed) => "every trial at the next higher rate was disturbed",
                Some(Bound::Target) | None => continue,
            };
            let what = quantity.name;
            report.warn(format!("{what}, {name}: {why}; the target may be faster"));
        }
        report.add(LOSSY, &name, found.first().and_then(|found| found.upper_pps));
        Ok(())
    }
}

/// Describes a trial in one line.
fn describe_trial(trial: &TrialReport) -> String {
    let ppm = |ppb: u64| ppb / 1000;
    let measured = trial.measured();
    let mut line =
        format!("{} lost {} ppm", mpps(trial.rate_pps.unwrap_or_default()), ppm(measured.loss_ppb));
    if measured.least_ppb < measured.loss_ppb {
        line += &format!(", at least {} of them by the target", ppm(measured.least_ppb));
    }
    match measured.offered {
        Offered::Whole => {}
        Offered::Interrupted => line += ", the tester lost its core for some time",
        Offered::BeyondTester => {
            line += &format!(", the tester offered no more than {}", mpps(trial.offered_pps));
        }
    }
    line
}

/// Returns a warning if absences disturbed more than a tenth of the trials.
fn disturbance_warning(report: &Report) -> Option<String> {
    let trials = || report.cases.iter().flat_map(|case| &case.trials);
    let (all, bad) = (trials().count(), trials().filter(|trial| trial.is_disturbed()).count());
    (bad * 10 > all).then(|| {
        format!(
            "tester or target lost their cores during {bad} of {all} trials, which were \
             repeated; rates may be too low"
        )
    })
}

/// Plots the loss of every trial against its rate. The report merges plots of the same direction.
fn loss_plots(report: &Report) -> Vec<Plot> {
    let mut plots = Vec::new();
    for case in &report.cases {
        let valid = case.trials.iter().filter(|trial| !trial.tester_limited);
        // Mpps and percent, exact below 2^53.
        let point = |of: &TrialReport| (of.offered_pps as f64 / 1e6, of.loss_ppb as f64 / 1e7);
        let mut points: Vec<_> = valid.map(point).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let direction = case.name.split(' ').next().unwrap_or_default();
        let title = format!("Loss by rate, {direction}: every trial");
        let y = PlotAxis { label: "lost, %".to_owned(), scale: AxisScale::Loss };
        let mut plot = Plot::new(&title, linear("offered, Mpps"), y, LineStyle::Marks);
        plot.series.push(Series::new(&case.name, points));
        plots.push(plot);
    }
    plots
}
