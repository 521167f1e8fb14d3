//! The results of measurements of one kind: plots of figures along the axes of the cases, other
//! plots, and tables.

use std::collections::BTreeSet;

use serde_json::Value;

use super::svg;
use super::table;
use crate::plot::{LineStyle, Plot, Series, linear, logarithmic, merge};
use crate::quantity::{Figure, readers_unit};
use crate::report::{MeasuredCase, Report};
use crate::run_report::Reference;
use crate::tables::tables;

/// An axis whose values differ by more than this factor is logarithmic.
const LINEAR_RANGE_MAX: f64 = 100.0;

/// Reports of one kind of measurement, each labeled with the options that the others do not have.
pub(super) type Compared<'r> = [(String, &'r Report)];

/// Renders plots and tables.
pub(super) fn body(out: &mut String, reports: &Compared<'_>, references: &[Reference]) {
    let mut plots = Vec::new();
    for quantity in plotted(reports) {
        plots.extend(axes(reports).iter().filter_map(|axis| plot_along(reports, &quantity, axis)));
    }
    for (label, report) in reports {
        for plot in &report.plots {
            let mut plot = plot.clone();
            if reports.len() > 1 {
                let own = plot.series.iter_mut().filter(|series| !series.is_reference);
                own.for_each(|series| series.name = joined([label, &series.name]));
            }
            merge(&mut plots, plot);
        }
    }
    out.push_str("<div class=\"plots\">");
    for mut plot in plots {
        let named = references.iter().filter(|of| !plot.name.is_empty() && of.plot == plot.name);
        for reference in named {
            let points = reference.points.iter().map(|[x, y]| (*x, *y)).collect();
            plot.series.push(Series::reference(&reference.label, points));
        }
        // Several measurements may have the same limits: draw each limit once.
        let mut seen = Vec::new();
        plot.series.retain(|series| {
            let is_new = !seen.contains(series);
            seen.extend(series.is_reference.then(|| series.clone()));
            is_new && !series.points.is_empty()
        });
        out.push_str(&svg::html(&plot));
    }
    out.push_str("</div>\n");
    for figures in tables(reports) {
        table(out, &figures.header, &figures.rows);
    }
}

/// Returns a figure of each quantity that is plotted.
fn plotted(reports: &Compared<'_>) -> Vec<Figure> {
    let mut quantities: Vec<Figure> = Vec::new();
    for figure in reports.iter().flat_map(|(_, report)| &report.figures) {
        let is_new = quantities.iter().all(|of| of.quantity != figure.quantity);
        quantities.extend((figure.plotted && is_new).then(|| figure.clone()));
    }
    quantities
}

/// Returns the axes on which cases have different numbers.
fn axes(reports: &Compared<'_>) -> Vec<String> {
    let cases = || reports.iter().flat_map(|(_, report)| &report.cases);
    let names: BTreeSet<&String> = cases().flat_map(|case| case.axes.keys()).collect();
    let varies = |name: &&&String| {
        let places = cases().filter_map(|case| case.axes.get(**name)?.as_f64());
        let places: BTreeSet<u64> = places.map(f64::to_bits).collect();
        places.len() > 1
    };
    names.iter().filter(varies).map(|name| (*name).clone()).collect()
}

/// Plots a quantity along an axis, with a line for each position on the other axes; `None` if no
/// line has two points.
fn plot_along(reports: &Compared<'_>, quantity: &Figure, axis: &str) -> Option<Plot> {
    let mut series: Vec<Series> = Vec::new();
    for (label, report) in reports {
        for figure in report.figures.iter().filter(|of| of.quantity == quantity.quantity) {
            let case = report.cases.iter().find(|case| case.name == figure.case);
            let Some(x) = case.and_then(|case| case.axes.get(axis)?.as_f64()) else { continue };
            let name = joined([
                &without_axis_options(label, axis),
                &case.map_or_else(String::new, |of| other_positions(of, axis)),
            ]);
            let at = series.iter().position(|one| one.name == name).unwrap_or_else(|| {
                series.push(Series::new(&name, Vec::new()));
                series.len() - 1
            });
            let Some(one) = series.get_mut(at) else { continue };
            let [median, min, max] = figure.for_readers();
            one.points.push((x, median));
            one.spread.extend((figure.runs > 1).then_some((x, min, max)));
        }
    }
    series.iter_mut().for_each(|one| one.points.sort_by(|a, b| a.0.total_cmp(&b.0)));
    if series.iter().all(|one| one.points.len() < 2) {
        return None;
    }
    let scaled = |label: &str, value: fn(&(f64, f64)) -> f64| {
        let values = || series.iter().flat_map(|one| &one.points).map(value);
        let (min, max) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
        let is_wide = min > 0.0 && max > min * LINEAR_RANGE_MAX;
        if is_wide { logarithmic(label) } else { linear(label) }
    };
    let (x, y) = (scaled(axis, |of| of.0), scaled(readers_unit(&quantity.unit).0, |of| of.1));
    let title = format!("{} by {axis}", quantity.quantity);
    let name = reference_name(&quantity.unit, axis).to_owned();
    Some(Plot { series, name, ..Plot::new(&title, x, y, LineStyle::Both) })
}

/// Returns the name by which experiment files add references to a plot; empty if none can be added.
fn reference_name(unit: &str, axis: &str) -> &'static str {
    match (unit, axis) {
        ("pps", "active sessions") => "rate-by-sessions",
        ("pps", "IP packet, bytes" | "payload, bytes") => "rate-by-size",
        ("ns", "IP packet, bytes" | "payload, bytes") => "latency-by-size",
        _ => "",
    }
}

/// Returns the options of a measurement except those that an axis shows.
fn without_axis_options(label: &str, axis: &str) -> String {
    let options: &[&str] = match axis {
        "active sessions" => &["sessions", "active"],
        axis => &[axis],
    };
    let shown = |word: &&str| {
        let option = word.split('=').next().unwrap_or_default();
        !options.contains(&option)
    };
    label.split(", ").filter(shown).collect::<Vec<_>>().join(", ")
}

/// Returns the positions of a case on the other axes.
fn other_positions(case: &MeasuredCase, axis: &str) -> String {
    let text = |(name, place): (&String, &Value)| match place {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(format!("{name} {number}")),
        _ => None,
    };
    let others = case.axes.iter().filter(|(name, _)| *name != axis && *name != "limit");
    others.filter_map(text).collect::<Vec<_>>().join(", ")
}

/// Joins the parts that are not empty.
fn joined(parts: [&str; 2]) -> String {
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}
