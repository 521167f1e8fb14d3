//! Taps: the reports of a data plane about single packets, for clients that trace or capture them.
//!
//! The control thread starts a tap with a [`TapRequest`] at every worker and stops it again. A
//! worker writes records of the packets that a tap selects into a ring: a record is a
//! [`TapItem::Packet`], its events in order, and a [`TapItem::End`]. Items have a fixed size, and
//! names are numbers: the reader puts them in words.
//!
//! A worker reports each packet at most once to all its taps together. A packet that waits (for a
//! neighbor, a rate, rules) is reported when it begins to wait; how its wait ends is a record of
//! its own ([`TapOrigin::Waited`]).

use core::net::IpAddr;

use adit_types::limits::TAPS_MAX;
use adit_types::{
    Direction, FarId, InterfaceId, MacAddr, Nanos, PdrId, PortId, Precedence, QerId, Seid,
    SessionIndex, Teid, UrrId, WorkerId,
};

use crate::leave_reason::{LeaveReason, NoFastRule};
use crate::rule::{ApplyAction, DestinationInterface, HeaderCreation, SourceInterface};
use crate::verdict::{DropReason, PuntReason};

/// The packets that a tap selects, by session, address, tunnel or interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TapKey {
    /// All packets.
    Any,
    /// The packets of a session. The index may be reused, so the identifier is checked as well.
    Session(SessionIndex, Seid),
    /// The packets to an address of a UE, in tunnels also those from it, and those of its session
    /// with a source that is not the UE's. The upper half of an IPv6 address is compared.
    Ue(IpAddr),
    /// The packets in a local tunnel, whether or not a session owns it.
    Teid(Teid),
    /// The packets that arrive on an interface or leave through it.
    Interface(InterfaceId),
}

/// Which drops a tap reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DroppedFor {
    /// All drops.
    Any,
    /// The drops for one reason.
    Only(DropReason),
}

impl DroppedFor {
    /// True if a drop for `reason` is among them.
    #[must_use]
    pub fn includes(self, reason: DropReason) -> bool {
        match self {
            Self::Any => true,
            Self::Only(only) => only == reason,
        }
    }
}

/// The packets that a tap reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TapFilter {
    /// By session, address, tunnel or interface.
    pub key: TapKey,
    /// Only those that are dropped.
    pub drop: Option<DroppedFor>,
    /// One of so many packets with the key; 0 and 1 are all of them.
    pub one_of: u32,
}

/// A request to a worker for reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TapRequest {
    /// The packets.
    pub filter: TapFilter,
    /// The stages and rules that a packet met, with times.
    pub has_stages: bool,
    /// The fast path is tried with a copy of each packet.
    pub has_path: bool,
    /// Octets of each frame at most.
    pub snap_bytes: u16,
    /// Records at most.
    pub pkts_max: u64,
    /// No packet is reported from this time on.
    pub until: Nanos,
}

/// A tap of a worker, below [`TAPS_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TapId(pub u8);

/// Several taps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TapSet(u8);

impl TapSet {
    /// No tap.
    pub const NONE: Self = Self(0);

    /// The set with `tap` added.
    #[must_use]
    pub const fn with(self, TapId(tap): TapId) -> Self {
        Self(self.0 | 1 << (tap as usize % TAPS_MAX))
    }

    /// The union with `other`.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// True if `tap` is among them.
    #[must_use]
    pub const fn contains(self, TapId(tap): TapId) -> bool {
        self.0 >> (tap as usize % TAPS_MAX) & 1 != 0
    }

    /// Those of both sets.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// True without taps.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// A bit for each tap, that of the first one lowest.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The taps of [`TapSet::bits`]; other bits are ignored.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & ((1 << TAPS_MAX) - 1))
    }
}

const _: () = assert!(TAPS_MAX < 8, "a bit per tap, and one is left");

/// Octets of one [`TapItem::Octets`].
pub const TAP_OCTETS: usize = 56;

/// One item of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TapItem {
    /// A record begins.
    Packet(TapPacket),
    /// Octets of the frame before, in order.
    Octets {
        /// How many.
        len: u8,
        /// The octets come first.
        octets: [u8; TAP_OCTETS],
    },
    /// The packet waited so long, and the wait is over.
    Waited(TapWait, Nanos),
    /// A stage is done.
    Stage(TapStage, Nanos),
    /// The session of the packet.
    Session(TapSession),
    /// A PDR was compared with the packet.
    Tried {
        /// The PDR.
        pdr: PdrId,
        /// Lower is compared first.
        precedence: Precedence,
        /// The condition that the packet does not meet; `None` if it matched.
        mismatch: Option<PdrMismatch>,
    },
    /// The rules that apply.
    Matched {
        /// The PDR.
        pdr: PdrId,
        /// The direction of the packet.
        direction: Direction,
    },
    /// A QER of the PDR, before the packet is charged.
    Qer(TapQer),
    /// A URR of the PDR. It counted the packet if the volumes differ.
    Urr {
        /// The URR.
        urr: UrrId,
        /// Its count in both directions before the packet. Unit: octets.
        before: u64,
        /// Its count in both directions after the packet. Unit: octets.
        after: u64,
    },
    /// The FAR that applies: that of the PDR, or of a quota action.
    Far {
        /// The FAR.
        far: FarId,
        /// Its actions.
        action: ApplyAction,
        /// Where to.
        destination: DestinationInterface,
        /// The outer header that it creates.
        outer: Option<HeaderCreation>,
        /// The packet waits for its rates.
        must_queue: bool,
    },
    /// Where the packet leaves.
    Egress {
        /// The interface.
        interface: InterfaceId,
        /// The neighbor on its link.
        station: IpAddr,
        /// Its link-layer address, unless it is unresolved.
        mac: Option<MacAddr>,
        /// The packet is switched to another UE instead.
        is_switched: bool,
        /// DSCP that the rules give to the user's packet.
        dscp: Option<u8>,
    },
    /// The result of a trial of the fast path with the packet.
    FastPath(FastPathAnswer),
    /// A frame that leaves. Its octets follow.
    Sent {
        /// The port.
        port: PortId,
        /// The interface.
        interface: InterfaceId,
        /// Its length. Unit: octets.
        len: u32,
    },
    /// The record ends.
    End(TapOutcome),
    /// Packets that the tap left out, because the ring had no room.
    Skipped(TapId, u64),
    /// The worker reports nothing for the tap any more.
    Stopped(TapId),
}

/// A packet, as the worker received it. Its octets follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TapPacket {
    /// The taps that get the record.
    pub taps: TapSet,
    /// Where the worker has it from.
    pub origin: TapOrigin,
    /// The worker.
    pub worker: WorkerId,
    /// When the worker took it up.
    pub at: Nanos,
    /// The port that it arrived on; `None` if that is unknown by now.
    pub port: Option<PortId>,
    /// The interface that it belongs to.
    pub interface: Option<InterfaceId>,
    /// Its length. Unit: octets.
    pub len: u32,
}

/// Where a worker has a packet from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TapOrigin {
    /// From a port.
    Port,
    /// From another thread, which received it.
    Handoff,
    /// From the worker itself: it was joined from fragments, or comes from another UE.
    Recirculated,
    /// It waited, and its frame may be written by now. If a tap selected the packet when its wait
    /// began, the frame that leaves is the only one.
    Waited,
}

/// The event that a packet waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TapWait {
    /// Rules that forward it: its FAR buffered it.
    Rules,
    /// The rate of its QERs or slice.
    Rate,
    /// The link-layer address of its next hop.
    Neighbor,
}

impl TapWait {
    /// In words, after "waited for".
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Rules => "rules that forward it",
            Self::Rate => "its rate",
            Self::Neighbor => "the link-layer address of its next hop",
        }
    }
}

/// A part of the way of a packet.
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
    /// Its name.
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
    /// The tunnel that named it; `None` if the UE's address did.
    pub teid: Option<Teid>,
    /// Its PDRs of the packet's direction.
    pub pdrs: u16,
    /// Its SDF filters are compiled into a matcher.
    pub has_matcher: bool,
}

/// The first condition of a PDR, in the order of comparison, that a packet does not meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PdrMismatch {
    /// The PDR is about packets from this side.
    Source(SourceInterface),
    /// The PDR is about another network instance.
    NetworkInstance,
    /// The PDR is about another tunnel.
    Teid,
    /// The PDR is about other QoS flows.
    Qfi,
    /// The PDR is about another address of the UE.
    UeAddress,
    /// None of its SDF filters matches.
    Sdf,
}

impl PdrMismatch {
    /// The condition in words, for the operator.
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

/// A QER as a packet finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TapQer {
    /// The QER.
    pub qer: QerId,
    /// Its gate in the packet's direction is open.
    pub is_gate_open: bool,
    /// Its maximum bit rate admits the packet now; `None` without one.
    pub has_room: Option<bool>,
    /// The QER limits packets per time.
    pub has_packet_rate: bool,
}

/// The outcome of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TapOutcome {
    /// It left, or waits in the driver.
    Transmitted,
    /// It was dropped.
    Dropped(DropReason),
    /// The worker consumed it: it was for the UPF itself.
    Consumed(PuntReason),
    /// The slow path answers it after the burst.
    SlowPath,
    /// Its FAR buffers it.
    Buffered,
    /// It waits for its rates.
    Queued,
    /// It waits for the link-layer address of its next hop.
    WaitsForNeighbor,
    /// It waits for room in the transmit queue of its port.
    WaitsForPort,
    /// It waits for other fragments of its datagram.
    WaitsForFragments,
    /// It was switched to another UE, and takes the stages again.
    Switched,
    /// Another worker processes it.
    HandedOff,
}

/// The result of a trial of the fast path with a copy of a packet that takes the stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FastPathAnswer {
    /// It would send the packet.
    Sends(FastPathFrame),
    /// It would queue the packet for its rates.
    Queues(FastPathFrame),
    /// It would leave the packet to the stages.
    Leaves(LeaveReason),
    /// It would leave the packet to the stages, because the compiler has no fast rule for it.
    LeavesUnruled(NoFastRule),
}

/// The frame that the fast path would send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastPathFrame {
    /// The port.
    pub port: PortId,
    /// The interface.
    pub interface: InterfaceId,
    /// Its length. Unit: octets.
    pub len: u32,
    /// The first difference to the stages: a fault of one of both.
    pub difference: Option<FastPathDifference>,
}

/// How the stages differ from what the fast path would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FastPathDifference {
    /// The packet has another outcome.
    Outcome,
    /// The frame leaves through another port or interface.
    Egress,
    /// The frame has so many octets.
    Length(u32),
    /// The octet at this offset of the frame.
    Octet {
        /// Where. Unit: octets.
        at: u32,
        /// By the fast path.
        fast_path: u8,
        /// By the stages.
        stages: u8,
    },
    /// Further frames leave.
    Frames,
}
