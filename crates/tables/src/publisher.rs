//! The control thread's side: applies rule deltas, and returns each once every worker runs it.
//!
//! A delta is applied in these steps: bind its rules to these tables, compile them, add keys, swap
//! the rules, remove keys. So a packet that finds the session sees its rules before or after the
//! change, never a mixture. The publisher frees the values that the change retired once all workers
//! have passed a quiescent state.

mod build;
mod route_tables;
mod routes;
mod withheld;

use core::net::IpAddr;
use std::collections::VecDeque;

use adit_rules::compile::{CompiledSession, FastPath, OwnAddresses, compile};
use adit_rules::{
    CorrelatedRateId, DataPlane, DeltaId, FastRule, Gate, GuaranteedShare, KeyChange, NextHop,
    NextHops, OffloadBatch, OffloadRule, PublishedRules, QerEntry, QerMeter, RateLimit, RuleDelta,
    SessionKey, SessionRules, Shapes, UsageSource,
};
use adit_types::{
    Direction, GtpuPeerIndex, InterfaceId, InterfaceSet, MacAddr, Nanos, NextHopIndex,
    SessionIndex, Teid, WorkerId,
};

use crate::aggregates::Aggregates;
use crate::chosen_sessions::ChoiceContext;
use crate::correlated_rates::CorrelatedRateIndexes;
use crate::counters::{SessionTraffic, Snapshot, WorkerCounters};
use crate::fast_rule_cell::WrittenRule;
use crate::gtpu_peers::GtpuPeerWriter;
use crate::key_table::KeyRefused;
use crate::meters::MeterTraffic;
use crate::next_hop::NextHopWriter;
use crate::offload::{OffloadReport, OffloadWriter};
use crate::publish::{Epoch, SlotWriter};
use crate::reader::Tables;
use crate::routes::Routes;
use crate::sync::Arc;
use crate::teid::TeidWriter;
use crate::ue_areas::UeAreas;
use crate::ues::{UeTable, UeWriter};
use crate::usage::UsageTable;

use build::DomainRoom;
pub use build::{build, build_with_offload};
use routes::RoutesWriter;
pub use routes::{PreparedRoutes, RoutesConfig};

const DIRECTIONS: [Direction; 2] = [Direction::Uplink, Direction::Downlink];

/// Counters of the publisher: applied changes, and entries for which a table had no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PublisherCounters {
    /// Deltas applied.
    pub deltas_applied: u64,
    /// Keys that found no room: packets with such a key find no session.
    pub keys_refused: u64,
    /// Deltas for a session index of `sessions_max` or more; nothing of them was applied.
    pub sessions_out_of_range: u64,
    /// FARs to whose GTP-U peer no route of a GTP-U interface leads.
    pub peers_without_route: u64,
    /// Next hops for which the table had no room.
    pub next_hops_refused: u64,
    /// FARs whose GTP-U peer found no room: its signaling is limited like an unknown peer's.
    pub peers_refused: u64,
    /// QERs whose correlated rate found no room: their sessions do not share the rate.
    pub correlated_rates_refused: u64,
}

/// A point in time that workers pass; see [`Publisher::boundary`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Boundary(Epoch);

/// A delta that was not returned as observed yet.
#[derive(Debug)]
struct UnobservedDelta {
    since: Epoch,
    id: DeltaId,
    session: SessionIndex,
    /// The fast paths that become active once all workers run the delta.
    written: Option<WrittenFastPaths>,
    /// The rules that the offload then gets, by direction.
    offloaded: Option<Box<[Option<FastRule>; 2]>>,
    /// The batch of the offload that also has to pass before the delta counts as observed.
    batch: Option<OffloadBatch>,
}

/// The fast paths of a session that were written and are not active yet.
#[derive(Debug)]
struct WrittenFastPaths {
    directions: [(Direction, WrittenRule); 2],
    tunnel_to_ue: WrittenRule,
}

/// The only writer of the tables. Belongs to the control thread.
#[derive(Debug)]
pub struct Publisher {
    rules: SlotWriter<PublishedRules>,
    routes: RoutesWriter,
    route_tables: route_tables::RouteTables,
    shapes: Shapes,
    own_addresses: OwnAddresses,
    tables: Arc<Tables>,
    teids: TeidWriter,
    /// By `DomainId`.
    ues: Vec<UeWriter>,
    domain_room: DomainRoom,
    ue_areas: UeAreas,
    next_hops: NextHopWriter,
    gtpu_peers: GtpuPeerWriter,
    offload: Option<OffloadWriter>,
    /// True while the offload has no next hops, so that it forwards nothing.
    is_offload_paused: bool,
    correlated_rates: CorrelatedRateIndexes,
    /// How many next hops are reserved for gateways and GTP-U peers. Hosts to which packets are
    /// sent on demand get none of these.
    demand_reserve: usize,
    /// Deltas that were not returned as observed yet, in order.
    unobserved: VecDeque<UnobservedDelta>,
    /// The epoch that the last [`Publisher::probe`] closed.
    probe: Epoch,
    worker_counters: Vec<Arc<WorkerCounters>>,
    usage: std::sync::Arc<UsageTable>,
    counters: PublisherCounters,
}

impl Publisher {
    /// Applies a delta. [`Publisher::poll_observed`] returns its id once all workers run it.
    ///
    /// Cannot fail: if a table has no room for an entry, a counter of [`PublisherCounters`] counts
    /// it. A FAR without room for its next hop keeps [`NextHopIndex::NONE`].
    pub fn apply(&mut self, id: DeltaId, delta: RuleDelta) {
        let RuleDelta { session, keys, rules } = delta;
        self.counters.deltas_applied += 1;
        let slot = session.0 as usize;
        if slot >= self.rules.slot_count() {
            self.counters.sessions_out_of_range += 1;
            let since = self.rules.advance();
            let (written, offloaded, batch) = (None, None, None);
            let delta = UnobservedDelta { since, id, session, written, offloaded, batch };
            self.unobserved.push_back(delta);
            return;
        }
        let compiled = rules.map(|mut rules| {
            self.bind(id, session, &mut rules);
            compile(*rules, &self.own_addresses, &mut self.shapes)
        });
        let mut offloaded = None;
        let (rules, fast_paths, tunnel_to_ue) = compiled.map_or_else(
            || (None, [None; 2], None),
            |CompiledSession { rules, fast_paths, tunnel_to_ue, single_rules }| {
                let takes_all = self.offload.as_ref().is_some_and(OffloadWriter::takes_all);
                let is_any = takes_all && single_rules.iter().any(Option::is_some);
                offloaded = is_any.then(|| Box::new(single_rules));
                (Some(Box::new(rules)), fast_paths, tunnel_to_ue)
            },
        );
        if let Some(offload) = &mut self.offload {
            offload.note_change(session);
        }
        for change in &keys {
            if let KeyChange::Add(key) = change {
                self.add_key(*key, session);
            }
        }
        if rules.is_some() && self.rules.get(slot).is_none() {
            self.usage.reset_traffic(session);
        }
        self.mark_tunnel_to_ue(session, tunnel_to_ue.map(|rule| rule.relayed_teid()));
        for direction in DIRECTIONS {
            self.tables.fast_rules.set(session, direction, None);
        }
        self.tables.fast_rules.set_tunnel_to_ue(session, None);
        if self.set_limits(session, rules.as_deref().map_or(&[][..], PublishedRules::qers)) {
            self.tables.rate_changes.push(session, id);
        }
        self.rules.swap(slot, rules);
        let [uplink, downlink] = fast_paths;
        let directions = [(Direction::Uplink, uplink), (Direction::Downlink, downlink)]
            .map(|(direction, path)| (direction, self.publish_fast_path(session, direction, path)));
        let tunnel_to_ue = self.tables.fast_rules.set_tunnel_to_ue(session, tunnel_to_ue.as_ref());
        let written = WrittenFastPaths { directions, tunnel_to_ue };
        for change in keys {
            if let KeyChange::Remove(key) = change {
                self.remove_key(key, session);
            }
        }
        let since = self.rules.advance();
        let batch = self.offload.as_mut().and_then(OffloadWriter::take_awaited);
        let written = Some(written);
        let delta = UnobservedDelta { since, id, session, written, offloaded, batch };
        self.unobserved.push_back(delta);
    }

    /// Marks the tunnel to the UE that has a fast rule now, and unmarks the previous one.
    fn mark_tunnel_to_ue(&self, session: SessionIndex, teid: Option<Teid>) {
        let former = self.tables.fast_rules.tunnel_to_ue(session);
        if let Some(former) = former.filter(|former| Some(*former) != teid) {
            self.teids.mark(former, session, false);
        }
        if let Some(teid) = teid {
            self.teids.mark(teid, session, true);
        }
    }

    /// Binds rules to these tables: writes their next hops, GTP-U peers, buckets and correlated
    /// rates.
    fn bind(&mut self, id: DeltaId, session: SessionIndex, rules: &mut SessionRules) {
        rules.generation = id;
        self.resolve_next_hops(rules);
        self.take_correlated_rates(rules);
        self.assign_buckets(session, rules);
    }

    /// Writes the fast path of one direction, after the rules that it was compiled with.
    fn publish_fast_path(
        &self,
        session: SessionIndex,
        direction: Direction,
        path: Option<FastPath>,
    ) -> WrittenRule {
        let fast_rules = &self.tables.fast_rules;
        match path {
            None => WrittenRule::NONE,
            Some(FastPath::Single(rule)) => fast_rules.set(session, direction, Some(&rule)),
            Some(FastPath::Filter(filter)) => {
                let rules = self.rules.get(session.0 as usize);
                rules.map_or(WrittenRule::NONE, |rules| {
                    fast_rules.set_filter(session, direction, rules, filter)
                })
            }
            Some(FastPath::Selector(selector)) => {
                let rules = self.rules.get(session.0 as usize);
                rules.map_or(WrittenRule::NONE, |rules| {
                    fast_rules.set_selector(session, direction, rules, selector)
                })
            }
        }
    }

    /// Frees values that no worker can read any more. Returns the oldest delta that all workers run
    /// and that was not returned before. Call it until it returns `None`.
    pub fn poll_observed(&mut self) -> Option<DeltaId> {
        while let Some(rules) = self.rules.reclaim() {
            for far in &rules.fars {
                self.release_far_hop(far.next_hop);
                let outer = far.outer_header_creation();
                if let Some(tunnel) = outer.and_then(|outer| outer.tunnel()) {
                    self.gtpu_peers.release(tunnel.addr, self.rules.next_epoch());
                }
            }
            for id in correlated_rates(rules.qers()) {
                self.correlated_rates.release(self.tables.meters.correlated_rates(), id);
            }
        }
        let (passed, epoch) = (self.rules.passed(), self.rules.next_epoch());
        self.teids.reclaim(passed, epoch);
        self.ues.iter_mut().for_each(|ues| ues.reclaim(passed, epoch));
        self.next_hops.reclaim(passed, epoch);
        self.gtpu_peers.reclaim(passed, epoch);
        self.routes.reclaim();
        self.route_tables.reclaim(passed);
        let batch = self.advance_offload();
        let UnobservedDelta { id, session, written, offloaded, .. } =
            self.unobserved.pop_front_if(|delta| delta.since <= passed && delta.batch <= batch)?;
        if let Some(WrittenFastPaths { directions, tunnel_to_ue }) = written {
            let rules = self.rules.get(session.0 as usize);
            let has_own_urr = rules.is_some_and(|rules| rules.has_own_urr);
            let limit = if has_own_urr { 0 } else { u64::MAX };
            let fast_rules = &self.tables.fast_rules;
            if let Some(offload) = &mut self.offload {
                let context = choice_context(Nanos(0), &self.tables, &self.routes, &self.rules);
                offload.note_changed(session, &context);
            }
            let offloaded = offloaded.map_or([None, None], |rules| *rules);
            for ((direction, written), rule) in directions.into_iter().zip(offloaded) {
                let is_active = fast_rules.activate(session, direction, written, limit);
                if let (true, Some(rule), Some(offload)) = (is_active, rule, &mut self.offload) {
                    let has_shared_rates = !self.tables.aggregates.is_empty();
                    let rule =
                        OffloadRule { rule: &rule, is_limited: has_own_urr, has_shared_rates };
                    offload.put(session, direction, &rule, self.routes.current());
                }
            }
            fast_rules.activate_tunnel_to_ue(session, tunnel_to_ue, limit);
        }
        Some(id)
    }

    /// Lets the offload, if there is one, read its counters, and continues the choice of its
    /// sessions. Call it once in each turn of the control thread.
    pub fn turn(&mut self, now: Nanos) {
        let Some(offload) = &mut self.offload else { return };
        if offload.turn(&choice_context(now, &self.tables, &self.routes, &self.rules)) {
            self.rules.advance();
        }
        // Closes a batch that belongs to no delta.
        self.advance_offload();
    }

    /// Closes an epoch without a change, for [`Publisher::has_passed_probe`].
    pub fn probe(&mut self) {
        self.probe = self.rules.advance();
    }

    /// True if a worker has passed a quiescent state since the last [`Publisher::probe`], or is
    /// offline.
    #[must_use]
    pub fn has_passed_probe(&self, worker: WorkerId) -> bool {
        self.rules.has_passed(usize::from(worker.0), self.probe)
    }

    /// Returns a boundary. A worker passes it by beginning a step after this call or going offline.
    pub fn boundary(&mut self) -> Boundary {
        Boundary(self.rules.advance())
    }

    /// True if every worker has passed `boundary`: it acts by state stored before the boundary, and
    /// its earlier actions are complete.
    #[must_use]
    pub fn has_passed(&self, boundary: Boundary) -> bool {
        self.rules.passed() >= boundary.0
    }

    /// Notes whether sessions of a previous process are still to be published. While they are,
    /// workers send no Error Indication for an unknown tunnel.
    pub fn set_restoring(&self, is_restoring: bool) {
        self.tables.is_restoring.store(is_restoring, std::sync::atomic::Ordering::Relaxed);
    }

    /// Returns the number of deltas that some worker may not run yet.
    #[must_use]
    pub fn unobserved(&self) -> usize {
        self.unobserved.len()
    }

    /// Returns the published rules of a session, with their next hops.
    #[must_use]
    pub fn rules(&self, session: SessionIndex) -> Option<&PublishedRules> {
        self.rules.get(session.0 as usize)
    }

    /// Returns the session of a local TEID, or [`SessionIndex::NONE`] if no session has it.
    #[must_use]
    pub fn session_of_teid(&self, teid: Teid) -> SessionIndex {
        self.tables.teids.session(teid)
    }

    /// Returns the number of next hops in use.
    #[must_use]
    pub fn next_hop_count(&self) -> usize {
        self.next_hops.len()
    }

    /// Returns the forwarded packets and octets of a session since it was installed.
    #[must_use]
    pub fn session_traffic(&self, session: SessionIndex) -> SessionTraffic {
        self.usage.traffic(session)
    }

    /// Returns the counts of a QER's bucket of one direction: what passed, and what exceeded it.
    #[must_use]
    pub fn meter_traffic(
        &self,
        session: SessionIndex,
        direction: Direction,
        meter: &QerMeter,
    ) -> MeterTraffic {
        let found = self.tables.meters.meter(session, direction, meter.bucket);
        let cell = self.tables.fast_rules.cell(session, direction);
        match found.zip(cell) {
            Some((meter, cell)) => meter.traffic(|bucket| cell.charge.passed(bucket)),
            None => MeterTraffic::default(),
        }
    }

    /// Returns the rates of slices, and of all sessions together.
    #[must_use]
    pub fn aggregates(&self) -> &Aggregates {
        &self.tables.aggregates
    }

    /// Returns the table from which the usage of URRs is read.
    #[must_use]
    pub fn usage(&self) -> std::sync::Arc<UsageTable> {
        std::sync::Arc::clone(&self.usage)
    }

    /// Returns the counters of all workers and of the offload together.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let mut sum = Snapshot::sum(self.worker_counters.iter().map(|counters| &**counters));
        if let Some(offload) = &self.offload {
            sum.add_offloaded(&offload.totals());
        }
        sum
    }

    /// Returns the counters of each worker, by worker id.
    #[must_use]
    pub fn worker_counters(&self) -> &[Arc<WorkerCounters>] {
        &self.worker_counters
    }

    /// Returns the publisher's own counters.
    #[must_use]
    pub const fn counters(&self) -> PublisherCounters {
        self.counters
    }

    /// Returns the report of the offload, if there is one.
    #[must_use]
    pub fn offload(&self) -> Option<OffloadReport> {
        self.offload.as_ref().map(OffloadWriter::report)
    }

    /// Leaves all packets to the workers, or ends that. The offload, if there is one, keeps its
    /// entries but has no next hops meanwhile.
    pub fn pause_offload(&mut self, is_paused: bool) {
        self.is_offload_paused = is_paused;
        if self.offload.is_none() {
            return;
        }
        let indices = 0..u32::try_from(self.tables.next_hops.capacity()).unwrap_or(u32::MAX);
        indices.map(NextHopIndex).for_each(|index| self.offload_next_hop(index));
        self.rules.advance();
    }

    /// Limits packets into tunnels to `peer` to `mtu_bytes` octets with all headers; `u16::MAX`:
    /// only links limit them. Packets longer than the narrowest of all paths leave the fast path
    /// and the offload, which do not distinguish peers.
    pub fn set_path_mtu(&mut self, peer: IpAddr, mtu_bytes: u16) {
        let narrowest = self.gtpu_peers.set_path_mtu(peer, mtu_bytes);
        if let Some(offload) = &mut self.offload {
            offload.limit_tunnels(narrowest);
        }
    }

    /// Copies a next hop to the offload, if there is one: as resolved, or none while it is paused.
    fn offload_next_hop(&mut self, index: NextHopIndex) {
        if let Some(offload) = &mut self.offload {
            let resolved = self.tables.next_hops.resolved(index);
            offload.set_next_hop(index, resolved.filter(|_| !self.is_offload_paused));
        }
    }

    fn add_key(&mut self, key: SessionKey, session: SessionIndex) {
        if let Some(offload) = &mut self.offload {
            offload.add_key(key, session);
        }
        let added = match key {
            SessionKey::Teid(teid) => self.teids.insert(teid, session).map(|()| false),
            _ => match self.ues_of(key) {
                Some((writer, ues)) => writer.insert(ues, key, session),
                None => Err(KeyRefused::Reserved),
            },
        };
        match added {
            Ok(true) => self.count_ue(key, UeAreas::add),
            Ok(false) => {}
            Err(_) => self.counters.keys_refused += 1,
        }
    }

    /// Adds a key of a UE to the counts of its area, or removes it (`count`), if UEs of its domain
    /// reach each other without the data network.
    fn count_ue(
        &mut self,
        key: SessionKey,
        count: fn(&mut UeAreas, &Routes, InterfaceSet, SessionKey),
    ) {
        let routes = self.routes.current();
        let ues = key.domain().and_then(|domain| routes.ues.get(usize::from(domain.0)));
        if let Some(ues) = ues.filter(|ues| !ues.local_switching().is_empty()) {
            count(&mut self.ue_areas, routes, ues.local_switching(), key);
            while let (Some(offload), Some(part)) =
                (&mut self.offload, self.ue_areas.take_changed())
            {
                offload.set_networks(part, self.routes.current());
            }
        }
    }

    fn remove_key(&mut self, key: SessionKey, session: SessionIndex) {
        let epoch = self.rules.next_epoch();
        if let Some(offload) = &mut self.offload {
            offload.remove_key(key, session);
        }
        if let SessionKey::Teid(teid) = key {
            self.teids.remove(teid, session, epoch);
        } else if let Some((writer, ues)) = self.ues_of(key)
            && writer.remove(ues, key, session, epoch)
        {
            self.count_ue(key, UeAreas::remove);
        }
    }

    /// Returns the UEs of the domain of a key.
    fn ues_of(&mut self, key: SessionKey) -> Option<(&mut UeWriter, &UeTable)> {
        let domain = usize::from(key.domain()?.0);
        Some((self.ues.get_mut(domain)?, self.routes.current().ues.get(domain)?))
    }

    /// Assigns every QER with a rate the bucket that it had, or a free one, if possible one that
    /// the last rules did not use.
    fn assign_buckets(&self, session: SessionIndex, rules: &mut SessionRules) {
        let before = self.rules.get(session.0 as usize).map_or(&[][..], PublishedRules::qers);
        let had = |id| before.iter().find(|qer| qer.id == id).and_then(|qer| qer.meter);
        let left = before
            .iter()
            .filter_map(|qer| qer.meter)
            .fold(0, |set, meter| set | bit(meter.bucket) | meter.guaranteed_bucket.map_or(0, bit));
        // Buckets of the last rules, which workers may still run, come last.
        let fresh = |taken: &mut u64| {
            let free = match *taken | left {
                u64::MAX => taken.trailing_ones(),
                others => others.trailing_ones(),
            };
            let bucket = u8::try_from(free).ok().filter(|_| free < u64::BITS)?;
            *taken |= bit(bucket);
            self.tables.meters.make_room(bucket);
            self.tables.meters.reset(session, bucket);
            Some(bucket)
        };
        let kept = rules.qers.iter().filter_map(|qer| had(qer.id));
        let mut taken = kept.fold(0, |set, meter| set | bit(meter.bucket));
        // There are at least as many buckets as a session may have QERs with a rate, so only
        // buckets for guarantees may be lacking.
        for qer in &mut rules.qers {
            let Some(meter) = &mut qer.meter else { continue };
            let known = had(qer.id).map(|known| known.bucket);
            meter.bucket = known.or_else(|| fresh(&mut taken)).unwrap_or_default();
        }
        for qer in &mut rules.qers {
            let Some(meter) = &mut qer.meter else { continue };
            let has_part = |of: &GuaranteedShare| matches!(of, GuaranteedShare::Within(_));
            if meter.guaranteed.iter().any(has_part) {
                let known = had(qer.id).and_then(|known| known.guaranteed_bucket);
                let known = known.filter(|known| taken & bit(*known) == 0);
                taken |= known.map_or(0, bit);
                meter.guaranteed_bucket = known.or_else(|| fresh(&mut taken));
            }
        }
    }

    /// Acquires the correlated rates that rules name. If there is no room for a rate, the session
    /// does not share it.
    fn take_correlated_rates(&mut self, rules: &mut SessionRules) {
        for meter in rules.qers.iter_mut().filter_map(|qer| qer.meter.as_mut()) {
            let Some(id) = meter.correlated_rate else { continue };
            if self.correlated_rates.acquire(self.tables.meters.correlated_rates(), id).is_none() {
                meter.correlated_rate = None;
                self.counters.correlated_rates_refused += 1;
            }
        }
    }

    /// Writes the limits of new QERs into their buckets, while no worker reads a fast rule of the
    /// session. Returns true if the session had or has rates, of its own or shared.
    fn set_limits(&self, session: SessionIndex, qers: &[QerEntry]) -> bool {
        let before = self.rules.get(session.0 as usize).map_or(&[][..], PublishedRules::qers);
        let meters = &self.tables.meters;
        for bucket in before.iter().filter_map(|qer| Some(qer.meter?.bucket)) {
            if !qers.iter().any(|qer| qer.meter.is_some_and(|meter| meter.bucket == bucket)) {
                meters.set_link(session, bucket, None);
            }
        }
        for (qer, meter) in qers.iter().filter_map(|qer| Some((qer, qer.meter?))) {
            let rate = meter.correlated_rate.and_then(|id| self.correlated_rates.number(id));
            meters.set_link(session, meter.bucket, rate);
            for direction in DIRECTIONS {
                // Packets that wait behind a closed gate are dropped.
                let limit = match qer.gate(direction) {
                    Gate::Open => meter.limit(direction),
                    Gate::Closed => RateLimit::CLOSED,
                };
                meters.set_limit(session, direction, meter.bucket, limit);
                if let (GuaranteedShare::Within(limit), Some(bucket)) =
                    (meter.guaranteed(direction), meter.guaranteed_bucket)
                {
                    meters.set_limit(session, direction, bucket, limit);
                }
            }
        }
        let mut all = before.iter().chain(qers);
        !self.tables.aggregates.is_empty() || all.any(|qer| qer.meter.is_some())
    }

    /// Sets for every FAR with a GTP-U peer the index of the peer and the next hop towards it.
    /// Spec: TS 29.244 §8.2.56.
    fn resolve_next_hops(&mut self, rules: &mut SessionRules) {
        for far in &mut rules.fars {
            far.next_hop = NextHopIndex::NONE;
            far.peer = GtpuPeerIndex::NONE;
            let tunnel = far.outer_header_creation.and_then(|outer| outer.tunnel());
            let Some(tunnel) = tunnel else { continue };
            far.peer = self.gtpu_peers.hold(tunnel.addr);
            if far.peer == GtpuPeerIndex::NONE {
                self.counters.peers_refused += 1;
            }
            far.next_hop = self.hold_far_hop(far.interfaces, tunnel).unwrap_or(far.next_hop);
        }
    }

    fn ensure(
        &mut self,
        interface: InterfaceId,
        addr: IpAddr,
        reserve: usize,
    ) -> Option<NextHopIndex> {
        let index = self.next_hops.ensure(interface, addr, reserve);
        if index.is_none() {
            self.counters.next_hops_refused += 1;
        }
        index
    }
}

/// The workers are the data plane: a change is in effect once every worker has passed a quiescent
/// state after it.
impl DataPlane for Publisher {
    fn apply(&mut self, id: DeltaId, delta: RuleDelta) {
        Self::apply(self, id, delta);
    }

    fn poll_observed(&mut self) -> Option<DeltaId> {
        Self::poll_observed(self)
    }

    fn unobserved(&self) -> usize {
        Self::unobserved(self)
    }

    fn usage_source(&self) -> std::sync::Arc<dyn UsageSource> {
        self.usage()
    }
}

impl NextHops for Publisher {
    fn interface_ids(&self) -> Vec<InterfaceId> {
        self.interfaces().iter().map(|interface| interface.id).collect()
    }

    fn only_station(&self, interface: InterfaceId) -> Option<MacAddr> {
        self.interfaces().get(usize::from(interface.0))?.station
    }

    fn is_own_address(&self, interface: InterfaceId, addr: IpAddr, mac: MacAddr) -> bool {
        let own = self.interfaces().get(usize::from(interface.0));
        own.is_none_or(|own| own.owns(addr) || own.mac == mac)
    }

    fn next_hops_max(&self) -> usize {
        self.tables.next_hops.capacity()
    }

    fn next_hop(&self, index: NextHopIndex) -> Option<NextHop> {
        self.tables.next_hops.peek(index)
    }

    fn find_next_hop(&self, interface: InterfaceId, addr: IpAddr) -> Option<NextHopIndex> {
        self.tables.next_hops.lookup(interface, addr)
    }

    fn ensure_next_hop(&mut self, interface: InterfaceId, addr: IpAddr) -> Option<NextHopIndex> {
        let known = self.interfaces().get(usize::from(interface.0))?;
        if !known.is_neighbor(addr) {
            return None;
        }
        self.ensure(interface, addr, self.demand_reserve)
    }

    fn remove_next_hop(&mut self, index: NextHopIndex) -> bool {
        let removed = self.next_hops.remove(index, self.rules.next_epoch());
        if removed {
            self.rules.advance();
            self.offload_next_hop(index);
        }
        removed
    }

    fn set_mac(&mut self, index: NextHopIndex, mac: MacAddr, stale: bool) {
        self.next_hops.set_mac(index, Some(mac), stale);
        self.offload_next_hop(index);
    }

    fn clear_mac(&mut self, index: NextHopIndex) {
        self.next_hops.set_mac(index, None, false);
        self.offload_next_hop(index);
    }

    fn take_used(&mut self, index: NextHopIndex) -> bool {
        self.next_hops.take_used(index)
    }

    fn is_pinned(&self, index: NextHopIndex) -> bool {
        self.next_hops.is_pinned(index)
    }

    fn take_pin_change(&mut self) -> Option<NextHopIndex> {
        self.next_hops.take_changed()
    }
}

/// Collects the inputs for the choice of an offload's sessions.
fn choice_context<'a>(
    now: Nanos,
    tables: &'a Tables,
    routes: &'a RoutesWriter,
    rules: &'a SlotWriter<PublishedRules>,
) -> ChoiceContext<'a> {
    ChoiceContext {
        now,
        fast_rules: &tables.fast_rules,
        rules,
        routes: routes.current(),
        has_shared_rates: !tables.aggregates.is_empty(),
    }
}

/// Returns the correlated rates that QERs name.
fn correlated_rates(qers: &[QerEntry]) -> impl Iterator<Item = CorrelatedRateId> {
    qers.iter().filter_map(|qer| qer.meter?.correlated_rate)
}

/// Returns a set of buckets with this one.
fn bit(bucket: u8) -> u64 {
    1 << (u32::from(bucket) % u64::BITS)
}
