//! `adit-lab ports`: what adit forwards through each kind of port of this host, per second of CPU time, in turns.
//!
//! This room has options, rounds and report. The network of a turn is that of `adit-lab demo`, so the room `lab` brings it
//! up and counts.

pub(crate) mod report;

use std::fmt;

use anyhow::Result;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use self::report::PortsReport;
use crate::report::{OutputArguments, Recorder};
use adit_lab_process::stop::{Interrupted, Stop};

/// The UE's IP packet. Unit: octets.
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
    /// Number of packets on their way, at most. With 0 the sender never waits, and offers more than adit can forward.
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub in_flight: u32,
    /// Real-time priority of adit's worker, or 0 for none: the kernel's work for its devices is on the same core.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
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
        f.pad(match self {
            Self::Xdp => "xdp",
            Self::AfXdp => "af-xdp",
            Self::AfPacket => "af-packet",
            Self::NetAfPacket => "net-af-packet",
            Self::Kernel => "kernel",
        })
    }
}

/// The direction of the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PortDirection {
    /// From the gNB.
    Uplink,
    /// From the data network.
    Downlink,
}

impl PortDirection {
    /// In the order of measurement.
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
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct TurnFigures {
    /// Direction.
    pub direction: PortDirection,
    /// Packets that adit's device was sent. Unit: million per second.
    pub offered_mpps: f64,
    /// Packets that the other side received. Unit: million per second.
    pub mpps: f64,
    /// CPU time of adit and of the threads that poll its devices.
    pub cpu_percent: f64,
    /// CPU time of the sender.
    pub sender_percent: f64,
    /// CPU time of the thread that receives what adit sends, on the sender's core.
    pub receiver_percent: f64,
    /// Million packets by CPU time of adit and of the threads that poll its devices.
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
    /// Measures all rounds and delivers the report. `turn` measures both directions of one turn.
    ///
    /// # Errors
    /// Those of `turn`; [`Interrupted`](adit_lab_process::stop::Interrupted). The report with the turns until then is
    /// delivered before.
    pub fn run(
        &self,
        cores: PortsCores,
        stop: &Stop,
        turn: impl FnMut(PortKind) -> Result<Vec<TurnFigures>>,
    ) -> Result<bool> {
        let mut recorder = Recorder::without_ports("ports");
        recorder.cores("worker", &[cores.worker]);
        recorder.cores("tester", &[cores.tester]);
        let mut report = PortsReport::new(self)?;
        let result = self.rounds(&mut report, stop, turn);
        match &result {
            Err(error) if error.is::<Interrupted>() => recorder.warn("interrupted: incomplete"),
            Err(error) => recorder.warn(format!("the measurement ended early: {error:#}")),
            Ok(()) => {}
        }
        report.close(recorder.finish(result.is_ok()));
        self.output.deliver(&report, report::print)?;
        result.map(|()| true)
    }

    fn rounds(
        &self,
        report: &mut PortsReport,
        stop: &Stop,
        mut turn: impl FnMut(PortKind) -> Result<Vec<TurnFigures>>,
    ) -> Result<()> {
        for round in 1..=self.rounds {
            for &io in &self.io {
                stop.check()?;
                for seen in turn(io)? {
                    eprintln!(
                        "round {round} of {}: {io:<13} {:<8} {:.3} of {:.3} Mpps with {:.0} % of a core: {:.3} million packets per CPU-second; sender {:.0} %, receiver {:.0} %",
                        self.rounds,
                        seen.direction,
                        seen.mpps,
                        seen.offered_mpps,
                        seen.cpu_percent,
                        seen.mpkts_per_cpu_s,
                        seen.sender_percent,
                        seen.receiver_percent,
                    );
                    report.add(round, io, seen);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
