//! Sessions as Open5GS 2.7.7 establishes them, octet for octet: their packets between UE, CP
//! function, RAN and data network.

use std::net::Ipv4Addr;

use adit_pfcp::Message;
use adit_pfcp::ie::FTeid;
use adit_rules::DropReason;
use adit_testkit::packet::PacketBuilder;
use adit_types::{MacAddr, PdrId, PortId, Seid, Teid};

use super::{GATEWAY, MACS, PEER, UpfInMemory, smf};

/// The SMF's GTP-U address, next to the gNB's.
const SMF_U: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 9);
const UE: Ipv4Addr = Ipv4Addr::new(10, 45, 0, 2);
const UE_V6: &str = "2001:db8:cafe::2";
const GNB_TEID: u32 = 0x0000_0001;
const LINK_LOCAL: &str = "fe80::2";

fn ie(kind: u16, value: &[u8]) -> Vec<u8> {
    let len = u16::try_from(value.len()).unwrap();
    [&kind.to_be_bytes()[..], &len.to_be_bytes(), value].concat()
}

fn group(kind: u16, members: &[Vec<u8>]) -> Vec<u8> {
    ie(kind, &members.concat())
}

fn message(kind: u8, seid: Seid, sequence: u32, ies: &[Vec<u8>]) -> Vec<u8> {
    let ies = ies.concat();
    let len = u16::try_from(ies.len() + 12).unwrap();
    let mut bytes = vec![0x21, kind];
    bytes.extend(len.to_be_bytes());
    bytes.extend(seid.0.to_be_bytes());
    bytes.extend(&(sequence << 8).to_be_bytes());
    bytes.extend(ies);
    bytes
}

fn network_instance() -> Vec<u8> {
    ie(22, b"\x08internet")
}

fn pdr_id(id: u8) -> Vec<u8> {
    ie(56, &[0, id])
}

fn precedence(value: u32) -> Vec<u8> {
    ie(29, &value.to_be_bytes())
}

fn far_id(id: u8) -> Vec<u8> {
    ie(108, &[0, 0, 0, id])
}

fn qer_id() -> Vec<u8> {
    ie(109, &[0, 0, 0, 1])
}

fn removal() -> Vec<u8> {
    ie(95, &[6])
}

/// IMSI, IMEISV and MSISDN, each behind its length.
fn user_id() -> Vec<u8> {
    let imsi = [8, 0, 1, 0x10, 0, 0, 0, 0, 0xf1];
    let imeisv = [8, 0x34, 0x70, 0x37, 0x10, 0, 0, 0, 0x18];
    [&[7][..], &imsi, &imeisv, &[2, 0x21, 0x43]].concat()
}

fn source(side: u8) -> Vec<u8> {
    ie(20, &[side])
}

fn f_teid(octets: &[u8]) -> Vec<u8> {
    ie(21, octets)
}

fn interface_type(code: u8) -> Vec<u8> {
    ie(160, &[code])
}

/// PDRs 1 to 4: to the UE, from it, from the SMF, and router solicitations to the SMF.
fn create_pdrs() -> Vec<Vec<u8>> {
    let ue_v6: std::net::Ipv6Addr = UE_V6.parse().unwrap();
    let ue = ie(93, &[&[0x07][..], &UE.octets(), &ue_v6.octets()].concat());
    let text = b"permit out 58 from ff02::2/128 to assigned";
    let sdf = ie(23, &[&[1, 0, 0, 0x2a][..], text].concat());
    let urr_id = ie(81, &[0, 0, 0, 1]);
    let pdi = |members: &[Vec<u8>]| group(2, members);
    let from_access = |last: Vec<u8>| {
        pdi(&[source(0), f_teid(&[0x0f, 5]), network_instance(), last, interface_type(11)])
    };
    let to_ue = pdi(&[source(1), network_instance(), ue, interface_type(17)]);
    let pdr = |id: u8, value: u32, members: &[Vec<u8>]| {
        group(1, &[&[pdr_id(id), precedence(value)][..], members].concat())
    };
    vec![
        pdr(1, 0xffff, &[to_ue, far_id(1), urr_id, qer_id()]),
        pdr(2, 0xffff, &[from_access(ie(124, &[1])), removal(), far_id(2), qer_id()]),
        pdr(3, 0xff, &[pdi(&[source(3), f_teid(&[7])]), removal(), far_id(1)]),
        pdr(4, 0xff, &[from_access(sdf), removal(), far_id(3)]),
    ]
}

/// FARs 1 to 3: FAR 1 buffers, FAR 2 leads to the data network, FAR 3 to the SMF.
fn create_fars() -> Vec<Vec<u8>> {
    let to_smf = [&[1, 0, 0, 0, 0, 1][..], &SMF_U.octets()].concat();
    let forward = |members: &[Vec<u8>]| group(4, members);
    let to_network = forward(&[ie(42, &[1]), network_instance(), interface_type(17)]);
    vec![
        group(3, &[far_id(1), ie(44, &[0x0c, 0]), ie(88, &[1])]),
        group(3, &[far_id(2), ie(44, &[2, 0]), to_network]),
        group(3, &[far_id(3), ie(44, &[2, 0]), forward(&[ie(42, &[3]), ie(84, &to_smf)])]),
    ]
}

/// PDRs 1 to 4, FARs 1 to 3, URR 1, QER 1 and BAR 1.
fn establish(sequence: u32) -> Vec<u8> {
    let node = Ipv4Addr::new(192, 0, 2, 10).octets();
    let urr = group(
        6,
        &[
            ie(81, &[0, 0, 0, 1]),
            ie(62, &[2]),
            ie(37, &[2, 0, 0]),
            ie(31, &[1, 0, 0, 0, 0, 6, 0x40, 0, 0]),
        ],
    );
    let rates = ie(26, &[0, 0, 0x0f, 0x42, 0x40, 0, 0, 0x0f, 0x42, 0x40]);
    let qer = group(7, &[qer_id(), ie(25, &[0]), rates, ie(124, &[1])]);
    let node_id = ie(60, &[&[0][..], &node].concat());
    let f_seid = ie(57, &[&[2, 0, 0, 0, 0, 0, 0, 0, 0x11][..], &node].concat());
    let further = [
        urr,
        qer,
        group(85, &[ie(88, &[1])]),
        ie(113, &[3]),
        ie(141, &user_id()),
        ie(159, b"\x08internet"),
        ie(257, &[1, 0xff, 0xff, 0xff]),
    ];
    let ies = [&[node_id, f_seid][..], &create_pdrs(), &create_fars(), &further].concat();
    message(50, Seid(0), sequence, &ies)
}

/// FAR 1 forwards to the gNB.
fn reactivate(sequence: u32, seid: Seid) -> Vec<u8> {
    let gnb_v6 = "2001:db8:3::9".parse::<std::net::Ipv6Addr>().unwrap();
    let header =
        [&[3, 0][..], &GNB_TEID.to_be_bytes(), &smf::GNB.octets(), &gnb_v6.octets()].concat();
    let parameters = [ie(42, &[0]), network_instance(), ie(84, &header), ie(160, &[11])];
    message(52, seid, sequence, &[group(10, &[far_id(1), ie(44, &[2, 0]), group(11, &parameters)])])
}

/// Our SEID, and the F-TEIDs that we chose by PDR.
fn accepted(answer: &[u8]) -> (Seid, Vec<(PdrId, Teid)>) {
    let Message::SessionEstablishmentResponse(body) = smf::decode(answer) else { panic!() };
    assert!(body.cause.is_accepted(), "{body:?}");
    let teid = |f_teid| match f_teid {
        FTeid::Given { teid, addr } => {
            assert_eq!(addr.v4(), Some(smf::N3));
            teid
        }
        FTeid::Choose { .. } => panic!("not chosen"),
    };
    let created = body.created_pdrs.into_iter();
    let created =
        created.map(|pdr| (pdr.pdr_id, teid(pdr.local_f_teids.into_iter().next().unwrap())));
    (body.up_f_seid.unwrap().seid, created.collect())
}

struct CpFunctionTest {
    upf: UpfInMemory,
    seid: Seid,
    /// The TEIDs of PDR 2 and of PDR 3.
    teids: [Teid; 2],
}

fn establish_cp_function_session() -> CpFunctionTest {
    let mut upf = UpfInMemory::new();
    upf.alive.push(SMF_U);
    upf.associate();
    let (seid, created) = accepted(&upf.ask(&establish(2)));
    let [(PdrId(2), access), (PdrId(3), cp), (PdrId(4), shared)] = created[..] else {
        panic!("{created:?}")
    };
    assert_eq!(access, shared, "one CHOOSE ID");
    assert_ne!(access, cp);
    CpFunctionTest { upf, seid, teids: [access, cp] }
}

fn solicitation(builder: PacketBuilder) -> Vec<u8> {
    icmpv6(builder, LINK_LOCAL, "ff02::2", &[133, 0, 0, 0, 0, 0, 0, 0])
}

fn advertisement(builder: PacketBuilder) -> Vec<u8> {
    icmpv6(builder, "fe80::1", LINK_LOCAL, &[134, 0, 0, 0, 64, 0, 0xff, 0xff, 0, 0, 0, 0])
}

fn icmpv6(builder: PacketBuilder, src: &str, dst: &str, message: &[u8]) -> Vec<u8> {
    builder.ipv6(src, dst).ttl(255).protocol(58).payload(message).build()
}

fn from(station: Ipv4Addr, teid: Teid) -> PacketBuilder {
    PacketBuilder::ethernet(MACS[0], PEER).ipv4(station, smf::N3).gtpu(teid.0)
}

fn to(station: Ipv4Addr, teid: u32) -> PacketBuilder {
    let mac = MacAddr(adit_tests::world::station_mac(station.into()));
    PacketBuilder::ethernet(mac, MACS[0]).ipv4(smf::N3, station).dont_fragment().gtpu(teid)
}

#[test]
fn solicitation_and_advertisement_of_an_open5gs_session_pass_between_ue_and_smf() {
    let CpFunctionTest { mut upf, seid, teids: [access, cp] } = establish_cp_function_session();
    upf.io.inject(PortId(0), &solicitation(from(smf::GNB, access).psc_ul(1)));
    assert_eq!(upf.settle().1, [solicitation(to(SMF_U, 1))]);
    // The answer waits until the gNB's tunnel is known.
    upf.io.inject(PortId(0), &advertisement(from(SMF_U, cp)));
    assert_eq!(upf.settle().1, Vec::<Vec<u8>>::new());
    upf.control.node.handle_datagram(upf.now, smf::smf(10), &reactivate(3, seid));
    let (_, user) = upf.settle();
    assert_eq!(user, [advertisement(to(smf::GNB, GNB_TEID).psc_dl(1, false))]);
    upf.io.inject(PortId(0), &advertisement(from(SMF_U, cp)));
    assert_eq!(upf.settle().1, [advertisement(to(smf::GNB, GNB_TEID).psc_dl(1, false))]);
}

#[test]
fn other_packets_of_an_open5gs_session_pass_between_ue_and_data_network() {
    let CpFunctionTest { mut upf, seid, teids: [access, _] } = establish_cp_function_session();
    upf.control.node.handle_datagram(upf.now, smf::smf(10), &reactivate(3, seid));
    upf.settle();
    let up = |builder: PacketBuilder| builder.ipv4(UE, "8.8.8.8");
    upf.io.inject(PortId(0), &up(from(smf::GNB, access).psc_ul(1)).icmp_echo(1, 1).build());
    let gateway = MacAddr(adit_tests::world::station_mac(GATEWAY.into()));
    let expected = up(PacketBuilder::ethernet(gateway, MACS[1])).ttl(63).icmp_echo(1, 1).build();
    assert_eq!(upf.settle().1, [expected]);
    let down = |builder: PacketBuilder| builder.ipv4("8.8.8.8", UE);
    upf.io.inject(PortId(1), &down(PacketBuilder::ethernet(MACS[1], PEER)).udp(1, 2).build());
    let expected = to(smf::GNB, GNB_TEID).psc_dl(1, false);
    assert_eq!(upf.settle().1, [down(expected).ttl(63).udp(1, 2).build()]);
    // Nobody receives other groups.
    let names = from(smf::GNB, access).psc_ul(1).ipv6(LINK_LOCAL, "ff02::fb").udp(5353, 5353);
    upf.io.inject(PortId(0), &names.build());
    assert_eq!(upf.settle().1, Vec::<Vec<u8>>::new());
    assert_eq!(upf.dropped(DropReason::IpAddressInvalid), 1);
}

/// PDR 9 and FAR 9 of a handover with indirect data forwarding. Spec: TS 23.502 §4.9.1.3.
#[test]
fn indirect_forwarding_of_an_open5gs_session_takes_a_servers_packets_to_the_target() {
    const TARGET_TEID: u32 = 0x99;
    let CpFunctionTest { mut upf, seid, teids: [access, _] } = establish_cp_function_session();
    upf.control.node.handle_datagram(upf.now, smf::smf(10), &reactivate(3, seid));
    upf.settle();
    let target = [&[1, 0][..], &TARGET_TEID.to_be_bytes(), &smf::GNB.octets()].concat();
    let parameters = [ie(42, &[0]), network_instance(), ie(84, &target), ie(160, &[10])];
    let pdi =
        [ie(20, &[0]), ie(21, &[0x0f, 10]), network_instance(), ie(124, &[1]), ie(160, &[28])];
    let pdr = [pdr_id(9), precedence(0x1000), group(2, &pdi), removal(), far_id(9), qer_id()];
    let far = [far_id(9), ie(44, &[2, 0]), group(4, &parameters)];
    let answer = upf.ask(&message(52, seid, 4, &[group(1, &pdr), group(3, &far)]));
    let Message::SessionModificationResponse(body) = smf::decode(&answer) else { panic!() };
    assert!(body.cause.is_accepted(), "{body:?}");
    let created = body.created_pdrs.into_iter().next().unwrap();
    let Some(FTeid::Given { teid, .. }) = created.local_f_teids.into_iter().next() else {
        panic!()
    };
    assert_ne!(teid, access);
    let inner = |builder: PacketBuilder| builder.ipv4("8.8.8.8", UE);
    upf.io.inject(PortId(0), &inner(from(smf::GNB, teid).psc_dl(1, true)).udp(1, 2).build());
    let expected = inner(to(smf::GNB, TARGET_TEID).psc_dl(1, true)).ttl(63).udp(1, 2).build();
    assert_eq!(upf.settle().1, [expected]);
    upf.io.inject(PortId(0), &inner(from(smf::GNB, access).psc_ul(1)).udp(1, 2).build());
    assert_eq!(upf.settle().1, Vec::<Vec<u8>>::new());
    assert_eq!(upf.dropped(DropReason::UeSourceSpoofed), 1);
}
