//! `adit-lab scenario` with the real binaries: for each kind of rule, packets that match it.

use std::collections::BTreeSet;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use adit_tests::leftovers::{assert_nothing_left, interfaces, namespaces};
use adit_tests::process::{ChildProcess, binary, is_root, skip, skip_on_this_machine};

/// The kinds of rules and signaling whose effect a run must show.
const SCENARIOS: &[&str] = &[
    "gate",
    "packet-rate",
    "far",
    "qfi",
    "sdf",
    "precedence",
    "path-switch",
    "end-marker",
    "dscp",
    "n9",
    "ipv6-n3",
    "error-indication",
    "unknown-teid",
    "echo-path",
    "buffer",
    "buffer-discard",
    "threshold",
    "quota",
    "start-of-traffic",
    "inactivity",
    "ue-pool",
    "framed-route",
    "pfd",
    "predefined",
    "duplicate",
    "redirect",
    "forwarding-policy",
    "fragmentation",
    "large-packets",
    "network-instance",
    "reassembly",
    "local-switching",
];

/// A lab that runs the adit in the same folder.
fn start(arguments: &[&str]) -> Option<ChildProcess> {
    let (lab, _adit) = (binary("adit-lab")?, binary("adit")?);
    if !is_root() {
        return None;
    }
    Some(ChildProcess::start(Command::new(lab).arg("scenario").args(arguments)))
}

/// Status 2: the machine lacks something that the lab needs; its last line says what.
fn is_refused_by_the_machine(output: &Output) -> bool {
    let refused = output.status.code() == Some(2);
    if refused {
        let progress = String::from_utf8_lossy(&output.stderr);
        assert!(std::env::var_os("CI").is_none(), "{progress}");
        skip(progress.trim_end().lines().last().unwrap_or_default());
    }
    refused
}

#[test]
fn packets_obey_every_kind_of_rule() {
    pass_all(&["all", "--json"]);
}

#[test]
fn packets_obey_every_kind_of_rule_in_a_pipeline() {
    pass_all(&["all", "--json", "--model", "pipeline"]);
}

#[test]
fn packets_obey_every_kind_of_rule_behind_the_seven_queues_of_an_event_scheduler() {
    pass_all(&["all", "--json", "--model", "eventdev-dsw-7"]);
}

#[test]
fn packets_obey_every_kind_of_rule_over_ports_of_the_kernel() {
    pass_all(&["all", "--json", "--io", "kernel"]);
}

#[test]
fn packets_obey_every_kind_of_rule_behind_the_xdp_program() {
    pass_all(&["all", "--json", "--io", "xdp"]);
}

#[test]
fn packets_that_fill_links_of_9000_octets_pass_packet_sockets() {
    pass(&["large-packets", "--json", "--mtu", "9000"], &["large-packets"]);
}

#[test]
fn packets_that_fill_links_of_9000_octets_pass_ports_of_the_kernel() {
    pass(&["large-packets", "--json", "--mtu", "9000", "--io", "kernel"], &["large-packets"]);
}

/// The largest MTU of AF_XDP.
#[test]
fn packets_that_fill_links_of_3430_octets_pass_af_xdp_with_and_without_the_program() {
    for io in ["af-xdp", "xdp"] {
        pass(&["large-packets", "--json", "--mtu", "3430", "--io", io], &["large-packets"]);
    }
}

fn pass_all(arguments: &[&str]) {
    pass(arguments, SCENARIOS);
}

fn pass(arguments: &[&str], scenarios: &[&str]) {
    let before = interfaces();
    let Some(lab) = start(arguments) else { return };
    let pid = lab.id();
    let output = lab.finish(Duration::from_secs(300));
    if is_refused_by_the_machine(&output) {
        return;
    }
    let progress = String::from_utf8_lossy(&output.stderr);
    if progress.contains("with xdp = \"auto\" adit goes on without XDP") {
        return skip_on_this_machine("XDP does not work here");
    }
    assert_eq!(output.status.code(), Some(0), "{progress}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut passed = BTreeSet::new();
    for scenario in report["scenarios"].as_array().unwrap() {
        assert_eq!(scenario["ok"], true, "{scenario}");
        passed.insert(scenario["name"].as_str().unwrap());
    }
    let wanted: BTreeSet<&str> = scenarios.iter().copied().collect();
    assert_eq!(passed, wanted);
    assert_nothing_left(pid, &before);
}

#[test]
fn interrupted_scenario_leaves_nothing() {
    let before = interfaces();
    // The scenario runs for seconds, so the signal arrives while it works.
    let Some(lab) = start(&["echo-path"]) else { return };
    let pid = lab.id();
    let end = Instant::now() + Duration::from_secs(30);
    while namespaces(pid).len() < 3 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(Duration::from_secs(1));
    lab.signal(libc::SIGINT);
    let output = lab.finish(Duration::from_secs(30));
    if is_refused_by_the_machine(&output) {
        return;
    }
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert_nothing_left(pid, &before);
}
