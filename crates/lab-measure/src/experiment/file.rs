//! Experiment files: TOML whose keys are the options of the subcommands.
//!
//! ```toml
//! title = "Throughput by payload"
//! about = "Does the rate depend on the size?"
//!
//! [options]                    # for every measurement of a target
//! sessions = 1000
//!
//! [[measure]]
//! run = "throughput"           # a subcommand; the other keys are its options
//! payload = [64, 1400]
//! quick = { trial = "300ms" }  # replaces options in the short form
//!
//! [[reference]]                # figures from another source, in the same plot
//! plot = "rate-by-size"
//! label = "study 2020, uplink"
//! machine = "Xeon E5-2650 v4, one core"
//! points = [[64, 5.17]]
//!
//! [[study]]                    # figures of a study, in a table beside ours
//! source = "study 2020, figure 6.2"
//! machine = "Xeon E5-2650 v4, one core"
//! unit = "Mpps"                # of ours: pps, ns, millicycles, permille or Mb/s
//! values = [
//!   { label = "uplink", value = 5.17, measure = 1, figure = "loss-free rate, uplink 64 B" },
//!   { label = "four workers", note = "needs five cores" },
//! ]
//! ```

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use serde::Deserialize;
use toml::de::DeTable;
use toml::{Spanned, Value};

use crate::run_report::{Reference, Study, StudyValue};
use adit_lab_process::stop::environment;

/// Subcommands that measure. The common options of a file apply to those with a target.
const MEASUREMENTS: [&str; 11] = [
    "selftest",
    "throughput",
    "saturate",
    "latency",
    "ramp",
    "soak",
    "rates",
    "cycles",
    "store",
    "ports",
    "baseband",
];
/// Subcommands that measure no target.
const WITHOUT_TARGET: [&str; 5] = ["selftest", "cycles", "store", "ports", "baseband"];
/// Options that `adit-lab run` itself sets.
const RUN_OPTIONS: [&str; 2] = ["json", "out"];
/// Options that are paths, relative to the experiment file.
const PATH_OPTIONS: [&str; 2] = ["rule-profile", "groups"];
/// Plots that a reference can name.
const PLOTS: [&str; 4] = ["rate-by-size", "rate-by-sessions", "latency-by-size", "response-cdf"];

/// Checks a command line. Returns clap's error if it is wrong.
pub(crate) type OptionCheck = fn(&[String]) -> Result<(), clap::Error>;

/// One experiment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Experiment {
    /// Path of the experiment's file.
    pub path: PathBuf,
    pub title: String,
    /// The question that the experiment answers.
    pub about: String,
    /// Measurements in the order of the file.
    pub measures: Vec<MeasurementSpec>,
    /// Figures from other sources.
    pub references: Vec<Reference>,
    /// Figures of studies, for a table.
    pub studies: Vec<Study>,
}

/// One measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MeasurementSpec {
    /// The subcommand.
    pub run: String,
    full: Options,
    quick: Options,
}

/// Options by name, without `--`.
type Options = BTreeMap<String, Setting>;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Setting {
    value: Option<String>,
    /// Position in the file; `None` for `--set`.
    span: Option<Range<usize>>,
}

impl MeasurementSpec {
    /// Returns the subcommand and its options as arguments; `quick` selects the short form.
    #[must_use]
    pub(crate) fn command(&self, quick: bool) -> Vec<String> {
        let options = if quick { &self.quick } else { &self.full };
        let words = options.iter().map(|(name, setting)| match &setting.value {
            Some(value) => format!("--{name}={value}"),
            None => format!("--{name}"),
        });
        std::iter::once(self.run.clone()).chain(words).collect()
    }
}

/// Parses the `OPTION=VALUE` arguments of `--set`.
///
/// # Errors
/// An argument has no `=`.
pub(crate) fn overrides(set: &[String]) -> Result<Vec<(String, String)>> {
    let mut overrides = set
        .iter()
        .map(|text| match text.trim_start_matches("--").split_once('=') {
            Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
            None => Err(environment(format!("--set {text}: write it as OPTION=VALUE"))),
        })
        .collect::<Result<Vec<_>>>()?;
    // `target` comes first, since it decides which other options exist.
    overrides.sort_by_key(|(name, _)| name != "target");
    Ok(overrides)
}

/// The entries of the TOML table `[options]`, or of one `[[measure]]`, with their places in the
/// file.
type OptionTable = BTreeMap<Spanned<String>, Spanned<Value>>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExperimentFile {
    title: String,
    #[serde(default)]
    about: String,
    #[serde(default)]
    options: OptionTable,
    #[serde(default)]
    measure: Vec<Spanned<OptionTable>>,
    #[serde(default)]
    reference: Vec<ReferenceSection>,
    #[serde(default)]
    study: Vec<StudySection>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReferenceSection {
    plot: Spanned<String>,
    label: String,
    machine: String,
    points: Option<Spanned<Value>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StudySection {
    source: String,
    machine: String,
    unit: String,
    values: Vec<Spanned<StudyValue>>,
}

/// Reads a file, and checks both forms of every measurement against its subcommand.
///
/// # Errors
/// The message names file, line and key.
pub(crate) fn read(
    path: &Path,
    overrides: &[(String, String)],
    check: OptionCheck,
) -> Result<Experiment> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| environment(format!("{}: {error}", path.display())))?;
    let source = ExperimentSource { path, text: &text, check };
    source.experiment(overrides)
}

struct ExperimentSource<'t> {
    path: &'t Path,
    text: &'t str,
    check: OptionCheck,
}

impl ExperimentSource<'_> {
    fn error_at(&self, span: &Range<usize>, key: &str, what: impl Display) -> anyhow::Error {
        let newlines = self.text.bytes().take(span.start).filter(|byte| *byte == b'\n').count();
        let key = if key.is_empty() { String::new() } else { format!(", {key}") };
        environment(format!("{}, line {}{key}: {what}", self.path.display(), newlines + 1))
    }

    /// Converts an error of the TOML reader to one that names file, line and key.
    fn toml_error(&self, error: &toml::de::Error) -> anyhow::Error {
        let message = error.message();
        let key = message.split('`').nth(1).unwrap_or_default();
        let expected = message.split_once(", ").map(|(_, expected)| expected.replace('`', ""));
        let (key, what) = match expected {
            Some(expected) if message.starts_with("unknown field") => {
                (key, format!("is not a key of an experiment; {expected}"))
            }
            _ if message.starts_with("missing field") => (key, "is missing".to_owned()),
            _ => ("", message.to_owned()),
        };
        self.error_at(&error.span().unwrap_or_default(), key, what)
    }

    fn experiment(&self, overrides: &[(String, String)]) -> Result<Experiment> {
        if let Err(error) = DeTable::parse(self.text) {
            let span = error.span().unwrap_or_default();
            return Err(self.error_at(&span, "", format!("not TOML: {}", error.message())));
        }
        let file: ExperimentFile =
            toml::from_str(self.text).map_err(|error| self.toml_error(&error))?;
        if file.measure.is_empty() {
            let what = "is missing; expected at least one [[measure]]";
            return Err(self.error_at(&(0..0), "measure", what));
        }
        let options = self.options(entries(&file.options))?;
        let measures = file.measure.iter();
        let measures: Vec<_> = measures
            .map(|table| self.measure(table.as_ref(), &table.span(), &options, overrides))
            .collect::<Result<_>>()?;
        let references = file.reference.into_iter().map(|section| self.reference(section));
        let studies = file.study.into_iter().map(|section| self.study(section, measures.len()));
        Ok(Experiment {
            path: self.path.to_owned(),
            title: file.title,
            about: file.about,
            references: references.collect::<Result<_>>()?,
            studies: studies.collect::<Result<_>>()?,
            measures,
        })
    }

    fn measure(
        &self,
        table: &OptionTable,
        span: &Range<usize>,
        common: &Options,
        overrides: &[(String, String)],
    ) -> Result<MeasurementSpec> {
        let Some(value) = table.get("run") else {
            let what = format!("is missing; expected one of {}", MEASUREMENTS.join(", "));
            return Err(self.error_at(span, "run", what));
        };
        let run = value.as_ref().as_str();
        let run = run.ok_or_else(|| self.error_at(&value.span(), "run", "expected a string"))?;
        let run = run.to_owned();
        if !MEASUREMENTS.contains(&run.as_str()) {
            let what = format!(
                "\"{run}\" is not a measurement; expected one of {}",
                MEASUREMENTS.join(", ")
            );
            return Err(self.error_at(&value.span(), "run", what));
        }
        let mut full =
            if WITHOUT_TARGET.contains(&run.as_str()) { Options::new() } else { common.clone() };
        let own = entries(table).filter(|entry| !["run", "quick"].contains(&entry.name));
        full.extend(self.options(own)?);
        let mut quick = full.clone();
        if let Some(value) = table.get("quick") {
            let span = value.span();
            let short = value.as_ref().as_table();
            let short = short.ok_or_else(|| self.error_at(&span, "quick", "expected a table"))?;
            let entry = |(name, value)| OptionEntry { name, span: span.clone(), value };
            let short = short.iter().map(|(name, value)| entry((name.as_str(), value)));
            quick.extend(self.options(short)?);
        }
        for (name, value) in overrides {
            let setting = Setting { value: Some(value.clone()), span: None };
            for form in [&mut full, &mut quick] {
                let mut with = form.clone();
                with.insert(name.clone(), setting.clone());
                // Skips measurements whose subcommand does not have the option.
                if self.check(&run, &with, span).is_ok() || form.contains_key(name) {
                    *form = with;
                }
            }
        }
        self.check(&run, &full, span)?;
        self.check(&run, &quick, span)?;
        Ok(MeasurementSpec { run, full, quick })
    }

    /// Checks the options against the subcommand.
    fn check(&self, run: &str, options: &Options, span: &Range<usize>) -> Result<()> {
        let measure =
            MeasurementSpec { run: run.to_owned(), full: options.clone(), quick: Options::new() };
        let words = std::iter::once("adit-lab".to_owned()).chain(measure.command(false));
        let Err(error) = (self.check)(&words.collect::<Vec<_>>()) else { return Ok(()) };
        let named = context(&error, ContextKind::InvalidArg);
        let name = named.trim_start_matches("--").split([' ', '=']).next().unwrap_or_default();
        let at = options.get(name).and_then(|setting| setting.span.clone());
        let what = match error.kind() {
            ErrorKind::UnknownArgument => {
                let similar = context(&error, ContextKind::SuggestedArg);
                let hint = if similar.is_empty() {
                    String::new()
                } else {
                    format!("; did you mean \"{}\"?", similar.trim_start_matches("--"))
                };
                format!("is not an option of {run}{hint}")
            }
            _ => match std::error::Error::source(&error) {
                Some(source) => source.to_string(),
                None => {
                    let text = error.to_string();
                    let first = text.split("\n\n").next().unwrap_or_default().to_owned();
                    first
                        .trim_start_matches("error: ")
                        .split_whitespace()
                        .collect::<Vec<_>>()
                        .join(" ")
                }
            },
        };
        Err(self.error_at(&at.unwrap_or_else(|| span.clone()), name, what))
    }

    fn options<'v>(&self, entries: impl Iterator<Item = OptionEntry<'v>>) -> Result<Options> {
        let mut options = Options::new();
        for OptionEntry { name, span, value } in entries {
            let name = name.replace('_', "-");
            if RUN_OPTIONS.contains(&name.as_str()) {
                return Err(self.error_at(&span, &name, "adit-lab run sets this option itself"));
            }
            let word = |value: &Value| match value {
                Value::String(text) => Ok(text.clone()),
                Value::Integer(number) => Ok(number.to_string()),
                Value::Float(number) => Ok(number.to_string()),
                other => {
                    let kind = other.type_str();
                    let what = format!("expected a string or a number, not {kind}");
                    Err(self.error_at(&span, &name, what))
                }
            };
            let value = match value {
                Value::Boolean(false) => continue,
                Value::Boolean(true) => None,
                Value::Array(values) => {
                    Some(values.iter().map(word).collect::<Result<Vec<_>>>()?.join(","))
                }
                Value::String(text) if PATH_OPTIONS.contains(&name.as_str()) => {
                    let folder = self.path.parent().unwrap_or(Path::new(""));
                    Some(folder.join(text).display().to_string())
                }
                value => Some(word(value)?),
            };
            options.insert(name, Setting { value, span: Some(span) });
        }
        Ok(options)
    }

    fn reference(&self, section: ReferenceSection) -> Result<Reference> {
        let ReferenceSection { plot, label, machine, points } = section;
        let span = plot.span();
        let plot = plot.into_inner();
        if !PLOTS.contains(&plot.as_str()) {
            let what = format!("\"{plot}\" is not a plot; expected one of {}", PLOTS.join(", "));
            return Err(self.error_at(&span, "plot", what));
        }
        let wrong = |span: &Range<usize>| {
            let what = "expected pairs of numbers such as [[64, 5.17], [128, 5.17]]";
            self.error_at(span, "points", what)
        };
        let points = points.ok_or_else(|| wrong(&span))?;
        let span = points.span();
        let points = points.into_inner().try_into().map_err(|_| wrong(&span))?;
        Ok(Reference { plot, label, machine, points })
    }

    fn study(&self, section: StudySection, measures: usize) -> Result<Study> {
        let StudySection { source, machine, unit, values } = section;
        let check = |value: Spanned<StudyValue>| {
            let (span, value) = (value.span(), value.into_inner());
            let (key, what) = match (value.measure, &value.figure, &value.note) {
                (Some(measure), ..) if !(1..=measures).contains(&measure) => (
                    "measure",
                    format!("is not one of the measurements 1 to {measures} of this file"),
                ),
                (Some(_), None, _) | (None, Some(_), _) => {
                    ("figure", "measure and figure go together".to_owned())
                }
                (None, None, None) => {
                    let what =
                        "is missing; expected measure and figure, or a note why there are none";
                    ("note", what.to_owned())
                }
                _ => return Ok(value),
            };
            Err(self.error_at(&span, key, what))
        };
        let values = values.into_iter().map(check).collect::<Result<_>>()?;
        Ok(Study { source, machine, unit, values })
    }
}

/// An option in a file.
struct OptionEntry<'v> {
    name: &'v str,
    span: Range<usize>,
    value: &'v Value,
}

fn entries(table: &OptionTable) -> impl Iterator<Item = OptionEntry<'_>> {
    table.iter().map(|(name, value)| OptionEntry {
        name: name.as_ref(),
        span: name.span(),
        value: value.as_ref(),
    })
}

fn context(error: &clap::Error, kind: ContextKind) -> String {
    match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.first().cloned().unwrap_or_default(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::check_options;

    fn parse(text: &str) -> Result<Experiment> {
        ExperimentSource { path: Path::new("x.toml"), text, check: check_options }.experiment(&[])
    }

    const GOOD: &str = r#"
title = "T"
[options]
sessions = 99_000
[[measure]]
run = "throughput"
size = [64, "imix"]
direction = ["uplink"]
no-calibration = true
quick = { trial = "300ms", size = 64 }
[[measure]]
run = "selftest"
[[reference]]
plot = "rate-by-size"
label = "L"
machine = "M"
points = [[64, 5.17], [128, 5]]
[[study]]
source = "S"
machine = "M"
unit = "Mpps"
values = [
  { label = "a", value = 5.17, measure = 1, figure = "loss-free" },
  { label = "b", note = "cores" },
]
"#;

    #[test]
    fn experiment_gives_the_words_of_its_commands_in_both_forms() {
        let experiment = parse(GOOD).unwrap();
        let words = [
            "throughput",
            "--direction=uplink",
            "--no-calibration",
            "--sessions=99000",
            "--size=64,imix",
        ];
        assert_eq!(experiment.measures[0].command(false), words);
        assert!(experiment.measures[0].command(true).contains(&"--trial=300ms".to_owned()));
        assert_eq!(experiment.measures[1].command(true), ["selftest"]);
        assert_eq!(experiment.references[0].points, [[64.0, 5.17], [128.0, 5.0]]);
        let values = &experiment.studies[0].values;
        assert_eq!((values[0].value, values[0].measure), (Some(5.17), Some(1)));
        assert_eq!((values[1].value, values[1].note.as_deref()), (None, Some("cores")));
    }

    #[test]
    fn wrong_file_is_named_with_line_and_key() {
        let cases = [
            (
                "title = \"T\"",
                "x.toml, line 1, measure: is missing; expected at least one [[measure]]",
            ),
            ("title = \"T\"\nx = 1", "x.toml, line 2, x: is not a key of an experiment"),
            ("titel", "x.toml, line 1: not TOML"),
            (
                "title = \"T\"\n[[measure]]\nrun = \"fly\"",
                "x.toml, line 3, run: \"fly\" is not a meas",
            ),
            (
                "title = \"T\"\n[[measure]]\nrun = \"latency\"\n\ntrail = \"5s\"",
                "x.toml, line 5, trail: is not an option of latency",
            ),
            (
                "title = \"T\"\n[[measure]]\nrun = \"throughput\"\ntrial = \"10m\"",
                "x.toml, line 4, trial: \"10m\" is not a time",
            ),
            (
                "title = \"T\"\n[[measure]]\nrun = \"throughput\"\nquick = { method = \"x\" }",
                "x.toml, line 4, method: invalid value 'x'",
            ),
            (
                "title = \"T\"\n[options]\nout = \"x\"\n[[measure]]\nrun = \"selftest\"",
                "x.toml, line 3, out: adit-lab run sets this option itself",
            ),
            (
                "title = \"T\"\n[[measure]]\nrun = \"selftest\"\n[[study]]\nsource = \"S\"\n\
                 machine = \"M\"\nunit = \"Mpps\"\nvalues = [{ label = \"a\", measure = 2, figure = \"x\" }]",
                "x.toml, line 8, measure: is not one of the measurements 1 to 1 of",
            ),
            (
                "title = \"T\"\n[[measure]]\nrun = \"selftest\"\n[[study]]\nsource = \"S\"\n\
                 machine = \"M\"\nunit = \"Mpps\"\nvalues = [{ label = \"a\", value = 1 }]",
                "x.toml, line 8, note: is missing; expected measure and figure, or a note",
            ),
            (
                "title = \"T\"\n[[measure]]\nrun = \"selftest\"\n[[reference]]\nplot = \"x\"\n\
                 label = \"\"\nmachine = \"\"",
                "x.toml, line 5, plot: \"x\" is not a plot",
            ),
        ];
        for (text, wanted) in cases {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with(wanted), "{text}\n{error}");
        }
    }

    #[test]
    fn override_of_the_command_line_reaches_the_measurements_that_have_it() {
        let overrides = overrides(&["rate-max=1M".to_owned()]).unwrap();
        let source =
            ExperimentSource { path: Path::new("x.toml"), text: GOOD, check: check_options };
        let experiment = source.experiment(&overrides).unwrap();
        assert!(experiment.measures[0].command(true).contains(&"--rate-max=1M".to_owned()));
        assert_eq!(experiment.measures[1].command(true), ["selftest"]);
    }

    #[test]
    fn experiments_of_the_repository_are_valid() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments");
        let mut count = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "toml") {
                read(&path, &[], check_options).unwrap();
                count += 1;
            }
        }
        assert!(count >= 6, "{count}");
    }
}
