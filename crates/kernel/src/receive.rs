//! Parts that the receiving sides of ports share.

use std::io;
use std::os::fd::BorrowedFd;

use adit_pktio::{Burst, PacketBuf};
use adit_types::limits::BURST_MAX;

use crate::syscall::set_option;

/// After so many packets without a buffer, or that fit none, a burst reads no more: packets that
/// arrive without end and find no buffer must not keep the worker from releasing buffers.
pub(crate) const LOST_MAX: usize = 4 * BURST_MAX;

/// Adds at most `limit` packets to `burst` and returns how many. `step` gets how many were lost so
/// far, and adds or loses one packet; false: none waits.
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

/// Gives a socket buffers of `bytes` in the kernel, or as large ones as it allows: smaller ones
/// cost speed only.
pub(crate) fn grow_buffers(socket: BorrowedFd<'_>, bytes: i32) {
    let set = |option| -> io::Result<()> { set_option(socket, libc::SOL_SOCKET, option, bytes) };
    for (forced, plain) in
        [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
    {
        let _ = set(forced).or_else(|_| set(plain));
    }
}
