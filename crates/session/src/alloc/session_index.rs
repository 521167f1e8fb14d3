//! Session indices. They are dense, so that workers can keep the state of sessions in arrays.

use adit_types::SessionIndex;

/// Allocates indices below a maximum. Reuses the index released last first, which keeps them dense.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionIndexAllocator {
    max: usize,
    free: Vec<SessionIndex>,
    /// Where an index that was taken before is in `free`; [`IN_USE`] if it is not.
    places: Vec<u32>,
}

/// The place of an index that is not free.
const IN_USE: u32 = u32::MAX;

impl SessionIndexAllocator {
    pub(crate) const fn new(max: usize) -> Self {
        Self { max, free: Vec::new(), places: Vec::new() }
    }

    /// The index that [`Self::take`] allocates next; `None` when all are in use.
    pub(crate) fn peek(&self) -> Option<SessionIndex> {
        match self.free.last() {
            Some(&index) => Some(index),
            None if self.places.len() < self.max => {
                u32::try_from(self.places.len()).ok().map(SessionIndex)
            }
            None => None,
        }
    }

    /// Reserves the index that [`Self::peek`] returns.
    pub(crate) fn take(&mut self) {
        if let Some(index) = self.free.pop() {
            self.set_place(index, IN_USE);
        } else if self.places.len() < self.max {
            self.places.push(IN_USE);
        }
    }

    /// Reserves `index`; false if it is in use or not below the maximum. Indices that it passes over stay free.
    pub(crate) fn take_at(&mut self, index: SessionIndex) -> bool {
        let position = position(index);
        if position >= self.max {
            return false;
        }
        if let Some(&place) = self.places.get(position) {
            let is_free = place != IN_USE;
            if is_free {
                self.remove_free(place);
                self.set_place(index, IN_USE);
            }
            return is_free;
        }
        let passed = self.places.len()..position;
        self.places.resize(position + 1, IN_USE);
        for passed in passed.rev().filter_map(|at| u32::try_from(at).ok()) {
            self.release(SessionIndex(passed));
        }
        true
    }

    /// True if [`Self::take_at`] would reserve `index`.
    pub(crate) fn is_free(&self, index: SessionIndex) -> bool {
        let position = position(index);
        position < self.max && self.places.get(position).is_none_or(|&place| place != IN_USE)
    }

    pub(crate) fn release(&mut self, index: SessionIndex) {
        let place = u32::try_from(self.free.len()).unwrap_or(IN_USE);
        self.set_place(index, place);
        self.free.push(index);
    }

    pub(crate) const fn max_count(&self) -> usize {
        self.max
    }

    pub(crate) const fn reserved_count(&self) -> usize {
        self.places.len() - self.free.len()
    }

    fn set_place(&mut self, index: SessionIndex, place: u32) {
        if let Some(known) = self.places.get_mut(position(index)) {
            *known = place;
        }
    }

    /// Takes out the free index at `place`; the one released last takes its place.
    fn remove_free(&mut self, place: u32) {
        let at = position(SessionIndex(place));
        if at < self.free.len() {
            self.free.swap_remove(at);
        }
        if let Some(&moved) = self.free.get(at) {
            self.set_place(moved, place);
        }
    }
}

fn position(index: SessionIndex) -> usize {
    usize::try_from(index.0).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_is_dense_and_bounded() {
        let mut indices = SessionIndexAllocator::new(2);
        assert_eq!(indices.peek(), Some(SessionIndex(0)));
        indices.take();
        indices.take();
        assert_eq!(indices.peek(), None);
        indices.release(SessionIndex(0));
        assert_eq!(indices.peek(), Some(SessionIndex(0)));
        assert_eq!(indices.reserved_count(), 1);
    }

    #[test]
    fn index_is_taken_where_it_was_and_those_passed_over_stay_free() {
        let mut indices = SessionIndexAllocator::new(6);
        for (at, is_free) in [(3, true), (3, false), (1, true), (5, true), (6, false), (1, false)] {
            assert_eq!(indices.is_free(SessionIndex(at)), is_free, "{at}");
            assert_eq!(indices.take_at(SessionIndex(at)), is_free, "{at}");
        }
        assert_eq!(indices.reserved_count(), 3);
        let mut rest: Vec<u32> = core::iter::from_fn(|| {
            let index = indices.peek()?;
            indices.take();
            Some(index.0)
        })
        .collect();
        rest.sort_unstable();
        assert_eq!(rest, [0, 2, 4]);
    }
}
