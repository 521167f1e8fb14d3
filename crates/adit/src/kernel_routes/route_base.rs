//! The kernel's routes through the interfaces of one route table, and the best one of each prefix.
//!
//! The lowest metric wins; a route all of whose links are down loses to any other. A static
//! `[[route]]` with the same or a lower metric keeps its prefix.
//!
//! Work that concerns all routes, after a dump or a change of a link, goes on in steps
//! ([`RouteBase::continue_scan`]), so that the control thread answers its peers meanwhile.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::ops::Bound::{Excluded, Unbounded};

use adit_kernel::{
    DeviceState, KernelHop, KernelRoute, KernelRouteEvent, KernelRouteKey, KernelRouteTarget,
};
use adit_tables::{RouteAction, RouteChange, RouteHop};
use adit_types::limits::ROUTE_HOPS_MAX;
use adit_types::{InterfaceId, InterfaceSet, IpPrefix};

use super::interned::{Interned, SharedId};

/// Routes of the kernel that one route table takes: the oldest ones stay.
pub(crate) const KERNEL_ROUTES_MAX: usize = 1_200_000;

/// The number of routes that the kernel made itself.
const PROTOCOL_KERNEL: u8 = 2;

/// An interface whose routes the kernel has.
#[derive(Debug, Clone)]
pub(crate) struct FollowedInterface {
    pub id: InterfaceId,
    /// The kernel's device.
    pub device: String,
    /// The prefixes of its link.
    pub connected: Vec<IpPrefix>,
}

/// The configuration that routes depend on.
#[derive(Debug, Clone, Default)]
pub(crate) struct RouteBaseConfig {
    pub interfaces: Vec<FollowedInterface>,
    /// Our addresses: no router.
    pub own_addrs: Vec<IpAddr>,
    /// Pools of the routing domain: UEs are no routers.
    pub ue_pools: Vec<IpPrefix>,
    /// Static routes, with their metrics.
    pub statics: HashMap<IpPrefix, u32>,
}

/// Why a route of the kernel is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnusedReason {
    /// More routes than a table takes.
    Limit,
    /// A router is a UE.
    UeAsRouter,
    /// A router is Adit itself.
    OwnAddressAsRouter,
    /// More hops than a route may have; the first ones are used.
    Hops,
    /// The tables refuse it.
    Refused(adit_tables::RouteRefusal),
}

impl std::fmt::Display for UnusedReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Limit => write!(f, "more than {KERNEL_ROUTES_MAX} routes: the oldest stay"),
            Self::UeAsRouter => f.write_str("its router is an address of a UE"),
            Self::OwnAddressAsRouter => f.write_str("its router is an address of adit"),
            Self::Hops => write!(f, "it has more than {ROUTE_HOPS_MAX} hops: the first are used"),
            Self::Refused(refusal) => refusal.fmt(f),
        }
    }
}

impl UnusedReason {
    /// Returns true for reasons that are counted together.
    fn is_alike(self, other: Self) -> bool {
        match (self, other) {
            (Self::Refused(one), Self::Refused(other)) => {
                core::mem::discriminant(&one) == core::mem::discriminant(&other)
            }
            (one, other) => one == other,
        }
    }
}

/// Routes that are not used for one reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnusedRoutes {
    pub reason: UnusedReason,
    /// Messages of the kernel about such routes since the last dump.
    pub count: u64,
    /// The first of them.
    pub example: IpPrefix,
}

/// A next hop whose link came or went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HopState {
    pub interface: InterfaceId,
    pub gateway: Option<IpAddr>,
    pub is_usable: bool,
}

impl HopState {
    const fn of(hop: &RouteHop, is_usable: bool) -> Self {
        Self { interface: hop.interface, gateway: hop.gateway, is_usable }
    }
}

#[derive(Debug, Clone, Copy)]
struct KernelEntry {
    action: SharedId,
    protocol: u8,
    /// It is the best route of its prefix, and published.
    is_published: bool,
    /// The dump that has last reported it.
    dump: u16,
}

#[derive(Debug)]
struct KnownDevice {
    name: String,
    interface: Option<InterfaceId>,
}

/// A walk over all routes that goes on.
#[derive(Debug)]
struct Scan {
    /// The last key that was visited.
    behind: Option<KernelRouteKey>,
    /// Routes that the last dump has not reported are removed.
    removes_old: bool,
}

/// A route of the kernel, for operators.
#[derive(Debug, Clone)]
pub(crate) struct KernelRouteView {
    pub key: KernelRouteKey,
    pub protocol: u8,
    pub action: RouteAction,
    pub is_published: bool,
    /// False if all of its links are down.
    pub is_usable: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct RouteBase {
    scope: InterfaceSet,
    config: RouteBaseConfig,
    devices: HashMap<u32, KnownDevice>,
    /// Interfaces whose devices are up and have a link.
    usable: InterfaceSet,
    entries: BTreeMap<KernelRouteKey, KernelEntry>,
    actions: Interned<RouteAction>,
    dump: u16,
    scan: Option<Scan>,
    changes: Vec<RouteChange>,
    /// Hops whose links came or went, after `changes`.
    hop_states: Vec<HopState>,
    /// One per kind of reason.
    unused: Vec<UnusedRoutes>,
    /// Routes through devices that are no interface of ours, by device.
    foreign: BTreeMap<String, u64>,
}

impl RouteBase {
    pub(crate) fn new(config: RouteBaseConfig) -> Self {
        let ids = config.interfaces.iter().map(|interface| interface.id);
        Self {
            scope: ids.collect(),
            config,
            devices: HashMap::new(),
            usable: InterfaceSet::NONE,
            entries: BTreeMap::new(),
            actions: Interned::default(),
            dump: 0,
            scan: None,
            changes: Vec::new(),
            hop_states: Vec::new(),
            unused: Vec::new(),
            foreign: BTreeMap::new(),
        }
    }

    /// Returns the interfaces of the route table.
    pub(crate) const fn scope(&self) -> InterfaceSet {
        self.scope
    }

    /// Returns how many routes the kernel has through the interfaces.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the routes that are not used, by reason.
    pub(crate) fn unused(&self) -> &[UnusedRoutes] {
        &self.unused
    }

    /// Returns the routes through other devices, by device.
    pub(crate) const fn foreign(&self) -> &BTreeMap<String, u64> {
        &self.foreign
    }

    /// Returns the routes in the order of their prefixes.
    pub(crate) fn routes(&self) -> impl Iterator<Item = KernelRouteView> {
        self.entries.iter().filter_map(|(key, entry)| self.view(*key, *entry))
    }

    /// Returns the routes to exactly one prefix.
    pub(crate) fn routes_to(&self, prefix: IpPrefix) -> impl Iterator<Item = KernelRouteView> {
        self.entries.range(all_metrics(prefix)).filter_map(|(key, entry)| self.view(*key, *entry))
    }

    fn view(&self, key: KernelRouteKey, entry: KernelEntry) -> Option<KernelRouteView> {
        Some(KernelRouteView {
            key,
            protocol: entry.protocol,
            action: self.actions.get(entry.action)?.clone(),
            is_published: entry.is_published,
            is_usable: self.is_usable(entry.action),
        })
    }

    /// Takes the changes that are to be published, and then the hops whose links came or went.
    pub(crate) fn take_changes(&mut self) -> (Vec<RouteChange>, Vec<HopState>) {
        (core::mem::take(&mut self.changes), core::mem::take(&mut self.hop_states))
    }

    /// The tables refuse the route to a prefix.
    pub(crate) fn note_refused(&mut self, prefix: IpPrefix, refusal: adit_tables::RouteRefusal) {
        self.note_unused(UnusedReason::Refused(refusal), prefix);
        for (_, entry) in self.entries.range_mut(all_metrics(prefix)) {
            entry.is_published = false;
        }
    }

    /// Puts other static routes and pools into effect.
    pub(crate) fn reconfigure(&mut self, config: RouteBaseConfig) {
        let former = core::mem::replace(&mut self.config, config).statics;
        let now: Vec<_> = self.config.statics.keys().copied().collect();
        former.into_keys().chain(now).for_each(|prefix| self.choose(prefix, false));
    }

    /// Takes one event of the kernel.
    pub(crate) fn handle(&mut self, event: &KernelRouteEvent) {
        match event {
            KernelRouteEvent::Route(route) => self.handle_route(route),
            KernelRouteEvent::RouteGone { key, hops } => self.handle_gone(*key, hops),
            KernelRouteEvent::Device(state) => self.handle_device(state),
            KernelRouteEvent::DeviceGone(index) => {
                let gone = self.devices.remove(index).and_then(|device| device.interface);
                gone.into_iter().for_each(|interface| self.set_usable(interface, false));
            }
            KernelRouteEvent::Address(..) | KernelRouteEvent::AddressGone(..) => {}
            KernelRouteEvent::DumpBegins => {
                self.dump = self.dump.wrapping_add(1);
                self.scan = None;
                self.unused.clear();
                self.foreign.clear();
            }
            KernelRouteEvent::DumpEnds => self.begin_scan(true),
        }
    }

    /// Goes on with a walk over all routes, for `routes_max` routes. Returns false when it is done.
    pub(crate) fn continue_scan(&mut self, routes_max: usize) -> bool {
        let Some(Scan { behind, removes_old }) = self.scan.take() else { return false };
        let from = behind.map_or(Unbounded, Excluded);
        let step = self.entries.range((from, Unbounded)).take(routes_max);
        let step: Vec<_> = step.map(|(key, entry)| (*key, entry.dump)).collect();
        let Some((last, _)) = step.last().copied() else { return false };
        for (key, dump) in step {
            match removes_old && dump != self.dump {
                true => self.remove(key),
                false => self.choose(key.prefix, false),
            }
        }
        self.scan = Some(Scan { behind: Some(last), removes_old });
        true
    }

    fn begin_scan(&mut self, removes_old: bool) {
        let removes_old = removes_old || self.scan.as_ref().is_some_and(|scan| scan.removes_old);
        self.scan = Some(Scan { behind: None, removes_old });
    }

    fn handle_device(&mut self, state: &DeviceState) {
        let mut known = self.config.interfaces.iter();
        let interface = known.find(|of| of.device == state.name).map(|of| of.id);
        self.devices.insert(state.index, KnownDevice { name: state.name.clone(), interface });
        if let Some(interface) = interface {
            self.set_usable(interface, state.is_up && state.has_carrier);
        }
    }

    fn set_usable(&mut self, interface: InterfaceId, is_usable: bool) {
        if self.usable.contains(interface) == is_usable {
            return;
        }
        self.usable = match is_usable {
            true => self.usable.with(interface),
            false => InterfaceSet(self.usable.0 & !InterfaceSet::only(interface).0),
        };
        let hops = self
            .actions
            .iter()
            .flat_map(RouteAction::hops)
            .filter(|hop| hop.interface == interface);
        let states = hops.map(|hop| HopState::of(hop, is_usable));
        self.hop_states.extend(states);
        self.begin_scan(false);
    }

    fn handle_route(&mut self, route: &KernelRoute) {
        let KernelRoute { key, protocol, target } = route;
        let Some(action) = self.action(route) else { return self.remove(*key) };
        let is_link = |of: &FollowedInterface| of.connected.contains(&key.prefix);
        let is_kernels = *protocol == PROTOCOL_KERNEL && self.config.interfaces.iter().any(is_link);
        if is_kernels && matches!(target, KernelRouteTarget::Hops(_)) {
            return;
        }
        self.insert(*key, *protocol, action);
    }

    /// Returns the fate of packets by a route, or `None` if it is not used.
    fn action(&mut self, route: &KernelRoute) -> Option<RouteAction> {
        let prefix = route.key.prefix;
        let kernel_hops = match &route.target {
            KernelRouteTarget::Hops(hops) => hops,
            KernelRouteTarget::Blackhole => return Some(RouteAction::Blackhole),
            KernelRouteTarget::Unreachable | KernelRouteTarget::Prohibit => {
                return Some(RouteAction::Unreachable);
            }
        };
        let mut hops: Vec<RouteHop> = Vec::new();
        for hop in kernel_hops {
            let Some(interface) = self.interface_of(hop.device) else {
                let device =
                    self.devices.get(&hop.device).map_or("an unknown device", |of| &of.name);
                *self.foreign.entry(device.to_owned()).or_default() += 1;
                continue;
            };
            match self.why_no_router(hop) {
                Some(reason) => self.note_unused(reason, prefix),
                None => {
                    let KernelHop { gateway, weight, .. } = *hop;
                    hops.push(RouteHop { interface, gateway, weight });
                }
            }
        }
        if hops.len() > ROUTE_HOPS_MAX {
            self.note_unused(UnusedReason::Hops, prefix);
            hops.truncate(ROUTE_HOPS_MAX);
        }
        (!hops.is_empty()).then_some(RouteAction::Forward(hops))
    }

    fn interface_of(&self, device: u32) -> Option<InterfaceId> {
        self.devices.get(&device)?.interface
    }

    fn why_no_router(&self, hop: &KernelHop) -> Option<UnusedReason> {
        let gateway = hop.gateway?;
        if self.config.own_addrs.contains(&gateway) {
            return Some(UnusedReason::OwnAddressAsRouter);
        }
        let is_ue = self.config.ue_pools.iter().any(|pool| pool.contains(gateway));
        is_ue.then_some(UnusedReason::UeAsRouter)
    }

    fn note_unused(&mut self, reason: UnusedReason, example: IpPrefix) {
        match self.unused.iter_mut().find(|of| of.reason.is_alike(reason)) {
            Some(known) => known.count += 1,
            None => self.unused.push(UnusedRoutes { reason, count: 1, example }),
        }
    }

    fn handle_gone(&mut self, key: KernelRouteKey, gone: &[KernelHop]) {
        let stored = self.entries.get(&key).and_then(|entry| self.actions.get(entry.action));
        let (Some(RouteAction::Forward(hops)), false) = (stored, gone.is_empty()) else {
            return self.remove(key);
        };
        let is_gone = |hop: &RouteHop| {
            gone.iter().any(|gone| {
                let same = self.interface_of(gone.device) == Some(hop.interface);
                same && gone.gateway == hop.gateway
            })
        };
        let left: Vec<_> = hops.iter().filter(|hop| !is_gone(hop)).copied().collect();
        let protocol = self.entries.get(&key).map_or(0, |entry| entry.protocol);
        match left.is_empty() {
            true => self.remove(key),
            false => self.insert(key, protocol, RouteAction::Forward(left)),
        }
    }

    fn insert(&mut self, key: KernelRouteKey, protocol: u8, action: RouteAction) {
        let former = self.entries.get(&key).copied();
        if former.is_none() && self.entries.len() >= KERNEL_ROUTES_MAX {
            return self.note_unused(UnusedReason::Limit, key.prefix);
        }
        let down = action.hops().iter().filter(|hop| !self.usable.contains(hop.interface));
        let down: Vec<_> = down.map(|hop| HopState::of(hop, false)).collect();
        let (id, is_new) = self.actions.acquire(action);
        let is_published = former.is_some_and(|former| former.is_published);
        self.entries
            .insert(key, KernelEntry { action: id, protocol, is_published, dump: self.dump });
        if let Some(former) = former {
            self.actions.release(former.action);
        }
        if is_new {
            self.hop_states.extend(down);
        }
        let is_other = former.is_none_or(|former| former.action != id);
        if is_other || !is_published {
            self.choose(key.prefix, is_other && is_published);
        }
    }

    fn remove(&mut self, key: KernelRouteKey) {
        let Some(entry) = self.entries.remove(&key) else { return };
        self.actions.release(entry.action);
        self.choose(key.prefix, entry.is_published);
    }

    /// Publishes the best route of a prefix if it is not published yet. `has_changed`: the
    /// published route is gone or another one.
    fn choose(&mut self, prefix: IpPrefix, has_changed: bool) {
        let of_prefix = || self.entries.range(all_metrics(prefix));
        let rank = |(key, entry): &(&KernelRouteKey, &KernelEntry)| {
            (!self.is_usable(entry.action), key.metric)
        };
        let best = of_prefix().min_by_key(rank).map(|(key, entry)| (*key, *entry));
        let is_beaten =
            |metric: u32| self.config.statics.get(&prefix).is_some_and(|of| *of <= metric);
        let best = best.filter(|(key, _)| !is_beaten(key.metric));
        let published = of_prefix().find(|(_, entry)| entry.is_published).map(|(key, _)| *key);
        if !has_changed && published == best.map(|(key, _)| key) {
            return;
        }
        for (key, entry) in self.entries.range_mut(all_metrics(prefix)) {
            entry.is_published = Some(*key) == best.map(|(key, _)| key);
        }
        let action = best.and_then(|(_, entry)| self.actions.get(entry.action)).cloned();
        self.changes.push(RouteChange { scope: self.scope, prefix, action });
    }

    /// Returns false if all links of an action are down.
    fn is_usable(&self, action: SharedId) -> bool {
        match self.actions.get(action) {
            Some(RouteAction::Forward(hops)) => {
                hops.iter().any(|hop| self.usable.contains(hop.interface))
            }
            _ => true,
        }
    }
}

/// The keys of all routes to a prefix.
fn all_metrics(prefix: IpPrefix) -> std::ops::RangeInclusive<KernelRouteKey> {
    let key = |metric| KernelRouteKey { prefix, metric };
    key(0)..=key(u32::MAX)
}
