//! Service data flow filters, evaluated from their text for every packet.
//! Spec: TS 29.244 §8.2.5; TS 29.212 §5.4.2.

use core::net::IpAddr;

use adit_session::SdfSpec;

use super::first_fragment::OracleFirstFragment;
use super::in_prefix;
use super::packet::{OracleIp, u16_at, u32_at};

/// The upper layer of a packet.
#[derive(Clone, Copy)]
struct OracleUpperLayer<'a> {
    protocol: u8,
    octets: &'a [u8],
}

/// One end of a flow.
#[derive(Clone, Copy)]
struct OracleFlowEnd {
    addr: IpAddr,
    port: u16,
}

/// True if `packet`, whose header is `ip`, belongs to the flow that `spec` states. `first`: the
/// first fragment, if the packet is a later one.
pub(super) fn matches(
    spec: &SdfSpec,
    is_uplink: bool,
    ip: &OracleIp,
    packet: &[u8],
    first: Option<&OracleFirstFragment>,
) -> bool {
    let (protocol, octets) = match first {
        Some(first) if ip.is_later_fragment => (first.protocol, first.front()),
        _ if ip.is_later_fragment => (ip.protocol, &[][..]),
        _ => (ip.protocol, &packet[ip.upper..ip.len]),
    };
    let upper = OracleUpperLayer { protocol, octets };
    let text = spec.flow_description.as_deref();
    text.is_none_or(|text| text_matches(text, is_uplink, ip, upper))
        && spec.tos.is_none_or(|(value, mask)| (ip.tos ^ value) & mask == 0)
        && spec.spi.is_none_or(|wanted| spi(upper) == Some(wanted))
        && spec.flow_label.is_none_or(|label| ip.flow_label == label)
}

/// The SPI of ESP, at its front, or of AH, at octet 4. Zero names no association.
fn spi(upper: OracleUpperLayer<'_>) -> Option<u32> {
    let at = match upper.protocol {
        50 => 0,
        51 => 4,
        _ => return None,
    };
    (upper.octets.len() >= at + 4).then(|| u32_at(upper.octets, at)).filter(|spi| *spi != 0)
}

/// Source and destination port of TCP, UDP, DCCP, SCTP and UDP-Lite; zeros without.
fn ports(upper: OracleUpperLayer<'_>) -> (u16, u16) {
    let OracleUpperLayer { protocol, octets } = upper;
    if [6, 17, 33, 132, 136].contains(&protocol) && octets.len() >= 4 {
        (u16_at(octets, 0), u16_at(octets, 2))
    } else {
        (0, 0)
    }
}

/// `permit out PROTOCOL from ADDR [PORTS] to ADDR [PORTS]`: "from" is the far side, "to" the UE's.
fn text_matches(text: &str, is_uplink: bool, ip: &OracleIp, upper: OracleUpperLayer<'_>) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    let to = words.iter().position(|word| *word == "to").unwrap();
    assert_eq!((words[0], words[1], words[3]), ("permit", "out", "from"), "{text}");
    let (src_port, dst_port) = ports(upper);
    let source = OracleFlowEnd { addr: ip.src, port: src_port };
    let destination = OracleFlowEnd { addr: ip.dst, port: dst_port };
    let (far, ue) = if is_uplink { (destination, source) } else { (source, destination) };
    (words[2] == "ip" || words[2].parse() == Ok(upper.protocol))
        && side_matches(&words[4..to], far)
        && side_matches(&words[to + 1..], ue)
}

fn side_matches(words: &[&str], end: OracleFlowEnd) -> bool {
    let addr_matches = match words[0] {
        "any" | "assigned" => true,
        word => {
            let (prefix, len) = word.split_once('/').unwrap_or((word, "128"));
            let prefix: IpAddr = prefix.parse().unwrap();
            let len: u8 = len.parse().unwrap();
            in_prefix(end.addr, prefix, if prefix.is_ipv4() { len.min(32) } else { len })
        }
    };
    let port_matches = words.get(1).is_none_or(|list| {
        list.split(',').any(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            first.parse::<u16>().unwrap() <= end.port && end.port <= last.parse::<u16>().unwrap()
        })
    });
    addr_matches && port_matches
}
