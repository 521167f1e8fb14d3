//! The report of a measurement: cases, figures and plots, and the conditions under which they were
//! measured.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::absence::CoreAbsence;
use super::agreement::CountAgreement;
use super::machine::{Machine, StealTime};
use super::plot::{Plot, merge};
use super::quantity::{Figure, Quantity};
use super::testbed::Testbed;
use adit_lab_engine::clock::scaled;
use adit_lab_engine::histogram::{CurvePoint, Latency, LatencySummary};
use adit_lab_engine::trial::{StreamOutcome, TrialOutcome};
use adit_lab_process::stop::Interrupted;
use adit_lab_smf::exchange::ProcedureReport;

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

/// The report of a measurement: figures of quantities in cases.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Report {
    /// `adit-lab` and its version.
    pub tool: String,
    /// The subcommand.
    pub measurement: String,
    /// False if the measurement ended early; the report has the results until then.
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
    /// Target, load and settings by name.
    pub conditions: BTreeMap<String, String>,
    /// Why this machine cannot run the measurement, which then has no result.
    pub left_out: Option<String>,
    /// PFCP procedures of many sessions by name: duration, latency, failures.
    pub procedures: BTreeMap<String, ProcedureReport>,
    /// The tester's own ceiling.
    pub ceiling: Option<TrialReport>,
    /// The cases.
    pub cases: Vec<MeasuredCase>,
    /// The figures to compare.
    pub figures: Vec<Figure>,
    /// Plots of what figures do not show, such as distributions.
    pub plots: Vec<Plot>,
    /// One sentence for each result that is wrong with the target.
    pub findings: Vec<String>,
    /// Comparison of the tester's and the target's counts.
    pub agreement: Option<CountAgreement>,
    /// The target's own counters, in its format.
    pub target_counters: Option<Value>,
    /// Steal time at the start.
    #[serde(skip)]
    pub steal: StealTime,
}

/// A case of a measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct MeasuredCase {
    /// Name of the case, as in figures.
    pub name: String,
    /// Position of the case on each axis: a number or text.
    pub axes: BTreeMap<String, Value>,
    /// Every trial in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trials: Vec<TrialReport>,
}

impl Report {
    /// Starts a report: records machine and time.
    #[must_use]
    pub(crate) fn start(measurement: &str) -> Self {
        let mut machine = Machine::read_without_eal();
        machine.sample_noise();
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |span| span.as_secs());
        Self {
            tool: format!("adit-lab {}", env!("CARGO_PKG_VERSION")),
            measurement: measurement.to_owned(),
            command: std::env::args().collect(),
            started_unix_s: unix,
            machine,
            steal: StealTime::now(),
            ..Self::default()
        }
    }

    /// Records DPDK, clock and core of the tester.
    pub(crate) fn record_tester(&mut self, bench: &Testbed) {
        self.machine.dpdk = bench.eal().version();
        self.machine.tsc_hz = bench.eal().tsc_hz();
        self.machine.uses_hugepages = bench.eal().has_hugepages();
        self.cores("tester", &[bench.core()]);
    }

    /// Adds a warning unless the report has it already.
    pub(crate) fn warn(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.warnings.contains(&text) {
            eprintln!("warning: {text}");
            self.warnings.push(text);
        }
    }

    /// Records the cores of a role.
    pub(crate) fn cores(&mut self, role: &str, cores: &[u16]) {
        self.machine.core_map.insert(role.to_owned(), cores.to_vec());
    }

    /// Records a condition.
    pub(crate) fn condition(&mut self, name: &str, value: impl ToString) {
        self.conditions.insert(name.to_owned(), value.to_string());
    }

    /// Records that this machine cannot run the measurement.
    pub(crate) fn leave_out(&mut self, why: String) {
        self.warn(format!("left out on this machine: {why}"));
        self.left_out = Some(why);
    }

    /// Returns the case of this name. Adds it if it is new.
    pub(crate) fn case(&mut self, name: &str) -> &mut MeasuredCase {
        let at = self.cases.iter().position(|case| case.name == name).unwrap_or_else(|| {
            self.cases.push(MeasuredCase { name: name.to_owned(), ..MeasuredCase::default() });
            self.cases.len() - 1
        });
        match self.cases.get_mut(at) {
            Some(case) => case,
            None => unreachable!("it was found or added"),
        }
    }

    /// Adds the values of runs of a quantity in a case. Adds nothing without values.
    pub(crate) fn add(
        &mut self,
        quantity: Quantity<'_>,
        case: &str,
        values: impl IntoIterator<Item = u64>,
    ) {
        let values: Vec<u64> = values.into_iter().collect();
        let same = |figure: &&mut Figure| figure.quantity == quantity.name && figure.case == case;
        match self.figures.iter_mut().find(same) {
            Some(figure) => figure.add(&values),
            None if values.is_empty() => {}
            None => {
                let mut figure = Figure::new(quantity, case);
                figure.add(&values);
                self.figures.push(figure);
            }
        }
    }

    /// Returns the values of the runs of a quantity in a case.
    #[must_use]
    pub(crate) fn values(&self, quantity: Quantity<'_>, case: &str) -> &[u64] {
        let same = |figure: &&Figure| figure.quantity == quantity.name && figure.case == case;
        self.figures.iter().find(same).map_or(&[], |figure| &figure.values)
    }

    /// Adds, run by run, the ratio of a quantity in `case` to it in `to`. Unit: thousandths.
    pub(crate) fn ratio(&mut self, name: &str, of: Quantity<'_>, [case, to]: [&str; 2]) {
        let pairs = self.values(of, case).iter().zip(self.values(of, to));
        let ratios: Vec<u64> =
            pairs.filter(|(_, to)| **to > 0).map(|(own, to)| scaled(*own, 1000, *to)).collect();
        let ratio = Quantity { name, unit: "permille", better: of.better, plotted: false };
        self.add(ratio, case, ratios);
    }

    /// Adds a plot; if the report has a plot with the same title, adds only the lines.
    pub(crate) fn plot(&mut self, plot: Plot) {
        merge(&mut self.plots, plot);
    }

    /// Ends the report. If the measurement ended early, notes why.
    pub(crate) fn finish(&mut self, result: &Result<()>) {
        match result {
            Err(error) if error.is::<Interrupted>() => self.warn("interrupted: incomplete"),
            Err(error) => self.warn(format!("the measurement ended early: {error:#}")),
            Ok(()) => {}
        }
        self.complete = result.is_ok();
        self.steal_ms = self.steal.since_ms(&StealTime::now());
        let stolen: u64 = self.steal_ms.values().sum();
        if stolen > 0 {
            self.warn(format!("the hypervisor stole {stolen} ms of CPU time during the run"));
        }
    }

    /// Writes the report to the file and, with `--json`, to standard output.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write(&self, output: &OutputArguments) -> Result<()> {
        let text = serde_json::to_string_pretty(self).context("write the report as JSON")?;
        if let Some(path) = &output.out {
            std::fs::write(path, format!("{text}\n"))
                .with_context(|| format!("write the report to {}", path.display()))?;
        }
        if output.json {
            println!("{text}");
        }
        Ok(())
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
    /// Packets that the tester could not send in time. They do not count as lost, but lower the
    /// rate.
    pub missed: u64,
    /// Packets that arrived, without duplicates.
    pub received: u64,
    /// Packets that did not arrive.
    pub lost: u64,
    /// Duplicates.
    pub duplicates: u64,
    /// Packets that arrived after a packet with a higher sequence number.
    pub reordered: u64,
    /// Largest distance of a reordered packet from the highest sequence number before it. Unit:
    /// packets.
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
    #[serde(skip)]
    pub curve: Vec<CurvePoint>,
    /// Results by second, in trials with a timeline.
    #[serde(skip)]
    pub timeline: Vec<SecondReport>,
}

/// One second of one stream.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct SecondReport {
    /// Packets received.
    pub received: u64,
    /// Latency of the received packets.
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
    /// Longest time in which the tester neither sent nor received. Unit: ns.
    pub gap_ns_max: u64,
    /// Frames other than probe packets of the trial, such as ARP.
    pub other_frames: u64,
    /// True if the tester did not keep the rate.
    pub tester_limited: bool,
    /// Absences of tester and target.
    #[serde(default)]
    pub absence: CoreAbsence,
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
    /// Makes the report of a trial; `names` are the names of the streams.
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
            absence: CoreAbsence {
                count: outcome.absences,
                tester_ns: outcome.absent_ns,
                ..CoreAbsence::default()
            },
            streams: outcome
                .streams
                .iter()
                .zip(names)
                .map(|(stream, name)| StreamReport::new(name, stream, hz))
                .collect(),
        }
    }

    /// Returns the 99th percentile of the latency of the slower stream. Unit: ns.
    #[must_use]
    pub(crate) fn p99_ns(&self) -> u64 {
        self.streams.iter().map(|stream| stream.latency.p99_ns).max().unwrap_or(0)
    }
}

/// The tester did not keep the rate if it missed more than one packet in this many.
const MISSED_SHARE_MAX: u64 = 1000;
/// The tester also fell short if it offered less by more than one packet in this many.
const SHORT_SHARE_MAX: u64 = 200;

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
}
