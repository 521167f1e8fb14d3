//! The usual packet of a session, compiled to one cache line per direction.
//!
//! Most packets match the first PDR of their direction, carry IPv4, pass open gates and leave by a
//! FAR that only forwards. For them an [`Express`] says everything that the rules say; a packet that
//! it does not fit, or a rule set that has none, is treated by [`SessionRules`]. So an express
//! decides nothing that the rules would decide otherwise.

use core::net::{IpAddr, Ipv4Addr};

use adit_types::{Direction, InterfaceSet, NextHopIndex, Qfi, Teid, UsageSlot};
use arrayvec::ArrayVec;

use crate::rule::{
    ApplyAction, DestinationInterface, FarEntry, Gate, OuterHeaderCreation, OuterHeaderRemoval,
    PdrEntry, QerEntry, SessionRules, SourceInterface,
};
use crate::usage::UrrEntry;

/// URRs of one express; PDRs with more have none.
pub const EXPRESS_URRS_MAX: usize = 3;

/// Where an express counts for a URR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpressUrr {
    /// The URR's counters.
    pub slot: UsageSlot,
    /// The generation of the URR's entry.
    pub generation: u32,
}

/// What the usual packet of one direction needs: conditions that it has to meet, and the way it
/// takes then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Express {
    /// Interfaces that the packet may arrive on.
    pub arrival: InterfaceSet,
    /// The UE's address: source in uplink, destination in downlink. `None` is any.
    pub ue: Option<Ipv4Addr>,
    /// What differs between the directions.
    pub way: ExpressWay,
    /// URRs that count the packet.
    pub urrs: ArrayVec<ExpressUrr, EXPRESS_URRS_MAX>,
}

/// The part of an [`Express`] that depends on the direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpressWay {
    /// Out of a tunnel, to a data network by the packet's destination.
    Uplink {
        /// The local tunnel.
        teid: Teid,
        /// QoS flows that the packet may carry, bit *n* for QFI *n*; all ones accepts any.
        qfis: u64,
        /// Interfaces whose routes are looked at.
        exit: InterfaceSet,
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

impl Express {
    /// The express of one direction of `rules`, next hops filled in; `None` where the usual packet
    /// needs more than an express can say.
    #[must_use]
    pub fn compile(rules: &SessionRules, direction: Direction) -> Option<Self> {
        let pdr = rules.pdrs(direction).first()?;
        let far = rules.fars.get(usize::from(pdr.far))?;
        let marking = qers(rules, pdr, direction)?;
        let (ue, way) = match direction {
            Direction::Uplink => uplink(rules, pdr, far)?,
            Direction::Downlink => downlink(pdr, far, marking)?,
        };
        Some(Self { arrival: pdr.interfaces, ue, way, urrs: urrs(rules, pdr)? })
    }
}

/// What the QERs of a PDR mark downlink packets with, if their gates are open and they do nothing
/// else.
fn qers(rules: &SessionRules, pdr: &PdrEntry, direction: Direction) -> Option<Option<(Qfi, bool)>> {
    let mut marking = None;
    for at in &pdr.qers {
        let qer = rules.qers.get(usize::from(*at))?;
        // Named one by one, so that what a QER learns to do is decided upon here, too.
        let QerEntry { id: _, gate_uplink: _, gate_downlink: _, qfi, rqi, ppi } = qer;
        if qer.gate(direction) != Gate::Open || qfi.is_some() && ppi.is_some() {
            return None;
        }
        marking = marking.or(qfi.map(|qfi| (qfi, *rqi)));
    }
    Some(marking)
}

fn uplink(
    rules: &SessionRules,
    pdr: &PdrEntry,
    far: &FarEntry,
) -> Option<(Option<Ipv4Addr>, ExpressWay)> {
    let PdrEntry { source, teid, qfis, ue, ue_networks, sdf, outer_header_removal, .. } = pdr;
    let teid = (*teid)?;
    let strips_gtpu = matches!(
        outer_header_removal,
        Some(OuterHeaderRemoval::GtpuUdpIpv4 | OuterHeaderRemoval::GtpuUdpIp)
    );
    let from_ran =
        *source == SourceInterface::Access && rules.tunnel_side(teid) == SourceInterface::Access;
    if !(strips_gtpu && forwards_to_network(far) && from_ran && sdf.is_empty()) {
        return None;
    }
    let names_none = ue.is_empty() && ue_networks.is_empty();
    let ue = match (ue.v4, names_none, rules.ue.as_slice()) {
        (Some(addr), _, _) if rules.allows_ue(IpAddr::V4(addr)) => Some(addr),
        (None, true, []) if rules.ue_networks.is_empty() => None,
        (None, true, [only]) => Some(only.v4?),
        _ => return None,
    };
    let set = match qfis.as_slice() {
        [] => u64::MAX,
        qfis => qfis.iter().fold(0, |set, qfi| set | 1 << qfi.value()),
    };
    let is_told_apart = set != u64::MAX || qfis.is_empty();
    let way = ExpressWay::Uplink { teid, qfis: set, exit: far.interfaces };
    is_told_apart.then_some((ue, way))
}

/// A FAR that only forwards: no copies, no redirection, no marking and no way of its own.
fn only_forwards(far: &FarEntry) -> bool {
    let FarEntry {
        id: _,
        action,
        destination: _,
        interfaces: _,
        outer_header_creation: _,
        transport_level_marking: _,
        next_hop: _,
        buffer_pkts_max: _,
        steering,
        dscp,
        redirect,
        duplicates,
    } = far;
    *action == ApplyAction::FORW
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
    pdr: &PdrEntry,
    far: &FarEntry,
    marking: Option<(Qfi, bool)>,
) -> Option<(Option<Ipv4Addr>, ExpressWay)> {
    let PdrEntry {
        id: _,
        precedence: _,
        source: _,
        interfaces: _,
        teid,
        qfis,
        ue,
        ue_networks,
        sdf,
        outer_header_removal,
        container_deletion: _,
        far: _,
        qers: _,
        urrs: _,
    } = pdr;
    let FarEntry { outer_header_creation, transport_level_marking, next_hop, .. } = far;
    let is_plain =
        teid.is_none() && qfis.is_empty() && sdf.is_empty() && outer_header_removal.is_none();
    let is_ipv4 = ue.v4.is_some() || ue.is_empty() && ue_networks.is_empty();
    if !is_plain || !is_ipv4 || !only_forwards(far) || *next_hop == NextHopIndex::NONE {
        return None;
    }
    let Some(OuterHeaderCreation::Gtpu(tunnel)) = outer_header_creation else { return None };
    let IpAddr::V4(addr) = tunnel.addr else { return None };
    let way = ExpressWay::Downlink {
        teid: tunnel.teid,
        addr,
        next_hop: *next_hop,
        tos: transport_level_marking.unwrap_or(0),
        marking,
    };
    Some((ue.v4, way))
}

/// The URRs of a PDR, if none stops its packets and there are few enough.
fn urrs(rules: &SessionRules, pdr: &PdrEntry) -> Option<ArrayVec<ExpressUrr, EXPRESS_URRS_MAX>> {
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
        found.try_push(ExpressUrr { slot: *slot, generation: *generation }).ok()?;
    }
    Some(found)
}
