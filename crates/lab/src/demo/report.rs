//! The result of the demo: checks, adit's counters, and the summary as text and JSON.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;
use serde_json::Value;

/// A check of the demo, with its result.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct DemoCheck {
    /// Name of the check.
    pub name: String,
    /// The result, with units.
    pub result: String,
    /// True if the check passed.
    pub ok: bool,
    /// The figures behind `result`, `null` if there are none.
    pub figures: Value,
}

impl DemoCheck {
    /// Makes a check with its verdict.
    pub(crate) fn new(name: impl Into<String>, ok: bool, result: impl Into<String>) -> Self {
        Self { name: name.into(), result: result.into(), ok, figures: Value::Null }
    }

    /// Makes a check that failed with an error.
    pub(crate) fn failed(name: impl Into<String>, error: &anyhow::Error) -> Self {
        Self::new(name, false, format!("{error:#}"))
    }

    /// Adds the figures from which the result follows.
    #[must_use]
    pub(crate) fn with(mut self, figures: &impl Serialize) -> Self {
        self.figures = serde_json::to_value(figures).unwrap_or_default();
        self
    }
}

/// adit's packet counters from `adit show counters --json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct AditCounters {
    /// Packets received from ports.
    pub received_pkts: u64,
    /// Received packets that were transmitted.
    pub transmitted_pkts: u64,
    /// Received packets that were dropped: the sum of `drops`.
    pub dropped_pkts: u64,
    /// Received packets that were passed to the control thread: the sum of `punts`.
    pub punted_pkts: u64,
    /// Received packets that are buffered now.
    pub buffered_pkts: u64,
    /// Additional packets that fragmentation created.
    pub fragments_added_pkts: u64,
    /// Packets between UEs that adit switched locally.
    pub locally_switched_pkts: u64,
    /// Packets that adit created and transmitted.
    pub originated_pkts: u64,
    /// User packets transmitted towards the data network.
    pub uplink_pkts: u64,
    /// Octets of the uplink packets on the wire.
    pub uplink_bytes: u64,
    /// User packets transmitted towards the gNB.
    pub downlink_pkts: u64,
    /// Octets of the uplink packets on the wire.
    pub downlink_bytes: u64,
    /// Drops by reason; only reasons that occurred.
    pub drops: BTreeMap<String, u64>,
    /// Punts by reason; only reasons that occurred.
    pub punts: BTreeMap<String, u64>,
    /// True if adit's own check of the packet identity passed.
    pub identity_holds: bool,
}

impl AditCounters {
    /// Reads adit's counters from the JSON document.
    ///
    /// # Errors
    /// A counter is missing.
    pub(crate) fn read(document: &Value) -> Result<Self> {
        let number = |name: &str| {
            document[name].as_u64().with_context(|| format!("adit's counters lack {name}"))
        };
        let by_reason = |name: &str| -> Result<BTreeMap<String, u64>> {
            let group = document[name]
                .as_object()
                .with_context(|| format!("adit's counters lack {name}"))?;
            let counts = group.iter().filter_map(|(reason, n)| Some((reason.clone(), n.as_u64()?)));
            Ok(counts.filter(|(_, n)| *n > 0).collect())
        };
        let (drops, punts) = (by_reason("drops")?, by_reason("punts")?);
        Ok(Self {
            received_pkts: number("received_pkts")?,
            transmitted_pkts: number("transmitted_pkts")?,
            dropped_pkts: drops.values().sum(),
            punted_pkts: punts.values().sum(),
            buffered_pkts: number("buffered_pkts")?,
            fragments_added_pkts: number("fragments_added_pkts")?,
            locally_switched_pkts: number("locally_switched_pkts")?,
            originated_pkts: number("originated_pkts")?,
            uplink_pkts: number("transmitted_uplink_pkts")?,
            uplink_bytes: number("transmitted_uplink_bytes")?,
            downlink_pkts: number("transmitted_downlink_pkts")?,
            downlink_bytes: number("transmitted_downlink_bytes")?,
            drops,
            punts,
            identity_holds: document["identity_holds"].as_bool().unwrap_or(false),
        })
    }

    /// Checks the packet identity, independently of adit's own check: received + fragments added =
    /// transmitted + Σ drops + Σ punts + buffered.
    #[must_use]
    pub(crate) fn identity(&self) -> DemoCheck {
        let outcomes =
            self.transmitted_pkts + self.dropped_pkts + self.punted_pkts + self.buffered_pkts;
        let adds_up = outcomes == self.received_pkts + self.fragments_added_pkts;
        let verdict = match (adds_up, self.identity_holds) {
            (true, true) => "",
            (true, false) => " (adit's own check fails)",
            (false, _) => " (does not add up)",
        };
        DemoCheck::new(
            "packet identity",
            adds_up && self.identity_holds && self.received_pkts > 0,
            format!(
                "received {} = transmitted {} + dropped {} + punted {} + buffered {}{verdict}",
                self.received_pkts,
                self.transmitted_pkts,
                self.dropped_pkts,
                self.punted_pkts,
                self.buffered_pkts
            ),
        )
    }
}

/// The result of the demo.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct DemoReport {
    /// True if every check passed.
    pub ok: bool,
    /// The kind of adit's ports, such as "AF_XDP" or "AF_PACKET".
    pub datapath: String,
    /// The reason why AF_XDP failed, with `--datapath auto`.
    pub af_xdp_refused: Option<String>,
    /// Number of UEs.
    pub ues: u8,
    /// Duration of each iperf3 run. Unit: s.
    pub iperf_s: u32,
    /// The checks in order.
    pub checks: Vec<DemoCheck>,
    /// adit's counters at the end.
    pub counters: Option<AditCounters>,
}

impl DemoReport {
    /// Formats the summary for a terminal.
    #[must_use]
    pub(crate) fn render(&self) -> String {
        let mut checks = new_table();
        checks.set_header(["check", "result", ""]);
        for check in &self.checks {
            let verdict = if check.ok { "ok" } else { "FAIL" };
            checks.add_row([check.name.as_str(), check.result.as_str(), verdict]);
        }
        let mut text = checks.to_string();
        if let Some(counters) = &self.counters {
            text.push_str("\n\nDrops by reason\n");
            if counters.drops.is_empty() {
                text.push_str("none");
            } else {
                let mut drops = new_table();
                for (reason, count) in &counters.drops {
                    drops.add_row([reason, &count.to_string()]);
                }
                text.push_str(&drops.to_string());
            }
        }
        let failed = self.checks.iter().filter(|check| !check.ok).count();
        let verdict = match (self.ok, failed) {
            (true, _) => format!("all {} checks passed", self.checks.len()),
            (false, failed) => format!("{failed} of {} checks failed", self.checks.len()),
        };
        text.push_str(&format!("\n\nadit on {} with {} UEs: {verdict}", self.datapath, self.ues));
        text
    }
}

fn new_table() -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(100);
    table
}

/// Formats a rate in Gb/s or, below 1 Gb/s, in Mb/s.
#[must_use]
pub(crate) fn rate(bps: f64) -> String {
    if bps >= 1e9 { format!("{:.2} Gb/s", bps / 1e9) } else { format!("{:.1} Mb/s", bps / 1e6) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document() -> Value {
        json!({
            "received_pkts": 10, "transmitted_pkts": 6, "buffered_pkts": 0, "originated_pkts": 2,
            "fragments_added_pkts": 0,
            "locally_switched_pkts": 0,
            "transmitted_uplink_pkts": 3, "transmitted_uplink_bytes": 300,
            "transmitted_downlink_pkts": 3, "transmitted_downlink_bytes": 450,
            "drops": {"gate_closed": 1, "no_route": 0}, "punts": {"arp": 3},
            "identity_holds": true,
        })
    }

    #[test]
    fn identity_is_added_up_from_the_reasons() {
        let counters = AditCounters::read(&document()).unwrap();
        assert_eq!(counters.drops.keys().collect::<Vec<_>>(), ["gate_closed"]);
        let check = counters.identity();
        assert!(check.ok, "{}", check.result);
        assert_eq!(check.result, "received 10 = transmitted 6 + dropped 1 + punted 3 + buffered 0");
    }

    #[test]
    fn identity_fails_on_a_missing_packet_and_if_adits_own_check_fails() {
        let mut lost = document();
        lost["punts"]["arp"] = json!(2);
        assert!(!AditCounters::read(&lost).unwrap().identity().ok);
        let mut doubt = document();
        doubt["identity_holds"] = json!(false);
        assert!(!AditCounters::read(&doubt).unwrap().identity().ok);
        let nothing = AditCounters { identity_holds: true, ..AditCounters::default() };
        assert!(!nothing.identity().ok, "no packet at all proves nothing");
    }

    #[test]
    fn counters_without_a_member_are_refused() {
        let mut document = document();
        document["buffered_pkts"] = Value::Null;
        let error = AditCounters::read(&document).unwrap_err();
        assert_eq!(error.to_string(), "adit's counters lack buffered_pkts");
    }

    #[test]
    fn summary_names_failures_and_drops() {
        let report = DemoReport {
            ok: false,
            datapath: "AF_PACKET".to_owned(),
            af_xdp_refused: None,
            ues: 4,
            iperf_s: 5,
            checks: vec![
                DemoCheck::new("ping", false, "4 of 5"),
                DemoCheck::new("echo", true, "1 ms"),
            ],
            counters: Some(AditCounters::read(&document()).unwrap()),
        };
        let text = report.render();
        assert!(text.contains("FAIL") && text.contains("gate_closed"), "{text}");
        assert!(text.ends_with("adit on AF_PACKET with 4 UEs: 1 of 2 checks failed"), "{text}");
    }
}
