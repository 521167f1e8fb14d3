//! Parts that the rules of many sessions have in common, stored once.

use core::hash::Hash;
use std::collections::HashSet;
use std::sync::Arc;

use adit_types::limits::RULE_SHAPES_MAX;

/// Shapes of one kind. A full set drops all its shapes and starts again; rules keep theirs alive.
#[derive(Debug)]
pub(crate) struct ShapeSet<T>(HashSet<Arc<T>>);

impl<T> Default for ShapeSet<T> {
    fn default() -> Self {
        Self(HashSet::new())
    }
}

impl<T: Hash + Eq> ShapeSet<T> {
    /// The shape that equals `shape`. Adds it if the set has none.
    pub(crate) fn share(&mut self, shape: T) -> Arc<T> {
        if let Some(known) = self.0.get(&shape) {
            return Arc::clone(known);
        }
        if self.0.len() >= RULE_SHAPES_MAX {
            self.0.clear();
        }
        let shape = Arc::new(shape);
        self.0.insert(Arc::clone(&shape));
        shape
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_shapes_are_one_and_the_set_is_bounded() {
        let mut known = ShapeSet::default();
        let (first, again) = (known.share(7), known.share(7));
        assert!(Arc::ptr_eq(&first, &again));
        for other in 100..100 + RULE_SHAPES_MAX {
            known.share(other);
        }
        assert!(known.0.len() <= RULE_SHAPES_MAX);
        assert_eq!(*first, 7, "an owner keeps its shape");
        assert_eq!(*known.share(7), 7);
    }
}
