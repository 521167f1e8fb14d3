//! The command line of `adit bench`.

use std::path::PathBuf;

use adit_pktio::RxChecksum;
use clap::{Subcommand, ValueEnum};

use crate::churn::ChurnBenchConfig;
use crate::n4_standby::{self, StandbyTransport};
use crate::n4_store;
use crate::report::BenchOutput;
use crate::sessions::BenchProfile;
use crate::size::{BenchSize, parse_burst, parse_count, parse_sessions};

/// A bench of `adit bench`.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Cycles per packet of the datapath, with packets in memory and sessions at random.
    Datapath {
        /// Session counts, such as 1k,16k,100k.
        #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1k,16k,100k",
              value_parser = parse_count)]
        sessions: Vec<usize>,
        /// Sessions with traffic, at random among the first ones; default: all.
        #[arg(long, value_name = "COUNT", value_parser = parse_count)]
        active: Option<usize>,
        /// Packets measured for each direction and session count.
        #[arg(long, value_name = "COUNT", default_value = "4M", value_parser = parse_count)]
        packets: usize,
        /// Packets in one burst, 1 to 64; several such as 1,8,32,64.
        #[arg(long, value_name = "LIST", value_delimiter = ',',
              default_values_t = [adit_types::limits::BURST_DEFAULT], value_parser = parse_burst)]
        burst: Vec<usize>,
        /// The measured directions.
        #[arg(long, value_enum, default_value = "both")]
        direction: crate::datapath::BenchDirections,
        /// The SMF chooses TEIDs and UE addresses: the datapath looks them up by hash instead of index.
        #[arg(long)]
        given_keys: bool,
        /// SDF filters of each session; without a value several, for both families.
        #[arg(long, value_enum, value_name = "FILTERS", num_args = 0..=1, require_equals = true,
              default_value = "none", default_missing_value = "several")]
        sdf: crate::sessions::BenchFilters,
        /// UEs have addresses of both families, and half of the packets are IPv6.
        #[arg(long)]
        mixed: bool,
        /// Frames have a VLAN tag on either side.
        #[arg(long)]
        vlan: bool,
        /// Packets go to another UPF and come from there in tunnels (N9) instead of N6.
        #[arg(long)]
        n9: bool,
        /// Tunnels of N3 are over IPv6.
        #[arg(long, conflicts_with = "n9")]
        n3_v6: bool,
        /// URRs of each session, which all its packets count for.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=4))]
        urrs: u32,
        /// Number of gNBs, which the sessions are spread over.
        #[arg(long, default_value_t = 1,
              value_parser = clap::value_parser!(u16).range(1..=i64::from(crate::network::GNBS_MAX)))]
        gnbs: u16,
        /// The ports verify no checksums, so the worker verifies those of IPv4 headers.
        #[arg(long)]
        verify_checksums: bool,
        /// Maximum bit rates of the QERs of each session.
        #[arg(long, value_enum, default_value = "none")]
        rates: crate::sessions::BenchRates,
        /// Output of the figures.
        #[command(flatten)]
        output: BenchOutput,
    },
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
        /// Sessions, packets, burst and output.
        #[command(flatten)]
        size: BenchSize,
    },
    /// Cycles of packets in the execution models, over DPDK's buffers and event schedulers.
    Models {
        /// Only the event-driven model, with one setting of its schedulers after the other.
        #[arg(long)]
        settings: bool,
        /// Size and output.
        #[command(flatten)]
        size: BenchSize,
    },
    /// Cycles of a session modification, and of packets while sessions are modified.
    Publication(BenchSize),
    /// Cost of a counter snapshot, and of the text of all metrics, to the packets.
    Scrape(BenchSize),
    /// Packets that a busy worker loses while sessions are established and modified.
    Churn {
        /// Established sessions, all with traffic.
        #[arg(long, value_name = "COUNT", default_value = "100k", value_parser = parse_sessions)]
        resident: u32,
        /// Modifications per second.
        #[arg(long, value_name = "COUNT", default_value = "10k", value_parser = parse_sessions)]
        modifications: u32,
        /// Seconds of each phase.
        #[arg(long, value_name = "SECONDS", default_value_t = 3)]
        seconds: u32,
        /// Output of the figures.
        #[command(flatten)]
        output: BenchOutput,
    },
    /// Resident memory of this process with many sessions, after a packet each way.
    Memory {
        /// Sessions.
        #[arg(long, value_name = "COUNT", default_value = "3M", value_parser = parse_sessions)]
        sessions: u32,
        /// Output of the figures.
        #[command(flatten)]
        output: BenchOutput,
    },
    /// The control thread's turns that choose sessions for a card, and the time and memory of sessions in the XDP maps.
    Offload {
        /// Sessions.
        #[arg(long, value_name = "COUNT", default_value = "1M", value_parser = parse_sessions)]
        sessions: u32,
        /// Output of the figures.
        #[command(flatten)]
        output: BenchOutput,
    },
    /// CPU share of an idle worker, and latency of the first packet after a pause.
    Poll {
        /// CPU core of the worker.
        #[arg(long, value_name = "CORE", default_value_t = 1)]
        core: u16,
        /// Packets measured in each idle mode.
        #[arg(long, value_name = "COUNT", default_value = "500", value_parser = parse_count)]
        packets: usize,
        /// Output of the figures.
        #[command(flatten)]
        output: BenchOutput,
    },
    /// PFCP decoding time, and sessions per second in process and over a loopback socket.
    N4 {
        /// Sessions established before the measurement.
        #[arg(long, value_name = "COUNT", default_value = "100k", value_parser = parse_sessions)]
        resident: u32,
        /// Sessions established in each measurement.
        #[arg(long, value_name = "COUNT", default_value = "100k", value_parser = parse_sessions)]
        sessions: u32,
        /// Compare establishments with this store and without, and restore them.
        #[arg(long, value_name = "KIND", value_enum)]
        store: Option<BenchStore>,
        /// Folder of the journal, on the disk to be measured; without a journal before.
        #[arg(long, value_name = "PATH", default_value = "adit-bench-journal")]
        folder: PathBuf,
        /// How the standby is reached, and answers.
        #[arg(long, value_name = "TRANSPORT", value_enum, default_value = "user")]
        transport: StandbyTransport,
        /// CPU cores of the active adit's threads, and of the standby.
        #[arg(long, value_name = "CORES", value_delimiter = ',', num_args = 2, default_values_t = [0, 1])]
        cores: Vec<u16>,
        /// Output of the figures.
        #[command(flatten)]
        output: BenchOutput,
    },
}

/// A store of sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BenchStore {
    /// A journal in a folder.
    Journal,
    /// A standby, whose word suffices, in front of a store in memory.
    Standby,
}

impl BenchCommand {
    /// Runs the bench and prints its figures.
    ///
    /// # Errors
    /// A sentence that names what could not be measured.
    pub fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Datapath {
                sessions,
                active,
                packets,
                burst,
                direction,
                given_keys,
                sdf,
                mixed,
                vlan,
                n9,
                n3_v6,
                urrs,
                gnbs,
                verify_checksums,
                rates,
                output,
            } => {
                let usual = BenchProfile::USUAL;
                let options = crate::datapath::DatapathBenchOptions {
                    counts: sessions,
                    active: active.unwrap_or(usize::MAX),
                    packets,
                    bursts: burst,
                    directions: direction,
                    checksum: if verify_checksums { RxChecksum::Unknown } else { RxChecksum::Good },
                    profile: BenchProfile {
                        given_keys,
                        filters: sdf,
                        dual: mixed,
                        is_tagged: vlan,
                        n9,
                        n3_v6,
                        urrs,
                        gnbs,
                        rates,
                        ..usual
                    },
                };
                crate::datapath::run(&options, &output)
            }
            Self::Kinds(size) => crate::kinds::run(&size),
            Self::Handoff { mixed, vlan, size } => {
                let usual = BenchProfile::USUAL;
                let profile = BenchProfile { dual: mixed, is_tagged: vlan, ..usual };
                crate::handoff::run(&size, profile)
            }
            Self::Models { settings, size } => crate::models::run(&size, settings),
            Self::Publication(size) => crate::publication::run(&size),
            Self::Scrape(size) => crate::scrape::run(&size),
            Self::Churn { resident, modifications: modifications_per_s, seconds, output } => {
                let plan = ChurnBenchConfig { resident, modifications_per_s, seconds };
                crate::churn::run(&plan, &output)
            }
            Self::Offload { sessions, output } => crate::offload::run(sessions, &output),
            Self::Memory { sessions, output } => crate::memory::run(sessions, &output),
            Self::Poll { core, packets, output } => crate::poll::run(core, packets, &output),
            Self::N4 { resident, sessions, store, folder, transport, cores, output } => match store
            {
                None => crate::n4::run(resident, sessions, &output),
                Some(BenchStore::Journal) => n4_store::run(resident, sessions, &folder, &output),
                Some(BenchStore::Standby) => {
                    n4_standby::run(resident, sessions, transport, &cores, &output)
                }
            },
        }
    }
}
