//! A running `adit` at a strict NRF: registration, drain, reload, what operators see, and the end.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use adit_tests::daemon::{self, Daemon};
use adit_tests::process::{ChildProcess, is_root, run};
use serde_json::{Value, json};

use crate::strict_nrf::{NrfOptions, StrictNrf};

/// Environment variable of the run inside the daemon's namespace: the folder of the daemon.
const INSIDE: &str = "ADIT_TEST_INSIDE";
/// Environment variable of the run inside the daemon's namespace: the process identifier of the
/// daemon.
const DAEMON: &str = "ADIT_TEST_DAEMON";

const NRF: &str = "127.0.0.5:7777";
/// Nobody listens there.
const DEAD_NRF: &str = "127.0.0.6:7777";
const LIMIT: Duration = Duration::from_secs(120);

fn adit(dir: &Path, arguments: &[&str]) -> String {
    let output = run(&mut daemon::adit(dir, arguments), LIMIT);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn show(dir: &Path) -> Value {
    serde_json::from_str(&adit(dir, &["show", "nrf", "--json"])).unwrap()
}

fn nrf_section() -> String {
    format!("\n[nrf]\nservers = [\"http://{DEAD_NRF}\", \"http://{NRF}\"]\npriority = 3\n")
}

#[test]
fn upf_registers_drains_reloads_and_deregisters() {
    if let Some(dir) = std::env::var_os(INSIDE) {
        return inside(Path::new(&dir));
    }
    if !is_root() {
        return;
    }
    let started = Daemon::start_with("nrf", |dir| {
        let ports = daemon::interfaces(["net_null0,no-rx=1", "net_null1,no-rx=1"], daemon::N3);
        daemon::node(1000, &daemon::cores()[..1], dir) + &ports + &nrf_section()
    });
    let Some(daemon) = started else { return };
    let mut command = daemon.this_test("nrf::upf_registers_drains_reloads_and_deregisters");
    command.env(INSIDE, daemon.dir()).env(DAEMON, daemon.id().to_string());
    let output = ChildProcess::start(&mut command).finish(LIMIT);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let ended = daemon.finish();
    let log = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success() && log.contains("deregistered at the NRF"), "{log}");
}

/// The daemon began before its NRF.
fn inside(dir: &Path) {
    let address: SocketAddr = NRF.parse().unwrap();
    let address = Some(address);
    let nrf = StrictNrf::start(NrfOptions { address, heartbeat_s: 1, ..NrfOptions::default() });
    nrf.wait("registered", |nrf| nrf.count("PUT") == 1);
    let profile = nrf.profiles()[0].clone();
    assert_eq!((&profile["priority"], &profile["nfStatus"]), (&json!(3), &json!("REGISTERED")));
    assert_eq!(profile["ipv4Addresses"], json!([daemon::N4]));
    nrf.wait("two heartbeats", |nrf| nrf.count("PATCH") >= 2);
    let shown = show(dir);
    assert_eq!(
        (&shown["state"], &shown["nrf"], &shown["heartbeat_s"]),
        (&json!("registered"), &json!(format!("http://{NRF}")), &json!(1))
    );
    assert_eq!(shown["nf_instance_id"], profile["nfInstanceId"]);
    assert_eq!(shown["servers"].as_array().unwrap().len(), 2);
    let problem = shown["servers"][0]["problem"].as_str().unwrap();
    assert!(problem.contains("start the NRF, or check nrf.servers"), "{problem}");
    let text = adit(dir, &["show", "nrf"]);
    assert!(text.contains("start the NRF"), "{text}");
    let metrics = adit(dir, &["show", "metrics"]);
    assert!(metrics.contains("adit_nrf_registered 1"), "{metrics}");

    adit(dir, &["drain", "on"]);
    nrf.wait("drained", |nrf| nrf.profiles()[0]["nfStatus"] == "UNDISCOVERABLE");
    // The answer to adit comes after the NRF has changed.
    let is_shown = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        show(dir)["nf_status"] == "undiscoverable"
    });
    assert!(is_shown, "{}", show(dir));
    adit(dir, &["drain", "off"]);
    nrf.wait("discoverable", |nrf| nrf.profiles()[0]["nfStatus"] == "REGISTERED");

    let file = dir.join("adit.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("priority = 3", "priority = 4\ncapacity = 50")).unwrap();
    adit(dir, &["reload"]);
    nrf.wait("changed", |nrf| {
        let profile = &nrf.profiles()[0];
        profile["priority"] == 4 && profile.get("capacity") == Some(&json!(50))
    });

    adit(dir, &["log", "info"]);
    let daemon = std::env::var(DAEMON).unwrap();
    run(Command::new("kill").args(["-TERM", &daemon]), LIMIT);
    nrf.wait("deregistered", |nrf| nrf.count("DELETE") == 1 && nrf.profiles().is_empty());
    assert_eq!(nrf.count("PUT"), 1);
    nrf.assert_content();
}
