//! The demo with the real binaries: all its checks pass, and it leaves nothing behind.

use std::process::Command;
use std::time::{Duration, Instant};

use adit_tests::leftovers::{assert_nothing_left, interfaces, namespaces};
use adit_tests::process::{ChildProcess, binary, is_refused_by_the_machine, is_root};

/// A lab that runs the adit in the same folder.
fn start(arguments: &[&str]) -> Option<ChildProcess> {
    let (lab, _adit) = (binary("adit-lab")?, binary("adit")?);
    if !is_root() {
        return None;
    }
    let mut command = Command::new(lab);
    command.arg("demo").args(arguments);
    Some(ChildProcess::start(&mut command))
}

#[test]
fn demo_passes_every_check_and_leaves_nothing() {
    passes_every_check(&["--ues", "2", "--duration", "2", "--json"]);
}

#[test]
fn demo_over_the_kernel_passes_every_check() {
    passes_every_check(&["--ues", "2", "--duration", "2", "--json", "--io", "kernel"]);
    let model = ["--model", "pipeline"];
    let arguments = ["--ues", "2", "--duration", "1", "--json", "--io", "kernel"];
    passes_every_check(&[&arguments[..], &model].concat());
}

fn passes_every_check(arguments: &[&str]) {
    let before = interfaces();
    let Some(lab) = start(arguments) else { return };
    let pid = lab.id();
    let output = lab.finish(Duration::from_secs(180));
    let progress = String::from_utf8_lossy(&output.stderr);
    if is_refused_by_the_machine(&output) {
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{progress}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["ok"], true, "{report}");
    assert_eq!(report["ues"], 2);
    let checks = report["checks"].as_array().unwrap();
    assert!(checks.len() >= 5, "{report}");
    if std::path::Path::new("/proc/sys/net/ipv6").exists() {
        let is_slaac = |check: &serde_json::Value| check["name"] == "IPv6 prefix by SLAAC";
        let slaac = checks.iter().find(|check| is_slaac(check)).unwrap();
        assert_eq!(slaac["figures"]["autoconfigured_ues"], 2, "{slaac}");
    }
    for check in checks {
        assert_eq!(check["ok"], true, "{check}");
    }
    let counters = &report["counters"];
    let count = |name: &str| counters[name].as_u64().unwrap();
    let outcomes = ["transmitted_pkts", "dropped_pkts", "punted_pkts", "buffered_pkts"];
    let sum: u64 = outcomes.iter().map(|name| count(name)).sum();
    assert_eq!(count("received_pkts"), sum, "{counters}");
    assert!(count("uplink_pkts") > 100 && count("downlink_pkts") > 100, "{counters}");
    assert_nothing_left(pid, &before);
}

#[test]
fn interrupted_demo_leaves_nothing() {
    let before = interfaces();
    let Some(lab) = start(&["--ues", "1", "--duration", "30"]) else { return };
    let pid = lab.id();
    let end = Instant::now() + Duration::from_secs(30);
    while namespaces(pid).len() < 3 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(Duration::from_secs(3));
    lab.signal(libc::SIGINT);
    let output = lab.finish(Duration::from_secs(30));
    if is_refused_by_the_machine(&output) {
        return;
    }
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert_nothing_left(pid, &before);
}
