//! Control planes that see the node's restart by its heartbeats, over a rough link in virtual time:
//! some establish their sessions anew (RESTI), others release them and begin again.
//! Spec: TS 29.244 §5.22, §8.2.136; TS 23.527 §4.2, §4.3.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use adit_n4::{Node, NodeConfig};
use adit_pfcp::ie::{FTeid, FTeidAddress, PfcpSeReqFlags, RecoveryTimeStamp};
use adit_pfcp::message::HeartbeatResponse;
use adit_pfcp::{Cause, Message};
use adit_rules::{DeltaId, KeyChange, RuleDelta, SessionKey};
use adit_session::StoreConfig;
use adit_testkit::clock::SteppedClock;
use adit_testkit::link::{LinkConfig, LinkDatagram, LossyLink};
use adit_types::{Nanos, PdrId, Precedence, Seid, SessionIndex, Teid};

use crate::smf::*;

const UPF_SOCKET: SocketAddr = SocketAddr::new(IpAddr::V4(UPF), 8805);
const ROUGH: LinkConfig = LinkConfig {
    loss_permille: 50,
    duplicate_permille: 50,
    delay_min: Nanos::from_millis(1),
    delay_max: Nanos::from_millis(50),
};
const RETRY: Nanos = Nanos::from_millis(500);
const ATTEMPTS: u32 = 12;
const HEARTBEAT: Nanos = Nanos::from_secs(1);
/// Requests that one control plane has in flight.
const WINDOW: usize = 400;
/// Sessions of each of the two control planes.
const SESSIONS: u16 = 5_000;
/// Sessions that each of them establishes for other UEs while it restores the previous ones.
const NEW_SESSIONS: u16 = 250;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// Establishes its sessions anew, with the F-TEIDs that they had.
    Restore,
    /// Releases them without a word and establishes others for the same UEs.
    Release,
}

#[derive(Debug, Clone, Copy)]
enum Purpose {
    Setup,
    Establish(usize),
    Delete(usize),
}

struct OpenRequest {
    purpose: Purpose,
    bytes: Vec<u8>,
    attempts_left: u32,
    due: Nanos,
}

struct View {
    script: SessionScript,
    up_seid: Option<Seid>,
    /// As the node chose them.
    teids: Option<[Teid; 2]>,
    is_busy: bool,
}

/// A control plane.
struct Cp {
    style: Style,
    socket: SocketAddr,
    ip: Ipv4Addr,
    upf_started: Option<u32>,
    is_associated: bool,
    next_sequence: u32,
    next_heartbeat: Nanos,
    /// No request is due before.
    next_request: Nanos,
    open: BTreeMap<u32, OpenRequest>,
    idle: VecDeque<usize>,
    views: Vec<View>,
    restored: usize,
}

impl Cp {
    fn new(style: Style, host: u8) -> Self {
        let mut cp = Self {
            style,
            socket: smf(host),
            ip: Ipv4Addr::new(192, 0, 2, host),
            upf_started: None,
            is_associated: false,
            next_sequence: 1,
            next_heartbeat: Nanos(0),
            next_request: Nanos(0),
            open: BTreeMap::new(),
            idle: VecDeque::new(),
            views: Vec::new(),
            restored: 0,
        };
        cp.plan(SESSIONS);
        cp
    }

    /// Plans further sessions.
    fn plan(&mut self, sessions: u16) {
        for _ in 0..sessions {
            let number = u16::try_from(self.views.len() + 1).unwrap();
            let base = u16::from(self.ip.octets()[3] - 10) * 20_000;
            let script = SessionScript::new(number.into(), base + number);
            self.idle.push_back(self.views.len());
            self.views.push(View { script, up_seid: None, teids: None, is_busy: false });
        }
    }

    /// The node has lost everything.
    fn see_restart(&mut self) {
        self.is_associated = false;
        self.open.clear();
        self.restored = 0;
        self.idle.clear();
        for (at, view) in self.views.iter_mut().enumerate() {
            view.up_seid = None;
            view.is_busy = false;
            if self.style == Style::Release {
                view.teids = None;
            }
            self.idle.push_back(at);
        }
        self.plan(NEW_SESSIONS);
        // New sessions mix with restored ones.
        let slice = self.idle.make_contiguous();
        let (step, len) = (7919, slice.len());
        let mixed: VecDeque<usize> = (0..len).map(|n| slice[n * step % len]).collect();
        self.idle = mixed;
    }

    fn ask(&mut self, now: Nanos, purpose: Purpose, bytes: Vec<u8>) {
        let request = OpenRequest { purpose, bytes, attempts_left: ATTEMPTS, due: now };
        self.next_request = now;
        self.open.insert(self.next_sequence, request);
        self.next_sequence += 1;
    }

    fn think(&mut self, now: Nanos, link: &mut LossyLink) {
        if now >= self.next_heartbeat {
            self.next_heartbeat = now + HEARTBEAT;
            let bytes = heartbeat(0x80_0000 + self.next_sequence, SMF_STARTED);
            link.send(now, LinkDatagram { src: self.socket, dst: UPF_SOCKET, bytes });
        }
        if !self.is_associated && self.open.is_empty() {
            let bytes = setup(self.next_sequence, self.ip, SMF_STARTED);
            self.ask(now, Purpose::Setup, bytes);
        }
        while self.is_associated && self.open.len() < WINDOW {
            let Some(at) = self.idle.pop_front() else { break };
            let View { script, up_seid, teids, .. } = self.views[at];
            let sequence = self.next_sequence;
            match up_seid {
                None => {
                    let bytes = establishment(sequence, &script, teids);
                    self.restored += usize::from(teids.is_some());
                    self.ask(now, Purpose::Establish(at), bytes);
                }
                Some(up_seid) => self.ask(now, Purpose::Delete(at), delete(sequence, up_seid)),
            }
        }
        if self.next_request > now {
            return;
        }
        for request in self.open.values_mut().filter(|request| request.due <= now) {
            assert!(request.attempts_left > 0, "no answer to {:?}", request.purpose);
            request.attempts_left -= 1;
            request.due = now + RETRY;
            let (src, bytes) = (self.socket, request.bytes.clone());
            link.send(now, LinkDatagram { src, dst: UPF_SOCKET, bytes });
        }
        let requests = self.open.values().map(|request| request.due);
        self.next_request = requests.min().unwrap_or(Nanos::NEVER);
    }

    fn receive(&mut self, now: Nanos, bytes: &[u8], link: &mut LossyLink) {
        let header = raw(bytes).header;
        match decode(bytes) {
            Message::HeartbeatRequest(_) => {
                let body = HeartbeatResponse::new(RecoveryTimeStamp(SMF_STARTED));
                let bytes = encode(None, header.sequence, &body);
                link.send(now, LinkDatagram { src: self.socket, dst: UPF_SOCKET, bytes });
            }
            Message::HeartbeatResponse(body) => {
                let started = body.recovery_time_stamp.0;
                let known = *self.upf_started.get_or_insert(started);
                if started > known {
                    self.upf_started = Some(started);
                    self.see_restart();
                }
            }
            message => {
                let Some(request) = self.open.remove(&header.sequence) else { return };
                self.conclude(request.purpose, &message);
            }
        }
    }

    fn conclude(&mut self, purpose: Purpose, message: &Message<'_>) {
        match (purpose, message) {
            (Purpose::Setup, Message::AssociationSetupResponse(body)) => {
                assert!(body.cause.is_accepted());
                self.is_associated = true;
            }
            (Purpose::Establish(at), Message::SessionEstablishmentResponse(body)) => {
                assert_eq!(body.cause, Cause::RequestAccepted, "{:?}", body.offending_ie);
                let view = &mut self.views[at];
                view.up_seid = Some(body.up_f_seid.unwrap().seid);
                let created: Vec<Teid> = body
                    .created_pdrs
                    .iter()
                    .map(|created| match created.local_f_teids.first() {
                        Some(FTeid::Given { teid, .. }) => teid,
                        other => panic!("{other:?}"),
                    })
                    .collect();
                match view.teids {
                    Some(_) => assert!(created.is_empty()),
                    None => view.teids = Some(created.try_into().unwrap()),
                }
            }
            (Purpose::Delete(at), Message::SessionDeletionResponse(body)) => {
                assert_eq!(body.cause, Cause::RequestAccepted);
                self.views[at].teids = None;
            }
            other => panic!("{other:?}"),
        }
    }

    fn next_due(&self) -> Nanos {
        self.next_request.min(self.next_heartbeat)
    }

    fn is_done(&self) -> bool {
        self.is_associated && self.open.is_empty() && self.idle.is_empty()
    }
}

/// A session with two tunnels: the ones given, which are restored, or such as the node chooses.
fn establishment(sequence: u32, script: &SessionScript, given: Option<[Teid; 2]>) -> Vec<u8> {
    establish_with(sequence, script, |body| {
        let pdrs: Vec<_> = body.create_pdrs.iter().collect();
        let [mut first, down]: [_; 2] = pdrs.try_into().unwrap();
        let mut second = first;
        (second.pdr_id, second.precedence) = (PdrId(3), Precedence(50));
        let choose = FTeid::Choose { v4: true, v6: false, choose_id: None };
        let f_teid = |teid| FTeid::Given { teid, addr: FTeidAddress::V4(N3) };
        first.pdi.local_f_teid = Some(given.map_or(choose, |[teid, _]| f_teid(teid)));
        second.pdi.local_f_teid = Some(given.map_or(choose, |[_, teid]| f_teid(teid)));
        body.create_pdrs = list([first, down, second]).into();
        body.pfcp_se_req_flags = given.map(|_| PfcpSeReqFlags::RESTI);
    })
}

struct Simulation {
    clock: SteppedClock,
    link: LossyLink,
    node: Node,
    /// Changes on their way to the workers. For each TEID, the session to which it leads.
    changes: VecDeque<(Nanos, DeltaId, RuleDelta)>,
    teids: BTreeMap<Teid, SessionIndex>,
    cps: [Cp; 2],
}

impl Simulation {
    fn new(seed: u64, style: Style) -> Self {
        let sessions_max = usize::from(SESSIONS + 2 * NEW_SESSIONS) * 2;
        let store = StoreConfig { sessions_max, seed, ..config().store };
        let config = NodeConfig { t1: RETRY, n1: ATTEMPTS - 1, store, ..config() };
        Self {
            clock: SteppedClock::new(),
            link: LossyLink::new(seed, ROUGH),
            node: Node::new(config),
            changes: VecDeque::new(),
            teids: BTreeMap::new(),
            cps: [10, 11].map(|host| Cp::new(style, host)),
        }
    }

    /// A new process: another start, other secrets, nothing known.
    fn restart(&mut self) {
        let mut config = self.node.config().clone();
        config.recovery_time_stamp += 1;
        config.seed = config.seed.wrapping_mul(31).wrapping_add(7);
        config.store.seed = config.store.seed.wrapping_mul(31).wrapping_add(7);
        self.node = Node::new(config);
        self.changes.clear();
        self.teids.clear();
        // Control planes learn of it from heartbeats only.
        for cp in &mut self.cps {
            assert!(cp.is_done());
        }
    }

    fn step(&mut self) {
        let due = [self.link.next_delivery(), self.node.poll_timeout()];
        let changes = self.changes.front().map(|&(at, ..)| at);
        let cps = self.cps.iter().map(|cp| Some(cp.next_due()));
        let next = due.into_iter().chain([changes]).chain(cps).flatten().min().unwrap();
        self.clock.advance_to(next.max(self.clock.now()));
        let now = self.clock.now();
        assert!(now < Nanos::from_secs(3600), "the simulation does not end");
        while let Some(datagram) = self.link.poll_delivery(now) {
            if datagram.dst == UPF_SOCKET {
                self.node.handle_datagram(now, datagram.src, &datagram.bytes);
                self.drain(now);
            } else if let Some(cp) = self.cps.iter_mut().find(|cp| cp.socket == datagram.dst) {
                cp.receive(now, &datagram.bytes, &mut self.link);
            }
        }
        self.node.handle_timeout(now);
        self.drain(now);
        while self.changes.front().is_some_and(|&(at, ..)| at <= now) {
            let (_, id, delta) = self.changes.pop_front().unwrap();
            for key in &delta.keys {
                match *key {
                    KeyChange::Add(SessionKey::Teid(teid)) => {
                        assert_eq!(self.teids.insert(teid, delta.session), None, "a clash");
                    }
                    KeyChange::Remove(SessionKey::Teid(teid)) => {
                        assert_eq!(self.teids.remove(&teid), Some(delta.session));
                    }
                    _ => {}
                }
            }
            self.node.handle_published(now, id);
            self.drain(now);
        }
        for cp in &mut self.cps {
            cp.think(now, &mut self.link);
        }
    }

    fn drain(&mut self, now: Nanos) {
        while let Some((id, delta)) = self.node.poll_delta() {
            self.changes.push_back((now + Nanos::from_millis(2), id, delta));
        }
        while let Some(transmit) = self.node.poll_transmit() {
            let (dst, bytes) = (transmit.to, transmit.bytes);
            self.link.send(now, LinkDatagram { src: UPF_SOCKET, dst, bytes });
        }
        while self.node.poll_event().is_some() {}
    }

    /// Steps on until the control planes have met the present node and have restored their
    /// sessions.
    fn run(&mut self) {
        let started = self.node.config().recovery_time_stamp;
        let is_done = |cp: &Cp| cp.upf_started == Some(started) && cp.is_done();
        while !self.cps.iter().all(is_done) || !self.changes.is_empty() {
            self.step();
        }
    }

    /// Every session that a control plane has exists, with its tunnels, and no other.
    fn check(&self) {
        let mut theirs = BTreeSet::new();
        for view in self.cps.iter().flat_map(|cp| &cp.views) {
            let up_seid = view.up_seid.unwrap();
            let session = self.node.store().session(up_seid).expect("the session exists");
            assert_eq!(session.cp_f_seid().seid, view.script.cp_seid);
            for teid in view.teids.unwrap() {
                assert_eq!(self.teids.get(&teid), Some(&session.index()), "{teid:?}");
                assert!(theirs.insert(teid), "one TEID, two sessions");
            }
        }
        assert_eq!(self.node.store().len() * 2, theirs.len());
        assert_eq!(self.teids.len(), theirs.len());
    }

    fn teids(&self) -> Vec<BTreeMap<Seid, [Teid; 2]>> {
        let of = |cp: &Cp| {
            let views = cp.views.iter().map(|view| (view.script.cp_seid, view.teids.unwrap()));
            views.collect()
        };
        self.cps.iter().map(of).collect()
    }

    fn delete_all(&mut self) {
        for cp in &mut self.cps {
            cp.idle = (0..cp.views.len()).collect();
        }
        self.run();
        assert_eq!(self.node.store().len(), 0);
        assert_eq!(self.node.store().reserved(), Default::default());
        assert!(self.teids.is_empty());
    }
}

/// Twice, so that the second restoration meets TEIDs of two previous lives.
#[test]
fn sessions_are_restored_with_their_tunnels_beside_new_ones() {
    let mut simulation = Simulation::new(5, Style::Restore);
    simulation.run();
    simulation.check();
    assert_eq!(simulation.node.store().len(), 2 * usize::from(SESSIONS));
    for _ in 0..2 {
        let before = simulation.teids();
        simulation.restart();
        simulation.run();
        simulation.check();
        let after = simulation.teids();
        for (before, after) in before.iter().zip(&after) {
            assert!(before.iter().all(|(seid, teids)| after.get(seid) == Some(teids)));
            assert_eq!(after.len(), before.len() + usize::from(NEW_SESSIONS));
        }
        let restored: usize = simulation.cps.iter().map(|cp| cp.restored).sum();
        assert_eq!(restored, before.iter().map(BTreeMap::len).sum());
    }
    simulation.delete_all();
}

#[test]
fn sessions_that_their_control_plane_gave_up_are_established_anew() {
    let mut simulation = Simulation::new(6, Style::Release);
    simulation.run();
    simulation.check();
    let before = simulation.teids();
    simulation.restart();
    simulation.run();
    simulation.check();
    assert_eq!(simulation.cps.iter().map(|cp| cp.restored).sum::<usize>(), 0);
    let after = simulation.teids();
    for (before, after) in before.iter().zip(&after) {
        assert!(before.iter().all(|(seid, teids)| after[seid] != *teids));
    }
    simulation.delete_all();
}
