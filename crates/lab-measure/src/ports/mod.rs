//! `adit-lab ports`: what adit forwards through each kind of port of this host, per second of CPU
//! time, in turns.
//!
//! This room has the options, rounds and report. The network of a turn is that of `adit-lab demo`:
//! the room `lab` brings it up and counts the packets.

use std::fmt;

use anyhow::{Context, Result};
use clap::ValueEnum;

use crate::measurement::{self, LabMeasurement, Prepared};
use crate::quantity::{Quantity, higher, lower, plain};
use crate::report::{OutputArguments, Report};
use crate::target::rules::possible_value;
use adit_lab_process::stop::Stop;

/// Rules of each session.
const RULES: &str = "2 PDR, 2 FAR, 1 QER with a QFI, 1 URR with a volume threshold";
/// Packets per CPU time of adit and of the threads that poll its devices.
const EFFICIENCY: Quantity<'_> = higher("packets per CPU-second", "pps").plotted();

/// Length of the UE's IP packet. Unit: octets.
pub const PACKET_BYTES: usize = 64;

/// Runs `adit-lab ports` with these options.
pub type PortsMeasurement = fn(&PortsArguments, &Stop) -> Result<bool>;

/// Options of `adit-lab ports`.
#[derive(Debug, clap::Args)]
pub struct PortsArguments {
    /// Kinds of ports to measure in turns; the others are compared with the last one.
    #[arg(
        long,
        value_name = "KIND,…",
        value_enum,
        value_delimiter = ',',
        default_value = "xdp,kernel,af-packet,af-xdp"
    )]
    pub io: Vec<PortKind>,
    /// Number of sessions, each with one UE.
    #[arg(long, value_name = "N", default_value_t = 1000,
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub sessions: u32,
    /// Duration of the traffic of one direction in one turn, in seconds.
    #[arg(long, value_name = "S", default_value_t = 2,
        value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub duration: u32,
    /// Number of packets on their way, at most. With 0 the sender never waits, and offers more than
    /// adit can forward.
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub in_flight: u32,
    /// Real-time priority of adit's worker, or 0 for none: the kernel's work for its devices is on
    /// the same core.
    #[arg(long, value_name = "N", default_value_t = 0,
        value_parser = clap::value_parser!(u8).range(..=99))]
    pub realtime_priority: u8,
    /// Number of turns of each kind.
    #[arg(long, value_name = "N", default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// The adit binary to run; default: the one in the directory of adit-lab.
    #[arg(long, value_name = "PATH")]
    pub adit: Option<std::path::PathBuf>,
    #[command(flatten)]
    output: OutputArguments,
}

/// A kind of port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PortKind {
    /// AF_XDP sockets behind adit's XDP program.
    Xdp,
    /// AF_XDP sockets alone.
    AfXdp,
    /// Packet sockets of adit, `kernel:packet`.
    AfPacket,
    /// DPDK's `net_af_packet`.
    NetAfPacket,
    /// UDP sockets and a TUN device.
    Kernel,
}

impl fmt::Display for PortKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&possible_value(self))
    }
}

/// The direction of the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortDirection {
    /// From the gNB.
    Uplink,
    /// From the data network.
    Downlink,
}

impl PortDirection {
    /// Both directions in the order of measurement.
    pub const ALL: [Self; 2] = [Self::Uplink, Self::Downlink];
}

impl fmt::Display for PortDirection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Uplink => "uplink",
            Self::Downlink => "downlink",
        })
    }
}

/// The packets of one direction in one turn.
#[derive(Debug, Clone, Copy)]
pub struct TurnFigures {
    /// Direction.
    pub direction: PortDirection,
    /// Packets that were sent to adit's device. Unit: million per second.
    pub offered_mpps: f64,
    /// Packets that the other side received. Unit: million per second.
    pub mpps: f64,
    /// CPU time of adit and of the threads that poll its devices. Unit: percent of a core.
    pub cpu_percent: f64,
    /// CPU time of the sender. Unit: percent of a core.
    pub sender_percent: f64,
    /// CPU time of the thread that receives what adit sends, on the sender's core. Unit: percent.
    pub receiver_percent: f64,
    /// Million packets per second of CPU time of adit and of the threads that poll its devices.
    pub mpkts_per_cpu_s: f64,
}

/// The cores of a turn.
#[derive(Debug, Clone, Copy)]
pub struct PortsCores {
    /// The core of adit's worker and of the kernel's work for its devices.
    pub worker: u16,
    /// The core of adit's other threads, the sender and the receiver.
    pub tester: u16,
}

impl PortsArguments {
    /// Measures all rounds and delivers the report. `turn` measures both directions with a kind of
    /// port.
    ///
    /// # Errors
    /// `turn` fails; [`Interrupted`](adit_lab_process::stop::Interrupted). The report with the
    /// turns until then is delivered all the same.
    pub fn run(
        &self,
        cores: PortsCores,
        stop: &Stop,
        turn: impl Fn(PortKind) -> Result<Vec<TurnFigures>>,
    ) -> Result<bool> {
        measurement::run(&PortsTurns { arguments: self, cores, turn }, stop)
    }
}

/// The measurement; `turn` brings up the network and measures.
struct PortsTurns<'a, F> {
    arguments: &'a PortsArguments,
    cores: PortsCores,
    turn: F,
}

impl<F: Fn(PortKind) -> Result<Vec<TurnFigures>>> LabMeasurement for PortsTurns<'_, F> {
    const NAME: &'static str = "ports";
    type Rig = ();
    type Case = PortKind;

    fn output(&self) -> &OutputArguments {
        &self.arguments.output
    }

    fn prepare(&self, report: &mut Report, _: &Stop) -> Result<Prepared<Self>> {
        let arguments = self.arguments;
        report.cores("worker", &[self.cores.worker]);
        report.cores("tester", &[self.cores.tester]);
        report.condition("sessions", arguments.sessions);
        report.condition("rules", RULES);
        report.condition("packets", format!("{PACKET_BYTES} B"));
        report.condition("turn", format!("{} s", arguments.duration));
        report.condition("in flight", arguments.in_flight);
        report.condition("real-time priority", arguments.realtime_priority);
        let rounds = (0..arguments.rounds).flat_map(|_| arguments.io.iter().copied());
        Ok(Some(((), rounds.collect())))
    }

    fn measure(&self, (): &mut (), io: &PortKind, report: &mut Report, _: &Stop) -> Result<()> {
        for seen in (self.turn)(*io)? {
            seen.add_to(*io, report);
        }
        Ok(())
    }

    fn conclude(&self, (): (), report: &mut Report) -> Result<()> {
        let last = self.arguments.io.last().context("--io names no kind of port")?;
        for direction in PortDirection::ALL {
            let to = format!("{last}, {direction}");
            for io in &self.arguments.io {
                let case = format!("{io}, {direction}");
                if report.values(plain(&format!("ratio to {last}"), ""), &case).is_empty() {
                    report.ratio(&format!("ratio to {last}"), EFFICIENCY, [&case, &to]);
                }
            }
        }
        Ok(())
    }
}

impl TurnFigures {
    /// Adds the figures to the report, and prints them.
    fn add_to(&self, io: PortKind, report: &mut Report) {
        let case = format!("{io}, {}", self.direction);
        let figures = [
            (EFFICIENCY, self.mpkts_per_cpu_s * 1e6),
            (plain("offered", "pps"), self.offered_mpps * 1e6),
            (higher("rate", "pps"), self.mpps * 1e6),
            (lower("share of a core", "permille"), self.cpu_percent * 10.0),
            (plain("share of the other core, sender", "permille"), self.sender_percent * 10.0),
            (plain("share of the other core, receiver", "permille"), self.receiver_percent * 10.0),
        ];
        for (quantity, value) in figures {
            report.add(quantity, &case, [nearest(value)]);
        }
        eprintln!(
            "{case:<24} {:.3} of {:.3} Mpps with {:.0} % of a core: {:.3} million packets per CPU-second",
            self.mpps, self.offered_mpps, self.cpu_percent, self.mpkts_per_cpu_s
        );
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rates and shares are far below 2^53, and a cast of a negative number is zero"
)]
fn nearest(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests;
