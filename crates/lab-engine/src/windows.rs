//! Offered and received octets by time window and session.

/// Octets of one stream in one trial. Counts the octets of the UEs' IP packets, as QERs do.
/// Spec: TS 29.244 §8.2.8; TS 23.501 §5.7.1.8.
///
/// Allocates only at the start, and ignores packets outside of its windows and sessions.
#[derive(Debug, Clone, Default)]
pub struct Windows {
    start: u64,
    /// Length of a window. Unit: ticks.
    window: u64,
    first: u32,
    sessions: usize,
    /// Octets by window and, within a window, by session.
    offered: Vec<u32>,
    received: Vec<u32>,
    /// One above the highest sequence number that each session has received.
    next: Vec<u64>,
    /// Packets that arrived after a packet of the same session with a higher sequence number.
    pub reordered: u64,
}

impl Windows {
    /// Makes `count` windows of `window` ticks from `start`, for `sessions` sessions from session
    /// `first` on.
    #[must_use]
    pub fn new(start: u64, window: u64, count: usize, first: u32, sessions: usize) -> Self {
        let cells = count.saturating_mul(sessions);
        Self {
            start,
            window: window.max(1),
            first,
            sessions,
            offered: vec![0; cells],
            received: vec![0; cells],
            next: vec![0; sessions],
            reordered: 0,
        }
    }

    fn cell(&self, at: u64, session: u32) -> Option<usize> {
        let window = usize::try_from(at.checked_sub(self.start)? / self.window).ok()?;
        let session = usize::try_from(session.checked_sub(self.first)?).ok()?;
        (session < self.sessions).then_some(window.checked_mul(self.sessions)? + session)
    }

    /// Records an offered packet of `bytes` octets with the intended send time `at`.
    pub fn offer(&mut self, at: u64, session: u32, bytes: u32) {
        let cell = self.cell(at, session);
        if let Some(cell) = cell.and_then(|cell| self.offered.get_mut(cell)) {
            *cell = cell.saturating_add(bytes);
        }
    }

    /// Records a packet received at `at`, with the low 32 bits of its sequence number.
    pub fn receive(&mut self, at: u64, session: u32, bytes: u32, sequence: u32) {
        let cell = self.cell(at, session);
        if let Some(cell) = cell.and_then(|cell| self.received.get_mut(cell)) {
            *cell = cell.saturating_add(bytes);
        }
        let index = session.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        let Some(next) = index.and_then(|index| self.next.get_mut(index)) else { return };
        let ahead = sequence.wrapping_sub(super::clock::low32(*next)).cast_signed();
        match u64::try_from(ahead) {
            Ok(ahead) => *next += ahead + 1,
            Err(_) => self.reordered += 1,
        }
    }

    /// Returns the number of sessions.
    #[must_use]
    pub fn session_count(&self) -> usize {
        self.sessions
    }

    /// Returns the offered octets: one slice per window, with one entry per session.
    pub fn offered(&self) -> impl Iterator<Item = &[u32]> {
        self.offered.chunks(self.sessions.max(1))
    }

    /// Returns the received octets: one slice per window, with one entry per session.
    pub fn received(&self) -> impl Iterator<Item = &[u32]> {
        self.received.chunks(self.sessions.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_fall_into_their_window_and_session_and_others_nowhere() {
        let mut windows = Windows::new(1000, 100, 3, 7, 2);
        for (at, session) in [(1000, 7), (1099, 7), (1100, 8), (1299, 8), (1300, 7), (999, 7)] {
            windows.offer(at, session, 10);
        }
        windows.offer(1000, 6, 10);
        windows.offer(1000, 9, 10);
        assert_eq!(windows.offered().collect::<Vec<_>>(), [[20, 0], [0, 10], [0, 10]]);
        assert!(windows.received().flatten().all(|octets| *octets == 0));
    }

    #[test]
    fn reordering_counts_within_a_session_only() {
        let mut windows = Windows::new(0, 100, 1, 0, 2);
        for (session, sequence) in [(0, 1), (0, 5), (1, 2), (1, 3), (0, 7)] {
            windows.receive(0, session, 10, sequence);
        }
        assert_eq!(windows.reordered, 0);
        windows.receive(0, 1, 10, 2);
        windows.receive(0, 0, 10, 6);
        windows.receive(0, 0, 10, 8);
        assert_eq!(windows.reordered, 2);
        assert_eq!(windows.received().next(), Some(&[50, 30][..]));
    }

    #[test]
    fn reordering_counts_where_the_sequence_number_wraps() {
        let mut windows = Windows::new(0, 100, 1, 0, 1);
        for number in [0x7fff_fff0u32, 0xffff_fff0, 3, 0xffff_fff1, 4] {
            windows.receive(0, 0, 1, number);
        }
        assert_eq!(windows.reordered, 1);
    }
}
