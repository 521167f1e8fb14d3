//! The latency section: percentile curves, latency by size, and latency over time.

use std::collections::BTreeSet;

use super::axis::{Axis, figure};
use super::svg::{LineStyle, Plot, Series};
use super::throughput::reference_series;
use super::{load, mpps, table, us};
use crate::latency::{LatencyReport, PointReport};
use crate::report::{SecondReport, StreamReport};
use crate::run_report::Reference;

/// Renders plots and tables.
pub(super) fn body(out: &mut String, report: &LatencyReport, references: &[Reference]) {
    load::placement(out, &report.base);
    if report.base.left_out.is_some() {
        return;
    }
    let mut cases: Vec<&str> = report.points.iter().map(|point| &*point.case).collect();
    cases.dedup();
    out.push_str("<div class=\"plots\">");
    out.push_str(&by_size(&report.points, references));
    for case in cases {
        let points: Vec<&PointReport> =
            report.points.iter().filter(|point| point.case == case).collect();
        out.push_str(&curves(case, &points));
        out.push_str(&timeline(case, &points));
    }
    out.push_str("</div>\n");
    let header = [
        "case",
        "stream",
        "offered, Mpps",
        "lost",
        "p50, µs",
        "p90",
        "p99",
        "p99.9",
        "p99.99",
        "max",
        "mean",
        "jitter",
    ];
    table(out, &header, &report.points.iter().flat_map(rows).collect::<Vec<_>>());
    load::body(out, report);
}

/// The name of a point in a legend.
fn name(point: &PointReport) -> String {
    let rate = figure(mpps(point.trial.offered_pps));
    match point.share_percent {
        Some(share) => format!("{share} % ({rate} Mpps)"),
        None => format!("{rate} Mpps"),
    }
}

fn streams(point: &PointReport) -> impl Iterator<Item = (&StreamReport, String)> {
    let several = point.trial.streams.iter().filter(|stream| stream.offered > 0).count() > 1;
    point.trial.streams.iter().filter(|stream| stream.received > 0).map(move |stream| {
        let name = name(point);
        let name = if several { format!("{}, {name}", stream.name) } else { name };
        (stream, name)
    })
}

fn curves(case: &str, points: &[&PointReport]) -> String {
    let mut series = Vec::new();
    for point in points {
        for (stream, name) in streams(point) {
            let below = stream.curve.iter().filter(|point| point.percentile < 100.0);
            let line = below.map(|point| (point.percentile, us(point.latency_ns))).collect();
            series.push(Series::new(&name, line));
        }
    }
    let all = || series.iter().flat_map(|series| &series.points);
    if all().next().is_none() {
        return String::new();
    }
    let x = Axis::percentile("percentile", all().map(|point| point.0));
    let y = Axis::log("latency, µs", all().map(|point| point.1));
    let title = format!("Latency by percentile: {case}");
    Plot { title, x, y, series, look: LineStyle::Line }.html()
}

fn timeline(case: &str, points: &[&PointReport]) -> String {
    let line = |seconds: &[SecondReport], value: fn(&SecondReport) -> u64| -> Vec<(f64, f64)> {
        let seconds = (1u32..).zip(seconds).filter(|(_, second)| second.received > 0);
        seconds.map(|(at, second)| (f64::from(at), us(value(second)))).collect()
    };
    let mut series = Vec::new();
    for point in points {
        for (stream, name) in streams(point) {
            // Packets that arrive after the last whole second are stragglers.
            let whole = usize::try_from(point.trial.duration_ns / 1_000_000_000).unwrap_or(0);
            let seconds = stream.timeline.get(..whole).unwrap_or(&stream.timeline);
            let p50 = line(seconds, |second| second.latency.p50_ns);
            let p99 = line(seconds, |second| second.latency.p99_ns);
            series.push(Series::new(&format!("p50, {name}"), p50));
            series.push(Series::new(&format!("p99, {name}"), p99));
        }
    }
    let all = || series.iter().flat_map(|series| &series.points);
    if all().count() < 2 {
        return String::new();
    }
    let x = Axis::linear("second", all().map(|point| point.0));
    let y = Axis::log("latency, µs", all().map(|point| point.1));
    let title = format!("Latency second by second: {case}");
    Plot { title, x, y, series, look: LineStyle::Both }.html()
}

/// Median, mean and 99th percentile by size, at the highest share of each case.
fn by_size(points: &[PointReport], references: &[Reference]) -> String {
    let sizes: BTreeSet<Option<u32>> = points.iter().map(|point| point.size.bytes()).collect();
    let highest = points.iter().filter_map(|point| point.share_percent).max();
    let Some(share) = highest.filter(|_| sizes.len() > 1) else { return String::new() };
    let mut series: Vec<Series> = Vec::new();
    for point in points.iter().filter(|point| point.share_percent == Some(share)) {
        let x = f64::from(point.size.bytes().unwrap_or_default());
        for stream in point.trial.streams.iter().filter(|stream| stream.received > 0) {
            let latency = &stream.latency;
            let direction = point.direction.name();
            for (figure, ns) in
                [("p50", latency.p50_ns), ("mean", latency.mean_ns), ("p99", latency.p99_ns)]
            {
                let name = format!("{figure}, {direction}");
                let at = series.iter().position(|series| series.name == name);
                let at = at.unwrap_or_else(|| {
                    series.push(Series::new(&name, Vec::new()));
                    series.len() - 1
                });
                if let Some(series) = series.get_mut(at) {
                    series.points.push((x, us(ns)));
                }
            }
        }
    }
    series.extend(reference_series("latency-by-size", references));
    let all = || series.iter().flat_map(|series| &series.points);
    let is_payload = points.iter().any(|point| point.size.name.contains("payload"));
    let label = if is_payload { "payload, bytes" } else { "IP packet, bytes" };
    let x = Axis::linear(label, all().map(|point| point.0));
    let y = Axis::log("latency, µs", all().map(|point| point.1));
    let title = format!("Latency by size at {share} % of the loss-free rate");
    Plot { title, x, y, series, look: LineStyle::Both }.html()
}

fn rows(point: &PointReport) -> Vec<Vec<String>> {
    let of = |stream: &StreamReport| {
        let latency = &stream.latency;
        let mut row = vec![
            point.case.clone(),
            stream.name.clone(),
            name(point).trim_end_matches(" Mpps").to_owned(),
            stream.lost.to_string(),
        ];
        let figures = [
            latency.p50_ns,
            latency.p90_ns,
            latency.p99_ns,
            latency.p99_9_ns,
            latency.p99_99_ns,
            latency.max_ns,
            latency.mean_ns,
            latency.jitter_ns,
        ];
        row.extend(figures.map(|ns| figure(us(ns))));
        row
    };
    point.trial.streams.iter().filter(|stream| stream.offered > 0).map(of).collect()
}
