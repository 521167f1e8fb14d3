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

mod study;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::run_report::{Reference, Study};
use adit_lab_process::stop::environment;

/// Subcommands that measure. Common options are for those with a target.
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
/// Those without a target.
const ALONE: [&str; 5] = ["selftest", "cycles", "store", "ports", "baseband"];
/// Options that `adit-lab run` itself sets.
const OWN: [&str; 2] = ["json", "out"];
/// Options that are paths, relative to the experiment file.
const PATHS: [&str; 2] = ["rule-profile", "groups"];
/// Plots that a reference can name.
const PLOTS: [&str; 4] = ["rate-by-size", "rate-by-sessions", "latency-by-size", "response-cdf"];

/// Parses a command line and returns clap's error, if any.
pub(crate) type OptionCheck = fn(&[String]) -> Result<(), clap::Error>;

/// One experiment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Experiment {
    /// Path of its file.
    pub path: PathBuf,
    /// Its title.
    pub title: String,
    /// The question that it answers.
    pub about: String,
    /// Its measurements in the order of the file.
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
    /// The subcommand and its options as command-line arguments.
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
    // The kind of target decides which other options there are.
    overrides.sort_by_key(|(name, _)| name != "target");
    Ok(overrides)
}

/// Reads a file and checks both forms of every measurement against its subcommand.
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

type TomlTable<'t> = DeTable<'t>;
type TomlValue<'t> = Spanned<DeValue<'t>>;

impl ExperimentSource<'_> {
    fn problem(&self, span: &Range<usize>, key: &str, what: impl Display) -> anyhow::Error {
        let newlines = self.text.bytes().take(span.start).filter(|byte| *byte == b'\n').count();
        let key = if key.is_empty() { String::new() } else { format!(", {key}") };
        environment(format!("{}, line {}{key}: {what}", self.path.display(), newlines + 1))
    }

    fn experiment(&self, overrides: &[(String, String)]) -> Result<Experiment> {
        let parsed = DeTable::parse(self.text).map_err(|error| {
            let span = error.span().unwrap_or_default();
            self.problem(&span, "", format!("not TOML: {}", error.message()))
        })?;
        let root = parsed.get_ref();
        self.known_keys(root, "", &["title", "about", "options", "measure", "reference", "study"])?;
        let title = self.text_of(root, "title")?;
        let title = title.ok_or_else(|| self.problem(&(0..0), "title", "is missing"))?;
        let about = self.text_of(root, "about")?.unwrap_or_default();
        let options = match root.get("options") {
            Some(value) => self.options(self.table(value, "options")?, &[])?,
            None => Options::new(),
        };
        let measures = self
            .tables(root, "measure")?
            .into_iter()
            .map(|(table, span)| self.measure(table, &span, &options, overrides))
            .collect::<Result<Vec<_>>>()?;
        if measures.is_empty() {
            return Err(self.problem(
                &(0..0),
                "measure",
                "is missing; expected at least one [[measure]]",
            ));
        }
        let references = self
            .tables(root, "reference")?
            .into_iter()
            .map(|(table, span)| self.reference(table, &span))
            .collect::<Result<Vec<_>>>()?;
        let studies = self
            .tables(root, "study")?
            .into_iter()
            .map(|(table, span)| self.study(table, &span, measures.len()))
            .collect::<Result<Vec<_>>>()?;
        Ok(Experiment { path: self.path.to_owned(), title, about, measures, references, studies })
    }

    fn measure(
        &self,
        table: &TomlTable<'_>,
        span: &Range<usize>,
        common: &Options,
        overrides: &[(String, String)],
    ) -> Result<MeasurementSpec> {
        let run = self.text_of(table, "run")?;
        let run = run.ok_or_else(|| {
            self.problem(
                span,
                "run",
                format!("is missing; expected one of {}", MEASUREMENTS.join(", ")),
            )
        })?;
        if !MEASUREMENTS.contains(&run.as_str()) {
            let what = format!(
                "\"{run}\" is not a measurement; expected one of {}",
                MEASUREMENTS.join(", ")
            );
            return Err(self.problem(&self.span_of(table, "run"), "run", what));
        }
        let mut full = if ALONE.contains(&run.as_str()) { Options::new() } else { common.clone() };
        full.extend(self.options(table, &["run", "quick"])?);
        let mut quick = full.clone();
        if let Some(value) = table.get("quick") {
            quick.extend(self.options(self.table(value, "quick")?, &[])?);
        }
        for (name, value) in overrides {
            let setting = Setting { value: Some(value.clone()), span: None };
            for form in [&mut full, &mut quick] {
                let mut with = form.clone();
                with.insert(name.clone(), setting.clone());
                // Skip measurements whose subcommand does not have the option.
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
        Err(self.problem(&at.unwrap_or_else(|| span.clone()), name, what))
    }

    fn options(&self, table: &TomlTable<'_>, except: &[&str]) -> Result<Options> {
        let mut options = Options::new();
        for (key, value) in table {
            let name: &str = key.get_ref();
            if except.contains(&name) {
                continue;
            }
            let name = name.replace('_', "-");
            if OWN.contains(&name.as_str()) {
                return Err(self.problem(
                    &key.span(),
                    &name,
                    "adit-lab run sets this option itself",
                ));
            }
            if matches!(value.get_ref(), DeValue::Boolean(false)) {
                continue;
            }
            let value = match value.get_ref() {
                DeValue::Boolean(true) => None,
                DeValue::Array(array) => {
                    let words = array.iter().map(|value| self.word(value, &name));
                    Some(words.collect::<Result<Vec<_>>>()?.join(","))
                }
                DeValue::String(text) if PATHS.contains(&name.as_str()) => {
                    let folder = self.path.parent().unwrap_or(Path::new(""));
                    Some(folder.join(&**text).display().to_string())
                }
                _ => Some(self.word(value, &name)?),
            };
            options.insert(name, Setting { value, span: Some(key.span()) });
        }
        Ok(options)
    }

    fn word(&self, value: &TomlValue<'_>, key: &str) -> Result<String> {
        match value.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            DeValue::Integer(number) => Ok(number.as_str().replace('_', "")),
            DeValue::Float(number) => Ok(number.as_str().replace('_', "")),
            other => {
                let what = format!("expected a string or a number, not {}", other.type_str());
                Err(self.problem(&value.span(), key, what))
            }
        }
    }

    fn reference(&self, table: &TomlTable<'_>, span: &Range<usize>) -> Result<Reference> {
        self.known_keys(table, "reference", &["plot", "label", "machine", "points"])?;
        let text = |key: &str| -> Result<String> {
            self.text_of(table, key)?.ok_or_else(|| self.problem(span, key, "is missing"))
        };
        let (plot, label, machine) = (text("plot")?, text("label")?, text("machine")?);
        if !PLOTS.contains(&plot.as_str()) {
            let what = format!("\"{plot}\" is not a plot; expected one of {}", PLOTS.join(", "));
            return Err(self.problem(&self.span_of(table, "plot"), "plot", what));
        }
        let wrong = || {
            let what = "expected pairs of numbers such as [[64, 5.17], [128, 5.17]]";
            self.problem(&self.span_of(table, "points"), "points", what)
        };
        let number = |value: &TomlValue<'_>| {
            self.word(value, "points").ok().and_then(|word| word.parse::<f64>().ok())
        };
        let pair = |value: &TomlValue<'_>| {
            let array = value.get_ref().as_array()?;
            let numbers = array.iter().map(number).collect::<Option<Vec<_>>>()?;
            <[f64; 2]>::try_from(numbers).ok()
        };
        let points = table.get("points").and_then(|value| value.get_ref().as_array());
        let points = points.ok_or_else(wrong)?.iter().map(pair).collect::<Option<Vec<_>>>();
        Ok(Reference { plot, label, machine, points: points.ok_or_else(wrong)? })
    }

    fn known_keys(&self, table: &TomlTable<'_>, of: &str, known: &[&str]) -> Result<()> {
        for key in table.keys() {
            let name: &str = key.get_ref();
            if !known.contains(&name) {
                let of = if of.is_empty() { "an experiment" } else { of };
                let what = format!("is not a key of {of}; expected one of {}", known.join(", "));
                return Err(self.problem(&key.span(), name, what));
            }
        }
        Ok(())
    }

    fn text_of(&self, table: &TomlTable<'_>, key: &str) -> Result<Option<String>> {
        let Some(value) = table.get(key) else { return Ok(None) };
        match value.get_ref().as_str() {
            Some(text) => Ok(Some(text.to_owned())),
            None => Err(self.problem(&value.span(), key, "expected a string")),
        }
    }

    fn span_of(&self, table: &TomlTable<'_>, key: &str) -> Range<usize> {
        table.get(key).map(Spanned::span).unwrap_or_default()
    }

    fn table<'v>(&self, value: &'v TomlValue<'_>, key: &str) -> Result<&'v TomlTable<'v>> {
        let table = value.get_ref().as_table();
        table.ok_or_else(|| self.problem(&value.span(), key, "expected a table"))
    }

    /// The tables of an array of tables.
    fn tables<'v>(
        &self,
        root: &'v TomlTable<'_>,
        key: &str,
    ) -> Result<Vec<(&'v TomlTable<'v>, Range<usize>)>> {
        let Some(value) = root.get(key) else { return Ok(Vec::new()) };
        let wrong = |span: &Range<usize>| {
            self.problem(span, key, format!("expected tables that start with [[{key}]]"))
        };
        let array = value.get_ref().as_array().ok_or_else(|| wrong(&value.span()))?;
        array
            .iter()
            .map(|value| {
                let table = value.get_ref().as_table().ok_or_else(|| wrong(&value.span()))?;
                Ok((table, value.span()))
            })
            .collect()
    }
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
