//! State that the control thread publishes in each iteration, for other threads to read at any
//! time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The published state. Only the control thread writes it; clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Liveness(Arc<LivenessWords>);

#[derive(Debug, Default)]
struct LivenessWords {
    turns: AtomicU64,
    stopped_workers: AtomicUsize,
    ports_down: AtomicUsize,
    is_active: AtomicBool,
    is_restoring: AtomicBool,
}

/// State that the control thread saw in an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LivenessReading {
    /// Number of iterations so far. It grows each second unless the control thread is stuck.
    pub turns: u64,
    /// Number of workers that take no steps although they should.
    pub stopped_workers: usize,
    /// Number of ports whose links are down.
    pub ports_down: usize,
    /// False on a standby.
    pub is_active: bool,
    /// True while sessions of a previous process are being restored.
    pub is_restoring: bool,
}

impl Liveness {
    /// Publishes `reading` at the end of an iteration, and counts the iteration. Ignores
    /// `reading.turns`.
    pub(crate) fn note_turn(&self, reading: LivenessReading) {
        let LivenessWords { turns, stopped_workers, ports_down, is_active, is_restoring } =
            &*self.0;
        stopped_workers.store(reading.stopped_workers, Ordering::Relaxed);
        ports_down.store(reading.ports_down, Ordering::Relaxed);
        is_active.store(reading.is_active, Ordering::Relaxed);
        is_restoring.store(reading.is_restoring, Ordering::Relaxed);
        turns.fetch_add(1, Ordering::Release);
    }

    /// Returns the state that the latest iteration published.
    pub(crate) fn read(&self) -> LivenessReading {
        let words = &*self.0;
        LivenessReading {
            turns: words.turns.load(Ordering::Acquire),
            stopped_workers: words.stopped_workers.load(Ordering::Relaxed),
            ports_down: words.ports_down.load(Ordering::Relaxed),
            is_active: words.is_active.load(Ordering::Relaxed),
            is_restoring: words.is_restoring.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_is_that_of_the_latest_turn() {
        let liveness = Liveness::default();
        let reading =
            LivenessReading { ports_down: 2, is_active: true, ..LivenessReading::default() };
        liveness.note_turn(LivenessReading::default());
        liveness.clone().note_turn(reading);
        assert_eq!(liveness.read(), LivenessReading { turns: 2, ..reading });
    }
}
