//! The section of a `ports` measurement.

use super::bars::{self, ChartBar};
use super::svg::{escape, put};
use super::{mpps, table};
use crate::ports::PortDirection;
use crate::ports::report::{PortGroup, PortsReport};

/// Renders packets per CPU-second of each kind of port, and a table.
pub(super) fn body(out: &mut String, report: &PortsReport) {
    let groups = report.groups();
    out.push_str("<div class=\"plots\">");
    for direction in PortDirection::ALL {
        let bars: Vec<ChartBar> =
            groups.iter().filter(|group| group.direction == direction).map(bar).collect();
        if !bars.is_empty() {
            let title = format!("Packets per CPU-second, {direction}");
            out.push_str(&bars::html(&title, "million packets per CPU-second", &bars));
        }
    }
    out.push_str("</div>\n");
    let columns = report.columns();
    let rows: Vec<_> = groups.iter().map(|group| group.row().to_vec()).collect();
    table(out, &columns.each_ref().map(String::as_str), &rows);
    put(out, format_args!("<p class=\"soft\">{}</p>\n", escape(&report.to_string())));
}

fn bar(group: &PortGroup<'_>) -> ChartBar {
    let seen = group.efficiency();
    ChartBar {
        name: group.io.to_string(),
        value: mpps(seen.median),
        spread: Some((mpps(seen.min), mpps(seen.max))),
        is_reference: false,
    }
}
