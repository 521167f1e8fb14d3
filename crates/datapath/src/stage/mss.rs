//! Lowers the maximum segment size that TCP connections announce to the size that fits their
//! packets' path.
//!
//! Servers send with "don't fragment", and if a filter drops the ICMP error about a packet that is
//! too long, the connection hangs. An MSS that fits avoids that. A SYN passes in each direction and
//! announces an MSS for the other direction; so both get the smaller of what fits the tunnel and
//! what fits the link to the data network.

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

/// Octets of GTP-U with the longest container that Adit creates, which has a PPI. Spec: TS 38.415
/// §5.5.2.1.
const GTPU_LEN_MAX: usize = 8 + 4 + 8;

/// Lowers the MSS that a SYN in `buf` announces if the setting of its data network says so.
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

/// [`clamp_syn`] for a SYN.
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
            let leaves =
                fits(leaves_on, plan.outer.as_ref().map_or(0, |of| created_len(of, matched)));
            let removed = removed_len(arrival.outer, matched);
            let longest = arrived_on.map_or(leaves, |on| leaves.min(fits(on, removed)));
            longest.saturating_sub(mss_headers_len(ip.is_ipv4()))
        }
    };
    let front = usize::from(arrival.ip_offset);
    if buf.data_mut().get_mut(front..).is_some_and(|packet| clamp_mss(packet, ip, most)) {
        tally.count_lower_mss();
    }
}

/// The longest packet of a user on the link of an interface behind outer headers of `outer_len`
/// octets.
fn fits(interface: &Interface, outer_len: usize) -> u16 {
    let outer_len = u16::try_from(outer_len).unwrap_or(u16::MAX);
    interface.unfragmented_bytes.saturating_sub(outer_len)
}

/// Octets of an outer header that is created, with the longest container.
fn created_len(outer: &CreatedHeader, matched: &Matched<'_>) -> usize {
    match outer.header {
        HeaderCreation::Gtpu(tunnel) => tunnel_len(tunnel.addr.is_ipv4(), matched),
        HeaderCreation::Udp { .. } | HeaderCreation::Ip { .. } => outer.len(),
    }
}

/// Octets of the outer header that packets of the other direction leave with, by the one that was
/// removed.
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

/// Octets of the longest headers of a tunnel. Any QER of the session may give the other direction a
/// Service Class Indicator, which sessions of GERAN alone have.
fn tunnel_len(is_ipv4: bool, matched: &Matched<'_>) -> usize {
    let ip = if is_ipv4 { Ipv4Header::LEN } else { Ipv6Header::LEN };
    let has_class = matched.rules.qers().iter().any(|qer| qer.service_class.is_some());
    let class = if has_class { SERVICE_CLASS_LEN } else { 0 };
    ip + UdpHeader::LEN + GTPU_LEN_MAX + class
}
