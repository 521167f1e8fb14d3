//! The network of `adit-lab ports`: small packets of many sessions pass adit over veth devices
//! between namespaces.
//!
//! The result is packets per CPU-second of the core that adit shares with the kernel's work for its
//! devices: packets per second would depend on the other core, which sends and receives.

mod cpu_time;
mod programs;
mod sender;
mod turn;

use std::net::Ipv4Addr;

use adit_lab_engine::frame::Endpoints;
use anyhow::{Context, Result};

use self::turn::Turn;
use crate::adit_process::PacketDevice;
use crate::demo::bring_up::Affinity;
use crate::topology::{DN_V6, LabUe};
use adit_lab_measure::ports::{PortDirection, PortKind, PortsArguments, PortsCores};
use adit_lab_process::adit_config::WorkerPoll;
use adit_lab_process::stop::Stop;

/// Address of the server of all UEs, behind the gateway of the data network.
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// Addresses of UEs and server.
const ENDPOINTS: Endpoints =
    Endpoints { ue_v4: LabUe(1).ipv4(), ue_v6: DN_V6, server_v4: SERVER, server_v6: DN_V6 };

const fn device(io: PortKind) -> PacketDevice {
    match io {
        PortKind::Xdp => PacketDevice::Xdp,
        PortKind::AfXdp => PacketDevice::AfXdp,
        PortKind::AfPacket => PacketDevice::AfPacket,
        PortKind::NetAfPacket => PacketDevice::NetAfPacket,
        PortKind::Kernel => PacketDevice::Kernel,
    }
}

/// Measures all kinds of ports, and prints the results.
///
/// # Errors
/// The machine lacks something, adit does not start with a kind of port or forwards nothing, or a
/// signal interrupts.
pub(crate) fn run(arguments: &PortsArguments, stop: &Stop) -> Result<bool> {
    let mut affinity = Affinity::new(true)?;
    affinity.cores.poll = match arguments.realtime_priority {
        0 => WorkerPoll::Adaptive,
        priority => WorkerPoll::AdaptiveFirst(priority),
    };
    let [worker, tester] = [affinity.cores.worker, affinity.cores.main].map(u16::try_from);
    let cores = PortsCores { worker: worker?, tester: tester? };
    arguments.run(cores, stop, |io| {
        let mut turn = Turn::bring_up(arguments, io, &affinity, stop)
            .with_context(|| format!("ports of kind {io}"))?;
        let measure = |direction| turn.measure(direction, arguments, stop);
        PortDirection::ALL.into_iter().map(measure).collect()
    })
}
