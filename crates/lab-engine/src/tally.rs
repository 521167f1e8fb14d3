//! Received packets of one stream: loss, duplication, reordering, latency.

use super::clock::low32;
use super::histogram::Latency;
use super::stamp::Stamp;
use super::windows::Windows;

/// Size of the window of sequence numbers below the highest received one: 65 ms at 16 Mpps.
pub const SEQUENCE_WINDOW: u32 = 1 << 20;

const WORD_BITS: u32 = u64::BITS;

/// Order of a packet relative to earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArrivalOrder {
    /// The sequence number is above all earlier ones.
    InOrder,
    /// The packet arrived after a packet with a higher sequence number (RFC 4737).
    Reordered {
        /// Distance from the highest sequence number received.
        extent: u32,
    },
    /// A packet with the same sequence number arrived before.
    Duplicate,
    /// Below the window, where duplicates cannot be recognized; the packet counts as lost.
    TooLate,
    /// No packet with this sequence number was sent.
    NeverSent,
}

/// Records which of the last [`SEQUENCE_WINDOW`] sequence numbers were received.
///
/// Invariant: the bit of each of these numbers is set if and only if the number was received.
#[derive(Debug)]
pub struct SequenceWindow {
    bits: Box<[u64]>,
    /// One above the highest sequence number received.
    next: u64,
}

impl Default for SequenceWindow {
    fn default() -> Self {
        Self::new()
    }
}

impl SequenceWindow {
    /// Makes a window without received numbers.
    #[must_use]
    pub fn new() -> Self {
        let words = usize::try_from(SEQUENCE_WINDOW / WORD_BITS).unwrap_or_default();
        Self { bits: vec![0; words].into_boxed_slice(), next: 0 }
    }

    /// Records the arrival of the number with these low 32 bits, after `sent` numbers were sent.
    #[inline]
    pub fn note(&mut self, sequence: u32, sent: u64) -> ArrivalOrder {
        let ahead = sequence.wrapping_sub(low32(self.next)).cast_signed();
        if ahead >= 0 {
            let number = self.next + u64::from(ahead.unsigned_abs());
            if number >= sent {
                return ArrivalOrder::NeverSent;
            }
            if ahead != 0 {
                self.clear_bits(self.next, number);
            }
            self.next = number + 1;
            let (word, bit) = place(sequence);
            if let Some(word) = self.bits.get_mut(word) {
                *word |= bit;
            }
            return ArrivalOrder::InOrder;
        }
        let behind = ahead.unsigned_abs();
        if u64::from(behind) > self.next {
            return ArrivalOrder::NeverSent;
        }
        if behind > SEQUENCE_WINDOW {
            return ArrivalOrder::TooLate;
        }
        let (word, bit) = place(sequence);
        let Some(word) = self.bits.get_mut(word) else { return ArrivalOrder::TooLate };
        if *word & bit != 0 {
            return ArrivalOrder::Duplicate;
        }
        *word |= bit;
        ArrivalOrder::Reordered { extent: behind - 1 }
    }

    /// Clears the bits of the sequence numbers from `from` to below `to`.
    #[cold]
    fn clear_bits(&mut self, from: u64, to: u64) {
        let first = from.max(to.saturating_sub(u64::from(SEQUENCE_WINDOW)));
        for number in first..to {
            let (word, bit) = place(low32(number));
            if let Some(word) = self.bits.get_mut(word) {
                *word &= !bit;
            }
        }
    }
}

/// Returns the index of a sequence number's word, and the number's bit in the word.
#[inline]
fn place(sequence: u32) -> (usize, u64) {
    let index = sequence & (SEQUENCE_WINDOW - 1);
    let word = usize::try_from(index / WORD_BITS).unwrap_or(usize::MAX);
    (word, 1 << (index % WORD_BITS))
}

/// Counters of received packets of one stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Arrivals {
    /// Packets received, without duplicates.
    pub received: u64,
    /// Duplicates.
    pub duplicates: u64,
    /// Packets that arrived after a packet with a higher sequence number.
    pub reordered: u64,
    /// Largest distance of a reordered packet from the highest sequence number. Unit: packets.
    pub reorder_extent_max: u64,
    /// Shortest latency of reordered packets; `None` if there are none. Unit: that of the stamp.
    pub reorder_latency_min: Option<u32>,
    /// Packets below the window of sequence numbers; they count as lost.
    pub too_late: u64,
    /// Packets on the wrong port or in the wrong tunnel; not counted as received.
    pub misdelivered: u64,
    /// Packets with a sequence number that was never sent, or of another trial.
    pub foreign: u64,
    /// Octets of the received frames.
    pub bytes: u64,
}

/// Received packets of one stream in one trial.
#[derive(Debug, Default)]
pub struct StreamTally {
    window: SequenceWindow,
    /// The counters.
    pub arrivals: Arrivals,
    /// Latencies by second of the trial. The last entry also has all later packets.
    pub latency: Vec<Latency>,
    /// Octets by window and session, if recorded.
    pub windows: Option<Windows>,
}

impl StreamTally {
    /// Makes an empty tally with memory for the latencies of `seconds` seconds.
    #[must_use]
    pub fn new(seconds: usize) -> Self {
        let seconds = seconds.max(1);
        Self {
            window: SequenceWindow::new(),
            arrivals: Arrivals::default(),
            latency: vec![Latency::new(); seconds],
            windows: None,
        }
    }

    /// Records a packet that arrived in this second of the trial, but not its octets. `now` is in
    /// the stamp's unit; `sent` numbers were sent. False if the packet does not count as received.
    #[inline]
    pub fn note(&mut self, stamp: Stamp, now: u32, sent: u64, second: usize) -> bool {
        let arrivals = &mut self.arrivals;
        let latency = now.wrapping_sub(stamp.intended);
        match self.window.note(stamp.sequence, sent) {
            ArrivalOrder::InOrder => arrivals.received += 1,
            ArrivalOrder::Reordered { extent } => {
                arrivals.received += 1;
                arrivals.reordered += 1;
                arrivals.reorder_extent_max = arrivals.reorder_extent_max.max(u64::from(extent));
                let least = arrivals.reorder_latency_min.unwrap_or(u32::MAX).min(latency);
                arrivals.reorder_latency_min = Some(least);
            }
            ArrivalOrder::Duplicate => {
                arrivals.duplicates += 1;
                return false;
            }
            ArrivalOrder::TooLate => {
                arrivals.too_late += 1;
                return false;
            }
            ArrivalOrder::NeverSent => {
                arrivals.foreign += 1;
                return false;
            }
        }
        let second = second.min(self.latency.len() - 1);
        if let Some(latencies) = self.latency.get_mut(second) {
            latencies.record(latency);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_recognizes_order_duplicates_and_numbers_never_sent() {
        let mut window = SequenceWindow::new();
        let note = |window: &mut SequenceWindow, sequence| window.note(sequence, 100);
        assert_eq!(note(&mut window, 0), ArrivalOrder::InOrder);
        assert_eq!(note(&mut window, 3), ArrivalOrder::InOrder);
        assert_eq!(note(&mut window, 1), ArrivalOrder::Reordered { extent: 2 });
        assert_eq!(note(&mut window, 1), ArrivalOrder::Duplicate);
        assert_eq!(note(&mut window, 3), ArrivalOrder::Duplicate);
        assert_eq!(note(&mut window, 100), ArrivalOrder::NeverSent);
        assert_eq!(note(&mut window, u32::MAX), ArrivalOrder::NeverSent);
        assert_eq!(note(&mut window, 2), ArrivalOrder::Reordered { extent: 1 });
    }

    #[test]
    fn window_agrees_with_a_set_over_many_wraps() {
        let mut window = SequenceWindow::new();
        let mut seen = std::collections::HashSet::new();
        let mut state = 1u64;
        let mut random = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let (mut head, sent) = (0u64, u64::MAX);
        for _ in 0..400_000 {
            let number = if random(4) == 0 {
                head.saturating_sub(random(1000))
            } else {
                // Gaps, some of them as long as the window.
                head + if random(1000) == 0 { random(1 << 20) } else { random(3) }
            };
            let arrival = window.note(low32(number), sent);
            let is_new = seen.insert(number);
            assert_eq!(arrival == ArrivalOrder::Duplicate, !is_new, "{number} after {head}");
            head = head.max(number + 1);
        }
        assert!(head > u64::from(SEQUENCE_WINDOW) * 20, "{head}");
    }

    #[test]
    fn window_continues_where_the_sequence_number_wraps() {
        let mut window = SequenceWindow::new();
        window.next = (1 << 32) - 1;
        assert_eq!(window.note(u32::MAX, 1 << 40), ArrivalOrder::InOrder);
        assert_eq!(window.note(0, 1 << 40), ArrivalOrder::InOrder);
        assert_eq!(window.note(u32::MAX, 1 << 40), ArrivalOrder::Duplicate);
        assert_eq!(window.next, (1 << 32) + 1);
    }

    #[test]
    fn shortest_latency_of_reordered_packets_is_kept() {
        let mut tally = StreamTally::new(1);
        let mut note = |sequence, now| {
            let stamp = Stamp { tag: 0, session: 0, sequence, intended: 100 };
            tally.note(stamp, now, 10, 0);
            tally.arrivals.reorder_latency_min
        };
        assert_eq!((note(2, 101), note(3, 101)), (None, None));
        assert_eq!((note(0, 190), note(1, 180)), (Some(90), Some(80)));
        assert_eq!(note(4, 102), Some(80));
    }

    #[test]
    fn latency_of_duplicates_is_not_counted() {
        let mut tally = StreamTally::new(1);
        let stamp = Stamp { tag: 0, session: 0, sequence: 0, intended: u32::MAX - 4 };
        tally.note(stamp, 5, 10, 0);
        tally.note(stamp, 500, 10, 7);
        assert_eq!((tally.arrivals.received, tally.arrivals.duplicates), (1, 1));
        let summary = tally.latency[0].summary(1_000_000_000);
        assert_eq!((summary.count, summary.max_ns), (1, 40));
    }
}
