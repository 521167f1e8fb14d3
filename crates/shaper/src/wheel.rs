//! A timing wheel: which numbers are due by a time, in the order of slots, and of insertion in one.

use adit_types::Nanos;

/// Width of a slot: 2^this nanoseconds, 32.8 µs.
const SLOT_BITS: u32 = 15;

/// The same as a time: what is due leaves so much later at most.
pub const SLOT: Nanos = Nanos(1 << SLOT_BITS);

/// Slots. What lies further ahead than they reach, 134 ms, is due at their end.
const SLOTS: u64 = 4096;

/// No number.
const NONE: u32 = u32::MAX;

/// A list of numbers, linked through [`Wheel::next`].
#[derive(Debug, Clone, Copy)]
struct List {
    first: u32,
    last: u32,
}

const EMPTY: List = List { first: NONE, last: NONE };

/// Numbers below a capacity, each at most once, by the time at which they are due.
///
/// Cost: constant to insert; to advance, constant for each slot that passed and each number that is
///       due. An empty wheel passes any time at once.
#[derive(Debug)]
pub struct Wheel {
    slots: Box<[List]>,
    /// Of each number, the one behind it in its list.
    next: Box<[u32]>,
    /// Due and not taken yet.
    due: List,
    /// The first slot that did not pass, counted from the beginning of time.
    cursor: u64,
    /// Numbers in slots.
    waiting: usize,
}

impl Wheel {
    /// An empty wheel for numbers below `capacity`.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            slots: (0..SLOTS).map(|_| EMPTY).collect(),
            next: (0..capacity).map(|_| NONE).collect(),
            due: EMPTY,
            cursor: 0,
            waiting: 0,
        }
    }

    /// Inserts `number`, which is in no list, to be due at `at` or, if that lies beyond the last
    /// slot, there. Never early: at most one slot late. Numbers out of range are ignored.
    pub fn insert(&mut self, number: u32, at: Nanos) {
        let slot = at.0.div_ceil(1 << SLOT_BITS);
        let slot = slot.clamp(self.cursor, self.cursor + SLOTS - 1);
        let Some(list) = usize::try_from(slot % SLOTS).ok().and_then(|at| self.slots.get_mut(at))
        else {
            return;
        };
        append(&mut self.next, list, number);
        self.waiting += 1;
    }

    /// Inserts `number`, which is in no list, behind those that are due already.
    pub fn insert_due(&mut self, number: u32) {
        append(&mut self.next, &mut self.due, number);
    }

    /// Lets time pass until `now`: what became due can be taken.
    pub fn advance(&mut self, now: Nanos) {
        let end = (now.0 >> SLOT_BITS) + 1;
        while self.waiting > 0 && self.cursor < end {
            let at = usize::try_from(self.cursor % SLOTS).unwrap_or_default();
            let passed = core::mem::replace(&mut self.slots[at], EMPTY);
            let mut number = passed.first;
            while number != NONE {
                self.waiting -= 1;
                number = self.next[number as usize];
            }
            join(&mut self.next, &mut self.due, passed);
            self.cursor += 1;
        }
        self.cursor = self.cursor.max(end);
    }

    /// Takes the number that has been due longest.
    pub fn take(&mut self) -> Option<u32> {
        let number = self.due.first;
        if number == NONE {
            return None;
        }
        self.due.first = self.next[number as usize];
        if self.due.first == NONE {
            self.due = EMPTY;
        }
        Some(number)
    }
}

/// Appends a number to a list.
fn append(next: &mut [u32], list: &mut List, number: u32) {
    let Some(own) = next.get_mut(number as usize) else { return };
    *own = NONE;
    join(next, list, List { first: number, last: number });
}

/// Appends one list to another.
fn join(next: &mut [u32], list: &mut List, tail: List) {
    if tail.first == NONE {
        return;
    }
    match next.get_mut(list.last as usize) {
        Some(last) => *last = tail.first,
        None => list.first = tail.first,
    }
    list.last = tail.last;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(wheel: &mut Wheel, now: Nanos) -> Vec<u32> {
        wheel.advance(now);
        core::iter::from_fn(|| wheel.take()).collect()
    }

    #[test]
    fn numbers_are_due_by_slot_and_in_order_of_insertion() {
        let mut wheel = Wheel::new(8);
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
    fn what_is_past_is_due_with_the_next_slot_and_what_is_far_at_the_end() {
        let mut wheel = Wheel::new(8);
        let slot = 1 << SLOT_BITS;
        assert_eq!(taken(&mut wheel, Nanos::from_secs(1)), []);
        wheel.insert(0, Nanos(0));
        wheel.insert(1, Nanos::NEVER);
        let end = (Nanos::from_secs(1).0 >> SLOT_BITS) + 1;
        assert_eq!(taken(&mut wheel, Nanos(end * slot)), [0]);
        assert_eq!(taken(&mut wheel, Nanos((end + SLOTS - 2) * slot)), []);
        assert_eq!(taken(&mut wheel, Nanos((end + SLOTS - 1) * slot)), [1]);
        wheel.insert_due(5);
        assert_eq!(wheel.take(), Some(5));
        wheel.insert(8, Nanos(0));
        assert_eq!(taken(&mut wheel, Nanos::from_secs(9)), [], "out of range");
    }
}
