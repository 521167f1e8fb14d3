//! The socket option that makes the kernel poll a NIC's queue during a receive call.
#![allow(unsafe_code, reason = "no crate of the workspace has this socket option")]

use std::os::fd::{AsRawFd, BorrowedFd};

/// Makes receive calls on `socket` poll the NIC's queue for up to `span_us`. If the kernel does not
/// support busy polling, or without `CAP_NET_ADMIN`, receive calls return at once, and the caller
/// polls.
///
/// It has an effect with drivers that have NAPI, once a packet has arrived; not with veth or
/// loopback.
pub(crate) fn request(socket: BorrowedFd<'_>, span_us: libc::c_int) {
    let len = libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or(4);
    let value = (&raw const span_us).cast();
    let (level, option) = (libc::SOL_SOCKET, libc::SO_BUSY_POLL);
    // SAFETY: the descriptor is open, and `value` points to `len` octets that live across the call.
    unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, value, len) };
}
