//! The stamp at the start of each probe packet's payload: 12 octets, so that it fits a GTP-U frame
//! of 90 octets.
//!
//! ```text
//! octets 1     tag: trial (4 bits), stream (4 bits)
//! octets 2-4   session index
//! octets 5-8   sequence number within the stream
//! octets 9-12  intended send time in units of 4 ticks, low 32 bits
//! ```

use super::clock::low32;

/// Length of a stamp. Unit: octets.
pub const STAMP_BYTES: usize = 12;

/// Number of sessions that a stamp can distinguish.
pub const SESSIONS_MAX: u32 = 1 << 24;

/// Number of streams that a stamp can distinguish.
pub const STREAMS_MAX: usize = 1 << STREAM_BITS;

/// Number of trials with different tags: trials are counted from 1 to this, then from 1 again.
pub const TRIAL_TAGS_MAX: u8 = 15;

const STREAM_BITS: u32 = 4;

/// The stamp counts time in units of 2^`TIME_SHIFT` ticks: at 2.6 GHz 1.5 ns, wrapping after 6.6 s.
pub const TIME_SHIFT: u32 = 2;

/// Identifies a packet of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Trial and stream; see [`tag`].
    pub tag: u8,
    /// Session index, below [`SESSIONS_MAX`].
    pub session: u32,
    /// Sequence number in its stream, low 32 bits.
    pub sequence: u32,
    /// Intended send time; see [`time_units`].
    pub intended: u32,
}

/// Returns the tag of a stream, below [`STREAMS_MAX`], in a trial.
#[must_use]
pub const fn tag(trial: u8, stream: u8) -> u8 {
    trial << STREAM_BITS | stream_of(stream)
}

/// Returns the stream of a tag.
#[inline]
#[must_use]
pub const fn stream_of(tag: u8) -> u8 {
    tag & ((1 << STREAM_BITS) - 1)
}

/// Converts ticks to the stamp's unit of time, low 32 bits.
#[inline]
#[must_use]
pub const fn time_units(ticks: u64) -> u32 {
    low32(ticks >> TIME_SHIFT)
}

impl Stamp {
    /// Returns the octets on the wire.
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

    /// Parses the stamp at the start of `bytes`; `None` if they are too short.
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
        let stamp = Stamp {
            tag: tag(TRIAL_TAGS_MAX, 13),
            session: SESSIONS_MAX - 1,
            sequence: 7,
            intended: 9,
        };
        let mut bytes = stamp.to_bytes().to_vec();
        assert_eq!(Stamp::parse(&bytes), Some(stamp));
        bytes.extend([0xff; 9]);
        assert_eq!(Stamp::parse(&bytes), Some(stamp));
        assert_eq!(Stamp::parse(&bytes[..11]), None);
        assert_eq!(stream_of(stamp.tag), 13);
    }
}
