//! `adit show`: the documents of the admin socket as tables for people.

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::Value;

use crate::cli::Topic;

/// The document of `topic` as text.
pub fn render(topic: Topic, document: &Value) -> String {
    match topic {
        Topic::Associations => list(
            document,
            "associations",
            &["node_id", "peer", "state", "sessions", "recovery_time_stamp"],
        ),
        Topic::Sessions => list(
            document,
            "sessions",
            &[
                "up_seid",
                "cp_seid",
                "cp_node",
                "ue",
                "teids",
                "pdrs",
                "uplink_pkts",
                "uplink_bytes",
                "downlink_pkts",
                "downlink_bytes",
            ],
        ),
        Topic::Ports => ports(document),
        Topic::Neighbours => {
            list(document, "neighbours", &["interface", "addr", "mac", "state", "pinned"])
        }
        Topic::Paths => list(document, "paths", &["peer", "state", "requests", "responses"]),
        Topic::Applications => {
            list(document, "applications", &["id", "source", "flow_descriptions", "in_effect"])
        }
        Topic::Counters => counters(document),
        Topic::Qos => rates(document),
    }
}

/// The rates of sessions, and behind them packet rates and the rates that sessions share.
fn rates(document: &Value) -> String {
    let own = list(
        document,
        "rates",
        &[
            "up_seid",
            "ue",
            "qer",
            "qfi",
            "direction",
            "mbr_bps",
            "gbr_bps",
            "excess",
            "offered_bytes",
            "passed_bytes",
            "dropped_pkts",
            "dropped_bytes",
            "queued_pkts",
            "delay_us",
        ],
    );
    let shared = ["s_nssai", "network_instance", "direction", "mbr_bps", "excess", "passed_bytes"];
    let packet_rates = [
        "up_seid",
        "ue",
        "qer",
        "direction",
        "pkts_max",
        "unit_s",
        "left_pkts",
        "additional_pkts_max",
        "additional_unit_s",
        "additional_left_pkts",
        "window_ends_in_s",
        "dropped_pkts",
    ];
    let further = [("packet_rates", &packet_rates[..]), ("shared", &shared[..])];
    let rows = |key: &str| document.get(key).and_then(Value::as_array).map_or(0, Vec::len);
    let further = further.into_iter().filter(|(key, _)| rows(key) > 0);
    further.fold(own, |text, (key, columns)| format!("{text}\n\n{}", list(document, key, columns)))
}

fn list(document: &Value, key: &str, columns: &[&str]) -> String {
    let empty = Vec::new();
    let rows = document.get(key).and_then(Value::as_array).unwrap_or(&empty);
    let mut table = new_table();
    table.set_header(columns.iter().map(|column| column.replace('_', " ")));
    for row in rows {
        table.add_row(columns.iter().map(|column| row.get(column).map_or(String::new(), cell)));
    }
    format!("{table}\n{} {key}", rows.len())
}

/// The ports, and for each, what spreads its packets over the workers and what it lost.
fn ports(document: &Value) -> String {
    let mut text = list(
        document,
        "ports",
        &[
            "name",
            "device",
            "driver",
            "mac",
            "mtu_bytes",
            "rx_queues",
            "link",
            "rx_pkts",
            "tx_pkts",
            "rx_missed",
            "rx_errors",
            "rx_no_mbuf",
            "tx_errors",
        ],
    );
    for port in document.get("ports").and_then(Value::as_array).into_iter().flatten() {
        let word = |member: &str| port.get(member).map_or(String::new(), cell);
        text.push_str(&format!("\n\n{}", word("name")));
        if let Some(speed) = port["link_speed_mbps"].as_u64() {
            text.push_str(&format!("\n  link speed {speed} Mb/s"));
        }
        let words = |member: &str| {
            let list = port[member].as_array().map_or(&[][..], Vec::as_slice);
            list.iter().map(cell).collect::<Vec<_>>().join(", ")
        };
        let rss = match port["rss_reason"].as_str() {
            Some(reason) => format!("none: {reason}"),
            None => words("rss"),
        };
        text.push_str(&format!("\n  rss {rss}"));
        for steered in port["steering"].as_array().into_iter().flatten() {
            let word = |member: &str| steered.get(member).map_or(String::new(), cell);
            let outcome = match steered["reason"].as_str() {
                None => format!("{} {} rules", word("result"), word("rules")),
                Some(reason) => format!("{}: {reason}", word("result").replace('_', " ")),
            };
            text.push_str(&format!("\n  steering by {}: {outcome}", word("key")));
        }
        for (name, member) in [("offloads", "offloads"), ("rx queue pkts", "rx_queue_pkts")] {
            let words = words(member);
            text.push_str(&if words.is_empty() {
                String::new()
            } else {
                format!("\n  {name} {words}")
            });
        }
        for (name, value) in port["losses"].as_object().into_iter().flatten() {
            text.push_str(&format!("\n  {name} {}", cell(value)));
        }
    }
    text
}

/// Scalars by name, then each group with its non-zero members.
fn counters(document: &Value) -> String {
    let mut text = String::new();
    let Some(members) = document.as_object() else { return text };
    let mut scalars = new_table();
    for (name, value) in members.iter().filter(|(_, value)| !value.is_object()) {
        scalars.add_row([name.replace('_', " "), cell(value)]);
    }
    text.push_str(&scalars.to_string());
    for (name, group) in members.iter().filter_map(|(n, v)| Some((n, v.as_object()?))) {
        let mut table = new_table();
        for (member, value) in group.iter().filter(|(_, value)| value.as_u64() != Some(0)) {
            table.add_row([member.clone(), cell(value)]);
        }
        text.push_str(&format!("\n\n{}\n", name.replace('_', " ")));
        text.push_str(&if table.is_empty() { "(all zero)".to_owned() } else { table.to_string() });
    }
    text
}

fn new_table() -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_HORIZONTAL_ONLY)
        .set_content_arrangement(ContentArrangement::Dynamic);
    table
}

fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "–".to_owned(),
        Value::Array(items) if items.iter().all(|item| item.is_object()) => items.len().to_string(),
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn list_shows_rows_and_counts_them() {
        let document = json!({ "neighbours": [
            { "interface": "n6", "addr": "10.0.6.1", "mac": null, "state": "incomplete", "pinned": true },
        ]});
        let text = render(Topic::Neighbours, &document);
        assert!(text.contains("10.0.6.1") && text.contains("incomplete"), "{text}");
        assert!(text.ends_with("1 neighbours"));
    }

    #[test]
    fn paths_show_the_state_of_each_peer() {
        let path = |peer: &str, state: &str, responses: u64| json!({ "peer": peer, "state": state, "requests": 7, "responses": responses });
        let document =
            json!({ "paths": [path("10.0.3.1", "up", 7), path("2001:db8::9", "down", 4)] });
        let text = render(Topic::Paths, &document);
        let line = |peer: &str| text.lines().find(|line| line.contains(peer)).unwrap_or_default();
        assert!(line("10.0.3.1").contains("up") && line("2001:db8::9").contains("down"), "{text}");
        assert!(text.ends_with("2 paths"));
    }

    #[test]
    fn applications_show_where_they_come_from() {
        let document = json!({ "applications": [
            { "id": "web", "source": "smf", "flow_descriptions": 2, "in_effect": true },
        ]});
        let text = render(Topic::Applications, &document);
        assert!(text.contains("flow descriptions") && text.contains("smf"), "{text}");
    }

    #[test]
    fn ports_tell_what_spreads_their_packets() {
        let document = json!({ "ports": [{
            "name": "access", "link_speed_mbps": 10_000, "rss": [], "rss_reason": "one receive queue",
            "steering": [
                { "key": "TEID over IPv4", "result": "accepted", "rules": 64, "reason": null },
                { "key": "TEID over IPv6", "result": "not_tried", "rules": 0, "reason": "why" },
            ],
            "rx_queue_pkts": [3, 4], "losses": { "rx_dropped": 5 },
        }]});
        let text = render(Topic::Ports, &document);
        for line in [
            "link speed 10000 Mb/s",
            "rss none: one receive queue",
            "steering by TEID over IPv4: accepted 64 rules",
            "steering by TEID over IPv6: not tried: why",
            "rx queue pkts 3, 4",
            "rx_dropped 5",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(!text.contains("offloads"), "{text}");
    }

    #[test]
    fn counters_hide_zeros_of_groups_and_keep_scalars() {
        let document = json!({ "received_pkts": 0, "drops": { "far_drop": 3, "gate_closed": 0 } });
        let text = render(Topic::Counters, &document);
        assert!(text.contains("received pkts") && text.contains("far_drop"), "{text}");
        assert!(!text.contains("gate_closed"));
    }
}
