//! `apt install` of another version while users' traffic flows, forth and back.

use std::path::{Path, PathBuf};
use std::time::Duration;

use adit_tests::daemon;
use adit_tests::process::{ChildProcess, wait_for_file};
use adit_tests::release::former_release;

use crate::associated_smf::TestSmf;
use crate::clean_root::CleanRoot;
use crate::load::{LoadSession, ReloadTraffic};
use crate::package::{VERSION, packages, repacked};
use crate::service::{Service, pretend_systemd};
use crate::smf;

/// Environment variable of the run inside the namespace of the service: the folder of its files.
const INSIDE: &str = "ADIT_TEST_INSIDE";
const SESSIONS: u16 = 4;
/// The version that is installed first: of the last release, if it was built.
const FORMER: &str = "0.1.0";
const LIMIT: Duration = Duration::from_secs(60);
/// Packets flow for this long before and after a change of versions.
const AROUND: Duration = Duration::from_secs(1);
/// Packets of each direction in a second.
const PACKETS_PER_S: usize = 1000;

#[test]
fn update_and_roll_back_lose_no_session_and_a_second_of_packets_at_most() {
    if let Some(folder) = std::env::var_os(INSIDE) {
        return exchange_packets(Path::new(&folder));
    }
    let _alone = crate::alone();
    let Some(packages) = packages() else { return };
    let Some(root) = CleanRoot::new(packages) else { return };
    let former = repacked(&packages.adit, FORMER, former_release().as_deref());
    let (former, present) = (root.put(&former), root.put(&packages.adit));
    pretend_systemd(&root);
    root.said(&["apt-get", "install", "--yes", "-qq", &former]);
    std::fs::write(root.path("/etc/adit/adit.toml"), configuration()).unwrap();
    let namespace = daemon::veth_namespace("package");
    let mut service = Service::new(&root, &namespace);
    service.start("READY=1");

    let folder = tempfile::tempdir().unwrap();
    let test = "update::update_and_roll_back_lose_no_session_and_a_second_of_packets_at_most";
    let users = ChildProcess::start(namespace.this_test(test).env(INSIDE, folder.path()));
    for (phase, package, version) in [("update", &present, VERSION), ("roll-back", &former, FORMER)]
    {
        wait_for_file(&file(folder.path(), phase, "begun"), LIMIT);
        std::thread::sleep(AROUND);
        let install = ["apt-get", "install", "--yes", "-qq", "--allow-downgrades", package];
        let restarts = service.during(&install);
        println!("{phase}: the service was away for {restarts:?}");
        assert_eq!(restarts.len(), 1, "{phase}");
        let installed = root.said(&["dpkg-query", "-W", "-f", "${Version}", "adit"]);
        assert_eq!(installed, version);
        std::thread::sleep(AROUND);
        std::fs::write(file(folder.path(), phase, "over"), "").unwrap();
    }
    let output = users.finish(LIMIT);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    println!("{said}");
    let sessions = root.said(&["adit", "show", "sessions", "--json"]);
    let sessions: serde_json::Value = serde_json::from_str(&sessions).unwrap();
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), usize::from(SESSIONS));
    assert!(service.stop().status.success());
}

/// The users of the sessions, and their SMF.
fn exchange_packets(folder: &Path) {
    let mut smf = TestSmf::associated();
    let establish = |number| LoadSession::establish(&mut smf, number).unwrap();
    let sessions: Vec<_> = (1..=SESSIONS).map(establish).collect();
    for phase in ["update", "roll-back"] {
        let load = ReloadTraffic::start(sessions.clone());
        std::fs::write(file(folder, phase, "begun"), "").unwrap();
        wait_for_file(&file(folder, phase, "over"), LIMIT);
        let arrived = load.stop();
        println!("{phase}: packets lost up and down {:?}", arrived.lost);
        let (up, down) = arrived.lost;
        assert!(up.max(down) <= PACKETS_PER_S, "{phase}: {arrived:?}");
    }
}

/// Ports that the former release supports as well.
fn configuration() -> String {
    let devices =
        ["net_af_packet0,iface=up0,framecnt=2048", "net_af_packet1,iface=core0,framecnt=2048"];
    let node = daemon::node(4096, &daemon::cores()[..1], Path::new("/run/adit"));
    let node = node.replace("kind = \"none\"", "kind = \"journal\"");
    node + &daemon::interfaces(devices, &smf::N3.to_string())
}

fn file(folder: &Path, phase: &str, word: &str) -> PathBuf {
    folder.join(format!("{phase}-{word}"))
}
