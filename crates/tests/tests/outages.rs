//! Outages of N4 and of adit that the other side notices, under traffic: users keep their service, and the SMF its sessions.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]
#![allow(dead_code, reason = "modules that other tests share")]

mod associated_smf;
#[path = "reload/load.rs"]
mod load;
#[path = "../../n4/tests/smf/mod.rs"]
mod smf;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use adit_pfcp::Message;
use adit_pfcp::ie::Cause;
use adit_tests::daemon::{self, Daemon};
use adit_tests::process::{ChildProcess, is_root};
use associated_smf::TestSmf;
use load::{LoadSession, ReloadTraffic};

/// Environment variable of the run inside the daemon's namespace: the folder of the daemon.
const INSIDE: &str = "ADIT_TEST_INSIDE";
const SESSIONS: u16 = 4;
/// Files in the folder of the daemon by which the two runs agree.
const RUNNING: &str = "running";
const OVER: &str = "over";
const LIMIT: Duration = Duration::from_secs(60);
/// Packets flow for this long after an outage.
const AFTERWARDS: Duration = Duration::from_secs(1);

/// Reproduction B: N4 is away for longer than adit waits for heartbeats.
#[test]
fn pings_go_on_through_a_cut_of_n4_and_after_it() {
    if let Some(dir) = std::env::var_os(INSIDE) {
        let dir = PathBuf::from(dir);
        let mut smf = TestSmf::associated();
        let load = ReloadTraffic::start(sessions(&mut smf));
        mark(&dir, RUNNING);
        // It answers no heartbeats.
        wait_for(&dir.join(OVER));
        set_up_again(&mut smf);
        std::thread::sleep(AFTERWARDS);
        let arrived = load.stop();
        assert_eq!((arrived.lost, arrived.late), ((0, 0), 0), "{arrived:?}");
        return;
    }
    let Some(daemon) = start("n4cut", "kind = \"none\"") else { return };
    let child = begin(&daemon, "pings_go_on_through_a_cut_of_n4_and_after_it");
    let end = Instant::now() + LIMIT;
    while daemon.show("associations")["associations"][0]["state"] != "silent" {
        assert!(Instant::now() < end, "adit does not notice that its peer is away");
        std::thread::sleep(Duration::from_millis(50));
    }
    mark(daemon.dir(), OVER);
    finish(child);
    assert_eq!(daemon.sessions(), usize::from(SESSIONS));
    let counters = daemon.show("counters");
    assert_eq!((&counters["dropped_pkts"], &counters["identity_holds"]), (&0.into(), &true.into()));
    assert!(daemon.stop().status.success());
}

/// Reproduction A: adit is away for so long that the SMF sets up the association again.
#[test]
fn pings_go_on_after_an_outage_of_adit_that_the_smf_noticed() {
    if let Some(dir) = std::env::var_os(INSIDE) {
        let dir = PathBuf::from(dir);
        let mut smf = TestSmf::associated();
        let sessions = sessions(&mut smf);
        mark(&dir, RUNNING);
        wait_for(&dir.join(OVER));
        set_up_again(&mut smf);
        let load = ReloadTraffic::start(sessions);
        std::thread::sleep(AFTERWARDS);
        let arrived = load.stop();
        assert_eq!((arrived.lost, arrived.late), ((0, 0), 0), "{arrived:?}");
        return;
    }
    let journal = |dir: &Path| format!("folder = \"{}\"", dir.join("journal").display());
    let Some(daemon) = start_with("outage", journal) else { return };
    let child = begin(&daemon, "pings_go_on_after_an_outage_of_adit_that_the_smf_noticed");
    let daemon = daemon.kill().start();
    mark(daemon.dir(), OVER);
    finish(child);
    assert_eq!(daemon.sessions(), usize::from(SESSIONS));
    assert!(daemon.stop().status.success());
}

fn start(purpose: &str, store: &str) -> Option<Daemon> {
    start_with(purpose, |_| store.to_owned())
}

fn start_with(purpose: &str, store: impl Fn(&Path) -> String) -> Option<Daemon> {
    if !is_root() {
        return None;
    }
    Daemon::start_in(daemon::veth_namespace(purpose), |dir| {
        let device =
            |at: usize, iface: &str| format!("net_af_packet{at},iface={iface},framecnt=2048");
        let (access, core) = (device(0, "up0"), device(1, "core0"));
        let ports = daemon::interfaces([access.as_str(), core.as_str()], &smf::N3.to_string());
        let timers = "heartbeat_interval_ms = 200\nt1_ms = 50\nn1_retries = 1";
        let node = daemon::node(4096, &daemon::cores()[..1], dir);
        let node = node.replace("heartbeat_interval_ms = 60000", timers);
        node.replace("kind = \"none\"", &store(dir)) + &ports
    })
}

/// Begins the run inside the daemon's namespace, and waits until its sessions run.
fn begin(daemon: &Daemon, test: &str) -> ChildProcess {
    let child = ChildProcess::start(daemon.this_test(test).env(INSIDE, daemon.dir()));
    wait_for(&daemon.dir().join(RUNNING));
    child
}

fn finish(child: ChildProcess) {
    let output = child.finish(LIMIT);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
}

fn mark(dir: &Path, file: &str) {
    std::fs::write(dir.join(file), "").unwrap();
}

fn wait_for(file: &Path) {
    let end = Instant::now() + LIMIT;
    while !file.exists() {
        assert!(Instant::now() < end, "{} does not appear", file.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn sessions(smf: &mut TestSmf) -> Vec<LoadSession> {
    (1..=SESSIONS).map(|number| LoadSession::establish(smf, number).unwrap()).collect()
}

/// The SMF has lost nothing: its Recovery Time Stamp is the former one.
fn set_up_again(smf: &mut TestSmf) {
    let answer = smf.set_up();
    let Message::AssociationSetupResponse(body) = smf::decode(&answer) else { panic!() };
    assert_eq!(body.cause, Cause::RequestAccepted);
}
