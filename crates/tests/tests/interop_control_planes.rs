//! What the SMFs of Open5GS, free5GC, SD-Core and OAI send, sent to a running `adit` with traffic
//! through its rules. The profiles are in `interop/control-planes`; adit runs with the configurations
//! that `docs/interop.md` shows.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::process::Command;
use std::time::Duration;

use adit_tests::control_planes::{AttachedDaemon, configurations};
use adit_tests::process::{binary, run};

const NAMES: [&str; 4] = ["Open5GS", "free5GC", "SD-Core", "OAI"];

/// Runs a profile. All its cases must pass; fewer than `cases_min` mean that the script lost some.
fn attach(control_plane: &str, cases_min: usize) {
    let Some(binaries) = adit_tests::go::build("control-planes", &["."]) else { return };
    let Some(mut attached) = AttachedDaemon::start(control_plane) else { return };
    let profile = control_plane.to_lowercase();
    let cases = attached.run(&binaries.join("control-planes"), &profile);
    let failed: Vec<_> = cases.iter().filter(|case| case["ok"] != true).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(cases.len() >= cases_min, "{cases:#?}");
    assert_eq!(attached.daemon().sessions(), 0, "every case ends its session");
    attached.end();
}

#[test]
fn open5gs_profile_passes_every_case_with_traffic() {
    attach(NAMES[0], 19);
}

#[test]
fn free5gc_profile_passes_every_case_with_traffic() {
    attach(NAMES[1], 14);
}

#[test]
fn sd_core_profile_passes_every_case_with_traffic() {
    attach(NAMES[2], 13);
}

#[test]
fn oai_profile_passes_every_case_with_traffic() {
    attach(NAMES[3], 13);
}

#[test]
fn document_has_a_configuration_for_each_control_plane_that_adit_accepts() {
    let Some(adit) = binary("adit") else { return };
    let configurations = configurations();
    let names: Vec<&str> = configurations.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, NAMES);
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in configurations {
        let file = dir.path().join("adit.toml");
        std::fs::write(&file, text).unwrap();
        let output = run(Command::new(&adit).arg("check").arg(&file), Duration::from_secs(10));
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
