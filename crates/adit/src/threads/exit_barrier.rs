//! A barrier that releases all threads together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The barrier; counts the threads that have not arrived.
#[derive(Debug, Clone, Default)]
pub(crate) struct ExitBarrier(Arc<AtomicUsize>);

/// The barriers that threads pass when adit exits.
#[derive(Debug, Default)]
pub(crate) struct ExitBarriers {
    /// Opens once no thread of the packet path takes steps any more.
    pub stopped: ExitBarrier,
    /// Opens once the central scheduler, if there is one, delivers no events any more.
    pub drained: ExitBarrier,
}

/// A thread that has yet to arrive. Drop counts as arrival, so that a thread that fails does not
/// block the others.
#[derive(Debug)]
pub(crate) struct ExitBarrierPlace(ExitBarrier);

impl ExitBarrier {
    /// Returns a place for a thread. Call this for all threads before the first of them waits.
    pub(crate) fn join(&self) -> ExitBarrierPlace {
        self.0.fetch_add(1, Ordering::Relaxed);
        ExitBarrierPlace(self.clone())
    }

    /// True if all threads have arrived; what they did before arriving is then visible.
    pub(crate) fn is_open(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }
}

impl ExitBarrierPlace {
    /// Arrives, and returns once all threads have arrived; what they did before arriving is then
    /// visible.
    pub(crate) fn wait_for_all(self) {
        let barrier = self.0.clone();
        drop(self);
        while !barrier.is_open() {
            std::thread::yield_now();
        }
    }
}

impl Drop for ExitBarrierPlace {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_thread_passes_before_the_last_arrives() {
        let (gate, left) = (ExitBarrier::default(), AtomicUsize::new(0));
        let inside: Vec<_> = (0..4).map(|_| gate.join()).collect();
        std::thread::scope(|scope| {
            for inside in inside {
                scope.spawn(|| {
                    left.fetch_add(1, Ordering::Relaxed);
                    inside.wait_for_all();
                    assert_eq!(left.load(Ordering::Relaxed), 4);
                });
            }
        });
    }

    #[test]
    fn dropped_place_blocks_no_thread() {
        let gate = ExitBarrier::default();
        let (inside, failed) = (gate.join(), gate.join());
        drop(failed);
        inside.wait_for_all();
    }
}
