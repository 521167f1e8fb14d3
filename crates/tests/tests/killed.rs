//! A running `adit` that is killed again and again while an SMF changes its sessions: all that was answered holds,
//! nothing else is there, and no identifier is given twice. And one whose records another adit takes.
//!
//! `ADIT_KILLS=100 cargo test -p adit-tests --test killed -- --nocapture` kills it that often and prints figures.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

#[path = "../../n4/tests/smf/mod.rs"]
mod smf;

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use adit_pfcp::Message;
use adit_pfcp::ie::RecoveryTimeStamp;
use adit_pfcp::message::HeartbeatResponse;
use adit_tests::daemon::{self, Daemon};
use adit_tests::process::{ChildProcess, TestNamespace, is_root};
use adit_tests::redis::RedisProcess;
use adit_types::{Seid, Teid};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;
use smf::SessionScript;

/// Environment variable of the run inside the daemon's namespace: the file whose appearance ends the SMF's changes.
const INSIDE: &str = "ADIT_TEST_INSIDE";

const SESSIONS: u16 = 2000;
/// Requests per second, and of those that are not answered.
const RATE: u64 = 5000;
const WINDOW: usize = 256;
/// The SMF repeats a request after this time …
const T1: Duration = Duration::from_millis(300);
/// … and gives up after this one.
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn killed_adit_goes_on_with_all_that_it_answered_and_nothing_else() {
    let test = "killed_adit_goes_on_with_all_that_it_answered_and_nothing_else";
    run(test, |_| Some(()), |dir| format!("folder = \"{}\"", dir.join("journal").display()));
}

#[test]
fn killed_adit_goes_on_with_a_shared_store() {
    let section =
        |_: &Path| "kind = \"redis\"\nservers = [\"127.0.0.1:6379\"]\nname = \"upf-1\"".to_owned();
    run("killed_adit_goes_on_with_a_shared_store", RedisProcess::start_in, section);
}

/// A configuration with the shared store that listens in the namespace.
fn shared(dir: &Path) -> String {
    let ports = daemon::interfaces(["net_null0,no-rx=1", "net_null1,no-rx=1"], daemon::N3);
    let store =
        "kind = \"redis\"\nservers = [\"127.0.0.1:6379\"]\nname = \"upf-1\"\nlease_ms = 900";
    daemon::node(256, &daemon::cores()[..1], dir).replace("kind = \"none\"", store) + &ports
}

#[test]
fn adit_does_not_start_with_records_of_another_and_ends_when_another_takes_its_own() {
    if !is_root() {
        return;
    }
    let namespace = TestNamespace::new("lease");
    let Some(redis) = RedisProcess::start_in(&namespace) else { return };
    let Some(daemon) = Daemon::start_in(namespace, shared) else { return };
    let shown = daemon.show("store");
    assert_eq!((&shown["store"], &shown["state"]), (&"redis".into(), &"working".into()), "{shown}");
    assert_eq!(
        (&shown["epoch"], &shown["server"]),
        (&1.into(), &"127.0.0.1:6379".into()),
        "{shown}"
    );
    let elsewhere = daemon.dir().join("another");
    std::fs::create_dir(&elsewhere).unwrap();
    let another = shared(&elsewhere).replace(daemon::N4, "127.0.0.3");
    let output = daemon.run_another(&another);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("the records of \"upf-1\" belong to the adit"), "{told}");
    assert!(!output.status.success());
    // As another adit does.
    let state = "HSET adit:{upf-1}:state epoch 2 holder other/1";
    assert_eq!(redis.answer(state).trim(), "0");
    assert_eq!(redis.answer("SET adit:{upf-1}:lease other/1 PX 60000").trim(), "OK");
    let output = daemon.finish();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("adit cannot go on without its store"), "{told}");
    assert!(told.contains("the lease of the records belongs to other/1"), "{told}");
    assert!(!output.status.success());
}

/// Runs the `test` with a store that `start` starts, if there is one, and that `section` describes.
fn run<S>(
    test: &str,
    start: impl FnOnce(&TestNamespace) -> Option<S>,
    section: impl FnOnce(&Path) -> String,
) {
    if let Some(end) = std::env::var_os(INSIDE) {
        return Smf::new().run(end.as_ref());
    }
    if !is_root() {
        return;
    }
    let namespace = TestNamespace::new(&format!("killed-{}", test.len()));
    let Some(_store) = start(&namespace) else { return };
    let kills: u32 = std::env::var("ADIT_KILLS").map_or(5, |kills| kills.parse().unwrap());
    let cores = daemon::cores();
    let started = Daemon::start_in(namespace, |dir| {
        let ports = daemon::interfaces(["net_null0", "net_null1"], &smf::N3.to_string());
        let node = daemon::node(4096, &cores[..1], dir);
        node.replace("kind = \"none\"", &section(dir)) + &ports
    });
    let Some(mut daemon) = started else { return };
    let end = daemon.dir().join("end");
    let mut command = daemon.command(&std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(INSIDE, &end).stdin(Stdio::null());
    let smf = ChildProcess::start(&mut command);
    let mut rng = StdRng::from_os_rng();
    let mut longest = Duration::ZERO;
    for _ in 0..kills {
        std::thread::sleep(Duration::from_millis(rng.random_range(300..1500)));
        let killed = Instant::now();
        daemon = daemon.restart();
        longest = longest.max(killed.elapsed());
    }
    std::fs::write(&end, "").unwrap();
    let output = smf.finish(2 * PATIENCE);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stderr));
    let line = told.lines().find_map(|line| line.strip_prefix("book ")).unwrap();
    let book: Value = serde_json::from_str(line).unwrap();
    let theirs: BTreeSet<String> =
        book["sessions"].as_array().unwrap().iter().map(ToString::to_string).collect();
    let shown = daemon.show("sessions");
    let ours = shown["sessions"].as_array().unwrap().iter().map(|row| {
        let far = row["fars"].as_array().unwrap().iter().find(|far| far["id"] == 2).unwrap();
        let row = [&row["up_seid"], &row["cp_seid"], &row["ue"][0], &far["tunnel"]["teid"]];
        Value::from(row.map(Value::clone).to_vec()).to_string()
    });
    let ours: BTreeSet<String> = ours.collect();
    let (lost, ghosts) = (theirs.difference(&ours).count(), ours.difference(&theirs).count());
    println!(
        "{kills} kills, {} changes answered, {} sessions at the end: {lost} lost, {ghosts} ghosts; longest restart {longest:?}",
        book["answered"],
        ours.len()
    );
    assert_eq!(
        (lost, ghosts),
        (0, 0),
        "{:?} {:?}",
        theirs.difference(&ours).next(),
        ours.difference(&theirs).next()
    );
    let counters = daemon.show("counters");
    assert!(counters["n4"]["sessions_restored"].as_u64().unwrap() > 0, "{counters}");
    assert!(daemon.stop().status.success());
}

/// One session in the book of the SMF.
struct Entry {
    script: SessionScript,
    up_seid: Option<Seid>,
    teid: Teid,
    is_busy: bool,
}

enum Purpose {
    Setup,
    Establish(usize),
    Move(usize, Teid),
    Delete(usize),
}

struct OpenRequest {
    purpose: Purpose,
    octets: Vec<u8>,
    began: Instant,
    sent: Instant,
}

struct Smf {
    socket: UdpSocket,
    upf: SocketAddr,
    open: BTreeMap<u32, OpenRequest>,
    sequence: u32,
    book: Vec<Entry>,
    up_seids: BTreeSet<u64>,
    answered: u64,
    rng: StdRng,
}

impl Smf {
    fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.10:8805").unwrap();
        socket.set_nonblocking(true).unwrap();
        let entry = |number: u16| {
            let script = SessionScript::new(u64::from(number), number);
            Entry { script, up_seid: None, teid: script.gnb_teid, is_busy: false }
        };
        Self {
            socket,
            upf: format!("{}:8805", daemon::N4).parse().unwrap(),
            open: BTreeMap::new(),
            sequence: 0,
            book: (1..=SESSIONS).map(entry).collect(),
            up_seids: BTreeSet::new(),
            answered: 0,
            rng: StdRng::from_os_rng(),
        }
    }

    /// Changes sessions until the file `end` appears; then waits for all answers and prints the book.
    fn run(mut self, end: &std::path::Path) {
        let address = Ipv4Addr::new(127, 0, 0, 10);
        self.ask(Purpose::Setup, |sequence| smf::setup(sequence, address, smf::SMF_STARTED));
        while !self.open.is_empty() {
            self.turn();
        }
        let began = Instant::now();
        let mut asked = 0;
        while !end.exists() {
            let due = u64::try_from(began.elapsed().as_micros()).unwrap() * RATE / 1_000_000;
            // What the window held back is not made up for.
            while asked < due {
                asked += 1;
                if self.open.len() < WINDOW {
                    self.change();
                }
            }
            self.turn();
        }
        while !self.open.is_empty() {
            self.turn();
        }
        let live = self.book.iter().filter_map(|entry| {
            let (ue, cp) = (entry.script.ue.to_string(), entry.script.cp_seid.to_string());
            Some(Value::from(vec![entry.up_seid?.to_string(), cp, ue, entry.teid.to_string()]))
        });
        let sessions: Vec<Value> = live.collect();
        println!("book {}", serde_json::json!({ "sessions": sessions, "answered": self.answered }));
    }

    fn change(&mut self) {
        let at = self.rng.random_range(0..self.book.len());
        let entry = &mut self.book[at];
        if entry.is_busy {
            return;
        }
        entry.is_busy = true;
        let (script, teid) = (entry.script, Teid(self.rng.random_range(1..u32::MAX)));
        match entry.up_seid {
            None => self.ask(Purpose::Establish(at), |sequence| smf::establish(sequence, &script)),
            Some(up_seid) if self.rng.random_bool(0.6) => {
                self.ask(Purpose::Move(at, teid), |sequence| smf::move_to(sequence, up_seid, teid));
            }
            Some(up_seid) => {
                self.ask(Purpose::Delete(at), |sequence| smf::delete(sequence, up_seid));
            }
        }
    }

    fn ask(&mut self, purpose: Purpose, request: impl FnOnce(u32) -> Vec<u8>) {
        self.sequence += 1;
        let octets = request(self.sequence);
        self.send(&octets);
        let now = Instant::now();
        self.open.insert(self.sequence, OpenRequest { purpose, octets, began: now, sent: now });
    }

    /// Nobody may listen at the moment.
    fn send(&self, octets: &[u8]) {
        let _ = self.socket.send_to(octets, self.upf);
    }

    fn turn(&mut self) {
        let mut datagram = [0; 8192];
        loop {
            match self.socket.recv_from(&mut datagram) {
                Ok((len, _)) => self.receive(&datagram[..len]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => {}
            }
        }
        let now = Instant::now();
        let mut again = Vec::new();
        for request in self.open.values_mut().filter(|request| now - request.sent > T1) {
            assert!(now - request.began < PATIENCE, "no answer");
            request.sent = now;
            again.push(request.octets.clone());
        }
        again.iter().for_each(|octets| self.send(octets));
        std::thread::sleep(Duration::from_micros(200));
    }

    fn receive(&mut self, octets: &[u8]) {
        let sequence = smf::raw(octets).header.sequence;
        let message = smf::decode(octets);
        if let Message::HeartbeatRequest(_) = message {
            let body = HeartbeatResponse::new(RecoveryTimeStamp(smf::SMF_STARTED));
            return self.send(&smf::encode(None, sequence, &body));
        }
        let Some(request) = self.open.remove(&sequence) else { return };
        self.answered += 1;
        let at = match (request.purpose, message) {
            (Purpose::Setup, Message::AssociationSetupResponse(body)) => {
                assert!(body.cause.is_accepted());
                return;
            }
            (Purpose::Establish(at), Message::SessionEstablishmentResponse(body)) => {
                assert!(body.cause.is_accepted(), "{:?}", body.cause);
                let up_seid = body.up_f_seid.unwrap().seid;
                assert!(self.up_seids.insert(up_seid.0), "given twice: {up_seid}");
                self.book[at].up_seid = Some(up_seid);
                self.book[at].teid = self.book[at].script.gnb_teid;
                at
            }
            (Purpose::Move(at, teid), Message::SessionModificationResponse(body)) => {
                assert!(body.cause.is_accepted(), "{:?}", body.cause);
                self.book[at].teid = teid;
                at
            }
            (Purpose::Delete(at), Message::SessionDeletionResponse(body)) => {
                assert!(body.cause.is_accepted(), "{:?}", body.cause);
                self.book[at].up_seid = None;
                at
            }
            (_, other) => panic!("{other:?}"),
        };
        self.book[at].is_busy = false;
    }
}
