//! The engine on DPDK ports or on the tester's own memif.

use std::time::{Duration, Instant};

use adit_dpdk::{Port, WorkerIo};
use adit_types::{MacAddr, PortId};
use anyhow::Result;

use super::target::{RunningTarget, TargetAccess, TargetArguments};
use super::testbed::{Testbed, wait_for_links};
use adit_lab_engine::clock::TscClock;
use adit_lab_engine::memif::{Listener, Memif, MemifAddress, Ports};
use adit_lab_engine::neighbor::Neighbors;
use adit_lab_engine::stream::StreamConfig;
use adit_lab_engine::traffic_io::TrafficIo;
use adit_lab_engine::trial::{Engine, TrialConfig, TrialOutcome, TrialProgress};
use adit_lab_process::stop::{POLL, Stop};

/// MAC addresses of the tester's memif ports: N3 (or the only port), and N6.
pub(crate) const TESTER_MACS: [MacAddr; 2] =
    [MacAddr([2, 0xad, 0x17, 0, 0, 3]), MacAddr([2, 0xad, 0x17, 0, 0, 6])];

/// An engine and its ports. Fields drop in order: the engine releases the ports before they close.
#[derive(Debug)]
pub(crate) enum AnyEngine {
    /// On DPDK ports.
    Dpdk(Box<Engine<WorkerIo, TscClock>>, Vec<Port>),
    /// On memifs.
    Memif(Box<Engine<Ports, TscClock>>),
}

/// Open ports that wait for their links.
#[derive(Debug)]
pub(crate) enum UnlinkedPorts {
    /// DPDK ports and their names.
    Dpdk(Vec<String>, Vec<Port>, WorkerIo),
    /// Sockets that wait for memif clients.
    Memif(Vec<Listener>),
}

impl UnlinkedPorts {
    /// Opens DPDK ports.
    ///
    /// # Errors
    /// DPDK refuses a port.
    pub(crate) fn dpdk(bench: &Testbed, names: &[String]) -> Result<Self> {
        let opened = names.iter().map(|name| bench.open(name)).collect::<Result<Vec<_>>>()?;
        let (ports, queues): (Vec<Port>, Vec<_>) = opened.into_iter().unzip();
        Ok(Self::Dpdk(names.to_vec(), ports, WorkerIo::new(queues, bench.pool())))
    }

    /// Listens for memif clients.
    ///
    /// # Errors
    /// A socket's address is in use.
    pub(crate) fn memif(sockets: &[MemifAddress]) -> Result<Self> {
        Ok(Self::Memif(sockets.iter().map(Listener::bind).collect::<Result<_>>()?))
    }

    /// Opens the tester's ports and starts the target. The side with the memif servers comes first;
    /// without memif, the tester.
    ///
    /// # Errors
    /// DPDK refuses a port; a socket's address is in use; the target does not start; it has no
    /// memif server within the timeout; `stop` was raised.
    pub(crate) fn open_with_target(
        bench: &Testbed,
        reach: &TargetAccess,
        start: impl FnOnce() -> Result<RunningTarget>,
        stop: &Stop,
    ) -> Result<(Self, RunningTarget)> {
        let open = || match reach {
            TargetAccess::Dpdk(devices) => Self::dpdk(bench, devices),
            TargetAccess::Memif(sockets) => Self::memif(sockets),
        };
        let servers = reach.memif_servers()?;
        if servers.is_empty() {
            let ports = open()?;
            return Ok((ports, start()?));
        }
        let mut target = start()?;
        for server in &servers {
            eprintln!("waiting for the memif server at {server}");
            target.wait_for_server(server, stop)?;
        }
        Ok((open()?, target))
    }

    /// Waits for the links and makes an engine that answers for the addresses of its ports.
    ///
    /// # Errors
    /// The target ends; a link does not come up in time; `stop` was raised.
    pub(crate) fn drive(
        self,
        bench: &Testbed,
        target: &mut RunningTarget,
        arguments: &TargetArguments,
        stop: &Stop,
    ) -> Result<AnyEngine> {
        let addresses = |macs: &[MacAddr]| {
            let mac = |at: usize| macs.get(at).copied().unwrap_or_default();
            let mut own = arguments.network.port_addresses([mac(0), mac(1)]);
            own.truncate(macs.len());
            own
        };
        match self {
            Self::Dpdk(names, ports, io) => {
                wait_for_links(&names, &ports, arguments.timeout(), stop, || target.check())?;
                let macs: Vec<MacAddr> = ports.iter().map(|port| port.info().mac).collect();
                let neighbors = Neighbors::new(addresses(&macs));
                Ok(AnyEngine::dpdk(bench, io, ports, neighbors))
            }
            Self::Memif(listeners) => {
                let accept = |listener| target.accept(listener, stop);
                let memifs = listeners.iter().map(accept).collect::<Result<Vec<Memif>>>()?;
                let macs: Vec<MacAddr> = TESTER_MACS.into_iter().take(memifs.len()).collect();
                let neighbors = Neighbors::new(addresses(&macs));
                Ok(AnyEngine::memif(bench, Ports::new(memifs, macs), neighbors))
            }
        }
    }
}

/// Evaluates an expression on the engine of either variant.
macro_rules! either {
    ($drive:expr, $engine:ident => $work:expr) => {
        match $drive {
            AnyEngine::Dpdk($engine, _) => $work,
            AnyEngine::Memif($engine) => $work,
        }
    };
}

impl AnyEngine {
    /// Makes an engine on DPDK ports.
    #[must_use]
    pub(crate) fn dpdk(
        bench: &Testbed,
        io: WorkerIo,
        ports: Vec<Port>,
        neighbors: Neighbors,
    ) -> Self {
        Self::Dpdk(Box::new(Engine::new(io, bench.clock(), neighbors, ports.len())), ports)
    }

    /// Makes an engine on memifs.
    #[must_use]
    pub(crate) fn memif(bench: &Testbed, ports: Ports, neighbors: Neighbors) -> Self {
        let count = ports.memifs.len();
        Self::Memif(Box::new(Engine::new(ports, bench.clock(), neighbors, count)))
    }

    /// Makes an engine on memifs that return each packet at once, on the port that sent it.
    ///
    /// # Errors
    /// The shared memory cannot be created.
    pub(crate) fn mirrored(bench: &Testbed) -> Result<Self> {
        Ok(Self::memif(bench, Ports::mirrored(TESTER_MACS.to_vec())?, Neighbors::default()))
    }

    /// Returns the MAC address of a port; `None` if there is no such port.
    #[must_use]
    pub(crate) fn mac(&self, port: usize) -> Option<MacAddr> {
        match self {
            Self::Dpdk(_, ports) => ports.get(port).map(|port| port.info().mac),
            Self::Memif(engine) => engine.io.macs.get(port).copied(),
        }
    }

    /// Returns the packets that a queue towards the target holds: `descriptors` for DPDK queues.
    #[must_use]
    pub(crate) fn queue_pkts(&self, descriptors: u16) -> u64 {
        match self {
            Self::Dpdk(..) => descriptors.into(),
            Self::Memif(engine) => {
                let lens = engine.io.memifs.iter().map(Memif::ring_len);
                lens.max().unwrap_or(0).into()
            }
        }
    }

    /// Returns the frequency of the clock. Unit: Hz.
    #[must_use]
    pub(crate) fn hz(&self) -> u64 {
        either!(self, engine => engine.clock.hz)
    }

    /// See [`Engine::set_streams`].
    pub(crate) fn set_streams(&mut self, streams: Vec<StreamConfig>) {
        either!(self, engine => engine.set_streams(streams));
    }

    /// See [`Engine::serve`].
    pub(crate) fn serve(&mut self) {
        either!(self, engine => engine.serve());
    }

    /// See [`Engine::run_with_callback`].
    pub(crate) fn run_with_callback(
        &mut self,
        config: &TrialConfig,
        live: &TrialProgress,
        stop: &Stop,
        beside: &mut dyn FnMut(),
    ) -> TrialOutcome {
        either!(self, engine => engine.run_with_callback(config, live, stop, beside))
    }

    /// See [`Engine::run`].
    pub(crate) fn run(
        &mut self,
        config: &TrialConfig,
        live: &TrialProgress,
        stop: &Stop,
    ) -> TrialOutcome {
        self.run_with_callback(config, live, stop, &mut || {})
    }

    /// Resolves the MAC address of a neighbor by ARP or neighbor discovery; `None` after `timeout`
    /// or when `stop` is raised.
    pub(crate) fn resolve(
        &mut self,
        port: PortId,
        address: std::net::IpAddr,
        timeout: Duration,
        stop: &Stop,
    ) -> Option<MacAddr> {
        either!(self, engine => resolve(engine, port, address, timeout, stop))
    }
}

/// Resolves a neighbor through the ports of an engine; `None` after `timeout` or when `stop` is
/// raised.
pub(crate) fn resolve<I: TrafficIo>(
    engine: &mut Engine<I, TscClock>,
    port: PortId,
    address: std::net::IpAddr,
    timeout: Duration,
    stop: &Stop,
) -> Option<MacAddr> {
    let start = Instant::now();
    while start.elapsed() < timeout && !stop.is_raised() {
        if engine.neighbors.known(address).is_some() {
            break;
        }
        engine.neighbors.send_request(&mut engine.io, port, address);
        std::thread::sleep(POLL);
        engine.serve();
    }
    engine.neighbors.known(address)
}
