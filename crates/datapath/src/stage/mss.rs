//! Lowers the maximum segment size that TCP connections announce, so that their packets fit the
//! path.
//!
//! Servers send with "don't fragment"; if a filter drops the ICMP error about a packet that is too
//! long, the connection hangs. An MSS that fits avoids that. A SYN announces the MSS for packets of
//! the other direction, and both directions pass both links; so every SYN gets the smaller MSS of
//! the two that fit the tunnel and the link to the data network.

use adit_pktio::PacketBuf;
use adit_rules::{HeaderCreation, HeaderRemoval};
use adit_tables::Interface;
use adit_types::{InterfaceRole, TcpMss};
use adit_wire::encapsulate::SERVICE_CLASS_LEN;
use adit_wire::ipv4::Ipv4Header;
use adit_wire::ipv6::Ipv6Header;
use adit_wire::udp::UdpHeader;
use adit_wire::{clamp_mss, is_syn, mss_headers_len, protocol};

use crate::carried::CreatedHeader;
use crate::columns::{Matched, MatchedPacket, OuterHeader, UserPacket};
use crate::context::StepContext;
use crate::stage::forward_plan::ForwardPlan;
use crate::tally::StepTally;

/// Maximum length of a GTP-U header with the container that Adit creates, which may have a PPI.
/// Unit: octets. Spec: TS 38.415 §5.5.2.1.
const GTPU_LEN_MAX: usize = 8 + 4 + 8;

/// Lowers the MSS that a SYN in `buf` announces, if its data network is configured to.
///
/// Cost: two comparisons for other packets.
#[inline]
pub(super) fn clamp_syn<B: PacketBuf>(
    ctx: &StepContext<'_>,
    tally: &mut StepTally,
    buf: &mut B,
    packet: MatchedPacket<'_, '_>,
    plan: &ForwardPlan<'_>,
) {
    let UserPacket { arrival, ip, .. } = packet.packet;
    if !ctx.interfaces.have_tcp_mss() || ip.protocol != protocol::TCP {
        return;
    }
    let front = usize::from(arrival.ip_offset);
    if buf.data().get(front..).is_some_and(|octets| is_syn(octets, ip)) {
        clamp(ctx, tally, buf, packet, plan);
    }
}

/// Does the work of [`clamp_syn`] for a packet that is a SYN.
#[cold]
fn clamp<B: PacketBuf>(
    ctx: &StepContext<'_>,
    tally: &mut StepTally,
    buf: &mut B,
    MatchedPacket { packet: UserPacket { arrival, ip, .. }, matched }: MatchedPacket<'_, '_>,
    plan: &ForwardPlan<'_>,
) {
    let arrived_on = arrival.interfaces.first().and_then(|id| ctx.interfaces.get(id));
    let leaves_on = plan.egress.interface;
    let network = |on: &&Interface| on.role == InterfaceRole::N6;
    let Some(network) = Some(leaves_on).filter(network).or(arrived_on.filter(network)) else {
        return;
    };
    let most = match network.tcp_mss {
        TcpMss::Off => return,
        TcpMss::AtMost(most) => most,
        TcpMss::Clamp => {
            let leaves = longest_packet_on(
                leaves_on,
                plan.outer.as_ref().map_or(0, |of| created_len(of, matched)),
            );
            let removed = removed_len(arrival.outer, matched);
            let longest =
                arrived_on.map_or(leaves, |on| leaves.min(longest_packet_on(on, removed)));
            longest.saturating_sub(mss_headers_len(ip.is_ipv4()))
        }
    };
    let front = usize::from(arrival.ip_offset);
    if buf.data_mut().get_mut(front..).is_some_and(|packet| clamp_mss(packet, ip, most)) {
        tally.count_lower_mss();
    }
}

/// Returns the maximum length of a user's packet on the link of an interface if it is behind outer
/// headers of `outer_len` octets. Unit: octets.
fn longest_packet_on(interface: &Interface, outer_len: usize) -> u16 {
    let outer_len = u16::try_from(outer_len).unwrap_or(u16::MAX);
    interface.unfragmented_bytes.saturating_sub(outer_len)
}

/// Returns the length of an outer header that is created, with the longest container. Unit: octets.
fn created_len(outer: &CreatedHeader, matched: &Matched<'_>) -> usize {
    match outer.header {
        HeaderCreation::Gtpu(tunnel) => tunnel_len(tunnel.addr.is_ipv4(), matched),
        HeaderCreation::Udp { .. } | HeaderCreation::Ip { .. } => outer.len(),
    }
}

/// Returns the length of the outer header that packets of the other direction leave with, which is
/// of the kind that was removed from this packet. Unit: octets.
fn removed_len(outer: OuterHeader, matched: &Matched<'_>) -> usize {
    match (outer, matched.pdr.outer_header_removal) {
        (OuterHeader::GtpuUdpIpv4, _) => tunnel_len(true, matched),
        (OuterHeader::GtpuUdpIpv6, _) => tunnel_len(false, matched),
        (OuterHeader::None, Some(HeaderRemoval::UdpIpv4)) => Ipv4Header::LEN + UdpHeader::LEN,
        (OuterHeader::None, Some(HeaderRemoval::UdpIpv6)) => Ipv6Header::LEN + UdpHeader::LEN,
        (OuterHeader::None, Some(HeaderRemoval::Ipv4)) => Ipv4Header::LEN,
        (OuterHeader::None, Some(HeaderRemoval::Ipv6)) => Ipv6Header::LEN,
        (OuterHeader::None, _) => 0,
    }
}

/// Returns the maximum length of the outer headers of a tunnel. Counts a Service Class Indicator if
/// any QER of the session has one, as it may apply to the other direction. Unit: octets.
fn tunnel_len(is_ipv4: bool, matched: &Matched<'_>) -> usize {
    let ip = if is_ipv4 { Ipv4Header::LEN } else { Ipv6Header::LEN };
    let has_class = matched.rules.qers().iter().any(|qer| qer.service_class.is_some());
    let class = if has_class { SERVICE_CLASS_LEN } else { 0 };
    ip + UdpHeader::LEN + GTPU_LEN_MAX + class
}
