//! The offload that keeps the flows of sessions on a card, and reads their counters.

use core::mem;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use crate::{
    FastRuleForwarding, NetworkPart, Offload, OffloadBatch, OffloadChoice, OffloadInterfaceTotals,
    OffloadNotice, OffloadRefusal, OffloadRule, OffloadTotals, OffloadUsage, SessionKey,
};
use adit_types::limits::INTERFACES_MAX;
use adit_types::{
    Direction, InterfaceId, InterfaceSet, Ipv4Prefix, MacAddr, Nanos, NextHopIndex, SessionIndex,
};

use crate::flows::card::{FlowCard, FlowCardError, FlowCounts, FlowHandle};
use crate::flows::make::{
    self, FlowConfig, FlowDeparture, FlowException, SessionFlow, exception_flows, exceptions,
    refusal,
};
use crate::flows::routes::FlowRoutes;
use crate::flows::usage::FlowUsage;

/// Maximum number of prefixes that other gateways than the usual one serve; each costs exceptions.
const OTHER_PREFIXES_MAX: usize = 128;

/// Maximum number of flows of removed entries whose last counts are read in one turn.
const LAST_READINGS_PER_TURN_MAX: usize = 256;

/// Maximum number of entries that are read, and of entries that are removed as stale, in one turn.
const READINGS_PER_TURN_MAX: u64 = 1024;
const LOST_PER_TURN_MAX: usize = 64;

/// Maximum number of attempts, one per turn, to read the last counts of a flow.
const LAST_READING_ATTEMPTS_MAX: u32 = 1000;

/// Maximum number of notices that wait to be taken; more are lost.
const NOTICES_MAX: usize = 1024;

/// One direction of a session: 0 is uplink, 1 downlink.
type EntryKey = (SessionIndex, u8);

/// A flow on the card.
#[derive(Debug)]
struct InstalledFlow {
    number: FlowHandle,
    arrival: InterfaceId,
    arrival_len: u64,
    departure: InterfaceId,
    departure_len: u64,
    /// The counts when they were last read.
    pkts: u64,
    bytes: u64,
}

/// The flows of one direction of a session. An entry whose next hop changes is removed.
#[derive(Debug)]
struct FlowEntry {
    flows: Vec<InstalledFlow>,
    hop: NextHopIndex,
    /// Interface and link-layer address of `hop` when the flows were made.
    resolved: (InterfaceId, MacAddr),
}

/// A flow of a removed entry, kept until its last counts are read.
#[derive(Debug)]
struct EndingFlow {
    key: EntryKey,
    flow: InstalledFlow,
    /// The batch that has not passed before this flow's last counts are read.
    batch: u64,
    is_destroyed: bool,
    /// When the counter has its last value; set in the first turn after the flow was destroyed.
    ready: Option<Nanos>,
    attempts: u32,
}

/// The flows of all sessions on one card. Belongs to the control thread.
#[derive(Debug)]
pub struct FlowOffload<C> {
    card: C,
    config: FlowConfig,
    /// How long a flow may still count frames after its removal.
    settle: Nanos,
    usage: Arc<FlowUsage>,
    routes: FlowRoutes,
    /// The gateway (number) to which uplink flows lead: that of most destinations.
    usual: u8,
    gateways: HashMap<(InterfaceSet, u8), NextHopIndex>,
    hops: HashMap<NextHopIndex, (InterfaceId, MacAddr)>,
    entries: BTreeMap<EntryKey, FlowEntry>,
    by_hop: HashMap<NextHopIndex, BTreeSet<EntryKey>>,
    /// Entries whose next hop changed, and whose flows therefore have the wrong link-layer address.
    stale: VecDeque<EntryKey>,
    ending: VecDeque<EndingFlow>,
    exceptions: BTreeMap<(InterfaceId, FlowException), Vec<FlowHandle>>,
    /// True if routes changed since the exceptions were made.
    has_new_routes: bool,
    /// Why the card refused exceptions. Without them it gets no flows of sessions.
    without_exceptions: Option<OffloadRefusal>,
    /// When to try again to install exceptions that the card refused.
    retry: Option<Nanos>,
    notices: VecDeque<OffloadNotice>,
    closed: u64,
    /// The entry that was read last, and time that passed without being used for readings.
    last_read: EntryKey,
    unused: u64,
    now: Nanos,
    totals: Vec<OffloadInterfaceTotals>,
}

const fn key_of(session: SessionIndex, direction: Direction) -> EntryKey {
    match direction {
        Direction::Uplink => (session, 0),
        Direction::Downlink => (session, 1),
    }
}

const fn direction_of(key: EntryKey) -> Direction {
    match key.1 {
        0 => Direction::Uplink,
        _ => Direction::Downlink,
    }
}

impl<C: FlowCard> FlowOffload<C> {
    /// Makes an offload without flows. `settle`: how long a flow may count after its removal.
    #[must_use]
    pub fn new(card: C, config: FlowConfig, settle: Nanos) -> Self {
        Self {
            card,
            usage: FlowUsage::new(config.sessions_max),
            config,
            settle,
            routes: FlowRoutes::new(),
            usual: 0,
            gateways: HashMap::new(),
            hops: HashMap::new(),
            entries: BTreeMap::new(),
            by_hop: HashMap::new(),
            stale: VecDeque::new(),
            ending: VecDeque::new(),
            exceptions: BTreeMap::new(),
            has_new_routes: true,
            without_exceptions: None,
            retry: None,
            notices: VecDeque::new(),
            closed: 0,
            last_read: (SessionIndex(0), 0),
            unused: 0,
            now: Nanos(0),
            totals: vec![OffloadInterfaceTotals::default(); INTERFACES_MAX],
        }
    }

    fn notice(&mut self, notice: OffloadNotice) {
        if self.notices.len() < NOTICES_MAX {
            self.notices.push_back(notice);
        }
    }

    /// Returns where packets to a next hop leave.
    fn departure(&self, hop: NextHopIndex) -> Result<FlowDeparture<'_>, OffloadRefusal> {
        let (id, station) =
            self.hops.get(&hop).ok_or_else(|| refusal("the next hop is unknown"))?;
        let interface = self.config.interfaces.iter().find(|of| of.id == *id);
        let interface = interface
            .ok_or_else(|| refusal("packets leave through a port without flow_offload"))?;
        Ok(FlowDeparture { interface, station: *station })
    }

    /// Makes the flows of a rule, and returns them with the next hop to which they lead.
    fn make(
        &self,
        rule: &OffloadRule<'_>,
    ) -> Result<(Vec<SessionFlow>, NextHopIndex), OffloadRefusal> {
        match &rule.rule.forwarding {
            FastRuleForwarding::Uplink { egress, .. } => {
                let hop = self.gateways.get(&(*egress, self.usual));
                let hop = hop.ok_or_else(|| refusal("no usual gateway leads to data networks"))?;
                Ok((make::uplink(&self.config, rule, self.departure(*hop)?)?, *hop))
            }
            FastRuleForwarding::Downlink { next_hop, .. } => {
                let departure = self.departure(*next_hop)?;
                Ok((make::downlink(&self.config, rule, departure)?, *next_hop))
            }
            FastRuleForwarding::Relay { .. } => {
                Err(refusal("packets leave a tunnel for another one"))
            }
        }
    }

    /// Installs all flows of an entry, or none.
    fn install(
        &mut self,
        key: EntryKey,
        flows: Vec<SessionFlow>,
        departure: InterfaceId,
    ) -> Result<Vec<InstalledFlow>, OffloadRefusal> {
        let mut installed = Vec::with_capacity(flows.len());
        for SessionFlow { flow, arrival, arrival_len, departure_len } in flows {
            match self.card.create(&flow) {
                Ok(number) => installed.push(InstalledFlow {
                    number,
                    arrival,
                    arrival_len: arrival_len as u64,
                    departure,
                    departure_len: departure_len as u64,
                    pkts: 0,
                    bytes: 0,
                }),
                Err(FlowCardError(words)) => {
                    // The flows may have counted packets.
                    installed.into_iter().for_each(|flow| self.remove_flow(key, flow));
                    return Err(OffloadRefusal(words.into()));
                }
            }
        }
        Ok(installed)
    }

    /// Removes a flow from the card. Its last counts are read in a later turn.
    fn remove_flow(&mut self, key: EntryKey, flow: InstalledFlow) {
        let is_destroyed = self.card.destroy(flow.number).is_ok();
        let batch = self.closed + 1;
        let ending = EndingFlow { key, flow, batch, is_destroyed, ready: None, attempts: 0 };
        self.ending.push_back(ending);
    }

    /// Removes the flows of an entry. Returns true if there was one.
    fn remove_entry(&mut self, key: EntryKey) -> bool {
        let Some(FlowEntry { flows, hop, .. }) = self.entries.remove(&key) else { return false };
        if let Some(keys) = self.by_hop.get_mut(&hop) {
            keys.remove(&key);
        }
        flows.into_iter().for_each(|flow| self.remove_flow(key, flow));
        true
    }

    fn remove_as_lost(&mut self, key: EntryKey) {
        if self.remove_entry(key) {
            self.notice(OffloadNotice::Lost(key.0, direction_of(key)));
        }
    }

    /// Installs the exceptions for the present routes; if this fails, removes all session flows.
    fn update_exceptions(&mut self) {
        if !mem::take(&mut self.has_new_routes) {
            return;
        }
        let usual = self.routes.usual_gateway().unwrap_or_default();
        if usual != mem::replace(&mut self.usual, usual) {
            let is_uplink = |key: &EntryKey| direction_of(*key) == Direction::Uplink;
            let all: Vec<_> = self.entries.keys().copied().filter(is_uplink).collect();
            all.into_iter().for_each(|key| self.remove_as_lost(key));
        }
        let others = self.routes.prefixes_without(usual);
        let outcome = match others.len() {
            0..=OTHER_PREFIXES_MAX => {
                let outcome = self.replace_exceptions(&others);
                self.retry = outcome.is_err().then(|| self.now + self.config.choice.scan);
                outcome
            }
            _ => Err(refusal("the data networks have too many routes")),
        };
        self.without_exceptions = outcome.err();
        if let Some(words) = self.without_exceptions.clone() {
            self.notice(OffloadNotice::Refused(words));
            let all: Vec<_> = self.entries.keys().copied().collect();
            all.into_iter().for_each(|key| self.remove_as_lost(key));
        }
    }

    fn replace_exceptions(&mut self, others: &[Ipv4Prefix]) -> Result<(), OffloadRefusal> {
        let mut wanted = BTreeMap::new();
        for interface in &self.config.interfaces {
            for exception in exceptions(&self.config, interface, others) {
                wanted.insert((interface.id, exception), exception_flows(interface, exception));
            }
        }
        let mut former = mem::take(&mut self.exceptions);
        let mut outcome = Ok(());
        for (key, flows) in &wanted {
            let kept = former.remove(key);
            let numbers = match kept {
                Some(numbers) => numbers,
                None if outcome.is_ok() => match self.create_all(flows) {
                    Ok(numbers) => numbers,
                    Err(words) => {
                        outcome = Err(words);
                        continue;
                    }
                },
                None => continue,
            };
            self.exceptions.insert(*key, numbers);
        }
        former.into_values().flatten().for_each(|number| self.remove_uncounted(number));
        outcome
    }

    fn create_all(
        &mut self,
        flows: &[crate::flows::flow::Flow],
    ) -> Result<Vec<FlowHandle>, OffloadRefusal> {
        let mut numbers = Vec::with_capacity(flows.len());
        for flow in flows {
            match self.card.create(flow) {
                Ok(number) => numbers.push(number),
                Err(FlowCardError(words)) => {
                    numbers.into_iter().for_each(|number| self.remove_uncounted(number));
                    return Err(OffloadRefusal(words.into()));
                }
            }
        }
        Ok(numbers)
    }

    /// Removes a flow that counts nothing, an exception. If the card does not remove it, workers
    /// get more frames, which they process correctly.
    fn remove_uncounted(&mut self, number: FlowHandle) {
        if self.card.destroy(number).is_ok() {
            self.card.release(number);
        }
    }

    /// Reads the last counts of removed flows.
    fn read_ending(&mut self) {
        for _ in 0..self.ending.len().min(LAST_READINGS_PER_TURN_MAX) {
            let Some(mut ending) = self.ending.pop_front() else { return };
            if !ending.is_destroyed {
                match self.card.destroy(ending.flow.number) {
                    Ok(()) => ending.is_destroyed = true,
                    Err(FlowCardError(words)) => {
                        ending.attempts += 1;
                        if ending.attempts == 1 {
                            let words = format!("a rule is not removed: {words}");
                            self.notice(OffloadNotice::Refused(OffloadRefusal(words.into())));
                        }
                        self.ending.push_back(ending);
                        continue;
                    }
                }
            }
            let ready = *ending.ready.get_or_insert(self.now + self.settle);
            if self.now < ready {
                self.ending.push_back(ending);
                continue;
            }
            ending.attempts += 1;
            match self.read(ending.key, &mut ending.flow) {
                Ok(()) => self.card.release(ending.flow.number),
                Err(FlowCardError(words)) if ending.attempts > LAST_READING_ATTEMPTS_MAX => {
                    let words = format!("the last counts of a rule are lost: {words}");
                    self.notice(OffloadNotice::Refused(OffloadRefusal(words.into())));
                    self.card.release(ending.flow.number);
                }
                Err(_) => self.ending.push_back(ending),
            }
        }
    }

    /// Adds the packets that a flow forwarded since the last reading to the usage and the totals.
    fn read(&mut self, key: EntryKey, flow: &mut InstalledFlow) -> Result<(), FlowCardError> {
        let counts = self.card.query(flow.number)?;
        let pkts = counts.pkts.wrapping_sub(flow.pkts);
        let rx_bytes = counts.bytes.wrapping_sub(flow.bytes);
        if pkts == 0 {
            return Ok(());
        }
        (flow.pkts, flow.bytes) = (counts.pkts, counts.bytes);
        let bytes = rx_bytes.wrapping_sub(pkts.wrapping_mul(flow.arrival_len));
        let tx_bytes = bytes.wrapping_add(pkts.wrapping_mul(flow.departure_len));
        let direction = direction_of(key);
        self.usage.add(key.0, direction, FlowCounts { pkts, bytes }, self.now);
        let arrival = &mut self.totals[usize::from(flow.arrival.0) % INTERFACES_MAX];
        arrival.rx_pkts += pkts;
        arrival.rx_bytes += rx_bytes;
        let departure = &mut self.totals[usize::from(flow.departure.0) % INTERFACES_MAX];
        let (all, octets) = match direction {
            Direction::Uplink => (&mut departure.ul_pkts, &mut departure.ul_bytes),
            Direction::Downlink => (&mut departure.dl_pkts, &mut departure.dl_bytes),
        };
        *all += pkts;
        *octets += tx_bytes;
        Ok(())
    }

    /// Reads some entries, in turn, so that each is read once per `watch` of the configuration.
    fn read_entries(&mut self, elapsed: Nanos) {
        let (watch, all) = (self.config.choice.watch.0.max(1), self.entries.len() as u64);
        if all == 0 {
            self.unused = 0;
            return;
        }
        self.unused = self.unused.saturating_add(elapsed.0).min(watch);
        let due = u128::from(self.unused) * u128::from(all) / u128::from(watch);
        let due = u64::try_from(due).unwrap_or(all).min(all).min(READINGS_PER_TURN_MAX);
        self.unused -= u64::try_from(u128::from(due) * u128::from(watch) / u128::from(all))
            .unwrap_or(self.unused)
            .min(self.unused);
        for _ in 0..due {
            let after = self
                .entries
                .range((core::ops::Bound::Excluded(self.last_read), core::ops::Bound::Unbounded));
            let next = after.map(|(key, _)| *key).next();
            let Some(key) = next.or_else(|| self.entries.keys().next().copied()) else { return };
            self.last_read = key;
            let Some(entry) = self.entries.get_mut(&key) else { return };
            let mut flows = mem::take(&mut entry.flows);
            let outcome = flows.iter_mut().try_for_each(|flow| self.read(key, flow));
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.flows = flows;
            }
            if let Err(FlowCardError(words)) = outcome {
                self.notice(OffloadNotice::Refused(OffloadRefusal(words.into())));
                self.remove_as_lost(key);
            }
        }
    }
}

impl<C: FlowCard> Offload for FlowOffload<C> {
    fn put(
        &mut self,
        session: SessionIndex,
        direction: Direction,
        rule: &OffloadRule<'_>,
    ) -> Result<(), OffloadRefusal> {
        self.update_exceptions();
        if let Some(words) = &self.without_exceptions {
            return Err(words.clone());
        }
        let key = key_of(session, direction);
        let (flows, hop) = self.make(rule)?;
        let resolved = *self.hops.get(&hop).ok_or_else(|| refusal("the next hop is unknown"))?;
        let flows = self.install(key, flows, resolved.0)?;
        self.entries.insert(key, FlowEntry { flows, hop, resolved });
        self.by_hop.entry(hop).or_default().insert(key);
        Ok(())
    }

    fn remove(&mut self, session: SessionIndex, direction: Direction) {
        self.remove_entry(key_of(session, direction));
    }

    /// Does nothing: the flow of a rule compares the keys of its session itself.
    fn add_key(&mut self, _: SessionKey, _: SessionIndex) {}

    fn remove_key(&mut self, _: SessionKey, _: SessionIndex) {}

    fn set_next_hop(&mut self, index: NextHopIndex, hop: Option<(InterfaceId, MacAddr)>) {
        let former = match hop {
            Some(hop) => self.hops.insert(index, hop),
            None => self.hops.remove(&index),
        };
        if former != hop
            && let Some(keys) = self.by_hop.get(&index)
        {
            self.stale.extend(keys);
        }
    }

    fn set_networks(&mut self, part: NetworkPart, gateway: u8) {
        if let NetworkPart::V4(block) = part {
            self.has_new_routes |= self.routes.set(block, gateway);
        }
    }

    fn set_gateway(&mut self, within: InterfaceSet, gateway: u8, next_hop: Option<NextHopIndex>) {
        match next_hop {
            Some(hop) => self.gateways.insert((within, gateway), hop),
            None => self.gateways.remove(&(within, gateway)),
        };
    }

    fn close(&mut self) -> OffloadBatch {
        self.update_exceptions();
        self.closed += 1;
        OffloadBatch(self.closed)
    }

    fn passed(&self) -> OffloadBatch {
        let first = self.ending.iter().map(|ending| ending.batch - 1).min();
        OffloadBatch(first.unwrap_or(self.closed).min(self.closed))
    }

    fn usage(&self) -> Arc<dyn OffloadUsage> {
        let usage: Arc<FlowUsage> = Arc::clone(&self.usage);
        usage
    }

    fn name(&self) -> &'static str {
        "rte_flow"
    }

    fn totals(&self) -> OffloadTotals {
        OffloadTotals { interfaces: self.totals.clone(), passed_pkts: 0 }
    }

    fn choice(&self) -> Option<OffloadChoice> {
        Some(self.config.choice)
    }

    fn turn(&mut self, now: Nanos) {
        let elapsed = now.since(self.now);
        self.now = now;
        self.has_new_routes |= self.retry.take_if(|at| now >= *at).is_some();
        self.update_exceptions();
        for _ in 0..LOST_PER_TURN_MAX {
            let Some(key) = self.stale.pop_front() else { break };
            let is_stale = self
                .entries
                .get(&key)
                .is_some_and(|entry| self.hops.get(&entry.hop) != Some(&entry.resolved));
            if is_stale {
                self.remove_as_lost(key);
            }
        }
        self.read_ending();
        self.read_entries(elapsed);
    }

    fn take_notice(&mut self) -> Option<OffloadNotice> {
        self.notices.pop_front()
    }
}
