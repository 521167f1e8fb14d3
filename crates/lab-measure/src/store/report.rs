//! The report of `adit-lab store`.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::case::{StoreCase, StoreNetworkKind, StoreTransport};
use super::distribution::StoreLatency;
use super::load::LoadOutcome;
use crate::report::{Figure, ReportHeader};
use adit_lab_engine::histogram::CurvePoint;

/// The report of `adit-lab store`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StoreLatencyReport {
    /// Machine, time, warnings.
    #[serde(flatten)]
    pub header: ReportHeader,
    /// The network; `None` for a server elsewhere.
    pub link: Option<StoreNetworkKind>,
    /// The server of transports that are no pair.
    pub server: String,
    /// Threads have real-time priority.
    pub is_fifo: bool,
    /// The figures to compare. Units: ns, operations/s, permille, Mb/s.
    pub figures: Vec<Figure>,
    /// All runs in their order.
    pub runs: Vec<StoreRun>,
    /// Runs in one direction.
    pub one_way: Vec<OneWayReport>,
}

/// One run of one case.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StoreRun {
    /// How client and server reached each other.
    pub transport: StoreTransport,
    /// The load.
    pub case: StoreCase,
    /// Operations per second.
    pub per_second: u64,
    /// Latencies.
    pub latency: StoreLatency,
    /// Distribution function, of the last round.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curve: Vec<CurvePoint>,
    /// Start and latency of the slowest and fastest operations of each part of the last round. Unit: ns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timeline: Vec<[u64; 2]>,
}

/// One run in one direction.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct OneWayReport {
    /// The transport of both ends.
    pub transport: StoreTransport,
    /// Octets that arrived. Unit: Mb/s.
    pub mbps: u64,
}

impl StoreRun {
    /// The report of a run, with curve and timeline if it is the last.
    pub(super) fn of(
        transport: StoreTransport,
        case: &StoreCase,
        outcome: &LoadOutcome,
        is_last: bool,
    ) -> Self {
        let latency = outcome.times.summary();
        let operations = u128::from(latency.count);
        let per_second = operations * 1_000_000_000 / u128::from(outcome.elapsed_ns.max(1));
        let (curve, timeline) = if is_last {
            (outcome.times.curve(), outcome.times.timeline())
        } else {
            (Vec::new(), Vec::new())
        };
        let per_second = u64::try_from(per_second).unwrap_or(u64::MAX);
        Self { transport, case: *case, per_second, latency, curve, timeline }
    }
}

impl fmt::Display for StoreRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { transport, case, per_second, latency, .. } = self;
        let [p50, p99, p999, max] =
            [latency.p50_ns, latency.p99_ns, latency.p99_9_ns, latency.max_ns].map(us);
        write!(
            f,
            "{case}, {transport}: {per_second}/s, p50 {p50} µs, p99 {p99}, p99.9 {p999}, max {max}"
        )
    }
}

impl StoreLatencyReport {
    /// Adds figures and header.
    pub(super) fn close(&mut self, header: ReportHeader) {
        self.header = header;
        self.figures = figures(&self.runs);
        let mut rates: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for run in &self.one_way {
            rates.entry(format!("one way, {}", run.transport)).or_default().push(run.mbps);
        }
        let rates = rates.iter().map(|(name, values)| Figure::of(name, "Mb/s", values));
        self.figures.extend(rates);
    }
}

/// All runs of the same case over the same transport, in the order of the first of each.
pub(crate) fn groups(runs: &[StoreRun]) -> Vec<Vec<&StoreRun>> {
    let mut groups: Vec<Vec<&StoreRun>> = Vec::new();
    for run in runs {
        let same = |group: &&mut Vec<&StoreRun>| {
            group
                .first()
                .is_some_and(|first| (first.transport, first.case) == (run.transport, run.case))
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(run),
            None => groups.push(vec![run]),
        }
    }
    groups
}

/// Latencies, rates, and the ratios of the latencies to those of the blocking client in the same round.
fn figures(runs: &[StoreRun]) -> Vec<Figure> {
    let groups = groups(runs);
    let mut figures = Vec::new();
    for group in &groups {
        let Some(first) = group.first() else { continue };
        let case = format!("{}, {}", first.case, first.transport);
        let values = |of: &dyn Fn(&StoreRun) -> u64| -> Vec<u64> {
            group.iter().map(|run| of(run)).collect()
        };
        for (name, _) in first.latency.columns() {
            let all = values(&|run| run.latency.column(name));
            figures.push(Figure::of(&format!("{name} {case}"), "ns", &all));
        }
        let rates = values(&|run| run.per_second);
        figures.push(Figure::of(&format!("rate {case}"), "operations/s", &rates));
        let blocking = groups.iter().find(|other| {
            other.first().is_some_and(|other| {
                other.case == first.case && other.transport == StoreTransport::Blocking
            })
        });
        let Some(blocking) = blocking.filter(|_| first.transport != StoreTransport::Blocking)
        else {
            continue;
        };
        for name in ["p50", "p99", "p99.9"] {
            let pairs = group.iter().zip(blocking);
            let ratio = |(own, other): (&&StoreRun, &&StoreRun)| {
                own.latency.column(name) * 1000 / other.latency.column(name).max(1)
            };
            let all: Vec<u64> = pairs.map(ratio).collect();
            figures.push(Figure::of(&format!("{name} to blocking {case}"), "permille", &all));
        }
    }
    figures
}

/// The median of a value of all runs of a group.
pub(crate) fn median(group: &[&StoreRun], of: impl Fn(&StoreRun) -> u64) -> u64 {
    let values: Vec<u64> = group.iter().map(|run| of(run)).collect();
    Figure::of("", "", &values).median
}

/// Formats nanoseconds as microseconds with one decimal.
fn us(ns: u64) -> String {
    format!("{}.{}", ns / 1000, ns % 1000 / 100)
}

/// Prints tables of medians, and the ratios.
pub(super) fn print(report: &StoreLatencyReport) {
    let mut table = comfy_table::Table::new();
    let names = StoreLatency::default().columns().map(|(name, _)| name);
    let header = ["µs", "transport", "operations/s"].into_iter().chain(names);
    table.set_header(header);
    for group in groups(&report.runs) {
        let Some(first) = group.first() else { continue };
        let mut row = vec![first.case.to_string(), first.transport.to_string()];
        row.push(median(&group, |run| run.per_second).to_string());
        row.extend(names.map(|name| us(median(&group, |run| run.latency.column(name)))));
        table.add_row(row);
    }
    let rates = report.figures.iter().filter(|figure| figure.unit == "Mb/s");
    if report.runs.is_empty() {
        table = comfy_table::Table::new();
        table.set_header(["Mb/s", "median", "lowest", "highest"]);
    }
    for Figure { name, median, min, max, .. } in rates {
        table.add_row([name.clone(), median.to_string(), min.to_string(), max.to_string()]);
    }
    println!("{table}");
    for figure in report.figures.iter().filter(|figure| figure.unit == "permille") {
        let ratio = crate::progress::ratio;
        println!(
            "{}: {} ({} to {})",
            figure.name,
            ratio(figure.median),
            ratio(figure.min),
            ratio(figure.max)
        );
    }
    let link = match report.link {
        Some(StoreNetworkKind::Loopback) => "loopback",
        Some(StoreNetworkKind::Veth) => "veth",
        None => "elsewhere",
    };
    let priority = if report.is_fifo { "real-time" } else { "normal" };
    println!("server: {}; link: {link}; {priority} priority", report.server);
    for warning in &report.header.warnings {
        println!("warning: {warning}");
    }
    if !report.header.complete {
        println!("INCOMPLETE: these are the results until the measurement ended early");
    }
}
