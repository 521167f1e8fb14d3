//! The section of a baseband workload: distribution of the response times, and a table.

use super::axis::Axis;
use super::svg::{LineStyle, Plot, Series, escape, put};
use super::throughput::reference_series;
use super::{table, us};
use crate::baseband::{BasebandReport, shown};
use crate::run_report::Reference;

/// Name of the plot for references.
const PLOT: &str = "response-cdf";

/// One of several measurements.
pub(super) struct ComparedResponses {
    /// The options that the others do not have.
    pub options: Vec<String>,
    /// Its report.
    pub report: BasebandReport,
}

/// Renders the distribution of one measurement, its figures and the times of its threads.
pub(super) fn body(out: &mut String, report: &BasebandReport, references: &[Reference]) {
    let series = vec![line("here", report)];
    out.push_str("<div class=\"plots\">");
    out.push_str(&distribution("Response time", report, series, references));
    out.push_str("</div>\n");
    let row = |figure| {
        let (unit, values) = shown(figure);
        [vec![figure.name.clone(), unit], values.to_vec()].concat()
    };
    let rows: Vec<_> = report.figures.iter().map(row).collect();
    table(out, &["", "unit", "median", "lowest", "highest"], &rows);
    let Some(last) = report.rounds.last() else { return };
    let row = |stage: &adit_lab_baseband::StageDurations| {
        let times = [stage.p50_ns, stage.p99_ns, stage.max_ns].map(|ns| format!("{:.1}", us(ns)));
        [vec![stage.stage.clone(), stage.count.to_string()], times.to_vec()].concat()
    };
    let rows: Vec<_> = last.stages.iter().map(row).collect();
    table(out, &["last round", "number", "p50, µs", "p99", "max"], &rows);
    let latency = match report.cpu_dma_latency_us {
        Some(latency_us) => format!("; /dev/cpu_dma_latency held at {latency_us} µs"),
        None => String::new(),
    };
    let text = format!(
        "{}, {} iterations of busy work per ms{latency}.",
        report.workload.policy, report.calibration.iterations_per_ms
    );
    put(out, format_args!("<p class=\"soft\">{}</p>\n", escape(&text)));
}

/// Renders the distributions of several measurements in one plot, as figures 2 to 5 of the study.
pub(super) fn overview(
    out: &mut String,
    measurements: &[ComparedResponses],
    references: &[Reference],
) {
    let Some(first) = measurements.first() else { return };
    let name = |options: &[String]| {
        if options.is_empty() { "the first".to_owned() } else { options.join(", ") }
    };
    let series = measurements.iter().map(|of| line(&name(&of.options), &of.report));
    out.push_str("<div class=\"plots\">");
    let title = "Response time of all measurements";
    out.push_str(&distribution(title, &first.report, series.collect(), references));
    out.push_str("</div>\n");
}

fn line(name: &str, report: &BasebandReport) -> Series {
    let share = |ppm: u64| ppm as f64 / 1e6;
    let points = report.cdf.iter().map(|point| (us(point.response_ns), share(point.ttis_ppm)));
    Series::new(name, points.collect())
}

/// A plot with these lines and those of references, and where the path of the graph and the TTI end.
fn distribution(
    title: &str,
    report: &BasebandReport,
    mut series: Vec<Series>,
    references: &[Reference],
) -> String {
    if series.iter().all(|series| series.points.is_empty()) {
        return String::new();
    }
    let workload = &report.workload;
    for (name, ns) in [("sum of the times", workload.times.path_ns()), ("TTI", workload.tti_ns)] {
        let points = vec![(us(ns), 0.0), (us(ns), 1.0)];
        series.push(Series { is_reference: true, ..Series::new(name, points) });
    }
    series.extend(reference_series(PLOT, references));
    let all = || series.iter().flat_map(|series| &series.points);
    let x = Axis::log("response time, µs", all().map(|point| point.0));
    let y = Axis::linear("share of the TTIs", all().map(|point| point.1));
    Plot { title: title.to_owned(), x, y, series, look: LineStyle::Line }.html()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn report() -> BasebandReport {
        let point = |response_ns: u64, ttis_ppm: u64| json!({"response_ns": response_ns, "ttis_ppm": ttis_ppm});
        let value: Value = json!({
            "tool": "adit-lab 0", "measurement": "baseband", "complete": true, "command": [],
            "started_unix_s": 0, "machine": crate::machine::Machine::default(), "steal_ms": {},
            "warnings": [],
            "workload": {
                "cells": 2, "tti_ns": 1_000_000, "ttis": 2,
                "times": {"uplink_ns": 500_000, "scheduler_ns": 100_000, "downlink_ns": 300_000},
                "distribution": "fixed", "policy": "fifo", "priority": 90, "cores": [],
                "io_core": null, "core_scheduling": false, "seed": 1,
            },
            "cpu_dma_latency_us": 0,
            "calibration": {"iterations_per_ms": 400, "median_excess_permille": 1},
            "background": {"kind": "primes", "cores": [1], "threads": 1},
            "figures": [{"name": "response p50", "unit": "ns", "median": 905_000, "min": 1, "max": 2, "runs": 3}],
            "cdf": [point(905_000, 500_000), point(1_400_000, 1_000_000)],
            "rounds": [{
                "ttis": 2, "missed": 1, "timed_out": 0, "without_response": 0, "min_ns": 905_000,
                "mean_ns": 1, "percentiles_ns": [["p50", 905_000], ["p99", null]], "max_ns": 1,
                "stages": [{"stage": "uplink", "count": 4, "p50_ns": 501_000, "p99_ns": 1, "max_ns": 1}],
                "background_alone": 10, "background_beside": 9,
            }],
        });
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn section_has_the_distribution_with_references_and_the_threads_times() {
        let reference = Reference {
            plot: PLOT.to_owned(),
            label: "study, RT".to_owned(),
            machine: "Xeon".to_owned(),
            points: vec![[900.0, 0.0], [900.0, 1.0]],
        };
        let mut out = String::new();
        body(&mut out, &report(), &[reference]);
        for wanted in [
            "response time, µs",
            "sum of the times",
            "study, RT",
            "<td>905.0</td>",
            "<td>501.0</td>",
            "held at 0 µs",
            "SCHED_FIFO, 400 iterations",
        ] {
            assert!(out.contains(wanted), "{wanted}: {out}");
        }
    }

    #[test]
    fn overview_has_a_line_for_each_measurement() {
        let of =
            |option: &str| ComparedResponses { options: vec![option.to_owned()], report: report() };
        let mut out = String::new();
        overview(&mut out, &[of("policy=fifo"), of("policy=other")], &[]);
        assert!(out.contains("policy=fifo") && out.contains("policy=other"), "{out}");
        let mut empty = report();
        empty.cdf.clear();
        assert_eq!(distribution("T", &empty, vec![line("here", &empty)], &[]), "");
    }
}
