//! Creates the demo's network: namespaces, UEs, gNB, SMF and adit.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;

use adit_pfcp::PFCP_PORT;
use adit_types::Qfi;
use adit_wire::gtpu;
use anyhow::{Context, Result, anyhow};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::live::DemoView;
use super::programs;
use crate::adit_process::{Adit, AditSetup, CoreAssignment, PacketDevice, queue_pairs};
use crate::gnb::Gnb;
use crate::router::Router;
use crate::topology::{ADIT_N3, ADIT_N4, GNB, PREFIXES, SMF, SMF_GTPU, Topology};
use crate::{DatapathChoice, DemoArguments};
use adit_lab_process::adit_binary::find_binary;
use adit_lab_process::adit_config::WorkerPoll;
use adit_lab_process::netns::remove_stale;
use adit_lab_process::stop::{EnvironmentError, Interrupted, Stop, environment};
use adit_lab_smf::identity::SmfIdentity;
use adit_lab_smf::{LabSmf, SmfOptions};

/// The QoS flow of every PDU session.
pub(crate) const QFI: u8 = 9;
/// Parent directory of the directories of all runs; these are named by the prefix and the process
/// id.
pub(crate) const RUN_DIR: &str = "/run";
pub(crate) const DIR_PREFIX: &str = "adit-lab-";
/// Timeout for adit to start and answer the association request; then the timeout for an echo.
const READY_TIMEOUT: Duration = Duration::from_secs(10);
const ECHO_TIMEOUT: Duration = Duration::from_secs(5);

/// The directory of one run. Drop removes it.
#[derive(Debug)]
pub(crate) struct RunDir(PathBuf);

impl RunDir {
    /// Creates the directory of the process `pid`.
    ///
    /// # Errors
    /// The directory exists, or cannot be created.
    pub(crate) fn create(pid: u32) -> Result<Self> {
        let path = Path::new(RUN_DIR).join(format!("{DIR_PREFIX}{pid}"));
        fs::create_dir(&path).with_context(|| format!("create {}", path.display()))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("adit-lab: cannot remove {}: {error}", self.0.display());
        }
    }
}

/// Additions to the demo's network.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BringUpOptions<'a> {
    /// TOML text to append to adit's configuration.
    pub sections: &'a str,
    /// True to add the second data network; the network instances are then `internet` and `corp`.
    pub corp: bool,
    /// True if packets are captured one by one: the kernel must then not join packets into large
    /// ones.
    pub has_captures: bool,
    /// MTU of adit's links; `None` for the MTU of the topology. Unit: octets.
    pub mtu_bytes: Option<u16>,
}

/// Everything that runs. Fields are dropped in order, so users of a namespace or of the directory
/// are before it.
#[derive(Debug)]
pub(crate) struct Network {
    /// The UPF under test.
    pub adit: Adit,
    /// The SMF.
    pub smf: LabSmf,
    /// The SMF's user plane.
    pub router: Router,
    /// The RAN.
    pub gnb: Gnb,
    /// The namespaces.
    pub topology: Topology,
    /// The driver of adit's ports.
    pub device: PacketDevice,
    /// The reason why AF_XDP failed, if it was tried.
    pub af_xdp_refused: Option<String>,
    /// Round-trip time of the GTP-U echo.
    pub echo: Duration,
    /// The CPU cores.
    pub affinity: Affinity,
    pub(super) dir: RunDir,
}

impl Network {
    /// Creates the network, and waits until adit has an association and answers a GTP-U echo.
    ///
    /// # Errors
    /// [`EnvironmentError`] if the machine lacks something; another error if adit is not ready in
    /// time.
    pub(crate) fn bring_up(
        arguments: &DemoArguments,
        plan: BringUpOptions<'_>,
        live: &DemoView,
        stop: &Stop,
    ) -> Result<Self> {
        check_possible(arguments)?;
        let binary = find_binary(arguments.adit.as_deref())?;
        for name in remove_stale(&PREFIXES, Path::new(RUN_DIR), DIR_PREFIX)? {
            live.print_line(&format!("removed {name} of a lab that was killed"));
        }
        let qfi = Qfi::new(QFI).context("the QFI has six bits")?;
        let affinity = Affinity::new(arguments.datapath != DatapathChoice::Kernel)?;

        live.phase("namespaces, links and UEs");
        let pid = std::process::id();
        let dir = RunDir::create(pid)?;
        let mut topology = Topology::create(pid, plan.corp, queue_pairs(arguments.model))?;
        if let Some(mtu_bytes) = plan.mtu_bytes {
            topology.set_link_mtu(mtu_bytes)?;
        }
        let devices = topology.create_ues(arguments.ues)?;
        let gnb = topology.ran.enter(|| bind((GNB, gtpu::UDP_PORT).into()))?;
        let gnb = Gnb::start(gnb, ADIT_N3, qfi, devices)?;
        let smf = topology.ran.enter(|| bind((SMF, PFCP_PORT).into()))?;
        let identity = SmfIdentity { address: SMF.into(), name: None };
        let options = SmfOptions { window: 1, rate: None, keeps_reports: true };
        let smf = LabSmf::start(smf, (ADIT_N4, PFCP_PORT).into(), identity, options)?;
        let router = topology.ran.enter(|| bind((SMF_GTPU, gtpu::UDP_PORT).into()))?;
        let router = Router::start(router, ADIT_N3)?;

        let start = |device: PacketDevice| -> Result<(Adit, Duration)> {
            live.phase(&format!("adit on {}: start and association", device.name()));
            affinity.allow_all()?;
            let setup = AditSetup { device, model: arguments.model, cores: affinity.cores };
            let adit = Adit::start(&binary, &topology, dir.path(), setup, plan.sections);
            affinity.leave_worker_alone()?;
            let mut adit = adit?;
            let ready = get_ready(&mut adit, &smf, &gnb, stop);
            ready.map(|echo| (adit, echo))
        };
        match arguments.datapath {
            DatapathChoice::Kernel => topology.give_links_to_kernel(plan.has_captures)?,
            DatapathChoice::Xdp => topology.enable_gro_for_programs()?,
            DatapathChoice::AfXdp | DatapathChoice::AfPacket | DatapathChoice::Auto => {}
        }
        let on = |device| start(device).map(|running| (running, device, None));
        let ((adit, echo), device, af_xdp_refused) = match arguments.datapath {
            DatapathChoice::Kernel => on(PacketDevice::Kernel)?,
            DatapathChoice::Xdp => on(PacketDevice::Xdp)?,
            DatapathChoice::AfXdp => on(PacketDevice::AfXdp)?,
            DatapathChoice::AfPacket => on(PacketDevice::AfPacket)?,
            DatapathChoice::Auto => match on(PacketDevice::AfXdp) {
                Ok(running) => running,
                Err(error) => {
                    let why = reason_of_af_xdp(error, live)?;
                    (start(PacketDevice::AfPacket)?, PacketDevice::AfPacket, Some(why))
                }
            },
        };
        live.print_line(&format!("adit runs on {}", device.name()));
        Ok(Self { adit, smf, router, gnb, topology, device, af_xdp_refused, echo, affinity, dir })
    }

    /// Returns the directory of this run.
    #[must_use]
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }
}

/// Checks that the network can be created.
///
/// # Errors
/// [`EnvironmentError`] if options of the command line exclude each other, or if the machine lacks
/// something.
fn check_possible(arguments: &DemoArguments) -> Result<()> {
    let is_af_xdp = matches!(arguments.datapath, DatapathChoice::Xdp | DatapathChoice::AfXdp);
    let pairs = queue_pairs(arguments.model);
    if is_af_xdp && pairs > 1 {
        return Err(environment(format!(
            "the pipeline needs {pairs} queue pairs of each device, but AF_XDP has one of a veth device: \
             take --io af-packet or --io kernel",
        )));
    }
    if !rustix::process::geteuid().is_root() {
        return Err(environment("run as root: sudo adit-lab demo"));
    }
    programs::check_installed()
}

/// Returns the reason why AF_XDP does not work here.
///
/// # Errors
/// The failure has nothing to do with AF_XDP.
fn reason_of_af_xdp(error: anyhow::Error, live: &DemoView) -> Result<String> {
    if error.is::<Interrupted>() || error.is::<EnvironmentError>() {
        return Err(error);
    }
    live.print_line(&format!("AF_XDP does not work here: {error:#}"));
    // The first line is the reason; the other lines are adit's log.
    Ok(error.to_string().lines().next().unwrap_or_default().to_owned())
}

fn get_ready(adit: &mut Adit, smf: &LabSmf, gnb: &Gnb, stop: &Stop) -> Result<Duration> {
    let ready = smf
        .associate(READY_TIMEOUT, || stop.check().and_then(|()| adit.check_running()))
        .and_then(|()| gnb.echo(ECHO_TIMEOUT, stop));
    ready.map_err(|error| {
        if error.is::<Interrupted>() {
            return error;
        }
        // Later another adit is started, or the end of the run removes the log.
        anyhow!("{error:#}\nthe last lines of its log:\n{}", adit.log_tail())
    })
}

/// Binds a UDP socket in the namespace of this thread.
///
/// # Errors
/// The address is in use, or does not belong to this namespace.
pub(crate) fn bind(addr: SocketAddr) -> Result<UdpSocket> {
    UdpSocket::bind(addr).with_context(|| format!("bind {addr}"))
}

/// The CPU cores of this process and of adit.
#[derive(Debug)]
pub(crate) struct Affinity {
    all: CpuSet,
    rest: CpuSet,
    /// The cores of adit.
    pub cores: CoreAssignment,
}

impl Affinity {
    /// Chooses adit's cores and moves this thread off the worker's core if the worker polls.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn new(polls: bool) -> Result<Self> {
        let all = sched_getaffinity(None).context("read the CPU affinity")?;
        let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| all.is_set(cpu)).collect();
        let poll = if polls { WorkerPoll::Busy } else { WorkerPoll::Adaptive };
        let cores = CoreAssignment { poll, ..CoreAssignment::among(&allowed) };
        let mut rest = all;
        if polls && cores.worker != cores.main {
            rest.unset(cores.worker);
        }
        let affinity = Self { all, rest, cores };
        affinity.leave_worker_alone()?;
        Ok(affinity)
    }

    /// Allows every core of the process to this thread, and to threads and processes that it starts
    /// from now on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn allow_all(&self) -> Result<()> {
        sched_setaffinity(None, &self.all).context("set the CPU affinity")
    }

    /// Keeps this thread, and threads and processes that it starts from now on, off the worker's
    /// core, because the worker polls.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn leave_worker_alone(&self) -> Result<()> {
        sched_setaffinity(None, &self.rest).context("set the CPU affinity")
    }
}
