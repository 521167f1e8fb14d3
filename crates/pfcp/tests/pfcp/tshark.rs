//! An independent dissector reads what the encoder writes.

use std::process::Command;

use adit_pfcp::ie::{
    DestinationInterface, EthernetVlanTag, FailedRuleId, HeaderEnrichment, IeType, NetworkInstance,
    OuterHeaderCreation, OuterHeaderDescription, PfdContents, RedirectAddressType,
    RedirectInformation, RemoteGtpuPeer, UpFunctionFeatures, UserId,
};
use adit_pfcp::{MessageType, NoRoom, PfcpWriter};
use adit_types::{BarId, PdrId};

/// The dissection of each datagram as text; `None` without tshark.
fn dissect(datagrams: &[Vec<u8>]) -> Option<Vec<String>> {
    let mut tshark = Command::new("tshark");
    tshark.arg("-V");
    let text = crate::capture::read_with(tshark, datagrams)?;
    let frames: Vec<_> = text.split("\nFrame ").map(str::to_owned).collect();
    assert_eq!(frames.len(), datagrams.len());
    Some(frames)
}

/// Words that a clean dissection does not contain.
const MARKS: [&str; 4] = ["Malformed", "Expert Info", "wrongly encoded", "not decoded"];

/// Field values of the examples, as tshark prints them.
const EXPECTED: &[&str] = &[
    "Message Type: PFCP Session Establishment Request (50)",
    "SEID: 0x1122334455667788",
    "Sequence Number: 66051",
    "FQDN: smf.example.org",
    "IPv6 address: 2001:db8::1",
    "Choose Id: 05",
    "IPv4 address: 10.45.0.2",
    "IPv6 Prefix Length: 56",
    "Flow Description: permit out ip from 198.51.100.0/24 to assigned",
    "Flow Label: 0x12345",
    "SDF Filter ID: 8",
    "C-VID: 0x0123",
    "Source MAC Address: 020000000001",
    "PDU Session Container to be deleted: True",
    "DDPN (Discared Downlink Packet Notification): True",
    "Outer Header Creation Description: GTP-U/UDP/IPv4  (256)",
    "Outer Header Creation Description: GTP-U/UDP/IPv6  (512)",
    "TEID: 0x0a0b0c0d",
    "QUVTI (Quota Validity Time): True",
    "VOLQU (Volume Quota): True",
    "Total Volume: 5000",
    "UL Gate: OPEN (0)",
    "DL Gate: CLOSED (1)",
    "UL MBR: 20000",
    "DL GBR: 2000",
    "Maximum Downlink Packet Rate: 200",
    "QFI: 0x09",
    "Averaging Window: 2000",
    "FTUP: Supported",
    "EMPU: Supported",
    "UPIDP: Supported",
    "PSUCC: Supported",
    "SNDEM (Send End Marker Packets): True",
    "Type of the offending IE: FAR ID (108)",
    "Uplink Number of Packets: 10",
    "Number of Additional Usage Reports value: 3",
    "TERMR (Termination Report): True",
    "EVEQU (Event Quota): True",
    "Packet Count: 300",
    "SST: 01",
    "RAT Type: NR (10)",
    "Group ID: group-1",
    "Flow Description: permit out ip from 198.51.100.7 to assigned",
];

#[test]
fn tshark_dissects_every_message_without_a_mark() {
    let mut datagrams = Vec::new();
    crate::samples::each(|octets| datagrams.push(octets));
    let Some(frames) = dissect(&datagrams) else { return };
    for frame in &frames {
        for mark in MARKS {
            assert!(!frame.contains(mark), "{mark} in {frame}");
        }
    }
    let all = frames.concat();
    let absent: Vec<_> = EXPECTED.iter().filter(|value| !all.contains(**value)).collect();
    assert!(absent.is_empty(), "not dissected: {absent:?}");
}

fn heartbeat_with(fill: impl Fn(&mut PfcpWriter<'_>) -> Result<(), NoRoom>) -> Vec<u8> {
    let mut buf = [0; 512];
    let mut w = PfcpWriter::new(&mut buf);
    let len = w.message(MessageType::HEARTBEAT_REQUEST, None, 1, fill).unwrap();
    buf[..len].to_vec()
}

/// IEs and variants that the examples lack, one per datagram.
#[test]
fn tshark_dissects_variants_of_leaf_ies_without_a_mark() {
    let redirect = |address_type, other_address, port| {
        heartbeat_with(|w| {
            w.put(&RedirectInformation { address_type, address: b"192.0.2.1", other_address, port })
        })
    };
    let creation = |description, port, tag| {
        heartbeat_with(|w| {
            w.put(&OuterHeaderCreation {
                description,
                v4: Some(crate::samples::V4),
                v6: Some(crate::samples::V6),
                port,
                c_tag: tag,
                s_tag: tag,
                ..<_>::default()
            })
        })
    };
    let tag = Some(EthernetVlanTag { vid: Some(7), ..<_>::default() });
    let datagrams = [
        redirect(RedirectAddressType::Ipv4, &b""[..], None),
        redirect(RedirectAddressType::Ipv4AndIpv6, b"2001:db8::1", None),
        creation(OuterHeaderDescription::UDP_IPV4, Some(2152), None),
        creation(OuterHeaderDescription::UDP_IPV6, Some(2152), None),
        creation(OuterHeaderDescription::IPV4, None, None),
        creation(OuterHeaderDescription::C_TAG | OuterHeaderDescription::S_TAG, None, tag),
        heartbeat_with(|w| {
            w.put(&PfdContents {
                flow_description: Some(b"permit out ip from any to assigned"),
                url: Some(b"example.org/.*"),
                domain_name: Some(b"example.org"),
                ..<_>::default()
            })
        }),
        heartbeat_with(|w| w.put(&HeaderEnrichment { header_type: 0, name: b"x-id", value: b"1" })),
        heartbeat_with(|w| {
            w.put(&RemoteGtpuPeer {
                v4: Some(crate::samples::V4),
                destination_interface: Some(DestinationInterface::Access),
                network_instance: Some(NetworkInstance(b"internet")),
                ..<_>::default()
            })
        }),
        heartbeat_with(|w| w.put(&FailedRuleId::Pdr(PdrId(7)))),
        heartbeat_with(|w| w.put(&FailedRuleId::Bar(BarId(7)))),
        heartbeat_with(|w| w.put(&UpFunctionFeatures::from_bits_retain((1 << 54) - 1))),
        heartbeat_with(|w| {
            w.put(&UserId {
                msisdn: Some(&[0x21, 0x43]),
                gpsi: Some(b"msisdn-1"),
                ..<_>::default()
            })
        }),
    ];
    let Some(frames) = dissect(&datagrams) else { return };
    for frame in &frames {
        for mark in MARKS {
            assert!(!frame.contains(mark), "{mark} in {frame}");
        }
    }
}

/// The names and numbers of the tables agree with an independent list.
#[test]
fn tshark_knows_the_same_ie_and_message_numbers() {
    let Ok(output) = Command::new("tshark").args(["-G", "values"]).output() else {
        adit_testkit::skip("tshark not found");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let (mut ies, mut messages) = (0, 0);
    for line in text.lines() {
        let columns: Vec<_> = line.split('\t').collect();
        let ["V", field, number, name] = columns[..] else { continue };
        let Ok(number) = number.parse::<u16>() else { continue };
        let low = u8::try_from(number).unwrap_or(0);
        let ours = match field {
            "pfcp.ie_type" => {
                ies += 1;
                IeType(number).name()
            }
            "pfcp.msg_type" => {
                messages += 1;
                MessageType(low).name()
            }
            _ => continue,
        };
        // tshark has other names for these three.
        if matches!(number, 200 | 201 | 264) {
            continue;
        }
        let word = |s: &str| s.to_lowercase().chars().find(|c| c.is_alphanumeric());
        assert!(number == 0 || word(ours) == word(name), "{field} {number}: {ours} / {name}");
    }
    assert!(ies > 300 && messages > 20, "{ies} IEs, {messages} messages");
}
