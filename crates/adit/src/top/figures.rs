//! The figures between two looks: rates, and the present state.

use serde::Serialize;
use serde_json::Value;

use super::look::{Look, SessionCounts};
use crate::document_values::{number, refusals, rows, text};

/// Sessions that are shown.
const SESSIONS_SHOWN: usize = 100;

/// Packets and bits per second.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub(super) struct FlowRate {
    pub pkts_per_s: f64,
    pub bits_per_s: f64,
}

/// Everything that is shown. `adit top --once --json` prints it.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(super) struct TopFigures {
    /// Time between the looks.
    pub interval_s: f64,
    pub sessions: u64,
    pub associations: u64,
    pub establishments_per_s: f64,
    pub modifications_per_s: f64,
    pub deletions_per_s: f64,
    pub refusals_per_s: f64,
    /// As transmitted, from the Ethernet header on.
    pub uplink: FlowRate,
    pub downlink: FlowRate,
    pub dropped_pkts_per_s: f64,
    pub waiting_pkts: u64,
    pub interfaces: Vec<InterfaceRate>,
    pub ports: Vec<PortSummary>,
    pub model: String,
    pub workers: Vec<WorkerSummary>,
    /// Reasons with drops: by rate, then by number.
    pub drops: Vec<DropRate>,
    /// By rate of both directions.
    pub top_sessions: Vec<SessionRate>,
    /// Sessions beyond --sessions were not looked at.
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
    /// Known for those that are shown.
    pub ue: Vec<String>,
    pub dnn: String,
    /// Octets of inner IP packets.
    pub uplink: FlowRate,
    pub downlink: FlowRate,
}

impl TopFigures {
    /// The figures of `now`, with rates since `before`.
    pub(super) fn between(before: &Look, now: &Look) -> Self {
        let interval_s = now.at.duration_since(before.at).as_secs_f64();
        let rates = LookPair { before, now, interval_s };
        let n4 = |name: &str| rates.of_group("n4", name);
        let direction = |name: &str| FlowRate {
            pkts_per_s: rates.of_counter(&format!("transmitted_{name}_pkts")),
            bits_per_s: 8.0 * rates.of_counter(&format!("transmitted_{name}_bytes")),
        };
        let associations = rows(&now.associations, "associations");
        Self {
            interval_s,
            sessions: associations.iter().map(|row| number(row, "sessions")).sum(),
            associations: u64::try_from(associations.len()).unwrap_or(u64::MAX),
            establishments_per_s: n4("sessions_established"),
            modifications_per_s: n4("sessions_modified"),
            deletions_per_s: n4("sessions_deleted"),
            refusals_per_s: rates.refusals(),
            uplink: direction("uplink"),
            downlink: direction("downlink"),
            dropped_pkts_per_s: rates.of_counter("dropped_pkts"),
            waiting_pkts: number(&now.counters, "buffered_pkts"),
            interfaces: rates.interfaces(),
            ports: rates.ports(),
            model: text(&now.workers, "model"),
            workers: rates.workers(),
            drops: rates.drops(),
            top_sessions: rates.sessions(),
            sessions_cut: now.is_cut,
        }
    }
}

/// Two looks.
struct LookPair<'a> {
    before: &'a Look,
    now: &'a Look,
    interval_s: f64,
}

impl LookPair<'_> {
    /// The rate of a counter; zero where it fell, as after a restart.
    fn of(&self, before: u64, now: u64) -> f64 {
        let grown = adit_metrics::as_gauge(now.saturating_sub(before));
        if self.interval_s > 0.0 { grown / self.interval_s } else { 0.0 }
    }

    fn of_counter(&self, name: &str) -> f64 {
        self.of(number(&self.before.counters, name), number(&self.now.counters, name))
    }

    fn of_group(&self, group: &str, name: &str) -> f64 {
        let of = |look: &Look| look.counters.get(group).map_or(0, |group| number(group, name));
        self.of(of(self.before), of(self.now))
    }

    /// Requests refused, with whatever Cause.
    fn refusals(&self) -> f64 {
        self.of(refusals(&self.before.counters), refusals(&self.now.counters))
    }

    fn interfaces(&self) -> Vec<InterfaceRate> {
        let group = self.now.counters.get("interfaces").and_then(Value::as_object);
        let names = group.into_iter().flatten();
        let names = names.filter_map(|(name, _)| name.strip_suffix("_rx_pkts"));
        let rate = |name: &str, side: &str| FlowRate {
            pkts_per_s: self.of_group("interfaces", &format!("{name}_{side}_pkts")),
            bits_per_s: 8.0 * self.of_group("interfaces", &format!("{name}_{side}_bytes")),
        };
        let interface = |name: &str| InterfaceRate {
            name: name.to_owned(),
            rx: rate(name, "rx"),
            tx: rate(name, "tx"),
        };
        names.map(interface).collect()
    }

    fn ports(&self) -> Vec<PortSummary> {
        let before = rows(&self.before.ports, "ports");
        let ports = rows(&self.now.ports, "ports").iter().enumerate();
        let port = |(at, port): (usize, &Value)| PortSummary {
            name: text(port, "name"),
            link: text(port, "link"),
            link_losses: number(port, "link_losses"),
            missed_pkts_per_s: self.of(
                before.get(at).map_or(0, |before| number(before, "rx_missed")),
                number(port, "rx_missed"),
            ),
        };
        ports.map(port).collect()
    }

    fn workers(&self) -> Vec<WorkerSummary> {
        let before = rows(&self.before.workers, "workers");
        let percent =
            |worker: &Value, name: &str| worker.get(name).and_then(Value::as_f64).unwrap_or(0.0);
        let workers = rows(&self.now.workers, "workers").iter().enumerate();
        let worker = |(at, worker): (usize, &Value)| WorkerSummary {
            thread: number(worker, "thread"),
            role: text(worker, "role"),
            core: number(worker, "core"),
            state: text(worker, "state"),
            busy_percent: percent(worker, "busy_percent"),
            full_bursts_percent: percent(worker, "full_bursts_percent"),
            fullest_ring_percent: percent(worker, "fullest_ring_percent"),
            received_pkts_per_s: self.of(
                before.get(at).map_or(0, |before| number(before, "received_pkts")),
                number(worker, "received_pkts"),
            ),
        };
        workers.map(worker).collect()
    }

    fn drops(&self) -> Vec<DropRate> {
        let group = self.now.counters.get("drops").and_then(Value::as_object);
        let reasons = group.into_iter().flatten();
        let reasons = reasons.map(|(reason, pkts)| DropRate {
            reason: reason.clone(),
            pkts_per_s: self.of_group("drops", reason),
            pkts: pkts.as_u64().unwrap_or_default(),
        });
        let mut drops: Vec<DropRate> = reasons.filter(|drop| drop.pkts > 0).collect();
        drops.sort_by(|a, b| {
            b.pkts_per_s.total_cmp(&a.pkts_per_s).then_with(|| b.pkts.cmp(&a.pkts))
        });
        drops
    }

    /// The sessions with the most traffic. One that is new since the last look has all of its traffic since then.
    fn sessions(&self) -> Vec<SessionRate> {
        let rate = |seid: &String, now: &SessionCounts| {
            let before = self.before.traffic.get(seid).copied().unwrap_or_default();
            SessionRate {
                up_seid: seid.clone(),
                ue: Vec::new(),
                dnn: String::new(),
                uplink: FlowRate {
                    pkts_per_s: self.of(before.uplink_pkts, now.uplink_pkts),
                    bits_per_s: 8.0 * self.of(before.uplink_bytes, now.uplink_bytes),
                },
                downlink: FlowRate {
                    pkts_per_s: self.of(before.downlink_pkts, now.downlink_pkts),
                    bits_per_s: 8.0 * self.of(before.downlink_bytes, now.downlink_bytes),
                },
            }
        };
        let mut sessions: Vec<_> =
            self.now.traffic.iter().map(|(seid, now)| rate(seid, now)).collect();
        let both = |session: &SessionRate| session.uplink.bits_per_s + session.downlink.bits_per_s;
        sessions.sort_by(|a, b| both(b).total_cmp(&both(a)));
        sessions.truncate(SESSIONS_SHOWN);
        sessions
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::json;
    use std::time::{Duration, Instant};

    /// Two looks one second apart.
    pub(in crate::top) fn looks() -> [Look; 2] {
        let look = |at: Instant, grown: u64| Look {
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
        let figures = TopFigures::between(&now, &Look { at: now.at, ..before });
        assert_eq!((figures.uplink.pkts_per_s, figures.interval_s), (0.0, 0.0));
    }
}
