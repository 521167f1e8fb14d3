//! A running `adit` whose journal's disk is full, and has room again: it refuses requests that let
//! the records grow, serves all else, and keeps acknowledged changes.

use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::smf::{self, SMF_STARTED, SessionScript};
use adit_pfcp::grouped::CreateUrr;
use adit_pfcp::ie::{
    FSeid, MeasurementMethod, MeasurementPeriod, RecoveryTimeStamp, ReportingTriggers,
};
use adit_pfcp::message::{HeartbeatResponse, SessionReportResponse};
use adit_pfcp::{Cause, Message, MessageType};
use adit_tests::daemon::{self, Daemon, N4};
use adit_tests::process::{is_root, run, skip_on_this_machine};
use adit_types::{Seid, Teid, UrrId};
use serde_json::Value;

/// Environment variables of the run in a mount namespace of its own, and of the SMF in the daemon's
/// namespace: the disk.
const MOUNTED: &str = "ADIT_TEST_MOUNTED";
const INSIDE: &str = "ADIT_TEST_INSIDE";

const TEST: &str = "full_disk::full_disk_refuses_what_grows_serves_all_else_and_loses_nothing";
const SMF: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 10);
const LIMIT: Duration = Duration::from_secs(60);

/// The journal begins with one file of 16 MiB, and with the ballast there is no room for another
/// one.
const DISK: &str = "size=40m";
const BALLAST_OCTETS: usize = 20 << 20;
const SESSIONS: u32 = 200;
const DELETED: usize = 50;
/// Requests under way while the disk fills.
const WINDOW: u32 = 64;

#[test]
fn full_disk_refuses_what_grows_serves_all_else_and_loses_nothing() {
    if let Some(disk) = std::env::var_os(INSIDE) {
        return serve_smf(Path::new(&disk));
    }
    if let Some(disk) = std::env::var_os(MOUNTED) {
        return with_disk(&PathBuf::from(disk));
    }
    if !is_root() {
        return;
    }
    let disk = tempfile::tempdir().unwrap();
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private"]);
        command
    };
    let mount = ["mount", "-t", "tmpfs", "-o", DISK, "adit-test"];
    let may = run(unshare().args(mount).arg(disk.path()), LIMIT);
    if !may.status.success() {
        let told = String::from_utf8_lossy(&may.stderr);
        return skip_on_this_machine(format_args!(
            "no file system can be mounted: {}",
            told.trim()
        ));
    }
    let script = format!("{} \"$0\" && exec \"$@\"", mount.join(" "));
    let mut command = unshare();
    command.args(["sh", "-c", &script]).arg(disk.path()).arg(std::env::current_exe().unwrap());
    let output =
        run(command.args(["--exact", TEST, "--nocapture"]).env(MOUNTED, disk.path()), LIMIT);
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stderr));
    print!("{told}");
}

fn ballast(disk: &Path) -> PathBuf {
    disk.join("ballast")
}

/// adit with its journal on the disk; the SMF runs in the same namespace.
fn with_disk(disk: &Path) {
    fs::write(ballast(disk), vec![1; BALLAST_OCTETS]).unwrap();
    let daemon = Daemon::start_with("storefull", |dir| {
        let ports = daemon::interfaces(["net_null0", "net_null1"], &smf::N3.to_string());
        let store = format!("folder = \"{}\"", disk.join("journal").display());
        let node = daemon::node(4096, &daemon::cores()[..1], dir);
        node.replace("kind = \"none\"", &store) + &ports
    });
    let Some(daemon) = daemon else { return };
    let smf = run(daemon.this_test(TEST).env(INSIDE, disk), LIMIT);
    let told = String::from_utf8_lossy(&smf.stdout).into_owned();
    assert!(smf.status.success(), "{told}\n{}", String::from_utf8_lossy(&smf.stderr));
    print!("{told}");
    let shown = daemon.show("store");
    assert_eq!(shown["state"], "working", "{shown}");
    let counters = daemon.show("counters");
    assert!(counters["n4"]["refused_store_full"].as_u64().unwrap() > 0, "{counters}");
    assert_eq!(counters["n4"]["refused_store_fails"], 0, "{counters}");
    let daemon = daemon.restart();
    let shown = daemon.show("sessions");
    let mut found: Vec<_> = shown["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["up_seid"].to_string())
        .collect();
    found.sort();
    let book = told.lines().find_map(|line| line.strip_prefix("book ")).unwrap();
    let book: Value = serde_json::from_str(book).unwrap();
    let mut expected: Vec<_> = book.as_array().unwrap().iter().map(Value::to_string).collect();
    expected.sort();
    assert_eq!(found, expected);
    assert!(daemon.stop().status.success());
}

/// The SMF in the namespace of the daemon.
fn serve_smf(disk: &Path) {
    let mut smf = FillingSmf::new();
    let mut sessions: Vec<Seid> =
        (1..=SESSIONS).map(|number| smf.establish(number, number == 1).unwrap()).collect();
    let filled = Instant::now();
    smf.fill(&sessions);
    println!("full after {:?}, {} modifications", filled.elapsed(), smf.sequence - SESSIONS - 1);
    assert_eq!(smf.establish(SESSIONS + 1, false), Err(Cause::NoResourcesAvailable));
    // Heartbeats, reports and deletions go on.
    let heartbeat = smf.ask(|sequence| smf::heartbeat(sequence, SMF_STARTED));
    assert!(matches!(smf::decode(&heartbeat), Message::HeartbeatResponse(_)));
    smf.wait_for_report();
    for deleted in sessions.drain(SESSIONS as usize - DELETED..) {
        let answer = smf.ask(|sequence| smf::delete(sequence, deleted));
        let Message::SessionDeletionResponse(answer) = smf::decode(&answer) else { panic!() };
        assert_eq!(answer.cause, Cause::RequestAccepted);
    }
    // The space that the deletions left is taken again.
    smf.fill(&sessions);
    smf.wait_for_report();
    fs::remove_file(ballast(disk)).unwrap();
    let freed = Instant::now();
    let mut number = SESSIONS + 2;
    let first = loop {
        match smf.establish(number, false) {
            Ok(up_seid) => break up_seid,
            Err(cause) => assert_eq!(cause, Cause::NoResourcesAvailable),
        }
        number += 1;
        std::thread::sleep(Duration::from_millis(20));
    };
    let took = freed.elapsed();
    println!("accepted {took:?} after there was room");
    assert!(took < Duration::from_secs(1), "{took:?}");
    sessions.push(first);
    sessions.extend((1..=20).map(|further| smf.establish(number + further, false).unwrap()));
    let book: Vec<Value> = sessions.iter().map(|seid| seid.to_string().into()).collect();
    println!("book {}", Value::from(book));
}

struct FillingSmf {
    socket: UdpSocket,
    sequence: u32,
    teid: u32,
    /// The session of which reports come.
    reporting: Option<Seid>,
    reports: u32,
}

impl FillingSmf {
    fn new() -> Self {
        let socket = UdpSocket::bind((SMF, 8805)).unwrap();
        socket.connect((N4, 8805)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut smf = Self { socket, sequence: 0, teid: 0, reporting: None, reports: 0 };
        smf.ask(|sequence| smf::setup(sequence, SMF, SMF_STARTED));
        smf
    }

    fn send(&mut self, message: impl FnOnce(u32) -> Vec<u8>) {
        self.sequence += 1;
        self.socket.send(&message(self.sequence)).unwrap();
    }

    /// The next message; a request of adit is answered.
    fn receive(&mut self) -> Vec<u8> {
        let mut octets = vec![0; 4096];
        let len = self.socket.recv(&mut octets).unwrap();
        octets.truncate(len);
        let header = smf::raw(&octets).header;
        let answer = match header.message_type {
            MessageType::HEARTBEAT_REQUEST => {
                let body = HeartbeatResponse::new(RecoveryTimeStamp(SMF_STARTED));
                smf::encode(None, header.sequence, &body)
            }
            MessageType::SESSION_REPORT_REQUEST => {
                self.reports += 1;
                let body = SessionReportResponse::new(Cause::RequestAccepted);
                smf::encode(self.reporting, header.sequence, &body)
            }
            _ => return octets,
        };
        self.socket.send(&answer).unwrap();
        octets
    }

    /// The next answer.
    fn answer(&mut self) -> Vec<u8> {
        loop {
            let octets = self.receive();
            let message_type = smf::raw(&octets).header.message_type;
            if message_type.info().is_some_and(|info| !info.is_request) {
                return octets;
            }
        }
    }

    fn ask(&mut self, message: impl FnOnce(u32) -> Vec<u8>) -> Vec<u8> {
        self.send(message);
        self.answer()
    }

    /// Establishes a session, of which a report is due every second if it `reports`.
    fn establish(&mut self, number: u32, reports: bool) -> Result<Seid, Cause> {
        let script = SessionScript::of_many(u64::from(number), number);
        let answer = self.ask(|sequence| {
            smf::establish_with(sequence, &script, |body| {
                body.cp_f_seid = FSeid::new(script.cp_seid, SMF.into());
                if reports {
                    let (method, triggers) = (MeasurementMethod::DURAT, ReportingTriggers::PERIO);
                    let mut urr = CreateUrr::new(UrrId(1), method, triggers);
                    urr.measurement_period = Some(MeasurementPeriod(1));
                    body.create_urrs = smf::list([urr]).into();
                    let mut pdrs: Vec<_> = body.create_pdrs.iter().collect();
                    for pdr in &mut pdrs {
                        pdr.urr_ids = smf::list([UrrId(1)]).into();
                    }
                    body.create_pdrs = Vec::leak(pdrs)[..].into();
                }
            })
        });
        let Message::SessionEstablishmentResponse(answer) = smf::decode(&answer) else { panic!() };
        let up_seid = answer.up_f_seid.map(|id| id.seid).ok_or(answer.cause)?;
        if reports {
            self.reporting = Some(up_seid);
        }
        Ok(up_seid)
    }

    /// Modifies sessions until adit refuses it because its store is full.
    fn fill(&mut self, sessions: &[Seid]) {
        let end = Instant::now() + LIMIT;
        let mut is_full = false;
        while !is_full {
            assert!(Instant::now() < end, "the disk has no end");
            for _ in 0..WINDOW {
                self.teid += 1;
                let (up_seid, teid) =
                    (sessions[self.teid as usize % sessions.len()], Teid(self.teid));
                self.send(|sequence| smf::move_to(sequence, up_seid, teid));
            }
            for _ in 0..WINDOW {
                let answer = self.answer();
                let Message::SessionModificationResponse(answer) = smf::decode(&answer) else {
                    panic!()
                };
                match answer.cause {
                    Cause::RequestAccepted => {}
                    Cause::NoResourcesAvailable => is_full = true,
                    cause => panic!("{cause:?}"),
                }
            }
        }
    }

    fn wait_for_report(&mut self) {
        let before = self.reports;
        while self.reports == before {
            self.receive();
        }
    }
}
