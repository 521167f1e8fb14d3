//! Longest-prefix match among many prefixes of one family, changed in place.
//!
//! A trie: a direct array for the first 16 bits of an address, then nodes for 8 bits each. A node
//! is one *block*: 256 entries, of which each run of equal ones is stored once; one bit per entry
//! marks where runs begin (after the leaves of Poptrie, Asai and Ohara, SIGCOMM 2015). A full IPv4
//! table of the Internet takes about 15 MB, which a server's L3 cache holds, and a lookup loads
//! from two or three places. DIR-24-8 (`rte_lpm`, `rte_fib`) needs 64 MB from the first route on,
//! its tables have a fixed size and are for IPv4 only, and this room cannot call DPDK.
//!
//! A prefix is painted over the entries of its own level only, so a change rewrites one node or up
//! to 2^15 words of the array. A lookup keeps the best match of the levels above: each block begins
//! with the word that its parent has for it.
//!
//! One writer, many readers, no locks. The writer builds a new block and swaps one word to it; it
//! reuses the former block once every reader has passed a quiescent state (`crate::publish`). So a
//! reader sees each route before or after its change, and routes that do not change at all times.
//!
//! Memory grows with the routes: array and blocks are zeroed mappings.

mod writer;

pub(crate) use writer::{BlocksExhausted, PrefixTreeWriter};

use crate::large::LargeArray;
use crate::prefetch;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Bits of an address that the array decides.
const ROOT_BITS: u8 = 16;

/// Entries of the array.
const ROOT_LEN: usize = 1 << ROOT_BITS;

/// Entries of a node.
const ENTRIES: usize = 256;

/// Words of a unit, in which blocks are allocated: a cache line.
const UNIT_WORDS: usize = 8;

/// Words before the values of a block: ranks and inherited word, then one bit per entry.
const HEADER_WORDS: usize = 5;

/// Units of all blocks at most: 128 MiB, touched as they are needed.
const UNITS_MAX: usize = if cfg!(any(loom, miri)) { 1 << 10 } else { 1 << 21 };

/// An entry that leads to the block at the unit in the other bits. Any other entry is zero, or
/// [`entry`].
const CHILD: u32 = 1 << 31;

/// Bits of a value.
pub(crate) const VALUE_BITS: u32 = 24;

/// Returns the entry of a prefix of `len` bits, 1..=128, whose value is not zero.
const fn entry(len: u8, value: u32) -> u32 {
    (len as u32).wrapping_sub(1) << VALUE_BITS & !CHILD | value
}

/// Returns the prefix length of an [`entry`]; zero of no entry.
const fn len_of(entry: u32) -> u8 {
    if entry == 0 { 0 } else { (entry >> VALUE_BITS & 0x7f) as u8 + 1 }
}

/// The longest prefix that contains an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PrefixMatch {
    /// The value of the prefix, not zero.
    pub value: u32,
    /// The length of the prefix.
    pub len: u8,
}

impl PrefixMatch {
    const fn of(entry: u32) -> Self {
        Self { value: entry & ((1 << VALUE_BITS) - 1), len: len_of(entry) }
    }
}

/// The readers' side. `N`: octets of an address.
pub(crate) struct PrefixTree<const N: usize> {
    root: LargeArray<AtomicU32>,
    blocks: LargeArray<AtomicU64>,
    /// The value of the prefix without bits; zero without one.
    default: AtomicU32,
}

impl<const N: usize> core::fmt::Debug for PrefixTree<N> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PrefixTree").field("octets", &N).finish_non_exhaustive()
    }
}

/// Returns the entry of the array for an address.
#[inline]
fn root_at<const N: usize>(addr: [u8; N]) -> usize {
    usize::from(addr[0]) << 8 | usize::from(addr[1])
}

/// Returns the word of a block that holds the value of entry `at`, and the shift in it, by the
/// block's first word and the one of the bits of `at`.
#[inline]
const fn place_of(at: u8, first: u64, bits: u64) -> (usize, u32) {
    let ranks_at = 32 + at as u32 / 64 * 8;
    let before = lower(first >> ranks_at) & 0xff;
    let run = before + (bits & u64::MAX >> (63 - at % 64)).count_ones() - 1;
    (HEADER_WORDS + run as usize / 2, run % 2 * 32)
}

#[inline]
#[allow(clippy::cast_possible_truncation, reason = "the lower half is wanted")]
const fn lower(word: u64) -> u32 {
    word as u32
}

impl<const N: usize> PrefixTree<N> {
    fn new() -> Self {
        Self {
            root: LargeArray::zeroed(ROOT_LEN),
            blocks: LargeArray::zeroed(UNITS_MAX * UNIT_WORDS),
            default: AtomicU32::new(0),
        }
    }

    /// Returns the value of the longest prefix that contains `addr`.
    ///
    /// Cost:    one load from the array; for each further octet that routes distinguish the first
    ///          cache line of a block, and one other unless the value is among the first six.
    /// Threads: sees each change before or after.
    #[inline]
    pub(crate) fn find(&self, addr: [u8; N]) -> Option<PrefixMatch> {
        let mut word = self.root[root_at(addr)].load(Ordering::Acquire);
        let mut best = 0;
        let mut octets = addr.iter().skip(2);
        while word & CHILD != 0 {
            // Blocks below the last octet do not exist.
            let at = *octets.next()?;
            let base = (word & !CHILD) as usize * UNIT_WORDS;
            let block = self.blocks.get(base..)?;
            let first = block.first()?.load(Ordering::Acquire);
            let inherited = lower(first);
            best = if inherited == 0 { best } else { inherited };
            let bits = block.get(1 + usize::from(at / 64))?.load(Ordering::Relaxed);
            let (value_at, shift) = place_of(at, first, bits);
            word = lower(block.get(value_at)?.load(Ordering::Acquire) >> shift);
        }
        match if word == 0 { best } else { word } {
            0 => {
                let value = self.default.load(Ordering::Relaxed);
                (value != 0).then_some(PrefixMatch { value, len: 0 })
            }
            entry => Some(PrefixMatch::of(entry)),
        }
    }

    /// Prefetches the first block that [`Self::find`] reads, if there is one. Reads the array.
    #[inline]
    pub(crate) fn prefetch(&self, addr: [u8; N]) {
        let word = self.root[root_at(addr)].load(Ordering::Acquire);
        if word & CHILD != 0 {
            prefetch::element(&self.blocks, (word & !CHILD) as usize * UNIT_WORDS);
        }
    }

    /// Prefetches the value that [`Self::find`] reads in the first block, if any. Reads the
    /// array and the line that [`Self::prefetch`] prefetched.
    #[inline]
    pub(crate) fn prefetch_value(&self, addr: [u8; N]) {
        let word = self.root[root_at(addr)].load(Ordering::Relaxed);
        let base = (word & !CHILD) as usize * UNIT_WORDS;
        let (Some(at), Some(block)) = (addr.get(2), self.blocks.get(base..)) else { return };
        let bits = block.get(1 + usize::from(at / 64));
        if word & CHILD != 0
            && let (Some(first), Some(bits)) = (block.first(), bits)
        {
            let (first, bits) = (first.load(Ordering::Relaxed), bits.load(Ordering::Relaxed));
            prefetch::element(block, place_of(*at, first, bits).0);
        }
    }

    /// Returns the match of all addresses with the first 16 bits `at`; `Err` if longer prefixes
    /// divide them.
    pub(crate) fn find_undivided(&self, at: u16) -> Result<Option<PrefixMatch>, Divided> {
        match self.root[usize::from(at)].load(Ordering::Acquire) {
            0 => {
                let value = self.default.load(Ordering::Relaxed);
                Ok((value != 0).then_some(PrefixMatch { value, len: 0 }))
            }
            word if word & CHILD != 0 => Err(Divided),
            word => Ok(Some(PrefixMatch::of(word))),
        }
    }
}

/// Prefixes longer than 16 bits divide a part of the addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Divided;

#[cfg(all(test, not(loom)))]
#[allow(clippy::panic, clippy::unwrap_used, reason = "a test stops where its premise fails")]
mod tests;
