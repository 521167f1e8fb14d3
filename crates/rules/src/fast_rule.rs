//! The usual packet of a session, compiled to one cache line per direction.
//!
//! Most packets match the first PDR of their direction, or the one that the matcher of the session's
//! SDF filters tells, pass open gates and leave by a FAR that only
//! forwards. For them an [`FastRule`] says everything that the rules say; a packet that it does not
//! fit, or a rule set that has none, is treated by [`SessionRules`]. So an express decides nothing
//! that the rules would decide otherwise.

use core::net::{IpAddr, Ipv4Addr};

use adit_types::{
    Direction, InterfaceSet, Ipv6Prefix, NextHopIndex, Qfi, SliceId, Teid, UsageSlot,
    is_forwardable,
};
use arrayvec::ArrayVec;

use crate::rate::RateLimit;
use crate::rule::{
    ApplyAction, DestinationInterface, FarEntry, Gate, GuaranteedShare, HeaderCreation,
    HeaderRemoval, PdrEntry, QerEntry, SessionRules, SourceInterface, TunnelSide, UE_IPV6_KEY_BITS,
    UeAddresses, ue_ipv6_key,
};
use crate::usage::UrrEntry;

/// URRs of one express; PDRs with more have none.
pub const FAST_RULE_URRS_MAX: usize = 2;

/// QoS flows that one express names; PDRs with more have none.
pub const FAST_RULE_QFIS_MAX: usize = 4;

/// Buckets that an express knows, by their numbers; PDRs with others have none.
pub const FAST_RULE_METERS_MAX: usize = 2;

/// Where an express counts for a URR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastRuleUrr {
    /// The URR's counters.
    pub slot: UsageSlot,
    /// The generation of the URR's entry.
    pub generation: u32,
}

/// Which UE addresses of one family the usual packet may carry: source in uplink, destination in
/// downlink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FastRuleUe<A> {
    /// None: packets of this family are not usual.
    None,
    /// Any at all; in uplink only.
    Any,
    /// This one.
    Only(A),
}

/// What the usual packet of one direction needs: conditions that it has to meet, and the way it
/// takes then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FastRule {
    /// Interfaces that the packet may arrive on.
    pub arrival: InterfaceSet,
    /// The UE's IPv4 address.
    pub ue_v4: FastRuleUe<Ipv4Addr>,
    /// The key of the UE's IPv6 prefix ([`ue_ipv6_key`]).
    pub ue_v6: FastRuleUe<u64>,
    /// What differs between the directions.
    pub forwarding: FastRuleForwarding,
    /// Which of the session's first buckets the packet has to pass.
    pub meters: [bool; FAST_RULE_METERS_MAX],
    /// The slice whose rates the packet shares.
    pub slice: SliceId,
    /// The rate of its buckets is guaranteed: no aggregate holds it up.
    pub guaranteed: bool,
    /// URRs that count the packet.
    pub urrs: ArrayVec<FastRuleUrr, FAST_RULE_URRS_MAX>,
}

/// The part of an [`FastRule`] that depends on the direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FastRuleForwarding {
    /// Out of a tunnel, to a data network by the packet's destination.
    Uplink {
        /// The local tunnel.
        teid: Teid,
        /// QoS flows that the packet may carry; empty accepts any and none.
        qfis: ArrayVec<Qfi, FAST_RULE_QFIS_MAX>,
        /// Interfaces whose routes are looked at.
        egress: InterfaceSet,
    },
    /// From a data network into a GTP-U tunnel over IPv4.
    Downlink {
        /// The far end's TEID.
        teid: Teid,
        /// The far end's address.
        addr: Ipv4Addr,
        /// The station towards it.
        next_hop: NextHopIndex,
        /// Type of service octet of the outer header.
        tos: u8,
        /// QoS flow of the PDU Session Container, and its reflective QoS indication; without one
        /// there is no container.
        marking: Option<(Qfi, bool)>,
    },
}

/// Which of a session's first buckets a packet has to pass, and whether their rate is guaranteed.
type FastRuleMeters = ([bool; FAST_RULE_METERS_MAX], bool);

/// UE addresses of both families.
type FastRuleUes = (FastRuleUe<Ipv4Addr>, FastRuleUe<u64>);

impl FastRule {
    /// The express of one direction of `rules`, next hops filled in; `None` where the usual packet
    /// needs more than an express can say.
    #[must_use]
    pub fn compile(rules: &SessionRules, direction: Direction) -> Option<Self> {
        let mut usual = rules.pdrs(direction).iter().filter(|pdr| pdr.is_usual(direction));
        let pdr = usual.next().filter(|pdr| pdr.sdf.is_empty())?;
        Self::of_pdr(rules, pdr, direction)
    }

    /// The express of packets whose first PDR by SDF filters is `pdr`.
    #[must_use]
    pub fn of_pdr(rules: &SessionRules, pdr: &PdrEntry, direction: Direction) -> Option<Self> {
        let far = rules.fars.get(usize::from(pdr.far))?;
        let (marking, (meters, guaranteed)) = qers(rules, pdr, direction)?;
        let ((ue_v4, ue_v6), way) = match direction {
            Direction::Uplink => uplink(rules, pdr, far)?,
            Direction::Downlink => downlink(rules, pdr, far, marking)?,
        };
        let arrival = pdr.interfaces;
        let (slice, urrs) = (rules.slice, urrs(rules, pdr)?);
        Some(Self { arrival, ue_v4, ue_v6, forwarding: way, meters, slice, guaranteed, urrs })
    }
}

/// What the QERs of a PDR mark downlink packets with, and the buckets that packets have to pass, if
/// their gates are open and they do nothing else.
fn qers(
    rules: &SessionRules,
    pdr: &PdrEntry,
    direction: Direction,
) -> Option<(Option<(Qfi, bool)>, FastRuleMeters)> {
    let mut marking = None;
    let mut meters = [false; FAST_RULE_METERS_MAX];
    let mut guaranteed = false;
    for at in &pdr.qers {
        let qer = rules.qers.get(usize::from(*at))?;
        // Named one by one, so that what a QER learns to do is decided upon here, too.
        let QerEntry { id: _, gate_uplink: _, gate_downlink: _, qfi, rqi, ppi, meter, packet_rate } =
            qer;
        if qer.gate(direction) != Gate::Open || qfi.is_some() && ppi.is_some() {
            return None;
        }
        if packet_rate.as_ref().is_some_and(|rate| rate.limit(direction).is_some()) {
            return None;
        }
        marking = marking.or(qfi.map(|qfi| (qfi, *rqi)));
        let Some(meter) = meter else { continue };
        match meter.guaranteed(direction) {
            GuaranteedShare::Nothing => {}
            GuaranteedShare::Whole => guaranteed = true,
            GuaranteedShare::Within(_) => return None,
        }
        match meter.limit(direction) {
            RateLimit::UNLIMITED => {}
            RateLimit::CLOSED => return None,
            // An express knows the session's own buckets.
            _ if meter.shared.is_some() => return None,
            _ => *meters.get_mut(usize::from(meter.bucket))? = true,
        }
    }
    Some((marking, (meters, guaranteed)))
}

fn uplink(
    rules: &SessionRules,
    pdr: &PdrEntry,
    far: &FarEntry,
) -> Option<(FastRuleUes, FastRuleForwarding)> {
    let PdrEntry { source, teid, qfis, outer_header_removal, .. } = pdr;
    let teid = (*teid)?;
    let strips_gtpu =
        matches!(outer_header_removal, Some(HeaderRemoval::GtpuUdpIpv4 | HeaderRemoval::GtpuUdpIp));
    let from_ran = *source == SourceInterface::Access && rules.tunnel_side(teid) == TunnelSide::RAN;
    if !(strips_gtpu && forwards_to_network(far) && from_ran) {
        return None;
    }
    let mut flows = ArrayVec::new();
    for qfi in qfis {
        flows.try_push(*qfi).ok()?;
    }
    let way = FastRuleForwarding::Uplink { teid, qfis: flows, egress: far.interfaces };
    Some((sources(rules, pdr)?, way))
}

/// The sources that a PDR of uplink takes and the session may use.
fn sources(rules: &SessionRules, pdr: &PdrEntry) -> Option<FastRuleUes> {
    let PdrEntry { ue, ue_networks, .. } = pdr;
    let named = match rules.ue.as_slice() {
        _ if !ue.is_empty() => ue,
        _ if !ue_networks.is_empty() => return None,
        [] if rules.ue_networks.is_empty() => return Some((FastRuleUe::Any, FastRuleUe::Any)),
        [only] => only,
        _ => return None,
    };
    let is_allowed = |addr| rules.allows_ue(addr) && is_forwardable(addr);
    let v4 = named.v4.filter(|addr| is_allowed(IpAddr::V4(*addr)));
    let v6 = named.v6.filter(|prefix| is_allowed(IpAddr::V6(prefix.addr()))).and_then(key);
    Some((
        v4.map_or(FastRuleUe::None, FastRuleUe::Only),
        v6.map_or(FastRuleUe::None, FastRuleUe::Only),
    ))
}

/// The key of a prefix that has no address without it.
fn key(prefix: Ipv6Prefix) -> Option<u64> {
    (prefix.len() == UE_IPV6_KEY_BITS).then(|| ue_ipv6_key(prefix.addr()))
}

/// The destinations that lead to the session and that a PDR of downlink takes, all or none
/// of each family.
fn destinations(rules: &SessionRules, pdr: &PdrEntry) -> Option<FastRuleUes> {
    if !pdr.ue_networks.is_empty() || !rules.ue_networks.is_empty() {
        return None;
    }
    let ue = match rules.ue.as_slice() {
        _ if !pdr.ue.is_empty() => &pdr.ue,
        [only] => only,
        _ => return None,
    };
    let has_others = |differs: fn(&UeAddresses, &UeAddresses) -> bool| {
        rules.ue.iter().any(|other| differs(other, ue))
    };
    let v4_others = has_others(|other, ue| other.v4.is_some() && other.v4 != ue.v4);
    let v6_others = has_others(|other, ue| other.v6.is_some() && other.v6 != ue.v6);
    let v4 = ue.v4.filter(|addr| !v4_others && is_forwardable(IpAddr::V4(*addr)));
    let v6 = ue.v6.filter(|prefix| !v6_others && is_forwardable(IpAddr::V6(prefix.addr())));
    let v6 = v6.and_then(key);
    Some((
        v4.map_or(FastRuleUe::None, FastRuleUe::Only),
        v6.map_or(FastRuleUe::None, FastRuleUe::Only),
    ))
}

/// A FAR that only forwards: no copies, no redirection, no marking and no way of its own. The CP
/// function gets packets with the TTL that they came with.
fn only_forwards(far: &FarEntry) -> bool {
    let FarEntry {
        id: _,
        action,
        destination,
        interfaces: _,
        outer_header_creation: _,
        transport_level_marking: _,
        next_hop: _,
        buffer_pkts_max: _,
        steering,
        dscp,
        redirect,
        // The worker leaves packets to UEs to the stages.
        local_switching: _,
        duplicates,
    } = far;
    *action == ApplyAction::FORW
        && *destination != DestinationInterface::CpFunction
        && steering.is_none()
        && dscp.is_none()
        && redirect.is_none()
        && duplicates.is_empty()
}

fn forwards_to_network(far: &FarEntry) -> bool {
    only_forwards(far)
        && far.outer_header_creation.is_none()
        && matches!(far.destination, DestinationInterface::Core | DestinationInterface::SgiLanN6Lan)
}

fn downlink(
    rules: &SessionRules,
    pdr: &PdrEntry,
    far: &FarEntry,
    marking: Option<(Qfi, bool)>,
) -> Option<(FastRuleUes, FastRuleForwarding)> {
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
    let FarEntry { outer_header_creation, transport_level_marking, next_hop, .. } = far;
    let is_plain =
        source.is_network() && teid.is_none() && qfis.is_empty() && outer_header_removal.is_none();
    if !is_plain || !only_forwards(far) || *next_hop == NextHopIndex::NONE {
        return None;
    }
    let Some(HeaderCreation::Gtpu(tunnel)) = outer_header_creation else { return None };
    let IpAddr::V4(addr) = tunnel.addr else { return None };
    let way = FastRuleForwarding::Downlink {
        teid: tunnel.teid,
        addr,
        next_hop: *next_hop,
        tos: transport_level_marking.unwrap_or(0),
        marking,
    };
    Some((destinations(rules, pdr)?, way))
}

/// The URRs of a PDR, if none stops its packets and there are few enough.
fn urrs(rules: &SessionRules, pdr: &PdrEntry) -> Option<ArrayVec<FastRuleUrr, FAST_RULE_URRS_MAX>> {
    let mut found = ArrayVec::new();
    for at in &pdr.urrs {
        // Limits and the first packet are seen by the worker: a packet that reaches one is not clear
        // to count. What is left of a credit pool is not seen in one line.
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
        } = rules.urrs.get(usize::from(*at))?;
        if *stopped || pool.is_some() || !members.of.is_empty() {
            return None;
        }
        found.try_push(FastRuleUrr { slot: *slot, generation: *generation }).ok()?;
    }
    Some(found)
}
