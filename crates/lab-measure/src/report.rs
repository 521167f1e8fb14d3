//! The parts of a report and their JSON format.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::absence::Absence;
use super::machine::{Machine, StealTime};
use super::progress::mpps;
use super::testbed::Testbed;
use adit_lab_engine::histogram::{CurvePoint, Latency, LatencySummary};
use adit_lab_engine::trial::{StreamOutcome, TrialOutcome};

/// Options for the destination of a report.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct OutputArguments {
    /// Print the report as JSON; progress goes to standard error.
    #[arg(long)]
    pub json: bool,
    /// Also write the report to this file.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

impl OutputArguments {
    /// Writes a finished report to the file and, as JSON or by `print`, to standard output.
    ///
    /// # Errors
    /// The file or standard output cannot be written.
    pub(crate) fn deliver<T: Serialize>(&self, report: &T, print: impl FnOnce(&T)) -> Result<()> {
        write(report, self.json, self.out.as_deref())?;
        if !self.json {
            print(report);
        }
        Ok(())
    }
}

/// The first fields of every report.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReportHeader {
    /// `adit-lab` and its version.
    pub tool: String,
    /// The subcommand.
    pub measurement: String,
    /// False if the measurement ended early; the results are those until then.
    pub complete: bool,
    /// The command line.
    pub command: Vec<String>,
    /// Start. Unit: seconds since 1970-01-01.
    pub started_unix_s: u64,
    /// The machine.
    pub machine: Machine,
    /// Steal time during the run, by processor. Unit: ms.
    pub steal_ms: BTreeMap<String, u64>,
    /// Warnings to read before using a figure.
    pub warnings: Vec<String>,
}

/// A figure of a report, from one run or several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Figure {
    /// Name; the same in all reports of the same measurement.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// Median of the runs.
    pub median: u64,
    /// Lowest of the runs.
    pub min: u64,
    /// Highest of the runs.
    pub max: u64,
    /// Number of runs.
    pub runs: usize,
}

impl Figure {
    /// The figure of these runs.
    #[must_use]
    pub(crate) fn of(name: &str, unit: &str, values: &[u64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        let at = |index: usize| sorted.get(index).copied().unwrap_or(0);
        Self {
            name: name.to_owned(),
            unit: unit.to_owned(),
            median: at(sorted.len() / 2),
            min: at(0),
            max: at(sorted.len().saturating_sub(1)),
            runs: sorted.len(),
        }
    }
}

/// Collects the header of a report during a measurement.
#[derive(Debug)]
pub(crate) struct Recorder {
    header: ReportHeader,
    steal: StealTime,
}

impl Recorder {
    /// Starts a report: records machine and time.
    #[must_use]
    pub(crate) fn start(measurement: &str, bench: &Testbed) -> Self {
        let mut machine = Machine::read();
        machine.dpdk = bench.eal().version();
        machine.tsc_hz = bench.eal().tsc_hz();
        machine.uses_hugepages = bench.eal().has_hugepages();
        machine.core_map.insert("tester".to_owned(), vec![bench.core()]);
        Self::of(measurement, machine)
    }

    /// The same for a measurement without ports of the tester.
    #[must_use]
    pub(crate) fn without_ports(measurement: &str) -> Self {
        Self::of(measurement, Machine::read_without_eal())
    }

    fn of(measurement: &str, mut machine: Machine) -> Self {
        machine.sample_noise();
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |span| span.as_secs());
        let header = ReportHeader {
            tool: format!("adit-lab {}", env!("CARGO_PKG_VERSION")),
            measurement: measurement.to_owned(),
            complete: false,
            command: std::env::args().collect(),
            started_unix_s: unix,
            machine,
            ..ReportHeader::default()
        };
        Self { header, steal: StealTime::now() }
    }

    /// Adds a warning unless the report has it already.
    pub(crate) fn warn(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.header.warnings.contains(&text) {
            eprintln!("warning: {text}");
            self.header.warnings.push(text);
        }
    }

    /// Records the cores of a role.
    pub(crate) fn cores(&mut self, role: &str, cores: &[u16]) {
        self.header.machine.core_map.insert(role.to_owned(), cores.to_vec());
    }

    /// Processors online.
    #[must_use]
    pub(crate) fn cpus(&self) -> u32 {
        self.header.machine.cpus
    }

    /// The header of the finished report.
    #[must_use]
    pub(crate) fn finish(mut self, complete: bool) -> ReportHeader {
        self.header.complete = complete;
        self.header.steal_ms = self.steal.since_ms(&StealTime::now());
        let stolen: u64 = self.header.steal_ms.values().sum();
        if stolen > 0 {
            self.warn(format!("the hypervisor stole {stolen} ms of CPU time during the run"));
        }
        self.header
    }
}

/// One stream of one trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct StreamReport {
    /// Name: `uplink`, `downlink`, or the ports.
    pub name: String,
    /// Packets sent or refused by the target's queue: those that should arrive.
    pub offered: u64,
    /// Packets sent.
    pub sent: u64,
    /// Packets that the target's queue did not accept in time; they count as lost.
    pub refused: u64,
    /// Packets that the tester could not send in time. They do not count as lost, but lower the rate.
    pub missed: u64,
    /// Packets that arrived, without duplicates.
    pub received: u64,
    /// Packets that did not arrive.
    pub lost: u64,
    /// Duplicates.
    pub duplicates: u64,
    /// Packets that arrived after one with a higher sequence number.
    pub reordered: u64,
    /// Largest distance of a reordered packet from the highest sequence number before it. Unit: packets.
    pub reorder_extent_max: u64,
    /// Packets more than a million sequence numbers behind; they count as lost.
    pub too_late: u64,
    /// Packets on the wrong port or in the wrong tunnel.
    pub misdelivered: u64,
    /// Packets of another trial or with a sequence number that was never sent.
    pub foreign: u64,
    /// Octets of the received frames.
    pub bytes_received: u64,
    /// Latency from the intended send time.
    pub latency: LatencySummary,
    /// Delay of bursts behind their schedule, which is the tester's own error.
    pub lateness: LatencySummary,
    /// Percentile curve of the latency, in trials with a timeline.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curve: Vec<CurvePoint>,
    /// Results by second, in trials with a timeline.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timeline: Vec<SecondReport>,
}

/// One second of one stream.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SecondReport {
    /// Packets received.
    pub received: u64,
    /// Their latency.
    pub latency: LatencySummary,
}

/// One trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct TrialReport {
    /// Requested rate of all streams together; `None` for the maximum. Unit: packets per second.
    pub rate_pps: Option<u64>,
    /// Duration of sending. Unit: ns.
    pub duration_ns: u64,
    /// Offered rate of all streams together. Unit: packets per second.
    pub offered_pps: u64,
    /// Received rate of all streams together. Unit: packets per second.
    pub received_pps: u64,
    /// Share of the offered packets that did not arrive. Unit: parts per billion.
    pub loss_ppb: u64,
    /// Longest absence of the tester. Unit: ns.
    pub gap_ns_max: u64,
    /// Frames other than probe packets of the trial, such as ARP.
    pub other_frames: u64,
    /// True if the tester did not keep the rate.
    pub tester_limited: bool,
    /// Absences of tester and target.
    #[serde(default)]
    pub absence: Absence,
    /// The streams.
    pub streams: Vec<StreamReport>,
}

impl StreamReport {
    fn new(name: &str, outcome: &StreamOutcome, hz: u64) -> Self {
        let (sending, arrivals) = (&outcome.sending, &outcome.arrivals);
        let second = |latency: &Latency| {
            let latency = latency.summary(hz);
            SecondReport { received: latency.count, latency }
        };
        let timeline: Vec<SecondReport> = outcome.seconds.iter().map(second).collect();
        Self {
            name: name.to_owned(),
            offered: outcome.offered(),
            sent: sending.sent,
            refused: sending.refused,
            missed: sending.missed,
            received: arrivals.received,
            lost: outcome.lost(),
            duplicates: arrivals.duplicates,
            reordered: arrivals.reordered,
            reorder_extent_max: arrivals.reorder_extent_max,
            too_late: arrivals.too_late,
            misdelivered: arrivals.misdelivered,
            foreign: arrivals.foreign,
            bytes_received: arrivals.bytes,
            latency: outcome.latency.summary(hz),
            lateness: outcome.lateness.summary(hz),
            curve: if timeline.is_empty() { Vec::new() } else { outcome.latency.curve(hz) },
            timeline,
        }
    }
}

impl TrialReport {
    /// The report of a trial; `names` are those of its streams.
    #[must_use]
    pub(crate) fn new(
        rate_pps: Option<u64>,
        names: &[&str],
        outcome: &TrialOutcome,
        hz: u64,
    ) -> Self {
        let offered = outcome.sum(StreamOutcome::offered);
        let missed = outcome.sum(|stream| stream.sending.missed);
        let names = names.iter().copied().chain(std::iter::repeat("stream"));
        let offered_pps = outcome.pps(offered);
        let short = rate_pps.is_some_and(|rate| rate - rate / SHORT_SHARE_MAX > offered_pps);
        Self {
            rate_pps,
            duration_ns: outcome.sending_ns,
            offered_pps,
            received_pps: outcome.pps(outcome.sum(|stream| stream.arrivals.received)),
            loss_ppb: outcome.loss_ppb(),
            gap_ns_max: outcome.gap_ns_max,
            other_frames: outcome.other_frames,
            tester_limited: short || missed > offered / MISSED_SHARE_MAX,
            absence: Absence {
                count: outcome.absences,
                tester_ns: outcome.absent_ns,
                ..Absence::default()
            },
            streams: outcome
                .streams
                .iter()
                .zip(names)
                .map(|(stream, name)| StreamReport::new(name, stream, hz))
                .collect(),
        }
    }

    /// 99th percentile of the latency, of the slower stream. Unit: ns.
    #[must_use]
    pub(crate) fn p99_ns(&self) -> u64 {
        self.streams.iter().map(|stream| stream.latency.p99_ns).max().unwrap_or(0)
    }
}

/// The tester did not keep the rate if it missed more than one packet in this many…
const MISSED_SHARE_MAX: u64 = 1000;
/// … or if the offered rate was lower than requested by more than one packet in this many.
const SHORT_SHARE_MAX: u64 = 200;

/// Writes a report to `out` and, with `json`, to standard output.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write<T: Serialize>(report: &T, json: bool, out: Option<&Path>) -> Result<()> {
    let text = serde_json::to_string_pretty(report).context("write the report as JSON")?;
    if let Some(path) = out {
        std::fs::write(path, format!("{text}\n"))
            .with_context(|| format!("write the report to {}", path.display()))?;
    }
    if json {
        println!("{text}");
    }
    Ok(())
}

/// Prints a table of rates by case with median, range and the number of `runs`.
pub(crate) fn print_rates(of: &str, runs: &str, figures: &[Figure]) {
    let mut table = comfy_table::Table::new();
    table.set_header([of, "median", "lowest", "highest", runs]);
    for figure in figures {
        table.add_row([
            figure.name.clone(),
            mpps(figure.median),
            mpps(figure.min),
            mpps(figure.max),
            figure.runs.to_string(),
        ]);
    }
    println!("{table}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use adit_lab_engine::stream::Sending;
    use adit_lab_engine::tally::Arrivals;

    fn outcome(sent: u64, refused: u64, missed: u64, received: u64) -> TrialOutcome {
        let stream = StreamOutcome {
            sending: Sending { sent, refused, missed, bytes: 0 },
            arrivals: Arrivals { received, ..Arrivals::default() },
            latency: Latency::new(),
            seconds: Vec::new(),
            lateness: Latency::new(),
            windows: None,
        };
        TrialOutcome {
            streams: vec![stream],
            sending_ns: 2_000_000_000,
            gap_ns_max: 0,
            window_gaps_ns: Vec::new(),
            absences: 0,
            absent_ns: 0,
            other_frames: 0,
            complete: true,
        }
    }

    #[test]
    fn trial_report_counts_refused_as_lost_and_missed_as_the_testers() {
        let trial = TrialReport::new(Some(1000), &["uplink"], &outcome(1900, 100, 0, 1900), 1);
        assert_eq!((trial.offered_pps, trial.received_pps), (1000, 950));
        assert_eq!((trial.loss_ppb, trial.tester_limited), (50_000_000, false));
        let trial = TrialReport::new(Some(1000), &["uplink"], &outcome(1900, 0, 100, 1900), 1);
        assert_eq!((trial.loss_ppb, trial.tester_limited), (0, true));
        // Two seconds; the last packets left late.
        let trial = TrialReport::new(Some(1000), &["uplink"], &outcome(1980, 0, 0, 1980), 1);
        assert!(trial.tester_limited);
    }

    #[test]
    fn trial_report_reads_back_from_its_json_with_units_in_its_keys() {
        let trial = TrialReport::new(None, &["uplink"], &outcome(10, 0, 0, 9), 1);
        let json = serde_json::to_value(&trial).unwrap();
        for key in ["rate_pps", "duration_ns", "offered_pps", "loss_ppb", "streams"] {
            assert!(json.get(key).is_some(), "{key}");
        }
        for key in ["lost", "duplicates", "reordered", "latency", "lateness"] {
            assert!(json["streams"][0].get(key).is_some(), "{key}");
        }
        assert!(json["streams"][0]["latency"].get("p99_99_ns").is_some());
        assert_eq!(serde_json::from_value::<TrialReport>(json).unwrap(), trial);
    }

    #[test]
    fn figure_has_median_and_spread_of_its_runs() {
        let figure = Figure::of("x", "pps", &[5, 1, 9]);
        assert_eq!((figure.median, figure.min, figure.max, figure.runs), (5, 1, 9, 3));
    }
}
