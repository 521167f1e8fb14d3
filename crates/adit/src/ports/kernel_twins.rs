//! Kernel twins of interfaces: their devices, and their figures for operators.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use adit_datapath::{KernelClass, KernelCounts, KernelLinks, KernelTwin, connect_kernel};
use adit_kernel::{IpNetwork, TapConfig, TapDevice};
use adit_types::{InterfaceId, MacAddr, PortId};
use anyhow::Context;
use tracing::info;

use crate::config::{Config, InterfaceSettings, TwinSettings};

/// The device of a twin.
pub(crate) struct OpenTwin {
    pub interface: InterfaceId,
    pub port: PortId,
    pub device: TapDevice,
    pub state: Arc<TwinState>,
}

/// The state of a twin that the threads share.
#[derive(Debug, Default)]
pub(crate) struct TwinState {
    /// The port has a link, and this adit is active.
    pub has_carrier: AtomicBool,
    /// Frames that the device did not take.
    pub refused_pkts: AtomicU64,
}

/// The control thread's part of all twins.
#[derive(Debug, Default)]
pub(crate) struct TwinStates {
    twins: Vec<(InterfaceId, PortId, Arc<TwinState>)>,
    /// By worker.
    counts: Vec<KernelCounts>,
}

/// The figures of one class of frames to a twin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TwinClassFigures {
    pub class: KernelClass,
    pub pkts: u64,
    pub ring_full: u64,
    pub rate_limited: u64,
}

/// The figures of a twin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TwinFigures {
    pub interface: InterfaceId,
    pub has_carrier: bool,
    /// Frames that the device did not take.
    pub refused_pkts: u64,
    pub classes: Vec<TwinClassFigures>,
    /// Frames of the kernel that a worker took to send, and those that it refused.
    pub from_pkts: u64,
    pub from_refused: u64,
}

/// The interfaces with twins.
fn twins(
    config: &Config,
) -> impl Iterator<Item = (InterfaceId, &InterfaceSettings, &TwinSettings)> {
    let interfaces = (0..).map(InterfaceId).zip(&config.interfaces);
    interfaces.filter_map(|(id, of)| Some((id, of, of.twin.as_ref()?)))
}

/// Creates the devices of all twins, with their addresses, so that sockets can be bound to these.
///
/// # Errors
/// A device cannot be created; then none is left.
pub(crate) fn open(config: &Config) -> anyhow::Result<Vec<OpenTwin>> {
    let open = |(id, interface, twin): (InterfaceId, &InterfaceSettings, &TwinSettings)| {
        let addresses: Vec<IpNetwork> = interface.links().map(Into::into).collect();
        let routes = config.routes.iter().filter(|route| usize::from(id.0) == route.interface);
        let default_routers: Vec<_> =
            routes.filter(|route| route.prefix.len == 0).map(|route| route.next_hop).collect();
        let device = TapDevice::create(&TapConfig {
            name: &twin.name,
            netns: twin.netns.as_deref(),
            mtu_bytes: config.ports[usize::from(interface.port.0)].mtu_bytes,
            addresses: &addresses,
            default_routers: &default_routers,
        })
        .with_context(|| format!("kernel twin of interface \"{}\"", interface.name))?;
        let netns = twin.netns.as_deref().unwrap_or("that of adit");
        info!(interface = interface.name, device = twin.name, netns, "kernel twin created");
        Ok(OpenTwin { interface: id, port: interface.port, device, state: Arc::default() })
    };
    twins(config).map(open).collect()
}

/// Gives the devices the link-layer addresses of their ports, in the order of `PortId`.
///
/// # Errors
/// The kernel refuses an address.
pub(crate) fn set_macs(twins: &[OpenTwin], macs: &[MacAddr]) -> anyhow::Result<()> {
    for twin in twins {
        if let Some(mac) = macs.get(usize::from(twin.port.0)) {
            twin.device.set_mac(*mac)?;
        }
    }
    Ok(())
}

/// The rings between workers and twins; `None` without twins. The first worker sends, as it does
/// for the control thread.
pub(crate) fn connect(config: &Config) -> Option<KernelLinks> {
    let twins: Vec<KernelTwin> = twins(config)
        .map(|(interface, _, twin)| KernelTwin { interface, protocols: twin.protocols.clone() })
        .collect();
    let workers = config.datapath.roles().processing_thread_count();
    (!twins.is_empty()).then(|| connect_kernel(&twins, config.n4_listen.port(), workers, 0))
}

impl TwinStates {
    /// The control thread's part of these twins.
    pub(crate) fn new(twins: &[OpenTwin], counts: Vec<KernelCounts>) -> Self {
        let state = |twin: &OpenTwin| (twin.interface, twin.port, Arc::clone(&twin.state));
        Self { twins: twins.iter().map(state).collect(), counts }
    }

    /// Creates the states of a twin on each of `ports`.
    #[cfg(test)]
    pub(crate) fn of_ports<const N: usize>(ports: &[PortId; N]) -> (Self, [Arc<TwinState>; N]) {
        let states: [Arc<TwinState>; N] = core::array::from_fn(|_| Arc::default());
        let twins = (0..).zip(ports).zip(&states);
        let twins = twins.map(|((number, port), of)| (InterfaceId(number), *port, Arc::clone(of)));
        (Self { twins: twins.collect(), counts: Vec::new() }, states)
    }

    /// Sets the carriers by the links of the ports; `is_up` says whether one has a link.
    pub(crate) fn set_carriers(&self, is_up: impl Fn(PortId) -> bool) {
        for (_, port, state) in &self.twins {
            state.has_carrier.store(is_up(*port), Ordering::Relaxed);
        }
    }

    /// The figures of all twins.
    pub(crate) fn figures(&self) -> Vec<TwinFigures> {
        let sum = |of: InterfaceId,
                   value: &dyn Fn(&adit_datapath::KernelInterfaceCounts) -> u64| {
            let by_worker = self.counts.iter().filter_map(|counts| counts.get(usize::from(of.0)));
            by_worker.map(value).sum()
        };
        let figures = |(interface, _, state): &(InterfaceId, PortId, Arc<TwinState>)| TwinFigures {
            interface: *interface,
            has_carrier: state.has_carrier.load(Ordering::Relaxed),
            refused_pkts: state.refused_pkts.load(Ordering::Relaxed),
            classes: KernelClass::ALL
                .map(|class| TwinClassFigures {
                    class,
                    pkts: sum(*interface, &|of| of.classes[class.index()].pkts.load()),
                    ring_full: sum(*interface, &|of| of.classes[class.index()].ring_full.load()),
                    rate_limited: sum(*interface, &|of| {
                        of.classes[class.index()].rate_limited.load()
                    }),
                })
                .into(),
            from_pkts: sum(*interface, &|of| of.from_pkts.load()),
            from_refused: sum(*interface, &|of| of.from_refused.load()),
        };
        self.twins.iter().map(figures).collect()
    }
}
