//! Errors of opening a port.

use crate::errno::Errno;
use crate::log::log_tail;

/// The reason why a port could not be opened; the text also has a remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// No such PCI device is bound to a DPDK driver.
    #[error(
        "DPDK does not know device {device}; {}; check the address with `lspci -D`, bind the NIC \
         with `dpdk-devbind.py --bind=vfio-pci {device}`, and name it when the EAL starts",
        known_ports(ports)
    )]
    UnknownDevice {
        /// The device.
        device: String,
        /// Names of the ports that DPDK has.
        ports: Vec<String>,
    },
    /// The kernel interface of `iface=` does not exist in this network namespace.
    #[error(
        "device {device}: network interface {iface} does not exist in this network namespace; see \
         `ip link`"
    )]
    InterfaceMissing {
        /// The device.
        device: String,
        /// The interface.
        iface: String,
    },
    /// Another port of this process has the virtual device's name.
    #[error("device {device} is in use by this process already; give each device its own name")]
    InUse {
        /// The device.
        device: String,
    },
    /// A virtual device could not be created.
    #[error("cannot create device {device}: {errno}; {}{}", attach_hint(*errno), log_tail(log))]
    Attach {
        /// The device.
        device: String,
        /// DPDK's reason.
        errno: Errno,
        /// The driver's own log lines.
        log: String,
    },
    /// The device has fewer transmit queues than there are workers.
    #[error(
        "device {device} offers only {tx_max} transmit queues, but each of {tx_wanted} workers needs one; \
         lower the number of workers or give the device more queues"
    )]
    TooFewQueues {
        /// The device.
        device: String,
        /// Requested transmit queues.
        tx_wanted: u16,
        /// Offered transmit queues.
        tx_max: u16,
    },
    /// The device cannot carry packets of this size.
    #[error(
        "device {device} takes an MTU of {min} to {max} bytes, not {mtu_bytes}; net_af_packet takes \
         larger packets without `framesz=` and `blocksz=`"
    )]
    Mtu {
        /// The device.
        device: String,
        /// Configured MTU. Unit: bytes.
        mtu_bytes: u16,
        /// Minimum MTU. Unit: bytes.
        min: u16,
        /// Maximum MTU. Unit: bytes.
        max: u16,
    },
    /// An AF_XDP driver would pass only a part of the pool to the kernel, since the pool is not in
    /// one piece.
    #[error(
        "device {device} needs its packet buffers in one piece of memory; raise dpdk.memory_mib, or give DPDK an IOMMU, \
         so that it starts with --iova-mode=va"
    )]
    Pieces {
        /// The device.
        device: String,
    },
    /// A frame of MTU size does not fit a buffer of the pool.
    #[error(
        "device {device}: an MTU of {mtu_bytes} bytes needs buffers of {need_bytes} bytes, and \
         those of the mempool have {room_bytes}; raise the data room or lower the MTU"
    )]
    DataRoom {
        /// The device.
        device: String,
        /// Configured MTU. Unit: bytes.
        mtu_bytes: u16,
        /// Minimum buffer size, headroom included. Unit: bytes.
        need_bytes: u32,
        /// Buffer size, headroom included. Unit: bytes.
        room_bytes: u16,
    },
    /// The driver refused a step of the setup.
    #[error("cannot {operation} device {device}: {errno}; {}{}", attach_hint(*errno), log_tail(log))]
    Refused {
        /// The device.
        device: String,
        /// The refused step.
        operation: &'static str,
        /// The driver's reason.
        errno: Errno,
        /// The driver's own log lines.
        log: String,
    },
}

impl PortError {
    /// Adds the driver's log of the failed operation.
    pub(super) fn with_log(mut self, text: &str) -> Self {
        if let Self::Attach { log, .. } | Self::Refused { log, .. } = &mut self {
            text.clone_into(log);
        }
        self
    }
}

fn known_ports(ports: &[String]) -> String {
    if ports.is_empty() {
        "it knows no port".to_owned()
    } else {
        format!("it knows {}", ports.join(", "))
    }
}

fn attach_hint(errno: Errno) -> &'static str {
    match errno.value() {
        libc::EPERM | libc::EACCES => {
            "run as root or with CAP_NET_ADMIN, CAP_NET_RAW and, for AF_XDP, CAP_SYS_ADMIN"
        }
        libc::EBUSY => "another program holds the interface's queue or an XDP program on it",
        // DPDK returns EFAULT for a name that no driver claims.
        libc::ENODEV | libc::EFAULT => {
            "check the driver's name and whether its DPDK package is installed; DPDK's lines follow"
        }
        libc::EOPNOTSUPP | libc::EPROTONOSUPPORT | libc::EAFNOSUPPORT | libc::ENOPROTOOPT => {
            "the device or the kernel (CONFIG_XDP_SOCKETS, CONFIG_PACKET, CONFIG_TUN) lacks the \
             feature"
        }
        libc::ENOMEM => "raise the configured memory",
        _ => {
            "check the device arguments, and that no other program uses the interface's queue; the \
             driver's lines follow"
        }
    }
}
