//! An SMF that changes its sessions all the time, whatever happens to `adit`, and keeps a book of
//! acknowledged changes.
#![allow(dead_code, reason = "every test uses a part")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use adit_pfcp::ie::{FTeid, RecoveryTimeStamp};
use adit_pfcp::message::{HeartbeatResponse, SessionEstablishmentResponse};
use adit_pfcp::{Cause, Message};
use adit_types::{Seid, Teid};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;

use crate::smf::{self, SessionScript};

/// Requests per second, and of those that are not answered.
const RATE: u64 = 5000;
const WINDOW: usize = 256;
/// The SMF repeats a request after this time …
const T1: Duration = Duration::from_millis(300);
/// … and gives up after this one.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Pauses between accepted requests that are noted.
const LONG_PAUSE: Duration = Duration::from_millis(200);

/// One session in the book of the SMF.
struct Entry {
    script: SessionScript,
    up_seid: Option<Seid>,
    /// The TEID that the UP function chose, on N3.
    up_teid: Teid,
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

/// A session that is not changed, for packets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeldSession {
    pub ue: Ipv4Addr,
    pub up_teid: Teid,
    pub gnb_teid: Teid,
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Comparison {
    pub lost: usize,
    pub ghosts: usize,
    pub sessions: usize,
}

/// Compares the book of an SMF with the sessions that `adit` shows.
pub(crate) fn compare(book: &Value, shown: &Value) -> Comparison {
    let theirs: BTreeSet<String> =
        book["sessions"].as_array().unwrap().iter().map(ToString::to_string).collect();
    let ours = shown["sessions"].as_array().unwrap().iter().map(|row| {
        let far = row["fars"].as_array().unwrap().iter().find(|far| far["id"] == 2).unwrap();
        let row = [&row["up_seid"], &row["cp_seid"], &row["ue"][0], &far["tunnel"]["teid"]];
        Value::from(row.map(Value::clone).to_vec()).to_string()
    });
    let ours: BTreeSet<String> = ours.collect();
    if let Some(lost) = theirs.difference(&ours).next() {
        println!("lost, for example: {lost}");
    }
    if let Some(ghost) = ours.difference(&theirs).next() {
        println!("a ghost, for example: {ghost}");
    }
    let (lost, ghosts) = (theirs.difference(&ours).count(), ours.difference(&theirs).count());
    Comparison { lost, ghosts, sessions: ours.len() }
}

/// The SMF.
pub(crate) struct ChangingSmf {
    socket: UdpSocket,
    own: Ipv4Addr,
    upf: SocketAddr,
    open: BTreeMap<u32, OpenRequest>,
    sequence: u32,
    book: Vec<Entry>,
    up_seids: BTreeSet<u64>,
    answered: u64,
    /// Requests that were refused with Cause 77, which change nothing.
    refused: u64,
    /// When a request was accepted last, and the long pauses between such moments.
    accepted: Instant,
    pauses_ms: Vec<u128>,
    rng: StdRng,
}

impl ChangingSmf {
    /// An SMF of at most so many sessions at `own`, without an association.
    pub(crate) fn new(own: Ipv4Addr, upf: Ipv4Addr, sessions: u32) -> Self {
        let socket = UdpSocket::bind((own, 8805)).unwrap();
        socket.set_nonblocking(true).unwrap();
        let entry = |number: u32| {
            let script = SessionScript::of_many(u64::from(number), number);
            let (teid, up_teid) = (script.gnb_teid, Teid(0));
            Entry { script, up_seid: None, up_teid, teid, is_busy: false }
        };
        Self {
            socket,
            own,
            upf: (upf, 8805).into(),
            open: BTreeMap::new(),
            sequence: 0,
            book: (1..=sessions).map(entry).collect(),
            up_seids: BTreeSet::new(),
            answered: 0,
            refused: 0,
            accepted: Instant::now(),
            pauses_ms: Vec::new(),
            rng: StdRng::from_os_rng(),
        }
    }

    /// Sets up an association.
    pub(crate) fn associate(&mut self) {
        let own = self.own;
        self.ask(Purpose::Setup, |sequence| smf::setup(sequence, own, smf::SMF_STARTED));
        self.wait_for_answers();
    }

    /// Establishes the first `count` sessions, which stay as they are.
    pub(crate) fn hold(&mut self, count: usize) -> Vec<HeldSession> {
        for at in 0..count {
            let script = self.book[at].script;
            self.ask(Purpose::Establish(at), |sequence| smf::establish(sequence, &script));
        }
        self.wait_for_answers();
        let held = |entry: &mut Entry| {
            entry.is_busy = true;
            let SessionScript { ue, gnb_teid, .. } = entry.script;
            HeldSession { ue, up_teid: entry.up_teid, gnb_teid }
        };
        self.book[..count].iter_mut().map(held).collect()
    }

    /// Establishes all sessions that are not there.
    pub(crate) fn establish_all(&mut self) {
        for at in 0..self.book.len() {
            let entry = &mut self.book[at];
            if entry.is_busy || entry.up_seid.is_some() {
                continue;
            }
            entry.is_busy = true;
            let script = entry.script;
            self.ask(Purpose::Establish(at), |sequence| smf::establish(sequence, &script));
            while self.open.len() >= WINDOW {
                self.turn();
            }
        }
        self.wait_for_answers();
    }

    /// Changes sessions until the file `end` appears; then waits for all answers.
    pub(crate) fn change_until(&mut self, end: &std::path::Path) {
        let began = Instant::now();
        let mut asked = 0;
        while !end.exists() {
            let due = u64::try_from(began.elapsed().as_micros()).unwrap() * RATE / 1_000_000;
            // Requests that the window held back are not sent later.
            while asked < due {
                asked += 1;
                if self.open.len() < WINDOW {
                    self.change();
                }
            }
            self.turn();
        }
        self.wait_for_answers();
    }

    fn wait_for_answers(&mut self) {
        while !self.open.is_empty() {
            self.turn();
        }
    }

    /// The SMF's book: its sessions, how many requests were answered, and when none was for a
    /// while.
    pub(crate) fn book(&self) -> Value {
        let live = self.book.iter().filter_map(|entry| {
            let (ue, cp) = (entry.script.ue.to_string(), entry.script.cp_seid.to_string());
            Some(Value::from(vec![entry.up_seid?.to_string(), cp, ue, entry.teid.to_string()]))
        });
        let sessions: Vec<Value> = live.collect();
        serde_json::json!({
            "sessions": sessions,
            "answered": self.answered,
            "refused": self.refused,
            "pauses_ms": self.pauses_ms,
        })
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
        let cause = match &message {
            Message::AssociationSetupResponse(body) => body.cause,
            Message::SessionEstablishmentResponse(body) => body.cause,
            Message::SessionModificationResponse(body) => body.cause,
            Message::SessionDeletionResponse(body) => body.cause,
            other => panic!("{other:?}"),
        };
        let at = match &request.purpose {
            Purpose::Setup => None,
            Purpose::Establish(at) | Purpose::Move(at, _) | Purpose::Delete(at) => Some(*at),
        };
        if cause == Cause::SystemFailure {
            self.refused += 1;
            at.into_iter().for_each(|at| self.book[at].is_busy = false);
            return;
        }
        assert!(cause.is_accepted(), "{cause:?}");
        self.answered += 1;
        let pause = self.accepted.elapsed();
        if pause > LONG_PAUSE {
            self.pauses_ms.push(pause.as_millis());
        }
        self.accepted = Instant::now();
        match (request.purpose, message) {
            (Purpose::Establish(at), Message::SessionEstablishmentResponse(body)) => {
                self.note_established(at, &body);
            }
            (Purpose::Move(at, teid), _) => self.book[at].teid = teid,
            (Purpose::Delete(at), _) => self.book[at].up_seid = None,
            _ => {}
        }
        at.into_iter().for_each(|at| self.book[at].is_busy = false);
    }

    fn note_established(&mut self, at: usize, body: &SessionEstablishmentResponse<'_>) {
        let up_seid = body.up_f_seid.unwrap().seid;
        assert!(self.up_seids.insert(up_seid.0), "given twice: {up_seid}");
        let teid = body.created_pdrs.iter().find_map(|pdr| match pdr.local_f_teids.iter().next() {
            Some(FTeid::Given { teid, .. }) => Some(teid),
            _ => None,
        });
        let entry = &mut self.book[at];
        (entry.up_seid, entry.up_teid) = (Some(up_seid), teid.unwrap());
        entry.teid = entry.script.gnb_teid;
    }
}
