//! Routes of the configuration and of route tables together.

use core::net::IpAddr;
use core::sync::atomic::Ordering::Relaxed;

use adit_rules::NetworkPart;
use adit_types::InterfaceSet;

use super::{NO_BLOCK_GATEWAY, RoleRoutes, RouteTarget, Routes, block, upper_half};
use crate::area_bits::{AreaBits, area};
use crate::route_table::RouteTable;

/// Returns true if the route of a table goes before the one of the configuration that has the same
/// prefix.
const fn yields(target: RouteTarget) -> bool {
    matches!(target, RouteTarget::Gateway(..))
}

impl RoleRoutes {
    /// Returns the target of the longest prefix that contains `addr` among all routes through
    /// `within`, and the length of that prefix.
    #[inline]
    pub(super) fn search(&self, within: InterfaceSet, addr: IpAddr) -> Option<(RouteTarget, u32)> {
        match self.tables.is_empty() {
            true => self.search_configured(within, addr),
            false => self.search_all(within, addr),
        }
    }

    #[inline]
    fn search_configured(&self, within: InterfaceSet, addr: IpAddr) -> Option<(RouteTarget, u32)> {
        match addr {
            IpAddr::V4(addr) => {
                let (target, mask) = self.v4.find(within, addr.to_bits())?;
                Some((target, mask.count_ones()))
            }
            IpAddr::V6(addr) => {
                let (target, mask) = self.v6.find(within, addr.to_bits())?;
                Some((target, mask.count_ones()))
            }
        }
    }

    // PERF (adit-bench routes): most destinations have one configured route, the default route,
    // which is never longer than the table's.
    fn search_all(&self, within: InterfaceSet, addr: IpAddr) -> Option<(RouteTarget, u32)> {
        let found = self.tables.iter().filter_map(|table| table.find(within, addr));
        // The first one of several with the same length.
        let found = found.reduce(|best, other| if other.1 > best.1 { other } else { best });
        let Some((value, len)) = found else { return self.search_configured(within, addr) };
        let is_touched = match addr {
            IpAddr::V4(addr) => self.v4_blocks.touched.has(block(addr.to_bits())),
            IpAddr::V6(addr) => self.v6_touched.has(area(upper_half(addr.to_bits()))),
        };
        let found = (RouteTarget::from(value), u32::from(len));
        if !is_touched {
            return Some(found);
        }
        match self.search_configured(within, addr) {
            Some((target, len)) if len > found.1 || len == found.1 && !yields(target) => {
                Some((target, len))
            }
            _ => Some(found),
        }
    }

    /// Returns the number of a block that is not the first one's. A packet to a block without a
    /// number is about to look its route up: prefetches it.
    #[inline(never)]
    pub(super) fn other_block_v4(&self, addr: u32) -> u8 {
        let number = self.v4_blocks.numbers[usize::from(block(addr))].load(Relaxed);
        if number == NO_BLOCK_GATEWAY {
            self.tables.iter().for_each(|table| table.prefetch_v4(addr));
        }
        number
    }

    /// Numbers IPv4 blocks again after changes of route tables, and calls `on_change` with those
    /// whose number is another one.
    fn number_blocks(&self, blocks: &AreaBits, on_change: &mut dyn FnMut(u16)) {
        // Blocks beside each other often have the same routes.
        let (mut last, mut last_number) = (Vec::new(), None);
        for at in blocks.iter() {
            let find = |table: &RouteTable| table.find_block(at);
            let is_divided = self.v4_blocks.divided.has(at)
                || self.tables.iter().any(|table| find(table).is_err());
            let is_touched = self.v4_blocks.touched.has(at);
            let is_same = || self.tables.iter().map(find).eq(last.iter().copied());
            let number = match last_number {
                _ if is_divided => NO_BLOCK_GATEWAY,
                Some(number) if !is_touched && is_same() => number,
                _ => {
                    let addr = IpAddr::V4((u32::from(at) << 16).into());
                    let target = |scope| self.search(scope, addr).map(|(target, _)| target);
                    let number = self.gateways.number(target);
                    last.clear();
                    last.extend(self.tables.iter().map(find));
                    last_number = (!is_touched).then_some(number);
                    number
                }
            };
            if self.v4_blocks.set_number(at, number) {
                on_change(at);
            }
        }
    }
}

/// The blocks and the family in which a route table changed.
#[derive(Debug)]
pub(crate) struct ChangedParts {
    pub blocks: AreaBits,
    pub has_v6: bool,
}

impl ChangedParts {
    pub(crate) fn none() -> Self {
        Self { blocks: AreaBits::new(), has_v6: false }
    }
}

impl Routes {
    /// Makes these the route tables, of GTP-U and of N6 interfaces. For routes that no reader has
    /// yet.
    pub(crate) fn set_tables(&mut self, tables: &[RouteTable]) {
        let gtpu = self.gtpu_interfaces();
        let of = |is_gtpu: bool| {
            let is_it = |table: &&RouteTable| table.scope.intersects(gtpu) == is_gtpu;
            tables.iter().filter(is_it).cloned().collect()
        };
        (self.gtpu.tables, self.n6.tables) = (of(true), of(false));
    }

    pub(crate) fn gtpu_interfaces(&self) -> InterfaceSet {
        let gtpu = self.interfaces.iter().filter(|interface| interface.role.is_gtpu());
        gtpu.map(|interface| interface.id).collect()
    }

    /// Returns true if a route table of GTP-U interfaces has an interface `within`.
    pub(crate) fn has_tunnel_table(&self, within: InterfaceSet) -> bool {
        self.gtpu.tables.iter().any(|table| table.scope.intersects(within))
    }

    /// Follows changes of the route tables of GTP-U interfaces, or of the others. `has_routes_v6`:
    /// these tables have IPv6 routes. Calls `on_change` with the parts of data networks that have
    /// another gateway, or none.
    pub(crate) fn follow_tables(
        &self,
        is_gtpu: bool,
        changed: &ChangedParts,
        has_routes_v6: bool,
        mut on_change: impl FnMut(NetworkPart),
    ) {
        let routes = if is_gtpu { &self.gtpu } else { &self.n6 };
        let mut on_block = |at| {
            if !is_gtpu {
                on_change(NetworkPart::V4(at));
            }
        };
        routes.number_blocks(&changed.blocks, &mut on_block);
        if changed.has_v6 && routes.v6_spans.set_table_routes(has_routes_v6) && !is_gtpu {
            (0..=u16::MAX).for_each(|area| on_change(NetworkPart::V6(area)));
        }
    }

    /// Returns true if data networks have route tables.
    #[inline]
    pub(crate) fn has_tables(&self) -> bool {
        !self.n6.tables.is_empty()
    }

    /// See [`crate::TablesView::prefetch_route_v4`].
    #[inline]
    pub(crate) fn prefetch_route_v4(&self, addr: u32) {
        self.n6.tables.iter().for_each(|table| table.prefetch_value_v4(addr));
    }

    /// Returns the gateway numbers in use.
    pub(crate) fn network_gateways(&self) -> u8 {
        self.n6.gateways.used.load(Relaxed)
    }

    /// Returns true if a UE may be among the destinations near `addr`. Always true without route
    /// tables.
    #[inline]
    pub(crate) fn may_have_ues(&self, addr: IpAddr) -> bool {
        !self.has_tables()
            || match addr {
                IpAddr::V4(addr) => self.n6.v4_blocks.ue_blocks.has(block(addr.to_bits())),
                IpAddr::V6(addr) => self.n6.v6_spans.ue_areas.has(area(upper_half(addr.to_bits()))),
            }
    }
}
