//! Start and stop of adit's threads: a gate holds the threads of the packet path until adit is
//! active.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::record_store::serving_lease::ServingLease;
use crate::threads::liveness::Liveness;

/// The gate, flags and lease by which adit's threads start and stop. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Lifecycle {
    /// Opens when the packet path starts.
    pub gate: StartGate,
    /// Set to end the control thread.
    pub stop_control: Arc<AtomicBool>,
    /// Set to end the threads of the packet path.
    pub stop: Arc<AtomicBool>,
    /// Limits how long this adit may serve, once it is active.
    pub lease: ServingLease,
    /// State that the control thread publishes in each iteration.
    pub liveness: Liveness,
}

/// The lifecycle of an adit that serves without limit.
impl Default for Lifecycle {
    fn default() -> Self {
        Self {
            gate: StartGate::default(),
            stop_control: Arc::default(),
            stop: Arc::default(),
            lease: ServingLease::unlimited(),
            liveness: Liveness::default(),
        }
    }
}

impl Lifecycle {
    /// Ends the threads of the packet path, including those that still wait at the gate.
    pub(crate) fn stop_packet_path(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.gate.open();
    }
}

/// A gate that threads wait at: closed at first, and opened once, for all.
#[derive(Debug, Clone, Default)]
pub(crate) struct StartGate(Arc<(Mutex<bool>, Condvar)>);

impl StartGate {
    /// Lets all threads pass: those that wait now, and those that come later.
    pub(crate) fn open(&self) {
        let (is_open, opened) = &*self.0;
        *is_open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        opened.notify_all();
    }

    /// Waits until the gate is open. True if the thread had to wait.
    pub(crate) fn pass(&self) -> bool {
        let (is_open, opened) = &*self.0;
        let mut guard = is_open.lock().unwrap_or_else(PoisonError::into_inner);
        let has_waited = !*guard;
        while !*guard {
            guard = opened.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        has_waited
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn thread_passes_once_the_gate_is_open_and_knows_whether_it_waited() {
        let gate = StartGate::default();
        let (passed, result) = mpsc::channel();
        let waits = {
            let gate = gate.clone();
            std::thread::spawn(move || passed.send(gate.pass()).unwrap())
        };
        assert!(result.recv_timeout(Duration::from_millis(20)).is_err(), "the gate is closed");
        gate.open();
        assert!(result.recv().unwrap());
        waits.join().unwrap();
        assert!(!gate.pass(), "it was open already");
    }
}
