//! Taps: the reports of a data plane about single packets, for clients that trace or capture them.
//!
//! The control thread starts a tap with a [`TapRequest`] to every worker, and stops it again. A
//! worker writes a record of each packet that a tap selects into a ring: a [`TapItem::Packet`],
//! items in the order of events, and a [`TapItem::End`]. Items have a fixed size and hold
//! identifiers; the reader of the ring turns these into words.
//!
//! A worker reports each packet at most once, for all its taps together. A packet that waits (for a
//! neighbor, a rate, rules) is reported when it begins to wait; the end of the wait is a separate
//! record ([`TapOrigin::Waited`]).

use core::net::IpAddr;

use adit_types::limits::TAPS_MAX;
use adit_types::{
    Direction, FarId, InterfaceId, MacAddr, Nanos, PdrId, PortId, Precedence, QerId, Seid,
    SessionIndex, Teid, UrrId, WorkerId,
};

use crate::leave_reason::{LeaveReason, NoFastRule};
use crate::rule::{ApplyAction, DestinationInterface, HeaderCreation, SourceInterface};
use crate::verdict::{DropReason, PuntReason};

/// Selects packets by session, address, tunnel or interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TapKey {
    /// All packets.
    Any,
    /// The packets of a session. The index may be reused, so the SEID is checked as well.
    Session(SessionIndex, Seid),
    /// The packets to a UE address, in tunnels also those from it, and packets of its session with
    /// a source that is not the UE's. The upper half of an IPv6 address is compared.
    Ue(IpAddr),
    /// The packets in a local tunnel, whether or not a session owns it.
    Teid(Teid),
    /// The packets that arrive on an interface or leave through it.
    Interface(InterfaceId),
}

/// The drops that a tap reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TapDropFilter {
    /// All drops.
    Any,
    /// The drops for one reason.
    Only(DropReason),
}

impl TapDropFilter {
    /// True if a drop for `reason` is reported.
    #[must_use]
    pub fn includes(self, reason: DropReason) -> bool {
        match self {
            Self::Any => true,
            Self::Only(only) => only == reason,
        }
    }
}

/// Selects the packets that a tap reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TapFilter {
    /// Which packets, by session, address, tunnel or interface.
    pub key: TapKey,
    /// If set, only packets that are dropped for this reason.
    pub drop: Option<TapDropFilter>,
    /// Reports one of this many packets that `key` selects; 0 and 1 report all of them.
    pub one_of: u32,
}

/// A request to a worker for reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TapRequest {
    /// The packets to report.
    pub filter: TapFilter,
    /// True to report the stages and rules that a packet met, with times.
    pub has_stages: bool,
    /// True to try the fast path with a copy of each packet.
    pub has_path: bool,
    /// Maximum number of octets to report of each frame.
    pub snap_bytes: u16,
    /// Maximum number of records.
    pub pkts_max: u64,
    /// No packet is reported from this time on.
    pub until: Nanos,
}

/// Identifies a tap of a worker, below [`TAPS_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TapId(pub u8);

/// A set of taps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TapSet(u8);

impl TapSet {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// Returns the set with `tap` added.
    #[must_use]
    pub const fn with(self, TapId(tap): TapId) -> Self {
        Self(self.0 | 1 << (tap as usize % TAPS_MAX))
    }

    /// Returns the union with `other`.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// True if `tap` is in the set.
    #[must_use]
    pub const fn contains(self, TapId(tap): TapId) -> bool {
        self.0 >> (tap as usize % TAPS_MAX) & 1 != 0
    }

    /// Returns the taps that are in both sets.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// True if the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns a bit for each tap; the lowest is that of tap 0.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Restores a set from [`TapSet::bits`]; bits of no tap are ignored.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & ((1 << TAPS_MAX) - 1))
    }
}

const _: () = assert!(TAPS_MAX < 8, "a bit per tap, and one is left");

/// Maximum number of octets in one [`TapItem::Octets`].
pub const TAP_OCTETS_MAX: usize = 56;

/// One item of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TapItem {
    /// The beginning of a record.
    Packet(TapPacket),
    /// Octets of the frame of the last [`TapItem::Packet`] or [`TapItem::Sent`], in order.
    Octets {
        /// How many octets are valid.
        len: u8,
        /// The octets, followed by padding.
        octets: [u8; TAP_OCTETS_MAX],
    },
    /// The packet waited for this event, and the time since it began to wait.
    Waited(TapWait, Nanos),
    /// The packet finished a stage, and when.
    Stage(TapStage, Nanos),
    /// The session of the packet.
    Session(TapSession),
    /// A PDR was compared with the packet.
    Tried {
        /// The PDR.
        pdr: PdrId,
        /// PDRs with a lower value are compared first.
        precedence: Precedence,
        /// The condition that the packet does not meet; `None` if it matched.
        mismatch: Option<PdrMismatch>,
    },
    /// The PDR that applies.
    Matched {
        /// The PDR.
        pdr: PdrId,
        /// The direction of the packet.
        direction: Direction,
    },
    /// A QER of the PDR, before the packet is charged to it.
    Qer(TapQer),
    /// A URR of the PDR. It counted the packet if the two volumes differ.
    Urr {
        /// The URR.
        urr: UrrId,
        /// Volume in both directions before the packet. Unit: octets.
        before: u64,
        /// Volume in both directions after the packet. Unit: octets.
        after: u64,
    },
    /// The FAR that applies: that of the PDR or, if a quota is used up, that of the URR.
    Far {
        /// The FAR.
        far: FarId,
        /// The actions of the FAR.
        action: ApplyAction,
        /// The destination interface of the FAR.
        destination: DestinationInterface,
        /// The outer header that the FAR creates.
        outer: Option<HeaderCreation>,
        /// True if the packet waits for its rates.
        must_queue: bool,
    },
    /// The interface and neighbor to which the packet leaves.
    Egress {
        /// The interface.
        interface: InterfaceId,
        /// The IP address of the neighbor on the interface's link.
        station: IpAddr,
        /// The neighbor's link-layer address; `None` if it is unresolved.
        mac: Option<MacAddr>,
        /// True if the packet is switched to another UE instead.
        is_switched: bool,
        /// DSCP that the rules give to the user's packet.
        dscp: Option<u8>,
    },
    /// The result of trying the fast path with the packet.
    FastPath(FastPathTrialResult),
    /// A frame that leaves. Items with its octets follow.
    Sent {
        /// The port through which the frame leaves.
        port: PortId,
        /// The interface through which the frame leaves.
        interface: InterfaceId,
        /// The length of the frame. Unit: octets.
        len: u32,
    },
    /// The end of a record.
    End(TapOutcome),
    /// How many packets the tap skipped because the ring had no room.
    Skipped(TapId, u64),
    /// The worker will report nothing more for the tap.
    Stopped(TapId),
}

/// A packet as the worker received it. Items with its octets follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TapPacket {
    /// The taps that get the record.
    pub taps: TapSet,
    /// From where the worker got the packet.
    pub origin: TapOrigin,
    /// The worker.
    pub worker: WorkerId,
    /// When the worker began to process the packet.
    pub at: Nanos,
    /// The port on which the packet arrived; `None` if it is no longer known.
    pub port: Option<PortId>,
    /// The interface to which the packet belongs.
    pub interface: Option<InterfaceId>,
    /// The length of the frame. Unit: octets.
    pub len: u32,
}

/// From where a worker got a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TapOrigin {
    /// From a port.
    Port,
    /// From another thread, which received it.
    Handoff,
    /// From the worker itself: it joined the packet from fragments, or switched it from another UE.
    Recirculated,
    /// From waiting; the frame may be rewritten by then. If a tap selected the packet already when
    /// it began to wait, only the frame that leaves is reported.
    Waited,
}

/// The event that a packet waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TapWait {
    /// Rules that forward the packet: its FAR buffered it.
    Rules,
    /// The rate of the packet's QERs or slice.
    Rate,
    /// The link-layer address of the packet's next hop.
    Neighbor,
}

impl TapWait {
    /// Returns the words for the operator, to follow "waited for".
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Rules => "rules that forward it",
            Self::Rate => "its rate",
            Self::Neighbor => "the link-layer address of its next hop",
        }
    }
}

/// A stage that a packet passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TapStage {
    /// `s1_parse`: headers.
    Parse,
    /// `s2_lookup`: session.
    Lookup,
    /// `s3_classify`: PDR.
    Classify,
    /// `s4_enforce`: gates and rates.
    Enforce,
    /// `s5_account`: URRs.
    Account,
    /// `s6_apply`: FAR.
    Apply,
    /// Transmission, or the join of fragments.
    Transmit,
    /// The slow path.
    Slow,
}

impl TapStage {
    /// Returns the name of the stage, as in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parse => "parse",
            Self::Lookup => "lookup",
            Self::Classify => "classify",
            Self::Enforce => "enforce",
            Self::Account => "account",
            Self::Apply => "apply",
            Self::Transmit => "transmit",
            Self::Slow => "slow_path",
        }
    }
}

/// The session of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TapSession {
    /// Our SEID.
    pub seid: Seid,
    /// The tunnel by which the session was found; `None` if it was found by the UE's address.
    pub teid: Option<Teid>,
    /// How many PDRs the session has in the packet's direction.
    pub pdrs: u16,
    /// True if the session's SDF filters are compiled into a matcher.
    pub has_matcher: bool,
}

/// The first condition of a PDR, in the order of comparison, that a packet does not meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PdrMismatch {
    /// The PDR requires packets from this side.
    Source(SourceInterface),
    /// The PDR requires another network instance.
    NetworkInstance,
    /// The PDR requires another tunnel.
    Teid,
    /// The PDR requires other QoS flows.
    Qfi,
    /// The PDR requires another UE address.
    UeAddress,
    /// None of the PDR's SDF filters matches.
    Sdf,
}

impl PdrMismatch {
    /// Returns the condition in words, for the operator.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Source(SourceInterface::Access) => "it is about packets from Access",
            Self::Source(SourceInterface::Core) => "it is about packets from Core",
            Self::Source(SourceInterface::SgiLanN6Lan) => "it is about packets from SGi-LAN/N6-LAN",
            Self::Source(SourceInterface::CpFunction) => "it is about packets from the CP function",
            Self::NetworkInstance => "the packet arrived in another network instance",
            Self::Teid => "it is about another tunnel",
            Self::Qfi => "the packet's QFI is not among its QFIs",
            Self::UeAddress => "it is about another UE address",
            Self::Sdf => "no SDF filter matches",
        }
    }
}

/// The state of a QER when a packet arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TapQer {
    /// The QER.
    pub qer: QerId,
    /// True if the QER's gate in the packet's direction is open.
    pub is_gate_open: bool,
    /// True if the maximum bit rate admits the packet now; `None` without a maximum bit rate.
    pub has_room: Option<bool>,
    /// True if the QER also limits packets per time.
    pub has_packet_rate: bool,
}

/// The outcome of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TapOutcome {
    /// The packet left, or waits in the driver.
    Transmitted,
    /// The packet was dropped.
    Dropped(DropReason),
    /// The worker consumed the packet, which was for the UPF itself.
    Consumed(PuntReason),
    /// The slow path answers the packet after the burst.
    SlowPath,
    /// The packet's FAR buffers it.
    Buffered,
    /// The packet waits for its rates.
    Queued,
    /// The packet waits for the link-layer address of its next hop.
    WaitsForNeighbor,
    /// The packet waits for room in the transmit queue of its port.
    WaitsForPort,
    /// The packet waits for other fragments of its datagram.
    WaitsForFragments,
    /// The packet was switched to another UE, and passes the stages again.
    Switched,
    /// Another worker processes the packet.
    HandedOff,
}

/// The result of trying the fast path with a copy of a packet that takes the stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FastPathTrialResult {
    /// The fast path would send the packet.
    Sends(FastPathFrame),
    /// The fast path would queue the packet for its rates.
    Queues(FastPathFrame),
    /// The fast path would leave the packet to the stages.
    Leaves(LeaveReason),
    /// The fast path would leave it to the stages, as the compiler has no fast rule for it.
    LeavesUnruled(NoFastRule),
}

/// The frame that the fast path would send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastPathFrame {
    /// The port through which the frame would leave.
    pub port: PortId,
    /// The interface through which the frame would leave.
    pub interface: InterfaceId,
    /// The length of the frame. Unit: octets.
    pub len: u32,
    /// The first difference from the frame that the stages send, if any: a fault in one of them.
    pub difference: Option<FastPathDifference>,
}

/// How the result of the stages differs from that of the fast path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FastPathDifference {
    /// The stages end with another outcome.
    Outcome,
    /// The stages send the frame through another port or interface.
    Egress,
    /// The stages' frame has this length. Unit: octets.
    Length(u32),
    /// An octet of the frame differs.
    Octet {
        /// Offset of the octet in the frame.
        at: u32,
        /// The octet as the fast path writes it.
        fast_path: u8,
        /// The octet as the stages write it.
        stages: u8,
    },
    /// The stages send more frames than this one.
    Frames,
}
