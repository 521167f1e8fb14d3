//! User packets as they arrive, and without the outer headers that rules remove.

use core::net::IpAddr;

use adit_rules::{DropReason, HeaderRemoval};
use adit_session::SdfSpec;

use super::checksum::{OracleAddrs, udp_sum};
use super::first_fragment::OracleFirstFragment;
use super::frame::set_tos;
use super::packet::{
    IPV6_EXTENSIONS, OracleContainer, OracleIp, OracleIpError, is_forwardable, u16_at,
};
use super::sdf;
use super::verdict::OracleLane;

/// A user packet and how it arrived.
#[derive(Clone)]
pub(super) struct OraclePacket<'a> {
    /// Position of the interface that received it.
    pub at: usize,
    pub packet: &'a [u8],
    pub ip: OracleIp,
    pub tunnel: Option<OracleTunnel>,
    /// Traffic class of the outer header that is removed.
    pub outer_tos: u8,
    /// The first fragment of its packet, if this is a later one and the first is known.
    pub first: Option<OracleFirstFragment>,
}

impl OraclePacket<'_> {
    pub(super) fn is_of_flow(&self, spec: &SdfSpec, from_ue: bool) -> bool {
        sdf::matches(spec, from_ue, &self.ip, self.packet, self.first.as_ref())
    }

    pub(super) fn lane(&self) -> OracleLane {
        match (self.tunnel, self.ip.dst) {
            (Some(_), _) => OracleLane::Tunneled,
            (None, IpAddr::V4(_)) => OracleLane::DownlinkV4,
            (None, IpAddr::V6(_)) => OracleLane::DownlinkV6,
        }
    }
}

/// The GTP-U tunnel that a packet arrived in.
#[derive(Clone, Copy)]
pub(super) struct OracleTunnel {
    pub teid: u32,
    pub is_ipv4: bool,
    pub container: Option<OracleContainer>,
}

/// True if the whole packet carries, or could carry, one of these protocols: further extension
/// headers can follow in other fragments. Spec: RFC 8200 §4.5.
pub(super) fn may_carry(ip: &OracleIp, protocols: &[u8]) -> bool {
    let is_unknown =
        ip.dst.is_ipv6() && ip.is_later_fragment && IPV6_EXTENSIONS.contains(&ip.protocol);
    is_unknown || protocols.contains(&ip.protocol)
}

/// The packet without the outer header that its PDR removes. Spec: TS 29.244 §8.2.64.
pub(super) fn unwrap<'a>(
    arrival: &OraclePacket<'a>,
    removal: Option<HeaderRemoval>,
) -> Result<OraclePacket<'a>, DropReason> {
    use HeaderRemoval as R;
    let OraclePacket { at, packet, ip, tunnel, outer_tos, first } = *arrival;
    let kept = Ok(OraclePacket { at, packet, ip, tunnel, outer_tos, first });
    let protocols: &[u8] = match (removal, tunnel) {
        (None, None) => return kept,
        (Some(R::GtpuUdpIp), Some(_)) => return kept,
        (Some(R::GtpuUdpIpv4), Some(tunnel)) if tunnel.is_ipv4 => return kept,
        (Some(R::GtpuUdpIpv6), Some(tunnel)) if !tunnel.is_ipv4 => return kept,
        (Some(R::UdpIpv4), None) if ip.dst.is_ipv4() => &[17],
        (Some(R::UdpIpv6), None) if ip.dst.is_ipv6() => &[17],
        (Some(R::Ipv4), None) if ip.dst.is_ipv4() => &[4, 41],
        (Some(R::Ipv6), None) if ip.dst.is_ipv6() => &[4, 41],
        _ => return Err(DropReason::OuterHeaderMismatch),
    };
    if !may_carry(&ip, protocols) {
        return Err(DropReason::OuterHeaderMismatch);
    }
    if ip.is_fragment {
        return Err(DropReason::OuterFragment);
    }
    let upper = &packet[ip.upper..ip.len];
    let inner = if ip.protocol == 17 { udp_payload(&ip, upper)? } else { upper };
    let inner_ip = super::packet::ip(inner).map_err(|bad| match bad {
        OracleIpError::Malformed => DropReason::InnerMalformed,
        OracleIpError::Checksum => DropReason::IpChecksumWrong,
    })?;
    if ip.protocol != 17 && inner_ip.dst.is_ipv4() != (ip.protocol == 4) {
        return Err(DropReason::InnerMalformed);
    }
    if !is_forwardable(inner_ip.src) || !is_forwardable(inner_ip.dst) {
        return Err(DropReason::IpAddressInvalid);
    }
    Ok(OraclePacket { at, packet: inner, ip: inner_ip, tunnel, outer_tos: ip.tos, first })
}

/// The ECN field of a packet without its outer header. Rows: its own field; columns: the outer one;
/// both Not-ECT, ECT(1), ECT(0), CE. Spec: RFC 6040 §4.2.
const ECN_WITHOUT_OUTER: [[Option<u8>; 4]; 4] = [
    [Some(0), Some(0), Some(0), None],
    [Some(1), Some(1), Some(1), Some(3)],
    [Some(2), Some(1), Some(2), Some(3)],
    [Some(3), Some(3), Some(3), Some(3)],
];

/// The octets of a packet with the congestion mark of its outer header.
pub(super) fn with_outer_mark(arrival: &OraclePacket<'_>) -> Result<Vec<u8>, DropReason> {
    let fields = [arrival.ip.tos, arrival.outer_tos].map(|tos| usize::from(tos % 4));
    let ecn = ECN_WITHOUT_OUTER[fields[0]][fields[1]].ok_or(DropReason::InnerNotEct)?;
    let mut packet = arrival.packet.to_vec();
    if ecn != arrival.ip.tos % 4 {
        set_tos(&mut packet, arrival.ip.tos / 4 * 4 + ecn);
    }
    Ok(packet)
}

/// The payload of a UDP datagram whose checksum is absent or right.
fn udp_payload<'a>(ip: &OracleIp, upper: &'a [u8]) -> Result<&'a [u8], DropReason> {
    let end = if upper.len() < 8 { 0 } else { usize::from(u16_at(upper, 4)) };
    if end < 8 || end > upper.len() {
        return Err(DropReason::UdpMalformed);
    }
    let addrs = OracleAddrs { src: ip.src, dst: ip.dst };
    if u16_at(upper, 6) != 0 && udp_sum(addrs, &upper[..end]) != 0 {
        return Err(DropReason::UdpChecksumWrong);
    }
    Ok(&upper[8..end])
}
