//! `adit show`: prints documents of the admin socket as tables or as JSON.
//!
//! Prints lists while they arrive, so that memory does not grow with the number of sessions.

use std::io::Write;
use std::path::Path;

use serde_json::{Map, Value};

use crate::admin::client::{self, DocumentSink};
use crate::admin::{AdminCommand, AdminQuestion};
use crate::cli::{DocumentForm, Topic};
use crate::foreign_text::{printable, printable_json};
use crate::text_table::{TextColumns, counted, plain_table, terminal_width};

/// Number of rows that determine the widths of columns; later rows can only widen them.
const ROWS_TOGETHER: usize = 512;

/// Prints the answer of the adit that listens at `socket`.
///
/// # Errors
/// As for [`client::request`]; those of the output.
pub(crate) fn show(
    socket: &Path,
    question: &AdminQuestion,
    form: DocumentForm,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let command = AdminCommand::Show(question.clone());
    if form.as_json {
        let mut printer = JsonPrinter { out, depth: Depth::Outside };
        client::request(socket, &command, &mut printer)?;
        return printer.finish();
    }
    let width = if form.wide { None } else { terminal_width() };
    let mut printer = Printer::new(question.topic, width, form.all, out);
    client::request(socket, &command, &mut printer)?;
    printer.finish()
}

/// Renders a whole document of `topic` as text.
pub(crate) fn render(topic: Topic, document: &Value) -> String {
    let mut text = Vec::new();
    let mut printer = Printer::new(topic, None, true, &mut text);
    let printed = printer.document(document).and_then(|()| printer.finish());
    debug_assert!(printed.is_ok(), "writing to memory does not fail");
    String::from_utf8_lossy(&text).trim_end_matches('\n').to_owned()
}

/// A list of a document, and the columns of its table.
type Columns = (&'static str, &'static [&'static str]);

const SESSIONS: Columns = (
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
);

const TRAFFIC: Columns =
    ("traffic", &["up_seid", "uplink_pkts", "uplink_bytes", "downlink_pkts", "downlink_bytes"]);

const WORKERS: Columns = (
    "workers",
    &[
        "thread",
        "role",
        "core",
        "node",
        "poll",
        "state",
        "busy_percent",
        "full_bursts_percent",
        "fullest_ring_percent",
        "received_pkts",
        "taken_over_pkts",
        "handed_off_pkts",
        "transmitted_pkts",
        "dropped_pkts",
        "cross_node_pkts",
        "frequency_mhz",
    ],
);

const RATES: Columns = (
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

const PACKET_RATES: Columns = (
    "packet_rates",
    &[
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
    ],
);

/// Rates that sessions share.
const SHARED: Columns =
    ("shared", &["s_nssai", "network_instance", "direction", "mbr_bps", "excess", "passed_bytes"]);

/// The lists of a topic that are printed as tables while they arrive. Except for the first list, empty lists are not shown.
fn lists(topic: Topic) -> &'static [Columns] {
    match topic {
        Topic::Associations => {
            &[("associations", &["node_id", "peer", "state", "sessions", "recovery_time_stamp"])]
        }
        Topic::Sessions => &[SESSIONS],
        Topic::Traffic => &[TRAFFIC],
        Topic::Neighbours => &[("neighbours", &["interface", "addr", "mac", "state", "pinned"])],
        Topic::Paths => &[("paths", &["peer", "state", "requests", "responses"])],
        Topic::Applications => {
            &[("applications", &["id", "source", "flow_descriptions", "in_effect"])]
        }
        Topic::Qos => &[RATES, PACKET_RATES, SHARED],
        Topic::Drops => &[("drops", &["reason", "pkts", "text"])],
        Topic::Taps => &[("taps", &["tap", "kind", "of", "running_s", "pkts", "skipped_pkts"])],
        Topic::Routes => &[
            ("interfaces", &["name", "role", "port", "vlan", "addresses", "network_instance"]),
            ("routes", &["prefix", "interface", "next_hop"]),
            ("ue_pools", &["prefix", "network_instance", "s_nssai", "identity", "used", "size"]),
        ],
        Topic::Ports
        | Topic::Counters
        | Topic::Store
        | Topic::Workers
        | Topic::Offload
        | Topic::Node
        | Topic::Health
        | Topic::Metrics => &[],
    }
}

/// The lists of a topic that is printed as a whole, below its other members.
fn lists_of_whole(topic: Topic) -> &'static [Columns] {
    match topic {
        Topic::Workers => &[
            WORKERS,
            ("scheduler", &["name", "value"]),
            ("idle_states", &["thread", "core", "state", "seconds"]),
            ("energy", &["zone", "joules"]),
        ],
        Topic::Offload => &[("refusals", &["reason", "rules"])],
        Topic::Health => &[("reasons", &["reason", "detail"])],
        Topic::Store => &[("set_aside_sessions", &["seid", "reason"])],
        _ => &[],
    }
}

/// A list being printed as a table.
struct List {
    name: &'static str,
    columns: TextColumns,
    /// Rows not printed yet.
    rows: Vec<Value>,
    count: usize,
    is_first: bool,
    is_begun: bool,
}

/// Prints a document as text while it arrives.
struct Printer<'o, W> {
    topic: Topic,
    /// Width of the terminal.
    width: Option<u16>,
    /// Rows that count nothing are printed, too.
    shows_zeros: bool,
    out: &'o mut W,
    list: Option<List>,
    /// True once something has been printed.
    is_begun: bool,
    /// Members to print at the end, for topics without lists.
    whole: Map<String, Value>,
    key: String,
}

impl<'o, W: Write> Printer<'o, W> {
    fn new(topic: Topic, width: Option<u16>, shows_zeros: bool, out: &'o mut W) -> Self {
        let (whole, key) = (Map::new(), String::new());
        Self { topic, width, shows_zeros, out, list: None, is_begun: false, whole, key }
    }

    /// Processes a whole document.
    fn document(&mut self, document: &Value) -> anyhow::Result<()> {
        for (key, value) in document.as_object().into_iter().flatten() {
            match value {
                Value::Array(rows) => {
                    self.list(key)?;
                    rows.iter().try_for_each(|row| self.row(row.clone()))?;
                }
                other => self.member(key.clone(), other.clone())?,
            }
        }
        Ok(())
    }

    /// Ends the document.
    fn finish(mut self) -> anyhow::Result<()> {
        self.end_list()?;
        let whole = core::mem::take(&mut self.whole);
        match self.topic {
            Topic::Ports => writeln!(self.out, "{}", ports(&Value::Object(whole), self.width))?,
            Topic::Counters => writeln!(self.out, "{}", counters(&whole))?,
            Topic::Store | Topic::Workers | Topic::Offload | Topic::Node | Topic::Health => {
                writeln!(self.out, "{}", members(whole, lists_of_whole(self.topic), self.width))?;
            }
            _ => {}
        }
        Ok(self.out.flush()?)
    }

    fn end_list(&mut self) -> anyhow::Result<()> {
        let Some(mut list) = self.list.take() else { return Ok(()) };
        self.print(&mut list)?;
        if list.is_first || list.count > 0 {
            writeln!(self.out, "{}", footer(list.count, list.name, &list.columns))?;
        }
        Ok(())
    }

    /// Prints the pending rows.
    fn print(&mut self, list: &mut List) -> anyhow::Result<()> {
        if list.rows.is_empty() && (list.is_begun || !list.is_first) {
            return Ok(());
        }
        if !core::mem::replace(&mut list.is_begun, true)
            && core::mem::replace(&mut self.is_begun, true)
        {
            writeln!(self.out)?;
        }
        let rows: Vec<Value> = list.rows.drain(..).collect();
        Ok(writeln!(self.out, "{}", list.columns.table(cells(&rows, &list.columns)))?)
    }
}

impl<W: Write> DocumentSink for Printer<'_, W> {
    fn list(&mut self, key: &str) -> anyhow::Result<()> {
        self.end_list()?;
        let mut lists = lists(self.topic).iter().enumerate();
        self.list = lists.find(|(_, (name, _))| *name == key).map(|(position, (name, columns))| {
            let (rows, is_first) = (Vec::new(), position == 0);
            let columns = TextColumns::new(columns, self.width);
            List { name, columns, rows, count: 0, is_first, is_begun: false }
        });
        if self.list.is_none() {
            self.whole.insert(key.to_owned(), Value::Array(Vec::new()));
            key.clone_into(&mut self.key);
        }
        Ok(())
    }

    fn row(&mut self, row: Value) -> anyhow::Result<()> {
        if self.topic == Topic::Metrics {
            return Ok(self.out.write_all(row.as_str().unwrap_or_default().as_bytes())?);
        }
        let Some(mut list) = self.list.take() else {
            let rows = self.whole.get_mut(&self.key).and_then(Value::as_array_mut);
            rows.into_iter().for_each(|rows| rows.push(row.clone()));
            return Ok(());
        };
        let counts_nothing = self.topic == Topic::Drops && row["pkts"] == 0;
        if self.shows_zeros || !counts_nothing {
            list.rows.push(row);
            list.count += 1;
        }
        if list.rows.len() >= ROWS_TOGETHER {
            self.print(&mut list)?;
        }
        self.list = Some(list);
        Ok(())
    }

    fn member(&mut self, key: String, value: Value) -> anyhow::Result<()> {
        self.whole.insert(key, value);
        Ok(())
    }
}

/// Position of a [`JsonPrinter`] in its document.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    Outside,
    /// After a member.
    Members,
    /// In a list, before its first row.
    NewList,
    /// In a list, after a row.
    List,
}

/// Prints a document as JSON while it arrives, indented by two spaces.
struct JsonPrinter<'o, W> {
    out: &'o mut W,
    depth: Depth,
}

impl<W: Write> JsonPrinter<'_, W> {
    fn key(&mut self, key: &str) -> anyhow::Result<()> {
        self.end_list()?;
        self.out.write_all(if self.depth == Depth::Outside { b"{\n  " } else { b",\n  " })?;
        self.depth = Depth::Members;
        serde_json::to_writer(&mut *self.out, key)?;
        Ok(self.out.write_all(b": ")?)
    }

    fn end_list(&mut self) -> anyhow::Result<()> {
        match self.depth {
            Depth::Outside | Depth::Members => return Ok(()),
            Depth::NewList => self.out.write_all(b"]")?,
            Depth::List => self.out.write_all(b"\n  ]")?,
        }
        self.depth = Depth::Members;
        Ok(())
    }

    fn finish(mut self) -> anyhow::Result<()> {
        self.end_list()?;
        self.out.write_all(if self.depth == Depth::Outside { b"{}\n" } else { b"\n}\n" })?;
        Ok(self.out.flush()?)
    }

    /// Writes a value after the indentation of its first line.
    fn value(&mut self, value: &Value, indent: &str) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(value)?;
        let text = printable_json(&text);
        // Strings contain no raw line feeds: JSON escapes them.
        Ok(self.out.write_all(text.replace('\n', &format!("\n{indent}")).as_bytes())?)
    }
}

impl<W: Write> DocumentSink for JsonPrinter<'_, W> {
    fn list(&mut self, key: &str) -> anyhow::Result<()> {
        self.key(key)?;
        self.depth = Depth::NewList;
        Ok(self.out.write_all(b"[")?)
    }

    fn row(&mut self, row: Value) -> anyhow::Result<()> {
        self.out.write_all(if self.depth == Depth::List { b",\n    " } else { b"\n    " })?;
        self.depth = Depth::List;
        self.value(&row, "    ")
    }

    fn member(&mut self, key: String, value: Value) -> anyhow::Result<()> {
        self.key(&key)?;
        self.value(&value, "  ")
    }
}

/// Renders the ports, with the distribution of their packets over workers and their losses.
fn ports(document: &Value, width: Option<u16>) -> String {
    let mut text = table(
        document,
        width,
        "ports",
        &[
            "name",
            "device",
            "driver",
            "mac",
            "mtu_bytes",
            "rx_queues",
            "link",
            "link_losses",
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

fn table(document: &Value, width: Option<u16>, key: &str, columns: &[&'static str]) -> String {
    let rows = document.get(key).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut columns = TextColumns::new(columns, width);
    let table = columns.table(cells(rows, &columns));
    format!("{table}\n{}", footer(rows.len(), key, &columns))
}

fn cells(rows: &[Value], columns: &TextColumns) -> Vec<Vec<String>> {
    let of_row = |row: &Value| {
        let cells = columns.shown.iter().map(|column| row.get(column).map_or(String::new(), cell));
        cells.collect()
    };
    rows.iter().map(of_row).collect()
}

/// How many rows there are, and which columns are not.
fn footer(count: usize, name: &str, columns: &TextColumns) -> String {
    let mut text = counted(count, name);
    if !columns.left_out.is_empty() {
        let left_out: Vec<_> = columns.left_out.iter().map(|name| name.replace('_', " ")).collect();
        text.push_str(&format!("; --wide shows {} as well", left_out.join(", ")));
    }
    text
}

/// Renders scalars by name, then each list that has rows.
fn members(members: Map<String, Value>, lists: &[Columns], width: Option<u16>) -> String {
    let mut text = scalars(&members);
    let document = Value::Object(members);
    for (name, columns) in lists {
        let is_empty = document.get(name).and_then(Value::as_array).is_none_or(Vec::is_empty);
        if !is_empty {
            text.push_str(&format!("\n\n{}", table(&document, width, name, columns)));
        }
    }
    text
}

fn scalars(members: &Map<String, Value>) -> String {
    let mut table = plain_table(None);
    for (name, value) in members.iter().filter(|(_, value)| !value.is_object() && !value.is_array())
    {
        table.add_row([name.replace('_', " "), cell(value)]);
    }
    table.to_string()
}

/// Renders scalars by name, then each group with its non-zero members.
fn counters(members: &Map<String, Value>) -> String {
    let mut text = scalars(members);
    for (name, group) in members.iter().filter_map(|(n, v)| Some((n, v.as_object()?))) {
        let mut table = plain_table(None);
        for (member, value) in group.iter().filter(|(_, value)| value.as_u64() != Some(0)) {
            table.add_row([member.clone(), cell(value)]);
        }
        text.push_str(&format!("\n\n{}\n", name.replace('_', " ")));
        text.push_str(&if table.is_empty() { "(all zero)".to_owned() } else { table.to_string() });
    }
    text
}

fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => printable(text).into_owned(),
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
    fn text_that_a_peer_chose_does_not_reach_the_terminal_raw() {
        let hostile = "a\u{1b}[2J\u{9b}31m\u{202e}";
        let document = json!({ "applications": [{ "id": hostile, "flow_descriptions": 1 }] });
        let text = render(Topic::Applications, &document);
        assert!(text.contains("a\\u{1b}[2J") && !text.contains('\u{9b}'), "{text:?}");
        let mut out = Vec::new();
        let mut printer = JsonPrinter { out: &mut out, depth: Depth::Outside };
        printer.member("id".to_owned(), json!(hostile)).unwrap();
        printer.finish().unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("\\u009b31m\\u202e"), "{text:?}");
    }

    #[test]
    fn list_shows_rows_and_counts_them() {
        let document = json!({ "neighbours": [
            { "interface": "n6", "addr": "10.0.6.1", "mac": null, "state": "incomplete", "pinned": true },
        ]});
        let text = render(Topic::Neighbours, &document);
        assert!(text.contains("10.0.6.1") && text.contains("incomplete"), "{text}");
        assert_eq!(text.lines().last(), Some(counted(1, "neighbours").as_str()), "{text}");
    }

    #[test]
    fn drops_are_those_that_happened_unless_all_are_wanted() {
        let document = json!({ "dropped_pkts": 3, "drops": [
            { "reason": "far_drop", "pkts": 3, "text": "a" },
            { "reason": "gate_closed", "pkts": 0, "text": "b" },
        ]});
        let shown = |all| {
            let mut text = Vec::new();
            let mut printer = Printer::new(Topic::Drops, None, all, &mut text);
            printer.document(&document).unwrap();
            printer.finish().unwrap();
            String::from_utf8(text).unwrap()
        };
        assert!(shown(true).contains("gate_closed") && shown(true).ends_with("2 drops\n"));
        assert!(!shown(false).contains("gate_closed") && shown(false).contains("far_drop"));
    }

    #[test]
    fn metrics_are_shown_as_their_text() {
        let document = json!({ "metrics": ["# HELP a A.\na 1\n", "b 2\n# EOF\n"] });
        assert_eq!(render(Topic::Metrics, &document), "# HELP a A.\na 1\nb 2\n# EOF");
    }

    #[test]
    fn store_is_shown_by_its_members() {
        let document = json!({ "role": "standby", "lag_groups": 3, "failure": null });
        let text = render(Topic::Store, &document);
        assert!(text.contains("standby") && text.contains("lag groups"), "{text}");
    }

    #[test]
    fn rows_of_a_long_list_are_printed_while_they_arrive_under_one_header() {
        let mut out = Vec::new();
        let mut printer = Printer::new(Topic::Paths, None, true, &mut out);
        printer.list("paths").unwrap();
        for n in 0..2 * ROWS_TOGETHER {
            printer.row(json!({ "peer": format!("2001:db8::{n:x}"), "state": "up" })).unwrap();
            let waiting = printer.list.as_ref().unwrap().rows.len();
            assert!(waiting < ROWS_TOGETHER, "{waiting}");
        }
        printer.finish().unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.matches("requests").count(), 1);
        assert_eq!(text.matches("2001:db8::").count(), 2 * ROWS_TOGETHER);
        assert!(text.ends_with("1024 paths\n"), "{text}");
        let column = |line: &str| line.split("up").next().map(|before| before.chars().count());
        let rows: Vec<_> = text.lines().filter(|line| line.contains("2001")).map(column).collect();
        assert_eq!(rows.first(), rows.get(ROWS_TOGETHER - 1), "{text}");
        assert_eq!(rows.get(ROWS_TOGETHER - 1), rows.get(ROWS_TOGETHER), "{text}");
    }

    #[test]
    fn json_is_the_document_however_it_is_cut() {
        let document = json!({
            "rates": [{ "a": [1, { "b": "x\ny" }] }, {}], "none": [], "sum": { "uplink": null },
        });
        let mut out = Vec::new();
        let mut printer = JsonPrinter { out: &mut out, depth: Depth::Outside };
        for (key, value) in document.as_object().unwrap() {
            match value {
                Value::Array(rows) => {
                    printer.list(key).unwrap();
                    rows.iter().for_each(|row| printer.row(row.clone()).unwrap());
                }
                other => printer.member(key.clone(), other.clone()).unwrap(),
            }
        }
        printer.finish().unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, format!("{}\n", serde_json::to_string_pretty(&document).unwrap()));
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
    fn ports_show_how_their_packets_are_distributed() {
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
    fn offload_shows_sessions_and_share_also_without_refusals() {
        let mut document = json!({
            "offload": "xdp", "offloaded_sessions": 7, "offloaded_percent": 98.5, "refusals": [],
        });
        let line = |text: &str, name: &str| {
            let found = text.lines().find(|line| line.contains(name));
            found.unwrap_or_default().split_whitespace().last().unwrap_or_default().to_owned()
        };
        let text = render(Topic::Offload, &document);
        let words = ["offload ", "offloaded sessions", "offloaded percent"];
        assert_eq!(words.map(|name| line(&text, name)), ["xdp", "7", "98.5"]);
        assert!(!text.contains("reason"), "{text}");
        document["refusals"] = json!([{ "reason": "several URRs", "rules": 2 }]);
        let text = render(Topic::Offload, &document);
        assert!(text.contains("several URRs") && text.ends_with("1 refusal"), "{text}");
    }

    #[test]
    fn workers_stand_before_the_counters_of_their_scheduler() {
        let document = json!({
            "model": "eventdev", "scheduler": [{ "name": "dev_rx", "value": 2 }],
            "workers": [{ "thread": 0, "role": "rx-tx", "busy_percent": 12.5 }],
        });
        let text = render(Topic::Workers, &document);
        let [model, worker, scheduler] =
            ["eventdev", "rx-tx", "dev_rx"].map(|word| text.find(word).unwrap());
        assert!(model < worker && worker < scheduler, "{text}");
    }

    #[test]
    fn store_lists_sessions_that_are_set_aside() {
        let rows = json!([{ "seid": "0x0000000100000001", "reason": "the record has version 9" }]);
        let document = json!({ "store": "redis", "set_aside": 1, "set_aside_sessions": rows });
        let text = render(Topic::Store, &document);
        assert!(text.contains("0x0000000100000001") && text.contains("version 9"), "{text}");
    }

    #[test]
    fn store_shows_its_state() {
        let text = render(Topic::Store, &json!({ "store": "journal", "state": "working" }));
        assert!(text.contains("journal") && text.contains("working"), "{text}");
    }

    #[test]
    fn counters_hide_zeros_of_groups_and_keep_scalars() {
        let document = json!({ "received_pkts": 0, "drops": { "far_drop": 3, "gate_closed": 0 } });
        let text = render(Topic::Counters, &document);
        assert!(text.contains("received pkts") && text.contains("far_drop"), "{text}");
        assert!(!text.contains("gate_closed"));
    }
}
