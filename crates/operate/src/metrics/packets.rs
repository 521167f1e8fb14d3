//! Figures of the packet path.

use adit_tables::{InterfaceSnapshot, Snapshot};

use crate::metrics::as_gauge;
use crate::metrics::family::{MetricFamily, MetricLabels, MetricSample, MetricUnit, MetricValues};

/// Counters of the table in `adit_tables` whose values rise and fall.
const GAUGES: [&str; 5] =
    ["buffered_pkts", "shaped_pkts", "buffered_by_far_pkts", "reassembly_pkts", "tx_waiting_pkts"];

/// Counters that have another name in the text than in the table: (table, text).
const RENAMED_COUNTERS: [(&str, &str); 1] = [("express_pkts", "fast_path_pkts")];

/// The counts of the packet path.
#[derive(Debug, Clone)]
pub struct PacketFigures {
    /// Counts of all workers together, and of the packets that an offload forwarded.
    pub all: Snapshot,
    /// The figures of each thread of the packet path.
    pub workers: Vec<WorkerFigures>,
    /// Names of the interfaces, by `InterfaceId`.
    pub interfaces: Vec<String>,
    /// Most packets in a burst.
    pub burst_pkts: usize,
}

/// A thread of the packet path.
#[derive(Debug, Clone)]
pub struct WorkerFigures {
    /// Its role.
    pub role: &'static str,
    /// Its CPU core.
    pub core: u16,
    /// Its counts.
    pub counted: Snapshot,
    /// Share of the last second that the thread spent in steps with packets. Unit: thousandths.
    pub busy_permille: u16,
    /// Share of the thread's steps that had a full burst. Unit: percent.
    pub saturation_percent: u8,
    /// Largest fill of a ring of packets to the thread in the last second. Unit: thousandths of the
    /// ring.
    pub ring_permille: u16,
    /// True if the thread takes no steps although it should.
    pub is_stopped: bool,
    /// Packets that crossed NUMA nodes on their way to or from the thread.
    pub cross_node_pkts: u64,
}

/// Makes the metric families of the packet path.
#[must_use]
pub fn packet_families(figures: &PacketFigures) -> Vec<MetricFamily> {
    let mut families: Vec<_> = figures
        .all
        .scalars()
        .into_iter()
        .map(|(name, value, help)| scalar_family(name, value, help))
        .collect();
    families.extend(exit_families(&figures.all));
    families.extend(interfaces(figures));
    families.extend(worker_counters(&figures.workers));
    families.extend(worker_gauges(figures));
    families
}

/// Makes the family of a counter of the table.
fn scalar_family(name: &'static str, value: u64, help: &'static str) -> MetricFamily {
    let renamed = RENAMED_COUNTERS.iter().find(|(known, _)| *known == name);
    let shown = renamed.map_or(name, |(_, other)| *other);
    let values = match GAUGES.contains(&name) {
        true => MetricValues::gauge(as_gauge(value)),
        false => MetricValues::counter(value),
    };
    if let Some(of) = shown.strip_suffix("_bytes") {
        let family = MetricFamily::new(format!("adit_datapath_{of}"), help, values);
        return family.in_unit(MetricUnit::Bytes);
    }
    let name = match shown.strip_suffix("_pkts") {
        Some(of) => format!("adit_datapath_{of}_packets"),
        None => format!("adit_datapath_{shown}"),
    };
    MetricFamily::new(name, help, values)
}

/// Makes the families of packets that left other than by transmission, and of the delay of packets
/// that waited for their rates.
fn exit_families(all: &Snapshot) -> [MetricFamily; 4] {
    let by_reason =
        |name: &str, n| MetricSample { labels: vec![("reason", name.to_owned())], value: n };
    let drops = all.drops().map(|(reason, n)| by_reason(reason.name(), n)).collect();
    let punts = all.punts().map(|(reason, n)| by_reason(reason.name(), n)).collect();
    let slots = all.shaping_delays.iter().enumerate();
    let delays = slots.map(|(power, n)| {
        let bound = match power + 1 < all.shaping_delays.len() {
            true => as_gauge(1 << power) / 1e6,
            false => f64::INFINITY,
        };
        let bound = if bound.is_finite() { bound.to_string() } else { "+Inf".to_owned() };
        MetricSample { labels: vec![("below_seconds", bound)], value: *n }
    });
    [
        MetricFamily::new(
            "adit_datapath_dropped_packets",
            "Packets dropped, by reason; adit explain REASON says what it means.",
            MetricValues::Counter(drops),
        ),
        MetricFamily::new(
            "adit_datapath_punted_packets",
            "Packets that the slow path consumed, by reason.",
            MetricValues::Counter(punts),
        ),
        MetricFamily::new(
            "adit_qos_delayed_packets",
            "Packets that waited for their rates and left, by how long; each is in one class.",
            MetricValues::Counter(delays.collect()),
        ),
        MetricFamily::new(
            "adit_datapath_identity_holds",
            "1 if each packet received has exactly one outcome.",
            MetricValues::gauge(as_gauge(all.identity_holds().into())),
        ),
    ]
}

fn interfaces(figures: &PacketFigures) -> [MetricFamily; 4] {
    let of = |value: fn(&InterfaceSnapshot) -> u64| {
        let interfaces = figures.interfaces.iter().zip(&figures.all.interfaces);
        let samples = interfaces.map(|(name, counted)| MetricSample {
            labels: vec![("interface", name.clone())],
            value: value(counted),
        });
        MetricValues::Counter(samples.collect())
    };
    [
        MetricFamily::new(
            "adit_interface_receive_packets",
            "Frames received on a logical interface.",
            of(|counted| counted.rx_pkts),
        ),
        MetricFamily::new(
            "adit_interface_receive",
            "Octets of them from the Ethernet header on.",
            of(|counted| counted.rx_bytes),
        )
        .in_unit(MetricUnit::Bytes),
        MetricFamily::new(
            "adit_interface_transmit_packets",
            "Frames handed to the port for transmission.",
            of(|counted| counted.tx_pkts),
        ),
        MetricFamily::new(
            "adit_interface_transmit",
            "Octets of them from the Ethernet header on.",
            of(|counted| counted.tx_bytes),
        )
        .in_unit(MetricUnit::Bytes),
    ]
}

/// The labels of a thread.
fn labels(thread: usize, worker: &WorkerFigures) -> MetricLabels {
    vec![("worker", thread.to_string()), ("role", worker.role.to_owned())]
}

fn worker_counters(workers: &[WorkerFigures]) -> [MetricFamily; 7] {
    let of = |value: fn(&WorkerFigures) -> u64| {
        let samples = workers.iter().enumerate().map(|(thread, worker)| MetricSample {
            labels: labels(thread, worker),
            value: value(worker),
        });
        MetricValues::Counter(samples.collect())
    };
    [
        MetricFamily::new(
            "adit_worker_received_packets",
            "Packets that the thread received from ports.",
            of(|worker| worker.counted.received_pkts),
        ),
        MetricFamily::new(
            "adit_worker_bursts",
            "Bursts that the thread received with at least one packet; received packets per burst is their fill.",
            of(|worker| worker.counted.bursts),
        ),
        MetricFamily::new(
            "adit_worker_transmitted_packets",
            "Packets that the thread transmitted, in both directions.",
            of(|worker| worker.counted.transmitted_pkts()),
        ),
        MetricFamily::new(
            "adit_worker_dropped_packets",
            "Packets that the thread dropped for any reason.",
            of(|worker| worker.counted.dropped_pkts()),
        ),
        MetricFamily::new(
            "adit_worker_handed_off_packets",
            "Packets that the thread handed to the worker that owns their session.",
            of(|worker| worker.counted.handed_off_pkts),
        ),
        MetricFamily::new(
            "adit_worker_taken_over_packets",
            "Packets that the thread took over from others, which had received them.",
            of(|worker| worker.counted.taken_over_pkts),
        ),
        MetricFamily::new(
            "adit_worker_cross_node_packets",
            "Packets that the thread handed to a thread of another NUMA node, got from an event scheduler that receives on \
             another node, or sent through a port of another node.",
            of(|worker| worker.cross_node_pkts),
        ),
    ]
}

fn worker_gauges(figures: &PacketFigures) -> [MetricFamily; 6] {
    let of = |value: fn(&WorkerFigures) -> f64| {
        let samples = figures.workers.iter().enumerate().map(|(thread, worker)| MetricSample {
            labels: labels(thread, worker),
            value: value(worker),
        });
        MetricValues::Gauge(samples.collect())
    };
    let ratio = |family: MetricFamily| family.in_unit(MetricUnit::Ratio);
    [
        ratio(MetricFamily::new(
            "adit_worker_busy",
            "Share of the last second in steps with packets.",
            of(|worker| f64::from(worker.busy_permille) / 1000.0),
        )),
        ratio(MetricFamily::new(
            "adit_worker_full_bursts",
            "Share of the latest steps with a full burst, which shows that packets wait.",
            of(|worker| f64::from(worker.saturation_percent) / 100.0),
        )),
        ratio(MetricFamily::new(
            "adit_worker_ring_fill",
            "The largest share of a ring of packets to the thread that waited in the last second.",
            of(|worker| f64::from(worker.ring_permille) / 1000.0),
        )),
        MetricFamily::new(
            "adit_worker_stopped",
            "1 if the thread takes no step although it should.",
            of(|worker| f64::from(u8::from(worker.is_stopped))),
        ),
        MetricFamily::new(
            "adit_worker_core",
            "The CPU core of the thread.",
            of(|worker| f64::from(worker.core)),
        ),
        MetricFamily::new(
            "adit_datapath_burst_max_packets",
            "Packets that a thread receives at once at most: datapath.burst_pkts.",
            MetricValues::gauge(as_gauge(u64::try_from(figures.burst_pkts).unwrap_or(u64::MAX))),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{MetricsTextFormat, write_families};

    #[test]
    fn every_gauge_and_renamed_counter_is_in_the_table() {
        let rows = Snapshot::default().scalars();
        let is_known = |name: &str| rows.iter().any(|row| row.0 == name);
        assert!(GAUGES.iter().all(|name| is_known(name)));
        assert!(RENAMED_COUNTERS.iter().all(|(name, _)| is_known(name)));
    }

    #[test]
    fn counters_of_the_table_have_the_names_of_their_units() {
        let all = Snapshot {
            received_bytes: 7,
            buffered_pkts: 3,
            express_pkts: 5,
            ..Snapshot::default()
        };
        let worker = WorkerFigures {
            role: "worker",
            core: 4,
            counted: all.clone(),
            busy_permille: 250,
            saturation_percent: 10,
            ring_permille: 0,
            is_stopped: false,
            cross_node_pkts: 9,
        };
        let figures = PacketFigures {
            all,
            workers: vec![worker],
            interfaces: vec!["n3".to_owned()],
            burst_pkts: 32,
        };
        let text = write_families(MetricsTextFormat::OpenMetrics, packet_families(&figures));
        for line in [
            "adit_datapath_received_bytes_total 7",
            "adit_datapath_buffered_packets 3.0",
            "adit_datapath_fast_path_packets_total 5",
            "adit_datapath_dropped_packets_total{reason=\"teid_unknown\"} 0",
            "adit_qos_delayed_packets_total{below_seconds=\"0.000001\"} 0",
            "adit_qos_delayed_packets_total{below_seconds=\"+Inf\"} 0",
            "adit_worker_busy_ratio{worker=\"0\",role=\"worker\"} 0.25",
            "adit_worker_cross_node_packets_total{worker=\"0\",role=\"worker\"} 9",
            "adit_interface_receive_bytes_total{interface=\"n3\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
    }
}
