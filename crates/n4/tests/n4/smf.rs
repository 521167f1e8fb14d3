//! The words of a scripted CP function: messages built with the codec, and a node to send them to.
#![allow(dead_code, reason = "test programs of other rooms use a part")]

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use adit_n4::{Node, NodeConfig, NodeIdentity, Transmit};
use adit_pfcp::grouped::{
    CreateFar, CreatePdr, CreateQer, ForwardingParameters, Pdi, UpdateFar,
    UpdateForwardingParameters,
};
use adit_pfcp::ie::{
    self, ApplyAction, DestinationInterface, FSeid, FTeid, GateStatus, Nullable,
    OuterHeaderCreation, OuterHeaderRemovalDescription, RecoveryTimeStamp, SourceInterface,
    UeIpAddress,
};
use adit_pfcp::message::{
    AssociationReleaseRequest, AssociationSetupRequest, HeartbeatRequest, HeartbeatResponse,
    SessionDeletionRequest, SessionEstablishmentRequest, SessionModificationRequest,
};
use adit_pfcp::{Message, MessageBody, PfcpDatagram, RawMessage};
use adit_session::{LocalAddresses, LocalInterface, OwnerNodes, Provisioning, StoreConfig};
use adit_store::{OwnedRecordId, RecordGroup, RecordKind};
use adit_types::limits::PFCP_MESSAGE_BYTES_MAX;
use adit_types::{FarId, InterfaceRole, Nanos, PdrId, Precedence, QerId, Qfi, Seid, Teid};

pub(crate) const UPF: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
pub(crate) const N3: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
pub(crate) const GNB: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
pub(crate) const UPF_STARTED: u32 = 3_900_000_000;
pub(crate) const SMF_STARTED: u32 = 3_800_000_000;
pub(crate) const T1: Nanos = Nanos::from_secs(3);
pub(crate) const N1: u32 = 3;
pub(crate) const HEARTBEAT_INTERVAL: Nanos = Nanos::from_secs(10);

pub(crate) fn smf(host: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, host], 8805))
}

pub(crate) fn config() -> NodeConfig {
    NodeConfig {
        node_id: NodeIdentity::Fqdn("upf.example".to_owned()),
        address: IpAddr::V4(UPF),
        connect: Vec::new(),
        heartbeat_interval: HEARTBEAT_INTERVAL,
        sessions_outlive_peer: Nanos(0),
        t1: T1,
        n1: N1,
        recovery_time_stamp: UPF_STARTED,
        seed: 1,
        policy: Default::default(),
        paths: adit_n4::PathConfig::OFF,
        store: StoreConfig {
            sessions_max: 1000,
            provisioning: Provisioning { interfaces: interfaces(), ..Provisioning::default() },
            seed: 7,
            owner_nodes: OwnerNodes::default(),
        },
        records: None,
    }
}

/// One N3 and one N6 interface that serve any network instance.
pub(crate) fn interfaces() -> Vec<LocalInterface> {
    vec![
        LocalInterface::of_role(InterfaceRole::N3, LocalAddresses { v4: Some(N3), v6: None }),
        LocalInterface::of_role(InterfaceRole::N6, LocalAddresses::default()),
    ]
}

/// An N3 interface that serves any network instance, and an N6 interface for each of two.
pub(crate) fn interfaces_of_two_networks() -> Vec<LocalInterface> {
    let interface = |role, name: Option<&str>| LocalInterface {
        network_instance: name.map(Box::from),
        ..LocalInterface::of_role(role, LocalAddresses { v4: Some(N3), v6: None })
    };
    vec![
        interface(InterfaceRole::N3, None),
        interface(InterfaceRole::N6, Some("internet")),
        interface(InterfaceRole::N6, Some("ims")),
    ]
}

pub(crate) fn encode<'a, M: MessageBody<'a>>(
    seid: Option<Seid>,
    sequence: u32,
    body: &M,
) -> Vec<u8> {
    let mut buf = vec![0xa5; PFCP_MESSAGE_BYTES_MAX];
    let len = adit_pfcp::encode(&mut buf, seid, sequence, body).unwrap();
    buf.truncate(len);
    buf
}

pub(crate) fn setup(sequence: u32, node: Ipv4Addr, started: u32) -> Vec<u8> {
    let node_id = ie::NodeId::Ipv4(node);
    encode(None, sequence, &AssociationSetupRequest::new(node_id, RecoveryTimeStamp(started)))
}

pub(crate) fn release(sequence: u32, node: Ipv4Addr) -> Vec<u8> {
    encode(None, sequence, &AssociationReleaseRequest::new(ie::NodeId::Ipv4(node)))
}

pub(crate) fn heartbeat(sequence: u32, started: u32) -> Vec<u8> {
    encode(None, sequence, &HeartbeatRequest::new(RecoveryTimeStamp(started)))
}

/// A list of IEs for a message; lives as long as the test process, which spares lifetimes.
pub(crate) fn list<T, const N: usize>(items: [T; N]) -> &'static [T] {
    Box::leak(Box::new(items))
}

/// The parts of a session that tests vary.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionScript {
    pub cp_seid: Seid,
    pub ue: Ipv4Addr,
    pub gnb_teid: Teid,
}

impl SessionScript {
    pub(crate) fn new(cp_seid: u64, number: u16) -> Self {
        Self::of_many(cp_seid, number.into())
    }

    /// As [`Self::new`], for numbers beyond 16 bits.
    pub(crate) fn of_many(cp_seid: u64, number: u32) -> Self {
        Self {
            cp_seid: Seid(cp_seid),
            ue: Ipv4Addr::from_bits(Ipv4Addr::new(10, 45, 0, 0).to_bits() + number),
            gnb_teid: Teid(0x0100_0000 + number),
        }
    }
}

/// Builds an establishment of two PDRs, two FARs and a QER, after `edit` had its way.
pub(crate) fn establish_with(
    sequence: u32,
    script: &SessionScript,
    edit: impl FnOnce(&mut SessionEstablishmentRequest<'static>),
) -> Vec<u8> {
    let qers = list([QerId(1)]);
    let ue = UeIpAddress { v4: Some(script.ue), ..UeIpAddress::default() };
    let mut up = CreatePdr::new(PdrId(1), Precedence(100), Pdi::new(SourceInterface::Access));
    up.pdi.local_f_teid = Some(FTeid::Choose { v4: true, v6: false, choose_id: Some(1) });
    up.pdi.ue_ip_addresses = list([ue]).into();
    up.outer_header_removal = Some(OuterHeaderRemovalDescription::GtpuUdpIpv4.into());
    up.far_id = Some(FarId(1));
    up.qer_ids = qers.into();
    let mut down = CreatePdr::new(PdrId(2), Precedence(100), Pdi::new(SourceInterface::Core));
    down.pdi.ue_ip_addresses = list([UeIpAddress { destination: true, ..ue }]).into();
    down.far_id = Some(FarId(2));
    down.qer_ids = qers.into();
    let mut far_up = CreateFar::new(FarId(1), ApplyAction::FORW);
    far_up.forwarding_parameters = Some(ForwardingParameters::new(DestinationInterface::Core));
    let mut far_down = CreateFar::new(FarId(2), ApplyAction::FORW);
    let mut towards_gnb = ForwardingParameters::new(DestinationInterface::Access);
    towards_gnb.outer_header_creation = Some(OuterHeaderCreation::gtpu_ipv4(script.gnb_teid, GNB));
    far_down.forwarding_parameters = Some(towards_gnb);
    let mut qer = CreateQer::new(QerId(1), GateStatus::OPEN);
    qer.qfi = Qfi::new(9);
    let mut body = SessionEstablishmentRequest::new(
        ie::NodeId::Ipv4(Ipv4Addr::new(192, 0, 2, 10)),
        FSeid::new(script.cp_seid, IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10))),
        list([up, down]).into(),
        list([far_up, far_down]).into(),
    );
    body.create_qers = list([qer]).into();
    edit(&mut body);
    encode(Some(Seid(0)), sequence, &body)
}

pub(crate) fn establish(sequence: u32, script: &SessionScript) -> Vec<u8> {
    establish_with(sequence, script, |_| {})
}

/// An establishment that leaves the UE's IPv4 address to the UP function.
pub(crate) fn choosing(sequence: u32, cp_seid: u64) -> Vec<u8> {
    establish_with(sequence, &SessionScript::new(cp_seid, 1), |body| {
        let mut pdrs: Vec<_> = body.create_pdrs.iter().collect();
        for (pdr, destination) in pdrs.iter_mut().zip([false, true]) {
            let ue = UeIpAddress { choose_v4: true, destination, ..UeIpAddress::default() };
            pdr.pdi.ue_ip_addresses = list([ue]).into();
        }
        body.create_pdrs = Vec::leak(pdrs)[..].into();
    })
}

pub(crate) fn modify_with(
    sequence: u32,
    up_seid: Seid,
    edit: impl FnOnce(&mut SessionModificationRequest<'static>),
) -> Vec<u8> {
    let mut body = SessionModificationRequest::new();
    edit(&mut body);
    encode(Some(up_seid), sequence, &body)
}

/// A handover: the downlink FAR's tunnel changes.
pub(crate) fn move_to(sequence: u32, up_seid: Seid, teid: Teid) -> Vec<u8> {
    let mut parameters = UpdateForwardingParameters::new();
    let header = OuterHeaderCreation::gtpu_ipv4(teid, GNB);
    parameters.outer_header_creation = Some(Nullable::Value(header));
    let mut far = UpdateFar::new(FarId(2));
    far.update_forwarding_parameters = Some(parameters);
    modify_with(sequence, up_seid, |body| body.update_fars = list([far]).into())
}

pub(crate) fn delete(sequence: u32, up_seid: Seid) -> Vec<u8> {
    encode(Some(up_seid), sequence, &SessionDeletionRequest::new())
}

/// The only message of a datagram.
pub(crate) fn raw(bytes: &[u8]) -> RawMessage<'_> {
    let mut datagram = PfcpDatagram::new(bytes);
    let message = datagram.next().unwrap().unwrap();
    assert!(datagram.next().is_none());
    message
}

pub(crate) fn decode(bytes: &[u8]) -> Message<'_> {
    Message::decode(&raw(bytes)).unwrap()
}

/// The records that a store has.
pub(crate) type StoredRecords = BTreeMap<(RecordKind, OwnedRecordId), Vec<u8>>;

/// The store of `node` gets a group, and says so.
pub(crate) fn write(
    records: &mut StoredRecords,
    node: &mut Node,
    now: Nanos,
    RecordGroup { number, changes }: RecordGroup,
) {
    for change in changes {
        let key = (change.kind, change.name);
        match change.value {
            Some(value) => records.insert(key, value),
            None => records.remove(&key),
        };
    }
    node.handle_durable(now, number);
}

/// A node, virtual time, and a publisher and a store that act at once or on demand.
pub(crate) struct Bench {
    pub node: Node,
    pub now: Nanos,
    pub records: StoredRecords,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with(config())
    }

    pub(crate) fn with(config: NodeConfig) -> Self {
        Self { node: Node::new(config), now: Nanos(0), records: StoredRecords::new() }
    }

    /// A node with an association with `smf(10)`.
    pub(crate) fn associated() -> Self {
        let mut bench = Self::new();
        bench.associate(10);
        bench
    }

    pub(crate) fn associate(&mut self, host: u8) {
        let sent = self.ask(smf(host), &setup(1, Ipv4Addr::new(192, 0, 2, host), SMF_STARTED));
        let Message::AssociationSetupResponse(body) = decode(&sent[0].bytes) else { panic!() };
        assert!(body.cause.is_accepted());
    }

    /// Hands over a datagram, publishes everything, and returns the sent messages.
    pub(crate) fn ask(&mut self, from: SocketAddr, bytes: &[u8]) -> Vec<Transmit> {
        self.node.handle_datagram(self.now, from, bytes);
        self.publish_all();
        self.store_all();
        self.sent()
    }

    /// Hands over a datagram, and returns the sent messages without a publication or a record.
    pub(crate) fn ask_quietly(&mut self, from: SocketAddr, bytes: &[u8]) -> Vec<Transmit> {
        self.node.handle_datagram(self.now, from, bytes);
        self.sent()
    }

    /// The store gets everything that the node hands out.
    pub(crate) fn store_all(&mut self) {
        while let Some(group) = self.node.poll_records(self.now) {
            self.write(group);
        }
    }

    /// The store gets a group, and says so.
    pub(crate) fn write(&mut self, group: RecordGroup) {
        write(&mut self.records, &mut self.node, self.now, group);
    }

    /// The one response to a request.
    pub(crate) fn answer(&mut self, from: SocketAddr, bytes: &[u8]) -> Vec<u8> {
        let mut sent = self.ask(from, bytes);
        assert_eq!(sent.len(), 1, "one answer");
        assert_eq!(sent[0].to, from, "to the source address and port");
        sent.remove(0).bytes
    }

    /// A heartbeat of `from` shows a newer time stamp, and so does its response to our probe.
    /// Returns the messages sent then.
    pub(crate) fn restart(
        &mut self,
        from: SocketAddr,
        sequence: u32,
        started: u32,
    ) -> Vec<Transmit> {
        self.answer(from, &heartbeat(sequence, started));
        let probe = self.run_until(self.now);
        let probe = probe.iter().find(|sent| sent.to == from && sent.bytes[1] == 1).unwrap();
        let body = HeartbeatResponse::new(RecoveryTimeStamp(started));
        self.ask(from, &encode(None, raw(&probe.bytes).header.sequence, &body))
    }

    pub(crate) fn publish_all(&mut self) {
        while let Some((id, _)) = self.node.poll_delta() {
            self.node.handle_published(self.now, id);
        }
    }

    /// Publishes everything, and everything that follows from it at once.
    pub(crate) fn settle(&mut self) {
        self.publish_all();
        while self.node.poll_timeout().is_some_and(|at| at <= self.now) {
            self.node.handle_timeout(self.now);
            self.publish_all();
        }
    }

    pub(crate) fn sent(&mut self) -> Vec<Transmit> {
        std::iter::from_fn(|| self.node.poll_transmit()).collect()
    }

    pub(crate) fn events(&mut self) -> Vec<adit_n4::NodeEvent> {
        std::iter::from_fn(|| self.node.poll_event()).collect()
    }

    /// Establishes a session and returns our SEID.
    pub(crate) fn session(
        &mut self,
        from: SocketAddr,
        sequence: u32,
        script: &SessionScript,
    ) -> Seid {
        let bytes = self.answer(from, &establish(sequence, script));
        let Message::SessionEstablishmentResponse(body) = decode(&bytes) else { panic!() };
        assert!(body.cause.is_accepted(), "{:?}", body);
        body.up_f_seid.unwrap().seid
    }

    /// Moves time on to `until`, handling every timeout on the way; returns the sent messages.
    pub(crate) fn run_until(&mut self, until: Nanos) -> Vec<Transmit> {
        let mut all = Vec::new();
        while let Some(at) = self.node.poll_timeout().filter(|&at| at <= until) {
            self.now = self.now.max(at);
            self.node.handle_timeout(self.now);
            self.publish_all();
            self.store_all();
            all.extend(self.sent());
        }
        self.now = until;
        all
    }
}
