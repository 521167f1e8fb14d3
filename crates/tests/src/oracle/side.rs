//! The sides that user packets come from, and their directions.

use core::net::IpAddr;

use adit_rules::{DestinationInterface, DropReason, SourceInterface};
use adit_session::{Far, PdrSpec};

use super::keys::{is_ue, local_teid};
use super::packet::{OracleIp, is_forwardable};
use super::records::OracleSession;

/// The direction of a packet, by how it arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OracleDirection {
    /// The side to which its tunnel leads; `None` without a tunnel.
    pub tunnel: Option<SourceInterface>,
    /// The packet travels away from the UE.
    pub from_ue: bool,
}

/// The direction of packets in the tunnel `teid` of the session, or of those without a tunnel.
pub(super) fn of(session: &OracleSession, teid: Option<u32>) -> OracleDirection {
    let naming = || session.pdrs.iter().filter(|pdr| local_teid(pdr) == teid);
    let tunnel = teid.and_then(|_| naming().next()).map(|pdr| pdr.pdi.source);
    let from_ue = tunnel.is_some_and(|source| leaves(session, source, naming()));
    OracleDirection { tunnel, from_ue }
}

/// True if packets of the PDR travel away from the UE.
pub(super) fn is_from_ue(session: &OracleSession, pdr: &PdrSpec) -> bool {
    match (pdr.pdi.source, local_teid(pdr)) {
        (SourceInterface::Access, None) => true,
        (source, None) => leaves(session, source, [pdr].into_iter()),
        (_, teid) => of(session, teid).from_ue,
    }
}

/// Packets from the RAN travel away from the UE unless every FAR with a destination sends them back
/// to the RAN. Packets from the CP function travel to the UE unless all FARs send them to networks.
fn leaves<'a>(
    session: &OracleSession,
    source: SourceInterface,
    pdrs: impl Iterator<Item = &'a PdrSpec>,
) -> bool {
    let fars = |id| session.fars.iter().find(|far| Some(far.id) == id);
    let destinations: Vec<DestinationInterface> =
        pdrs.filter_map(|pdr| Some(fars(pdr.far)?.forwarding.as_ref()?.destination)).collect();
    let (back, out): (Vec<_>, Vec<_>) =
        destinations.into_iter().partition(|to| *to == DestinationInterface::Access);
    match source {
        SourceInterface::Access => back.is_empty() || !out.is_empty(),
        SourceInterface::CpFunction => back.is_empty() && !out.is_empty(),
        SourceInterface::Core | SourceInterface::SgiLanN6Lan => false,
    }
}

/// Checks the UE's address in a packet from a tunnel: the source uplink, the destination downlink.
pub(super) fn check_ue(
    session: &OracleSession,
    side: OracleDirection,
    ip: &OracleIp,
) -> Result<(), DropReason> {
    let (src, dst) = (is_ue(session, ip.src), is_ue(session, ip.dst));
    let Some(source) = side.tunnel else { return Ok(()) };
    let is_right = match source {
        SourceInterface::Access if side.from_ue => src,
        // Forwarded data of the UE, in either direction.
        SourceInterface::Access => src || dst,
        SourceInterface::CpFunction if side.from_ue => true,
        _ => dst,
    };
    match (is_right, side.from_ue) {
        (true, _) => Ok(()),
        (false, true) => Err(DropReason::UeSourceSpoofed),
        (false, false) => Err(DropReason::UeUnknown),
    }
}

/// True if no router forwards the packet.
pub(super) fn is_on_link(ip: &OracleIp) -> bool {
    !is_forwardable(ip.src) || !is_forwardable(ip.dst)
}

/// True if a packet on a link can have these addresses.
pub(super) fn is_possible_on_link(ip: &OracleIp) -> bool {
    let is_group = |addr: IpAddr| {
        addr.is_multicast() || matches!(addr, IpAddr::V4(addr) if addr.is_broadcast())
    };
    let is_nobody = |addr: IpAddr| match addr {
        IpAddr::V4(addr) => addr.octets()[0] == 0 && !addr.is_unspecified() || addr.is_loopback(),
        IpAddr::V6(addr) => addr.is_loopback(),
    };
    !is_nobody(ip.src) && !is_nobody(ip.dst) && !is_group(ip.src) && !ip.dst.is_unspecified()
}

/// True if the CP function sends or receives the packet.
pub(super) fn is_of_cp(pdr: &PdrSpec, destination: Option<DestinationInterface>) -> bool {
    pdr.pdi.source == SourceInterface::CpFunction
        || destination == Some(DestinationInterface::CpFunction)
}

/// The destination of a FAR.
pub(super) fn destination(far: &Far) -> Option<DestinationInterface> {
    far.forwarding.as_ref().map(|forwarding| forwarding.destination)
}
