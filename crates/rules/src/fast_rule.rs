//! The fast rule: the conditions and the forwarding of the usual packet of one direction of a
//! session.
//!
//! Most packets match the first PDR that packets from the usual side of their direction can match,
//! or the PDR that the session's SDF filters select; the gates of its QERs are open, and its FAR
//! only forwards. For these packets a [`FastRule`] holds all that the rules require, and forwards
//! them exactly as the rules do. All other packets are processed by
//! [`SessionRules`](crate::SessionRules). A [`PackedFastRule`](crate::PackedFastRule) is the same
//! rule in a layout that fits a cache line.

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

/// A fast rule can name the token buckets (meters) with numbers below this; a PDR with others gets
/// no fast rule.
pub const FAST_RULE_METERS_MAX: usize = 2;

/// Where a fast rule counts for a URR whose counters are not next to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastRuleUrr {
    /// The URR's counters.
    pub slot: UsageSlot,
    /// The generation of the URR's entry.
    pub generation: u32,
}

/// The UE addresses of one family that the usual packet carries: source in uplink, destination in
/// downlink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FastRuleUe<A> {
    /// None: no packet of this family matches.
    None,
    /// Any; of packets in tunnels only.
    Any,
    /// This one.
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
    /// The token buckets that the packet has to pass: item n is bucket n of the session and
    /// direction.
    pub meters: [bool; FAST_RULE_METERS_MAX],
    /// The slice whose rates the packet shares.
    pub slice: SliceId,
    /// The rate of its buckets is guaranteed: no rate that sessions share delays the packet.
    pub guaranteed: bool,
    /// The counters of the packet.
    pub usage: FastRuleUsage,
}

/// The counters of the packets of a [`FastRule`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FastRuleUsage {
    /// URRs in addition to the session's own one.
    pub urrs: ArrayVec<FastRuleUrr, FAST_RULE_URRS_MAX>,
    /// The session has an own URR ([`SessionRules::own_urr`](crate::SessionRules::own_urr)), and it
    /// does not count the packet.
    pub counts_apart: bool,
}

/// The part of a [`FastRule`] that depends on the direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FastRuleForwarding {
    /// Out of a tunnel, to a data network by the packet's destination.
    Uplink {
        /// The local tunnel.
        teid: Teid,
        /// The IP version of the tunnel.
        transport: FastRuleTransport,
        /// QoS flows that packets carry; empty: any, and packets without a PDU Session Container.
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
        /// The next hop towards it.
        next_hop: NextHopIndex,
        /// Type of service octet of the outer header.
        tos: OuterTos,
        /// QoS flow and reflective QoS indication of the PDU Session Container, if the packet gets
        /// one.
        marking: Option<(Qfi, bool)>,
    },
    /// Out of a tunnel into a GTP-U tunnel over IPv4 (N9), in either direction.
    Relay {
        /// The local tunnel.
        teid: Teid,
        /// QoS flows that packets carry; empty: any, and packets without a PDU Session Container.
        qfis: ArrayVec<Qfi, FAST_RULE_RELAY_QFIS_MAX>,
        /// The tunnel that packets leave in.
        onward: FastRuleTunnel,
        /// QoS flow and reflective QoS indication that the QERs demand. In uplink without the
        /// indication.
        marking: Option<(Qfi, bool)>,
        /// Whether the packet's own PDU Session Container is considered: in uplink it overrides
        /// `marking`, in downlink `marking` overrides it.
        keeps_container: bool,
    },
}

/// The far end of a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FastRulePeer {
    /// Its IPv4 address.
    V4(Ipv4Addr),
    /// The index of a peer with an IPv6 address, which the data plane keeps.
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
    /// The next hop towards it.
    pub next_hop: NextHopIndex,
    /// Type of service octet of the outer header.
    pub tos: OuterTos,
}
