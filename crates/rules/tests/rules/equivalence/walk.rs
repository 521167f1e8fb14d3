//! The actions of rules on a packet, rule by rule.

use core::net::IpAddr;

use adit_rules::{
    ApplyAction, DestinationInterface, FarEntry, FastRuleUrr, Gate, GuaranteedShare,
    HeaderCreation, HeaderRemoval, OuterTos, PdrEntry, QerEntry, RateLimit, SessionRules,
    SourceInterface, TunnelSide,
};
use adit_types::{Direction, InterfaceSet, NextHopIndex, Qfi, SliceId, Teid};

use super::UsualPacket;

/// How a packet is forwarded, as far as a fast rule can say it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Forwarded {
    /// To a data network by the routes of these interfaces.
    pub egress: Option<InterfaceSet>,
    /// Into a tunnel: far end, next hop, type of service.
    pub tunnel: Option<(Teid, IpAddr, NextHopIndex, OuterTos)>,
    pub marking: Option<(Qfi, bool)>,
    /// The first two buckets of the session that it passes.
    pub meters: u64,
    pub slice: SliceId,
    pub is_guaranteed: bool,
    pub urrs: Vec<FastRuleUrr>,
    pub counts_apart: bool,
}

/// The fate of a packet. `None` when it is not forwarded, or with an effect that no fast rule has.
pub(super) fn forwarded(
    rules: &SessionRules,
    own: &[IpAddr],
    packet: &UsualPacket,
) -> Option<Forwarded> {
    let flow = &packet.flow;
    let side = packet.tunnel.map(|tunnel| rules.tunnel_side(tunnel.teid));
    let (direction, ue) = match side {
        Some(TunnelSide::RAN) => (Direction::Uplink, flow.src),
        // Another UPF sends it.
        Some(TunnelSide {
            source: SourceInterface::Core | SourceInterface::SgiLanN6Lan,
            direction: Direction::Downlink,
        })
        | None => (Direction::Downlink, flow.dst),
        Some(_) => return None,
    };
    match side {
        Some(_) if !rules.allows_ue(ue) => return None,
        None if own.contains(&ue) => return None,
        _ => {}
    }
    let pdr = rules.pdrs(direction).iter().find(|pdr| matches(pdr, packet, side, ue, direction))?;
    let strips = matches!(
        (side, pdr.outer_header_removal),
        (Some(_), Some(HeaderRemoval::GtpuUdpIpv4 | HeaderRemoval::GtpuUdpIp)) | (None, None)
    );
    let far = rules.fars.get(usize::from(pdr.far))?;
    if !strips || !only_forwards(far) {
        return None;
    }
    let mut result = by_qers(rules, pdr, direction)?;
    by_urrs(rules, pdr, &mut result)?;
    match (direction, far.outer_header_creation) {
        (Direction::Uplink, None) => {
            let leaves = matches!(
                far.destination,
                DestinationInterface::Core | DestinationInterface::SgiLanN6Lan
            );
            result.marking = None;
            leaves.then_some(Forwarded { egress: Some(far.interfaces), ..result })
        }
        (_, Some(HeaderCreation::Gtpu(tunnel))) => {
            let leads_there = match direction {
                Direction::Uplink => far.destination != DestinationInterface::Access,
                Direction::Downlink => true,
            };
            let arrived = packet.tunnel.and_then(|tunnel| tunnel.container);
            let arrived = arrived.filter(|_| !pdr.container_deletion);
            result.marking = match direction {
                Direction::Uplink => arrived.or(result.marking).map(|(qfi, _)| (qfi, false)),
                Direction::Downlink => result.marking.or(arrived),
            };
            let tunnel = (tunnel.teid, tunnel.addr, far.next_hop, far.outer_tos);
            let is_resolved = far.next_hop != NextHopIndex::NONE;
            (is_resolved && leads_there).then_some(Forwarded { tunnel: Some(tunnel), ..result })
        }
        _ => None,
    }
}

fn matches(
    pdr: &PdrEntry,
    packet: &UsualPacket,
    side: Option<TunnelSide>,
    ue: IpAddr,
    direction: Direction,
) -> bool {
    let teid = packet.tunnel.map(|tunnel| tunnel.teid);
    let qfi = packet.tunnel.and_then(|tunnel| tunnel.container).map(|(qfi, _)| qfi);
    let comes_from_there = match side {
        Some(side) => pdr.source == side.source,
        None => matches!(pdr.source, SourceInterface::Core | SourceInterface::SgiLanN6Lan),
    };
    comes_from_there
        && pdr.interfaces.intersects(packet.arrival)
        && pdr.teid.is_none_or(|needed| teid == Some(needed))
        && (pdr.qfis.is_empty() || qfi.is_some_and(|qfi| pdr.qfis.contains(&qfi)))
        && pdr.matches_ue(ue)
        && (pdr.sdf.is_empty()
            || pdr.sdf.iter().any(|filter| filter.matches(direction, &packet.flow)))
}

fn only_forwards(far: &FarEntry) -> bool {
    far.action == ApplyAction::FORW
        && far.destination != DestinationInterface::CpFunction
        && far.steering.is_none()
        && far.dscp.is_none()
        && far.redirect.is_none()
        && far.duplicates.is_empty()
}

/// Adds the counts of a PDR's URRs.
fn by_urrs(rules: &SessionRules, pdr: &PdrEntry, result: &mut Forwarded) -> Option<()> {
    result.counts_apart = rules.own_urr.is_some();
    for at in &pdr.urrs {
        let urr = rules.urrs.get(usize::from(*at))?;
        if urr.stopped || urr.pool.is_some() || !urr.members.of.is_empty() {
            return None;
        }
        if rules.own_urr == Some(urr.slot) {
            result.counts_apart = false;
        } else {
            result.urrs.push(FastRuleUrr { slot: urr.slot, generation: urr.generation });
        }
    }
    Some(())
}

/// The effects of the QERs of a PDR.
fn by_qers(rules: &SessionRules, pdr: &PdrEntry, direction: Direction) -> Option<Forwarded> {
    let mut result = Forwarded { slice: rules.slice, ..Forwarded::default() };
    let qers: Option<Vec<&QerEntry>> =
        pdr.qers.iter().map(|at| rules.qers.get(usize::from(*at))).collect();
    let qers = qers?;
    if qers.iter().any(|qer| qer.gate(direction) == Gate::Closed) {
        return None;
    }
    let marks_flow = |qer: &&QerEntry| qer.flow_tos.is_some() || qer.service_class.is_some();
    if direction == Direction::Downlink && qers.iter().any(marks_flow) {
        return None;
    }
    if let Some(marking) = qers.iter().find(|qer| qer.qfi.is_some()) {
        if marking.ppi.is_some() {
            return None;
        }
        result.marking = marking.qfi.map(|qfi| (qfi, marking.rqi));
    }
    for meter in qers.iter().filter_map(|qer| qer.meter) {
        match meter.guaranteed(direction) {
            GuaranteedShare::Nothing => {}
            GuaranteedShare::Whole => result.is_guaranteed = true,
            GuaranteedShare::Within(_) => return None,
        }
        match meter.limit(direction) {
            RateLimit::UNLIMITED => {}
            RateLimit::CLOSED => return None,
            _ if meter.correlated_rate.is_some() || meter.bucket > 1 => return None,
            _ => result.meters |= 1 << meter.bucket,
        }
    }
    Some(result)
}
