//! `adit-lab ports`: what adit forwards through each kind of port of this host, per second of CPU time.
//!
//! Small packets of many sessions cross adit over veth devices between namespaces, one kind of port after the other, in
//! turns. The figure is packets per CPU-second of the core that adit shares with the kernel's work for its devices: the
//! other core, which sends and receives, may limit the rate.

mod cpu_time;
mod programs;
mod sender;
mod turn;

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;

use adit_lab_engine::frame::Endpoints;
use anyhow::{Context, Result};
use clap::ValueEnum;
use comfy_table::{Table, presets};
use serde::Serialize;

use self::turn::{Turn, TurnFigures};
use crate::PortsArguments;
use crate::adit_process::PacketDevice;
use crate::demo::bring_up::Affinity;
use crate::topology::{DN_V6, LabUe};
use adit_lab_measure::machine::Machine;
use adit_lab_process::adit_config::WorkerPoll;
use adit_lab_process::stop::Stop;

/// The server of all UEs, behind the gateway of the data network.
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// Addresses of UEs and server.
const ENDPOINTS: Endpoints =
    Endpoints { ue_v4: LabUe(1).ipv4(), ue_v6: DN_V6, server_v4: SERVER, server_v6: DN_V6 };

/// A kind of port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PortKind {
    /// AF_XDP sockets behind adit's XDP program.
    Xdp,
    /// AF_XDP sockets alone.
    AfXdp,
    /// AF_PACKET sockets.
    AfPacket,
    /// UDP sockets and a TUN device.
    Kernel,
}

impl PortKind {
    const fn device(self) -> PacketDevice {
        match self {
            Self::Xdp => PacketDevice::Xdp,
            Self::AfXdp => PacketDevice::AfXdp,
            Self::AfPacket => PacketDevice::AfPacket,
            Self::Kernel => PacketDevice::Kernel,
        }
    }
}

/// The direction of the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PortDirection {
    /// From the gNB.
    Uplink,
    /// From the data network.
    Downlink,
}

impl fmt::Display for PortDirection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Uplink => "uplink",
            Self::Downlink => "downlink",
        })
    }
}

/// All turns of one kind of port in one direction.
#[derive(Debug, Serialize)]
struct PortFigures {
    io: PortKind,
    direction: PortDirection,
    turns: Vec<TurnFigures>,
    /// Of the turns. Unit: million packets.
    median_mpkts_per_cpu_s: f64,
    /// Divided by that of the last kind of port of the command line.
    ratio: f64,
}

/// The result of the command.
#[derive(Debug, Serialize)]
struct PortsReport {
    kernel: String,
    cpu: String,
    sessions: u32,
    rules: &'static str,
    /// The UE's IP packet. Unit: octets.
    packet_bytes: usize,
    rounds: u32,
    turn_s: u32,
    /// Packets on their way at most, or 0 for as many as the sender can make. There is no loss criterion.
    in_flight: u32,
    /// Of adit's worker, or 0 for none.
    realtime_priority: u8,
    compared_with: PortKind,
    ports: Vec<PortFigures>,
}

/// Measures and prints.
///
/// # Errors
/// The machine lacks something; adit does not start with a kind of port, or forwards nothing; interrupted.
pub(crate) fn run(arguments: &PortsArguments, stop: &Stop) -> Result<bool> {
    let mut affinity = Affinity::new(true)?;
    affinity.cores.poll = match arguments.realtime_priority {
        0 => WorkerPoll::Adaptive,
        priority => WorkerPoll::AdaptiveFirst(priority),
    };
    let mut figures: BTreeMap<(PortDirection, PortKind), Vec<TurnFigures>> = BTreeMap::new();
    for round in 1..=arguments.rounds {
        for &io in &arguments.io {
            let mut turn = Turn::bring_up(arguments, io, &affinity, stop)
                .with_context(|| format!("ports of kind {}", name(io)))?;
            for direction in [PortDirection::Uplink, PortDirection::Downlink] {
                let seen = turn.measure(direction, arguments, stop)?;
                eprintln!(
                    "round {round} of {}: {:<9} {direction:<8} {:.3} of {:.3} Mpps with {:.0} % of a core: {:.3} million packets per CPU-second; sender {:.0} %, receiver {:.0} %",
                    arguments.rounds,
                    name(io),
                    seen.mpps,
                    seen.offered_mpps,
                    seen.cpu_percent,
                    seen.mpkts_per_cpu_s,
                    seen.sender_percent,
                    seen.receiver_percent,
                );
                figures.entry((direction, io)).or_default().push(seen);
            }
        }
    }
    let report = report(arguments, figures)?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        println!("{}", table(&report));
    }
    Ok(true)
}

fn name(io: PortKind) -> String {
    io.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

fn report(
    arguments: &PortsArguments,
    figures: BTreeMap<(PortDirection, PortKind), Vec<TurnFigures>>,
) -> Result<PortsReport> {
    let compared_with = *arguments.io.last().context("--io names no kind of port")?;
    let medians: BTreeMap<_, _> =
        figures.iter().map(|(key, turns)| (*key, efficiency(turns))).collect();
    let ports = figures.into_iter().map(|((direction, io), turns)| {
        let median_mpkts_per_cpu_s = efficiency(&turns);
        let base = medians.get(&(direction, compared_with)).copied().unwrap_or(f64::NAN);
        let ratio = median_mpkts_per_cpu_s / base;
        PortFigures { io, direction, turns, median_mpkts_per_cpu_s, ratio }
    });
    let Machine { kernel, cpu, .. } = Machine::read();
    Ok(PortsReport {
        kernel,
        cpu,
        sessions: arguments.sessions,
        rules: "2 PDR, 2 FAR, 1 QER with a QFI, 1 URR with a volume threshold",
        packet_bytes: sender::PACKET_BYTES,
        rounds: arguments.rounds,
        turn_s: arguments.duration,
        in_flight: arguments.in_flight,
        realtime_priority: arguments.realtime_priority,
        compared_with,
        ports: ports.collect(),
    })
}

/// The median of packets per CPU-second.
fn efficiency(turns: &[TurnFigures]) -> f64 {
    FigureSpread::of(turns, |turn| turn.mpkts_per_cpu_s).median
}

/// One figure of several turns.
#[derive(Debug, Clone, Copy)]
struct FigureSpread {
    median: f64,
    least: f64,
    most: f64,
}

impl FigureSpread {
    /// NaN if there are no turns.
    fn of(turns: &[TurnFigures], figure: impl Fn(&TurnFigures) -> f64) -> Self {
        let mut all: Vec<f64> = turns.iter().map(figure).collect();
        all.sort_by(f64::total_cmp);
        let at = |index: usize| all.get(index).copied().unwrap_or(f64::NAN);
        let last = all.len().saturating_sub(1);
        let median = f64::midpoint(at(last / 2), at(all.len() / 2));
        Self { median, least: at(0), most: at(last) }
    }
}

impl fmt::Display for FigureSpread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { median, least, most } = self;
        let places = f.precision().unwrap_or(3);
        write!(f, "{median:.places$} ({least:.places$} to {most:.places$})")
    }
}

fn table(report: &PortsReport) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    let ratio = format!("to {}", name(report.compared_with));
    table.set_header([
        "",
        "io",
        "Mpps offered",
        "Mpps",
        "% of a core",
        "million packets per CPU-second",
        &ratio,
        "% of the other core: sender, receiver",
    ]);
    for ports in &report.ports {
        let of = |figure: fn(&TurnFigures) -> f64| FigureSpread::of(&ports.turns, figure);
        table.add_row([
            ports.direction.to_string(),
            name(ports.io),
            format!("{:.3}", of(|turn| turn.offered_mpps)),
            format!("{:.3}", of(|turn| turn.mpps)),
            format!("{:.0}", of(|turn| turn.cpu_percent)),
            format!("{:.3}", of(|turn| turn.mpkts_per_cpu_s)),
            format!("{:.2}", ports.ratio),
            format!(
                "{:.0}, {:.0}",
                of(|turn| turn.sender_percent).median,
                of(|turn| turn.receiver_percent).median,
            ),
        ]);
    }
    let priority = match report.realtime_priority {
        0 => "a worker without real-time priority".to_owned(),
        priority => format!("a worker with real-time priority {priority}"),
    };
    let load = match report.in_flight {
        0 => "a sender that never waits".to_owned(),
        count => format!("at most {count} of them on their way"),
    };
    format!(
        "{table}\nmedians, least and most of {} turns of {} s; {} sessions at random, {}; IP packets of {} octets, {load}; {priority}; {}, Linux {}",
        report.rounds,
        report.turn_s,
        report.sessions,
        report.rules,
        report.packet_bytes,
        report.cpu,
        report.kernel,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(mpkts_per_cpu_s: f64) -> TurnFigures {
        TurnFigures {
            offered_mpps: 2.0,
            mpps: 1.0,
            cpu_percent: 50.0,
            sender_percent: 40.0,
            receiver_percent: 20.0,
            mpkts_per_cpu_s,
        }
    }

    #[test]
    fn ratio_is_that_of_the_medians_to_the_last_kind() {
        let arguments = PortsArguments {
            io: vec![PortKind::Xdp, PortKind::AfXdp],
            ..PortsArguments::default()
        };
        let figures = BTreeMap::from([
            ((PortDirection::Uplink, PortKind::Xdp), [3.0, 9.0, 4.0].map(turn).to_vec()),
            ((PortDirection::Uplink, PortKind::AfXdp), [1.0, 3.0].map(turn).to_vec()),
        ]);
        let report = report(&arguments, figures).unwrap();
        let ratios: Vec<_> = report.ports.iter().map(|ports| (ports.io, ports.ratio)).collect();
        assert_eq!(ratios, [(PortKind::Xdp, 2.0), (PortKind::AfXdp, 1.0)]);
        let text = table(&report);
        assert!(text.contains("to af-xdp") && text.contains("4.000 (3.000 to 9.000)"), "{text}");
    }
}
