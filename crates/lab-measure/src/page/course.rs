//! The sections of measurements with a time course: ramp and soak.

use super::axis::{Axis, figure};
use super::load;
use super::svg::{LineStyle, Plot, Series, escape, put};
use super::{mpps, table, us};
use crate::ramp::{COLUMNS, RampReport, RoundReport};
use crate::soak::SoakReport;

/// Points whose x is the number of the value, from 1.
fn numbered(values: impl Iterator<Item = f64>) -> Vec<(f64, f64)> {
    (1u32..).zip(values).map(|(at, value)| (f64::from(at), value)).collect()
}

fn plot(title: &str, x: &str, y: &str, series: Vec<Series>) -> String {
    let points = || series.iter().flat_map(|series| &series.points);
    if points().next().is_none() {
        return String::new();
    }
    let x = Axis::linear(x, points().map(|point| point.0));
    let y = Axis::linear(y, points().map(|point| point.1));
    Plot { title: title.to_owned(), x, y, series, look: LineStyle::Both }.html()
}

fn one(name: &str, values: impl Iterator<Item = f64>) -> Vec<Series> {
    vec![Series::new(name, numbered(values))]
}

/// Renders plots and the table of the rounds.
pub(super) fn ramp(out: &mut String, report: &RampReport) {
    let rounds = &report.rounds;
    load::placement(out, &report.base);
    if report.base.left_out.is_some() {
        return;
    }
    let sessions = rounds.iter().map(|round| f64::from(round.sessions));
    let lost = rounds.iter().map(|round| mpps(round.drop_ppm) * 1e6);
    out.push_str("<div class=\"plots\">");
    out.push_str(&plot("Sessions round by round", "round", "sessions", one("sessions", sessions)));
    out.push_str(&plot("Loss round by round", "round", "lost, ppm", one("lost", lost)));
    let latency = rounds.iter().map(|round| us(round.trial.p99_ns()));
    out.push_str(&plot("Latency round by round", "round", "p99, µs", one("p99", latency)));
    let memory = rounds.iter().filter_map(|round| round.memory_kib).map(|kib| mpps(kib) * 1e6);
    let memory = memory.map(|kib| kib / 1024.0);
    out.push_str(&plot("Memory of the target", "round", "MiB", one("resident", memory)));
    out.push_str(&busy_by_sessions(&[("mean", rounds)]));
    out.push_str("</div>\n");
    let rows: Vec<Vec<String>> = (1u32..)
        .zip(rounds)
        .map(|(at, round)| round.row(at, figure(us(round.trial.p99_ns()))))
        .collect();
    table(out, &COLUMNS, &rows);
}

/// One of several ramps.
pub(super) struct ComparedRamp {
    /// The options that the others do not have.
    pub options: Vec<String>,
    /// Its report.
    pub report: RampReport,
}

/// Renders what several ramps reached side by side, as table 4.12 of study 003.
pub(super) fn overview(out: &mut String, ramps: &[ComparedRamp]) {
    let names: Vec<_> = ramps.iter().map(|of| of.options.join(", ")).collect();
    let series: Vec<_> =
        names.iter().zip(ramps).map(|(name, of)| (&**name, &*of.report.rounds)).collect();
    out.push_str("<div class=\"plots\">");
    out.push_str(&busy_by_sessions(&series));
    out.push_str("</div>\n");
    let rows: Vec<_> = names.iter().zip(ramps).map(|(name, of)| ramp_row(name, of)).collect();
    let header = [
        "ramp",
        "CPUs",
        "breaks",
        "rounds",
        "sessions within the limits",
        "rate, Mpps",
        "lost, ppm",
        "busy, % (mean / highest)",
        "ended by",
    ];
    table(out, &header, &rows);
}

/// The last round within the limits, and what ended the ramp.
fn ramp_row(name: &str, of: &ComparedRamp) -> Vec<String> {
    let (base, rounds) = (&of.report.base, &of.report.rounds);
    let placed = base.placement.as_ref();
    let mut row = vec![
        name.to_owned(),
        placed.map_or_else(String::new, |placed| placed.threads()),
        placed.map_or_else(String::new, |placed| placed.rules().join(", ")),
    ];
    if let Some(why) = &base.left_out {
        row.extend(std::iter::repeat_n("–".to_owned(), 5));
        row.push(format!("left out: {why}"));
        return row;
    }
    let held = rounds.iter().filter(|round| round.limit.is_none());
    let best = held.max_by_key(|round| round.sessions);
    let of_best = |text: fn(&RoundReport) -> String| best.map_or_else(|| "–".to_owned(), text);
    row.extend([
        rounds.len().to_string(),
        of_best(|round| round.sessions.to_string()),
        of_best(|round| figure(mpps(round.trial.received_pps))),
        of_best(|round| round.drop_ppm.to_string()),
        of_best(RoundReport::busy),
        rounds.iter().filter_map(|round| round.limit.clone()).next_back().unwrap_or_default(),
    ]);
    row
}

fn busy_by_sessions(ramps: &[(&str, &[RoundReport])]) -> String {
    let line = |rounds: &[RoundReport]| -> Vec<(f64, f64)> {
        let rounds = rounds.iter().filter(|round| !round.back_off);
        let point = |round: &RoundReport| {
            let busy = round.load.as_ref()?.busy_permille;
            Some((f64::from(round.sessions), us(busy) * 1e2))
        };
        rounds.filter_map(point).collect()
    };
    let series = ramps.iter().map(|(name, rounds)| Series::new(name, line(rounds)));
    // One that was left out has no line.
    let series = series.filter(|series| !series.points.is_empty()).collect();
    plot("Busy share by sessions", "sessions", "busy, %", series)
}

/// Renders plots by interval, the session changes, and the findings.
pub(super) fn soak(out: &mut String, report: &SoakReport) {
    let intervals = &report.intervals;
    let rate = intervals.iter().map(|interval| mpps(interval.trial.received_pps));
    let lost = intervals.iter().map(|interval| mpps(interval.trial.loss_ppb) * 1e3);
    let latency = intervals.iter().map(|interval| us(interval.trial.p99_ns()));
    let memory = intervals.iter().filter_map(|interval| interval.memory_kib);
    let memory = memory.map(|kib| mpps(kib) * 1e6 / 1024.0);
    out.push_str("<div class=\"plots\">");
    out.push_str(&plot("Received", "interval", "Mpps", one("received", rate)));
    out.push_str(&plot("Lost", "interval", "lost, ppm", one("lost", lost)));
    out.push_str(&plot("Latency", "interval", "p99, µs", one("p99", latency)));
    out.push_str(&plot("Memory of the target", "interval", "MiB", one("resident", memory)));
    out.push_str("</div>\n");
    if let Some(churned) = &report.churned {
        let latency = &churned.latency;
        table(
            out,
            &["changes", "per second", "refused", "retransmitted", "p50, µs", "p99, µs", "max, µs"],
            &[vec![
                churned.count.to_string(),
                churned.per_second.to_string(),
                churned.failed.to_string(),
                churned.retransmissions.to_string(),
                figure(us(latency.p50_ns)),
                figure(us(latency.p99_ns)),
                figure(us(latency.max_ns)),
            ]],
        );
    }
    for finding in &report.findings {
        put(out, format_args!("<p class=\"bad\">{}</p>\n", escape(finding)));
    }
    if report.findings.is_empty() {
        out.push_str(
            "<p><span class=\"good\">Steady</span>: the measurement found no leak and no drift.</p>\n",
        );
    }
}
