//! `cargo xtask perf suite`: every bench of `adit`, with the machine, in one document.
//! `cargo xtask perf instructions`: the cost of one packet in instructions, by part of the fast
//! path. `cargo xtask perf ab REV`: the datapath of two revisions against each other.

mod ab;
mod callgrind;
mod instructions;
mod interrupt;
mod page;
mod suite;
mod wire;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use serde_json::Value;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Perf {
    /// Run every bench of target/release/adit and experiments of adit-lab, and write
    /// docs/benchmarks/DATE-MACHINE.json, and the same as a page in Markdown.
    Suite {
        /// A tenth of the packets, and no case with a million sessions.
        #[arg(long)]
        quick: bool,
        /// Write to this file instead.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// The form of the experiments over memif.
        #[arg(long, value_enum, default_value = "quick")]
        wire: wire::WireForm,
    },
    /// Count the instructions of a packet by part of the fast path, with target/release/adit and valgrind.
    Instructions(instructions::InstructionsArguments),
    /// Build a revision and the working tree, and run the datapath bench of both in turns.
    Ab(ab::Arguments),
}

pub(crate) fn run(perf: &Perf) -> anyhow::Result<()> {
    match perf {
        Perf::Suite { quick, out, wire } => suite::run(*quick, out.as_deref(), *wire),
        Perf::Instructions(arguments) => instructions::run(arguments),
        Perf::Ab(arguments) => ab::run(arguments),
    }
}

/// The root of the workspace.
fn root() -> anyhow::Result<PathBuf> {
    let text = captured_stdout(Command::new("git").args(["rev-parse", "--show-toplevel"]))?;
    Ok(PathBuf::from(text))
}

/// The folder of release binaries.
fn release() -> anyhow::Result<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    Ok(target.map_or_else(|| root().map(|root| root.join("target")), Ok)?.join("release"))
}

/// Runs a command and returns its output without the line end.
fn captured_stdout(command: &mut Command) -> anyhow::Result<String> {
    let shown = format!("{command:?}");
    let output = command.output().with_context(|| format!("cannot run {shown}"))?;
    if !output.status.success() {
        bail!("{shown} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn read_json(path: &Path) -> anyhow::Result<Value> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}

fn write_json(path: &Path, document: &Value) -> anyhow::Result<()> {
    std::fs::write(path, format!("{}\n", serde_json::to_string_pretty(document)?))
        .with_context(|| path.display().to_string())
}
