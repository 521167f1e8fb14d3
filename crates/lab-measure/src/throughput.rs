//! `adit-lab throughput`: finds the loss-free rate, the highest rate with at most 0.5 % loss, and the
//! maximum rate, by size, direction and number of active sessions.

use anyhow::Result;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::base::ReportBase;
use super::progress::mpps;
use super::report::OutputArguments;
use super::report::{Figure, TrialReport, print_rates};
use super::rig::{Rig, TrialCase};
use super::search::{Bound, Method, Offered, search};
use super::target::TargetArguments;
use super::testbed::TestbedArguments;
use super::traffic::{Size, TrafficDirection, order, rate_pps, span_ns};
use adit_lab_engine::pacer::OfferedRate;
use adit_lab_engine::plan::SessionOrder;
use adit_lab_process::stop::{Stop, environment};

/// A loss of 0.5 %. Unit: parts per billion.
const PARTIAL_LOSS_PPB: u64 = 5_000_000;

/// Duration of the trial at the maximum rate if the target reports its rate each second. Unit: ns.
const BY_SECOND_NS: u64 = 3_000_000_000;

/// Search method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Search {
    /// Short trials narrow, long ones confirm; after MLRsearch.
    Mlr,
    /// Trials of one length, halving; RFC 2544.
    Binary,
}

/// Options of `adit-lab throughput`.
#[derive(Debug, clap::Args)]
pub struct ThroughputArguments {
    #[command(flatten)]
    bench: TestbedArguments,
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    cases: CaseArguments,
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
}

/// Options of the offered traffic and of the report.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct CaseArguments {
    /// Lengths of the UEs' IP packets: bytes, `imix`, `pcap:FILE`, or
    /// `LENGTH:WEIGHT/…`.
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', default_value = "64")]
    pub size: Vec<Size>,
    /// Lengths of the UEs' UDP or TCP payloads instead, in bytes.
    #[arg(long, value_name = "BYTES,…", value_delimiter = ',', conflicts_with = "size")]
    pub payload: Vec<usize>,
    /// Directions to measure.
    #[arg(
        long,
        value_enum,
        value_name = "DIRECTION,…",
        value_delimiter = ',',
        default_value = "uplink,downlink,duplex"
    )]
    pub direction: Vec<TrafficDirection>,
    /// Sessions with traffic; default: all.
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub active: Vec<u32>,
    /// Order of the sessions: `random`, `sequential`, or `zipf:EXPONENT`.
    #[arg(long, value_name = "ORDER", default_value = "random", value_parser = order)]
    pub order: SessionOrder,
    /// Skip the measurement of the tester's own highest rate.
    #[arg(long)]
    pub no_calibration: bool,
    #[command(flatten)]
    pub output: OutputArguments,
}

impl CaseArguments {
    /// All combinations of direction, size and number of active sessions.
    ///
    /// # Errors
    /// A payload is too short for the stamp, or too long.
    pub(crate) fn cases(&self, target: &TargetArguments) -> Result<Vec<TrialCase>> {
        let all = [target.sessions];
        let active = if self.active.is_empty() { &all[..] } else { &self.active };
        let payload = |len: &usize| {
            Size::of_payload(target.inner, *len)
                .map_err(|error| environment(format!("--payload {len}: {error}")))
        };
        let payloads = self.payload.iter().map(payload).collect::<Result<Vec<_>>>()?;
        let sizes = if payloads.is_empty() { &self.size } else { &payloads };
        let mut cases = Vec::new();
        for size in sizes {
            for &direction in &self.direction {
                for &active in active {
                    cases.push(TrialCase {
                        direction,
                        size: size.clone(),
                        active,
                        order: self.order,
                    });
                }
            }
        }
        Ok(cases)
    }

    /// The size for measuring the tester's ceiling; `None` with `--no-calibration`.
    #[must_use]
    pub(crate) fn calibration<'c>(&self, cases: &'c [TrialCase]) -> Option<&'c Size> {
        cases.first().filter(|_| !self.no_calibration).map(|case| &case.size)
    }
}

/// One search of one case.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct ThroughputRun {
    /// Loss-free rate. Unit: packets per second.
    pub ndr_pps: Option<u64>,
    /// Lowest tried rate that was not loss-free. Unit: packets per second.
    pub ndr_upper_pps: Option<u64>,
    /// Why the loss-free rate is not higher.
    #[serde(default)]
    pub ndr_bound: Option<Bound>,
    /// Highest rate with at most 0.5 % loss. Unit: packets per second.
    pub plr_pps: Option<u64>,
    /// Why that rate is not higher.
    #[serde(default)]
    pub plr_bound: Option<Bound>,
    /// Received rate at the maximum offered load: FRMOL, RFC 2285 §3.6.2. Unit: packets per second.
    pub mrr_pps: Option<u64>,
    /// Highest received rate of all trials: MFR, RFC 2285 §3.6.3. Unit: packets per second.
    #[serde(default)]
    pub mfr_pps: Option<u64>,
    /// Every trial in order.
    pub trials: Vec<TrialReport>,
}

/// One case.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CaseReport {
    /// Direction, size, active sessions.
    pub name: String,
    /// Which streams ran.
    pub direction: TrafficDirection,
    /// Sizes.
    pub size: Size,
    /// Sessions with traffic.
    pub active: u32,
    /// Repetitions of the search.
    pub runs: Vec<ThroughputRun>,
}

/// The report of `adit-lab throughput`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ThroughputReport {
    /// Machine, target, figures.
    #[serde(flatten)]
    pub base: ReportBase,
    /// Search method.
    pub method: Search,
    /// The cases.
    pub cases: Vec<CaseReport>,
}

/// Runs the measurement.
///
/// # Errors
/// The rig cannot be built, or the target ended. [`Interrupted`](adit_lab_process::stop::Interrupted),
/// after the report was written.
pub(crate) fn run(arguments: &ThroughputArguments, stop: &Stop) -> Result<bool> {
    let cases = arguments.cases.cases(&arguments.target)?;
    let calibration = arguments.cases.calibration(&cases);
    let built = Rig::build("throughput", &arguments.bench, &arguments.target, calibration, stop)?;
    let (mut rig, mut recorder) = built;
    let mut report = ThroughputReport {
        base: ReportBase::of(&arguments.target, &rig),
        method: arguments.method,
        cases: Vec::new(),
    };
    let result = measure(arguments, &cases, &mut rig, &mut report.cases, stop);
    report.base.figures = figures(&report.cases);
    for figure in &report.base.figures {
        rig.judge(&mut recorder, &figure.name, figure.median);
    }
    for warning in bounds(&report.cases).into_iter().chain(disturbed(&report.cases)) {
        recorder.warn(warning);
    }
    report.base.close(rig, recorder, &result)?;
    arguments.cases.output.deliver(&report, print)?;
    result.map(|()| true)
}

fn measure(
    arguments: &ThroughputArguments,
    cases: &[TrialCase],
    rig: &mut Rig,
    reports: &mut Vec<CaseReport>,
    stop: &Stop,
) -> Result<()> {
    for case in cases {
        rig.warm_up(case, stop)?;
        rig.set_case(case)?;
        reports.push(CaseReport {
            name: case.name(),
            direction: case.direction,
            size: case.size.clone(),
            active: case.active,
            runs: Vec::new(),
        });
        let Some(report) = reports.last_mut() else { unreachable!("one was just pushed") };
        for _ in 0..arguments.runs {
            let mut run = ThroughputRun::default();
            let result = one_run(arguments, case, rig, &mut run, stop);
            run.mfr_pps = run.trials.iter().map(|trial| trial.received_pps).max();
            report.runs.push(run);
            result?;
        }
    }
    Ok(())
}

fn one_run(
    arguments: &ThroughputArguments,
    case: &TrialCase,
    rig: &mut Rig,
    run: &mut ThroughputRun,
    stop: &Stop,
) -> Result<()> {
    // With --target-rates the target reports its rate each second.
    let by_second = arguments.target.target_rates;
    let length = arguments.short_trial.max(if by_second { BY_SECOND_NS } else { 0 });
    let mut most = rig.trial(case, OfferedRate::Max, length, by_second, stop)?;
    most.streams.iter_mut().for_each(|stream| stream.curve.clear());
    let received = most.received_pps;
    run.mrr_pps = Some(received);
    run.trials.push(most);
    if let Some(max) = arguments.rate_max {
        rig.refuse_above_ceiling(max)?;
    }
    let max = arguments.rate_max.unwrap_or_else(|| received.saturating_mul(3) / 2).max(1000);
    let method = match arguments.method {
        Search::Binary => {
            Method::Binary { trial_ns: arguments.trial, precision_pps: arguments.precision }
        }
        Search::Mlr => Method::Mlr {
            initial_ns: arguments.short_trial,
            final_ns: arguments.trial,
            width_permille: arguments.width,
        },
    };
    let found = search(method, &[0, PARTIAL_LOSS_PPB], max, &mut |rate, duration| {
        let trial = rig.trial(case, OfferedRate::Pps(rate), duration, false, stop)?;
        eprintln!("{}: {}", case.name(), describe_trial(&trial));
        let measured = trial.measured();
        run.trials.push(trial);
        Ok(measured)
    })?;
    if let [ndr, plr] = found[..] {
        (run.ndr_pps, run.ndr_upper_pps, run.ndr_bound) =
            (Some(ndr.rate_pps), ndr.upper_pps, ndr.bound);
        (run.plr_pps, run.plr_bound) = (Some(plr.rate_pps), plr.bound);
    }
    Ok(())
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

/// One sentence for each rate that something other than the target bounds.
fn bounds(cases: &[CaseReport]) -> Vec<String> {
    let mut sentences = Vec::new();
    for case in cases {
        let mut explain = |what: &str, bound: fn(&ThroughputRun) -> Option<Bound>| {
            let any = |wanted| case.runs.iter().any(|run| bound(run) == Some(wanted));
            let why = if any(Bound::Tester) {
                "the tester cannot offer more"
            } else if any(Bound::Disturbed) {
                "every trial at the next higher rate was disturbed"
            } else {
                return;
            };
            sentences.push(format!("{what}, {}: {why}; the target may be faster", case.name));
        };
        explain("loss-free rate", |run| run.ndr_bound);
        explain("0.5 %-loss rate", |run| run.plr_bound);
    }
    sentences
}

/// A warning if absences disturbed more than a tenth of the trials.
fn disturbed(cases: &[CaseReport]) -> Option<String> {
    let trials = || cases.iter().flat_map(|case| &case.runs).flat_map(|run| &run.trials);
    let (all, bad) = (trials().count(), trials().filter(|trial| trial.is_disturbed()).count());
    (bad * 10 > all).then(|| {
        format!(
            "tester or target lost their cores during {bad} of {all} trials, which were \
             repeated; rates may be too low"
        )
    })
}

fn figures(cases: &[CaseReport]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for case in cases {
        let mut add = |what: &str, figure: fn(&ThroughputRun) -> Option<u64>| {
            let values: Vec<u64> = case.runs.iter().filter_map(figure).collect();
            if !values.is_empty() {
                figures.push(Figure::of(&format!("{what}, {}", case.name), "pps", &values));
            }
        };
        add("loss-free rate", |run| run.ndr_pps);
        add("0.5 %-loss rate", |run| run.plr_pps);
        add("maximum rate", |run| run.mfr_pps.or(run.mrr_pps));
    }
    figures
}

fn print(report: &ThroughputReport) {
    print_rates("figure", "runs", &report.base.figures);
    report.base.print();
}
