//! Device strings, which name ports in the configuration.

use core::fmt;
use core::str::FromStr;

use adit_types::limits::BURST_MAX;

/// Longest device name, DPDK's `RTE_ETH_NAME_MAX_LEN` without the final NUL.
const NAME_BYTES_MAX: usize = 63;

/// A port, named by a PCI address (`0000:3b:00.0`) or by the name of a virtual device (`net_tap0`),
/// with optional comma-separated driver arguments (`net_af_packet0,iface=eth1`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    name: String,
    arguments: String,
    kind: DeviceKind,
}

/// How DPDK finds a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceKind {
    /// A NIC on the PCI bus, found when the EAL starts.
    Pci,
    /// A virtual device, created when its port is opened.
    Virtual,
}

/// The reason why a text is no device string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DeviceParseError {
    /// Neither a PCI address nor a virtual network device.
    #[error(
        "neither a PCI address such as 0000:3b:00.0 nor a virtual device such as \
         net_af_packet0,iface=eth1"
    )]
    Unrecognized,
    /// The name is longer than DPDK's limit.
    #[error("the device name is longer than {NAME_BYTES_MAX} bytes")]
    TooLong,
    /// The text contains blanks, control or non-ASCII characters.
    #[error("a device string has no blanks, control or non-ASCII characters")]
    Character,
}

impl Device {
    /// Returns DPDK's name of the port. A PCI address has its domain and is in lower case.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the driver arguments as written; empty if there are none.
    #[must_use]
    pub fn arguments(&self) -> &str {
        &self.arguments
    }

    /// Returns the bus.
    #[must_use]
    pub fn kind(&self) -> DeviceKind {
        self.kind
    }

    /// Returns the value of the driver argument `key`.
    #[must_use]
    pub fn argument(&self, key: &str) -> Option<&str> {
        self.arguments.split(',').find_map(|pair| {
            let (name, value) = pair.split_once('=')?;
            (name == key).then_some(value)
        })
    }

    /// True for drivers of virtual links, whose peers are kernels: a kernel may send packets with
    /// incomplete checksums, which it expects a card to complete.
    pub(crate) fn leaves_checksums_open(&self) -> bool {
        ["net_af_packet", "net_af_xdp", "net_tap", "net_virtio_user", "net_vhost"]
            .iter()
            .any(|driver| self.is_driver(driver))
    }

    /// True for a device of the given virtual driver, such as `net_memif`. As in DPDK, the device's
    /// name starts with the driver's.
    #[must_use]
    pub fn is_driver(&self, driver: &str) -> bool {
        self.kind == DeviceKind::Virtual && self.name.starts_with(driver)
    }

    /// Returns how many packet buffers the driver keeps for each queue pair of an AF_XDP device,
    /// and zero for other drivers. They are the buffers that the kernel receives into, and those of
    /// sent packets, which the driver frees when the queue sends again. The driver receives nothing
    /// if the pool has no buffers beyond these.
    #[must_use]
    pub fn kept_mbufs_per_queue(&self, rx_descriptors: usize) -> usize {
        // The driver also sizes the transmit ring of a socket by `rx_descriptors`.
        let sent = rx_descriptors + BURST_MAX;
        if self.is_driver("net_af_xdp") { AF_XDP_FILLED_MBUFS + sent } else { 0 }
    }
}

/// How many buffers the AF_XDP driver passes to the kernel for each queue
/// (`XSK_RING_CONS__DEFAULT_NUM_DESCS`).
const AF_XDP_FILLED_MBUFS: usize = 2048;

impl FromStr for Device {
    type Err = DeviceParseError;

    fn from_str(text: &str) -> Result<Self, DeviceParseError> {
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(DeviceParseError::Character);
        }
        let (name, arguments) = text.split_once(',').unwrap_or((text, ""));
        let arguments = arguments.to_owned();
        let (name, kind) = match pci_address(name) {
            Some(address) => (address, DeviceKind::Pci),
            None if name.len() > "net_".len() && name.starts_with("net_") => {
                (name.to_owned(), DeviceKind::Virtual)
            }
            None => return Err(DeviceParseError::Unrecognized),
        };
        if name.len() > NAME_BYTES_MAX {
            return Err(DeviceParseError::TooLong);
        }
        Ok(Self { name, arguments, kind })
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if self.arguments.is_empty() { Ok(()) } else { write!(f, ",{}", self.arguments) }
    }
}

/// Converts `[domain:]bus:device.function` to DPDK's full form; `None` for any other text.
fn pci_address(text: &str) -> Option<String> {
    let (slot, function) = text.rsplit_once('.')?;
    let mut parts = slot.rsplit(':');
    let device = hex(parts.next()?, 2)?;
    let bus = hex(parts.next()?, 2)?;
    let domain = parts.next().map_or(Some(0), |part| hex(part, 4))?;
    let function: u8 = function.parse().ok().filter(|value| *value < 8)?;
    if parts.next().is_some() || device > 0x1f {
        return None;
    }
    Some(format!("{domain:04x}:{bus:02x}:{device:02x}.{function}"))
}

fn hex(text: &str, digits: usize) -> Option<u32> {
    let valid = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    valid.then(|| u32::from_str_radix(text, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pci_address_without_domain_gets_the_full_form() {
        let device: Device = "3B:00.1,queues=2".parse().unwrap();
        assert_eq!(device.name(), "0000:3b:00.1");
        assert_eq!(device.kind(), DeviceKind::Pci);
        assert_eq!(device.to_string(), "0000:3b:00.1,queues=2");
    }

    #[test]
    fn virtual_device_keeps_its_arguments_as_written() {
        let device: Device = "net_af_xdp0,iface=v0,start_queue=0".parse().unwrap();
        assert_eq!(device.kind(), DeviceKind::Virtual);
        assert_eq!(device.argument("iface"), Some("v0"));
        assert_eq!(device.argument("face"), None);
        assert!(device.is_driver("net_af_xdp"));
        assert!(!device.is_driver("net_memif"));
        assert_eq!(device.to_string(), "net_af_xdp0,iface=v0,start_queue=0");
    }

    #[test]
    fn text_that_names_no_device_is_refused() {
        for text in ["", "eth0", "net_", "--vdev", "0000:3b:00", "00:20.0", "00:00.8", "1:3b:00.0"]
        {
            assert_eq!(text.parse::<Device>(), Err(DeviceParseError::Unrecognized), "{text}");
        }
        assert_eq!("net_tap0 --x".parse::<Device>(), Err(DeviceParseError::Character));
        assert_eq!(format!("net_{:064}", 0).parse::<Device>(), Err(DeviceParseError::TooLong));
    }
}
