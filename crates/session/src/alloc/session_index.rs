//! Session indices. They are dense, so that workers can keep the state of sessions in arrays.

use adit_types::SessionIndex;

/// Allocates indices below a maximum. Reuses the index released last first, which keeps them dense.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionIndexAllocator {
    fresh: usize,
    max: usize,
    free: Vec<SessionIndex>,
}

impl SessionIndexAllocator {
    pub(crate) const fn new(max: usize) -> Self {
        Self { fresh: 0, max, free: Vec::new() }
    }

    /// The index that [`Self::take`] allocates next; `None` when all are in use.
    pub(crate) fn peek(&self) -> Option<SessionIndex> {
        match self.free.last() {
            Some(&index) => Some(index),
            None if self.fresh < self.max => u32::try_from(self.fresh).ok().map(SessionIndex),
            None => None,
        }
    }

    /// Reserves the index that [`Self::peek`] returns.
    pub(crate) fn take(&mut self) {
        if self.free.pop().is_none() && self.fresh < self.max {
            self.fresh += 1;
        }
    }

    /// Reserves `index`; false if it is in use or not below the maximum. Cost: one step for each free index below it;
    /// none if indices come in ascending order.
    pub(crate) fn take_at(&mut self, index: SessionIndex) -> bool {
        let Ok(position) = usize::try_from(index.0) else { return false };
        if position >= self.max {
            return false;
        }
        if position < self.fresh {
            let found = self.free.iter().rposition(|free| *free == index);
            return found.map(|at| self.free.remove(at)).is_some();
        }
        let passed = (self.fresh..position).rev();
        self.free.extend(passed.filter_map(|at| u32::try_from(at).ok()).map(SessionIndex));
        self.fresh = position + 1;
        true
    }

    /// True if [`Self::take_at`] would reserve `index`.
    pub(crate) fn is_free(&self, index: SessionIndex) -> bool {
        let position = usize::try_from(index.0).unwrap_or(usize::MAX);
        position < self.max && (position >= self.fresh || self.free.contains(&index))
    }

    pub(crate) fn release(&mut self, index: SessionIndex) {
        self.free.push(index);
    }

    pub(crate) const fn max_count(&self) -> usize {
        self.max
    }

    pub(crate) const fn reserved_count(&self) -> usize {
        self.fresh - self.free.len()
    }
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
