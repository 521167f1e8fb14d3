//! Memory that the program and this process share, which is the values of an array map; and similar
//! memory of this process alone.

use core::fmt;
use core::ptr::{self, NonNull};
use core::slice;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// 64-bit words that are zero at first. The kernel allocates a page when it is first written.
pub(crate) struct MappedArray {
    start: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: all threads and the program access the memory by atomic operations only.
unsafe impl Send for MappedArray {}
// SAFETY: as above.
unsafe impl Sync for MappedArray {}

impl MappedArray {
    /// Maps the values of a map, which have `words` words.
    pub(crate) fn of_map(map: &impl AsFd, words: usize) -> io::Result<Self> {
        Self::map(words, libc::MAP_SHARED, map.as_fd().as_raw_fd())
    }

    /// Allocates memory of this process alone.
    pub(crate) fn private(words: usize) -> io::Result<Self> {
        Self::map(words, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1)
    }

    fn map(words: usize, flags: i32, fd: i32) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe { libc::mmap(ptr::null_mut(), words * 8, access, flags, fd, 0) };
        match NonNull::new(start.cast::<AtomicU64>()) {
            Some(start) if start.as_ptr().cast() != libc::MAP_FAILED => Ok(Self { start, words }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Returns the words.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has `self.words` words, is aligned to pages, and lives as long as
        // `self`.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }

    /// Returns the halves of the words, the lower half of each first.
    pub(crate) fn halves(&self) -> &[AtomicU32] {
        // SAFETY: as in `words`. Code accesses each location with one width only.
        unsafe { slice::from_raw_parts(self.start.as_ptr().cast(), self.words * 2) }
    }

    /// Returns the octets.
    pub(crate) fn octets(&self) -> &[AtomicU8] {
        // SAFETY: as in `halves`.
        unsafe { slice::from_raw_parts(self.start.as_ptr().cast(), self.words * 8) }
    }
}

impl Drop for MappedArray {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this value, and no reference to it is left. If the call
        // fails, the mapping stays.
        let _ = unsafe { libc::munmap(self.start.as_ptr().cast(), self.words * 8) };
    }
}

impl fmt::Debug for MappedArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MappedArray").field("words", &self.words).finish_non_exhaustive()
    }
}

/// Returns the time of the coarse monotonic clock, which the program also reads. Unit: nanoseconds.
pub(crate) fn coarse_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes the value, or nothing.
    let _ = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut now) };
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or_default()
}
