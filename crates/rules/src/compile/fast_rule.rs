//! Compiles fast rules from the rules of a session.

use core::net::{IpAddr, Ipv4Addr};

use adit_types::{
    Direction, GtpuPeerIndex, InterfaceSet, Ipv6Prefix, NextHopIndex, Qfi, Teid, is_forwardable,
};
use arrayvec::ArrayVec;

use crate::fast_rule::{
    FAST_RULE_METERS_MAX, FAST_RULE_RELAY_URRS_MAX, FastRule, FastRuleForwarding, FastRulePeer,
    FastRuleTransport, FastRuleTunnel, FastRuleUe, FastRuleUrr, FastRuleUsage,
};
use crate::leave_reason::NoFastRule;
use crate::rate::RateLimit;
use crate::rule::{
    ApplyAction, DestinationInterface, FarEntry, Gate, GuaranteedShare, HeaderCreation,
    HeaderRemoval, PdrEntry, QerEntry, SessionRules, SourceInterface, TunnelSide, UE_IPV6_KEY_BITS,
    UeAddresses, ue_ipv6_key,
};
use crate::usage::UrrEntry;

/// Which of the session's first buckets a packet has to pass, and whether its rate is guaranteed.
type FastRuleMeters = ([bool; FAST_RULE_METERS_MAX], bool);

/// The UE addresses of IPv4 and of IPv6.
type FastRuleUes = (FastRuleUe<Ipv4Addr>, FastRuleUe<u64>);

impl FastRule {
    /// Compiles the fast rule of one direction from bound rules. Uplink: for packets in tunnels
    /// from the RAN. Downlink: for packets from a data network without a tunnel.
    ///
    /// # Errors
    /// The reason why usual packets need an action that a fast rule cannot express.
    pub fn compile(rules: &SessionRules, direction: Direction) -> Result<Self, NoFastRule> {
        // Packets from a data network have no TEID, which the stages represent by zero.
        let is_of_tunnel = |pdr: &PdrEntry| {
            direction == Direction::Downlink && pdr.teid.is_some_and(|teid| teid != Teid(0))
        };
        let mut usual = rules.pdrs(direction).iter().filter(|pdr| pdr.is_usual(direction));
        let pdr = usual.find(|pdr| !is_of_tunnel(pdr)).ok_or(NoFastRule::NoPdr)?;
        if !pdr.sdf.is_empty() {
            return Err(NoFastRule::SdfFilter);
        }
        let far = rules.fars.get(usize::from(pdr.far));
        let leads_into_tunnel = far.is_some_and(|far| far.outer_header_creation.is_some());
        match direction {
            Direction::Uplink if leads_into_tunnel => relay(rules, pdr, TunnelSide::RAN),
            _ => Self::of_pdr(rules, pdr, direction),
        }
    }

    /// Compiles the fast rule of packets that another UPF sends to the UE in a tunnel. Only the
    /// first PDR of the session with a tunnel gets one.
    ///
    /// # Errors
    /// See [`FastRule::compile`].
    pub fn compile_tunnel_to_ue(rules: &SessionRules) -> Result<Self, NoFastRule> {
        let direction = Direction::Downlink;
        let usual = || rules.downlink.iter().filter(|pdr| pdr.is_usual(direction));
        let pdr = usual().find(|pdr| pdr.teid.is_some()).ok_or(NoFastRule::NoPdr)?;
        let may_match = |other: &&PdrEntry| {
            other.source == pdr.source
                && other.teid.is_none_or(|teid| Some(teid) == pdr.teid)
                && other.interfaces.intersects(pdr.interfaces)
        };
        let is_first = usual().find(may_match).is_some_and(|first| core::ptr::eq(first, pdr));
        let side = TunnelSide { source: pdr.source, direction };
        match () {
            () if !is_first => Err(NoFastRule::OtherPdrFirst),
            () if !pdr.sdf.is_empty() => Err(NoFastRule::SdfFilter),
            () => relay(rules, pdr, side),
        }
    }

    /// Compiles the fast rule of packets for which the SDF filters select `pdr`. An uplink packet
    /// that goes on into another tunnel gets none here.
    pub(super) fn of_pdr(
        rules: &SessionRules,
        pdr: &PdrEntry,
        direction: Direction,
    ) -> Result<Self, NoFastRule> {
        let far = rules.fars.get(usize::from(pdr.far)).ok_or(NoFastRule::RuleMissing)?;
        let (marking, (meters, guaranteed)) = marking_and_meters(rules, pdr, direction)?;
        let ((ue_v4, ue_v6), forwarding) = match direction {
            Direction::Uplink => uplink(rules, pdr, far)?,
            Direction::Downlink => downlink(rules, pdr, far, marking)?,
        };
        let arrival = pdr.interfaces;
        let (slice, usage) = (rules.slice, fast_rule_usage(rules, pdr)?);
        Ok(Self { arrival, ue_v4, ue_v6, forwarding, meters, slice, guaranteed, usage })
    }
}

/// Returns how the QERs of a PDR mark downlink packets, and the buckets that packets have to pass.
/// An error if a gate is closed or a QER needs an action that a fast rule cannot express.
fn marking_and_meters(
    rules: &SessionRules,
    pdr: &PdrEntry,
    direction: Direction,
) -> Result<(Option<(Qfi, bool)>, FastRuleMeters), NoFastRule> {
    let mut marking = None;
    let mut meters = [false; FAST_RULE_METERS_MAX];
    let mut guaranteed = false;
    for at in &pdr.qers {
        let qer = rules.qers.get(usize::from(*at)).ok_or(NoFastRule::RuleMissing)?;
        // Lists every field, so that a new field does not compile until it is considered here.
        let QerEntry {
            id: _,
            gate_uplink: _,
            gate_downlink: _,
            qfi,
            rqi,
            ppi,
            flow_tos,
            service_class,
            meter,
            packet_rate,
        } = qer;
        if qer.gate(direction) != Gate::Open {
            return Err(NoFastRule::GateClosed);
        }
        if qfi.is_some() && ppi.is_some() {
            return Err(NoFastRule::PagingPolicy);
        }
        let marks_flow = flow_tos.is_some() || service_class.is_some();
        if marks_flow && direction == Direction::Downlink {
            return Err(NoFastRule::FlowMarking);
        }
        if packet_rate.as_ref().is_some_and(|rate| rate.limit(direction).is_some()) {
            return Err(NoFastRule::PacketRate);
        }
        marking = marking.or(qfi.map(|qfi| (qfi, *rqi)));
        let Some(meter) = meter else { continue };
        match meter.guaranteed(direction) {
            GuaranteedShare::Nothing => {}
            GuaranteedShare::Whole => guaranteed = true,
            GuaranteedShare::Within(_) => return Err(NoFastRule::PartGuaranteed),
        }
        match meter.limit(direction) {
            RateLimit::UNLIMITED => {}
            RateLimit::CLOSED => return Err(NoFastRule::RateZero),
            // A fast rule names buckets of the session only.
            _ if meter.correlated_rate.is_some() => return Err(NoFastRule::RateCorrelated),
            _ => {
                let named = meters.get_mut(usize::from(meter.bucket));
                *named.ok_or(NoFastRule::RatesTooMany)? = true;
            }
        }
    }
    Ok((marking, (meters, guaranteed)))
}

fn uplink(
    rules: &SessionRules,
    pdr: &PdrEntry,
    far: &FarEntry,
) -> Result<(FastRuleUes, FastRuleForwarding), NoFastRule> {
    let PdrEntry { source, teid, qfis, outer_header_removal, .. } = pdr;
    let teid = teid.ok_or(NoFastRule::TunnelMissing)?;
    if *source != SourceInterface::Access || rules.tunnel_side(teid) != TunnelSide::RAN {
        return Err(NoFastRule::TunnelMissing);
    }
    let transport = stripped_transport(*outer_header_removal).ok_or(NoFastRule::HeaderKept)?;
    only_forwards(far)?;
    if far.outer_header_creation.is_some() {
        return Err(NoFastRule::OuterHeaderOther);
    }
    if !leads_to_network(far) {
        return Err(NoFastRule::DestinationOther);
    }
    // A packed rule for IPv6 tunnels holds the complement of the TEID. Packets over IPv4 in a
    // tunnel with this complement as TEID must not match.
    let is_ambiguous = transport == FastRuleTransport::V6
        && rules.uplink.iter().chain(&rules.downlink).any(|pdr| pdr.teid == Some(Teid(!teid.0)));
    if is_ambiguous {
        return Err(NoFastRule::TeidComplement);
    }
    let (qfis, egress) = (fast_rule_qfis(qfis)?, far.interfaces);
    // The stages drop packets without an egress interface; the fast path assumes that there is one.
    if egress == InterfaceSet::NONE {
        return Err(NoFastRule::InterfaceMissing);
    }
    let way = FastRuleForwarding::Uplink { teid, transport, qfis, egress };
    Ok((ues_in_tunnels(rules, pdr)?, way))
}

/// Returns the IP version of the GTP-U headers that a PDR removes; `None` if it removes other
/// headers or none.
const fn stripped_transport(removal: Option<HeaderRemoval>) -> Option<FastRuleTransport> {
    match removal {
        Some(HeaderRemoval::GtpuUdpIpv4) => Some(FastRuleTransport::V4),
        Some(HeaderRemoval::GtpuUdpIpv6) => Some(FastRuleTransport::V6),
        Some(HeaderRemoval::GtpuUdpIp) => Some(FastRuleTransport::Any),
        _ => None,
    }
}

/// True if a PDR removes GTP-U headers over IPv4.
const fn strips_gtpu(removal: Option<HeaderRemoval>) -> bool {
    matches!(removal, Some(HeaderRemoval::GtpuUdpIpv4 | HeaderRemoval::GtpuUdpIp))
}

/// Returns the QoS flows of a PDR, or an error if a fast rule has no room for so many.
fn fast_rule_qfis<const MAX: usize>(qfis: &[Qfi]) -> Result<ArrayVec<Qfi, MAX>, NoFastRule> {
    let mut flows = ArrayVec::new();
    flows.try_extend_from_slice(qfis).map_err(|_| NoFastRule::QfisTooMany)?;
    Ok(flows)
}

/// Compiles the fast rule of packets that arrive in the tunnel of a PDR and leave in another
/// tunnel. `side`: the source interface and direction of the packets.
fn relay(rules: &SessionRules, pdr: &PdrEntry, side: TunnelSide) -> Result<FastRule, NoFastRule> {
    let PdrEntry {
        id: _,
        precedence: _,
        source,
        interfaces,
        teid,
        qfis,
        ue: _,
        ue_networks: _,
        sdf: _,
        outer_header_removal,
        container_deletion,
        far,
        qers: _,
        urrs: _,
    } = pdr;
    let far = rules.fars.get(usize::from(*far)).ok_or(NoFastRule::RuleMissing)?;
    let FarEntry { destination, outer_tos, next_hop, .. } = far;
    let teid = teid.ok_or(NoFastRule::TunnelMissing)?;
    if *source != side.source || rules.tunnel_side(teid) != side {
        return Err(NoFastRule::TunnelMissing);
    }
    if !strips_gtpu(*outer_header_removal) {
        return Err(NoFastRule::HeaderKept);
    }
    only_forwards(far)?;
    let leads_there = match side.direction {
        Direction::Uplink => leads_to_network(far),
        Direction::Downlink => *destination == DestinationInterface::Access,
    };
    if !leads_there {
        return Err(NoFastRule::DestinationOther);
    }
    let Some(HeaderCreation::Gtpu(tunnel)) = far.outer_header_creation else {
        return Err(NoFastRule::OuterHeaderOther);
    };
    let IpAddr::V4(addr) = tunnel.addr else { return Err(NoFastRule::OuterHeaderOther) };
    if *next_hop == NextHopIndex::NONE {
        return Err(NoFastRule::NextHopMissing);
    }
    let (marking, (meters, guaranteed)) = marking_and_meters(rules, pdr, side.direction)?;
    // Only a PDU Session Container towards the RAN carries the reflective QoS indication.
    let is_downlink = side.direction == Direction::Downlink;
    let marking = marking.map(|(qfi, reflective)| (qfi, reflective && is_downlink));
    let usage = fast_rule_usage(rules, pdr)?;
    if usage.urrs.len() > FAST_RULE_RELAY_URRS_MAX {
        return Err(NoFastRule::UrrsTooMany);
    }
    let qfis = fast_rule_qfis(qfis)?;
    let (ue_v4, ue_v6) = ues_in_tunnels(rules, pdr)?;
    let onward = FastRuleTunnel { teid: tunnel.teid, addr, next_hop: *next_hop, tos: *outer_tos };
    let keeps_container = !container_deletion;
    let forwarding = FastRuleForwarding::Relay { teid, qfis, onward, marking, keeps_container };
    let (arrival, slice) = (*interfaces, rules.slice);
    Ok(FastRule { arrival, ue_v4, ue_v6, forwarding, meters, slice, guaranteed, usage })
}

/// Returns the UE addresses that packets in tunnels may have if they match a PDR: those that the
/// PDR names and the session allows.
fn ues_in_tunnels(rules: &SessionRules, pdr: &PdrEntry) -> Result<FastRuleUes, NoFastRule> {
    let PdrEntry { ue, ue_networks, .. } = pdr;
    let named = match rules.ue.as_slice() {
        _ if !ue.is_empty() => ue,
        _ if !ue_networks.is_empty() => return Err(NoFastRule::UeAddresses),
        [] if rules.ue_networks.is_empty() => return Ok((FastRuleUe::Any, FastRuleUe::Any)),
        [only] => only,
        _ => return Err(NoFastRule::UeAddresses),
    };
    let is_allowed = |addr| rules.allows_ue(addr) && is_forwardable(addr);
    let v4 = named.v4.filter(|addr| is_allowed(IpAddr::V4(*addr)));
    let v6 =
        named.v6.filter(|prefix| is_allowed(IpAddr::V6(prefix.addr()))).and_then(ipv6_prefix_key);
    Ok((
        v4.map_or(FastRuleUe::None, FastRuleUe::Only),
        v6.map_or(FastRuleUe::None, FastRuleUe::Only),
    ))
}

/// Returns the key of a prefix if the prefix covers exactly the addresses with this key.
fn ipv6_prefix_key(prefix: Ipv6Prefix) -> Option<u64> {
    (prefix.len() == UE_IPV6_KEY_BITS).then(|| ue_ipv6_key(prefix.addr()))
}

/// Returns for each family the UE address of packets that a downlink PDR matches; none for a family
/// in which the session has another address as well.
fn downlink_ues(rules: &SessionRules, pdr: &PdrEntry) -> Result<FastRuleUes, NoFastRule> {
    if !pdr.ue_networks.is_empty() || !rules.ue_networks.is_empty() {
        return Err(NoFastRule::UeAddresses);
    }
    let ue = match rules.ue.as_slice() {
        _ if !pdr.ue.is_empty() => &pdr.ue,
        [only] => only,
        _ => return Err(NoFastRule::UeAddresses),
    };
    let has_others = |differs: fn(&UeAddresses, &UeAddresses) -> bool| {
        rules.ue.iter().any(|other| differs(other, ue))
    };
    let v4_others = has_others(|other, ue| other.v4.is_some() && other.v4 != ue.v4);
    let v6_others = has_others(|other, ue| other.v6.is_some() && other.v6 != ue.v6);
    let v4 = ue.v4.filter(|addr| !v4_others && is_forwardable(IpAddr::V4(*addr)));
    let v6 = ue.v6.filter(|prefix| !v6_others && is_forwardable(IpAddr::V6(prefix.addr())));
    let v6 = v6.and_then(ipv6_prefix_key);
    Ok((
        v4.map_or(FastRuleUe::None, FastRuleUe::Only),
        v6.map_or(FastRuleUe::None, FastRuleUe::Only),
    ))
}

/// Returns an error unless a FAR only forwards: it must not copy, redirect, mark or steer. Packets
/// to the CP function keep their TTL, which the fast path decrements.
fn only_forwards(far: &FarEntry) -> Result<(), NoFastRule> {
    let FarEntry {
        id: _,
        action,
        destination,
        interfaces: _,
        outer_header_creation: _,
        outer_tos: _,
        next_hop: _,
        peer: _,
        buffer_pkts_max: _,
        steering,
        dscp,
        redirect,
        // The fast path leaves packets from one UE to another to the stages anyway.
        local_switching: _,
        duplicates,
    } = far;
    match () {
        () if !duplicates.is_empty() => Err(NoFastRule::Duplicates),
        () if *action != ApplyAction::FORW => Err(NoFastRule::ActionOther),
        () if *destination == DestinationInterface::CpFunction => Err(NoFastRule::DestinationOther),
        () if steering.is_some() || dscp.is_some() || redirect.is_some() => {
            Err(NoFastRule::SteeringOrMarking)
        }
        () => Ok(()),
    }
}

const fn leads_to_network(far: &FarEntry) -> bool {
    matches!(far.destination, DestinationInterface::Core | DestinationInterface::SgiLanN6Lan)
}

fn downlink(
    rules: &SessionRules,
    pdr: &PdrEntry,
    far: &FarEntry,
    marking: Option<(Qfi, bool)>,
) -> Result<(FastRuleUes, FastRuleForwarding), NoFastRule> {
    let PdrEntry {
        id: _,
        precedence: _,
        source,
        interfaces: _,
        teid,
        qfis,
        ue: _,
        ue_networks: _,
        sdf: _,
        outer_header_removal,
        container_deletion: _,
        far: _,
        qers: _,
        urrs: _,
    } = pdr;
    let FarEntry { outer_header_creation, outer_tos, next_hop, peer, .. } = far;
    let is_plain =
        source.is_network() && teid.is_none() && qfis.is_empty() && outer_header_removal.is_none();
    if !is_plain {
        return Err(NoFastRule::NotPlain);
    }
    only_forwards(far)?;
    let Some(HeaderCreation::Gtpu(tunnel)) = outer_header_creation else {
        return Err(NoFastRule::OuterHeaderOther);
    };
    if *next_hop == NextHopIndex::NONE {
        return Err(NoFastRule::NextHopMissing);
    }
    let peer = match tunnel.addr {
        IpAddr::V4(addr) => FastRulePeer::V4(addr),
        IpAddr::V6(_) if *peer != GtpuPeerIndex::NONE => FastRulePeer::V6(*peer),
        IpAddr::V6(_) => return Err(NoFastRule::NextHopMissing),
    };
    let way = FastRuleForwarding::Downlink {
        teid: tunnel.teid,
        peer,
        next_hop: *next_hop,
        tos: *outer_tos,
        marking,
    };
    Ok((downlink_ues(rules, pdr)?, way))
}

/// Returns the URRs of a PDR. An error if one of them stops packets, or if there are too many.
fn fast_rule_usage(rules: &SessionRules, pdr: &PdrEntry) -> Result<FastRuleUsage, NoFastRule> {
    let mut urrs = ArrayVec::new();
    let mut counts_apart = rules.own_urr.is_some();
    for at in &pdr.urrs {
        // Limits are checked at run time; a packet that might reach one takes the stages. So do all
        // packets of a credit pool, as it does not fit a cache line.
        let UrrEntry {
            id: _,
            slot,
            generation,
            report: _,
            quota: _,
            report_dropped: _,
            stopped,
            quota_far: _,
            report_start: _,
            before_qos: _,
            exempt: _,
            pool,
            members,
        } = rules.urrs.get(usize::from(*at)).ok_or(NoFastRule::RuleMissing)?;
        if *stopped {
            return Err(NoFastRule::UrrStopped);
        }
        if pool.is_some() || !members.of.is_empty() {
            return Err(NoFastRule::CreditPool);
        }
        match rules.own_urr == Some(*slot) {
            true => counts_apart = false,
            false => {
                let urr = FastRuleUrr { slot: *slot, generation: *generation };
                urrs.try_push(urr).map_err(|_| NoFastRule::UrrsTooMany)?;
            }
        }
    }
    Ok(FastRuleUsage { urrs, counts_apart })
}
