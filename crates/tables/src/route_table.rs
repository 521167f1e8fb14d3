//! Route tables: routes that change one by one while workers forward. See [`crate::RouteChange`].

use core::net::IpAddr;

use adit_types::{InterfaceSet, IpPrefix};

use crate::hop_groups::HopGroups;
use crate::prefix_tree::{BlocksExhausted, Divided, PrefixMatch, PrefixTree, PrefixTreeWriter};
use crate::publish::Epoch;
use crate::route_value::RouteValue;
use crate::sync::Arc;

/// The readers' side of one table.
#[derive(Debug, Clone)]
pub(crate) struct RouteTable {
    /// The interfaces whose packets follow the table.
    pub scope: InterfaceSet,
    v4: Arc<PrefixTree<4>>,
    v6: Arc<PrefixTree<16>>,
    groups: Arc<HopGroups>,
}

impl RouteTable {
    /// Returns the route to `addr` and the length of its prefix. `None` without one, and if no next
    /// hop of the route with the longest prefix is on an interface `within`.
    #[inline]
    pub(crate) fn find(&self, within: InterfaceSet, addr: IpAddr) -> Option<(RouteValue, u8)> {
        if !self.scope.intersects(within) {
            return None;
        }
        let found = match addr {
            IpAddr::V4(addr) => self.v4.find(addr.octets()),
            IpAddr::V6(addr) => self.v6.find(addr.octets()),
        };
        self.accept(within, found?)
    }

    #[inline]
    fn accept(&self, within: InterfaceSet, found: PrefixMatch) -> Option<(RouteValue, u8)> {
        let value = RouteValue::from_bits(found.value);
        let is_within = match value {
            RouteValue::Gateway(interface, _) | RouteValue::OnLink(interface) => {
                within.contains(interface)
            }
            RouteValue::Group(group) => self.groups.is_within(group, within),
            RouteValue::Blackhole | RouteValue::Unreachable => true,
        };
        is_within.then_some((value, found.len))
    }

    /// Prefetches the first line that [`Self::find`] reads for an IPv4 address.
    #[inline]
    pub(crate) fn prefetch_v4(&self, addr: u32) {
        self.v4.prefetch(addr.to_be_bytes());
    }

    /// Prefetches the line after the one of [`Self::prefetch_v4`].
    #[inline]
    pub(crate) fn prefetch_value_v4(&self, addr: u32) {
        self.v4.prefetch_value(addr.to_be_bytes());
    }

    /// Returns the match of all addresses of an IPv4 block; `Err` if longer prefixes divide it.
    pub(crate) fn find_block(&self, block: u16) -> Result<Option<PrefixMatch>, Divided> {
        self.v4.find_undivided(block)
    }
}

/// The writer's side of one table.
#[derive(Debug)]
pub(crate) struct RouteTableWriter {
    table: RouteTable,
    v4: PrefixTreeWriter<4>,
    v6: PrefixTreeWriter<16>,
}

impl RouteTableWriter {
    /// Creates a table without routes.
    pub(crate) fn new(scope: InterfaceSet, groups: &Arc<HopGroups>) -> Self {
        let (v4, v6) = (PrefixTreeWriter::new(), PrefixTreeWriter::new());
        let groups = Arc::clone(groups);
        let table =
            RouteTable { scope, v4: Arc::clone(v4.tree()), v6: Arc::clone(v6.tree()), groups };
        Self { table, v4, v6 }
    }

    pub(crate) const fn table(&self) -> &RouteTable {
        &self.table
    }

    pub(crate) const fn scope(&self) -> InterfaceSet {
        self.table.scope
    }

    /// Routes of both families.
    pub(crate) const fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// Routes to IPv6 prefixes.
    pub(crate) const fn len_v6(&self) -> usize {
        self.v6.len()
    }

    /// Octets of the memory that grows with the routes and that workers read.
    pub(crate) const fn block_bytes(&self) -> usize {
        self.v4.block_bytes() + self.v6.block_bytes()
    }

    /// Returns the route to exactly this prefix.
    pub(crate) fn get(&self, prefix: IpPrefix) -> Option<RouteValue> {
        let value = match prefix {
            IpPrefix::V4(prefix) => self.v4.get(prefix.addr().octets(), prefix.len()),
            IpPrefix::V6(prefix) => self.v6.get(prefix.addr().octets(), prefix.len()),
        };
        value.map(RouteValue::from_bits)
    }

    /// Adds a route or replaces it.
    pub(crate) fn insert(
        &mut self,
        prefix: IpPrefix,
        value: RouteValue,
    ) -> Result<(), BlocksExhausted> {
        let bits = value.to_bits();
        match prefix {
            IpPrefix::V4(prefix) => self.v4.insert(prefix.addr().octets(), prefix.len(), bits),
            IpPrefix::V6(prefix) => self.v6.insert(prefix.addr().octets(), prefix.len(), bits),
        }
        .map(|_| ())
    }

    /// Removes a route.
    pub(crate) fn remove(&mut self, prefix: IpPrefix) {
        match prefix {
            IpPrefix::V4(prefix) => self.v4.remove(prefix.addr().octets(), prefix.len()),
            IpPrefix::V6(prefix) => self.v6.remove(prefix.addr().octets(), prefix.len()),
        };
    }

    /// Makes the changes visible; see [`PrefixTreeWriter::commit`].
    pub(crate) fn commit(&mut self, epoch: Epoch) {
        self.v4.commit(epoch);
        self.v6.commit(epoch);
    }

    pub(crate) fn reclaim(&mut self, passed: Epoch) {
        self.v4.reclaim(passed);
        self.v6.reclaim(passed);
    }
}
