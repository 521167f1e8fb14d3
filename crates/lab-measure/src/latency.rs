//! `adit-lab latency`: measures the latency distribution at fixed rates or at shares of the
//! loss-free rate, and with `--load` the CPU time that adit spends at these rates.

use anyhow::Result;
use serde_json::json;

use super::cases::CaseArguments;
use super::measurement::{LabMeasurement, Prepared};
use super::number::figure;
use super::plot::{AxisScale, LineStyle, Plot, PlotAxis, Series, linear, logarithmic};
use super::progress::mpps;
use super::quantity::{Quantity, lower, plain};
use super::report::{OutputArguments, Report, SecondReport, StreamReport, TrialReport};
use super::rig::{Rig, TrialCase};
use super::search::{Method, search};
use super::traffic::{rate_pps, span_ns};
use adit_lab_engine::histogram::LatencySummary;
use adit_lab_engine::pacer::OfferedRate;
use adit_lab_process::stop::{Stop, environment};

type LatencyFigure = fn(&LatencySummary) -> u64;
/// The reported figures of a stream's latency.
const LATENCIES: [(Quantity<'_>, LatencyFigure); 8] = [
    (lower("p50", "ns").plotted(), |of| of.p50_ns),
    (lower("p90", "ns"), |of| of.p90_ns),
    (lower("p99", "ns").plotted(), |of| of.p99_ns),
    (lower("p99.9", "ns"), |of| of.p99_9_ns),
    (lower("p99.99", "ns"), |of| of.p99_99_ns),
    (lower("max", "ns"), |of| of.max_ns),
    (lower("mean", "ns").plotted(), |of| of.mean_ns),
    (lower("jitter", "ns"), |of| of.jitter_ns),
];
const OFFERED: Quantity<'_> = plain("offered", "pps");
const LOST: Quantity<'_> = lower("lost", "packets");

/// Duration of the trials that search for the loss-free rate. Unit: ns.
const SEARCH_NS: u64 = 1_000_000_000;
/// Final interval of the search for the loss-free rate. Unit: parts per thousand of the rate.
const SEARCH_WIDTH_PERMILLE: u64 = 20;

/// Options of `adit-lab latency`.
#[derive(Debug, clap::Args)]
pub struct LatencyArguments {
    /// Rates to measure at, both directions together.
    #[arg(long, value_name = "RATE,…", value_delimiter = ',', value_parser = rate_pps)]
    rate: Vec<u64>,
    /// Shares of the loss-free rate, in percent; default without --rate: 10,50,90.
    #[arg(long, value_name = "PERCENT,…", value_delimiter = ',',
        value_parser = clap::value_parser!(u64).range(0..=100))]
    share: Vec<u64>,
    /// After each measurement read the load of the started adit for three seconds: busy share and
    /// CPU time of its threads, and what the machine shows of frequency, idle states and power. A
    /// share of 0 then is an idle target.
    #[arg(long)]
    load: bool,
    /// The loss-free rate; default: search for it.
    #[arg(long, value_name = "RATE", value_parser = rate_pps)]
    loss_free: Option<u64>,
    /// Duration of each measurement.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = span_ns)]
    duration: u64,
    #[command(flatten)]
    cases: CaseArguments,
}

impl LabMeasurement for LatencyArguments {
    const NAME: &'static str = "latency";
    type Rig = Rig;
    type Case = TrialCase;

    fn output(&self) -> &OutputArguments {
        &self.cases.output
    }

    fn prepare(&self, report: &mut Report, stop: &Stop) -> Result<Prepared<Self>> {
        if self.share.contains(&0) && !self.load {
            return Err(environment(
                "--share 0 sends nothing; with --load it shows an idle target",
            ));
        }
        let prepared = self.cases.prepare(self.cases.target.clone(), report, stop)?;
        if let Some((rig, _)) = &prepared {
            self.rate.iter().try_for_each(|rate| rig.refuse_above_ceiling(*rate))?;
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
        rig.set_case(case)?;
        let mut rates: Vec<(Option<u64>, u64)> =
            self.rate.iter().map(|rate| (None, *rate)).collect();
        let shares = match (&self.share[..], &self.rate[..]) {
            ([], []) => &[10, 50, 90],
            (shares, _) => shares,
        };
        if !shares.is_empty() {
            let loss_free = match self.loss_free {
                Some(rate) => rate,
                None => find(rig, case)?,
            };
            report.condition(&format!("loss-free rate, {}", case.name()), mpps(loss_free));
            rates.extend(shares.iter().map(|share| (Some(*share), loss_free * share / 100)));
        }
        for (share, rate) in rates {
            let at = match share {
                Some(share) => format!("{share} % of the loss-free rate"),
                None => mpps(rate),
            };
            let point = LatencyPoint { name: format!("{}, {at}", case.name()), case, share };
            let trial = match rate {
                0 => TrialReport::default(),
                _ => rig.trial(case, OfferedRate::Pps(rate), self.duration, true)?,
            };
            point.add_to(trial, report, rig);
            if self.load {
                rig.load(case, rate)?.add_to(report, &point.name);
            }
        }
        Ok(())
    }

    fn conclude(&self, rig: Rig, report: &mut Report) -> Result<()> {
        rig.close(report)
    }
}

/// A case at one rate.
struct LatencyPoint<'c> {
    name: String,
    case: &'c TrialCase,
    share: Option<u64>,
}

impl LatencyPoint<'_> {
    fn add_to(&self, trial: TrialReport, report: &mut Report, rig: &Rig) {
        let name = &self.name;
        rig.warn_near_ceiling(report, &self.case.name(), trial.offered_pps);
        if trial.tester_limited {
            let rate = mpps(trial.rate_pps.unwrap_or_default());
            report.warn(format!("{}: the tester could not keep {rate}", self.case.name()));
        }
        let mut axes = self.case.axes();
        match self.share {
            Some(share) => axes.insert("% of the loss-free rate".to_owned(), json!(share)),
            None => axes.insert("offered, Mpps".to_owned(), json!(in_mpps(trial.offered_pps))),
        };
        report.case(name).axes.clone_from(&axes);
        let several = trial.streams.iter().filter(|stream| stream.offered > 0).count() > 1;
        for stream in trial.streams.iter().filter(|stream| stream.offered > 0) {
            let of = if several { format!("{name}, {}", stream.name) } else { name.clone() };
            if several {
                report.case(&of).axes.clone_from(&axes);
                report.case(&of).axes.insert("stream".to_owned(), json!(stream.name));
            }
            report.add(OFFERED, &of, [trial.offered_pps]);
            report.add(LOST, &of, [stream.lost]);
            if stream.received == 0 {
                continue;
            }
            for (quantity, of_latency) in LATENCIES {
                report.add(quantity, &of, [of_latency(&stream.latency)]);
            }
            let rate = format!("{} Mpps", figure(in_mpps(trial.offered_pps)));
            let line = self.share.map_or(rate.clone(), |share| format!("{share} % ({rate})"));
            let line = if several { format!("{}, {line}", stream.name) } else { line };
            report.plot(curve(&self.case.name(), &line, stream));
            report.plot(timeline(&self.case.name(), &line, stream, trial.duration_ns));
        }
        report.case(name).trials.push(trial);
    }
}

/// Converts to Mpps, exact below 2^53.
fn in_mpps(pps: u64) -> f64 {
    pps as f64 / 1e6
}

/// Converts to microseconds, exact below 2^53.
fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

/// Plots the latency of a stream by percentile.
fn curve(case: &str, line: &str, stream: &StreamReport) -> Plot {
    let x = PlotAxis { label: "percentile".to_owned(), scale: AxisScale::Percentile };
    let title = format!("Latency by percentile: {case}");
    let mut plot = Plot::new(&title, x, logarithmic("latency, µs"), LineStyle::Line);
    let below = stream.curve.iter().filter(|point| point.percentile < 100.0);
    let points = below.map(|point| (point.percentile, us(point.latency_ns))).collect();
    plot.series.push(Series::new(line, points));
    plot
}

/// Plots the latency of a stream second by second.
fn timeline(case: &str, line: &str, stream: &StreamReport, duration_ns: u64) -> Plot {
    let title = format!("Latency second by second: {case}");
    let (x, y) = (linear("second"), logarithmic("latency, µs"));
    let mut plot = Plot::new(&title, x, y, LineStyle::Both);
    // Packets that arrive after the last whole second are stragglers.
    let whole = usize::try_from(duration_ns / 1_000_000_000).unwrap_or(0);
    let seconds = stream.timeline.get(..whole).unwrap_or(&stream.timeline);
    let p50: fn(&SecondReport) -> u64 = |second| second.latency.p50_ns;
    for (name, value) in [("p50", p50), ("p99", |second| second.latency.p99_ns)] {
        let seconds = (1u32..).zip(seconds).filter(|(_, second)| second.received > 0);
        let points = seconds.map(|(at, second)| (f64::from(at), us(value(second)))).collect();
        plot.series.push(Series::new(&format!("{name}, {line}"), points));
    }
    plot
}

/// Searches for the loss-free rate with little precision.
fn find(rig: &mut Rig, case: &TrialCase) -> Result<u64> {
    let most = rig.trial(case, OfferedRate::Max, SEARCH_NS, false)?;
    let max = (most.received_pps.saturating_mul(3) / 2).max(1000);
    let method = Method::Mlr {
        initial_ns: SEARCH_NS / 2,
        final_ns: SEARCH_NS,
        width_permille: SEARCH_WIDTH_PERMILLE,
    };
    let found = search(method, &[0], max, &mut |rate, duration| {
        Ok(rig.trial(case, OfferedRate::Pps(rate), duration, false)?.measured())
    })?;
    Ok(found.first().map_or(0, |found| found.rate_pps))
}
