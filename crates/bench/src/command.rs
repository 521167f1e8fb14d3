//! The command line of `adit-bench`.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use serde_json::Value;

use crate::churn::ChurnArguments;
use crate::datapath::DatapathArguments;
use crate::n4::{BenchStore, N4Arguments};
use crate::perf::Perf;
use crate::routes::RoutesArguments;
use crate::sessions::BenchProfile;
use crate::size::{BenchSize, parse_count, parse_sessions};
use crate::{
    churn, datapath, handoff, kinds, memory, models, n4, n4_standby, n4_store, offload, poll,
    publication, report, routes, scrape,
};

/// Measures parts of adit on this machine.
#[derive(Debug, Parser)]
#[command(name = "adit-bench", version, about, max_term_width = 100)]
pub(crate) struct BenchCli {
    #[command(subcommand)]
    command: BenchCommand,
    #[command(flatten)]
    output: BenchOutput,
}

/// Output of the figures.
#[derive(Debug, Args)]
pub(crate) struct BenchOutput {
    /// Print JSON.
    #[arg(long, global = true)]
    json: bool,
    /// Also write JSON to this file.
    #[arg(long, value_name = "FILE", global = true)]
    out: Option<PathBuf>,
}

/// A bench of `adit-bench`.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Cycles per packet of the datapath, with packets in memory and sessions at random.
    Datapath(DatapathArguments),
    /// Cycles of each kind of packet, and of packets that end at each stage.
    Kinds(BenchSize),
    /// Cycles of packets that another worker than their session's owner received, at either worker.
    Handoff {
        /// UEs have addresses of both families, and half of the packets are IPv6.
        #[arg(long)]
        mixed: bool,
        /// Frames have a VLAN tag on either side.
        #[arg(long)]
        vlan: bool,
        #[command(flatten)]
        size: BenchSize,
    },
    /// Cycles of packets in the execution models, over DPDK's buffers and event schedulers.
    Models {
        /// Only the event-driven model, with one setting of its schedulers after the other.
        #[arg(long)]
        settings: bool,
        #[command(flatten)]
        size: BenchSize,
    },
    /// Cycles of a session modification, and of packets while sessions are modified.
    Publication(BenchSize),
    /// Cost of a counter snapshot, and of the text of all metrics, to the packets.
    Scrape(BenchSize),
    /// Packets that a busy worker loses while sessions are established and modified.
    Churn(ChurnArguments),
    /// Resident memory of this process with many sessions, after a packet each way.
    Memory {
        /// Sessions.
        #[arg(long, value_name = "COUNT", default_value = "3M", value_parser = parse_sessions)]
        sessions: u32,
    },
    /// The control thread's turns that choose sessions for a card, and the time and memory of
    /// sessions in the XDP maps.
    Offload {
        /// Sessions.
        #[arg(long, value_name = "COUNT", default_value = "1M", value_parser = parse_sessions)]
        sessions: u32,
    },
    /// Time and memory of a route table of the Internet's size, and cycles of packets with it.
    Routes(RoutesArguments),
    /// CPU share of an idle worker, and latency of the first packet after a pause.
    Poll {
        /// CPU core of the worker.
        #[arg(long, value_name = "CORE", default_value_t = 1)]
        core: u16,
        /// Packets measured in each idle mode.
        #[arg(long, value_name = "COUNT", default_value = "500", value_parser = parse_count)]
        packets: usize,
    },
    /// PFCP decoding time, and sessions per second in process and over a loopback socket.
    N4(N4Arguments),
    /// The bench suite, instructions by part of the fast path, or two revisions against each other.
    Perf {
        #[command(subcommand)]
        perf: Perf,
    },
}

impl BenchCli {
    /// Runs the bench, and prints and writes its document.
    ///
    /// # Errors
    /// The bench fails; the file cannot be written.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let document = self.command.run()?;
        if let Some(path) = &self.output.out {
            report::write(path, &format!("{document:#}\n"))?;
        }
        let text = match self.output.json {
            true => format!("{document:#}"),
            false => report::text(&document),
        };
        Ok(writeln!(std::io::stdout(), "{text}")?)
    }
}

impl BenchCommand {
    /// Runs the bench and returns its document.
    ///
    /// # Errors
    /// A sentence that names what could not be measured.
    pub(crate) fn run(self) -> anyhow::Result<Value> {
        match self {
            Self::Datapath(arguments) => datapath::run(&arguments),
            Self::Kinds(size) => kinds::run(&size),
            Self::Handoff { mixed, vlan, size } => {
                let profile = BenchProfile { dual: mixed, is_tagged: vlan, ..BenchProfile::USUAL };
                handoff::run(&size, profile)
            }
            Self::Models { settings, size } => models::run(&size, settings),
            Self::Publication(size) => publication::run(&size),
            Self::Scrape(size) => scrape::run(&size),
            Self::Churn(arguments) => churn::run(&arguments),
            Self::Memory { sessions } => memory::run(sessions),
            Self::Offload { sessions } => offload::run(sessions),
            Self::Routes(arguments) => routes::run(&arguments),
            Self::Poll { core, packets } => poll::run(core, packets),
            Self::N4(arguments) => {
                let row = match arguments.store {
                    None => n4::run(&arguments),
                    Some(BenchStore::Journal) => n4_store::run(&arguments),
                    Some(BenchStore::Standby) => n4_standby::run(&arguments),
                };
                Ok(report::of("n4", &[row?]))
            }
            Self::Perf { perf } => perf.run(|line| parsed(line)?.run()),
        }
    }
}

/// Parses a command line without the name of the program. Returns the bench that it names.
fn parsed(line: &str) -> anyhow::Result<BenchCommand> {
    Ok(BenchCli::try_parse_from(["adit-bench"].into_iter().chain(line.split(' ')))?.command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_of_the_suite_are_those_of_benches() {
        for line in crate::perf::suite::command_lines() {
            parsed(line).unwrap();
        }
    }
}
