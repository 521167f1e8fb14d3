//! `adit show metrics`: everything that is counted, as text for Prometheus.
//!
//! The control thread gathers three pages, each cheaper than a page of sessions; the client's
//! thread writes the text. Each family of metrics is on one page only.

mod features;
mod system;

use adit_n4::{Association, DurationHistogram, N4Counters, ServiceCounts};
use adit_operate::metrics::{
    AssociationFigures, MetricFamily, MetricSample, MetricUnit, MetricValues, MetricsTextFormat,
    PacketFigures, SignalingFigures, WorkerFigures, as_gauge, duration_family, packet_families,
    signaling_families, write_families,
};
use adit_tables::neighbor::NeighborCounters;
use adit_tables::{PublisherCounters, Snapshot};
use adit_types::Nanos;
use serde_json::{Map, Value};

use super::power::PowerReading;
use super::{ControlView, index};
use crate::admin::{AnswerPage, PageCursor, PagePosition};
use crate::cli::MetricsFormat;

/// The list whose rows are the parts of the text: clients join them.
const TEXT: &str = "metrics";

/// Makes the families of a page, on the client's thread.
type WriteFamilies = Box<dyn FnOnce() -> Vec<MetricFamily> + Send>;

/// Returns the next part of the text.
pub(super) fn page(
    control: &ControlView<'_>,
    format: MetricsFormat,
    cursor: PageCursor,
) -> AnswerPage {
    let page = index(cursor.from);
    let families: WriteFamilies = match page {
        0 => {
            let figures = packets(control);
            let threads = control.parts.threads.clone();
            Box::new(move || {
                let mut families = packet_families(&figures);
                families.extend(PowerReading::of_this_machine(threads).families());
                families
            })
        }
        1 => {
            let figures = signaling(control);
            let others = ControlFigures::of(control);
            let neighbors = control.neighbors.counters();
            let rates = features::RateFigures::of(control);
            Box::new(move || {
                let mut families = signaling_families(&figures);
                families.extend(others.families());
                families.extend(neighbor_families(neighbors));
                families.extend(rates.families());
                families
            })
        }
        _ => {
            let mut families = system::of_ports(control);
            families.extend(system::of_buffers(control));
            families.extend(features::of_pools(control));
            families.extend(features::of_store(control));
            families.extend(features::of_nrf(control));
            families.extend(features::of_routes(control));
            families.extend(features::of_offload(control));
            families.extend(features::of_twins(control));
            Box::new(move || {
                families.extend(system::of_process());
                families
            })
        }
    };
    let is_last = page > 1;
    let format = text_format(format);
    let rows = move || {
        let mut text = write_families(format, families());
        text.push_str(if is_last { format.end() } else { "" });
        vec![Value::String(text)]
    };
    let next = (!is_last).then_some(PageCursor { list: 0, from: PagePosition::Index(page + 1) });
    AnswerPage { list: Some(TEXT), rows: Box::new(rows), members: Box::new(Map::new), next }
}

/// Converts the format that the command line names.
pub(crate) const fn text_format(format: MetricsFormat) -> MetricsTextFormat {
    match format {
        MetricsFormat::Openmetrics => MetricsTextFormat::OpenMetrics,
        MetricsFormat::Prometheus => MetricsTextFormat::Prometheus,
    }
}

/// Returns all families that the text can have, with placeholder values, to list their names and
/// meanings.
pub(crate) fn all_families() -> Vec<MetricFamily> {
    let packets = PacketFigures {
        all: Snapshot::default(),
        workers: Vec::new(),
        interfaces: Vec::new(),
        burst_pkts: 0,
    };
    let signaling = SignalingFigures {
        counters: N4Counters::default(),
        associations: Vec::new(),
        sessions: 0,
        sessions_max: 0,
        services: ServiceCounts::default(),
        waiting_answers: 0,
    };
    let parts = [
        packet_families(&packets),
        PowerReading::nothing().families(),
        signaling_families(&signaling),
        ControlFigures::default().families(),
        neighbor_families(NeighborCounters::default()),
        features::without_figures(),
        system::without_figures(),
    ];
    parts.into_iter().flatten().collect()
}

fn packets(control: &ControlView<'_>) -> PacketFigures {
    let parts = control.parts;
    let threads = parts.threads.iter().zip(&parts.loads).zip(parts.publisher.worker_counters());
    let workers = threads.enumerate().map(|(thread, ((settings, load), counters))| {
        let counted = Snapshot::sum([&**counters]);
        WorkerFigures {
            role: settings.role.name(),
            core: settings.core,
            cross_node_pkts: parts.nodes.cross_node_pkts(thread, &counted),
            counted,
            busy_permille: load.busy_permille(),
            saturation_percent: load.saturation_percent(),
            ring_permille: load.ring_permille(),
            is_stopped: control.standstill.is_stopped(thread),
        }
    });
    PacketFigures {
        all: parts.publisher.snapshot(),
        workers: workers.collect(),
        interfaces: parts.names.clone(),
        burst_pkts: parts.burst_pkts,
    }
}

fn signaling(control: &ControlView<'_>) -> SignalingFigures {
    let node = &control.parts.node;
    let association = |association: &Association| AssociationFigures {
        node_id: association.node_id.to_string(),
        sessions: node.store().owned_count(association.owner),
        is_up: !association.is_silent(),
    };
    SignalingFigures {
        counters: node.counters().clone(),
        associations: node.associations().map(association).collect(),
        sessions: node.store().len(),
        sessions_max: node.store().sessions_max(),
        services: node.services().clone(),
        waiting_answers: node.waiting_answer_count(),
    }
}

/// Converts a number to `u64`, the type of metric values. Saturates.
pub(super) fn to_metric_value(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// Makes a gauge without labels.
pub(super) fn gauge(name: &'static str, help: &'static str, value: u64) -> MetricFamily {
    MetricFamily::new(name, help, MetricValues::gauge(as_gauge(value)))
}

/// Makes a counter without labels.
pub(super) fn counter(name: &'static str, help: &'static str, value: u64) -> MetricFamily {
    MetricFamily::new(name, help, MetricValues::counter(value))
}

/// Figures of the control thread, its socket and the tables.
#[derive(Debug, Default)]
struct ControlFigures {
    busy: Nanos,
    commands_lost: u64,
    datagrams_unsent: u64,
    datagrams_dropped: u64,
    receive_buffer_bytes: u64,
    tables: PublisherCounters,
    unobserved: u64,
    standing_still: u64,
    publication: DurationHistogram,
}

impl ControlFigures {
    fn of(control: &ControlView<'_>) -> Self {
        let parts = control.parts;
        Self {
            busy: control.busy,
            commands_lost: control.commands_lost,
            datagrams_unsent: control.datagrams_unsent,
            datagrams_dropped: parts.socket.dropped(),
            receive_buffer_bytes: to_metric_value(parts.socket.receive_buffer_bytes()),
            tables: parts.publisher.counters(),
            unobserved: to_metric_value(parts.publisher.unobserved()),
            standing_still: to_metric_value(control.standstill.stopped_count()),
            publication: control.publication.clone(),
        }
    }

    fn families(self) -> Vec<MetricFamily> {
        let tables = self.tables;
        vec![
            busy_family(self.busy),
            counter(
                "adit_control_commands_lost",
                "Commands to workers lost because the ring was full.",
                self.commands_lost,
            ),
            counter(
                "adit_n4_datagrams_unsent",
                "PFCP datagrams that the socket refused; a retransmission repairs the loss.",
                self.datagrams_unsent,
            ),
            counter(
                "adit_n4_datagrams_dropped_by_kernel",
                "PFCP datagrams that found the receive buffer full; raise n4.receive_buffer_kib.",
                self.datagrams_dropped,
            ),
            gauge(
                "adit_n4_receive_buffer",
                "Receive buffer of the N4 socket.",
                self.receive_buffer_bytes,
            )
            .in_unit(MetricUnit::Bytes),
            counter("adit_publication_changes", "Changes of rules applied.", tables.deltas_applied),
            gauge(
                "adit_publication_unobserved_changes",
                "Changes of rules that some worker may not run yet.",
                self.unobserved,
            ),
            counter(
                "adit_publication_keys_refused",
                "TEIDs and UE addresses that found no room: packets with them find no session.",
                tables.keys_refused,
            ),
            counter(
                "adit_publication_sessions_out_of_range",
                "Changes for a session beyond sessions.sessions_max.",
                tables.sessions_out_of_range,
            ),
            counter(
                "adit_publication_peers_without_route",
                "FARs whose GTP-U peer no route leads to; see the routes in the configuration.",
                tables.peers_without_route,
            ),
            counter(
                "adit_publication_next_hops_refused",
                "Next hops that found no room.",
                tables.next_hops_refused,
            ),
            counter(
                "adit_publication_peers_refused",
                "GTP-U peers that found no room.",
                tables.peers_refused,
            ),
            gauge(
                "adit_workers_standing_still",
                "Threads of the packet path that take no step although they should.",
                self.standing_still,
            ),
            duration_family(
                "adit_publication_duration",
                "Time from a change of rules in the tables until all workers run it.",
                self.publication,
            ),
        ]
    }
}

fn busy_family(busy: Nanos) -> MetricFamily {
    let busy = MetricSample { labels: Vec::new(), value: busy.to_duration().as_secs_f64() };
    MetricFamily::new(
        "adit_control_busy",
        "Time that the control thread spent in its turns, without sleeps; its rate is the share of a core.",
        MetricValues::FloatCounter(vec![busy]),
    )
    .in_unit(MetricUnit::Seconds)
}

fn neighbor_families(counted: NeighborCounters) -> Vec<MetricFamily> {
    vec![
        counter(
            "adit_neighbor_solicits",
            "ARP requests and neighbor solicitations.",
            counted.solicits,
        ),
        counter("adit_neighbor_failures", "Neighbors that did not answer.", counted.failures),
        counter(
            "adit_neighbor_wanted_refused",
            "Neighbors that packets needed and that found no room.",
            counted.wanted_refused,
        ),
        counter(
            "adit_own_addresses_used",
            "Packets by which other stations used addresses of this adit.",
            counted.own_addresses_used,
        ),
        counter(
            "adit_neighbor_seen_refused",
            "Claims of neighbors that were not believed.",
            counted.seen_refused,
        ),
        counter(
            "adit_neighbor_mac_changes",
            "Neighbors whose link-layer address changed.",
            counted.mac_changes,
        ),
        counter(
            "adit_neighbor_claims_refuted",
            "Claims of our own addresses by other stations, which were answered.",
            counted.claims_refuted,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_of_the_command_line_are_those_of_the_text() {
        assert_eq!(text_format(MetricsFormat::default()), MetricsTextFormat::OpenMetrics);
        assert_eq!(text_format(MetricsFormat::Prometheus).end(), "");
    }
}
