//! The writer's side: the prefixes of each node, and the memory of blocks.

use std::collections::{HashMap, VecDeque};

use super::{
    CHILD, ENTRIES, HEADER_WORDS, PrefixMatch, PrefixTree, ROOT_BITS, ROOT_LEN, UNIT_WORDS,
    UNITS_MAX, entry, len_of, lower, place_of, root_at,
};
use crate::publish::Epoch;
use crate::sync::{Arc, Ordering};

/// Units of the largest block.
const BLOCK_UNITS_MAX: usize = (HEADER_WORDS + ENTRIES / 2).div_ceil(UNIT_WORDS);

/// Bits of an address that one node decides.
const NODE_BITS: u8 = 8;

/// The parent of nodes below the array.
const ROOT: u32 = u32::MAX;

/// The memory for blocks is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlocksExhausted;

/// A node: the prefixes that end in its octet, and the nodes below it.
#[derive(Debug)]
struct PrefixNode {
    /// The number of the parent, or [`ROOT`].
    parent: u32,
    /// Its entry in the parent or in the array.
    slot: u16,
    /// Octets of the address before its own, less two.
    depth: u8,
    is_dirty: bool,
    /// Units of its block.
    units: u8,
    /// The unit where its block begins; zero before it has one.
    block: u32,
    /// By number in the node ([`node_number`]), shorter ones first.
    prefixes: Vec<(u16, u32)>,
    /// By entry.
    children: Vec<(u8, u32)>,
}

impl PrefixNode {
    /// Returns the entry that the prefixes of this node have at `slot`, zero without one.
    fn painted(&self, slot: u8) -> u32 {
        let covers = |(number, _): &&(u16, u32)| {
            let len = number.ilog2();
            *number == (1 << len) | u16::from(slot) >> (8 - len)
        };
        self.prefixes.iter().rev().find(covers).map_or(0, |(_, entry)| *entry)
    }

    /// Returns the entries by prefixes alone.
    fn paint(&self) -> [u32; ENTRIES] {
        let mut entries = [0; ENTRIES];
        for (number, entry) in &self.prefixes {
            let len = number.ilog2();
            let first = usize::from(number - (1 << len)) << (8 - len);
            entries[first..first + (ENTRIES >> len)].fill(*entry);
        }
        entries
    }
}

/// Returns the number of a prefix in its node: its bits there, with a one before them.
fn node_number(octet: u8, bits: u8) -> u16 {
    1 << bits | u16::from(octet) >> (8 - bits)
}

/// The only writer of a [`PrefixTree`]. Changes of prefixes up to 16 bits are visible at once, all
/// others after [`PrefixTreeWriter::commit`].
#[derive(Debug)]
pub(crate) struct PrefixTreeWriter<const N: usize> {
    tree: Arc<PrefixTree<N>>,
    /// The entries of prefixes of 1 to 16 bits, by length and first address.
    short: HashMap<(u8, u16), u32>,
    /// The array by these prefixes alone.
    painted: Vec<u32>,
    /// The node of each entry of the array, less one; zero without one.
    below_root: Vec<u32>,
    nodes: Vec<PrefixNode>,
    free_nodes: Vec<u32>,
    /// Changed nodes, by depth.
    dirty: Vec<Vec<u32>>,
    dirty_count: usize,
    /// The first unit that was never allocated.
    fresh: usize,
    /// Units of blocks in use, retired ones included.
    used: usize,
    /// Free blocks, by units.
    free: [Vec<u32>; BLOCK_UNITS_MAX + 1],
    /// Blocks that readers may still see, with their units.
    limbo: VecDeque<(Epoch, u32, u8)>,
    len: usize,
}

impl<const N: usize> PrefixTreeWriter<N> {
    /// Creates a tree without prefixes.
    pub(crate) fn new() -> Self {
        const { assert!(N > 2, "the array decides two octets") };
        Self {
            tree: Arc::new(PrefixTree::new()),
            short: HashMap::new(),
            painted: vec![0; ROOT_LEN],
            below_root: vec![0; ROOT_LEN],
            nodes: Vec::new(),
            free_nodes: Vec::new(),
            dirty: vec![Vec::new(); N - 2],
            dirty_count: 0,
            // A block is never at unit zero.
            fresh: 1,
            used: 0,
            free: core::array::from_fn(|_| Vec::new()),
            limbo: VecDeque::new(),
            len: 0,
        }
    }

    pub(crate) fn tree(&self) -> &Arc<PrefixTree<N>> {
        &self.tree
    }

    /// Returns the number of prefixes.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Octets of blocks in use, and of those that readers may still see.
    pub(crate) const fn block_bytes(&self) -> usize {
        self.used * UNIT_WORDS * 8
    }

    /// Returns the value of exactly this prefix.
    pub(crate) fn get(&self, addr: [u8; N], len: u8) -> Option<u32> {
        let entry = match len {
            0 => self.tree.default.load(Ordering::Relaxed),
            1..=ROOT_BITS => *self.short.get(&short_key(addr, len))?,
            _ => {
                let (node, number) = self.find_node(addr, len)?;
                let prefixes = &self.nodes.get(node as usize)?.prefixes;
                let at = prefixes.binary_search_by_key(&number, |(number, _)| *number).ok()?;
                prefixes[at].1
            }
        };
        (entry != 0).then_some(PrefixMatch::of(entry).value)
    }

    /// Adds a prefix, or replaces its value: 1..2^24. Returns the former value. The bits of `addr`
    /// beyond `len` are zero.
    pub(crate) fn insert(
        &mut self,
        addr: [u8; N],
        len: u8,
        value: u32,
    ) -> Result<Option<u32>, BlocksExhausted> {
        debug_assert!(value > 0 && value < 1 << super::VALUE_BITS, "value {value}");
        let former = self.get(addr, len);
        if len > ROOT_BITS && !self.has_room() {
            return Err(BlocksExhausted);
        }
        match len {
            0 => self.tree.default.store(value, Ordering::Release),
            1..=ROOT_BITS => {
                let entry = entry(len, value);
                self.short.insert(short_key(addr, len), entry);
                for slot in short_range(addr, len) {
                    if len_of(self.painted[slot]) <= len {
                        self.paint_root(slot, entry);
                    }
                }
            }
            _ => self.insert_long(addr, len, entry(len, value)),
        }
        self.len += usize::from(former.is_none());
        Ok(former)
    }

    /// Removes a prefix, and returns its value.
    pub(crate) fn remove(&mut self, addr: [u8; N], len: u8) -> Option<u32> {
        let former = self.get(addr, len)?;
        self.len -= 1;
        match len {
            0 => self.tree.default.store(0, Ordering::Release),
            1..=ROOT_BITS => {
                self.short.remove(&short_key(addr, len));
                let shorter = (1..len).rev();
                let next = shorter.filter_map(|len| self.short.get(&short_key(addr, len))).next();
                let next = next.copied().unwrap_or(0);
                for slot in short_range(addr, len) {
                    if len_of(self.painted[slot]) == len {
                        self.paint_root(slot, next);
                    }
                }
            }
            _ => {
                let (node, number) = self.find_node(addr, len)?;
                self.nodes[node as usize].prefixes.retain(|(other, _)| *other != number);
                self.note_change(node);
            }
        }
        Some(former)
    }

    /// Returns true if the next change and those that are not committed find room for their blocks.
    fn has_room(&self) -> bool {
        let needed = (self.dirty_count + N) * BLOCK_UNITS_MAX;
        self.fresh + needed <= UNITS_MAX
    }

    fn paint_root(&mut self, slot: usize, entry: u32) {
        self.painted[slot] = entry;
        match self.below_root[slot].checked_sub(1) {
            None => self.tree.root[slot].store(entry, Ordering::Release),
            Some(node) => self.inherit(self.nodes[node as usize].block, entry),
        }
    }

    /// Writes the entry that a node inherits from the level above into its block, if it has one.
    fn inherit(&self, block: u32, entry: u32) {
        if block == 0 {
            return;
        }
        let first = &self.tree.blocks[block as usize * UNIT_WORDS];
        let word = first.load(Ordering::Relaxed);
        if lower(word) != entry {
            first.store(word >> 32 << 32 | u64::from(entry), Ordering::Release);
        }
    }

    /// Returns the node in which a prefix of more than 16 bits ends, and its number there.
    fn find_node(&self, addr: [u8; N], len: u8) -> Option<(u32, u16)> {
        let (depth, bits) = place(len);
        let mut node = self.below_root[root_at(addr)].checked_sub(1)?;
        for octet in addr.iter().skip(2).take(depth) {
            let children = &self.nodes.get(node as usize)?.children;
            let at = children.binary_search_by_key(octet, |(slot, _)| *slot).ok()?;
            node = children[at].1;
        }
        Some((node, node_number(*addr.get(2 + depth)?, bits)))
    }

    fn insert_long(&mut self, addr: [u8; N], len: u8, entry: u32) {
        let (depth, bits) = place(len);
        let slot = root_at(addr);
        let mut node = match self.below_root[slot].checked_sub(1) {
            Some(node) => node,
            None => {
                let node = self.add_node(ROOT, u16::from_be_bytes([addr[0], addr[1]]), 0);
                self.below_root[slot] = node + 1;
                node
            }
        };
        for (octet, depth) in addr.iter().skip(2).take(depth).zip(1..) {
            let children = &self.nodes[node as usize].children;
            node = match children.binary_search_by_key(octet, |(slot, _)| *slot) {
                Ok(at) => children[at].1,
                Err(at) => {
                    let child = self.add_node(node, (*octet).into(), depth);
                    self.nodes[node as usize].children.insert(at, (*octet, child));
                    self.note_change(node);
                    child
                }
            };
        }
        let number = node_number(addr[2 + depth], bits);
        let prefixes = &mut self.nodes[node as usize].prefixes;
        match prefixes.binary_search_by_key(&number, |(number, _)| *number) {
            Ok(at) => prefixes[at].1 = entry,
            Err(at) => prefixes.insert(at, (number, entry)),
        }
        self.note_change(node);
    }

    fn add_node(&mut self, parent: u32, slot: u16, depth: u8) -> u32 {
        let node = PrefixNode {
            parent,
            slot,
            depth,
            is_dirty: false,
            units: 0,
            block: 0,
            prefixes: Vec::new(),
            children: Vec::new(),
        };
        let number = match self.free_nodes.pop() {
            Some(number) => {
                self.nodes[number as usize] = node;
                number
            }
            None => {
                self.nodes.push(node);
                u32::try_from(self.nodes.len() - 1).unwrap_or(ROOT)
            }
        };
        self.note_change(number);
        number
    }

    fn note_change(&mut self, number: u32) {
        let node = &mut self.nodes[number as usize];
        if !node.is_dirty {
            node.is_dirty = true;
            self.dirty_count += 1;
            self.dirty[usize::from(node.depth)].push(number);
        }
    }

    /// Makes all changes visible. Their former blocks are free once all readers have passed
    /// `epoch`.
    pub(crate) fn commit(&mut self, epoch: Epoch) {
        // Blocks before the parents that lead to them.
        for depth in (0..self.dirty.len()).rev() {
            for number in core::mem::take(&mut self.dirty[depth]) {
                let node = &mut self.nodes[number as usize];
                node.is_dirty = false;
                match node.prefixes.is_empty() && node.children.is_empty() {
                    true => self.remove_node(number, epoch),
                    false => self.write_node(number, epoch),
                }
            }
        }
        self.dirty_count = 0;
    }

    fn remove_node(&mut self, number: u32, epoch: Epoch) {
        let PrefixNode { parent, slot, block, units, .. } = self.nodes[number as usize];
        self.free_nodes.push(number);
        match self.nodes.get_mut(parent as usize) {
            Some(above) => {
                above.children.retain(|(_, child)| *child != number);
                self.note_change(parent);
            }
            None => {
                let slot = usize::from(slot);
                self.below_root[slot] = 0;
                self.tree.root[slot].store(self.painted[slot], Ordering::Release);
            }
        }
        self.retire(block, units, epoch);
    }

    fn retire(&mut self, block: u32, units: u8, epoch: Epoch) {
        if block != 0 {
            self.limbo.push_back((epoch, block, units));
        }
    }

    /// Writes a node into a new block, and leads its parent there.
    fn write_node(&mut self, number: u32, epoch: Epoch) {
        let node = &self.nodes[number as usize];
        let mut entries = node.paint();
        for (slot, child) in &node.children {
            let block = self.nodes[*child as usize].block;
            self.inherit(block, entries[usize::from(*slot)]);
            entries[usize::from(*slot)] = CHILD | block;
        }
        let above = self.nodes.get(node.parent as usize);
        let inherited = match above {
            Some(above) => above.painted(node.slot.to_be_bytes()[1]),
            None => self.painted[usize::from(node.slot)],
        };
        // A parent that is to be written leads here then.
        let parent = above.filter(|above| !above.is_dirty).map(|above| above.block);
        let (is_below_root, slot) = (above.is_none(), node.slot);
        let (former, former_units) = (node.block, node.units);
        let (words, len) = pack(&entries, inherited);
        let units = len.div_ceil(UNIT_WORDS);
        let Some(block) = self.allocate(units) else {
            unreachable!("`has_room` has kept room for all changed nodes")
        };
        let place = &self.tree.blocks[block as usize * UNIT_WORDS..][..len];
        for (cell, word) in place.iter().zip(words) {
            cell.store(word, Ordering::Relaxed);
        }
        if is_below_root {
            self.tree.root[usize::from(slot)].store(CHILD | block, Ordering::Release);
        } else if let Some(parent) = parent {
            self.store_entry(parent, slot.to_be_bytes()[1], CHILD | block);
        }
        let node = &mut self.nodes[number as usize];
        node.block = block;
        node.units = u8::try_from(units).unwrap_or(u8::MAX);
        self.retire(former, former_units, epoch);
    }

    /// Replaces an entry that is a run of its own.
    fn store_entry(&self, block: u32, at: u8, entry: u32) {
        let block = &self.tree.blocks[block as usize * UNIT_WORDS..];
        let load = |at: usize| block[at].load(Ordering::Relaxed);
        let (value_at, shift) = place_of(at, load(0), load(1 + usize::from(at / 64)));
        let others = load(value_at) & !(u64::from(u32::MAX) << shift);
        block[value_at].store(others | u64::from(entry) << shift, Ordering::Release);
    }

    fn allocate(&mut self, units: usize) -> Option<u32> {
        self.used += units;
        if let Some(block) = self.free.get_mut(units)?.pop() {
            return Some(block);
        }
        let block = self.fresh;
        self.fresh += units;
        u32::try_from(block).ok().filter(|_| self.fresh <= UNITS_MAX)
    }

    /// Frees the blocks that no reader can see any more.
    pub(crate) fn reclaim(&mut self, passed: Epoch) {
        while let Some((_, block, units)) = self.limbo.pop_front_if(|(since, ..)| *since <= passed)
        {
            self.used -= usize::from(units);
            self.free[usize::from(units)].push(block);
        }
    }
}

/// Returns the depth of the node in which a prefix of more than 16 bits ends, and its bits there.
const fn place(len: u8) -> (usize, u8) {
    let beyond = len - ROOT_BITS - 1;
    ((beyond / NODE_BITS) as usize, beyond % NODE_BITS + 1)
}

/// Returns the key of a prefix of 1 to 16 bits.
fn short_key<const N: usize>(addr: [u8; N], len: u8) -> (u8, u16) {
    let bits = u16::from_be_bytes([addr[0], addr[1]]);
    (len, bits & u16::MAX << (ROOT_BITS - len))
}

/// Returns the entries of the array in a prefix of 1 to 16 bits.
fn short_range<const N: usize>(addr: [u8; N], len: u8) -> core::ops::Range<usize> {
    let first = usize::from(short_key(addr, len).1);
    first..first + (ROOT_LEN >> len)
}

/// Returns the words of the block of a node, and how many there are.
fn pack(entries: &[u32; ENTRIES], inherited: u32) -> ([u64; HEADER_WORDS + ENTRIES / 2], usize) {
    let mut words = [0; HEADER_WORDS + ENTRIES / 2];
    let (mut runs, mut last) = (0_usize, None);
    let mut first = u64::from(inherited);
    for (at, entry) in entries.iter().enumerate() {
        if at % 64 == 0 {
            // At most 192.
            first |= (runs as u64) << (32 + at / 64 * 8);
        }
        if last != Some(*entry) {
            words[1 + at / 64] |= 1 << (at % 64);
            words[HEADER_WORDS + runs / 2] |= u64::from(*entry) << (runs % 2 * 32);
            runs += 1;
            last = Some(*entry);
        }
    }
    words[0] = first;
    (words, HEADER_WORDS + runs.div_ceil(2))
}
