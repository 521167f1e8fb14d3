//! Large arrays that packets visit at random: on large pages where the kernel has them.
//!
//! At a million sessions a 4 KiB page for each line costs a page walk for each packet. The kernel
//! is asked for transparent huge pages before the memory is touched; where it refuses, the array is
//! as any other.

use rustix::mm::{Advice, madvise};

/// Below this, pages fit into the processor's translation caches anyway. Unit: octets.
const ADVISED_MIN: usize = 4 << 20;

/// An array of `len` values, each made by `make`.
pub(crate) fn filled<T>(len: usize, make: impl Fn() -> T) -> Box<[T]> {
    let mut values = Vec::with_capacity(len);
    advise(&mut values);
    values.extend(core::iter::repeat_with(make).take(len));
    values.into_boxed_slice()
}

/// Asks for large pages under the room of `values`, which holds nothing yet.
fn advise<T>(values: &mut Vec<T>) {
    const PAGE: usize = 4096;
    let room = values.spare_capacity_mut();
    let bytes = size_of_val(room);
    if bytes < ADVISED_MIN {
        return;
    }
    let start = room.as_mut_ptr().cast::<u8>();
    let skipped = start.align_offset(PAGE);
    let len = bytes.saturating_sub(skipped) / PAGE * PAGE;
    let first = start.wrapping_add(skipped);
    // JUSTIFICATION: the kernel backs large pages only where it is asked to, by address.
    // SAFETY: whole pages within an allocation that this function borrows alone; the advice keeps
    // their contents. An error means that there are no large pages, which costs speed only.
    let _ = unsafe { madvise(first.cast(), len, Advice::LinuxHugepage) };
}
