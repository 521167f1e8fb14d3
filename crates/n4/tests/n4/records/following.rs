//! A standby that follows the records of an active node, one change after another, and takes over
//! at a random moment: it is the same as a process that restores all of the same records at once.
//!
//! A failing run prints its seed; `SEED=<n> cargo test -p adit-n4 --test n4 records::following`
//! repeats it.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use adit_n4::NodeConfig;
use adit_pfcp::MessageType;
use adit_pfcp::grouped::{ApplicationIdsPfds, CreateUrr, PfdContext};
use adit_pfcp::ie::{
    self, ApnDnn, ApplicationId, CpFunctionFeatures, FqCsid, FqCsidNode, PfcpSmReqFlags,
    PfdContents, RecoveryTimeStamp, ReportingTriggers, SmfSetId,
};
use adit_pfcp::message::{
    AssociationSetupRequest, HeartbeatResponse, PfdManagementRequest, SessionReportResponse,
};
use adit_rules::sdf::AddrMatch;
use adit_rules::{DeltaId, KeyChange, RuleDelta, SessionKey, SessionRules, WorkerEvent};
use adit_session::{OwnerId, Provisioning, StoreConfig, UePool};
use adit_store::RecordChange;
use adit_types::{SessionIndex, Teid, UsageSlot};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::usage_scene::{threshold, urr, with_urrs};

const RUNS: u64 = 400;
const SET: SmfSetId<'static> = SmfSetId(b"\0\x04set1\x03smf");
const TEXTS: [&str; 2] =
    ["permit out 17 from any 53 to assigned", "permit out 6 from 203.0.113.0/24 443 to assigned"];

/// Few indices and addresses, so that they are used again.
fn scarce_config() -> NodeConfig {
    pool_config("10.60.0.0/28")
}

fn pool_config(prefix: &str) -> NodeConfig {
    let prefix = AddrMatch::V4(prefix.parse().unwrap());
    let pool = UePool { network_instance: None, identity: None, s_nssai: None, prefix };
    let provisioning = Provisioning { ue_pools: vec![pool], ..config().store.provisioning };
    let store = StoreConfig { provisioning, sessions_max: 12, ..config().store };
    NodeConfig { store, ..kept_config() }
}

/// The state of workers: the rules of sessions, and where keys lead.
#[derive(Default)]
struct Workers {
    rules: BTreeMap<SessionIndex, SessionRules>,
    keys: BTreeMap<SessionKey, SessionIndex>,
    /// Changes that they run, and that the node has not been notified of yet.
    running: VecDeque<DeltaId>,
}

impl Workers {
    fn run(&mut self, id: DeltaId, delta: RuleDelta) {
        for change in delta.keys {
            match change {
                KeyChange::Add(key) => self.keys.insert(key, delta.session),
                KeyChange::Remove(key) => self.keys.remove(&key),
            };
        }
        match delta.rules {
            Some(rules) => self.rules.insert(delta.session, *rules),
            None => self.rules.remove(&delta.session),
        };
        self.running.push_back(id);
    }

    /// The rules, without the places in which usage is counted.
    fn rules(&self) -> Vec<(SessionIndex, SessionRules)> {
        let plain = |(&index, rules): (&SessionIndex, &SessionRules)| {
            let mut rules = rules.clone();
            rules.own_urr = None;
            for urr in &mut rules.urrs {
                (urr.slot, urr.generation) = (UsageSlot(0), 0);
            }
            (index, rules)
        };
        self.rules.iter().map(plain).collect()
    }
}

/// A node, and its workers.
struct Upf {
    bench: Bench,
    workers: Workers,
    counters: Arc<Counters>,
}

impl Upf {
    fn new(config: NodeConfig) -> Self {
        let mut bench = Bench::with(config);
        let counters = Arc::new(Counters::default());
        bench.node.set_usage_source(Arc::clone(&counters) as Arc<dyn UsageSource>);
        Self { bench, workers: Workers::default(), counters }
    }

    /// Workers run all changes, and the node learns of at most `count`.
    fn publish(&mut self, count: usize) {
        while let Some((id, delta)) = self.bench.node.poll_delta() {
            self.workers.run(id, delta);
        }
        for _ in 0..count {
            let Some(id) = self.workers.running.pop_front() else { return };
            self.bench.node.handle_published(self.bench.now, id);
        }
    }

    /// All due work, and the work that follows from it.
    fn settle(&mut self) {
        self.publish(usize::MAX);
        while self.bench.node.poll_timeout().is_some_and(|at| at <= self.bench.now) {
            self.bench.node.handle_timeout(self.bench.now);
            self.publish(usize::MAX);
        }
    }

    fn ask(&mut self, from: SocketAddr, bytes: &[u8]) -> Vec<Transmit> {
        self.bench.node.handle_datagram(self.bench.now, from, bytes);
        self.settle();
        self.bench.store_all();
        self.bench.sent()
    }

    fn seids(&self) -> Vec<Seid> {
        self.bench.node.store().sessions().map(|session| session.up_seid()).collect()
    }
}

struct AskedRequest {
    at: Nanos,
    /// The association by then.
    owner: Option<OwnerId>,
    from: SocketAddr,
    sequence: u32,
    octets: Vec<u8>,
}

/// The active node, with random SMFs.
struct Active {
    upf: Upf,
    groups: VecDeque<Vec<RecordChange>>,
    asked: Vec<AskedRequest>,
    /// The requests that were accepted.
    answered: Vec<AskedRequest>,
    number: u16,
}

impl Active {
    fn new(config: NodeConfig) -> Self {
        let upf = Upf::new(config);
        let (groups, answered, asked) = (VecDeque::new(), Vec::new(), Vec::new());
        let mut active = Self { upf, groups, answered, asked, number: 10 };
        active.upf.bench.node.begin_records(1);
        for host in [10, 11] {
            active.set_up(host);
        }
        active.store();
        active
    }

    fn set_up(&mut self, host: u8) {
        let mut body = AssociationSetupRequest::new(
            ie::NodeId::Ipv4(ip(host)),
            RecoveryTimeStamp(SMF_STARTED),
        );
        body.cp_function_features = Some(CpFunctionFeatures::SSET);
        body.smf_set_id = (host < 12).then_some(SET);
        let sequence = self.next();
        self.ask(host, sequence, encode(None, sequence, &body));
    }

    fn next(&mut self) -> u32 {
        self.number += 1;
        self.number.into()
    }

    fn ask(&mut self, host: u8, sequence: u32, bytes: Vec<u8>) {
        let (bench, from) = (&mut self.upf.bench, smf(host));
        bench.node.handle_datagram(bench.now, from, &bytes);
        let owner = bench.node.association(from.ip()).map(|association| association.owner);
        self.asked.push(AskedRequest { at: bench.now, owner, from, sequence, octets: bytes });
    }

    /// The store gets the changes; peers react to the sent messages.
    fn store(&mut self) {
        let bench = &mut self.upf.bench;
        while let Some(group) = bench.node.poll_records(bench.now) {
            self.groups.push_back(group.changes.clone());
            bench.write(group);
        }
        for Transmit { to, bytes, .. } in bench.sent() {
            let header = raw(&bytes).header;
            if header.message_type == MessageType::HEARTBEAT_REQUEST {
                let body = HeartbeatResponse::new(RecoveryTimeStamp(SMF_STARTED));
                let response = encode(None, header.sequence, &body);
                bench.node.handle_datagram(bench.now, to, &response);
            } else if header.message_type == MessageType::SESSION_REPORT_REQUEST {
                if header.sequence.is_multiple_of(2) {
                    let body = SessionReportResponse::new(Cause::RequestAccepted);
                    let response = encode(Some(Seid(1)), header.sequence, &body);
                    bench.node.handle_datagram(bench.now, to, &response);
                }
            } else if let Some(at) = self
                .asked
                .iter()
                .position(|asked| (asked.from, asked.sequence) == (to, header.sequence))
            {
                let asked = self.asked.remove(at);
                if cause(&bytes) == Cause::RequestAccepted {
                    self.answered.push(asked);
                }
            }
        }
    }

    /// All changes of records since the last ones.
    fn changes(&mut self) -> Vec<RecordChange> {
        self.upf.settle();
        self.store();
        self.groups.drain(..).flatten().collect()
    }

    /// Establishes a session whose UE address is chosen here.
    fn choose(&mut self) -> Vec<RecordChange> {
        let sequence = self.next();
        self.ask(10, sequence, choosing(sequence, sequence.into()));
        self.changes()
    }

    fn delete(&mut self, up_seid: Seid) -> Vec<RecordChange> {
        let sequence = self.next();
        self.ask(10, sequence, delete(sequence, up_seid));
        self.changes()
    }

    fn establish(&mut self, random: &mut SmallRng) {
        let sequence = self.next();
        let host = random.random_range(10..13);
        let mut measured = urr(1, ReportingTriggers::VOLTH);
        measured.volume_threshold = threshold(1000);
        let second: CreateUrr<'static> = urr(2, ReportingTriggers::empty());
        let (kind, is_chosen) = (random.random_range(0..4), random.random());
        let csids = list([FqCsid::new(FqCsidNode::Ipv4(ip(10)), &[0, 5], None).unwrap()]);
        // Few addresses: one that a session gives up another one takes.
        let script = SessionScript::new(u64::from(sequence), random.random_range(0..6));
        let edit = |body: &mut adit_pfcp::message::SessionEstablishmentRequest<'static>| {
            let cp = ie::FSeid::new(script.cp_seid, IpAddr::V4(ip(host)));
            body.cp_f_seid = cp;
            if is_chosen {
                let mut pdrs: Vec<_> = body.create_pdrs.iter().collect();
                for (pdr, destination) in pdrs.iter_mut().zip([false, true]) {
                    let ue = ie::UeIpAddress { choose_v4: true, destination, ..Default::default() };
                    pdr.pdi.ue_ip_addresses = list([ue]).into();
                }
                body.create_pdrs = Vec::leak(pdrs)[..].into();
            }
            match kind {
                0 => with_urrs(body, list([measured, second])),
                1 => {
                    let mut pdrs: Vec<_> = body.create_pdrs.iter().collect();
                    pdrs[1].pdi.application_id = Some(ApplicationId(b"web"));
                    body.create_pdrs = Vec::leak(pdrs)[..].into();
                }
                2 => {
                    body.fq_csids = csids.into();
                    body.apn_dnn = Some(ApnDnn(b"\x08internet"));
                }
                _ => with_urrs(body, list([measured])),
            }
        };
        let request = establish_with(sequence, &script, edit);
        self.ask(host, sequence, request);
    }

    fn provide_pfds(&mut self, random: &mut SmallRng) {
        let mut application = ApplicationIdsPfds::new(ApplicationId(b"web"));
        if random.random() {
            let text = TEXTS[random.random_range(0..2)].as_bytes();
            let contents = PfdContents { flow_description: Some(text), ..PfdContents::default() };
            application.pfd_contexts = list([PfdContext::new(list([contents]).into())]).into();
        }
        let mut body = PfdManagementRequest::new();
        body.application_ids_pfds = list([application]).into();
        let sequence = self.next();
        self.ask(random.random_range(10..13), sequence, encode(None, sequence, &body));
    }

    /// Packets of a session, which may reach a limit.
    fn forward(&mut self, up_seid: Seid, random: &mut SmallRng) {
        let index = adit_session::seid_index(up_seid);
        let Some(rules) = self.upf.workers.rules.get(&index) else { return };
        let Some(rule) = rules.urrs.first() else { return };
        let (slot, generation) = (rule.slot, rule.generation);
        let scene_now = self.upf.bench.now;
        self.upf.counters.add(slot, random.random_range(1..900), scene_now);
        let limits = rule.report.total_bytes;
        if self.upf.counters.usage(slot, generation).ul_bytes >= limits {
            let event = WorkerEvent::UsageLimit { session: up_seid, slot, generation };
            self.upf.bench.node.handle_event(scene_now, event);
        }
    }

    fn act(&mut self, random: &mut SmallRng) {
        let seids = self.upf.seids();
        let session = |random: &mut SmallRng| match seids.len() {
            0 => None,
            len => Some(seids[random.random_range(0..len)]),
        };
        let host = |active: &Self, up_seid| {
            let owner = active.upf.bench.node.store().session(up_seid)?.owner();
            let mut all = active.upf.bench.node.associations();
            let IpAddr::V4(address) = all.find(|known| known.owner == owner)?.address else {
                return None;
            };
            Some(address.octets()[3])
        };
        let chosen = session(random);
        let of = chosen.and_then(|up_seid| Some((up_seid, host(self, up_seid)?)));
        match (random.random_range(0..24), of) {
            (0..=5, _) => self.establish(random),
            (6 | 7, Some((up_seid, host))) => {
                let sequence = self.next();
                let teid = Teid(random.random_range(1..9));
                self.ask(host, sequence, move_to(sequence, up_seid, teid));
            }
            (8, Some((up_seid, host))) => {
                let sequence = self.next();
                let query = |body: &mut adit_pfcp::message::SessionModificationRequest<'static>| {
                    body.pfcp_sm_req_flags = Some(PfcpSmReqFlags::QAURR);
                };
                self.ask(host, sequence, modify_with(sequence, up_seid, query));
            }
            (9..=11, Some((up_seid, host))) => {
                let sequence = self.next();
                self.ask(host, sequence, delete(sequence, up_seid));
            }
            (12..=15, Some((up_seid, _))) => self.forward(up_seid, random),
            (16, _) => self.provide_pfds(random),
            (17, _) if random.random_range(0..3) == 0 => {
                let (host, sequence) = (random.random_range(10..13), self.next());
                self.ask(host, sequence, release(sequence, ip(host)));
            }
            (18, _) => self.set_up(12),
            _ => self.upf.bench.now += Nanos::from_millis(random.random_range(1..3000)),
        }
    }
}

/// A standby, and the records of the store, which it follows.
struct Standby {
    upf: Upf,
    records: StoredRecords,
}

impl Standby {
    fn begin(records: &StoredRecords, config: NodeConfig) -> Self {
        let mut upf = Upf::new(config);
        let node = &records[&(RecordKind::Node, OwnedRecordId::Number(0))];
        upf.bench.node.begin_following(&NodeRecord::from_octets(node).unwrap());
        Self { upf, records: StoredRecords::new() }
    }

    fn follow(&mut self, change: &RecordChange) {
        let RecordChange { kind, name, value } = change;
        let key = (*kind, name.clone());
        match value {
            Some(octets) => self.records.insert(key, octets.clone()),
            None => self.records.remove(&key),
        };
        let now = self.upf.bench.now;
        self.upf.bench.node.follow_record(now, change).unwrap();
    }

    /// Nothing leaves, and nothing is recorded.
    fn check_silence(&mut self) {
        let bench = &mut self.upf.bench;
        assert_eq!(bench.ask_quietly(smf(10), &heartbeat(1, SMF_STARTED)), []);
        assert!(bench.node.poll_records(bench.now).is_none());
        assert!(bench.node.poll_command().is_none());
    }

    fn take_over(&mut self) {
        let node = |standby: &Self| standby.upf.bench.node.pending_len();
        for _ in 0..10_000 {
            self.upf.settle();
            if node(self) == 0 {
                break;
            }
        }
        assert_eq!(node(self), 0, "records wait for nothing");
        self.check_silence();
        self.upf.bench.node.end_restoration(self.upf.bench.now);
        self.upf.bench.records = self.records.clone();
    }
}

/// A process that restores the same records at once.
fn restored(records: &StoredRecords, config: NodeConfig, now: Nanos) -> Upf {
    let mut upf = Upf::new(config);
    upf.bench.now = now;
    upf.bench.records = records.clone();
    let node = &records[&(RecordKind::Node, OwnedRecordId::Number(0))];
    upf.bench.node.begin_restoration(&NodeRecord::from_octets(node).unwrap());
    for (kind, name, octets) in records_of(&upf.bench) {
        // A session whose association is gone is refused.
        let mut record = FormerRecord::read(kind, name, octets);
        let _refused = upf.bench.node.restore_record(now, &mut record);
    }
    upf.publish(usize::MAX);
    upf.bench.node.end_restoration(now);
    upf
}

fn sorted(mut sent: Vec<Transmit>) -> Vec<(SocketAddr, Vec<u8>)> {
    sent.retain(|sent| !sent.bytes.is_empty());
    let mut all: Vec<_> = sent.into_iter().map(|sent| (sent.to, sent.bytes)).collect();
    all.sort();
    all
}

/// Checks that both nodes are the same for peers and for packets.
fn compare(one: &mut Upf, other: &mut Upf) {
    let state = |upf: &Upf| {
        let node = &upf.bench.node;
        let store = node.store();
        let of = |session: &adit_session::Session| {
            let up_seid = session.up_seid();
            let names = (up_seid, session.owner(), session.origin(), session.cp_f_seid());
            let usage = store.running_usage(session);
            (names, session.records(), usage, node.session_information(up_seid).cloned())
        };
        let sessions: Vec<_> = store.sessions().map(of).collect();
        let associations: Vec<_> = node.associations().cloned().collect();
        let applications: Vec<_> = store
            .provided_applications()
            .map(|known| (known.id.to_owned(), known.owner, known.flow_descriptions.to_vec()))
            .collect();
        let pools: Vec<_> = store.ue_pool_usage().collect();
        let rest = (store.reserved(), pools, node.sessions_in_sets());
        (sessions, associations, applications, rest)
    };
    assert_eq!(state(one), state(other));
    assert_eq!(one.workers.rules(), other.workers.rules());
    assert_eq!(one.workers.keys, other.workers.keys);
}

/// Their further life is the same: retransmissions, reports of usage, and resources for new
/// sessions.
fn compare_lives(one: &mut Upf, other: &mut Upf, active: &Active) {
    let lifetime = Nanos(T1.0 * u64::from(N1 + 1));
    let (now, known) = (one.bench.now, one.seids());
    // Another association of the peer counts its sequence numbers anew.
    let owner = |upf: &Upf, from: SocketAddr| {
        upf.bench.node.association(from.ip()).map(|association| association.owner)
    };
    for AskedRequest { at, owner: by, from, octets, .. } in &active.answered {
        let is_kept = now.since(*at) < lifetime && by.is_some() && *by == owner(other, *from);
        if is_kept {
            let answers = [&mut *one, &mut *other].map(|upf| sorted(upf.ask(*from, octets)));
            assert_eq!(answers[0], answers[1]);
        }
    }
    let mut sequence = 50_000;
    let request = setup(sequence, ip(12), SMF_STARTED + 1);
    let [first, second] = [&mut *one, &mut *other].map(|upf| upf.ask(smf(12), &request));
    assert_eq!(sorted(first), sorted(second));
    let names = [&*one, &*other].map(|upf| owner(upf, smf(12)));
    assert!(names[0].is_some() && names[0] == names[1], "{names:?}");
    // Until nothing is left.
    for number in 0..13 {
        sequence += 1;
        let request = choosing(sequence, 1000 + number);
        let answers = [&mut *one, &mut *other].map(|upf| upf.ask(smf(12), &request));
        let causes = answers.map(|sent| cause(&sent.last().unwrap().bytes));
        assert_eq!(causes[0], causes[1], "the same is left");
    }
    let mut distinct: Vec<_> = one.bench.node.store().sessions().collect();
    assert_eq!(distinct.len(), one.workers.rules.len());
    distinct.dedup_by_key(|session| session.index());
    assert_eq!(distinct.len(), one.bench.node.store().len());
    let tunnels = |upf: &Upf| {
        upf.workers.keys.keys().filter(|key| matches!(key, SessionKey::Teid(_))).count()
    };
    assert_eq!((tunnels(one), tunnels(other)), (one.workers.rules.len(), one.workers.rules.len()));
    // The last usage of each session, with its numbers.
    for up_seid in known {
        for host in [10, 11, 12] {
            sequence += 1;
            let bytes = delete(sequence, up_seid);
            let answers = [&mut *one, &mut *other].map(|upf| sorted(upf.ask(smf(host), &bytes)));
            assert_eq!(answers[0], answers[1]);
        }
    }
}

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
        Err(_) => (0..RUNS).collect(),
    }
}

fn run(seed: u64) {
    let _seed = Seed(seed);
    let random = &mut SmallRng::seed_from_u64(seed);
    let mut active = Active::new(scarce_config());
    let mut standby = Standby::begin(&active.upf.bench.records, scarce_config());
    let steps = random.random_range(1..150);
    let (mut batch, mut lag) = (1, 1);
    for _ in 0..steps {
        active.act(random);
        if random.random_range(0..3) > 0 {
            active.upf.publish(random.random_range(0..4));
        }
        if random.random_range(0..2) == 0 {
            active.upf.settle();
        }
        if random.random_range(0..batch) == 0 {
            active.store();
            batch = random.random_range(1..6);
        }
        standby.upf.bench.now = active.upf.bench.now;
        if random.random_range(0..lag) == 0 {
            for change in active.groups.drain(..).flatten() {
                standby.follow(&change);
                if random.random_range(0..4) == 0 {
                    standby.upf.publish(random.random_range(0..3));
                }
            }
            lag = random.random_range(1..10);
            if random.random() {
                standby.upf.bench.node.handle_timeout(standby.upf.bench.now);
            }
            standby.check_silence();
        }
    }
    for change in active.groups.drain(..).flatten() {
        standby.follow(&change);
    }
    let mut other = restored(&standby.records, scarce_config(), standby.upf.bench.now);
    standby.take_over();
    compare_after_take_over(&mut standby, &mut other, &active);
}

fn compare_after_take_over(standby: &mut Standby, other: &mut Upf, active: &Active) {
    let one = &mut standby.upf;
    if one.seids() == other.seids() {
        // Nothing changed by itself but the node's own record.
        let group = one.bench.node.poll_records(one.bench.now).unwrap();
        let own = group.changes.iter().filter(|c| !is_clock_mark(&(c.kind, c.name.clone())));
        let kinds: Vec<_> = own.map(|change| change.kind).collect();
        assert!(
            kinds.iter().all(|kind| *kind == RecordKind::Node || *kind == RecordKind::Report),
            "{kinds:?}"
        );
        one.bench.write(group);
    }
    for upf in [&mut *one, &mut *other] {
        upf.settle();
        upf.bench.store_all();
    }
    compare(one, other);
    let sent = [&mut *one, &mut *other].map(|upf| sorted(upf.bench.sent()));
    assert_eq!(sent[0], sent[1]);
    // Its records lead to the same again.
    let mut again = restored(&one.bench.records, scarce_config(), one.bench.now);
    again.settle();
    assert_eq!(again.seids(), one.seids());
    compare_lives(one, other, active);
}

#[test]
fn standby_is_at_any_moment_what_a_restart_would_make_of_the_records() {
    seeds().into_iter().for_each(run);
}

/// A session gets the address of one and the index of another: it is restored when no worker uses
/// either of them.
#[test]
fn session_waits_until_the_former_holder_of_its_address_is_gone() {
    let mut active = Active::new(pool_config("10.60.0.0/30"));
    let mut standby = Standby::begin(&active.upf.bench.records, pool_config("10.60.0.0/30"));
    let changes: Vec<_> = [1, 2].into_iter().flat_map(|_| active.choose()).collect();
    changes.iter().for_each(|change| standby.follow(change));
    standby.upf.settle();
    let [first, second] = active.upf.seids()[..] else { panic!() };
    let [first_gone, second_gone] = [first, second].map(|up_seid| active.delete(up_seid));
    let put = active.choose();
    let new = active.upf.seids()[0];
    let index = adit_session::seid_index;
    assert_eq!(index(new), index(second), "the index released last");
    second_gone.iter().for_each(|change| standby.follow(change));
    standby.upf.settle();
    first_gone.iter().chain(&put).for_each(|change| standby.follow(change));
    assert_eq!(standby.upf.seids(), []);
    standby.upf.settle();
    assert_eq!(standby.upf.seids(), [new]);
    standby.take_over();
    assert_eq!(standby.upf.bench.node.store().ue_pool_usage().next(), Some((1, 2)));
}

/// After a gap in the changes all records are read again. Those that are gone end.
#[test]
fn records_that_are_read_again_replace_all_of_before() {
    let mut active = Active::new(scarce_config());
    let mut standby = Standby::begin(&active.upf.bench.records, scarce_config());
    for _ in 0..3 {
        active.choose().iter().for_each(|change| standby.follow(change));
    }
    active.set_up(12);
    active.provide_pfds(&mut SmallRng::seed_from_u64(2));
    active.changes().iter().for_each(|change| standby.follow(change));
    assert_eq!(count_of(&active.upf.bench, RecordKind::Pfds), 1);
    let gone = active.upf.seids()[1];
    active.delete(gone);
    let sequence = active.next();
    active.ask(12, sequence, release(sequence, ip(12)));
    for host in 10..13 {
        let withdraw = encode(None, 900, &PfdManagementRequest::new());
        active.ask(host, 900, withdraw);
    }
    active.changes();
    assert_eq!(count_of(&active.upf.bench, RecordKind::Pfds), 0);
    standby.upf.bench.node.begin_reading_again();
    for (kind, name, octets) in records_of(&active.upf.bench) {
        standby.follow(&RecordChange { kind, name, value: Some(octets) });
    }
    standby.upf.bench.node.end_reading_again(standby.upf.bench.now);
    standby.records = active.upf.bench.records.clone();
    standby.take_over();
    let mut other = restored(&standby.records, scarce_config(), standby.upf.bench.now);
    compare(&mut standby.upf, &mut other);
}
