//! Prints the report of a measurement.

use comfy_table::{ContentArrangement, Table};

use crate::progress::mpps;
use crate::report::Report;
use crate::tables::{FigureTable, tables};
use adit_lab_smf::exchange::ProcedureReport;

/// Prints a table.
pub(crate) fn print_table(table: &FigureTable) {
    let mut out = Table::new();
    out.set_content_arrangement(ContentArrangement::Dynamic).set_header(&table.header);
    for row in &table.rows {
        out.add_row(row);
    }
    println!("{out}");
}

/// Describes number, failures and latencies of a procedure.
pub(crate) fn procedure(of: &ProcedureReport) -> String {
    let [p50, p99, max] =
        [of.latency.p50_ns, of.latency.p99_ns, of.latency.max_ns].map(|ns| ns / 1000);
    format!(
        "{} ({} per second), {} refused, {} retransmitted, latency p50 {p50} µs, p99 {p99} µs, max {max} µs",
        of.count, of.per_second, of.failed, of.retransmissions
    )
}

/// Prints conditions, figures, findings and warnings.
pub(crate) fn print(report: &Report) {
    let conditions: Vec<_> =
        report.conditions.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    println!("{}", conditions.join("; "));
    for table in tables(&[(String::new(), report)]) {
        print_table(&table);
    }
    for (name, of) in &report.procedures {
        println!("{name}: {}", procedure(of));
    }
    if let Some(ceiling) = &report.ceiling {
        println!("tester's own ceiling: {}", mpps(ceiling.received_pps));
    }
    if let Some(agreement) = &report.agreement {
        println!("{agreement}");
    }
    for finding in &report.findings {
        println!("found: {finding}");
    }
    for warning in &report.warnings {
        println!("warning: {warning}");
    }
    if !report.complete {
        println!("INCOMPLETE: these are the results until the measurement ended early");
    }
}
