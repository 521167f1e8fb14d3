//! The load of the target, and where its threads run.

use super::axis::Axis;
use super::svg::{LineStyle, Plot, Series, escape, put};
use super::{table, us};
use crate::base::ReportBase;
use crate::latency::{LOAD_COLUMNS, LatencyReport, PointReport, load_row};
use crate::target::load::LoadReading;

/// Renders where the threads of the target run, and the rules that this breaks.
pub(super) fn placement(out: &mut String, base: &ReportBase) {
    let Some(placed) = &base.placement else { return };
    put(out, format_args!("<p>CPUs: {}.</p>\n", escape(&placed.threads())));
    if !placed.breaks.is_empty() {
        out.push_str("<ul>");
        for found in &placed.breaks {
            put(out, format_args!("<li>breaks {}</li>", escape(found)));
        }
        out.push_str("</ul>\n");
    }
}

/// One of several measurements, with the options that the others do not have.
pub(super) struct ComparedLoads {
    pub options: Vec<String>,
    pub report: LatencyReport,
}

impl ComparedLoads {
    /// True if the load was read.
    pub(super) fn has_loads(&self) -> bool {
        self.report.points.iter().any(|point| point.load.is_some())
    }
}

/// A quantity of a load, in the unit of its plot.
struct Quantity {
    title: &'static str,
    unit: &'static str,
    of: fn(&LoadReading) -> Option<f64>,
}

/// Thousandths as percent.
fn percent(permille: u64) -> f64 {
    us(permille) * 1e2
}

const QUANTITIES: [Quantity; 6] = [
    Quantity {
        title: "Busy share by load",
        unit: "%",
        of: |load| Some(percent(load.busy_permille)),
    },
    Quantity {
        title: "CPU time of the packet path by load",
        unit: "% of a CPU",
        of: |load| Some(percent(load.path_cpu_permille)),
    },
    Quantity {
        title: "CPU time of all threads by load",
        unit: "% of a CPU",
        of: |load| Some(percent(load.process_cpu_permille)),
    },
    Quantity { title: "Frequency by load", unit: "GHz", of: |load| load.frequency_mhz.map(us) },
    Quantity {
        title: "Idle states by load",
        unit: "% of the time",
        of: |load| load.idle_permille.map(percent),
    },
    Quantity { title: "Power of the machine by load", unit: "W", of: |load| load.power_mw.map(us) },
];

/// Renders the load of one measurement: a plot of each quantity that the machine shows, and a table.
pub(super) fn body(out: &mut String, report: &LatencyReport) {
    let rows: Vec<_> = report.points.iter().filter_map(load_row).collect();
    if rows.is_empty() {
        return;
    }
    plots(out, &[(String::new(), report)]);
    table(out, &LOAD_COLUMNS, &rows);
}

/// Renders the load of several measurements in the same plots.
pub(super) fn overview(out: &mut String, measurements: &[ComparedLoads]) {
    let named: Vec<_> = measurements.iter().map(|of| (of.options.join(", "), &of.report)).collect();
    plots(out, &named);
}

fn plots(out: &mut String, measurements: &[(String, &LatencyReport)]) {
    out.push_str("<div class=\"plots\">");
    for quantity in QUANTITIES {
        out.push_str(&plot(&quantity, measurements));
    }
    out.push_str("</div>\n");
}

/// The quantity by the share of the loss-free rate, or by the rate if there are no shares.
fn plot(quantity: &Quantity, measurements: &[(String, &LatencyReport)]) -> String {
    let points = || measurements.iter().flat_map(|(_, report)| &report.points);
    let has_shares = points().all(|point| point.share_percent.is_some());
    let x = |point: &PointReport| match point.share_percent {
        // Both are exact.
        Some(share) if has_shares => share as f64,
        _ => super::mpps(point.trial.offered_pps),
    };
    let mut series: Vec<Series> = Vec::new();
    for (name, report) in measurements {
        for point in &report.points {
            let Some(y) = point.load.as_ref().and_then(quantity.of) else { continue };
            let name = match name.is_empty() {
                true => point.case.clone(),
                false => format!("{name}, {}", point.case),
            };
            match series.iter_mut().find(|series| series.name == name) {
                Some(series) => series.points.push((x(point), y)),
                None => series.push(Series::new(&name, vec![(x(point), y)])),
            }
        }
    }
    let all = || series.iter().flat_map(|series| &series.points);
    if all().next().is_none() {
        return String::new();
    }
    let label = if has_shares { "% of the loss-free rate" } else { "offered, Mpps" };
    let (x, y) = (
        Axis::linear(label, all().map(|point| point.0)),
        Axis::linear(quantity.unit, all().map(|point| point.1)),
    );
    Plot { title: quantity.title.to_owned(), x, y, series, look: LineStyle::Both }.html()
}
