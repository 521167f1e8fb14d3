//! When the threads of adit begin and end: a gate holds those of the packet path until adit is
//! active.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::record_store::serving_lease::ServingLease;
use crate::threads::liveness::Liveness;

/// When the threads of adit begin and end.
#[derive(Debug, Clone)]
pub(crate) struct Lifecycle {
    /// Opens when the packet path begins.
    pub gate: StartGate,
    /// The control thread ends.
    pub stop_control: Arc<AtomicBool>,
    /// The threads of the packet path end.
    pub stop: Arc<AtomicBool>,
    /// Until when this adit may serve, once it is active.
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
    /// Lets the threads of the packet path end, also those that never began.
    pub(crate) fn stop_packet_path(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.gate.open();
    }
}

/// The gate, closed at first; it opens once, for all.
#[derive(Debug, Clone, Default)]
pub(crate) struct StartGate(Arc<(Mutex<bool>, Condvar)>);

impl StartGate {
    /// Lets all threads pass, those that wait and those to come.
    pub(crate) fn open(&self) {
        let (is_open, opened) = &*self.0;
        *is_open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        opened.notify_all();
    }

    /// Returns once the gate is open: true if it was closed before.
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
