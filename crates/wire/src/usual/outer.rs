//! Writes the outer headers of packets that leave in a tunnel.

use core::net::Ipv4Addr;

use adit_types::{Direction, MacAddr, Qfi, Teid};

use super::layout::{
    CONTAINER_LEN, Container, DOWNLINK, EXTENDED_LEN, FrameExtended, FrameGPdu, G_PDU_LEN,
    IP_HEADERS_LEN, IPV4_LEN, UDP, UPLINK, at,
};
use super::rewrite::UsualLinkHeader;
use crate::encapsulate::OUTER_TTL;
use crate::ether_type::EtherType;
use crate::ethernet::EthernetHeader;
use crate::gtpu::{FLAG_E, GtpuHeader, GtpuMessageType, GtpuOptional, UDP_PORT, VERSION_1};
use crate::gtpu_ext::ExtensionType;
use crate::ipv4::{Ipv4Fields, Ipv4Header};
use crate::udp::UdpHeader;

/// Returns the checksum of a header with at most 2^16 words, whose sum is `sum`.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "what is left has 16 bits")]
const fn fold_checksum(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum + (sum >> 16)) as u16)
}

/// Writes the usual outer headers of packets that leave through one interface: untagged Ethernet,
/// IPv4, UDP without a checksum, GTP-U with at most one PDU Session Container.
///
/// PERF (wire/usual): all constant octets are copied at once.
#[derive(Debug, Clone, Copy)]
pub struct UsualOuter {
    headers: [u8; EXTENDED_LEN],
    /// Sum of the constant words of the IPv4 header; they are too few to overflow.
    sum: u32,
}

/// The fields of usual outer headers that depend on the tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsualTunnel<A = Ipv4Addr> {
    /// Address of the tunnel's far end.
    pub dst: A,
    /// Type of service octet of the outer header.
    pub tos: u8,
    /// TEID of the far end.
    pub teid: Teid,
    /// QoS flow and reflective QoS indication (downlink only) of the container, if it has one.
    pub marking: Option<(Qfi, bool)>,
}

impl UsualTunnel<Ipv4Addr> {
    /// Returns the length of all headers, Ethernet included. Unit: octets.
    #[inline]
    #[must_use]
    pub const fn headers_len(&self) -> usize {
        if self.marking.is_some() { EXTENDED_LEN } else { G_PDU_LEN }
    }

    /// Returns the length of the IP packet around `inner_len` octets; `None` above 65,535.
    #[inline]
    #[must_use]
    pub fn ip_len(&self, inner_len: u16) -> Option<u16> {
        let container = if self.marking.is_some() { CONTAINER_LEN } else { 0 };
        inner_len.checked_add(IP_HEADERS_LEN + container)
    }
}

impl UsualOuter {
    /// Prepares headers with our address `src`.
    #[must_use]
    pub fn new(src: Ipv4Addr) -> Self {
        // [`UsualOuter::emit`] writes the addresses of the link.
        const NO_MAC: MacAddr = MacAddr([0; 6]);
        let ip = Ipv4Header::new(&Ipv4Fields {
            tos: 0,
            total_len: 0,
            identification: 0,
            dont_fragment: true,
            ttl: OUTER_TTL,
            protocol: UDP,
            src,
            dst: Ipv4Addr::UNSPECIFIED,
        });
        let headers = FrameExtended {
            plain: FrameGPdu {
                link: EthernetHeader::new(NO_MAC, NO_MAC, EtherType::IPV4),
                ip,
                udp: UdpHeader::new(UDP_PORT, UDP_PORT, 0, 0),
                gtpu: GtpuHeader::new(FLAG_E, GtpuMessageType::G_PDU, 0, Teid(0)),
            },
            optional: GtpuOptional::new(0, ExtensionType::PDU_SESSION_CONTAINER),
            container: Container { len: 1, pdu_type: DOWNLINK, qfi: 0, next_extension: 0 },
        };
        // The sum is the complement of the checksum.
        Self { headers: zerocopy::transmute!(headers), sum: u32::from(!ip.checksum()) }
    }

    /// Writes the headers of a packet of `inner_len` octets at the front of `out`: the same octets
    /// as [`crate::emit_gtpu_ipv4`], but with the Ethernet header `link` and a container of
    /// `direction`. Returns the octets after the headers. `None`, with nothing written, if `out` is
    /// too short or a length field would overflow.
    #[inline(always)]
    #[must_use]
    pub fn emit<'o>(
        &self,
        tunnel: &UsualTunnel,
        link: &UsualLinkHeader,
        direction: Direction,
        inner_len: u16,
        out: &'o mut [u8],
    ) -> Option<&'o mut [u8]> {
        let ip_len = tunnel.ip_len(inner_len)?;
        let Some((qfi, reflective)) = tunnel.marking else {
            let (headers, _) = self.headers.split_first_chunk::<G_PDU_LEN>()?;
            let (out, inner) = out.split_first_chunk_mut::<G_PDU_LEN>()?;
            *out = *headers;
            out[at::FLAGS] = VERSION_1;
            self.write_headers(tunnel, link, ip_len, out);
            return Some(inner);
        };
        let (out, inner) = out.split_first_chunk_mut::<EXTENDED_LEN>()?;
        *out = self.headers;
        if direction == Direction::Uplink {
            out[at::PDU_TYPE] = UPLINK;
        }
        out[at::QFI] = qfi.value() | if reflective { 0x40 } else { 0 };
        self.write_headers(tunnel, link, ip_len, out);
        Some(inner)
    }

    /// Writes the variable fields into a copy of the headers.
    #[inline(always)]
    fn write_headers<const LEN: usize>(
        &self,
        tunnel: &UsualTunnel,
        link: &UsualLinkHeader,
        ip_len: u16,
        out: &mut [u8; LEN],
    ) {
        let dst = tunnel.dst.to_bits();
        let sum =
            self.sum + u32::from(tunnel.tos) + u32::from(ip_len) + (dst >> 16) + (dst & 0xffff);
        link.write(out);
        out[at::TOS] = tunnel.tos;
        out[at::TOTAL_LEN..][..2].copy_from_slice(&ip_len.to_be_bytes());
        out[at::CHECKSUM..][..2].copy_from_slice(&fold_checksum(sum).to_be_bytes());
        out[at::DST..][..4].copy_from_slice(&dst.to_be_bytes());
        out[at::UDP_LEN..][..2].copy_from_slice(&(ip_len - IPV4_LEN).to_be_bytes());
        out[at::GTPU_LEN..][..2].copy_from_slice(&(ip_len - IP_HEADERS_LEN).to_be_bytes());
        out[at::TEID..][..4].copy_from_slice(&tunnel.teid.0.to_be_bytes());
    }
}
