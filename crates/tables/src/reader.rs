//! The workers' side of the tables: one [`TablesReader`] per worker, one [`TablesView`] per step.

use core::net::IpAddr;

use adit_rules::compile::FilterKey;
use adit_rules::rule::ue_ipv6_key;
use adit_rules::{FAST_RULE_URRS_MAX, NextHop, PublishedRules};
use adit_types::{
    Direction, DomainId, InterfaceId, InterfaceRole, InterfaceSet, MacAddr, Nanos, NextHopIndex,
    SessionIndex, Teid, UsageSlot, WorkerId,
};

use crate::aggregates::{Aggregates, Leases};
use crate::charging::{BUCKETS_PER_LINE, MeterPair, TrialCharge};
use crate::config::Interface;
use crate::counters::WorkerCounters;
use crate::excess_counters::WaitCounts;
use crate::fast_rule::FastRuleTable;
use crate::fast_rule_cell::{CellFlags, CellKind, FastRuleCellRef};
use crate::fast_rule_selector::{FastRuleFilter, FastRuleSelector, SelectedFastRule};
use crate::gtpu_peers::GtpuPeers;
use crate::hop_groups::HopGroups;
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
    /// True while sessions of a previous process are to be published. Set by the control thread.
    pub(crate) is_restoring: std::sync::atomic::AtomicBool,
    pub(crate) hop_groups: Arc<HopGroups>,
}

/// The tables as one worker sees them. Starts offline; the first [`TablesReader::observe`] goes
/// online.
///
/// An online reader that stops observing delays all publications: take it offline, or drop it.
#[derive(Debug)]
pub struct TablesReader {
    pub(crate) worker: WorkerId,
    pub(crate) tables: Arc<Tables>,
    pub(crate) rules: SlotReader<PublishedRules>,
    /// The only slot is never empty.
    pub(crate) routes: SlotReader<Routes>,
    pub(crate) counters: Arc<WorkerCounters>,
    pub(crate) usage: std::sync::Arc<UsageTable>,
    /// The interfaces at the start.
    pub(crate) interfaces: std::sync::Arc<[Interface]>,
}

impl TablesReader {
    /// Returns leases for a worker that has not leased anything yet.
    #[must_use]
    pub fn leases(&self) -> Leases {
        Leases::new(&self.tables.aggregates)
    }

    /// Returns the worker that this reader is for.
    #[must_use]
    pub const fn worker(&self) -> WorkerId {
        self.worker
    }

    /// Opens a view. The call is the worker's quiescent state.
    ///
    /// Cost:    two loads of shared lines, for the rules and for the routes; after a change also a
    ///          store to a line of the worker.
    /// Threads: announces that values from earlier views are not in use any more. The borrow
    ///          checker ensures that, because a view borrows the reader.
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

    /// Goes offline: does not delay publications until the next [`TablesReader::observe`].
    pub fn go_offline(&mut self) {
        self.rules.go_offline();
        self.routes.go_offline();
    }

    /// Returns this worker's counters, for use outside a view.
    #[must_use]
    pub const fn counters(&self) -> &Arc<WorkerCounters> {
        &self.counters
    }

    /// Returns the most sessions that the tables can hold; every session index is below.
    #[must_use]
    pub fn sessions_max(&self) -> usize {
        self.tables.fast_rules.len()
    }

    /// Returns our logical interfaces at the start, by id. A view has the present ones, which begin
    /// with these.
    #[must_use]
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }
}

/// The reasons why a destination has no next hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRoute {
    /// No route leads there.
    Unknown,
    /// The destination is an address of ours.
    Own,
    /// The route drops packets silently.
    Blackhole,
    /// The route says that the destination is unreachable.
    Unreachable,
}

/// The tables as one worker sees them between two of its quiescent states.
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
    ///          each TEID whose slot in the index has another TEID. No allocation, no clock.
    /// Spec:    TS 29.281 §5.1.
    /// Errors:  none; a miss is the caller's `DropReason::TeidUnknown`.
    #[inline]
    pub fn lookup_teids(&self, teids: &[Teid], out: &mut [SessionIndex]) {
        teids.iter().for_each(|teid| self.prefetch_teid(*teid));
        for (out, teid) in out.iter_mut().zip(teids) {
            *out = self.session_of_teid(*teid);
        }
    }

    /// Returns the UEs of a routing domain, or of the last domain if `domain` is out of range.
    #[inline]
    #[must_use]
    pub fn ues(&self, domain: DomainId) -> &'a UeTable {
        let domains = &self.routes.ues;
        let last = domains.len().saturating_sub(1);
        &domains[usize::from(domain.0).min(last)]
    }

    /// Prefetches the cache line that [`TablesView::session_of_teid`] reads.
    #[inline]
    pub fn prefetch_teid(&self, teid: Teid) {
        self.tables.teids.prefetch(teid);
    }

    /// Returns the session of a local TEID, or `SessionIndex::NONE` on a miss.
    #[inline]
    #[must_use]
    pub fn session_of_teid(&self, teid: Teid) -> SessionIndex {
        self.tables.teids.session(teid)
    }

    /// Returns the session of a local TEID if the direct index has the TEID and its tunnel is not
    /// marked as coming from another UPF. Otherwise `SessionIndex::NONE`: then
    /// [`TablesView::session_of_other_teid`] finds the session.
    #[inline]
    #[must_use]
    pub fn session_of_usual_teid(&self, teid: Teid) -> SessionIndex {
        self.tables.teids.unmarked_session(teid)
    }

    /// Returns the session of a local TEID that [`TablesView::session_of_usual_teid`] does not
    /// find, and whether the tunnel's fast rule is in [`TablesView::tunnel_to_ue_cell`].
    #[inline]
    #[must_use]
    pub fn session_of_other_teid(&self, teid: Teid) -> (SessionIndex, bool) {
        self.tables.teids.other_session(teid)
    }

    /// Returns the cell of the tunnel in which another UPF sends packets to the UE of a session;
    /// `None` for [`SessionIndex::NONE`].
    #[inline]
    #[must_use]
    pub fn tunnel_to_ue_cell(&self, session: SessionIndex) -> Option<FastRuleCellRef<'a>> {
        self.tables.fast_rules.tunnel_cell_ref(session)
    }

    /// Returns the rules of a session; `None` if it has none, and for `SessionIndex::NONE`.
    ///
    /// Load them once per packet: two calls within one view may return two publications.
    #[inline]
    #[must_use]
    pub fn rules(&self, session: SessionIndex) -> Option<&'a PublishedRules> {
        self.rules.get(session.0 as usize)
    }

    /// Returns the cell of one direction of a session; `None` for [`SessionIndex::NONE`].
    #[inline]
    #[must_use]
    pub fn fast_rule_cell(
        &self,
        session: SessionIndex,
        direction: Direction,
    ) -> Option<FastRuleCellRef<'a>> {
        self.tables.fast_rules.cell_ref(session, direction)
    }

    /// Prefetches the cache line that [`TablesView::fast_rule_cell`] and
    /// [`TablesView::count_session`] access.
    #[inline]
    pub fn prefetch_fast_rule(&self, session: SessionIndex, direction: Direction) {
        self.tables.fast_rules.prefetch(session, direction);
    }

    /// Prefetches the line with the pointer to a session's rules. First of two prefetch passes.
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

    /// Returns the next hop towards `addr` by the routes and connected prefixes of the interfaces
    /// `within`: of GTP-U interfaces if `role` is a GTP-U role, else of N6 interfaces. `None` if no
    /// route leads to `addr`, and for our own, network and broadcast addresses.
    #[inline]
    #[must_use]
    pub fn route(
        &self,
        role: InterfaceRole,
        within: InterfaceSet,
        addr: IpAddr,
    ) -> Option<NextHopRef> {
        self.route_of_flow(role, within, addr, || 0)
    }

    /// Returns what [`Self::route`] returns, for a flow whose hash selects one of several next
    /// hops: `adit_wire::flow_hash`, or [`tunnel_hash`](crate::tunnel_hash) into tunnels.
    #[inline]
    #[must_use]
    pub fn route_of_flow(
        &self,
        role: InterfaceRole,
        within: InterfaceSet,
        addr: IpAddr,
        hash: impl FnOnce() -> u32,
    ) -> Option<NextHopRef> {
        self.hop_of(self.routes.lookup(role, within, addr)?, within, addr, hash)
    }

    #[inline]
    fn hop_of(
        &self,
        target: RouteTarget,
        within: InterfaceSet,
        addr: IpAddr,
        hash: impl FnOnce() -> u32,
    ) -> Option<NextHopRef> {
        let target = match target {
            RouteTarget::Group(group) => {
                self.tables.hop_groups.select(group, hash(), within)?.into()
            }
            target => target,
        };
        match target {
            RouteTarget::Gateway(interface, index) => {
                Some(NextHopRef { interface, via: Via::Known(index) })
            }
            RouteTarget::OnLink(interface) => {
                let known = self.tables.next_hops.lookup(interface, addr);
                Some(NextHopRef { interface, via: known.map_or(Via::Unknown(addr), Via::Known) })
            }
            _ => None,
        }
    }

    /// Returns why packets to `addr` through one of `within` have no next hop.
    #[cold]
    #[must_use]
    pub fn no_route(&self, role: InterfaceRole, within: InterfaceSet, addr: IpAddr) -> NoRoute {
        match self.routes.lookup(role, within, addr) {
            Some(RouteTarget::Own(_)) => NoRoute::Own,
            Some(RouteTarget::Blackhole) => NoRoute::Blackhole,
            Some(RouteTarget::Unreachable) => NoRoute::Unreachable,
            _ => NoRoute::Unknown,
        }
    }

    /// Returns the interface on which a locally switched packet from a UE to `addr` arrives again,
    /// instead of leaving to a data network through one of `within`. Its destination is a UE, or a
    /// network behind a UE whose prefix is longer than that of the route. `None` if there is no
    /// such UE, and in domains without local switching.
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
        match !self.routes.may_have_ues(addr) || self.routes.is_beyond_gateway(within, addr) {
            true => None,
            false => self.search_local_switching(within, addr),
        }
    }

    #[inline(never)]
    fn search_local_switching(&self, within: InterfaceSet, addr: IpAddr) -> Option<InterfaceId> {
        let route = self.routes.search_networks(within, addr);
        let (interface, route_len) = match route {
            Some((RouteTarget::Own(_) | RouteTarget::Nowhere(_), _)) => return None,
            Some((target, len)) => {
                let of_route = target.interface();
                (of_route.or_else(|| Some(self.first_network(within)?.id))?, Some(len))
            }
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

    /// Returns the neighbor `addr` on `interface`. `None` if it has no next hop: no packet was sent
    /// to it.
    #[must_use]
    pub fn neighbor(&self, interface: InterfaceId, addr: IpAddr) -> Option<KnownNeighbor> {
        self.tables.next_hops.neighbor(interface, addr)
    }

    /// True while sessions of a previous process are still to be published: a key that is not found
    /// may belong to one of them.
    #[must_use]
    pub fn is_restoring(&self) -> bool {
        self.tables.is_restoring.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Returns the GTP-U peers to which published FARs send.
    #[must_use]
    pub fn gtpu_peers(&self) -> &'a GtpuPeers {
        &self.tables.gtpu_peers
    }

    /// True if `addr` is an address of ours for packets that leave through `within`. Addresses on
    /// N6 interfaces are ours only in their routing domain.
    #[must_use]
    pub fn is_own(&self, within: InterfaceSet, addr: IpAddr) -> bool {
        let target = self.routes.lookup(InterfaceRole::N6, within, addr);
        matches!(target, Some(RouteTarget::Own(_)))
    }

    /// Returns the next hop with `index`; `None` if there is none.
    ///
    /// Cost:    one cache line. Marks a stale entry as used, for the control thread.
    #[inline]
    #[must_use]
    pub fn next_hop(&self, index: NextHopIndex) -> Option<NextHop> {
        self.tables.next_hops.next_hop(index)
    }

    /// Returns interface and link-layer address of a next hop; `None` if it is unresolved or stale.
    #[inline]
    #[must_use]
    pub fn resolved_hop(&self, index: NextHopIndex) -> Option<(InterfaceId, MacAddr)> {
        self.tables.next_hops.resolved(index)
    }

    /// Returns a value that changes when a link-layer address or the routes change. If a later call
    /// returns the same value, also in another view, [`TablesView::block_gateway`] and
    /// [`TablesView::resolved_hop`] return the same for each index that rules or routes name.
    #[inline]
    #[must_use]
    pub fn next_hop_version(&self) -> u64 {
        // The value repeats after 2^48 changes of addresses or 2^16 changes of routes. No worker
        // misses so many between two calls.
        self.tables.next_hops.change_count() ^ u64::from(self.routes.version()) << 48
    }

    /// Returns the block number of an IPv4 destination in data networks, by which
    /// [`TablesView::block_gateway`] finds the one gateway of all destinations in the block. Zero
    /// if there is no such gateway.
    ///
    /// Cost: one bit of 8 KiB behind a default route, else one octet of 64 KiB.
    #[inline]
    #[must_use]
    pub fn network_block_v4(&self, addr: u32) -> u8 {
        self.routes.network_block_v4(addr)
    }

    /// Does [`Self::network_block_v4`] for IPv6 addresses whose upper 64 bits are `upper`.
    ///
    /// Cost: one bit of 8 KiB for destinations behind the usual gateway, else a binary search over
    ///       the borders of the routes.
    #[inline]
    #[must_use]
    pub fn network_block_v6(&self, upper: u64) -> u8 {
        self.routes.network_block_v6(upper)
    }

    /// Returns true if data networks have route tables.
    #[inline]
    #[must_use]
    pub fn has_route_tables(&self) -> bool {
        self.routes.has_tables()
    }

    /// Prefetches what [`Self::next_hop_towards`] reads in route tables for an IPv4 destination.
    /// [`Self::network_block_v4`] of the destination has prefetched what this reads.
    #[inline]
    pub fn prefetch_route_v4(&self, addr: u32) {
        self.routes.prefetch_route_v4(addr);
    }

    /// Returns the gateway to all destinations of a block, if it is on one of `within`.
    #[inline]
    #[must_use]
    pub fn block_gateway(&self, within: InterfaceSet, block: u8) -> Option<NextHopIndex> {
        self.routes.block_gateway(within, block)
    }

    /// Returns the next hop towards `addr` by the routes of data networks through one of `within`.
    /// `None` if no route leads to `addr`, and for an on-link destination that has no next hop yet.
    /// `hash`: see [`Self::route_of_flow`].
    ///
    /// Cost: a search among the routes, also where [`Self::block_gateway`] has a gateway.
    #[inline]
    #[must_use]
    pub fn next_hop_towards(
        &self,
        within: InterfaceSet,
        addr: IpAddr,
        hash: impl FnOnce() -> u32,
    ) -> Option<NextHopIndex> {
        let (target, _) = self.routes.search_networks(within, addr)?;
        match self.hop_of(target, within, addr, hash)?.via {
            Via::Known(index) => Some(index),
            Via::Unknown(_) => None,
        }
    }

    /// Prefetches usage counters that are not in a cell.
    #[inline(always)]
    // PERF (adit-bench datapath): part of the passes that prefetch.
    fn prefetch_usage(&self, slots: [UsageSlot; FAST_RULE_URRS_MAX]) {
        slots.into_iter().for_each(|slot| self.usage.prefetch(slot));
    }

    /// Prefetches the usage counters of the cell's fast rule that are not in the cell. Reads the
    /// second line of the cell.
    #[inline]
    pub fn prefetch_usage_elsewhere(&self, cell: FastRuleCellRef<'a>) {
        if cell.flags().has_urrs() {
            self.prefetch_usage(cell.usage_slots());
        }
    }

    /// Prefetches the lines that a packet of `direction` needs besides the first line of its cell,
    /// which [`FastRuleCellRef::prefetch`] prefetched: usage counters and buckets, and the far end
    /// of a rule with [`CellFlags::may_relay`]. `is_tunneled`: the packet arrived in a tunnel.
    /// Returns the flags of the cell; prefetches nothing if the cell holds no fast rule.
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
                // A relay has one URR: the word after it is the far end, not a slot.
                if is_relay { self.usage.prefetch(slots[0]) } else { self.prefetch_usage(slots) }
            }
            if flags.may_be_metered() {
                self.tables.meters.prefetch(session, direction);
            }
        }
        flags
    }

    /// Returns the filter of one direction if a single filter selects the fast rule and no rule
    /// leads into a tunnel over IPv6; else `None`.
    #[inline(always)]
    // PERF (adit-bench datapath --sdf): a call would pass the words through memory.
    #[must_use]
    pub fn fast_rule_filter(&self, cell: FastRuleCellRef<'a>) -> Option<FastRuleFilter<'a>> {
        cell.filter(CellKind::FILTER, self.rules)
    }

    /// Returns the filter of one direction if a single filter selects the fast rule; else `None`.
    #[inline]
    #[must_use]
    pub fn any_fast_rule_filter(&self, cell: FastRuleCellRef<'a>) -> Option<FastRuleFilter<'a>> {
        cell.filter(CellKind::ANY_FILTER, self.rules)
    }

    /// Returns the fast rule that `filter` selects for the packet of `key`, and prefetches its
    /// line. `None` if the stages classify the packet: it does not match, and others have no fast
    /// rule.
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

    /// Prefetches the lines of a matcher that a packet of the address family needs first. Returns
    /// false if no matcher selects the fast rule.
    #[inline]
    #[must_use]
    pub fn prefetch_selector(&self, cell: FastRuleCellRef<'a>, is_v6: bool) -> bool {
        cell.prefetch_selector(is_v6)
    }

    /// Returns the selector of one direction if a matcher selects the fast rule; else `None`.
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

    /// Returns the first two buckets of each direction of all sessions, for fast rules.
    #[inline]
    #[must_use]
    pub fn meter_pairs(&self) -> MeterPairs<'a> {
        self.tables.meters.all_pairs()
    }

    /// Returns the first two buckets of a direction of a session, for fast rules. First writes a
    /// deferred charge to them. For the worker that owns the session only.
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

    /// Returns the same buckets as [`TablesView::meter_pair`], but leaves a charge deferred, for
    /// [`FastRuleSnapshot::try_charge`](crate::FastRuleSnapshot::try_charge).
    #[inline]
    #[must_use]
    pub fn unsettled_meter_pair(
        &self,
        session: SessionIndex,
        direction: Direction,
    ) -> Option<MeterPair<'a>> {
        self.tables.meters.pair(session, direction)
    }

    /// True if a packet would be charged to the buckets of `charge`, because all are open at `now`.
    /// Tries it on copies, and changes nothing. For the worker that owns the session only.
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

    /// Returns the counters of the packets that wait for the first of the buckets `which` (bit n is
    /// bucket n) of [`TablesView::meter_pair`]. `which` is not zero.
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

    /// Prefetches what [`TablesView::meter_pair`] and [`TablesView::wait_counts`] access.
    #[inline]
    pub fn prefetch_pair_and_waits(&self, session: SessionIndex, direction: Direction) {
        self.tables.meters.prefetch_pair_and_waits(session, direction);
    }

    /// Returns the number of rate changes so far.
    #[inline]
    #[must_use]
    pub fn rate_change_count(&self) -> u64 {
        self.tables.rate_changes.count()
    }

    /// Returns the rate change after the first `seen` changes.
    #[must_use]
    pub fn rate_change(&self, seen: u64) -> NextRateChange {
        self.tables.rate_changes.next(seen)
    }

    /// True once a session has had a correlated rate.
    #[inline]
    #[must_use]
    pub fn has_correlated_rates(&self) -> bool {
        self.tables.meters.correlated_rates().is_used()
    }

    /// Returns a bucket of a direction of a session. The first two always exist. Further buckets
    /// exist once any session has needed them, and stay allocated. For the worker that owns the
    /// session only: writes a deferred charge to the buckets.
    #[inline]
    #[must_use]
    pub fn meter(
        &self,
        session: SessionIndex,
        direction: Direction,
        bucket: u8,
    ) -> Option<Meter<'a>> {
        if usize::from(bucket) < BUCKETS_PER_LINE {
            let _settled = self.meter_pair(session, direction);
        }
        self.tables.meters.meter(session, direction, bucket)
    }

    /// Returns the rates of slices, and of all sessions together.
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

    /// Returns the routing domain of the first N6 interface in a set.
    #[inline]
    #[must_use]
    pub fn domain_within(&self, interfaces: InterfaceSet) -> DomainId {
        self.first_network(interfaces).map_or(DomainId(0), |known| known.domain)
    }

    /// Returns the first N6 interface in a set.
    fn first_network(&self, interfaces: InterfaceSet) -> Option<&'a Interface> {
        let is_it =
            |known: &&Interface| known.role == InterfaceRole::N6 && interfaces.contains(known.id);
        self.routes.interfaces.iter().find(is_it)
    }

    /// Returns our logical interfaces, by id. The interfaces of a later view begin with these.
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

    /// Returns the usage counters of URRs.
    #[inline]
    #[must_use]
    pub const fn usage(&self) -> UsageView<'a> {
        self.usage
    }

    /// Counts forwarded packets of a session. `bytes` is the sum of the lengths of the inner IP
    /// packets. Ignores an index out of range. For the worker that owns the session only.
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
