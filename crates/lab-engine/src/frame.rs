//! Frame templates. The engine copies a template into a buffer and completes it for each packet.
//!
//! The template fixes all lengths. Each packet gets its UE address, tunnel, gNB, stamp and
//! checksums.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_types::{MacAddr, Teid, VlanId};
use adit_wire::checksum::{Sum, pseudo_ipv4, pseudo_ipv6};
use adit_wire::ethernet::EthernetHeader;
use adit_wire::ipv4::{Ipv4Fields, Ipv4Header};
use adit_wire::ipv6::{Ipv6Fields, Ipv6Header};
use adit_wire::tcp::TcpHeader;
use adit_wire::udp::UdpHeader;
use adit_wire::{
    EtherType, Malformed, OuterIpv4, OuterIpv6, PduSessionContainer, UdpChecksum, emit_gtpu_ipv4,
    emit_gtpu_ipv6, protocol,
};

use super::plan::PlannedPacket;
use super::stamp::{STAMP_BYTES, Stamp};

/// UDP or TCP port of both ends of the probe packets.
pub const PROBE_PORT: u16 = 47_127;

/// Protocols of the UEs' packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum UePacketKind {
    /// UDP over IPv4, without UDP checksum.
    Udp4,
    /// UDP over IPv6.
    Udp6,
    /// A TCP segment over IPv4.
    Tcp4,
    /// A TCP segment over IPv6.
    Tcp6,
}

impl UePacketKind {
    /// True for IPv6.
    #[must_use]
    pub const fn is_ipv6(self) -> bool {
        matches!(self, Self::Udp6 | Self::Tcp6)
    }

    const fn is_tcp(self) -> bool {
        matches!(self, Self::Tcp4 | Self::Tcp6)
    }

    const fn ip_header_len(self) -> usize {
        if self.is_ipv6() { Ipv6Header::LEN } else { Ipv4Header::LEN }
    }

    const fn headers_len(self) -> usize {
        self.ip_header_len() + if self.is_tcp() { TcpHeader::LEN } else { UdpHeader::LEN }
    }

    /// Returns the length of the shortest IP packet that holds a stamp. Unit: octets.
    #[must_use]
    pub const fn len_min(self) -> usize {
        self.headers_len() + STAMP_BYTES
    }
}

/// Addresses of the UEs and of their server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoints {
    /// IPv4 address of the UE of session 0; session *k* has this address plus *k*.
    pub ue_v4: Ipv4Addr,
    /// /64 prefix of the UE of session 0; session *k* has the *k*-th /64 after it.
    pub ue_v6: Ipv6Addr,
    /// IPv4 address of the server.
    pub server_v4: Ipv4Addr,
    /// IPv6 address of the server.
    pub server_v6: Ipv6Addr,
}

impl Endpoints {
    /// Returns the IPv4 address of the UE of a session.
    #[must_use]
    pub fn ue_v4(&self, session: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.ue_v4.to_bits().wrapping_add(session))
    }

    /// Returns the /64 prefix of the UE of a session.
    #[must_use]
    pub fn ue_v6(&self, session: u32) -> Ipv6Addr {
        Ipv6Addr::from_bits(self.ue_v6.to_bits().wrapping_add(u128::from(session) << 64))
    }
}

/// The GTP-U tunnel of sent packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TesterTunnel {
    /// GTP-U address of the UPF; its family is that of the outer headers.
    pub upf: IpAddr,
    /// Address of a gNB. [`Template::write`] replaces the low 32 bits for the session's gNB.
    pub gnb: IpAddr,
    /// PDU Session Container; `None` for G-PDUs without one.
    pub psc: Option<PduSessionContainer>,
}

/// The fields that all frames of a stream share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameFormat {
    /// MAC address of the sending port.
    pub src_mac: MacAddr,
    /// MAC address of the next hop.
    pub dst_mac: MacAddr,
    /// VLAN, or untagged.
    pub vlan: VlanId,
    /// GTP-U tunnel; `None` for plain IP.
    pub tunnel: Option<TesterTunnel>,
    /// True if the UE is the source.
    pub uplink: bool,
    /// Protocols of the UEs' packets.
    pub inner: UePacketKind,
    /// Addresses of the UEs' packets.
    pub endpoints: Endpoints,
}

/// Why a frame is impossible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// The packet is too short for its headers and the stamp.
    TooShort {
        /// Shortest IP packet.
        min: usize,
    },
    /// The packet is longer than its length fields allow.
    TooLong,
}

impl std::fmt::Display for FrameError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooShort { min } => {
                write!(
                    f,
                    "headers and stamp of these packets need an IP packet of at least {min} bytes"
                )
            }
            Self::TooLong => f.write_str("the packet is longer than 65,535 bytes"),
        }
    }
}

impl std::error::Error for FrameError {}

impl From<Malformed> for FrameError {
    fn from(_: Malformed) -> Self {
        Self::TooLong
    }
}

/// Position and first value of the UE's address. For IPv4 also the position of the header checksum,
/// and the sum over the rest of the header.
#[derive(Debug, Clone, Copy)]
enum UeAddressField {
    V4 { at: usize, checksum_at: usize, sum: Sum, first: u32 },
    V6 { at: usize, first: u64 },
}

/// The part of the outer headers that differs between packets.
#[derive(Debug, Clone, Copy)]
enum OuterTemplate {
    /// `sum`: of the IP header with zero as gNB and checksum.
    V4 { ip_at: usize, sum: Sum },
    /// `pseudo`: sum of the pseudo-header, for IPv6's UDP checksum. Spec: RFC 8200 §8.1.
    V6 { ip_at: usize, pseudo: Sum },
}

/// A frame of one stream and size without the fields that differ between packets.
#[derive(Debug)]
pub struct Template {
    bytes: Vec<u8>,
    outer: Option<OuterTemplate>,
    ue: UeAddressField,
    /// Position of the TCP or UDP checksum, and the sum of everything except UE address and stamp;
    /// `None` for UDP over IPv4, which goes without a checksum.
    upper: Option<(usize, Sum)>,
    stamp_at: usize,
    is_tcp: bool,
    ip_len: u32,
}

impl Template {
    /// Builds a template whose inner IP packet has `len` octets.
    ///
    /// # Errors
    /// See [`FrameError`].
    pub fn new(form: &FrameFormat, len: usize) -> Result<Self, FrameError> {
        let min = form.inner.len_min();
        if len < min {
            return Err(FrameError::TooShort { min });
        }
        let inner_len = u16::try_from(len).map_err(|_| FrameError::TooLong)?;
        let mut bytes = front(form, inner_len)?;
        let inner_at = bytes.len();
        let packet = inner_packet(form, inner_len)?;
        let upper_at = inner_at + form.inner.ip_header_len();
        let checksum_at = upper_at + if form.inner.is_tcp() { 16 } else { 6 };
        let needs_sum = form.inner != UePacketKind::Udp4;
        let upper = needs_sum.then(|| (checksum_at, transport_sum(form, &packet)));
        let ue = ue_address(form, inner_at, &packet);
        bytes.extend(packet);
        let outer = form.tunnel.map(|tunnel| OuterTemplate::new(&tunnel, form.vlan, &bytes));
        let stamp_at = inner_at + form.inner.headers_len();
        let is_tcp = form.inner.is_tcp();
        let ip_len = u32::from(inner_len);
        Ok(Self { bytes, outer, ue, upper, stamp_at, is_tcp, ip_len })
    }

    /// Returns the length of the frame without FCS. Unit: octets.
    #[inline]
    #[must_use]
    pub fn frame_len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the length of the UE's IP packet. Unit: octets.
    #[inline]
    #[must_use]
    pub fn ip_len(&self) -> u32 {
        self.ip_len
    }

    /// Writes a whole frame to `out`; writes nothing unless `out` has [`Self::frame_len`] octets.
    #[inline]
    pub fn write(&self, out: &mut [u8], entry: &PlannedPacket, stamp: Stamp) {
        if out.len() != self.bytes.len() {
            return;
        }
        out.copy_from_slice(&self.bytes);
        if let Some(outer) = &self.outer {
            outer.complete(out, entry);
        }
        let stamp_bytes = stamp.to_bytes();
        put(out, self.stamp_at, stamp_bytes);
        let ue_sum = match self.ue {
            UeAddressField::V4 { at, checksum_at, sum, first } => {
                let address = first.wrapping_add(entry.session);
                put(out, at, address.to_be_bytes());
                put(out, checksum_at, sum.long(address).checksum().to_be_bytes());
                Sum::new().long(address)
            }
            UeAddressField::V6 { at, first } => {
                let prefix = first.wrapping_add(u64::from(entry.session)).to_be_bytes();
                put(out, at, prefix);
                Sum::new().bytes(&prefix)
            }
        };
        if let Some((at, sum)) = self.upper {
            let [ue_hi, ue_lo] = ue_sum.fold().to_be_bytes();
            let sum = sum.bytes(&stamp_bytes).word(u16::from_be_bytes([ue_hi, ue_lo]));
            let checksum = if self.is_tcp { sum.checksum() } else { sum.udp_checksum() };
            put(out, at, checksum.to_be_bytes());
        }
        if let Some(outer) = &self.outer {
            outer.write_udp_checksum(out, entry);
        }
    }
}

impl OuterTemplate {
    /// Computes the template from a frame whose gNB, source port and TEID are zero.
    fn new(tunnel: &TesterTunnel, vlan: VlanId, frame: &[u8]) -> Self {
        let ip_at = adit_wire::ethernet::link_len(vlan);
        if let IpAddr::V6(upf) = tunnel.upf {
            let datagram = frame.get(ip_at + Ipv6Header::LEN..).unwrap_or_default();
            let len = u32::try_from(datagram.len()).unwrap_or(u32::MAX);
            let pseudo = pseudo_ipv6(upper_96_bits(tunnel.gnb), upf, protocol::UDP, len);
            return Self::V6 { ip_at, pseudo };
        }
        let mut header = frame.get(ip_at..ip_at + Ipv4Header::LEN).unwrap_or_default().to_vec();
        put(&mut header, 10, [0; 2]);
        Self::V4 { ip_at, sum: Sum::new().bytes(&header) }
    }

    #[inline]
    fn complete(&self, out: &mut [u8], entry: &PlannedPacket) {
        let udp = match *self {
            Self::V4 { ip_at, sum } => {
                put(out, ip_at + 10, sum.long(entry.gnb).checksum().to_be_bytes());
                put(out, ip_at + 12, entry.gnb.to_be_bytes());
                ip_at + Ipv4Header::LEN
            }
            Self::V6 { ip_at, .. } => {
                put(out, ip_at + 20, entry.gnb.to_be_bytes());
                ip_at + Ipv6Header::LEN
            }
        };
        put(out, udp, entry.source_port.to_be_bytes());
        put(out, udp + 12, entry.teid.to_be_bytes());
    }

    /// Writes the UDP checksum over IPv6. Must run last: the checksum covers the rest of the frame.
    #[inline]
    fn write_udp_checksum(&self, out: &mut [u8], entry: &PlannedPacket) {
        let Self::V6 { ip_at, pseudo } = *self else { return };
        let udp = ip_at + Ipv6Header::LEN;
        let sum = pseudo.long(entry.gnb).bytes(out.get(udp..).unwrap_or_default());
        put(out, udp + 6, sum.udp_checksum().to_be_bytes());
    }
}

/// Returns an IPv6 address with zero as its low 32 bits.
fn upper_96_bits(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u32::MAX)),
        IpAddr::V4(_) => Ipv6Addr::UNSPECIFIED,
    }
}

#[inline]
fn put<const N: usize>(out: &mut [u8], at: usize, bytes: [u8; N]) {
    if let Some(slot) = out.get_mut(at..at + N) {
        slot.copy_from_slice(&bytes);
    }
}

/// Returns all headers before the inner packet.
fn front(form: &FrameFormat, inner_len: u16) -> Result<Vec<u8>, FrameError> {
    let FrameFormat { src_mac, dst_mac, vlan, .. } = *form;
    if let Some(TesterTunnel { upf: IpAddr::V6(upf), gnb, psc }) = form.tunnel {
        let outer = OuterIpv6 {
            src_mac,
            dst_mac,
            vlan,
            src: upper_96_bits(gnb),
            dst: upf,
            traffic_class: 0,
            flow_label: 0,
            src_port: 0,
            teid: Teid(0),
            psc,
            service_class: None,
            inner_len,
            udp_checksum: UdpChecksum::Zero,
        };
        let mut bytes = vec![0; outer.len()];
        emit_gtpu_ipv6(&mut bytes, &outer)?;
        return Ok(bytes);
    }
    if let Some(TesterTunnel { upf: IpAddr::V4(upf), psc, .. }) = form.tunnel {
        let outer = OuterIpv4 {
            src_mac,
            dst_mac,
            vlan,
            src: Ipv4Addr::UNSPECIFIED,
            dst: upf,
            tos: 0,
            identification: 0,
            src_port: 0,
            teid: Teid(0),
            psc,
            service_class: None,
            inner_len,
        };
        let mut bytes = vec![0; outer.len()];
        emit_gtpu_ipv4(&mut bytes, &outer)?;
        return Ok(bytes);
    }
    let ether_type = if form.inner.is_ipv6() { EtherType::IPV6 } else { EtherType::IPV4 };
    let mut bytes = vec![0; adit_wire::ethernet::link_len(vlan)];
    if vlan == VlanId::UNTAGGED {
        EthernetHeader::new(dst_mac, src_mac, ether_type).emit(&mut bytes)?;
    } else {
        adit_wire::ethernet::emit_link(&mut bytes, dst_mac, src_mac, vlan, ether_type)?;
    }
    Ok(bytes)
}

/// Returns the inner packet with zero as UE address, checksums and stamp.
fn inner_packet(form: &FrameFormat, len: u16) -> Result<Vec<u8>, FrameError> {
    let mut bytes = vec![0; usize::from(len)];
    let ip_len = form.inner.ip_header_len();
    let protocol = if form.inner.is_tcp() { protocol::TCP } else { protocol::UDP };
    let endpoints = &form.endpoints;
    let upper_len = len.saturating_sub(u16::try_from(ip_len).unwrap_or_default());
    if form.inner.is_ipv6() {
        // Every UE has interface identifier 1; [`Template::write`] sets the prefix.
        let ue = Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, 1);
        let server = endpoints.server_v6;
        let (src, dst) = if form.uplink { (ue, server) } else { (server, ue) };
        Ipv6Header::new(&Ipv6Fields {
            traffic_class: 0,
            flow_label: 0,
            payload_len: upper_len,
            next_header: protocol,
            hop_limit: 64,
            src,
            dst,
        })
        .emit(&mut bytes)?;
    } else {
        let (ue, server) = (Ipv4Addr::UNSPECIFIED, endpoints.server_v4);
        let (src, dst) = if form.uplink { (ue, server) } else { (server, ue) };
        Ipv4Header::new(&Ipv4Fields {
            tos: 0,
            total_len: len,
            identification: 0,
            dont_fragment: true,
            ttl: 64,
            protocol,
            src,
            dst,
        })
        .emit(&mut bytes)?;
        put(&mut bytes, 10, [0; 2]);
    }
    let upper = bytes.get_mut(ip_len..).unwrap_or_default();
    if form.inner.is_tcp() {
        TcpHeader::new(PROBE_PORT, PROBE_PORT, 0, TcpHeader::ACK).emit(upper)?;
    } else {
        UdpHeader::new(PROBE_PORT, PROBE_PORT, upper_len, 0).emit(upper)?;
    }
    Ok(bytes)
}

/// Returns the sum over pseudo-header and segment, with zero as UE address and stamp.
fn transport_sum(form: &FrameFormat, packet: &[u8]) -> Sum {
    let ip_len = form.inner.ip_header_len();
    let segment = packet.get(ip_len..).unwrap_or_default();
    let protocol = if form.inner.is_tcp() { protocol::TCP } else { protocol::UDP };
    let len = u16::try_from(segment.len()).unwrap_or(u16::MAX);
    let pseudo = if form.inner.is_ipv6() {
        let interface = Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, 1);
        pseudo_ipv6(interface, form.endpoints.server_v6, protocol, u32::from(len))
    } else {
        pseudo_ipv4(Ipv4Addr::UNSPECIFIED, form.endpoints.server_v4, protocol, len)
    };
    pseudo.bytes(segment)
}

fn ue_address(form: &FrameFormat, inner_at: usize, packet: &[u8]) -> UeAddressField {
    if form.inner.is_ipv6() {
        let at = inner_at + if form.uplink { 8 } else { 24 };
        let [hi, _] = halves(form.endpoints.ue_v6.to_bits());
        UeAddressField::V6 { at, first: hi }
    } else {
        let sum = Sum::new().bytes(packet.get(..Ipv4Header::LEN).unwrap_or_default());
        let at = inner_at + if form.uplink { 12 } else { 16 };
        let first = form.endpoints.ue_v4.to_bits();
        UeAddressField::V4 { at, checksum_at: inner_at + 10, sum, first }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the halves are wanted")]
const fn halves(value: u128) -> [u64; 2] {
    [(value >> 64) as u64, value as u64]
}

#[cfg(test)]
pub(crate) mod tests {
    use adit_types::Qfi;
    use adit_wire::{parse_frame, parse_gtpu, parse_ip};

    use super::*;

    pub(crate) fn form(inner: UePacketKind, uplink: bool, psc: bool) -> FrameFormat {
        let container = PduSessionContainer::uplink(Qfi::new(9).unwrap());
        FrameFormat {
            src_mac: MacAddr([2, 0, 0, 0, 0, 1]),
            dst_mac: MacAddr([2, 0, 0, 0, 0, 2]),
            vlan: VlanId::UNTAGGED,
            tunnel: uplink.then(|| TesterTunnel {
                upf: Ipv4Addr::new(10, 0, 3, 2).into(),
                gnb: Ipv4Addr::new(10, 0, 3, 1).into(),
                psc: psc.then_some(container),
            }),
            uplink,
            inner,
            endpoints: Endpoints {
                ue_v4: Ipv4Addr::new(10, 60, 255, 250),
                ue_v6: "2001:db8:60::".parse().unwrap(),
                server_v4: Ipv4Addr::new(198, 18, 0, 1),
                server_v6: "2001:db8:6::1".parse().unwrap(),
            },
        }
    }

    pub(crate) const ENTRY: PlannedPacket = PlannedPacket {
        session: 70_000,
        teid: 0x0102_0304,
        gnb: 0x0a00_0301,
        source_port: 2160,
        size: 0,
    };

    const STAMP: Stamp = Stamp { tag: 5, session: 70_000, sequence: 0xdead_beef, intended: 77 };

    pub(crate) fn frame(form: &FrameFormat, len: usize) -> Vec<u8> {
        let template = Template::new(form, len).unwrap();
        let mut out = vec![0xa5; template.frame_len()];
        template.write(&mut out, &ENTRY, STAMP);
        out
    }

    /// Checks addresses and checksums of the inner packet.
    fn check_inner(form: &FrameFormat, packet: &[u8]) {
        let ip = parse_ip(packet, true).unwrap();
        let payload = ip.payload(packet);
        let protocol = if form.inner.is_tcp() { protocol::TCP } else { protocol::UDP };
        if form.inner.is_ipv6() {
            let (header, _) = Ipv6Header::parse(packet).unwrap();
            let ue = if form.uplink { header.src() } else { header.dst() };
            let wanted = form.endpoints.ue_v6(70_000).to_bits() | 1;
            assert_eq!(ue, Ipv6Addr::from_bits(wanted));
            let len = u32::try_from(payload.len()).unwrap();
            let sum = pseudo_ipv6(header.src(), header.dst(), protocol, len).bytes(payload);
            assert_eq!(sum.checksum(), 0, "checksum of {:?}", form.inner);
        } else {
            let (header, _) = Ipv4Header::parse(packet).unwrap();
            let ue = if form.uplink { header.src() } else { header.dst() };
            assert_eq!(ue, form.endpoints.ue_v4(70_000));
            let len = u16::try_from(payload.len()).unwrap();
            let sum = pseudo_ipv4(header.src(), header.dst(), protocol, len).bytes(payload);
            assert!(sum.checksum() == 0 || form.inner == UePacketKind::Udp4);
        }
        assert!(payload.windows(STAMP_BYTES).any(|window| window == STAMP.to_bytes()));
    }

    #[test]
    fn uplink_frame_is_a_valid_g_pdu_of_its_session() {
        for inner in
            [UePacketKind::Udp4, UePacketKind::Udp6, UePacketKind::Tcp4, UePacketKind::Tcp6]
        {
            for psc in [false, true] {
                let form = form(inner, true, psc);
                let bytes = frame(&form, 101);
                assert_eq!(bytes.len(), 101 + if psc { 58 } else { 50 });
                let link = parse_frame(&bytes).unwrap();
                assert_eq!(link.ether_type, EtherType::IPV4);
                let outer = parse_ip(&bytes[14..], true).unwrap();
                assert_eq!(outer.payload_len(), 101 + if psc { 24 } else { 16 });
                assert_eq!(bytes[26..30], [10, 0, 3, 1]);
                assert_eq!(bytes[34..36], 2160u16.to_be_bytes());
                let message = &bytes[42..];
                let gtpu = parse_gtpu(message).unwrap();
                assert_eq!((gtpu.teid, gtpu.psc.is_some()), (Teid(0x0102_0304), psc));
                check_inner(&form, gtpu.payload(message));
            }
        }
    }

    pub(crate) const UPF_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 3, 0, 0, 0, 0, 2);

    /// Returns `form` with its tunnel over IPv6.
    pub(crate) fn over_ipv6(mut form: FrameFormat) -> FrameFormat {
        let gnb = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 3, 0, 0, 1, 0, 0x10));
        form.tunnel = form.tunnel.map(|tunnel| TesterTunnel { upf: UPF_V6.into(), gnb, ..tunnel });
        form
    }

    #[test]
    fn g_pdu_over_ipv6_has_its_gnb_and_a_valid_udp_checksum() {
        for inner in
            [UePacketKind::Udp4, UePacketKind::Udp6, UePacketKind::Tcp4, UePacketKind::Tcp6]
        {
            for (psc, vlan) in [(false, 0), (true, 0), (true, 7)] {
                let mut form = over_ipv6(form(inner, true, psc));
                form.vlan = VlanId::new(vlan).unwrap_or(VlanId::UNTAGGED);
                // The checksum pads odd lengths with a zero octet.
                for len in [100, 101] {
                    let bytes = frame(&form, len);
                    let link = parse_frame(&bytes).unwrap();
                    assert_eq!(link.ether_type, EtherType::IPV6);
                    let packet = &bytes[if vlan == 0 { 14 } else { 18 }..];
                    let (ip, datagram) = Ipv6Header::parse(packet).unwrap();
                    assert_eq!(ip.dst(), UPF_V6);
                    assert_eq!(ip.src(), "2001:db8:3::1:a00:301".parse::<Ipv6Addr>().unwrap());
                    assert_ne!(datagram[6..8], [0, 0]);
                    adit_wire::udp::verify_ipv6(ip.src(), ip.dst(), datagram).unwrap();
                    assert_eq!(datagram[0..2], 2160u16.to_be_bytes());
                    let gtpu = parse_gtpu(&datagram[8..]).unwrap();
                    assert_eq!((gtpu.teid, gtpu.psc.is_some()), (Teid(0x0102_0304), psc));
                    check_inner(&form, gtpu.payload(&datagram[8..]));
                }
            }
        }
    }

    #[test]
    fn downlink_frame_is_a_valid_packet_to_its_ue() {
        for inner in
            [UePacketKind::Udp4, UePacketKind::Udp6, UePacketKind::Tcp4, UePacketKind::Tcp6]
        {
            let form = form(inner, false, false);
            let bytes = frame(&form, 92);
            assert_eq!(bytes.len(), 106);
            check_inner(&form, &bytes[14..]);
        }
    }

    #[test]
    fn shortest_g_pdu_without_container_has_ninety_octets_and_no_shorter_is_made() {
        let form = form(UePacketKind::Udp4, true, false);
        assert_eq!(frame(&form, 40).len(), 90);
        assert_eq!(Template::new(&form, 39).unwrap_err(), FrameError::TooShort { min: 40 });
        assert_eq!(Template::new(&form, 65_530).unwrap_err(), FrameError::TooLong);
    }
}
