//! One bit for each IPv4 block or IPv6 area of destinations.
//!
//! An IPv4 block is a /16. An IPv6 area is all addresses with one XOR of the first three groups.

use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How many IPv4 blocks there are, and also how many IPv6 areas.
pub(crate) const AREA_COUNT: usize = 1 << 16;

/// Returns the area of IPv6 addresses whose upper 64 bits are `upper`.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "16 bits are meant")]
pub(crate) const fn area(upper: u64) -> u16 {
    (upper >> 48 ^ upper >> 32 ^ upper >> 16) as u16
}

/// One bit for each block or area. One writer; readers see all writes from before their last burst
/// boundary.
pub(crate) struct AreaBits(Box<[AtomicU64; AREA_COUNT / 64]>);

impl core::fmt::Debug for AreaBits {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let set: u32 = self.0.iter().map(|word| word.load(Relaxed).count_ones()).sum();
        f.debug_tuple("AreaBits").field(&set).finish()
    }
}

impl AreaBits {
    /// All bits clear.
    pub(crate) fn new() -> Self {
        Self(Box::new([const { AtomicU64::new(0) }; AREA_COUNT / 64]))
    }

    #[inline]
    pub(crate) fn has(&self, at: u16) -> bool {
        self.0[usize::from(at / 64)].load(Relaxed) >> (at % 64) & 1 != 0
    }

    /// Returns the positions of set bits, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u16> {
        let words = (0..=u16::MAX).step_by(64).zip(self.0.iter());
        words.flat_map(|(first, word)| {
            let mut left = word.load(Relaxed);
            core::iter::from_fn(move || {
                let at = (left != 0).then(|| left.trailing_zeros())?;
                left &= left - 1;
                Some(first + u16::try_from(at).unwrap_or(0))
            })
        })
    }

    /// For the writer only.
    pub(crate) fn set(&self, at: u16, is_set: bool) {
        let word = &self.0[usize::from(at / 64)];
        let others = word.load(Relaxed) & !(1 << (at % 64));
        word.store(others | u64::from(is_set) << (at % 64), Relaxed);
    }

    /// Sets a range. For the writer only.
    pub(crate) fn set_all(&self, range: Range<usize>) {
        for at in range.start / 64..range.end.div_ceil(64) {
            let first = at * 64;
            let (start, end) = (range.start.max(first), range.end.min(first + 64));
            let bits = u64::MAX >> (64 - (end - start)) << (start - first);
            let word = &self.0[at];
            word.store(word.load(Relaxed) | bits, Relaxed);
        }
    }

    /// Clears the areas of addresses with upper halves in `first..=last`. For the writer only.
    pub(crate) fn clear(&self, first: u64, last: u64) {
        let (first, last) = (first >> 16, last >> 16);
        match last - first < AREA_COUNT as u64 {
            true => (first..=last).for_each(|upper| self.set(area(upper << 16), false)),
            false => self.0.iter().for_each(|word| word.store(0, Relaxed)),
        }
    }

    /// Copies the bits of `other`. For the writer only.
    pub(crate) fn copy(&self, other: &Self) {
        for (word, other) in self.0.iter().zip(other.0.iter()) {
            word.store(other.load(Relaxed), Relaxed);
        }
    }
}
