//! The contract between publication and an offload: whatever takes fast rules away from the workers
//! and forwards their packets before a worker receives them. Programs in the driver of a network
//! card are one offload; flow rules of the card itself can be another one.
//!
//! An offload holds *entries*: the fast rule of one direction of a session. It forwards the packets
//! that match an entry, exactly as the rule says, and counts them. Every other packet reaches the
//! worker unchanged. So an offload may refuse an entry, and may leave any packet to the worker.
//!
//! # A change of a session
//!
//! 1. The publisher removes the entries of the session, and ends the batch ([`Offload::close`]).
//! 2. Workers get the new rules. From when the batch has passed ([`Offload::passed`]), no packet is
//!    forwarded by a removed entry, and its counters are final.
//! 3. Then the publisher puts entries of the new rules, and the change is in effect.
//!
//! # Limits
//!
//! A packet of an entry that is [limited](OffloadRule::is_limited) needs *budget*: octets before
//! the next limit of the session's own URR. The session's worker grants it, and takes it back
//! before it compares the counters with a limit ([`OffloadUsage::take_back`]). A packet beyond the
//! budget reaches the worker, which counts, reports, and grants again. An entry that was put has no
//! budget.
//!
//! # Order
//!
//! Workers may still have packets of a flow when an entry is put, or gets its budget again. An
//! offload should leave later ones to the worker for as long as that is likely.
//!
//! # Few entries
//!
//! A network card has room for the entries of few sessions, and reads their counters slowly. Such
//! an offload says how to choose the sessions ([`Offload::choice`]). Its publisher puts the entries
//! of those with the most packets, none of them limited, and reserves the volume that they may
//! forward between two readings. It removes the entries of a session before less than that is left
//! to a limit.

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
    /// Its identifier.
    pub id: InterfaceId,
    /// Its role.
    pub role: InterfaceRole,
    /// The routing domain of the data network behind it.
    pub domain: DomainId,
    /// Its port.
    pub port: PortId,
    /// Its VLAN, or untagged.
    pub vlan: VlanId,
    /// Our hardware address.
    pub mac: MacAddr,
    /// Largest IP packet. Unit: octets.
    pub mtu_bytes: u16,
    /// SYNs of TCP from and to this data network are for workers, which may change them.
    pub keeps_syns: bool,
    /// Our IPv4 address.
    pub v4: Option<Ipv4Addr>,
    /// Our IPv6 address.
    pub v6: Option<Ipv6Addr>,
}

/// Forwards packets by fast rules before workers receive them. Belongs to the publisher.
pub trait Offload: fmt::Debug + Send {
    /// Puts the entry of one direction of a session, which has none. Packets that arrive from now
    /// on may take it.
    ///
    /// # Errors
    /// [`OffloadRefusal`]: the workers keep the rule.
    fn put(
        &mut self,
        session: SessionIndex,
        direction: Direction,
        rule: &OffloadRule<'_>,
    ) -> Result<(), OffloadRefusal>;

    /// Removes the entry of one direction of a session. Packets on their way may still take it
    /// until the batch has passed.
    fn remove(&mut self, session: SessionIndex, direction: Direction);

    /// Packets with `key` belong to `session`. Without room for a key, workers process all its
    /// packets.
    fn add_key(&mut self, key: SessionKey, session: SessionIndex);

    /// Packets with `key` belong to `session` no more.
    fn remove_key(&mut self, key: SessionKey, session: SessionIndex);

    /// Interface and link-layer address of a next hop; `None` if packets to it need a worker.
    fn set_next_hop(&mut self, index: NextHopIndex, hop: Option<(InterfaceId, MacAddr)>);

    /// Packets into tunnels of more octets than this, with all headers, need a worker, whatever the
    /// MTU of their link; `u16::MAX`: only links limit them. A network card, which compares no
    /// lengths, ignores it.
    fn limit_tunnels(&mut self, _mtu_bytes: u16) {}

    /// The number of the gateways to a part of the data networks; zero if packets to it need a
    /// worker.
    fn set_networks(&mut self, part: NetworkPart, gateway: u8);

    /// The gateway that has a number, among those on the interfaces `within`.
    fn set_gateway(&mut self, within: InterfaceSet, gateway: u8, next_hop: Option<NextHopIndex>);

    /// Ends a batch of changes, and starts to wait for the packets that may see something older.
    /// Returns at once. Batches are numbered from one.
    fn close(&mut self) -> OffloadBatch;

    /// The last batch that is in effect for every packet from now on.
    fn passed(&self) -> OffloadBatch;

    /// The counters and budgets of entries.
    fn usage(&self) -> Arc<dyn OffloadUsage>;

    /// Its kind, for the operator.
    fn name(&self) -> &'static str;

    /// The traffic that all entries together forwarded.
    fn totals(&self) -> OffloadTotals;

    /// How the publisher chooses the sessions whose entries it puts; `None` if it puts those of all
    /// sessions.
    fn choice(&self) -> Option<OffloadChoice> {
        None
    }

    /// Reads counters, and continues work that takes several turns. Once in each turn of the
    /// control thread.
    fn turn(&mut self, _now: Nanos) {}

    /// The next notice since the last call, oldest first.
    fn take_notice(&mut self) -> Option<OffloadNotice> {
        None
    }
}

/// An action that an offload took by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OffloadNotice {
    /// The offload gave up an entry, as if the publisher had removed it.
    Lost(SessionIndex, Direction),
    /// Its device refused something.
    Refused(OffloadRefusal),
}

/// How to choose sessions for an offload with few entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffloadChoice {
    /// Sessions at most.
    pub sessions_max: usize,
    /// A session may be chosen from this rate on. Unit: packets per second.
    pub enter_pps: u64,
    /// A chosen session with a lower rate than this loses its place after `calm`. Unit: packets per
    /// second.
    pub leave_pps: u64,
    /// See `leave_pps`.
    pub calm: Nanos,
    /// The rates of all sessions are measured once in this time.
    pub scan: Nanos,
    /// The rates of the chosen sessions are measured, and the counters of their entries read, once
    /// in this time.
    pub watch: Nanos,
    /// The traffic that the entries of one session can forward between two readings. Unit: octets.
    pub watch_bytes: u64,
}

/// Counters and budgets of an offload's entries.
pub trait OffloadUsage: fmt::Debug + Send + Sync {
    /// The counts of a session's entries so far. Counters wrap, and are not reset when an entry is
    /// put.
    fn counted(&self, session: SessionIndex) -> OffloadCounts;

    /// Takes back the budgets of a session: no packet is counted before the next grant. For the
    /// worker that owns the session only.
    fn take_back(&self, session: SessionIndex);

    /// Divides `more` octets evenly among `others` and the limited entries of a session, and
    /// returns the share of each. It replaces the budgets of the entries: they forward packets
    /// while less than the share is used. An entry that is put meanwhile gets nothing. `u64::MAX`
    /// is no limit for anybody. For the worker that owns the session only.
    fn divide(&self, session: SessionIndex, more: u64, others: u64) -> u64;
}

/// The share of each of `parts` in `more` octets; `u64::MAX` is no limit for anybody.
#[must_use]
pub const fn share_of(more: u64, parts: u64) -> u64 {
    match (more, parts) {
        (u64::MAX, _) | (_, 0) => more,
        _ => more / parts,
    }
}

/// A rule to be put.
#[derive(Debug, Clone, Copy)]
pub struct OffloadRule<'r> {
    /// The rule.
    pub rule: &'r FastRule,
    /// The session has an own URR: its packets need budget.
    pub is_limited: bool,
    /// Packets share rates with other sessions.
    pub has_shared_rates: bool,
}

/// Why an offload leaves a rule to the workers, in its own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffloadRefusal(pub Cow<'static, str>);

/// The number of a batch of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct OffloadBatch(pub u64);

/// A part of the destinations behind data networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkPart {
    /// The IPv4 addresses with these upper 16 bits.
    V4(u16),
    /// The IPv6 addresses of which the three groups of 16 bits after the first one and that one,
    /// exclusively ored, are this number: the upper 48 bits.
    V6(u16),
}

/// The counts of one session's entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OffloadCounts {
    /// Uplink packets.
    pub ul_pkts: u64,
    /// Octets of their inner IP packets.
    pub ul_bytes: u64,
    /// Downlink packets.
    pub dl_pkts: u64,
    /// Octets of their inner IP packets.
    pub dl_bytes: u64,
    /// When the last packet arrived.
    pub last: Option<Nanos>,
}

/// Packets and octets that an offload forwarded through one interface, and received on it to
/// forward them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OffloadInterfaceTotals {
    /// Frames received on it and forwarded.
    pub rx_pkts: u64,
    /// Octets of them.
    pub rx_bytes: u64,
    /// Uplink frames that left through it.
    pub ul_pkts: u64,
    /// Octets of them as transmitted.
    pub ul_bytes: u64,
    /// Downlink frames that left through it.
    pub dl_pkts: u64,
    /// Octets of them as transmitted.
    pub dl_bytes: u64,
}

/// The counts of an offload.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OffloadTotals {
    /// By [`InterfaceId`].
    pub interfaces: Vec<OffloadInterfaceTotals>,
    /// Packets that it saw and left to workers.
    pub passed_pkts: u64,
}
