//! Neighbor resolution: a sans-I/O state machine after RFC 4861 §7.3 and ARP practice (RFC 826,
//! RFC 1122 §2.3.2), the same for both families.
//!
//! Pinned next hops (gateways, GTP-U peers) are resolved and kept so without traffic. Others come
//! into being when a packet asks for them and vanish when unused. Nothing that a station says by
//! itself creates an entry, so that a flood of announcements fills no table.

use core::net::IpAddr;
use std::collections::{BTreeSet, VecDeque};

use adit_rules::{WorkerCommand, WorkerEvent};
use adit_types::limits::COMMAND_RING_LEN;
use adit_types::{InterfaceId, MacAddr, Nanos, NextHopIndex};

use crate::publisher::Publisher;

/// Questions asked before a neighbor counts as absent. Spec: RFC 4861 §10.
const SOLICITS_MAX: u8 = 3;

/// Wait for an answer to one question. Spec: RFC 4861 §10 (RETRANS_TIMER).
const RETRANSMIT: Nanos = Nanos::from_secs(1);

/// Time that an answer is good for. Spec: RFC 4861 §10 (REACHABLE_TIME).
const REACHABLE: Nanos = Nanos::from_secs(30);

/// Interval at which a stale neighbor is checked for use. Spec: RFC 4861 §10
/// (DELAY_FIRST_PROBE_TIME).
const STALE_CHECK: Nanos = Nanos::from_secs(5);

/// Time after which an unused stale neighbor is forgotten, as Linux does.
const STALE_LIFETIME: Nanos = Nanos::from_secs(60);

/// Time that an absent neighbor is not asked for again.
const HOLD_DOWN: Nanos = Nanos::from_secs(3);

/// What is known about a neighbor. Spec: RFC 4861 §7.3.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NeighbourState {
    /// Asked for, no answer yet.
    Incomplete,
    /// Answered lately.
    Reachable,
    /// Has an address that nobody confirmed lately.
    Stale,
    /// In use and being asked at the address that it had.
    Probe,
    /// Did not answer.
    Failed,
}

/// One neighbor, for display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeighbourEntry {
    /// The next hop that it is.
    pub index: NextHopIndex,
    /// The interface on whose link it is.
    pub interface: InterfaceId,
    /// Its address.
    pub addr: IpAddr,
    /// Its link-layer address, if known.
    pub mac: Option<MacAddr>,
    /// What is known about it.
    pub state: NeighbourState,
    /// A gateway or a GTP-U peer: kept resolved without traffic.
    pub pinned: bool,
}

/// What the cache did and refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NeighbourCounters {
    /// Questions handed out.
    pub solicits: u64,
    /// Neighbors that did not answer.
    pub failures: u64,
    /// Requests for addresses that are no neighbors, or without room for them.
    pub wanted_refused: u64,
    /// Link-layer addresses that no station can have, or claims of our own address.
    pub seen_refused: u64,
    /// Link-layer addresses that changed.
    pub mac_changes: u64,
    /// Commands that found the queue full.
    pub commands_lost: u64,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    interface: InterfaceId,
    addr: IpAddr,
    mac: Option<MacAddr>,
    state: NeighbourState,
    pinned: bool,
    /// Questions asked in the present state.
    solicits: u8,
    /// When the present state began.
    since: Nanos,
    /// When something has to be done.
    deadline: Nanos,
}

/// The neighbors of all interfaces. Belongs to the control thread.
#[derive(Debug)]
pub struct NeighbourCache {
    /// By next-hop index.
    entries: Vec<Option<Entry>>,
    deadlines: BTreeSet<(Nanos, NextHopIndex)>,
    commands: VecDeque<WorkerCommand>,
    counters: NeighbourCounters,
}
