//! Compiled PDRs, FARs and QERs of one PFCP session.
//!
//! A [`SessionRules`] is immutable once published. Rules refer to each other by index in the lists
//! of the session, so workers need no lookup and references cannot dangle.

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
    /// From the UE's side: the RAN, or a UPF nearer to it (uplink over N9).
    Access,
    /// From another user plane function, on the side of data networks.
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

/// The side and the direction of the packets in a local tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TunnelSide {
    /// The side from which the packets arrive.
    pub source: SourceInterface,
    /// The direction of the packets, derived from the FARs of the tunnel's PDRs: packets from the
    /// RAN or the CP function towards UEs are downlink.
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

/// A packet detection rule as a worker evaluates it. A condition that is `None` matches everything.
/// Spec: TS 29.244 §5.2.1A, §7.5.2.2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PdrEntry {
    /// The rule's identifier, for reports and traces.
    pub id: PdrId,
    /// PDRs with a lower value are evaluated first.
    pub precedence: Precedence,
    /// The side from which packets arrive.
    pub source: SourceInterface,
    /// Interfaces on which packets arrive: those of the network instance.
    pub interfaces: InterfaceSet,
    /// The local tunnel that packets must arrive in.
    pub teid: Option<Teid>,
    /// The QoS flows that packets must carry. Empty: packets of any and of no QoS flow match.
    pub qfis: Vec<Qfi>,
    /// The UE address of the inner packet: source in uplink, destination in downlink.
    pub ue: UeAddresses,
    /// Networks behind the UE, which match like its own address.
    pub ue_networks: Vec<IpPrefix>,
    /// SDF filters, one of which must match the inner packet; empty matches all.
    pub sdf: SdfSet,
    /// The outer header that is removed.
    pub outer_header_removal: Option<HeaderRemoval>,
    /// True if a created GTP-U header does not take over the packet's PDU Session Container. Spec:
    /// TS 29.244 §8.2.64 (GTP-U Extension Header Deletion).
    pub container_deletion: bool,
    /// Index in [`SessionRules::fars`].
    pub far: u16,
    /// Indices in [`SessionRules::qers`]; all of them apply.
    pub qers: ArrayVec<u16, QERS_PER_PDR_MAX>,
    /// Indices in [`SessionRules::urrs`]; all of them measure. There may be one more than the
    /// control plane can name, because of the user plane inactivity timer.
    pub urrs: ArrayVec<u16, { URRS_PER_PDR_MAX + 1 }>,
}

impl PdrEntry {
    /// False if no packet from the usual side of `direction` with forwardable addresses matches:
    /// the PDR has another source, or the remote side of all its filters is multicast or
    /// link-local. Neither the matcher nor the fast path includes such PDRs.
    #[must_use]
    pub fn is_usual(&self, direction: Direction) -> bool {
        let leaves_link = |filter: &PacketFilter| !filter.is_link_scoped();
        let has_filters = !self.sdf.is_empty() && !self.sdf.is_compiled();
        self.source.is_usual(direction) && (!has_filters || self.sdf.iter().any(leaves_link))
    }

    /// True if `addr` is the UE's or in a network behind it, or if the PDR names neither.
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

/// UE addresses: at most one of each family. If both are `None`, any address matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct UeAddresses {
    /// The IPv4 address.
    pub v4: Option<Ipv4Addr>,
    /// The IPv6 prefix, of 64 bits unless the control plane sets another length.
    pub v6: Option<Ipv6Prefix>,
}

impl UeAddresses {
    /// True if there is no address.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.v4.is_none() && self.v6.is_none()
    }

    /// True if `addr` is one of these addresses, or if there is none.
    #[inline]
    #[must_use]
    pub fn matches(&self, addr: IpAddr) -> bool {
        self.is_empty() || self.contains(addr)
    }

    /// True if `addr` is one of these addresses.
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
    /// GTP-U over UDP over either IP version.
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
    /// Interfaces through which packets leave: those of the network instance. Only their routes
    /// count.
    pub interfaces: InterfaceSet,
    /// The outer header of forwarded packets.
    pub outer_header_creation: Option<HeaderCreation>,
    /// Type of service or traffic class octet of the created outer header.
    pub outer_tos: OuterTos,
    /// Next hop towards the outer destination. The data plane sets it; [`NextHopIndex::NONE`] until
    /// then, and if there is no route or no outer header.
    pub next_hop: NextHopIndex,
    /// The far end of the tunnel that packets leave in. The data plane sets it;
    /// [`GtpuPeerIndex::NONE`] until then, and if there is no tunnel or no room for the peer.
    pub peer: GtpuPeerIndex,
    /// Maximum number of packets that a worker holds for the session while this FAR buffers.
    pub buffer_pkts_max: u16,
    /// The next hop of packets without an outer header; `None` if the routes decide.
    pub steering: Option<Box<Steering>>,
    /// Differentiated services code point that packets without an outer header get; `None` leaves
    /// theirs as it is. Range: 0..=63.
    pub dscp: Option<u8>,
    /// The target to which packets are redirected.
    pub redirect: Option<Box<Redirect>>,
    /// N6 interfaces on which packets from one UE to another are switched locally instead of
    /// leaving. Empty if the FAR creates an outer header.
    pub local_switching: InterfaceSet,
    /// Indices in [`SessionRules::fars`]: these send copies of all packets, also of dropped ones.
    pub duplicates: ArrayVec<u16, DUPLICATES_PER_FAR_MAX>,
}

impl FarEntry {
    /// True if packets are held instead of forwarded.
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
    /// The actions that decide what becomes of a packet: exactly one of them is set.
    pub const FATES: Self = Self::DROP.union(Self::FORW).union(Self::BUFF);
    /// Actions that notify the control plane.
    pub const NOTICES: Self = Self::NOCP.union(Self::BDPN).union(Self::DDPN);
}

/// Outer header that a FAR creates. Spec: TS 29.244 §8.2.56.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HeaderCreation {
    /// GTP-U over UDP over the IP version of the tunnel's address.
    Gtpu(GtpuTunnel),
    /// UDP over the IP version of the address.
    Udp {
        /// Address of the far end.
        addr: IpAddr,
        /// UDP port of the far end.
        port: u16,
    },
    /// An IP header of the version of the address.
    Ip {
        /// Address of the far end.
        addr: IpAddr,
    },
}

impl HeaderCreation {
    /// Returns the address of the far end.
    #[inline]
    #[must_use]
    pub const fn addr(&self) -> IpAddr {
        match *self {
            Self::Gtpu(GtpuTunnel { addr, .. }) | Self::Udp { addr, .. } | Self::Ip { addr } => {
                addr
            }
        }
    }

    /// Returns the GTP-U tunnel, if the header is one of GTP-U.
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
    /// QoS flow with which downlink packets are marked.
    pub qfi: Option<Qfi>,
    /// True if downlink packets get the reflective QoS indication.
    pub rqi: bool,
    /// Paging policy indicator in downlink packets, 0..=7. Spec: TS 29.244 §8.2.116.
    pub ppi: Option<u8>,
    /// Type of service or traffic class of downlink packets, and its mask. Spec: TS 29.244 §8.2.66.
    pub flow_tos: Option<(u8, u8)>,
    /// Service Class Indicator of downlink packets in GTP-U tunnels, and the octet after it in the
    /// IE. Spec: TS 29.244 §8.2.66; TS 29.281 §5.2.2.3.
    pub service_class: Option<(u8, u8)>,
    /// Maximum bit rate, if the QER has one in some direction. Spec: TS 29.244 §8.2.8.
    pub meter: Option<QerMeter>,
    /// Packet rate, if the QER has one in some direction. Spec: TS 29.244 §8.2.63.
    pub packet_rate: Option<Box<PacketRateMeter>>,
}

/// The maximum bit rates of a QER, and the buckets that measure them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct QerMeter {
    /// Towards the data network.
    pub uplink: RateLimit,
    /// Towards the UE.
    pub downlink: RateLimit,
    /// Index of the QER's bucket in the session. The data plane sets it and keeps it while the QER
    /// exists; zero until then.
    pub bucket: u8,
    /// The rate shared with other sessions. Spec: TS 29.244 §8.2.10 (QER Correlation ID).
    pub correlated_rate: Option<CorrelatedRateId>,
    /// The guaranteed share of the rates, uplink and downlink.
    pub guaranteed: [GuaranteedShare; 2],
    /// Index of the bucket that measures a guarantee below the rate, set like `bucket`.
    pub guaranteed_bucket: Option<u8>,
}

/// The guaranteed share of a rate. No aggregate delays guaranteed packets, and they wait instead of
/// being dropped if a transmit queue is full. Spec: TS 29.244 §8.2.9.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum GuaranteedShare {
    /// Nothing is guaranteed.
    #[default]
    Nothing,
    /// The whole rate is guaranteed.
    Whole,
    /// This lower rate is guaranteed.
    Within(RateLimit),
}

/// Which packets of a QER are guaranteed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Guarantee {
    /// No packet.
    #[default]
    Nothing,
    /// Every packet that conforms to the maximum bit rates.
    Whole,
    /// Packets that also conform to the session's bucket with this index.
    Bucket(u8),
}

/// Identifies a rate that PFCP sessions share, with one bucket for each direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CorrelatedRateId {
    /// Number of the CP function, which assigns the correlation IDs.
    pub cp: u32,
    /// The QER Correlation ID of this CP function.
    pub correlation: u32,
}

impl QerMeter {
    /// Returns the limit of `direction`.
    #[inline]
    #[must_use]
    pub const fn limit(&self, direction: Direction) -> RateLimit {
        match direction {
            Direction::Uplink => self.uplink,
            Direction::Downlink => self.downlink,
        }
    }

    /// Returns the guaranteed share in `direction`.
    #[inline]
    #[must_use]
    pub const fn guaranteed(&self, direction: Direction) -> GuaranteedShare {
        let [uplink, downlink] = self.guaranteed;
        match direction {
            Direction::Uplink => uplink,
            Direction::Downlink => downlink,
        }
    }

    /// Returns which packets of `direction` are guaranteed; none if it lacks the bucket.
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
    /// Returns the gate of `direction`.
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
    /// The change that brought these rules, by which workers notice changes. The data plane sets
    /// it; zero until then.
    pub generation: DeltaId,
    /// The slice whose rates the session shares.
    pub slice: SliceId,
    /// Increases when buffered packets have to be discarded: packets buffered under another value
    /// are. Spec: TS 29.244 §8.2.31 (DROBU).
    pub buffer_epoch: u32,
    /// All UE addresses that the session's PDRs name; packets with other sources are spoofed. If it
    /// is empty and `ue_networks` too, any source passes.
    pub ue: Vec<UeAddresses>,
    /// All networks behind the UE that the session's PDRs name; sources in them are not spoofed.
    pub ue_networks: Vec<IpPrefix>,
    /// Local tunnels whose packets are not from [`TunnelSide::RAN`], with their sides.
    pub tunnel_sides: Vec<(Teid, TunnelSide)>,
    /// PDRs of packets from the UE, by ascending precedence.
    pub uplink: Vec<PdrEntry>,
    /// PDRs of packets towards the UE, by ascending precedence.
    pub downlink: Vec<PdrEntry>,
    /// The matchers of the PDRs' SDF filters. The compiler sets them; `None` until then, and
    /// without filters.
    pub matchers: Option<Box<Matchers>>,
    /// FARs, in the order of the indices [`PdrEntry::far`]; after them the FARs that send copies.
    pub fars: Vec<FarEntry>,
    /// QERs, in the order of the indices [`PdrEntry::qers`].
    pub qers: Vec<QerEntry>,
    /// URRs, in the order of the indices [`PdrEntry::urrs`].
    pub urrs: Vec<UrrEntry>,
    /// The usage slot of the session's own URR, whose counters are next to its fast rules. They
    /// count packets that no other slot counts. The URR may be removed by now; `None` if the
    /// session never had one.
    pub own_urr: Option<UsageSlot>,
}

impl SessionRules {
    /// Returns the side of packets in the local tunnel `teid`.
    #[inline]
    #[must_use]
    pub fn tunnel_side(&self, teid: Teid) -> TunnelSide {
        let side = self.tunnel_sides.iter().find(|(known, _)| *known == teid);
        side.map_or(TunnelSide::RAN, |(_, side)| *side)
    }

    /// True if `addr` may be the source of an uplink packet of this session, and the destination of
    /// a downlink packet in a tunnel.
    #[inline]
    #[must_use]
    pub fn allows_ue(&self, addr: IpAddr) -> bool {
        self.ue.iter().any(|ue| ue.contains(addr))
            || any_contains(&self.ue_networks, addr)
            || self.ue.is_empty() && self.ue_networks.is_empty()
    }

    /// Same as [`SessionRules::matcher`], but mutable.
    pub(crate) fn matcher_mut(&mut self, direction: Direction) -> Option<&mut Matcher> {
        self.matchers.as_mut()?.get_mut(direction)
    }

    /// Returns the compiled SDF filters of [`SessionRules::pdrs`]; `None` if there are none.
    #[inline]
    #[must_use]
    pub fn matcher(&self, direction: Direction) -> Option<&Matcher> {
        self.matchers.as_ref()?.get(direction)
    }

    /// Returns the PDRs of `direction`, by ascending precedence.
    #[inline]
    #[must_use]
    pub fn pdrs(&self, direction: Direction) -> &[PdrEntry] {
        match direction {
            Direction::Uplink => &self.uplink,
            Direction::Downlink => &self.downlink,
        }
    }
}

/// The length of the IPv6 prefix that identifies one UE: downlink packets are found by it.
/// Spec: TS 23.501 §5.8.2.2 (a /64 per PDU Session).
pub const UE_IPV6_KEY_BITS: u8 = 64;

/// Returns the lookup key of an IPv6 UE: the upper 64 bits of the address.
#[inline]
#[must_use]
pub fn ue_ipv6_key(addr: Ipv6Addr) -> u64 {
    #[allow(clippy::cast_possible_truncation, reason = "the shift leaves 64 bits")]
    let key = (addr.to_bits() >> 64) as u64;
    key
}
