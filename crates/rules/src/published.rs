//! Rules in the form that workers read: compact, with equal parts shared between sessions.
//!
//! Most sessions differ only in identifiers, addresses and counters. The rest is a *shape*, which
//! sessions share. A rule dereferences to its shape, so code reads it like the [`PdrEntry`],
//! [`FarEntry`] or [`UrrEntry`] that it was made from. Published rules are immutable.

use core::net::IpAddr;
use core::ops::Deref;
use std::sync::Arc;

use adit_types::limits::{DUPLICATES_PER_FAR_MAX, QERS_PER_PDR_MAX, URRS_PER_PDR_MAX};
use adit_types::{
    Direction, FarId, InterfaceSet, IpPrefix, NextHopIndex, PdrId, Precedence, Qfi, Seid, SliceId,
    Teid, UrrId, UsageSlot,
};
use arrayvec::ArrayVec;

use crate::delta_id::DeltaId;
use crate::forwarding::{Redirect, Steering};
use crate::leave_reason::NoFastRule;
use crate::matcher::{Matcher, Matchers};
use crate::outer_tos::OuterTos;
use crate::rule::{
    ApplyAction, DestinationInterface, FarEntry, Gate, GtpuTunnel, HeaderCreation, HeaderRemoval,
    PdrEntry, QerEntry, SessionRules, SourceInterface, TunnelSide, UeAddresses, any_contains,
};
use crate::sdf::PacketFilter;
use crate::sdf_set::SdfSet;
use crate::shapes::ShapeSet;
use crate::usage::{PoolMembers, UrrEntry, UsageLimits};

/// The rules of one PFCP session: [`SessionRules`] in compact form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedRules {
    /// See [`SessionRules::up_seid`].
    pub up_seid: Seid,
    /// See [`SessionRules::generation`].
    pub generation: DeltaId,
    /// See [`SessionRules::buffer_epoch`].
    pub buffer_epoch: u32,
    /// True if the session has or had its own URR: see [`SessionRules::own_urr`].
    pub has_own_urr: bool,
    /// Why usual packets have no single fast rule: in uplink, in downlink, and in a tunnel to the
    /// UE. `None` if they have one.
    unruled: [Option<NoFastRule>; 3],
    /// Number of uplink PDRs; `pdrs` begins with them.
    uplink_count: u16,
    /// How many UE addresses are from [`SessionRules::ue`]. Addresses that only PDRs name follow.
    ue_count: u16,
    /// The first item of the list of UE addresses; most sessions have no others.
    ue: UeAddresses,
    pdrs: Box<[PublishedPdr]>,
    /// FARs, in the order of the indices [`PdrShape::far`].
    pub fars: Box<[PublishedFar]>,
    /// URRs, in the order of the indices [`PdrShape::urrs`].
    pub urrs: Box<[PublishedUrr]>,
    qers: Arc<QerList>,
    matchers: Option<Box<Matchers>>,
    rare: Option<Box<RareRules>>,
}

/// Fields that few sessions need.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RareRules {
    /// The UE addresses after the first item.
    further_ues: Vec<UeAddresses>,
    /// See [`SessionRules::ue_networks`].
    ue_networks: Vec<IpPrefix>,
    /// See [`SessionRules::tunnel_sides`].
    tunnel_sides: Vec<(Teid, TunnelSide)>,
    /// See [`UnruledReasons::pdrs`].
    unruled_pdrs: Vec<UnruledPdr>,
}

/// Why packets of a session have no fast rule.
#[derive(Debug, Default)]
pub(crate) struct UnruledReasons {
    /// Why usual packets in uplink and in downlink have none, whichever PDR they match.
    pub all: [Option<NoFastRule>; 2],
    /// Why packets that another UPF sends to the UE in a tunnel have none.
    pub to_ue: Option<NoFastRule>,
    /// Why packets of PDRs that SDF filters select have none.
    pub pdrs: Vec<UnruledPdr>,
}

/// Why packets of a PDR that SDF filters select have no fast rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnruledPdr {
    pub direction: Direction,
    /// Index of the PDR in the list of its direction.
    pub position: u16,
    pub why: NoFastRule,
}

/// The QERs of a session, and its slice.
///
/// PERF (adit-bench publication): the list begins at a cache line of its own, because the reference
/// count before it changes whenever a session is established or deleted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[repr(align(64))]
pub(crate) struct QerList(pub Vec<QerEntry>, pub SliceId);

/// A PDR of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedPdr {
    shape: Arc<PdrShape>,
    /// TEID of the local tunnel; zero for none.
    teid: Teid,
    /// See [`PdrEntry::id`].
    pub id: PdrId,
    /// Index of the PDR's UE address in the session's list, counted from one; zero for none.
    ue: u16,
}

/// The part of a [`PdrEntry`] that is often equal in many sessions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[repr(align(64))]
#[allow(missing_docs, reason = "see the fields of the entry")]
pub struct PdrShape {
    pub precedence: Precedence,
    pub source: SourceInterface,
    pub interfaces: InterfaceSet,
    pub qfis: Vec<Qfi>,
    pub ue_networks: Vec<IpPrefix>,
    pub sdf: SdfSet,
    pub outer_header_removal: Option<HeaderRemoval>,
    pub container_deletion: bool,
    pub far: u16,
    pub qers: ArrayVec<u16, QERS_PER_PDR_MAX>,
    pub urrs: ArrayVec<u16, { URRS_PER_PDR_MAX + 1 }>,
}

/// A FAR of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedFar {
    shape: Arc<FarShape>,
    /// See [`FarEntry::id`].
    pub id: FarId,
    /// TEID of the far end, if the FAR creates a GTP-U header.
    teid: Teid,
    /// See [`FarEntry::next_hop`].
    pub next_hop: NextHopIndex,
}

/// The part of a [`FarEntry`] that is often equal in many sessions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[repr(align(64))]
#[allow(missing_docs, reason = "see the fields of the entry")]
pub struct FarShape {
    pub action: ApplyAction,
    pub destination: DestinationInterface,
    pub interfaces: InterfaceSet,
    /// A TEID is zero here; [`PublishedFar`] has it.
    outer_header: Option<HeaderCreation>,
    pub outer_tos: OuterTos,
    pub buffer_pkts_max: u16,
    pub steering: Option<Box<Steering>>,
    pub dscp: Option<u8>,
    pub redirect: Option<Box<Redirect>>,
    pub local_switching: InterfaceSet,
    pub duplicates: ArrayVec<u16, DUPLICATES_PER_FAR_MAX>,
}

/// A URR of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedUrr {
    shape: Arc<UrrShape>,
    /// See [`UrrEntry::id`].
    pub id: UrrId,
    /// See [`UrrEntry::slot`].
    pub slot: UsageSlot,
    /// See [`UrrEntry::generation`].
    pub generation: u32,
    /// See [`UrrEntry::report`].
    pub report: UsageLimits,
    /// `None` without a quota, which most URRs do not have.
    quota: Option<Box<UsageLimits>>,
}

/// The part of a [`UrrEntry`] that is often equal in many sessions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[repr(align(64))]
#[allow(missing_docs, reason = "see the fields of the entry")]
pub struct UrrShape {
    pub report_dropped: (u64, u64),
    pub stopped: bool,
    pub quota_far: Option<u16>,
    pub exempt: Vec<PacketFilter>,
    pub pool: Option<u16>,
    pub members: PoolMembers,
    pub report_start: bool,
    pub before_qos: bool,
}

/// The shapes that published rules share. The caller of the compiler owns them.
#[derive(Debug, Default)]
pub struct Shapes {
    pdrs: ShapeSet<PdrShape>,
    fars: ShapeSet<FarShape>,
    qers: ShapeSet<QerList>,
    urrs: ShapeSet<UrrShape>,
}

impl Deref for PublishedPdr {
    type Target = PdrShape;

    #[inline]
    fn deref(&self) -> &PdrShape {
        &self.shape
    }
}

impl Deref for PublishedFar {
    type Target = FarShape;

    #[inline]
    fn deref(&self) -> &FarShape {
        &self.shape
    }
}

impl Deref for PublishedUrr {
    type Target = UrrShape;

    #[inline]
    fn deref(&self) -> &UrrShape {
        &self.shape
    }
}

impl PublishedRules {
    /// Makes the compact form of `rules`. Shares equal shapes from `shapes`, and adds new ones.
    #[must_use]
    pub(crate) fn new(rules: SessionRules, unruled: UnruledReasons, shapes: &mut Shapes) -> Self {
        let SessionRules {
            up_seid,
            generation,
            slice,
            buffer_epoch,
            ue: mut ues,
            ue_networks,
            tunnel_sides,
            uplink,
            downlink,
            matchers,
            fars,
            qers,
            urrs,
            own_urr,
        } = rules;
        let Ok(uplink_count) = u16::try_from(uplink.len()) else {
            unreachable!("RULES_PER_SESSION_MAX and the alternatives of each PDR fit 16 bits")
        };
        let Ok(ue_count) = u16::try_from(ues.len()) else {
            unreachable!("no more UE addresses than alternatives of all PDRs")
        };
        let pdrs = uplink.into_iter().chain(downlink);
        let pdrs = pdrs.map(|pdr| published_pdr(pdr, &mut ues, shapes)).collect();
        let mut ues = ues.into_iter();
        let ue = ues.next().unwrap_or_default();
        let UnruledReasons { all: [of_uplink, of_downlink], to_ue, pdrs: unruled_pdrs } = unruled;
        let further_ues = ues.collect();
        let rare = RareRules { further_ues, ue_networks, tunnel_sides, unruled_pdrs };
        let RareRules { further_ues, ue_networks, tunnel_sides, unruled_pdrs } = &rare;
        let is_usual = further_ues.is_empty()
            && ue_networks.is_empty()
            && tunnel_sides.is_empty()
            && unruled_pdrs.is_empty();
        Self {
            up_seid,
            generation,
            buffer_epoch,
            has_own_urr: own_urr.is_some(),
            unruled: [of_uplink, of_downlink, to_ue],
            uplink_count,
            ue_count,
            ue,
            pdrs,
            fars: fars.into_iter().map(|far| published_far(far, shapes)).collect(),
            urrs: urrs.into_iter().map(|urr| published_urr(urr, shapes)).collect(),
            qers: shapes.qers.share(QerList(qers, slice)),
            matchers,
            rare: (!is_usual).then(|| Box::new(rare)),
        }
    }

    /// Returns the PDRs of `direction`, by ascending precedence.
    #[inline]
    #[must_use]
    pub fn pdrs(&self, direction: Direction) -> &[PublishedPdr] {
        let (uplink, downlink) = self.pdrs.split_at(usize::from(self.uplink_count));
        match direction {
            Direction::Uplink => uplink,
            Direction::Downlink => downlink,
        }
    }

    /// Returns why usual packets of `direction` have no single fast rule, whichever PDR they match;
    /// `None` if they have one.
    #[must_use]
    pub fn unruled(&self, direction: Direction) -> Option<NoFastRule> {
        self.unruled[direction.index()]
    }

    /// Returns why packets that another UPF sends to the UE in a tunnel have no fast rule; `None`
    /// if they have one.
    #[must_use]
    pub const fn unruled_to_ue(&self) -> Option<NoFastRule> {
        let [.., to_ue] = self.unruled;
        to_ue
    }

    /// Returns why packets of the PDR with index `position`, which SDF filters select, have no fast
    /// rule; `None` if they have one.
    #[must_use]
    pub fn unruled_pdr(&self, direction: Direction, position: usize) -> Option<NoFastRule> {
        let is_it =
            |pdr: &&UnruledPdr| (pdr.direction, usize::from(pdr.position)) == (direction, position);
        self.rare.as_ref()?.unruled_pdrs.iter().find(is_it).map(|pdr| pdr.why)
    }

    /// See [`SessionRules::matcher`].
    #[inline]
    #[must_use]
    pub fn matcher(&self, direction: Direction) -> Option<&Matcher> {
        self.matchers.as_ref()?.get(direction)
    }

    /// Returns the PDRs of both directions, uplink first.
    #[inline]
    #[must_use]
    pub fn all_pdrs(&self) -> &[PublishedPdr] {
        &self.pdrs
    }

    /// Returns the QERs, in the order of the indices [`PdrShape::qers`].
    #[inline]
    #[must_use]
    pub fn qers(&self) -> &[QerEntry] {
        &self.qers.0
    }

    /// Returns the QERs of a PDR.
    #[inline]
    pub fn qers_of<'r>(&'r self, pdr: &'r PublishedPdr) -> impl Iterator<Item = &'r QerEntry> {
        pdr.qers.iter().filter_map(|at| self.qers().get(usize::from(*at)))
    }

    /// True if the gates of all QERs of a PDR are open in `direction`.
    #[inline]
    #[must_use]
    pub fn gates_open(&self, pdr: &PublishedPdr, direction: Direction) -> bool {
        let qer = |at: &u16| self.qers().get(usize::from(*at));
        let is_open = |qer: &QerEntry| qer.gate(direction) == Gate::Open;
        pdr.qers.iter().all(|at| qer(at).is_some_and(is_open))
    }

    /// See [`SessionRules::slice`].
    #[inline]
    #[must_use]
    pub fn slice(&self) -> SliceId {
        self.qers.1
    }

    /// See [`SessionRules::tunnel_side`].
    #[inline]
    #[must_use]
    pub fn tunnel_side(&self, teid: Teid) -> TunnelSide {
        let sides = self.rare.as_ref().map_or(&[][..], |rare| &rare.tunnel_sides);
        let side = sides.iter().find(|(known, _)| *known == teid);
        side.map_or(TunnelSide::RAN, |(_, side)| *side)
    }

    /// See [`SessionRules::allows_ue`].
    #[inline]
    #[must_use]
    pub fn allows_ue(&self, addr: IpAddr) -> bool {
        self.names_ue(addr) || self.ue_count == 0 && self.ue_networks().is_empty()
    }

    /// True if the session's PDRs name `addr` as a UE address or as part of a network behind the
    /// UE.
    #[inline]
    #[must_use]
    pub fn names_ue(&self, addr: IpAddr) -> bool {
        let further = self.rare.as_ref().map_or(&[][..], |rare| &rare.further_ues);
        let ues = core::iter::once(&self.ue).chain(further);
        ues.take(usize::from(self.ue_count)).any(|ue| ue.contains(addr))
            || any_contains(self.ue_networks(), addr)
    }

    #[inline]
    fn ue_networks(&self) -> &[IpPrefix] {
        self.rare.as_ref().map_or(&[][..], |rare| &rare.ue_networks)
    }

    /// See [`PdrEntry::matches_ue`].
    #[inline]
    #[must_use]
    pub fn matches_ue(&self, pdr: &PublishedPdr, addr: IpAddr) -> bool {
        let ue = match pdr.ue {
            0 => UeAddresses::default(),
            1 => self.ue,
            further => {
                let rare = self.rare.as_ref();
                let ue = rare.and_then(|rare| rare.further_ues.get(usize::from(further) - 2));
                ue.copied().unwrap_or_default()
            }
        };
        match pdr.ue_networks.is_empty() {
            true => ue.matches(addr),
            false => ue.contains(addr) || any_contains(&pdr.ue_networks, addr),
        }
    }
}

impl PublishedPdr {
    /// See [`PdrEntry::teid`].
    #[inline]
    #[must_use]
    pub fn teid(&self) -> Option<Teid> {
        Some(self.teid).filter(|teid| teid.0 != 0)
    }
}

impl PublishedFar {
    /// See [`FarEntry::outer_header_creation`].
    #[inline]
    #[must_use]
    pub fn outer_header_creation(&self) -> Option<HeaderCreation> {
        self.shape.outer_header.map(|outer| with_teid(outer, self.teid))
    }

    /// See [`FarEntry::buffers`].
    #[inline]
    #[must_use]
    pub fn buffers(&self) -> bool {
        self.action.contains(ApplyAction::BUFF)
    }
}

impl PublishedUrr {
    /// See [`UrrEntry::quota`].
    #[inline]
    #[must_use]
    pub fn quota(&self) -> UsageLimits {
        self.quota.as_deref().copied().unwrap_or(UsageLimits::NONE)
    }
}

/// Returns the header to create, with `teid` if it is a GTP-U header.
#[inline]
const fn with_teid(outer: HeaderCreation, teid: Teid) -> HeaderCreation {
    match outer {
        HeaderCreation::Gtpu(GtpuTunnel { teid: _, addr }) => {
            HeaderCreation::Gtpu(GtpuTunnel { teid, addr })
        }
        HeaderCreation::Udp { .. } | HeaderCreation::Ip { .. } => outer,
    }
}

/// Makes the compact form of a PDR. Adds its UE addresses to `ues` if they are not there.
fn published_pdr(pdr: PdrEntry, ues: &mut Vec<UeAddresses>, shapes: &mut Shapes) -> PublishedPdr {
    let PdrEntry {
        id,
        precedence,
        source,
        interfaces,
        teid,
        qfis,
        ue,
        ue_networks,
        sdf,
        outer_header_removal,
        container_deletion,
        far,
        qers,
        urrs,
    } = pdr;
    let ue = match ues.iter().position(|known| *known == ue) {
        _ if ue.is_empty() => 0,
        Some(at) => at + 1,
        None => {
            ues.push(ue);
            ues.len()
        }
    };
    let Ok(ue) = u16::try_from(ue) else {
        unreachable!("no more UE addresses than alternatives of all PDRs")
    };
    let shape = shapes.pdrs.share(PdrShape {
        precedence,
        source,
        interfaces,
        qfis,
        ue_networks,
        sdf,
        outer_header_removal,
        container_deletion,
        far,
        qers,
        urrs,
    });
    PublishedPdr { shape, teid: teid.unwrap_or(Teid(0)), id, ue }
}

fn published_far(far: FarEntry, shapes: &mut Shapes) -> PublishedFar {
    let FarEntry {
        id,
        action,
        destination,
        interfaces,
        outer_header_creation,
        outer_tos,
        next_hop,
        // Only fast rules need the peer.
        peer: _,
        buffer_pkts_max,
        steering,
        dscp,
        redirect,
        local_switching: switched,
        duplicates,
    } = far;
    let tunnel = outer_header_creation.and_then(|outer| outer.tunnel());
    let shape = shapes.fars.share(FarShape {
        action,
        destination,
        interfaces,
        outer_header: outer_header_creation.map(|outer| with_teid(outer, Teid(0))),
        outer_tos,
        buffer_pkts_max,
        steering,
        dscp,
        redirect,
        local_switching: switched,
        duplicates,
    });
    PublishedFar { shape, id, teid: tunnel.map_or(Teid(0), |tunnel| tunnel.teid), next_hop }
}

fn published_urr(urr: UrrEntry, shapes: &mut Shapes) -> PublishedUrr {
    let UrrEntry {
        id,
        slot,
        generation,
        report,
        quota,
        report_dropped,
        stopped,
        quota_far,
        exempt,
        pool,
        members,
        report_start,
        before_qos,
    } = urr;
    let shape = shapes.urrs.share(UrrShape {
        report_dropped,
        stopped,
        quota_far,
        exempt,
        pool,
        members,
        report_start,
        before_qos,
    });
    let quota = (!quota.is_none()).then(|| Box::new(quota));
    PublishedUrr { shape, id, slot, generation, report, quota }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use super::*;

    const UE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const OTHER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    fn pdr(id: u16, v4: Option<Ipv4Addr>) -> PdrEntry {
        PdrEntry {
            id: PdrId(id),
            precedence: Precedence(1),
            source: SourceInterface::Access,
            interfaces: InterfaceSet::ALL,
            teid: None,
            qfis: Vec::new(),
            ue: UeAddresses { v4, v6: None },
            ue_networks: Vec::new(),
            sdf: SdfSet::default(),
            outer_header_removal: None,
            container_deletion: false,
            far: 0,
            qers: ArrayVec::new(),
            urrs: ArrayVec::new(),
        }
    }

    fn published(ue: &[Ipv4Addr], uplink: Vec<PdrEntry>) -> PublishedRules {
        let ue = ue.iter().map(|v4| UeAddresses { v4: Some(*v4), v6: None }).collect();
        let rules = SessionRules {
            up_seid: Seid(1),
            generation: DeltaId(0),
            slice: SliceId::default(),
            buffer_epoch: 0,
            ue,
            ue_networks: Vec::new(),
            tunnel_sides: Vec::new(),
            uplink,
            downlink: Vec::new(),
            matchers: None,
            fars: Vec::new(),
            qers: Vec::new(),
            urrs: Vec::new(),
            own_urr: None,
        };
        PublishedRules::new(rules, UnruledReasons::default(), &mut Shapes::default())
    }

    #[test]
    fn pdr_matches_the_addresses_that_it_names_or_any_without_one() {
        let rules = published(&[UE], vec![pdr(1, None), pdr(2, Some(UE)), pdr(3, Some(OTHER))]);
        let matching = |addr: Ipv4Addr| {
            let matches = |pdr: &&PublishedPdr| rules.matches_ue(pdr, addr.into());
            let pdrs = rules.all_pdrs().iter().filter(matches);
            pdrs.map(|pdr| pdr.id.0).collect::<Vec<_>>()
        };
        assert_eq!(matching(UE), [1, 2]);
        assert_eq!(matching(OTHER), [1, 3]);
    }

    #[test]
    fn usual_session_keeps_nothing_of_what_few_sessions_have() {
        let rules = published(&[UE], vec![pdr(1, None), pdr(2, Some(UE))]);
        assert_eq!(rules.rare, None);
        let rules = published(&[UE, OTHER], vec![pdr(1, None)]);
        assert_eq!(rules.rare.map(|rare| rare.further_ues.len()), Some(1));
    }
}
