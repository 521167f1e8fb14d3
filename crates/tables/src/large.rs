//! Large arrays that packets access at random: zeroed memory mappings, on huge pages if the kernel
//! has any.
//!
//! A page that was never written takes no memory, so arrays have their maximum size. With a million
//! sessions, 4 KiB pages would cost a page walk per packet, so the array requests transparent huge
//! pages before it touches the memory. Without huge pages lookups are slower.

use core::fmt;
use core::ops::Deref;

#[cfg(not(loom))]
pub(crate) use mapped::LargeArray;
#[cfg(loom)]
pub(crate) use modeled::LoomArray as LargeArray;

impl<T> fmt::Debug for LargeArray<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LargeArray").field("len", &self.len()).finish()
    }
}

#[cfg(not(loom))]
mod mapped {
    use core::marker::PhantomData;
    use core::ptr::NonNull;

    use zerocopy::FromZeros;

    use super::Deref;
    use super::pages::{PAGE_BYTES, map, unmap};

    /// An array of fixed length in a memory mapping.
    ///
    /// Ownership: owns a private mapping of `len` elements from `start` on; none if empty.
    pub(crate) struct LargeArray<T> {
        start: NonNull<T>,
        len: usize,
        elements: PhantomData<T>,
    }

    // JUSTIFICATION: a raw pointer is not `Send`; this one acts as a boxed slice.
    // SAFETY: sole owner of its elements.
    unsafe impl<T: Send> Send for LargeArray<T> {}
    // JUSTIFICATION: a raw pointer is not `Sync`; this one acts as a boxed slice.
    // SAFETY: shares its elements by `&[T]` only.
    unsafe impl<T: Sync> Sync for LargeArray<T> {}

    impl<T: FromZeros> LargeArray<T> {
        /// Creates an array of `len` zeros.
        pub(crate) fn zeroed(len: usize) -> Self {
            Self { start: room(len), len, elements: PhantomData }
        }
    }

    impl<T> LargeArray<T> {
        /// Creates an array of `len` elements, each made by `make`.
        pub(crate) fn filled(len: usize, make: impl Fn() -> T) -> Self {
            let start = room::<T>(len);
            for at in 0..len {
                // JUSTIFICATION: `make` writes each element before it is read, as zeros need not be
                // a value of `T`. SAFETY: within the room of `len` elements.
                let place = unsafe { start.add(at) };
                // SAFETY: mapped and aligned, and no other code has the address yet.
                unsafe { place.write(make()) };
            }
            Self { start, len, elements: PhantomData }
        }
    }

    /// Maps memory for `len` elements.
    fn room<T>(len: usize) -> NonNull<T> {
        const {
            assert!(align_of::<T>() <= PAGE_BYTES, "mappings begin at a page");
            assert!(!core::mem::needs_drop::<T>(), "elements are never dropped");
        }
        match len.checked_mul(size_of::<T>()) {
            Some(0) => NonNull::dangling(),
            Some(bytes) => map(bytes).unwrap_or_else(|| out_of_memory()).cast(),
            None => out_of_memory(),
        }
    }

    /// Ends the process as any failed allocation does.
    fn out_of_memory() -> ! {
        std::alloc::handle_alloc_error(std::alloc::Layout::new::<u8>())
    }

    impl<T> Deref for LargeArray<T> {
        type Target = [T];

        #[inline]
        fn deref(&self) -> &[T] {
            // JUSTIFICATION: the mapping is this array's storage.
            // SAFETY: `start` is aligned, and `len` elements from it on are mapped and initialized:
            // by `filled`, or as zeros, which are a value of `T` (`FromZeros`). An empty array
            // needs no mapping.
            unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.len) }
        }
    }

    impl<T> core::ops::DerefMut for LargeArray<T> {
        #[inline]
        fn deref_mut(&mut self) -> &mut [T] {
            // JUSTIFICATION: as in `deref`.
            // SAFETY: as in `deref`, and `&mut self` excludes other references.
            unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
        }
    }

    impl<T> Drop for LargeArray<T> {
        fn drop(&mut self) {
            let bytes = self.len * size_of::<T>();
            if bytes > 0 {
                // JUSTIFICATION: the inverse of `map`.
                // SAFETY: the whole mapping made there, which nothing refers to any more.
                unsafe { unmap(self.start.cast(), bytes) };
            }
        }
    }
}

/// Zeroed memory from the kernel.
#[cfg(not(any(loom, miri)))]
mod pages {
    use core::ptr::{self, NonNull};

    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    /// Least size of a page, and so the alignment of every mapping. Unit: octets.
    pub(super) const PAGE_BYTES: usize = 4096;

    /// Least array for huge pages: the TLB covers smaller ones with any pages. Unit: octets.
    const HUGE_PAGE_ARRAY_BYTES_MIN: usize = 4 << 20;

    /// Maps `bytes` octets of zeros. `None` if the kernel refuses.
    pub(super) fn map(bytes: usize) -> Option<NonNull<u8>> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // JUSTIFICATION: the allocator would write zeros if the alignment is not the usual one.
        // SAFETY: a new private mapping at an address of the kernel's choice overlaps nothing.
        let mapped = unsafe { mmap_anonymous(ptr::null_mut(), bytes, access, MapFlags::PRIVATE) };
        let start = NonNull::new(mapped.ok()?)?;
        if bytes >= HUGE_PAGE_ARRAY_BYTES_MIN {
            // JUSTIFICATION: the kernel backs memory with huge pages only on request, by address.
            // SAFETY: the mapping just made; the advice keeps its contents. An error means that
            // there are no huge pages, which costs speed only.
            let _ = unsafe { madvise(start.as_ptr(), bytes, Advice::LinuxHugepage) };
        }
        Some(start.cast())
    }

    /// Returns a mapping to the kernel.
    ///
    /// # Safety
    /// `start` is the result of a call of [`map`] with `bytes`, and nothing refers to its memory.
    pub(super) unsafe fn unmap(start: NonNull<u8>, bytes: usize) {
        // JUSTIFICATION: the inverse of `map`.
        // SAFETY: the caller's promise. It cannot fail for a mapping that exists.
        let _ = unsafe { munmap(start.as_ptr().cast(), bytes) };
    }
}

/// Zeroed memory of the allocator: Miri makes no system calls.
#[cfg(miri)]
mod pages {
    use core::ptr::NonNull;
    use std::alloc::{Layout, alloc_zeroed, dealloc};

    pub(super) const PAGE_BYTES: usize = 4096;

    pub(super) fn map(bytes: usize) -> Option<NonNull<u8>> {
        let layout = Layout::from_size_align(bytes, PAGE_BYTES).ok()?;
        // SAFETY: callers request one octet or more.
        NonNull::new(unsafe { alloc_zeroed(layout) })
    }

    /// # Safety
    /// As for the other `unmap`.
    pub(super) unsafe fn unmap(start: NonNull<u8>, bytes: usize) {
        let Ok(layout) = Layout::from_size_align(bytes, PAGE_BYTES) else { return };
        // SAFETY: the caller's promise: this memory was allocated with this layout.
        unsafe { dealloc(start.as_ptr(), layout) }
    }
}

#[cfg(loom)]
mod modeled {
    use super::Deref;

    /// An array of default elements: loom's atomics cannot be made of zeros.
    pub(crate) struct LoomArray<T>(Box<[T]>);

    impl<T: Default> LoomArray<T> {
        pub(crate) fn zeroed(len: usize) -> Self {
            Self((0..len).map(|_| T::default()).collect())
        }
    }

    impl<T> LoomArray<T> {
        pub(crate) fn filled(len: usize, make: impl Fn() -> T) -> Self {
            Self((0..len).map(|_| make()).collect())
        }
    }

    impl<T> Deref for LoomArray<T> {
        type Target = [T];

        fn deref(&self) -> &[T] {
            &self.0
        }
    }

    impl<T> core::ops::DerefMut for LoomArray<T> {
        fn deref_mut(&mut self) -> &mut [T] {
            &mut self.0
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::{AtomicU64, Ordering};

    #[test]
    fn large_array_begins_as_zeros_and_keeps_what_is_written() {
        const LEN: usize = if cfg!(miri) { 1 << 12 } else { 1 << 20 };
        let array = LargeArray::<AtomicU64>::zeroed(LEN);
        assert_eq!(array.len(), LEN);
        let mut seen = array.iter().step_by(LEN / 256 + 3);
        assert!(seen.all(|cell| cell.load(Ordering::Relaxed) == 0));
        array[LEN - 1].store(7, Ordering::Relaxed);
        assert_eq!(array[LEN - 1].load(Ordering::Relaxed), 7);
        assert!(array.get(LEN).is_none());
        assert!(LargeArray::<AtomicU64>::zeroed(0).is_empty());
    }

    /// Returns the size of the process's address space. Unit: KiB.
    fn mapped_kib() -> Option<u64> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let size = status.lines().find_map(|line| line.strip_prefix("VmSize:"))?;
        size.trim().trim_end_matches(" kB").parse().ok()
    }

    #[cfg_attr(miri, ignore = "Miri's arrays are no mappings")]
    #[test]
    fn dropped_array_leaves_no_mapping_behind() {
        let before = mapped_kib().unwrap();
        // 16 GiB in all, of which no page is touched.
        for _ in 0..16 {
            drop(LargeArray::<AtomicU64>::zeroed(1 << 27));
        }
        // Other tests map less than this meanwhile.
        let grown = mapped_kib().unwrap().saturating_sub(before);
        assert!(grown < 8 << 20, "{grown} KiB");
    }
}
