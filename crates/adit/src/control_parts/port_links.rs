//! Links of ports: whether they are up, and how often that changed.

use std::io::ErrorKind;

use adit_kernel::KernelDevice;
use adit_types::Nanos;
use rustix::net::{AddressFamily, SocketType, netdevice};
use tracing::{info, warn};

use crate::control_parts::{ControlPort, ControlPortDevice};

/// Time between two readings of the links.
const READING_INTERVAL: Nanos = Nanos::from_millis(250);

/// The link of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PortLink {
    /// `None` if only the kernel has the state.
    pub is_up: Option<bool>,
    /// How often the link went down.
    pub losses: u64,
    /// How often the link came up again.
    pub recoveries: u64,
    /// When the state last changed.
    changed: Nanos,
}

impl PortLink {
    /// Updates the state by a reading. True if the link came up after it was down.
    fn read(&mut self, now: Nanos, is_up: Option<bool>) -> bool {
        let former = core::mem::replace(&mut self.is_up, is_up);
        match (former, is_up) {
            (Some(true), Some(false)) => {
                self.losses += 1;
                self.changed = now;
                false
            }
            (Some(false), Some(true)) => {
                self.recoveries += 1;
                self.changed = now;
                true
            }
            _ => false,
        }
    }
}

/// The links of all ports, in the order of the configuration.
#[derive(Debug, Default)]
pub(crate) struct LinkStates {
    links: Vec<PortLink>,
    next: Nanos,
}

impl LinkStates {
    pub(crate) fn all(&self) -> &[PortLink] {
        &self.links
    }

    /// Returns how many ports have links that are down.
    pub(crate) fn down_count(&self) -> usize {
        self.links.iter().filter(|link| link.is_up == Some(false)).count()
    }

    /// Reads the links once per interval and logs changes. True if a link came up again: stations
    /// behind it may have forgotten this host.
    pub(crate) fn check(&mut self, now: Nanos, ports: &[ControlPort]) -> bool {
        if now < self.next {
            return false;
        }
        self.next = now + READING_INTERVAL;
        self.links.resize(ports.len(), PortLink::default());
        let mut has_recovered = false;
        for (link, port) in self.links.iter_mut().zip(ports) {
            let (former, since) = (link.is_up, now.since(link.changed).to_duration());
            let recovered = link.read(now, is_up(port));
            has_recovered |= recovered;
            let name = &port.config.name;
            if recovered {
                info!(port = name, down_ms = since.as_millis(), "link is up again");
            } else if former != Some(false) && link.is_up == Some(false) {
                warn!(
                    port = name,
                    device = %port.config.device,
                    "link is down: packets to this port are dropped; check the cable, the switch, or ip link"
                );
            }
        }
        has_recovered
    }
}

/// Reads the link state from the driver. A device that the kernel keeps has a driver that always
/// says up, so the kernel is read as well. `None` if neither has the state.
fn is_up(port: &ControlPort) -> Option<bool> {
    if let Some(KernelDevice::Packet { iface }) = port.config.device.kernel() {
        return Some(has_carrier(iface));
    }
    let ControlPortDevice::Dpdk { port: dpdk, .. } = &port.device else { return None };
    let carrier = port.config.device.network_device().is_none_or(has_carrier);
    Some(dpdk.link_is_up().unwrap_or(false) && carrier)
}

/// True if the kernel says that a device has a link.
fn has_carrier(device: &str) -> bool {
    match std::fs::read_to_string(format!("/sys/class/net/{device}/carrier")) {
        Ok(carrier) => carrier.trim() == "1",
        // `/sys` may show another network namespace; then only the driver has the state.
        Err(error) if error.kind() == ErrorKind::NotFound => exists(device),
        // The kernel cannot read the carrier of a device that is set down.
        Err(_) => false,
    }
}

/// True if the network namespace of this process has a device.
fn exists(device: &str) -> bool {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None);
    socket.is_ok_and(|socket| netdevice::name_to_index(socket, device).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_of_no_network_namespace_has_no_link() {
        assert!(exists("lo") && !exists("adit-none"));
        assert!(!has_carrier("adit-none"));
    }

    #[test]
    fn loss_and_recovery_are_counted_and_a_first_reading_is_neither() {
        let mut link = PortLink::default();
        let readings = [None, Some(false), Some(true), Some(true), Some(false), None, Some(true)];
        let recovered: Vec<bool> =
            readings.into_iter().map(|is_up| link.read(Nanos(0), is_up)).collect();
        assert_eq!(recovered, [false, false, true, false, false, false, false]);
        assert_eq!((link.losses, link.recoveries), (1, 1));
        let links = LinkStates {
            links: [Some(true), Some(false), None]
                .map(|is_up| PortLink { is_up, ..PortLink::default() })
                .into(),
            next: Nanos(0),
        };
        assert_eq!(links.down_count(), 1);
    }
}
