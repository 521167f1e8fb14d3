//! Longest-prefix match over connected prefixes and configured routes. Immutable once built:
//! changed routes are new tables.
//!
//! GTP-U interfaces (N3, N9, N4-u) and N6 interfaces have separate tables: transport networks and
//! data networks may use the same addresses, and a default route of one kind must not apply to
//! packets of the other. For the same reason one prefix may have a route per interface, and a
//! lookup names the interfaces whose routes it considers.
//!
//! Only marks change: the publisher marks the blocks and areas of destinations that contain UEs.
//! There, lookups search all prefixes.
//!
//! A *gateway number* stands for the gateways, one per set of interfaces, of a whole block.

use core::net::IpAddr;
use core::ops::{BitAnd, BitOr, Not};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::collections::BTreeSet;

use adit_rules::NetworkPart;
use adit_types::{
    DomainId, InterfaceId, InterfaceRole, InterfaceSet, IpPrefix, Ipv4Prefix, Ipv6Prefix,
    NextHopIndex,
};

use crate::area_bits::{AREA_COUNT, AreaBits, area};
use crate::config::{Interface, Route, TablesError, n6_interfaces, reserved_v4};
use crate::route_table::RouteTable;
use crate::route_value::RouteValue;
use crate::sync::Arc;
use crate::ues::UeTable;

mod with_tables;

pub(crate) use with_tables::ChangedParts;

/// The target of packets to a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RouteTarget {
    /// To the destination itself, on this interface's link.
    OnLink(InterfaceId),
    /// To a gateway.
    Gateway(InterfaceId, NextHopIndex),
    /// Nowhere: our own address, or a network or broadcast address, on an interface's link.
    Nowhere(InterfaceId),
    /// Nowhere: an address of ours, for packets that may leave through one of these interfaces.
    Own(InterfaceSet),
    /// To one of the next hops of a group.
    Group(u16),
    /// Nowhere: packets of the route are dropped silently.
    Blackhole,
    /// Nowhere: the route says that there is no way.
    Unreachable,
}

impl From<RouteValue> for RouteTarget {
    #[inline]
    fn from(value: RouteValue) -> Self {
        match value {
            RouteValue::Gateway(interface, index) => Self::Gateway(interface, index),
            RouteValue::OnLink(interface) => Self::OnLink(interface),
            RouteValue::Group(group) => Self::Group(group),
            RouteValue::Blackhole => Self::Blackhole,
            RouteValue::Unreachable => Self::Unreachable,
        }
    }
}

impl RouteTarget {
    pub(crate) const fn interface(self) -> Option<InterfaceId> {
        match self {
            Self::OnLink(id) | Self::Gateway(id, _) | Self::Nowhere(id) => Some(id),
            Self::Own(_) | Self::Group(_) | Self::Blackhole | Self::Unreachable => None,
        }
    }

    /// True if this target applies to packets that may leave through `within`.
    fn is_for(self, within: InterfaceSet) -> bool {
        match self {
            Self::OnLink(id) | Self::Gateway(id, _) | Self::Nowhere(id) => within.contains(id),
            Self::Own(interfaces) => !within.intersection(interfaces).is_empty(),
            // Only route tables have these, which decide themselves.
            Self::Group(_) | Self::Blackhole | Self::Unreachable => true,
        }
    }

    /// True if one prefix cannot have both targets, as it has at most one target per interface.
    fn excludes(self, other: Self) -> bool {
        match (self.interface(), other.interface()) {
            (None, None) => self == other,
            (one, other) => one == other,
        }
    }
}

/// All prefixes of one length.
#[derive(Debug)]
struct PrefixLength<K> {
    mask: K,
    /// Sorted by prefix, then in the order of insertion; one entry per prefix and interface.
    prefixes: Vec<(K, RouteTarget)>,
}

/// The prefixes of one address family, longest first.
#[derive(Debug)]
struct Lpm<K>(Vec<PrefixLength<K>>);

/// Number of IPv4 blocks, each a /16.
const IPV4_BLOCKS: usize = 1 << 16;

/// The gateway number of a block that no single gateway serves: lookups search the prefixes.
const NO_BLOCK_GATEWAY: u8 = 0;

/// The lowest gateway number.
const FIRST_GATEWAY: u8 = 1;

/// Gateways that serve whole blocks of destinations, by number.
#[derive(Debug)]
struct Gateways {
    /// The sets of interfaces that lookups use: first all N6 interfaces, then those of each routing
    /// domain if there are several.
    scopes: Vec<InterfaceSet>,
    /// By gateway number less one, then by scope: a [`gateway_word`], or zero without a gateway. A
    /// word is written once.
    words: Box<[AtomicU64]>,
    /// Count of gateway numbers in use.
    used: AtomicU8,
}

/// Returns a gateway as one word, which is not zero.
const fn gateway_word(interface: InterfaceId, index: NextHopIndex) -> u64 {
    1 << 63 | (interface.0 as u64) << 32 | index.0 as u64
}

#[inline]
#[allow(clippy::cast_possible_truncation, reason = "parts of a word")]
fn gateway_of_word(word: u64) -> Option<(InterfaceId, NextHopIndex)> {
    (word != 0).then_some((InterfaceId((word >> 32) as u8), NextHopIndex(word as u32)))
}

impl Gateways {
    fn new(scopes: Vec<InterfaceSet>) -> Self {
        let words = scopes.len() * usize::from(u8::MAX);
        Self {
            scopes,
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
            used: AtomicU8::new(0),
        }
    }

    /// Returns the number of the gateways that `lookup` finds, one per scope. New gateways get the
    /// next number, or [`NO_BLOCK_GATEWAY`] if all numbers are in use. For the writer only.
    fn number(&self, lookup: impl Fn(InterfaceSet) -> Option<RouteTarget>) -> u8 {
        let gateway = |scope: &InterfaceSet| match lookup(*scope) {
            Some(RouteTarget::Gateway(interface, index)) => gateway_word(interface, index),
            _ => 0,
        };
        let gateways: Vec<u64> = self.scopes.iter().map(gateway).collect();
        if gateways.iter().all(|word| *word == 0) {
            return NO_BLOCK_GATEWAY;
        }
        let used = self.used.load(Relaxed);
        let is_known = |number: &u8| {
            self.words_of(*number).is_some_and(|known| {
                known.iter().zip(&gateways).all(|(known, word)| known.load(Relaxed) == *word)
            })
        };
        if let Some(number) = (1..=used).find(is_known) {
            return number;
        }
        let Some(number) = used.checked_add(1) else { return NO_BLOCK_GATEWAY };
        for (cell, word) in self.words_of(number).unwrap_or_default().iter().zip(gateways) {
            cell.store(word, Relaxed);
        }
        self.used.store(number, Relaxed);
        number
    }

    #[inline]
    fn words_of(&self, number: u8) -> Option<&[AtomicU64]> {
        let first = usize::from(number).checked_sub(1)? * self.scopes.len();
        self.words.get(first..first + self.scopes.len())
    }

    /// Returns the gateway with `number` among routes through `within`. The best gateway of a wider
    /// scope is also the best one of `within` if it is on one of these interfaces.
    #[inline]
    fn find(&self, within: InterfaceSet, number: u8) -> Option<(InterfaceId, NextHopIndex)> {
        let gateways = self.words_of(number)?;
        let all = *self.scopes.first()?;
        let within = within.intersection(all);
        self.scopes.iter().zip(gateways).find_map(|(scope, gateway)| {
            let is_wider = within.intersection(*scope) == within;
            let gateway = gateway_of_word(gateway.load(Relaxed));
            gateway.filter(|(interface, _)| is_wider && within.contains(*interface))
        })
    }
}

/// The gateway number of each /16 of IPv4, found by one load instead of a search. A block that a
/// longer prefix or a UE divides has [`NO_BLOCK_GATEWAY`]. 64 KiB.
struct Ipv4Blocks {
    /// Gateway numbers by routes only, as if there were no UEs.
    by_route: Box<[AtomicU8; IPV4_BLOCKS]>,
    numbers: Box<[AtomicU8; IPV4_BLOCKS]>,
    /// The blocks with UEs.
    ue_blocks: AreaBits,
    /// The blocks that longer prefixes of the configuration divide.
    divided: AreaBits,
    /// The blocks with configured routes other than the one to all destinations.
    touched: AreaBits,
    /// The blocks whose gateway number is [`FIRST_GATEWAY`]. Its 8 KiB stay in the L1 cache.
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
            by_route: Box::new([const { AtomicU8::new(NO_BLOCK_GATEWAY) }; IPV4_BLOCKS]),
            numbers: Box::new([const { AtomicU8::new(NO_BLOCK_GATEWAY) }; IPV4_BLOCKS]),
            ue_blocks: AreaBits::new(),
            divided: AreaBits::new(),
            touched: AreaBits::new(),
            first: AreaBits::new(),
        }
    }

    fn build(lpm: &Lpm<u32>, gateways: &Gateways) -> Self {
        let mut built = Self::new();
        for PrefixLength { mask, prefixes } in lpm.0.iter().filter(|length| length.mask != 0) {
            for (prefix, _) in prefixes {
                let blocks = usize::from(block(*prefix))..=usize::from(block(*prefix | !*mask));
                built.touched.set_all(*blocks.start()..*blocks.end() + 1);
                if mask & 0xffff != 0 {
                    built.divided.set(block(*prefix), true);
                }
            }
        }
        let spans = lpm.number_spans(16, gateways);
        let at = |start: u64| usize::try_from(start).unwrap_or(IPV4_BLOCKS).min(IPV4_BLOCKS);
        let ends = spans.iter().skip(1).map(|(start, _)| at(*start)).chain([IPV4_BLOCKS]);
        for ((start, number), end) in spans.iter().zip(ends) {
            let blocks = at(*start)..end;
            if *number == FIRST_GATEWAY {
                built.first.set_all(blocks.clone());
            }
            built.by_route[blocks.clone()].iter_mut().for_each(|cell| *cell.get_mut() = *number);
            built.numbers[blocks].iter_mut().for_each(|cell| *cell.get_mut() = *number);
        }
        built
    }

    /// Marks a block that contains UEs, or removes the mark. For the writer only.
    fn mark(&self, block: u16, has_ues: bool) {
        self.ue_blocks.set(block, has_ues);
        let number = self.by_route[usize::from(block)].load(Relaxed);
        self.set_number(block, number);
    }

    /// Sets the gateway number of a block by routes only. Returns true if packets notice it. For
    /// the writer only.
    fn set_number(&self, block: u16, by_route: u8) -> bool {
        let at = usize::from(block);
        self.by_route[at].store(by_route, Relaxed);
        let number = if self.ue_blocks.has(block) { NO_BLOCK_GATEWAY } else { by_route };
        let is_change = self.numbers[at].load(Relaxed) != number;
        self.numbers[at].store(number, Relaxed);
        self.first.set(block, number == FIRST_GATEWAY);
        is_change
    }

    /// Returns the gateway number of the block of `addr`.
    #[inline]
    fn number(&self, addr: u32) -> u8 {
        let at = block(addr);
        if self.first.has(at) { FIRST_GATEWAY } else { self.numbers[usize::from(at)].load(Relaxed) }
    }
}

/// The gateway numbers of IPv6 destinations by the upper halves of their addresses. A span of
/// destinations with one number reaches from one of `starts` to the next.
#[derive(Debug)]
struct Ipv6Spans {
    /// In ascending order, without the start of the first span, which is zero.
    starts: Box<[u64]>,
    /// Gateway number of each span; there is one span more than `starts`.
    numbers: Box<[u8]>,
    /// The gateway number of most destinations.
    usual: u8,
    /// The areas in which all spans have the usual number.
    usual_by_route: AreaBits,
    /// The areas of `usual_by_route` without UEs. Its 8 KiB stay in the L1 cache.
    usual_areas: AreaBits,
    /// The areas with UEs.
    ue_areas: AreaBits,
    /// True if route tables have routes of this family: packets search the prefixes.
    has_table_routes: AtomicBool,
}

impl Ipv6Spans {
    fn new() -> Self {
        Self::of(Vec::new(), vec![NO_BLOCK_GATEWAY])
    }

    fn of(starts: Vec<u64>, numbers: Vec<u8>) -> Self {
        let mut spans = Self {
            starts: starts.into(),
            numbers: numbers.into(),
            usual: NO_BLOCK_GATEWAY,
            usual_by_route: AreaBits::new(),
            usual_areas: AreaBits::new(),
            ue_areas: AreaBits::new(),
            has_table_routes: AtomicBool::new(false),
        };
        let width = |number: u8| -> u128 {
            let same = spans.each().filter(|span| span.2 == number);
            same.map(|(first, last, _)| u128::from(last - first) + 1).sum()
        };
        let gateways = spans.numbers.iter().copied().filter(|number| *number != NO_BLOCK_GATEWAY);
        if let Some(usual) = gateways.max_by_key(|number| width(*number)) {
            spans.usual = usual;
            spans.usual_by_route.set_all(0..AREA_COUNT);
            let others = spans.each().filter(|(_, _, number)| *number != usual);
            others.for_each(|(first, last, _)| spans.usual_by_route.clear(first, last));
            spans.usual_areas.copy(&spans.usual_by_route);
        }
        spans
    }

    /// Returns the first and the last upper half in each span, and its gateway number.
    fn each(&self) -> impl Iterator<Item = (u64, u64, u8)> {
        let firsts = [0].into_iter().chain(self.starts.iter().copied());
        let lasts = self.starts.iter().map(|start| start - 1).chain([u64::MAX]);
        firsts.zip(lasts).zip(&self.numbers).map(|((first, last), number)| (first, last, *number))
    }

    fn build(lpm: &Lpm<u128>, gateways: &Gateways) -> Self {
        let mut spans = lpm.number_spans(64, gateways);
        spans.dedup_by_key(|(_, number)| *number);
        let (starts, numbers): (Vec<u64>, Vec<u8>) = spans.into_iter().unzip();
        Self::of(starts.into_iter().skip(1).collect(), numbers)
    }

    /// Marks an area that contains UEs, or removes the mark. For the writer only.
    fn mark(&self, area: u16, has_ues: bool) {
        self.ue_areas.set(area, has_ues);
        let is_usual = !self.has_table_routes.load(Relaxed) && self.usual_by_route.has(area);
        self.usual_areas.set(area, !has_ues && is_usual);
    }

    /// Makes all packets search the prefixes, or ends that. Returns true if packets notice it. For
    /// the writer only.
    fn set_table_routes(&self, has_routes: bool) -> bool {
        if self.has_table_routes.swap(has_routes, Relaxed) == has_routes {
            return false;
        }
        for area in 0..=u16::MAX {
            self.mark(area, self.ue_areas.has(area));
        }
        true
    }

    /// Returns the gateway number of addresses whose upper half is `upper`.
    ///
    /// Cost: one bit for destinations with the usual number; else a binary search over the borders
    ///       of the spans.
    #[inline]
    fn number(&self, upper: u64) -> u8 {
        let area = area(upper);
        if self.usual_areas.has(area) { self.usual } else { self.number_in(area, upper) }
    }

    #[inline(never)]
    fn number_in(&self, area: u16, upper: u64) -> u8 {
        if self.ue_areas.has(area) || self.has_table_routes.load(Relaxed) {
            return NO_BLOCK_GATEWAY;
        }
        let at = self.starts.partition_point(|start| *start <= upper);
        self.numbers.get(at).copied().unwrap_or(NO_BLOCK_GATEWAY)
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
    /// Returns the gateway numbers of all units of 2^`unit_bits` destinations: for each span of
    /// units with one number, its first unit and the number, in ascending order from unit zero. A
    /// unit that longer prefixes divide has [`NO_BLOCK_GATEWAY`].
    ///
    /// Shape: adjacent spans may have the same number.
    fn number_spans(&self, unit_bits: u32, gateways: &Gateways) -> Vec<(u64, u8)> {
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
            // The start after the last unit is no address.
            let addr = K::try_from(u128::from(start) << unit_bits).ok()?;
            let number = match divided.contains(&start) {
                true => NO_BLOCK_GATEWAY,
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

    /// Adds a prefix. Returns false if the prefix already has a target on the same interface.
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

    /// Returns the target on one of `within` of the longest prefix that contains `addr`.
    #[inline]
    fn lookup(&self, within: InterfaceSet, addr: K) -> Option<RouteTarget> {
        self.find(within, addr).map(|(target, _)| target)
    }

    /// Returns the target as [`Self::lookup`] does, and the mask of its prefix.
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

/// The routes through GTP-U interfaces, or through N6 interfaces, of both address families.
#[derive(Debug)]
struct RoleRoutes {
    gateways: Gateways,
    v4_blocks: Ipv4Blocks,
    v6_spans: Ipv6Spans,
    v4: Lpm<u32>,
    v6: Lpm<u128>,
    /// The IPv6 areas with configured routes other than the one to all destinations.
    v6_touched: AreaBits,
    /// The route tables of these interfaces.
    tables: Vec<RouteTable>,
}

impl RoleRoutes {
    fn new() -> Self {
        Self {
            gateways: Gateways::new(Vec::new()),
            v4_blocks: Ipv4Blocks::new(),
            v6_spans: Ipv6Spans::new(),
            v4: Lpm::new(),
            v6: Lpm::new(),
            v6_touched: AreaBits::new(),
            tables: Vec::new(),
        }
    }

    /// Assigns gateway numbers to whole blocks, by the routes of each scope.
    fn number(&mut self, scopes: Vec<InterfaceSet>) {
        self.gateways = Gateways::new(scopes);
        self.v4_blocks = Ipv4Blocks::build(&self.v4, &self.gateways);
        self.v6_spans = Ipv6Spans::build(&self.v6, &self.gateways);
        for PrefixLength { mask, prefixes } in self.v6.0.iter().filter(|length| length.mask != 0) {
            for (prefix, _) in prefixes {
                match mask.count_ones() >= 48 {
                    true => self.v6_touched.set(area(upper_half(*prefix)), true),
                    false => self.v6_touched.set_all(0..AREA_COUNT),
                }
            }
        }
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

/// Returns the set of all N6 interfaces, and the set of each routing domain if there are several.
fn scopes(interfaces: &[Interface]) -> Vec<InterfaceSet> {
    let n6 = interfaces.iter().filter(|interface| interface.role == InterfaceRole::N6);
    let last = n6.map(|interface| interface.domain.0).max().unwrap_or(0);
    let domains = (0..=last).filter(|_| last > 0).map(|domain| Some(DomainId(domain)));
    core::iter::once(None).chain(domains).map(|domain| n6_interfaces(interfaces, domain)).collect()
}

/// Returns the interfaces through which UEs could reach the addresses of `interface`: the N6
/// interfaces of its routing domain, or all interfaces if it has another role.
fn reachable_from(interfaces: &[Interface], interface: &Interface) -> InterfaceSet {
    match interface.role {
        InterfaceRole::N6 => n6_interfaces(interfaces, Some(interface.domain)),
        _ => InterfaceSet::ALL,
    }
}

/// The interfaces, the routes through them, and the UEs of each routing domain.
#[derive(Debug)]
pub(crate) struct Routes {
    /// By `InterfaceId`. The interfaces of later routes begin with these.
    pub(crate) interfaces: Box<[Interface]>,
    /// By routing domain; never empty. The domains of later routes begin with these.
    pub(crate) ues: Box<[Arc<UeTable>]>,
    /// Differs between successive routes, so that workers notice when a result that they kept is
    /// outdated.
    version: u16,
    /// The next hops that routes name, each once.
    gateways: Vec<NextHopIndex>,
    /// Routes through GTP-U interfaces.
    gtpu: RoleRoutes,
    n6: RoleRoutes,
}

impl Routes {
    /// Builds routes. `own_addrs` are our addresses in addition to those of `interfaces`; `gateway`
    /// returns the next-hop index of a gateway on an interface.
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

    /// Makes `addr` an address of ours that UEs cannot reach through any of `within`. No gateway
    /// then serves the whole block around it, so packets to the block take the stages. Call it
    /// before all other inserts: the first target of a prefix wins.
    fn insert_own(&mut self, addr: IpAddr, within: InterfaceSet) {
        let host = IpPrefix::containing(addr, if addr.is_ipv4() { 32 } else { 128 });
        // Fails, harmlessly, for an address of two interfaces, which is inserted already.
        host.map(|host| self.n6.insert(host, RouteTarget::Own(within)));
    }

    /// Inserts the connected prefixes; a host prefix contains no other station. If the link has
    /// only one other station, connected destinations get no prefix: they take configured routes.
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

    /// Returns a number that differs between successive routes.
    pub(crate) const fn version(&self) -> u16 {
        self.version
    }

    /// Makes these routes the successor of `former`.
    pub(crate) const fn set_version_after(&mut self, former: &Self) {
        self.version = former.version.wrapping_add(1);
    }

    /// Returns the next hops that routes name, each once.
    pub(crate) fn gateways(&self) -> &[NextHopIndex] {
        &self.gateways
    }

    /// Returns the gateway number of a part of the data networks, or zero if lookups have to
    /// search.
    pub(crate) fn gateway_of(&self, part: NetworkPart) -> u8 {
        match part {
            NetworkPart::V4(block) => self.n6.v4_blocks.number(u32::from(block) << 16),
            NetworkPart::V6(area) => match &self.n6.v6_spans {
                spans if spans.usual_areas.has(area) => spans.usual,
                _ => NO_BLOCK_GATEWAY,
            },
        }
    }

    /// Marks an IPv4 block of data networks that contains UEs, so that lookups search, or removes
    /// the mark. For the writer only.
    pub(crate) fn mark_v4(&self, block: u16, has_ues: bool) {
        self.n6.v4_blocks.mark(block, has_ues);
    }

    /// Does [`Self::mark_v4`] for an area of IPv6 addresses.
    pub(crate) fn mark_v6(&self, area: u16, has_ues: bool) {
        self.n6.v6_spans.mark(area, has_ues);
    }

    /// True if there is a route to exactly this prefix through one of `within` to a data network.
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

    /// Returns the target of the longest prefix that contains `addr`, among routes of data networks
    /// through `within`, and the length of this prefix.
    pub(crate) fn search_networks(
        &self,
        within: InterfaceSet,
        addr: IpAddr,
    ) -> Option<(RouteTarget, u32)> {
        self.n6.search(within, addr)
    }

    /// See [`crate::TablesView::network_block_v4`].
    #[inline]
    pub(crate) fn network_block_v4(&self, addr: u32) -> u8 {
        match self.n6.v4_blocks.first.has(block(addr)) {
            true => FIRST_GATEWAY,
            false => self.n6.other_block_v4(addr),
        }
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

    /// Returns the target of the longest prefix that contains `addr`, among routes through
    /// `within`: of GTP-U interfaces if `role` is a GTP-U role, else of N6 interfaces. If the
    /// prefix has several targets, the first one. `None` if no prefix contains `addr`.
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
        routes.search(within, addr).map(|(target, _)| target)
    }
}
