//! A barrier that threads leave together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the threads that have not arrived.
#[derive(Debug, Clone, Default)]
pub(crate) struct ExitBarrier(Arc<AtomicUsize>);

/// A thread's place. Dropping it counts as arrival, so that a thread that fails blocks nobody.
#[derive(Debug)]
pub(crate) struct ExitBarrierPlace(ExitBarrier);

impl ExitBarrier {
    /// A place for a thread. Take the places of all threads before the first of them waits.
    pub(crate) fn join(&self) -> ExitBarrierPlace {
        self.0.fetch_add(1, Ordering::Relaxed);
        ExitBarrierPlace(self.clone())
    }
}

impl ExitBarrierPlace {
    /// Arrives, and returns when all have arrived. What each thread did before is then visible to
    /// all.
    pub(crate) fn wait_for_all(self) {
        let ExitBarrier(count) = self.0.clone();
        drop(self);
        while count.load(Ordering::Acquire) > 0 {
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
    fn nobody_is_through_before_the_last_has_left() {
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
    fn place_given_up_by_a_failure_holds_nobody_up() {
        let gate = ExitBarrier::default();
        let (inside, failed) = (gate.join(), gate.join());
        drop(failed);
        inside.wait_for_all();
    }
}
