//! `adit-lab run FILE…`: runs the measurements of experiment files in sequence and writes one
//! report.
//!
//! Each measurement is a subcommand of this program and runs in its own process, since a process
//! can start DPDK only once, and a failed measurement must not affect the next.

mod child;
pub(crate) mod file;
pub(crate) mod paired;

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

use self::child::ChildExit;
use self::file::{Experiment, MeasurementSpec, OptionCheck};
use crate::page;
use crate::run_report::{ExperimentReport, ExperimentRunReport, MeasurementReport};
use adit_lab_process::stop::{Interrupted, Stop, environment};

/// Options of `adit-lab run`.
#[derive(Debug, clap::Args)]
pub struct RunArguments {
    /// Experiment files, as in `experiments/`; docs/adit-lab.md describes the format.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Run the short form of each measurement: a functional test, not a measurement.
    #[arg(long)]
    pub quick: bool,
    /// Folder for `report.json` and `report.html`.
    #[arg(long, value_name = "FOLDER", default_value = "lab-report")]
    pub out: PathBuf,
    /// Set an option of every measurement that has it, such as `target-core=1`.
    #[arg(long, value_name = "OPTION=VALUE")]
    pub set: Vec<String>,
    /// Only check the files.
    #[arg(long)]
    pub check: bool,
}

/// Options of `adit-lab report`.
#[derive(Debug, clap::Args)]
pub struct ReportArguments {
    /// JSON reports of measurements (`--out`) or of `adit-lab run`.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// HTML file to write.
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    html: PathBuf,
}

/// Runs the experiments. Returns true if every measurement that this machine can run succeeded and
/// its counts agree with the target's.
///
/// # Errors
/// A file is not an experiment; the report cannot be written. Only after the report was written:
/// [`Interrupted`]; this machine can run no measurement.
pub(crate) fn run(arguments: &RunArguments, check: OptionCheck, stop: &Stop) -> Result<bool> {
    let overrides = file::overrides(&arguments.set)?;
    let read = |path: &PathBuf| file::read(path, &overrides, check);
    let experiments = arguments.files.iter().map(read).collect::<Result<Vec<_>>>()?;
    if arguments.check {
        return Ok(true);
    }
    std::fs::create_dir_all(&arguments.out).map_err(|error| {
        environment(format!("cannot create the folder {}: {error}", arguments.out.display()))
    })?;
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |span| span.as_secs());
    let mut report = ExperimentRunReport {
        tool: format!("adit-lab {}", env!("CARGO_PKG_VERSION")),
        started_unix_s: unix,
        quick: arguments.quick,
        complete: false,
        experiments: Vec::new(),
    };
    for experiment in &experiments {
        report.experiments.push(empty_report(experiment));
        for (index, measure) in experiment.measures.iter().enumerate() {
            if stop.is_raised() {
                break;
            }
            eprintln!("== {}: {} ({})", experiment.title, measure.run, index + 1);
            let result = run_measurement(arguments, experiment, measure, index, stop)?;
            if let Some(last) = report.experiments.last_mut() {
                last.measurements.push(result);
            }
            // Write after each measurement, so that a crash of this program loses only one.
            write(&report, &arguments.out)?;
        }
    }
    report.complete = !stop.is_raised() && report.is_whole();
    write(&report, &arguments.out)?;
    println!("report: {}", arguments.out.join("report.html").display());
    for left_out in report.left_out() {
        println!("left out: {left_out}");
    }
    let problems = report.problems();
    for problem in &problems {
        println!("problem: {problem}");
    }
    if stop.is_raised() {
        return Err(Interrupted.into());
    }
    match report.has_only_left_out() {
        true => Err(environment("this machine can run none of these measurements")),
        false => Ok(problems.is_empty()),
    }
}

/// Returns the report of an experiment before its first measurement.
fn empty_report(experiment: &Experiment) -> ExperimentReport {
    ExperimentReport {
        file: experiment.path.display().to_string(),
        title: experiment.title.clone(),
        about: experiment.about.clone(),
        references: experiment.references.clone(),
        studies: experiment.studies.clone(),
        measurements: Vec::new(),
        planned: experiment.measures.len(),
    }
}

fn run_measurement(
    arguments: &RunArguments,
    experiment: &Experiment,
    measure: &MeasurementSpec,
    index: usize,
    stop: &Stop,
) -> Result<MeasurementReport> {
    let stem = experiment.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let out = arguments.out.join(format!("{stem}-{index}-{}.json", std::process::id()));
    let command = measure.command(arguments.quick);
    let ended = child::run(&command, &out, stop)?;
    let text = std::fs::read_to_string(&out).ok();
    // The content of the file is part of the common report.
    let _ = std::fs::remove_file(&out);
    let report = text.and_then(|text| serde_json::from_str(&text).ok());
    let (error, left_out) = match ended {
        ChildExit::Measured if report.is_none() => (Some("it wrote no report".to_owned()), None),
        ChildExit::Measured => (None, None),
        ChildExit::RuledOut(why) => (None, Some(why)),
        ChildExit::Failed(error) => (Some(error), None),
    };
    Ok(MeasurementReport { command, error, left_out, report })
}

fn write(report: &ExperimentRunReport, folder: &Path) -> Result<()> {
    let json = serde_json::to_string_pretty(report).context("write the report as JSON")?;
    for (name, text) in [("report.json", json), ("report.html", page::render(report))] {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// Renders earlier reports as one page.
///
/// # Errors
/// A file cannot be read or is not a report; the page cannot be written.
pub(crate) fn render(arguments: &ReportArguments) -> Result<bool> {
    let mut whole: Option<ExperimentRunReport> = None;
    for path in &arguments.files {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        let one = ExperimentRunReport::of_json(path, &text)?;
        match &mut whole {
            None => whole = Some(one),
            Some(whole) => {
                whole.complete &= one.complete;
                whole.quick |= one.quick;
                whole.experiments.extend(one.experiments);
            }
        }
    }
    let whole = whole.context("no report")?;
    std::fs::write(&arguments.html, page::render(&whole))
        .with_context(|| format!("write {}", arguments.html.display()))?;
    println!("report: {}", arguments.html.display());
    Ok(true)
}
