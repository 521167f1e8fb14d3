//! PFCP octets in, packets out: node, publication, neighbor cache and workers together.

mod cp_function;
mod floods;
mod many_rules;
mod reload;
#[path = "../../../n4/tests/n4/smf.rs"]
mod smf;
mod usage;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use adit_datapath::{Worker, WorkerConfig};
use adit_n4::{Node, NodeConfig, Transmit};
use adit_pfcp::Message;
use adit_pfcp::grouped::{
    ApplicationIdsPfds, CreatePdr, CreateQer, CreateTrafficEndpoint, Pdi, PfdContext, UpdatePdr,
};
use adit_pfcp::ie::{
    ActivatePredefinedRules, ActivationTime, ApplicationId, DeactivatePredefinedRules,
    DeactivationTime, FTeid, FramedRoute, GateStatus, PfdContents, SdfFilter, SourceInterface,
    TrafficEndpointId,
};
use adit_pfcp::message::PfdManagementRequest;
use adit_pktio::PacketBuf;
use adit_pktio::mem::MemIo;
use adit_rules::{DropReason, NextHops, WorkerCommand, WorkerEvent};
use adit_session::{
    PredefinedAction, PredefinedDetection, PredefinedRule, QosPolicy, parse_flow_description,
};
use adit_tables::Publisher;
use adit_tables::neighbor::NeighborCache;
use adit_testkit::packet::PacketBuilder;
use adit_tests::oracle::{OracleInterface, OracleRoute};
use adit_tests::world::{WorldLayout, control, station_mac};
use adit_types::{MacAddr, Nanos, PdrId, PortId, Precedence, QerId, Qfi, Roles, Seid, Teid};

const MACS: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0x10, 0]), MacAddr([2, 0, 0, 0, 0x10, 1])];
const PEER: MacAddr = MacAddr([2, 0xaa, 0, 0, 0, 1]);
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 6, 1);

fn layout(workers: usize) -> WorldLayout {
    let interface = |port: u16, own: Ipv4Addr, net: u16| OracleInterface {
        role: if port == 0 {
            adit_tests::oracle::OracleRole::N3
        } else {
            adit_tests::oracle::OracleRole::N6
        },
        port,
        vlan: 0,
        mac: MACS[usize::from(port)].0,
        mtu_bytes: 1500,
        v4: (own, 24),
        v6: (Ipv6Addr::new(0x2001, 0xdb8, net, 0, 0, 0, 0, 2), 64),
        network_instance: None,
        local_switching: true,
        tcp_mss: adit_types::TcpMss::Off,
    };
    WorldLayout {
        interfaces: vec![interface(0, smf::N3, 3), interface(1, Ipv4Addr::new(10, 0, 6, 2), 6)],
        routes: vec![OracleRoute {
            interface: 1,
            prefix: (Ipv4Addr::UNSPECIFIED.into(), 0),
            gateway: GATEWAY.into(),
        }],
        roles: Roles::run_to_completion(workers),
        copied: adit_tests::oracle::OracleCopied::default(),
        queues: adit_datapath::EventQueues::default(),
        sessions_max: 1000,
        qos: QosPolicy::default(),
        seed: 1,
    }
}

/// The control side, which the test turns like the loop of the control thread.
struct ControlSide {
    node: Node,
    publisher: Publisher,
    neighbors: NeighborCache,
    events: Vec<rtrb::Consumer<WorkerEvent>>,
    commands: Vec<rtrb::Producer<WorkerCommand>>,
    /// The records of the node, if it keeps some.
    records: smf::StoredRecords,
}

impl ControlSide {
    fn new(workers: usize) -> (Self, Vec<Worker<MemIo>>) {
        Self::with(workers, smf::config())
    }

    fn with(workers: usize, config: NodeConfig) -> (Self, Vec<Worker<MemIo>>) {
        let node = Node::new(config);
        let (store, publisher, readers) = control(&layout(workers));
        assert_eq!(store.slot_bits(), node.store().slot_bits());
        let neighbors = NeighborCache::new(&publisher);
        let (mut events, mut commands, mut made) = (Vec::new(), Vec::new(), Vec::new());
        let handoffs = adit_datapath::connect(Roles::run_to_completion(workers), 1024);
        for (reader, handoff) in readers.into_iter().zip(handoffs) {
            let (event_tx, event_rx) = rtrb::RingBuffer::new(1024);
            let (command_tx, command_rx) = rtrb::RingBuffer::new(64);
            events.push(event_rx);
            commands.push(command_tx);
            let ports = vec![PortId(0), PortId(1)];
            let config = WorkerConfig {
                id: reader.worker(),
                ports,
                burst: 32,
                buffer_pkts_max: 512,
                shaped_pkts_max: 512,
                recovery_time_stamp: None,
            };
            let worker = Worker::new(config, reader, event_tx, command_rx);
            made.push(worker.with_handoff(handoff));
        }
        let records = smf::StoredRecords::new();
        (Self { node, publisher, neighbors, events, commands, records }, made)
    }

    fn turn(&mut self, now: Nanos) -> Vec<Transmit> {
        for ring in &mut self.events {
            while let Ok(event) = ring.pop() {
                self.neighbors.handle_event(now, event, &mut self.publisher);
                self.node.handle_event(now, event);
            }
        }
        self.node.handle_timeout(now);
        while let Some((id, delta)) = self.node.poll_delta() {
            while let Some(command) = self.node.poll_command_before(id) {
                self.commands.iter_mut().for_each(|ring| ring.push(command).unwrap());
            }
            self.publisher.apply(id, delta);
        }
        self.neighbors.handle_changes(now, &mut self.publisher);
        while let Some(id) = self.publisher.poll_observed() {
            self.node.handle_published(now, id);
        }
        self.neighbors.handle_timeout(now, &mut self.publisher);
        while let Some(command) = self.neighbors.poll_command() {
            self.commands[0].push(command).unwrap();
        }
        while let Some(group) = self.node.poll_records(now) {
            smf::write(&mut self.records, &mut self.node, now, group);
        }
        while self.node.poll_event().is_some() {}
        core::iter::from_fn(|| self.node.poll_transmit()).collect()
    }
}

/// One worker, and stations that answer ARP, in virtual time.
struct UpfInMemory {
    control: ControlSide,
    worker: Worker<MemIo>,
    io: MemIo,
    now: Nanos,
    /// Stations that answer.
    alive: Vec<Ipv4Addr>,
}

impl UpfInMemory {
    fn new() -> Self {
        Self::with(smf::config())
    }

    fn with(config: NodeConfig) -> Self {
        let (control, mut workers) = ControlSide::with(1, config);
        let worker = workers.remove(0);
        let alive = vec![GATEWAY, smf::GNB];
        let now = Nanos::from_secs(1);
        let mut upf = Self { control, worker, io: MemIo::new(&MACS), now, alive };
        upf.worker.step(upf.now, &mut upf.io);
        upf
    }

    /// Runs a turn of the control loop and a step, then lets stations answer. Returns the datagrams
    /// sent on N4 and the user packets that left.
    fn turn(&mut self) -> (Vec<Transmit>, Vec<Vec<u8>>) {
        self.now += Nanos::from_millis(10);
        let answers = self.control.turn(self.now);
        self.worker.step(self.now, &mut self.io);
        let mut user = Vec::new();
        for port in [PortId(0), PortId(1)] {
            for sent in self.io.take_sent(port) {
                let frame = sent.data();
                match u16::from_be_bytes([frame[12], frame[13]]) {
                    0x0806 => self.answer_arp(port, frame),
                    0x86dd if frame[20] == 58 => {}
                    _ if is_error_indication(frame) => {}
                    _ => user.push(frame.to_vec()),
                }
            }
        }
        (answers, user)
    }

    fn answer_arp(&mut self, port: PortId, request: &[u8]) {
        let [a, b, c, d] = [request[38], request[39], request[40], request[41]];
        let target = Ipv4Addr::new(a, b, c, d);
        if request[21] != 1 || !self.alive.contains(&target) {
            return;
        }
        let mac = station_mac(target.into());
        let mut reply = vec![0, 1, 8, 0, 6, 4, 0, 2];
        reply.extend(mac);
        reply.extend(target.octets());
        reply.extend(&request[22..32]);
        let frame = PacketBuilder::ethernet(MACS[usize::from(port.0)], MacAddr(mac));
        self.io.inject(port, &frame.ether_type(0x0806).payload(&reply).build());
    }

    /// Runs turns until nothing happens. Returns everything that left.
    fn settle(&mut self) -> (Vec<Transmit>, Vec<Vec<u8>>) {
        let (mut answers, mut user) = (Vec::new(), Vec::new());
        for _ in 0..6 {
            let (a, u) = self.turn();
            answers.extend(a);
            user.extend(u);
        }
        (answers, user)
    }

    /// The answer to a request.
    fn ask(&mut self, request: &[u8]) -> Vec<u8> {
        self.control.node.handle_datagram(self.now, smf::smf(10), request);
        let (mut answers, _) = self.settle();
        answers.retain(|answer| answer.bytes[1] != 1);
        assert_eq!(answers.len(), 1, "one answer");
        answers.remove(0).bytes
    }

    fn associate(&mut self) {
        let answer = self.ask(&smf::setup(1, [192, 0, 2, 10].into(), smf::SMF_STARTED));
        let Message::AssociationSetupResponse(body) = smf::decode(&answer) else { panic!() };
        assert!(body.cause.is_accepted());
    }

    fn dropped(&self, reason: DropReason) -> u64 {
        self.control.publisher.snapshot().drops[reason.index()]
    }
}

/// Our SEID and the TEID that we chose, from an establishment's answer.
fn accepted(answer: &[u8]) -> (Seid, Teid) {
    let Message::SessionEstablishmentResponse(body) = smf::decode(answer) else { panic!() };
    assert!(body.cause.is_accepted(), "{body:?}");
    let created = body.created_pdrs.into_iter().next().unwrap();
    let f_teid = created.local_f_teids.into_iter().next();
    let Some(adit_pfcp::ie::FTeid::Given { teid, .. }) = f_teid else { panic!() };
    (body.up_f_seid.unwrap().seid, teid)
}

fn uplink(script: &smf::SessionScript, teid: Teid) -> Vec<u8> {
    PacketBuilder::ethernet(MACS[0], PEER)
        .ipv4(smf::GNB, smf::N3)
        .gtpu(teid.0)
        .psc_ul(9)
        .ipv4(script.ue, "8.8.8.8")
        .udp(4000, 9000)
        .build()
}

fn downlink(script: &smf::SessionScript) -> Vec<u8> {
    PacketBuilder::ethernet(MACS[1], PEER).ipv4("8.8.8.8", script.ue).udp(9000, 4000).build()
}

/// True for the answer to a G-PDU whose TEID nobody owns. Spec: TS 29.281 §7.3.1.
fn is_error_indication(frame: &[u8]) -> bool {
    const TO_GTPU_PORT: [u8; 2] = 2152_u16.to_be_bytes();
    const MESSAGE_TYPE: u8 = 26;
    let udp = frame.get(14 + 20..).unwrap_or_default();
    frame.get(23) == Some(&17)
        && udp.get(2..4) == Some(&TO_GTPU_PORT)
        && udp.get(9) == Some(&MESSAGE_TYPE)
}

/// The TEID of a G-PDU with a container that left.
fn outer_teid(frame: &[u8]) -> Teid {
    Teid(u32::from_be_bytes([frame[46], frame[47], frame[48], frame[49]]))
}

#[test]
fn answer_waits_for_the_workers_and_no_packet_behind_it_is_lost() {
    let mut upf = UpfInMemory::new();
    upf.associate();
    let script = smf::SessionScript::new(0x11, 1);
    upf.control.node.handle_datagram(upf.now, smf::smf(10), &smf::establish(2, &script));
    let before = upf.control.turn(upf.now);
    assert!(before.is_empty(), "answered before the worker ran the rules");
    let (answers, _) = upf.settle();
    assert_eq!(answers.len(), 1);
    let (_, teid) = accepted(&answers[0].bytes);

    upf.io.inject(PortId(0), &uplink(&script, teid));
    upf.io.inject(PortId(1), &downlink(&script));
    let (_, user) = upf.turn();
    assert_eq!(user.len(), 2, "gNB and gateway were resolved without traffic");
    let gtpu = user.iter().find(|frame| frame[6..12] == MACS[0].0).unwrap();
    assert_eq!(outer_teid(gtpu), script.gnb_teid);
    assert_eq!(gtpu[..6], station_mac(IpAddr::V4(smf::GNB)));
    let ip = user.iter().find(|frame| frame[6..12] == MACS[1].0).unwrap();
    assert_eq!(ip[..6], station_mac(IpAddr::V4(GATEWAY)));
}

/// As free5GC writes a flow of its policies: the QER of the session-AMBR, which names the default
/// flow, and that of the flow.
#[test]
fn packets_of_a_flow_have_its_qfi_although_the_session_ambr_names_the_default_flow() {
    let mut upf = UpfInMemory::new();
    upf.associate();
    let script = smf::SessionScript::new(0x11, 1);
    let request = smf::establish_with(2, &script, |body| {
        let mut pdrs: Vec<_> = body.create_pdrs.iter().collect();
        let mut flow = pdrs[1];
        flow.pdr_id = PdrId(3);
        flow.precedence = Precedence(1);
        let text = Some(&b"permit out udp from any 53 to assigned"[..]);
        let dns = SdfFilter { flow_description: text, ..SdfFilter::default() };
        flow.pdi.sdf_filters = smf::list([dns]).into();
        flow.qer_ids = smf::list([QerId(1), QerId(2)]).into();
        pdrs.push(flow);
        body.create_pdrs = Vec::leak(pdrs)[..].into();
        let qer = |id, qfi| {
            let qer = CreateQer::new(QerId(id), GateStatus::OPEN);
            CreateQer { qfi: Qfi::new(qfi), ..qer }
        };
        body.create_qers = smf::list([qer(1, 1), qer(2, 2)]).into();
    });
    accepted(&upf.ask(&request));
    let from = |port| {
        PacketBuilder::ethernet(MACS[1], PEER).ipv4("8.8.8.8", script.ue).udp(port, 4000).build()
    };
    for port in [9000, 53, 9000, 53] {
        upf.io.inject(PortId(1), &from(port));
    }
    let qfis: Vec<u8> = upf.settle().1.iter().map(|frame| frame[56] & 0x3f).collect();
    assert_eq!(qfis, [1, 2, 1, 2]);
}

#[test]
fn handover_deletion_and_release_reach_the_next_packet() {
    let mut upf = UpfInMemory::new();
    upf.associate();
    let scripts = [smf::SessionScript::new(0x11, 1), smf::SessionScript::new(0x12, 2)];
    let (seid, teid) = accepted(&upf.ask(&smf::establish(2, &scripts[0])));
    let (_, other_teid) = accepted(&upf.ask(&smf::establish(3, &scripts[1])));

    upf.ask(&smf::move_to(4, seid, Teid(0x0a0b_0c0d)));
    upf.io.inject(PortId(1), &downlink(&scripts[0]));
    upf.io.inject(PortId(1), &downlink(&scripts[1]));
    let (_, user) = upf.turn();
    let teids: Vec<Teid> = user.iter().map(|frame| outer_teid(frame)).collect();
    assert_eq!(teids, [Teid(0x0a0b_0c0d), scripts[1].gnb_teid]);

    upf.ask(&smf::delete(5, seid));
    upf.io.inject(PortId(0), &uplink(&scripts[0], teid));
    upf.io.inject(PortId(1), &downlink(&scripts[0]));
    upf.io.inject(PortId(0), &uplink(&scripts[1], other_teid));
    assert_eq!(upf.turn().1.len(), 1, "the other session's");
    assert_eq!(upf.dropped(DropReason::TeidUnknown), 1);
    assert_eq!(upf.dropped(DropReason::UeUnknown), 1);

    upf.ask(&smf::release(6, [192, 0, 2, 10].into()));
    upf.io.inject(PortId(0), &uplink(&scripts[1], other_teid));
    upf.io.inject(PortId(1), &downlink(&scripts[1]));
    assert_eq!(upf.turn().1.len(), 0);
    assert_eq!(upf.dropped(DropReason::TeidUnknown), 2);
    assert_eq!(upf.dropped(DropReason::UeUnknown), 2);
    assert_eq!(upf.control.node.store().reserved(), adit_session::ReservedCounts::default());
    assert!(upf.control.publisher.snapshot().identity_holds());
}

/// A PFD Management Request for one application; no flow descriptions withdraw it.
fn pfds(sequence: u32, id: &'static [u8], texts: &[&'static str]) -> Vec<u8> {
    let contents = texts.iter().map(|text| PfdContents {
        flow_description: Some(text.as_bytes()),
        ..PfdContents::default()
    });
    let contents = contents.collect::<Vec<_>>();
    let contexts = [PfdContext::new(contents.as_slice().into())];
    let mut group = ApplicationIdsPfds::new(ApplicationId(id));
    if !texts.is_empty() {
        group.pfd_contexts = (&contexts).into();
    }
    let applications = [group];
    let mut body = PfdManagementRequest::new();
    body.application_ids_pfds = (&applications).into();
    smf::encode(None, sequence, &body)
}

/// Spec: TS 29.244 §6.2.5.
#[test]
fn pfds_of_an_application_decide_the_fate_of_packets_of_a_session_that_exists() {
    let mut upf = UpfInMemory::new();
    upf.associate();
    let script = smf::SessionScript::new(0x11, 1);
    let accept = |upf: &mut UpfInMemory, request: &[u8]| {
        let answer = upf.ask(request);
        let Message::PfdManagementResponse(body) = smf::decode(&answer) else { panic!() };
        assert!(body.cause.is_accepted(), "{body:?}");
    };
    accept(&mut upf, &pfds(2, b"web", &["permit out 6 from any 443 to assigned"]));
    let (_, teid) = accepted(&upf.ask(&smf::establish_with(3, &script, |body| {
        let mut pdrs: Vec<_> = body.create_pdrs.iter().collect();
        for pdr in &mut pdrs {
            pdr.pdi.application_id = Some(ApplicationId(b"web"));
        }
        body.create_pdrs = Vec::leak(pdrs)[..].into();
    })));
    let both = |upf: &mut UpfInMemory| {
        upf.io.inject(PortId(0), &uplink(&script, teid));
        upf.io.inject(PortId(1), &downlink(&script));
        upf.turn().1.len()
    };
    assert_eq!(both(&mut upf), 0, "UDP to port 9000 is none of it");
    assert_eq!(upf.dropped(DropReason::PdrUnmatched), 2);
    let texts = ["permit out 6 from any 443 to assigned", "permit out 17 from 8.8.8.8 to assigned"];
    accept(&mut upf, &pfds(4, b"web", &texts));
    assert_eq!(both(&mut upf), 2);
    accept(&mut upf, &pfds(5, b"web", &[]));
    assert_eq!(both(&mut upf), 0, "an application without PFDs is not detected");
    assert_eq!(upf.dropped(DropReason::PdrUnmatched), 4);
    assert!(upf.control.publisher.snapshot().identity_holds());
}

/// Spec: TS 29.244 §7.5.2.2 (Activate Predefined Rules).
#[test]
fn predefined_rules_decide_the_fate_of_packets_until_they_are_deactivated() {
    let rule = |name: &str, text: &str, action, qfi| PredefinedRule {
        name: name.into(),
        group: Some("group".into()),
        precedence: None,
        detection: PredefinedDetection::Filters(vec![parse_flow_description(text).unwrap()].into()),
        action,
        qfi,
    };
    let from_8 = "permit out 17 from 8.8.8.8 to assigned";
    let all_udp = "permit out 17 from any to assigned";
    let mut config = smf::config();
    config.store.provisioning.predefined_rules = vec![
        rule(
            "blocked",
            "permit out 17 from 8.8.8.8 9001 to assigned",
            PredefinedAction::Drop,
            None,
        ),
        rule("marked", from_8, PredefinedAction::Forward, Qfi::new(5)),
        rule("other", all_udp, PredefinedAction::Drop, None),
    ];
    let mut upf = UpfInMemory::with(config);
    upf.associate();
    let script = smf::SessionScript::new(0x11, 1);
    let (seid, teid) = accepted(&upf.ask(&smf::establish_with(2, &script, |body| {
        let mut pdrs: Vec<_> = body.create_pdrs.iter().collect();
        for pdr in &mut pdrs {
            pdr.activate_predefined_rules = smf::list([ActivatePredefinedRules(b"group")]).into();
        }
        body.create_pdrs = Vec::leak(pdrs)[..].into();
    })));
    let from = |source: &str, port: u16| {
        let frame = PacketBuilder::ethernet(MACS[1], PEER).ipv4(source, script.ue);
        frame.udp(port, 4000).build()
    };
    upf.io.inject(PortId(0), &uplink(&script, teid));
    upf.io.inject(PortId(1), &from("8.8.8.8", 9000));
    let (_, user) = upf.turn();
    assert_eq!(user.len(), 2, "\"marked\", in both directions");
    let gtpu = user.iter().find(|frame| frame[6..12] == MACS[0].0).unwrap();
    // The last octet but one of the PDU Session Container.
    assert_eq!(gtpu[14 + 20 + 8 + 12 + 2] & 0x3f, 5, "the rule's QFI, not the QER's");
    upf.io.inject(PortId(1), &from("8.8.8.8", 9001));
    upf.io.inject(PortId(1), &from("9.9.9.9", 9000));
    assert_eq!(upf.turn().1.len(), 0);
    assert_eq!(upf.dropped(DropReason::FarDrop), 2);
    let tcp = PacketBuilder::ethernet(MACS[1], PEER).ipv4("8.8.8.8", script.ue);
    upf.io.inject(PortId(1), &tcp.tcp(80, 4000, 2).build());
    assert_eq!(upf.turn().1.len(), 0);
    assert_eq!(upf.dropped(DropReason::PdrUnmatched), 1, "it matches no rule");
    let mut update = UpdatePdr::new(PdrId(2));
    update.deactivate_predefined_rules = smf::list([DeactivatePredefinedRules(b"group")]).into();
    upf.ask(&smf::modify_with(3, seid, |body| body.update_pdrs = smf::list([update]).into()));
    upf.io.inject(PortId(1), &from("9.9.9.9", 9001));
    assert_eq!(upf.turn().1.len(), 1, "as the PDR itself says");
    assert!(upf.control.publisher.snapshot().identity_holds());
}

#[test]
fn packets_wait_for_a_silent_gnb_and_leave_when_it_answers() {
    let mut upf = UpfInMemory::new();
    upf.alive.retain(|station| *station != smf::GNB);
    upf.associate();
    let script = smf::SessionScript::new(0x11, 1);
    upf.ask(&smf::establish(2, &script));
    for _ in 0..3 {
        upf.io.inject(PortId(1), &downlink(&script));
    }
    let (_, user) = upf.settle();
    assert_eq!((user.len(), upf.control.publisher.snapshot().buffered_pkts), (0, 3));

    upf.alive.push(smf::GNB);
    upf.now += Nanos::from_millis(1000);
    let (_, user) = upf.settle();
    assert_eq!((user.len(), upf.control.publisher.snapshot().buffered_pkts), (3, 0));
    assert!(upf.control.publisher.snapshot().identity_holds());
}

#[test]
fn packets_for_a_gnb_that_never_answers_are_dropped_by_name() {
    let mut upf = UpfInMemory::new();
    upf.alive.retain(|station| *station != smf::GNB);
    upf.associate();
    let script = smf::SessionScript::new(0x11, 1);
    upf.ask(&smf::establish(2, &script));
    upf.io.inject(PortId(1), &downlink(&script));
    for _ in 0..10 {
        upf.turn();
        upf.now += Nanos::from_millis(500);
    }
    assert_eq!(upf.dropped(DropReason::NeighborUnresolved), 1);
    assert!(upf.control.publisher.snapshot().identity_holds());
}

/// An establishment with `edit` applied to both PDRs.
fn establish_with_pdrs(
    sequence: u32,
    script: &smf::SessionScript,
    edit: impl Fn(&mut CreatePdr<'static>),
) -> Vec<u8> {
    smf::establish_with(sequence, script, |body| {
        let mut pdrs: Vec<_> = body.create_pdrs.iter().collect();
        pdrs.iter_mut().for_each(edit);
        body.create_pdrs = Vec::leak(pdrs)[..].into();
    })
}

/// TS 29.244 §5.16: a router behind the UE sends from its networks and receives there.
#[test]
fn framed_routes_lead_to_their_session_and_may_be_sent_from() {
    let mut upf = UpfInMemory::new();
    upf.associate();
    let scripts = [smf::SessionScript::new(0x11, 1), smf::SessionScript::new(0x12, 2)];
    let routes: [&'static [FramedRoute<'static>]; 2] = [
        smf::list([FramedRoute(b"192.168.0.0/16 0.0.0.0 1")]),
        smf::list([FramedRoute(b"192.168.7.0/24")]),
    ];
    let mut behind = |n: usize| {
        let sequence = u32::try_from(n).unwrap() + 2;
        let request = establish_with_pdrs(sequence, &scripts[n], |pdr| {
            pdr.pdi.framed_routes = routes[n].into();
        });
        accepted(&upf.ask(&request))
    };
    let (seids, teids): (Vec<_>, Vec<_>) = [behind(0), behind(1)].into_iter().unzip();
    let to = |host: &str| {
        PacketBuilder::ethernet(MACS[1], PEER).ipv4("8.8.8.8", host).udp(9000, 4000).build()
    };
    for (host, script) in [("192.168.1.1", 0), ("192.168.7.1", 1), ("192.168.8.1", 0)] {
        upf.io.inject(PortId(1), &to(host));
        let (_, user) = upf.turn();
        let reached: Vec<Teid> = user.iter().map(|frame| outer_teid(frame)).collect();
        assert_eq!(reached, [scripts[script].gnb_teid], "{host}");
    }
    let from = |host: &str, teid: Teid| {
        PacketBuilder::ethernet(MACS[0], PEER)
            .ipv4(smf::GNB, smf::N3)
            .gtpu(teid.0)
            .psc_ul(9)
            .ipv4(host, "8.8.8.8")
            .udp(4000, 9000)
            .build()
    };
    upf.io.inject(PortId(0), &from("192.168.7.9", teids[1]));
    upf.io.inject(PortId(0), &from("192.168.8.9", teids[1]));
    assert_eq!(upf.turn().1.len(), 1);
    assert_eq!(upf.dropped(DropReason::UeSourceSpoofed), 1, "the other one's network");

    upf.ask(&smf::delete(4, seids[1]));
    upf.io.inject(PortId(1), &to("192.168.7.1"));
    assert_eq!(outer_teid(&upf.turn().1[0]), scripts[0].gnb_teid, "the wider route is left");
    upf.ask(&smf::delete(5, seids[0]));
    upf.io.inject(PortId(1), &to("192.168.7.1"));
    assert!(upf.turn().1.is_empty());
    assert_eq!(upf.dropped(DropReason::UeUnknown), 1);
    assert_eq!(upf.control.node.store().reserved(), adit_session::ReservedCounts::default());
}

/// TS 29.244 §8.2.121, §8.2.122: the node's clock, not a message, lets packets through.
#[test]
fn pdrs_pass_packets_between_activation_and_deactivation() {
    let mut upf = UpfInMemory::new();
    upf.associate();
    let script = smf::SessionScript::new(0x11, 1);
    // The node's clock is at UPF_STARTED at zero.
    let request = establish_with_pdrs(2, &script, |pdr| {
        pdr.activation_time = Some(ActivationTime(smf::UPF_STARTED + 10));
        pdr.deactivation_time = Some(DeactivationTime(smf::UPF_STARTED + 20));
    });
    let (_, teid) = accepted(&upf.ask(&request));
    let frames = [(PortId(0), uplink(&script, teid)), (PortId(1), downlink(&script))];
    for (at, passed) in [(9, 0), (10, 2), (19, 2), (20, 0)] {
        upf.now = Nanos::from_secs(at);
        upf.settle();
        for (port, frame) in &frames {
            upf.io.inject(*port, frame);
        }
        assert_eq!(upf.turn().1.len(), passed, "after {at} s");
    }
    assert_eq!(upf.dropped(DropReason::PdrUnmatched), 4, "the session keeps its tunnel");
    assert!(upf.control.publisher.snapshot().identity_holds());
}

/// TS 29.244 §5.2.1A.2A: one PDR for packets of two tunnels.
#[test]
fn pdr_of_two_traffic_endpoints_takes_packets_of_both_tunnels() {
    let mut upf = UpfInMemory::new();
    upf.associate();
    let script = smf::SessionScript::new(0x11, 1);
    let request = smf::establish_with(2, &script, |body| {
        let mut pdrs: Vec<_> = body.create_pdrs.iter().collect();
        let ues = pdrs[0].pdi.ue_ip_addresses;
        let ids = smf::list([1, 2].map(TrafficEndpointId));
        let mut pdi = Pdi::new(SourceInterface::Access);
        pdi.traffic_endpoint_ids = ids.into();
        pdrs[0].pdi = pdi;
        body.create_pdrs = Vec::leak(pdrs)[..].into();
        let endpoint = |id: TrafficEndpointId| {
            let mut endpoint = CreateTrafficEndpoint::new(id);
            let choose = FTeid::Choose { v4: true, v6: false, choose_id: None };
            endpoint.local_f_teid = Some(choose);
            endpoint.ue_ip_addresses = ues;
            endpoint
        };
        body.create_traffic_endpoints = smf::list([endpoint(ids[0]), endpoint(ids[1])]).into();
    });
    let answer = upf.ask(&request);
    let Message::SessionEstablishmentResponse(body) = smf::decode(&answer) else { panic!() };
    let created: Vec<_> = body.created_traffic_endpoints.iter().collect();
    assert_eq!(created.len(), 2, "{body:?}");
    for endpoint in created {
        let Some(FTeid::Given { teid, .. }) = endpoint.local_f_teids.first() else { panic!() };
        upf.io.inject(PortId(0), &uplink(&script, teid));
    }
    assert_eq!(upf.turn().1.len(), 2);
}

/// Frames that a worker's thread receives, by port.
type FramesToInject = Vec<(PortId, Vec<u8>)>;

/// A worker on a thread of its own: takes steps and injects frames until the sender is gone.
fn run_worker(mut worker: Worker<MemIo>, frames: &mpsc::Receiver<FramesToInject>, start: Instant) {
    let mut io = MemIo::new(&MACS);
    loop {
        match frames.try_recv() {
            Ok(frames) => frames.iter().for_each(|(port, f)| io.inject(*port, f)),
            Err(mpsc::TryRecvError::Empty) => std::thread::yield_now(),
            Err(mpsc::TryRecvError::Disconnected) => break,
        }
        worker.step(elapsed(start), &mut io);
    }
    worker.drain(&mut io);
}

fn elapsed(start: Instant) -> Nanos {
    Nanos(u64::try_from(start.elapsed().as_nanos()).unwrap())
}

/// The control side of workers that run.
struct RunningUpf {
    control: ControlSide,
    jobs: Vec<mpsc::Sender<FramesToInject>>,
    start: Instant,
    sequence: u32,
}

impl RunningUpf {
    /// Sends a request of the SMF and returns the answer. Without the neighbor cache: its
    /// announcements are not under test.
    fn ask(&mut self, request: impl Fn(u32) -> Vec<u8>) -> Vec<u8> {
        self.sequence += 1;
        let ControlSide { node, publisher, .. } = &mut self.control;
        node.handle_datagram(elapsed(self.start), smf::smf(10), &request(self.sequence));
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            while let Some((id, delta)) = node.poll_delta() {
                publisher.apply(id, delta);
            }
            while let Some(id) = publisher.poll_observed() {
                node.handle_published(elapsed(self.start), id);
            }
            if let Some(answer) = node.poll_transmit() {
                return answer.bytes;
            }
            assert!(Instant::now() < end, "no answer");
            std::thread::yield_now();
        }
    }

    /// How many frames leave when every worker receives `frames`: the owner of their session
    /// forwards them all.
    fn forwarded(&self, frames: &[(PortId, Vec<u8>)]) -> usize {
        let before = self.control.publisher.snapshot();
        self.jobs.iter().for_each(|job| job.send(frames.to_vec()).unwrap());
        let due = before.received_pkts + (frames.len() * self.jobs.len()) as u64;
        loop {
            let sum = self.control.publisher.snapshot();
            if sum.received_pkts == due && sum.handed_off_pkts == sum.taken_over_pkts {
                let sent = sum.transmitted_pkts() - before.transmitted_pkts();
                return usize::try_from(sent).unwrap();
            }
            std::thread::yield_now();
        }
    }
}

#[test]
fn accepted_sessions_of_running_workers_lose_no_packet() {
    const WORKERS: usize = 2;
    const ROUNDS: u32 = 100;
    let (mut control, workers) = ControlSide::new(WORKERS);
    let start = Instant::now();
    for (interface, station) in [(0, smf::GNB), (1, GATEWAY)] {
        let id = adit_types::InterfaceId(interface);
        let index = control.publisher.ensure_next_hop(id, station.into()).unwrap();
        control.publisher.set_mac(index, MacAddr(station_mac(station.into())), false);
    }
    let control = std::thread::scope(|scope| {
        let spawn = |worker| {
            let (sender, receiver) = mpsc::channel::<FramesToInject>();
            scope.spawn(move || run_worker(worker, &receiver, start));
            sender
        };
        let jobs = workers.into_iter().map(spawn).collect();
        let mut upf = RunningUpf { control, jobs, start, sequence: 0 };
        upf.ask(|n| smf::setup(n, [192, 0, 2, 10].into(), smf::SMF_STARTED));
        for round in 0..ROUNDS {
            let number = u16::try_from(round % 7).unwrap();
            let script = smf::SessionScript::new(0x100 + u64::from(round), number);
            let (seid, teid) = accepted(&upf.ask(|n| smf::establish(n, &script)));
            let frames = [(PortId(0), uplink(&script, teid)), (PortId(1), downlink(&script))];
            assert_eq!(upf.forwarded(&frames), 2 * WORKERS, "round {round}");
            upf.ask(|n| smf::move_to(n, seid, Teid(0x4000 + round)));
            assert_eq!(upf.forwarded(&frames), 2 * WORKERS, "round {round}, moved");
            upf.ask(|n| smf::delete(n, seid));
            assert_eq!(upf.forwarded(&frames), 0, "round {round}, deleted");
        }
        upf.control
    });
    let sum = control.publisher.snapshot();
    assert!(sum.identity_holds(), "{sum:?}");
    assert_eq!(sum.transmitted_pkts(), u64::from(ROUNDS) * 4 * WORKERS as u64);
    assert!(sum.handed_off_pkts > 0, "{sum:?}");
    assert_eq!(control.node.store().reserved(), adit_session::ReservedCounts::default());
}
