//! Values that many entries share, stored once and counted.

use std::collections::HashMap;
use std::hash::Hash;

/// The position of a shared value.
pub(super) type SharedId = u32;

/// Shared values by position.
#[derive(Debug)]
pub(super) struct Interned<T> {
    /// A value and the entries that have it. `None`: the position is free.
    values: Vec<Option<(T, usize)>>,
    positions: HashMap<T, SharedId>,
    free: Vec<SharedId>,
}

impl<T> Default for Interned<T> {
    fn default() -> Self {
        Self { values: Vec::new(), positions: HashMap::new(), free: Vec::new() }
    }
}

impl<T: Clone + Eq + Hash> Interned<T> {
    /// Returns the position of `value` for one further entry, and true if no other entry had it.
    pub(super) fn acquire(&mut self, value: T) -> (SharedId, bool) {
        if let Some(id) = self.positions.get(&value)
            && let Some(Some((_, entries))) = self.values.get_mut(*id as usize)
        {
            *entries += 1;
            return (*id, false);
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.values.push(None);
            u32::try_from(self.values.len() - 1).unwrap_or(u32::MAX)
        });
        self.values[id as usize] = Some((value.clone(), 1));
        self.positions.insert(value, id);
        (id, true)
    }

    /// Removes one entry of a value.
    pub(super) fn release(&mut self, id: SharedId) {
        let Some(slot) = self.values.get_mut(id as usize) else { return };
        let Some((_, entries)) = slot else { return };
        *entries -= 1;
        if *entries == 0
            && let Some((value, _)) = slot.take()
        {
            self.positions.remove(&value);
            self.free.push(id);
        }
    }

    /// Returns the value at a position.
    pub(super) fn get(&self, id: SharedId) -> Option<&T> {
        self.values.get(id as usize)?.as_ref().map(|(value, _)| value)
    }

    /// Returns all values.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.values.iter().flatten().map(|(value, _)| value)
    }
}
