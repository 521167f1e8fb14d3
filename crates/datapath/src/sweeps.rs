//! A sweep: every worker processes the packets that are in its rings.
//!
//! A packet without an inner address, such as an End Marker, is not distributed by a hash of its
//! UE: it may reach its session's owner before packets of its tunnel that arrived earlier and that
//! other workers still have to hand over. So the owner requests a sweep. When all other workers
//! have made it, these packets are in the owner's rings or have an outcome.
//!
//! Threads: the owner has taken the packet from a ring before it requests a sweep. The packet's
//! receiver wrote the earlier packets before, so a worker that sees the request sees them as well,
//! and an owner that sees that a worker made its sweep sees the packets that it handed over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// State that the threads of a packet path share.
#[derive(Debug)]
struct SharedSweeps {
    /// How many sweeps were requested, which is the number of the last one. Wraps.
    asked: AtomicU32,
    /// The number of the last sweep that each thread has made, by thread.
    made: Box<[AtomicU32]>,
}

/// One thread's side of the sweeps.
#[derive(Debug)]
pub(crate) struct Sweeps {
    shared: Arc<SharedSweeps>,
    thread: usize,
    made: u32,
}

impl Sweeps {
    /// Returns the sides of all threads, in the order of threads. The first `sweeping` threads take
    /// packets from rings, so only they make sweeps.
    pub(crate) fn of_threads(sweeping: usize) -> impl Iterator<Item = Self> {
        let made = (0..sweeping).map(|_| AtomicU32::new(0)).collect();
        let shared = Arc::new(SharedSweeps { asked: AtomicU32::new(0), made });
        (0..).map(move |thread| Self { shared: Arc::clone(&shared), thread, made: 0 })
    }

    /// Returns the threads that make sweeps.
    pub(crate) fn sweeping_threads(&self) -> core::ops::Range<usize> {
        0..self.shared.made.len()
    }

    /// Requests a sweep. Returns the number of the sweep.
    #[cold]
    pub(crate) fn request(&self) -> u32 {
        self.shared.asked.fetch_add(1, Ordering::AcqRel).wrapping_add(1)
    }

    /// True if this thread has to make a sweep.
    ///
    /// Cost: one load of a line that is written only when a sweep is requested.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.shared.asked.load(Ordering::Relaxed) != self.made
    }

    /// Begins a sweep, for the packets that are in the rings by now. Returns the number of the
    /// sweep.
    #[cold]
    pub(crate) fn begin(&self) -> u32 {
        self.shared.asked.load(Ordering::Acquire)
    }

    /// Ends a sweep: the packets that were in the rings are processed or handed over.
    #[cold]
    pub(crate) fn end(&mut self, sweep: u32) {
        self.made = sweep;
        if let Some(made) = self.shared.made.get(self.thread) {
            made.store(sweep, Ordering::Release);
        }
    }

    /// True if all other threads have made `sweep` or a later one.
    #[cold]
    pub(crate) fn have_others_made(&self, sweep: u32) -> bool {
        let has_made = |made: &AtomicU32| {
            // Numbers wrap; no caller waits while half of them are used up.
            made.load(Ordering::Acquire).wrapping_sub(sweep) < u32::MAX / 2
        };
        let mut threads = self.shared.made.iter().enumerate();
        threads.all(|(thread, made)| thread == self.thread || has_made(made))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweep_is_made_when_all_others_made_it_or_a_later_one() {
        let mut threads: Vec<_> = Sweeps::of_threads(3).take(3).collect();
        // Starts just before the numbers wrap.
        threads[0].shared.asked.store(u32::MAX, Ordering::Relaxed);
        threads.iter_mut().for_each(|thread| thread.end(u32::MAX));
        assert!(!threads[1].is_due());
        let first = threads[0].request();
        assert_eq!(first, 0);
        assert!(threads.iter().all(Sweeps::is_due));
        assert!(!threads[0].have_others_made(first));
        threads[1].end(first);
        assert!(!threads[0].have_others_made(first), "one is left");
        let second = threads[1].request();
        let begun = threads[2].begin();
        assert_eq!(begun, second);
        threads[2].end(begun);
        assert!(threads[0].have_others_made(first));
        assert!(!threads[1].have_others_made(second), "the one that asked first");
        assert_eq!((threads[1].request(), threads[0].begin()), (2, 2));
    }
}
