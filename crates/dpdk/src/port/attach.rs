//! Attaches devices: finds the ethdev id of a device, creates virtual devices, and closes them.

use std::ffi::CString;

use adit_dpdk_sys as sys;

use crate::device::{Device, DeviceKind};
use crate::eal::{Eal, settle_interrupts};
use crate::errno::Errno;
use crate::port::PortError;
use crate::port::{ffi, frame};

/// An ethdev port that this value owns.
///
/// Invariant: the only owner of the ethdev id. Drop closes the port, which must be stopped, and
/// removes a virtual device.
#[derive(Debug)]
pub(super) struct AttachedDevice {
    id: u16,
    /// The name of a virtual device, which Drop removes; `None` for a PCI device.
    made: Option<CString>,
    is_memif: bool,
    _eal: Eal,
}

impl AttachedDevice {
    pub(super) fn attach(eal: &Eal, device: &Device, mtu_bytes: u16) -> Result<Self, PortError> {
        let name = c_string(device.name());
        let is_virtual = device.kind() == DeviceKind::Virtual;
        if is_virtual {
            create_device(device, &name, &frame::arguments(device, mtu_bytes))?;
        }
        let found = ffi::port_by_name(&name);
        let made = is_virtual.then_some(name);
        match found {
            Some(id) => {
                let is_memif = device.is_driver("net_memif");
                Ok(Self { id, made, is_memif, _eal: eal.clone() })
            }
            None => {
                made.as_deref().map(ffi::remove_virtual);
                Err(PortError::UnknownDevice {
                    device: device.to_string(),
                    ports: ffi::port_names(),
                })
            }
        }
    }

    pub(super) fn id(&self) -> u16 {
        self.id
    }
}

impl Drop for AttachedDevice {
    fn drop(&mut self) {
        if self.is_memif {
            // The memif peer may have disconnected just now. The interrupt thread handles that, and
            // must be done before this thread closes the port.
            settle_interrupts();
        }
        // SAFETY: the port is ours and stopped.
        unsafe { sys::rte_eth_dev_close(self.id) };
        self.made.as_deref().map(ffi::remove_virtual);
    }
}

fn create_device(device: &Device, name: &CString, arguments: &str) -> Result<(), PortError> {
    if ffi::port_by_name(name).is_some() {
        return Err(PortError::InUse { device: device.to_string() });
    }
    if let Some(iface) = device.argument("iface").filter(|_| needs_interface(device))
        && network_device(iface).is_none()
    {
        let (device, iface) = (device.to_string(), iface.to_owned());
        return Err(PortError::InterfaceMissing { device, iface });
    }
    let refused =
        |errno| PortError::Attach { device: device.to_string(), errno, log: String::new() };
    if let Some(family) = family(device) {
        try_socket(family).map_err(refused)?;
    }
    if device.is_driver("net_af_packet") {
        // SAFETY: no preconditions.
        unsafe { sys::adit_af_packet_keep_fragments() };
    }
    ffi::add_virtual(name, &c_string(arguments)).map_err(|errno| match errno.value() {
        libc::EEXIST => PortError::InUse { device: device.to_string() },
        _ => refused(errno),
    })
}

/// Returns the kernel's index of a network device in the network namespace of the process, even if
/// `/sys` shows another namespace. `None` if there is no such device.
#[must_use]
pub fn network_device(name: &str) -> Option<u32> {
    // SAFETY: the argument is a C string that lives across the call.
    let number = unsafe { libc::if_nametoindex(c_string(name).as_ptr()) };
    (number != 0).then_some(number)
}

/// True for drivers whose `iface=` names an existing interface; `net_tap` creates its interface.
fn needs_interface(device: &Device) -> bool {
    family(device).is_some()
}

/// Returns the address family of the driver's sockets; `None` for drivers without sockets.
pub(super) fn family(device: &Device) -> Option<i32> {
    let families = [("net_af_packet", libc::AF_PACKET), ("net_af_xdp", libc::AF_XDP)];
    families.iter().find(|(driver, _)| device.is_driver(driver)).map(|(_, family)| *family)
}

/// Opens and closes a socket of the driver's address family to get the kernel's error, which
/// drivers hide.
fn try_socket(family: i32) -> Result<(), Errno> {
    // SAFETY: the call takes three numbers.
    let descriptor = unsafe { libc::socket(family, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if descriptor < 0 {
        return Err(Errno::last_os());
    }
    // SAFETY: the descriptor was just opened, and no other code has it.
    unsafe { libc::close(descriptor) };
    Ok(())
}

fn c_string(text: &str) -> CString {
    CString::new(text).unwrap_or_else(|_| unreachable!("a Device has only printable characters"))
}
