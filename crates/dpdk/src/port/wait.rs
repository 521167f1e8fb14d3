//! Descriptors on which a thread can wait for packets: the sockets of drivers of kernel interfaces.
//!
//! DPDK does not report them. They are the new sockets of the driver's address family after the port
//! has started. A socket is readable while its queue has packets.

use core::mem::size_of;
use std::collections::BTreeSet;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

use super::attach::family;
use crate::device::Device;

/// The descriptors of the process.
pub(super) fn descriptors() -> BTreeSet<RawFd> {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return BTreeSet::new() };
    let all: BTreeSet<RawFd> =
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    // The folder itself was open, and a socket may get its number next.
    all.into_iter()
        .filter(|fd| std::fs::exists(format!("/proc/self/fd/{fd}")).unwrap_or(true))
        .collect()
}

/// Descriptors of the receive queues of `device`, in the order of the queues. `before` are the
/// descriptors before it was attached. Empty if the sockets cannot be identified for certain.
pub(super) fn sockets(device: &Device, before: &BTreeSet<RawFd>, queues: u16) -> Vec<OwnedFd> {
    let Some(family) = family(device) else { return Vec::new() };
    let is_its = |fd: &RawFd| !before.contains(fd) && domain(*fd) == Some(family);
    let mut sockets: Vec<RawFd> = descriptors().into_iter().filter(is_its).collect();
    if sockets.len() != usize::from(queues) {
        return Vec::new();
    }
    if family == libc::AF_XDP {
        sockets.sort_by_key(|fd| xdp_queue(*fd));
    }
    let handles: Vec<OwnedFd> = sockets.into_iter().filter_map(duplicate).collect();
    if handles.len() == usize::from(queues) { handles } else { Vec::new() }
}

/// Duplicates a descriptor.
fn duplicate(fd: RawFd) -> Option<OwnedFd> {
    // SAFETY: the descriptor is open: the driver holds it as long as the port runs.
    unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned().ok()
}

/// The address family of a socket; `None` for any other descriptor.
fn domain(fd: RawFd) -> Option<i32> {
    let mut domain = 0_i32;
    let mut len = libc::socklen_t::try_from(size_of::<i32>()).ok()?;
    // SAFETY: writes at most `len` octets to a number of that size; any descriptor may be asked.
    let code = unsafe {
        libc::getsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_DOMAIN,
            (&raw mut domain).cast(),
            &raw mut len,
        )
    };
    (code == 0).then_some(domain)
}

/// The queue of the interface that an AF_XDP socket is bound to.
fn xdp_queue(fd: RawFd) -> Option<u32> {
    let mut address = libc::sockaddr_xdp {
        sxdp_family: 0,
        sxdp_flags: 0,
        sxdp_ifindex: 0,
        sxdp_queue_id: 0,
        sxdp_shared_umem_fd: 0,
    };
    let mut len = libc::socklen_t::try_from(size_of::<libc::sockaddr_xdp>()).ok()?;
    // SAFETY: writes at most `len` octets to a structure of that size; any descriptor may be asked.
    let code = unsafe { libc::getsockname(fd, (&raw mut address).cast(), &raw mut len) };
    (code == 0).then_some(address.sxdp_queue_id)
}
