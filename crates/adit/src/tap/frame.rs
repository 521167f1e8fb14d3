//! Describes the headers of a frame, and finds where they end. The frame may be cut anywhere.

use adit_types::Qfi;
use adit_wire::arp::{ArpOperation, ArpPacket};
use adit_wire::ethernet::EthernetHeader;
use adit_wire::gtpu::{
    FLAG_E, FLAG_PN, FLAG_S, GtpuHeader, GtpuMessageType, GtpuOptional, UDP_PORT,
};
use adit_wire::gtpu_ext::{ExtensionType, GtpuExtensions};
use adit_wire::icmp::IcmpHeader;
use adit_wire::ipv4::Ipv4Header;
use adit_wire::ipv6::{Ipv6Header, is_extension};
use adit_wire::tcp::TcpHeader;
use adit_wire::udp::UdpHeader;
use adit_wire::vlan::VlanTag;
use adit_wire::{EtherType, PduSessionContainer, PduType, protocol};
use zerocopy::FromBytes;

/// Most IPv6 extension headers that are skipped on the way to the upper layer.
const IPV6_EXTENSIONS_SKIPPED_MAX: usize = 8;

/// The headers of a frame.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FrameWords {
    /// A line for the link and outer headers, then a line for the headers in the tunnel.
    pub headers: Vec<String>,
    /// Offset at which the headers end. Unit: octets.
    pub headers_len: usize,
}

/// Describes the headers of a frame.
pub(crate) fn words(frame: &[u8]) -> FrameWords {
    let mut reader = HeaderReader { frame, at: 0, words: FrameWords::default(), line: Vec::new() };
    reader.link();
    reader.end_line();
    reader.words
}

struct HeaderReader<'f> {
    frame: &'f [u8],
    at: usize,
    words: FrameWords,
    line: Vec<String>,
}

impl<'f> HeaderReader<'f> {
    fn rest(&self) -> &'f [u8] {
        self.frame.get(self.at..).unwrap_or_default()
    }

    /// Steps over a header of `len` octets, and adds its description to the line.
    fn pass(&mut self, len: usize, text: String) {
        self.at = (self.at + len).min(self.frame.len());
        self.words.headers_len = self.at;
        self.line.push(text);
    }

    fn end_line(&mut self) {
        if !self.line.is_empty() {
            let line = core::mem::take(&mut self.line).join(", ");
            self.words.headers.push(line);
        }
    }

    /// Adds a remark that the rest is cut or has no known header.
    fn note(&mut self, text: &str) {
        self.line.push(text.to_owned());
    }

    fn link(&mut self) {
        let Ok((header, _)) = EthernetHeader::ref_from_prefix(self.rest()) else {
            return self.note("no whole Ethernet header");
        };
        let (src, dst, mut ether_type) = (header.src(), header.dst(), header.ether_type());
        self.pass(EthernetHeader::LEN, format!("Ethernet {src} > {dst}"));
        if ether_type == EtherType::VLAN
            && let Ok((tag, _)) = VlanTag::ref_from_prefix(self.rest())
        {
            ether_type = tag.ether_type();
            self.pass(VlanTag::LEN, format!("VLAN {}", tag.vlan().value()));
        }
        match ether_type {
            EtherType::IPV4 | EtherType::IPV6 => self.ip(true),
            EtherType::ARP => self.arp(),
            EtherType(number) => self.note(&format!("EtherType 0x{number:04x}")),
        }
    }

    fn arp(&mut self) {
        let Ok((arp, _)) = ArpPacket::parse(self.rest()) else {
            return self.note("ARP, malformed or cut");
        };
        let (sender, target) = (arp.sender_addr(), arp.target_addr());
        let text = match arp.operation() {
            ArpOperation::REQUEST => format!("ARP: who has {target}, asks {sender}"),
            _ => format!("ARP: {sender} is at {}", arp.sender_mac()),
        };
        self.pass(size_of::<ArpPacket>(), text);
    }

    fn ip(&mut self, is_outer: bool) {
        match self.rest().first().map(|first| first >> 4) {
            Some(4) => self.ipv4(is_outer),
            Some(6) => self.ipv6(is_outer),
            Some(version) => self.note(&format!("no IP packet: version {version}")),
            None => self.note("cut"),
        }
    }

    fn ipv4(&mut self, is_outer: bool) {
        let Ok((ip, _)) = Ipv4Header::ref_from_prefix(self.rest()) else {
            return self.note("IPv4, cut");
        };
        let mut text = format!("IPv4 {} > {}, TTL {}", ip.src(), ip.dst(), ip.ttl());
        if ip.tos() != 0 {
            text += &format!(", DSCP {}", ip.tos() >> 2);
        }
        let (offset, is_part) = (ip.fragment_offset(), ip.more_fragments());
        if offset != 0 || is_part {
            text += &format!(", fragment {} at {offset}", ip.identification());
        }
        let (len, next) = (ip.header_len().max(Ipv4Header::LEN), ip.protocol());
        self.pass(len, text);
        if offset == 0 {
            self.upper(next, is_outer);
        }
    }

    fn ipv6(&mut self, is_outer: bool) {
        let Ok((ip, _)) = Ipv6Header::ref_from_prefix(self.rest()) else {
            return self.note("IPv6, cut");
        };
        let mut text = format!("IPv6 {} > {}, hop limit {}", ip.src(), ip.dst(), ip.hop_limit());
        if ip.traffic_class() != 0 {
            text += &format!(", DSCP {}", ip.traffic_class() >> 2);
        }
        let mut next = ip.next_header();
        self.pass(size_of::<Ipv6Header>(), text);
        for _ in 0..IPV6_EXTENSIONS_SKIPPED_MAX {
            if !is_extension(next) {
                break;
            }
            let [following, len, ..] = self.rest() else { return self.note("cut") };
            const FRAGMENT: u8 = 44;
            let len = if next == FRAGMENT { 8 } else { 8 + 8 * usize::from(*len) };
            let kind = core::mem::replace(&mut next, *following);
            self.pass(len, format!("extension header {kind}"));
        }
        self.upper(next, is_outer);
    }

    fn upper(&mut self, number: u8, is_outer: bool) {
        match number {
            protocol::UDP => self.udp(is_outer),
            protocol::TCP => {
                let Ok((tcp, _)) = TcpHeader::ref_from_prefix(self.rest()) else {
                    return self.note("TCP, cut");
                };
                let flags = tcp_flags(tcp.flags());
                let text = format!("TCP {} > {} {flags}", tcp.src_port(), tcp.dst_port());
                let len = self.rest().get(12).map_or(0, |octet| 4 * usize::from(octet >> 4));
                self.pass(len.max(size_of::<TcpHeader>()), text);
            }
            protocol::ICMP | protocol::ICMPV6 => {
                let Ok((icmp, _)) = IcmpHeader::ref_from_prefix(self.rest()) else {
                    return self.note("ICMP, cut");
                };
                let name = if number == protocol::ICMP { "ICMP" } else { "ICMPv6" };
                let text = format!("{name} type {} code {}", icmp.kind(), icmp.code());
                self.pass(size_of::<IcmpHeader>(), text);
            }
            other => self.note(&format!("IP protocol {other}")),
        }
    }

    fn udp(&mut self, is_outer: bool) {
        let Ok((udp, _)) = UdpHeader::ref_from_prefix(self.rest()) else {
            return self.note("UDP, cut");
        };
        let (src, dst) = (udp.src_port(), udp.dst_port());
        self.pass(size_of::<UdpHeader>(), format!("UDP {src} > {dst}"));
        if is_outer && (dst == UDP_PORT || src == UDP_PORT) {
            self.gtpu();
        }
    }

    fn gtpu(&mut self) {
        let Ok((header, _)) = GtpuHeader::ref_from_prefix(self.rest()) else {
            return self.note("GTP-U, cut");
        };
        let (kind, flags, teid) = (header.message_type(), header.flags(), header.teid());
        let mut text = format!("GTP-U {} TEID {teid}", message_name(kind));
        let mut len = GtpuHeader::LEN;
        if flags & (FLAG_E | FLAG_S | FLAG_PN) != 0
            && let Some(rest) = self.rest().get(len..)
            && let Ok((optional, rest)) = GtpuOptional::ref_from_prefix(rest)
        {
            len += GtpuOptional::LEN;
            if flags & FLAG_S != 0 {
                text += &format!(" sequence {}", optional.sequence());
            }
            if flags & FLAG_E != 0 {
                let mut extensions = GtpuExtensions::new(optional.next_extension(), rest);
                while let Some(Ok(extension)) = extensions.next() {
                    text += &extension_words(extension.kind, extension.content);
                }
                len += rest.len() - extensions.rest().len();
            }
        }
        self.pass(len, text);
        if kind == GtpuMessageType::G_PDU {
            self.end_line();
            self.ip(false);
        }
    }
}

fn extension_words(kind: ExtensionType, content: &[u8]) -> String {
    let container = match kind {
        ExtensionType::PDU_SESSION_CONTAINER => PduSessionContainer::parse(content).ok(),
        _ => None,
    };
    let Some(PduSessionContainer { pdu_type, qfi, .. }) = container else {
        return format!(" extension 0x{:02x}", kind.0);
    };
    let direction = match pdu_type {
        PduType::Downlink => "downlink",
        PduType::Uplink => "uplink",
    };
    format!(" QFI {} {direction}", Qfi::value(qfi))
}

fn message_name(kind: GtpuMessageType) -> String {
    let name = match kind {
        GtpuMessageType::ECHO_REQUEST => "Echo Request",
        GtpuMessageType::ECHO_RESPONSE => "Echo Response",
        GtpuMessageType::ERROR_INDICATION => "Error Indication",
        GtpuMessageType::SUPPORTED_EXTENSION_HEADERS_NOTIFICATION => {
            "Supported Extension Headers Notification"
        }
        GtpuMessageType::END_MARKER => "End Marker",
        GtpuMessageType::G_PDU => "G-PDU",
        GtpuMessageType(number) => return format!("message {number}"),
    };
    name.to_owned()
}

fn tcp_flags(flags: u8) -> String {
    let names = ["FIN", "SYN", "RST", "PSH", "ACK", "URG"];
    let set = (0..).zip(names).filter(|(bit, _)| flags >> bit & 1 != 0);
    let set: Vec<&str> = set.map(|(_, name)| name).collect();
    format!("[{}]", set.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An uplink G-PDU of a UE that sends a DNS query.
    const G_PDU: &[u8] = &[
        2, 0, 0, 0, 0, 0xa0, 2, 0, 0, 0, 0, 0xb0, 8, 0, // Ethernet
        0x45, 0, 0, 80, 0, 0, 0x40, 0, 64, 17, 0, 0, 192, 168, 10, 2, 192, 168, 10, 1, // IPv4
        8, 104, 8, 104, 0, 60, 0, 0, // UDP
        0x34, 255, 0, 44, 0, 0, 1, 0, 0, 0, 0, 0x85, 1, 0x10, 9, 0, // GTP-U
        0x45, 0, 0, 36, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 45, 0, 2, 8, 8, 8, 8, // IPv4
        0x0f, 0xa0, 0, 53, 0, 16, 0, 0, // UDP
        b'q', b'u', b'e', b's', b't', b'i', b'o', b'n',
    ];

    #[test]
    fn headers_of_a_g_pdu_are_two_lines_without_the_users_data() {
        let words = words(G_PDU);
        let expected = [
            "Ethernet 02:00:00:00:00:b0 > 02:00:00:00:00:a0, IPv4 192.168.10.2 > 192.168.10.1, TTL 64, \
             UDP 2152 > 2152, GTP-U G-PDU TEID 0x00000100 QFI 9 uplink",
            "IPv4 10.45.0.2 > 8.8.8.8, TTL 64, UDP 4000 > 53",
        ];
        assert_eq!(words.headers, expected);
        assert_eq!(words.headers_len, G_PDU.len() - 8);
    }

    #[test]
    fn frames_cut_anywhere_have_words_within_their_length() {
        for len in 0..G_PDU.len() {
            let words = words(&G_PDU[..len]);
            assert!(words.headers_len <= len && !words.headers.is_empty(), "{len}: {words:?}");
        }
    }

    #[test]
    fn random_octets_never_end_the_process() {
        let mut octet = 7_u8;
        for round in 0..2_000_usize {
            let mut frame: Vec<u8> = G_PDU.to_vec();
            for _ in 0..4 {
                octet = octet.wrapping_mul(181).wrapping_add(113);
                let at = (usize::from(octet) * 7 + round) % frame.len();
                frame[at] = octet;
            }
            assert!(words(&frame).headers_len <= frame.len());
        }
    }
}
