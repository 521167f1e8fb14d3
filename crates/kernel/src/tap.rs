//! A TAP device: frames that adit writes arrive at the kernel as from a port, and the kernel's
//! frames are read here.
//!
//! The device has no header for offloads: the kernel completes checksums and cuts segments before
//! adit reads a frame, and verifies what adit writes.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use adit_types::MacAddr;

use crate::error::KernelError;
use crate::net_namespace::in_namespace;
use crate::netlink::Netlink;
use crate::network::IpNetwork;
use crate::syscall::{attach_tun, set_tun_carrier};
use crate::tun_config::open_driver;

/// Frames of the kernel that wait in the device.
const QUEUE_PKTS: u32 = 1000;

/// The metric of default routes of adit: above those of other programs, which therefore win.
const DEFAULT_ROUTE_METRIC: u32 = 4096;

/// A new device of frames, without packet information. The kernel refuses one that exists.
const FLAGS: libc::c_int = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_TUN_EXCL;

/// The configuration of a TAP device.
#[derive(Debug, Clone)]
pub struct TapConfig<'a> {
    /// Its name.
    pub name: &'a str,
    /// The named network namespace that it is in. `None`: that of the process.
    pub netns: Option<&'a str>,
    /// Largest IP packet.
    pub mtu_bytes: u16,
    /// Its addresses.
    pub addresses: &'a [IpNetwork],
    /// Routers of default routes, at most one of each family. A namespace that has a default route
    /// of the family keeps it and gets none.
    pub default_routers: &'a [IpAddr],
}

/// A TAP device. The kernel removes it, with its addresses and routes, when this is dropped or the
/// process ends.
#[derive(Debug)]
pub struct TapDevice {
    file: File,
    name: String,
    netns: Option<String>,
    has_v6: bool,
}

impl TapDevice {
    /// Creates and configures a device, which has no carrier at first.
    ///
    /// # Errors
    /// See [`KernelError`]; then there is no device.
    pub fn create(config: &TapConfig<'_>) -> Result<Self, KernelError> {
        in_namespace(config.netns, || create(config))?
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets the link-layer address, and with IPv6 the link-local address that follows from it.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_mac(&self, mac: MacAddr) -> Result<(), KernelError> {
        let name = self.name.as_str();
        let configure = || -> io::Result<()> {
            let mut netlink = Netlink::open()?;
            let index = netlink.index(name)?;
            netlink.set_mac(index, mac)?;
            if self.has_v6 {
                let addr = IpAddr::V6(mac.link_local());
                netlink.add_address(index, IpNetwork { addr, len: 64 }, None)?;
            }
            Ok(())
        };
        in_namespace(self.netns.as_deref(), configure)?.map_err(|error| {
            KernelError::device("cannot set the link-layer address of", name, error)
        })
    }

    /// Sets whether the device has a carrier. Without one the kernel does not use its routes.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_carrier(&self, is_up: bool) -> io::Result<()> {
        set_tun_carrier(&self.file, is_up)
    }

    /// Reads the next frame of the kernel. Does not block.
    ///
    /// # Errors
    /// `WouldBlock` without a frame; others of the kernel.
    pub fn receive(&self, frame: &mut [u8]) -> io::Result<usize> {
        (&self.file).read(frame)
    }

    /// Gives the kernel a frame. Does not block.
    ///
    /// # Errors
    /// The kernel does not take it: it is malformed, or the device is down.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        (&self.file).write(frame).map(drop)
    }
}

impl AsFd for TapDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Creates a device in the present namespace.
fn create(config: &TapConfig<'_>) -> Result<TapDevice, KernelError> {
    let name = config.name;
    let fail = |operation| move |error: io::Error| KernelError::device(operation, name, error);
    let mut netlink = Netlink::open().map_err(fail("cannot configure"))?;
    if netlink.index(name).is_ok() {
        return Err(exists(config));
    }
    let file = open_driver()?;
    let flags = u16::try_from(FLAGS).unwrap_or(0);
    attach_tun(&file, name, flags).map_err(|error| match error.raw_os_error() {
        Some(libc::EBUSY | libc::EEXIST) => exists(config),
        _ => fail("cannot create TAP device")(error),
    })?;
    let has_v6 = config.addresses.iter().any(|of| of.addr.is_ipv6());
    let netns = config.netns.map(str::to_owned);
    // Dropped on errors from here on, which removes the device.
    let device = TapDevice { file, name: name.to_owned(), netns, has_v6 };
    device.set_carrier(false).map_err(fail("cannot take the carrier of"))?;
    let index = netlink.index(name).map_err(fail("cannot find"))?;
    netlink.disable_address_generation(index).map_err(fail("cannot configure"))?;
    // Packets to an address that router advertisements make up would not reach adit. Without
    // IPv6 there is no such file.
    let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/autoconf"), "0");
    netlink
        .set_up(index, config.mtu_bytes.into(), QUEUE_PKTS, true)
        .map_err(fail("cannot bring up, or set the MTU of,"))?;
    for address in config.addresses {
        netlink.add_address(index, *address, None).map_err(fail("cannot give its address to"))?;
    }
    let routes = match config.default_routers {
        [] => Vec::new(),
        _ => netlink.routes().map_err(fail("cannot read the routes of"))?,
    };
    for router in config.default_routers {
        let is_default = |of: &IpNetwork| of.len == 0 && of.addr.is_ipv4() == router.is_ipv4();
        if routes.iter().any(|route| is_default(&route.network)) {
            continue;
        }
        netlink
            .add_default_route(index, *router, DEFAULT_ROUTE_METRIC)
            .map_err(fail("cannot add a default route through"))?;
    }
    Ok(device)
}

fn exists(config: &TapConfig<'_>) -> KernelError {
    let device = config.name.to_owned();
    let (place, remedy) = match config.netns {
        Some(netns) => (
            format!("network namespace \"{netns}\" has"),
            format!("ip -n {netns} link delete {device}"),
        ),
        None => ("there is".to_owned(), format!("ip link delete {device}")),
    };
    KernelError::DeviceExists { device, place, remedy }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_of_an_absent_namespace_is_refused_by_its_name() {
        let config = TapConfig {
            name: "aditt0",
            netns: Some("adit-none"),
            mtu_bytes: 1500,
            addresses: &[],
            default_routers: &[],
        };
        let error = TapDevice::create(&config).unwrap_err();
        assert!(matches!(error, KernelError::Namespace { .. }), "{error}");
    }
}
