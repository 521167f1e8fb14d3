//! Measures one kind of port: creates a network with such ports and its sessions, and sends traffic
//! in each direction.

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use adit_pfcp::PFCP_PORT;
use anyhow::{Context, Result, bail};

use super::cpu_time::{NapiThreads, process_cpu_ns};
use super::programs::{PacketSink, SendWindow};
use super::sender::PacketSender;
use super::{ENDPOINTS, SERVER, device};
use crate::adit_process::{Adit, AditSetup};
use crate::demo::bring_up::{self, Affinity, DIR_PREFIX, QFI, RUN_DIR, RunDir};
use crate::topology::{ADIT_N3, ADIT_N4, DN, GNB, PREFIXES, SMF, Topology};
use adit_lab_measure::ports::{PortDirection, PortKind, PortsArguments, TurnFigures};
use adit_lab_process::adit_binary::find_binary;
use adit_lab_process::adit_config::ExecutionModel;
use adit_lab_process::netns::{NetNamespace, remove_stale};
use adit_lab_process::stop::{Stop, environment};
use adit_lab_smf::bulk::{SessionsConfig, TeidAllocation};
use adit_lab_smf::identity::SmfIdentity;
use adit_lab_smf::{LabSmf, SessionProfile, SmfOptions};

const READY_TIMEOUT: Duration = Duration::from_secs(20);
/// Duration of traffic before the measurement, to resolve neighbors and warm caches.
const WARM_UP: Duration = Duration::from_millis(700);
/// TEID of the first session at the gNB.
const GNB_TEID: u32 = 0x1000;
/// Volume threshold of URRs, so large that no usage report interferes.
const THRESHOLD_BYTES: u64 = 1 << 40;
/// Maximum number of open requests of the SMF.
const WINDOW: usize = 32;

/// Counts at one moment.
#[derive(Debug)]
struct TurnReading {
    at: Instant,
    offered_pkts: u64,
    received_pkts: u64,
    adit_ns: u64,
    sender_ns: u64,
    receivers_ns: u64,
}

impl TurnReading {
    fn since(&self, before: &Self, direction: PortDirection) -> Result<TurnFigures> {
        let elapsed_s = self.at.duration_since(before.at).as_secs_f64();
        let mpkts = |now: u64, then: u64| -> Result<f64> {
            Ok(f64::from(u32::try_from(now.saturating_sub(then))?) / 1e6)
        };
        let seconds = |now: u64, then| Duration::from_nanos(now.saturating_sub(then)).as_secs_f64();
        let received = mpkts(self.received_pkts, before.received_pkts)?;
        let adit_s = seconds(self.adit_ns, before.adit_ns);
        let percent = |now, then| seconds(now, then) / elapsed_s * 100.0;
        Ok(TurnFigures {
            direction,
            offered_mpps: mpkts(self.offered_pkts, before.offered_pkts)? / elapsed_s,
            mpps: received / elapsed_s,
            cpu_percent: adit_s / elapsed_s * 100.0,
            sender_percent: percent(self.sender_ns, before.sender_ns),
            receiver_percent: percent(self.receivers_ns, before.receivers_ns),
            mpkts_per_cpu_s: received / adit_s,
        })
    }
}

/// A running network. Fields are dropped in order.
#[derive(Debug)]
pub(super) struct Turn {
    adit: Adit,
    /// Runs only to answer heartbeats.
    _smf: LabSmf,
    /// Kernel threads that poll adit's devices.
    pollers: NapiThreads,
    /// Kernel threads that poll the devices at the other ends of the links.
    receivers: [NapiThreads; 2],
    /// Programs that drop the packets at the other ends of the links.
    sinks: [PacketSink; 2],
    topology: Topology,
    uplink_teids: Vec<u32>,
    _dir: RunDir,
}

impl Turn {
    /// Creates the network, starts adit with ports of the kind `io`, and establishes the sessions.
    ///
    /// # Errors
    /// The machine lacks something, adit does not start or refuses a session, or a signal
    /// interrupts.
    pub(super) fn bring_up(
        arguments: &PortsArguments,
        io: PortKind,
        affinity: &Affinity,
        stop: &Stop,
    ) -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            return Err(environment("run as root: sudo adit-lab ports"));
        }
        let cores = affinity.cores;
        let binary = find_binary(arguments.adit.as_deref())?;
        remove_stale(&PREFIXES, Path::new(RUN_DIR), DIR_PREFIX)?;
        let pid = std::process::id();
        let dir = RunDir::create(pid)?;
        let topology = Topology::create(pid, false, 1)?;
        if io == PortKind::Kernel {
            topology.give_links_to_kernel(false)?;
            topology.upf.ip_batch(&[], &format!("route add {SERVER}/32 via {DN}\n"))?;
        }
        topology.poll_links()?;
        topology.dn.ip_batch(&[], &format!("address add {SERVER}/32 dev lo\n"))?;
        let pollers = NapiThreads::start(topology.upf.name(), &["n3", "n6"], cores.worker)?;
        let ends = [(&topology.ran, "n3"), (&topology.dn, "n6")];
        let start = |(namespace, device): (&NetNamespace, &str)| {
            NapiThreads::start_with_priority(namespace.name(), &[device], cores.main)
        };
        let receivers = [start(ends[0])?, start(ends[1])?];
        let attach = |(namespace, device): (&NetNamespace, &str)| {
            let index = namespace.device(device)?.index;
            namespace.enter(|| PacketSink::attach(index))
        };
        let sinks = [attach(ends[0])?, attach(ends[1])?];
        let model = ExecutionModel::RunToCompletion;
        let setup = AditSetup { device: device(io), model, cores };
        affinity.allow_all()?;
        let adit = Adit::start(&binary, &topology, dir.path(), setup, "");
        affinity.leave_worker_alone()?;
        let mut adit = adit?;
        let identity = SmfIdentity { address: SMF.into(), name: None };
        let options = SmfOptions { window: WINDOW, rate: None, keeps_reports: false };
        let socket = bind(&topology.ran, (SMF, PFCP_PORT).into())?;
        let mut smf = LabSmf::start(socket, (ADIT_N4, PFCP_PORT).into(), identity, options)?;
        let mut watch = || stop.check().and_then(|()| adit.check_running());
        let ready = smf.associate(READY_TIMEOUT, &mut watch);
        let ready =
            ready.and_then(|()| smf.establish_all(&sessions(arguments.sessions), &mut watch));
        let (ids, _) = ready.with_context(|| format!("adit's log:\n{}", adit.log_tail()))?;
        smf.answer_in_background()?;
        let uplink_teids = ids.uplink_teids;
        Ok(Self { adit, _smf: smf, pollers, receivers, sinks, topology, uplink_teids, _dir: dir })
    }

    /// Sends packets of all sessions in one direction, and measures.
    ///
    /// # Errors
    /// No packet arrives on the other side, adit has ended, or a signal interrupts.
    pub(super) fn measure(
        &mut self,
        direction: PortDirection,
        arguments: &PortsArguments,
        stop: &Stop,
    ) -> Result<TurnFigures> {
        let [ran, dn] = &self.sinks;
        let (from, link, sink) = match direction {
            PortDirection::Uplink => (&self.topology.ran, "n3", dn),
            PortDirection::Downlink => (&self.topology.dn, "n6", ran),
        };
        let (device, adit_mac) = (from.device(link)?, self.topology.upf.device(link)?.mac);
        let sender = from.enter(|| {
            let teids = &self.uplink_teids;
            let window = SendWindow { sink, pkts_max: arguments.in_flight };
            PacketSender::start(direction, teids, device, adit_mac, window)
        })?;
        let read = || -> Result<TurnReading> {
            let [n3, n6] = &self.receivers;
            Ok(TurnReading {
                at: Instant::now(),
                offered_pkts: sender.offered_pkts()?,
                received_pkts: sink.arrived_pkts()?,
                adit_ns: process_cpu_ns(self.adit.id())? + self.pollers.cpu_ns()?,
                sender_ns: sender.cpu_ns()?,
                receivers_ns: n3.cpu_ns()? + n6.cpu_ns()?,
            })
        };
        stop.sleep(WARM_UP)?;
        let before = read()?;
        stop.sleep(Duration::from_secs(arguments.duration.into()))?;
        let after = read()?;
        sender.stop()?;
        self.adit.check_running()?;
        if after.received_pkts == before.received_pkts {
            bail!("no {direction} packet arrived; adit's log:\n{}", self.adit.log_tail());
        }
        after.since(&before, direction)
    }
}

fn bind(namespace: &NetNamespace, addr: SocketAddr) -> Result<UdpSocket> {
    namespace.enter(|| bring_up::bind(addr))
}

fn sessions(count: u32) -> SessionsConfig {
    SessionsConfig {
        count,
        endpoints: ENDPOINTS,
        ipv6: false,
        gnbs: vec![GNB.into()],
        gnb_teid: GNB_TEID,
        upf: ADIT_N3.into(),
        teids: TeidAllocation::Chosen,
        profile: SessionProfile {
            qfi: Some(QFI),
            urrs: 1,
            urr_threshold_bytes: Some(THRESHOLD_BYTES),
            ..SessionProfile::default()
        },
        profiles: Vec::new(),
        network_instances: [None, None],
    }
}
