//! Prints and writes the results of a bench.

use std::path::PathBuf;

use anyhow::Context;
use comfy_table::{Table, presets};
use serde_json::{Value, json};

/// Members that tables omit, since they are equal in all rows.
const LEFT_OUT: [&str; 3] = ["order", "window_pkts", "warm_up_pkts"];

/// First columns of tables, in this order; the others follow by name.
const FIRST: [&str; 10] = [
    "setting",
    "poll",
    "kind",
    "what",
    "direction",
    "sessions",
    "active_sessions",
    "modifications_per_burst",
    "snapshots_per_s",
    "burst_pkts",
];

/// Output of the figures.
#[derive(Debug, clap::Args)]
pub struct BenchOutput {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Also write JSON to this file.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// Rounds to one decimal.
pub(crate) fn rounded(figure: f64) -> f64 {
    (figure * 10.0).round() / 10.0
}

/// Writes a document to `--out` and, with `--json`, to standard output. Returns whether it printed it.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write(document: &Value, output: &BenchOutput) -> anyhow::Result<bool> {
    let text = serde_json::to_string_pretty(document)?;
    if let Some(path) = &output.out {
        std::fs::write(path, format!("{text}\n"))
            .with_context(|| format!("write {}", path.display()))?;
    }
    if output.json {
        println!("{text}");
    }
    Ok(output.json)
}

/// Prints rows as a table, or as one JSON document.
///
/// # Errors
/// As for [`write`].
pub(crate) fn print(bench: &str, rows: &[Value], output: &BenchOutput) -> anyhow::Result<()> {
    if write(&json!({ "bench": bench, "rows": rows }), output)? {
        return Ok(());
    }
    let Some(first) = rows.first().and_then(Value::as_object) else { return Ok(()) };
    let mut columns: Vec<&String> =
        first.keys().filter(|name| !LEFT_OUT.contains(&name.as_str())).collect();
    columns.sort_by_key(|name| {
        FIRST.iter().position(|first| first == &name.as_str()).unwrap_or(FIRST.len())
    });
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(columns.iter().map(|column| column.replace('_', " ")));
    for row in rows {
        table.add_row(columns.iter().map(|column| match &row[column.as_str()] {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        }));
    }
    println!("{table}");
    Ok(())
}

/// Prints a flat document as lines, or as JSON.
///
/// # Errors
/// As for [`write`].
pub(crate) fn flat(document: &Value, output: &BenchOutput) -> anyhow::Result<()> {
    if !write(document, output)? {
        for (name, value) in document.as_object().into_iter().flatten() {
            println!("{:45} {value}", name.replace('_', " "));
        }
    }
    Ok(())
}
