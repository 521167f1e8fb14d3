//! The workers' side: one [`TablesReader`] per worker, one [`TablesView`] per step.

use core::net::IpAddr;

use adit_rules::compile::FilterKey;
use adit_rules::rule::ue_ipv6_key;
use adit_rules::{FAST_RULE_URRS_MAX, NextHop, PublishedRules};
use adit_types::{
    Direction, DomainId, InterfaceId, InterfaceRole, InterfaceSet, MacAddr, Nanos, NextHopIndex,
    SessionIndex, Teid, UsageSlot, WorkerId,
};

use crate::aggregates::{Aggregates, Leases};
use crate::charging::{MeterPair, PER_LINE, TrialCharge};
use crate::config::Interface;
use crate::counters::WorkerCounters;
use crate::excess_counters::WaitCounts;
use crate::fast_rule::FastRuleTable;
use crate::fast_rule_cell::{CellFlags, CellKind, FastRuleCellRef};
use crate::fast_rule_selector::{FastRuleFilter, FastRuleSelector, SelectedFastRule};
use crate::gtpu_peers::GtpuPeers;
use crate::meters::{Meter, MeterPairs, MeterTable};
use crate::next_hop::{KnownNeighbor, NextHopRef, NextHopTable, Via};
use crate::publish::{SlotGuard, SlotReader};
use crate::rate_changes::{NextRateChange, RateChangeRing};
use crate::routes::{RouteTarget, Routes};
use crate::sync::Arc;
use crate::teid::TeidTable;
use crate::ues::{UeAddressMatch, UeTable};
use crate::usage::{UsageTable, UsageView};

/// The tables that all workers share.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) teids: Arc<TeidTable>,
    pub(crate) next_hops: Arc<NextHopTable>,
    pub(crate) gtpu_peers: Arc<GtpuPeers>,
    pub(crate) fast_rules: std::sync::Arc<FastRuleTable>,
    pub(crate) meters: MeterTable,
    pub(crate) aggregates: Aggregates,
    pub(crate) rate_changes: RateChangeRing,
    /// Sessions of a previous process are still to come. Written by the control thread.
    pub(crate) is_restoring: std::sync::atomic::AtomicBool,
}

/// The tables as one worker sees them. Starts offline; the first [`TablesReader::observe`] goes
/// online.
///
/// An online reader that stops observing delays each publication: take it offline, or drop it.
#[derive(Debug)]
pub struct TablesReader {
    pub(crate) worker: WorkerId,
    pub(crate) tables: Arc<Tables>,
    pub(crate) rules: SlotReader<PublishedRules>,
    /// Its only slot is never empty.
    pub(crate) routes: SlotReader<Routes>,
    pub(crate) counters: Arc<WorkerCounters>,
    pub(crate) usage: std::sync::Arc<UsageTable>,
    /// The interfaces of the start.
    pub(crate) interfaces: std::sync::Arc<[Interface]>,
}

impl TablesReader {
    /// The leases of a worker that has leased nothing yet.
    #[must_use]
    pub fn leases(&self) -> Leases {
        Leases::new(&self.tables.aggregates)
    }

    /// The worker that this reader is for.
    #[must_use]
    pub const fn worker(&self) -> WorkerId {
        self.worker
    }

    /// Opens a view. This is the worker's quiescent state.
    ///
    /// Cost:    two loads of shared lines, for the rules and for the routes; after a change a store
    ///          to a line of the worker. Threads: announces that nothing from earlier views is in
    ///          use any more. The borrow checker ensures it, because a view borrows the reader.
    #[inline]
    pub fn observe(&mut self) -> TablesView<'_> {
        let Some(routes) = self.routes.observe().get(0) else {
            unreachable!("the publisher is built with routes, and only replaces them")
        };
        TablesView {
            rules: self.rules.observe(),
            routes,
            tables: &self.tables,
            counters: &self.counters,
            usage: UsageView::new(&self.usage),
        }
    }

    /// Stops delaying publication until the next [`TablesReader::observe`].
    pub fn go_offline(&mut self) {
        self.rules.go_offline();
        self.routes.go_offline();
    }

    /// This worker's counters, for use outside a view.
    #[must_use]
    pub const fn counters(&self) -> &Arc<WorkerCounters> {
        &self.counters
    }

    /// Sessions at most; every index is below.
    #[must_use]
    pub fn sessions_max(&self) -> usize {
        self.tables.fast_rules.len()
    }

    /// Our logical interfaces of the start, by id. A view has those in effect, which begin with
    /// these.
    #[must_use]
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }
}

/// The tables between two quiescent states of one worker.
#[derive(Debug, Clone, Copy)]
pub struct TablesView<'a> {
    rules: SlotGuard<'a, PublishedRules>,
    routes: &'a Routes,
    tables: &'a Tables,
    counters: &'a WorkerCounters,
    usage: UsageView<'a>,
}

impl<'a> TablesView<'a> {
    /// Finds the session of every local TEID.
    ///
    /// Shape:   reads `teids[0..n]`; writes `out[0..n]`, `SessionIndex::NONE` on a miss; n is the
    ///          length of the shorter slice.
    /// Cost:    two passes with prefetch over the direct index, and a probe of the hash table for
    ///          each TEID whose place another TEID has. No allocation, no clock.
    /// Spec:    TS 29.281 §5.1.
    /// Errors:  none; a miss is the caller's `DropReason::TeidUnknown`.
    #[inline]
    pub fn lookup_teids(&self, teids: &[Teid], out: &mut [SessionIndex]) {
        teids.iter().for_each(|teid| self.prefetch_teid(*teid));
        for (out, teid) in out.iter_mut().zip(teids) {
            *out = self.session_of_teid(*teid);
        }
    }

    /// The UEs of a routing domain; those of the last domain for a number out of range.
    #[inline]
    #[must_use]
    pub fn ues(&self, domain: DomainId) -> &'a UeTable {
        let domains = &self.routes.ues;
        let last = domains.len().saturating_sub(1);
        &domains[usize::from(domain.0).min(last)]
    }

    /// Prefetches the cache line of [`TablesView::session_of_teid`].
    #[inline]
    pub fn prefetch_teid(&self, teid: Teid) {
        self.tables.teids.prefetch(teid);
    }

    /// The session of a local TEID, `SessionIndex::NONE` on a miss.
    #[inline]
    #[must_use]
    pub fn session_of_teid(&self, teid: Teid) -> SessionIndex {
        self.tables.teids.session(teid)
    }

    /// The session of a local TEID if its tunnel comes from the RAN, as far as the index of TEIDs
    /// shows it. Otherwise `SessionIndex::NONE`: then [`TablesView::session_of_other_teid`] finds
    /// it.
    #[inline]
    #[must_use]
    pub fn session_of_usual_teid(&self, teid: Teid) -> SessionIndex {
        self.tables.teids.unmarked_session(teid)
    }

    /// The session of a local TEID that [`TablesView::session_of_usual_teid`] does not find, and
    /// whether [`TablesView::tunnel_to_ue_cell`] has its fast rule.
    #[inline]
    #[must_use]
    pub fn session_of_other_teid(&self, teid: Teid) -> (SessionIndex, bool) {
        self.tables.teids.other_session(teid)
    }

    /// The cell of the tunnel in which another UPF sends packets to the UE of a session; `None` for
    /// [`SessionIndex::NONE`].
    #[inline]
    #[must_use]
    pub fn tunnel_to_ue_cell(&self, session: SessionIndex) -> Option<FastRuleCellRef<'a>> {
        self.tables.fast_rules.tunnel_cell_ref(session)
    }

    /// The rules of a session; `None` if it has none, and for `SessionIndex::NONE`.
    ///
    /// Load them once per packet: two calls within one view may return two publications.
    #[inline]
    #[must_use]
    pub fn rules(&self, session: SessionIndex) -> Option<&'a PublishedRules> {
        self.rules.get(session.0 as usize)
    }

    /// The cell of one direction of a session; `None` for [`SessionIndex::NONE`].
    #[inline]
    #[must_use]
    pub fn fast_rule_cell(
        &self,
        session: SessionIndex,
        direction: Direction,
    ) -> Option<FastRuleCellRef<'a>> {
        self.tables.fast_rules.cell_ref(session, direction)
    }

    /// Prefetches the cache line of [`TablesView::fast_rule_cell`] and
    /// [`TablesView::count_session`].
    #[inline]
    pub fn prefetch_fast_rule(&self, session: SessionIndex, direction: Direction) {
        self.tables.fast_rules.prefetch(session, direction);
    }

    /// Prefetches the cache line that [`TablesView::rules`] reads. First of two prefetch passes.
    #[inline]
    pub fn prefetch_slot(&self, session: SessionIndex) {
        self.rules.prefetch_slot(session.0 as usize);
    }

    /// Prefetches the first cache line of a session's rules. Second of two passes: reads the line
    /// that [`TablesView::prefetch_slot`] prefetched.
    #[inline]
    pub fn prefetch_rules(&self, session: SessionIndex) {
        self.rules.prefetch(session.0 as usize);
    }

    /// The next hop towards `addr` among the routes and connected prefixes of the interfaces
    /// `within` the set: GTP-U interfaces if `role` is one of theirs, else N6 interfaces. `None`
    /// without a route, and for our own, network and broadcast addresses.
    #[inline]
    #[must_use]
    pub fn route(
        &self,
        role: InterfaceRole,
        within: InterfaceSet,
        addr: IpAddr,
    ) -> Option<NextHopRef> {
        match self.routes.lookup(role, within, addr)? {
            RouteTarget::Gateway(interface, index) => {
                Some(NextHopRef { interface, via: Via::Known(index) })
            }
            RouteTarget::OnLink(interface) => {
                let known = self.tables.next_hops.lookup(interface, addr);
                Some(NextHopRef { interface, via: known.map_or(Via::Unknown(addr), Via::Known) })
            }
            RouteTarget::Nowhere(_) | RouteTarget::Own(_) => None,
        }
    }

    /// The interface on which a locally switched packet from a UE to `addr` arrives again, instead
    /// of leaving to a data network through one of `within`. Its destination is a UE, or a network
    /// behind a UE whose prefix is longer than the route's. `None` without such a UE, and in
    /// domains without local switching.
    ///
    /// Cost: that of [`TablesView::block_gateway`] for blocks without UEs; else one search among
    ///       the routes and one among the UEs.
    #[inline]
    #[must_use]
    pub fn local_switching_interface(
        &self,
        within: InterfaceSet,
        addr: IpAddr,
    ) -> Option<InterfaceId> {
        match self.routes.is_beyond_gateway(within, addr) {
            true => None,
            false => self.search_local_switching(within, addr),
        }
    }

    #[inline(never)]
    fn search_local_switching(&self, within: InterfaceSet, addr: IpAddr) -> Option<InterfaceId> {
        let route = self.routes.search_networks(within, addr);
        let (interface, route_len) = match route {
            Some((RouteTarget::Own(_) | RouteTarget::Nowhere(_), _)) => return None,
            Some((target, len)) => (target.interface()?, Some(len)),
            None => (self.first_network(within)?.id, None),
        };
        let domain = self.routes.interfaces.get(usize::from(interface.0))?.domain;
        let ues = self.ues(domain);
        if ues.local_switching().is_empty() {
            return None;
        }
        let found = match addr {
            IpAddr::V4(addr) => ues.match_v4(addr.to_bits()),
            IpAddr::V6(addr) => ues.match_v6(ue_ipv6_key(addr)),
        };
        let is_nearest = match found? {
            UeAddressMatch::Address => true,
            UeAddressMatch::Framed(len) => route_len.is_none_or(|route_len| len > route_len),
        };
        is_nearest.then_some(interface)
    }

    /// The neighbor `addr` on `interface`; `None` if it has no next hop, because no packets are
    /// sent to it.
    #[must_use]
    pub fn neighbor(&self, interface: InterfaceId, addr: IpAddr) -> Option<KnownNeighbor> {
        self.tables.next_hops.neighbor(interface, addr)
    }

    /// True while sessions of a previous process are still to be published: a key that is not found
    /// may belong to one.
    #[must_use]
    pub fn is_restoring(&self) -> bool {
        self.tables.is_restoring.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// The GTP-U peers to which published FARs send.
    #[must_use]
    pub fn gtpu_peers(&self) -> &'a GtpuPeers {
        &self.tables.gtpu_peers
    }

    /// True if `addr` is ours for packets that leave through `within`: no route of a data network
    /// leads to it. Addresses on N6 interfaces are ours only in their routing domain.
    #[must_use]
    pub fn is_own(&self, within: InterfaceSet, addr: IpAddr) -> bool {
        let target = self.routes.lookup(InterfaceRole::N6, within, addr);
        matches!(target, Some(RouteTarget::Own(_)))
    }

    /// The next hop of `index`, `None` if the index names none.
    ///
    /// Cost:    one cache line. Marks a stale entry as used, for the control thread.
    #[inline]
    #[must_use]
    pub fn next_hop(&self, index: NextHopIndex) -> Option<NextHop> {
        self.tables.next_hops.next_hop(index)
    }

    /// Interface and link-layer address of `index`; `None` unless the address is known and fresh.
    #[inline]
    #[must_use]
    pub fn resolved_hop(&self, index: NextHopIndex) -> Option<(InterfaceId, MacAddr)> {
        self.tables.next_hops.resolved(index)
    }

    /// How often a link-layer address or the routes changed. If a later call returns the same
    /// value, also of another view, [`TablesView::block_gateway`] and [`TablesView::resolved_hop`]
    /// return the same as at the first call, for each index that rules or routes name.
    #[inline]
    #[must_use]
    pub fn next_hop_changes(&self) -> u64 {
        // The value wraps after 2^48 changes of addresses or 2^16 of routes: no worker sees only
        // the first and the last one.
        self.tables.next_hops.changes() ^ u64::from(self.routes.version()) << 48
    }

    /// The number of an IPv4 destination's block in data networks, by which
    /// [`TablesView::block_gateway`] finds the one gateway of the whole block. Zero if there is no
    /// such gateway.
    ///
    /// Cost: one bit of 8 KiB behind a default route, else one octet of 64 KiB.
    #[inline]
    #[must_use]
    pub fn network_block_v4(&self, addr: u32) -> u8 {
        self.routes.network_block_v4(addr)
    }

    /// As [`Self::network_block_v4`], for IPv6 addresses whose upper half is `upper`.
    ///
    /// Cost: one bit of 8 KiB for destinations behind the usual gateway, else a binary search over
    ///       the borders of the routes.
    #[inline]
    #[must_use]
    pub fn network_block_v6(&self, upper: u64) -> u8 {
        self.routes.network_block_v6(upper)
    }

    /// The gateway to all destinations of a block, if it is on one of `within`.
    #[inline]
    #[must_use]
    pub fn block_gateway(&self, within: InterfaceSet, block: u8) -> Option<NextHopIndex> {
        self.routes.block_gateway(within, block)
    }

    /// The next hop towards `addr` by the routes of data networks through one of `within`. `None`
    /// without a route, and for an on-link destination without a next hop yet.
    #[inline(never)]
    #[must_use]
    pub fn next_hop_towards(&self, within: InterfaceSet, addr: IpAddr) -> Option<NextHopIndex> {
        match self.route(InterfaceRole::N6, within, addr)?.via {
            Via::Known(index) => Some(index),
            Via::Unknown(_) => None,
        }
    }

    /// Prefetches usage counters that do not stand in a cell.
    #[inline(always)]
    // PERF (adit-bench datapath): part of the passes that prefetch.
    fn prefetch_usage(&self, slots: [UsageSlot; FAST_RULE_URRS_MAX]) {
        slots.into_iter().for_each(|slot| self.usage.prefetch(slot));
    }

    /// Prefetches the usage counters of the cell's fast rule that do not stand in the cell. Reads
    /// the second line.
    #[inline]
    pub fn prefetch_usage_elsewhere(&self, cell: FastRuleCellRef<'a>) {
        if cell.flags().has_urrs() {
            self.prefetch_usage(cell.usage_slots());
        }
    }

    /// Prefetches the lines that a packet of `direction` needs besides the first one of its cell,
    /// which [`FastRuleCellRef::prefetch`] prefetched: usage counters and buckets, and the far end
    /// of a rule with [`CellFlags::may_relay`]. `is_tunneled`: the packet arrived in a tunnel.
    /// Returns the flags of the cell; does nothing else if it holds no fast rule.
    #[inline]
    pub fn prefetch_rule(
        &self,
        cell: FastRuleCellRef<'a>,
        session: SessionIndex,
        direction: Direction,
        is_tunneled: bool,
    ) -> CellFlags {
        let flags = cell.flags();
        if flags.is_any_rule() {
            let is_relay = flags.may_relay() && is_tunneled;
            if is_relay {
                cell.prefetch_second_line();
            } else if flags.may_relay() {
                self.tables.gtpu_peers.prefetch(cell.peer());
            }
            if flags.has_urrs() {
                let slots = cell.usage_slots();
                // Behind the word of a relay's one URR is that of its far end.
                if is_relay { self.usage.prefetch(slots[0]) } else { self.prefetch_usage(slots) }
            }
            if flags.may_be_metered() {
                self.tables.meters.prefetch(session, direction);
            }
        }
        flags
    }

    /// The filter of one direction, if a single one selects the fast rule and no rule leads into a
    /// tunnel over IPv6.
    #[inline(always)]
    // PERF (adit-bench datapath --sdf): a call would pass the words through memory.
    #[must_use]
    pub fn fast_rule_filter(&self, cell: FastRuleCellRef<'a>) -> Option<FastRuleFilter<'a>> {
        cell.filter(CellKind::FILTER, self.rules)
    }

    /// The filter of one direction, if a single one selects the fast rule.
    #[inline]
    #[must_use]
    pub fn any_fast_rule_filter(&self, cell: FastRuleCellRef<'a>) -> Option<FastRuleFilter<'a>> {
        cell.filter(CellKind::ANY_FILTER, self.rules)
    }

    /// The fast rule that `filter` selects for the packet of `key`: prefetches its line. `None` if
    /// the stages classify the packet: it does not match, and there is no fast rule for the others.
    #[inline(always)]
    // PERF (adit-bench datapath --sdf): a call would pass filter and key through memory.
    #[must_use]
    pub fn select_by_filter(
        &self,
        filter: &FastRuleFilter<'a>,
        key: &FilterKey,
    ) -> Option<SelectedFastRule<'a>> {
        let selected = filter.select(key)?;
        selected.prefetch();
        Some(selected)
    }

    /// Prefetches the first two buckets of one direction of a session.
    #[inline]
    pub fn prefetch_meters(&self, session: SessionIndex, direction: Direction) {
        self.tables.meters.prefetch(session, direction);
    }

    /// Prefetches the lines of a matcher that a packet of the family needs first, and returns true;
    /// false if no matcher selects the fast rule.
    #[inline]
    #[must_use]
    pub fn prefetch_selector(&self, cell: FastRuleCellRef<'a>, is_v6: bool) -> bool {
        cell.prefetch_selector(is_v6)
    }

    /// The selector of one direction, if a matcher selects the fast rule.
    #[inline]
    #[must_use]
    pub fn fast_rule_selector(&self, cell: FastRuleCellRef<'a>) -> Option<FastRuleSelector<'a>> {
        cell.selector(self.rules)
    }

    /// Prefetches the usage counters of a selected fast rule.
    #[inline]
    pub fn prefetch_selected_usage(&self, selected: SelectedFastRule<'a>) {
        self.prefetch_usage(selected.fast_rule().usage_slots());
    }

    /// The first two buckets of each direction of all sessions, for fast rules.
    #[inline]
    #[must_use]
    pub fn meter_pairs(&self) -> MeterPairs<'a> {
        self.tables.meters.all_pairs()
    }

    /// The first two buckets of a direction of a session, for fast rules. Writes a deferred charge
    /// to them. For the worker that owns the session only.
    #[inline]
    #[must_use]
    pub fn meter_pair(&self, session: SessionIndex, direction: Direction) -> Option<MeterPair<'a>> {
        let pair = self.tables.meters.pair(session, direction)?;
        if pair.line().is_deferred() {
            self.settle(session, direction);
        }
        Some(pair)
    }

    /// Writes a deferred charge to the first two buckets of a direction of a session. Returns
    /// whether there was one. For the worker that owns the session only.
    #[inline(never)]
    pub fn settle(&self, session: SessionIndex, direction: Direction) -> bool {
        let pair = self.tables.meters.pair(session, direction);
        let Some(pair) = pair.filter(|pair| pair.line().is_deferred()) else { return false };
        let cell = self.tables.fast_rules.cell(session, direction);
        cell.inspect(|cell| cell.charge.settle(pair.line()));
        true
    }

    /// [`TablesView::meter_pair`], with a charge deferred as it is, for
    /// [`FastRuleSnapshot::try_charge`](crate::FastRuleSnapshot::try_charge).
    #[inline]
    #[must_use]
    pub fn pair_as_is(&self, session: SessionIndex, direction: Direction) -> Option<MeterPair<'a>> {
        self.tables.meters.pair(session, direction)
    }

    /// True if a packet would be charged to buckets of a direction of a session: all are open at
    /// `now`. Tries it on copies, and changes nothing. For the worker that owns the session only.
    #[must_use]
    pub fn would_charge(
        &self,
        session: SessionIndex,
        direction: Direction,
        charge: TrialCharge,
        now: Nanos,
    ) -> bool {
        let pair = self.tables.meters.pair(session, direction);
        let cell = self.tables.fast_rules.cell(session, direction);
        pair.zip(cell).is_some_and(|(pair, cell)| cell.charge.would_charge(pair, charge, now))
    }

    /// The counters of the packets that wait for the first of the buckets `which` (bit n is bucket
    /// n) of [`TablesView::meter_pair`]. `which` is not zero.
    #[inline]
    #[must_use]
    pub fn wait_counts(
        &self,
        session: SessionIndex,
        direction: Direction,
        which: u64,
    ) -> Option<WaitCounts<'a>> {
        self.tables.meters.wait_counts(session, direction, which)
    }

    /// Prefetches the cache lines of [`TablesView::meter_pair`] and [`TablesView::wait_counts`].
    #[inline]
    pub fn prefetch_pair_and_waits(&self, session: SessionIndex, direction: Direction) {
        self.tables.meters.prefetch_pair_and_waits(session, direction);
    }

    /// The number of rate changes so far.
    #[inline]
    #[must_use]
    pub fn rate_changes(&self) -> u64 {
        self.tables.rate_changes.count()
    }

    /// The rate change after the first `seen` ones.
    #[must_use]
    pub fn rate_change(&self, seen: u64) -> NextRateChange {
        self.tables.rate_changes.next(seen)
    }

    /// False if no session has ever had a correlated rate.
    #[inline]
    #[must_use]
    pub fn any_correlated_rate(&self) -> bool {
        self.tables.meters.correlated_rates().is_used()
    }

    /// A bucket of a direction of a session. The first two always exist. Those beyond exist once
    /// some session needed them, and stay when the rules leave them. For the worker that owns the
    /// session only: writes a deferred charge to the buckets.
    #[inline]
    #[must_use]
    pub fn meter(
        &self,
        session: SessionIndex,
        direction: Direction,
        bucket: u8,
    ) -> Option<Meter<'a>> {
        if usize::from(bucket) < PER_LINE {
            let _settled = self.meter_pair(session, direction);
        }
        self.tables.meters.meter(session, direction, bucket)
    }

    /// The rates of slices, and of all sessions together.
    #[inline]
    #[must_use]
    pub const fn aggregates(&self) -> &'a Aggregates {
        &self.tables.aggregates
    }

    /// Prefetches the cache line of a next hop.
    #[inline]
    pub fn prefetch_next_hop(&self, index: NextHopIndex) {
        self.tables.next_hops.prefetch(index);
    }

    /// True if there is one routing domain.
    #[inline]
    #[must_use]
    pub fn is_one_domain(&self) -> bool {
        self.routes.ues.len() == 1
    }

    /// The routing domain of the first N6 interface in a set.
    #[inline]
    #[must_use]
    pub fn domain_within(&self, interfaces: InterfaceSet) -> DomainId {
        self.first_network(interfaces).map_or(DomainId(0), |known| known.domain)
    }

    /// The first N6 interface in a set.
    fn first_network(&self, interfaces: InterfaceSet) -> Option<&'a Interface> {
        let is_it =
            |known: &&Interface| known.role == InterfaceRole::N6 && interfaces.contains(known.id);
        self.routes.interfaces.iter().find(is_it)
    }

    /// Our logical interfaces, by id. Those of a later view begin with these.
    #[inline]
    #[must_use]
    pub const fn interfaces(&self) -> &'a [Interface] {
        &self.routes.interfaces
    }

    /// This worker's counters.
    #[inline]
    #[must_use]
    pub const fn counters(&self) -> &'a WorkerCounters {
        self.counters
    }

    /// The usage counters of URRs.
    #[inline]
    #[must_use]
    pub const fn usage(&self) -> UsageView<'a> {
        self.usage
    }

    /// Counts forwarded packets of a session. `bytes` is the length of the inner IP packets. An
    /// index out of range is ignored. For the worker that owns the session only.
    #[inline]
    pub fn count_session(
        &self,
        session: SessionIndex,
        direction: Direction,
        pkts: u64,
        bytes: u64,
    ) {
        self.usage.count_forwarded(session, direction, pkts, bytes);
    }
}
