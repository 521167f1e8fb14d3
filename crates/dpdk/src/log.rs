//! Captures DPDK's log during an operation, so that errors contain the reason that the driver
//! logged.
//!
//! At other times DPDK logs to standard error as usual.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::IntoRawFd;
use std::sync::{Mutex, PoisonError};

use adit_dpdk_sys as sys;

/// Maximum length of the captured log in an error, which has the end of a longer log. Unit: octets.
const CAPTURE_BYTES_MAX: usize = 4096;

/// The capture file in two forms: the C stream that DPDK writes, and the file that is read back.
///
/// Invariant: `stream` is never closed, since a DPDK thread may still be writing to it when the
/// operation is over.
struct DpdkLogSink {
    stream: *mut libc::FILE,
    file: File,
}

// SAFETY: a C stream may be used from any thread; the mutex around the sink serializes our uses.
unsafe impl Send for DpdkLogSink {}

static SINK: Mutex<Option<DpdkLogSink>> = Mutex::new(None);

impl DpdkLogSink {
    fn create() -> Option<Self> {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let file = File::from(rustix::fs::memfd_create("adit-dpdk-log", flags).ok()?);
        let descriptor = file.try_clone().ok()?.into_raw_fd();
        // SAFETY: `descriptor` is open and nothing else owns it; the mode is a C string. It is
        // append, so that writing continues at the start after the file was truncated.
        let stream = unsafe { libc::fdopen(descriptor, c"a".as_ptr()) };
        (!stream.is_null()).then_some(Self { stream, file })
    }

    fn take_text(&mut self) -> String {
        let mut bytes = Vec::new();
        let read =
            self.file.seek(SeekFrom::Start(0)).and_then(|_| self.file.read_to_end(&mut bytes));
        let emptied = self.file.set_len(0);
        if read.is_err() || emptied.is_err() {
            return "(DPDK's log could not be read)".to_owned();
        }
        let tail = bytes.len().saturating_sub(CAPTURE_BYTES_MAX);
        String::from_utf8_lossy(&bytes[tail..]).trim().to_owned()
    }
}

/// Runs `operation`, and returns its result and what DPDK logged meanwhile.
///
/// The text is empty if DPDK logged nothing, or if no capture file could be created and the log
/// went to standard error.
pub(crate) fn capture<T>(operation: impl FnOnce() -> T) -> (T, String) {
    let mut guard = SINK.lock().unwrap_or_else(PoisonError::into_inner);
    if guard.is_none() {
        *guard = DpdkLogSink::create();
    }
    let Some(sink) = guard.as_mut() else {
        return (operation(), String::new());
    };
    // SAFETY: the stream is open and stays open for the life of the process.
    unsafe { sys::rte_openlog_stream(sink.stream.cast()) };
    let outcome = operation();
    // SAFETY: a null stream selects DPDK's default.
    unsafe { sys::rte_openlog_stream(core::ptr::null_mut()) };
    (outcome, sink.take_text())
}

/// Writes the captured log of a successful operation to standard error.
pub(crate) fn print_log(text: &str) {
    if !text.is_empty() {
        eprintln!("{text}");
    }
}

/// Formats a captured log as the end of an error message, on a line of its own.
pub(crate) fn log_tail(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("\n{text}") }
}
