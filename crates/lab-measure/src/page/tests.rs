//! The page of small reports.

use serde_json::json;

use super::*;
use crate::agreement::CountAgreement;
use crate::plot::{LineStyle, Plot, Series, linear};
use crate::quantity::{Quantity, higher};
use crate::run_report::{ExperimentReport, Study, StudyValue};
use adit_lab_smf::exchange::ProcedureReport;

fn report(measurement: Report, references: Vec<Reference>) -> ExperimentRunReport {
    ExperimentRunReport {
        tool: "adit-lab 0".to_owned(),
        started_unix_s: 1_795_234_133,
        quick: false,
        complete: true,
        experiments: vec![ExperimentReport {
            file: "x.toml".to_owned(),
            title: "Title & more".to_owned(),
            about: String::new(),
            references,
            studies: Vec::new(),
            measurements: vec![measured("--size=64", measurement)],
            planned: 1,
        }],
    }
}

fn measured(options: &str, report: Report) -> MeasurementReport {
    let words = std::iter::once(&*report.measurement).chain(options.split(' '));
    MeasurementReport {
        command: words.map(str::to_owned).collect(),
        error: None,
        left_out: None,
        report: Some(report),
    }
}

const LOSS_FREE: Quantity<'_> = higher("loss-free rate", "pps").plotted();

/// Makes a report with the loss-free rates of two sizes.
fn throughput(active: u64) -> Report {
    let mut report = Report {
        measurement: "throughput".to_owned(),
        complete: true,
        warnings: vec!["beware <script>".to_owned()],
        agreement: Some(CountAgreement::default()),
        ..Report::default()
    };
    for (bytes, rate) in [(64, 5_000_000), (1400, 4_000_000)] {
        let name = format!("uplink {bytes} B, {active} active");
        let axes = [
            ("direction", json!("uplink")),
            ("IP packet, bytes", json!(bytes)),
            ("active sessions", json!(active)),
        ];
        report.case(&name).axes = axes.map(|(axis, place)| (axis.to_owned(), place)).into();
        report.add(LOSS_FREE, &name, [rate, rate + 500_000]);
    }
    report
}

#[test]
fn page_is_self_contained_and_shows_figures_beside_references() {
    let reference = Reference {
        plot: "rate-by-size".to_owned(),
        label: "study 2020".to_owned(),
        machine: "Xeon".to_owned(),
        points: vec![[64.0, 5.17], [1400.0, 0.8]],
    };
    let page = render(&report(throughput(10), vec![reference]));
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    for outside in ["http://", "https://", "src=", "<script", "@import"] {
        assert!(!page.contains(outside), "{outside}");
    }
    for wanted in [
        "Title &amp; more",
        "<figcaption>loss-free rate by IP packet, bytes</figcaption>",
        "active sessions 10, uplink</li>",
        "class=\"reference r0\"",
        "study 2020</li>",
        "study 2020 (Xeon)",
        "beware &lt;script&gt;",
        "<td>uplink 64 B, 10 active</td><td>5.50 (5.00 … 5.50)</td>",
        "2026-11-21 04:08 UTC",
        "prefers-color-scheme: dark",
        "Checked",
    ] {
        assert!(page.contains(wanted), "{wanted}\n{page}");
    }
    assert!(!page.contains("Incomplete") && !page.contains("by active sessions"));
}

#[test]
fn figures_of_a_study_stand_beside_ours_in_its_unit() {
    let mut report = report(throughput(10), Vec::new());
    let value = |label: &str, value, figure: Option<&str>, note: Option<&str>| StudyValue {
        label: label.to_owned(),
        value,
        measure: figure.map(|_| 1),
        figure: figure.map(str::to_owned),
        note: note.map(str::to_owned),
    };
    report.experiments[0].studies = vec![Study {
        source: "study, figure 1".to_owned(),
        machine: "one core".to_owned(),
        unit: "Mpps".to_owned(),
        values: vec![
            value("up", Some(2.75), Some("loss-free rate, uplink 64 B"), None),
            value("down", Some(4.11), Some("loss-free rate, downlink"), None),
            value("four cores", None, None, Some("needs five cores")),
        ],
    }];
    let page = render(&report);
    for wanted in [
        "<h3>study, figure 1</h3>",
        "<th>study, Mpps</th><th>here, Mpps</th>",
        "<td>up</td><td>2.75</td><td>5.50</td><td>2.00</td><td></td>",
        "<td>down</td><td>4.11</td><td>–</td><td>–</td><td></td>",
        "<td>four cores</td><td>–</td><td>–</td><td>–</td><td>needs five cores</td>",
    ] {
        assert!(page.contains(wanted), "{wanted}\n{page}");
    }
}

#[test]
fn measurements_that_differ_in_options_stand_in_one_table_and_plot() {
    let mut report = report(throughput(10), Vec::new());
    assert!(!render(&report).contains("<th>options</th>"), "one measurement needs no comparison");
    let of = |rules: &str, sessions: u64| {
        let mut own = throughput(sessions);
        let mut plot = Plot::new("Loss", linear("Mpps"), linear("%"), LineStyle::Line);
        plot.series.push(Series::new("64 B", vec![(1.0, 0.0)]));
        plot.series.push(Series::reference("limit", vec![(2.0, 0.0)]));
        own.plot(plot);
        measured(&format!("--rules={rules} --sessions={sessions}"), own)
    };
    report.experiments[0].measurements = vec![of("plain", 10), of("real", 10), of("real", 1000)];
    let page = render(&report);
    for wanted in [
        "<figcaption>loss-free rate by active sessions</figcaption>",
        "rules=plain, IP packet, bytes 64, uplink</li>",
        "rules=real, sessions=1000, 64 B</li>",
        "<td>rules=real, sessions=1000</td><td>uplink 64 B, 1000 active</td><td>5.50",
    ] {
        assert!(page.contains(wanted), "{wanted}\n{page}");
    }
    assert_eq!((page.matches(">Loss</fig").count(), page.matches(">limit</li>").count()), (1, 1));
}

#[test]
fn measurement_has_its_conditions_findings_and_limits() {
    let mut ramp = Report { measurement: "ramp".to_owned(), ..Report::default() };
    ramp.condition("CPUs", "control 0; workers <2>");
    ramp.findings.push("memory grew".to_owned());
    ramp.procedures
        .insert("changes".to_owned(), ProcedureReport { count: 7, ..Default::default() });
    let mut report = report(ramp, Vec::new());
    let left_out = Report { left_out: Some("no such plan".to_owned()), ..throughput(1) };
    report.experiments[0].measurements.push(measured("--placement=uma", left_out));
    let page = render(&report);
    for wanted in [
        "CPUs: control 0; workers &lt;2&gt;",
        "<p class=\"bad\">memory grew</p>",
        "changes: 7 (0 per second)",
        "Left out: this machine cannot run it. no such plan",
    ] {
        assert!(page.contains(wanted), "{wanted}\n{page}");
    }
}

#[test]
fn page_of_failed_or_missing_measurements_says_so() {
    let mut report = report(throughput(10), Vec::new());
    report.complete = false;
    report.experiments[0].measurements[0].error = Some("the UPF refused".to_owned());
    report.experiments[0].measurements[0].report = None;
    report.experiments[0].planned = 3;
    let page = render(&report);
    for wanted in ["Incomplete", "Failed: the UPF refused", "2 of its measurements did not run"] {
        assert!(page.contains(wanted), "{wanted}");
    }
}

#[test]
fn calendar_knows_leap_years() {
    assert_eq!(utc(0), "1970-01-01 00:00 UTC");
    assert_eq!(utc(951_782_400), "2000-02-29 00:00 UTC");
    assert_eq!(utc(1_798_761_599), "2026-12-31 23:59 UTC");
}
