//! Chooses the kind of a port from what the host has, and says why.

use adit_kernel::NetworkDevice;
use serde::Serialize;

use crate::cli::{EndpointText, PortChoice};
use crate::config::IpNet;
use crate::host_checks::CheckedHost;

/// Drivers under which DPDK has a card for itself, and drivers that share a card with the kernel.
const DPDK_DRIVERS: [&str; 3] = ["vfio-pci", "uio_pci_generic", "igb_uio"];
const SHARING_DRIVERS: [&str; 2] = ["mlx4_core", "mlx5_core"];

/// Drivers of the kernel with native XDP and AF_XDP sockets.
const XDP_DRIVERS: [&str; 7] = ["bnxt_en", "i40e", "ice", "igb", "igc", "ixgbe", "mlx5_core"];

/// Range of the key `mtu_bytes`, and its maximum with AF_XDP, where a frame must fit a page.
const MTU_BYTES_RANGE: std::ops::RangeInclusive<u32> = 1280..=9600;
const XDP_MTU_BYTES_MAX: u32 = 3430;

/// Default of the key `dpdk.memory_mib`.
const DPDK_MEMORY_MIB_DEFAULT: u64 = 512;

/// One side of adit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    N3,
    N6,
}

impl Side {
    /// The command-line option that names this side's port.
    pub(super) const fn option(self) -> &'static str {
        match self {
            Self::N3 => "--n3",
            Self::N6 => "--n6",
        }
    }
}

/// A port with the addresses of its interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct ChosenPort {
    pub kind: PortChoice,
    /// The value of `device` in the configuration.
    pub device: String,
    /// The values of `addresses` in the configuration.
    pub addresses: Vec<String>,
    #[serde(skip)]
    pub links: Vec<IpNet>,
    pub mtu_bytes: u32,
    pub why: String,
}

/// The hardware behind an endpoint.
#[derive(Debug, Clone, Copy)]
enum EndpointHardware<'a> {
    Card { address: &'a str, driver: Option<&'a str> },
    Device(&'a NetworkDevice),
}

/// Chooses ports on a host.
#[derive(Debug, Clone, Copy)]
pub(super) struct PortChooser<'a> {
    pub host: &'a CheckedHost,
    pub io: PortChoice,
}

impl<'a> PortChooser<'a> {
    /// Finds the address of N4, with the length of its prefix.
    ///
    /// # Errors
    /// This host has neither such a device nor the address. The error is a sentence for the user.
    pub(super) fn n4(&self, text: &EndpointText) -> Result<IpNet, String> {
        let network = &self.host.network;
        let (known, what) = match (&text.device, text.addresses.first()) {
            (_, Some(IpNet { addr, .. })) => {
                (network.owner(*addr).map(|(_, of)| of), addr.to_string())
            }
            (Some(name), None) => {
                let device = self.device(name, "--n4")?;
                (device.addresses.first().copied(), format!("an address on {name}"))
            }
            (None, None) => (None, "an address".to_owned()),
        };
        let known = known.ok_or_else(|| {
            format!("this host does not have {what}, which --n4 names: run ip address add first")
        })?;
        Ok(known.into())
    }

    /// Chooses the port of one side.
    ///
    /// # Errors
    /// The device or the address does not exist, or the device is in use or does not fit; the text
    /// is a sentence with what to do.
    pub(super) fn port(&self, side: Side, text: &EndpointText) -> Result<ChosenPort, String> {
        let behind = self.hardware_of(side, text)?;
        let links = self.links(side, text, behind)?;
        let of_kernel = links.iter().find_map(|link| {
            let (device, _) = self.host.network.owner(link.addr)?;
            Some((device.name.as_str(), *link))
        });
        let (kind, why) = self.kind(side, behind, of_kernel)?;
        let index = u8::from(side == Side::N6);
        let device = match (kind, behind) {
            (PortChoice::Kernel, _) if side == Side::N3 => "kernel:udp".to_owned(),
            (PortChoice::Kernel, _) => "kernel:tun,name=adit0".to_owned(),
            (_, EndpointHardware::Card { address, .. }) => address.to_owned(),
            (PortChoice::Dpdk, EndpointHardware::Device(of)) => {
                self.pci_address(&of.name).unwrap_or_default()
            }
            (PortChoice::Xdp, EndpointHardware::Device(of)) => {
                format!("net_af_xdp{index},iface={}", of.name)
            }
            (_, EndpointHardware::Device(of)) => format!("kernel:packet,iface={}", of.name),
        };
        let mtu = match behind {
            EndpointHardware::Device(of) => {
                of.mtu_bytes.clamp(*MTU_BYTES_RANGE.start(), *MTU_BYTES_RANGE.end())
            }
            EndpointHardware::Card { .. } => 1500,
        };
        let mtu_bytes = if kind == PortChoice::Xdp { mtu.min(XDP_MTU_BYTES_MAX) } else { mtu };
        let is_tun = kind == PortChoice::Kernel && side == Side::N6;
        let written = links
            .iter()
            .map(|link| if is_tun { IpNet::host(link.addr) } else { *link }.to_string());
        Ok(ChosenPort { kind, device, addresses: written.collect(), links, mtu_bytes, why })
    }

    fn device(&self, name: &str, option: &str) -> Result<&'a NetworkDevice, String> {
        self.host.network.device(name).ok_or_else(|| {
            let known = self.host.network.devices.iter().filter(|device| !device.is_loopback);
            let known: Vec<_> = known.map(|device| device.name.as_str()).collect();
            let known = known.join(", ");
            format!(
                "there is no network device {name}, which {option} names; this host has {known}"
            )
        })
    }

    fn hardware_of(
        &self,
        side: Side,
        text: &'a EndpointText,
    ) -> Result<EndpointHardware<'a>, String> {
        let option = side.option();
        if let Some(name) = &text.device {
            if let Some(driver) = self.host.cards.get(name) {
                return Ok(EndpointHardware::Card { address: name, driver: driver.as_deref() });
            }
            return self.device(name, option).map(EndpointHardware::Device);
        }
        let addr = text.addresses.first().map(|of| of.addr).ok_or("an address is missing")?;
        let owner =
            self.host.network.owner(addr).map(|(device, _)| EndpointHardware::Device(device));
        owner.ok_or_else(|| {
            format!(
                "no network device has {addr}, which {option} names: write DEVICE={addr}/24 for a device that adit takes for itself"
            )
        })
    }

    /// Returns the addresses of the endpoint: those in `text`, else those of the device.
    fn links(
        &self,
        side: Side,
        text: &EndpointText,
        behind: EndpointHardware<'_>,
    ) -> Result<Vec<IpNet>, String> {
        let link = |net: &IpNet| {
            let known = self.host.network.owner(net.addr).map(|(_, of)| of.len);
            let is_host = known.is_none() && *net == IpNet::host(net.addr);
            let (addr, option) = (net.addr, side.option());
            match is_host {
                false => Ok(IpNet { addr, len: known.unwrap_or(net.len) }),
                true => Err(format!(
                    "{addr} of {option} needs the length of its prefix, such as {addr}/24"
                )),
            }
        };
        let mut links = text.addresses.iter().map(link).collect::<Result<Vec<_>, String>>()?;
        if let (true, EndpointHardware::Device(device)) = (links.is_empty(), behind) {
            for is_v4 in [true, false] {
                let of = device.addresses.iter().find(|of| of.addr.is_ipv4() == is_v4);
                links.extend(of.copied().map(IpNet::from));
            }
        }
        if links.is_empty() {
            let (option, name) = (side.option(), text.device.as_deref().unwrap_or_default());
            return Err(format!(
                "{name} has no address: write {option} {name}=ADDRESS/LENGTH with the address that adit is to have there"
            ));
        }
        Ok(links)
    }

    fn pci_address(&self, name: &str) -> Option<String> {
        self.host.devices.get(name)?.pci_address.clone()
    }

    /// Chooses the kind of the port, and says why. `of_kernel`: a device of the kernel with one of
    /// the addresses.
    fn kind(
        &self,
        side: Side,
        behind: EndpointHardware<'_>,
        of_kernel: Option<(&str, IpNet)>,
    ) -> Result<(PortChoice, String), String> {
        match (self.io, behind, of_kernel) {
            (PortChoice::Auto | PortChoice::Kernel, _, Some((device, link))) => {
                let why = format!("the kernel has {link} on {device}, and forwards beside adit");
                Ok((PortChoice::Kernel, why))
            }
            (PortChoice::Kernel, ..) => Err(format!(
                "--io kernel needs the addresses of {} on a device of the kernel: run ip address add first",
                side.option()
            )),
            (io, _, Some((device, link))) => Err(format!(
                "{device} is in use: the kernel has {link} on it; run ip address delete {link} dev {device} and write \
                 {} {device}={link}, or leave --io {} out",
                side.option(),
                io.name()
            )),
            (_, EndpointHardware::Card { address, driver }, None) => self.card(address, driver),
            (_, EndpointHardware::Device(device), None) => self.network_device(device),
        }
    }

    /// Chooses the kind of port for a card that the kernel does not have.
    fn card(&self, address: &str, driver: Option<&str>) -> Result<(PortChoice, String), String> {
        if !matches!(self.io, PortChoice::Auto | PortChoice::Dpdk) {
            let io = self.io.name();
            return Err(format!("--io {io} needs a network device of the kernel, not {address}"));
        }
        let driver = driver.unwrap_or("none");
        if !DPDK_DRIVERS.contains(&driver) && !SHARING_DRIVERS.contains(&driver) {
            return Err(format!(
                "{address} is in use by the driver {driver}: run dpdk-devbind.py --bind=vfio-pci {address}, or name its \
                 network device"
            ));
        }
        self.check_hugepages()?;
        Ok((PortChoice::Dpdk, format!("DPDK drives {address} ({driver})")))
    }

    fn check_hugepages(&self) -> Result<(), String> {
        match self.host.free_huge_mib {
            free if free < DPDK_MEMORY_MIB_DEFAULT => Err(format!(
                "a card of DPDK needs {DPDK_MEMORY_MIB_DEFAULT} MiB of hugepages and {free} MiB are free: run sysctl -w \
                 vm.nr_hugepages={}",
                DPDK_MEMORY_MIB_DEFAULT / 2
            )),
            _ => Ok(()),
        }
    }

    /// Chooses the kind of port for a network device on which the kernel has no address of adit.
    fn network_device(&self, device: &NetworkDevice) -> Result<(PortChoice, String), String> {
        let name = &device.name;
        self.check_unused(device)?;
        let facts = self.host.devices.get(name);
        let driver = facts.and_then(|facts| facts.driver.as_deref());
        let driver = driver.or(device.kind.as_deref()).unwrap_or("none");
        let is_shared = SHARING_DRIVERS.contains(&driver) && self.pci_address(name).is_some();
        let has_xdp = XDP_DRIVERS.contains(&driver);
        match self.io {
            PortChoice::Dpdk if !is_shared => {
                let card = self.pci_address(name);
                let card = card.unwrap_or_else(|| "the card's PCI address".to_owned());
                Err(format!(
                    "DPDK cannot share {name} with its driver {driver}: run dpdk-devbind.py --bind=vfio-pci {card}, and \
                     name {card} instead"
                ))
            }
            PortChoice::Dpdk => self.check_hugepages().map(|()| {
                (PortChoice::Dpdk, format!("DPDK shares {name} with its driver {driver}"))
            }),
            PortChoice::Auto if is_shared && self.check_hugepages().is_ok() => {
                Ok((PortChoice::Dpdk, format!("DPDK shares {name} with its driver {driver}")))
            }
            PortChoice::Auto if has_xdp && !device.has_xdp => {
                Ok((PortChoice::Xdp, format!("the driver of {name}, {driver}, has native XDP")))
            }
            PortChoice::Xdp if device.has_xdp => Err(format!(
                "{name} is in use by another XDP program: run ip link set {name} xdp off"
            )),
            PortChoice::Xdp => Ok((PortChoice::Xdp, format!("--io xdp, on {name} ({driver})"))),
            _ => {
                let why = format!(
                    "{name} ({driver}) is neither a card of DPDK nor known for native XDP: packet sockets take it with its \
                     offloads"
                );
                Ok((PortChoice::AfPacket, why))
            }
        }
    }

    /// # Errors
    /// The kernel or others use the device, or it is not Ethernet.
    fn check_unused(&self, device: &NetworkDevice) -> Result<(), String> {
        let name = &device.name;
        let user = if device.has_master {
            Some("it belongs to a bridge or bond".to_owned())
        } else if self.host.network.default_gateways(Some(device.index)).next().is_some() {
            Some("the default route of this host leads through it".to_owned())
        } else {
            let other = device.addresses.first();
            other.map(|of| format!("the kernel has {}/{} on it", of.addr, of.len))
        };
        if let Some(user) = user {
            return Err(format!(
                "{name} is in use: {user}; name another device, or an address of this host, which gives the port of the kernel"
            ));
        }
        match device.is_ethernet && !device.is_loopback {
            true => Ok(()),
            false => Err(format!("{name} is no Ethernet device: name another one")),
        }
    }
}
