//! Longest-prefix match over connected prefixes and configured routes. Immutable once built: other
//! routes are other tables.
//!
//! GTP-U interfaces (N3, N9, N4-u) and N6 interfaces have separate tables: transport networks and
//! data networks may use the same addresses, and a default route of one must not catch the other's
//! packets. For the same reason one prefix may have a route per interface; a lookup names the
//! interfaces whose routes count.
//!
//! Only marks change: the publisher marks the blocks and areas of destinations that contain UEs,
//! and packets to these take a search.

use core::net::IpAddr;
use core::ops::{BitAnd, BitOr, Not};
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::collections::BTreeSet;

use adit_rules::NetworkPart;
use adit_types::{
    DomainId, InterfaceId, InterfaceRole, InterfaceSet, IpPrefix, Ipv4Prefix, Ipv6Prefix,
    NextHopIndex,
};

use crate::area_bits::{AREAS, AreaBits, area};
use crate::config::{Interface, Route, TablesError, networks, reserved_v4};
use crate::sync::Arc;
use crate::ues::UeTable;

/// Where packets to a prefix go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RouteTarget {
    /// To the destination itself, on this interface's link.
    OnLink(InterfaceId),
    /// To a gateway.
    Gateway(InterfaceId, NextHopIndex),
    /// Nowhere: our own, network and broadcast addresses on an interface's link.
    Nowhere(InterfaceId),
    /// Nowhere: an address of ours, for packets that may leave through one of these interfaces.
    Own(InterfaceSet),
}

impl RouteTarget {
    pub(crate) const fn interface(self) -> Option<InterfaceId> {
        match self {
            Self::OnLink(id) | Self::Gateway(id, _) | Self::Nowhere(id) => Some(id),
            Self::Own(_) => None,
        }
    }

    /// True if packets that may leave through `within` have this target.
    fn is_for(self, within: InterfaceSet) -> bool {
        match self {
            Self::OnLink(id) | Self::Gateway(id, _) | Self::Nowhere(id) => within.contains(id),
            Self::Own(interfaces) => !within.intersection(interfaces).is_empty(),
        }
    }

    /// True if one prefix cannot have both targets: it has one target per interface.
    fn excludes(self, other: Self) -> bool {
        match (self.interface(), other.interface()) {
            (None, None) => self == other,
            (one, other) => one == other,
        }
    }
}

/// Destinations of one prefix length.
#[derive(Debug)]
struct PrefixLength<K> {
    mask: K,
    /// By prefix, then in the order of insertion; one per prefix and interface.
    prefixes: Vec<(K, RouteTarget)>,
}

/// The prefixes of one family: longest first.
#[derive(Debug)]
struct Lpm<K>(Vec<PrefixLength<K>>);

/// Entries of [`Ipv4Blocks`]: one per /16.
const BLOCKS: usize = 1 << 16;

/// The number of a block without one gateway for all its destinations: packets take a search.
const SEARCH: u8 = 0;

/// The number of the first gateway that got one.
const FIRST: u8 = 1;

/// A gateway for each set of interfaces in [`Gateways::scopes`].
type ScopedGateways = Box<[Option<(InterfaceId, NextHopIndex)>]>;

/// Gateways that serve whole blocks of destinations.
#[derive(Debug)]
struct Gateways {
    /// Sets of interfaces that lookups name: first all interfaces, then those of each routing
    /// domain if there are several.
    scopes: Vec<InterfaceSet>,
    /// By number less one.
    numbered: Vec<ScopedGateways>,
}

impl Gateways {
    /// The number of the gateways that `lookup` finds, one per scope. New ones get the next number,
    /// or [`SEARCH`] if all numbers are taken.
    fn number(&mut self, lookup: impl Fn(InterfaceSet) -> Option<RouteTarget>) -> u8 {
        let gateway = |scope: &InterfaceSet| match lookup(*scope) {
            Some(RouteTarget::Gateway(interface, index)) => Some((interface, index)),
            _ => None,
        };
        let gateways: ScopedGateways = self.scopes.iter().map(gateway).collect();
        if gateways.iter().all(Option::is_none) {
            return SEARCH;
        }
        let known = self.numbered.iter().position(|known| *known == gateways);
        let number = known.map_or(self.numbered.len(), |at| at) + 1;
        match u8::try_from(number) {
            Ok(number) if known.is_none() => {
                self.numbered.push(gateways);
                number
            }
            number => number.unwrap_or(SEARCH),
        }
    }

    /// The gateway of a number among routes through `within`. The best gateway of a wider scope is
    /// also the best one of `within`, if it is on one of these interfaces.
    #[inline]
    fn find(&self, within: InterfaceSet, number: u8) -> Option<(InterfaceId, NextHopIndex)> {
        let gateways = self.numbered.get(usize::from(number).checked_sub(1)?)?;
        let all = *self.scopes.first()?;
        let within = within.intersection(all);
        self.scopes.iter().zip(gateways).find_map(|(scope, gateway)| {
            let is_wider = within.intersection(*scope) == within;
            gateway.filter(|(interface, _)| is_wider && within.contains(*interface))
        })
    }
}

/// The number of each /16 of IPv4: one load instead of a search. A block that a longer prefix or a
/// UE divides has [`SEARCH`]. 64 KiB.
struct Ipv4Blocks {
    /// By routes alone, as if there were no UEs.
    by_route: Box<[u8; BLOCKS]>,
    numbers: Box<[AtomicU8; BLOCKS]>,
    /// The blocks whose number is [`FIRST`]. 8 KiB stay in the L1 cache.
    first: AreaBits,
}

impl core::fmt::Debug for Ipv4Blocks {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Blocks").finish_non_exhaustive()
    }
}

impl Ipv4Blocks {
    fn new() -> Self {
        Self {
            by_route: Box::new([SEARCH; BLOCKS]),
            numbers: Box::new([const { AtomicU8::new(SEARCH) }; BLOCKS]),
            first: AreaBits::new(),
        }
    }

    fn build(lpm: &Lpm<u32>, gateways: &mut Gateways) -> Self {
        let mut built = Self::new();
        let spans = lpm.number_spans(16, gateways);
        let at = |start: u64| usize::try_from(start).unwrap_or(BLOCKS).min(BLOCKS);
        let ends = spans.iter().skip(1).map(|(start, _)| at(*start)).chain([BLOCKS]);
        for ((start, number), end) in spans.iter().zip(ends) {
            let blocks = at(*start)..end;
            if *number == FIRST {
                built.first.set_all(blocks.clone());
            }
            built.by_route[blocks.clone()].fill(*number);
            built.numbers[blocks].iter_mut().for_each(|cell| *cell.get_mut() = *number);
        }
        built
    }

    /// Marks a block that contains UEs, or removes the mark. For the one writer.
    fn mark(&self, block: u16, has_ues: bool) {
        let at = usize::from(block);
        let number = if has_ues { SEARCH } else { self.by_route[at] };
        self.numbers[at].store(number, Relaxed);
        self.first.set(block, number == FIRST);
    }

    /// The number of the gateway to `addr`.
    #[inline]
    fn number(&self, addr: u32) -> u8 {
        let at = block(addr);
        if self.first.has(at) { FIRST } else { self.numbers[usize::from(at)].load(Relaxed) }
    }
}

/// The numbers of IPv6 destinations, by the upper halves of their addresses. A span reaches from
/// one of `starts` to the next.
#[derive(Debug)]
struct Ipv6Spans {
    /// Ascending, without the first span's, which is zero.
    starts: Box<[u64]>,
    /// By span: one more than there are starts.
    numbers: Box<[u8]>,
    /// The number of most destinations.
    usual: u8,
    /// The areas in which all spans have the usual number.
    usual_by_route: AreaBits,
    /// The areas of `usual_by_route` without UEs. 8 KiB stay in the L1 cache.
    usual_areas: AreaBits,
    /// The areas with UEs.
    ue_areas: AreaBits,
}

impl Ipv6Spans {
    fn new() -> Self {
        Self::of(Vec::new(), vec![SEARCH])
    }

    fn of(starts: Vec<u64>, numbers: Vec<u8>) -> Self {
        let mut spans = Self {
            starts: starts.into(),
            numbers: numbers.into(),
            usual: SEARCH,
            usual_by_route: AreaBits::new(),
            usual_areas: AreaBits::new(),
            ue_areas: AreaBits::new(),
        };
        let width = |number: u8| -> u128 {
            let same = spans.each().filter(|span| span.2 == number);
            same.map(|(first, last, _)| u128::from(last - first) + 1).sum()
        };
        let gateways = spans.numbers.iter().copied().filter(|number| *number != SEARCH);
        if let Some(usual) = gateways.max_by_key(|number| width(*number)) {
            spans.usual = usual;
            spans.usual_by_route.set_all(0..AREAS);
            let others = spans.each().filter(|(_, _, number)| *number != usual);
            others.for_each(|(first, last, _)| spans.usual_by_route.clear(first, last));
            spans.usual_areas.copy(&spans.usual_by_route);
        }
        spans
    }

    /// First and last upper half of each span, and its number.
    fn each(&self) -> impl Iterator<Item = (u64, u64, u8)> {
        let firsts = [0].into_iter().chain(self.starts.iter().copied());
        let lasts = self.starts.iter().map(|start| start - 1).chain([u64::MAX]);
        firsts.zip(lasts).zip(&self.numbers).map(|((first, last), number)| (first, last, *number))
    }

    fn build(lpm: &Lpm<u128>, gateways: &mut Gateways) -> Self {
        let mut spans = lpm.number_spans(64, gateways);
        spans.dedup_by_key(|(_, number)| *number);
        let (starts, numbers): (Vec<u64>, Vec<u8>) = spans.into_iter().unzip();
        Self::of(starts.into_iter().skip(1).collect(), numbers)
    }

    /// Marks an area that contains UEs, or removes the mark. For the one writer.
    fn mark(&self, area: u16, has_ues: bool) {
        self.ue_areas.set(area, has_ues);
        self.usual_areas.set(area, !has_ues && self.usual_by_route.has(area));
    }

    /// The number of the gateway to addresses whose upper half is `upper`.
    ///
    /// Cost: one bit for destinations with the usual number; else a binary search over the borders
    ///       of the routes.
    #[inline]
    fn number(&self, upper: u64) -> u8 {
        let area = area(upper);
        if self.usual_areas.has(area) { self.usual } else { self.number_in(area, upper) }
    }

    #[inline(never)]
    fn number_in(&self, area: u16, upper: u64) -> u8 {
        if self.ue_areas.has(area) {
            return SEARCH;
        }
        let at = self.starts.partition_point(|start| *start <= upper);
        self.numbers.get(at).copied().unwrap_or(SEARCH)
    }
}

#[inline]
#[allow(clippy::cast_possible_truncation, reason = "the shift leaves 64 bits")]
const fn upper_half(addr: u128) -> u64 {
    (addr >> 64) as u64
}

#[inline]
#[allow(clippy::cast_possible_truncation, reason = "the shift leaves 16 bits")]
const fn block(addr: u32) -> u16 {
    (addr >> 16) as u16
}

impl<K> Lpm<K>
where
    K: Copy + Ord + BitAnd<Output = K> + BitOr<Output = K> + Not<Output = K>,
    K: Into<u128> + TryFrom<u128>,
{
    /// The numbers of units of 2^`unit_bits` destinations, by the first unit of each span in which
    /// they are equal, ascending from unit zero. A unit that longer prefixes divide has [`SEARCH`].
    ///
    /// Shape: neighbors among the spans may have the same number.
    fn number_spans(&self, unit_bits: u32, gateways: &mut Gateways) -> Vec<(u64, u8)> {
        let unit = |addr: K| u64::try_from(addr.into() >> unit_bits).unwrap_or(u64::MAX);
        let (mut divided, mut starts) = (BTreeSet::new(), BTreeSet::from([0]));
        for PrefixLength { mask, prefixes } in &self.0 {
            let is_within_unit = (*mask).into() & ((1 << unit_bits) - 1) != 0;
            for (prefix, _) in prefixes {
                let first = unit(*prefix);
                starts.insert(first);
                starts.extend(unit(*prefix | !*mask).checked_add(1));
                divided.extend(is_within_unit.then_some(first));
            }
        }
        let number = |start: u64| {
            // The unit after the last one has no address.
            let addr = K::try_from(u128::from(start) << unit_bits).ok()?;
            let number = match divided.contains(&start) {
                true => SEARCH,
                false => gateways.number(|scope| self.lookup(scope, addr)),
            };
            Some((start, number))
        };
        starts.into_iter().filter_map(number).collect()
    }
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
                self.0.insert(at, PrefixLength { mask, prefixes: Vec::new() });
                at
            }
        };
        let prefixes = &mut self.0[at].prefixes;
        let known = |(other, known): &(K, RouteTarget)| *other == prefix && known.excludes(target);
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
        self.find(within, addr).map(|(target, _)| target)
    }

    /// As [`Self::lookup`], with the mask of the prefix.
    #[inline]
    fn find(&self, within: InterfaceSet, addr: K) -> Option<(RouteTarget, K)> {
        self.0.iter().find_map(|length| {
            let target = length.find(within, addr & length.mask)?;
            Some((target, length.mask))
        })
    }

    /// True if exactly this prefix has a target on one of `within`.
    fn has(&self, within: InterfaceSet, prefix: K, mask: K) -> bool {
        let length = self.0.iter().find(|length| length.mask == mask);
        length.is_some_and(|length| length.find(within, prefix).is_some())
    }
}

impl<K: Copy + Ord> PrefixLength<K> {
    #[inline]
    fn find(&self, within: InterfaceSet, prefix: K) -> Option<RouteTarget> {
        let at = self.prefixes.partition_point(|(other, _)| *other < prefix);
        self.prefixes[at..]
            .iter()
            .take_while(|(other, _)| *other == prefix)
            .map(|(_, target)| *target)
            .find(|target| target.is_for(within))
    }
}

/// The routes of one kind of interface, both families.
#[derive(Debug)]
struct RoleRoutes {
    gateways: Gateways,
    v4_blocks: Ipv4Blocks,
    v6_spans: Ipv6Spans,
    v4: Lpm<u32>,
    v6: Lpm<u128>,
}

impl RoleRoutes {
    fn new() -> Self {
        Self {
            gateways: Gateways { scopes: Vec::new(), numbered: Vec::new() },
            v4_blocks: Ipv4Blocks::new(),
            v6_spans: Ipv6Spans::new(),
            v4: Lpm::new(),
            v6: Lpm::new(),
        }
    }

    /// Numbers the gateways of whole blocks, among the routes of each scope.
    fn number(&mut self, scopes: Vec<InterfaceSet>) {
        self.gateways.scopes = scopes;
        self.v4_blocks = Ipv4Blocks::build(&self.v4, &mut self.gateways);
        self.v6_spans = Ipv6Spans::build(&self.v6, &mut self.gateways);
    }

    fn insert(&mut self, prefix: IpPrefix, target: RouteTarget) -> bool {
        match prefix {
            IpPrefix::V4(prefix) => {
                self.v4.insert(mask_v4(prefix), prefix.addr().to_bits(), target)
            }
            IpPrefix::V6(prefix) => {
                self.v6.insert(mask_v6(prefix), prefix.addr().to_bits(), target)
            }
        }
    }
}

fn mask_v4(prefix: Ipv4Prefix) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(prefix.len())).unwrap_or(0)
}

fn mask_v6(prefix: Ipv6Prefix) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(prefix.len())).unwrap_or(0)
}

/// All N6 interfaces, and those of each routing domain if there are several.
fn scopes(interfaces: &[Interface]) -> Vec<InterfaceSet> {
    let n6 = interfaces.iter().filter(|interface| interface.role == InterfaceRole::N6);
    let last = n6.map(|interface| interface.domain.0).max().unwrap_or(0);
    let domains = (0..=last).filter(|_| last > 0).map(|domain| Some(DomainId(domain)));
    core::iter::once(None).chain(domains).map(|domain| networks(interfaces, domain)).collect()
}

/// The interfaces through which UEs could reach the addresses of `interface`: the N6 interfaces of
/// its routing domain, and for other roles all interfaces.
fn reachable_from(interfaces: &[Interface], interface: &Interface) -> InterfaceSet {
    match interface.role {
        InterfaceRole::N6 => networks(interfaces, Some(interface.domain)),
        _ => InterfaceSet::ALL,
    }
}

/// The interfaces, the routes through them, and the UEs of each routing domain.
#[derive(Debug)]
pub(crate) struct Routes {
    /// By `InterfaceId`. Those of later routes begin with these.
    pub(crate) interfaces: Box<[Interface]>,
    /// By routing domain; never empty. Those of later routes begin with these.
    pub(crate) ues: Box<[Arc<UeTable>]>,
    /// Differs from that of the routes before and after, for workers that keep the result of a
    /// lookup.
    version: u16,
    /// The next hops that routes name, each once.
    gateways: Vec<NextHopIndex>,
    /// Through GTP-U interfaces.
    gtpu: RoleRoutes,
    n6: RoleRoutes,
}

impl Routes {
    /// Builds routes. `own_addrs` are our addresses in addition to those of `interfaces`; `gateway`
    /// returns the index of a gateway on an interface.
    pub(crate) fn build(
        interfaces: &[Interface],
        ues: Box<[Arc<UeTable>]>,
        own_addrs: &[IpAddr],
        routes: &[Route],
        mut gateway: impl FnMut(InterfaceId, IpAddr) -> Option<NextHopIndex>,
    ) -> Result<Self, TablesError> {
        let mut built = Self {
            interfaces: interfaces.into(),
            ues,
            version: 0,
            gateways: Vec::new(),
            gtpu: RoleRoutes::new(),
            n6: RoleRoutes::new(),
        };
        own_addrs.iter().for_each(|addr| built.insert_own(*addr, InterfaceSet::ALL));
        for interface in interfaces {
            let reachable = reachable_from(interfaces, interface);
            interface.addrs().for_each(|addr| built.insert_own(addr, reachable));
        }
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
            if !built.gateways.contains(&index) {
                built.gateways.push(index);
            }
        }
        built.gtpu.number(vec![InterfaceSet::ALL]);
        built.n6.number(scopes(interfaces));
        Ok(built)
    }

    fn insert(
        &mut self,
        interface: &Interface,
        prefix: IpPrefix,
        target: RouteTarget,
    ) -> Result<(), TablesError> {
        let routes = match interface.role.is_gtpu() {
            true => &mut self.gtpu,
            false => &mut self.n6,
        };
        routes.insert(prefix, target).then_some(()).ok_or(TablesError::DuplicateRoute(prefix))
    }

    /// Keeps packets of UEs that may leave through one of `within` from an address of ours. No
    /// gateway then serves the whole block around it, so its packets take the stages. Call it
    /// before all other inserts: the first target of a prefix wins.
    fn insert_own(&mut self, addr: IpAddr, within: InterfaceSet) {
        let host = match addr {
            IpAddr::V4(addr) => Ipv4Prefix::containing(addr, 32).map(IpPrefix::V4),
            IpAddr::V6(addr) => Ipv6Prefix::containing(addr, 128).map(IpPrefix::V6),
        };
        // Fails for an address that two interfaces share, which is inserted already.
        host.map(|host| self.n6.insert(host, RouteTarget::Own(within)));
    }

    /// Inserts the connected prefixes; a host prefix contains no other station. Behind an only
    /// station, connected destinations take routes as others do.
    fn insert_connected(&mut self, interface: &Interface) -> Result<(), TablesError> {
        let on_link = RouteTarget::OnLink(interface.id);
        let nowhere_here = RouteTarget::Nowhere(interface.id);
        let has_neighbors = interface.station.is_none();
        if let (Some(prefix), Some((own, _))) = (interface.v4_prefix(), interface.v4) {
            if prefix.len() < 32 && has_neighbors {
                self.insert(interface, IpPrefix::V4(prefix), on_link)?;
            }
            let reserved = reserved_v4(prefix).map(|addr| addr.filter(|_| has_neighbors));
            let nowhere = [Some(own), reserved[0], reserved[1]];
            for addr in nowhere.into_iter().flatten() {
                if let Some(host) = Ipv4Prefix::containing(addr, 32) {
                    self.insert(interface, IpPrefix::V4(host), nowhere_here)?;
                }
            }
        }
        if let (Some(prefix), Some((own, _))) = (interface.v6_prefix(), interface.v6) {
            if prefix.len() < 128 && has_neighbors {
                self.insert(interface, IpPrefix::V6(prefix), on_link)?;
            }
            if let Some(host) = Ipv6Prefix::containing(own, 128) {
                self.insert(interface, IpPrefix::V6(host), nowhere_here)?;
            }
        }
        Ok(())
    }

    /// The number of these routes among all that there were.
    pub(crate) const fn version(&self) -> u16 {
        self.version
    }

    /// These routes take the place of `former`.
    pub(crate) const fn take_place_of(&mut self, former: &Self) {
        self.version = former.version.wrapping_add(1);
    }

    /// The next hops that routes name, each once.
    pub(crate) fn gateways(&self) -> &[NextHopIndex] {
        &self.gateways
    }

    /// The number of the gateways to a part of the data networks, zero for packets that take a
    /// search.
    pub(crate) fn gateway_of(&self, part: NetworkPart) -> u8 {
        match part {
            NetworkPart::V4(block) => self.n6.v4_blocks.number(u32::from(block) << 16),
            NetworkPart::V6(area) => match &self.n6.v6_spans {
                spans if spans.usual_areas.has(area) => spans.usual,
                _ => SEARCH,
            },
        }
    }

    /// Marks an IPv4 block of data networks that contains UEs, or removes the mark: packets to a
    /// marked block take a search. For the one writer.
    pub(crate) fn mark_v4(&self, block: u16, has_ues: bool) {
        self.n6.v4_blocks.mark(block, has_ues);
    }

    /// As [`Self::mark_v4`], for an area of IPv6 addresses.
    pub(crate) fn mark_v6(&self, area: u16, has_ues: bool) {
        self.n6.v6_spans.mark(area, has_ues);
    }

    /// True if a data network behind one of `within` has a route to exactly this prefix.
    pub(crate) fn has_network_route(&self, within: InterfaceSet, prefix: IpPrefix) -> bool {
        match prefix {
            IpPrefix::V4(prefix) => {
                self.n6.v4.has(within, prefix.addr().to_bits(), mask_v4(prefix))
            }
            IpPrefix::V6(prefix) => {
                self.n6.v6.has(within, prefix.addr().to_bits(), mask_v6(prefix))
            }
        }
    }

    /// True if one gateway on `within` serves the whole block of `addr`, and no UE is in it.
    #[inline]
    pub(crate) fn is_beyond_gateway(&self, within: InterfaceSet, addr: IpAddr) -> bool {
        let block = match addr {
            IpAddr::V4(addr) => self.network_block_v4(addr.to_bits()),
            IpAddr::V6(addr) => self.network_block_v6(upper_half(addr.to_bits())),
        };
        self.block_gateway(within, block).is_some()
    }

    /// The target of the longest prefix that contains `addr`, among routes of data networks through
    /// `within`, and the length of that prefix.
    pub(crate) fn search_networks(
        &self,
        within: InterfaceSet,
        addr: IpAddr,
    ) -> Option<(RouteTarget, u32)> {
        match addr {
            IpAddr::V4(addr) => {
                let (target, mask) = self.n6.v4.find(within, addr.to_bits())?;
                Some((target, mask.count_ones()))
            }
            IpAddr::V6(addr) => {
                let (target, mask) = self.n6.v6.find(within, addr.to_bits())?;
                Some((target, mask.count_ones()))
            }
        }
    }

    /// See [`crate::TablesView::network_block_v4`].
    #[inline]
    pub(crate) fn network_block_v4(&self, addr: u32) -> u8 {
        self.n6.v4_blocks.number(addr)
    }

    /// See [`crate::TablesView::network_block_v6`].
    #[inline]
    pub(crate) fn network_block_v6(&self, upper: u64) -> u8 {
        self.n6.v6_spans.number(upper)
    }

    /// See [`crate::TablesView::block_gateway`].
    #[inline]
    pub(crate) fn block_gateway(&self, within: InterfaceSet, block: u8) -> Option<NextHopIndex> {
        self.n6.gateways.find(within, block).map(|(_, index)| index)
    }

    /// The target of the longest prefix that contains `addr`, among routes through `within`: of
    /// GTP-U interfaces if `role` is one of theirs, else of N6 interfaces. If there are several
    /// targets, that of the first interface is returned. `None` without a route.
    #[inline]
    pub(crate) fn lookup(
        &self,
        role: InterfaceRole,
        within: InterfaceSet,
        addr: IpAddr,
    ) -> Option<RouteTarget> {
        let routes = if role.is_gtpu() { &self.gtpu } else { &self.n6 };
        let block = match addr {
            IpAddr::V4(addr) => routes.v4_blocks.number(addr.to_bits()),
            IpAddr::V6(addr) => routes.v6_spans.number(upper_half(addr.to_bits())),
        };
        if let Some((interface, index)) = routes.gateways.find(within, block) {
            return Some(RouteTarget::Gateway(interface, index));
        }
        match addr {
            IpAddr::V4(addr) => routes.v4.lookup(within, addr.to_bits()),
            IpAddr::V6(addr) => routes.v6.lookup(within, addr.to_bits()),
        }
    }
}
