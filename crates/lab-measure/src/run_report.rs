//! What `adit-lab run` writes: the experiments with the reports of their measurements.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agreement::Agreement;

/// Figures from elsewhere, shown beside ours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Reference {
    /// The plot: `rate-by-size`, `rate-by-sessions`, `latency-by-size`, or `rate`.
    pub plot: String,
    /// Whose figures.
    pub label: String,
    /// The machine that they were measured on.
    pub machine: String,
    /// x and y in the units of the plot.
    pub points: Vec<[f64; 2]>,
}

/// All of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ExperimentRunReport {
    /// `adit-lab` and its version.
    pub tool: String,
    /// Start. Unit: seconds since 1970-01-01.
    pub started_unix_s: u64,
    /// Short forms were run.
    pub quick: bool,
    /// Every measurement ended well.
    pub complete: bool,
    /// The experiments.
    pub experiments: Vec<ExperimentReport>,
}

/// One experiment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ExperimentReport {
    /// Its file.
    pub file: String,
    /// Its title.
    pub title: String,
    /// Its question.
    pub about: String,
    /// Figures from elsewhere.
    pub references: Vec<Reference>,
    /// Its measurements, as far as they were run.
    pub measurements: Vec<MeasurementReport>,
    /// How many it has.
    pub planned: usize,
}

/// One measurement.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct MeasurementReport {
    /// Subcommand and options; the same by hand repeats it.
    pub command: Vec<String>,
    /// Why it failed, if it did.
    pub error: Option<String>,
    /// Its own report.
    pub report: Option<Value>,
}

impl ExperimentRunReport {
    /// True when no measurement is missing, failed or incomplete.
    #[must_use]
    pub(crate) fn is_whole(&self) -> bool {
        self.experiments.iter().all(|experiment| {
            experiment.measurements.len() == experiment.planned
                && experiment.measurements.iter().all(MeasurementReport::is_whole)
        })
    }

    /// What went wrong, a sentence each.
    #[must_use]
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for experiment in &self.experiments {
            for measurement in &experiment.measurements {
                let name = measurement.command.first().map_or("measurement", String::as_str);
                if let Some(error) = &measurement.error {
                    problems.push(format!("{}, {name}: {error}", experiment.title));
                }
                let agreement = measurement.agreement();
                if let Some(complaint) = agreement.as_ref().and_then(Agreement::complaint) {
                    problems.push(format!("{}, {name}: {complaint}", experiment.title));
                }
            }
        }
        problems
    }

    /// Reads a report of a run, or makes one of the report of a single measurement.
    ///
    /// # Errors
    /// The text is neither.
    pub(crate) fn of_json(path: &Path, text: &str) -> Result<Self> {
        let value: Value =
            serde_json::from_str(text).with_context(|| format!("{} is no JSON", path.display()))?;
        if value.get("experiments").is_some() {
            return serde_json::from_value(value)
                .with_context(|| format!("{} is no report", path.display()));
        }
        let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let Some(measurement) = text("measurement") else {
            bail!("{} is no report of adit-lab", path.display());
        };
        let command = value.get("command").and_then(|words| {
            let words = words.as_array()?.iter().skip(1);
            Some(words.filter_map(Value::as_str).map(str::to_owned).collect())
        });
        let complete = value.get("complete").and_then(Value::as_bool).unwrap_or(false);
        let started = value.get("started_unix_s").and_then(Value::as_u64).unwrap_or(0);
        Ok(Self {
            tool: text("tool").unwrap_or_default(),
            started_unix_s: started,
            quick: false,
            complete,
            experiments: vec![ExperimentReport {
                file: path.display().to_string(),
                title: measurement,
                about: String::new(),
                references: Vec::new(),
                measurements: vec![MeasurementReport {
                    command: command.unwrap_or_default(),
                    error: None,
                    report: Some(value),
                }],
                planned: 1,
            }],
        })
    }
}

impl MeasurementReport {
    fn is_whole(&self) -> bool {
        let complete = self.report.as_ref().and_then(|report| report.get("complete"));
        self.error.is_none() && complete.and_then(Value::as_bool) == Some(true)
    }

    /// What tester and target counted.
    #[must_use]
    pub(crate) fn agreement(&self) -> Option<Agreement> {
        let value = self.report.as_ref()?.get("agreement")?;
        serde_json::from_value(value.clone()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_with_a_failed_or_missing_measurement_is_not_whole() {
        let text = r#"{"measurement": "latency", "complete": true, "command": ["x", "latency"]}"#;
        let mut report = ExperimentRunReport::of_json(Path::new("a.json"), text).unwrap();
        assert!(report.is_whole() && report.problems().is_empty());
        assert_eq!(report.experiments[0].measurements[0].command, ["latency"]);
        report.experiments[0].planned = 2;
        assert!(!report.is_whole());
        report.experiments[0].measurements[0].error = Some("no link".to_owned());
        assert_eq!(report.problems(), ["latency, latency: no link"]);
        assert!(ExperimentRunReport::of_json(Path::new("a.json"), "{}").is_err());
    }
}
