//! The figures of adit top: rates between two readings of adit's documents, and the present state.

use serde::Serialize;
use serde_json::Value;

use super::look::{AditReading, SessionCounts};
use crate::client::document_values::{DocumentPair, number, rate, rows};

/// Maximum of sessions that are shown.
const SESSIONS_SHOWN_MAX: usize = 100;

/// Packets and bits per second.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub(super) struct FlowRate {
    pub pkts_per_s: f64,
    pub bits_per_s: f64,
}

/// All figures on the screen. `adit top --once --json` prints them.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(super) struct TopFigures {
    /// Time between the two readings.
    pub interval_s: f64,
    pub sessions: u64,
    pub associations: u64,
    pub establishments_per_s: f64,
    pub modifications_per_s: f64,
    pub deletions_per_s: f64,
    pub refusals_per_s: f64,
    /// Packets transmitted uplink, counted from the Ethernet header on.
    pub uplink: FlowRate,
    pub downlink: FlowRate,
    pub dropped_pkts_per_s: f64,
    pub waiting_pkts: u64,
    pub interfaces: Vec<InterfaceRate>,
    pub ports: Vec<PortSummary>,
    pub model: String,
    pub workers: Vec<WorkerSummary>,
    /// Reasons for which packets were dropped, sorted by rate.
    pub drops: Vec<DropRate>,
    /// Sorted by the rate of both directions together.
    pub top_sessions: Vec<SessionRate>,
    /// True if there are more sessions than `--sessions`, and the rest was not read.
    pub sessions_cut: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct InterfaceRate {
    pub name: String,
    pub rx: FlowRate,
    pub tx: FlowRate,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct PortSummary {
    pub name: String,
    /// Empty for a port of the kernel.
    pub link: String,
    pub link_losses: u64,
    pub missed_pkts_per_s: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct WorkerSummary {
    pub thread: u64,
    pub role: String,
    pub core: u64,
    pub state: String,
    pub busy_percent: f64,
    pub full_bursts_percent: f64,
    pub fullest_ring_percent: f64,
    pub received_pkts_per_s: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct DropRate {
    pub reason: String,
    pub pkts_per_s: f64,
    pub pkts: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct SessionRate {
    pub up_seid: String,
    /// Known only for sessions on the screen.
    pub ue: Vec<String>,
    pub dnn: String,
    /// Counted in octets of inner IP packets.
    pub uplink: FlowRate,
    pub downlink: FlowRate,
}

impl TopFigures {
    /// Computes the figures of `now`, with rates since `before`.
    pub(super) fn between(before: &AditReading, now: &AditReading) -> Self {
        let interval_s = now.at.duration_since(before.at).as_secs_f64();
        let pair = |part: fn(&AditReading) -> &Value| {
            DocumentPair::new(part(before), part(now), interval_s)
        };
        let [counters, ports, workers] =
            [pair(|look| &look.counters), pair(|look| &look.ports), pair(|look| &look.workers)];
        let n4 = counters.part("n4");
        let associations = rows(&now.associations, "associations");
        Self {
            interval_s,
            sessions: associations.iter().map(|row| number(row, "sessions")).sum(),
            associations: u64::try_from(associations.len()).unwrap_or(u64::MAX),
            establishments_per_s: n4.rate("sessions_established"),
            modifications_per_s: n4.rate("sessions_modified"),
            deletions_per_s: n4.rate("sessions_deleted"),
            refusals_per_s: n4.refusals(),
            uplink: FlowRate::of(&counters, "transmitted_uplink"),
            downlink: FlowRate::of(&counters, "transmitted_downlink"),
            dropped_pkts_per_s: counters.rate("dropped_pkts"),
            waiting_pkts: counters.number("buffered_pkts"),
            interfaces: interfaces(&counters.part("interfaces")),
            ports: ports.rows("ports", "name").iter().map(PortSummary::of).collect(),
            model: workers.text("model"),
            workers: workers.rows("workers", "thread").iter().map(WorkerSummary::of).collect(),
            drops: drops(&counters.part("drops")),
            top_sessions: sessions(before, now, interval_s),
            sessions_cut: now.is_cut,
        }
    }
}

impl FlowRate {
    /// Returns the rates of the counters `{prefix}_pkts` and `{prefix}_bytes`.
    fn of(pair: &DocumentPair<'_>, prefix: &str) -> Self {
        Self {
            pkts_per_s: pair.rate(&format!("{prefix}_pkts")),
            bits_per_s: 8.0 * pair.rate(&format!("{prefix}_bytes")),
        }
    }
}

fn interfaces(group: &DocumentPair<'_>) -> Vec<InterfaceRate> {
    let names = group.names().filter_map(|name| name.strip_suffix("_rx_pkts"));
    let interface = |name: &str| InterfaceRate {
        name: name.to_owned(),
        rx: FlowRate::of(group, &format!("{name}_rx")),
        tx: FlowRate::of(group, &format!("{name}_tx")),
    };
    names.map(interface).collect()
}

impl PortSummary {
    fn of(port: &DocumentPair<'_>) -> Self {
        Self {
            name: port.text("name"),
            link: port.text("link"),
            link_losses: port.number("link_losses"),
            missed_pkts_per_s: port.rate("rx_missed"),
        }
    }
}

impl WorkerSummary {
    fn of(worker: &DocumentPair<'_>) -> Self {
        Self {
            thread: worker.number("thread"),
            role: worker.text("role"),
            core: worker.number("core"),
            state: worker.text("state"),
            busy_percent: worker.float("busy_percent"),
            full_bursts_percent: worker.float("full_bursts_percent"),
            fullest_ring_percent: worker.float("fullest_ring_percent"),
            received_pkts_per_s: worker.rate("received_pkts"),
        }
    }
}

fn drops(group: &DocumentPair<'_>) -> Vec<DropRate> {
    let drop = |reason: &str| DropRate {
        reason: reason.to_owned(),
        pkts_per_s: group.rate(reason),
        pkts: group.number(reason),
    };
    let mut drops: Vec<DropRate> = group.names().map(drop).filter(|drop| drop.pkts > 0).collect();
    drops.sort_by(|a, b| b.pkts_per_s.total_cmp(&a.pkts_per_s).then_with(|| b.pkts.cmp(&a.pkts)));
    drops
}

/// Returns the sessions with the most traffic. A session that is absent from `before` is new: all
/// of its traffic counts.
fn sessions(before: &AditReading, now: &AditReading, interval_s: f64) -> Vec<SessionRate> {
    let flow = |pkts: [u64; 2], bytes: [u64; 2]| FlowRate {
        pkts_per_s: rate(pkts[0], pkts[1], interval_s),
        bits_per_s: 8.0 * rate(bytes[0], bytes[1], interval_s),
    };
    let row = |(seid, now): (&String, &SessionCounts)| {
        let before = before.traffic.get(seid).copied().unwrap_or_default();
        SessionRate {
            up_seid: seid.clone(),
            ue: Vec::new(),
            dnn: String::new(),
            uplink: flow(
                [before.uplink_pkts, now.uplink_pkts],
                [before.uplink_bytes, now.uplink_bytes],
            ),
            downlink: flow(
                [before.downlink_pkts, now.downlink_pkts],
                [before.downlink_bytes, now.downlink_bytes],
            ),
        }
    };
    let mut sessions: Vec<_> = now.traffic.iter().map(row).collect();
    let both = |session: &SessionRate| session.uplink.bits_per_s + session.downlink.bits_per_s;
    sessions.sort_by(|a, b| both(b).total_cmp(&both(a)));
    sessions.truncate(SESSIONS_SHOWN_MAX);
    sessions
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::json;
    use std::time::{Duration, Instant};

    /// Two readings, one second apart.
    pub(in crate::client::top) fn looks() -> [AditReading; 2] {
        let look = |at: Instant, grown: u64| AditReading {
            at,
            counters: json!({
                "transmitted_uplink_pkts": 1000 * grown, "transmitted_uplink_bytes": 100_000 * grown,
                "transmitted_downlink_pkts": 2000 * grown, "transmitted_downlink_bytes": 2_000_000 * grown,
                "dropped_pkts": 30 * grown, "buffered_pkts": 4,
                "drops": { "teid_unknown": 10 * grown, "rate_exceeded": 20 * grown, "far_drop": 5, "gate_closed": 0 },
                "n4": { "sessions_established": 7 * grown, "refused_cause_75": 2 * grown },
                "interfaces": { "n3_rx_pkts": 1000 * grown, "n3_rx_bytes": 1500 * grown },
            }),
            workers: json!({ "model": "run-to-completion", "workers": [{
                "thread": 0, "role": "worker", "core": 3, "state": "runs", "busy_percent": 62.5,
                "full_bursts_percent": 12, "fullest_ring_percent": 0.0, "received_pkts": 3000 * grown,
            }] }),
            ports: json!({ "ports": [{ "name": "access", "link": "up", "link_losses": 1, "rx_missed": 5 * grown }] }),
            associations: json!({ "associations": [{ "sessions": 3 }, { "sessions": 4 }] }),
            traffic: [("0x1", 1), ("0x2", 5), ("0x3", 0)]
                .map(|(seid, share)| {
                    let counts = SessionCounts {
                        downlink_pkts: share * grown,
                        downlink_bytes: 1000 * share * grown,
                        ..SessionCounts::default()
                    };
                    (seid.to_owned(), counts)
                })
                .into(),
            is_cut: true,
        };
        let start = Instant::now();
        [look(start, 1), look(start + Duration::from_secs(2), 3)]
    }

    #[test]
    fn rates_are_those_between_two_looks() {
        let [before, now] = looks();
        let figures = TopFigures::between(&before, &now);
        assert_eq!((figures.interval_s, figures.sessions, figures.associations), (2.0, 7, 2));
        assert_eq!(figures.uplink, FlowRate { pkts_per_s: 1000.0, bits_per_s: 800_000.0 });
        assert_eq!((figures.establishments_per_s, figures.refusals_per_s), (7.0, 2.0));
        assert_eq!(figures.interfaces[0].rx.bits_per_s, 12_000.0);
        assert_eq!(
            (figures.workers[0].received_pkts_per_s, figures.workers[0].busy_percent),
            (3000.0, 62.5)
        );
        assert_eq!((figures.ports[0].missed_pkts_per_s, figures.sessions_cut), (5.0, true));
    }

    #[test]
    fn drops_and_sessions_are_sorted_by_rate() {
        let [before, now] = looks();
        let figures = TopFigures::between(&before, &now);
        let reasons: Vec<_> = figures.drops.iter().map(|drop| drop.reason.as_str()).collect();
        assert_eq!(reasons, ["rate_exceeded", "teid_unknown", "far_drop"]);
        let sessions: Vec<_> = figures.top_sessions.iter().map(|of| of.up_seid.as_str()).collect();
        assert_eq!(sessions, ["0x2", "0x1", "0x3"]);
        assert_eq!(figures.top_sessions[0].downlink.bits_per_s, 40_000.0);
    }

    #[test]
    fn counter_that_fell_has_no_rate() {
        let [before, now] = looks();
        let figures = TopFigures::between(&now, &AditReading { at: now.at, ..before });
        assert_eq!((figures.uplink.pkts_per_s, figures.interval_s), (0.0, 0.0));
    }
}
