//! Next-hop groups: several next hops of one route (ECMP). Routes with the same next hops share a
//! group.
//!
//! A group has 256 slots, each with one next hop; the hash of a flow selects the slot, so workers
//! keep no state. The slots of a next hop are as many as its weight says, within one slot. A next
//! hop that leaves gives its slots to the others and moves no other slot (resilient hashing); one
//! that joins takes slots from those that have too many. A route whose next hops change gets a
//! group that keeps the former slots where it can. Routes that change alike share it.

use core::net::IpAddr;
use std::collections::{HashMap, HashSet, VecDeque};

use adit_types::limits::{HOP_GROUP_SLOTS, HOP_GROUPS_MAX};
use adit_types::{InterfaceId, InterfaceSet};

use crate::hash::{high, low};
use crate::large::LargeArray;
use crate::publish::Epoch;
use crate::route_change::RouteHop;
use crate::route_value::RouteValue;
use crate::sync::{Arc, AtomicU32, Ordering};

/// The readers' side.
pub(crate) struct HopGroups {
    /// By group, then slot: the bits of a [`RouteValue`] with an interface.
    slots: LargeArray<AtomicU32>,
    /// By group: the interfaces of its next hops.
    interfaces: LargeArray<AtomicU32>,
}

impl core::fmt::Debug for HopGroups {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("HopGroups").finish_non_exhaustive()
    }
}

impl HopGroups {
    fn new() -> Self {
        let groups = if cfg!(any(loom, miri)) { 16 } else { HOP_GROUPS_MAX };
        Self {
            slots: LargeArray::zeroed(groups * HOP_GROUP_SLOTS),
            interfaces: LargeArray::zeroed(groups),
        }
    }

    /// Returns the next hop of the flow with a hash, among those on interfaces `within`. `None` if
    /// there is none on these.
    ///
    /// Cost: one load.
    #[inline]
    pub(crate) fn select(&self, group: u16, hash: u32, within: InterfaceSet) -> Option<RouteValue> {
        let first = usize::from(group) * HOP_GROUP_SLOTS;
        let slots = self.slots.get(first..first + HOP_GROUP_SLOTS)?;
        let slot = slot_of(hash) as usize;
        let value = RouteValue::from_bits(slots.get(slot)?.load(Ordering::Acquire));
        match value.interface() {
            Some(interface) if within.contains(interface) => Some(value),
            _ => select_within(slots, slot, within),
        }
    }

    /// Returns true if a next hop of the group is on one of the interfaces `within`.
    #[inline]
    pub(crate) fn is_within(&self, group: u16, within: InterfaceSet) -> bool {
        let interfaces = self.interfaces.get(usize::from(group));
        interfaces.is_some_and(|of| InterfaceSet(of.load(Ordering::Relaxed)).intersects(within))
    }
}

/// Bits of a slot's number.
pub(crate) const SLOT_BITS: u32 = HOP_GROUP_SLOTS.trailing_zeros();

/// Returns the slot of a hash: its upper bits.
#[inline]
pub(crate) const fn slot_of(hash: u32) -> u32 {
    hash >> (u32::BITS - SLOT_BITS)
}

/// Returns the next hop of the first slot after `slot` that is on an interface `within`. Triangular
/// steps meet all slots and spread the flows.
#[cold]
fn select_within(slots: &[AtomicU32], slot: usize, within: InterfaceSet) -> Option<RouteValue> {
    let others = (1..HOP_GROUP_SLOTS).map(|step| (slot + step * (step + 1) / 2) % HOP_GROUP_SLOTS);
    let mut values = others.map(|at| RouteValue::from_bits(slots[at].load(Ordering::Acquire)));
    let is_within = |value: &RouteValue| value.interface().is_some_and(|of| within.contains(of));
    values.find(is_within)
}

/// A next hop without its weight.
type HopId = (InterfaceId, Option<IpAddr>);

const fn id_of(hop: &RouteHop) -> HopId {
    (hop.interface, hop.gateway)
}

/// The slots of a group, as positions among its next hops.
type Slots = [u8; HOP_GROUP_SLOTS];

/// A group on the control side.
#[derive(Debug)]
struct GroupRecord {
    /// In order.
    hops: Box<[RouteHop]>,
    /// By next hop.
    values: Box<[RouteValue]>,
    slots: Box<Slots>,
    /// Routes that name it.
    routes: usize,
}

/// The next hops that a route had before.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FormerHops {
    /// None, or no route.
    None,
    /// One.
    One(InterfaceId, Option<IpAddr>),
    /// Those of a group.
    Group(u16),
}

/// The writer's side of [`HopGroups`].
#[derive(Debug)]
pub(crate) struct HopGroupWriter {
    groups: Arc<HopGroups>,
    records: Vec<Option<GroupRecord>>,
    /// Groups by their next hops, in order. They differ in their slots.
    by_hops: HashMap<Box<[RouteHop]>, Vec<u16>>,
    free: Vec<u16>,
    limbo: VecDeque<(Epoch, u16)>,
    unusable: HashSet<HopId>,
    /// The last group that followed from another one.
    followed: Option<(u16, u16)>,
}

impl HopGroupWriter {
    /// Creates a table without groups.
    pub(crate) fn new() -> Self {
        Self {
            groups: Arc::new(HopGroups::new()),
            records: Vec::new(),
            by_hops: HashMap::new(),
            free: Vec::new(),
            limbo: VecDeque::new(),
            unusable: HashSet::new(),
            followed: None,
        }
    }

    pub(crate) fn groups(&self) -> &Arc<HopGroups> {
        &self.groups
    }

    /// Returns the group of the next hops `hops`, in order, that follows from those of before.
    /// `None` if there is none.
    pub(crate) fn find(&mut self, hops: &[RouteHop], former: FormerHops) -> Option<u16> {
        let known = self.by_hops.get(hops)?;
        match former {
            FormerHops::None => return known.first().copied(),
            FormerHops::Group(group) if known.contains(&group) => return Some(group),
            FormerHops::Group(group) => {
                if let Some((from, to)) = self.followed
                    && from == group
                    && known.contains(&to)
                {
                    return Some(to);
                }
            }
            FormerHops::One(..) => {}
        }
        let slots = self.follow(hops, former);
        let has_slots =
            |group: &&u16| self.record(**group).is_some_and(|record| *record.slots == slots);
        let group = known.iter().find(has_slots).copied();
        if let (FormerHops::Group(from), Some(to)) = (former, group) {
            self.followed = Some((from, to));
        }
        group
    }

    /// Adds the group of `hops`, in order, whose values are `values`, for its first route. `None`
    /// without room.
    pub(crate) fn add(
        &mut self,
        hops: &[RouteHop],
        values: Vec<RouteValue>,
        former: FormerHops,
    ) -> Option<u16> {
        let slots = self.follow(hops, former);
        let group = match self.free.pop() {
            Some(group) => group,
            None => {
                let room = self.groups.interfaces.len();
                let group = u16::try_from(self.records.len()).ok();
                let group = group.filter(|group| usize::from(*group) < room)?;
                self.records.push(None);
                group
            }
        };
        let interfaces: InterfaceSet = hops.iter().map(|hop| hop.interface).collect();
        self.groups.interfaces[usize::from(group)].store(interfaces.0, Ordering::Relaxed);
        let record = GroupRecord {
            hops: hops.into(),
            values: values.into(),
            slots: Box::new(slots),
            routes: 0,
        };
        self.write(group, &record);
        self.records[usize::from(group)] = Some(record);
        self.by_hops.entry(hops.into()).or_default().push(group);
        if let FormerHops::Group(from) = former {
            self.followed = Some((from, group));
        }
        Some(group)
    }

    /// Counts one more route that names the group.
    pub(crate) fn hold(&mut self, group: u16) {
        if let Some(Some(record)) = self.records.get_mut(usize::from(group)) {
            record.routes += 1;
        }
    }

    /// Counts one route fewer that names the group. Without any the group is removed, and the
    /// values of its next hops are returned.
    pub(crate) fn release(&mut self, group: u16, epoch: Epoch) -> Box<[RouteValue]> {
        let none = || Box::from([]);
        let Some(place) = self.records.get_mut(usize::from(group)) else { return none() };
        let Some(record) = place else { return none() };
        record.routes = record.routes.saturating_sub(1);
        if record.routes > 0 {
            return none();
        }
        let Some(record) = place.take() else { return none() };
        if let Some(known) = self.by_hops.get_mut(&record.hops) {
            known.retain(|other| *other != group);
            if known.is_empty() {
                self.by_hops.remove(&record.hops);
            }
        }
        self.followed.take_if(|(from, to)| *from == group || *to == group);
        self.limbo.push_back((epoch, group));
        record.values
    }

    pub(crate) fn reclaim(&mut self, passed: Epoch) {
        while let Some((_, group)) = self.limbo.pop_front_if(|(since, _)| *since <= passed) {
            self.free.push(group);
        }
    }

    /// Moves the slots of a next hop to the others of its groups, or gives it its share back.
    /// Returns whether a slot moved.
    pub(crate) fn set_usable(
        &mut self,
        interface: InterfaceId,
        gateway: Option<IpAddr>,
        is_usable: bool,
    ) -> bool {
        let hop = (interface, gateway);
        let is_change = match is_usable {
            true => self.unusable.remove(&hop),
            false => self.unusable.insert(hop),
        };
        if !is_change {
            return false;
        }
        self.followed = None;
        let mut has_moved = false;
        for group in 0..u16::try_from(self.records.len()).unwrap_or(u16::MAX) {
            let Some(record) = self.record(group) else { continue };
            if !record.hops.iter().any(|of| id_of(of) == hop) {
                continue;
            }
            let slots = self.follow(&record.hops, FormerHops::Group(group));
            if let Some(mut record) = self.records[usize::from(group)].take() {
                has_moved |= *record.slots != slots;
                *record.slots = slots;
                self.write(group, &record);
                self.records[usize::from(group)] = Some(record);
            }
        }
        has_moved
    }

    /// Returns the next hops of a group, with the number of slots of each.
    pub(crate) fn hops(&self, group: u16) -> Vec<(RouteHop, usize)> {
        let Some(record) = self.record(group) else { return Vec::new() };
        let of = |at: u8| record.slots.iter().filter(|slot| **slot == at).count();
        (0..).zip(&record.hops).map(|(at, hop)| (*hop, of(at))).collect()
    }

    fn record(&self, group: u16) -> Option<&GroupRecord> {
        self.records.get(usize::from(group))?.as_ref()
    }

    fn write(&self, group: u16, record: &GroupRecord) {
        let first = usize::from(group) * HOP_GROUP_SLOTS;
        for (cell, slot) in self.groups.slots[first..].iter().zip(record.slots.iter()) {
            let bits = record.values[usize::from(*slot)].to_bits();
            if cell.load(Ordering::Relaxed) != bits {
                cell.store(bits, Ordering::Release);
            }
        }
    }

    /// Returns the slots of `hops` that follow from former ones.
    fn follow(&self, hops: &[RouteHop], former: FormerHops) -> Slots {
        let position = |id: HopId| {
            let at = hops.iter().position(|hop| id_of(hop) == id)?;
            u8::try_from(at).ok()
        };
        let kept = match former {
            FormerHops::None => [None; HOP_GROUP_SLOTS],
            FormerHops::One(interface, gateway) => {
                [position((interface, gateway)); HOP_GROUP_SLOTS]
            }
            FormerHops::Group(group) => match self.record(group) {
                None => [None; HOP_GROUP_SLOTS],
                Some(record) => {
                    let moved: Vec<_> =
                        record.hops.iter().map(|hop| position(id_of(hop))).collect();
                    record.slots.map(|slot| moved.get(usize::from(slot)).copied().flatten())
                }
            },
        };
        let is_usable = |hop: &RouteHop| !self.unusable.contains(&id_of(hop));
        // Without a usable one all are as good as any.
        let is_any = hops.iter().any(is_usable);
        let weight = |hop: &RouteHop| if !is_any || is_usable(hop) { hop.weight } else { 0 };
        let weights: Vec<u64> = hops.iter().map(|hop| weight(hop).into()).collect();
        spread(&weights, kept, |slot, at| preference(slot, &hops[at]))
    }
}

/// Returns how much a slot prefers a next hop: by both alone, so that a new process chooses alike.
fn preference(slot: usize, hop: &RouteHop) -> u64 {
    let addr = match hop.gateway {
        None => 0,
        Some(IpAddr::V4(addr)) => addr.to_bits().into(),
        Some(IpAddr::V6(addr)) => addr.to_bits() ^ 1 << 127,
    };
    let mix = |state: u64, word: u64| {
        let state = (state ^ word).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (state ^ state >> 29).wrapping_mul(0x94d0_49bb_1331_11eb).rotate_left(23)
    };
    let words = [low(addr), high(addr), hop.interface.0.into(), slot as u64];
    words.into_iter().fold(0x9e37_79b9_7f4a_7c15, mix)
}

/// Gives each slot one of the next hops with `weights`: as many slots to each as its weight says,
/// within one slot. Slots stay with the next hop that they are `kept` by, unless it has too many.
///
/// `preference`: which of several next hops a slot gets.
fn spread(
    weights: &[u64],
    kept: [Option<u8>; HOP_GROUP_SLOTS],
    preference: impl Fn(usize, usize) -> u64,
) -> Slots {
    let (total, slots) = (weights.iter().sum::<u64>().max(1), HOP_GROUP_SLOTS as u64);
    let mut kept = kept.map(|at| at.map(usize::from).filter(|at| weights[*at] > 0));
    let mut counts = vec![0_u64; weights.len()];
    kept.iter().flatten().for_each(|at| counts[*at] += 1);
    let is_new: Vec<bool> = counts.iter().map(|count| *count == 0).collect();
    // Where there are too many, those leave that prefer it least.
    for (at, weight) in weights.iter().enumerate() {
        let most = (weight * slots).div_ceil(total);
        let mut own: Vec<usize> =
            (0..HOP_GROUP_SLOTS).filter(|slot| kept[*slot] == Some(at)).collect();
        own.sort_unstable_by_key(|slot| preference(*slot, at));
        let surplus = usize::try_from(counts[at].saturating_sub(most)).unwrap_or(0);
        own.iter().take(surplus).for_each(|slot| kept[*slot] = None);
        counts[at] = counts[at].min(most);
    }
    let targets = targets(weights, &counts, &is_new);
    for (at, target) in targets.iter().enumerate() {
        // These have more than their target only if a new next hop needs slots.
        while counts[at] > *target {
            let own = (0..HOP_GROUP_SLOTS).filter(|slot| kept[*slot] == Some(at));
            let Some(slot) = own.min_by_key(|slot| preference(*slot, at)) else { break };
            kept[slot] = None;
            counts[at] -= 1;
        }
    }
    core::array::from_fn(|slot| {
        let at = kept[slot].or_else(|| {
            let all = 0..weights.len();
            let needs = all.filter(|at| counts[*at] < targets[*at]);
            let at = needs.max_by_key(|at| preference(slot, *at))?;
            counts[at] += 1;
            Some(at)
        });
        u8::try_from(at.unwrap_or(0)).unwrap_or(0)
    })
}

/// Returns the numbers of slots of next hops that keep `counts` slots.
fn targets(weights: &[u64], counts: &[u64], is_new: &[bool]) -> Vec<u64> {
    let (total, slots) = (weights.iter().sum::<u64>().max(1), HOP_GROUP_SLOTS as u64);
    let mut targets = counts.to_vec();
    let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    // Slots × total weights that are missing.
    let missing =
        |targets: &[u64], at: usize| signed(weights[at] * slots) - signed(targets[at] * total);
    let all = || (0..weights.len()).filter(|at| weights[*at] > 0);
    for _ in counts.iter().sum::<u64>()..slots {
        if let Some(at) = all().max_by_key(|at| missing(&targets, *at)) {
            targets[at] += 1;
        }
    }
    loop {
        let poorest = all().filter(|at| is_new[*at]).max_by_key(|at| missing(&targets, *at));
        let richest = all().min_by_key(|at| missing(&targets, *at));
        match poorest.zip(richest) {
            Some((to, from)) if missing(&targets, to) >= signed(total) && to != from => {
                targets[to] += 1;
                targets[from] -= 1;
            }
            _ => return targets,
        }
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::panic, clippy::unwrap_used, reason = "a test stops where its premise fails")]
mod tests;
