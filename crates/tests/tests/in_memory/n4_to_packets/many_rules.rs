//! A session with as many rules of each kind as it may have: every PDR takes its own packets, by
//! its own FAR, QER and URR.

use std::collections::BTreeMap;

use adit_n4::{FormerRecord, NodeConfig, NodeEvent, NodeRecord, RecordConfig};
use adit_pfcp::grouped::{
    CreateFar, CreatePdr, CreateQer, CreateUrr, ForwardingParameters, Pdi, UsageReport,
};
use adit_pfcp::ie::{
    ApplyAction, DestinationInterface, FTeid, GateStatus, MeasurementInformation,
    MeasurementMethod, OuterHeaderCreation, OuterHeaderRemovalDescription, ReportingTriggers,
    SdfFilter, SourceInterface, UeIpAddress,
};
use adit_pfcp::message::SessionEstablishmentRequest;
use adit_pfcp::{Cause, Message};
use adit_store::{OwnedRecordId, RecordKind};
use adit_testkit::packet::PacketBuilder;
use adit_types::limits::RULES_PER_SESSION_MAX;
use adit_types::{FarId, Nanos, PdrId, PortId, Precedence, QerId, Qfi, Seid, Teid, UrrId};

use super::{MACS, PEER, UpfInMemory, outer_teid, smf};

/// Rules of each kind.
const COUNT: u16 = 256;

const _: () = assert!(COUNT as usize == RULES_PER_SESSION_MAX);

/// How packets of a PDR differ from those of others. There are as many PDRs of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PdrCondition {
    /// An SDF filter of packets from the data network.
    Downlink,
    /// An SDF filter of packets of the UE, all in one tunnel.
    Uplink,
    /// A tunnel from the RAN, whose packets go back to it.
    Tunnel,
    /// A QoS flow in one such tunnel.
    Flow,
}

impl PdrCondition {
    const fn of(number: u16) -> Self {
        match number % 4 {
            0 => Self::Downlink,
            1 => Self::Uplink,
            2 => Self::Tunnel,
            _ => Self::Flow,
        }
    }
}

/// A QFI that no other PDR with the same condition has.
fn qfi(number: u16) -> Qfi {
    Qfi::new(u8::try_from(number / 4 % 64).unwrap()).unwrap()
}

const fn gnb_teid(number: u16) -> Teid {
    Teid(0x0200_0000 + number as u32)
}

/// The port behind N6 of the packets of a PDR.
const fn port(number: u16) -> u16 {
    10_000 + number
}

/// Later PDRs have precedence; packets that they do not match are for the earlier ones.
fn pdr(number: u16, script: &smf::SessionScript) -> CreatePdr<'static> {
    let condition = PdrCondition::of(number);
    let source = match condition {
        PdrCondition::Downlink => SourceInterface::Core,
        PdrCondition::Uplink | PdrCondition::Tunnel | PdrCondition::Flow => SourceInterface::Access,
    };
    let mut pdr =
        CreatePdr::new(PdrId(number), Precedence((1000 - number).into()), Pdi::new(source));
    let choose = |choose_id| Some(FTeid::Choose { v4: true, v6: false, choose_id });
    let text = format!("permit out udp from any {} to assigned", port(number));
    let text: &'static [u8] = text.leak().as_bytes();
    let filter = SdfFilter { flow_description: Some(text), ..SdfFilter::default() };
    match condition {
        PdrCondition::Downlink => pdr.pdi.sdf_filters = smf::list([filter]).into(),
        PdrCondition::Uplink => {
            pdr.pdi.local_f_teid = choose(Some(1));
            pdr.pdi.sdf_filters = smf::list([filter]).into();
        }
        PdrCondition::Tunnel => pdr.pdi.local_f_teid = choose(None),
        PdrCondition::Flow => {
            pdr.pdi.local_f_teid = choose(Some(2));
            pdr.pdi.qfis = smf::list([qfi(number)]).into();
        }
    }
    if condition != PdrCondition::Downlink {
        pdr.outer_header_removal = Some(OuterHeaderRemovalDescription::GtpuUdpIpv4.into());
    }
    let destination = condition != PdrCondition::Uplink;
    let ue = UeIpAddress { v4: Some(script.ue), destination, ..UeIpAddress::default() };
    pdr.pdi.ue_ip_addresses = smf::list([ue]).into();
    pdr.far_id = Some(FarId(number.into()));
    pdr.qer_ids = smf::list([QerId(number.into())]).into();
    pdr.urr_ids = smf::list([UrrId(number.into())]).into();
    pdr
}

fn far(number: u16) -> CreateFar<'static> {
    let mut far = CreateFar::new(FarId(number.into()), ApplyAction::FORW);
    far.forwarding_parameters = Some(match PdrCondition::of(number) {
        PdrCondition::Uplink => ForwardingParameters::new(DestinationInterface::Core),
        _ => {
            let mut to_gnb = ForwardingParameters::new(DestinationInterface::Access);
            let header = OuterHeaderCreation::gtpu_ipv4(gnb_teid(number), smf::GNB);
            to_gnb.outer_header_creation = Some(header);
            to_gnb
        }
    });
    far
}

fn establish(script: &smf::SessionScript) -> Vec<u8> {
    smf::establish_with(2, script, |body: &mut SessionEstablishmentRequest<'static>| {
        let numbers = || 1..=COUNT;
        let qer = |number: u16| {
            let qer = CreateQer::new(QerId(number.into()), GateStatus::OPEN);
            CreateQer { qfi: Some(qfi(number)), ..qer }
        };
        let urr = |number: u16| {
            let (method, never) = (MeasurementMethod::VOLUM, ReportingTriggers::empty());
            let urr = CreateUrr::new(UrrId(number.into()), method, never);
            CreateUrr { measurement_information: Some(MeasurementInformation::MNOP), ..urr }
        };
        let pdrs: Vec<_> = numbers().map(|number| pdr(number, script)).collect();
        body.create_pdrs = Vec::leak(pdrs)[..].into();
        body.create_fars = Vec::leak(numbers().map(far).collect::<Vec<_>>())[..].into();
        body.create_qers = Vec::leak(numbers().map(qer).collect::<Vec<_>>())[..].into();
        body.create_urrs = Vec::leak(numbers().map(urr).collect::<Vec<_>>())[..].into();
    })
}

/// An inner packet of `number` has so many octets behind its UDP header, and a packet of the user
/// so many.
fn user_bytes(number: u16) -> u64 {
    20 + 8 + u64::from(number)
}

/// The packet that PDR `number` takes.
fn packet(number: u16, script: &smf::SessionScript, teids: &BTreeMap<u16, Teid>) -> Vec<u8> {
    let payload = vec![0; usize::from(number)];
    let tunneled = |qfi: Qfi| {
        PacketBuilder::ethernet(MACS[0], PEER)
            .ipv4(smf::GNB, smf::N3)
            .gtpu(teids[&number].0)
            .psc_ul(qfi.value())
    };
    let builder = match PdrCondition::of(number) {
        PdrCondition::Downlink => PacketBuilder::ethernet(MACS[1], PEER)
            .ipv4("8.8.8.8", script.ue)
            .udp(port(number), 4000),
        PdrCondition::Uplink => {
            tunneled(Qfi::new(1).unwrap()).ipv4(script.ue, "8.8.8.8").udp(4000, port(number))
        }
        PdrCondition::Tunnel | PdrCondition::Flow => {
            tunneled(qfi(number)).ipv4("8.8.8.8", script.ue).udp(9, 4000)
        }
    };
    builder.payload(&payload).build()
}

/// Sends a packet for each PDR, and checks that each left by its own FAR and QER.
fn check_packets(upf: &mut UpfInMemory, script: &smf::SessionScript, teids: &BTreeMap<u16, Teid>) {
    for number in 1..=COUNT {
        let from = PortId(u16::from(PdrCondition::of(number) == PdrCondition::Downlink));
        upf.io.inject(from, &packet(number, script, teids));
    }
    let mut user = upf.settle().1;
    user.extend(upf.settle().1);
    let mut left = BTreeMap::new();
    for frame in &user {
        let udp_len = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
        let is_tunneled = frame[6..12] == MACS[0].0;
        let number = udp_len(14 + if is_tunneled { 44 } else { 0 } + 20 + 4) - 8;
        let expected = match PdrCondition::of(number) {
            PdrCondition::Uplink => None,
            _ => Some((gnb_teid(number), qfi(number).value())),
        };
        let header = is_tunneled.then(|| (outer_teid(frame), frame[56] & 0x3f));
        assert_eq!(header, expected, "{number}");
        *left.entry(number).or_insert(0) += 1;
    }
    assert_eq!(left, (1..=COUNT).map(|number| (number, 1)).collect());
}

/// The TEIDs that were chosen, by PDR.
fn chosen(answer: &[u8]) -> (Seid, BTreeMap<u16, Teid>) {
    let Message::SessionEstablishmentResponse(body) = smf::decode(answer) else { panic!() };
    assert_eq!(body.cause, Cause::RequestAccepted, "{body:?}");
    let created = body.created_pdrs.iter().map(|created| {
        let Some(FTeid::Given { teid, .. }) = created.local_f_teids.first() else { panic!() };
        (created.pdr_id.0, teid)
    });
    (body.up_f_seid.unwrap().seid, created.collect())
}

fn config() -> NodeConfig {
    let usage_interval = Nanos::from_secs(5);
    let records = RecordConfig { usage_interval, serves_without_store: false };
    NodeConfig { records: Some(records), ..smf::config() }
}

/// Another process restores the kept sessions.
fn restarted(upf: &UpfInMemory) -> UpfInMemory {
    let mut later = UpfInMemory::with(config());
    later.now = upf.now;
    later.control.records.clone_from(&upf.control.records);
    let records = &upf.control.records;
    let node = &mut later.control.node;
    node.set_usage_source(later.control.publisher.usage());
    let of_node = &records[&(RecordKind::Node, OwnedRecordId::Number(0))];
    node.begin_restoration(&NodeRecord::from_octets(of_node).unwrap());
    for kind in RecordKind::ALL {
        for ((_, name), octets) in records.iter().filter(|((of, _), _)| *of == kind) {
            let mut record = FormerRecord::read(kind, name.clone(), octets.clone());
            node.restore_record(later.now, &mut record).unwrap();
        }
    }
    later.settle();
    later.control.node.end_restoration(later.now);
    later.settle();
    later
}

#[test]
fn each_of_as_many_pdrs_as_a_session_may_have_takes_its_packets_also_from_a_record() {
    let mut upf = UpfInMemory::with(config());
    upf.control.node.set_usage_source(upf.control.publisher.usage());
    upf.control.node.begin_records(1);
    upf.associate();
    let script = smf::SessionScript::new(0x11, 1);
    let (seid, teids) = chosen(&upf.ask(&establish(&script)));
    check_packets(&mut upf, &script, &teids);

    let more = smf::modify_with(3, seid, |body| {
        let qer = CreateQer::new(QerId(u32::from(COUNT) + 1), GateStatus::OPEN);
        body.create_qers = smf::list([qer]).into();
    });
    upf.control.node.handle_datagram(upf.now, smf::smf(10), &more);
    let events = core::iter::from_fn(|| upf.control.node.poll_event());
    let told: Vec<String> = events
        .filter_map(|event| match event {
            NodeEvent::Refused { findings, .. } => Some(findings),
            _ => None,
        })
        .flatten()
        .collect();
    let limit = "75 (No resources available): too many rules of one kind: QER (at most 256)";
    assert_eq!(told, [limit]);
    upf.settle();
    check_packets(&mut upf, &script, &teids);

    // Usage is recorded from time to time.
    upf.now += Nanos::from_secs(6);
    upf.settle();
    let mut upf = restarted(&upf);
    check_packets(&mut upf, &script, &teids);
    let answer = upf.ask(&smf::delete(4, seid));
    let Message::SessionDeletionResponse(body) = smf::decode(&answer) else { panic!() };
    let used = |report: UsageReport<'_>| {
        let volume = report.volume_measurement.unwrap();
        (report.urr_id.0, (volume.total.unwrap(), volume.total_packets.unwrap()))
    };
    let used: BTreeMap<u32, (u64, u64)> = body.usage_reports.iter().map(used).collect();
    let expected = (1..=COUNT).map(|number| (number.into(), (3 * user_bytes(number), 3)));
    assert_eq!(used, expected.collect());
    assert!(upf.control.publisher.snapshot().identity_holds());
}
