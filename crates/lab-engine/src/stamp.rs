//! The stamp at the start of each probe packet's payload: 12 octets, so that it fits a GTP-U frame of
//! 90 octets.
//!
//! ```text
//! octets 1     tag: trial (4 bits), stream (4 bits)
//! octets 2-4   session index
//! octets 5-8   sequence number, one count for each stream
//! octets 9-12  intended send time in units of 4 ticks, low 32 bits
//! ```

use super::clock::low32;

/// Octets of a stamp.
pub const STAMP_BYTES: usize = 12;

/// Sessions that a stamp can tell apart.
pub const SESSIONS_MAX: u32 = 1 << 24;

/// Streams that a stamp can tell apart.
pub const STREAMS_MAX: usize = 1 << STREAM_BITS;

/// Trials with different tags, from 1 on; then tags repeat.
pub const TRIALS: u8 = 15;

const STREAM_BITS: u32 = 4;

/// Ticks are counted in units of 2^this: at 2.6 GHz 1.5 ns, unambiguous for 6.6 s.
pub const TIME_SHIFT: u32 = 2;

/// Which packet of which trial this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Trial and stream; see [`tag`].
    pub tag: u8,
    /// Session index, below [`SESSIONS_MAX`].
    pub session: u32,
    /// Number in its stream, low 32 bits.
    pub sequence: u32,
    /// Intended send time; see [`time_units`].
    pub intended: u32,
}

/// The tag of a stream, below [`STREAMS_MAX`], in a trial.
#[must_use]
pub const fn tag(trial: u8, stream: u8) -> u8 {
    trial << STREAM_BITS | stream_of(stream)
}

/// The stream of a tag.
#[inline]
#[must_use]
pub const fn stream_of(tag: u8) -> u8 {
    tag & ((1 << STREAM_BITS) - 1)
}

/// The stamp's form of a time in ticks.
#[inline]
#[must_use]
pub const fn time_units(ticks: u64) -> u32 {
    low32(ticks >> TIME_SHIFT)
}

impl Stamp {
    /// The octets on the wire.
    #[inline]
    #[must_use]
    pub fn to_bytes(self) -> [u8; STAMP_BYTES] {
        let head = u32::from(self.tag) << 24 | (self.session & (SESSIONS_MAX - 1));
        let mut bytes = [0; STAMP_BYTES];
        let words = [head, self.sequence, self.intended];
        for (slot, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *slot = word.to_be_bytes();
        }
        bytes
    }

    /// Reads the stamp at the front of `bytes`, or `None` when they are too few.
    #[inline]
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let [head, sequence, intended, ..] = bytes.as_chunks::<4>().0 else { return None };
        let head = u32::from_be_bytes(*head);
        let [tag, ..] = head.to_be_bytes();
        Some(Self {
            tag,
            session: head & (SESSIONS_MAX - 1),
            sequence: u32::from_be_bytes(*sequence),
            intended: u32::from_be_bytes(*intended),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamp_survives_the_wire_whatever_follows_it() {
        let stamp =
            Stamp { tag: tag(TRIALS, 13), session: SESSIONS_MAX - 1, sequence: 7, intended: 9 };
        let mut bytes = stamp.to_bytes().to_vec();
        assert_eq!(Stamp::parse(&bytes), Some(stamp));
        bytes.extend([0xff; 9]);
        assert_eq!(Stamp::parse(&bytes), Some(stamp));
        assert_eq!(Stamp::parse(&bytes[..11]), None);
        assert_eq!(stream_of(stamp.tag), 13);
    }
}
