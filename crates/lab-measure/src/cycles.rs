//! `adit-lab cycles`: what a packet costs each thread of adit's execution models, by `adit-bench
//! models`.
//!
//! The bench has no wire: its figures do not depend on the tester, and models that need more cores
//! than the machine has are measured thread by thread.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result};
use serde_json::Value;

use super::measurement::{LabMeasurement, Prepared};
use super::quantity::{Quantity, higher, lower};
use super::report::{OutputArguments, Report};
use adit_lab_process::adit_binary::find_binary;
use adit_lab_process::process::owned_command;
use adit_lab_process::stop::{Stop, environment};

/// The figures of the bench that are reported, in thousandths of its unit.
const PARTS: [(&str, Quantity<'_>); 5] = [
    ("cycles_per_packet", lower("all threads", "millicycles")),
    ("rx_tx_cycles", lower("receiver", "millicycles")),
    ("scheduler_cycles", lower("scheduler", "millicycles")),
    ("worker_cycles", lower("worker", "millicycles")),
    ("worker_to_run_to_completion", higher("worker to run-to-completion", "permille")),
];
/// Members of a row of the bench that identify the row.
const NAMES: [&str; 3] = ["model", "stages", "direction"];

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

impl LabMeasurement for CyclesArguments {
    const NAME: &'static str = "cycles";
    /// The binary.
    type Rig = PathBuf;
    /// Index of a run.
    type Case = u32;

    fn output(&self) -> &OutputArguments {
        &self.output
    }

    fn prepare(&self, report: &mut Report, _: &Stop) -> Result<Prepared<Self>> {
        report.condition("sessions", self.sessions);
        let binary = find_binary(self.adit.as_deref())?.with_file_name("adit-bench");
        if !binary.is_file() {
            let shown = binary.display();
            return Err(environment(format!(
                "there is no {shown}: cargo build --release -p adit-bench"
            )));
        }
        Ok(Some((binary, (0..self.runs).collect())))
    }

    fn measure(&self, rig: &mut PathBuf, _: &u32, report: &mut Report, _: &Stop) -> Result<()> {
        add_rows(&bench(rig, self)?, report);
        Ok(())
    }

    fn conclude(&self, _: PathBuf, _: &mut Report) -> Result<()> {
        Ok(())
    }
}

/// Runs the bench and returns its rows.
fn bench(binary: &std::path::Path, arguments: &CyclesArguments) -> Result<Value> {
    let mut command = owned_command(binary, "KILL");
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

/// Adds the figures of one run in the order of the rows.
fn add_rows(rows: &Value, report: &mut Report) {
    for row in rows.as_array().into_iter().flatten() {
        for (member, quantity) in PARTS {
            // A thread that the model does not have has zero.
            let value = row.get(member).and_then(Value::as_f64).filter(|value| *value > 0.0);
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a few thousand"
            )]
            let thousandths = value.map(|value| (value * 1000.0).round() as u64);
            report.add(quantity, &name(row), thousandths);
        }
    }
}

/// Returns model, number of stages if the row has it, and direction.
fn name(row: &Value) -> String {
    let part = |member: &&str| match row.get(*member)? {
        Value::String(text) if text.is_empty() => None,
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(format!("{number} {member}")),
        _ => None,
    };
    NAMES.iter().filter_map(part).collect::<Vec<_>>().join(", ")
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
        let mut report = Report::default();
        for worker in [70.5, 75.0, 90.0] {
            add_rows(&run(worker), &mut report);
        }
        let figures = report.figures;
        let find = |name: &str| figures.iter().find(|figure| figure.name == name).unwrap();
        let worker = find("worker, pipeline, owner, uplink");
        assert_eq!((worker.median, worker.min, worker.max), (75_000, 70_500, 90_000));
        assert_eq!(find("worker, eventdev, 4 stages, uplink").runs, 3);
        assert_eq!(find("all threads, one ring").median, 10_200);
        assert_eq!(find("worker to run-to-completion, pipeline, owner, uplink").unit, "permille");
        assert_eq!(figures[0].name, "all threads, pipeline, owner, uplink");
    }
}
