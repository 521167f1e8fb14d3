//! TEIDs: a dense position in the low bits, a random tag in the high bits.
//!
//! Workers index a table by the position. The tag keeps outsiders from guessing a live TEID. It
//! also keeps late packets of a former tunnel out of a new tunnel with the same position.
//!
//! As long as positions are free there, a TEID gets a position in the owner group of its session
//! ([`adit_types::Owners`]), so that a NIC can select the owner by the low bits. A group first
//! hands out positions that were never in use, then free ones in the order of their release.

use std::collections::{HashMap, VecDeque};

use adit_types::{OWNER_GROUP_SHIFT, OWNER_GROUPS, SessionIndex, Teid};
use rand::Rng;
use rand::rngs::StdRng;

use crate::provisioning::TeidRange;

/// Minimum number of random bits of a TEID: one guess in 256 hits a live tunnel.
const TAG_BITS_MIN: u32 = 8;

/// Returns how many bits of a TEID are the position: enough for two TEIDs per session, but fewer if
/// the tag would become too short.
fn slot_bits(sessions_max: usize) -> u32 {
    let slots = sessions_max.max(1).saturating_mul(2).next_power_of_two();
    slots.trailing_zeros().min(32 - TAG_BITS_MIN)
}

/// Returns how many of the first bits a [`TeidRange`] may fix if there are `sessions_max` sessions:
/// the tag must keep enough random bits.
#[must_use]
pub fn teid_range_bits_max(sessions_max: usize) -> u32 {
    32 - TAG_BITS_MIN - slot_bits(sessions_max)
}

/// Allocates TEIDs and finds the session of each TEID, also of those that the control plane chose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TeidAllocator {
    slot_bits: u32,
    slots: Vec<TeidSlot>,
    groups: Vec<TeidGroup>,
    /// How many positions are in use or retired.
    reserved: usize,
    given: HashMap<Teid, SessionIndex>,
    rng: StdRng,
}

/// The positions of one owner group, numbered from zero.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct TeidGroup {
    /// The first position that was never in use; restored sessions may use later ones.
    fresh: u32,
    /// Free positions below `fresh`, longest free first.
    free: VecDeque<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TeidSlot {
    /// The TEID in use, or the last one that was in use.
    teid: Teid,
    /// The session that uses the TEID, or [`FREE`] or [`RETIRED`].
    user: SessionIndex,
}

/// Marks a free position.
const FREE: SessionIndex = SessionIndex::NONE;

/// Marks a position whose TEID was released, but may still be in use by workers.
const RETIRED: SessionIndex = SessionIndex(u32::MAX - 1);

/// The state of a TEID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TeidHolder {
    Nobody,
    Session(SessionIndex),
    /// The TEID was released, but workers may still use it.
    Retired,
}

/// TEIDs that were drawn but are not in use yet.
#[derive(Debug, Clone, Default)]
pub(crate) struct TeidPlan {
    teids: Vec<Teid>,
    rng: Option<StdRng>,
}

impl TeidPlan {
    pub(crate) fn teids(&self) -> &[Teid] {
        &self.teids
    }
}

impl TeidAllocator {
    /// Makes an allocator for `sessions_max` sessions.
    pub(crate) fn new(sessions_max: usize, seed: u64) -> Self {
        let slot_bits = slot_bits(sessions_max);
        let groups = OWNER_GROUPS.min(1 << slot_bits >> OWNER_GROUP_SHIFT).max(1);
        Self {
            slot_bits,
            slots: Vec::new(),
            groups: (0..groups).map(|_| TeidGroup::default()).collect(),
            reserved: 0,
            given: HashMap::new(),
            rng: super::rng(seed, 0),
        }
    }

    pub(crate) const fn slot_bits(&self) -> u32 {
        self.slot_bits
    }

    pub(crate) fn reserved_count(&self) -> usize {
        self.reserved + self.given.len()
    }

    /// Returns how many TEIDs in use were chosen by the control plane.
    pub(crate) fn given_count(&self) -> usize {
        self.given.len()
    }

    /// True if the control plane chose the TEID.
    pub(crate) fn is_given(&self, teid: Teid) -> bool {
        self.given.contains_key(&teid)
    }

    pub(crate) fn holder(&self, teid: Teid) -> TeidHolder {
        if let Some(&session) = self.given.get(&teid) {
            return TeidHolder::Session(session);
        }
        match self.slots.get(position(self.slot_of(teid))) {
            Some(slot) if slot.teid == teid => match slot.user {
                FREE => TeidHolder::Nobody,
                RETIRED => TeidHolder::Retired,
                session => TeidHolder::Session(session),
            },
            _ => TeidHolder::Nobody,
        }
    }

    /// Draws `count` TEIDs in `range` for `session`, unless `avoid` is true; `None` if too few.
    pub(crate) fn plan(
        &self,
        session: SessionIndex,
        count: usize,
        range: TeidRange,
        avoid: impl Fn(Teid) -> bool,
    ) -> Option<TeidPlan> {
        if count == 0 {
            return Some(TeidPlan::default());
        }
        let mut rng = self.rng.clone();
        let own = self.group_of(session.0);
        let groups = self.group_count();
        let teids: Vec<Teid> = (0..groups)
            .flat_map(|ahead| self.free_positions(own.wrapping_add(ahead) % groups))
            .filter_map(|slot| self.free_teid_at(slot, range, &mut rng, &avoid))
            .take(count)
            .collect();
        (teids.len() == count).then_some(TeidPlan { teids, rng: Some(rng) })
    }

    /// Assigns the planned TEIDs to `session`.
    pub(crate) fn commit(&mut self, plan: TeidPlan, session: SessionIndex) {
        if let Some(rng) = plan.rng {
            self.rng = rng;
        }
        for teid in plan.teids {
            let slot = self.slot_of(teid);
            self.take_slot(slot);
            self.write(slot, TeidSlot { teid, user: session });
        }
    }

    /// Records that `session` uses `teid`, unless we chose it: the control plane did then.
    pub(crate) fn ensure_given(&mut self, teid: Teid, session: SessionIndex) {
        if self.holder(teid) == TeidHolder::Nobody {
            self.given.insert(teid, session);
        }
    }

    /// True if `teid` can be restored, because its position is free.
    pub(crate) fn is_restorable(&self, teid: Teid) -> bool {
        self.user_of(self.slot_of(teid)) == FREE
    }

    /// True if `teid` was released and its position waits for a reclaim.
    pub(crate) fn is_retired(&self, teid: Teid) -> bool {
        self.user_of(self.slot_of(teid)) == RETIRED
    }

    /// Records that `session` uses `teid` again, which we chose in a previous run. If the position
    /// of `teid` is free, it is reserved; otherwise the TEID counts as chosen by the control plane.
    pub(crate) fn restore(&mut self, teid: Teid, session: SessionIndex) {
        let slot = self.slot_of(teid);
        if self.holder(teid) != TeidHolder::Nobody || !self.is_restorable(teid) {
            return self.ensure_given(teid, session);
        }
        let free = &mut self.group_mut(slot).free;
        if let Some(at) = free.iter().position(|&known| known == slot) {
            free.remove(at);
        }
        self.reserved += 1;
        self.write(slot, TeidSlot { teid, user: session });
    }

    /// Moves a TEID that we chose to another session. False for other TEIDs.
    pub(crate) fn hand_over(&mut self, teid: Teid, session: SessionIndex) -> bool {
        let is_chosen =
            matches!(self.holder(teid), TeidHolder::Session(_)) && !self.given.contains_key(&teid);
        if is_chosen {
            self.set_user(teid, session);
        }
        is_chosen
    }

    /// Releases `teid` from its session. True if we chose it: it then waits for a reclaim.
    pub(crate) fn retire(&mut self, teid: Teid) -> bool {
        if self.given.remove(&teid).is_some() {
            return false;
        }
        self.set_user(teid, RETIRED);
        true
    }

    /// Makes the position of a retired TEID available again, after all other free positions.
    pub(crate) fn reclaim(&mut self, teid: Teid) {
        self.set_user(teid, FREE);
        let (slot, number) = (self.slot_of(teid), self.index_in_group(self.slot_of(teid)));
        let group = self.group_mut(slot);
        // A restored position may be one that the group has never handed out.
        if number < group.fresh {
            group.free.push_back(slot);
        }
        self.reserved -= 1;
    }

    fn group_count(&self) -> u32 {
        u32::try_from(self.groups.len()).unwrap_or(OWNER_GROUPS)
    }

    /// Returns the owner group of a position, or of a session index.
    fn group_of(&self, number: u32) -> u32 {
        (number >> OWNER_GROUP_SHIFT) % self.group_count()
    }

    fn group_mut(&mut self, slot: u32) -> &mut TeidGroup {
        let group = position(self.group_of(slot));
        &mut self.groups[group]
    }

    /// Returns the position with index `number` in `group`.
    fn slot_at(&self, group: u32, number: u32) -> u32 {
        let low = number & ((1 << OWNER_GROUP_SHIFT) - 1);
        ((number >> OWNER_GROUP_SHIFT) * self.group_count() + group) << OWNER_GROUP_SHIFT | low
    }

    /// Returns the index of a position in its group.
    fn index_in_group(&self, slot: u32) -> u32 {
        let low = slot & ((1 << OWNER_GROUP_SHIFT) - 1);
        ((slot >> OWNER_GROUP_SHIFT) / self.group_count()) << OWNER_GROUP_SHIFT | low
    }

    /// Returns the free positions of a group, in the order in which they are handed out.
    fn free_positions(&self, group: u32) -> impl Iterator<Item = u32> + '_ {
        let end = (1 << self.slot_bits) / self.group_count();
        let TeidGroup { fresh, free } = &self.groups[position(group)];
        let fresh = (*fresh..end).map(move |number| self.slot_at(group, number));
        let fresh = fresh.filter(|&slot| self.user_of(slot) == FREE);
        fresh.chain(free.iter().copied())
    }

    fn slot_of(&self, teid: Teid) -> u32 {
        teid.0 & ((1 << self.slot_bits) - 1)
    }

    fn set_user(&mut self, teid: Teid, user: SessionIndex) {
        let position = position(self.slot_of(teid));
        if let Some(slot) = self.slots.get_mut(position) {
            debug_assert_eq!(slot.teid, teid, "the position belongs to another TEID");
            slot.user = user;
        }
    }

    /// Returns a free TEID at position `slot`, other than the last one there. Cost: one step for
    /// each TEID here that the control plane chose, and two more for the last one and zero.
    fn free_teid_at(
        &self,
        slot: u32,
        range: TeidRange,
        rng: &mut StdRng,
        avoid: impl Fn(Teid) -> bool,
    ) -> Option<Teid> {
        let last = self.slots.get(position(slot)).map(|slot| slot.teid);
        let bits = u32::from(range.bits);
        let first = u32::from(range.value).checked_shl(32 - bits).unwrap_or(0) | slot;
        let tag_mask = u32::MAX >> self.slot_bits >> bits;
        let start: u32 = rng.random();
        (0..=tag_mask)
            .map(|step| Teid(((start.wrapping_add(step) & tag_mask) << self.slot_bits) | first))
            .find(|&teid| {
                teid.0 != 0 && last != Some(teid) && !self.given.contains_key(&teid) && !avoid(teid)
            })
    }

    fn user_of(&self, slot: u32) -> SessionIndex {
        self.slots.get(position(slot)).map_or(FREE, |slot| slot.user)
    }

    fn write(&mut self, slot: u32, value: TeidSlot) {
        if position(slot) >= self.slots.len() {
            self.slots.resize(position(slot) + 1, TeidSlot { teid: Teid(0), user: FREE });
        }
        self.slots[position(slot)] = value;
    }

    /// Removes `slot` from the free positions. Unused positions before it become free.
    fn take_slot(&mut self, slot: u32) {
        self.reserved += 1;
        let (group, number) = (self.group_of(slot), self.index_in_group(slot));
        let fresh = self.groups[position(group)].fresh;
        if number >= fresh {
            let passed = (fresh..number).map(|at| self.slot_at(group, at));
            let passed: Vec<u32> = passed.filter(|&slot| self.user_of(slot) == FREE).collect();
            let group = self.group_mut(slot);
            group.fresh = number + 1;
            group.free.extend(passed);
            return;
        }
        let free = &mut self.group_mut(slot).free;
        for _ in 0..free.len() {
            match free.pop_front() {
                Some(front) if front == slot => return,
                Some(front) => free.push_back(front),
                None => return,
            }
        }
    }
}

fn position(slot: u32) -> usize {
    usize::try_from(slot).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: SessionIndex = SessionIndex(0);
    const ALL: TeidRange = TeidRange { bits: 0, value: 0 };

    fn take(teids: &mut TeidAllocator) -> Teid {
        let plan = teids.plan(SESSION, 1, ALL, |_| false).unwrap();
        let teid = plan.teids()[0];
        teids.commit(plan, SESSION);
        teid
    }

    #[test]
    fn teid_positions_are_dense_and_reused_in_order_of_release() {
        let mut teids = TeidAllocator::new(2, 1);
        assert_eq!(teids.slot_bits(), 2);
        let first: Vec<Teid> = (0..4).map(|_| take(&mut teids)).collect();
        let positions: Vec<u32> = first.iter().map(|&teid| teids.slot_of(teid)).collect();
        assert_eq!(positions, [0, 1, 2, 3]);
        assert!(teids.plan(SESSION, 1, ALL, |_| false).is_none(), "all positions are in use");

        for at in [1, 0] {
            assert!(teids.retire(first[at]));
            assert!(teids.plan(SESSION, 1, ALL, |_| false).is_none(), "not before the reclaim");
        }
        for at in [1, 0] {
            teids.reclaim(first[at]);
        }
        for at in [1, 0] {
            let again = take(&mut teids);
            assert_eq!(teids.slot_of(again), teids.slot_of(first[at]));
            assert_ne!(again, first[at], "another tag than in the previous life");
        }
    }

    #[test]
    fn teid_names_the_group_of_its_session_as_long_as_the_group_has_positions() {
        let mut teids = TeidAllocator::new(256, 1);
        let group = |number: u32| (number >> OWNER_GROUP_SHIFT) % OWNER_GROUPS;
        // Twice, because the second round gets released positions, in another order.
        for step in [1_u32, 77] {
            let mut taken = Vec::new();
            for index in (0..256_u32).map(|index| SessionIndex(index * step % 256)) {
                let plan = teids.plan(index, 2, ALL, |_| false).unwrap();
                for teid in plan.teids() {
                    assert_eq!(group(teids.slot_of(*teid)), group(index.0));
                }
                taken.extend(plan.teids().to_vec());
                teids.commit(plan, index);
            }
            assert_eq!(teids.reserved_count(), 512);
            assert!(teids.plan(SESSION, 1, ALL, |_| false).is_none());
            for teid in taken {
                assert!(teids.retire(teid));
                teids.reclaim(teid);
            }
            assert_eq!(teids.reserved_count(), 0);
        }
        // One session may have all TEIDs.
        assert_eq!(teids.plan(SESSION, 512, ALL, |_| false).unwrap().teids().len(), 512);
    }

    #[test]
    fn teid_plan_changes_nothing_until_committed() {
        let teids = TeidAllocator::new(8, 1);
        let before = teids.clone();
        let plan = teids.plan(SESSION, 3, ALL, |_| false).unwrap();
        assert_eq!(teids, before);
        assert_eq!(plan.teids(), before.plan(SESSION, 3, ALL, |_| false).unwrap().teids());
    }

    #[test]
    fn teid_given_or_avoided_is_not_chosen() {
        let mut teids = TeidAllocator::new(8, 1);
        let first = teids.plan(SESSION, 1, ALL, |_| false).unwrap().teids()[0];
        assert_ne!(teids.plan(SESSION, 1, ALL, |teid| teid == first).unwrap().teids()[0], first);
        teids.ensure_given(first, SESSION);
        assert_eq!(teids.holder(first), TeidHolder::Session(SESSION));
        assert_ne!(take(&mut teids), first);
        assert!(!teids.retire(first), "a given TEID needs no reclaim");
        assert_eq!(teids.holder(first), TeidHolder::Nobody);
    }

    #[test]
    fn restored_teid_has_its_position_again_and_leaves_it_to_others_later() {
        let mut former = TeidAllocator::new(8, 1);
        let chosen: Vec<Teid> = (0..16).map(|_| take(&mut former)).collect();
        let mut teids = TeidAllocator::new(8, 2);
        // Meanwhile one position was handed out, and another one was handed out and released.
        let fresh = [take(&mut teids), take(&mut teids)];
        assert!(teids.retire(fresh[1]));
        teids.reclaim(fresh[1]);
        for &teid in chosen.iter().rev() {
            assert_eq!(teids.is_restorable(teid), teid != chosen[0]);
            teids.restore(teid, SESSION);
            assert_eq!(teids.holder(teid), TeidHolder::Session(SESSION));
        }
        assert_eq!((teids.given_count(), teids.reserved_count()), (1, 17));
        assert!(teids.plan(SESSION, 1, ALL, |_| false).is_none(), "all positions are in use");
        for &teid in &chosen[1..] {
            assert!(teids.retire(teid));
            assert_eq!(teids.holder(teid), TeidHolder::Retired);
            teids.reclaim(teid);
        }
        assert!(!teids.retire(chosen[0]) && teids.retire(fresh[0]));
        teids.reclaim(fresh[0]);
        assert_eq!(teids.reserved_count(), 0);
        let mut slots: Vec<u32> = (0..16).map(|_| take(&mut teids)).map(|t| t.0 & 15).collect();
        slots.sort_unstable();
        assert_eq!(slots, (0..16).collect::<Vec<_>>(), "each position once");
    }

    #[test]
    fn position_without_a_free_tag_is_passed_over() {
        let mut teids = TeidAllocator::new(adit_types::limits::SESSIONS_MAX, 1);
        let position = |teid: Teid| teid.0 & 0xff_ffff;
        let plan = teids.plan(SESSION, 1, ALL, |teid| position(teid) == 0).unwrap();
        assert_eq!(position(plan.teids()[0]), 1);
        teids.commit(plan, SESSION);
        assert_eq!(teids.groups[0].free, [0], "the position passed over stays free");
        assert_eq!(position(take(&mut teids)), 128);
        assert_eq!(teids.reserved_count(), 2);
    }

    #[test]
    fn teids_of_a_range_have_its_first_bits_and_random_ones_behind() {
        for bits in 1..=7_u8 {
            assert!(u32::from(bits) <= teid_range_bits_max(32));
            for value in [0, 1, (1 << bits) - 1] {
                let mut teids = TeidAllocator::new(32, 7);
                let range = TeidRange { bits, value };
                let plan = teids.plan(SESSION, 64, range, |_| false).unwrap();
                let high = |teid: &Teid| teid.0 >> (32 - u32::from(bits));
                assert!(plan.teids().iter().all(|teid| high(teid) == u32::from(value)));
                let mut tags: Vec<u32> = plan.teids().iter().map(|teid| teid.0 >> 6).collect();
                tags.sort_unstable();
                tags.dedup();
                assert!(tags.len() > 60, "{} tags of 64", tags.len());
                teids.commit(plan, SESSION);
                assert_eq!(teids.reserved_count(), 64);
            }
        }
    }

    #[test]
    fn range_leaves_eight_random_bits() {
        for (sessions_max, bits) in [(1, 23), (100_000, 6), (1_000_000, 3), (10_000_000, 0)] {
            assert_eq!(teid_range_bits_max(sessions_max), bits, "{sessions_max}");
        }
    }

    #[test]
    fn teid_keeps_random_bits_at_the_largest_capacity() {
        let teids = TeidAllocator::new(adit_types::limits::SESSIONS_MAX, 1);
        assert_eq!(teids.slot_bits(), 24);
    }
}
