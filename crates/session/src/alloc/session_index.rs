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
}
