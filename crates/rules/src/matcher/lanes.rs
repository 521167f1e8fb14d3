//! Groups of four filters, one in each lane, compared at once.
//!
//! A column is one word of each of the four; a line has four columns. Ports: the first of the range
//! in the lower half, the last in the upper. Meta, from the top: position of the PDR (14 bits),
//! unsure, any protocol, length of the remote prefix (8), protocol (8). Fine, from the top: nothing
//! (8), length of the local prefix (8), mask and value of the type of service. So the least meta of
//! the lanes that match is that of the first PDR.

use super::entry::Entry;
use super::{Candidate, FlowKey, LOCAL, LOCAL_PORT, PROTOCOL, REMOTE, REMOTE_PORT, TOS};

/// Filters of one group.
pub(super) const LANES: usize = 4;

/// One word of each of four filters.
type Column = [u32; LANES];

/// One cache line of a matcher: four columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Line(pub(super) [Column; 4]);

const _: () = assert!(size_of::<Line>() == 64);

impl Line {
    /// A line of zeros.
    pub const EMPTY: Self = Self([[0; LANES]; 4]);
}

/// Where the columns of a family's groups are.
pub(super) trait Family {
    /// Words of an address.
    const WORDS: usize;
    /// Ports of the remote side, behind them those of the local side, behind them meta.
    const PORTS: usize;
    /// Type of service and the length of the local prefix.
    const FINE: usize;
    /// The local address.
    const LOCAL: usize;
    /// Lines of a group whose filters name no local address and no type of service.
    const PLAIN_LINES: usize;
}

/// Line 0: remote address, both ports, meta. Line 1: local address, fine.
pub(super) struct V4;

/// Line 0: remote address. Line 1: both ports, meta, fine. Line 2: local address.
pub(super) struct V6;

impl Family for V4 {
    const WORDS: usize = 1;
    const PORTS: usize = 1;
    const FINE: usize = 5;
    const LOCAL: usize = 4;
    const PLAIN_LINES: usize = 1;
}

impl Family for V6 {
    const WORDS: usize = 4;
    const PORTS: usize = 4;
    const FINE: usize = 7;
    const LOCAL: usize = 8;
    const PLAIN_LINES: usize = 2;
}

const PDR_SHIFT: u32 = 18;
const UNSURE: u32 = 1 << 17;
const ANY_PROTOCOL_SHIFT: u32 = 16;
const LEN_SHIFT: u32 = 8;
const LOCAL_LEN_SHIFT: u32 = 16;

/// No lane matches.
const NOTHING: u32 = u32::MAX;

/// A range that contains no port.
const NO_PORT: u32 = 1;

/// The least meta of lanes behind those of a PDR.
pub(super) fn floor_behind(pdr: usize) -> u32 {
    u32::try_from(pdr + 1).map_or(NOTHING, |next| next << PDR_SHIFT)
}

/// What the least meta says.
#[inline]
pub(super) const fn candidate(meta: u32) -> Option<Candidate> {
    if meta == NOTHING {
        return None;
    }
    Some(Candidate { pdr: (meta >> PDR_SHIFT) as usize, is_unsure: meta & UNSURE != 0 })
}

/// Appends groups with `entries`, which are sorted by PDR. Returns how many.
pub(super) fn write<F: Family>(entries: &[&Entry], is_full: bool, lines: &mut Vec<Line>) -> usize {
    let stride = F::PLAIN_LINES + usize::from(is_full);
    for group in entries.chunks(LANES) {
        let start = lines.len();
        lines.resize(start + stride, Line::EMPTY);
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
            put(F::PORTS, lane, range(entry.remote_ports));
            put(F::PORTS + 1, lane, range(entry.local_ports));
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

fn range((first, last): (u16, u16)) -> u32 {
    u32::from(last) << 16 | u32::from(first)
}

fn meta(entry: &Entry) -> u32 {
    let any = u32::from(entry.protocol.is_none()) << ANY_PROTOCOL_SHIFT;
    let unsure = if entry.is_unsure { UNSURE } else { 0 };
    u32::from(entry.pdr) << PDR_SHIFT
        | unsure
        | any
        | u32::from(entry.remote.len) << LEN_SHIFT
        | u32::from(entry.protocol.unwrap_or(0))
}

/// The least meta, not below `floor`, of the filters in `groups` groups that match.
#[inline]
pub(super) fn scan<F: Family, const LINES: usize, const FULL: bool>(
    lines: &[Line],
    groups: usize,
    key: &FlowKey,
    floor: u32,
) -> u32 {
    let (all, _) = lines.as_chunks::<LINES>();
    for group in all.iter().take(groups) {
        // Groups are sorted by PDR.
        let least = compare::<F, LINES, FULL>(group, key, floor);
        if least != NOTHING {
            return least;
        }
    }
    NOTHING
}

/// The least meta, not below `floor`, of the lanes of one group that match.
///
/// PERF: plain loops over four lanes, which the compiler turns into one vector instruction each.
#[inline(always)]
fn compare<F: Family, const LINES: usize, const FULL: bool>(
    group: &[Line; LINES],
    key: &FlowKey,
    floor: u32,
) -> u32 {
    let column = |at: usize| &group[at / 4].0[at % 4];
    let meta = column(F::PORTS + 2);
    // What is not zero in the end does not match.
    let mut off = [0_u32; LANES];
    for word in 0..F::WORDS {
        let part = prefix_part::<F>(word, column(word), key.words[REMOTE + word], meta, LEN_SHIFT);
        off = both(off, part);
    }
    for (at, port) in [(F::PORTS, REMOTE_PORT), (F::PORTS + 1, LOCAL_PORT)] {
        let (range, port) = (column(at), key.words[port]);
        off = both(off, core::array::from_fn(|lane| outside(range[lane], port)));
    }
    let protocol = key.words[PROTOCOL];
    off = both(
        off,
        core::array::from_fn(|lane| {
            let any = meta[lane] >> ANY_PROTOCOL_SHIFT & 1;
            (meta[lane] ^ protocol) & 0xff & any.wrapping_sub(1)
        }),
    );
    if FULL {
        let (fine, tos) = (column(F::FINE), key.words[TOS]);
        off = both(off, core::array::from_fn(|lane| (fine[lane] ^ tos) & fine[lane] >> 8 & 0xff));
        for word in 0..F::WORDS {
            let local = column(F::LOCAL + word);
            let word_key = key.words[LOCAL + word];
            off = both(off, prefix_part::<F>(word, local, word_key, fine, LOCAL_LEN_SHIFT));
        }
    }
    let found: Column = core::array::from_fn(|lane| match off[lane] == 0 && meta[lane] >= floor {
        true => meta[lane],
        false => NOTHING,
    });
    found[0].min(found[1]).min(found[2].min(found[3]))
}

#[inline(always)]
// PERF: see `compare`.
fn both(a: Column, b: Column) -> Column {
    core::array::from_fn(|lane| a[lane] | b[lane])
}

/// Zero where the bits of one word that a prefix covers are those of the key.
#[inline(always)]
// PERF: see `compare`.
fn prefix_part<F: Family>(
    word: usize,
    column: &Column,
    key: u32,
    lens: &Column,
    len_shift: u32,
) -> Column {
    #[allow(clippy::cast_possible_truncation, reason = "at most 128")]
    let end = (word as u32 + 1) * 32;
    core::array::from_fn(|lane| {
        let len = lens[lane] >> len_shift & 0xff;
        (column[lane] ^ key).checked_shr(end.saturating_sub(len)).unwrap_or(0)
    })
}

/// Not zero when `port` is outside of the range: then one of the differences is negative.
#[inline(always)]
// PERF: see `compare`.
const fn outside(range: u32, port: u32) -> u32 {
    let (first, last) = (range & 0xffff, range >> 16);
    (port.wrapping_sub(first) | last.wrapping_sub(port)) >> 31
}
