//! `adit-lab scenario all` with the real binaries: for each kind of rule, packets that obey it.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::process::Command;
use std::time::Duration;

use adit_tests::process::{binary, is_root, run, skip};

/// Fewer than these mean that the lab lost some.
const SCENARIOS_MIN: usize = 6;

#[test]
fn packets_obey_every_kind_of_rule() {
    let (Some(lab), Some(_adit), true) = (binary("adit-lab"), binary("adit"), is_root()) else {
        return;
    };
    let mut command = Command::new(lab);
    let output = run(command.args(["scenario", "all", "--json"]), Duration::from_secs(180));
    let progress = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(2) {
        assert!(std::env::var_os("CI").is_none(), "{progress}");
        skip(progress.trim_end().lines().last().unwrap_or_default());
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{progress}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let scenarios = report["scenarios"].as_array().unwrap();
    assert!(scenarios.len() >= SCENARIOS_MIN, "{report}");
    for scenario in scenarios {
        assert_eq!(scenario["ok"], true, "{scenario}");
    }
}
