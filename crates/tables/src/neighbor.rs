//! Neighbor resolution: a sans-I/O state machine after RFC 4861 §7.3 and ARP practice (RFC 826,
//! RFC 1122 §2.3.2), the same for both families.
//!
//! A link-layer address in use is not given up because a station claims the neighbor's address: ARP
//! messages are as easily forged as sent. The known station is asked first, while packets go on to it,
//! and only its silence for [`RETRANSMIT`] makes the claim good. A Neighbor Advertisement replaces the
//! address at once if it has the Override flag, and else only casts doubt on it (RFC 4861 §7.2.5).
//!
//! Pinned next hops (gateways, GTP-U peers) are resolved and kept so without traffic. Others come
//! into being when a packet asks for them and vanish when unused. Nothing that a station says by
//! itself creates an entry, so that a flood of announcements fills no table.

use core::net::IpAddr;
use std::collections::{BTreeSet, VecDeque};

use adit_rules::{AddressConflict, WorkerCommand, WorkerEvent};
use adit_types::limits::COMMAND_RING_LEN;
use adit_types::{InterfaceId, MacAddr, Nanos, NextHopIndex};

use crate::publisher::Publisher;

/// Solicitations before a neighbor counts as absent. Spec: RFC 4861 §10.
const SOLICITS_MAX: u8 = 3;

/// Wait for an answer to one question. Spec: RFC 4861 §10 (RETRANS_TIMER).
const RETRANSMIT: Nanos = Nanos::from_secs(1);

/// Wait for an answer of a station whose address another one claims, so that three questions take
/// [`RETRANSMIT`].
const CLAIM_RETRANSMIT: Nanos = Nanos(RETRANSMIT.0 / SOLICITS_MAX as u64);

/// Time that an answer is good for. Spec: RFC 4861 §10 (REACHABLE_TIME).
const REACHABLE: Nanos = Nanos::from_secs(30);

/// Interval at which a stale neighbor is checked for use. Spec: RFC 4861 §10
/// (DELAY_FIRST_PROBE_TIME).
const STALE_CHECK: Nanos = Nanos::from_secs(5);

/// Time after which an unused stale neighbor is forgotten, as Linux does.
const STALE_LIFETIME: Nanos = Nanos::from_secs(60);

/// An absent neighbor is not solicited again for this time.
const HOLD_DOWN: Nanos = Nanos::from_secs(3);

/// The state of a neighbor. Spec: RFC 4861 §7.3.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NeighborState {
    /// Solicited, without an answer yet.
    Incomplete,
    /// Answered lately.
    Reachable,
    /// Has an address that nobody confirmed lately.
    Stale,
    /// In use, and solicited at its former address.
    Probe,
    /// Did not answer.
    Failed,
}

/// One neighbor, for display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeighborEntry {
    /// The next hop that it is.
    pub index: NextHopIndex,
    /// The interface on whose link it is.
    pub interface: InterfaceId,
    /// Its address.
    pub addr: IpAddr,
    /// Its link-layer address, if known.
    pub mac: Option<MacAddr>,
    /// What is known about it.
    pub state: NeighborState,
    /// A gateway or a GTP-U peer: kept resolved without traffic.
    pub pinned: bool,
}

/// Counts of what the cache did and refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NeighborCounters {
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
    /// Claims of another link-layer address that the old station refuted by an answer.
    pub claims_refuted: u64,
    /// Commands that found the queue full.
    pub commands_lost: u64,
}

#[derive(Debug, Clone, Copy)]
struct NeighborRecord {
    interface: InterfaceId,
    addr: IpAddr,
    mac: Option<MacAddr>,
    state: NeighborState,
    pinned: bool,
    /// The link-layer address that another station claims to be the neighbor's.
    claim: Option<MacAddr>,
    /// When the station was last solicited because of a claim.
    disputed_at: Option<Nanos>,
    /// Solicitations sent in the present state.
    solicits: u8,
    /// When the present state began.
    since: Nanos,
    /// When something has to be done.
    deadline: Nanos,
}

/// What a station claims about its link-layer address; see [`WorkerEvent::NeighborLearned`].
#[derive(Debug, Clone, Copy)]
struct NeighborClaim {
    mac: MacAddr,
    solicited: bool,
    conflict: AddressConflict,
}

/// The neighbors of all interfaces. Belongs to the control thread.
#[derive(Debug)]
pub struct NeighborCache {
    /// By next-hop index.
    entries: Vec<Option<NeighborRecord>>,
    deadlines: BTreeSet<(Nanos, NextHopIndex)>,
    commands: VecDeque<WorkerCommand>,
    counters: NeighborCounters,
}

impl NeighborCache {
    /// A cache for the next hops of `publisher`. Its first commands announce our own addresses.
    #[must_use]
    pub fn new(publisher: &Publisher) -> Self {
        let announce =
            |interface: &crate::Interface| WorkerCommand::Announce { interface: interface.id };
        Self {
            entries: vec![None; publisher.next_hops_max()],
            deadlines: BTreeSet::new(),
            commands: publisher.interfaces().iter().map(announce).collect(),
            counters: NeighborCounters::default(),
        }
    }

    /// Handles an event of a worker. Events that are not about neighbors change nothing.
    pub fn handle_event(&mut self, now: Nanos, event: WorkerEvent, publisher: &mut Publisher) {
        self.handle_changes(now, publisher);
        match event {
            WorkerEvent::NeighborUnresolved { interface, addr } => {
                self.handle_request(now, interface, addr, publisher);
            }
            WorkerEvent::NeighborLearned { interface, addr, mac, solicited, conflict } => {
                let claim = NeighborClaim { mac, solicited, conflict };
                self.handle_seen(now, interface, addr, claim, publisher);
            }
            WorkerEvent::EchoResponse { .. }
            | WorkerEvent::EchoRequest { .. }
            | WorkerEvent::EchoSent { .. }
            | WorkerEvent::UsageLimit { .. }
            | WorkerEvent::TrafficStarted { .. }
            | WorkerEvent::ErrorIndication { .. }
            | WorkerEvent::EndMarker { .. }
            | WorkerEvent::DownlinkData { .. } => {}
        }
    }

    /// Takes in next hops that became pinned or unpinned: call after [`Publisher::apply`] and
    /// [`Publisher::poll_observed`].
    pub fn handle_changes(&mut self, now: Nanos, publisher: &mut Publisher) {
        while let Some(index) = publisher.take_pin_change() {
            let pinned = publisher.is_pinned(index);
            if let Some(entry) = self.entry_mut(index) {
                entry.pinned = pinned;
                if pinned && entry.state == NeighborState::Stale {
                    self.probe(now, index);
                }
            } else if pinned {
                self.start(now, index, publisher);
            } else {
                publisher.remove_next_hop(index);
            }
        }
    }

    /// Runs the timers that are due at `now`.
    pub fn handle_timeout(&mut self, now: Nanos, publisher: &mut Publisher) {
        self.handle_changes(now, publisher);
        while let Some(&(deadline, index)) = self.deadlines.first()
            && deadline <= now
        {
            self.deadlines.pop_first();
            self.expire(now, index, publisher);
        }
    }

    /// When [`NeighborCache::handle_timeout`] has something to do next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Nanos> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// The next command for any one worker.
    pub fn poll_command(&mut self) -> Option<WorkerCommand> {
        self.commands.pop_front()
    }

    /// All neighbors, by index.
    pub fn entries(&self) -> impl Iterator<Item = NeighborEntry> + '_ {
        self.entries_from(NextHopIndex(0), self.entries.len()).0
    }

    /// The neighbors of at most `count` indices from `first` on, and the index behind these; `None`
    /// behind the last one.
    pub fn entries_from(
        &self,
        first: NextHopIndex,
        count: usize,
    ) -> (impl Iterator<Item = NeighborEntry> + '_, Option<NextHopIndex>) {
        let NextHopIndex(first) = first;
        let rest = self.entries.get(first as usize..).unwrap_or_default();
        let entries = rest.get(..count).unwrap_or(rest);
        let end = u32::try_from(entries.len()).map_or(u32::MAX, |len| first.saturating_add(len));
        let next = (entries.len() < rest.len()).then_some(NextHopIndex(end));
        let entries = (first..).zip(entries).filter_map(|(index, entry)| {
            let &NeighborRecord { interface, addr, mac, state, pinned, .. } = entry.as_ref()?;
            Some(NeighborEntry { index: NextHopIndex(index), interface, addr, mac, state, pinned })
        });
        (entries, next)
    }

    /// Counts of what the cache did and refused.
    #[must_use]
    pub const fn counters(&self) -> NeighborCounters {
        self.counters
    }

    fn handle_request(
        &mut self,
        now: Nanos,
        interface: InterfaceId,
        addr: IpAddr,
        publisher: &mut Publisher,
    ) {
        let Some(index) = publisher.ensure_next_hop(interface, addr) else {
            self.counters.wanted_refused += 1;
            return;
        };
        if self.entry_mut(index).is_none() {
            self.start(now, index, publisher);
        }
    }

    fn handle_seen(
        &mut self,
        now: Nanos,
        interface: InterfaceId,
        addr: IpAddr,
        claim: NeighborClaim,
        publisher: &mut Publisher,
    ) {
        let NeighborClaim { mac, solicited, conflict } = claim;
        let own = publisher.interfaces().get(usize::from(interface.0));
        let claims_ours = own.is_none_or(|own| own.owns(addr) || own.mac == mac);
        if claims_ours || mac.is_multicast() || mac == MacAddr::default() {
            self.counters.seen_refused += 1;
            return;
        }
        let Some(index) = publisher.find_next_hop(interface, addr) else { return };
        let Some(entry) = self.entry_mut(index) else { return };
        let asked = matches!(entry.state, NeighborState::Incomplete | NeighborState::Probe);
        let same = entry.mac == Some(mac);
        let (is_known, is_disputed) = (entry.mac.is_some(), entry.claim.is_some());
        if is_known && !same && conflict != AddressConflict::Replace {
            let claim = Some(mac).filter(|_| conflict == AddressConflict::Verify);
            self.dispute(now, index, claim, publisher);
            return;
        }
        self.counters.mac_changes += u64::from(is_known && !same);
        if solicited && (asked || same) {
            self.counters.claims_refuted += u64::from(same && is_disputed);
            self.confirm(now, index, mac, publisher);
        } else if !same {
            self.doubt(now, index, mac, publisher);
        }
    }

    /// Another station claims to be the neighbor: the known one is solicited, once per
    /// [`RETRANSMIT`], and `claim` replaces its address if it does not answer. Without a claim the
    /// address only becomes doubtful, which it is in all other states already.
    fn dispute(
        &mut self,
        now: Nanos,
        index: NextHopIndex,
        claim: Option<MacAddr>,
        publisher: &mut Publisher,
    ) {
        let Some(entry) = self.entry_mut(index) else { return };
        let (state, mac) = (entry.state, entry.mac);
        if claim.is_some() {
            entry.claim = claim;
        } else if state != NeighborState::Reachable {
            return;
        }
        if state == NeighborState::Probe {
            return;
        }
        let next = entry.disputed_at.map_or(now, |at| at + RETRANSMIT);
        let may_ask = claim.is_some() || entry.pinned;
        if may_ask && next > now {
            let deadline = entry.deadline.min(next);
            self.arm(index, deadline);
        } else if may_ask {
            self.solicit_by_request(now, index, publisher);
        } else if let Some(mac) = mac {
            self.doubt(now, index, mac, publisher);
        }
    }

    /// Solicits the station at the known address: it may still be the neighbor.
    fn solicit_by_request(&mut self, now: Nanos, index: NextHopIndex, publisher: &mut Publisher) {
        let Some(entry) = self.entry_mut(index) else { return };
        let Some(mac) = entry.mac else { return };
        entry.disputed_at = Some(now);
        publisher.set_mac(index, mac, true);
        self.probe(now, index);
    }

    /// Begins to resolve a next hop that has no entry yet, or starts over.
    fn start(&mut self, now: Nanos, index: NextHopIndex, publisher: &mut Publisher) {
        let Some(hop) = publisher.next_hop(index) else { return };
        publisher.clear_mac(index);
        let entry = NeighborRecord {
            interface: hop.interface,
            addr: hop.addr,
            mac: None,
            state: NeighborState::Incomplete,
            pinned: publisher.is_pinned(index),
            claim: None,
            disputed_at: None,
            solicits: 0,
            since: now,
            deadline: self.entry_mut(index).map_or(now, |entry| entry.deadline),
        };
        if let Some(place) = self.entries.get_mut(index.0 as usize) {
            *place = Some(entry);
            self.solicit(now, index);
        }
    }

    /// A deadline of `index` has passed.
    fn expire(&mut self, now: Nanos, index: NextHopIndex, publisher: &mut Publisher) {
        let Some(&mut entry) = self.entry_mut(index) else { return };
        match entry.state {
            NeighborState::Incomplete | NeighborState::Probe if entry.solicits < SOLICITS_MAX => {
                self.solicit(now, index);
            }
            NeighborState::Incomplete => {
                self.counters.failures += 1;
                self.enter(now, index, NeighborState::Failed, HOLD_DOWN);
            }
            NeighborState::Probe if entry.claim.is_some() => {
                let Some(claim) = entry.claim else { unreachable!("there is a claim") };
                self.counters.mac_changes += 1;
                self.replace(now, index, claim, publisher);
            }
            NeighborState::Reachable | NeighborState::Stale if entry.claim.is_some() => {
                self.solicit_by_request(now, index, publisher);
            }
            NeighborState::Probe if !entry.pinned => {
                self.counters.failures += 1;
                self.forget(now, index, publisher);
            }
            NeighborState::Failed if !entry.pinned => self.forget(now, index, publisher),
            NeighborState::Probe | NeighborState::Failed => self.start(now, index, publisher),
            NeighborState::Reachable => {
                let Some(mac) = entry.mac else {
                    unreachable!("a reachable neighbor has a link-layer address")
                };
                self.doubt(now, index, mac, publisher);
            }
            NeighborState::Stale if publisher.take_used(index) => self.probe(now, index),
            NeighborState::Stale if now.since(entry.since) >= STALE_LIFETIME => {
                self.forget(now, index, publisher);
            }
            NeighborState::Stale => self.arm(index, now + STALE_CHECK),
        }
    }

    /// The station did not answer, so that the claim of another one is believed; it is asked.
    fn replace(
        &mut self,
        now: Nanos,
        index: NextHopIndex,
        mac: MacAddr,
        publisher: &mut Publisher,
    ) {
        publisher.set_mac(index, mac, true);
        if let Some(entry) = self.entry_mut(index) {
            (entry.mac, entry.claim) = (Some(mac), None);
        }
        self.probe(now, index);
    }

    /// The neighbor answered: its address is good.
    fn confirm(
        &mut self,
        now: Nanos,
        index: NextHopIndex,
        mac: MacAddr,
        publisher: &mut Publisher,
    ) {
        publisher.set_mac(index, mac, false);
        if let Some(entry) = self.entry_mut(index) {
            (entry.mac, entry.claim) = (Some(mac), None);
        }
        self.enter(now, index, NeighborState::Reachable, REACHABLE);
    }

    /// The address is in use until somebody asks whether it still is right: for a pinned neighbor
    /// that is now, for others when a packet uses it.
    fn doubt(&mut self, now: Nanos, index: NextHopIndex, mac: MacAddr, publisher: &mut Publisher) {
        publisher.take_used(index);
        publisher.set_mac(index, mac, true);
        let Some(entry) = self.entry_mut(index) else { return };
        (entry.mac, entry.claim) = (Some(mac), None);
        if entry.pinned {
            self.probe(now, index);
        } else {
            self.enter(now, index, NeighborState::Stale, STALE_CHECK);
        }
    }

    fn probe(&mut self, now: Nanos, index: NextHopIndex) {
        self.enter(now, index, NeighborState::Probe, RETRANSMIT);
        self.solicit(now, index);
    }

    /// Removes the entry and its next hop, unless that was pinned in the meantime.
    fn forget(&mut self, now: Nanos, index: NextHopIndex, publisher: &mut Publisher) {
        if !publisher.remove_next_hop(index) {
            self.start(now, index, publisher);
            return;
        }
        if let Some(entry) = self.entries.get_mut(index.0 as usize).and_then(Option::take) {
            self.deadlines.remove(&(entry.deadline, index));
        }
    }

    fn enter(&mut self, now: Nanos, index: NextHopIndex, state: NeighborState, span: Nanos) {
        if let Some(entry) = self.entry_mut(index) {
            entry.state = state;
            entry.solicits = 0;
            entry.since = now;
        }
        self.arm(index, now + span);
    }

    /// Sends a solicitation: to the station itself in a probe, else to all.
    fn solicit(&mut self, now: Nanos, index: NextHopIndex) {
        let Some(entry) = self.entry_mut(index) else { return };
        entry.solicits = entry.solicits.saturating_add(1);
        let unicast = entry.mac.filter(|_| entry.state == NeighborState::Probe);
        let pause = if entry.claim.is_some() { CLAIM_RETRANSMIT } else { RETRANSMIT };
        let question =
            WorkerCommand::Solicit { interface: entry.interface, addr: entry.addr, unicast };
        if self.commands.len() < COMMAND_RING_LEN {
            self.commands.push_back(question);
            self.counters.solicits += 1;
        } else {
            self.counters.commands_lost += 1;
        }
        self.arm(index, now + pause);
    }

    fn arm(&mut self, index: NextHopIndex, deadline: Nanos) {
        let Some(entry) = self.entry_mut(index) else { return };
        let before = core::mem::replace(&mut entry.deadline, deadline);
        self.deadlines.remove(&(before, index));
        self.deadlines.insert((deadline, index));
    }

    fn entry_mut(&mut self, index: NextHopIndex) -> Option<&mut NeighborRecord> {
        self.entries.get_mut(index.0 as usize)?.as_mut()
    }
}
