//! The section of the tester's self-test.

use super::axis::figure;
use super::svg::{escape, put};
use super::{mpps, table, us};
use crate::report::TrialReport;
use crate::selftest::SelftestReport;

/// Renders tiles and tables.
pub(super) fn body(out: &mut String, report: &SelftestReport) {
    out.push_str("<div class=\"tiles\">");
    let mut tile = |value: String, name: &str| {
        put(
            out,
            format_args!(
                "<div class=\"tile\"><b>{}</b><span>{}</span></div>",
                escape(&value),
                escape(name)
            ),
        );
    };
    tile(format!("{} Mpps", figure(mpps(report.ceiling_pps))), "one core sends and receives");
    let lost = |trial: &TrialReport| trial.streams.iter().map(|stream| stream.lost).sum::<u64>();
    if let Some(half) = &report.half {
        let sent: u64 = half.streams.iter().map(|stream| stream.sent).sum();
        tile(format!("{} of {sent}", lost(half)), "lost by the tester at half its ceiling");
    }
    if let Some(stream) = report.quiet.as_ref().and_then(|quiet| quiet.streams.first()) {
        let own = &stream.latency;
        tile(format!("{} µs", figure(us(own.p50_ns))), "own latency, median");
        tile(format!("{} µs", figure(us(own.p99_9_ns))), "own latency, p99.9");
        let late = &stream.lateness;
        tile(format!("{} µs", figure(us(late.p99_9_ns))), "send delay behind schedule, p99.9");
    }
    tile(if report.passed { "passed".into() } else { "failed".into() }, "every check");
    out.push_str("</div>\n");
    if report.faults.is_empty() {
        return;
    }
    let rows: Vec<Vec<String>> = report
        .faults
        .iter()
        .map(|fault| {
            let sum = |figure: fn(&crate::report::StreamReport) -> u64| {
                fault.trial.streams.iter().map(figure).sum::<u64>().to_string()
            };
            let slowest = fault.trial.streams.iter().map(|stream| stream.latency.max_ns).max();
            vec![
                fault.fault.clone(),
                fault.planted.to_string(),
                fault.found.to_string(),
                sum(|stream| stream.sent),
                sum(|stream| stream.lost),
                sum(|stream| stream.duplicates),
                sum(|stream| stream.reordered),
                figure(us(slowest.unwrap_or_default())),
            ]
        })
        .collect();
    let header = [
        "planted fault",
        "planted",
        "found",
        "packets",
        "lost",
        "duplicates",
        "reordered",
        "slowest, µs",
    ];
    table(out, &header, &rows);
}
