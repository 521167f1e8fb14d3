//! Chores of the workspace: `cargo xtask tidy`, `cargo xtask fuzz`, `cargo xtask spec`.

mod fuzz;
mod spec;
mod tidy;

use clap::{Parser, Subcommand};

/// Chores of the Adit workspace.
#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Refuse what the architecture forbids: imports, clocks, unsafe, names, unfinished code.
    Tidy,
    /// Build the fuzz targets and run them one after another.
    Fuzz {
        /// Time for each target.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// Targets; all without.
        targets: Vec<String>,
    },
    /// Write docs/spec from the tables in code.
    Spec {
        /// Only tell whether what is there is up to date.
        #[arg(long)]
        check: bool,
    },
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().chore {
        Chore::Tidy => tidy::run(),
        Chore::Fuzz { seconds, targets } => fuzz::run(seconds, &targets),
        Chore::Spec { check } => spec::run(check),
    }
}
