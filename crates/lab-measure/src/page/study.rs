//! Tables of the figures of studies next to ours.

use super::axis::figure;
use super::svg::{escape, put};
use super::table;
use crate::report::Figure;
use crate::run_report::{ExperimentReport, MeasurementReport, Study, StudyValue};

/// Renders the studies of an experiment.
pub(super) fn body(out: &mut String, experiment: &ExperimentReport) {
    for study in &experiment.studies {
        put(out, format_args!("<h3>{}</h3>\n", escape(&study.source)));
        put(out, format_args!("<p class=\"soft\">{}</p>\n", escape(&study.machine)));
        let [theirs, ours] = ["study", "here"].map(|of| format!("{of}, {}", study.unit));
        let rows: Vec<_> =
            study.values.iter().map(|value| row(study, value, &experiment.measurements)).collect();
        table(out, &["", &theirs, &ours, "here / study", "note"], &rows);
    }
}

fn row(study: &Study, value: &StudyValue, measurements: &[MeasurementReport]) -> Vec<String> {
    let ours = own_value(&study.unit, value, measurements);
    let text = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), figure);
    let ratio = ours.zip(value.value).filter(|(_, theirs)| *theirs > 0.0);
    let ratio = ratio.map(|(ours, theirs)| format!("{:.2}", ours / theirs));
    vec![
        value.label.clone(),
        text(value.value),
        text(ours),
        ratio.unwrap_or_else(|| "–".to_owned()),
        value.note.clone().unwrap_or_default(),
    ]
}

/// The measured figure in the unit of the study; `None` if it was not measured, or cannot be converted.
fn own_value(unit: &str, value: &StudyValue, measurements: &[MeasurementReport]) -> Option<f64> {
    let report = measurements.get(value.measure?.checked_sub(1)?)?.report.as_ref()?;
    let figures: Vec<Figure> = serde_json::from_value(report.get("figures")?.clone()).ok()?;
    let name = value.figure.as_ref()?;
    let own = figures.iter().find(|figure| figure.name.starts_with(name))?;
    let divisor = match (own.unit.as_str(), unit) {
        ("pps", "Mpps") => 1e6,
        ("ns", "µs") | ("millicycles", "cycles") | ("Mb/s", "Gb/s") => 1e3,
        ("permille", "%") => 10.0,
        (own, unit) if own == unit => 1.0,
        _ => return None,
    };
    // Exact below 2^53.
    Some(own.median as f64 / divisor)
}
