//! The report of `adit-lab run`: experiments with the reports of their measurements.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agreement::CountAgreement;
use crate::report::Report;

/// Figures from another source, shown next to the measured ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Reference {
    /// The plot: `rate-by-size`, `rate-by-sessions`, `latency-by-size`, or `response-cdf`.
    pub plot: String,
    /// Source of the figures, for the legend.
    pub label: String,
    /// The machine of the source.
    pub machine: String,
    /// x and y in the units of the plot.
    pub points: Vec<[f64; 2]>,
}

/// Figures of a study, each next to the measured figure that corresponds to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Study {
    /// Study and figure or table.
    pub source: String,
    /// Machine of the study.
    pub machine: String,
    /// Unit of the values.
    pub unit: String,
    /// The figures.
    pub values: Vec<StudyValue>,
}

/// One figure of a study.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StudyValue {
    /// The measured quantity.
    pub label: String,
    /// The study's value; `None` if it shows a curve without numbers.
    pub value: Option<f64>,
    /// Measurement with the corresponding figure, counted from 1; `None` if there is none.
    pub measure: Option<usize>,
    /// Prefix of the name of the corresponding figure.
    pub figure: Option<String>,
    /// How both figures differ in meaning, or why there is no corresponding figure.
    pub note: Option<String>,
}

/// The report of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ExperimentRunReport {
    /// `adit-lab` and its version.
    pub tool: String,
    /// Start. Unit: seconds since 1970-01-01.
    pub started_unix_s: u64,
    /// True if the measurements ran in their short form.
    pub quick: bool,
    /// True if every measurement succeeded that this machine can run.
    pub complete: bool,
    /// The experiments.
    pub experiments: Vec<ExperimentReport>,
}

/// One experiment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ExperimentReport {
    pub file: String,
    pub title: String,
    /// The question that the experiment answers.
    pub about: String,
    /// Figures from other sources.
    pub references: Vec<Reference>,
    /// Figures of studies, for a table.
    #[serde(default)]
    pub studies: Vec<Study>,
    /// The measurements that ran.
    pub measurements: Vec<MeasurementReport>,
    /// Number of measurements in the file.
    pub planned: usize,
}

/// One measurement.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct MeasurementReport {
    /// Subcommand and options; `adit-lab` with these repeats the measurement.
    pub command: Vec<String>,
    /// Why the measurement failed; `None` if it did not.
    pub error: Option<String>,
    /// Why this machine cannot run the measurement, which then has no report.
    #[serde(default)]
    pub left_out: Option<String>,
    /// Report of the measurement.
    pub report: Option<Report>,
}

/// Returns for each command the words that not all of the commands have, without dashes.
#[must_use]
pub(crate) fn distinctions(commands: &[Vec<String>]) -> Vec<Vec<String>> {
    let in_all = |word: &String| commands.iter().all(|command| command.contains(word));
    let own = |command: &Vec<String>| {
        let words = command.iter().filter(|word| !in_all(word));
        words.map(|word| word.trim_start_matches("--").to_owned()).collect()
    };
    commands.iter().map(own).collect()
}

impl ExperimentRunReport {
    /// True if no measurement is missing, failed or incomplete.
    #[must_use]
    pub(crate) fn is_whole(&self) -> bool {
        self.experiments.iter().all(|experiment| {
            experiment.measurements.len() == experiment.planned
                && experiment.measurements.iter().all(MeasurementReport::is_whole)
        })
    }

    /// Returns all measurements, with the titles of their experiments.
    fn measurements(&self) -> impl Iterator<Item = (&str, &MeasurementReport)> {
        self.experiments.iter().flat_map(|of| of.measurements.iter().map(|one| (&*of.title, one)))
    }

    /// Returns the measurements that this machine cannot run, with the reason.
    pub(crate) fn left_out(&self) -> impl Iterator<Item = String> {
        self.measurements().filter_map(|(title, measurement)| {
            let why = measurement.left_out.as_ref()?;
            Some(format!("{title}, {}: {why}", measurement.name()))
        })
    }

    /// True if this machine can run none of the measurements.
    #[must_use]
    pub(crate) fn has_only_left_out(&self) -> bool {
        let mut measurements = self.measurements().peekable();
        measurements.peek().is_some() && measurements.all(|(_, of)| of.left_out.is_some())
    }

    /// Returns one sentence for each problem.
    #[must_use]
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for (title, measurement) in self.measurements() {
            let name = measurement.name();
            if let Some(error) = &measurement.error {
                problems.push(format!("{title}, {name}: {error}"));
            }
            let agreement = measurement.report.as_ref().and_then(|of| of.agreement.as_ref());
            if let Some(warning) = agreement.and_then(CountAgreement::warning) {
                problems.push(format!("{title}, {name}: {warning}"));
            }
        }
        problems
    }

    /// Reads the report of a run, or wraps the report of a single measurement in one.
    ///
    /// # Errors
    /// The text is no report.
    pub(crate) fn of_json(path: &Path, text: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(text)
            .with_context(|| format!("{} is not JSON", path.display()))?;
        if value.get("experiments").is_some() {
            return serde_json::from_value(value)
                .with_context(|| format!("{} is not a report", path.display()));
        }
        let report: Report = serde_json::from_value(value)
            .with_context(|| format!("{} is not a report", path.display()))?;
        if report.measurement.is_empty() {
            bail!("{} is not a report of adit-lab", path.display());
        }
        Ok(Self {
            tool: report.tool.clone(),
            started_unix_s: report.started_unix_s,
            quick: false,
            complete: report.complete,
            experiments: vec![ExperimentReport {
                file: path.display().to_string(),
                title: report.measurement.clone(),
                about: String::new(),
                references: Vec::new(),
                studies: Vec::new(),
                measurements: vec![MeasurementReport {
                    command: report.command.iter().skip(1).cloned().collect(),
                    error: None,
                    left_out: None,
                    report: Some(report),
                }],
                planned: 1,
            }],
        })
    }
}

impl MeasurementReport {
    fn name(&self) -> &str {
        self.command.first().map_or("measurement", String::as_str)
    }

    fn is_whole(&self) -> bool {
        let is_complete = self.report.as_ref().is_some_and(|report| report.complete);
        self.error.is_none() && (is_complete || self.left_out.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_distinguished_by_the_options_that_differ() {
        let command = |text: &str| text.split(' ').map(str::to_owned).collect();
        let commands: Vec<Vec<String>> = vec![
            command("throughput --rules=plain --sessions=1 --size=64"),
            command("throughput --rules=real --sessions=1 --size=64"),
            command("throughput --rules=real --sessions=5 --size=64"),
        ];
        let own = distinctions(&commands);
        assert_eq!(own[0], ["rules=plain", "sessions=1"]);
        assert_eq!(own[2], ["rules=real", "sessions=5"]);
        assert!(distinctions(&commands[..1])[0].is_empty());
    }

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
        assert!(!report.has_only_left_out());
        assert!(ExperimentRunReport::of_json(Path::new("a.json"), "{}").is_err());
    }

    #[test]
    fn measurement_that_the_machine_cannot_run_is_no_problem_unless_it_can_run_none() {
        let text = r#"{"measurement": "latency", "complete": true, "command": ["x", "latency"]}"#;
        let mut report = ExperimentRunReport::of_json(Path::new("a.json"), text).unwrap();
        let measured = report.experiments[0].measurements[0].clone();
        let left_out = MeasurementReport {
            left_out: Some("no such core".to_owned()),
            report: None,
            ..measured.clone()
        };
        report.experiments[0].measurements = vec![measured, left_out.clone()];
        report.experiments[0].planned = 2;
        assert!(report.is_whole() && report.problems().is_empty() && !report.has_only_left_out());
        assert_eq!(report.left_out().collect::<Vec<_>>(), ["latency, latency: no such core"]);
        report.experiments[0].measurements = vec![left_out];
        assert!(report.has_only_left_out());
    }
}
