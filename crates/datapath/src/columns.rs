//! The columns of one burst: the results of each stage for each packet.
//!
//! A lane contains the packets of a burst whose sessions are looked up by the same kind of key. Row
//! *i* of every column of a lane belongs to the same packet. Each stage appends a column or changes
//! verdicts. After `s2_lookup`, `hand_off_lane` removes the packets of other workers; all other
//! rows stay until `s6_apply`.

use adit_rules::{
    DestinationInterface, DropReason, HeaderRemoval, PublishedFar, PublishedPdr, PublishedRules,
    SourceInterface,
};
use adit_tables::TablesView;
use adit_types::limits::BURST_MAX;
use adit_types::{Direction, DomainId, InterfaceSet, Qfi, SessionIndex, Teid};
use adit_wire::{IpPacket, PduSessionContainer};
use arrayvec::ArrayVec;

use crate::first_fragments::FirstFragment;
use crate::origin::Origin;

/// A column: at most one value per packet of a burst.
pub(crate) type BurstColumn<T> = ArrayVec<T, BURST_MAX>;

/// The outer header that a packet arrived with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OuterHeader {
    /// None: plain IP.
    None,
    /// GTP-U over UDP over IPv4.
    GtpuUdpIpv4,
    /// GTP-U over UDP over IPv6.
    GtpuUdpIpv6,
}

impl OuterHeader {
    /// Returns the header whose discriminant is `number`.
    #[inline]
    pub(crate) const fn of_number(number: u8) -> Self {
        match number {
            1 => Self::GtpuUdpIpv4,
            2 => Self::GtpuUdpIpv6,
            _ => Self::None,
        }
    }

    /// True if `removal` removes exactly this header.
    ///
    /// A packet from a tunnel whose PDR removes nothing does not fit either: it would leave with
    /// the outer header of the previous hop, which has our address as destination.
    /// Spec: TS 29.244 §8.2.64.
    #[inline]
    pub(crate) const fn fits(self, removal: Option<HeaderRemoval>) -> bool {
        match self {
            Self::None => removal.is_none(),
            Self::GtpuUdpIpv4 => {
                matches!(removal, Some(HeaderRemoval::GtpuUdpIpv4 | HeaderRemoval::GtpuUdpIp))
            }
            Self::GtpuUdpIpv6 => {
                matches!(removal, Some(HeaderRemoval::GtpuUdpIpv6 | HeaderRemoval::GtpuUdpIp))
            }
        }
    }
}

/// How a packet arrived; written by `s1_parse`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PacketArrival {
    /// Where the user's IP packet begins in the frame. Unit: octets.
    pub ip_offset: u16,
    /// Length of the tunnel's payload, zero without a tunnel. Unit: octets.
    pub payload_len: u16,
    /// The outer header in front of the user's packet.
    pub outer: OuterHeader,
    /// Type of service or traffic class octet of the outer header to remove; zero without an outer
    /// header. Written by `s3_classify` if a PDR removes a UDP or IP header.
    pub outer_tos: u8,
    /// The interface that the packet arrived on. For a packet that Adit makes for a UE: all
    /// interfaces to its data network, because a PDR may name any of them.
    pub interfaces: InterfaceSet,
    /// The tunnel that the packet arrived in, zero without one.
    pub teid: Teid,
    /// True if the packet was duplicated already: one that waited is not duplicated again.
    pub is_copied: bool,
    /// True if the packet has addresses that routers do not forward: it matches only rules from or
    /// to the CP function. Written by `s3_classify` for packets from tunnels.
    pub is_on_link: bool,
    /// PDU Session Container of the outer header; contains the QFI.
    pub container: Option<PduSessionContainer>,
    /// For a fragment: protocol and ports of the packet's first fragment. Written by `s3_classify`.
    pub upper: Option<FirstFragment>,
}

impl PacketArrival {
    /// Returns the QFI of the outer header.
    #[inline]
    pub(crate) fn qfi(&self) -> Option<Qfi> {
        self.container.map(|container| container.qfi)
    }
}

/// One user packet between the stages, without its buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UserPacket<'p> {
    pub session: SessionIndex,
    pub arrival: &'p PacketArrival,
    /// The user's IP header.
    pub ip: &'p IpPacket,
}

/// A user packet, and the rules that apply to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MatchedPacket<'p, 'v> {
    pub packet: UserPacket<'p>,
    pub matched: &'p Matched<'v>,
}

/// The rules that apply to a packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Matched<'v> {
    /// All rules of the session.
    pub rules: &'v PublishedRules,
    /// The PDR that matched.
    pub pdr: &'v PublishedPdr,
    /// The FAR of that PDR.
    pub far: &'v PublishedFar,
    /// The direction of the packet: that of its tunnel, or downlink without a tunnel.
    pub direction: Direction,
    /// True if the packet has to wait for its rates before it leaves. Written by `s4_enforce`.
    pub must_queue: bool,
    /// True if the packet is within the guaranteed bit rate of its flow. Written by `s4_enforce`.
    pub is_guaranteed: bool,
}

impl Matched<'_> {
    /// Returns how the packet is counted when it leaves.
    #[inline]
    pub(crate) const fn origin(&self) -> Origin {
        Origin::user(self.direction, self.is_guaranteed)
    }

    /// True if the packet comes from the CP function or goes there: UE and CP function are
    /// neighbors on one link. Spec: TS 29.244 §5.3.
    #[inline]
    pub(crate) fn is_from_or_to_cp_function(&self) -> bool {
        self.pdr.source == SourceInterface::CpFunction
            || self.far.destination == DestinationInterface::CpFunction
    }
}

/// The verdict on a packet. `s3_classify` writes it. `s4_enforce` and `s5_account` may turn `Pass`
/// into `Drop` or `Divert`, or replace the FAR in it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PacketVerdict<'v> {
    /// The packet is processed further by these rules.
    Pass(Matched<'v>),
    /// The FAR does not forward the packet, but buffers or reports it (`stage::divert`).
    Divert(Matched<'v>),
    /// The packet is dropped.
    Drop(DropReason),
}

/// The kind of a lane. It is a type, so that packet loops do not branch on it.
pub(crate) trait LaneKind {
    /// The key by which the sessions of the lane's packets are looked up.
    type Key: Copy;
    /// True if packets arrive in GTP-U tunnels, false if they arrive as plain IP on N6.
    const IS_TUNNELED: bool;
    /// The usual direction of the lane's packets; `s2_lookup` prefetches its counters.
    const USUAL_DIRECTION: Direction;
    /// Why a packet without a session is dropped.
    const UNKNOWN: DropReason;
    /// Finds the sessions of `keys` in a routing domain; `SessionIndex::NONE` if a key has none.
    /// `domain` does not matter for TEIDs, which are unique across all domains.
    fn lookup(
        view: &TablesView<'_>,
        domain: DomainId,
        keys: &[Self::Key],
        sessions: &mut [SessionIndex],
    );
}

/// G-PDUs, looked up by TEID. Their direction is that of the tunnel.
#[derive(Debug)]
pub(crate) struct Tunneled;

/// Plain IPv4 packets, looked up by UE address.
#[derive(Debug)]
pub(crate) struct DownlinkV4;

/// Plain IPv6 packets, looked up by the upper half of the UE address.
#[derive(Debug)]
pub(crate) struct DownlinkV6;

impl LaneKind for Tunneled {
    type Key = Teid;
    const IS_TUNNELED: bool = true;
    const USUAL_DIRECTION: Direction = Direction::Uplink;
    const UNKNOWN: DropReason = DropReason::TeidUnknown;

    #[inline]
    fn lookup(view: &TablesView<'_>, _: DomainId, keys: &[Teid], sessions: &mut [SessionIndex]) {
        view.lookup_teids(keys, sessions);
    }
}

impl LaneKind for DownlinkV4 {
    type Key = u32;
    const IS_TUNNELED: bool = false;
    const USUAL_DIRECTION: Direction = Direction::Downlink;
    const UNKNOWN: DropReason = DropReason::UeUnknown;

    #[inline]
    fn lookup(
        view: &TablesView<'_>,
        domain: DomainId,
        keys: &[u32],
        sessions: &mut [SessionIndex],
    ) {
        view.ues(domain).lookup_v4(keys, sessions);
    }
}

impl LaneKind for DownlinkV6 {
    type Key = u64;
    const IS_TUNNELED: bool = false;
    const USUAL_DIRECTION: Direction = Direction::Downlink;
    const UNKNOWN: DropReason = DropReason::UeUnknown;

    #[inline]
    fn lookup(
        view: &TablesView<'_>,
        domain: DomainId,
        keys: &[u64],
        sessions: &mut [SessionIndex],
    ) {
        view.ues(domain).lookup_v6(keys, sessions);
    }
}

/// The columns of one lane.
pub(crate) struct BurstLane<'v, B, S: LaneKind> {
    /// The packets. Written by `s1_parse`, consumed by `s6_apply`.
    pub bufs: BurstColumn<B>,
    /// How the packets arrived. Written by `s1_parse`; `s3_classify` advances `ip_offset` when it
    /// replaces the header in `ips`.
    pub arrivals: BurstColumn<PacketArrival>,
    /// The users' IP headers. Written by `s1_parse`; for packets from tunnels by `s3_classify`,
    /// when the session is known. `s3_classify` replaces a header if the PDR removes a UDP or IP
    /// header.
    pub ips: BurstColumn<IpPacket>,
    /// Lookup keys. Written by `s1_parse`.
    pub keys: BurstColumn<S::Key>,
    /// Sessions, `SessionIndex::NONE` on a miss. Written by `s2_lookup`.
    pub sessions: BurstColumn<SessionIndex>,
    /// Verdicts. Written by `s3_classify`; see [`PacketVerdict`].
    pub verdicts: BurstColumn<PacketVerdict<'v>>,
}

impl<B, S: LaneKind> BurstLane<'_, B, S> {
    #[inline]
    pub(crate) fn new() -> Self {
        Self {
            bufs: BurstColumn::new(),
            arrivals: BurstColumn::new(),
            ips: BurstColumn::new(),
            keys: BurstColumn::new(),
            sessions: BurstColumn::new(),
            verdicts: BurstColumn::new(),
        }
    }

    /// Appends a packet whose payload is not parsed yet. The columns cannot overflow: a lane has
    /// only packets of one burst.
    #[inline]
    pub(crate) fn push(&mut self, buf: B, arrival: PacketArrival, key: S::Key) {
        self.bufs.push(buf);
        self.arrivals.push(arrival);
        self.keys.push(key);
    }

    /// Appends a packet with its IP header.
    #[inline]
    pub(crate) fn push_ip(&mut self, buf: B, arrival: PacketArrival, ip: IpPacket, key: S::Key) {
        self.push(buf, arrival, key);
        self.ips.push(ip);
    }

    /// Returns how many packets the lane has.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// True if the lane has no packets.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

/// The lanes of one burst.
pub(crate) struct BurstLanes<'v, B> {
    pub tunneled: BurstLane<'v, B, Tunneled>,
    pub downlink_v4: BurstLane<'v, B, DownlinkV4>,
    pub downlink_v6: BurstLane<'v, B, DownlinkV6>,
}

impl<B> BurstLanes<'_, B> {
    #[inline]
    pub(crate) fn new() -> Self {
        Self {
            tunneled: BurstLane::new(),
            downlink_v4: BurstLane::new(),
            downlink_v6: BurstLane::new(),
        }
    }
}
