//! The figures and plots of `adit-lab store`.

use serde_json::json;

use super::StoreTurn;
use super::case::{StoreCase, StoreTransport};
use super::load::LoadOutcome;
use crate::plot::{AxisScale, LineStyle, Plot, PlotAxis, Series, linear, logarithmic};
use crate::quantity::{Quantity, higher, lower};
use crate::report::Report;

const RATE: Quantity<'_> = higher("rate", "operations/s");
/// Names of ratios, and the quantities that the ratios compare with those of the blocking client.
const COMPARED: [(&str, Quantity<'_>); 3] = [
    ("p50 to blocking", lower("p50", "ns")),
    ("p99 to blocking", lower("p99", "ns")),
    ("p99.9 to blocking", lower("p99.9", "ns")),
];

/// Adds the figures of a run, and with `drawn` its distribution and its operations over time.
/// Returns a line of progress.
pub(super) fn add_run(
    report: &mut Report,
    turn: &StoreTurn,
    case: &StoreCase,
    outcome: &LoadOutcome,
    drawn: bool,
) -> String {
    let transport = turn.transport.to_string();
    let name = format!("{case}, {transport}");
    let axes = [
        ("operation", json!(case.operation.to_string())),
        ("value, bytes", json!(case.value_bytes)),
        ("clients", json!(case.clients)),
        ("operations/s", json!(case.rate)),
        ("transport", json!(transport)),
    ];
    report.case(&name).axes = axes.map(|(axis, place)| (axis.to_owned(), place)).into();
    let operations = u128::try_from(outcome.times.count()).unwrap_or(0);
    let per_second = operations * 1_000_000_000 / u128::from(outcome.elapsed_ns.max(1));
    let per_second = u64::try_from(per_second).unwrap_or(u64::MAX);
    let mut line = format!("{name}: {per_second}/s");
    for (quantity, ns) in outcome.times.figures() {
        report.add(quantity, &name, [ns]);
        line += &format!(", {} {:.1}", quantity.name, us(ns));
    }
    report.add(RATE, &name, [per_second]);
    if drawn {
        draw(report, case, &transport, outcome);
    }
    line + " µs"
}

/// Converts to microseconds, exact below 2^53.
fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

fn draw(report: &mut Report, case: &StoreCase, transport: &str, outcome: &LoadOutcome) {
    let below = outcome.times.curve().into_iter().filter(|point| point.percentile < 100.0);
    let points = below.map(|point| (point.percentile, us(point.latency_ns))).collect();
    let x = PlotAxis { label: "percentile".to_owned(), scale: AxisScale::Percentile };
    let y = logarithmic("latency, µs");
    let mut curve = Plot::new(&format!("Distribution: {case}"), x, y.clone(), LineStyle::Line);
    curve.series.push(Series::new(transport, points));
    report.plot(curve);
    let points = outcome.times.timeline().into_iter();
    let points = points.map(|[start, latency]| (us(start) / 1e6, us(latency))).collect();
    let title = format!("Slowest and fastest operations over time: {case}, {transport}");
    let mut timeline = Plot::new(&title, linear("time, s"), y, LineStyle::Marks);
    timeline.series.push(Series::new(transport, points));
    report.plot(timeline);
}

/// Adds the ratios of latencies to the latencies of the blocking client in the same round.
pub(super) fn add_ratios(report: &mut Report) {
    let blocking = StoreTransport::Blocking.to_string();
    for name in report.cases.iter().map(|case| case.name.clone()).collect::<Vec<_>>() {
        let Some((case, transport)) = name.rsplit_once(", ") else { continue };
        if transport != blocking {
            let other = format!("{case}, {blocking}");
            for (ratio, of) in COMPARED {
                report.ratio(ratio, of, [&name, &other]);
            }
        }
    }
}
