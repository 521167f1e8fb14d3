//! An independent dissector reads the packets and messages of the datapath and the PFCP node.

use std::net::SocketAddrV4;

use crate::smf;
use adit_pfcp::Message;
use adit_rules::{DeltaId, GtpuTunnel, WorkerCommand};
use adit_testkit::packet::PacketBuilder;
use adit_tests::capture::{self, MARKS};
use adit_tests::scenario;
use adit_tests::world::World;
use adit_types::{InterfaceId, MacAddr, Qfi, Seid, SessionIndex, Teid};
use adit_wire::gtpu::GtpuMessageType;

const UPF: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0x10, 0]), MacAddr([2, 0, 0, 0, 0x10, 1])];
const PEER: MacAddr = MacAddr([2, 0xaa, 0, 0, 0, 1]);

/// Field and value, from the outside in.
type ExpectedFields = Vec<(&'static str, &'static str)>;

/// Frames that were sent, and the fields that they must have.
#[derive(Default)]
struct TsharkCases {
    names: Vec<&'static str>,
    frames: Vec<Vec<u8>>,
    fields: Vec<ExpectedFields>,
}

impl TsharkCases {
    /// Sends `frame` to the UPF; exactly one frame must leave, through `out`.
    fn add(
        &mut self,
        name: &'static str,
        world: &mut World,
        (port, frame): (u16, PacketBuilder),
        out: u16,
        fields: &[(&'static str, &'static str)],
    ) {
        let sent = world.transmit(&[(port, frame.build())]);
        self.take(name, sent, out, &[fields]);
    }

    fn take(
        &mut self,
        name: &'static str,
        sent: Vec<(u16, Vec<u8>)>,
        out: u16,
        fields: &[&[(&'static str, &'static str)]],
    ) {
        assert_eq!(sent.len(), fields.len(), "{name}");
        for ((port, frame), fields) in sent.into_iter().zip(fields) {
            assert_eq!(port, out, "{name}");
            self.names.push(name);
            self.frames.push(frame);
            self.fields.push(fields.to_vec());
        }
    }

    fn check(&self) {
        let Some(dissections) = capture::dissect(&self.frames) else {
            adit_tests::process::skip("tshark not found");
            return;
        };
        let mut wanted: Vec<&str> = self.fields.iter().flatten().map(|(field, _)| *field).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let rows = capture::fields(&self.frames, &wanted).unwrap();
        for (at, name) in self.names.iter().enumerate() {
            for mark in MARKS {
                assert!(!dissections[at].contains(mark), "{name}: {mark} in {}", dissections[at]);
            }
            for (field, value) in &self.fields[at] {
                let column = wanted.iter().position(|other| other == field).unwrap();
                assert_eq!(rows[at][column], *value, "{name}: {field} in {}", dissections[at]);
            }
        }
    }
}

/// A UPF with a session towards an IPv4 gNB and one towards an IPv6 gNB, and their TEIDs.
fn upf(n3_vlan: u16) -> (World, [u32; 2]) {
    let mut world = scenario::world(&scenario::plain_layout(n3_vlan));
    let teids = [(1, "10.0.3.1"), (2, "2001:db8:3::1")].map(|(host, peer)| {
        let seid = world.establish(&scenario::plain_session(host, peer)).unwrap();
        let session = world.store.session(seid).unwrap();
        session.pdrs().iter().find_map(|pdr| pdr.pdi.f_teid).unwrap().teid.0
    });
    (world, teids)
}

fn from_n6() -> PacketBuilder {
    PacketBuilder::ethernet(UPF[1], PEER)
}

fn from_n3() -> PacketBuilder {
    PacketBuilder::ethernet(UPF[0], PEER).ipv4("10.0.3.1", "10.0.3.2")
}

fn from_n3_v6() -> PacketBuilder {
    PacketBuilder::ethernet(UPF[0], PEER).ipv6("2001:db8:3::1", "2001:db8:3::2")
}

/// An undefined extension header that every endpoint must understand.
const UNKNOWN_EXTENSION: u8 = 0xf0;

const RQI: &str = "gtp.ext_hdr.pdu_ses_cont.rqi";
const PPP: &str = "gtp.ext_hdr.pdu_ses_cont.ppp";
const PPI: &str = "gtp.ext_hdr.pdu_ses_cont.ppi";
const PDU_TYPE: &str = "gtp.ext_hdr.pdu_ses_con.pdu_type";
const QFI: &str = "gtp.ext_hdr.pdu_ses_con.qos_flow_id";

#[test]
fn tshark_reads_user_traffic_without_a_mark() {
    let (mut world, teids) = upf(0);
    let mut cases = TsharkCases::default();
    cases.add(
        "downlink IPv4",
        &mut world,
        (1, from_n6().ipv4("8.8.8.8", "10.45.0.1").udp(9000, 4000).payload(b"answer")),
        0,
        &[
            ("eth.dst", "02:04:0a:00:03:01"),
            ("ip.src", "10.0.3.2,8.8.8.8"),
            ("ip.dst", "10.0.3.1,10.45.0.1"),
            ("ip.ttl", "64,63"),
            ("ip.checksum.status", "1,1"),
            ("udp.dstport", "2152,4000"),
            ("gtp.message", "0xff"),
            ("gtp.teid", "0x00000101"),
            (PDU_TYPE, "0"),
            (QFI, "9"),
        ],
    );
    cases.add(
        "downlink IPv6",
        &mut world,
        (1, from_n6().ipv6("2001:db8:8::8", "2001:db8:45:1::5").tcp(80, 4000, 0x12)),
        0,
        &[
            ("ip.dst", "10.0.3.1"),
            ("ipv6.src", "2001:db8:8::8"),
            ("ipv6.dst", "2001:db8:45:1::5"),
            ("ipv6.hlim", "63"),
            ("gtp.teid", "0x00000101"),
            (QFI, "9"),
        ],
    );
    cases.add(
        "downlink over IPv6",
        &mut world,
        (1, from_n6().ipv4("8.8.8.8", "10.45.0.2").udp(9000, 4000).payload(b"odd")),
        0,
        &[
            ("ipv6.src", "2001:db8:3::2"),
            ("ipv6.dst", "2001:db8:3::1"),
            ("udp.checksum.status", "1,1"),
            ("ip.dst", "10.45.0.2"),
            ("gtp.teid", "0x00000102"),
        ],
    );
    cases.add(
        "uplink",
        &mut world,
        (0, from_n3().gtpu(teids[0]).psc_ul(9).ipv4("10.45.0.1", "8.8.8.8").udp(4000, 9000)),
        1,
        &[
            ("eth.dst", "02:04:0a:00:06:01"),
            ("ip.src", "10.45.0.1"),
            ("ip.ttl", "63"),
            ("ip.checksum.status", "1"),
            ("udp.checksum.status", "1"),
        ],
    );
    cases.check();
}

#[test]
fn tshark_reads_user_traffic_in_a_vlan_without_a_mark() {
    let (mut world, _) = upf(30);
    let mut cases = TsharkCases::default();
    cases.add(
        "downlink in a VLAN",
        &mut world,
        (1, from_n6().ipv4("8.8.8.8", "10.45.0.1").udp(9000, 4000)),
        0,
        &[("vlan.id", "30"), ("ip.dst", "10.0.3.1,10.45.0.1"), ("gtp.teid", "0x00000101")],
    );
    cases.check();
}

/// Spec: TS 38.415 §5.5.3.3, §5.5.3.7: indications of QERs in the container.
#[test]
fn tshark_reads_reflective_qos_and_paging_policy_without_a_mark() {
    let marks = [
        (1, false, None, ["0", "0", ""]),
        (2, true, None, ["1", "0", ""]),
        (3, false, Some(5), ["0", "1", "5"]),
        (4, true, Some(7), ["1", "1", "7"]),
    ];
    let mut world = scenario::world(&scenario::plain_layout(0));
    let mut cases = TsharkCases::default();
    for (host, rqi, ppi, [rqi_shown, ppp_shown, ppi_shown]) in marks {
        let mut change = scenario::plain_session(host, "10.0.3.1");
        for qer in &mut change.create_qers {
            (qer.rqi, qer.ppi) = (rqi, ppi);
        }
        world.establish(&change).unwrap();
        let packet = from_n6().ipv4("8.8.8.8", format!("10.45.0.{host}").as_str());
        cases.add(
            "marks of a QER",
            &mut world,
            (1, packet.udp(9000, 4000).payload(b"marked")),
            0,
            &[(QFI, "9"), (RQI, rqi_shown), (PPP, ppp_shown), (PPI, ppi_shown)],
        );
    }
    cases.check();
}

/// Spec: TS 29.281 §7.2.3, §7.3.1.
#[test]
fn tshark_reads_gtpu_signaling_without_a_mark() {
    let (mut world, teids) = upf(0);
    let mut cases = TsharkCases::default();
    let user = |builder: PacketBuilder| builder.ipv4("10.45.0.1", "8.8.8.8").udp(4000, 9000);
    cases.add(
        "Error Indication",
        &mut world,
        (0, user(from_n3().gtpu(0x4000_0001))),
        0,
        &[
            ("ip.dst", "10.0.3.1"),
            ("udp.dstport", "2152"),
            ("udp.checksum.status", "1"),
            ("gtp.message", "0x1a"),
            ("gtp.teid", "0x00000000"),
            ("gtp.teid_data", "0x40000001"),
            ("gtp.gsn_ipv4", "10.0.3.2"),
            ("gtp.ext_hdr.udp_port", "2152"),
        ],
    );
    cases.add(
        "Error Indication over IPv6",
        &mut world,
        (0, user(from_n3_v6().gtpu(0x4000_0001))),
        0,
        &[("gtp.message", "0x1a"), ("gtp.gsn_ipv6", "2001:db8:3::2")],
    );
    let unknown = from_n3().gtpu(teids[0]).extension(UNKNOWN_EXTENSION, &[1, 2]);
    cases.add(
        "Supported Extension Headers Notification",
        &mut world,
        (0, user(unknown)),
        0,
        &[("ip.dst", "10.0.3.1"), ("gtp.message", "0x1f"), ("gtp.teid", "0x00000000")],
    );
    cases.check();
}

/// Spec: TS 29.281 §7.2.1, §7.3.2.
#[test]
fn tshark_reads_gtpu_signaling_by_command_without_a_mark() {
    let (mut world, _) = upf(0);
    let mut cases = TsharkCases::default();
    let (v4, v6) = ("10.0.3.1".parse().unwrap(), "2001:db8:3::1".parse().unwrap());
    let end_marker = |addr| WorkerCommand::SendEndMarker {
        tunnel: GtpuTunnel { teid: Teid(0x101), addr },
        interfaces: adit_types::InterfaceSet::ALL,
        qfi: Qfi::new(9),
        session: SessionIndex::NONE,
        change: DeltaId(0),
    };
    let echo = |peer| {
        let interfaces = adit_types::InterfaceSet::ALL;
        WorkerCommand::SendEchoRequest { peer, interfaces, sequence: 0x1234, tos: 0xb8 }
    };
    for (name, command, fields) in [
        (
            "End Marker",
            end_marker(v4),
            &[
                ("ip.dst", "10.0.3.1"),
                ("gtp.message", "0xfe"),
                ("gtp.teid", "0x00000101"),
                ("gtp.ext_hdr.pdu_ses_con.qos_flow_id", "9"),
            ][..],
        ),
        ("End Marker over IPv6", end_marker(v6), &[("gtp.message", "0xfe")][..]),
        (
            "Echo Request",
            echo(v4),
            &[
                ("gtp.message", "0x01"),
                ("gtp.seq_number", "0x1234"),
                ("udp.dstport", "2152"),
                ("ip.dsfield.dscp", "46"),
            ][..],
        ),
        (
            "Echo Request over IPv6",
            echo(v6),
            &[("gtp.message", "0x01"), ("udp.checksum.status", "1")][..],
        ),
    ] {
        world.commands[0].push(command).unwrap();
        let sent = world.transmit(&[]);
        cases.take(name, sent, 0, &[fields]);
    }
    cases.check();
}

#[test]
fn tshark_reads_answers_without_a_mark() {
    let (mut world, _) = upf(0);
    let mut cases = TsharkCases::default();
    let echo = GtpuMessageType::ECHO_REQUEST;
    cases.add(
        "GTP-U echo",
        &mut world,
        (0, from_n3().gtpu_message(echo, 0).sequence(0x1234)),
        0,
        &[
            ("ip.dst", "10.0.3.1"),
            ("udp.checksum.status", "1"),
            ("gtp.message", "0x02"),
            ("gtp.seq_number", "0x1234"),
            ("gtp.recovery", "0"),
            ("gtp.teid", "0x00000000"),
        ],
    );
    cases.add(
        "GTP-U echo over IPv6",
        &mut world,
        (0, from_n3_v6().gtpu_message(echo, 0).sequence(7)),
        0,
        &[("ipv6.dst", "2001:db8:3::1"), ("gtp.message", "0x02"), ("udp.checksum.status", "1")],
    );
    cases.add(
        "ICMP echo",
        &mut world,
        (0, from_n3().icmp_echo(7, 8).payload(b"ping")),
        0,
        &[("icmp.type", "0"), ("icmp.checksum.status", "1"), ("icmp.seq", "8"), ("ip.ttl", "64")],
    );
    cases.add(
        "ICMPv6 echo",
        &mut world,
        (0, from_n3_v6().icmp_echo(7, 8).payload(b"ping")),
        0,
        &[("icmpv6.type", "129"), ("icmpv6.checksum.status", "1")],
    );
    cases.check();
}

#[test]
fn tshark_reads_neighbor_answers_without_a_mark() {
    let (mut world, _) = upf(0);
    let mut cases = TsharkCases::default();
    let mut request = vec![0, 1, 8, 0, 6, 4, 0, 1, 2, 0xaa, 0, 0, 0, 1, 10, 0, 3, 1];
    request.extend([0, 0, 0, 0, 0, 0, 10, 0, 3, 2]);
    cases.add(
        "ARP",
        &mut world,
        (0, PacketBuilder::ethernet(MacAddr::BROADCAST, PEER).ether_type(0x806).payload(&request)),
        0,
        &[
            ("arp.opcode", "2"),
            ("arp.src.hw_mac", "02:00:00:00:10:00"),
            ("arp.src.proto_ipv4", "10.0.3.2"),
            ("arp.dst.hw_mac", "02:aa:00:00:00:01"),
        ],
    );
    let solicitation = PacketBuilder::ethernet(MacAddr([0x33, 0x33, 0xff, 0, 0, 2]), PEER)
        .ipv6("2001:db8:3::1", "ff02::1:ff00:2")
        .ttl(255)
        .protocol(58)
        .payload(&solicitation());
    cases.add(
        "neighbor solicitation",
        &mut world,
        (0, solicitation),
        0,
        &[
            ("icmpv6.type", "136"),
            ("icmpv6.checksum.status", "1"),
            ("icmpv6.nd.na.target_address", "2001:db8:3::2"),
            ("icmpv6.nd.na.flag.s", "1"),
            ("icmpv6.opt.linkaddr", "02:00:00:00:10:00"),
            ("ipv6.hlim", "255"),
        ],
    );
    cases.check();
}

/// A solicitation for 2001:db8:3::2 with its checksum.
fn solicitation() -> Vec<u8> {
    let target: std::net::Ipv6Addr = "2001:db8:3::2".parse().unwrap();
    let source: std::net::Ipv6Addr = "2001:db8:3::1".parse().unwrap();
    let group: std::net::Ipv6Addr = "ff02::1:ff00:2".parse().unwrap();
    let mut message = vec![135, 0, 0, 0, 0, 0, 0, 0];
    message.extend(target.octets());
    message.extend([1, 1]);
    message.extend(PEER.0);
    let pseudo = [&source.octets()[..], &group.octets(), &[0, 0, 0, 32, 0, 0, 0, 58], &message];
    let sum = adit_tests::oracle::checksum(&pseudo.concat());
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    message
}

#[test]
fn tshark_reads_errors_without_a_mark() {
    let (mut world, teids) = upf(0);
    let mut cases = TsharkCases::default();
    cases.add(
        "time exceeded to the UE",
        &mut world,
        (0, from_n3().gtpu(teids[0]).psc_ul(9).ipv4("10.45.0.1", "8.8.8.8").ttl(1).udp(1, 33434)),
        0,
        &[
            ("gtp.teid", "0x00000101"),
            (QFI, "9"),
            ("icmp.type", "11"),
            ("icmp.code", "0"),
            ("icmp.checksum.status", "1"),
            ("ip.src", "10.0.3.2,10.0.6.2,10.45.0.1"),
            ("ip.dst", "10.0.3.1,10.45.0.1,8.8.8.8"),
        ],
    );
    let expired = from_n3().gtpu(teids[0]).ipv6("2001:db8:45:1::5", "2001:db8:8::8").ttl(1);
    cases.add(
        "time exceeded to the UE, IPv6",
        &mut world,
        (0, expired.udp(1, 33434).payload(b"probe")),
        0,
        &[
            ("icmpv6.type", "3"),
            ("icmpv6.checksum.status", "1"),
            ("ipv6.src", "2001:db8:6::2,2001:db8:45:1::5"),
            ("ipv6.dst", "2001:db8:45:1::5,2001:db8:8::8"),
        ],
    );
    cases.add(
        "time exceeded to a host",
        &mut world,
        (1, from_n6().ipv4("8.8.8.8", "10.45.0.1").ttl(1).udp(1, 33434).payload(&[7; 700])),
        1,
        &[("icmp.type", "11"), ("ip.src", "10.0.6.2,8.8.8.8"), ("icmp.checksum.status", "1")],
    );
    let big = from_n6().ipv4("8.8.8.8", "10.45.0.1").dont_fragment().udp(1, 2).payload(&[0; 1450]);
    cases.add(
        "fragmentation needed",
        &mut world,
        (1, big),
        1,
        &[
            ("icmp.type", "3"),
            ("icmp.code", "4"),
            // 1500 less IPv4, UDP and GTP-U with a container: 20 + 8 + 16.
            ("icmp.mtu", "1456"),
            ("icmp.checksum.status", "1"),
            ("ip.dst", "8.8.8.8,10.45.0.1"),
        ],
    );
    let big = from_n6().ipv6("2001:db8:8::8", "2001:db8:45:1::5").udp(1, 2).payload(&[0; 1440]);
    cases.add(
        "packet too big",
        &mut world,
        (1, big),
        1,
        &[
            ("icmpv6.type", "2"),
            ("icmpv6.mtu", "1456"),
            ("icmpv6.checksum.status", "1"),
            ("ipv6.src", "2001:db8:6::2,2001:db8:8::8"),
        ],
    );
    cases.check();
}

#[test]
fn tshark_reads_questions_and_announcements_without_a_mark() {
    let (mut world, _) = upf(30);
    let mut cases = TsharkCases::default();
    let interface = InterfaceId(0);
    let solicit = |addr: &str, unicast| WorkerCommand::Solicit {
        interface,
        addr: addr.parse().unwrap(),
        unicast,
    };
    for (command, fields) in [
        (
            solicit("10.0.3.9", None),
            &[("arp.opcode", "1"), ("arp.dst.proto_ipv4", "10.0.3.9"), ("vlan.id", "30")][..],
        ),
        (
            solicit("10.0.3.9", Some(PEER)),
            &[("arp.opcode", "1"), ("eth.dst", "02:aa:00:00:00:01")][..],
        ),
        (
            solicit("2001:db8:3::99", None),
            &[
                ("icmpv6.type", "135"),
                ("icmpv6.checksum.status", "1"),
                ("ipv6.dst", "ff02::1:ff00:99"),
                ("eth.dst", "33:33:ff:00:00:99"),
                ("icmpv6.nd.ns.target_address", "2001:db8:3::99"),
            ][..],
        ),
    ] {
        world.commands[0].push(command).unwrap();
        let sent = world.transmit(&[]);
        cases.take("question", sent, 0, &[fields]);
    }
    world.commands[0].push(WorkerCommand::Announce { interface }).unwrap();
    let sent = world.transmit(&[]);
    let advertises = |target: &'static str| {
        [("icmpv6.type", "136"), ("icmpv6.nd.na.target_address", target), ("ipv6.dst", "ff02::1")]
    };
    cases.take(
        "announcement",
        sent,
        0,
        &[
            &[("arp.isgratuitous", "1"), ("arp.src.proto_ipv4", "10.0.3.2")],
            &advertises("2001:db8:3::2"),
            &advertises("fe80::ff:fe00:1000"),
        ],
    );
    cases.check();
}

#[test]
fn tshark_reads_pfcp_dialogue_without_a_mark() {
    let mut bench = smf::Bench::new();
    let smf_addr = smf::smf(10);
    let script = smf::SessionScript::new(0x11, 1);
    let mut frames = Vec::new();
    let mut ask = |request: Vec<u8>| {
        let answer = bench.answer(smf_addr, &request);
        let v4 = |addr| SocketAddrV4::new(addr, 8805);
        let (cp, up) = (v4([192, 0, 2, 10].into()), v4(smf::UPF));
        frames.push(capture::datagram(cp, up, &request));
        frames.push(capture::datagram(up, cp, &answer));
        answer
    };
    ask(smf::setup(1, [192, 0, 2, 10].into(), smf::SMF_STARTED));
    ask(smf::heartbeat(2, smf::SMF_STARTED));
    let established = ask(smf::establish(3, &script));
    let Message::SessionEstablishmentResponse(body) = smf::decode(&established) else { panic!() };
    let seid = body.up_f_seid.unwrap().seid;
    ask(smf::move_to(4, seid, Teid(0x777)));
    ask(smf::move_to(5, Seid(0xdead), Teid(0x777)));
    ask(smf::establish_with(6, &smf::SessionScript::new(0x12, 2), |body| {
        body.create_fars = smf::list([]).into();
    }));
    ask(smf::delete(7, seid));
    ask(smf::release(8, [192, 0, 2, 10].into()));

    let Some(dissections) = capture::dissect(&frames) else {
        adit_tests::process::skip("tshark not found");
        return;
    };
    for dissection in &dissections {
        for mark in MARKS {
            assert!(!dissection.contains(mark), "{mark} in {dissection}");
        }
    }
    let rows = capture::fields(&frames, &["pfcp.msg_type", "pfcp.cause", "pfcp.f_teid.ipv4_addr"]);
    let answers: Vec<Vec<String>> = rows.unwrap().into_iter().skip(1).step_by(2).collect();
    let said: Vec<[&str; 2]> = answers.iter().map(|row| [&*row[0], &*row[1]]).collect();
    // Causes of TS 29.244 §8.2.1: accepted 1, session context not found 65, mandatory IE
    // missing 66.
    let expected = [
        ["6", "1"],
        ["2", ""],
        ["51", "1"],
        ["53", "1"],
        ["53", "65"],
        ["51", "66"],
        ["55", "1"],
        ["10", "1"],
    ];
    assert_eq!(said, expected);
    assert_eq!(answers[2][2], smf::N3.to_string(), "the F-TEID that was chosen");
}
