//! All SDF filters of one direction of a session, compiled for lookup.
//!
//! A [`Matcher`] finds the first PDR whose filters a packet matches. It reads a few cache lines and
//! follows no pointers. It holds the filters of each address family in groups of four lanes, which
//! are compared at once (`lanes`). If there are many groups, a tree selects those to compare
//! (`tree`).
//!
//! A matcher compares only SDF filters; the caller checks the other conditions of each PDR that it
//! finds. Lanes cannot express an SPI, a flow label or many pairs of port ranges: a match is then
//! *unsure*, and the caller compares the filters themselves.

pub(crate) mod entry;
mod lanes;
mod quad;
mod tree;

use core::net::IpAddr;

use adit_types::Direction;

use crate::sdf::{FlowSelector, PacketFilter};
use entry::FilterEntry;
pub use lanes::MatcherLine;
use lanes::{LaneFamily, V4, V6};

/// Maximum number of PDRs of one direction with a matcher; longer lists have none.
pub const MATCHER_PDRS_MAX: usize = 1 << 13;

/// Offsets of the words of a key: four words of each address, one of each other field.
const REMOTE: usize = 0;
const LOCAL: usize = 4;
const REMOTE_PORT: usize = 8;
const LOCAL_PORT: usize = 9;
const PROTOCOL: usize = 10;
const TOS: usize = 11;

/// How many words a tree may split at: all but the type of service.
const SPLIT_WORDS: usize = TOS;

/// The fields of a packet that a matcher compares, from the UE's point of view as in
/// [`PacketFilter`]. An IPv4 address takes the first of four words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(align(64))]
pub struct FlowKey {
    words: [u32; 16],
    is_v6: bool,
}

impl FlowKey {
    /// Returns the key of a packet whose fields were read at fixed offsets.
    #[inline(always)]
    #[must_use]
    // PERF (rules/matcher): a call would pass the words through memory twice.
    pub fn of_usual(direction: Direction, is_v6: bool, flow: &UsualFlow) -> Self {
        let UsualFlow { src, dst, src_port, dst_port, protocol, tos } = flow;
        let (remote, remote_port, local, local_port) = match direction {
            Direction::Uplink => (dst, dst_port, src, src_port),
            Direction::Downlink => (src, src_port, dst, dst_port),
        };
        let [r0, r1, r2, r3] = *remote;
        let [l0, l1, l2, l3] = *local;
        let [rp, lp, pr, ts] =
            [u32::from(*remote_port), (*local_port).into(), (*protocol).into(), (*tos).into()];
        let words = [r0, r1, r2, r3, l0, l1, l2, l3, rp, lp, pr, ts, 0, 0, 0, 0];
        Self { words, is_v6 }
    }

    /// Returns the key of a packet of `direction`.
    #[inline]
    #[must_use]
    pub fn new(direction: Direction, flow: &FlowSelector) -> Self {
        let (remote, remote_port, local, local_port) = match direction {
            Direction::Uplink => (flow.dst, flow.dst_port, flow.src, flow.src_port),
            Direction::Downlink => (flow.src, flow.src_port, flow.dst, flow.dst_port),
        };
        let mut words = [0; 16];
        words[REMOTE..LOCAL].copy_from_slice(&address_words(remote));
        words[LOCAL..REMOTE_PORT].copy_from_slice(&address_words(local));
        words[REMOTE_PORT] = remote_port.into();
        words[LOCAL_PORT] = local_port.into();
        words[PROTOCOL] = flow.protocol.into();
        words[TOS] = flow.tos.into();
        Self { words, is_v6: flow.src.is_ipv6() }
    }
}

/// The fields that have fixed offsets in most packets. An IPv4 address is in the first word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsualFlow {
    /// Source.
    pub src: [u32; 4],
    /// Destination.
    pub dst: [u32; 4],
    /// Source port; zero if the protocol has none.
    pub src_port: u16,
    /// Destination port; zero if the protocol has none.
    pub dst_port: u16,
    /// Upper-layer protocol.
    pub protocol: u8,
    /// Type of service or traffic class octet.
    pub tos: u8,
}

#[inline]
fn address_words(addr: IpAddr) -> [u32; 4] {
    match addr {
        IpAddr::V4(addr) => [addr.to_bits(), 0, 0, 0],
        IpAddr::V6(addr) => {
            let [a, b, c, d, e, f, g, h] = addr.segments().map(u32::from);
            [a << 16 | b, c << 16 | d, e << 16 | f, g << 16 | h]
        }
    }
}

/// A PDR whose filters a packet matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    /// Index of the PDR in its list.
    pub pdr: usize,
    /// True if the match is unsure: the caller has to compare the filters of the PDR.
    pub needs_check: bool,
}

/// Where the filters of one address family are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MatcherRoot {
    /// The first line of the groups or, if there is a tree, of its nodes.
    pub(crate) start: u16,
    /// How many groups there are, if there is no tree.
    pub(crate) groups: u16,
    /// True if groups have the columns of local addresses and types of service.
    pub(crate) is_full: bool,
    /// True if a tree selects the groups; its nodes precede them.
    pub(crate) is_tree: bool,
}

impl MatcherRoot {
    const FULL: u64 = 1 << 32;
    const TREE: u64 = 1 << 33;

    /// Packs the root into one word.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        u64::from(self.start)
            | u64::from(self.groups) << 16
            | if self.is_full { Self::FULL } else { 0 }
            | if self.is_tree { Self::TREE } else { 0 }
    }

    /// Unpacks a word that [`MatcherRoot::to_bits`] returned.
    #[inline]
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "16 bits each")]
    pub const fn from_bits(bits: u64) -> Self {
        Self {
            start: bits as u16,
            groups: (bits >> 16) as u16,
            is_full: bits & Self::FULL != 0,
            is_tree: bits & Self::TREE != 0,
        }
    }

    /// Returns the lines (at most four) that the lookup of a packet reads first.
    #[inline]
    #[must_use]
    pub fn first_lines(self, is_v6: bool) -> core::ops::Range<usize> {
        let start = usize::from(self.start);
        let stride = usize::from(is_v6) + usize::from(self.is_full) + 1;
        let count = if self.is_tree { 1 } else { usize::from(self.groups) * stride };
        start..start + count.min(4)
    }
}

/// The compiled filters of one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matcher {
    roots: [MatcherRoot; 2],
    lines: Box<[MatcherLine]>,
}

impl Matcher {
    /// Compiles filters of one PDR, each with an index like a PDR. `None` if there are too many.
    pub(crate) fn of_filters(filters: &[PacketFilter]) -> Option<Self> {
        if filters.len() > MATCHER_PDRS_MAX {
            return None;
        }
        let [v4, v6] = [false, true].map(|is_v6| entry::of_filters(filters, is_v6));
        Self::of(&v4, &v6)
    }

    pub(crate) fn of(v4: &[FilterEntry], v6: &[FilterEntry]) -> Option<Self> {
        let mut lines = Vec::new();
        let roots = [lay_out::<V4>(v4, &mut lines)?, lay_out::<V6>(v6, &mut lines)?];
        Some(Self { roots, lines: lines.into_boxed_slice() })
    }

    /// Returns the form in which packets are looked up.
    #[inline]
    #[must_use]
    pub const fn view(&self) -> MatcherView<'_> {
        MatcherView { roots: self.roots, lines: &self.lines }
    }

    /// Returns the cache lines of the matcher, followed by appended lines (fast rules).
    #[must_use]
    pub const fn lines(&self) -> &[MatcherLine] {
        &self.lines
    }

    /// Returns where the filters of IPv4 and of IPv6 begin.
    #[must_use]
    pub const fn roots(&self) -> [MatcherRoot; 2] {
        self.roots
    }

    /// Appends lines that lookups of the matcher do not read.
    pub(crate) fn append(&mut self, lines: &[MatcherLine]) {
        self.lines = [&self.lines, lines].concat().into();
    }
}

/// The matchers of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matchers(pub(crate) [Option<Matcher>; 2]);

impl Matchers {
    /// Returns the matcher of one direction.
    #[inline]
    #[must_use]
    pub const fn get(&self, direction: Direction) -> Option<&Matcher> {
        let [uplink, downlink] = &self.0;
        match direction {
            Direction::Uplink => uplink.as_ref(),
            Direction::Downlink => downlink.as_ref(),
        }
    }

    pub(crate) const fn get_mut(&mut self, direction: Direction) -> Option<&mut Matcher> {
        let [uplink, downlink] = &mut self.0;
        match direction {
            Direction::Uplink => uplink.as_mut(),
            Direction::Downlink => downlink.as_mut(),
        }
    }
}

/// Writes the tree and the groups of one family; `None` if there are more lines than a
/// [`MatcherRoot`] can address.
fn lay_out<F: LaneFamily>(
    entries: &[FilterEntry],
    lines: &mut Vec<MatcherLine>,
) -> Option<MatcherRoot> {
    let is_full = entries.iter().any(FilterEntry::is_full);
    let start = u16::try_from(lines.len()).ok()?;
    let mut built = tree::build(entries);
    if let [(_, only)] = built.leaves.as_slice() {
        let groups = lanes::write::<F>(only, is_full, lines);
        u16::try_from(lines.len()).ok()?;
        return Some(MatcherRoot {
            start,
            groups: u16::try_from(groups).ok()?,
            is_full,
            is_tree: false,
        });
    }
    lines
        .resize(lines.len() + built.nodes.len().div_ceil(tree::NODES_PER_LINE), MatcherLine::EMPTY);
    for (node, leaf) in &built.leaves {
        let first = u16::try_from(lines.len()).ok()?;
        let groups = lanes::write::<F>(leaf, is_full, lines);
        built.nodes[*node] = tree::leaf(first, groups);
    }
    u16::try_from(lines.len()).ok()?;
    tree::write(&built.nodes, &mut lines[usize::from(start)..]);
    Some(MatcherRoot { start, groups: 0, is_full, is_tree: true })
}

/// A compiled matcher; its lines may be a copy elsewhere in memory.
#[derive(Debug, Clone, Copy)]
pub struct MatcherView<'a> {
    roots: [MatcherRoot; 2],
    lines: &'a [MatcherLine],
}

impl<'a> MatcherView<'a> {
    /// Views a copy of [`Matcher::lines`].
    #[inline]
    #[must_use]
    pub const fn new(roots: [MatcherRoot; 2], lines: &'a [MatcherLine]) -> Self {
        Self { roots, lines }
    }

    /// Returns the first PDR that has a matching filter and that `accept` accepts. Calls `accept`
    /// in the order of the list.
    ///
    /// Cost:    one comparison per group of four filters of the packet's family if there are few
    ///          groups; else a descent of log *n* steps, and the groups of one leaf.
    #[inline]
    pub fn find(self, key: &FlowKey, mut accept: impl FnMut(Candidate) -> bool) -> Option<usize> {
        let mut candidate = self.first(key)?;
        while !accept(candidate) {
            candidate = self.next(key, candidate)?;
        }
        Some(candidate.pdr)
    }

    /// Returns the first PDR that has a matching filter.
    #[inline(always)] // PERF (rules/matcher): see `first_from`.
    #[must_use]
    pub fn first(self, key: &FlowKey) -> Option<Candidate> {
        self.first_from(key, 0)
    }

    #[cold]
    fn next(self, key: &FlowKey, last: Candidate) -> Option<Candidate> {
        self.first_from(key, lanes::least_meta_after(last.pdr))
    }

    // PERF (rules/matcher): a call would pass the key through memory.
    #[inline(always)]
    fn first_from(self, key: &FlowKey, floor: u32) -> Option<Candidate> {
        let root = self.roots[usize::from(key.is_v6)];
        let (start, groups) = match root.is_tree {
            false => (root.start, root.groups),
            true => tree::descend(self.lines, root.start, key),
        };
        let lines = self.lines.get(usize::from(start)..).unwrap_or_default();
        let groups = groups.into();
        let found = match (key.is_v6, root.is_full) {
            (false, false) => lanes::scan::<V4, 1, false>(lines, groups, key, floor),
            (false, true) => lanes::scan::<V4, 2, true>(lines, groups, key, floor),
            (true, false) => lanes::scan::<V6, 2, false>(lines, groups, key, floor),
            (true, true) => lanes::scan::<V6, 3, true>(lines, groups, key, floor),
        };
        lanes::candidate(found)
    }
}
