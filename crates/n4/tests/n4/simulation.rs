//! Scripted SMFs and the node over a link that loses, repeats and reorders, in virtual time.
//!
//! A failing run prints its seed; `SEED=<n> cargo test -p adit-n4 --test n4 simulation` repeats it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use adit_n4::{FormerRecord, Node, NodeConfig, NodeRecord, RecordConfig, RecordError, Transmit};
use adit_pfcp::grouped::RemoveFar;
use adit_pfcp::ie::{self, FqCsid, FqCsidNode, RecoveryTimeStamp};
use adit_pfcp::message::{HeartbeatResponse, SessionSetDeletionRequest};
use adit_pfcp::{Cause, Message, MessageType};
use adit_session::{SessionPreparer, StoreConfig};
use adit_store::RecordKind;
use adit_testkit::clock::SteppedClock;
use adit_testkit::link::{LinkConfig, LinkDatagram, LossyLink};
use adit_types::{FarId, Nanos, Seid, Teid};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::simulated::*;
use crate::smf::*;

const UPF_SOCKET: SocketAddr = SocketAddr::new(IpAddr::V4(UPF), 8805);
/// The set of every session.
const CSID: FqCsid<'static> =
    FqCsid::new(FqCsidNode::Ipv4(Ipv4Addr::new(192, 0, 2, 99)), &[0, 5], None).unwrap();
const RETRY: Nanos = Nanos::from_secs(1);
/// With a tenth of the datagrams lost, nine attempts fail once in some 3 million requests.
const ATTEMPTS: u32 = 9;
const ROUGH: LinkConfig = LinkConfig {
    loss_permille: 100,
    duplicate_permille: 100,
    delay_min: Nanos::from_millis(1),
    delay_max: Nanos::from_millis(200),
};
/// Requests that one SMF has in flight.
const WINDOW: usize = 40;

/// Prints the seed when a test fails.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed with SEED={}", self.0);
        }
    }
}

fn seeds() -> Vec<u64> {
    match std::env::var("SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (0..12).collect(),
    }
}
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Setup,
    Establish(usize),
    Move(usize, Teid),
    Refused(usize),
    Delete(usize),
    DeleteSet,
    Release,
}

#[derive(Debug)]
struct OpenRequest {
    purpose: Purpose,
    bytes: Vec<u8>,
    attempts_left: u32,
    due: Nanos,
}

/// One session as the SMF sees it.
#[derive(Debug)]
struct View {
    script: SessionScript,
    up_seid: Option<Seid>,
    teid: Teid,
    moves_left: u32,
    keep: bool,
    busy: bool,
    gone: bool,
}

/// How often the SMF was notified of each event.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Told {
    established: u64,
    modified: u64,
    deleted: u64,
    refused: u64,
}

struct Smf {
    socket: SocketAddr,
    ip: Ipv4Addr,
    started: u32,
    associated: bool,
    next_sequence: u32,
    open: BTreeMap<u32, OpenRequest>,
    /// Every request of this incarnation.
    asked: BTreeMap<u32, Purpose>,
    views: Vec<View>,
    told: Told,
    asleep_until: Nanos,
}

impl Smf {
    fn new(host: u8, sessions: u16, rng: &mut SmallRng) -> Self {
        let mut smf = Self {
            socket: smf(host),
            ip: Ipv4Addr::new(192, 0, 2, host),
            started: SMF_STARTED,
            associated: false,
            next_sequence: 1,
            open: BTreeMap::new(),
            asked: BTreeMap::new(),
            views: Vec::new(),
            told: Told::default(),
            asleep_until: Nanos(0),
        };
        smf.plan(sessions, rng);
        smf
    }

    /// Plans sessions; both SMFs use the CP SEIDs from 1 on.
    fn plan(&mut self, sessions: u16, rng: &mut SmallRng) {
        let base = u16::from(self.ip.octets()[3]) * 1000;
        self.views = (1..=sessions)
            .map(|number| {
                let script = SessionScript::new(u64::from(number), base + number);
                View {
                    script,
                    up_seid: None,
                    teid: script.gnb_teid,
                    moves_left: rng.random_range(0..4),
                    keep: rng.random_bool(0.5),
                    busy: false,
                    gone: false,
                }
            })
            .collect();
    }

    /// Forgets everything and starts again, with the same sequence numbers: after the last answer
    /// to its previous life has arrived, and before the node has forgotten that life's requests.
    fn restart(&mut self, now: Nanos, sessions: u16, rng: &mut SmallRng) {
        self.started += 1;
        self.associated = false;
        self.next_sequence = 1;
        self.open.clear();
        self.asked.clear();
        self.plan(sessions, rng);
        self.asleep_until = now + Nanos::from_secs(4);
    }

    fn is_done(&self) -> bool {
        self.associated
            && self.open.is_empty()
            && self.views.iter().all(|view| {
                view.gone || (view.up_seid.is_some() && view.moves_left == 0 && view.keep)
            })
    }

    fn ask(&mut self, now: Nanos, purpose: Purpose, bytes: Vec<u8>) {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.asked.insert(sequence, purpose);
        let request = OpenRequest { purpose, bytes, attempts_left: ATTEMPTS, due: now };
        self.open.insert(sequence, request);
    }

    /// Starts procedures that may start.
    fn think(&mut self, now: Nanos, rng: &mut SmallRng) {
        if now < self.asleep_until {
            return;
        }
        if !self.associated {
            if self.open.is_empty() {
                let bytes = setup(self.next_sequence, self.ip, self.started);
                self.ask(now, Purpose::Setup, bytes);
            }
            return;
        }
        for at in 0..self.views.len() {
            if self.open.len() >= WINDOW {
                return;
            }
            self.think_about(now, at, rng);
        }
    }

    fn think_about(&mut self, now: Nanos, at: usize, rng: &mut SmallRng) {
        let sequence = self.next_sequence;
        let view = &mut self.views[at];
        if view.busy || view.gone {
            return;
        }
        let (purpose, bytes) = match view.up_seid {
            None => {
                let request = establish_with(sequence, &view.script, |body| {
                    body.fq_csids = list([CSID]).into();
                });
                (Purpose::Establish(at), request)
            }
            Some(up_seid) if view.moves_left > 0 && rng.random_bool(0.2) => {
                let bytes = modify_with(sequence, up_seid, |body| {
                    body.remove_fars = list([RemoveFar::new(FarId(999))]).into();
                });
                (Purpose::Refused(at), bytes)
            }
            Some(up_seid) if view.moves_left > 0 => {
                view.moves_left -= 1;
                let teid = Teid(rng.random_range(1..u32::MAX));
                (Purpose::Move(at, teid), move_to(sequence, up_seid, teid))
            }
            Some(up_seid) if !view.keep => (Purpose::Delete(at), delete(sequence, up_seid)),
            Some(_) => return,
        };
        view.busy = true;
        self.ask(now, purpose, bytes);
    }

    /// Sends due messages.
    fn transmit(&mut self, now: Nanos, link: &mut LossyLink) {
        let src = self.socket;
        for request in self.open.values_mut().filter(|request| request.due <= now) {
            assert!(request.attempts_left > 0, "no answer to {:?}", request.purpose);
            request.attempts_left -= 1;
            request.due = now + RETRY;
            let bytes = request.bytes.clone();
            link.send(now, LinkDatagram { src, dst: UPF_SOCKET, bytes });
        }
    }

    fn receive(&mut self, now: Nanos, bytes: &[u8], link: &mut LossyLink) {
        let header = raw(bytes).header;
        let message = decode(bytes);
        if let Message::HeartbeatRequest(_) = message {
            if now >= self.asleep_until {
                let body = HeartbeatResponse::new(RecoveryTimeStamp(self.started));
                let bytes = encode(None, header.sequence, &body);
                link.send(now, LinkDatagram { src: self.socket, dst: UPF_SOCKET, bytes });
            }
            return;
        }
        let Some(request) = self.open.remove(&header.sequence) else { return };
        self.conclude(request.purpose, &message, header.seid);
    }

    fn conclude(&mut self, purpose: Purpose, message: &Message<'_>, seid: Option<Seid>) {
        match (purpose, message) {
            (Purpose::Setup, Message::AssociationSetupResponse(body)) => {
                assert!(body.cause.is_accepted());
                self.associated = true;
                return;
            }
            (Purpose::DeleteSet, Message::SessionSetDeletionResponse(body)) => {
                assert_eq!(body.cause, Cause::RequestAccepted);
                self.views.iter_mut().for_each(|view| view.gone = true);
                return;
            }
            (Purpose::Release, Message::AssociationReleaseResponse(body)) => {
                assert_eq!(body.cause, Cause::RequestAccepted);
                self.views.iter_mut().for_each(|view| view.gone = true);
                return;
            }
            (Purpose::Establish(at), Message::SessionEstablishmentResponse(body)) => {
                assert_eq!(body.cause, Cause::RequestAccepted);
                self.views[at].up_seid = Some(body.up_f_seid.unwrap().seid);
                self.told.established += 1;
            }
            (Purpose::Move(at, teid), Message::SessionModificationResponse(body)) => {
                assert_eq!(body.cause, Cause::RequestAccepted);
                self.views[at].teid = teid;
                self.told.modified += 1;
            }
            (Purpose::Refused(_), Message::SessionModificationResponse(body)) => {
                assert_eq!(body.cause, Cause::RuleCreationModificationFailure);
                self.told.refused += 1;
            }
            (Purpose::Delete(at), Message::SessionDeletionResponse(body)) => {
                assert_eq!(body.cause, Cause::RequestAccepted);
                self.views[at].gone = true;
                self.told.deleted += 1;
            }
            other => panic!("{other:?}"),
        }
        let at = match purpose {
            Purpose::Setup | Purpose::DeleteSet | Purpose::Release => return,
            Purpose::Establish(at)
            | Purpose::Move(at, _)
            | Purpose::Refused(at)
            | Purpose::Delete(at) => at,
        };
        assert_eq!(seid, Some(self.views[at].script.cp_seid));
        self.views[at].busy = false;
    }

    fn next_due(&self) -> Option<Nanos> {
        let waking = (!self.associated && self.open.is_empty()).then_some(self.asleep_until);
        self.open.values().map(|request| request.due).min().into_iter().chain(waking).min()
    }
}

/// A node whose process ended starts again with the records of `disk`; its sessions run at once.
fn restored(config: NodeConfig, now: Nanos, disk: &Disk, workers: &mut Workers) -> Node {
    let mut node = Node::new(config);
    let (_, octets) = &disk.of(RecordKind::Node)[0];
    let record = NodeRecord::from_octets(octets).unwrap();
    assert_eq!(record.recovery_time_stamp, node.config().recovery_time_stamp);
    node.begin_restoration(&record);
    let preparer = SessionPreparer::new(node.config().store.provisioning.clone());
    node.accept_prepared(&preparer);
    for kind in RecordKind::ALL {
        for (name, value) in disk.of(kind) {
            let mut former = FormerRecord::read_prepared(&preparer, kind, name, value);
            let restored = node.restore_record(now, &mut former);
            // Its association ended, and the record was on its way out.
            assert!(matches!(restored, Ok(()) | Err(RecordError::NoAssociation)), "{restored:?}");
        }
    }
    while let Some((id, delta)) = node.poll_delta() {
        workers.take(now, id, delta);
        let id = workers.publish(now).unwrap();
        node.handle_published(now, id);
    }
    node.end_restoration(now);
    node
}

struct Simulation {
    clock: SteppedClock,
    link: LossyLink,
    node: Node,
    disk: Disk,
    workers: Workers,
    smfs: Vec<Smf>,
    rng: SmallRng,
    /// How probable it is that workers take long to run a change.
    slow: f64,
    answered: BTreeSet<(SocketAddr, u32, u32)>,
}

impl Simulation {
    fn new(seed: u64, sessions: u16) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let store = StoreConfig { sessions_max: 4096, ..config().store };
        let config = NodeConfig { t1: RETRY, n1: ATTEMPTS - 1, store, ..config() };
        Self {
            clock: SteppedClock::new(),
            link: LossyLink::new(seed, ROUGH),
            node: Node::new(config),
            disk: Disk::default(),
            workers: Workers::default(),
            smfs: [10, 11].map(|host| Smf::new(host, sessions, &mut rng)).into(),
            rng,
            slow: 0.02,
            answered: BTreeSet::new(),
        }
    }

    /// With a store.
    fn durable(seed: u64, sessions: u16) -> Self {
        let mut simulation = Self::new(seed, sessions);
        let interval = Nanos::from_secs(5);
        let records = RecordConfig { usage_interval: interval, serves_without_store: false };
        let config = simulation.node.config().clone();
        simulation.node = Node::new(NodeConfig { records: Some(records), ..config });
        simulation.node.begin_records(1);
        simulation.slow = 0.001;
        simulation
    }

    /// The process of the node is killed: some groups that it handed out are on the disk, the
    /// others are not.
    fn kill(&mut self) {
        let now = self.clock.now();
        for _ in 0..self.rng.random_range(0..=self.disk.queue.len()) {
            self.disk.write(Nanos::NEVER);
        }
        self.disk.queue.clear();
        self.workers = Workers::default();
        let config = self.node.config().clone();
        // Identifiers are drawn anew.
        let store = StoreConfig { seed: self.rng.random(), ..config.store };
        let config = NodeConfig { store, seed: self.rng.random(), ..config };
        self.node = restored(config, now, &self.disk, &mut self.workers);
        self.drain(now);
    }

    /// Does everything that happens at the next instant.
    fn step(&mut self) {
        let due = [self.link.next_delivery(), self.node.poll_timeout()];
        let smfs = self.smfs.iter().map(Smf::next_due);
        let workers = self.workers.queue.front().map(|&(at, ..)| at);
        let disk = self.disk.queue.front().map(|&(at, _)| at);
        let next = due.into_iter().chain(smfs).chain([workers, disk]).flatten().min();
        self.clock.advance_to(next.expect("something is always due"));
        let now = self.clock.now();
        assert!(now < Nanos::from_secs(3600), "the simulation does not end");
        while let Some(datagram) = self.link.poll_delivery(now) {
            if datagram.dst == UPF_SOCKET {
                self.node.handle_datagram(now, datagram.src, &datagram.bytes);
            } else if let Some(smf) = self.smfs.iter_mut().find(|s| s.socket == datagram.dst) {
                smf.receive(now, &datagram.bytes, &mut self.link);
            }
            self.drain(now);
        }
        self.node.handle_timeout(now);
        self.drain(now);
        while let Some(id) = self.workers.publish(now) {
            self.node.handle_published(now, id);
            self.drain(now);
        }
        while let Some(number) = self.disk.write(now) {
            self.node.handle_durable(now, number);
            self.drain(now);
        }
        for smf in &mut self.smfs {
            smf.think(now, &mut self.rng);
            smf.transmit(now, &mut self.link);
        }
    }

    fn drain(&mut self, now: Nanos) {
        while let Some((id, delta)) = self.node.poll_delta() {
            let delay = Nanos::from_millis(self.rng.random_range(0..2500) / 20);
            let slow = self.rng.random_bool(self.slow);
            let delay = if slow { Nanos::from_millis(2500) } else { delay };
            self.workers.take(now + delay, id, delta);
        }
        if let Some(group) = self.node.poll_records(now) {
            let delay = Nanos::from_micros(self.rng.random_range(100..5000));
            let slow = self.rng.random_bool(0.02);
            let delay = if slow { Nanos::from_millis(300) } else { delay };
            self.disk.take(now + delay, group);
        }
        while let Some(transmit) = self.node.poll_transmit() {
            self.check_first_answer(&transmit);
            let Transmit { to, bytes, .. } = transmit;
            self.link.send(now, LinkDatagram { src: UPF_SOCKET, dst: to, bytes });
        }
        while self.node.poll_event().is_some() {}
    }

    /// When an answer leaves for the first time, the workers run the change that it acknowledges.
    fn check_first_answer(&mut self, transmit: &Transmit) {
        let header = raw(&transmit.bytes).header;
        let Some(smf) = self.smfs.iter().find(|smf| smf.socket == transmit.to) else { return };
        let is_session_answer = header.message_type.is_session_related();
        let key = (transmit.to, smf.started, header.sequence);
        if !is_session_answer || !self.answered.insert(key) {
            return;
        }
        let running = |at: usize| self.workers.downlink_teid(smf.views[at].script.ue);
        let Some(&purpose) = smf.asked.get(&header.sequence) else {
            assert!(self.clock.now() < smf.asleep_until, "an answer to nothing");
            return;
        };
        match purpose {
            Purpose::Establish(at) => assert_eq!(running(at), Some(smf.views[at].script.gnb_teid)),
            Purpose::Move(at, teid) => assert_eq!(running(at), Some(teid)),
            Purpose::Refused(at) => assert_eq!(running(at), Some(smf.views[at].teid)),
            Purpose::Delete(at) => assert_eq!(running(at), None),
            Purpose::Setup | Purpose::DeleteSet | Purpose::Release => {
                panic!("a session answer to a node related request")
            }
        }
    }

    fn run_until_done(&mut self) {
        loop {
            self.step();
            let is_quiet = self.workers.queue.is_empty() && self.disk.queue.is_empty();
            if self.smfs.iter().all(Smf::is_done) && is_quiet {
                return;
            }
        }
    }

    /// Both sides have the same sessions with the same tunnels.
    fn check_agreement(&self) {
        let mut theirs = BTreeSet::new();
        for smf in &self.smfs {
            for view in smf.views.iter().filter(|view| !view.gone) {
                let up_seid = view.up_seid.unwrap();
                theirs.insert((up_seid, smf.ip, view.script.cp_seid, view.script.ue, view.teid));
            }
        }
        let ours = self.node.store().sessions().map(|session| {
            let owner = session.owner();
            let association = self.node.associations().find(|a| a.owner == owner).unwrap();
            let IpAddr::V4(ip) = association.address else { panic!() };
            let far = session.fars().into_iter().find(|far| far.id == FarId(2)).unwrap();
            let header = far.forwarding.as_ref().unwrap().outer_header_creation.unwrap();
            let tunnel = header.tunnel().unwrap();
            let ue = session.pdrs()[0].pdi.ue_addresses().v4.unwrap();
            (session.up_seid(), ip, session.cp_f_seid().seid, ue, tunnel.teid)
        });
        assert_eq!(ours.collect::<BTreeSet<_>>(), theirs);
        assert_eq!(self.workers.running.len(), theirs.len());
        assert_eq!(self.node.pending_len(), 0);
    }

    fn told(&self) -> Told {
        let mut sum = Told::default();
        for smf in &self.smfs {
            sum.established += smf.told.established;
            sum.modified += smf.told.modified;
            sum.deleted += smf.told.deleted;
            sum.refused += smf.told.refused;
        }
        sum
    }

    /// Every request took effect as often as an SMF got an answer to it: once.
    fn check_exactly_once(&self) {
        let counters = self.node.counters();
        let scalars = counters.scalars;
        let done = Told {
            established: scalars.sessions_established,
            modified: scalars.sessions_modified,
            deleted: scalars.sessions_deleted,
            refused: counters.refused(Cause::RuleCreationModificationFailure),
        };
        assert_eq!(done, self.told());
    }

    fn delete_all(&mut self) {
        for smf in &mut self.smfs {
            for view in &mut smf.views {
                view.keep = false;
            }
        }
        self.run_until_done();
        self.check_agreement();
        assert_eq!(self.node.store().len(), 0);
        assert_eq!(self.node.store().reserved(), Default::default());
        assert!(self.workers.running.is_empty());
    }
}

#[test]
fn sessions_agree_and_run_exactly_once_over_a_rough_link() {
    for seed in seeds() {
        let _seed = Seed(seed);
        let mut simulation = Simulation::new(seed, 200);
        simulation.run_until_done();
        simulation.check_agreement();
        simulation.check_exactly_once();
        assert_eq!(simulation.told().established, 400);
        let scalars = simulation.node.counters().scalars;
        assert!(scalars.retransmissions_replayed > 0 && scalars.retransmissions_in_progress > 0);
        assert_eq!(scalars.response_cache_evicted, 0);
        simulation.delete_all();
        simulation.check_exactly_once();
    }
}

#[test]
fn restarted_peer_gets_a_clean_start_and_the_other_peer_notices_nothing() {
    for seed in seeds() {
        let _seed = Seed(seed);
        let mut simulation = Simulation::new(seed, 60);
        while simulation.smfs[1].told.established < 30 {
            simulation.step();
        }
        let now = simulation.clock.now();
        simulation.smfs[1].restart(now, 40, &mut simulation.rng);
        simulation.run_until_done();
        simulation.check_agreement();
        let scalars = simulation.node.counters().scalars;
        assert_eq!(scalars.peers_restarted, 1);
        assert!(scalars.sessions_removed_with_association >= 1);
        let first = IpAddr::V4(simulation.smfs[0].ip);
        assert!(simulation.node.association(first).unwrap().since < now);
        simulation.delete_all();
    }
}

#[test]
fn restarted_upf_is_set_up_again_and_both_sides_agree() {
    for seed in seeds() {
        let _seed = Seed(seed);
        let mut simulation = Simulation::new(seed, 60);
        while simulation.smfs[1].told.established < 30 {
            simulation.step();
        }
        let config = simulation.node.config().clone();
        let recovery_time_stamp = config.recovery_time_stamp + 1;
        simulation.node = Node::new(NodeConfig { recovery_time_stamp, ..config });
        simulation.workers = Workers::default();
        let now = simulation.clock.now();
        for smf in &mut simulation.smfs {
            smf.told = Told::default();
            smf.restart(now, 60, &mut simulation.rng);
        }
        simulation.run_until_done();
        simulation.check_agreement();
        simulation.check_exactly_once();
        simulation.delete_all();
    }
}

/// A node whose process is killed goes on: no peer notices, acknowledged changes hold, and requests
/// that were under way are carried out once.
#[test]
fn killed_upf_goes_on_with_all_that_it_answered() {
    let mut kills = 0;
    for seed in seeds() {
        let _seed = Seed(seed);
        let mut simulation = Simulation::durable(seed, 120);
        let mut killed = Nanos(0);
        loop {
            simulation.step();
            let is_done = simulation.smfs.iter().all(Smf::is_done);
            if is_done && simulation.workers.queue.is_empty() && simulation.disk.queue.is_empty() {
                break;
            }
            // Requests that arrive in between are answered in the end.
            let now = simulation.clock.now();
            let is_associated = simulation.smfs.iter().all(|smf| smf.associated);
            let rests = now.since(killed) < Nanos::from_millis(1500);
            if is_associated && !rests && simulation.rng.random_bool(0.02) {
                simulation.kill();
                killed = now;
                kills += 1;
            }
        }
        simulation.check_agreement();
        assert_eq!(simulation.told().established, 240);
        simulation.kill();
        simulation.check_agreement();
        simulation.delete_all();
        assert!(simulation.disk.of(RecordKind::Session).is_empty());
        simulation.kill();
        assert_eq!((simulation.node.store().len(), simulation.node.associations().count()), (0, 2));
    }
    assert!(kills > seeds().len(), "{kills}");
}

/// Spec: TS 29.244 §6.2.8, §6.2.9.
#[test]
fn thousands_of_sessions_go_with_one_set_deletion_or_one_release() {
    for seed in seeds().into_iter().take(3) {
        let _seed = Seed(seed);
        let mut simulation = Simulation::new(seed, 1000);
        simulation.run_until_done();
        simulation.check_agreement();
        assert!(simulation.node.store().len() > 500);
        let now = simulation.clock.now();
        let [first, second] = &mut simulation.smfs[..] else { panic!() };
        let mut body = SessionSetDeletionRequest::new(ie::NodeId::Ipv4(first.ip));
        body.fq_csids = list([CSID]).into();
        let bytes = encode(None, first.next_sequence, &body);
        first.ask(now, Purpose::DeleteSet, bytes);
        let bytes = release(second.next_sequence, second.ip);
        second.ask(now, Purpose::Release, bytes);
        simulation.run_until_done();
        assert_eq!(simulation.node.store().reserved(), Default::default());
        assert_eq!(simulation.node.sessions_in_sets(), 0);
        assert!(simulation.workers.running.is_empty());
        assert_eq!(simulation.node.associations().count(), 1);
    }
}

#[test]
fn peers_that_fall_silent_lose_everything() {
    for seed in seeds() {
        let _seed = Seed(seed);
        let mut simulation = Simulation::new(seed, 50);
        simulation.run_until_done();
        simulation.link.set_config(LinkConfig { loss_permille: 1000, ..ROUGH });
        while simulation.node.associations().count() > 0 {
            simulation.step();
        }
        while !simulation.workers.queue.is_empty() {
            simulation.step();
        }
        assert_eq!(simulation.node.store().reserved(), Default::default());
        assert_eq!(simulation.node.poll_timeout(), None);
    }
}

/// Whether one of the answers accepts a request.
fn accepts(sent: &[Transmit]) -> bool {
    sent.iter().any(|transmit| match decode(&transmit.bytes) {
        Message::SessionEstablishmentResponse(body) => body.cause.is_accepted(),
        Message::SessionModificationResponse(body) => body.cause.is_accepted(),
        Message::SessionDeletionResponse(body) => body.cause.is_accepted(),
        _ => false,
    })
}

/// A node with a session, and valid session requests.
fn target() -> (Bench, Vec<Vec<u8>>) {
    let mut bench = Bench::associated();
    let up_seid = bench.session(smf(10), 2, &SessionScript::new(1, 1));
    let requests = vec![
        establish(3, &SessionScript::new(2, 2)),
        move_to(4, up_seid, Teid(77)),
        delete(5, up_seid),
    ];
    (bench, requests)
}

/// Sends octets; the store may change only if an answer says so. True if it was accepted.
fn strike(bench: &mut Bench, bytes: &[u8]) -> bool {
    let before = bench.node.store().clone();
    let sent = bench.ask(smf(10), bytes);
    let accepted = accepts(&sent);
    assert!(accepted || *bench.node.store() == before, "changed by {bytes:02x?}");
    accepted
}

#[test]
fn truncated_requests_change_nothing() {
    let (mut bench, requests) = target();
    for request in &requests {
        for len in 0..request.len() {
            assert!(!strike(&mut bench, &request[..len]));
        }
    }
    for request in &requests[..2] {
        for len in 16..request.len() {
            let mut bytes = request[..len].to_vec();
            let octets = u16::try_from(len - 4).unwrap();
            bytes[2..4].copy_from_slice(&octets.to_be_bytes());
            if strike(&mut bench, &bytes) {
                bench = target().0;
            }
        }
    }
}

#[test]
fn flipped_bits_change_nothing_unless_accepted() {
    for seed in seeds() {
        let _seed = Seed(seed);
        let mut rng = SmallRng::seed_from_u64(seed);
        let (mut bench, requests) = target();
        for _ in 0..1500 {
            let mut bytes = requests[rng.random_range(0..requests.len())].clone();
            for _ in 0..rng.random_range(1..4) {
                let at = rng.random_range(0..bytes.len());
                bytes[at] ^= 1 << rng.random_range(0..8);
            }
            // Sequence numbers of their own, or the response cache would answer.
            bytes[13..15].copy_from_slice(&rng.random::<u16>().to_be_bytes());
            let is_setup_or_heartbeat = bytes[1] < 50;
            if is_setup_or_heartbeat {
                bench.ask(smf(10), &bytes);
                bench = target().0;
            } else if strike(&mut bench, &bytes) {
                bench = target().0;
            }
        }
    }
}

#[test]
fn flipped_node_messages_never_panic() {
    for seed in seeds() {
        let (_seed, mut rng) = (Seed(seed), SmallRng::seed_from_u64(seed));
        let ten = Ipv4Addr::new(192, 0, 2, 10);
        let requests = [
            setup(2, ten, SMF_STARTED),
            heartbeat(3, SMF_STARTED),
            release(4, ten),
            encode(None, 5, &HeartbeatResponse::new(RecoveryTimeStamp(1))),
        ];
        let mut bench = target().0;
        for _ in 0..3000 {
            let mut bytes = requests[rng.random_range(0..requests.len())].clone();
            let at = rng.random_range(0..bytes.len());
            bytes[at] = rng.random();
            bytes.truncate(rng.random_range(0..=bytes.len()));
            bench.ask(smf(10 + rng.random_range(0..3)), &bytes);
            bench.now += Nanos::from_millis(rng.random_range(0..500));
            bench.node.handle_timeout(bench.now);
            bench.publish_all();
            for transmit in bench.sent() {
                assert_ne!(raw(&transmit.bytes).header.message_type, MessageType(0));
            }
        }
        assert!(bench.node.associations().count() <= 3 && bench.node.pending_len() == 0);
    }
}
