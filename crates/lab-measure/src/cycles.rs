//! `adit-lab cycles`: what a packet costs each thread of adit's execution models, by `adit-bench
//! models`.
//!
//! The bench has no wire: its figures do not depend on the tester, and models that need more cores
//! than the machine has are measured thread by thread.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::report::{Figure, OutputArguments, Recorder, ReportHeader};
use adit_lab_process::adit_binary::find_binary;
use adit_lab_process::process::owned;
use adit_lab_process::stop::{Stop, environment};

/// The counts of the bench, and the name of each in figures.
const PARTS: [(&str, &str); 4] = [
    ("cycles_per_packet", "all threads"),
    ("rx_tx_cycles", "receiver"),
    ("scheduler_cycles", "scheduler"),
    ("worker_cycles", "worker"),
];
/// The columns that identify a row.
const NAMES: [&str; 3] = ["model", "stages", "direction"];
/// The ratio that the bench computes, and its name in figures.
const RATIO: (&str, &str) = ("worker_to_run_to_completion", "worker to run-to-completion");

/// Options of `adit-lab cycles`.
#[derive(Debug, clap::Args)]
pub struct CyclesArguments {
    /// An adit with adit-bench in its directory; default: the one in the directory of adit-lab.
    #[arg(long, value_name = "PATH")]
    adit: Option<PathBuf>,
    /// Sessions, all with traffic in random order.
    #[arg(long, value_name = "N", default_value_t = 16_000,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    sessions: u32,
    /// Packets of each measurement.
    #[arg(long, value_name = "N", default_value_t = 1_000_000,
        value_parser = clap::value_parser!(u64).range(1..))]
    packets: u64,
    /// Runs of the bench.
    #[arg(long, value_name = "N", default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    #[command(flatten)]
    output: OutputArguments,
}

/// The report of `adit-lab cycles`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CyclesReport {
    /// Machine, time, warnings.
    #[serde(flatten)]
    pub header: ReportHeader,
    /// Sessions.
    pub sessions: u32,
    /// The figures to compare. Units: thousandths of TSC cycles per packet, and of ratios.
    pub figures: Vec<Figure>,
    /// The rows of each run, as the bench writes them.
    pub runs: Vec<Value>,
}

/// Runs the bench.
///
/// # Errors
/// There is no adit-bench; the bench fails; `stop` was raised.
pub(crate) fn run(arguments: &CyclesArguments, stop: &Stop) -> Result<bool> {
    let binary = find_binary(arguments.adit.as_deref())?.with_file_name("adit-bench");
    if !binary.is_file() {
        let what = format!("there is no {}: cargo build --release -p adit-bench", binary.display());
        return Err(environment(what));
    }
    let recorder = Recorder::without_ports("cycles");
    let mut report = CyclesReport {
        header: ReportHeader::default(),
        sessions: arguments.sessions,
        figures: Vec::new(),
        runs: Vec::new(),
    };
    let mut result = Ok(());
    for _ in 0..arguments.runs {
        result = stop.check().and_then(|()| {
            report.runs.push(bench(&binary, arguments)?);
            Ok(())
        });
        if result.is_err() {
            break;
        }
    }
    report.figures = figures(&report.runs);
    report.header = recorder.finish(result.is_ok());
    arguments.output.deliver(&report, print)?;
    result.map(|()| true)
}

/// The rows of one run.
fn bench(binary: &std::path::Path, arguments: &CyclesArguments) -> Result<Value> {
    let mut command = owned(binary, "KILL");
    command.args(["models", "--json"]);
    command.arg(format!("--sessions={}", arguments.sessions));
    command.arg(format!("--packets={}", arguments.packets));
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    let output = command.output().context("start adit-bench models")?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        return Err(environment(format!("adit-bench models failed: {}", message.trim())));
    }
    let document: Value =
        serde_json::from_slice(&output.stdout).context("read what adit-bench models wrote")?;
    Ok(document.get("rows").cloned().unwrap_or_default())
}

/// The figures of all runs, in the order of the rows.
fn figures(runs: &[Value]) -> Vec<Figure> {
    let mut names = Vec::new();
    let mut values: BTreeMap<String, (&str, Vec<u64>)> = BTreeMap::new();
    for row in runs.iter().filter_map(Value::as_array).flatten() {
        let mut add = |member: &str, what: &str, unit: &'static str| {
            // A model without this thread has zero.
            let value = row.get(member).and_then(Value::as_f64).filter(|value| *value > 0.0);
            let Some(value) = value else { return };
            let name = format!("{what}, {}", name(row));
            if !values.contains_key(&name) {
                names.push(name.clone());
            }
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a few thousand"
            )]
            let thousandths = (value * 1000.0).round() as u64;
            values.entry(name).or_insert((unit, Vec::new())).1.push(thousandths);
        };
        for (member, what) in PARTS {
            add(member, what, "millicycles");
        }
        add(RATIO.0, RATIO.1, "permille");
    }
    let figure = |name: &String| {
        let (unit, values) = values.get(name)?;
        Some(Figure::of(name, unit, values))
    };
    names.iter().filter_map(figure).collect()
}

/// Model, stages if the row says how many, and direction.
fn name(row: &Value) -> String {
    let part = |member: &&str| match row.get(*member)? {
        Value::String(text) if text.is_empty() => None,
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(format!("{number} {member}")),
        _ => None,
    };
    NAMES.iter().filter_map(part).collect::<Vec<_>>().join(", ")
}

fn print(report: &CyclesReport) {
    let mut table = comfy_table::Table::new();
    table.set_header(["cycles per packet", "median", "lowest", "highest"]);
    for figure in &report.figures {
        let [median, min, max] = [figure.median, figure.min, figure.max].map(thousandths);
        table.add_row([figure.name.clone(), median, min, max]);
    }
    println!("{table}");
    for warning in &report.header.warnings {
        println!("warning: {warning}");
    }
}

/// Formats thousandths with two decimals.
pub(crate) fn thousandths(value: u64) -> String {
    // Exact below 2^53.
    format!("{:.2}", value as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn figures_of_runs_are_medians_by_model_direction_and_thread() {
        let run = |worker: f64| {
            json!([
                { "model": "pipeline, owner", "direction": "uplink", "cycles_per_packet": 150.0,
                  "rx_tx_cycles": 80.0, "worker_cycles": worker, "worker_to_run_to_completion": 0.92 },
                { "model": "eventdev", "stages": 4, "direction": "uplink", "worker_cycles": 90.0 },
                { "model": "one ring", "direction": "", "cycles_per_packet": 10.2 },
            ])
        };
        let figures = figures(&[run(70.5), run(75.0), run(90.0)]);
        let find = |name: &str| figures.iter().find(|figure| figure.name == name).unwrap();
        let worker = find("worker, pipeline, owner, uplink");
        assert_eq!((worker.median, worker.min, worker.max), (75_000, 70_500, 90_000));
        assert_eq!(find("worker, eventdev, 4 stages, uplink").runs, 3);
        assert_eq!(find("all threads, one ring").median, 10_200);
        assert_eq!(find("worker to run-to-completion, pipeline, owner, uplink").unit, "permille");
        assert_eq!(figures[0].name, "all threads, pipeline, owner, uplink");
    }
}
