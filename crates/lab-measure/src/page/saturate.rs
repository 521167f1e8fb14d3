//! The section of a `saturate` measurement.

use super::{mpps, table};
use crate::progress;
use crate::saturate::SaturateReport;

/// Renders the rates of both targets and their ratio by direction.
pub(super) fn body(out: &mut String, report: &SaturateReport) {
    let rates = report.figures.iter().map(|figure| {
        let rate = |pps| format!("{:.2} Mpps", mpps(pps));
        vec![figure.name.clone(), rate(figure.median), rate(figure.min), rate(figure.max)]
    });
    let ratios = report.ratios.iter().map(|ratio| {
        let name = format!("adit / testpmd, {}", ratio.direction);
        vec![
            name,
            progress::ratio(ratio.median_permille),
            progress::ratio(ratio.min_permille),
            progress::ratio(ratio.max_permille),
        ]
    });
    let rows: Vec<_> = rates.chain(ratios).collect();
    table(out, &["forwarded", "median", "lowest", "highest"], &rows);
}
