//! The section of a `cycles` measurement.

use super::table;
use crate::cycles::{CyclesReport, thousandths};

/// Renders the cycles of each model and thread.
pub(super) fn body(out: &mut String, report: &CyclesReport) {
    let rows: Vec<_> = report
        .figures
        .iter()
        .map(|figure| {
            let [median, min, max] = [figure.median, figure.min, figure.max].map(thousandths);
            vec![figure.name.clone(), median, min, max]
        })
        .collect();
    table(out, &["cycles per packet", "median", "lowest", "highest"], &rows);
}
