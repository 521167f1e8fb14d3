//! The neighbor cache: the states of RFC 4861 §7.3, also for ARP (RFC 826, RFC 1122 §2.3.2).
//!
//! A station that claims the address of a neighbor does not replace a link-layer address in use,
//! because ARP messages are easily forged. The cache first solicits both stations, while packets
//! still go to the known one. It believes the claim only if the known station stays silent: for
//! [`CLAIM_WAIT`] if the claiming station answers, else for [`RETRANSMIT`]. If the known station
//! answers later, but within [`RETRANSMIT`], packets go to it again. A Neighbor Advertisement with
//! the Override flag replaces the address at once, unless the next hop is pinned and no request was
//! sent; without the flag it only makes the address stale (RFC 4861 §7.2.5).
//!
//! Pinned next hops (gateways, GTP-U peers) are resolved and kept resolved without traffic. While
//! packets leave through an interface and none arrives there, its reachable pinned next hops are
//! probed each second, by unicast and broadcast. Other next hops are created when a packet needs
//! them and removed when unused. An unsolicited announcement creates no entry, so a flood of
//! announcements cannot fill the table.

use core::net::IpAddr;
use std::collections::{BTreeSet, VecDeque};

use adit_rules::{AddressConflict, NextHops, WorkerCommand, WorkerEvent};
use adit_types::limits::COMMAND_RING_LEN;
use adit_types::{InterfaceId, MacAddr, Nanos, NextHopIndex};

use crate::neighbor::announcements::Announcements;
use crate::neighbor::entry::{NeighborCounters, NeighborEntry, NeighborState};

/// How many solicitations are sent before a neighbor counts as absent. Spec: RFC 4861 §10.
const SOLICITS_MAX: u8 = 3;

/// Wait for the answer to one solicitation. Spec: RFC 4861 §10 (RETRANS_TIMER).
const RETRANSMIT: Nanos = Nanos::from_secs(1);

/// Replaces [`RETRANSMIT`] if another station claims the address: [`SOLICITS_MAX`] solicitations
/// take one [`RETRANSMIT`].
const CLAIM_RETRANSMIT: Nanos = Nanos(RETRANSMIT.0 / SOLICITS_MAX as u64);

/// How long the known station has to answer once the station that claims its address has answered.
const CLAIM_WAIT: Nanos = Nanos::from_millis(40);

/// How long an answer keeps a neighbor reachable. Spec: RFC 4861 §10 (REACHABLE_TIME).
const REACHABLE: Nanos = Nanos::from_secs(30);

/// Interval at which a stale neighbor is checked for use. Spec: RFC 4861 §10
/// (DELAY_FIRST_PROBE_TIME).
const STALE_CHECK: Nanos = Nanos::from_secs(5);

/// How long an unused stale neighbor is kept; Linux uses the same time.
const STALE_LIFETIME: Nanos = Nanos::from_secs(60);

/// Most neighbors of a silent link that are probed at a time.
const SILENT_LINK_PROBES_MAX: usize = 64;

/// An absent neighbor is not solicited again for this time, unless it is pinned.
const HOLD_DOWN: Nanos = Nanos::from_secs(3);

#[derive(Debug, Clone, Copy)]
struct NeighborRecord {
    interface: InterfaceId,
    addr: IpAddr,
    mac: Option<MacAddr>,
    state: NeighborState,
    pinned: bool,
    /// The link-layer address that another station claims for the neighbor.
    claim: Option<DisputedAddress>,
    /// The previous station, which did not answer in time, and until when an answer restores it.
    former: Option<(MacAddr, Nanos)>,
    /// When the station was last solicited because of a claim.
    disputed_at: Option<Nanos>,
    /// Solicitations sent in the present state.
    solicits: u8,
    /// When the present state began.
    since: Nanos,
    /// When the next timer of the entry runs out.
    deadline: Nanos,
}

/// A link-layer address that another station claims for a neighbor.
#[derive(Debug, Clone, Copy)]
struct DisputedAddress {
    mac: MacAddr,
    /// True if the station that claims the address has answered.
    is_answered: bool,
}

/// A station's statement of its link-layer address; see [`WorkerEvent::NeighborLearned`].
#[derive(Debug, Clone, Copy)]
struct NeighborClaim {
    mac: MacAddr,
    solicited: bool,
    conflict: AddressConflict,
}

/// The neighbors of all interfaces. The control thread owns it.
#[derive(Debug)]
pub struct NeighborCache {
    /// By next-hop index.
    entries: Vec<Option<NeighborRecord>>,
    deadlines: BTreeSet<(Nanos, NextHopIndex)>,
    commands: VecDeque<WorkerCommand>,
    announcements: Announcements,
    counters: NeighborCounters,
}

impl NeighborCache {
    /// Creates an empty cache for `next_hops`.
    #[must_use]
    pub fn new(next_hops: &dyn NextHops) -> Self {
        Self {
            entries: vec![None; next_hops.next_hops_max()],
            deadlines: BTreeSet::new(),
            commands: VecDeque::new(),
            announcements: Announcements::default(),
            counters: NeighborCounters::default(),
        }
    }

    /// Begins to announce our own addresses on the links, several times, so that stations that know
    /// other link-layer addresses for them replace these.
    pub fn announce(&mut self, now: Nanos, next_hops: &dyn NextHops) {
        self.announcements = Announcements::new(now, next_hops);
        self.commands.extend(self.announcements.take_due(now));
    }

    /// Handles an event of a worker. Events that are not about neighbors change nothing.
    pub fn handle_event(&mut self, now: Nanos, event: WorkerEvent, next_hops: &mut dyn NextHops) {
        self.handle_changes(now, next_hops);
        match event {
            WorkerEvent::NeighborUnresolved { interface, addr } => {
                self.handle_request(now, interface, addr, next_hops);
            }
            WorkerEvent::NeighborLearned { interface, addr, mac, solicited, conflict } => {
                let is_ours = next_hops.is_own_address(interface, addr, mac);
                if is_ours || mac.is_multicast() || mac == MacAddr::default() {
                    self.counters.seen_refused += 1;
                } else if let Some(index) = next_hops.find_next_hop(interface, addr) {
                    let claim = NeighborClaim { mac, solicited, conflict };
                    self.handle_seen(now, index, claim, next_hops);
                }
            }
            WorkerEvent::OwnAddressUsed { .. } => self.counters.own_addresses_used += 1,
            WorkerEvent::EchoResponse { .. }
            | WorkerEvent::EchoRequest { .. }
            | WorkerEvent::EchoSent { .. }
            | WorkerEvent::UsageLimit { .. }
            | WorkerEvent::TrafficStarted { .. }
            | WorkerEvent::PathNarrowed { .. }
            | WorkerEvent::ErrorIndication { .. }
            | WorkerEvent::EndMarker { .. }
            | WorkerEvent::DownlinkData { .. } => {}
        }
    }

    /// Resolves next hops that became pinned, and makes unpinned ones age. Call it after
    /// [`DataPlane::apply`] and [`DataPlane::poll_observed`], which pin and unpin.
    ///
    /// [`DataPlane::apply`]: adit_rules::DataPlane::apply
    /// [`DataPlane::poll_observed`]: adit_rules::DataPlane::poll_observed
    pub fn handle_changes(&mut self, now: Nanos, next_hops: &mut dyn NextHops) {
        while let Some(index) = next_hops.take_pin_change() {
            let pinned = next_hops.is_pinned(index);
            if let Some(entry) = self.entry_mut(index) {
                entry.pinned = pinned;
                if pinned && entry.state == NeighborState::Stale {
                    self.probe(now, index);
                }
            } else if pinned {
                self.start(now, index, next_hops);
            } else {
                next_hops.remove_next_hop(index);
            }
        }
    }

    /// Probes the gateways and GTP-U peers on `interface`: packets leave through it, and none
    /// arrives. Also solicits by broadcast, because another station may have their addresses by
    /// now. Call it at most once a second.
    pub fn handle_silence(&mut self, now: Nanos, interface: InterfaceId) {
        let is_asked = |entry: &NeighborRecord| {
            entry.interface == interface && entry.pinned && entry.state == NeighborState::Reachable
        };
        let entries = (0..).map(NextHopIndex).zip(&self.entries);
        let asked = entries.filter(|(_, entry)| entry.as_ref().is_some_and(is_asked));
        let asked: Vec<NextHopIndex> =
            asked.map(|(index, _)| index).take(SILENT_LINK_PROBES_MAX).collect();
        for index in asked {
            if let Some(entry) = self.entry_mut(index) {
                entry.disputed_at = Some(now);
            }
            self.probe(now, index);
            self.send_solicitation(index, None);
        }
    }

    /// Runs the timers that are due at `now`.
    pub fn handle_timeout(&mut self, now: Nanos, next_hops: &mut dyn NextHops) {
        self.handle_changes(now, next_hops);
        self.commands.extend(self.announcements.take_due(now));
        while let Some(&(deadline, index)) = self.deadlines.first()
            && deadline <= now
        {
            self.deadlines.pop_first();
            self.expire(now, index, next_hops);
        }
    }

    /// Returns when [`NeighborCache::handle_timeout`] is due next; `None` if no timer runs.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Nanos> {
        let deadline = self.deadlines.first().map(|(deadline, _)| *deadline);
        deadline.into_iter().chain(self.announcements.poll_timeout()).min()
    }

    /// Returns the next command, which any one worker may run.
    pub fn poll_command(&mut self) -> Option<WorkerCommand> {
        self.commands.pop_front()
    }

    /// Returns all neighbors by index.
    pub fn entries(&self) -> impl Iterator<Item = NeighborEntry> + '_ {
        self.entries_from(NextHopIndex(0), self.entries.len()).0
    }

    /// Returns the neighbors at `count` indices from `first` on, and the next index, which is
    /// `None` at the end.
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

    /// Returns the counts of the cache's actions and refusals.
    #[must_use]
    pub const fn counters(&self) -> NeighborCounters {
        self.counters
    }

    fn handle_request(
        &mut self,
        now: Nanos,
        interface: InterfaceId,
        addr: IpAddr,
        next_hops: &mut dyn NextHops,
    ) {
        let Some(index) = next_hops.ensure_next_hop(interface, addr) else {
            self.counters.wanted_refused += 1;
            return;
        };
        if self.entry_mut(index).is_none() {
            self.start(now, index, next_hops);
        }
    }

    fn handle_seen(
        &mut self,
        now: Nanos,
        index: NextHopIndex,
        claim: NeighborClaim,
        next_hops: &mut dyn NextHops,
    ) {
        let NeighborClaim { mac, solicited, conflict } = claim;
        let Some(entry) = self.entry_mut(index) else { return };
        if entry.state == NeighborState::Fixed {
            self.counters.seen_refused += 1;
            return;
        }
        let former = entry.former.filter(|(former, until)| *former == mac && now < *until);
        if solicited && former.is_some() {
            self.counters.claims_refuted += 1;
            self.confirm(now, index, mac, next_hops);
            return;
        }
        let is_probed = solicited && entry.state == NeighborState::Probe;
        if let Some(claim) = entry.claim.as_mut().filter(|claim| is_probed && claim.mac == mac) {
            claim.is_answered = true;
            let wait = entry.disputed_at.map_or(now, |at| at + CLAIM_WAIT);
            let deadline = entry.deadline.min(wait.max(now));
            self.arm(index, deadline);
            return;
        }
        // All stations were solicited, and this is the first other one to answer.
        let was_asked = entry.disputed_at.is_some_and(|at| now.since(at) < RETRANSMIT);
        if is_probed
            && was_asked
            && entry.claim.is_none()
            && entry.mac.is_some_and(|own| own != mac)
        {
            entry.claim = Some(DisputedAddress { mac, is_answered: true });
            self.arm(index, now + CLAIM_WAIT);
            return;
        }
        let conflict = match conflict {
            AddressConflict::Replace if entry.pinned && !solicited => AddressConflict::Verify,
            other => other,
        };
        let is_solicited = matches!(
            entry.state,
            NeighborState::Incomplete | NeighborState::Probe | NeighborState::Failed
        );
        let same = entry.mac == Some(mac);
        let (is_known, is_disputed) = (entry.mac.is_some(), entry.claim.is_some());
        if is_known && !same && conflict != AddressConflict::Replace {
            let claim = Some(mac).filter(|_| conflict == AddressConflict::Verify);
            self.dispute(now, index, claim, next_hops);
            return;
        }
        self.counters.mac_changes += u64::from(is_known && !same);
        if solicited && (is_solicited || same) {
            self.counters.claims_refuted += u64::from(same && is_disputed);
            self.confirm(now, index, mac, next_hops);
        } else if !same {
            self.doubt(now, index, mac, next_hops);
        }
    }

    /// Handles a different link-layer address from another station: solicits the known station, at
    /// most once per [`RETRANSMIT`]. If the known station does not answer, `claim` replaces its
    /// address. Without a claim a reachable neighbor becomes stale; other states do not change.
    fn dispute(
        &mut self,
        now: Nanos,
        index: NextHopIndex,
        claim: Option<MacAddr>,
        next_hops: &mut dyn NextHops,
    ) {
        let Some(entry) = self.entry_mut(index) else { return };
        let (state, mac) = (entry.state, entry.mac);
        match claim {
            Some(mac) if entry.claim.is_none_or(|known| known.mac != mac) => {
                entry.claim = Some(DisputedAddress { mac, is_answered: false });
            }
            None if state != NeighborState::Reachable => return,
            _ => {}
        }
        if state == NeighborState::Probe {
            return;
        }
        let next = entry.disputed_at.map_or(now, |at| at + RETRANSMIT);
        let solicits_now = claim.is_some() || entry.pinned;
        if solicits_now && next > now {
            let deadline = entry.deadline.min(next);
            self.arm(index, deadline);
        } else if solicits_now {
            self.verify(now, index, next_hops);
        } else if let Some(mac) = mac {
            self.doubt(now, index, mac, next_hops);
        }
    }

    /// Solicits the known station, and the one that claims its address if there is one.
    fn verify(&mut self, now: Nanos, index: NextHopIndex, next_hops: &mut dyn NextHops) {
        let Some(entry) = self.entry_mut(index) else { return };
        let Some(mac) = entry.mac else { return };
        entry.disputed_at = Some(now);
        let claim = entry.claim;
        next_hops.set_mac(index, mac, true);
        self.probe(now, index);
        if let Some(claim) = claim {
            self.send_solicitation(index, Some(claim.mac));
        }
    }

    /// Starts to resolve a next hop. If the next hop has an entry, resolves it from the beginning.
    fn start(&mut self, now: Nanos, index: NextHopIndex, next_hops: &mut dyn NextHops) {
        let Some(hop) = next_hops.next_hop(index) else { return };
        next_hops.clear_mac(index);
        let entry = NeighborRecord {
            interface: hop.interface,
            addr: hop.addr,
            mac: None,
            state: NeighborState::Incomplete,
            pinned: next_hops.is_pinned(index),
            claim: None,
            former: None,
            disputed_at: None,
            solicits: 0,
            since: now,
            deadline: self.entry_mut(index).map_or(now, |entry| entry.deadline),
        };
        let station = next_hops.only_station(hop.interface);
        let Some(place) = self.entries.get_mut(index.0 as usize) else { return };
        match station {
            Some(mac) => {
                *place =
                    Some(NeighborRecord { mac: station, state: NeighborState::Fixed, ..entry });
                next_hops.set_mac(index, mac, false);
            }
            None => {
                *place = Some(entry);
                self.solicit(now, index);
            }
        }
    }

    /// Handles the expiry of the deadline of `index`.
    fn expire(&mut self, now: Nanos, index: NextHopIndex, next_hops: &mut dyn NextHops) {
        let Some(&mut entry) = self.entry_mut(index) else { return };
        match (entry.state, entry.claim) {
            (NeighborState::Probe, Some(claim)) if claim.is_answered => {
                self.counters.mac_changes += 1;
                let until = entry.disputed_at.unwrap_or(now) + RETRANSMIT;
                let former = entry.mac.map(|mac| (mac, until));
                self.confirm(now, index, claim.mac, next_hops);
                if let Some(entry) = self.entry_mut(index) {
                    entry.former = former;
                }
                self.send_solicitation(index, entry.mac);
            }
            (NeighborState::Incomplete | NeighborState::Probe, _)
                if entry.solicits < SOLICITS_MAX =>
            {
                self.solicit(now, index);
            }
            (NeighborState::Fixed, _) => {}
            (NeighborState::Incomplete, _) => {
                self.counters.failures += 1;
                let pause = if entry.pinned { RETRANSMIT } else { HOLD_DOWN };
                self.enter(now, index, NeighborState::Failed, pause);
            }
            (NeighborState::Probe, Some(claim)) => {
                self.counters.mac_changes += 1;
                self.replace(now, index, claim.mac, next_hops);
            }
            (NeighborState::Reachable | NeighborState::Stale, Some(_)) => {
                self.verify(now, index, next_hops);
            }
            (NeighborState::Probe, None) if !entry.pinned => {
                self.counters.failures += 1;
                self.forget(now, index, next_hops);
            }
            (NeighborState::Failed, _) if !entry.pinned => self.forget(now, index, next_hops),
            (NeighborState::Failed, _) => self.solicit(now, index),
            (NeighborState::Probe, None) => self.start(now, index, next_hops),
            (NeighborState::Reachable, None) => {
                let Some(mac) = entry.mac else {
                    unreachable!("a reachable neighbor has a link-layer address")
                };
                self.doubt(now, index, mac, next_hops);
            }
            (NeighborState::Stale, None) if next_hops.take_used(index) => self.probe(now, index),
            (NeighborState::Stale, None) if now.since(entry.since) >= STALE_LIFETIME => {
                self.forget(now, index, next_hops);
            }
            (NeighborState::Stale, None) => self.arm(index, now + STALE_CHECK),
        }
    }

    /// Adopts and solicits the claimed address, because the known station did not answer.
    fn replace(
        &mut self,
        now: Nanos,
        index: NextHopIndex,
        mac: MacAddr,
        next_hops: &mut dyn NextHops,
    ) {
        next_hops.set_mac(index, mac, true);
        if let Some(entry) = self.entry_mut(index) {
            (entry.mac, entry.claim) = (Some(mac), None);
        }
        self.probe(now, index);
    }

    /// Marks the address as reachable: the neighbor answered.
    fn confirm(
        &mut self,
        now: Nanos,
        index: NextHopIndex,
        mac: MacAddr,
        next_hops: &mut dyn NextHops,
    ) {
        next_hops.set_mac(index, mac, false);
        if let Some(entry) = self.entry_mut(index) {
            (entry.mac, entry.claim, entry.former) = (Some(mac), None, None);
        }
        self.enter(now, index, NeighborState::Reachable, REACHABLE);
    }

    /// Keeps the address in use as unconfirmed. Probes a pinned neighbor now, any other once a
    /// packet uses it.
    fn doubt(
        &mut self,
        now: Nanos,
        index: NextHopIndex,
        mac: MacAddr,
        next_hops: &mut dyn NextHops,
    ) {
        next_hops.take_used(index);
        next_hops.set_mac(index, mac, true);
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

    /// Removes the entry and its next hop; resolves anew if the next hop cannot be removed.
    fn forget(&mut self, now: Nanos, index: NextHopIndex, next_hops: &mut dyn NextHops) {
        if !next_hops.remove_next_hop(index) {
            self.start(now, index, next_hops);
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

    /// Queues a solicitation, by unicast in a probe and otherwise by broadcast, and arms its timer.
    fn solicit(&mut self, now: Nanos, index: NextHopIndex) {
        let Some(entry) = self.entry_mut(index) else { return };
        entry.solicits = entry.solicits.saturating_add(1);
        let unicast = entry.mac.filter(|_| entry.state == NeighborState::Probe);
        let pause = if entry.claim.is_some() { CLAIM_RETRANSMIT } else { RETRANSMIT };
        self.send_solicitation(index, unicast);
        self.arm(index, now + pause);
    }

    /// Queues a solicitation to one station, or by broadcast if `unicast` is `None`.
    fn send_solicitation(&mut self, index: NextHopIndex, unicast: Option<MacAddr>) {
        let Some(&mut NeighborRecord { interface, addr, .. }) = self.entry_mut(index) else {
            return;
        };
        if self.commands.len() < COMMAND_RING_LEN {
            self.commands.push_back(WorkerCommand::Solicit { interface, addr, unicast });
            self.counters.solicits += 1;
        } else {
            self.counters.commands_lost += 1;
        }
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
