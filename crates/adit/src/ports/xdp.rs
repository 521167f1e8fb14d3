//! The XDP program on ports with `xdp = "auto"` or `"on"`.

use std::os::fd::{AsFd, OwnedFd};

use adit_dpdk::{Device, network_device};
use adit_rules::{Offload, OffloadInterface};
use adit_tables::TablesConfig;
use adit_types::PortId;
use adit_xdp::{XdpConfig, XdpError, XdpProgram};
use anyhow::bail;
use tracing::{info, warn};

use crate::clock::ProcessClock;
use crate::config::{Config, PortSettings, XdpMode};

/// The AF_XDP sockets of a port, by queue of its device.
#[derive(Debug)]
pub(crate) struct XdpSockets {
    pub port: PortId,
    pub sockets: Vec<OwnedFd>,
}

/// Loads the program and attaches it to the ports that are configured for it. `None` without such
/// ports, and with `xdp = "auto"` if XDP does not work here.
///
/// # Errors
/// XDP does not work here, and a port has `xdp = "on"`.
pub(crate) fn start(
    config: &Config,
    tables: &TablesConfig,
    sockets: &[XdpSockets],
    clock: ProcessClock,
) -> anyhow::Result<Option<Box<dyn Offload>>> {
    let wanted = |port: &&PortSettings| port.xdp != XdpMode::Off;
    if !config.ports.iter().any(|port| wanted(&port)) {
        return Ok(None);
    }
    match attach(config, tables, sockets, clock) {
        Ok(offload) => {
            let names = config.ports.iter().filter(wanted).map(|port| port.name.as_str());
            let names: Vec<_> = names.collect();
            info!(ports = names.join(", "), "XDP forwards the packets of fast rules");
            Ok(Some(offload))
        }
        Err(AttachError::PortLost(error)) => Err(error.into()),
        Err(AttachError::Unsupported(error))
            if config.ports.iter().any(|port| port.xdp == XdpMode::On) =>
        {
            bail!("{error}; with xdp = \"auto\" adit goes on without XDP")
        }
        Err(AttachError::Unsupported(error)) => {
            warn!("adit goes on without XDP: {error}");
            Ok(None)
        }
    }
}

/// Why the program is not attached.
enum AttachError {
    /// XDP does not work here; the ports are as before.
    Unsupported(XdpError),
    /// A port receives nothing any more: its previous XDP program could not be restored.
    PortLost(XdpError),
}

impl From<XdpError> for AttachError {
    fn from(error: XdpError) -> Self {
        Self::Unsupported(error)
    }
}

/// Loads the program and attaches it to all ports, or to none.
fn attach(
    config: &Config,
    tables: &TablesConfig,
    sockets: &[XdpSockets],
    clock: ProcessClock,
) -> Result<Box<dyn Offload>, AttachError> {
    let wanted = xdp_config(config, tables)?;
    let (mut offload, mut programs) = adit_xdp::load(&wanted, move || clock.now())?;
    if let Err(error) = attach_programs(config, &wanted, &mut programs, sockets) {
        for program in &mut programs {
            program.detach().map_err(AttachError::PortLost)?;
        }
        return Err(error.into());
    }
    offload.keep_attached(programs);
    Ok(Box::new(offload))
}

fn attach_programs(
    config: &Config,
    wanted: &XdpConfig,
    programs: &mut [XdpProgram],
    sockets: &[XdpSockets],
) -> Result<(), XdpError> {
    for (program, (port, device)) in programs.iter_mut().zip(&wanted.devices) {
        let of_port = sockets.iter().find(|of| of.port == *port);
        let Some(of_port) = of_port.filter(|of| !of.sockets.is_empty()) else {
            let name = &config.ports[usize::from(port.0)].name;
            return Err(XdpError(format!("the AF_XDP sockets of port \"{name}\" are unknown")));
        };
        let first = config.ports[usize::from(port.0)].device.dpdk().map_or(0, first_queue);
        let by_queue: Vec<_> = (first..)
            .zip(&of_port.sockets)
            .map(|(queue, socket)| (queue, socket.as_fd()))
            .collect();
        program.attach(*device, &by_queue)?;
    }
    Ok(())
}

fn xdp_config(config: &Config, tables: &TablesConfig) -> Result<XdpConfig, XdpError> {
    let mut devices = Vec::new();
    for (id, port) in (0..).map(PortId).zip(&config.ports) {
        if port.xdp != XdpMode::Off {
            devices.push((id, device_index(port)?));
        }
    }
    let interfaces = tables.interfaces.iter().map(OffloadInterface::from);
    Ok(XdpConfig {
        sessions_max: tables.sessions_max,
        teid_slot_bits: tables.teid_slot_bits,
        next_hops_max: tables.next_hops_max,
        interfaces: interfaces.collect(),
        ue_pools_v4: tables.ue_pools_v4.clone(),
        devices,
    })
}

/// Returns the first queue of the network device that has an AF_XDP socket.
fn first_queue(device: &Device) -> u32 {
    device.argument("start_queue").and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Returns the interface index of a port's network device.
fn device_index(port: &PortSettings) -> Result<u32, XdpError> {
    let name = port.device.dpdk().and_then(|device| device.argument("iface")).unwrap_or_default();
    network_device(name)
        .ok_or_else(|| XdpError(format!("port \"{}\" has no network device", port.name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_begin_with_the_queue_that_the_device_names() {
        let first = |device: &str| first_queue(&device.parse().unwrap());
        assert_eq!(first("net_af_xdp0,iface=v0"), 0);
        assert_eq!(first("net_af_xdp0,iface=v0,start_queue=2,queue_count=2"), 2);
    }
}
