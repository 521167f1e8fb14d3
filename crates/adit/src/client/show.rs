//! `adit show`: prints documents of the HTTP interface as tables or as JSON.
//!
//! Prints lists while their pages arrive, so that memory does not grow with the number of sessions.

use std::io::Write;
use std::path::Path;

use adit_types::limits::API_ROWS_MAX;
use serde_json::{Map, Value};

use crate::admin::AdminQuestion;
use crate::cli::{DocumentForm, MetricsFormat, Topic};
use crate::foreign_text::{printable, printable_json};
use crate::request::http_client::{self, HttpRequest, encoded};
use crate::snapshot::{
    ApplicationsDocument, AssociationsDocument, DropsDocument, HealthDocument, KernelDocument,
    NeighborsPage, NrfDocument, OffloadDocument, PathsPage, PortsDocument, QosPage, RoutesDocument,
    SessionsPage, StoreDocument, TapsDocument, TrafficPage, WorkersDocument,
};
use crate::text_table::{TextColumns, TextList, counted, plain_table, terminal_width};

/// Rows that are printed together; the first ones determine the widths of columns.
const ROWS_PER_BATCH: usize = 512;

/// Prints the answer of the adit that listens at `socket`.
///
/// # Errors
/// Those of [`http_client::document`], and of writing to `out`.
pub(crate) fn show(
    socket: &Path,
    question: &AdminQuestion,
    form: DocumentForm,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    if form.as_json {
        let mut printer = JsonPrinter::new(question.topic, out);
        pages(socket, question, |page| printer.page(page))?;
        return printer.finish();
    }
    let width = if form.wide { None } else { terminal_width() };
    let mut printer = TextPrinter::new(question.topic, width, form.all, out);
    pages(socket, question, |page| printer.page(page))?;
    printer.finish()
}

/// Returns the lists of a topic's document that are printed as tables.
const fn tables_of(topic: Topic) -> &'static [TextList] {
    match topic {
        Topic::Associations => AssociationsDocument::TABLES,
        Topic::Sessions => SessionsPage::TABLES,
        Topic::Traffic => TrafficPage::TABLES,
        Topic::Drops => DropsDocument::TABLES,
        Topic::Health => HealthDocument::TABLES,
        Topic::Ports => PortsDocument::TABLES,
        Topic::Workers => WorkersDocument::TABLES,
        Topic::Offload => OffloadDocument::TABLES,
        Topic::Neighbours => NeighborsPage::TABLES,
        Topic::Nrf => NrfDocument::TABLES,
        Topic::Paths => PathsPage::TABLES,
        Topic::Routes => RoutesDocument::TABLES,
        Topic::Kernel => KernelDocument::TABLES,
        Topic::Applications => ApplicationsDocument::TABLES,
        Topic::Qos => QosPage::TABLES,
        Topic::Store => StoreDocument::TABLES,
        Topic::Taps => TapsDocument::TABLES,
        Topic::Counters | Topic::Node | Topic::Metrics => &[],
    }
}

/// True if the members of a topic's document that are no lists are printed above its tables.
const fn has_members(topic: Topic) -> bool {
    matches!(
        topic,
        Topic::Health
            | Topic::Node
            | Topic::Nrf
            | Topic::Offload
            | Topic::Ports
            | Topic::Store
            | Topic::Workers
    )
}

/// Passes each page of a document to `take`; a document without pages is passed whole.
///
/// # Errors
/// Those of [`http_client::document`] and of `take`.
pub(crate) fn pages(
    socket: &Path,
    question: &AdminQuestion,
    mut take: impl FnMut(Map<String, Value>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut question = question.clone();
    if question.topic == Topic::Metrics {
        let text = http_client::text(socket, &metrics_request(question.format))?;
        return take(Map::from_iter([("metrics".to_owned(), Value::from(vec![text]))]));
    }
    let mut next = Value::Null;
    loop {
        let request = HttpRequest::new("GET", target(&question, next.as_str()));
        let mut page = http_client::document(socket, &request)?;
        next = page.remove("next").unwrap_or_default();
        if let Some(left) = &mut question.rows_max {
            let rows = page.values().filter_map(Value::as_array).map(Vec::len);
            *left = left.saturating_sub(rows.sum());
        }
        take(page)?;
        if next.is_null() || question.rows_max == Some(0) {
            return Ok(());
        }
    }
}

fn metrics_request(format: MetricsFormat) -> HttpRequest {
    HttpRequest::new("GET", Topic::Metrics.path()).accepting(match format {
        MetricsFormat::Openmetrics => "application/openmetrics-text",
        MetricsFormat::Prometheus => "text/plain",
    })
}

/// Returns path and query of the request for a page.
fn target(question: &AdminQuestion, cursor: Option<&str>) -> String {
    let AdminQuestion { topic, session, filter, rows_max, format: _ } = question;
    let limit = topic.has_pages().then(|| rows_max.unwrap_or(API_ROWS_MAX).min(API_ROWS_MAX));
    let limit = limit.map(|limit| limit.to_string());
    let parameters = [
        ("session", session.as_deref()),
        ("ue", filter.ue.as_deref()),
        ("seid", filter.seid.as_deref()),
        ("teid", filter.teid.as_deref()),
        ("dnn", filter.dnn.as_deref()),
        ("slice", filter.slice.as_deref()),
        ("limit", limit.as_deref()),
        ("cursor", cursor),
    ];
    let given = parameters.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let query: Vec<_> = given.map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    let separator = if query.is_empty() { "" } else { "?" };
    format!("{}{separator}{}", topic.path(), query.join("&"))
}

/// Renders a whole document of `topic` as text.
pub(crate) fn render(topic: Topic, document: &Value) -> String {
    let mut text = Vec::new();
    let mut printer = TextPrinter::new(topic, None, true, &mut text);
    let members = document.as_object().cloned().unwrap_or_default();
    let printed = printer.page(members).and_then(|()| printer.finish());
    debug_assert!(printed.is_ok(), "writing to memory does not fail");
    String::from_utf8_lossy(&text).trim_end_matches('\n').to_owned()
}

/// A list being printed as a table.
struct PrintedList {
    name: &'static str,
    columns: TextColumns,
    /// Rows not printed yet.
    rows: Vec<Value>,
    count: usize,
    is_first: bool,
    is_begun: bool,
}

/// Prints a document as text while its pages arrive.
struct TextPrinter<'o, W> {
    topic: Topic,
    /// Width of the terminal.
    width: Option<u16>,
    /// True if rows whose counters are zero are printed as well.
    shows_zeros: bool,
    out: &'o mut W,
    list: Option<PrintedList>,
    /// True once something has been printed.
    is_begun: bool,
    /// Members that are not printed page by page; printed at the end.
    whole: Map<String, Value>,
}

impl<'o, W: Write> TextPrinter<'o, W> {
    fn new(topic: Topic, width: Option<u16>, shows_zeros: bool, out: &'o mut W) -> Self {
        let whole = Map::new();
        Self { topic, width, shows_zeros, out, list: None, is_begun: false, whole }
    }

    /// Processes a page of the document.
    fn page(&mut self, mut page: Map<String, Value>) -> anyhow::Result<()> {
        let tables = if has_members(self.topic) { &[] } else { tables_of(self.topic) };
        for (position, TextList { name, columns }) in tables.iter().enumerate() {
            let Some(Value::Array(rows)) = page.remove(*name) else { continue };
            let is_known = self.list.as_ref().is_some_and(|list| list.name == *name);
            if !is_known && (position == 0 || !rows.is_empty()) {
                self.end_list()?;
                let (columns, is_first) = (TextColumns::new(columns, self.width), position == 0);
                let (rows, count, is_begun) = (Vec::new(), 0, false);
                self.list = Some(PrintedList { name, columns, rows, count, is_first, is_begun });
            }
            self.rows(rows)?;
        }
        self.whole.extend(page);
        Ok(())
    }

    /// Adds rows to the present list, and prints them once there are enough.
    fn rows(&mut self, mut rows: Vec<Value>) -> anyhow::Result<()> {
        let Some(mut list) = self.list.take() else { return Ok(()) };
        if self.topic == Topic::Drops && !self.shows_zeros {
            rows.retain(|row| row["pkts"] != 0);
        }
        list.count += rows.len();
        list.rows.extend(rows);
        if list.rows.len() >= ROWS_PER_BATCH {
            self.print(&mut list)?;
        }
        self.list = Some(list);
        Ok(())
    }

    /// Prints the rest of the document.
    fn finish(mut self) -> anyhow::Result<()> {
        self.end_list()?;
        let (whole, width) = (core::mem::take(&mut self.whole), self.width);
        match self.topic {
            Topic::Ports => writeln!(self.out, "{}", ports(&Value::Object(whole), width))?,
            Topic::Counters => writeln!(self.out, "{}", counters(&whole))?,
            Topic::Metrics => {
                let parts = whole.get("metrics").and_then(Value::as_array).into_iter().flatten();
                for part in parts.filter_map(Value::as_str) {
                    self.out.write_all(part.as_bytes())?;
                }
            }
            topic if has_members(topic) => {
                writeln!(self.out, "{}", members(whole, tables_of(topic), width))?;
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
    fn print(&mut self, list: &mut PrintedList) -> anyhow::Result<()> {
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

/// Prints a document as JSON while its pages arrive, indented by two spaces.
struct JsonPrinter<'o, W> {
    /// Lists that a document splits among its pages, in the document's order.
    lists: &'static [TextList],
    out: &'o mut W,
    /// How many lists have begun.
    begun: usize,
    /// True once the present list has a printed row.
    has_rows: bool,
    /// All other members, to print at the end.
    members: Map<String, Value>,
}

impl<'o, W: Write> JsonPrinter<'o, W> {
    fn new(topic: Topic, out: &'o mut W) -> Self {
        let lists = if topic.has_pages() { tables_of(topic) } else { &[] };
        Self { lists, out, begun: 0, has_rows: false, members: Map::new() }
    }

    /// Prints the rows of a page.
    fn page(&mut self, mut page: Map<String, Value>) -> anyhow::Result<()> {
        for (position, list) in self.lists.iter().enumerate() {
            let Some(Value::Array(rows)) = page.remove(list.name) else { continue };
            for row in rows {
                self.begin_lists(position + 1)?;
                let separator = if self.has_rows { ",\n    " } else { "\n    " };
                self.out.write_all(separator.as_bytes())?;
                self.has_rows = true;
                self.value(&row, "    ")?;
            }
        }
        self.members.extend(page);
        Ok(())
    }

    /// Ends the present list and begins further ones, until `count` lists have begun.
    fn begin_lists(&mut self, count: usize) -> anyhow::Result<()> {
        while self.begun < count
            && let Some(list) = self.lists.get(self.begun)
        {
            self.end_list()?;
            self.key(list.name, self.begun == 0)?;
            self.out.write_all(b"[")?;
            (self.begun, self.has_rows) = (self.begun + 1, false);
        }
        Ok(())
    }

    fn end_list(&mut self) -> anyhow::Result<()> {
        let end = match (self.begun, self.has_rows) {
            (0, _) => "",
            (_, true) => "\n  ]",
            (_, false) => "]",
        };
        Ok(self.out.write_all(end.as_bytes())?)
    }

    fn key(&mut self, key: &str, is_first: bool) -> anyhow::Result<()> {
        self.out.write_all(if is_first { b"{\n  " } else { b",\n  " })?;
        serde_json::to_writer(&mut *self.out, key)?;
        Ok(self.out.write_all(b": ")?)
    }

    fn finish(mut self) -> anyhow::Result<()> {
        self.begin_lists(self.lists.len())?;
        self.end_list()?;
        let mut is_first = self.begun == 0;
        for (key, value) in core::mem::take(&mut self.members) {
            self.key(&key, core::mem::take(&mut is_first))?;
            self.value(&value, "  ")?;
        }
        self.out.write_all(if is_first { b"{}\n" } else { b"\n}\n" })?;
        Ok(self.out.flush()?)
    }

    /// Writes a value whose first line is indented already; `indent` is for its other lines.
    fn value(&mut self, value: &Value, indent: &str) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(value)?;
        let text = printable_json(&text);
        // Strings contain no raw line feeds: JSON escapes them.
        Ok(self.out.write_all(text.replace('\n', &format!("\n{indent}")).as_bytes())?)
    }
}

/// Renders the ports, with the distribution of their packets over workers and their losses.
fn ports(document: &Value, width: Option<u16>) -> String {
    let mut text = tables(document, tables_of(Topic::Ports), width);
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

fn cells(rows: &[Value], columns: &TextColumns) -> Vec<Vec<String>> {
    let of_row = |row: &Value| {
        let cells = columns.shown.iter().map(|column| row.get(column).map_or(String::new(), cell));
        cells.collect()
    };
    rows.iter().map(of_row).collect()
}

/// Returns the line below a table: the number of rows, and the columns that are left out.
fn footer(count: usize, name: &str, columns: &TextColumns) -> String {
    let mut text = counted(count, name);
    if !columns.left_out.is_empty() {
        let left_out: Vec<_> = columns.left_out.iter().map(|name| name.replace('_', " ")).collect();
        text.push_str(&format!("; --wide shows {} as well", left_out.join(", ")));
    }
    text
}

/// Renders scalars by name, then each list that has rows.
fn members(members: Map<String, Value>, lists: &[TextList], width: Option<u16>) -> String {
    let text = scalars(&members);
    let tables = tables(&Value::Object(members), lists, width);
    format!("{text}{}{tables}", if tables.is_empty() { "" } else { "\n\n" })
}

/// Renders each list that has rows.
fn tables(document: &Value, lists: &[TextList], width: Option<u16>) -> String {
    let table = |TextList { name, columns }: &TextList| {
        let rows = document.get(name)?.as_array().filter(|rows| !rows.is_empty())?;
        let mut columns = TextColumns::new(columns, width);
        let table = columns.table(cells(rows, &columns));
        Some(format!("{table}\n{}", footer(rows.len(), name, &columns)))
    };
    lists.iter().filter_map(table).collect::<Vec<_>>().join("\n\n")
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

    fn members_of(document: &Value) -> Map<String, Value> {
        document.as_object().unwrap().clone()
    }

    #[test]
    fn text_that_a_peer_chose_does_not_reach_the_terminal_raw() {
        let hostile = "a\u{1b}[2J\u{9b}31m\u{202e}";
        let document = json!({ "applications": [{ "id": hostile, "flow_descriptions": 1 }] });
        let text = render(Topic::Applications, &document);
        assert!(text.contains("a\\u{1b}[2J") && !text.contains('\u{9b}'), "{text:?}");
        let mut out = Vec::new();
        let mut printer = JsonPrinter::new(Topic::Node, &mut out);
        printer.page(members_of(&json!({ "id": hostile }))).unwrap();
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
            let mut printer = TextPrinter::new(Topic::Drops, None, all, &mut text);
            printer.page(members_of(&document)).unwrap();
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
        let mut printer = TextPrinter::new(Topic::Paths, None, true, &mut out);
        for n in 0..2 * ROWS_PER_BATCH {
            let row = json!({ "peer": format!("2001:db8::{n:x}"), "state": "up" });
            printer.page(members_of(&json!({ "paths": [row] }))).unwrap();
            let waiting = printer.list.as_ref().unwrap().rows.len();
            assert!(waiting < ROWS_PER_BATCH, "{waiting}");
        }
        printer.finish().unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.matches("requests").count(), 1);
        assert_eq!(text.matches("2001:db8::").count(), 2 * ROWS_PER_BATCH);
        assert!(text.ends_with("1024 paths\n"), "{text}");
        let column = |line: &str| line.split("up").next().map(|before| before.chars().count());
        let rows: Vec<_> = text.lines().filter(|line| line.contains("2001")).map(column).collect();
        assert_eq!(rows.first(), rows.get(ROWS_PER_BATCH - 1), "{text}");
        assert_eq!(rows.get(ROWS_PER_BATCH - 1), rows.get(ROWS_PER_BATCH), "{text}");
    }

    #[test]
    fn json_is_the_document_however_it_is_cut() {
        let pages = [
            json!({ "rates": [{ "a": [1, { "b": "x\ny" }] }], "packet_rates": [] }),
            json!({ "rates": [{}], "packet_rates": [], "shared": [7], "sum": { "uplink": null } }),
        ];
        let document = json!({
            "rates": [{ "a": [1, { "b": "x\ny" }] }, {}], "packet_rates": [], "shared": [7],
            "sum": { "uplink": null },
        });
        let printed = |topic, pages: &[Value]| {
            let mut out = Vec::new();
            let mut printer = JsonPrinter::new(topic, &mut out);
            pages.iter().for_each(|page| printer.page(members_of(page)).unwrap());
            printer.finish().unwrap();
            String::from_utf8(out).unwrap()
        };
        let text = printed(Topic::Qos, &pages);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), document, "{text}");
        assert!(text.contains("  \"packet_rates\": [],\n  \"shared\": [\n    7\n  ],\n"), "{text}");
        let text = printed(Topic::Node, std::slice::from_ref(&document));
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
