//! Device strings of kernel ports: `kernel:udp`, `kernel:tun,name=adit0` and
//! `kernel:packet,iface=eth1`.

use core::fmt;
use core::str::FromStr;

/// Longest name of a network device, without the final NUL.
const NAME_BYTES_MAX: usize = 15;

/// A kernel port, named by the device of the kernel that it uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelDevice {
    /// UDP sockets at the addresses of the port's interface.
    Udp,
    /// A TUN device.
    Tun {
        /// Name of the device.
        name: String,
    },
    /// Packet sockets on a network device.
    Packet {
        /// Name of the device.
        iface: String,
    },
}

/// The reason why a text names no kernel device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KernelDeviceParseError {
    /// The text names none of the three kinds of device.
    #[error("neither kernel:udp nor kernel:tun,name=NAME nor kernel:packet,iface=NAME")]
    Unrecognized,
    /// The name cannot be one of a network device.
    #[error("a name of 1 to {NAME_BYTES_MAX} printable ASCII characters without / : % is required")]
    Name,
}

impl KernelDevice {
    /// True if `text` begins as the string of a kernel device, even if the rest is wrong.
    #[must_use]
    pub fn is_meant_by(text: &str) -> bool {
        text.starts_with("kernel:")
    }

    /// True if the kernel routes the packets that the port sends. The kernel is then the only
    /// station on the port's link.
    #[must_use]
    pub const fn is_routed(&self) -> bool {
        !matches!(self, Self::Packet { .. })
    }
}

impl FromStr for KernelDevice {
    type Err = KernelDeviceParseError;

    fn from_str(text: &str) -> Result<Self, KernelDeviceParseError> {
        if text == "kernel:udp" {
            return Ok(Self::Udp);
        }
        let tun = text.strip_prefix("kernel:tun,name=");
        let packet = text.strip_prefix("kernel:packet,iface=");
        let name = tun.or(packet).ok_or(KernelDeviceParseError::Unrecognized)?;
        let is_allowed = |byte: u8| byte.is_ascii_graphic() && !b"/:%,".contains(&byte);
        let is_name = (1..=NAME_BYTES_MAX).contains(&name.len())
            && name.bytes().all(is_allowed)
            && name != "."
            && name != "..";
        match (is_name, tun) {
            (true, Some(_)) => Ok(Self::Tun { name: name.to_owned() }),
            (true, None) => Ok(Self::Packet { iface: name.to_owned() }),
            (false, _) => Err(KernelDeviceParseError::Name),
        }
    }
}

impl fmt::Display for KernelDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udp => f.write_str("kernel:udp"),
            Self::Tun { name } => write!(f, "kernel:tun,name={name}"),
            Self::Packet { iface } => write!(f, "kernel:packet,iface={iface}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kinds_are_written_as_they_are_read() {
        for text in ["kernel:udp", "kernel:tun,name=adit0", "kernel:packet,iface=eth1.5"] {
            assert_eq!(text.parse::<KernelDevice>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn text_that_names_no_device_is_refused() {
        for text in ["", "kernel:", "kernel:tun", "kernel:udp,name=x", "kernel:tap,name=x"] {
            let refused = text.parse::<KernelDevice>();
            assert_eq!(refused, Err(KernelDeviceParseError::Unrecognized), "{text}");
        }
        for name in ["", ".", "..", "a/b", "a b", "sixteen-letters-", "tun%d"] {
            for kind in ["tun,name", "packet,iface"] {
                let refused = format!("kernel:{kind}={name}").parse::<KernelDevice>();
                assert_eq!(refused, Err(KernelDeviceParseError::Name), "{name}");
            }
        }
    }
}
