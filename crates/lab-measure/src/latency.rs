//! `adit-lab latency`: measures the latency distribution at fixed rates or at shares of the
//! loss-free rate, and with `--load` the CPU time that the started adit spends on them.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::base::ReportBase;
use super::progress::mpps;
use super::ramp::tenths;
use super::report::{Figure, TrialReport};
use super::rig::{Rig, TrialCase};
use super::search::{Method, search};
use super::target::TargetArguments;
use super::target::load::LoadReading;
use super::testbed::TestbedArguments;
use super::throughput::CaseArguments;
use super::traffic::{Size, TrafficDirection, rate_pps, span_ns};
use adit_lab_engine::pacer::OfferedRate;
use adit_lab_process::stop::{Stop, environment};

/// Length of the trials that search for the loss-free rate. Unit: ns.
const SEARCH_NS: u64 = 1_000_000_000;
/// Final interval of that search. Unit: parts per thousand of the rate.
const SEARCH_WIDTH_PERMILLE: u64 = 20;

/// Options of `adit-lab latency`.
#[derive(Debug, clap::Args)]
pub struct LatencyArguments {
    #[command(flatten)]
    bench: TestbedArguments,
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    cases: CaseArguments,
    /// Rates to measure at, both directions together.
    #[arg(long, value_name = "RATE,…", value_delimiter = ',', value_parser = rate_pps)]
    rate: Vec<u64>,
    /// Shares of the loss-free rate, in percent; default without --rate: 10,50,90.
    #[arg(long, value_name = "PERCENT,…", value_delimiter = ',',
        value_parser = clap::value_parser!(u64).range(0..=100))]
    share: Vec<u64>,
    /// After each measurement read the load of the started adit for three seconds: busy share and CPU time of its threads,
    /// and what the machine shows of frequency, idle states and power. A share of 0 then is an idle target.
    #[arg(long)]
    load: bool,
    /// The loss-free rate; default: search for it.
    #[arg(long, value_name = "RATE", value_parser = rate_pps)]
    loss_free: Option<u64>,
    /// Duration of each measurement.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = span_ns)]
    duration: u64,
}

/// One rate of one case.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PointReport {
    /// Direction, size, active sessions.
    pub case: String,
    /// Which streams ran.
    pub direction: TrafficDirection,
    /// Sizes.
    pub size: Size,
    /// Sessions with traffic.
    pub active: u32,
    /// Share of the loss-free rate; `None` for a fixed rate. Unit: percent.
    pub share_percent: Option<u64>,
    /// The trial, with timeline and percentile curve; empty at rate zero.
    pub trial: TrialReport,
    /// The load of the target, with `--load`.
    #[serde(default)]
    pub load: Option<LoadReading>,
}

/// The report of `adit-lab latency`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LatencyReport {
    /// Machine, target, figures.
    #[serde(flatten)]
    pub base: ReportBase,
    /// The loss-free rates that shares refer to, by case.
    pub loss_free_pps: Vec<(String, u64)>,
    /// The measurements.
    pub points: Vec<PointReport>,
}

/// Runs the measurement.
///
/// # Errors
/// The rig cannot be built, the target ended, or a rate is above the tester's ceiling.
/// [`Interrupted`](adit_lab_process::stop::Interrupted), after the report was written.
pub(crate) fn run(arguments: &LatencyArguments, stop: &Stop) -> Result<bool> {
    if arguments.share.contains(&0) && !arguments.load {
        return Err(environment("--share 0 sends nothing; with --load it shows an idle target"));
    }
    let mut target = arguments.target.clone();
    if let Some(why) = target.take_placement(&arguments.bench)? {
        let base = ReportBase::left_out("latency", &target, why);
        let report = LatencyReport { base, loss_free_pps: Vec::new(), points: Vec::new() };
        arguments.cases.output.deliver(&report, print)?;
        return Ok(true);
    }
    let cases = arguments.cases.cases(&target)?;
    let calibration = arguments.cases.calibration(&cases);
    let (mut rig, mut recorder) =
        Rig::build("latency", &arguments.bench, &target, calibration, stop)?;
    for rate in &arguments.rate {
        rig.refuse_above_ceiling(*rate)?;
    }
    let mut report = LatencyReport {
        base: ReportBase::of(&target, &rig),
        loss_free_pps: Vec::new(),
        points: Vec::new(),
    };
    let result = measure(arguments, &cases, &mut rig, &mut report, stop);
    report.base.figures = figures(&report.points);
    for point in &report.points {
        rig.judge(&mut recorder, &point.case, point.trial.offered_pps);
        if point.trial.tester_limited {
            recorder.warn(format!(
                "{}: the tester could not keep {}",
                point.case,
                mpps(point.trial.rate_pps.unwrap_or_default())
            ));
        }
    }
    report.base.close(rig, recorder, &result)?;
    arguments.cases.output.deliver(&report, print)?;
    result.map(|()| true)
}

fn measure(
    arguments: &LatencyArguments,
    cases: &[TrialCase],
    rig: &mut Rig,
    report: &mut LatencyReport,
    stop: &Stop,
) -> Result<()> {
    let shares = match (&arguments.share[..], &arguments.rate[..]) {
        ([], []) => vec![10, 50, 90],
        (shares, _) => shares.to_vec(),
    };
    for case in cases {
        rig.set_case(case)?;
        let mut rates: Vec<(Option<u64>, u64)> =
            arguments.rate.iter().map(|rate| (None, *rate)).collect();
        if !shares.is_empty() {
            let loss_free = match arguments.loss_free {
                Some(rate) => rate,
                None => find(rig, case, stop)?,
            };
            report.loss_free_pps.push((case.name(), loss_free));
            rates.extend(shares.iter().map(|share| (Some(*share), loss_free * share / 100)));
        }
        for (share_percent, rate) in rates {
            let trial = match rate {
                0 => TrialReport::default(),
                _ => rig.trial(case, OfferedRate::Pps(rate), arguments.duration, true, stop)?,
            };
            let load = match arguments.load {
                true => Some(rig.load(case, rate, stop)?),
                false => None,
            };
            report.points.push(PointReport {
                case: case.name(),
                direction: case.direction,
                size: case.size.clone(),
                active: case.active,
                share_percent,
                trial,
                load,
            });
        }
    }
    Ok(())
}

/// Searches for the loss-free rate with little precision.
fn find(rig: &mut Rig, case: &TrialCase, stop: &Stop) -> Result<u64> {
    let most = rig.trial(case, OfferedRate::Max, SEARCH_NS, false, stop)?;
    let max = (most.received_pps.saturating_mul(3) / 2).max(1000);
    let method = Method::Mlr {
        initial_ns: SEARCH_NS / 2,
        final_ns: SEARCH_NS,
        width_permille: SEARCH_WIDTH_PERMILLE,
    };
    let found = search(method, &[0], max, &mut |rate, duration| {
        Ok(rig.trial(case, OfferedRate::Pps(rate), duration, false, stop)?.measured())
    })?;
    Ok(found.first().map_or(0, |found| found.rate_pps))
}

fn figures(points: &[PointReport]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for point in points {
        let at = match point.share_percent {
            Some(share) => format!("{share} % of the loss-free rate"),
            None => mpps(point.trial.rate_pps.unwrap_or_default()),
        };
        let of = format!("{}, {at}", point.case);
        figures.extend(point.load.iter().flat_map(|load| load.figures(&of)));
        for stream in point.trial.streams.iter().filter(|stream| stream.received > 0) {
            let latency = &stream.latency;
            for (name, value) in [
                ("p50", latency.p50_ns),
                ("p90", latency.p90_ns),
                ("p99", latency.p99_ns),
                ("p99.9", latency.p99_9_ns),
                ("p99.99", latency.p99_99_ns),
                ("max", latency.max_ns),
                ("mean", latency.mean_ns),
                ("jitter", latency.jitter_ns),
            ] {
                let name = format!("{name} {}, {}, {at}", stream.name, point.case);
                figures.push(Figure::of(&name, "ns", &[value]));
            }
        }
    }
    figures
}

fn print(report: &LatencyReport) {
    let mut table = comfy_table::Table::new();
    let header =
        ["case", "stream", "rate", "lost", "p50", "p90", "p99", "p99.9", "p99.99", "max", "jitter"];
    table.set_header(header);
    let us = |ns: u64| format!("{}.{:01} µs", ns / 1000, ns % 1000 / 100);
    for point in &report.points {
        let share = point.share_percent.map_or(String::new(), |share| format!(" ({share} %)"));
        for stream in point.trial.streams.iter().filter(|stream| stream.offered > 0) {
            let latency = &stream.latency;
            let mut row = vec![
                point.case.clone(),
                stream.name.clone(),
                format!("{}{share}", mpps(point.trial.offered_pps)),
                stream.lost.to_string(),
            ];
            row.extend(
                [
                    latency.p50_ns,
                    latency.p90_ns,
                    latency.p99_ns,
                    latency.p99_9_ns,
                    latency.p99_99_ns,
                    latency.max_ns,
                    latency.jitter_ns,
                ]
                .map(us),
            );
            table.add_row(row);
        }
    }
    if report.base.left_out.is_none() {
        println!("{table}");
    }
    print_loads(&report.points);
    report.base.print();
}

/// Columns of [`load_row`].
pub(crate) const LOAD_COLUMNS: [&str; 9] = [
    "case",
    "offered",
    "busy, % (mean / highest)",
    "CPU time of the packet path, %",
    "of all threads, %",
    "frequency, MHz",
    "idle states, %",
    "power, W",
    "p99, µs",
];

/// The load at a point in words; `None` if it was not read.
#[must_use]
pub(crate) fn load_row(point: &PointReport) -> Option<Vec<String>> {
    let load = point.load.as_ref()?;
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "–".to_owned());
    let offered = mpps(point.trial.offered_pps);
    let p99_us = point.trial.p99_ns() / 1000;
    Some(vec![
        point.case.clone(),
        point.share_percent.map_or(offered.clone(), |share| format!("{offered} ({share} %)")),
        format!("{} / {}", tenths(load.busy_permille), tenths(load.busiest_permille)),
        tenths(load.path_cpu_permille),
        tenths(load.process_cpu_permille),
        or_dash(load.frequency_mhz.map(|mhz| mhz.to_string())),
        or_dash(load.idle_permille.map(tenths)),
        or_dash(load.power_mw.map(|mw| tenths(mw / 100))),
        or_dash((p99_us > 0).then(|| p99_us.to_string())),
    ])
}

fn print_loads(points: &[PointReport]) {
    let rows: Vec<_> = points.iter().filter_map(load_row).collect();
    if rows.is_empty() {
        return;
    }
    let mut table = comfy_table::Table::new();
    table.set_header(LOAD_COLUMNS);
    for row in rows {
        table.add_row(row);
    }
    println!("{table}");
}
