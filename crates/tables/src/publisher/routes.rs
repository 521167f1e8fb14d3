//! Replaces the interfaces and routes while workers forward.
//!
//! New routes are built, and their gateways resolved, while the present routes stay; then one store
//! puts the new routes into effect. In each step a worker sees either all of the previous routes or
//! all of the new ones.
//!
//! An offload reads its routes word by word. So it first leaves all packets to data networks to the
//! workers, and gets the new routes when no packet can see the previous ones any more.

use core::net::IpAddr;

use adit_rules::{OffloadBatch, RateLimit};
use adit_types::limits::{INTERFACES_MAX, ROUTES_MAX};
use adit_types::{DomainId, InterfaceRole, InterfaceSet, NextHopIndex};

use super::Publisher;
use crate::config::{Interface, Route, TablesError, check_interfaces, check_routes, n6_interfaces};
use crate::publish::{SlotReader, SlotWriter, slots};
use crate::routes::{RouteTarget, Routes};
use crate::sync::Arc;
use crate::ues::{UeTable, UeWriter};

/// The routes in effect.
#[derive(Debug)]
pub(super) struct RoutesWriter {
    /// One slot, never empty.
    slot: SlotWriter<Routes>,
    list: Vec<Route>,
    /// Our addresses in addition to those of the interfaces.
    own_addrs: Vec<IpAddr>,
    /// Previous gateways that the offload may still use; they stay pinned.
    of_offload: Vec<NextHopIndex>,
}

impl RoutesWriter {
    /// Puts the first routes into effect.
    pub(super) fn new(
        routes: Routes,
        list: Vec<Route>,
        own_addrs: Vec<IpAddr>,
        workers: usize,
    ) -> (Self, Vec<SlotReader<Routes>>) {
        let (mut slot, readers) = slots(1, workers);
        slot.swap(0, Some(Box::new(routes)));
        slot.advance();
        (Self { slot, list, own_addrs, of_offload: Vec::new() }, readers)
    }

    pub(super) fn current(&self) -> &Routes {
        let Some(routes) = self.slot.get(0) else {
            unreachable!("routes are only replaced by others")
        };
        routes
    }

    /// The routes of the configuration.
    pub(super) fn list(&self) -> &[Route] {
        &self.list
    }

    fn replace(&mut self, mut routes: Box<Routes>, list: Vec<Route>) {
        routes.set_version_after(self.current());
        self.slot.swap(0, Some(routes));
        self.slot.advance();
        self.list = list;
    }

    /// Frees previous routes that no worker reads any more.
    pub(super) fn reclaim(&mut self) {
        while self.slot.reclaim().is_some() {}
    }
}

/// The configuration from which routes are built.
#[derive(Debug, Clone)]
pub struct RoutesConfig {
    /// The present interfaces, and added ones after them. An added interface is on the port of a
    /// present one; its routing domain is an existing one, or the next new one.
    pub interfaces: Vec<Interface>,
    /// Domains with local switching. Those of the present interfaces cannot change.
    pub local_switching_domains: Vec<DomainId>,
    /// Routes in addition to the connected prefixes.
    pub routes: Vec<Route>,
}

/// Routes that are not in effect yet, but whose gateways are next hops already.
#[derive(Debug)]
#[must_use = "its gateways stay pinned until it is published or discarded"]
pub struct PreparedRoutes {
    routes: Box<Routes>,
    list: Vec<Route>,
    /// The UEs of the routing domains that the routes add.
    ues: Vec<UeWriter>,
}

impl Publisher {
    /// Returns our logical interfaces, by id.
    #[must_use]
    pub fn interfaces(&self) -> &[Interface] {
        &self.routes.current().interfaces
    }

    /// Builds routes that are to replace the present ones, and pins their gateways, so that they
    /// are resolved. Gateways on added interfaces are resolved once [`Publisher::add_interfaces`]
    /// has added these interfaces.
    ///
    /// # Errors
    /// Returns the first mistake in interfaces and routes, or that interfaces cannot be added
    /// because of an offload; nothing has changed then.
    pub fn prepare_routes(&mut self, config: RoutesConfig) -> Result<PreparedRoutes, TablesError> {
        self.check_interfaces(&config.interfaces)?;
        let (value, max) = (config.routes.len(), ROUTES_MAX);
        if value > max {
            return Err(TablesError::OutOfRange { name: "routes", value, min: 0, max });
        }
        check_routes(&config.interfaces, &config.routes)?;
        let (ues, tables) = self.further_domains(&config);
        let RoutesConfig { interfaces, routes: list, .. } = config;
        let (next_hops, former) = (&mut self.next_hops, self.routes.current());
        let mut pinned = Vec::new();
        let gateway = |interface, addr| {
            let index = next_hops.ensure(interface, addr, 0)?;
            next_hops.set_gateway(index, true);
            pinned.push(index);
            Some(index)
        };
        let tables = former.ues.iter().cloned().chain(tables).collect();
        let built = Routes::build(&interfaces, tables, &self.routes.own_addrs, &list, gateway);
        let prepared = |routes| PreparedRoutes { routes: Box::new(routes), list, ues };
        built.map(prepared).inspect_err(|_| {
            unpin(&mut self.next_hops, &pinned, self.routes.current().gateways());
        })
    }

    /// Checks all of `config`, and adds its further interfaces to the present ones, with the
    /// present routes. Changes nothing if it has no further interfaces.
    ///
    /// # Errors
    /// Fails as [`Publisher::prepare_routes`] does.
    pub fn add_interfaces(&mut self, config: &RoutesConfig) -> Result<(), TablesError> {
        let prepared = self.prepare_routes(config.clone())?;
        self.discard_routes(prepared);
        if config.interfaces.len() > self.interfaces().len() {
            let routes = self.routes.list.clone();
            let prepared = self.prepare_routes(RoutesConfig { routes, ..config.clone() })?;
            self.publish_routes(prepared);
        }
        Ok(())
    }

    fn check_interfaces(&self, interfaces: &[Interface]) -> Result<(), TablesError> {
        let known = self.interfaces();
        let Some(further) = interfaces.strip_prefix(known) else {
            return Err(TablesError::InterfacesDiffer);
        };
        if further.is_empty() {
            return Ok(());
        }
        if self.offload.is_some() {
            return Err(TablesError::InterfacesOfOffload);
        }
        let (value, max) = (interfaces.len(), INTERFACES_MAX);
        if value > max {
            return Err(TablesError::OutOfRange { name: "interfaces", value, min: 0, max });
        }
        check_interfaces(interfaces)?;
        let mut domains = self.routes.current().ues.len();
        for interface in further {
            let is_next = usize::from(interface.domain.0) == domains;
            domains += usize::from(is_next);
            let has_port = known.iter().any(|of| of.port == interface.port);
            if !has_port || usize::from(interface.domain.0) >= domains {
                return Err(TablesError::InterfacesDiffer);
            }
        }
        Ok(())
    }

    /// Creates the tables of the UEs of added routing domains.
    fn further_domains(&self, config: &RoutesConfig) -> (Vec<UeWriter>, Vec<Arc<UeTable>>) {
        let last = config.interfaces.iter().map(|interface| interface.domain).max();
        let first = u8::try_from(self.routes.current().ues.len()).unwrap_or(u8::MAX);
        let further = first..=last.unwrap_or_default().0;
        further
            .map(|number| {
                let switched = local_switching_interfaces(
                    &config.interfaces,
                    &config.local_switching_domains,
                    DomainId(number),
                );
                self.domain_room.of(DomainId(number), switched)
            })
            .unzip()
    }

    /// Returns the first gateway of these routes whose link-layer address is unknown.
    #[must_use]
    pub fn unresolved_gateway(&self, routes: &PreparedRoutes) -> Option<IpAddr> {
        let hops =
            routes.routes.gateways().iter().filter_map(|index| self.tables.next_hops.peek(*index));
        hops.filter(|hop| hop.mac.is_none()).map(|hop| hop.addr).next()
    }

    /// Puts routes into effect. FARs keep the next hops of their GTP-U peers until their session is
    /// published again.
    pub fn publish_routes(&mut self, routes: PreparedRoutes) {
        let PreparedRoutes { mut routes, list, ues } = routes;
        debug_assert_eq!(self.ues.len() + ues.len(), routes.ues.len(), "built before others");
        self.ues.extend(ues);
        self.own_addresses = routes.interfaces.iter().flat_map(Interface::addrs).collect();
        self.ue_areas.move_to(&routes);
        self.route_tables.lead_into(&mut routes);
        let former = self.routes.current().gateways().to_vec();
        self.routes.replace(routes, list);
        self.routes.of_offload.extend(former);
        match &mut self.offload {
            Some(offload) => {
                offload.leave_networks();
                // A card removes its flow rules when the batch is closed.
                self.advance_offload();
            }
            None => self.unpin_former(),
        }
        self.follow_tunnel_paths(|_| true);
    }

    /// Closes the offload's batch if there are changes. Gives the offload the present routes when
    /// no packet sees previous ones any more. Returns the last passed batch, if there is an
    /// offload.
    pub(super) fn advance_offload(&mut self) -> Option<OffloadBatch> {
        let offload = self.offload.as_mut()?;
        let batch = offload.advance();
        if offload.restore_networks(batch, self.routes.current()) {
            self.unpin_former();
        }
        Some(batch)
    }

    /// Unpins gateways that the routes do not name any more.
    fn unpin_former(&mut self) {
        let former = core::mem::take(&mut self.routes.of_offload);
        unpin(&mut self.next_hops, &former, self.routes.current().gateways());
    }

    /// Discards routes that are not in effect, and unpins their gateways.
    pub fn discard_routes(&mut self, routes: PreparedRoutes) {
        unpin(&mut self.next_hops, routes.routes.gateways(), self.routes.current().gateways());
    }

    /// Returns the next hop towards a GTP-U peer; `None` if there is no route or no room.
    pub(super) fn peer_next_hop(
        &mut self,
        within: InterfaceSet,
        peer: IpAddr,
    ) -> Option<NextHopIndex> {
        match self.routes.current().lookup(InterfaceRole::N3, within, peer) {
            Some(RouteTarget::Gateway(_, index)) => Some(index),
            Some(RouteTarget::OnLink(interface)) => self.ensure(interface, peer, 0),
            Some(_) | None => {
                self.counters.peers_without_route += 1;
                None
            }
        }
    }

    /// True if [`Publisher::set_aggregates`] can set `limits`: the limited aggregates are the same.
    #[must_use]
    pub fn can_set_aggregates(&self, limits: &[[RateLimit; 2]]) -> bool {
        self.tables.aggregates.can_set_limits(limits)
    }

    /// Replaces the limits of aggregates, uplink and downlink: first for all sessions, then by
    /// slice.
    pub fn set_aggregates(&self, limits: &[[RateLimit; 2]]) {
        self.tables.aggregates.set_limits(limits);
    }
}

/// Unpins the gateways that are not among `kept`.
fn unpin(
    next_hops: &mut crate::next_hop::NextHopWriter,
    gateways: &[NextHopIndex],
    kept: &[NextHopIndex],
) {
    for index in gateways.iter().filter(|index| !kept.contains(index)) {
        next_hops.set_gateway(*index, false);
    }
}

/// Returns the N6 interfaces of a domain if it switches packets between its UEs locally.
pub(super) fn local_switching_interfaces(
    interfaces: &[Interface],
    switched: &[DomainId],
    domain: DomainId,
) -> InterfaceSet {
    match switched.contains(&domain) {
        true => n6_interfaces(interfaces, Some(domain)),
        false => InterfaceSet::NONE,
    }
}
