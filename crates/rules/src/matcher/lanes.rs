//! Groups of four filters, one per lane, compared at once.
//!
//! A column is one word of each of the four filters; a line has four columns.
//!
//! | column | bits, from the top |
//! |---|---|
//! | ports | last port of the range (16), first port (16) |
//! | meta | index of the PDR (14), unsure (1), any protocol (1), length of remote prefix (8), protocol (8) |
//! | fine | zero (8), length of the local prefix (8), mask (8) and value (8) of the type of service |
//!
//! The index has the highest bits, so the least meta of matching lanes belongs to the first PDR.

use super::entry::FilterEntry;
use super::quad::Quad;
use super::{Candidate, FlowKey, LOCAL, LOCAL_PORT, PROTOCOL, REMOTE, REMOTE_PORT, TOS};

/// How many filters a group has.
pub(super) const LANES: usize = 4;

/// One word of each of four filters.
type LaneColumn = [u32; LANES];

/// One cache line of a matcher: four columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct MatcherLine(pub(super) [LaneColumn; 4]);

const _: () = assert!(size_of::<MatcherLine>() == 64);

impl MatcherLine {
    /// A line of zeros.
    pub const EMPTY: Self = Self([[0; LANES]; 4]);

    /// Packs words that are not filters, such as a fast rule, into a line.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "both halves are taken")]
    pub fn of_words(words: [u64; 8]) -> Self {
        let half = |at: usize| (words[at / 2] >> (at % 2 * 32)) as u32;
        Self(core::array::from_fn(|column| core::array::from_fn(|lane| half(column * 4 + lane))))
    }

    /// Returns the words given to [`MatcherLine::of_words`].
    #[inline]
    #[must_use]
    pub fn words(&self) -> [u64; 8] {
        let Self([[a, b, c, d], [e, f, g, h], [i, j, k, l], [m, n, o, p]]) = *self;
        let halves = [(a, b), (c, d), (e, f), (g, h), (i, j), (k, l), (m, n), (o, p)];
        halves.map(|(low, high)| u64::from(high) << 32 | u64::from(low))
    }
}

/// The columns of a group of filters, which depend on the address family.
pub(super) trait LaneFamily {
    /// How many words an address has.
    const WORDS: usize;
    /// Column of the remote ports; the local ports and the meta column follow.
    const PORTS: usize;
    /// Column `fine`: type of service, and length of the local prefix.
    const FINE: usize;
    /// First column of the local address.
    const LOCAL: usize;
    /// Lines of a group if its filters name neither a local address nor a type of service.
    const PLAIN_LINES: usize;
}

/// Line 0: remote address, both ports, meta. Line 1: local address, fine column.
pub(super) struct V4;

/// Line 0: remote address. Line 1: both ports, meta, fine column. Line 2: local address.
pub(super) struct V6;

impl LaneFamily for V4 {
    const WORDS: usize = 1;
    const PORTS: usize = 1;
    const FINE: usize = 5;
    const LOCAL: usize = 4;
    const PLAIN_LINES: usize = 1;
}

impl LaneFamily for V6 {
    const WORDS: usize = 4;
    const PORTS: usize = 4;
    const FINE: usize = 7;
    const LOCAL: usize = 8;
    const PLAIN_LINES: usize = 2;
}

const PDR_SHIFT: u32 = 18;
const UNSURE: u32 = 1 << 17;
const ANY_PROTOCOL_SHIFT: i32 = 16;
const LEN_SHIFT: i32 = 8;
const LOCAL_LEN_SHIFT: i32 = 16;

/// The meta value that stands for no match.
const NOTHING: u32 = u32::MAX;

/// A range that contains no port.
const NO_PORT: u32 = 1;

/// Returns the least meta that a PDR after `pdr` can have.
pub(super) fn least_meta_after(pdr: usize) -> u32 {
    u32::try_from(pdr + 1).map_or(NOTHING, |next| next << PDR_SHIFT)
}

/// Returns the PDR that the meta of a matching lane names; `None` for [`NOTHING`].
#[inline]
pub(super) const fn candidate(meta: u32) -> Option<Candidate> {
    if meta == NOTHING {
        return None;
    }
    Some(Candidate { pdr: (meta >> PDR_SHIFT) as usize, needs_check: meta & UNSURE != 0 })
}

/// Appends groups of `entries`, which are sorted by PDR, to `lines`. Returns how many groups.
pub(super) fn write<F: LaneFamily>(
    entries: &[&FilterEntry],
    is_full: bool,
    lines: &mut Vec<MatcherLine>,
) -> usize {
    let stride = F::PLAIN_LINES + usize::from(is_full);
    for group in entries.chunks(LANES) {
        let start = lines.len();
        lines.resize(start + stride, MatcherLine::EMPTY);
        let lines = &mut lines[start..];
        let mut put =
            |column: usize, lane: usize, word: u32| lines[column / 4].0[column % 4][lane] = word;
        for lane in 0..LANES {
            let Some(entry) = group.get(lane) else {
                put(F::PORTS, lane, NO_PORT);
                continue;
            };
            for word in 0..F::WORDS {
                put(word, lane, entry.remote.words[word]);
            }
            put(F::PORTS, lane, port_range(entry.remote_ports.0, entry.remote_ports.1));
            put(F::PORTS + 1, lane, port_range(entry.local_ports.0, entry.local_ports.1));
            put(F::PORTS + 2, lane, meta(entry));
            if is_full {
                let (value, mask) = entry.tos;
                let fine = [value, mask, entry.local.len, 0];
                put(F::FINE, lane, u32::from_le_bytes(fine));
                for word in 0..F::WORDS {
                    put(F::LOCAL + word, lane, entry.local.words[word]);
                }
            }
        }
    }
    entries.len().div_ceil(LANES)
}

fn port_range(first: u16, last: u16) -> u32 {
    u32::from(last) << 16 | u32::from(first)
}

fn meta(entry: &FilterEntry) -> u32 {
    let any = u32::from(entry.protocol.is_none()) << ANY_PROTOCOL_SHIFT;
    let unsure = if entry.is_unsure { UNSURE } else { 0 };
    u32::from(entry.pdr) << PDR_SHIFT
        | unsure
        | any
        | u32::from(entry.remote.len) << LEN_SHIFT
        | u32::from(entry.protocol.unwrap_or(0))
}

/// Returns the least meta, not below `floor`, of the matching filters in the first `groups` groups.
#[inline]
pub(super) fn scan<F: LaneFamily, const LINES: usize, const FULL: bool>(
    lines: &[MatcherLine],
    groups: usize,
    key: &FlowKey,
    floor: u32,
) -> u32 {
    let (all, _) = lines.as_chunks::<LINES>();
    let all = all.get(..groups).unwrap_or(all);
    let before = if floor == 0 { 0 } else { groups_before::<F, LINES>(all, floor) };
    for group in all.get(before..).unwrap_or_default() {
        // Groups are sorted by PDR.
        let least = compare::<F, LINES, FULL>(group, key, floor);
        if least != NOTHING {
            return least;
        }
    }
    NOTHING
}

/// Returns how many groups at the front have only filters below `floor`. Groups are sorted by PDR,
/// and each has a filter in its first lane.
fn groups_before<F: LaneFamily, const LINES: usize>(
    all: &[[MatcherLine; LINES]],
    floor: u32,
) -> usize {
    let column = F::PORTS + 2;
    let first_meta = |group: &[MatcherLine; LINES]| group[column / 4].0[column % 4][0];
    all.partition_point(|group| first_meta(group) < floor).saturating_sub(1)
}

/// Returns the least meta, not below `floor`, of the matching lanes of one group.
// PERF (rules/matcher): a call would pass the key through memory for every group.
#[inline(always)]
fn compare<F: LaneFamily, const LINES: usize, const FULL: bool>(
    group: &[MatcherLine; LINES],
    key: &FlowKey,
    floor: u32,
) -> u32 {
    let column = |at: usize| Quad::load(&group[at / 4].0[at % 4]);
    let word = |at: usize| Quad::splat(key.words[at]);
    let octet = Quad::splat(0xff);
    let meta = column(F::PORTS + 2);
    // A lane of `off` that is not zero in the end does not match.
    let mut off = outside_range(column(F::PORTS), word(REMOTE_PORT))
        .or(outside_range(column(F::PORTS + 1), word(LOCAL_PORT)))
        .shifted_right::<31>();
    let is_any = meta.shifted_right::<ANY_PROTOCOL_SHIFT>().and(Quad::splat(1));
    let protocol = meta.xor(word(PROTOCOL)).and(octet);
    off = off.or(protocol.and(is_any.minus(Quad::splat(1))));
    let len = meta.shifted_right::<LEN_SHIFT>().and(octet);
    for at in 0..F::WORDS {
        off = off.or(prefix_part(at, column(at).xor(word(REMOTE + at)), len));
    }
    if FULL {
        let fine = column(F::FINE);
        let tos = fine.xor(word(TOS)).and(octet);
        off = off.or(tos.and(fine.shifted_right::<8>()));
        let len = fine.shifted_right::<LOCAL_LEN_SHIFT>().and(octet);
        for at in 0..F::WORDS {
            let different = column(F::LOCAL + at).xor(word(LOCAL + at));
            off = off.or(prefix_part(at, different, len));
        }
    }
    meta.or_max_unless(off.is_zero().and(meta.is_from(floor))).least()
}

/// Keeps of `different` (word `at` of the bits in which two addresses differ) only the bits within
/// a prefix of `len` bits, shifted to the right.
#[inline(always)]
// PERF (rules/matcher): see `compare`.
fn prefix_part(at: usize, different: Quad, len: Quad) -> Quad {
    #[allow(clippy::cast_possible_truncation, reason = "at most 128")]
    let end = Quad::splat((at as u32 + 1) * 32);
    different.shifted_right_by(end.minus_at_least_zero(len))
}

/// Returns a negative word for each lane whose range does not contain `port`: one of the two
/// differences is negative then.
#[inline(always)]
// PERF (rules/matcher): see `compare`.
fn outside_range(range: Quad, port: Quad) -> Quad {
    let (first, last) = (range.and(Quad::splat(0xffff)), range.shifted_right::<16>());
    port.minus(first).or(last.minus(port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_of_words_has_these_words() {
        let words = core::array::from_fn(|at| 0x0101_0101_0000_0000 * at as u64 + 7 * at as u64);
        assert_eq!(MatcherLine::of_words(words).words(), words);
    }
}
