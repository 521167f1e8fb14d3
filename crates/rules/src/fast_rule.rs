//! The fast rule: the conditions and the forwarding of the usual packet of one direction of a
//! session.
//!
//! Most packets match the first PDR that packets from the usual side can match, or the PDR that the
//! SDF filters select; the gates of its QERs are open, and its FAR only forwards. A [`FastRule`]
//! holds all that the rules require for such packets, and forwards them exactly as the rules do.
//! [`SessionRules`](crate::SessionRules) process all other packets. A
//! [`PackedFastRule`](crate::PackedFastRule) is the same rule in a layout that fits a cache line.

use core::net::Ipv4Addr;

use adit_types::{GtpuPeerIndex, InterfaceSet, NextHopIndex, Qfi, SliceId, Teid, UsageSlot};
use arrayvec::ArrayVec;

use crate::outer_tos::OuterTos;

/// Maximum number of URRs of one fast rule; a PDR with more gets no fast rule.
pub const FAST_RULE_URRS_MAX: usize = 2;

/// Maximum number of QoS flows that one fast rule names; a PDR with more gets no fast rule.
pub const FAST_RULE_QFIS_MAX: usize = 4;

/// Maximum number of QoS flows that a fast rule between two tunnels names.
pub const FAST_RULE_RELAY_QFIS_MAX: usize = 2;

/// Maximum number of URRs of a fast rule between two tunnels.
pub const FAST_RULE_RELAY_URRS_MAX: usize = 1;

/// How many token buckets (meters) of a session a fast rule can name: those with index 0 and 1. A
/// PDR with others gets no fast rule.
pub const FAST_RULE_METERS_MAX: usize = 2;

/// A URR of a fast rule besides the session's own URR, whose counters are next to the rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastRuleUrr {
    /// The URR's counters.
    pub slot: UsageSlot,
    /// The generation of the URR's entry.
    pub generation: u32,
}

/// The UE addresses of one family that match: source address in uplink, destination address in
/// downlink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FastRuleUe<A> {
    /// No packet of this family matches.
    None,
    /// Any address matches; only for packets in tunnels.
    Any,
    /// Only this address matches.
    Only(A),
}

/// The conditions that a packet of one direction has to meet, and how it is forwarded then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FastRule {
    /// Interfaces that packets arrive on.
    pub arrival: InterfaceSet,
    /// The UE's IPv4 address.
    pub ue_v4: FastRuleUe<Ipv4Addr>,
    /// The key of the UE's IPv6 prefix ([`ue_ipv6_key`](crate::rule::ue_ipv6_key)).
    pub ue_v6: FastRuleUe<u64>,
    /// Parameters that differ between the directions.
    pub forwarding: FastRuleForwarding,
    /// The token buckets that the packet has to pass: item n is for bucket n of the session in this
    /// direction.
    pub meters: [bool; FAST_RULE_METERS_MAX],
    /// The slice whose rates the packet shares.
    pub slice: SliceId,
    /// True if the buckets' rate is guaranteed: rates that sessions share do not delay the packet.
    pub guaranteed: bool,
    /// The counters of the packet.
    pub usage: FastRuleUsage,
}

/// The counters of the packets of a [`FastRule`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FastRuleUsage {
    /// URRs besides the session's own one.
    pub urrs: ArrayVec<FastRuleUrr, FAST_RULE_URRS_MAX>,
    /// True if the session has its own URR
    /// ([`SessionRules::own_urr`](crate::SessionRules::own_urr)), and this URR does not count the
    /// packet.
    pub counts_apart: bool,
}

/// The part of a [`FastRule`] that depends on the direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FastRuleForwarding {
    /// Out of a tunnel, to a data network that the packet's destination selects.
    Uplink {
        /// TEID of the local tunnel.
        teid: Teid,
        /// The IP version of the tunnel.
        transport: FastRuleTransport,
        /// QoS flows of packets that match. Empty: packets of any QoS flow match, and packets
        /// without a PDU Session Container.
        qfis: ArrayVec<Qfi, FAST_RULE_QFIS_MAX>,
        /// Interfaces whose routes packets take.
        egress: InterfaceSet,
    },
    /// From a data network into a GTP-U tunnel.
    Downlink {
        /// The far end's TEID.
        teid: Teid,
        /// The far end.
        peer: FastRulePeer,
        /// The next hop towards the far end.
        next_hop: NextHopIndex,
        /// Type of service octet of the outer header.
        tos: OuterTos,
        /// QoS flow and reflective QoS indication of the PDU Session Container, if packets get one.
        marking: Option<(Qfi, bool)>,
    },
    /// Out of a tunnel into a GTP-U tunnel over IPv4 (N9), in either direction.
    Relay {
        /// TEID of the local tunnel.
        teid: Teid,
        /// QoS flows of packets that match. Empty: packets of any QoS flow match, and packets
        /// without a PDU Session Container.
        qfis: ArrayVec<Qfi, FAST_RULE_RELAY_QFIS_MAX>,
        /// The tunnel that packets leave in.
        onward: FastRuleTunnel,
        /// QoS flow and reflective QoS indication that the QERs demand. The indication is false in
        /// uplink.
        marking: Option<(Qfi, bool)>,
        /// True if the PDU Session Container of the arriving packet is considered: in uplink it
        /// overrides `marking`, in downlink `marking` overrides it.
        keeps_container: bool,
    },
}

/// The far end of a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FastRulePeer {
    /// The far end's IPv4 address.
    V4(Ipv4Addr),
    /// The index, in the data plane, of a GTP-U peer with an IPv6 address.
    V6(GtpuPeerIndex),
}

/// The IP version of the outer headers that packets arrive with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FastRuleTransport {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
    /// Either IP version.
    Any,
}

/// The tunnel that a packet leaves in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastRuleTunnel {
    /// The far end's TEID.
    pub teid: Teid,
    /// The far end's address.
    pub addr: Ipv4Addr,
    /// The next hop towards the far end.
    pub next_hop: NextHopIndex,
    /// Type of service octet of the outer header.
    pub tos: OuterTos,
}
