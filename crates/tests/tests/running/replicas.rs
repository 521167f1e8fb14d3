//! Replicas of `adit` under one SMF, as the Helm chart makes them: each has its own addresses, pool
//! and records. Sessions are spread, one replica is drained and ends, another one is added, and the
//! sessions of all others lose no packet.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::associated_smf::{SMF, TestSmf};
use crate::load::{LoadSession, PlacedSession, ReloadTraffic, UserPlane};
use crate::reload::{accepted, established};
use crate::smf;
use adit_pfcp::Message;
use adit_pfcp::ie::Cause;
use adit_tests::daemon;
use adit_tests::link::mac;
use adit_tests::process::{ChildProcess, TestNamespace, binary, is_root, run};
use adit_types::Seid;
use serde_json::Value;
use tempfile::TempDir;

/// Environment variable of the run inside the namespace.
const INSIDE: &str = "ADIT_TEST_INSIDE";
const TEST: &str =
    "replicas::sessions_of_other_replicas_lose_no_packet_while_one_is_drained_and_one_is_added";
/// Replicas at first. The one that is added has the next number.
const REPLICAS: u8 = 3;
const DRAINED: u8 = 1;
const SESSIONS_OF_EACH: usize = 4;
const LIMIT: Duration = Duration::from_secs(240);
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn sessions_of_other_replicas_lose_no_packet_while_one_is_drained_and_one_is_added() {
    let _alone = crate::alone();
    if std::env::var_os(INSIDE).is_some() {
        return inside();
    }
    if !is_root() || binary("adit").is_none() {
        return;
    }
    let namespace = switched_namespace();
    let output = ChildProcess::start(namespace.this_test(TEST).env(INSIDE, "1")).finish(LIMIT);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{said}");
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
}

/// A namespace with a switch for N3 and one for N6. The ports of all replicas are behind them, and
/// the devices `gnb0` and `net0`.
fn switched_namespace() -> TestNamespace {
    let namespace = TestNamespace::new("replicas");
    for (switch, device, station) in [("n3", "up", "gnb0"), ("n6", "core", "net0")] {
        namespace.ip(&["link", "add", switch, "type", "bridge", "mcast_snooping", "0"]);
        let ports = (0..=REPLICAS).map(|ordinal| format!("{device}{ordinal}"));
        let ends: Vec<String> = ports.chain([station.to_owned()]).collect();
        for end in &ends {
            let behind = format!("{end}b");
            namespace.ip(&["link", "add", end, "type", "veth", "peer", "name", &behind]);
            namespace.ip(&["link", "set", &behind, "master", switch]);
            for device in [end, &behind] {
                namespace.ip(&["link", "set", device, "addrgenmode", "none", "up"]);
            }
        }
        namespace.ip(&["link", "set", switch, "addrgenmode", "none", "up"]);
    }
    namespace
}

/// A running replica.
struct Replica {
    ordinal: u8,
    process: ChildProcess,
    dir: TempDir,
}

impl Replica {
    fn start(ordinal: u8) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("adit.toml");
        std::fs::write(&config, configuration(ordinal, dir.path())).unwrap();
        let mut command = Command::new(binary("adit").unwrap());
        command.args(["run", "--config"]).arg(&config).env("RUST_LOG", "error");
        let replica = Self { ordinal, process: ChildProcess::start(&mut command), dir };
        let end = Instant::now() + PATIENCE;
        while !replica.adit(&["show", "node"]).0 {
            assert!(Instant::now() < end, "replica {ordinal} does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        replica
    }

    /// Runs a command for it. Returns whether it succeeded, and its output.
    fn adit(&self, arguments: &[&str]) -> (bool, Vec<u8>) {
        let output = run(&mut daemon::adit(self.dir.path(), arguments), PATIENCE);
        (output.status.success(), output.stdout)
    }

    fn show(&self, topic: &str) -> Value {
        let (success, output) = self.adit(&["show", topic, "--json"]);
        assert!(success, "{}", String::from_utf8_lossy(&output));
        serde_json::from_slice(&output).unwrap()
    }

    fn sessions(&self) -> u64 {
        self.show("node")["sessions"].as_u64().unwrap()
    }

    fn user_plane(&self) -> UserPlane {
        let ordinal = self.ordinal;
        UserPlane {
            n3: n3(ordinal),
            n3_mac: mac(&format!("up{ordinal}")),
            n6_mac: mac(&format!("core{ordinal}")),
        }
    }

    fn stop(self) {
        self.process.signal(libc::SIGTERM);
        let output = self.process.finish(PATIENCE);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

fn n4(ordinal: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, 20 + ordinal)
}

/// On the link of the gNB.
fn n3(ordinal: u8) -> Ipv4Addr {
    let [a, b, c, _] = smf::GNB.octets();
    Ipv4Addr::new(a, b, c, 20 + ordinal)
}

/// The second octet of a replica's pool.
fn pool(ordinal: u8) -> u8 {
    64 + ordinal
}

fn configuration(ordinal: u8, dir: &Path) -> String {
    let node = daemon::node(200, &daemon::cores()[..1], dir)
        .replace(daemon::N4, &n4(ordinal).to_string())
        // The replicas share the cores of the test.
        .replace("main_core", "poll = \"adaptive\"\nmain_core");
    let device = |port: &str| format!("kernel:packet,iface={port}{ordinal}");
    let (access, core) = (device("up"), device("core"));
    let interfaces = daemon::interfaces([&access, &core], &n3(ordinal).to_string())
        .replace("10.0.6.2/24", &format!("10.0.6.{}/24", 20 + ordinal));
    let pool = pool(ordinal);
    format!("{node}{interfaces}\n[[ue_pool]]\nprefix = \"10.{pool}.0.0/16\"\n")
}

/// A session of the SMF.
struct SmfSession {
    up_seid: Seid,
    ordinal: u8,
    placed: PlacedSession,
}

/// An SMF that spreads sessions over its user planes in turn.
struct SpreadingSmf {
    smf: TestSmf,
    user_planes: Vec<(u8, UserPlane)>,
    established: usize,
    /// Establishments that a user plane refused because it has enough to do.
    refused: usize,
}

impl SpreadingSmf {
    fn add(&mut self, replica: &Replica) {
        self.smf.turn_to(n4(replica.ordinal));
        let answer = self.smf.set_up();
        let Message::AssociationSetupResponse(body) = smf::decode(&answer) else { panic!() };
        assert!(body.cause.is_accepted(), "{body:?}");
        self.user_planes.push((replica.ordinal, replica.user_plane()));
    }

    /// Establishes a session at the next user plane that takes it.
    fn establish(&mut self) -> SmfSession {
        for _ in 0..self.user_planes.len() {
            let (ordinal, through) = self.user_planes[self.established % self.user_planes.len()];
            self.established += 1;
            let number = u64::try_from(self.established).unwrap();
            self.smf.turn_to(n4(ordinal));
            let answer = self.smf.answer(|sequence| smf::choosing(sequence, number));
            match established(&answer).cause {
                Cause::EntityInCongestion => self.refused += 1,
                _ => {
                    let (teid, ue) = accepted(&answer);
                    let session = LoadSession { ue: ue.unwrap(), teid };
                    let up_seid = established(&answer).up_f_seid.unwrap().seid;
                    return SmfSession {
                        up_seid,
                        ordinal,
                        placed: PlacedSession { session, through },
                    };
                }
            }
        }
        panic!("no user plane takes a session");
    }

    /// Gives the user of a session another one elsewhere, then deletes it.
    fn re_establish(&mut self, former: &SmfSession) -> SmfSession {
        let later = self.establish();
        self.smf.turn_to(n4(former.ordinal));
        let answer = self.smf.answer(|sequence| smf::delete(sequence, former.up_seid));
        let Message::SessionDeletionResponse(body) = smf::decode(&answer) else { panic!() };
        assert!(body.cause.is_accepted(), "{body:?}");
        later
    }

    /// Releases the association with a user plane.
    fn release(&mut self, ordinal: u8) {
        self.user_planes.retain(|(other, _)| *other != ordinal);
        self.smf.turn_to(n4(ordinal));
        let answer = self.smf.answer(|sequence| smf::release(sequence, SMF));
        let Message::AssociationReleaseResponse(body) = smf::decode(&answer) else { panic!() };
        assert!(body.cause.is_accepted(), "{body:?}");
    }
}

fn inside() {
    let mut replicas: Vec<Replica> = (0..REPLICAS).map(Replica::start).collect();
    let smf = TestSmf::talking_to(n4(0));
    let mut smf = SpreadingSmf { smf, user_planes: Vec::new(), established: 0, refused: 0 };
    replicas.iter().for_each(|replica| smf.add(replica));
    let count = SESSIONS_OF_EACH * usize::from(REPLICAS);
    let mut sessions: Vec<SmfSession> = (0..count).map(|_| smf.establish()).collect();
    let of_each = u64::try_from(SESSIONS_OF_EACH).unwrap();
    assert!(replicas.iter().all(|replica| replica.sessions() == of_each));
    addresses_are_of_their_replica(&sessions);

    let others: Vec<_> =
        sessions.iter().filter(|one| one.ordinal != DRAINED).map(|one| one.placed).collect();
    let undisturbed = others.len();
    let load = ReloadTraffic::start_placed(others);
    drain(&mut smf, &mut replicas, &mut sessions);
    let added = Replica::start(REPLICAS);
    smf.add(&added);
    replicas.push(added);
    sessions.extend((0..count).map(|_| smf.establish()));
    let arrived = load.stop();
    assert_eq!((arrived.lost, arrived.late), ((0, 0), 0), "{arrived:?}");

    addresses_are_of_their_replica(&sessions);
    assert_eq!(replicas.last().unwrap().sessions(), of_each);
    let all = sessions.iter().map(|one| one.placed).collect();
    let load = ReloadTraffic::start_placed(all);
    std::thread::sleep(Duration::from_secs(1));
    let arrived_everywhere = load.stop();
    assert_eq!(arrived_everywhere.lost, (0, 0), "{arrived_everywhere:?}");
    for replica in &replicas {
        assert_eq!(replica.show("counters")["identity_holds"], true, "replica {}", replica.ordinal);
    }
    println!(
        "{} uplink packets of {undisturbed} sessions arrived, none was lost; {} establishments went elsewhere",
        arrived.by_gateway[0], smf.refused
    );
    replicas.into_iter().for_each(Replica::stop);
}

/// Drains a replica: new sessions go elsewhere, its own are established anew, and it ends.
fn drain(smf: &mut SpreadingSmf, replicas: &mut Vec<Replica>, sessions: &mut Vec<SmfSession>) {
    let drained = replicas.remove(DRAINED.into());
    assert!(drained.adit(&["drain", "on"]).0);
    sessions.extend((0..SESSIONS_OF_EACH).map(|_| smf.establish()));
    assert!(smf.refused > 0, "a drained replica refuses sessions");
    assert_eq!(drained.sessions(), u64::try_from(SESSIONS_OF_EACH).unwrap());
    for session in sessions.iter_mut().filter(|session| session.ordinal == DRAINED) {
        *session = smf.re_establish(session);
    }
    let node = drained.show("node");
    assert_eq!((&node["state"], &node["sessions"]), (&"draining".into(), &0.into()));
    smf.release(DRAINED);
    drained.stop();
}

/// Each UE has an address of the pool of its replica, and no other UE has it.
fn addresses_are_of_their_replica(sessions: &[SmfSession]) {
    let mut seen = std::collections::BTreeSet::new();
    for SmfSession { ordinal, placed, .. } in sessions {
        let ue = placed.session.ue;
        assert_eq!(ue.octets()[..2], [10, pool(*ordinal)], "{ue}");
        assert!(seen.insert(ue), "{ue} is there twice");
    }
}
