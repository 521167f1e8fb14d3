//! Routes that change one by one, in tables of their own beside those of the configuration.

use core::net::IpAddr;

use adit_rules::{GtpuTunnel, NetworkPart};
use adit_types::limits::ROUTES_IN_TABLES_MAX;
use adit_types::{InterfaceId, InterfaceRole, InterfaceSet, IpPrefix, NextHopIndex};

use super::Publisher;
use super::routes::RoutesConfig;
use crate::area_bits::AREA_COUNT;
use crate::hop_groups::{FormerHops, HopGroupWriter, HopGroups};
use crate::publish::Epoch;
use crate::route_change::{
    RefusedRoute, RouteAction, RouteChange, RouteHop, RouteRefusal, check, check_scope,
};
use crate::route_table::{RouteTable, RouteTableWriter};
use crate::route_value::RouteValue;
use crate::routes::{ChangedParts, RouteTarget, Routes};
use crate::sync::Arc;
use crate::tunnel_paths::{TunnelPathWriter, TunnelPaths};

/// Changes of one call up to which tunnel paths are compared with each changed prefix. After more
/// changes all of them look their route up.
const COMPARED_CHANGES_MAX: usize = 16;

/// The route tables on the control side, their next-hop groups, and the tunnels that follow them.
#[derive(Debug)]
pub(super) struct RouteTables {
    tables: Vec<RouteTableWriter>,
    groups: HopGroupWriter,
    paths: TunnelPathWriter,
}

impl RouteTables {
    /// Creates no tables yet.
    pub(super) fn new() -> Self {
        let groups = HopGroupWriter::new();
        let paths = TunnelPathWriter::new(groups.groups());
        Self { tables: Vec::new(), groups, paths }
    }

    pub(super) fn groups(&self) -> &Arc<HopGroups> {
        self.groups.groups()
    }

    pub(super) fn paths(&self) -> &Arc<TunnelPaths> {
        self.paths.paths()
    }

    /// Frees memory that no worker can see any more.
    pub(super) fn reclaim(&mut self, passed: Epoch) {
        self.tables.iter_mut().for_each(|table| table.reclaim(passed));
        self.groups.reclaim(passed);
        self.paths.reclaim(passed);
    }

    /// Adds the tables to routes that no worker has yet.
    pub(super) fn lead_into(&self, routes: &mut Routes) {
        if self.tables.is_empty() {
            return;
        }
        let tables: Vec<RouteTable> =
            self.tables.iter().map(|table| table.table().clone()).collect();
        routes.set_tables(&tables);
        let changed = ChangedParts { has_v6: true, ..ChangedParts::none() };
        changed.blocks.set_all(0..AREA_COUNT);
        for is_gtpu in [false, true] {
            let has_v6 = self.has_v6(routes, is_gtpu);
            routes.follow_tables(is_gtpu, &changed, has_v6, |_| ());
        }
    }

    /// Returns true if a table of GTP-U interfaces, or of the others, has IPv6 routes.
    fn has_v6(&self, routes: &Routes, is_gtpu: bool) -> bool {
        let gtpu = routes.gtpu_interfaces();
        let mut tables = self.tables.iter().filter(|of| of.scope().intersects(gtpu) == is_gtpu);
        tables.any(|table| table.len_v6() > 0)
    }

    fn of(&mut self, scope: InterfaceSet) -> Option<&mut RouteTableWriter> {
        self.tables.iter_mut().find(|table| table.scope() == scope)
    }

    fn len(&self) -> usize {
        self.tables.iter().map(RouteTableWriter::len).sum()
    }
}

/// The tables that a call changed: of N6 interfaces, and of GTP-U interfaces.
#[derive(Default)]
struct CallChanges {
    parts: [Option<ChangedParts>; 2],
    /// The values that routes had before.
    former: Vec<RouteValue>,
}

impl CallChanges {
    fn note(&mut self, is_gtpu: bool, prefix: IpPrefix) {
        let parts = self.parts[usize::from(is_gtpu)].get_or_insert_with(ChangedParts::none);
        match prefix {
            IpPrefix::V6(_) => parts.has_v6 = true,
            IpPrefix::V4(prefix) => {
                let first = (prefix.addr().to_bits() >> 16) as usize;
                parts.blocks.set_all(first..first + (AREA_COUNT >> prefix.len().min(16)));
            }
        }
    }
}

impl Publisher {
    /// Adds an empty route table. Tunnels to GTP-U peers through its interfaces follow its changes
    /// only if their rules were published after this call. Does nothing if the table exists.
    ///
    /// # Errors
    /// [`RouteRefusal::Scope`] and [`RouteRefusal::ScopeOverlaps`].
    pub fn add_route_table(&mut self, scope: InterfaceSet) -> Result<(), RouteRefusal> {
        check_scope(self.interfaces(), scope)?;
        self.ensure_table(scope)
    }

    /// Adds the table of a scope that was checked, unless it exists.
    fn ensure_table(&mut self, scope: InterfaceSet) -> Result<(), RouteRefusal> {
        if self.route_tables.of(scope).is_some() {
            return Ok(());
        }
        let tables = self.route_tables.tables.iter();
        let taken = tables.map(|other| other.scope().intersection(scope));
        if let Some(interface) = taken.filter_map(InterfaceSet::first).next() {
            return Err(RouteRefusal::ScopeOverlaps(interface));
        }
        let table = RouteTableWriter::new(scope, self.route_tables.groups());
        let tables = &mut self.route_tables.tables;
        tables.push(table);
        // The route of the first interface wins among those with the same length.
        tables.sort_by_key(|table| table.scope().first());
        self.publish_tables();
        Ok(())
    }

    /// Publishes the routes of the configuration again, with all route tables.
    fn publish_tables(&mut self) {
        let config = RoutesConfig {
            interfaces: self.interfaces().to_vec(),
            local_switching_domains: Vec::new(),
            routes: self.routes.list().to_vec(),
        };
        match self.prepare_routes(config) {
            Ok(routes) => self.publish_routes(routes),
            Err(error) => unreachable!("these routes are in effect: {error}"),
        }
    }

    /// Changes single routes while workers forward: in their order, and in effect when this
    /// returns. Adds the route tables that do not exist yet. Packets of other routes notice
    /// nothing. Many changes in one call cost less than one by one.
    ///
    /// # Errors
    /// The changes that were refused, by position; all others are in effect.
    pub fn change_routes(&mut self, changes: &[RouteChange]) -> Result<(), Vec<RefusedRoute>> {
        if changes.is_empty() {
            return Ok(());
        }
        let (mut refused, mut call) = (Vec::new(), CallChanges::default());
        for (position, change) in changes.iter().enumerate() {
            if let Err(refusal) = self.change_route(change, &mut call) {
                refused.push(RefusedRoute { position, refusal });
            }
        }
        let epoch = self.rules.next_epoch();
        self.route_tables.tables.iter_mut().for_each(|table| table.commit(epoch));
        for is_gtpu in [false, true] {
            if let Some(parts) = &call.parts[usize::from(is_gtpu)] {
                self.follow_tables(is_gtpu, parts);
            }
        }
        if call.parts[1].is_some() {
            let is_changed = |peer| changes.iter().any(|change| change.prefix.contains(peer));
            let is_few = changes.len() <= COMPARED_CHANGES_MAX;
            self.follow_tunnel_paths(|peer| !is_few || is_changed(peer));
        }
        call.former.into_iter().for_each(|value| self.release_value(value, epoch));
        self.rules.advance();
        if refused.is_empty() { Ok(()) } else { Err(refused) }
    }

    fn change_route(
        &mut self,
        change: &RouteChange,
        call: &mut CallChanges,
    ) -> Result<(), RouteRefusal> {
        let hops = check(self.interfaces(), change)?;
        self.ensure_table(change.scope)?;
        let former = self.route_tables.of(change.scope).and_then(|table| table.get(change.prefix));
        let is_full = former.is_none() && self.routes_in_tables() >= ROUTES_IN_TABLES_MAX;
        let value = match &change.action {
            None => None,
            Some(_) if is_full => return Err(RouteRefusal::TooManyRoutes),
            Some(RouteAction::Blackhole) => Some(RouteValue::Blackhole),
            Some(RouteAction::Unreachable) => Some(RouteValue::Unreachable),
            Some(RouteAction::Forward(_)) => Some(self.hold_value(hops, former)?),
        };
        let Some(table) = self.route_tables.of(change.scope) else { return Ok(()) };
        match value {
            None => table.remove(change.prefix),
            Some(value) => {
                if table.insert(change.prefix, value).is_err() {
                    self.release_value(value, self.rules.next_epoch());
                    return Err(RouteRefusal::NoRoom);
                }
            }
        }
        let is_gtpu = change.scope.intersects(self.routes.current().gtpu_interfaces());
        call.note(is_gtpu, change.prefix);
        call.former.extend(former);
        Ok(())
    }

    /// Returns the value of a route with `hops`, which the route holds from now on. `former`: what
    /// it had before.
    fn hold_value(
        &mut self,
        hops: &[RouteHop],
        former: Option<RouteValue>,
    ) -> Result<RouteValue, RouteRefusal> {
        if let [hop] = hops {
            let value = self.hop_value(hop)?;
            self.hold_hop(value);
            return Ok(value);
        }
        let mut sorted = hops.to_vec();
        sorted.sort_unstable();
        let former = match former {
            Some(RouteValue::Group(group)) => FormerHops::Group(group),
            Some(RouteValue::OnLink(interface)) => FormerHops::One(interface, None),
            Some(RouteValue::Gateway(interface, index)) => {
                let gateway = self.tables.next_hops.peek(index).map(|hop| hop.addr);
                FormerHops::One(interface, gateway)
            }
            _ => FormerHops::None,
        };
        let group = match self.route_tables.groups.find(&sorted, former) {
            Some(group) => group,
            None => {
                let values: Result<Vec<_>, _> =
                    sorted.iter().map(|hop| self.hop_value(hop)).collect();
                let values = values?;
                let added = self.route_tables.groups.add(&sorted, values.clone(), former);
                let group = added.ok_or(RouteRefusal::TooManyGroups)?;
                values.into_iter().for_each(|value| self.hold_hop(value));
                group
            }
        };
        self.route_tables.groups.hold(group);
        Ok(RouteValue::Group(group))
    }

    fn hop_value(&mut self, hop: &RouteHop) -> Result<RouteValue, RouteRefusal> {
        let Some(gateway) = hop.gateway else { return Ok(RouteValue::OnLink(hop.interface)) };
        let index = self.next_hops.ensure(hop.interface, gateway, 0);
        let index = index.ok_or(RouteRefusal::TooManyGateways)?;
        Ok(RouteValue::Gateway(hop.interface, index))
    }

    fn hold_hop(&mut self, value: RouteValue) {
        if let RouteValue::Gateway(_, index) = value {
            self.next_hops.hold(index);
        }
    }

    /// Ends what [`Self::hold_value`] began.
    fn release_value(&mut self, value: RouteValue, epoch: Epoch) {
        match value {
            RouteValue::Group(group) => {
                let hops = self.route_tables.groups.release(group, epoch);
                hops.iter().for_each(|value| self.release_hop(*value));
            }
            value => self.release_hop(value),
        }
    }

    fn release_hop(&mut self, value: RouteValue) {
        if let RouteValue::Gateway(_, index) = value {
            self.next_hops.release(index);
        }
    }

    /// Numbers the gateways of blocks again, for workers and for the offload.
    fn follow_tables(&mut self, is_gtpu: bool, changed: &ChangedParts) {
        let routes = self.routes.current();
        let former_gateways = routes.network_gateways();
        let mut parts: Vec<NetworkPart> = Vec::new();
        let note = |part| parts.push(part);
        let has_v6 = self.route_tables.has_v6(routes, is_gtpu);
        routes.follow_tables(is_gtpu, changed, has_v6, note);
        let Some(offload) = &mut self.offload else { return };
        if routes.network_gateways() != former_gateways {
            offload.set_all_gateways(routes);
        }
        parts.into_iter().for_each(|part| offload.set_networks(part, routes));
    }

    /// Routes in all route tables.
    #[must_use]
    pub fn routes_in_tables(&self) -> usize {
        self.route_tables.len()
    }

    /// Octets of the memory of route tables that grows with the routes and that workers read.
    #[must_use]
    pub fn route_table_bytes(&self) -> usize {
        self.route_tables.tables.iter().map(RouteTableWriter::block_bytes).sum()
    }

    /// Returns the next hops of the route to exactly this prefix in the table of `scope`, and the
    /// share of flows of each, in slots of 256. `None` without the route; empty for one that drops.
    #[must_use]
    pub fn route_hops(
        &self,
        scope: InterfaceSet,
        prefix: IpPrefix,
    ) -> Option<Vec<(RouteHop, usize)>> {
        let table = self.route_tables.tables.iter().find(|table| table.scope() == scope)?;
        let only = |interface, gateway| vec![(RouteHop { interface, gateway, weight: 1 }, 256)];
        Some(match table.get(prefix)? {
            RouteValue::Group(group) => self.route_tables.groups.hops(group),
            RouteValue::OnLink(interface) => only(interface, None),
            RouteValue::Gateway(interface, index) => {
                only(interface, self.tables.next_hops.peek(index).map(|hop| hop.addr))
            }
            RouteValue::Blackhole | RouteValue::Unreachable => Vec::new(),
        })
    }

    /// Moves the flows of a next hop to the other next hops of its routes, or gives it its share of
    /// flows back, in all routes at once. A next hop that is the only one of a route keeps its
    /// packets. `gateway`: as in [`crate::RouteHop`].
    pub fn set_hop_usable(
        &mut self,
        interface: InterfaceId,
        gateway: Option<IpAddr>,
        is_usable: bool,
    ) {
        if self.route_tables.groups.set_usable(interface, gateway, is_usable) {
            self.tables.next_hops.note_other_path();
        }
    }

    /// Returns the next hop of a FAR into `tunnel`, which the FAR holds from now on.
    pub(super) fn hold_far_hop(
        &mut self,
        within: InterfaceSet,
        tunnel: GtpuTunnel,
    ) -> Option<NextHopIndex> {
        if !self.routes.current().has_tunnel_table(within) {
            let index = self.peer_next_hop(within, tunnel.addr)?;
            self.next_hops.hold(index);
            return Some(index);
        }
        let end = (within, tunnel.addr);
        let Some((index, is_new)) = self.route_tables.paths.hold(end, tunnel.teid) else {
            self.counters.next_hops_refused += 1;
            return None;
        };
        if is_new {
            let value = self.path_value(within, tunnel.addr);
            self.set_path(TunnelPathWriter::number(index), value);
            self.counters.peers_without_route += u64::from(value.is_none());
        }
        Some(index)
    }

    /// Ends what [`Self::hold_far_hop`] began.
    pub(super) fn release_far_hop(&mut self, index: NextHopIndex) {
        if !TunnelPathWriter::is_path(index) {
            return self.next_hops.release(index);
        }
        let last = self.route_tables.paths.release(index, self.rules.next_epoch());
        last.into_iter().for_each(|value| self.release_hop(value));
    }

    /// Returns where the routes lead to a GTP-U peer.
    fn path_value(&mut self, within: InterfaceSet, peer: IpAddr) -> Option<RouteValue> {
        match self.routes.current().lookup(InterfaceRole::N3, within, peer)? {
            RouteTarget::Gateway(interface, index) => Some(RouteValue::Gateway(interface, index)),
            RouteTarget::OnLink(interface) => {
                let index = self.ensure(interface, peer, 0)?;
                Some(RouteValue::Gateway(interface, index))
            }
            RouteTarget::Group(group) => Some(RouteValue::Group(group)),
            _ => None,
        }
    }

    fn set_path(&mut self, number: u32, value: Option<RouteValue>) {
        let former = self.route_tables.paths.value(number);
        if former == value {
            return;
        }
        value.into_iter().for_each(|value| self.hold_hop(value));
        self.route_tables.paths.set(number, value);
        self.tables.next_hops.note_other_path();
        former.into_iter().for_each(|value| self.release_hop(value));
    }

    /// Leads the tunnels of peers to which other routes may lead now.
    pub(super) fn follow_tunnel_paths(&mut self, is_changed: impl Fn(IpAddr) -> bool) {
        for (number, (within, peer)) in self.route_tables.paths.ends() {
            if is_changed(peer) {
                let value = self.path_value(within, peer);
                self.set_path(number, value);
            }
        }
    }
}
