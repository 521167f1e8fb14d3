//! An allocator that counts, for tests of code that must not allocate.

use core::cell::Cell;
use std::alloc::{GlobalAlloc, Layout, System};

/// The system's allocator. It counts the allocations of a thread within [`allocations`].
struct Counting;

thread_local! {
    static COUNT: Cell<Option<usize>> = const { Cell::new(None) };
}

fn count() {
    // A thread that ends has no counter.
    let _ = COUNT.try_with(|count| count.set(count.get().map(|n| n + 1)));
}

// SAFETY: every call is handed to the system's allocator unchanged; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps to the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps to the contract of `alloc_zeroed`, which is the same.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller keeps to the contract of `realloc`, which is the same.
        unsafe { System.realloc(ptr, layout, new_size) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // A packet buffer returns to a pool, but the system's allocator could call the kernel. So
        // memory that is freed while a thread counts is kept.
        if COUNT.try_with(Cell::get).ok().flatten().is_some() {
            return;
        }
        // SAFETY: the caller keeps to the contract of `dealloc`, which is the same.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `work`. Returns the number of its allocations.
pub(crate) fn allocations(work: impl FnOnce()) -> usize {
    COUNT.set(Some(0));
    work();
    COUNT.take().unwrap()
}
