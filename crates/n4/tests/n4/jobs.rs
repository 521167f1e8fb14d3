//! A request of one peer about many sessions delays no other peer.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use adit_n4::{PathConfig, Transmit};
use adit_pfcp::grouped::{
    ApplicationIdsPfds, GtpuPathQosControlInformation, PfdContext, SessionChangeInfo,
    SessionRetentionInformation,
};
use adit_pfcp::ie::{
    self, AlternativeSmfIpAddress, ApplicationId, CpIpAddress, CpPfcpEntityIpAddress, FqCsid,
    FqCsidNode, GtpuPathInterfaceType, Nullable, PfdContents, QosReportTrigger, SmfSetId,
};
use adit_pfcp::message::{
    AssociationSetupRequest, AssociationUpdateRequest, PfdManagementRequest,
    SessionSetDeletionRequest, SessionSetModificationRequest,
};
use adit_pfcp::{Cause, Message};
use adit_rules::{
    DeltaId, DestinationInterface, GtpuTunnel, HeaderCreation, RuleDelta, WorkerEvent,
};
use adit_session::{
    CpFSeid, FTeidSpec, Far, Forwarding, PdiSpec, PdrSpec, PdrTimes, SessionChange,
};
use adit_types::limits::{
    PEER_VISITS_PER_TURN_MAX, REPORTS_PER_TURN_MAX, SESSIONS_PER_TURN_MAX, TIMERS_PER_TURN_MAX,
};
use adit_types::{FarId, Nanos, PdrId, Precedence, Seid, Teid};

use crate::smf::*;

const TEN: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);
const ELEVEN: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 11);
const MANY: u16 = 400;
const CSID: FqCsid<'static> = FqCsid::new(FqCsidNode::Ipv4(TEN), &[0, 5], None).unwrap();
const DNS: &str = "permit out 17 from any 53 to assigned";
const WEB: &str = "permit out 6 from 203.0.113.0/24 443 to assigned";

/// A node whose changes are on their way to the workers until they are observed.
struct Scene {
    bench: Bench,
    unobserved: VecDeque<(DeltaId, RuleDelta)>,
    sequence: u32,
}

impl Scene {
    /// `count` sessions of host 10, an association with host 11, and PFDs of host 12.
    fn new(count: u16) -> Self {
        let mut config = config();
        config.store.sessions_max = 4000;
        let mut bench = Bench::with(config);
        bench.associate(10);
        bench.associate(11);
        bench.associate(12);
        bench.answer(smf(12), &pfds(2, &[DNS]));
        let mut scene = Self { bench, unobserved: VecDeque::new(), sequence: 100 };
        for number in 0..count {
            scene.session(10, number);
        }
        scene
    }

    /// `count` sessions of host 10, which is of one SMF set with host 11.
    fn in_set(count: u16) -> Self {
        let mut scene = Self::new(0);
        for node in [TEN, ELEVEN] {
            let mut body = AssociationUpdateRequest::new(ie::NodeId::Ipv4(node));
            body.smf_set_id = Some(SmfSetId(b"\0\x04set1\x03smf"));
            let [.., host] = node.octets();
            let sequence = scene.next();
            scene.bench.answer(smf(host), &encode(None, sequence, &body));
        }
        for number in 0..count {
            scene.session(10, number);
        }
        scene
    }

    /// How many sessions have their control plane at `address`.
    fn len_at(&self, address: Ipv4Addr) -> usize {
        let sessions = self.bench.node.store().sessions();
        sessions.filter(|session| session.cp_f_seid().v4 == Some(address)).count()
    }

    /// The gNB has no tunnel of the session with this number.
    fn error_indication(&mut self, number: u16) -> Vec<Transmit> {
        let teid = SessionScript::new(1, number).gnb_teid;
        let event = WorkerEvent::ErrorIndication { peer: GNB.into(), teid };
        self.bench.node.handle_event(self.bench.now, event);
        self.bench.sent()
    }

    fn next(&mut self) -> u32 {
        self.sequence += 1;
        self.sequence
    }

    fn session(&mut self, host: u8, number: u16) -> Seid {
        let sequence = self.next();
        let bytes = establish_with(sequence, &SessionScript::new(1, number), |body| {
            body.fq_csids = list([CSID]).into();
            let mut pdrs: Vec<_> = body.create_pdrs.iter().collect();
            pdrs[1].pdi.application_id = Some(ApplicationId(b"web"));
            body.create_pdrs = Vec::leak(pdrs)[..].into();
        });
        self.bench.node.handle_datagram(self.bench.now, smf(host), &bytes);
        let sent = self.finish();
        let Message::SessionEstablishmentResponse(body) = decode(&sent.last().unwrap().bytes)
        else {
            panic!()
        };
        assert_eq!(body.cause, Cause::RequestAccepted);
        body.up_f_seid.unwrap().seid
    }

    /// Hands over a request; its changes are not observed yet.
    fn ask(&mut self, host: u8, bytes: &[u8]) -> Vec<Transmit> {
        let before = self.bench.node.sessions_touched_by_jobs();
        self.bench.node.handle_datagram(self.bench.now, smf(host), bytes);
        self.gather(before)
    }

    /// One turn of the control thread.
    fn turn(&mut self) -> Vec<Transmit> {
        let before = self.bench.node.sessions_touched_by_jobs();
        self.bench.node.handle_timeout(self.bench.now);
        self.gather(before)
    }

    fn gather(&mut self, before: u64) -> Vec<Transmit> {
        let touched = self.bench.node.sessions_touched_by_jobs() - before;
        assert!(touched <= SESSIONS_PER_TURN_MAX as u64, "{touched} sessions in one turn");
        let known = self.unobserved.len();
        self.unobserved.extend(std::iter::from_fn(|| self.bench.node.poll_delta()));
        assert!(self.unobserved.len() - known <= 1 + SESSIONS_PER_TURN_MAX);
        self.bench.sent()
    }

    /// Workers observe published changes.
    fn observe(&mut self) -> Vec<Transmit> {
        while let Some((id, _)) = self.unobserved.pop_front() {
            self.bench.node.handle_published(self.bench.now, id);
        }
        self.bench.sent()
    }

    /// Turns until nothing is left to do; returns the sent messages.
    fn finish(&mut self) -> Vec<Transmit> {
        let mut sent = Vec::new();
        loop {
            sent.extend(self.turn());
            let is_idle = self.unobserved.is_empty();
            sent.extend(self.observe());
            let at_once = self.bench.node.poll_timeout().is_some_and(|at| at <= self.bench.now);
            if is_idle && !at_once {
                return sent;
            }
        }
    }

    fn len(&self) -> usize {
        self.bench.node.store().len()
    }
}

fn is_setup(sent: &Transmit, sequence: u32) -> bool {
    let raw = raw(&sent.bytes);
    let answers = matches!(Message::decode(&raw), Ok(Message::AssociationSetupResponse(_)));
    answers && raw.header.sequence == sequence
}

#[test]
fn association_ends_at_once_for_its_peer_and_its_sessions_in_slices() {
    let mut scene = Scene::new(MANY);
    let old = scene.bench.node.store().sessions().last().unwrap().up_seid();
    assert_eq!(scene.ask(10, &setup(7, TEN, SMF_STARTED + 9)), [], "the old sessions live");
    assert_eq!(scene.len(), usize::from(MANY) - SESSIONS_PER_TURN_MAX);
    assert_eq!(scene.ask(11, &heartbeat(8, SMF_STARTED)).len(), 1, "others are answered");
    let sent = scene.ask(10, &delete(9, old));
    let Message::SessionDeletionResponse(body) = decode(&sent[0].bytes) else { panic!() };
    assert_eq!(body.cause, Cause::SessionContextNotFound, "it is not the new association's");
    // The peer does not wait for the answer, and sets up a session, which the end of the old ones
    // does not concern.
    scene.session_of_impatient_peer();
    let sent = scene.finish();
    assert!(sent.iter().any(|sent| is_setup(sent, 7)));
    assert_eq!(scene.len(), 1);
    // Addresses of the old sessions are free when the answer has left.
    scene.session(10, 0);
}

impl Scene {
    fn session_of_impatient_peer(&mut self) {
        let sequence = self.next();
        let bytes = establish(sequence, &SessionScript::new(1, 3000));
        assert_eq!(self.ask(10, &bytes), [], "the workers have not seen it");
    }
}

#[test]
fn setup_answer_waits_until_the_workers_run_no_old_session() {
    let mut scene = Scene::new(MANY);
    scene.ask(10, &setup(7, TEN, SMF_STARTED + 9));
    while scene.len() > 0 {
        assert_eq!(scene.turn(), []);
    }
    let (last, _) = scene.unobserved.pop_back().unwrap();
    assert_eq!(scene.observe(), []);
    scene.bench.node.handle_published(scene.bench.now, last);
    let sent = scene.bench.sent();
    assert!(is_setup(&sent[0], 7) && sent.len() == 1);
    let again = scene.ask(10, &setup(7, TEN, SMF_STARTED + 9));
    assert_eq!(again[0].bytes, sent[0].bytes, "a retransmission");
}

#[test]
fn setup_again_while_sessions_end_is_answered_and_the_first_is_not() {
    let mut scene = Scene::new(MANY);
    scene.ask(10, &setup(7, TEN, SMF_STARTED + 9));
    assert_eq!(scene.ask(10, &setup(7, TEN, SMF_STARTED + 9)), [], "a retransmission waits");
    assert_eq!(scene.ask(10, &setup(8, TEN, SMF_STARTED + 10)), []);
    let sent = scene.finish();
    assert_eq!(sent.len(), 1);
    assert!(is_setup(&sent[0], 8));
    assert_eq!(scene.len(), 0);
}

#[test]
fn peer_at_another_address_waits_for_the_sessions_of_its_node_id() {
    let mut scene = Scene::new(MANY);
    scene.ask(10, &release(7, TEN));
    assert_eq!(scene.ask(13, &setup(1, TEN, SMF_STARTED + 9)), []);
    let sent = scene.finish();
    assert_eq!(sent.len(), 2);
    assert!(is_setup(&sent[1], 1));
}

#[test]
fn small_association_does_not_wait_for_a_large_one() {
    let mut scene = Scene::new(MANY);
    for number in MANY..MANY + 5 {
        scene.session(11, number);
    }
    assert_eq!(scene.ask(10, &release(7, TEN)), []);
    scene.ask(11, &release(7, ELEVEN));
    scene.turn();
    let sent = scene.observe();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].to, smf(11));
    let sent = scene.finish();
    assert_eq!((sent.len(), sent[0].to), (1, smf(10)));
    assert_eq!(scene.len(), 0);
}

#[test]
fn jobs_wait_for_workers_that_do_not_keep_up() {
    let mut scene = Scene::new(2200);
    scene.ask(10, &release(7, TEN));
    (0..100).for_each(|_| drop(scene.turn()));
    let waiting = scene.unobserved.len();
    assert!(waiting < 2200 && scene.len() == 2200 - waiting, "{waiting}");
    assert!(scene.bench.node.poll_timeout().is_none_or(|at| at > scene.bench.now), "it spins");
    assert_eq!(scene.finish().len(), 1);
    assert_eq!(scene.len(), 0);
}

fn pfds(sequence: u32, texts: &[&'static str]) -> Vec<u8> {
    let contents = texts.iter().map(|text| PfdContents {
        flow_description: Some(text.as_bytes()),
        ..PfdContents::default()
    });
    let contexts = contents.map(|contents| PfdContext::new(list([contents]).into()));
    let mut group = ApplicationIdsPfds::new(ApplicationId(b"web"));
    group.pfd_contexts = Vec::leak(contexts.collect::<Vec<_>>())[..].into();
    let mut body = PfdManagementRequest::new();
    body.application_ids_pfds = list([group]).into();
    encode(None, sequence, &body)
}

#[test]
fn pfds_are_answered_when_all_sessions_run_them_and_others_meanwhile() {
    let mut scene = Scene::new(MANY);
    assert_eq!(scene.ask(12, &pfds(7, &[WEB])), []);
    assert_eq!(scene.unobserved.len(), SESSIONS_PER_TURN_MAX);
    assert_eq!(scene.ask(10, &heartbeat(8, SMF_STARTED)).len(), 1);
    let mut rules = 0;
    while scene.bench.node.poll_timeout().is_some_and(|at| at <= scene.bench.now) {
        assert_eq!(scene.turn(), []);
    }
    let last = scene.unobserved.pop_back().unwrap();
    for (_, delta) in scene.unobserved.iter().chain([&last]) {
        rules +=
            delta.rules.as_ref().unwrap().downlink.iter().map(|pdr| pdr.sdf.len()).sum::<usize>();
    }
    assert_eq!(rules, usize::from(MANY), "each session once");
    assert_eq!(scene.observe(), []);
    scene.unobserved.push_back(last);
    let sent = scene.observe();
    let Message::PfdManagementResponse(body) = decode(&sent[0].bytes) else { panic!() };
    assert_eq!((body.cause, sent.len()), (Cause::RequestAccepted, 1));
}

#[test]
fn set_deletion_spares_sessions_that_enter_the_set_later() {
    let mut scene = Scene::new(MANY);
    let mut body = SessionSetDeletionRequest::new(ie::NodeId::Ipv4(TEN));
    body.fq_csids = list([CSID]).into();
    assert_eq!(scene.ask(10, &encode(None, 7, &body)), []);
    assert!(scene.len() > 0);
    let sequence = scene.next();
    let late = establish_with(sequence, &SessionScript::new(1, 3000), |body| {
        body.fq_csids = list([CSID]).into();
    });
    scene.ask(10, &late);
    assert_eq!(scene.finish().len(), 2);
    assert_eq!(scene.len(), 1);
    assert_eq!(scene.bench.node.sessions_in_sets(), 1);
}

#[test]
fn set_modification_moves_all_before_it_is_answered() {
    let mut scene = Scene::new(MANY);
    let to = AlternativeSmfIpAddress { v4: Some(ELEVEN), ..AlternativeSmfIpAddress::default() };
    let mut info = SessionChangeInfo::new(to);
    let from = CpIpAddress { v4: Some(TEN), ..CpIpAddress::default() };
    info.cp_ip_addresses = list([from]).into();
    let mut body = SessionSetModificationRequest::new(ie::NodeId::Ipv4(TEN), list([info]).into());
    body.session_change_infos = list([info]).into();
    assert_eq!(scene.ask(10, &encode(None, 7, &body)), []);
    let moved = |scene: &Scene| {
        let sessions = scene.bench.node.store().sessions();
        sessions.filter(|session| session.cp_f_seid().v4 == Some(ELEVEN)).count()
    };
    assert_eq!(moved(&scene), SESSIONS_PER_TURN_MAX);
    assert_eq!(scene.finish().len(), 1);
    assert_eq!(moved(&scene), usize::from(MANY));
}

#[test]
fn error_indication_of_a_tunnel_that_many_sessions_use_reaches_all() {
    let mut scene = Scene::new(0);
    for number in 0..MANY {
        let mut script = SessionScript::new(1, number);
        script.gnb_teid = Teid(0x77);
        let sequence = scene.next();
        scene.bench.node.handle_datagram(scene.bench.now, smf(10), &establish(sequence, &script));
        scene.finish();
    }
    let event = WorkerEvent::ErrorIndication { peer: GNB.into(), teid: Teid(0x77) };
    scene.bench.node.handle_event(scene.bench.now, event);
    scene.bench.node.handle_event(scene.bench.now, event);
    assert_eq!(scene.bench.sent(), [], "each turn has its share");
    assert_eq!(scene.finish().len(), usize::from(MANY));
}

/// Spec: TS 29.244 §5.22.3.
#[test]
fn sessions_go_to_another_smf_of_the_set_in_slices_and_nobody_sees_the_difference() {
    let mut scene = Scene::in_set(MANY);
    let [.., third, second, last] = seids(&scene)[..] else { panic!() };
    let report = scene.error_indication(MANY - 3);
    assert_eq!((report.len(), report[0].to), (1, smf(10)), "it is on its way");
    scene.ask(10, &setup(7, TEN, SMF_STARTED + 9));
    assert_eq!(scene.len_at(ELEVEN), SESSIONS_PER_TURN_MAX);
    // A request about a session that has not moved moves it first.
    let sequence = scene.next();
    let sent = scene.ask(10, &delete(sequence, last));
    let Message::SessionDeletionResponse(body) = decode(&sent[0].bytes) else { panic!() };
    assert_eq!(body.cause, Cause::SessionContextNotFound, "it is not the new association's");
    scene.ask(11, &move_to(8, last, Teid(9)));
    let sent = scene.observe();
    let Message::SessionModificationResponse(body) = decode(&sent[0].bytes) else { panic!() };
    assert_eq!(body.cause, Cause::RequestAccepted);
    let report = scene.error_indication(MANY - 2);
    assert_eq!((report.len(), report[0].to), (1, smf(11)));
    let Message::SessionReportRequest(body) = decode(&report[0].bytes) else { panic!() };
    assert_eq!(body.old_cp_f_seid.map(|cp| cp.v4), Some(Some(TEN)));
    assert_eq!(scene.len_at(ELEVEN), SESSIONS_PER_TURN_MAX + 2);
    // The report that was on its way to the failed one is sent again.
    let sent = scene.finish();
    assert_eq!((sent.len(), sent[0].to), (1, smf(11)));
    assert_eq!(scene.len_at(ELEVEN), usize::from(MANY));
    let owner = scene.bench.node.association(ELEVEN.into()).unwrap().owner;
    assert_eq!(scene.bench.node.store().owned_count(owner), usize::from(MANY));
    for (sequence, seid) in [(90, third), (91, second), (92, last)] {
        scene.ask(11, &delete(sequence, seid));
    }
    assert_eq!(scene.observe().len(), 3);
}

/// Spec: TS 29.244 §5.22.3.
#[test]
fn sessions_on_their_way_to_an_smf_that_ends_too_end_with_it() {
    let mut scene = Scene::in_set(MANY);
    scene.ask(10, &setup(7, TEN, SMF_STARTED + 9));
    let last = *seids(&scene).last().unwrap();
    scene.ask(11, &release(7, ELEVEN));
    let sent = scene.ask(10, &delete(8, last));
    let Message::SessionDeletionResponse(body) = decode(&sent[0].bytes) else { panic!() };
    assert_eq!(body.cause, Cause::SessionContextNotFound);
    scene.finish();
    assert_eq!(scene.len(), 0);
}

/// Spec: TS 29.244 §5.22.2.
#[test]
fn sessions_go_to_an_alternative_address_in_slices_and_later_ones_stay_where_they_are() {
    const TWENTY: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 20);
    let mut scene = Scene::in_set(MANY);
    let alternative = AlternativeSmfIpAddress { v4: Some(TWENTY), v6: None, preferred: true };
    let mut body = AssociationUpdateRequest::new(ie::NodeId::Ipv4(TEN));
    body.alternative_smf_ip_addresses = list([alternative]).into();
    scene.bench.answer(smf(10), &encode(None, 7, &body));
    while scene.bench.node.association(TWENTY.into()).is_none() {
        scene.bench.now = scene.bench.node.poll_timeout().unwrap();
        scene.turn();
    }
    // PFDs of an association that was lost also take their part of the iteration.
    assert!((1..=SESSIONS_PER_TURN_MAX).contains(&scene.len_at(TWENTY)));
    // Its control plane is at the previous address all the same, because it says so now.
    let newcomer = establish(8, &SessionScript::new(1, 3000));
    scene.ask(20, &newcomer);
    let report = scene.error_indication(MANY - 1);
    assert_eq!(report[0].to, smf(20));
    while scene.bench.node.open_jobs_len() > 0 {
        scene.turn();
        scene.observe();
    }
    assert_eq!((scene.len_at(TWENTY), scene.len_at(TEN)), (usize::from(MANY), 1));
    assert_eq!(scene.error_indication(3000)[0].to, smf(10));
}

/// Spec: TS 29.244 §6.2.6.2.2.
#[test]
fn session_that_comes_while_unlisted_ones_end_is_not_judged_by_the_list() {
    let mut scene = Scene::new(MANY);
    let mut body =
        AssociationSetupRequest::new(ie::NodeId::Ipv4(TEN), ie::RecoveryTimeStamp(SMF_STARTED + 1));
    let mut wish = SessionRetentionInformation::new();
    let elsewhere = CpPfcpEntityIpAddress { v4: Some(ELEVEN), v6: None };
    wish.cp_pfcp_entity_ip_addresses = list([elsewhere]).into();
    body.session_retention_information = Some(wish);
    assert_eq!(scene.ask(10, &encode(None, 7, &body)), [], "the others live");
    let unlisted = *seids(&scene).last().unwrap();
    scene.session_of_impatient_peer();
    let sent = scene.ask(10, &delete(8, unlisted));
    let Message::SessionDeletionResponse(body) = decode(&sent[0].bytes) else { panic!() };
    assert_eq!(body.cause, Cause::SessionContextNotFound, "it is not to be retained");
    scene.finish();
    assert_eq!(scene.len(), 1);
}

/// Spec: TS 29.244 §6.4.
#[test]
fn reports_of_an_association_that_ended_are_not_sent_again_while_its_sessions_end() {
    let mut scene = Scene::new(MANY);
    for number in 0..MANY {
        assert_eq!(scene.error_indication(number).len(), 1);
    }
    scene.ask(10, &release(7, TEN));
    scene.bench.now += T1;
    assert_eq!(scene.turn().iter().filter(|sent| sent.to == smf(10)).count(), 0);
    assert!(scene.len() > 0);
    assert_eq!(scene.finish().len(), 1, "the answer to the release");
}

#[test]
fn turn_sends_its_share_of_reports() {
    let mut scene = Scene::new(0);
    let count = u16::try_from(REPORTS_PER_TURN_MAX + 50).unwrap();
    for number in 0..count {
        scene.session(11, number);
    }
    scene.turn();
    let sent: usize = (0..count).map(|number| scene.error_indication(number).len()).sum();
    assert_eq!(sent, REPORTS_PER_TURN_MAX);
    assert_eq!(scene.bench.node.poll_timeout(), Some(Nanos(0)), "there is more to send");
    assert_eq!(scene.turn().len(), 50);
}

/// The sessions, by index.
fn seids(scene: &Scene) -> Vec<Seid> {
    scene.bench.node.store().sessions().map(|session| session.up_seid()).collect()
}

/// A session with one PDR, whose TEID is chosen, and a FAR that drops.
fn smallest_session() -> SessionChange {
    let pdi = PdiSpec {
        source: adit_rules::SourceInterface::Access,
        interface_type: None,
        traffic_endpoints: Vec::new(),
        f_teid: Some(FTeidSpec::Choose { v4: true, v6: false, choose_id: None }),
        network_instance: None,
        ue: None,
        further_ues: Vec::new(),
        framed_routes: Vec::new(),
        choose_ue: None,
        qfis: Vec::new(),
        sdf: Vec::new(),
        application: None,
    };
    let pdr = PdrSpec {
        id: PdrId(1),
        precedence: Precedence(1),
        pdi,
        outer_header_removal: None,
        container_deletion: false,
        far: Some(FarId(1)),
        qers: Vec::new(),
        urrs: Vec::new(),
        times: PdrTimes::default(),
        predefined: Vec::new(),
    };
    let (action, forwarding) = (adit_rules::ApplyAction::DROP, None);
    let far = Far { id: FarId(1), action, forwarding, bar: None, duplicating: Vec::new() };
    SessionChange { create_pdrs: vec![pdr], create_fars: vec![far], ..SessionChange::default() }
}

#[test]
fn no_turn_looks_at_more_than_its_share_whatever_the_number_of_sessions() {
    /// Turns that are looked at; further ones differ in nothing.
    const TURNS: usize = 50;
    let sessions = if std::env::var_os("CI").is_some() { 1_000_000 } else { 50_000 };
    let mut config = config();
    config.store.sessions_max = sessions;
    let mut bench = Bench::with(config);
    bench.associate(10);
    bench.associate(11);
    let owner = bench.node.association(TEN.into()).unwrap().owner;
    let change = smallest_session();
    for _ in 0..sessions {
        bench.node.store_mut().establish(owner, CpFSeid::default(), change.clone()).unwrap();
    }
    let mut scene = Scene { bench, unobserved: VecDeque::new(), sequence: 0 };
    assert_eq!(scene.len(), sessions);
    for (host, request) in [(11, pfds(1, &[WEB])), (10, setup(2, TEN, SMF_STARTED + 9))] {
        assert_eq!(scene.ask(host, &request), []);
        for _ in 0..TURNS {
            let answers = scene.ask(11, &heartbeat(3, SMF_STARTED));
            assert_eq!(answers.len(), 1, "each heartbeat in its turn");
            let before = scene.bench.node.sessions_touched_by_jobs();
            assert_eq!(scene.turn(), []);
            assert_eq!(scene.observe(), []);
            let touched = scene.bench.node.sessions_touched_by_jobs() - before;
            assert_eq!(touched, SESSIONS_PER_TURN_MAX as u64);
        }
    }
}

/// A session whose FAR sends into a tunnel of its own, to a GTP-U peer of its own.
fn session_towards(peer: Ipv4Addr) -> SessionChange {
    let mut change = smallest_session();
    let tunnel = GtpuTunnel { teid: Teid(1), addr: peer.into() };
    let outer_header_creation = Some(HeaderCreation::Gtpu(tunnel));
    let towards_access = Forwarding::new(DestinationInterface::Access);
    let forwarding = Forwarding { outer_header_creation, ..towards_access };
    change.create_fars[0].action = adit_rules::ApplyAction::FORW;
    change.create_fars[0].forwarding = Some(forwarding);
    change
}

#[test]
fn peers_that_appear_together_are_taken_in_over_several_turns() {
    const PEERS: usize = 3 * PEER_VISITS_PER_TURN_MAX;
    let mut config = config();
    config.store.sessions_max = PEERS;
    config.paths = PathConfig { echo_interval: Nanos::from_secs(60), ..PathConfig::OFF };
    let mut bench = Bench::with(config);
    bench.associate(10);
    let owner = bench.node.association(TEN.into()).unwrap().owner;
    for number in 0..u32::try_from(PEERS).unwrap() {
        let change = session_towards(Ipv4Addr::from_bits(0xcb00_0000 + number));
        bench.node.store_mut().establish(owner, CpFSeid::default(), change).unwrap();
    }
    for turn in 1..=3 {
        bench.node.handle_timeout(bench.now);
        assert_eq!(bench.node.paths().count(), turn * PEER_VISITS_PER_TURN_MAX);
        assert_eq!(bench.node.poll_timeout() == Some(Nanos(0)), turn < 3, "is there more to do?");
    }
    assert!(bench.node.poll_timeout().is_none_or(|at| at > bench.now));

    // A CP function requests their delays: the measurements also begin little by little.
    let mut control = GtpuPathQosControlInformation::new(QosReportTrigger::IRE);
    control.interface_type = Some(GtpuPathInterfaceType::N3);
    let mut body = AssociationUpdateRequest::new(ie::NodeId::Ipv4(TEN));
    body.gtpu_path_qos_controls = list([Nullable::Value(control)]).into();
    bench.node.handle_datagram(bench.now, smf(10), &encode(None, 9, &body));
    let mut measured = 0;
    while bench.node.poll_timeout().is_some_and(|at| at <= bench.now) {
        bench.node.handle_timeout(bench.now);
        let asked = std::iter::from_fn(|| bench.node.poll_command()).count();
        assert!(asked <= TIMERS_PER_TURN_MAX, "{asked} in one turn");
        measured += asked;
    }
    assert!(measured >= PEERS / 64, "one phase of 64: {measured}");
    // All of them are due together after a standstill.
    bench.now += Nanos::from_secs(59);
    bench.node.handle_timeout(bench.now);
    let asked = std::iter::from_fn(|| bench.node.poll_command()).count();
    assert!(asked <= TIMERS_PER_TURN_MAX, "{asked} in one turn");
}
