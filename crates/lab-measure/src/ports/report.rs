//! The report of `adit-lab ports`.

use std::fmt;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::{PACKET_BYTES, PortDirection, PortKind, PortsArguments, TurnFigures};
use crate::report::{Figure, ReportHeader};

/// Rules of each session.
const RULES: &str = "2 PDR, 2 FAR, 1 QER with a QFI, 1 URR with a volume threshold";

/// The report of `adit-lab ports`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PortsReport {
    /// Machine, time, warnings.
    #[serde(flatten)]
    pub header: ReportHeader,
    /// Sessions.
    pub sessions: u32,
    /// Rules of each session.
    pub rules: String,
    /// The UE's IP packet. Unit: octets.
    pub packet_bytes: usize,
    /// Traffic of one direction in a turn. Unit: s.
    pub turn_s: u32,
    /// Packets on their way at most, or 0 for as many as the sender can make. There is no loss criterion.
    pub in_flight: u32,
    /// The priority of adit's worker, or 0 for none.
    pub realtime_priority: u8,
    /// The kind of port that the ratios refer to.
    pub compared_with: PortKind,
    /// The figures to compare.
    pub figures: Vec<Figure>,
    /// Each turn and direction.
    pub turns: Vec<PortTurn>,
}

/// One direction of one turn.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct PortTurn {
    /// Round, from 1.
    pub round: u32,
    /// Kind of port.
    pub io: PortKind,
    /// Its result.
    #[serde(flatten)]
    pub seen: TurnFigures,
}

impl PortsReport {
    /// A report without turns.
    ///
    /// # Errors
    /// The command line names no kind of port.
    pub(super) fn new(arguments: &PortsArguments) -> Result<Self> {
        Ok(Self {
            header: ReportHeader::default(),
            sessions: arguments.sessions,
            rules: RULES.to_owned(),
            packet_bytes: PACKET_BYTES,
            turn_s: arguments.duration,
            in_flight: arguments.in_flight,
            realtime_priority: arguments.realtime_priority,
            compared_with: *arguments.io.last().context("--io names no kind of port")?,
            figures: Vec::new(),
            turns: Vec::new(),
        })
    }

    /// Adds one direction of a turn.
    pub(super) fn add(&mut self, round: u32, io: PortKind, seen: TurnFigures) {
        self.turns.push(PortTurn { round, io, seen });
    }

    /// Adds figures and header.
    pub(super) fn close(&mut self, header: ReportHeader) {
        let groups: Vec<_> = self.groups();
        self.figures = groups.iter().flat_map(PortGroup::figures).collect();
        self.header = header;
    }

    /// The turns of each direction and kind of port, in the order of their measurement.
    pub(crate) fn groups(&self) -> Vec<PortGroup<'_>> {
        let mut groups: Vec<PortGroup<'_>> = Vec::new();
        for direction in PortDirection::ALL {
            for turn in self.turns.iter().filter(|turn| turn.seen.direction == direction) {
                match groups.iter_mut().find(|of| of.io == turn.io && of.direction == direction) {
                    Some(group) => group.turns.push(turn),
                    None => groups.push(PortGroup {
                        report: self,
                        io: turn.io,
                        direction,
                        turns: vec![turn],
                    }),
                }
            }
        }
        groups
    }

    /// Names of the columns of [`PortGroup::row`].
    pub(crate) fn columns(&self) -> [String; 8] {
        [
            String::new(),
            "ports".to_owned(),
            "Mpps offered".to_owned(),
            "Mpps".to_owned(),
            "% of a core".to_owned(),
            "million packets per CPU-second".to_owned(),
            format!("to {}", self.compared_with),
            "% of the other core: sender, receiver".to_owned(),
        ]
    }
}

/// Conditions of the measurement, in one sentence.
impl fmt::Display for PortsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { turn_s, sessions, rules, packet_bytes, .. } = self;
        let rounds = self.turns.iter().map(|turn| turn.round).max().unwrap_or(0);
        write!(
            f,
            "Medians, lowest and highest of {rounds} turns of {turn_s} s; {sessions} sessions at random, {rules}; IP packets of {packet_bytes} octets, "
        )?;
        match self.in_flight {
            0 => f.write_str("a sender that never waits; ")?,
            count => write!(f, "at most {count} of them on their way; ")?,
        }
        match self.realtime_priority {
            0 => f.write_str("a worker without real-time priority."),
            priority => write!(f, "a worker with real-time priority {priority}."),
        }
    }
}

/// The turns of one kind of port in one direction.
#[derive(Debug, Clone)]
pub(crate) struct PortGroup<'r> {
    report: &'r PortsReport,
    pub io: PortKind,
    pub direction: PortDirection,
    turns: Vec<&'r PortTurn>,
}

impl PortGroup<'_> {
    /// The figures that reports compare.
    fn figures(&self) -> [Figure; 4] {
        let figure = |what: &str, unit, values: &[u64]| {
            Figure::of(&format!("{what}, {}, {}", self.io, self.direction), unit, values)
        };
        let to = format!("ratio to {}", self.report.compared_with);
        [
            figure("packets per CPU-second", "pps", &self.of(|seen| seen.mpkts_per_cpu_s * 1e6)),
            figure("rate", "pps", &self.of(|seen| seen.mpps * 1e6)),
            figure("share of a core", "permille", &self.of(|seen| seen.cpu_percent * 10.0)),
            figure(&to, "permille", &self.ratios()),
        ]
    }

    /// Packets per CPU-second. Unit: one packet.
    pub(crate) fn efficiency(&self) -> Figure {
        Figure::of("", "pps", &self.of(|seen| seen.mpkts_per_cpu_s * 1e6))
    }

    /// One number of each turn, to the nearest integer.
    fn of(&self, value: impl Fn(&TurnFigures) -> f64) -> Vec<u64> {
        self.turns.iter().map(|turn| nearest(value(&turn.seen))).collect()
    }

    /// Packets per CPU-second to those of the same round with the ports to compare with. Unit: thousandths.
    fn ratios(&self) -> Vec<u64> {
        let base = |turn: &PortTurn| {
            let same = |other: &&PortTurn| {
                other.round == turn.round
                    && other.io == self.report.compared_with
                    && other.seen.direction == self.direction
            };
            let base = self.report.turns.iter().find(same)?.seen.mpkts_per_cpu_s;
            (base > 0.0).then(|| nearest(turn.seen.mpkts_per_cpu_s / base * 1e3))
        };
        self.turns.iter().filter_map(|turn| base(turn)).collect()
    }

    /// A row of the table.
    pub(crate) fn row(&self) -> [String; 8] {
        let spread = |values: &[u64], divisor: f64, places: usize| {
            let Figure { median, min, max, .. } = Figure::of("", "", values);
            // Exact below 2^53.
            let [median, min, max] =
                [median, min, max].map(|value| format!("{:.places$}", value as f64 / divisor));
            format!("{median} ({min} to {max})")
        };
        let millions =
            |value: fn(&TurnFigures) -> f64| spread(&self.of(|seen| value(seen) * 1e6), 1e6, 3);
        let percent = |value: fn(&TurnFigures) -> f64| Figure::of("", "", &self.of(value)).median;
        [
            self.direction.to_string(),
            self.io.to_string(),
            millions(|seen| seen.offered_mpps),
            millions(|seen| seen.mpps),
            spread(&self.of(|seen| seen.cpu_percent), 1.0, 0),
            millions(|seen| seen.mpkts_per_cpu_s),
            spread(&self.ratios(), 1e3, 2),
            format!(
                "{}, {}",
                percent(|seen| seen.sender_percent),
                percent(|seen| seen.receiver_percent)
            ),
        ]
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

/// Prints the table.
pub(super) fn print(report: &PortsReport) {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::UTF8_FULL_CONDENSED);
    table.set_header(report.columns());
    for group in report.groups() {
        table.add_row(group.row());
    }
    let machine = &report.header.machine;
    println!("{table}\n{report} {}, Linux {}", machine.cpu, machine.kernel);
    for warning in &report.header.warnings {
        println!("warning: {warning}");
    }
}
