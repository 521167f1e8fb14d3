//! Detects workers that take no step although they should.

use adit_tables::Publisher;
use adit_types::{Nanos, WorkerId};
use tracing::{info, warn};

use crate::config::ThreadSettings;

/// A worker without a step for this long counts as stopped.
const STANDSTILL_AFTER: Nanos = Nanos::from_secs(1);

/// Time between two checks of the workers.
const CHECK_INTERVAL: Nanos = Nanos::from_millis(100);

#[derive(Debug, Clone, Copy)]
struct WatchedWorker {
    core: u16,
    /// When the worker was last seen taking steps, or sleeping.
    seen: Nanos,
    is_stopped: bool,
}

/// A worker stopped taking steps, or resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StandstillChange {
    Stopped { worker: WorkerId, core: u16, since: Nanos },
    Resumed { worker: WorkerId, core: u16, after: Nanos },
}

/// Watches all threads of the packet path for standstills.
#[derive(Debug, Default)]
pub(crate) struct Standstill {
    workers: Vec<WatchedWorker>,
    next: Nanos,
}

impl Standstill {
    /// Begins to watch the threads of the packet path at `now`.
    pub(crate) fn new(threads: &[ThreadSettings], now: Nanos) -> Self {
        let watched = |thread: &ThreadSettings| WatchedWorker {
            core: thread.core,
            seen: now,
            is_stopped: false,
        };
        Self { workers: threads.iter().map(watched).collect(), next: now }
    }

    pub(crate) fn is_stopped(&self, thread: usize) -> bool {
        self.workers.get(thread).is_some_and(|worker| worker.is_stopped)
    }

    pub(crate) fn stopped_count(&self) -> usize {
        self.workers.iter().filter(|worker| worker.is_stopped).count()
    }

    /// Checks the workers once per interval, and returns the changes.
    pub(crate) fn check(&mut self, now: Nanos, publisher: &mut Publisher) -> Vec<StandstillChange> {
        if now < self.next {
            return Vec::new();
        }
        self.next = now + CHECK_INTERVAL;
        let mut changes = Vec::new();
        for (worker, watched) in (0..).map(WorkerId).zip(&mut self.workers) {
            let (core, span) = (watched.core, now.since(watched.seen));
            match publisher.has_passed_probe(worker) {
                true => {
                    if core::mem::take(&mut watched.is_stopped) {
                        changes.push(StandstillChange::Resumed { worker, core, after: span });
                    }
                    watched.seen = now;
                }
                false if !watched.is_stopped && span >= STANDSTILL_AFTER => {
                    watched.is_stopped = true;
                    changes.push(StandstillChange::Stopped { worker, core, since: span });
                }
                false => {}
            }
        }
        publisher.probe();
        changes
    }
}

/// Logs a change for the operator.
pub(crate) fn log(change: StandstillChange) {
    match change {
        StandstillChange::Stopped { worker, core, since } => warn!(
            %worker,
            core,
            for_ms = since.0 / 1_000_000,
            "a worker stands still: its packets wait, no change of rules is completed, and new \
             sessions are refused with Cause 74"
        ),
        StandstillChange::Resumed { worker, core, after } => {
            info!(%worker, core, after_ms = after.0 / 1_000_000, "the worker goes on");
        }
    }
}
