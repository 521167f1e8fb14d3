//! The events of a run, with times since its start.

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
    /// An adit took a role, or its store another state.
    Role,
    /// A process started or ended.
    Process,
    /// The association, or a restart of the SMF.
    Association,
    /// A server of the store was promoted.
    Promotion,
}

/// An event of a run.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct RunEvent {
    /// Unit: ms since the start of the run.
    pub at_ms: u64,
    pub kind: EventKind,
    /// Whom it concerns: `a`, `b`, `s1`, `smf`.
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
    /// A timeline that starts now.
    pub(crate) fn start() -> Self {
        Self { start: Instant::now(), events: Arc::default() }
    }

    /// Time since the start. Unit: ms.
    pub(crate) fn now_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Adds an event at the present time.
    pub(crate) fn note(&self, kind: EventKind, who: &str, text: impl Into<String>) {
        let event = RunEvent { at_ms: self.now_ms(), kind, who: who.to_owned(), text: text.into() };
        lock(&self.events).push(event);
    }

    /// All events so far.
    pub(crate) fn events(&self) -> Vec<RunEvent> {
        lock(&self.events).clone()
    }
}

/// Locks a mutex; a thread that panicked while it had the lock does not matter.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Interval of the samples of [`StallDetector`].
const SAMPLE: Duration = Duration::from_millis(10);
/// Shorter delays of a sample are usual. Unit: ms.
pub(crate) const STALL_MS: u64 = 30;

/// A span in which the machine did not run a thread that was due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Stall {
    /// When the thread ran again. Unit: ms since the start of the run.
    pub end_ms: u64,
    /// Unit: ms.
    pub length_ms: u64,
}

/// Notes when the machine is too busy to run a thread in time: no verdict about time is fair then.
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
                thread::sleep(SAMPLE);
                let late = before.elapsed().saturating_sub(SAMPLE).as_millis();
                let length_ms = u64::try_from(late).unwrap_or(u64::MAX);
                if length_ms >= STALL_MS {
                    lock(&noted).push(Stall { end_ms: timeline.now_ms(), length_ms });
                }
            }
        });
        Self { stalls, stop, thread: Some(thread) }
    }

    /// Ends the samples and returns the stalls.
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

/// How long the machine stalled between two times. Unit: ms.
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
