//! The page of small reports.

use serde_json::{Value, json};

use super::*;
use crate::run_report::{ExperimentReport, Study, StudyValue};

fn report(measurement: Value, references: Vec<Reference>) -> ExperimentRunReport {
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
            measurements: vec![MeasurementReport {
                command: vec!["throughput".to_owned()],
                error: None,
                left_out: None,
                report: Some(measurement),
            }],
            planned: 1,
        }],
    }
}

fn header(measurement: &str) -> Value {
    json!({
        "tool": "adit-lab 0", "measurement": measurement, "complete": true, "command": [],
        "started_unix_s": 0, "machine": crate::machine::Machine::default(),
        "steal_ms": {}, "warnings": ["beware <script>"], "target": "adit", "sessions": 10,
        "established": null, "ceiling": null, "figures": [], "target_counters": null,
        "agreement": {"tester": {"sent": 10, "received": 9}, "target_received": 10,
            "target_sent": 9, "difference_ppm": 0},
    })
}

fn throughput() -> Value {
    let case = |bytes: u64, rate: u64| {
        json!({
            "name": format!("uplink {bytes} B, 10 active"), "direction": "uplink",
            "size": {"name": bytes.to_string(), "lens": [bytes], "weights": [1]}, "active": 10,
            "runs": [{"ndr_pps": rate, "ndr_upper_pps": null, "plr_pps": rate, "mrr_pps": rate,
                "trials": [trial(rate, 0), trial(rate * 2, 500_000_000)]}],
        })
    };
    let mut report = header("throughput");
    report["method"] = json!("mlr");
    report["cases"] = json!([case(64, 5_000_000), case(1400, 4_000_000)]);
    report
}

fn trial(rate: u64, loss_ppb: u64) -> Value {
    json!({"rate_pps": rate, "duration_ns": 1, "offered_pps": rate, "received_pps": rate,
        "loss_ppb": loss_ppb, "gap_ns_max": 0, "other_frames": 0, "tester_limited": false,
        "streams": []})
}

#[test]
fn page_is_self_contained_and_shows_figures_beside_references() {
    let reference = Reference {
        plot: "rate-by-size".to_owned(),
        label: "study 2020".to_owned(),
        machine: "Xeon".to_owned(),
        points: vec![[64.0, 5.17], [1400.0, 0.8]],
    };
    let page = render(&report(throughput(), vec![reference]));
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    for outside in ["http://", "https://", "src=", "<script", "@import"] {
        assert!(!page.contains(outside), "{outside}");
    }
    for wanted in [
        "Title &amp; more",
        "Rate by size",
        "Loss by rate, uplink",
        "study 2020 (Xeon)",
        "beware &lt;script&gt;",
        "<td>uplink 64 B, 10 active</td><td>5.00</td>",
        "2026-11-21 04:08 UTC",
        "prefers-color-scheme: dark",
        "Checked",
    ] {
        assert!(page.contains(wanted), "{wanted}\n{page}");
    }
    assert!(!page.contains("Incomplete"));
}

#[test]
fn figures_of_a_study_stand_beside_ours_in_its_unit() {
    let mut measured = throughput();
    measured["figures"] = json!([{ "name": "loss-free rate, uplink 64 B, 1 active", "unit": "pps",
        "median": 7_755_000, "min": 1, "max": 9_000_000, "runs": 3 }]);
    let mut report = report(measured, Vec::new());
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
            value("up", Some(5.17), Some("loss-free rate, uplink 64 B"), None),
            value("down", Some(4.11), Some("loss-free rate, downlink"), None),
            value("four cores", None, None, Some("needs five cores")),
        ],
    }];
    let page = render(&report);
    for wanted in [
        "<h3>study, figure 1</h3>",
        "<th>study, Mpps</th><th>here, Mpps</th>",
        "<td>up</td><td>5.17</td><td>7.75</td><td>1.50</td><td></td>",
        "<td>down</td><td>4.11</td><td>–</td><td>–</td><td></td>",
        "<td>four cores</td><td>–</td><td>–</td><td>–</td><td>needs five cores</td>",
    ] {
        assert!(page.contains(wanted), "{wanted}\n{page}");
    }
}

#[test]
fn measurements_that_differ_in_options_stand_in_one_table_and_plot() {
    let mut report = report(throughput(), Vec::new());
    assert!(!render(&report).contains("<th>options</th>"), "one measurement needs no comparison");
    let measurement = |rules: &str, sessions: u64| {
        let mut value = throughput();
        for case in value["cases"].as_array_mut().unwrap() {
            case["active"] = json!(sessions);
        }
        let command =
            ["throughput", &format!("--rules={rules}"), &format!("--sessions={sessions}")];
        MeasurementReport {
            command: command.map(str::to_owned).to_vec(),
            error: None,
            left_out: None,
            report: Some(value),
        }
    };
    report.experiments[0].measurements =
        vec![measurement("plain", 10), measurement("real", 10), measurement("real", 1000)];
    let page = render(&report);
    for wanted in [
        "Loss-free rate by active sessions",
        "uplink, 64 B, rules=plain</li>",
        "uplink, 64 B, rules=real</li>",
        "<td>rules=real, sessions=1000</td><td>uplink 64 B, 10 active</td><td>5.00</td>",
    ] {
        assert!(page.contains(wanted), "{wanted}\n{page}");
    }
}

#[test]
fn planted_faults_show_with_their_detection() {
    let mut trial = trial(1_000_000, 1000);
    trial["streams"] = json!([crate::report::StreamReport {
        name: "uplink".to_owned(),
        sent: 1_000_000,
        duplicates: 7,
        reordered: 5,
        lost: 3,
        ..Default::default()
    }]);
    let mut selftest = header("selftest");
    selftest["wire"] = json!("memif");
    selftest["size"] = json!({"name": "64", "lens": [64], "weights": [1]});
    selftest["ceiling_pps"] = json!(17_000_000);
    selftest["passed"] = json!(true);
    for key in ["ceiling", "quiet", "half"] {
        selftest[key] = Value::Null;
    }
    selftest["faults"] = json!([{"fault": "drop", "planted": 3, "found": 3, "trial": trial}]);
    let page = render(&report(selftest, Vec::new()));
    let row = "<td>drop</td><td>3</td><td>3</td><td>1000000</td><td>3</td><td>7</td><td>5</td>";
    assert!(page.contains(row) && page.contains("17.00 Mpps"), "{page}");
}

#[test]
fn ramps_and_soaks_have_their_plots_and_limits() {
    let round = |sessions: u64, limit: Value| {
        json!({"sessions": sessions, "established_per_s": 1000, "failed": 0, "drop_ppm": 3,
            "cpu_percent": 100, "memory_kib": 1024, "limit": limit, "back_off": false,
            "trial": trial(1000, 3000)})
    };
    let mut ramp = header("ramp");
    ramp["rate_pps"] = json!(1000);
    ramp["rounds"] = json!([round(100, Value::Null), round(110, json!("2001 ppm lost"))]);
    let page = render(&report(ramp, Vec::new()));
    assert!(page.contains("2001 ppm lost") && page.contains("Sessions round by round"), "{page}");
    let mut soak = header("soak");
    soak["churn"] = json!("handover");
    soak["churned"] = Value::Null;
    soak["findings"] = json!(["memory grew"]);
    soak["intervals"] = json!([
        {"trial": trial(1000, 0), "memory_kib": 1000}, {"trial": trial(1000, 0), "memory_kib": 2000}
    ]);
    let page = render(&report(soak, Vec::new()));
    assert!(page.contains("memory grew") && page.contains("Memory of the target"), "{page}");
}

#[test]
fn rates_have_a_plot_for_each_group_with_its_limit() {
    use crate::rates::{GroupReport, RateAccuracy};
    let group = |name: &str, limit_bps: u64, sessions: u32| GroupReport {
        name: name.to_owned(),
        sessions,
        size: "1052 B".to_owned(),
        limit_bps: Some(limit_bps),
        offered_bps: vec![1_200_000_000; 3],
        received_bps: vec![1_000_000_000; 3],
        each_bps: if sessions == 2 { vec![vec![500_000_000; 3]; 2] } else { Vec::new() },
        accuracy: Some(RateAccuracy {
            error_ppm: -1234,
            worst_window_ppm: 5000,
            session_worst_ppm: 6000,
            ..RateAccuracy::default()
        }),
        ..GroupReport::default()
    };
    let mut rates = header("rates");
    rates["window_ns"] = json!(100_000_000);
    rates["settle_ns"] = json!(1_000_000_000);
    rates["gaps_ns"] = json!([0, 0, 0]);
    rates["findings"] = json!(["g & h"]);
    let groups =
        [group("one", 1_000_000_000, 1), group("two", 2_000_000, 2), group("x", 30_000, 3)];
    rates["groups"] = json!(groups);
    rates["trial"] = trial(1000, 0);
    let stream =
        |name: &str| crate::report::StreamReport { name: name.to_owned(), ..Default::default() };
    rates["trial"]["streams"] = json!(["one", "two", "x"].map(stream));
    let page = render(&report(rates, Vec::new()));
    for wanted in [
        "<figcaption>one, 1052 B</figcaption>",
        "class=\"reference r0\"",
        "session 2</li>",
        "limit of each",
        "Error by limit",
        "<td>one</td><td>1</td><td>1000.000</td><td>0.000</td><td>−0.123 %</td><td>0.500 %</td>",
        "g &amp; h",
    ] {
        assert!(page.contains(wanted), "{wanted}: {page}");
    }
}

#[test]
fn page_of_failed_or_missing_measurements_says_so() {
    let mut report = report(throughput(), Vec::new());
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

#[test]
fn saturation_shows_rates_and_ratios() {
    let mut saturation = header("saturate");
    saturation["rules"] = json!("rate");
    saturation["spells"] = json!([]);
    saturation["figures"] = json!([{ "name": "adit, uplink", "unit": "pps", "median": 9_500_000,
        "min": 9_000_000, "max": 10_000_000, "runs": 3 }]);
    saturation["ratios"] = json!([{ "direction": "uplink", "frame_len_in_bytes": 122,
        "median_permille": 655, "min_permille": 640, "max_permille": 1070 }]);
    let page = render(&report(saturation, Vec::new()));
    for wanted in [
        "<td>adit, uplink</td><td>9.50 Mpps</td><td>9.00 Mpps</td><td>10.00 Mpps</td>",
        "<td>adit / testpmd, uplink</td><td>0.655</td><td>0.640</td><td>1.070</td>",
        "beware &lt;script&gt;",
    ] {
        assert!(page.contains(wanted), "{wanted}\n{page}");
    }
}

#[test]
fn ports_have_bars_and_their_figures_stand_beside_a_study() {
    let turn = |io: &str, mpkts: f64| {
        json!({ "round": 1, "io": io, "direction": "uplink", "offered_mpps": 2.5, "mpps": 2.0,
            "cpu_percent": 50.0, "sender_percent": 40.0, "receiver_percent": 20.0,
            "mpkts_per_cpu_s": mpkts })
    };
    let mut ports = header("ports");
    for (key, value) in [
        ("rules", json!("2 PDR")),
        ("packet_bytes", json!(64)),
        ("turn_s", json!(2)),
        ("in_flight", json!(256)),
        ("realtime_priority", json!(0)),
        ("compared_with", json!("af-xdp")),
        ("turns", json!([turn("xdp", 4.0), turn("af-xdp", 1.0)])),
        (
            "figures",
            json!([{ "name": "packets per CPU-second, xdp, uplink", "unit": "pps",
            "median": 4_000_000, "min": 1, "max": 9_000_000, "runs": 1 }]),
        ),
    ] {
        ports[key] = value;
    }
    let mut report = report(ports, Vec::new());
    report.experiments[0].studies = vec![Study {
        source: "study".to_owned(),
        machine: "one core".to_owned(),
        unit: "Mpps".to_owned(),
        values: vec![StudyValue {
            label: "XDP".to_owned(),
            value: Some(2.0),
            measure: Some(1),
            figure: Some("packets per CPU-second, xdp, uplink".to_owned()),
            note: None,
        }],
    }];
    let page = render(&report);
    for wanted in [
        "<td>XDP</td><td>2.00</td><td>4.00</td><td>2.00</td>",
        "<figcaption>Packets per CPU-second, uplink</figcaption>",
        "<td>uplink</td><td>xdp</td><td>2.500 (2.500 to 2.500)</td>",
        "<td>4.000 (4.000 to 4.000)</td><td>4.00 (4.00 to 4.00)</td><td>40, 20</td>",
        "10 sessions at random, 2 PDR; IP packets of 64 octets, at most 256 of them",
    ] {
        assert!(page.contains(wanted), "{wanted}\n{page}");
    }
    assert!(!page.contains("Packets per CPU-second, downlink"));
}

fn measured(option: &str, value: Value) -> MeasurementReport {
    let command = [value["measurement"].as_str().unwrap(), option].map(str::to_owned);
    MeasurementReport {
        command: command.to_vec(),
        error: None,
        left_out: None,
        report: Some(value),
    }
}

fn load(busy_permille: u64) -> Value {
    json!({"busy_permille": busy_permille, "busiest_permille": busy_permille + 5,
        "path_cpu_permille": 1000, "process_cpu_permille": 1024, "frequency_mhz": null,
        "idle_permille": null, "power_mw": 15_500})
}

#[test]
fn ramps_with_other_placements_stand_side_by_side_also_if_one_is_left_out() {
    let ramp = |busy: u64, breaks: Value| {
        let round = |sessions: u64, limit: Value| {
            json!({"sessions": sessions, "established_per_s": 1000, "failed": 0, "drop_ppm": 3,
                "cpu_percent": 100, "memory_kib": 1024, "limit": limit, "back_off": false,
                "trial": trial(1_000_000, 0), "load": load(busy)})
        };
        let mut ramp = header("ramp");
        ramp["rate_pps"] = json!(1000);
        ramp["placement"] = json!({"control": 0, "receiver": 1, "workers": [2, 3],
            "allowed": [0, 1, 2, 3], "breaks": breaks});
        ramp["rounds"] = json!([round(100, Value::Null), round(110, json!("50.1 % busy"))]);
        ramp
    };
    let mut left_out = header("ramp");
    left_out["rate_pps"] = json!(0);
    left_out["rounds"] = json!([]);
    left_out["left_out"] = json!("no plan for this machine breaks own-node: <why>");
    let mut report = report(throughput(), Vec::new());
    report.experiments[0].measurements = vec![
        measured("--placement=numa", ramp(331, json!([]))),
        measured("--placement=uma", ramp(494, json!(["own-node: CPU 1 <…>", "own-node: more"]))),
        measured("--placement=own-node", left_out),
    ];
    let page = render(&report);
    for wanted in [
        "<figcaption>Busy share by sessions</figcaption>",
        "placement=uma</li>",
        "<td>placement=numa</td><td>control 0; receiver 1; workers 2, 3</td><td></td><td>2</td><td>100</td>",
        "<td>1.00</td><td>3</td><td>33.1 / 33.6</td><td>50.1 % busy</td>",
        "<td>control 0; receiver 1; workers 2, 3</td><td>own-node</td>",
        "<li>breaks own-node: CPU 1 &lt;…&gt;</li>",
        "<td>–</td><td>left out: no plan for this machine breaks own-node: &lt;why&gt;</td>",
    ] {
        assert!(page.contains(wanted), "{wanted}\n{page}");
    }
}

#[test]
fn loads_have_a_plot_of_each_quantity_that_the_machine_shows() {
    let latency = |busy: [u64; 2]| {
        let point = |share: u64, busy: u64| {
            json!({"case": "uplink 64 B, 10 active", "direction": "uplink", "active": 10,
                "size": {"name": "64", "lens": [64], "weights": [1]}, "share_percent": share,
                "trial": trial(share * 10_000, 0), "load": load(busy)})
        };
        let mut latency = header("latency");
        latency["loss_free_pps"] = json!([["uplink 64 B, 10 active", 1_000_000]]);
        latency["points"] = json!([point(0, busy[0]), point(50, busy[1])]);
        latency
    };
    let mut report = report(throughput(), Vec::new());
    report.experiments[0].measurements = vec![
        measured("--poll=busy", latency([0, 400])),
        measured("--poll=adaptive", latency([1, 410])),
    ];
    let page = render(&report);
    for wanted in [
        "<figcaption>Busy share by load</figcaption>",
        "<figcaption>CPU time of the packet path by load</figcaption>",
        "<figcaption>Power of the machine by load</figcaption>",
        "poll=adaptive, uplink 64 B, 10 active</li>",
        "% of the loss-free rate",
        "<td>500.000 kpps (50 %)</td><td>40.0 / 40.5</td><td>100.0</td><td>102.4</td><td>–</td><td>–</td><td>15.5</td><td>–</td>",
    ] {
        assert!(page.contains(wanted), "{wanted}\n{page}");
    }
    assert!(!page.contains("Frequency by load") && !page.contains("Idle states by load"));
    report.experiments[0].measurements.truncate(1);
    assert!(render(&report).contains("Busy share by load"), "also alone");
}
