//! Packets for tests, written from the outer header to the inner, with correct lengths and
//! checksums.
//!
//! Each layer method adds a header. The methods that follow it (`ttl`, `tos`, `extension`,
//! `overwrite` …) change the header added last, and panic if it has no such field. Wrong values are
//! set last: `overwrite` acts after lengths and checksums are computed.

use core::net::{Ipv4Addr, Ipv6Addr};

use adit_types::{MacAddr, Qfi, Teid, VlanId};
use adit_wire::checksum::{self, Sum};
use adit_wire::ethernet::EthernetHeader;
use adit_wire::gtpu::{FLAG_E, FLAG_S, GtpuHeader, GtpuMessageType, GtpuOptional, UDP_PORT};
use adit_wire::gtpu_ext::ExtensionType;
use adit_wire::icmp::IcmpHeader;
use adit_wire::ipv4::{Ipv4Fields, Ipv4Header};
use adit_wire::ipv6::{Ipv6Fields, Ipv6Header};
use adit_wire::tcp::TcpHeader;
use adit_wire::udp::UdpHeader;
use adit_wire::vlan::VlanTag;
use adit_wire::{EtherType, Malformed, protocol};

/// Protocol number of an IP packet with a raw payload: a number for experiments (RFC 3692).
pub const PROTOCOL_EXPERIMENT: u8 = 253;

/// A packet under construction.
///
/// ```
/// # use adit_testkit::packet::PacketBuilder;
/// # use adit_types::MacAddr;
/// let (gnb, upf) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
/// let frame = PacketBuilder::ethernet(upf, gnb)
///     .ipv4("10.0.0.1", "10.0.0.2")
///     .gtpu(0x100)
///     .psc_ul(9)
///     .ipv4("10.45.0.1", "8.8.8.8")
///     .ttl(5)
///     .icmp_echo(1, 1)
///     .payload(b"ping")
///     .build();
/// assert_eq!(frame.len(), 14 + 20 + 8 + 16 + 20 + 8 + 4);
/// ```
#[derive(Debug, Clone, Default)]
pub struct PacketBuilder {
    layers: Vec<PacketLayer>,
    payload: Vec<u8>,
    trailer: Vec<u8>,
}

#[derive(Debug, Clone)]
struct PacketLayer {
    kind: LayerKind,
    /// Options of IPv4 or TCP.
    options: Vec<u8>,
    /// Extension headers of IPv6 or GTP-U, as type and content.
    extensions: Vec<(u8, Vec<u8>)>,
    overwrites: Vec<(usize, Vec<u8>)>,
    fix_checksum: bool,
}

#[derive(Debug, Clone)]
enum LayerKind {
    Ethernet { dst: MacAddr, src: MacAddr, ether_type: Option<u16> },
    Vlan { vlan: VlanId, ether_type: Option<u16> },
    Ipv4 { fields: Ipv4Fields, protocol: Option<u8>, flags_offset: u16 },
    Ipv6 { fields: Ipv6Fields, protocol: Option<u8> },
    Udp { src_port: u16, dst_port: u16, checksum: bool },
    Tcp { src_port: u16, dst_port: u16, flags: u8 },
    IcmpEcho { reply: bool, identifier: u16, sequence: u16 },
    Gtpu { message_type: GtpuMessageType, teid: Teid, sequence: Option<u16> },
}

impl PacketBuilder {
    /// Begins a packet whose outermost layer is the one that is added first.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins a frame to `dst` from `src`.
    #[must_use]
    pub fn ethernet(dst: MacAddr, src: MacAddr) -> Self {
        Self::new().layer(LayerKind::Ethernet { dst, src, ether_type: None })
    }

    /// Adds a VLAN tag of 1..=4094.
    #[must_use]
    pub fn vlan(self, vlan: u16) -> Self {
        let vlan = VlanId::new(vlan);
        assert!(vlan.is_some(), "a VLAN is 1..=4094");
        self.layer(LayerKind::Vlan { vlan: vlan.unwrap_or_default(), ether_type: None })
    }

    /// Adds an IPv4 header, with TTL 64 unless changed. Addresses are text or `Ipv4Addr`.
    #[must_use]
    pub fn ipv4(self, src: impl IntoIpv4, dst: impl IntoIpv4) -> Self {
        let fields = Ipv4Fields {
            tos: 0,
            total_len: 0,
            identification: 0,
            dont_fragment: false,
            ttl: 64,
            protocol: PROTOCOL_EXPERIMENT,
            src: src.into_ipv4(),
            dst: dst.into_ipv4(),
        };
        self.layer(LayerKind::Ipv4 { fields, protocol: None, flags_offset: 0 })
    }

    /// Adds an IPv6 header, with hop limit 64 unless changed. Addresses are text or `Ipv6Addr`.
    #[must_use]
    pub fn ipv6(self, src: impl IntoIpv6, dst: impl IntoIpv6) -> Self {
        let fields = Ipv6Fields {
            traffic_class: 0,
            flow_label: 0,
            payload_len: 0,
            next_header: PROTOCOL_EXPERIMENT,
            hop_limit: 64,
            src: src.into_ipv6(),
            dst: dst.into_ipv6(),
        };
        self.layer(LayerKind::Ipv6 { fields, protocol: None })
    }

    /// Adds a UDP header with a checksum.
    #[must_use]
    pub fn udp(self, src_port: u16, dst_port: u16) -> Self {
        self.layer(LayerKind::Udp { src_port, dst_port, checksum: true })
    }

    /// Adds a TCP header with the given flags.
    #[must_use]
    pub fn tcp(self, src_port: u16, dst_port: u16, flags: u8) -> Self {
        self.layer(LayerKind::Tcp { src_port, dst_port, flags })
    }

    /// Adds an echo request, of the IP version of the header before it.
    #[must_use]
    pub fn icmp_echo(self, identifier: u16, sequence: u16) -> Self {
        self.layer(LayerKind::IcmpEcho { reply: false, identifier, sequence })
    }

    /// Adds an echo reply, of the IP version of the header before it.
    #[must_use]
    pub fn icmp_echo_reply(self, identifier: u16, sequence: u16) -> Self {
        self.layer(LayerKind::IcmpEcho { reply: true, identifier, sequence })
    }

    /// Adds a G-PDU header; directly after an IP header, first adds a UDP header from and to port
    /// 2152 without checksum.
    #[must_use]
    pub fn gtpu(self, teid: u32) -> Self {
        self.gtpu_message(GtpuMessageType::G_PDU, teid)
    }

    /// Like [`PacketBuilder::gtpu`], but for another message.
    #[must_use]
    pub fn gtpu_message(self, message_type: GtpuMessageType, teid: u32) -> Self {
        let on_ip = matches!(
            self.layers.last().map(|layer| &layer.kind),
            Some(LayerKind::Ipv4 { .. } | LayerKind::Ipv6 { .. })
        );
        let builder = if on_ip { self.udp(UDP_PORT, UDP_PORT).no_checksum() } else { self };
        builder.layer(LayerKind::Gtpu { message_type, teid: Teid(teid), sequence: None })
    }

    /// Adds an uplink PDU Session Container to GTP-U.
    #[must_use]
    pub fn psc_ul(self, qfi: u8) -> Self {
        self.extension(ExtensionType::PDU_SESSION_CONTAINER.0, &[0x10, qfi & Qfi::MAX])
    }

    /// Adds a downlink PDU Session Container to GTP-U.
    #[must_use]
    pub fn psc_dl(self, qfi: u8, rqi: bool) -> Self {
        let octet = u8::from(rqi) << 6 | qfi & Qfi::MAX;
        self.extension(ExtensionType::PDU_SESSION_CONTAINER.0, &[0, octet])
    }

    /// Adds an extension header of IPv6 (content without next header and length) or GTP-U (content
    /// without length and next type). Zeros pad it to a multiple of 8 or 4 octets.
    #[must_use]
    pub fn extension(mut self, kind: u8, content: &[u8]) -> Self {
        let layer = self.last();
        assert!(
            matches!(layer.kind, LayerKind::Ipv6 { .. } | LayerKind::Gtpu { .. }),
            "extension headers belong to IPv6 and GTP-U"
        );
        layer.extensions.push((kind, content.to_vec()));
        self
    }

    /// Sets options of IPv4 or TCP; zeros pad them to a multiple of 4 octets.
    #[must_use]
    pub fn options(mut self, options: &[u8]) -> Self {
        let layer = self.last();
        assert!(
            matches!(layer.kind, LayerKind::Ipv4 { .. } | LayerKind::Tcp { .. }),
            "options belong to IPv4 and TCP"
        );
        layer.options = options.to_vec();
        self
    }

    /// Sets the TTL or hop limit.
    #[must_use]
    pub fn ttl(self, ttl: u8) -> Self {
        self.ip(|fields| fields.ttl = ttl, |fields| fields.hop_limit = ttl)
    }

    /// Sets the type of service or traffic class.
    #[must_use]
    pub fn tos(self, tos: u8) -> Self {
        self.ip(|fields| fields.tos = tos, |fields| fields.traffic_class = tos)
    }

    /// Sets the flow label of IPv6.
    #[must_use]
    pub fn flow_label(self, flow_label: u32) -> Self {
        self.ip(
            |_| unreachable!("a flow label belongs to IPv6"),
            |fields| fields.flow_label = flow_label,
        )
    }

    /// Sets the protocol number or last next header, in place of the number of the following layer.
    #[must_use]
    pub fn protocol(mut self, number: u8) -> Self {
        match &mut self.last().kind {
            LayerKind::Ipv4 { protocol, .. } | LayerKind::Ipv6 { protocol, .. } => {
                *protocol = Some(number)
            }
            _ => unreachable!("a protocol number belongs to IP"),
        }
        self
    }

    /// Sets the EtherType, in place of that of the following layer.
    #[must_use]
    pub fn ether_type(mut self, number: u16) -> Self {
        match &mut self.last().kind {
            LayerKind::Ethernet { ether_type, .. } | LayerKind::Vlan { ether_type, .. } => {
                *ether_type = Some(number);
            }
            _ => unreachable!("an EtherType belongs to Ethernet and VLAN"),
        }
        self
    }

    /// Sets identification, more-fragments flag and fragment offset (unit: 8 octets) of IPv4.
    #[must_use]
    pub fn fragment(mut self, identification: u16, offset: u16, more: bool) -> Self {
        match &mut self.last().kind {
            LayerKind::Ipv4 { fields, flags_offset, .. } => {
                fields.identification = identification;
                *flags_offset = u16::from(more) << 13 | offset & 0x1fff;
            }
            _ => unreachable!("fragments are built for IPv4 only"),
        }
        self
    }

    /// Sets the don't-fragment flag of IPv4.
    #[must_use]
    pub fn dont_fragment(self) -> Self {
        self.ip(
            |fields| fields.dont_fragment = true,
            |_| unreachable!("don't fragment belongs to IPv4"),
        )
    }

    /// Sets the sequence number of GTP-U.
    #[must_use]
    pub fn sequence(mut self, number: u16) -> Self {
        match &mut self.last().kind {
            LayerKind::Gtpu { sequence, .. } => *sequence = Some(number),
            _ => unreachable!("a sequence number belongs to GTP-U"),
        }
        self
    }

    /// Leaves out the UDP checksum.
    #[must_use]
    pub fn no_checksum(mut self) -> Self {
        match &mut self.last().kind {
            LayerKind::Udp { checksum, .. } => *checksum = false,
            _ => unreachable!("only UDP may go without a checksum"),
        }
        self
    }

    /// Replaces octets of the header added last, at `at` from its start, after its lengths and
    /// checksums are computed. The checksums of outer layers cover the new octets.
    #[must_use]
    pub fn overwrite(mut self, at: usize, octets: &[u8]) -> Self {
        self.last().overwrites.push((at, octets.to_vec()));
        self
    }

    /// Recomputes the IPv4 header checksum after `overwrite`.
    #[must_use]
    pub fn fix_checksum(mut self) -> Self {
        let layer = self.last();
        assert!(matches!(layer.kind, LayerKind::Ipv4 { .. }), "only IPv4's checksum is fixed");
        layer.fix_checksum = true;
        self
    }

    /// Sets the payload of the innermost layer.
    #[must_use]
    pub fn payload(mut self, octets: &[u8]) -> Self {
        self.payload = octets.to_vec();
        self
    }

    /// Appends octets after the packet that no length field counts (Ethernet padding).
    #[must_use]
    pub fn trailer(mut self, octets: &[u8]) -> Self {
        self.trailer = octets.to_vec();
        self
    }

    /// Returns the octets of the packet.
    #[must_use]
    pub fn build(&self) -> Vec<u8> {
        let mut packet = self.payload.clone();
        for index in (0..self.layers.len()).rev() {
            packet = self.wrap(index, &packet);
        }
        packet.extend_from_slice(&self.trailer);
        packet
    }

    fn layer(mut self, kind: LayerKind) -> Self {
        self.layers.push(PacketLayer {
            kind,
            options: Vec::new(),
            extensions: Vec::new(),
            overwrites: Vec::new(),
            fix_checksum: false,
        });
        self
    }

    fn last(&mut self) -> &mut PacketLayer {
        match self.layers.last_mut() {
            Some(layer) => layer,
            None => unreachable!("add a layer before changing it"),
        }
    }

    fn ip(
        mut self,
        ipv4: impl FnOnce(&mut Ipv4Fields),
        ipv6: impl FnOnce(&mut Ipv6Fields),
    ) -> Self {
        match &mut self.last().kind {
            LayerKind::Ipv4 { fields, .. } => ipv4(fields),
            LayerKind::Ipv6 { fields, .. } => ipv6(fields),
            _ => unreachable!("the field belongs to IP"),
        }
        self
    }

    /// Puts the header of the layer with this index in front of `body`.
    fn wrap(&self, index: usize, body: &[u8]) -> Vec<u8> {
        let Some(layer) = self.layers.get(index) else { return body.to_vec() };
        let following = self.layers.get(index + 1).map(|layer| &layer.kind);
        let mut packet = match &layer.kind {
            LayerKind::Ethernet { dst, src, ether_type } => {
                let kind = EtherType(ether_type.unwrap_or_else(|| ether_type_of(following)));
                header(14, |out| EthernetHeader::new(*dst, *src, kind).emit(out))
            }
            LayerKind::Vlan { vlan, ether_type } => {
                let kind = EtherType(ether_type.unwrap_or_else(|| ether_type_of(following)));
                header(4, |out| VlanTag::new(*vlan, 0, kind).emit(out))
            }
            LayerKind::Ipv4 { fields, protocol, flags_offset } => {
                let protocol = protocol.unwrap_or_else(|| protocol_of(following, false));
                let fields = Ipv4Fields { protocol, ..*fields };
                ipv4_header(fields, *flags_offset, &layer.options, body.len())
            }
            LayerKind::Ipv6 { fields, protocol } => {
                let last = protocol.unwrap_or_else(|| protocol_of(following, true));
                ipv6_headers(*fields, last, &layer.extensions, body.len())
            }
            LayerKind::Gtpu { message_type, teid, sequence } => {
                gtpu_headers(*message_type, *teid, *sequence, &layer.extensions, body.len())
            }
            upper => self.upper_header(index, upper, body),
        };
        for (at, octets) in &layer.overwrites {
            let slot = packet.get_mut(*at..at + octets.len());
            assert!(slot.is_some(), "overwrite beyond the header");
            slot.unwrap_or_default().copy_from_slice(octets);
        }
        if layer.fix_checksum {
            put_checksum(&mut packet, 10, Sum::new());
        }
        packet.extend_from_slice(body);
        packet
    }

    /// Builds a header whose checksum covers `body`, and for most protocols a pseudo header.
    fn upper_header(&self, index: usize, kind: &LayerKind, body: &[u8]) -> Vec<u8> {
        let outer = index.checked_sub(1).and_then(|outer| self.layers.get(outer));
        let ipv6 = matches!(outer.map(|outer| &outer.kind), Some(LayerKind::Ipv6 { .. }));
        let (mut packet, at) = match *kind {
            LayerKind::Udp { src_port, dst_port, .. } => {
                let len = low_u16(UdpHeader::LEN + body.len());
                (header(8, |out| UdpHeader::new(src_port, dst_port, len, 0).emit(out)), 6)
            }
            LayerKind::Tcp { src_port, dst_port, flags } => {
                let options = self.layers.get(index).map_or(&[][..], |layer| &layer.options);
                (tcp_header(&TcpHeader::new(src_port, dst_port, 0, flags), options), 16)
            }
            LayerKind::IcmpEcho { reply, identifier, sequence } => {
                let kind = match (ipv6, reply) {
                    (false, false) => adit_wire::icmp::ECHO_REQUEST,
                    (false, true) => adit_wire::icmp::ECHO_REPLY,
                    (true, false) => adit_wire::icmpv6::ECHO_REQUEST,
                    (true, true) => adit_wire::icmpv6::ECHO_REPLY,
                };
                (header(8, |out| IcmpHeader::new(kind, 0, identifier, sequence).emit(out)), 2)
            }
            _ => unreachable!("other layers have no checksum over their payload"),
        };
        if matches!(kind, LayerKind::Udp { checksum: false, .. }) {
            return packet;
        }
        let protocol = protocol_of(Some(kind), ipv6);
        let header_len = packet.len();
        packet.extend_from_slice(body);
        let pseudo = match outer.map(|outer| &outer.kind) {
            Some(LayerKind::Ipv4 { .. }) if protocol == protocol::ICMP => Sum::new(),
            Some(LayerKind::Ipv4 { fields, .. }) => {
                checksum::pseudo_ipv4(fields.src, fields.dst, protocol, low_u16(packet.len()))
            }
            Some(LayerKind::Ipv6 { fields, .. }) => {
                let len = u32::from(low_u16(packet.len()));
                checksum::pseudo_ipv6(fields.src, fields.dst, protocol, len)
            }
            _ => Sum::new(),
        };
        put_checksum(&mut packet, at, pseudo);
        if protocol == protocol::UDP && packet.get(6..8) == Some(&[0, 0]) {
            put(&mut packet, 6, &[0xff, 0xff]);
        }
        packet.truncate(header_len);
        packet
    }
}

/// An IPv4 address, given as an address or as text.
pub trait IntoIpv4 {
    /// Returns the address.
    ///
    /// # Panics
    /// If the text is no address.
    fn into_ipv4(self) -> Ipv4Addr;
}

impl IntoIpv4 for Ipv4Addr {
    fn into_ipv4(self) -> Ipv4Addr {
        self
    }
}

impl IntoIpv4 for &str {
    fn into_ipv4(self) -> Ipv4Addr {
        self.parse().unwrap_or_else(|_| unreachable!("{self} is no IPv4 address"))
    }
}

/// An IPv6 address, given as an address or as text.
pub trait IntoIpv6 {
    /// Returns the address.
    ///
    /// # Panics
    /// If the text is no address.
    fn into_ipv6(self) -> Ipv6Addr;
}

impl IntoIpv6 for Ipv6Addr {
    fn into_ipv6(self) -> Ipv6Addr {
        self
    }
}

impl IntoIpv6 for &str {
    fn into_ipv6(self) -> Ipv6Addr {
        self.parse().unwrap_or_else(|_| unreachable!("{self} is no IPv6 address"))
    }
}

fn ether_type_of(following: Option<&LayerKind>) -> u16 {
    match following {
        Some(LayerKind::Vlan { .. }) => EtherType::VLAN.0,
        Some(LayerKind::Ipv6 { .. }) => EtherType::IPV6.0,
        _ => EtherType::IPV4.0,
    }
}

fn protocol_of(following: Option<&LayerKind>, ipv6: bool) -> u8 {
    match following {
        Some(LayerKind::Udp { .. }) => protocol::UDP,
        Some(LayerKind::Tcp { .. }) => protocol::TCP,
        Some(LayerKind::IcmpEcho { .. }) if ipv6 => protocol::ICMPV6,
        Some(LayerKind::IcmpEcho { .. }) => protocol::ICMP,
        Some(LayerKind::Ipv4 { .. }) => protocol::IPV4,
        Some(LayerKind::Ipv6 { .. }) => protocol::IPV6,
        _ => PROTOCOL_EXPERIMENT,
    }
}

fn tcp_header(fixed: &TcpHeader, options: &[u8]) -> Vec<u8> {
    let mut packet = header(20, |out| fixed.emit(out));
    packet.extend_from_slice(options);
    packet.resize(packet.len().next_multiple_of(4), 0);
    assert!(packet.len() <= 60, "TCP has room for 40 octets of options");
    let words = u8::try_from(packet.len() / 4).unwrap_or(u8::MAX);
    put(&mut packet, 12, &[words << 4]);
    packet
}

fn ipv4_header(fields: Ipv4Fields, flags_offset: u16, options: &[u8], body_len: usize) -> Vec<u8> {
    let mut options = options.to_vec();
    options.resize(options.len().next_multiple_of(4), 0);
    let header_len = Ipv4Header::LEN + options.len();
    assert!(header_len <= 60, "IPv4 has room for 40 octets of options");
    let total_len = low_u16(header_len + body_len);
    let mut packet =
        header(20, |out| Ipv4Header::new(&Ipv4Fields { total_len, ..fields }).emit(out));
    packet.extend_from_slice(&options);
    let words = u8::try_from(header_len / 4).unwrap_or(u8::MAX);
    put(&mut packet, 0, &[0x40 | words]);
    let flags_offset = flags_offset | u16::from(fields.dont_fragment) << 14;
    put(&mut packet, 6, &flags_offset.to_be_bytes());
    put_checksum(&mut packet, 10, Sum::new());
    packet
}

fn ipv6_headers(
    fields: Ipv6Fields,
    last: u8,
    extensions: &[(u8, Vec<u8>)],
    body_len: usize,
) -> Vec<u8> {
    let mut chain = Vec::new();
    for (index, (_, content)) in extensions.iter().enumerate() {
        let len = (2 + content.len()).next_multiple_of(8);
        let next = extensions.get(index + 1).map_or(last, |(kind, _)| *kind);
        let units = u8::try_from(len / 8 - 1).unwrap_or(u8::MAX);
        let start = chain.len();
        chain.extend_from_slice(&[next, units]);
        chain.extend_from_slice(content);
        chain.resize(start + len, 0);
    }
    let next_header = extensions.first().map_or(last, |(kind, _)| *kind);
    let payload_len = low_u16(chain.len() + body_len);
    let fields = Ipv6Fields { payload_len, next_header, ..fields };
    let mut packet = header(40, |out| Ipv6Header::new(&fields).emit(out));
    packet.extend_from_slice(&chain);
    packet
}

fn gtpu_headers(
    message_type: GtpuMessageType,
    teid: Teid,
    sequence: Option<u16>,
    extensions: &[(u8, Vec<u8>)],
    body_len: usize,
) -> Vec<u8> {
    let mut tail = Vec::new();
    let mut flags = 0;
    if sequence.is_some() || !extensions.is_empty() {
        let first = extensions.first().map_or(0, |(kind, _)| *kind);
        let optional = GtpuOptional::new(sequence.unwrap_or(0), ExtensionType(first));
        tail = header(4, |out| optional.emit(out));
        flags |= if sequence.is_some() { FLAG_S } else { 0 };
        flags |= if extensions.is_empty() { 0 } else { FLAG_E };
    }
    for (index, (_, content)) in extensions.iter().enumerate() {
        let len = (2 + content.len()).next_multiple_of(4);
        let start = tail.len();
        tail.push(u8::try_from(len / 4).unwrap_or(u8::MAX));
        tail.extend_from_slice(content);
        tail.resize(start + len - 1, 0);
        tail.push(extensions.get(index + 1).map_or(0, |(kind, _)| *kind));
    }
    let len = low_u16(tail.len() + body_len);
    let mut packet = header(8, |out| GtpuHeader::new(flags, message_type, len, teid).emit(out));
    packet.extend_from_slice(&tail);
    packet
}

fn header(len: usize, emit: impl FnOnce(&mut [u8]) -> Result<(), Malformed>) -> Vec<u8> {
    let mut out = vec![0xa5; len];
    if emit(&mut out).is_err() {
        unreachable!("the length is that of the header");
    }
    out
}

fn put(packet: &mut [u8], at: usize, octets: &[u8]) {
    for (slot, octet) in packet.iter_mut().skip(at).zip(octets) {
        *slot = *octet;
    }
}

fn put_checksum(packet: &mut [u8], at: usize, pseudo: Sum) {
    put(packet, at, &[0, 0]);
    let sum = pseudo.bytes(packet).checksum();
    put(packet, at, &sum.to_be_bytes());
}

fn low_u16(len: usize) -> u16 {
    u16::try_from(len).unwrap_or_else(|_| unreachable!("a packet of {len} octets has no length"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use adit_wire::{FragmentKind, PduType, five_tuple, parse_frame, parse_gtpu, parse_ip};

    const DST: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
    const SRC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

    #[test]
    fn builder_uplink_frame_parses_layer_by_layer() {
        let frame = PacketBuilder::ethernet(DST, SRC)
            .vlan(100)
            .ipv4("10.0.0.1", "10.0.0.2")
            .gtpu(0x1234)
            .sequence(7)
            .extension(0x40, &[1, 2])
            .psc_ul(9)
            .ipv6("2001:db8::1", "2001:db8::2")
            .ttl(5)
            .extension(protocol::HOP_BY_HOP, &[1, 4, 0, 0, 0, 0])
            .udp(1000, 2000)
            .payload(b"hello")
            .trailer(&[0; 3])
            .build();
        let link = parse_frame(&frame).unwrap();
        assert_eq!((link.dst, link.vlan.value(), link.l3_offset), (DST, 100, 18));
        let packet = &frame[18..];
        let ip = parse_ip(packet, true).unwrap();
        assert_eq!(usize::from(ip.total_len), packet.len() - 3);
        let (udp, message) = UdpHeader::parse(ip.payload(packet)).unwrap();
        assert_eq!((udp.dst_port(), udp.checksum()), (UDP_PORT, 0));
        let gtpu = parse_gtpu(message).unwrap();
        assert_eq!((gtpu.teid, gtpu.sequence), (Teid(0x1234), Some(7)));
        let psc = gtpu.psc.unwrap();
        assert_eq!((psc.pdu_type, psc.qfi.value()), (PduType::Uplink, 9));
        let inner = gtpu.payload(message);
        let inner_ip = parse_ip(inner, true).unwrap();
        assert_eq!((inner_ip.ttl, inner_ip.payload_offset), (5, 48));
        let tuple = five_tuple(inner, &inner_ip);
        assert_eq!((tuple.src_port, tuple.dst_port), (1000, 2000));
        let datagram = inner_ip.payload(inner);
        let adit_wire::IpAddrs::V6 { src, dst } = inner_ip.addrs else { panic!("family") };
        assert_eq!(adit_wire::udp::verify_ipv6(src, dst, datagram), Ok(()));
    }

    #[test]
    fn builder_icmp_of_both_families_has_right_checksums() {
        let v4 = PacketBuilder::new().ipv4("1.1.1.1", "2.2.2.2").icmp_echo(1, 2).build();
        let ip = parse_ip(&v4, true).unwrap();
        let (echo, _) = IcmpHeader::parse(ip.payload(&v4)).unwrap();
        assert_eq!((echo.kind(), echo.identifier(), echo.sequence()), (8, 1, 2));
        let v6 = PacketBuilder::new().ipv6("::1", "::2").icmp_echo_reply(1, 2).build();
        let pseudo =
            adit_wire::icmpv6::PseudoHeader { src: "::1".into_ipv6(), dst: "::2".into_ipv6() };
        let ip = parse_ip(&v6, true).unwrap();
        let echo = adit_wire::icmpv6::Icmpv6Header::parse(&pseudo, ip.payload(&v6));
        assert_eq!(echo.unwrap().0.kind(), adit_wire::icmpv6::ECHO_REPLY);
    }

    #[test]
    fn builder_tcp_over_ipv4_sums_to_zero() {
        let packet = PacketBuilder::new().ipv4("1.1.1.1", "2.2.2.2").tcp(1, 2, 2).payload(b"x");
        let packet = packet.build();
        let segment = &packet[20..];
        let pseudo = checksum::pseudo_ipv4("1.1.1.1".into_ipv4(), "2.2.2.2".into_ipv4(), 6, 21);
        assert_eq!(pseudo.bytes(segment).checksum(), 0);
    }

    #[test]
    fn builder_options_fragment_and_wrong_values_arrive() {
        let base = PacketBuilder::new().ipv4("1.1.1.1", "2.2.2.2").options(&[7, 3, 4]);
        let fragment = base.clone().fragment(9, 185, true).payload(&[0; 16]).build();
        let ip = parse_ip(&fragment, true).unwrap();
        assert_eq!((ip.payload_offset, ip.fragment), (24, FragmentKind::Later));
        let wrong = base.clone().overwrite(10, &[0xde, 0xad]).build();
        assert_eq!(parse_ip(&wrong, true), Err(Malformed::BadChecksum));
        let other = base.overwrite(8, &[1]).fix_checksum().build();
        assert_eq!(parse_ip(&other, true).map(|ip| ip.ttl), Ok(1));
    }
}
