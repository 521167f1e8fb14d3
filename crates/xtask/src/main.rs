//! Chores of the workspace: `cargo xtask tidy`, `commits`, `test`, `fuzz`, `miri`, `spec`,
//! `docs`.

mod commits;
mod fuzz;
mod miri;
mod parallel;
mod programs;
mod site;
mod spec;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Chores of the Adit workspace.
#[derive(Debug, Parser)]
struct XtaskCli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Refuse what the architecture forbids: imports, clocks, unsafe, names, unfinished code.
    Tidy,
    /// Refuse commits since the last tag without a short subject and a reason.
    Commits,
    /// Build and run the test programs; say how long each took, and what was skipped and why.
    Test(programs::TestOptions),
    /// Build the fuzz targets and run them one after another.
    Fuzz {
        #[command(flatten)]
        options: fuzz::FuzzOptions,
        /// Targets; all if none is named.
        targets: Vec<String>,
    },
    /// Run unit tests of the rooms with unsafe code in Miri.
    Miri,
    /// Render the documents as a site in target/site.
    Docs,
    /// Write docs/spec from the tables in code.
    Spec {
        /// Write nothing; fail if a document is out of date.
        #[arg(long)]
        check: bool,
    },
}

fn main() -> ExitCode {
    match run(XtaskCli::parse().chore) {
        Ok(()) => ExitCode::SUCCESS,
        // Without the stack: the error is the last line of a long output.
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(chore: Chore) -> anyhow::Result<()> {
    match chore {
        Chore::Tidy => tidy::run(),
        Chore::Commits => commits::run(),
        Chore::Test(options) => programs::run(&options),
        Chore::Fuzz { options, targets } => fuzz::run(options, &targets),
        Chore::Miri => miri::run(),
        Chore::Docs => site::run(),
        Chore::Spec { check } => spec::run(check),
    }
}
