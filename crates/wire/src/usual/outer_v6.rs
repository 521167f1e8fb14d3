//! Writes the outer headers of packets that leave in a tunnel over IPv6.

use core::net::Ipv6Addr;

use adit_types::{Direction, MacAddr, Qfi, Teid, VlanId};

use super::layout::{
    CONTAINER_LEN, EXTENDED_LEN, G_PDU_LEN, IP_HEADERS_LEN, IPV4_LEN, IPV6_LEN, UDP, UPLINK, at,
};
use super::outer::UsualTunnel;
use super::over_v6::{DST, IPV6_SHIFT, SRC, UPPER, native_sum};
use super::rewrite::{UsualLinkHeader, decrement_usual_hops};
use crate::PduSessionContainer;
use crate::encapsulate::{OuterIpv6, UdpChecksum, emit_gtpu_ipv6};
use crate::gtpu::UDP_PORT;

/// Lengths of all headers, without a container and with one. Unit: octets.
const PLAIN_LEN: usize = G_PDU_LEN + IPV6_SHIFT;
const CONTAINED_LEN: usize = EXTENDED_LEN + IPV6_SHIFT;

/// Offset of the payload length in a frame.
const PAYLOAD_LEN: usize = at::IP + 4;

/// Offset of the UDP checksum in a frame.
const CHECKSUM: usize = UPPER + 6;

/// Writes the usual outer headers of packets that leave through one interface: untagged Ethernet,
/// IPv6, UDP with a checksum, GTP-U with at most one PDU Session Container.
///
/// PERF (wire/usual): all constant octets are copied, and added to the checksum, at once.
#[derive(Debug, Clone, Copy)]
pub struct UsualOuterV6 {
    plain: [u8; PLAIN_LEN],
    contained: [u8; CONTAINED_LEN],
    /// Sums of the constant octets that the UDP checksum covers: without a container, and with one.
    sums: [u64; 2],
}

impl UsualTunnel<Ipv6Addr> {
    /// Returns the length of all headers, Ethernet included. Unit: octets.
    #[inline]
    #[must_use]
    pub const fn headers_len(&self) -> usize {
        if self.marking.is_some() { CONTAINED_LEN } else { PLAIN_LEN }
    }

    /// Returns the length of the IP packet around `inner_len` octets; `None` above 65,535.
    #[inline]
    #[must_use]
    pub fn ip_len(&self, inner_len: u16) -> Option<u16> {
        let container = if self.marking.is_some() { CONTAINER_LEN } else { 0 };
        inner_len.checked_add(IP_HEADERS_LEN - IPV4_LEN + IPV6_LEN + container)
    }
}

impl UsualOuterV6 {
    /// Prepares headers with our address `src`.
    #[must_use]
    pub fn new(src: Ipv6Addr) -> Self {
        let (mut plain, mut contained) = ([0; PLAIN_LEN], [0; CONTAINED_LEN]);
        let sums = [
            write_constants(&mut plain, src, None),
            write_constants(
                &mut contained,
                src,
                Some(PduSessionContainer::downlink(Qfi::default(), false)),
            ),
        ];
        Self { plain, contained, sums }
    }

    /// Writes the headers of a usual packet of `inner_len` octets, which is IPv6 if `is_v6`, at the
    /// front of `out`, where the packet follows them, and decrements the hop limit of the packet.
    /// The octets are the same as those of [`emit_gtpu_ipv6`] with a checksum, but with the
    /// Ethernet header `link` and a container of `direction`. `None`, with nothing written, if
    /// `out` is too short or the outer packet would have more than 65,535 octets.
    #[inline(always)]
    #[must_use]
    pub fn emit(
        &self,
        tunnel: &UsualTunnel<Ipv6Addr>,
        link: &UsualLinkHeader,
        direction: Direction,
        inner_len: u16,
        is_v6: bool,
        out: &mut [u8],
    ) -> Option<()> {
        let udp_len = tunnel.ip_len(inner_len)? - IPV6_LEN;
        let [plain_sum, contained_sum] = self.sums;
        let Some((qfi, reflective)) = tunnel.marking else {
            let (out, inner) = out.split_first_chunk_mut::<PLAIN_LEN>()?;
            let sum = plain_sum + sum_of_inner(inner, inner_len, is_v6)?;
            *out = self.plain;
            write_variables(tunnel, link, udp_len, sum, out);
            decrement_usual_hops(inner, is_v6);
            return Some(());
        };
        let (out, inner) = out.split_first_chunk_mut::<CONTAINED_LEN>()?;
        let mut sum = contained_sum + sum_of_inner(inner, inner_len, is_v6)?;
        *out = self.contained;
        if direction == Direction::Uplink {
            out[at::PDU_TYPE + IPV6_SHIFT] = UPLINK;
            sum += u64::from(u16::from_ne_bytes([0, UPLINK]));
        }
        let qfi = qfi.value() | if reflective { 0x40 } else { 0 };
        out[at::QFI + IPV6_SHIFT] = qfi;
        sum += u64::from(u16::from_ne_bytes([qfi, 0]));
        write_variables(tunnel, link, udp_len, sum, out);
        decrement_usual_hops(inner, is_v6);
        Some(())
    }
}

/// Writes the constant octets of headers, and returns the sum of those that the UDP checksum
/// covers.
fn write_constants(
    headers: &mut [u8],
    src: Ipv6Addr,
    container: Option<PduSessionContainer>,
) -> u64 {
    // [`UsualOuterV6::emit`] writes the addresses of the link.
    const NO_MAC: MacAddr = MacAddr([0; 6]);
    let constants = OuterIpv6 {
        src_mac: NO_MAC,
        dst_mac: NO_MAC,
        vlan: VlanId::UNTAGGED,
        src,
        dst: Ipv6Addr::UNSPECIFIED,
        traffic_class: 0,
        flow_label: 0,
        src_port: UDP_PORT,
        teid: Teid(0),
        psc: container,
        service_class: None,
        inner_len: 0,
        udp_checksum: UdpChecksum::Zero,
    };
    let Ok(()) = emit_gtpu_ipv6(headers, &constants) else {
        unreachable!("the headers have this length")
    };
    for at in [PAYLOAD_LEN, at::UDP_LEN + IPV6_SHIFT, at::GTPU_LEN + IPV6_SHIFT] {
        headers[at..][..2].fill(0);
    }
    native_sum(&headers[SRC..]) + u64::from(u16::from(UDP).to_be())
}

/// Returns the sum of a packet with its hops decremented. `packet` may be longer than `len` octets.
///
/// PERF (wire/usual): reads the packet before the hop limit is written, because a load that spans
/// an octet just written would have to wait for it.
#[inline(always)]
fn sum_of_inner(packet: &[u8], len: u16, is_v6: bool) -> Option<u64> {
    // In IPv4, the header checksum keeps the sum of the header's words constant. In IPv6, the hop
    // limit is the second octet of a word.
    const ONE_HOP_LESS: u16 = u16::MAX - u16::from_ne_bytes([0, 1]);
    let change = if is_v6 { ONE_HOP_LESS } else { 0 };
    Some(native_sum(packet.get(..usize::from(len))?) + u64::from(change))
}

/// Writes the variable fields into a copy of the headers. `sum` includes all other octets that the
/// UDP checksum covers.
#[inline(always)]
fn write_variables<const LEN: usize>(
    tunnel: &UsualTunnel<Ipv6Addr>,
    link: &UsualLinkHeader,
    udp_len: u16,
    sum: u64,
    out: &mut [u8; LEN],
) {
    let dst = tunnel.dst.octets();
    let gtpu_len = udp_len - (IP_HEADERS_LEN - IPV4_LEN);
    // The UDP length counts twice: in the UDP header and in the pseudo header.
    let sum = sum
        + native_sum(&dst)
        + u64::from(tunnel.teid.0.to_be())
        + 2 * u64::from(udp_len.to_be())
        + u64::from(gtpu_len.to_be());
    link.write(out);
    let class = 0x6000 | u16::from(tunnel.tos) << 4;
    out[at::IP..][..2].copy_from_slice(&class.to_be_bytes());
    out[PAYLOAD_LEN..][..2].copy_from_slice(&udp_len.to_be_bytes());
    out[DST..][..16].copy_from_slice(&dst);
    out[at::UDP_LEN + IPV6_SHIFT..][..2].copy_from_slice(&udp_len.to_be_bytes());
    out[CHECKSUM..][..2].copy_from_slice(&fold_native(sum).to_ne_bytes());
    out[at::GTPU_LEN + IPV6_SHIFT..][..2].copy_from_slice(&gtpu_len.to_be_bytes());
    out[at::TEID + IPV6_SHIFT..][..4].copy_from_slice(&tunnel.teid.0.to_be_bytes());
}

/// Returns the UDP checksum, in native byte order, of words whose sum in native order is `sum`,
/// which is below 2^49 and not zero.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "each step folds below the next width")]
const fn fold_native(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    match !(sum as u16) {
        0 => u16::MAX,
        checksum => checksum,
    }
}
