//! The tester's side of a measurement: DPDK, its ports, and the thread that runs the engine.

use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};

use adit_dpdk::{
    Device, Eal, EalConfig, HugepageMode, Mempool, MempoolConfig, Port, PortConfig, WorkerPort,
    pin_current_thread, register_thread,
};
use anyhow::{Context, Result, anyhow, bail};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::progress;
use adit_lab_engine::clock::TscClock;
use adit_lab_engine::memif::MemifAddress;
use adit_lab_engine::trial::TrialProgress;
use adit_lab_process::stop::environment;

/// Length of a packet buffer: a frame of 2 KiB and its headroom. Unit: octets.
const DATA_ROOM_BYTES: u16 = 2048 + 128;

/// Options of the tester's side, the same for all measurements.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct TestbedArguments {
    /// CPU core of the tester; default: the first one that this process may use.
    #[arg(long, value_name = "CPU")]
    pub core: Option<u16>,
    /// Packet memory of the tester, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 256,
        value_parser = clap::value_parser!(u32).range(64..=65_536))]
    pub memory: u32,
    /// Packet buffers of the tester.
    #[arg(long, value_name = "N", default_value_t = 16_383,
        value_parser = clap::value_parser!(u32).range(1023..=1_048_575))]
    pub mbufs: u32,
    /// Descriptors of each queue.
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub descriptors: u16,
    /// Largest IP packet on a port, outer headers included.
    #[arg(long, value_name = "BYTES", default_value_t = 1600)]
    pub mtu: u16,
}

impl TestbedArguments {
    /// Returns the tester's core.
    #[must_use]
    pub(crate) fn tester_core(&self) -> u16 {
        self.core.or_else(|| allowed_cores().first().copied()).unwrap_or(0)
    }
}

/// Returns the cores that this process may use.
#[must_use]
pub(crate) fn allowed_cores() -> Vec<u16> {
    let Ok(set) = sched_getaffinity(None) else { return vec![0] };
    let cores = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu));
    cores.filter_map(|cpu| u16::try_from(cpu).ok()).collect()
}

/// Lets this thread, and the programs that it starts, use these cores.
///
/// # Errors
/// The kernel refuses the affinity.
pub(crate) fn set_affinity(cores: &[u16]) -> Result<()> {
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(usize::from(*core)));
    sched_setaffinity(None, &set).context("change the affinity of this thread")
}

/// DPDK and the pool of packet buffers.
#[derive(Debug)]
pub(crate) struct Testbed {
    eal: Eal,
    pool: Mempool,
    arguments: TestbedArguments,
    /// Cores of the process, before this thread was pinned.
    cores: Vec<u16>,
}

impl Testbed {
    /// Starts DPDK on this thread, which is pinned to the tester's core from then on.
    ///
    /// # Errors
    /// DPDK does not start; a device string is invalid.
    pub(crate) fn start(arguments: &TestbedArguments, devices: &[String]) -> Result<Self> {
        let cores = allowed_cores();
        let devices = devices.iter().map(|text| device(text)).collect::<Result<Vec<_>>>()?;
        let config = EalConfig {
            hugepages: HugepageMode::Auto,
            memory_mib: arguments.memory,
            main_cpus: vec![arguments.tester_core()],
            file_prefix: format!("adit-lab-{}", std::process::id()),
            devices,
            ..EalConfig::default()
        };
        let eal = Eal::init(&config).map_err(|error| environment(error.to_string()))?;
        let pool = MempoolConfig {
            mbufs: arguments.mbufs,
            cache: 512,
            data_room_bytes: DATA_ROOM_BYTES,
            ..MempoolConfig::default()
        };
        let pool = Mempool::create(&eal, &pool)
            .map_err(|error| environment(format!("{error} (--memory, --mbufs)")))?;
        Ok(Self { eal, pool, arguments: arguments.clone(), cores })
    }

    /// Opens a port with one queue each way.
    ///
    /// # Errors
    /// The device string is invalid, or DPDK refuses the port.
    pub(crate) fn open(&self, text: &str) -> Result<(Port, WorkerPort)> {
        let device = device(text)?;
        let config = PortConfig {
            device: &device,
            rx_queues: 1,
            tx_queues: 1,
            rx_descriptors: self.arguments.descriptors,
            tx_descriptors: self.arguments.descriptors,
            mtu_bytes: self.arguments.mtu,
            promiscuous: true,
            mempool: &self.pool,
        };
        let (port, rx, tx) = Port::open(&self.eal, &config)
            .map_err(|error| environment(format!("port {text}: {error}")))?;
        let info = port.info();
        let queues = rx.into_iter().next().zip(tx.into_iter().next());
        let (rx, tx) = queues.context("a port without queues")?;
        Ok((port, WorkerPort { rx: vec![rx], tx: Some(tx), info }))
    }

    /// Returns the pool, for [`adit_dpdk::WorkerIo`].
    #[must_use]
    pub(crate) fn pool(&self) -> Mempool {
        self.pool.clone()
    }

    /// Returns the EAL.
    #[must_use]
    pub(crate) fn eal(&self) -> &Eal {
        &self.eal
    }

    /// Returns the clock of the engine.
    #[must_use]
    pub(crate) fn clock(&self) -> TscClock {
        TscClock { hz: self.eal.tsc_hz() }
    }

    /// Returns the tester's core.
    #[must_use]
    pub(crate) fn core(&self) -> u16 {
        self.arguments.core.or_else(|| self.cores.first().copied()).unwrap_or(0)
    }

    /// Runs `work` while this thread may use every core of the process, so that child processes
    /// inherit that affinity. Afterwards the thread is pinned again.
    ///
    /// # Errors
    /// `work` fails; the kernel refuses the affinity.
    pub(crate) fn on_all_cores<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.on_cores(&self.cores, work)
    }

    /// Runs `work` while this thread may use these cores, then pins the thread again.
    ///
    /// # Errors
    /// `work` fails; the kernel refuses the affinity.
    pub(crate) fn on_cores<T>(&self, cores: &[u16], work: impl FnOnce() -> Result<T>) -> Result<T> {
        set_affinity(cores)?;
        let result = work();
        pin_current_thread(self.core()).map_err(|error| environment(error.to_string()))?;
        result
    }

    /// Returns a core of the process other than the tester's, if there is one.
    #[must_use]
    pub(crate) fn other_core(&self) -> Option<u16> {
        self.other_cores().next()
    }

    /// Returns the cores of the process other than the tester's.
    pub(crate) fn other_cores(&self) -> impl Iterator<Item = u16> + '_ {
        self.cores.iter().copied().filter(|core| *core != self.core())
    }

    /// Runs `work` on a thread pinned to the tester's core, while this thread prints progress.
    ///
    /// # Errors
    /// `work` fails; the thread cannot be pinned or registered.
    pub(crate) fn on_tester<T: Send>(
        &self,
        live: &TrialProgress,
        what: &str,
        work: impl FnOnce() -> Result<T> + Send,
    ) -> Result<T> {
        let done = AtomicBool::new(false);
        live.restart();
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let result = on_core(&self.eal, self.core(), work);
                done.store(true, Ordering::Release);
                result
            });
            progress::watch(live, what, &done);
            worker.join().map_err(|_| anyhow!("the tester's thread panicked"))?
        })
    }
}

/// Pins the calling thread, registers it with DPDK, and runs `work`.
///
/// # Errors
/// `work` fails; the thread cannot be pinned or registered.
pub(crate) fn on_core<T>(eal: &Eal, core: u16, work: impl FnOnce() -> Result<T>) -> Result<T> {
    pin_current_thread(core).map_err(|error| environment(error.to_string()))?;
    let guard = register_thread(eal).context("register a thread with DPDK")?;
    let result = work();
    drop(guard);
    result
}

fn device(text: &str) -> Result<Device> {
    Device::from_str(text).map_err(|error| environment(format!("device \"{text}\": {error}")))
}

/// Returns a name for a memif socket of this process, in the abstract namespace.
#[must_use]
pub(crate) fn memif_socket(name: &str) -> String {
    format!("/adit-lab-{}-{name}.sock", std::process::id())
}

/// Returns the address of [`memif_socket`].
#[must_use]
pub(crate) fn memif_address(name: &str) -> MemifAddress {
    MemifAddress::Abstract(memif_socket(name))
}

/// Returns the server to which DPDK's memif driver connects for a device string; `None` if the port
/// is no client of a memif. Without arguments the driver is a client of the abstract socket
/// `/run/memif.sock`.
///
/// # Errors
/// The device string is invalid.
pub(crate) fn memif_server_of(text: &str) -> Result<Option<MemifAddress>> {
    let device = device(text)?;
    if !device.is_driver("net_memif") || device.argument("role") == Some("server") {
        return Ok(None);
    }
    let socket = device.argument("socket").unwrap_or("/run/memif.sock");
    Ok(Some(match device.argument("socket-abstract") {
        Some("no") => MemifAddress::File(socket.into()),
        _ => MemifAddress::Abstract(socket.to_owned()),
    }))
}

/// Waits until the links of all ports are up.
///
/// # Errors
/// A port has no link after `timeout`; `stop` was raised.
pub(crate) fn wait_for_links(
    names: &[String],
    ports: &[Port],
    timeout: std::time::Duration,
    stop: &adit_lab_process::stop::Stop,
    mut watch: impl FnMut() -> Result<()>,
) -> Result<()> {
    let end = std::time::Instant::now() + timeout;
    loop {
        let mut named = names.iter().zip(ports);
        let down = named.find(|(_, port)| !port.details().is_ok_and(|now| now.link_up));
        let Some((name, _)) = down else { return Ok(()) };
        if std::time::Instant::now() >= end {
            bail!(
                "port {name}: no link within {timeout:?}; check that the target runs and has opened the other end"
            );
        }
        watch()?;
        stop.sleep(adit_lab_process::stop::POLL)?;
    }
}
