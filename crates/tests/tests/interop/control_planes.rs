//! Messages of the SMFs of Open5GS, free5GC, SD-Core and OAI, sent to a running `adit` with traffic
//! through its rules. The profiles are in `interop/control-planes`; adit runs with the
//! configurations that `docs/interop.md` and `docs/interop-n9.md` show.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use adit_tests::control_planes::{AttachedDaemon, configurations};
use adit_tests::process::{binary, run};

const NAMES: [&str; 4] = ["Open5GS", "free5GC", "SD-Core", "OAI"];
const PAIRS: [[&str; 2]; 2] = [["I-UPF", "PSA"], ["SGW-U", "PGW-U"]];

/// Runs the profile of a control plane on one `adit`.
fn attach(control_plane: &str, cases_min: usize) {
    let profile = control_plane.to_lowercase();
    run_profile(&profile, cases_min, || AttachedDaemon::start(control_plane));
}

/// Runs a profile on two of them.
fn attach_two(profile: &str, [first, second]: [&str; 2], cases_min: usize) {
    run_profile(profile, cases_min, || AttachedDaemon::start_two(profile, first, second));
}

/// Runs a profile. All its cases must pass; fewer than `cases_min` mean that the script lost some.
fn run_profile(profile: &str, cases_min: usize, start: impl FnOnce() -> Option<AttachedDaemon>) {
    let Some(binaries) = adit_tests::go::build("control-planes", &["."]) else { return };
    let Some(mut attached) = start() else { return };
    let cases = attached.run(&binaries.join("control-planes"), profile);
    let failed: Vec<_> = cases.iter().filter(|case| case["ok"] != true).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(cases.len() >= cases_min, "{cases:#?}");
    for daemon in attached.daemons() {
        assert_eq!(daemon.sessions(), 0, "every case ends its session");
    }
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
fn branching_point_and_anchor_pass_every_case_with_traffic_over_n9() {
    attach_two("ulcl", PAIRS[0], 9);
}

#[test]
fn sgw_u_and_pgw_u_pass_every_case_with_traffic_over_s5() {
    attach_two("epc", PAIRS[1], 7);
}

#[test]
fn document_has_a_configuration_for_each_control_plane_that_adit_accepts() {
    let Some(adit) = binary("adit") else { return };
    let configurations = configurations();
    let names: Vec<&str> = configurations.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, [&NAMES[..], PAIRS.as_flattened()].concat());
    for (name, text) in configurations {
        assert_eq!(check(&adit, &text), Ok(()), "{name}");
    }
}

#[test]
fn upf_needs_an_interface_for_tunnels_and_n6_unless_it_has_n9() {
    let Some(adit) = binary("adit") else { return };
    let of = |name| configurations().into_iter().find(|(known, _)| known == name).unwrap().1;
    let problem = check(&adit, &of("SGW-U").replace("\"n9\"", "\"n3\"")).unwrap_err();
    assert!(problem.contains("write at least one interface with role = \"n6\""), "{problem}");
    let problem = check(&adit, &of("PGW-U").replace("\"n9\"", "\"n4u\"")).unwrap_err();
    assert!(problem.contains("role = \"n3\" (RAN) or role = \"n9\""), "{problem}");
}

/// The objection of `adit check` to a configuration.
fn check(adit: &Path, text: &str) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("adit.toml");
    std::fs::write(&file, text).unwrap();
    let output = run(Command::new(adit).arg("check").arg(&file), Duration::from_secs(10));
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}
