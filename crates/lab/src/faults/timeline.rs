//! Records the events of a run, with their times since its start.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use adit_lab_process::stop::Stop;
use serde::Serialize;

/// The subject of an event of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum EventKind {
    /// A fault began or ended.
    Fault,
    /// An adit took a role, or the state of its store changed.
    Role,
    /// A process started or ended.
    Process,
    /// The association changed, or the SMF restarted.
    Association,
    /// A server of the store was promoted.
    Promotion,
}

/// An event of a run.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct RunEvent {
    /// Time of the event. Unit: ms since the start of the run.
    pub at_ms: u64,
    pub kind: EventKind,
    /// The process concerned: `a`, `b`, `s1`, `smf`.
    pub who: String,
    pub text: String,
}

/// The clock and the events of one run.
#[derive(Debug, Clone)]
pub(crate) struct Timeline {
    start: Instant,
    events: Arc<Mutex<Vec<RunEvent>>>,
}

impl Timeline {
    /// Starts a timeline now.
    pub(crate) fn start() -> Self {
        Self { start: Instant::now(), events: Arc::default() }
    }

    /// Returns the time since the start. Unit: ms.
    pub(crate) fn now_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Adds an event with the present time.
    pub(crate) fn note(&self, kind: EventKind, who: &str, text: impl Into<String>) {
        let event = RunEvent { at_ms: self.now_ms(), kind, who: who.to_owned(), text: text.into() };
        lock(&self.events).push(event);
    }

    /// Returns all events so far.
    pub(crate) fn events(&self) -> Vec<RunEvent> {
        lock(&self.events).clone()
    }
}

/// Locks a mutex, even if a thread panicked while it held the lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Interval of the samples of [`StallDetector`].
const SAMPLE_INTERVAL: Duration = Duration::from_millis(10);
/// Minimum delay of a sample that counts as a stall; shorter delays are usual. Unit: ms.
pub(crate) const STALL_MIN_MS: u64 = 30;

/// A span in which the machine did not run a thread that should run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Stall {
    /// End of the span, when the thread ran again. Unit: ms since the start of the run.
    pub end_ms: u64,
    /// Length of the span. Unit: ms.
    pub length_ms: u64,
}

/// Records when the machine is too busy to run a thread in time: then no verdict about time is
/// fair.
#[derive(Debug)]
pub(crate) struct StallDetector {
    stalls: Arc<Mutex<Vec<Stall>>>,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl StallDetector {
    /// Starts to sample.
    pub(crate) fn start(timeline: &Timeline) -> Self {
        let (stalls, stop) = (Arc::<Mutex<Vec<Stall>>>::default(), Stop::default());
        let (noted, stopped, timeline) = (Arc::clone(&stalls), stop.clone(), timeline.clone());
        let thread = thread::spawn(move || {
            while !stopped.is_raised() {
                let before = Instant::now();
                thread::sleep(SAMPLE_INTERVAL);
                let late = before.elapsed().saturating_sub(SAMPLE_INTERVAL).as_millis();
                let length_ms = u64::try_from(late).unwrap_or(u64::MAX);
                if length_ms >= STALL_MIN_MS {
                    lock(&noted).push(Stall { end_ms: timeline.now_ms(), length_ms });
                }
            }
        });
        Self { stalls, stop, thread: Some(thread) }
    }

    /// Stops sampling and returns the stalls.
    pub(crate) fn finish(&mut self) -> Vec<Stall> {
        self.end();
        lock(&self.stalls).clone()
    }

    fn end(&mut self) {
        self.stop.raise();
        if let Some(thread) = self.thread.take() {
            // The thread cannot panic.
            let _ = thread.join();
        }
    }
}

impl Drop for StallDetector {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns how long the machine stalled between two times. Unit: ms.
pub(crate) fn stalled_ms(stalls: &[Stall], from_ms: u64, to_ms: u64) -> u64 {
    let within = stalls.iter().map(|stall| {
        let begin = stall.end_ms.saturating_sub(stall.length_ms).max(from_ms);
        stall.end_ms.min(to_ms).saturating_sub(begin)
    });
    within.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_count_as_far_as_they_lie_between_two_times() {
        let stalls = [Stall { end_ms: 100, length_ms: 50 }, Stall { end_ms: 300, length_ms: 100 }];
        assert_eq!(stalled_ms(&stalls, 0, 1000), 150);
        assert_eq!(stalled_ms(&stalls, 80, 220), 40);
        assert_eq!(stalled_ms(&stalls, 110, 190), 0);
    }
}
