//! Decoding a PFCP session establishment and walking its rules allocates nothing.

use core::net::{IpAddr, Ipv4Addr};

use adit_pfcp::grouped::{CreateFar, CreatePdr, CreateQer, CreateUrr, ForwardingParameters, Pdi};
use adit_pfcp::ie::{
    ApplyAction, DestinationInterface, FSeid, FTeid, GateStatus, Mbr, MeasurementMethod,
    NetworkInstance, NodeId, OuterHeaderCreation, OuterHeaderRemovalDescription, ReportingTriggers,
    SdfFilter, SourceInterface, UeIpAddress, VolumeThreshold,
};
use adit_pfcp::message::SessionEstablishmentRequest;
use adit_pfcp::{Message, PfcpDatagram, Repeated, encode};
use adit_types::{BitRate, FarId, PdrId, Precedence, QerId, Qfi, Seid, Teid, UrrId};

use crate::counting::allocations;

const CP: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);
const GNB: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);

const INTERNET: Option<NetworkInstance<'static>> = Some(NetworkInstance(b"internet"));

/// To the data network, and into the tunnel of the gNB.
fn fars() -> [CreateFar<'static>; 2] {
    let towards = |destination| ForwardingParameters {
        network_instance: INTERNET,
        ..ForwardingParameters::new(destination)
    };
    let outer_header_creation = Some(OuterHeaderCreation::gtpu_ipv4(Teid(7), GNB));
    let access =
        ForwardingParameters { outer_header_creation, ..towards(DestinationInterface::Access) };
    let far = |id, parameters| CreateFar {
        forwarding_parameters: Some(parameters),
        ..CreateFar::new(FarId(id), ApplyAction::FORW)
    };
    [far(1, towards(DestinationInterface::Core)), far(2, access)]
}

/// The request that SMFs send for a PDU session: two PDRs, two FARs, a QER and a URR.
fn establishment() -> Vec<u8> {
    let ue = UeIpAddress { v4: Some(Ipv4Addr::new(10, 45, 0, 2)), ..<_>::default() };
    let (up_ue, down_ue) = ([ue], [UeIpAddress { destination: true, ..ue }]);
    let (qer_ids, urr_ids) = ([QerId(1)], [UrrId(1)]);
    let text = b"permit out ip from any to assigned";
    let filters = [SdfFilter { flow_description: Some(text), ..<_>::default() }];
    let qfis = [Qfi::new(9).unwrap()];
    let up = CreatePdr {
        outer_header_removal: Some(OuterHeaderRemovalDescription::GtpuUdpIpv4.into()),
        far_id: Some(FarId(1)),
        qer_ids: Repeated::from(&qer_ids),
        urr_ids: Repeated::from(&urr_ids),
        ..CreatePdr::new(
            PdrId(1),
            Precedence(255),
            Pdi {
                local_f_teid: Some(FTeid::Choose { v4: true, v6: false, choose_id: Some(1) }),
                network_instance: INTERNET,
                ue_ip_addresses: Repeated::from(&up_ue),
                sdf_filters: Repeated::from(&filters),
                qfis: Repeated::from(&qfis),
                ..Pdi::new(SourceInterface::Access)
            },
        )
    };
    let down = CreatePdr {
        far_id: Some(FarId(2)),
        qer_ids: Repeated::from(&qer_ids),
        urr_ids: Repeated::from(&urr_ids),
        ..CreatePdr::new(
            PdrId(2),
            Precedence(255),
            Pdi {
                network_instance: INTERNET,
                ue_ip_addresses: Repeated::from(&down_ue),
                sdf_filters: Repeated::from(&filters),
                ..Pdi::new(SourceInterface::Core)
            },
        )
    };
    let fars = fars();
    let qers = [CreateQer {
        qfi: Qfi::new(9),
        mbr: Some(Mbr::new(BitRate::from_kbps(20_000), BitRate::from_kbps(100_000))),
        ..CreateQer::new(QerId(1), GateStatus::OPEN)
    }];
    let urrs = [CreateUrr {
        volume_threshold: Some(VolumeThreshold { total: Some(1 << 30), ..<_>::default() }),
        ..CreateUrr::new(UrrId(1), MeasurementMethod::VOLUM, ReportingTriggers::VOLTH)
    }];
    let pdrs = [up, down];
    let body = SessionEstablishmentRequest {
        create_qers: Repeated::from(&qers),
        create_urrs: Repeated::from(&urrs),
        ..SessionEstablishmentRequest::new(
            NodeId::Ipv4(CP),
            FSeid::new(Seid(1), IpAddr::V4(CP)),
            Repeated::from(&pdrs),
            Repeated::from(&fars),
        )
    };
    let mut buf = vec![0; 2048];
    let len = encode(&mut buf, Some(Seid(0)), 1, &body).unwrap();
    buf.truncate(len);
    buf
}

/// Walks over every rule and every filter.
fn walk(request: &SessionEstablishmentRequest<'_>) -> usize {
    let mut seen = 0;
    for pdr in &request.create_pdrs {
        seen += 1 + pdr.qer_ids.iter().count() + pdr.urr_ids.iter().count();
        seen += pdr.pdi.sdf_filters.iter().count() + pdr.pdi.ue_ip_addresses.iter().count();
        seen += pdr.pdi.qfis.iter().count();
    }
    seen += request.create_fars.iter().filter(|far| far.forwarding_parameters.is_some()).count();
    seen += request.create_qers.iter().filter(|qer| qer.mbr.is_some()).count();
    seen + request.create_urrs.iter().filter(|urr| urr.volume_threshold.is_some()).count()
}

#[test]
fn decoding_an_establishment_and_walking_its_rules_allocates_nothing() {
    let octets = establishment();
    let mut seen = 0;
    let count = allocations(|| {
        for raw in PfcpDatagram::new(&octets) {
            let message = Message::decode(&raw.unwrap()).unwrap();
            let Message::SessionEstablishmentRequest(request) = message else { panic!() };
            seen += walk(&request);
        }
    });
    // Two PDRs of five members each, one QFI, two FARs, a QER and a URR.
    assert_eq!((count, seen), (0, 15));
}

#[test]
fn encoding_into_a_buffer_allocates_nothing() {
    let octets = establishment();
    let raw = PfcpDatagram::new(&octets).next().unwrap().unwrap();
    let message = Message::decode(&raw).unwrap();
    let mut buf = [0; 2048];
    let mut len = 0;
    let count = allocations(|| {
        let mut w = adit_pfcp::PfcpWriter::new(&mut buf);
        len = w.message_with(&raw.header, |w| message.encode_body(w)).unwrap();
    });
    assert_eq!(count, 0);
    assert_eq!(&buf[..len], octets);
}
