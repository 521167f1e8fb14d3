//! The socket option that makes the kernel poll a NIC's queue during a receive call.
#![allow(unsafe_code, reason = "no crate of the workspace has this socket option")]

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

/// Lets receive calls on `socket` poll the NIC's queue for up to `span_us`.
///
/// It has an effect on drivers with NAPI polling, once a packet has arrived; not on veth or loopback.
///
/// # Errors
/// The kernel has no busy polling, or the process lacks `CAP_NET_ADMIN`.
pub(crate) fn set(socket: BorrowedFd<'_>, span_us: libc::c_int) -> Result<(), Errno> {
    let len = libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or(4);
    let value: *const libc::c_int = &raw const span_us;
    // SAFETY: the descriptor is open, and `value` points to `len` octets that live during the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_BUSY_POLL,
            value.cast(),
            len,
        )
    };
    if result == 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    Err(Errno::from_io_error(&error).unwrap_or(Errno::INVAL))
}
