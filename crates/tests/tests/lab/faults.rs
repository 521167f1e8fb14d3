//! `adit-lab faults` with the real binaries, in short: processes and links fail, and nothing
//! acknowledged is lost.

use std::process::Command;
use std::time::Duration;

use adit_tests::leftovers::{assert_nothing_left, interfaces};
use adit_tests::process::{ChildProcess, binary, is_refused_by_the_machine, is_root, skip};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(240);

/// Runs some faults in a setting. `None`, with the reason printed, if the machine cannot have them.
fn report(setting: &str, only: &str) -> Option<Value> {
    let (lab, _adit) = (binary("adit-lab")?, binary("adit")?);
    if !is_root() {
        return None;
    }
    if setting != "journal" && Command::new("redis-server").arg("--version").output().is_err() {
        skip("redis-server is not installed");
        return None;
    }
    let before = interfaces();
    let mut command = Command::new(lab);
    command.args(["faults", "--setting", setting, "--only", only, "--seed", "1"]);
    let run = ChildProcess::start(command.args(["--duration", "8", "--json"]));
    let pid = run.id();
    let output = run.finish(LIMIT);
    if is_refused_by_the_machine(&output) {
        return None;
    }
    assert_nothing_left(pid, &before);
    let said = String::from_utf8_lossy(&output.stderr);
    println!("{said}");
    assert_eq!(output.status.code(), Some(0), "{said}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// The run has faults, changes between them, packets, and no finding.
fn assert_kept(report: &Value) {
    let run = &report["runs"][0];
    assert_eq!(run["findings"], Value::Array(Vec::new()), "{run}");
    assert!(run["faults"].as_array().unwrap().len() >= 2, "{run}");
    assert!(run["sessions"]["accepted"].as_u64().unwrap() > 50, "{run}");
    assert!(run["sessions"]["shown"].as_u64().unwrap() > 8, "{run}");
    assert!(run["losses"]["sent"].as_u64().unwrap() > 200, "{run}");
}

#[test]
fn journal_keeps_what_was_acknowledged_when_the_process_is_killed_and_the_network_fails() {
    if let Some(report) = report("journal", "kill-active,stop-active,degraded") {
        assert_kept(&report);
    }
}

#[test]
fn two_adits_keep_what_was_acknowledged_when_processes_end_and_the_server_is_killed() {
    if let Some(report) = report("server", "terminate-active,kill-standby,kill-server") {
        assert_kept(&report);
    }
}

#[test]
fn pair_that_acknowledges_by_each_other_keeps_it_when_the_server_and_the_active_one_fail() {
    if let Some(report) = report("pair", "kill-active,stop-server,kill-standby") {
        assert_kept(&report);
    }
}
