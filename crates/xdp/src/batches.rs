//! When no run of the program sees what was there before a change.
//!
//! The kernel waits for all runs under way when a map in a map is replaced (`bpf(2)`, BPF_MAP_UPDATE_ELEM). That takes
//! some milliseconds, so a thread of its own does it, once for all batches that were closed meanwhile.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use adit_rules::OffloadBatch;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, libbpf_sys};

use crate::config::XdpError;

/// How often the thread calls what it was started with.
const TICK: Duration = Duration::from_secs(1);

/// What the thread shares with the control thread.
#[derive(Debug, Default)]
struct Shared {
    /// The last batch that was closed; `None` ends the thread.
    closed: Mutex<Option<u64>>,
    is_closed: Condvar,
    passed: AtomicU64,
}

impl Shared {
    fn closed(&self) -> MutexGuard<'_, Option<u64>> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Numbers batches of changes, and waits until they have passed.
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
    pub fn start(mut tick: impl FnMut() + Send + 'static) -> Result<Self, XdpError> {
        let create = |kind, name: &str, opts: &libbpf_sys::bpf_map_create_opts| {
            MapHandle::create(kind, Some(name), 4, 4, 1, opts)
                .map_err(|error| XdpError::of("the kernel creates no map", &error))
        };
        let size = size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t;
        let mut opts = libbpf_sys::bpf_map_create_opts { sz: size, ..Default::default() };
        let inner = create(MapType::Array, "adit_inner", &opts)?;
        opts.inner_map_fd = u32::try_from(inner.as_fd().as_raw_fd()).unwrap_or_default();
        let outer = create(MapType::ArrayOfMaps, "adit_outer", &opts)?;
        let shared = Arc::new(Shared::default());
        *shared.closed() = Some(0);
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("xdp-batches".into())
            .spawn(move || run(&of_thread, &outer, &inner, &mut tick))
            .map_err(|error| XdpError(format!("no thread for XDP: {error}")))?;
        Ok(Self { shared, closed: 0, thread: Some(thread) })
    }

    /// Closes the current batch.
    pub fn close(&mut self) -> OffloadBatch {
        self.closed += 1;
        *self.shared.closed() = Some(self.closed);
        self.shared.is_closed.notify_one();
        OffloadBatch(self.closed)
    }

    /// The last batch that no run of the program can miss.
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

/// Waits for batches, one after the other or several at once.
fn run(shared: &Shared, outer: &MapHandle, inner: &MapHandle, tick: &mut impl FnMut()) {
    let mut passed = 0;
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
        let fd = inner.as_fd().as_raw_fd().to_ne_bytes();
        // Without success packets may still see the past, so the changes are not in effect: this ends the daemon.
        if outer.update(&[0; 4], &fd, MapFlags::ANY).is_err() {
            return;
        }
        passed = latest;
        shared.passed.store(passed, Ordering::Release);
    }
}
