//! Changes settings of network devices that are ports of other drivers.

use std::io;

use adit_types::MacAddr;
use nix::net::if_::if_indextoname;

use crate::error::KernelError;
use crate::netlink::Netlink;

/// Raises the MTU of the network device with index `device`, if it is below `mtu_bytes`.
///
/// # Errors
/// The device does not support the MTU, or the process has no `CAP_NET_ADMIN`; the message names
/// the device.
pub fn raise_mtu(device: u32, mtu_bytes: u16) -> Result<(), KernelError> {
    configure(device, "cannot raise to mtu_bytes the MTU of", |netlink, index| {
        netlink.raise_mtu(index, mtu_bytes.into())
    })
}

/// Sets the link-layer address of the network device with index `device`.
///
/// # Errors
/// The kernel refuses; the message names the device.
pub fn set_mac(device: u32, mac: MacAddr) -> Result<(), KernelError> {
    configure(device, "cannot set the link-layer address of", |netlink, index| {
        netlink.set_mac(index, mac)
    })
}

fn configure(
    device: u32,
    operation: &'static str,
    change: impl FnOnce(&mut Netlink, i32) -> io::Result<()>,
) -> Result<(), KernelError> {
    let index = i32::try_from(device).map_err(|_| io::ErrorKind::InvalidInput.into());
    index.and_then(|index| change(&mut Netlink::open()?, index)).map_err(|error| {
        let name = if_indextoname(device).unwrap_or_default();
        KernelError::device(operation, &name.to_string_lossy(), error)
    })
}
