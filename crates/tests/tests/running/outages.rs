//! Outages of N4 and of adit that the other side notices, under traffic: users keep their service,
//! and the SMF its sessions.

use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::associated_smf::TestSmf;
use crate::load::{LoadSession, ReloadTraffic};
use crate::smf;
use adit_pfcp::ie::{Cause, NodeId, RecoveryTimeStamp};
use adit_pfcp::message::AssociationSetupResponse;
use adit_pfcp::{Message, MessageType};
use adit_tests::daemon::{self, Daemon};
use adit_tests::process::{ChildProcess, TestNamespace, is_root, wait_for_file};

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
    let _alone = crate::alone();
    if let Some(dir) = std::env::var_os(INSIDE) {
        let dir = PathBuf::from(dir);
        let mut smf = TestSmf::associated();
        let load = ReloadTraffic::start(sessions(&mut smf));
        mark(&dir, RUNNING);
        // The SMF answers no heartbeats.
        wait_for_file(&dir.join(OVER), LIMIT);
        set_up_again(&mut smf);
        std::thread::sleep(AFTERWARDS);
        let arrived = load.stop();
        assert_eq!((arrived.lost, arrived.late), ((0, 0), 0), "{arrived:?}");
        return;
    }
    let Some(daemon) = start("n4cut", "kind = \"none\"") else { return };
    let child = begin(&daemon, "outages::pings_go_on_through_a_cut_of_n4_and_after_it");
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
    let _alone = crate::alone();
    if let Some(dir) = std::env::var_os(INSIDE) {
        let dir = PathBuf::from(dir);
        let mut smf = TestSmf::associated();
        let sessions = sessions(&mut smf);
        mark(&dir, RUNNING);
        wait_for_file(&dir.join(OVER), LIMIT);
        set_up_again(&mut smf);
        let load = ReloadTraffic::start(sessions);
        std::thread::sleep(AFTERWARDS);
        let arrived = load.stop();
        assert_eq!((arrived.lost, arrived.late), ((0, 0), 0), "{arrived:?}");
        return;
    }
    let journal = |dir: &Path| format!("folder = \"{}\"", dir.join("journal").display());
    let Some(daemon) = start_with("outage", journal) else { return };
    let child = begin(&daemon, "outages::pings_go_on_after_an_outage_of_adit_that_the_smf_noticed");
    let daemon = daemon.kill().start();
    mark(daemon.dir(), OVER);
    finish(child);
    assert_eq!(daemon.sessions(), usize::from(SESSIONS));
    assert!(daemon.stop().status.success());
}

/// The SMF has a name, and another address after it was started anew.
#[test]
fn smf_at_another_address_is_found_by_its_name() {
    let _alone = crate::alone();
    if let Some(dir) = std::env::var_os(INSIDE) {
        let dir = PathBuf::from(dir);
        drop(accept_association("127.0.0.10"));
        mark(&dir, RUNNING);
        drop(accept_association("127.0.0.11"));
        return;
    }
    if !is_root() {
        return;
    }
    let namespace = TestNamespace::new("smfname");
    // The files that `ip netns exec` puts in place of the machine's.
    let files = NamespaceFiles::new(namespace.name());
    files.write_hosts("127.0.0.10 smf.test\n");
    let started = Daemon::start_in(namespace, |dir| {
        let timers = "heartbeat_interval_ms = 200\nt1_ms = 100\nn1_retries = 1\nconnect = [\"smf.test:8805\"]";
        let node = daemon::node(4096, &daemon::cores()[..1], dir);
        let node = node.replace("heartbeat_interval_ms = 60000", timers);
        node + &daemon::interfaces(["net_null0,no-rx=1", "net_null1,no-rx=1"], daemon::N3)
    });
    let Some(daemon) = started else { return };
    let child = begin(&daemon, "outages::smf_at_another_address_is_found_by_its_name");
    files.write_hosts("127.0.0.11 smf.test\n");
    finish(child);
    let associations = daemon.show("associations");
    let peers = associations["associations"].as_array().unwrap().iter().map(|one| &one["peer"]);
    assert!(
        peers.clone().any(|peer| peer.as_str().unwrap().starts_with("127.0.0.11")),
        "{associations}"
    );
    assert!(daemon.stop().status.success());
}

/// Waits for adit's setup at this address, and accepts it.
fn accept_association(address: &str) -> UdpSocket {
    let socket = UdpSocket::bind((address, 8805)).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    loop {
        let mut buffer = [0; 4096];
        let (len, adit) = socket.recv_from(&mut buffer).unwrap();
        let header = smf::raw(&buffer[..len]).header;
        if header.message_type == MessageType::ASSOCIATION_SETUP_REQUEST {
            let node_id = NodeId::Ipv4(address.parse().unwrap());
            let started = RecoveryTimeStamp(smf::SMF_STARTED);
            let body = AssociationSetupResponse::new(node_id, Cause::RequestAccepted, started);
            let answer = smf::encode(None, header.sequence, &body);
            socket.send_to(&answer, adit).unwrap();
            return socket;
        }
    }
}

/// The files of `/etc` that a namespace has of its own. Dropping it removes them.
struct NamespaceFiles(PathBuf);

impl NamespaceFiles {
    fn new(namespace: &str) -> Self {
        let folder = Path::new("/etc/netns").join(namespace);
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    /// Overwrites `hosts` in place: the file itself is mounted where adit runs.
    fn write_hosts(&self, text: &str) {
        std::fs::write(self.0.join("hosts"), text).unwrap();
    }
}

impl Drop for NamespaceFiles {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
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
    wait_for_file(&daemon.dir().join(RUNNING), LIMIT);
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

fn sessions(smf: &mut TestSmf) -> Vec<LoadSession> {
    (1..=SESSIONS).map(|number| LoadSession::establish(smf, number).unwrap()).collect()
}

/// The SMF has lost nothing: its Recovery Time Stamp is unchanged.
fn set_up_again(smf: &mut TestSmf) {
    let answer = smf.set_up();
    let Message::AssociationSetupResponse(body) = smf::decode(&answer) else { panic!() };
    assert_eq!(body.cause, Cause::RequestAccepted);
}
