//! Trees that select groups of filters: each node divides the filters by one word of the key.
//!
//! A filter that reaches both sides of a split is copied to both. A budget of copies keeps the tree
//! proportional to the number of filters; filters without a good split become a leaf with several
//! groups. In a leaf, a filter that covers the whole region hides later ones if their PDRs have the
//! same other conditions; these are left out.

use super::entry::{EVERYWHERE, FilterEntry, KeyRegion};
use super::lanes::{LANES, MatcherLine};
use super::{FlowKey, SPLIT_WORDS};

/// Filters are split only if there are more than this number.
const LEAF_ENTRIES_MAX: usize = 2 * LANES;

/// Budget of copies, per filter of the tree.
const COPIES_PER_ENTRY_MAX: usize = 4;

/// How many nodes a cache line holds.
pub(super) const NODES_PER_LINE: usize = 8;

/// Marks a leaf in the upper word of a node.
///
/// | node | upper word | lower word |
/// |---|---|---|
/// | leaf | this bit, number of groups | line where they begin |
/// | other | word to split at (8 bits), first of its two children (24) | last value of the first |
const LEAF: u32 = 1 << 31;
const WORD_SHIFT: u32 = 24;
const CHILD_MASK: u32 = (1 << WORD_SHIFT) - 1;

/// Upper and lower word of a node.
pub(super) type TreeNode = [u32; 2];

/// A tree whose leaves have not been written to lines.
pub(super) struct BuiltTree<'e> {
    /// The nodes, root first. Nodes of leaves are empty until their groups are written.
    pub nodes: Vec<TreeNode>,
    /// For each leaf, the index of its node, and its filters in the order of PDRs.
    pub leaves: Vec<(usize, Vec<&'e FilterEntry>)>,
}

/// Filters for which the tree has a node, but no leaf or split yet.
struct TreePart<'e> {
    node: usize,
    entries: Vec<&'e FilterEntry>,
    region: KeyRegion,
    /// How many copies of filters further splits may make.
    budget: usize,
}

/// A way to divide the filters of a part.
struct Split {
    word: usize,
    /// The last value of the word that belongs to the first half.
    point: u32,
    larger: usize,
    copies: usize,
}

/// Builds a tree over `entries`, which are sorted by PDR.
pub(super) fn build(entries: &[FilterEntry]) -> BuiltTree<'_> {
    let mut built = BuiltTree { nodes: vec![[0; 2]], leaves: Vec::new() };
    let budget = entries.len() * COPIES_PER_ENTRY_MAX;
    let entries = entries.iter().collect();
    let mut parts = vec![TreePart { node: 0, entries, region: EVERYWHERE, budget }];
    while let Some(mut part) = parts.pop() {
        drop_covered(&mut part);
        let Some(split) = best_split(&part) else {
            built.leaves.push((part.node, part.entries));
            continue;
        };
        let child = built.nodes.len();
        built.nodes[part.node] = [low(split.word) << WORD_SHIFT | low(child), split.point];
        built.nodes.resize(child + 2, [0; 2]);
        let budget = (part.budget - split.copies) / 2;
        let (first, last) = part.region[split.word];
        for (node, range) in [(child, (first, split.point)), (child + 1, (split.point + 1, last))] {
            let mut region = part.region;
            region[split.word] = range;
            let reaches = |entry: &&FilterEntry| {
                let (first, last) = entry.region()[split.word];
                first <= range.1 && last >= range.0
            };
            let entries = part.entries.iter().copied().filter(reaches).collect();
            parts.push(TreePart { node, entries, region, budget });
        }
    }
    built
}

/// Converts, saturating; there are only some thousands of filters and nodes.
fn low(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(CHILD_MASK)
}

/// Removes filters that no packet of the region reaches, because an earlier filter covers it.
fn drop_covered(part: &mut TreePart<'_>) {
    let mut covered = Vec::new();
    let region = part.region;
    part.entries.retain(|entry| {
        if covered.contains(&entry.conditions) {
            return false;
        }
        if entry.covers(&region) {
            covered.push(entry.conditions);
        }
        true
    });
}

/// Returns the split with the fewest filters in its larger half; `None` if no split is worth it.
fn best_split(part: &TreePart<'_>) -> Option<Split> {
    let count = part.entries.len();
    if count <= LEAF_ENTRIES_MAX {
        return None;
    }
    let regions: Vec<KeyRegion> = part.entries.iter().map(|entry| entry.region()).collect();
    let splits = (0..SPLIT_WORDS).filter_map(|word| median_split(&regions, &part.region, word));
    let best = splits.min_by_key(|split| (split.larger, split.copies))?;
    let is_worth_it = best.larger <= count - count / 8 && best.copies <= part.budget;
    is_worth_it.then_some(best)
}

/// Returns the split at the median of the filters' borders within the region.
fn median_split(regions: &[KeyRegion], within: &KeyRegion, word: usize) -> Option<Split> {
    let (first, last) = within[word];
    let border = |region: &KeyRegion| {
        let own = region[word];
        match (own.1 < last, own.0 > first) {
            (true, _) => Some(own.1),
            (false, true) => Some(own.0 - 1),
            (false, false) => None,
        }
    };
    let mut borders: Vec<u32> = regions.iter().filter_map(border).collect();
    if borders.is_empty() {
        return None;
    }
    let half = (borders.len() - 1) / 2;
    let point = *borders.select_nth_unstable(half).1;
    let left = regions.iter().filter(|region| region[word].0 <= point).count();
    let right = regions.iter().filter(|region| region[word].1 > point).count();
    let copies = (left + right).saturating_sub(regions.len());
    Some(Split { word, point, larger: left.max(right), copies })
}

/// Makes the node of a leaf whose groups begin at `line`.
pub(super) fn leaf(line: u16, groups: usize) -> TreeNode {
    [LEAF | low(groups), line.into()]
}

/// Writes the nodes to the first lines of the tree.
pub(super) fn write(nodes: &[TreeNode], lines: &mut [MatcherLine]) {
    for (at, node) in nodes.iter().enumerate() {
        let (line, place) = (at / NODES_PER_LINE, at % NODES_PER_LINE);
        lines[line].0[place / 2][place % 2 * 2..][..2].copy_from_slice(node);
    }
}

/// Finds the leaf of a packet: returns the line where its groups begin, and how many there are.
#[inline]
pub(super) fn descend(lines: &[MatcherLine], start: u16, key: &FlowKey) -> (u16, u16) {
    let nodes = lines.get(usize::from(start)..).unwrap_or_default();
    let mut at = 0_u32;
    loop {
        let (line, place) = (at as usize / NODES_PER_LINE, at as usize % NODES_PER_LINE);
        let Some(line) = nodes.get(line) else { return (0, 0) };
        let pair = line.0[place / 2];
        let [upper, lower] = match place % 2 {
            0 => [pair[0], pair[1]],
            _ => [pair[2], pair[3]],
        };
        if upper & LEAF != 0 {
            #[allow(clippy::cast_possible_truncation, reason = "written from 16 bits each")]
            return (lower as u16, (upper & !LEAF) as u16);
        }
        let value = key.words[(upper >> WORD_SHIFT & 15) as usize];
        at = (upper & CHILD_MASK) + u32::from(value > lower);
    }
}
