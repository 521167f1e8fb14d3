//! `adit-lab store` with the real binaries: all transports measure, and nothing is left behind.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use adit_tests::leftovers::{assert_nothing_left, interfaces};
use adit_tests::process::{ChildProcess, binary, is_refused_by_the_machine, is_root};
use serde_json::Value;

/// A store that `redis-server` serves, if it is installed.
fn start(arguments: &[&str]) -> Option<ChildProcess> {
    let lab = binary("adit-lab")?;
    if !is_root() {
        return None;
    }
    let mut command = Command::new(lab);
    // Other tests run at the same time: real-time threads would take their cores.
    command.args(["store", "--priority", "normal"]).args(arguments);
    Some(ChildProcess::start(&mut command))
}

fn measure(arguments: &[&str]) -> Option<Value> {
    let before = interfaces();
    let lab = start(&[arguments, &["--quick", "--json"]].concat())?;
    let pid = lab.id();
    let output = lab.finish(Duration::from_secs(120));
    if is_refused_by_the_machine(&output) {
        return None;
    }
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(left_behind(pid), Vec::<String>::new());
    assert_nothing_left(pid, &before);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["complete"], true, "{report}");
    Some(report)
}

/// Folders of a lab, and processes in them.
fn left_behind(pid: u32) -> Vec<String> {
    let is_its = |name: &str| name.contains(&format!("adit-lab-{pid}-"));
    let mut left = Vec::new();
    for entry in fs::read_dir(std::env::temp_dir()).unwrap().flatten() {
        left.extend(entry.file_name().into_string().ok().filter(|name| is_its(name)));
    }
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let folder = fs::read_link(process.path().join("cwd")).unwrap_or_default();
        left.extend(folder.to_str().filter(|path| is_its(path)).map(str::to_owned));
    }
    left
}

#[test]
fn every_transport_measures_sets_and_gets_over_a_veth_link() {
    let all = "blocking,polled,user,polled-pair,user-pair";
    let arguments = ["--transport", all, "--operation", "set,get", "--value", "5000"];
    let Some(report) =
        measure(&[&arguments[..], &["--operations", "300", "--clients", "3"]].concat())
    else {
        return;
    };
    let cases: Vec<&str> = names(&report["cases"]);
    assert_eq!(cases.len(), 10, "{report}");
    for case in &cases {
        let [min, p99, max, rate] = ["min", "p99", "max", "rate"]
            .map(|quantity| median(&report, &format!("{quantity}, {case}")));
        assert!(0 < min && min <= p99 && p99 <= max && rate > 0, "{case}: {report}");
    }
    let transports: Vec<&str> = cases.iter().filter_map(|case| case.rsplit(", ").next()).collect();
    assert_eq!(transports[..5].join(","), all);
    assert!(median(&report, "p99.9 to blocking, GET, 5000 B, 3 clients, user-pair") > 0);
}

fn names(parts: &Value) -> Vec<&str> {
    parts.as_array().unwrap().iter().filter_map(|part| part["name"].as_str()).collect()
}

fn median(report: &Value, name: &str) -> u64 {
    let found = report["figures"].as_array().unwrap().iter().find(|of| of["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {report}"))["median"].as_u64().unwrap()
}

#[test]
fn pairs_measure_on_one_host_and_in_one_direction() {
    let arguments = ["--link", "loopback", "--transport", "polled-pair,user-pair"];
    let Some(report) = measure(&[&arguments[..], &["--operations", "300"]].concat()) else {
        return;
    };
    assert_eq!(names(&report["cases"]).len(), 2, "{report}");
    let Some(report) = measure(&["--one-way", "--transport", "blocking,user-pair"]) else { return };
    for transport in ["blocking", "user-pair"] {
        assert!(median(&report, &format!("one way, {transport}")) > 0, "{report}");
    }
}

#[test]
fn interrupted_measurement_reports_what_it_has_and_leaves_nothing() {
    let before = interfaces();
    let Some(lab) = start(&["--transport", "blocking", "--operations", "5000000", "--json"]) else {
        return;
    };
    let pid = lab.id();
    let end = Instant::now() + Duration::from_secs(30);
    while left_behind(pid).len() < 2 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(Duration::from_secs(1));
    lab.signal(libc::SIGINT);
    let output = lab.finish(Duration::from_secs(30));
    if is_refused_by_the_machine(&output) {
        return;
    }
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["complete"], false, "{report}");
    assert_eq!(left_behind(pid), Vec::<String>::new());
    assert_nothing_left(pid, &before);
}

#[test]
fn absent_server_is_named() {
    let Some(lab) = start(&["--server", "192.0.2.1"]) else { return };
    let output = lab.finish(Duration::from_secs(30));
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("--server 192.0.2.1: write it as HOST:PORT"), "{message}");
}
