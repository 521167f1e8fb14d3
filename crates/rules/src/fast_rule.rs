//! The fast rule: what the usual packet of one direction of a session needs, in one cache line.
//!
//! Most packets match the first PDR of their direction, or the one that the matcher of the session's SDF
//! filters selects, pass open gates and leave by a FAR that only forwards. For them a [`FastRule`] says all
//! that the rules say. [`SessionRules`](crate::SessionRules) decide on a packet that does not match it, and
//! on all packets when there is none. A fast rule decides nothing that the rules decide otherwise.

use core::net::Ipv4Addr;

use adit_types::{InterfaceSet, NextHopIndex, Qfi, SliceId, Teid, UsageSlot};
use arrayvec::ArrayVec;

/// URRs of one fast rule; PDRs with more have none.
pub const FAST_RULE_URRS_MAX: usize = 2;

/// QoS flows that one fast rule names; PDRs with more have none.
pub const FAST_RULE_QFIS_MAX: usize = 4;

/// Buckets that a fast rule can name: those with the lowest numbers. PDRs with others have none.
pub const FAST_RULE_METERS_MAX: usize = 2;

/// Where a fast rule counts for a URR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastRuleUrr {
    /// The URR's counters.
    pub slot: UsageSlot,
    /// The generation of the URR's entry.
    pub generation: u32,
}

/// The UE addresses of one family that the usual packet carries: source in uplink, destination in downlink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FastRuleUe<A> {
    /// None: no packet of this family matches.
    None,
    /// Any; in uplink only.
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
    /// What differs between the directions.
    pub forwarding: FastRuleForwarding,
    /// The first buckets of the session that the packet has to pass.
    pub meters: [bool; FAST_RULE_METERS_MAX],
    /// The slice whose rates the packet shares.
    pub slice: SliceId,
    /// The rate of its buckets is guaranteed: no aggregate delays the packet.
    pub guaranteed: bool,
    /// URRs that count the packet.
    pub urrs: ArrayVec<FastRuleUrr, FAST_RULE_URRS_MAX>,
}

/// The part of a [`FastRule`] that depends on the direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FastRuleForwarding {
    /// Out of a tunnel, to a data network by the packet's destination.
    Uplink {
        /// The local tunnel.
        teid: Teid,
        /// QoS flows that packets carry; empty matches any and none.
        qfis: ArrayVec<Qfi, FAST_RULE_QFIS_MAX>,
        /// Interfaces whose routes packets take.
        egress: InterfaceSet,
    },
    /// From a data network into a GTP-U tunnel over IPv4.
    Downlink {
        /// The far end's TEID.
        teid: Teid,
        /// The far end's address.
        addr: Ipv4Addr,
        /// The next hop towards it.
        next_hop: NextHopIndex,
        /// Type of service octet of the outer header.
        tos: u8,
        /// QoS flow and reflective QoS indication of the PDU Session Container, if the packet gets one.
        marking: Option<(Qfi, bool)>,
    },
}
