//! A packet of a trace in words, from its document.

use core::fmt;

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// Octets of the column of names.
const NAME_WIDTH: usize = 11;

/// A packet as `adit trace` prints it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct PacketWords {
    /// When and where it arrived.
    head: String,
    /// Its events, in order.
    lines: Vec<WordsLine>,
    /// Its outcome.
    outcome: String,
}

/// One line about a packet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct WordsLine {
    /// Its subject, such as "FAR 1"; empty if it goes on with the line before.
    name: String,
    text: String,
}

impl fmt::Display for PacketWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { head, lines, outcome } = self;
        write!(f, "{head}")?;
        for WordsLine { name, text } in lines {
            write!(f, "\n    {name:NAME_WIDTH$} {text}")?;
        }
        writeln!(f, "\n  => {outcome}")
    }
}

/// The words for the document of a packet.
pub(crate) fn words(packet: &Value) -> PacketWords {
    let mut lines = PacketLines(Vec::new());
    match packet.get("waited") {
        Some(waited) => {
            lines.headers("held", &packet["headers"]);
            let ms = waited["ns"].as_u64().unwrap_or_default() / 1000;
            let time = format!("{}.{:03} ms for {}", ms / 1000, ms % 1000, text(&waited["for"]));
            lines.add("waited", &time);
        }
        None => lines.headers("received", &packet["headers"]),
    }
    if let Some(session) = packet.get("session") {
        lines
            .add("session", &format!("{}, by {}", text(&session["up_seid"]), text(&session["by"])));
    }
    lines.pdrs(packet);
    for qer in list(&packet["qers"]) {
        lines.add(&format!("QER {}", qer["qer"]), &qer_words(qer));
    }
    for urr in list(&packet["urrs"]) {
        let counted = match urr["counted_bytes"].as_u64() {
            Some(0) | None => "does not count it".to_owned(),
            Some(bytes) => format!("counts {bytes} octets"),
        };
        lines.add(&format!("URR {}", urr["urr"]), &counted);
    }
    if let Some(far) = packet.get("far") {
        lines.add(&format!("FAR {}", far["far"]), &far_words(far));
    }
    if let Some(egress) = packet.get("egress") {
        lines.add("next hop", &egress_words(egress));
    }
    for sent in list(&packet["sent"]) {
        let way = format!(
            "port {} ({}), {} octets",
            text(&sent["port"]),
            text(&sent["interface"]),
            sent["len"]
        );
        lines.add("sent", &way);
        lines.headers("", &sent["headers"]);
    }
    if let Some(stages) = packet["stages_ns"].as_object() {
        let all: u64 = stages.values().filter_map(Value::as_u64).sum();
        let order =
            ["parse", "lookup", "classify", "enforce", "account", "apply", "slow_path", "transmit"];
        let each = order.iter().filter_map(|stage| {
            Some(format!("{} {}", stage.replace('_', " "), stages.get(*stage)?.as_u64()?))
        });
        let each: Vec<String> = each.collect();
        lines.add("time", &format!("{} ns: {all} ns together", each.join(", ")));
    }
    let PacketLines(lines) = lines;
    PacketWords { head: head(packet), lines, outcome: outcome(&packet["outcome"]) }
}

struct PacketLines(Vec<WordsLine>);

impl PacketLines {
    fn add(&mut self, name: &str, what: &str) {
        self.0.push(WordsLine { name: name.to_owned(), text: what.to_owned() });
    }

    fn headers(&mut self, name: &str, headers: &Value) {
        for (at, header) in list(headers).iter().enumerate() {
            let name = if at == 0 { name } else { "" };
            self.add(name, text(header));
        }
    }

    fn pdrs(&mut self, packet: &Value) {
        let tried = list(&packet["pdrs_tried"]);
        for pdr in tried {
            let name = format!("PDR {}", pdr["pdr"]);
            let what = match pdr["why"].as_str() {
                Some(why) => format!("precedence {}: no match, {why}", pdr["precedence"]),
                None => format!(
                    "precedence {}: match, {}",
                    pdr["precedence"],
                    text(&packet["direction"])
                ),
            };
            self.add(&name, &what);
        }
        let Some(session) = packet.get("session") else { return };
        let all = session["pdrs"].as_u64().unwrap_or_default();
        let others = all.saturating_sub(tried.len() as u64);
        let is_matched = packet.get("pdr").is_some();
        if session["compiled_filters"] == true && others > 0 && !is_matched {
            let what = format!("{others} others: their SDF filters do not match");
            self.add("", &what);
        } else if all == 0 {
            self.add("", "the session has no PDR for this direction");
        }
    }
}

fn outcome(outcome: &Value) -> String {
    let (kind, words) = (text(&outcome["kind"]), text(&outcome["text"]));
    match outcome["reason"].as_str() {
        Some(reason) if kind == "dropped" => format!("DROPPED {reason}: {words}"),
        Some(reason) => format!("{kind} {reason}: {words}"),
        None if kind == "sent" => kind.to_owned(),
        None => format!("{kind}: {words}"),
    }
}

fn head(packet: &Value) -> String {
    let at = time_of_day(packet["time_unix_ns"].as_u64().unwrap_or_default());
    let place = match (packet["port"].as_str(), packet["interface"].as_str()) {
        (Some(port), Some(interface)) => format!("port {port} ({interface})"),
        (Some(port), None) => format!("port {port}"),
        _ => "port unknown by now".to_owned(),
    };
    let from = match packet["from"].as_str() {
        Some("port") | None => String::new(),
        Some(from) => format!(", from {from}"),
    };
    format!(
        "packet {}  {at} UTC  worker {}{from}, {place}, {} octets",
        packet["packet"], packet["worker"], packet["len"]
    )
}

fn qer_words(qer: &Value) -> String {
    let mut words = format!("gate {}", text(&qer["gate"]));
    match qer["rate"].as_str() {
        Some("within") => words += ", within its maximum bit rate",
        Some(_) => words += ", its maximum bit rate is used up now",
        None => words += ", no maximum bit rate",
    }
    if qer["packet_rate"] == true {
        words += ", limits packets per time";
    }
    words
}

fn far_words(far: &Value) -> String {
    let actions: Vec<&str> = list(&far["action"]).iter().map(text).collect();
    let mut words = format!("{} to {}", actions.join(", "), text(&far["destination"]));
    if let Some(outer) = far["outer_header"].as_str() {
        words += &format!(", in {outer}");
    }
    if far["waits_for_rate"] == true {
        words += "; the packet waits for its rates first";
    }
    words
}

fn egress_words(egress: &Value) -> String {
    if egress["switched_locally"] == true {
        return format!("{}: another UE of this UPF", text(&egress["next_hop"]));
    }
    let mac = match egress["mac"].as_str() {
        Some(mac) => format!("at {mac}"),
        None => "whose link-layer address is unknown".to_owned(),
    };
    format!("{} {mac}, through {}", text(&egress["next_hop"]), text(&egress["interface"]))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Hours, minutes, seconds and nanoseconds of a time of day.
fn time_of_day(unix_ns: u64) -> String {
    let (seconds, ns) = (unix_ns / 1_000_000_000, unix_ns % 1_000_000_000);
    let of_day = seconds % 86_400;
    format!("{:02}:{:02}:{:02}.{ns:09}", of_day / 3600, of_day / 60 % 60, of_day % 60)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn dropped_packet_says_where_it_was_what_was_tried_and_why_it_ended() {
        let text = words(&json!({
            "packet": 3, "time_unix_ns": 3_723_000_000_005_u64, "worker": 1, "from": "port", "port": "access",
            "interface": "n3", "len": 90, "headers": ["Ethernet, IPv4, UDP, GTP-U", "IPv4, UDP"],
            "session": { "up_seid": "0x01", "by": "TEID 0x00000100", "pdrs": 2, "compiled_filters": false },
            "pdrs_tried": [
                { "pdr": 4, "precedence": 50, "matched": false, "why": "no SDF filter matches" },
                { "pdr": 1, "precedence": 100, "matched": true, "why": null },
            ],
            "pdr": 1, "direction": "uplink",
            "qers": [{ "qer": 1, "gate": "closed", "rate": null, "packet_rate": false }],
            "stages_ns": { "parse": 40, "classify": 60 },
            "outcome": { "kind": "dropped", "reason": "gate_closed", "text": "A gate is closed." },
        }))
        .to_string();
        let expected = "packet 3  01:02:03.000000005 UTC  worker 1, port access (n3), 90 octets
    received    Ethernet, IPv4, UDP, GTP-U
                IPv4, UDP
    session     0x01, by TEID 0x00000100
    PDR 4       precedence 50: no match, no SDF filter matches
    PDR 1       precedence 100: match, uplink
    QER 1       gate closed, no maximum bit rate
    time        parse 40, classify 60 ns: 100 ns together
  => DROPPED gate_closed: A gate is closed.
";
        assert_eq!(text, expected);
    }

    #[test]
    fn forwarded_packet_says_how_it_leaves() {
        let text = words(&json!({
            "packet": 1, "worker": 0, "from": "another thread", "port": "core", "interface": null, "len": 60,
            "urrs": [{ "urr": 1, "counted_bytes": 46 }, { "urr": 2, "counted_bytes": 0 }],
            "far": { "far": 2, "action": ["forward"], "destination": "Access",
                     "outer_header": "GTP-U to TEID 0x0000abcd at 192.168.10.2", "waits_for_rate": false },
            "egress": { "interface": "n3", "next_hop": "192.168.10.2", "mac": "02:00:00:00:00:b0" },
            "sent": [{ "port": "access", "interface": "n3", "len": 104, "headers": ["Ethernet"] }],
            "outcome": { "kind": "sent", "reason": null, "text": "It left." },
        }))
        .to_string();
        for line in [
            "worker 0, from another thread, port core, 60 octets",
            "URR 1       counts 46 octets",
            "URR 2       does not count it",
            "FAR 2       forward to Access, in GTP-U to TEID 0x0000abcd at 192.168.10.2",
            "next hop    192.168.10.2 at 02:00:00:00:00:b0, through n3",
            "sent        port access (n3), 104 octets",
            "  => sent",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }

    #[test]
    fn document_without_members_is_still_a_packet() {
        assert!(words(&json!({})).to_string().contains("=>"));
    }
}
