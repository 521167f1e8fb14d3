//! `adit-bench perf suite`: most benches, with the machine, in one document. `adit-bench perf
//! instructions`: the cost of one packet in instructions, by part of the fast path. `adit-bench
//! perf ab REV`: the datapath of two revisions against each other.

mod ab;
mod callgrind;
mod instructions;
pub(crate) mod suite;
mod wire;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::Value;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Perf {
    /// Run most benches, and experiments of the adit-lab beside this program.
    Suite(suite::SuiteArguments),
    /// Count the instructions of a packet by part of the fast path, with valgrind.
    Instructions(instructions::InstructionsArguments),
    /// Build a revision and the working tree, and run the datapath bench of both in turns.
    Ab(ab::AbArguments),
}

impl Perf {
    /// Measures, and returns the document. `bench` runs the bench that a command line names.
    ///
    /// # Errors
    /// A program is missing, or a measurement fails.
    pub(crate) fn run(
        &self,
        bench: impl Fn(&str) -> anyhow::Result<Value>,
    ) -> anyhow::Result<Value> {
        match self {
            Self::Suite(arguments) => suite::run(arguments, bench),
            Self::Instructions(arguments) => instructions::run(arguments),
            Self::Ab(arguments) => ab::run(arguments),
        }
    }
}

/// Returns the root of the workspace.
fn root() -> anyhow::Result<PathBuf> {
    Ok(output(Command::new("git").args(["rev-parse", "--show-toplevel"]))?.into())
}

/// Creates a folder beside this program for the files of a measurement.
fn scratch_folder() -> anyhow::Result<PathBuf> {
    let folder = std::env::current_exe().context("find this program")?.with_file_name("perf");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    Ok(folder)
}

/// Runs a command and returns its output without the line end. Ctrl-C ends it with this program.
fn output(command: &mut Command) -> anyhow::Result<String> {
    let text = format!("{command:?}");
    let output = command.output().with_context(|| format!("cannot run {text}"))?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{text} failed ({}): {}", output.status, error.trim());
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
