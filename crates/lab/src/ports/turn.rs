//! One turn: a network with one kind of port, its sessions, and the traffic of each direction.

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use adit_lab_engine::frame::{Endpoints, PROBE_PORT};
use adit_pfcp::PFCP_PORT;
use adit_types::{Qfi, Teid};
use adit_wire::gtpu;
use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::cpu_time::{NapiThreads, cpu_ns};
use super::sender::{PacketSender, SessionPackets};
use super::{PortDirection, PortKind, SERVER};
use crate::PortsArguments;
use crate::adit_process::Adit;
use crate::demo::bring_up::{self, Affinity, DIR_PREFIX, QFI, RUN_DIR, RunDir};
use crate::netns::{NetNamespace, remove_stale};
use crate::topology::{ADIT_N3, ADIT_N4, DN, DN_V6, GNB, PREFIXES, SMF, Topology};
use adit_lab_process::adit_binary::find_binary;
use adit_lab_process::adit_config::ExecutionModel;
use adit_lab_process::stop::{Stop, environment};
use adit_lab_smf::bulk::{SessionsConfig, TeidAllocation};
use adit_lab_smf::identity::SmfIdentity;
use adit_lab_smf::{LabSmf, SessionProfile, SmfOptions};

const READY_TIMEOUT: Duration = Duration::from_secs(20);
/// Traffic before the measurement: neighbors are resolved, and caches are warm.
const WARM_UP: Duration = Duration::from_millis(700);
/// TEID of the first session at the gNB.
const GNB_TEID: u32 = 0x1000;
const UE: Ipv4Addr = Ipv4Addr::new(10, 45, 0, 2);
/// No usage report interrupts a turn.
const THRESHOLD_BYTES: u64 = 1 << 40;
/// Requests of the SMF under way.
const WINDOW: usize = 32;

/// What one turn saw.
#[derive(Debug, Clone, Serialize)]
pub(super) struct TurnFigures {
    /// Packets that the other side received. Unit: million per second.
    pub mpps: f64,
    /// CPU time of adit and of the threads that poll its devices.
    pub cpu_percent: f64,
    pub mpkts_per_cpu_s: f64,
}

/// A running network. Fields drop in order.
#[derive(Debug)]
pub(super) struct Turn {
    adit: Adit,
    /// Answers heartbeats.
    _smf: LabSmf,
    /// Sockets that take the packets, so that no kernel answers them. Nothing reads them.
    _sinks: [UdpSocket; 2],
    napi: NapiThreads,
    topology: Topology,
    sessions: Vec<SessionPackets>,
    _dir: RunDir,
}

impl Turn {
    /// Creates the network, starts adit with ports of the kind, and establishes the sessions.
    ///
    /// # Errors
    /// The machine lacks something; adit does not start, or refuses a session; interrupted.
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
        let napi = NapiThreads::start(topology.upf.name(), &["n3", "n6"], cores.worker)?;
        NapiThreads::receive_at_once(topology.ran.name(), &["n3"], cores.main)?;
        NapiThreads::receive_at_once(topology.dn.name(), &["n6"], cores.main)?;
        let model = ExecutionModel::RunToCompletion;
        let device = io.device();
        affinity.allow_all()?;
        let adit = Adit::start(&binary, &topology, dir.path(), device, model, cores, "");
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
        let ue = |position: u32| Ipv4Addr::from_bits(UE.to_bits().wrapping_add(position));
        smf.answer_in_background()?;
        let flows = (0..).zip(&ids.uplink_teids);
        let flows = flows.map(|(at, teid)| SessionPackets { ue: ue(at), uplink_teid: Teid(*teid) });
        let sinks = [
            bind(&topology.ran, (GNB, gtpu::UDP_PORT).into())?,
            bind(&topology.dn, (SERVER, PROBE_PORT).into())?,
        ];
        let sessions = flows.collect();
        Ok(Self { adit, _smf: smf, _sinks: sinks, napi, topology, sessions, _dir: dir })
    }

    /// Sends packets of all sessions in one direction.
    ///
    /// # Errors
    /// No packet arrives on the other side; adit has ended; interrupted.
    pub(super) fn measure(
        &mut self,
        direction: PortDirection,
        arguments: &PortsArguments,
        stop: &Stop,
    ) -> Result<TurnFigures> {
        let (ran, dn) = ((&self.topology.ran, "n3"), (&self.topology.dn, "n6"));
        let (from, (to, device)) = match direction {
            PortDirection::Uplink => (bind(ran.0, (GNB, 0).into())?, dn),
            PortDirection::Downlink => (bind(dn.0, (SERVER, 0).into())?, ran),
        };
        let qfi = Qfi::new(QFI).context("the QFI has six bits")?;
        let sender = PacketSender::start(from, direction, &self.sessions, qfi)?;
        stop.sleep(WARM_UP)?;
        let process = self.adit.id();
        let (began, pkts, cpu) =
            (Instant::now(), received_pkts(to, device)?, cpu_ns(process, &self.napi)?);
        stop.sleep(Duration::from_secs(arguments.duration.into()))?;
        let elapsed_s = began.elapsed().as_secs_f64();
        let pkts = received_pkts(to, device)? - pkts;
        let cpu_s = Duration::from_nanos(cpu_ns(process, &self.napi)? - cpu).as_secs_f64();
        drop(sender);
        self.adit.check_running()?;
        if pkts == 0 {
            bail!("no {direction} packet arrived; adit's log:\n{}", self.adit.log_tail());
        }
        let mpkts = f64::from(u32::try_from(pkts)?) / 1e6;
        Ok(TurnFigures {
            mpps: mpkts / elapsed_s,
            cpu_percent: cpu_s / elapsed_s * 100.0,
            mpkts_per_cpu_s: mpkts / cpu_s,
        })
    }
}

fn bind(namespace: &NetNamespace, addr: SocketAddr) -> Result<UdpSocket> {
    namespace.enter(|| bring_up::bind(addr))
}

fn sessions(count: u32) -> SessionsConfig {
    SessionsConfig {
        count,
        endpoints: Endpoints {
            ue_v4: UE,
            ue_v6: Ipv6Addr::new(0x2001, 0xdb8, 0x45, 0, 0, 0, 0, 0),
            server_v4: SERVER,
            server_v6: DN_V6,
        },
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

/// Packets that a device of a namespace has received.
///
/// # Errors
/// There is no such device.
fn received_pkts(namespace: &NetNamespace, device: &str) -> Result<u64> {
    namespace.enter(|| {
        let text = fs::read_to_string("/proc/thread-self/net/dev").context("read net/dev")?;
        counted_pkts(&text, device).with_context(|| format!("no device {device}"))
    })
}

/// The second column of a device in `/proc/net/dev`.
fn counted_pkts(text: &str, device: &str) -> Option<u64> {
    let line =
        text.lines().find_map(|line| line.trim_start().strip_prefix(device)?.strip_prefix(':'));
    line?.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn received_packets_are_the_second_column() {
        let text = "Inter-|   Receive\n face |bytes    packets errs\n    lo:  10 1 0\n n3:  900 7 0 0\n n33: 1 2";
        assert_eq!(counted_pkts(text, "n3"), Some(7));
        assert_eq!(counted_pkts(text, "n6"), None);
    }
}
