//! Describes a packet of a trace in words, from its document.

use super::packet::{
    PacketWords, TracedEgress, TracedFar, TracedFastPath, TracedFrame, TracedOutcome, TracedPacket,
    TracedQer, TracedSession, TracedUrr, TracedWait, TriedPdr, WordsLine,
};

/// Returns the text that `adit trace` prints about a packet.
pub(crate) fn words(packet: &TracedPacket) -> PacketWords {
    let mut lines = PacketLines(Vec::new());
    match &packet.waited {
        Some(TracedWait { r#for: reason, ns }) => {
            lines.headers("held", &packet.headers);
            let us = ns / 1000;
            lines.add("waited", &format!("{}.{:03} ms for {reason}", us / 1000, us % 1000));
        }
        None => lines.headers("received", &packet.headers),
    }
    if let Some(TracedSession { up_seid, by, .. }) = &packet.session {
        lines.add("session", &format!("{up_seid}, by {by}"));
    }
    lines.pdrs(packet);
    for qer in &packet.qers {
        lines.add(&format!("QER {}", qer.qer), &qer_words(qer));
    }
    for TracedUrr { urr, counted_bytes } in &packet.urrs {
        let counted = match counted_bytes {
            0 => "does not count it".to_owned(),
            bytes => format!("counts {bytes} octets"),
        };
        lines.add(&format!("URR {urr}"), &counted);
    }
    if let Some(far) = &packet.far {
        lines.add(&format!("FAR {}", far.far), &far_words(far));
    }
    if let Some(egress) = &packet.egress {
        lines.add("next hop", &egress_words(egress));
    }
    if let Some(path) = &packet.fast_path {
        lines.add("fast path", &fast_path_words(path));
        if let Some(difference) = &path.difference {
            lines.add("DIFFERENCE", &format!("by the stages {difference}: report this fault"));
        }
    }
    for TracedFrame { port, interface, len, headers, .. } in &packet.sent {
        lines.add("sent", &format!("port {port} ({interface}), {len} octets"));
        lines.headers("", headers);
    }
    if !packet.stages_ns.is_empty() {
        let all: u64 = packet.stages_ns.values().sum();
        let order =
            ["parse", "lookup", "classify", "enforce", "account", "apply", "slow_path", "transmit"];
        let each = order.iter().filter_map(|stage| {
            Some(format!("{} {}", stage.replace('_', " "), packet.stages_ns.get(*stage)?))
        });
        let each: Vec<String> = each.collect();
        lines.add("time", &format!("{} ns: {all} ns together", each.join(", ")));
    }
    let PacketLines(lines) = lines;
    PacketWords { head: head(packet), lines, outcome: outcome(&packet.outcome) }
}

struct PacketLines(Vec<WordsLine>);

impl PacketLines {
    fn add(&mut self, name: &str, what: &str) {
        self.0.push(WordsLine { name: name.to_owned(), text: what.to_owned() });
    }

    fn headers(&mut self, name: &str, headers: &[String]) {
        for (at, header) in headers.iter().enumerate() {
            let name = if at == 0 { name } else { "" };
            self.add(name, header);
        }
    }

    fn pdrs(&mut self, packet: &TracedPacket) {
        for TriedPdr { pdr, precedence, why, .. } in &packet.pdrs_tried {
            let what = match why {
                Some(why) => format!("precedence {precedence}: no match, {why}"),
                None => {
                    let direction = packet.direction.as_deref().unwrap_or_default();
                    format!("precedence {precedence}: match, {direction}")
                }
            };
            self.add(&format!("PDR {pdr}"), &what);
        }
        let Some(session) = &packet.session else { return };
        let others = session.pdrs.saturating_sub(packet.pdrs_tried.len() as u64);
        if others > 0 && packet.pdr.is_none() && !packet.pdrs_tried.is_empty() {
            self.add("", &format!("{others} others: no match"));
        } else if session.pdrs == 0 {
            self.add("", "the session has no PDR for this direction");
        }
    }
}

fn outcome(TracedOutcome { kind, reason, text }: &TracedOutcome) -> String {
    match reason {
        Some(reason) if kind == "dropped" => format!("DROPPED {reason}: {text}"),
        Some(reason) => format!("{kind} {reason}: {text}"),
        None if kind == "sent" => kind.clone(),
        None => format!("{kind}: {text}"),
    }
}

fn head(packet: &TracedPacket) -> String {
    let TracedPacket { packet: number, worker, from, port, interface, len, .. } = packet;
    let at = time_of_day(packet.time_unix_ns);
    let place = match (port, interface) {
        (Some(port), Some(interface)) => format!("port {port} ({interface})"),
        (Some(port), None) => format!("port {port}"),
        _ => "port unknown by now".to_owned(),
    };
    let from = match from.as_str() {
        "port" => String::new(),
        from => format!(", from {from}"),
    };
    format!("packet {number}  {at} UTC  worker {worker}{from}, {place}, {len} octets")
}

fn qer_words(TracedQer { gate, rate, packet_rate, .. }: &TracedQer) -> String {
    let mut words = format!("gate {gate}");
    match rate.as_deref() {
        Some("within") => words += ", within its maximum bit rate",
        Some(_) => words += ", its maximum bit rate is used up now",
        None => words += ", no maximum bit rate",
    }
    if *packet_rate {
        words += ", limits packets per time";
    }
    words
}

fn far_words(far: &TracedFar) -> String {
    let mut words = format!("{} to {}", far.action.join(", "), far.destination);
    if let Some(outer) = &far.outer_header {
        words += &format!(", in {outer}");
    }
    if far.waits_for_rate {
        words += "; the packet waits for its rates first";
    }
    words
}

fn fast_path_words(path: &TracedFastPath) -> String {
    let TracedFastPath { kind, text, port, interface, len, difference, .. } = path;
    let (Some(port), Some(interface), Some(len)) = (port, interface, len) else {
        return format!("leaves the packet to the stages: {text}");
    };
    let place = format!("port {port} ({interface}), {len} octets");
    match (kind.as_str(), difference) {
        ("queues", None) => format!("would queue it for its rates, then send it through {place}"),
        ("queues", _) => format!("would queue it for its rates: {place}"),
        (_, None) => format!("would send the same octets: {place}"),
        _ => format!("would send it: {place}"),
    }
}

fn egress_words(egress: &TracedEgress) -> String {
    let TracedEgress { interface, next_hop, mac, switched_locally, dscp } = egress;
    let hop = match (mac, switched_locally) {
        (_, true) => format!("{next_hop}: another UE of this UPF"),
        (Some(mac), _) => format!("{next_hop} at {mac}, through {interface}"),
        (None, _) => {
            format!("{next_hop} whose link-layer address is unknown, through {interface}")
        }
    };
    match dscp {
        Some(dscp) => format!("{hop}; the user's packet gets DSCP {dscp}"),
        None => hop,
    }
}

/// Formats a time of day as hours, minutes, seconds and nanoseconds.
fn time_of_day(unix_ns: u64) -> String {
    let (seconds, ns) = (unix_ns / 1_000_000_000, unix_ns % 1_000_000_000);
    let of_day = seconds % 86_400;
    format!("{:02}:{:02}:{:02}.{ns:09}", of_day / 3600, of_day / 60 % 60, of_day % 60)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(packet: serde_json::Value) -> String {
        words(&serde_json::from_value(packet).unwrap()).to_string()
    }

    #[test]
    fn dropped_packet_says_where_it_was_what_was_tried_and_why_it_ended() {
        let text = said(json!({
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
        }));
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
        let text = said(json!({
            "packet": 1, "time_unix_ns": 0, "worker": 0, "from": "another thread", "port": "core", "interface": null, "len": 60,
            "urrs": [{ "urr": 1, "counted_bytes": 46 }, { "urr": 2, "counted_bytes": 0 }],
            "far": { "far": 2, "action": ["forward"], "destination": "Access",
                     "outer_header": "GTP-U to TEID 0x0000abcd at 192.168.10.2", "waits_for_rate": false },
            "egress": { "interface": "n3", "next_hop": "192.168.10.2", "mac": "02:00:00:00:00:b0", "switched_locally": false },
            "fast_path": { "kind": "sends", "reason": null, "text": "", "port": "access", "interface": "n3",
                           "len": 104, "difference": "octet 22 of the frame is 0x40, by the fast path 0x3f" },
            "sent": [{ "port": "access", "interface": "n3", "len": 104, "headers": ["Ethernet"] }],
            "outcome": { "kind": "sent", "reason": null, "text": "It left." },
        }));
        for line in [
            "worker 0, from another thread, port core, 60 octets",
            "URR 1       counts 46 octets",
            "URR 2       does not count it",
            "FAR 2       forward to Access, in GTP-U to TEID 0x0000abcd at 192.168.10.2",
            "next hop    192.168.10.2 at 02:00:00:00:00:b0, through n3",
            "fast path   would send it: port access (n3), 104 octets",
            "DIFFERENCE  by the stages octet 22 of the frame is 0x40, by the fast path 0x3f: report",
            "sent        port access (n3), 104 octets",
            "  => sent",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}
