//! Finds the descriptors on which a thread can wait for packets: the sockets of drivers of kernel
//! interfaces.
//!
//! DPDK does not report these sockets. They are the sockets of the driver's address family that are
//! new after the port has started. Such a socket is readable while its queue has packets.

use core::mem::size_of;
use std::collections::BTreeMap;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;

use super::attach::family;
use crate::device::Device;

/// The process's sockets of a driver's address family, by inode: unlike a descriptor, an inode is
/// not reused as soon as another thread closes the socket.
pub(super) type DriverSockets = BTreeMap<u64, RawFd>;

/// Returns the sockets of the address family of `device`. Empty for drivers without sockets.
pub(super) fn driver_sockets(device: &Device) -> DriverSockets {
    let Some(family) = family(device) else { return DriverSockets::new() };
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return DriverSockets::new() };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let of_family = numbers.filter(|fd: &RawFd| address_family(*fd) == Some(family));
    of_family.filter_map(|fd| Some((inode(fd)?, fd))).collect()
}

/// Returns the sockets of the receive queues of `device`, in the order of the queues. `before` are
/// the sockets that existed before it was attached. Empty if the queues' sockets cannot be
/// identified for certain.
pub(super) fn queue_sockets(device: &Device, before: &DriverSockets, queues: u16) -> Vec<OwnedFd> {
    let mut sockets = driver_sockets(device);
    sockets.retain(|inode, _| !before.contains_key(inode));
    if sockets.len() != usize::from(queues) {
        return Vec::new();
    }
    let mut sockets: Vec<RawFd> = sockets.into_values().collect();
    match family(device) {
        Some(libc::AF_XDP) => sockets.sort_by_key(|fd| xdp_queue(*fd)),
        _ => sockets.sort_unstable(),
    }
    let handles: Vec<OwnedFd> = sockets.into_iter().filter_map(duplicate).collect();
    if handles.len() == usize::from(queues) { handles } else { Vec::new() }
}

/// Returns the inode of an open descriptor.
fn inode(fd: RawFd) -> Option<u64> {
    Some(std::fs::metadata(format!("/proc/self/fd/{fd}")).ok()?.ino())
}

/// Duplicates a descriptor.
fn duplicate(fd: RawFd) -> Option<OwnedFd> {
    // SAFETY: the descriptor is open: the driver keeps it as long as the port runs.
    unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned().ok()
}

/// Returns the address family of a socket; `None` for any other descriptor.
fn address_family(fd: RawFd) -> Option<i32> {
    let mut domain = 0_i32;
    let mut len = libc::socklen_t::try_from(size_of::<i32>()).ok()?;
    // SAFETY: the call writes at most `len` octets to a number of that size, and is valid for any
    // descriptor.
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

/// Returns the queue that an AF_XDP socket is bound to.
fn xdp_queue(fd: RawFd) -> Option<u32> {
    let mut address = libc::sockaddr_xdp {
        sxdp_family: 0,
        sxdp_flags: 0,
        sxdp_ifindex: 0,
        sxdp_queue_id: 0,
        sxdp_shared_umem_fd: 0,
    };
    let mut len = libc::socklen_t::try_from(size_of::<libc::sockaddr_xdp>()).ok()?;
    // SAFETY: the call writes at most `len` octets to a structure of that size, and is valid for
    // any descriptor.
    let code = unsafe { libc::getsockname(fd, (&raw mut address).cast(), &raw mut len) };
    (code == 0).then_some(address.sxdp_queue_id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::{AsRawFd, FromRawFd};

    #[test]
    fn reused_descriptor_number_is_a_new_socket() {
        let device: Device = "net_af_packet0,iface=lo".parse().unwrap();
        let open = || {
            // SAFETY: takes three numbers.
            let fd =
                unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
            // SAFETY: the descriptor is open and no other code owns it.
            (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
        };
        let Some(first) = open() else {
            eprintln!("skipped: sockets of AF_PACKET need CAP_NET_RAW");
            return;
        };
        let duplicate = first.try_clone().unwrap();
        let before = driver_sockets(&device);
        let number = first.as_raw_fd();
        assert!(before.contains_key(&inode(number).unwrap()));
        drop(first);
        let second = open().unwrap();
        assert!(!before.contains_key(&inode(second.as_raw_fd()).unwrap()));
        assert!(before.contains_key(&inode(duplicate.as_raw_fd()).unwrap()));
        drop((duplicate, second));
    }
}
