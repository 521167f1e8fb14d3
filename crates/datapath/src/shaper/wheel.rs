//! A timing wheel: ids become due slot by slot, within a slot in the order of insertion.

use adit_types::Nanos;

/// Binary logarithm of the width of a slot, 32.8 µs. Unit of the width: nanoseconds.
const SLOT_BITS: u32 = 15;

/// Width of a slot. An id becomes due at most one slot late.
pub const SLOT_WIDTH: Nanos = Nanos(1 << SLOT_BITS);

/// Number of slots. Ids that are due later than the last slot, 134 ms ahead, become due with it.
const SLOTS: u64 = 4096;

/// Stands for no id.
const NONE: u32 = u32::MAX;

/// The neighbors of an id in its list. Lists are circular, each with a sentinel link.
#[derive(Debug, Clone, Copy)]
struct WheelLink {
    next: u32,
    prev: u32,
}

impl WheelLink {
    /// The link of an id that is in no list.
    const UNLINKED: Self = Self { next: NONE, prev: NONE };
}

/// Ids below a capacity, each at most once, by the time at which they are due.
///
/// Cost: constant to insert and to remove; to advance, constant for each slot that passed, at most
///       all slots. An empty wheel advances at once.
#[derive(Debug)]
pub struct Wheel {
    /// The links of the ids, then the sentinels of the list of each slot, of the list of due ids,
    /// and of the extra lists.
    links: Box<[WheelLink]>,
    capacity: u32,
    /// The first slot that has not expired, counted from time zero.
    cursor: u64,
    /// How many ids are in lists.
    len: usize,
}

impl Wheel {
    /// Creates an empty wheel for ids below `capacity`, with `extra_lists` lists that have no time.
    #[must_use]
    pub fn new(capacity: usize, extra_lists: u8) -> Self {
        let capacity = u32::try_from(capacity).unwrap_or(NONE >> 1);
        let unlinked = |_| WheelLink::UNLINKED;
        #[allow(clippy::cast_possible_truncation, reason = "a few thousand slots")]
        let lists = capacity..=capacity + SLOTS as u32 + u32::from(extra_lists);
        let empty_list = |at| WheelLink { next: at, prev: at };
        let links = (0..capacity).map(unlinked).chain(lists.map(empty_list)).collect();
        Self { links, capacity, cursor: 0, len: 0 }
    }

    /// Inserts `id`, which is in no list, to become due at `at`: never early, at most one slot
    /// late. Beyond the horizon it becomes due with the last slot, before `at`; the caller checks
    /// it again. Ids out of range are ignored.
    #[inline]
    pub fn insert(&mut self, id: u32, at: Nanos) {
        // PERF (adit-bench datapath --rates wait): runs once per turn. Saturates, so the end of
        // time may become the slot before its own.
        let slot = at.0.saturating_add(SLOT_WIDTH.0 - 1) >> SLOT_BITS;
        let slot = slot.min(self.cursor + SLOTS - 1).max(self.cursor);
        self.append(self.slot(slot), id);
    }

    /// Inserts `id`, which is in no list, behind the ids that are due.
    #[inline]
    pub fn insert_due(&mut self, id: u32) {
        self.append(self.due(), id);
    }

    /// Appends `id`, which is in no list, to an extra list.
    pub fn append_to(&mut self, extra_list: u8, id: u32) {
        self.append(self.extra_list(extra_list), id);
    }

    /// Returns the id that has been in an extra list for the longest time.
    #[must_use]
    pub fn first_of(&self, extra_list: u8) -> Option<u32> {
        let list = self.extra_list(extra_list);
        let first = self.links.get(list as usize)?.next;
        (first != list).then_some(first)
    }

    /// Returns the sentinel of an extra list.
    fn extra_list(&self, number: u8) -> u32 {
        self.due() + 1 + u32::from(number)
    }

    /// Removes `id` from its list, if it is in one.
    pub fn remove(&mut self, id: u32) {
        let Some(link) = self.links.get_mut(id as usize).filter(|_| id < self.capacity) else {
            return;
        };
        let WheelLink { next, prev } = core::mem::replace(link, WheelLink::UNLINKED);
        if next != NONE {
            self.links[prev as usize].next = next;
            self.links[next as usize].prev = prev;
            self.len -= 1;
        }
    }

    /// Advances to `now`: ids that are due by then can be taken with [`Wheel::take`].
    pub fn advance(&mut self, now: Nanos) {
        let end = (now.0 >> SLOT_BITS) + 1;
        if self.len > 0 {
            // After one round of the wheel every slot has expired once.
            let passed = end.saturating_sub(self.cursor).min(SLOTS);
            for slot in self.cursor..self.cursor + passed {
                self.expire_slot(self.slot(slot));
            }
        }
        self.cursor = self.cursor.max(end);
    }

    /// Removes and returns the id that has been due for the longest time.
    pub fn take(&mut self) -> Option<u32> {
        let due = self.due();
        let id = self.links[due as usize].next;
        if id == due {
            return None;
        }
        self.remove(id);
        Some(id)
    }

    /// Removes the ids that have been due for the longest time, as many as `ids` has room for, and
    /// writes them in this order. Returns how many there were.
    #[inline]
    pub fn take_many(&mut self, ids: &mut [u32]) -> usize {
        let due = self.due();
        let mut next = self.links[due as usize].next;
        let mut count = 0;
        for id in ids {
            // At the end of the list `next` is `due`, which is beyond the capacity.
            if next >= self.capacity {
                break;
            }
            let Some(link) = self.links.get_mut(next as usize) else { break };
            *id = next;
            next = core::mem::replace(link, WheelLink::UNLINKED).next;
            count += 1;
        }
        self.links[due as usize].next = next;
        self.links[next as usize].prev = due;
        self.len -= count;
        count
    }

    /// Puts back `ids` that [`Wheel::take_many`] removed, in front of the ids that are due.
    #[cold]
    pub fn put_back(&mut self, ids: &[u32]) {
        let due = self.due();
        for &id in ids.iter().rev().filter(|id| **id < self.capacity) {
            let next = core::mem::replace(&mut self.links[due as usize].next, id);
            self.links[next as usize].prev = id;
            self.links[id as usize] = WheelLink { next, prev: due };
            self.len += 1;
        }
    }

    /// Returns the sentinel of the list of a slot.
    #[inline]
    fn slot(&self, slot: u64) -> u32 {
        #[allow(clippy::cast_possible_truncation, reason = "a few thousand slots")]
        let at = (slot % SLOTS) as u32;
        self.capacity + at
    }

    /// Returns the sentinel of the list of due ids.
    #[inline]
    fn due(&self) -> u32 {
        #[allow(clippy::cast_possible_truncation, reason = "a few thousand slots")]
        let slots = SLOTS as u32;
        self.capacity + slots
    }

    /// Appends an id to the list with a sentinel.
    #[inline]
    fn append(&mut self, list: u32, id: u32) {
        if id >= self.capacity || list as usize >= self.links.len() {
            return;
        }
        let prev = core::mem::replace(&mut self.links[list as usize].prev, id);
        self.links[prev as usize].next = id;
        self.links[id as usize] = WheelLink { next: list, prev };
        self.len += 1;
    }

    /// Appends the ids of the list of a slot to the due ones.
    fn expire_slot(&mut self, list: u32) {
        let WheelLink { next: first, prev: last } = self.links[list as usize];
        if first == list {
            return;
        }
        let due = self.due();
        self.links[list as usize] = WheelLink { next: list, prev: list };
        let tail = core::mem::replace(&mut self.links[due as usize].prev, last);
        self.links[tail as usize].next = first;
        self.links[first as usize].prev = tail;
        self.links[last as usize].next = due;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(wheel: &mut Wheel, now: Nanos) -> Vec<u32> {
        wheel.advance(now);
        core::iter::from_fn(|| wheel.take()).collect()
    }

    #[test]
    fn ids_are_due_by_slot_and_in_order_of_insertion() {
        let mut wheel = Wheel::new(8, 0);
        let slot = 1 << SLOT_BITS;
        wheel.insert(3, Nanos(2 * slot));
        wheel.insert(1, Nanos(slot));
        wheel.insert(2, Nanos(2 * slot - 1));
        assert_eq!(taken(&mut wheel, Nanos(slot - 1)), []);
        assert_eq!(taken(&mut wheel, Nanos(slot)), [1]);
        assert_eq!(taken(&mut wheel, Nanos(2 * slot - 1)), []);
        assert_eq!(taken(&mut wheel, Nanos(2 * slot)), [3, 2]);
    }

    #[test]
    fn past_ids_are_due_next_slot_and_far_ids_at_the_horizon() {
        let mut wheel = Wheel::new(8, 0);
        let slot = 1 << SLOT_BITS;
        assert_eq!(taken(&mut wheel, Nanos::from_secs(1)), []);
        wheel.insert(0, Nanos(0));
        wheel.insert(1, Nanos::NEVER);
        let end = (Nanos::from_secs(1).0 >> SLOT_BITS) + 1;
        assert_eq!(taken(&mut wheel, Nanos(end * slot)), [0]);
        assert_eq!(taken(&mut wheel, Nanos((end + SLOTS - 2) * slot)), []);
        assert_eq!(taken(&mut wheel, Nanos((end + SLOTS - 1) * slot)), [1]);
        wheel.insert_due(5);
        wheel.insert_due(6);
        wheel.remove(5);
        wheel.remove(5);
        assert_eq!((wheel.take(), wheel.take()), (Some(6), None));
        wheel.append_to(0, 5);
        assert_eq!(wheel.first_of(0), None, "there is no extra list");
        wheel.insert(8, Nanos(0));
        assert_eq!(taken(&mut wheel, Nanos::from_secs(9)), [], "out of range");
    }
}
