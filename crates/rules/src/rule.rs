//! Compiled PDRs, FARs and QERs of one PFCP session.
//!
//! A [`SessionRules`] is immutable once published. References between rules are positions in its
//! own lists, so a worker follows them without a lookup and they cannot dangle.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_types::limits::{DUPLICATES_PER_FAR_MAX, QERS_PER_PDR_MAX, URRS_PER_PDR_MAX};
use adit_types::{
    Direction, FarId, GtpuPeerIndex, InterfaceSet, IpPrefix, Ipv6Prefix, NextHopIndex, PdrId,
    Precedence, QerId, Qfi, Seid, SliceId, Teid, UsageSlot,
};
use arrayvec::ArrayVec;
use bitflags::bitflags;

use crate::delta_id::DeltaId;
use crate::forwarding::{Redirect, Steering};
use crate::matcher::{Matcher, Matchers};
use crate::outer_tos::OuterTos;
use crate::packet_rate::PacketRateMeter;
use crate::rate::RateLimit;
use crate::sdf::PacketFilter;
use crate::sdf_set::SdfSet;
use crate::usage::UrrEntry;

/// Where a PDR's packets come from. Spec: TS 29.244 §8.2.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SourceInterface {
    /// From the RAN or, seen from the UE, from below.
    Access,
    /// From another user plane function.
    Core,
    /// From the data network.
    SgiLanN6Lan,
    /// From the control plane function.
    CpFunction,
}

impl SourceInterface {
    /// True for the side of data networks, which send plain IP packets to UEs.
    #[inline]
    #[must_use]
    pub const fn is_network(self) -> bool {
        matches!(self, Self::Core | Self::SgiLanN6Lan)
    }

    /// True for the side from which most packets of `direction` come.
    #[inline]
    #[must_use]
    pub const fn is_usual(self, direction: Direction) -> bool {
        match direction {
            Direction::Uplink => matches!(self, Self::Access),
            Direction::Downlink => self.is_network(),
        }
    }
}

/// The side and the direction of packets in a local tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TunnelSide {
    /// The side that they come from.
    pub source: SourceInterface,
    /// Their direction, by the FARs of the tunnel's PDRs: packets of the RAN or the CP function
    /// towards UEs are downlink.
    pub direction: Direction,
}

impl TunnelSide {
    /// Uplink packets from the RAN.
    pub const RAN: Self = Self { source: SourceInterface::Access, direction: Direction::Uplink };
}

/// Where a FAR sends packets. Spec: TS 29.244 §8.2.24.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DestinationInterface {
    /// Towards the RAN.
    Access,
    /// Towards another user plane function or, without an outer header, the data network.
    Core,
    /// Towards the data network.
    SgiLanN6Lan,
    /// Towards the control plane function.
    CpFunction,
    /// Towards the lawful interception function, for copies only.
    LiFunction,
}

/// A packet detection rule as a worker evaluates it. An absent condition matches everything.
/// Spec: TS 29.244 §5.2.1A, §7.5.2.2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PdrEntry {
    /// The rule's identifier, for reports and traces.
    pub id: PdrId,
    /// Lower is evaluated first.
    pub precedence: Precedence,
    /// The side that packets come from.
    pub source: SourceInterface,
    /// Interfaces that packets arrive on: those of the network instance.
    pub interfaces: InterfaceSet,
    /// The local tunnel that packets must arrive in.
    pub teid: Option<Teid>,
    /// The QoS flows that packets must carry; empty matches packets of any flow and of none.
    pub qfis: Vec<Qfi>,
    /// The UE address of the inner packet: source in uplink, destination in downlink.
    pub ue: UeAddresses,
    /// Networks behind the UE, which match like its own address.
    pub ue_networks: Vec<IpPrefix>,
    /// SDF filters, one of which must match the inner packet; empty matches all.
    pub sdf: SdfSet,
    /// The outer header that is removed.
    pub outer_header_removal: Option<HeaderRemoval>,
    /// A created GTP-U header does not take over the PDU Session Container of the packet. Spec: TS
    /// 29.244 §8.2.64 (GTP-U Extension Header Deletion).
    pub container_deletion: bool,
    /// Position in [`SessionRules::fars`].
    pub far: u16,
    /// Positions in [`SessionRules::qers`]; all of them apply.
    pub qers: ArrayVec<u16, QERS_PER_PDR_MAX>,
    /// Positions in [`SessionRules::urrs`]; all of them measure. One more than the
    /// control plane may name: the user plane inactivity timer.
    pub urrs: ArrayVec<u16, { URRS_PER_PDR_MAX + 1 }>,
}

impl PdrEntry {
    /// False when no packet from the usual side of `direction` with forwardable addresses matches:
    /// the PDR has another source, or all its filters name a group or a link-local address as the
    /// remote side. Such PDRs belong neither to the matcher nor to the fast path.
    #[must_use]
    pub fn is_usual(&self, direction: Direction) -> bool {
        let leaves_link = |filter: &PacketFilter| !filter.is_link_scoped();
        let has_filters = !self.sdf.is_empty() && !self.sdf.is_compiled();
        self.source.is_usual(direction) && (!has_filters || self.sdf.iter().any(leaves_link))
    }

    /// True when `addr` is an address of the UE or behind it, or when the PDR names none.
    #[inline]
    #[must_use]
    pub fn matches_ue(&self, addr: IpAddr) -> bool {
        match self.ue_networks.is_empty() {
            true => self.ue.matches(addr),
            false => self.ue.contains(addr) || any_contains(&self.ue_networks, addr),
        }
    }
}

pub(crate) fn any_contains(networks: &[IpPrefix], addr: IpAddr) -> bool {
    networks.iter().any(|network| network.contains(addr))
}

/// UE addresses: at most one of each family. Both absent means "any".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct UeAddresses {
    /// The IPv4 address.
    pub v4: Option<Ipv4Addr>,
    /// The IPv6 prefix, of 64 bits unless the control plane said otherwise.
    pub v6: Option<Ipv6Prefix>,
}

impl UeAddresses {
    /// True without any address.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.v4.is_none() && self.v6.is_none()
    }

    /// True when `addr` is one of these addresses, or when there is none.
    #[inline]
    #[must_use]
    pub fn matches(&self, addr: IpAddr) -> bool {
        self.is_empty() || self.contains(addr)
    }

    /// True when `addr` is one of these addresses.
    #[inline]
    #[must_use]
    pub fn contains(&self, addr: IpAddr) -> bool {
        match addr {
            IpAddr::V4(addr) => self.v4 == Some(addr),
            IpAddr::V6(addr) => self.v6.is_some_and(|prefix| prefix.contains(addr)),
        }
    }
}

/// Outer headers that a PDR removes. Code points as in TS 29.244 §8.2.64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum HeaderRemoval {
    /// GTP-U over UDP over IPv4.
    GtpuUdpIpv4 = 0,
    /// GTP-U over UDP over IPv6.
    GtpuUdpIpv6 = 1,
    /// UDP over IPv4.
    UdpIpv4 = 2,
    /// UDP over IPv6.
    UdpIpv6 = 3,
    /// IPv4.
    Ipv4 = 4,
    /// IPv6.
    Ipv6 = 5,
    /// GTP-U over UDP over either family.
    GtpuUdpIp = 6,
}

/// A forwarding action rule as a worker applies it. Spec: TS 29.244 §7.5.2.3.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FarEntry {
    /// The rule's identifier, for reports and traces.
    pub id: FarId,
    /// The actions.
    pub action: ApplyAction,
    /// Where to send forwarded packets.
    pub destination: DestinationInterface,
    /// Interfaces that packets leave through: those of the network instance. Only their routes
    /// count.
    pub interfaces: InterfaceSet,
    /// The outer header of forwarded packets.
    pub outer_header_creation: Option<HeaderCreation>,
    /// Type of service or traffic class octet of the created outer header.
    pub outer_tos: OuterTos,
    /// Next hop towards the outer destination. The data plane writes it; [`NextHopIndex::NONE`]
    /// until then, without a route, and without an outer header.
    pub next_hop: NextHopIndex,
    /// The far end of the tunnel that packets leave in. The data plane writes it;
    /// [`GtpuPeerIndex::NONE`] until then, without a tunnel, and without room for the peer.
    pub peer: GtpuPeerIndex,
    /// Packets that a worker holds for the session while this FAR buffers.
    pub buffer_pkts_max: u16,
    /// The next hop of packets without an outer header, instead of that of the routes.
    pub steering: Option<Box<Steering>>,
    /// Differentiated services code point that packets without an outer header leave with; absent
    /// leaves theirs. Range: 0..=63.
    pub dscp: Option<u8>,
    /// The destination that replaces that of packets.
    pub redirect: Option<Box<Redirect>>,
    /// N6 interfaces whose packets from one UE to another are switched locally instead of leaving.
    /// Empty if the FAR creates an outer header.
    pub local_switching: InterfaceSet,
    /// Positions in [`SessionRules::fars`]: each sends a copy of every packet, dropped ones
    /// included.
    pub duplicates: ArrayVec<u16, DUPLICATES_PER_FAR_MAX>,
}

impl FarEntry {
    /// True when packets are held instead of forwarded.
    #[inline]
    #[must_use]
    pub const fn buffers(&self) -> bool {
        self.action.contains(ApplyAction::BUFF)
    }
}

bitflags! {
    /// Actions of a FAR. Bit positions as in TS 29.244 §8.2.26, octet 5 low.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct ApplyAction: u16 {
        /// Drop the packet.
        const DROP = 1 << 0;
        /// Forward the packet.
        const FORW = 1 << 1;
        /// Buffer the packet.
        const BUFF = 1 << 2;
        /// Notify the control plane of the first downlink packet.
        const NOCP = 1 << 3;
        /// Duplicate the packet.
        const DUPL = 1 << 4;
        /// Notify the control plane of the first buffered downlink packet, with its status.
        const BDPN = 1 << 9;
        /// Notify the control plane of the first discarded downlink packet, with its status.
        const DDPN = 1 << 10;
    }
}

impl ApplyAction {
    /// The fates of a packet: exactly one of them is set.
    pub const FATES: Self = Self::DROP.union(Self::FORW).union(Self::BUFF);
    /// Actions that notify the control plane.
    pub const NOTICES: Self = Self::NOCP.union(Self::BDPN).union(Self::DDPN);
}

/// Outer header that a FAR creates. Spec: TS 29.244 §8.2.56.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HeaderCreation {
    /// GTP-U over UDP over the family of the tunnel's address.
    Gtpu(GtpuTunnel),
    /// UDP over the family of the address.
    Udp {
        /// Address of the far end.
        addr: IpAddr,
        /// UDP port of the far end.
        port: u16,
    },
    /// An IP header of the family of the address.
    Ip {
        /// Address of the far end.
        addr: IpAddr,
    },
}

impl HeaderCreation {
    /// Address of the far end.
    #[inline]
    #[must_use]
    pub const fn addr(&self) -> IpAddr {
        match *self {
            Self::Gtpu(GtpuTunnel { addr, .. }) | Self::Udp { addr, .. } | Self::Ip { addr } => {
                addr
            }
        }
    }

    /// The GTP-U tunnel, if it is one.
    #[inline]
    #[must_use]
    pub const fn tunnel(&self) -> Option<GtpuTunnel> {
        match *self {
            Self::Gtpu(tunnel) => Some(tunnel),
            Self::Udp { .. } | Self::Ip { .. } => None,
        }
    }
}

/// The far end of a GTP-U tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GtpuTunnel {
    /// TEID of the far end.
    pub teid: Teid,
    /// Address of the far end.
    pub addr: IpAddr,
}

/// Gate of one direction. Spec: TS 29.244 §8.2.7.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Gate {
    /// Packets pass.
    #[default]
    Open,
    /// Packets are dropped.
    Closed,
}

/// A QoS enforcement rule as a worker applies it. Spec: TS 29.244 §7.5.2.5.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct QerEntry {
    /// The rule's identifier, for reports and traces.
    pub id: QerId,
    /// Gate towards the data network.
    pub gate_uplink: Gate,
    /// Gate towards the UE.
    pub gate_downlink: Gate,
    /// QoS flow that downlink packets are marked with.
    pub qfi: Option<Qfi>,
    /// Reflective QoS indication in downlink packets.
    pub rqi: bool,
    /// Paging policy indicator in downlink packets, 0..=7. Spec: TS 29.244 §8.2.116.
    pub ppi: Option<u8>,
    /// Type of service or traffic class of downlink packets, and its mask. Spec: TS 29.244 §8.2.66.
    pub flow_tos: Option<(u8, u8)>,
    /// Service Class Indicator of downlink packets in GTP-U tunnels, and the octet behind it.
    /// Spec: TS 29.244 §8.2.66; TS 29.281 §5.2.2.3.
    pub service_class: Option<(u8, u8)>,
    /// Maximum bit rate, if it has one in some direction. Spec: TS 29.244 §8.2.8.
    pub meter: Option<QerMeter>,
    /// Packet rate, if it has one in some direction. Spec: TS 29.244 §8.2.63.
    pub packet_rate: Option<Box<PacketRateMeter>>,
}

/// The maximum bit rates of a QER, and where its buckets are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct QerMeter {
    /// Towards the data network.
    pub uplink: RateLimit,
    /// Towards the UE.
    pub downlink: RateLimit,
    /// The number of its bucket in the session. The data plane writes it and keeps it while the QER
    /// exists; zero until then.
    pub bucket: u8,
    /// The rate that it shares with other sessions. Spec: TS 29.244 §8.2.10 (QER Correlation ID).
    pub correlated_rate: Option<CorrelatedRateId>,
    /// The guaranteed share of its rates, uplink and downlink.
    pub guaranteed: [GuaranteedShare; 2],
    /// The number of the bucket that measures a guarantee below the rate; see `bucket`.
    pub guaranteed_bucket: Option<u8>,
}

/// The guaranteed share of a rate. No aggregate delays it, and its packets wait if a transmit queue
/// is full. Spec: TS 29.244 §8.2.9.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum GuaranteedShare {
    /// Nothing.
    #[default]
    Nothing,
    /// The whole rate is guaranteed.
    Whole,
    /// This rate.
    Within(RateLimit),
}

/// The guarantee of a packet, by the bucket that measures it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Guarantee {
    /// Nothing.
    #[default]
    Nothing,
    /// Every packet that conforms to its maximum bit rates is guaranteed.
    Whole,
    /// The part that also conforms to this bucket of the session.
    Bucket(u8),
}

/// Names a rate that PFCP sessions share, one bucket for each direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CorrelatedRateId {
    /// The CP function, which assigns the correlation IDs.
    pub cp: u32,
    /// Its QER Correlation ID.
    pub correlation: u32,
}

impl QerMeter {
    /// The limit of `direction`.
    #[inline]
    #[must_use]
    pub const fn limit(&self, direction: Direction) -> RateLimit {
        match direction {
            Direction::Uplink => self.uplink,
            Direction::Downlink => self.downlink,
        }
    }

    /// The guaranteed share in `direction`.
    #[inline]
    #[must_use]
    pub const fn guaranteed(&self, direction: Direction) -> GuaranteedShare {
        let [uplink, downlink] = self.guaranteed;
        match direction {
            Direction::Uplink => uplink,
            Direction::Downlink => downlink,
        }
    }

    /// As [`Self::guaranteed`], as its bucket; nothing if no bucket was left for it.
    #[inline]
    #[must_use]
    pub const fn guarantee(&self, direction: Direction) -> Guarantee {
        match (self.guaranteed(direction), self.guaranteed_bucket) {
            (GuaranteedShare::Whole, _) => Guarantee::Whole,
            (GuaranteedShare::Within(_), Some(bucket)) => Guarantee::Bucket(bucket),
            (GuaranteedShare::Nothing, _) | (GuaranteedShare::Within(_), None) => {
                Guarantee::Nothing
            }
        }
    }
}

impl QerEntry {
    /// The gate of `direction`.
    #[inline]
    #[must_use]
    pub const fn gate(&self, direction: Direction) -> Gate {
        match direction {
            Direction::Uplink => self.gate_uplink,
            Direction::Downlink => self.gate_downlink,
        }
    }
}

/// All rules of one PFCP session, as the control side states them. The compiler turns them into
/// [`PublishedRules`](crate::PublishedRules), which workers read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRules {
    /// Our own session endpoint identifier, for reports and traces.
    pub up_seid: Seid,
    /// The change that brought these rules, by which workers see that rules changed. The data plane
    /// writes it; zero until then.
    pub generation: DeltaId,
    /// The slice whose rates the session shares.
    pub slice: SliceId,
    /// Packets that were buffered under another value are discarded. Spec: TS 29.244 §8.2.31
    /// (DROBU).
    pub buffer_epoch: u32,
    /// All UE addresses that the session's PDRs name; sources outside them are spoofed.
    /// Empty when no PDR names one: then any source passes.
    pub ue: Vec<UeAddresses>,
    /// All networks behind the UE that the session's PDRs name; sources in them are not spoofed.
    pub ue_networks: Vec<IpPrefix>,
    /// Local tunnels whose packets are not [`TunnelSide::RAN`], with their sides.
    pub tunnel_sides: Vec<(Teid, TunnelSide)>,
    /// PDRs of packets from the UE, by ascending precedence.
    pub uplink: Vec<PdrEntry>,
    /// PDRs of packets towards the UE, by ascending precedence.
    pub downlink: Vec<PdrEntry>,
    /// The matchers of the SDF filters of these PDRs. The compiler writes them; `None` until then,
    /// and without filters.
    pub matchers: Option<Box<Matchers>>,
    /// FARs, in the order that [`PdrEntry::far`] counts; behind them those of their duplicates.
    pub fars: Vec<FarEntry>,
    /// QERs, in the order that [`PdrEntry::qers`] counts.
    pub qers: Vec<QerEntry>,
    /// URRs, in the order that [`PdrEntry::urrs`] counts.
    pub urrs: Vec<UrrEntry>,
    /// The usage slot of the session's own URR, whose counters are next to its fast rules: they
    /// count packets that no other slot counts. The URR may be gone; `None` if the session never
    /// had one.
    pub own_urr: Option<UsageSlot>,
}

impl SessionRules {
    /// The side of packets in the local tunnel `teid`.
    #[inline]
    #[must_use]
    pub fn tunnel_side(&self, teid: Teid) -> TunnelSide {
        let side = self.tunnel_sides.iter().find(|(known, _)| *known == teid);
        side.map_or(TunnelSide::RAN, |(_, side)| *side)
    }

    /// True when `addr` may be the source of an uplink packet of this session, and when it may be
    /// the destination of a downlink packet in a tunnel.
    #[inline]
    #[must_use]
    pub fn allows_ue(&self, addr: IpAddr) -> bool {
        self.ue.iter().any(|ue| ue.contains(addr))
            || any_contains(&self.ue_networks, addr)
            || self.ue.is_empty() && self.ue_networks.is_empty()
    }

    /// The same as [`SessionRules::matcher`], to append lines to.
    pub(crate) fn matcher_mut(&mut self, direction: Direction) -> Option<&mut Matcher> {
        self.matchers.as_mut()?.get_mut(direction)
    }

    /// The compiled SDF filters of [`SessionRules::pdrs`]; `None` without any.
    #[inline]
    #[must_use]
    pub fn matcher(&self, direction: Direction) -> Option<&Matcher> {
        self.matchers.as_ref()?.get(direction)
    }

    /// PDRs of `direction`, by ascending precedence.
    #[inline]
    #[must_use]
    pub fn pdrs(&self, direction: Direction) -> &[PdrEntry] {
        match direction {
            Direction::Uplink => &self.uplink,
            Direction::Downlink => &self.downlink,
        }
    }
}

/// The longest IPv6 prefix that names one UE: the key under which downlink packets are found.
/// Spec: TS 23.501 §5.8.2.2 (a /64 per PDU Session).
pub const UE_IPV6_KEY_BITS: u8 = 64;

/// Lookup key of an IPv6 UE: the upper 64 bits of its address.
#[inline]
#[must_use]
pub fn ue_ipv6_key(addr: Ipv6Addr) -> u64 {
    #[allow(clippy::cast_possible_truncation, reason = "the shift leaves 64 bits")]
    let key = (addr.to_bits() >> 64) as u64;
    key
}
