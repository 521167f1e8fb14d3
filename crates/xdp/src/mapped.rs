//! Memory that the program and this process share: the values of an array map. And memory like it
//! of this process alone.

use core::fmt;
use core::ptr::{self, NonNull};
use core::slice;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Words of 64 bits, zero at first. The kernel gives memory when a page is written.
pub(crate) struct MappedArray {
    start: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: all threads and the program change the memory by atomic operations.
unsafe impl Send for MappedArray {}
// SAFETY: as above.
unsafe impl Sync for MappedArray {}

impl MappedArray {
    /// The values of a map with `words` words.
    pub(crate) fn of_map(map: &impl AsFd, words: usize) -> io::Result<Self> {
        Self::map(words, libc::MAP_SHARED, map.as_fd().as_raw_fd())
    }

    /// Memory of this process.
    pub(crate) fn private(words: usize) -> io::Result<Self> {
        Self::map(words, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1)
    }

    fn map(words: usize, flags: i32, fd: i32) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at a place that the kernel chooses.
        let start = unsafe { libc::mmap(ptr::null_mut(), words * 8, access, flags, fd, 0) };
        match NonNull::new(start.cast::<AtomicU64>()) {
            Some(start) if start.as_ptr().cast() != libc::MAP_FAILED => Ok(Self { start, words }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The words.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has so many words, is aligned to pages, and lives as long as `self`.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }

    /// The halves of the words, the lower ones first.
    pub(crate) fn halves(&self) -> &[AtomicU32] {
        // SAFETY: as in `words`. Each place is accessed with one width only.
        unsafe { slice::from_raw_parts(self.start.as_ptr().cast(), self.words * 2) }
    }

    /// The octets.
    pub(crate) fn octets(&self) -> &[AtomicU8] {
        // SAFETY: as in `halves`.
        unsafe { slice::from_raw_parts(self.start.as_ptr().cast(), self.words * 8) }
    }
}

impl Drop for MappedArray {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference to it is left. A failure leaves it there.
        let _ = unsafe { libc::munmap(self.start.as_ptr().cast(), self.words * 8) };
    }
}

impl fmt::Debug for MappedArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MappedArray").field("words", &self.words).finish_non_exhaustive()
    }
}

/// The coarse monotonic clock, which the program also reads. Unit: nanoseconds.
pub(crate) fn coarse_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes the value, or nothing.
    let _ = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut now) };
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or_default()
}
