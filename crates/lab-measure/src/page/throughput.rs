//! The throughput section: rates by size or sessions, and loss by rate.

use std::collections::{BTreeMap, BTreeSet};

use super::axis::{Axis, figure};
use super::bars::{self, ChartBar};
use super::svg::{LineStyle, Plot, Series};
use super::{mpps, table};
use crate::report::Figure;
use crate::run_report::Reference;
use crate::throughput::{CaseReport, ThroughputReport, ThroughputRun};
use crate::traffic::TrafficDirection;

/// Columns of [`rows`].
const COLUMNS: [&str; 5] = ["case", "loss-free, Mpps", "0.5 % loss, Mpps", "maximum, Mpps", "runs"];
const DIRECTIONS: [TrafficDirection; 3] =
    [TrafficDirection::Uplink, TrafficDirection::Downlink, TrafficDirection::Duplex];

/// Renders plots and tables.
pub(super) fn body(out: &mut String, report: &ThroughputReport, references: &[Reference]) {
    out.push_str("<div class=\"plots\">");
    let cases = &report.cases;
    let sizes: BTreeSet<Option<u32>> = cases.iter().map(|case| case.size.bytes()).collect();
    let active: BTreeSet<u32> = cases.iter().map(|case| case.active).collect();
    if sizes.len() > 1 && !sizes.contains(&None) {
        let x = |case: &CaseReport| f64::from(case.size.bytes().unwrap_or_default());
        let is_payload = cases.iter().any(|case| case.size.name.contains("payload"));
        let label = if is_payload { "payload, bytes" } else { "IP packet, bytes" };
        let axis = Axis::linear(label, cases.iter().map(x));
        out.push_str(&rates("Rate by size", "rate-by-size", axis, cases, &x, references));
    }
    if active.len() > 1 {
        let x = |case: &CaseReport| f64::from(case.active);
        let axis = Axis::log("active sessions", cases.iter().map(x));
        let title = format!("Rate by active sessions of {}", report.base.sessions);
        out.push_str(&rates(&title, "rate-by-sessions", axis, cases, &x, references));
    }
    if sizes.len() < 2 && active.len() < 2 {
        out.push_str(&bars(cases, references));
    }
    for direction in DIRECTIONS {
        out.push_str(&loss(direction, cases));
    }
    out.push_str("</div>\n");
    table(out, &COLUMNS, &rows(cases));
    if let Some(ceiling) = &report.base.ceiling {
        let text = figure(mpps(ceiling.received_pps));
        super::put(out, format_args!("<p>The tester's own ceiling: {text} Mpps.</p>\n"));
    }
}

/// A measurement of an experiment with several, and the options in which it differs from the others.
pub(super) struct ComparedReport {
    pub options: Vec<String>,
    pub report: ThroughputReport,
}

/// Renders the rates of several measurements in one table and, if their numbers of active sessions differ,
/// in one plot.
pub(super) fn overview(out: &mut String, measurements: &[ComparedReport]) {
    let cases = || measurements.iter().flat_map(|of| &of.report.cases);
    let active: BTreeSet<u32> = cases().map(|case| case.active).collect();
    let sizes: BTreeSet<&str> = cases().map(|case| case.size.name.as_str()).collect();
    if active.len() > 1 {
        let mut series: BTreeMap<String, Series> = BTreeMap::new();
        for of in measurements {
            let is_x =
                |option: &str| option.starts_with("sessions=") || option.starts_with("active=");
            let options: Vec<_> = of.options.iter().filter(|option| !is_x(option)).collect();
            for case in &of.report.cases {
                let Some(figure) = median(case, |run| run.ndr_pps) else { continue };
                let mut name = vec![case.direction.name().to_owned()];
                name.extend((sizes.len() > 1).then(|| case.size.title()));
                name.extend(options.iter().map(|option| (*option).clone()));
                let name = name.join(", ");
                let one =
                    series.entry(name.clone()).or_insert_with(|| Series::new(&name, Vec::new()));
                add_point(one, f64::from(case.active), &figure);
            }
        }
        let mut series: Vec<Series> = series.into_values().collect();
        series.iter_mut().for_each(|one| one.points.sort_by(|a, b| a.0.total_cmp(&b.0)));
        let x = Axis::log("active sessions", active.iter().map(|count| f64::from(*count)));
        out.push_str("<div class=\"plots\">");
        out.push_str(&rate_plot("Loss-free rate by active sessions", x, series));
        out.push_str("</div>\n");
    }
    let mut lines = Vec::new();
    for of in measurements {
        for row in rows(&of.report.cases) {
            lines.push([vec![of.options.join(", ")], row].concat());
        }
    }
    table(out, &[&["options"], &COLUMNS[..]].concat(), &lines);
}

type FigureOfRun = fn(&ThroughputRun) -> Option<u64>;
const FIGURES: [(&str, FigureOfRun); 2] =
    [("loss-free", |run| run.ndr_pps), ("maximum", |run| run.mfr_pps.or(run.mrr_pps))];

/// Median and spread of a figure.
fn median(case: &CaseReport, value: impl Fn(&ThroughputRun) -> Option<u64>) -> Option<Figure> {
    let values: Vec<u64> = case.runs.iter().filter_map(value).collect();
    (!values.is_empty()).then(|| Figure::of("", "pps", &values))
}

fn rates(
    title: &str,
    plot: &str,
    axis: Axis,
    cases: &[CaseReport],
    x: &dyn Fn(&CaseReport) -> f64,
    references: &[Reference],
) -> String {
    let mut series = Vec::new();
    for direction in DIRECTIONS {
        for (name, value) in FIGURES {
            let name = format!("{name}, {}", direction.name());
            let mut one = Series::new(&name, Vec::new());
            for case in cases.iter().filter(|case| case.direction == direction) {
                let Some(figure) = median(case, value) else { continue };
                add_point(&mut one, x(case), &figure);
            }
            one.points.sort_by(|a, b| a.0.total_cmp(&b.0));
            if !one.points.is_empty() {
                series.push(one);
            }
        }
    }
    series.extend(reference_series(plot, references));
    rate_plot(title, axis, series)
}

/// Adds the median of a figure and, if it has several runs, their spread.
fn add_point(series: &mut Series, x: f64, figure: &Figure) {
    series.points.push((x, mpps(figure.median)));
    if figure.runs > 1 {
        series.spread.push((x, mpps(figure.min), mpps(figure.max)));
    }
}

/// Plots rates in Mpps.
fn rate_plot(title: &str, x: Axis, series: Vec<Series>) -> String {
    let y = Axis::linear("Mpps", series.iter().flat_map(|one| &one.points).map(|point| point.1));
    Plot { title: title.to_owned(), x, y, series, look: LineStyle::Both }.html()
}

/// The reference figures of a plot as series.
pub(super) fn reference_series(plot: &str, references: &[Reference]) -> Vec<Series> {
    let wanted = references.iter().filter(|reference| reference.plot == plot);
    wanted
        .map(|reference| Series {
            is_reference: true,
            ..Series::new(
                &reference.label,
                reference.points.iter().map(|point| (point[0], point[1])).collect(),
            )
        })
        .collect()
}

fn bars(cases: &[CaseReport], references: &[Reference]) -> String {
    let mut bars = Vec::new();
    for case in cases {
        for (name, value) in FIGURES {
            let Some(figure) = median(case, value) else { continue };
            bars.push(ChartBar {
                name: format!("{}, {name}", case.direction.name()),
                value: mpps(figure.median),
                spread: Some((mpps(figure.min), mpps(figure.max))),
                is_reference: false,
            });
        }
    }
    for reference in references.iter().filter(|reference| reference.plot == "rate") {
        for point in &reference.points {
            bars.push(ChartBar {
                name: reference.label.clone(),
                value: point[1],
                spread: None,
                is_reference: true,
            });
        }
    }
    let title = cases.first().map_or_else(String::new, |case| {
        format!("Rate, {}, {} active sessions", case.size.title(), case.active)
    });
    bars::html(&title, "Mpps", &bars)
}

/// Plots the loss of every trial against its rate.
fn loss(direction: TrafficDirection, cases: &[CaseReport]) -> String {
    let cases: Vec<&CaseReport> = cases.iter().filter(|case| case.direction == direction).collect();
    let mut series = Vec::new();
    for case in &cases {
        let trials = case.runs.iter().flat_map(|run| &run.trials);
        let valid = trials.filter(|trial| !trial.tester_limited);
        let mut points: Vec<(f64, f64)> =
            valid.map(|trial| (mpps(trial.offered_pps), mpps(trial.loss_ppb) / 10.0)).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let name = format!("{}, {} active", case.size.title(), case.active);
        series.push(Series::new(&name, points));
    }
    let points = || series.iter().flat_map(|series| &series.points);
    if points().next().is_none() {
        return String::new();
    }
    let x = Axis::linear("offered, Mpps", points().map(|point| point.0));
    let y = Axis::loss("lost, %", points().map(|point| point.1));
    let title = format!("Loss by rate, {}: every trial", direction.name());
    Plot { title, x, y, series, look: LineStyle::Marks }.html()
}

fn rows(cases: &[CaseReport]) -> Vec<Vec<String>> {
    let text = |median: Option<Figure>| match median {
        None => "–".to_owned(),
        Some(of) if of.runs < 2 => figure(mpps(of.median)),
        Some(of) => format!(
            "{} ({} … {})",
            figure(mpps(of.median)),
            figure(mpps(of.min)),
            figure(mpps(of.max))
        ),
    };
    cases
        .iter()
        .map(|case| {
            vec![
                case.name.clone(),
                text(median(case, |run| run.ndr_pps)),
                text(median(case, |run| run.plr_pps)),
                text(median(case, |run| run.mfr_pps.or(run.mrr_pps))),
                case.runs.len().to_string(),
            ]
        })
        .collect()
}
