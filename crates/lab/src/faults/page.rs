//! Renders the report as a page: a table of results, and for each run a time line of faults, roles,
//! answers and packets.

use std::fmt::Write as _;

use adit_lab_measure::{STYLE, escape, put};

use crate::faults::addresses::UPFS;
use crate::faults::book::FindingKind;
use crate::faults::report::{BIN_MS, FaultsReport, RunReport};
use crate::faults::setting::StoreSetting;
use crate::faults::timeline::EventKind;

/// Sizes of a time line. Unit: pixels.
const WIDTH: f64 = 1240.0;
const LEFT_MARGIN: f64 = 110.0;
const ROW_HEIGHT: f64 = 26.0;
const BAR_HEIGHT: f64 = 18.0;
/// Distance of the vertical lines that mark the time. Unit: ms.
const TICK_MS: u64 = 5000;

/// The style of time lines, in addition to the style of all reports.
const OWN_STYLE: &str = "rect.fault { fill: var(--bad); fill-opacity: .55; } rect.active { fill: var(--good); } \
    rect.standby { fill: var(--c0); fill-opacity: .5; } rect.failing { fill: var(--warn); } \
    rect.silent { fill: var(--edge); } rect.accepted { fill: var(--good); } rect.refused { fill: var(--warn); } \
    rect.lost { fill: var(--bad); } rect.two { fill: var(--bad); } rect.finding { fill: var(--bad); }";

/// Renders the page.
pub(crate) fn render(report: &FaultsReport) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<title>adit-lab faults</title>\n\
         <style>\n{STYLE}\n{OWN_STYLE}</style></head>\n<body>\n<h1>adit-lab faults</h1>\n\
         <p class=\"soft\">{}, {}</p>\n",
        escape(&report.tool),
        escape(&report.adit)
    );
    for text in &report.left_out {
        put(&mut out, format_args!("<p class=\"soft\">Left out: {}</p>\n", escape(text)));
    }
    results(&mut out, report);
    for run in &report.runs {
        section(&mut out, run);
    }
    out.push_str("</body></html>\n");
    out
}

/// Renders the table of results, with a row for each setting.
fn results(out: &mut String, report: &FaultsReport) {
    out.push_str("<div class=\"scroll\"><table><tr><th>setting</th><th>runs</th><th>kept</th><th>faults</th>");
    for kind in FindingKind::ALL {
        put(out, format_args!("<th>{}</th>", kind.name()));
    }
    out.push_str("<th>accepted again, ms</th><th>two answers, ms</th><th>memory, KiB</th></tr>\n");
    for setting in StoreSetting::ALL {
        let runs: Vec<&RunReport> =
            report.runs.iter().filter(|run| run.setting == setting).collect();
        if runs.is_empty() {
            continue;
        }
        let kept = runs.iter().filter(|run| run.is_kept()).count();
        let faults: usize = runs.iter().map(|run| run.faults.len()).sum();
        let (name, all) = (setting.name(), runs.len());
        put(out, format_args!("<tr><td>{name}</td><td>{all}</td><td>{kept}</td><td>{faults}</td>"));
        for kind in FindingKind::ALL {
            let count: usize = runs.iter().map(|run| run.count(kind)).sum();
            put(out, format_args!("<td>{count}</td>"));
        }
        let most = |value: &dyn Fn(&RunReport) -> u64| {
            runs.iter().map(|run| value(run)).max().unwrap_or(0)
        };
        put(
            out,
            format_args!(
                "<td>{}</td><td>{}</td><td>{}</td></tr>\n",
                most(&RunReport::longest_recovery_ms),
                most(&RunReport::longest_two_answers_ms),
                most(&|run| run.memory_growth_kib)
            ),
        );
    }
    out.push_str("</table></div>\n");
}

fn section(out: &mut String, run: &RunReport) {
    let (name, seed) = (run.setting.name(), run.seed);
    let class = if run.is_kept() { "good" } else { "bad" };
    put(out, format_args!("<h2>{name}, seed {seed}</h2>\n"));
    put(out, format_args!("<p class=\"{class}\">{}</p>\n", escape(&run.summary())));
    if !run.unpromised.is_empty() {
        let text = run.unpromised.join(", ");
        put(out, format_args!("<p class=\"soft\">The setting promises less with: {text}.</p>\n"));
    }
    time_line(out, run);
    if !run.findings.is_empty() {
        out.push_str("<table><tr><th>ms</th><th>found</th><th></th></tr>\n");
        for finding in &run.findings {
            let (kind, text) = (finding.kind.name(), escape(&finding.text));
            put(
                out,
                format_args!("<tr><td>{}</td><td>{kind}</td><td>{text}</td></tr>\n", finding.at_ms),
            );
        }
        out.push_str("</table>\n");
    }
    out.push_str(
        "<details><summary>Faults</summary><table><tr><th>fault</th><th>from, ms</th><th>to</th>\
         <th>accepted again after</th><th>whole after</th></tr>\n",
    );
    for fault in &run.faults {
        let after = fault.accepted_ms.map_or_else(
            || "never".to_owned(),
            |at_ms| at_ms.saturating_sub(fault.due_from_ms).to_string(),
        );
        put(
            out,
            format_args!(
                "<tr><td>{}</td><td>{}</td><td>{}</td><td>{after}</td><td>{}</td></tr>\n",
                escape(&fault.text),
                fault.start_ms,
                fault.end_ms,
                fault.whole_ms.saturating_sub(fault.end_ms)
            ),
        );
    }
    out.push_str("</table></details>\n<details><summary>Events</summary><table>\n");
    for event in &run.events {
        let (who, text) = (escape(&event.who), escape(&event.text));
        put(out, format_args!("<tr><td>{}</td><td>{who}</td><td>{text}</td></tr>\n", event.at_ms));
    }
    out.push_str("</table></details>\n");
}

/// Draws one time line.
struct TimeLine<'r> {
    run: &'r RunReport,
    rows: usize,
    body: String,
}

fn time_line(out: &mut String, run: &RunReport) {
    let mut line = TimeLine { run, rows: 0, body: String::new() };
    line.faults();
    for upf in 0..run.setting.upfs() {
        line.roles(upf);
    }
    line.answers();
    line.bins(
        "uplink",
        [&run.activity.uplink_sent, &run.activity.uplink_lost],
        ["accepted", "lost"],
    );
    line.bins(
        "downlink",
        [&run.activity.downlink_sent, &run.activity.downlink_lost],
        ["accepted", "lost"],
    );
    line.spans();
    line.findings();
    let height = ROW_HEIGHT * row(line.rows) + 30.0;
    let mut grid = String::new();
    for at_ms in (0..=run.duration_ms).step_by(usize::try_from(TICK_MS).unwrap_or(1)) {
        let x = line.x(at_ms);
        put(
            &mut grid,
            format_args!(
                "<line class=\"grid\" x1=\"{x:.1}\" y1=\"0\" x2=\"{x:.1}\" y2=\"{:.1}\"/>\
                 <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{} s</text>",
                height - 26.0,
                height - 8.0,
                at_ms / 1000
            ),
        );
    }
    put(
        out,
        format_args!(
            "<figure><svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"time line\">{grid}{}</svg></figure>\n",
            line.body
        ),
    );
}

fn row(number: usize) -> f64 {
    f64::from(u16::try_from(number).unwrap_or(u16::MAX))
}

fn wide(number: u64) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

impl TimeLine<'_> {
    fn x(&self, at_ms: u64) -> f64 {
        LEFT_MARGIN + (WIDTH - LEFT_MARGIN - 20.0) * wide(at_ms) / wide(self.run.duration_ms.max(1))
    }

    /// Begins a row. Returns the coordinate of its top.
    fn row(&mut self, name: &str) -> f64 {
        let top = ROW_HEIGHT * row(self.rows);
        self.rows += 1;
        let name = escape(name);
        put(&mut self.body, format_args!("<text x=\"4\" y=\"{:.1}\">{name}</text>", top + 15.0));
        top
    }

    fn bar(&mut self, class: &str, top: f64, span_ms: [u64; 2], title: &str) {
        let [from, to] = span_ms.map(|at_ms| self.x(at_ms));
        let (width, title) = ((to - from).max(2.0), escape(title));
        put(
            &mut self.body,
            format_args!(
                "<rect class=\"{class}\" x=\"{from:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{BAR_HEIGHT}\"><title>{title}</title></rect>"
            ),
        );
    }

    fn faults(&mut self) {
        let top = self.row("faults");
        for fault in &self.run.faults {
            let title = format!("{}: {} to {} ms", fault.text, fault.start_ms, fault.end_ms);
            self.bar("fault", top, [fault.start_ms, fault.end_ms], &title);
        }
        let promotions = self.run.events.iter().filter(|event| event.kind == EventKind::Promotion);
        for event in promotions {
            let title = format!("{} {} at {} ms", event.who, event.text, event.at_ms);
            self.bar("standby", top, [event.at_ms, event.at_ms], &title);
        }
    }

    fn roles(&mut self, upf: usize) {
        let name = UPFS.get(upf).copied().unwrap_or_default();
        let top = self.row(&format!("adit {name}"));
        let samples: Vec<_> = self.run.roles.iter().filter(|sample| sample.upf == upf).collect();
        let ends = samples.iter().skip(1).map(|sample| sample.at_ms);
        for (sample, end_ms) in samples.iter().zip(ends.chain([self.run.duration_ms])) {
            let status = &sample.status;
            let class = match (status.role.as_str(), status.state.as_str()) {
                ("", _) => "silent",
                ("active", "failing") => "failing",
                ("active", _) => "active",
                _ => "standby",
            };
            let epoch = status.epoch.map_or_else(String::new, |epoch| format!(", epoch {epoch}"));
            let title = format!("{} {}{epoch} from {} ms", status.role, status.state, sample.at_ms);
            self.bar(class, top, [sample.at_ms, end_ms], &title);
        }
    }

    fn answers(&mut self) {
        let run = self.run;
        self.bins(
            "answers",
            [&run.activity.accepted, &run.activity.refused],
            ["accepted", "refused"],
        );
    }

    /// Draws two counts over time, one above the other.
    fn bins(&mut self, name: &str, counts: [&[u64]; 2], classes: [&str; 2]) {
        let top = self.row(name);
        let [first, second] = counts;
        let highest = first.iter().zip(second).map(|(one, two)| *one.max(two)).max().unwrap_or(0);
        for (counts, class) in [(first, classes[0]), (second, classes[1])] {
            for (at, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
                let from_ms = u64::try_from(at).unwrap_or(0) * BIN_MS;
                let (from, to) = (self.x(from_ms), self.x(from_ms + BIN_MS));
                let height = BAR_HEIGHT * wide(*count) / wide(highest.max(1));
                let _ = write!(
                    self.body,
                    "<rect class=\"{class}\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\"><title>{class} {count} at {from_ms} ms</title></rect>",
                    top + BAR_HEIGHT - height,
                    (to - from - 0.3).max(0.5),
                );
            }
        }
    }

    fn spans(&mut self) {
        let top = self.row("two answers");
        for span in &self.run.two_answer_spans {
            let title = format!("{}: {} ms", span.address, span.length_ms);
            self.bar("two", top, [span.from_ms, span.from_ms + span.length_ms], &title);
        }
    }

    fn findings(&mut self) {
        let top = self.row("found");
        for finding in &self.run.findings {
            let title = format!("{}: {}", finding.kind.name(), finding.text);
            self.bar("finding", top, [finding.at_ms, finding.at_ms], &title);
        }
    }
}
