//! Code that the receiving sides of all kernel ports share.

use std::io;
use std::os::fd::BorrowedFd;

use adit_pktio::{Burst, PacketBuf};
use adit_types::limits::BURST_MAX;

use crate::syscall::set_option;

/// A burst reads no more after it has lost this many packets, which found no free buffer or were
/// too large for one: an endless stream of such packets must not keep the worker from releasing
/// buffers.
pub(crate) const LOST_MAX: usize = 4 * BURST_MAX;

/// Adds at most `limit` packets to `burst` and returns how many. `step` adds or loses one packet,
/// and returns false if none is waiting; its second parameter is how many packets were lost so far.
pub(crate) fn fill<B: PacketBuf>(
    limit: usize,
    burst: &mut Burst<B>,
    mut step: impl FnMut(&mut Burst<B>, usize) -> bool,
) -> usize {
    let before = burst.len();
    let limit = before + limit.min(burst.remaining_capacity());
    let mut lost = 0;
    while burst.len() < limit {
        let count = burst.len();
        if !step(burst, lost) {
            break;
        }
        lost += usize::from(burst.len() == count);
    }
    burst.len() - before
}

/// Sets both buffers of a socket in the kernel to `bytes`, or to the largest size that the kernel
/// allows: smaller buffers only cost speed.
pub(crate) fn grow_buffers(socket: BorrowedFd<'_>, bytes: i32) {
    let set = |option| -> io::Result<()> { set_option(socket, libc::SOL_SOCKET, option, bytes) };
    for (forced, plain) in
        [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
    {
        let _ = set(forced).or_else(|_| set(plain));
    }
}
