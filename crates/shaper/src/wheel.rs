//! A timing wheel: numbers become due slot by slot, in the order of insertion within a slot.

use adit_types::Nanos;

/// Width of a slot: 2^this nanoseconds, 32.8 µs.
const SLOT_BITS: u32 = 15;

/// Width of a slot. A number becomes due at most one slot late.
pub const SLOT: Nanos = Nanos(1 << SLOT_BITS);

/// Slots. Numbers that are due after the last one, 134 ms ahead, become due at its end.
const SLOTS: u64 = 4096;

/// No number.
const NONE: u32 = u32::MAX;

/// Neighbors in a list. Each list is a ring through a link of its own.
#[derive(Debug, Clone, Copy)]
struct WheelLink {
    next: u32,
    last: u32,
}

/// Numbers below a capacity, each at most once, by the time at which they are due.
///
/// Cost: constant to insert and to remove; to advance, constant for each slot that passed, and at
///       most for all slots. An empty wheel advances at once.
#[derive(Debug)]
pub struct Wheel {
    /// The links of the numbers, followed by those of each slot's list, of the list of due numbers,
    /// and of further lists.
    links: Box<[WheelLink]>,
    capacity: u32,
    /// The first slot that did not pass yet, counted from time zero.
    cursor: u64,
    /// Numbers in lists.
    len: usize,
}

impl Wheel {
    /// An empty wheel for numbers below `capacity`, and `further` lists beside its slots.
    #[must_use]
    pub fn new(capacity: usize, further: u8) -> Self {
        let capacity = u32::try_from(capacity).unwrap_or(NONE >> 1);
        let number = |_| WheelLink { next: NONE, last: NONE };
        #[allow(clippy::cast_possible_truncation, reason = "a few thousand slots")]
        let lists = capacity..=capacity + SLOTS as u32 + u32::from(further);
        let list = |at| WheelLink { next: at, last: at };
        let links = (0..capacity).map(number).chain(lists.map(list)).collect();
        Self { links, capacity, cursor: 0, len: 0 }
    }

    /// Inserts `number`, which is in no list, to be due at `at`, or with the last slot if `at` is
    /// later. Never early, and at most one slot late. Numbers out of range are ignored.
    pub fn insert(&mut self, number: u32, at: Nanos) {
        let slot = at.0.div_ceil(1 << SLOT_BITS);
        let slot = slot.clamp(self.cursor, self.cursor + SLOTS - 1);
        self.append(self.slot(slot), number);
    }

    /// Inserts `number`, which is in no list, after the numbers that are due.
    pub fn insert_due(&mut self, number: u32) {
        self.append(self.due(), number);
    }

    /// Appends `number`, which is in no list, to a further list.
    pub fn append_to(&mut self, further: u8, number: u32) {
        self.append(self.further(further), number);
    }

    /// The number that has been longest in a further list.
    #[must_use]
    pub fn first_of(&self, further: u8) -> Option<u32> {
        let list = self.further(further);
        let first = self.links.get(list as usize)?.next;
        (first != list).then_some(first)
    }

    /// A further list.
    fn further(&self, number: u8) -> u32 {
        self.due() + 1 + u32::from(number)
    }

    /// Takes `number` out of its list, if it is in one.
    pub fn remove(&mut self, number: u32) {
        let Some(link) = self.links.get_mut(number as usize).filter(|_| number < self.capacity)
        else {
            return;
        };
        let WheelLink { next, last } =
            core::mem::replace(link, WheelLink { next: NONE, last: NONE });
        if next != NONE {
            self.links[last as usize].next = next;
            self.links[next as usize].last = last;
            self.len -= 1;
        }
    }

    /// Advances to `now`: numbers that are due by then can be taken.
    pub fn advance(&mut self, now: Nanos) {
        let end = (now.0 >> SLOT_BITS) + 1;
        if self.len > 0 {
            // All numbers are within so many slots.
            let passed = end.saturating_sub(self.cursor).min(SLOTS);
            for slot in self.cursor..self.cursor + passed {
                self.pass(self.slot(slot));
            }
        }
        self.cursor = self.cursor.max(end);
    }

    /// Takes the number that has been due longest.
    pub fn take(&mut self) -> Option<u32> {
        let due = self.due();
        let number = self.links[due as usize].next;
        if number == due {
            return None;
        }
        self.remove(number);
        Some(number)
    }

    /// The due numbers, in the order of [`Wheel::take`].
    pub fn due_numbers(&self) -> impl Iterator<Item = u32> {
        let (due, mut at) = (self.due(), self.due());
        core::iter::from_fn(move || {
            at = self.links.get(at as usize)?.next;
            (at != due).then_some(at)
        })
    }

    /// The list of a slot.
    fn slot(&self, slot: u64) -> u32 {
        #[allow(clippy::cast_possible_truncation, reason = "a few thousand slots")]
        let at = (slot % SLOTS) as u32;
        self.capacity + at
    }

    /// The list of due numbers.
    fn due(&self) -> u32 {
        #[allow(clippy::cast_possible_truncation, reason = "a few thousand slots")]
        let behind = SLOTS as u32;
        self.capacity + behind
    }

    /// Appends a number to a list.
    fn append(&mut self, list: u32, number: u32) {
        if number >= self.capacity || list as usize >= self.links.len() {
            return;
        }
        let last = core::mem::replace(&mut self.links[list as usize].last, number);
        self.links[last as usize].next = number;
        self.links[number as usize] = WheelLink { next: list, last };
        self.len += 1;
    }

    /// Moves the numbers of a slot to the due ones.
    fn pass(&mut self, list: u32) {
        let WheelLink { next: first, last } = self.links[list as usize];
        if first == list {
            return;
        }
        let due = self.due();
        self.links[list as usize] = WheelLink { next: list, last: list };
        let behind = core::mem::replace(&mut self.links[due as usize].last, last);
        self.links[behind as usize].next = first;
        self.links[first as usize].last = behind;
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
    fn numbers_are_due_by_slot_and_in_order_of_insertion() {
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
    fn what_is_past_is_due_with_the_next_slot_and_what_is_far_at_the_end() {
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
        assert_eq!(wheel.first_of(0), None, "there is no further list");
        wheel.insert(8, Nanos(0));
        assert_eq!(taken(&mut wheel, Nanos::from_secs(9)), [], "out of range");
    }
}
