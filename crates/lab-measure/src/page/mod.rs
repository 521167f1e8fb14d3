//! Renders reports as one self-contained HTML page with styles, plots and figures.

/// Appends formatted text to a string.
macro_rules! put {
    ($out:expr, $($text:tt)+) => {
        $crate::page::svg::put($out, format_args!($($text)+))
    };
}

mod axis;
mod results;
mod study;
mod svg;

pub use self::svg::{escape, put};
use crate::machine::Machine;
use crate::print::procedure;
use crate::progress::mpps;
use crate::report::Report;
use crate::run_report::{
    ExperimentReport, ExperimentRunReport, MeasurementReport, Reference, distinctions,
};

/// The style of all reports.
pub const STYLE: &str = include_str!("style.css");

/// Renders a report.
#[must_use]
pub(crate) fn render(report: &ExperimentRunReport) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>adit-lab report</title>\n<style>\n{STYLE}</style></head>\n<body>\n<h1>adit-lab \
         report</h1>\n<p class=\"soft\">{}, {}</p>\n",
        escape(&report.tool),
        utc(report.started_unix_s)
    );
    if !report.complete {
        let text = "Incomplete: measurements are missing, failed or were interrupted.";
        put!(&mut out, "<p class=\"bad\">{text}</p>\n");
    }
    if report.quick {
        let text = "Short form: trials of fractions of a second, to test that everything works. \
                    For figures, run the experiments without --quick.";
        put!(&mut out, "<p class=\"soft\">{text}</p>\n");
    }
    let headers = report.experiments.iter().flat_map(|experiment| &experiment.measurements);
    if let Some(first) = headers.filter_map(|of| of.report.as_ref()).next() {
        machine(&mut out, &first.machine);
    }
    for experiment in &report.experiments {
        section(&mut out, experiment);
    }
    out.push_str("</body></html>\n");
    out
}

fn section(out: &mut String, experiment: &ExperimentReport) {
    put!(out, "<h2>{}</h2>\n", escape(&experiment.title));
    if !experiment.about.is_empty() {
        put!(out, "<p>{}</p>\n", escape(&experiment.about));
    }
    study::body(out, experiment);
    results(out, &experiment.measurements, &experiment.references);
    for measurement in &experiment.measurements {
        let command = format!("adit-lab {}", measurement.command.join(" "));
        put!(out, "<h3><code>{}</code></h3>\n", escape(&command));
        if let Some(error) = &measurement.error {
            put!(out, "<p class=\"bad\">Failed: {}</p>\n", escape(error));
        }
        let left_out = measurement.report.as_ref().and_then(|report| report.left_out.as_ref());
        if let Some(why) = measurement.left_out.as_ref().or(left_out) {
            put!(out, "<p>Left out: this machine cannot run it. {}</p>\n", escape(why));
        }
        if let Some(report) = &measurement.report {
            conditions(out, report);
        }
    }
    let missing = experiment.planned.saturating_sub(experiment.measurements.len());
    if missing > 0 {
        put!(out, "<p class=\"bad\">{missing} of its measurements did not run.</p>\n");
    }
    machines(out, &experiment.references);
}

/// Renders the results of all measurements of each kind together.
fn results(out: &mut String, measurements: &[MeasurementReport], references: &[Reference]) {
    let reports = || measurements.iter().filter_map(|of| Some((of, of.report.as_ref()?)));
    let mut kinds: Vec<&str> = reports().map(|(_, report)| &*report.measurement).collect();
    kinds.dedup();
    for (at, kind) in kinds.iter().enumerate() {
        if kinds.iter().take(at).any(|other| other == kind) {
            continue;
        }
        let same: Vec<_> = reports().filter(|(_, report)| report.measurement == *kind).collect();
        let commands: Vec<_> = same.iter().map(|(of, _)| of.command.clone()).collect();
        let labels = distinctions(&commands).into_iter().map(|words| words.join(", "));
        let compared: Vec<_> = labels.zip(same.into_iter().map(|(_, report)| report)).collect();
        results::body(out, &compared, references);
    }
}

/// Renders findings, conditions, procedures, warnings, cores and steal time of one measurement.
fn conditions(out: &mut String, report: &Report) {
    for finding in &report.findings {
        put!(out, "<p class=\"bad\">{}</p>\n", escape(finding));
    }
    let mut lines: Vec<String> =
        report.conditions.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    let ceiling = report.ceiling.as_ref();
    let ceiling = ceiling.map(|of| format!("the tester's own ceiling: {}", mpps(of.received_pps)));
    lines.extend(ceiling);
    lines.extend(report.procedures.iter().map(|(name, of)| format!("{name}: {}", procedure(of))));
    put!(out, "<p>{}</p>\n", escape(&lines.join("; ")));
    if let Some(agreement) = &report.agreement {
        let class = if agreement.holds() { "good" } else { "bad" };
        let text = escape(&agreement.to_string());
        put!(out, "<p><span class=\"{class}\">Checked</span> {text}</p>\n");
    }
    if !report.warnings.is_empty() {
        out.push_str("<ul class=\"warnings\">");
        for warning in &report.warnings {
            put!(out, "<li>{}</li>", escape(warning));
        }
        out.push_str("</ul>\n");
    }
    let cores: Vec<String> =
        report.machine.core_map.iter().map(|(role, cores)| format!("{role} {cores:?}")).collect();
    let steal: Vec<String> =
        report.steal_ms.iter().map(|(cpu, ms)| format!("cpu {cpu}: {ms} ms")).collect();
    put!(
        out,
        "<p class=\"soft\">Cores: {}. Stolen by the hypervisor: {}.</p>\n",
        escape(&cores.join(", ")),
        escape(&steal.join(", "))
    );
}

/// Lists the sources of reference figures.
fn machines(out: &mut String, references: &[Reference]) {
    if references.is_empty() {
        return;
    }
    out.push_str("<p class=\"soft\">Figures from other sources, measured on other machines: ");
    let texts: Vec<String> = references
        .iter()
        .map(|reference| format!("{} ({})", reference.label, reference.machine))
        .collect();
    put!(out, "{}.</p>\n", escape(&texts.join("; ")));
}

fn machine(out: &mut String, machine: &Machine) {
    out.push_str("<details open><summary>Machine</summary><dl>");
    let mut row = |name: &str, value: String| {
        put!(out, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(&value));
    };
    row("Processor", format!("{}, {} online", machine.cpu, machine.cpus));
    row("TSC", format!("{} MHz", machine.tsc_hz / 1_000_000));
    row("Memory", format!("{} MiB", machine.memory_mib));
    let pages: Vec<String> =
        machine.hugepages.iter().map(|(size, count)| format!("{count} × {size}")).collect();
    let used = if machine.uses_hugepages { "used" } else { "not used" };
    row("Hugepages", format!("{}; {used} by the tester", pages.join(", ")));
    row("Kernel", machine.kernel.clone());
    row("Kernel parameters", machine.kernel_parameters.join(" "));
    row("DPDK", machine.dpdk.clone());
    row("Revision", machine.git_revision.clone());
    let mitigations: Vec<String> = machine
        .mitigations
        .iter()
        .filter(|(_, state)| !state.starts_with("Not affected"))
        .map(|(name, state)| format!("{name}: {state}"))
        .collect();
    row("Mitigations", mitigations.join("; "));
    let noise: Vec<String> = machine
        .noise
        .iter()
        .map(|one| {
            let (share, longest) = (one.taken_ppm() as f64 / 1e4, one.max_ns() as f64 / 1e3);
            let core = one.core;
            format!(
                "core {core}: {} gaps, {share:.2} % of the time, at most {longest} µs",
                one.gaps()
            )
        })
        .collect();
    row("Noise before the start", noise.join("; "));
    out.push_str("</dl></details>\n");
}

/// Renders a table. The first column is text.
fn table(out: &mut String, header: &[String], rows: &[Vec<String>]) {
    out.push_str("<div class=\"scroll\"><table><thead><tr>");
    for name in header {
        put!(out, "<th>{}</th>", escape(name));
    }
    out.push_str("</tr></thead><tbody>");
    for row in rows {
        out.push_str("<tr>");
        for cell in row {
            put!(out, "<td>{}</td>", escape(cell));
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>\n");
}

/// Formats a time as date and time of day, UTC. The arithmetic counts days from 0000-03-01, so that
/// a leap day is the last day of its year.
fn utc(unix_s: u64) -> String {
    let (days, second) = (unix_s / 86_400 + 719_468, unix_s % 86_400);
    let (era, day) = (days / 146_097, days % 146_097);
    let year_of_era = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

#[cfg(test)]
mod tests;
