//! The wire in the suite: experiments of `adit-lab` over memif, and the figures that the suite
//! takes from their report.

use std::path::Path;
use std::process::Command;

use anyhow::Context;
use serde_json::{Value, json};

use super::{output, root, scratch_folder};
use crate::report::{self, cell};

/// The experiments: the cost of a session's rules over memif.
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

/// Runs the experiments; their reports stay in `perf/lab` beside this program. Returns the figures,
/// or the reason why they are left out.
///
/// # Errors
/// The report of adit-lab has another form.
pub(super) fn measure(form: WireForm, lab: &Path) -> anyhow::Result<Value> {
    if form == WireForm::None {
        return Ok(report::left_out("wire", "--wire none"));
    }
    let folder = scratch_folder()?.join("lab");
    let file = folder.join("report.json");
    // Removes the report of an earlier run.
    let _ = std::fs::remove_file(&file);
    let mut command = match output(Command::new("id").arg("-u"))?.as_str() {
        "0" => Command::new(lab),
        _ => {
            let mut command = Command::new("sudo");
            command.arg("--non-interactive").arg(lab);
            command
        }
    };
    command.current_dir(root()?).arg("run").arg("--out").arg(&folder).args(EXPERIMENTS);
    if form == WireForm::Quick {
        command.arg("--quick");
    }
    // adit-lab also fails if one measurement does; the report names it.
    let status = command.stdout(std::io::stderr()).status().context("cannot run adit-lab")?;
    let Ok(text) = std::fs::read_to_string(&file) else {
        let reason = "adit-lab wrote no report; it needs root, or sudo without a password";
        return Ok(report::left_out("wire", &format!("{reason} ({status})")));
    };
    let mut document = report::of("wire", &rows(&serde_json::from_str(&text)?));
    if form == WireForm::Quick {
        document["about"] = json!("The short form of the experiments: its figures vary much.");
    }
    Ok(document)
}

/// Returns the figures, failures and warnings of a report of `adit-lab run`.
fn rows(report: &Value) -> Vec<Value> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut rows = Vec::new();
    for experiment in list(&report["experiments"]) {
        let measurements = list(&experiment["measurements"]);
        let [title, planned] = ["title", "planned"].map(|name| cell(experiment.get(name)));
        let experiment = format!("{title}, {} of {planned} measurements", measurements.len());
        for measurement in measurements {
            let options = options(&measurement["command"]);
            let mut add = |figure: &str, of: &Value| {
                let mut row =
                    json!({ "experiment": experiment, "options": options, "figure": figure });
                for name in ["median", "min", "max", "runs"] {
                    row[name] = of[name].clone();
                }
                rows.push(row);
            };
            if let Some(error) = measurement["error"].as_str() {
                add(&format!("failed: {error}"), &Value::Null);
            }
            let own = &measurement["report"];
            for figure in list(&own["figures"]) {
                add(&cell(figure.get("name")), &figure);
            }
            for warning in list(&own["warnings"]) {
                add(&format!("warning: {}", cell(Some(&warning))), &Value::Null);
            }
        }
    }
    rows
}

/// Returns the options that differ between the measurements of the experiments.
fn options(command: &Value) -> String {
    let words = command.as_array().into_iter().flatten().filter_map(Value::as_str);
    let is_own = |word: &&str| {
        ["--rules=", "--excess=", "--sessions="].iter().any(|name| word.starts_with(name))
    };
    let own: Vec<_> = words.filter(is_own).map(|word| word.trim_start_matches("--")).collect();
    own.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_figures_warnings_and_failures() {
        let figure =
            json!({ "name": "loss-free, uplink", "median": 9, "min": 8, "max": 10, "runs": 3 });
        let report = json!({ "experiments": [{ "title": "Rules", "planned": 3, "measurements": [
            { "command": ["throughput", "--rules=real", "--runs=3"], "error": null, "report": {
                "figures": [figure], "warnings": ["disturbed"], "counters": [1, 2, 3] } },
            { "command": ["throughput", "--rules=any"], "error": "died", "report": null }] }] });
        let row = |options: &str, figure: &str, [median, min, max, runs]: [Value; 4]| {
            json!({ "experiment": "Rules, 2 of 3 measurements", "options": options, "figure": figure,
                "median": median, "min": min, "max": max, "runs": runs })
        };
        let none = [const { Value::Null }; 4];
        let expected = [
            row("rules=real", "loss-free, uplink", [9, 8, 10, 3].map(Value::from)),
            row("rules=real", "warning: disturbed", none.clone()),
            row("rules=any", "failed: died", none),
        ];
        assert_eq!(rows(&report), expected);
    }
}
