//! Routes that take the place of others while workers forward.
//!
//! Other routes are built and their gateways resolved beside those in effect; then one store puts them into effect.
//! Workers see either all of the former routes or all of the new ones in a step.

use core::net::IpAddr;

use adit_rules::RateLimit;
use adit_types::{InterfaceRole, InterfaceSet, NextHopIndex};

use super::Publisher;
use crate::config::{Route, TablesError, check_routes};
use crate::publish::{SlotReader, SlotWriter, slots};
use crate::routes::{RouteTarget, Routes};

/// The routes in effect.
#[derive(Debug)]
pub(super) struct RoutesWriter {
    /// One slot, never empty.
    slot: SlotWriter<Routes>,
    /// Our addresses besides those of the interfaces.
    own_addrs: Vec<IpAddr>,
}

impl RoutesWriter {
    /// Puts the first routes into effect.
    pub(super) fn new(
        routes: Routes,
        own_addrs: Vec<IpAddr>,
        workers: usize,
    ) -> (Self, Vec<SlotReader<Routes>>) {
        let (mut slot, readers) = slots(1, workers);
        slot.swap(0, Some(Box::new(routes)));
        slot.advance();
        (Self { slot, own_addrs }, readers)
    }

    pub(super) fn current(&self) -> &Routes {
        let Some(routes) = self.slot.get(0) else {
            unreachable!("routes are only replaced by others")
        };
        routes
    }

    fn replace(&mut self, routes: Box<Routes>) {
        self.slot.swap(0, Some(routes));
        self.slot.advance();
    }

    /// Frees former routes that no worker reads any more.
    pub(super) fn reclaim(&mut self) {
        while self.slot.reclaim().is_some() {}
    }
}

/// Routes that are not in effect yet, whose gateways are next hops already.
#[derive(Debug)]
#[must_use = "its gateways stay pinned until it is published or discarded"]
pub struct PreparedRoutes(Box<Routes>);

impl Publisher {
    /// Builds routes that are to take the place of those in effect, and pins their gateways, so that they are resolved.
    ///
    /// # Errors
    /// The first mistake in the routes, or that an offload knows those in effect; nothing has changed then.
    pub fn prepare_routes(&mut self, routes: &[Route]) -> Result<PreparedRoutes, TablesError> {
        if self.offload.is_some() {
            return Err(TablesError::RoutesOfOffload);
        }
        check_routes(&self.tables.interfaces, routes)?;
        let (next_hops, former) = (&mut self.next_hops, self.routes.current());
        let mut pinned = Vec::new();
        let gateway = |interface, addr| {
            let index = next_hops.ensure(interface, addr, 0)?;
            next_hops.set_gateway(index, true);
            pinned.push(index);
            Some(index)
        };
        let own_addrs = &self.routes.own_addrs;
        let built =
            Routes::build(Some(former), &self.tables.interfaces, own_addrs, routes, gateway);
        built.map(|routes| PreparedRoutes(Box::new(routes))).inspect_err(|_| {
            unpin(&mut self.next_hops, &pinned, former.gateways());
        })
    }

    /// The first gateway of these routes whose link-layer address is unknown.
    #[must_use]
    pub fn unresolved_gateway(&self, routes: &PreparedRoutes) -> Option<IpAddr> {
        let hops =
            routes.0.gateways().iter().filter_map(|index| self.tables.next_hops.peek(*index));
        hops.filter(|hop| hop.mac.is_none()).map(|hop| hop.addr).next()
    }

    /// Puts routes into effect. FARs keep the next hops of their GTP-U peers until their session is published again.
    pub fn publish_routes(&mut self, routes: PreparedRoutes) {
        self.ue_areas.move_to(&routes.0);
        let former = self.routes.current().gateways().to_vec();
        self.routes.replace(routes.0);
        unpin(&mut self.next_hops, &former, self.routes.current().gateways());
    }

    /// Gives up routes that are not in effect.
    pub fn discard_routes(&mut self, routes: PreparedRoutes) {
        unpin(&mut self.next_hops, routes.0.gateways(), self.routes.current().gateways());
    }

    /// The next hop of packets to a GTP-U peer.
    pub(super) fn peer_next_hop(
        &mut self,
        within: InterfaceSet,
        peer: IpAddr,
    ) -> Option<NextHopIndex> {
        match self.routes.current().lookup(InterfaceRole::N3, within, peer) {
            Some(RouteTarget::Gateway(_, index)) => Some(index),
            Some(RouteTarget::OnLink(interface)) => self.ensure(interface, peer, 0),
            Some(RouteTarget::Nowhere(_) | RouteTarget::Own(_)) | None => {
                self.counters.peers_without_route += 1;
                None
            }
        }
    }

    /// True if [`Publisher::set_aggregates`] can make these limits those of the aggregates.
    #[must_use]
    pub fn can_set_aggregates(&self, limits: &[[RateLimit; 2]]) -> bool {
        self.tables.aggregates.can_become(limits)
    }

    /// Replaces the limits of aggregates, uplink and downlink: first that of all sessions, then by slice.
    pub fn set_aggregates(&self, limits: &[[RateLimit; 2]]) {
        self.tables.aggregates.set_limits(limits);
    }
}

/// Ends the pinning of gateways that are not `kept`.
fn unpin(
    next_hops: &mut crate::next_hop::NextHopWriter,
    gateways: &[NextHopIndex],
    kept: &[NextHopIndex],
) {
    for index in gateways.iter().filter(|index| !kept.contains(index)) {
        next_hops.set_gateway(*index, false);
    }
}
