//! Expresses by session index: one cache line per session and direction.
//!
//! The control thread alone writes; workers read. A line is a sequence lock: a reader that meets a
//! line while it is written has none, and asks the rules instead. What a line names (usage slots,
//! next hops) is released only after every worker has passed a burst boundary without the rules
//! that the line was compiled from.

use core::fmt;
use core::net::Ipv4Addr;

use adit_rules::{EXPRESS_URRS_MAX, Express, ExpressUrr, ExpressWay};
use adit_types::{Direction, InterfaceSet, NextHopIndex, Qfi, SessionIndex, Teid, UsageSlot};
use arrayvec::ArrayVec;

use crate::prefetch;
use crate::sync::{AtomicU64, Ordering, fence};

/// Words behind the head.
const WORDS: usize = 7;

/// Bits of the head above the sequence number, which takes the lower 32.
const USABLE: u64 = 1 << 32;
const MARKS: u64 = 1 << 33;
const REFLECTIVE: u64 = 1 << 34;
const URRS_SHIFT: u32 = 36;
const QFI_SHIFT: u32 = 40;
const TOS_SHIFT: u32 = 48;

/// Word by word: TEID and UE; arrival, and exit or next hop; QFIs, or the far end's TEID and
/// address; three URRs; one to spare.
#[repr(C, align(64))]
struct Line {
    head: AtomicU64,
    words: [AtomicU64; WORDS],
}

impl Line {
    fn new() -> Self {
        Self { head: AtomicU64::new(0), words: core::array::from_fn(|_| AtomicU64::new(0)) }
    }

    /// Writes a line; for the one writer.
    fn write(&self, flags: u64, words: [u64; WORDS]) {
        let sequence = self.head.load(Ordering::Relaxed) & u64::from(u32::MAX);
        let odd = (sequence + 1) & u64::from(u32::MAX);
        self.head.store(odd, Ordering::Relaxed);
        fence(Ordering::Release);
        for (cell, word) in self.words.iter().zip(words) {
            cell.store(word, Ordering::Relaxed);
        }
        let even = (odd + 1) & u64::from(u32::MAX);
        self.head.store(even | flags, Ordering::Release);
    }

    /// Head and words of one moment, if the line is usable.
    #[inline]
    fn read(&self) -> Option<(u64, [u64; WORDS])> {
        let head = self.head.load(Ordering::Acquire);
        if head & USABLE == 0 {
            return None;
        }
        let words = core::array::from_fn(|at| self.words[at].load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        (self.head.load(Ordering::Relaxed) == head).then_some((head, words))
    }
}

/// Both directions of one session.
#[repr(C)]
struct Lines {
    uplink: Line,
    downlink: Line,
}

/// The expresses of all sessions.
pub(crate) struct ExpressTable(Box<[Lines]>);

impl ExpressTable {
    pub(crate) fn new(sessions: usize) -> Self {
        let lines = || Lines { uplink: Line::new(), downlink: Line::new() };
        Self(crate::large::filled(sessions, lines))
    }

    fn line(&self, session: SessionIndex, direction: Direction) -> Option<&Line> {
        let lines = self.0.get(session.0 as usize)?;
        Some(match direction {
            Direction::Uplink => &lines.uplink,
            Direction::Downlink => &lines.downlink,
        })
    }

    /// Replaces the express of one direction. For the publisher only.
    pub(crate) fn set(
        &self,
        session: SessionIndex,
        direction: Direction,
        express: Option<&Express>,
    ) {
        let Some(line) = self.line(session, direction) else { return };
        match express {
            Some(express) => {
                let (flags, words) = pack(express);
                line.write(flags, words);
            }
            None => line.write(0, [0; WORDS]),
        }
    }

    /// The express of one direction; `None` without one, and while it is written.
    #[inline]
    pub(crate) fn get(&self, session: SessionIndex, direction: Direction) -> Option<Express> {
        let (head, words) = self.line(session, direction)?.read()?;
        Some(unpack(direction, head, &words))
    }

    /// What to ask for ahead of [`ExpressTable::get`]; may be of two moments.
    #[inline]
    pub(crate) fn needs(&self, session: SessionIndex, direction: Direction) -> Option<Needs> {
        let line = self.line(session, direction)?;
        let head = line.head.load(Ordering::Relaxed);
        if head & USABLE == 0 {
            return None;
        }
        let slot = |word: usize| UsageSlot(halves(line.words[word].load(Ordering::Relaxed)).0);
        let (_, next_hop) = halves(line.words[1].load(Ordering::Relaxed));
        Some(Needs {
            usages: urr_count(head),
            usage: [slot(3), slot(4), slot(5)],
            next_hop: NextHopIndex(next_hop),
        })
    }

    #[inline]
    pub(crate) fn prefetch(&self, session: SessionIndex, direction: Direction) {
        if let Some(line) = self.line(session, direction) {
            prefetch::read(line);
        }
    }
}

/// What an express names.
pub(crate) struct Needs {
    /// How many of `usage` there are.
    pub usages: usize,
    pub usage: [UsageSlot; EXPRESS_URRS_MAX],
    /// Downlink only.
    pub next_hop: NextHopIndex,
}

impl fmt::Debug for ExpressTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExpressTable").field("sessions", &self.0.len()).finish()
    }
}

const fn pair(high: u32, low: u32) -> u64 {
    (high as u64) << 32 | low as u64
}

#[inline]
#[allow(clippy::cast_possible_truncation, reason = "the halves are wanted")]
const fn halves(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

#[inline]
#[allow(clippy::cast_possible_truncation, reason = "two bits")]
const fn urr_count(head: u64) -> usize {
    (head >> URRS_SHIFT & 0b11) as usize
}

fn pack(express: &Express) -> (u64, [u64; WORDS]) {
    let Express { arrival, ue, way, urrs } = express;
    let ue = ue.map_or(0, Ipv4Addr::to_bits);
    let mut flags = USABLE | (urrs.len() as u64) << URRS_SHIFT;
    let mut words = [0; WORDS];
    match *way {
        ExpressWay::Uplink { teid, qfis, exit } => {
            words[0] = pair(teid.0, ue);
            words[1] = pair(arrival.0, exit.0);
            words[2] = qfis;
        }
        ExpressWay::Downlink { teid, addr, next_hop, tos, marking } => {
            words[0] = pair(0, ue);
            words[1] = pair(arrival.0, next_hop.0);
            words[2] = pair(teid.0, addr.to_bits());
            flags |= u64::from(tos) << TOS_SHIFT;
            if let Some((qfi, reflective)) = marking {
                flags |= MARKS | u64::from(qfi.value()) << QFI_SHIFT;
                flags |= if reflective { REFLECTIVE } else { 0 };
            }
        }
    }
    for (word, urr) in words[3..].iter_mut().zip(urrs) {
        *word = pair(urr.slot.0, urr.generation);
    }
    (flags, words)
}

#[inline]
fn unpack(direction: Direction, head: u64, words: &[u64; WORDS]) -> Express {
    let (teid, ue) = halves(words[0]);
    let (arrival, exit) = halves(words[1]);
    let way = match direction {
        Direction::Uplink => {
            ExpressWay::Uplink { teid: Teid(teid), qfis: words[2], exit: InterfaceSet(exit) }
        }
        Direction::Downlink => {
            let (teid, addr) = halves(words[2]);
            let [_, _, _, _, _, qfi, tos, _] = head.to_le_bytes();
            let qfi = Qfi::new(qfi).filter(|_| head & MARKS != 0);
            ExpressWay::Downlink {
                teid: Teid(teid),
                addr: Ipv4Addr::from_bits(addr),
                next_hop: NextHopIndex(exit),
                tos,
                marking: qfi.map(|qfi| (qfi, head & REFLECTIVE != 0)),
            }
        }
    };
    let mut urrs = ArrayVec::new();
    for word in words[3..6].iter().take(urr_count(head)) {
        let (slot, generation) = halves(*word);
        urrs.push(ExpressUrr { slot: UsageSlot(slot), generation });
    }
    Express {
        arrival: InterfaceSet(arrival),
        ue: (ue != 0).then(|| Ipv4Addr::from_bits(ue)),
        way,
        urrs,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    const SESSION: SessionIndex = SessionIndex(1);

    fn urrs(count: u32) -> ArrayVec<ExpressUrr, EXPRESS_URRS_MAX> {
        (0..count)
            .map(|n| ExpressUrr { slot: UsageSlot(7 + n), generation: u32::MAX - n })
            .collect()
    }

    fn downlink(seed: u32, marking: Option<(Qfi, bool)>) -> Express {
        Express {
            arrival: InterfaceSet(seed),
            ue: Some(Ipv4Addr::from_bits(seed)),
            way: ExpressWay::Downlink {
                teid: Teid(seed),
                addr: Ipv4Addr::from_bits(seed),
                next_hop: NextHopIndex(seed),
                tos: 0xff,
                marking,
            },
            urrs: urrs(3),
        }
    }

    #[test]
    fn express_is_read_as_it_was_written() {
        let table = ExpressTable::new(2);
        let qfi = |value| Qfi::new(value).unwrap();
        for marking in [None, Some((qfi(0), false)), Some((qfi(63), true))] {
            let express = downlink(u32::MAX, marking);
            table.set(SESSION, Direction::Downlink, Some(&express));
            assert_eq!(table.get(SESSION, Direction::Downlink), Some(express));
        }
        for (ue, count) in [(None, 0), (Some(Ipv4Addr::new(10, 0, 0, 1)), 1)] {
            let way = ExpressWay::Uplink { teid: Teid(9), qfis: 1 << 63, exit: InterfaceSet(5) };
            let express = Express { arrival: InterfaceSet(3), ue, way, urrs: urrs(count) };
            table.set(SESSION, Direction::Uplink, Some(&express));
            assert_eq!(table.get(SESSION, Direction::Uplink), Some(express));
        }
    }

    #[test]
    fn session_without_an_express_has_none() {
        let table = ExpressTable::new(2);
        let express = downlink(1, None);
        table.set(SESSION, Direction::Downlink, Some(&express));
        assert_eq!(table.get(SESSION, Direction::Uplink), None);
        assert_eq!(table.get(SessionIndex(0), Direction::Downlink), None);
        assert_eq!(table.get(SessionIndex::NONE, Direction::Downlink), None);
        table.set(SESSION, Direction::Downlink, None);
        assert_eq!(table.get(SESSION, Direction::Downlink), None);
    }

    #[test]
    fn reader_never_sees_a_mixture_of_two() {
        const WRITES: u32 = 20_000;
        let table = ExpressTable::new(2);
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                for seed in 1..=WRITES {
                    table.set(SESSION, Direction::Downlink, Some(&downlink(seed, None)));
                }
                done.store(true, Ordering::Release);
            });
            while !done.load(Ordering::Acquire) {
                if let Some(seen) = table.get(SESSION, Direction::Downlink) {
                    assert_eq!(seen, downlink(seen.arrival.0, None));
                }
            }
        });
        assert_eq!(table.get(SESSION, Direction::Downlink), Some(downlink(WRITES, None)));
    }
}
