//! The report of each bench: a document with rows of figures, which becomes JSON, a table, or a
//! page in Markdown.
//!
//! A document has `bench` and `rows`, and may have `about`. Instead of `rows`, the document of a
//! bench that was left out has `left_out`, the reason.

use std::path::Path;

use anyhow::Context;
use comfy_table::{Table, presets};
use serde_json::{Map, Value, json};

/// First columns of tables, in this order; all other columns follow by name.
const FIRST_COLUMNS: &str = "experiment options figure setting poll kind what phase model mode about stages direction \
    sessions active_sessions modifications_per_burst snapshots_per_s burst_pkts instructions_per_packet recognize \
    lookup prefetch filters rule rates next_hop usage headers rewrite send queues step";

/// Makes the document of a bench.
pub(crate) fn of(bench: &str, rows: &[Value]) -> Value {
    json!({ "bench": bench, "rows": rows })
}

/// Makes the document of a bench that was left out.
pub(crate) fn left_out(bench: &str, reason: &str) -> Value {
    json!({ "bench": bench, "left_out": reason })
}

/// Writes a file.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

/// Returns a suite's document as a page in Markdown: the machine, and a section for each bench.
pub(crate) fn page(document: &Value) -> String {
    let machine = &document["machine"];
    let title = ["date", "cpu"]
        .map(|name| cell([document, machine].into_iter().find_map(|of| of.get(name))));
    let mut page = format!("# What a packet costs: {}\n\n", title.join(", "));
    if document["quick"] == true {
        page += "A quick run: its figures vary much.\n\n";
    }
    let mut machine = machine.clone();
    machine["stolen_during_the_run_by_cpu_ms"] = document["steal_ms"].clone();
    page += &text(&of("machine", &[machine]));
    for (name, bench) in document["benches"].as_object().into_iter().flatten() {
        page += &format!("\n\n## {name}\n\n{}", text(bench));
    }
    page + "\n"
}

/// Returns a document in Markdown: what it is about, the members that are equal in all rows unless
/// they are measured, and a table of the others. A single row is a line for each of its members.
pub(crate) fn text(document: &Value) -> String {
    if document["benches"].is_object() {
        return page(document);
    }
    if let Some(reason) = document["left_out"].as_str() {
        return format!("Left out: {reason}.");
    }
    let rows = document["rows"].as_array().into_iter().flatten().filter_map(Value::as_object);
    let rows: Vec<&Map<String, Value>> = rows.collect();
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    let mut equal = Vec::new();
    if let [row] = rows[..] {
        table.set_header(["figure", "value"]);
        for name in columns(&rows) {
            table.add_row([name.replace('_', " "), cell(row.get(name))]);
        }
    } else {
        let is_equal = |name: &&str| {
            let first = rows[0].get(*name).filter(|value| !value.is_f64());
            first.is_some() && rows.iter().all(|row| row.get(*name) == first)
        };
        let (same, columns): (Vec<&str>, Vec<&str>) =
            columns(&rows).into_iter().partition(is_equal);
        let value =
            |name: &&str| format!("{} {}", name.replace('_', " "), cell(rows[0].get(*name)));
        equal.extend(same.iter().map(value));
        table.set_header(columns.iter().map(|name| name.replace('_', " ")));
        for row in &rows {
            table.add_row(columns.iter().map(|name| cell(row.get(*name))));
        }
    }
    let about = document["about"].as_str().unwrap_or_default().to_owned();
    let parts = [about, equal.join("; "), table.to_string()];
    let parts: Vec<_> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    parts.join("\n\n")
}

/// Returns the members that any row has, in the order of their columns.
fn columns<'r>(rows: &[&'r Map<String, Value>]) -> Vec<&'r str> {
    let members = rows.iter().flat_map(|row| row.iter()).filter(|(_, value)| !value.is_null());
    let mut columns: Vec<&str> = members.map(|(name, _)| name.as_str()).collect();
    let place = |name: &str| FIRST_COLUMNS.split(' ').position(|first| first == name);
    columns.sort_by_key(|name| (place(name).unwrap_or(usize::MAX), *name));
    columns.dedup();
    columns
}

/// Returns a value as the text of a cell.
pub(crate) fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.replace('|', "/").replace('\n', " "),
        Some(other) => other.to_string(),
    }
}

/// Rounds to one decimal.
pub(crate) fn rounded(figure: f64) -> f64 {
    (figure * 10.0).round() / 10.0
}

/// Returns `part / whole`; a whole of zero counts as one.
#[allow(clippy::cast_precision_loss, reason = "shown to people, not computed with")]
pub(crate) fn ratio(part: u64, whole: usize) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// Returns the value that `permille` thousandths of the sorted values are below.
pub(crate) fn quantile<T: Copy + Default>(sorted: &[T], permille: usize) -> T {
    let at = (sorted.len() * permille / 1000).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or_default()
}

/// Returns the median; `None` without values.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_has_what_differs_between_rows_and_a_line_above_what_does_not() {
        let row =
            |what: &str, cycles: f64| json!({ "what": what, "sessions": 1000, "cycles": cycles });
        let text = text(&of("x", &[row("floor", 5.0), row("worker", 48.5)]));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines[0], lines[1]), ("sessions 1000", ""));
        assert_eq!(
            lines[2].split_whitespace().collect::<Vec<_>>(),
            ["|", "what", "|", "cycles", "|"]
        );
        let last = lines[5].split_whitespace().collect::<Vec<_>>();
        assert_eq!(last, ["|", "worker", "|", "48.5", "|"]);
    }

    #[test]
    fn columns_are_those_of_all_rows() {
        let rows =
            [json!({ "mode": "a", "send": 1 }), json!({ "mode": "b", "extra": 0, "filters": 2 })];
        let rows: Vec<_> = rows.iter().filter_map(Value::as_object).collect();
        assert_eq!(columns(&rows), ["mode", "filters", "send", "extra"]);
    }

    #[test]
    fn single_row_is_a_line_for_each_figure() {
        let text = text(&of("x", &[json!({ "restored_sessions": 3, "cpu": "A|B" })]));
        let words: Vec<&str> = text.split_whitespace().filter(|word| *word != "|").collect();
        assert_eq!(words[3..], ["cpu", "A/B", "restored", "sessions", "3"], "{text}");
    }

    #[test]
    fn reason_stands_for_a_bench_that_was_left_out() {
        assert_eq!(text(&left_out("wire", "--wire none")), "Left out: --wire none.");
    }

    #[test]
    fn quantile_is_one_of_the_values() {
        assert_eq!([500, 990, 1000].map(|permille| quantile(&[1, 2, 3], permille)), [2, 3, 3]);
        assert_eq!(quantile::<u64>(&[], 500), 0);
    }
}
