//! The tester of `adit-lab` with a UPF in a virtual machine, over vhost-user.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::process::{TestNamespace, run};

/// Without acceleration, on a busy machine.
const LIMIT: Duration = Duration::from_secs(400);

/// Passes users' packets both ways through the UPF that the shell command `start` runs in a machine
/// with its devices at the sockets `$N3` and `$N6`, and with N4 at 127.77.0.2:8805. `options`:
/// further ones of `adit-lab`.
///
/// # Panics
/// When packets of a direction do not come back. On a busy machine some are late.
pub fn pass_users_packets(lab: &Path, start: &str, options: &[&str]) {
    let namespace = TestNamespace::new("guest");
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (n3, n6, report) = (path("n3"), path("n6"), path("report.json"));
    let mut command = namespace.command(lab);
    command.env("N3", &n3).env("N6", &n6);
    command.args(["latency", "--target", "upf", "--smf", "127.0.0.1:8805"]).args(options);
    command.args(["--n3", &format!("net_vhost0,iface={n3}")]);
    command.args(["--n6", &format!("net_vhost1,iface={n6}")]);
    command.args(["--start", start, "--target-timeout", "300s", "--allow-shared-core"]);
    command.args(["--no-calibration", "--sessions", "10", "--size", "1400"]);
    command.args(["--rate", "100", "--duration", "2s", "--direction", "duplex", "--out", &report]);
    let output = run(&mut command, LIMIT);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{start}: {told}");
    let report: Value = serde_json::from_str(&std::fs::read_to_string(report).unwrap()).unwrap();
    let trial = &report["cases"][0]["trials"][0];
    let streams = trial["streams"].as_array().unwrap();
    assert_eq!(streams.len(), 2, "{trial}");
    for stream in streams {
        assert!(stream["received"].as_u64().unwrap() > 0, "{start}: {stream}");
    }
}
