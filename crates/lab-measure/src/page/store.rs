//! The section of a store: distribution, operations over time, percentiles of all cases, and a table.

use super::axis::{Axis, figure};
use super::svg::{LineStyle, Plot, Series, escape, put};
use super::{table, us};
use crate::store::case::StoreCase;
use crate::store::distribution::StoreLatency;
use crate::store::report::{StoreLatencyReport, StoreRun, groups, median};

/// Cases whose distributions and timelines are drawn; a grid has too many.
const DRAWN_MAX: usize = 4;

/// Renders plots, table and ratios.
pub(super) fn body(out: &mut String, report: &StoreLatencyReport) {
    let groups = groups(&report.runs);
    let mut cases: Vec<StoreCase> = Vec::new();
    for case in report.runs.iter().map(|run| run.case) {
        if !cases.contains(&case) {
            cases.push(case);
        }
    }
    out.push_str("<div class=\"plots\">");
    if cases.len() > 1 {
        for percentile in ["p50", "p95", "p99", "p99.9"] {
            out.push_str(&by_case(&groups, &cases, percentile));
        }
    }
    for case in cases.iter().take(DRAWN_MAX) {
        let last: Vec<&StoreRun> = groups
            .iter()
            .filter_map(|group| group.last().copied())
            .filter(|run| run.case == *case)
            .collect();
        out.push_str(&distribution(case, &last));
        last.iter().for_each(|run| out.push_str(&timeline(run)));
    }
    out.push_str("</div>\n");
    if !groups.is_empty() {
        operations(out, &groups, &cases);
    }
    rest(out, report);
}

/// Latency in the order of the cases, as in figures 15 to 17 of the study.
fn by_case(groups: &[Vec<&StoreRun>], cases: &[StoreCase], percentile: &str) -> String {
    let mut series: Vec<Series> = Vec::new();
    for group in groups {
        let Some(first) = group.first() else { continue };
        let number = (1u32..).zip(cases).find(|(_, case)| **case == first.case);
        let x = f64::from(number.map_or(0, |(number, _)| number));
        let value = us(median(group, |run| run.latency.column(percentile)));
        let name = first.transport.to_string();
        match series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push((x, value)),
            None => series.push(Series::new(&name, vec![(x, value)])),
        }
    }
    let all = || series.iter().flat_map(|series| &series.points);
    let x = Axis::linear("case, by its number in the table", all().map(|point| point.0));
    let y = Axis::log("latency, µs", all().map(|point| point.1));
    let title = format!("{percentile} of each case");
    Plot { title, x, y, series, look: LineStyle::Both }.html()
}

fn distribution(case: &StoreCase, runs: &[&StoreRun]) -> String {
    let line = |run: &&StoreRun| {
        let below = run.curve.iter().filter(|point| point.percentile < 100.0);
        let points = below.map(|point| (point.percentile, us(point.latency_ns))).collect();
        Series::new(&run.transport.to_string(), points)
    };
    let series: Vec<Series> = runs.iter().map(line).collect();
    let all = || series.iter().flat_map(|series| &series.points);
    if all().next().is_none() {
        return String::new();
    }
    let x = Axis::percentile("percentile", all().map(|point| point.0));
    let y = Axis::log("latency, µs", all().map(|point| point.1));
    let title = format!("Distribution: {case}");
    Plot { title, x, y, series, look: LineStyle::Line }.html()
}

/// Operations over time, as in figures 18 and 19 of the study.
fn timeline(run: &StoreRun) -> String {
    // Seconds, exact to the millisecond.
    let points: Vec<(f64, f64)> =
        run.timeline.iter().map(|[start, latency]| (us(*start) / 1e6, us(*latency))).collect();
    if points.is_empty() {
        return String::new();
    }
    let x = Axis::linear("time, s", points.iter().map(|point| point.0));
    let y = Axis::log("latency, µs", points.iter().map(|point| point.1));
    let title =
        format!("Slowest and fastest operations over time: {}, {}", run.case, run.transport);
    let series = vec![Series::new(&run.transport.to_string(), points)];
    Plot { title, x, y, series, look: LineStyle::Marks }.html()
}

fn operations(out: &mut String, groups: &[Vec<&StoreRun>], cases: &[StoreCase]) {
    let names = StoreLatency::default().columns().map(|(name, _)| name);
    let mut header = vec!["case", "", "transport", "operations/s"];
    header.extend(names);
    let row = |group: &Vec<&StoreRun>| {
        let first = group.first()?;
        let number = cases.iter().position(|case| *case == first.case)? + 1;
        let mut row = vec![number.to_string(), first.case.to_string(), first.transport.to_string()];
        row.push(median(group, |run| run.per_second).to_string());
        row.extend(names.map(|name| figure(us(median(group, |run| run.latency.column(name))))));
        Some(row)
    };
    let rows: Vec<_> = groups.iter().filter_map(row).collect();
    out.push_str("<p class=\"soft\">Latencies in µs, medians of the rounds.</p>\n");
    table(out, &header, &rows);
}

/// Ratios, throughput in one direction, and the conditions.
fn rest(out: &mut String, report: &StoreLatencyReport) {
    let rows = |unit: &str, divisor: f64| -> Vec<Vec<String>> {
        let figures = report.figures.iter().filter(|figure| figure.unit == unit);
        let row = |one: &crate::report::Figure| {
            // Exact below 2^53.
            let values = [one.median, one.min, one.max].map(|value| figure(value as f64 / divisor));
            std::iter::once(one.name.clone()).chain(values).collect()
        };
        figures.map(row).collect()
    };
    for (what, unit, divisor) in [("ratio", "permille", 1e3), ("Gb/s", "Mb/s", 1e3)] {
        let rows = rows(unit, divisor);
        if !rows.is_empty() {
            table(out, &[what, "median", "lowest", "highest"], &rows);
        }
    }
    let priority = if report.is_fifo { "real-time" } else { "normal" };
    let text = format!("Server: {}. Threads of {priority} priority.", report.server);
    put(out, format_args!("<p class=\"soft\">{}</p>\n", escape(&text)));
}
