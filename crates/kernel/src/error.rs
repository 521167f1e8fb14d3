//! Errors of kernel ports.

use std::io;
use std::net::SocketAddr;

/// The reason why a kernel port cannot start.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The kernel does not permit the process to create or configure a network device.
    #[error(
        "{operation} {device}: {reason}; adit needs CAP_NET_ADMIN for a TUN or TAP device, and CAP_NET_RAW for packet sockets"
    )]
    NotPermitted {
        /// The failed operation.
        operation: &'static str,
        /// The device.
        device: String,
        /// The kernel's error.
        reason: io::Error,
    },
    /// The machine has no TUN driver.
    #[error("cannot open /dev/net/tun: {0}; load the driver with: modprobe tun")]
    NoTunDriver(io::Error),
    /// A device of this name exists.
    #[error(
        "cannot create TAP device {device}: {place} a device of this name; remove it ({remedy}), or choose another name"
    )]
    DeviceExists {
        /// The name.
        device: String,
        /// The place, with its verb.
        place: String,
        /// The command that removes it.
        remedy: String,
    },
    /// A named network namespace cannot be entered.
    #[error(
        "cannot enter network namespace \"{name}\": {reason}; create it (ip netns add {name}) and give \
         adit CAP_SYS_ADMIN"
    )]
    Namespace {
        /// Its name.
        name: String,
        /// The kernel's error.
        reason: io::Error,
    },
    /// The kernel refuses an operation on a device.
    #[error("{operation} {device}: {reason}")]
    Device {
        /// The failed operation.
        operation: &'static str,
        /// The device.
        device: String,
        /// The kernel's error.
        reason: io::Error,
    },
    /// An address cannot be bound.
    #[error(
        "cannot bind {address}: {reason}; give the address to a network device, and stop other \
         programs at this port (ss -ulnp)"
    )]
    Bind {
        /// The address and port.
        address: SocketAddr,
        /// The kernel's error.
        reason: io::Error,
    },
    /// The kernel refuses a socket option that the port requires.
    #[error("cannot set {option} of a socket: {reason}")]
    SocketOption {
        /// The option.
        option: &'static str,
        /// The kernel's error.
        reason: io::Error,
    },
}

impl KernelError {
    /// Makes the error of a failed `operation` on `device`.
    pub(crate) fn device(operation: &'static str, device: &str, reason: io::Error) -> Self {
        let device = device.to_owned();
        match reason.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::NotPermitted { operation, device, reason },
            _ => Self::Device { operation, device, reason },
        }
    }
}
