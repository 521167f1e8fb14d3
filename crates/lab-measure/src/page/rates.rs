//! The section of `rates`: offered rate, received rate and limit over time.

use super::axis::Axis;
use super::svg::{LineStyle, Plot, Series, escape, put};
use super::{mpps, table};
use crate::rates::{COLUMNS, GroupReport, RatesReport, row, rows};

/// Fewer groups than this get no plot of errors.
const GROUPS_MIN: usize = 3;

/// Renders plots, the table and the findings.
pub(super) fn body(out: &mut String, report: &RatesReport) {
    out.push_str("<div class=\"plots\">");
    for group in &report.groups {
        out.push_str(&course(group, report.window_ns));
    }
    out.push_str(&errors(&report.groups));
    out.push_str("</div>\n");
    let header: Vec<&str> = COLUMNS.to_vec();
    let cells: Vec<Vec<String>> =
        rows(report).map(|(group, stream)| row(group, stream).to_vec()).collect();
    table(out, &header, &cells);
    put(
        out,
        format_args!(
            "<p class=\"soft\">Octets of IP packets in windows of {} ms. Errors are those from the \
             limit, of windows that were offered more than it and lie {} ms or more behind the \
             beginning and the last change of the rate; quiet windows are those in which the tester \
             was never away for longer than a quarter percent of them.</p>\n",
            report.window_ns / 1_000_000,
            report.settle_ns / 1_000_000
        ),
    );
    for finding in &report.findings {
        put(out, format_args!("<p class=\"bad\">{}</p>\n", escape(finding)));
    }
}

/// Plots the rates of one group over time.
fn course(group: &GroupReport, window_ns: u64) -> String {
    let width = mpps(window_ns) / 1e3;
    let line = |rates: &[u64]| -> Vec<(f64, f64)> {
        let middles = (0u32..).map(|at| (f64::from(at) + 0.5) * width);
        middles.zip(rates).map(|(at, bps)| (at, mpps(*bps))).collect()
    };
    let ends = width * mpps(u64::try_from(group.offered_bps.len()).unwrap_or(0)) * 1e6;
    let limit = |name: &str, bps: u64| Series {
        is_reference: true,
        ..Series::new(name, vec![(0.0, mpps(bps)), (ends, mpps(bps))])
    };
    let few = !group.each_bps.is_empty();
    let mut series = vec![
        Series::new("offered", line(&group.offered_bps)),
        Series::new("received", line(&group.received_bps)),
    ];
    series.extend(group.limit_bps.map(|bps| limit("limit", bps)));
    if few {
        let each = (1u32..).zip(&group.each_bps);
        series.extend(each.map(|(at, rates)| Series::new(&format!("session {at}"), line(rates))));
        let own = group.limit_bps.filter(|_| !group.shared);
        let own = own.map(|bps| limit("limit of each", bps / u64::from(group.sessions.max(1))));
        series.extend(own);
    }
    let points = || series.iter().flat_map(|series| &series.points);
    if points().next().is_none() {
        return String::new();
    }
    let x = Axis::linear("seconds", points().map(|point| point.0));
    let y = Axis::linear("Mb/s", points().map(|point| point.1));
    let title = format!("{}, {}", group.name, group.size);
    Plot { title, x, y, series, look: LineStyle::Line }.html()
}

/// Plots the errors of groups against their limits.
fn errors(groups: &[GroupReport]) -> String {
    let judged: Vec<_> = groups
        .iter()
        .filter(|group| !group.shared)
        .filter_map(|group| Some((group.limit_bps? / u64::from(group.sessions), group.accuracy?)))
        .collect();
    if judged.len() < GROUPS_MIN {
        return String::new();
    }
    let mut points: Vec<_> = judged
        .iter()
        .map(|(limit, accuracy)| {
            let percent = |ppm: u64| mpps(ppm) * 100.0;
            let worst = percent(accuracy.session_worst_ppm.unsigned_abs());
            let packet = percent(accuracy.session_packet_ppm);
            (mpps(*limit), [percent(accuracy.session_mean_ppm), worst, packet])
        })
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let names = ["mean of the sessions", "worst session", "one packet"];
    let line = |at: usize| points.iter().filter_map(|(x, y)| Some((*x, *y.get(at)?))).collect();
    let series: Vec<Series> =
        names.iter().zip(0..).map(|(name, at)| Series::new(name, line(at))).collect();
    let all = || series.iter().flat_map(|series| &series.points);
    let x = Axis::log("limit of a session, Mb/s", all().map(|point| point.0));
    let y = Axis::linear("error of its mean, %", all().map(|point| point.1));
    let title = "Error by limit".to_owned();
    Plot { title, x, y, series, look: LineStyle::Both }.html()
}
