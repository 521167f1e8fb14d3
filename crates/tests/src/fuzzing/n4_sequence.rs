//! Sequences of datagrams against the PFCP node of a UP function, with two CP functions.
//!
//! The input chooses among valid messages of either peer, damages some, acknowledges publications
//! now or later, and lets time pass. State stays within its bounds all the time. After both peers
//! fall silent, nothing is left of them.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::collections::VecDeque;
use std::sync::OnceLock;

use adit_n4::{Node, NodeConfig, NodeIdentity, PeerPolicy};
use adit_pfcp::grouped::{
    ApplicationIdsPfds, CreateFar, CreatePdr, CreateQer, ForwardingParameters, Pdi, PfdContext,
    RemoveFar, RemovePdr, SessionChangeInfo, UpdateFar, UpdateForwardingParameters, UpdatePdr,
};
use adit_pfcp::ie::{
    self, ActivatePredefinedRules, AlternativeSmfIpAddress, ApplicationId, ApplyAction,
    CpFunctionFeatures, DeactivatePredefinedRules, DestinationInterface, FSeid, FTeid, GateStatus,
    Nullable, OuterHeaderCreation, OuterHeaderRemovalDescription, PfcpSrRspFlags, PfdContents,
    RecoveryTimeStamp, SourceInterface, UeIpAddress,
};
use adit_pfcp::message::{
    AssociationReleaseRequest, AssociationSetupRequest, AssociationUpdateRequest, HeartbeatRequest,
    HeartbeatResponse, NodeReportResponse, PfdManagementRequest, SessionDeletionRequest,
    SessionEstablishmentRequest, SessionModificationRequest, SessionReportResponse,
    SessionSetDeletionRequest, SessionSetModificationRequest,
};
use adit_pfcp::{Cause, Message, MessageBody, MessageType, PfcpDatagram, Repeated, encode};
use adit_rules::{DataDelivery, DeltaId, PacketFilter, WorkerEvent};
use adit_session::{
    Application, LocalAddresses, LocalInterface, OwnerNodes, PredefinedAction, PredefinedDetection,
    PredefinedRule, Provisioning, StoreConfig,
};
use adit_types::limits::{PENDING_PER_PEER_MAX, RESPONSE_CACHE_PER_PEER_MAX};
use adit_types::{FarId, InterfaceRole, Nanos, PdrId, Precedence, QerId, Qfi, Seid, Teid};

use super::input::FuzzInput;

const SESSIONS_MAX: usize = 6;
const STEPS_MAX: usize = 256;
pub(super) const PEERS: [SocketAddr; 2] = [
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10)), 8805),
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 11)), 8805),
];
const GNB: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);

pub(super) fn config() -> NodeConfig {
    NodeConfig {
        node_id: NodeIdentity::Fqdn("upf.example".to_owned()),
        address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        connect: vec![PEERS[1]],
        heartbeat_interval: Nanos::from_secs(10),
        sessions_outlive_peer: Nanos::from_secs(30),
        t1: Nanos::from_secs(3),
        n1: 3,
        recovery_time_stamp: 3_900_000_000,
        seed: 1,
        paths: adit_n4::PathConfig::OFF,
        policy: PeerPolicy::default(),
        store: StoreConfig {
            sessions_max: SESSIONS_MAX,
            provisioning: provisioning(),
            seed: 7,
            owner_nodes: OwnerNodes::default(),
        },
        records: None,
    }
}

/// A predefined rule of a group, with an application that PFDs can replace.
fn provisioning() -> Provisioning {
    let rule = PredefinedRule {
        name: "rule".into(),
        group: Some("group".into()),
        precedence: None,
        detection: PredefinedDetection::Application("known".into()),
        action: PredefinedAction::Drop,
        qfi: None,
    };
    let n3 = LocalAddresses { v4: Some(Ipv4Addr::new(198, 51, 100, 1)), v6: None };
    Provisioning {
        interfaces: vec![
            LocalInterface::of_role(InterfaceRole::N3, n3),
            LocalInterface::of_role(InterfaceRole::N6, LocalAddresses::default()),
        ],
        applications: vec![Application {
            id: "known".into(),
            filters: vec![PacketFilter::ANY].into(),
        }],
        predefined_rules: vec![rule],
        ..Provisioning::default()
    }
}

pub(super) fn octets<'a, M: MessageBody<'a>>(body: &M) -> Vec<u8> {
    let mut buf = vec![0; 4096];
    let seid = M::TYPE.is_session_related().then_some(Seid(0));
    let len = encode(&mut buf, seid, 0, body).expect("room");
    buf.truncate(len);
    buf
}

pub(super) fn node_id(peer: usize) -> ie::NodeId<'static> {
    let IpAddr::V4(addr) = PEERS[peer].ip() else { unreachable!("an IPv4 peer") };
    ie::NodeId::Ipv4(addr)
}

/// A session of two PDRs with a TEID that the node chooses; its number makes its UE unique. Odd
/// ones have an SDF filter, and every other even one an application that PFDs describe.
pub(super) fn establishment(peer: usize, number: u8) -> Vec<u8> {
    let ue = UeIpAddress { v4: Some(Ipv4Addr::new(10, 45, 0, number)), ..<_>::default() };
    let (ue_up, ue_down) = ([ue], [UeIpAddress { destination: true, ..ue }]);
    let text = b"permit out 17 from 203.0.113.0/24 53 to assigned";
    let filters = [ie::SdfFilter { flow_description: Some(text), ..<_>::default() }];
    let rules = [ActivatePredefinedRules(b"group")];
    let qers = [QerId(1)];
    let mut up = CreatePdr::new(PdrId(1), Precedence(100), Pdi::new(SourceInterface::Access));
    up.pdi.local_f_teid = Some(FTeid::Choose { v4: true, v6: false, choose_id: Some(1) });
    up.pdi.ue_ip_addresses = Repeated::from(&ue_up);
    up.outer_header_removal = Some(OuterHeaderRemovalDescription::GtpuUdpIpv4.into());
    up.far_id = Some(FarId(1));
    up.qer_ids = Repeated::from(&qers);
    let mut down = CreatePdr::new(PdrId(2), Precedence(100), Pdi::new(SourceInterface::Core));
    down.pdi.ue_ip_addresses = Repeated::from(&ue_down);
    match number % 4 {
        1 | 3 => down.pdi.sdf_filters = Repeated::from(&filters),
        2 => down.pdi.application_id = Some(ApplicationId(b"app")),
        _ => down.activate_predefined_rules = Repeated::from(&rules),
    }
    down.far_id = Some(FarId(2));
    let mut far_up = CreateFar::new(FarId(1), ApplyAction::FORW);
    far_up.forwarding_parameters = Some(ForwardingParameters::new(DestinationInterface::Core));
    let mut far_down = CreateFar::new(FarId(2), ApplyAction::FORW);
    far_down.forwarding_parameters = Some(ForwardingParameters {
        outer_header_creation: Some(OuterHeaderCreation::gtpu_ipv4(Teid(number.into()), GNB)),
        ..ForwardingParameters::new(DestinationInterface::Access)
    });
    let create_qers =
        [CreateQer { qfi: Qfi::new(9), ..CreateQer::new(QerId(1), GateStatus::OPEN) }];
    let (pdrs, fars) = ([up, down], [far_up, far_down]);
    octets(&SessionEstablishmentRequest {
        create_qers: Repeated::from(&create_qers),
        ..SessionEstablishmentRequest::new(
            node_id(peer),
            FSeid::new(Seid(number.into()), PEERS[peer].ip()),
            Repeated::from(&pdrs),
            Repeated::from(&fars),
        )
    })
}

fn modifications() -> Vec<Vec<u8>> {
    let moved = [UpdateFar {
        update_forwarding_parameters: Some(UpdateForwardingParameters {
            outer_header_creation: Some(Nullable::Value(OuterHeaderCreation::gtpu_ipv4(
                Teid(77),
                GNB,
            ))),
            ..UpdateForwardingParameters::new()
        }),
        ..UpdateFar::new(FarId(2))
    }];
    let (on, off) = ([ActivatePredefinedRules(b"rule")], [DeactivatePredefinedRules(b"rule")]);
    let activated =
        [UpdatePdr { activate_predefined_rules: Repeated::from(&on), ..UpdatePdr::new(PdrId(2)) }];
    let deactivated = [UpdatePdr {
        deactivate_predefined_rules: Repeated::from(&off),
        ..UpdatePdr::new(PdrId(2))
    }];
    let precedence = [UpdatePdr { precedence: Some(Precedence(7)), ..UpdatePdr::new(PdrId(2)) }];
    let (gone_pdr, gone_far) = ([RemovePdr::new(PdrId(2))], [RemoveFar::new(FarId(2))]);
    let mut extra = CreatePdr::new(PdrId(3), Precedence(9), Pdi::new(SourceInterface::Access));
    extra.pdi.local_f_teid = Some(FTeid::Choose { v4: true, v6: false, choose_id: None });
    extra.outer_header_removal = Some(OuterHeaderRemovalDescription::GtpuUdpIpv4.into());
    extra.far_id = Some(FarId(1));
    let extra = [extra];
    let empty = SessionModificationRequest::new();
    vec![
        octets(&SessionModificationRequest { update_fars: Repeated::from(&moved), ..empty }),
        octets(&SessionModificationRequest { update_pdrs: Repeated::from(&precedence), ..empty }),
        octets(&SessionModificationRequest { update_pdrs: Repeated::from(&activated), ..empty }),
        octets(&SessionModificationRequest { update_pdrs: Repeated::from(&deactivated), ..empty }),
        octets(&SessionModificationRequest {
            remove_pdrs: Repeated::from(&gone_pdr),
            remove_fars: Repeated::from(&gone_far),
            ..empty
        }),
        octets(&SessionModificationRequest { create_pdrs: Repeated::from(&extra), ..empty }),
        octets(&SessionModificationRequest {
            cp_f_seid: Some(FSeid::new(Seid(99), PEERS[1].ip())),
            ..empty
        }),
        octets(&empty),
    ]
}

/// Messages of one peer about anything but its own sessions.
pub(super) fn node_messages(peer: usize) -> Vec<Vec<u8>> {
    let id = node_id(peer);
    let started = RecoveryTimeStamp(3_800_000_000);
    let contents = [PfdContents {
        flow_description: Some(b"permit out ip from any to assigned"),
        ..<_>::default()
    }];
    let contexts = [PfdContext::new(Repeated::from(&contents))];
    let withdrawn = ApplicationIdsPfds::new(ApplicationId(b"app"));
    let applications =
        [ApplicationIdsPfds { pfd_contexts: Repeated::from(&contexts), ..withdrawn }];
    let known = [ApplicationIdsPfds {
        pfd_contexts: Repeated::from(&contexts),
        ..ApplicationIdsPfds::new(ApplicationId(b"known"))
    }];
    let change = [SessionChangeInfo::new(AlternativeSmfIpAddress {
        v4: Some(Ipv4Addr::new(192, 0, 2, 11)),
        ..<_>::default()
    })];
    vec![
        octets(&AssociationSetupRequest::new(id, started)),
        octets(&AssociationSetupRequest {
            cp_function_features: Some(CpFunctionFeatures::all()),
            ..AssociationSetupRequest::new(id, RecoveryTimeStamp(started.0 + 1))
        }),
        octets(&AssociationUpdateRequest {
            cp_function_features: Some(CpFunctionFeatures::LOAD),
            ..AssociationUpdateRequest::new(id)
        }),
        octets(&AssociationReleaseRequest::new(id)),
        octets(&HeartbeatRequest::new(started)),
        octets(&PfdManagementRequest {
            application_ids_pfds: Repeated::from(&applications),
            ..PfdManagementRequest::new()
        }),
        octets(&PfdManagementRequest {
            application_ids_pfds: Repeated::from(&known),
            ..PfdManagementRequest::new()
        }),
        octets(&PfdManagementRequest {
            application_ids_pfds: Repeated::from(&[withdrawn]),
            ..PfdManagementRequest::new()
        }),
        octets(&PfdManagementRequest::new()),
        octets(&SessionSetDeletionRequest::new(id)),
        octets(&SessionSetModificationRequest::new(id, Repeated::from(&change))),
    ]
}

/// Responses to requests that the node can have sent.
fn responses(peer: usize) -> Vec<Vec<u8>> {
    vec![
        octets(&HeartbeatResponse::new(RecoveryTimeStamp(3_800_000_000))),
        octets(&HeartbeatResponse::new(RecoveryTimeStamp(3_800_000_009))),
        octets(&SessionReportResponse::new(Cause::RequestAccepted)),
        octets(&SessionReportResponse {
            pfcp_sr_rsp_flags: Some(PfcpSrRspFlags::DROBU),
            ..SessionReportResponse::new(Cause::SessionContextNotFound)
        }),
        octets(&NodeReportResponse::new(node_id(peer), Cause::RequestAccepted)),
        octets(&adit_pfcp::message::AssociationSetupResponse::new(
            node_id(peer),
            Cause::RequestAccepted,
            RecoveryTimeStamp(3_800_000_000),
        )),
    ]
}

#[derive(Debug)]
struct MessageTemplates {
    establishments: [Vec<Vec<u8>>; 2],
    modifications: Vec<Vec<u8>>,
    deletion: Vec<u8>,
    node: [Vec<Vec<u8>>; 2],
    responses: [Vec<Vec<u8>>; 2],
}

fn templates() -> &'static MessageTemplates {
    static TEMPLATES: OnceLock<MessageTemplates> = OnceLock::new();
    TEMPLATES.get_or_init(|| MessageTemplates {
        establishments: [0, 1].map(|peer| (1..=8).map(|n| establishment(peer, n)).collect()),
        modifications: modifications(),
        deletion: octets(&SessionDeletionRequest::new()),
        node: [0, 1].map(node_messages),
        responses: [0, 1].map(responses),
    })
}

/// One run of the node.
struct SequenceRun<'a> {
    input: FuzzInput<'a>,
    node: Node,
    now: Nanos,
    sequence: u32,
    unpublished: VecDeque<DeltaId>,
    seids: Vec<Seid>,
    /// Sequence numbers of the node's own requests.
    asked: Vec<u32>,
    last: (usize, Vec<u8>),
}

/// Runs the sequence that `data` describes.
pub(super) fn run(data: &[u8]) {
    let empty = Node::new(config()).store().reserved();
    let mut run = SequenceRun {
        input: FuzzInput::new(data),
        node: Node::new(config()),
        now: Nanos::from_secs(1),
        sequence: 0,
        unpublished: VecDeque::new(),
        seids: Vec::new(),
        asked: Vec::new(),
        last: (0, Vec::new()),
    };
    for _ in 0..STEPS_MAX {
        if run.input.is_empty() {
            break;
        }
        run.step();
        run.drain();
        run.check();
    }
    run.fall_silent();
    assert!(run.node.store().is_empty(), "sessions outlive their CP functions");
    assert_eq!(run.node.store().provided_applications().count(), 0, "PFDs outlive them");
    assert_eq!(run.node.pending_len(), 0);
    assert_eq!(run.node.store().reserved(), empty, "identifiers leak");
}

impl SequenceRun<'_> {
    fn step(&mut self) {
        let choice = self.input.u8();
        let peer = usize::from(choice >> 7);
        let templates = templates();
        match choice & 0x0f {
            0..=2 => {
                let of_peer = &templates.establishments[peer];
                let bytes = of_peer[self.input.below(of_peer.len())].clone();
                self.request(peer, bytes, None);
            }
            3..=5 => {
                let known = &templates.modifications;
                let bytes = known[self.input.below(known.len())].clone();
                let seid = self.seid();
                self.request(peer, bytes, Some(seid));
            }
            6 => {
                let seid = self.seid();
                self.request(peer, templates.deletion.clone(), Some(seid));
            }
            7 | 8 => {
                let known = &templates.node[peer];
                let bytes = known[self.input.below(known.len())].clone();
                self.request(peer, bytes, None);
            }
            9 => {
                let known = &templates.responses[peer];
                let mut bytes = known[self.input.below(known.len())].clone();
                let asked = match self.asked.len() {
                    0 => 0,
                    len => self.asked[self.input.below(len)],
                };
                patch(&mut bytes, asked, Some(Seid(self.input.u8().into())));
                self.damage(&mut bytes);
                self.send(peer, bytes);
            }
            10 => {
                let bytes = self.input.bytes().to_vec();
                self.send(peer, bytes);
            }
            11 => {
                let (peer, bytes) = self.last.clone();
                self.send(peer, bytes);
            }
            12 | 13 => self.publish(usize::from(choice >> 4)),
            14 => {
                let time = Nanos::from_millis(self.input.u16().into());
                self.advance_time(time);
            }
            _ if peer == 0 => self.bundle(peer),
            _ => self.event(),
        }
    }

    /// A SEID of the node, or a wrong one.
    fn seid(&mut self) -> Seid {
        match self.input.below(self.seids.len() + 1) {
            0 => Seid(self.input.u8().into()),
            n => self.seids[n - 1],
        }
    }

    fn request(&mut self, peer: usize, mut bytes: Vec<u8>, seid: Option<Seid>) {
        self.sequence += 1;
        patch(&mut bytes, self.sequence, seid);
        self.damage(&mut bytes);
        self.send(peer, bytes);
    }

    /// Changes up to three octets.
    fn damage(&mut self, bytes: &mut [u8]) {
        let count = self.input.u8();
        if count < 0x80 {
            return;
        }
        for _ in 0..1 + count % 3 {
            let at = self.input.below(bytes.len().max(1));
            let value = self.input.u8();
            if let Some(octet) = bytes.get_mut(at) {
                *octet = value;
            }
        }
    }

    /// Two messages in one datagram.
    fn bundle(&mut self, peer: usize) {
        let known = &templates().node[peer];
        let mut bytes = known[self.input.below(known.len())].clone();
        let seid = self.seid();
        self.sequence += 1;
        patch(&mut bytes, self.sequence, None);
        // Follow On. Spec: TS 29.244 §7.2.2.1.
        bytes[0] |= 4;
        let mut second = templates().deletion.clone();
        self.sequence += 1;
        patch(&mut second, self.sequence, Some(seid));
        bytes.append(&mut second);
        self.damage(&mut bytes);
        self.send(peer, bytes);
    }

    /// An event of a worker.
    fn event(&mut self) {
        let session = self.seid();
        let choice = self.input.u8();
        let event = match choice & 3 {
            0 => {
                WorkerEvent::ErrorIndication { peer: GNB.into(), teid: Teid((choice >> 2).into()) }
            }
            _ => WorkerEvent::DownlinkData {
                session,
                pdr: PdrId((choice >> 6).into()),
                dscp: Some(choice >> 2),
                qfi: Qfi::new(9),
                delivery: (choice & 1 == 0).then_some(DataDelivery::Discarded),
            },
        };
        self.node.handle_event(self.now, event);
    }

    fn send(&mut self, peer: usize, bytes: Vec<u8>) {
        self.node.handle_datagram(self.now, PEERS[peer], &bytes);
        self.last = (peer, bytes);
    }

    fn publish(&mut self, count: usize) {
        for _ in 0..=count {
            let Some(id) = self.unpublished.pop_front() else { return };
            self.node.handle_published(self.now, id);
        }
    }

    fn advance_time(&mut self, time: Nanos) {
        let until = self.now + time;
        for _ in 0..1000 {
            let Some(at) = self.node.poll_timeout().filter(|at| *at <= until) else { break };
            self.now = self.now.max(at);
            self.node.handle_timeout(self.now);
            self.drain();
        }
        self.now = until;
    }

    /// Collects the output of the node, and the identifiers in it.
    fn drain(&mut self) {
        while let Some((id, _)) = self.node.poll_delta() {
            self.unpublished.push_back(id);
        }
        while self.node.poll_event().is_some() {}
        while let Some(sent) = self.node.poll_transmit() {
            self.record_response(&sent.bytes);
        }
    }

    fn record_response(&mut self, bytes: &[u8]) {
        let mut datagram = PfcpDatagram::new(bytes);
        let raw = datagram.next().expect("a message").expect("our header is right");
        assert!(datagram.next().is_none(), "one message in a datagram of ours");
        let message = Message::decode(&raw).expect("our messages decode");
        if raw.header.message_type.is_request() {
            self.asked.push(raw.header.sequence);
        }
        if let Message::SessionEstablishmentResponse(response) = message {
            assert_eq!(response.cause.is_accepted(), response.up_f_seid.is_some());
            self.seids.extend(response.up_f_seid.map(|seid| seid.seid));
        }
        assert_ne!(message.message_type(), MessageType(0));
    }

    fn check(&self) {
        let store = self.node.store();
        assert!(store.len() <= SESSIONS_MAX);
        assert_eq!(store.len(), store.sessions().count());
        assert!(self.node.pending_len() <= PEERS.len() * PENDING_PER_PEER_MAX + SESSIONS_MAX);
        assert!(self.node.response_cache_len() <= PEERS.len() * RESPONSE_CACHE_PER_PEER_MAX);
        let jobs = self.node.open_jobs_len();
        assert_eq!(self.node.pending_len(), self.unpublished.len() + jobs);
        assert_eq!(self.node.counters().scalars.faults, 0, "a panic was contained");
    }

    /// Lets both peers be silent and all publications be observed.
    fn fall_silent(&mut self) {
        for _ in 0..8 {
            self.publish(self.unpublished.len());
            self.advance_time(Nanos::from_secs(30));
        }
        self.publish(self.unpublished.len());
    }
}

/// Sets the sequence number and, in a message that has one, the SEID.
fn patch(bytes: &mut [u8], sequence: u32, seid: Option<Seid>) {
    let has_seid = bytes[0] & 1 == 1;
    if let (true, Some(seid)) = (has_seid, seid) {
        bytes[4..12].copy_from_slice(&seid.0.to_be_bytes());
    }
    let at = if has_seid { 12 } else { 4 };
    bytes[at..at + 3].copy_from_slice(&sequence.to_be_bytes()[1..]);
}
