//! Session indices. They are dense because workers keep the state of sessions in arrays.

use adit_types::{OWNER_GROUP_SHIFT, OWNER_GROUPS, SessionIndex, owner_group};

use super::OwnerNodes;

/// Allocates indices below a maximum. Reuses the index that was released last first, which keeps
/// indices dense. With several NUMA nodes, the caller may prefer one for the owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionIndexAllocator {
    max: usize,
    nodes: OwnerNodes,
    /// Free indices that were in use before, by the node of their owner.
    free: Vec<Vec<SessionIndex>>,
    /// For each index that was in use before, its position in its `free` list, or [`IN_USE`].
    places: Vec<u32>,
    /// How many indices are in use, by owner group.
    used: [u32; OWNER_GROUPS as usize],
}

/// The position that stands for an index in use.
const IN_USE: u32 = u32::MAX;

/// How many consecutive indices include one of every owner group.
const INDICES_PER_GROUP_CYCLE: usize = (OWNER_GROUPS << OWNER_GROUP_SHIFT) as usize;

impl SessionIndexAllocator {
    pub(crate) fn new(max: usize, nodes: OwnerNodes) -> Self {
        let free = (0..nodes.node_count()).map(|_| Vec::new()).collect();
        Self { max, nodes, free, places: Vec::new(), used: [0; OWNER_GROUPS as usize] }
    }

    pub(crate) const fn nodes(&self) -> &OwnerNodes {
        &self.nodes
    }

    /// Returns a free index whose owner is on `node`; another free index if there is none, or if
    /// `node` is `None`. `None` if all are in use.
    pub(crate) fn peek(&self, node: Option<u8>) -> Option<SessionIndex> {
        node.and_then(|node| self.peek_on(node)).or_else(|| self.peek_any())
    }

    fn peek_on(&self, node: u8) -> Option<SessionIndex> {
        let free = self.free.get(usize::from(node))?.last().copied();
        free.or_else(|| {
            let new = (self.places.len()..self.max).take(INDICES_PER_GROUP_CYCLE);
            let mut new = new.filter_map(|at| u32::try_from(at).ok()).map(SessionIndex);
            new.find(|index| self.nodes.node_of_session(*index) == node)
        })
    }

    /// Returns a free index of the node that has most of them.
    fn peek_any(&self) -> Option<SessionIndex> {
        let free = self.free.iter().max_by_key(|free| free.len());
        match free.and_then(|free| free.last()) {
            Some(&index) => Some(index),
            None if self.places.len() < self.max => {
                u32::try_from(self.places.len()).ok().map(SessionIndex)
            }
            None => None,
        }
    }

    /// Reserves `index`; false if it is in use or not below the maximum. Lower indices that were
    /// never in use become free.
    pub(crate) fn take(&mut self, index: SessionIndex) -> bool {
        let position = position(index);
        if position >= self.max {
            return false;
        }
        if let Some(&place) = self.places.get(position) {
            let is_free = place != IN_USE;
            if is_free {
                self.remove_free(index, place);
                self.set_place(index, IN_USE);
                self.count(index, 1);
            }
            return is_free;
        }
        self.count(index, 1);
        let passed = self.places.len()..position;
        self.places.resize(position + 1, IN_USE);
        for passed in passed.rev().filter_map(|at| u32::try_from(at).ok()) {
            self.put_free(SessionIndex(passed));
        }
        true
    }

    /// True if [`Self::take`] would reserve `index`.
    pub(crate) fn is_free(&self, index: SessionIndex) -> bool {
        let position = position(index);
        position < self.max && self.places.get(position).is_none_or(|&place| place != IN_USE)
    }

    pub(crate) fn release(&mut self, index: SessionIndex) {
        self.count(index, -1);
        self.put_free(index);
    }

    fn count(&mut self, index: SessionIndex, change: i32) {
        if let Some(used) = self.used.get_mut(owner_group(index) as usize) {
            *used = used.wrapping_add_signed(change);
        }
    }

    /// Returns how many indices are in use, by owner group.
    pub(crate) const fn used_by_group(&self) -> &[u32; OWNER_GROUPS as usize] {
        &self.used
    }

    fn put_free(&mut self, index: SessionIndex) {
        let Some(free) = self.free.get_mut(usize::from(self.nodes.node_of_session(index))) else {
            return;
        };
        let place = u32::try_from(free.len()).unwrap_or(IN_USE);
        free.push(index);
        self.set_place(index, place);
    }

    pub(crate) const fn max_count(&self) -> usize {
        self.max
    }

    pub(crate) fn reserved_count(&self) -> usize {
        self.places.len() - self.free.iter().map(Vec::len).sum::<usize>()
    }

    fn set_place(&mut self, index: SessionIndex, place: u32) {
        if let Some(known) = self.places.get_mut(position(index)) {
            *known = place;
        }
    }

    /// Removes the free `index` from its list, where its position is `place`. The last item of the
    /// list moves to this position.
    fn remove_free(&mut self, index: SessionIndex, place: u32) {
        let Some(free) = self.free.get_mut(usize::from(self.nodes.node_of_session(index))) else {
            return;
        };
        let at = position(SessionIndex(place));
        if at < free.len() {
            free.swap_remove(at);
        }
        if let Some(&moved) = free.get(at) {
            self.set_place(moved, place);
        }
    }
}

fn position(index: SessionIndex) -> usize {
    usize::try_from(index.0).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use adit_types::{Owners, WorkerId};

    use super::*;

    fn take(indices: &mut SessionIndexAllocator, node: Option<u8>) -> Option<SessionIndex> {
        let index = indices.peek(node)?;
        assert!(indices.is_free(index) && indices.take(index) && !indices.is_free(index));
        Some(index)
    }

    #[test]
    fn index_is_dense_and_bounded() {
        let mut indices = SessionIndexAllocator::new(2, OwnerNodes::default());
        assert_eq!(take(&mut indices, None), Some(SessionIndex(0)));
        assert_eq!(take(&mut indices, Some(0)), Some(SessionIndex(1)));
        assert_eq!(indices.peek(None), None);
        indices.release(SessionIndex(0));
        assert_eq!(indices.peek(Some(7)), Some(SessionIndex(0)));
        assert_eq!(indices.reserved_count(), 1);
    }

    #[test]
    fn index_is_taken_where_it_was_and_those_passed_over_stay_free() {
        let mut indices = SessionIndexAllocator::new(6, OwnerNodes::default());
        for (at, is_free) in [(3, true), (3, false), (1, true), (5, true), (6, false), (1, false)] {
            assert_eq!(indices.is_free(SessionIndex(at)), is_free, "{at}");
            assert_eq!(indices.take(SessionIndex(at)), is_free, "{at}");
        }
        assert_eq!(indices.reserved_count(), 3);
        assert_eq!(indices.used_by_group()[..4], [1, 1, 1, 0]);
        let mut rest: Vec<u32> =
            core::iter::from_fn(|| Some(take(&mut indices, None)?.0)).collect();
        rest.sort_unstable();
        assert_eq!(rest, [0, 2, 4]);
    }

    /// Makes nodes for three workers: 0 and 1 are on node 0, worker 2 is on node 1.
    fn two_nodes() -> OwnerNodes {
        let owners = Owners::new(3);
        OwnerNodes::new(|group| Some(u32::from(owners.of_group(group).0 == 2)), &[])
    }

    #[test]
    fn index_has_its_owner_on_the_wanted_node_while_there_are_some() {
        const MAX: usize = 1000;
        let mut indices = SessionIndexAllocator::new(MAX, two_nodes());
        let owners = Owners::new(3);
        let is_second = |index: SessionIndex| owners.of(index) == WorkerId(2);
        let all = (0..1000).map(SessionIndex);
        let there = all.filter(|index| is_second(*index)).count();
        assert!(there > MAX / 4 && there < MAX / 2, "{there}");
        for step in 0..3 {
            let mut taken = Vec::new();
            while let Some(index) = take(&mut indices, Some(1)) {
                assert_eq!(is_second(index), taken.len() < there, "{step}: {index:?}");
                taken.push(index);
            }
            assert_eq!((taken.len(), indices.reserved_count()), (MAX, MAX));
            // Releases them in another order than that in which they were taken.
            let halves = taken.split_at(usize::from(step == 0) * 300);
            halves.1.iter().chain(halves.0).for_each(|index| indices.release(*index));
            assert_eq!(indices.reserved_count(), 0);
            assert_eq!(indices.used_by_group().iter().sum::<u32>(), 0);
        }
    }

    #[test]
    fn few_sessions_of_each_node_have_low_indices() {
        let mut indices = SessionIndexAllocator::new(100_000, two_nodes());
        for turn in 0..100 {
            let index = take(&mut indices, Some(turn % 2)).unwrap();
            assert!(index.0 < 256, "{turn}: {index:?}");
            assert_eq!(indices.nodes().node_of_session(index), turn % 2);
        }
    }

    #[test]
    fn without_a_wanted_node_indices_of_each_node_are_taken() {
        let mut indices = SessionIndexAllocator::new(256, two_nodes());
        let mut all: Vec<u32> = core::iter::from_fn(|| Some(take(&mut indices, None)?.0)).collect();
        assert_eq!(all, (0..256).collect::<Vec<_>>());
        all.iter().for_each(|index| indices.release(SessionIndex(*index)));
        all = (0..40).filter_map(|_| Some(take(&mut indices, None)?.0)).collect();
        let second =
            all.iter().filter(|index| indices.nodes().node_of_session(SessionIndex(**index)) == 1);
        // Two thirds of all indices belong to the first node, so this node serves first.
        assert_eq!(second.count(), 0);
    }
}
