//! Prefetch hints to the processor; without effect on other architectures than x86-64.

/// Prefetches the cache line at the start of `place`.
#[inline(always)]
// PERF (tables/lookup): a call would cost more than the hint saves; must be inlined into the first
// lookup pass.
pub fn read<T>(place: &T) {
    address(core::ptr::from_ref(place));
}

/// Prefetches the cache line at the start of element `at`. If the index is out of range, prefetches
/// an unrelated line.
#[inline(always)]
// PERF (adit-bench datapath --rates police): without a bounds check.
pub(crate) fn element<T>(array: &[T], at: usize) {
    address(array.as_ptr().wrapping_add(at));
}

/// Prefetches the cache line at an address, which may be invalid.
#[inline(always)]
// PERF (tables/lookup): a call would cost more than the hint saves.
pub(crate) fn address<T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // JUSTIFICATION: the standard library has no safe prefetch; two passes with prefetch halve
        // the cost of a lookup among a million sessions.
        // SAFETY: a prefetch reads nothing architecturally and never faults; SSE is part of the
        // x86-64 baseline.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
