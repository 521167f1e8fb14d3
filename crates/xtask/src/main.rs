//! Chores of the workspace: `cargo xtask tidy`.

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
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().chore {
        Chore::Tidy => tidy::run(),
    }
}
