//! The command line of `adit top`.

use clap::Args;

use super::AdminSocket;

/// How `adit top` looks at a running adit.
#[derive(Debug, Clone, Args)]
pub(crate) struct TopArguments {
    /// Time between two readings.
    #[arg(long, value_name = "SECONDS", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub interval: u64,
    /// Read twice, one interval apart, print the result, and end.
    #[arg(long)]
    pub once: bool,
    /// With --once: print JSON.
    #[arg(long, requires = "once")]
    pub json: bool,
    /// Maximum of sessions to read; more cost the control thread more time.
    #[arg(long, value_name = "COUNT", default_value_t = 10_000,
          value_parser = clap::value_parser!(u64).range(1..=4_000_000))]
    pub sessions: u64,
    #[command(flatten)]
    pub socket: AdminSocket,
}
