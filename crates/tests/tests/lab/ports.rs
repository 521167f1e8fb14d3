//! `adit-lab ports` with the real binaries: it measures kinds of ports in turns, and leaves nothing
//! behind.

use std::fs;
use std::process::Command;
use std::time::Duration;

use adit_tests::leftovers::{assert_nothing_left, interfaces};
use adit_tests::process::{ChildProcess, binary, is_root, skip};
use serde_json::Value;

#[test]
fn kinds_of_ports_are_measured_in_turns_and_shown_on_a_page() {
    let (Some(lab), Some(_adit)) = (binary("adit-lab"), binary("adit")) else { return };
    if !is_root() {
        return;
    }
    let before = interfaces();
    let [json, page] = ["json", "html"]
        .map(|kind| std::env::temp_dir().join(format!("adit-ports-{}.{kind}", std::process::id())));
    let mut command = Command::new(&lab);
    command.args(["ports", "--io", "kernel,af-packet", "--sessions", "50"]);
    command.args(["--duration", "1", "--rounds", "1", "--out"]).arg(&json);
    let measurement = ChildProcess::start(&mut command);
    let pid = measurement.id();
    let output = measurement.finish(Duration::from_secs(120));
    let progress = String::from_utf8_lossy(&output.stderr);
    assert_nothing_left(pid, &before);
    if progress.contains("the kernel polls no device by a thread") {
        let _ = fs::remove_file(&json);
        skip("the kernel polls no device by a thread");
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{progress}");
    let rendered = Command::new(lab).arg("report").arg(&json).arg("--html").arg(&page).output();
    let [report, html] = [&json, &page].map(|file| fs::read_to_string(file).unwrap());
    [json, page].iter().for_each(|file| fs::remove_file(file).unwrap());
    assert!(rendered.unwrap().status.success());
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!((&report["complete"], &report["measurement"]), (&true.into(), &"ports".into()));
    let figures = report["figures"].as_array().unwrap();
    let median = |name: &str| {
        let found = figures.iter().find(|figure| figure["name"] == name);
        found.unwrap()["median"].as_u64().unwrap()
    };
    for io in ["kernel", "af-packet"] {
        for direction in ["uplink", "downlink"] {
            assert!(median(&format!("packets per CPU-second, {io}, {direction}")) > 1000);
        }
    }
    assert_eq!(median("ratio to af-packet, af-packet, uplink"), 1000);
    assert!(html.contains("<td>af-packet, downlink</td>"), "{html}");
}
