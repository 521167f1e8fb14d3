//! Prefetch hints of the processor; nothing on processors without them.

/// Prefetches the cache line at the start of `place`.
#[inline(always)]
// PERF (tables/lookup): a call would cost more than the hint saves; must be inlined into the first
// lookup pass.
pub fn read<T>(place: &T) {
    address(core::ptr::from_ref(place));
}

/// Prefetches the cache line at the start of element `at`. An index out of range prefetches some
/// other line.
#[inline(always)]
// PERF (adit-bench datapath --rates police): without a check of the index.
pub(crate) fn element<T>(array: &[T], at: usize) {
    address(array.as_ptr().wrapping_add(at));
}

/// Prefetches the cache line at an address, whatever is there.
#[inline(always)]
// PERF (tables/lookup): see `read`.
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
