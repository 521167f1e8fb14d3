//! The wire in the suite: experiments of `adit-lab` over memif, and the figures that the suite keeps of them.

use std::path::Path;
use std::process::Command;

use anyhow::bail;
use serde_json::{Value, json};

use super::interrupt::Interrupt;
use super::{captured_stdout, read_json};

/// The cost of a session's rules over memif.
const EXPERIMENTS: [&str; 2] =
    ["experiments/rules-by-sessions.toml", "experiments/rules-alone.toml"];

/// Which form of the experiments the suite runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum WireForm {
    /// None.
    None,
    /// The short form: it shows that they work, its figures vary much.
    Quick,
    /// As the files say.
    Full,
}

/// Runs the experiments; their reports stay in `folder`. Returns the figures, or the reason why they are left out.
pub(super) fn measure(
    interrupt: &Interrupt,
    form: WireForm,
    lab: &Path,
    root: &Path,
    folder: &Path,
) -> anyhow::Result<Value> {
    if form == WireForm::None {
        return Ok(json!({ "left_out": "--wire none" }));
    }
    let report = folder.join("report.json");
    // One of an earlier run.
    let _ = std::fs::remove_file(&report);
    let mut command = match captured_stdout(Command::new("id").arg("-u"))?.as_str() {
        "0" => Command::new(lab),
        _ => {
            let mut command = Command::new("sudo");
            command.arg("--non-interactive").arg(lab);
            command
        }
    };
    command.current_dir(root).arg("run").arg("--out").arg(folder).args(EXPERIMENTS);
    if form == WireForm::Quick {
        command.arg("--quick");
    }
    // It fails, too, if one measurement does; the report names it.
    if let Err(error) = interrupt.run(&mut command) {
        if interrupt.is_raised() {
            return Err(error);
        }
        println!("{error}");
    }
    if !report.exists() {
        let reason = "adit-lab wrote no report; it needs root, or sudo without a password";
        println!("left out: {reason}");
        return Ok(json!({ "left_out": reason }));
    }
    summary(&read_json(&report)?)
}

/// The figures of a report of `adit-lab run`, by measurement.
fn summary(report: &Value) -> anyhow::Result<Value> {
    let Some(experiments) = report["experiments"].as_array() else {
        bail!("the report of adit-lab has no experiments");
    };
    let of_measurement = |measurement: &Value| {
        let own = &measurement["report"];
        json!({
            "command": measurement["command"],
            "error": measurement["error"],
            "figures": own["figures"],
            "ratios": own["ratios"],
            "warnings": own["warnings"],
        })
    };
    let of_experiment = |experiment: &Value| {
        let measurements = experiment["measurements"].as_array().into_iter().flatten();
        json!({
            "file": experiment["file"],
            "title": experiment["title"],
            "planned": experiment["planned"],
            "measurements": measurements.map(of_measurement).collect::<Vec<_>>(),
        })
    };
    Ok(json!({
        "quick": report["quick"],
        "complete": report["complete"],
        "experiments": experiments.iter().map(of_experiment).collect::<Vec<_>>(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_has_figures_and_failures() {
        let measurement = |error: Option<&str>| {
            json!({ "command": ["throughput"], "error": error, "report": {
                "figures": [{ "name": "x" }], "warnings": [], "counters": [1, 2, 3] } })
        };
        let report = json!({ "quick": true, "complete": false, "experiments": [
            { "file": "a.toml", "title": "A", "planned": 3, "about": "…",
              "measurements": [measurement(None), measurement(Some("died"))] }] });
        let summary = summary(&report).unwrap();
        let found = &summary["experiments"][0];
        assert_eq!((&found["planned"], &summary["quick"]), (&json!(3), &json!(true)));
        assert_eq!(found["measurements"][0]["figures"], json!([{ "name": "x" }]));
        assert_eq!(found["measurements"][0]["counters"], Value::Null);
        assert_eq!(found["measurements"][1]["error"], "died");
    }

    #[test]
    fn report_without_experiments_is_refused() {
        assert!(summary(&json!({})).is_err());
    }
}
