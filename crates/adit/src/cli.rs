//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

/// Where `adit run` listens for `adit show` unless told otherwise.
pub const ADMIN_SOCKET_DEFAULT: &str = "/run/adit/admin.sock";

/// A 5G User Plane Function.
#[derive(Debug, Parser)]
#[command(name = "adit", version, about, max_term_width = 100)]
pub struct AditCli {
    #[command(subcommand)]
    pub command: AditCommand,
}

#[derive(Debug, Subcommand)]
pub enum AditCommand {
    /// Run the user plane until SIGTERM or Ctrl-C.
    Run {
        /// Configuration file; adit.example.toml explains every key.
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Check a configuration file and print what follows from it.
    Check {
        /// Configuration file.
        #[arg(value_name = "FILE")]
        config: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show the state of a running adit.
    Show {
        /// What to show.
        what: Topic,
        /// With `qos`, the one session to show, by its UP SEID or an address of its UE.
        session: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Admin socket of the running adit.
        #[arg(long, value_name = "PATH", default_value = ADMIN_SOCKET_DEFAULT)]
        socket: PathBuf,
    },
    /// Measure a part of adit on this machine.
    Bench {
        #[command(subcommand)]
        bench: BenchCommand,
    },
}

/// What `adit show` can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Topic {
    /// PFCP associations with control plane functions.
    Associations,
    /// PFCP sessions with their rules and traffic.
    Sessions,
    /// Packet, drop, punt and PFCP message counters.
    Counters,
    /// DPDK ports.
    Ports,
    /// Link-layer neighbors.
    Neighbours,
    /// GTP-U paths to the peers that sessions send to.
    Paths,
    /// Applications, configured and by PFDs, and which of them packets are compared with.
    Applications,
    /// Rates of QERs: limits, what passed, what was dropped, and what waits.
    Qos,
}

impl Topic {
    /// The word that stands for the topic on the admin socket.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Associations => "associations",
            Self::Sessions => "sessions",
            Self::Counters => "counters",
            Self::Ports => "ports",
            Self::Neighbours => "neighbours",
            Self::Paths => "paths",
            Self::Applications => "applications",
            Self::Qos => "qos",
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Cycles per packet of the burst pipeline, packets in memory, sessions at random.
    Datapath {
        /// Session counts, such as 1k,16k,100k.
        #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1k,16k,100k",
              value_parser = parse_count)]
        sessions: Vec<usize>,
        /// Sessions with packets, at random among the first of those resident; all by default.
        #[arg(long, value_name = "COUNT", value_parser = parse_count)]
        active: Option<usize>,
        /// Packets measured for each direction and session count.
        #[arg(long, value_name = "COUNT", default_value = "4M", value_parser = parse_count)]
        packets: usize,
        /// Packets in one burst, 1 to 64; several such as 1,8,32,64.
        #[arg(long, value_name = "LIST", value_delimiter = ',',
              default_values_t = [adit_types::limits::BURST_DEFAULT], value_parser = parse_burst)]
        burst: Vec<usize>,
        /// The SMF chooses TEIDs and UE addresses, so that they are looked up instead of indexed.
        #[arg(long)]
        given_keys: bool,
        /// Eight PDRs with SDF filters in each session, of both families.
        #[arg(long)]
        sdf: bool,
        /// UEs have addresses of both families, and half of the packets are IPv6.
        #[arg(long)]
        mixed: bool,
        /// Maximum bit rates of both QERs of each session.
        #[arg(long, value_enum, default_value = "none")]
        rates: crate::bench::sessions::BenchRates,
        #[command(flatten)]
        output: BenchOutput,
    },
    /// Cycles of each kind of packet, and of packets that leave at each stage.
    Kinds(BenchSize),
    /// Cycles of a session modification, and of packets while sessions are modified.
    Publication(BenchSize),
    /// What a snapshot of the counters costs the packets.
    Scrape(BenchSize),
    /// Packets lost, if any, while sessions are established and modified next to a busy worker.
    Churn {
        /// Sessions in place, all with traffic.
        #[arg(long, value_name = "COUNT", default_value = "100k", value_parser = parse_sessions)]
        resident: u32,
        /// Modifications per second.
        #[arg(long, value_name = "COUNT", default_value = "10k", value_parser = parse_sessions)]
        modifications: u32,
        /// Seconds of each phase.
        #[arg(long, value_name = "SECONDS", default_value_t = 3)]
        seconds: u32,
        #[command(flatten)]
        output: BenchOutput,
    },
    /// Resident memory of this process with many sessions, each with a packet both ways.
    Memory {
        /// Sessions.
        #[arg(long, value_name = "COUNT", default_value = "3M", value_parser = parse_sessions)]
        sessions: u32,
        #[command(flatten)]
        output: BenchOutput,
    },
    /// What an idle worker takes of its core, and how late the first packet after a silence leaves.
    Poll {
        /// CPU core of the worker.
        #[arg(long, value_name = "CORE", default_value_t = 1)]
        core: u16,
        /// Packets measured for each way to wait.
        #[arg(long, value_name = "COUNT", default_value = "500", value_parser = parse_count)]
        packets: usize,
        #[command(flatten)]
        output: BenchOutput,
    },
    /// Decoding time and sessions per second, in process and over a loopback socket.
    N4 {
        /// Sessions in place before the measurement.
        #[arg(long, value_name = "COUNT", default_value = "100k", value_parser = parse_sessions)]
        resident: u32,
        /// Sessions established in each measurement.
        #[arg(long, value_name = "COUNT", default_value = "100k", value_parser = parse_sessions)]
        sessions: u32,
        #[command(flatten)]
        output: BenchOutput,
    },
}

/// Where the figures go.
#[derive(Debug, clap::Args)]
pub struct BenchOutput {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Write JSON to this file too.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// How much is measured.
#[derive(Debug, clap::Args)]
pub struct BenchSize {
    /// Sessions, all with traffic at random.
    #[arg(long, value_name = "COUNT", default_value = "16k", value_parser = parse_count)]
    pub sessions: usize,
    /// Packets of each measurement.
    #[arg(long, value_name = "COUNT", default_value = "1M", value_parser = parse_count)]
    pub packets: usize,
    /// Packets in one burst, 1 to 64.
    #[arg(long, value_name = "COUNT", default_value_t = adit_types::limits::BURST_DEFAULT,
          value_parser = parse_burst)]
    pub burst: usize,
    #[command(flatten)]
    pub output: BenchOutput,
}

/// A count with an optional factor: k (1,000), M (1,000,000).
fn parse_count(text: &str) -> Result<usize, String> {
    let (digits, factor) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1_000),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1_000_000),
        _ => (text, 1),
    };
    let count: Option<usize> = digits.parse().ok().and_then(|n: usize| n.checked_mul(factor));
    count.filter(|n| *n > 0).ok_or_else(|| "takes a count such as 500, 16k or 1M".to_owned())
}

/// A count of sessions: the emulated UEs have addresses of 10.64.0.0/10.
fn parse_sessions(text: &str) -> Result<u32, String> {
    let count = u32::try_from(parse_count(text)?).ok().filter(|count| *count <= 4_000_000);
    count.ok_or_else(|| "takes at most 4M sessions".to_owned())
}

fn parse_burst(text: &str) -> Result<usize, String> {
    let max = adit_types::limits::BURST_MAX;
    let burst = text.parse().ok().filter(|n| (1..=max).contains(n));
    burst.ok_or_else(|| format!("takes a whole number from 1 to {max}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_line_is_consistent() {
        AditCli::command().debug_assert();
    }

    #[test]
    fn counts_take_factors() {
        assert_eq!(parse_count("16k"), Ok(16_000));
        assert_eq!(parse_count("3M"), Ok(3_000_000));
        assert!(parse_count("0").is_err());
        assert!(parse_count("1G").is_err());
        assert!(parse_count("").is_err());
    }
}
