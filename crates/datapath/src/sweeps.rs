//! Sweeps: every worker processes the packets that its rings hold.
//!
//! A packet without an inner address, such as an End Marker, shows no hash of its UE: it may come
//! to its session's owner before packets of its tunnel that arrived earlier and that other workers
//! still have to hand on. The owner requests a sweep. When all other workers have made it, these
//! packets are in the owner's rings or have an outcome.
//!
//! Threads: the owner has taken the packet from a ring before it requests a sweep. Its receiver
//! wrote the earlier packets before it, so a worker that sees the request sees them as well, and an
//! owner that sees a worker's sweep sees the packets that it handed on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// State that the threads of a packet path share.
#[derive(Debug)]
struct SharedSweeps {
    /// The number of sweeps requested.
    asked: AtomicU32,
    /// The last one that a thread has made, by thread.
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
    /// The sides of all threads, of which the first `sweeping` ones take packets from rings; by
    /// thread.
    pub(crate) fn of_threads(sweeping: usize) -> impl Iterator<Item = Self> {
        let made = (0..sweeping).map(|_| AtomicU32::new(0)).collect();
        let shared = Arc::new(SharedSweeps { asked: AtomicU32::new(0), made });
        (0..).map(move |thread| Self { shared: Arc::clone(&shared), thread, made: 0 })
    }

    /// The threads that make sweeps.
    pub(crate) fn sweeping(&self) -> core::ops::Range<usize> {
        0..self.shared.made.len()
    }

    /// Requests a sweep. Returns its number.
    #[cold]
    pub(crate) fn ask(&self) -> u32 {
        self.shared.asked.fetch_add(1, Ordering::AcqRel).wrapping_add(1)
    }

    /// True if this thread has to make a sweep.
    ///
    /// Cost: one load of a line that is written only when a sweep is requested.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.shared.asked.load(Ordering::Relaxed) != self.made
    }

    /// Begins a sweep, of the packets that the rings hold from here on. Returns its number.
    #[cold]
    pub(crate) fn begin(&self) -> u32 {
        self.shared.asked.load(Ordering::Acquire)
    }

    /// Ends a sweep: the packets that the rings held are processed or handed on.
    #[cold]
    pub(crate) fn end(&mut self, sweep: u32) {
        self.made = sweep;
        if let Some(made) = self.shared.made.get(self.thread) {
            made.store(sweep, Ordering::Release);
        }
    }

    /// True if all other threads have made a sweep.
    #[cold]
    pub(crate) fn have_others_made(&self, sweep: u32) -> bool {
        let has_made = |made: &AtomicU32| {
            // Numbers go round; none waits for half of them.
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
        // At the wrap of the numbers.
        threads[0].shared.asked.store(u32::MAX, Ordering::Relaxed);
        threads.iter_mut().for_each(|thread| thread.end(u32::MAX));
        assert!(!threads[1].is_due());
        let first = threads[0].ask();
        assert_eq!(first, 0);
        assert!(threads.iter().all(Sweeps::is_due));
        assert!(!threads[0].have_others_made(first));
        threads[1].end(first);
        assert!(!threads[0].have_others_made(first), "one is left");
        let second = threads[1].ask();
        let begun = threads[2].begin();
        assert_eq!(begun, second);
        threads[2].end(begun);
        assert!(threads[0].have_others_made(first));
        assert!(!threads[1].have_others_made(second), "the one that asked first");
        assert_eq!((threads[1].ask(), threads[0].begin()), (2, 2));
    }
}
