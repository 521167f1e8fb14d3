//! Tables of the figures of studies next to ours.

use super::svg::escape;
use super::table;
use crate::number::figure;
use crate::quantity::readers_unit;
use crate::run_report::{ExperimentReport, MeasurementReport, Study, StudyValue};

/// Renders the studies of an experiment.
pub(super) fn body(out: &mut String, experiment: &ExperimentReport) {
    for study in &experiment.studies {
        put!(out, "<h3>{}</h3>\n", escape(&study.source));
        put!(out, "<p class=\"soft\">{}</p>\n", escape(&study.machine));
        let [theirs, ours] = ["study", "here"].map(|of| format!("{of}, {}", study.unit));
        let rows: Vec<_> =
            study.values.iter().map(|value| row(study, value, &experiment.measurements)).collect();
        let header = ["", &theirs, &ours, "here / study", "note"].map(str::to_owned);
        table(out, &header, &rows);
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

/// Returns the measured figure in the unit of the study; `None` if it was not measured, or cannot
/// be converted.
fn own_value(unit: &str, value: &StudyValue, measurements: &[MeasurementReport]) -> Option<f64> {
    let report = measurements.get(value.measure?.checked_sub(1)?)?.report.as_ref()?;
    let name = value.figure.as_ref()?;
    let own = report.figures.iter().find(|figure| figure.name.starts_with(name))?;
    match readers_unit(&own.unit) {
        (readers, _) if readers == unit => own.for_readers().first().copied(),
        // Exact below 2^53.
        _ => (own.unit == unit).then_some(own.median as f64),
    }
}
