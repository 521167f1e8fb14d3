//! The contract between the publisher and an offload, which forwards packets by fast rules before a
//! worker receives them. Programs in the driver of a network card are one offload; flow rules of
//! the card itself are another.
//!
//! An offload holds *entries*: the fast rule of one direction of a session. It forwards the packets
//! that match an entry, exactly as the rule says, and counts them. All other packets reach the
//! worker unchanged. An offload may refuse an entry, and may leave any packet to the worker.
//!
//! # A change of a session
//!
//! 1. The publisher removes the entries of the session, and ends the batch ([`Offload::close`]).
//! 2. Workers get the new rules. Once the batch has passed ([`Offload::passed`]), no removed entry
//!    forwards packets any more, and its counters are final.
//! 3. Then the publisher puts entries of the new rules, and the change is in effect.
//!
//! # Limits
//!
//! A packet of an entry that is [limited](OffloadRule::is_limited) needs *budget*: how many octets
//! may pass before the next limit of the session's own URR. The session's worker grants budget, and
//! takes it back before it compares the counters with a limit ([`OffloadUsage::take_back`]). A
//! packet beyond the budget reaches the worker, which counts it, reports, and grants again. A new
//! entry has no budget.
//!
//! # Order
//!
//! Workers may still have packets of a flow when an entry is put, or gets budget again. An offload
//! should leave the flow's next packets to the worker while that is likely, to keep order.
//!
//! # Few entries
//!
//! A network card has room for the entries of few sessions, and reads their counters slowly. For
//! such an offload, [`Offload::choice`] describes how to choose the sessions. The publisher puts
//! the entries of those with the most packets, none of them limited, and reserves the volume that
//! they may forward between two readings. It removes the entries of a session when less than this
//! volume is left before a limit.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};
use std::borrow::Cow;
use std::sync::Arc;

use adit_types::{
    Direction, DomainId, InterfaceId, InterfaceRole, InterfaceSet, MacAddr, Nanos, NextHopIndex,
    PortId, SessionIndex, VlanId,
};

use crate::delta::SessionKey;
use crate::fast_rule::FastRule;

/// A logical interface, as offloads see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffloadInterface {
    /// Identifier of the interface.
    pub id: InterfaceId,
    /// Role of the interface.
    pub role: InterfaceRole,
    /// The routing domain of the data network behind it.
    pub domain: DomainId,
    /// Port on which the interface is.
    pub port: PortId,
    /// VLAN of the interface, or untagged.
    pub vlan: VlanId,
    /// Our hardware address.
    pub mac: MacAddr,
    /// Largest IP packet. Unit: octets.
    pub mtu_bytes: u16,
    /// True if TCP SYNs from and to this data network need a worker, which may change their MSS.
    pub keeps_syns: bool,
    /// Our IPv4 address.
    pub v4: Option<Ipv4Addr>,
    /// Our IPv6 address.
    pub v6: Option<Ipv6Addr>,
}

/// Forwards packets by fast rules before workers receive them. Belongs to the publisher.
pub trait Offload: fmt::Debug + Send {
    /// Puts the entry of one direction of a session, which must have none. Packets that arrive from
    /// now on may be forwarded by it.
    ///
    /// # Errors
    /// [`OffloadRefusal`] if the offload does not take the rule: workers process its packets.
    fn put(
        &mut self,
        session: SessionIndex,
        direction: Direction,
        rule: &OffloadRule<'_>,
    ) -> Result<(), OffloadRefusal>;

    /// Removes the entry of one direction of a session. It may forward packets until the batch
    /// passed.
    fn remove(&mut self, session: SessionIndex, direction: Direction);

    /// Assigns packets with `key` to `session`. Without room, workers process its packets.
    fn add_key(&mut self, key: SessionKey, session: SessionIndex);

    /// Ends the assignment of packets with `key` to `session`.
    fn remove_key(&mut self, key: SessionKey, session: SessionIndex);

    /// Sets interface and link-layer address of a next hop; `None` if packets need a worker.
    fn set_next_hop(&mut self, index: NextHopIndex, hop: Option<(InterfaceId, MacAddr)>);

    /// Sets the maximum length of packets that leave in a tunnel, with all headers; workers process
    /// longer ones even if the link's MTU allows them. `u16::MAX`: only links limit the length. A
    /// network card ignores this, because it compares no lengths.
    fn limit_tunnels(&mut self, _mtu_bytes: u16) {}

    /// Sets the gateway number of a part of the data networks: packets to this part go to the
    /// gateway that [`Offload::set_gateway`] assigned to the number. Zero: workers process these
    /// packets.
    fn set_networks(&mut self, part: NetworkPart, gateway: u8);

    /// Sets the next hop of a gateway number, for packets that leave through `within`.
    fn set_gateway(&mut self, within: InterfaceSet, gateway: u8, next_hop: Option<NextHopIndex>);

    /// Ends a batch of changes and returns at once. The batch passes when no packet can be affected
    /// by an older state. Batches are numbered from one.
    fn close(&mut self) -> OffloadBatch;

    /// Returns the last batch that is in effect for every packet from now on.
    fn passed(&self) -> OffloadBatch;

    /// Returns the counters and budgets of entries.
    fn usage(&self) -> Arc<dyn OffloadUsage>;

    /// Returns the kind of the offload, for the operator.
    fn name(&self) -> &'static str;

    /// Returns the traffic that all entries together forwarded.
    fn totals(&self) -> OffloadTotals;

    /// Returns how the publisher chooses sessions to put; `None` if it puts all of them.
    fn choice(&self) -> Option<OffloadChoice> {
        None
    }

    /// Reads counters, and continues work that takes several turns. Called once in each turn of the
    /// control thread.
    fn turn(&mut self, _now: Nanos) {}

    /// Returns the oldest notice that was not yet taken.
    fn take_notice(&mut self) -> Option<OffloadNotice> {
        None
    }
}

/// An event in an offload that the publisher did not cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OffloadNotice {
    /// The offload removed an entry, as if the publisher had done so.
    Lost(SessionIndex, Direction),
    /// The device of the offload refused a request.
    Refused(OffloadRefusal),
}

/// How to choose sessions for an offload with room for few entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffloadChoice {
    /// Maximum number of chosen sessions.
    pub sessions_max: usize,
    /// Minimum rate at which a session may be chosen. Unit: packets per second.
    pub enter_pps: u64,
    /// A session that stays below this rate for `calm` is dropped. Unit: packets per second.
    pub leave_pps: u64,
    /// See `leave_pps`.
    pub calm: Nanos,
    /// Interval in which the rates of all sessions are measured once.
    pub scan: Nanos,
    /// Interval in which the rates and entries of the chosen sessions are read once.
    pub watch: Nanos,
    /// Maximum traffic that the entries of one session forward between two readings. Unit: octets.
    pub watch_bytes: u64,
}

/// Counters and budgets of an offload's entries.
pub trait OffloadUsage: fmt::Debug + Send + Sync {
    /// Returns what the entries of a session have counted so far. Counters wrap, and putting an
    /// entry does not reset them.
    fn counted(&self, session: SessionIndex) -> OffloadCounts;

    /// Takes back the budgets of a session: its entries count no packet before the next grant. Only
    /// for the worker that owns the session.
    fn take_back(&self, session: SessionIndex);

    /// Divides `more` octets evenly among the limited entries of a session and `others` other users
    /// (the worker's own cells), and returns each share. The share replaces the entries' budgets:
    /// they forward packets until it is used. An entry that is put meanwhile gets no budget.
    /// `u64::MAX` is no limit for all of them. Only for the worker that owns the session.
    fn divide(&self, session: SessionIndex, more: u64, others: u64) -> u64;
}

/// Divides `more` octets by `parts`; `u64::MAX` (no limit) stays.
#[must_use]
pub const fn share_per_part(more: u64, parts: u64) -> u64 {
    match (more, parts) {
        (u64::MAX, _) | (_, 0) => more,
        _ => more / parts,
    }
}

/// A rule for [`Offload::put`].
#[derive(Debug, Clone, Copy)]
pub struct OffloadRule<'r> {
    /// The fast rule that the entry follows.
    pub rule: &'r FastRule,
    /// True if the session has its own URR: packets need budget.
    pub is_limited: bool,
    /// True if packets share rates with other sessions.
    pub has_shared_rates: bool,
}

/// Why an offload does not take a rule, in words for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffloadRefusal(pub Cow<'static, str>);

/// The number of a batch of changes, from one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct OffloadBatch(pub u64);

/// A part of the addresses in data networks; an offload keeps one gateway number for each part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkPart {
    /// The IPv4 addresses with these upper 16 bits.
    V4(u16),
    /// The IPv6 addresses whose first three 16-bit groups, exclusively ored, are this number.
    V6(u16),
}

/// The counts of one session's entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OffloadCounts {
    /// Uplink packets.
    pub ul_pkts: u64,
    /// Octets of the uplink packets: inner IP packets.
    pub ul_bytes: u64,
    /// Downlink packets.
    pub dl_pkts: u64,
    /// Octets of the downlink packets: inner IP packets.
    pub dl_bytes: u64,
    /// When the last packet arrived.
    pub last: Option<Nanos>,
}

/// Traffic that an offload received on one interface to forward it, or sent through it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OffloadInterfaceTotals {
    /// Frames received on the interface and forwarded.
    pub rx_pkts: u64,
    /// Octets of the received frames.
    pub rx_bytes: u64,
    /// Uplink frames that left through the interface.
    pub ul_pkts: u64,
    /// Octets of the uplink frames as transmitted.
    pub ul_bytes: u64,
    /// Downlink frames that left through the interface.
    pub dl_pkts: u64,
    /// Octets of the downlink frames as transmitted.
    pub dl_bytes: u64,
}

/// The counts of an offload.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OffloadTotals {
    /// Totals by [`InterfaceId`].
    pub interfaces: Vec<OffloadInterfaceTotals>,
    /// Packets that the offload saw and left to workers.
    pub passed_pkts: u64,
}
