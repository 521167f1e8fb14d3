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
        let qers: Option<ArrayVec<&QerEntry, 8>> =
            pdr.qers.iter().map(|at| rules.qers.get(usize::from(*at))).collect();
        let qers = qers?;
        if !qers.iter().all(|qer| qer.gate(direction) == Gate::Open) || !only_forwards(far) {
            return None;
        }
        let (ue, way) = match direction {
            Direction::Uplink => uplink(rules, pdr, far)?,
            Direction::Downlink => downlink(pdr, far, &qers)?,
        };
        Some(Self { arrival: pdr.interfaces, ue, way, urrs: urrs(rules, pdr)? })
    }
}

fn only_forwards(far: &FarEntry) -> bool {
    far.action == ApplyAction::FORW
}

fn uplink(
    rules: &SessionRules,
    pdr: &PdrEntry,
    far: &FarEntry,
) -> Option<(Option<Ipv4Addr>, ExpressWay)> {
    let teid = pdr.teid?;
    let strips_gtpu = matches!(
        pdr.outer_header_removal,
        Some(OuterHeaderRemoval::GtpuUdpIpv4 | OuterHeaderRemoval::GtpuUdpIp)
    );
    let to_data_network = far.outer_header_creation.is_none()
        && matches!(
            far.destination,
            DestinationInterface::Core | DestinationInterface::SgiLanN6Lan
        );
    let from_ran =
        pdr.source == SourceInterface::Access && rules.tunnel_side(teid) == SourceInterface::Access;
    if !(strips_gtpu && to_data_network && from_ran && pdr.sdf.is_empty()) {
        return None;
    }
    let ue = match (pdr.ue.v4, pdr.ue.is_empty(), rules.ue.as_slice()) {
        (Some(addr), _, _) if rules.allows_ue(IpAddr::V4(addr)) => Some(addr),
        (None, true, []) => None,
        (None, true, [only]) => Some(only.v4?),
        _ => return None,
    };
    let qfis = match pdr.qfis.as_slice() {
        [] => u64::MAX,
        qfis => qfis.iter().fold(0, |set, qfi| set | 1 << qfi.value()),
    };
    if qfis == u64::MAX && !pdr.qfis.is_empty() {
        return None;
    }
    Some((ue, ExpressWay::Uplink { teid, qfis, exit: far.interfaces }))
}

fn downlink(
    pdr: &PdrEntry,
    far: &FarEntry,
    qers: &[&QerEntry],
) -> Option<(Option<Ipv4Addr>, ExpressWay)> {
    let is_plain = pdr.teid.is_none()
        && pdr.qfis.is_empty()
        && pdr.sdf.is_empty()
        && pdr.outer_header_removal.is_none();
    if !is_plain || pdr.ue.v4.is_none() && !pdr.ue.is_empty() || far.next_hop == NextHopIndex::NONE
    {
        return None;
    }
    let Some(OuterHeaderCreation::Gtpu(tunnel)) = far.outer_header_creation else { return None };
    let IpAddr::V4(addr) = tunnel.addr else { return None };
    let marked = qers.iter().find(|qer| qer.qfi.is_some());
    if marked.is_some_and(|qer| qer.ppi.is_some()) {
        return None;
    }
    let marking = marked.and_then(|qer| Some((qer.qfi?, qer.rqi)));
    let way = ExpressWay::Downlink {
        teid: tunnel.teid,
        addr,
        next_hop: far.next_hop,
        tos: far.transport_level_marking.unwrap_or(0),
        marking,
    };
    Some((pdr.ue.v4, way))
}

/// The URRs of a PDR, if none stops its packets and there are few enough.
fn urrs(rules: &SessionRules, pdr: &PdrEntry) -> Option<ArrayVec<ExpressUrr, EXPRESS_URRS_MAX>> {
    let mut found = ArrayVec::new();
    for at in &pdr.urrs {
        let urr: &UrrEntry = rules.urrs.get(usize::from(*at))?;
        if urr.stopped {
            return None;
        }
        found.try_push(ExpressUrr { slot: urr.slot, generation: urr.generation }).ok()?;
    }
    Some(found)
}
