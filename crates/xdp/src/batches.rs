//! Reports when no run of the program sees the state before a change.
//!
//! When an element of a map of maps is replaced, the kernel waits for all runs in progress
//! (`bpf(2)`, BPF_MAP_UPDATE_ELEM). That takes some milliseconds, so a separate thread does it,
//! once for all batches that were closed meanwhile. If the kernel refuses, packets may still see
//! the old state: the changes are not in effect, and the thread retries until it succeeds.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use adit_rules::OffloadBatch;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, libbpf_sys};

use crate::config::XdpError;

/// Interval at which the thread calls `tick`.
const TICK: Duration = Duration::from_secs(1);

/// Time between a refusal and the next attempt.
const RETRY: Duration = Duration::from_millis(20);

/// State that the thread shares with the control thread.
#[derive(Debug, Default)]
struct Shared {
    /// Number of the last closed batch; `None` ends the thread.
    closed: Mutex<Option<u64>>,
    is_closed: Condvar,
    passed: AtomicU64,
    /// The reason of the first refusal since the kernel last accepted.
    refusal: Mutex<Option<String>>,
}

impl Shared {
    fn closed(&self) -> MutexGuard<'_, Option<u64>> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Numbers batches of changes, and waits until every run of the program sees them.
pub struct Batches {
    shared: Arc<Shared>,
    closed: u64,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Batches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batches").field("closed", &self.closed).finish_non_exhaustive()
    }
}

impl Batches {
    /// Starts the thread, which also calls `tick` about once a second.
    ///
    /// # Errors
    /// The kernel refuses a map or a thread.
    pub fn start(tick: impl FnMut() + Send + 'static) -> Result<Self, XdpError> {
        let create = |kind, name: &str, opts: &libbpf_sys::bpf_map_create_opts| {
            MapHandle::create(kind, Some(name), 4, 4, 1, opts)
                .map_err(|error| XdpError::of("the kernel creates no map", &error))
        };
        let size = size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t;
        let mut opts = libbpf_sys::bpf_map_create_opts { sz: size, ..Default::default() };
        let inner = create(MapType::Array, "adit_inner", &opts)?;
        opts.inner_map_fd = u32::try_from(inner.as_fd().as_raw_fd()).unwrap_or_default();
        let outer = create(MapType::ArrayOfMaps, "adit_outer", &opts)?;
        let wait = move || {
            let fd = inner.as_fd().as_raw_fd().to_ne_bytes();
            outer.update(&[0; 4], &fd, MapFlags::ANY).map_err(|error| format!("{error:#}"))
        };
        Self::start_with(wait, tick)
    }

    /// Starts the thread. `wait` returns once all runs in progress have ended, or with the reason
    /// why it cannot wait.
    fn start_with(
        mut wait: impl FnMut() -> Result<(), String> + Send + 'static,
        mut tick: impl FnMut() + Send + 'static,
    ) -> Result<Self, XdpError> {
        let shared = Arc::new(Shared::default());
        *shared.closed() = Some(0);
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("xdp-batches".into())
            .spawn(move || run(&of_thread, &mut wait, &mut tick))
            .map_err(|error| XdpError(format!("no thread for XDP: {error}")))?;
        Ok(Self { shared, closed: 0, thread: Some(thread) })
    }

    /// Returns why the kernel refuses to wait, if it began to refuse since the last call.
    #[must_use]
    pub fn take_refusal(&self) -> Option<String> {
        self.shared.refusal.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Closes the current batch.
    pub fn close(&mut self) -> OffloadBatch {
        self.closed += 1;
        *self.shared.closed() = Some(self.closed);
        self.shared.is_closed.notify_one();
        OffloadBatch(self.closed)
    }

    /// Returns the last batch that every run of the program sees.
    #[must_use]
    pub fn passed(&self) -> OffloadBatch {
        OffloadBatch(self.shared.passed.load(Ordering::Acquire))
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        *self.shared.closed() = None;
        self.shared.is_closed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Waits for batches, for several at once if they were closed meanwhile, until `closed` is `None`.
fn run(shared: &Shared, wait: &mut impl FnMut() -> Result<(), String>, tick: &mut impl FnMut()) {
    let mut passed = 0;
    let mut is_refused = false;
    loop {
        tick();
        let closed = shared.closed();
        let is_passed = |closed: &mut Option<u64>| *closed == Some(passed);
        let waited = shared.is_closed.wait_timeout_while(closed, TICK, is_passed);
        let (closed, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let Some(latest) = *closed else { return };
        if latest == passed {
            continue;
        }
        drop(closed);
        match wait() {
            Ok(()) => {
                (passed, is_refused) = (latest, false);
                shared.passed.store(passed, Ordering::Release);
            }
            Err(words) => {
                if !is_refused {
                    let mut refusal = shared.refusal.lock().unwrap_or_else(PoisonError::into_inner);
                    *refusal = Some(words);
                }
                is_refused = true;
                thread::sleep(RETRY);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_that_the_kernel_refuses_is_tried_again_and_reported_once() {
        let mut attempts = 0;
        let wait = move || {
            attempts += 1;
            if attempts < 4 { Err(format!("no memory at attempt {attempts}")) } else { Ok(()) }
        };
        let mut batches = Batches::start_with(wait, || {}).unwrap();
        assert_eq!(batches.take_refusal(), None);
        let batch = batches.close();
        while batches.passed() < batch {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(batches.take_refusal().as_deref(), Some("no memory at attempt 1"));
        assert_eq!(batches.take_refusal(), None);
    }

    #[test]
    fn thread_ends_while_the_kernel_refuses() {
        let mut batches = Batches::start_with(|| Err("never".to_owned()), || {}).unwrap();
        batches.close();
        drop(batches);
    }
}
