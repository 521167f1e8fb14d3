//! Longest-prefix match over connected prefixes and configured routes. Immutable once built.
//!
//! N3 and N6 have tables of their own: the RAN's and the data network's addresses may overlap, and
//! a default route of one must not catch the other's packets. For the same reason one prefix may
//! have a route per interface; a lookup names the interfaces whose routes count.

use core::net::{IpAddr, Ipv4Addr};
use core::ops::BitAnd;

use adit_types::{
    InterfaceId, InterfaceRole, InterfaceSet, IpPrefix, Ipv4Prefix, Ipv6Prefix, NextHopIndex,
};

use crate::config::{Interface, Route, TablesError, reserved_v4};

/// Where packets to a prefix go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RouteTarget {
    /// To the destination itself, on this interface's link.
    OnLink(InterfaceId),
    /// To a gateway.
    Gateway(InterfaceId, NextHopIndex),
    /// Nowhere: our own, network and broadcast addresses on an interface's link.
    Nowhere(InterfaceId),
}

impl RouteTarget {
    const fn interface(self) -> InterfaceId {
        match self {
            Self::OnLink(id) | Self::Gateway(id, _) | Self::Nowhere(id) => id,
        }
    }
}

/// Destinations of one prefix length.
#[derive(Debug)]
struct Length<K> {
    mask: K,
    /// Sorted by prefix, then in the order of insertion; one per prefix and interface.
    prefixes: Vec<(K, RouteTarget)>,
}

/// The prefixes of one family: longest first.
#[derive(Debug)]
struct Lpm<K>(Vec<Length<K>>);

/// Places of [`Blocks`]: one per /16.
const BLOCKS: usize = 1 << 16;

/// In a block of addresses that one target serves, the position of that target plus one.
const SEARCH: u8 = 0;

/// The first position plus one: the target of a default route, where there is one.
const FIRST: u8 = 1;

/// The target of every /16 that no longer prefix divides: one load instead of a search. 64 KiB.
#[derive(Debug)]
struct Blocks {
    places: Box<[u8; BLOCKS]>,
    /// One bit per block: its place is the first. 8 KiB, so that it stays in the nearest cache.
    first: Box<[u64; BLOCKS / 64]>,
    targets: Vec<RouteTarget>,
}

impl Blocks {
    fn new() -> Self {
        Self {
            places: Box::new([SEARCH; BLOCKS]),
            first: Box::new([0; BLOCKS / 64]),
            targets: Vec::new(),
        }
    }

    /// Works the blocks out. Targets beyond 255 are searched for.
    fn build(lpm: &Lpm<u32>) -> Self {
        let mut built = Self::new();
        let mut divided = vec![false; BLOCKS];
        for length in lpm.0.iter().filter(|length| length.mask & 0xffff != 0) {
            for (prefix, _) in &length.prefixes {
                divided[block(*prefix)] = true;
            }
        }
        for (at, is_divided) in divided.iter().enumerate() {
            let Ok(high) = u16::try_from(at) else { continue };
            let target = lpm.lookup(InterfaceSet::ALL, u32::from(high) << 16);
            if let (false, Some(target)) = (is_divided, target) {
                built.places[at] = built.place_of(target);
            }
        }
        for (at, _) in built.places.iter().enumerate().filter(|(_, place)| **place == FIRST) {
            built.first[at / 64] |= 1 << (at % 64);
        }
        built
    }

    fn place_of(&mut self, target: RouteTarget) -> u8 {
        let known = self.targets.iter().position(|known| *known == target);
        let at = known.unwrap_or_else(|| {
            self.targets.push(target);
            self.targets.len() - 1
        });
        u8::try_from(at + 1).unwrap_or(SEARCH)
    }

    /// The place of `addr`'s block.
    #[inline]
    fn place(&self, addr: u32) -> u8 {
        let at = block(addr);
        if self.first[at / 64] >> (at % 64) & 1 != 0 { FIRST } else { self.places[at] }
    }

    /// The gateway of `addr`'s block, if its one target is one, on one of `within`.
    #[inline]
    fn gateway(&self, within: InterfaceSet, addr: u32) -> Option<NextHopIndex> {
        match self.lookup(within, addr)? {
            RouteTarget::Gateway(_, index) => Some(index),
            RouteTarget::OnLink(_) | RouteTarget::Nowhere(_) => None,
        }
    }

    /// The target of `addr`'s block if it is one, and on one of `within`.
    #[inline]
    fn lookup(&self, within: InterfaceSet, addr: u32) -> Option<RouteTarget> {
        let place = usize::from(self.place(addr));
        let target = *self.targets.get(place.checked_sub(1)?)?;
        within.contains(target.interface()).then_some(target)
    }
}

#[inline]
const fn block(addr: u32) -> usize {
    (addr >> 16) as usize
}

impl<K: Copy + Ord + BitAnd<Output = K>> Lpm<K> {
    const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds a prefix; false if it has a target on the same interface already.
    fn insert(&mut self, mask: K, prefix: K, target: RouteTarget) -> bool {
        let at = match self.0.binary_search_by(|length| mask.cmp(&length.mask)) {
            Ok(at) => at,
            Err(at) => {
                self.0.insert(at, Length { mask, prefixes: Vec::new() });
                at
            }
        };
        let prefixes = &mut self.0[at].prefixes;
        let known = |(other, known): &(K, RouteTarget)| {
            *other == prefix && known.interface() == target.interface()
        };
        if prefixes.iter().any(known) {
            return false;
        }
        let at = prefixes.partition_point(|(other, _)| *other <= prefix);
        prefixes.insert(at, (prefix, target));
        true
    }

    /// The target on one of `within` of the longest prefix that contains `addr`.
    #[inline]
    fn lookup(&self, within: InterfaceSet, addr: K) -> Option<RouteTarget> {
        self.0.iter().find_map(|length| {
            let prefix = addr & length.mask;
            let at = length.prefixes.partition_point(|(other, _)| *other < prefix);
            length.prefixes[at..]
                .iter()
                .take_while(|(other, _)| *other == prefix)
                .map(|(_, target)| *target)
                .find(|target| within.contains(target.interface()))
        })
    }
}

/// Both families of one role.
#[derive(Debug)]
struct RoleRoutes {
    v4_blocks: Blocks,
    v4: Lpm<u32>,
    v6: Lpm<u128>,
}

impl RoleRoutes {
    fn new() -> Self {
        Self { v4_blocks: Blocks::new(), v4: Lpm::new(), v6: Lpm::new() }
    }

    fn insert(&mut self, prefix: IpPrefix, target: RouteTarget) -> bool {
        match prefix {
            IpPrefix::V4(prefix) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(prefix.len())).unwrap_or(0);
                self.v4.insert(mask, prefix.addr().to_bits(), target)
            }
            IpPrefix::V6(prefix) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(prefix.len())).unwrap_or(0);
                self.v6.insert(mask, prefix.addr().to_bits(), target)
            }
        }
    }
}

/// The routes of both roles.
#[derive(Debug)]
pub(crate) struct Routes {
    n3: RoleRoutes,
    n6: RoleRoutes,
}

impl Routes {
    /// Builds the tables. `gateway` gives the index of a gateway on an interface.
    pub(crate) fn build(
        interfaces: &[Interface],
        routes: &[Route],
        mut gateway: impl FnMut(InterfaceId, IpAddr) -> Option<NextHopIndex>,
    ) -> Result<Self, TablesError> {
        let mut built = Self { n3: RoleRoutes::new(), n6: RoleRoutes::new() };
        for interface in interfaces {
            built.insert_connected(interface)?;
        }
        for route in routes {
            let interface = interfaces
                .get(usize::from(route.interface.0))
                .ok_or(TablesError::UnknownInterface(*route))?;
            let index =
                gateway(interface.id, route.next_hop).ok_or(TablesError::TooManyGateways)?;
            built.insert(interface, route.prefix, RouteTarget::Gateway(interface.id, index))?;
        }
        for role in [&mut built.n3, &mut built.n6] {
            role.v4_blocks = Blocks::build(&role.v4);
        }
        Ok(built)
    }

    fn insert(
        &mut self,
        interface: &Interface,
        prefix: IpPrefix,
        target: RouteTarget,
    ) -> Result<(), TablesError> {
        let role = match interface.role {
            InterfaceRole::N3 => &mut self.n3,
            InterfaceRole::N6 => &mut self.n6,
        };
        role.insert(prefix, target).then_some(()).ok_or(TablesError::DuplicateRoute(prefix))
    }

    /// The connected prefixes; a host prefix connects nothing but ourselves.
    fn insert_connected(&mut self, interface: &Interface) -> Result<(), TablesError> {
        let on_link = RouteTarget::OnLink(interface.id);
        let nowhere_here = RouteTarget::Nowhere(interface.id);
        if let (Some(prefix), Some((own, _))) = (interface.v4_prefix(), interface.v4) {
            if prefix.len() < 32 {
                self.insert(interface, IpPrefix::V4(prefix), on_link)?;
            }
            let nowhere = [Some(own), reserved_v4(prefix)[0], reserved_v4(prefix)[1]];
            for addr in nowhere.into_iter().flatten() {
                if let Some(host) = Ipv4Prefix::containing(addr, 32) {
                    self.insert(interface, IpPrefix::V4(host), nowhere_here)?;
                }
            }
        }
        if let (Some(prefix), Some((own, _))) = (interface.v6_prefix(), interface.v6) {
            if prefix.len() < 128 {
                self.insert(interface, IpPrefix::V6(prefix), on_link)?;
            }
            if let Some(host) = Ipv6Prefix::containing(own, 128) {
                self.insert(interface, IpPrefix::V6(host), nowhere_here)?;
            }
        }
        Ok(())
    }

    /// The place of the target of `addr`'s block; see [`crate::View::network_block`].
    #[inline]
    pub(crate) fn network_block(&self, addr: Ipv4Addr) -> u8 {
        self.n6.v4_blocks.place(addr.to_bits())
    }

    /// The gateway towards a data network, where it is told by the upper 16 bits of an IPv4
    /// address; `None` says nothing.
    #[inline]
    pub(crate) fn network_gateway(
        &self,
        within: InterfaceSet,
        addr: IpAddr,
    ) -> Option<NextHopIndex> {
        match addr {
            IpAddr::V4(addr) => self.n6.v4_blocks.gateway(within, addr.to_bits()),
            IpAddr::V6(_) => None,
        }
    }

    /// The target of the longest prefix that contains `addr` among the routes of `role` through
    /// `within`, or `None` without any. Of several the one of the first interface.
    #[inline]
    pub(crate) fn lookup(
        &self,
        role: InterfaceRole,
        within: InterfaceSet,
        addr: IpAddr,
    ) -> Option<RouteTarget> {
        let routes = match role {
            InterfaceRole::N3 => &self.n3,
            InterfaceRole::N6 => &self.n6,
        };
        match addr {
            IpAddr::V4(addr) => {
                let addr = addr.to_bits();
                let whole = routes.v4_blocks.lookup(within, addr);
                whole.or_else(|| routes.v4.lookup(within, addr))
            }
            IpAddr::V6(addr) => routes.v6.lookup(within, addr.to_bits()),
        }
    }
}
